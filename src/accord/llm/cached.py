"""Replies that were paid for are kept: an equal question to the same model is answered from the store."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Generic

from accord.llm.model import A, Model, Q, Reply, Usage, key_of
from accord.store import Store


def kept_key(endpoint: str, model: str, question: Any) -> str:
    """The key of a kept reply: the same name at another endpoint is another model."""
    return key_of(f"{endpoint} {model}", question)


def decode_reply(kept: dict[str, Any]) -> Reply:
    """A kept reply; it cost nothing this time."""
    return Reply(**{**kept, "usage": Usage()})


class Cached(Generic[Q, A]):
    """A model whose replies outlive it. Failures and refusals are never kept."""

    def __init__(self, model: Model[Q, A], store: Store, endpoint: str, decode: Callable[[dict[str, Any]], A]) -> None:
        """`endpoint` is part of the key: the same name elsewhere is another model. `decode` inverts `asdict`."""
        self.name = model.name
        self._model, self._store, self._endpoint, self._decode = model, store, endpoint, decode

    async def ask(self, question: Q) -> A:
        """The kept reply, or a new one, kept before it is returned."""
        key = kept_key(self._endpoint, self.name, question)
        kept = self._store.reply(key)
        if kept is not None:
            return self._decode(json.loads(kept))
        reply = await self._model.ask(question)
        self._store.add_reply(key, self.name, json.dumps(asdict(reply)))  # type: ignore[call-overload]
        return reply

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self._model.close()

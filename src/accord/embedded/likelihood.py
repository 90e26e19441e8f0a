"""Likelihoods by the embedded model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from accord.embedded.language_model import LanguageModel, TokenizedChat, open_language_model
from accord.models import EMBEDDED, Failure, Likelihood, LikelihoodRequest, LikelihoodResult, passage_hash

PASSAGES_AT_ONCE = 16
"""Passages per step; an interrupt waits for the end of the step."""


class EmbeddedLikelihood:
    """Likelihoods in the embedded model's chat format; passages with a common beginning are read together."""

    def __init__(self, model: LanguageModel) -> None:
        """Wrap a model of `open_language_model`."""
        self.name = f"{EMBEDDED}{model.name}"
        self._model = model

    def made_from(self, passage: LikelihoodRequest) -> Mapping[str, Any]:
        """Return the weights and the hash of the messages."""
        return {"model": self.name, "weights": self._model.fingerprint, "passage": passage_hash(passage)}

    def requests(self, passages: Sequence[LikelihoodRequest]) -> Sequence[Any]:
        """Return no requests."""
        return ()

    async def measure(self, passages: Sequence[LikelihoodRequest]) -> list[LikelihoodResult]:
        """Measure passages in steps of similar ones; a passage longer than the context is a failure."""
        chats = [self._model.chat([(m.role, m.content) for m in passage.messages]) for passage in passages]
        # Neighbors share the longest beginnings. Single messages come last: they fit any prefix.
        order = {i: (len(passages[i].messages) == 1, chat.tokens) for i, chat in enumerate(chats) if self._fits(chat)}
        fitting = sorted(order, key=order.__getitem__)
        results: dict[int, LikelihoodResult] = {}
        for start in range(0, len(fitting), PASSAGES_AT_ONCE):
            some = fitting[start : start + PASSAGES_AT_ONCE]
            parts = [(chats[i], passages[i].spoken) for i in some]
            likelihoods = await asyncio.to_thread(self._model.log_likelihoods, parts)
            for i, of_passage in zip(some, likelihoods, strict=True):
                results[i] = tuple(Likelihood(float(tokens.sum()), len(tokens)) for tokens in of_passage)
        return [results.get(i) or self._too_long(chat) for i, chat in enumerate(chats)]

    async def close(self) -> None:
        """Do nothing."""

    def _too_long(self, chat: TokenizedChat) -> Failure:
        return Failure("too long", f"{len(chat.tokens)} tokens exceed the {self._model.context} of {self.name}")

    def _fits(self, chat: TokenizedChat) -> bool:
        return len(chat.tokens) <= self._model.context


def open_embedded_likelihood(name: str) -> EmbeddedLikelihood:
    """Open the embedded model of a name such as `embedded:smollm2-135m`; see `open_language_model` for errors."""
    return EmbeddedLikelihood(open_language_model(name.removeprefix(EMBEDDED)))

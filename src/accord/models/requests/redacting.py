"""Redaction of requests that leave this machine, and the way back for their replies.

A request is redacted before its key is computed, so a stored reply belongs to the text that was sent: requests without
personal data keep their keys, and replies to other texts are never returned. Stored replies hold placeholders; they are
replaced by the original values when they are read, so that quotes are found in the stored conversation.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from accord.edges import is_local_address
from accord.models.likelihood import LikelihoodRequest
from accord.models.model import DEFAULT_URL, URL_VARIABLE, ChatMessage, ModelWrapper, Prompt, Reply, in_process
from accord.models.requests.flow import Request
from accord.models.requests.streaming import ReplyStream, stream_reply
from accord.redaction import Redaction, Redactor
from accord.values import Sample

_current: ContextVar[Redactor | None] = ContextVar("redactor", default=None)
_OPEN_PLACEHOLDER = re.compile(r"<[A-Z_]{0,32}\d{0,5}$")


@contextmanager
def redacted_by(redactor: Redactor | None) -> Iterator[None]:
    """Redact the texts for embedders at endpoints that code in the block opens by name, as metrics do."""
    token = _current.set(redactor)
    try:
        yield
    finally:
        _current.reset(token)


def current_redactor(endpoint: str) -> Redactor | None:
    """Return the redactor of `redacted_by` for requests to an endpoint, or `None` if they stay on this machine."""
    redactor = _current.get()
    return None if redactor is None or is_local_address(endpoint) else redactor


def address_of(base_url: str | None) -> str:
    """Return the address of an endpoint from its setting, the environment or the default."""
    return base_url or os.environ.get(URL_VARIABLE) or DEFAULT_URL


def redactor_for(redactor: Redactor | None, model: str, address: str) -> Redactor | None:
    """Return the redactor of requests to a model; None in this process, or at a loopback address.

    An empty address is unknown and counts as another machine.
    """
    stays = in_process(model) or (bool(address) and is_local_address(address))
    return None if redactor is None or stays else redactor


def sent_messages(messages: Sequence[ChatMessage], redaction: Redaction) -> tuple[ChatMessage, ...]:
    """Return messages with placeholders; equal values have the same one in all messages."""
    redaction.reserve(*(message.content for message in messages))
    return tuple(ChatMessage(message.role, redaction.text(message.content)) for message in messages)


def sent_requests(
    requests: Sequence[Request], redactor: Redactor | None
) -> tuple[Sequence[Request], list[Redaction | None]]:
    """Return requests with placeholders in their prompts or passages, and the redaction of each."""
    if redactor is None:
        return requests, [None] * len(requests)
    sent, redactions = list[Request](), list[Redaction | None]()
    for request in requests:
        assert isinstance(request.content, Prompt | LikelihoodRequest)
        redaction = redactor.begin()
        messages = sent_messages(request.content.messages, redaction)
        sent.append(replace(request, content=replace(request.content, messages=messages)))
        redactions.append(redaction)
    return sent, redactions


def sent_sample(sample: Sample, redactor: Redactor | None) -> Sample:
    """Return a sample with placeholders in its conversation."""
    return sample if redactor is None else replace(sample, conversation=redactor.conversation(sample.conversation))


def restored(answer: Any, redaction: Redaction | None) -> Any:
    """Return a reply with the original values in place of placeholders; any other answer as it is."""
    if redaction is None or not redaction.values or not isinstance(answer, Reply):
        return answer
    return replace(answer, text=_restored_text(answer.text, redaction))


def _restored_text(text: str, redaction: Redaction) -> str:
    if text.lstrip()[:1] not in ("{", "[", "`"):
        return redaction.restore(text)
    escaped = {name: json.dumps(value, ensure_ascii=False)[1:-1] for name, value in redaction.values.items()}
    return Redaction(redaction.redactor, escaped).restore(text)


class RedactedChat(ModelWrapper[Prompt, Reply]):
    """A chat model on another machine that sees placeholders; its replies have the original values."""

    def __init__(self, model: Any, redactor: Redactor) -> None:
        super().__init__(model)
        self._redactor = redactor

    async def ask(self, prompt: Prompt) -> Reply:
        """Return the reply to the redacted prompt."""
        redaction = self._redactor.begin()
        sent = replace(prompt, messages=sent_messages(prompt.messages, redaction))
        answer: Reply = restored(await self._model.ask(sent), redaction)
        return answer

    async def stream(self, prompt: Prompt) -> ReplyStream:
        """Yield the reply to the redacted prompt piece by piece; a placeholder comes in one piece."""
        redaction, held = self._redactor.begin(), ""
        sent = replace(prompt, messages=sent_messages(prompt.messages, redaction))
        async with aclosing(stream_reply(self._model, sent)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Reply):
                    if held:
                        yield held
                        held = ""
                    yield restored(piece, redaction)
                    continue
                text = held + piece
                end = _OPEN_PLACEHOLDER.search(text)
                held = "" if end is None else text[end.start() :]
                if ready := text[: len(text) - len(held)]:
                    yield redaction.restore(ready)
        if held:
            yield held

"""Streaming replies: pieces of text as they arrive, then the complete reply.

`stream_reply` streams any chat model; a model without streaming yields its reply in one piece. `StreamingClient` adds
the limit, retries and budget that other requests have. The caller stores replies.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from accord.edges import AccordError, redact
from accord.models.model import CallFailed, ChatModel, Prompt, Reply, Usage, estimated_usage
from accord.models.requests.budget import UNBILLED, Budget, billed_usage, is_unsent
from accord.models.requests.reply_parsing import (
    MALFORMED,
    TOO_LARGE,
    message_text,
    model_name,
    parse_json,
    read_usage,
    require_list,
    require_object,
    shorten,
)
from accord.models.requests.wrappers import Limit, Retrying

CUT_OFF = "cut off"
"""Reason of a reply whose connection ended before the reply did."""
EVENTS = "text/event-stream"
LONGEST_LINE = 1_000_000
"""Maximum bytes of one event, a thousand times a usual piece of text."""
ReplyStream = AsyncGenerator[str | Reply, None]


class StreamingChat(Protocol):
    """A chat model that yields pieces of text, then the complete reply with its usage."""

    name: str

    def stream(self, prompt: Prompt, /) -> ReplyStream:
        """Send one prompt and yield its reply as it arrives; close the generator to stop.

        Raises:
            CallFailed: This request failed; `cut off` if the connection ended within the reply.
            ModelError: No request can succeed.
        """
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


async def stream_reply(model: ChatModel | StreamingChat, prompt: Prompt, streams: bool = True) -> ReplyStream:
    """Yield a model's reply, piece by piece if the model streams and `streams` is true, otherwise in one piece."""
    stream = getattr(model, "stream", None) if streams else None
    if stream is None:
        reply = await model.ask(prompt)  # type: ignore[union-attr]
        if reply.text:
            yield reply.text
        yield reply
        return
    async with aclosing(stream(prompt)) as pieces:
        async for piece in pieces:
            yield piece


class StreamingClient:
    """A streaming model with a limit, a budget, and retries until the first piece of a reply arrives."""

    def __init__(
        self,
        model: ChatModel | StreamingChat,
        limit: Limit,
        budget: Budget,
        attempts: int,
        is_free: bool = False,
        streams: bool = True,
    ) -> None:
        """A model that `is_free` runs in this process and needs no limit, retries or budget."""
        self.name = model.name
        self._model, self._limit, self._budget, self._is_free = model, limit, budget, is_free
        self._streams = streams
        self._retrying: Retrying[Any, Any] = Retrying(model, attempts)  # type: ignore[arg-type]

    async def stream(self, prompt: Prompt) -> ReplyStream:
        """See `StreamingChat.stream`.

        Raises:
            BudgetReached: The request could exceed a cap; it was not sent.
        """
        if self._is_free:
            async with aclosing(stream_reply(self._model, prompt, self._streams)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        async with self._limit:
            attempt, has_begun, is_over = 0, False, False
            while not is_over:
                attempt += 1
                try:
                    async with aclosing(self._paid(prompt)) as pieces:
                        async for piece in pieces:
                            has_begun = True
                            yield piece
                    is_over = True
                except CallFailed as error:
                    self._limit.note(error.failure)
                    wait = self._retrying.wait_after(attempt, error.failure)
                    if has_begun or wait is None:
                        raise
                    await asyncio.sleep(wait)

    async def _paid(self, prompt: Prompt) -> ReplyStream:
        """Make one attempt; its estimate is reserved, and its usage is counted however it ends."""
        estimate, texts = estimated_usage(prompt), list[str]()
        self._budget.reserve(self.name, estimate)
        used: Usage | None = None
        unsent = False
        try:
            async with aclosing(stream_reply(self._model, prompt, self._streams)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Reply):
                        used = billed_usage(prompt, piece, estimate)
                    else:
                        texts.append(piece)
                    yield piece
        except AccordError as error:
            unsent = is_unsent(error)
            if isinstance(error, CallFailed) and error.failure.reason in UNBILLED and not texts:
                used = Usage()
            raise
        finally:
            # The endpoint reports no usage for an unfinished reply: count the prompt and the text received so far.
            received = used or billed_usage(prompt, Reply("".join(texts)), estimate)
            self._budget.settle(self.name, estimate, None if unsent else received)

    async def close(self) -> None:
        """Close the model's connections."""
        await self._model.close()


# --- the wire -------------------------------------------------------------------------------------------------------


class StreamedReply:
    """A chat completion that is received in pieces: bytes of an event stream to texts, then the complete reply."""

    def __init__(self, model: str, most: int) -> None:
        """`most` bounds the bytes of the whole stream."""
        self._model, self._most, self._rest = model, most, b""
        self._texts: list[str] = []
        self._usage = Usage()
        self._has_finished = False
        self.has_ended = False
        """True after the event that ends the stream."""

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Yield the texts of the events that are complete with these bytes; events without data are skipped.

        Raises:
            CallFailed: The stream is too large, or an event is not a JSON object; `refused`, `filtered`, `malformed`;
                `server` if the endpoint reports an error.
        """
        self._most -= len(chunk)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if self._most < 0 or len(self._rest) > LONGEST_LINE:
            raise CallFailed(TOO_LARGE, "the reply is larger than the limit")
        for line in lines:
            kind, _, data = line.strip().partition(b":")
            if kind != b"data" or self.has_ended:
                continue
            if data.strip() == b"[DONE]":
                self.has_ended = True
            elif data.strip() and (text := self._text(require_object(parse_json(data), "piece"))):
                yield text

    def _text(self, event: Mapping[str, Any]) -> str:
        """Return the text that an event adds, possibly empty."""
        if event.get("error"):
            error = event["error"]
            reason = error.get("message") if isinstance(error, Mapping) else error
            raise CallFailed("server", f"the endpoint stopped the reply: {shorten(reason)}")
        self._model = model_name(event.get("model"), self._model)
        if event.get("usage"):
            self._usage = read_usage(event["usage"])
        choices = require_list(event.get("choices") or [], "list of choices")
        if not choices:
            return ""
        choice = require_object(choices[0], "choice")
        text = message_text(choice, require_object(choice.get("delta") or {}, "piece"))
        self._has_finished = self._has_finished or bool(choice.get("finish_reason"))
        self._texts.append(text)
        return text

    def reply(self) -> Reply:
        """Return the complete reply.

        Raises:
            CallFailed: The reply has no end: `unreachable` if nothing arrived, otherwise `cut off`.
        """
        if not (self.has_ended or self._has_finished):
            raise self.broken()
        if not self._texts:
            raise CallFailed(MALFORMED, "the reply has no text")
        return Reply(redact("".join(self._texts)), self._model, None, self._usage)

    def broken(self) -> CallFailed:
        """Return the failure of a connection that ended before the reply did."""
        reason = CUT_OFF if any(self._texts) else "unreachable"
        return CallFailed(reason, "the connection ended before the reply did")

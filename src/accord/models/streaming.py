"""A chat model that is heard while it writes: pieces of text as they come, and last the reply that they make.

It is the second way through the chat seam, for people who wait. A model that cannot be heard is asked (`streamed`), so
that whoever listens need not know which it is. `Heard` is the wrapper: the same limit, retries and budget as when it is
asked; nothing is kept here, since each talk is a draw of its own and is kept by whoever leads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from accord.edges import AccordError, redacted
from accord.models.budget import UNBILLED, Budget, counted, is_unsent
from accord.models.http_safety import TOO_LARGE
from accord.models.model import CallFailed, ChatModel, Prompt, Reply, Usage, estimated_usage
from accord.models.reply_parsing import MALFORMED, a_list, a_name, a_text, an_object, parsed, short, usage_of
from accord.models.wrappers import Limit, Retrying

CUT_OFF = "cut off"
"""Why a reply has no end: the connection ended within it."""
EVENTS = "text/event-stream"
LONGEST_LINE = 1_000_000
"""Bytes of one event: a thousand times what a piece of text has."""
Pieces = AsyncGenerator[str | Reply, None]


class StreamingChat(Protocol):
    """The seam: pieces of text, and last the whole reply with what it cost."""

    name: str

    def stream(self, prompt: Prompt, /) -> Pieces:
        """Send one prompt, and hear the reply as it is written. To stop, close the generator.

        Raises:
            CallFailed: This call failed; `cut off` where it ended after some of it had come.
            ModelError: No call can succeed.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


async def streamed(model: ChatModel | StreamingChat, prompt: Prompt, streams: bool = True) -> Pieces:
    """What a model says, piece by piece where it can be heard, else all at once; see `StreamingChat.stream`."""
    hear = getattr(model, "stream", None) if streams else None
    if hear is None:
        reply = await model.ask(prompt)  # type: ignore[union-attr]
        if reply.text:
            yield reply.text
        yield reply
        return
    async with aclosing(hear(prompt)) as pieces:
        async for piece in pieces:
            yield piece


class Heard:
    """A model that is heard within a limit and a budget, and tried again as long as nothing of a reply has come."""

    def __init__(
        self,
        model: ChatModel | StreamingChat,
        limit: Limit,
        budget: Budget,
        attempts: int,
        is_free: bool = False,
        streams: bool = True,
    ) -> None:
        """`is_free` models run in this process: they are asked without limit, retries or budget."""
        self.name = model.name
        self._model, self._limit, self._budget, self._is_free = model, limit, budget, is_free
        self._streams = streams
        self._retrying: Retrying[Any, Any] = Retrying(model, attempts)  # type: ignore[arg-type]

    async def stream(self, prompt: Prompt) -> Pieces:
        """See `StreamingChat.stream`.

        Raises:
            BudgetReached: The call could pass a cap; it was not made.
        """
        if self._is_free:
            async with aclosing(streamed(self._model, prompt, self._streams)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        async with self._limit:
            attempt, has_come, is_over = 0, False, False
            while not is_over:
                attempt += 1
                try:
                    async with aclosing(self._paid(prompt)) as pieces:
                        async for piece in pieces:
                            has_come = True
                            yield piece
                    is_over = True
                except CallFailed as error:
                    self._limit.note(error.failure)
                    wait = self._retrying.wait_after(attempt, error.failure)
                    if has_come or wait is None:
                        raise
                    await asyncio.sleep(wait)

    async def _paid(self, prompt: Prompt) -> Pieces:
        """One attempt: its estimate is set aside, and what came of it is counted, however it ends."""
        estimate, said = estimated_usage(prompt), list[str]()
        self._budget.reserve(self.name, estimate)
        used: Usage | None = None
        unsent = False
        try:
            async with aclosing(streamed(self._model, prompt, self._streams)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Reply):
                        used = counted(prompt, piece, estimate)
                    else:
                        said.append(piece)
                    yield piece
        except AccordError as error:
            unsent = is_unsent(error)
            if isinstance(error, CallFailed) and error.failure.reason in UNBILLED and not said:
                used = Usage()
            raise
        finally:
            # The endpoint reports no usage for an unfinished reply: count the prompt and the text received so far.
            received = used or counted(prompt, Reply("".join(said)), estimate)
            self._budget.settle(self.name, estimate, None if unsent else received)

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self._model.close()


# --- the wire -------------------------------------------------------------------------------------------------------


class Events:
    """Bytes of an event stream, put together to the JSON of each event; what is no data is passed over."""

    def __init__(self, most: int) -> None:
        """`most` bytes may come in all."""
        self._most, self._rest, self.has_ended = most, b"", False

    def of(self, chunk: bytes) -> Iterator[Mapping[str, Any]]:
        """The events that are whole with these bytes.

        Raises:
            CallFailed: It is too much, or an event is no JSON object.
        """
        self._most -= len(chunk)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if self._most < 0 or len(self._rest) > LONGEST_LINE:
            raise CallFailed(TOO_LARGE, "the reply is larger than any that is read")
        for line in lines:
            kind, _, data = line.strip().partition(b":")
            if kind != b"data" or self.has_ended:
                continue
            if data.strip() == b"[DONE]":
                self.has_ended = True
            elif data.strip():
                yield an_object(parsed(data), "piece")


class Writing:
    """A reply as it comes over the wire of chat completions."""

    def __init__(self, model: str) -> None:
        self._asked = self._model = model
        self._said: list[str] = []
        self._usage = Usage()
        self.has_ended = False

    def take(self, event: Mapping[str, Any]) -> str:
        """The text that an event adds; may be empty.

        Raises:
            CallFailed: `refused`, `filtered`, `malformed`; `server` where the endpoint says that it failed.
        """
        if event.get("error"):
            said = event["error"]
            reason = said.get("message") if isinstance(said, Mapping) else said
            raise CallFailed("server", f"the endpoint broke off: {short(reason)}")
        self._model = a_name(event.get("model"), self._model)
        if event.get("usage"):
            self._usage = usage_of(event["usage"])
        choices = a_list(event.get("choices") or [], "list of choices")
        if not choices:
            return ""
        choice = an_object(choices[0], "choice")
        delta = an_object(choice.get("delta") or {}, "piece")
        refusal = a_text(delta.get("refusal"), "refusal")
        if refusal:
            raise CallFailed("refused", short(refusal))
        if choice.get("finish_reason") == "content_filter":
            raise CallFailed("filtered", "the endpoint's content filter withheld the answer")
        self.has_ended = self.has_ended or bool(choice.get("finish_reason"))
        text = a_text(delta.get("content"), "content")
        self._said.append(text)
        return text

    def reply(self, has_ended: bool) -> Reply:
        """All of it.

        Raises:
            CallFailed: It has no end: `unreachable` where nothing came, else `cut off`.
        """
        text = "".join(self._said)
        if not (has_ended or self.has_ended):
            raise self.broken()
        if not self._said:
            raise CallFailed(MALFORMED, "the reply has no text")
        return Reply(redacted(text), self._model, None, self._usage)

    def broken(self) -> CallFailed:
        """The failure of a connection that ended before the reply did."""
        reason = CUT_OFF if any(self._said) else "unreachable"
        return CallFailed(reason, "the connection ended before the reply did")

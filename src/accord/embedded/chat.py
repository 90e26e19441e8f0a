"""The embedded model as a chat model and as a likelihood model; a common beginning of prompts is read once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

import numpy as np

from accord.embedded.language_model import LanguageModel, TokenizedChat, open_language_model
from accord.models import (
    EMBEDDED,
    CallFailed,
    ChatModel,
    Failure,
    Likelihood,
    LikelihoodModel,
    LikelihoodRequest,
    LikelihoodResult,
    Prompt,
    Reply,
    ReplyStream,
    Usage,
    passage_hash,
)


@dataclass(frozen=True, slots=True)
class _QueuedPrompt:
    """A prompt that waits for its first token."""

    prompt: Prompt
    tokens: tuple[int, ...]
    reply: asyncio.Future[Reply]


class EmbeddedChat(ChatModel):
    """The embedded chat model. It writes text and gives token probabilities, without JSON Schemas.

    A model of this size is a poor judge (see the results in docs/methods.md); its likelihoods are good evidence.
    """

    def __init__(self, model: LanguageModel) -> None:
        """`endpoint` identifies the weights in the keys of stored replies."""
        self.name = f"{EMBEDDED}{model.name}"
        self.endpoint = f"{EMBEDDED}{model.fingerprint}"
        self._model = model
        self._queue: list[_QueuedPrompt] = []
        self._worker: asyncio.Task[None] | None = None

    async def ask(self, prompt: Prompt, /) -> Reply:
        """Return the reply.

        Raises:
            CallFailed: The prompt is longer than the model's context, or has a JSON Schema.
        """
        tokens = self._tokens(prompt)
        if prompt.max_tokens > 1 or prompt.temperature > 0:
            return await asyncio.to_thread(self._written, prompt, tokens)
        queued = _QueuedPrompt(prompt, tokens, asyncio.get_running_loop().create_future())
        self._queue.append(queued)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return await queued.reply

    async def stream(self, prompt: Prompt, /) -> ReplyStream:
        """Yield the reply as it is written; see `ask` for errors."""
        tokens, loop = self._tokens(prompt), asyncio.get_running_loop()
        texts: asyncio.Queue[str | None] = asyncio.Queue()
        stopped = Event()

        def on_token(written: Sequence[int]) -> bool:
            loop.call_soon_threadsafe(texts.put_nowait, self._model.text_of(written))
            return not stopped.is_set()

        work = asyncio.create_task(asyncio.to_thread(self._written, prompt, tokens, on_token))
        work.add_done_callback(lambda _: texts.put_nowait(None))
        sent = ""
        try:
            while (text := await texts.get()) is not None:
                whole = text.rstrip("\ufffd")  # the last character may be incomplete
                if len(whole) > len(sent):
                    yield whole[len(sent) :]
                    sent = whole
            reply = await work
            if reply.text[len(sent) :]:
                yield reply.text[len(sent) :]
            yield reply
        finally:
            stopped.set()

    def _tokens(self, prompt: Prompt) -> tuple[int, ...]:
        if prompt.schema is not None:
            raise CallFailed("rejected", f"{self.name} does not support a JSON Schema")
        tokens = self._model.prompt([(message.role, message.content) for message in prompt.messages])
        if len(tokens) + prompt.max_tokens > self._model.context:
            room = self._model.context
            raise CallFailed("too long", f"{len(tokens)} tokens do not fit into the {room} of {self.name}")
        return tokens

    async def _work(self) -> None:
        """Answer queued prompts, one group with a common beginning at a time, until the queue is empty."""
        taken: list[_QueuedPrompt] = []
        try:
            while self._queue:
                await asyncio.sleep(0)  # collects prompts that are asked at the same moment
                taken, self._queue = sorted(self._queue, key=lambda queued: queued.tokens), []
                for group in _group(taken):
                    masses = await asyncio.to_thread(self._model.next_tokens, [queued.tokens for queued in group])
                    for queued, mass in zip(group, masses, strict=True):
                        if not queued.reply.done():
                            queued.reply.set_result(self._reply(queued.prompt, queued.tokens, (), mass))
        except Exception as error:
            for queued in [*taken, *self._queue]:
                if not queued.reply.done():
                    queued.reply.set_exception(error)
            self._queue = []
        finally:
            self._worker = None

    def _written(
        self, prompt: Prompt, tokens: Sequence[int], on_token: Callable[[Sequence[int]], bool] = lambda written: True
    ) -> Reply:
        write = partial(self._model.write, most=prompt.max_tokens, temperature=prompt.temperature)
        written, first = write(tokens, seed=prompt.repeat, on_token=on_token)
        return self._reply(prompt, tokens, written, first)

    def _reply(self, prompt: Prompt, tokens: Sequence[int], written: Sequence[int], mass: np.ndarray) -> Reply:
        likeliest = np.argsort(mass)[::-1][: max(prompt.top_logprobs, 1)]
        first: dict[str, float] = {}
        for token in likeliest:
            text = self._model.text_of_token(int(token))
            first[text] = first.get(text, 0.0) + math.exp(mass[token])
        text = self._model.text_of(written or likeliest[:1].tolist())
        return Reply(text, self.name, first if prompt.top_logprobs else None, Usage(len(tokens), max(len(written), 1)))


def _group(prompts: Sequence[_QueuedPrompt]) -> Iterator[list[_QueuedPrompt]]:
    """Yield groups of neighbors that share at least half of their tokens."""
    group: list[_QueuedPrompt] = []
    for queued in prompts:
        if group and not _shares_half(group[0].tokens, queued.tokens):
            yield group
            group = []
        group.append(queued)
    yield group


def _shares_half(first: Sequence[int], second: Sequence[int]) -> bool:
    half = max(len(first), len(second)) // 2
    return tuple(first[:half]) == tuple(second[:half])


def open_embedded(name: str) -> EmbeddedChat:
    """Open the embedded model of a name such as `embedded:smollm2-135m`; see `gguf_weights.load` for errors."""
    return EmbeddedChat(open_language_model(name.removeprefix(EMBEDDED)))


# --- likelihoods ----------------------------------------------------------------------------------------------------

PASSAGES_AT_ONCE = 16
"""Passages per step; an interrupt waits for the end of the step."""


class EmbeddedLikelihood(LikelihoodModel):
    """Likelihoods in the embedded model's chat format; passages with a common beginning are read together."""

    def __init__(self, model: LanguageModel) -> None:
        """Wrap a model of `open_language_model`."""
        self.name = f"{EMBEDDED}{model.name}"
        self._model = model

    def made_from(self, passage: LikelihoodRequest) -> Mapping[str, Any]:
        """Return the weights and the hash of the messages."""
        return {"model": self.name, "weights": self._model.fingerprint, "passage": passage_hash(passage)}

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

    def _too_long(self, chat: TokenizedChat) -> Failure:
        return Failure("too long", f"{len(chat.tokens)} tokens exceed the {self._model.context} of {self.name}")

    def _fits(self, chat: TokenizedChat) -> bool:
        return len(chat.tokens) <= self._model.context


def open_embedded_likelihood(name: str) -> EmbeddedLikelihood:
    """Open the embedded model of a name such as `embedded:smollm2-135m`; see `open_language_model` for errors."""
    return EmbeddedLikelihood(open_language_model(name.removeprefix(EMBEDDED)))

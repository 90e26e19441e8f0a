"""The embedded model as a chat model; a common beginning of waiting prompts is read once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event

import numpy as np

from accord.embedded.language_model import LanguageModel, open_language_model
from accord.models import EMBEDDED, CallFailed, Prompt, Reply, ReplyStream, Usage


@dataclass(frozen=True, slots=True)
class _QueuedPrompt:
    """A prompt that waits for its first token."""

    prompt: Prompt
    tokens: tuple[int, ...]
    reply: asyncio.Future[Reply]


class EmbeddedChat:
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

    async def close(self) -> None:
        """Do nothing: the model stays loaded."""

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

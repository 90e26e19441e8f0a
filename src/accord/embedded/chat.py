"""The embedded model behind the chat seam: no key, no network; prompts that wait together share what they share."""

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
    """A prompt whose first token is wanted, with its tokens."""

    prompt: Prompt
    tokens: tuple[int, ...]
    answered: asyncio.Future[Reply]


class EmbeddedChat:
    """A chat model in this process. It writes text and gives token probabilities, and keeps no JSON Schema.

    Asked to rate, a model of this size is a poor judge (docs/methods.md has the figures); its likelihoods are
    good evidence.
    """

    def __init__(self, model: LanguageModel) -> None:
        """`endpoint` names the weights: others under the same name are another model."""
        self.name = f"{EMBEDDED}{model.name}"
        self.endpoint = f"{EMBEDDED}{model.fingerprint}"
        self._model = model
        self._waiting: list[_QueuedPrompt] = []
        self._working: asyncio.Task[None] | None = None

    async def ask(self, prompt: Prompt, /) -> Reply:
        """The reply.

        Raises:
            CallFailed: The prompt is longer than the model's context, or asks for JSON by schema.
        """
        tokens = self._tokens(prompt)
        if prompt.max_tokens > 1 or prompt.temperature > 0:
            return await asyncio.to_thread(self._written, prompt, tokens)
        waiting = _QueuedPrompt(prompt, tokens, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return await waiting.answered

    async def stream(self, prompt: Prompt, /) -> ReplyStream:
        """The reply as it is written; see `ask` for what is raised."""
        tokens, loop = self._tokens(prompt), asyncio.get_running_loop()
        said: asyncio.Queue[str | None] = asyncio.Queue()
        stopped = Event()

        def heard(written: Sequence[int]) -> bool:
            loop.call_soon_threadsafe(said.put_nowait, self._model.text_of(written))
            return not stopped.is_set()

        work = asyncio.create_task(asyncio.to_thread(self._written, prompt, tokens, heard))
        work.add_done_callback(lambda _: said.put_nowait(None))
        told = ""
        try:
            while (text := await said.get()) is not None:
                whole = text.rstrip("\ufffd")  # a character may have more bytes than have been written of it
                if len(whole) > len(told):
                    yield whole[len(told) :]
                    told = whole
            reply = await work
            if reply.text[len(told) :]:
                yield reply.text[len(told) :]
            yield reply
        finally:
            stopped.set()

    def _tokens(self, prompt: Prompt) -> tuple[int, ...]:
        if prompt.schema is not None:
            raise CallFailed("rejected", f"{self.name} cannot keep a JSON schema")
        tokens = self._model.prompt([(message.role, message.content) for message in prompt.messages])
        if len(tokens) + prompt.max_tokens > self._model.context:
            room = self._model.context
            raise CallFailed("too long", f"{len(tokens)} tokens do not fit into the {room} of {self.name}")
        return tokens

    async def close(self) -> None:
        """Nothing is open; the model stays loaded for whoever opens it next."""

    async def _work(self) -> None:
        """Answer what waits, one group of prompts that begin alike after the other, until nothing waits."""
        taken: list[_QueuedPrompt] = []
        try:
            while self._waiting:
                await asyncio.sleep(0)  # those who ask at the same moment come into the same round
                taken, self._waiting = sorted(self._waiting, key=lambda one: one.tokens), []
                for group in _alike(taken):
                    masses = await asyncio.to_thread(self._model.next_tokens, [one.tokens for one in group])
                    for one, mass in zip(group, masses, strict=True):
                        if not one.answered.done():
                            one.answered.set_result(self._reply(one.prompt, one.tokens, (), mass))
        except Exception as error:
            for one in [*taken, *self._waiting]:
                if not one.answered.done():
                    one.answered.set_exception(error)
            self._waiting = []
        finally:
            self._working = None

    def _written(
        self, prompt: Prompt, tokens: Sequence[int], heard: Callable[[Sequence[int]], bool] = lambda written: True
    ) -> Reply:
        write = partial(self._model.write, most=prompt.max_tokens, temperature=prompt.temperature)
        written, first = write(tokens, seed=prompt.repeat, heard=heard)
        return self._reply(prompt, tokens, written, first)

    def _reply(self, prompt: Prompt, tokens: Sequence[int], written: Sequence[int], mass: np.ndarray) -> Reply:
        likeliest = np.argsort(mass)[::-1][: max(prompt.top_logprobs, 1)]
        first: dict[str, float] = {}
        for token in likeliest:
            text = self._model.text_of_token(int(token))
            first[text] = first.get(text, 0.0) + math.exp(mass[token])
        text = self._model.text_of(written or likeliest[:1].tolist())
        return Reply(text, self.name, first if prompt.top_logprobs else None, Usage(len(tokens), max(len(written), 1)))


def _alike(waiting: Sequence[_QueuedPrompt]) -> Iterator[list[_QueuedPrompt]]:
    """Neighbours that share at least half of their tokens, as groups."""
    group: list[_QueuedPrompt] = []
    for one in waiting:
        if group and not _shares_half(group[0].tokens, one.tokens):
            yield group
            group = []
        group.append(one)
    yield group


def _shares_half(one: Sequence[int], other: Sequence[int]) -> bool:
    half = max(len(one), len(other)) // 2
    return tuple(one[:half]) == tuple(other[:half])


def open_embedded(name: str) -> EmbeddedChat:
    """The embedded model of a name such as `embedded:smollm2-135m`; see `embedded.loading.load` for what is raised."""
    return EmbeddedChat(open_language_model(name.removeprefix(EMBEDDED)))

"""The third seam: how likely a model finds what was said. Likelihoods in, no judgement asked for.

Only a model that gives the probabilities of its prompt's own tokens can tell: the embedded one, or an endpoint that
honours `echo` (`accord models check` tries it).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from accord.edges import BudgetReached
from accord.models.client import Endpoint
from accord.models.embedded.language_model import LanguageModel, Spoken, open_language_model
from accord.models.flow import OUT_OF_BUDGET
from accord.models.model import EMBEDDED, CallFailed, ChatMessage, Failure, Model, Usage
from accord.models.reply_parsing import a_list, a_log_probability, a_text, a_whole, an_object, usage_of
from accord.values import content_hash

NO_ECHO = "no echo"
PASSAGES_AT_ONCE = 16
"""Passages that one piece of work reads: an interrupt waits for no more than these."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Messages, and which of them are asked about: each given all that stand before it."""

    messages: tuple[ChatMessage, ...]
    spoken: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Likelihood:
    """The log probability (natural, at most 0) of one message, and how many tokens it has."""

    log_probability: float
    tokens: int


Measured = tuple[Likelihood, ...] | Failure
"""One likelihood for each message asked about, or why there is none."""


class LikelihoodModel(Protocol):
    """Something that tells how likely messages are."""

    name: str

    def made_from(self, passage: Passage) -> Mapping[str, Any]:
        """Everything that can change the answer, as JSON: its key is its hash. No secrets."""
        ...

    def requests(self, passages: Sequence[Passage]) -> Sequence[Any]:
        """What `measure` would send, so that it can be priced; nothing where nothing goes over a wire."""
        ...

    async def measure(self, passages: Sequence[Passage]) -> list[Measured]:
        """One result a passage, in their order.

        Raises:
            ModelError: No call can succeed.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class EmbeddedLikelihood:
    """Likelihoods by the embedded model, in its own chat format; passages that begin alike are read together."""

    def __init__(self, model: LanguageModel) -> None:
        """See `accord.models.embedded.language_model.open_language_model`."""
        self.name = f"{EMBEDDED}{model.name}"
        self._model = model

    def made_from(self, passage: Passage) -> Mapping[str, Any]:
        """The weights, and the messages as the model sees them."""
        return {"model": self.name, "weights": self._model.fingerprint, "passage": _shown(passage)}

    def requests(self, passages: Sequence[Passage]) -> Sequence[Any]:
        """Nothing goes over a wire."""
        return ()

    async def measure(self, passages: Sequence[Passage]) -> list[Measured]:
        """Some passages at a time, neighbours first; one that is longer than the context is a failure of its own."""
        spoken = [self._model.spoken([(m.role, m.content) for m in passage.messages]) for passage in passages]
        # Neighbours share most, and short ones come last: they can be read beside whatever is kept then.
        order = {i: (len(passages[i].messages) == 1, chat.tokens) for i, chat in enumerate(spoken) if self._fits(chat)}
        fitting = sorted(order, key=order.__getitem__)
        found: dict[int, Measured] = {}
        for start in range(0, len(fitting), PASSAGES_AT_ONCE):
            some = fitting[start : start + PASSAGES_AT_ONCE]
            chats = [(spoken[i], passages[i].spoken) for i in some]
            likelihoods = await asyncio.to_thread(self._model.log_likelihoods, chats)
            for i, of_passage in zip(some, likelihoods, strict=True):
                found[i] = tuple(Likelihood(float(each.sum()), len(each)) for each in of_passage)
        return [found.get(i) or self._too_long(chat) for i, chat in enumerate(spoken)]

    async def close(self) -> None:
        """Nothing is open."""

    def _too_long(self, chat: Spoken) -> Failure:
        return Failure("too long", f"{len(chat.tokens)} tokens exceed the {self._model.context} of {self.name}")

    def _fits(self, chat: Spoken) -> bool:
        return len(chat.tokens) <= self._model.context


@dataclass(frozen=True, slots=True)
class Echo:
    """A text whose own token probabilities are wanted."""

    text: str


@dataclass(frozen=True, slots=True)
class Echoed:
    """The text's tokens: where each begins in it, and its log probability given what stands before."""

    offsets: tuple[int, ...]
    log_probabilities: tuple[float | None, ...]
    usage: Usage = Usage()


class EchoCompletions(Endpoint):
    """The completions wire with `echo`, as vLLM serves it."""

    async def ask(self, question: Echo, /) -> Echoed:
        """Send one text.

        Raises:
            CallFailed: The call failed; `no echo` where the endpoint answers without the prompt's own tokens.
            ModelError: No call can succeed.
        """
        asked = {"model": self.name, "prompt": question.text, "echo": True, "max_tokens": 1, "logprobs": 1}
        return echoed_in(await self.fetch("/completions", asked), question.text, self.endpoint)


def echoed_in(found: Any, text: str, endpoint: str) -> Echoed:
    """A text's own token probabilities, from the completion's JSON.

    Raises:
        CallFailed: `no echo` where there are none; `malformed` or `no distribution` where they are something else.
    """
    completion = an_object(found, "completion")
    choices = a_list(completion.get("choices"), "list of choices")
    choice = an_object(choices[0] if choices else None, "choice")
    about = an_object(choice.get("logprobs") or {}, "logprobs")
    offsets = a_list(about.get("text_offset") or [], "list of offsets")
    mass = a_list(about.get("token_logprobs") or [], "list of log probabilities")
    given = a_text(choice.get("text"), "text")
    if not given.startswith(text) or not offsets or len(offsets) != len(mass):
        raise CallFailed(NO_ECHO, f"{endpoint} gave no probabilities of the prompt's own tokens")
    return Echoed(
        tuple(a_whole(offset, "offset of a token", len(given) + 1) for offset in offsets),
        tuple(None if each is None else a_log_probability(each) for each in mass),
        usage_of(completion.get("usage")),
    )


class EchoLikelihood:
    """Likelihoods by an endpoint that echoes: the passage as plain text, a line `role: content` a message.

    Whether it echoes at all is found out by the first request, which is waited for alone; one that does not is asked
    nothing more.
    """

    def __init__(self, model: Model[Echo, Echoed], endpoint: str = "") -> None:
        """`model` is the echoing wire, or wrappers around it; `endpoint` is where it answers."""
        self.name = model.name
        self.endpoint = endpoint
        self._model = model
        self._is_tried = False
        self._silent: Failure | None = None
        self._first: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def made_from(self, passage: Passage) -> Mapping[str, Any]:
        """The endpoint, the model, and the text."""
        return {"model": self.name, "endpoint": self.endpoint, "passage": _shown(passage)}

    def requests(self, passages: Sequence[Passage]) -> Sequence[Echo]:
        """One text a passage."""
        return [Echo(_plain(passage)[0]) for passage in passages]

    async def measure(self, passages: Sequence[Passage]) -> list[Measured]:
        """One request per passage, as long as the endpoint echoes."""
        return list(await asyncio.gather(*map(self._one, passages)))

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self._model.close()

    async def _one(self, passage: Passage) -> Measured:
        if not self._is_tried:
            async with self._alone():
                if not self._is_tried:
                    found = await self._asked(passage)
                    self._is_tried = True
                    if isinstance(found, Failure) and found.reason == NO_ECHO:
                        self._silent = found
                    return found
        return self._silent or await self._asked(passage)

    def _alone(self) -> asyncio.Lock:
        """A lock of the event loop that runs: each run of flows has one of its own."""
        loop = asyncio.get_running_loop()
        if self._first is None or self._first[0] is not loop:
            self._first = loop, asyncio.Lock()
        return self._first[1]

    async def _asked(self, passage: Passage) -> Measured:
        text, spans = _plain(passage)
        try:
            echoed = await self._model.ask(Echo(text))
        except CallFailed as error:
            return error.failure
        except BudgetReached as error:
            return Failure(OUT_OF_BUDGET, str(error))
        found = tuple(_within(echoed, spans[index]) for index in passage.spoken)
        if not all(each.tokens for each in found):
            return Failure("no tokens", f"{self.name} gave no probability for any token of a reply")
        return found


def _plain(passage: Passage) -> tuple[str, list[range]]:
    """The passage as text, and where in it each message's content stands."""
    text, spans = "", []
    for message in passage.messages:
        text += f"{message.role}:"
        said = f" {message.content}"  # a token of most vocabularies begins with the space before its word
        spans.append(range(len(text), len(text) + len(said)))
        text += f"{said}\n"
    return text, spans


def _within(echoed: Echoed, span: range) -> Likelihood:
    """The tokens that begin inside a span; one at the text's very beginning has no probability."""
    pairs = zip(echoed.offsets, echoed.log_probabilities, strict=True)
    inside = [p for offset, p in pairs if offset in span and p is not None]
    return Likelihood(float(sum(inside)), len(inside))


def _shown(passage: Passage) -> str:
    said = [[message.role, message.content] for message in passage.messages]
    return content_hash([said, list(passage.spoken)])


def open_embedded_likelihood(name: str) -> EmbeddedLikelihood:
    """The embedded model of a name such as `embedded:smollm2-135m`; see `embedded.loading.load` for what is raised."""
    return EmbeddedLikelihood(open_language_model(name.removeprefix(EMBEDDED)))

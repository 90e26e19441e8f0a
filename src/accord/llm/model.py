"""The two seams to a model: `ChatModel.ask` gives text, `Judge.answer` gives one distribution a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from accord.conversation import Conversation, Target
from accord.errors import AccordError
from accord.rubric import Question


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is asked of a chat model. `top_logprobs` > 0 asks for the likeliest tokens at the first position."""

    messages: tuple[Message, ...]
    max_tokens: int = 1024
    temperature: float = 0.0
    top_logprobs: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens a call was billed for."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """What a chat model answered.

    `first_token` holds the probability of each of the likeliest first tokens, where they were asked for and the
    endpoint gave them; `None` says that it gave none.
    """

    text: str
    model: str = ""
    first_token: Mapping[str, float] | None = None
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that gave nothing: `reason` is one word to count by (`refused`, `timeout`, ...), `detail` a sentence."""

    reason: str
    detail: str = ""


class CallFailed(AccordError):
    """Raised at the edge by a model whose call failed; batches turn it into its `Failure`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.failure = Failure(reason, detail)


class ChatModel(Protocol):
    """Text out. Wrappers (cache, limit, retry) are chat models themselves."""

    @property
    def name(self) -> str:
        """The model's name, as signatures show it."""
        ...

    async def ask(self, prompt: Prompt) -> Reply:
        """Answer one prompt.

        Raises:
            CallFailed: This call failed; others may succeed.
            ModelError: No call can succeed (wrong key, no such model).
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


@dataclass(frozen=True, slots=True)
class Subject:
    """What a judge looks at: a conversation, or one turn of it given all turns before."""

    conversation: Conversation
    turn: int | None = None

    @property
    def target(self) -> Target:
        """What answers about this subject point at."""
        return Target(self.conversation.id, self.turn)


@dataclass(frozen=True, slots=True)
class Answer:
    """One question's distribution: a probability an option, by the option's text, and the mass outside them all."""

    question: str
    probabilities: Mapping[str, float]
    outside: float = 0.0


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A question without an answer, and why: one word to count by, and a sentence."""

    question: str
    reason: str
    detail: str = ""


class Judge(Protocol):
    """Distributions out: every question about one subject at once, so that a wire can send them together."""

    @property
    def name(self) -> str:
        """The judging model's name."""
        ...

    @property
    def way(self) -> str:
        """How a distribution is obtained: `decisions`, `logprobs`, `sampling`, `verbalised` or `recorded`."""
        ...

    def made_from(self, subject: Subject, question: Question) -> Mapping[str, Any]:
        """Everything that can change the answer, as JSON: the answer's key is its hash. No secrets."""
        ...

    async def answer(self, subject: Subject, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """One answer a question, in their order.

        Raises:
            ModelError: No call can succeed.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...

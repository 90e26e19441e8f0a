"""Asking for scores: one request an input, a prompt and some demonstrations, so ordered that beginnings repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from accord.errors import BudgetReached
from accord.evaluators.in_context.examples import Example
from accord.evaluators.in_context.reading import UNREADABLE, Reading, read
from accord.evaluators.in_context.template import Wording
from accord.llm.flow import OUT_OF_BUDGET, Flow
from accord.llm.model import Failure, Prompt, Reply, Subject

ROUND = 256
"""Requests that are under way together."""
TOO_LONG = "too long"
NO_PROMPTS = ("no prompt", "repeats an example", "goes on with the examples")
"""What a writer's reply can be that is no prompt."""
LASTING = UNREADABLE | {TOO_LONG, *NO_PROMPTS}
"""Why a request gave nothing and will give nothing again."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request for a score: the demonstrations in their order, the task prompt, what is to be scored."""

    demonstrations: tuple[Example, ...]
    task: str
    subject: Subject


@dataclass
class Tally:
    """What asking came to.

    Attributes:
        asked: Requests.
        failures: Why some gave no score, counted.
        example: One failure's sentence, by its reason.
        dropped: Demonstrations that did not fit.
        characters: Of all requests.
        repeated: Of these, how many repeat the beginning of the request before.
    """

    asked: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    example: dict[str, str] = field(default_factory=dict)
    dropped: int = 0
    characters: int = 0
    repeated: int = 0

    def count(self, found: object) -> None:
        """Count what one request came to; anything but a failure is an answer.

        Raises:
            BudgetReached: It is a budget that was reached: what was answered before is kept.
        """
        self.asked += 1
        if isinstance(found, Failure):
            if found.reason == OUT_OF_BUDGET:
                raise BudgetReached(found.detail)
            self.failures[found.reason] += 1
            self.example.setdefault(found.reason, found.detail)

    @property
    def unreadable(self) -> int:
        """How many replies held no score on the scale."""
        return sum(count for reason, count in self.failures.items() if reason in UNREADABLE)

    @property
    def again(self) -> int:
        """How many requests failed for a reason that may pass."""
        return sum(count for reason, count in self.failures.items() if reason not in LASTING)

    @property
    def shared(self) -> float | None:
        """The share of all characters that a prefix cache saves; from 0 to 1."""
        return self.repeated / self.characters if self.characters else None


def score_each(
    wording: Wording, asked: Sequence[Asked], tally: Tally, on_step: Callable[[], None] = lambda: None
) -> Flow[list[Reading | Failure]]:
    """A reading for each request, in their order; `tally` counts what they came to.

    Raises:
        BudgetReached: The budget is spent; the same call goes on from there.
    """
    found: list[Reading | Failure] = [Failure(TOO_LONG, "the input alone does not fit into the context")] * len(asked)
    before = ""
    order = sorted(range(len(asked)), key=lambda place: _beginning(asked[place]))
    for start in range(0, len(order), ROUND):
        prompts: dict[int, Prompt] = {}
        for place in order[start : start + ROUND]:
            one = asked[place]
            made = wording.prompt(one.demonstrations, one.task, one.subject)
            if made is not None:
                prompts[place], dropped = made
                tally.dropped += dropped
        for prompt in prompts.values():
            text = prompt.messages[-1].content
            tally.characters += len(text)
            tally.repeated += common(before, text)
            before = text
        replies: Sequence[Reply | Failure] = yield list(prompts.values())
        for (place, prompt), reply in zip(prompts.items(), replies, strict=True):
            found[place] = read(wording, prompt, reply)
        for place in order[start : start + ROUND]:
            tally.count(found[place])
            on_step()
    return found


def _beginning(asked: Asked) -> tuple[list[str], str]:
    return [str(example.target) for example in asked.demonstrations], asked.task


def common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low

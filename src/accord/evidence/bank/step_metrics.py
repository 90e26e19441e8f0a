"""Metrics of steps: repeated calls, errors that the assistant ignores, and claims that no result supports.

The steps of a sample are the step itself; for a reply, the steps since the user's previous turn; for a conversation,
all steps. Without steps a metric does not apply.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from accord.evidence.bank.session import metrics
from accord.values import Conversation, Turn, steps
from accord.values.steps import Step

STEPS = ("repeated-calls", "step-errors", "ignored-errors", "unsupported-claims")
"""Names of the metrics of steps, in the order of their columns."""
NO_STEPS = "no call of a tool"
_MENTIONED = re.compile(
    r"\b(?:errors?|fail(?:s|ed|ure)?|unable|unavailable|invalid|rejected|denied|refused|sorry|unfortunately|problems?"
    r"|issues?|(?:can|could|did|was|is)(?:not| not|n't|n’t|'t|’t)|not (?:found|available|possible)"
    r"|no (?:results?|match(?:es)?|such)|timed out|timeout|try again|retry)\b",
    re.IGNORECASE,
)
"""English words that mention an error."""
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NOT_CLAIMED = re.compile(r"^[^\S\n]*\d+[.)]\s|\[\d+\]", re.MULTILINE)
"""Numbers of list items, and citations of documents."""
_MOST_DECIMALS = 6
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_QUOTED = re.compile(r"\"([^\"\n]{2,80})\"|“([^”\n]{2,80})”|„([^“”\n]{2,80})[“”]|«([^»\n]{2,80})»|「([^」\n]{2,80})」")


class ConversationSteps:
    """Steps of one conversation and the texts that support its claims; adding a turn costs as much as its length.

    Attributes:
        conversation: The conversation, or its part up to a reply.
        own: Steps of the conversation, of its reply, or the step whose result is its reply.
        known: Texts of the results, the documents and all turns but the assistant's.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._steps, self._heard = steps.RunningSteps(), 0
        self._users: list[int] = []
        self._keys: list[tuple[str, str]] = []  # of all calls
        self._first: dict[tuple[str, str], _FirstCalls] = {}
        self.known = _KnownTexts()

    def at(self, conversation: Conversation) -> ConversationSteps:
        """Return the steps of a conversation that continues the previous one; valid until the next call."""
        turns = conversation.turns
        if len(turns) < self._heard:
            self._begin()
        for document in conversation.documents if not self._heard else ():
            self.known.add(document.text)
        for place in range(self._heard, len(turns)):
            self._add(place, turns[place])
        self._heard = len(turns)
        self.conversation, self.own = conversation, self._own(conversation)
        return self

    def _add(self, place: int, turn: Turn) -> None:
        answered = self._steps.add(place, turn)
        for number in range(len(self._keys), len(self._steps.calls)):
            self._keys.append(self._steps.calls[number].key)
            first = self._first.setdefault(self._keys[number], _FirstCalls(place, deque()))
            if first.turn == place:
                first.calls.append(number)
        if answered is not None:
            first, call = self._first[self._keys[answered]], self._steps.calls[answered]
            if first.turn == call.call_turn and first.answered is None:
                first.answered = call.number
        if turn.role == "user":
            self._users.append(place)
        if turn.role != "assistant":
            self.known.add(turn.content)

    def is_repeated(self, step: Step) -> bool:
        """Return True if an earlier call has the tool and arguments of a step.

        Of equal calls in one turn, the first without a result counts as the first, else the first with one.
        """
        if step.call_turn is None:
            return False
        first = self._first[step.key]
        while first.calls and first.calls[0] not in self._steps.open:
            first.calls.popleft()
        number = self._steps.calls[first.calls[0]].number if first.calls else first.answered
        return (step.call_turn, step.number) != (first.turn, number)

    def _own(self, conversation: Conversation) -> Sequence[Step]:
        reply = conversation.reply
        if reply is None:
            return self._steps.between(0, self._heard)
        if steps.is_tool_result(conversation.turns[reply]):
            return self._steps.between(reply, reply)
        asked = bisect_left(self._users, reply)
        return self._steps.between(self._users[asked - 1] + 1 if asked else 0, reply)


@dataclass
class _FirstCalls:
    """The first calls with a tool and arguments: their turn, places, and the number of the first with a result."""

    turn: int
    calls: deque[int]
    answered: int | None = None


class _KnownTexts:
    """Numbers and words of some texts."""

    def __init__(self) -> None:
        self._numbers = set[float]()
        self._rounded: dict[int, set[float]] = {}  # by decimals
        self._words: list[str] = []

    def add(self, text: str) -> None:
        text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
        for number in set(map(_value, _NUMBER.findall(text))) - self._numbers:
            self._numbers.add(number)
            for digits, rounded in self._rounded.items():
                rounded.add(round(number, digits))
        self._words += text.casefold().split()

    def has_number(self, claim: str) -> bool:
        """Return True if a number is known, or one that is equal when rounded to the claim's decimals."""
        value, (_, point, decimals) = _value(claim), claim.rpartition(".")
        digits = min(len(decimals), _MOST_DECIMALS) if point else 0
        if digits not in self._rounded:
            self._rounded[digits] = {round(number, digits) for number in self._numbers}
        return value in self._numbers or value in self._rounded[digits]

    def without(self, names: set[str]) -> set[str]:
        """Return the names that no text has."""
        words = " ".join(self._words) if names else ""
        return {name for name in names if name not in words}


class StepMetric:
    """A metric of a conversation that also applies if the judged turn has no words."""

    def __init__(self, measure: Callable[[ConversationSteps], float]) -> None:
        self._measure = measure
        self.__name__, self.__doc__ = measure.__name__, measure.__doc__

    def __call__(self, conversation: Conversation) -> float | None:
        """Measure the steps of a conversation, or of its reply; return `None` if it has no steps."""
        return self.measure(ConversationSteps().at(conversation))

    def measure(self, found: ConversationSteps) -> float | None:
        """Return the value for known steps, or `None` if the list is empty."""
        return self._measure(found) if found.own else None


def repeated_calls(found: ConversationSteps) -> float:
    """Number of steps with the tool and arguments of an earlier step of the conversation.

    Arguments are equal if their JSON values are, or if texts that are not JSON differ only in white space.
    """
    return float(sum(map(found.is_repeated, found.own)))


def step_errors(found: ConversationSteps) -> float:
    """Number of steps whose result is flagged as an error."""
    return float(sum(step.is_error for step in found.own))


def ignored_errors(found: ConversationSteps) -> float:
    """Number of steps with an error after which the assistant neither mentions one nor calls the tool again.

    The assistant's message is its next turn after the result. It mentions an error if it contains one of some English
    words, such as error, failed, unable, could not, not found, sorry. An error without a later message is not ignored.
    """
    turns, count, place = found.conversation.turns, 0, 0
    called, is_silent = set[str](), False
    for step in found.own:
        if step.is_error:
            if place <= step.turn:  # the next turn after the results around this step
                place = next((n for n in range(step.turn + 1, len(turns)) if not steps.is_tool_result(turns[n])), -1)
                if place < 0:
                    break
                called = {steps.parse_call(call)[1] for call in steps.calls_of(turns[place])}
                is_silent = turns[place].role == "assistant" and _MENTIONED.search(turns[place].content) is None
            count += is_silent and step.name not in called
    return float(count)


def unsupported_claims(found: ConversationSteps) -> float:
    """Number of distinct numbers and quoted names in the final reply that no earlier result or turn of others contains.

    The final reply is the assistant's turn that uses the step; for a reply, the reply; for a conversation, the last
    turn of the assistant with text. Results, turns of the user, instructions and documents support a claim. A number is
    supported by an equal number, or by one that is equal when rounded to the claim's decimals; a quoted name by the
    same words in any case. Numbers of list items and citations such as [1] are not claims.
    """
    conversation, turns = found.conversation, found.conversation.turns
    end, known = _final_reply(conversation), found.known
    if end is None:
        return 0.0
    if any(turn.role != "assistant" for turn in turns[end:]):  # later turns support no claim
        known = ConversationSteps().at(replace(conversation, turns=turns[:end], reply=None)).known
    claimed = _NOT_CLAIMED.sub(" ", turns[end].content)
    unknown = {text for text in _NUMBER.findall(claimed) if not known.has_number(text)}
    return float(len(unknown | known.without(set(_quoted(claimed)))))


def _final_reply(conversation: Conversation) -> int | None:
    turns, reply = conversation.turns, conversation.reply
    if reply is not None and not steps.is_tool_result(turns[reply]):
        return reply
    first, last = 0 if reply is None else reply, len(turns) - 1
    spoken = (place for place in range(last, first - 1, -1) if turns[place].role == "assistant")
    return next((place for place in spoken if turns[place].content), None)


def _quoted(text: str) -> Iterable[str]:
    found = (next(filter(None, groups)) for groups in _QUOTED.findall(text))
    return (" ".join(name.casefold().strip(" .,;:!?").split()) for name in found)


def _value(text: str) -> float:
    """Return a number as written; the last separator is the decimal point unless three digits follow a comma."""
    whole, comma, rest = text.rpartition(",")
    if comma and (len(rest) != 3 or "." in whole):
        text = f"{whole.replace('.', '').replace(',', '')}.{rest}"
    parts = text.replace(",", "").split(".")
    return float("".join(parts[:-1]) + "." + parts[-1]) if len(parts) > 1 else float(parts[0][:300])


for _name, _measure in zip(STEPS, (repeated_calls, step_errors, ignored_errors, unsupported_claims), strict=True):
    metrics.register(_name)(StepMetric(_measure))

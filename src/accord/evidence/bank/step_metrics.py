"""Metrics of steps: repeated calls, errors that the assistant ignores, and claims that no result supports.

The steps of a sample are the step itself; for a reply, the steps since the user's previous turn; for a conversation,
all steps. Without steps a metric does not apply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

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


class StepMetric:
    """A metric of a conversation that also applies if the judged turn has no words."""

    def __init__(self, measure: Callable[[Conversation, Sequence[Step]], float]) -> None:
        self.measure = measure
        self.__name__, self.__doc__ = measure.__name__, measure.__doc__

    def __call__(self, conversation: Conversation) -> float | None:
        """Measure the steps of a conversation, or of its reply; return None without steps."""
        own = own_steps(conversation)
        return self.measure(conversation, own) if own else None


def own_steps(conversation: Conversation) -> list[Step]:
    """Return the steps of a conversation, of its reply, or the step whose result is its reply."""
    every, reply, turns = steps.steps_of(conversation.turns), conversation.reply, conversation.turns
    if reply is None:
        return list(every)
    if steps.is_tool_result(turns[reply]):
        return [step for step in every if step.turn == reply]
    asked = max((place for place, turn in enumerate(turns[:reply]) if turn.role == "user"), default=-1)
    return [step for step in every if asked < step.turn <= reply]


def repeated_calls(conversation: Conversation, own: Sequence[Step]) -> float:
    """Number of steps whose tool and arguments are those of an earlier step of the conversation.

    Arguments are equal if their JSON values are, or if texts that are no JSON differ only in white space.
    """
    earlier: set[tuple[str, str]] = set()
    count, judged = 0, set(own)
    called = (step for step in steps.steps_of(conversation.turns) if step.call_turn is not None)
    for step in sorted(called, key=lambda step: (step.call_turn, step.turn)):
        count += step in judged and step.key in earlier
        earlier.add(step.key)
    return float(count)


def step_errors(conversation: Conversation, own: Sequence[Step]) -> float:
    """Number of steps whose result is flagged as an error."""
    return float(sum(step.is_error for step in own))


def ignored_errors(conversation: Conversation, own: Sequence[Step]) -> float:
    """Number of steps with an error after which the assistant neither mentions one nor calls the tool again.

    The assistant's message is its next turn after the result. It mentions an error if it contains one of some English
    words, such as error, failed, unable, could not, not found, sorry. An error without a later message is not ignored.
    """
    return float(sum(_is_ignored(step, conversation.turns) for step in own if step.is_error))


def _is_ignored(step: Step, turns: Sequence[Turn]) -> bool:
    answer = next((turn for turn in turns[step.turn + 1 :] if not steps.is_tool_result(turn)), None)
    if answer is None or answer.role != "assistant":
        return False
    called = {steps.parse_call(call)[1] for call in steps.calls_of(answer)}
    return step.name not in called and _MENTIONED.search(answer.content) is None


def unsupported_claims(conversation: Conversation, own: Sequence[Step]) -> float:
    """Number of distinct numbers and quoted names in the final reply that no earlier result or turn of others contains.

    The final reply is the assistant's turn that uses the step; for a reply, the reply; for a conversation, the last
    turn of the assistant with text. Results, turns of the user, instructions and documents support a claim. A number is
    supported by an equal number, or by one that is equal when rounded to the claim's decimals; a quoted name by the
    same words in any case. Numbers of list items and citations such as [1] are no claims.
    """
    end = _final_reply(conversation)
    if end is None:
        return 0.0
    turns = conversation.turns
    known = [turn.content for turn in turns[:end] if turn.role != "assistant"]
    known += [document.text for document in conversation.documents]
    known = [_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text) for text in known]
    claimed = _NOT_CLAIMED.sub(" ", turns[end].content)
    numbers = frozenset(_value(text) for source in known for text in _NUMBER.findall(source))
    rounded: dict[int, frozenset[float]] = {}
    words = " ".join(" ".join(known).casefold().split())
    unknown = {text for text in _NUMBER.findall(claimed) if not _is_supported(text, numbers, rounded)}
    unknown |= {name for name in _quoted(claimed) if name not in words}
    return float(len(unknown))


def _final_reply(conversation: Conversation) -> int | None:
    turns, reply = conversation.turns, conversation.reply
    if reply is not None and not steps.is_tool_result(turns[reply]):
        return reply
    first = 0 if reply is None else reply
    spoken = [place for place in range(first, len(turns)) if turns[place].role == "assistant" and turns[place].content]
    return spoken[-1] if spoken else None


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


def _is_supported(claim: str, numbers: frozenset[float], rounded: dict[int, frozenset[float]]) -> bool:
    """Return True if a number is known; `rounded` keeps the known numbers by decimals."""
    value, (_, point, decimals) = _value(claim), claim.rpartition(".")
    digits = min(len(decimals), _MOST_DECIMALS) if point else 0
    if digits not in rounded:
        rounded[digits] = frozenset(round(number, digits) for number in numbers)
    return value in numbers or value in rounded[digits]


for _name, _measure in zip(STEPS, (repeated_calls, step_errors, ignored_errors, unsupported_claims), strict=True):
    metrics.register(_name)(StepMetric(_measure))

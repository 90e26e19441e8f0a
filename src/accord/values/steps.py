"""Steps of an assistant: each call of a tool with its arguments and its result."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from accord.values.conversation import TOOL_ROLES, Conversation, Sample, Turn, canonical_json

_ARGUMENTS = ("arguments", "args", "input", "parameters")
_FLAGS = ("is_error", "isError", "error")
_FAILED = frozenset({"error", "failed", "failure"})
_ERROR_TEXT = re.compile(r"\s*(?:error|exception|traceback)\b", re.IGNORECASE)
_LONGEST_PARSED = 100_000
"""Length of a result in characters up to which its JSON is searched for an error."""


@dataclass(frozen=True, slots=True)
class Step:
    """A call of a tool and its result; one of both may be missing.

    Attributes:
        turn: Index of the step's target: the turn of the result, or the turn of the call if the result is missing.
        call_turn: Index of the turn that makes the call, or `None` if the call is missing.
        name: Name of the tool; empty if unknown.
        arguments: Arguments as the log has them, usually JSON; empty if unknown.
        result: Text of the result, or `None` if the result is missing.
        is_error: True if the result is flagged as an error: `is_error`, `isError` or `error` in the message or in the
            JSON object of its text, a `status` of error or failed, `"success": false`, or a text that begins with the
            word error, exception or traceback.
        number: Place of the call among the calls of its turn, from 0.
    """

    turn: int
    call_turn: int | None
    name: str
    arguments: str
    result: str | None = None
    is_error: bool = False
    number: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """Name and arguments, equal for calls that differ only in white space and in the order of their arguments."""
        try:
            return self.name, canonical_json(json.loads(self.arguments))
        except (ValueError, RecursionError):
            return self.name, " ".join(self.arguments.split())


def parse_call(call: Any) -> tuple[str | None, str, str]:
    """Return the id, the name and the arguments of a tool call, in any of the usual forms.

    >>> parse_call({"id": "a", "function": {"name": "find", "arguments": '{"city": "Paris"}'}})
    ('a', 'find', '{"city": "Paris"}')
    >>> parse_call({"name": "find", "args": {"city": "Paris"}})
    (None, 'find', '{"city": "Paris"}')
    """
    if not isinstance(call, Mapping):
        return None, "", "" if call is None else str(call)
    function = call.get("function")
    called = function if isinstance(function, Mapping) else call
    given = next((called[key] for key in _ARGUMENTS if called.get(key) is not None), "")
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
    id_ = call.get("id") or call.get("call_id")
    return (None if id_ is None else str(id_)), str(called.get("name") or ""), text


def calls_of(turn: Turn) -> list[Any]:
    """Return the tool calls of a turn as the log has them; the single call of an older log is a list of one."""
    if not turn.extra:
        return []
    called = turn.extra.get("tool_calls") or turn.extra.get("function_call")
    return list(called) if isinstance(called, list | tuple) else [] if called in (None, "", {}) else [called]


def is_tool_result(turn: Turn) -> bool:
    """Return True if a turn is the result of a tool."""
    return turn.role in TOOL_ROLES


def steps_of(turns: Sequence[Turn]) -> tuple[Step, ...]:
    """Return the steps of some turns in the order of their targets, then of the calls.

    A result belongs to the earliest open call with its id. Without an id, it belongs to the earliest open call with its
    name, or of any name if the result has none. If there is no such call, the result is a step without a call.

    >>> call = {"id": "a", "function": {"name": "find", "arguments": "{}"}}
    >>> turns = (Turn("assistant", "", extra={"tool_calls": [call]}), Turn("tool", "3", extra={"tool_call_id": "a"}))
    >>> [(step.turn, step.name, step.result) for step in steps_of(turns)]
    [(1, 'find', '3')]
    """
    return RunningSteps(turns).between(0, len(turns))


class RunningSteps:
    """The steps of some turns, extended by each turn at the cost of its own length.

    Attributes:
        calls: Calls in order, as steps without a result.
        open: Places in `calls` of those without a result.
    """

    def __init__(self, turns: Iterable[Turn] = ()) -> None:
        self.calls: list[Step] = []
        self._answered: list[Step] = []
        self.open = set[int]()
        self._waiting: dict[tuple[str, str | None], deque[int]] = {}
        for place, turn in enumerate(turns):
            self.add(place, turn)

    def add(self, place: int, turn: Turn) -> int | None:
        """Add the next turn, and return the place of the call that it answers."""
        if turn.role in TOOL_ROLES:
            id_, name = result_id(turn), turn.name
            found = self._first_open(("id", id_) if id_ is not None else ("name", name) if name is not None else _ANY)
            step = Step(place, None, name or "", "") if found is None else self.calls[found]
            is_error = is_error_result(turn)
            self._answered.append(replace(step, turn=place, result=turn.content, is_error=is_error))
            return found
        if turn.extra:
            for number, (id_, name, arguments) in enumerate(map(parse_call, calls_of(turn))):
                for key in (("id", id_), ("name", name), _ANY):
                    self._waiting.setdefault(key, deque()).append(len(self.calls))
                self.open.add(len(self.calls))
                self.calls.append(Step(place, place, name, arguments, number=number))
        return None

    def _first_open(self, key: tuple[str, str | None]) -> int | None:
        """Return the place of the earliest open call with an id, a name or any, which is open no more."""
        waiting = self._waiting.get(key, deque())
        while waiting:
            if (found := waiting.popleft()) in self.open:
                self.open.remove(found)
                return found
        return None

    def between(self, first: int, last: int) -> tuple[Step, ...]:
        """Return the steps whose targets are turns of a range, first to last, in order."""

        def part(steps: list[Step]) -> range:
            begin, end = (bisect(steps, place, key=attrgetter("turn")) for bisect, place in ends)
            return range(begin, end)

        ends = ((bisect_left, first), (bisect_right, last))
        found = [self._answered[place] for place in part(self._answered)]
        found += [self.calls[place] for place in part(self.calls) if place in self.open]
        return tuple(sorted(found, key=attrgetter("turn")))


_ANY = ("any", None)


def result_id(turn: Turn) -> str | None:
    """Return the id of the call that a result answers, or `None` if the log has none."""
    found = next((turn.extra[key] for key in ("tool_call_id", "call_id") if turn.extra.get(key)), None)
    return None if found is None else str(found)


def is_error_result(turn: Turn) -> bool:
    """Return True if the result of a tool is flagged as an error; see `Step`."""
    if _is_flagged(turn.extra) or _ERROR_TEXT.match(turn.content):
        return True
    if turn.content.lstrip()[:1] != "{" or len(turn.content) > _LONGEST_PARSED:
        return False
    with suppress(ValueError, RecursionError):
        return _is_flagged(json.loads(turn.content))
    return False


def _is_flagged(fields: Mapping[str, Any]) -> bool:
    status = fields.get("status")
    failed = isinstance(status, str) and status.casefold() in _FAILED
    return failed or any(fields.get(key) for key in _FLAGS) or fields.get("success") is False


def step_turns(turns: Sequence[Turn]) -> list[int]:
    """Return the distinct targets of steps, in order."""
    return sorted({step.turn for step in steps_of(turns)})


def steps_at(sample: Sample) -> tuple[Step, ...]:
    """Return the steps with the target of a sample, or all steps for a whole conversation.

    The steps of the last conversation are kept, because its samples come one after the other.
    """
    global _last
    turns, (known, steps) = sample.conversation.turns, _last
    if turns is not known or not isinstance(turns, tuple):
        steps = RunningSteps(turns)
        _last = turns, steps
    return steps.between(0, len(turns)) if sample.turn is None else steps.between(sample.turn, sample.turn)


_last: tuple[Sequence[Turn], RunningSteps] = (), RunningSteps()


def judged_turns(conversation: Conversation, level: str) -> list[int]:
    """Return the turns that are judged at a level: replies for `turn`, targets of steps for `step`; else none."""
    if level == "step":
        return step_turns(conversation.turns)
    replies = {id(turn) for turn in conversation.replies} if level == "turn" else set[int]()
    return [place for place, turn in enumerate(conversation.turns) if id(turn) in replies]


def marked_turn(conversation: Conversation) -> int | None:
    """Return the turn that a file marks (`response_index`, or `level: turn` for the last reply), or None."""
    metadata = conversation.metadata
    place = metadata.get("response_index")
    if isinstance(place, int) and not isinstance(place, bool) and 0 <= place < len(conversation.turns):
        return place
    replies = judged_turns(conversation, "turn") if metadata.get("level") == "turn" else []
    return replies[-1] if replies else None

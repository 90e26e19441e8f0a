"""What a page shows of a sheet: questions with their rows and keys, turns cut where quotes stand, what was said before.

The page's address, its forms and its JSON are made of these values; each is plain text that the templates escape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from accord.edges import escape_controls
from accord.store import Assignment
from accord.studies import BOTH_BAD, ROWS, Sheet, Side
from accord.values import (
    ISSUE,
    NON_SPEAKERS,
    Annotation,
    Issue,
    Question,
    Rubric,
    Scale,
    ScaleKind,
    Span,
    StudySettings,
    Taxonomy,
    Value,
)
from accord.web.forms import new_key

DIGITS = 8
"""Hexadecimal digits of a rubric's hash that people compare by eye."""
SIDES = ("A", "B")


class Row(NamedTuple):
    """One option: what is sent, what is read, the key that chooses it, and whether it ends the questionnaire."""

    value: Value
    label: str
    meaning: str
    key: str
    ends: bool
    is_chosen: bool


@dataclass(frozen=True)
class Asked:
    """One question as a page asks it.

    Attributes:
        question: What is asked.
        id: For an answer that a form without script sends.
        rows: Its options; none where a number is typed.
        number: Lowest, highest and step (`any` where every number between them will do) of what is typed.
        typed: The number that is typed in.
        is_none: Whether the answer is that it does not apply.
        both_bad: Of a pair, the id of that answer and whether it was given.
        comment: The comment that stands.
        wrong: What is to be put right; may be empty.
        history: Earlier answers of one's own, in words, the first first.
    """

    question: Question
    id: str
    rows: tuple[Row, ...]
    number: tuple[float, float, str] | None
    typed: str
    is_none: bool
    both_bad: tuple[str, bool] | None
    comment: str
    wrong: str = ""
    history: tuple[tuple[str, str], ...] = ()


class Piece(NamedTuple):
    """Words of a turn: the numbers of own marks and of found issues on them; a `sign` stands for one character."""

    text: str
    marks: tuple[int, ...]
    issues: tuple[int, ...]
    is_sign: bool


class Mark(NamedTuple):
    """One's own mark of an issue, by its number on the page."""

    number: int
    answer: str
    kind: str
    quote: str
    comment: str
    undo: str


class Finding(NamedTuple):
    """An issue that a model found, by its number on the page."""

    number: int
    type: str
    definition: str
    comment: str
    quote: str
    is_made_up: bool


@dataclass(frozen=True)
class Block:
    """A turn on the page; `new` is the id for a mark that a form without script makes, empty where none can be made."""

    place: int
    role: str
    pieces: tuple[Piece, ...]
    is_rated: bool
    calls: tuple[str, ...]
    marks: tuple[Mark, ...]
    findings: tuple[Finding, ...] | None
    new: str = ""


@dataclass(frozen=True)
class Sent:
    """What a form without script sent and was not kept: it is shown again, beside what is wrong with it."""

    fields: Mapping[str, str] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)


# --- questions --------------------------------------------------------------------------------------------------


def asked(
    sheet: Sheet, settings: StudySettings, history: Sequence[Annotation] = (), sent: Sent | None = None
) -> list[Asked]:
    """The questions of a sheet, as they were answered so far, or as a form that was refused has them."""
    sent = sent or Sent()
    return [
        _asked(question, sheet, settings, _past(question, sheet, settings, history), sent)
        for question in sheet.questions
    ]


def _asked(
    question: Question, sheet: Sheet, settings: StudySettings, past: tuple[tuple[str, str], ...], sent: Sent
) -> Asked:
    name, given = question.id, sheet.given.get(question.id)
    chosen = None if given is None or given.value is None else str(given.value)
    is_none, comment = given is not None and given.value is None, given.comment if given else ""
    if sent.fields:
        chosen, comment = sent.fields.get(f"value.{name}") or None, sent.fields.get(f"comment.{name}", "")
        is_none = sent.fields.get(f"value.{name}") == "" or f"none.{name}" in sent.fields
    bad = sheet.given.get(f"{name}:{BOTH_BAD}")
    is_bad = f"bad.{name}" in sent.fields if sent.fields else bad is not None and bad.value == 1
    number = typed_range(question.scale)
    is_none = is_none and not (number and chosen)
    return Asked(
        question,
        new_key(),
        () if number else _rows(question, settings, chosen),
        number,
        chosen or "" if number else "",
        is_none,
        (new_key(), is_bad) if question.compares else None,
        comment,
        sent.wrong.get(name, ""),
        past,
    )


def typed_range(scale: Scale) -> tuple[float, float, str] | None:
    """Of an answer that is typed as a number: lowest, highest and step; `None` where it is chosen from rows."""
    if scale.kind is ScaleKind.REAL:
        assert scale.low is not None and scale.high is not None
        return scale.low, scale.high, "any"
    if len(scale.options) <= ROWS:
        return None
    low, high = scale.numbers[0], scale.numbers[-1]
    step = (high - low) / (len(scale.options) - 1)
    even = all(abs(low + place * step - each) < 1e-9 for place, each in enumerate(scale.numbers))
    return low, high, f"{step:g}" if even else "any"


def _rows(question: Question, settings: StudySettings, chosen: str | None) -> tuple[Row, ...]:
    # Of a comparison the highest option says that the first is better: it stands first, as its conversation does.
    options = question.scale.options[::-1] if question.compares else question.scale.options
    plain = settings.hide_numbers or question.compares
    digits = not plain and all(type(each) is int and 0 <= each <= 9 for each in options)
    ends = settings.stop_on.get(question.id, ())
    return tuple(
        Row(
            option,
            *_words(question, option, plain),
            str(option) if digits else str(place) if place <= 9 else "",
            option in ends,
            str(option) == chosen,
        )
        for place, option in enumerate(options, 1)
    )


def _words(question: Question, option: Value, plain: bool) -> tuple[str, str]:
    """What stands in front of an option, and what it means."""
    meaning = question.meanings.get(str(option), "")
    if question.compares:
        return _better(question.scale, option), meaning
    return (meaning or str(option), "") if plain else (str(option), meaning)


def _better(scale: Scale, option: Value) -> str:
    """Which of two conversations an option says is better."""
    numbers = scale.numbers
    middle, said = (numbers[0] + numbers[-1]) / 2, float(option)
    if said == middle:
        return "Tie"
    return SIDES[0] if said > middle else SIDES[1]


def tie_of(scale: Scale) -> Value | None:
    """The option in the middle of a comparison's scale; `None` where it has none."""
    return next((option for option in scale.options if _better(scale, option) == "Tie"), None)


def in_words(question: Question, value: Value | None, settings: StudySettings) -> str:
    """An answer as the page writes it."""
    if value is None:
        return "does not apply"
    label, meaning = _words(question, value, settings.hide_numbers or question.compares)
    return f"{label}: {meaning}" if meaning and not settings.hide_numbers else label


def _past(
    question: Question, sheet: Sheet, settings: StudySettings, history: Sequence[Annotation]
) -> tuple[tuple[str, str], ...]:
    """All answers but the one that stands, and when they were given (UTC, to the minute)."""
    same = [each for each in history if each.question == question.id and each.stage == sheet.stage.id]
    told = [(in_words(question, each.value, settings), each.comment, (each.time or "")[:16]) for each in same[:-1]]
    return tuple((f"{said} ({comment})" if comment else said, time.replace("T", " ")) for said, comment, time in told)


def before(sheet: Sheet, rubric: Rubric, settings: StudySettings) -> list[tuple[str, str]]:
    """The questions of earlier stages with what was answered, in words."""
    known = ((rubric.get(name), value) for name, value in sheet.before.items())
    return [(question.text, in_words(question, value, settings)) for question, value in known if question is not None]


# --- the conversation ---------------------------------------------------------------------------------------------


def blocks(sheet: Sheet, side: Side) -> list[Block]:
    """The turns of a side, with one's own marks and, where the stage shows them, the issues that a model found."""
    can_mark = _markable(sheet, side)
    numbers, found = _Numbers(), []
    for turn in side.turns:
        mine = [each for each in sheet.marks if each.target.turn == turn.place]
        marks = tuple(
            Mark(numbers.next(), each.answer, each.question.removeprefix(ISSUE), each.quote, each.comment, new_key())
            for each in mine
        )
        issues = None if sheet.issues is None else sheet.issues.get(turn.place)
        findings = None if issues is None else tuple(_finding(numbers.next(), each, sheet.kinds) for each in issues)
        spans = [(each.span, mark.number, False) for each, mark in zip(mine, marks, strict=True) if each.span]
        spans += [(i.span, f.number, True) for i, f in zip(issues or (), findings or (), strict=True) if i.span]
        new = new_key() if turn.place in can_mark else ""
        found.append(
            Block(
                turn.place, turn.role, tuple(pieces(turn.text, spans)), turn.is_rated, turn.calls, marks, findings, new
            )
        )
    return found


class _Numbers:
    """One, two, three: marks and issues are numbered through a page."""

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        self.last += 1
        return self.last


def _markable(sheet: Sheet, side: Side) -> set[int]:
    """The turns in which issues may be marked: the rated one, else the assistant's, else everybody's."""
    if sheet.kinds is None:
        return set()
    rated = {turn.place for turn in side.turns if turn.is_rated}
    assistant = {turn.place for turn in side.turns if turn.role == "assistant"}
    return rated or assistant or {turn.place for turn in side.turns if turn.role not in NON_SPEAKERS}


def _finding(number: int, issue: Issue, kinds: Taxonomy | None) -> Finding:
    known = None if kinds is None else kinds.find(issue.type)
    definition = "" if known is None else known.definition
    return Finding(number, issue.type, definition, issue.comment, issue.quote, issue.is_made_up)


def pieces(text: str, spans: Sequence[tuple[Span, int, bool]]) -> list[Piece]:
    r"""A text cut where quotes begin and end, and around signs that are shown in another way than they are said.

    Args:
        text: Of the turn.
        spans: From a character up to another, the number of what quotes it, and whether that is a model's.

    >>> [(each.text, each.marks) for each in pieces("It is fine.", [((6, 10), 1, False)])]
    [('It is ', ()), ('fine', (1,)), ('.', ())]
    >>> [(each.text, each.is_sign) for each in pieces("a\x1bb", [])]
    [('a', False), ('\\u001b', True), ('b', False)]
    """
    inside = [((max(0, start), min(end, len(text))), number, by_model) for (start, end), number, by_model in spans]
    cuts = {0, len(text), *(each for span, _, _ in inside for each in span)}
    if escape_controls(text) != text:
        cuts |= {place for at, char in enumerate(text) if escape_controls(char) != char for place in (at, at + 1)}
    ordered = sorted(cuts)
    found = []
    for start, end in zip(ordered, ordered[1:], strict=False):
        said = text[start:end]
        on = [(number, by_model) for (first, last), number, by_model in inside if first <= start and end <= last]
        own, others = (tuple(number for number, by_model in on if by_model is which) for which in (False, True))
        is_sign = escape_controls(said) != said
        # A carriage return before a line's end is how files of some systems end lines, and no news to a reader.
        is_line_end = said == "\r" and text[end : end + 1] == "\n"
        found.append(Piece("" if is_line_end else escape_controls(said), own, others, is_sign))
    return found


# --- lists ----------------------------------------------------------------------------------------------------------


def own_list(mine: Sequence[Assignment]) -> list[dict[str, Any]]:
    """Everything somebody was given, the last first, numbered as they came: a second time looks like any other."""
    count = len(mine)
    return [
        {
            "id": each.id, "number": count - place, "state": each.state, "reason": each.reason, "began": each.began,
            "ended": each.ended,
        }
        for place, each in enumerate(mine)
    ]  # fmt: skip


def short(hash: str) -> str:
    """A rubric's hash, as people compare it.

    >>> short("s256:0123456789abcdef")
    '01234567'
    """
    return hash.rpartition(":")[2][:DIGITS]

"""Template values of rating pages: questions with options and keys, turns with quotes, and earlier answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from statistics import median
from typing import Any

from accord.edges import one_line, sendable
from accord.store import Assignment
from accord.studies import (
    BOTH_BAD,
    MAX_LISTED_OPTIONS,
    ConversationView,
    ItemView,
    StudySession,
    conversation_view,
    visible_to,
)
from accord.values import (
    ISSUE,
    NON_SPEAKERS,
    Annotation,
    Conversation,
    Issue,
    Question,
    Rubric,
    Scale,
    ScaleKind,
    Span,
    StudySettings,
    Target,
    Taxonomy,
    Value,
)  # fmt: skip
from accord.web.accounts import new_key
from accord.web.transcript import MAX_SHOWN, step_content, turn_content

SIDES = ("A", "B")
MAX_WORDS = 160
"""Length of the user's words in lists, in characters."""
MAX_ROW_LABEL, MAX_END_MEANING = 3, 120
"""Lengths, in characters, up to which labels of options stand in one row, and meanings of the ends below it."""
TIMED_ITEMS, MIN_TIMED_ITEMS, MIN_ITEM_SECONDS = 20, 5, 5.0


@dataclass(frozen=True)
class RejectedForm:
    """Fields of a form that was not saved, and its errors by question."""

    fields: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)


# --- questions ------------------------------------------------------------------------------------------------------


def question_views(
    view: ItemView, settings: StudySettings, history: Sequence[Annotation] = (), form: RejectedForm | None = None
) -> list[dict[str, Any]]:
    """Return the questions of a view with the current answers, or with the answers in a rejected form.

    `number` holds the lowest value, the highest value and the step of a typed answer, which has no `options`.
    `both_bad` holds the id of the answer "both are bad" of a pair, and True if it was given.
    """
    form = form or RejectedForm()
    return [
        _question_view(question, view, settings, _past_answers(question, view, settings, history), form)
        for question in view.questions
    ]


def _question_view(
    question: Question, view: ItemView, settings: StudySettings, past: tuple[tuple[str, str], ...], form: RejectedForm
) -> dict[str, Any]:
    name, given, fields = question.id, view.given.get(question.id), form.fields
    chosen = None if given is None or given.value is None else str(given.value)
    is_none, comment = given is not None and given.value is None, given.comment if given else ""
    if fields:
        chosen, comment = fields.get(f"value.{name}") or None, fields.get(f"comment.{name}", "")
        is_none = fields.get(f"value.{name}") == "" or f"none.{name}" in fields
    bad = view.given.get(f"{name}:{BOTH_BAD}")
    is_bad = f"bad.{name}" in fields if fields else bad is not None and bad.value == 1
    number = number_range(question.scale)
    options = [] if number else _option_views(question, settings, chosen)
    return {
        "question": question,
        "id": new_key(),
        "options": options,
        **_row_layout(options),
        "number": number,
        "typed": chosen or "" if number else "",
        "is_none": is_none and not (number and chosen),
        "both_bad": (new_key(), is_bad) if question.compares else None,
        "comment": comment,
        "error": form.errors.get(name, ""),
        "history": past,
    }


def _row_layout(options: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return True for options that stand in one row, and what their numbers mean.

    `ends` holds the label and the meaning of the first and the last option, unless a meaning is too long to stand below
    the row. `has_more_meanings` is True if other options have a meaning, or the ends do not show theirs.
    """
    ends = [(option["label"], str(option["meaning"]).strip().rstrip(".。")) for option in (options[0], options[-1])
            ] if len(options) > 1 else []  # fmt: skip
    meanings = [meaning for _, meaning in ends]
    are_shown = any(meanings) and all(len(each) <= MAX_END_MEANING for each in meanings)
    return {
        "is_row": bool(options) and all(len(option["label"]) <= MAX_ROW_LABEL for option in options),
        "ends": ends if are_shown else None,
        "has_more_meanings": any(option["meaning"] for option in (options[1:-1] if are_shown else options)),
    }


def number_range(scale: Scale) -> tuple[float, float, str] | None:
    """Return the lowest value, the highest value and the step of a typed answer; `None` for listed options."""
    if scale.kind is ScaleKind.REAL:
        assert scale.low is not None and scale.high is not None
        return scale.low, scale.high, "any"
    if len(scale.options) <= MAX_LISTED_OPTIONS:
        return None
    low, high = scale.numbers[0], scale.numbers[-1]
    step = (high - low) / (len(scale.options) - 1)
    is_even = all(abs(low + place * step - number) < 1e-9 for place, number in enumerate(scale.numbers))
    return low, high, f"{step:g}" if is_even else "any"


def _option_views(question: Question, settings: StudySettings, chosen: str | None) -> list[dict[str, Any]]:
    """Return the options with their keys; `ends` is True if an option ends the questionnaire."""
    # The highest option of a comparison prefers the first side; it comes first, like that side.
    options = question.scale.options[::-1] if question.compares else question.scale.options
    hides_numbers = settings.hide_numbers or question.compares
    has_digits = not hides_numbers and all(type(option) is int and 0 <= option <= 9 for option in options)
    stops = settings.stop_on.get(question.id, ())
    views = []
    for place, option in enumerate(options, 1):
        label, meaning = _label_and_meaning(question, option, hides_numbers)
        key = str(option) if has_digits else str(place) if place <= 9 else ""
        views.append({"value": option, "label": label, "meaning": meaning, "key": key, "ends": option in stops,
                      "is_chosen": str(option) == chosen})  # fmt: skip
    return views


def _label_and_meaning(question: Question, option: Value, hides_numbers: bool) -> tuple[str, str]:
    meaning = question.meanings.get(str(option), "")
    if question.compares:
        return _preferred_side(question.scale, option), meaning
    has_words = question.scale.kind is ScaleKind.BINARY and bool(meaning)
    return (meaning or str(option), "") if hides_numbers or has_words else (str(option), meaning)


def _preferred_side(scale: Scale, option: Value) -> str:
    """Return the side that an option of a comparison prefers, or `Tie`."""
    middle = (scale.numbers[0] + scale.numbers[-1]) / 2
    if float(option) == middle:
        return "Tie"
    return SIDES[0] if float(option) > middle else SIDES[1]


def tie_option(scale: Scale) -> Value | None:
    """Return the middle option of a comparison; `None` if the scale has none."""
    return next((option for option in scale.options if _preferred_side(scale, option) == "Tie"), None)


def answer_text(question: Question, value: Value | None, settings: StudySettings) -> str:
    """Return an answer as text."""
    if value is None:
        return "does not apply"
    label, meaning = _label_and_meaning(question, value, settings.hide_numbers or question.compares)
    return f"{label}: {meaning}" if meaning and not settings.hide_numbers else label


def _past_answers(
    question: Question, view: ItemView, settings: StudySettings, history: Sequence[Annotation]
) -> tuple[tuple[str, str], ...]:
    """Return all earlier answers with their times (UTC, to the minute)."""
    answers = [each for each in history if each.question == question.id and each.stage == view.stage.id]
    past = []
    for answer in answers[:-1]:
        text = answer_text(question, answer.value, settings)
        time = (answer.time or "")[:16].replace("T", " ")
        past.append((f"{text} ({answer.comment})" if answer.comment else text, time))
    return tuple(past)


def earlier_answers(view: ItemView, rubric: Rubric, settings: StudySettings) -> list[tuple[str, str]]:
    """Return the questions of earlier stages with their answers as text."""
    pairs = ((rubric.get(name), value) for name, value in view.before.items())
    return [
        (question.text, answer_text(question, value, settings)) for question, value in pairs if question is not None
    ]


# --- conversation ---------------------------------------------------------------------------------------------------


def turn_views(view: ItemView, side: ConversationView, name: str = "") -> list[dict[str, Any]]:
    """Return the turns of a side with the annotator's marks and, if the stage shows them, the issues of a model.

    `new` is the id of the next mark, empty if the turn cannot be marked; `undo` is the id of the answer that removes a
    mark; `folded` is the title of a turn that is folded, unless it is the one to rate. `name` tells the sides of a pair
    apart.
    """
    markable, numbers, turns = _markable_turns(view, side), count(1), []
    for turn in side.turns:
        annotations = [each for each in view.marks if each.target.turn == turn.place]
        marks = [
            {"number": next(numbers), "answer": each.answer, "kind": each.question.removeprefix(ISSUE),
             "quote": each.quote, "comment": each.comment, "undo": new_key()}
            for each in annotations
        ]  # fmt: skip
        found = None if view.issues is None else view.issues.get(turn.place)
        issues = None if found is None else issue_views(found, view.kinds, numbers)
        spans = numbered_spans(annotations, marks, False) + numbered_spans(found or (), issues or (), True)
        new = new_key() if turn.place in markable else ""
        content = turn_content(turn.role, turn.text, turn.calls, spans, len(side.documents), f"d{name}")
        if turn.is_rated:
            is_long = turn.step is not None and len(turn.text) > MAX_SHOWN
            content["folded"] = f"Result, {len(turn.text):,} characters" if is_long else ""
        content["step"] = None if turn.step is None else step_content(turn.step)
        turns.append({**vars(turn), **content, "marks": marks, "issues": issues, "new": new})
    return turns


def _markable_turns(view: ItemView, side: ConversationView) -> set[int]:
    """Return the turns that can be marked: the rated turn, else the assistant's turns, else all of participants."""
    if view.kinds is None:
        return set()
    rated = {turn.place for turn in side.turns if turn.is_rated}
    assistant = {turn.place for turn in side.turns if turn.role == "assistant"}
    return rated or assistant or {turn.place for turn in side.turns if turn.role not in NON_SPEAKERS}


def issue_views(issues: Sequence[Issue], kinds: Taxonomy | None, numbers: Iterator[int]) -> list[dict[str, Any]]:
    """Return issues with the definitions of their kinds, numbered in order."""
    views = []
    for issue in issues:
        kind = None if kinds is None else kinds.find(issue.type)
        definition = "" if kind is None else kind.definition
        views.append({"number": next(numbers), "type": issue.type, "definition": definition, "comment": issue.comment,
                      "quote": issue.quote, "is_made_up": issue.is_made_up})  # fmt: skip
    return views


def numbered_spans(
    quotes: Sequence[Annotation | Issue], views: Sequence[Mapping[str, Any]], by_model: bool
) -> list[tuple[Span, int, bool]]:
    """Return the spans of marks or issues with their numbers on the page, for `turn_content`."""
    return [(each.span, view["number"], by_model) for each, view in zip(quotes, views, strict=True) if each.span]


# --- lists ----------------------------------------------------------------------------------------------------------


def own_ratings(assignments: Sequence[Assignment]) -> list[dict[str, Any]]:
    """Return an annotator's assignments, the latest first; repeated items look like any other."""
    total = len(assignments)
    return [
        {
            "id": each.id, "number": total - place, "state": each.state, "reason": each.reason, "began": each.began,
            "ended": each.ended,
        }
        for place, each in enumerate(assignments)
    ]  # fmt: skip


def rated_items(
    study: StudySession, rows: list[dict[str, Any]], assignments: Sequence[Assignment], search: str, state: str
) -> list[dict[str, Any]]:
    """Return the rows of an annotator's items with the user's words and the answers by short name.

    Args:
        study: The study.
        rows: Rows of `own_ratings`.
        assignments: Their assignments.
        search: Text that the user's words, an answer or a comment contains, in any case; empty for all.
        state: State of the assignments; another text for all.
    """
    kept = [(row, each) for row, each in zip(rows, assignments, strict=True) if state in ("", "all", row["state"])]
    targets = [each.item.target for _, each in kept]
    parts = study.parts(assignments[0].person) if assignments else None
    words = user_words(study.project.store.conversations({each.conversation for each in targets}), targets, parts)
    found = []
    for row, each in kept:
        answers = [
            {"question": study.rubric.shown(answer.question), "answer": _short_answer(study, answer),
             "comment": answer.comment}
            for answer in study.studies.answers_in(each)
            if answer.value is not None or not answer.question.startswith(ISSUE)
        ]  # fmt: skip
        row = {**row, "words": words.get(each.item.target, ""), "answers": answers}
        texts = [row["words"], row["reason"] or "", *(part for answer in answers for part in answer.values())]
        if search.casefold() in "\n".join(texts).casefold():
            found.append(row)
    return found


def user_words(
    conversations: Iterable[Conversation], targets: Sequence[Target], parts: Sequence[str] | None = None
) -> dict[Target, str]:
    """Return the first words of the user, or the last ones before the reply of a target, in at most 160 characters.

    `parts` are those that the reader sees (`visible_to`); None stands for all.
    """
    known = {each.id: each for each in conversations}
    words = {}
    for target in targets:
        whole = known.get(target.conversation)
        said = [(turn.role, turn.content) for turn in whole.up_to(target.turn)] if whole is not None else []
        if whole is not None and parts is not None:
            said = [
                (turn.role, turn.text) for turn in visible_to(conversation_view(whole, target.turn, False), parts).turns
            ]
        texts = [text for role, text in said if role == "user"] or [text for _, text in said]
        text = one_line(" ".join(sendable(texts[0 if target.turn is None else -1])[:400].split())) if texts else ""
        words[target] = text if len(text) <= MAX_WORDS else text[: MAX_WORDS - 1] + "…"
    return words


def _short_answer(study: StudySession, answer: Annotation) -> str:
    """Return the label of an answer; of a mark, the words that it quotes."""
    if answer.question.startswith(ISSUE):
        return answer.quote or "marked"
    question = study.rubric.get(answer.question)
    if question is None or answer.value is None:
        return "n/a" if answer.value is None else str(answer.value)
    return _label_and_meaning(question, answer.value, study.settings.hide_numbers or question.compares)[0]


def saved_item(assignments: Sequence[Assignment], id: str | None) -> dict[str, Any] | None:
    """Return the item that the annotator has just completed or skipped, to undo that; `None` for other ids.

    Args:
        assignments: The annotator's assignments, the latest first.
        id: The item's assignment in the address of the page.
    """
    rows = (row for row in own_ratings(assignments) if row["id"] == id and row["state"] != "open")
    return next(rows, None)


def time_left(assignments: Sequence[Assignment], left: int) -> str:
    """Return the time that the items left take; empty if the completed items cannot tell.

    The time of an item is the median of the latest 20 completed items, from their assignment to their end. At least
    5 items are needed. A median below 5 seconds is too short for reading and gives no estimate.
    """
    done = [each for each in assignments if each.state == "done" and each.ended][:TIMED_ITEMS]
    if left < 1 or len(done) < MIN_TIMED_ITEMS:
        return ""
    seconds = [
        (datetime.fromisoformat(each.ended or each.began) - datetime.fromisoformat(each.began)).total_seconds()
        for each in done
    ]
    if (pace := median(seconds)) < MIN_ITEM_SECONDS:
        return ""
    minutes = max(round(pace * left / 60), 1)
    time = f"{minutes} minute{'s' if minutes > 1 else ''}" if minutes < 90 else f"{minutes / 60:.0f} hours"
    return f"about {time} left"

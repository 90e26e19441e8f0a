"""Infer a rubric from labels: the questions, their scales, and the main question."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from accord.edges import BadInput, Step, UnknownName
from accord.formats import (
    MAX_LOCATIONS,
    USUAL_ENDS,
    WIDEST,
    InferredScale,
    MixedScales,
    ObservedAnswers,
    WordOrder,
    infer_scale,
    is_letters,
    mixed_scales,
    number_of,
    order_for,
    plain_value,
    words_of,
)
from accord.project.importing.question_texts import generated_text, with_generated_names
from accord.values import ISSUE, Applies, Labels, Question, Rubric, Scale, ScaleKind

if TYPE_CHECKING:
    from accord.store import Store

_MAIN = (
    ("overall",), ("q0",), ("satisfaction", "csat", "zufriedenheit", "satisfied"), ("quality", "qualität"),
    ("rating", "ratings", "bewertung", "stars", "note"), ("score",), ("helpful", "helpfulness", "hilfreich"),
    ("thumbs", "thumb", "feedback", "like", "liked"), ("label", "verdict"),
)  # fmt: skip


def set_orders(answers: Mapping[str, ObservedAnswers], orders: Collection[WordOrder], rubric: Rubric | None) -> None:
    """Set the order of the words of questions instead of inferring it.

    Args:
        answers: Answers by question.
        orders: Orders that the user states.
        rubric: Rubric whose questions keep their scales. By default, the rubric is made from the answers.

    Raises:
        BadInput: An order lacks a word of its question, no question has its words, or the rubric has another order.
    """
    used = set[WordOrder]()
    for name, observed in answers.items():
        values = [value for value in observed.values if number_of(value) is None]
        order = order_for(orders, name, observed.values if values else ())
        if order is None:
            continue
        used.add(order)
        observed.order = order
        question = None if rubric is None else rubric.get(name)
        if question is not None:
            _check_order(question, order)
    for order in orders:
        if order not in used:
            worded = [name for name, each in answers.items() if any(number_of(value) is None for value in each.values)]
            raise BadInput(
                f"--order {order}: no question has these words; questions with words: {', '.join(worded) or 'none'}"
            )


def _check_order(question: Question, order: WordOrder) -> None:
    """Raise `BadInput` if a question of a rubric has another order than the stated one."""
    ranks = {str(option): rank for rank, option in enumerate(question.scale.options)}
    places = [
        (ranks[option], place)
        for option in ranks
        if (place := order.place(question.meanings.get(option, option))) is not None
    ]
    if not question.scale.is_ordered or [place for _, place in sorted(places)] != sorted(place for _, place in places):
        raise BadInput(
            f"--order {order}: the rubric has {question.id!r} with another order, {question.scale}; edit the scale in "
            "the file of the rubric, or leave the option out"
        )


# --- the rubric ----------------------------------------------------------------------------------------------------


def positions_note(positions: Sequence[str]) -> str:
    """Return the note about annotators whose names look like positions in a list."""
    return (
        f"annotators {positions[0]} to {positions[-1]} look like positions in a list; they are treated as "
        "the same persons in all files. Otherwise use --anonymous"
    )


class InferredRubric(NamedTuple):
    """Rubric inferred from labels, with a sentence for each guess and each omission."""

    rubric: Rubric
    notes: Sequence[str]


def infer_questions(
    observed: Iterable[ObservedAnswers], others: Iterable[Question] = ()
) -> tuple[list[Question], list[str]]:
    """Return a question for each column of answers on a scale, and a sentence for each guess and each omission.

    Generated names differ from the names of `others`, the questions that the rubric has already.

    Raises:
        BadInput: A question has values on two scales.
    """
    questions, notes = [], []
    for answers in observed:
        if answers.ends is None and len(answers.scales) > 1:
            raise BadInput(_stated_text(answers))
        if (mixed := mixed_scales(answers)) is not None:
            raise BadInput(_mixed_text(answers, mixed))
        inferred = None if _is_wide(answers) else infer_scale(answers)
        if inferred is None:
            notes.append(f"{answers.name!r} is left out: {_reason_without_scale(answers)}")
            continue
        questions.append(_question(answers, inferred))
        if answers.order is None and is_letters(tuple(inferred.meanings.values())):
            notes.append(
                f"the letters of {answers.name!r} are read as an order with A as the best (a guess). To set it: "
                f"--order {shlex.quote(answers.name + '=' + '>'.join(list(inferred.meanings.values())[::-1]))}"
            )
        if is_guess(answers, inferred.scale):
            notes.append(_guess_text(answers, inferred.scale))
    return with_generated_names(questions, others), notes


def infer_rubric(
    observed: Iterable[ObservedAnswers], main: str | None = None, name: str = "from-labels"
) -> InferredRubric:
    """Return a rubric with a question for each column of answers.

    Args:
        observed: Answers of each question.
        main: The main question; by default one with a usual name ("overall", "satisfaction", ...), else the one with
            the most answers.
        name: The rubric's name.

    Raises:
        BadInput: No question has two different values, or one has values on two scales.
        UnknownName: The main question is unknown.
    """
    answers = {column.name: column for column in observed}
    inferred, notes = infer_questions(answers.values())
    questions = {question.id: question for question in inferred}
    if not questions:
        raise BadInput(
            f"no labels to make a rubric from: {'; '.join(notes) or 'no column holds ratings'}. Name the columns with "
            "ratings: --labels NAME; or map a column: --columns value=NAME"
        )
    if main is not None and main not in questions:
        raise UnknownName("question", main, questions)
    chosen = main or _main_question([answers[name] for name in questions])
    if main is None and len(questions) > 1:
        notes.append(f"the main question is {chosen!r} (a guess; --main names another: {', '.join(questions)})")
    return InferredRubric(Rubric(name=name, main=chosen, questions=tuple(questions.values())), notes)


def is_guess(observed: ObservedAnswers, scale: Scale) -> bool:
    """Return True if a numeric scale is inferred from extreme values that are not the ends of a usual scale."""
    numbers = [number for value in observed.values if (number := number_of(value)) is not None]
    if observed.ends is not None or not scale.is_ordered or len(numbers) < 2:
        return False
    return 2 * len(numbers) > len(observed.values) and (min(numbers), max(numbers)) not in USUAL_ENDS


def _extremes(observed: ObservedAnswers) -> tuple[float, float]:
    numbers = [number for value in observed.values if (number := number_of(value)) is not None]
    return (plain_value(min(numbers)), plain_value(max(numbers))) if numbers else (0, 0)


def _is_wide(observed: ObservedAnswers) -> bool:
    """Return True if numbers are too large for a rating scale, as ids, times and counts are."""
    return observed.ends is None and max(map(abs, _extremes(observed))) > WIDEST


def _guess_text(observed: ObservedAnswers, scale: Scale) -> str:
    low, high = _extremes(observed)
    return (
        f"the scale of {observed.name!r} is a guess: {scale}, from values between {low} and {high}. To set it: "
        f"--scale {shlex.quote(observed.name)}={_usual(low, high)}"
    )


def _usual(low: float, high: float) -> str:
    """Return the first usual scale that contains the values; their own ends if there is none."""
    ends = next(((a, b) for a, b in USUAL_ENDS if a <= low and high <= b), (low, high))
    return f"{ends[0]}..{ends[1]}"


def _mixed_text(observed: ObservedAnswers, mixed: MixedScales) -> str:
    rarer = min(mixed, key=lambda side: sum(side.values()))
    rare = [rows for value, rows in observed.locations.items() if number_of(value) in rarer]
    rows = sorted(set(chain.from_iterable(rare)))
    lines = ", ".join(str(row.line) for row in rows[:MAX_LOCATIONS])
    named = f"{rows[0].path}, lines {lines}{', ...' if len(rows) > MAX_LOCATIONS else ''}" if rows else "see the file"
    low, high = (f"{sum(side.values())} from {plain_value(min(side))} to {plain_value(max(side))}" for side in mixed)
    return (
        f"{observed.name!r} has values on two scales: {low} and {high} ({named} hold the rarer ones). Convert them to "
        f"one scale, or set a scale that holds both: --scale {shlex.quote(observed.name)}="
        f"{plain_value(min(mixed[0]))}..{plain_value(max(mixed[1]))}"
    )


def _stated_text(observed: ObservedAnswers) -> str:
    listed = [f"{low:g} to {high:g} ({count:,} answers)" for (low, high), count in observed.scales.most_common(3)]
    low, high = min(low for low, _ in observed.scales), max(high for _, high in observed.scales)
    return (
        f"{observed.name!r} has answers on {len(observed.scales)} scales, as the files state: {', '.join(listed)}. "
        "Convert them to one scale or give each scale a question of its own; if their values mean the same, set the "
        f"scale that holds all: --scale {shlex.quote(observed.name)}={low:g}..{high:g}"
    )


def _reason_without_scale(observed: ObservedAnswers) -> str:
    if _is_wide(observed):
        low, high = _extremes(observed)
        return (
            f"its values run from {low} to {high}, which is not a usual rating scale. If they are ratings: "
            f"--scale {shlex.quote(observed.name)}={low}..{high}"
        )
    if len(observed.values) <= 1:
        only = next(iter(observed.values), None)
        return "it has no answer" if only is None else f"every answer is {only!r}"
    first = ", ".join(repr(value) for value in list(observed.values)[:3])
    return f"its {len(observed.values)} different values are not a scale ({first}, ...)"


def _question(observed: ObservedAnswers, inferred: InferredScale) -> Question:
    unit = "reply" if observed.level == "turn" else "conversation"
    is_binary = inferred.scale.kind is ScaleKind.BINARY and not observed.meanings
    return Question(
        id=observed.name, text=observed.text or generated_text(observed.name, unit, is_binary), scale=inferred.scale,
        meanings={option: text for option, text in inferred.meanings.items() if text},
        applies=Applies.PAIRS if observed.compares else Applies.ALWAYS,
    )  # fmt: skip


def _main_question(observed: Sequence[ObservedAnswers]) -> str:
    """Return the question with the name of a main one, else with the most answers, else with the highest entropy."""
    for names in _MAIN:
        for answers in observed:
            if set(words_of(answers.name)) & set(names) or answers.name.casefold() in names:
                return answers.name

    def rank(answers: ObservedAnswers) -> tuple[int, float]:
        shares = [count / answers.total for count in answers.values.values()]
        return answers.total, -sum(share * math.log(share) for share in shares)

    return max(observed, key=rank).name


def missing_labels(question: str, labels: Labels, store: Store, path: str) -> BadInput:
    """Return the error for a question without labels, with the other questions that have some."""
    if store.replaces:
        return BadInput(
            f"no label on the main question {question!r}: the store {store.replaces} does not exist. Create it: "
            "accord import chats.jsonl labels.csv; or correct `store:` in accord.yaml"
        )
    counts = Counter(label.question for label in labels if label.question != question)
    others = {name: count for name, count in counts.most_common() if not name.startswith(ISSUE)}
    if not others:
        return BadInput(
            f"no label on the main question {question!r}; import some: accord import chats.jsonl labels.csv"
        )
    listed = ", ".join(f"{name} ({count})" for name, count in others.items())
    known = next((name for name in others if store.rubric is not None and store.rubric.get(name) is not None), None)
    name = next(iter(others)) if known is None else known
    init, fit = Step("init", from_="FILE", main=name), Step("fit", question=name)
    in_rubric = "" if known is None else f" `main: {known}` in {path}, or"
    once = "" if known is None else f". To learn it without changing the rubric: {fit}"
    return BadInput(
        f"no label on the main question {question!r}; labels answer {listed}. To choose another main question:"
        f"{in_rubric} {init}{once}", init, fit,
    )  # fmt: skip

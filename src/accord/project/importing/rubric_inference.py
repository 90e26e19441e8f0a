"""Infer a rubric from labels: the questions, their scales, and the main question.

The scale of a question follows from the observed values. Whole numbers are ordered options from 1 (or 0 if observed)
to the highest value; two adjacent ones are a binary question. Words with a known order ("poor", "good") are ordered
options, other words are nominal. All other numbers are a real-valued scale with usual ends (0 to 1, 1 to 5, 0 to 100).
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from accord.edges import BadInput, UnknownName
from accord.formats import LARGEST_ANSWER, NOT_APPLICABLE, OTHER_WORDS, answer_to, number_in, words_of
from accord.project.importing.question_texts import generated_text, with_generated_names
from accord.values import ISSUE, Applies, Labels, Question, Rubric, Scale, ScaleKind, Value

if TYPE_CHECKING:
    from accord.store import Store

MAX_OPTIONS = 11
MAX_WORDS = 10
MAX_DISTINCT = 2000
NUMERIC_SHARE = 0.8
"""Share of numeric values above which all other values are treated as typing errors."""
_ENDS = ((0, 1), (1, 5), (0, 5), (1, 7), (0, 10), (1, 10), (-1, 1), (0, 100))
_YES = {"yes", "true", "y", "up", "thumbs up", "thumbsup", "thumbs_up", "good", "like", "liked", "positive", "pass",
        "passed", "correct", "resolved", "helpful", "sat", "+", "👍", "ja", "gut", "richtig", "positiv"}  # fmt: skip
_NO = {"no", "false", "n", "down", "thumbs down", "thumbsdown", "thumbs_down", "bad", "dislike", "disliked", "negative",
       "fail", "failed", "incorrect", "wrong", "unresolved", "not helpful", "unhelpful", "dsat", "-", "👎", "nein",
       "schlecht", "falsch", "negativ"}  # fmt: skip
_ORDERS = (
    ("terrible", "very bad", "bad", "poor", "fair", "ok", "okay", "average", "medium", "good", "very good", "great",
     "excellent"),
    ("strongly disagree", "disagree", "somewhat disagree", "slightly disagree", "neutral",
     "neither agree nor disagree", "slightly agree", "somewhat agree", "agree", "strongly agree"),
    ("very dissatisfied", "dissatisfied", "neutral", "satisfied", "very satisfied"),
    ("very unlikely", "unlikely", "somewhat unlikely", "neutral", "somewhat likely", "likely", "very likely"),
    ("none", "very low", "low", "mild", "medium", "moderate", "high", "very high", "severe"),
    ("never", "rarely", "sometimes", "often", "always"),
    ("negative", "mixed", "neutral", "positive"),
    ("no", "partly", "partially", "partial", "somewhat", "mostly", "yes"),
    ("sehr schlecht", "schlecht", "mangelhaft", "ausreichend", "mittel", "befriedigend", "gut", "sehr gut"),
    ("nein", "teilweise", "ja"),
)  # fmt: skip
_MAIN = (
    ("overall",), ("q0",), ("satisfaction", "csat", "zufriedenheit", "satisfied"), ("quality", "qualität"),
    ("rating", "ratings", "bewertung", "stars", "note"), ("score",), ("helpful", "helpfulness", "hilfreich"),
    ("thumbs", "thumb", "feedback", "like", "liked"), ("label", "verdict"),
)  # fmt: skip

_POSITION = re.compile(
    r"(?:r|h|a|p|rater|annotator|judge|worker|coder|person|human|expert|labeler)?[ _-]?\d{1,2}", re.I
)
MAX_POSITIONS = 10
MAX_LOCATIONS = 20
WIDEST = 1000
"""Highest value of an inferred scale."""


class RowLocation(NamedTuple):
    """A row of a file."""

    path: str
    line: int


@dataclass
class ObservedAnswers:
    """Answers of files to one question.

    Attributes:
        name: Name of the question.
        values: Counts of raw values; at most `MAX_DISTINCT` different ones.
        annotators: Counts of answers by annotator.
        turn_answers: Number of answers about a turn; the others are about a conversation.
        text: Wording of the question, if a file has it.
        meanings: Meanings of the options, if a file has them.
        ends: Lowest and highest answer, if a file or the user states them.
        is_marked: True if the answers are from a field that holds only ratings.
        locations: File and line of the first rows with each value, up to `MAX_LOCATIONS`.
        scales: Counts of answers by the lowest and highest answer that their row states.
        compares: True if the answers compare two conversations.
    """

    name: str
    values: Counter[Value] = field(default_factory=Counter)
    annotators: Counter[str] = field(default_factory=Counter)
    turn_answers: int = 0
    text: str = ""
    meanings: dict[str, str] = field(default_factory=dict)
    ends: tuple[float, float] | None = None
    is_marked: bool = False
    locations: dict[Value, list[RowLocation]] = field(default_factory=dict)
    scales: Counter[tuple[float, float]] = field(default_factory=Counter)
    compares: bool = False

    def add(
        self, value: Any, annotator: str | None, turn: int | None, location: RowLocation | None = None,
        scale: Any = None,
    ) -> None:  # fmt: skip
        """Count an answer; values for "not applicable" are not counted. `scale` is the scale that its row states."""
        if isinstance(value, str):
            value = value.strip()
            if value.casefold() in NOT_APPLICABLE - {"-"}:
                return
        elif isinstance(value, float) and not math.isfinite(value):
            return
        value = int(value) if isinstance(value, bool) else value
        if value in self.values or len(self.values) < MAX_DISTINCT:
            self.values[value] += 1
            if location is not None and len(known := self.locations.setdefault(value, [])) < MAX_LOCATIONS:
                known.append(location)
        self.turn_answers += turn is not None
        if scale is not None and (ends := ends_of(scale)) is not None:
            self.scales[ends] += 1
        if annotator is not None:
            self.annotators[annotator] += 1

    @property
    def total(self) -> int:
        """Number of answers."""
        return sum(self.values.values())

    @property
    def level(self) -> str:
        """Level of most answers, `turn` or `conversation`."""
        return "turn" if 2 * self.turn_answers > self.total else "conversation"


_TWO_NUMBERS = re.compile(r"\W{0,2}(-?\d{1,9}(?:\.\d{1,9})?) ?(?:,|;|-|–|\.\.|to) ?(-?\d{1,9}(?:\.\d{1,9})?)\W{0,2}")


def ends_of(scale: Any) -> tuple[float, float] | None:
    """Return the lowest and highest answer of a scale as a file states it; None if it is no pair of numbers.

    >>> ends_of([0, 1]), ends_of("[1, 3]"), ends_of("1-5"), ends_of("good to bad")
    ((0, 1), (1, 3), (1, 5), None)
    """
    found = _TWO_NUMBERS.fullmatch(scale.strip()) if isinstance(scale, str) else None
    ends = [_plain(float(end)) for end in found.groups()] if found else scale
    if not isinstance(ends, list) or len(ends) != 2 or not all(type(end) in (int, float) for end in ends):
        return None
    return (ends[0], ends[1]) if ends[0] < ends[1] else None


class InferredScale(NamedTuple):
    """Scale with the meanings of its options."""

    scale: Scale
    meanings: Mapping[str, str] = {}


def infer_scale(observed: ObservedAnswers) -> InferredScale | None:
    """Infer the scale of a question from its values; `None` if the values form no scale.

    >>> numbers = ObservedAnswers("q", values=Counter({2: 3, 4: 1}))
    >>> str(infer_scale(numbers).scale), infer_scale(ObservedAnswers("q", values=Counter({"yes": 1, "no": 2}))).meanings
    ('1, 2, 3, 4', {'0': 'no', '1': 'yes'})
    """
    numbers: Counter[float] = Counter()
    words: Counter[str] = Counter()
    for value, count in observed.values.items():
        number = number_of(value)
        if number is None:
            words[str(value)] += count
        else:
            numbers[number] += count
    if observed.ends is not None and not words:
        return InferredScale(_numeric_scale(numbers, observed.ends), observed.meanings)
    if sum(numbers.values()) >= NUMERIC_SHARE * observed.total > 0:
        return InferredScale(_numeric_scale(numbers, None), {}) if len(numbers) > 1 else None
    return _word_scale(words) if not numbers else None


MixedScales = tuple[dict[float, int], dict[float, int]]
"""Counts of the values of one question on two scales: the lower values and the upper ones."""


def mixed_scales(observed: ObservedAnswers) -> MixedScales | None:
    """Return the values on either side of a gap that no single scale explains; `None` if there is no such gap.

    The lower values are whole numbers from 1 upward (three or more, without a hole), the upper ones lie on a grid of
    fives up to 100 and begin at twice the highest of the lower ones, and each side has a twentieth of the values.

    >>> mixed_scales(ObservedAnswers("q", values=Counter({1: 4, 2: 5, 3: 4, 20: 2, 60: 1, 100: 3})))[1]
    {20.0: 2, 60.0: 1, 100.0: 3}
    >>> mixed_scales(ObservedAnswers("q", values=Counter({0: 4, 5: 5, 10: 4, 20: 2, 60: 1, 100: 3})))
    """
    if observed.ends is not None:
        return None
    counted: Counter[float] = Counter()
    for value, count in observed.values.items():
        if (number := number_of(value)) is not None:
            counted[number] += count
    run = 1
    while run in counted:
        run += 1
    low = {number: counted[number] for number in sorted(counted) if number < run}
    high = {number: counted[number] for number in sorted(counted) if number > run}
    if len(high) < 2 or not (len(low) == run - 1 >= 3 and MAX_OPTIONS < max(high) <= 100):
        return None
    on_grid = all((number / 5).is_integer() for number in high) and min(high) >= 2 * max(low)
    least = sum(counted.values()) / 20
    return (low, high) if on_grid and min(sum(low.values()), sum(high.values())) >= least else None


def rescaled(question: Question, observed: ObservedAnswers) -> Question:
    """Return a question with the scale that the user set, keeping the meanings of its options."""
    inferred = infer_scale(observed)
    if inferred is None:
        return question
    options = {str(option) for option in inferred.scale.options}
    meanings = {option: text for option, text in question.meanings.items() if option in options}
    return Question(**{**dict(question), "scale": inferred.scale, "meanings": meanings})


def off_scale(observed: ObservedAnswers, question: Question) -> list[Value]:
    """Return the values that are off a question's scale."""
    values = []
    for value in observed.values:
        try:
            answer = answer_to(question, value, question.id)
        except BadInput:
            answer = None
        if answer is None or not question.scale.holds(answer):
            values.append(value)
    return values


def number_of(value: Any) -> float | None:
    """Return the value as a number; `None` for a word, or a number that is no answer."""
    number = number_in(value) if isinstance(value, str) else value
    return float(number) if number is not None and -LARGEST_ANSWER <= number <= LARGEST_ANSWER else None


def _numeric_scale(numbers: Collection[float], ends: tuple[float, float] | None) -> Scale:
    """Return the scale of numbers, between the given ends or else between ends that fit them."""
    if ends is None:
        return _scale_of(sorted(set(numbers)))
    whole = _whole_scale(*ends) if _are_multiples(1, (*numbers, *ends)) else None
    return whole or Scale(kind=ScaleKind.REAL, low=float(ends[0]), high=float(ends[1]))


def _scale_of(distinct: Sequence[float]) -> Scale:
    """Return the scale that fits distinct numbers in order: two options, whole numbers, halves, or all between ends."""
    low, high = distinct[0], distinct[-1]
    if len(distinct) == 2 and (high - low == 1 or distinct == [-1, 1]):
        return Scale(kind=ScaleKind.BINARY, options=tuple(map(_plain, distinct)))
    first = low if low <= 0 or high > MAX_OPTIONS else 1
    if _are_multiples(1, distinct) and (whole := _whole_scale(first, high)) is not None:
        return whole
    if _are_multiples(0.5, distinct) and 2 * (high - low) + 1 <= MAX_OPTIONS - 1:
        return Scale(options=tuple(_plain(low + step / 2) for step in range(int(2 * (high - low)) + 1)))
    low, high = next(
        ((a, b) for a, b in _ENDS if a <= low and high <= b and high - low > (b - a) / 4),
        (math.floor(low), math.ceil(high)),
    )
    return Scale(kind=ScaleKind.REAL, low=float(low), high=float(high))


def _whole_scale(low: float, high: float) -> Scale | None:
    """Return the scale of the whole numbers from `low` to `high`; `None` for more than `MAX_OPTIONS`."""
    if high - low >= MAX_OPTIONS:  # times and amounts may lie millions apart
        return None
    options = tuple(range(int(low), int(high) + 1))
    return Scale(kind=ScaleKind.BINARY, options=options) if len(options) == 2 else Scale(options=options)


def _are_multiples(step: float, numbers: Iterable[float]) -> bool:
    return all((number / step).is_integer() for number in numbers)


def _plain(number: float) -> int | float:
    return int(number) if float(number).is_integer() else number


def _word_scale(words: Mapping[str, int]) -> InferredScale | None:
    """Return a binary, ordered or nominal scale of words; `None` for a single word or too many."""
    known = {word.casefold(): word for word in words}
    if not 2 <= len(known) <= MAX_WORDS or max(map(len, known)) > 60:
        return None
    order = (_no_and_yes(list(known)) if len(known) == 2 else None) or next(
        (order for order in _ORDERS if known.keys() <= set(order)), None
    )
    if order is not None:
        ranked = sorted(known, key=order.index)
        kind = ScaleKind.BINARY if len(ranked) == 2 else ScaleKind.ORDINAL
        options = (0, 1) if len(ranked) == 2 else tuple(range(1, len(ranked) + 1))
        meanings = {str(option): known[word] for option, word in zip(options, ranked, strict=True)}
        return InferredScale(Scale(kind=kind, options=options), meanings)
    if len(known) < len(words):
        return None
    return InferredScale(Scale(kind=ScaleKind.NOMINAL, options=tuple(sorted(words))))


def _no_and_yes(words: Sequence[str]) -> Sequence[str] | None:
    """Return two words with the negative one first; `None` if neither negates the other."""
    plain = [re.sub(r"^(?:not |un|non-|no |nicht )", "", word) for word in words]
    negated = [word for word, other, bare in zip(words, reversed(words), plain, strict=True) if bare == other]
    if len(negated) == 1:
        return [*negated, *(word for word in words if word not in negated)]
    no, yes = ([word for word in words if word in known] for known in (_NO, _YES))
    return [*no, *yes] if len(no) == len(yes) == 1 else None


# --- columns that are questions ------------------------------------------------------------------------------------


def has_scale_values(observed: ObservedAnswers) -> bool:
    """Return True if a column has values on a scale, and no name of another meaning."""
    if set(words_of(observed.name)) & OTHER_WORDS or len(observed.values) < 2:
        return False
    numbers = [number_of(value) for value in observed.values]
    if None in numbers:
        return False
    return _numeric_scale([number for number in numbers if number is not None], None).kind is not ScaleKind.REAL


def positions_among(named: Collection[str]) -> list[str]:
    """Return the names of annotators in order if all look like positions in a list (r1, r2, ...), else an empty list.

    >>> positions_among({"r2", "r1"}), positions_among({"r1", "ann"}), positions_among({"judge3", "judge19"})
    (['r1', 'r2'], [], [])
    """
    numbers = {name: int(re.sub(r"\D", "", name)) for name in named if _POSITION.fullmatch(name)}
    if not 2 <= len(named) <= MAX_POSITIONS or len(numbers) < len(named):
        return []
    ordered = sorted(numbers, key=numbers.__getitem__)
    first = numbers[ordered[0]]
    is_run = first in (0, 1) and [numbers[name] for name in ordered] == list(range(first, first + len(named)))
    return ordered if is_run else []


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

    Generated names differ from those of `others`, the questions that the rubric has already.

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
    return 2 * len(numbers) > len(observed.values) and (min(numbers), max(numbers)) not in _ENDS


def _extremes(observed: ObservedAnswers) -> tuple[float, float]:
    numbers = [number for value in observed.values if (number := number_of(value)) is not None]
    return (_plain(min(numbers)), _plain(max(numbers))) if numbers else (0, 0)


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
    ends = next(((a, b) for a, b in _ENDS if a <= low and high <= b), (low, high))
    return f"{ends[0]}..{ends[1]}"


def _mixed_text(observed: ObservedAnswers, mixed: MixedScales) -> str:
    rarer = min(mixed, key=lambda side: sum(side.values()))
    rare = [rows for value, rows in observed.locations.items() if number_of(value) in rarer]
    rows = sorted(set(chain.from_iterable(rare)))
    lines = ", ".join(str(row.line) for row in rows[:MAX_LOCATIONS])
    named = f"{rows[0].path}, lines {lines}{', ...' if len(rows) > MAX_LOCATIONS else ''}" if rows else "see the file"
    low, high = (f"{sum(side.values())} from {_plain(min(side))} to {_plain(max(side))}" for side in mixed)
    return (
        f"{observed.name!r} has values on two scales: {low} and {high} ({named} hold the rarer ones). Convert them to "
        f"one scale, or set a scale that holds both: --scale {shlex.quote(observed.name)}="
        f"{_plain(min(mixed[0]))}..{_plain(max(mixed[1]))}"
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


def missing_labels(question: str, labels: Labels, store: Store, path: str) -> str:
    """Return the error message for a question without labels, with the other questions that have some."""
    if store.replaces:
        return (
            f"no label on the main question {question!r}: the store {store.replaces} does not exist. Create it: "
            "accord import chats.jsonl labels.csv; or correct `store:` in accord.yaml"
        )
    counts = Counter(label.question for label in labels if label.question != question)
    others = {name: count for name, count in counts.most_common() if not name.startswith(ISSUE)}
    if not others:
        return f"no label on the main question {question!r}; import some: accord import chats.jsonl labels.csv"
    listed = ", ".join(f"{name} ({count})" for name, count in others.items())
    known = next((name for name in others if store.rubric is not None and store.rubric.get(name) is not None), None)
    name = shlex.quote(next(iter(others)) if known is None else known)
    in_rubric = "" if known is None else f" `main: {known}` in {path}, or"
    once = "" if known is None else f". To learn it without changing the rubric: accord fit --question {name}"
    return (
        f"no label on the main question {question!r}; labels answer {listed}. To choose another main question:"
        f"{in_rubric} accord init --from FILE --main {name}{once}"
    )

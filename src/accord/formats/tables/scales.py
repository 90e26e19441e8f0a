"""The scale of a column of answers, inferred from its values.

Whole numbers are ordered options from 1 (or 0 if observed) to the highest value; two adjacent ones are a binary
question. Words with a known order ("poor", "good") are ordered options, other words are nominal. All other numbers are
a real-valued scale with usual ends (0 to 1, 1 to 5, 0 to 100).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from accord.edges import BadInput, one_line
from accord.formats.labels.answers import NOT_APPLICABLE, answer_to
from accord.formats.labels.ordered_words import MAX_ORDERED, WordOrder, has_none, order_of
from accord.formats.labels.rating_columns import number_in, words_of
from accord.formats.openai_messages import LARGEST_ANSWER
from accord.formats.tables.words import OTHER_WORDS
from accord.values import Question, Scale, ScaleKind, Value

MIN_PARSED = 0.8
"""Smallest share of a column's values that must be on its scale; the others are left out with a note."""
MAX_OPTIONS = 11
MAX_WORDS = 10
MAX_DISTINCT = 2000
NUMERIC_SHARE = 0.8
"""Share of numeric values above which all other values are treated as typing errors."""
USUAL_ENDS = ((0, 1), (1, 5), (0, 5), (1, 7), (0, 10), (1, 10), (-1, 1), (0, 100))
_YES = {"yes", "true", "y", "up", "thumbs up", "thumbsup", "thumbs_up", "good", "like", "liked", "positive", "pass",
        "passed", "correct", "resolved", "helpful", "sat", "+", "👍", "ja", "gut", "richtig", "positiv"}  # fmt: skip
_NO = {"no", "false", "n", "down", "thumbs down", "thumbsdown", "thumbs_down", "bad", "dislike", "disliked", "negative",
       "fail", "failed", "incorrect", "wrong", "unresolved", "not helpful", "unhelpful", "dsat", "-", "👎", "nein",
       "schlecht", "falsch", "negativ"}  # fmt: skip

_POSITION = re.compile(
    r"(?:r|h|a|p|rater|annotator|judge|worker|coder|person|human|expert|labeler)?[ _-]?\d{1,2}", re.I
)
MAX_POSITIONS = 10
MAX_LOCATIONS = 20
WIDEST = 1000
"""Highest value of an inferred scale."""
SMALLEST_ANSWER = 1e-50
"""Smallest number above 0; closer ones are read as 0."""


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
        order: Order of the words, if the user states one.
        missing: Counts of words for "not applicable", which an order may have as an answer.
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
    order: WordOrder | None = None
    missing: Counter[str] = field(default_factory=Counter)

    def add(
        self, value: Any, annotator: str | None, turn: int | None, location: RowLocation | None = None,
        scale: Any = None,
    ) -> None:  # fmt: skip
        """Count an answer; values for "not applicable" are not counted. `scale` is the scale that its row states."""
        if isinstance(value, str):
            value = value.strip()
            if value.casefold() in NOT_APPLICABLE - {"-"}:
                self.missing[value] += 1
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
    """Return the lowest and highest answer of a scale as a file states it, or `None` if it is not a pair of numbers.

    >>> ends_of([0, 1]), ends_of("[1, 3]"), ends_of("1-5"), ends_of("good to bad")
    ((0, 1), (1, 3), (1, 5), None)
    """
    found = _TWO_NUMBERS.fullmatch(scale.strip()) if isinstance(scale, str) else None
    ends = [plain_value(float(end)) for end in found.groups()] if found else scale
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
    if observed.order is not None:
        return _ranked(observed.order.words)
    if has_none(words):
        words.update({word: count for word, count in observed.missing.items() if word.casefold() == "none"})
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
    """Return the value as a number; `None` for a word, or a number that is not an answer.

    Numbers closer to 0 than `SMALLEST_ANSWER` are 0, because their variances have no floating-point number.
    """
    number = number_in(value) if isinstance(value, str) else value if isinstance(value, int | float) else None
    if number is None or not -LARGEST_ANSWER <= number <= LARGEST_ANSWER:
        return None
    return float(number) if abs(number) >= SMALLEST_ANSWER else 0.0


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
        return Scale(kind=ScaleKind.BINARY, options=tuple(map(plain_value, distinct)))
    first = low if low <= 0 or high > MAX_OPTIONS else 1
    if _are_multiples(1, distinct) and (whole := _whole_scale(first, high)) is not None:
        return whole
    if _are_multiples(0.5, distinct) and 2 * (high - low) + 1 <= MAX_OPTIONS - 1:
        return Scale(options=tuple(plain_value(low + step / 2) for step in range(int(2 * (high - low)) + 1)))
    low, high = next(
        ((a, b) for a, b in USUAL_ENDS if a <= low and high <= b and high - low > (b - a) / 4),
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


def plain_value(number: float) -> int | float:
    """Return a whole number as an integer."""
    return int(number) if float(number).is_integer() else number


def _word_scale(words: Mapping[str, int]) -> InferredScale | None:
    """Return a binary, ordered or nominal scale of words; `None` for a single word or too many."""
    known = {word.casefold(): word for word in words}
    if not 2 <= len(known) <= MAX_ORDERED or max(map(len, known)) > 60:
        return None
    order = (_no_and_yes(list(known)) if len(known) == 2 else None) or order_of(known)
    if order is not None:
        return _ranked([known[word] for word in sorted(known, key=order.index)])
    if len(known) < len(words) or len(known) > MAX_WORDS:
        return None
    return InferredScale(Scale(kind=ScaleKind.NOMINAL, options=tuple(sorted(words))))


def _ranked(words: Sequence[str]) -> InferredScale:
    """Return the scale of words, the lowest first."""
    kind = ScaleKind.BINARY if len(words) == 2 else ScaleKind.ORDINAL
    options = (0, 1) if len(words) == 2 else tuple(range(1, len(words) + 1))
    meanings = {str(option): word for option, word in zip(options, words, strict=True)}
    return InferredScale(Scale(kind=kind, options=options), meanings)


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
    numbers = {number_of(value) for value in observed.values}
    if None in numbers or len(numbers) < 2:  # 1, "1" and "1.0" are one number
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


# --- cells ----------------------------------------------------------------------------------------------------------


def is_missing(cell: Any) -> bool:
    """Return True for an empty cell and words for "no answer"."""
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return True
    return isinstance(cell, str) and (not cell.strip() or cell.strip().casefold() in NOT_APPLICABLE)


def is_none(cell: Any) -> bool:
    """Return True for the word "none", which is an answer of some scales."""
    return isinstance(cell, str) and len(cell) < _LONGEST_NONE and cell.strip().casefold() == "none"


_LONGEST_NONE = 20


def is_number(cell: Any) -> bool:
    """Return True for a number, or the text of one."""
    return isinstance(cell, bool | int | float | str) and number_of(typed(cell)) is not None


def typed(cell: Any) -> Any:
    """Return a text without blanks around it, and a truth value as a number."""
    return cell.strip() if isinstance(cell, str) else int(cell) if isinstance(cell, bool) else cell


def observed_answers(cells: Iterable[Any], name: str = "values") -> ObservedAnswers:
    """Return the answers in the cells of a column."""
    observed = ObservedAnswers(name)
    for cell in cells:
        if (not is_missing(cell) or is_none(cell)) and isinstance(cell, str | int | float):
            observed.add(cell, None, None)
    return observed


def has_scale(cells: Sequence[Any]) -> bool:
    """Return True if the cells of a column can be answers: numbers, one word, or words of a scale."""
    observed = observed_answers(cells)
    if not observed.total:
        return False
    words = {str(value).casefold() for value in observed.values if number_of(value) is None}
    if infer_scale(observed) is not None:
        return True
    is_single = len(observed.values) == 1 and all(len(word) <= 30 for word in words)
    return is_single or upper_share(observed) >= MIN_PARSED


def no_scale(cells: Sequence[Any]) -> str:
    """Return the reason why the cells of a column are not answers, as a predicate."""
    observed = observed_answers(cells)
    if not observed.total and any(isinstance(cell, list) for cell in cells):
        return "holds lists, and a cell is one answer (write a column for each, such as judge_1 and judge_2)"
    if not observed.total:
        return "is empty"
    words = Counter({str(value): n for value, n in observed.values.items() if number_of(value) is None})
    if 0 < words.total() < observed.total:
        listed = ", ".join(repr(one_line(word, 30)) for word, _ in words.most_common(3))
        return f"mixes {observed.total - words.total()} numbers with {words.total()} words ({listed})"
    return f"has {len(observed.values)} different values that form no scale"


def upper_share(observed: ObservedAnswers) -> float:
    """Return the share of the two most frequent words if they are the two values of a scale, else 0."""
    top = Counter({str(value).casefold(): count for value, count in observed.values.items()}).most_common(2)
    scale = infer_scale(observed_answers([word for word, _ in top]))
    is_pair = scale is not None and scale.scale.kind is ScaleKind.BINARY
    return sum(count for _, count in top) / observed.total if is_pair else 0.0

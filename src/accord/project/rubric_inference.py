"""A rubric that fits labels: which question each column asks, on which scale, and which one is the main question.

A scale is read off the values that were seen. Whole numbers are options in order, from 1 (or 0, where it was seen) up
to the highest; two neighbours are a binary question; words whose order is known ("poor", "good") are options in that
order, others are nominal; all other numbers are a real-valued scale between conventional ends (0 to 1, 1 to 5, 0 to
100).
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from accord.edges import BadInput, UnknownName
from accord.formats import NOT_APPLICABLE, answer_to, is_rating_name, number_in, words_of
from accord.values import ISSUE, Labels, Question, Rubric, Scale, ScaleKind, Value

MOST_OPTIONS = 11
MOST_WORDS = 10
MOST_DISTINCT = 2000
NUMERIC_SHARE = 0.8
"""Where so many of the values are numbers, the others are typing errors."""
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
OTHER_WORDS = {
    "id", "ids", "index", "idx", "turn", "turns", "count", "num", "number", "length", "len", "tokens", "token", "words",
    "chars", "age", "year", "month", "day", "hour", "date", "time", "timestamp", "duration", "latency", "seconds",
    "minutes", "ms", "version", "temperature", "seed", "model", "system", "bot", "user", "topic", "domain", "language",
    "lang", "locale", "country", "gender", "channel", "source", "dataset", "split", "fold", "batch", "run", "cost",
    "price", "url", "comment", "comments", "reason", "explanation", "name", "email", "session", "trace", "title",
    "items", "level", "order", "rank", "position", "category", "type", "status", "n", "k", "p", "confidence",
}  # fmt: skip
_MAIN = (
    ("overall",), ("q0",), ("satisfaction", "csat", "zufriedenheit", "satisfied"), ("quality", "qualität"),
    ("rating", "ratings", "bewertung", "stars", "note"), ("score",), ("helpful", "helpfulness", "hilfreich"),
    ("thumbs", "thumb", "feedback", "like", "liked"), ("label", "verdict"),
)  # fmt: skip

_POSITION = re.compile(
    r"(?:r|h|a|p|rater|annotator|judge|worker|coder|person|human|expert|labeler)?[ _-]?\d{1,2}", re.I
)
MOST_POSITIONS = 10
MOST_PLACES = 20
WIDEST = 1000
"""The highest value of a scale that is guessed."""


class Place(NamedTuple):
    """A row of a file."""

    path: str
    line: int


@dataclass
class Observed:
    """What files answer to one question.

    Attributes:
        name: The question.
        values: Raw values, counted; at most `MOST_DISTINCT` different ones.
        annotators: Who answered, and how often.
        of_turns: How many answers are about a turn; all others are about a conversation.
        text: The question's wording, where a file has it.
        meanings: What its options mean, where a file has it.
        ends: The lowest and the highest answer, where a file says them.
        is_marked: Whether it stood where nothing but ratings stands.
        is_beside: Whether it stood beside the text.
        places: The file and line of the first rows with each value, up to `MOST_PLACES`.
    """

    name: str
    values: Counter[Value] = field(default_factory=Counter)
    annotators: Counter[str] = field(default_factory=Counter)
    of_turns: int = 0
    text: str = ""
    meanings: dict[str, str] = field(default_factory=dict)
    ends: tuple[float, float] | None = None
    is_marked: bool = False
    is_beside: bool = False
    places: dict[Value, list[Place]] = field(default_factory=dict)

    def add(self, value: Any, annotator: str | None, turn: int | None, place: Place | None = None) -> None:
        """Count one answer; a value for "not applicable" is not counted."""
        if isinstance(value, str):
            value = value.strip()
            if value.casefold() in NOT_APPLICABLE - {"-"}:
                return
        elif isinstance(value, float) and not math.isfinite(value):
            return
        value = int(value) if isinstance(value, bool) else value
        if value in self.values or len(self.values) < MOST_DISTINCT:
            self.values[value] += 1
            if place is not None and len(known := self.places.setdefault(value, [])) < MOST_PLACES:
                known.append(place)
        self.of_turns += turn is not None
        if annotator is not None:
            self.annotators[annotator] += 1

    @property
    def total(self) -> int:
        """How many answers there are."""
        return sum(self.values.values())

    @property
    def level(self) -> str:
        """Whether most answers are about turns or about conversations."""
        return "turn" if 2 * self.of_turns > self.total else "conversation"


class ScaleFound(NamedTuple):
    """A scale with what its options mean."""

    scale: Scale
    meanings: Mapping[str, str] = {}


def scale_for(observed: Observed) -> ScaleFound | None:
    """The scale that the values of a question fit; `None` where they are no answers on a scale.

    >>> numbers = Observed("q", values=Counter({2: 3, 4: 1}))
    >>> str(scale_for(numbers).scale), scale_for(Observed("q", values=Counter({"yes": 1, "no": 2}))).meanings
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
        return ScaleFound(_of_numbers(numbers, observed.ends), observed.meanings)
    if sum(numbers.values()) >= NUMERIC_SHARE * observed.total > 0:
        return ScaleFound(_of_numbers(numbers, None), {}) if len(numbers) > 1 else None
    return _of_words(words) if not numbers else None


class Mixed(NamedTuple):
    """Values of one question on two scales: the lower and the upper ones, each with counts."""

    low: dict[float, int]
    high: dict[float, int]


def mixed_scales(observed: Observed) -> Mixed | None:
    """Return the values on either side of a gap that no single scale explains; `None` if there is no such gap.

    The lower values are whole numbers from 1 upward (three or more, without a hole), the upper ones lie on a grid of
    fives up to 100 and begin at twice the highest of the lower ones, and each side has a twentieth of the values.

    >>> mixed_scales(Observed("q", values=Counter({1: 4, 2: 5, 3: 4, 20: 2, 60: 1, 100: 3}))).high
    {20.0: 2, 60.0: 1, 100.0: 3}
    >>> mixed_scales(Observed("q", values=Counter({0: 4, 5: 5, 10: 4, 20: 2, 60: 1, 100: 3})))
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
    if len(high) < 2 or not (len(low) == run - 1 >= 3 and MOST_OPTIONS < max(high) <= 100):
        return None
    on_grid = all((number / 5).is_integer() for number in high) and min(high) >= 2 * max(low)
    least = sum(counted.values()) / 20
    return Mixed(low, high) if on_grid and min(sum(low.values()), sum(high.values())) >= least else None


def rescaled(question: Question, observed: Observed) -> Question:
    """Return a question with the scale that was set for it, in its own words."""
    found = scale_for(observed)
    if found is None:
        return question
    options = {str(option) for option in found.scale.options}
    meanings = {option: text for option, text in question.meanings.items() if option in options}
    return Question(**{**dict(question), "scale": found.scale, "meanings": meanings})


def off_scale(observed: Observed, question: Question) -> list[Value]:
    """Return the values that are no answers on a question's scale."""
    found = []
    for value in observed.values:
        try:
            read = answer_to(question, value, question.id)
        except BadInput:
            read = None
        if read is None or not question.scale.holds(read):
            found.append(value)
    return found


def number_of(value: Any) -> float | None:
    """Return the value as a number; `None` for a word."""
    return number_in(value) if isinstance(value, str) else float(value)


def _of_numbers(numbers: Collection[float], ends: tuple[float, float] | None) -> Scale:
    low, high = ends or (min(numbers), max(numbers))
    distinct = sorted(set(numbers))
    whole = all(float(number).is_integer() for number in (*distinct, low, high))
    if ends is None and len(distinct) == 2 and (high - low == 1 or distinct == [-1, 1]):
        return Scale(kind=ScaleKind.BINARY, options=tuple(map(_plain, distinct)))
    if whole:
        low = low if ends is not None or low <= 0 or high > MOST_OPTIONS else 1
        options = range(int(low), int(high) + 1)
        if len(options) == 2:
            return Scale(kind=ScaleKind.BINARY, options=tuple(options))
        if len(options) <= MOST_OPTIONS:
            return Scale(options=tuple(options))
    halves = all((2 * number).is_integer() for number in (*distinct, low, high))
    if halves and ends is None and 2 * (high - low) + 1 <= MOST_OPTIONS - 1:
        return Scale(options=tuple(_plain(low + step / 2) for step in range(int(2 * (high - low)) + 1)))
    if ends is None:
        low, high = next(
            ((a, b) for a, b in _ENDS if a <= low and high <= b and high - low > (b - a) / 4),
            (math.floor(low), math.ceil(high)),
        )
    return Scale(kind=ScaleKind.REAL, low=float(low), high=float(high))


def _plain(number: float) -> int | float:
    return int(number) if float(number).is_integer() else number


def _of_words(words: Mapping[str, int]) -> ScaleFound | None:
    """Binary, ordered or nominal; `None` where the words are too many, or one alone."""
    known = {word.casefold(): word for word in words}
    if not 2 <= len(known) <= MOST_WORDS or max(map(len, known)) > 60:
        return None
    yes, no = [word for word in known if word in _YES], [word for word in known if word in _NO]
    if len(known) == 2 and len(yes) == len(no) == 1:
        return ScaleFound(Scale(kind=ScaleKind.BINARY, options=(0, 1)), {"0": known[no[0]], "1": known[yes[0]]})
    for order in _ORDERS:
        if known.keys() <= set(order):
            ranked = sorted(known, key=order.index)
            kind = ScaleKind.BINARY if len(ranked) == 2 else ScaleKind.ORDINAL
            options = (0, 1) if len(ranked) == 2 else tuple(range(1, len(ranked) + 1))
            meanings = {str(option): known[word] for option, word in zip(options, ranked, strict=True)}
            return ScaleFound(Scale(kind=kind, options=options), meanings)
    if len(known) < len(words):
        return None
    return ScaleFound(Scale(kind=ScaleKind.NOMINAL, options=tuple(sorted(words))))


# --- which of them are questions -----------------------------------------------------------------------------------


def asked_by_name(found: Observed) -> bool:
    """Whether a question's name says that it is one."""
    return is_rating_name(found.name)


def asked_by_values(found: Observed) -> bool:
    """Whether values look like answers on a scale, and the name does not say that they are something else."""
    if set(words_of(found.name)) & OTHER_WORDS or any(number_of(value) is None for value in found.values):
        return False
    scale = (
        ScaleFound(_of_numbers([number_of(v) or 0.0 for v in found.values], None)).scale
        if len(found.values) > 1
        else None
    )
    return scale is not None and scale.kind is not ScaleKind.REAL


def positions_among(named: Collection[str]) -> list[str]:
    """The annotators' names in order, where all of them look like places in a list: r1, r2, ...; else none.

    >>> positions_among({"r2", "r1"}), positions_among({"r1", "ann"}), positions_among({"judge3", "judge19"})
    (['r1', 'r2'], [], [])
    """
    numbers = {name: int(re.sub(r"\D", "", name)) for name in named if _POSITION.fullmatch(name)}
    if not 2 <= len(named) <= MOST_POSITIONS or len(numbers) < len(named):
        return []
    ordered = sorted(numbers, key=numbers.__getitem__)
    first = numbers[ordered[0]]
    return (
        ordered if first in (0, 1) and [numbers[n] for n in ordered] == list(range(first, first + len(named))) else []
    )


# --- the rubric ----------------------------------------------------------------------------------------------------


class RubricFound(NamedTuple):
    """A rubric that fits labels, with a sentence for whatever was guessed or left out."""

    rubric: Rubric
    said: Sequence[str]


def questions_for(found: Iterable[Observed]) -> tuple[list[Question], list[str]]:
    """Return a question for each that was answered on a scale, and a sentence for each guess and for each left out.

    Raises:
        BadInput: A question has values on two scales.
    """
    questions, said = [], []
    for each in found:
        if (mixed := mixed_scales(each)) is not None:
            raise BadInput(_mixed_text(each, mixed))
        fitting = None if _is_wide(each) else scale_for(each)
        if fitting is None:
            said.append(f"{each.name!r} is left out: {_unfit(each)}")
            continue
        questions.append(_question(each, fitting))
        if is_guess(each, fitting.scale):
            said.append(_guess_text(each, fitting.scale))
    return questions, said


def rubric_for(found: Iterable[Observed], main: str | None = None, name: str = "from-labels") -> RubricFound:
    """Return a rubric with a question for each that was answered, on the scales of the answers.

    Args:
        found: The observations of each question.
        main: The main question; by default one whose name says so ("overall", "satisfaction", ...), else the one with
            the most answers.
        name: The rubric's name.

    Raises:
        BadInput: No question has two different values, or one has values on two scales.
        UnknownName: The main question is unknown.
    """
    asked = {each.name: each for each in found}
    made, said = questions_for(asked.values())
    questions = {each.id: each for each in made}
    if not questions:
        raise BadInput(
            f"no labels to make a rubric from: {'; '.join(said) or 'no column holds ratings'}. Name the columns with "
            "ratings: --labels NAME; or map a column: --columns value=NAME"
        )
    if main is not None and main not in questions:
        raise UnknownName("question", main, questions)
    chosen = main or _guess([asked[each] for each in questions])
    if main is None and len(questions) > 1:
        said.append(f"the main question is {chosen!r} (a guess; --main names another: {', '.join(questions)})")
    return RubricFound(Rubric(name=name, main=chosen, questions=tuple(questions.values())), said)


def is_guess(observed: Observed, scale: Scale) -> bool:
    """Return True if a numeric scale comes from the extremes of the values alone, and these are no usual ends."""
    numbers = [number for value in observed.values if (number := number_of(value)) is not None]
    if observed.ends is not None or not scale.is_ordered or scale.kind is ScaleKind.BINARY or len(numbers) < 2:
        return False
    return 2 * len(numbers) > len(observed.values) and (min(numbers), max(numbers)) not in _ENDS


def _extremes(observed: Observed) -> tuple[float, float]:
    numbers = [number for value in observed.values if (number := number_of(value)) is not None]
    return (_plain(min(numbers)), _plain(max(numbers))) if numbers else (0, 0)


def _is_wide(observed: Observed) -> bool:
    """Return True if numbers are too far from those of a rating scale to guess one: IDs, times, counts."""
    return observed.ends is None and max(map(abs, _extremes(observed))) > WIDEST


def _guess_text(observed: Observed, scale: Scale) -> str:
    low, high = _extremes(observed)
    return (
        f"the scale of {observed.name!r} is a guess: {scale}, from values between {low} and {high}. To set it: "
        f"--scale {shlex.quote(observed.name)}={_usual(low, high)}"
    )


def _usual(low: float, high: float) -> str:
    """The first usual scale that holds the values and has other ends; their own ends if there is none."""
    ends = next(((a, b) for a, b in _ENDS if a <= low and high <= b), (low, high))
    return f"{ends[0]}..{ends[1]}"


def _mixed_text(observed: Observed, mixed: Mixed) -> str:
    rarer = min(mixed, key=lambda side: sum(side.values()))
    places = sorted({place for value, where in observed.places.items() if number_of(value) in rarer for place in where})
    lines = ", ".join(str(place.line) for place in places[:MOST_PLACES])
    named = (
        f"{places[0].path}, lines {lines}{', ...' if len(places) > MOST_PLACES else ''}" if places else "see the file"
    )
    low, high = (
        f"{sum(side.values())} from {_plain(min(side))} to {_plain(max(side))}" for side in (mixed.low, mixed.high)
    )
    return (
        f"{observed.name!r} has values on two scales: {low} and {high} ({named} hold the rarer ones). Convert them to "
        f"one scale, or set a scale that holds both: --scale {shlex.quote(observed.name)}="
        f"{_plain(min(mixed.low))}..{_plain(max(mixed.high))}"
    )


def _unfit(observed: Observed) -> str:
    if _is_wide(observed):
        low, high = _extremes(observed)
        return (
            f"its values run from {low} to {high}, which is no usual rating scale. If they are ratings: "
            f"--scale {shlex.quote(observed.name)}={low}..{high}"
        )
    if len(observed.values) <= 1:
        only = next(iter(observed.values), None)
        return "nobody answered it" if only is None else f"every answer is {only!r}"
    first = ", ".join(repr(value) for value in list(observed.values)[:3])
    return f"its {len(observed.values)} different values are no scale ({first}, ...)"


def _question(observed: Observed, fitting: ScaleFound) -> Question:
    about = "reply" if observed.level == "turn" else "conversation"
    binary = fitting.scale.kind is ScaleKind.BINARY and not observed.meanings
    guess = (
        f"Does {observed.name!r} hold of the {about}?" if binary else f"How is the {about} rated on {observed.name!r}?"
    )
    return Question(
        id=observed.name, text=observed.text or guess, scale=fitting.scale,
        meanings={option: text for option, text in fitting.meanings.items() if text},
    )  # fmt: skip


def _guess(found: Sequence[Observed]) -> str:
    """The question whose name says that it is the main one, else the most answered, else the most divided one."""
    for names in _MAIN:
        for each in found:
            if set(words_of(each.name)) & set(names) or each.name.casefold() in names:
                return each.name

    def rank(each: Observed) -> tuple[int, float]:
        shares = [count / each.total for count in each.values.values()]
        return each.total, -sum(share * math.log(share) for share in shares)

    return max(found, key=rank).name


def missing_labels(question: str, labels: Labels, rubric: Rubric, path: str) -> str:
    """Return the error message for a question without labels, with the other questions that have some."""
    counts = Counter(label.question for label in labels if label.question != question)
    others = {name: count for name, count in counts.most_common() if not name.startswith(ISSUE)}
    if not others:
        return f"no label on the main question {question!r}; import some: accord import chats.jsonl labels.csv"
    shown = ", ".join(f"{name} ({count})" for name, count in others.items())
    asked = next((name for name in others if rubric.get(name) is not None), None)
    name = shlex.quote(next(iter(others)) if asked is None else asked)
    in_rubric = "" if asked is None else f" `main: {asked}` in {path}, or"
    once = "" if asked is None else f". To learn it without changing the rubric: accord fit --question {name}"
    return (
        f"no label on the main question {question!r}; labels answer {shown}. To choose another main question:"
        f"{in_rubric} accord init --from FILE --main {name}{once}"
    )

"""Rubrics: questions with their scales and conditions, and the main question."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from math import isfinite
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from accord.edges import UnknownName, escape_controls
from accord.values.conversation import TOOL_ROLES, Conversation, content_hash
from accord.values.steps import step_turns

Value = int | float | str
"""Answer: a number on an ordered or real scale, a string on a nominal scale."""

MAX_JUDGE_OPTIONS = 10
"""Maximum number of options in a question to a judge."""
MAX_OPTIONS = 101
ANCHOR_COUNT = 11
"""Number of points to which recorded answers on wider scales are rounded."""
MAX_RANGE = 100
"""Maximum number of characters of a nominal scale's range."""
REAL_STEPS = 100
"""Number of equal steps of a real scale."""
MAX_NAME = 40
"""Maximum number of characters of a question's short name."""


class ScaleKind(StrEnum):
    """Measurement level of a scale."""

    ORDINAL = "ordinal"
    NOMINAL = "nominal"
    BINARY = "binary"
    REAL = "real"


class FrozenModel(BaseModel):
    """Immutable pydantic model without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Scale(FrozenModel):
    """Allowed answers: `options` in order, or `low` to `high` for a real scale.

    Attributes:
        kind: `ordinal` (numbers in rising order), `binary` (two numbers), `nominal` (names), or `real` (a range).
        options: 2 to 101 allowed answers; empty for a real scale.
        low, high: Ends of a real scale.

    Raises:
        ValueError: The options do not suit the kind of scale.

    >>> stars = Scale(options=(1, 2, 3, 4, 5))
    >>> stars.range, stars.holds(3), stars.holds(6)
    ('1..5 (5)', True, False)
    """

    kind: ScaleKind = ScaleKind.ORDINAL
    options: tuple[Value, ...] = ()
    low: float | None = None
    high: float | None = None

    @property
    def length(self) -> float:
        """Difference of the ends of an ordered scale; 1 for a nominal one."""
        return float(max(self.numbers) - min(self.numbers)) if self.is_ordered else 1.0

    @model_validator(mode="after")
    def _consistent(self) -> Scale:
        if self.kind is ScaleKind.REAL:
            ends = (self.low, self.high)
            finite = all(end is not None and isfinite(end) for end in ends)
            if self.options or not finite or not self.low < self.high:  # type: ignore[operator]
                raise ValueError("a real scale has two finite ends, low < high, and no options")
            return self
        if not 2 <= len(self.options) <= MAX_OPTIONS:
            raise ValueError(f"a scale has 2 to {MAX_OPTIONS} options, got {len(self.options)}")
        if len(set(self.options)) != len(self.options):
            raise ValueError("two options of a scale are equal")
        if not self.is_ordered and len(self.options) > MAX_JUDGE_OPTIONS:
            raise ValueError(f"a nominal scale has 2 to {MAX_JUDGE_OPTIONS} options, got {len(self.options)}")
        if self.kind is ScaleKind.BINARY and len(self.options) != 2:
            raise ValueError(f"a binary scale has 2 options, got {len(self.options)}")
        if self.is_ordered and list(self.options) != sorted(self.options, key=float):
            raise ValueError("options of an ordered scale are numbers in rising order")
        return self

    @property
    def is_ordered(self) -> bool:
        """True if answers are numbers with meaningful distances."""
        return self.kind is not ScaleKind.NOMINAL

    @property
    def numbers(self) -> tuple[float, ...]:
        """Answers of an ordered scale as increasing numbers; a real scale has `REAL_STEPS` equal steps.

        Raises:
            ValueError: The scale is nominal.
        """
        if self.kind is not ScaleKind.REAL:
            return tuple(float(option) for option in self.options)
        assert self.low is not None and self.high is not None
        return tuple(self.low + (self.high - self.low) * step / REAL_STEPS for step in range(REAL_STEPS + 1))

    @property
    def anchored(self) -> Scale:
        """The scale with at most `ANCHOR_COUNT` equally spaced options."""
        if self.kind is not ScaleKind.REAL and len(self.options) <= MAX_JUDGE_OPTIONS:
            return self
        low, high = self.numbers[0], self.numbers[-1]
        points = [low + (high - low) * step / (ANCHOR_COUNT - 1) for step in range(ANCHOR_COUNT)]
        return Scale(options=tuple(int(point) if point.is_integer() else round(point, 9) for point in points))

    def holds(self, value: Value) -> bool:
        """Return True if the scale allows a value."""
        if isinstance(value, bool):
            return False
        if self.kind is not ScaleKind.REAL:
            return value in self.options
        assert self.low is not None and self.high is not None
        return not isinstance(value, str) and self.low <= value <= self.high

    def parse(self, text: str) -> Value | None:
        """Return the option with a text, or None."""
        return next((option for option in self.options if str(option) == text.strip()), None)

    @property
    def range(self) -> str:
        """Ends and number of options as text, such as `1..5 (5)` or `0..1`; the options of a nominal scale.

        >>> Scale(options=(1, 2, 3, 4, 5)).range, Scale(kind=ScaleKind.REAL, low=0, high=1).range
        ('1..5 (5)', '0..1')
        """
        if not self.is_ordered:
            return str(self)[:MAX_RANGE].strip()
        count = "" if self.kind is ScaleKind.REAL else f" ({len(self.options)})"
        return f"{self.numbers[0]:.12g}..{self.numbers[-1]:.12g}{count}"

    def __str__(self) -> str:
        if self.kind is ScaleKind.REAL:
            return f"{self.low} to {self.high}"
        return ", ".join(str(option) for option in self.options)


_UNSEEN = {"side", "weight", "reasons"}
"""Fields of a question that annotators and judges do not see."""


class Applies(StrEnum):
    """Condition under which a question applies."""

    ALWAYS = "always"
    WITH_DOCUMENTS = "with-documents"
    WITHOUT_DOCUMENTS = "without-documents"
    MULTI_TURN = "multi-turn"
    PAIRS = "pairs"
    STEPS = "steps"


class Polarity(StrEnum):
    """Side of an assertion: it indicates satisfaction (SAT) or dissatisfaction (DSAT) if it holds."""

    SAT = "sat"
    DSAT = "dsat"


class AssertionReason(FrozenModel):
    """Origin of an assertion: a conversation, an observation in it, and quoted words."""

    conversation: str
    text: str
    quote: str = ""


class Question(FrozenModel):
    """One question with its scale, the meanings of its options, and its condition.

    Attributes:
        id: Identifier, unique in the rubric. Files, labels and addresses use it.
        text: Wording for annotators and judges.
        name: Short name that pages, charts and commands show instead of the id: one line of at most 40 characters,
            unique in the rubric. It is not part of `model_dump`, so keys, digests and evaluators do not depend on it.
        scale: Allowed answers.
        meanings: Meaning of options, by the option's text.
        applies: `always`, `with-documents`, `without-documents`, `multi-turn`, `pairs` for a comparison, or `steps` for
            single calls of tools with their results.
        side: Side of a learned assertion: `sat` or `dsat`. As `weight` and `reasons`, it is neither shown to annotators
            and judges nor part of the question's key.
        weight: Weight of a learned assertion in the sum, above 0 and at most 100.
        reasons: Conversations that a learned assertion comes from.

    Raises:
        ValueError: A meaning does not belong to an option, or the name is too long or has control characters.

    >>> helpful = Question(id="Q1", text="Was it helpful?", scale=Scale(options=(1, 2, 3)), name="Helpful")
    >>> helpful.can_be_judged, helpful.shown
    (True, 'Helpful')
    """

    id: str = Field(min_length=1)
    text: str = Field(min_length=1)
    name: str = Field(default="", exclude=True)
    scale: Scale
    meanings: Mapping[str, str] = Field(default_factory=dict)
    applies: Applies = Applies.ALWAYS
    side: Polarity | None = None
    weight: float = Field(default=1.0, gt=0, le=100)
    reasons: tuple[AssertionReason, ...] = ()

    @field_validator("name")
    @classmethod
    def _name_is_a_short_line(cls, text: str, info: ValidationInfo) -> str:
        name, where = text.strip(), f"name of question {info.data.get('id', '')!r}"
        if len(name) > MAX_NAME:
            raise ValueError(f"{where}: got {len(name)} characters, allowed: {MAX_NAME}")
        if escape_controls(name) != name or set(name) & {"\n", "\t"}:
            raise ValueError(
                f"{where}: got {escape_controls(name)!r}, which has a line break, a tab or another control character; "
                "write one line without them"
            )
        return name

    @model_validator(mode="after")
    def _meanings_name_options(self) -> Question:
        options = {str(option) for option in self.scale.options}
        unknown = sorted(set(self.meanings) - options)
        if unknown:
            raise ValueError(f"question {self.id!r} explains {unknown[0]!r}, which is not one of its options")
        return self

    @property
    def shown(self) -> str:
        """Text that stands for the question on pages, in charts and in commands: its name, else its id."""
        return self.name or self.id

    @property
    def key(self) -> str:
        """Digest of the question; an edited question has another key."""
        return content_hash(self.model_dump(mode="json", exclude=_UNSEEN), length=12)

    @property
    def wording(self) -> str:
        """Key and range of the scale, which each label of the question keeps."""
        return f"{self.key} {self.scale.range}"

    @property
    def compares(self) -> bool:
        """True for a comparison of two conversations."""
        return self.applies is Applies.PAIRS

    @property
    def can_be_judged(self) -> bool:
        """True if a judge can answer the question: it is about one conversation and does not have too many options."""
        return not self.compares and 0 < len(self.scale.options) <= MAX_JUDGE_OPTIONS

    @property
    def is_about_steps(self) -> bool:
        """True for a question about single calls of tools."""
        return self.applies is Applies.STEPS

    def suits(self, level: str) -> bool:
        """Return True if a study of a level can ask the question: `conversation`, `turn`, `step` or `pair`."""
        return self.compares == (level == "pair") and self.is_about_steps == (level == "step")

    def applies_to(self, conversation: Conversation, turn: int | None = None) -> bool:
        """Return True if the question applies to a conversation or its turn, or if the log lacks the texts to decide.

        Only questions with `applies: steps` apply to the result of a tool, and they apply to nothing but steps.
        """
        turns = conversation.turns
        if not turns:
            return True
        is_result = turn is not None and turn < len(turns) and turns[turn].role in TOOL_ROLES
        if self.is_about_steps or is_result:
            return self.is_about_steps and (is_result or (turn is not None and turn in step_turns(turns)))
        match self.applies:
            case Applies.WITH_DOCUMENTS:
                return bool(conversation.documents)
            case Applies.WITHOUT_DOCUMENTS:
                return not conversation.documents
            case Applies.MULTI_TURN:
                return len(conversation.by("user")) > 1
            case _:
                return True


class Rubric(FrozenModel):
    """Questions in order, with a main question and shared instructions.

    Attributes:
        name: Name of the rubric.
        questions: Questions with distinct ids.
        main: Id of the question that is predicted.
        instructions: Text that annotators and judges see before the questions.
        source: Origin of the rubric, such as a paper.
        learned_on: Conversations whose labels were used to write and select the questions.

    Raises:
        ValueError: Two questions have one id or one name, or no question has the id `main`.

    >>> helpful = Question(id="helpful", text="Was it helpful?", scale=Scale(options=(1, 2, 3)))
    >>> rubric = Rubric(name="mine", questions=(helpful,), main="helpful")
    >>> rubric["helpful"].text, rubric.get("polite") is None
    ('Was it helpful?', True)
    """

    name: str = Field(min_length=1)
    questions: tuple[Question, ...] = Field(min_length=1)
    main: str
    instructions: str = ""
    source: str = ""
    learned_on: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _names_fit(self) -> Rubric:
        ids = [question.id for question in self.questions]
        twice = next((name for name in ids if ids.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two questions have the id {twice!r}")
        if self.main not in ids:
            raise ValueError(f"main question {self.main!r} is not one of {', '.join(ids)}")
        for question in self.questions:
            if question.name and (other := self._other_with(question)) is not None:
                raise ValueError(
                    f"questions {other!r} and {question.id!r} would both be shown as {question.name!r}; give one of "
                    "them a name that differs in more than upper and lower case"
                )
        return self

    def _other_with(self, question: Question) -> str | None:
        """Return the id of another question that is shown by the name of a question."""
        name = question.name.casefold()
        others = (each for each in self.questions if each.id != question.id)
        return next((each.id for each in others if each.shown.casefold() == name), None)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields changed and no cached values of the original."""
        copied = super().model_copy(update=update, deep=deep)
        for name in ("_by_id", "hash"):
            copied.__dict__.pop(name, None)
        return copied

    @cached_property
    def _by_id(self) -> dict[str, Question]:
        return {question.id: question for question in self.questions}

    def get(self, question: str) -> Question | None:
        """Return the question with an ID, or None."""
        return self._by_id.get(question)

    def __getitem__(self, question: str) -> Question:
        try:
            return self._by_id[question]
        except KeyError:
            raise UnknownName("question", question, self._by_id) from None

    def shown(self, question: str) -> str:
        """Return the short name of the question with an ID; the ID itself if the question has none or is unknown."""
        found = self._by_id.get(question)
        return question if found is None else found.shown

    @property
    def main_question(self) -> Question:
        """The predicted question."""
        return self[self.main]

    @property
    def judged(self) -> tuple[Question, ...]:
        """Questions that a judge can answer; the others are for people only."""
        return tuple(question for question in self.questions if question.can_be_judged)

    @property
    def recorded(self) -> tuple[Question, ...]:
        """Questions that recorded judges can answer, with wide scales reduced to `ANCHOR_COUNT` points."""
        return tuple(
            question if question.can_be_judged else question.model_copy(update={"scale": question.scale.anchored})
            for question in self.questions
            if not question.compares
        )

    @property
    def assertions(self) -> tuple[Question, ...]:
        """Learned assertions."""
        return tuple(question for question in self.questions if question.side is not None)

    @cached_property
    def hash(self) -> str:
        """Digest of everything that a judge sees; equal rubrics have equal hashes."""
        unseen: Any = {"name": True, "source": True, "learned_on": True, "questions": {"__all__": _UNSEEN}}
        return content_hash(self.model_dump(mode="json", exclude=unseen))

"""A study: what people are asked about which conversations, how many of them each, and what they are shown.

It is written under `studies:` in accord.yaml. What is asked are questions of a rubric, and kinds of a taxonomy that
people may mark in turns; it is asked in one or several stages, of which a later one shows more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from accord.edges import BadInput, check
from accord.values.chat_settings import TalkSettings
from accord.values.conversation import WITHOUT, Synthetic
from accord.values.scale import Frozen, Value

Order = Literal["given", "random", "informative"]
ROUNDS = 20
"""The most rounds that a study may have."""
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$"
StudyName = Annotated[str, WithJsonSchema({"type": "string", "pattern": _NAME})]
"""A name that is part of page addresses; `read_study` checks it."""


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


OneOrMore = Annotated[
    tuple[str, ...],
    BeforeValidator(_several),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]


class Stage(Frozen):
    """What is asked at one time."""

    id: str = Field(default="rate", pattern=r"^[a-z][a-z0-9-]{0,39}$", description="Its name within the study.")
    questions: tuple[str, ...] = Field(
        default=(), description="Ids of the rubric's questions; all of them where none is named."
    )
    shows: tuple[Literal["issues", "documents"], ...] = Field(
        default=("documents",), description="What stands beside the conversation: its documents, found issues."
    )


class Items(Frozen):
    """Which conversations or turns a study is about."""

    where: Mapping[str, OneOrMore] = Field(
        default_factory=dict, description="Only those whose system or metadata entry has one of these values."
    )
    ids: tuple[str, ...] = Field(default=(), description="Only these conversations.")
    synthetic: Synthetic = Field(
        default=WITHOUT, description="Whether conversations that nobody held are among them: without, with, only."
    )
    found: tuple[str, ...] = Field(
        default=(), description="Only turns in which a model found an issue of one of these kinds, such as Other."
    )
    assessed: bool = Field(
        default=False,
        description="Only turns that the project's issue finder has looked into; with issues a dialogue's first.",
    )
    draw: int | None = Field(default=None, ge=1, description="So many, at random; all where it is left out.")
    by: tuple[str, ...] = Field(
        default=(), description="Equally many of each value of these entries (`system`, topic, ...)."
    )


class StudySettings(Frozen):
    """One study, as accord.yaml has it."""

    title: str = Field(default="", max_length=200, description="What annotators read above the page.")
    guidelines: str = Field(default="", max_length=50_000, description="Text to read beforehand and while rating.")
    rubric: str | None = Field(default=None, description="A rubric's name or file; the project's where left out.")
    level: Literal["conversation", "turn", "pair"] = Field(
        default="conversation", description="What is rated: a conversation, each reply, or two conversations."
    )
    stages: tuple[Stage, ...] = Field(default=(Stage(),), min_length=1, max_length=10)
    marks: str | None = Field(
        default=None, description="A taxonomy's name or file: people may mark its issues in turns, with a quote."
    )
    comments: bool = Field(default=True, description="Whether a question takes a comment.")
    words: bool = Field(default=False, description="Options are shown as words, without their numbers.")
    ends: Mapping[str, tuple[Value, ...]] = Field(
        default_factory=dict,
        description="Answers that end the questionnaire, by question: what comes after is not asked.",
    )
    items: Items = Items()
    per_item: int = Field(default=1, ge=1, le=1000, description="Annotators per item.")
    per_person: int | None = Field(default=None, ge=1, description="The most items of one annotator.")
    people: tuple[str, ...] = Field(default=(), description="Who takes part; all annotators where none is named.")
    order: Order = Field(
        default="given",
        description="given: as drawn; random: anew for each; informative: what the evaluator learns most from.",
    )
    random_share: float = Field(
        default=0.1, ge=0, le=1, description="Share of random draws within the informative order."
    )
    lease_minutes: float = Field(
        default=60, ge=1, le=10_080, description="How long an item stays with who began it, from the last answer on."
    )
    reveal: bool = Field(default=False, description="Show the evaluator's prediction after the answer.")
    repeats: float = Field(
        default=0, ge=0, le=0.5, description="Share of items that come a second time to the same person."
    )
    gold: Mapping[str, Mapping[str, Value]] = Field(
        default_factory=dict, description="Known answers: by conversation (`ID` or `ID#TURN`), by question."
    )
    checks: Mapping[str, Mapping[str, Value]] = Field(
        default_factory=dict, description="Attention checks: conversations whose right answers anybody can see."
    )
    talk: TalkSettings | None = Field(
        default=None, description="People talk with an assistant first, and rate the conversations that they held."
    )
    refit_every: int | None = Field(
        default=None, ge=1, description="Learn the evaluator again after so many new answers; it waits to be promoted."
    )
    seed: int = Field(default=0, description="Of the draw and of the orders.")

    @model_validator(mode="after")
    def _fits(self) -> StudySettings:
        names = [stage.id for stage in self.stages]
        if len(set(names)) != len(names):
            raise ValueError("two stages of a study have one name")
        if (self.items.found or self.items.assessed) and self.level != "turn":
            raise ValueError("issues are found in turns: `items: found` and `assessed` need `level: turn`")
        if self.level == "pair" and self.marks:
            raise ValueError("issues are marked in turns of one conversation; leave out `marks`, or rate no pairs")
        if self.talk is not None and self.level != "conversation":
            raise ValueError("who talks with an assistant rates the conversation; leave out `level`")
        if self.talk is not None and (self.items != Items() or self.gold or self.checks or self.repeats):
            raise ValueError("who talks rates their own conversations; leave out `items`, `gold`, `checks`, `repeats`")
        return self


class BrokenStudy(Frozen):
    """A study with invalid settings: only work on this study fails.

    Attributes:
        error: The reason in one line, which names the study.
    """

    error: str


def read_study(name: Any, content: Any) -> StudySettings:
    """Validate the name and the settings of a study.

    Raises:
        BadInput: Names the study, and the setting with the values that are allowed.
    """
    if not isinstance(name, str) or not re.fullmatch(_NAME, name):
        raise BadInput(
            f"study {name!r}: the name of a study is text of 1 to 60 letters, digits, '.', '_' and '-', the first a "
            "letter or a digit. Rename it"
        )
    return content if isinstance(content, StudySettings) else check(StudySettings, content, f"study {name!r}")


def study_or_broken(name: Any, content: Any) -> StudySettings | BrokenStudy:
    """Validate a study, and return its error as a value if it is invalid."""
    try:
        return content if isinstance(content, BrokenStudy) else read_study(name, content)
    except BadInput as error:
        return BrokenStudy(error=str(error))

"""Settings of a study: the questions, the sampled items, the annotators and the pages.

A study is written under `studies:` in accord.yaml. It asks questions of a rubric in one or more stages, and lets
annotators mark issues of a taxonomy in turns. A later stage can show more than an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from accord.edges import BadInput, validate
from accord.values.chat_settings import ChatSettings
from accord.values.conversation import WITHOUT_SYNTHETIC, Synthetic
from accord.values.scale import FrozenModel, Value

Order = Literal["given", "random", "informative"]
MAX_ROUNDS = 20
"""Maximum number of rounds of a study."""
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$"
StudyName = Annotated[str, WithJsonSchema({"type": "string", "pattern": _NAME})]
"""Name of a study, part of page addresses; `read_study` validates it."""


def _as_tuple_input(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


OneOrMore = Annotated[
    tuple[str, ...],
    BeforeValidator(_as_tuple_input),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]


class Stage(FrozenModel):
    """Stage of a study: questions that are asked together."""

    id: str = Field(default="rate", pattern=r"^[a-z][a-z0-9-]{0,39}$", description="Name within the study.")
    questions: tuple[str, ...] = Field(default=(), description="Ids of the rubric's questions; default: all.")
    show: tuple[Literal["issues", "documents"], ...] = Field(
        default=("documents",), description="Shown next to the conversation: its documents, detected issues."
    )


class ItemSettings(FrozenModel):
    """Selection and sampling of a study's items."""

    filter: Mapping[str, OneOrMore] = Field(
        default_factory=dict, description="Allowed values of `system` or of metadata entries, by entry."
    )
    ids: tuple[str, ...] = Field(default=(), description="Ids of conversations; default: all.")
    synthetic: Synthetic = Field(
        default=WITHOUT_SYNTHETIC, description="Synthetic conversations: `without`, `with`, or `only` them."
    )
    issues: tuple[str, ...] = Field(
        default=(), description="Only turns in which a model found an issue of these kinds, such as Other."
    )
    assessed: bool = Field(
        default=False,
        description="Only turns that the issue finder has assessed; of each dialogue, turns with issues come first.",
    )
    sample: int | None = Field(default=None, ge=1, description="Size of a random sample; default: all items.")
    stratify_by: tuple[str, ...] = Field(
        default=(), description="Entries (`system`, topic, ...): the sample has equally many items of each value."
    )


class StudySettings(FrozenModel):
    """Settings of one study."""

    title: str = Field(default="", max_length=200, description="Heading of the page.")
    guidelines: str = Field(default="", max_length=50_000, description="Instructions for annotators.")
    rubric: str | None = Field(default=None, description="Rubric name or file; default: the project's rubric.")
    level: Literal["conversation", "turn", "pair"] = Field(
        default="conversation", description="Unit of rating: a conversation, each reply, or two conversations."
    )
    stages: tuple[Stage, ...] = Field(
        default=(Stage(),), min_length=1, max_length=10, description="Stages, in the order in which they are asked."
    )
    issue_taxonomy: str | None = Field(
        default=None, description="Taxonomy name or file: annotators can mark its issues in turns, with a quote."
    )
    comments: bool = Field(default=True, description="Offer a comment field per question.")
    hide_numbers: bool = Field(default=False, description="Show options as words without their numbers.")
    stop_on: Mapping[str, tuple[Value, ...]] = Field(
        default_factory=dict,
        description="Answers that end the questionnaire, by question; the rest is skipped.",
    )
    items: ItemSettings = Field(default=ItemSettings(), description="Selection and sampling of items.")
    annotators_per_item: int = Field(default=1, ge=1, le=1000, description="Annotators per item.")
    items_per_annotator: int | None = Field(default=None, ge=1, description="Items per annotator, at most.")
    annotators: tuple[str, ...] = Field(default=(), description="Names of annotators; default: all.")
    order: Order = Field(
        default="given",
        description="`given`: order of the sample; `random`: a random order per annotator; `informative`: items first "
        "that teach the evaluator most.",
    )
    random_share: float = Field(
        default=0.1, ge=0, le=1, description="Share of randomly chosen items in the informative order."
    )
    lease_minutes: float = Field(
        default=60,
        ge=1,
        le=10_080,
        description="Minutes after the last answer until an unfinished item is free for others.",
    )
    show_prediction: bool = Field(default=False, description="Show the evaluator's prediction after the answer.")
    repeat_share: float = Field(
        default=0, ge=0, le=0.5, description="Share of items that an annotator rates a second time."
    )
    gold: Mapping[str, Mapping[str, Value]] = Field(
        default_factory=dict, description="Known answers: by conversation (`ID` or `ID#TURN`), by question."
    )
    attention_checks: Mapping[str, Mapping[str, Value]] = Field(
        default_factory=dict, description="Attention checks with obvious answers: by conversation, by question."
    )
    chat: ChatSettings | None = Field(
        default=None, description="Annotators chat with an assistant first, and rate their own conversations."
    )
    retrain_every: int | None = Field(
        default=None, ge=1, description="Retrain the evaluator after this many new answers, without promoting it."
    )
    seed: int = Field(default=0, description="Seed of the sample and of the orders.")

    @model_validator(mode="after")
    def _fits(self) -> StudySettings:
        names = [stage.id for stage in self.stages]
        if len(set(names)) != len(names):
            raise ValueError("two stages have the same id")
        if (self.items.issues or self.items.assessed) and self.level != "turn":
            raise ValueError("`items.issues` and `items.assessed` select turns; set `level: turn`")
        if self.level == "pair" and self.issue_taxonomy:
            raise ValueError("issues are marked in single conversations; remove `issue_taxonomy` or `level: pair`")
        if self.chat is not None and self.level != "conversation":
            raise ValueError("chats are rated as conversations; remove `level`")
        samples = (self.items != ItemSettings(), self.gold, self.attention_checks, self.repeat_share)
        if self.chat is not None and any(samples):
            raise ValueError(
                "annotators rate their own chats; remove `items`, `gold`, `attention_checks` and `repeat_share`"
            )
        return self


class InvalidStudy(FrozenModel):
    """Study with invalid settings; only commands on this study fail.

    Attributes:
        error: One line with the name of the study and the reason.
    """

    error: str


def read_study(name: Any, content: Any) -> StudySettings:
    """Validate the name and the settings of a study.

    Raises:
        BadInput: The settings are invalid. The message names the study, the setting and the allowed values.
    """
    if not isinstance(name, str) or not re.fullmatch(_NAME, name):
        raise BadInput(
            f"study {name!r}: the name of a study is text of 1 to 60 letters, digits, '.', '_' and '-', the first a "
            "letter or a digit. Rename it"
        )
    return content if isinstance(content, StudySettings) else validate(StudySettings, content, f"study {name!r}")


def validate_study(name: Any, content: Any) -> StudySettings | InvalidStudy:
    """Validate a study, and return its error as a value if it is invalid."""
    try:
        return content if isinstance(content, InvalidStudy) else read_study(name, content)
    except BadInput as error:
        return InvalidStudy(error=str(error))

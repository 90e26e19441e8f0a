"""Settings of studies and their chats in accord.yaml, and the project file itself.

Under `chat:` of a study, annotators chat with an assistant and rate it (LLM-RUBRIC, appendix H). They do not see which
assistant they have; the next conversation goes to the assistant with the fewest conversations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, WithJsonSchema, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from accord.edges import FROM_ENVIRONMENT, BadInput, check_ownership, is_web_address, validate
from accord.values.conversation import WITHOUT_SYNTHETIC, Synthetic
from accord.values.rubric import FrozenModel, Value

PROJECT_FILE = "accord.yaml"


def find_project_file(start: str | Path | None = None) -> Path | None:
    """Return the `accord.yaml` of a folder, or of the nearest folder above it; `None` if there is none.

    Without `start`, the search begins in the working folder, and the file must be the user's own. The path is relative
    if the file is in the working folder itself.

    Raises:
        BadInput: Without `start`, another account could have written the file (`accord.edges.check_ownership`).
    """
    first = Path() if start is None else Path(start)
    for folder in (first, *first.resolve().parents):
        if (folder / PROJECT_FILE).is_file():
            if start is None:
                check_ownership(folder / PROJECT_FILE)
            return folder / PROJECT_FILE
    return None


def project_folder(file: Path) -> Path:
    """Return the folder to which relative paths in a project file refer.

    An empty path stands for the working folder; any other folder is absolute.
    """
    folder = file.parent.resolve()
    return Path() if folder == Path.cwd() else folder


class Topic(FrozenModel):
    """Topic of a conversation: a text, or a text with documents."""

    text: str = Field(min_length=1, max_length=500, description="Text of the topic, shown to the annotator.")
    documents: tuple[str, ...] = Field(
        default=(), description="Ids of the documents for assistants with `retrieval: given`."
    )

    @model_validator(mode="before")
    @classmethod
    def _accept_text(cls, topic: object) -> object:
        return {"text": topic} if isinstance(topic, str) else topic

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 500}, schema]}


class Assistant(FrozenModel):
    """Assistant of a chat study: a model, its instructions and its documents."""

    role: str | None = Field(default=None, description="Role under `models:` whose model is used.")
    model: str | None = Field(
        default=None, description="Model instead of a role: a name at an endpoint, `embedded:NAME` or `gguf:PATH`."
    )
    base_url: str | None = Field(
        default=None,
        json_schema_extra=FROM_ENVIRONMENT,
        description="OpenAI-compatible endpoint; default OPENAI_BASE_URL. May hold ${VARIABLE}.",
    )
    instructions: str = Field(default="", max_length=50_000, description="System message.")
    retrieval: Literal["nothing", "given", "topic", "messages"] = Field(
        default="nothing",
        description="Documents in the prompt: `nothing`; `given`: those of the topic; `topic`, `messages`: the best by "
        "BM25 for the topic or for the messages so far.",
    )
    knows_topic: bool = Field(default=False, description="Put the topic into the system message.")
    max_tokens: int = Field(default=1024, ge=1, le=32_768, description="Tokens of a reply, at most.")
    temperature: float = Field(default=0.7, ge=0, le=2, description="Sampling temperature.")
    stream: bool = Field(default=True, description="Stream replies; set false for an endpoint without streaming.")
    attempts: int = Field(default=3, ge=1, le=20, description="Attempts per request, at most.")
    timeout: float = Field(default=120.0, gt=0, le=3600, description="Seconds per attempt, at most.")

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        if url is not None and not is_web_address(url):
            raise ValueError(
                "an endpoint is an address that begins with http:// or https://"
            )  # the address may contain a secret
        return url

    @model_validator(mode="after")
    def _has_a_model(self) -> Assistant:
        if (self.role is None) == (self.model is None):
            raise ValueError("an assistant needs either `role` or `model`, not both")
        if self.role is not None and self.base_url is not None:
            raise ValueError("an assistant with a `role` uses the endpoint under `models:`; remove `base_url`")
        return self


class ChatSettings(FrozenModel):
    """Settings of chats with assistants."""

    assistants: Mapping[str, Assistant] = Field(
        min_length=1, description="Assistants by name; annotators do not see the names."
    )
    topics: tuple[Topic, ...] = Field(min_length=1, max_length=100_000, description="Texts, or texts with documents.")
    documents: str | None = Field(
        default=None, description="Documents for retrieval: a folder of .txt and .md files, or a file of rows."
    )
    max_documents: int = Field(default=5, ge=1, le=50, description="Documents per retrieval, at most.")
    greeting: str = Field(default="", max_length=2000, description="First message of every assistant.")
    max_characters: int = Field(default=4000, ge=1, le=20_000, description="Characters of a message, at most.")
    max_messages: int = Field(
        default=30, ge=1, le=500, description="Messages of the annotator in one conversation, at most."
    )
    max_conversations: int | None = Field(default=None, ge=1, description="Conversations per annotator, at most.")

    @model_validator(mode="after")
    def _fits(self) -> ChatSettings:
        readers = [name for name, assistant in self.assistants.items() if assistant.retrieval != "nothing"]
        if readers and self.documents is None:
            raise ValueError(f"assistant {readers[0]!r} retrieves documents, but the chat has no `documents`")
        texts = [topic.text for topic in self.topics]
        if len(set(texts)) != len(texts):
            raise ValueError("a topic is listed twice")
        return self


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


PARTS = ("question", "reply", "history", "system", "tools", "documents", "issues")
"""Parts of a conversation that a role may see; `accord.studies.visible_to` tells which turn is which part."""


def _as_parts(value: Any) -> Any:
    """Return the parts of a role: all, or the named ones.

    Raises:
        ValueError: A name is not a part, or the rated reply is not among them.
    """
    if value == "all":
        return PARTS
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError(f"a list of parts, or all; the parts are {', '.join(PARTS)}")
    if unknown := [part for part in parts if part not in PARTS]:
        raise ValueError(f"unknown part {unknown[0][:40]!r}; allowed: {', '.join(PARTS)}, or all")
    if "reply" not in parts:
        raise ValueError("without `reply` nothing is left to rate; add it")
    return tuple(part for part in PARTS if part in parts)


Parts = Annotated[
    tuple[str, ...],
    BeforeValidator(_as_parts),
    WithJsonSchema({"anyOf": [{"const": "all"}, {"type": "array", "items": {"enum": list(PARTS)}}]}),
]


class StudySettings(FrozenModel):
    """Settings of one study."""

    title: str = Field(default="", max_length=200, description="Heading of the page.")
    guidelines: str = Field(default="", max_length=50_000, description="Instructions for annotators.")
    rubric: str | None = Field(default=None, description="Rubric name or file; default: the project's rubric.")
    level: Literal["conversation", "turn", "step", "pair"] = Field(
        default="conversation",
        description="Unit of rating: a conversation, each reply, each call of a tool, or two conversations.",
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
    show: Mapping[str, Parts] = Field(
        default_factory=dict,
        description="Parts of a conversation that each role of `people` sees: question, reply, history, system, tools, "
        "documents, issues, or all. People without a role see what all roles see.",
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
        if self.level == "step" and (blind := [role for role, parts in self.show.items() if "tools" not in parts]):
            raise ValueError(f"a study of calls of tools shows them; add `tools` to show.{blind[0]}")
        if self.chat is not None and self.show:
            raise ValueError("annotators see their own chats; remove `show`")
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

"""Rubrics as YAML: files of users and the shipped ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from accord.edges import BadInput, UnknownName, dump_yaml, load_yaml, validate, validation_messages
from accord.values.rubric import (
    Applies,
    AssertionReason,
    Polarity,
    Question,
    Rubric,
    Scale,
    ScaleKind,
    Value,
)


def _options(value: Any) -> dict[str, str]:
    """Return options as a mapping from value to meaning; a list of values has empty meanings."""
    if isinstance(value, Mapping):
        return {str(option): str(meaning) for option, meaning in value.items()}
    if isinstance(value, list):
        return {str(option): "" for option in value}
    raise ValueError("options are a mapping from value to meaning, or a list of values")


_Stripped = Annotated[str, StringConstraints(strip_whitespace=True)]


class _QuestionFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str
    text: _Stripped
    name: _Stripped = ""
    scale: ScaleKind = ScaleKind.ORDINAL
    options: Annotated[dict[str, str], BeforeValidator(_options)] = Field(default_factory=dict)
    low: float | None = None
    high: float | None = None
    applies: Applies = Applies.ALWAYS
    side: Polarity | None = Field(default=None, alias="class")
    weight: float = 1.0
    reasons: list[AssertionReason] = Field(default_factory=list)

    def question(self) -> Question:
        ordered = self.scale is not ScaleKind.NOMINAL
        options = tuple(_number(option) if ordered else option for option in self.options)
        scale = Scale(kind=self.scale, options=options, low=self.low, high=self.high)
        meanings = {option: meaning for option, meaning in self.options.items() if meaning}
        same = self.model_dump(include={"id", "text", "name", "applies", "side", "weight", "reasons"})
        return Question(**same, scale=scale, meanings=meanings)


class _RubricFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    main: str
    instructions: _Stripped = ""
    source: _Stripped = ""
    learned_on: list[str] = Field(default_factory=list)
    questions: list[_QuestionFile]

    def rubric(self) -> Rubric:
        questions = tuple(question.question() for question in self.questions)
        return Rubric(**self.model_dump(exclude={"questions"}), questions=questions)


def _number(text: str) -> Value:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"option {text!r} of an ordered scale is not a number (use scale: nominal)") from None
    return int(number) if number.is_integer() else number


def shipped_names(package: str) -> list[str]:
    """Return the names of the YAML files in a package."""
    entries = (entry.name for entry in files(package).iterdir())
    return sorted(name.removesuffix(".yaml") for name in entries if name.endswith(".yaml"))


def shipped_rubrics() -> list[str]:
    """Return the names of the shipped rubrics."""
    return shipped_names("accord.values.rubrics")


def load_rubric(name_or_path: str | Path, folder: Path = Path()) -> Rubric:
    """Read a rubric: a shipped one by name (`llm-rubric`), or a YAML file by its path, relative to `folder`.

    Raises:
        BadInput: The file does not exist, is not YAML, has unknown keys, or is inconsistent.
        UnknownName: There is neither a file nor a shipped rubric of this name.

    >>> rubric = load_rubric("llm-rubric")
    >>> rubric.main, len(rubric.questions), rubric.main_question.scale.options
    ('Q0', 9, (1, 2, 3, 4))
    """
    path = folder / name_or_path
    if path.suffix in {".yaml", ".yml"} or path.is_file():
        return read_rubric(load_yaml(path), str(path))
    return _shipped(str(name_or_path))


@cache
def _shipped(name: str) -> Rubric:
    if name not in shipped_rubrics():
        raise UnknownName("rubric", name, shipped_rubrics())
    shipped = files("accord.values.rubrics") / f"{name}.yaml"
    return read_rubric(load_yaml(Path(str(shipped))), str(shipped))


def read_rubric(content: Any, where: str) -> Rubric:
    """Return a rubric from parsed YAML; `where` names the file in errors.

    Raises:
        BadInput: The content has unknown keys or wrong types, or is inconsistent.
    """
    parsed = validate(_RubricFile, content, where)
    try:
        return parsed.rubric()
    except ValueError as error:  # pydantic's ValidationError is one
        raise BadInput(f"{where}: {validation_messages(error)[0]}") from None


def dump_rubric(rubric: Rubric) -> str:
    """Return the rubric as YAML, from which `load_rubric` returns an equal rubric.

    >>> helpful = Question(id="helpful", text="Was it helpful?", scale=Scale(options=(1, 2)))
    >>> print(dump_rubric(Rubric(name="mine", questions=(helpful,), main="helpful")).splitlines()[0])
    name: mine
    """

    def question(entry: Question) -> dict[str, Any]:
        row: dict[str, Any] = {"id": entry.id, **({"name": entry.name} if entry.name else {}), "text": entry.text}
        row["scale"] = entry.scale.kind.value
        if entry.scale.kind is ScaleKind.REAL:
            row |= {"low": entry.scale.low, "high": entry.scale.high}
        else:
            row["options"] = {option: entry.meanings.get(str(option), "") for option in entry.scale.options}
        if entry.applies is not Applies.ALWAYS:
            row["applies"] = entry.applies.value
        if entry.side is not None:
            row |= {"class": entry.side.value, "weight": entry.weight}
        if entry.reasons:
            row["reasons"] = [reason.model_dump(exclude_defaults=True) for reason in entry.reasons]
        return row

    content: dict[str, Any] = {"name": rubric.name, "main": rubric.main}
    if rubric.source:
        content["source"] = rubric.source
    if rubric.instructions:
        content["instructions"] = rubric.instructions
    content["questions"] = [question(entry) for entry in rubric.questions]
    if rubric.learned_on:
        content["learned_on"] = list(rubric.learned_on)
    return dump_yaml(content)

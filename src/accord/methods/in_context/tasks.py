"""Task prompts as artefacts: who wrote each from which examples, how well it did, and a file that people can edit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from accord.values import BadInput, Frozen, check, content_hash, load_yaml

BY_HAND = "by hand"


@dataclass(frozen=True, slots=True)
class TaskPrompt:
    """What a model is told to score, and where it comes from.

    Attributes:
        text: The prompt.
        by: The model that wrote it, or `by hand`.
        examples: What that model was shown: the examples' targets.
        error: Mean squared error on the training side, scores on [0, 1]; `None` before it was tried.
    """

    text: str
    by: str = BY_HAND
    examples: tuple[str, ...] = ()
    error: float | None = None

    @property
    def hash(self) -> str:
        """A tagged digest of the text: a prompt that is edited is another version."""
        return content_hash(self.text, length=12)

    def tried(self, error: float) -> TaskPrompt:
        """This prompt with the error that it made."""
        return replace(self, error=error)

    def to_json(self) -> dict[str, Any]:
        """The prompt as plain JSON values."""
        about = {"hash": self.hash, "by": self.by, "error": self.error, "examples": list(self.examples)}
        return {**about, "text": self.text}


class _Entry(Frozen):
    text: str = Field(min_length=1)
    hash: str | None = None
    by: str = BY_HAND
    error: float | None = None
    examples: tuple[str, ...] = ()

    def prompt(self) -> TaskPrompt:
        """The prompt; one that was edited since it was written is by hand."""
        text = self.text.strip()
        if self.hash is not None and self.hash != content_hash(text, length=12):
            return TaskPrompt(text, f"{BY_HAND}, from {self.hash}" if self.by != BY_HAND else BY_HAND)
        return TaskPrompt(text, self.by, self.examples, self.error)


class _File(Frozen):
    dimension: str | None = None
    prompts: tuple[_Entry, ...] = Field(min_length=1)


def load_tasks(path: str | Path) -> list[TaskPrompt]:
    """Read task prompts: `prompts: [{text: TEXT}, ...]`, or a file that `fit in-context` wrote, edited or not.

    Raises:
        BadInput: The file cannot be read, has unknown keys, or holds no prompt.
    """
    found = [entry.prompt() for entry in check(_File, load_yaml(Path(path)), str(path)).prompts]
    if not all(prompt.text for prompt in found):
        raise BadInput(f"{path}: a prompt has no text")
    return found


def dump_tasks(dimension: str, prompts: Iterable[TaskPrompt]) -> str:
    """The prompts as YAML that `load_tasks` reads back."""
    import yaml

    content = {"dimension": dimension, "prompts": [prompt.to_json() for prompt in prompts]}
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110)


def distinct(prompts: Sequence[TaskPrompt]) -> list[TaskPrompt]:
    """The prompts without those whose text came before."""
    return list({" ".join(prompt.text.split()).casefold(): prompt for prompt in reversed(prompts)}.values())[::-1]

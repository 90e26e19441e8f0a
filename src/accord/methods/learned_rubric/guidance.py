"""What a writing model is told: prompt files, the task in the user's words, design principles, the form of an answer.

RUBICON, section 3.2: domain sensitisation tells what the conversations are about and what is expected of the assistant;
conversation design principles tell that both sides are responsible (the prompt file `responsibility`), and Grice's
maxims (`maxims`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from pydantic import Field

from accord.models import ChatMessage, Form, Prompt
from accord.values import BadInput, Frozen, Side, UnknownName, check, load_yaml

PROMPTS = ("deduplicate", "domain", "extract", "judge", "maxims", "responsibility", "summarise")
NEEDED = {
    "extract": ("$conversation", "$documents", "$fence", "$form"),
    "summarise": ("$reasons", "$fence", "$form"),
    "deduplicate": ("$written", "$fence", "$form"),
}
"""What a user's own prompt file has to keep."""
VERDICTS = {Side.SAT: "well", Side.DSAT: "badly"}


class Task(Frozen):
    """The user's own description: what the conversations are about, and what is expected of the assistant."""

    about: str = Field(min_length=1)
    expected: tuple[str, ...] = Field(min_length=1)


def load_task(path: str | Path) -> Task:
    """Read a task description (`about: TEXT`, `expected: [TEXT, ...]`) from YAML.

    Raises:
        BadInput: The file cannot be read, or lacks one of the two.
    """
    return check(Task, load_yaml(Path(path)), str(path))


@dataclass(frozen=True)
class RubricPromptBuilder:
    """How a writing model is told what to do.

    Attributes:
        task: The task description; without one there is no domain sensitisation.
        prompts: Prompt files of the user's own, by name; the others are Accord's.
        by_schema: Whether the model keeps a JSON Schema; one that does not writes lines.
    """

    task: Task | None = None
    prompts: Mapping[str, str] | None = None
    by_schema: bool = True

    def prompt(self, name: str, form: Form, principles: str = "", parts: Mapping[str, Any] | None = None) -> Prompt:
        """A prompt file with everything filled in.

        Args:
            name: Of the file.
            form: Of the answer.
            principles: The file of design principles that belongs to it.
            parts: What else the file names.
        """
        told = self._filled(principles, {}) if principles else ""
        named = {"domain": self.told_domain(), "principles": told, "form": form.told(self.by_schema), **(parts or {})}
        schema = form.schema() if self.by_schema else None
        tokens = form.most * (form.tokens if self.by_schema else form.tokens_of_line)
        return Prompt((ChatMessage("user", self._filled(name, named)),), max_tokens=tokens, schema=schema)

    def told_domain(self) -> str:
        """The paragraph of domain sensitisation; empty where there is none."""
        if self.task is None:
            return ""
        expected = "\n".join(f"- {each}" for each in self.task.expected)
        return self._filled("domain", {"about": self.task.about, "expected": expected})

    def instructions(self) -> str:
        """What a judge is told before it is asked about assertions."""
        return self._filled("judge", {"domain": self.told_domain()}).strip()

    def _filled(self, name: str, parts: Mapping[str, Any]) -> str:
        own = self.prompts or {}
        text = own[name] if name in own else shipped(name)
        try:
            return Template(text).substitute(parts)
        except (KeyError, ValueError) as error:
            allowed = ", ".join(f"${part}" for part in parts) or "none"
            raise BadInput(f"prompt file {name}.md names {error}; the places it can name are: {allowed}") from None


def shipped(name: str) -> str:
    """One of Accord's own prompt files."""
    return (files("accord.methods.learned_rubric") / "prompts" / f"{name}.md").read_text(encoding="utf-8")


def load_prompts(folder: str | Path) -> dict[str, str]:
    """A user's prompt files by name; those that the folder lacks stay Accord's.

    Raises:
        BadInput: There is no such folder, or a file is not UTF-8.
        UnknownName: A file is called like none of `PROMPTS`.
    """
    path = Path(folder)
    if not path.is_dir():
        raise BadInput(f"{folder} is no folder of prompt files; `accord init --prompts {folder}` writes them there")
    found = {}
    for file in sorted(path.glob("*.md")):
        if file.stem not in PROMPTS:
            raise UnknownName("prompt file", file.name, [f"{name}.md" for name in PROMPTS])
        try:
            found[file.stem] = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise BadInput(f"{file} is not UTF-8; save it as UTF-8") from None
        lost = next((place for place in NEEDED.get(file.stem, ()) if place not in found[file.stem]), None)
        if lost is not None:
            raise BadInput(
                f"{file} has no {lost}: without it the model is not shown, or not told, what this prompt is for"
            )
    return found

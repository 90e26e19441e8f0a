"""Taxonomies: kinds of issues with definitions and their names in other taxonomies.

Shipped as YAML: SODA-EVAL's ten kinds (Mendonça et al., 2024, table 3) and ABC-Eval's behaviors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from accord.edges import UnknownName, load_yaml, validate
from accord.values.conversation import content_hash
from accord.values.rubric import Question, Rubric
from accord.values.scale import FrozenModel, Scale, ScaleKind

ISSUE = "issue:"
"""Prefix of the IDs of questions about issues, and of their columns."""


class IssueType(FrozenModel):
    """One kind of issue.

    Attributes:
        name: Name in issue annotations.
        definition: One sentence for models and annotators.
        objective: True if annotators can be expected to agree on it.
        critical: True if one such issue makes a reply unusable.
        aliases: Other names that models give it.
        corresponds: Its name in other taxonomies, by the taxonomy's name.
    """

    name: str = Field(min_length=1, max_length=60, pattern=r"^[^:=]+$")  # names of columns contain it
    definition: str = Field(min_length=1)
    objective: bool = True
    critical: bool = False
    aliases: tuple[str, ...] = ()
    corresponds: Mapping[str, str] = Field(default_factory=dict)


class SecondLook(FrozenModel):
    """Second question about issues of the residual kind; the answer yes changes their kind."""

    type: str
    question: str


class Taxonomy(FrozenModel):
    """Kinds of issues in order.

    `other` names the residual kind, if there is one, for issues without another kind. `looked_at_again` is a second
    question about those (SODA-EVAL, section 4.1: antisocial behavior among "Other").
    """

    name: str = Field(min_length=1)
    issues: tuple[IssueType, ...] = Field(min_length=1, max_length=100)
    source: str = ""
    other: str | None = None
    looked_at_again: SecondLook | None = None

    @model_validator(mode="after")
    def _names_fit(self) -> Taxonomy:
        seen: dict[str, str] = {}
        for kind in self.issues:
            for name in dict.fromkeys([normalized_name(kind.name), *map(normalized_name, kind.aliases)]):
                if name in seen:
                    raise ValueError(f"{kind.name!r} and {seen[name]!r} are both called {name!r}")
                seen[name] = kind.name
        named = [self.other, self.looked_at_again.type if self.looked_at_again else None]
        unknown = next((name for name in named if name is not None and name not in self.names), None)
        if unknown is not None:
            raise ValueError(f"{unknown!r} is not one of its issues: {', '.join(self.names)}")
        if self.looked_at_again is not None and self.other is None:
            raise ValueError("looked_at_again needs `other`: it asks again about issues of that kind")
        return self

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the kinds, in order."""
        return tuple(kind.name for kind in self.issues)

    @cached_property
    def _by_name(self) -> dict[str, IssueType]:
        named = {normalized_name(alias): kind for kind in self.issues for alias in kind.aliases}
        return named | {normalized_name(kind.name): kind for kind in self.issues}

    def __getitem__(self, name: str) -> IssueType:
        """Return a kind by name.

        Raises:
            UnknownName: There is no such kind.
        """
        kind = next((kind for kind in self.issues if kind.name == name), None)
        if kind is None:
            raise UnknownName("issue", name, self.names)
        return kind

    def find(self, name: str) -> IssueType | None:
        """Return a kind by name or alias, ignoring case and punctuation; None if there is none."""
        return self._by_name.get(normalized_name(name))

    @cached_property
    def hash(self) -> str:
        """Digest of everything that a model sees."""
        return content_hash(self.model_dump(mode="json", exclude={"source"}), length=12)

    @cached_property
    def rubric(self) -> Rubric:
        """The taxonomy as a rubric: one binary question per kind, so that any judge returns its probability."""
        binary = Scale(kind=ScaleKind.BINARY, options=(0, 1))
        questions = tuple(
            Question(
                id=ISSUE + kind.name,
                text=f"Does the reply have this issue? {kind.name}: {kind.definition}",
                scale=binary,
                meanings={"0": "No, it does not.", "1": "Yes, it does."},
            )
            for kind in self.issues
        )
        instructions = (
            "Look at one reply in the conversation below, given the turns before it, and answer the question."
        )
        return Rubric(
            name=f"issues of {self.name}", questions=questions, main=questions[0].id, instructions=instructions
        )

    def counterparts(self, other: str) -> dict[str, str]:
        """Return the names of the kinds in another taxonomy, for those that have one.

        Raises:
            UnknownName: No kind has a name in that taxonomy.
        """
        names = {kind.name: kind.corresponds[other] for kind in self.issues if other in kind.corresponds}
        if not names:
            known = {name for kind in self.issues for name in kind.corresponds}
            raise UnknownName(f"counterpart of {self.name!r}", other, known)
        return names


def normalized_name(name: str) -> str:
    """Return a name without case, punctuation and repeated spaces: `Non-Textual` is `non textual`."""
    return " ".join(re.sub(r"[\W_]+", " ", name).lower().split())


def shipped_taxonomies() -> list[str]:
    """Return the names of the shipped taxonomies."""
    found = files("accord.values.taxonomies").iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in found if entry.name.endswith(".yaml"))


def load_taxonomy(name_or_path: str | Path, folder: Path = Path()) -> Taxonomy:
    """Read a taxonomy: a shipped one by name (`soda-eval`), or a YAML file by its path, relative to `folder`.

    Raises:
        BadInput: The file does not exist, is not YAML, has unknown keys or two equal names, or is inconsistent.
        UnknownName: There is neither a file nor a shipped taxonomy of this name.
    """
    path = folder / name_or_path
    if path.suffix in {".yaml", ".yml"} or path.is_file():
        return read_taxonomy(load_yaml(path), str(path))
    if str(name_or_path) not in shipped_taxonomies():
        raise UnknownName("taxonomy", str(name_or_path), shipped_taxonomies())
    return _shipped(str(name_or_path))


@cache
def _shipped(name: str) -> Taxonomy:
    path = Path(str(files("accord.values.taxonomies") / f"{name}.yaml"))
    return read_taxonomy(load_yaml(path), str(path))


def read_taxonomy(content: Any, where: str) -> Taxonomy:
    """Return a taxonomy from parsed YAML; `where` names the file in errors.

    Raises:
        BadInput: The content has unknown keys, wrong types or two equal names, or is inconsistent.
    """
    return validate(Taxonomy, content, where)

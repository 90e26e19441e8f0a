"""A taxonomy: the kinds of issues that a reply can have, what each means, and what it is called elsewhere.

Data, not code: SODA-EVAL's ten kinds (Mendonça et al., 2024, table 3) and ABC-Eval's behaviours are shipped as YAML.
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
"""What the ids of questions about issues begin with, and the names of their columns."""


class IssueType(FrozenModel):
    """One kind of issue.

    Attributes:
        name: As it is written in an assessment.
        definition: One sentence, as a model and a person are told it.
        objective: Whether people can be expected to agree on it.
        critical: Whether one such issue spoils a reply.
        aliases: Other names that models give it.
        corresponds: Its name in other taxonomies, by the taxonomy's name.
    """

    name: str = Field(min_length=1, max_length=60, pattern=r"^[^:=]+$")  # columns are called by it
    definition: str = Field(min_length=1)
    objective: bool = True
    critical: bool = False
    aliases: tuple[str, ...] = ()
    corresponds: Mapping[str, str] = Field(default_factory=dict)


class SecondLook(FrozenModel):
    """What is asked again about issues of the residual kind: a yes makes them another kind."""

    type: str
    question: str


class Taxonomy(FrozenModel):
    """Kinds of issues in the order they are told.

    `other` names the residual kind, where there is one: what fits nowhere else becomes it. `looked_at_again` says
    which kind hides among those (SODA-EVAL, section 4.1: antisocial behaviour among "Other").
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
        stranger = next((name for name in named if name is not None and name not in self.names), None)
        if stranger is not None:
            raise ValueError(f"{stranger!r} is none of its issues: {', '.join(self.names)}")
        if self.looked_at_again is not None and self.other is None:
            raise ValueError("looked_at_again needs `other`: it says what hides among the issues of that kind")
        return self

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The kinds' names, in order."""
        return tuple(kind.name for kind in self.issues)

    @cached_property
    def _by_name(self) -> dict[str, IssueType]:
        named = {normalized_name(alias): kind for kind in self.issues for alias in kind.aliases}
        return named | {normalized_name(kind.name): kind for kind in self.issues}

    def __getitem__(self, name: str) -> IssueType:
        """The kind called so.

        Raises:
            UnknownName: There is none.
        """
        found = next((kind for kind in self.issues if kind.name == name), None)
        if found is None:
            raise UnknownName("issue", name, self.names)
        return found

    def find(self, said: str) -> IssueType | None:
        """The kind that somebody meant by a name: its own, or an alias, whatever the case and the punctuation."""
        return self._by_name.get(normalized_name(said))

    @cached_property
    def hash(self) -> str:
        """A tagged digest of all that a model is told; edited definitions make another taxonomy."""
        return content_hash(self.model_dump(mode="json", exclude={"source"}), length=12)

    @cached_property
    def rubric(self) -> Rubric:
        """The same as a rubric: one binary question a kind, so that any judge gives its probability."""
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
        told = "Look at one reply in the conversation below, given what was said before it, and answer the question."
        return Rubric(name=f"issues of {self.name}", questions=questions, main=questions[0].id, instructions=told)

    def counterparts(self, other: str) -> dict[str, str]:
        """Each kind's name in another taxonomy, for those that have one.

        Raises:
            UnknownName: Nothing here says what corresponds to what there.
        """
        found = {kind.name: kind.corresponds[other] for kind in self.issues if other in kind.corresponds}
        if not found:
            known = {name for kind in self.issues for name in kind.corresponds}
            raise UnknownName(f"counterpart of {self.name!r}", other, known)
        return found


def normalized_name(name: str) -> str:
    """A name without case, punctuation and repeated spaces: `Non-Textual` is `non textual`."""
    return " ".join(re.sub(r"[\W_]+", " ", name).lower().split())


def shipped_taxonomies() -> list[str]:
    """Names of the taxonomies that come with Accord."""
    found = files("accord.values.taxonomies").iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in found if entry.name.endswith(".yaml"))


def load_taxonomy(name_or_path: str | Path, folder: Path = Path()) -> Taxonomy:
    """Read a taxonomy: a shipped one by name (`soda-eval`), or a YAML file by its path, relative to `folder`.

    Raises:
        BadInput: The file does not exist, is no YAML, has unknown keys, two equal names, or contradicts itself.
        UnknownName: Neither a file nor a shipped taxonomy is called so.
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
    """A taxonomy from parsed YAML; `where` names the file in errors.

    Raises:
        BadInput: Unknown keys, wrong types, two equal names, or a taxonomy that contradicts itself.
    """
    return validate(Taxonomy, content, where)

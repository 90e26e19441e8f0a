"""A plan: what is validated, of whose making, by how many people; drawn once, kept in a file, never drawn again."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord.assessment import Assessment
from accord.conversation import Target, canonical_json, content_hash
from accord.errors import BadInput
from accord.taxonomy import Taxonomy
from accord.validation.sampling import assigned, sampled
from accord.validation.stages import flow_named


@dataclass(frozen=True)
class Plan:
    """Turns to validate, for anonymous slots.

    Attributes:
        flow: `detection` or `overall`.
        made_by: Who made the assessments that are validated.
        taxonomy: The digest of the taxonomy whose definitions are shown.
        seed: What fixed the draw.
        slots: For each slot its turns, in the order in which they are asked.
    """

    flow: str
    made_by: str
    taxonomy: str
    seed: int
    slots: tuple[tuple[Target, ...], ...]

    @property
    def turns(self) -> list[Target]:
        """Every turn once, by conversation and turn."""
        return sorted({turn for slot in self.slots for turn in slot})

    @property
    def key(self) -> str:
        """What tells its answers from those about other assessments: kept as `wording` with each label."""
        return content_hash(["validation", self.flow, self.made_by, self.taxonomy], length=16)

    def to_json(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        slots = [[list(turn) for turn in slot] for slot in self.slots]
        named = {"flow": self.flow, "made_by": self.made_by, "taxonomy": self.taxonomy, "seed": self.seed}
        return {**named, "slots": slots}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Plan:
        """The inverse of `to_json`."""
        slots = tuple(tuple(Target(name, turn) for name, turn in slot) for slot in row["slots"])
        return cls(flow_named(row["flow"]).name, row["made_by"], row["taxonomy"], row["seed"], slots)


def planned(
    flow: str,
    assessments: Sequence[Assessment],
    taxonomy: Taxonomy,
    count: int = 100,
    per_turn: int = 3,
    per_annotator: int = 100,
    annotators: int | None = None,
    seed: int = 0,
) -> Plan:
    """Draw a plan from the assessments of one maker.

    The paper: 200 turns, three answers each, 100 a person for `detection`; 100 turns, five answers each for `overall`.

    Raises:
        BadInput: The assessments are none, or several makers'; or the numbers do not fit (`sampled`, `assigned`).
        UnknownName: There is no such flow.
    """
    makers = sorted({each.made_by for each in assessments})
    if len(makers) != 1:
        raise BadInput(f"assessments by {len(makers)} makers; allowed: 1. Name the one to validate: {makers}")
    turns = sampled(assessments, count, seed)
    slots = assigned(turns, per_turn, per_annotator, annotators, seed)
    return Plan(flow_named(flow).name, makers[0], taxonomy.hash, seed, slots)


def write_plan(plan: Plan, path: Path) -> None:
    """Keep a plan.

    Raises:
        BadInput: The file holds another one: people may have answered it already.
    """
    if path.exists():
        if read_plan(path) != plan:
            raise BadInput(f"{path} holds another plan; go on with that one, or name another file")
        return
    write_whole(path, canonical_json(plan.to_json()) + "\n")


def read_plan(path: Path) -> Plan:
    """A plan from its file.

    Raises:
        BadInput: It cannot be read, or holds no plan.
    """
    try:
        return Plan.from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; draw a plan first") from None
    except (ValueError, KeyError, TypeError):
        raise BadInput(f"{path} holds no plan; name the file that the plan was written to") from None


def write_whole(path: Path, text: str) -> None:
    """Put a text into a file that only its owner reads; whoever reads it meanwhile sees the old one or the new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)

"""The two flows as data: what is asked at each stage, what every answer means, and what is shown beside it.

The words are those of SODA-EVAL's guidelines (figures 9 and 10), without the name of the model.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accord.values import (
    BadInput,
    IssueAnnotation,
    Target,
    Taxonomy,
    UnknownName,
    canonical_json,
    content_hash,
    read_card,
    write_whole,
)

DETECTION, OVERALL = "detection", "overall"
QUESTION = "validation:"
"""What the ids of the questions of validation begin with."""


@dataclass(frozen=True)
class Stage:
    """One question of a flow.

    Attributes:
        id: Its name within the flow.
        question: What is asked.
        meanings: Each allowed answer, with a word for it and what it means.
        shows_issues: Whether the issues that were found are shown. The score that was given never is.
        hint: What else to know while answering.
    """

    id: str
    question: str
    meanings: Mapping[int, tuple[str, str]]
    shows_issues: bool
    hint: str = ""

    @property
    def label(self) -> str:
        """The id of its question as labels have it."""
        return QUESTION + self.id


@dataclass(frozen=True)
class FlowOfStages:
    """Stages that each turn goes through, in this order.

    Attributes:
        name: What the flow is called.
        title: What it is about, for a page.
        guidelines: Paragraphs to read before the first turn.
        stages: At least one.
        lists_kinds: Whether the guidelines list the kinds of issues.
    """

    name: str
    title: str
    guidelines: tuple[str, ...]
    stages: tuple[Stage, ...]
    lists_kinds: bool


_QUALITY = {
    1: ("awful", "The response contains several major issues (e.g. contradicts itself or lacks common sense) that "
        "severely affect the interaction. The user would be hard pressed to continue such a conversation."),
    2: ("bad", "The response contains major issues that affect the conversation."),
    3: ("fair", "The response contains some issues that moderately reduce the quality of the interaction (e.g. "
        "unexpected or non-engaging response, or minor contradiction)."),
    4: ("good", "The response may contain a minor issue (e.g. a small typo) that does not affect its quality."),
    5: ("excellent", "Perfect response, without any issues."),
}  # fmt: skip

_CORRECT = {
    0: ("bad", "The issue identified is not present in the response; or no objective issue was detected when clearly "
        "at least one was present."),
    1: ("fair", "One objective issue was detected, but an additional one was missed; or the issue detected is present "
        "but not correctly described."),
    2: ("good", "The issues identified are present in the response; or there are indeed no issues."),
}  # fmt: skip

FLOWS: Mapping[str, FlowOfStages] = {
    DETECTION: FlowOfStages(
        DETECTION,
        "Are the issues right?",
        (
            "A model was asked to detect issues in dialogue responses. Your task is to determine if its detections "
            "are correct. There may be more than one issue per response.",
            "Only the objective issues are to be validated. The subjective ones are shown for completeness.",
        ),
        (Stage("detection", "Are the objective issues detected correct (or the lack of them)?", _CORRECT, True),),
        lists_kinds=True,
    ),
    OVERALL: FlowOfStages(
        OVERALL,
        "How good is the response?",
        (
            "Your task is to provide an overall assessment of the response (1 to 5), given the prior context.",
            "It is done in two steps. In the first you rate the response with the dialogue alone. After that, and "
            "only then, you rate the same response in the same way, with automated guidance: the issues a model found.",
            "You may disagree with the guidance, or find that it does not change your assessment; then give the same "
            "rating again. The first rating stays as it is.",
        ),
        (
            Stage("initial", "How good is the marked response, given what was said before it?", _QUALITY, False,
                  "Step 1 of 2: the dialogue alone. This rating cannot be changed afterwards."),
            Stage("revised", "How good is it, now that you have seen the issues a model found?", _QUALITY, True,
                  "Step 2 of 2: with guidance. You may disagree with it, and keep your first rating."),
        ),
        lists_kinds=False,
    ),
}  # fmt: skip


def flow_named(name: str) -> FlowOfStages:
    """The flow called so.

    Raises:
        UnknownName: There is none.
    """
    if name not in FLOWS:
        raise UnknownName("validation flow", name, FLOWS)
    return FLOWS[name]


def eligible(assessments: Iterable[IssueAnnotation]) -> list[Target]:
    """The turns that may be validated, by conversation and turn: all without issues, and each dialogue's first with."""
    ordered = sorted((each for each in assessments if each.target.turn is not None), key=lambda each: each.target)
    flagged: set[str] = set()
    found = []
    for each in ordered:
        if each.issues and each.target.conversation in flagged:
            continue
        if each.issues:
            flagged.add(each.target.conversation)
        found.append(each.target)
    return found


def sampled(assessments: Iterable[IssueAnnotation], count: int, seed: int = 0) -> tuple[Target, ...]:
    """Draw turns: of a dialogue a second one only where there are fewer dialogues than turns to draw.

    The same assessments, in whatever order, give the same turns for the same seed.

    Raises:
        BadInput: `count` is below 1, or more than there are.
    """
    turns = eligible(assessments)
    if not 1 <= count <= len(turns):
        raise BadInput(
            f"{count} turns to validate; allowed: 1 to {len(turns)}, which is how many may be validated (with issues "
            "only the first of each dialogue). Ask for fewer, or assess more dialogues."
        )
    random.Random(seed).shuffle(turns)
    seen: dict[str, int] = {}
    rounds = []
    for turn in turns:
        rounds.append(seen.get(turn.conversation, 0))
        seen[turn.conversation] = rounds[-1] + 1
    first = sorted(range(len(turns)), key=rounds.__getitem__)
    return tuple(turns[place] for place in first[:count])


def assigned(
    turns: Sequence[Target], per_turn: int, per_annotator: int, annotators: int | None = None, seed: int = 0
) -> tuple[tuple[Target, ...], ...]:
    """Give each turn to `per_turn` slots; a slot is somebody's place, and nobody's before a person takes it.

    Loads differ by one turn at most, and every slot has an order of its own. Who shares turns with whom is drawn, so
    that every two people tend to share some.

    Args:
        turns: What is validated.
        per_turn: Answers a turn gets, each by somebody else.
        per_annotator: The most turns a person gets.
        annotators: How many slots there are; as few as will do where it is not said.
        seed: Fixes the draw.

    Returns:
        For each slot its turns, in the order in which they are asked.

    Raises:
        BadInput: A number below 1, fewer slots than there need to be, or more than there are answers to give.
    """
    for name, number in (("per_turn", per_turn), ("per_annotator", per_annotator), ("turns", len(turns))):
        if number < 1:
            raise BadInput(f"{name}: got {number}, allowed: 1 or more")
    answers = len(turns) * per_turn
    fewest = max(per_turn, -(-answers // per_annotator))
    slots = fewest if annotators is None else annotators
    if not fewest <= slots <= answers:
        raise BadInput(
            f"{slots} annotators for {len(turns)} turns with {per_turn} answers each and at most {per_annotator} a "
            f"person; allowed: {fewest} to {answers}. Change one of these numbers."
        )
    draw = random.Random(seed)
    given: list[list[Target]] = [[] for _ in range(slots)]
    for turn in turns:
        order = sorted(given, key=lambda slot: (len(slot), draw.random()))
        for slot in order[:per_turn]:
            slot.append(turn)
    for slot in given:
        draw.shuffle(slot)
    return tuple(map(tuple, given))


@dataclass(frozen=True)
class Plan:
    """Turns to validate, for anonymous slots.

    Attributes:
        flow: `detection` or `overall`.
        signature: Who made the assessments that are validated.
        taxonomy: The digest of the taxonomy whose definitions are shown.
        seed: What fixed the draw.
        slots: For each slot its turns, in the order in which they are asked.
    """

    flow: str
    signature: str
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
        return content_hash(["validation", self.flow, self.signature, self.taxonomy], length=16)

    def to_json(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        slots = [[list(turn) for turn in slot] for slot in self.slots]
        named = {"flow": self.flow, "signature": self.signature, "taxonomy": self.taxonomy, "seed": self.seed}
        return {**named, "slots": slots}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Plan:
        """The inverse of `to_json`."""
        slots = tuple(tuple(Target(name, turn) for name, turn in slot) for slot in row["slots"])
        return cls(flow_named(row["flow"]).name, row["signature"], row["taxonomy"], row["seed"], slots)


def planned(
    flow: str,
    assessments: Sequence[IssueAnnotation],
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
    makers = sorted({each.signature for each in assessments})
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
        return Plan.from_json(read_card(path))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}; draw a plan first") from None
    except (BadInput, ValueError, KeyError, TypeError):
        raise BadInput(f"{path} holds no plan; name the file that the plan was written to") from None

"""Which assessed turns people validate, and who validates which (SODA-EVAL, section 4.2.1 and appendix D).

People have difficulties with a reply when an earlier one had issues: a turn with issues is only validated where it is
the first of its dialogue that has any.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from accord.assessment import Assessment
from accord.conversation import Target
from accord.errors import BadInput


def eligible(assessments: Iterable[Assessment]) -> list[Target]:
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


def sampled(assessments: Iterable[Assessment], count: int, seed: int = 0) -> tuple[Target, ...]:
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

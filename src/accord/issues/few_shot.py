"""Few-shot prompting (SODA-EVAL, section 5.2): assessments of other dialogues as the examples that a prompt shows."""

from __future__ import annotations

import random
from collections.abc import Sequence

from accord.assessment import Assessment
from accord.conversation import Conversation
from accord.issues.guidance import MOST_SHOTS, Shot

LONGEST = 2000
"""Characters of a dialogue that is shown as an example."""


def shots_of(pairs: Sequence[tuple[Conversation, Assessment]], count: int, seed: int = 0) -> tuple[Shot, ...]:
    """So many examples, drawn by a seed: by turns one with issues and one without, of dialogues that are short enough.

    Fewer come out where there are fewer.
    """
    drawn = list(pairs)
    random.Random(seed).shuffle(drawn)
    fits = [(c, a) for c, a in drawn if a.target.turn is not None and _size(c, a.target.turn) <= LONGEST]
    kinds = [[pair for pair in fits if bool(pair[1].issues) is wrong] for wrong in (True, False)]
    found: list[Shot] = []
    seen: set[str] = set()
    while len(found) < min(count, MOST_SHOTS) and any(kinds):
        kind = kinds[len(found) % 2] or kinds[(len(found) + 1) % 2]
        conversation, assessment = kind.pop()
        if conversation.id not in seen and assessment.target.turn is not None:
            seen.add(conversation.id)
            turn = assessment.target.turn
            found.append(Shot(conversation.turns[: turn + 1], turn, verdict_of(assessment)))
    return tuple(found)


def verdict_of(assessment: Assessment) -> dict[str, object]:
    """An assessment as the verdict that a model should write: issues first, then the comment, the score last.

    A quote that the reply does not have is left empty: nobody is taught to make one up.
    """
    issues = [
        {"type": issue.type, "comment": issue.comment, "quote": "" if issue.is_made_up else issue.quote}
        for issue in assessment.issues
    ]
    return {"issues": issues, "comment": assessment.comment, "score": assessment.score}


def _size(conversation: Conversation, turn: int) -> int:
    return sum(len(each.content) for each in conversation.up_to(turn))

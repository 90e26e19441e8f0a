"""Training examples: a turn with the dialogue before it, and the verdict that a model should write about it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from accord.assessment import Assessment
from accord.conversation import Conversation, Target, content_hash
from accord.errors import BadInput
from accord.issues.few_shot import verdict_of
from accord.issues.guidance import Guidance
from accord.llm.model import Subject


@dataclass(frozen=True, slots=True)
class Example:
    """One turn to learn from.

    Attributes:
        subject: The turn, given all turns before it.
        prompt: What is asked about it.
        answer: The verdict as JSON.
        score: Its score, from 1 to 5.
        types: The kinds of issues it has.
    """

    subject: Subject
    prompt: str
    answer: str
    score: int
    types: frozenset[str]

    @property
    def target(self) -> Target:
        """The turn."""
        return self.subject.target


def examples_of(pairs: Iterable[tuple[Conversation, Assessment]], guidance: Guidance) -> list[Example]:
    """An example for each assessment of a turn, in their order.

    Raises:
        BadInput: An assessment is of another conversation, of no turn of it, or the second one of its turn.
    """
    seen: set[Target] = set()
    found = []
    for conversation, assessment in pairs:
        target = assessment.target
        _check(conversation, target)
        if target in seen:
            raise BadInput(f"two assessments of {target}; take those of one maker")
        seen.add(target)
        subject = Subject(conversation, target.turn)
        [message] = guidance.of_turn(subject).messages
        types = frozenset(issue.type for issue in assessment.issues)
        found.append(
            Example(
                subject,
                message.content,
                json.dumps(verdict_of(assessment), ensure_ascii=False),
                assessment.score,
                types,
            )
        )
    return found


def digest_of(examples: Sequence[Example]) -> str:
    """A tagged digest of what is learned from, in its order."""
    return content_hash([[*example.target, example.prompt, example.answer] for example in examples], length=12)


def _check(conversation: Conversation, target: Target) -> None:
    if target.conversation != conversation.id:
        raise BadInput(f"an assessment of {target} stands beside the conversation {conversation.id!r}")
    if target.turn is None or not 0 <= target.turn < len(conversation.turns):
        raise BadInput(f"an assessment of {target} is of no turn: {conversation.id!r} has {len(conversation.turns)}")

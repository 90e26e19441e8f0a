"""Selection of dialogues and turns to annotate (SODA-EVAL, appendix C.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from accord.values import NON_SPEAKERS, Conversation

NO_CONTEXT, EMPTY, NO_REPLY = "no turn before it", "empty", "no reply in it"
MORE_SPEAKERS = "more than two speakers"


@dataclass
class JudgedTurns:
    """Turns to annotate in one conversation, with skipped turns by reason.

    `odd` counts unusual properties to review; the turns are annotated anyway.
    """

    turns: list[int] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)


def judged_turns(conversation: Conversation, all_speakers: bool = False) -> JudgedTurns:
    """Return the replies of a conversation that have words and at least one turn before them.

    Without an earlier turn, a reply is judged by its surface only, and too severely (appendix C.1). With
    `all_speakers`, the turns of all speakers are judged, as in conversations between two models.
    """
    selection = JudgedTurns()
    replies = {id(turn) for turn in conversation.replies}
    has_context = False
    for place, turn in enumerate(conversation.turns):
        if turn.role in NON_SPEAKERS:
            continue
        if all_speakers or id(turn) in replies:
            reason = EMPTY if not turn.content.strip() else None if has_context else NO_CONTEXT
            if reason is None:
                selection.turns.append(place)
            else:
                selection.skipped[reason] += 1
        has_context = has_context or bool(turn.content.strip())
    if not selection.turns and not selection.skipped:
        selection.skipped[NO_REPLY] += 1
    if len(speakers(conversation)) > 2:
        selection.odd[MORE_SPEAKERS] += 1
    return selection


def largest(conversations: Iterable[Conversation], most: int | None = None) -> list[Conversation]:
    """Return dialogues by decreasing number of turns, then of words, then by id.

    Longer dialogues are more likely to have coherence issues (appendix C.1).
    """
    ordered = sorted(conversations, key=lambda one: (-len(one.turns), -_words(one), one.id))
    return ordered[:most]


def speakers(conversation: Conversation) -> list[str]:
    """Return the names of the speakers (or their roles), in the order of their first turn."""
    return list(dict.fromkeys(turn.name or turn.role for turn in conversation.turns if turn.role not in NON_SPEAKERS))


def _words(conversation: Conversation) -> int:
    return sum(len(turn.content.split()) for turn in conversation.turns)


_ROLES = frozenset({"user", "assistant", "speaker_a", "speaker_b"})


@cache
def _animals_and_things() -> frozenset[str]:
    return frozenset((files("accord.methods.issues") / "not_people.txt").read_text(encoding="utf-8").split())


def has_only_people(conversation: Conversation) -> bool:
    """Return False if a speaker has the name of an animal or a thing."""
    names = (name for name in speakers(conversation) if name not in _ROLES)
    return not any(" ".join(name.lower().split()) in _animals_and_things() for name in names)

"""Which dialogues, and which of their turns, are worth assessing (SODA-EVAL, appendix C.1)."""

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
class Selection:
    """Turns to assess, by conversation, and what was passed over, counted by reason.

    `odd` counts what is assessed all the same and deserves a look.
    """

    turns: list[int] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)


def judged_turns(conversation: Conversation, everyone: bool = False) -> Selection:
    """The replies of a conversation that have words, and at least one turn before them by somebody.

    Without a turn before it a reply is judged for its surface alone, and too severely (appendix C.1). With `everyone`
    the turns of all speakers are judged, as where both are models.
    """
    found = Selection()
    replies = {id(turn) for turn in conversation.replies}
    context = False
    for place, turn in enumerate(conversation.turns):
        if turn.role in NON_SPEAKERS:
            continue
        if everyone or id(turn) in replies:
            reason = EMPTY if not turn.content.strip() else None if context else NO_CONTEXT
            if reason is None:
                found.turns.append(place)
            else:
                found.skipped[reason] += 1
        context = context or bool(turn.content.strip())
    if not found.turns and not found.skipped:
        found.skipped[NO_REPLY] += 1
    if len(speakers(conversation)) > 2:
        found.odd[MORE_SPEAKERS] += 1
    return found


def largest(conversations: Iterable[Conversation], most: int | None = None) -> list[Conversation]:
    """Dialogues with the most turns first, of those of one length the ones with the most words, then by id.

    The longer a dialogue, the likelier an issue of coherence (appendix C.1).
    """
    ordered = sorted(conversations, key=lambda one: (-len(one.turns), -_words(one), one.id))
    return ordered[:most]


def speakers(conversation: Conversation) -> list[str]:
    """Who speaks: the names of the turns, where they have one, else their roles; in the order they begin."""
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

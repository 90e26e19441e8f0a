"""Which dialogues, and which of their turns, are worth assessing (SODA-EVAL, appendix C.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from accord.edges import BadInput
from accord.values import NOBODY, Conversation

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
        if turn.role in NOBODY:
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
    return list(dict.fromkeys(turn.name or turn.role for turn in conversation.turns if turn.role not in NOBODY))


def _words(conversation: Conversation) -> int:
    return sum(len(turn.content.split()) for turn in conversation.turns)


PERSON = "person"
_ROLES = frozenset({"user", "assistant", "speaker_a", "speaker_b"})


class Speakers:
    """Tells people from animals and things by their names."""

    def __init__(self, not_people: Collection[str] | None = None) -> None:
        """`not_people` are names in small letters; by default those of the list that comes with Accord."""
        shipped = (files("accord.methods.issues") / "not_people.txt").read_text(encoding="utf-8").split()
        self.not_people = frozenset(shipped if not_people is None else not_people)

    @classmethod
    def from_wordnet(cls, folder: str | Path) -> Speakers:
        """Every noun of WordNet whose commonest sense is no kind of person.

        Args:
            folder: With `index.noun` and `data.noun`, as WordNet's package installs them.

        Raises:
            BadInput: One of them is missing, or not of WordNet's form.
        """
        index, data = (Path(folder) / f"{name}.noun" for name in ("index", "data"))
        try:
            senses = dict(_entries(index))
            above = dict(_hypernyms(data))
        except OSError as error:
            raise BadInput(f"{error.filename} cannot be read: WordNet's folder has index.noun and data.noun") from None
        except (ValueError, IndexError):
            raise BadInput(f"{folder} holds files of another form than WordNet's index.noun and data.noun") from None
        people = _below(set(senses.get(PERSON, ())[:1]), above)
        return cls([noun.replace("_", " ") for noun, own in senses.items() if not people & set(own[:1])])

    def is_person(self, name: str) -> bool:
        """Whether a speaker called so can be a person."""
        words = name.lower().split()
        return name in _ROLES or not words or " ".join(words) not in self.not_people

    def only_people(self, conversation: Conversation) -> bool:
        """Whether everyone who speaks can be a person."""
        return all(map(self.is_person, speakers(conversation)))


def _entries(index: Path) -> Iterator[tuple[str, list[int]]]:
    """Each noun with the offsets of its senses, the commonest first."""
    for fields in _lines(index):
        senses = int(fields[2])
        yield fields[0], [int(offset) for offset in fields[len(fields) - senses :]]


def _hypernyms(data: Path) -> Iterator[tuple[int, list[int]]]:
    """Each sense with the senses right above it: of what it is a kind, or an instance."""
    for fields in _lines(data):
        words = int(fields[3], 16)
        start = 4 + 2 * words
        pointers = fields[start + 1 : start + 1 + 4 * int(fields[start])]
        yield int(fields[0]), [int(pointers[i + 1]) for i in range(0, len(pointers), 4) if pointers[i] in {"@", "@i"}]


def _lines(path: Path) -> Iterable[list[str]]:
    with path.open(encoding="utf-8") as lines:
        yield from (line.split() for line in lines if line[:1] not in {" ", "\n", ""})


def _below(roots: set[int], above: dict[int, list[int]]) -> set[int]:
    """The roots and all senses from which one of them is reached upwards."""
    kinds: dict[int, list[int]] = {}
    for sense, higher in above.items():
        for each in higher:
            kinds.setdefault(each, []).append(sense)
    found, waiting = set(roots), list(roots)
    while waiting:
        new = set(kinds.get(waiting.pop(), ())) - found
        found |= new
        waiting += new
    return found

"""The speaker filter (SODA-EVAL, appendix C.1): dialogues in which an animal or a thing speaks are left out.

The paper asks WordNet whether a speaker's name is a kind of person. Names of people are not in it: what it does not
know counts as a person. Where its files are not at hand a short list of our own stands in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from importlib.resources import files
from pathlib import Path

from accord.conversation import Conversation
from accord.errors import BadInput
from accord.issues.selection import speakers

PERSON = "person"
_ROLES = frozenset({"user", "assistant", "speaker_a", "speaker_b"})


class Speakers:
    """Tells people from animals and things by their names."""

    def __init__(self, not_people: Collection[str] | None = None) -> None:
        """`not_people` are names in small letters; by default those of the list that comes with Accord."""
        shipped = (files("accord.issues") / "not_people.txt").read_text(encoding="utf-8").split()
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

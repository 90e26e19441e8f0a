"""People and judges who rated: one sentence about them, spellings of one name, and repeated ratings."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from accord.formats import UNNAMED

MOST_NAMED = 6
"""Names in a sentence; the others are counted."""
_INVISIBLE = re.compile(r"[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")


def raters_text(people: Mapping[str, int], judges: Mapping[str, int]) -> str:
    """Return the people who rated and the judges, each with the number of ratings, the most first.

    >>> raters_text({"nora": 50, "ben": 40}, {"gpt-judge": 200})
    'nora 50, ben 40; judge gpt-judge 200'
    >>> raters_text({}, {"a": 2, "b": 3}), raters_text({}, {})
    ('no people; judges b 3, a 2', 'no ratings')
    """
    if not (people or judges):
        return "no ratings"
    parts = [_listed(people) or "no people"]
    if judges:
        parts.append(f"{'judge' if len(judges) == 1 else 'judges'} {_listed(judges)}")
    return "; ".join(parts)


def _listed(counts: Mapping[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    rest = len(ranked) - MOST_NAMED
    named = ", ".join(f"{name} {count:,}" for name, count in ranked[:MOST_NAMED])
    return f"{named}, … and {rest:,} more" if rest > 0 else named


def rater_key(name: str) -> str:
    """Return the form that all spellings of one name share.

    Case, blanks around and repeated blanks inside, invisible characters, full-width letters and Unicode composition
    make no difference.

    >>> rater_key(" Nora\u200b  Meyer "), rater_key("ＮＯＲＡ meyer")
    ('nora meyer', 'nora meyer')
    """
    return " ".join(_INVISIBLE.sub("", unicodedata.normalize("NFKC", name)).casefold().split()) or name


@dataclass
class RaterNames:
    """Spellings of names; the first spelling of each is kept.

    Attributes:
        known: Spellings that are kept already, such as the names in a store.
        joined: Other spellings that were read, by the kept one.
    """

    known: Iterable[str] = ()
    joined: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._kept: dict[str, str] = {}
        self._exact = {name: name for name in self.known}
        for name in self.known:
            self._kept.setdefault(rater_key(name), name)

    def of(self, name: str) -> str:
        """Return the kept spelling of a name."""
        kept = self._exact.get(name)
        if kept is None:
            kept = self._exact[name] = self._kept.setdefault(rater_key(name), name)
            if kept != name:
                self.joined.setdefault(kept, []).append(name)
        return kept

    def counts(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Return counts by kept spelling."""
        merged: dict[str, int] = {}
        for name, count in counts.items():
            kept = self.of(name)
            merged[kept] = merged.get(kept, 0) + count
        return merged


def joined_text(joined: Mapping[str, Iterable[str]]) -> str:
    """Return the sentence about spellings that are read as the same person; empty if there are none."""
    listed = "; ".join(f"{kept!r}: {', '.join(map(repr, others))}" for kept, others in joined.items())
    return f"spellings of one name are one person: {listed}" if listed else ""


class RepeatedRatings:
    """Ratings of one thing by one person on one question, of which the last counts.

    Ratings without a name may come from several people, so they are not repeats.

    Attributes:
        count: Ratings that a later one replaces.
        first: File, line and content of the first repeat; empty if there is none.
    """

    def __init__(self) -> None:
        self.count, self.first = 0, ""
        self._seen: set[int] = set()

    def is_repeat(self, place: str, annotator: str, question: str, target: object, against: object) -> bool:
        """Count a rating; return True if the same person gave one on the same question before."""
        if annotator == UNNAMED:
            return False
        key = hash((annotator, question, target, against))
        if key not in self._seen:
            self._seen.add(key)
            return False
        self.count += 1
        self.first = self.first or f"{place}: {annotator} on {target}, question {question!r}"
        return True

    def to_json(self) -> dict[str, int | str]:
        """Convert to JSON."""
        return {"count": self.count, "first": self.first}


def repeated_text(repeated: Mapping[str, object]) -> str:
    """Return the sentence about ratings that a later one replaces; empty if there are none."""
    if not repeated["count"]:
        return ""
    noun = "rating repeats an" if repeated["count"] == 1 else "ratings repeat an"
    return f"{repeated['count']} {noun} earlier one by the same person; the last counts. First: {repeated['first']}"

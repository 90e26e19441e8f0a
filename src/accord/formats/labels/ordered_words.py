"""Words with an order: letters A to F, "poor" to "great", "never" to "always", and orders that the user states."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from accord.edges import BadInput
from accord.formats.labels.rating_columns import number_in

ORDERS: tuple[tuple[str, ...], ...] = (
    ("terrible", "awful", "very bad", "very poor", "bad", "poor", "fair", "ok", "okay", "acceptable", "average",
     "medium", "good", "very good", "great", "excellent", "outstanding"),
    ("strongly disagree", "disagree", "somewhat disagree", "slightly disagree", "neutral",
     "neither agree nor disagree", "slightly agree", "somewhat agree", "agree", "strongly agree"),
    ("very dissatisfied", "dissatisfied", "neutral", "satisfied", "very satisfied"),
    ("very unlikely", "unlikely", "somewhat unlikely", "neutral", "somewhat likely", "likely", "very likely"),
    ("none", "very low", "low", "mild", "medium", "moderate", "high", "very high", "severe"),
    ("none", "trivial", "minor", "moderate", "major", "severe", "critical", "blocker"),
    ("never", "seldom", "rarely", "occasionally", "sometimes", "often", "usually", "always"),
    ("negative", "mixed", "neutral", "positive"),
    ("no", "partly", "partially", "partial", "somewhat", "mostly", "yes"),
    ("sehr schlecht", "schlecht", "ungenügend", "mangelhaft", "ausreichend", "mittel", "mittelmäßig", "befriedigend",
     "gut", "sehr gut", "ausgezeichnet", "hervorragend"),
    ("nie", "niemals", "selten", "gelegentlich", "manchmal", "oft", "häufig", "meistens", "immer"),
    ("stimme gar nicht zu", "stimme überhaupt nicht zu", "stimme nicht zu", "stimme eher nicht zu", "teils teils",
     "teils/teils", "neutral", "stimme eher zu", "stimme zu", "stimme voll zu", "stimme voll und ganz zu"),
    ("sehr unzufrieden", "unzufrieden", "neutral", "zufrieden", "sehr zufrieden"),
    ("sehr niedrig", "niedrig", "mittel", "hoch", "sehr hoch"),
    ("sehr gering", "gering", "mittel", "groß", "sehr groß"),
    ("keiner", "keine", "kein", "gering", "leicht", "mittel", "schwer", "sehr schwer"),
    ("nein", "teilweise", "überwiegend", "ja"),
)  # fmt: skip
"""Known orders, the lowest word first."""
_SEVERITY = frozenset({"minor", "major"})
_LETTERS, _SIGNS = "fedcba", ("-", "", "+")
MAX_ORDERED = 20
"""Largest number of words of an order."""


def is_letters(words: Collection[str]) -> bool:
    """Return True for at least three of the letters A to F, each with or without a plus or minus.

    Two letters, such as A and B, may be names of compared versions.

    >>> is_letters(["A", "B+", "D"]), is_letters(["A", "B"]), is_letters(["A", "B", "X"])
    (True, False, False)
    """
    plain = [word.strip().casefold() for word in words]
    are_marks = all(word[:1] in _LETTERS and word[1:] in _SIGNS for word in plain if word)
    return bool(plain) and all(plain) and are_marks and len({word[0] for word in plain}) >= 3


def order_of(words: Collection[str]) -> Sequence[str] | None:
    """Return a known order of words, in lower case with the lowest first, or `None` if no order is known.

    >>> order_of(["good", "poor", "great"])[:2], order_of(["A", "C", "F"])[-1], order_of(["red", "blue"])
    (('terrible', 'awful'), 'a+', None)
    """
    known = {word.strip().casefold() for word in words}
    if is_letters(known):
        return [f"{letter}{sign}" for letter in _LETTERS for sign in _SIGNS]
    return next((order for order in ORDERS if known <= set(order)), None)


def has_none(words: Collection[str]) -> bool:
    """Return True if "none" is an answer in a column with these words: they include "minor" or "major".

    In other columns "none" is a missing answer, which some programs write like this.
    """
    known = {word.strip().casefold() for word in words}
    return bool(known & _SEVERITY) and order_of(known) is not None


@dataclass(frozen=True)
class WordOrder:
    """Order of the words of a column, as the user states it.

    Attributes:
        words: Words, the lowest first.
        column: Column. By default (None), the order applies to every column that has any of the words.

    >>> WordOrder(("F", "C", "A")).place(" c"), str(WordOrder(("F", "C", "A"), "grade"))
    (1, 'grade=A>C>F')
    """

    words: tuple[str, ...]
    column: str | None = None

    def place(self, value: object) -> int | None:
        """Return the place of a value from 0, the lowest, or `None` if it is not one of the words."""
        plain = [word.casefold() for word in self.words]
        text = value.strip().casefold() if isinstance(value, str) else None
        return plain.index(text) if text in plain else None

    def is_of(self, column: str, values: Collection[object]) -> bool:
        """Return True if the order is the order of a column with these values."""
        if self.column is not None:
            return column == self.column
        return any(self.place(value) is not None for value in values)

    def check(self, name: str, values: Collection[object]) -> None:
        """Check that the order has every value of a column.

        Raises:
            BadInput: It lacks one.
        """
        lacking = [value for value in values if self.place(value) is None]
        if lacking:
            more = f" and {len(lacking) - 1} others" if len(lacking) > 1 else ""
            raise BadInput(
                f"--order: {name!r} has the value {str(lacking[0])[:60]!r}{more}, and the order has only "
                f"{'>'.join(reversed(self.words))}; add it to the order, or correct the rows"
            )

    def __str__(self) -> str:
        prefix = "" if self.column is None else f"{self.column}="
        return prefix + ">".join(reversed(self.words))


def parse_orders(given: str | Collection[str] | None) -> list[WordOrder]:
    """Parse orders such as `A>B>C` or `grade=A>B>C`, the highest word first.

    Raises:
        BadInput: An order has another form.

    >>> parse_orders("grade = A > B")
    [WordOrder(words=('B', 'A'), column='grade')]
    """
    found = []
    for text in [given] if isinstance(given, str) else given or ():
        first, *rest = text.split(">")
        column, sign, word = first.rpartition("=")
        words = [each.strip() for each in (word if sign else first, *rest)]
        plain = [each.casefold() for each in words]
        repeated = next((each for each in words if plain.count(each.casefold()) > 1), None) if len(plain) < 100 else ""
        if len(words) < 2 or not all(words) or repeated is not None or (sign and not column.strip()):
            why = (
                "it has one word" if len(words) < 2 else "a word is empty" if not all(words) else "a word occurs twice"
            )
            raise BadInput(f"--order takes the words of a scale, the highest first, got {text[:80]!r}: {why}. "
                           'Example: --order "A>B>C>D>F", or "grade=A>B>C>D>F" for one column')  # fmt: skip
        if len(words) > MAX_ORDERED:
            raise BadInput(f"--order has {len(words)} words; a scale has at most {MAX_ORDERED}")
        number = next((each for each in words if number_in(each) is not None), None)
        if number is not None:
            raise BadInput(f"--order has the number {number}; numbers keep their own order, so leave the option out")
        found.append(WordOrder(tuple(reversed(words)), column.strip() or None))
    return found


def order_for(orders: Collection[WordOrder], column: str, values: Collection[object]) -> WordOrder | None:
    """Return the order of a column with some values, or `None`. An order that names the column comes first.

    Raises:
        BadInput: The order lacks a value of the column.
    """
    named = sorted(orders, key=lambda order: order.column is None)
    order = next((each for each in named if each.is_of(column, values)), None)
    if order is not None:
        order.check(column, values)
    return order

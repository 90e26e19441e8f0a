"""The chart of a difference by scores and by people, with its title and a note, for Home and the board."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from accord.charts import Axis, ChartRow, row_chart
from accord.results import Figure


def with_people(differences: Sequence[Figure], ledger: Iterable[Figure]) -> list[Figure]:
    """Return the differences, followed by the difference by people of the same two groups from a verdict's ledger."""
    people = [each for each in ledger if each.name == "people_difference"]
    if len(differences) != 1 or differences[0].by != "scores":
        return list(differences)
    return [*differences, *(each for each in people if each.part == differences[0].part)]


def difference_chart(figures: Sequence[Figure]) -> Markup | None:
    """Draw differences around 0; `None` without any."""
    parts = {each.part for each in figures}
    rows = [
        ChartRow(f"{each.n or 0:,} {'rated' if each.by == 'people' else 'scored'}" if len(parts) == 1 else each.part,
                 each.estimate, "people" if each.by == "people" else "tool")
        for each in figures
    ]  # fmt: skip
    return row_chart(rows, Axis(), difference_title(figures), is_signed=True) if rows else None


def difference_title(figures: Sequence[Figure]) -> str:
    """Return the title of the chart: the two groups, if all differences are of them."""
    parts = {each.part for each in figures}
    return f"Difference {parts.pop()}" if len(parts) == 1 else "Differences"


def difference_note(figures: Sequence[Figure]) -> str:
    """Return what the lines are and, of one pair of groups, what its differences are about."""
    lines = "Points of the scale, 95% intervals over conversations"
    if len({each.part for each in figures}) > 1:
        return f"{lines}, by {figures[0].by}."
    return " ".join([f"{lines}.", *(f"By {each.by}: {each.about}." for each in figures)])

"""Parts of a paper: needs, run, and table with the published figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from markupsafe import Markup

from accord.charts import Axis, ChartRow, interval_plot
from accord.edges import AccordError, BadInput, BudgetReached, UnknownName
from accord.statistics import CONFIDENCE
from accord.statistics.intervals import t_quantile
from accord.values import Estimate

if TYPE_CHECKING:
    from accord import Project

Row = dict[str, Any]
"""A row of a table: labels, and statistics by name; `NAME_low` and `NAME_high` are the ends of a 95% interval, or of
the range that `PartTable.brackets` names, and `NAME_published` the paper's figure."""
Status = Literal["works", "partial", "impossible", "skipped"]
REPEATS = 3
FEWEST_REPEATS = 40
"""Fewest repeats with a middle 95%, which leaves one out at each end; fewer have a range, from least to largest."""


@dataclass(frozen=True, eq=False)
class StudyInput:
    """Input of a study; equal only to itself, so that the parts of one run can share results under it.

    Attributes:
        data: Folder of the public data sets, each in a folder of its own.
        project: Project with other conversations, labels and models; takes the place of `data`.
        repeats: Number of splits, draws or seeds over which a part averages.
    """

    data: Path | None = None
    project: Project | None = None
    repeats: int = REPEATS

    def folder(self, name: str) -> Path:
        """Return the folder of a data set.

        Raises:
            BadInput: There is no such data set.
        """
        if self.data is None:
            raise BadInput(f"no data set {name!r}: name the folder of data sets with --data")
        if not (self.data / name).is_dir():
            raise BadInput(f"no data set {name!r} in the folder of --data; add it, or name the folder that holds it")
        return self.data / name

    def parent_of(self, *names: str) -> Path:
        """Return the folder that holds some data sets.

        Raises:
            BadInput: A data set is missing.
        """
        return [self.folder(name).parent for name in names][0]

    def required_project(self) -> Project:
        """Return the project, whose budget all parts share.

        Raises:
            BadInput: No project is given.
        """
        if self.project is None:
            raise BadInput("this part reads a project: name its accord.yaml with --project")
        return self.project


@dataclass(frozen=True)
class PartTable:
    """Table of a part.

    Attributes:
        rows: The rows.
        labels: Columns that name a row.
        statistics: Columns of numbers; the first is the part's main one.
        note: Sentences on reading the table.
        charts: Figures by name, drawn from the rows.
        headings: Column headings that differ from the names of labels and statistics.
        brackets: Meaning of the brackets, such as `range of 3 halvings`, shown in the header; empty for 95% intervals.
    """

    rows: Sequence[Row]
    labels: Sequence[str] = ("system",)
    statistics: Sequence[str] = ()
    note: str = ""
    charts: Mapping[str, Markup] = field(default_factory=dict)
    headings: Mapping[str, str] = field(default_factory=dict)
    brackets: str = ""

    def header(self) -> list[str]:
        """Return the column names as shown."""
        labels = [self.headings.get(name, name) for name in self.labels]
        statistics = [self.headings.get(name, name) + self._bracketed(name) for name in self.statistics]
        return [*labels, *statistics, *(["published"] if self._is_published() else [])]

    def _bracketed(self, name: str) -> str:
        has_ends = any(row.get(f"{name}_low") is not None for row in self.rows)
        return f" [{self.brackets}]" if self.brackets and has_ends else ""

    def lines(self) -> list[list[str]]:
        """Return the cells as text; `published` has the paper's figures in the order of the statistics."""
        return [
            [*(_text(row.get(name)) for name in self.labels), *(_number(row, name) for name in self.statistics),
             *([self._published(row)] if self._is_published() else [])]
            for row in self.rows
        ]  # fmt: skip

    def _is_published(self) -> bool:
        return any(row.get(f"{name}_published") is not None for row in self.rows for name in self.statistics)

    def _published(self, row: Row) -> str:
        figures = [row.get(f"{name}_published") for name in self.statistics]
        shown = [_text(figure) for figure, name in zip(figures, self.statistics, strict=True) if self._has(name)]
        return " / ".join(shown) if any(figure is not None for figure in figures) else "–"

    def _has(self, name: str) -> bool:
        return any(row.get(f"{name}_published") is not None for row in self.rows)


def table_with_reasons(
    rows: Sequence[Row],
    labels: Sequence[str],
    statistics: Sequence[str],
    note: str = "",
    charts: Mapping[str, Markup] | None = None,
) -> PartTable:
    """Return a table with the reasons for missing rows as a column, if there are any."""
    shown = [*labels, *(["missing"] if any("missing" in row for row in rows) else [])]
    return PartTable(rows, shown, statistics, note, charts or {})


def with_published(rows: Iterable[Row], figures: Mapping[str, Sequence[Any]], statistics: Sequence[str]) -> list[Row]:
    """Return rows with the paper's figures of each system, given in the order of the statistics."""
    found = []
    for row in rows:
        printed = dict(zip(statistics, figures.get(row["system"], ()), strict=False))
        found.append({**row, **{f"{name}_published": value for name, value in printed.items()}})
    return found


def interval_chart(rows: Sequence[Row], statistic: str, title: str, axis: Axis | None = None) -> Markup:
    """Return a chart of one statistic with its interval for each system that has it; the default axis fits the data."""
    dots = [ChartRow(str(row["system"]), estimate_of(row, statistic)) for row in rows if row.get(statistic) is not None]
    return interval_plot(dots, axis or Axis(title), title)


def estimate_of(row: Row, statistic: str) -> Estimate:
    """Return a statistic of a row with its interval."""
    return Estimate(row.get(statistic), row.get(f"{statistic}_low"), row.get(f"{statistic}_high"))


def columns_of(statistic: str, estimate: Estimate) -> Row:
    """Return an estimate as columns of a row."""
    return {statistic: estimate.value, f"{statistic}_low": estimate.low, f"{statistic}_high": estimate.high}


def spread_of(statistic: str, values: Sequence[float]) -> Row:
    """Return the mean of a statistic over repeats as columns of a row, with the spread that `spread_name` names.

    A spread of repeats is no 95% interval of their mean, and a single repeat has none.
    """
    if len(values) < 2:
        return {statistic: values[0] if values else None}
    low, high = np.quantile(values, [0.025, 0.975] if len(values) >= FEWEST_REPEATS else [0.0, 1.0])
    return columns_of(statistic, Estimate(float(np.mean(values)), float(low), float(high)))


def mean_interval(statistic: str, values: Sequence[float]) -> Row:
    """Return the mean of a statistic over independent repeats as columns of a row, with its 95% interval by t."""
    if len(values) < 2:
        return {statistic: values[0] if values else None}
    half = t_quantile((1 + CONFIDENCE) / 2, len(values) - 1) * float(np.std(values, ddof=1)) / len(values) ** 0.5
    middle = float(np.mean(values))
    return columns_of(statistic, Estimate(middle, middle - half, middle + half))


def spread_name(repeats: int, kind: str) -> str:
    """Return the name of a spread: `range of 3 halvings`, or `middle 95% of 100 halvings`.

    Args:
        repeats: Number of repeats.
        kind: Plural noun for them.
    """
    return f"{'middle 95%' if repeats >= FEWEST_REPEATS else 'range'} of {repeats} {kind}"


@dataclass(frozen=True)
class Part:
    """A table, figure or section of a paper.

    Attributes:
        name: Name on the command line.
        title: Place in the paper and subject, such as "Table 2: ablations".
        on_data: Runs the part on the public data sets.
        on_project: Runs the part on a project.
        limits: Reason why some or all of the part cannot be run as published: data or models that are not available.
        roles: Returns the roles of the models that the part asks on a project. `None` if it asks no model.
    """

    name: str
    title: str
    on_data: Callable[[StudyInput], PartTable] | None = None
    on_project: Callable[[StudyInput], PartTable] | None = None
    limits: str = ""
    roles: Callable[[Project], Sequence[str]] | None = None

    def missing_roles(self, project: Project) -> list[str]:
        """Return the roles that the part asks on a project and that have no model there."""
        return [role for role in (self.roles(project) if self.roles else ()) if not project.stored_models.has(role)]


@dataclass(frozen=True)
class PartResult:
    """Outcome of a part: `table` is `None` for a part that cannot be run, or that lacks data or packages here.

    Attributes:
        status: `works`; `partial` and `impossible` for parts with `limits`; `skipped` with the reason.
        runs_on: The input of a part that is skipped because the other one is given.
        missing_roles: Roles without a model in the project, if the part is skipped for that reason.
    """

    part: Part
    status: Status
    reason: str = ""
    table: PartTable | None = None
    seconds: float = 0.0
    runs_on: str = ""
    missing_roles: Sequence[str] = ()

    @property
    def availability(self) -> str:
        """The status, or the input that the part runs on if it is the other one."""
        return f"works on {self.runs_on}" if self.runs_on else self.status

    def to_json(self) -> Row:
        """Return the outcome as a JSON object."""
        found: Row = {"part": self.part.name, "title": self.part.title, "status": self.status, "reason": self.reason}
        if self.table is not None:
            found |= {"note": self.table.note, "rows": list(self.table.rows), "seconds": self.seconds}
        return found


def run_parts(parts: Sequence[Part], given: StudyInput, only: Sequence[str] = ()) -> Iterator[PartResult]:
    """Run the parts in order, on the project if one is given and else on the data sets.

    Args:
        parts: Parts of a paper.
        given: Data sets or a project.
        only: Names of the parts to run; all by default.

    Raises:
        UnknownName: A name in `only` is not a part.
        BudgetReached: The budget of the project is spent; replies so far are stored.
    """
    known = [part.name for part in parts]
    for name in only:
        if name not in known:
            raise UnknownName("part", name, known)
    for part in parts:
        if not only or part.name in only:
            yield _run(part, given)


def models_to_add(roles: Sequence[str]) -> str:
    """Return an entry of accord.yaml with a model for each role."""
    return f"models: {{{', '.join(f'{role}: {{model: NAME}}' for role in roles)}}}"


def models_note(results: Sequence[PartResult]) -> str:
    """Return a sentence on the parts that run on a project as it is; empty if no part lacks a model."""
    missing = list(dict.fromkeys(role for result in results for role in result.missing_roles))
    if not missing:
        return ""
    runs = [result.part.name for result in results if result.table is not None]
    others = [result.part.name for result in results if result.missing_roles]
    return (
        f"parts that run on this project without further models: {', '.join(runs) or 'none'}. "
        f"For {', '.join(others)}, add to accord.yaml: {models_to_add(missing)}"
    )


def _run(part: Part, given: StudyInput) -> PartResult:
    from accord.project.evaluators.fit_cache import single_threaded

    run = part.on_data if given.project is None else part.on_project
    if run is None:
        if part.on_data is None and part.on_project is None:
            return PartResult(part, "impossible", part.limits)
        other = "a project: --project accord.yaml" if given.project is None else "the public data sets: --data FOLDER"
        return PartResult(part, "skipped", f"runs on {other}", runs_on=other)
    if given.project is not None and (missing := part.missing_roles(given.project)):
        names = " and ".join(map(repr, missing))
        reason = f"no model configured for {names}. Add to accord.yaml: {models_to_add(missing)}"
        return PartResult(part, "skipped", reason, missing_roles=missing)
    started = time.process_time()
    try:
        with single_threaded(0):  # small matrices take longer on several cores
            table = run(given)
    except BudgetReached:
        raise
    except AccordError as error:
        return PartResult(part, "skipped", str(error))
    return PartResult(part, "partial" if part.limits else "works", part.limits, table, time.process_time() - started)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value)


def _number(row: Row, name: str) -> str:
    value = row.get(name)
    if not isinstance(value, float):
        return _text(value)
    return estimate_of(row, name).text(3, 3)

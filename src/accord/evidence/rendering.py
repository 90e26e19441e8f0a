"""Results for terminals and notebooks: a short `repr`, an HTML table, and conversion to data frames."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from accord.edges import BadInput, one_line
from accord.results import html_table
from accord.values import Estimate

if TYPE_CHECKING:
    import polars as pl

ROWS_SHOWN = 20
LONGEST_SHOWN = 60

Rows = Sequence[Mapping[str, Any]]


class Readable:
    """Base class of results with a readable `repr` and an HTML table in notebooks; names and texts are escaped."""

    def summary(self) -> Mapping[str, Any]:
        """Return the figures that `repr` shows."""
        raise NotImplementedError

    def shown_rows(self) -> Rows:
        """Return the rows of the HTML table; without any, it shows the summary."""
        return ()

    def __repr__(self) -> str:
        figures = (f"{name}={_text(value)}" for name, value in self.summary().items() if value is not None)
        return f"{type(self).__name__}({', '.join(figures)})"

    def _repr_html_(self) -> str:
        rows, summary = self.shown_rows(), {name: _text(value) for name, value in self.summary().items()}
        if not rows:
            return html_table((), list(summary.items()), type(self).__name__)
        names = [name for name in rows[0] if any(row.get(name) is not None for row in rows[:ROWS_SHOWN])]
        cells = [[_text(row.get(name)) for name in names] for row in rows[:ROWS_SHOWN]]
        more = f"; {len(rows) - ROWS_SHOWN:,} more rows" if len(rows) > ROWS_SHOWN else ""
        return html_table(names, cells, f"{self!r}{more}")


class Tabular(Readable):
    """A result that is a table: iterable, with a length, and convertible to data frames."""

    def records(self) -> Rows:
        """Return all rows."""
        raise NotImplementedError

    def shown_rows(self) -> Rows:
        """Return the rows of the HTML table."""
        return self.records()

    def __len__(self) -> int:
        return len(self.records())

    def __bool__(self) -> bool:
        return True  # a result without rows is still a result

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.records())

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a Polars DataFrame; nested cells are JSON."""
        import polars as pl

        rows = [{name: _flat(cell) for name, cell in row.items()} for row in self.records()]
        return pl.DataFrame(rows, infer_schema_length=None)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame; `BadInput` if pandas is not installed."""
        try:
            pandas: Any = import_module("pandas")
        except ImportError:
            raise BadInput("to_pandas needs pandas. Install it: pip install pandas") from None
        return pandas.DataFrame({column.name: column.to_list() for column in self.to_polars()})

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows through the Arrow C stream interface, which pyarrow, DuckDB and others read."""
        return self.to_polars().__arrow_c_stream__(requested_schema)


STATISTICS_SHOWN = {
    "rmse": "RMSE", "rmse_new_annotator": "RMSE, new annotator", "pearson": "r", "spearman": "ρ", "kendall": "τ",
    "log_loss": "log loss",
}  # fmt: skip


def comparison_table(lines: Rows) -> tuple[list[str], list[list[str]]]:
    """Return the header and the cells of a comparison, a line per evaluator, each statistic with its 95% interval."""
    header = ["evaluator", "n", *STATISTICS_SHOWN.values()]
    names = list(STATISTICS_SHOWN)
    return header, [[line["evaluator"], str(line["n"]), *(statistic(line, name) for name in names)] for line in lines]


def statistic(line: Mapping[str, Any], name: str) -> str:
    """Return a statistic of a flat row with its interval."""
    return Estimate(line[name], line[f"{name}_low"], line[f"{name}_high"]).text(3)


def _flat(cell: Any) -> Any:
    return json.dumps(cell) if isinstance(cell, Mapping | list | tuple) else cell


def _text(value: Any) -> str:
    """Return a value as a short text of one line."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        value = ", ".join(f"{name}: {_text(each)}" for name, each in value.items())
    return one_line(str(value), LONGEST_SHOWN)

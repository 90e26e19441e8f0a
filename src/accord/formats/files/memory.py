"""Tables in memory, read as the rows of a file: data frames, Arrow tables, data sets, lists of dicts.

No library of data frames is imported but Polars: other tables are recognized by their methods.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from accord.edges import MAX_DEPTH, BadInput, BadRow
from accord.formats.record import ROW_VALUES

if TYPE_CHECKING:
    import polars as pl

READABLE = "a path, a data frame, an Arrow table, or a list of dicts"
_BATCH_ROWS = 1000
_MISSING = frozenset({"NAType", "NaTType"})
"""Types of pandas for a missing value."""
_WHOLE_DIGITS = 30
"""Number of digits up to which a decimal number is a whole number: 1E+9999999 would take minutes."""


class MemoryTable:
    """Table in memory that can be read in place of a file.

    Rows are numbered from 1, as in a file. A conversation without an id is named after its row: `row-3`.
    """

    name = "row"

    def __init__(self, data: Any) -> None:
        """Prepare to read a table.

        Args:
            data: A pandas DataFrame, a Polars DataFrame or LazyFrame, a pyarrow Table, any object with
                `__arrow_c_stream__` or `__dataframe__`, or an iterable of mappings, such as a `datasets.Dataset`.

        Raises:
            BadInput: The data has another type, or is a mapping of several tables.
        """
        self.kind = type(data).__name__
        if _is_pandas(data) and not data.columns.is_unique:
            twice = str(data.columns[data.columns.duplicated()][0])
            raise BadInput(f"the {self.kind} has two columns called {twice!r}; rename one")
        self._pandas = data if _is_pandas(data) else None
        self._frame = None if self._pandas is not None else _polars_of(data)
        self._rows: Iterable[Any] = ()
        if self._pandas is None and self._frame is None:
            if isinstance(data, Mapping):
                raise BadInput(
                    f"cannot read a {self.kind} with the keys {', '.join(map(str, list(data)[:6]))}. Pass one table: "
                    f"{READABLE}"
                )
            if not isinstance(data, Iterable) or isinstance(data, str | bytes):
                raise BadInput(f"cannot read a {self.kind}. Pass {READABLE}")
            # Without its tensor format, a data set returns plain values.
            plain = data.with_format(None) if hasattr(data, "with_format") else data
            self._rows = list(plain) if isinstance(plain, Iterator) else plain

    @property
    def has_types(self) -> bool:
        """True for mappings, whose values may be lists of messages; False for a data frame."""
        return self._pandas is None and self._frame is None

    def __str__(self) -> str:
        return f"<{self.kind}>"

    def rows(self) -> Iterator[dict[str, Any] | BadRow]:
        """Iterate over the rows as JSON values; a row that cannot be read is a `BadRow`."""
        for number, row in enumerate(self._all(), 1):
            try:
                yield _plain_row(row)
            except (TypeError, ArithmeticError) as error:
                yield BadRow(str(self), number, str(error))
            except RecursionError:
                yield BadRow(str(self), number, f"nested deeper than {MAX_DEPTH} levels")

    def _all(self) -> Iterable[Any]:
        if self._pandas is not None:
            return _pandas_rows(self._pandas)
        return self._rows if self._frame is None else frame_rows(self._frame)


Source = Path | MemoryTable
"""A file, or a table in memory that is read like one."""


def tables_of(given: Any) -> list[Path | MemoryTable]:
    """Split an argument into paths and tables: a single source, or a list of sources.

    Raises:
        BadInput: A source cannot be read, or a list mixes rows with other sources.
    """
    if isinstance(given, str | Path | MemoryTable):
        return [source_of(given)]
    if _is_pandas(given) or hasattr(given, "column_names") or not isinstance(given, Iterable):
        return [MemoryTable(given)]
    if isinstance(given, Mapping) or hasattr(given, "__arrow_c_stream__") or hasattr(given, "__dataframe__"):
        return [MemoryTable(given)]
    items = list(given)
    are_rows = [isinstance(item, Mapping) and not hasattr(item, "column_names") for item in items]
    if any(are_rows) and not all(are_rows):
        raise BadInput(f"a list holds rows and other sources: {READABLE}. Pass the rows as a list of their own")
    return [MemoryTable(items)] if any(are_rows) else [source_of(item) for item in items]


def source_of(given: Any) -> Path | MemoryTable:
    """Convert a path or a table to a readable source.

    Raises:
        BadInput: The argument is neither a path nor a table.
    """
    if isinstance(given, MemoryTable):
        return given
    return Path(given) if isinstance(given, str | Path) else MemoryTable(given)


def _plain_row(row: Any) -> dict[str, Any]:
    """Return a row with JSON values; missing values are None.

    A row that is not a mapping, or a cell that JSON cannot represent, raises `TypeError` with the name of the column.
    """
    if isinstance(row, TypeError):
        raise row
    if not isinstance(row, Mapping):
        raise TypeError(f"expected a dict, got {type(row).__name__}")
    plain: dict[str, Any] = {}
    left = iter(range(ROW_VALUES))
    for name, cell in row.items():
        if str(name) in plain:
            raise TypeError(f"two columns are called {str(name)!r}; rename one")
        try:
            plain[str(name)] = _plain(cell, left)
        except TypeError as error:
            raise TypeError(f"column {str(name)!r} holds {error}") from None
    return plain


def frame_rows(frame: pl.DataFrame, buffer: int = 512) -> Iterator[dict[str, Any] | TypeError]:
    """Iterate over the rows of a Polars frame; in place of a row with a value that Python lacks, its error.

    Times and durations beyond Python's calendar are such values.
    """
    for start in range(0, frame.height, buffer):
        part = frame.slice(start, buffer)
        try:
            rows: list[dict[str, Any]] = part.rows(named=True)
        except (ValueError, OverflowError):
            for number in range(part.height):
                try:
                    yield part.row(number, named=True)
                except (ValueError, OverflowError) as error:
                    yield TypeError(f"a value is out of range: {error}")
        else:
            yield from rows


def _polars_of(data: Any) -> pl.DataFrame | None:
    """Convert an object with a data frame interface to a Polars frame, and return `None` for other objects."""
    import polars as pl

    if isinstance(data, pl.LazyFrame):
        return data.collect()
    if isinstance(data, pl.DataFrame):
        return data
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pl.DataFrame(data)
        if hasattr(data, "__dataframe__"):
            return pl.DataFrame(import_module("pyarrow.interchange").from_dataframe(data))
        return None
    except ImportError:
        raise BadInput(f"reading a {type(data).__name__} needs pyarrow. Install it: pip install pyarrow") from None
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise BadInput(f"cannot read a {type(data).__name__}: {(str(error).splitlines() or ['?'])[0]}") from None


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "to_dict") and hasattr(data, "columns")


def _pandas_rows(frame: Any) -> Iterator[Any]:
    """Iterate over the rows of a pandas DataFrame; an index with names is read as columns."""
    names = [name for name in frame.index.names if name is not None and name not in frame.columns]
    frame = frame.reset_index(names) if names else frame
    for start in range(0, len(frame), _BATCH_ROWS):
        yield from frame.iloc[start : start + _BATCH_ROWS].to_dict("records")


def _plain(cell: Any, left: Iterator[int]) -> Any:
    """Return a cell as a JSON value, or `None` if it is missing; raises `TypeError` if JSON cannot represent it.

    `left` has an entry for each value that the row may still hold: lists may share their content many times.
    """
    if next(left, None) is None:
        raise TypeError(f"more than {ROW_VALUES:,} values")
    if cell is None or isinstance(cell, bool | int):
        return cell
    if isinstance(cell, str):
        return str(cell)
    if isinstance(cell, float):
        return None if math.isnan(cell) else float(cell)
    if isinstance(cell, Mapping):
        return {str(name): _plain(each, left) for name, each in cell.items()}
    if isinstance(cell, Sequence | set | frozenset) and not isinstance(cell, bytes | bytearray | memoryview):
        return [_plain(each, left) for each in cell]
    return _converted(cell, left)


def _converted(cell: Any, left: Iterator[int]) -> Any:
    """Return a value of NumPy, pandas or the standard library as a JSON value; see `_plain` for errors."""
    if type(cell).__name__ in _MISSING:
        return None
    if hasattr(cell, "isoformat"):
        return cell.isoformat()
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    if isinstance(cell, Decimal):
        if cell.is_nan():
            return None
        is_whole = cell.is_finite() and cell.adjusted() < _WHOLE_DIGITS and cell == cell.to_integral_value()
        return int(cell) if is_whole else float(cell)
    if isinstance(cell, UUID | timedelta | Path):
        return str(cell)
    if hasattr(cell, "tolist"):  # NumPy's arrays and scalars
        return _plain(cell.tolist(), left)
    raise TypeError(f"a value of type {type(cell).__name__}; convert it to text or a number")

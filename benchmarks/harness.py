"""What every benchmark shares: its options, its printed table, and its JSON with flat rows."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from accord.version import __version__

Row = dict[str, Any]


def options(name: str, about: str, parts: Sequence[str] = ()) -> argparse.ArgumentParser:
    """A parser with the options that all benchmarks understand."""
    parser = argparse.ArgumentParser(prog=f"benchmarks/{name}.py", description=about)
    default = os.environ.get("ACCORD_DATA", str(Path(__file__).parents[2] / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=Path(default), help="folder of the benchmark data sets")
    parser.add_argument("--quick", action="store_true", help="answer the same question on less, within a minute")
    parser.add_argument("--limit", type=int, help="repeat at most so often")
    parser.add_argument("--json", type=Path, help="write the rows here")
    if parts:
        parser.add_argument("--only", help=f"run these parts alone, separated by commas: {', '.join(parts)}")
    return parser


def chosen(parser: argparse.ArgumentParser, given: str | None, parts: Sequence[str]) -> list[str]:
    """The parts named on the command line; all of them where none is."""
    names = list(parts) if given is None else given.split(",")
    unknown = [name for name in names if name not in parts]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; allowed: {', '.join(parts)}")
    return names


def data_folder(parser: argparse.ArgumentParser, folder: Path) -> Path:
    """The data folder, or an error that says how to name it."""
    if not folder.is_dir():
        parser.error(f"no data at {folder}; name the folder with --data or ACCORD_DATA")
    return folder


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    about = {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()}
    return {**about, "python": platform.python_version()}


def finish(name: str, rows: Sequence[Row], columns: Sequence[str], path: Path | None) -> None:
    """Print the rows as a table, and write them as JSON where a path is given."""
    print(table(rows, columns))
    write(name, rows, path)


def write(name: str, rows: Sequence[Row], path: Path | None) -> None:
    """Write the rows as JSON, where a path is given."""
    if path is not None:
        content = {"benchmark": name, "accord_version": __version__, "machine": machine(), "rows": list(rows)}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(f"\nrows in {path}", file=sys.stderr)


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """The named columns of the rows; a value with `_low` and `_high` is shown with its interval."""
    lines = [list(columns), *([_cell(row, column) for column in columns] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(line).rstrip() for line in padded)


def _cell(row: Mapping[str, Any], column: str) -> str:
    value = row.get(column)
    shown = _shown(value)
    low, high = row.get(f"{column}_low"), row.get(f"{column}_high")
    return f"{shown} [{_shown(low)}, {_shown(high)}]" if low is not None and high is not None else shown


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        return " ".join(_shown(each) for each in value)
    return f"{value:.3f}" if isinstance(value, float) and abs(value) < 1000 else str(value)

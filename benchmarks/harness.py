"""Common parts of benchmarks: options, printed tables, and JSON with flat rows.

The JSON names the version, the commit, the options and the machine. The results of a release are in
`benchmarks/results/`; `tools/write_tables.py` copies their figures to the docs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from accord.version import __version__

Row = dict[str, Any]
sys.path.append(str(Path(__file__).parents[1] / "tests"))  # synthetic corpora and scripted endpoints


def options(name: str, about: str, parts: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return a parser with the options of all benchmarks."""
    parser = argparse.ArgumentParser(prog=f"benchmarks/{name}.py", description=about)
    default = os.environ.get("ACCORD_DATA", str(Path(__file__).parents[2] / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=Path(default), help="folder of the benchmark data sets")
    parser.add_argument("--quick", action="store_true", help="run on less data, within a minute")
    parser.add_argument("--limit", type=int, help="maximum number of repetitions")
    parser.add_argument("--json", type=Path, help="file of the rows")
    if parts:
        parser.add_argument("--only", help=f"run only these parts, separated by commas: {', '.join(parts)}")
    return parser


def chosen(parser: argparse.ArgumentParser, given: str | None, parts: Sequence[str]) -> list[str]:
    """Return the parts named on the command line, or all."""
    names = list(parts) if given is None else given.split(",")
    unknown = [name for name in names if name not in parts]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; allowed: {', '.join(parts)}")
    return names


def data_folder(parser: argparse.ArgumentParser, folder: Path) -> Path:
    """Return the data folder, or exit with an error."""
    if not folder.is_dir():
        parser.error(f"no data at {folder}; name the folder with --data or ACCORD_DATA")
    return folder


def machine() -> dict[str, Any]:
    """Return the machine and its load in the last minute, without host name and paths."""
    description = {"system": platform.system(), "processor": _processor(), "cores": os.cpu_count()}
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {**description, "gigabytes": _gigabytes(), "python": platform.python_version(), "load": load}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _gigabytes() -> int | None:
    """Return the memory in GB, or None if it is unknown."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30)


def commit() -> str | None:
    """Return the commit, with `+` for uncommitted changes; None outside a checkout."""
    try:
        hash_, changes = (
            subprocess.run(["git", *what], cwd=Path(__file__).parent, capture_output=True, text=True, check=True).stdout
            for what in (["rev-parse", "--short=10", "HEAD"], ["status", "--porcelain", "--", "../src", "."])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    changed = [line for line in changes.splitlines() if "benchmarks/results/" not in line]
    return hash_.strip() + ("+" if changed else "")


def finish(name: str, rows: Sequence[Row], columns: Sequence[str], path: Path | None) -> None:
    """Print the rows as a table, and write them as JSON if a path is given."""
    print(table(rows, columns))
    write(name, rows, path)


def write(name: str, rows: Sequence[Row], path: Path | None) -> None:
    """Write the rows as JSON if a path is given."""
    if path is not None:
        header = {"benchmark": name, "accord_version": __version__, "commit": commit(), **_asked(sys.argv)}
        content = {**header, "machine": machine(), "rows": list(rows)}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(f"\nrows in {path}", file=sys.stderr)


def _asked(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the options `quick` and `only` of the run."""
    named = [after for option, after in pairwise(arguments) if option in {"--only", "--protocols"}]
    return {"quick": "--quick" in arguments, "only": named[0] if named else None}


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return the columns of the rows as text; a value with `_low` and `_high` has its interval."""
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
        return " ".join(_shown(item) for item in value)
    return f"{value:.3f}" if isinstance(value, float) and abs(value) < 1000 else str(value)

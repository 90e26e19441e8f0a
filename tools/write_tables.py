"""Write the tables of measured figures in README.md and docs/ from benchmarks/results/*.json.

    python tools/write_tables.py            write the tables
    python tools/write_tables.py --check    list the tables that differ from the results; exit 1 if there are any

A page holds a table between the lines `<!-- table: NAME -->` and `<!-- end of table -->`. `tools/tables.yaml` defines
its `columns` and the cells of its `rows`. In a cell, `{{FILE COLUMN KEY=VALUE ... as="FORMAT"}}` stands for a
figure: FILE is a benchmark, KEY=VALUE select one of its rows, COLUMN is the value. FORMAT is a Python format
string; `{low}` and `{high}` are the ends of the interval (`COLUMN_low` and `COLUMN_high`, or `low` and `high` for
`value`). `.3` prints three decimals without the leading zero and `.1%` a percentage; `{}` prints a text. `sum:COLUMN`
adds all selected rows. The table `machines` lists commit, parts and machine of every result file; a row of a part that
was measured at another commit names it under `commit`.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DEFINITIONS = Path(__file__).with_name("tables.yaml")
TABLE = re.compile(r"<!-- table: (?P<name>[\w-]+) -->\n(?P<body>.*?)<!-- end of table -->", re.DOTALL)
PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}(?!\})")


class UnknownFigure(Exception):
    """A placeholder that matches no figure; the message names the placeholder and the file."""


class Number(float):
    """A number with the two extra formats of the documentation."""

    def __format__(self, form: str) -> str:
        if form.endswith("%"):
            return f"{100 * self:{form[:-1] or '.0'}f}%"
        if re.fullmatch(r"\.\d+", form):
            return f"{float(self):{form}f}".replace("0.", ".", 1) if abs(self) < 1 else f"{float(self):{form}f}"
        return format(float(self), form)


@cache
def load_results(benchmark: str) -> dict[str, Any]:
    """Return the JSON of a benchmark.

    Raises:
        UnknownFigure: The benchmark has no result file.
    """
    path = RESULTS / f"{benchmark}.json"
    if not path.is_file():
        available = ", ".join(sorted(path.stem for path in RESULTS.glob("*.json")))
        raise UnknownFigure(f"no results of {benchmark!r}. Available: {available}")
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def figure(placeholder: str) -> str:
    """Return the text of one figure.

    Raises:
        UnknownFigure: The placeholder selects no row, several rows, or a row without the column.
    """
    benchmark, column, *rest = shlex.split(placeholder)
    conditions = dict(part.split("=", 1) for part in rest)
    form = conditions.pop("as", "{:.3}")
    rows = [
        row
        for row in load_results(benchmark)["rows"]
        if all(str(row.get(key)) == value for key, value in conditions.items())
    ]
    if column.startswith("sum:"):
        values = [row.get(column.removeprefix("sum:")) for row in rows]
        if not values or None in values:
            raise UnknownFigure(f"{len(rows)} rows, {values.count(None)} without a value: {placeholder}")
        return form.format(Number(sum(values)))
    if len(rows) != 1 or rows[0].get(column) is None:
        problem = f"{len(rows)} rows match" if len(rows) != 1 else f"no column {column!r}"
        raise UnknownFigure(f"{problem}: {placeholder}")
    prefix = "" if column == "value" else f"{column}_"
    bounds = {end: Number(value) for end in ("low", "high") if (value := rows[0].get(f"{prefix}{end}")) is not None}
    value = rows[0][column]
    return form.format(value if isinstance(value, str) else Number(value), **bounds)


def machine_rows() -> list[list[str]]:
    """Return benchmark, commit, parts and machine of every result file."""
    rows = []
    for path in sorted(RESULTS.glob("*.json")):
        content = load_results(path.stem)
        parts = (content.get("only") or "all").replace(",", ", ") + ("; short run" if content["quick"] else "")
        text = "{processor}, {cores} cores, {gigabytes} GB, Python {python}, load {load:.1f}"
        machine = text.format(**content["machine"]).replace("(R)", "")
        commits = dict.fromkeys([content["commit"], *(row.get("commit") for row in content["rows"])])
        rows.append([path.stem, ", ".join(str(name) for name in commits if name), parts, machine])
    return rows


@cache
def definitions() -> dict[str, Any]:
    """Return the tables of `tools/tables.yaml` by name."""
    content: dict[str, Any] = yaml.safe_load(DEFINITIONS.read_text(encoding="utf-8"))
    return content | {"machines": {"columns": ["benchmark", "commit", "parts", "machine"], "rows": machine_rows()}}


def render(name: str) -> str:
    """Return a table as Markdown.

    Raises:
        UnknownFigure: The table is not defined, one of its figures is unknown, or a row lacks a cell or has too many.
    """
    if name not in definitions():
        raise UnknownFigure(f"no table {name!r} in {DEFINITIONS.name}")
    table = definitions()[name]
    for row in table["rows"]:
        if len(row) != len(table["columns"]):
            raise UnknownFigure(f"{len(row)} cells in {len(table['columns'])} columns of {name!r}: {row[0]}")
    rows = [[PLACEHOLDER.sub(lambda m: figure(m[1]), str(cell)) for cell in row] for row in table["rows"]]
    lines = [table["columns"], ["---"] * len(table["columns"]), *rows]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |").replace("|  |", "| |") for line in lines)


def pages() -> list[Path]:
    """Return the README and every page of the documentation."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def with_tables(page: str) -> str:
    """Return a page with all its tables rendered from the results."""
    return TABLE.sub(lambda m: f"<!-- table: {m['name']} -->\n{render(m['name'])}<!-- end of table -->", page)


def main() -> None:
    """Write or check the tables."""
    outdated = []
    for path in pages():
        before = path.read_text(encoding="utf-8")
        try:
            after = with_tables(before)
        except UnknownFigure as error:
            sys.exit(f"{path.name}: {error}")
        if after != before:
            outdated.append(path.relative_to(ROOT).as_posix())
            if "--check" not in sys.argv:
                path.write_text(after, encoding="utf-8")
    if outdated and "--check" in sys.argv:
        sys.exit(f"outdated tables in {', '.join(outdated)}. Run: make tables")
    print(f"{len(outdated)} pages written: {', '.join(outdated)}" if outdated else "all tables are up to date")


if __name__ == "__main__":
    main()

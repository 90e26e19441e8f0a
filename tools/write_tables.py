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
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))
from harness import MEASURED, code_of_paper, is_current  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
DEFINITIONS = Path(__file__).with_name("tables.yaml")
TABLE = re.compile(r"<!-- table: (?P<name>[\w-]+) -->\n(?P<body>.*?)<!-- end of table -->", re.DOTALL)
PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}(?!\})")
MARK = " †"
"""Stands behind the first cell of a row whose code changed."""
ALL_CHANGED = "These figures were measured before a change of the code that they depend on."
SOME_CHANGED = "† Measured before a change of the code that the row depends on."
PART_CHANGED = ", measured before a change of the code"
"""Stands behind the command of a section in a page of `accord paper` whose code changed."""
MARKS = re.compile(rf"{MARK}(?= \|)|\n(?:{re.escape(ALL_CHANGED)}|{re.escape(SOME_CHANGED)})\n")


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


def select(placeholder: str) -> tuple[str, list[dict[str, Any]], str, str]:
    """Return the benchmark, the rows, the column and the format of a placeholder."""
    benchmark, column, *rest = shlex.split(placeholder)
    conditions = dict(part.split("=", 1) for part in rest)
    form = conditions.pop("as", "{:.3}")
    rows = [
        row
        for row in load_results(benchmark)["rows"]
        if all(str(row.get(key)) == value for key, value in conditions.items())
    ]
    return benchmark, rows, column, form


def figure(placeholder: str) -> str:
    """Return the text of one figure.

    Raises:
        UnknownFigure: The placeholder selects no row, several rows, or a row without the column.
    """
    _, rows, column, form = select(placeholder)
    if column.startswith("sum:"):
        values: list[Any] = [row.get(column.removeprefix("sum:")) for row in rows]
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


def changed(cells: Sequence[Any]) -> list[str]:
    """Return the benchmarks whose code changed after the figures of a row were measured."""
    found = (select(placeholder)[:2] for cell in cells for placeholder in PLACEHOLDER.findall(str(cell)))
    return list(dict.fromkeys(name for name, rows in found if not all_current(name, rows)))


def all_current(benchmark: str, rows: Sequence[dict[str, Any]] | None = None) -> bool:
    """Return True if the code behind some rows of a result, by default all, is the present one."""
    content = load_results(benchmark)
    return all(is_current(benchmark, content, row) for row in (content["rows"] if rows is None else rows))


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


def render(name: str, is_marked: bool = True) -> str:
    """Return a table as Markdown.

    Args:
        name: Name of the table.
        is_marked: True to mark the rows whose code changed.

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
    marks = [is_marked and bool(changed(row)) for row in table["rows"]]
    if name == "machines":
        marks = [is_marked and not all_current(row[0]) for row in table["rows"]]
    if not all(marks):
        rows = [[row[0] + MARK * mark, *row[1:]] for row, mark in zip(rows, marks, strict=True)]
    lines = [table["columns"], ["---"] * len(table["columns"]), *rows]
    text = "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |").replace("|  |", "| |") for line in lines)
    return text + (f"\n{ALL_CHANGED if all(marks) else SOME_CHANGED}\n" if any(marks) else "")


def pages() -> list[Path]:
    """Return the README and every page of the documentation."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def with_tables(page: str, is_marked: bool = True) -> str:
    """Return a page with all its tables rendered from the results."""
    block = "<!-- table: {name} -->\n{body}<!-- end of table -->"
    page = TABLE.sub(lambda m: block.format(name=m["name"], body=render(m["name"], is_marked)), without_marks(page))
    return MEASURED.sub(lambda m: m[0] + PART_CHANGED * (is_marked and m[4] not in (None, code_of_paper(m[2]))), page)


def without_marks(page: str) -> str:
    """Return a page whose tables and sections have no marks."""
    return TABLE.sub(lambda m: MARKS.sub("", m[0]), page.replace(PART_CHANGED, ""))


def main() -> None:
    """Write or check the tables."""
    is_check = "--check" in sys.argv
    outdated = []
    for path in pages():
        page = path.read_text(encoding="utf-8")
        before = without_marks(page) if is_check else page
        try:
            after = with_tables(page, is_marked=not is_check)
        except UnknownFigure as error:
            sys.exit(f"{path.name}: {error}")
        if after != before:
            outdated.append(path.relative_to(ROOT).as_posix())
            if not is_check:
                path.write_text(after, encoding="utf-8")
    if outdated and is_check:
        sys.exit(f"outdated tables in {', '.join(outdated)}. Run: make tables")
    print(f"{len(outdated)} pages written: {', '.join(outdated)}" if outdated else "all tables are up to date")
    if old := [row[0] for row in machine_rows() if not all_current(row[0])]:
        print(f"measured before a change of the code, in whole or in part: {', '.join(old)}")


if __name__ == "__main__":
    main()

"""Write the figures of the texts anew from `benchmarks/results/*.json`, so that none stands by hand.

    python tools/write_figures.py            write them
    python tools/write_figures.py --check    say which differ, and which have no source; exit 1 where there are any

A figure of the README or of `docs/` stands between two comments, which no reader of the page sees:

    <!-- figure: FILE COLUMN KEY=VALUE ... as="{:.3} [{low:.2}, {high:.2}]" -->.724 [.69, .76]<!-- /figure -->

FILE is a benchmark's, KEY=VALUE name one of its rows, COLUMN is what is shown; `{low}` and `{high}` are the ends of its
interval, in the columns `COLUMN_low` and `COLUMN_high`, or `low` and `high` beside `value`. `.3` is a number of
decimals without the zero before them, `.1%` a percentage, `,.0f` and the like are Python's. `sum:COLUMN` adds up all
rows that are named. Without a row, `commit`, `machine` and `parts` tell of the whole file (`figure: FILE machine`).

What no committed result holds says where it is from, in the same paragraph or the same row of a table:
`<!-- measured: 0.1 -->` for what version 0.1 measured, `<!-- given: ... -->` for what is no measurement of ours (a
setting, a bound, an example, a sum on paper).
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
SHOWN = re.compile(r"<!-- figure: (?P<source>.*?) -->(?P<text>.*?)<!-- /figure -->", re.DOTALL)
ELSEWHERE = re.compile(r"<!-- (?:measured|given): \S.*? -->")
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
UNITS = "%|µs|ms|s|[kMG]B|seconds|minutes|hours|times|(?:[a-z]+ )?(?:a|per) second"
FIGURE = re.compile(rf"(?<![\w.])(?<!\w-)(?:\d*\.\d+(?!\w|\.\d)|\d[\d,.]* (?:{UNITS})(?!\w))")
NO_FIGURE = re.compile(
    r"(?i)`[^`]*`|\]\([^)]*\)|(?:sections?|version) \d+(?:\.\d+)+|p < \.\d+"
    r"|intervals are 95 %|\d\d % (?:intervals?|bands?|confidence)|(?:middle|bands of) \d\d %"
)
"""What looks like a figure and is none: code, links, numbers of sections and versions, levels of intervals."""
OF_FILE = {"commit", "machine", "parts"}


class WrongFigure(Exception):
    """A figure whose source cannot be found; the message names both."""


class Number(float):
    """A number that is written as the texts write numbers."""

    def __format__(self, form: str) -> str:
        if form.endswith("%"):
            return f"{100 * self:{form[:-1] or '.0'}f} %"
        if re.fullmatch(r"\.\d+", form):
            return f"{float(self):{form}f}".replace("0.", ".", 1) if abs(self) < 1 else f"{float(self):{form}f}"
        return format(float(self), form)


def texts() -> list[Path]:
    """Every text that may have figures."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@cache
def results_of(benchmark: str) -> dict[str, Any]:
    """What a benchmark wrote.

    Raises:
        WrongFigure: There is no such file.
    """
    path = RESULTS / f"{benchmark}.json"
    if not path.is_file():
        there = ", ".join(sorted(each.stem for each in RESULTS.glob("*.json")))
        raise WrongFigure(f"no results of {benchmark!r}; there are: {there}")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def told(found: Mapping[str, Any], what: str) -> str:
    """Which code a benchmark measured, on which machine, and whether all of it."""
    if what == "machine":
        about = "{processor}, {cores} cores, {gigabytes} GB, Python {python}, load {load:.1f}"
        return about.format(**found["machine"]).replace("(R)", "")
    if what == "commit":
        return str(found["commit"])
    parts = (found.get("only") or "all").replace(",", ", ")
    return f"{parts}; a short run" if found["quick"] else parts


def figure(source: str) -> str:
    """The text of a figure, by what stands in its comment.

    Raises:
        WrongFigure: Its words are off, its row is none or several, or it has no such column.
    """
    benchmark, column, *rest = shlex.split(source)
    wanted = dict(each.split("=", 1) for each in rest)
    form = wanted.pop("as", "{:.3}")
    if column in OF_FILE and not wanted:
        return told(results_of(benchmark), column)
    rows = [
        row for row in results_of(benchmark)["rows"] if all(str(row.get(key)) == value for key, value in wanted.items())
    ]
    if column.startswith("sum:"):
        parts = [row.get(column.removeprefix("sum:")) for row in rows]
        if None in parts or not parts:
            raise WrongFigure(f"{len(rows)} rows, {parts.count(None)} of them without a figure: {source}")
        return form.format(Number(sum(parts)))
    if len(rows) != 1 or rows[0].get(column) is None:
        what = f"{len(rows)} rows" if len(rows) != 1 else f"no {column!r}"
        raise WrongFigure(f"{what} in {benchmark!r} where {wanted}: {source}")
    begin = "" if column == "value" else f"{column}_"
    ends = {end: Number(at) for end in ("low", "high") if (at := rows[0].get(f"{begin}{end}")) is not None}
    return form.format(Number(rows[0][column]), **ends)


def written(text: str) -> str:
    """A text with every figure as its source has it now."""
    return SHOWN.sub(lambda m: f"<!-- figure: {m['source']} -->{figure(m['source'])}<!-- /figure -->", text)


def unsourced(text: str) -> Iterator[str]:
    """Rows of tables, and paragraphs, with a figure that has no source and does not say where else it is from."""
    for block in re.split(r"\n\s*\n", FENCED.sub("", text)):
        for part in block.splitlines() if block.lstrip().startswith("|") else [block]:
            bare = NO_FIGURE.sub("", SHOWN.sub("", part).replace("\n", " "))
            if not ELSEWHERE.search(part) and (found := FIGURE.search(bare)):
                yield f"{found[0]!r} in: {' '.join(bare.split())[:100]}"


def pages() -> Iterator[tuple[str, str]]:
    """The texts whose figures need a source: all but what is generated, and decisions, which are of their day."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        if path.name != "commands.md":
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def main() -> None:
    """Write, or check."""
    wrong: list[str] = []
    for path in texts():
        before = path.read_text(encoding="utf-8")
        name = path.relative_to(ROOT).as_posix()
        try:
            after = written(before)
        except WrongFigure as error:
            sys.exit(f"{name}: {error}")
        if after != before and "--check" in sys.argv:
            wrong += [
                f"{name}: {was['text']!r} stands where {now['text']!r} was measured"
                for was, now in zip(SHOWN.finditer(before), SHOWN.finditer(after), strict=True)
                if was["text"] != now["text"]
            ]
        elif after != before:
            path.write_text(after, encoding="utf-8")
            print(f"wrote {name}")
    wrong += [f"{name}: no source for {each}" for name, part in pages() for each in unsourced(part)]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()

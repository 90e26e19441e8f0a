"""One value per figure: the surfaces of a project with all traps, and the code lines of what shows figures.

    python benchmarks/one_figure.py [--baseline COMMIT] [--only figures,said,lines] --json OUT

figures  each figure (`accord.results.DEFINITIONS`) that surfaces show as data: surfaces, sets, contradictions
said     quantities as a reader finds them in texts and pages: the numbers that surfaces state for one quantity
lines    code lines of the packages that show figures, without comments and docstrings

The project is `tests/trap_project.py`: two wordings, ratings given again in a study, a refit, repeated
cross-validations, new conversations, some of them unlike the training data. The surfaces are commands, their JSON,
pages, the report, the card, and the Markdown of the gate. A baseline has no figures as data, so its parts are `said`
and `lines`. `--quick` counts lines alone.
"""

from __future__ import annotations

import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness import Row, checkout, chosen, finish, options

ROOT = Path(__file__).parents[1]
PACKAGES = ("cli", "report", "web", "board", "validation", "decisions", "results", "studies", "project", "values")
COLUMNS = ["part", "what", "surfaces", "values", "said", "baseline_values", "baseline_said", "lines", "baseline_lines"]
PARTS = ("figures", "said", "lines")
WRITE = """
import json, pathlib, sys
import trap_project
folder = pathlib.Path(sys.argv[1])
trap_project.build(folder)
with trap_project.surfaces(folder) as shown:
    print(json.dumps(shown))
"""


def main() -> None:
    parser = options("one_figure", "Values of each figure on all surfaces of a project.", PARTS)
    parser.add_argument("--baseline", metavar="COMMIT", help="commit whose surfaces and lines are counted too")
    given = parser.parse_args()
    parts = chosen(parser, given.only or ("lines" if given.quick else None), PARTS)
    shown = surfaces_of(ROOT) if {"figures", "said"} & set(parts) else {}
    rows: list[Row] = []
    if "figures" in parts:
        rows += figure_rows(shown)
    said = {"said": said_rows(shown)} if "said" in parts else {}
    lines = {"lines": line_rows(ROOT)} if "lines" in parts else {}
    if given.baseline:
        with checkout(given.baseline) as folder:
            if said:
                before = {row["what"]: row for row in said_rows(surfaces_of(folder))}
                for row in said["said"]:
                    known = before.get(row["what"], {"values": None, "said": ""})
                    row |= {"baseline_values": known["values"], "baseline_said": known["said"]}
            if lines:
                counts = {row["what"]: row["lines"] for row in line_rows(folder)}
                for row in lines["lines"]:
                    row["baseline_lines"] = counts.get(row["what"], 0)
    finish("one_figure", [*rows, *said.get("said", ()), *lines.get("lines", ())], COLUMNS, given.json)


def surfaces_of(checkout_: Path) -> dict[str, Any]:
    """Return the surfaces of the trap project that the code of a checkout makes."""
    tests = checkout_ / "tests"
    with tempfile.TemporaryDirectory() as name:
        helpers = Path(name, "helpers")
        helpers.mkdir()
        shutil.copy(ROOT / "tests" / "trap_project.py", helpers)
        Path(name, "project").mkdir()
        paths = (helpers, tests, checkout_ / "src", checkout_ / "packages" / "accord-papers" / "src")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        command = [sys.executable, "-c", WRITE, str(Path(name, "project"))]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            raise SystemExit(f"the project of {checkout_.name} was not made:\n{done.stderr[-2000:]}")
        return dict(json.loads(done.stdout.splitlines()[-1]))


# --- figures ----------------------------------------------------------------------------------------------------------


def figure_rows(shown: Mapping[str, Any]) -> list[Row]:
    """Return a row per figure: surfaces that show it, and its contradictions."""
    sys.path.insert(0, str(ROOT / "tests"))
    from trap_project import contradictions, figures_on

    every = [figure for name, content in shown.items() for figure in figures_on(name, content)]
    wrong = contradictions(every)
    rows: list[Row] = []
    for name in sorted({each.figure.partition(":")[0] for each in every}):
        own = [each for each in every if each.figure.partition(":")[0] == name]
        sets = {(each.figure, each.about, each.of) for each in own}
        values = {(*key, *found) for key in sets for found in wrong.get(key, ())}
        rows.append({"part": "figures", "what": name, "surfaces": len({each.surface for each in own}),
                     "values": len(sets) + len(values) - len(sets & wrong.keys()), "said": f"{len(sets)} sets, "
                     f"{len(sets & wrong.keys())} with several values"})  # fmt: skip
    rows.append({"part": "figures", "what": "all", "surfaces": len({each.surface for each in every}),
                 "values": len(every), "said": f"{len(wrong)} contradictions"})  # fmt: skip
    return rows


# --- numbers as a reader finds them -----------------------------------------------------------------------------------


def text_of(content: Any) -> str:
    """Return what a reader sees of a page or a text."""
    if not isinstance(content, str):
        return ""
    if content.lstrip().startswith("<"):
        content = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", content, flags=re.DOTALL)
        content = html.unescape(re.sub(r"<[^>]+>", " ", content))
    return re.sub(r"[ \t]+", " ", content)


def two(text: str) -> str:
    """Return a number with two decimals and a sign that is typed."""
    return f"{float(text.replace('−', '-').replace(',', '').rstrip('%')):.2f}"


def share(text: str) -> str:
    """Return a share in percent."""
    value = float(text.rstrip("%"))
    return f"{value if text.endswith('%') or value > 1 else 100 * value:.0f}%"


def whole(text: str) -> str:
    """Return a count."""
    return text.replace(",", "")


SAID: Mapping[str, tuple[Callable[[str], str], Mapping[str, str]]] = {
    "typical error of the evaluator in use": (two, {
        "page /": r"typical error ([\d.]+)",
        "report.txt": r"typically miss a person's rating by ([\d.]+)",
        "report.html": r"\bdefault\s+([\d.]+) \[",
        "card.md": r"(?:typically miss a person's rating by|\| Satisfaction \| 444 \|) ([\d.]+)",
        "compare.txt": r"(?m)^default +444 +([\d.]+)|^default \*? +([\d.]+)",
    }),
    "scores within one point": (share, {
        "page /evaluators": r"([\d.]+%) of scores, rounded", "report.html": r"([\d.]+%)\s*of scores, rounded",
        "card.md": r"\| Satisfaction \| 444 \| [^|]+\| ([\d.]+%?)",
    }),
    "ratings of the main question": (whole, {
        "page /": r"([\d,]+) ratings by", "page /evaluators": r"([\d,]+) ratings by",
        "report.html": r"([\d,]+) ratings by", "card.md": r"\| Satisfaction \| ([\d,]+) \|",
        "compare.txt": r"([\d,]+) ratings by",
        "page / (wordings)": r"(\d+) labels of 'Satisfaction' answer the present wording, (\d+) an earlier one",
    }),
    "difference of assistant-b and assistant-a by people": (two, {
        "page /board?answers=given": r"People rate assistant-b lowest[^;]*?, by ([\d.]+) points"
        r"|assistant-b and assistant-a \(([\d.]+),|assistant-b ([\d.]+) points lower",
    }),
    "items on which two people are two or more points apart": (whole, {
        "page /": r"disagree on (\d+) item", "page /lead": r"(\d+) disputed items",
        "page /lead/look": r"Discuss (\d+) ", "page /lead/look/disagree": r"disagree on (\d+) item",
    }),
    "new scored conversations": (whole, {
        "page /board": r"(\d+) (?:new )?conversations mean", "page /board/list": r"^\s*(\d+) conversations",
        "report.html": r"(\d+) targets scored|New conversations.{0,200}?(\d+) new conversations",
    }),
    "answers of the blind test about conversations that were not learned from": (whole, {
        "page /lead/look": r"(\d+) answers predicted before|(\d+) answers about \d+ conversations that it",
    }),
}  # fmt: skip
"""Quantities: how a number is written, and where surfaces state it."""
WORDS = {
    "surfaces with “worst 10%” or “bottom 10%”": r"(?:worst|bottom) 10%",
    "surfaces where scores are “rated”": r"assistant-\w is rated",
    "surfaces that state how many new conversations are unlike the training data": r"\d+ of [^.]{0,50}unlike",
}
"""Phrases: the number of surfaces that have them."""


def said_rows(shown: Mapping[str, Any]) -> list[Row]:
    """Return the numbers that surfaces state for each quantity, and the surfaces with certain phrases."""
    texts = {name: text_of(content) for name, content in shown.items()}
    rows: list[Row] = []
    for what, (written, places) in SAID.items():
        found: dict[str, list[str]] = {}
        for place, pattern in places.items():
            surface = place.partition(" (")[0]
            for match in re.finditer(pattern, texts.get(surface, ""), re.DOTALL):
                groups = [group for group in match.groups() if group]
                value = str(sum(map(int, groups))) if len(groups) > 1 else written(groups[0])
                found.setdefault(value, []).append(place)
        surfaces = {each for names in found.values() for each in names}
        rows.append({"part": "said", "what": what, "surfaces": len(surfaces), "values": len(found),
                     "said": ", ".join(sorted(found))})  # fmt: skip
    for what, pattern in WORDS.items():
        names = [name for name, text in texts.items() if re.search(pattern, text)]
        rows.append({"part": "said", "what": what, "surfaces": len(names), "values": None, "said": ", ".join(names)})
    return rows


# --- code lines -------------------------------------------------------------------------------------------------------


def line_rows(root: Path) -> list[Row]:
    """Return the code lines of each package, and of the text functions of the command line."""
    counts = {name: sum(map(code_lines, (root / "src" / "accord" / name).rglob("*.py"))) for name in PACKAGES}
    return [
        {"part": "lines", "what": name, "lines": count}
        for name, count in [*counts.items(), ("all", sum(counts.values()))]
    ]


def code_lines(path: Path) -> int:
    """Return the number of lines with code, without comments and docstrings."""
    return len({line for start, end in _code(path) for line in range(start, end + 1)})


def _code(path: Path) -> Iterator[tuple[int, int]]:
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
               tokenize.ENDMARKER)  # fmt: skip
    is_first = True
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            is_first = True
        if token.type in skipped:
            continue
        if not (is_first and token.type == tokenize.STRING):
            yield token.start[0], token.end[0]
        is_first = False


if __name__ == "__main__":
    main()

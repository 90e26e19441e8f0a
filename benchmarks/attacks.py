"""Hostile files, replies, requests, texts and stores: the tests with the marker `attack`, counted by file.

    python benchmarks/attacks.py [--quick] --json OUT

`fell` counts failed tests; their names are printed, and in the rows. `--quick` leaves the slow tests out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from harness import Row, finish, options

TESTS = Path(__file__).parents[1] / "tests"


def main() -> None:
    given = options("attacks", "Hostile input: the tests that try it.").parse_args()
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        marks = "attack and not slow" if given.quick else "attack"
        files = [str(path) for path in sorted(TESTS.glob("test_*.py")) if "mark.attack" in path.read_text("utf-8")]
        command = [sys.executable, "-m", "pytest", "-q", "-m", marks, f"--junit-xml={report}", *files]
        subprocess.run(command, cwd=TESTS.parent, stdout=sys.stderr, check=False)
        cases = list(ElementTree.parse(report).iter("testcase"))
    for case in cases:
        what = str(case.get("classname")).rpartition(".")[2]
        row = rows.setdefault(what, {"what": what, "tried": 0, "fell": 0, "seconds": 0.0, "cases": []})
        row["seconds"] += float(case.get("time", 0))
        row["tried"] += case.find("skipped") is None
        if case.find("failure") is not None or case.find("error") is not None:
            row["fell"] += 1
            row["cases"].append(case.get("name"))
    finish("attacks", list(rows.values()), ("what", "tried", "fell", "seconds"), given.json)
    if any(row["fell"] for row in rows.values()):
        sys.exit("\n".join(f"{row['what']}: {case}" for row in rows.values() for case in row["cases"]))


if __name__ == "__main__":
    main()

"""Cost of the development loop: processor time and wall time of the tests, compared with an earlier commit.

    python benchmarks/loop.py [--baseline COMMIT] [--only quick,slow,change] [--quick] --json OUT

quick   all quick tests (`make check ALL=1` without the linters)
slow    all slow tests (`make slow`)
change  tests that `make check` runs after a change of one function of one file, by `CHANGED`, after a run of all

Each part runs for the baseline and for the working tree, one after the other, in a checkout of its own. A baseline
without the plug-in `tests/processor_time.py` gets the present one, so that both are measured in the same way; the
baseline has no part `change`, since its `make check` runs all quick tests. `dearest` is the share of processor time of
the dearest 5% of the tests. `--quick` runs the tests of the rubric alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness import Row, checkout, chosen, finish, options

ROOT = Path(__file__).parents[1]
CHANGED = ("board/density.py", "formats/roles.py", "statistics/agreement.py", "learning/baselines.py")
"""Files of `src/accord` in which one function changes, in turn."""
COLUMNS = ["what", "tests", "processor", "wall", "dearest", "baseline_tests", "baseline_processor", "baseline_wall"]
PARTS = ("quick", "slow", "change")
SELECTED = {"quick": "not slow", "slow": "slow"}


def main() -> None:
    parser = options("loop", "Processor time and wall time of the tests.", PARTS)
    parser.add_argument("--baseline", metavar="COMMIT", help="commit whose tests are measured too")
    given = parser.parse_args()
    files = ["tests/test_rubric.py"] if given.quick else []
    rows: dict[str, Row] = {part: {"what": part} for part in chosen(parser, given.only, PARTS)}
    if given.baseline:
        with checkout(given.baseline) as folder:
            for part in SELECTED.keys() & rows.keys():
                measured = run(folder, "-m", SELECTED[part], *files)
                rows[part] |= {f"baseline_{name}": value for name, value in measured.items()}
    for part in SELECTED.keys() & rows.keys():
        rows[part] |= run(ROOT, "-m", SELECTED[part], *files)
    if "change" in rows:
        del rows["change"]
        rows |= {str(row["what"]): row for row in changes(files)}
    finish("loop", list(rows.values()), COLUMNS, given.json)


def run(folder: Path, *arguments: str) -> Row:
    """Run tests of a checkout, and return their number, processor time and wall time in seconds."""
    tests = folder / "tests"
    plugins = [] if (folder / "conftest.py").exists() else ["-p", "processor_time"]
    if plugins:
        shutil.copy(ROOT / "tests" / "processor_time.py", tests)
    paths = [folder / "src", folder / "packages" / "accord-papers" / "src", tests]
    with tempfile.TemporaryDirectory() as temporary:
        times = Path(temporary) / "times.json"
        command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", *plugins, f"--times={times}", *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        subprocess.run(command, cwd=folder, env=environment, stdout=sys.stderr, check=False)
        found = json.loads(times.read_text(encoding="utf-8"))
    took = sorted(found["tests"].values(), reverse=True)
    dearest = sum(took[: max(1, len(took) // 20)]) / (sum(took) or 1)
    return {"tests": len(took), "processor": found["processor"], "wall": found["wall"], "dearest": dearest}


def changes(files: list[str]) -> Iterator[Row]:
    """Yield the cost of the tests that a change of one function selects, in a copy of the working tree."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "accord"
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, listed.split("\0")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
        select = ["--testmon", "--testmon-forceselect", "-m", "not slow and not repository", *files]
        yield {"what": "first run, which records the functions", **run(copy, *select)}
        for name in CHANGED:
            path = copy / "src" / "accord" / name
            text = path.read_text(encoding="utf-8")
            path.write_text(
                re.sub(r"(?m)^    return ", "    assert True\n    return ", text, count=1), encoding="utf-8"
            )
            yield {"what": f"change of {name}", **run(copy, *select)}


if __name__ == "__main__":
    main()

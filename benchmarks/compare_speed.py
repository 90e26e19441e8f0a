"""Time of the daily commands, from a store of ratings to a verdict, optionally compared with an earlier version.

    python benchmarks/compare_speed.py [--data ../shared/data] [--only sample,topical-usr] [--baseline SRC] --json OUT

sample         `accord compare` on the sample that ships with Accord: 507 ratings of 150 conversations; the median of
               five runs (`--quick`: one), each in a new project, and their `lowest_seconds`.
topical-usr    `accord compare` on Topical-USR's 1,080 overall ratings, with every evaluator that needs no model
               (`metrics: [bank]`).
report         `accord report` on the same, after that comparison.
planted-20000  `accord compare` on 20,000 planted ratings of 5,000 conversations by 60 annotators; `--quick`: 1,000.

Every row is one child process: `seconds` from its start to its end, `user_seconds` of processor time, and `megabytes`,
its peak resident memory plus that of each process that it starts. `--baseline SRC` runs the same with PYTHONPATH=SRC; a
command or setting that this version lacks gives a row without figures. `again_seconds` repeats the command without any
change.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness import Row, chosen, finish, options

import accord

PARTS = ("sample", "topical-usr", "report", "planted-20000")
SAMPLE_RUNS = 5
"""Number of runs of a command that takes seconds; a single run would measure other load on the machine."""
RATINGS, ANNOTATORS, PER_CONVERSATION = 20_000, 60, 4
_OVERALL = {
    "name": "overall", "main": "Overall",
    "questions": [{"id": "Overall", "text": "How good is the reply?", "scale": "ordinal",
                   "options": {1: "Very bad.", 2: "Bad.", 3: "Fair.", 4: "Good.", 5: "Very good."}}],
}  # fmt: skip
_SENTENCES = """the order has been sent and you will find it at the door tomorrow unless the weather keeps our driver
from the road please tell me which colour you would like best and whether the older model would do for your garden"""
_WORDS = tuple(_SENTENCES.split())


@dataclass(frozen=True)
class Ran:
    """One child process: its time, processor time and memory, and the reason if it failed."""

    seconds: float
    user_seconds: float
    megabytes: float
    error: str | None


def ran(source: Path, folder: Path, *arguments: str) -> Ran:
    """Run `python -m accord ARGUMENTS` of a version in a folder, measured by the operating system."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # the import before has compiled what is measured, as for a user
    start = time.perf_counter()
    with (folder / "stderr").open("wb") as complaints:
        child = subprocess.Popen(
            [sys.executable, "-m", "accord", *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL,
            stderr=complaints,
        )  # fmt: skip
        most: dict[str, int] = {}
        done = threading.Event()
        watch = threading.Thread(target=watched, args=(child.pid, most, done))
        watch.start()
        _, status, used = os.wait4(child.pid, 0)
        done.set()
        watch.join()
        child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    said = (folder / "stderr").read_text(errors="replace", encoding="utf-8").strip().splitlines()
    error = said[-1] if child.returncode and said else f"exit {child.returncode}" if child.returncode else None
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return Ran(seconds, used.ru_utime, (used.ru_maxrss * unit + sum(most.values())) / 1e6, error)


def watched(pid: int, most: dict[str, int], done: threading.Event) -> None:
    """Record the peak memory of each process that a process starts, five times a second, if /proc exists."""
    while not done.wait(0.2):
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                for child in (task / "children").read_text(encoding="utf-8").split():
                    lines = Path(f"/proc/{child}/status").read_text(encoding="utf-8").splitlines()
                    most[child] = next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def project(
    folder: Path, source: Path, metrics: str, files: Sequence[Path], rubric: bool, is_compared: bool = False
) -> str | None:
    """Make a project of some files in a folder with a version, or return the reason why it failed.

    With `is_compared`, a project that is there stays, and a new one is compared.
    """
    if is_compared and (folder / "accord.db").exists():
        return None
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if rubric:
        (folder / "rubric.yaml").write_text(json.dumps(_OVERALL), encoding="utf-8")  # JSON is YAML
    named = {"metrics": [metrics], **({"rubric": "rubric.yaml"} if rubric else {})}
    (folder / "accord.yaml").write_text(json.dumps(named), encoding="utf-8")
    error = ran(source, folder, "import", *map(str, files)).error
    return ran(source, folder, "compare").error if is_compared and error is None else error


def planted_files(folder: Path, ratings: int, annotators: int = ANNOTATORS, seed: int = 0) -> list[Path]:
    """Write conversations whose length and questions follow a planted quality, with ratings.

    Annotators differ in level.
    """
    rng = random.Random(seed)
    level = {f"p{i:02d}": rng.gauss(0, 0.6) for i in range(annotators)}
    chats, labels = folder / "chats.jsonl", folder / "labels.csv"
    with chats.open("w", encoding="utf-8") as out, labels.open("w", encoding="utf-8") as rows:
        rows.write("conversation,question,annotator,value\n")
        for place in range(ratings // PER_CONVERSATION):
            quality = rng.gauss(0, 1)
            words = rng.choices(_WORDS, k=max(3, round(20 + 8 * quality)))
            reply = " ".join(words) + ("?" if rng.random() < 0.5 - 0.2 * quality else ".")
            asked = f"Question {place}: " + " ".join(rng.choices(_WORDS, k=12)) + "?"
            messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": reply}]
            row = {"id": f"c{place:05d}", "messages": messages, "system": f"bot-{place % 3}"}
            out.write(json.dumps(row) + "\n")
            for name in rng.sample(sorted(level), PER_CONVERSATION):
                value = min(5, max(1, round(3 + quality + level[name] + rng.gauss(0, 0.7))))
                rows.write(f"c{place:05d},Overall,{name},{value}\n")
    return [chats, labels]


def rows_of(
    what: str, system: str, source: Path, make: Callable[[Path], str | None], folder: Path, times: int = 1
) -> Row:
    """Return one row: make the project and run the command twice, `times` times; the run with the median time."""
    verb = "report" if what == "report" else "compare"
    row: Row = {"what": what, "system": system, "seconds": None, "user_seconds": None, "megabytes": None}
    both: list[tuple[Ran, Ran]] = []
    for _ in range(times):
        error = make(folder)
        first = None if error is not None else ran(source, folder, verb)
        if first is None or first.error is not None:
            return {**row, "note": f"no figure: {error or (first and first.error)}"}
        both.append((first, ran(source, folder, verb)))
    both.sort(key=lambda one: one[0].seconds)
    first, again = both[times // 2]
    figures = {"seconds": first.seconds, "user_seconds": first.user_seconds, "megabytes": first.megabytes}
    lowest = {"lowest_seconds": both[0][0].seconds, "runs": times}
    return {**row, **figures, "again_seconds": again.seconds, **lowest, "note": ""}


def main() -> None:
    """Run the benchmark."""
    parser = options("compare_speed", __doc__ or "", PARTS)
    parser.add_argument("--baseline", type=Path, metavar="SRC", help="the src folder of an earlier version")
    given = parser.parse_args()
    own = Path(accord.__file__).parents[1]
    versions = {"accord": own, **({} if given.baseline is None else {"baseline": given.baseline.resolve()})}
    sample = own / "accord" / "sample"
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        files = {
            "sample": [sample / "conversations.jsonl", sample / "ratings.csv"],
            "topical-usr": [given.data / "topical_usr"],
            "planted-20000": planted_files(scratch, RATINGS // 20 if given.quick else RATINGS),
        }
        for what in chosen(parser, given.only, PARTS):
            if what in {"topical-usr", "report"} and not (given.data / "topical_usr").is_dir():
                print(f"{what}: no data at {given.data / 'topical_usr'}", file=sys.stderr)
                continue
            for system, source in versions.items():
                kind = "topical-usr" if what == "report" else what
                folder = scratch / f"{kind}-{system}"

                metrics = "bank" if kind == "topical-usr" else "lexical"
                make = partial(
                    project, source=source, metrics=metrics, files=files[kind], rubric=kind != "sample",
                    is_compared=what == "report",
                )  # fmt: skip
                times = SAMPLE_RUNS if what == "sample" and not given.quick else 1
                rows.append(rows_of(what, system, source, make, folder, times))
    columns = [
        "what", "system", "seconds", "lowest_seconds", "runs", "user_seconds", "again_seconds", "megabytes", "note",
    ]  # fmt: skip
    finish("compare_speed", rows, columns, given.json)


if __name__ == "__main__":
    main()

"""`accord follow` on a log that is rotated under it: which lines were scored twice, which never.

    python benchmarks/follow.py [--only renamed,packed,copied] [--quick] --json OUT

One process writes 100 replies a second to a log and rotates it every 0.5, 1, 3 and 8 seconds as logrotate does, older
files making room for `.1`: by renaming (`create`), the same with gzip at once (`compress`), or by copying it and
cutting it short (`copytruncate`) while it goes on writing. Beside it run, each in a process of its own:

- `running`: `accord follow`, until all is written;
- `once`: `accord follow --once` again and again, several rotations between two runs;
- `killed`: as `running`, but ended with SIGKILL a second after its first row, and started again; `--once` at the end;
- `tail -F`: the baseline, which writes the lines it is given to a file.

`lost` are replies without a row, `twice` rows beyond the first of a reply. `nowhere` counts replies that no file holds
any more when all is over, since they were written between a copy and the cut: nobody who reads files later can find
them. `said` are the lines in which `accord follow` says that something is lost, `codes` its exit codes.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event, Thread

from harness import Row, chosen, finish, options, table
from live_scoring import fitted

PARTS = ("renamed", "packed", "copied")
EVERY = (0.5, 1.0, 3.0, 8.0)
"""Seconds between rotations."""
PER_SECOND = 100
KILLED = 1.0
"""Seconds between the first row of a process and its end."""

COLUMNS = ["system", "way", "how", "every", "rotations", "kills", "lines", "nowhere", "lost", "twice", "said", "codes"]

WRITER = """
import gzip, json, os, shutil, sys, threading, time
from pathlib import Path
log, how, every, seconds, per_second = Path(sys.argv[1]), sys.argv[2], *map(float, sys.argv[3:])

def opened():
    return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def shift():
    numbers = sorted((int(path.name.split(".")[2]), path) for path in log.parent.glob("log.jsonl.*[0-9z]"))
    for number, path in reversed(numbers):
        path.rename(log.parent / path.name.replace(f".{number}", f".{number + 1}"))

def packed(path):
    ready = path.with_name(path.name + ".gz")
    with path.open("rb") as plain, gzip.open(ready, "wb") as file:
        shutil.copyfileobj(plain, file)
    shutil.copystat(path, ready)
    path.unlink()

def rotate():
    global number
    shift()
    first = log.parent / "log.jsonl.1"
    if how == "copied":
        shutil.copyfile(log, first)
        os.truncate(log, 0)
    else:
        log.rename(first)
        before, number = number, opened()
        time.sleep(0.02)
        os.close(before)
    if how == "packed":
        packed(first)

def rotations():
    while not over.wait(every):
        rotate()

number, said, over, start = opened(), 0, threading.Event(), time.monotonic()
rotating = threading.Thread(target=rotations)
rotating.start()
while time.monotonic() - start < seconds:
    row = {"conversation": str(said), "role": "assistant", "content": f"We open at {said % 24}."}
    line, done = (json.dumps(row) + "\\n").encode(), False
    while not done:
        try:
            done = os.write(number, line) == len(line)
        except OSError:  # closed between the rename and this write
            pass
    said += 1
    time.sleep(max(start + said / per_second - time.monotonic(), 0))
over.set()
rotating.join()
print(said)
"""


class Reader:
    """One way to follow the log, in processes of its own."""

    def __init__(self, way: str, log: Path, evaluator: Path, folder: Path) -> None:
        self.way, self.log, self.rows, self.folder = way, log, folder / "rows.jsonl", folder
        folder.mkdir()
        self.errors = (folder / "errors").open("w")
        self.codes: Counter[int] = Counter()
        self.kills = 0
        follow = [sys.executable, "-m", "accord", "follow", str(log), "--out", "rows.jsonl"]
        self.command = [*follow, "--evaluator", str(evaluator), "--no-watch"]
        self.running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start a process that goes on until it is stopped."""
        if self.way == "tail -F":
            with self.rows.open("ab") as out:
                command = ["tail", "-n", "+1", "-F", str(self.log)]
                self.running = subprocess.Popen(command, stdout=out, stderr=self.errors)
        else:
            self.running = subprocess.Popen(self.command, cwd=self.folder, stdout=self.errors, stderr=self.errors)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, and note its exit code where it ended by itself."""
        if self.running is not None:
            self.running.send_signal(how)
            code = self.running.wait()
            if how != signal.SIGKILL and self.way != "tail -F":
                self.codes[code] += 1

    def once(self) -> None:
        """Read to the present end."""
        done = subprocess.run([*self.command, "--once"], cwd=self.folder, stdout=self.errors, stderr=self.errors)
        self.codes[done.returncode] += 1

    def follow(self, over: Event, every: float) -> None:
        """Follow until the writer is done."""
        if self.way == "once":
            while not over.wait(3.2 * every):
                self.once()
            self.once()
            return
        self.start()
        while self.way == "killed" and not over.is_set():
            self._until_rows(over)
            if not over.wait(KILLED):
                self.stop(signal.SIGKILL)
                self.kills += 1
                self.start()
        over.wait()
        if self.way == "killed":
            self.stop(signal.SIGKILL)
            self.once()  # it has to find by itself what is left
            return
        self.settle()
        self.stop()

    def _until_rows(self, over: Event) -> None:
        before = self._size()
        while self._size() == before and not over.wait(0.05):
            pass

    def _size(self) -> int:
        return self.rows.stat().st_size if self.rows.exists() else 0

    def settle(self) -> None:
        """Wait until nothing more comes."""
        size, quiet = -1, 0
        while quiet < 20 or size == 0:
            time.sleep(0.5)
            now = self._size()
            size, quiet = now, quiet + 1 if now == size else 0

    def found(self) -> Counter[int]:
        """How many rows each reply has."""
        return Counter(numbers(self.rows.read_bytes()))

    def said(self) -> int:
        """In how many lines it says that something is lost."""
        lines = (self.folder / "errors").read_text(encoding="utf-8").splitlines()
        return sum(line.startswith("note: ") and "waiting" not in line for line in lines)


def numbers(content: bytes) -> Iterator[int]:
    """The replies that some lines are of."""
    for line in content.splitlines():
        try:
            yield int(json.loads(line)["conversation"])
        except (ValueError, KeyError, TypeError):
            continue


def held(folder: Path) -> set[int]:
    """The replies that the log and its rotated files hold in the end."""
    found: set[int] = set()
    for path in folder.glob("log.jsonl*"):
        found |= set(numbers(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()))
    return found


def measured(how: str, every: float, seconds: float, evaluator: Path) -> list[Row]:
    """One log rotated in one way, read in all ways at once."""
    ways = ["running", "once", "killed", *(["tail -F"] if shutil.which("tail") else [])]
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "log" / "log.jsonl"
        log.parent.mkdir()
        log.touch()
        over = Event()
        readers = [Reader(way, log, evaluator, Path(name) / way.replace(" ", "")) for way in ways]
        for reader in readers:
            if reader.way != "tail -F":
                reader.once()  # what is rotated before the log is first read is none of it
        threads = [Thread(target=reader.follow, args=(over, every)) for reader in readers]
        for thread in threads:
            thread.start()
        command = [sys.executable, "-c", WRITER, str(log), how, str(every), str(seconds), str(PER_SECOND)]
        written = int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        over.set()
        for thread in threads:
            thread.join()
        there, files = held(log.parent), len(list(log.parent.glob("log.jsonl.*")))
        rows: list[Row] = []
        for reader in readers:
            found = reader.found()
            reader.errors.close()
            is_ours = reader.way != "tail -F"
            rows.append({
                "system": "accord follow" if is_ours else reader.way, "way": reader.way, "how": how, "every": every,
                "kills": reader.kills, "rotations": files, "lines": written, "nowhere": written - len(there),
                "lost": written - len(found.keys() & set(range(written))), "twice": found.total() - len(found),
                "said": reader.said() if is_ours else None,
                "codes": " ".join(f"{code}×{count}" for code, count in sorted(reader.codes.items())) or None,
            })  # fmt: skip
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options("follow", "Which lines of a log that is rotated are scored twice, and which never.", PARTS)
    given = parser.parse_args(arguments)
    wanted = chosen(parser, given.only, PARTS)
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = "1"
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        fitted().save(Path(name) / "mixture")
        for how in wanted:
            for every in EVERY[1:2] if given.quick else EVERY[: given.limit]:
                seconds = 6.0 if given.quick else max(16.0, 3.5 * every)
                rows += measured(how, every, seconds, Path(name) / "mixture")
                print(table(rows[-4:], COLUMNS), file=sys.stderr)
    finish("follow", rows, COLUMNS, given.json)


if __name__ == "__main__":
    main()

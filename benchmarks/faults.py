"""Judging while servers fail, processes are killed and stores die: no answer is lost or paid for twice.

    python benchmarks/faults.py [--quick] [--only killed,paid_twice,store_dies] --json OUT

Accord asks questions in several processes; the loopback server records which it answered correctly.

- `killed`: the server fails one request in five; the process is killed with SIGKILL three times and started again with
  the same command. A question is `doubled` if a later run asks it although its answer was stored before.
- `paid_twice`: two and four processes are started on one store at once, on SQLite and on PostgreSQL.
- `store_dies`: PostgreSQL is killed, or SQLite runs out of room (RLIMIT_FSIZE), in the middle of a run; then the store
  returns, and the same command continues. `kept` and `spooled` are counted in between; `lost` answers were correct and
  are in neither.

`repeated` counts questions with several correct answers: never more than were in progress at the failure.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any

from harness import DATABASES, QUESTIONS, RUBRIC, Row, chosen, database, finish, options
from misbehaving_endpoint import Misbehaving, answer_any

from accord.store import Store, check_store
from accord.testing import ChatServer
from accord.testing.server import Wire
from accord.values import load_rubric

KILLS = 3
AT_ONCE = 32
PARTS = ("killed", "paid_twice", "store_dies")
PROCESSES = (2, 4)
ROOM_BYTES = 400_000
"""Most bytes of a file in `store_dies` on SQLite, enough for a part of the answers."""
COLUMNS = (
    "what", "store", "processes", "asked", "answered", "kept", "spooled", "lost", "doubled", "repeated", "under_way",
    "requests", "kills", "runs", "seconds",
)  # fmt: skip

JUDGE = (
    RUBRIC
    + """
import sys
from accord import Project
from accord.project import config_from
from accord.edges import AccordError
judge = {"mode": "logprobs", "model": "m", "base_url": sys.argv[1], "concurrency": int(sys.argv[4]), "attempts": 8}
chats = [Sample(Conversation(f"c{i}", (Turn("user", f"Is it {i}?"), Turn("assistant", "Yes."))))
         for i in range(int(sys.argv[3]))]
config = config_from({"store": sys.argv[2], "models": {"judge": {**judge, "timeout": 2.0}}})
try:
    with Project(config, rubric) as project:
        project.measure([project.source("rubric")], chats, project.models)
except AccordError as error:
    sys.exit(f"accord: {error}")
"""
)


class Noting:
    """A misbehaving server that records every question and those that it answered correctly."""

    def __init__(self, share: float = 0.2) -> None:
        self.asked: list[str] = []
        self.well: Counter[str] = Counter()
        self.misbehaving = Misbehaving(self._well, share=share)
        self._lock = Lock()

    def _well(self, request: Mapping[str, Any]) -> Wire:
        return answer_any(request)

    def __call__(self, request: Mapping[str, Any]) -> Wire:
        """Return and record an answer, correct or faulty."""
        question = asked_in(request["messages"][0]["content"])
        wire = self.misbehaving(request)
        with self._lock:
            self.asked.append(question)
            if wire.body == self._well(request).body and not wire.after and wire.close_after is None:
                self.well[question] += 1
        return wire

    @property
    def repeated(self) -> int:
        """Number of correct answers to questions with an earlier correct answer."""
        return sum(count - 1 for count in self.well.values())


def asked_in(prompt: str) -> str:
    """Return the number of the conversation and the text of the question in a prompt."""
    number = re.search(r"Is it (\d+)\?", prompt)
    words = re.search(r"^Question: (.*)$", prompt, re.MULTILINE)
    assert number is not None and words is not None
    return f"c{number[1]} {words[1]}"


class Judging:
    """The command under test, which judges a number of conversations into a store."""

    def __init__(self, server: ChatServer, store: str, conversations: int, folder: Path) -> None:
        self.store, self.asked = store, conversations * QUESTIONS
        self._command = [sys.executable, "-c", JUDGE, server.url, store, str(conversations), str(AT_ONCE)]
        state = {"XDG_STATE_HOME": str(folder / "state"), "PYTHONUNBUFFERED": "1"}
        self._environment = {**os.environ, "OPENAI_API_KEY": "k", **state}
        self._folder = folder

    def start(self, room: int | None = None) -> subprocess.Popen[str]:
        """Start the command; `room` is the most bytes of a file."""

        def limit() -> None:
            if room is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))

        about: dict[str, Any] = {"env": self._environment, "cwd": self._folder, "text": True, "stderr": subprocess.PIPE}
        return subprocess.Popen(self._command, preexec_fn=limit, **about)

    def finish(self, runs: int, most: int) -> int:
        """Run the command until all questions are answered; return the number of runs."""
        # Refusals and answers of another request are final for a run; the same command asks for them again.
        while len(self.kept()) < self.asked and runs < most:
            running = self.start()
            _, errors = running.communicate()
            if running.returncode:
                sys.exit(errors)
            runs += 1
        return runs

    def kept(self) -> set[str]:
        """Return the questions with a stored answer."""
        if self.store.startswith("sqlite") and not Path(self.store.removeprefix("sqlite:///")).exists():
            return set()
        with closing(Store(self.store)) as store:
            return {f"{conversation} {TEXTS[question]}" for conversation, question in store.answered()}

    def until(self, goal: int, running: subprocess.Popen[str]) -> None:
        """Wait until the store has `count` answers, or the process has ended."""
        while running.poll() is None and len(self.kept()) < goal:
            time.sleep(0.05)


TEXTS = {question.id: question.text for question in load_rubric("llm-rubric").questions}


def killed(conversations: int) -> Iterator[Row]:
    """Kill one process several times."""
    noting, stored_at, start = Noting(), list[tuple[int, set[str]]](), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, ChatServer(noting) as server:
        judging = Judging(server, f"sqlite:///{folder}/faults.db", conversations, Path(folder))
        for kill in range(KILLS):
            running = judging.start()
            judging.until(judging.asked * (kill + 1) // (KILLS + 2), running)
            running.send_signal(signal.SIGKILL)
            running.communicate()
            before = len(noting.asked)
            stored_at.append((before, judging.kept()))
        runs = judging.finish(KILLS, KILLS + 10)
        answered = len(judging.kept())
    yield {
        "what": "faults",
        "store": "sqlite",
        "processes": 1,
        "asked": judging.asked,
        "answered": answered,
        "lost": judging.asked - answered,
        "doubled": sum(question in stored for before, stored in stored_at for question in noting.asked[before:]),
        "repeated": noting.repeated,
        "under_way": KILLS * AT_ONCE,
        "requests": len(noting.asked),
        "kills": KILLS,
        "runs": runs,
        "seconds": time.perf_counter() - start,
        "faults": dict(sorted(noting.misbehaving.met.items())),
    }


def paid_twice(conversations: int) -> Iterator[Row]:
    """Run several processes on one store."""
    for kind in DATABASES:
        for processes in PROCESSES:
            noting = Noting()
            with database(kind) as (url, folder, _), ChatServer(noting) as server:
                judging = Judging(server, url, conversations, folder)
                with closing(Store(url)):
                    start = time.perf_counter()
                running = [judging.start() for _ in range(processes)]
                for each in running:
                    _, errors = each.communicate()
                    if each.returncode:
                        sys.exit(errors)
                seconds = time.perf_counter() - start
                runs = judging.finish(processes, processes + 10)
                answered = len(judging.kept())
            yield {
                "what": "paid_twice",
                "store": kind,
                "processes": processes,
                "asked": judging.asked,
                "answered": answered,
                "lost": judging.asked - answered,
                "repeated": noting.repeated,
                "under_way": 0,
                "requests": len(noting.asked),
                "kills": 0,
                "runs": runs,
                "seconds": seconds,
            }


def store_dies(conversations: int) -> Iterator[Row]:
    """Remove the store in the middle of a run, and restore it."""
    for kind in DATABASES:
        noting, start = Noting(0.0), time.perf_counter()
        with database(kind) as (url, folder, cluster), ChatServer(noting) as server:
            judging = Judging(server, url, conversations, folder)
            Store(url).close()
            running = judging.start(ROOM_BYTES if cluster is None else None)
            if cluster is not None:
                judging.until(judging.asked // 3, running)
                cluster.kill()
            _, errors = running.communicate()
            print(f"{kind}: {errors.strip()}", file=sys.stderr)
            if running.returncode != 1 or "Traceback" in errors:
                sys.exit("the run did not end with one line")
            if cluster is not None:
                cluster.start()
            well, kept = set(noting.well), judging.kept()
            in_spool = sum(
                json.loads(line)["kind"] != "usage"
                for path in folder.rglob("*.unsaved/*.jsonl")
                for line in path.read_text(encoding="utf-8").splitlines()
            )
            runs = judging.finish(1, 11)
            answered, damage = len(judging.kept()), check_store(url).damage
            if damage:
                sys.exit(f"the store is damaged: {damage}")
            left = list(folder.rglob("*.unsaved"))
        yield {
            "what": "store_dies",
            "store": kind,
            "processes": 1,
            "asked": len(well),
            "answered": answered,
            "kept": len(kept & well),
            "spooled": in_spool,
            "lost": len(well) - len(kept & well) - in_spool,
            "repeated": noting.repeated,
            "under_way": AT_ONCE,
            "requests": len(noting.asked),
            "kills": 1,
            "runs": runs,
            "seconds": time.perf_counter() - start,
            "left": len(left),
        }


def main() -> None:
    parser = options("faults", "No answer lost and none paid for twice after failures.", PARTS)
    given = parser.parse_args()
    parts: dict[str, Callable[[int], Iterator[Row]]] = {
        "killed": killed, "paid_twice": paid_twice, "store_dies": store_dies,
    }  # fmt: skip
    if len(DATABASES) == 1:
        print("PostgreSQL is not on this machine: SQLite alone", file=sys.stderr)
    rows: list[Row] = []
    for part in chosen(parser, given.only, PARTS):
        questions = given.limit or (600 if given.quick else 10_000 if part == "killed" else 3_000)
        rows += parts[part](questions // QUESTIONS)
    finish("faults", rows, COLUMNS, given.json)
    for row in rows:
        if "faults" in row:
            print("faults met: " + ", ".join(f"{kind} {count}" for kind, count in row["faults"].items()))


if __name__ == "__main__":
    main()

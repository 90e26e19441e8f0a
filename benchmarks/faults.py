"""Judging against a server that fails one request in five, killed on the way and resumed: nothing lost, nothing twice.

    python benchmarks/faults.py [--quick] --json OUT

Questions are asked through Accord in a process that is killed with SIGKILL three times and started again with the same
command. After each kill the store is read; a question is `doubled` where a later run asks it although its answer was
stored then. `repeated` counts questions that were answered well and asked again because their answer was still on
its way to the store when the process died: at most the requests under way at a kill.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any

from harness import Row, finish, options

from accord.store import Store
from accord.testing import ChatServer, Misbehaving, Wire, answer_any
from accord.values import load_rubric

KILLS = 3
QUESTIONS = 9
AT_ONCE = 32

JUDGE = """
import sys
from accord import Conversation, Turn, load_rubric
from accord.project import Project, config_from
from accord.values import Sample
rubric = load_rubric("llm-rubric")
always = tuple(q.model_copy(update={"applies": "always"}) for q in rubric.questions)
rubric = rubric.model_copy(update={"questions": always})
judge = {"mode": "logprobs", "model": "m", "base_url": sys.argv[1], "at_once": int(sys.argv[4]), "attempts": 8}
samples = [Sample(Conversation(f"c{i}", (Turn("user", f"Is it {i}?"), Turn("assistant", "Yes."))))
           for i in range(int(sys.argv[3]))]
config = config_from({"store": f"sqlite:///{sys.argv[2]}", "models": {"judge": {**judge, "timeout": 2.0}}})
with Project(config, rubric) as project:
    project.measure([project.source("rubric")], samples, project.models)
"""


class Noting:
    """A misbehaving server that remembers every question it was asked, and which ones it answered well."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.well: Counter[str] = Counter()
        self.misbehaving = Misbehaving(self._well, share=0.2)
        self._lock = Lock()

    def _well(self, request: Mapping[str, Any]) -> Wire:
        return answer_any(request)

    def __call__(self, request: Mapping[str, Any]) -> Wire:
        """The answer, right or wrong, noted."""
        question = asked_in(request["messages"][0]["content"])
        wire = self.misbehaving(request)
        with self._lock:
            self.asked.append(question)
            if wire.body == self._well(request).body and not wire.after and wire.close_after is None:
                self.well[question] += 1
        return wire


def asked_in(prompt: str) -> str:
    """Which question of which conversation a prompt asks: the conversation's number, and the question's own words."""
    number = re.search(r"Is it (\d+)\?", prompt)
    words = re.search(r"^Question: (.*)$", prompt, re.MULTILINE)
    assert number is not None and words is not None
    return f"c{number[1]} {words[1]}"


def main() -> None:
    parser = options("faults", "Nothing lost and nothing paid twice, against a failing server and SIGKILL.")
    given = parser.parse_args()
    conversations = (given.limit or (600 if given.quick else 10_000)) // QUESTIONS
    asked = conversations * QUESTIONS
    noting = Noting()
    environment = {**os.environ, "OPENAI_API_KEY": "k"}
    text_of = {question.id: question.text for question in load_rubric("llm-rubric").questions}
    stored_at: list[tuple[int, set[str]]] = []
    doubled = 0
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, ChatServer(noting) as server:
        path = Path(folder) / "faults.db"
        command = [sys.executable, "-c", JUDGE, server.url, str(path), str(conversations), str(AT_ONCE)]
        for kill in range(KILLS):
            running = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
            goal = asked * (kill + 1) // (KILLS + 2)
            while running.poll() is None and kept(path) < goal:
                time.sleep(0.05)
            running.send_signal(signal.SIGKILL)
            running.communicate()
            stored = {f"{conversation} {text_of[question]}" for conversation, question in answered_in(path)}
            before = len(noting.asked)
            stored_at.append((before, stored))
        runs = KILLS
        # Refusals and answers of another request are final for a run; the same command asks for them again.
        while kept(path) < asked and runs < KILLS + 10:
            subprocess.run(command, env=environment, check=True, capture_output=True)
            runs += 1
        answered = kept(path)
    for before, stored in stored_at:
        doubled += sum(question in stored for question in noting.asked[before:])
    repeated = sum(count - 1 for count in noting.well.values())
    row: Row = {
        "what": "faults",
        "asked": asked,
        "answered": answered,
        "lost": asked - answered,
        "doubled": doubled,
        "repeated": repeated,
        "under_way": KILLS * AT_ONCE,
        "requests": len(noting.asked),
        "kills": KILLS,
        "runs": runs,
        "seconds": time.perf_counter() - start,
        "faults": dict(sorted(noting.misbehaving.met.items())),
    }
    columns = ["asked", "answered", "lost", "doubled", "repeated", "under_way", "requests", "kills", "runs", "seconds"]
    finish("faults", [row], columns, given.json)
    print("faults met: " + ", ".join(f"{kind} {count}" for kind, count in row["faults"].items()))


def kept(path: Path) -> int:
    """How many answers the store holds."""
    return len(answered_in(path))


def answered_in(path: Path) -> list[tuple[str, str]]:
    """The conversation and question of every answer that the store holds."""
    if not path.exists():
        return []
    with closing(Store(str(path))) as store:
        return store.answered()


if __name__ == "__main__":
    main()

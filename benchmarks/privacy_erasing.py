"""Rows of `privacy.py` about erasing: canaries in all places, and the time in a store of 100,000 conversations.

`canaries` fills a project by the real commands (`tests/planted_canary.py`) and counts the tables and files that hold a
text or ID of one conversation before and after `accord store erase`. `large` erases one of 100,000 conversations with
scores and labels, and compares with `accord store vacuum` on a copy, which writes the file anew in the same way.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from harness import Row

from accord import Project
from accord.project import Selection, erase
from accord.project.config import config_from
from accord.store import Store, vacuum
from accord.store.schema import metadata
from accord.testing import ChatServer
from accord.values import Conversation, Label, Target, Turn

WORDS = [f"word{number}" for number in range(4000)]


@contextmanager
def folder() -> Iterator[Path]:
    """Yield a temporary working folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="accord-erasing-") as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def places(project: Path) -> tuple[int, int]:
    """Return the numbers of tables and files with a canary."""
    import planted_canary

    with closing(Store(f"sqlite:///{project}/accord.db")) as store:
        marks = [mark.decode() for mark in planted_canary.MARKS]
        tables = [
            table for table in metadata.tables.values()
            if any(mark in str(tuple(row)) for row in store._stream(table.select()) for mark in marks)
        ]  # fmt: skip
    return len(tables), len(planted_canary.marks_in(project))


def canary_rows() -> Iterator[Row]:
    """Yield the numbers of places with a canary, before and after."""
    import planted_canary
    from commands import accord

    os.environ.setdefault("OPENAI_API_KEY", "sk-none")
    with folder() as made, ChatServer(planted_canary.answered) as server:
        project = made / "project"
        project.mkdir()
        os.chdir(project)
        planted_canary.fill(project, made, server.url, "sqlite:///accord.db")
        tables, files = places(project)
        before = planted_canary.others()
        accord("store", "erase", "--conversation", planted_canary.VICTIM, "--yes")
        left_tables, left_files = places(project)
        is_same = planted_canary.others() == before
    yield {
        "what": "canaries", "tables": tables, "files": files, "tables_after": left_tables, "files_after": left_files,
        "others_unchanged": is_same,
    }  # fmt: skip


def conversations(count: int) -> Iterator[Conversation]:
    """Yield conversations of six turns of 40 words."""
    rng = random.Random(0)
    for number in range(count):
        turns = [
            Turn("assistant" if turn % 2 else "user", " ".join(rng.choices(WORDS, k=40)), time="2026-03-01")
            for turn in range(6)
        ]
        yield Conversation(f"chat-{number:06}", tuple(turns), metadata={"user": f"user-{number}"})


def large_rows(count: int) -> Iterator[Row]:
    """Yield the seconds of erasing one conversation, and of rewriting the file alone."""
    with folder() as made:
        with Project(config_from({"store": "sqlite:///accord.db"})) as project:
            project.store.add_conversations(conversations(count))
            rated = (
                Label(Target(f"chat-{n:06}"), "Q0", by, n % 4 + 1) for n in range(count // 50) for by in ("a", "b")
            )
            project.store.add_labels(rated)
            rows = ({**_SCORE, "conversation": f"chat-{n:06}", "value": n % 4 + 1.0} for n in range(count))
            project.mart.add(rows)
        size = Path("accord.db").stat().st_size
        shutil.copyfile("accord.db", "copy.db")
        rewriting = _measured(lambda: vacuum(f"sqlite:///{made}/copy.db"))
        Path("copy.db").unlink()
        with Project(config_from({"store": "sqlite:///accord.db"})) as project:
            erasing = _measured(lambda: erase(project, Selection(conversations=("chat-000017",))))
            user = _measured(lambda: erase(project, Selection(users=("user-18",))))
    for what, (wall, processor) in {"vacuum": rewriting, "conversation": erasing, "user": user}.items():
        yield {
            "what": f"large: {what}", "conversations": count, "megabytes": size / 1e6, "seconds": wall,
            "cpu_seconds": processor,
        }  # fmt: skip


_SCORE: dict[str, Any] = {
    "turn": None, "question": "Q0", "annotator": "population", "evaluator": "default@1", "signature": "s",
    "is_main": True, "scored": 1_760_000_000_000, "origin": "batch", "run": "r",
}  # fmt: skip


def _measured(work: Callable[[], object]) -> tuple[float, float]:
    """Return the wall and the processor time of a call, in seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processor

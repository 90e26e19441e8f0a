"""Fixtures of scoring at scale: a small fitted evaluator in a folder, and files of conversations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
from synthetic_corpus import rated_chats

from accord.evidence import SourceContext, Training, make_source
from accord.learning import Evaluator, make_head
from accord.models import memory_models, run
from accord.values import Conversation, Label, Labels, Sample, Target


def saved(folder: Path, level: str = "conversation", head: str = "curves") -> Path:
    """Return the folder of an evaluator fitted to 40 planted chats with the metric bank."""
    chats, labels, rubric = rated_chats(40)
    samples = [Sample(chat, 1 if level == "turn" else None) for chat in chats]
    if level == "turn":
        labels = Labels(Label(Target(x.target.conversation, 1), x.question, x.annotator, x.value) for x in labels)
    bank = make_source("bank", {}, SourceContext(rubric))
    question = rubric.main_question
    made = Evaluator(question, (bank,), make_head(head, question, {}), "tried", head)
    run(made.fit(Training(tuple(samples), labels, question)), memory_models()).save(folder)
    return folder


def row_of(chat: Conversation) -> dict[str, Any]:
    return {"id": chat.id, "messages": [{"role": turn.role, "content": turn.content} for turn in chat.turns]}


def drawn(count: int, turns: int = 2) -> list[dict[str, Any]]:
    """Return rows of `openai-messages` with different conversations of `turns` messages."""
    chats, _, _ = rated_chats(40)
    texts = [[turn.content for turn in chat.turns] for chat in chats]
    return [
        {
            "id": f"c{number}",
            "messages": [
                {
                    "role": "user" if place % 2 == 0 else "assistant",
                    "content": f"{texts[(number + place) % 40][place % 2]} {number}",
                }
                for place in range(turns)
            ],
        }
        for number in range(count)
    ]


def jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def parquet(path: Path, rows: Sequence[dict[str, Any]], group: int = 50) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows).write_parquet(path, row_group_size=group)
    return path


def descendants(pid: int, name: str) -> list[int]:
    """Return the descendants of a process whose command line contains a name."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    found = []
    for child in parents:
        above: int | None = child
        while above is not None and above != pid:
            above = parents.get(above)
        with suppress(OSError):
            if above == pid and child != pid and name in Path(f"/proc/{child}/cmdline").read_bytes().decode():
                found.append(child)
    return found

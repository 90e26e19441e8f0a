"""A service with an evaluator of three questions, for clients of decision models."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from live_evaluator import replies, support_chats
from serving import TOKEN, running

from accord import Evaluator, LiveScorer, Project
from accord.live import make_app
from accord.live.ingest import Ingestor
from accord.live.service.service import Service
from accord.project import LiveConfig, load_project

RUBRIC = {
    "name": "support",
    "main": "useful",
    "questions": [
        {"id": "useful", "text": "Is it useful?", "options": {1: "of no use", 2: "", 3: "", 4: "very useful"}},
        {"id": "short", "text": "Is the reply short?", "scale": "binary", "options": [0, 1]},
        {"id": "detail", "text": "How much detail?", "options": [0, 0.5, 1]},
    ],
}
LEVELS = ["1: of no use", "2", "3", "4: very useful"]
CHAT = [
    {"role": "user", "content": "Can I return an opened router?"},
    {"role": "assistant", "content": "Yes, within 45 days of delivery."},
]


def fitted_project(folder: Path) -> Project:
    """Fit an evaluator of every question to replies that two annotators rated by their length."""
    chats = support_chats()[:30]
    samples = replies(*chats)
    with (folder / "chats.jsonl").open("w", encoding="utf-8") as out:
        for chat in chats:
            turns = [{"role": turn.role, "content": turn.content} for turn in chat.turns]
            out.write(json.dumps({"id": chat.id, "messages": turns}) + "\n")
    with (folder / "labels.csv").open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["conversation", "turn", "annotator", "useful", "short", "detail"])
        for sample in samples:
            length = len(sample.conversation.turns[sample.turn or 0].content)
            useful, short, detail = 1 + min(3, length // 60), int(length < 80), min(2, length // 100) / 2
            rows.writerows([sample.conversation.id, sample.turn, who, useful, short, detail] for who in ("ann", "bob"))
    (folder / "rubric.yaml").write_text(yaml.safe_dump(RUBRIC), encoding="utf-8")
    settings = {"rubric": "rubric.yaml", "store": f"sqlite:///{folder}/accord.db", "metrics": ["words-per-reply", "question-rate"], "folds": 3,
                "repeats": 1, "draws": 20, "curve_draws": 1, "evaluators": {"default": {"head": "mixed"}}}  # fmt: skip
    (folder / "accord.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    project = Project(load_project(folder / "accord.yaml"))
    project.import_([folder / "chats.jsonl", folder / "labels.csv"])
    project.fit(every_question=True)
    return project


@contextmanager
def served(evaluator: Evaluator, limits: LiveConfig | None = None, **more: Any) -> Iterator[int]:
    """Serve an evaluator, and yield the port."""
    service = Service(Ingestor(LiveScorer(evaluator, limits=limits)), **more)
    with running(make_app(service, TOKEN), lifespan="on") as port:
        yield port

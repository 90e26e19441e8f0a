"""Counts of work that do not depend on the machine: files opened, SQL statements, fitted models, requests."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from misbehaving_endpoint import answer_any
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.svm import SVR
from sklearn.tree import ExtraTreeRegressor
from small_sample import sources
from sqlalchemy import event
from sqlalchemy.engine import Engine

from accord import Project
from accord.learning import Calibration
from accord.project import Config, Workspace
from accord.testing import ChatServer

CHATS, LABELS = "chats.jsonl", "labels.csv"
_opened: Counter[str] = Counter()
_watched: list[str] = []


def _note_open(name: str, arguments: tuple[Any, ...]) -> None:
    if name == "open" and _watched and str(arguments[0]).startswith(_watched[0]):
        _opened[Path(str(arguments[0])).name] += 1


sys.addaudithook(_note_open)  # a hook cannot be removed; it counts only while a folder is watched


@contextmanager
def opened(folder: Path) -> Iterator[Counter[str]]:
    """Count how often each file of a folder is opened."""
    _opened.clear()
    _watched.append(str(folder))
    try:
        yield _opened
    finally:
        _watched.clear()


@contextmanager
def statements() -> Iterator[Counter[str]]:
    """Count the SQL statements by their first word."""
    counts: Counter[str] = Counter()

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        counts[statement.split()[0]] += 1

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield counts
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def written(folder: Path, count: int) -> list[Path]:
    """Write conversations, and a table with one label of each."""
    reply = {"role": "assistant", "content": "hello"}
    rows = (
        json.dumps({"id": f"c{place}", "messages": [{"role": "user", "content": f"hi {place}"}, reply]}) + "\n"
        for place in range(count)
    )
    (folder / CHATS).write_text("".join(rows), encoding="utf-8")
    labels = "".join(f"c{place},Q0,p{place % 3},{1 + place % 4}\n" for place in range(count))
    (folder / LABELS).write_text("conversation,question,annotator,value\n" + labels, encoding="utf-8")
    return [folder / CHATS, folder / LABELS]


def test_import_in_python_opens_each_file_for_its_survey_and_to_read_it(tmp_path: Path) -> None:
    files = written(tmp_path, 20)
    with Project(Config(store="sqlite:///:memory:")) as project, opened(tmp_path) as counts:
        assert project.import_(files).labels.new == 20
    # A table is also opened for the ids of its conversations, and its encoding is detected.
    assert {name: counts[name] for name in (CHATS, LABELS)} == {CHATS: 2, LABELS: 4}


def test_import_command_opens_each_file_for_its_survey_and_to_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, 20)
    (tmp_path / "accord.yaml").write_text("metrics: [words]\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with opened(tmp_path) as counts:
        invoke("import", str(tmp_path / CHATS), str(tmp_path / LABELS), "--workers", "1")
    assert {name: counts[name] for name in (CHATS, LABELS)} == {CHATS: 2, LABELS: 4}


def test_statements_of_an_import_grow_by_few_for_each_thousand_rows(tmp_path: Path) -> None:
    totals = []
    for count in (2_000, 4_000):
        folder = tmp_path / str(count)
        folder.mkdir()
        with Project(Config(store=f"sqlite:///{folder}/accord.db")) as project, statements() as counts:
            project.import_(written(folder, count))
        totals.append(counts.total())
    assert totals[1] - totals[0] <= 12  # each transaction looks for tombstones


FITS = {ExtraTreeRegressor: 360, GradientBoostingRegressor: 8, SVR: 50, Calibration: 20}
"""Most models that one comparison of the small sample on two folds fits."""


def test_comparison_fits_no_more_models_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[type] = Counter()

    def count_fits(kind: type) -> None:
        original = kind.fit  # type: ignore[attr-defined]

        def fit(self: Any, *arguments: Any, **named: Any) -> Any:
            counts[kind] += 1
            return original(self, *arguments, **named)

        monkeypatch.setattr(kind, "fit", fit)

    with Project(Config(store="sqlite:///:memory:", metrics=["words"], folds=2, draws=20)) as project:
        project.import_(list(sources()))
        for kind in FITS:
            count_fits(kind)
        project.compare(jobs=1)
    assert all(0 < counts[kind] <= most for kind, most in FITS.items()), counts


def test_run_reads_the_training_data_to_compare_and_to_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, original = Counter[str](), Workspace.training

    def training(self: Workspace, *given: Any) -> Any:
        reads["training"] += 1
        return original(self, *given)

    monkeypatch.setattr(Workspace, "training", training)
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    written(data, 20)
    invoke("run", "data", "--out", "out", "--set", "metrics=[words]", "--set", "folds=2", "--set", "draws=20")
    assert reads["training"] == 2


@pytest.mark.parametrize(("questions", "conversations"), [(1, 6), (3, 4)])
def test_judge_sends_one_request_for_each_question_and_conversation(
    questions: int, conversations: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "hush")
    written(tmp_path, conversations)
    options = {1: "bad", 2: "good"}
    asked = [{"id": f"Q{place}", "text": f"How good ({place})?", "options": options} for place in range(questions)]
    Path("rubric.yaml").write_text(json.dumps({"name": "r", "main": "Q0", "questions": asked}), encoding="utf-8")
    with ChatServer(answer_any) as server:
        judge = {"mode": "logprobs", "model": "m1", "base_url": server.url}
        Path("accord.yaml").write_text(
            json.dumps({"rubric": "rubric.yaml", "models": {"judge": judge}}), encoding="utf-8"
        )
        invoke("import", CHATS)
        for _ in range(2):  # the second run reads stored answers
            invoke("judge", "--all")
            assert len(server.requests) == questions * conversations

"""Rows of the mart from batches, parts and live replies, and the rebuilt mart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import scaled
from commands import accord, accord_json
from new_project import new_project
from typer.testing import CliRunner

from accord import Conversation, Project, Turn
from accord.cli.app import app
from accord.edges import BadInput
from accord.learning import load_evaluator
from accord.live import (
    LiveScorer,
    NewScore,
    open_ingestor,
)
from accord.live.ingest import Ingestor, LiveContext
from accord.live.messages import Message
from accord.project import Config
from accord.scoring import (
    BatchScorer,
    ConversationFacts,
    Execution,
    input_of,
    latest_scores,
    milliseconds,
    score_parts,
)
from accord.store import Mart, scores_of_run
from accord.values import SYNTHETIC


def chats(count: int = 12) -> list[Conversation]:
    return [
        Conversation(
            f"c{place}",
            (Turn("user", f"Question {place % 6}?"), Turn("assistant", f"Answer number {place}, with a few words.")),
            metadata={"system": "ab"[place % 2], "version": str(place % 3), "topic": "returns", "language": "en",
                      "began": f"2026-11-{place + 1:02}T10:00:00Z", **({SYNTHETIC: {"by": "x"}} if place == 3 else {})},
        )
        for place in range(count)
    ]  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    about = {"store": f"sqlite:///{tmp_path}/accord.db", "synthetic": "with"}
    with Project(Config.model_validate(about)) as opened:
        opened.store.add_conversations(chats())
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(scaled.saved(tmp_path_factory.mktemp("evaluator")))


def chat_file(folder: Path) -> Path:
    path = folder / "chats.jsonl"
    path.write_text("".join(json.dumps(each.to_json()) + "\n" for each in chats()), encoding="utf-8")
    return path


def rows(mart: Mart) -> dict[str, dict[str, Any]]:
    found, state = mart.read(lambda each: each.collect())
    assert not state.faults and len(found) == found["key"].n_unique()
    return {row["conversation"]: row for row in found.iter_rows(named=True)}


def without_times(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        name: {**row, "scored": None, "run": None, "attributions": json.loads(row["attributions"])}
        for name, row in found.items()
    }


def test_batch_rows_hold_facts_of_their_conversations(project: Project, folder: Path, tmp_path: Path) -> None:
    done = project.score(chat_file(tmp_path), tmp_path / "scores.jsonl", folder)
    found = rows(project.mart)
    scores = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text(encoding="utf-8").splitlines()]
    said = {each["conversation"]: each for each in scores}
    assert found.keys() == said.keys() and len(found) == done.counts.scored == 12
    assert all(found[name]["value"] == pytest.approx(said[name]["value"]) for name in said)
    assert found["c5"]["system"] == "b" and found["c5"]["topic"] == "returns" and found["c5"]["version"] == "2"
    assert found["c5"]["time"].isoformat() == "2026-11-06T10:00:00" and found["c5"]["origin"] == "batch"
    assert [name for name, row in found.items() if row["synthetic"]] == ["c3"]
    assert found["c0"]["input"] == found["c6"]["input"] != found["c1"]["input"]
    evaluator = load_evaluator(folder)
    assert {row["question"] for row in found.values()} == {evaluator.question.id}
    assert sum(found["c0"]["probabilities"]) == pytest.approx(1) and len(found["c0"]["options"]) > 1


def test_scores_name_the_version_in_files_and_in_python(project: Project, folder: Path, tmp_path: Path) -> None:
    names = {each.id: each.version for each in chats()}
    for out in (None, "scores.parquet", "scores.csv"):
        done = project.score(chat_file(tmp_path), None if out is None else tmp_path / out, folder)
        assert {str(row["conversation"]): str(row["version"]) for row in done} == names


def test_repeated_scores_replace_earlier_rows(project: Project, folder: Path, tmp_path: Path) -> None:
    for _ in range(2):
        project.score(chat_file(tmp_path), tmp_path / "scores.jsonl", folder)
    assert len(rows(project.mart)) == 12


def test_damaged_part_of_a_folder_comes_back_when_the_run_continues(
    project: Project, folder: Path, tmp_path: Path
) -> None:
    path = chat_file(tmp_path)
    project.score_parts(path, tmp_path / "parts", folder, execution=Execution(workers=1))
    before = without_times(rows(project.mart))
    [part] = project.mart.folder.glob("part-*.parquet")
    part.write_bytes(part.read_bytes()[:-20])
    assert not project.mart.read(lambda each: each.collect())[0].height and part.name in project.mart.faults()[0]
    project.score_parts(path, tmp_path / "parts", folder, execution=Execution(workers=1))
    assert without_times(rows(project.mart)) == before and not project.mart.faults()


def test_the_mart_gives_the_scores_of_a_run(project: Project, folder: Path, tmp_path: Path) -> None:
    done = project.score(chat_file(tmp_path), tmp_path / "scores.jsonl", folder)
    written = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text(encoding="utf-8").splitlines()]
    found = list(scores_of_run(project.mart, done.run))
    assert latest_scores(project.store, project.mart, "with") == found
    assert [list(row) for row in found] == [list(row) for row in written]
    for row, score in zip(found, written, strict=True):
        near = {name: pytest.approx(score[name], abs=1e-5) for name in ("distribution", "variance", "entropy")}
        assert row == {**score, **near}


def test_folder_of_parts_is_added_once_with_batch_rows(project: Project, folder: Path, tmp_path: Path) -> None:
    path = chat_file(tmp_path)
    project.score(path, tmp_path / "scores.jsonl", folder)
    before = without_times(rows(project.mart))
    for part in project.mart.folder.iterdir():
        part.unlink()
    for _ in range(2):
        project.score_parts(path, tmp_path / "parts", folder, execution=Execution(workers=1))
    for name, row in without_times(rows(project.mart)).items():
        assert row == {**before[name], **{each: pytest.approx(before[name][each], abs=1e-6) for each in
                                          ("value", "low", "high", "probabilities")}}  # fmt: skip
    assert project.add_scores(tmp_path / "parts") == 0 and len(rows(project.mart)) == 12
    with pytest.raises(BadInput, match="no scores in parts"):
        project.add_scores(tmp_path)


def test_live_rows_are_durable_before_the_answer_and_survive_compaction(project: Project, folder: Path) -> None:
    said = [
        Message("live-1", "user", "Hello?"),
        Message("live-1", "assistant", "Good day to you.", system="new", id="m"),
    ]
    with open_ingestor(folder, context=LiveContext(mart=project.mart)) as ingestor:
        ingestor.take(said)
        found = rows(project.mart)["live-1"]
        ingestor.take(said[1:])  # again: nothing new
        assert len(rows(project.mart)) == 1
        assert found["system"] == "new" and found["turn"] == 1 and found["origin"] == "live" and found["input"]
    assert project.mart.compact() and rows(project.mart)["live-1"]["value"] == found["value"]


def test_unwritable_mart_is_logged_once_and_scoring_continues(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    told: list[str] = []
    with open_ingestor(folder, context=LiveContext(mart=Mart(tmp_path / "file" / "mart")), log=told.append) as ingestor:
        found = [
            ingestor.take([Message(f"c{n}", "user", "Hello?"), Message(f"c{n}", "assistant", "Good day.")])[1]
            for n in range(3)
        ]
    assert all(row["status"] == "scored" for row in found)
    [line] = told
    assert line.startswith("the board does not show these scores: the mart")


def test_ingestor_without_mart_scores(folder: Path) -> None:
    ingestor = Ingestor(LiveScorer(load_evaluator(folder)))
    assert ingestor.take([Message("c", "assistant", "Good day.")])[0]["status"] == "scored"


def test_sinks_get_each_new_score_once(folder: Path) -> None:
    taken: list[tuple[str, str | None, Any]] = []

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def take(self, scorer: LiveScorer, new: Sequence[NewScore]) -> None:
            taken.extend((self.name, each.message.id, each.row["value"]) for each in new)

    with open_ingestor(folder, sinks=[Named("events"), Named("file")]) as ingestor:
        batch = [Message("c", "user", "Hello?", id="1"), Message("c", "assistant", "Good day.", id="2")]
        value = ingestor.take(batch)[1]["value"]
        ingestor.take([batch[1], Message("c", "user", "Thanks.", id="3")])
    assert taken == [("events", "2", value), ("file", "2", value)]


def test_a_folder_of_another_machine_is_imported_to_the_board(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score_parts(BatchScorer(folder), chat_file(tmp_path), tmp_path / "parts", Execution(workers=1))
    monkeypatch.chdir(tmp_path)
    new_project()
    assert "12 scores of parts added to the board" in accord("import", "parts")
    assert accord_json("import", "parts")["scores"] == {"parts": 0}
    assert accord_json("import", "parts", "chats.jsonl")["scores"] == {"parts": 0}


@pytest.mark.parametrize(("moved", "now"), [
    (["scores", "merge", "parts", "--out", "s.jsonl"], "accord export FILE --scores FOLDER"),
    (["board", "repair", "parts"], "accord import FOLDER"),
])  # fmt: skip
def test_commands_of_0_2_name_what_replaces_them(moved: list[str], now: str) -> None:
    done = CliRunner().invoke(app, moved)
    assert done.exit_code == 2 and now in done.output


@pytest.mark.parametrize(("said", "found"), [
    ("2026-11-01T10:00:00Z", 1_793_527_200_000), ("2026-11-01T10:00:00", 1_793_527_200_000),
    ("2026-11-01", 1_793_491_200_000), (1_793_527_200, 1_793_527_200_000), (1_793_527_200_000, 1_793_527_200_000),
    ("yesterday", None), (True, None), (3, None), (None, None), (float("inf"), None), ({}, None), ("", None),
])  # fmt: skip
def test_milliseconds_reads_times_of_logs(said: Any, found: int | None) -> None:
    assert milliseconds(said) == found


@pytest.mark.parametrize("metadata", [
    {}, {"version": None, "topic": "", "language": 3, "time": "never"}, {"topic": ["a"], "group": {"a": 1}},
    {"system": "x" * 10_000, "version": "<script>"}, {"synthetic": True},
])  # fmt: skip
def test_facts_of_odd_metadata_are_bounded(metadata: dict[str, Any]) -> None:
    found = ConversationFacts.of(Conversation("c", (Turn("user", "?"),), metadata=metadata))
    assert all(value is None or isinstance(value, bool | int) or len(value) <= 200 for value in asdict(found).values())


def test_input_hash_covers_text_before_the_reply() -> None:
    asked = (
        Turn("user", "How  ARE you?"),
        Turn("assistant", "Well."),
        Turn("user", "Good."),
        Turn("assistant", "Yes."),
    )
    other = (Turn("user", "how are you"), Turn("assistant", "Fine."))
    assert input_of(asked, None) == input_of(other, None) == input_of(asked, 1) == input_of(other, 1) is not None
    assert input_of(asked, 3) != input_of(asked, 1) and input_of((), None) is None and input_of(other, 0) is None

"""Every question of the rubric in one fit: one folder, one measurement of evidence, unchanged main scores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from read_conversations import RUBRIC, reading_project

from accord import Project, load_evaluator
from accord.board import Board, BoardFilters
from accord.edges import BadInput
from accord.evidence import Source
from accord.models import run
from accord.project.evaluators.retrain import candidate_folder, retrain
from accord.scoring import (
    BatchScorer,
    Execution,
    ModelAccess,
    Perspective,
    ScoreOptions,
    score,
)
from accord.testing import check_batch_scorer
from accord.values import Label, Sample, Score, Target

HEAD = {"default": {"head": "mixed"}}


@contextmanager
def not_fitted(folder: Path, monkeypatch: pytest.MonkeyPatch, head: str = "mixed") -> Iterator[Project]:
    """Project of the reading view before any fit, with one metric."""
    with (
        reading_project(folder, monkeypatch, fits=False, head=head) as opened,
        Project(opened.config.model_copy(update={"metrics": ["words"]})) as quick,
    ):
        yield quick


def samples(opened: Project) -> list[Sample]:
    return [Sample(each) for each in opened.store.conversations()]


def rows(opened: Project, folder: Path, perspective: Perspective | None = None) -> list[dict[str, Any]]:
    out = folder / "scores.jsonl"
    made = opened.load()
    score(opened, made, list(opened.store.conversations()), out, perspective=perspective or Perspective())
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def test_every_question_is_predicted_and_the_main_score_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with not_fitted(tmp_path, monkeypatch, head="auto") as opened:
        opened.fit()
        alone = rows(opened, tmp_path)
        with Project(opened.config, question="Q1") as second:
            second.fit(out=tmp_path / "second")
        done = opened.fit(every_question=True)
        together = rows(opened, tmp_path)
        assert [{**row, "notes": {**(row["notes"] or {}), "other_questions": None}} for row in together] == [
            {**row, "notes": {**(row["notes"] or {}), "other_questions": None}} for row in alone
        ], "only the other questions are new"
        other = {
            each.target: each
            for each in run(load_evaluator(tmp_path / "second").predict(samples(opened)), opened.stored_models)
            if isinstance(each, Score)
        }
        for row in together:
            own = other[Target(row["conversation"])]
            found = row["notes"]["other_questions"]["Q1"]
            assert (found["value"], found["distribution"]) == (own.value, own.distribution), (
                "as if it were fitted alone"
            )
            assert (found["band_low"], found["band_high"]) == own.band
        assert [each["question"] for each in done.by_question()] == ["Q0", "Q1"]
        for each in done.by_question():
            assert each["pearson_low"] < each["pearson"] < each["pearson_high"]
        assert [each["n"] for each in done.by_question()] == [92, 90]
        for_ann = rows(opened, tmp_path, Perspective("ann"))
        assert {row["notes"]["other_questions"]["Q1"]["annotator"] for row in for_ann} == {"ann"}
        panel = rows(opened, tmp_path, Perspective(panel=("ann", "bob"), rule="each"))
        assert [row["notes"]["other_questions"]["Q1"]["annotator"] for row in panel[:2]] == ["ann", "bob"]


def test_each_question_has_its_scores_on_the_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with not_fitted(tmp_path, monkeypatch) as opened:
        opened.fit(every_question=True)
        chats = tmp_path / "chats.jsonl"
        chats.write_text(
            "".join(json.dumps(each.to_json()) + "\n" for each in opened.store.conversations()), encoding="utf-8"
        )

        def by_question() -> dict[tuple[str, str], tuple[float, float]]:
            found, _ = opened.mart.read(lambda each: each.collect())
            return {(row["question"], row["conversation"]): (round(row["value"], 5), round(sum(row["probabilities"]), 3))
                    for row in found.iter_rows(named=True)}  # fmt: skip

        opened.score(chats, tmp_path / "scores.jsonl")
        first = by_question()
        notes = {row["conversation"]: row["notes"]["other_questions"]["Q1"]["value"]
                 for row in map(json.loads, (tmp_path / "scores.jsonl").read_text(encoding="utf-8").splitlines())}  # fmt: skip
        assert (
            {name: value for (question, name), (value, _) in first.items() if question == "Q1"}
            == {name: round(value, 5) for name, value in notes.items()}
            and len(first) == 2 * len(notes)
            and {shares for _, shares in first.values()} == {1.0}
        )
        for part in opened.mart.folder.iterdir():
            part.unlink()
        opened.score_parts(chats, tmp_path / "parts", execution=Execution(workers=1))
        parts = by_question()
        assert parts.keys() == first.keys(), "from a folder of parts"
        assert [value for value, _ in parts.values()] == pytest.approx([first[each][0] for each in parts], abs=1e-4)
        page = Board(opened).figures(BoardFilters.from_query("question=Q1&answers=predicted"))
        assert page is not None and page[1].texts == len(notes)


def test_evidence_is_measured_once_for_all_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with not_fitted(tmp_path, monkeypatch) as opened:
        opened.fit(every_question=True)
        evaluator = opened.load()
        measured: list[str] = []
        for kind in {type(source) for source in evaluator.sources}:
            plain = kind.measure

            def counted(self: Source, given: Any, plain: Any = plain) -> Any:
                measured.append(self.name)
                return plain(self, given)

            monkeypatch.setattr(kind, "measure", counted)
        run(evaluator.predict(samples(opened)), opened.stored_models)
        assert sorted(measured) == sorted(source.name for source in evaluator.sources)


def test_folder_with_every_question_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with not_fitted(tmp_path, monkeypatch) as opened:
        opened.fit(every_question=True)
        first = opened.load()
        first.save(tmp_path / "again")
        again = load_evaluator(tmp_path / "again")
        assert again.digest() == first.digest() and [each.question.id for each in again.other_questions] == ["Q1"]
        assert list(again.describe()["evaluators"]) == ["Q1"]
        scores = [run(each.predict(samples(opened)), opened.stored_models) for each in (first, again)]
        assert scores[0] == scores[1]
        shifted = run(first.in_new_domain().predict(samples(opened)), opened.stored_models)
        assert all("Q1" in each.notes["other_questions"] for each in shifted)
        asking = ModelAccess(store=opened.config.store)
        check_batch_scorer(BatchScorer(tmp_path / "again", Perspective(), ScoreOptions(), asking))
        opened.fit()
        assert opened.load().other_questions == (), "a fit without other questions predicts only its own"
    card = tmp_path / "again" / "evaluator.json"
    about = json.loads(card.read_text(encoding="utf-8"))
    for wrong in (["Q0"], ["Q1", "Q2"], 3, [3]):
        card.write_text(json.dumps({**about, "other_questions": wrong}), encoding="utf-8")
        with pytest.raises(BadInput):
            load_evaluator(tmp_path / "again")


def test_retrained_evaluator_predicts_the_same_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with not_fitted(tmp_path, monkeypatch) as opened:
        folder = opened.folder().resolve()
        for every, asked in ((False, []), (True, ["Q1"])):
            opened.fit(every_question=every)
            retrain(opened, folder, lambda every: opened.fit_offline(every_question=every))
            assert [each.question.id for each in load_evaluator(candidate_folder(folder)).other_questions] == asked


def test_unlearnable_questions_are_cautions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with not_fitted(tmp_path, monkeypatch) as opened:
        more = RUBRIC + (
            '  - {id: Q2, text: "Nobody was asked?", options: {1: a, 2: b}}\n'
            '  - {id: Q3, text: "About a turn?", options: {1: a, 2: b}}\n'
            '  - {id: Q4, text: "By few?", options: {1: a, 2: b}}\n'
        )
        (tmp_path / "help.yaml").write_text(more, encoding="utf-8")
        opened.store.add_labels(Label(Target(f"chat-{n:02d}", 1), "Q3", "ann", 1 + n % 2) for n in range(30))
        opened.store.add_labels([Label(Target("chat-01"), "Q4", "ann", 1)])
        with Project(opened.config) as other:
            done = other.fit(every_question=True)
            assert [each.question.id for each in done.evaluator.other_questions] == ["Q1"]
            said = " ".join(done.cautions)
            assert "Q2 is not learned: it has no answers" in said and "Q4 is not learned" in said
            assert "Q3 is not learned: its answers are about a turn" in said
            with pytest.raises(BadInput, match="learns for one question"):
                other.fit("in-context", every_question=True)
            other.store.add_labels(
                Label(Target(f"chat-{n:02d}"), "Q0", "dee", 1 + n % 4) for n in range(10)
            )  # dee answers the main question alone
            other.fit(every_question=True)
            [row] = [each for each in rows(other, tmp_path, Perspective("dee")) if each["conversation"] == "chat-01"]
            assert (row["annotator"], row["notes"]["other_questions"]["Q1"]["annotator"]) == ("dee", "population")
            with pytest.raises(BadInput, match="'dee' never answered 'Q1'"):
                rows(other, tmp_path, Perspective(panel=("ann", "dee")))


def test_the_command_prints_each_question_with_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with reading_project(tmp_path, monkeypatch, fits=False):
        pass
    content = {"store": f"sqlite:///{tmp_path}/accord.db", "rubric": "help.yaml", "evaluators": HEAD}
    content |= {"metrics": ["words"]}
    (tmp_path / "accord.yaml").write_text(json.dumps(content), encoding="utf-8")
    said = invoke("fit", "--every-question")
    assert "Each question: on held-out conversations" in said.output, said.output
    lines = [line.split()[:2] for line in said.output.splitlines() if line.startswith(("Q0 ", "Q1 "))]
    assert lines == [["Q0", "92"], ["Q1", "90"]]
    refused = invoke("fit", "--every-question", "--question", "Q1", code=1)
    assert "leave out --question" in refused.output

"""Readers of exports of annotation tools. The samples are written by hand after the public documentation of the tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from accord import Store
from accord.cli import (
    app,
    commands,  # noqa: F401 - registers the commands
)
from accord.edges import BadInput, BadRow
from accord.formats import read, sniff
from accord.project import Imported, import_files
from accord.values import Annotation, Question, Rubric, Scale

RUBRIC = Rubric(
    name="own", main="helpful",
    questions=(
        Question(id="helpful", text="Is it helpful?", scale=Scale(options=(1, 2, 3, 4))),
        Question(id="tone", text="How does it sound?", scale=Scale(kind="nominal", options=("kind", "cold"))),
    ),
)  # fmt: skip
SAID = [("user", "Where is my parcel?"), ("assistant", "It is in Bonn. It is in Rome.")]

LABEL_STUDIO = {
    "id": 12, "project": 3, "data": {
        "id": "c1", "topic": "parcels",
        "dialogue": [{"author": "user", "text": SAID[0][1]}, {"author": "assistant", "text": SAID[1][1]}],
    },
    "annotations": [
        {
            "id": 1, "completed_by": {"id": 7, "email": "ann@example.org"}, "was_cancelled": False,
            "updated_at": "2026-01-02T03:04:05Z", "lead_time": 12.5, "result": [
                {"id": "a", "from_name": "helpful", "to_name": "d", "type": "rating", "value": {"rating": 2}},
                {"id": "b", "from_name": "tone", "to_name": "d", "type": "choices", "value": {"choices": ["kind"]}},
                {"id": "c", "from_name": "topics", "to_name": "d", "type": "choices", "value": {"choices": ["x", "y"]}},
                {
                    "id": "r", "from_name": "issues", "to_name": "d", "type": "paragraphlabels",
                    "value": {"start": "1", "end": "1", "startOffset": 15, "endOffset": 29, "text": "It is in Rome.",
                              "paragraphlabels": ["Contradiction"]},
                },
                {"id": "r", "from_name": "why", "to_name": "d", "type": "textarea", "value": {"text": ["Bonn first"]}},
                {"id": "z", "from_name": "note", "to_name": "d", "type": "textarea", "value": {"text": ["Odd."]}},
                {"id": "q", "from_name": "box", "to_name": "d", "type": "rectanglelabels", "value": {}},
            ],
        },
        {
            "id": 2, "completed_by": 8, "was_cancelled": False, "result": [
                {"id": "a", "from_name": "helpful", "to_name": "d", "type": "rating", "value": {"rating": 4}},
            ],
        },
        {"id": 3, "completed_by": 9, "was_cancelled": True, "result": [
            {"id": "a", "from_name": "helpful", "to_name": "d", "type": "rating", "value": {"rating": 1}}]},
    ],
    "predictions": [{"model_version": "m", "result": []}],
}  # fmt: skip

ARGILLA = {
    "id": "c1", "_server_id": "9", "metadata": {"topic": "parcels"}, "vectors": {},
    "fields": {"chat": [{"role": role, "content": text} for role, text in SAID]},
    "suggestions": {"helpful": {"value": 1, "score": 0.9, "agent": "model"}},
    "responses": {
        "helpful": [{"value": 2, "user_id": "ann"}, {"value": 4, "user_id": "bob"}],
        "tone": [{"value": "kind", "user_id": "ann"}],
        "topics": [{"value": ["x", "y"], "user_id": "ann"}],
        "issues": [{"value": [{"label": "Contradiction", "start": 15, "end": 29}], "user_id": "ann"}],
    },
}  # fmt: skip

LANGSMITH_RUNS = [
    {
        "id": "c1", "trace_id": "c1", "name": "chat", "run_type": "chain", "parent_run_id": None,
        "inputs": {"messages": [{"role": "user", "content": SAID[0][1]}]},
        "outputs": {"messages": [{"role": "user", "content": SAID[0][1]}, {"role": "assistant", "content": SAID[1][1]}]},
        "extra": {"metadata": {"thread_id": "t9"}},
    },
    {"id": "r2", "trace_id": "c1", "run_type": "llm", "parent_run_id": "c1", "inputs": {}, "outputs": {}},
]  # fmt: skip
LANGSMITH_FEEDBACK = [
    {"id": "1", "run_id": "c1", "trace_id": "c1", "key": "helpful", "score": 2, "value": None, "comment": None,
     "created_at": "2026-01-02T03:04:05Z", "feedback_source": {"type": "app", "user_id": "ann"}},
    {"id": "2", "run_id": "c1", "trace_id": "c1", "key": "helpful", "score": 4.0, "value": None, "comment": "Quick.",
     "created_at": "2026-01-03T03:04:05Z", "feedback_source": {"type": "app", "user_id": "bob"}},
    {"id": "3", "run_id": "c1", "trace_id": "c1", "key": "tone", "score": None, "value": "kind",
     "feedback_source": {"type": "app", "user_id": "ann"}},
    {"id": "4", "run_id": "c1", "trace_id": "c1", "key": "helpful", "score": 1, "feedback_source": {"type": "model"}},
]  # fmt: skip

LANGFUSE_SCORES = [
    {"id": "1", "name": "helpful", "source": "ANNOTATION", "dataType": "NUMERIC", "value": 2, "authorUserId": "ann",
     "subject": {"kind": "trace", "id": "c1"}, "timestamp": "2026-01-02T03:04:05Z"},
    {"id": "2", "name": "helpful", "source": "ANNOTATION", "dataType": "NUMERIC", "value": 4, "authorUserId": "bob",
     "traceId": "c1", "comment": "Quick.", "queueId": "q"},
    {"id": "3", "name": "tone", "source": "ANNOTATION", "dataType": "CATEGORICAL", "value": 0, "stringValue": "kind",
     "traceId": "c1", "authorUserId": "ann"},
    {"id": "4", "name": "helpful", "source": "EVAL", "dataType": "NUMERIC", "value": 1, "traceId": "c1"},
    {"id": "5", "name": "helpful", "source": "ANNOTATION", "dataType": "NUMERIC", "value": 1,
     "subject": {"kind": "experiment", "id": "x"}},
]  # fmt: skip

POTATO_STATES = [
    {
        "user_id": "ann",
        "instance_id_to_label_to_value": {
            "c1": {"helpful": {"scale_2": "2"}, "tone": {"kind": True}, "topics": {"x": True, "y": True},
                   "why": {"text_box": "Odd."}},
        },
        "instance_id_to_span_to_value": {
            "c1": [[{"schema": "issues", "name": "Contradiction", "start": 40, "end": 54, "text": "It is in Rome."}, 1]],
        },
    },
    {"user_id": "bob", "instance_id_to_label_to_value": {"c1": [[{"schema": "helpful", "name": "scale_4"}, "4"]]}},
]  # fmt: skip
POTATO_ROWS = [
    {"instance_id": "c1", "user_id": "ann", "labels": POTATO_STATES[0]["instance_id_to_label_to_value"]["c1"],
     "spans": {"issues": [{"name": "Contradiction", "start": 40, "end": 54, "text": "It is in Rome."}]}, "links": {}},
    {"instance_id": "c1", "user_id": "bob", "labels": {"helpful": {"scale_4": "4"}}, "spans": {}, "links": {}},
]  # fmt: skip

CHAT = {"id": "c1", "messages": [{"role": role, "content": text} for role, text in SAID]}


def written(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def imported(folder: Path, *files: Path, **options: Any) -> tuple[Imported, Store]:
    store = Store(f"sqlite:///{folder}/accord.db")
    return import_files(store, RUBRIC, files, **options), store


def by_person(store: Store) -> dict[tuple[str, str], Any]:
    return {(label.annotator, label.question): label.value for label in store.labels()}


def marks(store: Store) -> list[Annotation]:
    return [each for each in store.annotations(["person"]) if each.question.startswith("issue:")]


def test_label_studio_annotations_keep_people_spans_and_comments(tmp_path: Path) -> None:
    path = tmp_path / "project-3.json"
    path.write_text(json.dumps([LABEL_STUDIO], indent=2))
    done, store = imported(tmp_path, path)
    [conversation] = store.conversations()
    assert [(turn.role, turn.content) for turn in conversation.turns] == SAID and conversation.id == "c1"
    assert conversation.metadata["topic"] == "parcels"
    assert conversation.metadata["label_studio_unread"] == {"rectanglelabels": 1}
    result = by_person(store)
    assert (
        result["ann@example.org", "helpful"] == 2 and result["8", "helpful"] == 4 and result["ann@example.org", "tone"]
    )
    assert result["ann@example.org", "topics.x"] == result["ann@example.org", "topics.y"] == 1
    assert not any(who == "9" for who, _ in result), "canceled annotations are skipped"
    [mark] = marks(store)
    assert (mark.target.turn, mark.span, mark.quote) == (1, (15, 29), "It is in Rome.")
    assert (mark.question, mark.by, mark.comment) == ("issue:Contradiction", "ann@example.org", "Bonn first")
    assert [each.comment for each in store.annotations(["person"]) if each.question == "note"] == ["Odd."]
    assert done.to_json()["annotations"] == {"new": 2, "known": 0}
    store.close()
    again, store = imported(tmp_path, path)
    assert not again.labels.new and not again.annotations.new, "the same file again adds nothing"
    store.close()


@pytest.mark.parametrize("flat", [False, True])
def test_argilla_records_are_read_nested_and_flattened(tmp_path: Path, flat: bool) -> None:
    row: dict[str, Any] = ARGILLA
    if flat:
        row = {"id": "c1", "topic": "parcels", **ARGILLA["fields"], "helpful.suggestion": 1}
        for name, given in ARGILLA["responses"].items():
            row[f"{name}.responses"] = [each["value"] for each in given]
            row[f"{name}.responses.users"] = [each["user_id"] for each in given]
            row[f"{name}.responses.status"] = ["submitted" for _ in given]
        row["tone.responses"].append("cold")
        row["tone.responses.users"].append("bob")
        row["tone.responses.status"].append("discarded")
    path = tmp_path / "records.json"
    path.write_text(json.dumps([row]))
    _, store = imported(tmp_path, path)
    [conversation] = store.conversations()
    assert [(turn.role, turn.content) for turn in conversation.turns] == SAID
    assert conversation.metadata["topic"] == "parcels"
    result = by_person(store)
    assert result["ann", "helpful"] == 2 and result["bob", "helpful"] == 4 and result["ann", "tone"] == "kind"
    assert ("bob", "tone") not in result and result["ann", "topics.x"] == 1
    [mark] = marks(store)
    assert (mark.target.turn, mark.quote, mark.span, mark.by) == (1, "It is in Rome.", (15, 29), "ann")
    store.close()


def test_langsmith_runs_and_human_feedback_are_read(tmp_path: Path) -> None:
    feedback = written(tmp_path / "feedback.jsonl", *LANGSMITH_FEEDBACK)
    runs = written(tmp_path / "runs.jsonl", *LANGSMITH_RUNS)
    done, store = imported(tmp_path, feedback, runs)
    [conversation] = store.conversations()
    assert [(turn.role, turn.content) for turn in conversation.turns] == SAID and conversation.metadata[
        "thread"
    ] == "t9"
    assert by_person(store) == {("ann", "helpful"): 2, ("bob", "helpful"): 4, ("ann", "tone"): "kind"}
    assert [each.comment for each in store.annotations(["person"]) if each.comment] == ["Quick."]
    assert done.counts.ignored == {
        "feedback that no person gave in the app": 1, "a run within another run": 1,
    }  # fmt: skip
    store.close()


def test_langfuse_scores_are_read_without_traces(tmp_path: Path) -> None:
    scores = tmp_path / "scores.json"
    scores.write_text(json.dumps({"data": LANGFUSE_SCORES, "meta": {"limit": 50}}))
    assert sniff(scores).content == "answers"
    done, store = imported(tmp_path, scores, written(tmp_path / "chats.jsonl", CHAT))
    assert by_person(store) == {("ann", "helpful"): 2, ("bob", "helpful"): 4, ("ann", "tone"): "kind"}
    assert sum(done.counts.ignored.values()) == 2
    assert [each.comment for each in store.annotations(["person"]) if each.comment] == ["Quick."]
    store.close()


@pytest.mark.parametrize("rows", [POTATO_STATES, POTATO_ROWS], ids=["user_state", "jsonl"])
def test_potato_answers_keep_their_annotators(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    files = [written(tmp_path / f"state{index}.json", row) for index, row in enumerate(rows)]
    _, store = imported(tmp_path, *files, written(tmp_path / "chats.jsonl", CHAT))
    result = by_person(store)
    assert result["ann", "helpful"] == 2 and result["bob", "helpful"] == 4 and result["ann", "tone"] == "kind"
    assert result["ann", "topics.x"] == result["ann", "topics.y"] == 1
    [mark] = marks(store)
    assert (mark.target.turn, mark.span, mark.question) == (1, (15, 29), "issue:Contradiction"), "found by its words"
    assert [each.comment for each in store.annotations(["person"]) if each.comment] == ["Odd."]
    store.close()


def test_potato_1_answers_have_no_annotator(tmp_path: Path) -> None:
    row = {
        "id": "c1",
        "displayed_text": "x",
        "label_annotations": {"helpful": {"scale_3": "3"}},
        "span_annotations": [],
    }
    _, store = imported(
        tmp_path, written(tmp_path / "annotated_instances.jsonl", row), written(tmp_path / "c.jsonl", CHAT)
    )
    assert by_person(store) == {("unnamed", "helpful"): 3}
    store.close()


def test_imported_annotations_round_trip_through_an_export(tmp_path: Path) -> None:
    from accord.project import export_annotations

    path = tmp_path / "tasks.json"
    path.write_text(json.dumps([LABEL_STUDIO]))
    _, store = imported(tmp_path, path)
    before = [each.to_json() for each in store.annotations(["person"])]
    export_annotations(store, tmp_path / "out.jsonl")
    store.close()
    (tmp_path / "other").mkdir()
    _, other = imported(
        tmp_path / "other", written(tmp_path / "c.jsonl", CHAT), tmp_path / "out.jsonl", skip_bad_rows=False
    )
    assert [each.to_json() for each in other.annotations(["person"])] == before and len(before) == 7
    other.close()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([LANGFUSE_SCORES[0]], "c1"),
        ([LANGSMITH_FEEDBACK[0]], "c1"),
        ([POTATO_STATES[1]], "c1"),
    ],
)  # fmt: skip
def test_answers_about_an_unknown_conversation_are_reported(
    tmp_path: Path, rows: list[dict[str, Any]], message: str
) -> None:
    store = Store(f"sqlite:///{tmp_path}/accord.db")
    with pytest.raises(BadInput, match=message):
        import_files(store, RUBRIC, [written(tmp_path / "alone.jsonl", *rows)])
    assert not list(store.conversations()), "and no empty conversation is made"
    store.close()


def changed(row: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {**row, **more}


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("label-studio", changed(LABEL_STUDIO, data={"image": 3}), "no list of messages"),
    (
        "label-studio",
        changed(LABEL_STUDIO, annotations=[{"completed_by": 1, "result": [
            {"id": "r", "from_name": "i", "type": "paragraphlabels",
             "value": {"start": 7, "end": 7, "startOffset": 0, "endOffset": 2, "paragraphlabels": ["X"]}}]}]),
        "the task has 2",
    ),
    (
        "label-studio",
        changed(LABEL_STUDIO, annotations=[{"result": [{"id": "a", "from_name": "t", "type": "choices", "value": {}}]}]),
        "are a list",
    ),
    ("argilla", changed(ARGILLA, fields={"image": "x"}), "hold no chat"),
    ("argilla", changed(ARGILLA, responses={"i": [{"value": [{"label": "X", "start": 5, "end": 999}], "user_id": "a"}]}),
     "no turn is that long"),
    ("argilla", changed(ARGILLA, responses={"i": [{"value": [{"label": "X", "start": 5, "end": 2}], "user_id": "a"}]}),
     "whole offsets"),
    ("potato", {"instance_id": "c1", "user_id": "a", "labels": [["x"]], "spans": {}}, "pairs of a label"),
    ("potato", {"instance_id": "", "user_id": "a", "labels": {}, "spans": {}}, "names no item"),
    ("potato", {"instance_id": "c1", "user_id": "a", "labels": {}, "spans": [{"start": 1}]}, "has no label"),
    ("langsmith", changed(LANGSMITH_RUNS[0], inputs=None, outputs=None), "no inputs and no outputs"),
    ("langsmith", changed(LANGSMITH_FEEDBACK[2], value={"a": 1}), "a number or a text"),
    ("langfuse-scores", changed(LANGFUSE_SCORES[0], name=None), "cannot be an id"),
]  # fmt: skip


@pytest.mark.parametrize(("format", "row", "message"), WRONG)
def test_an_invalid_row_is_a_one_line_error_with_its_line(
    tmp_path: Path, format: str, row: dict[str, Any], message: str
) -> None:
    path = written(tmp_path / "wrong.jsonl", row)
    with pytest.raises(BadRow, match=f"line 1: .*{message}"):
        list(read(path, format))


def test_an_answer_off_the_scale_is_named(tmp_path: Path) -> None:
    row = json.loads(json.dumps(LANGFUSE_SCORES[1]).replace('"value": 4', '"value": 9'))
    store = Store(f"sqlite:///{tmp_path}/accord.db")
    files = [written(tmp_path / "c.jsonl", CHAT), written(tmp_path / "s.jsonl", row)]
    with pytest.raises(BadInput, match="got 9, allowed"):
        import_files(store, RUBRIC, files)
    store.close()


def test_import_prints_counts_of_read_and_ignored_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "accord.yaml").write_text("store: sqlite:///accord.db\n")
    files = [written(tmp_path / "runs.jsonl", *LANGSMITH_RUNS), written(tmp_path / "fb.jsonl", *LANGSMITH_FEEDBACK)]
    result = CliRunner().invoke(app, ["import", *map(str, files)])
    assert result.exit_code == 0, result.output
    assert "1 conversation imported" in result.output and "1 row ignored: feedback that no person" in result.output
    only = written(tmp_path / "models.jsonl", LANGSMITH_FEEDBACK[3])
    result = CliRunner().invoke(app, ["import", str(only)])
    assert result.exit_code != 0 and "nothing was read: feedback that no person gave in the app" in result.output


def test_a_rubric_is_inferred_from_a_tool_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path / "fb.jsonl", *LANGSMITH_FEEDBACK)
    result = CliRunner().invoke(app, ["init", "--from", str(path)])
    assert result.exit_code == 0 and "helpful (main): ordinal, 1, 2, 3, 4; 2 labels" in result.output, result.output
    task = tmp_path / "tasks.json"
    task.write_text(json.dumps([LABEL_STUDIO]))
    result = CliRunner().invoke(app, ["init", "--from", str(task)])
    assert result.exit_code == 0 and "helpful" in result.output and "issue:" not in result.output

"""Readers of exports of annotation tools. The samples are written by hand after the public documentation of the tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from commands import accord

from accord import Store
from accord.edges import BadInput, BadRow
from accord.formats import read, sniff
from accord.project import Imported, export_annotations, import_files
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


Import = Callable[..., tuple[Imported, Store]]


@pytest.fixture
def imported(tmp_path: Path) -> Iterator[Import]:
    """Import files into a store, which is closed when the test ends."""
    stores: list[Store] = []

    def start(*files: Path, **options: Any) -> tuple[Imported, Store]:
        stores.append(Store(f"sqlite:///{tmp_path}/{options.pop('name', 'accord')}.db"))
        return import_files(stores[-1], RUBRIC, files, **options), stores[-1]

    yield start
    for store in stores:
        store.close()


def by_person(store: Store) -> dict[tuple[str, str], Any]:
    return {(label.annotator, label.question): label.value for label in store.labels()}


def marks(store: Store) -> list[Annotation]:
    return [each for each in store.annotations(["person"]) if each.question.startswith("issue:")]


def texts(store: Store) -> list[tuple[str, str]]:
    [conversation] = store.conversations()
    return [(turn.role, turn.content) for turn in conversation.turns]


def comments(store: Store) -> list[str]:
    return [each.comment for each in store.annotations(["person"]) if each.comment and "issue:" not in each.question]


def test_label_studio_annotations_keep_people_spans_and_comments(tmp_path: Path, imported: Import) -> None:
    path = tmp_path / "project-3.json"
    path.write_text(json.dumps([LABEL_STUDIO], indent=2), encoding="utf-8")
    done, store = imported(path)
    [conversation] = store.conversations()
    assert texts(store) == SAID and conversation.id == "c1"
    assert conversation.metadata["topic"] == "parcels"
    assert conversation.metadata["label_studio_unread"] == {"rectanglelabels": 1}
    result, ann = by_person(store), "ann@example.org"
    assert result[ann, "helpful"] == 2 and result["8", "helpful"] == 4 and result[ann, "tone"]
    assert result[ann, "topics.x"] == result[ann, "topics.y"] == 1
    assert not any(who == "9" for who, _ in result), "canceled annotations are skipped"
    [mark] = marks(store)
    assert (mark.target.turn, mark.span, mark.quote) == (1, (15, 29), "It is in Rome.")
    assert (mark.question, mark.by, mark.comment) == ("issue:Contradiction", ann, "Bonn first")
    assert comments(store) == ["Odd."]
    assert done.to_json()["annotations"] == {"new": 2, "known": 0}
    again, _ = imported(path)
    assert not again.labels.new and not again.annotations.new, "the same file again adds nothing"


@pytest.mark.parametrize("flat", [False, True])
def test_argilla_records_are_read_nested_and_flattened(tmp_path: Path, imported: Import, flat: bool) -> None:
    row: dict[str, Any] = ARGILLA
    if flat:
        row = {"id": "c1", "topic": "parcels", **ARGILLA["fields"], "helpful.suggestion": 1}
        given = {**ARGILLA["responses"], "tone": [*ARGILLA["responses"]["tone"], {"value": "cold", "user_id": "bob"}]}
        for name, answers in given.items():
            row[f"{name}.responses"] = [each["value"] for each in answers]
            row[f"{name}.responses.users"] = [each["user_id"] for each in answers]
            row[f"{name}.responses.status"] = [
                "discarded" if each["value"] == "cold" else "submitted" for each in answers
            ]
    path = tmp_path / "records.json"
    path.write_text(json.dumps([row]), encoding="utf-8")
    _, store = imported(path)
    [conversation] = store.conversations()
    assert texts(store) == SAID and conversation.metadata["topic"] == "parcels"
    result = by_person(store)
    assert result["ann", "helpful"] == 2 and result["bob", "helpful"] == 4 and result["ann", "tone"] == "kind"
    assert ("bob", "tone") not in result and result["ann", "topics.x"] == 1
    [mark] = marks(store)
    assert (mark.target.turn, mark.quote, mark.span, mark.by) == (1, "It is in Rome.", (15, 29), "ann")


HUMAN = {("ann", "helpful"): 2, ("bob", "helpful"): 4, ("ann", "tone"): "kind"}


def test_langsmith_runs_and_human_feedback_are_read(tmp_path: Path, imported: Import) -> None:
    feedback = written(tmp_path / "feedback.jsonl", *LANGSMITH_FEEDBACK)
    done, store = imported(feedback, written(tmp_path / "runs.jsonl", *LANGSMITH_RUNS))
    [conversation] = store.conversations()
    assert texts(store) == SAID and conversation.metadata["thread"] == "t9"
    assert by_person(store) == HUMAN and comments(store) == ["Quick."]
    assert done.counts.ignored == {"feedback that no person gave in the app": 1, "a run within another run": 1}


def test_langfuse_scores_are_read_without_traces(tmp_path: Path, imported: Import) -> None:
    scores = tmp_path / "scores.json"
    scores.write_text(json.dumps({"data": LANGFUSE_SCORES, "meta": {"limit": 50}}), encoding="utf-8")
    assert sniff(scores).content == "answers"
    done, store = imported(scores, written(tmp_path / "chats.jsonl", CHAT))
    assert by_person(store) == HUMAN and comments(store) == ["Quick."]
    assert sum(done.counts.ignored.values()) == 2


@pytest.mark.parametrize("rows", [POTATO_STATES, POTATO_ROWS], ids=["user_state", "jsonl"])
def test_potato_answers_keep_their_annotators(tmp_path: Path, imported: Import, rows: list[dict[str, Any]]) -> None:
    files = [written(tmp_path / f"state{index}.json", row) for index, row in enumerate(rows)]
    _, store = imported(*files, written(tmp_path / "chats.jsonl", CHAT))
    result = by_person(store)
    assert result.items() >= HUMAN.items() and result["ann", "topics.x"] == result["ann", "topics.y"] == 1
    [mark] = marks(store)
    assert (mark.target.turn, mark.span, mark.question) == (1, (15, 29), "issue:Contradiction"), "found by its words"
    assert comments(store) == ["Odd."]


def test_potato_1_answers_have_no_annotator(tmp_path: Path, imported: Import) -> None:
    labels = {"label_annotations": {"helpful": {"scale_3": "3"}}, "span_annotations": []}
    row = written(tmp_path / "annotated_instances.jsonl", {"id": "c1", "displayed_text": "x", **labels})
    _, store = imported(row, written(tmp_path / "c.jsonl", CHAT))
    assert by_person(store) == {("unnamed", "helpful"): 3}


def test_imported_annotations_round_trip_through_an_export(tmp_path: Path, imported: Import) -> None:
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps([LABEL_STUDIO]), encoding="utf-8")
    _, store = imported(path)
    before = [each.to_json() for each in store.annotations(["person"])]
    export_annotations(store, tmp_path / "out.jsonl")
    _, other = imported(written(tmp_path / "c.jsonl", CHAT), tmp_path / "out.jsonl", name="other")
    assert [each.to_json() for each in other.annotations(["person"])] == before and len(before) == 7


@pytest.mark.parametrize(
    "row", [LANGFUSE_SCORES[0], LANGSMITH_FEEDBACK[0], POTATO_STATES[1]], ids=["langfuse", "langsmith", "potato"]
)
def test_answers_about_an_unknown_conversation_are_reported(tmp_path: Path, memory: Store, row: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="c1"):
        import_files(memory, RUBRIC, [written(tmp_path / "alone.jsonl", row)])
    assert not list(memory.conversations()), "and no empty conversation is made"


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


def test_an_answer_off_the_scale_is_named(tmp_path: Path, memory: Store) -> None:
    row = written(tmp_path / "s.jsonl", {**LANGFUSE_SCORES[1], "value": 9})
    with pytest.raises(BadInput, match="got 9, allowed"):
        import_files(memory, RUBRIC, [written(tmp_path / "c.jsonl", CHAT), row])


def test_import_prints_counts_of_read_and_ignored_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "accord.yaml").write_text("store: sqlite:///accord.db\n", encoding="utf-8")
    files = [written(tmp_path / "runs.jsonl", *LANGSMITH_RUNS), written(tmp_path / "fb.jsonl", *LANGSMITH_FEEDBACK)]
    output = accord("import", *map(str, files))
    assert "1 conversation imported" in output and "1 row ignored: feedback that no person" in output
    only = written(tmp_path / "models.jsonl", LANGSMITH_FEEDBACK[3])
    assert "nothing was read: feedback that no person gave in the app" in accord("import", str(only), code=1)


def test_a_rubric_is_inferred_from_a_tool_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path / "fb.jsonl", *LANGSMITH_FEEDBACK)
    assert "helpful (main): ordinal, 1, 2, 3, 4; 2 labels" in accord("init", "--from", str(path))
    task = tmp_path / "tasks.json"
    task.write_text(json.dumps([LABEL_STUDIO]), encoding="utf-8")
    output = accord("init", "--from", str(task))
    assert "helpful" in output and "issue:" not in output

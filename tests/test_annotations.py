"""Annotations of people, models and metrics: stored, filtered, exported and restored."""

from __future__ import annotations

import csv
import json
import random
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import accord, accord_json
from small_sample import sources

from accord import Conversation, Label, Store, Target, Turn
from accord.edges import BadInput, BadRow, UnknownName
from accord.formats import AnnotationWriter, read_annotations
from accord.project import export_annotations, import_files
from accord.store import AddedCounts, IssueAnnotations
from accord.values import Annotation, Issue, IssueAnnotation, Rubric, issues_from, with_located_quotes

ODD = "NUL \0, half a pair \ud83d, \u202ertl, line\r\nbreak\rand\ttab, Grüße, 你好, 🙂, \ufeff"
FORMULAS = (
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "'=1",
    "''",
    "'",
    "＝1",
    '\'json:"x"',
    "=cmd|' /C x'!A0",
)
REPLY = "It is on its way. It is much better now."


def chat(name: str) -> Conversation:
    return Conversation(name, (Turn("user", "Where is it?"), Turn("assistant", REPLY)))


CHATS = [chat("a"), chat("b"), chat('=a,b;"c"')]

FOUND = [
    with_located_quotes(
        IssueAnnotation(
            Target("a", 1),
            (
                Issue("Commonsense", "Not so.", "much  Better"),
                Issue("Incoherence", ODD, "nowhere", None, "odd: " + ODD),
                Issue("Incoherence", ODD, "nowhere", None, "odd: " + ODD),
                Issue("Antisocial", ""),
            ),
            2, ODD, "issues|model:small|taxonomy:s256:1f3c", ("unknown kind", ODD), "s256:0123",
        ),
        REPLY,
    ),
    IssueAnnotation(Target("a", 1), (), 5, "", "by hand"),
    IssueAnnotation(Target("b", 0), (Issue("Antisocial", "=rude"),), 1, "-", "issues|model:small|taxonomy:s256:1f3c"),
]  # fmt: skip


def annotations() -> list[Annotation]:
    """Annotations of every kind that fill every field."""
    labels = [
        Label(Target("a"), "Q0", "ann", 3, wording="s256:1"),
        Label(Target("a"), "Q0", "ann", 3, wording="s256:1"),
        Label(Target("a", 1), "Q0", "bob", 2, "2026-01-01"),
        Label(Target("b"), "Q2", "ann", None, ""),
        Label(Target("b"), "kind", "ann", "good\nor bad"),
        Label(Target("b"), "length", "ann", 0.1 + 0.2),
        Label(Target("b"), "length", "ann", 3.0),
        Label(Target("a", 1), "better", "=bob", -1, against=Target("b", 0)),
        Label(Target('=a,b;"c"'), "better", "bob", 1, against=Target("a")),
        *(Label(Target("a"), "words", "ann", text) for text in (*FORMULAS, "", "3", "null", "[1]")),
    ]
    people = [
        Annotation(
            x.target, x.question, x.annotator, "person", x.value, time=x.time, wording=x.wording, against=x.against
        )
        for x in labels
    ]
    marked = Annotation(
        Target("a", 1), "issue:Commonsense", "bob", "person", 1, quote="much better", span=(24, 35), comment=ODD
    )
    texts = [replace(marked, comment=text) for text in (*FORMULAS, "json:", "'tis", "a'b", "  =1")]
    answers = [
        Annotation.from_answer(
            Target("a"), "Q0", "judge", {
                "probabilities": {"1": 0.1, "2": 1 / 3}, "outside": 0.25, "mode": "logprobs", "version": "v-1",
                "made_from": {"judge": "judge", "mode": "logprobs", "prompt": ODD},
            }
        ),
        Annotation.from_answer(
            Target("only scored", 3), "=Q1", "judge", {
                "probabilities": {}, "outside": 0.0, "mode": "sampling-10", "version": None,
                "made_from": {"judge": "judge", "runs": [{"1": 1.0}]},
            }
        ),
    ]  # fmt: skip
    metric = Annotation(Target("a"), "length", "words", "metric", 17, signature="words|version:1", time="2026-01-01")
    issues = [each for result in FOUND for each in Annotation.from_issues(result)]
    return [*people, marked, *texts, *answers, *issues, metric]


def by_kind(result: list[Annotation]) -> list[Annotation]:
    """Sort annotations in the order of the store."""
    return sorted(result, key=lambda each: each.kind)


# --- the record ----------------------------------------------------------------------------------------------------


def test_an_annotation_round_trips_through_json() -> None:
    filled = set()
    for each in annotations():
        row = json.loads(json.dumps(each.to_json()))
        assert Annotation.from_json(row) == each
        filled |= row.keys()
    assert filled == {
        "conversation", "turn", "question", "by", "kind", "value", "distribution", "outside", "quote", "span", "comment",
        "signature", "mode", "made_from", "version", "time", "wording", "against", "against_turn", "called", "losses",
        "seen", "group", "part",
    }  # fmt: skip


def test_issues_convert_to_annotations_and_back() -> None:
    rows = [each for each in annotations() if each.is_of_issues]
    random.Random(0).shuffle(rows)
    assert sorted(issues_from(rows), key=repr) == sorted(FOUND, key=repr), "in whatever order"
    assert {each.by for each in rows} == {"small", "by hand"}, "the model that the signature names"


# --- the store -----------------------------------------------------------------------------------------------------


def test_the_store_keeps_annotations_of_every_kind_once(store: Store) -> None:
    store.add_conversations(CHATS)
    given = annotations()
    assert store.add_annotations(given) == AddedCounts(len(given), 0)
    assert store.add_annotations(given) == AddedCounts(0, len(given))
    kept = list(store.annotations())
    assert kept == by_kind(given)
    assert [type(each.value) for each in kept] == [type(each.value) for each in by_kind(given)], "3.0 is not 3"


def test_annotations_are_filtered_by_kind_question_and_conversation(store: Store) -> None:
    store.add_conversations(CHATS)
    given = annotations()
    store.add_annotations(given)
    for kinds in (["person"], ["model", "metric"], []):
        assert list(store.annotations(kinds)) == by_kind([each for each in given if each.kind in kinds])
    assert list(store.annotations(question="Q0")) == by_kind([each for each in given if each.question == "Q0"])
    result = list(store.annotations(["person"], "length", ["b", "nobody"]))
    assert [each.value for each in result] == [0.1 + 0.2, 3.0]
    assert list(store.annotations(conversations=[])) == []


def test_equal_labels_are_stored_once_from_any_source(store: Store) -> None:
    store.add_conversations(CHATS)
    labels = [Label(Target("a"), "Q0", "ann", 3)] * 2
    assert store.add_labels(labels) == AddedCounts(2, 0)
    same = Annotation(Target("a"), "Q0", "ann", "person", 3)
    assert same.to_label() == labels[0] and store.add_annotations([same, same]) == AddedCounts(0, 2)
    assert store.add_annotations([same, same, same]) == AddedCounts(1, 2), "a third time is another rating"
    assert list(store.labels()) == labels[:1] and len(list(store.annotations())) == 3, "the last one counts"


def test_models_never_replace_people_or_become_their_labels(store: Store) -> None:
    store.add_conversations(CHATS)
    store.add_labels([Label(Target("a", 1), "overall", "ann", 4), Label(Target("a", 1), "issue:Antisocial", "ann", 0)])
    IssueAnnotations(store).add(FOUND)
    assert [(label.annotator, label.value) for label in store.labels()] == [("ann", 4), ("ann", 0)]
    assert IssueAnnotations(store).makers() == {"by hand": 1, "issues|model:small|taxonomy:s256:1f3c": 2}
    assert store.answered() == []


def test_the_first_issues_of_a_turn_stay_and_are_not_mixed_with_others(store: Store) -> None:
    store.add_conversations(CHATS)
    issues = IssueAnnotations(store)
    assert issues.add(FOUND[:1]) == AddedCounts(1, 0)
    other = replace(FOUND[0], issues=(*FOUND[0].issues, Issue("Antisocial", "late")), score=1)
    assert issues.add([other]) == AddedCounts(0, 1)
    assert store.add_annotations(Annotation.from_issues(other)) == AddedCounts(0, 6)
    assert list(issues.of(CHATS, FOUND[0].signature)) == []  # the text has changed, so `said` does not apply
    assert issues_from(store.annotations(["model"])) == FOUND[:1]
    assert issues.add([replace(FOUND[1], issues=(Issue("x", "y"),)), FOUND[1]]) == AddedCounts(1, 1)
    assert [len(each.issues) for each in issues.of(CHATS, "by hand")] == [1], "the first of a batch stays"


def test_issues_may_come_before_their_overall_score_and_never_without(store: Store) -> None:
    store.add_conversations(CHATS)
    overall, *issues = Annotation.from_issues(FOUND[0])
    with pytest.raises(BadInput, match="the overall score that 'small' gave with it is neither in the store nor in"):
        store.add_annotations(issues)
    assert list(store.annotations()) == []
    assert store.add_annotations([*reversed(issues), overall]) == AddedCounts(5, 0)
    assert issues_from(store.annotations()) == FOUND[:1]


def test_human_annotations_of_unknown_targets_are_reported(store: Store) -> None:
    store.add_conversations(CHATS)
    good, bad = (Annotation(Target(name), "Q0", "ann", "person", 3) for name in ("a", "nobody"))
    with pytest.raises(BadInput, match="no conversation 'nobody' in the store; import it first"):
        store.add_annotations([good, bad])
    output: list[BadInput] = []
    assert store.add_annotations([good, bad], output.append) == AddedCounts(0, 1) and len(output) == 1


# --- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_exported_annotations_are_restored_in_every_field(ending: str, tmp_path: Path, rubric: Rubric) -> None:
    given, none = annotations(), AddedCounts()
    out, again = tmp_path / f"annotations.{ending}", tmp_path / f"again.{ending}"
    stores = (Store(f"sqlite:///{tmp_path}/{name}.db") for name in ("first", "second"))
    with closing(next(stores)) as first, closing(next(stores)) as second:
        for store in (first, second):
            store.add_conversations(CHATS)
        first.add_annotations(given)
        counts = export_annotations(first, out)
        assert counts == {kind: sum(each.kind == kind for each in given) for kind in ("person", "model", "metric")}
        done = import_files(second, rubric, [out])
        assert (done.annotations, done.labels, done.conversations) == (AddedCounts(len(given), 0), none, none)
        assert list(second.annotations()) == list(first.annotations()) == by_kind(given)
        assert export_annotations(second, again) == counts and again.read_bytes() == out.read_bytes()
        known = import_files(second, rubric, [out]).annotations
        assert known == AddedCounts(0, len(given)), "importing again adds nothing"
    assert not list(tmp_path.glob("*.partial"))


def test_no_cell_of_a_csv_begins_like_a_formula(tmp_path: Path) -> None:
    with AnnotationWriter(tmp_path / "annotations.csv") as writer:
        for each in annotations():
            writer.write(each)
    with (tmp_path / "annotations.csv").open(encoding="utf-8", newline="") as stream:
        cells = [cell for row in csv.reader(stream) for cell in row]
    live = [cell for cell in cells if cell[:1] in set("=+-@\t\r\n＝") and cell[:1]]
    assert live == ["-1"], "a number, and nothing else"
    assert "'=1+1" in cells and "''tis" in cells


def test_an_empty_export_is_readable(tmp_path: Path, memory: Store, rubric: Rubric) -> None:
    assert export_annotations(memory, tmp_path / "none.csv", ["metric"]) == {"metric": 0}
    assert export_annotations(memory, tmp_path / "none.parquet") == {"person": 0, "model": 0, "metric": 0}
    assert list(read_annotations(tmp_path / "none.csv", rubric)) == []
    assert list(read_annotations(tmp_path / "none.parquet", rubric)) == []


GOOD: dict[str, Any] = {"conversation": "a", "question": "Q0", "by": "ann", "kind": "person", "value": 3}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"by": ""}, "'' cannot be an id"),
        ({"kind": None}, "an annotation needs conversation, question, by and kind; kind is empty"),
        ({"kind": "robot"}, "kind 'robot' is unknown; allowed: person, model, metric"),
        ({"turn": -1}, "turn -1 is not an index"),
        ({"value": 7}, "question 'Q0': got 7, allowed: 1, 2, 3, 4"),
        ({"value": [3]}, r"value is a number or a text, got \[3\]"),
        ({"value": True}, "value is a number or a text, got True"),
        ({"conversation": "nobody"}, "no conversation 'nobody' in the store; import it first"),
        ({"turn": 9}, "no turn 9 of a conversation 'a'"),
        ({"span": [1]}, "span is two places in a text"),
        ({"time": 5}, "time 5 is not text"),
        ({"signature": "\0"}, "is not text"),
        ({"distribution": {"1": "x"}}, "distribution is an object with a probability per option"),
        ({"made_from": "x"}, "made_from is an object"),
        ({"losses": "x"}, "losses is a list of texts"),
        ({"part": 2}, "a correction of an issue needs a turn, a signature and a question"),
        ({"kind": "model", "turn": 1, "signature": "s", "group": "g"}, "answers 'overall' with a whole number"),
        ({"kind": "model", "turn": 1, "signature": "s", "group": "g", "part": 1}, "question 'Q0' is not an issue"),
    ],
)
def test_a_bad_row_stops_the_import_or_is_skipped(
    change: dict[str, Any], reason: str, tmp_path: Path, memory: Store, rubric: Rubric
) -> None:
    memory.add_conversations(CHATS)
    path = tmp_path / "annotations.jsonl"
    path.write_text(
        "".join(json.dumps(row) + "\n" for row in (GOOD, GOOD | change, GOOD | {"by": "bob"})), encoding="utf-8"
    )
    with pytest.raises(BadInput, match=reason) as caught:
        import_files(memory, rubric, [path])
    assert str(path) in str(caught.value) and len(memory.labels()) >= 1, "what stood before it is kept"
    done = import_files(memory, rubric, [path], skip_bad_rows=True)
    assert (done.skipped, len(memory.labels())) == (1, 2) and reason.split("\\")[0][:12] in done.bad_rows[0]


def test_a_broken_cell_of_a_table_is_a_bad_row(tmp_path: Path, rubric: Rubric) -> None:
    path = tmp_path / "annotations.csv"
    path.write_text(
        "conversation,question,by,kind,value\na,Q0,ann,person,3\na,kind,ann,person,good\n", encoding="utf-8"
    )
    rows = read_annotations(path, rubric)
    assert next(rows).value == 3
    with pytest.raises(
        BadRow, match=r"annotations.csv, line 3: value 'good' is not JSON \(a word needs quotation marks"
    ):
        next(rows)


def test_an_unknown_kind_or_suffix_is_refused_before_writing(tmp_path: Path, memory: Store) -> None:
    with pytest.raises(UnknownName, match="unknown kind of annotation 'persons'"):
        export_annotations(memory, tmp_path / "a.csv", ["persons"])
    with pytest.raises(BadInput, match=r"cannot write annotations to 'a.xlsx'; the suffix is one of .jsonl, .csv"):
        export_annotations(memory, tmp_path / "a.xlsx")
    assert list(tmp_path.iterdir()) == []


def test_export_and_import_commands_round_trip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chats, ratings = map(str, sources())
    accord("init")
    accord("import", chats, ratings)
    kept = accord_json("export", "people.csv", "--kind", "person")
    people = kept["annotations"]["person"]
    assert people > 100 and kept["out"] == "people.csv"
    assert "by people, 0 by models, 0 by metrics" in accord("export", "all.parquet")
    asked = accord_json("export", "q1.jsonl", "--question", "Q1")["annotations"]["person"]
    rows = [json.loads(row) for row in (tmp_path / "q1.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {row["question"] for row in rows} == {"Q1"} and 0 < asked == len(rows) < people
    (tmp_path / "accord.db").rename(tmp_path / "before.db")
    assert accord_json("import", "people.csv", chats)["annotations"] == {"new": people, "known": 0}
    assert "annotations imported" in accord("import", "all.parquet")
    assert accord_json("import", ratings)["labels"]["new"] == 0, "the labels they were made of are known"

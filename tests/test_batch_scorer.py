"""A saved evaluator as a function of Arrow batches: one row per row, failures as rows, a small pickle."""

import json
import shutil
from datetime import date, datetime, timedelta
from decimal import Decimal

import polars as pl
import pytest
import scaled

from accord.edges import BadInput, UnknownName
from accord.formats import MemoryTable, read, score_schema
from accord.learning import load_evaluator
from accord.models import memory_models, run
from accord.scoring import (
    BatchScorer,
    ModelAccess,
    Perspective,
    ScoreOptions,
)
from accord.testing import check_batch_scorer
from accord.values import BAD_ROW, SCORE_TYPES, SCORED, Conversation, Sample, Turn


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return scaled.saved(tmp_path_factory.mktemp("evaluator"))


@pytest.fixture(scope="module")
def of_turns(tmp_path_factory):
    return scaled.saved(tmp_path_factory.mktemp("turns"), level="turn")


@pytest.mark.parametrize("head", ["curves", "mixed", "auto"])
def test_contract_holds_for_every_head(tmp_path, head):
    if head == "auto":
        scaled.saved(tmp_path, level="turn")
    else:
        scaled.saved(tmp_path, head=head)
    check_batch_scorer(BatchScorer(tmp_path), scaled.drawn(40, 6))


def test_batch_scores_equal_evaluator_scores(folder):
    rows = scaled.drawn(30, 4)
    table = BatchScorer(folder)(pl.DataFrame(rows))
    samples = [Sample(Conversation(r["id"], tuple(Turn(m["role"], m["content"]) for m in r["messages"]))) for r in rows]
    scores = run(load_evaluator(folder).predict(samples), memory_models())
    assert table["value"].to_list() == [score.value for score in scores]
    assert [json.loads(each) for each in table["distribution"]] == [score.distribution for score in scores]
    assert [json.loads(each) for each in table["attributions"]] == [dict(score.attributions) for score in scores]
    assert table["signature"].unique().to_list() == [str(scores[0].signature)]


def test_accepts_arrow_streams_and_returns_pyarrow_for_pyarrow(folder):
    pa = pytest.importorskip("pyarrow")
    scorer, rows = BatchScorer(folder), scaled.drawn(5)
    table = scorer(pa.Table.from_pylist(rows))
    batch = scorer(pa.RecordBatch.from_pylist(rows))
    assert isinstance(table, pa.Table) and isinstance(batch, pa.RecordBatch)
    assert [str(field.type) for field in table.schema] == [
        {int: "int64", float: "double", bool: "bool", str: "string"}[kind] for kind in SCORE_TYPES.values()
    ]
    assert table.to_pylist() == batch.to_pylist() == scorer(pl.DataFrame(rows)).to_dicts()
    empty = pa.RecordBatch.from_pylist(rows)[:0]
    assert scorer(empty).num_rows == 0 and scorer(empty).schema == batch.schema


def test_bad_rows_have_reasons_and_do_not_affect_others(folder):
    rows = scaled.drawn(3)
    frame = pl.DataFrame([
        {"id": "a", "messages": json.dumps(rows[0]["messages"]), "role": None},
        {"id": "b", "messages": None, "role": None},
        {"id": None, "messages": "[1]", "role": None},
        {"id": "a", "messages": json.dumps(rows[1]["messages"]), "role": None},
        {"id": "a", "messages": json.dumps(rows[0]["messages"]), "role": None},
    ])  # fmt: skip
    table = BatchScorer(folder)(frame)
    assert table["status"].to_list() == [SCORED, BAD_ROW, BAD_ROW, SCORED, SCORED]
    assert table["conversation"].to_list()[:2] == ["a", "b"] and table["conversation"][2].startswith("row-")
    assert "format" in table["unscored"][1] and table["value"][1] is None
    assert table["value"][0] == table["value"][4] != table["value"][3], "the same id is scored by its content"


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"conversation": "a", "role": "user", "content": "hi"}, "part of a conversation"),
        ({"conversation": "a"}, "cannot tell the format"),
        ({"id": "a", "messages": [{"role": "user"}], "turn": 5}, "whole conversations"),
        ({"id": "", "messages": [7]}, "a message is an object"),
    ],
)
def test_incomplete_row_is_a_bad_row(folder, row, why):
    [found] = BatchScorer(folder)(pl.DataFrame([row])).to_dicts()
    assert found["status"] == BAD_ROW and why in found["unscored"]


def test_column_turn_selects_the_turn_else_last_reply(of_turns):
    [row] = scaled.drawn(1, 6)
    scorer = BatchScorer(of_turns)
    table = scorer(pl.DataFrame([row, {**row, "turn": 3}, {**row, "turn": 9}], infer_schema_length=None))
    assert table["turn"].to_list() == [5, 3, None] and table["status"].to_list() == [SCORED, SCORED, BAD_ROW]
    assert "turn 9 does not exist; the conversation has 6 turns" in table["unscored"][2]


def test_columns_and_format_can_be_given(folder):
    frame = pl.DataFrame([{"key": "x", "log": row["messages"]} for row in scaled.drawn(3)])
    assert set(BatchScorer(folder)(frame)["status"]) == {BAD_ROW}
    mapped = BatchScorer(folder, columns={"id": "key", "messages": "log"}, format="openai-messages")(frame)
    assert set(mapped["status"]) == {SCORED} and mapped["conversation"].to_list() == ["x"] * 3


def test_perspective_and_options_are_checked(tmp_path):
    scaled.saved(tmp_path, head="mixed")
    frame = pl.DataFrame(scaled.drawn(4))
    ann = BatchScorer(tmp_path, Perspective.named("ann", (), None))(frame)
    panel = BatchScorer(tmp_path, Perspective.named(None, ("ann", "bob"), "min"), ScoreOptions(loss="zero-one"))(frame)
    assert set(ann["annotator"]) == {"ann"} and set(panel["annotator"]) == {"min"}
    assert all(value.is_integer() for value in panel["value"]) and "loss:zero-one" in panel["signature"][0]
    with pytest.raises(UnknownName, match="annotator"):
        BatchScorer(tmp_path, Perspective.named("nobody", (), None))
    with pytest.raises(BadInput, match="one row per input row"):
        BatchScorer(tmp_path, Perspective.named(None, ("ann", "bob"), "each"))
    with pytest.raises(BadInput, match="--ask"):
        BatchScorer(tmp_path, options=ScoreOptions(ask=3))


def test_pickled_scorer_needs_no_folder(tmp_path):
    from multiprocessing.reduction import ForkingPickler

    scorer, frame = BatchScorer(scaled.saved(tmp_path / "e")), pl.DataFrame(scaled.drawn(3))
    before = scorer(frame)
    sent = bytes(ForkingPickler.dumps(scorer))
    shutil.rmtree(tmp_path / "e")
    from accord.scoring import batch as batch_scorer

    batch_scorer._open_scorers.clear()
    again = ForkingPickler.loads(sent)
    assert len(sent) < 1_000_000 and again(frame).equals(before) and len(batch_scorer._open_scorers) == 1
    ForkingPickler.loads(sent)(frame)
    assert len(batch_scorer._open_scorers) == 1, "a process opens it once"


def test_failing_source_affects_one_row(folder, monkeypatch):
    from accord.scoring import batch as batch_scorer

    batch_scorer._open_scorers.clear()
    scorer = BatchScorer(folder)
    kind = type(scorer.evaluator.sources[0])
    measure = kind.measure

    def failing(self, samples):
        if any("case 3 " in sample.conversation.turns[1].content for sample in samples):
            raise ZeroDivisionError("planted")
        return measure(self, samples)

    monkeypatch.setattr(kind, "measure", failing)
    table = scorer(pl.DataFrame(scaled.drawn(10)))
    failed = table.filter(pl.col("status") == "unscored")
    assert len(failed) == 1 and failed["unscored"][0] == "failed: ZeroDivisionError: planted"
    assert table["conversation"].to_list() == [f"c{number}" for number in range(10)]


def test_evaluator_with_models_needs_access(folder, tmp_path, monkeypatch):
    from accord.learning import Evaluator

    monkeypatch.setattr(Evaluator, "roles", property(lambda self: ("judge",)))
    shutil.copytree(folder, tmp_path / "asks")
    (tmp_path / "asks" / "note.txt").write_text("another folder", encoding="utf-8")
    with pytest.raises(BadInput, match="asks its judge"):
        BatchScorer(tmp_path / "asks")
    BatchScorer(tmp_path / "asks", access=ModelAccess(store=f"sqlite:///{tmp_path}/answers.db"))


def test_documented_columns_match_the_schema():
    page = (scaled.Path(__file__).parents[1] / "docs" / "scale.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` | {kind.__name__} |" in page for name, kind in SCORE_TYPES.items())
    assert list(score_schema()) == list(SCORE_TYPES)


@pytest.mark.parametrize(
    "ids",
    [
        [1, 2], ["a", "b"], [date(2020, 1, 1), date(2020, 1, 2)], [datetime(2020, 1, 1), datetime(2020, 1, 2)], [b"a", b"b"],
        [Decimal("1"), Decimal("2")], [timedelta(1), timedelta(2)],
    ],
    ids=lambda ids: type(ids[0]).__name__,
)  # fmt: skip
@pytest.mark.parametrize("column", ["id", "conversation_id"])
def test_ids_are_those_of_an_import(folder, column, ids):
    frame = pl.DataFrame({column: ids, "prompt": ["Hello", "Hi"], "response": ["Yes.", "No."]})
    imported = [record.conversation.id for record in read(MemoryTable(frame))]
    assert BatchScorer(folder)(frame)["conversation"].to_list() == imported


@pytest.mark.attack
def test_cell_out_of_range_is_one_bad_row_of_a_batch(folder):
    times = pl.Series([0, 53_378_000], dtype=pl.Int32).cast(pl.Date)
    frame = pl.DataFrame({"id": ["a", "b"], "prompt": ["Hello"] * 2, "response": ["Yes."] * 2, "time": times})
    assert BatchScorer(folder)(frame)["status"].to_list() == [SCORED, BAD_ROW]

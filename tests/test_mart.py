"""The mart of scores: parts and logs of many writers, each row once, also after kills, truncation and with foreign files."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from processes import Forked
from special_files import make_link, make_pipe
from waiting import at_once

from accord import Store
from accord.edges import BadInput
from accord.store import (
    Mart,
    MartRow,
    StoreError,
    check_store,
    mart_folder,
)
from accord.store.mart.mart import MOST_LOOSE_ROWS
from accord.values import MART_COLUMNS, bundle_of, mart_schema


def row(name: str, value: float | None = 3.0, **more: Any) -> MartRow:
    about = {"conversation": name, "turn": None, "question": "Q0", "annotator": "population", "evaluator": "e@1"}
    score = {"value": value, "low": 2.0, "high": 4.0, "options": [1.0, 2.0, 3.0], "probabilities": [0.2, 0.3, 0.5]}
    return {**about, **score, "scored": 1_000, "origin": "batch", "synthetic": False, **more}


def values(mart: Mart) -> dict[str, float | None]:
    found, _ = mart.read(lambda rows: rows.select("conversation", "value").collect())
    assert len(found) == found["conversation"].n_unique(), "a row counts once"
    return dict(found.iter_rows())


def test_a_row_comes_back_with_every_column(tmp_path: Path) -> None:
    mart = Mart(tmp_path / "scores")
    said = {"system": "a", "version": "2", "topic": "t", "user_group": "g", "language": "de", "time": 86_400_000,
            "synthetic": True, "input": "00ff", "warning": "far", "attributions": "{}", "turn": 3}  # fmt: skip
    mart.add([row("c", **said)])
    [found], state = mart.read(lambda rows: rows.collect().rows(named=True))
    assert tuple(found) == MART_COLUMNS == tuple(mart_schema()) and not state.faults
    assert {name: found[name] for name in said if name != "time"} == {k: v for k, v in said.items() if k != "time"}
    assert found["time"].isoformat() == "1970-01-02T00:00:00" and found["options"] == [1, 2, 3]
    assert found["bundle"] == bundle_of("c")


def test_later_score_of_a_target_counts(tmp_path: Path) -> None:
    mart = Mart(tmp_path)
    mart.add([row("a", 1.0), row("b", 1.0)])
    mart.add([row("a", 2.0, scored=2_000)])
    assert values(mart) == {"a": 2.0, "b": 1.0}
    assert mart.compact() and values(mart) == {"a": 2.0, "b": 1.0}
    mart.add([row("b", 4.0, scored=3_000)])
    assert values(Mart(tmp_path)) == {"a": 2.0, "b": 4.0}
    assert mart.compact() and len(list(tmp_path.glob("*.parquet"))) == 1 and values(mart) == {"a": 2.0, "b": 4.0}


def test_written_rows_are_visible_at_once_and_counted_once(tmp_path: Path) -> None:
    mart, reader = Mart(tmp_path), Mart(tmp_path)
    with mart.writer() as writer:
        writer.write([row("a")])
        assert values(reader) == {"a": 3.0}
        writer.write([row("b"), row("c", None, unscored="refused")])
        assert values(reader) == {"a": 3.0, "b": 3.0, "c": None}
        assert mart.compact() and values(reader) == {"a": 3.0, "b": 3.0, "c": None}
        writer.write([row("a", 1.0, scored=5_000)])
        assert values(reader) == {"a": 1.0, "b": 3.0, "c": None}
    assert not list(tmp_path.glob("live-*")) and values(reader) == {"a": 1.0, "b": 3.0, "c": None}


WRITER = """
import json, sys
from accord.store import Mart
folder, name, row = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
writer = Mart(folder).writer()
for place in range(100_000):
    writer.write([{**row, "conversation": f"{name}-{place}"}])
    print(place, flush=True)
"""


@pytest.mark.posix
def test_killed_writer_loses_no_written_row(tmp_path: Path) -> None:
    names, wanted = ("w0", "w1", "w2"), set[str]()
    arguments = [["-c", WRITER, str(tmp_path), name, json.dumps(row(name))] for name in names]
    writers = [Forked(each, stdout=subprocess.PIPE, text=True) for each in arguments]
    for each in writers:
        assert [each.stdout.readline() for _ in range(50)][-1] == "49\n"
    for each in writers:
        each.kill()
    for each, name in zip(writers, names, strict=True):
        last = each.communicate()[0].splitlines()[-1:] or ["49"]
        wanted |= {f"{name}-{place}" for place in range(int(last[0]) + 1)}
    mart = Mart(tmp_path)
    assert wanted <= values(mart).keys()
    mart.seal()
    assert not list(tmp_path.glob("live-*")) and wanted <= values(mart).keys()
    assert mart.compact() and wanted <= values(Mart(tmp_path)).keys()


@pytest.mark.posix
@pytest.mark.parametrize("lose", [lambda log: log.unlink(), lambda log: log.rename(log.parent.parent / log.name)])
def test_rows_get_a_new_log_after_theirs_was_moved_or_deleted(tmp_path: Path, lose: Callable[[Path], Any]) -> None:
    mart = Mart(tmp_path / "scores")
    with mart.writer() as writer:
        writer.write([row("a")])
        [log] = mart.folder.glob("live-*.jsonl")
        lose(log)
        writer.write([row("b")])
        assert values(mart) == {"b": 3.0}
        lose(next(mart.folder.glob("live-*.jsonl")))
    assert values(mart) == {}


def test_log_with_existing_part_is_not_counted_again(tmp_path: Path) -> None:
    mart = Mart(tmp_path)
    writer = mart.writer()
    writer.write([row("a")])
    [log] = tmp_path.glob("live-*.jsonl")
    content = log.read_bytes()
    writer.close()
    log.write_bytes(content)  # as if the process had ended between the part and the removal of the log
    assert values(Mart(tmp_path)) == {"a": 3.0}
    assert mart.compact()
    assert values(mart) == {"a": 3.0} and not list(tmp_path.glob("live-*"))


def test_replaced_parts_are_ignored_if_not_removed(tmp_path: Path) -> None:
    mart = Mart(tmp_path)
    mart.add([row("a")])
    [part] = tmp_path.glob("*.parquet")
    content = part.read_bytes()
    mart.compact()
    part.write_bytes(content)
    mart.add([row("a", 1.0, scored=9_000)])
    mart.compact()
    part.write_bytes(content)
    assert values(mart) == values(Mart(tmp_path)) == {"a": 1.0}


def instead(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """Replace a file by another file type."""

    def spoil(path: Path) -> None:
        path.unlink()
        make(path)

    return spoil


def about(part: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(pl.read_parquet_metadata(part)["accord-mart"])
    return found


def rewritten(change: Callable[[pl.DataFrame], pl.DataFrame], **more: Any) -> Callable[[Path], object]:
    """Write a part again with other rows or other metadata."""

    def spoil(part: Path) -> None:
        said = {**about(part), **more}
        change(pl.read_parquet(part)).write_parquet(part, metadata={"accord-mart": json.dumps(said)})

    return spoil


def overwritten(part: Path) -> None:
    """Destroy the pages of a part and keep its footer."""
    content = bytearray(part.read_bytes())
    content[4 : len(content) // 4] = b"\xff" * (len(content) // 4 - 4)
    part.write_bytes(bytes(content))


@pytest.mark.parametrize("spoil", [
    lambda part: part.write_bytes(part.read_bytes()[:-20]),
    lambda part: part.write_bytes(b""),
    lambda part: part.write_text("conversation,value\na,3\n", encoding="utf-8"),
    lambda part: pl.DataFrame({"a": [1]}).write_parquet(part),
    lambda part: pl.DataFrame({"a": [1]}).write_parquet(part, metadata={"accord-mart": "{}"}),
    lambda part: pl.DataFrame({"a": [1]}).write_parquet(part, metadata={"accord-mart": "[1]"}),
    lambda part: pl.DataFrame({"a": [1]}).write_parquet(
        part, metadata={"accord-mart": json.dumps({"format": "1", "rows": 1, "base": False, "replaces": []})}
    ),
    lambda part: pl.DataFrame({"a": [1]}).write_parquet(part, metadata={"accord-mart": json.dumps({"format": "9"})}),
    lambda part: pl.DataFrame({"a": [1]}).write_parquet(part, metadata={"accord-mart": "[" * 100_000}),
    overwritten, rewritten(lambda rows: rows.clear()), rewritten(lambda rows: rows, rows=2),
    rewritten(lambda rows: rows.with_columns(pl.col("value").cast(pl.String))), rewritten(lambda rows: rows.drop("low")),
    rewritten(lambda rows: rows, replaces=["../accord.db"]), instead(make_pipe), instead(Path.mkdir),
    instead(lambda path: make_link(path, "/dev/zero")),
], ids=["cut", "empty", "csv", "foreign", "no metadata", "a list", "other columns", "newer", "deep metadata",
        "pages overwritten", "rows gone", "other count", "other type", "a column less", "foreign replaces", "a pipe",
        "a folder", "a device"])  # fmt: skip
@pytest.mark.attack
def test_invalid_part_is_named_and_ignored(tmp_path: Path, spoil: Any) -> None:
    mart = Mart(tmp_path)
    mart.add([row("a")])
    spoiled = tmp_path / "part-0000.parquet"
    mart.add([row("b")], "0000")
    spoil(spoiled)
    for each in (mart, Mart(tmp_path)):
        assert values(each) == {"a": 3.0}
        [fault] = each.read(lambda rows: rows.collect())[1].faults
        assert "part-0000.parquet" in fault and "score its conversations again" in fault
    assert mart.compact() and values(mart) == {"a": 3.0}
    [fault] = mart.faults()
    assert "part-0000.parquet" in fault and not mart.has("0000")


def test_damaged_part_of_a_run_is_written_again_when_the_run_continues(tmp_path: Path) -> None:
    mart = Mart(tmp_path)
    assert mart.add([row("a"), row("b")], "0000") == 2 and mart.add([row("a")], "0000") == 0
    (tmp_path / "part-0000.parquet").write_bytes(b"PAR1")
    assert values(mart) == {} and mart.add([row("a"), row("b")], "0000") == 2
    assert values(mart) == values(Mart(tmp_path)) == {"a": 3.0, "b": 3.0} and not mart.faults()


@pytest.mark.parametrize("spoil", [overwritten, instead(make_pipe)], ids=["pages overwritten", "a pipe"])
@pytest.mark.attack
def test_damaged_compacted_part_is_named_and_the_other_rows_are_read(tmp_path: Path, spoil: Any) -> None:
    mart = Mart(tmp_path)
    mart.add([row("a"), row("b")])
    assert mart.compact()
    [base] = tmp_path.glob("part-*.parquet")
    mart.add([row("c")])
    spoil(base)
    for each in (mart, Mart(tmp_path)):
        assert values(each) == {"c": 3.0}
        [fault] = each.read(lambda rows: rows.collect())[1].faults
        assert base.name in fault
    assert mart.compact() and values(Mart(tmp_path)) == {"c": 3.0} and base.name in mart.faults()[0]


@pytest.mark.parametrize("name", ["live-00.jsonl", "compacting.lock"])
@pytest.mark.parametrize("make", [make_pipe, Path.mkdir], ids=["a pipe", "a folder"])
@pytest.mark.attack
def test_log_or_lock_of_another_file_type_never_blocks(tmp_path: Path, name: str, make: Any) -> None:
    mart = Mart(tmp_path)
    mart.add([row("a")])
    make(tmp_path / name)
    assert values(mart) == {"a": 3.0}
    if name == "compacting.lock":
        with pytest.raises(StoreError, match="compacting.lock is a"):
            mart.compact()
    else:
        assert mart.compact() and values(mart) == {"a": 3.0} and name in mart.state().faults[0]


def test_replaced_files_are_only_those_of_the_mart(tmp_path: Path) -> None:
    kept = tmp_path / "accord.db"
    kept.write_text("x", encoding="utf-8")
    mart = Mart(tmp_path / "mart")
    mart.add([row("a")], "0000")
    rewritten(lambda rows: rows, replaces=["../accord.db"])(tmp_path / "mart" / "part-0000.parquet")
    assert mart.compact() and kept.exists()


@pytest.mark.parametrize("time", [-62_135_647_200_000, 253_402_300_800_000, 2**53])
@pytest.mark.attack
def test_times_outside_the_calendar_are_dropped(tmp_path: Path, time: int) -> None:
    def times(mart: Mart) -> list[Any]:
        found, _ = mart.read(lambda rows: rows.sort("conversation").select(pl.col("time").dt.date()).collect())
        return found["time"].to_list()

    mart = Mart(tmp_path)
    mart.add([row("a", time=time)])
    with mart.writer() as writer:
        writer.write([row("b", time=time)])
    mart.add([row("c")], "0000")
    old = pl.lit(time).cast(pl.Datetime("ms")).alias("time")
    rewritten(lambda rows: rows.with_columns(old))(tmp_path / "part-0000.parquet")
    assert times(mart) == times(Mart(tmp_path)) == [None] * 3
    assert mart.compact()
    [part] = tmp_path.glob("part-*.parquet")
    assert pl.read_parquet(part)["time"].null_count() == 3
    rewritten(lambda rows: rows.with_columns(old))(part)
    assert times(Mart(tmp_path)) == [None] * 3


def test_texts_of_live_rows_become_sendable(tmp_path: Path) -> None:
    mart = Mart(tmp_path)
    with mart.writer() as writer:
        writer.write([row("a"), row("b", system="\ud800", topic="nul\0")])
        found, _ = mart.read(lambda rows: rows.sort("conversation").select("system", "topic").collect())
    assert found.rows() == [(None, None), ("\ufffd", "nul\ufffd")]


@pytest.mark.attack
def test_invalid_lines_of_a_log_do_not_affect_others(tmp_path: Path) -> None:
    mart = Mart(tmp_path)
    with mart.writer() as writer:
        writer.write([row("a")])
        [log] = tmp_path.glob("live-*.jsonl")
        with log.open("ab") as stream:
            stream.write(b'{"conversation": "torn"\n[1]\nnull\n\xff\n')
            for wrong in ({"conversation": 3}, {"turn": "x"}, {"turn": -1}, {"turn": 2**40}, {"options": "1"},
                          {"time": 1e300}, {"value": "3"}, {"synthetic": 2}, {"probabilities": [None]}):  # fmt: skip
                stream.write(json.dumps({**row("wrong"), **wrong}).encode() + b"\n")
        writer.write([row("b")])
        assert values(Mart(tmp_path)) == {"a": 3.0, "b": 3.0}
        assert "13 lines are no rows" in Mart(tmp_path).state().faults[0]


def test_many_threads_write_while_others_read_and_compact(tmp_path: Path) -> None:
    mart = Mart(tmp_path)

    def writes(name: str) -> None:
        with Mart(tmp_path).writer() as writer:
            for place in range(60):
                writer.write([row(f"{name}-{place}")])
            Mart(tmp_path).add([row(f"{name}-whole")])

    def reads() -> None:
        for _ in range(10):
            values(mart)
            Mart(tmp_path).compact()

    at_once([*(partial(writes, f"t{n}") for n in range(4)), reads, reads])
    assert len(values(mart)) == 4 * 61


def test_named_part_is_added_once(tmp_path: Path) -> None:
    mart = Mart(tmp_path)
    assert mart.add([row("a")], "ab12") == 1 and mart.add([row("a"), row("b")], "ab12") == 0
    assert values(mart) == {"a": 3.0}


def test_large_log_becomes_a_part_while_writing_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accord.store.mart.mart.MOST_LOG_ROWS", 5)
    mart = Mart(tmp_path)
    with mart.writer() as writer:
        for place in range(23):
            writer.write([row(f"c{place}")])
            assert len(values(mart)) == place + 1
        assert len(list(tmp_path.glob("part-*.parquet"))) == 4 and len(list(tmp_path.glob("live-*.jsonl"))) == 1
    assert len(values(Mart(tmp_path))) == 23


def test_tidy_compacts_only_many_loose_rows(tmp_path: Path) -> None:
    mart = Mart(tmp_path)
    mart.add([row("a")])
    assert not mart.tidy()
    mart.add(row(f"c{place}") for place in range(MOST_LOOSE_ROWS))
    assert mart.tidy() and len(list(tmp_path.glob("*.parquet"))) == 1


def test_full_disk_gives_one_line(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match="cannot be written"):
        Mart(blocked / "scores").add([row("a")])
    with pytest.raises(StoreError, match="cannot be written"):
        Mart(blocked / "scores").writer().write([row("a")])


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    Store(str(tmp_path / "accord.db")).close()
    place = tmp_path / "accord.db.scores"
    place.write_text("x", encoding="utf-8")
    assert [each.what for each in check_store(str(tmp_path / "accord.db"), place).damage] == [
        f"mart: {place} is not a folder"
    ]
    for write in (lambda: Mart(place).add([row("a")]), lambda: Mart(place).writer().write([row("a")])):
        with pytest.raises(StoreError, match="scores is not a folder; move the file away"):
            write()


def test_mart_folder_follows_the_store() -> None:
    assert mart_folder("sqlite:///x/accord.db") == Path("x/accord.db.scores")
    assert mart_folder("sqlite://") is None
    assert mart_folder("postgresql://host/name") == Path("accord.scores")
    assert mart_folder("sqlite://", "there") == Path("there")
    with pytest.raises(BadInput, match="is a local folder"):
        mart_folder("sqlite://", "s3://bucket/mart")

"""Erasing in files: uploads of every kind, conversations that were only scored, links, and what cannot be read."""

from __future__ import annotations

import bz2
import gzip
import io
import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import accord, accord_json, refused, write_rows
from new_user_files import workbook
from special_files import make_link

from accord import Project
from accord.formats import ScoreWriter
from accord.project import Selection, config_from, erase, expire
from accord.scoring import ConversationFacts, RowOrigin
from accord.scoring.results import ScoreCounts
from accord.values import SCORE_COLUMNS, SCORE_TABLE, SCORE_TYPES, WORDS, ScoreRow, score_frame

GONE, KEPT = "chat-4711", "chat-4712"
SAID = "My parcel from the shop in the old town has not arrived since Tuesday"


def conversation(name: str, said: str = SAID, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": said}, {"role": "assistant", "content": "I will ask."}]
    return {"id": name, "messages": messages, **fields}


def score_row(name: str, **fields: Any) -> dict[str, Any]:
    return {**dict.fromkeys(SCORE_COLUMNS), "conversation": name, "annotator": "population", "rated": False,
            "in_training": False, "value": 3.0, "signature": "s", **fields}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that imported two conversations from outside its folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("accord.yaml").write_text("{}", encoding="utf-8")
    accord("import", write_rows("../chats.jsonl", [conversation(GONE, user="u-1"), conversation(KEPT, "Hello")]))
    return folder


def traces(found: dict[str, Any]) -> dict[str, str]:
    """Kinds of the traces of an erasure by name of the file."""
    return {Path(each["path"]).name: each["kind"] for each in found["files"]}


TABLE = f"conversation,role,content\n{GONE},user,{SAID}\n{GONE},assistant,I will ask.\n"


def uploads() -> dict[str, bytes]:
    """Files that hold the conversation, or its text under another ID, by name."""
    flat, nested = io.BytesIO(), io.BytesIO()
    pl.read_csv(io.StringIO(TABLE)).write_parquet(flat)
    pl.DataFrame([conversation("other-name")]).write_parquet(nested)
    return {
        "rows.jsonl.gz": gzip.compress(json.dumps(conversation(GONE)).encode()),
        "packed.txt": gzip.compress(f"Customer: {SAID}\nAgent: I will ask.\n".encode()),
        "rows.csv.bz2": bz2.compress(TABLE.encode()),
        "table.csv": TABLE.encode(),
        "utf16.csv": TABLE.encode("utf-16"),
        "utf16.jsonl": json.dumps(conversation("other-name")).encode("utf-16"),
        "windows.csv": f"conversation,role,content\nanother,user,Grüße! {SAID}\n".encode("cp1252"),
        "table.parquet": flat.getvalue(),
        "nested.parquet": nested.getvalue(),
        "book.xlsx": Path(workbook("../book.xlsx", [line.split(",") for line in TABLE.splitlines()])).read_bytes(),
        "labels.csv": f"conversation,question,annotator,value\n{GONE},Q0,ann,3\n".encode(),
    }


@pytest.mark.attack
def test_uploads_of_every_kind_are_removed_and_own_files_listed(project: Path) -> None:
    others = {
        "other.csv": b"conversation,role,content\nc,user,Hello there\n",
        "other.gz": gzip.compress(b"nothing of it"),
    }
    held = uploads()
    for folder in ("uploads", "own"):
        Path(folder).mkdir()
        for name, content in {**held, **others}.items():
            Path(folder, name).write_bytes(content)
    found = accord_json("store", "erase", "--conversation", GONE, "--yes")["files"]
    kinds = {(Path(each["path"]).parent.name, Path(each["path"]).name): each["kind"] for each in found}
    assert kinds == {(folder, name): kind for folder, kind in (("uploads", "upload"), ("own", "yours"))
                     for name in held}  # fmt: skip
    assert {path.name: path.read_bytes() for path in Path("uploads").iterdir()} == others
    assert {path.name: path.read_bytes() for path in Path("own").iterdir()} == {**held, **others}


def test_an_upload_without_ids_is_found_by_the_reader_that_imported_it(project: Path) -> None:
    Path("uploads").mkdir()
    Path("uploads/short.csv").write_text("user,assistant\nHi,Yes\nHo,No\n", encoding="utf-8")
    accord("import", "uploads/short.csv")
    with Project(config_from({"store": "sqlite:///accord.db"})) as opened:
        [first, *_] = [name for name in opened.store.conversation_ids() if name.startswith("short")]
    assert traces(accord_json("store", "erase", "--conversation", first, "--yes")) == {"short.csv": "upload"}


@pytest.mark.attack
def test_what_cannot_be_read_is_named(project: Path) -> None:
    Path("uploads").mkdir()
    Path("outside").mkdir()
    for name, content in {
        "uploads/broken.gz": b"\x1f\x8b\x08\x00broken", "uploads/broken.xlsx": b"no workbook", "old.xls": b"\xd0\xcf\x11\xe0",
        "broken.parquet": b"PAR1broken", "archive.zip": b"PK\x03\x04" + b"\0" * 60, "scan.pdf": b"%PDF-1.7 \xff\xfe",
        "notes.txt": b"nothing of it", "empty.csv": b"", "image.png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    }.items():  # fmt: skip
        Path(name).write_bytes(content)
    found = traces(accord_json("store", "erase", "--conversation", GONE, "--yes"))
    assert found == dict.fromkeys(
        ["broken.gz", "broken.xlsx", "old.xls", "broken.parquet", "archive.zip", "scan.pdf", "image.png"], "unreadable"
    )
    assert sorted(path.name for path in Path("uploads").iterdir()) == ["broken.gz", "broken.xlsx"]


@pytest.mark.attack
def test_links_out_of_the_folder_are_named_and_not_followed(project: Path) -> None:
    far = project.parent / "far"
    (far / "uploads").mkdir(parents=True)
    write_rows(str(far / "uploads/chats.jsonl"), [conversation(GONE)])
    Path("own").mkdir()
    make_link(Path("uploads"), far / "uploads")
    make_link(Path("own/chats.jsonl"), far / "uploads/chats.jsonl")
    make_link(Path("inside"), Path("own").resolve())
    make_link(Path("nowhere"), far / "missing")
    Path(".git").mkdir()
    found = accord_json("store", "erase", "--conversation", GONE, "--yes")
    assert traces(found) == {"uploads": "unreadable", "chats.jsonl": "unreadable", ".git": "unreadable"}
    assert (far / "uploads/chats.jsonl").exists()


# --- conversations that were scored and never imported -----------------------------------------------------------------


def scored(names: dict[str, int | None], source: str) -> None:
    """Write score files, and scores on the board with the times of the conversations, as `accord score` does."""
    write_rows("scores.jsonl", [score_row(name) for name in names])
    pl.DataFrame({"conversation": list(names), "value": 3.0, "signature": "s"}).write_csv("scores.csv")
    with Project(config_from({"store": "sqlite:///accord.db"})) as opened:
        run = opened.store.start_run("score", {"source": source})
        origin = RowOrigin("Q0", "e@1", run=run)
        opened.mart.add(
            row for name, time in names.items()
            for row in origin.rows(score_row(name), ConversationFacts(time=time), 1_790_000_000_000, None)
        )  # fmt: skip
        opened.store.finish_run(run, "done", {})


def left() -> set[str]:
    """Conversations that score files and the board still name."""
    with Project(config_from({"store": "sqlite:///accord.db"})) as opened:
        board = opened.mart.read(lambda rows: rows.select("conversation").collect())[0]["conversation"].to_list()
    lines = Path("scores.jsonl").read_text(encoding="utf-8").splitlines()
    return {*board, *(json.loads(line)["conversation"] for line in lines), *pl.read_csv("scores.csv")["conversation"]}


@pytest.mark.parametrize("place", ["../new.jsonl", "new.jsonl"])
def test_scores_of_a_user_who_was_never_imported_are_erased(project: Path, place: str) -> None:
    source = write_rows(place, [conversation("new-1", user="u-1"), conversation("new-2", user="u-2")])
    scored({"new-1": None, "new-2": None}, source)
    found = accord_json("store", "erase", "--user", "u-1", "--yes")
    assert (found["conversations"], found["scores"], found["unknown"]) == (2, 1, 0), "one stored, one only scored"
    assert left() == {"new-2"}


def test_scored_conversations_of_unknown_users_are_counted(project: Path) -> None:
    scored({"new-1": None, "new-2": None}, "../gone.jsonl")
    text = accord("store", "erase", "--user", "u-1", "--yes")
    assert "2 scored conversations outside the store may be by this user: no file here names the user" in text
    assert "2 scored conversations outside the store are in no file here" in refused("store", "erase", "--user", "u-9")
    assert left() == {"new-1", "new-2"}


def test_a_conversation_that_only_a_score_file_names_is_erased(project: Path) -> None:
    write_rows("scores.jsonl", [score_row("new-1"), score_row("new-2")])
    assert accord_json("store", "erase", "--conversation", "new-1", "--yes")["conversations"] == 1
    assert [json.loads(line)["conversation"] for line in Path("scores.jsonl").read_text("utf-8").splitlines()] == [
        "new-2"
    ]
    assert "no conversation 'nobody'" in refused("store", "erase", "--conversation", "nobody", "--yes")


def test_scores_age_by_the_time_of_their_conversation(project: Path) -> None:
    scored({"old": 1_735_689_600_000, "new": 1_785_000_000_000, "undated": None}, "../gone.jsonl")
    with Project(config_from({"store": "sqlite:///accord.db"}, folder=project)) as opened:
        assert erase(opened, Selection(before=datetime(2026, 1, 1, tzinfo=UTC))).conversations == 1
    assert left() == {"new", "undated"}


# --- every column that may hold words, in every place of scores ------------------------------------------------------

CANARY = "CANARY-4711"


def test_a_score_has_its_columns_and_every_column_says_whether_it_holds_words() -> None:
    assert tuple(ScoreRow.__annotations__) == SCORE_COLUMNS and set(SCORE_COLUMNS) < set(SCORE_TYPES)
    assert {name for name, column in SCORE_TABLE.items() if column.kind in ("text", "json") and not column.holds_words} == {
        "conversation", "annotator", "version", "signature", "status", "distribution", "question", "evaluator", "system",
        "origin", "run",
    }  # fmt: skip


def planted(name: str) -> dict[str, Any]:
    """A row of a file of scores with the canary in every column that may hold words."""
    cells = {column: CANARY if SCORE_TABLE[column].kind == "text" else {CANARY: 1.0}
             for column in SCORE_COLUMNS if column in WORDS}  # fmt: skip
    return score_row(name, **cells)


def bytes_left() -> bytes:
    return b"".join(
        path.read_bytes() for path in Path().rglob("*") if path.is_file() and path.suffix not in (".db", "")
    )


@pytest.mark.parametrize("keeps", [True, False], ids=["kept under a pseudonym", "removed"])
def test_no_column_of_any_place_keeps_a_word(project: Path, keeps: bool) -> None:
    rows = [planted(GONE), planted("=" + GONE), score_row(KEPT)]
    for name in ("scores.jsonl", "scores.csv", "scores.parquet"):
        with ScoreWriter(Path(name)) as writer:
            writer.write(rows)
    live = {**planted(GONE), "status": "scored", "id": CANARY, "system": "a", "error": CANARY}
    write_rows("rows.jsonl", [live, {**score_row(KEPT), "status": "scored"}])
    annotation = {"conversation": KEPT, "against": GONE, "question": "Q0", "by": "ann", "kind": "person", "value": 1,
                  "quote": CANARY, "comment": CANARY, "span": CANARY}  # fmt: skip
    write_rows("annotations.jsonl", [annotation])
    pl.DataFrame([annotation]).write_parquet("annotations.parquet")
    pl.DataFrame([annotation]).write_csv("annotations.csv")
    facts = ConversationFacts("a", "1", CANARY, CANARY, CANARY, 1)
    with Project(config_from({"store": "sqlite:///accord.db"})) as opened:
        made = [[*RowOrigin("Q0", "e@1").rows(row, facts, 1, CANARY)] for row in rows[:2]]
        opened.mart.add([*made[1], *RowOrigin("Q0", "e@1").rows(rows[2], ConversationFacts(), 1, None)])
        with opened.mart.writer() as writer:
            writer.write(made[0])
            assert CANARY.encode() in bytes_left()
            options = ["--keep-scores"] if keeps else []
            found = accord_json(
                "store", "erase", "--conversation", GONE, "--conversation", "=" + GONE, "--yes", *options
            )
    assert found["scores"] == 2 and {
        Path(each["path"]).name: each["rows"] for each in found["files"]
    } == {"scores.jsonl": 2, "scores.csv": 2, "scores.parquet": 2, "rows.jsonl": 1,
            "annotations.jsonl": 1, "annotations.csv": 1, "annotations.parquet": 1}  # fmt: skip
    left = bytes_left()
    assert CANARY.encode() not in left and GONE.encode() not in left and KEPT.encode() in left
    with Project(config_from({"store": "sqlite:///accord.db"})) as opened:
        board = opened.mart.read(lambda rows: rows.collect())[0]
        assert len(board) == len(pl.read_parquet("scores.parquet")) == (3 if keeps else 1)
        assert board["unscored"].drop_nulls().to_list() == (["erased"] * 2 if keeps else [])


@pytest.mark.parametrize("keeps", [True, False], ids=["kept under a pseudonym", "removed"])
def test_a_folder_of_parts_keeps_no_word_and_counts_again(project: Path, keeps: bool) -> None:
    part = Path("parts/part-0123456789abcdef.parquet")
    part.parent.mkdir()
    frame = score_frame([planted(GONE), score_row(KEPT)], is_escaped=True).with_columns(status=pl.lit("scored"))
    about = {"key": "0123456789abcdef", "place": "a", "urls": [], "start": 0, **asdict(ScoreCounts.of(frame))}
    frame.write_parquet(part, metadata={"accord": json.dumps(about)})
    manifest = {"format": 2, "made_from": "x", "parts": [about]}
    Path("parts/manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    options = ["--keep-scores"] if keeps else []
    found = accord_json("store", "erase", "--conversation", GONE, "--yes", *options)
    assert [(each["kind"], each["rows"]) for each in found["files"]] == [("scores", 1)]
    assert CANARY.encode() not in bytes_left() and GONE.encode() not in bytes_left()
    [listed] = json.loads(Path("parts/manifest.json").read_text(encoding="utf-8"))["parts"]
    assert listed["rows"] == len(pl.read_parquet(part)) == (2 if keeps else 1) and listed["warnings"] == {}


# --- logs of live scores -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keeps", [True, False])
def test_erased_lines_of_a_log_stay_valid_json_in_place(project: Path, keeps: bool) -> None:
    rows = [{"status": "refused", "error": "no JSON"},
            {"status": "heard", "conversation": GONE, "id": None, "system": None},
            {**score_row(GONE), "status": "scored", "notes": ["It says " + SAID]},
            {**score_row(KEPT), "status": "scored"}]  # fmt: skip
    write_rows("rows.jsonl", rows)
    before = Path("rows.jsonl").read_bytes()
    with Path("rows.jsonl").open("ab") as writer:  # a follower keeps its file open
        accord("store", "erase", "--conversation", GONE, "--yes", *(["--keep-scores"] if keeps else []))
        writer.write(json.dumps({**score_row("later"), "status": "scored"}).encode() + b"\n")
    after = Path("rows.jsonl").read_bytes()
    found = [json.loads(line) for line in after.splitlines()]
    assert [len(line) for line in after.splitlines()[:4]] == [len(line) for line in before.splitlines()]
    assert SAID.encode() not in after and GONE.encode() not in after
    assert found[0] == rows[0] and found[3] == rows[3] and found[4]["conversation"] == "later"
    assert found[1] == {"status": "erased", "conversation": None}
    assert found[2].get("value") == (3.0 if keeps else None)
    accord("import", "--with-erased", "../chats.jsonl")
    assert "rows.jsonl" not in traces(accord_json("store", "erase", "--conversation", GONE, "--yes"))


# --- times ---------------------------------------------------------------------------------------------------------

DAY = 1_767_225_600  # 2026-01-01
OLD: dict[str, dict[str, Any]] = {
    "iso": {"time": "2026-01-01T00:00:00Z"}, "seconds": {"time": DAY}, "fraction": {"time": DAY + 0.5},
    "text": {"time": str(DAY)}, "milliseconds": {"created_at": DAY * 1000}, "text of milliseconds": {"timestamp": f"{DAY}000"},
    "nanoseconds": {"time": str(DAY * 10**9)}, "second name": {"time": "noon", "created": DAY},
}  # fmt: skip


def test_retention_reads_times_in_every_form(tmp_path: Path) -> None:
    def timed(name: str, where: str, time: dict[str, Any]) -> dict[str, Any]:
        row = conversation(f"{name} of the {where}")
        (row if where == "conversation" else row["messages"][0]).update(time)
        return row

    later = DAY + 9 * 86_400
    new = {"number": {"time": later}, "text": {"time": str(later)}, "milliseconds": {"created_at": later * 1000}}
    rows = [timed(f"{age} {name}", where, time) for age, times in (("old", OLD), ("new", new))
            for where in ("conversation", "message") for name, time in times.items()]  # fmt: skip
    settings = {"store": f"sqlite:///{tmp_path}/a.db", "privacy": {"retention": {"conversations": "7 days"}}}
    with Project(config_from(settings, folder=tmp_path)) as opened:
        opened.import_(rows)
        expire(opened, now=datetime(2026, 1, 12, tzinfo=UTC))
        left = list(opened.store.conversation_ids())
    assert left == sorted(row["id"] for row in rows if row["id"].startswith("new"))


def test_retention_reads_times_of_tables(project: Path) -> None:
    table = f"conversation,role,content,time\nold,user,Hi,{DAY}\nold,assistant,Yes,{DAY + 60}\nnew,user,Ho,{DAY * 2}\n"
    Path("../turns.csv").write_text(table, encoding="utf-8")
    accord("import", "../turns.csv")
    assert accord_json("store", "erase", "--before", "2026-02-01", "--yes")["conversations"] == 1

"""Following a log: every reply is scored once, across restarts, renames, truncations and crashes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from commands import accord, accord_json
from host_servers import KEYS, HostServer
from live_evaluator import predicted, replies
from new_project import new_project
from processes import Forked
from special_files import make_pipe
from waiting import PATIENCE, until

from accord import (
    Conversation,
    Document,
    Evaluator,
    LiveScorer,
    Score,
    Turn,
)
from accord.cli import (
    commands,  # noqa: F401 - registers the commands
)
from accord.edges import AccordError, BadInput, UnknownName
from accord.learning import load_evaluator
from accord.live import (
    LogFollower,
    RowLog,
    log_follower,
    open_ingestor,
    report,
)
from accord.live.ingest import Ingestor, LiveContext
from accord.live.messages import (
    HistoryDeduplicator,
    Message,
)
from accord.store import Mart, Store


def messages(chats: list[Conversation]) -> list[dict[str, Any]]:
    """Return the messages of all conversations, interleaved."""
    turns = sorted(((place, n) for n, c in enumerate(chats) for place in range(len(c.turns))))
    return [
        {"conversation_id": chats[n].id, "role": chats[n].turns[place].role, "content": chats[n].turns[place].content,
         "latency_ms": 7, "documents": [d.text for d in chats[n].documents], "timestamp": f"2026-03-0{1 + place}T10:00:00Z"}
        for place, n in turns
    ]  # fmt: skip


def write(path: Path, rows: list[Any], mode: str = "a") -> None:
    with path.open(mode, encoding="utf-8") as log:
        log.writelines(json.dumps(row) + "\n" for row in rows)


def once(folder: Path, evaluator: Evaluator) -> int:
    """Read the log to its current end, as a new process does."""
    with RowLog(folder / "rows.jsonl") as rows:
        ingestor = Ingestor(LiveScorer(evaluator))
        return LogFollower(folder / "log.jsonl", ingestor, rows, folder / "position").run(once=True)


def kept(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]


def expected(chats: list[Conversation], evaluator: Evaluator) -> dict[tuple[str, int], float]:
    """Return the score of every reply, as in a batch."""
    scores = predicted(evaluator, replies(*chats))
    return {(s.target.conversation, s.target.turn or 0): s.value for s in scores if isinstance(s, Score)}


class CountingIngestor:
    """Ingestor that gives each reply its turn number instead of a score."""

    def __init__(self) -> None:
        self.turns: dict[str, int] = {}
        self.memory = None
        self.events: list[str] = []
        self.fails = False

    @property
    def scorer(self) -> CountingIngestor:
        return self

    def settle(self, position: tuple[str, str] | None = None) -> None:
        self.events.append("settle")
        if self.fails:
            raise AccordError("the store is busy")

    def position(self, key: str) -> str | None:
        return None

    def redacted(self, batch: Sequence[Message]) -> list[Message]:
        return list(batch)

    def take(self, batch: Sequence[Message]) -> list[dict[str, Any]]:
        rows = []
        for message in batch:
            turn = self.turns[message.conversation] = self.turns.get(message.conversation, -1) + 1
            status = "scored" if message.role == "assistant" else "heard"
            rows.append({"status": status, "conversation": message.conversation, "turn": turn, "id": message.content})
        return rows


class World:
    """Log with a writer, a rotator and a follower."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log, self.count, self.notes = folder, folder / "log.jsonl", 0, list[str]()
        self.gaps = 0

    def line(self) -> str:
        row = {"conversation": f"c{self.count // 3}", "role": "assistant", "content": str(self.count)}
        self.count += 1
        return json.dumps(row) + "\n"

    def write(self, count: int, mode: str = "a") -> None:
        with self.log.open(mode) as log:
            log.write("".join(self.line() for _ in range(count)))

    def rotate(self) -> Path:
        return self.log.rename(self.folder / "log.jsonl.1")

    def follower(self, rows: RowLog, stop: threading.Event | None = None) -> LogFollower:
        ingestor = cast(Ingestor, CountingIngestor())
        return LogFollower(self.log, ingestor, rows, self.folder / "position", stop=stop, log=self.notes.append)

    def once(self) -> None:
        with RowLog(self.folder / "rows.jsonl") as rows:
            follower = self.follower(rows)
            follower.run(once=True)
        self.gaps += follower.gaps

    def found(self) -> list[int]:
        return [int(row["id"]) for row in kept(self.folder) if row["status"] == "scored"]

    def wait(self) -> None:
        """Wait until every line is scored."""
        path = self.folder / "rows.jsonl"
        until(lambda: path.exists() and len(self.found()) >= self.count, lambda: (self.found(), self.notes))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[World], None]]:
    """Start a follower in a thread that ends with the test."""
    monkeypatch.setattr(log_follower, "GRACE_SECONDS", 0.1)
    stop, threads = threading.Event(), list[threading.Thread]()

    def start(world: World) -> None:
        def run_follower() -> None:
            with RowLog(world.folder / "rows.jsonl") as rows:
                world.follower(rows, stop).run(interval=0.02)

        threads.append(threading.Thread(target=run_follower, daemon=True))
        threads[0].start()

    yield start
    stop.set()
    for thread in threads:
        thread.join()


# --- restarts ---------------------------------------------------------------------------------------------------------


def test_restarts_anywhere_change_no_score(
    chats: list[Conversation], evaluator: Evaluator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_follower, "BATCH_LINES", 7)
    rows, log = messages(chats[:12]), tmp_path / "log.jsonl"
    for start in range(0, len(rows), 11):  # a new process for every 11 lines
        write(log, rows[start : start + 11])
        assert once(tmp_path, evaluator) == len(rows[start : start + 11])
    found = kept(tmp_path)
    values = {(row["conversation"], row["turn"]): row["value"] for row in found}
    assert len(values) == len(found) and values == pytest.approx(expected(chats[:12], evaluator))
    assert once(tmp_path, evaluator) == 0 and len(kept(tmp_path)) == len(found)


@pytest.mark.parametrize("is_torn", [False, True])
@pytest.mark.parametrize("killed", [1, 2, 3, 5])
@pytest.mark.attack
def test_killed_follower_writes_every_row_once(
    world: World, monkeypatch: pytest.MonkeyPatch, killed: int, is_torn: bool
) -> None:
    """The process ends after rows are on the disk and before their position is."""
    monkeypatch.setattr(log_follower, "BATCH_LINES", 2)
    monkeypatch.setattr(log_follower, "SAVE_SECONDS", 0.0)
    world.write(12)
    save, saved = log_follower.Position.save, list[int]()

    def save_or_die(position: log_follower.Position, path: Path) -> None:
        saved.append(1)
        if len(saved) == killed:
            raise KeyboardInterrupt
        save(position, path)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(log_follower.Position, "save", save_or_die)
        world.once()
    rows = world.folder / "rows.jsonl"
    if is_torn and rows.stat().st_size:
        rows.write_bytes(rows.read_bytes()[:-20])
    world.write(3)
    world.once()
    lines = [line for line in rows.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    assert [int(json.loads(line)["id"]) for line in lines] == list(range(15)) and not world.gaps
    assert [json.loads(line)["turn"] for line in lines] == [0, 1, 2] * 5, "conversations continue"


@pytest.mark.parametrize("killed", [2, 3, 4])
@pytest.mark.attack
def test_monitoring_and_board_count_the_replies_of_a_killed_follower_once(
    chats: list[Conversation], evaluator: Evaluator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: int
) -> None:
    """The process ends after the monitoring data are in the store and before the position is on the disk."""
    monkeypatch.setattr(log_follower, "BATCH_LINES", 5)
    monkeypatch.setattr(log_follower, "SAVE_SECONDS", 0.0)
    evaluator.save(tmp_path / "evaluator")
    write(tmp_path / "log.jsonl", messages(chats[:8]))
    store, mart = Store(f"sqlite:///{tmp_path / 'store.db'}"), Mart(tmp_path / "mart")

    def follow() -> None:
        folder = tmp_path / "evaluator"
        with (
            RowLog(tmp_path / "rows.jsonl") as rows,
            open_ingestor(folder, context=LiveContext(store=store, mart=mart), follows=True) as ingestor,
        ):
            LogFollower(tmp_path / "log.jsonl", ingestor, rows, tmp_path / "position").run(once=True)

    save, saved = log_follower.Position.save, list[int]()

    def save_or_die(position: log_follower.Position, path: Path) -> None:
        saved.append(1)
        if len(saved) == killed:
            raise KeyboardInterrupt
        save(position, path)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(log_follower.Position, "save", save_or_die)
        follow()
    follow()
    replies_in_log = len(expected(chats[:8], evaluator))
    assert len(kept(tmp_path)) == replies_in_log
    assert sum(row["replies"] for row in report(store, days=36500)["days"]) == replies_in_log
    count, _ = mart.read(lambda scores: int(scores.select("key").collect().height))
    assert count == replies_in_log
    store.close()


def test_torn_row_ends_before_the_next_row(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"status": "scor', encoding="utf-8")
    with RowLog(tmp_path / "rows.jsonl") as log:
        log.write([{"status": "scored"}])
    assert (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines() == [
        '{"status": "scor',
        '{"status": "scored"}',
    ]


@pytest.mark.parametrize("change", ["rotated", "truncated", "rewritten longer"])
def test_log_that_changed_while_stopped_is_reported_and_read_from_its_beginning(world: World, change: str) -> None:
    world.write(5)
    world.once()
    if change == "rotated":
        world.rotate()
    world.write(9 if change == "rewritten longer" else 2, "w")
    world.once()
    world.write(1)
    world.once()
    assert world.found() == list(range(world.count)) and world.gaps == 1
    assert len(world.notes) == 1 and "rotated or truncated while the follower was stopped" in world.notes[0]


def test_scores_are_in_the_store_before_the_position_is_saved(world: World) -> None:
    world.write(2)
    with RowLog(world.folder / "rows.jsonl") as rows:
        follower = world.follower(rows)
        ingestor = cast(CountingIngestor, follower.ingestor)
        ingestor.fails = True
        follower.run(once=True)
    position = log_follower.Position.load(world.folder / "position")
    assert position is not None and position.offset == 0 and "settle" in ingestor.events
    assert len(world.notes) == 1 and "the position is not saved for now: the store is busy" in world.notes[0]
    world.once()
    assert world.found() == [0, 1]


DAMAGED_POSITIONS = {
    "empty": "",
    "zeros": "\0" * 40,
    "list": "[]",
    "negative offset": '{"offset": -1}',
    "text for a number": '{"inode": "7"}',
    "unknown field": '{"more": 1}',
    "other version": '{"version": 2}',
}


@pytest.mark.parametrize("content", DAMAGED_POSITIONS.values(), ids=DAMAGED_POSITIONS)
@pytest.mark.attack
def test_damaged_position_is_an_error_with_a_solution(world: World, content: str) -> None:
    world.write(2)
    (world.folder / "position").write_text(content, encoding="utf-8")
    with pytest.raises(BadInput, match=r"position holds no valid position in a log .*remove it to read") as caught:
        world.once()
    assert "\n" not in str(caught.value)


# --- running ----------------------------------------------------------------------------------------------------------


def test_renamed_and_new_files_are_read_once(world: World, running: Callable[[World], None]) -> None:
    world.write(2)
    running(world)
    world.wait()
    for _ in range(3):
        with world.log.open("a") as slow_writer:
            world.write(2)
            world.rotate()
            world.write(1)
            slow_writer.write(world.line())
        world.wait()
    assert sorted(world.found()) == list(range(world.count)) and not world.notes


def test_deleted_log_is_read_to_its_end(world: World, running: Callable[[World], None]) -> None:
    world.write(2)
    running(world)
    world.wait()
    for _ in range(2):
        world.write(3)
        world.log.unlink()
        world.write(2)
        world.wait()
    assert world.found() == list(range(world.count)) and not world.notes


@pytest.mark.parametrize("count", [1, 9])
def test_truncated_log_is_reported_and_read_from_its_beginning(
    world: World, running: Callable[[World], None], count: int
) -> None:
    world.write(5)
    running(world)
    world.wait()
    world.write(count, "w")
    world.wait()
    world.write(1)
    world.wait()
    assert world.found() == list(range(world.count))
    assert len(world.notes) == 1 and "was truncated" in world.notes[0]


def test_log_may_appear_later(world: World, running: Callable[[World], None]) -> None:
    running(world)
    world.write(2)
    world.wait()
    assert world.found() == [0, 1]


# --- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.attack
def test_invalid_lines_are_reported_with_their_offset(
    evaluator: Evaluator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_follower, "MAX_LINE_BYTES", 70_000)
    monkeypatch.setattr(log_follower, "CHUNK_BYTES", 30_000)
    good = {"conversation": "c", "role": "bot", "content": "We open at nine."}
    last = json.dumps({**good, "content": "half"}).encode()
    invalid = {1: "no JSON", 3: "object", 4: "", 5: "", 6: "MB", 7: "'narrator'", 8: ""}
    lines = [
        json.dumps(good).encode(), b"not json", b"", b"[1, 2]", b"\xff\xfe\x00", b'{"role": "assistant"}', b"x" * 212_345,
        json.dumps({**good, "role": "narrator"}).encode(), b'{"a": 1}', json.dumps({**good, "conversation": 17, "time": "noon"}).encode(),
    ]  # fmt: skip
    (tmp_path / "log.jsonl").write_bytes(b"\r\n".join(lines) + b"\n" + last[:-5])
    assert once(tmp_path, evaluator) == 9
    found = kept(tmp_path)
    assert [row["conversation"] for row in found if row["status"] == "scored"] == ["c", "17"]
    bad = [row for row in found if row["status"] == "refused"]
    starts = [sum(len(line) + 2 for line in lines[:place]) for place in invalid]
    assert [row["at"] for row in bad] == starts
    assert all(text in row["error"] for row, text in zip(bad, invalid.values(), strict=True))
    with (tmp_path / "log.jsonl").open("ab") as log:
        log.write(last[-5:] + b"\n")
    assert once(tmp_path, evaluator) == 1, "the line that was being written"
    assert [row["turn"] for row in kept(tmp_path) if row.get("conversation") == "c"] == [0, 1]


def test_lines_that_repeat_the_conversation_add_new_turns_only(
    chats: list[Conversation], evaluator: Evaluator, tmp_path: Path
) -> None:
    so_far = [
        {"id": c.id, "messages": [{"role": t.role, "content": t.content} for t in c.turns[: place + 1]],
         "documents": [d.text for d in c.documents]}
        for c in chats[:5]
        for place, turn in enumerate(c.turns)
        if turn.role == "assistant"
    ]  # fmt: skip
    write(tmp_path / "log.jsonl", [so_far[0], *so_far])
    once(tmp_path, evaluator)
    values = {(row["conversation"], row["turn"]): row["value"] for row in kept(tmp_path)}
    assert len(values) == len(kept(tmp_path)) and values == pytest.approx(expected(chats[:5], evaluator))


def test_blank_lines_and_a_byte_order_mark_are_skipped(evaluator: Evaluator, tmp_path: Path) -> None:
    row = {"conversation": "c", "role": "assistant", "content": "We open at nine."}
    (tmp_path / "log.jsonl").write_text(
        "\ufeff" + json.dumps(row) + "\n" * 900 + json.dumps({**row, "content": "And close at five."}) + "\n",
        encoding="utf-8",
    )
    assert once(tmp_path, evaluator) == 2 and [each["turn"] for each in kept(tmp_path)] == [0, 1]


def test_invalid_logs_are_refused(world: World) -> None:
    with pytest.raises(BadInput, match="no log at"):
        world.once()
    with RowLog(world.folder / "rows.jsonl") as rows:
        ingestor = cast(Ingestor, CountingIngestor())
        with pytest.raises(UnknownName, match="format 'nosuch'"):
            LogFollower(world.log, ingestor, rows, world.folder / "position", format="nosuch")
        with pytest.raises(BadInput, match="name another file for the position"):
            LogFollower(world.log, ingestor, rows, world.log)
    make_pipe(world.log)
    with pytest.raises(BadInput, match="is a named pipe, not a file; name a file"):
        world.once()


def test_standard_input_is_read_to_its_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(fileno=lambda: reader))
    text = world.line() + world.line() + world.line()
    os.write(writer, text[:-2].encode())
    os.write(writer, b"}")
    os.close(writer)
    with RowLog(world.folder / "rows.jsonl") as rows:
        ingestor = cast(Ingestor, CountingIngestor())
        assert LogFollower(Path("-"), ingestor, rows, world.folder / "position").run() == 3
    os.close(reader)
    assert world.found() == [0, 1, 2] and not (world.folder / "position").exists()


# --- histories --------------------------------------------------------------------------------------------------------


TURNS = [Turn("user" if place % 2 == 0 else "assistant", f"text {place}") for place in range(500)]
ASK, ONE, OTHER = Turn("user", "hi"), Turn("assistant", "hello"), Turn("assistant", "good day")
PIECES = [[Turn("user", question), Turn("assistant", "Sorry, I cannot.")] for question in ("hi", "more", "hi", "hi")]


@pytest.mark.parametrize(
    ("rows", "new"),
    [
        ([[ASK, ONE], [ASK, OTHER]], [[ASK, ONE], [OTHER]]),
        ([TURNS[:4], TURNS[:2], TURNS[:6]], [TURNS[:4], [], TURNS[4:6]]),
        (
            [TURNS[:20], [*TURNS[:19], OTHER], [*TURNS[:19], OTHER, *TURNS[20:22]]],
            [TURNS[:20], [OTHER], TURNS[20:22]],
        ),
        ([TURNS[:280], [*TURNS[:279], OTHER]], [TURNS[:280], [OTHER]]),
        ([TURNS[:280], TURNS[:300]], [TURNS[:280], TURNS[280:300]]),
        ([TURNS[:end] for end in range(2, 501, 2)], [TURNS[end - 2 : end] for end in range(2, 501, 2)]),
        (PIECES, PIECES),
    ],
    ids=["regenerated reply", "older row arrives late", "changed and continued", "changed late", "many turns", "growing",
         "in pieces"],
)  # fmt: skip
def test_rows_with_histories_add_their_new_turns(rows: list[list[Turn]], new: list[list[Turn]]) -> None:
    unfolding = HistoryDeduplicator()
    found = [unfolding.new_in(Conversation("c", tuple(row))) for row in rows]
    assert [[said.content for said in each] for each in found] == [[turn.content for turn in each] for each in new]


def test_windows_of_a_conversation_and_tool_calls() -> None:
    unfolding = HistoryDeduplicator()

    def new(*turns: tuple[str, str], **extra: Any) -> list[tuple[str, str]]:
        conversation = Conversation(
            "c", tuple(Turn(r, t, extra=extra if r == "assistant" else {}) for r, t in turns), (Document("d"),)
        )
        return [(said.role, said.content) for said in unfolding.new_in(conversation)]

    u, a, b, v = ("user", "hi"), ("assistant", "hello"), ("assistant", "bye"), ("user", "and now?")
    assert new(u, a) == [u, a]
    assert new(u, a) == []
    assert new(u, a, v, b) == [v, b]
    assert new(v, b, u) == [u]  # a window that has lost its beginning
    unfolding.forget("c")
    assert new(("system", "brief"), ("assistant", ""), tool_calls=[1]) == [("system", "brief"), ("tool", "")]
    unfolding.forget("c")
    assert new(v, b) == [v, b]
    small = HistoryDeduplicator(conversations=2)
    for name in "abc":
        small.new_in(Conversation(name, (Turn("user", "x"),)))
    assert list(small._known) == ["b", "c"]


# --- command ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def follow(evaluator: Evaluator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An `accord follow` command in a project with a fitted evaluator."""
    monkeypatch.chdir(tmp_path)
    evaluator.save(tmp_path / "evaluators" / "mixture")
    new_project("evaluator: mixture\n")
    return ["follow", "log.jsonl", "--out", "rows.jsonl"]


def test_command_ends_with_code_5_if_lines_may_be_lost(chats: list[Conversation], follow: list[str]) -> None:
    rows = messages(chats[:4])
    write(Path("log.jsonl"), rows[:8])
    accord(*follow, "--once")
    write(Path("log.jsonl"), rows[8:10], "w")
    assert "rotated or truncated" in accord(*follow, "--once", code=5)


@pytest.mark.posix
def test_command_follows_stops_and_continues(
    chats: list[Conversation], evaluator: Evaluator, follow: list[str], tmp_path: Path
) -> None:
    rows = messages(chats[:10])
    write(tmp_path / "log.jsonl", rows[:30])
    process = Forked(["-m", "accord", *follow, "--interval", "0.05"], stdout=subprocess.PIPE, text=True)
    until((tmp_path / "rows.jsonl.position").exists)
    process.send_signal(signal.SIGTERM)
    told, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and "30 lines read" in told
    write(tmp_path / "log.jsonl", rows[30:])
    assert f"{len(rows) - 30} lines read" in accord(*follow, "--once")
    values = {(row["conversation"], row["turn"]): row["value"] for row in kept(tmp_path)}
    assert values == pytest.approx(expected(chats[:10], evaluator)) and len(kept(tmp_path)) == len(values)
    days = accord_json("watch", "--days", "366")["days"]
    assert sum(day["replies"] for day in days) == len(values) and {day["day"][:7] for day in days} == {"2026-03"}


def test_command_scores_while_a_host_is_down_and_sends_the_scores_later(
    chats: list[Conversation], follow: list[str], tmp_path: Path
) -> None:
    rows = messages(chats[:10])
    with HostServer("phoenix", {chat.id for chat in chats[:10]}) as server:
        pass  # the port is known, and nothing listens
    with Path("accord.yaml").open("a", encoding="utf-8") as stream:
        stream.write(f"push: {{phoenix: {{url: '{server.url}', api_key: {KEYS['phoenix']}}}}}\n")
    write(tmp_path / "log.jsonl", rows[:30])
    assert "phoenix does not take scores" in accord(*follow, "--once")
    assert kept(tmp_path) and not server.stored
    write(tmp_path / "log.jsonl", rows[30:])
    with server:
        accord(*follow, "--once")
    sent = {(row["session_id"], row["metadata"]["turn"]): row["result"]["score"] for row in server.stored.values()}
    scored = {(row["conversation"], row["turn"]): row["value"] for row in kept(tmp_path) if row["value"] is not None}
    assert sent == scored and not server.invalid and not list(tmp_path.glob("push-spool/phoenix/*"))


@pytest.mark.parametrize("level", ["turn", "conversation"])
def test_default_evaluator_scores_live_as_in_a_batch(
    chats: list[Conversation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ACCORD_STORE", raising=False)
    few = [c for c in chats if len(c.turns) > 2][:12]
    rated = ["conversation,turn,annotator,Q0"]
    for number, chat in enumerate(few):
        for place in [sample.turn for sample in replies(chat)] if level == "turn" else [""]:
            rated += [f"{chat.id},{place},{name},{1 + (number + shift) % 4}" for shift, name in enumerate("ab")]
    Path("labels.csv").write_text("\n".join(rated) + "\n", encoding="utf-8")
    write(Path("chats.jsonl"), [{"id": c.id, "messages": [{"role": t.role, "content": t.content} for t in c.turns],
                                 "documents": [d.text for d in c.documents]} for c in few])  # fmt: skip
    write(Path("log.jsonl"), messages(few))
    accord("init")
    config = Path("accord.yaml").read_text(encoding="utf-8")
    assert "metrics: [lexical]" in config and "evaluator: default" in config
    Path("accord.yaml").write_text(config.replace("folds: 5", "folds: 2\ndraws: 10"), encoding="utf-8")
    accord("import", "chats.jsonl", "labels.csv")
    accord("fit", "default")
    accord("follow", "log.jsonl", "--out", "live.jsonl", "--once")
    if level == "turn":
        accord("score", "chats.jsonl", "--out", "batch.jsonl")
        batch = list(map(json.loads, Path("batch.jsonl").read_text(encoding="utf-8").splitlines()))
    else:
        scores = predicted(load_evaluator(Path("evaluators/default")), replies(*few))
        batch = [score.to_json() for score in scores]
    live = list(map(json.loads, Path("live.jsonl").read_text(encoding="utf-8").splitlines()))
    names = ("conversation", "turn", "value", "low", "high", "distribution", "unscored")
    shown = [sorted(([row.get(name) for name in names] for row in rows), key=repr) for rows in (live, batch)]
    assert shown[0] == shown[1] and len(live) == len(replies(*few))
    assert any(row["value"] is not None for row in live)

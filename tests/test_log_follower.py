"""Following a log: every reply scored, none lost, wherever it was broken off; logs that repeat, rotate and break."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from processes import Forked, run
from small_sample import sources
from typer.testing import CliRunner
from waiting import PATIENCE, until

from accord import (
    Conversation,
    Document,
    Evaluator,
    Label,
    Labels,
    LiveScorer,
    Question,
    Rubric,
    Scale,
    Score,
    Turn,
    read,
)
from accord.cli import (
    app,
    commands,  # noqa: F401 - registers the commands
)
from accord.edges import BadInput, UnknownName
from accord.evidence import BANK, SourceContext, Training
from accord.learning import EvaluatorSettings, load_evaluator, make_evaluator
from accord.live import HistoryDeduplicator, Ingestor, LogFollower, RowLog
from accord.live import log_follower as following
from accord.models import memory_models
from accord.models import run as drive
from accord.values import Sample

QUESTION = Question(id="useful", text="Is it useful?", scale=Scale(options=(1, 2, 3, 4)))


@pytest.fixture(scope="module")
def chats() -> list[Conversation]:
    return [record.conversation for record in read(sources()[0])]


@pytest.fixture(scope="module")
def evaluator(chats: list[Conversation]) -> Evaluator:
    samples = [Sample(c, place) for c in chats for place, turn in enumerate(c.turns) if turn.role == "assistant"]
    labels = Labels(Label(s.target, "useful", "ann", 1 + place % 4) for place, s in enumerate(samples))
    context = SourceContext(Rubric(name="useful", questions=(QUESTION,), main="useful"))
    about, settings = EvaluatorSettings(head="curves"), {"metrics": {"names": BANK}}
    made = make_evaluator("mixture", about, QUESTION, context, ("metrics",), settings)
    return drive(made.fit(Training(tuple(samples), labels, QUESTION)), memory_models())


def messages(chats: list[Conversation]) -> list[dict[str, Any]]:
    """All conversations at once, a message a line."""
    longest = max(len(c.turns) for c in chats)
    return [
        {"conversation_id": c.id, "role": c.turns[place].role, "content": c.turns[place].content, "latency_ms": 7,
         "documents": [d.text for d in c.documents], "timestamp": f"2026-03-0{1 + place}T10:00:00Z"}
        for place in range(longest)
        for c in chats
        if place < len(c.turns)
    ]  # fmt: skip


def write(path: Path, rows: list[Any], mode: str = "a") -> None:
    with path.open(mode, encoding="utf-8") as log:
        log.writelines(json.dumps(row) + "\n" for row in rows)


def follower(folder: Path, evaluator: Evaluator, rows: RowLog, **more: Any) -> Follower:
    return Follower(folder / "log.jsonl", Ingestor(LiveScorer(evaluator)), rows, folder / "place", **more)


def once(folder: Path, evaluator: Evaluator) -> int:
    """What a fresh process does: read to the present end, and stop."""
    with RowLog(folder / "rows.jsonl") as rows:
        return follower(folder, evaluator, rows).run(once=True)


def kept(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]


def expected(chats: list[Conversation], evaluator: Evaluator) -> dict[tuple[str, int], float]:
    """Every reply's score, as the batch gives it."""
    samples = [Sample(c, place) for c in chats for place, turn in enumerate(c.turns) if turn.role == "assistant"]
    scores = drive(evaluator.predict(samples), memory_models())
    return {(s.target.conversation, s.target.turn or 0): s.value for s in scores if isinstance(s, Score)}


def test_broken_off_anywhere_every_reply_is_scored_as_if_it_had_not_been(
    chats: list[Conversation], evaluator: Evaluator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "AT_ONCE", 7)
    rows, log = messages(chats[:12]), tmp_path / "log.jsonl"
    for start in range(0, len(rows), 11):  # a process a few lines
        write(log, rows[start : start + 11])
        assert once(tmp_path, evaluator) == len(rows[start : start + 11])
    found = kept(tmp_path)
    values = {(row["conversation"], row["turn"]): row["value"] for row in found}
    assert len(values) == len(found) and values == pytest.approx(expected(chats[:12], evaluator))
    assert once(tmp_path, evaluator) == 0 and len(kept(tmp_path)) == len(found)


@pytest.mark.parametrize("survives", ["rows", "half a row"])
def test_after_a_crash_every_reply_is_there_once(
    chats: list[Conversation], evaluator: Evaluator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survives: str
) -> None:
    monkeypatch.setattr(room, "AT_ONCE", 10)
    monkeypatch.setattr(room, "SECONDS", 0.0)
    write(tmp_path / "log.jsonl", messages(chats[:8]))
    note, noted = room.Place.write, []

    def dies(place: room.Place, path: Path) -> None:
        noted.append(place)
        if len(noted) == 3:
            raise KeyboardInterrupt  # scores are on the disk, the place is not
        note(place, path)

    monkeypatch.setattr(room.Place, "write", dies)
    with pytest.raises(KeyboardInterrupt):
        once(tmp_path, evaluator)
    before = (tmp_path / "rows.jsonl").read_bytes()
    if survives == "half a row":
        (tmp_path / "rows.jsonl").write_bytes(before[:-20])
    once(tmp_path, evaluator)
    found = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines() if line.endswith("}")]
    values = {(row["conversation"], row["turn"]): row["value"] for row in found}
    assert before.count(b"\n") > 3 and len(found) == len(values)
    assert values == pytest.approx(expected(chats[:8], evaluator))


def test_lines_that_are_no_messages_are_told_with_their_place(
    evaluator: Evaluator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfiles, "LONGEST_LINE", 70_000)
    good = {"conversation": "c", "role": "bot", "content": "We open at nine."}
    lines = [
        json.dumps(good).encode(), b"not json", b"", b"[1, 2]", b"\xff\xfe\x00", b'{"role": "assistant"}', b"x" * 212_345,
        json.dumps({**good, "role": "narrator"}).encode(), b'{"a": 1}', json.dumps({**good, "conversation": 17, "time": "noon"}).encode(),
    ]  # fmt: skip
    (tmp_path / "log.jsonl").write_bytes(
        b"\r\n".join(lines) + b"\n" + json.dumps({**good, "content": "half"}).encode()[:-5]
    )
    assert once(tmp_path, evaluator) == 9
    found = kept(tmp_path)
    assert [row["conversation"] for row in found if row["status"] == "scored"] == ["c", "17"]
    bad = [row for row in found if row["status"] == "refused"]
    starts = [sum(len(line) + 2 for line in lines[:place]) for place in range(len(lines))]
    assert [row["at"] for row in bad] == [starts[place] for place in (1, 3, 4, 5, 6, 7, 8)]
    assert [
        "no JSON" in bad[0]["error"],
        "object" in bad[1]["error"],
        "MB" in bad[4]["error"],
        "'narrator'" in bad[5]["error"],
    ] == [True] * 4
    write(tmp_path / "log.jsonl", [], "a")
    with (tmp_path / "log.jsonl").open("ab") as log:
        log.write(json.dumps({**good, "content": "half"}).encode()[-5:] + b"\n")
    assert once(tmp_path, evaluator) == 1  # the line that was being written
    assert [row["turn"] for row in kept(tmp_path) if row.get("conversation") == "c"] == [0, 1]


def test_rows_of_conversations_so_far_give_what_is_new_in_them(
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


def test_blank_lines_are_no_end(evaluator: Evaluator, tmp_path: Path) -> None:
    row = {"conversation": "c", "role": "assistant", "content": "We open at nine."}
    (tmp_path / "log.jsonl").write_text(
        "\ufeff" + json.dumps(row) + "\n" * 900 + json.dumps({**row, "content": "And close at five."}) + "\n"
    )
    assert once(tmp_path, evaluator) == 2 and [each["turn"] for each in kept(tmp_path)] == [0, 1]


def test_a_log_that_was_rotated_while_nobody_read_is_finished_first(evaluator: Evaluator, tmp_path: Path) -> None:
    def row(place: int) -> dict[str, Any]:
        return {"conversation": f"c{place}", "role": "assistant", "content": f"We open at {place}."}

    log = tmp_path / "log.jsonl"
    write(log, [row(0)])
    once(tmp_path, evaluator)
    write(log, [row(1)])
    log.rename(tmp_path / "log.jsonl.1")
    write(log, [row(2)])
    assert once(tmp_path, evaluator) == 2
    (tmp_path / "log.copy.jsonl").write_bytes(log.read_bytes() + json.dumps(row(3)).encode() + b"\n")
    write(log, [row(4)], "w")  # copied away and cut short
    assert once(tmp_path, evaluator) == 2
    assert [each["conversation"] for each in kept(tmp_path)] == [f"c{place}" for place in range(5)]
    log.rename(tmp_path / "elsewhere")
    write(log, [row(5)])
    told: list[str] = []
    with RowLog(tmp_path / "rows.jsonl") as rows:
        assert follower(tmp_path, evaluator, rows, say=told.append).run(once=True) == 1
    assert len(told) == 1 and "is gone" in told[0]


def test_a_torn_row_is_no_part_of_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"status": "scor')
    with RowLog(tmp_path / "rows.jsonl") as log:
        log.write([{"status": "scored"}])
    assert (tmp_path / "rows.jsonl").read_text().splitlines() == ['{"status": "scor', '{"status": "scored"}']


def test_what_was_watched_is_settled_before_the_place_is_noted(evaluator: Evaluator, tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", [{"conversation": "c", "role": "assistant", "content": "We open at nine."}])
    order: list[str] = []

    def settle() -> None:
        noted = room.Place.read(tmp_path / "place")
        assert noted is not None
        order.append("too late" if noted.files[-1].offset else "settled")

    with RowLog(tmp_path / "rows.jsonl") as rows:
        rows.write = lambda some: order.append("kept")
        Follower(tmp_path / "log.jsonl", Ingestor(LiveScorer(evaluator), settle=settle), rows, tmp_path / "place").run(
            True
        )
    noted = room.Place.read(tmp_path / "place")
    assert order == ["kept", "settled"] and noted is not None and noted.files[-1].offset > 0


def test_conversations_of_many_turns_are_told_again_and_again() -> None:
    unfolding = HistoryDeduplicator()
    turns = [Turn("user" if place % 2 == 0 else "assistant", f"text {place}") for place in range(500)]
    for end in range(2, 501, 2):
        new = unfolding.new_in(Conversation("c", tuple(turns[:end])))
        assert [said.content for said in new] == [turn.content for turn in turns[end - 2 : end]]


def test_a_regenerated_reply_is_new_and_its_question_is_not() -> None:
    unfolding = HistoryDeduplicator()
    ask, one, other = Turn("user", "hi"), Turn("assistant", "hello"), Turn("assistant", "good day")
    unfolding.new_in(Conversation("c", (ask, one)))
    assert [said.content for said in unfolding.new_in(Conversation("c", (ask, other)))] == ["good day"]


def test_rows_told_again_later_or_otherwise_are_taken_for_what_they_are() -> None:
    turns = [Turn("user" if place % 2 == 0 else "assistant", f"text {place}") for place in range(300)]

    def told(*rows: list[Turn]) -> list[list[str]]:
        unfolding = HistoryDeduplicator()
        return [[said.content for said in unfolding.new_in(Conversation("c", tuple(row)))] for row in rows]

    other = Turn("assistant", "another reply")
    assert told(turns[:4], turns[:2], turns[:6])[1:] == [[], ["text 4", "text 5"]]  # an older row, told again late
    assert told(turns[:20], [*turns[:19], other], [*turns[:19], other, *turns[20:22]])[1:] == [
        ["another reply"],
        ["text 20", "text 21"],
    ]
    assert told(turns[:280], [*turns[:279], other])[1] == ["another reply"]
    assert told(turns[:280], turns[:300])[1] == [turn.content for turn in turns[280:]]


def test_a_conversation_in_pieces_is_told_whole() -> None:
    unfolding, sorry = HistoryDeduplicator(), "Sorry, I cannot."
    for question in ("hi", "more", "hi", "hi", "more"):
        row = Conversation("c", (Turn("user", question), Turn("assistant", sorry)))
        assert [said.content for said in unfolding.new_in(row)] == [question, sorry]


def test_a_log_whose_rows_begin_alike_is_known_by_where_it_was_left(evaluator: Evaluator, tmp_path: Path) -> None:
    def row(place: int) -> dict[str, Any]:
        return {
            "x": "a long beginning " * 40,
            "conversation": f"c{place}",
            "role": "assistant",
            "content": f"At {place}.",
        }

    log = tmp_path / "log.jsonl"
    write(log, [row(0), row(1), row(2)])
    once(tmp_path, evaluator)
    (tmp_path / "log-of-another-bot.jsonl").write_text(
        "".join(json.dumps(row(place)) + "\n" for place in range(100, 110))
    )
    write(log, [row(place) for place in range(10, 16)], "w")  # cut short, and longer than it was by now
    assert once(tmp_path, evaluator) == 6
    assert [each["conversation"] for each in kept(tmp_path)] == [f"c{place}" for place in (0, 1, 2, *range(10, 16))]


def test_windows_of_a_conversation_and_calls_of_tools() -> None:
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


def test_a_log_that_is_replaced_or_cut_short_is_read_on(
    evaluator: Evaluator, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfiles, "GRACE", 1e9)
    log, stop, told = tmp_path / "log.jsonl", threading.Event(), list[str]()

    def row(place: int) -> dict[str, Any]:
        return {"conversation": f"c{place}", "role": "assistant", "content": f"We open at {place}."}

    def wait_for(count: int) -> None:
        until(lambda: (tmp_path / "rows.jsonl").exists() and len(kept(tmp_path)) >= count)

    with RowLog(tmp_path / "rows.jsonl") as rows:
        thread = threading.Thread(
            target=lambda: follower(tmp_path, evaluator, rows, stop=stop, say=told.append).run(every=0.02), daemon=True
        )
        thread.start()
        request.addfinalizer(stop.set)
        until(thread.is_alive)  # no log yet
        write(log, [row(0), row(1)])
        wait_for(2)
        log.rename(tmp_path / "log.1")
        write(tmp_path / "log.1", [row(2)])  # into the old file, after it was moved
        write(log, [row(3)])
        wait_for(4)
        write(tmp_path / "log.1", [row(7)])  # its writer is slow to leave it
        wait_for(5)
        monkeypatch.setattr(logfiles, "GRACE", 0.0)
        write(log, [row(4)], "w")  # cut short, shorter or not than it was
        write(log, [row(5), row(6)])
        wait_for(8)
        stop.set()
        thread.join()
    assert [r["conversation"] for r in kept(tmp_path)] == [f"c{place}" for place in (0, 1, 2, 3, 7, 4, 5, 6)]
    assert len(told) == 1 and "cut short" in told[0]  # never of the one that was moved


def test_a_log_that_is_not_there_and_a_format_that_is_none(evaluator: Evaluator, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no log at"):
        once(tmp_path, evaluator)
    with RowLog(tmp_path / "rows.jsonl") as rows, pytest.raises(UnknownName, match="format 'nosuch'"):
        follower(tmp_path, evaluator, rows, format="nosuch")


def command(evaluator: Evaluator, tmp_path: Path) -> list[str]:
    """`accord follow` on the log of a project that has fitted an evaluator."""
    evaluator.save(tmp_path / "evaluators" / "mixture")
    (tmp_path / "accord.yaml").write_text("evaluator: mixture\n")
    return [sys.executable, "-m", "accord", "follow", "log.jsonl", "--out", "rows.jsonl"]


@pytest.mark.slow
def test_the_command_that_is_stopped_ends_with_5_where_something_was_lost(
    chats: list[Conversation], evaluator: Evaluator, tmp_path: Path
) -> None:
    rows = messages(chats[:4])
    write(tmp_path / "log.jsonl", rows[:8])
    following = command(evaluator, tmp_path)[1:]
    run([*following, "--once"], cwd=tmp_path, check=True)
    write(tmp_path / "log.jsonl", rows[8:10], "w")  # cut short by whoever copied it; what came before the cut is gone
    process = Forked(following, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "note: evaluator: evaluators/mixture\n"
    noted = process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    told, rest = process.communicate(timeout=PATIENCE)
    assert noted and "cut short" in noted + rest and process.returncode == 5 and "Traceback" not in rest


@pytest.mark.slow
def test_the_command_follows_goes_on_and_stops_when_told(
    chats: list[Conversation], evaluator: Evaluator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = messages(chats[:10])
    write(tmp_path / "log.jsonl", rows[:30])
    following = [*command(evaluator, tmp_path), "--every", "0.05"]
    process = subprocess.Popen(
        following, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )
    try:
        until((tmp_path / "rows.jsonl.place").exists)
    finally:
        process.send_signal(signal.SIGTERM)
        told, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and "30 lines read" in told
    write(tmp_path / "log.jsonl", rows[30:])
    done = run([*following[1:], "--once"], cwd=tmp_path, text=True, check=True)
    assert f"{len(rows) - 30} lines read" in done.stdout
    values = {(row["conversation"], row["turn"]): row["value"] for row in kept(tmp_path)}
    assert values == pytest.approx(expected(chats[:10], evaluator)) and len(kept(tmp_path)) == len(values)
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, ["watch", "--days", "366", "--json"])
    assert shown.exit_code == 0, shown.output
    days = json.loads(shown.stdout)["days"]
    assert sum(day["replies"] for day in days) == len(values) and {day["day"][:7] for day in days} == {"2026-03"}


@pytest.mark.parametrize("level", ["turn", "conversation"])
@pytest.mark.slow
def test_the_default_evaluator_scores_live_as_in_a_batch(
    chats: list[Conversation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ACCORD_STORE", raising=False)
    few = [c for c in chats if len(c.turns) > 2][:12]
    rated = ["conversation,turn,annotator,Q0"]
    for number, chat in enumerate(few):
        places = [place for place, turn in enumerate(chat.turns) if turn.role == "assistant"]
        for place in places if level == "turn" else [""]:
            rated += [
                f"{chat.id},{place},{name},{1 + (number + shift) % 4}" for shift, name in enumerate(("ann", "bob"))
            ]
    Path("labels.csv").write_text("\n".join(rated) + "\n")
    write(Path("chats.jsonl"), [{"id": c.id, "messages": [{"role": t.role, "content": t.content} for t in c.turns],
                                 "documents": [d.text for d in c.documents]} for c in few])  # fmt: skip
    write(Path("log.jsonl"), messages(few))

    def done(*arguments: str) -> None:
        result = CliRunner().invoke(app, list(arguments))
        assert result.exit_code == 0, result.output

    done("init")
    config = Path("accord.yaml").read_text()
    assert "metrics: [lexical]" in config and "evaluator: calibration" in config
    Path("accord.yaml").write_text(config.replace("folds: 5", "folds: 2\ndraws: 10"))
    done("import", "chats.jsonl", "labels.csv")
    done("fit", "calibration")
    done("follow", "log.jsonl", "--out", "live.jsonl", "--once")
    live = {
        (row["conversation"], row["turn"]): row for row in map(json.loads, Path("live.jsonl").read_text().splitlines())
    }
    assert len(live) == sum(turn.role == "assistant" for chat in few for turn in chat.turns)
    if level == "turn":
        done("score", "chats.jsonl", "--out", "batch.jsonl")
        batch = {
            (row["conversation"], row["turn"]): row
            for row in map(json.loads, Path("batch.jsonl").read_text().splitlines())
        }
    else:
        fitted = load_evaluator(Path("evaluators/calibration"))
        samples = [
            Sample(chat, turn) for chat in few for turn, said in enumerate(chat.turns) if said.role == "assistant"
        ]
        scores = drive(fitted.predict(samples), memory_models())
        batch = {(score.target.conversation, score.target.turn): score.to_json() for score in scores}
    shown = ("value", "low", "high", "distribution", "unscored")
    assert {target: [row.get(name) for name in shown] for target, row in live.items()} == {
        target: [row.get(name) for name in shown] for target, row in batch.items()
    }
    assert any(row["value"] is not None for row in live.values())

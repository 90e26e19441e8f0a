"""Another evaluator takes over from the one in use, while conversations go on."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from small_sample import sources
from waiting import until

from accord import Evaluator, Label, Labels, LiveScorer, Question, Rubric, Scale, Store, load_evaluator, read
from accord.evidence import (
    SourceContext,
    Training,
)
from accord.evidence.bank.reply_metrics import BANK
from accord.learning import EvaluatorSettings, make_evaluator
from accord.live import RowLog, open_ingestor
from accord.live.ingest import (
    EvaluatorReloader,
    Ingestor,
    LiveContext,
    folder_version,
)
from accord.live.messages import Message
from accord.live.monitoring import ScoreMonitor
from accord.models import memory_models
from accord.models import run as drive
from accord.store import MonitoringTables
from accord.values import Conversation, Sample, Score, Turn

QUESTION = Question(id="useful", text="Is it useful?", scale=Scale(options=(1, 2, 3, 4)))


def fitted(shift: int, names: list[str]) -> Evaluator:
    chats = [record.conversation for record in read(sources()[0])]
    samples = [Sample(c, place) for c in chats for place, turn in enumerate(c.turns) if turn.role == "assistant"]
    labels = Labels(
        Label(s.target, "useful", "ann", 1 + (shift + len(s.conversation.turns[s.turn or 0].content) // 60) % 4)
        for s in samples
    )
    context = SourceContext(Rubric(name="useful", questions=(QUESTION,), main="useful"))
    made = make_evaluator(
        "mixture", EvaluatorSettings(head="curves"), QUESTION, context, ("metrics",), {"metrics": {"names": names}}
    )
    return drive(made.fit(Training(tuple(samples), labels, QUESTION)), memory_models())


@pytest.fixture(scope="module")
def first() -> Evaluator:
    return fitted(0, list(BANK))


@pytest.fixture(scope="module")
def second() -> Evaluator:
    return fitted(2, list(BANK[:5]))


def messages(name: str, replies: int) -> Iterator[Message]:
    for turn in range(replies):
        yield Message(name, "user", f"And what about step {turn}?")
        yield Message(name, "assistant", f"Hold button number {turn} for ten seconds, {name}.")


def test_conversations_go_on_and_the_next_reply_is_scored_by_the_other(first: Evaluator, second: Evaluator) -> None:
    scorer = LiveScorer(first)
    names = [f"c{place}" for place in range(5)]
    for name in names:
        assert all(found.score is None or "learned:" not in str(found.score.signature)
                   for found in scorer.take(list(messages(name, 3))))  # fmt: skip
    scorer.take_over(scorer.prepared(second))
    for name in names:
        found = scorer.message(name, "assistant", "Then press the other one.")
        turns = (*(Turn(m.role, m.content) for m in messages(name, 3)), Turn("assistant", "Then press the other one."))
        [expected] = drive(second.predict([Sample(Conversation(name, turns), 6)]), memory_models())
        assert isinstance(found, Score) and isinstance(expected, Score)
        assert found.value == expected.value and found.target == expected.target
        assert str(found.signature) == f"{second.signature()}|learned:{second.digest()}"
    for name in names:
        scorer.forget(name)
    assert scorer.memory.used == 0, "what sources kept before is counted no more"


def test_what_is_watched_is_watched_apart(first: Evaluator, second: Evaluator) -> None:
    scorer, store = LiveScorer(first), Store("sqlite://")
    watch = ScoreMonitor("first", scorer.columns)
    ingestor = Ingestor(scorer, watch)
    ingestor.take(list(messages("a", 3)))
    late = scorer.take(list(messages("late", 1)))
    ingestor.take_over(scorer.prepared(second))
    ingestor.take(list(messages("a", 2)))
    with pytest.MonkeyPatch.context() as patch:  # scored before, and told of after
        patch.setattr(scorer, "take", lambda batch: late)
        ingestor.take([replace(each, time=datetime(2026, 1, 1)) for each in messages("late", 1)])
    watch.flush(store)
    rows = list(MonitoringTables(store).days("2000-01-01"))
    replies = {
        (row["evaluator"].partition("|")[0], len(row["content"]["columns"])): row["content"]["replies"]
        for row in rows
        if row["day"] != "2026-01-01"
    }
    assert replies == {("first", len(first.head.columns or ())): 3, ("calibration", len(second.head.columns or ())): 2}
    [row] = [row for row in rows if row["day"] == "2026-01-01"]
    assert row["evaluator"] == "first" and len(row["content"]["columns"]) == len(first.head.columns or ())


def test_scores_under_way_are_of_one_or_of_the_other(first: Evaluator, second: Evaluator) -> None:
    scorer, found, ended = LiveScorer(first), list[Score](), threading.Event()

    def talk(client: int) -> None:
        place = 0
        while not ended.is_set():
            score = scorer.message(f"{client}-{place}", "assistant", "Hold the button.")
            assert isinstance(score, Score)
            found.append(score)
            place += 1

    threads = [threading.Thread(target=talk, args=(client,)) for client in range(3)]
    for thread in threads:
        thread.start()
    for evaluator in (second, first, second):
        seen = len(found)
        until(lambda seen=seen: len(found) > seen + 20)  # type: ignore[misc]
        scorer.take_over(scorer.prepared(evaluator))
    seen = len(found)
    until(lambda: len(found) > seen + 20)
    ended.set()
    for thread in threads:
        thread.join()
    values = {str(score.signature).partition("|sources")[0]: set[float]() for score in found}
    for score in found:
        values[str(score.signature).partition("|sources")[0]].add(score.value)
    assert len(values) == 2 and all(len(each) == 1 for each in values.values())


def put(evaluator: Evaluator, folder: Path) -> None:
    """As a promotion does: written under another name, and renamed."""
    made = folder.with_name("made")
    evaluator.save(made)
    if folder.exists():
        os.replace(folder, folder.with_name(f"before-{len(list(folder.parent.iterdir()))}"))
    os.replace(made, folder)


def test_a_folder_is_looked_at_until_what_stands_there_is_whole(
    first: Evaluator, second: Evaluator, tmp_path: Path
) -> None:
    folder, told, took = tmp_path / "mixture", list[str](), list[str]()
    put(first, folder)
    looking = EvaluatorReloader(folder, folder_version(folder), lambda each: took.append(each.digest()), told.append)
    looking.check()
    assert not took and not told
    shutil.rmtree(folder)
    looking.check()
    assert not took and not told, "between two renamings there is none"
    put(second, folder)
    (folder / "evaluator.json").write_text("{", encoding="utf-8")
    for _ in range(3):
        looking.check()
    assert not took and len(told) == 1 and "cannot switch to the new evaluator" in told[0]
    second.save(folder)
    looking.check()
    looking.check()
    assert took == [second.digest()] and len(told) == 2 and second.digest() in told[1]


def test_what_cannot_score_live_or_for_the_annotator_leaves_the_one_in_use(
    first: Evaluator, second: Evaluator, tmp_path: Path
) -> None:
    folder, told = tmp_path / "mixture", list[str]()
    put(first, folder)
    scorer = LiveScorer(load_evaluator(folder))

    def refuses(found: Evaluator) -> None:
        scorer.take_over(LiveScorer(first, "nobody"))

    put(second, folder)
    looking = EvaluatorReloader(folder, None, refuses, told.append)
    looking.check()
    assert "unknown annotator" in told[0] and scorer.signature == first.signature()


def test_a_promoted_evaluator_scores_without_a_restart(first: Evaluator, second: Evaluator, tmp_path: Path) -> None:
    folder, told, store = tmp_path / "mixture", list[str](), Store("sqlite://")
    put(first, folder)
    context = LiveContext(store=store)
    with (
        RowLog(tmp_path / "rows.jsonl") as out,
        open_ingestor(folder, None, context, [out], told.append, every=0.01) as ingestor,
    ):
        ingestor.take(list(messages("a", 1)))
        put(second, folder)
        until(lambda: told)
        rows = ingestor.take(list(messages("a", 1)))
    assert rows[1]["signature"].endswith(f"|learned:{second.digest()}") and rows[1]["turn"] == 3
    assert len({row["evaluator"] for row in MonitoringTables(store).days("2000-01-01")}) == 2

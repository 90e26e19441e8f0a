"""The evidence table, the metrics, and judging that asks nothing twice and loses nothing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from accord import Conversation, Document, EvidenceTable, Rubric, Store, Target, Turn, metrics
from accord.edges import BadInput, ModelError, UnknownName
from accord.evidence import Column
from accord.evidence.metric_source import measure
from accord.evidence.rubric_answers import (
    answer_table,
    judge_samples,
)
from accord.models import Answer, Failure, Judged, ScriptedJudge, Unanswered
from accord.testing import check_metric
from accord.values import Registry, Sample


def chat(name: str, *said: str, documents: tuple[str, ...] = ()) -> Conversation:
    turns = tuple(Turn("user" if i % 2 == 0 else "assistant", text) for i, text in enumerate(said))
    return Conversation(name, turns, tuple(Document(text) for text in documents))


@pytest.mark.parametrize("name", metrics.names())
def test_every_metric_keeps_the_contract(name: str) -> None:
    check_metric(metrics.get(name))


@pytest.mark.parametrize(
    ("name", "said", "documents", "expected"),
    [
        ("turns", ("a", "b", "c"), (), 3),
        ("words-per-reply", ("hi", "one two", "x", "one two three four"), (), 3),
        ("question-rate", ("hi", "what?", "x", "fine."), (), 0.5),
        ("citation-rate", ("hi", "so [1].", "x", "so (1)."), (), 0.5),
        ("apology-rate", ("hi", "Sorry, no.", "x", "fine"), (), 0.5),
        ("distinct-words", ("hi", "red red blue blue"), (), 0.5),
        ("repetition", ("hi", "press the reset button", "no", "press the reset button"), (), 0.5),
        ("overlap-documents", ("hi", "press reset button twice"), ("The reset button, press it.",), 0.75),
        ("overlap-documents", ("hi", "press reset"), (), None),
        ("overlap-user", ("router light blinks", "the router light is fine"), (), 2 / 3),
        ("user-words", ("one two", "x", "one two three four"), (), 3),
    ],
)
def test_metrics_on_small_conversations(
    name: str, said: tuple[str, ...], documents: tuple[str, ...], expected: float
) -> None:
    assert metrics.get(name)(chat("c", *said, documents=documents)) == (
        None if expected is None else pytest.approx(expected)
    )


def test_measures_of_a_turn_see_nothing_after_it() -> None:
    conversation = chat("c", "hi", "one", "more", "one two three")
    table = measure([Sample(conversation), Sample(conversation, 1)], ["words-per-reply", "overlap-documents"])
    assert table.targets == (Target("c"), Target("c", 1))
    assert table.values[:, 0].tolist() == [2.0, 1.0]
    assert not table.present[:, 1].any() and table.absences[Target("c"), "overlap-documents"] == "nothing to measure"
    with pytest.raises(UnknownName, match="unknown metric 'lenght'"):
        measure([], ["lenght"])


PLANTED = {
    "registry": "from accord.values import Registry\nregistry = Registry('thing', 'planted_things')\n",
    "things": "import time\nfrom planted_registry import registry\nregistry.register('first')(1)\n"
    "time.sleep(0.2)\nregistry.register('second')(2)\n",
}


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry[int]]:
    """A registry whose plug-ins are in a slow module that is not imported yet."""
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in PLANTED.items():
        (tmp_path / f"planted_{name}.py").write_text(text, encoding="utf-8")
    yield importlib.import_module("planted_registry").registry
    for name in PLANTED:
        sys.modules.pop(f"planted_{name}", None)


def test_built_in_plugins_are_imported_once_by_concurrent_threads(planted: Registry[int]) -> None:
    assert "planted_things" not in sys.modules
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(planted.get, ["second", "first", "second", "second"])) == [2, 1, 2, 2]


def test_plugin_with_a_built_in_name_is_rejected(planted: Registry[int]) -> None:
    planted.register("second")(3)
    for _ in range(2):
        with pytest.raises(BadInput, match="two plug-ins are registered as the thing 'second'"):
            planted.names()


def test_a_registry_refuses_two_plugins_of_one_name() -> None:
    registry: Registry[int] = Registry("thing")
    registry.register("one")(1)
    registry.register("one")(1)
    with pytest.raises(BadInput, match="two plug-ins are registered as the thing 'one'"):
        registry.register("one")(2)


# --- the table ----------------------------------------------------------------------------------------------------


def block() -> EvidenceTable:
    columns = [Column(f"Q={k}", "judge", "Q", float(k)) for k in (1, 2, 3)] + [Column("words", "metric")]
    rows = {
        Target("a"): {"Q=1": 0.2, "Q=2": 0.2, "Q=3": 0.4, "words": 7.0},
        Target("b"): {"words": 9.0},
        Target("c"): {"Q=1": 0.0, "Q=2": 0.0, "Q=3": 0.0},
    }
    return EvidenceTable.from_rows(columns, rows, {(Target("b"), "Q"): "refused"})


def test_expected_answers_divide_out_the_mass_outside_and_keep_the_mask() -> None:
    table = block().expected()
    assert [column.name for column in table.columns] == ["Q", "words"]
    assert table.values[0].tolist() == pytest.approx([(0.2 + 0.4 + 1.2) / 0.8, 7.0])
    assert table.present.tolist() == [[True, True], [False, True], [False, False]]
    assert table.expected().columns == table.columns


def test_a_distribution_is_taken_from_its_block() -> None:
    options, shares, known = block().distribution("Q")
    assert options == (1.0, 2.0, 3.0) and known.tolist() == [True, False, False]
    assert shares[0] == pytest.approx([0.25, 0.25, 0.5])
    with pytest.raises(BadInput, match="no judge answered question 'R'"):
        block().distribution("R")


def test_tables_stand_side_by_side_and_rows_are_taken_by_target() -> None:
    other = EvidenceTable.from_rows([Column("more", "m")], {Target("c"): {"more": 1.0}, Target("d"): {"more": 2.0}})
    both = block().join(other)
    assert both.targets == tuple(map(Target, "abcd"))
    assert both.present[:, -1].tolist() == [False, False, True, True]
    assert both.values[3].tolist() == [0, 0, 0, 0, 2.0]
    assert both.filter(["d", "a"]).targets == (Target("a"), Target("d"))
    assert both.filter(["b"]).absences == {(Target("b"), "Q"): "refused"}
    assert both.rows_of([Target("c"), Target("nobody")]).tolist() == [2, -1]
    with pytest.raises(ValueError, match="must be"):
        EvidenceTable((Target("a"),), (), np.zeros((2, 0)), np.zeros((2, 0), dtype=bool))


# --- judging ------------------------------------------------------------------------------------------------------


def even(sample: Sample, question: object) -> dict[str, float]:
    return {"1": 0.5, "2": 0.5}


def samples(count: int) -> list[Sample]:
    return [Sample(chat(f"c{i}", "hi", "hello", documents=("d",) if i % 2 else ())) for i in range(count)]


def test_stored_answers_are_not_requested_again(store: Store, rubric: Rubric) -> None:
    judge = ScriptedJudge(even)
    first = judge_samples(judge, rubric, samples(6), store)
    asked = len(judge.asked)
    assert asked == 3 * 9 + 3 * 5, "citation questions are asked where there are documents alone"
    again = judge_samples(judge, rubric, samples(6), store)
    assert len(judge.asked) == asked
    assert np.array_equal(first.values, again.values) and np.array_equal(first.present, again.present)
    assert again.absences[Target("c0"), "Q2"] == "does not apply"
    assert [target.conversation for target in first.targets] == [f"c{i}" for i in range(6)]


def test_another_judge_or_another_question_is_another_answer(store: Store, rubric: Rubric) -> None:
    judge_samples(ScriptedJudge(even), rubric, samples(1), store)
    other = ScriptedJudge(even, name="other")
    judge_samples(other, rubric, samples(1), store)
    assert len(other.asked) == 5


def test_failures_are_counted_and_requested_next_time(store: Store, rubric: Rubric) -> None:
    broken = True

    def script(sample: Sample, question: object) -> dict[str, float] | Failure:
        return Failure("refused") if broken and sample.conversation.id == "c1" else even(sample, question)

    judge = ScriptedJudge(script)
    table = judge_samples(judge, rubric, samples(3), store)
    assert table.absences[Target("c1"), "Q0"] == "refused"
    assert table.present.any(axis=1).tolist() == [True, False, True]
    broken, before = False, len(judge.asked)
    assert judge_samples(judge, rubric, samples(3), store).present.any(axis=1).all()
    assert len(judge.asked) - before == 9, "only what failed is asked again"


def test_failing_judge_leaves_its_answers(store: Store, rubric: Rubric) -> None:
    def script(sample: Sample, question: object) -> dict[str, float]:
        if sample.conversation.id == "c3":
            raise ModelError("the endpoint refused the key")
        return even(sample, question)

    with pytest.raises(ModelError, match="refused the key"):
        judge_samples(ScriptedJudge(script), rubric, samples(9), store, concurrency=1)
    healthy = ScriptedJudge(even)
    judge_samples(healthy, rubric, samples(9), store)
    assert {sample.conversation.id for sample, _ in healthy.asked} == {f"c{i}" for i in range(3, 9)}


def test_answers_keep_the_mass_outside_their_options(rubric: Rubric) -> None:
    answers = [Answer("Q0", {"1": 0.1, "2": 0.2, "3": 0.3, "4": 0.1}, 0.3), Unanswered("Q1", "timeout")]
    table = answer_table(ScriptedJudge(even), rubric, [Judged(Target("c"), answers)])
    row = {column.name: value for column, value in zip(table.columns, table.values[0], strict=True)}
    assert sum(row[f"Q0={k}"] for k in range(1, 5)) == pytest.approx(0.7)
    assert "question:s256:" in table.columns[0].signature and "via:scripted" in table.columns[0].signature
    assert table.absences == {(Target("c"), "Q1"): "timeout"}


def test_turn_is_measured_as_the_only_reply() -> None:
    turns = (Turn("user", "hi"), Turn("assistant", "Sorry"), Turn("user", "Where is X?"), Turn("assistant", "Sorry"))
    chat = Conversation("c", turns)
    assert chat.at(3).replies == turns[3:] and chat.at(1).turns == turns[:2] and chat.at(None) is chat
    assert [turn.content for turn in chat.at(3).others] == ["hi", "Where is X?"]
    footed = Conversation("f", (Turn("alice", "a"), Turn("bob", "b"), Turn("system", "chat ended")))
    assert [turn.content for turn in footed.replies] == ["b"]
    assert Conversation("s", (Turn("system", "Be kind."),)).replies == ()
    tooled = Conversation("t", (Turn("user", "q"), Turn("tool", "{}"), Turn("assistant", "a")))
    assert [turn.role for turn in tooled.others] == ["user"]
    table = measure([Sample(chat, 1), Sample(chat, 3)], ["words-per-reply", "turns"])
    assert table.values.tolist() == [[1.0, 2.0], [1.0, 4.0]]

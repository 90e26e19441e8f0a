"""Comparisons of evaluators on people's pairwise preferences."""

from __future__ import annotations

from typing import Any

from accord.project.evaluators.pair_test import PairTest, agreement_on_pairs, preferences_of
from accord.testing import sample_project
from accord.values import Label, Labels, Question, Rubric, Scale, Target


def prefers(first: str, second: str, value: int, question: str = "preference", by: str = "ann") -> Label:
    return Label(Target(first), question, by, value, against=Target(second))


def test_preferences_of_several_people_and_both_orders_are_one_pair() -> None:
    better = Question(id="better", text="Better?", scale=Scale(options=(1, 2, 3)), applies="pairs")
    rubric = Rubric(name="r", main="better", questions=(better,))
    labels = [
        prefers("a", "b", 3, "better"), prefers("b", "a", 3, "better", "bob"), prefers("a", "b", 3, "better", "eve"),
        prefers("c", "d", 0), prefers("c", "d", -1, by="bob"), prefers("c", "d", 1, "unknown"),
        Label(Target("a"), "other", "ann", 2),
    ]  # fmt: skip
    found = preferences_of(rubric, Labels(labels))
    assert {name: list(pairs) for name, pairs in found.items()} == {
        "better": [(Target("a"), Target("b"))], "preference": [(Target("c"), Target("d"))],
    }  # fmt: skip
    assert found["better"].popitem()[1] > 0 > found["preference"].popitem()[1]


def pairs_test(scores: dict[str, float], *pairs: tuple[str, str, float]) -> PairTest:
    named = {(Target(first), Target(second)): value for first, second, value in pairs}
    return agreement_on_pairs(
        "preference", "default", named, {Target(name): value for name, value in scores.items()}, {}
    )


def test_share_of_pairs_that_scores_order_as_people_do() -> None:
    scores = {name: float(place) for place, name in enumerate("abcdefgh")} | {"h": 6.0}
    found = pairs_test(
        scores, ("a", "b", -1), ("d", "c", 1), ("e", "f", 1), ("g", "h", 1), ("a", "c", 0), ("a", "x", 1)
    )
    assert (found.pairs, found.ties, found.unscored) == (4, 1, 1)
    assert found.agreement.value == (1 + 1 + 0 + 0.5) / 4 and found.agreement.low is not None


def test_pairs_with_one_conversation_have_no_interval() -> None:
    found = pairs_test({"a": 1.0, "b": 2.0, "c": 3.0}, ("a", "b", -1), ("a", "c", -1))
    assert (found.agreement.value, found.agreement.low) == (1.0, None)


def test_no_pair_with_scores_is_said() -> None:
    assert str(pairs_test({}, ("a", "b", 1))) == (
        "pairs (preference): none can be tested (left out: 1 pair without held-out scores)"
    )


def test_compare_tests_the_evaluator_on_pairs() -> None:
    with sample_project(8, evaluators={"default": {"head": "ridge"}}) as project:
        names = [conversation.id for conversation in project.store.conversations()]
        project.store.add_labels([prefers(*names[:2], 1), prefers(*names[2:4], -1), prefers(*names[4:6], 0)], fail)
        [found] = project.compare(only=["default"], jobs=1).pairs
    assert (found.pairs, found.ties, found.unscored) == (2, 1, 0)


def fail(error: Any) -> None:
    raise AssertionError(error)

"""Recommendation of an evaluator, and the baselines that it is compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import Column, EvidenceTable, Ratings, ratings
from accord.learning import BestColumn, JudgeArgmax, JudgeExpected, Predictions
from accord.validation import Gain, decide, labels_needed
from accord.values import Label, Labels, Question, Scale, Target

QUESTION = Question(id="main", text="How good is it?", scale=Scale(options=(1, 2, 3, 4, 5)))
Floats = NDArray[np.float64]


def rated_by(values: Sequence[float], annotators: int = 1) -> tuple[Ratings, Floats]:
    """Ratings of one conversation each, with their values."""
    labels = Labels(Label(Target(f"c{n}"), "main", f"a{n % annotators}", v) for n, v in enumerate(values))
    table = EvidenceTable.from_rows([], {Target(f"c{n}"): {} for n in range(len(values))})
    return ratings(table, labels, QUESTION), np.array(values, dtype=float)


def predicted(name: str, new: Floats, known: Floats | None = None) -> Predictions:
    """A system that predicts these values, for a new annotator and for the rating's own."""
    n = len(new)
    nothing = np.zeros((n, 5))
    own = new if known is None else known
    return Predictions(name, nothing, own, new, np.ones(n, dtype=bool), np.full((n, 2), np.nan), nothing)


@pytest.fixture
def sample() -> tuple[Ratings, Floats, np.random.Generator]:
    rng = np.random.default_rng(0)
    rated, values = rated_by(rng.integers(1, 6, size=120).tolist(), annotators=4)
    return rated, values, rng


COSTS = {"simple": (0, 0, 1), "costly": (1, 2, 3), "best-column": (-1,)}


def test_the_cheaper_of_two_equal_evaluators_is_recommended(
    sample: tuple[Ratings, Floats, np.random.Generator],
) -> None:
    rated, values, rng = sample
    simple = predicted("simple", values + rng.normal(0, 0.80, 120))
    costly = predicted("costly", values + rng.normal(0, 0.79, 120))
    constant = predicted("constant", np.full(120, values.mean()))
    decision = decide([costly, simple], COSTS, constant, rated, seed=0)
    assert decision.is_supported and decision.evaluator == "simple"
    assert decision.tests["constant"].p < 0.05 and str(decision).startswith("use simple: RMSE for a new annotator ")


def test_clearly_better_evaluator_is_recommended_at_any_cost(
    sample: tuple[Ratings, Floats, np.random.Generator],
) -> None:
    rated, values, rng = sample
    simple, costly = (predicted(n, values + rng.normal(0, sd, 120)) for n, sd in (("simple", 1.0), ("costly", 0.3)))
    constant = predicted("constant", np.full(120, values.mean()))
    assert decide([simple, costly], COSTS, constant, rated, seed=0).evaluator == "costly"


def test_the_error_for_a_new_annotator_decides(sample: tuple[Ratings, Floats, np.random.Generator]) -> None:
    rated, values, rng = sample
    fitted_to_people = predicted("costly", values + rng.normal(0, 1.2, 120), values + rng.normal(0, 0.2, 120))
    simple = predicted("simple", values + rng.normal(0, 0.6, 120))
    constant = predicted("constant", np.full(120, values.mean()))
    decision = decide([fitted_to_people, simple], COSTS, constant, rated, seed=0)
    assert decision.evaluator == "simple" and decision.known is not None and decision.known[0] == "costly"
    assert "For the annotators in the labels costly has the lower RMSE" in str(decision)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_recommended_if_no_evaluator_beats_the_constant(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rated, values = rated_by(rng.integers(1, 6, size=11).tolist())
    guesses = [predicted(name, rng.permutation(values)) for name in ("simple", "costly")]
    constant = predicted("constant", np.full(11, values.mean()))
    decision = decide(guesses, COSTS, constant, rated, seed=0)
    assert not decision.is_supported and decision.status == "not enough labels"
    assert str(decision).startswith("not enough labels: on 11 ratings")
    if decision.evaluator == "constant":
        assert str(decision).endswith("until then every score is the mean rating")


def test_a_promising_evaluator_says_how_many_more_labels_are_needed() -> None:
    rng = np.random.default_rng(4)
    rated, values = rated_by(rng.integers(1, 6, size=12).tolist())
    constant = predicted("constant", np.full(12, values.mean()))
    better = predicted("simple", 0.55 * values + 0.45 * values.mean() + rng.normal(0, 0.9, 12))
    decision = decide([better], COSTS, constant, rated, 0, lambda system: [Gain(6, 0.05, 0.5)])
    assert not decision.is_supported and decision.labels_needed is not None and decision.labels_needed > 0
    assert f"about {decision.labels_needed} more ratings are needed" in str(decision)


def test_labels_needed_falls_with_the_gain_and_is_unknown_without_one() -> None:
    small, large = (labels_needed([Gain(100, gain, 0.1)]) for gain in (0.1, 0.2))
    assert small is not None and large is not None and large < small
    assert labels_needed([Gain(50, 0.2, 0.1), Gain(100, -0.1, 0.1)]) is None


def judged(question: str, sign: float) -> tuple[EvidenceTable, Labels]:
    """Answers of a judge with three options to one question, which follow the ratings with a sign."""
    columns = [Column(f"{question}={option}", "judge|recorded", question, float(option)) for option in (0, 1, 2)]
    rows, labels = {}, []
    for n in range(20):
        value = 1 + n % 5
        share = (value - 1) / 4 if sign > 0 else (5 - value) / 4
        rows[Target(f"c{n}")] = dict(zip((c.name for c in columns), (1 - share, 0.0, share), strict=True))
        labels.append(Label(Target(f"c{n}"), "main", "ann", value))
    return EvidenceTable.from_rows(columns, rows), Labels(labels)


@pytest.mark.parametrize(("sign", "phrase"), [(1, "'fluency'"), (-1, "'fluency', reversed")])
def test_a_judge_of_another_question_is_a_baseline_and_is_named(sign: float, phrase: str) -> None:
    evidence, labels = judged("fluency", sign)
    head = JudgeExpected(QUESTION).fit(evidence, labels)
    assert head.choices() == [f"the judge's answer to {phrase}"]
    values = [score.value for score in head.predict_each(evidence, [None] * 20)]  # type: ignore[union-attr]
    assert values == pytest.approx([label.value for label in labels])
    card, arrays = head.state()
    again = JudgeExpected(QUESTION).restore(card, arrays)
    assert [s.value for s in again.predict_each(evidence, [None] * 20)] == values  # type: ignore[union-attr]
    best = JudgeArgmax(QUESTION).fit(evidence, labels).predict_each(evidence, [None] * 20)
    assert {score.value for score in best} == {1.0, 5.0}  # type: ignore[union-attr]


def test_a_judge_of_the_question_itself_is_read_as_it_is() -> None:
    evidence, labels = judged("main", -1)
    head = JudgeExpected(QUESTION).fit(evidence, labels)
    assert head.choices() == []


def test_a_judge_whose_answers_never_vary_is_no_baseline() -> None:
    evidence, labels = judged("fluency", 1)
    same = EvidenceTable(
        evidence.targets, evidence.columns, np.tile([0.0, 0.0, 1.0], (20, 1)), evidence.present, evidence.absences
    )
    with pytest.raises(BadInput, match="no judge answered 'main'"):
        JudgeExpected(QUESTION).fit(same, labels)


def test_best_column_finds_the_column_and_predicts_the_mean_without_it() -> None:
    rng = np.random.default_rng(0)
    columns = [Column(name, "words") for name in ("noise", "signal")]
    values = [1 + n % 5 for n in range(40)]
    rows = {
        Target(f"c{n}"): {"noise": float(rng.normal()), **({"signal": 10.0 * v} if n else {})}
        for n, v in enumerate(values)
    }
    evidence = EvidenceTable.from_rows(columns, rows)
    labels = Labels(Label(Target(f"c{n}"), "main", "ann", v) for n, v in enumerate(values))
    head = BestColumn(QUESTION).fit(evidence, labels)
    assert head.choices() == ["signal"] and [c.name for c in head.columns or ()] == ["signal"]
    scores = head.predict_each(evidence, [None] * 40)
    assert scores[0].value == pytest.approx(np.mean(values), abs=0.05)  # type: ignore[union-attr]
    assert "lacks signal" in str(scores[0].warning) and scores[1].warning is None  # type: ignore[union-attr]
    assert [s.value for s in scores[1:]] == pytest.approx(values[1:], abs=0.06)  # type: ignore[union-attr]
    card, arrays = head.state()
    again = BestColumn(QUESTION).restore(card, arrays).predict_each(evidence, ["ann"] * 40)
    assert [s.value for s in again] == [s.value for s in scores]  # type: ignore[union-attr]


def test_evaluator_tested_on_a_part_is_compared(
    sample: tuple[Ratings, Floats, np.random.Generator],
) -> None:
    rated, values, rng = sample
    simple, costly = (predicted(n, values + rng.normal(0, sd, 120)) for n, sd in (("simple", 1.2), ("costly", 0.2)))
    costly.new_value[40:] = np.nan
    silent = predicted("best-column", np.full(120, np.nan))
    constant = predicted("constant", np.full(120, values.mean()))
    assert decide([simple, costly, silent], COSTS, constant, rated, seed=0).evaluator == "costly"
    assert not decide([silent], COSTS, constant, rated, seed=0).is_supported


def test_the_best_guess_is_never_worse_than_the_constant(sample: tuple[Ratings, Floats, np.random.Generator]) -> None:
    rated, values, rng = sample
    rows = rated.take(np.arange(12))
    constant = predicted("constant", np.full(12, values[:12].mean()))
    ahead = predicted("costly", 0.4 * values[:12] + 0.6 * values[:12].mean() + rng.normal(0, 0.9, 12))
    behind = predicted("best-column", np.full(12, values[:12].mean()) + rng.normal(0, 0.5, 12))
    decision = decide([ahead, behind], COSTS, constant, rows, seed=0)
    assert decision.evaluator == "constant" or decision.rmse[decision.evaluator] < decision.rmse["constant"]

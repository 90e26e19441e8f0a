"""Recommendation of an evaluator, and the baselines that it is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accord.decisions import Decision, contenders, decide
from accord.edges import BadInput
from accord.evidence import Column, EvidenceTable, Ratings, ratings
from accord.learning import (
    JudgeExpected,
    Predictions,
)
from accord.learning.baselines import (
    BestColumn,
    JudgeArgmax,
)
from accord.validation import Gain, labels_needed
from accord.values import Label, Labels, Question, Scale, Target

QUESTION = Question(id="main", text="How good is it?", scale=Scale(options=(1, 2, 3, 4, 5)))
Floats = NDArray[np.float64]


def rated_by(values: Sequence[float], annotators: int = 1) -> tuple[Ratings, Floats]:
    """Ratings of one conversation each, with their values."""
    labels = Labels(Label(Target(f"c{n}"), "main", f"a{n % annotators}", v) for n, v in enumerate(values))
    table = EvidenceTable.from_rows([], {Target(f"c{n}"): {} for n in range(len(values))})
    return ratings(table, labels, QUESTION), np.array(values, dtype=float)


def predicted(name: str, new: Floats, known: Floats | None = None, band: float | None = 1.0) -> Predictions:
    """A system that predicts these values, for a new annotator and for the rating's own; bands reach `band` around."""
    n = len(new)
    nothing = np.zeros((n, 5))
    own = new if known is None else known
    ends = np.full((n, 2), np.nan) if band is None else np.column_stack([new - band, new + band])
    return Predictions(name, nothing, own, new, np.ones(n, dtype=bool), ends, nothing, ends)


def decided(
    systems: Sequence[Predictions], rated: Ratings, default: str = "default", curve: Any = lambda name: ()
) -> Decision:
    """The decision among systems of one repetition; systems without bands are baselines."""
    baselines = ("constant", "best-column", "judge-expected")
    names = [each.name for each in systems if each.name not in baselines]
    return decide({each.name: [each] for each in systems}, names, rated, default, curve)


@pytest.fixture
def sample() -> tuple[Ratings, Floats, np.random.Generator]:
    rng = np.random.default_rng(0)
    rated, values = rated_by(rng.integers(1, 6, size=120).tolist(), annotators=4)
    return rated, values, rng


Sampled = tuple[Ratings, Floats, np.random.Generator]


def test_the_default_is_recommended_unless_another_is_significantly_better(sample: Sampled) -> None:
    rated, values, rng = sample
    default, near, better = (
        predicted(name, values + rng.normal(0, sd, 120))
        for name, sd in (("default", 0.8), ("near", 0.79), ("best", 0.3))
    )
    constant = predicted("constant", np.full(120, values.mean()), band=None)
    kept = decided([near, default, constant], rated)
    assert kept.is_supported and kept.evaluator == "default" and kept.tests["constant"].p < 0.01
    assert str(kept).startswith("use default, the default evaluator (typical error 0.")
    assert "no other evaluator is shown to be better; it is better than a constant guess" in str(kept)
    other = decided([near, default, better, constant], rated)
    assert other.is_supported and other.evaluator == "best" and other.tests["default"].p < 0.01
    assert "significantly better than the default default" in str(other)


def test_a_rival_without_a_better_default_is_recommended_if_it_beats_the_constant(sample: Sampled) -> None:
    rated, values, rng = sample
    constant = predicted("constant", np.full(120, values.mean()), band=None)
    default = predicted("default", values.mean() + rng.normal(0, 0.3, 120))
    better = predicted("able", values + rng.normal(0, 0.9, 120))
    decision = decided([default, better, constant], rated)
    assert decision.is_supported and decision.evaluator == "able"


@pytest.mark.parametrize("name", ["best-column", "word-count"])
def test_a_single_column_is_never_recommended(sample: Sampled, name: str) -> None:
    rated, values, rng = sample
    constant = predicted("constant", np.full(120, values.mean()), band=None)
    default = predicted("default", values + rng.normal(0, 1.0, 120))
    count = predicted(name, values + rng.normal(0, 0.1, 120), band=None)
    decision = decided([count, default, constant], rated)
    assert decision.evaluator == "default" and decision.is_supported
    if name == "word-count":
        assert decision.unfit == {"word-count": "its scores have no bands"}
    else:
        assert decision.tests["best-column"].difference > 0, "the table still shows that the column is better"


def test_the_error_for_a_new_annotator_decides(sample: Sampled) -> None:
    rated, values, rng = sample
    fitted_to_people = predicted("personal", values + rng.normal(0, 1.2, 120), values + rng.normal(0, 0.2, 120))
    default = predicted("default", values + rng.normal(0, 0.6, 120))
    constant = predicted("constant", np.full(120, values.mean()), band=None)
    decision = decided([fitted_to_people, default, constant], rated)
    assert decision.evaluator == "default" and decision.known is not None and decision.known[0] == "personal"
    assert "For the annotators in the labels personal has the smaller error" in str(decision)


def test_scores_that_are_worse_than_the_constant_are_called_so(sample: Sampled) -> None:
    """A small p in the wrong direction is not one of a gain."""
    rated, values, _ = sample
    constant = predicted("constant", np.full(120, values.mean()), band=None)
    text = str(decided([predicted("default", 6 - values), constant], rated))
    assert "it is worse than a constant guess" in text and "not shown to be better" not in text


@pytest.mark.parametrize("seed", range(5))
def test_labels_do_not_support_an_evaluator_that_is_no_better_than_the_constant(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rated, values = rated_by(rng.integers(1, 6, size=11).tolist())
    guesses = [predicted(name, rng.permutation(values)) for name in ("default", "other")]
    constant = predicted("constant", np.full(11, values.mean()), band=None)
    decision = decided([*guesses, constant], rated)
    assert not decision.is_supported and decision.status == "not enough labels" and decision.evaluator == "default"
    assert "not enough labels: on 11 ratings it is not shown to be better than a constant guess" in str(decision)


def test_a_promising_evaluator_says_how_many_more_labels_are_needed() -> None:
    rng = np.random.default_rng(4)
    rated, values = rated_by(rng.integers(1, 6, size=12).tolist())
    constant = predicted("constant", np.full(12, values.mean()), band=None)
    better = predicted("default", 0.55 * values + 0.45 * values.mean() + rng.normal(0, 0.9, 12))
    decision = decided([better, constant], rated, curve=lambda name: [Gain(6, 0.05, 0.5)])
    assert not decision.is_supported and decision.labels_needed is not None and decision.labels_needed > 0
    assert f"about {decision.labels_needed} more ratings are needed" in str(decision)


def test_repetitions_are_averaged_and_only_the_strongest_rival_is_repeated(sample: Sampled) -> None:
    rated, values, rng = sample
    constant = predicted("constant", np.full(120, values.mean()), band=None)
    noises = {"default": 0.8, "best": 0.3, "good": 0.5, "poor": 1.1}
    repeats = {
        name: [predicted(name, values + rng.normal(0, sd, 120)) for _ in range(5)] for name, sd in noises.items()
    }
    first = {name: each[0] for name, each in repeats.items()} | {"constant": constant}
    assert contenders(first, list(noises), "default", rated) == ["default", "best"]
    decision = decide({**repeats, "constant": [constant] * 5}, list(noises), rated, "default")
    errors = [float(np.sqrt(np.mean((each.new_value - values) ** 2))) for each in repeats["best"]]
    assert decision.repeats == 5 and decision.rmse["best"] == pytest.approx(np.mean(errors))
    assert "over 5 repetitions of the cross-validation" in str(decision)


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


def test_evaluator_tested_on_a_part_is_compared(sample: Sampled) -> None:
    rated, values, rng = sample
    default, costly = (predicted(n, values + rng.normal(0, sd, 120)) for n, sd in (("default", 1.2), ("costly", 0.2)))
    costly.new_value[40:] = np.nan
    costly.new_band[40:] = np.nan
    silent = predicted("silent", np.full(120, np.nan))
    constant = predicted("constant", np.full(120, values.mean()), band=None)
    decision = decided([default, costly, silent, constant], rated)
    assert decision.evaluator == "costly" and decision.unfit == {"silent": "it predicts no new annotator"}
    assert not decided([silent, constant], rated).is_supported


def test_the_best_of_several_better_rivals_is_named_with_its_corrected_p(sample: Sampled) -> None:
    rated, values, rng = sample
    constant = predicted("constant", np.full(120, values.mean()), band=None)
    default, good, best = (
        predicted(name, values + rng.normal(0, sd, 120))
        for name, sd in (("default", 0.9), ("good", 0.5), ("best", 0.4))
    )
    alone, both = (decided([default, *others, constant], rated) for others in ((best,), (good, best)))
    assert alone.evaluator == both.evaluator == "best"
    assert both.tests["default"].p == pytest.approx(2 * alone.tests["default"].p)  # Holm over two rivals
    assert both.tests["default"].difference == pytest.approx(both.rmse["best"] - both.rmse["default"])
    assert both.tests["default"].difference < 0 and both.tests["constant"].difference < 0
    assert f"significantly better than the default default ({both.rmse['default']:.2f}, " in str(both)


def test_the_lowest_error_for_known_annotators_is_named_with_both_errors(sample: Sampled) -> None:
    rated, values, rng = sample
    constant = predicted("constant", np.full(120, values.mean()), band=None)
    default = predicted("default", values + rng.normal(0, 0.6, 120))
    rivals = [
        predicted(name, values + rng.normal(0, 1.2, 120), values + rng.normal(0, sd, 120))
        for name, sd in (("near", 0.58), ("close", 0.3), ("closest", 0.2), ("far", 0.9))
    ]
    decision = decided([default, *rivals, constant], rated)
    own = {each.name: float(np.sqrt(np.mean((each.value - values) ** 2))) for each in (default, *rivals)}
    assert decision.evaluator == "default"
    assert decision.known == ("closest", pytest.approx(own["closest"]), pytest.approx(own["default"]))


def test_rivals_of_a_weak_default_may_be_better_than_the_constant_alone(sample: Sampled) -> None:
    rated, values, rng = sample
    mean, noise = values.mean(), rng.normal(0, 0.02, 120)
    weak, worse = predicted("default", np.full(120, mean) + noise), predicted("worse", values + rng.normal(0, 3.0, 120))
    able = predicted("able", mean + 0.5 * (values - mean) + rng.normal(0, 0.5, 120))
    first = {each.name: each for each in (weak, worse, able, predicted("constant", np.full(120, mean), band=None))}
    assert contenders(first, ["default", "worse", "able"], "default", rated) == ["default", "able"]
    assert contenders(first, ["default", "worse"], "default", rated) == ["default"]


def test_a_weak_default_has_rivals_that_beat_the_constant_but_not_the_default(sample: Sampled) -> None:
    rated, values, rng = sample
    mean = values.mean()
    weak = predicted("default", values + rng.normal(0, 1.38, 120))
    steady = predicted("steady", mean + 0.1 * (values - mean))
    first = {each.name: each for each in (weak, steady, predicted("constant", np.full(120, mean), band=None))}
    decision = decided(list(first.values()), rated)
    assert decision.tests["default"].p > 0.1 and decision.tests["constant"].p < 0.01
    assert contenders(first, ["default", "steady"], "default", rated) == ["default", "steady"]
    assert decision.evaluator == "steady" and decision.default == "default"
    assert "the default default is not shown to be better than a constant guess" in str(decision)
    assert "significant below p = 0.01, over one cross-validation" in str(decision)

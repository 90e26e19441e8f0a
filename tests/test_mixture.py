"""Answer model `curves`: smooth curves over ranks with attributions, and the published forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accord import Evaluator, Label, Labels, Score, Target, Unscored, compare, load_evaluator
from accord.edges import BadInput, UnknownName
from accord.evidence import EvidenceTable
from accord.learning import make_head
from accord.learning.answer_models.metric_curves import (
    BINS,
    Additive,
    Bins,
    predicted,
)
from accord.statistics import pearson
from accord.testing import planted


def values(scores: list[Score | Unscored]) -> np.ndarray:
    return np.array([score.value for score in scores if isinstance(score, Score)])


def test_soft_bins_are_hat_functions_of_mid_ranks() -> None:
    X = np.array([[1.0, 5.0], [2.0, 5.0], [3.0, np.nan], [4.0, 7.0]])
    bins = Bins.fit(X)
    assert bins.ranks(X)[:, 0] == pytest.approx([0.125, 0.375, 0.625, 0.875])
    assert bins.ranks(X)[[0, 1, 3], 1] == pytest.approx([1 / 3, 1 / 3, 5 / 6])
    basis = bins.soft(X)
    assert basis.shape == (4, 2, BINS + 1) and basis.sum(axis=-1) == pytest.approx(np.ones((4, 2)))
    assert basis[0, 0] == pytest.approx([0.5, 0.5, 0, 0, 0, 0]) and basis[2, 1].tolist() == [0, 0, 0, 0, 0, 1]
    far = bins.ranks(np.array([[-1e9, 1e9]]))
    assert far.tolist() == [[0.0, 1.0]]
    many = np.random.default_rng(0).normal(size=(5000, 1))
    assert Bins.fit(many).ranks(many) == pytest.approx(np.argsort(np.argsort(many, axis=0), axis=0) / 5000, abs=2e-3)


def test_additive_fit_minimizes_its_objective() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    bins, y, weight = Bins.fit(X), X[:, 0] ** 2 + rng.normal(size=60) * 0.1, rng.integers(1, 4, 60) * 1.0
    found, basis = Additive.fit(bins, X, y, weight, np.arange(60), (2.0, 3.0)), bins.soft(X)

    def cost(level: float, curves: np.ndarray) -> float:
        misfit = (weight * (y - level - (basis * curves).sum(axis=(1, 2))) ** 2).sum()
        plain = curves[:, :BINS]
        return float(
            misfit
            + 2 * (np.diff(plain) ** 2).sum()
            + 3 * (np.diff(plain, 2) ** 2).sum()
            + 2 * (curves[:, BINS] ** 2).sum()
        )

    best = cost(found.level, found.values)
    for _ in range(50):
        step = rng.normal(size=found.values.shape) * 0.05
        assert cost(found.level, found.values + step) > best - 0.01
    assert found.contributions(X).sum(axis=1) + found.level == pytest.approx(predicted(found, X))
    assert weight @ found.contributions(X) == pytest.approx(np.zeros(2), abs=1e-9)


def test_curves_are_saved_and_beat_the_constant(tmp_path: Path) -> None:
    corpus = planted(conversations=150, annotators=4)
    found = compare(corpus.evidence, corpus.labels, corpus.question, ("mixture",), draws=40)
    assert (found["mixture"].values["pearson"] or 0) > 0.5 > (found["constant"].values["pearson"] or 0)
    assert 0.8 < (found["mixture"].values["coverage"] or 0) <= 1
    evaluator = make_head("curves", corpus.question, {}).fit(corpus.evidence, corpus.labels)
    Evaluator(corpus.question, (), evaluator, head_name="curves").save(tmp_path)
    again = load_evaluator(tmp_path).head
    assert again.predict(corpus.evidence) == evaluator.predict(corpus.evidence)
    assert again.describe() == evaluator.describe()
    assert [s.value for s in evaluator.predict(corpus.evidence, "p1")] == [
        s.value for s in evaluator.predict(corpus.evidence)
    ]
    with pytest.raises(UnknownName):
        evaluator.predict(corpus.evidence, "nobody")


def test_curves_recover_a_bend_and_attributions_add_up() -> None:
    rng = np.random.default_rng(1)
    corpus = planted(conversations=200, annotators=3, features=3)
    X = corpus.evidence.values
    bent = 3 - np.abs(X[:, 0]) + 0.3 * X[:, 1]
    row = {target: i for i, target in enumerate(corpus.evidence.targets)}
    labels = Labels(
        Label(x.target, "main", x.annotator, int(np.clip(round(bent[row[x.target]] + rng.normal() * 0.3), 1, 4)))
        for x in corpus.labels
    )
    evaluator = make_head("curves", corpus.question, {}).fit(corpus.evidence, labels)
    scores = evaluator.predict(corpus.evidence)
    assert (pearson(bent, values(scores)) or 0) > 0.9
    about = evaluator.describe()
    curve = about["curves"]["f0"]
    assert curve[2] > curve[0] + 0.5 and curve[2] > curve[4] + 0.5 and list(about["reach"])[0] == "f0"
    first = scores[0]
    assert isinstance(first, Score)
    assert {name for name, _ in first.attributions} == {"f0", "f1", "f2"}
    sizes = [abs(amount) for _, amount in first.attributions]
    assert sizes == sorted(sizes, reverse=True)
    sums = np.array([sum(amount for _, amount in s.attributions) for s in scores if isinstance(s, Score)])
    assert (pearson(sums, values(scores)) or 0) > 0.98


def test_missing_metrics_have_a_contribution() -> None:
    corpus = planted(conversations=120, annotators=3, features=2)
    present = corpus.evidence.present.copy()
    present[::3, 0] = False
    table = corpus.evidence.with_only(present)
    evaluator = make_head("curves", corpus.question, {}).fit(table, corpus.labels)
    assert len(values(evaluator.predict(table))) == 120
    nothing = table.with_only(np.zeros_like(present))
    assert all(isinstance(score, Unscored) and "no evidence" in score.reason for score in evaluator.predict(nothing))


def test_few_labels_warn_and_too_few_are_rejected() -> None:
    corpus = planted(conversations=60, annotators=2, share=0.9)
    some = Labels([x for x in corpus.labels if x.target.conversation < "c0030"])
    scores = make_head("curves", corpus.question, {}).fit(corpus.evidence, some).predict(corpus.evidence)
    assert all(isinstance(s, Score) and s.warning and "learned from few texts" in s.warning for s in scores)
    with pytest.raises(BadInput, match="curves need at least 20"):
        make_head("curves", corpus.question, {}).fit(corpus.evidence, Labels(list(corpus.labels)[:10]))
    one = planted(conversations=60, annotators=2)
    targets = tuple(Target("c", place) for place in range(60))
    table = EvidenceTable(targets, one.evidence.columns, one.evidence.values, one.evidence.present)
    same = Labels(Label(target, "main", "ann", 1 + place % 4) for place, target in enumerate(targets))
    with pytest.raises(BadInput, match="belong to one conversation"):
        make_head("curves", one.question, {}).fit(table, same)
    with pytest.raises(BadInput, match="must both be numbers from 0"):
        make_head("curves", corpus.question, {"curves": {"flat": 1.0}})


def test_ranks_can_be_taken_among_other_texts() -> None:
    corpus = planted(conversations=200, annotators=3)
    evaluator = make_head("curves", corpus.question, {}).fit(corpus.evidence, corpus.labels)
    moved = EvidenceTable(
        corpus.evidence.targets, corpus.evidence.columns, 5 * corpus.evidence.values + 40, corpus.evidence.present
    )
    there, here = values(evaluator.with_ranks_among(moved).predict(moved)), values(evaluator.predict(corpus.evidence))
    assert there == pytest.approx(here, abs=0.1) and np.ptp(values(evaluator.predict(moved))) < np.ptp(here)
    warned = [score.warning for score in evaluator.predict(moved) if isinstance(score, Score)]
    assert all(warning and "unlike" in warning for warning in warned)


def test_unknown_forms_and_losses_are_rejected() -> None:
    question = planted(conversations=10, annotators=2).question
    with pytest.raises(UnknownName, match="additive, concat, gated"):
        make_head("curves", question, {"curves": {"form": "gate"}})
    with pytest.raises(UnknownName, match="cross-entropy, squared"):
        make_head("curves", question, {"curves": {"loss": "hinge"}})

"""Published variants: answer models and heads against their formulas, saved and restored, through their names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from accord import Evaluator, Label, Labels, Question, Scale, Score, Unscored, load_evaluator
from accord.edges import BadInput
from accord.evidence import EvidenceTable, ratings
from accord.learning import (
    Calibration,
    make_head,
)
from accord.learning.answer_models.curves import CurveAnswers
from accord.learning.answer_models.metric_curves import (
    BINS,
    predicted,
)
from accord.statistics import pearson
from accord.testing import check_head, planted
from accord_papers.variants.experts import ExpertParameters, parts
from accord_papers.variants.label_free import LabelFree

# --- MoE-Concat and MoE-CIU -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["gated", "concat"])
@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
def test_published_forms_learn_are_saved_and_give_attributions(form: str, loss: str, tmp_path: Path) -> None:
    pytest.importorskip("jax", reason="needs accord[networks]")
    corpus = planted(conversations=150, annotators=3)
    evaluator = make_head("curves", corpus.question, {"curves": {"form": form, "loss": loss}}).fit(
        corpus.evidence, corpus.labels
    )
    scores = evaluator.predict(corpus.evidence)
    truth: dict[str, list[float]] = {}
    for label in corpus.labels:
        truth.setdefault(label.target.conversation, []).append(float(label.value))  # type: ignore[arg-type]
    means = np.array([np.mean(truth[s.target.conversation]) for s in scores if s.target.conversation in truth])
    found = np.array([s.value for s in scores if isinstance(s, Score) and s.target.conversation in truth])
    assert (pearson(means, found) or 0) > 0.6
    about = evaluator.describe()
    assert about["form"] == form and 1 <= about["steps"] <= 200 and f"form:{form},{loss}" in str(evaluator.signature())
    assert isinstance(evaluator.answer_model_, CurveAnswers)
    sums = np.array([sum(amount for _, amount in s.attributions) for s in scores if isinstance(s, Score)])
    X = np.where(corpus.evidence.present, corpus.evidence.values, np.nan)
    assert sums + about["level"] == pytest.approx(predicted(evaluator.answer_model_.form_, X))
    Evaluator(corpus.question, (), evaluator, head_name=form).save(tmp_path)
    assert load_evaluator(tmp_path).head.predict(corpus.evidence) == scores
    assert (
        make_head("curves", corpus.question, {"curves": {"form": form, "loss": loss}})
        .fit(corpus.evidence, corpus.labels)
        .predict(corpus.evidence)
        == scores
    )


def test_classifier_of_two_options_predicts_between_them() -> None:
    pytest.importorskip("jax", reason="needs accord[networks]")
    corpus = planted(conversations=120, annotators=3)
    question = Question(id="main", text="?", scale=Scale(options=(0, 1)))
    labels = Labels(Label(x.target, "main", x.annotator, int(float(x.value) > 2)) for x in corpus.labels)  # type: ignore[arg-type]
    evaluator = make_head("gated", question, {"curves": {"loss": "cross-entropy"}}).fit(corpus.evidence, labels)
    assert isinstance(evaluator.answer_model_, CurveAnswers)
    found = predicted(evaluator.answer_model_.form_, corpus.evidence.values)
    assert 0 < found.min() < 0.5 < found.max() < 1


def test_gate_is_a_softmax_over_metrics() -> None:
    rng = np.random.default_rng(0)
    basis = np.eye(BINS + 1)[rng.integers(0, BINS, (7, 3))]
    E, u, W = rng.normal(size=(3, BINS + 1, 4)), rng.normal(size=4), rng.normal(size=(12, 3))
    parameters = ExpertParameters(E, u, np.array(0.0), W)
    found = parts(np, parameters, basis)
    for row in range(7):
        e = [E[m, basis[row, m].argmax()] for m in range(3)]
        gate = np.exp(np.concatenate(e) @ W)
        assert found[row] == pytest.approx([3 * gate[m] / gate.sum() * (u @ e[m]) for m in range(3)])


# --- support vector regression ----------------------------------------------------------------------------------------


def test_svr_matches_scikit_learn_and_learns_a_bend(tmp_path: Path) -> None:
    from sklearn.svm import SVR

    corpus = planted(conversations=200, options=7)
    bent, place = corpus.evidence, dict(zip(corpus.evidence.targets, corpus.evidence.values[:, 0], strict=True))
    values = [int(np.clip(round(1 + 3 * abs(place[label.target])), 1, 7)) for label in corpus.labels]
    labels = Labels(replace(label, value=value) for label, value in zip(corpus.labels, values, strict=True))
    old, new = ({f"c{place:04d}" for place in range(*ends)} for ends in ((0, 120), (120, 200)))
    rated, found = ratings(bent, labels.filter(new), corpus.question), {}
    for name in ("svr", "mixed"):
        learned = make_head(name, corpus.question, {}).fit(bent.filter(old), labels.filter(old))
        scores = learned.predict_each(bent.take(rated.row), [None] * len(rated))
        found[name] = pearson(rated.value, np.array([s.value for s in scores if isinstance(s, Score)])) or 0.0
    assert found["svr"] > 0.8 and found["mixed"] < 0.3
    learned = Calibration(corpus.question, answer_model="svr").fit(bent.filter(old), labels.filter(old))
    answer_model = learned.answer_model_
    assert answer_model is not None and set(answer_model.describe()) == {"strength", "tube", "support_vectors"}
    texts = ratings(bent, labels.filter(old), corpus.question)
    rows = np.unique(texts.row)
    X, y = bent.values[rows], np.array([texts.value[texts.row == row].mean() for row in rows])
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    weight, (strength, tube) = np.bincount(texts.row)[rows], answer_model.cell_  # type: ignore[attr-defined]
    theirs = SVR(C=strength, epsilon=tube, gamma=1 / 3).fit(Z, y - 1, weight).predict(Z)
    spread = answer_model.distributions(bent.take(rows), [None] * len(rows)) @ corpus.question.scale.numbers
    assert stats.spearmanr(theirs, spread).statistic > 0.9999
    Evaluator(corpus.question, (), learned, head_name="svr").save(tmp_path)
    again = load_evaluator(tmp_path).head.predict(bent)
    assert [s.value for s in again if isinstance(s, Score)] == pytest.approx(
        [s.value for s in learned.predict(bent) if isinstance(s, Score)]
    )


# --- without labels ---------------------------------------------------------------------------------------------------


def test_label_free_head_keeps_the_contract() -> None:
    check_head(lambda question: LabelFree(question, features=("f0", "f1")))


def test_label_free_head_orders_conversations(tmp_path: Any) -> None:
    corpus = planted()
    head = make_head("label-free", corpus.question, {"features": ["f0"]})
    evaluator = Evaluator(corpus.question, (), head, name="label-free", head_name="label-free")
    evaluator.fitted_on(corpus.evidence, Labels([])).save(tmp_path)
    scores = load_evaluator(tmp_path).head.predict(corpus.evidence)
    values = np.array([score.value for score in scores if isinstance(score, Score)])
    order = np.argsort(corpus.evidence.values[:, 0])
    assert (np.diff(values[order]) >= 0).all(), "more of the feature is a higher score"
    assert np.mean(values) == pytest.approx(2.5, abs=0.1), "levels are spread over the scale"
    truth = corpus.evidence.values @ corpus.weights
    assert np.corrcoef(values, truth)[0, 1] > 0.7
    assert "label-free" in str(scores[0].signature)


def test_label_free_head_reports_missing_columns() -> None:
    corpus = planted(conversations=20)
    with pytest.raises(
        BadInput, match=r"need the evidence 'pmi'.*models: \{likelihood: \{model: embedded:smollm2-135m\}\}"
    ):
        LabelFree(corpus.question).fit(corpus.evidence, Labels([]))
    for wrong in (1.5, "high", True):
        with pytest.raises(BadInput, match="trust must be a correlation"):
            LabelFree(corpus.question, trust=wrong)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="features must be a list"):
        LabelFree(corpus.question, features="pmi")
    flat = EvidenceTable(
        corpus.evidence.targets, corpus.evidence.columns, np.zeros_like(corpus.evidence.values), corpus.evidence.present
    )
    with pytest.raises(BadInput, match="the same for every conversation"):
        LabelFree(corpus.question, features=("f0",)).fit(flat, Labels([]))
    with pytest.raises(BadInput, match="at least 2 are needed"):
        LabelFree(corpus.question, features=("f0",)).fit(corpus.evidence.take([0]), Labels([]))
    evaluator = LabelFree(corpus.question, features=("f0",)).fit(corpus.evidence, Labels([]))
    absent = EvidenceTable.from_rows(corpus.evidence.columns, {corpus.evidence.targets[0]: {}}, {})
    [unscored] = evaluator.predict(absent)
    assert isinstance(unscored, Unscored) and unscored.reason == "no evidence"

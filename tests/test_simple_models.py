"""Simple answer models, their average with the mixed model, and evaluators of few or no labels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.cross_decomposition import PLSRegression
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import RidgeCV

from accord import Project, Score
from accord.edges import BadInput
from accord.evidence import EvidenceTable, ratings
from accord.learning import (
    SIMPLE_HEADS,
    Calibration,
    Evaluator,
    bands,
    load_evaluator,
    spread_targets,
)
from accord.learning.answer_models.contract import (
    inner_folds,
    matrix,
)
from accord.learning.answer_models.simple import (
    PENALTIES,
    JudgeMean,
    PartialLeastSquares,
    Ridge,
)
from accord.learning.answer_models.stacking import ConstantAnswers, StackedAnswers, shrunk_weights
from accord.learning.answer_models.trees import (
    TREES,
    TreeAnswers,
)
from accord.project import config_from
from accord.testing import planted
from accord.testing.synthetic_ratings import Planted
from accord.values import Labels, Target


def judged(corpus: Planted) -> EvidenceTable:
    """Return the evidence of a corpus as a judge's answers to one question per column."""
    return replace(corpus.evidence, columns=tuple(replace(c, question=c.name) for c in corpus.evidence.columns))


def values(scores: list) -> np.ndarray:
    assert all(isinstance(score, Score) for score in scores)
    return np.array([score.value for score in scores])


@pytest.mark.parametrize("name", SIMPLE_HEADS)
def test_simple_model_learns_explains_and_is_saved(name: str, tmp_path: Path) -> None:
    corpus = planted(conversations=120, annotators=3)
    head = Calibration(corpus.question, answer_model=name).fit(corpus.evidence, corpus.labels)
    scores = head.predict(corpus.evidence)
    rated = ratings(corpus.evidence, corpus.labels, corpus.question)
    assert np.corrcoef(values(scores)[rated.row], rated.value)[0, 1] > 0.4
    for score in scores[:20]:
        assert isinstance(score, Score) and score.band is not None
        assert sum(score.probabilities) == pytest.approx(1)
        assert score.band[0] - 1e-9 <= score.value <= score.band[1] + 1e-9
        assert score.attributions
    Evaluator(corpus.question, (), head, head_name=name).save(tmp_path)
    again = load_evaluator(tmp_path).head
    assert values(again.predict(corpus.evidence)).tolist() == values(scores).tolist()
    assert not list(tmp_path.rglob("*.pkl"))


def test_missing_values_do_not_stop_a_simple_model() -> None:
    corpus = planted(conversations=60, annotators=2)
    present = corpus.evidence.present.copy()
    present[::3, 0] = False
    table = replace(corpus.evidence, values=np.where(present, corpus.evidence.values, 0.0), present=present)
    for name in SIMPLE_HEADS:
        scores = Calibration(corpus.question, answer_model=name).fit(table, corpus.labels).predict(table)
        assert np.isfinite(values(scores)).all()


def test_linear_models_match_scikit_learn() -> None:
    corpus = planted(conversations=80, annotators=1, share=1.0)
    features = corpus.evidence.expected()
    rated = ratings(features, corpus.labels, corpus.question)
    X = matrix(features)[rated.row]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    pls, ridge = PartialLeastSquares(), Ridge()
    for model in (pls, ridge):
        model.fit(features, rated, corpus.labels)
    theirs = PLSRegression(n_components=1).fit(X, rated.value).predict(X).ravel()
    assert pls.predict_texts(features)[rated.row] == pytest.approx(theirs)
    loo = RidgeCV(PENALTIES).fit(Z, rated.value).predict(Z)
    assert np.abs(ridge.predict_texts(features)[rated.row] - loo).max() < 0.05


def test_tree_ensemble_predicts_as_scikit_learn_and_explains_each_step() -> None:
    corpus = planted(conversations=100, annotators=2, share=1.0)
    features = corpus.evidence.expected()
    rated = ratings(features, corpus.labels, corpus.question)
    model = TreeAnswers()
    model.fit(features, rated, corpus.labels)
    X, (texts, place) = matrix(features), np.unique(rated.row, return_inverse=True)
    below = rated.answer[:, None] <= np.arange(len(rated.options) - 1)
    share = np.array([below[place == text].mean(axis=0) for text in range(len(texts))])
    fold = inner_folds(rated)[np.unique(rated.row, return_index=True)[1]]
    weight, theirs = np.bincount(place).astype(float), []
    for label in np.unique(fold):
        train = fold != label
        # The smallest leaf is 5 texts and 5 ratings by turns.
        for turn, least in enumerate(({"min_samples_leaf": 5}, {"min_weight_fraction_leaf": 5 / weight[train].sum()})):
            forest = ExtraTreesRegressor(TREES // len(np.unique(fold)), random_state=int(label), **least)
            trees = forest.fit(X[texts][train], share[train], weight[train]).estimators_[turn::2]
            theirs += [tree.predict(X) for tree in trees]
    assert model.trees_.sums(X) == pytest.approx(np.mean(theirs, axis=0))
    # Contributions add up to the prediction, up to one constant for all rows.
    expected = rated.options[-1] - model.trees_.sums(X) @ np.diff(rated.options)
    assert np.ptp(expected - model.contributions(features).sum(axis=1)) < 1e-9


def test_weights_are_equal_with_few_labels_and_follow_the_error_with_many() -> None:
    rng = np.random.default_rng(0)
    for n, least in ((5, 0.0), (2000, 0.8)):
        truth = rng.normal(size=n)
        means = np.column_stack([truth + 0.1 * rng.normal(size=n), rng.normal(size=n), rng.normal(size=n)])
        weights = shrunk_weights(means, truth + 0.3 * rng.normal(size=n), np.ones(3))
        assert weights.sum() == pytest.approx(1) and (weights >= 0).all() and weights[0] >= least
        if n == 5:
            assert weights[0] < 0.8


def test_weights_without_evidence_are_the_prior_ones() -> None:
    same = np.random.default_rng(0).normal(size=(30, 1)) * np.ones(3)
    assert shrunk_weights(same, same[:, 0], np.array([3.0, 0.5, 0.5])) == pytest.approx([0.75, 0.125, 0.125], abs=1e-3)


@pytest.mark.parametrize(("texts", "candidates", "expected"), [(12, (), False), (12, ("mixed",), True), (20, (), True)])
def test_mixed_model_needs_fifteen_texts_if_another_model_can_learn(
    texts: int, candidates: tuple[str, ...], expected: bool
) -> None:
    corpus = planted(conversations=60, annotators=2, share=1.0)
    few = set(sorted(corpus.labels.targets)[:texts])
    labels = Labels((label for label in corpus.labels if label.target in few), corpus.labels.groups)
    head = Calibration(corpus.question, candidates=candidates).fit(judged(corpus), labels)
    trial = head.describe()["candidates"]["mixed"]
    assert (trial["rmse"] is not None) == expected
    assert expected or trial["why"] == "not tried: 12 rated texts; mixed needs 15"


def test_judge_mean_limits_the_reach_of_each_answer() -> None:
    corpus = planted(conversations=40, annotators=2)
    features = judged(corpus).expected()
    model = JudgeMean()
    model.fit(features, ratings(features, corpus.labels, corpus.question), corpus.labels)
    far = replace(features, values=features.values + 1000.0)
    further = replace(features, values=features.values + 2000.0)
    assert model.predict_texts(far).tolist() == model.predict_texts(further).tolist()
    assert np.isfinite(model.contributions(far)).all()
    card, arrays = model.state()
    again = JudgeMean().restore(card, arrays)
    assert again.predict_texts(far).tolist() == model.predict_texts(far).tolist()
    del card["reach"]  # evaluators of earlier versions
    assert np.abs(JudgeMean().restore(card, arrays).standardized(matrix(far))).max() > 100


def test_average_has_weights_for_known_and_for_new_annotators() -> None:
    corpus = planted(conversations=150, annotators=4, seed=3)
    head = Calibration(corpus.question).fit(corpus.evidence, corpus.labels)
    trials = head.describe()["candidates"]
    assert trials["mixed"]["rmse"] < trials["mixed"]["rmse_new"]
    assert trials["mixed"]["weight"] > trials["mixed"]["weight_new"]
    known, new = (values(head.predict(corpus.evidence, name)) for name in ("p0", None))
    assert np.abs(known - new).max() > 0.1


@pytest.mark.parametrize("count", [0, 1, 3, 7])
def test_few_labels_give_scores_in_the_judges_order_with_a_warning(count: int) -> None:
    corpus = planted(conversations=60, annotators=2)
    labels = Labels(list(corpus.labels)[:count], corpus.labels.groups)
    evidence = judged(corpus)
    head = Calibration(corpus.question).fit(evidence, labels)
    scores = head.predict(evidence)
    model = JudgeMean()
    model.fit(evidence.expected(), ratings(evidence, labels, corpus.question), labels)
    order = model.predict_texts(evidence.expected())
    assert np.corrcoef(values(scores), order)[0, 1] > 0.98
    warning = "not calibrated" if count == 0 else f"learned from {count} ratings"
    assert all(warning in str(score.warning) for score in scores)
    card, arrays = head.state()
    again = Calibration(corpus.question).restore(json.loads(json.dumps(card)), arrays)
    assert values(again.predict(evidence)).tolist() == values(scores).tolist()


def test_no_labels_and_no_judge_is_an_error_with_the_next_step() -> None:
    corpus = planted(conversations=20)
    with pytest.raises(BadInput, match="no judge answered; at least 8 labels are needed. Rate more"):
        Calibration(corpus.question).fit(corpus.evidence, Labels([]))


def test_ratings_of_one_context_give_the_judge_mean_with_a_warning() -> None:
    corpus = planted(conversations=40, annotators=2)
    groups = {label.target: "one context" for label in corpus.labels}
    evidence = judged(corpus)
    head = Calibration(corpus.question).fit(evidence, Labels(corpus.labels, groups))
    assert head.describe()["answer_model"] == "judge-mean"
    assert "ratings of one conversation or context" in str(head.predict(evidence)[0].warning)


def test_band_ends_are_options_and_hold_the_mean() -> None:
    options = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    shares = np.array([[0.0, 0.1, 0.8, 0.1, 0.0], [0.5, 0.0, 0.0, 0.0, 0.5], [0.0, 0.3, 0.7, 0.0, 0.0]])
    assert bands(options, shares, 2.4)[0].tolist() == [2.0, 4.0]
    assert bands(options, shares, np.inf).tolist() == [[1.0, 5.0]] * 3
    assert bands(options, shares, 0.7)[2] == pytest.approx([2.7, 3.0])  # the mean is below the only option inside


def test_first_texts_to_label_are_spread_over_the_judges_answers() -> None:
    corpus = planted(conversations=100, annotators=1)
    done = corpus.evidence.targets[:10]
    chosen = spread_targets(corpus.evidence, done, 12)
    assert len(chosen) == 12 and not set(chosen) & set(done)
    X = matrix(corpus.evidence.expected())
    level = ((X - X.mean(axis=0)) / X.std(axis=0)).mean(axis=1)
    picked = np.sort(level[corpus.evidence.rows_of(chosen)])
    assert picked[0] < np.quantile(level, 0.15) and picked[-1] > np.quantile(level, 0.85)
    assert spread_targets(corpus.evidence, corpus.evidence.targets, 3) == []


CHAT = [{"role": "user", "content": "Where is my order?"}, {"role": "assistant", "content": "It arrives tomorrow."}]


def project_of_recorded_judge(folder: Path, rated: int) -> Project:
    """Return a project of 30 conversations with recorded answers of a judge, `rated` of them rated."""
    (folder / "judge.jsonl").write_text(
        "".join(
            json.dumps({"item_id": f"c{n}", "question": "helpful", "judge_model": "gpt", "value": n % 5 + 1}) + "\n"
            for n in range(30)
        ),
        encoding="utf-8",
    )
    (folder / "rubric.yaml").write_text(
        "name: help\nmain: helpful\nquestions:\n- id: helpful\n  text: Is it helpful?\n  scale: ordinal\n"
        "  options: {1: no, 2: hardly, 3: partly, 4: mostly, 5: yes}\n",
        encoding="utf-8",
    )
    settings = {
        "rubric": str(folder / "rubric.yaml"), "store": f"sqlite:///{folder / 'accord.db'}",
        "models": {"judge": {"mode": "recorded", "model": "gpt", "paths": [str(folder / "judge.jsonl")]}},
    }  # fmt: skip
    project = Project(config_from(settings, folder=folder))
    chats = [
        {"id": f"c{n}", "messages": [{**CHAT[0], "content": f"Order {n}?"}, CHAT[1]],
         "ratings": [{"annotator": "ann", "question": "helpful", "value": n % 5 + 1}] if n < rated else []}
        for n in range(30)
    ]  # fmt: skip
    (folder / "chats.jsonl").write_text("".join(json.dumps(chat) + "\n" for chat in chats), encoding="utf-8")
    project.import_(folder / "chats.jsonl")
    return project


@pytest.mark.parametrize("rated", [0, 4])
def test_project_with_few_labels_fits_and_suggests_labels(tmp_path: Path, rated: int) -> None:
    with project_of_recorded_judge(tmp_path, rated) as project:
        fitted = project.fit()
        assert fitted.held_out is None and fitted.learned_from == 30
        scores = fitted.evaluator.head.predict(project.measure(fitted.evaluator.sources, list(project.all_samples())))
        judged = [int(score.target.conversation[1:]) % 5 for score in scores]
        assert np.corrcoef(values(scores), judged)[0, 1] > 0.95
        suggested = project.label_next(5)
        assert len({each.conversation for each in suggested}) == 5 and all(each.gain is None for each in suggested)


def test_project_with_ten_labels_is_tested_on_held_out_ones(tmp_path: Path) -> None:
    with project_of_recorded_judge(tmp_path, 10) as project:
        found = project.compare()
        assert {"judge-mean", "pls", "trees"} <= {system.name for system in found.comparison.systems}
        assert found.decision is not None
        assert project.fit().held_out is not None


def restored(shares: list[float], people: list[str]) -> ConstantAnswers:
    """Return a constant model with these frequencies, as after loading."""
    return ConstantAnswers().restore({"people": people}, {"shares": np.array(shares)})


def test_a_restored_constant_predicts_its_frequencies_for_everyone() -> None:
    model, table = restored([0.7, 0.3], ["ann"]), EvidenceTable.from_rows([], {Target("a"): {}, Target("b"): {}})
    assert model.annotators == ["ann"] and model.describe() == {"shares": [0.7, 0.3]}
    assert model.distributions(table, ["ann", None]).tolist() == [[0.7, 0.3], [0.7, 0.3]]


def test_a_stack_weights_known_and_new_annotators_apart() -> None:
    table = EvidenceTable.from_rows([], {Target(name): {} for name in "abc"})
    parts = {"first": restored([0.8, 0.2], ["ann"]), "second": restored([0.2, 0.8], [])}
    stack = StackedAnswers(parts, {"first": (1.0, 0.25), "second": (0.0, 0.75)})
    found = stack.distributions(table, ["ann", "somebody new", None])
    assert found[0] == pytest.approx([0.8, 0.2])
    assert found[1].tolist() == found[2].tolist() == pytest.approx([0.25 * 0.8 + 0.75 * 0.2, 0.25 * 0.2 + 0.75 * 0.8])
    again = StackedAnswers({name: ConstantAnswers() for name in parts}, stack.weights).restore(*stack.state())
    assert (again.distributions(table, ["ann", "x", None]) == found).all() and again.annotators == ["ann"]

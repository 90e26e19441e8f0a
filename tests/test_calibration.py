"""The mixed core against its own definition, the evaluator against planted truth."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.utils.estimator_checks import parametrize_with_checks

from accord import Evaluator, Label, Labels, Question, Scale, Score, Unscored, load_evaluator
from accord.evidence import EvidenceTable
from accord.learning import OFFSET, OWN_SLOPE, SLOPE, TEXT, Calibration, MixedEffects, OrdinalLink, predict_panel
from accord.learning.equations import Design
from accord.learning.link import _Objective
from accord.statistics import pearson
from accord.testing import planted
from accord.values import BadInput, NotFitted, UnknownName


@parametrize_with_checks([MixedEffects(), MixedEffects(own_slopes=False)])
def test_the_numeric_core_is_a_scikit_learn_estimator(estimator, check) -> None:  # type: ignore[no-untyped-def]
    check(estimator)


def small(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    text = np.sort(rng.integers(20, size=60))
    who = rng.integers(4, size=60)
    X = rng.normal(size=(20, 2))[text]
    y = X @ [0.7, -0.2] + np.array([-1, 0, 0.5, 1])[who] + rng.normal(size=20)[text] * 0.5 + rng.normal(size=60) * 0.6
    return X, y, np.array([f"p{i}" for i in who]), np.array([f"t{i:02d}" for i in text])


def covariance(X: np.ndarray, annotator: np.ndarray, text: np.ndarray, ratios: np.ndarray) -> np.ndarray:
    same_person, same_text = annotator[:, None] == annotator, text[:, None] == text
    gram = X @ X.T
    return (
        ratios[SLOPE] * gram + ratios[OFFSET] * same_person + ratios[OWN_SLOPE] * gram * same_person
        + ratios[TEXT] * same_text + np.eye(len(X))
    )  # fmt: skip


def restricted(y: np.ndarray, V: np.ndarray) -> tuple[float, np.ndarray, float]:
    """-log restricted likelihood (without constants), P, s², straight from their definitions."""
    inverse = np.linalg.inv(V)
    ones = np.ones((len(y), 1))
    P = inverse - inverse @ ones @ np.linalg.inv(ones.T @ inverse @ ones) @ ones.T @ inverse
    noise = float(y @ P @ y) / (len(y) - 1)
    log_det = np.linalg.slogdet(V)[1] + np.linalg.slogdet(ones.T @ inverse @ ones)[1]
    return 0.5 * (log_det + (len(y) - 1) * np.log(noise)), P, noise


def test_the_criterion_effects_and_gradient_are_those_of_the_definition() -> None:
    X, y, annotator, text = small()
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    people, who = np.unique(annotator, return_inverse=True)
    _, which = np.unique(text, return_inverse=True)
    design = Design.of(Z, y, who, len(people), which, own_slopes=True)
    ratios = np.array([0.3, 0.5, 0.1, 0.2])
    solved = design.solve(ratios)
    criterion, P, noise = restricted(y, covariance(Z, annotator, text, ratios))
    assert solved.criterion == pytest.approx(criterion, rel=1e-8)
    assert solved.noise == pytest.approx(noise, rel=1e-8)
    same_person = annotator[:, None] == people
    assert solved.effects[design.block == OFFSET] == pytest.approx(ratios[OFFSET] * same_person.T @ P @ y, rel=1e-6)
    for effect in range(4):
        step = np.zeros(4)
        step[effect] = 1e-4
        higher, lower = (design.solve(ratios * np.exp(s)).criterion for s in (step, -step))
        assert solved.gradient[effect] == pytest.approx((higher - lower) / 2e-4, abs=1e-4)


def test_held_out_means_are_those_of_a_model_that_never_saw_the_text() -> None:
    X, y, annotator, text = small()
    fitted = MixedEffects().fit(X, y, annotator, text)
    Z = fitted.standardised(X)
    V = covariance(Z, annotator, text, fitted.ratios_)
    for left_out in ("t00", "t07"):
        out = text == left_out
        inverse = np.linalg.inv(V[np.ix_(~out, ~out)])
        ones = np.ones((~out).sum())
        mean = (ones @ inverse @ y[~out]) / (ones @ inverse @ ones)
        expected = mean + V[np.ix_(out, ~out)] @ inverse @ (y[~out] - mean)
        assert fitted.held_out_mean_[out] == pytest.approx(expected, rel=1e-6)


def test_the_ratios_are_where_the_likelihood_is_highest() -> None:
    X, y, annotator, text = small()
    fitted = MixedEffects().fit(X, y, annotator, text)
    Z = fitted.standardised(X)
    best = restricted(y, covariance(Z, annotator, text, fitted.ratios_))[0]
    rng = np.random.default_rng(1)
    for _ in range(50):
        other = fitted.ratios_ * np.exp(rng.normal(scale=0.3, size=4))
        assert restricted(y, covariance(Z, annotator, text, other))[0] >= best - 1e-6


def test_the_ordinal_gradient_is_the_slope_of_its_objective() -> None:
    rng = np.random.default_rng(0)
    answer, annotator = rng.integers(4, size=80), rng.integers(-1, 3, size=80)
    objective = _Objective(rng.normal(size=80), answer, annotator, 3, 3, 0.3)
    at = np.concatenate([[-1, 0.1, 0.2, 0.3], rng.normal(scale=0.2, size=9)])
    _, gradient = objective(at)
    for place in range(len(at)):
        step = np.zeros(len(at))
        step[place] = 1e-5
        assert gradient[place] == pytest.approx((objective(at + step)[0] - objective(at - step)[0]) / 2e-5, abs=1e-4)


def test_the_ordinal_link_finds_planted_thresholds() -> None:
    rng = np.random.default_rng(0)
    mean = rng.uniform(0, 5, size=20_000)
    cuts = np.array([1.0, 2.5, 4.0])
    answer = (mean[:, None] + rng.normal(scale=0.7, size=(20_000, 1)) > cuts).sum(axis=1)
    link = OrdinalLink.fit(mean, answer, np.full(20_000, -1), 0, 4, spread=0.2)
    assert link.thresholds / link.slope == pytest.approx(cuts, abs=0.05)
    assert 1 / link.slope == pytest.approx(0.7, abs=0.03)
    wide = link.distribution(np.array([2.5]), np.array([-1]), 100.0)
    narrow = link.distribution(np.array([2.5]), np.array([-1]))
    assert wide.sum() == pytest.approx(1) and narrow.max() > wide[0][[1, 2]].max()


def test_planted_weights_and_habits_are_found() -> None:
    corpus = planted(conversations=600, annotators=5, options=10, noise=0.5)
    learned = Calibration(corpus.question, core="mixed").fit(corpus.evidence, corpus.labels)
    described = learned.describe()
    levels = [described["annotators"][name]["level"] for name in corpus.levels]
    assert pearson(np.array(levels), np.array(list(corpus.levels.values()))) > 0.98
    assert np.array(list(described["weights"].values())) == pytest.approx(corpus.weights, abs=0.08)


def test_every_annotator_is_predicted_as_themselves() -> None:
    corpus = planted(conversations=300)
    train, test = (
        corpus.labels.filter(f"c{i:04d}" for i in range(200)),
        corpus.labels.filter(f"c{i:04d}" for i in range(200, 300)),
    )
    learned = Calibration(corpus.question, core="mixed").fit(corpus.evidence, train)
    rows = corpus.evidence.rows_of(label.target for label in test)
    who = [label.annotator for label in test]
    truth = np.array([label.value for label in test], dtype=float)

    def error(annotators: list[str | None]) -> float:
        scores = learned.predict_each(corpus.evidence.take(rows), annotators)
        return float(np.sqrt(np.mean([(s.value - y) ** 2 for s, y in zip(scores, truth, strict=True)])))  # type: ignore[union-attr]

    assert error(who) < error([None] * len(who)) - 0.03, "knowing who asks helps"  # type: ignore[arg-type]
    assert error(who) < 0.75  # type: ignore[arg-type]


def test_a_person_nobody_met_is_predicted_with_more_doubt() -> None:
    corpus = planted(noise=0.2)
    learned = Calibration(corpus.question, core="mixed").fit(corpus.evidence, corpus.labels)
    known, unknown = learned.predict(corpus.evidence, "p2")[0], learned.predict(corpus.evidence)[0]
    assert isinstance(known, Score) and isinstance(unknown, Score)
    assert unknown.annotator == "population" and known.annotator == "p2"
    assert stats.entropy(unknown.probabilities) > stats.entropy(known.probabilities)


def test_a_new_domain_shrinks_habits_and_a_few_labels_there_correct_them() -> None:
    here, there = planted(conversations=300, seed=1), planted(conversations=200, seed=2)
    # In the new place everyone is one point stricter, and the generous and the strict have changed roles.
    swap = dict(zip(here.levels, reversed(here.levels), strict=True))
    moved = Labels(
        Label(label.target, label.question, swap[label.annotator], max(1, label.value - 1)) for label in there.labels
    )  # type: ignore[operator]
    learned = Calibration(here.question, core="mixed").fit(here.evidence, here.labels)
    few = Labels(label for name in here.levels for label in [x for x in moved if x.annotator == name][:8])
    rest = Labels(label for label in moved if label not in set(few))

    def error(evaluator: Calibration) -> float:
        rows = there.evidence.take(there.evidence.rows_of(label.target for label in rest))
        scores = evaluator.predict_each(rows, [label.annotator for label in rest])
        return float(np.sqrt(np.mean([(s.value - x.value) ** 2 for s, x in zip(scores, rest, strict=True)])))  # type: ignore[union-attr, operator]

    trusting, careful, adapted = (
        error(learned),
        error(learned.in_new_domain()),
        error(learned.adapt(there.evidence, few)),
    )
    assert careful < trusting, "habits from elsewhere mislead here"
    assert adapted < careful - 0.2, "a few labels from here help most"
    assert "domain:new" in str(learned.in_new_domain().signature())


def test_domains_start_from_home_and_doubt_goes_with_labels(tmp_path: Path) -> None:
    here, there = planted(seed=1), planted(conversations=60, seed=2)
    learned = Calibration(here.question, core="mixed").fit(here.evidence, here.labels)
    new = learned.in_new_domain()
    assert new.in_new_domain().predict(there.evidence, "p0") == new.predict(there.evidence, "p0"), "new is new once"
    few = Labels(label for label in there.labels if label.annotator == "p0")
    once, twice = learned.adapt(there.evidence, few), new.adapt(there.evidence, few)
    assert once.predict(there.evidence, "p0") == twice.predict(there.evidence, "p0")

    def doubt(evaluator: Calibration, name: str) -> float:
        score = evaluator.predict(there.evidence, name)[0]
        assert isinstance(score, Score)
        return float(stats.entropy(score.probabilities))

    assert dict(zip(once.annotators, once.core_.doubt_, strict=True))["p0"] < 0.2
    assert dict(zip(once.annotators, once.core_.doubt_, strict=True))["p5"] == pytest.approx(0.75)
    assert "domain:adapted|domain_correlation:0.5" in str(once.signature())
    Evaluator(here.question, (), once, head_name="mixed").save(tmp_path / "e")
    loaded = load_evaluator(tmp_path / "e").head
    assert loaded.predict(there.evidence, "p0") == once.predict(there.evidence, "p0")
    again = [score.value for score in loaded.in_new_domain().predict(there.evidence, "p5")]  # type: ignore[union-attr]
    assert again == [score.value for score in new.predict(there.evidence, "p5")]  # type: ignore[union-attr]
    assert doubt(learned, "p2") <= doubt(new, "p2")


def test_annotators_may_be_called_by_numbers() -> None:
    X, y, annotator, text = small()
    numbers = np.array([int(name[1:]) for name in annotator])
    named, numbered = MixedEffects().fit(X, y, annotator, text), MixedEffects().fit(X, y, numbers, text)
    assert numbered.predict(X, numbers) == pytest.approx(named.predict(X, annotator))


def test_an_annotator_met_only_in_the_new_domain_joins_with_their_labels() -> None:
    here, there = planted(seed=1), planted(conversations=60, seed=2)
    learned = Calibration(here.question, core="mixed").fit(here.evidence, here.labels)
    newcomer = Labels(Label(label.target, "main", "new", 4) for label in there.labels if label.annotator == "p0")
    adapted = learned.adapt(there.evidence, newcomer)
    assert "new" in adapted.annotators and "new" not in learned.annotators
    mean = {name: np.mean([s.value for s in adapted.predict(there.evidence, name)]) for name in ("new", "p0")}  # type: ignore[union-attr]
    assert mean["new"] > mean["p0"]


def test_panels_follow_the_rule_that_was_named() -> None:
    corpus = planted()
    learned = Calibration(corpus.question, core="mixed").fit(corpus.evidence, corpus.labels)
    members = ["p0", "p5"]
    single = {name: learned.predict(corpus.evidence, name) for name in members}
    for row in range(5):
        values = [single[name][row].value for name in members]  # type: ignore[union-attr]
        for rule, expected in (("mean", np.mean(values)), ("max", max(values)), ("min", min(values))):
            score = predict_panel(learned, corpus.evidence, members, rule)[row]
            assert isinstance(score, Score)
            assert score.value == pytest.approx(expected) and score.annotator == rule
    each = predict_panel(learned, corpus.evidence, members, "each")
    assert [score.annotator for score in each[:4]] == ["p0", "p5", "p0", "p5"]
    with pytest.raises(UnknownName, match="unknown panel rule 'median'"):
        predict_panel(learned, corpus.evidence, members, "median")
    with pytest.raises(BadInput, match="at least one annotator"):
        predict_panel(learned, corpus.evidence, [], "mean")


def test_rows_without_evidence_are_unscored_and_missing_columns_are_no_zeros() -> None:
    corpus = planted()
    learned = Calibration(corpus.question, core="mixed").fit(corpus.evidence, corpus.labels)
    present = corpus.evidence.present.copy()
    present[0] = False
    present[1, 0] = False
    values = np.where(present, corpus.evidence.values, 0.0)
    holes = EvidenceTable(corpus.evidence.targets, corpus.evidence.columns, values, present)
    scores = learned.predict(holes)
    assert isinstance(scores[0], Unscored) and scores[0].reason.startswith("no evidence")
    assert isinstance(scores[1], Score)


def test_evidence_made_otherwise_never_passes_unnoticed() -> None:
    corpus = planted()
    learned = Calibration(corpus.question, core="mixed").fit(corpus.evidence, corpus.labels)
    columns = tuple(type(c)(c.name, "another judge") for c in corpus.evidence.columns)
    other = EvidenceTable(corpus.evidence.targets, columns, corpus.evidence.values, corpus.evidence.present)
    with pytest.raises(BadInput, match="'f0' is made by another judge, the evaluator learned from planted"):
        learned.predict(other)
    fewer = EvidenceTable(corpus.evidence.targets, columns[1:], other.values[:, 1:], other.present[:, 1:])
    with pytest.raises(BadInput, match="the evidence has no 'f0'"):
        learned.predict(fewer)


@pytest.mark.parametrize("case", ["one annotator", "all equal", "one conversation", "repeats", "one feature, constant"])
def test_poor_data_still_give_sane_scores(case: str) -> None:
    corpus = planted(conversations=40)
    labels, evidence = list(corpus.labels), corpus.evidence
    if case == "one annotator":
        labels = [label for label in labels if label.annotator == "p0"]
    elif case == "all equal":
        labels = [Label(label.target, label.question, label.annotator, 3) for label in labels]
    elif case == "one conversation":
        labels = [Label(evidence.targets[0], "main", f"p{i % 3}", 1 + i % 4) for i in range(12)]
    elif case == "repeats":
        labels = labels * 3
    else:
        values = np.ones((len(evidence), 1))
        evidence = EvidenceTable(evidence.targets, evidence.columns[:1], values, values.astype(bool))
    learned = Calibration(corpus.question, core="mixed").fit(evidence, Labels(labels))
    for score in learned.predict(evidence):
        assert isinstance(score, Score) and 1 <= score.value <= 4
        if case == "all equal":
            assert score.value == pytest.approx(3, abs=0.1)


def test_what_cannot_be_learned_from_is_said() -> None:
    corpus = planted()
    with pytest.raises(BadInput, match="3 labels on 'main' have evidence; it needs 8 or more"):
        Calibration(corpus.question, core="mixed").fit(corpus.evidence, Labels(list(corpus.labels)[:3]))
    nominal = Question(id="main", text="?", scale=Scale(kind="nominal", options=("a", "b")))
    with pytest.raises(BadInput, match="has a nominal scale; the main question needs an ordered one"):
        Calibration(nominal).fit(corpus.evidence, corpus.labels)
    with pytest.raises(UnknownName, match="unknown core 'netwrok'"):
        Calibration(corpus.question, core="netwrok")
    with pytest.raises(BadInput, match="domain_correlation is a correlation from 0 to 1, got 2"):
        Calibration(corpus.question, core="mixed", domain_correlation=2)


def test_folders_missing_damaged_and_from_the_future(tmp_path: Path) -> None:
    corpus = planted(conversations=40)
    folder = tmp_path / "evaluator"
    with pytest.raises(BadInput, match=r"holds no evaluator: evaluator.json is missing"):
        load_evaluator(folder)
    unfitted = Evaluator(corpus.question, (), Calibration(corpus.question, core="mixed"), head_name="mixed")
    with pytest.raises(NotFitted, match="has learned nothing yet"):
        unfitted.save(folder)
    unfitted.fitted_on(corpus.evidence, corpus.labels).save(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["arrays.safetensors", "evaluator.json"]
    card = json.loads((folder / "evaluator.json").read_text())
    (folder / "evaluator.json").write_text(json.dumps({**card, "format": 99, "accord_version": "9.9"}))
    with pytest.raises(BadInput, match=r"written by Accord 9.9 in folder format 99; this Accord"):
        load_evaluator(folder)
    (folder / "evaluator.json").write_text(json.dumps({**card, "format": 1, "accord_version": "0.1.0"}))
    with pytest.raises(BadInput, match=r"in folder format 1; this Accord .* reads 2. Fit it again: accord fit"):
        load_evaluator(folder)
    (folder / "evaluator.json").write_text(json.dumps(card)[:-20])
    with pytest.raises(BadInput, match="damaged evaluator"):
        load_evaluator(folder)
    (folder / "evaluator.json").write_text(json.dumps(card))
    (folder / "arrays.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(BadInput, match="damaged evaluator"):
        load_evaluator(folder)

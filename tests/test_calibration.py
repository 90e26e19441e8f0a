"""Mixed model against its definitions, and calibration against planted data."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats
from sklearn.covariance import ledoit_wolf
from synthetic_corpus import planted_turns

from accord import Evaluator, Label, Labels, Question, Scale, Score, Unscored, load_evaluator
from accord.edges import BadInput, NotFitted, UnknownName
from accord.evidence import Column, EvidenceTable, ratings
from accord.learning import (
    Calibration,
    MixedModel,
    make_head,
    predict_panel,
)
from accord.learning.answer_models.mixed.equations import (
    EffectEquations,
    IterativeEquations,
    RatingEquations,
    best_ratios,
    equations_for,
)
from accord.learning.answer_models.mixed.layout import (
    GROUP,
    OFFSET,
    OWN_SLOPE,
    SLOPE,
    TEXT,
    RatingLayout,
)
from accord.learning.answer_models.ordinal import OrdinalLink
from accord.learning.calibration.bands import band_quantile, groups_needed, independent_scores, moments
from accord.learning.calibration.distance import shrunk_covariance
from accord.statistics import pearson
from accord.testing import planted
from accord.testing.synthetic_ratings import Planted
from accord.values import Target


def test_fit_imports_only_needed_libraries() -> None:
    script = (
        "import sys; from accord.learning import make_head\n"
        "from accord.testing import planted; corpus, before = planted(40, 2), {*sys.modules}\n"
        "make_head('mixed', corpus.question, {}).fit(corpus.evidence, corpus.labels)\n"
        "print([name for name in ('scipy.linalg', 'sklearn', 'scipy.stats', 'scipy.optimize', 'sqlalchemy')"
        " if name in sys.modules and name not in before])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.stdout == "['scipy.linalg']\n", ran.stderr


def small(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    text = np.sort(rng.integers(20, size=60))
    who = rng.integers(4, size=60)
    X = rng.normal(size=(20, 2))[text]
    y = X @ [0.7, -0.2] + np.array([-1, 0, 0.5, 1])[who] + rng.normal(size=20)[text] * 0.5 + rng.normal(size=60) * 0.6
    return X, y, np.array([f"p{i}" for i in who]), np.array([f"t{i:02d}" for i in text])


GROUPS = np.array([f"c{text}" for text in (0, 0, 0, 1, 1, 2, 3, 4, 4, 4, 4, 5, 5, 6, 6, 6, 7, 8, 9, 9)])
"""The group of each of the twenty texts of `small`."""
SOURCES = ["rubric", "bank"]


def covariance(
    X: np.ndarray, annotator: np.ndarray, text: np.ndarray, ratios: np.ndarray, group: np.ndarray | None = None
) -> np.ndarray:
    same_person, same_text = annotator[:, None] == annotator, text[:, None] == text
    first, second = X[:, :1] @ X[:, :1].T, X[:, 1:] @ X[:, 1:].T
    if len(ratios) == 5:
        first, second = X @ X.T, 0.0
    ratios = np.append(ratios, [0.0, 0.0])
    V = (
        ratios[SLOPE] * first + ratios[OFFSET] * same_person + ratios[OWN_SLOPE] * first * same_person
        + ratios[TEXT] * same_text + ratios[5] * second + ratios[6] * second * same_person + np.eye(len(X))
    )  # fmt: skip
    return V if group is None else V + ratios[GROUP] * (group[:, None] == group)


def restricted(y: np.ndarray, V: np.ndarray) -> tuple[float, np.ndarray, float]:
    """-log restricted likelihood (without constants), P, s², straight from their definitions."""
    inverse = np.linalg.inv(V)
    ones = np.ones((len(y), 1))
    P = inverse - inverse @ ones @ np.linalg.inv(ones.T @ inverse @ ones) @ ones.T @ inverse
    noise = float(y @ P @ y) / (len(y) - 1)
    log_det = np.linalg.slogdet(V)[1] + np.linalg.slogdet(ones.T @ inverse @ ones)[1]
    return 0.5 * (log_det + (len(y) - 1) * np.log(noise)), P, noise


def in_groups(text: np.ndarray) -> np.ndarray:
    return GROUPS[[int(name[1:]) for name in text]]


@pytest.mark.parametrize(
    ("ratios", "grouped"),
    [
        ([0.3, 0.5, 0.1, 0.2, 0.0], False),
        ([0.3, 0.5, 0.1, 0.2, 0.4], True),
        ([0.3, 0.5, 0.1, 0.0, 0.4], True),
        ([0.3, 0.5, 0.1, 0.2, 0.4, 0.7, 0.05], True),
    ],
)
@pytest.mark.parametrize("kind", [EffectEquations, RatingEquations])
def test_criterion_effects_gradient_and_information_match_their_definitions(
    ratios: list[float], grouped: bool, kind: type[EffectEquations | RatingEquations]
) -> None:
    X, y, annotator, text = small()
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    people, who = np.unique(annotator, return_inverse=True)
    _, which = np.unique(text, return_inverse=True)
    group = in_groups(text) if grouped else None
    of_group = np.unique(group, return_inverse=True)[1] if grouped else None
    source = np.array([0, 1]) if len(ratios) == 7 else None
    design = kind.of(Z, y, who, len(people), which, True, of_group, source)
    at = np.array(ratios)
    solved = design.solve(at)
    criterion, P, noise = restricted(y, covariance(Z, annotator, text, at, group))
    assert solved.criterion == pytest.approx(criterion, rel=1e-8)
    assert solved.noise == pytest.approx(noise, rel=1e-8)
    same_person = annotator[:, None] == people
    assert solved.effects[design.block == OFFSET] == pytest.approx(at[OFFSET] * same_person.T @ P @ y, rel=1e-6)
    first = Z if source is None else Z[:, source == 0]
    assert solved.effects[design.block == SLOPE] == pytest.approx(at[SLOPE] * first.T @ P @ y, rel=1e-6)
    left = at[OFFSET] - at[OFFSET] ** 2 * np.diag(same_person.T @ P @ same_person)
    assert design.fit(at).errors == pytest.approx(np.sqrt(noise * left), rel=1e-6)
    for effect in np.flatnonzero(at):
        step = np.zeros(len(at))
        step[effect] = 1e-4
        higher, lower = (design.solve(at * np.exp(s)).criterion for s in (step, -step))
        assert solved.gradient[effect] == pytest.approx((higher - lower) / 2e-4, abs=1e-4)
    # Half of xᵀPx/s² - hhᵀ/(s⁴·freedom), where x_k = r_k·V_k·P·y and h_k = yᵀP·x_k.
    parts = [covariance(Z, annotator, text, unit, group) - np.eye(len(y)) for unit in np.diag(at)]
    x = np.stack([part @ P @ y for part in parts], axis=1)
    h = x.T @ P @ y
    information = (x.T @ P @ x / noise - np.outer(h, h) / (noise**2 * (len(y) - 1))) / 2
    assert design.information(solved) == pytest.approx(information, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("annotators", [False, True])
@pytest.mark.parametrize("noise", [0.01, 0.6, 30.0])
@pytest.mark.parametrize("kind", [EffectEquations, RatingEquations])
def test_variance_ratios_maximize_the_restricted_likelihood(
    kind: type[EffectEquations | RatingEquations], noise: float, annotators: bool, grouped: bool
) -> None:
    X, y, annotator, text = small()
    y = y + np.random.default_rng(1).normal(scale=noise, size=len(y))
    who = np.unique(annotator, return_inverse=True)[1] if annotators else np.zeros(0, dtype=int)
    which, of = (np.unique(names, return_inverse=True)[1] for names in (text, in_groups(text)))
    people, group, columns = int(who.max(initial=-1)) + 1, of if grouped else None, np.array([0, 1])
    design = kind.of(X, y, who, people, which, annotators, group, columns)
    present = design.present()

    def loss(logs: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        ratios = np.zeros(design.count)
        ratios[present] = np.exp(logs)
        solved = design.solve(ratios)
        return solved.criterion, solved.gradient[present]

    found = design.best_ratios()
    others = [np.log(found[present]), np.full(len(present), np.log(0.05)), np.zeros(len(present))]
    bounds = [(-12, 4)] * len(present)
    better = [optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds) for start in others]
    assert min(each.fun for each in better) > loss(others[0])[0] - 1e-5
    assert (found[present] >= np.exp(-12) * (1 - 1e-9)).all() and (found[present] <= np.exp(4) * (1 + 1e-9)).all()


def test_many_annotators_use_rating_equations_and_sampled_ratios() -> None:
    rng = np.random.default_rng(0)
    n, people = 1000, 400
    Z, who = rng.normal(size=(n, 3)), np.append(np.arange(people), rng.integers(people, size=n - people))
    y = Z @ [0.8, 0.3, 0.0] + rng.normal(size=people)[who] + rng.normal(size=n)
    design = equations_for(RatingLayout.of(Z, y, who, people, np.arange(n) // 2, own_slopes=True))
    assert isinstance(design, RatingEquations)
    found, all_ratings, start = best_ratios(design), design.best_ratios(), np.array([0.05, 0.05, 0.05, 0.05, 0.0])
    some, best, begun = (design.solve(ratios).criterion for ratios in (found, all_ratings, start))
    assert 0 < some - best < 3 < 30 < begun - best
    assert all_ratings[OFFSET] == pytest.approx(1.0, rel=0.3)
    few = np.arange(people, people + 500)  # ratings
    alone = equations_for(
        RatingLayout.of(Z[few], y[few], np.unique(who[few], return_inverse=True)[1], people, few // 2, True)
    )
    assert (best_ratios(alone) == alone.best_ratios()).all()  # type: ignore[union-attr]


@pytest.mark.parametrize("rated", [[3.0] * 12, [1.0, 5.0] * 6, [1.0] * 11 + [5.0]])
def test_variance_ratios_are_finite_for_uninformative_ratings(rated: list[float]) -> None:
    who = np.arange(12) % 3
    for X in (np.zeros((12, 1)), np.arange(12.0)[:, None], np.ones((12, 2))):
        fitted = MixedModel().fit(X, np.array(rated), who, np.arange(12) // 2, np.arange(12) // 4)
        assert np.isfinite(fitted.ratios_).all() and np.isfinite(fitted.predict(X, who)).all()


def test_effects_of_a_draw_match_repeated_rows() -> None:
    X, y, annotator, text = small()
    people, who = np.unique(annotator, return_inverse=True)
    texts, which = np.unique(text, return_inverse=True)
    draws = np.random.default_rng(2).integers(0, 4, len(texts)).astype(float)
    ratios = np.array([0.3, 0.5, 0.0, 0.2, 0.0])
    rows = np.repeat(np.arange(len(y)), draws[which].astype(int))
    mean, scale = X[rows].mean(axis=0), X[rows].std(axis=0)
    drawn = EffectEquations.of((X[rows] - mean) / scale, y[rows], who[rows], len(people), which[rows], own_slopes=False)
    design = EffectEquations.of(X, y, who, len(people), which, own_slopes=False)
    units = np.concatenate([[1.0], scale, np.ones(len(people))])
    found, expected = design.drawn_effects(ratios, draws, units), drawn.solve(ratios).effects
    assert draws.min() == 0 and found[1:3] == pytest.approx(expected[1:3] / scale, rel=1e-7)
    assert found[3:] == pytest.approx(expected[3:], abs=1e-7)


@pytest.mark.parametrize("effects", ["few", "many", "more than ratings"])
@pytest.mark.parametrize("grouped", [False, True])
def test_held_out_means_match_a_model_fitted_without_the_group(grouped: bool, effects: str) -> None:
    X, y, annotator, text = small()
    # With fewer effects than ratings of a group the equations are solved on their other side.
    annotator = {"few": None, "many": annotator, "more than ratings": np.arange(60) % 30}[effects]
    group = in_groups(text) if grouped else None
    fitted = MixedModel().fit(X, y, annotator, text, group, SOURCES)
    Z = fitted.standardize(X)
    nobody = np.arange(len(y)).astype(str) if annotator is None else annotator
    V = covariance(Z, nobody, text, fitted.ratios_, group)
    left = group if grouped else text
    for left_out in np.unique(left):
        out = left == left_out
        inverse = np.linalg.inv(V[np.ix_(~out, ~out)])
        ones = np.ones((~out).sum())
        mean = (ones @ inverse @ y[~out]) / (ones @ inverse @ ones)
        expected = mean + V[np.ix_(out, ~out)] @ inverse @ (y[~out] - mean)
        assert fitted.held_out_mean_[out] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("grouped", [False, True])
def test_ratios_match_a_grid_search_of_the_likelihood(grouped: bool) -> None:
    X, y, annotator, text = small()
    group, source = (in_groups(text), SOURCES) if grouped else (None, None)
    fitted = MixedModel().fit(X, y, annotator, text, group, source)
    Z = fitted.standardize(X)
    best = restricted(y, covariance(Z, annotator, text, fitted.ratios_, group))[0]
    rng = np.random.default_rng(1)
    for _ in range(50):
        other = fitted.ratios_ * np.exp(rng.normal(scale=0.3, size=len(fitted.ratios_)))
        assert restricted(y, covariance(Z, annotator, text, other, group))[0] >= best - 1e-6


def test_groups_of_one_text_change_nothing() -> None:
    X, y, annotator, text = small()
    alone = MixedModel().fit(X, y, annotator, text)
    named = MixedModel().fit(X, y, annotator, text, np.array([f"of {name}" for name in text]))
    assert named.ratios_[GROUP] == 0 and named.ratios_.tolist() == alone.ratios_.tolist()
    assert named.held_out_mean_.tolist() == alone.held_out_mean_.tolist()


def test_noise_columns_do_not_shrink_a_judge_of_another_source() -> None:
    rng = np.random.default_rng(3)
    judge, noise = rng.normal(size=(200, 1)), rng.normal(size=(200, 60))
    y = 0.6 * judge[:, 0] + rng.normal(size=200)
    X = np.hstack([judge, noise])
    one = MixedModel().fit(X[:100], y[:100])
    two = MixedModel().fit(X[:100], y[:100], source=["judge", *["words"] * 60])
    assert two.coef_[0] > 0.45 and np.abs(two.coef_[1:]).max() < 0.1
    assert pearson(two.predict(X[100:]), y[100:]) > pearson(one.predict(X[100:]), y[100:]) + 0.1


@pytest.mark.parametrize(("people", "options", "spread", "noise"), [
    (3, 4, 0.3, 0.8), (0, 5, 0.0, 0.5), (4, 2, 1.0, 0.4), (30, 5, 0.1, 1.0),
])  # fmt: skip
def test_ordinal_link_maximizes_the_posterior(people: int, options: int, spread: float, noise: float) -> None:
    rng = np.random.default_rng(options)
    mean, annotator = rng.uniform(0, options - 1, size=400), rng.integers(-1, max(people, 1), size=400)
    annotator = annotator if people else np.full(400, -1)
    answer = np.clip(np.round(mean + rng.normal(scale=noise, size=400)), 0, options - 1).astype(int)
    link = OrdinalLink.fit(mean, answer, annotator, people, options, spread)
    shape = link.shifts.shape

    def loss(parameters: NDArray[np.float64]) -> float:
        cuts, own = np.split(parameters[1:], [options - 1])
        other = OrdinalLink(cuts, parameters[0], own.reshape(shape), floor=0.0)
        chance = other.distribution(mean, annotator)[np.arange(400), answer]
        return float(-np.log(np.maximum(chance, 1e-300)).sum() + ((own / (spread or 1)) ** 2).sum() / 2)

    found = np.concatenate([[link.slope], link.thresholds, link.shifts.ravel()])
    better = optimize.minimize(loss, found, method="L-BFGS-B")
    assert better.fun > loss(found) - 0.01 and loss(found * 0.9) > loss(found) + 0.2


@pytest.mark.parametrize(("mean", "answer"), [
    ([2.0], [1]), ([1.0, 1.0, 1.0], [0, 2, 2]), ([0.0, 1.0, 2.0], [0, 1, 2]), ([0.0, 1.0, 2.0], [2, 1, 0]),
    ([0.0, 500.0, 1000.0], [0, 1, 2]),
])  # fmt: skip
def test_ordinal_link_is_finite_for_uninformative_rows(mean: list[float], answer: list[int]) -> None:
    for people, spread in ((0, 0.0), (2, 0.3)):
        link = OrdinalLink.fit(np.array(mean), np.array(answer), np.arange(len(mean)) % 2, people, 4, spread)
        assert link.slope > 0 and (np.diff(link.thresholds + link.shifts) > 0).all()
        shares = link.distribution(np.array(mean), np.full(len(mean), -1))
        assert np.isfinite(shares).all() and shares.sum(axis=1) == pytest.approx(1)


def test_ordinal_link_recovers_planted_thresholds() -> None:
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


def test_fit_recovers_planted_weights_and_habits() -> None:
    corpus = planted(conversations=600, annotators=5, options=10, noise=0.5)
    learned = Calibration(corpus.question, answer_model="mixed").fit(corpus.evidence, corpus.labels)
    described = learned.describe()
    levels = [described["annotators"][name]["level"] for name in corpus.levels]
    assert pearson(np.array(levels), np.array(list(corpus.levels.values()))) > 0.98
    assert np.array(list(described["weights"].values())) == pytest.approx(corpus.weights, abs=0.08)


def test_predictions_differ_by_annotator() -> None:
    corpus = planted(conversations=300)
    train, test = (
        corpus.labels.filter(f"c{i:04d}" for i in range(200)),
        corpus.labels.filter(f"c{i:04d}" for i in range(200, 300)),
    )
    learned = Calibration(corpus.question, answer_model="mixed").fit(corpus.evidence, train)
    rows = corpus.evidence.rows_of(label.target for label in test)
    who = [label.annotator for label in test]
    truth = np.array([label.value for label in test], dtype=float)

    def error(annotators: list[str | None]) -> float:
        scores = learned.predict_each(corpus.evidence.take(rows), annotators)
        return float(np.sqrt(np.mean([(s.value - y) ** 2 for s, y in zip(scores, truth, strict=True)])))  # type: ignore[union-attr]

    assert error(who) < error([None] * len(who)) - 0.03, "the annotator helps"  # type: ignore[arg-type]
    assert error(who) < 0.75  # type: ignore[arg-type]


def test_new_annotators_get_wider_distributions() -> None:
    corpus = planted(noise=0.2)
    learned = Calibration(corpus.question, answer_model="mixed").fit(corpus.evidence, corpus.labels)
    known, unknown = learned.predict(corpus.evidence, "p2")[0], learned.predict(corpus.evidence)[0]
    assert isinstance(known, Score) and isinstance(unknown, Score)
    assert unknown.annotator == "population" and known.annotator == "p2"
    assert stats.entropy(unknown.probabilities) > stats.entropy(known.probabilities)


def test_new_domain_shrinks_habits_and_labels_update_them() -> None:
    here, there = planted(conversations=300, seed=1), planted(conversations=200, seed=2)
    # In the new domain all annotators are one point stricter, and generous and strict ones are swapped.
    swap = dict(zip(here.levels, reversed(here.levels), strict=True))
    moved = Labels(
        Label(label.target, label.question, swap[label.annotator], max(1, label.value - 1)) for label in there.labels
    )  # type: ignore[operator]
    learned = Calibration(here.question, answer_model="mixed").fit(here.evidence, here.labels)
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
    assert careful < trusting, "habits of the other domain mislead"
    assert adapted < careful - 0.2, "a few labels of the new domain help most"
    assert "domain:new" in str(learned.in_new_domain().signature())


def test_adapting_twice_starts_from_the_first_fit(tmp_path: Path) -> None:
    here, there = planted(seed=1), planted(conversations=60, seed=2)
    learned = Calibration(here.question, answer_model="mixed").fit(here.evidence, here.labels)
    new = learned.in_new_domain()
    assert new.in_new_domain().predict(there.evidence, "p0") == new.predict(there.evidence, "p0"), (
        "the second call changes nothing"
    )
    few = Labels(label for label in there.labels if label.annotator == "p0")
    once, twice = learned.adapt(there.evidence, few), new.adapt(there.evidence, few)
    assert once.predict(there.evidence, "p0") == twice.predict(there.evidence, "p0")

    def doubt(evaluator: Calibration, name: str) -> float:
        score = evaluator.predict(there.evidence, name)[0]
        assert isinstance(score, Score)
        return float(stats.entropy(score.probabilities))

    assert dict(zip(once.annotators, once.answer_model_.doubt_, strict=True))["p0"] < 0.2
    assert dict(zip(once.annotators, once.answer_model_.doubt_, strict=True))["p5"] == pytest.approx(0.75)
    assert "domain:adapted|domain_correlation:0.5" in str(once.signature())
    Evaluator(here.question, (), once, head_name="mixed").save(tmp_path / "e")
    loaded = load_evaluator(tmp_path / "e").head
    assert loaded.predict(there.evidence, "p0") == once.predict(there.evidence, "p0")
    again = [score.value for score in loaded.in_new_domain().predict(there.evidence, "p5")]  # type: ignore[union-attr]
    assert again == [score.value for score in new.predict(there.evidence, "p5")]  # type: ignore[union-attr]
    assert doubt(learned, "p2") <= doubt(new, "p2")


def test_annotator_names_may_be_numbers() -> None:
    X, y, annotator, text = small()
    numbers = np.array([int(name[1:]) for name in annotator])
    named, numbered = MixedModel().fit(X, y, annotator, text), MixedModel().fit(X, y, numbers, text)
    assert numbered.predict(X, numbers) == pytest.approx(named.predict(X, annotator))


def test_adapting_adds_annotators_of_the_new_domain() -> None:
    here, there = planted(seed=1), planted(conversations=60, seed=2)
    learned = Calibration(here.question, answer_model="mixed").fit(here.evidence, here.labels)
    newcomer = Labels(Label(label.target, "main", "new", 4) for label in there.labels if label.annotator == "p0")
    adapted = learned.adapt(there.evidence, newcomer)
    assert "new" in adapted.annotators and "new" not in learned.annotators
    mean = {name: np.mean([s.value for s in adapted.predict(there.evidence, name)]) for name in ("new", "p0")}  # type: ignore[union-attr]
    assert mean["new"] > mean["p0"]


def test_latent_answer_is_the_linear_prediction() -> None:
    corpus = planted(conversations=150, annotators=3, share=0.9, noise=0.3)
    option, latent = (
        Calibration(corpus.question, "mixed", answer=answer).fit(corpus.evidence, corpus.labels)
        for answer in ("option", "latent")
    )
    table = corpus.evidence
    X = np.where(table.present, table.values, np.nan)
    model = latent.answer_model_.model_  # type: ignore[union-attr]
    for name in ("p0", "p2", None):
        scores, plain = ([s for s in head.predict(table, name) if isinstance(s, Score)] for head in (latent, option))
        values = [score.value for score in scores]
        assert values == pytest.approx(model.predict(X, None if name is None else [name] * len(X)))
        assert [score.probabilities for score in scores] == [score.probabilities for score in plain]
        assert [score.value for score in plain] == pytest.approx([np.dot(s.options, s.probabilities) for s in plain])
    values = [score.value for score in latent.predict(table, "p2") if isinstance(score, Score)]
    assert max(values) > 4.3 and min(values) < 1.2, "the latent answer is not cut at the ends of the scale"
    assert str(latent.signature()).count("|answer:latent") == 1 and "answer:" not in str(option.signature())
    members = [latent.predict(table, name)[0].value for name in ("p0", "p1", "p2")]  # type: ignore[union-attr]
    for rule, expected in (("mean", np.mean(members)), ("max", max(members)), ("min", min(members))):
        [panel] = predict_panel(latent, table.take([0]), ["p0", "p1", "p2"], rule)
        assert isinstance(panel, Score) and panel.value == pytest.approx(expected)


def test_latent_answers_need_a_model_with_a_latent_scale() -> None:
    question = planted(conversations=5).question
    for settings in ({}, {"answer_model": "trees"}, {"answer_model": "network", "network": {"like": "paper"}}):
        with pytest.raises(BadInput, match="ordinal"):
            Calibration(question, answer="latent", **settings)  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="unknown answer 'real'. Available: latent, option"):
        Calibration(question, "mixed", answer="real")
    for answer in ("latent", "option"):
        with pytest.raises(UnknownName, match="unknown answer_model 'mixd'"):
            Calibration(question, "mixd", answer=answer)


def test_panel_scores_follow_their_rule() -> None:
    corpus = planted()
    learned = Calibration(corpus.question, answer_model="mixed").fit(corpus.evidence, corpus.labels)
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


@pytest.mark.parametrize("rule", ["mean", "max", "min"])
def test_panel_score_keeps_band_and_warning_and_names_rule_and_members(rule: str) -> None:
    corpus = planted(conversations=120, annotators=4)
    learned = Calibration(corpus.question, answer_model="mixed").fit(corpus.evidence, corpus.labels)
    far = replace(corpus.evidence, values=corpus.evidence.values + 12)
    members = ["p0", "p2"]
    for row, score in enumerate(predict_panel(learned, far, members, rule)[:20]):
        each = [learned.predict(far, name)[row] for name in members]
        assert isinstance(score, Score) and score.band is not None and "unlike" in str(score.warning)
        assert str(score.signature).endswith(f"|panel:{rule} of p0+p2")
        ends = [one.band for one in each if isinstance(one, Score) and one.band is not None]
        if rule == "mean":
            assert score.band == (min(low for low, _ in ends), max(high for _, high in ends))
        else:
            assert score.band in ends


# --- groups, bands and missing evidence ----------------------------------------------------------------------------


def turn_coverage(name: str, seed: int) -> tuple[float, dict[str, Any]]:
    """Share of ratings in 60 new conversations inside the band of a head learned on 60 others."""
    world = planted_turns(seed=seed)
    sides = [{f"c{place:04d}" for place in range(*ends)} for ends in ((0, 60), (60, 120))]
    train, test = (world.labels.filter(side) for side in sides)
    head = make_head(name, world.question, {}).fit(world.evidence.filter(sides[0], train.group_of), train)
    rated = ratings(world.evidence, test, world.question)
    scores = head.predict_each(world.evidence.take(rated.row), list(rated.annotator))
    held = [s.band[0] <= said <= s.band[1] for s, said in zip(scores, rated.value, strict=True) if s.band]  # type: ignore[union-attr]
    assert len(held) == len(rated)
    return float(np.mean(held)), head.describe()


@pytest.mark.parametrize("name", ["mixed", "curves"])
def test_bands_hold_for_turns_of_new_conversations(name: str) -> None:
    found = [turn_coverage(name, seed) for seed in range(8)]
    assert 0.88 <= np.mean([share for share, _ in found]) <= 0.95
    if name == "mixed":
        # Planted: (0.8 / 0.5)², reduced by the rounding noise of the ratings.
        ratios = [described["variance_ratios"]["group"] for _, described in found]
        assert 1.0 < np.mean(ratios) < 2.6


def test_inner_folds_keep_turns_of_a_conversation_together() -> None:
    world = planted_turns(conversations=40, seed=1)
    learned = Calibration(world.question, candidates=["constant", "column", "mixed", "curves"])
    found = learned.fit(world.evidence, world.labels).describe()["candidates"]
    # The level of a conversation cannot be predicted for new ones; a prediction of it was memorized.
    new = planted_turns(conversations=40, seed=2)
    rated = ratings(new.evidence, new.labels, new.question)
    for name in ("mixed", "curves"):
        head = Calibration(world.question, answer_model=name).fit(world.evidence, world.labels)
        scores = head.predict_each(new.evidence.take(rated.row), list(rated.annotator))
        error = float(np.sqrt(np.mean((np.array([s.value for s in scores]) - rated.value) ** 2)))  # type: ignore[union-attr]
        assert found[name]["rmse"] > error - 0.12


def test_inner_folds_keep_named_groups_together() -> None:
    world = planted_turns(conversations=40, seed=1)
    pairs = {label.target: f"pair {int(label.target.conversation[1:]) // 2}" for label in world.labels}
    grouped = Calibration(world.question, answer_model="mixed", pooled_annotators=["p*"]).fit(
        world.evidence, world.labels.grouped(pairs)
    )
    assert grouped.reference_.bands.groups == 20


def test_band_is_the_whole_scale_with_a_warning_for_too_few_groups(tmp_path: Path) -> None:
    world = planted_turns(conversations=8, seed=1)
    learned = Calibration(world.question, answer_model="mixed").fit(world.evidence, world.labels)
    Evaluator(world.question, (), learned, head_name="mixed").save(tmp_path)
    for head in (learned, load_evaluator(tmp_path).head):
        [score, *_] = head.predict(world.evidence)
        assert isinstance(score, Score) and score.band == (1.0, 5.0)
        assert "a 90% band needs 9 groups, learned from 8" in str(score.warning)
        assert head.describe()["band_quantile"] is None and "9 groups" in head.describe()["band"]
    enough = Calibration(world.question, answer_model="mixed", coverage=0.8).fit(world.evidence, world.labels)
    assert np.isfinite(enough.describe()["band_quantile"])


@pytest.mark.parametrize("name", ["mixed", "curves", "auto"])
def test_rows_without_evidence_are_not_learned_from(name: str) -> None:
    corpus = planted(conversations=60, annotators=3)
    nothing = [Target(f"empty{place}") for place in range(30)]
    empty = EvidenceTable.from_rows(corpus.evidence.columns, {target: {} for target in nothing})
    labels = Labels([*corpus.labels, *(Label(target, "main", "p0", 1) for target in nothing)])
    with_empty = make_head(name, corpus.question, {}).fit(corpus.evidence.concat(empty), labels)
    without = make_head(name, corpus.question, {}).fit(corpus.evidence, corpus.labels)
    assert with_empty.signature() == without.signature()
    assert with_empty.predict(corpus.evidence) == without.predict(corpus.evidence)


@pytest.mark.parametrize("name", ["mixed", "curves", "auto"])
def test_missing_evidence_warns_and_widens_the_band(name: str) -> None:
    corpus = planted(conversations=300, annotators=4, noise=0.4, seed=4)
    side = [
        {target.conversation for target in corpus.evidence.targets[part]} for part in (slice(200), slice(200, None))
    ]
    train, test = (corpus.labels.filter(each) for each in side)
    learned = make_head(name, corpus.question, {}).fit(corpus.evidence.filter(side[0]), train)
    present = corpus.evidence.present.copy()
    present[:, 0] = False  # the column with the largest weight
    lacking = corpus.evidence.with_only(present)
    rated = ratings(lacking, test, corpus.question)
    scores = [s for s in learned.predict_each(lacking.take(rated.row), list(rated.annotator)) if isinstance(s, Score)]
    assert len(scores) == len(rated) and all("lacks evidence" in str(score.warning) for score in scores)
    assert all("f0" in str(score.warning) for score in scores)
    bands = np.array([score.band for score in scores])
    held = (bands[:, 0] <= rated.value) & (rated.value <= bands[:, 1])
    assert held.mean() > 0.86
    whole = [
        s for s in learned.predict_each(corpus.evidence.take(rated.row), list(rated.annotator)) if s.warning is None
    ]
    assert np.ptp(bands, axis=1).mean() > 1.2 * np.mean([s.band[1] - s.band[0] for s in whole])  # type: ignore[union-attr,index]


def test_evidence_often_missing_in_training_does_not_warn() -> None:
    corpus = planted(conversations=200, annotators=4)
    present = np.random.default_rng(0).random(corpus.evidence.present.shape) < 0.7
    present[:, 0] = True
    learned = Calibration(corpus.question, answer_model="mixed").fit(corpus.evidence.with_only(present), corpus.labels)
    scores = [score for score in learned.predict(corpus.evidence.with_only(present)) if isinstance(score, Score)]
    assert not any("lacks" in str(score.warning) for score in scores)


def test_describe_names_sources_that_add_nothing() -> None:
    corpus = planted(conversations=200, annotators=4)
    noise = np.random.default_rng(5).normal(size=(200, 12))
    columns = [Column(f"w{place}", "words", source="words") for place in range(12)]
    words = EvidenceTable(corpus.evidence.targets, tuple(columns), noise, np.ones(noise.shape, dtype=bool))
    judged = replace(corpus.evidence, columns=tuple(replace(c, source="rubric") for c in corpus.evidence.columns))
    said = (
        Calibration(corpus.question, answer_model="mixed").fit(judged.join(words), corpus.labels).describe()["sources"]
    )
    assert said["rubric"]["adds"] == "evidence" and said["words"]["columns"] == 12
    assert said["words"]["variance_ratio"] < 0.02 * said["rubric"]["variance_ratio"]


# --- the default head ----------------------------------------------------------------------------------------------


def with_noise(ratings_: int, seed: int, columns: int = 30, weight: float = 0.5) -> Planted:
    """One judge whose answers follow the ratings, among noise columns of another source."""
    rng = np.random.default_rng(seed)
    targets = tuple(Target(f"c{place:04d}") for place in range(ratings_))
    x = rng.normal(size=(ratings_, 1 + columns))
    value = np.clip(np.round(3 + weight * x[:, 0] + rng.normal(size=ratings_)), 1, 5)
    named = (Column("judge", "judge", source="rubric"), *(Column(f"w{i}", "w", source="words") for i in range(columns)))
    labels = Labels(Label(t, "main", "p0", int(v)) for t, v in zip(targets, value, strict=True))
    question = Question(id="main", text="How good is it?", scale=Scale(options=(1, 2, 3, 4, 5)))
    return Planted(question, EvidenceTable(targets, named, x, np.ones(x.shape, dtype=bool)), labels, np.ones(1), {})


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_auto_is_not_worse_than_constant_or_one_column_on_noise(weight: float) -> None:
    new = with_noise(2000, 99, weight=weight)
    rated = ratings(new.evidence, new.labels, new.question)
    losses: dict[str, list[float]] = {"auto": [], "constant": [], "column": []}
    for seed in range(4):
        known = with_noise(120, seed, weight=weight)
        for name, kept in losses.items():
            head = Calibration(known.question, answer_model=name).fit(known.evidence, known.labels)
            said = head.predict_each(new.evidence.take(rated.row), list(rated.annotator))
            kept.append(rated.log_loss(np.array([score.probabilities for score in said])))  # type: ignore[union-attr]
    mean = {name: np.mean(each) for name, each in losses.items()}
    assert mean["auto"] < mean["constant"] + 0.01
    if weight:
        assert mean["auto"] < mean["constant"] - 0.05 and mean["auto"] < mean["column"] + 0.03  # weights start at trees


def test_stacked_model_is_saved_and_names_its_parts(tmp_path: Path) -> None:
    world = planted(conversations=150, annotators=4, seed=3)
    bent = replace(world.evidence, values=world.evidence.values**3)  # a line alone is shown to be worse
    learned = Calibration(world.question, candidates=["constant", "mixed", "curves"]).fit(bent, world.labels)
    described = learned.describe()
    assert {"mixed", "curves"} <= set(described["answer_model"].split("+")) and "parts" in described
    assert set(described["candidates"]) == {"constant", "mixed", "curves"}
    assert all(each["rmse"] > 0 and each["rmse_new"] > 0 for each in described["candidates"].values())
    for weight in ("weight", "weight_new"):
        assert sum(each[weight] for each in described["candidates"].values()) == pytest.approx(1)
    Evaluator(world.question, (), learned, head_name="auto").save(tmp_path)
    again = load_evaluator(tmp_path).head
    assert again.describe() == described and again.predict(bent, "p1") == learned.predict(bent, "p1")
    assert learned.chosen()["candidates"] == described["answer_model"].split("+")
    there = learned.in_new_domain().predict(bent, "p0")
    assert [s.value for s in there] != [s.value for s in learned.predict(bent, "p0")]  # type: ignore[union-attr]
    few = Labels(list(world.labels)[:6])
    assert "mixed" in str(learned.adapt(bent, few).signature()) and learned.adapt(bent, few).domain_ == "adapted"


def test_invalid_settings_are_rejected() -> None:
    question = planted(conversations=5).question
    with pytest.raises(BadInput, match="candidates must be a list of names"):
        Calibration(question, candidates="mixed")
    with pytest.raises(UnknownName, match="unknown answer_model"):
        Calibration(question, candidates=["svm"])
    with pytest.raises(BadInput, match="max_seconds must be a number from 0"):
        Calibration(question, max_seconds=-1)


def test_rows_without_evidence_are_unscored() -> None:
    corpus = planted()
    learned = Calibration(corpus.question, answer_model="mixed").fit(corpus.evidence, corpus.labels)
    present = corpus.evidence.present.copy()
    present[0] = False
    present[1, 0] = False
    values = np.where(present, corpus.evidence.values, 0.0)
    holes = EvidenceTable(corpus.evidence.targets, corpus.evidence.columns, values, present)
    scores = learned.predict(holes)
    assert isinstance(scores[0], Unscored) and scores[0].reason.startswith("no evidence")
    assert isinstance(scores[1], Score)


def test_evidence_with_another_signature_is_rejected() -> None:
    corpus = planted()
    learned = Calibration(corpus.question, answer_model="mixed").fit(corpus.evidence, corpus.labels)
    columns = tuple(type(c)(c.name, "another judge") for c in corpus.evidence.columns)
    other = EvidenceTable(corpus.evidence.targets, columns, corpus.evidence.values, corpus.evidence.present)
    with pytest.raises(BadInput, match="'f0' comes from another judge, the evaluator learned from planted"):
        learned.predict(other)
    fewer = EvidenceTable(corpus.evidence.targets, columns[1:], other.values[:, 1:], other.present[:, 1:])
    with pytest.raises(BadInput, match="the evidence has no column 'f0'"):
        learned.predict(fewer)


@pytest.mark.parametrize("case", ["one annotator", "all equal", "one conversation", "repeats", "one feature, constant"])
def test_degenerate_data_give_valid_scores(case: str) -> None:
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
    learned = Calibration(corpus.question, answer_model="mixed").fit(evidence, Labels(labels))
    for score in learned.predict(evidence):
        assert isinstance(score, Score) and 1 <= score.value <= 4
        if case == "all equal":
            assert score.value == pytest.approx(3, abs=0.1)


def test_too_few_labels_are_rejected() -> None:
    corpus = planted()
    with pytest.raises(BadInput, match="3 labels on 'main' have evidence; mixed needs at least 8"):
        Calibration(corpus.question, answer_model="mixed").fit(corpus.evidence, Labels(list(corpus.labels)[:3]))
    nominal = Question(id="main", text="?", scale=Scale(kind="nominal", options=("a", "b")))
    with pytest.raises(BadInput, match="has a nominal scale. The main question needs an ordered scale"):
        Calibration(nominal).fit(corpus.evidence, corpus.labels)
    with pytest.raises(UnknownName, match="unknown answer_model 'netwrok'"):
        Calibration(corpus.question, answer_model="netwrok")
    with pytest.raises(BadInput, match="domain_correlation must be from 0 to 1, got 2"):
        Calibration(corpus.question, answer_model="mixed", domain_correlation=2)


def test_missing_damaged_and_newer_folders_are_rejected(tmp_path: Path) -> None:
    corpus = planted(conversations=40)
    folder = tmp_path / "evaluator"
    with pytest.raises(BadInput, match=r"holds no evaluator: evaluator.json is missing"):
        load_evaluator(folder)
    unfitted = Evaluator(corpus.question, (), Calibration(corpus.question, answer_model="mixed"), head_name="mixed")
    with pytest.raises(NotFitted, match="is not fitted"):
        unfitted.save(folder)
    unfitted.fitted_on(corpus.evidence, corpus.labels).save(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["arrays.safetensors", "evaluator.json"]
    card = json.loads((folder / "evaluator.json").read_text(encoding="utf-8"))
    (folder / "evaluator.json").write_text(
        json.dumps({**card, "format": 99, "accord_version": "9.9"}), encoding="utf-8"
    )
    with pytest.raises(BadInput, match=r"written by Accord 9.9 in folder format 99; this Accord"):
        load_evaluator(folder)
    (folder / "evaluator.json").write_text(
        json.dumps({**card, "format": 1, "accord_version": "0.1.0"}), encoding="utf-8"
    )
    with pytest.raises(BadInput, match=r"in folder format 1; this Accord .* reads 5. Fit it again: accord fit"):
        load_evaluator(folder)
    (folder / "evaluator.json").write_text(json.dumps(card)[:-20], encoding="utf-8")
    with pytest.raises(BadInput, match="damaged evaluator"):
        load_evaluator(folder)
    (folder / "evaluator.json").write_text(json.dumps(card), encoding="utf-8")
    (folder / "arrays.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(BadInput, match="damaged evaluator"):
        load_evaluator(folder)


def test_extreme_annotators_get_valid_distributions() -> None:
    """Annotators who answer at both ends of the scale regardless of the evidence."""
    rng = np.random.default_rng(0)
    corpus = planted(conversations=150, annotators=3, share=1.0)
    ends = dict(zip(corpus.evidence.targets, rng.choice([1, 4], size=150).tolist(), strict=True))
    labels = Labels(Label(label.target, "main", label.annotator, ends[label.target]) for label in corpus.labels)
    fitted = Calibration(corpus.question, answer_model="mixed").fit(corpus.evidence, labels)
    scores = [score for score in fitted.predict(corpus.evidence, "p1") if isinstance(score, Score)]
    chance = [dict(zip((1, 2, 3, 4), score.probabilities, strict=True))[ends[score.target]] for score in scores]
    assert -np.log(chance).mean() < np.log(2) + 0.05, "as good as predicting either end"


@pytest.mark.parametrize(("rows", "width"), [(2, 3), (5, 1), (50, 7), (40, 60)])
def test_shrunk_covariance_matches_scikit_learn(rows: int, width: int) -> None:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(rows, width)) @ rng.normal(size=(width, width))
    assert shrunk_covariance(Z) == pytest.approx(ledoit_wolf(Z, assume_centered=True)[0], abs=1e-9)
    assert not shrunk_covariance(np.zeros((rows, width))).any()


@pytest.mark.parametrize("grouped", [False, True])
def test_iterative_equations_give_the_effects_of_the_dense_ones(grouped: bool) -> None:
    rng = np.random.default_rng(3)
    n, people = 240, 6
    who, text = np.arange(n) % people, np.arange(n) // 3
    Z, group = rng.normal(size=(n, 2)), (np.arange(n // 3) // 4)[text]
    y = Z @ [0.8, -0.5] + rng.normal(size=people)[who] + rng.normal(size=n // 12)[group] + rng.normal(size=n)
    layout = RatingLayout.of(Z, y, who, people, text, own_slopes=False, group=group if grouped else None)
    dense, ratios = equations_for(layout), np.zeros(len(equations_for(layout).best_ratios()))  # type: ignore[union-attr]
    ratios[[SLOPE, OFFSET, TEXT]], ratios[GROUP] = [0.5, 0.7, 0.4], 0.9 if grouped else 0.0
    exact, found = dense.fit(ratios), layout.as_kind(IterativeEquations).fit(ratios)  # type: ignore[type-var]
    assert found.effects == pytest.approx(exact.effects, abs=1e-4)
    assert found.noise == pytest.approx(exact.noise, rel=1e-4)


@pytest.mark.parametrize(("groups", "q"), [(8, np.inf), (9, 9.0), (10, 10.0), (19, 18.0)])
def test_bands_begin_with_nine_groups(groups: int, q: float) -> None:
    options, truth = np.array([0.0, 40.0]), 20.0 + 20.0 * np.arange(1, groups + 1)
    halves = np.full((groups, 2), 0.5)  # mean 20, standard deviation 20
    assert band_quantile(options, halves, truth, 0.9) == pytest.approx(q)
    twice = band_quantile(options, halves.repeat(2, axis=0), truth.repeat(2), 0.9, np.arange(groups).repeat(2))
    assert twice == pytest.approx(q) and groups_needed(0.9) == 9


@pytest.mark.parametrize(
    ("shared", "number", "q"),
    [(1.0, 20, 19.0), (0.0, 80, 18.25)],
    ids=["equal scores in a group", "independent scores in a group"],
)
def test_bands_count_independent_scores_of_a_group(shared: float, number: float, q: float) -> None:
    groups, options = np.arange(20).repeat(4), np.array([0.0, 40.0])
    own = np.random.default_rng(2).permutation(np.arange(80)) / 4 + 0.25  # .25 to 20
    scores = np.where(shared, (groups + 1.0), own)
    found = independent_scores(scores, groups, np.full(20, 4))
    assert found == pytest.approx(number, rel=0.15)
    halves, truth = np.full((80, 2), 0.5), 20.0 + 20.0 * scores
    exact, narrow = (band_quantile(options, halves, truth, 0.9, groups, is_exact) for is_exact in (True, False))
    assert narrow <= exact and narrow == pytest.approx(q, abs=0.25) and exact >= 18.75


def test_new_groups_fall_into_their_bands_if_their_scores_correlate() -> None:
    rng, options, held = np.random.default_rng(0), np.array([0.0, 40.0]), {True: [], False: []}
    for _ in range(300):
        level = rng.normal(size=(21, 1)) * 0.7 + rng.normal(size=(21, 4))
        halves, truth = np.full((80, 2), 0.5), 20.0 + 20.0 * level[:20].ravel()
        for is_exact in held:
            q = band_quantile(options, halves, truth, 0.9, np.arange(20).repeat(4), is_exact)
            held[is_exact].append(float(np.mean(np.abs(level[20]) <= q)))
    assert np.mean(held[True]) > 0.92 and np.mean(held[False]) == pytest.approx(0.9, abs=0.02)


def test_a_certain_prediction_has_a_thousandth_of_the_scale_as_deviation() -> None:
    mean, spread = moments(np.array([1.0, 2.0, 5.0]), np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]))
    assert mean.tolist() == [2.0, 3.0] and spread == pytest.approx([0.004, 2.0])

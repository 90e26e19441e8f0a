"""Insights into an evaluator beyond agreement, on data with known truth."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_corpus import planted_turns

from accord import Evaluator, Label, Labels, Project, Question, Score, Target, Unscored
from accord.decisions import at_least_cost, check_costs, decode, decoded, least_cost, parse_costs
from accord.edges import BadInput, UnknownName
from accord.evidence import Column, EvidenceTable, Ratings, ratings
from accord.learning import (
    AdaptiveRubric,
    Calibration,
    Experiment,
    Predictions,
    importance,
    make_head,
    suggest_labels,
)
from accord.learning.answer_models.mixed.equations import (
    EffectEquations,
    IterativeEquations,
    best_ratios,
)
from accord.learning.answer_models.mixed.model import MixedAnswers
from accord.project import Config, config_from
from accord.sample import sources as sample_sources
from accord.statistics import (
    Clusters,
    Paired,
    diagrams,
    group_biases,
    grouped_folds,
)
from accord.statistics.agreement import smece_by_option
from accord.testing import planted
from accord.testing.synthetic_ratings import Planted
from accord.validation import (
    Leak,
    Shift,
    adaptive_curve,
    annotator_quality,
    by_group,
    compare,
    compared,
    drift_summary,
    learning_curve,
    shifts,
    stability,
)
from accord.values import Estimate, Signature, score_from


def mixed(question: object) -> Calibration:
    return Calibration(question, answer_model="mixed")  # type: ignore[arg-type]


def judged(corpus: Planted) -> Planted:
    """The planted corpus with its features as expected answers to questions."""
    columns = tuple(Column(f"Q{i}", "judge|model:planted", f"Q{i}") for i in range(len(corpus.weights)))
    table = corpus.evidence
    return replace(corpus, evidence=EvidenceTable(table.targets, columns, table.values, table.present))


# --- decoding and bands --------------------------------------------------------------------------------------------


def test_decision_minimizes_expected_loss() -> None:
    options, p = (1.0, 2.0, 3.0, 4.0), (0.4, 0.15, 0.15, 0.3)
    losses = {
        "squared": lambda a, y: (a - y) ** 2,
        "absolute": lambda a, y: abs(a - y),
        "zero-one": lambda a, y: a != y,
    }
    for name, loss in losses.items():
        candidates = options if name == "zero-one" else np.linspace(1, 4, 301)
        expected = [sum(q * loss(a, y) for y, q in zip(options, p, strict=True)) for a in candidates]
        mine = decode(options, p, name)
        assert sum(q * loss(mine, y) for y, q in zip(options, p, strict=True)) <= min(expected) + 1e-3
    assert least_cost(p, [[0, 1, 1, 9], [1, 1, 1, 1]]) == 1
    with pytest.raises(UnknownName, match="unknown loss 'sqared'"):
        decode(options, p, "sqared")


@pytest.mark.parametrize("text", ["0,1,4;1,0,1;4,1,0", "0 1 4\n1 0 1\n4 1 0\n", " 0, 1, 4 ;1\t0 1;;4,1,0;"])
def test_costs_are_read_and_decide(text: str) -> None:
    costs = parse_costs(text, "--costs")
    assert costs == ((0, 1, 4), (1, 0, 1), (4, 1, 0))
    score = score_from(Target("c"), "ann", (1, 2, 3), (0.5, 0.1, 0.4), Signature.of("m"))
    assert at_least_cost(score, costs, "abc").value == 2, "costs 0.5·4 + .1, 0.9, 2.1: the middle is safe"
    dear = parse_costs("0,1,1;2,0,1;9,9,0", "x")
    assert at_least_cost(score, dear, "abc").value == 1
    assert str(at_least_cost(score, dear, "abc").signature) == "m|costs:abc"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1;1,x", r"--costs: row 2, column 2 is 'x'; allowed: finite numbers"),
        ("0,nan;1,0", r"row 1, column 2 is 'nan'"),
        ("0,1;inf,0", r"row 2, column 1 is 'inf'"),
        (" ; ", "holds no costs; give a row for each answer"),
        ("0,1,1;1,0,1", r"has 2 rows; the scale 1, 2, 3 needs 3 rows \(reported answers\) of 3 costs"),
        ("0,1,1;1,0;1,1,0", r"row 2 of the table of costs has 2 costs; the scale 1, 2, 3 needs"),
    ],
)
def test_invalid_costs_are_rejected(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        check_costs(parse_costs(text, "--costs"), (1, 2, 3))


def test_score_has_variance_entropy_and_decoding() -> None:
    corpus = planted(conversations=60)
    score = mixed(corpus.question).fit(corpus.evidence, corpus.labels).predict(corpus.evidence)[0]
    assert isinstance(score, Score) and score.band is not None
    p, y = np.array(score.probabilities), np.array(score.options)
    assert score.entropy == pytest.approx(-(p * np.log(p)).sum())
    assert score.variance == pytest.approx((p * (y - score.value) ** 2).sum())
    likeliest = decoded(score, "zero-one")
    assert likeliest.value == y[p.argmax()] and str(likeliest.signature).endswith("|loss:zero-one")


def test_bands_have_their_nominal_coverage() -> None:
    held = []
    for seed in range(6):
        corpus = planted(conversations=160, annotators=5, noise=0.8, seed=seed)
        rated = ratings(corpus.evidence, corpus.labels, corpus.question)
        splits = list(grouped_folds(list(rated.conversation), 4, seed))
        make = lambda question: Calibration(question, answer_model="mixed", coverage=0.8)  # noqa: E731
        system = Experiment(corpus.question, corpus.evidence, corpus.labels, rated, splits, 5).run("m", make)
        held.append(((system.band[:, 0] <= rated.value) & (rated.value <= system.band[:, 1])).mean())
    assert np.mean(held) == pytest.approx(0.8, abs=0.03)


def test_out_of_distribution_evidence_warns() -> None:
    corpus = planted(conversations=200)
    learned = mixed(corpus.question).fit(corpus.evidence, corpus.labels)
    own = [score.warning for score in learned.predict(corpus.evidence) if isinstance(score, Score)]
    assert sum(warning is not None for warning in own) <= 0.05 * len(own)
    table = corpus.evidence
    far = EvidenceTable(table.targets, table.columns, table.values + 12, table.present)
    assert all("unlike" in str(s.warning) for s in learned.predict(far) if isinstance(s, Score))


def test_changed_judge_version_warns(tmp_path: Path) -> None:
    from accord import load_evaluator

    corpus = planted(conversations=60)
    versions = {target: "judge-0613" for target in corpus.evidence.targets}
    learned = mixed(corpus.question).fit(replace(corpus.evidence, versions=versions), corpus.labels)
    Evaluator(corpus.question, (), learned, head_name="mixed").save(tmp_path)
    later = replace(corpus.evidence, versions={**versions, corpus.evidence.targets[0]: "judge-1106"})
    first, second, *_ = load_evaluator(tmp_path).head.predict(later)
    assert isinstance(first, Score) and isinstance(second, Score)
    assert "judge-1106, learned from judge-0613" in str(first.warning) and second.warning is None


# --- groups and annotators -----------------------------------------------------------------------------------------


def test_biased_group_is_detected() -> None:
    corpus = planted(conversations=200, annotators=4)
    rated = ratings(corpus.evidence, corpus.labels, corpus.question)
    rng = np.random.default_rng(0)
    place = {name: rng.integers(3) for name in sorted(set(rated.conversation))}
    group = [f"system {place[name]}" for name in rated.conversation]
    value = rated.value + rng.normal(scale=0.5, size=len(rated)) + 0.4 * np.array([g == "system 1" for g in group])
    shares = np.full((len(rated), 4), 0.25)
    scored, band = np.ones(len(rated), dtype=bool), np.full((len(rated), 2), np.nan)
    system = Predictions("m", shares, value, value, scored, band, shares, band)
    first, *rest = by_group([system], rated, group, "system")
    assert first.name == "system 1" and first.p_holm < 0.001 and first.apart == pytest.approx(0.4, abs=0.1)
    assert first.bias.low is not None and first.bias.low > 0.2
    fair = by_group([replace(system, new_value=rated.value + rng.normal(size=len(rated)))], rated, group, "system")
    assert all(g.p_holm > 0.01 for g in fair) and len(fair) == 3
    assert by_group([system], rated, [None] * len(rated), "topic") == []


@pytest.mark.attack
def test_few_conversations_of_a_group_are_rarely_biased_by_chance() -> None:
    corpus = planted(conversations=60, annotators=12, share=1.0)
    rated = ratings(corpus.evidence, corpus.labels, corpus.question)
    names, place = np.unique(rated.group.astype(str), return_inverse=True)
    n, rng, biased, rounds = len(rated), np.random.default_rng(0), 0, 200

    def few(error: Any, conversations: int) -> tuple[float, float]:
        group = ["few" if each < conversations else "rest" for each in place]
        return group_biases(error, rated.group, group)["few"]

    for _ in range(rounds):
        error = rng.normal(size=len(names))[place] + rng.normal(scale=0.5, size=n)
        biased += few(error, 3)[1] < 0.05
    assert biased < 0.1 * rounds  # a normal approximation gives 0.15
    assert few((place < 1).astype(float), 1) == pytest.approx((1.0, 1.0)), "one conversation has no variance"


def test_reversed_and_random_annotators_are_detected() -> None:
    corpus = planted(conversations=150, annotators=6, noise=0.4, share=0.6)
    rng = np.random.default_rng(1)

    def twisted(label: Label) -> Label:
        assert isinstance(label.value, int)
        if label.annotator == "p2":
            return replace(label, value=5 - label.value)
        return replace(label, value=int(rng.integers(1, 5))) if label.annotator == "p4" else label

    labels = Labels(twisted(label) for label in corpus.labels)
    rated = ratings(corpus.evidence, labels, corpus.question)
    splits = list(grouped_folds(list(rated.conversation), 5, 0))
    found = Experiment(corpus.question, corpus.evidence, labels, rated, splits, 5).run("m", mixed)
    assert {s.annotator: s.kind for s in annotator_quality(rated, found.new_value)} == {
        "p2": "reversed",
        "p4": "random",
    }
    honest = ratings(corpus.evidence, corpus.labels, corpus.question)
    found = Experiment(corpus.question, corpus.evidence, corpus.labels, honest, splits, 5).run("m", mixed)
    assert annotator_quality(honest, found.new_value) == []


def test_pooled_annotators_count_as_one() -> None:
    corpus = planted(conversations=120, annotators=3, share=0.9)
    users = [
        replace(label, annotator=f"user-{place}")
        for place, label in enumerate(corpus.labels)
        if label.annotator == "p2"
    ]
    labels = Labels([*(label for label in corpus.labels if label.annotator != "p2"), *users])
    learned = Calibration(corpus.question, answer_model="mixed", pooled_annotators=["user-*"]).fit(
        corpus.evidence, labels
    )
    assert learned.annotators == ["p0", "p1", "user-*"]
    assert learned.predict(corpus.evidence, "user-7") == learned.predict(corpus.evidence, "user-*")
    means = {n: np.mean([s.value for s in learned.predict(corpus.evidence, n)]) for n in ("p0", "user-*")}
    assert means["user-*"] > means["p0"] + 0.5
    with pytest.raises(BadInput, match="must be a list of names"):
        Calibration(corpus.question, pooled_annotators="user-*")


# --- questions -----------------------------------------------------------------------------------------------------


def test_importance_matches_the_papers_ratio_of_gradients() -> None:
    corpus = judged(planted(conversations=300, annotators=3, noise=0.3))
    other = corpus.question.model_copy(update={"id": "Q0"})
    noise = corpus.question.model_copy(update={"id": "noise"})
    rng = np.random.default_rng(0)
    more = []
    for row, target in enumerate(corpus.evidence.targets):
        value = int(np.clip(round(2.5 + 1.0 * corpus.evidence.values[row, 0]), 1, 4))
        more += [Label(target, "Q0", "p0", value), Label(target, "noise", "p0", int(rng.integers(1, 5)))]
    labels = Labels([*corpus.labels, *more])
    found = {
        one.question: one for one in importance(corpus.evidence, labels, corpus.question, (other, noise), draws=60)
    }
    # ŷ_Q0 rises with the first feature alone, by b; the main answer by about .8 of its unit: the ratio is near .8 / 1.
    assert found["Q0"].estimate.value == pytest.approx(0.8, abs=0.2)
    assert found["Q0"].estimate.low is not None and found["Q0"].estimate.low > 0.5
    assert set(found) == {"Q0"}, "a question that the evidence does not explain is left out"
    with pytest.raises(BadInput, match="needs 30"):
        importance(corpus.evidence, Labels(list(labels)[:5]), corpus.question, ())


def test_adaptive_rubric_asks_the_most_informative_questions_first() -> None:
    corpus = judged(planted(conversations=150, annotators=4, features=3, noise=0.3))
    learned = mixed(corpus.question).fit(corpus.evidence, corpus.labels)
    rubric = AdaptiveRubric(learned)
    features = learned.features(corpus.evidence)
    nothing = np.zeros_like(features.present)
    blank = EvidenceTable(features.targets, features.columns, features.values * 0, nothing)
    first = rubric.outlook(blank, 0)
    assert first.best == "Q0" and first.gains["Q0"] > 2 * first.gains["Q2"]
    assert first.distribution.sum() == pytest.approx(1)
    present = nothing.copy()
    present[0, 0] = True
    part = EvidenceTable(features.targets, features.columns, np.where(present, features.values, 0), present)
    second = rubric.outlook(part, 0)
    assert second.best == "Q1" and second.spread < first.spread and "Q0" not in second.gains
    score, *rest = rubric.predict(part, "p1")
    assert all(isinstance(one, Unscored) and "no evidence" in one.reason for one in rest)
    with pytest.raises(UnknownName, match="nobody"):
        rubric.predict(part, "nobody")
    assert score.annotator == "p1" and str(score.signature).endswith("|asked:1 of 3")
    whole = rubric.outlook(features, 0, ("p1",))
    assert whole.best is None and whole.spread == pytest.approx(0)
    assert whole.distribution == pytest.approx(learned.distributions(features, ["p1"] * len(features))[0])


def test_adaptive_curve_ends_at_all_questions_or_at_its_limit() -> None:
    corpus = judged(planted(conversations=60, annotators=3, features=4, noise=0.3))
    rated = ratings(corpus.evidence, corpus.labels, corpus.question)
    splits = list(grouped_folds(list(rated.conversation), 3, 0))
    found = adaptive_curve(Experiment(corpus.question, corpus.evidence, corpus.labels, rated, splits, 5), mixed)
    whole = Experiment(corpus.question, corpus.evidence, corpus.labels, rated, splits, 5).run("m", mixed)
    assert [one.mean for one in found] == [0, 1, 2, 3, 4]
    assert found[-1].paired.value == pytest.approx(whole.value, abs=1e-6)
    errors = [np.mean((one.paired.value - rated.value) ** 2) for one in found]
    assert errors[0] > errors[1] > errors[-1]
    stopped = adaptive_curve(
        Experiment(corpus.question, corpus.evidence, corpus.labels, rated, splits, 5), mixed, 3, until=0.3
    )
    assert 0.5 < stopped[-1].mean < 3
    plain = planted(conversations=40)
    with pytest.raises(BadInput, match="no answers of a judge"):
        AdaptiveRubric(mixed(plain.question).fit(plain.evidence, plain.labels))


# --- labels --------------------------------------------------------------------------------------------------------


def test_suggested_labels_are_new_and_better_than_random() -> None:
    corpus = planted(conversations=120, annotators=4, features=3, share=1.0)
    # p3 has three labels, the others forty each.
    given = [
        label
        for label in corpus.labels
        if label.target.conversation < "c0040" and (label.annotator != "p3" or label.target.conversation < "c0003")
    ]
    found = suggest_labels(corpus.evidence, Labels(given), corpus.question, 12)
    done = {(label.target, label.annotator) for label in given}
    assert len({(s.target, s.annotator) for s in found}) == 12 and not done & {(s.target, s.annotator) for s in found}
    assert sum(s.annotator == "p3" for s in found) >= 6  # the annotator with the fewest labels is asked most
    assert all(a.gain >= b.gain - 1e-9 for a, b in zip(found, found[1:], strict=False))
    only = suggest_labels(corpus.evidence, Labels(given), corpus.question, 3, ["p1"])
    assert {s.annotator for s in only} == {"p1"}
    with pytest.raises(UnknownName, match="annotator 'p9'"):
        suggest_labels(corpus.evidence, Labels(given), corpus.question, 3, ["p9"])
    with pytest.raises(BadInput, match="8 are needed; label random conversations"):
        suggest_labels(corpus.evidence, Labels(given[:4]), corpus.question, 3)
    with pytest.raises(BadInput, match="all texts with evidence are labelled"):
        suggest_labels(corpus.evidence, corpus.labels, corpus.question, 3)


def test_suggested_labels_cover_all_kinds_of_conversations() -> None:
    corpus = planted_turns(conversations=60, turns=4, annotators=3, spread=1.0)
    given = Labels(label for label in corpus.labels if label.target.conversation < "c0010")
    found = suggest_labels(corpus.evidence, given, corpus.question, 30)
    assert len({each.target.conversation for each in found}) >= 25, "a second label of a conversation adds less"
    assert not {each.target.conversation for each in found[:20]} & {label.target.conversation for label in given}


def test_suggestions_respect_allowed_pairs_and_new_annotators() -> None:
    corpus = planted(conversations=80, annotators=4, share=1.0)
    given = Labels(x for x in corpus.labels if x.target.conversation < "c0020" and x.annotator != "p3")
    among = {(x.target, x.annotator) for x in corpus.labels if x.target.conversation >= "c0070"}
    found = suggest_labels(corpus.evidence, given, corpus.question, 100, among=among)
    assert {(each.target, each.annotator) for each in found} == among, "exactly the allowed pairs"
    assert sum(each.annotator == "p3" for each in found[:8]) >= 3, "p3 has no labels yet"
    with pytest.raises(UnknownName, match="annotator 'p3'"):
        suggest_labels(corpus.evidence, given, corpus.question, 1, ["p3"])


def test_learning_curve_falls_and_ends_at_all_labels() -> None:
    corpus = planted(conversations=100, annotators=4)
    rated = ratings(corpus.evidence, corpus.labels, corpus.question)
    known = corpus.question, corpus.evidence, corpus.labels, rated
    experiment = Experiment(*known, tuple(grouped_folds(list(rated.conversation), 5, 0)), 5)
    whole = experiment.run("m", mixed)
    points = learning_curve(experiment, mixed, whole, shares=(0.1,))
    assert points[0].estimates["rmse"].value > points[1].estimates["rmse"].value  # type: ignore[operator]
    assert points[1].estimates["rmse"].value == pytest.approx(np.sqrt(np.mean((whole.value - rated.value) ** 2)))
    assert points[0].labels < 0.15 * len(rated)
    with pytest.raises(BadInput, match="at least 1 random subset at each share, got 0"):
        learning_curve(experiment, mixed, whole, subsets=0)


def test_learning_curve_shows_mean_and_deviation_over_random_subsets() -> None:
    corpus = planted(conversations=60, annotators=3)
    rated = ratings(corpus.evidence, corpus.labels, corpus.question)
    known = corpus.question, corpus.evidence, corpus.labels, rated
    experiment = Experiment(*known, tuple(grouped_folds(list(rated.conversation), 3, 0)), 3)
    whole = experiment.run("m", mixed)
    first, last = learning_curve(experiment, mixed, whole, shares=(0.25,), subsets=4)
    drawn = [experiment.thinned(0.25, number) for number in range(4)]
    assert len({split.train for each in drawn for split in each.splits}) == 12, "every fold of every draw differs"
    errors = [np.sqrt(np.mean((each.run("m", mixed).value - rated.value) ** 2)) for each in drawn]
    found = first.estimates["rmse"]
    assert found.value == pytest.approx(np.mean(errors)) and first.subsets == 4 == first.to_json()["subsets"]
    sd = np.std(errors, ddof=1)
    assert (found.low, found.high) == pytest.approx((np.mean(errors) - sd, np.mean(errors) + sd))
    final = last.estimates["rmse"]
    assert final.low == final.value == final.high == pytest.approx(np.sqrt(np.mean((whole.value - rated.value) ** 2)))


# --- drift, reliability, many annotators ---------------------------------------------------------------------------


def test_drift_is_detected_in_the_shifted_feature() -> None:
    then, now = planted(conversations=200).evidence, planted(conversations=200, seed=1).evidence
    assert not any(shift.is_shifted for shift in shifts(then, now)) and "is shown to be shifted" in drift_summary(
        shifts(then, now)
    )
    values = now.values.copy()
    values[:, 1] += 1.5
    moved = shifts(then, EvidenceTable(now.targets, now.columns, values, now.present))
    assert [shift.feature for shift in moved if shift.is_shifted] == ["f1"] and "f1" in drift_summary(moved)
    assert stability(np.arange(100.0), np.arange(100.0)) == pytest.approx(0)
    assert "Too few" in drift_summary(shifts(then.take(range(5)), now))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=9), st.integers(0, 300), st.integers(0, 300))
@settings(max_examples=200)
def test_drift_is_stated_once_and_as_its_figures_say(found: list[tuple[float, float]], some: int, others: int) -> None:
    moved = [Shift(f"f{n}", 0.0, 1.0, stability, p) for n, (stability, p) in enumerate(found)]
    unlike, count = some, some + others
    said = drift_summary(moved, unlike, count)
    shifted = sum(shift.is_shifted for shift in moved)
    assert ("is shown to be shifted" in said) == (bool(moved) and not shifted and unlike <= 0.2 * count)
    assert (f"{unlike} of {count} conversation" in said) == bool(unlike)
    assert (f"{shifted} of {len(moved)} feature" in said) == bool(shifted)
    assert said.startswith("No feature of") <= (not unlike)
    assert ("fit again" in said) == (bool(shifted) or unlike > 0.2 * count)


@pytest.mark.parametrize("name", ["curves", "mixed"])
def test_similar_turns_of_a_conversation_are_no_drift(name: str) -> None:
    false, seen, draws = 0, 0, 12
    for seed in range(draws):
        corpus = planted_turns(seed=seed)
        old, new = ({f"c{place:04d}" for place in range(*ends)} for ends in ((0, 60), (60, 120)))
        head = make_head(name, corpus.question, {})
        head = head.fit(corpus.evidence.filter(old), corpus.labels.filter(old))
        again = make_head(name, corpus.question, {}).restore(*head.state())
        found = again.seen(corpus.evidence.filter(new))
        assert found is not None
        then, now = found
        assert len(then) == 400 and len({target.conversation for target in then.targets}) == 60
        false += any(shift.is_shifted for shift in shifts(then, now))
        moved = replace(now, values=now.values + np.array([1.5, *[0.0] * 7]))
        seen += "f0" in {shift.feature for shift in shifts(then, moved) if shift.is_shifted}
    assert false <= 1 and seen == draws  # treating rows as independent would raise an alarm in every draw


def test_reliability_diagrams_match_outcomes() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, size=4000)
    happened = (rng.random(4000) < p).astype(int)
    paired = Paired(np.array([0.0, 1.0]), happened, np.column_stack([1 - p, p]), p)
    one = diagrams(paired, Clusters([f"c{i}" for i in range(4000)]), draws=50)[1]
    middle = (one.predicted > 0.2) & (one.predicted < 0.8)
    assert np.abs(one.happened - one.predicted)[middle].max() < 0.08
    assert one.error.value == smece_by_option(paired)[1] and one.error.value < 0.03
    assert (one.low <= one.happened).all() and (one.happened <= one.high).all()
    bold = Paired(np.array([0.0, 1.0]), happened, np.column_stack([1 - p**3, p**3]), p)
    assert diagrams(bold, Clusters([f"c{i}" for i in range(4000)]), draws=20)[1].error.value > 0.1  # type: ignore[operator]


def test_iterative_equations_match_dense_ones() -> None:
    rng = np.random.default_rng(0)
    n, people, texts = 400, 12, 90
    Z, who, text = rng.normal(size=(n, 3)), rng.integers(people, size=n), rng.integers(texts, size=n)
    text = np.unique(text, return_inverse=True)[1]
    y = Z @ [0.5, 0.2, 0] + rng.normal(size=people)[who] + rng.normal(size=texts)[text] * 0.5 + rng.normal(size=n)
    ratios = np.array([0.2, 0.8, 0.05, 0.3, 0.0])  # no groups
    dense = EffectEquations.of(Z, y, who, people, text, own_slopes=True).fit(ratios)
    large = IterativeEquations.of(Z, y, who, people, text, own_slopes=True)
    learned = large.fit(ratios)
    assert learned.effects == pytest.approx(dense.effects, abs=1e-4) and learned.noise == pytest.approx(
        dense.noise, rel=1e-4
    )
    assert (learned.errors <= dense.errors).all()  # they ignore the uncertainty of shared effects
    assert np.corrcoef(learned.held_out_residuals, dense.held_out_residuals)[0, 1] > 0.98
    sparse, full = best_ratios(large), EffectEquations.of(Z, y, who, people, text, True).best_ratios()
    assert np.log(sparse[:4]) == pytest.approx(np.log(full[:4]), abs=0.01) and sparse[4] == full[4] == 0.0


@pytest.mark.parametrize("case", ["one annotator", "equal labels", "few"])
def test_odd_data_are_reported_and_learned_from(case: str) -> None:
    corpus = planted(conversations=40, annotators=3, share=0.9)
    if case == "one annotator":
        labels = Labels(label for label in corpus.labels if label.annotator == "p1")
    elif case == "equal labels":
        labels = Labels(replace(label, value=3) for label in corpus.labels)
    else:
        labels = Labels(list(corpus.labels)[:9])
    learned = mixed(corpus.question).fit(corpus.evidence, labels)
    scores = [score for score in learned.predict(corpus.evidence) if isinstance(score, Score)]
    assert len(scores) == 40 and all(np.isfinite(s.value) and s.band is not None for s in scores)
    if case == "equal labels":
        assert all(score.value == pytest.approx(3, abs=0.3) for score in scores)
    learned.predict(corpus.evidence.take([0]).align(learned.reference_.columns))
    assert Target("c0000") == corpus.evidence.targets[0]


# --- remarks of a comparison ---------------------------------------------------------------------------------------


def on(question: Question, rated: Ratings) -> Experiment:
    return Experiment(question, EvidenceTable.of(()), Labels(), rated, (), 5)


def system_of(name: str, rated: Ratings, value: np.ndarray, scored: np.ndarray | None = None) -> Predictions:
    there = np.ones(len(rated), dtype=bool) if scored is None else scored
    shares = np.exp(-0.5 * (rated.options - value[:, None]) ** 2)
    shares = shares / shares.sum(axis=1, keepdims=True) * there[:, None]
    nothing = np.full((len(rated), 2), np.nan)
    return Predictions(name, shares, value, np.where(there, value, np.nan), there, nothing, shares, nothing)


def test_systems_are_compared_on_common_ratings() -> None:
    corpus = planted(conversations=60)
    rated = ratings(corpus.evidence, corpus.labels, corpus.question)
    rng = np.random.default_rng(0)
    n = len(rated)
    whole = system_of("whole", rated, rated.value + rng.normal(size=n))
    most = system_of("most", rated, rated.value + rng.normal(size=n), np.arange(n) >= 10)
    few = system_of("few", rated, rated.value + rng.normal(size=n), np.arange(n) % 4 == 0)
    found = compared(on(corpus.question, rated), [whole, most, few], draws=50)
    both = (np.arange(n) >= 10) & (np.arange(n) % 4 == 0)
    assert [line.n for line in found.results] == [n - 10, n - 10, both.sum()] and found.common == n - 10
    assert found.results[0].values["rmse"] == pytest.approx(np.sqrt(np.mean((rated.value - whole.value)[10:] ** 2)))
    assert found.results[2].unscored == n - few.scored.sum()
    test = next(d.test for d in found.differences if d.against == "few" and d.statistic == "rmse")
    error = [np.sqrt(np.mean((rated.value - each.value)[both] ** 2)) for each in (whole, few)]
    assert test.difference == pytest.approx(error[0] - error[1])
    assert f"compared on the {n - 10} of {n} ratings" in found.remarks[0]


def test_constant_predictions_in_a_fold_have_no_correlation() -> None:
    corpus = planted(conversations=60)
    found = compare(corpus.evidence, corpus.labels, corpus.question, ("mixed",), draws=50)
    constant, mean, mixed_model = found["constant"], found["annotator-mean"], found["mixed"]
    assert len({round(value, 6) for value in found.systems[1].value}) > 1, "its value differs from fold to fold"
    for name in ("pearson", "spearman", "kendall"):
        assert constant.estimates[name] == Estimate()
    assert constant.values["rmse"] is not None and mean.values["pearson"] is not None
    assert mean.within["annotators"].pearson.value is None, "it is constant for each annotator"
    inside = mixed_model.within["annotators"]
    assert inside.groups == 6 and inside.pearson.value is not None and 0.3 < inside.pearson.value < 1
    assert inside.pearson.low < inside.pearson.value < inside.pearson.high  # type: ignore[operator]
    row = mixed_model.to_json()
    assert (
        row["pearson_within_annotators"] == inside.pearson.value and row["kendall_within_annotators_high"] is not None
    )
    assert not any(d.against == "constant" and d.statistic == "pearson" for d in found.differences)


def test_agreement_within_systems_needs_several_systems() -> None:
    corpus = planted(conversations=60)
    rated = ratings(corpus.evidence, corpus.labels, corpus.question)
    speakers = np.array(["bot-1" if name < "c0030" else "bot-2" for name in rated.conversation], dtype=object)
    one = system_of("one", rated, rated.value + np.random.default_rng(0).normal(size=len(rated)))
    found = compared(on(corpus.question, rated), [one], draws=50, speakers=speakers)
    assert found["one"].within["systems"].groups == 2
    same = compared(on(corpus.question, rated), [one], draws=50, speakers=np.full(len(rated), "bot", dtype=object))
    assert set(same["one"].within) == {"annotators"}


def test_probabilities_worse_than_constant_are_reported() -> None:
    corpus = planted(conversations=60)
    rated = ratings(corpus.evidence, corpus.labels, corpus.question)
    sure = system_of("sure", rated, np.full(len(rated), 1.0) + np.arange(len(rated)) % 2)
    shares = np.bincount(rated.answer, minlength=4) / len(rated)
    flat = replace(
        system_of("constant", rated, np.full(len(rated), 2.5)), probabilities=np.tile(shares, (len(rated), 1))
    )
    [remark] = compared(on(corpus.question, rated), [sure, flat], draws=20).remarks
    assert remark.startswith("sure: log loss ") and "is worse than the constant's" in remark
    assert compared(on(corpus.question, rated), [flat, flat], draws=20).remarks == []


def test_leak_is_large_outside_the_honest_interval() -> None:
    corpus = planted(conversations=60)
    rated = ratings(corpus.evidence, corpus.labels, corpus.question)
    noise = np.random.default_rng(0).normal(size=len(rated))
    honest = compared(on(corpus.question, rated), [system_of("it", rated, rated.value + noise)], draws=200)
    leaking = Leak.of(system_of("it", rated, rated.value + 0.3 * noise), honest.results[0], rated, groups=12)
    assert leaking.is_large and leaking.pearson > leaking.honest_pearson  # type: ignore[operator]
    assert f"12 groups of {len(set(rated.target))} samples together" in str(leaking)
    assert str(leaking) in replace(honest, leak=leaking).remarks
    small = Leak.of(system_of("it", rated, rated.value + 0.99 * noise), honest.results[0], rated, groups=12)
    assert not small.is_large and replace(honest, leak=small).remarks == []
    assert replace(honest, leak=small).to_json()["leak"]["rmse"] == small.rmse


# --- cache of out-of-fold predictions ------------------------------------------------------------------------------


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """List with an entry per fit of a mixed model."""
    calls, learn = [], MixedAnswers.fit_predict

    def counted(self: MixedAnswers, *args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return learn(self, *args, **kwargs)

    monkeypatch.setattr(MixedAnswers, "fit_predict", counted)
    return calls


def settings(folder: Path, **changed: Any) -> Config:
    mixed = {"sources": ["metrics"], "head": "mixed"}
    given = {
        "store": f"sqlite:///{folder}/accord.db",
        "evaluators": {"m": mixed},
        "evaluator": "m",
        "folds": 3,
        "repeats": 1,
    }
    return config_from({**given, "metrics": ["turns", "question-rate"], "draws": 20, **changed})


@pytest.fixture(scope="module")
def tried_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Store in which everything was learned once; to be copied."""
    folder = tmp_path_factory.mktemp("tried")
    with Project(settings(folder)) as project:
        project.import_(sample_sources())
        project.fit_offline()
    return folder / "accord.db"


@pytest.fixture
def tried(tried_store: Path, tmp_path: Path) -> Path:
    """Writable folder with that store."""
    shutil.copy(tried_store, tmp_path)
    return tmp_path


def test_fit_compare_and_report_share_cached_work(tmp_path: Path, learned: list[int]) -> None:
    with Project(settings(tmp_path)) as project:
        project.import_(sample_sources())
        fitted = project.fit(out=tmp_path / "m")
        assert len(learned) == 3 + 1, "each fold, then everything"
        compared_then = project.compare(only=["m"])
        again = project.fit_offline()
        assert len(learned) == 4 + 2 * 3, "a learning curve of two shares in three folds, since labels are few"
        project.compare(only=["m"])
        assert len(learned) == 10, "nothing has changed"
        ours = fitted.comparison["m"].to_json()  # type: ignore[index]
        assert ours == compared_then.comparison["m"].to_json() == again.comparison["m"].to_json()  # type: ignore[index]
        assert again.evaluator.describe() == fitted.evaluator.describe()
        assert [source.name for source in again.evaluator.sources] == ["metrics"]
        once = project.insights(again)
        curve = len(learned)
        assert curve == 10 + 4 * 3, "four shares of the labels, in each fold"
        twice = project.insights(again)
        assert len(learned) == curve and twice.curve == once.curve and twice.importance == once.importance


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},
        {"folds": 4},
        {"metrics": ["turns"]},
        {"group_by": ["system"], "folds": 2},
        {"evaluators": {"m": {"sources": ["metrics"], "head": "mixed", "settings": {"own_slopes": False}}}},
    ],
)
def test_changed_settings_are_not_read_from_the_cache(changed: dict[str, Any], tried: Path, learned: list[int]) -> None:
    with Project(settings(tried, **changed)) as project:
        project.fit_offline()
    assert learned


def test_new_label_is_not_read_from_the_cache(tried: Path, learned: list[int]) -> None:
    with Project(settings(tried)) as project:
        project.fit_offline()
        assert not learned, "nothing has changed"
        project.store.add_labels([Label(Target("support-001"), "Q0", "somebody new", 1)])
        project.fit_offline()
        assert len(learned) == 4
        changed_draws = Project(settings(tried, draws=60))
        changed_draws.fit_offline()
        changed_draws.close()
        assert len(learned) == 4, "new intervals use cached predictions"

"""The contract every evaluator keeps, the baselines, and the comparison on honest folds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from accord import Calibration, Label, Labels, Question, Scale, Score, Target, Unscored, compare
from accord.evidence import Column, EvidenceTable
from accord.learning import (
    AnnotatorMean,
    Choice,
    Constant,
    JudgeArgmax,
    JudgeExpected,
    RandomDraw,
    evaluators,
    held_out,
)
from accord.evidence import ratings
from accord.statistics import grouped_folds
from accord.testing import Planted, check_evaluator, planted
from accord.validation import is_better, other_people, people_alpha
from accord.values import BadInput, UnknownName


@pytest.mark.parametrize("name", [name for name in evaluators.names() if not name.startswith("judge-")])
def test_every_evaluator_keeps_the_contract(name: str) -> None:
    settings = {"label-free": {"features": ("f0",)}}.get(name, {})
    corpus = None
    if name == "learned-rubric":  # it selects from what a judge answered
        corpus = planted(conversations=60, annotators=3)
        corpus = replace(corpus, evidence=judged(corpus, question="q1"))
    if name == "in-context":  # it goes by an ensemble's answers
        corpus = planted(conversations=60, annotators=3)
        evidence = judged(corpus)
        columns = tuple(
            replace(c, name=c.name.replace("main=", "in-context=")) if c.question else c for c in evidence.columns
        )
        corpus = replace(corpus, evidence=replace(evidence, columns=columns))
    if name in {"issues", "mean-turn", "lowest-turn"}:  # they go by what was found in turns
        corpus = planted(conversations=60, annotators=3)
        corpus = replace(corpus, evidence=with_issues(corpus))
    check_evaluator(partial(evaluators.get(name), **settings), corpus)


def with_issues(corpus: Planted) -> EvidenceTable:
    """The planted features as two kinds of issues, with overall scores of turns."""
    scores = np.clip(3 + corpus.evidence.values @ corpus.weights, 1, 5)
    first, second = (np.clip(corpus.evidence.values[:, place], 0, None) for place in (0, 1))
    names = ("issue:A", "issue:A:worst", "issue:B", "issue:B:worst", "issues:score", "issues:lowest")
    values = np.column_stack([first, first / 5, second, second / 5, scores, np.floor(scores)])
    columns = tuple(Column(name, "issues|model:planted") for name in names)
    return EvidenceTable(corpus.evidence.targets, columns, values, np.ones(values.shape, dtype=bool))


def judged(corpus: Planted, question: str = "main") -> EvidenceTable:
    """The planted features, and a judge that answers a question as the main one, with a bias of one point."""
    expected = 2.5 + corpus.evidence.values @ corpus.weights
    options = np.arange(1, 5)
    mass = np.exp(-((options - (expected + 1)[:, None]) ** 2))
    mass /= mass.sum(axis=1, keepdims=True)
    columns = tuple(Column(f"{question}={k}", "judge|model:biased", question, float(k)) for k in options)
    answers = EvidenceTable(corpus.evidence.targets, columns, mass, np.ones(mass.shape, dtype=bool))
    return answers.join(corpus.evidence)


def test_baselines_say_what_they_claim_to_say() -> None:
    corpus = planted(seed=3)
    evidence = judged(corpus)
    values = np.array([label.value for label in corpus.labels], dtype=float)
    of = {name: [label.value for label in corpus.labels if label.annotator == name] for name in corpus.levels}

    def value(evaluator, annotator=None):  # type: ignore[no-untyped-def]
        return evaluator.fit(evidence, corpus.labels).predict(evidence, annotator)[0].value

    assert value(Constant(corpus.question)) == pytest.approx(values.mean(), abs=0.01)
    assert value(AnnotatorMean(corpus.question), "p0") == pytest.approx(np.mean(of["p0"]), abs=0.05)
    options, shares, _ = evidence.distribution("main")
    assert value(JudgeExpected(corpus.question)) == pytest.approx(float(shares[0] @ options))
    assert value(JudgeArgmax(corpus.question)) == options[shares[0].argmax()]
    draws = [score.value for score in RandomDraw(corpus.question).fit(evidence, corpus.labels).predict(evidence)]  # type: ignore[union-attr]
    assert np.mean(draws) == pytest.approx(values.mean(), abs=0.2) and set(draws) == {1.0, 2.0, 3.0, 4.0}


def test_the_judge_has_nothing_to_say_where_it_was_not_asked() -> None:
    corpus = planted(conversations=10)
    with pytest.raises(BadInput, match="no judge answered 'main'"):
        JudgeExpected(corpus.question).fit(corpus.evidence, corpus.labels)
    evidence = judged(corpus)
    present = evidence.present.copy()
    present[0, :4] = False
    holes = EvidenceTable(
        evidence.targets, evidence.columns, evidence.values, present, {(Target("c0000"), "main"): "refused"}
    )
    first = JudgeExpected(corpus.question).fit(holes, corpus.labels).predict(holes)[0]
    assert isinstance(first, Unscored) and first.reason == "refused"


def test_compare_finds_the_better_method_and_says_so_with_intervals() -> None:
    corpus = planted(conversations=150)
    found = compare(judged(corpus), corpus.labels, corpus.question, draws=400)
    best = found["calibration"]
    for line in found.results[1:]:
        assert best.values["rmse"] < line.values["rmse"]  # type: ignore[operator]
    assert best.intervals["rmse"].low < best.values["rmse"] < best.intervals["rmse"].high  # type: ignore[operator]
    assert max(best.smece) < 0.06  # type: ignore[type-var]
    assert len(best.smece_intervals) == 4
    assert all(i.low <= i.high < 0.2 for i in best.smece_intervals)  # type: ignore[operator]
    ours = {d.against: d for d in found.differences if d.statistic == "rmse"}
    assert all(is_better(d) and d.p_holm < 0.05 for d in ours.values())
    assert {line.system for line in found.results} == {
        "calibration", "constant", "annotator-mean", "random", "judge-argmax", "judge-expected",
    }  # fmt: skip
    assert found.people is not None and found.people.system == "other people"
    rows = found.to_json()["rows"]
    assert {"rmse", "rmse_low", "rmse_high", "pearson", "spearman", "kendall", "log_loss", "smece"} <= rows[0].keys()
    with pytest.raises(UnknownName, match="unknown system"):
        found["calibratoin"]


def test_compare_is_the_same_twice_and_without_a_judge_has_no_judge_lines() -> None:
    corpus = planted(conversations=40)
    one, two = (compare(corpus.evidence, corpus.labels, corpus.question, draws=50).to_json() for _ in range(2))
    assert one == two
    assert not any(row["system"].startswith("judge") for row in one["rows"])


def test_no_rating_of_a_tested_conversation_is_learned_from() -> None:
    # One feature names the conversation; an evaluator that had seen it could repeat its label.
    corpus = planted(conversations=60, annotators=2, share=1.0, noise=0.1)
    rng = np.random.default_rng(0)
    labels = Labels(Label(label.target, "main", label.annotator, int(rng.integers(1, 5))) for label in corpus.labels)
    found = compare(corpus.evidence, labels, corpus.question, draws=100)
    assert abs(found["calibration"].values["pearson"] or 0) < 0.25, "labels without a pattern cannot be predicted"


def test_a_method_that_cannot_learn_is_a_line_and_not_the_end() -> None:
    corpus = planted(conversations=12, annotators=1, share=1.0)
    few = Labels(list(corpus.labels)[:6])
    found = compare(corpus.evidence, few, corpus.question, folds=3, draws=20)
    assert found["calibration"].n == 0 and found["calibration"].unscored == 6
    assert "it needs 8 or more" in next(iter(found["calibration"].reasons))
    assert found["constant"].n == 6


def test_people_among_themselves() -> None:
    corpus = planted(conversations=100, annotators=3, share=1.0, noise=0.2)
    rated = ratings(corpus.evidence, corpus.labels, corpus.question)
    people = other_people(rated, draws=50, seed=0)
    assert people is not None and people.n == 300
    assert people.values["pearson"] > 0.6  # type: ignore[operator]
    assert 0.3 < people_alpha(rated) < 1  # type: ignore[operator]
    alone = Labels(label for label in corpus.labels if label.annotator == "p0")
    assert other_people(ratings(corpus.evidence, alone, corpus.question), 50, 0) is None
    assert people_alpha(ratings(corpus.evidence, alone, corpus.question)) is None


def test_a_person_who_rates_twice_is_no_ceiling_for_themselves() -> None:
    corpus = planted(conversations=10, annotators=1, share=1.0)
    twice = Labels([*corpus.labels, *corpus.labels])
    rated = ratings(corpus.evidence, twice, corpus.question)
    assert len(rated) == 20 and other_people(rated, 20, 0) is None
    assert people_alpha(rated) == pytest.approx(1.0)


def test_labels_outside_the_scale_never_reach_a_method() -> None:
    corpus = planted(conversations=10)
    wrong = Labels([*corpus.labels, Label(Target("c0000"), "main", "p0", 9)])
    with pytest.raises(BadInput, match="got 9, allowed: 1, 2, 3, 4"):
        compare(corpus.evidence, wrong, corpus.question)
    with pytest.raises(BadInput, match="no label on 'main' has evidence"):
        compare(corpus.evidence, Labels(), corpus.question)


def test_a_score_is_its_distribution() -> None:
    corpus = planted(conversations=40)
    make = partial(evaluators.get("calibration"), corpus.question)
    score = make().fit(corpus.evidence, corpus.labels).predict(corpus.evidence)[0]
    assert isinstance(score, Score)
    assert score.value == pytest.approx(sum(o * p for o, p in zip(score.options, score.probabilities, strict=True)))
    low, high = score.interval
    inside = sum(p for o, p in zip(score.options, score.probabilities, strict=True) if low <= o <= high)
    assert inside >= 0.8
    row = score.to_json()
    assert (
        row["value"] == score.value
        and row["unscored"] is None
        and row["signature"].startswith("calibration|core:mixed|")
    )


@pytest.mark.parametrize("factor", [0.01, 10, 1000])
def test_the_unit_of_the_scale_changes_nothing(factor: float) -> None:
    corpus = planted(conversations=80)
    options = tuple(factor * option for option in range(1, 5))
    question = Question(id="main", text="?", scale=Scale(options=options))
    labels = Labels(Label(x.target, "main", x.annotator, factor * x.value) for x in corpus.labels)  # type: ignore[operator]
    plain = compare(corpus.evidence, corpus.labels, corpus.question, draws=20)["calibration"].values
    scaled = compare(corpus.evidence, labels, question, draws=20)["calibration"].values
    for name, value in plain.items():
        times = factor if name in {"rmse", "mae"} else 1
        assert scaled[name] == pytest.approx(value * times, rel=1e-3), name  # type: ignore[operator]


def test_a_choice_is_made_inside_the_training_side() -> None:
    corpus = planted(conversations=60)
    seen: list[set[str]] = []

    class Watching(Calibration):
        def fit(self, evidence, labels):  # type: ignore[no-untyped-def]
            seen.append({label.target.conversation for label in labels})
            return super().fit(evidence, labels)

    candidates = [partial(Watching, own_slopes=slopes) for slopes in (False, True)]
    make = partial(Choice, candidates=candidates)
    splits = list(grouped_folds([label.target.conversation for label in corpus.labels], 3, seed=0))
    rated = ratings(corpus.evidence, corpus.labels, corpus.question)
    system = held_out("choice", make, corpus.question, corpus.evidence, corpus.labels, rated, splits)
    assert system.scored.all()
    assert len(seen) == 3 * (2 * 4 + 1)
    for fold, split in enumerate(splits):
        assert all(not names & split.test for names in seen[9 * fold : 9 * fold + 9])
    assert all(len(names) < 60 * 2 / 3 for fold in range(3) for names in seen[9 * fold : 9 * fold + 8])


def test_a_choice_finds_what_the_data_need() -> None:
    corpus = planted(conversations=60, noise=0.3)
    candidates = [Constant, Calibration]
    assert isinstance(Choice(corpus.question, candidates).fit(corpus.evidence, corpus.labels), Calibration)
    random = Labels(Label(x.target, "main", x.annotator, 1 + i % 4) for i, x in enumerate(corpus.labels))
    assert isinstance(Choice(corpus.question, candidates).fit(corpus.evidence, random), Constant)

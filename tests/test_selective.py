"""Selective scores: confident calls hold their agreement, and the rest is left for a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from accord import Conversation, Evaluator, Project, Score, Target, Turn, Unscored
from accord.decisions import (
    LEFT,
    Selection,
)
from accord.decisions.selective import left_for_people, sure_enough
from accord.edges import BadInput
from accord.evidence import Source, SourceContext, SourceSettings
from accord.learning import Calibration, HeldOutAnswers, load_evaluator
from accord.project import config_from
from accord.sample import sources as sample_sources
from accord.scoring import ScoreOptions
from accord.statistics import (
    SelectiveTest,
    beta_quantile,
    fixed_sequence,
    gamma_quantile,
    normal_quantile,
    normal_tail,
    upper_bound,
)
from accord.statistics.intervals import (
    t_quantile,
    t_tail,
)
from accord.store import Store
from accord.testing import planted
from accord.values import Label, Sample, Signature, score_from


def test_upper_bound_is_clopper_pearson_and_wider_for_clusters() -> None:
    wrong = np.arange(200) % 20 == 0
    alone = upper_bound(wrong, np.arange(200))
    assert alone == pytest.approx(stats.beta.ppf(0.95, 11, 190), abs=1e-3)
    together = upper_bound(np.sort(wrong), np.arange(200) // 10)
    assert together > 1.5 * alone
    assert upper_bound(np.zeros(60, dtype=bool), np.arange(60) // 3) == pytest.approx(1 - 0.05 ** (1 / 21), abs=0.02)


def test_tails_and_quantiles_match_scipy() -> None:
    for p in (0.001, 0.025, 0.5, 0.95, 0.999):
        assert normal_quantile(p) == pytest.approx(stats.norm.ppf(p), rel=1e-9, abs=1e-12)
        for freedom in (1, 2.5, 30, 1e6):
            assert t_quantile(p, freedom) == pytest.approx(stats.t.ppf(p, freedom), rel=1e-9, abs=1e-12)
        for a, b in ((1, 1), (3.2, 100), (50, 0.5), (1, 2000)):
            assert beta_quantile(p, a, b) == pytest.approx(stats.beta.ppf(p, a, b), rel=1e-9)
        for shape in (1, 4096):
            assert gamma_quantile(p, shape) == pytest.approx(stats.gamma.ppf(p, shape), rel=1e-9)
    for z in (-3.0, 0.0, 1.5, 30.0):
        assert normal_tail(z) == pytest.approx(stats.norm.sf(z), rel=1e-9)
        for freedom in (1, 2.5, 30):
            assert t_tail(z, freedom) == pytest.approx(stats.t.sf(z, freedom), rel=1e-9)
    assert normal_tail(np.array([0.0, np.inf])).tolist() == [0.5, 0.0]


def test_threshold_holds_with_its_confidence() -> None:
    rng = np.random.default_rng(0)
    shares, broken = [], 0
    for _ in range(400):
        u = rng.random(400)
        p = 1 - u**2 / 2  # of the surest share s, 1 - s²/6 are right: .9 at s = .77
        found, _ = fixed_sequence(p, rng.random(400) < p, np.arange(400), 0.9)
        if found is not None:
            shares.append(found.share)
            broken += 1 - 2 * (1 - found.threshold) / 6 < 0.9
    assert len(shares) > 380 and np.mean(shares) > 0.5 and broken <= 0.05 * 400
    none, first = fixed_sequence(p, rng.random(400) < 0.7, np.arange(400), 0.9)
    assert none is None and first.share == pytest.approx(0.3)


def tried(sure: float) -> Evaluator:
    """Evaluator whose held-out calls agree as often as their confidence."""
    corpus = planted(conversations=60)
    rng = np.random.default_rng(0)
    p = np.repeat([sure, 0.6], 200)
    shares = np.column_stack([(1 - p) / 2, (1 - p) / 2, p / 2, p / 2])
    answer = np.where(rng.random(400) < p, 2, 1)
    found = HeldOutAnswers(shares, shares, answer, np.arange(400), np.arange(1.0, 5.0), np.arange(400))
    head = Calibration(corpus.question, answer_model="mixed").fit(corpus.evidence, corpus.labels)
    return Evaluator(corpus.question, (), head, held_out=found)


def test_confident_scores_are_called_and_others_left_for_a_person() -> None:
    selection = Selection.of(tried(0.98), 0.9)
    assert selection.good == 3 and 0.4 < selection.tested.share < 0.65 and selection.tested.at_least >= 0.9

    def score(p: float, warning: str | None = None) -> Score:
        shares = ((1 - p) / 2, (1 - p) / 2, p / 2, p / 2)
        return score_from(Target("c"), "anybody", (1.0, 2.0, 3.0, 4.0), shares, Signature("m"), warning=warning)

    good, bad, unsure, strange = map(selection.call, [score(0.99), score(0.01), score(0.6), score(0.99, "odd")])
    assert isinstance(good, Score) and good.notes["call"] == "good" and "agree:0.9" in str(good.signature)
    assert isinstance(bad, Score) and bad.notes["call"] == "bad"
    assert isinstance(unsure, Unscored) and unsure.reason == LEFT and unsure.notes["sure"] == pytest.approx(0.6)
    assert isinstance(strange, Unscored) and strange.notes["warning"] == "odd"


class Promising(Source):
    """A source whose scores carry calls."""

    promised = 0.9

    def measure(self, samples: Sequence[Sample]) -> Any:
        raise NotImplementedError


def test_calls_of_a_source_follow_the_same_rule_and_leave_the_scores() -> None:
    evaluator = tried(0.98)
    assert Selection.noted(evaluator) is None, "no source promises anything"
    source = Promising(SourceSettings(), SourceContext(evaluator.question))
    strict, noted = Selection.of(evaluator, 0.9), Selection.noted(replace(evaluator, sources=(source,)))
    assert noted is not None and noted.tested == strict.tested and not noted.leaves_open
    for p in (0.99, 0.01, 0.6):
        shares = ((1 - p) / 2, (1 - p) / 2, p / 2, p / 2)
        score = score_from(Target("c"), "anybody", (1.0, 2.0, 3.0, 4.0), shares, Signature("m"))
        called, left = noted.call(score), strict.call(score)
        assert isinstance(called, Score) and called.value == score.value
        assert called.notes["call"] == (left.notes["call"] if isinstance(left, Score) else "uncertain")
    nothing = replace(tried(0.6), sources=(source,))
    unsure = Selection.noted(nothing)
    assert unsure is not None and unsure.call(score).notes["call"] == "uncertain" and "none is made" in str(unsure)


def test_repeated_predictions_do_not_count_as_more_ratings() -> None:
    evaluator = tried(0.95)
    once = evaluator.held_out
    assert once is not None
    five = HeldOutAnswers(
        *(np.concatenate([each] * 5) for each in (once.known, once.new, once.answer, once.group)), once.options,
        np.tile(once.rating, 5),
    )  # fmt: skip
    single, repeated = (sure_enough(each, 0.9) for each in (once, five))
    assert single is not None and repeated is not None
    assert repeated.last.at_least == pytest.approx(single.last.at_least)
    assert repeated.last.called == single.last.called and repeated.share == pytest.approx(single.share)


@pytest.mark.parametrize(
    ("agree", "good", "says"),
    [
        (0.3, None, "above .5 and below 1"),
        (0.9, 1.0, "--good is the lowest answer"),
        (0.99, None, "no threshold keeps"),
    ],
)
def test_unreachable_agreement_is_rejected(agree: float, good: float | None, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        Selection.of(tried(0.95), agree, good)


@pytest.mark.defaults
def test_scores_left_for_a_person_are_labelled_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chats, ratings = map(str, sample_sources())
    config = config_from({"metrics": ["bank"], "evaluator": "mixed", "evaluators": {"mixed": {"head": "mixed"}}})
    with Project(config) as project:
        project.import_([chats, ratings])
        fitted = project.fit().evaluator
        assert fitted.held_out is not None
        again = load_evaluator(project.folder()).held_out
        assert again is not None and np.array_equal(again.known, fitted.held_out.known)
        with pytest.raises(BadInput, match="has no held-out predictions"):
            project.score(chats, "s.jsonl", Evaluator(fitted.question, fitted.sources, fitted.head),
                          options=ScoreOptions(agree=0.9))  # fmt: skip
        with pytest.raises(BadInput, match="leave out --new-domain"):
            project.score(chats, "s.jsonl", options=ScoreOptions(agree=0.9, new_domain=True))
        new = tmp_path / "new.jsonl"
        rows = Path(chats).read_text(encoding="utf-8").splitlines()[:30]
        new.write_text("\n".join(row.replace('"id": "', '"id": "new-') for row in rows), encoding="utf-8")
        done = project.score(new, "s.jsonl", options=ScoreOptions(agree=0.65, good=4))
        assert (
            done.selection is not None
            and done.counts.unscored[LEFT] + done.counts.scored == 30
            and done.counts.unscored[LEFT] > 3
        )
        found = project.label_next(3)
        assert len({each.conversation for each in found}) == 3
        assert all(each.reason == LEFT and each.conversation.startswith("new-") for each in found)


@pytest.mark.parametrize(("probabilities", "call"), [((0.05, 0.0, 0.0, 0.95), "good"), ((0.95, 0.0, 0.0, 0.05), "bad")])
def test_call_is_as_sure_as_its_likelier_side(probabilities: tuple[float, ...], call: str) -> None:
    tested = SelectiveTest(0.9, 0.5, 40, 0.95, 0.91, 20)
    score = score_from(Target("a"), "anyone", np.arange(1.0, 5.0), np.array(probabilities), Signature.of("x"))
    found = Selection(0.9, 3.0, tested).call(score)
    assert isinstance(found, Score) and found.notes["call"] == call and found.notes["sure"] == pytest.approx(0.95)


def test_sure_bad_calls_count_as_much_as_sure_good_ones() -> None:
    good, bad, unsure = [0.04, 0.96], [0.96, 0.04], [0.45, 0.55]
    shares = np.array([good] * 60 + [bad] * 60 + [unsure] * 120)
    answer = np.array([1] * 60 + [0] * 60 + [0, 1] * 60)
    answers = HeldOutAnswers(shares, shares, answer, np.arange(240), np.array([1.0, 2.0]), np.arange(240))
    found = sure_enough(answers, 0.9)
    assert found is not None and found.passed is not None and found.lowest == 2.0
    assert found.passed.share == found.share >= 0.5 and found.curve[0].agreement == 1.0
    half = next(each for each in found.curve if each.share >= 0.5)
    assert (half.called, half.threshold, half.agreement) == (120, pytest.approx(0.96), 1.0)


def test_selection_as_json_holds_the_promise_and_its_evidence() -> None:
    tested, wide = SelectiveTest(0.8, 0.5, 40, 0.95, 0.91, 20), SelectiveTest(0.6, 1.0, 80, 0.85, 0.8, 40)
    found = Selection(0.9, 3.0, tested, (tested, wide)).to_json()
    assert {name: found[name] for name in ("agree", "good", "threshold", "share", "called", "agreement")} == {
        "agree": 0.9, "good": 3.0, "threshold": 0.8, "share": 0.5, "called": 40, "agreement": 0.95,
    }  # fmt: skip
    assert (found["at_least"], found["groups"], [each["share"] for each in found["curve"]]) == (0.91, 20, [0.5, 1.0])
    assert "at least 90% of the calls good (3 or more) and bad agree with people" in found["said"]
    assert "95.0% of the most confident 50% held-out ratings do (40 ratings, 20 groups)" in found["said"]
    none = Selection(0.9, 3.0, None).to_json()
    assert none == {
        "agree": 0.9, "good": 3.0, "curve": [],
        "said": "no share of the calls is sure to agree with people in 90% of cases, so none is made",
    }  # fmt: skip


def test_every_fourth_point_of_the_curve_is_printed() -> None:
    curve = [SelectiveTest(0.9, share, 10, 1 - share / 10, 0.5, 10) for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)]
    text = str(Selection(0.9, 3.0, curve[0], curve))
    shown = [f"{share:.0%} {1 - share / 10:.0%} (≥ 50%)" in text for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)]
    assert shown == [True, False, False, False, True, False]


@pytest.mark.parametrize(("share", "answer", "agreement"), [(0.6, 1, 1.0), (0.6, 0, 0.0), (0.5, 1, 1.0), (0.4, 0, 1.0)])
def test_likelier_side_is_the_call(share: float, answer: int, agreement: float) -> None:
    shares = np.tile([1 - share, share], (80, 1))
    answers = HeldOutAnswers(shares, shares, np.full(80, answer), np.arange(80), np.array([1.0, 2.0]), np.arange(80))
    found = sure_enough(answers)
    assert found is not None and found.last.agreement == agreement
    assert found.share == (1.0 if agreement else 0.0)


def test_an_evaluator_without_held_out_predictions_promises_nothing() -> None:
    with pytest.raises(BadInput, match="has no held-out predictions"):
        Selection.of(replace(tried(0.98), held_out=None), 0.9)


def test_the_most_uncertain_unrated_texts_come_first(memory: Store) -> None:
    def row(name: str, sure: float | None, reason: str | None = LEFT) -> Any:
        notes = None if sure is None else {"sure": sure}
        return {"conversation": name, "turn": None, "unscored": reason, "notes": notes}

    rows = [row("a", 0.8), row("rated", 0.5), row("b", 0.6), row("scored", 0.4, None), row("c", None), row("b", 0.6)]
    memory.add_conversations([Conversation("rated", [Turn("user", "Hi")])])
    memory.add_labels([Label(Target("rated"), "main", "ann", 3)])
    assert left_for_people(memory, rows, "main") == [Target("c"), Target("b"), Target("a")]

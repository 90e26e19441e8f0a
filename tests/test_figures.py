"""Figures that formulas or a few lines of arithmetic give: bands, costs, shifts, drift and tests of change."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import kstwo

import accord.decisions.recommendation as recommendation
import accord.learning.calibration.shifts as shifts
import accord.statistics.alternative_annotator as alternative_annotator
import accord.table_check.agreement as table_agreement
import accord.table_check.automation as automation
import accord.table_check.means as table_means
import accord.table_check.pairs as table_pairs
import accord.validation.estimation as estimation
from accord import Label, Question, Scale, Score, Target, Unscored
from accord.decisions import Selection
from accord.decisions.costs import decode, least_cost, parse_costs
from accord.edges import UnknownName
from accord.evidence import Column, EvidenceTable, Ratings
from accord.learning import HeldOutAnswers
from accord.learning.calibration.bands import Bands, bands, groups_needed, new_annotator_factor
from accord.learning.calibration.levels import ScaleLevels
from accord.learning.calibration.shifts import GroupShifts, tilted
from accord.statistics import (
    CenteredPart,
    Clusters,
    LabeledSystem,
    Paired,
    SelectiveTest,
    alternative_annotator_test,
    diagrams,
    efficient_means,
    p_value,
    reach,
)
from accord.statistics.change_tests import BETS, HAZARD, change_test
from accord.statistics.scale_intervals import clustered_quantile
from accord.statistics.two_sample_test import TwoSampleResult
from accord.table_check.agreement import Pairs, alpha_of, table_point
from accord.table_check.automation import Automation, SliceError
from accord.table_check.means import compare_systems
from accord.table_check.pairs import PairFigures
from accord.validation import Comparison
from accord.validation.drift import Shift, drift_summary, ks_p_value, stability
from accord.validation.estimation import method_widths
from accord.values import Estimate, Signature, score_from

TWO_SAMPLES = import_module("accord.statistics.two_sample_test")  # its package has a function of this name

FIVE, HALVES = np.arange(1.0, 6.0), np.array([[0.5, 0.0, 0.0, 0.0, 0.5]])  # mean 3, standard deviation 2


def unrated(options: int) -> Ratings:
    return Ratings([], np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp), np.zeros(0), np.arange(float(options)))


def factor_of_annotators() -> list[float]:
    """Return the ratio of the widths of bands for new and for known annotators, and its formula."""
    value, who = np.tile([2.0, 4.0, 3.0, 5.0], 5), np.tile(np.array(["a", "b"], dtype=object), 10)
    groups = [f"c{place // 2}" for place in range(20)]
    labels = [Label(Target(group), "q", str(name), each) for group, name, each in zip(groups, who, value, strict=True)]
    rated = Ratings(labels, np.arange(20) // 2, value.astype(np.intp) - 1, value, FIVE)
    shares = np.full((20, 5), 0.2)  # mean 3, variance 2
    found = Bands.fit(rated, (shares, shares), who, 0.9)
    factor = new_annotator_factor((value - 3) / np.sqrt(2), who, groups, 0.9)
    assert factor > 1.05
    return [found.quantile_new / found.quantile / factor, found.quantile]


def worst_slice(*errors: Estimate) -> str | None:
    """Return the slice whose error lies above 5%."""
    slices = [SliceError("by", str(place), 0.5, 20, error) for place, error in enumerate(errors)]
    found = Automation(0.05, "confidence", "rule", 40, slices=slices).worst
    return None if found is None else found.group


def levels_of_ratings() -> tuple[list[int], list[float]]:
    """Return the levels of twenty options with a rating each, and the shares inside them."""
    value = np.arange(20.0)
    labels = [Label(Target(f"c{place}"), "q", "p", float(place)) for place in range(20)]
    levels = ScaleLevels.fit(Ratings(labels, np.arange(20), np.arange(20), value, value))
    return levels.of.tolist(), levels.within.tolist()


def tilts_of_two_groups() -> list[float]:
    """Return the tilts of two groups of 20 conversations, with 15 and with 5 ratings of the upper of two options."""
    value = np.repeat([1.0, 0.0, 1.0, 0.0], [15, 5, 5, 15])
    labels = [Label(Target(f"c{place}"), "q", "p", each) for place, each in enumerate(value)]
    rated = Ratings(labels, np.arange(40), value.astype(np.intp), value, np.array([0.0, 1.0]))
    belongs = np.repeat(np.eye(2), 20, axis=0)
    return shifts._likeliest(rated, np.full((40, 2), 0.5), belongs, np.zeros(2, dtype=np.intp)).tolist()


def log_e(ranks: np.ndarray, days: int) -> float:
    """Return the largest e-value of ranks, one a day, in logarithms: the mean over bets and starts of their products."""
    values = []
    for last in range(1, days + 1):
        gains = [[np.prod(1 + bet * (ranks[first:last] - 0.5)) for first in range(last)] for bet in BETS]
        starts = HAZARD * (1 - HAZARD) ** np.arange(last)
        values.append(np.log((np.array(gains) @ starts).mean() + (1 - HAZARD) ** last))
    return float(max(0.0, *values))


def two_items() -> object:
    """Return the test of three people, the third of which labeled only one of two items."""
    labels = np.tile([[1.0], [0.0]], (30, 3))
    labels[:30, 2] = np.nan
    item = np.repeat(["a", "b"], 30).astype(object)
    found = alternative_annotator_test(labels, labels[:, 0], item, False)
    assert not isinstance(found, str)
    return list(found.rows), found.advantage.value, found.advantage.low, list(found.winning_rates)


def panel_means() -> list[float]:
    """Return the means over two annotators of three targets, of which one has a single score."""
    targets = (Target("a"), Target("b"), Target("c"))
    evidence = EvidenceTable(targets, (Column("x", "x"),), np.zeros((3, 1)), np.ones((3, 1), dtype=bool))
    upper = {"one": (0.2, 0.4, 0.9), "two": (0.4, 0.8, None)}

    def predict_each(_: EvidenceTable, names: list[str]) -> list[Score | Unscored]:
        by = Signature.of("m")
        return [
            Unscored(target, name, "no evidence", by) if p is None else score_from(target, name, (0, 1), (1 - p, p), by)
            for target, name, p in zip(targets, names, upper[names[0]], strict=True)
        ]

    panel = SimpleNamespace(annotators=["one", "two"], predict_each=predict_each)
    return list(estimation._by_panel(panel, evidence).values())


def measured(passes: float) -> Selection | None:
    """Return the calls of 80 held-out ratings of the upper option, which has this probability."""
    shares = np.tile([1 - passes, passes], (80, 1))
    answers = HeldOutAnswers(shares, shares, np.full(80, 1), np.arange(80), np.array([1.0, 2.0]), np.arange(80))
    return Selection.measured(SimpleNamespace(held_out=answers))  # type: ignore[arg-type]


def compared(**losses: float) -> Comparison:
    """Return a comparison of evaluators with these log losses on ten ratings."""
    rows = [SimpleNamespace(evaluator=name, n=10, values={"log_loss": loss}) for name, loss in losses.items()]
    question = Question(id="main", text="How good is it?", scale=Scale(options=(1, 2)))
    return Comparison(question, unrated(2), (), rows, (), None, None, 5, 0)  # type: ignore[arg-type]


def bias() -> tuple[Estimate, float, Estimate, float]:
    """Return the bias of answers in ten rows, six of them labeled, and the same from the differences of the sums."""
    said, answers = np.array([1.0, 2, 2, 3, 5, 4]), np.array([1.0, 3, 2, 4, 5, 5, 1, 2, 4, 5])
    item = np.arange(10).astype(str).astype(object)
    given = LabeledSystem("s", said, answers[:6], answers[6:], list(item[:6]), list(item[6:]))
    [mean] = efficient_means([given], (1.0, 5.0), False)
    parts = [CenteredPart((answers - 3.2) / 10, item.astype(str))]
    parts += [CenteredPart(-part.adds, part.group) for part in mean.parts]
    apart, half = 3.2 - mean.mean, reach(parts)
    return (
        *table_means._bias(mean, answers, item, given),
        Estimate(apart, apart - half, apart + half),
        p_value(apart, parts),
    )


def pair_counts() -> list[tuple[str, int]]:
    """Return the number of pairs of each version in seven labeled and three other pairs."""
    versions = np.array([["a", "b"]] * 7 + [["b", "c"]] * 3, dtype=object)
    label = np.array([1.0, 0, 1, 1, 0, 1, np.nan, 1, np.nan, np.nan])
    table = SimpleNamespace(versions=versions, is_labeled=np.isfinite(label), is_judged=np.ones(10, dtype=bool),
                            item=np.arange(10), mean_label=label, mean_score=np.tile([1.0, 0.0], 5))  # fmt: skip
    rates = SimpleNamespace(reason="", systems=[SimpleNamespace(system=name) for name in "abc"])
    found = table_pairs._strengths(table, SimpleNamespace(reason=""), rates)  # type: ignore[arg-type]
    assert not isinstance(found, str)
    return sorted((each.version, each.pairs) for each in found)


def best_for_known(*names: str) -> tuple[str, float, float] | None:
    """Return the best of evaluators that miss each of forty ratings by 1, .3 and .5 points, in this order."""
    off = {"own": 1.0, "near": 0.3, "far": 0.5}
    answer = np.arange(40) % 5

    def evaluator(miss: float) -> list[SimpleNamespace]:
        paired = Paired(FIVE, answer, np.zeros((40, 0)), FIVE[answer] + miss)
        return [SimpleNamespace(scored=np.ones(40, dtype=bool), paired=lambda _: paired)]

    rated = SimpleNamespace(group=np.arange(40).astype(str))
    return recommendation._better_for_known("own", {name: evaluator(off[name]) for name in names}, rated)  # type: ignore[arg-type]


def point(labels: list[float], options: list[float]) -> float:
    """Return one point of a scale with these options and labels."""
    scale = SimpleNamespace(options=np.array(options))
    return table_point(SimpleNamespace(labels=np.array([labels]), scale=scale))  # type: ignore[arg-type]


def several_runs() -> SimpleNamespace:
    """Return twelve rows of two runs that differ in one row, and a row of one run."""
    runs = np.repeat([[0.0, 0.0], [1.0, 1.0]], [6, 7], axis=0)
    runs[11:, 1] = 0.0, np.nan
    return SimpleNamespace(answer=runs, item=np.arange(13).astype(object), scale=SimpleNamespace(kind="two-valued"))


def noise_of_one_item() -> Estimate:
    """Return the share of noise in ten rows of one item, with runs 0 and 2 and the label 4."""
    runs = np.tile([0.0, 2.0], (10, 1))
    table = SimpleNamespace(answer=runs, labels=np.full((10, 1), 4.0), item=np.full(10, "a", dtype=object),
                            is_labeled=np.ones(10, dtype=bool), scale=SimpleNamespace(kind="ordered"))  # fmt: skip
    return table_agreement._noise_share(table, runs, np.ones(10, dtype=bool))  # type: ignore[arg-type]


def diagram_ends(*seed: int) -> list[float]:
    probabilities = np.random.default_rng(0).dirichlet([1, 1], 24)
    paired = Paired(np.array([0.0, 1.0]), np.arange(24) % 2, probabilities, probabilities[:, 1])
    [first, _] = diagrams(paired, Clusters([str(place // 2) for place in range(24)]), 200, *seed)
    return [*first.low, *first.high, first.error.low, first.error.high]


def scores_of_two_assignments() -> bool:
    """Return True if the scores of an assignment of kinds do not depend on other assignments."""
    classifier = TWO_SAMPLES._Classifier(np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 3)
    few, many = np.arange(12) < 3, np.arange(12) < 8
    alone = np.concatenate([classifier.scores(kinds[None]) for kinds in (few, many)])
    return bool(np.allclose(classifier.scores(np.array([few, many])), alone))


def refusal_of_a_name() -> str:
    with pytest.raises(UnknownName) as caught:
        compared(ridge=1.2)["mixed"]
    return str(caught.value)


def advantage_of_a_judge() -> object:
    """Return the advantage of a judge who is right in 30 of 40 rows, in which three people agree."""
    truth = np.arange(40) % 2
    answer = np.where(np.arange(40) < 30, truth, 1 - truth).astype(float)
    found = alternative_annotator_test(np.repeat(truth[:, None], 3, axis=1).astype(float), answer, np.arange(40), False)
    assert not isinstance(found, str)
    return found.advantage.value, found.advantage.low, found.advantage.high


GROUPED = GroupShifts({"judge-version": {"v1": 0.1}, "system": {"a": 0.2, "b": 0.0}, "team": {"c": 0.0}},
                      {"system": (0.5, 0.1), "team": (0.3, 0.3)})  # fmt: skip
"""Tilts by two entries of the metadata, of which one shifts nothing."""
HALF = clustered_quantile(120, 39) * np.sqrt(0.75 * 0.25 / 39)
TILT = brentq(lambda tilt: 15 - 20 / (1 + np.exp(-tilt)) - tilt / 0.8, 0, 2)
SLOW_RISE = np.array([0.4, 0.6, 0.9, 0.95, 0.99, 0.9])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (lambda: list(Bands(1.5, 2.5, 30, 4).describe()), ["band_quantile", "band_quantile_new", "band_new"]),
        (lambda: Bands(1.5, 2.5, 30, 5).describe(), {"band_quantile": 1.5, "band_quantile_new": 2.5}),
        (lambda: Bands(np.inf, np.inf, 8, 5).describe()["band_quantile"], None),
        (lambda: [bands(FIVE, HALVES, q).tolist() for q in (1.0, 0.5, 0.4)], [[[1, 5]], [[2, 4]], [[3, 3]]]),
        (lambda: [groups_needed(coverage) for coverage in (0.5, 0.8, 0.85, 0.9, 0.95)], [1, 4, 6, 9, 19]),
        (factor_of_annotators, pytest.approx([1, np.sqrt(2)])),
        (lambda: [worst_slice(Estimate(0.2), Estimate(0.1, 0.04, 0.2), Estimate(0.1, 0.06, 0.2)),
                  worst_slice(Estimate(0.2), Estimate(0.1, 0.05, 0.2))], ["2", None]),
        (lambda: ScaleLevels.fit(unrated(10)).of.tolist(), list(range(10))),
        (lambda: ScaleLevels.fit(unrated(11)).of.tolist(), [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (lambda: ScaleLevels.fit(unrated(11)).fine(np.full((1, 10), 0.1)).tolist(), [[0.05, 0.05, *[0.1] * 9]]),
        (lambda: [len(ScaleLevels.fit(unrated(count)).coarse(unrated(count)).options) for count in (9, 10, 11)], [9, 10, 10]),
        # Cuts at every tenth of the ratings, or the next option above it: 2, 4, ... 18.
        (levels_of_ratings, ([0, 0, 0, *np.repeat(np.arange(1, 9), 2), 9],
                             pytest.approx([1 / 3] * 3 + [1 / 2] * 16 + [1]))),
        (lambda: (rated := unrated(10)) is ScaleLevels.fit(rated).coarse(rated), True),
        # e^(λ·y) with λ = log 2 doubles the weight of each next option: 1 : 2 : 4
        (lambda: tilted(np.arange(3.0), np.full((1, 3), 1 / 3), np.array([np.log(2)])).tolist(),
         [pytest.approx([1 / 7, 2 / 7, 4 / 7])]),
        # Each group has the information 20/4 and the score 15 - 10, so τ² is (5²/5 - 1) / 5, and 15 - 20·σ(λ) = λ/τ².
        (tilts_of_two_groups, [pytest.approx(each) for each in (TILT, -TILT)]),
        (lambda: [decode((1, 2, 3), (0.3, 0.3, 0.4), loss) for loss in ("squared", "absolute", "zero-one")],
         [pytest.approx(2.1), 2, 3]),
        (lambda: least_cost((0.6, 0.4), ((0, 4), (1, 0))), 1),
        (lambda: parse_costs("0, 1;2 0", "costs"), ((0, 1), (2, 0))),
        (lambda: ks_p_value(np.arange(20.0), np.arange(20.0) + 5), pytest.approx(kstwo.sf(0.25, 10))),
        # The deciles 0, .5 and 1 begin bins with 10 and 0 and 10 values, after a bin below 0; half a count is added to each.
        (lambda: stability(np.repeat([0.0, 1.0], 10), np.full(20, -1.0)),
         pytest.approx((20 * np.log(41) + 20 * np.log(21)) / 22)),
        (lambda: [Shift("f", 0, 1, *each).is_shifted for each in ((0.2, 0.04), (0.19, 0.04), (0.2, 0.05))],
         [True, False, False]),
        (lambda: Shift("f", 0, 1, 0.2, 0.04).to_json(),
         {"feature": "f", "then": 0, "now": 1, "stability": 0.2, "p_holm": 0.04, "is_shifted": True}),
        (lambda: drift_summary([]), "Too few conversations to compare with the training data."),
        (lambda: drift_summary([], 1, 10)[:25], "1 of 10 conversations is "),
        (lambda: [str(TwoSampleResult(9, 9, 18, 0.6, 0.4, 0.8, p, ()))[:20] for p in (0.05, 0.04)],
         ["the metrics do not t", "the metrics tell 9 s"]),
        # One synthetic row of three does not make a group synthetic, so there is nothing to exchange.
        (lambda: (TWO_SAMPLES._permuted(np.arange(6) == 0, Clusters(["a"] * 3 + ["b"] * 3), 0) == (np.arange(6) == 0)).all(), True),
        (two_items, ([60, 60, 30], 1.0, None, [0.2, 0.15, 0.1])),
        (advantage_of_a_judge, pytest.approx((0.75, 0.75 - HALF, 0.75 + HALF))),
        (lambda: (GROUPED.metadata_names, [line[:27] for line in GROUPED.lines()]),
         (("system",), ["Scores are shifted by syste"])),
        # Benjamini and Yekutieli: k·.05 / (3·(1 + 1/2 + 1/3)) is .0091, .0182, .0273.
        (lambda: alternative_annotator._rejected([0.02, 0.009, 0.03]).tolist(), [False, True, False]),
        (lambda: alternative_annotator._rejected([0.02, 0.001, 0.027]).tolist(), [True, True, True]),
        (lambda: change_test(SLOW_RISE, np.arange(6), 1e-9).log_e, pytest.approx(log_e(SLOW_RISE, 6))),
        (lambda: [change_test(SLOW_RISE, np.arange(6), level).start for level in (1e-9, 0.97)], [1, 1]),
        (panel_means, [pytest.approx(0.3), pytest.approx(0.6), pytest.approx(0.45)]),  # without a score: the mean of others
        (lambda: method_widths([], []), {}),
        (lambda: [(each.tested is None, each.leaves_open) for each in map(measured, (0.8, 0.3)) if each],
         [(False, False), (True, False)]),
        # A call of either side is as sure as the likelier side.
        (lambda: [Selection(0.9, 2.0, None, [SelectiveTest(0.8, 0.3, 30, 0.97, 0.9, 30)]).agreement((1, 2), (1 - p, p))
                  for p in (0.1, 0.3, 0.7, 0.9)], [0.9, 0.0, 0.0, 0.9]),
        (scores_of_two_assignments, True),
        (lambda: compared(ridge=1.2, mixed=0.9, constant=1.0).worse_than_constant, {"ridge": (1.2, 1.0)}),
        (lambda: compared(ridge=1.2, mixed=0.9).worse_than_constant, {}),
        (lambda: compared(ridge=1.2).summary(), {"question": "main", "ratings": 0, "evaluators": 1, "best": "ridge"}),
        (lambda: compared().summary()["best"], None),
        (lambda: [compared().to_json()[name] for name in ("question", "ratings", "repeats", "folds")], ["main", 0, 1, 5]),
        (lambda: bias()[:2], bias()[2:]),
        (lambda: compare_systems(SimpleNamespace(system=["a"], scale=SimpleNamespace(kind="nominal"))).reason,
         "the values have no order, so systems have no means"),
        (lambda: table_pairs._names([None, 3, "b"], [1, 0]).tolist(), ["3", None]),
        (lambda: "'mixed'" in refusal_of_a_name(), True),
        (lambda: compared(ridge=1.2, mixed=1.1)["mixed"].values, {"log_loss": 1.1}),
        (lambda: table_pairs._figure("Cohen's κ", Pairs(np.zeros(12), np.ones(12), np.arange(12).astype(object))),
         (Estimate(), "all 12 preferences of people are B, and all of the judge are equal")),
        (pair_counts, [("a", 7), ("b", 10), ("c", 3)]),
        (lambda: list(PairFigures(4, Estimate(), Estimate(), Estimate(), (0.1, 0.2), (), {"x": ""}).to_json()),
         ["swapped", "same_position", "first_twice", "same_version", "ties", "strengths"]),
        (lambda: [best_for_known(*names) for names in (("near", "own", "far"), ("own", "far", "near"), ("own",))],
         [("near", pytest.approx(0.3), pytest.approx(1.0))] * 2 + [None]),
        (lambda: [diagram_ends() == diagram_ends(seed) for seed in (0, 1)], [True, False]),
        # A point is 1 on 1 to 5, also between whole numbers; a tenth of a scale with many labels; else the typical step.
        (lambda: [point([1, 2, 2.5, 3, 5], [1, 5]), point(list(range(0, 100, 5)), [0, 100]), point([0, 1], [0, 1]),
                  point([0, 25, 50, 100], [0, 100]), point([0, 0.5, 1], [0, 1])], [1, 10, 0.1, 25, 0.5]),
        # One of twelve rows differs, of 24 answers with 11 ones: 1 - 23·1 / (11·13)
        (lambda: alpha_of(several_runs(), several_runs().answer).value,  # type: ignore[arg-type]
         pytest.approx(1 - 23 / 143)),
        # The variance of 0 and 2 is 2, the mean of the squares of their errors (16 + 4) / 2.
        (noise_of_one_item, Estimate(0.2)),
        (lambda: [automation._percent(share) for share in (0.0, 0.004, 0.05, 0.5, 0.996, 1.0)],
         ["0%", "0.4%", "5.0%", "50%", "99.6%", "100%"]),
        (lambda: [automation._fewest(error) for error in (0.05, 0.1, 0.2)], [59, 29, 14]),  # smallest n with (1 - error)^n ≤ .05
    ],
)  # fmt: skip
def test_figures_are_those_of_formulas(found: Callable[[], object], expected: object) -> None:
    assert found() == expected

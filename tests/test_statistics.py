"""Standard errors clustered by group, and intervals of charts from sums by cluster."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, t, ttest_1samp, ttest_ind

from accord.statistics import (
    MIN_CLUSTERS,
    CenteredPart,
    Clusters,
    LabeledSystem,
    clustered_mean,
    estimate_systems,
    fold_of,
    group_means,
    grouped_folds,
    mean_on_scale,
    p_value,
    quantiles,
    random_label_p,
    reach,
    slope,
)
from accord.statistics.agreement import ranges
from accord.statistics.chance_corrected import fleiss_kappa, mean_kappa, no_fleiss, pairwise_kappas, two_valued_alpha
from accord.statistics.corrected_means import estimate_system, missing_interval
from accord.statistics.efficient_means import on_scale
from accord.statistics.group_bias import adjusted_difference, bias_difference, bias_slope, group_biases, known_groups
from accord.statistics.jackknife import jackknife_of
from accord.statistics.label_plans import DifferencePlan, difference_plan, labels_for
from accord.statistics.resampling import mean_over
from accord.statistics.scale_intervals import clustered_quantile
from accord.statistics.stratified_means import stratified_means


def test_clustered_mean_is_the_t_test_with_one_row_per_group() -> None:
    values = np.random.default_rng(0).normal(0.4, 1.0, 30)
    found, expected = clustered_mean(values, np.arange(30)), ttest_1samp(values, 0.0)
    low, high = expected.confidence_interval(0.95)
    interval = found.interval()
    assert (found.mean, found.error, found.groups, found.n) == pytest.approx(
        (values.mean(), values.std(ddof=1) / np.sqrt(30), 30, 30)
    )
    assert (found.p, interval.low, interval.high) == pytest.approx((expected.pvalue, low, high))


@given(st.lists(st.tuples(st.floats(-100, 100), st.integers(0, 5)), min_size=2, max_size=40))
@settings(max_examples=60)
def test_clustered_mean_follows_its_formula_and_ignores_order_and_names(rows: list[tuple[float, int]]) -> None:
    values, group = np.array([value for value, _ in rows]), np.array([place for _, place in rows])
    found = clustered_mean(values, group)
    sums = np.array([(values[group == each] - values.mean()).sum() for each in set(group)])
    count = len(sums)
    expected = np.sqrt(count / (count - 1) * (sums**2).sum()) / len(values) if count > 1 else np.inf
    assert found.error == pytest.approx(expected, abs=1e-9)
    named = clustered_mean(values[::-1], np.array([f"g{each}" for each in group[::-1]], dtype=object))
    assert (named.mean, named.error) == pytest.approx((found.mean, found.error), abs=1e-9)
    assert 0.0 <= found.p <= 1.0 and found.interval().value == found.mean


@pytest.mark.attack
@pytest.mark.parametrize(("values", "group", "p", "is_near"), [
    ([1.0, 2.0, 3.0], ["a", "a", "a"], 1.0, False),
    ([-1.0], ["a"], 1.0, True),
    ([2.0, 2.0], ["a", "b"], 1.0, False),
    ([0.0, 0.0], ["a", "b"], 1.0, True),
])  # fmt: skip
def test_a_mean_without_an_error_is_never_significant(
    values: list[float], group: list[str], p: float, is_near: bool
) -> None:
    found = clustered_mean(values, group)
    assert (found.p, found.is_within_error) == (p, is_near)
    assert (found.interval().low is None) == (len(set(group)) < 2)


def test_clustered_mean_refuses_no_values() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        clustered_mean([], [])


def test_a_sum_of_one_part_is_a_clustered_mean() -> None:
    values = np.random.default_rng(1).normal(0.3, 1.0, 25)
    part = CenteredPart((values - values.mean()) / 25, np.arange(25).astype(str))
    found, half = clustered_mean(values, np.arange(25)), reach([part])
    assert found.p == pytest.approx(p_value(values.mean(), [part]))
    assert found.interval().high == pytest.approx(values.mean() + half)


# --- intervals of charts ----------------------------------------------------------------------------------------------


def test_intervals_of_group_means_are_over_clusters() -> None:
    rng, inside, rounds = np.random.default_rng(0), 0, 200
    conversation = np.repeat(np.arange(80), 3)
    group = (conversation >= 40).astype(np.intp)
    for _ in range(rounds):
        value = rng.normal(size=80)[conversation] + rng.normal(scale=0.3, size=240) + group
        means = group_means(Clusters.from_numbers(conversation), group, value, 2)
        assert [each.value for each in means] == pytest.approx([value[:120].mean(), value[120:].mean()])
        inside += sum((each.low or 0) <= truth <= (each.high or 0) for each, truth in zip(means, (0, 1), strict=True))
    assert 0.86 * 2 * rounds <= inside <= 0.985 * 2 * rounds  # independent rows would give about 0.7


@pytest.mark.parametrize("names", [[f"c{n:02d}" for n in range(30)], list(range(30))])
def test_slopes_and_quantiles_are_those_of_all_rows(names: list[str] | list[int]) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=90)
    y = 2 * x + rng.normal(scale=0.1, size=90)
    each = np.repeat(np.array(names), 3)
    clusters = Clusters(each) if isinstance(names[0], str) else Clusters.from_numbers(each)
    rise = slope(clusters, x, y)
    assert rise.value == pytest.approx(np.polyfit(x, y, 1)[0]) and (rise.low or 0) < 2 < (rise.high or 0)
    found = quantiles(clusters, y, (0.1, 0.5), float(y.min()), float(y.max()))
    assert [each.value for each in found] == pytest.approx(np.quantile(y, (0.1, 0.5)).tolist())
    assert all((each.low or 9) <= (each.value or 0) <= (each.high or -9) for each in found)


@pytest.mark.attack
def test_few_clusters_have_no_interval_whatever_their_numbers() -> None:
    x, y, number = np.arange(8.0), np.arange(8.0) ** 2, np.array([0, 0, 7, 7, 90, 90, 91, 91])
    clusters = Clusters.from_numbers(number)
    found = [slope(clusters, x, y), *quantiles(clusters, y, (0.5,), 0, 64),
             *group_means(clusters, np.zeros(8, dtype=np.intp), y, 2)]  # fmt: skip
    assert len(clusters) == MIN_CLUSTERS - 1 and [each.low for each in found] == [None] * 4
    assert found[-1].value is None, "a group without rows has no mean"
    none = np.zeros(0, dtype=np.intp)
    assert group_means(Clusters.from_numbers(none), none, np.zeros(0), 1)[0].value is None


# --- figures known from formulas or by hand ---------------------------------------------------------------------------

LINE = np.arange(6.0)
SIX = np.array(["a", "a", "b", "b", "c", "c"])
FLEISS = np.array([
    [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
])  # fmt: skip
EQUAL = ("s", np.array([0.0, 1.0] * 5), np.array([0.0, 1.0] * 5), np.full(100, 0.5))
FOUR_STRATA = LabeledSystem(
    "s", np.array([0.0, 0, 0, 1, 1, 1, 1, 0]), np.repeat([1.0, 2.0], 4), np.repeat([1.0, 2.0, 3.0, 4.0], [4, 4, 8, 8])
)
LABELS_ONLY = LabeledSystem("s", np.array([1.0, 2, 4]), np.array([1.0, 2, 3]), np.zeros(0))


def _blocks(groups: int) -> tuple[int, ...]:
    """Return the shape of the weights of the groups in a jackknife."""
    shapes: list[tuple[int, ...]] = []

    def of(kept: np.ndarray) -> np.ndarray:
        shapes.append(kept.shape)
        return kept.mean(axis=1)

    jackknife_of(of, groups, groups, 0.5)
    return shapes[0]


def _shuffled(names: str) -> list[str]:
    found = list(names)
    random.Random(0).shuffle(found)
    return found


def _bias_of_first(first: np.ndarray, second: np.ndarray) -> tuple[float | None, ...]:
    error = np.concatenate([first, second])
    names, known = np.arange(len(error)).astype(str), np.ones(len(error), dtype=bool)
    found, p = bias_difference(error, names, known, np.arange(len(error)) < len(first))
    return found.value, found.low, found.high, p


def _welch(first: list[float], second: list[float]) -> object:
    """Return the difference of two means with Welch's interval and p."""
    test = ttest_ind(first, second, equal_var=False)
    return pytest.approx((np.mean(first) - np.mean(second), *test.confidence_interval(), test.pvalue))


def _plan(asked: float) -> DifferencePlan:
    first, second = (
        estimate_systems([LabeledSystem(name, said, said * 0, np.zeros(0))])[0]
        for name, said in (("a", np.array([1.0, 2, 3, 4, 5])), ("b", np.array([2.0, 2, 3, 3, 5])))
    )
    plan = difference_plan(first, second, asked)
    assert plan is not None
    return plan


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # Four labels of four equal scores, the other score without a label: 2 of the 70 choices of four rows are as far.
        (lambda: random_label_p(LabeledSystem("s", np.ones(4), np.ones(4), np.zeros(4))), pytest.approx(2 / 70, abs=0.01)),
        (lambda: missing_interval(LabeledSystem("s", LINE, LINE, LINE, ["a", "b"] * 3)), None),
        # Labels equal to scores, which all have the weight 1, leave no variance, and so no interval within the scale.
        (lambda: [estimate_system(*EQUAL).low, on_scale(estimate_system(*EQUAL), LabeledSystem(*EQUAL), (0, 1), True).width,
                  on_scale(estimate_system(*EQUAL), LabeledSystem(*EQUAL), (0, 1), True).high], [0.5, None, None]),
        # A quarter of the rows has the mean label 1/4, the others have 3/4: strata without labels join their neighbors.
        (lambda: stratified_means([FOUR_STRATA])[0].mean, pytest.approx(0.25 * 0.25 + 0.75 * 0.75)),
        (lambda: stratified_means([LABELS_ONLY])[0].trust, 0.0),
        (lambda: mean_on_scale([2.0, 4.0], ["a", "b"], (1.0, 5.0), False).low is None, False),
        (lambda: clustered_quantile(10, 9), pytest.approx(norm.ppf(0.975))),
        (lambda: clustered_quantile(10, 4), pytest.approx(norm.ppf(0.975) * t.ppf(0.975, 4) / t.ppf(0.975, 9))),
        (lambda: (_blocks(150), _blocks(200), _blocks(201)), ((150, 150), (200, 200), (200, 201))),
        (lambda: labels_for(0.1, 100, 0.02, 0.005, 0.03), pytest.approx((400, 300))),
        (lambda: labels_for(0.1, 100, 0.02, 0.02, 0.03)[0], np.inf),
        (lambda: DifferencePlan("a", "b", 0.1, 10, 0.2, 30, 20).fewest, 20),
        (lambda: DifferencePlan("a", "b", 0.1, 10, 0.2, None, 20).to_json()["fewest"], 20),
        # 10·(2.5/5 + 1.5/5)·2.8016² = 62.8 labels
        (lambda: (_plan(1.0).needed_alone, _plan(1.0).labels), (63, 10)),
        (lambda: fleiss_kappa(FLEISS), pytest.approx(0.210, abs=5e-4)),  # Fleiss (1971), as in Wikipedia's example
        (lambda: no_fleiss(FLEISS[:0]), "no item has answers"),
        (lambda: mean_kappa(np.array([[1.0, np.nan], [np.nan, 0.0]])), None),
        # Three shared items: (2/3 - 4/9) / (1 - 4/9)
        (lambda: pairwise_kappas(np.array([[1.0, 1], [0, 0], [1, 0], [np.nan, 1]])), [(0, 1, 3, pytest.approx(0.4))]),
        # 3 of 10 units both, 4 only the first, 1 only the second: 1 - 19·5 / (11·9)
        (lambda: two_valued_alpha(*np.array([[3.0], [7.0], [4.0], [10.0]]))[0], pytest.approx(1 - 95 / 99)),
        (lambda: mean_over(lambda each: each, [1.0, None]), None),
        (lambda: mean_over(lambda each: each, [1.0, 2.0]), 1.5),
        (lambda: known_groups(np.ones(3, dtype=bool), ["a", None, "b"])[0].tolist(), ["a", "", "b"]),
        (lambda: adjusted_difference(1 + 2 * LINE + 3 * (LINE > 3), LINE, LINE, SIX, LINE > 3)[::2],
         pytest.approx((3.0, 2.0))),
        (lambda: group_biases(np.repeat([0.5, -0.25], 10), np.arange(20).astype(object), ["a"] * 10 + ["b"] * 10)["b"][0],
         pytest.approx(-0.75)),
        (lambda: _bias_of_first(np.array([1.0, 3, 4, 8]), np.array([2.0, 2.5, 3, 1, 0])), _welch([1, 3, 4, 8], [2, 2.5, 3, 1, 0])),
        # The last row holds 11/12 of the spread of its x, so it alone would decide the slope.
        (lambda: bias_slope(LINE.repeat(2), np.arange(12).astype(object), np.arange(12) // 11), None),
        (lambda: bias_slope(2 * np.arange(12.0), np.arange(12).astype(object), np.arange(12.0))[0].value, pytest.approx(2.0)),
        # Ten options are their own ranges; of 0 to 10 the first four pairs and the last three options are ranges.
        (lambda: [ranges(np.arange(count)).tolist() for count in (10.0, 11.0)],
         [list(range(10)), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4]]),
        (lambda: fold_of("gfedcba"), {name: place % 5 for place, name in enumerate(_shuffled("abcdefg"))}),
        (lambda: {split.test for split in grouped_folds(["x", "y", "x"])}, {frozenset("x"), frozenset("y")}),
    ],
)  # fmt: skip
def test_figures_are_those_of_formulas(found: Callable[[], object], expected: object) -> None:
    assert found() == expected

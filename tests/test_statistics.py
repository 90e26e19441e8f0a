"""Standard errors clustered by group, and intervals of charts from sums by cluster."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from accord.statistics import (
    MIN_CLUSTERS,
    CenteredPart,
    Clusters,
    clustered_mean,
    group_means,
    p_value,
    quantiles,
    reach,
    slope,
)


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

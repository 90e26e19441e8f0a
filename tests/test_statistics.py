"""Standard errors clustered by group, and intervals of charts from sums by cluster."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from accord.statistics import CenteredPart, clustered_mean, p_value, reach


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

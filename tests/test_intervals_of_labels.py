"""Statistics of checks: known answers, and coverage of the intervals of few labels."""

from __future__ import annotations

import numpy as np
import pytest

from accord.statistics import (
    AC1,
    STATISTICS,
    TWO_VALUED,
    Clusters,
    LabeledSystem,
    Paired,
    bias_slope,
    efficient_means,
    group_bias_tests,
    jackknife,
    mean_differences,
    mean_on_scale,
    rogan_gladen,
    share_interval,
)
from accord.statistics.scale_intervals import wilson

BINARY = np.array([0.0, 1.0])


def pairs(both: int, first: int, second: int, neither: int) -> Paired:
    """Return the pairs of a table of two people: both yes, only the first, only the second, neither."""
    answer = np.repeat([1, 1, 0, 0], [both, first, second, neither])
    value = np.repeat([1.0, 0.0, 1.0, 0.0], [both, first, second, neither])
    return Paired(BINARY, answer.astype(np.intp), np.zeros((len(answer), 0)), value)


def test_gwets_ac1_is_that_of_the_paradox_of_kappa() -> None:
    """Gwet (2008): 118 common yes, 5 and 2 disagreements, no common no: κ is below 0, AC1 .94."""
    table = pairs(118, 5, 2, 0)
    kappa, ac1 = TWO_VALUED["kappa"](table), AC1(table)
    assert kappa == pytest.approx(-0.0234, abs=5e-5) and ac1 == pytest.approx(0.9408, abs=5e-5)


@pytest.mark.parametrize(
    ("events", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_shares_have_newcombes_intervals(events: int, n: int, low: float, high: float) -> None:
    """Table I of Newcombe (1998), method 3."""
    found = share_interval(np.arange(n) < events, np.arange(n))
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


def test_repeated_rows_of_a_group_do_not_narrow_an_interval() -> None:
    events = np.arange(40) < 12
    once, thrice = (
        share_interval(events, np.arange(40)),
        share_interval(np.repeat(events, 3), np.repeat(np.arange(40), 3)),
    )
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high), abs=0.006)
    assert share_interval([True, True], ["a", "a"]).low is None
    assert share_interval([], []).value is None


def test_mean_on_a_scale_stays_within_it() -> None:
    found = mean_on_scale([5.0] * 30 + [4.0], np.arange(31), (1.0, 5.0), False)
    assert found.low is not None and found.high is not None and found.low < found.value < found.high < 5
    assert mean_on_scale([5.0] * 30, np.arange(30), (1.0, 5.0), False).low is None
    assert wilson(0.5, 1e9, 1.96) == pytest.approx((0.5, 0.5), abs=1e-4)


def test_jackknife_of_a_mean_is_its_standard_error() -> None:
    value = np.array([0.0, 1.0, 2.0, 4.0, 8.0] * 6)
    paired = Paired(np.zeros(1), np.zeros(30, dtype=np.intp), np.zeros((30, 0)), value)
    found = jackknife(Clusters(np.arange(30).astype(str)), STATISTICS["mae"], paired, is_bounded=False)
    half = 1.959964 * value.std(ddof=1) / np.sqrt(30)
    assert (found.low, found.high) == pytest.approx((value.mean() - half, value.mean() + half), abs=1e-6)


def test_jackknife_of_many_groups_in_blocks_is_close_to_that_of_single_ones() -> None:
    rng = np.random.default_rng(0)
    answer = rng.integers(0, 5, 2000)
    value = np.clip(answer + rng.integers(-1, 2, 2000), 0, 4).astype(float)
    paired = Paired(np.arange(5.0), answer, np.zeros((2000, 0)), value)
    found = jackknife(Clusters(np.arange(2000).astype(str)), STATISTICS["pearson"], paired)
    z, half = np.arctanh(found.value), 1.96 / np.sqrt(2000)
    assert found.low == pytest.approx(np.tanh(z - half), abs=0.01)
    assert found.high == pytest.approx(np.tanh(z + half), abs=0.01)


def test_efficient_mean_weights_the_labels_of_each_score() -> None:
    """Twelve of 20 rows have score 1; people say yes to 3 of 4 of them, and to 1 of 4 of the others: .6·.75 + .4·.25."""
    said, scores = np.array([1.0, 1, 1, 0, 1, 0, 0, 0]), np.array([1.0, 1, 1, 1, 0, 0, 0, 0])
    given = LabeledSystem("s", said, scores, np.array([1.0] * 8 + [0.0] * 4))
    [found] = efficient_means([given], (0.0, 1.0), True)
    assert found.mean == pytest.approx(0.55) and found.label_mean == 0.5
    by_rates = rogan_gladen(given)
    assert not isinstance(by_rates, str) and by_rates.mean == pytest.approx((0.6 + 0.75 - 1) / 0.5)
    assert found.low is not None and found.label_low is not None


def test_error_rates_of_a_judge_at_chance_are_not_inverted() -> None:
    useless = LabeledSystem("s", np.array([1.0, 1, 0, 0] * 5), np.array([1.0, 0, 1, 0] * 5), np.ones(40))
    assert "no better than chance" in str(rogan_gladen(useless))
    alike = LabeledSystem("s", np.ones(20), np.array([1.0, 0] * 10), np.ones(40))
    assert "all 20 labels are equal" in str(rogan_gladen(alike))
    [found] = efficient_means([alike], (0.0, 1.0), True)
    assert found.reason is not None and found.low is None


@pytest.mark.parametrize(("share", "tpr", "tnr"), [(0.5, 0.9, 0.8), (0.1, 0.8, 0.95), (0.9, 0.95, 0.5)])
def test_efficient_intervals_of_two_values_hold_the_mean(share: float, tpr: float, tnr: float) -> None:
    rng = np.random.default_rng(0)
    inside, widths, alone = [], [], []
    for _ in range(400):
        truth = rng.random(600) < share
        scores = np.where(truth, rng.random(600) < tpr, rng.random(600) > tnr).astype(float)
        said = truth[:50].astype(float)
        if not 0 < said.sum() < 50:
            continue
        [found] = efficient_means([LabeledSystem("s", said, scores[:50], scores[50:])], (0.0, 1.0), True)
        inside.append(found.low <= share <= found.high)
        widths.append(found.high - found.low)
        alone.append(found.label_high - found.label_low)
    assert np.mean(inside) >= 0.935 and np.mean(widths) < np.mean(alone)


def test_equal_systems_differ_no_more_often_than_the_level() -> None:
    rng = np.random.default_rng(1)
    called = 0
    for _ in range(400):
        systems = []
        for name, bias in (("a", 0.1), ("b", 0.4)):  # the judge is biased for one of them
            truth = rng.random(200) < 0.6
            scores = np.where(truth, rng.random(200) < 0.95, rng.random(200) < bias).astype(float)
            systems.append(LabeledSystem(name, truth[:30].astype(float), scores[:30], scores[30:]))
        [difference] = mean_differences(efficient_means(systems, (0.0, 1.0), True))
        called += difference.p_holm is not None and difference.p_holm < 0.05
    assert called <= 0.08 * 400


def test_planted_slope_and_group_have_their_sizes() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=400)
    error, cluster = 0.3 * x + rng.normal(size=400), np.arange(400).astype(str).astype(object)
    found = bias_slope(error, cluster, x)
    assert found is not None and found[0].low < 0.3 < found[0].high and found[1] < 1e-4
    assert bias_slope(error, cluster, np.ones(400)) is None
    groups = ["a" if place < 100 else "b" for place in range(400)]
    tests = group_bias_tests(error + np.where(np.arange(400) < 100, 1.0, 0.0), cluster, groups)
    assert tests["a"][0].value == pytest.approx(-tests["b"][0].value) and tests["a"][1] < 1e-4
    assert tests["a"][0].low < 1 < tests["a"][0].high

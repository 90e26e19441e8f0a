"""Statistics with known answers, and their intervals and tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import fft, special, stats
from sklearn.metrics import cohen_kappa_score

from accord.edges import BadInput
from accord.statistics import (
    STATISTICS,
    TWO_VALUED,
    Clusters,
    MeanStatistic,
    Paired,
    bootstrap,
    bootstrap_all,
    fold_of,
    grouped_folds,
    holm,
    krippendorff_alpha,
    mean_smece,
    paired_test,
    smece,
    smece_estimates,
    within,
)
from accord.statistics.agreement import (
    lowest_rmse,
    smece_by_option,
    smece_of,
    summary,
)
from accord.statistics.chance_corrected import cohen_kappa
from accord.values import Estimate


def pairs(truth: list[int], value: list[float], probabilities: np.ndarray | None = None) -> Paired:
    options = np.array([1.0, 2.0, 3.0, 4.0])
    spread = np.full((len(truth), 4), 0.25) if probabilities is None else probabilities
    return Paired(options, np.array(truth) - 1, spread, np.array(value))


def drawn(n: int = 300, seed: int = 0, noise: float = 1.0) -> Paired:
    rng = np.random.default_rng(seed)
    answer = rng.integers(4, size=n)
    logits = -0.5 * (np.arange(4) - (answer + rng.normal(scale=noise, size=n))[:, None]) ** 2
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    options = np.arange(1.0, 5.0)
    return Paired(options, answer, probabilities, probabilities @ options)


def test_statistics_match_small_cases() -> None:
    found = summary(pairs([1, 2, 4], [2, 2, 2]))
    assert found["rmse"] == pytest.approx(np.sqrt(5 / 3))
    assert found["mae"] == pytest.approx(1.0)
    assert found["within_one"] == pytest.approx(2 / 3)
    assert found["accuracy"] == pytest.approx(1 / 3)
    assert found["log_loss"] == pytest.approx(np.log(4))
    assert found["pearson"] is None and found["kendall"] is None, "a constant correlates with nothing"


def test_statistics_match_libraries() -> None:
    paired = drawn()
    found = summary(paired)
    assert found["pearson"] == pytest.approx(stats.pearsonr(paired.truth, paired.value)[0])
    assert found["spearman"] == pytest.approx(stats.spearmanr(paired.truth, paired.value)[0])
    assert found["kendall"] == pytest.approx(stats.kendalltau(paired.truth, paired.value)[0])
    assert found["weighted_kappa"] == pytest.approx(
        cohen_kappa_score(paired.answer, paired.decided, weights="quadratic", labels=range(4))
    )


def test_undefined_statistics_are_none() -> None:
    empty = pairs([], [])
    assert set(summary(empty).values()) == {None}
    certain = np.eye(4)[[0, 0]]
    assert summary(pairs([1, 2], [1, 1], certain))["log_loss"] is None


def test_alpha_matches_krippendorffs_example() -> None:
    # Krippendorff (2011), table of four observers and twelve units: nominal α .743, interval α .849.
    nan = None
    table = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, nan, nan, nan],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, nan, 3],
        [nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, nan],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, nan],
    ]
    units = [{str(i): float(row[u]) for i, row in enumerate(table) if row[u] is not None} for u in range(12)]
    assert krippendorff_alpha(units, "nominal") == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(units, "interval") == pytest.approx(0.849, abs=5e-4)
    assert krippendorff_alpha(units, "ordinal") == pytest.approx(0.815, abs=5e-4)
    assert krippendorff_alpha([{"a": 1.0, "b": 1.0}]) is None


def test_smece_of_calibrated_and_of_shifted_probabilities() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.3, 0.7, size=20_000)
    happened = rng.random(p.size) < p
    assert smece(p, happened) == pytest.approx(0.0, abs=0.02)
    # A constant shift of .2 is a calibration error of .2 at any bandwidth.
    assert smece(p + 0.2, happened) == pytest.approx(0.2, abs=0.02)
    assert smece(np.array([]), np.array([], dtype=bool)) is None


@pytest.mark.parametrize(("rows", "shift"), [(60, 0.0), (600, 0.0), (600, 0.1), (600, -0.3), (6000, 0.02)])
def test_smece_matches_an_exhaustive_search(rows: int, shift: float) -> None:
    rng = np.random.default_rng(rows)
    p = np.clip(rng.normal(0.4, 0.2, rows), 0, 1)
    happened = rng.random(rows) < p + shift
    # Residuals shared between the two nearest of a thousand bins, smoothed by a Gaussian that is reflected at the ends.
    left = np.minimum((p * 999).astype(int), 998)
    mass = np.zeros(1000)
    np.add.at(mass, left, (happened - p) * (1 - p * 999 + left))
    np.add.at(mass, left + 1, (happened - p) * (p * 999 - left))
    waves = fft.dct(mass / rows)
    widths = np.linspace(0.001, 1, 1025)
    all_of_them = [np.abs(fft.idct(waves * np.exp(-0.5 * (np.pi * np.arange(1000) * w) ** 2))).sum() for w in widths]
    assert smece(p, happened) == pytest.approx(all_of_them[int(np.argmax(all_of_them <= widths))], rel=1e-9)


def planted_error(error: float, seed: int) -> tuple[Paired, Clusters]:
    """Probabilities that are too low by `error`, and three answers with dependent noise in each of 100 conversations."""
    rng = np.random.default_rng(seed)
    conversation = np.repeat(np.arange(100), 3)
    p = rng.uniform(0.2, 0.8, size=300)
    noise = special.ndtr(np.sqrt(0.3) * rng.normal(size=100)[conversation] + np.sqrt(0.7) * rng.normal(size=300))
    shares = np.column_stack([1 - p, p])
    paired = Paired(np.array([0.0, 1.0]), (noise < p + error).astype(int), shares, p)
    return paired, Clusters([f"c{each}" for each in conversation])


@pytest.mark.parametrize("error", [0.0, 0.1])
def test_smece_interval_contains_the_true_error(error: float) -> None:
    found = [mean_smece(*planted_error(error, seed)) for seed in range(100)]
    assert all(one.low is not None and one.high is not None and one.low < one.high < 0.35 for one in found)
    assert sum(one.low <= error <= one.high for one in found) >= 80  # type: ignore[operator]
    if not error:
        assert all(one.value is not None and one.value > 0 for one in found), "noise raises the value"


def test_smece_intervals_of_options_and_their_mean() -> None:
    paired, clusters = planted_error(0.2, 1)
    both, mean = smece_estimates(paired, clusters), mean_smece(paired, clusters)
    assert [one.value for one in both] == pytest.approx(smece_by_option(paired))
    assert mean.value == pytest.approx(np.mean([one.value for one in both]))  # type: ignore[type-var]
    assert both[1].low == pytest.approx(mean.low) and both[1].high == pytest.approx(mean.high)
    assert 0 < mean.low < 0.2 < mean.high  # type: ignore[operator]


def test_smece_interval_of_few_rows() -> None:
    paired, _ = planted_error(0.0, 0)
    [_, alone] = smece_estimates(paired, Clusters(["c"] * 300))
    assert alone.value is not None and alone.low is None and alone.high is None
    [_, none] = smece_estimates(paired.take(np.arange(0)), Clusters([]))
    assert none == Estimate()
    exact = Paired(np.array([0.0, 1.0]), np.array([0, 1]), np.full((2, 2), 0.5), np.full(2, 0.5))
    [_, tiny] = smece_estimates(exact, Clusters(["a", "b"]))  # the residuals cancel out
    assert tiny.value == pytest.approx(0) and tiny.low == 0 and 0 < tiny.high <= 1  # type: ignore[operator]


def test_lowest_rmse_is_reached_by_regression_on_the_truth() -> None:
    paired = drawn(2000)
    r = STATISTICS["pearson"](paired)
    assert r is not None
    slope, intercept = np.polyfit(paired.value, paired.truth, 1)
    best = np.sqrt(np.mean((paired.truth - slope * paired.value - intercept) ** 2))
    assert best == pytest.approx(lowest_rmse(paired.truth, r))


# --- resampling ---------------------------------------------------------------------------------------------------


def test_bootstrap_of_a_mean_matches_its_standard_error() -> None:
    paired = drawn(2000)
    clusters = Clusters([f"c{i}" for i in range(2000)])
    found = bootstrap(clusters, STATISTICS["mae"], [paired], draws=4000)
    errors = np.abs(paired.truth - paired.value)
    half = 1.96 * errors.std() / np.sqrt(errors.size)
    assert found.low == pytest.approx(errors.mean() - half, rel=0.02)
    assert found.high == pytest.approx(errors.mean() + half, rel=0.02)


def test_bootstrap_resamples_whole_conversations() -> None:
    paired = drawn(400)
    alone = Clusters([f"c{i}" for i in range(400)])
    copied = paired.take(np.repeat(np.arange(400), 5))
    together = Clusters([f"c{i}" for i in np.repeat(np.arange(400), 5)])
    for name in ("rmse", "kendall"):
        once = bootstrap(alone, STATISTICS[name], [paired])
        five = bootstrap(together, STATISTICS[name], [copied])
        assert five.low == pytest.approx(once.low, abs=1e-2), "copies of a rating add no evidence"
        assert five.high == pytest.approx(once.high, abs=1e-2)


def test_intervals_have_their_nominal_coverage() -> None:
    # P(|y - ŷ| ≤ 1) of this generator, from one large draw.
    truth = summary(drawn(200_000, seed=99))["within_one"]
    assert truth is not None
    clusters = Clusters([f"c{i}" for i in range(200)])
    hits = 0
    for seed in range(200):
        found = bootstrap(clusters, STATISTICS["within_one"], [drawn(200, seed)], draws=400, seed=seed)
        assert found.low is not None and found.high is not None
        hits += found.low <= truth <= found.high
    assert 180 <= hits <= 198


def test_paired_test_detects_a_difference() -> None:
    good, bad = drawn(300, noise=0.5), drawn(300, noise=3.0)
    clusters = Clusters([f"c{i // 3}" for i in range(300)])
    rmse = STATISTICS["rmse"]
    assert isinstance(rmse, MeanStatistic)
    found = paired_test(clusters, rmse, [good], [bad])
    assert found is not None and found.p < 0.01 and found.high is not None and found.high < 0
    same = paired_test(clusters, rmse, [good], [good])
    assert same is not None and same.p == 1.0 and same.difference == 0.0


def test_p_values_are_uniform_under_the_null() -> None:
    rmse = STATISTICS["rmse"]
    assert isinstance(rmse, MeanStatistic)
    small = 0
    for seed in range(200):
        base = drawn(60, seed)
        rng = np.random.default_rng(seed)
        a, b = (
            Paired(base.options, base.answer, base.probabilities, base.value + rng.normal(size=60)) for _ in range(2)
        )
        found = paired_test(Clusters([f"c{i}" for i in range(60)]), rmse, [a], [b], draws=400, seed=seed)
        assert found is not None
        small += found.p <= 0.1
    assert 8 <= small <= 34


def test_holm_corrects_p_values() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == [] and holm([0.9, 0.8]) == [1.0, 1.0]


def test_folds_hold_each_group_once_and_follow_from_the_seed() -> None:
    groups = [f"c{i // 3}" for i in range(60)]
    splits = list(grouped_folds(groups, 5, seed=3))
    assert sorted(name for split in splits for name in split.test) == sorted(set(groups))
    assert all(not split.train & split.test for split in splits)
    assert fold_of(reversed(groups), 5, 3) == fold_of(groups, 5, 3) != fold_of(groups, 5, 4)
    few = list(grouped_folds(["a", "b", "a"], 5))
    assert len(few) == 2 and {name for split in few for name in split.test} == {"a", "b"}
    with pytest.raises(BadInput, match="the ratings belong to 1 group of conversations"):
        list(grouped_folds(["a", "a"], 5))


# --- batched draws ------------------------------------------------------------------------------------------------


def one_draw_after_the_other(
    clusters: Clusters, of: Callable[[Paired], float], paired: Paired, draws: int, seed: int
) -> np.ndarray:
    counts = np.random.default_rng(seed).multinomial(len(clusters), np.full(len(clusters), 1 / len(clusters)), draws)
    return np.array([of(paired.take(clusters.rows(count))) for count in counts])


def alpha_of(paired: Paired) -> float:
    alpha = krippendorff_alpha(
        [{"a": a, "b": b} for a, b in zip(paired.truth, paired.options[paired.decided], strict=True)]
    )
    assert alpha is not None
    return alpha


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("spearman", lambda p: stats.spearmanr(p.truth, p.value).statistic),
        ("kendall", lambda p: stats.kendalltau(p.truth, p.value).statistic),
        ("alpha", alpha_of),
        ("rmse", lambda p: np.sqrt(np.mean((p.truth - p.value) ** 2))),
    ],
)
@pytest.mark.parametrize("digits", [0, 6])
def test_batched_draws_match_single_draws(name: str, of: Callable[[Paired], float], digits: int) -> None:
    paired = drawn(150, seed=4)
    tied = Paired(paired.options, paired.answer, paired.probabilities, np.round(paired.value, digits))
    clusters = Clusters([f"c{i % 40}" for i in range(150)])
    low, high = np.quantile(one_draw_after_the_other(clusters, of, tied, 60, 7), [0.025, 0.975])
    found = bootstrap(clusters, STATISTICS[name], [tied], draws=60, seed=7)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-10)
    assert STATISTICS[name](tied) == pytest.approx(of(tied), rel=1e-10)


def test_smece_of_a_draw_matches_its_rows() -> None:
    paired = drawn(120, seed=2)
    clusters = Clusters([f"c{i // 3}" for i in range(120)])
    one = smece_of(2)
    loop = one_draw_after_the_other(
        clusters, lambda p: smece(p.probabilities[:, 2], p.answer == 2) or 0.0, paired, 40, 1
    )
    found = bootstrap(clusters, one, [paired], draws=40, seed=1)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(loop, [0.025, 0.975])), rel=1e-9)


def test_several_statistics_share_their_draws() -> None:
    paired = drawn(90)
    clusters = Clusters([f"c{i // 2}" for i in range(90)])
    together = bootstrap_all(clusters, STATISTICS, [paired], draws=300, seed=5)
    for name, statistic in STATISTICS.items():
        alone = bootstrap(Clusters(clusters.names[clusters.of_row]), statistic, [paired], draws=300, seed=5)
        if name in {"coverage", "width"}:
            assert together[name].low is None, "predictions without a band cover nothing"
        else:
            assert (together[name].low, together[name].high) == pytest.approx((alone.low, alone.high), rel=1e-12)


# --- within annotators --------------------------------------------------------------------------------------------


def test_annotator_means_give_no_agreement_within_annotators() -> None:
    who = np.repeat(np.array(["strict", "fair", "kind"], dtype=object), 200)
    level = np.repeat([0, 1, 2], 200)
    clusters = Clusters([f"c{i % 200}" for i in range(600)])
    held = dict.fromkeys(("pearson", "kendall"), 0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        value = 1.5 + level + 0.01 * rng.normal(size=600)  # depends on the annotator only
        habits = Paired(np.arange(1.0, 5.0), level + rng.integers(2, size=600), np.full((600, 4), 0.25), value)
        pooled = STATISTICS["pearson"](habits)
        assert pooled is not None and pooled > 0.8
        for name, statistic in within(who).items():
            interval = bootstrap(clusters, statistic, [habits], draws=100)
            assert interval.low is not None and interval.high is not None
            held[name] += interval.low <= 0 <= interval.high
    assert min(held.values()) >= 15, "95 % intervals hold the truth, 0, nearly always"


def test_agreement_within_groups_matches_small_cases() -> None:
    # Ratings and predictions: a 1 2 3 and 10 20 15, b 2 4 and 5 1.
    who = np.array(["a", "a", "a", "b", "b"], dtype=object)
    paired = pairs([1, 2, 3, 2, 4], [10, 20, 15, 5, 1])
    y, v = np.array([-1, 0, 1, -1, 1.0]), np.array([-5, 5, 0, 2, -2.0])
    found = {name: each(paired) for name, each in within(who).items()}
    assert found["pearson"] == pytest.approx((y @ v) / np.sqrt((y @ y) * (v @ v)))
    # a: two pairs in order, one against it; b: one against it.
    assert found["kendall"] == pytest.approx((2 - 1 - 1) / 4)
    one_each = within(np.array(list("abcde"), dtype=object))
    assert {each(paired) for each in one_each.values()} == {None}, "no annotator rated two targets"


def test_two_option_statistics_match_small_cases() -> None:
    answer = np.array([1, 1, 1, 0, 0, 0, 0, 0])
    called = np.array([1, 1, 0, 0, 0, 0, 0, 1])
    paired = Paired(np.array([0.0, 1.0]), answer, np.full((8, 2), 0.5), np.where(called, 0.8, 0.3))
    found = {name: each(paired) for name, each in TWO_VALUED.items()}
    assert found["tpr"] == pytest.approx(2 / 3) and found["tnr"] == pytest.approx(4 / 5)
    assert found["base_rate"] == pytest.approx(3 / 8)
    assert found["kappa"] == pytest.approx(cohen_kappa(answer.astype(float), called.astype(float)))
    nobody = paired.take(np.array([3, 4]))
    assert TWO_VALUED["tpr"](nobody) is None and TWO_VALUED["kappa"](nobody) is None

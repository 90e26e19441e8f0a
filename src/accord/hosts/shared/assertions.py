"""Assertions of tests: agreement with people, mean scores, and a comparison of two versions, each with its interval.

They work in any test or script. Under pytest, `@pytest.mark.accord(runs=5)` pools the conversations of several runs;
the runs of a conversation stay together in every interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec

import numpy as np

from accord.edges import AccordError, BadInput, count_of
from accord.hosts.shared.assertion_input import Scored, labeled, scored_conversations
from accord.hosts.shared.scores import HostScorer, Openable, open_scorer
from accord.hosts.shared.trials import PREFIX, PRESENT
from accord.results import told_apart
from accord.statistics import CONFIDENCE, LOWER_IS_BETTER, STATISTICS, Clusters, Paired, bootstrap, clustered_mean
from accord.values import Estimate, ScoreRow

P = ParamSpec("P")
Bound = Literal["lower", "estimate"]
METRICS = tuple(name for name in STATISTICS if name not in LOWER_IS_BETTER | {"coverage", "width"})
_SHOWN = 5
_scorers: dict[str, HostScorer] = {}


def _shown_at_the_test(assertion: Callable[P, None]) -> Callable[P, None]:
    """Leave frames of Accord out of the traceback of its errors, so that pytest shows the line of the test."""

    @wraps(assertion)
    def call(*arguments: P.args, **named: P.kwargs) -> None:
        __tracebackhide__ = True
        try:
            assertion(*arguments, **named)
        except AccordError as error:
            raise error.with_traceback(None) from None

    return call


@_shown_at_the_test
def assert_score(
    conversations: Any,
    mean_at_least: float,
    bound: Bound = "lower",
    evaluator: Openable | None = None,
    max_unscored: float = 0.0,
) -> None:
    """Assert that the mean score of conversations reaches a limit.

    Args:
        conversations: A file, a table, or a list of conversations, rows or lists of messages.
        mean_at_least: Limit, in units of the scale.
        bound: `lower`: the lower bound of the 95% interval over conversations must reach the limit; `estimate`: the
            mean itself.
        evaluator: Evaluator or project; by default pytest's setting `accord_evaluator`, or the nearest project.
        max_unscored: Largest allowed share of conversations without a score, 0 to 1.

    Raises:
        AssertionError: The limit is not reached, too many scores are missing, or there are too few conversations.
        BadInput: An argument is out of range or cannot be read.
    """
    __tracebackhide__ = True
    scorer = _scorer(evaluator)
    _check("mean_at_least", mean_at_least, *scorer.ends)
    if (given := _pooled(conversations)) is None:
        return
    scored = _present([each for part in given for each in scored_conversations(scorer, part)], max_unscored)
    rows = [each.row for each in scored]
    found = clustered_mean([row["value"] or 0.0 for row in rows], [row["conversation"] for row in rows]).interval()
    lowest = _first(scored, lambda each: each.row["value"] or 0.0)
    words = f"mean score on {scorer.name!r}", f"{_counted(rows)}; the lowest:"
    _finish(words, found, mean_at_least, bound, lowest, "read them; if their scores are right, improve the replies")


@_shown_at_the_test
def assert_agreement(
    conversations_or_labels: Any,
    at_least: float = 0.6,
    metric: str = "pearson",
    bound: Bound = "lower",
    evaluator: Openable | None = None,
    labels: Any = None,
    max_unscored: float = 0.0,
    include_training: bool = False,
) -> None:
    """Assert that an evaluator agrees with people on labeled conversations.

    Args:
        conversations_or_labels: Conversations as for `assert_score`, with labels in the same rows, in `labels` or in
            the project; or labels of conversations in the project.
        at_least: Limit of the metric.
        metric: A statistic of which more is better: `pearson`, `spearman`, `weighted_kappa`, `alpha`, `accuracy`, ...
        bound: As for `assert_score`.
        evaluator: As for `assert_score`.
        labels: File or table of labels.
        max_unscored: As for `assert_score`.
        include_training: True to count conversations that the evaluator learned from.

    Raises:
        AssertionError: As for `assert_score`.
        BadInput: An argument is out of range or cannot be read, or the labels are missing.
    """
    __tracebackhide__ = True
    if metric not in METRICS:
        raise BadInput(f"metric {metric!r}: at_least needs a statistic of which more is better: {', '.join(METRICS)}")
    _check("at_least", at_least, -1.0, 1.0)
    scorer = _scorer(evaluator)
    if (given := _pooled((conversations_or_labels, labels))) is None:
        return
    pairs = [pair for part in given for pair in labeled(scorer, *part)]
    present = _present(pairs, max_unscored)
    tested = [each for each in present if include_training or not each.row["in_training"]]
    if not tested:
        count = len({each.row["conversation"] for each in present})
        raise AssertionError(
            f"the evaluator learned from all {count_of(count, 'rated conversation')}, so that its scores show no "
            "agreement. Give conversations that it has not seen, or count these: include_training=True"
        )
    clusters = Clusters([each.row["conversation"] for each in tested])
    found = bootstrap(clusters, STATISTICS[metric], [_paired(scorer, tested)])
    far = _first(tested, lambda each: -abs((each.row["value"] or 0.0) - (each.rating or 0.0)))
    chats = count_of(len(clusters), "conversation")
    counted = f"{count_of(len(tested), 'rating')} of {chats}; farthest from people:"
    words = f"{metric} of {scorer.evaluator.name!r} with people on {scorer.name!r}", counted
    _finish(words, found, at_least, bound, far, "read them; label more conversations, fit again, or lower at_least")


@_shown_at_the_test
def assert_not_worse(
    new: Any, old: Any, margin: float = 0.0, evaluator: Openable | None = None, max_unscored: float = 0.0
) -> None:
    """Assert that a new version is not worse than an old one on the same conversations: a paired test.

    The lower bound of the 95% interval of the mean difference, new minus old, must reach `-margin`. Conversations are
    paired by their ids; several runs of one are averaged.

    Args:
        new: Conversations with the new version, as for `assert_score`.
        old: Conversations with the old version, with the same ids.
        margin: Loss that does not count, in units of the scale, at least 0.
        evaluator: As for `assert_score`.
        max_unscored: As for `assert_score`, of each version.

    Raises:
        AssertionError: As for `assert_score`.
        BadInput: An argument is out of range or cannot be read, or no id is in both versions.
    """
    __tracebackhide__ = True
    scorer = _scorer(evaluator)
    _check("margin", margin, 0.0, scorer.ends[1] - scorer.ends[0])
    if (given := _pooled((new, old))) is None:
        return
    sides = [
        _present([each for part in given for each in scored_conversations(scorer, part[side])], max_unscored)
        for side in (0, 1)
    ]
    means = [_means(side) for side in sides]
    both = sorted(means[0].keys() & means[1].keys())
    if not both:
        raise BadInput("no id is in both versions, so that nothing can be paired; give a scenario the same id in both")
    differences = [means[0][name] - means[1][name] for name in both]
    found = clustered_mean(differences, both).interval()
    loss = dict(zip(both, differences, strict=True))
    worst = _first(
        [each for each in sides[0] if each.row["conversation"] in loss], lambda each: loss[each.row["conversation"]]
    )
    alone = len(means[0].keys() ^ means[1].keys())
    unpaired = f" ({alone} more in one version only)" if alone else ""
    words = (
        f"new minus old mean score on {scorer.name!r}",
        f"{count_of(len(both), 'paired conversation')}{unpaired}; most lost:",
    )
    _finish(words, found, 0.0 - margin, "lower", worst, "compare these with the old version, or give a larger margin")


def _paired(scorer: HostScorer, scored: Sequence[Scored]) -> Paired:
    """Return the scores paired with their ratings."""
    options = np.array(scorer.question.scale.numbers, dtype=float)
    ratings = np.array([each.rating for each in scored])
    answer = np.abs(ratings[:, None] - options).argmin(axis=1)
    shares = np.array([list((each.row["distribution"] or {}).values()) for each in scored])
    return Paired(options, answer, shares, np.array([each.row["value"] for each in scored], dtype=float))


# --- input ------------------------------------------------------------------------------------------------------------


def _scorer(evaluator: Openable | None) -> HostScorer:
    """Open an evaluator; paths and the default evaluator are opened only once in a run of pytest."""
    trial = PRESENT.get()
    if evaluator is None and trial is not None:
        config = trial.item.config
        evaluator = config.rootpath / (config.getini("accord_evaluator") or "")
    if not isinstance(evaluator, str | Path):
        return open_scorer(evaluator)
    key = str(Path(evaluator).resolve())
    if key not in _scorers:
        _scorers[key] = open_scorer(evaluator)
        if trial is not None:
            trial.item.config.add_cleanup(partial(_close, key))
    return _scorers[key]


def _close(key: str) -> None:
    if (project := _scorers.pop(key).project) is not None:
        project.close()


def _pooled(given: Any) -> list[Any] | None:
    """Return the input of an assertion from all runs of its test; None before the last run."""
    trial = PRESENT.get()
    return [given] if trial is None else trial.pooled(given)


def _check(name: str, value: float, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadInput(f"{name}={value!r}: give a number from {low:g} to {high:g}")


def _present(scored: Sequence[Scored], max_unscored: float) -> list[Scored]:
    """Return the conversations with a score.

    Raises:
        AssertionError: More than the allowed share has none, or fewer than two conversations have one.
    """
    __tracebackhide__ = True
    _check("max_unscored", max_unscored, 0.0, 1.0)
    missing = [each for each in scored if each.row["value"] is None]
    if len(missing) > max_unscored * len(scored):
        shown = "\n".join(map(str, missing[:_SHOWN]))
        raise AssertionError(
            f"{len(missing)} of {count_of(len(scored), 'conversation')} have no score, allowed: {max_unscored:.0%}.\n"
            f"{shown}\nTo do: repair them, or allow them with max_unscored"
        )
    present = [each for each in scored if each.row["value"] is not None]
    if len(found := {each.row["conversation"] for each in present}) < 2:
        raise AssertionError(f"an interval needs at least 2 conversations with a score, got {len(found)}; give more")
    return present


def _means(scored: Sequence[Scored]) -> Mapping[str, float]:
    """Return the mean score of each conversation over its runs."""
    values: dict[str, list[float]] = {}
    for each in scored:
        values.setdefault(each.row["conversation"], []).append(each.row["value"] or 0.0)
    return {name: float(np.mean(found)) for name, found in values.items()}


# --- result -----------------------------------------------------------------------------------------------------------


def _first(scored: Iterable[Scored], key: Callable[[Scored], float]) -> list[Scored]:
    """Return the scores that are shown, of distinct conversations, the smallest key first."""
    found: dict[str, Scored] = {}
    for each in sorted(scored, key=key):
        found.setdefault(each.row["conversation"], each)
    return list(found.values())[:_SHOWN]


def _counted(rows: Sequence[ScoreRow]) -> str:
    count = len({row["conversation"] for row in rows})
    return count_of(count, "conversation") + (f", {len(rows)} scores" if len(rows) != count else "")


def _finish(
    words: tuple[str, str], found: Estimate, limit: float, bound: Bound, shown: Sequence[Scored], advice: str
) -> None:
    """Add the value to the summary and the JUnit file, and raise an error if the limit is not reached."""
    __tracebackhide__ = True
    if bound not in ("lower", "estimate"):
        raise BadInput(f"bound={bound!r}: give 'lower' or 'estimate'")
    name, counted = words
    value = found.low if bound == "lower" else found.value
    required = f"{'lower bound' if bound == 'lower' else 'estimate'} at least {limit:g}"
    low, middle = ("" if each is None else told_apart(each, limit, ".3f")[0] for each in (found.low, found.value))
    interval = "no interval" if found.low is None else f"{CONFIDENCE:.0%} interval {low} to {found.high:.3f}"
    estimate = middle or "undefined"
    text = f"{estimate}, {interval}, required: {required}"
    if (trial := PRESENT.get()) is not None:
        trial.item.user_properties.append((f"{PREFIX}{name}", text))
    if value is None or value < limit:
        lines = "\n".join(map(str, shown))
        raise AssertionError(f"{name}: {text}\n{counted}\n{lines}\nTo do: {advice}")

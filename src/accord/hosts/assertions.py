"""Assertions of tests: agreement with people, mean scores, and a comparison of two versions, each with its interval.

They work in any test or script. Under pytest, `@pytest.mark.accord(runs=5)` pools the conversations of several runs;
the runs of a conversation stay together in every interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from accord.edges import BadInput, BadRow, count_of, one_line
from accord.formats import read, read_labels, sniff, source_of
from accord.hosts.pytest_plugin import PREFIX, PRESENT
from accord.hosts.scores import HostScorer, Openable, open_scorer
from accord.statistics import CONFIDENCE, LOWER_IS_BETTER, STATISTICS, Clusters, Paired, bootstrap, clustered_mean
from accord.values import Conversation, Estimate, Label, Rubric, Sample, ScoreRow, Target, Unscored

Bound = Literal["lower", "estimate"]
METRICS = tuple(name for name in STATISTICS if name not in LOWER_IS_BETTER | {"coverage", "width"})
_SHOWN, _WORDS = 5, 60
_scorers: dict[str, HostScorer] = {}


@dataclass(frozen=True)
class _Scored:
    """A score with the conversation's first words, and a rating for comparison if there is one."""

    row: ScoreRow
    words: str = ""
    rating: float | None = None

    def __str__(self) -> str:
        value, low, high = self.row["value"], self.row["low"], self.row["high"]
        score = (
            f"no score: {self.row['unscored']}" if value is None else f"{value:.2f} (80% interval {low:g} to {high:g})"
        )
        people = "" if self.rating is None else f", people {self.rating:g}"
        return f"  {one_line(self.row['conversation'], _WORDS)}: {score}{people}: {self.words}"


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
    scored = _present([each for part in given for each in _scored(scorer, part)], max_unscored)
    rows = [each.row for each in scored]
    found = clustered_mean([row["value"] or 0.0 for row in rows], [row["conversation"] for row in rows]).interval()
    lowest = _first(scored, lambda each: each.row["value"] or 0.0)
    words = f"mean score on {scorer.name!r}", f"{_counted(rows)}; the lowest:"
    _finish(words, found, mean_at_least, bound, lowest, "read them; if their scores are right, improve the replies")


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
        BadInput: An argument is out of range or cannot be read, or there are no labels.
    """
    __tracebackhide__ = True
    if metric not in METRICS:
        raise BadInput(f"metric {metric!r}: at_least needs a statistic of which more is better: {', '.join(METRICS)}")
    _check("at_least", at_least, -1.0, 1.0)
    scorer = _scorer(evaluator)
    if (given := _pooled((conversations_or_labels, labels))) is None:
        return
    pairs = [pair for part in given for pair in _labeled(scorer, *part)]
    present = _present(pairs, max_unscored)
    tested = [each for each in present if include_training or not each.row["in_training"]]
    if not tested:
        count = len({each.row["conversation"] for each in present})
        raise AssertionError(
            f"the evaluator learned from all {count_of(count, 'rated conversation')}, so that its scores show no "
            "agreement. Give conversations that it has not seen, or count these: include_training=True"
        )
    options = np.array(scorer.question.scale.numbers, dtype=float)
    ratings = np.array([each.rating for each in tested])
    answer = np.abs(ratings[:, None] - options).argmin(axis=1)
    shares = np.array([list((each.row["distribution"] or {}).values()) for each in tested])
    paired = Paired(options, answer, shares, np.array([each.row["value"] for each in tested], dtype=float))
    clusters = Clusters([each.row["conversation"] for each in tested])
    found = bootstrap(clusters, STATISTICS[metric], [paired])
    far = _first(tested, lambda each: -abs((each.row["value"] or 0.0) - (each.rating or 0.0)))
    chats = count_of(len(clusters), "conversation")
    counted = f"{count_of(len(tested), 'rating')} of {chats}; farthest from people:"
    words = f"{metric} of {scorer.evaluator.name!r} with people on {scorer.name!r}", counted
    _finish(words, found, at_least, bound, far, "read them; label more conversations, fit again, or lower at_least")


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
        _present([each for part in given for each in _scored(scorer, part[side])], max_unscored) for side in (0, 1)
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


# --- input ------------------------------------------------------------------------------------------------------------


def _scorer(evaluator: Openable | None) -> HostScorer:
    """Open an evaluator, those of paths and the default one only once in a run of pytest."""
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


def _samples(scorer: HostScorer, given: Any) -> list[tuple[Sample | Unscored, Sequence[Label]]]:
    """Return the conversations of an argument with the labels in their rows."""
    if not isinstance(given, list | tuple):
        return _samples_of_table(scorer, given)
    rows = [{"messages": each} if isinstance(each, list | tuple) else each for each in given]
    return [(scorer.sample(row, f"row-{place}"), ()) for place, row in enumerate(rows, 1)]


def _samples_of_table(scorer: HostScorer, given: Any) -> list[tuple[Sample | Unscored, Sequence[Label]]]:
    bad: list[BadInput] = []
    records = list(read(source_of(given), on_bad_row=bad.append))
    found: list[tuple[Sample | Unscored, Sequence[Label]]] = [
        (scorer.sample(record.conversation, record.conversation.id), record.labels) for record in records
    ]
    for error in bad:
        name = f"row-{error.line}" if isinstance(error, BadRow) else "row"
        found.append((scorer.unscored(Target(name), str(error)), ()))
    return found


def _scored(scorer: HostScorer, given: Any) -> list[_Scored]:
    samples = [sample for sample, _ in _samples(scorer, given)]
    return [_Scored(row, _first_words(sample)) for row, sample in zip(scorer.rows(samples), samples, strict=True)]


def _first_words(sample: Sample | Unscored) -> str:
    turns: Iterable[Any] = sample.conversation.turns if isinstance(sample, Sample) else ()
    text = next((turn.content for turn in turns if turn.role == "user"), "")
    return one_line(text[:_WORDS]) + ("…" if len(text) > _WORDS else "")


def _labeled(scorer: HostScorer, given: Any, labels: Any) -> list[_Scored]:
    """Return a score with each rating of the conversations."""
    question, project = scorer.question, scorer.project
    rubric = Rubric(name=question.id, main=question.id, questions=(question,)) if project is None else project.rubric
    is_table = not isinstance(given, list | tuple) or all(isinstance(each, Mapping) for each in given)
    rated: list[Label] = []
    chats: dict[str, Conversation] = {}
    if labels is None and is_table and sniff(source_of(given)).content == "labels":
        rated = list(read_labels(source_of(given), rubric))
        if project is None:
            raise BadInput("labels alone need the project with their conversations; name the project as evaluator")
        chats = {each.id: each for each in project.store.conversations({label.target.conversation for label in rated})}
    else:
        for sample, own in _samples(scorer, given):
            rated += own
            if isinstance(sample, Sample):
                chats[sample.conversation.id] = sample.conversation
        if labels is not None:
            rated += read_labels(source_of(labels), rubric)
        elif not rated and project is not None:
            rated += [label for label in project.rated(question.id) if label.target.conversation in chats]
    usable = [each for each in rated if each.question == question.id and each.value is not None]
    known = [each for each in usable if each.target.conversation in chats]
    if not known:
        raise BadInput(
            f"no labels on {question.id!r} for {count_of(len(chats), 'conversation')} ({len(usable)} labels in all). "
            "Give a table of them: labels='labels.csv', with the columns conversation, annotator, question and value"
        )
    targets = list(dict.fromkeys(label.target for label in known))
    samples = [Sample(chats[target.conversation], target.turn) for target in targets]
    rows = dict(zip(targets, scorer.rows(samples), strict=True))
    words = {target: _first_words(sample) for target, sample in zip(targets, samples, strict=True)}
    return [_Scored(rows[label.target], words[label.target], float(label.value or 0)) for label in known]


def _present(scored: Sequence[_Scored], max_unscored: float) -> list[_Scored]:
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


def _means(scored: Sequence[_Scored]) -> Mapping[str, float]:
    """Return the mean score of each conversation over its runs."""
    values: dict[str, list[float]] = {}
    for each in scored:
        values.setdefault(each.row["conversation"], []).append(each.row["value"] or 0.0)
    return {name: float(np.mean(found)) for name, found in values.items()}


# --- result -----------------------------------------------------------------------------------------------------------


def _first(scored: Iterable[_Scored], key: Callable[[_Scored], float]) -> list[_Scored]:
    """Return the scores that are shown, of distinct conversations, the smallest key first."""
    found: dict[str, _Scored] = {}
    for each in sorted(scored, key=key):
        found.setdefault(each.row["conversation"], each)
    return list(found.values())[:_SHOWN]


def _counted(rows: Sequence[ScoreRow]) -> str:
    count = len({row["conversation"] for row in rows})
    return count_of(count, "conversation") + (f", {len(rows)} scores" if len(rows) != count else "")


def _finish(
    words: tuple[str, str], found: Estimate, limit: float, bound: Bound, shown: Sequence[_Scored], advice: str
) -> None:
    """Add the value to the summary and the JUnit file, and raise an error if the limit is not reached."""
    __tracebackhide__ = True
    if bound not in ("lower", "estimate"):
        raise BadInput(f"bound={bound!r}: give 'lower' or 'estimate'")
    name, counted = words
    value = found.low if bound == "lower" else found.value
    required = f"{'lower bound' if bound == 'lower' else 'estimate'} at least {limit:g}"
    interval = "no interval" if found.low is None else f"{CONFIDENCE:.0%} interval {found.low:.3f} to {found.high:.3f}"
    estimate = "undefined" if found.value is None else f"{found.value:.3f}"
    text = f"{estimate}, {interval}, required: {required}"
    if (trial := PRESENT.get()) is not None:
        trial.item.user_properties.append((f"{PREFIX}{name}", text))
    if value is None or value < limit:
        lines = "\n".join(map(str, shown))
        raise AssertionError(f"{name}: {text}\n{counted}\n{lines}\nTo do: {advice}")

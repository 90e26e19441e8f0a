"""Learning curves (LLM-RUBRIC, appendix J): agreement by share of the labels, and by number of questions asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import EvidenceTable, Ratings
from accord.learning import AdaptiveRubric, Constant, Experiment, Factory, Head, Predictions
from accord.statistics import REPEATED_DRAWS, STATISTICS, Clusters, Paired, bootstrap_all
from accord.validation.labels_needed import Gain, gain_over
from accord.values import Estimate, Question

Floats = NDArray[np.float64]

SHARES = (0.1, 0.25, 0.5, 0.75)
GAIN_SHARES = (0.5, 0.75)
"""Smaller shares of few labels often hold too little to learn from."""
SHOWN = ("rmse", "pearson", "log_loss")


@dataclass(frozen=True)
class CurvePoint:
    """One point of a learning curve.

    Attributes:
        share: Share of the training groups that was learned from.
        labels: Number of labels in the training sides, on average over folds.
        estimates: Statistics of the held-out ratings, undefined if nothing could be learned. Of one subset with a 95%
            bootstrap interval; of several their mean, less and plus one standard deviation.
        subsets: Number of random subsets.
    """

    share: float
    labels: float
    estimates: dict[str, Estimate]
    subsets: int = 1

    def to_json(self) -> dict[str, Any]:
        """Return a flat row."""
        row: dict[str, Any] = {"share": self.share, "labels": self.labels, "subsets": self.subsets}
        for name, estimate in self.estimates.items():
            row |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
        return row


def learning_curve(
    experiment: Experiment,
    make: Factory,
    whole: Predictions,
    shares: Sequence[float] = SHARES,
    draws: int = REPEATED_DRAWS,
    key: Any = None,
    subsets: int = 1,
) -> list[CurvePoint]:
    """Predict every rating without its group, from growing random shares of the other groups.

    The paper draws 50 subsets at each share and shows mean and standard deviation; the time grows with their number.

    Args:
        experiment: Ratings and folds.
        make: Returns the unfitted evaluator.
        whole: Predictions from all training groups, the last point of the curve.
        shares: Shares of the training groups.
        draws: Number of bootstrap samples, at most `REPEATED_DRAWS` are used.
        key: Key of the evaluator in the experiment's cache; None does not use the cache.
        subsets: Number of random subsets at each share.

    Raises:
        BadInput: `subsets` is below 1.
    """
    if subsets < 1:
        raise BadInput(f"a learning curve needs at least 1 random subset at each share, got {subsets}")
    points = []
    for share in shares:
        drawn = []
        for number in range(subsets):
            thinned = experiment.thinned(share, number)
            drawn.append((thinned, thinned.run("curve", make, None if key is None else ["curve", key])))
        points.append(_point(share, drawn, draws, subsets))
    return [*points, _point(1.0, [(experiment, whole)], draws, subsets)]


def _point(share: float, drawn: Sequence[tuple[Experiment, Predictions]], draws: int, subsets: int) -> CurvePoint:
    """Return the point of some subsets with their predictions; the whole is the same subset each time."""
    labels = float(np.mean([_training_labels(experiment) for experiment, _ in drawn]))
    scored = [(experiment, predictions) for experiment, predictions in drawn if predictions.scored.any()]
    if not scored:
        return CurvePoint(share, labels, dict.fromkeys(SHOWN, Estimate()), subsets)
    statistics = {name: STATISTICS[name] for name in SHOWN}
    pairs = [each.paired(experiment.ratings).take(np.flatnonzero(each.scored)) for experiment, each in scored]
    if subsets == 1:
        [(experiment, predictions)] = scored
        clusters = Clusters(experiment.ratings.group[predictions.scored])
        return CurvePoint(share, labels, bootstrap_all(clusters, statistics, pairs, min(REPEATED_DRAWS, draws), 0))
    estimates = {name: _spread([statistic(paired) for paired in pairs]) for name, statistic in statistics.items()}
    return CurvePoint(share, labels, estimates, subsets)


def _training_labels(experiment: Experiment) -> float:
    """Return the number of labels in the training sides, on average over folds."""
    groups = [experiment.labels.group_of(label.target) for label in experiment.labels.on(experiment.question.id)]
    splits = experiment.splits
    return sum(group in split.train for split in splits for group in groups) / len(splits)


def _spread(values: Sequence[float | None]) -> Estimate:
    """Return the mean of the defined values, less and plus their standard deviation."""
    known = np.array([value for value in values if value is not None])
    if not len(known):
        return Estimate()
    mean, sd = float(known.mean()), float(known.std(ddof=1)) if len(known) > 1 else 0.0
    return Estimate(mean, mean - sd, mean + sd)


def gain_curve(experiment: Experiment, make: Factory, shares: Sequence[float] = GAIN_SHARES) -> list[Gain]:
    """Return the gain over the constant for a new annotator, from growing random shares of the training groups.

    Args:
        experiment: Ratings and folds.
        make: Returns the unfitted evaluator.
        shares: Shares of the training groups, each in (0, 1); the point at 1 is left to the caller.
    """
    gains = []
    for share in shares:
        thinned = experiment.thinned(share)
        predictions, constant = thinned.run("curve", make), thinned.run("constant", Constant)
        count = sum(group in split.train for split in thinned.splits for group in experiment.ratings.group)
        gains.append(gain_over([constant], [predictions], experiment.ratings, count / len(thinned.splits)))
    return [gain for gain in gains if gain is not None]


@dataclass(frozen=True)
class AdaptivePoint:
    """Predictions after a number of questions.

    Attributes:
        most: Largest number of questions.
        mean: Mean number of questions that were asked.
        paired: Predictions paired with the ratings.
    """

    most: int
    mean: float
    paired: Paired


def adaptive_curve(
    experiment: Experiment, make: Callable[[Question], Head], most: int | None = None, until: float = 0.0
) -> list[AdaptivePoint]:
    """Predict every rating after 0, 1, 2, … answers of the judge, with questions chosen for each conversation.

    Args:
        experiment: Ratings and folds, with evidence of all answers.
        make: Returns an unfitted calibration.
        most: Largest number of questions; None asks all.
        until: Stop asking once the predictions vary less than this over possible answers, in units of the scale.
    """
    rated, labels = experiment.ratings, experiment.labels
    shares: list[Floats] = []
    counts: list[Floats] = []
    for split in experiment.splits:
        train = experiment.evidence.filter(split.train, labels.group_of), labels.filter(split.train)
        rubric = AdaptiveRubric(make(experiment.question).fit(*train))
        features = rubric.evaluator.features(experiment.evidence.filter(split.test, labels.group_of))
        steps = len(rubric.questions) if most is None else min(most, len(rubric.questions))
        while len(shares) <= steps:
            shares.append(np.zeros((len(rated), len(rated.options))))
            counts.append(np.zeros(len(rated)))
        for row, target in enumerate(features.targets):
            places = [place for place, label in enumerate(rated.labels) if label.target == target]
            _ask(rubric, features, row, places, rated, until, shares, counts)
    return [
        AdaptivePoint(step, float(counts[step].mean()), Paired(rated.options, rated.answer, each, each @ rated.options))
        for step, each in enumerate(shares)
    ]


def _ask(
    rubric: AdaptiveRubric,
    features: EvidenceTable,
    row: int,
    places: list[int],
    rated: Ratings,
    until: float,
    shares: list[Floats],
    counts: list[Floats],
) -> None:
    """Fill in one conversation, question by question; after the last question later steps repeat the prediction."""
    whole = features.take([row])
    present = whole.present.copy()
    for columns in rubric.places.values():
        present[:, columns] = False
    asked, is_done = 0, False
    for step in range(len(shares)):
        partial = whole.with_only(present)
        for place in places:
            annotator = (rated.annotator[place],)
            shares[step][place] = (
                shares[step - 1][place] if is_done else rubric.outlook(partial, 0, annotator).distribution
            )
            counts[step][place] = asked
        if is_done:
            continue
        outlook = rubric.outlook(partial, 0)
        gains = {name: gain for name, gain in outlook.gains.items() if whole.present[:, rubric.places[name]].all()}
        if gains and outlook.spread > until and step + 1 < len(shares):
            present = present.copy()
            present[:, rubric.places[max(gains, key=lambda name: gains[name])]] = True
            asked += 1
        else:
            is_done = True

"""Effect of the plausibility check on planted implausible replies and on real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from accord.evidence.bank.reply_metrics import BANK
from accord.evidence.metric_source import measure
from accord.formats import read
from accord.learning import make_head
from accord.learning.calibration.plausibility import (
    KINDS,
    Plausibility,
    fakes,
)
from accord.models import LIKELIHOOD, Models, ModelSettings, run
from accord.statistics import DETAIL_DRAWS, Clusters
from accord.store import Store
from accord.values import Labels, Question, Sample, Score, Target, Unscored
from accord_papers.ciu.responses import ALL, load, question_of
from accord_papers.ciu.single_metrics import with_interval
from accord_papers.study import Row

Floats = NDArray[np.float64]
SMALL = "embedded:smollm2-135m"
"""Likelihood model for a data set."""
FAKED = 30
"""Number of replies of each half that are faked."""
REAL = "real"
DROP, AGREEMENT = "drop of the score", "Spearman with the ratings"
STATISTICS = ("without_check", "with_check")


def check_rows(samples: Sequence[Sample], labels: Labels, question: Question, models: Models) -> list[Row]:
    """Return the drop of the score for each kind of planted reply, and the correlation of real replies with ratings.

    A mixture of the bank and the check learn on one half of the groups and are tested on the other, both ways.

    Args:
        samples: Rated samples.
        labels: Ratings with the groups of the samples.
        question: The rated question.
        models: The likelihood model.

    Raises:
        BadInput: The likelihood model is not installed, or there are too few replies.
    """
    scores: dict[str, list[Floats]] = {}
    for train, test in _halves(samples, labels.group_of):
        learned, check = _checked_mixture(train, labels, question, models)
        some = [test[place] for place in np.random.default_rng(0).permutation(len(test))[:FAKED]]
        for kind, those in ((REAL, test), ("originals", some), *fakes(some, labels.group_of, 1).items()):
            unlowered = learned(those)
            lowered = run(check.lower(those, unlowered), models)
            scores.setdefault(kind, []).append(np.array([_values(unlowered), _values(lowered)]))
    joined = {kind: np.concatenate(parts, axis=1) for kind, parts in scores.items()}
    drop = {"question": question.id, "measure": DROP}
    rows: list[Row] = [{"replies": kind, **drop, **_means(joined["originals"] - joined[kind])} for kind in KINDS]
    rows.append({"replies": REAL, **drop, **_means(joined[REAL][0] - joined[REAL])})
    tested = [sample for _, test in _halves(samples, labels.group_of) for sample in test]
    rows.append({"replies": REAL, "question": question.id, "measure": AGREEMENT,
                 **_agreement(tested, labels, question, joined[REAL])})  # fmt: skip
    return rows


def check_of_data(folder: Path, store: Store) -> list[Row]:
    """Return `check_rows` of a data set's questions with the small likelihood model; `store` caches its answers."""
    records = [record for record in read(folder) if record.labels and record.conversation.turns]
    samples = [Sample(record.conversation, record.labels[0].target.turn) for record in records]
    data = load(folder, BANK)[ALL]
    labels = data.labels.grouped(dict(zip(data.evidence.targets, data.context.tolist(), strict=True)))
    models = Models({LIKELIHOOD: ModelSettings(model=SMALL)}, store)
    return [row for name in data.people for row in check_rows(samples, labels, question_of(data, name), models)]


def _halves(samples: Sequence[Sample], group_of: Callable[[Target], str]) -> list[tuple[list[Sample], list[Sample]]]:
    groups = np.random.default_rng(0).permutation(sorted({group_of(sample.target) for sample in samples}))
    first, second = (
        [sample for sample in samples if group_of(sample.target) in set(half.tolist())]
        for half in np.array_split(groups, 2)
    )
    return [(first, second), (second, first)]


def _checked_mixture(
    samples: Sequence[Sample], labels: Labels, question: Question, models: Models
) -> tuple[Callable[[Sequence[Sample]], Sequence[Score | Unscored]], Plausibility]:
    """Learn a mixture of the bank, and the check, from the same replies."""
    check = run(Plausibility.learn(samples, labels.group_of), models)
    targets = {sample.target for sample in samples}
    kept = Labels(label for label in labels if label.target in targets)
    head = make_head("curves", question, {}).fit(measure(samples, BANK), kept)
    return lambda those: head.predict(measure(those, BANK)), check


def _values(scores: Sequence[Score | Unscored]) -> list[float]:
    return [score.value if isinstance(score, Score) else np.nan for score in scores]


def _means(values: Floats) -> Row:
    """Return the mean over the replies without and with the check, with 95% intervals."""
    row: Row = {}
    for name, of in zip(STATISTICS, values, strict=True):
        known = of[~np.isnan(of)]
        again = known[np.random.default_rng(0).integers(len(known), size=(DETAIL_DRAWS, len(known)))].mean(axis=1)
        low, high = np.quantile(again, [0.025, 0.975]).tolist()
        row |= {name: float(known.mean()), f"{name}_low": low, f"{name}_high": high}
    return row


def _agreement(samples: Sequence[Sample], labels: Labels, question: Question, values: Floats) -> Row:
    said: dict[Target, list[float]] = {}
    for label in labels.on(question.id):
        said.setdefault(label.target, []).append(float(label.value or 0))
    truth = np.array([fmean(said[sample.target]) for sample in samples])
    known = ~np.isnan(values).any(axis=0)
    clusters = Clusters(np.array([labels.group_of(sample.target) for sample in samples], dtype=object)[known])
    row: Row = {}
    for name, of in zip(STATISTICS, values, strict=True):
        row |= with_interval(name, "spearman", truth[known], of[known], clusters, DETAIL_DRAWS)
    return row

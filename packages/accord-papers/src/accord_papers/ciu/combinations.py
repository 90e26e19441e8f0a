"""Combinations of metrics on held-out responses (tables 2 and 4), ours, and transfer to another data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from accord.edges import AccordError
from accord.learning import (
    Calibration,
    make_head,
)
from accord.learning.answer_models.contract import matrix
from accord.learning.answer_models.metric_curves import Bins
from accord.statistics import Clusters
from accord.values import Labels, Score
from accord_papers.ciu.published import METRICS, SELECTED, UNIFIED, published
from accord_papers.ciu.responses import Rated, held_out, question_of
from accord_papers.ciu.selection import STRATEGIES, regressed, selected
from accord_papers.ciu.single_metrics import with_interval
from accord_papers.study import Row

Floats = NDArray[np.float64]
Combine = Callable[[Rated, Rated, str], Floats]
SPLITS = ("grouped", "random")


def mixture(train: Rated, test: Rated, question: str, **settings: str) -> Floats:
    """Return predictions of our curves or a published form, with all choices on the training side."""
    known = set(train.evidence.targets)
    labels = Labels(label for label in train.labels if label.target in known)
    fitted = make_head("curves", question_of(train, question), {"curves": settings}).fit(train.evidence, labels)
    scores = fitted.predict(test.evidence)
    return np.array([score.value if isinstance(score, Score) else np.nan for score in scores])


def ranks(train: Rated, *others: Rated) -> list[Floats]:
    """Return (n, M) ranks among the training responses, with missing ones in the middle."""
    bins = Bins.fit(matrix(train.evidence))
    return [np.nan_to_num(bins.ranks(matrix(each.evidence)), nan=0.5) for each in (train, *others)]


def ridge(train: Rated, test: Rated, question: str) -> Floats:
    """Return predictions of ridge regression on ranks."""
    from sklearn.linear_model import RidgeCV

    X, new = ranks(train, test)
    return np.asarray(RidgeCV(np.logspace(-1, 3, 13)).fit(X, train.people[question]).predict(new))


OURS: Mapping[str, Combine] = {"mixture": mixture, "ridge": ridge}
"""Our combination, and ridge regression on the same ranks."""
PUBLISHED_FORMS: Mapping[str, Combine] = {
    f"moe-{name}{suffix}": partial(mixture, form=form, loss=loss)
    for name, form in (("concat", "concat"), ("ciu", "gated"))
    for suffix, loss in (("", "squared"), ("-classifier", "cross-entropy"))
}
"""MoE-Concat and MoE-CIU as published, as regressors and as classifiers."""


PAPER = "the paper's six"
"""Name of the paper's metrics if all six were measured."""


def bank_of(data: Rated) -> str:
    """Return the name of a data set's metrics; `PAPER` only if these are the paper's six and no others."""
    found = sum(name in data.metrics for name in METRICS)
    others = len(data.metrics) - found
    name = PAPER if found == len(METRICS) else f"{found} of {PAPER}"
    return f"{name} and {others} more" if others else name


def _published(data: Rated, system: str) -> Row:
    """Return the figures of tables 2 and 4, which combine all six metrics."""
    return dict(published(UNIFIED, data.name, system)) if bank_of(data) == PAPER else {}


def splits_of(data: Rated) -> Sequence[str]:
    """Return the splits that differ: random ones are those by context if every context has a single response."""
    return SPLITS if len(set(data.context)) < len(data.context) else SPLITS[:1]


def tested(data: Rated, combine: Combine, question: str, split: str, seed: int) -> float:
    """Return Spearman on the responses that a seed holds out."""
    train, test = held_out(data, split, seed)
    return float(spearmanr(combine(train, test, question), test.people[question])[0])


def _about(part: str, data: Rated, system: str, bank: str, split: str, seeds: int) -> Row:
    about = {"part": part, "dataset": data.name, "system": system, "bank": bank, "split": split}
    return {**about, "n": len(data.evidence), "seeds": seeds}


def unify(
    data: Rated,
    modes: Mapping[str, Combine],
    seeds: int,
    splits: Sequence[str] = SPLITS,
    part: str = "unify",
    bank: str | None = None,
) -> list[Row]:
    """Test combinations over seeds on held-out responses; one that lacks a package is a row with the reason.

    Args:
        data: Responses with the metrics to combine.
        modes: Combinations by name.
        seeds: Number of seeds.
        splits: Splits of the responses.
        part: Part of the benchmark, in the rows.
        bank: Name of the metrics in the rows; by default `bank_of` the data.
    """
    rows: list[Row] = []
    for split in splits:
        for system, combine in modes.items():
            row = _about(part, data, system, bank or bank_of(data), split, seeds)
            try:
                for column, question in data.questions.items():
                    if question in data.people:
                        found = [tested(data, combine, question, split, seed) for seed in range(seeds)]
                        row |= {column: fmean(found), f"{column}_sd": float(np.std(found))}
            except AccordError as error:
                row["missing"] = str(error)
            rows.append(row | _published(data, system))
    return rows


def select(
    data: Rated, seeds: int, splits: Sequence[str] = SPLITS, strategies: Sequence[str] = STRATEGIES
) -> list[Row]:
    """Return tables 2 and 4: each strategy with a support vector regressor, and the frequency of each metric."""
    rows: list[Row] = []
    for split in splits:
        found: dict[str, Row] = {
            mode: _about("select", data, mode, bank_of(data), split, seeds) for mode in (*strategies, "all")
        }
        kept: dict[str, list[NDArray[np.bool_]]] = {mode: [] for mode in found}
        for column, question in data.questions.items():
            if question not in data.people:
                continue
            scores: dict[str, list[float]] = {mode: [] for mode in found}
            for seed in range(seeds):
                _select_once(data, question, split, seed, scores, kept)
            for mode, values in scores.items():
                found[mode] |= {column: fmean(values), f"{column}_sd": float(np.std(values))}
        for mode, row in found.items():
            shares = np.mean(kept[mode], axis=0)
            row["kept"] = {name: float(share) for name, share in zip(data.metrics, shares, strict=True)}
            rows.append(row | _published(data, mode))
    return rows


def _select_once(
    data: Rated,
    question: str,
    split: str,
    seed: int,
    scores: Mapping[str, list[float]],
    kept: Mapping[str, list[NDArray[np.bool_]]],
) -> None:
    """Add each strategy's correlation and choice on one split; equal choices share one regressor."""
    train, test = held_out(data, split, seed)
    (X, new), y = ranks(train, test), train.people[question]
    known: dict[bytes, float] = {}
    for mode, values in scores.items():
        which = selected(mode, X, y, train.context, seed=0)
        if which.tobytes() not in known:
            predicted = regressed(X[:, which], y, train.context, new[:, which])
            known[which.tobytes()] = float(spearmanr(predicted, test.people[question])[0])
        values.append(known[which.tobytes()])
        kept[mode].append(which)


def ratios(rows: Sequence[Row]) -> list[Row]:
    """Return the frequency of each metric: the mean over the strategies, seeds and questions of `select`."""
    found: list[Row] = []
    for split in dict.fromkeys(row["split"] for row in rows):
        of = [row for row in rows if row["split"] == split and row["system"] != "all"]
        for name in of[0]["kept"]:
            about: Row = {"part": "select", "dataset": of[0]["dataset"], "system": f"selection ratio of {name}"}
            row = {**about, "split": split, "metric": name, "ratio": fmean(each["kept"][name] for each in of)}
            paper = SELECTED.get(of[0]["dataset"], {}).get(name) if of[0]["bank"] == PAPER else None
            found.append(row if paper is None else row | {"ratio_published": paper})
    return found


def transfer(train: Rated, test: Rated, bank: str, draws: int) -> list[Row]:
    """Learn on one set and apply to another: unchanged, and with ranks among the other set's texts."""
    rows: list[Row] = []
    for system, has_own_ranks in (("mixture", False), ("mixture, ranks among its own", True)):
        about: Row = {"part": "transfer", "dataset": test.name, "system": system, "bank": bank}
        about |= {"n": len(test.evidence)}
        for column in train.questions.keys() & test.questions.keys():
            ours, theirs = train.questions[column], test.questions[column]
            if ours in train.people and theirs in test.people:
                learned = Calibration(question_of(train, ours), "curves").fit(train.evidence, train.labels)
                evaluator = learned.with_ranks_among(test.evidence) if has_own_ranks else learned
                scores = evaluator.predict(test.evidence)
                known = np.array([isinstance(score, Score) for score in scores])
                value = np.array([score.value for score in scores if isinstance(score, Score)])
                clusters = Clusters(test.context[known])
                about |= with_interval(column, "spearman", test.people[theirs][known], value, clusters, draws)
                about["warned"] = fmean(isinstance(s, Score) and s.warning is not None for s in scores)
        rows.append(about)
    return rows

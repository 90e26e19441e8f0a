"""Agreement of single metrics with ratings (tables 1 and 3, figure 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
import scipy
from numpy.typing import NDArray

from accord.evidence import CIU
from accord.evidence.bank.reply_metrics import (
    BANK,
    BERTSCORE,
    EMBEDDING,
    PAPER_EFFORT,
    REFERENCE,
)
from accord.statistics import (
    RANK_DRAWS,
    STATISTICS,
    Clusters,
    MeanStatistic,
    Paired,
    bootstrap,
    holm,
    paired_test,
    pearson,
)
from accord.statistics.agreement import WeightedStatistic
from accord_papers.ciu.published import METRICS, STANDALONE, published
from accord_papers.ciu.responses import WITH_DOCUMENT, Rated
from accord_papers.study import Row

Floats = NDArray[np.float64]

ABLATIONS = {
    column: metric.name
    for column, metric in (
        ("ciu-paper-no-freq", CIU(position=1.0, effort=PAPER_EFFORT, frequency=False)),
        ("ciu-paper-no-pos", CIU(effort=PAPER_EFFORT)),
        ("ciu-paper-no-effort", CIU(position=1.0)),
        ("ciu-paper-phrases", CIU(position=1.0, effort=PAPER_EFFORT, phrases=True)),
        ("ciu-no-freq", CIU(frequency=False)),
        ("ciu-phrases", CIU(phrases=True)),
    )
}
"""Forms of CIU without one of its terms, or with RAKE's best phrases only."""
RENAMED = {name: column for column, name in ABLATIONS.items()}
LEXICAL = (*BANK, *REFERENCE, "ciu-paper", "ciu-unsupported")
"""Metrics without a model."""
WIDE = tuple(dict.fromkeys((*LEXICAL, *METRICS, *ABLATIONS.values(), *EMBEDDING, *BERTSCORE)))
"""All metrics of the tables."""
FEWEST = 10
"""Smallest number of values of a metric."""
RANDOM, ONE_PERSON = "random", "one annotator"


def paired(truth: Floats, value: Floats, other: Floats | None = None) -> Paired:
    """Return values paired with ratings; another metric's values are an extra column."""
    along = np.zeros((len(truth), 0)) if other is None else other[:, None]
    return Paired(truth, np.arange(len(truth)), along, value)


def _lead(both: Paired) -> float | None:
    spearman = STATISTICS["spearman"]
    one, other = spearman(both), spearman(paired(both.truth, both.probabilities[:, 0]))
    return None if one is None or other is None else one - other


def standalone(subsets: Mapping[str, Rated], draws: int = RANK_DRAWS) -> list[Row]:
    """Measure each metric alone; p of CIU's lead is corrected over the metrics of a subset and question.

    In the subset `all`, absent values are 0 as in the paper. The last rows of a subset are the metrics that cannot be
    measured, with the reason.
    """
    rows: list[Row] = []
    for subset, data in subsets.items():
        about: Row = {"part": "standalone", "dataset": data.name, "subset": subset}
        found: list[Row] = []
        for name in [*data.metrics, RANDOM]:
            known = values_of(data, name, subset)[1]
            if known.sum() < FEWEST:
                found.append({**about, "system": name, "n": int(known.sum()), "missing": _few(data, name)})
                continue
            row: Row = {**about, "system": name, "n": int(known.sum())}
            for column in data.questions:
                row |= figures(data, name, subset, column, draws)
            found.append(row | (published(STANDALONE, data.name, name) if subset == WITH_DOCUMENT else {}))
        for column in data.questions:
            _correct(found, column.replace("spearman", "ciu_ahead") + "_p")
        rows += found
        rows += [{**about, "system": name, "missing": reason} for name, reason in data.missing.items()]
    return rows


def _few(data: Rated, name: str) -> str:
    """Return the reason for the absent values of a metric."""
    reasons = [reason for (_, column), reason in data.evidence.absences.items() if column == name]
    return f"fewer than {FEWEST} values" + (f": {reasons[0]}" if reasons else "")


def _correct(rows: Sequence[Row], name: str) -> None:
    tested = [row for row in rows if row.get(name) is not None]
    for row, p in zip(tested, holm([row[name] for row in tested]), strict=True):
        row[name] = p


def figures(data: Rated, name: str, subset: str, column: str, draws: int) -> Row:
    """Return a metric's agreement with ratings of one question, and CIU's lead over it."""
    if data.questions[column] not in data.people:
        return {}
    people, (value, known) = data.people[data.questions[column]], values_of(data, name, subset)
    truth, clusters = people[known], Clusters(data.context[known])
    row = with_interval(column, "spearman", truth, value[known], clusters, draws)
    row[column.replace("spearman", "pearson")] = pearson(truth, value[known])
    row[column.replace("spearman", "kendall")] = STATISTICS["kendall"](paired(truth, value[known]))
    if name == "ciu" or "ciu" not in data.metrics:
        return row
    ciu, there = values_of(data, "ciu", subset)
    both = known & there
    if both.sum() >= FEWEST:
        pair = paired(people[both], ciu[both], value[both])
        clusters = Clusters(data.context[both])
        found = bootstrap(clusters, WeightedStatistic(_leads), [pair], draws)
        lead = column.replace("spearman", "ciu_ahead")
        row |= {lead: _lead(pair), f"{lead}_low": found.low, f"{lead}_high": found.high}
        one, other = (paired(ranked(people[both]), ranked(each[both])) for each in (ciu, value))
        of_ranks = STATISTICS["pearson"]
        assert isinstance(of_ranks, MeanStatistic)
        test = paired_test(clusters, of_ranks, [one], [other], 5 * draws)
        row[f"{lead}_p"] = None if test is None else test.p
    return row


def _leads(pair: Paired, weights: Floats) -> Floats:
    """Return the lead on each of (D, n) draws."""
    rows = (np.repeat(np.arange(len(pair)), counts.astype(int)) for counts in weights)
    return np.array([_lead(pair.take(drawn)) for drawn in rows], dtype=float)


def ranked(value: Floats) -> Floats:
    """Return ranks, so that the values of two metrics can be exchanged within a context."""
    return np.asarray(scipy.stats.rankdata(value))


def values_of(data: Rated, name: str, subset: str) -> tuple[Floats, NDArray[np.bool_]]:
    """Return (n,) a metric's values, and a mask of present ones.

    In the subset `all`, absent ones are 0 as in the paper.
    """
    if name == RANDOM:
        return np.random.default_rng(0).random(len(data.context)), np.ones(len(data.context), dtype=bool)
    place = data.metrics.index(name)
    present = data.evidence.present[:, place]
    return data.evidence.values[:, place], np.ones_like(present) if subset == "all" else present


def with_interval(column: str, statistic: str, truth: Floats, value: Floats, clusters: Clusters, draws: int) -> Row:
    """Return a statistic under a column's name, with its interval."""
    one = paired(truth, value)
    found = bootstrap(clusters, STATISTICS[statistic], [one], draws)
    return {column: STATISTICS[statistic](one), f"{column}_low": found.low, f"{column}_high": found.high}


def one_annotator(data: Rated) -> Row:
    """Return the mean Spearman correlation of each annotator's ratings with the mean of the other annotators'."""
    row: Row = {"system": ONE_PERSON, "n": len(data.evidence)}
    for column, question in data.questions.items():
        given: dict[str, dict[int, float]] = {}
        labels = data.labels.on(question)
        rows = data.evidence.rows_of(label.target for label in labels)
        for place, label in zip(rows, labels, strict=True):
            if place >= 0 and label.value is not None:
                given.setdefault(str(label.annotator), {})[int(place)] = float(label.value)
        found = [_with_others(name, given) for name in given]
        known = [each for each in found if each is not None]
        if known:
            row[column] = fmean(known)
    return row


def _with_others(name: str, given: Mapping[str, Mapping[int, float]]) -> float | None:
    """Return an annotator's correlation with the mean of the others, or `None` if they share fewer than `FEWEST`."""
    others = {
        place: [each[place] for other, each in given.items() if other != name and place in each]
        for place in given[name]
    }
    shared = [place for place, values in others.items() if values]
    if len(shared) < FEWEST:
        return None
    one = np.array([given[name][place] for place in shared])
    rest = np.array([fmean(others[place]) for place in shared])
    return STATISTICS["spearman"](paired(one, rest))

"""Value of cheap metrics, alone and combined (CIU and MoE-CIU; Choi et al.), on any data set of our schema.

    python benchmarks/ciu.py --data ../shared/data [--set topical_usr] [--only standalone,select,unify,transfer]
                             [--to DIR] [--quick] --json OUT

standalone  each metric with the paper's figure (tables 1 and 3): Spearman, Pearson and Kendall with the mean of the
            annotators, 95% intervals by bootstrap over contexts, and the lead of CIU's Spearman over each other
            metric's, with its interval and a paired test (Holm).
select      the paper's combinations of its six metrics (tables 2 and 4): 17 ways to select some, a support vector
            regressor, the frequency of each metric, and MoE-Concat and MoE-CIU as published.
unify       our combination of wider banks. `ridge` is ridge regression on the same ranks.
transfer    learned on Topical-USR and applied unseen to the set in DIR: unchanged, and with ranks among DIR's texts.

Combinations are tested on unseen responses over 15 seeds: 50 random responses as in the paper, or whole contexts.
Subsets: `with-document` are the responses with a document (312 in Topical-USR), `all` sets metrics of missing documents
to 0, `machine` are the responses with a document that a model wrote. Banks: `lexical` needs no model, `embedding` adds
cosines and BERTScore of the small embedder (`accord models pull`), `paper` are its six metrics, with RUBER learned from
the set's responses, each scored by a model that has not seen its context.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # small matrices gain nothing from more, before NumPy is imported

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np
from ciu_selection import STRATEGIES, regressed, selected
from ciu_tables import METRICS, SELECTED, STANDALONE, UNIFIED, printed
from harness import Row, chosen, data_folder, finish, options
from numpy.typing import NDArray
from rated import QUESTIONS, Rated, held_out, load, question_of
from scipy.stats import spearmanr
from sklearn.linear_model import RidgeCV

from accord.edges import AccordError
from accord.evidence import (
    BANK,
    BERTSCORE,
    CIU,
    EMBEDDING,
    PAPER_EFFORT,
    REFERENCE,
    Relatedness,
    Ruber,
    TurnMetric,
    Unreferenced,
    pairs_of,
    turn_metrics,
)
from accord.formats import read
from accord.learning import Bins, Calibration, make_head, matrix
from accord.statistics import (
    STATISTICS,
    Clusters,
    MeanStatistic,
    Paired,
    WeightedStatistic,
    bootstrap,
    holm,
    paired_test,
    pearson,
)
from accord.values import Labels, Score

PARTS = ("standalone", "select", "unify", "transfer")
ABLATIONS = {
    "ciu-paper-no-freq": CIU(position=1.0, effort=PAPER_EFFORT, frequency=False),
    "ciu-paper-no-pos": CIU(effort=PAPER_EFFORT),
    "ciu-paper-no-effort": CIU(position=1.0),
    "ciu-no-freq": CIU(frequency=False),
}
LEXICAL = (*BANK, *REFERENCE, "ciu-paper", "ciu-unsupported")
SEEDS, FEWEST = 15, 10
SPLITS = ("grouped", "random")
Floats = NDArray[np.float64]


def learned_metrics(folder: Path, keep: Path) -> list[str]:
    """RUBER learned from a set's own responses, under the names `ruber` and `ruber-unreferenced`."""
    conversations = [
        record.conversation.at(record.labels[0].target.turn)
        for record in read(folder)
        if record.labels and record.conversation.turns
    ]
    learned = Relatedness.learn(pairs_of(conversations))
    learned.save(keep)
    print(f"RUBER: {learned.accuracy:.3f} of held-out pairs told apart, {learned.replies} responses")
    found: dict[str, TurnMetric] = {"ruber": Ruber(str(keep)), "ruber-unreferenced": Unreferenced(str(keep))}
    for name, metric in found.items():
        turn_metrics.register(name)(metric)
    return [*found, "ruber-referenced"]


def has_embedder() -> bool:
    """Return True if the small embedder is installed on this machine."""
    from accord.embedded import open_sentence_embedder

    try:
        open_sentence_embedder("minilm-l6")
    except AccordError as error:
        print(f"without embeddings: {error}")
        return False
    return True


# --- single metrics ------------------------------------------------------------------------------------------------


def paired(truth: Floats, value: Floats, other: Floats | None = None) -> Paired:
    """Return values paired with ratings; another metric's values are an extra column."""
    along = np.zeros((len(truth), 0)) if other is None else other[:, None]
    return Paired(truth, np.arange(len(truth)), along, value)


def _lead(both: Paired) -> float | None:
    spearman = STATISTICS["spearman"]
    one, other = spearman(both), spearman(paired(both.truth, both.probabilities[:, 0]))
    return None if one is None or other is None else one - other


def standalone(subsets: Mapping[str, Rated], draws: int) -> list[Row]:
    """Measure each metric alone; p of CIU's lead is corrected over the metrics of a subset and question."""
    rows: list[Row] = []
    for subset, data in subsets.items():
        found: list[Row] = []
        for name in [*(column.name for column in data.evidence.columns), "random"]:
            known = values_of(data, name, subset)[1]
            if known.sum() < FEWEST:
                continue
            about: Row = {"part": "standalone", "dataset": data.name, "subset": subset, "system": name}
            about["n"] = int(known.sum())
            for column in QUESTIONS:
                about |= figures(data, name, subset, column, draws)
            found.append(about | printed(STANDALONE, data.name, name))
        for column in QUESTIONS:
            _correct(found, column.replace("spearman", "ciu_ahead") + "_p")
        rows += found
    return rows


def _correct(rows: Sequence[Row], name: str) -> None:
    tested = [row for row in rows if row.get(name) is not None]
    for row, p in zip(tested, holm([row[name] for row in tested]), strict=True):
        row[name] = p


def figures(data: Rated, name: str, subset: str, column: str, draws: int) -> Row:
    """Return a metric's agreement with ratings of one question, and CIU's lead over it."""
    if QUESTIONS[column] not in data.people:
        return {}
    people, (value, known) = data.people[QUESTIONS[column]], values_of(data, name, subset)
    truth, clusters = people[known], Clusters(data.context[known])
    row = with_interval(column, "spearman", truth, value[known], clusters, draws)
    row[column.replace("spearman", "pearson")] = pearson(truth, value[known])
    row[column.replace("spearman", "kendall")] = STATISTICS["kendall"](paired(truth, value[known]))
    ciu, there = values_of(data, "ciu", subset)
    both = known & there
    if name != "ciu" and both.sum() >= FEWEST:
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
    from scipy.stats import rankdata

    return np.asarray(rankdata(value))


def values_of(data: Rated, name: str, subset: str) -> tuple[Floats, NDArray[np.bool_]]:
    """Return (n,) a metric's values, and a mask of present ones.

    In the subset `all`, absent ones are 0 as in the paper.
    """
    if name == "random":
        return np.random.default_rng(0).random(len(data.context)), np.ones(len(data.context), dtype=bool)
    place = [column.name for column in data.evidence.columns].index(name)
    present = data.evidence.present[:, place]
    return data.evidence.values[:, place], np.ones_like(present) if subset == "all" else present


def with_interval(column: str, statistic: str, truth: Floats, value: Floats, clusters: Clusters, draws: int) -> Row:
    """Return a statistic under a column's name, with its interval."""
    one = paired(truth, value)
    found = bootstrap(clusters, STATISTICS[statistic], [one], draws)
    return {column: STATISTICS[statistic](one), f"{column}_low": found.low, f"{column}_high": found.high}


# --- combinations --------------------------------------------------------------------------------------------------

Combine = Callable[[Rated, Rated, str], Floats]


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
    X, new = ranks(train, test)
    return np.asarray(RidgeCV(np.logspace(-1, 3, 13)).fit(X, train.people[question]).predict(new))


def tested(data: Rated, combine: Combine, question: str, split: str, seed: int) -> float:
    """Return Spearman on the responses that a seed holds out."""
    train, test = held_out(data, split, seed)
    return float(spearmanr(combine(train, test, question), test.people[question])[0])


def unify(
    data: Rated, bank: str, modes: Mapping[str, Combine], seeds: int, splits: Sequence[str] = SPLITS
) -> list[Row]:
    """Test combinations over seeds on held-out responses."""
    rows: list[Row] = []
    for split in splits:
        for system, combine in modes.items():
            about = {"part": "unify", "dataset": data.name, "subset": "with-document", "system": system, "bank": bank}
            row: Row = {**about, "split": split, "n": len(data.evidence), "seeds": seeds}
            for column, question in QUESTIONS.items():
                if question in data.people:
                    found = [tested(data, combine, question, split, seed) for seed in range(seeds)]
                    row |= {column: fmean(found), f"{column}_sd": float(np.std(found))}
            rows.append(row | printed(UNIFIED, data.name, system))
    return rows


def select(data: Rated, seeds: int, quick: bool) -> list[Row]:
    """Return the paper's tables 2 and 4: each strategy, the frequency of each metric, and the published mixtures."""
    names = [column.name for column in data.evidence.columns]
    kept: dict[tuple[str, str, str], list[NDArray[np.bool_]]] = {}

    def strategy(mode: str, split: str, column: str) -> Combine:
        def combine(train: Rated, test: Rated, question: str) -> Floats:
            (X, new), y = ranks(train, test), train.people[question]
            which = selected(mode, X, y, train.context, seed=0)
            kept.setdefault((mode, split, column), []).append(which)
            return regressed(X[:, which], y, train.context, new[:, which])

        return combine

    splits, strategies = (SPLITS[:1], STRATEGIES[::6]) if quick else (SPLITS, STRATEGIES)
    rows: list[Row] = []
    for split in splits:
        for mode in (*strategies, "all"):
            about = {"part": "select", "dataset": data.name, "subset": "with-document", "system": mode, "bank": "paper"}
            row: Row = {**about, "split": split, "n": len(data.evidence), "seeds": seeds}
            for column, question in QUESTIONS.items():
                if question in data.people:
                    combine = strategy(mode, split, column)
                    row[column] = fmean(tested(data, combine, question, split, seed) for seed in range(seeds))
            shares = [which for (w, s, _), found in kept.items() if (w, s) == (mode, split) for which in found]
            row["kept"] = {name: float(share) for name, share in zip(names, np.mean(shares, axis=0), strict=True)}
            rows.append(row | printed(UNIFIED, data.name, mode))
    modes: dict[str, Combine] = {
        f"moe-{name}{suffix}": partial(mixture, form=form, loss=loss)
        for name, form in (("concat", "concat"), ("ciu", "gated"))
        for suffix, loss in (("", "squared"), ("-classifier", "cross-entropy"))[: 1 if quick else 2]
    }
    mixed = [{**row, "part": "select"} for row in unify(data, "paper", modes, seeds, splits)]
    return [*rows, *mixed, *_ratios(data, rows, splits)]


def _ratios(data: Rated, rows: Sequence[Row], splits: Sequence[str]) -> list[Row]:
    """Return the frequency of each metric: the mean over the 17 strategies, seeds and questions."""
    found: list[Row] = []
    for split in splits:
        of = [row["kept"] for row in rows if row["split"] == split and row["system"] != "all"]
        for name in of[0]:
            about: Row = {
                "part": "select",
                "dataset": data.name,
                "system": f"selection ratio of {name}",
                "split": split,
            }
            paper = SELECTED.get(data.name, {}).get(name)
            found.append({**about, "ratio": fmean(kept[name] for kept in of), "paper_ratio": paper})
    return found


def transfer(train: Rated, test: Rated, bank: str, draws: int) -> list[Row]:
    """Learn on one set and apply to another."""
    rows: list[Row] = []
    for system in ("mixture", "mixture, ranks among its own"):
        about: Row = {"part": "transfer", "dataset": test.name, "subset": "with-document", "system": system}
        about |= {"bank": bank, "n": len(test.evidence)}
        for column, question in QUESTIONS.items():
            if question in train.people and question in test.people:
                learned = make_head("curves", question_of(train, question), {}).fit(train.evidence, train.labels)
                assert isinstance(learned, Calibration)
                evaluator = learned if system == "mixture" else learned.with_ranks_among(test.evidence)
                scores = evaluator.predict(test.evidence)
                known = np.array([isinstance(score, Score) for score in scores])
                value = np.array([score.value for score in scores if isinstance(score, Score)])
                clusters = Clusters(test.context[known])
                about |= with_interval(column, "spearman", test.people[question][known], value, clusters, draws)
                about["warned"] = fmean(isinstance(s, Score) and s.warning is not None for s in scores)
        rows.append(about)
    return rows


def main() -> None:
    parser = options("ciu", "Cheap metrics one by one and together.", PARTS)
    parser.add_argument(
        "--set", default="topical_usr", help="the data set's folder; the paper used Topical and Persona-USR"
    )
    parser.add_argument("--to", type=Path, help="transfer: the folder of the other data set")
    given = parser.parse_args()
    wanted = chosen(parser, given.only, PARTS)
    folder = data_folder(parser, given.data) / given.set
    if not folder.is_dir():
        parser.error(f"no data set at {folder}; name another with --set")
    for name, metric in ABLATIONS.items():
        turn_metrics.register(name)(metric)
    embeds = has_embedder()
    draws, seeds = (40, 1) if given.quick else (1000, given.limit or SEEDS)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as keep:
        wide = [*LEXICAL, *EMBEDDING, *BERTSCORE] if embeds else list(LEXICAL)
        more = [*ABLATIONS, *learned_metrics(folder, Path(keep))] if embeds else list(ABLATIONS)
        subsets = load(folder, [*wide, *more])
    data = subsets.get("with-document", subsets["all"])
    if "standalone" in wanted:
        rows += standalone({name: subsets[name] for name in list(subsets)[:: 2 if given.quick else 1]}, draws)
    if "select" in wanted:
        rows += select(data.only([name for name in METRICS if name in {*wide, *more}]), seeds, given.quick)
    if "unify" in wanted:
        for bank, members in {"lexical": list(LEXICAL), **({"embedding": wide} if embeds else {})}.items():
            rows += unify(data.only(members), bank, {"mixture": mixture, "ridge": ridge}, 3 if given.quick else seeds)
    if "transfer" in wanted and given.to is not None:
        other = load(given.to, wide)
        rows += transfer(
            data.only(wide), other.get("with-document", other["all"]), "embedding" if embeds else "lexical", draws
        )
    columns = ["part", "dataset", "subset", "system", "bank", "split", "n", *QUESTIONS, "paper_overall"]
    columns += ["paper_uses_knowledge", "ciu_ahead_overall", "ciu_ahead_overall_p", "ratio", "paper_ratio", "warned"]
    finish("ciu", rows, columns, given.json)


if __name__ == "__main__":
    main()

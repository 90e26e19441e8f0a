"""Simulated tables with a known mean and agreement, checked by `accord check` and, where installed, by other tools.

    python benchmarks/check_table.py --json OUT [--quick] [--only coverage,automate,pairs,roles,command]

Each table has 600 rows with a judge's score, of which the first 50, 100 or 300 have a label. Rates differ from table to
table. For two values, the share of the upper one is from .1 to .9, the judge's TPR from .7 to .98, and its TNR from .5
to .95. For five values, labels have a random distribution, and the judge adds a bias of -.5 to .8 points and noise of
.5 to 1.2 points, rounded and cut at the ends. Rows hold, per kind, number of labels and figure:

coverage      share of the tables whose 95% interval holds the true value, for all rows that could follow
width         mean width of the interval
tables        tables with an interval; the others say "unknown", each with a reason
truescore-*   the same for truescore's interval from the same table, and the ratio of our mean width to its, on the
              tables with both intervals; its intervals of κ and AC1 are from 500 bootstrap samples
judgekeeper-* the same for judgekeeper's

`automate` has labels with a known error at each confidence, and asks which share of the rows the judge may decide
alone with an error of at most 5%, at 95% confidence. Kinds: a part of the rows is clear (`clear`, `few clear`), the
error rises smoothly (`smooth`), the confidence is noisy and in steps (`steps`), it is worthless (`worthless`), or three
rows of an item are right or wrong together (`items`). The first tables of each cell go through `accord check`, and the
others only through its test. Rows hold, per kind and number of labels:

kept          share of the tables whose rows decided alone have a true error of at most 5%; no row counts as kept
share         mean of the true share of the rows; `oracle` is the largest share with an error of at most 5%
of-oracle     share divided by the oracle's
agree-*       the same for the shares that `accord score --agree` tests
judge-audit-* the same for judge-audit's threshold, with one unit per item, as it does for repeated texts; SciPy's
              quantile of the beta distribution replaces its bisection, which takes seconds and gives the same value
jevcal-*      the same for jevcal's bins: the lowest bin from which the observed error is at most 5%; it states no bound
`pairs` checks tables of pairs with 600 rows: 300 questions, each with the responses of two of 2, 3 or 5 versions in
both orders. Strengths are normal with a standard deviation of .7, and .1 to .3 of people's answers about equal versions
are ties. The judge prefers A in .0 to .3 of the rows, copies people's answer in a share of .5 to .9 of the others, and
guesses in the rest. Labeled rows are random.

`roles` reads tables with random names and forms (`tests/made_tables.py`) in seven ways: `accord.check`, `accord check`,
`accord init --from`, `accord import`, an import in Python, the survey of `accord run` with its files, and an upload.
`alike` is the share of tables with the numbers of ratings of people and of answers of a judge that `accord.check` has,
or its refusal for a column that can be either. Tables without both sides, which a check refuses, are compared with the
import in Python.

`command` times one table of 600 rows and 80 labels in a new process of each tool, and counts the lines that it prints.
The other tools are measured if Python finds them: PYTHONPATH=FOLDER with the content of their wheels.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy
from harness import Row, chosen, earlier_rows, finish, options, rows_of_part
from numpy.typing import NDArray
from typer.testing import CliRunner

import accord
from accord import Project
from accord.cli import commands  # noqa: F401 - registers the commands
from accord.cli.app import app
from accord.edges import BadInput
from accord.project import config_from, survey_files
from accord.statistics import AC1, STATISTICS, TWO_VALUED, MeanStatistic, Paired, fixed_sequence, widest_share
from accord.statistics.resampled_statistics import ordinal_alpha
from accord.store import Imports
from accord.table_check import CheckResult
from accord.values import Estimate, load_rubric
from accord.web.project_editing import ProjectFiles
from accord.web.uploads import Uploads

PARTS = ("coverage", "automate", "pairs", "roles", "command")
KINDS = ("two-valued", "five-valued")
LABELS = (50, 100, 300)
VERSIONS = (2, 3, 5)
TABLES, ROWS = 500, 600
COMMAND_LABELS = 80
Floats = NDArray[np.float64]
Ends = tuple[float, float]


class Table:
    """A simulated table: the labels and scores of its rows, and the true figures of the population that they are from.

    Attributes:
        label: (n,) label of each row, also of those without one in the file.
        score: (n,) score of the judge.
        truth: True value of each figure.
    """

    def __init__(self, kind: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        two = kind == "two-valued"
        options_ = np.array([0.0, 1.0]) if two else np.arange(1.0, 6.0)
        joint = _two_valued(rng) if two else _five_valued(rng, options_)
        cells = rng.choice(joint.size, ROWS, p=joint.ravel())
        label, score = np.unravel_index(cells, joint.shape)
        self.label, self.score = options_[label], options_[score]
        self.truth = _truth(joint, options_, two)


def _two_valued(rng: np.random.Generator) -> Floats:
    """Return the (2, 2) probabilities of label and score."""
    p, tpr, tnr = rng.uniform(0.1, 0.9), rng.uniform(0.7, 0.98), rng.uniform(0.5, 0.95)
    return np.array([[(1 - p) * tnr, (1 - p) * (1 - tnr)], [p * (1 - tpr), p * tpr]])


def _five_valued(rng: np.random.Generator, options_: Floats) -> Floats:
    """Return the (5, 5) probabilities of label and score."""
    labels = rng.dirichlet(np.full(5, 2.0))
    bias, noise = rng.uniform(-0.5, 0.8), rng.uniform(0.5, 1.2)
    upper = scipy.special.ndtr((options_[None, :] + 0.5 - options_[:, None] - bias) / noise)
    upper[:, -1] = 1.0
    return np.asarray(labels[:, None] * np.diff(upper, axis=1, prepend=0.0))


def _truth(joint: Floats, options_: Floats, is_two_valued: bool) -> dict[str, float]:
    """Return the figures of the population from the probabilities of its cells."""
    label, score = (each.ravel() for each in np.indices(joint.shape))
    weight = joint.ravel()
    paired = Paired(options_, label.astype(np.intp), np.zeros((len(label), 0)), options_[score])

    def of(statistic: Any) -> float:
        assert isinstance(statistic, MeanStatistic)
        return float(statistic.finish(weight @ statistic.rows(paired)))

    mean, judge = float(weight @ options_[label]), float(weight @ options_[score])
    truth = {"mean": mean, "bias": judge - mean, "same answer": of(STATISTICS["accuracy"])}
    if is_two_valued:
        return truth | {"Cohen's κ": of(TWO_VALUED["kappa"]), "Gwet's AC1": of(AC1), "TPR": of(TWO_VALUED["tpr"]),
                        "TNR": of(TWO_VALUED["tnr"])}  # fmt: skip
    alpha = ordinal_alpha(len(options_), label.astype(np.intp), score.astype(np.intp), 1e9 * weight[None, :])
    names = {"Cohen's κ, quadratic weights": "weighted_kappa", "r": "pearson", "within one point": "within_one",
             "mean absolute error": "mae"}  # fmt: skip
    return truth | {name: of(STATISTICS[key]) for name, key in names.items()} | {"Krippendorff's α": float(alpha[0])}


# --- coverage ---------------------------------------------------------------------------------------------------------


def our_figures(table: Table, labels: int) -> dict[str, Estimate]:
    """Return the figures of `accord.check`."""
    rows = [
        {"judge": score, "human": label if place < labels else None}
        for place, (score, label) in enumerate(zip(table.score.tolist(), table.label.tolist(), strict=True))
    ]
    try:
        result = accord.check(rows, judge="judge", human="human")
    except BadInput:  # every label is equal
        return {}
    means = {f"mean, {row.method}": row.mean for row in result.means.rows}
    return {**{row.statistic: row.judge for row in result.agreement}, **means, "bias": result.means.bias}


def truescore_figures(truescore: Any, table: Table, labels: int) -> dict[str, Ends]:
    """Return the intervals of truescore for the same figures."""
    place, gold = np.arange(labels), table.label[:labels]
    makers: dict[str, Callable[[], Any]] = {
        "mean, efficient": lambda: truescore.ppi_estimate(table.score, gold, place),
        "mean, PPI++": lambda: truescore.ppi_estimate(table.score, gold, place),
        "mean, the labels alone": lambda: truescore.gold_only_estimate(gold),
    }
    if set(np.unique(table.label)) <= {0.0, 1.0}:
        makers["mean, error rates (Rogan–Gladen)"] = lambda: truescore.rogan_gladen_estimate(table.score, gold, place)
    found = {}
    for name, make in makers.items():
        try:
            each = make()
        except ValueError:  # undefined
            continue
        found[name] = (float(each.low), float(each.high))
    if set(np.unique(table.label)) <= {0.0, 1.0} and 0 < gold.sum() < labels:
        report = truescore.judge_agreement(table.score[:labels], gold, n_bootstrap=500)
        named = {"Cohen's κ": report.cohen_kappa, "Gwet's AC1": report.gwet_ac1, "same answer": report.accuracy,
                 "TPR": report.sensitivity, "TNR": report.specificity}  # fmt: skip
        found |= {name: (float(each.low), float(each.high)) for name, each in named.items()}
    return found


def judgekeeper_figures(metrics: Any, table: Table, labels: int) -> dict[str, Ends]:
    """Return judgekeeper's intervals of two-valued tables."""
    if not set(np.unique(table.label)) <= {0.0, 1.0}:
        return {}
    found = {}
    for name, value in (("TPR", 1.0), ("TNR", 0.0)):
        rows = table.label[:labels] == value
        each = metrics.wilson(int((table.score[:labels][rows] == value).sum()), int(rows.sum()))
        if each["lo"] is not None:
            found[name] = (each["lo"], each["hi"])
    return found


Peer = Callable[[Table, int], Mapping[str, Ends]]
PEERS: Mapping[str, tuple[str, Callable[[Any, Table, int], Mapping[str, Ends]]]] = {
    "truescore": ("truescore", truescore_figures),
    "judgekeeper": ("judgekeeper.metrics", judgekeeper_figures),
}


def peers() -> dict[str, Peer]:
    """Return the other tools that are installed."""
    found: dict[str, Peer] = {}
    for name, (module, figures) in PEERS.items():
        try:
            found[name] = partial(figures, importlib.import_module(module))
        except ImportError:
            print(f"{name} is not installed, and is left out", file=sys.stderr)
    return found


Intervals = dict[str, list[tuple[bool, float]]]


def coverage(tables: int) -> Iterator[Row]:
    """Yield a row per kind, number of labels and figure."""
    others = peers()
    for kind in KINDS:
        for labels in LABELS:
            found: dict[str, Intervals] = defaultdict(lambda: defaultdict(list))
            seconds = 0.0
            for number in range(tables):
                table = Table(kind, 10_000 * labels + number)
                begun = time.perf_counter()
                ours = our_figures(table, labels)
                seconds += (time.perf_counter() - begun) / tables
                _add(found, table, ours, {tool: of(table, labels) for tool, of in others.items()})
            for figure, intervals in found.items():
                row: Row = {"kind": kind, "labels": labels, "figure": figure, "tables": len(intervals["ours"])}
                row |= _summary("", intervals["ours"])
                for tool in others:
                    row |= _summary(f"{tool}-", intervals[tool])
                    if intervals[tool]:
                        row[f"{tool}-ratio"] = _mean_width(intervals[f"{tool}, ours"]) / _mean_width(intervals[tool])
                yield {**row, "seconds": seconds}


def _add(
    found: dict[str, Intervals], table: Table, ours: Mapping[str, Estimate], theirs: Mapping[str, Mapping[str, Ends]]
) -> None:
    """Add the intervals of one table by figure and tool."""
    for figure, each in ours.items():
        if each.low is None or each.high is None or figure == "mean, the judge alone":
            continue
        truth = table.truth["mean" if figure.startswith("mean, ") else figure]
        own = _interval((each.low, each.high), truth)
        found[figure]["ours"].append(own)
        for tool, intervals in theirs.items():
            if figure in intervals and np.isfinite(intervals[figure]).all():
                found[figure][tool].append(_interval(intervals[figure], truth))
                found[figure][f"{tool}, ours"].append(own)


def _interval(ends: Ends, truth: float) -> tuple[bool, float]:
    return ends[0] <= truth <= ends[1], ends[1] - ends[0]


def _mean_width(found: list[tuple[bool, float]]) -> float:
    return float(np.mean([width for _, width in found]))


def _summary(prefix: str, found: list[tuple[bool, float]]) -> Row:
    if not found:
        return {}
    share = float(np.mean([inside for inside, _ in found]))
    return {f"{prefix}coverage": share, f"{prefix}width": _mean_width(found)}


# --- share to automate -----------------------------------------------------------------------------------------------

ERROR = 0.05
AUTOMATE = ("clear", "few clear", "smooth", "steps", "worthless", "items")
AUTOMATE_LABELS = (300, 1000, 3000)
POPULATION = 400_000
CHECKED = 10
"""Tables of each cell that go through `accord check`."""


class Decisions:
    """Simulated rows with a judge's confidence.

    Attributes:
        confidence: (n,) confidence.
        chance: (n,) probability of an error.
        wrong: (n,) True for an error.
        item: (n,) item of each row.
    """

    def __init__(self, kind: str, rows: int, rng: np.random.Generator) -> None:
        size = 3 if kind == "items" else 1
        self.item = np.arange(rows) // size
        u, chosen_ = (rng.random(rows // size + 1)[self.item] for _ in range(2))
        clear = chosen_ < (0.25 if kind == "few clear" else 0.6)
        if kind in ("clear", "few clear", "items"):
            self.chance = np.where(clear, 0.02 * u, 0.05 + 0.4 * u)
        else:
            self.chance = np.full(rows, 0.1) if kind == "worthless" else 0.4 * u**3
        self.confidence = u if kind == "worthless" else 1 - self.chance
        if kind == "steps":  # overconfident, noisy, and rounded
            noisy = self.confidence + rng.normal(0, 0.03, rows)
            self.confidence = np.round(np.clip(1 - (1 - noisy) / 3, 0.5, 1), 2)
        self.wrong = rng.random(rows // size + 1)[self.item] < self.chance


class Population:
    """True share and true error of the rows at and above each confidence."""

    def __init__(self, kind: str) -> None:
        rows = Decisions(kind, POPULATION, np.random.default_rng(0))
        order = np.argsort(-rows.confidence)
        self._sure = rows.confidence[order]
        self._error = np.cumsum(rows.chance[order]) / np.arange(1, POPULATION + 1)
        last = np.flatnonzero(np.append(self._sure[1:] < self._sure[:-1], True))  # whole steps
        fits = last[self._error[last] <= ERROR]
        self.oracle = float((fits[-1] + 1) / POPULATION) if len(fits) else 0.0

    def of(self, threshold: float | None) -> tuple[float, bool]:
        """Return the true share of a threshold, and whether its error is at most the limit."""
        count = 0 if threshold is None else int(np.searchsorted(-self._sure, -threshold, side="right"))
        return count / POPULATION, count == 0 or bool(self._error[count - 1] <= ERROR)


Threshold = Callable[[Decisions], float | None]


def our_threshold(rows: Decisions) -> float | None:
    """Return the threshold of the test of `accord.check`."""
    passed, _ = widest_share(rows.confidence, rows.wrong, rows.item, ERROR)
    return None if passed is None else passed.threshold


def checked_threshold(rows: Decisions) -> float | None:
    """Return the threshold of `accord.check`."""
    answer = np.arange(len(rows.wrong)) % 2
    columns = zip(answer.tolist(), (answer ^ rows.wrong).tolist(), rows.confidence.tolist(), rows.item.tolist(),
                  strict=True)  # fmt: skip
    table = [{"judge": judge, "human": human, "confidence": sure, "item": item} for judge, human, sure, item in columns]
    found = accord.check(table, error=ERROR).automation
    return None if found is None else found.threshold


def agree_threshold(rows: Decisions) -> float | None:
    """Return the threshold of the shares of `accord score --agree`."""
    passed, _ = fixed_sequence(rows.confidence, ~rows.wrong, rows.item, 1 - ERROR)
    return None if passed is None else passed.threshold


def judge_audit_threshold(selective: Any, rows: Decisions) -> float | None:
    """Return the threshold of judge-audit, with the start that it chooses by default."""
    selective._beta_quantile = lambda p, a, b: float(scipy.special.betaincinv(a, b, p))
    sure, right = rows.confidence.tolist(), (~rows.wrong).tolist()
    sure, right = selective.aggregate_by_group(sure, right, rows.item.tolist())
    found = selective.certify_threshold(sure, right, ERROR, start_errors=2)["threshold"]
    return None if found is None else float(found)


def jevcal_threshold(calibration: Any, rows: Decisions) -> float | None:
    """Return the lower end of jevcal's lowest bin from which the observed error is at most the limit."""
    sample = importlib.import_module("jevcal").CalibrationSample
    samples = [
        sample(predicted_probability=sure, correct=right)
        for sure, right in zip(rows.confidence.tolist(), (~rows.wrong).tolist(), strict=True)
    ]
    rows_above, wrong, found = 0, 0.0, None
    for each in reversed(calibration.compute_reliability_diagram(samples, 20)):
        rows_above += each.sample_count
        wrong += each.sample_count * (1 - each.observed_frequency)
        if each.sample_count and wrong / rows_above <= ERROR:
            found = float(each.bin_start)
    return found


DECIDERS: Mapping[str, tuple[str, Callable[[Any, Decisions], float | None]]] = {
    "judge-audit": ("judge_audit.metrics.selective", judge_audit_threshold),
    "jevcal": ("jevcal.calibration", jevcal_threshold),
}


def automate(tables: int) -> Iterator[Row]:
    """Yield a row per kind and number of labels."""
    deciders: dict[str, Threshold] = {"": our_threshold, "agree-": agree_threshold}
    for name, (module, of) in DECIDERS.items():
        try:
            deciders[f"{name}-"] = partial(of, importlib.import_module(module))
        except ImportError:
            print(f"{name} is not installed, and is left out", file=sys.stderr)
    for kind in AUTOMATE:
        population = Population(kind)
        for labels in AUTOMATE_LABELS:
            row: Row = {"kind": f"automate, {kind}", "labels": labels, "tables": tables, "oracle": population.oracle}
            found: dict[str, list[tuple[float, bool]]] = defaultdict(list)
            for number in range(tables):
                rows = Decisions(kind, labels, np.random.default_rng([labels, number]))
                if number < CHECKED and checked_threshold(rows) != our_threshold(rows):
                    raise AssertionError(f"{kind}, {labels} labels, table {number}: accord check has another threshold")
                for name, decide in deciders.items():
                    found[name].append(population.of(decide(rows)))
            for name, each in found.items():
                share = float(np.mean([share for share, _ in each]))
                row |= {f"{name}kept": float(np.mean([kept for _, kept in each])), f"{name}share": share}
                if population.oracle:
                    row[f"{name}of-oracle"] = share / population.oracle
            print(row, file=sys.stderr)
            yield row


# --- pairs ------------------------------------------------------------------------------------------------------------


def pair_table(versions: int, labels: int, seed: int) -> tuple[list[dict[str, Any]], dict[str, dict[str, float]]]:
    """Return the rows of a table of pairs, and the true value of each figure by version, or by an empty name."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(0, 0.7, versions)
    strength -= strength.mean()
    win = scipy.special.expit(strength[:, None] - strength[None, :])
    ties, copied, favors = rng.uniform(0.1, 0.3), rng.uniform(0.5, 0.9), rng.uniform(0.0, 0.3)
    names = [f"v{place}" for place in range(versions)]

    def preference(share: float, tie: float) -> float:
        tie *= 4 * share * (1 - share)  # half a tie is a win, so that the share stays
        drawn = rng.random()
        return 0.5 if drawn < tie else float(drawn < tie + share - tie / 2)

    rows = []
    for question in range(ROWS // 2):
        one, other = rng.choice(versions, 2, replace=False)
        person = preference(win[one, other], ties)
        for first, second, said in ((one, other, person), (other, one, 1 - person)):
            judged = said if rng.random() < copied else float(rng.choice([0.0, 0.5, 1.0]))
            judged = 1.0 if rng.random() < favors else judged
            rows.append({
                "item": question, "model_a": names[first], "model_b": names[second], "judge_winner": _side(judged),
                "human_winner": _side(said),
            })  # fmt: skip
    for row in rng.permutation(len(rows))[labels:]:
        rows[row]["human_winner"] = None
    return rows, {
        "win rate": dict(zip(names, (win.sum(axis=1) - 0.5) / (versions - 1), strict=True)),
        "strength": dict(zip(names, strength.tolist(), strict=True)),
        "rate of preferring A": {"": 0.5},
        "same position twice": {"": _same_position(win, ties, copied, favors)},
    }


def _side(value: float) -> str:
    return {1.0: "a", 0.5: "tie", 0.0: "b"}[value]


def _same_position(win: Floats, ties: float, copied: float, favors: float) -> float:
    """Return the probability that the judge prefers the same position in both orders of a pair."""
    share = win[~np.eye(len(win), dtype=bool)]
    tie = ties * 4 * share * (1 - share)
    people = np.stack([share - tie / 2, tie, 1 - share - tie / 2])  # prefers the first version, a tie, the second
    guess = (1 - copied) / 3
    upper = favors + (1 - favors) * (guess + copied * np.eye(3))  # P(A | person), for A, tie, B in this order
    lower = (1 - favors) * (guess + copied * np.eye(3))
    first, second = upper[0], lower[2]
    return float((people * (first * first[::-1] + second * second[::-1])[:, None]).sum(axis=0).mean())


def pairs(tables: int) -> Iterator[Row]:
    """Yield a row per number of versions, of labels, and figure."""
    for versions in VERSIONS:
        for labels in LABELS:
            found: dict[str, list[tuple[bool, float]]] = defaultdict(list)
            seconds = 0.0
            for number in range(tables):
                rows, truth = pair_table(versions, labels, 10_000 * labels + number)
                begun = time.perf_counter()
                result = accord.check(rows)
                seconds += (time.perf_counter() - begun) / tables
                assert result.pairs is not None
                figures = {("strength", each.version): each.strength for each in result.pairs.strengths}
                figures |= {
                    ("win rate", each.system): Estimate(each.mean, each.low, each.high)
                    for each in result.systems.systems
                }
                figures["rate of preferring A", ""] = result.means.corrected
                figures["same position twice", ""] = result.pairs.same_position
                for (figure, name), each in figures.items():
                    if each.low is not None and each.high is not None:
                        found[figure].append(_interval((each.low, each.high), truth[figure][name]))
            for figure in truth:
                yield {
                    "kind": f"{versions} versions", "labels": labels, "figure": figure, "tables": tables,
                    "intervals": len(found[figure]), **_summary("", found[figure]), "seconds": seconds,
                }  # fmt: skip


# --- the commands -----------------------------------------------------------------------------------------------------


def command() -> Iterator[Row]:
    """Yield the time and the printed lines of one check of each tool."""
    table = Table("two-valued", 0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.csv"
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["item", "judge", "human"])
            for place, (label, score) in enumerate(zip(table.label, table.score, strict=True)):
                writer.writerow([place, _word(score), _word(label) if place < COMMAND_LABELS else ""])
        named = ["--judge", "judge", "--human", "human"]
        commands = {
            "accord check": ["-m", "accord", "check", str(path)],
            "truescore audit": ["-c", "import sys; from truescore.cli import main; sys.exit(main())", "audit",
                                str(path), "--judge", "judge", "--gold", "human"],
            "judgekeeper check": ["-m", "judgekeeper", "check", str(path), *named],
        }  # fmt: skip
        for name, arguments in commands.items():
            if name != "accord check" and importlib.util.find_spec(name.split()[0]) is None:
                continue
            times = []
            for _ in range(3):
                begun = time.perf_counter()
                done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=folder)
                times.append(time.perf_counter() - begun)
            lines = len((done.stdout + done.stderr).splitlines())
            yield {"kind": "command", "figure": name, "seconds": min(times), "lines": lines, "exit": done.returncode}


def _word(value: float) -> str:
    return "pass" if value else "fail"


# --- roles of columns -------------------------------------------------------------------------------------------------

TABLES_OF_ROLES = 200
Counted = tuple[int, int] | str
"""Numbers of ratings of people and of answers of a judge; or the reason why a table is refused."""


def roles(tables: int) -> Iterator[Row]:
    """Yield a row per way to read a table, with the share of the tables that it reads as the others do."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from made_tables import made_table

    alike: dict[str, list[bool]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(tables):
            made = made_table(seed)
            own = Path(folder) / str(seed)
            own.mkdir()
            files = [own / "table.csv"]
            pl.DataFrame(made.rows, infer_schema_length=None).write_csv(files[0])
            if not made.has_text:
                files.insert(0, own / "chats.csv")
                pl.DataFrame(made.conversations).write_csv(files[0])
            found = {way: read(files, own) for way, read in WAYS.items()}
            base = found["accord.check"]
            base = found["import in Python"] if isinstance(base, str) and base != UNCLEAR else base
            for way, counted in found.items():
                is_check = way.endswith(" check") or way == "accord.check"
                lacks = is_check and isinstance(counted, str) and counted != UNCLEAR and 0 in base
                alike[way].append(counted == base or lacks)
    for way, same in alike.items():
        yield {"kind": "roles", "figure": way, "tables": tables, "alike": float(np.mean(same))}


UNCLEAR = "can hold ratings of people or answers of a model"


def _said(error: str) -> str:
    return UNCLEAR if UNCLEAR in error else error


def _counted(result: CheckResult | dict[str, Any]) -> Counted:
    found = result if isinstance(result, dict) else {**result.to_json(), "labels_by": result.labels_by}
    columns = found["columns"]
    is_long = "annotator" in columns and "gpt" not in columns["judge"]
    runs = len(columns["judge"].split(", "))
    return sum(found["labels_by"].values()), (found["rows"] if is_long else found["judged"]) * runs


def _checked(files: list[Path], own: Path) -> Counted:
    try:
        return _counted(accord.check(files[-1]))
    except BadInput as error:
        return _said(str(error))


def _command(*words: str) -> Any:
    """Return the JSON of a command, or its error."""
    done = CliRunner().invoke(app, [*words, "--json"], prog_name="accord")
    return json.loads(done.stdout) if done.exit_code == 0 else _said(done.output)


def _by_command(files: list[Path], own: Path) -> Counted:
    found = _command("check", str(files[-1]))
    if isinstance(found, str):
        return found
    by_person = accord.check(files[-1]).labels_by  # the command prints no count by person
    return _counted({**found, "labels_by": by_person})


def _by_init(files: list[Path], own: Path) -> Counted:
    folder = own / "init"
    folder.mkdir()
    with contextlib.chdir(folder):
        found = _command(
            "init", "--from", str(files[-1]), *(word for file in files[:-1] for word in ("--from", str(file)))
        )
    return found if isinstance(found, str) else (sum(found["raters"].values()), sum(found["judges"].values()))


def _by_import(files: list[Path], own: Path) -> Counted:
    folder = own / "import"
    folder.mkdir()
    with contextlib.chdir(folder):
        Path("accord.yaml").write_text("store: sqlite:///store.db\n", encoding="utf-8")
        found = _command("import", *map(str, files))
    return found if isinstance(found, str) else (sum(found["raters"].values()), sum(found["judges"].values()))


def _imported(files: list[Path], own: Path) -> Counted:
    rubric = load_rubric("llm-rubric")
    with Project(config_from({"store": "sqlite:///:memory:"}), rubric) as project:
        try:
            done = project.import_(list(files))
        except BadInput as error:
            return _said(str(error))
        return len(list(project.store.labels())), done.judged.judges.total()


def _by_run(files: list[Path], own: Path) -> Counted:
    try:
        found = survey_files(files)
    except BadInput as error:
        return _said(str(error))
    return sum(found.people.values()), found.judges.total()


def _uploaded(files: list[Path], own: Path) -> Counted:
    folder = own / "upload"
    folder.mkdir()
    config = folder / "accord.yaml"
    config.write_text("store: 'sqlite:///:memory:'\n", encoding="utf-8")
    rubric = load_rubric("llm-rubric")
    with Project(config_from({"store": "sqlite:///:memory:"}), rubric) as project:
        uploads = Uploads()
        uploads.start(project, ProjectFiles(config), files, False, lambda: project)
        while uploads.is_running:
            time.sleep(0.005)
        state = uploads.state
        assert state is not None
        if state.error:
            return _said(state.error)
        record = next(each for each in Imports(project.store).known() if each.id == state.id)
        return len(list(project.store.labels())), sum(record.results["judges"].values())


WAYS: dict[str, Callable[[list[Path], Path], Counted]] = {
    "accord.check": _checked, "accord check": _by_command, "accord init --from": _by_init, "accord import": _by_import,
    "import in Python": _imported, "accord run": _by_run, "upload": _uploaded,
}  # fmt: skip


def _part(row: Row) -> str:
    """Return the part of a stored row."""
    kind = str(row.get("kind", row.get("what")))
    if kind.endswith(" versions"):
        return "pairs"
    if kind == "roles":
        return kind
    return "automate" if kind.startswith("automate") else kind if kind in PARTS else "coverage"


def main() -> None:
    """Measure coverage and width, and the commands."""
    parser = options("check_table", __doc__ or "", PARTS)
    arguments = parser.parse_args()
    tables = arguments.limit or (20 if arguments.quick else TABLES)
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "coverage": lambda: coverage(tables), "automate": lambda: automate(tables),
        "pairs": lambda: pairs(tables), "roles": lambda: roles(min(tables, TABLES_OF_ROLES)),
        "command": command,
    }  # fmt: skip
    asked = chosen(parser, arguments.only, PARTS)
    rows = [] if arguments.only is None else earlier_rows(arguments.json, lambda row: _part(row) not in asked)
    rows += [row for part in asked for row in rows_of_part(part, parts[part])]
    columns = ["kind", "labels", "figure", "tables", "coverage", "width", "truescore-coverage", "truescore-width",
               "truescore-ratio", "judgekeeper-coverage", "judgekeeper-width", "judgekeeper-ratio", "oracle", "alike",
               "kept", "share", "of-oracle", "agree-kept", "agree-of-oracle", "judge-audit-kept",
               "judge-audit-of-oracle", "jevcal-kept", "jevcal-of-oracle", "seconds", "lines"]  # fmt: skip
    finish("check_table", rows, columns, arguments.json)


if __name__ == "__main__":
    main()

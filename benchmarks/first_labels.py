"""Held-out error of the default evaluator from the tenth label on, next to simple scikit-learn models.

    python benchmarks/first_labels.py --data ../shared/data --json OUT [--only topical_usr,...] [--quick]

Each split (0 to 9) holds out a random 30% of the groups (dialogues, or replies with identical context). The evaluator
`default` and the simple models learn from the ratings of 10, 20, 40, 80 or all other conversations and predict the
held-out ratings for a new annotator. Rows hold, per data set and size, means over the splits with 95% t-intervals:

ratio-to-constant   RMSE over that of the mean rating
ratio-to-simple     RMSE over that of the best simple model, which is chosen on the held-out ratings
ratio-known         RMSE for the annotators of the ratings over that for a new annotator
missing             held-out ratings without a score
coverage, width     share of held-out ratings inside the 90% bands, and their mean width in units of the scale

Simple models: ridge on the judge's answers, ridge, boosting and trees on these and ten counts of words, ridge on the
counts, the mean of the judge's standardized answers, and the mean of the last and the trees.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy
from harness import Row, chosen, data_folder, finish, options
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from accord import Project
from accord import open as open_project
from accord.evidence import EvidenceTable, Ratings, ratings
from accord.learning import Calibration
from accord.project import Config
from accord.report import RunOptions
from accord.values import Conversation, Labels, Question, Score
from accord.verbs import run_project

SETS = {
    "topical_usr": "Overall", "llm_rubric_real": "Q0", "llm_rubric_synth": "Q0", "abc_eval": "irrelevant",
    "uss": "satisfaction",
}  # fmt: skip
"""Main question of each data set."""
SIZES = (10, 20, 40, 80, 0)
"""Numbers of rated conversations; 0 takes all."""
SPLITS, TEST_SHARE = 10, 0.3
PRIOR_SLOPE, PRIOR_WEIGHT = 0.35, 10
FIGURES = ("ratio-to-constant", "ratio-to-simple", "ratio-known", "coverage", "width")
Floats = NDArray[np.float64]


class DataSet(NamedTuple):
    """Evidence, labels and ten counts of words of one data set."""

    name: str
    question: Question
    evidence: EvidenceTable
    labels: Labels
    counts: Floats
    judge: Floats

    @property
    def rated(self) -> Ratings:
        """The ratings as arrays."""
        return ratings(self.evidence, self.labels, self.question)


def load(folder: Path, question: str) -> DataSet:
    """Import a data set as `accord run` does, and measure the evidence of its rated targets."""
    with tempfile.TemporaryDirectory() as work:
        out = Path(work, "out")
        config = Config(store=f"sqlite:///{out / 'accord.db'}")
        run_project(config, [folder], out, options=RunOptions(main=question, evaluator="constant"))
        with open_project(out / "accord.yaml") as project:
            return _measured(project, folder.name)


def _measured(project: Project, name: str) -> DataSet:
    evaluator = project.evaluator("default")
    train, _ = project.training(evaluator)
    evidence = project.measure(evaluator.sources, train.samples)
    answers = evidence.expected()
    judged = [place for place, column in enumerate(answers.columns) if column.question is not None]
    judge = np.where(answers.present, answers.values, np.nan)[:, judged]
    counts = np.array([word_counts(sample.conversation, sample.turn) for sample in train.samples])
    return DataSet(name, project.question, evidence, train.labels, counts, judge)


def word_counts(conversation: Conversation, turn: int | None) -> list[float]:
    """Return ten counts of the words up to a turn, or of a whole conversation."""
    turns = conversation.turns if turn is None else conversation.turns[: turn + 1]
    messages = [re.findall(r"\w+", each.content.lower()) for each in turns]
    messages = messages or [[]]
    reply, before = messages[-1], messages[-2] if len(messages) > 1 else []
    words = [word for message in messages for word in message]
    earlier = {word for message in messages[:-1] for word in message}
    documents = set(re.findall(r"\w+", " ".join(document.text for document in conversation.documents).lower()))
    return [
        len(reply), len(set(reply)) / max(len(reply), 1), len(set(reply) & set(before)), len(set(reply) & documents),
        len(messages), len(words), len(set(words)) / max(len(words), 1),
        float(bool(turns) and "?" in turns[-1].content),
        float(np.mean([len(word) for word in reply])) if reply else 0.0, len(set(reply) - earlier),
    ]  # fmt: skip


def simple_predictions(data: DataSet, train: Ratings, test: Ratings) -> dict[str, Floats]:
    """Return the predictions of each simple model for the test ratings."""

    def ridge() -> object:
        return make_pipeline(SimpleImputer(), StandardScaler(), RidgeCV(np.logspace(-1, 4, 20)))

    def trees() -> object:
        return make_pipeline(SimpleImputer(), ExtraTreesRegressor(200, min_samples_leaf=5, random_state=0))

    def boosting() -> object:
        return HistGradientBoostingRegressor(max_depth=3, learning_rate=0.05, max_iter=120)

    both = np.hstack([data.judge, data.counts])
    predictions = {"constant": np.full(len(test), train.value.mean())}
    kinds = {"ridge judge": (data.judge, ridge), "ridge": (both, ridge), "boosting": (both, boosting),
             "trees": (both, trees), "ridge counts": (data.counts, ridge)}  # fmt: skip
    for name, (table, make) in kinds.items():
        known = ~np.isnan(table[train.row]).all(axis=0)
        if known.any():
            model = make().fit(table[train.row][:, known], train.value)  # type: ignore[attr-defined]
            predictions[name] = model.predict(table[test.row][:, known])
    if data.judge.shape[1]:
        predictions["judge mean"] = judge_mean(data.judge, train, test)
        predictions["trees and judge mean"] = (predictions["trees"] + predictions["judge mean"]) / 2
    return predictions


def judge_mean(judge: Floats, train: Ratings, test: Ratings) -> Floats:
    """Return the mean of standardized judge columns, its slope shrunk to .35 standard deviations of the ratings."""
    z = (judge - np.nanmean(judge, axis=0)) / (np.nanstd(judge, axis=0) + 1e-9)
    mean = np.nan_to_num(np.nanmean(z, axis=1))
    x, y = mean / (mean.std() + 1e-9), train.value
    seen = x[train.row]
    slope = (seen @ (y - y.mean()) + PRIOR_WEIGHT * PRIOR_SLOPE * y.std()) / (seen @ seen + PRIOR_WEIGHT)
    return np.asarray(y.mean() + slope * (x[test.row] - seen.mean()))


def one_split(data: DataSet, size: int, split: int) -> dict[str, float]:
    """Return the figures of one split."""
    rated, random = data.rated, np.random.default_rng(split)
    groups = random.permutation(sorted(set(map(str, rated.group))))
    held_out = set(groups[: int(TEST_SHARE * len(groups))])
    is_test = np.array([str(group) in held_out for group in rated.group])
    texts = random.permutation(np.unique(rated.row[~is_test]))
    kept = np.isin(rated.row, texts[: size or None]) & ~is_test
    train, test = rated.take(np.flatnonzero(kept)), rated.take(np.flatnonzero(is_test))
    targets = frozenset(train.target)
    labels = Labels(
        (label for label in data.labels.on(data.question.id) if label.target in targets), data.labels.groups
    )
    head = Calibration(data.question).fit(data.evidence.take(np.unique(train.row)), labels)
    table = data.evidence.take(test.row)
    new = head.predict_each(table, [None] * len(test))
    known = head.predict_each(table, list(test.annotator))
    scored = np.flatnonzero([isinstance(score, Score) for score in new])
    errors = {name: _rmse(value[scored], test, scored) for name, value in simple_predictions(data, train, test).items()}
    error, error_known = (
        _rmse(np.array([scores[row].value for row in scored]), test, scored)  # type: ignore[union-attr]
        for scores in (new, known)
    )
    bands = np.array([new[row].band for row in scored])  # type: ignore[union-attr]
    inside = (test.value[scored] >= bands[:, 0] - 1e-9) & (test.value[scored] <= bands[:, 1] + 1e-9)
    figures = error / errors["constant"], error / min(errors.values()), error_known / error
    width = bands[:, 1] - bands[:, 0]
    return {
        **dict(zip(FIGURES, (*figures, float(inside.mean()), float(width.mean())), strict=True)),
        "missing": len(test) - len(scored),
    }


def _rmse(value: Floats, test: Ratings, rows: NDArray[np.intp]) -> float:
    return float(np.sqrt(np.mean((value - test.value[rows]) ** 2)))


def summary(name: str, size: int, splits: Sequence[dict[str, float]]) -> Row:
    """Return the means over the splits with t-intervals, and the highest ratio to the constant."""
    row: Row = {"set": name, "size": size or "all", "splits": len(splits)}
    for figure in FIGURES:
        values = np.array([split[figure] for split in splits])
        row[figure] = mean = float(values.mean())
        if len(values) > 1:
            reach = float(scipy.stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
            row |= {f"{figure}_low": mean - reach, f"{figure}_high": mean + reach}
    row["worst-to-constant"] = max(split["ratio-to-constant"] for split in splits)
    row["missing"] = int(sum(split["missing"] for split in splits))
    return row


def main() -> None:
    """Measure every data set, and the mean over them."""
    parser = options("first_labels", __doc__ or "", tuple(SETS))
    arguments = parser.parse_args()
    folder = data_folder(parser, arguments.data)
    splits = 1 if arguments.quick else SPLITS
    rows: list[Row] = []
    by_size: dict[int, list[Row]] = defaultdict(list)
    warnings.filterwarnings("ignore", category=RuntimeWarning)  # columns without any value
    for name in chosen(parser, arguments.only, tuple(SETS)):
        data = load(folder / name, SETS[name])
        for size in SIZES[:2] if arguments.quick else SIZES:
            row = summary(name, size, [one_split(data, size, split) for split in range(splits)])
            rows.append(row)
            by_size[size].append(row)
    for size, own in by_size.items():
        means = {figure: float(np.mean([row[figure] for row in own])) for figure in FIGURES}
        highest = max(float(row["worst-to-constant"]) for row in own)
        rows.append({"set": "mean", "size": size or "all", **means, "worst-to-constant": highest})
    finish("first_labels", rows, ["set", "size", *FIGURES, "worst-to-constant", "missing"], arguments.json)


if __name__ == "__main__":
    main()

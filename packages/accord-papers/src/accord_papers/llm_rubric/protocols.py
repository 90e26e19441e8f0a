"""Protocols and systems on LLM-RUBRIC's released data: the same rows and folds for every system.

S          5-fold over the synthetic dialogues; every choice is made inside the training folds.
T          trained on all synthetic rows, tested once on the real ones as a new domain.
T+k        T, then adapted with k labeled real dialogues per annotator, tested on the rest.
R          5-fold inside the real set.
by-system  trained on four synthetic systems, tested on the fifth, by domain_correlation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from accord.edges import AccordError, BadInput
from accord.evidence import (
    EvidenceTable,
    Ratings,
    ratings,
)
from accord.evidence.rubric_answers import judge_samples
from accord.formats import read
from accord.learning import (
    Calibration,
    Constant,
    Head,
    JudgeExpected,
    RandomDraw,
)
from accord.learning.answer_models.network.answers import PAPER
from accord.learning.baselines import (
    AnnotatorMean,
    JudgeArgmax,
)
from accord.models import RecordedJudge
from accord.statistics import (
    STATISTICS,
    Clusters,
    MeanStatistic,
    Paired,
    bootstrap,
    grouped_folds,
    holm,
    paired_test,
)
from accord.statistics.agreement import (
    lowest_rmse,
    smece_by_option,
)
from accord.store import Store
from accord.values import (
    Conversation,
    Labels,
    Question,
    Rubric,
    Sample,
    Score,
    content_hash,
    load_rubric,
)
from accord.values.rubric import Applies
from accord_papers.study import Row, spread_of

FOLD_SEEDS = range(43, 53)
ADAPTED_ON = (1, 2, 4, 8)
DOMAIN_CORRELATIONS = (0.0, 0.25, 0.5, 0.75, 1.0)
WITH_EMPTY_CELLS = {("lrs-V2_21", "judge7"), ("lrs-V5_45", "judge22")}
"""Two rows with an empty cell (Q7; Q4), which the paper's authors leave out."""
COMPARABLE = (660, 223, "s256:ff587d840cc2d13dd707ad232303222955147dab4f9444ac468d2ab7ac35ab95")
"""Rows, dialogues, and the digest of the manifest of synthetic rows."""
SHOWN = ("rmse", "pearson", "spearman", "kendall", "log_loss", "coverage")
TESTED = ("rmse", "pearson", "log_loss")
SHIFTED = ("system",)
"""Groups that the network is shifted by: each conversation's chat system."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DataSet:
    """One of the two sets: conversations, recorded answers and comparable ratings."""

    name: str
    system_of: Mapping[str, str | None]
    evidence: EvidenceTable
    labels: Labels
    question: Question

    @property
    def rated(self) -> Ratings:
        """The ratings as arrays."""
        return ratings(self.evidence, self.labels, self.question)

    def of_groups(self, groups: Iterable[str]) -> tuple[EvidenceTable, Labels]:
        """Return the evidence and the labels of some groups; a group is a dialogue unless a project has larger ones."""
        names = frozenset(groups)
        return self.evidence.filter(names, self.labels.group_of), self.labels.filter(names)


def load(folder: Path, name: str, rubric: Rubric, judge: RecordedJudge) -> DataSet:
    """Read one set; the recorded judge's answers are used unchanged, as by the paper's authors."""
    records = list(read(folder / name))
    conversations = [record.conversation for record in records]
    evidence = judge_samples(judge, rubric, [Sample(c) for c in conversations], Store("sqlite:///:memory:"))
    answered = [row for row in range(len(evidence)) if evidence.present[row].all()]
    labels = Labels(label for record in records for label in record.labels)
    known = frozenset(evidence.targets[row] for row in answered)
    rated = {(x.target, x.annotator) for x in labels.on(rubric.main) if x.target in known}
    rated -= {who for who in rated if (who[0].conversation, who[1]) in WITH_EMPTY_CELLS}
    kept = Labels(x for x in labels if x.value is not None and (x.target, x.annotator) in rated)
    return DataSet(name, systems(conversations), evidence.take(answered), kept, rubric.main_question)


def both(folder: Path) -> tuple[DataSet, DataSet]:
    """Return the synthetic and the real set, with every question asked of every dialogue."""
    names = ("llm_rubric_synth", "llm_rubric_real")
    judge = RecordedJudge.read([folder / name for name in names])
    synth, real = (load(folder, name, asked_always(), judge) for name in names)
    return synth, real


def asked_always() -> Rubric:
    """The paper's rubric with every question asked of every dialogue."""
    shipped = load_rubric("llm-rubric")
    always = tuple(question.model_copy(update={"applies": Applies.ALWAYS}) for question in shipped.questions)
    return shipped.model_copy(update={"questions": always})


def systems(conversations: Sequence[Conversation]) -> dict[str, str | None]:
    """Return the assistant of each conversation."""
    return {conversation.id: conversation.system for conversation in conversations}


# --- systems ------------------------------------------------------------------------------------------------------


class Predicted(NamedTuple):
    """Values (n,), and probabilities (n, K) and bands (n, 2) if the system gives them."""

    value: Floats
    shares: Floats | None = None
    band: Floats | None = None


Predict = Callable[[EvidenceTable, Labels, EvidenceTable, Sequence[str]], Predicted]
"""Maps training evidence and labels, and test rows with their annotators, to predictions."""


def learned(make: Callable[[], Head], in_new_domain: bool = False) -> Predict:
    """Return a head as a system that fits and predicts each row for its own annotator."""

    def predict(train: EvidenceTable, labels: Labels, test: EvidenceTable, annotators: Sequence[str]) -> Predicted:
        head = make().fit(train, labels)
        return predictions(head.in_new_domain() if in_new_domain else head, test, annotators)

    return predict


def predictions(head: Head, test: EvidenceTable, annotators: Sequence[str]) -> Predicted:
    """Return the predictions of a fitted head.

    Raises:
        BadInput: A row is unscored, which no row of the public data is.
    """
    found = head.predict_each(test, list(annotators))
    scores = [score for score in found if isinstance(score, Score)]
    if unscored := [score.reason for score in found if not isinstance(score, Score)]:
        raise BadInput(f"{len(unscored)} of {len(found)} ratings have no prediction: {unscored[0]}")
    bands = [score.band for score in scores if score.band is not None]
    shares = np.array([score.probabilities for score in scores])
    return Predicted(np.array([s.value for s in scores]), shares, np.array(bands) if bands else None)


def authors_network(question: Question, shift_groups: Sequence[str] = SHIFTED, **changed: Any) -> Calibration:
    """The paper's network (eq. 1 to 5), a cell of its grid with results like the authors' stored settings.

    Args:
        question: Question to predict.
        shift_groups: Groups whose bias on inner folds Accord removes (footnote 17); the paper removes none.
        changed: Settings of the network that differ.
    """
    settings = {**vars(PAPER), **changed}
    return Calibration(question, answer_model="network", network=settings, shift_groups=shift_groups)


def regressed(make: Callable[[], RegressorMixin], question: Question, by_system: bool = False) -> Predict:
    """Peer: a regression of scikit-learn on the nine expected answers and one indicator per annotator.

    Args:
        make: Function that returns an unfitted model.
        question: Question to predict; its values come without a distribution.
        by_system: True to add one indicator per chat system.
    """

    def predict(train: EvidenceTable, labels: Labels, test: EvidenceTable, annotators: Sequence[str]) -> Predicted:
        rated = ratings(train, labels, question)
        taken = train.take(rated.row)
        people, systems = sorted(set(rated.annotator)), sorted(set(_systems_in(taken))) if by_system else []

        def matrix(evidence: EvidenceTable, who: Sequence[str]) -> Floats:
            known = evidence.expected()
            values = np.where(known.present, known.values, np.nan)
            return np.hstack([values, _indicators(who, people), _indicators(_systems_in(evidence), systems)])

        model = make().fit(matrix(taken, list(rated.annotator)), rated.value)
        return Predicted(np.asarray(model.predict(matrix(test, annotators))))

    return predict


def _systems_in(evidence: EvidenceTable) -> list[str]:
    return [str(evidence.metadata.get(target, {}).get("system")) for target in evidence.targets]


def _indicators(names: Sequence[str], known: Sequence[str]) -> Floats:
    """Return (n, m) 1 where a row has a known name."""
    return np.array([[name == one for one in known] for name in names], dtype=float).reshape(len(names), len(known))


def ridge() -> RegressorMixin:
    """Ridge regression; its penalty is chosen on the training side."""
    return make_pipeline(_imputer(), StandardScaler(), RidgeCV(np.logspace(0, 4, 17)))


def trees() -> RegressorMixin:
    """Extremely randomized trees with leaves of at least five ratings."""
    return make_pipeline(_imputer(), ExtraTreesRegressor(100, min_samples_leaf=5, random_state=0))


def _imputer() -> SimpleImputer:
    """Replace a missing answer by the mean of the training side; the public data have none."""
    return SimpleImputer(keep_empty_features=True)


def alone(make: Predict, question: str) -> Predict:
    """The paper's table 1, row 4: the judge's answer to one question as the only evidence."""

    def only(evidence: EvidenceTable) -> EvidenceTable:
        return evidence.select([i for i, column in enumerate(evidence.columns) if column.question == question])

    return lambda train, labels, test, annotators: make(only(train), labels, only(test), annotators)


WITHOUT_SHIFT, WITH_SHIFT = "without shift by system", "with shift by system"
NETWORK = "the authors' network"


def all_systems(question: Question, new_domain: bool) -> dict[str, Predict]:
    """Return our system first, then its variants, the peers and the baselines.

    Accord shifts the scores of chat systems that are biased on inner folds, unless the domain is new, and so can the
    head of the paper's network: both are measured with the shift and without. `accord` has it.
    """
    calibration = partial(Calibration, question)
    named = {"accord": learned(calibration, new_domain)}
    if new_domain:
        named["mixed, habits trusted wholly"] = learned(calibration)
    else:
        named[f"accord, {WITHOUT_SHIFT}"] = learned(partial(calibration, shift_groups=()))
    named["mixed, without own slopes"] = learned(partial(calibration, own_slopes=False), new_domain)
    if not new_domain:
        named[f"{NETWORK}, {WITH_SHIFT}"] = learned(partial(authors_network, question))
        named[f"{NETWORK}, {WITHOUT_SHIFT}"] = learned(partial(authors_network, question, shift_groups=()))
    named["calibrated Q0 alone"] = alone(learned(calibration, new_domain), question.id)
    for name, make in (("ridge", ridge), ("trees", trees)):
        named[name] = regressed(make, question)
        if not new_domain:
            named[f"{name}, with the system"] = regressed(make, question, by_system=True)
    for kind in (AnnotatorMean, Constant, JudgeExpected, JudgeArgmax, RandomDraw):
        named[kind.method] = learned(partial(kind, question))
    return named


# --- protocols ----------------------------------------------------------------------------------------------------


def cross_validated(predict: Predict, data: DataSet, seeds: Sequence[int]) -> list[Paired]:
    """Predict every rating without its group, once for each fold seed."""
    rated = data.rated
    repeats = []
    for seed in seeds:
        value, shares, band = np.zeros(len(rated)), nothing(rated), np.full((len(rated), 2), np.nan)
        for split in grouped_folds(list(rated.group), 5, seed):
            rows = np.flatnonzero([name in split.test for name in rated.group])
            found = predict(
                *data.of_groups(split.train), data.evidence.take(rated.row[rows]), list(rated.annotator[rows])
            )
            value[rows] = found.value
            shares[rows] = np.nan if found.shares is None else found.shares
            band[rows] = np.nan if found.band is None else found.band
        repeats.append(Paired(rated.options, rated.answer, shares, value, band))
    return repeats


def attempted(
    made: Mapping[str, Callable[[], Sequence[Paired]]], about: Row
) -> tuple[dict[str, Sequence[Paired]], list[Row]]:
    """Run each system; one that lacks a package or an answer of the judge is a row with the reason."""
    found: dict[str, Sequence[Paired]] = {}
    missing: list[Row] = []
    for name, run in made.items():
        try:
            found[name] = run()
        except AccordError as error:
            missing.append({**about, "system": name, "missing": str(error)})
    return found, missing


def transferred(predict: Predict, train: DataSet, test: DataSet) -> list[Paired]:
    """Predict every real rating from all synthetic ones."""
    rated = test.rated
    found = predict(train.evidence, train.labels, test.evidence.take(rated.row), list(rated.annotator))
    shares = nothing(rated) if found.shares is None else found.shares
    return [Paired(rated.options, rated.answer, shares, found.value, found.band)]


def nothing(rated: Ratings) -> Floats:
    """Return (n, K) zeros for a system without probabilities."""
    return np.full((len(rated), len(rated.options)), np.nan)


def fold_rows(protocol: str, data: DataSet, systems: Mapping[str, Sequence[Paired]]) -> list[Row]:
    """Return one row per system: statistics averaged over the fold seeds, intervals by bootstrap over groups."""
    clusters = Clusters(data.rated.group)
    rows = []
    for name, repeats in systems.items():
        row: Row = {"protocol": protocol, "dataset": data.name, "system": name, "n": len(repeats[0])}
        for statistic in SHOWN:
            found = [value for paired in repeats if (value := STATISTICS[statistic](paired)) is not None]
            row[statistic] = float(np.mean(found)) if len(found) == len(repeats) else None
            if row[statistic] is not None:
                interval = bootstrap(clusters, STATISTICS[statistic], repeats)
                row |= {f"{statistic}_low": interval.low, f"{statistic}_high": interval.high}
                row |= {f"{statistic}_sd": float(np.std(found))} if len(found) > 1 else {}
        if row["log_loss"] is not None:
            errors = np.array([smece_by_option(paired) for paired in repeats], dtype=float)
            row["smece"] = errors.mean(axis=0).tolist()
        if row["pearson"] is not None:
            row["lowest_rmse"] = lowest_rmse(repeats[0].truth, row["pearson"])
        rows.append(row)
    return rows


def test_rows(protocol: str, data: DataSet, systems: Mapping[str, Sequence[Paired]]) -> list[Row]:
    """Test the first system against each other: paired permutation tests by group, with Holm over all tests.

    Accord and the paper's network are also tested without their shifts by system.
    """
    clusters = Clusters(data.rated.group)
    first, *others = systems
    pairs = [(first, other) for other in others]
    bare = (f"accord, {WITHOUT_SHIFT}", f"{NETWORK}, {WITHOUT_SHIFT}")
    rows: list[Row] = []
    for one, other in pairs + [bare] * (systems.keys() >= set(bare)):
        for name in TESTED:
            statistic = STATISTICS[name]
            assert isinstance(statistic, MeanStatistic)
            test = paired_test(clusters, statistic, systems[one], systems[other])
            if test is not None:
                row: Row = {"protocol": f"{protocol} test", "system": one, "against": other, "statistic": name}
                found = {"difference": test.difference, "difference_low": test.low, "difference_high": test.high}
                rows.append(row | found | {"p": test.p})
    for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = p
    return rows


def adapted_rows(train: DataSet, test: DataSet, draws: int) -> list[Row]:
    """Return T+k: our system and the new labels' own mean, averaged over draws with the central 95% of draws."""
    rated = test.rated
    calibration = Calibration(train.question).fit(train.evidence, train.labels)
    rows = []
    for k in ADAPTED_ON:
        found: dict[str, list[dict[str, float | None]]] = {"accord": [], "annotator-mean of the new labels": []}
        for draw in range(draws):
            given = drawn(rated, k, draw)
            rest = np.flatnonzero(~given)
            few = Labels(label for label, kept in zip(rated.labels, given, strict=True) if kept)
            rows_left = test.evidence.take(rated.row[rest]), list(rated.annotator[rest])
            made = {
                "accord": calibration.adapt(test.evidence, few),
                "annotator-mean of the new labels": AnnotatorMean(test.question).fit(test.evidence, few),
            }
            for name, adapted in made.items():
                value, shares, _ = predictions(adapted, *rows_left)
                assert shares is not None
                paired = Paired(rated.options, rated.answer[rest], shares, value)
                found[name].append({statistic: STATISTICS[statistic](paired) for statistic in SHOWN})
        about = {"protocol": f"T+{k}", "dataset": test.name}
        rows += [averaged({**about, "system": name}, runs) for name, runs in found.items()]
    return rows


def drawn(rated: Ratings, k: int, seed: int) -> NDArray[np.bool_]:
    """Return (n,) the ratings that are given: k random ones of each annotator."""
    rng = np.random.default_rng(seed)
    given = np.zeros(len(rated), dtype=bool)
    for name in sorted(set(rated.annotator)):
        given[rng.permutation(np.flatnonzero(rated.annotator == name))[:k]] = True
    return given


def averaged(row: Row, runs: Sequence[Mapping[str, float | None]]) -> Row:
    """Return the row with each statistic's mean over runs and their central 95%."""
    for statistic in SHOWN:
        values = [run[statistic] for run in runs]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            row |= spread_of(statistic, known)
    return row


def by_system(data: DataSet) -> dict[float, Paired]:
    """Predict each synthetic system from the four others, for each domain_correlation."""
    rated = data.rated
    held_by = np.array([str(data.system_of[name]) for name in rated.conversation])
    found = {}
    for domain_correlation in DOMAIN_CORRELATIONS:
        value, shares = np.zeros(len(rated)), nothing(rated)
        for system in sorted(set(held_by)):
            train = {name for name in rated.conversation if data.system_of[name] != system}
            rows = np.flatnonzero(held_by == system)
            predict = learned(
                partial(Calibration, data.question, domain_correlation=domain_correlation), in_new_domain=True
            )
            test = data.evidence.take(rated.row[rows]), list(rated.annotator[rows])
            made = predict(data.evidence.filter(train), data.labels.filter(train), *test)
            value[rows], shares[rows] = made.value, made.shares
        found[domain_correlation] = Paired(rated.options, rated.answer, shares, value)
    return found


def chosen_on_synthetic(data: DataSet) -> Predict:
    """Our system with the domain_correlation of the lowest log loss on held-out synthetic systems."""
    losses = {
        domain_correlation: STATISTICS["log_loss"](paired) or np.inf
        for domain_correlation, paired in by_system(data).items()
    }
    best = min(losses, key=losses.__getitem__)
    return learned(partial(Calibration, data.question, domain_correlation=best), in_new_domain=True)


def check_manifest(synth: DataSet) -> None:
    """Refuse to print figures for other rows than earlier figures were measured on."""
    rows = [[label.target.conversation, label.annotator, label.value] for label in synth.rated.labels]
    found = content_hash(sorted(map(str, rows)))
    if (len(rows), len({row[0] for row in rows}), found) != COMPARABLE:
        raise BadInput(
            f"llm_rubric_synth has other rows than those of earlier figures: {len(rows)} rows with the digest {found}; "
            f"expected {COMPARABLE[0]} rows with the digest {COMPARABLE[2]}"
        )

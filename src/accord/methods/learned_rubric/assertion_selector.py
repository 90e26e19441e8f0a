"""Assertion selector: good and bad conversations, answers as points, selection, and their sum, NetSAT.

Biyani et al., *RUBICON*, AIware 2024, sections 3.1, 3.3 and 4.2. The lowest option is worth 0 points, the highest 10,
and an assertion that does not apply 5. Signed and weighted points are selected by algorithm 1; their sum has a
threshold and an uncertainty window around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, UnknownName
from accord.evidence import Column, EvidenceTable, Note, Training, ratings
from accord.methods.learned_rubric.selection_policies import (
    BAD,
    GOOD,
    POINT,
    POOLED,
    RUBICON,
    TOP,
    UNCERTAIN,
    AssertionBudget,
    Candidates,
    Flags,
    Floats,
    Pool,
    SelectionSettings,
    TunedSelection,
    TuningTrial,
    UncertaintyWindow,
    Whole,
    chooser,
    stratified,
    threshold_of,
    tuned,
)
from accord.models import NOT_APPLICABLE
from accord.statistics import DRAWS, Clusters, estimate_from_draws
from accord.values import Estimate, Labels, Polarity, Question, Rubric, Sample, Signature, Target, content_hash
from accord.version import __version__

FEWEST = 2
"""Minimum number of conversations of each class."""


@dataclass(frozen=True)
class RatingClasses:
    """Targets with a good or bad mean rating.

    Attributes:
        row: (n,) indices of the targets.
        good: (n,) mask of good ones.
        undecided: (m,) rows with a mean between bad and good.
        contradicted: Number of rows with both good and bad ratings.
    """

    row: NDArray[np.intp]
    good: Flags
    undecided: NDArray[np.intp]
    contradicted: int


def cuts(question: Question, settings: SelectionSettings) -> tuple[float, float]:
    """Return the highest bad and the lowest good mean rating; `BadInput` if they overlap."""
    numbers, bad, good = question.scale.numbers, settings.bad, settings.good
    middle, epsilon = (numbers[0] + numbers[-1]) / 2, (numbers[-1] - numbers[0]) * 1e-9
    low, high = middle - epsilon if bad is None else bad, middle + epsilon if good is None else good
    if low >= high:
        raise BadInput(f"ratings up to {low:g} are bad and from {high:g} are good; the ranges may not overlap")
    return low, high


def verdicts(
    targets: Iterable[Target], labels: Labels, question: Question, settings: SelectionSettings, fewest: int = 0
) -> RatingClasses:
    """Return the class of each rated target by its mean rating; rows are indices of the targets.

    `BadInput` if the question compares, the cuts overlap, or fewer than `fewest` targets are good, or bad.
    """
    if question.compares:
        raise BadInput(f"{question.id!r} compares two conversations; learning a rubric needs ratings of single ones")
    low, high = cuts(question, settings)
    rated = ratings(EvidenceTable.from_rows([], {target: {} for target in targets}), labels, question)
    rows, place = np.unique(rated.row, return_inverse=True)
    count = np.bincount(place, minlength=len(rows))
    mean = np.bincount(place, weights=rated.value, minlength=len(rows)) / np.maximum(count, 1)
    lowest, highest = np.full(len(rows), np.inf), np.full(len(rows), -np.inf)
    np.minimum.at(lowest, place, rated.value)
    np.maximum.at(highest, place, rated.value)
    decided = (mean <= low) | (mean >= high)
    is_good = mean[decided] >= high
    good, bad, undecided = int(is_good.sum()), int((~is_good).sum()), int((~decided).sum())
    if min(good, bad) < fewest:
        raise BadInput(
            f"by {question.id!r}, {good} conversations with evidence are good, {bad} bad and {undecided} "
            f"undecided; learning a rubric needs at least {fewest} of each. Import labels of the rarer class, or set "
            "the cuts: sources: {learned-rubric: {bad: 2, good: 4}}"
        )
    return RatingClasses(rows[decided], is_good, rows[~decided], int(((lowest <= low) & (highest >= high)).sum()))


class ClassifiedSamples(NamedTuple):
    """Samples that annotators rated good or bad, their (n,) mask, and the number with contradicting labels."""

    samples: Sequence[Sample]
    good: Flags
    contradicted: int

    @classmethod
    def of(cls, train: Training, settings: SelectionSettings, fewest: int = FEWEST) -> ClassifiedSamples:
        """Return the samples of one side; `BadInput` if fewer than `fewest` are good, or bad."""
        classes = verdicts(train.targets, train.labels, train.question, settings, fewest)
        return cls([train.samples[row] for row in classes.row], classes.good, classes.contradicted)


# --- a judge's answers as points -------------------------------------------------------------------------------------


def points(evidence: EvidenceTable, questions: Sequence[str], reading: str) -> tuple[Whole, Flags]:
    """Return answers as points: the expectation of each distribution, or its mode.

    Returns:
        (P, n) thousandths of a point from 0 to 10,000, 5,000 without an answer; and a mask of missing answers.
    """
    values = np.full((len(questions), len(evidence)), TOP // 2, dtype=np.int32)
    missing = np.zeros(values.shape, dtype=bool)
    for row, name in enumerate(questions):
        options, shares, known = evidence.distribution(name)
        place = (np.array(options) - options[0]) / (options[-1] - options[0])
        place_of_row = shares @ place if reading == "expected" else place[shares.argmax(axis=1)]
        values[row, known] = np.rint(place_of_row[known] * 10 * POINT)
        not_applicable = [evidence.absences.get((target, name)) == NOT_APPLICABLE for target in evidence.targets]
        missing[row] = ~known & ~np.array(not_applicable, dtype=bool)
    return values, missing


def signed(values: Whole, sat: Flags, weights: Sequence[float]) -> Whole:
    """Return (P, n) contributions to NetSAT: negated for DSAT, times the weight of the assertion."""
    factors = np.where(sat, 1.0, -1.0) * np.array(weights, dtype=float)
    return np.asarray(np.rint(values * factors[:, None]), dtype=np.int32)


METHOD, NET_SAT = "learned-rubric", "net-sat"
LEAST_ANSWERED = 0.5
"""Minimum share of answered assertions for a score."""
MOST_WEIGHT = 100_000
"""Maximum sum of weights, so that sums of thousandths fit into 32 bits."""


class TrainingSide(NamedTuple):
    """A pool with (P,) names of its assertions and (C,) groups of its conversations."""

    names: Sequence[str]
    pool: Pool
    verdicts: RatingClasses
    groups: Sequence[str]


class AssertionSelector:
    """Selects assertions, sums them, and labels conversations good, bad or uncertain.

    Args:
        question: Main question; its labels define good conversations.
        classes: `sat` or `dsat` for each assertion, by question id. If empty, all answered questions are candidates,
            and their direction is learned.
        weights: Weight of an assertion in the sum, by id; 1 by default.
        settings: Settings of the selection.
        seed: Seed of the folds and of random policies.
    """

    def __init__(
        self,
        question: Question,
        classes: Mapping[str, str] | None = None,
        weights: Mapping[str, float] | None = None,
        settings: SelectionSettings | None = None,
        seed: int = 0,
    ) -> None:
        self.question, self.classes, self.weights, self.seed = question, classes or {}, weights or {}, seed
        self.settings = settings or SelectionSettings()
        invalid = next((name for name in self.classes.values() if name not in set(Polarity)), None)
        if invalid is not None:
            raise UnknownName("class of an assertion", str(invalid), tuple(map(str, Polarity)))
        cuts(question, self.settings)

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Select assertions, and set the threshold and its window; `BadInput` for too few good or bad conversations."""
        side, settings = self.training_side(evidence, labels), self.settings
        pool, budgets = side.pool, [AssertionBudget(*pair) for pair in settings.budgets]
        alphas = settings.alphas if settings.policy == RUBICON else (0.0,)
        fold = stratified(side.groups, pool.good, self.seed)
        choose = chooser(settings.policy, self.seed)
        self.tuned_ = tuned(pool, fold, alphas, budgets, choose, settings.targets == POOLED)
        chosen = sorted(self.choose(pool), key=lambda row: (not pool.sat[row], -pool.separation[row]))
        if not chosen:
            budgets_shown = [list(pair) for pair in settings.budgets]
            raise BadInput(
                f"no assertion fits the budgets {budgets_shown}: the pool has assertions of the other class only"
            )
        self.names_, self.sat_ = [side.names[row] for row in chosen], pool.sat[chosen]
        self.columns_ = tuple(column for column in evidence.columns if column.question in self.names_)
        scores = pool.net_sat(chosen) / POINT
        self.threshold_ = threshold_of(scores, pool.good)
        self.window_ = UncertaintyWindow.read(scores, pool.good, self.threshold_, settings.precision)
        rated = labels.on(self.question.id)
        self.undecided_ = len(verdicts(rated.targets, rated, self.question, settings).undecided)
        self.contradicted_ = side.verdicts.contradicted
        self.classes_ = (int(pool.good.sum()), int((~pool.good).sum()))
        decided = (evidence.targets[row] for row in side.verdicts.row)
        self.unseen_: Mapping[Target, float] = dict(zip(decided, self.tuned_.scores.tolist(), strict=True))
        return self

    def training_side(self, evidence: EvidenceTable, labels: Labels) -> TrainingSide:
        """Return the pool to select from; `BadInput` if no question was answered, or a class is missing."""
        classes = verdicts(evidence.targets, labels, self.question, self.settings, FEWEST)
        answered = dict.fromkeys(c.question for c in evidence.columns if c.question and c.option is not None)
        names = list(self.classes) or [name for name in answered if name != self.question.id]
        if not names:
            raise BadInput(
                "no judge answered an assertion. Configure one in accord.yaml: models: {judge: {model: NAME}}"
            )
        values = points(evidence, names, self.settings.answers)[0][:, classes.row]
        sat = values[:, classes.good].mean(axis=1) >= values[:, ~classes.good].mean(axis=1)
        if self.classes:
            sat = np.array([self.classes[name] == Polarity.SAT for name in names])
        weights = np.array(self._weights(names), dtype=float)
        if weights.sum() > MOST_WEIGHT:
            raise BadInput(
                f"the weights of the assertions sum to {weights.sum():g}, at most {MOST_WEIGHT} is allowed; scale them"
            )
        pool = Pool(signed(values, sat, weights.tolist()), sat, classes.good, weights)
        return TrainingSide(names, pool, classes, [labels.group_of(evidence.targets[row]) for row in classes.row])

    def choose(self, pool: Pool) -> Sequence[int]:
        """Return the rows that the policy selects with the chosen α and budget."""
        candidates = Candidates(pool, self.settings.targets == POOLED)
        return chooser(self.settings.policy, self.seed)(candidates, self.tuned_.budget, self.tuned_.alpha)

    def _weights(self, names: Sequence[str]) -> list[float]:
        return [self.weights.get(name, 1.0) for name in names]

    # --- measuring --------------------------------------------------------------------------------------------------

    def _added(self, evidence: EvidenceTable) -> tuple[Floats, Flags]:
        """Return (P, n) points that each selected assertion adds to NetSAT, and a mask of missing answers."""
        values, missing = points(evidence.align(self.columns_), self.names_, self.settings.answers)
        return np.asarray(signed(values, self.sat_, self._weights(self.names_)) / POINT), missing

    def outcome(self, evidence: EvidenceTable, good: Flags) -> NetSatOutcome:
        """Return the scores of some conversations with their true classes."""
        added, _ = self._added(evidence)
        sat, dsat = added[self.sat_].sum(axis=0), added[~self.sat_].sum(axis=0)
        return NetSatOutcome(sat + dsat, good, self.threshold_, self.window_, self.settings.precision, sat, dsat)

    def measured(self, evidence: EvidenceTable, unseen: Mapping[Target, float] | None = None) -> EvidenceTable:
        """Return NetSAT as a column, with its parts as notes.

        A row with fewer than half of the assertions answered has no value. A target in `unseen` gets the score given
        there, which comes from assertions selected without it.
        """
        added, missing = self._added(evidence)
        held_out_scores = unseen or {}
        sums = added.sum(axis=0)
        scores = np.array(
            [held_out_scores.get(target, score) for target, score in zip(evidence.targets, sums, strict=True)]
        )
        missing_count = missing.sum(axis=0)
        known = missing_count <= (1 - LEAST_ANSWERED) * len(self.names_)
        absences: dict[tuple[Target, str], str] = {}
        notes: dict[Target, Note] = {}
        for row, target in enumerate(evidence.targets):
            summary = f"{missing_count[row]} of {len(self.names_)} assertions have no answer"
            if not known[row]:
                reasons = {evidence.absences.get((target, name), NOT_APPLICABLE) for name in self.names_}
                absences[target, NET_SAT] = "; ".join([summary, *sorted(reasons - {NOT_APPLICABLE})])
                continue
            values_shown: dict[str, Any] = {"net_sat": float(scores[row])}
            if target not in held_out_scores:
                values_shown["assertions"] = dict(zip(self.names_, added[:, row].tolist(), strict=True))
            notes[target] = Note(values_shown, f"{summary} and count as neutral" if missing_count[row] else None)
        values = np.where(known, scores, 0.0)[:, None].astype(float)
        column = Column(NET_SAT, str(self.column_signature()))
        return EvidenceTable(evidence.targets, (column,), values, known[:, None], absences, evidence.versions, notes)

    # --- describing -------------------------------------------------------------------------------------------------

    def column_signature(self) -> Signature:
        """Return the signature of NetSAT: answers, assertions, signs and weights."""
        makers = sorted(column.signature for column in self.columns_)
        terms = [*zip(self.names_, self.sat_.tolist(), self._weights(self.names_), strict=True)]
        return Signature.of(
            METHOD,
            assertions=f"{int(self.sat_.sum())}+{int((~self.sat_).sum())}",
            answers=self.settings.answers,
            rubric=content_hash([makers, [list(each) for each in terms]], length=12),
            evidence="+".join(dict.fromkeys(maker.partition("|question:")[0] for maker in makers)),
        )

    def signature(self) -> Signature:
        """Return the signature of the selection."""
        settings, by_sharpness = self.settings, self.settings.policy == RUBICON
        sharpness = {"alpha": self.tuned_.alpha, "targets": settings.targets} if by_sharpness else {}
        signature = Signature.of(
            METHOD, question=self.question.id, policy=settings.policy, **sharpness, precision=settings.precision,
            conversations=sum(self.classes_), seed=self.seed,
        )  # fmt: skip
        return replace(signature, parts=(*signature.parts, *self.column_signature().parts, ("version", __version__)))

    def describe(self) -> dict[str, Any]:
        """Return selected assertions, threshold, window, and the search for α and budget."""
        named = zip(self.names_, self.sat_, self._weights(self.names_), strict=True)
        listed = [
            {"id": name, "class": (Polarity.SAT if sat else Polarity.DSAT).value, "weight": w} for name, sat, w in named
        ]
        tuned = self.tuned_
        return {
            "method": METHOD, "signature": str(self.signature()), "assertions": listed, "alpha": tuned.alpha,
            "budget": [tuned.budget.sat, tuned.budget.dsat], "tried": [asdict(trial) for trial in tuned.tried],
            "threshold": self.threshold_,
            "window": [bound if np.isfinite(bound) else None for bound in (self.window_.low, self.window_.high)],
            "good": self.classes_[0], "bad": self.classes_[1],
            "undecided": self.undecided_, "contradicted": self.contradicted_,
        }  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return the learned state as JSON, without the training scores."""
        return {**self.describe(), "columns": [asdict(column) for column in self.columns_], "seed": self.seed}

    @classmethod
    def of_rubric(cls, rubric: Rubric, question: Question, settings: SelectionSettings, seed: int = 0) -> Self:
        """Return a selector for the assertions of a rubric, with their classes and weights."""
        weights = {assertion.id: assertion.weight for assertion in rubric.assertions}
        return cls(
            question, {assertion.id: str(assertion.side) for assertion in rubric.assertions}, weights, settings, seed
        )

    @classmethod
    def from_json(cls, card: Mapping[str, Any], question: Question, settings: SelectionSettings) -> Self:
        """Invert `to_json`."""
        classes = {row["id"]: row["class"] for row in card["assertions"]}
        weights = {row["id"]: row["weight"] for row in card["assertions"]}
        selector = cls(question, classes, weights, settings, card["seed"])
        selector.names_ = list(classes)
        selector.sat_ = np.array([name == Polarity.SAT for name in classes.values()])
        selector.columns_ = tuple(Column(**column) for column in card["columns"])
        low, high = card["window"]
        selector.threshold_ = float(card["threshold"])
        selector.window_ = UncertaintyWindow(-np.inf if low is None else low, np.inf if high is None else high)
        tried = [TuningTrial(**trial) for trial in card["tried"]]
        selector.tuned_ = TunedSelection(card["alpha"], AssertionBudget(*card["budget"]), np.zeros(0), tried)
        selector.classes_ = (card["good"], card["bad"])
        selector.undecided_, selector.contradicted_, selector.unseen_ = card["undecided"], card["contradicted"], {}
        return selector


# --- statistics ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NetSatOutcome:
    """NetSAT of n conversations in points with their true classes, and the training side's threshold and window.

    Attributes:
        scores: (n,) sums of `sat` and `dsat`, the parts of both classes; `dsat` is negative.
        good: (n,) mask of good conversations.
        precision: Required precision of the labels, such as .9.
    """

    scores: Floats
    good: Flags
    threshold: float
    window: UncertaintyWindow
    precision: float
    sat: Floats
    dsat: Floats


VERDICT = ("delta_netsat", "accuracy", "yield_deployed", "precision_deployed")


def verdict_statistics(tested: NetSatOutcome) -> dict[str, float | None]:
    """Return the statistics that decide on the use of a rubric; `None` if undefined.

    `delta_netsat` is the difference of the class means in points. `accuracy` counts a score above the training side's
    threshold as good. `yield_deployed` is the share outside the training side's window, and `precision_deployed` the
    precision of the labels given there.
    """
    values = _from_totals(_terms(tested).sum(axis=0))
    return {name: float(value) if np.isfinite(value) else None for name, value in values.items()}


def with_intervals(tested: NetSatOutcome, clusters: Clusters, draws: int = DRAWS, seed: int = 0) -> dict[str, Estimate]:
    """Return the statistics with intervals from resamples of whole conversations."""
    draws = draws if len(clusters) > 1 else 0
    drawn = _from_totals(clusters.counts(draws, seed) @ clusters.sums(_terms(tested)))
    return {
        name: Estimate() if value is None else estimate_from_draws(value, drawn[name])
        for name, value in verdict_statistics(tested).items()
    }


def _terms(tested: NetSatOutcome) -> Floats:
    """Return (n, 7) numbers of each conversation whose totals give the statistics."""
    good, labels = tested.good, tested.window.says(tested.scores)
    is_right, is_labelled = (tested.scores > tested.threshold) == good, labels != UNCERTAIN
    agrees = labels == np.where(good, GOOD, BAD)
    by_class = [good, ~good, tested.scores * good, tested.scores * ~good]
    return np.column_stack([*by_class, is_right, is_labelled, agrees]).astype(float)


def _from_totals(totals: Floats) -> dict[str, Floats]:
    """Return each statistic from (..., 7) totals of `_terms`; NaN where one class is missing."""
    good, bad, of_good, of_bad, right, labelled, agreeing = np.moveaxis(totals, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        delta, size = of_good / good - of_bad / bad, np.where((good > 0) & (bad > 0), good + bad, np.nan)
        values = (delta, right / size, labelled / size, np.where(np.isnan(size), np.nan, agreeing / labelled))
    return dict(zip(VERDICT, values, strict=True))

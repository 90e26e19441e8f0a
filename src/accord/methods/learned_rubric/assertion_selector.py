"""What selection is learned from: people's ratings as good and bad conversations, a judge's answers as points.

RUBICON, section 3.1: the lowest option is 0 points, the highest 10, and what does not apply 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, UnknownName
from accord.evidence import Column, EvidenceTable, Note, Ratings, Training, ratings
from accord.methods.learned_rubric.selection_policies import (
    POINT,
    POOLED,
    RUBICON,
    TOP,
    Budget,
    Candidates,
    Flags,
    Floats,
    Outcome,
    Pool,
    SelectionSettings,
    Trial,
    Tuned,
    Whole,
    Window,
    chooser,
    stratified,
    threshold_of,
    tuned,
)
from accord.models import NOT_APPLICABLE
from accord.values import Labels, Polarity, Question, Rubric, Sample, Signature, Target, content_hash
from accord.version import __version__

FEWEST = 2
"""Conversations of each class, without which nothing can be told apart."""


@dataclass(frozen=True)
class Verdicts:
    """(n,) rows of the evidence table with a good or a bad mean rating, which are good, and the (m,) undecided rows.

    `contradicted` counts those called good by some and bad by others, whatever their mean says.
    """

    row: NDArray[np.intp]
    good: Flags
    undecided: NDArray[np.intp]
    contradicted: int


def cuts(question: Question, settings: SelectionSettings) -> tuple[float, float]:
    """The highest mean rating that is bad and the lowest that is good; `BadInput` where they overlap."""
    numbers, bad, good = question.scale.numbers, settings.bad, settings.good
    middle, hair = (numbers[0] + numbers[-1]) / 2, (numbers[-1] - numbers[0]) * 1e-9
    low, high = middle - hair if bad is None else bad, middle + hair if good is None else good
    if low >= high:
        raise BadInput(f"a rating of at most {low:g} is bad and of at least {high:g} good; the two may not overlap")
    return low, high


def verdicts(rated: Ratings, question: Question, settings: SelectionSettings, fewest: int = 0) -> Verdicts:
    """Each rated row's class by its mean rating.

    Raises:
        BadInput: The cuts overlap, or fewer than `fewest` rows are good, or bad.
    """
    low, high = cuts(question, settings)
    rows, place = np.unique(rated.row, return_inverse=True)
    count = np.bincount(place, minlength=len(rows))
    mean = np.bincount(place, weights=rated.value, minlength=len(rows)) / np.maximum(count, 1)
    lowest, highest = np.full(len(rows), np.inf), np.full(len(rows), -np.inf)
    np.minimum.at(lowest, place, rated.value)
    np.maximum.at(highest, place, rated.value)
    decided = (mean <= low) | (mean >= high)
    found = mean[decided] >= high
    good, bad, undecided = int(found.sum()), int((~found).sum()), int((~decided).sum())
    if min(good, bad) < fewest:
        raise BadInput(
            f"by {question.id!r}, {good} conversations with evidence are good, {bad} bad and {undecided} "
            f"undecided; a rubric is learned from at least {fewest} of each. Import labels of the rarer kind, or say "
            "which ratings are bad and good: sources: {learned-rubric: {bad: 2, good: 4}}"
        )
    return Verdicts(rows[decided], found, rows[~decided], int(((lowest <= low) & (highest >= high)).sum()))


def verdicts_of(
    targets: Iterable[Target], labels: Labels, question: Question, settings: SelectionSettings, fewest: int = 0
) -> Verdicts:
    """The class of each rated target; rows are places among the targets.

    Raises:
        BadInput: As `verdicts`, or the question compares, or its scale has no order.
    """
    if question.compares:
        raise BadInput(f"{question.id!r} compares two conversations; a rubric is learned from ratings of one")
    bare = EvidenceTable.from_rows([], {target: {} for target in targets})
    return verdicts(ratings(bare, labels, question), question, settings, fewest)


@dataclass(frozen=True)
class Decided:
    """The samples that people called good or bad, (n,) which are good, and how many have contradicting labels."""

    samples: Sequence[Sample]
    good: Flags
    contradicted: int

    @classmethod
    def of(cls, train: Training, settings: SelectionSettings, fewest: int = FEWEST) -> Decided:
        """Those of one side; `BadInput` where fewer than `fewest` are good, or bad."""
        found = verdicts_of(train.targets, train.labels, train.question, settings, fewest)
        return cls([train.samples[row] for row in found.row], found.good, found.contradicted)


# --- a judge's answers as points -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Points:
    """(P, n) thousandths of a point from 0 to 10,000, 5,000 without an answer; which have none although they apply."""

    values: Whole
    missing: Flags


def points(evidence: EvidenceTable, questions: Sequence[str], reading: str) -> Points:
    """Answers as points: the expectation of each distribution, or its likeliest option.

    Raises:
        BadInput: A question was not answered in this evidence.
    """
    values = np.full((len(questions), len(evidence)), TOP // 2, dtype=np.int32)
    missing = np.zeros(values.shape, dtype=bool)
    for row, name in enumerate(questions):
        options, shares, known = evidence.distribution(name)
        place = (np.array(options) - options[0]) / (options[-1] - options[0])
        read = shares @ place if reading == "expected" else place[shares.argmax(axis=1)]
        values[row, known] = np.rint(read[known] * 10 * POINT)
        silent = [evidence.absences.get((target, name)) == NOT_APPLICABLE for target in evidence.targets]
        missing[row] = ~known & ~np.array(silent, dtype=bool)
    return Points(values, missing)


def signed(values: Whole, sat: Flags, weights: Sequence[float]) -> Whole:
    """(P, n) what each answer adds to NetSAT: negated for DSAT, times the assertion's weight."""
    factors = np.where(sat, 1.0, -1.0) * np.array(weights, dtype=float)
    return np.asarray(np.rint(values * factors[:, None]), dtype=np.int32)


METHOD, NET_SAT = "learned-rubric", "net-sat"
LEAST_ANSWERED = 0.5
"""A conversation of which fewer of the chosen assertions are answered has no score."""
MOST_WEIGHT = 100_000
"""Of all assertions together: sums of thousandths stay whole numbers of 32 bits."""


@dataclass(frozen=True)
class TrainingSide:
    """A pool with (P,) names of its assertions and (C,) groups of its conversations, which splits keep together."""

    names: Sequence[str]
    pool: Pool
    verdicts: Verdicts
    groups: Sequence[str]


class AssertionSelector:
    """Selects assertions, sums them, and calls a conversation good, bad or uncertain.

    Args:
        question: The main question; its labels say which conversations are good.
        classes: `sat` or `dsat` for each assertion, by the id of its question; without any, every question that was
            answered is a candidate, and speaks for what it is answered higher about.
        weights: What an assertion counts in the sum, by id; 1 where it is not named.
        settings: How assertions are selected.
        seed: Of the folds and of the bandit.

    Raises:
        UnknownName: A class is neither `sat` nor `dsat`.
        BadInput: The cuts between bad and good overlap.
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
        strange = next((name for name in self.classes.values() if name not in set(Polarity)), None)
        if strange is not None:
            raise UnknownName("class of an assertion", str(strange), tuple(map(str, Polarity)))
        cuts(question, self.settings)

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Select assertions, and fix the threshold and its window.

        Raises:
            BadInput: No question was answered, or there are too few good or bad conversations.
        """
        side, settings = self.training_side(evidence, labels), self.settings
        pool, budgets = side.pool, [Budget(*each) for each in settings.budgets]
        alphas = settings.alphas if settings.policy == RUBICON else (0.0,)
        fold = stratified(side.groups, pool.good, self.seed)
        choose = chooser(settings.policy, self.seed)
        self.tuned_ = tuned(pool, fold, alphas, budgets, choose, settings.targets == POOLED)
        chosen = sorted(self.choose(pool), key=lambda row: (not pool.sat[row], -pool.separation[row]))
        if not chosen:
            shown = [list(each) for each in settings.budgets]
            raise BadInput(f"no assertion fits the budgets {shown}: the pool has only the other class")
        self.names_, self.sat_ = [side.names[row] for row in chosen], pool.sat[chosen]
        self.columns_ = tuple(column for column in evidence.columns if column.question in self.names_)
        scores = pool.net_sat(chosen) / POINT
        self.threshold_ = threshold_of(scores, pool.good)
        self.window_ = Window.read(scores, pool.good, self.threshold_, settings.precision)
        rated = labels.on(self.question.id)
        self.undecided_ = len(verdicts_of(rated.targets, rated, self.question, settings).undecided)
        self.contradicted_ = side.verdicts.contradicted
        self.classes_ = (int(pool.good.sum()), int((~pool.good).sum()))
        decided = (evidence.targets[row] for row in side.verdicts.row)
        self.unseen_: Mapping[Target, float] = dict(zip(decided, self.tuned_.scores.tolist(), strict=True))
        return self

    def training_side(self, evidence: EvidenceTable, labels: Labels) -> TrainingSide:
        """The pool to select from; `BadInput` where no question was answered, or a class is missing."""
        rated = ratings(evidence, labels, self.question)
        found = verdicts(rated, self.question, self.settings, FEWEST)
        asked = dict.fromkeys(c.question for c in evidence.columns if c.question and c.option is not None)
        names = list(self.classes) or [name for name in asked if name != self.question.id]
        if not names:
            raise BadInput("no judge answered an assertion here; name a judge: models: {judge: {model: NAME}}")
        values = points(evidence, names, self.settings.answers).values[:, found.row]
        sat = values[:, found.good].mean(axis=1) >= values[:, ~found.good].mean(axis=1)
        if self.classes:
            sat = np.array([self.classes[name] == Polarity.SAT for name in names])
        counted = np.array(self._weights(names), dtype=float)
        if counted.sum() > MOST_WEIGHT:
            raise BadInput(
                f"the weights of the assertions sum to {counted.sum():g}, allowed: {MOST_WEIGHT}; scale them"
            )
        pool = Pool(signed(values, sat, counted.tolist()), sat, found.good, counted)
        return TrainingSide(names, pool, found, [labels.group_of(evidence.targets[row]) for row in found.row])

    def choose(self, pool: Pool) -> Sequence[int]:
        """What the policy takes from a pool, with the α and the budget that were chosen."""
        candidates = Candidates(pool, self.settings.targets == POOLED)
        return chooser(self.settings.policy, self.seed)(candidates, self.tuned_.budget, self.tuned_.alpha)

    def _weights(self, names: Sequence[str]) -> list[float]:
        return [self.weights.get(name, 1.0) for name in names]

    # --- measuring --------------------------------------------------------------------------------------------------

    def _added(self, evidence: EvidenceTable) -> tuple[Floats, Flags]:
        """(P, n) the points that each chosen assertion adds to NetSAT, and which have no answer."""
        said = points(evidence.align(self.columns_), self.names_, self.settings.answers)
        return np.asarray(signed(said.values, self.sat_, self._weights(self.names_)) / POINT), said.missing

    def parts(self, evidence: EvidenceTable) -> tuple[Floats, Floats]:
        """(n,) each: what the SAT and what the DSAT assertions add to NetSAT, in points; the second is negative."""
        added, _ = self._added(evidence)
        return added[self.sat_].sum(axis=0), added[~self.sat_].sum(axis=0)

    def outcome(self, evidence: EvidenceTable, good: Flags) -> Outcome:
        """The scores of some conversations beside what people called them."""
        sat, dsat = self.parts(evidence)
        return Outcome(sat + dsat, good, self.threshold_, self.window_, self.settings.precision, sat, dsat)

    def measured(self, evidence: EvidenceTable, unseen: Mapping[Target, float] | None = None) -> EvidenceTable:
        """NetSAT as evidence of one column, with its parts and its label as notes.

        A row of which fewer than half of the assertions are answered has no value, and says why. A target that is
        named in `unseen` has that score in place of its own: by assertions that were chosen without it.

        Raises:
            BadInput: The evidence lacks an assertion, or it was answered otherwise.
        """
        added, missing = self._added(evidence)
        instead = unseen or {}
        own = added.sum(axis=0)
        scores = np.array([instead.get(target, score) for target, score in zip(evidence.targets, own, strict=True)])
        labels, lost = self.window_.says(scores), missing.sum(axis=0)
        known = lost <= (1 - LEAST_ANSWERED) * len(self.names_)
        absences: dict[tuple[Target, str], str] = {}
        notes: dict[Target, Note] = {}
        for row, target in enumerate(evidence.targets):
            silent = f"{lost[row]} of {len(self.names_)} assertions have no answer"
            if not known[row]:
                why = {evidence.absences.get((target, name), NOT_APPLICABLE) for name in self.names_}
                absences[target, NET_SAT] = "; ".join([silent, *sorted(why - {NOT_APPLICABLE})])
                continue
            shown: dict[str, Any] = {"net_sat": float(scores[row]), "label": str(labels[row])}
            if target not in instead:
                shown["assertions"] = dict(zip(self.names_, added[:, row].tolist(), strict=True))
            notes[target] = Note(shown, f"{silent} and count as neutral" if lost[row] else None)
        values = np.where(known, scores, 0.0)[:, None].astype(float)
        column = Column(NET_SAT, str(self.column_signature()))
        return EvidenceTable(evidence.targets, (column,), values, known[:, None], absences, evidence.versions, notes)

    # --- describing -------------------------------------------------------------------------------------------------

    def column_signature(self) -> Signature:
        """How NetSAT is made: by whose answers to which assertions, and how they are summed."""
        makers = sorted(column.signature for column in self.columns_)
        told = [*zip(self.names_, self.sat_.tolist(), self._weights(self.names_), strict=True)]
        return Signature.of(
            METHOD,
            assertions=f"{int(self.sat_.sum())}+{int((~self.sat_).sum())}",
            answers=self.settings.answers,
            rubric=content_hash([makers, [list(each) for each in told]], length=12),
            evidence="+".join(dict.fromkeys(maker.partition("|question:")[0] for maker in makers)),
        )

    def signature(self) -> Signature:
        """How the rubric was selected."""
        settings, by_sharpness = self.settings, self.settings.policy == RUBICON
        about = {"alpha": self.tuned_.alpha, "targets": settings.targets} if by_sharpness else {}
        own = Signature.of(
            METHOD, question=self.question.id, policy=settings.policy, **about, precision=settings.precision,
            conversations=sum(self.classes_), seed=self.seed,
        )  # fmt: skip
        return replace(own, parts=(*own.parts, *self.column_signature().parts, ("version", __version__)))

    def describe(self) -> dict[str, Any]:
        """What was selected, where labels begin, and what α and the budget were chosen from."""
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
        """What was learned, as JSON; what the training side's conversations scored is not kept."""
        return {**self.describe(), "columns": [asdict(column) for column in self.columns_], "seed": self.seed}

    @classmethod
    def of_rubric(cls, rubric: Rubric, question: Question, settings: SelectionSettings, seed: int = 0) -> Self:
        """A selector among the assertions of a rubric, with their classes and weights."""
        weights = {each.id: each.weight for each in rubric.assertions}
        return cls(question, {each.id: str(each.side) for each in rubric.assertions}, weights, settings, seed)

    @classmethod
    def from_json(cls, card: Mapping[str, Any], question: Question, settings: SelectionSettings) -> Self:
        """The inverse of `to_json`."""
        classes = {one["id"]: one["class"] for one in card["assertions"]}
        weights = {one["id"]: one["weight"] for one in card["assertions"]}
        found = cls(question, classes, weights, settings, card["seed"])
        found.names_ = list(classes)
        found.sat_ = np.array([name == Polarity.SAT for name in classes.values()])
        found.columns_ = tuple(Column(**column) for column in card["columns"])
        low, high = card["window"]
        found.threshold_ = float(card["threshold"])
        found.window_ = Window(-np.inf if low is None else low, np.inf if high is None else high)
        tried = [Trial(**each) for each in card["tried"]]
        found.tuned_ = Tuned(card["alpha"], Budget(*card["budget"]), np.zeros(0), tried)
        found.classes_ = (card["good"], card["bad"])
        found.undecided_, found.contradicted_, found.unseen_ = card["undecided"], card["contradicted"], {}
        return found

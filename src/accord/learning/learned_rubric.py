"""The settings of a learned rubric: what they are where nobody says, and which there can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Column, EvidenceTable, Ratings, ratings
from accord.learning.base import Arrays, Evaluator, evaluators
from accord.learning.calibration import FEWEST_LABELS, Calibration
from accord.learning.mixed import MixedCore
from accord.methods import (
    EXPECTED,
    POINT,
    POLICIES,
    READINGS,
    RUBICON,
    Budget,
    Candidates,
    Flags,
    Floats,
    Points,
    Pool,
    Trying,
    Tuned,
    Whole,
    Window,
    answered,
    chooser,
    classes_of,
    points,
    sides,
    signed,
    stratified,
    threshold_of,
    tuned,
)
from accord.values import (
    BadInput,
    Labels,
    Question,
    Rubric,
    Score,
    Side,
    Signature,
    UnknownName,
    Unscored,
    content_hash,
)
from accord.version import __version__

POOLED = "pooled"
ALPHAS = (0.0, 0.5, 1.0, 2.0, 4.0)
BUDGETS = ((10, 10),)


def check_settings(
    policy: str,
    answers: str,
    targets: str,
    classes: Mapping[str, str],
    alphas: Sequence[float],
    budgets: Sequence[Sequence[int]],
    precision: float,
    weights: Mapping[str, float],
) -> None:
    """Refuse settings that do not exist, or select nothing.

    Raises:
        UnknownName: No policy, reading, target or class is called so.
        BadInput: Says which number is wrong, and what is allowed.
    """
    for what, name, known in (
        ("policy", policy, (RUBICON, *POLICIES)),
        ("reading of answers", answers, READINGS),
        ("targets", targets, ("paper", POOLED)),
        *(("class of an assertion", name, tuple(map(str, Side))) for name in classes.values()),
    ):
        if name not in known:
            raise UnknownName(what, str(name), known)
    if not isinstance(alphas, Sequence) or not alphas or not all(is_number(a) and 0 <= a < np.inf for a in alphas):
        raise BadInput(f"alphas are one or more weights of at least 0, got {alphas!r}")
    if not isinstance(budgets, Sequence) or not budgets or not all(map(_is_budget, budgets)):
        raise BadInput(f"budgets are pairs [SAT, DSAT] of how many assertions to choose, got {budgets}")
    for name, weight in weights.items():
        if not is_number(weight) or not 0 < weight <= 100:
            raise BadInput(f"the weight of {name!r} is a number above 0 and up to 100, got {weight!r}")
    if not is_number(precision) or not 0.5 < precision < 1:
        raise BadInput(f"precision is a share above one half and below 1, got {precision}")


def _is_budget(each: Any) -> bool:
    pair = isinstance(each, Sequence) and len(each) == 2 and all(type(count) is int and count >= 0 for count in each)
    return pair and max(each) > 0


def is_number(value: Any) -> bool:
    """Whether a setting is a number; a boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


FEWEST = 2
"""Conversations of each class, without which nothing can be told apart."""


@dataclass(frozen=True)
class Verdicts:
    """What people called good and bad, one row a conversation (or turn).

    Attributes:
        row: (n,) row of the evidence table.
        good: (n,) whether their mean rating is good; the others' is bad.
        undecided: How many lie between, and are left out.
        contradicted: How many were called good by some and bad by others, whatever their mean says.
    """

    row: NDArray[np.intp]
    good: Flags
    undecided: int
    contradicted: int


def cuts(question: Question, bad: float | None, good: float | None) -> tuple[float, float]:
    """The highest mean rating that is bad and the lowest that is good; by default those beyond the scale's middle.

    Raises:
        BadInput: They overlap.
    """
    for name, value in (("bad", bad), ("good", good)):
        if value is not None and not is_number(value):
            raise BadInput(f"{name} is a rating on the scale of {question.id!r}, got {value!r}")
    numbers = question.scale.numbers
    middle, hair = (numbers[0] + numbers[-1]) / 2, (numbers[-1] - numbers[0]) * 1e-9
    low, high = middle - hair if bad is None else bad, middle + hair if good is None else good
    if low >= high:
        raise BadInput(f"a rating of at most {low:g} is bad and of at least {high:g} good; the two may not overlap")
    return low, high


def verdicts(rated: Ratings, question: Question, bad: float | None = None, good: float | None = None) -> Verdicts:
    """Each rated row's class by its mean rating.

    Raises:
        BadInput: The cuts overlap.
    """
    low, high = cuts(question, bad, good)
    rows, place = np.unique(rated.row, return_inverse=True)
    count = np.bincount(place, minlength=len(rows))
    mean = np.bincount(place, weights=rated.value, minlength=len(rows)) / np.maximum(count, 1)
    lowest, highest = np.full(len(rows), np.inf), np.full(len(rows), -np.inf)
    np.minimum.at(lowest, place, rated.value)
    np.maximum.at(highest, place, rated.value)
    decided = (mean <= low) | (mean >= high)
    torn = int(((lowest <= low) & (highest >= high)).sum())
    return Verdicts(rows[decided], mean[decided] >= high, int((~decided).sum()), torn)


def check_both(found: Verdicts, question: Question, fewest: int = FEWEST) -> None:
    """Refuse to learn from one class.

    Raises:
        BadInput: Fewer than `fewest` conversations are good, or bad.
    """
    good, bad = int(found.good.sum()), int((~found.good).sum())
    if min(good, bad) < fewest:
        raise BadInput(
            f"by {question.id!r}, {good} conversations with evidence are good, {bad} bad and {found.undecided} "
            f"undecided; a rubric is learned from at least {fewest} of each. Import labels of the rarer kind, or say "
            "which ratings are bad and good: evaluator: {settings: {bad: 2, good: 4}}"
        )


MOST_WEIGHT = 100_000
"""Of all assertions together: sums of thousandths stay whole numbers of 32 bits."""


@dataclass(frozen=True)
class TrainingSide:
    """A pool with where it comes from.

    Attributes:
        names: (P,) the candidates.
        points: (P, rows) their answers, for every row of the evidence.
        pool: (P, C) the same on the good and the bad conversations, signed and weighted.
        verdicts: Which rows those are.
        groups: (C,) the conversation of each.
    """

    names: Sequence[str]
    points: Points
    pool: Pool
    verdicts: Verdicts
    groups: Sequence[str]

    @classmethod
    def of(
        cls,
        evidence: EvidenceTable,
        rated: Ratings,
        question: Question,
        classes: Mapping[str, str],
        weights: Mapping[str, float],
        answers: str,
        cuts: tuple[float | None, float | None] = (None, None),
    ) -> TrainingSide:
        """The training side of some ratings; see `LearnedRubric` for the settings.

        Raises:
            BadInput: No question was answered, or one of the classes of conversations is missing.
        """
        found = verdicts(rated, question, *cuts)
        check_both(found, question)
        names = list(classes) or answered(evidence, question.id)
        if not names:
            raise BadInput(
                "no judge answered an assertion here; name a judge, and write some: accord fit learned-rubric"
            )
        said = points(evidence, names, answers)
        values = said.values[:, found.row]
        sat = np.array([classes[name] == Side.SAT for name in names]) if classes else sides(values, found.good)
        counted = np.array([weights.get(name, 1.0) for name in names], dtype=float)
        if counted.sum() > MOST_WEIGHT:
            raise BadInput(
                f"the weights of the assertions sum to {counted.sum():g}, allowed: {MOST_WEIGHT}; scale them"
            )
        pool = Pool(signed(values, sat, counted.tolist()), sat, found.good, counted)
        return cls(names, said, pool, found, [evidence.targets[row].conversation for row in found.row])


NET_SAT = "net-sat"
LEAST_ANSWERED = 0.5
"""A conversation of which fewer of the chosen assertions are answered has no score."""


@evaluators.register("learned-rubric")
class LearnedRubric(Evaluator):
    """Selects assertions, sums them, and calls a conversation good, bad or uncertain (RUBICON).

    Args:
        question: The main question; its labels say which conversations are good.
        classes: `sat` or `dsat` for each assertion, by the id of its question; without any, every question that was
            answered is a candidate, and for what is answered higher about good conversations.
        weights: What an assertion counts in the sum, by id; 1 where it is not named.
        policy: How the pool is selected from: `rubicon`, or one of the baselines `correctness`, `brute-force`, `ucb`,
            `all`.
        alphas: Weights of the sharpness loss, of which folds of the training side choose one.
        budgets: Pairs of the most SAT and the most DSAT assertions, of which the same folds choose one.
        answers: How a distribution becomes points: its `expected` answer, or the `likeliest` one.
        bad: The highest mean rating of a bad conversation; by default what lies below the scale's middle.
        good: The lowest mean rating of a good one; what lies between is left out.
        precision: What the label of a conversation has to be worth outside the uncertainty window.
        targets: Of the sharpness loss: as the `paper` prints them, or `pooled` (see `sharpness`).
        seed: Of the folds and of the bandit.
    """

    method = "learned-rubric"

    def __init__(
        self,
        question: Question,
        classes: Mapping[str, str] | None = None,
        weights: Mapping[str, float] | None = None,
        policy: str = RUBICON,
        alphas: Sequence[float] = ALPHAS,
        budgets: Sequence[Sequence[int]] = BUDGETS,
        answers: str = EXPECTED,
        bad: float | None = None,
        good: float | None = None,
        precision: float = 0.9,
        targets: str = "paper",
        seed: int = 0,
    ) -> None:
        super().__init__(question)
        check_settings(policy, answers, targets, classes or {}, alphas, budgets, precision, weights or {})
        cuts(question, bad, good)
        self.classes, self.weights, self.policy = classes, weights, policy
        self.alphas, self.budgets, self.answers = alphas, budgets, answers
        self.bad, self.good, self.precision, self.targets, self.seed = bad, good, precision, targets, seed
        self.link_: Calibration | None = None

    @classmethod
    def settings_of(cls, rubric: Rubric) -> dict[str, Any]:
        """The classes and weights of the rubric's assertions."""
        return classes_of(rubric)

    def check_rubric(self, rubric: Rubric) -> None:
        """Refuse a rubric whose classes or weights were edited after it was learned.

        Raises:
            BadInput: Names the assertion.
        """
        told = {q.id: (str(q.side), q.weight) for q in rubric.assertions}
        own = zip(self.names_, self.sat_, self._weights(self.names_), strict=True)
        for name, sat, weight in own if told else ():
            if told.get(name, (None, None)) != (str(Side.SAT if sat else Side.DSAT), weight):
                raise BadInput(
                    f"assertion {name!r} of {rubric.name!r} is gone, or has another class or weight than the evaluator "
                    "learned with; fit again: accord fit learned-rubric --pool FILE"
                )

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments beyond the question."""
        plain = {
            name: getattr(self, name) for name in ("policy", "answers", "bad", "good", "precision", "targets", "seed")
        }
        named = {name: None if (of := getattr(self, name)) is None else dict(of) for name in ("classes", "weights")}
        return {**named, **plain, "alphas": list(self.alphas), "budgets": [list(each) for each in self.budgets]}

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` or `restore` has run."""
        return self.link_ is not None

    @property
    def annotators(self) -> list[str]:
        """Everyone whose labels were learned from."""
        return [] if self.link_ is None else self.link_.annotators

    # --- learning -----------------------------------------------------------------------------------------------

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Select assertions, fix the threshold and its window, and calibrate NetSAT.

        Raises:
            BadInput: No question was answered, or there are too few good, bad or labelled conversations.
        """
        rated = ratings(evidence, labels, self.question)
        side = self.training_side(evidence, rated)
        if len(rated) < FEWEST_LABELS:
            raise BadInput(
                f"{len(rated)} labels on {self.question.id!r} have evidence; it needs {FEWEST_LABELS} or more"
            )
        pool = side.pool
        budgets = [Budget(*each) for each in self.budgets]
        alphas = self.alphas if self.policy == RUBICON else (0.0,)
        fold = stratified(side.groups, pool.good, self.seed)
        self.tuned_ = tuned(pool, fold, alphas, budgets, chooser(self.policy, self.seed), self.targets == POOLED)
        chosen = sorted(self.choose(pool), key=lambda row: (not pool.sat[row], -pool.separation[row]))
        if not chosen:
            raise BadInput(f"no assertion fits the budgets {list(self.budgets)}: the pool has only the other class")
        self.names_, self.sat_ = [side.names[row] for row in chosen], pool.sat[chosen]
        self.columns_ = tuple(column for column in evidence.columns if column.question in self.names_)
        self.typical_ = side.points.values[chosen][:, rated.row].mean(axis=1)
        scores = pool.net_sat(chosen) / POINT
        self.threshold_ = threshold_of(scores, pool.good)
        self.window_ = Window.read(scores, pool.good, self.threshold_, self.precision)
        self.undecided_, self.contradicted_ = side.verdicts.undecided, side.verdicts.contradicted
        self.classes_ = (int(pool.good.sum()), int((~pool.good).sum()))
        unseen = self.net_sat(side.points.values[chosen])
        unseen[side.verdicts.row] = self.tuned_.scores
        self.link_ = self._calibration().fit(self._as_evidence(evidence, unseen).take(np.unique(rated.row)), labels)
        return self

    def training_side(self, evidence: EvidenceTable, rated: Ratings) -> TrainingSide:
        """What there is to select from; see `TrainingSide.of` for what is raised."""
        about = (self.classes or {}, self.weights or {}, self.answers, (self.bad, self.good))
        return TrainingSide.of(evidence, rated, self.question, *about)

    def choose(self, pool: Pool) -> list[int]:
        """What the policy takes from a pool, with the α and the budget that were chosen."""
        candidates = Candidates(pool, self.targets == POOLED)
        return chooser(self.policy, self.seed)(candidates, self.tuned_.budget, self.tuned_.alpha)

    def _weights(self, names: Sequence[str]) -> list[float]:
        return [(self.weights or {}).get(name, 1.0) for name in names]

    def parts(self, evidence: EvidenceTable) -> tuple[Floats, Floats]:
        """(n,) each: what the SAT assertions and what the DSAT ones add to NetSAT, in points; the second is negative.

        Raises:
            BadInput: The evidence lacks an assertion, or it was answered otherwise.
        """
        self.check_fitted()
        said = points(evidence.align(self.columns_), self.names_, self.answers)
        added = signed(said.values, self.sat_, self._weights(self.names_)) / POINT
        return added[self.sat_].sum(axis=0), added[~self.sat_].sum(axis=0)

    def net_sat(self, values: Whole) -> Floats:
        """(n,) NetSAT in points, from (P, n) thousandths of the chosen assertions."""
        return np.asarray(signed(values, self.sat_, self._weights(self.names_)).sum(axis=0) / POINT)

    def _as_evidence(self, evidence: EvidenceTable, scores: Floats) -> EvidenceTable:
        """NetSAT as a table of one column."""
        made_by = Signature.of(
            self.method, assertions=content_hash(sorted(c.made_by for c in self.columns_), length=12)
        )
        column, present = Column(NET_SAT, str(made_by)), np.ones((len(scores), 1), dtype=bool)
        return EvidenceTable(evidence.targets, (column,), scores[:, None], present, {}, evidence.versions)

    def _calibration(self) -> Calibration:
        return Calibration(self.question, core="mixed", own_slopes=False)

    # --- predicting ---------------------------------------------------------------------------------------------

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """One score a row with its label; a row with fewer than half of its answers is unscored."""
        self.check_fitted()
        assert self.link_ is not None
        shown = evidence.align(self.columns_)
        said = points(shown, self.names_, self.answers)
        scores, missing = self.net_sat(said.values), said.missing.sum(axis=0)
        labels, signature, reasons = self.window_.says(scores), self.signature(), shown.reasons()
        added = (
            signed(said.values - self.typical_[:, None], self.sat_, self._weights(self.names_)) / POINT * self._slope()
        )
        found: list[Score | Unscored] = []
        for row, score in enumerate(self.link_.predict_each(self._as_evidence(shown, scores), annotators)):
            silent = f"{missing[row]} of {len(self.names_)} assertions have no answer"
            if not isinstance(score, Score) or missing[row] > (1 - LEAST_ANSWERED) * len(self.names_):
                why = "; ".join([silent, *sorted(reasons.get(score.target, ()))])
                found.append(Unscored(score.target, score.annotator, why, signature))
                continue
            neutral = [f"{silent} and count as neutral"] if missing[row] else []
            warnings = [*neutral, *([score.warning] if score.warning else [])]
            attributions = sorted(zip(self.names_, added[:, row].tolist(), strict=True), key=lambda one: -abs(one[1]))
            found.append(
                replace(
                    score,
                    signature=signature,
                    warning="; ".join(warnings) or None,
                    attributions=tuple(attributions),
                    net_sat=float(scores[row]),
                    label=str(labels[row]),
                )
            )
        return found

    def _slope(self) -> float:
        """How much the expected answer rises with a point of NetSAT."""
        assert self.link_ is not None and isinstance(self.link_.core_, MixedCore)
        model = self.link_.core_.model_
        return float(model.coef_[0] / model.feature_scale_[0])

    def signature(self) -> Signature:
        """How this evaluator's scores are made."""
        makers = sorted(column.made_by for column in self.columns_)
        judges = dict.fromkeys(maker.partition("|question:")[0] for maker in makers)
        return Signature.of(
            self.method,
            question=self.question.id,
            policy=self.policy,
            assertions=f"{int(self.sat_.sum())}+{int((~self.sat_).sum())}",
            alpha=self.tuned_.alpha if self.policy == RUBICON else None,
            answers=self.answers,
            targets=self.targets if self.policy == RUBICON else None,
            precision=self.precision,
            conversations=sum(self.classes_),
            seed=self.seed,
            evidence="+".join(judges),
            rubric=content_hash(makers, length=8),
            version=__version__,
        )

    def describe(self) -> dict[str, Any]:
        """What was selected, where labels begin, and what α and the budget were chosen from."""
        assert self.link_ is not None
        weights = self._weights(self.names_)
        return {
            "method": self.method,
            "signature": str(self.signature()),
            "assertions": [
                {"id": name, "class": (Side.SAT if sat else Side.DSAT).value, "weight": weight}
                for name, sat, weight in zip(self.names_, self.sat_, weights, strict=True)
            ],
            "alpha": self.tuned_.alpha,
            "budget": [self.tuned_.budget.sat, self.tuned_.budget.dsat],
            "tried": [
                {"alpha": t.alpha, "sat": t.budget.sat, "dsat": t.budget.dsat, "sharpness": t.sharpness,
                 "separation": t.separation}
                for t in self.tuned_.tried
            ],
            "threshold": self.threshold_,
            "window": [_finite(self.window_.low), _finite(self.window_.high)],
            "good": self.classes_[0],
            "bad": self.classes_[1],
            "undecided": self.undecided_,
            "contradicted": self.contradicted_,
            "annotators": self.link_.describe()["annotators"],
        }  # fmt: skip

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and arrays."""
        assert self.link_ is not None
        link, arrays = self.link_.state()
        described = {name: value for name, value in self.describe().items() if name not in ("method", "signature")}
        card = {**described, "columns": [asdict(column) for column in self.columns_], "link": link}
        return card, {"typical": self.typical_, **{f"link.{name}": array for name, array in arrays.items()}}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        self.names_ = [one["id"] for one in card["assertions"]]
        self.sat_ = np.array([one["class"] == Side.SAT for one in card["assertions"]])
        self.columns_ = tuple(Column(**column) for column in card["columns"])
        self.typical_, self.threshold_ = arrays["typical"], float(card["threshold"])
        low, high = card["window"]
        self.window_ = Window(-np.inf if low is None else low, np.inf if high is None else high)
        tried = [
            Trying(t["alpha"], Budget(t["sat"], t["dsat"]), t["sharpness"], t["separation"]) for t in card["tried"]
        ]
        self.tuned_ = Tuned(card["alpha"], Budget(*card["budget"]), np.zeros(0), tried)
        self.classes_ = (card["good"], card["bad"])
        self.undecided_, self.contradicted_ = card["undecided"], card["contradicted"]
        own = {name.removeprefix("link."): array for name, array in arrays.items() if name.startswith("link.")}
        self.link_ = self._calibration().restore(card["link"], own)
        return self


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None

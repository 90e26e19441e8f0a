"""The mixture evaluator: many weak metrics in, one score with its reasons out.

After MoE-CIU (Choi et al., *Combining Multiple Metrics for Evaluating Retrieval-Augmented Conversations*). It learns
what people say on average, not whom they are; its scores say which metrics moved them, and by how much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.errors import BadInput
from accord.evaluators.base import Arrays, Evaluator, evaluators
from accord.evaluators.calibration.calibration import why_nothing
from accord.evaluators.calibration.conformal import bands
from accord.evaluators.calibration.core import matrix
from accord.evaluators.calibration.levels import Levels
from accord.evaluators.calibration.ordinal import OrdinalLink
from accord.evaluators.calibration.trained_on import TrainedOn
from accord.evaluators.mixture.additive import Additive
from accord.evaluators.mixture.soft_bins import SoftBins
from accord.evaluators.ratings import Ratings, ratings
from accord.evidence.table import EvidenceTable
from accord.labels import Labels
from accord.rubric import Question
from accord.score import POPULATION, Score, Signature, Unscored, score_from
from accord.splits import INNER_FOLDS, fold_of
from accord.version import __version__

STRENGTHS = ((1.0, 1.0), (3.0, 3.0), (10.0, 3.0), (30.0, 10.0), (100.0, 30.0), (300.0, 100.0))
"""Penalties to choose from: how flat, and how smooth, the curves are."""
FEWEST_TEXTS = 20
ENOUGH_TEXTS = 50

Floats = NDArray[np.float64]


@evaluators.register("mixture")
class Mixture(Evaluator):
    """Learns how much each metric says, as a curve over its ranks; scores come with their reasons.

    Args:
        question: The main question, with an ordered scale.
        flat, smooth: λ₁ and λ₂ of the curves; without them a pair of `STRENGTHS` is chosen inside the training side.
        coverage: Share of new ratings that the conformal band of a score should hold.
    """

    method = "mixture"

    def __init__(
        self, question: Question, flat: float | None = None, smooth: float | None = None, coverage: float = 0.9
    ) -> None:
        super().__init__(question)
        if (flat is None) != (smooth is None) or (flat is not None and min(flat, smooth or 0.0) < 0):
            raise BadInput(f"flat and smooth are two numbers from 0, or neither is given; got {flat} and {smooth}")
        if not 0 < coverage < 1:
            raise BadInput(f"coverage is a share between 0 and 1, got {coverage}")
        self.flat, self.smooth, self.coverage = flat, smooth, coverage
        self.additive_: Additive | None = None

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments beyond the question."""
        return {"flat": self.flat, "smooth": self.smooth, "coverage": self.coverage}

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Learn from every label on the main question whose target has evidence.

        Raises:
            BadInput: Fewer than `FEWEST_TEXTS` texts are rated, all of one conversation, or a label is off the scale.
        """
        features = evidence.expected()
        rated = ratings(features, labels, self.question)
        texts = np.unique(rated.row)
        if len(texts) < FEWEST_TEXTS:
            raise BadInput(
                f"{len(texts)} rated texts have evidence; a mixture needs {FEWEST_TEXTS} or more, and {ENOUGH_TEXTS} "
                "to be trusted. Rate more."
            )
        if len(set(rated.conversation)) < 2:
            raise BadInput("all rated texts belong to one conversation; what is learned cannot be checked on another")
        X, y, weight = _by_text(matrix(features), rated, texts)
        self.bins_ = SoftBins.fit(X)
        held_out, self.strength_ = self._chosen(X, y, weight, [features.targets[row].conversation for row in texts])
        self.additive_ = Additive.fit(self.bins_.basis(X), y, weight, *self.strength_)
        levels = Levels.fit(rated)
        means = held_out[np.searchsorted(texts, rated.row)]
        self._link(means, levels.coarse(rated))
        shares = self._distribution(means)
        self.trained_on_ = TrainedOn.of(features, rated, levels, shares, [], self.coverage)
        self.texts_ = len(texts)
        return self

    def _chosen(self, X: Floats, y: Floats, weight: Floats, names: Sequence[str]) -> tuple[Floats, tuple[float, float]]:
        """(texts,) predictions without each conversation, and the penalties with the least squared error of them."""
        place = fold_of(names, INNER_FOLDS)
        fold = np.array([place[name] for name in names])
        given = [(self.flat, self.smooth)] if self.flat is not None and self.smooth is not None else STRENGTHS
        found = np.zeros((len(given), len(y)))
        for each in np.unique(fold):
            train, test = fold != each, fold == each
            bins = SoftBins.fit(X[train])
            known, new = bins.basis(X[train]), bins.basis(X[test])
            for row, strength in enumerate(given):
                found[row, test] = Additive.fit(known, y[train], weight[train], *strength).predict(new)
        best = int(np.argmin(((found - y) ** 2 * weight).sum(axis=1)))
        return found[best], given[best]

    def _link(self, means: Floats, rated: Ratings) -> None:
        """From a prediction to a distribution, learned on predictions without their texts."""
        self.unit_ = np.array([rated.options[0], np.ptp(rated.options) / (len(rated.options) - 1)])
        nobody = np.full(len(rated), -1, dtype=np.intp)
        self.link_ = OrdinalLink.fit(self._in_steps(means), rated.answer, nobody, 0, len(rated.options), spread=0.0)

    def _in_steps(self, means: Floats) -> Floats:
        return np.asarray((means - self.unit_[0]) / self.unit_[1])

    def _distribution(self, means: Floats) -> Floats:
        return self.link_.distribution(self._in_steps(means), np.full(len(means), -1, dtype=np.intp))

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """One score a row, the same whoever is asked; rows without any evidence are unscored."""
        self.check_fitted()
        features = evidence.expected().like(self.trained_on_.columns)
        if not len(features):
            return []
        assert self.additive_ is not None
        basis = self.bins_.basis(matrix(features))
        added = self.additive_.contributions(basis)
        side = self.trained_on_
        shares = side.levels.fine(self._distribution(self.additive_.predict(basis)))
        ends, warnings = bands(side.options, shares, side.width), side.warnings(features)
        signature, names = self.signature(), [column.name for column in features.columns]
        reasons = features.reasons()
        scores: list[Score | Unscored] = []
        for row, who in enumerate(annotators):
            target, speaker = features.targets[row], POPULATION if who is None else str(who)
            if not features.present[row].any():
                scores.append(Unscored(target, speaker, why_nothing(reasons, target), signature))
                continue
            band, warning = (float(ends[row, 0]), float(ends[row, 1])), self._warning(warnings[row])
            because = sorted(zip(names, added[row].tolist(), strict=True), key=lambda one: -abs(one[1]))
            scores.append(
                score_from(target, speaker, side.options, shares[row], signature, band, warning, tuple(because))
            )
        return scores

    def _warning(self, unlike: str | None) -> str | None:
        few = f"learned from few texts: {self.texts_}, {ENOUGH_TEXTS} are enough"
        return "; ".join(part for part in (few if self.texts_ < ENOUGH_TEXTS else "", unlike) if part) or None

    def among(self, evidence: EvidenceTable) -> Mixture:
        """This evaluator for another place, where ranks are told among that place's own texts; no label is needed.

        Raises:
            BadInput: The evidence is made otherwise than at `fit`, or there is none.
        """
        self.check_fitted()
        X = matrix(evidence.expected().like(self.trained_on_.columns))
        if not len(X):
            raise BadInput("no texts to tell ranks among; measure some first")
        twin = Mixture(self.question, **self.settings())
        vars(twin).update({name: value for name, value in vars(self).items() if name.endswith("_")})
        twin.bins_ = SoftBins.fit(X)
        return twin

    def signature(self) -> Signature:
        """How this evaluator's scores are made."""
        return Signature.of(
            self.method,
            question=self.question.id,
            features=len(self.trained_on_.columns),
            texts=self.texts_,
            evidence=self.trained_on_.made,
            coverage=self.coverage,
            version=__version__,
        )

    def describe(self) -> dict[str, Any]:
        """What was learned: each metric's curve, and how far it moves a score."""
        assert self.additive_ is not None
        names, curves = [column.name for column in self.trained_on_.columns], self.additive_.curves
        reach = {name: float(np.ptp(curve[:-1])) for name, curve in zip(names, curves, strict=True)}
        return {
            "method": self.method,
            "signature": str(self.signature()),
            "texts": self.texts_,
            "flat": self.strength_[0],
            "smooth": self.strength_[1],
            "level": self.additive_.level,
            "curves": {name: curve.tolist() for name, curve in zip(names, curves, strict=True)},
            "reach": dict(sorted(reach.items(), key=lambda one: -one[1])),
            "coverage": self.coverage,
            "band_width": self.trained_on_.width,
        }

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and arrays."""
        assert self.additive_ is not None
        side, of_side = self.trained_on_.state()
        card = {
            "trained_on": side,
            "texts": self.texts_,
            "strength": list(self.strength_),
            "level": self.additive_.level,
            "link": {"slope": self.link_.slope, "floor": self.link_.floor},
        }
        own = {"curves": self.additive_.curves, "seen": self.bins_.seen, "unit": self.unit_}
        return card, {**own, "thresholds": self.link_.thresholds, **{f"side.{k}": v for k, v in of_side.items()}}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        side = {name.removeprefix("side."): array for name, array in arrays.items() if name.startswith("side.")}
        self.trained_on_ = TrainedOn.restored(card["trained_on"], side)
        self.texts_, self.strength_ = card["texts"], (card["strength"][0], card["strength"][1])
        self.bins_, self.unit_ = SoftBins(arrays["seen"]), arrays["unit"]
        self.additive_ = Additive(card["level"], arrays["curves"])
        thresholds = arrays["thresholds"]
        self.link_ = OrdinalLink(
            thresholds, card["link"]["slope"], np.zeros((0, len(thresholds))), card["link"]["floor"]
        )
        return self

    @property
    def annotators(self) -> list[str]:
        """Nobody: it says what people say on average."""
        return []

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` or `restore` has run."""
        return self.additive_ is not None


def _by_text(values: Floats, rated: Ratings, texts: NDArray[np.intp]) -> tuple[Floats, Floats, Floats]:
    """Each rated text's (M,) evidence, mean rating, and number of ratings."""
    place = np.searchsorted(texts, rated.row)
    count = np.bincount(place).astype(float)
    return values[texts], np.bincount(place, weights=rated.value) / count, count

"""The mixture evaluator: many weak metrics in, one score with its reasons out.

After MoE-CIU (Choi et al., *Combining Multiple Metrics for Evaluating Retrieval-Augmented Conversations*). It learns
what people say on average, not whom they are; its scores say which metrics moved them, and by how much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.evidence import Arrays, Column, EvidenceTable, Ratings, ratings
from accord.learning.calibration import why_nothing
from accord.learning.conformal import bands
from accord.learning.core import matrix
from accord.learning.curves import STRENGTHS, Additive, Form
from accord.learning.experts import LOSSES, Experts
from accord.learning.head import Head, heads
from accord.learning.link import OrdinalLink
from accord.learning.trained_on import Levels, TrainedOn
from accord.statistics import INNER_FOLDS, fold_of
from accord.values import POPULATION, BadInput, Labels, Question, Score, Signature, UnknownName, Unscored, score_from
from accord.version import __version__

FORMS = ("additive", "gated", "concat")
FEWEST_TEXTS = 20
ENOUGH_TEXTS = 50

Floats = NDArray[np.float64]


class Mixture(Head):
    """Learns how much each metric says, as a curve over its ranks; scores come with their reasons.

    Args:
        question: The main question, with an ordered scale.
        flat, smooth: λ₁ and λ₂ of the curves; without them a pair of `STRENGTHS` is chosen inside the training side.
        coverage: Share of new ratings that the conformal band of a score should hold.
        form: `additive`; or as published, `gated` (MoE-CIU) or `concat` (MoE-Concat).
        loss: Of the published forms: `squared` (a regressor) or `cross-entropy` (a classifier).
        seed: Of the published forms.
    """

    method = "mixture"

    def __init__(
        self,
        question: Question,
        flat: float | None = None,
        smooth: float | None = None,
        coverage: float = 0.9,
        form: str = "additive",
        loss: str = "squared",
        seed: int = 0,
    ) -> None:
        super().__init__(question)
        if (flat is None) != (smooth is None) or (flat is not None and min(flat, smooth or 0.0) < 0):
            raise BadInput(f"flat and smooth are two numbers from 0, or neither is given; got {flat} and {smooth}")
        if not 0 < coverage < 1:
            raise BadInput(f"coverage is a share between 0 and 1, got {coverage}")
        if form not in FORMS:
            raise UnknownName("form of mixture", form, FORMS)
        if loss not in LOSSES:
            raise UnknownName("loss", loss, LOSSES)
        self.flat, self.smooth, self.coverage = flat, smooth, coverage
        self.form, self.loss, self.seed = form, loss, seed
        self.form_: Form | None = None

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments beyond the question."""
        names = ("flat", "smooth", "coverage", "form", "loss", "seed")
        return {name: getattr(self, name) for name in names}

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
        if len(set(rated.group)) < 2:
            raise BadInput("all rated texts belong to one conversation; what is learned cannot be checked on another")
        X, y, weight = _by_text(matrix(features), rated, texts)
        place = fold_of(names := [labels.group_of(features.targets[row]) for row in texts], INNER_FOLDS)
        fold = np.array([place[name] for name in names])
        self.form_, held_out = self._learned(X, y, weight, fold, (float(rated.options[0]), float(rated.options[-1])))
        levels = Levels.fit(rated)
        means = held_out[np.searchsorted(texts, rated.row)]
        self._link(means, levels.coarse(rated))
        shares = self._distribution(means)
        self.trained_on_ = TrainedOn.of(features, rated, levels, shares, [], self.coverage)
        self.texts_ = len(texts)
        return self

    def _learned(
        self, X: Floats, y: Floats, weight: Floats, fold: NDArray[np.intp], ends: tuple[float, float]
    ) -> tuple[Form, Floats]:
        """The form, everything chosen by folds of the training side, and (texts,) predictions without each fold."""
        if self.form != "additive":
            return Experts.learn(X, y, weight, fold, ends, self.form == "gated", self.loss, self.seed)
        given = [(self.flat, self.smooth)] if self.flat is not None and self.smooth is not None else STRENGTHS
        return Additive.learn(X, y, weight, fold, given)

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
        features = evidence.expected().align(self.trained_on_.columns)
        if not len(features):
            return []
        assert self.form_ is not None
        added, side = self.form_.contributions(matrix(features)), self.trained_on_
        shares = side.levels.fine(self._distribution(self.form_.level + added.sum(axis=1)))
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
            attributions = sorted(zip(names, added[row].tolist(), strict=True), key=lambda one: -abs(one[1]))
            scores.append(
                score_from(target, speaker, side.options, shares[row], signature, band, warning, tuple(attributions))
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
        X = matrix(evidence.expected().align(self.trained_on_.columns))
        if not len(X):
            raise BadInput("no texts to tell ranks among; measure some first")
        twin = Mixture(self.question, **self.settings())
        vars(twin).update({name: value for name, value in vars(self).items() if name.endswith("_")})
        assert self.form_ is not None
        twin.form_ = self.form_.among(X)
        return twin

    def signature(self) -> Signature:
        """How this evaluator's scores are made."""
        return Signature.of(
            self.method,
            question=self.question.id,
            features=len(self.trained_on_.columns),
            texts=self.texts_,
            form=None if self.form == "additive" else f"{self.form},{self.loss}",
            evidence=self.trained_on_.made,
            coverage=self.coverage,
            version=__version__,
        )

    def describe(self) -> dict[str, Any]:
        """What was learned: each metric's curve, and how far it moves a score."""
        assert self.form_ is not None
        names, curves = [column.name for column in self.trained_on_.columns], self.form_.curves()
        reach = {name: float(np.ptp(curve[:-1])) for name, curve in zip(names, curves, strict=True)}
        return {
            "method": self.method,
            "signature": str(self.signature()),
            "texts": self.texts_,
            "form": self.form,
            **self.form_.settings(),
            "level": self.form_.level,
            "curves": {name: curve.tolist() for name, curve in zip(names, curves, strict=True)},
            "reach": dict(sorted(reach.items(), key=lambda one: -one[1])),
            "coverage": self.coverage,
            "band_width": self.trained_on_.width,
        }

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and arrays."""
        assert self.form_ is not None
        (side, of_side), (form, of_form) = self.trained_on_.state(), self.form_.state()
        link = {"slope": self.link_.slope, "floor": self.link_.floor}
        arrays = {"unit": self.unit_, "thresholds": self.link_.thresholds, **_under("side", of_side)}
        card = {"trained_on": side, "texts": self.texts_, "form": form, "link": link}
        return card, {**arrays, **_under("form", of_form)}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        self.trained_on_ = TrainedOn.restored(card["trained_on"], _of("side", arrays))
        self.texts_, self.unit_ = card["texts"], arrays["unit"]
        form: type[Additive] | type[Experts] = Additive if self.form == "additive" else Experts
        self.form_ = form.restored(card["form"], _of("form", arrays))
        thresholds = arrays["thresholds"]
        self.link_ = OrdinalLink(
            thresholds, card["link"]["slope"], np.zeros((0, len(thresholds))), card["link"]["floor"]
        )
        return self

    def seen(self, evidence: EvidenceTable) -> tuple[EvidenceTable, EvidenceTable] | None:
        """The texts that were learned from, and the evidence as this head's own columns."""
        return self.trained_on_.texts(), evidence.expected().align(self.trained_on_.columns)

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The evidence that was learned from."""
        return None if self.form_ is None else self.trained_on_.columns

    @property
    def annotators(self) -> list[str]:
        """Nobody: it says what people say on average."""
        return []

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` or `restore` has run."""
        return self.form_ is not None


@heads.register("curves")
def curves(question: Question, **settings: Any) -> Mixture:
    """A sum of one smooth curve per metric over its ranks, with what each added (after MoE-CIU)."""
    return Mixture(question, **{"form": "additive", **settings})


@heads.register("gated")
def gated(question: Question, **settings: Any) -> Mixture:
    """MoE-CIU as published: trained embeddings of bins, mixed by a gate."""
    return Mixture(question, **{"form": "gated", **settings})


@heads.register("concat")
def concat(question: Question, **settings: Any) -> Mixture:
    """MoE-Concat as published: trained embeddings of bins, without a gate."""
    return Mixture(question, **{"form": "concat", **settings})


def _under(name: str, arrays: Arrays) -> Arrays:
    """Arrays whose names begin with the name of what they belong to."""
    return {f"{name}.{key}": array for key, array in arrays.items()}


def _of(name: str, arrays: Arrays) -> Arrays:
    """The inverse of `_under`."""
    return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}


def _by_text(values: Floats, rated: Ratings, texts: NDArray[np.intp]) -> tuple[Floats, Floats, Floats]:
    """Each rated text's (M,) evidence, mean rating, and number of ratings."""
    place = np.searchsorted(texts, rated.row)
    count = np.bincount(place).astype(float)
    return values[texts], np.bincount(place, weights=rated.value) / count, count

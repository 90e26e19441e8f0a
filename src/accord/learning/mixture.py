"""The mixture evaluator: many weak metrics in, one score with its reasons out.

After MoE-CIU (Choi et al., *Combining Multiple Metrics for Evaluating Retrieval-Augmented Conversations*). It learns
what people say on average, not whom they are; its scores say which metrics moved them, and by how much.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, UnknownName
from accord.evidence import Arrays, Column, EvidenceTable, Ratings
from accord.learning.answer_model import Core, inner_folds, known_ratings, matrix, why_nothing
from accord.learning.head import Head, heads
from accord.learning.metric_curves import STRENGTHS, Additive, Form
from accord.learning.moe_ciu import LOSSES, Experts
from accord.learning.ordered_probit import OrdinalLink
from accord.learning.training_reference import Levels, TrainedOn
from accord.values import POPULATION, Labels, Question, Score, Signature, Unscored, score_from
from accord.version import __version__

FORMS = ("additive", "gated", "concat")
FEWEST_TEXTS = 20
ENOUGH_TEXTS = 50

Floats = NDArray[np.float64]


class CurvesCore(Core):
    """Metrics in; an ordered probit of a sum of curves out, the same whoever is asked.

    Args:
        flat, smooth: λ₁ and λ₂ of the curves; without them a pair of `STRENGTHS` is chosen by inner folds.
        form: One of `FORMS`.
        loss: Of the published forms.
        seed: Of the published forms.
        ends: Of the scale; by default those of the ratings' options.
    """

    name = "curves"

    def __init__(
        self,
        flat: float | None = None,
        smooth: float | None = None,
        form: str = "additive",
        loss: str = "squared",
        seed: int = 0,
        ends: tuple[float, float] | None = None,
    ) -> None:
        self.flat, self.smooth, self.form, self.loss, self.seed, self.ends = flat, smooth, form, loss, seed, ends
        self.form_: Form

    def shown(self, evidence: EvidenceTable) -> EvidenceTable:
        """Each answer block as its expected answer."""
        return evidence.expected()

    def learn(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Learn from the mean rating of each text; other questions' labels are not looked at."""
        means, fold = self._fitted(features, rated)
        nobody = np.full(len(rated), -1, dtype=np.intp)
        return OrdinalLink.held_out(self._in_steps(means), rated.answer, nobody, 0, len(rated.options), 0.0, fold)

    def fit(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> None:
        """Learn without a word on the ratings that were learned from."""
        self._fitted(features, rated)

    def _fitted(self, features: EvidenceTable, rated: Ratings) -> tuple[Floats, NDArray[np.intp]]:
        """Learn; (n,) what is predicted of each rating without its fold of groups, and that fold."""
        texts, first, place = np.unique(rated.row, return_index=True, return_inverse=True)
        X, y, weight = by_text(matrix(features), rated, texts)
        fold, group = inner_folds(rated), np.unique(rated.group.astype(str), return_inverse=True)[1]
        ends = self.ends or (float(rated.options[0]), float(rated.options[-1]))
        if self.form == "additive":
            given = [(self.flat, self.smooth)] if self.flat is not None and self.smooth is not None else STRENGTHS
            self.form_, held_out = Additive.learn(X, y, weight, fold[first], group[first], given)
        else:
            gated = self.form == "gated"
            self.form_, held_out = Experts.learn(X, y, weight, fold[first], ends, gated, self.loss, self.seed)
        self.names_, self.texts_ = [column.name for column in features.columns], len(texts)
        self.people_ = sorted({str(name) for name in rated.annotator})
        self.unit_ = np.array([rated.options[0], np.ptp(rated.options) / (len(rated.options) - 1)])
        means, nobody = held_out[place], np.full(len(rated), -1, dtype=np.intp)
        self.link_ = OrdinalLink.fit(self._in_steps(means), rated.answer, nobody, 0, len(rated.options), spread=0.0)
        return means, fold

    def _in_steps(self, means: Floats) -> Floats:
        return np.asarray((means - self.unit_[0]) / self.unit_[1])

    def contributions(self, features: EvidenceTable) -> Floats:
        """(n, M) what each metric adds to each prediction, in units of the scale."""
        return self.form_.contributions(matrix(features))

    def linked(self, added: Floats) -> Floats:
        """(n, K) distributions from contributions (n, M)."""
        means = self.form_.level + added.sum(axis=1)
        return self.link_.distribution(self._in_steps(means), np.full(len(means), -1, dtype=np.intp))

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """(n, K) each row's distribution, whoever is asked."""
        return self.linked(self.contributions(features))

    @property
    def annotators(self) -> list[str]:
        """Everyone whose labels were learned from."""
        return self.people_

    def describe(self) -> dict[str, Any]:
        """Each metric's curve, and how far it moves a score."""
        curves = dict(zip(self.names_, self.form_.curves(), strict=True))
        reach = {name: float(np.ptp(curve[:-1])) for name, curve in curves.items()}
        return {
            "form": self.form,
            **self.form_.settings(),
            "level": self.form_.level,
            "curves": {name: curve.tolist() for name, curve in curves.items()},
            "reach": dict(sorted(reach.items(), key=lambda one: -one[1])),
        }

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and arrays."""
        form, of_form = self.form_.state()
        link = {"slope": self.link_.slope, "floor": self.link_.floor}
        card = {"texts": self.texts_, "names": self.names_, "people": self.people_, "form": form, "link": link}
        return card, {"unit": self.unit_, "thresholds": self.link_.thresholds, **_under("form", of_form)}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        self.texts_, self.names_, self.people_ = card["texts"], list(card["names"]), list(card["people"])
        form: type[Additive] | type[Experts] = Additive if self.form == "additive" else Experts
        self.form_, self.unit_ = form.restored(card["form"], _of("form", arrays)), arrays["unit"]
        link, thresholds = card["link"], arrays["thresholds"]
        self.link_ = OrdinalLink(thresholds, link["slope"], np.zeros((0, len(thresholds))), link["floor"])
        return self

    def in_new_domain(self, domain_correlation: float) -> CurvesCore:
        """The same: it has no habits to trust."""
        return self


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
        self.core_: CurvesCore | None = None

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Learn from every label on the main question whose target has evidence.

        Raises:
            BadInput: Fewer than `FEWEST_TEXTS` texts are rated, all of one conversation, or a label is off the scale.
        """
        features = evidence.expected()
        rated = known_ratings(features, labels, self.question)
        texts = len(np.unique(rated.row))
        if texts < FEWEST_TEXTS:
            raise BadInput(
                f"{texts} rated texts have evidence; a mixture needs {FEWEST_TEXTS} or more, and {ENOUGH_TEXTS} "
                "to be trusted. Rate more."
            )
        if len(set(rated.group)) < 2:
            raise BadInput("all rated texts belong to one conversation; what is learned cannot be checked on another")
        levels = Levels.fit(rated)
        self.core_ = self._made((float(rated.options[0]), float(rated.options[-1])))
        shares = levels.fine(self.core_.learn(features, levels.coarse(rated), labels))
        self.trained_on_ = TrainedOn.of(features, rated, levels, shares, [], self.coverage)
        return self

    def _made(self, ends: tuple[float, float] | None = None) -> CurvesCore:
        return CurvesCore(self.flat, self.smooth, self.form, self.loss, self.seed, ends)

    @property
    def form_(self) -> Form:
        """The sum over metrics that was learned."""
        return self._fitted().form_

    def _fitted(self) -> CurvesCore:
        self.check_fitted()
        assert self.core_ is not None
        return self.core_

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """One score a row, the same whoever is asked; rows without any evidence are unscored."""
        self.check_fitted()
        features = evidence.expected().align(self.trained_on_.columns)
        if not len(features):
            return []
        core, side = self._fitted(), self.trained_on_

        def said(table: EvidenceTable, rows: NDArray[np.intp]) -> Floats:
            each = core.contributions(table)
            return np.hstack([side.levels.fine(core.linked(each)), each])

        both = side.over_missing(features, said)
        shares, added = both[:, : len(side.options)], both[:, len(side.options) :]
        ends, warnings = side.bands(features, shares), side.warnings(features)
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
        texts = self._fitted().texts_
        few = f"learned from few texts: {texts}, {ENOUGH_TEXTS} are enough" if texts < ENOUGH_TEXTS else ""
        return "; ".join(part for part in (few, unlike) if part) or None

    def among(self, evidence: EvidenceTable) -> Mixture:
        """This evaluator for another place, where ranks are told among that place's own texts; no label is needed.

        Raises:
            BadInput: The evidence is made otherwise than at `fit`, or there is none.
        """
        self.check_fitted()
        X = matrix(evidence.expected().align(self.trained_on_.columns))
        if not len(X):
            raise BadInput("no texts to tell ranks among; measure some first")
        twin = copy.copy(self)
        twin.core_ = copy.copy(self._fitted())
        twin.core_.form_ = self.form_.among(X)
        return twin

    def signature(self) -> Signature:
        """How this evaluator's scores are made."""
        return Signature.of(
            self.method,
            question=self.question.id,
            features=len(self.trained_on_.columns),
            texts=self._fitted().texts_,
            form=None if self.form == "additive" else f"{self.form},{self.loss}",
            evidence=self.trained_on_.made,
            coverage=self.coverage,
            version=__version__,
        )

    def describe(self) -> dict[str, Any]:
        """What was learned: each metric's curve, and how far it moves a score."""
        core = self._fitted()
        return {
            "method": self.method,
            "signature": str(self.signature()),
            "texts": core.texts_,
            **core.describe(),
            "coverage": self.coverage,
            **self.trained_on_.describe(),
        }

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and arrays."""
        (side, of_side), (core, of_core) = self.trained_on_.state(), self._fitted().state()
        return {"trained_on": side, "core": core}, {**_under("side", of_side), **_under("core", of_core)}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        self.trained_on_ = TrainedOn.restored(card["trained_on"], _of("side", arrays))
        self.core_ = self._made().restore(card["core"], _of("core", arrays))
        return self

    def seen(self, evidence: EvidenceTable) -> tuple[EvidenceTable, EvidenceTable] | None:
        """The texts that were learned from, and the evidence as this head's own columns."""
        return self.trained_on_.texts(), evidence.expected().align(self.trained_on_.columns)

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The evidence that was learned from."""
        return None if self.core_ is None else self.trained_on_.columns

    @property
    def annotators(self) -> list[str]:
        """Nobody: it says what people say on average."""
        return []

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` or `restore` has run."""
        return self.core_ is not None


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


def by_text(values: Floats, rated: Ratings, texts: NDArray[np.intp]) -> tuple[Floats, Floats, Floats]:
    """Each rated text's (M,) evidence, mean rating, and number of ratings."""
    place = np.searchsorted(texts, rated.row)
    count = np.bincount(place).astype(float)
    return values[texts], np.bincount(place, weights=rated.value) / count, count

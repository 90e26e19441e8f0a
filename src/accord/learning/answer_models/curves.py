"""Answer model `curves`: a sum of one curve per metric over its ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, UnknownName
from accord.evidence import Arrays, EvidenceTable, Ratings
from accord.learning.answer_models.contract import TextMeanModel, card_names, matrix, part_arrays, prefixed
from accord.learning.answer_models.metric_curves import STRENGTHS, Additive, Form
from accord.learning.answer_models.ordinal import OrdinalLink
from accord.values import Labels

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

FORMS = ("additive", "gated", "concat")
LOSSES = ("squared", "cross-entropy")
FEWEST_TEXTS = 20
ENOUGH_TEXTS = 50
"""Scores that were learned from fewer texts carry a warning."""


@dataclass(frozen=True)
class CurveSettings:
    """Settings of the curves.

    Attributes:
        flat, smooth: λ₁ and λ₂ of the curves; without them a pair of `STRENGTHS` is chosen on inner folds.
        form: `additive`; or as published, `gated` (MoE-CIU) or `concat` (MoE-Concat), which are in accord-papers.
        loss: Of the published forms: `squared` (a regressor) or `cross-entropy` (a classifier).
        seed: Random seed of the published forms.
    """

    flat: float | None = None
    smooth: float | None = None
    form: str = "additive"
    loss: str = "squared"
    seed: int = 0

    def __post_init__(self) -> None:
        flat, smooth = self.flat, self.smooth
        if (flat is None) != (smooth is None) or (flat is not None and min(flat, smooth or 0.0) < 0):
            raise BadInput(f"flat and smooth must both be numbers from 0 or both be left out, got {flat} and {smooth}")
        if self.form not in FORMS:
            raise UnknownName("form of curves", self.form, FORMS)
        if self.loss not in LOSSES:
            raise UnknownName("loss", self.loss, LOSSES)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> CurveSettings:
        """Return settings from a mapping.

        Raises:
            UnknownName: There is no such setting, form or loss.
            BadInput: A value is out of range.
        """
        for name in given:
            if name not in cls.__dataclass_fields__:
                raise UnknownName("setting of curves", name, list(cls.__dataclass_fields__))
        return cls(**given)


class CurveAnswers(TextMeanModel):
    """Ordered probit of a sum of curves over the ranks of metrics.

    Args:
        settings: Settings of the curves.
        ends: Ends of the scale.
    """

    name = "curves"
    uses_other_questions = False
    form_type: ClassVar[type[Form]] = Additive

    def __init__(self, settings: CurveSettings, ends: tuple[float, float]) -> None:
        self.settings, self.ends = settings, ends
        self.form_: Form

    def fit_predict(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Learn from the mean rating of each text.

        Raises:
            BadInput: Fewer than `FEWEST_TEXTS` texts are rated, or all belong to one conversation.
        """
        texts = len(np.unique(rated.row))
        if texts < FEWEST_TEXTS:
            raise BadInput(
                f"only {texts} rated texts have evidence; curves need at least {FEWEST_TEXTS}, and {ENOUGH_TEXTS} for "
                "reliable scores. Rate more texts."
            )
        if len(set(rated.group)) < 2:
            raise BadInput("all rated texts belong to one conversation; rate texts of other conversations")
        return super().fit_predict(features, rated, labels)

    def fit_texts(
        self, features: EvidenceTable, texts: Indices, mean: Floats, weight: Floats, fold: Indices, group: Indices
    ) -> Floats:
        """Learn the curves from T rated texts."""
        self.names_, self.texts_ = [column.name for column in features.columns], len(texts)
        self.form_, held_out = self.learn_form(matrix(features)[texts], mean, weight, fold, group)
        return held_out

    def learn_form(self, X: Floats, mean: Floats, weight: Floats, fold: Indices, group: Indices) -> tuple[Form, Floats]:
        """Learn a `form_type` from T rated texts; also return (T,) held-out predictions.

        Args:
            X: (T, M) metrics, NaN for missing ones.
            mean: (T,) mean ratings.
            weight: (T,) number of ratings in each mean.
            fold: (T,) fold of each text.
            group: (T,) group of each text.
        """
        own = self.settings
        given = [(own.flat, own.smooth)] if own.flat is not None and own.smooth is not None else STRENGTHS
        return Additive.learn(X, mean, weight, fold, group, given)

    def predict_texts(self, features: EvidenceTable) -> Floats:
        """Return (n,) predicted mean ratings."""
        return np.asarray(self.form_.level + self.contributions(features).sum(axis=1))

    def contributions(self, features: EvidenceTable) -> Floats:
        """Return (n, M) the contribution of each metric to each prediction, in units of the scale."""
        return self.form_.contributions(matrix(features))

    def explained(self, features: EvidenceTable, annotators: Sequence[str | None]) -> tuple[Floats, Floats]:
        """Return `distributions` and `contributions` together, with one look-up of the curves."""
        contributions = self.contributions(features)
        return self.linked(np.asarray(self.form_.level + contributions.sum(axis=1))), contributions

    @property
    def caution(self) -> str | None:
        """Warning about a small number of texts."""
        if self.texts_ >= ENOUGH_TEXTS:
            return None
        return f"learned from few texts: {self.texts_}, {ENOUGH_TEXTS} are enough"

    def with_ranks_among(self, features: EvidenceTable) -> CurveAnswers:
        """Return the model with ranks taken among these texts instead of the training texts."""
        model = copy(self)
        model.form_ = self.form_.among(matrix(features))
        return model

    def describe(self) -> dict[str, Any]:
        """Return each metric's curve and the range of its contributions."""
        curves = dict(zip(self.names_, self.form_.curves(), strict=True))
        reach = {name: float(np.ptp(curve[:-1])) for name, curve in curves.items()}
        return {
            "form": self.settings.form,
            **self.form_.settings(),
            "texts": self.texts_,
            "level": self.form_.level,
            "curves": {name: curve.tolist() for name, curve in curves.items()},
            "reach": dict(sorted(reach.items(), key=lambda one: -one[1])),
        }

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""
        (form, form_arrays), (link, link_arrays) = self.form_.state(), self.link_.state()
        card = {
            "texts": self.texts_,
            "names": self.names_,
            "settings": asdict(self.settings),
            "form": form,
            "link": link,
            "people": self.people_,
        }
        return card, {"unit": self.unit_, **prefixed("link", link_arrays), **prefixed("form", form_arrays)}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        self.settings = CurveSettings.of(card["settings"])
        self.people_ = card_names(card, "people")
        self.texts_, self.names_, self.unit_ = card["texts"], card_names(card, "names"), arrays["unit"]
        self.form_ = self.form_type.restored(card["form"], part_arrays("form", arrays))
        self.link_ = OrdinalLink.restored(card["link"], part_arrays("link", arrays))
        return self

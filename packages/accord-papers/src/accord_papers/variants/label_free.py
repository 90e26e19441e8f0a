"""Head `label-free`: ranks replies by the likelihood that context adds to them, without labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import Arrays, EvidenceTable, options_of
from accord.learning import PMI, Head
from accord.statistics import normal_quantile
from accord.values import POPULATION, Labels, Question, Score, Signature, Unscored, score_from
from accord.version import __version__

Floats = NDArray[np.float64]

TRUST = 0.5
"""Assumed correlation of the feature with ratings, as measured for pmi on Topical-USR (docs/methods.md)."""


class LabelFree(Head):
    """Ranks by likelihood evidence without labels; the order is meaningful, the level is not.

    With z the feature standardized on the given conversations, the latent quality is N(trust·z, 1 - trust²), and the
    scale is cut so that all options are equally frequent. Labels are ignored.
    """

    method = "label-free"
    needs_labels: ClassVar[bool] = False

    def __init__(self, question: Question, features: Sequence[str] = (PMI,), trust: float = TRUST) -> None:
        """Store the settings; `features` are columns of evidence whose standardized sum is used, higher is better.

        Raises:
            BadInput: `trust` is not a correlation between 0 and 1.
        """
        super().__init__(question)
        if isinstance(trust, bool) or not isinstance(trust, int | float) or not 0 < trust < 1:
            raise BadInput(f"trust must be a correlation between 0 and 1, got {trust!r}")
        if isinstance(features, str) or not features:
            raise BadInput(f"features must be a list of evidence columns such as [pmi], got {features!r}")
        self.features = tuple(features)
        self.trust = trust
        self.options_ = options_of(question)
        self.centre_: Floats | None = None
        self.spread_: Floats | None = None

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Learn mean and spread of the features; `labels` may be empty.

        Raises:
            BadInput: A feature is missing from the evidence, or is constant.
        """
        values, known = self._values(evidence)
        if known.sum() < 2:
            raise BadInput(
                f"only {known.sum()} conversations have {' and '.join(self.features)}, at least 2 are needed; "
                "measure them first: accord judge --all"
            )
        self.centre_, self.spread_ = values[known].mean(axis=0), values[known].std(axis=0)
        flat = [name for name, spread in zip(self.features, self.spread_, strict=True) if spread == 0]
        if flat:
            raise BadInput(f"{flat[0]!r} is the same for every conversation, so it cannot rank them")
        return self

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """Return the same distribution for every annotator."""
        assert self.centre_ is not None and self.spread_ is not None
        values, known = self._values(evidence)
        latent = ((values - self.centre_) / self.spread_).sum(axis=1) / np.sqrt(len(self.features))
        cuts = normal_quantile(np.arange(1, len(self.options_)) / len(self.options_))
        below = scipy.special.ndtr((cuts - self.trust * latent[:, None]) / np.sqrt(1 - self.trust**2))
        shares = np.diff(below, axis=1, prepend=0.0, append=1.0)
        signature = Signature.of(
            self.method, question=self.question.id, features="+".join(self.features), version=__version__
        )
        scores: list[Score | Unscored] = []
        for row, (target, name) in enumerate(zip(evidence.targets, annotators, strict=True)):
            who = name or POPULATION
            if known[row]:
                scores.append(score_from(target, who, self.options_, shares[row], signature))
            else:
                reasons = (evidence.absences.get((target, feature)) for feature in self.features)
                scores.append(Unscored(target, who, next(filter(None, reasons), "no evidence"), signature))
        return scores

    def describe(self) -> dict[str, Any]:
        """Return the features and a note on the levels."""
        note = "ranks without labels; levels are spread evenly over the scale and are not calibrated"
        return {"method": self.method, "features": list(self.features), "trust": self.trust, "note": note}

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return mean and spread of the features."""
        assert self.centre_ is not None and self.spread_ is not None
        return {}, {"centre": self.centre_, "spread": self.spread_}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        self.centre_, self.spread_ = arrays["centre"], arrays["spread"]
        return self

    @property
    def annotators(self) -> list[str]:
        """Empty: no annotator is modeled."""
        return []

    @property
    def is_fitted(self) -> bool:
        """True after `fit` or `restore`."""
        return self.centre_ is not None

    def _values(self, evidence: EvidenceTable) -> tuple[Floats, NDArray[np.bool_]]:
        """Return (n, features) values, and (n,) True for complete rows.

        Raises:
            BadInput: The evidence has no such column.
        """
        place = {column.name: index for index, column in enumerate(evidence.columns)}
        missing = [name for name in self.features if name not in place]
        if missing:
            raise BadInput(
                f"label-free scores need the evidence {missing[0]!r}; configure a model for it in accord.yaml: "
                "models: {likelihood: {model: embedded:smollm2-135m}}"
            )
        places = [place[name] for name in self.features]
        return evidence.values[:, places], np.asarray(evidence.present[:, places].all(axis=1))

"""Heads that are a calibration with one answer model, or with `auto`, registered by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accord.learning.calibration import Calibration
from accord.learning.head import heads
from accord.values import Question

ABOUT = {
    "auto": "Average of several answer models by their error on inner folds (default).",
    "mixed": "Personalized calibration by linear mixed effects (REML) under an ordered probit.",
    "network": "Personalized calibration by LLM-RUBRIC's network, as in the paper or regularized.",
    "curves": "Sum of one smooth curve per metric over its ranks, with the contribution of each (after MoE-CIU).",
    "gated": "MoE-CIU as published: trained embeddings of bins, mixed by a gate.",
    "concat": "MoE-Concat as published: trained embeddings of bins, without a gate.",
    "svr": "Support vector regression on each text's mean rating, as MoE-CIU's paper learns its reward.",
    "judge-mean": "Mean of the judge's standardized answers, with a slope shrunk to a prior.",
    "ridge-judge": "Ridge regression on the judge's answers.",
    "ridge": "Ridge regression on all evidence.",
    "least-squares": "Least squares on all evidence.",
    "pls": "Partial least squares with one component, as AutoMetrics aggregates metrics.",
    "trees": "Extremely randomized trees; the distribution is the frequency of each option in the leaves.",
    "boosting": "Gradient-boosted trees.",
}
"""Heads that are a calibration with one answer model, or `auto`."""

_FORMS = {"curves": "additive", "gated": "gated", "concat": "concat"}


def _preset(name: str, about: str) -> Callable[..., Calibration]:
    """Return the maker of a head."""

    def make(question: Question, **settings: Any) -> Calibration:
        if name not in _FORMS:
            return Calibration(question, **{"answer_model": name, **settings})
        curves = {"form": _FORMS[name], **(settings.get("curves") or {})}
        return Calibration(question, **{"answer_model": "curves", "shift_groups": (), **settings, "curves": curves})

    make.__doc__ = about
    return make


for _name, _about in ABOUT.items():
    heads.register(_name)(_preset(_name, _about))

"""Heads that are a calibration with one answer model, or with `auto`, registered by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accord.learning.calibration.calibration import Calibration
from accord.learning.head import heads
from accord.values import Question

ABOUT = {
    "auto": "Average of several answer models by their error on inner folds (default).",
    "mixed": "Personalized calibration by linear mixed effects (REML) under an ordered probit.",
    "network": "Personalized calibration by LLM-RUBRIC's network, as in the paper or regularized.",
    "judge-mean": "Mean of the judge's standardized answers, with a slope shrunk to a prior.",
    "ridge-judge": "Ridge regression on the judge's answers.",
    "ridge": "Ridge regression on all evidence.",
    "least-squares": "Least squares on all evidence.",
    "pls": "Partial least squares with one component, as AutoMetrics aggregates metrics.",
    "trees": "Extremely randomized trees; the distribution is the frequency of each option in the leaves.",
    "boosting": "Gradient-boosted trees.",
}
"""Heads that are a calibration with one answer model, or `auto`."""


def answer_model_head(name: str, about: str, **defaults: Any) -> Callable[..., Calibration]:
    """Return the maker of a head that is a calibration with one answer model, or with `auto`.

    Args:
        name: Name of the answer model.
        about: Description of the head in a sentence.
        defaults: Defaults of the head's settings.
    """

    def make(question: Question, **settings: Any) -> Calibration:
        return Calibration(question, **{"answer_model": name, **defaults, **settings})

    make.__doc__ = about
    return make


def curves_head(form: str, about: str) -> Callable[..., Calibration]:
    """Return the maker of a head that is a calibration with one form of curves.

    Args:
        form: Form of the curves.
        about: Description of the head in a sentence.
    """

    def make(question: Question, **settings: Any) -> Calibration:
        curves = {"form": form, **(settings.get("curves") or {})}
        return Calibration(question, **{"answer_model": "curves", "shift_groups": (), **settings, "curves": curves})

    make.__doc__ = about
    return make


for _name, _about in ABOUT.items():
    heads.register(_name)(answer_model_head(_name, _about))
heads.register("issue-labels")(
    answer_model_head(
        "issue-labels",
        "Probability that people mark a kind of issue, from a detector's findings and all evidence (SODA-EVAL).",
        shift_groups=(),
    )
)
heads.register("curves")(
    curves_head(
        "additive",
        "Sum of one smooth curve per metric over its ranks, with the contribution of each (after MoE-CIU).",
    )
)

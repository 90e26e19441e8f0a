"""Answer models by name: built-in models and plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accord.edges import UnknownName
from accord.evidence import options_of
from accord.learning.answer_models.binary import IssueAnswers
from accord.learning.answer_models.contract import AnswerModel
from accord.learning.answer_models.curves import CurveAnswers, CurveSettings
from accord.learning.answer_models.mixed.model import BEST, MixedAnswers
from accord.learning.answer_models.network.answers import NetworkAnswers, NetworkSettings
from accord.learning.answer_models.simple import SIMPLE_MODELS
from accord.learning.answer_models.stacking import ConstantAnswers
from accord.values import Contract, Question, Registry


@dataclass(frozen=True)
class AnswerModelSettings:
    """Settings that answer models read.

    Attributes:
        question: Question whose answers are learned.
        own_slopes: For `mixed`: True to let annotators weight the evidence differently.
        threshold_spread: For `mixed`: prior standard deviation of an annotator's thresholds.
        curves: For `curves`: settings by name (`CurveSettings`).
        network: For `network`: settings by name (`NetworkSettings`).
        is_latent: True to predict the underlying real answer.
    """

    question: Question
    own_slopes: bool = True
    threshold_spread: float = 0.2
    curves: Mapping[str, Any] | None = None
    network: Mapping[str, Any] | None = None
    is_latent: bool = False

    @property
    def curve_settings(self) -> CurveSettings:
        """Settings of the curves, checked."""
        return CurveSettings.of(self.curves or {})

    @property
    def network_settings(self) -> NetworkSettings:
        """Settings of the network, checked."""
        return NetworkSettings.of(self.network or {}, self.is_latent)

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the scale."""
        options = options_of(self.question)
        return float(options[0]), float(options[-1])


ANSWER_MODELS = ("auto", "constant", "judge", "column", "mixed", "curves", "network", "issue-labels", *SIMPLE_MODELS)
answer_models: Registry[Callable[[AnswerModelSettings], AnswerModel]] = Registry(
    "answer model",
    extras=dict.fromkeys(("svr", "gated", "concat", "grid"), "papers"),
    contract=Contract.function(1, "a function of settings that makes an answer model"),
)
"""Makers of further answer models, from their settings."""


def check_answer_model(name: str, own: Sequence[str] = ANSWER_MODELS) -> None:
    """Check that an answer model is one of `own`, or a plug-in.

    Raises:
        UnknownName: There is no such answer model.
        MissingExtra: It is in an extra that is not installed.
    """
    if name in own:
        return
    try:
        answer_models.get(str(name))
    except UnknownName:
        raise UnknownName("answer_model", name, [*own, *answer_models.names()]) from None


def make_answer_model(name: str, settings: AnswerModelSettings) -> AnswerModel:
    """Return an unfitted answer model by its name.

    Raises:
        MissingExtra: It is in an extra that is not installed.
    """
    makers: dict[str, Callable[[], AnswerModel]] = {
        **SIMPLE_MODELS,
        "constant": ConstantAnswers,
        "judge": lambda: MixedAnswers(False, 0.0, settings.question.id, "judge"),
        "column": lambda: MixedAnswers(False, 0.0, BEST, "column"),
        "mixed": lambda: MixedAnswers(settings.own_slopes, settings.threshold_spread),
        "curves": lambda: CurveAnswers(settings.curve_settings, settings.ends),
        "issue-labels": lambda: IssueAnswers(settings.question.id),
        "network": lambda: NetworkAnswers(settings.network_settings),
    }
    if name == "curves" and settings.curve_settings.form != "additive":
        name = settings.curve_settings.form
    elif name == "network" and settings.network_settings.search is not None:
        name = "grid"
    return makers[name]() if name in makers else answer_models.get(name)(settings)

"""Answer models by name: those of Accord, and plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from accord.edges import UnknownName
from accord.learning.answer_models.contract import AnswerModel
from accord.learning.answer_models.curves import CurveAnswers, CurveSettings
from accord.learning.answer_models.mixed.model import BEST, MixedAnswers
from accord.learning.answer_models.network.answers import NetworkAnswers, NetworkSettings
from accord.learning.answer_models.simple import SIMPLE_MODELS
from accord.learning.answer_models.stacking import ConstantAnswers
from accord.values import Contract, Question, Registry


class ModelSettings(Protocol):
    """Settings that answer models read from their head (`Calibration`)."""

    question: Question
    own_slopes: bool
    threshold_spread: float
    curves: Mapping[str, Any] | None
    network: Mapping[str, Any] | None

    @property
    def curve_settings(self) -> CurveSettings:
        """Settings of the curves, checked."""

    @property
    def network_settings(self) -> NetworkSettings:
        """Settings of the network, checked."""

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the scale."""


ANSWER_MODELS = ("auto", "constant", "judge", "column", "mixed", "curves", "network", *SIMPLE_MODELS)
answer_models: Registry[Callable[[ModelSettings], AnswerModel]] = Registry(
    "answer model",
    extras=dict.fromkeys(("svr", "gated", "concat", "grid"), "papers"),
    contract=Contract.function(1, "a function of a head that makes an answer model"),
)
"""Makers of further answer models, from the head whose settings they follow."""


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


def make_answer_model(name: str, head: ModelSettings) -> AnswerModel:
    """Return an unfitted answer model with the settings of a head.

    Raises:
        MissingExtra: It is in an extra that is not installed.
    """
    makers: dict[str, Callable[[], AnswerModel]] = {
        **SIMPLE_MODELS,
        "constant": ConstantAnswers,
        "judge": lambda: MixedAnswers(False, 0.0, head.question.id, "judge"),
        "column": lambda: MixedAnswers(False, 0.0, BEST, "column"),
        "mixed": lambda: MixedAnswers(head.own_slopes, head.threshold_spread),
        "curves": lambda: CurveAnswers(head.curve_settings, head.ends),
        "network": lambda: NetworkAnswers(head.network_settings),
    }
    if name == "curves" and head.curve_settings.form != "additive":
        name = head.curve_settings.form
    elif name == "network" and head.network_settings.search is not None:
        name = "grid"
    return makers[name]() if name in makers else answer_models.get(name)(head)

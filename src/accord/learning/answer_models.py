"""Answer models by name: those of Accord, and plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from accord.edges import UnknownName
from accord.learning.answer_model import AnswerModel
from accord.learning.curve_answers import CurveAnswers
from accord.learning.mixed_model import BEST, MixedAnswers
from accord.learning.network_answers import NetworkAnswers
from accord.learning.simple_models import SIMPLE_MODELS
from accord.learning.stacking import ConstantAnswers
from accord.values import Registry

if TYPE_CHECKING:
    from accord.learning.calibration import Calibration

ANSWER_MODELS = ("auto", "constant", "judge", "column", "mixed", "curves", "network", *SIMPLE_MODELS)
answer_models: Registry[Callable[[Calibration], AnswerModel]] = Registry(
    "answer model", extras=dict.fromkeys(("svr", "gated", "concat", "grid"), "papers")
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


def make_answer_model(name: str, head: Calibration) -> AnswerModel:
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

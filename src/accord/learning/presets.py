"""Evaluators by name: the published methods as presets, and what a project makes of sources and a head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from accord.evidence import Source, SourceContext, make_source
from accord.learning.evaluator import Evaluator
from accord.learning.folder import Level
from accord.learning.head import make_head
from accord.models import ModelSettings
from accord.values import Question

EVIDENCE = "evidence"
"""Stands for every source of the project that measures without learning."""


class EvaluatorSettings(BaseModel):
    """What an evaluator is made of: an entry of `evaluators:` in `accord.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sources: tuple[str, ...] = Field(
        default=(EVIDENCE,),
        description="Sources by name (`accord plugins`); `evidence` stands for all that measure without learning.",
    )
    head: str = Field(default="auto", description="What learns from them: auto, mixed, network, curves, ...")
    settings: dict[str, Any] = Field(default_factory=dict, description="The head's settings.")
    choose: dict[str, list[Any]] = Field(
        default_factory=dict,
        description="Settings of the head to choose inside the training folds: values by name, simplest first.",
    )
    level: Level | None = Field(
        default=None, description="What is scored, where people rated both turns and whole conversations."
    )
    plausibility: bool = Field(
        default=False,
        description="Whether the model `likelihood` lowers scores of replies that nobody would say there.",
    )


PRESETS: Mapping[str, EvaluatorSettings] = {
    "calibration": EvaluatorSettings(),
    "mixture": EvaluatorSettings(head="curves"),
    "svr": EvaluatorSettings(head="svr"),
    "issues": EvaluatorSettings(sources=("issues",), head="mixed"),
    "learned-rubric": EvaluatorSettings(sources=("learned-rubric",), head="mixed", settings={"own_slopes": False}),
    "in-context": EvaluatorSettings(sources=("in-context",), head="mixed", settings={"own_slopes": False}),
    "label-free": EvaluatorSettings(sources=("likelihood",), head="label-free"),
}
"""LLM-RUBRIC, MoE-CIU, its paper's SVR, SODA-EVAL, RUBICON, ADOROR as sources with a head; a score without labels."""


def make_evaluator(
    name: str,
    about: EvaluatorSettings,
    question: Question,
    context: SourceContext,
    evidence: Sequence[str] = (),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    models: Mapping[str, ModelSettings] | None = None,
) -> Evaluator:
    """An evaluator before it learns.

    Args:
        name: What it is called.
        about: What it is made of.
        question: What it predicts.
        context: The project's rubric and seed.
        evidence: The names that `evidence` stands for.
        settings: Of sources, by name.
        models: Who has which role.

    Raises:
        UnknownName: There is no such source, head or setting.
        BadInput: A setting has a value that cannot be.
    """
    named = [part for each in about.sources for part in (evidence if each == EVIDENCE else (each,))]
    parts: list[Source] = [make_source(each, (settings or {}).get(each, {}), context) for each in dict.fromkeys(named)]
    first = {key: values[0] for key, values in about.choose.items()}
    head = make_head(about.head, question, {**about.settings, **first})
    return Evaluator(
        question, tuple(parts), head, name, about.head, about.level, dict(models or {}), choose=about.choose,
        seed=context.seed, checks_plausibility=about.plausibility,
    )  # fmt: skip

"""What evaluators are made of, by name: the published methods as presets, and what a project writes itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Level = Literal["turn", "conversation"]
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
    tune: dict[str, list[Any]] = Field(
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

SIMPLE: Mapping[str, EvaluatorSettings] = {
    "constant": EvaluatorSettings(sources=(), head="constant"),
    "best-column": EvaluatorSettings(head="best-column"),
    "judge-expected": EvaluatorSettings(sources=("rubric",), head="judge-expected"),
}
"""Baselines that can be fitted as evaluators; `compare` recommends them if nothing better is shown to be."""

"""Evaluator settings, and presets for the published methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Level = Literal["turn", "conversation", "step"]
PMI = "pmi"
"""Column that the head `label-free` reads."""
EVIDENCE = "evidence"
"""Stands for every source of the project that measures without learning."""


class EvaluatorSettings(BaseModel):
    """Sources and head of an evaluator: an entry of `evaluators:` in `accord.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sources: tuple[str, ...] = Field(
        default=(EVIDENCE,),
        description="Names of sources (`accord plugins`); `evidence` stands for all that measure without learning.",
    )
    head: str = Field(default="auto", description="Name of the head: auto, mixed, network, curves, ...")
    settings: dict[str, Any] = Field(default_factory=dict, description="Settings of the head.")
    tune: dict[str, list[Any]] = Field(
        default_factory=dict,
        description="Settings of the head to choose inside the training folds: values by name, simplest first.",
    )
    level: Level | None = Field(
        default=None, description="Level to score, if both turns and whole conversations are rated."
    )
    plausibility: bool | None = Field(
        default=None,
        description="Lower the scores of replies that the model `likelihood` finds implausible in their context; "
        "default: if that model is configured and there are enough replies to learn from.",
    )


PRESETS: Mapping[str, EvaluatorSettings] = {
    "default": EvaluatorSettings(),
    "mixture": EvaluatorSettings(head="curves"),
    "svr": EvaluatorSettings(head="svr"),
    "issues": EvaluatorSettings(sources=("issues",), head="mixed"),
    "learned-rubric": EvaluatorSettings(sources=("learned-rubric",), head="mixed", settings={"own_slopes": False}),
    "in-context": EvaluatorSettings(sources=("in-context",), head="mixed", settings={"own_slopes": False}),
    "label-free": EvaluatorSettings(sources=("likelihood",), head="label-free"),
}
"""LLM-RUBRIC, MoE-CIU and its SVR, SODA-EVAL, RUBICON, ADOROR as sources with a head; and a score without labels.

The heads `svr` and `label-free` are in the package accord-papers."""

RENAMED: Mapping[str, str] = {"calibration": "default", "all": "default"}
"""Present names of presets that had others; `all` has a meaning of its own with sources that learn."""

SIMPLE_HEADS = ("judge-mean", "ridge-judge", "ridge", "least-squares", "pls", "trees", "boosting")
"""Heads with a simple answer model, in the order of `compare`."""
JUDGE_PANEL = ("best-judge", "judges-mean", "judges-median", "judges-weighted")
"""Heads of several judges (`judge_panel`)."""
SIMPLE: Mapping[str, EvaluatorSettings] = {
    "constant": EvaluatorSettings(sources=(), head="constant"),
    "best-column": EvaluatorSettings(head="best-column"),
    "judge-expected": EvaluatorSettings(sources=("rubric",), head="judge-expected"),
    **{name: EvaluatorSettings(sources=("rubric",), head=name) for name in JUDGE_PANEL},
    **{name: EvaluatorSettings(head=name) for name in SIMPLE_HEADS},
}
"""Baselines that can be fitted as evaluators."""

"""Inspect: a scorer of tasks.

from accord.hosts.inspect import accord_scorer
Task(dataset=dataset, solver=generate(), scorer=accord_scorer("evaluators/default"))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accord.hosts.shared.scores import Openable, fields_about, open_scorer, reason_text, require

scorers = require("inspect-ai", "0.3.285", "inspect", "inspect_ai.scorer")


def _accord_scorer(evaluator: Openable) -> Callable[..., Any]:
    """Score the messages of a sample in units of the scale; a sample without a score is unscored, with the reason.

    The metadata of a sample have its documents and the assistant's version, which is the model's name by default.
    """
    host = open_scorer(evaluator)

    async def score(state: Any, target: Any) -> Any:
        messages = [{"role": each.role, "content": each.text} for each in state.messages]
        row = host.one(messages, str(state.sample_id), **fields_about(state.metadata, system=str(state.model)))
        about = {"signature": row["signature"], "low": row["low"], "high": row["high"]}
        if row["value"] is None:
            return scorers.Score.unscored(explanation=reason_text(row), metadata=about)
        return scorers.Score(value=row["value"], explanation=reason_text(row), metadata=about)

    return score


accord_scorer = scorers.scorer(metrics=[scorers.mean(), scorers.stderr()], name="accord_scorer")(_accord_scorer)
"""Scorer of an evaluator or a project, with the mean and its standard error."""

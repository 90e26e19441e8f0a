"""verifiers: a judge of environments for reinforcement learning.

from accord.hosts.verifiers import AccordJudge
judge = AccordJudge("evaluators/default")  # reward: await judge.score(task, trace)
"""

from __future__ import annotations

from typing import Any

from accord.edges import Unmeasured
from accord.hosts.shared.scores import Openable, fields_about, open_scorer, reason_text, require

_Judge: Any = require("verifiers", "0.4", "verifiers", "verifiers.v1").Judge


class AccordJudge(_Judge):  # type: ignore[misc]
    """Judge that scores the messages of a trace in units of the scale, and asks no model of its own.

    Args:
        evaluator: Evaluator or project.
        config: Configuration of verifiers' judges.
    """

    def __init__(self, evaluator: Openable, config: Any = None) -> None:
        super().__init__(config)
        self._host = open_scorer(evaluator)

    @property
    def reward_name(self) -> str:
        """Name of the reward: the id of the question."""
        return self._host.name

    async def score(self, task: Any, trace: Any) -> float:
        """Return the score of a trace.

        Raises:
            Unmeasured: The score is missing; verifiers records the error and no reward.
        """
        messages = [{"role": each.role, "content": each.content or ""} for each in trace.messages]
        model = getattr(getattr(trace.agent, "config", None), "model", None)
        about = fields_about(trace.info, vars(task), system=model if isinstance(model, str) else None)
        row = self._host.one(messages, trace.id, **about)
        if row["value"] is None:
            raise Unmeasured(reason_text(row))
        return row["value"]

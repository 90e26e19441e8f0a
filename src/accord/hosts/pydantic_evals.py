"""pydantic-evals: an evaluator of the cases of a data set.

from accord.hosts.pydantic_evals import AccordEvaluator
Dataset(name="chats", cases=cases, evaluators=[AccordEvaluator("evaluators/default")])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from accord.edges import Unmeasured
from accord.hosts.shared.scores import (
    HostScorer,
    exchange,
    fields_about,
    open_scorer,
    reason_text,
    require,
)

evaluators = require("pydantic-evals", "2", "pydantic-evals", "pydantic_evals.evaluators")
_Evaluator: Any = evaluators.Evaluator


@dataclass
class AccordEvaluator(_Evaluator):  # type: ignore[misc]
    """Score of a case in units of the scale; a case without a score is a failure of the evaluator with the reason.

    Inputs and output are texts, lists of messages, or mappings with `messages`. The metadata of a case, and other
    entries of its inputs, have its documents and the assistant's version.

    Attributes:
        evaluator: Folder of the evaluator or project.
    """

    evaluator: str

    @cached_property
    def _host(self) -> HostScorer:
        return open_scorer(self.evaluator)

    def get_default_evaluation_name(self) -> str:
        """Return the id of the question."""
        return self._host.name

    def get_evaluator_version(self) -> str:
        """Return the digest of the evaluator's learned state."""
        return self._host.evaluator.digest()

    def evaluate(self, ctx: Any) -> Any:
        """Score the inputs and the output of a case.

        Raises:
            Unmeasured: The case has no score.
        """
        about = fields_about(ctx.metadata, ctx.inputs)
        row = self._host.one(exchange(ctx.inputs, ctx.output), str(ctx.name or "case"), **about)
        if row["value"] is None:
            raise Unmeasured(reason_text(row))
        return evaluators.EvaluationReason(value=row["value"], reason=reason_text(row))

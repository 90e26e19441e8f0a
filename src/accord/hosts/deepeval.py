"""DeepEval: a metric of conversational test cases.

from accord.hosts.deepeval import AccordMetric
evaluate([test_case], [AccordMetric("evaluators/default", threshold=0.7)])
"""

from __future__ import annotations

from typing import Any

from accord.hosts.shared.scores import Openable, fields_about, open_scorer, reason_text, require

_BaseConversationalMetric: Any = require("deepeval", "4.3", "deepeval", "deepeval.metrics").BaseConversationalMetric


class AccordMetric(_BaseConversationalMetric):  # type: ignore[misc]
    """Score of a conversation as a share of the scale, from 0 to 1; `score_breakdown` has it in units of the scale.

    A conversation without a score has `score` None and the reason in `error`, and does not succeed.

    Args:
        evaluator: Evaluator or project.
        threshold: Smallest share that succeeds; 0 to 1.
    """

    async_mode = False

    def __init__(self, evaluator: Openable, threshold: float = 0.5) -> None:
        # DeepEval copies a metric by the attributes with the names of its arguments: copies share the open evaluator.
        self.threshold, self.evaluator = threshold, open_scorer(evaluator)

    @property
    def __name__(self) -> str:
        return f"Accord {self.evaluator.name}"

    def measure(self, test_case: Any, *_: Any, **__: Any) -> float | None:
        """Score a `ConversationalTestCase`.

        Documents are the retrieval contexts of its turns, or else its context. Its metadata have the version of the
        assistant.
        """
        retrieved = [text for turn in test_case.turns for text in turn.retrieval_context or ()]
        documents = [str(getattr(each, "context", each)) for each in retrieved or test_case.context or ()]
        messages = [{"role": turn.role, "content": turn.content} for turn in test_case.turns]
        row = self.evaluator.one(messages, **fields_about(test_case.metadata, documents=documents))
        self.score, self.reason = self.evaluator.share(row), reason_text(row)
        self.score_breakdown = {self.evaluator.name: row["value"]}
        self.error = None if row["value"] is not None else row["unscored"]
        self.success = self.score is not None and self.score >= self.threshold
        return self.score

    async def a_measure(self, test_case: Any, *_: Any, **__: Any) -> float | None:
        """Score a test case as `measure` does."""
        return self.measure(test_case)

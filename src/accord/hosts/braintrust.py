"""Braintrust: a scorer of experiments.

from accord.hosts.braintrust import scorer
Eval("chats", data=rows, task=bot, scores=[scorer("evaluators/default")])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accord.hosts.shared.scores import Openable, exchange, fields_about, open_scorer, reason_text, require

braintrust = require("braintrust", "0.48", "braintrust", "braintrust.score")


def scorer(evaluator: Openable) -> Callable[..., Any]:
    """Return a scorer that gives the share of the scale, 0 to 1; without a score it gives None and the reason.

    The metadata have the score in units of the scale. Input and output are texts, lists of messages, or mappings with
    `messages`. The metadata of a case, and other entries of its input, have its documents and the assistant's version.
    """
    host = open_scorer(evaluator)

    def score(input: Any, output: Any, expected: Any = None, metadata: Any = None, **_: Any) -> Any:
        row = host.one(exchange(input, output), **fields_about(metadata, input))
        about = {"value": row["value"], "reason": reason_text(row), "signature": row["signature"]}
        return braintrust.Score(name=host.name, score=host.share(row), metadata=about)

    score.__name__ = host.name
    return score

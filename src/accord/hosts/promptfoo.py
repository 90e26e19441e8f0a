"""promptfoo: `get_assert` for assertions of type `python`.

assert:
  - type: python
    value: file://accord_assert.py   # from accord.hosts.promptfoo import get_assert
    config: { evaluator: evaluators/default, at_least: 3 }
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from accord.edges import AccordError, BadInput
from accord.hosts.shared.scores import HostScorer, exchange, fields_about, open_scorer, reason_text

_opened = lru_cache(maxsize=8)(open_scorer)


def get_assert(output: Any, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the score of an output as a share of the scale, from 0 to 1, and whether it is high enough.

    promptfoo has no missing scores, and shows the traceback of an exception: a missing score, or an invalid setting,
    is a failed assertion with its reason.

    Args:
        output: The reply as a text, even if it is JSON; or a list of messages, which is a whole conversation.
        context: Context of promptfoo. `prompt` is a text or JSON messages; `config` has `evaluator`, by default the
            nearest project, and `at_least` in units of the scale; without it every score passes. Documents and metadata
            are in `vars` and the metadata of the test; the assistant's version is there too, or the provider's name.
    """
    config = context.get("config") or {}
    try:
        host = _opened(config.get("evaluator"))
        at_least = _limit(host, config.get("at_least"))
        row = host.one(exchange(_decoded(context.get("prompt")), output), **_about(context))
    except AccordError as error:
        return {"pass": False, "score": 0.0, "reason": f"accord: {error}"}
    share, reason = host.share(row), f"{host.name}: {reason_text(row)}"
    if share is None or row["value"] is None:
        return {"pass": False, "score": 0.0, "reason": reason}
    return {"pass": row["value"] >= at_least, "score": share, "reason": reason}


def _about(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the documents and the metadata of a test, with the name of the provider as the assistant's version."""
    test, provider = context.get("test"), context.get("provider")
    if isinstance(provider, Mapping):
        provider = provider.get("label") or provider.get("id")
    named = provider if isinstance(provider, str) else None
    return fields_about(context.get("vars"), test.get("metadata") if isinstance(test, Mapping) else None, system=named)


def _limit(host: HostScorer, given: Any) -> float:
    low, high = host.ends
    if given is None:
        return low
    if isinstance(given, bool) or not isinstance(given, int | float) or not low <= given <= high:
        raise BadInput(f"at_least: {given!r}: give a number from {low:g} to {high:g}")
    return float(given)


def _decoded(text: Any) -> Any:
    """Return the messages of a chat prompt, which promptfoo gives as JSON, and any other text unchanged."""
    if not isinstance(text, str) or text.lstrip()[:1] not in ("[", "{"):
        return text
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    is_messages = isinstance(found, list) and all(isinstance(each, dict) and "role" in each for each in found)
    return found if is_messages else text

"""LangSmith: `POST /feedback` on the root run of a trace, with a fixed id; a conflict is answered by `PATCH`.

LangSmith has no feedback on a thread, so a conversation is a trace: `accord import` reads root runs as conversations.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from accord.hosts.shared.push import HostScore, Kind, missing_setting
from accord.project import config_sections

BATCH = 1
KINDS: frozenset[Kind] = frozenset({"trace"})
_DECIMALS, _LARGEST = 4, 99_999.9999
"""Decimals and size of a score that LangSmith stores; it refuses others."""


def headers(settings: config_sections.HostConfig) -> dict[str, str]:
    """Return the header with the key."""
    if not settings.api_key:
        raise missing_setting("langsmith", "api_key")
    return {"x-api-key": settings.api_key}


def path(kind: Kind) -> str:
    """Return the path of feedback."""
    return "feedback"


def bodies(scores: Sequence[HostScore]) -> Sequence[Any]:
    """Return the feedback of one score."""
    [score] = scores
    body = {
        "id": score.id, "run_id": score.target, "trace_id": score.target, "key": score.name,
        "score": round(score.value, _DECIMALS), "comment": score.comment,
        "feedback_source": {"type": "api", "metadata": dict(score.details)},
    }  # fmt: skip
    return [body if score.project is None else {**body, "session_id": score.project}]


def is_accepted(status: int, reply: Any, scores: Sequence[HostScore]) -> bool | None:
    """Return True if the reply is the feedback with the id of the score."""
    [score] = scores
    return True if isinstance(reply, dict) and str(reply.get("id")).lower() == score.id else None


def problem(score: HostScore) -> str | None:
    """Return a reason for ids that are not runs, and for values out of range."""
    if abs(score.value) > _LARGEST:
        return f"a value beyond {_LARGEST}"
    try:
        uuid.UUID(score.target)
    except ValueError:
        return "an id of a run that is no UUID"
    return None


def update(score: HostScore) -> tuple[str, Any]:
    """Return the request that changes feedback with a known id."""
    return f"feedback/{score.id}", {"score": round(score.value, _DECIMALS), "comment": score.comment}

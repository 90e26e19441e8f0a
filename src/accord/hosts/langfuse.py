"""Langfuse: `POST /api/public/scores`, about a trace or a session.

A score with an id that exists is updated if its timestamp is the same too. The timestamp is therefore the time of the
conversation or of the first attempt. A server before version 5 takes one score per request, and answers with its
id. A list is answered with `{"message": "Accepted"}` and status 202, or with counts and status 207.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from accord.hosts.shared.push import HostScore, Kind, missing_setting
from accord.project import config_sections

BATCH = 100
KINDS: frozenset[Kind] = frozenset({"trace", "session"})
_LONGEST_ID = 200
"""Maximum length of a session's id, which is ASCII."""


def headers(settings: config_sections.HostConfig) -> dict[str, str]:
    """Return the header of basic authentication."""
    if not settings.public_key or not settings.secret_key:
        raise missing_setting("langfuse", "public_key", "secret_key")
    pair = base64.b64encode(f"{settings.public_key}:{settings.secret_key}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


def path(kind: Kind) -> str:
    """Return the path of scores, which is the same for all objects."""
    return "api/public/scores"


def bodies(scores: Sequence[HostScore]) -> Sequence[Any]:
    """Return a list of scores; for one score also the form of servers before version 5."""
    rows = [_row(score) for score in scores]
    return [rows, rows[0]] if len(rows) == 1 else [rows]


def _row(score: HostScore) -> dict[str, Any]:
    row = {
        "id": score.id, "traceId" if score.kind == "trace" else "sessionId": score.target, "name": score.name,
        "value": score.value, "dataType": "NUMERIC", "comment": score.comment, "metadata": dict(score.details),
    }  # fmt: skip
    return row if score.time is None else {**row, "timestamp": score.time}


def is_accepted(status: int, reply: Any, scores: Sequence[HostScore]) -> bool | None:
    """Return True for the id of the only score or the confirmation of a list; False if the list was partly rejected."""
    if not isinstance(reply, dict):
        return None
    if status == 207 and isinstance(reply.get("accepted"), int):
        return bool(reply["accepted"] == len(scores) and not reply.get("rejected"))
    is_list = status == 202 and reply.get("message") == "Accepted"
    return True if is_list or (len(scores) == 1 and reply.get("id") == scores[0].id) else None


def problem(score: HostScore) -> str | None:
    """Return a reason for ids of sessions that Langfuse drops."""
    is_long = score.kind == "session" and (len(score.target) > _LONGEST_ID or not score.target.isascii())
    return f"a session's id that is not ASCII or is longer than {_LONGEST_ID}" if is_long else None


def update(score: HostScore) -> None:
    """Return None, because POST updates."""

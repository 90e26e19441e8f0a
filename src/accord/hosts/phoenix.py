"""Phoenix: annotations of spans, traces and, from server 12 on, sessions; the same `identifier` updates one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accord.hosts.shared.push import HostScore, Kind
from accord.project import config_sections

BATCH = 100
KINDS: frozenset[Kind] = frozenset({"span", "trace", "session"})


def headers(settings: config_sections.HostConfig) -> dict[str, str]:
    """Return the header with the key; a server without authentication needs none."""
    return {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}


def path(kind: Kind) -> str:
    """Return the path of the annotations of one kind of object; `sync` confirms that they are stored."""
    return f"v1/{kind}_annotations?sync=true"


def bodies(scores: Sequence[HostScore]) -> Sequence[Any]:
    """Return a list of annotations."""
    return [{"data": [_annotation(score) for score in scores]}]


def _annotation(score: HostScore) -> dict[str, Any]:
    return {
        "name": score.name, "annotator_kind": "CODE", f"{score.kind}_id": score.target,
        "result": {"score": score.value, "explanation": score.comment}, "metadata": dict(score.details),
        "identifier": score.id,
    }  # fmt: skip


def is_accepted(status: int, reply: Any, scores: Sequence[HostScore]) -> bool | None:
    """Return True if the reply lists the id at the host of each annotation, and False if it lists fewer."""
    stored = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(stored, list) or not all(isinstance(each, dict) and each.get("id") for each in stored):
        return None
    return len(stored) == len(scores)


def problem(score: HostScore) -> str | None:
    """Return None, because Phoenix takes every id."""
    return None


def update(score: HostScore) -> None:
    """Return None, because POST updates."""

"""The report's part on scoring in context: how well it does, who picks the examples, which prompts stayed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def in_context_section(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Everything the page shows of the findings of `accord fit in-context`; `None` where there are none."""
    if found is None:
        return None
    people = [found["people"]] if found["people"] else []
    return {**found, "lines": [*found["rows"], *people]}

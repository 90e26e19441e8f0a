"""Parts that tell, without a request, why they do not run on a project."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from accord.edges import AccordError
from accord_papers.study import Part, StudyInput


@dataclass(frozen=True)
class CheckedPart(Part):
    """A part with a check of the project.

    Attributes:
        ready: Raises an error if a project lacks what the part reads; sends no request. `None` for a part that needs no
            check.
    """

    ready: Callable[[StudyInput], object] | None = None


def obstacle(part: Part, given: StudyInput) -> str:
    """Return the reason why a part does not run on a project that has its models; empty if it runs."""
    if part.on_project is None:
        return "runs on the public data sets: --data FOLDER" if part.on_data else part.limits
    try:
        if isinstance(part, CheckedPart) and part.ready is not None:
            part.ready(given)
    except AccordError as error:
        return str(error)
    return ""

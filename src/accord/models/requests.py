"""What a flow may ask of a role, beside a prompt: who has it, answers, vectors, what the store holds."""

from __future__ import annotations

from dataclasses import dataclass

from accord.models.flow import OUT_OF_BUDGET
from accord.values import IssueAnnotation, Rubric, Sample

JUDGE, WRITER, SCORER, FINDER, LIKELIHOOD = "judge", "writer", "scorer", "finder", "likelihood"
USER, ASSISTANT = "user", "assistant"
"""Who holds a synthetic conversation; one of them speaks for both where the project names only one."""
EMBEDDER, STORE = "embedder", "store"
"""Roles that need no entry under `models:`."""
NOT_ASKED, NOT_YET, NOT_MEASURED = "not asked yet", "not judged yet", "not measured yet"
NEVER_SENT = frozenset({NOT_ASKED, NOT_YET, NOT_MEASURED, OUT_OF_BUDGET})
"""Reasons of missing answers whose requests were never sent."""
NOT_APPLICABLE = "does not apply"
MODEL_ERROR = "model error"
"""Reason of a missing answer whose request was sent and raised a `ModelError`, for example HTTP 401."""
GIVEN = "given"
"""Where a model of one's own answers, as its kept replies are keyed."""


# --- what can be asked, beside a Prompt -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Who:
    """Asks who has a role; the answer is a `Known`. Nobody is asked anything."""


@dataclass(frozen=True, slots=True)
class Known:
    """Who has a role.

    Attributes:
        name: The model's name.
        mode: How a distribution is obtained from it; empty where it gives none.
        where: Where it answers: the same name elsewhere is another model.
        context: Tokens of one request, where that is known.
    """

    name: str
    mode: str = ""
    where: str = ""
    context: int | None = None


@dataclass(frozen=True)
class Questions:
    """A rubric's questions about one sample; the answer is a `Judged`."""

    sample: Sample
    rubric: Rubric


@dataclass(frozen=True, slots=True)
class Text:
    """A text to place; the answer is its vector.

    Attributes:
        embedder: A name that `open_embedder` knows.
        text: What to place.
        width: Of the vectors that it is to be held against, where they are known.
    """

    embedder: str
    text: str
    width: int | None = None


@dataclass(frozen=True)
class Recall:
    """The issue annotations of a signature that the store holds of some samples' conversations."""

    signature: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class Makers:
    """The signatures of all issue annotations in the store, with how many turns each has."""


@dataclass(frozen=True)
class Keep:
    """Issue annotations to be kept; the answer is `None`."""

    annotations: tuple[IssueAnnotation, ...]

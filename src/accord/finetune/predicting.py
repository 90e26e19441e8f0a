"""Assessments by a model that was taught: one prompt a turn, in the form it was taught, and nothing asked again."""

from __future__ import annotations

from collections.abc import Sequence

from accord.assessment import Assessment, Unassessed
from accord.issues.guidance import Guidance
from accord.issues.mending import mend, settled
from accord.issues.reading import Verdict, read_verdict
from accord.llm.flow import Flow
from accord.llm.model import Failure, Reply, Subject
from accord.score import Signature


def predict(subjects: Sequence[Subject], guidance: Guidance, model: str) -> Flow[list[Assessment | Unassessed]]:
    """Assess turns, each given all turns before it; in their order.

    A kind that is neither in the taxonomy nor among its aliases becomes the residual one.
    """
    taxonomy = f"{guidance.taxonomy.name} {guidance.taxonomy.hash}"
    made_by = str(Signature.of("issues", model=model, taxonomy=taxonomy, prompt=guidance.hash, via=guidance.style))
    replies = yield [guidance.of_turn(subject) for subject in subjects]
    return [_read(subject, reply, guidance, made_by) for subject, reply in zip(subjects, replies, strict=True)]


def _read(subject: Subject, reply: Reply | Failure, guidance: Guidance, made_by: str) -> Assessment | Unassessed:
    if isinstance(reply, Failure):
        return Unassessed(subject.target, reply.reason, reply.detail)
    verdict = read_verdict(reply.text)
    if not isinstance(verdict, Verdict):
        return Unassessed(subject.target, "no verdict", verdict.reason)
    assert subject.turn is not None
    said = subject.conversation.turns[subject.turn].content
    return settled(mend(subject.target, verdict, said, guidance.taxonomy, made_by), guidance.taxonomy)

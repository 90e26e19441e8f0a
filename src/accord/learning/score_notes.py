"""Additions to the scores of a head: notes of their evidence, languages, base rate of unrecorded answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from accord.evidence import EvidenceTable, languages_of
from accord.learning.experiment import HeldOutAnswers
from accord.models import NOT_RECORDED
from accord.values import Score, Unscored, score_from

_BASE_RATE = f"no evidence ({NOT_RECORDED}): this is the distribution of all ratings"
_NOTED = ("annotator", "value", "low", "high", "band_low", "band_high", "distribution", "warning")


def with_notes(scores: Sequence[Score | Unscored], evidence: EvidenceTable) -> list[Score | Unscored]:
    """Return scores with the notes of their evidence."""
    noted: list[Score | Unscored] = []
    for score in scores:
        note = evidence.notes.get(score.target)
        if note is None:
            noted.append(score)
            continue
        notes = {**score.notes, **note.shown}
        if isinstance(score, Score) and note.warning:
            warning = "; ".join(part for part in (note.warning, score.warning) if part)
            noted.append(replace(score, notes=notes, warning=warning))
        else:
            noted.append(replace(score, notes=notes))
    return noted


def with_languages(
    scores: Sequence[Score | Unscored], evidence: EvidenceTable, learned: frozenset[str]
) -> list[Score | Unscored]:
    """Return the scores with a warning for languages that are not among the learned ones."""
    return [_warned_of(score, languages_of(evidence.notes.get(score.target)), learned) for score in scores]


def _warned_of(score: Score | Unscored, languages: Sequence[str], learned: frozenset[str]) -> Score | Unscored:
    new = [code for code in languages if code not in learned]
    if not new or isinstance(score, Unscored):
        return score
    warning = f"language without training data: {', '.join(new)} (learned from {', '.join(sorted(learned))})"
    return replace(score, warning="; ".join(part for part in (warning, score.warning) if part))


def with_base_rate(scores: Sequence[Score | Unscored], answers: HeldOutAnswers | None) -> list[Score | Unscored]:
    """Score samples without a recorded answer by the distribution of all ratings, with a warning.

    A recorded judge cannot be asked again, so no better prediction is possible. Samples that lack evidence for
    another reason stay unscored. Without `answers`, all samples that lack evidence stay unscored.
    """
    if answers is None or not len(answers.answer):
        return list(scores)
    shares = np.bincount(answers.answer, minlength=len(answers.options)) / len(answers.answer)
    return [
        score_from(score.target, score.annotator, answers.options, shares, score.signature, warning=_BASE_RATE)
        if isinstance(score, Unscored) and score.reason.removeprefix("no evidence; ") == NOT_RECORDED
        else score
        for score in scores
    ]


def as_note(score: Score | Unscored) -> dict[str, Any]:
    """Return the prediction of another question as a note."""
    if isinstance(score, Unscored):
        return {"annotator": score.annotator, "unscored": score.reason}
    row = score.to_json()
    return {name: value for name, value in row.items() if name in _NOTED}

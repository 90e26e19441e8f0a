"""Scores of a panel of annotators (LLM-RUBRIC, appendix A), combined by a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from accord.edges import BadInput, UnknownName
from accord.evidence import EvidenceTable
from accord.learning.head import Head
from accord.values import Score, Unscored, score_from

RULES = ("each", "mean", "max", "min")


def predict_panel(head: Head, evidence: EvidenceTable, annotators: Sequence[str], rule: str) -> list[Score | Unscored]:
    """Return scores of a panel.

    Args:
        head: Fitted head.
        evidence: Evidence of n rows.
        annotators: Members of the panel.
        rule: `each` returns every member's own score (n·m, row by row); `mean` the average of the members'
            distributions, with a band that covers every member's band; `max` and `min` the score of the member with the
            highest or lowest value.

    A panel's score carries its members' warnings, and a signature that names the rule and the members.

    Raises:
        BadInput: The panel is empty.
        UnknownName: There is no such rule, or the head does not know a member.
    """
    if rule not in RULES:
        raise UnknownName("panel rule", rule, RULES)
    if not annotators:
        raise BadInput("a panel needs at least one annotator")
    members = [head.predict(evidence, annotator) for annotator in annotators]
    if rule == "each":
        return [score for row in zip(*members, strict=True) for score in row]
    named = f"{rule} of {'+'.join(annotators)}"
    return [_together(row, rule, named) for row in zip(*members, strict=True)]


def _together(scores: Sequence[Score | Unscored], rule: str, named: str) -> Score | Unscored:
    scored = [score for score in scores if isinstance(score, Score)]
    if len(scored) < len(scores):
        missing = next(score for score in scores if isinstance(score, Unscored))
        return Unscored(missing.target, rule, missing.reason, missing.signature.with_part("panel", named))
    chosen = _RULES[rule](scored)
    warnings = dict.fromkeys(score.warning for score in scored if score.warning)
    score = score_from(
        chosen.target, rule, chosen.options, chosen.probabilities, chosen.signature.with_part("panel", named),
        chosen.band, "; ".join(warnings) or None,
    )  # fmt: skip
    return replace(score, value=chosen.value)


def _mixture(scores: Sequence[Score]) -> Score:
    shares = np.mean([score.probabilities for score in scores], axis=0)
    first = scores[0]
    ends = [score.band for score in scores if score.band is not None]
    band = (min(low for low, _ in ends), max(high for _, high in ends)) if len(ends) == len(scores) else None
    score = score_from(first.target, first.annotator, first.options, shares, first.signature, band)
    return replace(score, value=float(np.mean([score.value for score in scores])))


_RULES: dict[str, Callable[[Sequence[Score]], Score]] = {
    "mean": _mixture,
    "max": lambda scores: max(scores, key=lambda score: score.value),
    "min": lambda scores: min(scores, key=lambda score: score.value),
}

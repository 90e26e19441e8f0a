"""A panel of trusted annotators (LLM-RUBRIC, appendix A): what they would say together, by a rule the user names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from accord.evidence import EvidenceTable
from accord.learning.head import Head
from accord.values import BadInput, Score, UnknownName, Unscored, score_from

RULES = ("each", "mean", "max", "min")


def predict_panel(head: Head, evidence: EvidenceTable, annotators: Sequence[str], rule: str) -> list[Score | Unscored]:
    """Scores of a panel.

    Args:
        head: A fitted head.
        evidence: n rows.
        annotators: The panel's members.
        rule: `each` gives every member's own score (n·m, row by row); `mean` the mean of the members' predictions,
            with the distribution of what a member drawn at random would say; `max` and `min` the member with the
            highest or lowest prediction.

    Raises:
        BadInput: The panel is empty.
        UnknownName: No such rule, or a member that the head does not know.
    """
    if rule not in RULES:
        raise UnknownName("panel rule", rule, RULES)
    if not annotators:
        raise BadInput("a panel needs at least one annotator")
    members = [head.predict(evidence, annotator) for annotator in annotators]
    if rule == "each":
        return [score for row in zip(*members, strict=True) for score in row]
    combine = _RULES[rule]
    return [_together(row, rule, combine) for row in zip(*members, strict=True)]


def _together(
    scores: Sequence[Score | Unscored], rule: str, combine: Callable[[Sequence[Score]], Score]
) -> Score | Unscored:
    scored = [score for score in scores if isinstance(score, Score)]
    if len(scored) < len(scores):
        missing = next(score for score in scores if isinstance(score, Unscored))
        return Unscored(missing.target, rule, missing.reason, missing.signature)
    chosen = combine(scored)
    return score_from(chosen.target, rule, chosen.options, chosen.probabilities, chosen.signature)


def _mixture(scores: Sequence[Score]) -> Score:
    shares = np.mean([score.probabilities for score in scores], axis=0)
    first = scores[0]
    return score_from(first.target, first.annotator, first.options, shares, first.signature)


_RULES: dict[str, Callable[[Sequence[Score]], Score]] = {
    "mean": _mixture,
    "max": lambda scores: max(scores, key=lambda score: score.value),
    "min": lambda scores: min(scores, key=lambda score: score.value),
}

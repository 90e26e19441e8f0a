"""Issues as evidence: amount, severity and history of each kind, for turns and for whole conversations.

A model that writes annotations (SODA-EVAL) gives counts, scores and severities. A judge that answers the taxonomy gives
a probability of each kind. Both fill the same columns, so that any evaluator can learn from either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accord.evidence import Column, EvidenceTable
from accord.values import ISSUE, MAX_SCORE, MIN_SCORE, IssueAnnotation, Question, Sample, Scale, Target, Taxonomy

SCORE, LOWEST_SCORE = "issues:score", "issues:lowest"
COUNT, CRITICAL = "issues:count", "issues:critical"
WORST, BEFORE = ":worst", ":before"
"""Suffixes of a kind's further columns."""
WHY = "not assessed"
"""Prefix of the reasons for missing evidence."""
NOT_ASSESSED = f"{WHY} yet"
FADING = 0.5
"""Weight of an earlier turn relative to the turn after it."""


@dataclass(frozen=True, slots=True)
class TurnIssues:
    """Issues of one turn.

    Attributes:
        amounts: Number of issues, or probability, by kind.
        severity: Severity by kind, 0 to 1.
        score: Overall score, 1 to 5, if given.
        is_partial: True if kinds without an entry are unknown; otherwise they are absent.
    """

    amounts: Mapping[str, float]
    severity: Mapping[str, float]
    score: float | None = None
    is_partial: bool = False


def assessed(assessments: Iterable[IssueAnnotation]) -> dict[Target, TurnIssues]:
    """Return the issues of annotated turns; the severity of an issue follows from the score of its turn."""
    by_target = {}
    for annotation in assessments:
        counts = Counter(issue.type for issue in annotation.issues)
        amounts = {kind: float(count) for kind, count in counts.items()}
        severity = (MAX_SCORE - annotation.score) / (MAX_SCORE - MIN_SCORE)
        by_target[annotation.target] = TurnIssues(amounts, dict.fromkeys(amounts, severity), float(annotation.score))
    return by_target


def probable(answers: EvidenceTable, taxonomy: Taxonomy) -> dict[Target, TurnIssues]:
    """Return the issues that a judge's answers to `taxonomy.rubric` give: severity equals probability.

    A kind without an answer is unknown.
    """
    probabilities: dict[Target, dict[str, float]] = {target: {} for target in answers.targets}
    for name in taxonomy.names:
        _, shares, known = answers.distribution(ISSUE + name)
        for row in known.nonzero()[0]:
            probabilities[answers.targets[row]][name] = float(shares[row, 1])
    return {
        target: TurnIssues(amounts, amounts, is_partial=True) for target, amounts in probabilities.items() if amounts
    }


def issue_table(
    samples: Sequence[Sample],
    found: Mapping[Target, TurnIssues],
    taxonomy: Taxonomy,
    signature: str,
    reasons: Mapping[Target, str] | None = None,
    scored: bool = True,
) -> EvidenceTable:
    """Return the issues of each sample as columns, or the `reasons` for turns without annotation.

    For a turn, `issue:KIND` is the amount, `issue:KIND:worst` the severity, and `issue:KIND:before` the weighted amount
    in earlier turns; `issues:count` and `issues:critical` are sums over kinds; `issues:score` is the overall score, if
    the annotations are `scored`. For a conversation, amounts and scores are means over its turns, the severity is that
    of the worst turn, `issues:lowest` is the lowest score, and the history is empty.
    """
    by_conversation: dict[str, dict[int, TurnIssues]] = {}
    for target, each in found.items():
        by_conversation.setdefault(target.conversation, {})[target.turn or 0] = each
    rows: dict[Target, dict[str, float]] = {}
    absences = {}
    for sample in samples:
        turns = by_conversation.get(sample.conversation.id, {})
        own_turns = turns if sample.turn is None else {t: each for t, each in turns.items() if t == sample.turn}
        rows[sample.target] = _features(list(own_turns.values()), taxonomy) if own_turns else {}
        if own_turns:
            rows[sample.target] |= _before(sample.turn or 0, turns, taxonomy)
        else:
            absences[sample.target, COUNT] = _reason(sample, reasons or {})
    return EvidenceTable.from_rows([Column(name, signature) for name in _columns(taxonomy, scored)], rows, absences)


def _columns(taxonomy: Taxonomy, scored: bool) -> list[str]:
    """Return the names of the columns, in order."""
    kinds = [f"{ISSUE}{name}{part}" for name in taxonomy.names for part in ("", WORST)]
    before = [f"{ISSUE}{name}{BEFORE}" for name in taxonomy.names]
    return [*kinds, COUNT, CRITICAL, *((SCORE, LOWEST_SCORE) if scored else ()), *before]


def _reason(sample: Sample, reasons: Mapping[Target, str]) -> str:
    """Return why a sample has no annotated turn."""
    name, turn = sample.conversation.id, sample.turn
    told = {why for target, why in reasons.items() if target.conversation == name and turn in {None, target.turn}}
    return "; ".join(sorted(told)) or NOT_ASSESSED


def _features(turns: Sequence[TurnIssues], taxonomy: Taxonomy) -> dict[str, float]:
    features: dict[str, float] = {}
    for kind in taxonomy.issues:
        with_kind = [turn for turn in turns if kind.name in turn.amounts or not turn.is_partial]
        if with_kind:
            features[ISSUE + kind.name] = sum(turn.amounts.get(kind.name, 0.0) for turn in with_kind) / len(with_kind)
            features[f"{ISSUE}{kind.name}{WORST}"] = max(turn.severity.get(kind.name, 0.0) for turn in with_kind)
    features[COUNT] = sum(features.get(ISSUE + kind.name, 0.0) for kind in taxonomy.issues)
    features[CRITICAL] = sum(features.get(ISSUE + kind.name, 0.0) for kind in taxonomy.issues if kind.critical)
    scores = [turn.score for turn in turns if turn.score is not None]
    if scores:
        features |= {SCORE: sum(scores) / len(scores), LOWEST_SCORE: min(scores)}
    return features


def _before(turn: int, turns: Mapping[int, TurnIssues], taxonomy: Taxonomy) -> dict[str, float]:
    """Return the amount of each kind in earlier turns; the weight halves with each turn of distance."""
    earlier = [turns[place] for place in sorted(turns) if place < turn]
    weights = [FADING**distance for distance in range(len(earlier))][::-1]
    return {
        f"{ISSUE}{name}{BEFORE}": sum(w * each.amounts.get(name, 0.0) for w, each in zip(weights, earlier, strict=True))
        for name in taxonomy.names
    }


def kind_question(kind: str) -> Question:
    """Return the binary question for a kind of issue, named like the kind."""
    return Question(id=kind, text=f"Is there an issue of the kind {kind!r}?", scale=Scale(options=(0, 1)))

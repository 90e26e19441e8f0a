"""Issues as evidence: how much of each kind a turn has, how bad it is, and what came before; of dialogues, over turns.

A model that writes assessments (SODA-EVAL) gives counts, scores and severities; a judge that answers the taxonomy gives
a probability a kind. Both fill the same columns, so that any evaluator can learn from either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accord.evidence import Column, EvidenceTable
from accord.values import ISSUE, MAX_SCORE, MIN_SCORE, IssueAnnotation, Question, Sample, Scale, Target, Taxonomy

SCORE, LOWEST_SCORE = "issues:score", "issues:lowest"
COUNT, CRITICAL = "issues:count", "issues:critical"
WORST, BEFORE = ":worst", ":before"
"""What the names of a kind's further columns end with."""
WHY = "not assessed"
"""What the reasons begin with for which nothing is known of a subject."""
NOT_ASSESSED = f"{WHY} yet"
FADING = 0.5
"""What an earlier turn weighs against the one right after it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in one turn.

    Attributes:
        amounts: By kind, how many issues of it, or how probable it is.
        severity: By kind, how bad, from 0 to 1.
        score: The overall score, 1 to 5, where one was given.
        is_partial: Whether nothing is known of kinds that are not named; else they are not there.
    """

    amounts: Mapping[str, float]
    severity: Mapping[str, float]
    score: float | None = None
    is_partial: bool = False


def assessed(assessments: Iterable[IssueAnnotation]) -> dict[Target, Found]:
    """What assessments found: an issue is as bad as the score of its turn says."""
    found = {}
    for each in assessments:
        amounts: dict[str, float] = {}
        for issue in each.issues:
            amounts[issue.type] = amounts.get(issue.type, 0.0) + 1.0
        bad = (MAX_SCORE - each.score) / (MAX_SCORE - MIN_SCORE)
        found[each.target] = Found(amounts, dict.fromkeys(amounts, bad), float(each.score))
    return found


def probable(answers: EvidenceTable, taxonomy: Taxonomy) -> dict[Target, Found]:
    """What a judge's answers to `taxonomy.rubric` say: a kind is as bad as it is probable; no answer, unknown."""
    chances: dict[Target, dict[str, float]] = {target: {} for target in answers.targets}
    for name in taxonomy.names:
        _, shares, known = answers.distribution(ISSUE + name)
        for row in known.nonzero()[0]:
            chances[answers.targets[row]][name] = float(shares[row, 1])
    return {target: Found(own, own, is_partial=True) for target, own in chances.items() if own}


def issue_table(
    samples: Sequence[Sample],
    found: Mapping[Target, Found],
    taxonomy: Taxonomy,
    signature: str,
    reasons: Mapping[Target, str] | None = None,
    scored: bool = True,
) -> EvidenceTable:
    """What was found in each subject, as columns.

    Of one turn, `issue:KIND` is the amount, `issue:KIND:worst` the severity, `issue:KIND:before` what earlier turns of
    the dialogue had of it, fading; `issues:count` and `issues:critical` add kinds up; `issues:score` is the overall
    score. Of a whole conversation amounts and scores are means over its turns, severity is that of its worst turn,
    `issues:lowest` is the lowest score, and nothing was before. `reasons` say why turns were not assessed;
    `scored` whether whoever looks for issues gives overall scores.
    """
    by_conversation: dict[str, dict[int, Found]] = {}
    for target, each in found.items():
        by_conversation.setdefault(target.conversation, {})[target.turn or 0] = each
    rows: dict[Target, dict[str, float]] = {}
    absences = {}
    for sample in samples:
        turns = by_conversation.get(sample.conversation.id, {})
        own = turns if sample.turn is None else {t: each for t, each in turns.items() if t == sample.turn}
        rows[sample.target] = _features(list(own.values()), taxonomy) if own else {}
        if own:
            rows[sample.target] |= _before(sample.turn or 0, turns, taxonomy)
        if not own:
            absences[sample.target, COUNT] = _why_not(sample, reasons or {})
    names = column_names(taxonomy, scored)
    return EvidenceTable.from_rows([Column(name, signature) for name in names], rows, absences)


def _why_not(sample: Sample, reasons: Mapping[Target, str]) -> str:
    """Why nothing is known of a subject: what came of its turns, where somebody tried."""
    name = sample.conversation.id
    own = {why for where, why in reasons.items() if where.conversation == name and sample.turn in {None, where.turn}}
    return "; ".join(sorted(own)) or NOT_ASSESSED


def column_names(taxonomy: Taxonomy, scored: bool) -> list[str]:
    """The columns of a table of issues, in order."""
    kinds = [f"{ISSUE}{name}{part}" for name in taxonomy.names for part in ("", WORST)]
    before = [f"{ISSUE}{name}{BEFORE}" for name in taxonomy.names]
    return [*kinds, COUNT, CRITICAL, *((SCORE, LOWEST_SCORE) if scored else ()), *before]


def _features(turns: Sequence[Found], taxonomy: Taxonomy) -> dict[str, float]:
    features: dict[str, float] = {}
    for kind in taxonomy.issues:
        told = [each for each in turns if kind.name in each.amounts or not each.is_partial]
        if told:
            features[ISSUE + kind.name] = sum(each.amounts.get(kind.name, 0.0) for each in told) / len(told)
            features[f"{ISSUE}{kind.name}{WORST}"] = max(each.severity.get(kind.name, 0.0) for each in told)
    features[COUNT] = sum(features.get(ISSUE + kind.name, 0.0) for kind in taxonomy.issues)
    features[CRITICAL] = sum(features.get(ISSUE + kind.name, 0.0) for kind in taxonomy.issues if kind.critical)
    scores = [each.score for each in turns if each.score is not None]
    if scores:
        features |= {SCORE: sum(scores) / len(scores), LOWEST_SCORE: min(scores)}
    return features


def _before(turn: int, turns: Mapping[int, Found], taxonomy: Taxonomy) -> dict[str, float]:
    """By kind, what the turns before had of it: each weighs half of the one right after it."""
    earlier = [turns[place] for place in sorted(turns) if place < turn]
    weights = [FADING**distance for distance in range(len(earlier))][::-1]
    return {
        f"{ISSUE}{name}{BEFORE}": sum(w * each.amounts.get(name, 0.0) for w, each in zip(weights, earlier, strict=True))
        for name in taxonomy.names
    }


def kind_question(kind: str) -> Question:
    """Whether a turn has an issue of a kind, as people are asked: a binary question called like the kind."""
    return Question(id=kind, text=f"Is there an issue of the kind {kind!r}?", scale=Scale(options=(0, 1)))

"""Assessments by a fine-tuned model, with one prompt per turn, and their comparison with a reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypedDict

import numpy as np

from accord.edges import BadInput, MissingExtra
from accord.methods import IssuePromptBuilder, postprocess, read_verdict, settled
from accord.models import Failure, PromptFlow, Reply
from accord.statistics import RANK_DRAWS, STATISTICS, Clusters, Floats, Paired, bootstrap, estimate_from_draws, number
from accord.values import (
    MAX_SCORE,
    MIN_SCORE,
    Estimate,
    IssueAnnotation,
    Sample,
    Signature,
    Unannotated,
)


def predict(
    samples: Sequence[Sample], guidance: IssuePromptBuilder, model: str
) -> PromptFlow[list[IssueAnnotation | Unannotated]]:
    """Assess turns, each given all turns before it, in order.

    A kind of issue outside the taxonomy and its aliases becomes the residual kind.
    """
    taxonomy = f"{guidance.taxonomy.name} {guidance.taxonomy.hash}"
    signature = str(Signature.of("issues", model=model, taxonomy=taxonomy, prompt=guidance.hash, via=guidance.style))
    replies = yield [guidance.of_turn(sample) for sample in samples]
    return [_read(sample, reply, guidance, signature) for sample, reply in zip(samples, replies, strict=True)]


def _read(
    sample: Sample, reply: Reply | Failure, guidance: IssuePromptBuilder, signature: str
) -> IssueAnnotation | Unannotated:
    verdict = reply if isinstance(reply, Failure) else read_verdict(reply.text)
    if isinstance(verdict, Failure):
        return Unannotated(sample.target, verdict.reason, verdict.detail)
    assert sample.turn is not None
    text = sample.conversation.turns[sample.turn].content
    return settled(postprocess(sample.target, verdict, text, guidance.taxonomy, signature), guidance.taxonomy)


SUBJECTIVE = "Engagement"
"""Kind of issue that the second column of table 7 leaves out."""
NGRAMS = 4

Pair = tuple[IssueAnnotation | Unannotated, IssueAnnotation]


def evaluate(
    predicted: Sequence[IssueAnnotation | Unannotated],
    reference: Sequence[IssueAnnotation],
    *,
    without: str = SUBJECTIVE,
    draws: int = RANK_DRAWS,
    seed: int = 0,
) -> list[MetricLine]:
    """Compare assessments of the same turns.

    Each row has `statistic`, `of` (its subject), `value`, the ends `low` and `high` of its interval, and `turns`:

    - `spearman` and `pearson` of the scores, -1 to 1, over turns that were read;
    - `bleu4` of the comments, 0 to 100, over the same turns (Papineni et al., 2002, as sacrebleu computes it);
    - `unread`, 0 to 1, a row per reason: the share of turns without an assessment;
    - `types_equal` and `types_covered`, 0 to 1: the share of turns whose kinds of issues are the reference's, or
      include the reference's. There are rows over all turns and over the turns with an issue in the reference, each
      with all kinds and with the kind `without` ignored on both sides. A turn that was not read counts as wrong.

    Args:
        predicted: Assessments by the model; a missing one counts as `not asked`.
        reference: Assessments to compare with.
        without: Kind of issue that is ignored in half of the rows.
        draws: Number of bootstrap samples.
        seed: Seed of the bootstrap.

    Raises:
        BadInput: No turn is in both.
        MissingExtra: `accord[references]` is not installed.
    """
    pairs = _pairs(predicted, reference)
    read = [(ours, theirs) for ours, theirs in pairs if isinstance(ours, IssueAnnotation)]
    return [
        *_correlations(read, draws, seed),
        _bleu(read, draws, seed),
        *_unread(pairs, draws, seed),
        *_validity(pairs, without, draws, seed),
    ]


def _pairs(predicted: Sequence[IssueAnnotation | Unannotated], reference: Sequence[IssueAnnotation]) -> list[Pair]:
    by_target = {assessment.target: assessment for assessment in predicted}
    if not any(theirs.target in by_target for theirs in reference):
        raise BadInput(f"no turn in common: {len(predicted)} assessed turns, {len(reference)} turns of the reference")
    return [(by_target.get(theirs.target) or Unannotated(theirs.target, "not asked"), theirs) for theirs in reference]


class MetricLine(TypedDict):
    """A statistic, its subject, value, interval and number of turns."""

    statistic: str
    of: str
    value: float | None
    low: float | None
    high: float | None
    turns: int


def _row(statistic: str, of: str, estimate: Estimate, turns: int) -> MetricLine:
    return {"statistic": statistic, "of": of, "value": estimate.value, "low": estimate.low, "high": estimate.high,
            "turns": turns}  # fmt: skip


def _clusters(pairs: Sequence[Pair]) -> Clusters:
    return Clusters([theirs.target.conversation for _, theirs in pairs])


def _estimate(
    pairs: Sequence[Pair], rows: Floats, statistic: Callable[[Floats], float], draws: int, seed: int
) -> Estimate:
    """Return a statistic of the sums of rows, (n, k), with an interval by bootstrap of dialogues."""
    clusters, value = _clusters(pairs), number(statistic(rows.sum(axis=0)))
    if len(clusters) < 2:
        return Estimate(value)
    samples = [statistic(sums) for sums in clusters.counts(draws, seed) @ clusters.sums(rows)]
    return estimate_from_draws(value, np.array(samples))


# --- table 6 --------------------------------------------------------------------------------------------------------


def _correlations(read: Sequence[tuple[IssueAnnotation, IssueAnnotation]], draws: int, seed: int) -> list[MetricLine]:
    options = np.arange(MIN_SCORE, MAX_SCORE + 1, dtype=float)
    reference = np.array([theirs.score - MIN_SCORE for _, theirs in read], dtype=np.intp)
    value = np.array([ours.score for ours, _ in read], dtype=float)
    paired, clusters = Paired(options, reference, np.zeros((len(read), 0)), value), _clusters(read)
    return [
        _row(name, "scores", bootstrap(clusters, STATISTICS[name], [paired], draws, seed), len(read))
        for name in ("spearman", "pearson")
    ]


def _bleu(read: Sequence[tuple[IssueAnnotation, IssueAnnotation]], draws: int, seed: int) -> MetricLine:
    """Return corpus BLEU from the n-gram counts of each comment, which bootstrap samples reuse."""
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise MissingExtra("BLEU of explanations", "references") from None
    metric = BLEU(effective_order=True)
    scores = [metric.sentence_score(ours.comment, [theirs.comment]) for ours, theirs in read]
    counts = np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores], dtype=float)

    def bleu(sums: Floats) -> float:
        ints = [int(value) for value in sums]
        correct, total, (ours, theirs) = ints[:NGRAMS], ints[NGRAMS : 2 * NGRAMS], ints[2 * NGRAMS :]
        if not ours:
            return np.nan
        score = float(BLEU.compute_bleu(correct, total, ours, theirs, smooth_method="exp").score)
        return min(score, 100.0)  # the geometric mean of ones may be rounded above one

    estimate = _estimate(read, counts, bleu, draws, seed) if read else Estimate()
    return _row("bleu4", "comments", estimate, len(read))


# --- replies that could not be read, and table 7 --------------------------------------------------------------------


def _share(
    event: Sequence[bool], counted: Sequence[bool], pairs: Sequence[Pair], draws: int, seed: int
) -> tuple[Estimate, int]:
    """Return the share of counted turns with an event, and the number of counted turns."""
    rows = np.column_stack([np.logical_and(event, counted), counted]).astype(float)
    total = int(rows[:, 1].sum())

    def share(sums: Floats) -> float:
        return float(sums[0] / sums[1]) if sums[1] > 0 else np.nan

    return _estimate(pairs, rows, share, draws, seed) if total else Estimate(), total


def _unread(pairs: Sequence[Pair], draws: int, seed: int) -> list[MetricLine]:
    reasons = [_reason(ours) for ours, _ in pairs]
    counted = [True] * len(pairs)
    names = [name for name, _ in Counter(reason for reason in reasons if reason).most_common()]
    events = {"any reason": [bool(reason) for reason in reasons]}
    events |= {name: [reason == name for reason in reasons] for name in names}
    return [_row("unread", name, *_share(event, counted, pairs, draws, seed)) for name, event in events.items()]


def _reason(assessment: IssueAnnotation | Unannotated) -> str:
    if isinstance(assessment, IssueAnnotation):
        return ""
    has_detail = assessment.reason == "no verdict" and assessment.detail
    return assessment.detail if has_detail else assessment.reason


def _validity(pairs: Sequence[Pair], without: str, draws: int, seed: int) -> list[MetricLine]:
    rows = []
    for kinds, ignored in (("all kinds", None), (f"without {without}", without)):
        theirs = [_types(reference, ignored) for _, reference in pairs]
        ours = [_types(own, ignored) if isinstance(own, IssueAnnotation) else None for own, _ in pairs]
        both = list(zip(ours, theirs, strict=True))
        events = {
            "types_equal": [a is not None and a == b for a, b in both],
            "types_covered": [a is not None and a >= b for a, b in both],
        }
        counted = {"turns with issues": [bool(types) for types in theirs], "all turns": [True] * len(pairs)}
        rows += [
            _row(name, f"{turns}, {kinds}", *_share(events[name], counted[turns], pairs, draws, seed))
            for name in events
            for turns in counted
        ]
    return rows


def _types(assessment: IssueAnnotation, ignored: str | None) -> frozenset[str]:
    return frozenset(issue.type for issue in assessment.issues) - {ignored}

"""Assessments by a model that was taught: one prompt a turn, in the form it was taught, and nothing asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from accord.edges import BadInput, MissingExtra
from accord.methods import IssuePromptBuilder, Verdict, postprocess, read_verdict, settled
from accord.models import Failure, PromptFlow, Reply
from accord.statistics import RANK_DRAWS, STATISTICS, Clusters, Floats, Paired, bootstrap, estimate_from_draws, number
from accord.values import (
    HIGHEST,
    LOWEST,
    Estimate,
    IssueAnnotation,
    Sample,
    Signature,
    Unannotated,
)


def predict(
    samples: Sequence[Sample], guidance: IssuePromptBuilder, model: str
) -> PromptFlow[list[IssueAnnotation | Unannotated]]:
    """Assess turns, each given all turns before it; in their order.

    A kind that is neither in the taxonomy nor among its aliases becomes the residual one.
    """
    taxonomy = f"{guidance.taxonomy.name} {guidance.taxonomy.hash}"
    signature = str(Signature.of("issues", model=model, taxonomy=taxonomy, prompt=guidance.hash, via=guidance.style))
    replies = yield [guidance.of_turn(sample) for sample in samples]
    return [_read(sample, reply, guidance, signature) for sample, reply in zip(samples, replies, strict=True)]


def _read(
    sample: Sample, reply: Reply | Failure, guidance: IssuePromptBuilder, signature: str
) -> IssueAnnotation | Unannotated:
    if isinstance(reply, Failure):
        return Unannotated(sample.target, reply.reason, reply.detail)
    verdict = read_verdict(reply.text)
    if not isinstance(verdict, Verdict):
        return Unannotated(sample.target, "no verdict", verdict.reason)
    assert sample.turn is not None
    said = sample.conversation.turns[sample.turn].content
    return settled(postprocess(sample.target, verdict, said, guidance.taxonomy, signature), guidance.taxonomy)


SUBJECTIVE = "Engagement"
"""The kind that table 7 leaves out of its second column."""
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
    """Compare assessments of the same turns; a row a number, as JSON.

    Each row has `statistic`, `of` (what it is of), `value`, the ends `low` and `high` of its interval, and `turns`:

    - `spearman` and `pearson` of the scores, -1 to 1, over turns that were read;
    - `bleu4` of the comments, 0 to 100, over the same (Papineni et al., 2002, as sacrebleu computes it);
    - `unread`, 0 to 1, a row a reason: the share of turns without an assessment;
    - `types_equal` and `types_covered`, 0 to 1: the share of turns whose kinds of issues are the reference's, or
      include all of them. Over all turns, and over those where the reference has an issue; with all kinds, and with
      the kind `without` ignored on both sides. A turn that was not read counts as wrong.

    Args:
        predicted: By the model; a reference turn that it lacks counts as `not asked`.
        reference: What is compared with.
        without: A kind of issue on which people differ.
        draws: Bootstrap samples.
        seed: Fixes them.

    Raises:
        BadInput: No turn is in both.
        MissingExtra: `accord[references]` is not installed.
    """
    pairs = _pairs(predicted, reference)
    read = [(found, own) for found, own in pairs if isinstance(found, IssueAnnotation)]
    return [
        *_correlations(read, draws, seed),
        _bleu(read, draws, seed),
        *_unread(pairs, draws, seed),
        *_validity(pairs, without, draws, seed),
    ]


def _pairs(predicted: Sequence[IssueAnnotation | Unannotated], reference: Sequence[IssueAnnotation]) -> list[Pair]:
    found = {each.target: each for each in predicted}
    if not any(own.target in found for own in reference):
        raise BadInput(f"none of {len(predicted)} assessed turns is among the {len(reference)} to compare with")
    return [(found.get(own.target) or Unannotated(own.target, "not asked"), own) for own in reference]


class MetricLine(TypedDict):
    """A statistic, what it is of, its value with the ends of its interval, and of how many turns."""

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
    return Clusters([own.target.conversation for _, own in pairs])


# --- table 6 --------------------------------------------------------------------------------------------------------


def _correlations(read: Sequence[tuple[IssueAnnotation, IssueAnnotation]], draws: int, seed: int) -> list[MetricLine]:
    options = np.arange(LOWEST, HIGHEST + 1, dtype=float)
    said = np.array([own.score - LOWEST for _, own in read], dtype=np.intp)
    value = np.array([found.score for found, _ in read], dtype=float)
    paired, clusters = Paired(options, said, np.zeros((len(read), 0)), value), _clusters(read)
    return [
        _row(name, "scores", bootstrap(clusters, STATISTICS[name], [paired], draws, seed), len(read))
        for name in ("spearman", "pearson")
    ]


def _bleu(read: Sequence[tuple[IssueAnnotation, IssueAnnotation]], draws: int, seed: int) -> MetricLine:
    """Corpus BLEU from each comment's counts of n-grams, so that resampling counts nothing again."""
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise MissingExtra("BLEU of explanations", "references") from None
    metric = BLEU(effective_order=True)
    scores = [metric.sentence_score(found.comment, [own.comment]) for found, own in read]
    counts = np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores], dtype=float)

    def of(sums: Floats) -> float:
        whole = [int(value) for value in sums]
        correct, total, (ours, theirs) = whole[:NGRAMS], whole[NGRAMS : 2 * NGRAMS], whole[2 * NGRAMS :]
        if not ours:
            return np.nan
        score = float(BLEU.compute_bleu(correct, total, ours, theirs, smooth_method="exp").score)
        return min(score, 100.0)  # the geometric mean of ones rounds to a little more than one

    clusters = _clusters(read)
    if not read:
        return _row("bleu4", "comments", Estimate(), 0)
    samples = np.array([of(drawn) for drawn in clusters.counts(draws, seed) @ clusters.sums(counts)])
    value = number(of(counts.sum(axis=0)))
    estimate = estimate_from_draws(value, samples) if len(clusters) > 1 else Estimate(value)
    return _row("bleu4", "comments", estimate, len(read))


# --- replies that could not be read, and table 7 --------------------------------------------------------------------


def _share(
    happened: Sequence[bool], counted: Sequence[bool], pairs: Sequence[Pair], draws: int, seed: int
) -> tuple[Estimate, int]:
    """Return the share of counted turns for which something happened, and their number."""
    rows = np.column_stack([np.logical_and(happened, counted), counted]).astype(float)
    whole = int(rows[:, 1].sum())
    if not whole:
        return Estimate(), 0
    clusters = _clusters(pairs)
    part, of = (clusters.counts(draws, seed) @ clusters.sums(rows)).T
    samples = np.divide(part, of, out=np.full_like(part, np.nan), where=of > 0)
    value = float(rows[:, 0].sum() / whole)
    return (estimate_from_draws(value, samples) if len(clusters) > 1 else Estimate(value)), whole


def _unread(pairs: Sequence[Pair], draws: int, seed: int) -> list[MetricLine]:
    reasons = [_reason(found) for found, _ in pairs]
    counted = [True] * len(pairs)
    names = [name for name, _ in Counter(reason for reason in reasons if reason).most_common()]
    happened = {"any reason": [bool(each) for each in reasons]}
    happened |= {name: [each == name for each in reasons] for name in names}
    return [_row("unread", name, *_share(own, counted, pairs, draws, seed)) for name, own in happened.items()]


def _reason(found: IssueAnnotation | Unannotated) -> str:
    if isinstance(found, IssueAnnotation):
        return ""
    return found.detail if found.reason == "no verdict" and found.detail else found.reason


def _validity(pairs: Sequence[Pair], without: str, draws: int, seed: int) -> list[MetricLine]:
    rows = []
    for kinds, ignored in (("all kinds", None), (f"without {without}", without)):
        theirs = [_types(own, ignored) for _, own in pairs]
        ours = [_types(found, ignored) if isinstance(found, IssueAnnotation) else None for found, _ in pairs]
        both = list(zip(ours, theirs, strict=True))
        happened = {
            "types_equal": [found is not None and found == own for found, own in both],
            "types_covered": [found is not None and found >= own for found, own in both],
        }
        counted = {"turns with issues": [bool(own) for own in theirs], "all turns": [True] * len(pairs)}
        rows += [
            _row(name, f"{turns}, {kinds}", *_share(happened[name], counted[turns], pairs, draws, seed))
            for name in happened
            for turns in counted
        ]
    return rows


def _types(assessment: IssueAnnotation, ignored: str | None) -> frozenset[str]:
    return frozenset(issue.type for issue in assessment.issues) - {ignored}

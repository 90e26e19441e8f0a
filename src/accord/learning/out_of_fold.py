"""Out-of-fold prediction: every rating predicted by an evaluator that never saw its group. The one such function.

`fit`, `compare`, learning curves, importance and estimates use it; whatever asks nobody to learn is measured once, and
what learns is learned again without each fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from accord.edges import AccordError, BudgetReached, ModelError
from accord.evidence import EvidenceTable, Ratings, Source, Training, joined, measure_all
from accord.learning.evaluator import Evaluator, learns
from accord.learning.fitting import predict_unseen
from accord.learning.held_out import System, unscored
from accord.models import Flow
from accord.statistics import Split


def out_of_fold(
    evaluator: Evaluator,
    train: Training,
    rated: Ratings,
    splits: Sequence[Split],
    known: EvidenceTable | None = None,
) -> Flow[System]:
    """Each rating predicted without its group, for its own annotator and for a person nobody has met.

    Args:
        evaluator: Before learning.
        train: Everything that is rated.
        rated: The ratings to predict, as rows of a table whose targets are those of `train`.
        splits: Of groups.
        known: The evidence of the sources that do not learn, where it is there already.

    Where nothing can be learned on one side of a split, the other side's rows stay unscored with the reason.
    """
    fixed = [source for source in evaluator.sources if not learns(source)]
    learning = [source for source in evaluator.sources if learns(source)]
    table = known if known is not None else (yield from measure_all(fixed, train.samples))
    if not learning:
        return predict_unseen(evaluator.name, evaluator.fitting, table, train.labels, rated, splits)
    whole = unscored(evaluator.name, rated)
    for split in splits:
        try:
            found = yield from _without(evaluator, train, table, rated, split, learning)
        except (BudgetReached, ModelError):
            raise
        except AccordError as error:
            found = unscored(evaluator.name, rated, split, str(error))
        whole = whole.with_rows(found, rated, split)
    return whole


def _without(
    evaluator: Evaluator,
    train: Training,
    table: EvidenceTable,
    rated: Ratings,
    split: Split,
    learning: Sequence[Source],
) -> Flow[System]:
    """One split: sources learn from the one side, and measure the other."""
    own, other = train.only(split.train), train.only(split.test)
    seen, unseen = (table.filter(side, train.group_of) for side in (split.train, split.test))
    for source in learning:
        learned = yield from source.learn(own)
        seen = joined(seen, learned.evidence, source.name)
        unseen = joined(unseen, (yield from learned.source.measure(other.samples)), source.name)
    both = seen.concat(unseen)
    at = both.rows_of(rated.target)
    return predict_unseen(evaluator.name, evaluator.fitting, both, train.labels, replace(rated, row=at), [split])

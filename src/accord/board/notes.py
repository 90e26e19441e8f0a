"""Notes on a selection of scores: synthetic and learned conversations, another evaluator, another scale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from accord.board.filters import LEFT_OUT, BoardFilters, learned_words
from accord.values import Question

if TYPE_CHECKING:
    import polars as pl


def training_notes(selection: BoardFilters, rows: pl.DataFrame, in_training: int, has_training: bool) -> Iterator[str]:
    """Yield the note about scores of conversations that the evaluator learned from."""
    if in_training and selection.answers == "predicted":
        yield learned_words(learned_count(rows), all_learned(rows)) if has_training else LEFT_OUT.format(in_training)


def learned_count(rows: pl.DataFrame) -> int:
    """Return the number of conversations that the evaluator learned from."""
    return rows.filter(rows["in_training"])["conversation"].n_unique()


def all_learned(rows: pl.DataFrame) -> bool:
    """Return True if there are rows, and the evaluator learned from the conversations of all."""
    return len(rows) > 0 and bool(rows["in_training"].all())


def evaluator_notes(selection: BoardFilters, evaluator: str, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the note about another evaluator than the chosen one, which has no scores on the question."""
    if selection.evaluator not in (None, evaluator):
        named = names[str(selection.evaluator)], names[evaluator]
        yield "no scores of {} on this question; those of {} are shown".format(*named)


def scale_notes(asked: Question | None, low: float, high: float) -> Iterator[str]:
    """Yield the note about scores on another scale than the question's."""
    if asked is not None:
        yield (
            f"these scores are on a scale from {low:g} to {high:g}, and the rubric asks {asked.shown} on "
            f"{asked.scale.range}; they are not compared with ratings or other scores. Fit the evaluator again"
        )


def synthetic_notes(selection: BoardFilters, left_out: int) -> list[str]:
    """Return notes about scores of synthetic conversations."""
    notes = [f"{left_out:,} scores of synthetic conversations are left out"] if left_out else []
    shown = {"only": ["only synthetic conversations"], "with": ["synthetic conversations are included"]}
    return notes + shown.get(selection.synthetic, [])

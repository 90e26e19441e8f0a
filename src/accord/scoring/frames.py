"""Scores of a data frame: on the workers of Spark for its frames, in this process for all others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from accord.edges import BadInput
from accord.scoring.batch import BatchScorer
from accord.values import SCORE_TYPES

_SPARK_TYPES = {int: "long", float: "double", bool: "boolean", str: "string"}


def score_frame(frame: Any, evaluator: str | Path | BatchScorer) -> Any:
    """Return the scores of a frame with a conversation per row; sends no requests.

    Args:
        frame: A Spark DataFrame, or an object with `__arrow_c_stream__`: Polars, pandas, pyarrow, DuckDB, Daft.
        evaluator: Folder of a fitted evaluator, or a `BatchScorer` for columns, roles or annotators of your own.

    Returns:
        A frame with a row per row of the input and the columns of a file of scores: a lazy Spark DataFrame for Spark,
        pyarrow for pyarrow, and Polars for everything else. A row that cannot be scored has a status and a reason.

    Raises:
        BadInput: The frame is not a table, the folder holds no evaluator, or the evaluator needs access to models.

    >>> import polars as pl
    >>> from accord.testing import sample_project
    >>> with sample_project() as project:
    ...     folder = project.fit("constant").folder
    ...     frame = pl.DataFrame({"id": ["a", "b"], "messages": ['[{"role": "user", "content": "Hi."}]', "Hi."]})
    ...     print(score_frame(frame, folder)["status"].to_list())
    ['scored', 'bad-row']
    """
    scorer = evaluator if isinstance(evaluator, BatchScorer) else BatchScorer(evaluator)
    if hasattr(frame, "mapInArrow"):
        columns = ", ".join(f"{name} {_SPARK_TYPES[kind]}" for name, kind in SCORE_TYPES.items())
        return frame.mapInArrow(partial(_score_batches, scorer), columns)
    if not hasattr(frame, "__arrow_c_stream__"):
        raise BadInput(
            f"score_frame takes a Spark DataFrame or a table with `__arrow_c_stream__`, got {type(frame).__name__}; "
            "make one: polars.DataFrame(rows)"
        )
    return scorer(frame)


def _score_batches(scorer: BatchScorer, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the scores of each record batch, on a worker."""
    yield from map(scorer, batches)

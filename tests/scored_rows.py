"""Rows of scores written straight to a project's mart, as a run would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from accord import Project
from accord.scoring import ConversationFacts, RowOrigin
from accord.values import SCORE_COLUMNS


def add_scores(project: Project, run: str, rows: Iterable[Mapping[str, Any]], evaluator: str = "e") -> None:
    """Add rows to the mart; names that a row lacks are null."""
    origin = RowOrigin("Q0", f"{evaluator}@1", run=run)
    usual = {**dict.fromkeys(SCORE_COLUMNS), "annotator": "population", "rated": False, "in_training": False}
    scores = ({**usual, **row} for row in rows)
    project.mart.add(each for score in scores for each in origin.rows(score, ConversationFacts(), 1, None))

"""Search of specification gaps in a project, and their change since the wording was changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import EvidenceTable, Ratings, ratings
from accord.learning import learns
from accord.project.evaluators.experiments import in_question
from accord.project.results import GapSearch
from accord.store import Store
from accord.validation import Property, gap_of, properties_of, specification_gaps

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

Floats = NDArray[np.float64]
GAPS = "gaps"
"""Command under which a search is recorded."""
GAP_METHOD = "both directions"
"""Tests of a recorded search. Earlier ones had no name, and found gaps where properties are related to quality."""


def find_gaps(project: Workspace) -> GapSearch:
    """Return the gaps of the main question, with the arguments and errors of `Project.gaps`."""
    question = project.question
    if question.compares:
        raise BadInput(f"{question.id!r} compares two conversations; gaps need a main question that rates one")
    evaluator = project.evaluator()
    train, _ = project.training(evaluator)
    known = project.measure([source for source in evaluator.sources if not learns(source)], train.samples)
    known, train = in_question(known, train)
    rated = ratings(known, train.labels, question)
    judge, name = judge_scores(known, rated, question.id)
    properties = properties_of(rated, train.samples, known)
    gaps = specification_gaps(rated, judge, properties)
    changes = _changes(project, rated, judge, properties)
    return GapSearch(question.id, name, len(properties), len(rated), gaps, changes)


def judge_scores(evidence: EvidenceTable, rated: Ratings, question: str) -> tuple[Floats | None, str]:
    """Return (n,) the judge's mean answer for each rating, NaN without one, and words for the judge.

    The judge's answer to the question itself is used; if there is none, its answer to the question that correlates
    most with the ratings.
    """
    table = evidence.expected()
    found: dict[str, Floats] = {}
    for place, column in enumerate(table.columns):
        if column.question is not None:
            values = np.where(table.present[rated.row, place], table.values[rated.row, place], np.nan)
            if np.isfinite(values).sum() > 2 and np.nanstd(values) > 0:
                found[column.question] = values
    if question in found:
        return found[question], "the judge"
    if not found or np.ptp(rated.value) == 0:
        return None, ""

    def r(values: Floats) -> float:
        rows = np.isfinite(values)
        return abs(float(np.corrcoef(values[rows], rated.value[rows])[0, 1]))

    name = max(found, key=lambda each: r(found[each]))
    return found[name], f"the judge's answers to {name}"


def gap_searches(store: Store, question: str) -> Iterator[Mapping[str, Any]]:
    """Yield the results of all finished searches about a question by the present tests, the latest first."""
    for run in reversed(store.runs(GAPS)):
        results = run["results"] or {}
        if run["status"] == "done" and results.get("question") == question and results.get("method") == GAP_METHOD:
            yield results


def _changes(project: Workspace, rated: Ratings, judge: Floats | None, properties: Sequence[Property]) -> list[str]:
    """Return a sentence on each gap of the latest search with another rubric."""
    known = {each.key: each for each in properties}
    before = gap_searches(project.store, project.question.id)
    results = next((each for each in before if each.get("rubric") != project.rubric.hash), {})
    lines = []
    for gap in results.get("gaps") or ():
        now = gap_of(gap["against"], rated, judge, known[gap["key"]]) if gap["key"] in known else None
        shown = "unknown" if now is None else f"{now:+.2f}"
        lines.append(f"since the wording was changed: {gap['name']}: {gap['difference']:+.2f} then, {shown} now")
    return lines

"""Comparisons of two conversations as rows of evidence: what the first has more of than the second.

An answer to "which is better?" follows from the difference of what is known of both (LLM-RUBRIC, appendix B:
comparative judging, predicted directly). An evaluator that learned from differences scores one conversation against
the average one it has seen compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence.table import EvidenceTable
from accord.values import Labels, Question, Target

Pair = tuple[Target, Target]


def in_pairs(evidence: EvidenceTable, labels: Labels, question: Question) -> tuple[EvidenceTable, Labels]:
    """A comparative question's labels with the evidence they follow from, as evaluators learn from both.

    Args:
        evidence: Of the single conversations or turns.
        labels: All labels; those on `question` say against what they compare.
        question: A question that people answer about pairs.

    Returns:
        The differences of all compared pairs of which both sides have evidence, and the labels of them.

    Raises:
        BadInput: A label does not say what it compares with.
    """
    said = labels.on(question.id)
    strange = next((label for label in said if label.against is None), None)
    if strange is not None:
        raise BadInput(
            f"label of {strange.annotator!r} on {strange.target}: {question.id!r} compares two conversations, and this "
            "label names one; give the other in a column `against`"
        )
    pairs = list(dict.fromkeys((label.target, label.against) for label in said if label.against is not None))
    known = set(evidence.targets)
    pairs = [pair for pair in pairs if known.issuperset(pair)]
    table = differences(evidence, pairs)
    named = dict(zip(pairs, table.targets, strict=True))
    kept = ((label, named.get((label.target, label.against))) for label in said if label.against is not None)
    return table, Labels(replace(label, target=target) for label, target in kept if target is not None)


def differences(evidence: EvidenceTable, pairs: Sequence[Pair]) -> EvidenceTable:
    """One row a pair: the evidence of the first less that of the second; present where both are.

    Pairs that share a conversation, however far apart, count as one conversation: folds never part them.

    Raises:
        BadInput: There is no evidence of a pair's side.
    """
    single = evidence.expected()
    sides = [single.rows_of(pair[side] for pair in pairs) for side in (0, 1)]
    lost = next((pair[side] for side in (0, 1) for pair, row in zip(pairs, sides[side], strict=True) if row < 0), None)
    if lost is not None:
        raise BadInput(f"there is no evidence of {lost}, which is compared; gather it first")
    first, second = (single.take(rows) for rows in sides)
    present = first.present & second.present
    compared = single.take(np.unique(np.concatenate(sides)))
    columns = [
        replace(column, centre=_mean(compared.values[:, place], compared.present[:, place]))
        for place, column in enumerate(single.columns)
    ]
    names = _names(pairs)
    versions = {
        name: "+".join(sorted({single.versions[side] for side in pair if single.versions.get(side)}))
        for name, pair in zip(names, pairs, strict=True)
    }
    values = np.where(present, first.values - second.values, 0.0)
    return EvidenceTable(tuple(names), tuple(columns), values, present, {}, versions)


def _mean(values: NDArray[np.float64], present: NDArray[np.bool_]) -> float:
    return float(values[present].mean()) if present.any() else 0.0


def _names(pairs: Sequence[Pair]) -> list[Target]:
    """Each pair's name: `A | B`, and where a conversation is in several, their first one's name and a number."""
    joined = _joined(pairs)
    groups: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[joined[pair[0].conversation]].append(pair)
    taken: Counter[str] = Counter()
    named: dict[Pair, Target] = {}
    for mine in groups.values():
        name = f"{mine[0][0]} | {mine[0][1]}"
        taken[name] += 1
        group = name if taken[name] == 1 else f"{name} ({taken[name]})"  # ids may hold anything
        named |= {pair: Target(group, place if len(mine) > 1 else None) for place, pair in enumerate(mine)}
    return [named[pair] for pair in pairs]


def _joined(pairs: Sequence[Pair]) -> dict[str, int]:
    """For each conversation the number of the group that comparisons join it to."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    names = sorted({side.conversation for pair in pairs for side in pair})
    place = {name: index for index, name in enumerate(names)}
    ends = np.array([[place[side.conversation] for side in pair] for pair in pairs], dtype=np.intp).reshape(-1, 2)
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(len(names), len(names)))
    _, found = connected_components(graph, directed=False)
    return dict(zip(names, found.tolist(), strict=True))

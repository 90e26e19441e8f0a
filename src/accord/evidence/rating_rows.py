"""Ratings as rows of numbers, one per label, with the row of the evidence table; comparisons as differences.

An answer to "which is better?" follows from the difference between the evidence of both conversations (LLM-RUBRIC,
appendix B). An evaluator that learned from differences scores a conversation against the average compared one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence.table import EvidenceTable
from accord.values import Label, Labels, Question, ScaleKind, Target, check_value

_LEAST_CHANCE = 1e-12


@dataclass(frozen=True)
class Ratings:
    """n ratings of one question whose targets have evidence, in the order of the labels.

    Attributes:
        row: (n,) row of the evidence table.
        answer: (n,) index of the chosen option, 0 to K-1.
        value: (n,) number of the chosen option.
        options: (K,) options of the question as increasing numbers.
        groups: Group of each target that splits keep together, beyond the conversation (`Labels.groups`).
    """

    labels: Sequence[Label]
    row: NDArray[np.intp]
    answer: NDArray[np.intp]
    value: NDArray[np.float64]
    options: NDArray[np.float64]
    groups: Mapping[Target, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[np.intp]) -> Ratings:
        """Return the ratings with these indices."""
        labels = [self.labels[int(row)] for row in rows]
        return Ratings(labels, self.row[rows], self.answer[rows], self.value[rows], self.options, self.groups)

    def counts(self, annotators: Sequence[str]) -> dict[str, int]:
        """Return the number of ratings of each annotator."""
        return {name: int((self.annotator == name).sum()) for name in annotators}

    def log_loss(self, distributions: NDArray[np.float64]) -> float:
        """Return the mean -log p of the given answers in nats, for (n, K) distributions; p is at least 1e-12."""
        p = distributions[np.arange(len(self)), self.answer]
        return float(-np.log(np.maximum(p, _LEAST_CHANCE)).mean())

    @cached_property
    def annotator(self) -> NDArray[np.object_]:
        """(n,) annotator of each rating."""
        return np.array([label.annotator for label in self.labels], dtype=object)

    @cached_property
    def target(self) -> list[Target]:
        """Target of each rating."""
        return [label.target for label in self.labels]

    @cached_property
    def text(self) -> NDArray[np.object_]:
        """(n,) target of each rating, as text."""
        return np.array([str(label.target) for label in self.labels], dtype=object)

    @cached_property
    def conversation(self) -> NDArray[np.object_]:
        """(n,) conversation of each rating."""
        return np.array([label.target.conversation for label in self.labels], dtype=object)

    @cached_property
    def group(self) -> NDArray[np.object_]:
        """(n,) group of each rating: its conversation, or a larger group from `Labels.groups`."""
        groups = (self.groups.get(label.target) or label.target.conversation for label in self.labels)
        return np.array(list(groups), dtype=object)


def options_of(question: Question) -> NDArray[np.float64]:
    """Return the (K,) options of an ordered question as numbers, or the steps of a real-valued scale.

    `BadInput` if the question has a nominal scale.
    """
    if question.scale.kind is ScaleKind.NOMINAL:
        raise BadInput(
            f"question {question.id!r} has a nominal scale. "
            "The main question needs an ordered scale, so that answers have an order and a mean"
        )
    return np.array(question.scale.numbers)


def ratings(evidence: EvidenceTable, labels: Labels, question: Question) -> Ratings:
    """Return the ratings of `question` whose target has evidence; `BadInput` if a label is outside its scale."""
    options = options_of(question)
    on_question = labels.on(question.id)
    rows = evidence.rows_of(label.target for label in on_question)
    with_evidence = [(label, row) for label, row in zip(on_question, rows, strict=True) if row >= 0]
    for label, _ in with_evidence:
        assert label.value is not None
        check_value(label.value, question, f"label of {label.annotator!r} on {label.target}")
    given = np.array([label.value for label, _ in with_evidence], dtype=float)
    answer = np.searchsorted((options[1:] + options[:-1]) / 2, given)
    return Ratings(
        labels=[label for label, _ in with_evidence],
        row=np.array([row for _, row in with_evidence], dtype=np.intp),
        answer=answer,
        value=options[answer],
        options=options,
        groups=labels.groups,
    )


Pair = tuple[Target, Target]


def in_pairs(evidence: EvidenceTable, labels: Labels, question: Question) -> tuple[EvidenceTable, Labels]:
    """Return the evidence and labels of a comparative question, as evaluators learn from them.

    Returns:
        Differences of all compared pairs with evidence on both sides, and their labels.

    Raises:
        BadInput: A label names no conversation to compare with.
    """
    compared_labels = labels.on(question.id)
    label = next((label for label in compared_labels if label.against is None), None)
    if label is not None:
        raise BadInput(
            f"label of {label.annotator!r} on {label.target}: {question.id!r} compares two conversations, and this "
            "label names one; give the other in a column `against`"
        )
    pairs = list(dict.fromkeys((label.target, label.against) for label in compared_labels if label.against is not None))
    known = set(evidence.targets)
    pairs = [pair for pair in pairs if known.issuperset(pair)]
    table = differences(evidence, pairs)
    named = dict(zip(pairs, table.targets, strict=True))
    labelled = (
        (label, named.get((label.target, label.against))) for label in compared_labels if label.against is not None
    )
    return table, Labels(replace(label, target=target) for label, target in labelled if target is not None)


def differences(evidence: EvidenceTable, pairs: Sequence[Pair]) -> EvidenceTable:
    """Return one row per pair: the first evidence minus the second evidence, present if both are present.

    Pairs that share a conversation, directly or through others, form one group, which folds never split. `BadInput` if
    a side of a pair has no evidence.
    """
    single = evidence.expected()
    sides = [single.rows_of(pair[side] for pair in pairs) for side in (0, 1)]
    side_missing = next(
        (pair[side] for side in (0, 1) for pair, row in zip(pairs, sides[side], strict=True) if row < 0), None
    )
    if side_missing is not None:
        raise BadInput(f"{side_missing} has no evidence, but a label compares it. Gather it first: accord judge")
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
    """Return the name of each pair: `A | B`; pairs that share conversations get the name of the first and a number."""
    group_of = connected([(one.conversation, other.conversation) for one, other in pairs])
    groups: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[group_of[pair[0].conversation]].append(pair)
    taken: Counter[str] = Counter()
    named: dict[Pair, Target] = {}
    for own_pairs in groups.values():
        name = f"{own_pairs[0][0]} | {own_pairs[0][1]}"
        taken[name] += 1
        group = name if taken[name] == 1 else f"{name} ({taken[name]})"  # ids may hold anything
        named |= {pair: Target(group, place if len(own_pairs) > 1 else None) for place, pair in enumerate(own_pairs)}
    return [named[pair] for pair in pairs]


def connected(pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return the number of the group that pairs join each name to."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    place = {name: index for index, name in enumerate(dict.fromkeys(chain.from_iterable(pairs)))}
    ends = np.array([[place[one], place[other]] for one, other in pairs], dtype=np.intp).reshape(-1, 2)
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(len(place), len(place)))
    _, component = connected_components(graph, directed=False)
    return dict(zip(place, component.tolist(), strict=True))

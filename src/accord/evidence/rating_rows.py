"""Labels as rows of numbers: one row a rating, with the evidence row it belongs to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence.table import EvidenceTable
from accord.values import Label, Labels, Question, ScaleKind, Target, check_value

_LEAST_CHANCE = 1e-12


@dataclass(frozen=True)
class Ratings:
    """n ratings of one question, those whose target has evidence, in the order of the labels.

    Attributes:
        labels: The labels themselves.
        row: (n,) row of the evidence table.
        answer: (n,) index of the chosen option, 0 to K-1.
        value: (n,) the chosen option's number.
        options: (K,) the question's options as numbers, rising.
        groups: What splits keep together, where that is more than a conversation (`Labels.groups`).
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
        """The ratings with these indices."""
        kept = [self.labels[int(row)] for row in rows]
        return Ratings(kept, self.row[rows], self.answer[rows], self.value[rows], self.options, self.groups)

    def counts(self, annotators: Sequence[str]) -> dict[str, int]:
        """How many of these ratings each of some annotators gave."""
        return {name: int((self.annotator == name).sum()) for name in annotators}

    def log_loss(self, distributions: NDArray[np.float64]) -> float:
        """Mean -log probability of what was said, in nats, of (n, K) distributions; nothing counts as impossible."""
        chance = distributions[np.arange(len(self)), self.answer]
        return float(-np.log(np.maximum(chance, _LEAST_CHANCE)).mean())

    @cached_property
    def annotator(self) -> NDArray[np.object_]:
        """(n,) who rated."""
        return np.array([label.annotator for label in self.labels], dtype=object)

    @cached_property
    def target(self) -> list[Target]:
        """What was rated."""
        return [label.target for label in self.labels]

    @cached_property
    def text(self) -> NDArray[np.object_]:
        """(n,) what was rated, as a name."""
        return np.array([str(label.target) for label in self.labels], dtype=object)

    @cached_property
    def conversation(self) -> NDArray[np.object_]:
        """(n,) the conversation that was rated, or whose turn was."""
        return np.array([label.target.conversation for label in self.labels], dtype=object)

    @cached_property
    def group(self) -> NDArray[np.object_]:
        """(n,) what splits and resampling keep together: the conversation, or more (`Labels.groups`)."""
        named = (self.groups.get(label.target) or label.target.conversation for label in self.labels)
        return np.array(list(named), dtype=object)


def options_of(question: Question) -> NDArray[np.float64]:
    """(K,) the options of an ordered question as numbers; of a real-valued one, the steps it is read to.

    Raises:
        BadInput: The question's answers are names, which no evaluator here predicts.
    """
    if question.scale.kind is ScaleKind.NOMINAL:
        raise BadInput(
            f"question {question.id!r} has a nominal scale; "
            "the main question needs an ordered one, so that answers have an order and a mean"
        )
    return np.array(question.scale.numbers)


def ratings(evidence: EvidenceTable, labels: Labels, question: Question) -> Ratings:
    """The ratings of `question` whose target has evidence.

    Raises:
        BadInput: A label is outside the question's scale.
    """
    options = options_of(question)
    on_question = labels.on(question.id)
    rows = evidence.rows_of(label.target for label in on_question)
    kept = [(label, row) for label, row in zip(on_question, rows, strict=True) if row >= 0]
    for label, _ in kept:
        assert label.value is not None
        check_value(label.value, question, f"label of {label.annotator!r} on {label.target}")
    said = np.array([label.value for label, _ in kept], dtype=float)
    answer = np.searchsorted((options[1:] + options[:-1]) / 2, said)
    return Ratings(
        labels=[label for label, _ in kept],
        row=np.array([row for _, row in kept], dtype=np.intp),
        answer=answer,
        value=options[answer],
        options=options,
        groups=labels.groups,
    )


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

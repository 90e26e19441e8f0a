"""Rated responses from any data set of our schema, and their splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from accord.evidence import EvidenceTable, measure
from accord.formats import read
from accord.values import Labels, Question, Sample, Scale, ScaleKind, content_hash

Floats = NDArray[np.float64]

QUESTIONS = {"spearman_overall": "Overall", "spearman_uses_knowledge": "Uses Knowledge"}
TESTED = 50
"""Number of responses that a seed holds out, as in the paper."""


@dataclass(frozen=True)
class Rated:
    """Rated responses.

    Attributes:
        name: Name of the data set.
        evidence: (n, M) every metric.
        labels: All ratings.
        people: (n,) mean rating, by question; a question without answers is left out.
        context: (n,) context that responses to the same turn share.
    """

    name: str
    evidence: EvidenceTable
    labels: Labels
    people: Mapping[str, Floats]
    context: NDArray[np.object_]

    def only(self, names: Sequence[str]) -> Rated:
        """Return the responses with some metrics only."""
        place = {column.name: index for index, column in enumerate(self.evidence.columns)}
        kept, table = [place[name] for name in names], self.evidence
        columns = tuple(table.columns[index] for index in kept)
        part = EvidenceTable(table.targets, columns, table.values[:, kept], table.present[:, kept])
        return Rated(self.name, part, self.labels, self.people, self.context)

    def take(self, rows: NDArray[np.intp]) -> Rated:
        """Return the responses with these indices."""
        people = {name: mean[rows] for name, mean in self.people.items()}
        return Rated(self.name, self.evidence.take(rows), self.labels, people, self.context[rows])


def load(folder: Path, names: Sequence[str]) -> dict[str, Rated]:
    """Return a data set's rated responses by subset."""
    records = [record for record in read(folder) if record.labels and record.conversation.turns]
    samples = [Sample(record.conversation, record.labels[0].target.turn) for record in records]
    said = [{question: _mean(record.labels, question) for question in QUESTIONS.values()} for record in records]
    asked = [
        name
        for name in QUESTIONS.values()
        if all(name in each for each in said) and None not in [s[name] for s in said]
    ]
    people = {name: np.array([each[name] for each in said], dtype=float) for name in asked}
    labels = Labels(label for record in records for label in record.labels if label.question in asked)
    before = [sample.conversation.up_to(sample.turn)[:-1] for sample in samples]
    context = np.array([content_hash([turn.to_json() for turn in turns]) for turns in before], dtype=object)
    whole = Rated(folder.name, measure(samples, names), labels, people, context)
    documents = np.array([bool(record.conversation.documents) for record in records])
    human = np.array([bool(record.conversation.metadata.get("human_written")) for record in records])
    subsets = {"with-document": documents, "all": np.ones(len(records), dtype=bool), "machine": documents & ~human}
    return {name: whole.take(np.flatnonzero(rows)) for name, rows in subsets.items() if rows.any()}


def _mean(labels: Sequence, question: str) -> float | None:  # type: ignore[type-arg]
    values = [float(label.value) for label in labels if label.question == question and label.value is not None]
    return fmean(values) if values else None


def question_of(data: Rated, name: str) -> Question:
    """Return the question with the given answers as its scale."""
    said = (label.value for label in data.labels if label.question == name)
    values = sorted({value for value in said if isinstance(value, int | float)})
    short = Scale(options=tuple(values)) if len(values) <= 10 else None
    scale = short or Scale(kind=ScaleKind.REAL, low=values[0], high=values[-1])
    return Question(id=name, text=name, scale=scale)


def held_out(data: Rated, split: str, seed: int) -> tuple[Rated, Rated]:
    """Return training responses, and those that a seed holds out: random ones as in the paper, or whole contexts."""
    rng = np.random.default_rng(seed)
    if split == "random":
        out = np.isin(np.arange(len(data.context)), rng.permutation(len(data.context))[:TESTED])
    else:
        contexts = np.unique(data.context)
        share = round(TESTED * len(contexts) / len(data.context))
        out = np.isin(data.context, rng.permutation(contexts)[:share])
    return data.take(np.flatnonzero(~out)), data.take(np.flatnonzero(out))

"""Rated responses of a data set or a project with their metrics, and their splits."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from accord import Project
from accord.edges import AccordError, BadInput
from accord.evidence import (
    EvidenceTable,
    Relatedness,
    make_source,
    pairs_of,
)
from accord.evidence.metric_source import (
    measure,
    metric_names,
)
from accord.formats import read
from accord.statistics import groups_of
from accord.values import (
    Conversation,
    Document,
    Labels,
    Question,
    Sample,
    Scale,
    ScaleKind,
    Target,
    Turn,
    content_hash,
)

Floats = NDArray[np.float64]

QUESTIONS = {"spearman_overall": "Overall", "spearman_uses_knowledge": "Uses Knowledge"}
"""The paper's two ratings, by the column of their statistics."""
TESTED = 50
"""Number of responses that a seed holds out, as in the paper; at most a quarter."""
FEWEST = 40
"""Smallest number of rated samples of a project."""
WITH_DOCUMENT, ALL, MACHINE = "with-document", "all", "machine"
"""Subsets: responses with a document, all responses, and those with a document that a model wrote."""
MOST = 1000
"""Largest number of samples of a project; a larger number is subsampled evenly."""
RUBER = "ruber"
"""The paper's learned metric; it is learned from the given conversations."""


@dataclass(frozen=True)
class Rated:
    """Rated responses, or conversations.

    Attributes:
        name: Name of the data set.
        evidence: (n, M) every metric.
        labels: All ratings.
        people: (n,) mean rating, by question; a question without answers is left out.
        context: (n,) context that responses to the same turn share.
        questions: Question of each column of statistics.
        missing: Metrics that cannot be measured here, with the reason.
    """

    name: str
    evidence: EvidenceTable
    labels: Labels
    people: Mapping[str, Floats]
    context: NDArray[np.object_]
    questions: Mapping[str, str]
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def metrics(self) -> list[str]:
        """Names of the measured metrics."""
        return [column.name for column in self.evidence.columns]

    def only(self, names: Iterable[str]) -> Rated:
        """Return the responses with these metrics only; those that are not measured are left out."""
        kept = [self.metrics.index(name) for name in names if name in self.metrics]
        table = self.evidence
        columns = tuple(table.columns[index] for index in kept)
        part = replace(table, columns=columns, values=table.values[:, kept], present=table.present[:, kept])
        return replace(self, evidence=part)

    def take(self, rows: NDArray[np.intp]) -> Rated:
        """Return the responses with these indices."""
        people = {name: mean[rows] for name, mean in self.people.items()}
        return replace(self, evidence=self.evidence.take(rows), people=people, context=self.context[rows])


def load(
    folder: Path,
    names: Sequence[str],
    renamed: Mapping[str, str] | None = None,
    questions: Mapping[str, str] = QUESTIONS,
) -> dict[str, Rated]:
    """Return a data set's rated responses by subset.

    Args:
        folder: Folder of the data set.
        names: Metrics; `ruber` is learned from the set's own responses.
        renamed: Column names of metrics that have others.
        questions: Question of each column of statistics.
    """
    records = [record for record in read(folder) if record.labels and record.conversation.turns]
    samples = [Sample(record.conversation, record.labels[0].target.turn) for record in records]
    said = [{question: _mean(record.labels, question) for question in questions.values()} for record in records]
    asked = [name for name in questions.values() if None not in [each[name] for each in said]]
    people = {name: np.array([each[name] for each in said], dtype=float) for name in asked}
    labels = Labels(label for record in records for label in record.labels if label.question in asked)
    before = [sample.conversation.up_to(sample.turn)[:-1] for sample in samples]
    context = np.array([content_hash([turn.to_json() for turn in turns]) for turns in before], dtype=object)
    evidence, missing = measured(samples, names, renamed or {})
    whole = Rated(folder.name, evidence, labels, people, context, questions, missing)
    documents = np.array([bool(record.conversation.documents) for record in records])
    human = np.array([bool(record.conversation.metadata.get("human_written")) for record in records])
    subsets = {WITH_DOCUMENT: documents, ALL: np.ones(len(records), dtype=bool), MACHINE: documents & ~human}
    return {name: whole.take(np.flatnonzero(rows)) for name, rows in subsets.items() if rows.any()}


def of_project(project: Project, question: Question, names: Sequence[str], renamed: Mapping[str, str]) -> Rated:
    """Return the rated samples of a project's question with some metrics and the project's metrics.

    Raises:
        BadInput: Fewer than `FEWEST` samples have numeric ratings, or they are in fewer than three groups.
    """
    labels = Labels(label for label in project.rated(question.id) if isinstance(label.value, int | float))
    samples = project.samples(labels.targets)
    samples = [
        samples[place] for place in np.unique(np.linspace(0, len(samples) - 1, min(len(samples), MOST)).astype(int))
    ]
    groups = groups_of(samples, project.config.group_by)
    context = np.array([groups.of.get(each.target, each.target.conversation) for each in samples], dtype=object)
    if len(samples) < FEWEST or len(set(context)) < 3:
        raise BadInput(
            f"{len(samples)} samples of {question.id!r} in {len(set(context))} groups have ratings; this part needs "
            f"{FEWEST} in three groups. Import more ratings: accord import"
        )
    own = metric_names(project.config.metrics)
    evidence, missing = measured(samples, list(dict.fromkeys([*names, *own])), renamed, project)
    said: dict[Target, list[float]] = {}
    for label in labels:
        said.setdefault(label.target, []).append(float(label.value))  # type: ignore[arg-type]
    people = {question.id: np.array([fmean(said[each.target]) for each in samples])}
    return Rated(question.id, evidence, labels, people, context, {"spearman": question.id}, missing)


# --- metrics ---------------------------------------------------------------------------------------------------------

_PROBE = Sample(
    Conversation("probe", (Turn("user", "What do herons eat?"), Turn("assistant", "Herons eat fish.")),
                 (Document("The heron eats fish and frogs."),)), 1)  # fmt: skip


@cache
def missing_metric(name: str) -> str | None:
    """Return the reason why a metric cannot be measured on this machine, or `None` if it can."""
    try:
        measure([_PROBE], [name])
    except AccordError as error:
        return str(error)
    return None


def measured(
    samples: Sequence[Sample], names: Sequence[str], renamed: Mapping[str, str], project: Project | None = None
) -> tuple[EvidenceTable, dict[str, str]]:
    """Return the metrics of samples under their column names, and the reasons for those that cannot be measured."""
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        known: dict[str, str] = {}
        for name in names:
            reason = missing_metric(name) if name != RUBER else _learn_ruber(samples, Path(folder))
            if reason is None:
                known[f"{RUBER}@{folder}" if name == RUBER else name] = renamed.get(name, name)
            else:
                missing[renamed.get(name, name)] = reason
        if project is None:
            table = measure(samples, list(known))
        else:
            settings = {**project.config.settings_of("metrics"), "names": list(known)}
            table = project.measure([make_source("metrics", settings, project.context)], samples)
    columns = tuple(replace(column, name=known[column.name]) for column in table.columns)
    absences = {(target, known.get(name, name)): reason for (target, name), reason in table.absences.items()}
    return EvidenceTable(table.targets, columns, table.values, table.present, absences), missing


def _learn_ruber(samples: Sequence[Sample], folder: Path) -> str | None:
    """Learn RUBER from the samples' own responses into a folder; return the reason if that is impossible.

    Each response is scored by a model that has not seen its context.
    """
    try:
        Relatedness.learn(pairs_of([sample.conversation.at(sample.turn) for sample in samples])).save(folder)
    except AccordError as error:
        return str(error)
    return None


def usable(data: Rated) -> Rated:
    """Return the metrics that vary over the responses and are present for most responses."""
    values, present = data.evidence.values, data.evidence.present
    return data.only(
        name
        for place, name in enumerate(data.metrics)
        if present[:, place].mean() > 0.5 and np.ptp(values[present[:, place], place]) > 0
    )


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
    tested = min(TESTED, len(data.context) // 4)
    if split == "random":
        out = np.isin(np.arange(len(data.context)), rng.permutation(len(data.context))[:tested])
    else:
        contexts = np.unique(data.context)
        share = max(round(tested * len(contexts) / len(data.context)), 1)
        out = np.isin(data.context, rng.permutation(contexts)[:share])
    return data.take(np.flatnonzero(~out)), data.take(np.flatnonzero(out))

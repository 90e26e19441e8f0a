"""A pool of prompts and models as evidence (footnote 2): each recorded variant alone, and all together.

The released answers have one prompt for each question. Topical-USR has recorded judges of the same question by several
models, and five rounds of one model whose batches differ, so that every reply is asked in five contexts.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from accord.evidence import Column, EvidenceTable
from accord.formats import read
from accord.learning import Calibration
from accord.values import Labels, Question, Scale, Target
from accord_papers.llm_rubric.protocols import DataSet, Predict, cross_validated, fold_rows, learned
from accord_papers.study import Row

QUESTION = "Overall"
ASKED = ("overall", "satisfactory")
"""The question as the judges were asked it."""
ROUNDS = "gpt-4,"
"""Beginning of the names of the model with several rounds."""


def pool_of(folder: Path) -> DataSet:
    """Return Topical-USR's ratings of overall quality with a column for each recorded variant."""
    records = [record for record in read(folder) if record.labels and record.conversation.turns]
    target_of = {record.conversation.id: record.labels[0].target for record in records}
    rows: dict[Target, dict[str, float]] = {target: {} for target in target_of.values()}
    with gzip.open(folder / "judgments.jsonl.gz", "rt", encoding="utf-8") as stream:
        for line in map(json.loads, stream):
            if line["question"] in ASKED and line["item_id"] in target_of:
                rows[target_of[line["item_id"]]][f"{line['judge_model']}, round {line['run'] + 1}"] = line["value"]
    names = sorted({name for row in rows.values() for name in row})
    evidence = EvidenceTable.from_rows([Column(name, f"recorded|{name}") for name in names], rows)
    labels = Labels(label for record in records for label in record.labels if label.question == QUESTION)
    groups = {target: target.conversation.rsplit("-", 1)[0] for target in rows}
    question = Question(id=QUESTION, text="What is the overall quality of the reply?",
                        scale=Scale(options=(1, 2, 3, 4, 5)))  # fmt: skip
    systems = {record.conversation.id: "all" for record in records}
    return DataSet("topical_usr", systems, evidence, Labels(labels, groups), question)


def pool_rows(data: DataSet, seeds: Sequence[int]) -> list[Row]:
    """Return the held-out error with each variant alone, with the rounds of one model, and with all variants."""
    names = [column.name for column in data.evidence.columns]
    rounds = [name for name in names if name.startswith(ROUNDS)]
    others = [name for name in names if name not in rounds]
    chosen: Mapping[str, Sequence[str]] = {
        **{name: [name] for name in (*rounds[:1], *others)},
        f"{len(rounds)} rounds of gpt-4": rounds,
        f"{len(others)} other models": others,
        f"all {len(names)} variants": names,
    }
    head = learned(partial(Calibration, data.question, "mixed"))
    found = {name: cross_validated(only(head, some), data, seeds) for name, some in chosen.items() if some}
    return [{**row, "variants": len(chosen[row["system"]])} for row in fold_rows("pool", data, found)]


def only(make: Predict, names: Sequence[str]) -> Predict:
    """Return a system that reads some columns alone."""

    def part(evidence: EvidenceTable) -> EvidenceTable:
        return evidence.select([place for place, column in enumerate(evidence.columns) if column.name in names])

    return lambda train, labels, test, annotators: make(part(train), labels, part(test), annotators)

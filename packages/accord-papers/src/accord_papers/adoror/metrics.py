"""Baselines of table 1 that ask no model: metrics measured here, and recorded judgements of other models."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from accord.edges import AccordError
from accord.evidence import EvidenceTable
from accord.evidence.bank.reply_metrics import (
    BERTSCORE,
    REFERENCE,
)
from accord.evidence.metric_source import measure
from accord.formats import read
from accord.methods.in_context.template import (
    RatedExamples,
    contexts_of,
)
from accord.values import Document, Sample, Target
from accord_papers.adoror import published
from accord_papers.adoror.system_answers import spearman_interval
from accord_papers.study import Row

METRICS = (*REFERENCE, "rouge-l", BERTSCORE[-1])
SHOWN = {"bleu": "BLEU", "chrf": "chrF", "meteor": "METEOR", "rouge-l": "ROUGE-L", BERTSCORE[-1]: "BERTScore"}
RECORDED = {
    "overall": {"UniEval": "overall", "BatchEval": "overall", "ADE": "satisfactory"},
    "groundness": {"UniEval": "groundedness"},
}
"""Question of each source of recorded judgements that is about a column of the table."""
ABSENT = {
    "D-score": "its checkpoint of DSTC7 is not in the data",
    "GPTScore": "text-davinci-003 is no longer served",
    "Roberta-Large (cls)": "needs Roberta-Large (1.4 GB) and fine-tuning",
    "Roberta-Large (reg)": "needs Roberta-Large (1.4 GB) and fine-tuning",
    "Ruber-Roberta-Large": "needs Roberta-Large (1.4 GB) and fine-tuning",
}
"""Baselines of the paper that cannot be run here, with the reason."""


def with_references(folder: Path) -> Callable[[Sample], Sample]:
    """Return a function that replaces a sample's documents by the references of its response."""
    references = {
        record.conversation.id: tuple(Document(text) for text in record.conversation.metadata.get("references", ()))
        for record in read(folder)
    }
    return lambda sample: replace(
        sample, conversation=replace(sample.conversation, documents=references[sample.conversation.id])
    )


def metric_rows(examples: Mapping[str, RatedExamples], source: str, prepare: Callable[[Sample], Sample]) -> list[Row]:
    """Return a row per metric: Spearman's ρ with the mean rating of each column.

    Args:
        examples: Rated examples by column of the table.
        source: Text that a reply is compared with.
        prepare: Function that gives a sample this text as its documents.
    """
    samples = {each.target: prepare(each.sample) for rated in examples.values() for each in rated.all}
    rows: list[Row] = []
    for name in METRICS:
        row: Row = {"system": SHOWN[name], "source": f"computed, with {source}"}
        try:
            values = _values(measure(samples.values(), [name]))
            for column, rated in examples.items():
                row |= _correlation(column, rated, values)
        except AccordError as error:
            row["source"] = f"absent: {error}"
        rows.append(row)
    return rows


def _values(table: EvidenceTable) -> dict[Target, float]:
    return {
        target: float(value)
        for target, value, is_present in zip(table.targets, table.values[:, 0], table.present[:, 0], strict=True)
        if is_present
    }


def _correlation(column: str, rated: RatedExamples, values: Mapping[Target, float]) -> Row:
    """Return ρ of some values with the ratings, with an interval over contexts."""
    known = [
        (values[example.target], example.score, context)
        for example, context in zip(rated.all, contexts_of(rated.all), strict=True)
        if example.target in values
    ]
    found = spearman_interval([pair[:2] for pair in known], [context for *_, context in known], column)
    return {**found, "n": len(known)}


def recorded_rows(folder: Path, examples: Mapping[str, RatedExamples]) -> Iterator[Row]:
    """Yield a row per model with recorded judgements; several rounds are averaged."""
    judged: dict[tuple[str, str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with gzip.open(folder / "judgments.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            judged[row["source"], row["judge_model"], row["question"]][row["item_id"]].append(float(row["value"]))
    for source, model in dict.fromkeys(key[:2] for key in judged):
        columns = [column for column, questions in RECORDED.items() if source in questions]
        if columns:
            found: Row = {"system": model, "source": f"recorded ({source})"}
            for column in columns:
                answers = judged[source, model, RECORDED[column][source]]
                rated = examples[column]
                values = {
                    example.target: fmean(answers[example.target.conversation])
                    for example in rated.all
                    if example.target.conversation in answers
                }
                found |= _correlation(column, rated, values)
            yield found


def absent_rows(columns: Sequence[str]) -> list[Row]:
    """Return the baselines of the paper that cannot be run here, with their published figures."""
    places = {"overall": "UTC Overall", "groundness": "UTC Ground."}
    return [
        {"system": system, "source": f"absent: {reason}"}
        | {
            f"{column}_published": published.TABLE_1[system][published.COLUMNS.index(places[column])]
            for column in columns
        }
        for system, reason in ABSENT.items()
    ]

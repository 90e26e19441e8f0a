"""The systems of table 1, asked about held-out examples: rows per fold, tables 1 and 6, and Topical-USR's replies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import numpy as np
from scipy import stats

from accord import Project
from accord.evidence import Training
from accord.formats import read
from accord.methods.in_context.source import (
    IN_CONTEXT,
    InContext,
)
from accord.methods.in_context.template import (
    RatedExamples,
    contexts_of,
    examples_of,
)
from accord.models import Flow, OnAnswer, run
from accord.project import config_from
from accord.statistics import DETAIL_DRAWS, STATISTICS, Clusters, Paired, bootstrap, fold_of
from accord.values import Conversation, Document, Label, Labels, Question, Rubric, Sample, Scale
from accord_papers.adoror.systems import ADOROR, NAMES, TABLE_1, registered
from accord_papers.study import Row

MODEL = "smollm2-135m"
DIMENSIONS = {
    "Overall": ("What is the overall quality of the reply?", (1, 2, 3, 4, 5)),
    "Uses Knowledge": ("Does the reply use the fact?", (0, 1)),
}
SPLITS = ("context", "random")
FOLDS = 5
TURNS, FACT = 1, 240
"""Turns before the reply, and characters of the fact, that this small model is shown."""
SMALL = {"candidates": 2, "top_prompts": 2, "demonstrations": 2, "sets": 2, "candidate_sets": 64}
"""Sizes for a model that reads some hundreds of tokens a second; the paper's are 80, 4, 5, 4 and 512."""
CONTEXT = 1024
TINY = {**SMALL, "candidates": 1, "sets": 1, "ensemble": 3}
FEW = 20
"""Up to this many responses, the sizes finish in minutes."""


def ask_topical_usr(
    folder: Path,
    store: str,
    limit: int | None,
    splits: Sequence[str],
    dimensions: Sequence[str],
    small: bool,
    step: OnAnswer = lambda purpose: None,
) -> list[Row]:
    """Return a row per split, dimension, fold and system on Topical-USR with the embedded model.

    Args:
        folder: Folder of the data set.
        store: Store of the replies; a run continues from it.
        limit: Number of responses, in whole contexts, by default all.
        splits: Folds by context, at random, or both.
        dimensions: Dimensions to score.
        small: Use few candidates and a short context.
        step: Called with the name of each stage.
    """
    scorer = {"model": f"embedded:{MODEL}", "mode": "logprobs", "context": CONTEXT if small else None}
    sizes: Mapping[str, Any] = (TINY if (limit or 0) <= FEW else SMALL) if small else {}
    about = {"background": "fact", "selector": "adoror", "calibrate": False, "level": "turn", "rivals": list(TABLE_1)}
    config = config_from({"store": store, "models": {"scorer": scorer}, "sources": {IN_CONTEXT: about | dict(sizes)}})
    rows: list[Row] = []
    for split, dimension in product(splits, dimensions):
        text, answers = DIMENSIONS[dimension]
        question = Question(id=dimension, text=text, scale=Scale(options=answers))
        everything = Training(*responses_of(folder, dimension, limit), question)
        rubric = Rubric(name="topical-usr", questions=(question,), main=question.id)
        with registered(), Project(config, rubric) as project:
            for fold, (train, test) in enumerate(folds_of(everything, split)):
                source = cast(InContext, project.source(IN_CONTEXT))
                found = run(learned_and_asked(source, train, test), project.models, step)
                rows += system_rows(found, test, {"split": split, "dimension": dimension, "fold": fold})
    return rows


def learned_and_asked(source: InContext, train: Training, test: Training) -> Flow[InContext]:
    """Learn on one side, and ask the source and its rivals about the other."""
    learned = yield from source.learn(train)
    return (yield from cast(InContext, learned.source).examine(test))


def system_rows(found: InContext, test: Training, about: Row) -> Iterator[Row]:
    """Yield a row per system: its mean answers and the mean ratings of the held-out examples."""
    examples = rated_examples(test, found.learned.wording.level)
    truth = {str(example.target): example.score for example in examples.all}
    assert found.held_out_ is not None
    for name, evidence in {IN_CONTEXT: found.held_out_, **found.rivals()}.items():
        options, shares, known = evidence.distribution(test.question.id)
        means = shares @ np.array(options)
        answers = {str(t): float(m) for t, m, is_known in zip(evidence.targets, means, known, strict=True) if is_known}
        pairs = [(answers[target], score) for target, score in truth.items() if target in answers]
        context = [name for target, name in zip(truth, contexts_of(examples.all), strict=True) if target in answers]
        yield {
            **about,
            "system": NAMES.get(name, name),
            "rho": spearman(pairs),
            "answers": pairs,
            "context": context,
            "unscored": len(truth) - len(pairs),
        }


def rated_examples(part: Training, level: str | None = "turn") -> RatedExamples:
    """Return the rated examples of a part."""
    return examples_of(part.question, part.samples, part.labels, level, lambda conversation: False)


def folds_of(everything: Training, split: str) -> Iterator[tuple[Training, Training]]:
    """Yield the training side and the test side of each fold, by context or at random."""
    examples = rated_examples(everything).all
    targets = [example.target for example in examples]
    names = contexts_of(examples) if split == "context" else [str(target) for target in targets]
    grouped = replace(everything, labels=everything.labels.grouped(dict(zip(targets, names, strict=True))))
    count = min(FOLDS, len(set(names)))
    place = fold_of(names, count, seed=0)
    for fold in range(count):
        test = {name for name, own_fold in place.items() if own_fold == fold}
        yield grouped.only(set(names) - test), grouped.only(test)


def responses_of(folder: Path, dimension: str, limit: int | None) -> tuple[tuple[Sample, ...], Labels]:
    """Return the rated responses with their last turns, and with the fact for the dimension about knowledge."""
    samples: list[Sample] = []
    labels: list[Label] = []
    for record in read(folder):
        if limit is not None and len(samples) >= limit:
            break
        turn = record.labels[0].target.turn if record.labels else None
        if turn is None:
            continue
        turns = record.conversation.turns[max(0, turn - TURNS) : turn + 1]
        facts = [Document(document.text[:FACT]) for document in record.conversation.documents]
        shown = tuple(facts) if dimension == "Uses Knowledge" else ()
        sample = Sample(Conversation(record.conversation.id, turns, shown), len(turns) - 1)
        samples.append(sample)
        labels += [
            replace(label, target=sample.target) for label in record.labels if label.question == dimension
        ]  # fmt: skip
    return tuple(samples), Labels(labels)


# --- tables ---------------------------------------------------------------------------------------------


def spearman(pairs: Sequence[Sequence[float]]) -> float | None:
    """Return Spearman's ρ of answers and ratings, or `None` for fewer than three pairs or constant values."""
    answers, ratings = np.array(pairs, dtype=float).reshape(-1, 2).T
    if len(pairs) < 3 or np.ptp(answers) == 0 or np.ptp(ratings) == 0:
        return None
    return float(stats.spearmanr(answers, ratings).statistic)


def spearman_interval(pairs: Sequence[Sequence[float]], contexts: Sequence[str], name: str = "spearman") -> Row:
    """Return Spearman's ρ with an interval by resampling contexts, as statistics of a row."""
    value = spearman(pairs)
    if value is None:
        return {name: None}
    answers, ratings = np.array(pairs, dtype=float).T
    options, answer = np.unique(ratings, return_inverse=True)
    paired = Paired(options, answer, np.full((len(answer), len(options)), 1 / len(options)), answers)
    interval = bootstrap(Clusters(list(contexts)), STATISTICS["spearman"], [paired], DETAIL_DRAWS)
    return {name: value, f"{name}_low": interval.low, f"{name}_high": interval.high}


def table_1(rows: Sequence[Row]) -> list[Row]:
    """Return ρ over all held-out examples by split, dimension and system, and the mean of the folds' own."""
    table = []
    for split, dimension, system in dict.fromkeys((r["split"], r["dimension"], r["system"]) for r in rows):
        own = [r for r in rows if (r["split"], r["dimension"], r["system"]) == (split, dimension, system)]
        pairs = [pair for row in own for pair in row["answers"]]
        rhos = [row["rho"] for row in own if row["rho"] is not None]
        table.append({
            "split": split, "dimension": dimension, "system": system, "folds": len(own), "n": len(pairs),
            **spearman_interval(pairs, [name for row in own for name in row["context"]]),
            "mean_of_folds": fmean(rhos) if rhos else None,
        })  # fmt: skip
    return table


def wilcoxon(rows: Sequence[Row]) -> list[Row]:
    """Return ADOROR against each system over folds and dimensions (table 6): the mean gain in ρ, and p."""
    table: list[Row] = []
    for split in dict.fromkeys(row["split"] for row in rows):
        rho = {(r["system"], r["dimension"], r["fold"]): r["rho"] for r in rows if r["split"] == split}
        cells = sorted({key[1:] for key in rho})
        for system in dict.fromkeys(key[0] for key in rho if key[0] != ADOROR):
            both = [(rho.get((ADOROR, *cell)), rho.get((system, *cell))) for cell in cells]
            known = [(ours, theirs) for ours, theirs in both if ours is not None and theirs is not None]
            if known:
                gains = [ours - theirs for ours, theirs in known]
                mean = fmean(theirs for _, theirs in known)
                about = {"split": split, "system": ADOROR, "against": system, "improvement": fmean(gains)}
                relative = fmean(gains) / mean if mean > 0 else None
                table.append({**about, "relative": relative, "cells": len(gains), "p": signed_rank_p(gains)})
    return table


def signed_rank_p(gains: Sequence[float]) -> float:
    """Return p of Wilcoxon's signed-rank test, two-sided; 1 if nothing differs."""
    return float(stats.wilcoxon(gains).pvalue) if any(gains) else 1.0

"""ADOROR: a planted utility that the selector has to find, and table 1 on Topical-USR with the embedded model.

`--only planted,sensitivity,prompts,together` needs no data and no model: recovery by each selector, table 4
(γ × ζ × k), transfer of good prompts to new inputs (figures 4 to 6), and the cost of sharing observed sets.

The real part stores every reply in `--store` and continues after a stop. `--limit N` takes N
responses (whole contexts); `--limit 18 --splits context --dimensions Overall` takes about ten minutes on one core
with other work, less on two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from adoror_planted import planted_rows, prompt_rows, sensitivity_rows, together_rows
from adoror_prefixes import prefix_rows
from adoror_systems import NAMES, TABLE_1
from harness import Row, chosen, data_folder, options, rows_of_part, table, write
from scipy import stats

from accord.evidence import Training
from accord.formats import read
from accord.methods import IN_CONTEXT, InContext, RatedExample, contexts_of, examples_of
from accord.models import Flow, run
from accord.project import Project, config_from
from accord.statistics import Clusters, fold_of
from accord.values import Conversation, Document, Label, Labels, Question, Rubric, Sample, Scale

PARTS = ("planted", "sensitivity", "prompts", "prefixes", "together", "real")
MODEL = "embedded:smollm2-135m"
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
DRAWS = 1000


def main() -> None:
    """Run the parts."""
    parser = options("adoror", str(__doc__), PARTS)
    parser.add_argument("--store", type=Path, default=Path("adoror.db"), help="where replies are kept")
    parser.add_argument("--splits", default=",".join(SPLITS), help="folds by context, at random, or both")
    parser.add_argument("--dimensions", default=",".join(DIMENSIONS), help="which are scored")
    args = parser.parse_args()
    parts = chosen(parser, args.only, PARTS)
    rows: list[Row] = []
    if "planted" in parts:
        rows += planted_rows(seed=0, quick=args.quick)
        print(table(rows, ("world", "system", "recovered", "absolute_error")), "\n")
    if "sensitivity" in parts:
        cells = sensitivity_rows(seed=0, quick=args.quick)
        shown = [row for row in cells if "least" in row]
        print(table(shown, ("world", "system", "cells", "least", "mean", "most")), "\n")
        rows += cells
    if "prompts" in parts:
        prompts = [row for seed in range(1 if args.quick else 5) for row in prompt_rows(seed, args.quick)]
        print(table(prompts, ("world", "system", "seed", "spearman", "selected", "best", "mean")), "\n")
        rows += prompts
    if "prefixes" in parts:
        saved = prefix_rows()
        print(table(saved, ("what", "together", "layout", "requests", "characters", "shared")), "\n")
        rows += saved
    if "together" in parts:
        shared = [row for seed in range(1 if args.quick else 3) for row in together_rows(seed, args.quick)]
        print(table(shared, ("world", "system", "seed", "recovered", "absolute_error")), "\n")
        rows += shared
    if "real" in parts:
        folder = data_folder(parser, args.data) / "topical_usr"
        limit = args.limit or (18 if args.quick else None)
        tried = partial(
            real, folder, args.store, limit, args.splits.split(","), args.dimensions.split(","),
            bool(args.limit or args.quick),
        )  # fmt: skip
        found = rows_of_part("real", tried)
        if "skipped" not in found[0]:
            compared = table_1(found), wilcoxon(found)
            print(table(compared[0], ("split", "dimension", "system", "folds", "n", "spearman", "mean_of_folds")), "\n")
            print(table(compared[1], ("split", "system", "against", "improvement", "p")))
            rows += [*compared[0], *compared[1]]
        rows += found
    write("adoror", rows, args.json)


# --- real data ------------------------------------------------------------------------------------------------------


def real(
    folder: Path, where: Path, limit: int | None, splits: Sequence[str], dimensions: Sequence[str], small: bool
) -> list[Row]:
    """Return one row per split, dimension, fold and system, with predictions and ratings."""
    scorer = {"model": MODEL, "mode": "logprobs", "context": CONTEXT if small else None}
    sizes: Mapping[str, Any] = (TINY if (limit or 0) <= FEW else SMALL) if small else {}
    about = {"background": "fact", "selector": "adoror", "calibrate": False, "level": "turn", "rivals": list(TABLE_1)}
    config = config_from(
        {"store": f"sqlite:///{where}", "models": {"scorer": scorer}, "sources": {IN_CONTEXT: about | dict(sizes)}}
    )
    rows: list[Row] = []
    for split, dimension in product(splits, dimensions):
        text, answers = DIMENSIONS[dimension]
        question = Question(id=dimension, text=text, scale=Scale(options=answers))
        everything = Training(*_responses(folder, dimension, limit), question)
        with Project(config, Rubric(name="topical-usr", questions=(question,), main=question.id)) as project:
            for fold, sides in enumerate(folds_of(everything, split)):
                source = project.source(IN_CONTEXT)
                assert isinstance(source, InContext)
                step = _progress(f"{split} folds, {dimension}, {fold + 1}")
                found = run(_tried(source, *sides), project.models, step)
                rows += list(_rows(found, sides[1], {"split": split, "dimension": dimension, "fold": fold}))
    return rows


def _tried(source: InContext, train: Training, test: Training) -> Flow[InContext]:
    """Learn on one side, and ask every system of table 1 about the other."""
    learned = yield from source.learn(train)
    assert isinstance(learned.source, InContext)
    return (yield from learned.source.examine(test))


def _progress(about: str) -> Callable[[str], None]:
    """Say which stage has begun."""
    begun: set[str] = set()

    def step(stage: str) -> None:
        if stage not in begun:
            begun.add(stage)
            print(f"{about}: {stage}", file=sys.stderr, flush=True)

    return step


def _rows(found: InContext, test: Training, about: Row) -> Iterator[Row]:
    """Yield one row per system: means of its answers and of the ratings, for the held-out responses."""
    examples = _examples(test)
    truth = {str(example.target): example.score for example in examples}
    assert found.held_out_ is not None
    for name, evidence in {IN_CONTEXT: found.held_out_, **found.rivals()}.items():
        options_, shares, known = evidence.distribution(test.question.id)
        means = shares @ np.array(options_)
        said = {str(t): float(m) for t, m, k in zip(evidence.targets, means, known, strict=True) if k}
        pairs = [(said[target], score) for target, score in truth.items() if target in said]
        context = [name for target, name in zip(truth, contexts_of(examples), strict=True) if target in said]
        lost = {"unscored": len(truth) - len(pairs)}
        yield {
            **about,
            "system": NAMES.get(name, name),
            "rho": _spearman(pairs),
            "answers": pairs,
            "context": context,
            **lost,
        }


def _examples(part: Training) -> Sequence[RatedExample]:
    return examples_of(part.question, part.samples, part.labels, "turn", lambda conversation: False).all


def folds_of(everything: Training, split: str) -> Iterator[tuple[Training, Training]]:
    """The sides of each fold."""
    examples = _examples(everything)
    targets = [example.target for example in examples]
    names = contexts_of(examples) if split == "context" else [str(target) for target in targets]
    grouped = replace(everything, labels=everything.labels.grouped(dict(zip(targets, names, strict=True))))
    count = min(FOLDS, len(set(names)))
    place = fold_of(names, count, seed=0)
    for fold in range(count):
        out = {name for name, where in place.items() if where == fold}
        yield grouped.only(set(names) - out), grouped.only(out)


def _responses(folder: Path, dimension: str, limit: int | None) -> tuple[tuple[Sample, ...], Labels]:
    """The rated replies with the turns right before them, and the fact where it is asked about."""
    samples: list[Sample] = []
    labels: list[Label] = []
    for record in read(folder):
        if limit is not None and len(samples) >= limit:
            break
        turn = record.labels[0].target.turn if record.labels else None
        if turn is None:
            continue
        said = record.conversation.turns[max(0, turn - TURNS) : turn + 1]
        facts = [Document(document.text[:FACT]) for document in record.conversation.documents]
        shown = tuple(facts) if dimension == "Uses Knowledge" else ()
        sample = Sample(Conversation(record.conversation.id, said, shown), len(said) - 1)
        samples.append(sample)
        labels += [_moved(label, sample) for label in record.labels if label.question == dimension]
    return tuple(samples), Labels(labels)


def _moved(label: Label, sample: Sample) -> Label:
    return replace(label, target=sample.target)


# --- tables ---------------------------------------------------------------------------------------------


def _spearman(pairs: Sequence[Sequence[float]]) -> float | None:
    ours, theirs = np.array(pairs, dtype=float).reshape(-1, 2).T
    if len(pairs) < 3 or np.ptp(ours) == 0 or np.ptp(theirs) == 0:
        return None
    return float(stats.spearmanr(ours, theirs).statistic)


def table_1(rows: Sequence[Row]) -> list[Row]:
    """Spearman over all held-out responses with an interval by resampling contexts, and the mean of the folds' own."""
    found = []
    for split, dimension, system in dict.fromkeys((r["split"], r["dimension"], r["system"]) for r in rows):
        mine = [r for r in rows if (r["split"], r["dimension"], r["system"]) == (split, dimension, system)]
        pairs = np.array([pair for row in mine for pair in row["answers"]], dtype=float).reshape(-1, 2)
        clusters = Clusters([name for row in mine for name in row["context"]])
        drawn = [_spearman(pairs[clusters.rows(counts)].tolist()) for counts in clusters.counts(DRAWS, seed=0)]
        known = [each for each in drawn if each is not None]
        low, high = np.quantile(known, [0.025, 0.975]).tolist() if known else (None, None)
        rhos = [row["rho"] for row in mine if row["rho"] is not None]
        found.append({
            "split": split, "dimension": dimension, "system": system, "folds": len(mine), "n": len(pairs),
            "spearman": _spearman(pairs.tolist()), "spearman_low": low, "spearman_high": high,
            "mean_of_folds": fmean(rhos) if rhos else None,
        })  # fmt: skip
    return found


def wilcoxon(rows: Sequence[Row]) -> list[Row]:
    """ADOROR against each system over folds and dimensions (table 6): the mean gain in Spearman, and p."""
    found: list[Row] = []
    for split in dict.fromkeys(row["split"] for row in rows):
        rho = {(r["system"], r["dimension"], r["fold"]): r["rho"] for r in rows if r["split"] == split}
        cells = sorted({key[1:] for key in rho})
        for system in dict.fromkeys(key[0] for key in rho):
            both = [(rho["ADOROR", *cell], rho[system, *cell]) for cell in cells if system != "ADOROR"]
            gains = [ours - theirs for ours, theirs in both if ours is not None and theirs is not None]
            if gains:
                p = float(stats.wilcoxon(gains).pvalue) if any(gains) else 1.0
                about = {"split": split, "system": "ADOROR", "against": system}
                found.append({**about, "improvement": fmean(gains), "cells": len(gains), "p": p})
    return found


if __name__ == "__main__":
    main()

"""Promises about labels: estimates from few of them, confident calls, and suggestions.

label-next               LLM-RUBRIC's synthetic dialogues, half of them to label: RMSE and log loss on the other half
                         with 120 labels, of which 80 were suggested, 20 at a time, minus those with 120 random ones;
                         mean over draws with its interval by t; the first 40 are the same. Draws start at 100: lower
                         ones were used while the method was developed.
estimate-type1-N         share of significant differences (p < .05) between two systems that do not differ, of N = 5,
                         10, 20 labelled conversations each and 200 others with scores: the worst of five worlds.
estimate-S-width         length of the intervals of systems' means on LLM-RUBRIC's synthetic dialogues, all labelled,
                         relative to the length if annotators are treated as one.
selective-broken         share of 20 random splits in which the calls of `score --agree .9` agree with people less often
                         than that on the test side: a fifth of LLM-RUBRIC's synthetic dialogues, about 40 calls; also
                         planted, with 2,000 conversations of known truth.
selective-coverage       share of the test side's ratings that is called; splits without calls count as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from harness import Row
from scipy import stats
from true_shared import FIRST_SEED, SIGNIFICANT, Floats, row, said

from accord.decisions import Selection
from accord.edges import BadInput
from accord.evidence import EvidenceTable, ratings
from accord.learning import Calibration, Evaluator, Experiment, HeldOutAnswers, suggest_labels
from accord.statistics import STATISTICS as BY_NAME
from accord.statistics import LabeledSystem, Paired, estimate_systems, grouped_folds, mean_differences
from accord.testing import planted
from accord.validation import system_means
from accord.values import Labels, Question, Score

AGREE = 0.9
WORLDS = ("normal", "useless scores", "four options", "two options", "shared topics")


def label_next(data: Path, draws: int) -> list[Row]:
    """Compare suggested labels with random ones."""
    from accord_papers.llm_rubric import protocols as paper

    synth, _ = paper.both(data)
    rated, found = synth.rated, []
    names = sorted(set(rated.conversation))
    for draw in range(draws):
        rng = np.random.default_rng(100 + draw)
        old = set(rng.permutation(names)[: len(names) // 2])
        pool = rng.permutation(np.flatnonzero([name in old for name in rated.conversation]))
        test = np.flatnonzero([name not in old for name in rated.conversation])
        pairs = {(rated.labels[row].target, str(rated.labels[row].annotator)): int(row) for row in pool}
        evidence, taken = synth.evidence.filter(old), pool[:40].tolist()
        for _ in range(4):
            given = Labels(rated.labels[row] for row in taken)
            best = suggest_labels(evidence, given, synth.question, 20, among=pairs.keys())
            taken += [pairs[each.target, each.annotator] for each in best]
        errors = []
        for rows in (taken, pool[:120].tolist()):
            labels = Labels(rated.labels[row] for row in rows)
            head = Calibration(synth.question, answer_model="mixed", shift_groups=()).fit(synth.evidence, labels)
            scores = said(head, synth.evidence, rated.take(test))
            shares = np.array([score.probabilities for score in scores])
            value = np.array([score.value for score in scores])
            paired = Paired(rated.options, rated.answer[test], shares, value)
            errors.append([BY_NAME[name](paired) or np.nan for name in ("rmse", "log_loss")])
        found.append(errors)
    suggested, random = np.array(found).transpose(1, 2, 0)
    rows = []
    for name, ours, theirs in zip(("RMSE", "log loss"), suggested, random, strict=True):
        difference = ours - theirs
        reach = float(stats.t.ppf(0.975, draws - 1) * np.std(difference, ddof=1) / np.sqrt(draws))
        mean = float(difference.mean())
        about = {"draws": draws, "suggested": float(ours.mean()), "random": float(theirs.mean())}
        rows.append({"what": f"label-next: {name}", "value": mean, "low": mean - reach, "high": mean + reach, **about})
    return rows


def world(kind: str, rng: np.random.Generator, labelled: int, others: int = 200) -> tuple[LabeledSystem, LabeledSystem]:
    """Return two systems of the same mean: a latent quality, ratings, and a score that follows it."""
    found = []
    topic = rng.normal(size=labelled + others) if kind == "shared topics" else 0.0
    for name in "ab":
        quality = rng.normal(size=labelled + others) + topic
        heard: Floats = quality + rng.normal(scale=0.5, size=len(quality))
        score: Floats = 0.7 * quality + 1.3
        if kind == "useless scores":
            score = rng.normal(size=len(quality))
        elif kind == "four options":
            heard = 1.0 + np.searchsorted([-1.6, -0.8, 0.25], heard).astype(float)
        elif kind == "two options":
            heard, score = (heard > -0.5).astype(float), 1 / (1 + np.exp(-2 * quality))
        names = [f"topic {place}" for place in range(len(quality))] if kind == "shared topics" else None
        groups = (None, None) if names is None else (names[:labelled], names[labelled:])
        found.append(LabeledSystem(name, heard[:labelled], score[:labelled], score[labelled:], *groups))
    return found[0], found[1]


def estimate_type1(data: Path, draws: int) -> list[Row]:
    """`accord estimate` on two systems that do not differ."""
    rows = []
    for size in (5, 10, 20):
        found = []
        for place, kind in enumerate(WORLDS):
            rng = np.random.default_rng([size, place])
            called, count = 0, 200 * draws
            for seed in range(count):
                [gap] = mean_differences(estimate_systems(world(kind, rng, size), seed))
                called += gap.p_holm is not None and gap.p_holm < SIGNIFICANT
            reach = 1.96 * np.sqrt(called / count * (1 - called / count) / count)
            about = {"value": called / count, "low": called / count - reach, "high": called / count + reach}
            found.append({"what": f"estimate-type1-{size} {kind}", **about, "draws": count})
        worst = max(found, key=lambda each: float(each["value"]))
        rows += [{**worst, "what": f"estimate-type1-{size}", "world": str(worst["what"]).partition(" ")[2]}, *found]
    return rows


def estimate_width(data: Path, draws: int) -> list[Row]:
    """Return the length of intervals with annotators distinguished, relative to those without."""
    from accord_papers.llm_rubric import protocols as paper

    synth, _ = paper.both(data)
    named = {name: str(system) for name, system in synth.system_of.items()}
    make = partial(Calibration, answer_model="mixed")
    anybody = Labels(replace(label, annotator="anybody") for label in synth.labels)
    told, untold = (
        system_means(synth.evidence, labels, synth.question, make, named) for labels in (synth.labels, anybody)
    )
    ends = [[(e.low, e.high) for e in each] for each in (told, untold)]
    lengths = np.ptp(np.array(ends, dtype=float), axis=2)
    return [row("estimate-S-width", list(lengths[0] / lengths[1]), systems=len(told))]


def selected(evidence: EvidenceTable, labels: Labels, question: Question, test: Collection[str]) -> tuple[float, float]:
    """Return the share of the ratings of some groups that is called, and the agreement of those calls.

    NaN without calls.
    """
    rated = ratings(evidence, labels, question)
    is_test = np.array([name in test for name in rated.group])
    train, new = rated.take(np.flatnonzero(~is_test)), rated.take(np.flatnonzero(is_test))
    kept = labels.filter(set(train.group))
    make = partial(Calibration, answer_model="mixed")
    splits = tuple(grouped_folds(list(train.group), 5, FIRST_SEED))
    system = Experiment(question, evidence, kept, train, splits, 5, FIRST_SEED).run("mixed", make)
    head = make(question)
    evaluator = Evaluator(question, (), head, held_out=HeldOutAnswers.of([system], train))
    try:
        selection = Selection.of(evaluator, AGREE, for_anyone=False)
    except BadInput:
        return 0.0, float("nan")
    scores = said(head.fit(evidence.filter(set(train.group), labels.group_of), kept), evidence, new)
    called = [selection.call(replace(score, warning=None)) for score in scores]
    is_called = np.array([isinstance(one, Score) for one in called])
    good = np.array([one.notes.get("call") == "good" for one in called])
    right = good == (new.value >= selection.good)
    return float(is_called.mean()), float(right[is_called].mean()) if is_called.any() else float("nan")


def selective(data: Path, draws: int) -> list[Row]:
    """`accord score --agree .9`, for each rating's own annotator."""
    from accord_papers.llm_rubric import protocols as paper

    synth, _ = paper.both(data)
    names = sorted({str(name) for name in synth.rated.group})
    found: dict[str, list[tuple[float, float]]] = {"": [], " planted": []}
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        test = set(rng.choice(names, len(names) // 5, replace=False).tolist())
        found[""].append(selected(synth.evidence, synth.labels, synth.question, test))
        corpus = planted(conversations=2200, annotators=6, noise=1.0, seed=seed)
        new = {f"c{place:04d}" for place in range(200, 2200)}
        found[" planted"].append(selected(corpus.evidence, corpus.labels, corpus.question, new))
    rows = []
    for name, each in found.items():
        shares, agreed = np.array(each).T
        rows.append(row(f"selective-broken{name}", list((agreed < AGREE).astype(float)), draws=draws,
                        agreement=float(np.nanmean(agreed))))  # fmt: skip
        rows.append(row(f"selective-coverage{name}", list(shares), draws=draws))
    return rows


RUN: dict[str, Callable[[Path, int], list[Row]]] = {
    "label-next": label_next,
    "estimate-type1": estimate_type1,
    "estimate-S-width": estimate_width,
    "selective": selective,
}
NEEDS: dict[str, str] = {
    "label-next": "llm_rubric_synth",
    "estimate-S-width": "llm_rubric_real",
    "selective": "llm_rubric_real",
}

"""Promises of heads: bands, floors, warnings, averages, group shifts, and learning from other questions.

turn-coverage            share of ratings inside the nominal 90% band, in 60 new conversations of 8 turns each with a
                         level of its own; mean over draws, by head.
never-below-constant     share of draws in which the default is not significantly worse (p < .05, paired by
                         conversation) than the constant and than the best single column: 50, 100 and 200 ratings, one
                         judge among 30 columns of noise; 5-fold over conversations.
never-below-constant-rated  the same on each rated data set, with its recorded judge if there is one, and the cheap
                         metrics: 50, 100 and 200 of the ratings, drawn each time. The column is the one that agrees
                         best with those ratings, chosen with hindsight among some twenty, so it is no fair rival.
missing-evidence-warned  share of scores with a warning, and inside the band, if half of the training evidence is
                         missing.
context-jump             Topical-USR: the largest difference between a mixture's scores of a reply with a metric and
                         without it (`question-share`, which one context lacks).
stack-S-log-loss         the default head's log loss on LLM-RUBRIC's synthetic dialogues, 5-fold, mean over fold seeds.
stack-T-log-loss         learned there, tested on the real dialogues as a new domain; also its r and RMSE.
within-annotator-r       the default head's r on the same synthetic dialogues after subtracting each annotator's means;
                         also within systems, and pooled.
worst-system-bias        the same synthetic dialogues and folds: the largest |mean prediction - mean rating| of a
                         system, also without shifts by group; also RMSE, and the shifts' own audit on inner folds.
thumbs-gain              r on staff's ratings of new conversations with 200 users' five thumbs each on a question of
                         their own, minus r without them, by head: 50 ratings by staff, planted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from harness import Row
from numpy.typing import NDArray
from synthetic_corpus import planted_thumbs, planted_turns
from true_shared import DRAWN, SIGNIFICANT, Floats, cross_validated, fold_seeds, inside, row, said

from accord.evidence import (
    Column,
    EvidenceTable,
    ratings,
)
from accord.evidence.bank.reply_metrics import BANK
from accord.learning import Calibration, make_head
from accord.models import ModelSettings
from accord.statistics import STATISTICS as BY_NAME
from accord.statistics import Clusters, MeanStatistic, bootstrap, paired_test, pearson, within
from accord.values import Label, Labels, Question, Scale, Score, Target

SIZES = (50, 100, 200)
Drawn = tuple[Question, EvidenceTable, Labels, int]
"""Ratings to learn from, their evidence, and the column to compare with."""


def turn_coverage(data: Path, draws: int) -> list[Row]:
    """Coverage of bands in new conversations."""
    rows = []
    for name in ("auto", "mixed", "curves"):
        found = []
        for seed in range(draws):
            world = planted_turns(seed=seed)
            old, new = ({f"c{place:04d}" for place in range(*ends)} for ends in ((0, 60), (60, 120)))
            head = make_head(name, world.question, {})
            head = head.fit(world.evidence.filter(old, world.labels.group_of), world.labels.filter(old))
            rated = ratings(world.evidence, world.labels.filter(new), world.question)
            found.append(inside(said(head, world.evidence, rated), rated))
        rows.append(row("turn-coverage" if name == "auto" else f"turn-coverage {name}", found, draws=draws))
    return rows


def drowned(size: int, seed: int, weight: float) -> tuple[EvidenceTable, Labels, Question]:
    """Return ratings that one judge's column follows with a slope of `weight`, among 30 noise columns."""
    rng = np.random.default_rng(seed)
    targets = tuple(Target(f"c{place:04d}") for place in range(size))
    x = rng.normal(size=(size, 31))
    value = np.clip(np.round(3 + weight * x[:, 0] + rng.normal(size=size)), 1, 5).astype(int)
    named = (Column("judge", "judge", source="rubric"), *(Column(f"w{i}", "w", source="words") for i in range(30)))
    labels = Labels(
        Label(target, "main", f"p{place % 3}", int(each))
        for place, (target, each) in enumerate(zip(targets, value, strict=True))
    )
    question = Question(id="main", text="How good is it?", scale=Scale(options=(1, 2, 3, 4, 5)))
    return EvidenceTable(targets, named, x, np.ones(x.shape, dtype=bool)), labels, question


def worse_than(question: Question, evidence: EvidenceTable, labels: Labels, column: int) -> tuple[bool, bool, float]:
    """Compare the default with the constant and one column.

    Returns:
        True if it is significantly worse than the constant, the same for the column, and its gain on the constant.
    """
    statistic = BY_NAME["log_loss"]
    assert isinstance(statistic, MeanStatistic)
    rated = ratings(evidence, labels, question)
    ours = cross_validated(partial(Calibration, question), evidence, labels, rated)
    constant = cross_validated(partial(Calibration, question, answer_model="constant"), evidence, labels, rated)
    alone = partial(Calibration, question, answer_model="mixed", own_slopes=False)
    worse = []
    for other in (constant, cross_validated(alone, evidence.select([column]), labels, rated)):
        test = paired_test(Clusters(rated.group), statistic, [ours], [other])
        assert test is not None
        worse.append(test.difference > 0 and test.p < SIGNIFICANT)
    return worse[0], worse[1], (statistic(constant) or 0.0) - (statistic(ours) or 0.0)


def never_below(name: str, draw: Callable[[int, int], Drawn], draws: int) -> list[Row]:
    """Return the share of draws in which the default is not worse than both, by number of ratings and overall."""
    rows, every = [], list[tuple[bool, bool, float]]()
    for size in SIZES:
        found = [worse_than(*draw(size, seed)) for seed in range(draws)]
        every += found
        rows.append(held(f"{name} {size} ratings", found))
    return [held(name, every), *rows]


def held(what: str, found: Sequence[tuple[bool, bool, float]]) -> Row:
    """Return the share of draws in which neither was significantly better, and each share."""
    constant, column, gain = (np.array(each, dtype=float) for each in zip(*found, strict=True))
    both = np.maximum(constant, column)
    return row(what, list(1 - both), draws=len(found), constant=1 - float(constant.mean()),
               column=1 - float(column.mean()), gain=float(gain.mean()))  # fmt: skip


def never_below_constant(data: Path, draws: int) -> list[Row]:
    """Compare the default with the constant and the informative column."""

    def draw(size: int, seed: int) -> Drawn:
        evidence, labels, question = drowned(size, seed, (0.0, 0.25, 0.5, 0.75)[seed % 4])
        return question, evidence, labels, 0

    return never_below("never-below-constant", draw, draws)


def never_below_constant_rated(data: Path, draws: int) -> list[Row]:
    """Compare the default with the constant and the best column on rated data."""
    rows: list[Row] = []
    for folder in sorted(path.parent for path in data.glob("*/items.jsonl.gz")):
        rows += never_below(f"never-below-constant {folder.name}", partial(some_of, *gathered(folder)), draws)
    whole = [each for each in rows if not each["what"].endswith("ratings")]
    shares = {name: float(np.mean([each[name] for each in whole])) for name in ("constant", "column", "gain")}
    return [row("never-below-constant-rated", [each["value"] for each in whole], draws=draws, **shares), *rows]


def some_of(question: Question, evidence: EvidenceTable, labels: Labels, size: int, seed: int) -> Drawn:
    """Return some of all ratings, and the fully known column that agrees best with them."""
    rows = ratings(evidence, labels, question)
    drawn = np.random.default_rng(seed).permutation(len(rows))[:size]
    some = {(rows.target[place], str(rows.annotator[place])) for place in drawn}
    groups = {target: labels.group_of(target) for target, _ in some}
    own = Labels(each for each in labels if (each.target, each.annotator) in some).grouped(groups)
    mine = evidence.take([place for place, target in enumerate(evidence.targets) if target in groups])
    rated = ratings(mine, own, question)
    agrees = [
        abs(np.corrcoef(values, rated.value)[0, 1]) if seen.all() and len(set(values)) > 1 else 0.0
        for values, seen in zip(mine.values[rated.row].T, mine.present[rated.row].T, strict=True)
    ]
    return question, mine, own, int(np.argmax(agrees))


def gathered(folder: Path) -> tuple[Question, EvidenceTable, Labels]:
    """Return a data set's main question as `accord run` finds it, its evidence, and all labels."""
    from accord import Project
    from accord.project import Config, ImportOptions, JudgeSelection, infer_rubric, survey_files

    found = survey_files([folder])
    rubric, _ = infer_rubric(found.questions.values())
    models = {}
    if found.recordings:
        models = {"judge": ModelSettings(mode="recorded", paths=list(map(str, found.recordings)))}
    with Project(Config(store="sqlite://", metrics=["bank"], models=models), rubric) as project:
        project.import_(found.files, options=ImportOptions())
        if models:
            project.judge(selection=JudgeSelection(everything=True))
        evaluator = project.evaluator("all" if models else "mixture")
        train, _ = project.training(evaluator)
        evidence = project.measure(evaluator.sources, train.samples)
    known = evidence.take(np.flatnonzero(evidence.present.any(axis=1)).tolist())
    return train.question, known.expected(), train.labels


def missing_evidence_warned(data: Path, draws: int) -> list[Row]:
    """Score with one of the two training sources missing."""
    warned, held = [], []
    for seed in range(draws):
        world = planted_turns(conversations=160, turns=2, features=8, spread=0.3, seed=seed)
        old, new = ({f"c{place:04d}" for place in range(*ends)} for ends in ((0, 80), (80, 160)))
        train = world.evidence.filter(old, world.labels.group_of)
        present = world.evidence.present.copy()
        present[:, ::2] = False
        lacking = world.evidence.with_only(present)
        rated = ratings(lacking, world.labels.filter(new), world.question)
        scores = said(make_head("curves", world.question, {}).fit(train, world.labels.filter(old)), lacking, rated)
        warned.append(float(np.mean([score.warning is not None for score in scores])))
        held.append(inside(scores, rated))
    return [
        row("missing-evidence-warned", warned, draws=draws),
        row("missing-evidence-warned: inside the band", held, draws=draws),
    ]


def context_jump(data: Path, draws: int) -> list[Row]:
    """Remove one metric at a time from every reply."""
    from accord_papers.ciu import responses

    whole = responses.load(data / "topical_usr", [name for name in BANK if not name.startswith(("bert", "cosine"))])
    found = whole["all"]
    question = responses.question_of(found, "Overall")
    groups = {target: str(context) for target, context in zip(found.evidence.targets, found.context, strict=True)}
    learned = make_head("curves", question, {}).fit(found.evidence, found.labels.grouped(groups))
    before = np.array([s.value if isinstance(s, Score) else np.nan for s in learned.predict(found.evidence)])
    place = [column.name for column in found.evidence.columns].index("question-share")
    present = found.evidence.present.copy()
    kept = present[:, place].copy()
    present[:, place] = False
    lacking = found.evidence.with_only(present)
    after = np.array([s.value if isinstance(s, Score) else np.nan for s in learned.predict(lacking)])
    return [row("context-jump", [float(np.nanmax(np.abs(after - before)[kept]))], metric="question-share")]


def stack(data: Path, draws: int, transfer: bool) -> list[Row]:
    """The default head on LLM-RUBRIC's data."""
    from accord_papers.llm_rubric import protocols as paper

    synth, real = paper.both(data)
    predict = paper.learned(partial(Calibration, synth.question), transfer)
    if transfer:
        name, repeats, tested = "stack-T", paper.transferred(predict, synth, real), real.rated
    else:
        name, repeats, tested = "stack-S", paper.cross_validated(predict, synth, fold_seeds(draws)), synth.rated
    rows = []
    for figure in ("log_loss", "pearson", "rmse"):
        each = [BY_NAME[figure](paired) for paired in repeats]
        interval = bootstrap(Clusters(tested.conversation), BY_NAME[figure], repeats)
        value = float(np.mean([one for one in each if one is not None]))
        what = f"{name}-{figure.replace('_', '-')}"
        rows.append({"what": what, "value": value, "low": interval.low, "high": interval.high, "seeds": len(repeats)})
    return rows


def within_annotator(data: Path, draws: int) -> list[Row]:
    """Return the part of the headline correlation that is not due to knowing the annotator or the system."""
    from accord_papers.llm_rubric import protocols as paper

    synth, _ = paper.both(data)
    repeats = paper.cross_validated(paper.learned(partial(Calibration, synth.question)), synth, fold_seeds(draws))
    systems = np.asarray([str(synth.system_of.get(name)) for name in synth.rated.conversation], dtype=np.object_)
    rows = []
    for name, statistic in (
        ("within-annotator-r", within(synth.rated.annotator)["pearson"]),
        ("within-system-r", within(systems)["pearson"]),
        ("pooled-r", BY_NAME["pearson"]),
    ):
        interval = bootstrap(Clusters(synth.rated.conversation), statistic, repeats)
        value = float(np.mean([one for paired in repeats if (one := statistic(paired)) is not None]))
        rows.append({"what": name, "value": value, "low": interval.low, "high": interval.high, "seeds": len(repeats)})
    return rows


def worst_system_bias(data: Path, draws: int) -> list[Row]:
    """The default head, with and without shifts by group."""
    from accord_papers.llm_rubric import protocols as paper

    synth, _ = paper.both(data)
    system = np.array([str(synth.system_of[name]) for name in synth.rated.conversation])

    def worst(error: Floats, of: NDArray[np.str_]) -> float:
        return max(abs(float(error[of == name].mean())) for name in sorted(set(of)))

    rows: list[Row] = []
    for about, by in (("", ("system",)), (" without shifts", ())):
        predict = paper.learned(partial(Calibration, synth.question, shift_groups=by))
        repeats = paper.cross_validated(predict, synth, fold_seeds(draws))
        clusters = Clusters(synth.rated.conversation)
        drawn = []
        for counts in clusters.counts(DRAWN, seed=0):
            taken = clusters.rows(counts)
            drawn.append(np.mean([worst((each.value - each.truth)[taken], system[taken]) for each in repeats]))
        low, high = np.quantile(drawn, [0.025, 0.975])
        value = float(np.mean([worst(each.value - each.truth, system) for each in repeats]))
        rows.append({"what": f"worst-system-bias{about}", "value": value, "low": low, "high": high})
        rmse = [BY_NAME["rmse"](each) or np.nan for each in repeats]
        interval = bootstrap(clusters, BY_NAME["rmse"], repeats)
        rows.append({"what": f"worst-system-bias{about}: RMSE", "value": float(np.mean(rmse)), "low": interval.low,
                     "high": interval.high})  # fmt: skip
    [(before, after)] = Calibration(synth.question).fit(synth.evidence, synth.labels).shifts_.worst.values()
    audit = {"worst-system-bias: audit before": before, "worst-system-bias: audit after": after}
    return rows + [{"what": what, "value": value, "low": None, "high": None} for what, value in audit.items()]


def thumbs_gain(data: Path, draws: int) -> list[Row]:
    """The same ratings with and without thumbs."""
    rows = []
    for name in ("auto", "mixed"):
        found: list[tuple[float, float]] = []
        for seed in range(draws):
            corpus, tested = planted_thumbs(seed=seed)
            rated = ratings(corpus.evidence, tested, corpus.question)
            each = []
            for labels in (corpus.labels.on("main"), corpus.labels):
                head = make_head(name, corpus.question, {}).fit(corpus.evidence, labels)
                # A constant prediction has no correlation and ranks nothing.
                each.append(
                    pearson(rated.value, np.array([s.value for s in said(head, corpus.evidence, rated)])) or 0.0
                )
            found.append((each[0], each[1]))
        alone, beside = np.array(found).T
        what = "thumbs-gain" if name == "auto" else f"thumbs-gain {name}"
        rows += [row(what, (beside - alone).tolist(), draws=draws), row(f"{what}: r", beside.tolist(), draws=draws)]
    return rows


RUN: dict[str, Callable[[Path, int], list[Row]]] = {
    "turn-coverage": turn_coverage,
    "never-below-constant": never_below_constant,
    "never-below-constant-rated": never_below_constant_rated,
    "missing-evidence-warned": missing_evidence_warned,
    "context-jump": context_jump,
    "stack-S-log-loss": partial(stack, transfer=False),
    "stack-T-log-loss": partial(stack, transfer=True),
    "within-annotator-r": within_annotator,
    "worst-system-bias": worst_system_bias,
    "thumbs-gain": thumbs_gain,
}
NEEDS: dict[str, str] = {
    "context-jump": "topical_usr",
    "stack-S-log-loss": "llm_rubric_synth",
    "stack-T-log-loss": "llm_rubric_real",
    "within-annotator-r": "llm_rubric_synth",
    "worst-system-bias": "llm_rubric_synth",
}

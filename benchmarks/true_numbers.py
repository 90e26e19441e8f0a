"""Whether every number means what it says: bands, floors and warnings of the heads, planted and on rated data.

    python benchmarks/true_numbers.py [--data ../shared/data] [--only PARTS] [--quick] [--limit DRAWS] --json OUT

turn-coverage            share of ratings inside the nominal 90 % band, in 60 conversations that were not learned from,
                         each of 8 turns with a level of its own; mean over draws, by head.
never-below-constant     share of draws in which the default is not significantly worse (p < .05, paired by
                         conversation) than the constant and than the best single column: 50, 100 and 200 ratings, one
                         judge among 30 columns of noise; 5-fold over conversations.
missing-evidence-warned  share of scores with a warning, and inside the band, where half of the evidence that was
                         learned from is missing.
context-jump             Topical-USR: the largest difference between a mixture's scores of a reply with a metric and
                         without it (`question-share`, which one context lacks).
stack-S-log-loss         the default head's log loss on LLM-RUBRIC's synthetic dialogues, 5-fold, mean over fold seeds.
stack-T-log-loss         learned there, tested on the real dialogues as a new domain; also its r and RMSE.

Rows are `what`, `value`, `low`, `high`: the central 95 % over draws, or a bootstrap over conversations.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # small matrices gain nothing from more, before NumPy is imported

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from harness import Row, chosen, finish, options
from numpy.typing import NDArray

from accord.evidence import Column, EvidenceTable, Ratings, ratings
from accord.learning import Calibration, Head, Mixture, make_head
from accord.statistics import STATISTICS as BY_NAME
from accord.statistics import Clusters, MeanStatistic, Paired, bootstrap, grouped_folds, paired_test
from accord.testing import planted_turns
from accord.values import Label, Labels, Question, Scale, Score, Target

PARTS = (
    "turn-coverage", "never-below-constant", "missing-evidence-warned", "context-jump", "stack-S-log-loss",
    "stack-T-log-loss",
)  # fmt: skip
DRAWS = 20
SIZES = (50, 100, 200)
FIRST_SEED = 43
SIGNIFICANT = 0.05
Floats = NDArray[np.float64]


def row(what: str, values: Sequence[float], **also: object) -> Row:
    """The mean of values over draws, with their central 95 %."""
    low, high = np.quantile(values, [0.025, 0.975])
    return {"what": what, "value": float(np.mean(values)), "low": float(low), "high": float(high), **also}


def said(head: Head, evidence: EvidenceTable, rated: Ratings) -> list[Score]:
    """Each rating's score, for its own annotator; these worlds leave none unscored."""
    scores = head.predict_each(evidence.take(rated.row), list(rated.annotator))
    found = [score for score in scores if isinstance(score, Score)]
    assert len(found) == len(rated)
    return found


def inside(scores: Sequence[Score], rated: Ratings) -> float:
    """Share of ratings inside their bands."""
    ends = np.array([score.band for score in scores], dtype=float)
    return float(((ends[:, 0] <= rated.value) & (rated.value <= ends[:, 1])).mean())


def turn_coverage(data: Path, draws: int) -> list[Row]:
    """Bands in new conversations."""
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
    """Ratings that one judge's column follows with a slope of `weight`, among 30 columns that say nothing."""
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


def cross_validated(make: Callable[[], Head], evidence: EvidenceTable, labels: Labels, rated: Ratings) -> Paired:
    """Every rating predicted without its conversation."""
    shares = np.zeros((len(rated), len(rated.options)))
    for split in grouped_folds(list(rated.group), 5, FIRST_SEED):
        rows = np.flatnonzero([name in split.test for name in rated.group])
        head = make().fit(evidence.filter(split.train, labels.group_of), labels.filter(split.train))
        shares[rows] = [score.probabilities for score in said(head, evidence, rated.take(rows))]
    return Paired(rated.options, rated.answer, shares, shares @ rated.options)


def never_below_constant(data: Path, draws: int) -> list[Row]:
    """The default against the constant and the column that truly says something."""
    statistic = BY_NAME["log_loss"]
    assert isinstance(statistic, MeanStatistic)
    rows, every = [], []
    for size in SIZES:
        held, gains = [], []
        for seed in range(draws):
            evidence, labels, question = drowned(size, seed, (0.0, 0.25, 0.5, 0.75)[seed % 4])
            rated = ratings(evidence, labels, question)
            ours = cross_validated(partial(Calibration, question), evidence, labels, rated)
            others = [
                cross_validated(partial(Calibration, question, core="constant"), evidence, labels, rated),
                cross_validated(partial(Calibration, question, core="mixed", own_slopes=False), evidence.select([0]),
                                labels, rated),
            ]  # fmt: skip
            worse = []
            for other in others:
                test = paired_test(Clusters(rated.group), statistic, [ours], [other])
                assert test is not None
                worse.append(test.difference > 0 and test.p < SIGNIFICANT)
            held.append(float(not any(worse)))
            gains.append((statistic(others[0]) or 0.0) - (statistic(ours) or 0.0))
        every += held
        rows.append(row(f"never-below-constant {size} ratings", held, draws=draws, gain=float(np.mean(gains))))
    return [row("never-below-constant", every, draws=draws), *rows]


def missing_evidence_warned(data: Path, draws: int) -> list[Row]:
    """Two sources were learned from, one is there."""
    warned, held = [], []
    for seed in range(draws):
        world = planted_turns(conversations=160, turns=2, features=8, spread=0.3, seed=seed)
        old, new = ({f"c{place:04d}" for place in range(*ends)} for ends in ((0, 80), (80, 160)))
        train = world.evidence.filter(old, world.labels.group_of)
        present = world.evidence.present.copy()
        present[:, ::2] = False
        lacking = world.evidence.with_only(present)
        rated = ratings(lacking, world.labels.filter(new), world.question)
        scores = said(Mixture(world.question).fit(train, world.labels.filter(old)), lacking, rated)
        warned.append(float(np.mean([score.warning is not None for score in scores])))
        held.append(inside(scores, rated))
    return [
        row("missing-evidence-warned", warned, draws=draws),
        row("missing-evidence-warned: inside the band", held, draws=draws),
    ]


def context_jump(data: Path, draws: int) -> list[Row]:
    """One metric at a time is taken away from every reply."""
    import rated as responses

    from accord.evidence import BANK

    whole = responses.load(data / "topical_usr", [name for name in BANK if not name.startswith(("bert", "cosine"))])
    found = whole["all"]
    question = responses.question_of(found, "Overall")
    groups = {target: str(context) for target, context in zip(found.evidence.targets, found.context, strict=True)}
    learned = Mixture(question).fit(found.evidence, found.labels.grouped(groups))
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
    import llm_rubric as paper

    from accord.models import RecordedJudge
    from accord.values import Applies, load_rubric

    judge = RecordedJudge.read([data / "llm_rubric_synth", data / "llm_rubric_real"])
    shipped = load_rubric("llm-rubric")
    always = tuple(question.model_copy(update={"applies": Applies.ALWAYS}) for question in shipped.questions)
    rubric = shipped.model_copy(update={"questions": always})
    synth, real = (paper.load(data, name, rubric, judge) for name in ("llm_rubric_synth", "llm_rubric_real"))
    predict = paper.learned(partial(Calibration, synth.question), transfer)
    if transfer:
        name, repeats, tested = "stack-T", paper.transferred(predict, synth, real), real.rated
    else:
        seeds = list(range(FIRST_SEED, FIRST_SEED + min(draws, 10)))
        name, repeats, tested = "stack-S", paper.cross_validated(predict, synth, seeds), synth.rated
    rows = []
    for figure in ("log_loss", "pearson", "rmse"):
        each = [BY_NAME[figure](paired) for paired in repeats]
        interval = bootstrap(Clusters(tested.conversation), BY_NAME[figure], repeats)
        value = float(np.mean([one for one in each if one is not None]))
        what = f"{name}-{figure.replace('_', '-')}"
        rows.append({"what": what, "value": value, "low": interval.low, "high": interval.high, "seeds": len(repeats)})
    return rows


RUN: dict[str, Callable[[Path, int], list[Row]]] = {
    "turn-coverage": turn_coverage,
    "never-below-constant": never_below_constant,
    "missing-evidence-warned": missing_evidence_warned,
    "context-jump": context_jump,
    "stack-S-log-loss": partial(stack, transfer=False),
    "stack-T-log-loss": partial(stack, transfer=True),
}
NEEDS = {"context-jump": "topical_usr", "stack-S-log-loss": "llm_rubric_synth", "stack-T-log-loss": "llm_rubric_real"}


def main() -> None:
    """Measure the parts that were asked for; one whose data are absent is a row with the reason."""
    parser = options("true_numbers", "Whether every number means what it says.", PARTS)
    given = parser.parse_args()
    rows: list[Row] = []
    for part in chosen(parser, given.only, PARTS):
        needed = NEEDS.get(part)
        if needed and not (given.data / needed).is_dir():
            rows.append({"what": part, "value": None, "low": None, "high": None, "skipped": f"no {needed} in --data"})
            continue
        rows += RUN[part](given.data, given.limit or (2 if given.quick else DRAWS))
    finish("true_numbers", rows, ["what", "value", "low", "high", "draws", "skipped"], given.json)


if __name__ == "__main__":
    main()

"""Agreement with few labels: means of systems, several judges, narrow questions.

    python benchmarks/agreement.py --data ../shared/data --json OUT [--only estimate-width,...] [--quick]

estimate-width    Means from few labels and all scores. On each data set with a recorded judge, `draws` populations are
                  drawn with replacement from the rated texts, and 20 or 60 texts of each are labeled: at random, in
                  strata of the score with equal rates (`label next --for agreement`), or by Neyman's allocation (half
                  of the labels in equal rates, the rest where their spread was large). `width` is the mean width of the
                  interval relative to that of random labels alone, `labels` the squared error relative to theirs, which
                  is the share of the labels that the same error needs, and `coverage` the share of intervals that hold
                  the mean. `narrowest` takes the narrowest of the three random estimators each time. `r` is the
                  correlation of score and rating, and `bound` the smallest possible width, √(1 - r²·(1 - n/N)).
                  Planted: the evaluator is learned from the same labels, of three systems with 80 conversations each.
estimate-units    `accord estimate` on labels of replies, 20 of each version, drawn at random. Planted: three versions
                  with 60 conversations each of one to four replies; the version gives the rated reply, which is marked
                  by the file or is the last one, or every reply. The other replies are context by a better assistant.
                  Ratings follow the number of words, which is the only evidence. `coverage` is the share of intervals
                  of means that hold the mean, `differences` that of the versions' differences, `rmse` the error of
                  the means, and `scored` the mean number of replies that count for a version.
judges            Several recorded judges with one vote each: `rmse` for a new annotator in 5 folds, `relative` to that
                  of the best judge of the training folds, `p` of the paired permutation test against it (Holm's
                  correction over the combinations). `default` is the default evaluator, learned from all answers of all
                  judges. With 60 texts, means over draws of the texts, without tests. The last set is one judge asked
                  five times.
narrow-questions  One direct question to a recorded judge, or its 4 to 8 narrower ones: `answers` per text is the cost,
                  `relative` the RMSE over that of the direct question. `two-valued` takes only the probability of the
                  upper half of each scale. Equal weights have a fixed sign, the learned ones are ridge regression.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import agreement_labels
import numpy as np
from harness import Row, chosen, data_folder, finish, options, rows_of_part
from numpy.typing import NDArray

from accord import Project
from accord.decisions import second_judge
from accord.evidence import Column, EvidenceTable
from accord.learning import Calibration, Experiment, Predictions, judge_panel, make_head, stratified_targets
from accord.project import Config, Estimates
from accord.statistics import LabeledSystem, estimate_systems, stratified_means
from accord.testing import planted
from accord.validation import estimation
from accord.values import Label, Labels, Question, Rubric, Scale, Target

DRAWS = 300
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# --- estimate-width ---------------------------------------------------------------------------------------------------

SETS = {
    "llm_rubric_synth": "Q0, gpt-3.5-turbo-16k",
    "llm_rubric_real": "Q0, gpt-3.5-turbo-16k",
    "topical_usr": "Overall, gpt-4",
    "topical_usr, weak judge": "Overall, UniEval-dialog (T5-large)",
}
"""Question and judge by data set; what follows the comma in a name tells two judges of a set apart."""
SIZES = (20, 60)
STRATA, PLANTED = 4, 240
RANDOM, EQUAL, NEYMAN = "random", "equal rates", "Neyman"


class Interval(NamedTuple):
    """Mean and interval of one draw, with the true mean."""

    mean: float
    low: float
    high: float
    truth: float


def interval(mean: float, low: float | None, high: float | None, truth: float) -> Interval:
    """Return an interval; a draw whose labels are all equal has one of length 0."""
    return Interval(mean, mean if low is None else low, mean if high is None else high, truth)


def by_estimator(given: Sequence[LabeledSystem], truth: Floats, seed: int) -> dict[str, list[Interval]]:
    """Return the interval of each system by estimator, with that of the narrowest."""
    line, strata = estimate_systems(given, seed), stratified_means.stratified_means(given)
    found = {
        estimation.ALONE: [
            interval(e.label_mean, e.label_low, e.label_high, t) for e, t in zip(line, truth, strict=True)
        ],
        estimation.PPI: [interval(e.mean, e.low, e.high, t) for e, t in zip(line, truth, strict=True)],
        estimation.STRATIFIED: [interval(e.mean, e.low, e.high, t) for e, t in zip(strata, truth, strict=True)],
    }
    narrowest = [min(each, key=lambda one: one.high - one.low) for each in zip(*found.values(), strict=True)]
    return {**found, "narrowest": narrowest}


def neyman(score: Floats, said: Floats, size: int, rng: np.random.Generator) -> Interval:
    """Return the stratified mean of labels that are allocated by the spread of a first half of them."""
    stratum = np.searchsorted(np.quantile(score, np.arange(1, STRATA) / STRATA), score, side="left")
    rows = [rows for k in range(STRATA) if len(rows := rng.permutation(np.flatnonzero(stratum == k)))]
    count = np.array([len(each) for each in rows])
    first = np.minimum(np.maximum(2, size // 2 * count // len(score)), count)
    spread = np.array([said[each[:n]].std(ddof=1) if n > 1 else 0.0 for each, n in zip(rows, first, strict=True)])
    weight = count * np.maximum(spread, 0.1 * spread.max() or 1.0)
    taken = np.minimum(np.maximum(np.round(weight / weight.sum() * size).astype(int), first), count)
    labels = [said[each[:n]] for each, n in zip(rows, taken, strict=True)]
    share = count / len(score)
    mean = float(sum(w * each.mean() for w, each in zip(share, labels, strict=True)))
    variance = sum(w**2 * each.var(ddof=1) / len(each) for w, each in zip(share, labels, strict=True) if len(each) > 1)
    half = 1.96 * float(np.sqrt(variance))
    return Interval(mean, mean - half, mean + half, 0.0)


def drawn(score: Floats, said: Floats, size: int, seed: int) -> dict[tuple[str, str], list[Interval]]:
    """Return the intervals of one population by design and estimator."""
    rng, n = np.random.default_rng([seed, size]), len(score)
    rows = rng.integers(0, n, n)
    f, y, truth = score[rows], said[rows], np.array([said.mean()])

    def labeled(own: Indices) -> list[LabeledSystem]:
        rest = np.setdiff1d(np.arange(n), own)
        return [LabeledSystem("all", y[own], f[own], f[rest])]

    targets = [Target(str(place)) for place in range(n)]
    equal = [int(each.conversation) for each in stratified_targets(targets, f, (), size, seed)]
    found = {
        (design, name): intervals
        for design, own in ((RANDOM, rng.permutation(n)[:size]), (EQUAL, np.array(equal)))
        for name, intervals in by_estimator(labeled(own), truth, seed).items()
    }
    return {**found, (NEYMAN, estimation.STRATIFIED): [neyman(f, y, size, rng)._replace(truth=float(truth[0]))]}


def planted_draw(size: int, seed: int) -> dict[tuple[str, str], list[Interval]]:
    """Return the intervals of three planted systems, of which a random part is labeled and teaches the evaluator."""
    corpus = planted(conversations=5 * PLANTED, annotators=3, noise=0.6, seed=seed)
    names = [target.conversation for target in corpus.evidence.targets]
    system = {name: "abc"[place % 3] for place, name in enumerate(names[:PLANTED])}
    few = {name for place, name in enumerate(names[:PLANTED]) if place < 3 * size}
    labels = Labels(label for label in corpus.labels if label.target.conversation in few)
    make = partial(Calibration, answer_model="mixed")
    evidence = corpus.evidence.filter(system)
    given = estimation.labeled_systems(evidence, labels, corpus.question, make, system, seed=seed)
    truth = np.full(3, np.mean([float(each.value or 0) for each in corpus.labels]))  # the systems do not differ
    return {(RANDOM, name): intervals for name, intervals in by_estimator(given, truth, seed).items()}


def width_rows(
    name: str, size: int, draws: int, one: Callable[[int], dict[tuple[str, str], list[Interval]]], **about: object
) -> Iterator[Row]:
    """Yield a row per design and estimator over all draws."""
    found: dict[tuple[str, str], list[Interval]] = {}
    for seed in range(draws):
        for key, intervals in one(seed).items():
            found.setdefault(key, []).extend(intervals)
    base = np.array(found[RANDOM, estimation.ALONE])
    for (design, method), intervals in found.items():
        each = np.array(intervals)
        error, alone = (float(np.mean((rows[:, 0] - rows[:, 3]) ** 2)) for rows in (each, base))
        inside = (each[:, 1] <= each[:, 3]) & (each[:, 3] <= each[:, 2])
        yield {
            "row": "estimate-width", "set": name, "size": size, "design": design, "method": method,
            "width": float((each[:, 2] - each[:, 1]).mean() / (base[:, 2] - base[:, 1]).mean()),
            "labels": error / alone,
            "coverage": float(inside.mean()), "draws": draws,
            **about,
        }  # fmt: skip


def estimate_width(data: Path, draws: int) -> Iterator[Row]:
    """Yield width, error and coverage of means by design and estimator."""
    for name, judge in SETS.items():
        score, said = agreement_labels.pairs(data / name.partition(",")[0])[judge]
        slope, level = np.polyfit(score, said, 1)
        r = float(np.corrcoef(score, said)[0, 1])
        for size in SIZES:
            bound = float(np.sqrt(1 - r**2 * (1 - size / len(score))))
            one = partial(drawn, slope * score + level, said, size)
            yield from width_rows(name, size, draws, one, r=r, bound=bound)
    yield from width_rows("planted, learned", SIZES[0], draws, partial(planted_draw, SIZES[0]))


# --- estimate-units ---------------------------------------------------------------------------------------------------

UNIT_SETS = ("planted, marked reply", "planted, last reply", "planted, every reply", "topical_usr")
UNIT_DRAWS, PLANTED_CHATS, UNIT_SIZE = 200, 60, 20
QUALITY, CONTEXT = {"a": -0.4, "b": 0.0, "c": 0.4}, 1.5
"""Mean quality of the planted versions' replies, and of the replies before a rated one."""
GOOD = Question(id="good", text="How good is the reply?", scale=Scale(options=(1, 2, 3, 4, 5)))


def planted_ratings(quality: Floats, rng: np.random.Generator) -> Floats:
    """Return a rating of each reply; its words explain 64% of the variance before rounding."""
    return np.clip(np.round(3 + 0.8 * quality + rng.normal(scale=0.6, size=quality.shape)), 1, 5)


def planted_replies(kind: str, size: int, seed: int) -> list[Any]:
    """Return conversations of three versions with the ratings of `size` replies of each."""
    rng, rows = np.random.default_rng([seed, size]), list[Any]()
    rates_all = kind.endswith("every reply")
    for version, level in QUALITY.items():
        count = rng.integers(1, 5, PLANTED_CHATS)
        own = [rng.normal(level, 1.0, n) if rates_all else np.append(rng.normal(CONTEXT, 1.0, n - 1), rng.normal(level))
               for n in count]  # fmt: skip
        rated = [(chat, place) for chat, n in enumerate(count) for place in (range(n) if rates_all else [n - 1])]
        chosen = {rated[place] for place in rng.permutation(len(rated))[:size]}
        for chat, quality in enumerate(own):
            messages = []
            for place, words in enumerate(np.maximum(np.round(20 + 6 * quality), 1).astype(int)):
                messages += [
                    {"role": "user", "content": f"question {version} {chat} {place} {rng.integers(1_000_000)}"},
                    {"role": "assistant", "content": " ".join(map(str, rng.integers(10_000, 99_999, words)))},
                ]
            said = planted_ratings(quality, rng)
            labels = [(2 * place + 1, int(said[place])) for place in range(len(quality)) if (chat, place) in chosen]
            row = {"id": f"{version}{chat:02}", "system": version, "messages": messages}
            rows.append(({**row, "level": "turn"} if kind.endswith("marked reply") else row, labels))
    return rows


def rated_replies(items: Sequence[dict[str, Any]], size: int, seed: int) -> list[Any]:
    """Return the items of a data set with the ratings of `size` of each version."""
    rng, rows = np.random.default_rng([seed, size]), list[Any]()
    for version in sorted({item["system"] for item in items}):
        own = [item for item in items if item["system"] == version]
        kept = set(rng.permutation(len(own))[:size].tolist())
        for place, item in enumerate(own):
            said = [each for each in item["ratings"] if each["question"] == "Overall"] if place in kept else []
            rows.append(({**item, "ratings": said}, []))
    return rows


def estimated(rows: Sequence[Any], question: Question, metrics: Sequence[str]) -> Estimates:
    """Return the estimate of a project with these conversations and labels, and no model."""
    settings = {"store": "sqlite://", "metrics": list(metrics), "folds": 3, "evaluator": "counts",
                "evaluators": {"counts": {"sources": ["metrics"], "head": "mixed"}}}  # fmt: skip
    labels = [
        {"conversation": row["id"], "turn": turn, "question": question.id, "annotator": "ann", "value": value}
        for row, own in rows for turn, value in own
    ]  # fmt: skip
    rubric = Rubric(name="units", main=question.id, questions=(question,))
    with Project(Config.model_validate(settings), rubric) as project:
        project.import_([row for row, _ in rows])
        if labels:
            project.import_(labels)
        return project.estimate()


def estimate_units(data: Path, draws: int) -> Iterator[Row]:
    """Yield error and coverage of `accord estimate` on labels of replies."""
    logging.disable(logging.WARNING)
    rng = np.random.default_rng(0)
    planted_truth = {name: float(planted_ratings(rng.normal(level, 1.0, 200_000), rng).mean())
                     for name, level in QUALITY.items()}  # fmt: skip
    items = agreement_labels.lines(data / "topical_usr" / "items.jsonl.gz")
    said = {item["id"]: np.mean([each["value"] for each in item["ratings"] if each["question"] == "Overall"])
            for item in items}  # fmt: skip
    real_truth = {version: float(np.mean([said[item["id"]] for item in items if item["system"] == version]))
                  for version in {item["system"] for item in items}}  # fmt: skip
    overall = Question(id="Overall", text="How good is the response?", scale=GOOD.scale)
    size = UNIT_SIZE
    for name in UNIT_SETS:
        found: dict[str, list[Interval]] = {estimation.ALONE: [], estimation.PPI: [], "difference": []}
        scored = []
        for seed in range(min(draws, UNIT_DRAWS)):
            truth = real_truth if name == "topical_usr" else planted_truth
            if name == "topical_usr":
                result = estimated(rated_replies(items, size, seed), overall, ["bank"])
            else:
                result = estimated(planted_replies(name, size, seed), GOOD, ["words"])
            for each in result.systems:
                true = truth[each.system]
                found[estimation.PPI].append(interval(each.mean, each.low, each.high, true))
                found[estimation.ALONE].append(interval(each.label_mean, each.label_low, each.label_high, true))
                scored.append(each.scored)
            for gap in result.differences:
                true = truth[gap.first] - truth[gap.second]
                found["difference"].append(interval(gap.difference, gap.low, gap.high, true))
        inside = {
            key: float(np.mean([one.low <= one.truth <= one.high for one in each])) for key, each in found.items()
        }
        for method in (estimation.ALONE, estimation.PPI):
            ends = np.array(found[method])
            yield {
                "row": "estimate-units", "set": name, "size": size, "method": method, "coverage": inside[method],
                "width": float((ends[:, 2] - ends[:, 1]).mean()),
                "rmse": float(np.sqrt(np.mean((ends[:, 0] - ends[:, 3]) ** 2))), "scored": float(np.mean(scored)),
                "differences": inside["difference"] if method == estimation.PPI else None,
                "draws": min(draws, UNIT_DRAWS),
            }  # fmt: skip


# --- judges, narrow-questions -----------------------------------------------------------------------------------------

Answers = dict[tuple[str, str], dict[str, tuple[float, float]]]
"""Mean answer and probability of the upper half of the scale of each text, by judge and question."""
FOLDS, FEW, SPLITS, MOST_TEXTS = 5, 60, 10, 360
DEFAULT, LINE = "default", "best-column"
PANELS = {
    "topical_usr": "Overall", "abc_eval, irrelevant": "irrelevant", "abc_eval, ignore": "ignore",
    "abc_eval, lack of empathy": "lack of empathy", "abc_eval, self contradiction": "self contradiction",
    "topical_usr, runs of gpt-4": "Overall",
}  # fmt: skip
"""Main question of each set."""
DIRECT = {
    "llm_rubric_synth": ("Q0", "gpt-3.5-turbo-16k", "Q0"),
    "llm_rubric_real": ("Q0", "gpt-3.5-turbo-16k", "Q0"),
    "topical_usr": ("Overall", "gpt-4", "overall"),
    "topical_usr, UniEval": ("Overall", "UniEval-dialog (T5-large)", "overall"),
}
"""Question to people, judge, and the direct question to it."""


def upper_half(row: dict[str, Any], answer: float) -> float:
    """Return the probability of the upper half of the scale, or the answer itself if it has no scale."""
    if row["scale"] is None:
        return answer
    low, high = map(float, row["scale"])
    place = {"yes": high, "no": low}
    shares = {place.get(option, option): share for option, share in (row["distribution"] or {}).items()}
    middle = (low + high) / 2
    if not shares:
        return float(answer > middle)
    return float(sum(share for option, share in shares.items() if float(option) > middle) / sum(shares.values()))


def recorded(folder: Path) -> tuple[list[dict[str, Any]], dict[int, Answers]]:
    """Return the rated texts, and the answers by run; run -1 holds the means over runs."""
    items = agreement_labels.lines(folder / "items.jsonl.gz")
    found: dict[int, dict[tuple[str, str], dict[str, list[tuple[float, float]]]]] = {}
    for row in agreement_labels.lines(folder / "judgments.jsonl.gz"):
        answer = agreement_labels.expected(row)
        answer = row["value"] if answer is None else answer
        if isinstance(answer, int | float):
            for run in (-1, row["run"]):
                texts = found.setdefault(run, {}).setdefault((row["judge_model"], row["question"]), {})
                texts.setdefault(row["item_id"], []).append((float(answer), upper_half(row, answer)))

    def mean(texts: dict[str, list[tuple[float, float]]]) -> dict[str, tuple[float, float]]:
        pairs = {name: np.mean(own, axis=0) for name, own in texts.items()}
        return {name: (float(pair[0]), float(pair[1])) for name, pair in pairs.items()}

    return items, {run: {key: mean(texts) for key, texts in answers.items()} for run, answers in found.items()}


def experiment(items: Sequence[dict[str, Any]], question: str, columns: dict[str, dict[str, float]]) -> Experiment:
    """Return the experiment of texts whose evidence are numbers by column name; texts of a context are one group."""
    labels, groups, kept = [], {}, []
    for item in items:
        said = [
            each for each in item["ratings"] if each["question"] == question and isinstance(each["value"], int | float)
        ]
        if said and any(item["id"] in texts for texts in columns.values()):
            target = Target(item["id"])
            kept.append(target)
            groups[target] = str(item["meta"].get("context_id") or item["meta"].get("dialogue_id") or item["id"])
            labels += [Label(target, question, str(each["annotator"]), each["value"]) for each in said]
    options = sorted({float(label.value or 0) for label in labels})
    asked = Question(id=question, text=question, scale=Scale(options=tuple(int(each) for each in options)))
    rows = {
        target: {name: texts[target.conversation] for name, texts in columns.items() if target.conversation in texts}
        for target in kept
    }
    table = EvidenceTable.from_rows([Column(name, "recorded", name) for name in columns], rows)
    return Experiment.of(table, Labels(labels, groups), asked, FOLDS, 0)


def subset(whole: Experiment, texts: int, seed: int) -> Experiment:
    """Return the experiment on some of the texts, drawn by whole groups."""
    rng, kept = np.random.default_rng(seed), set[Target]()
    groups: dict[str, set[Target]] = {}
    for target in whole.labels.targets:
        groups.setdefault(whole.labels.group_of(target), set()).add(target)
    for name in rng.permutation(sorted(groups)):
        if len(kept) < texts:
            kept |= groups[str(name)]
    labels = Labels(
        (label for label in whole.labels if label.target in kept),
        {target: whole.labels.group_of(target) for target in kept},
    )
    places = [place for place, target in enumerate(whole.evidence.targets) if target in kept]
    return Experiment.of(whole.evidence.take(places), labels, whole.question, FOLDS, seed)


def predicted(on: Experiment, head: str) -> Predictions:
    """Return the held-out predictions of a head or of the default evaluator."""
    if head == DEFAULT:
        return on.run(DEFAULT, Calibration)
    return on.run(head, lambda asked: make_head(head, asked, {}))


def rmse(found: Predictions, on: Experiment) -> float:
    """Return the RMSE for a new annotator."""
    return float(np.sqrt(np.nanmean((found.new_value - on.ratings.value) ** 2)))


def judges(data: Path, draws: int) -> Iterator[Row]:
    """Yield the error of the best judge and of combinations, with votes and tests."""
    for name, question in PANELS.items():
        items, runs = recorded(data / name.partition(",")[0])
        if "runs of" in name:
            answers = {
                (f"run {run}", "overall"): runs[run]["gpt-4", "overall"]
                for run in sorted(runs)
                if run >= 0 and ("gpt-4", "overall") in runs[run]
            }
        else:
            answers = {key: texts for key, texts in runs[-1].items() if name == "topical_usr" or key[1] == question}
        models = list(dict.fromkeys(model for model, _ in answers))
        columns = {
            f"{asked} ({model})" if place else asked: {key: x for key, (x, _) in texts.items()}
            for (model, asked), texts in answers.items()
            for place in [models.index(model)]
        }
        whole = experiment(items, question, columns)
        whole = subset(whole, MOST_TEXTS, 0)
        yield from judge_rows(name, whole, draws)


def judge_rows(name: str, whole: Experiment, draws: int) -> Iterator[Row]:
    """Yield a row per combination, for all texts and for few of them."""
    heads = [*judge_panel.PANEL, "ridge-judge", DEFAULT]
    found = {head: [predicted(whole, head)] for head in heads}
    panel = second_judge.judge_panel_of(found, DEFAULT, whole.ratings, whole.evidence, whole.question)
    assert panel is not None
    best, tests = rmse(found[judge_panel.BEST_JUDGE][0], whole), {**panel.tests, DEFAULT: panel.default_test}
    for head in heads:
        error, test = rmse(found[head][0], whole), tests.get(head)
        yield {
            "row": "judges", "set": name, "size": len(whole.labels.targets), "method": head, "rmse": error,
            "relative": error / best, "p": None if test is None else test.p, "judges": panel.judges,
            "answers": panel.columns, "votes": panel.votes,
        }  # fmt: skip
    few: dict[str, list[float]] = {}
    for seed in range(min(draws, SPLITS)):
        part = subset(whole, FEW, seed)
        for head in heads[:-1]:
            few.setdefault(head, []).append(rmse(predicted(part, head), part))
    base = np.mean(few[judge_panel.BEST_JUDGE])
    for head, errors in few.items():
        yield {
            "row": "judges", "set": name, "size": FEW, "method": head, "rmse": float(np.mean(errors)),
            "relative": float(np.mean(errors) / base), "draws": len(errors),
        }  # fmt: skip


def narrow_questions(data: Path, draws: int) -> Iterator[Row]:
    """Yield the error of one direct question and of narrow ones."""
    for name, (question, model, direct) in DIRECT.items():
        items, runs = recorded(data / name.partition(",")[0])
        own = {asked: texts for (judge, asked), texts in runs[-1].items() if judge == model}
        expected = {asked: {key: x for key, (x, _) in texts.items()} for asked, texts in own.items()}
        upper = {asked: {key: p for key, (_, p) in texts.items()} for asked, texts in own.items()}
        narrow, halves = ({key: texts for key, texts in each.items() if key != direct} for each in (expected, upper))
        ways = {
            "direct": (LINE, {direct: expected[direct]}), "narrow, equal weights": ("judge-mean", narrow),
            "narrow, learned": ("ridge-judge", narrow), "two-valued, equal weights": ("judge-mean", halves),
            "two-valued, learned": ("ridge-judge", halves), "direct and narrow, learned": ("ridge-judge", expected),
        }  # fmt: skip
        made = {way: (head, experiment(items, question, columns)) for way, (head, columns) in ways.items()}
        sizes = (20, FEW, len(made["direct"][1].labels.targets))
        for size in sizes:
            errors: dict[str, float] = {}
            for way, (head, on) in made.items():
                seeds = range(min(draws, SPLITS))
                parts = [on] if size == sizes[-1] else [subset(on, size, seed) for seed in seeds]
                errors[way] = float(np.mean([rmse(predicted(part, head), part) for part in parts]))
            for way, error in errors.items():
                yield {
                    "row": "narrow-questions", "set": name, "size": size, "method": way, "rmse": error,
                    "relative": error / errors["direct"], "answers": len(ways[way][1]),
                }  # fmt: skip


RUN: dict[str, Callable[[Path, int], Iterable[Row]]] = {
    "estimate-width": estimate_width,
    "estimate-units": estimate_units,
    "judges": judges,
    "narrow-questions": narrow_questions,
}
"""Function of each row."""


def main() -> None:
    """Measure all rows."""
    parser = options("agreement", __doc__ or "", list(RUN))
    arguments = parser.parse_args()
    data, draws = data_folder(parser, arguments.data), arguments.limit or (3 if arguments.quick else DRAWS)
    rows: list[Row] = []
    for name in chosen(parser, arguments.only, list(RUN)):
        rows += rows_of_part(name, partial(RUN[name], data, draws))
    columns = [
        "row", "set", "size", "design", "method", "r", "bound", "width", "labels", "coverage", "differences", "scored",
        "rmse", "relative", "p", "judges", "answers", "votes", "draws",
    ]  # fmt: skip
    finish("agreement", rows, columns, arguments.json)


if __name__ == "__main__":
    main()

"""Does a decision hold: the same for every fold seed, about the served scores, and never a word count?

    python benchmarks/decision.py --data ../shared/data --json OUT [--only PARTS] [--baseline CHECKOUT] [--quick]

stability       verdict and share of sure calls of the default evaluator over 20 fold seeds, on six data sets of about
                180 to 240 ratings: pairs with different states, the largest step, and the largest difference of the
                shares; also for another checkout (`--baseline`)
recommended     evaluators that `compare` recommends on eight invented data sets in which text length predicts ratings:
                single counts among them, and choices that rest on one count with a statement
calls           promised agreement, share of calls, and splits in which the promise was broken, over random splits of
                five data sets and planted worlds, for a new annotator
new-annotator-bands  coverage of 90% bands for new annotators in planted worlds (`true_bands.py`)
contradictions  verdicts on random figures that contradict the figures or themselves
who-rated       shapes of rating files that are read wrongly: people, judges, questions to the user (`who_rated.py`)
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # must be set before NumPy is imported; small matrices need one thread

import gzip
import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from first_labels import SETS, load
from harness import Row, chosen, finish, options, rows_of_part, run_python
from random_figures import contradictions, random_figures
from true_bands import new_annotator_bands
from who_rated import who_rated_rows

from accord.decisions.selective import sure_enough
from accord.decisions.verdict import STATES
from accord.evidence import EvidenceTable, ratings
from accord.learning import Calibration, Experiment, HeldOutAnswers
from accord.sample import sources as sample_sources
from accord.testing import planted
from accord.values import Labels, Question, Score

SEEDS, APART = 20, 100
"""Fold seeds, and the difference between two of them: repetitions of one seed take the next ones."""
SIZES = {"topical_usr": 60, "llm_rubric_real": 250, "llm_rubric_synth": 80, "abc_eval": 120, "uss": 60, "sample": 55}
"""Rated conversations or replies of each data set."""
AGREE, SPLITS, WORLDS = 0.9, 40, 20
Part = Callable[[Any], Iterable[Row]]

FIT = """
from pathlib import Path
from accord import Project, open as open_project
from accord.project import Config
from accord.learning import PRESETS
from accord.report import RunOptions
from accord.verbs import run_project
NAME = "default" if "default" in PRESETS else "calibration"
sources, out, question = json.loads(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
config = Config(store=f"sqlite:///{out / 'accord.db'}")
run_project(config, [Path(each) for each in sources], out, options=RunOptions(main=question, evaluator="constant"))
with open_project(out / "accord.yaml") as project:
    config = project.config
rows = []
for seed in range(0, int(sys.argv[4]) * 100, 100):
    with Project(config.model_copy(update={"seed": seed, "draws": 1000})) as project:
        verdict = project.fit_offline(NAME).held_out.verdict
    figures, is_borderline = verdict.figures, getattr(verdict, "borderline", "") != ""
    rows.append([verdict.state, figures.decided, figures.error, is_borderline])
print(json.dumps(rows))
"""


def stability(given: Any) -> Iterable[Row]:
    """Fit the default evaluator with several fold seeds, with this version and with a baseline."""
    versions = {"now": None} | ({} if given.baseline is None else {"baseline": given.baseline / "src"})
    seeds = 3 if given.quick else given.limit or SEEDS
    totals: dict[str, list[int]] = {version: [0, 0, 0] for version in versions}
    for name in list(SIZES)[-1:] if given.quick else SIZES:
        if name != "sample" and not (given.data / name).is_dir():
            yield {"what": f"stability, {name}", "skipped": f"no {name} in --data"}
            continue
        for version, source in versions.items():
            with tempfile.TemporaryDirectory() as work:
                sources, question = _sources(given.data, name, Path(work))
                place = {} if source is None else {"PYTHONPATH": str(source)}
                rows = run_python(FIT, json.dumps(list(map(str, sources))), Path(work, "out"), question, seeds, **place)
            row = _stability_row(rows)
            print(name, version, rows, file=sys.stderr, flush=True)
            totals[version] = [sum(pair) for pair in zip(totals[version], row.pop("counts"), strict=True)]
            yield {"what": f"stability, {name}", "version": version, **row}
    for version, (pairs, different, apart) in totals.items():
        yield {"what": "stability, all", "version": version, "pairs": pairs,
               "different-states": different / max(pairs, 1), "sure-10-apart": apart / max(pairs, 1)}  # fmt: skip


def _stability_row(rows: list[Any]) -> Row:
    """Return the differences between all pairs of seeds."""
    places, shares = [STATES.index(row[0]) for row in rows], [row[1] or 0.0 for row in rows]
    steps = [abs(a - b) for a, b in combinations(places, 2)]
    gaps = [abs(a - b) for a, b in combinations(shares, 2)]
    states = ", ".join(f"{STATES[place]} {places.count(place)}" for place in sorted(set(places)))
    return {
        "states": states, "borderline": sum(row[3] for row in rows),
        "different-states": float(np.mean(np.array(steps) > 0)),
        "largest-step": max(steps), "largest-sure-gap": max(gaps), "error-sd": float(np.std([row[2] for row in rows])),
        "counts": [len(steps), sum(step > 0 for step in steps), sum(gap > 0.1 for gap in gaps)],
    }  # fmt: skip


def _sources(data: Path, name: str, work: Path) -> tuple[list[Path], str]:
    """Return the files of a random part of a data set, and its main question."""
    count, random = SIZES[name], Random(0)
    if name == "sample":
        chats, labels = sample_sources()
        rows = Path(chats).read_text(encoding="utf-8").splitlines()
        kept = work / "chats.jsonl"
        chosen_rows = random.sample(rows, min(count, len(rows)))
        kept.write_text("\n".join(chosen_rows) + "\n", encoding="utf-8")
        names = {json.loads(row)["id"] for row in chosen_rows}
        head, *rated = Path(labels).read_text(encoding="utf-8").splitlines()
        of_kept = [row for row in rated if row.split(",")[0] in names]
        (work / "ratings.csv").write_text("\n".join([head, *of_kept]) + "\n", encoding="utf-8")
        return [kept, work / "ratings.csv"], "Q0"
    folder = work / name
    shutil.copytree(data / name, folder)
    path = folder / "items.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        items = [json.loads(line) for line in stream]
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(item) + "\n" for item in random.sample(items, min(count, len(items))))
    return [folder], SETS[name]


# --- recommended ----------------------------------------------------------------------------------------------------

COMPARE = """
from pathlib import Path
from accord import Project
from accord.project import Config
folder = Path(sys.argv[1])
config = Config(store=f"sqlite:///{folder / 'accord.db'}", rubric=str(folder / "rubric.yaml"), draws=200)
with Project(config) as project:
    project.import_([folder / "chats.jsonl", folder / "labels.jsonl"])
    done = project.compare(jobs=1)
decision = getattr(done, "decision", None) or done.comparison.decision
found = done.verdict
print(json.dumps([decision.evaluator, getattr(done, "rests_on", None), getattr(done, "doubled", None), found.sentence]))
"""
RUBRIC = """\
name: invented
main: quality
questions:
  - {id: quality, text: "How good is the reply?", options: [1, 2, 3, 4, 5]}
"""
HELPFUL = (
    "first open the settings then choose restore",
    "the file is in your downloads folder",
    "restart it and log in",
)
FILLER = ("in general there are several things to say about this", "as you may know this is a wide topic", "of course")


def recommended(given: Any) -> Iterable[Row]:
    """Compare evaluators on invented data sets in which the number of words predicts ratings."""
    versions = {"now": None} | ({} if given.baseline is None else {"baseline": given.baseline / "src"})
    for version, source in versions.items():
        results = []
        for world in range(2 if given.quick else 8):
            with tempfile.TemporaryDirectory() as work:
                _invent(Path(work), world)
                results.append(run_python(COMPARE, work, **({} if source is None else {"PYTHONPATH": str(source)})))
        counts = [name for name, *_ in results if name == "best-column"]
        yield {
            "what": "recommended", "version": version, "sets": len(results), "single-counts": len(counts),
            "rest-on-one-count": sum(rests is not None for _, rests, *_ in results),
            "stated": sum("alone" in said for *_, said in results),
            "doubling": [None if change is None else round(change, 2) for _, _, change, _ in results],
        }  # fmt: skip


def _invent(folder: Path, world: int) -> None:
    """Write conversations whose ratings follow the number of words (even worlds), or words and content (odd ones)."""
    random = Random(world)
    chats, labels = [], []
    for place in range(90):
        words = random.randint(1, 8)
        is_helpful = random.random() < 0.5
        parts = [random.choice(FILLER) for _ in range(words)] + ([random.choice(HELPFUL)] if is_helpful else [])
        random.shuffle(parts)
        turns = [
            {"role": "user", "content": f"How do I do task {place % 9}?"},
            {"role": "assistant", "content": ". ".join(parts)},
        ]
        chats.append({"id": f"c{place}", "messages": turns})
        quality = 1 + words / 2.2 + (1.2 * is_helpful if world % 2 else 0.0)
        for person in ("ann", "ben", "cy")[: 1 + world % 3]:
            value = min(max(round(quality + random.gauss(0, 0.7)), 1), 5)
            labels.append({"conversation": f"c{place}", "annotator": person, "question": "quality", "value": value})
    for name, rows in (("chats", chats), ("labels", labels)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")


# --- calls ----------------------------------------------------------------------------------------------------------


def calls(given: Any) -> Iterable[Row]:
    """Promise an agreement of the calls on one side of a split, and count the agreement on the other."""
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    splits = 2 if given.quick else given.limit or SPLITS
    for name in [] if given.quick else SETS:
        if (given.data / name).is_dir():
            data = load(given.data / name, SETS[name])
            yield _calls_row(name, [_calls(data.question, data.evidence, data.labels, seed) for seed in range(splits)])
    worlds = [planted(conversations=120, annotators=6, noise=0.8, seed=seed) for seed in range(min(splits, WORLDS))]
    yield _calls_row("planted", [_calls(each.question, each.evidence, each.labels, 0) for each in worlds])


def _calls(question: Question, evidence: EvidenceTable, labels: Labels, seed: int) -> tuple[float, float]:
    """Return the share of calls on held-out groups and their agreement with ratings; NaN without calls."""
    rated = ratings(evidence, labels, question)
    groups = Random(seed).sample(sorted(set(map(str, rated.group))), k=len(set(rated.group)))
    test = set(groups[: max(int(0.3 * len(groups)), 1)])
    kept = set(groups[len(test) : len(test) + 250])
    side = evidence.filter(kept, labels.group_of), labels.filter(kept)
    experiment = Experiment.of(*side, question, 5, seed)
    repeats = [each.run("calibration", Calibration) for each in experiment.repeats(3)]
    found = sure_enough(HeldOutAnswers.of(repeats, experiment.ratings), AGREE)
    if found is None or found.passed is None:
        return 0.0, float("nan")
    head, new = (
        Calibration(question).fit(*side),
        rated.take(np.flatnonzero([str(name) in test for name in rated.group])),
    )
    scores = head.predict_each(evidence.take(new.row), [None] * len(new))
    shares = np.array(
        [each.probabilities if isinstance(each, Score) else np.zeros(len(new.options)) for each in scores]
    )
    good = shares[:, new.options >= found.lowest].sum(axis=1)
    called = (np.maximum(good, 1 - good) >= found.passed.threshold) & (shares.sum(axis=1) > 0)
    right = (good >= 0.5) == (new.value >= found.lowest)
    return float(called.mean()), float(right[called].mean()) if called.any() else float("nan")


def _calls_row(name: str, results: list[tuple[float, float]]) -> Row:
    shares, agreement = np.array(results).T
    made = agreement[np.isfinite(agreement)]
    return {
        "what": f"calls, {name}", "promised": AGREE, "splits": len(results), "share": float(shares.mean()),
        "broken": float((made < AGREE).sum() / len(results)), "agreement": float(made.mean()) if len(made) else None,
    }  # fmt: skip


# --- figures, bands, raters -----------------------------------------------------------------------------------------


def contradicting(given: Any) -> Iterable[Row]:
    """Count contradictions in the verdicts on random figures."""
    random, count = Random(0), 500 if given.quick else 10_000
    found = [problem for _ in range(count) for problem in contradictions(random_figures(random, random.randint(0, 5)))]
    yield {"what": "contradictions", "figures": count, "contradictions": len(found)}


def bands(given: Any) -> Iterable[Row]:
    """Measure the coverage of bands for new annotators."""
    return new_annotator_bands(given.data, 1 if given.quick else given.limit or WORLDS)


PARTS: dict[str, Part] = {
    "stability": stability, "recommended": recommended, "calls": calls, "new-annotator-bands": bands,
    "contradictions": contradicting, "who-rated": lambda given: who_rated_rows(),
}  # fmt: skip
COLUMNS = (
    "what", "version", "states", "borderline", "pairs", "different-states", "largest-step", "largest-sure-gap",
    "sure-10-apart", "error-sd", "sets", "single-counts", "rest-on-one-count", "stated", "doubling", "promised",
    "splits", "share", "broken", "agreement", "value", "low", "high", "width", "figures", "contradictions", "shapes",
    "wrong", "skipped",
)  # fmt: skip


def _stored_rows(path: Path | None, parts: list[str]) -> list[Row]:
    """Return the stored rows of the parts that are not measured now."""
    if path is None or not path.is_file():
        return []
    return [row for row in json.loads(path.read_text(encoding="utf-8"))["rows"] if row["part"] not in parts]


def main() -> None:
    """Measure the requested parts; stored rows of the others stay."""
    parser = options("decision", __doc__ or "", tuple(PARTS))
    parser.add_argument("--baseline", type=Path, help="another checkout, measured in the same run")
    given = parser.parse_args()
    if given.baseline is not None and not (given.baseline / "src" / "accord").is_dir():
        parser.error(f"no checkout of Accord at {given.baseline}")
    parts = chosen(parser, given.only, tuple(PARTS))
    rows = _stored_rows(given.json, parts)
    for part in parts:
        measured = rows_of_part(part, lambda part=part: PARTS[part](given))  # type: ignore[misc]
        rows += [{"part": part, **row} for row in measured]
    shown = [column for column in COLUMNS if any(row.get(column) is not None for row in rows)]
    finish("decision", rows, shown, given.json)


if __name__ == "__main__":
    main()

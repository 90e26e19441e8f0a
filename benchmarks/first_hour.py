"""The first hour of a new user: files read wrongly, rows that go missing, recommendations that do harm.

    python benchmarks/first_hour.py [--only PART,...] [--baseline COMMIT] [--quick] --json OUT

- `install`: a new virtual environment, `pip install` of this version without a cache, and `accord demo` in it: seconds,
  processor seconds, and megabytes on disk: of all, without pip and setuptools, and also without bytecode (which uv
  does not write). `--baseline` measures a commit in the same way.

- `kinds`: files of eight kinds (`tests/new_user_files.py`) are imported, compared, learned from and scored. `commands`
  lead to the verdict. `wrong` lists the readings that differ from the files: people, judges, questions, replies and
  versions of the assistant, agreement that differs between `fit` and `compare`, input without a row of scores.
- `forms`: own files in thirteen forms (`tests/new_user_files.py`), such as exports of support desks and traces, to the
  verdict by one command: `accord run FOLDER`, or `accord check` of pairs. `wrong` lists the readings that differ from
  the files, and figures that contradict the planted truth: the ratings follow the replies, so the verdict allows a use
  of the scores, and the better version has the higher mean score.
- `rows-missing`: conversations of a folder without a row in the output of `accord run` and without a stated reason.
  30% of the rated conversations of each shared data set lose their ratings, so that part of the folder is unrated.
- `recommended-worse-than-constant`: planted sets on which `compare` recommends an evaluator whose scores of unrated
  conversations are further from an unseen annotator's ratings (by RMSE) than the mean of the training ratings is.
  20 sets each of 11, 30 and 100 ratings; a quarter of them has random ratings. The baseline is the rule of
  earlier versions, the lowest RMSE for the annotators in the labels, which always recommends something.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from cost import ROOT
from harness import Row, checkout, chosen, data_folder, earlier_rows, finish, options, own_files, rows_of_part, timed
from new_user_files import FAVOR, FORMS, KINDS, WIN_RATE, Kind, wrong_readings

import accord
from accord import Project
from accord.project import Config

PARTS = ("install", "kinds", "forms", "rows", "recommended")
PART_OF = {"first-result": "install", "rows-missing": "rows", "recommended-worse-than-constant": "recommended"}
"""Part of the rows that have another name."""
COLUMNS = ["what", "set", "size", "commands", "value", "of", "recommended", "baseline", "reading", "verdict", "wrong"]
COLUMNS += ["seconds", "cpu_seconds", "mb", "mb_without_pip", "mb_without_bytecode"]
SETS = (("topical_usr", "Overall"), ("llm_rubric_real", "Q0"), ("llm_rubric_synth", "Q0"), ("abc_eval", "irrelevant"))
SIZES, DRAWN = (11, 30, 100), 20
STRENGTHS = (0.0, 0.4, 0.8, 1.2)
"""Strength of the effect of the reply's length and repeated words on the planted ratings."""
CONVERSATIONS, WORDS = 250, 60
RATERS = {"nora": -0.4, "sam": 0.0, "ann": 0.4}
RUBRIC = """
name: planted
main: overall
questions:
- {id: overall, text: 'How good is it?', scale: ordinal, options: [1, 2, 3, 4, 5]}
"""


# --- install ------------------------------------------------------------------------------------------------------


def install_rows(baseline: str | None) -> Iterator[Row]:
    """Two rows per version: its installation, and the first result in it."""
    yield from _installed("this version", ROOT)
    if baseline is not None:
        with checkout(baseline) as folder:
            yield from _installed(baseline, folder)


def _installed(version: str, source: Path) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "environment"
        pip: list[str | Path] = [place / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-cache-dir", source]
        times = [timed([sys.executable, "-m", "venv", place], name), timed(pip, name)]
        own = own_files(place)
        yield {
            "what": "install", "set": version,
            "seconds": sum(each.seconds for each in times), "cpu_seconds": sum(each.cpu_seconds for each in times),
            "mb": sum(path.lstat().st_blocks * 512 / 2**20 for path in place.rglob("*")),
            "mb_without_pip": sum(size for _, size in own),
            "mb_without_bytecode": sum(size for path, size in own if path.suffix != ".pyc"),
        }  # fmt: skip
        seconds, cpu_seconds, _ = timed([place / "bin" / "accord", "demo", "--out", Path(name) / "demo"], name)
        yield {"what": "first-result", "set": version, "seconds": seconds, "cpu_seconds": cpu_seconds}


# --- kinds --------------------------------------------------------------------------------------------------------

QUICKLY = {"folds": 2, "draws": 20, "metrics": ["words"]}


def kind_rows(quick: bool) -> Iterator[Row]:
    """One row per kind of files; `value` is the number of wrong readings."""
    for kind in KINDS[1::6] if quick else KINDS:  # by commands, and in Python
        with tempfile.TemporaryDirectory() as folder:
            kind.write(Path(folder))
            walk = _walk_in_python if kind.in_python else _walk_by_commands
            commands, wrong = walk(kind, Path(folder), QUICKLY if quick else {})
        yield {"what": "kinds", "set": kind.name, "commands": commands, "value": len(wrong), "wrong": "; ".join(wrong)}


def _walk_by_commands(kind: Kind, folder: Path, settings: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Return the number of commands to the verdict and the wrong readings."""

    def printed(*arguments: str, is_set: bool = False) -> Any:
        given = [f"--set={name}={json.dumps(value)}" for name, value in settings.items()] if is_set else []
        done = subprocess.run(["accord", *arguments, *given, "--json"], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{kind.name}: accord {' '.join(arguments)}: {done.stderr}")
        return json.loads(done.stdout)

    printed("init", "--from", kind.labels, *kind.chats)
    imported = printed("import", *dict.fromkeys([*kind.chats, kind.labels]))
    compared = printed("compare", is_set=True)
    fitted = printed("fit", "default", is_set=True)
    with accord.open(folder / "accord.yaml") as project:
        wrong = wrong_readings(kind, project, imported["raters"], imported["judges"])
    (folder / "new").mkdir()
    for name in kind.chats:
        (folder / name).rename(folder / "new" / name)
    printed("score", "new", "--out", "scores")
    rows = pl.concat([pl.read_parquet(path) for path in sorted((folder / "scores").glob("*.parquet"))])
    found = {row["evaluator"]: row["rmse"] for row in compared["rows"]}
    again = {row["evaluator"]: row["rmse"] for row in fitted["comparison"]["rows"]}
    return 3, [*wrong, *_wrong_scores(kind, found["default"], again["default"], len(rows))]


def _walk_in_python(kind: Kind, folder: Path, settings: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Return the number of calls to the verdict and the wrong readings."""
    lines = (folder / kind.chats[0]).read_text(encoding="utf-8").splitlines()
    messages = {row["id"]: row["messages"] for row in map(json.loads, lines)}
    texts = [[message["content"] for message in each] for each in messages.values()]
    chats = pl.DataFrame({"id": list(messages), "prompt": [t for t, _ in texts], "response": [t for _, t in texts]})
    config = Config(store=f"sqlite:///{folder / 'accord.db'}", **settings)
    with Project(config) as project:
        imported = project.import_([chats, pl.read_csv(folder / kind.labels)])
        found = project.compare().comparison["default"].values["rmse"]
        fitted = project.fit("default", out=folder / "default")
        scores = project.score(chats, evaluator=fitted.evaluator)
        assert fitted.comparison is not None
        again = fitted.comparison["default"].values["rmse"]
        project.report(folder / "report.html")
        checks = project.gate(min_agreement=-1.0, min_mean=1.0, training=True)
        wrong = wrong_readings(kind, project, imported.raters, imported.judged.judges)
    wrong += [] if all(check.passed for check in checks) else ["gate"]
    return 2, [*wrong, *_wrong_scores(kind, found, again, len(scores.to_polars()))]


def _wrong_scores(kind: Kind, compared: float | None, fitted: float | None, rows: int) -> list[str]:
    wrong = [] if compared == fitted else [f"RMSE of compare {compared}, of fit {fitted}"]
    return wrong if rows == kind.scored else [*wrong, f"{rows} rows of scores, not {kind.scored}"]


# --- forms --------------------------------------------------------------------------------------------------------

QUICK_FORMS = ("letters A to F", "pairs")


def form_rows(quick: bool) -> Iterator[Row]:
    """One row per form of own files; `value` is the number of wrong readings."""
    for form in FORMS:
        if quick and form.name not in QUICK_FORMS:
            continue
        with tempfile.TemporaryDirectory() as folder:
            (data := Path(folder, "data")).mkdir()
            form.write(data)
            verdict, wrong, misjudged = (
                _check_pairs(form, Path(folder)) if form.is_pairs else _run_form(form, Path(folder), quick)
            )
        yield {
            "what": "forms", "set": form.name, "commands": 1, "value": len(wrong), "reading": "no" if wrong else "yes",
            "verdict": verdict, "misjudged": len(misjudged), "wrong": "; ".join([*wrong, *misjudged]),
        }  # fmt: skip


def _run_form(form: Kind, folder: Path, quick: bool) -> tuple[str, list[str], list[str]]:
    """Return the state of the verdict of `accord run`, the wrong readings, and figures that contradict the truth."""
    settings = [f"--set={name}={json.dumps(value)}" for name, value in (QUICKLY if quick else {}).items()]
    command = ["accord", "run", "data", "--out", "first-run", *form.options, *settings, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        return "none", [done.stderr.strip().splitlines()[-1]], ["no verdict"]
    found = json.loads(done.stdout)
    with accord.open(folder / "first-run" / "accord.yaml") as project:
        imported = found["imported"]
        wrong = wrong_readings(form, project, imported["raters"], imported["judges"])
        is_better = {chat.id: "2.0" in str(chat.version or chat.system) for chat in project.store.conversations()}
    rows = [json.loads(line) for line in (folder / "first-run" / "scores.jsonl").read_text("utf-8").splitlines()]
    values = {row["conversation"]: row["value"] for row in rows if row["value"] is not None}
    wrong += [] if len(values) == form.scored else [f"{len(values)} scores, not {form.scored}"]
    state, is_compared = found["verdict"]["state"], found["verdict"]["figures"]["versions"] is not None
    misjudged = ["the verdict allows no use of the scores"] if state == "not yet" else []
    sides = [[value for name, value in values.items() if is_better[name] == side] for side in (True, False)]
    if len(form.systems) == 2 and not np.mean(sides[0]) > np.mean(sides[1]):
        misjudged.append("the better version has the lower mean score")
    if len(form.systems) == 2 and not is_compared:
        misjudged.append("the verdict does not compare the versions")
    return state, wrong, misjudged


def _check_pairs(form: Kind, folder: Path) -> tuple[str, list[str], list[str]]:
    """Return the verdict of `accord check`, the wrong readings, and figures that contradict the truth."""
    command = ["accord", "check", f"data/{form.chats[0]}", "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        return "none", [done.stderr.strip().splitlines()[-1]], ["no verdict"]
    found = json.loads(done.stdout)
    rates, bias = {row["system"]: row for row in found["systems"]}, found["means"]["bias"]
    read = {
        "people": ({found["columns"]["people"]: found["labeled"]}, dict(form.people)),
        "judges": ({found["columns"]["judge"]: found["judged"]}, dict(form.judges)),
        "pairs": (found["rows"], form.scored), "versions": (set(rates), set(form.systems)),
    }  # fmt: skip
    wrong = [f"{name}: {is_read}, not {expected}" for name, (is_read, expected) in read.items() if is_read != expected]
    if wrong:
        return "none", wrong, ["no verdict"]
    planted = {"the win rate": (rates["2.0"], WIN_RATE), "the bias of the judge": (bias, FAVOR)}
    misjudged = [f"{name} is {true}" for name, (got, true) in planted.items() if not got["low"] <= true <= got["high"]]
    return "better version", wrong, misjudged


# --- rows ---------------------------------------------------------------------------------------------------------


def row_rows(data: Path, quick: bool) -> Iterator[Row]:
    """One row per data set."""
    for name, question in SETS[:1] if quick else SETS:
        with tempfile.TemporaryDirectory() as folder:
            items = _partly_rated(data / name, Path(folder), question)
            command = ["accord", "run", "data", "--out", "out", "--main", question, "--json"]
            command += ["--set", "folds=2", "--set", "draws=20"] if quick else []
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{name}: {done.stderr}")
            scores = Path(folder, "out", "scores.jsonl").read_text(encoding="utf-8").splitlines()
            known = {json.loads(line)["conversation"] for line in scores}
        yield {"what": "rows-missing", "set": name, "value": len(items - known), "of": len(items)}


def _partly_rated(source: Path, folder: Path, question: str) -> set[str]:
    """Copy a data set at the level of most ratings, without the ratings of 30% of its items; return all ids."""
    (folder / "data").mkdir()
    rng = np.random.default_rng(0)
    with gzip.open(source / "items.jsonl.gz", "rt", encoding="utf-8") as file:
        items = [json.loads(line) for line in file]
    rated = [item["level"] for item in items if any(each["question"] == question for each in item["ratings"])]
    level = max(set(rated), key=rated.count)
    items = [item for item in items if item["level"] == level]
    with gzip.open(folder / "data" / "items.jsonl.gz", "wt", encoding="utf-8") as file:
        for item in items:
            kept = item if rng.random() > 0.3 else {**item, "ratings": []}
            file.write(json.dumps(kept) + "\n")
    for other in ("judgments.jsonl.gz", "questions.json"):
        if (source / other).exists():
            (folder / "data" / other).write_bytes((source / other).read_bytes())
    return {item["id"] for item in items}


# --- recommended --------------------------------------------------------------------------------------------------


def recommended_rows(count: int) -> Iterator[Row]:
    """One row per number of ratings, over `count` planted sets."""
    for size in SIZES:
        made = [_planted_set(size, seed) for seed in range(count)]
        recommended = [ours for ours, _ in made if ours is not None]
        yield {
            "what": "recommended-worse-than-constant", "size": size, "of": count, "recommended": len(recommended),
            "value": sum(ratio > 1 for ratio in recommended), "baseline": sum(ratio > 1 for _, ratio in made),
        }  # fmt: skip


def _planted_set(size: int, seed: int) -> tuple[float | None, float]:
    """RMSE over the constant's: of the recommended evaluator, if any, and of the lowest for known annotators."""
    rng = np.random.default_rng([seed, size])
    chats, quality = _chats(rng, STRENGTHS[seed % len(STRENGTHS)])
    truth = _rating(quality + rng.normal(0, 0.4) + rng.normal(0, 0.7, len(quality)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        labels = [_label(rng, place, quality[place]) for place in range(size)]
        _write(folder / "chats.jsonl", chats)
        _write(folder / "labels.jsonl", labels)
        _write(folder / "new.jsonl", chats[size:])
        (folder / "rubric.yaml").write_text(RUBRIC, "utf-8")
        config = Config(store=f"sqlite:///{folder / 'accord.db'}", rubric=str(folder / "rubric.yaml"), draws=200)
        with Project(config) as project:
            project.import_([folder / "chats.jsonl", folder / "labels.jsonl"])
            done = project.compare(jobs=1)
            decision = done.decision
            assert decision is not None
            made = [each for each in done.comparison.systems if each.name in project.evaluator_names()]
            lines = {each.name: done.comparison[each.name].values["rmse"] or np.inf for each in made}
            names = (decision.evaluator if decision.is_supported else None, min(lines, key=lambda name: lines[name]))
            constant = float(np.mean([label["value"] for label in labels]))
            ours, earlier = (_ratio(project, folder, each, truth[size:], constant) for each in names)
    assert earlier is not None
    return ours, earlier


def _ratio(project: Project, folder: Path, name: str | None, truth: np.ndarray, constant: float) -> float | None:
    """RMSE of an evaluator's scores of the unrated conversations, over that of the constant."""
    if name is None:
        return None
    fitted = project.fit(name, out=folder / f"evaluator-{name}")
    project.score(folder / "new.jsonl", folder / f"{name}.jsonl", fitted.evaluator)
    lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    values = np.array([json.loads(line)["value"] for line in lines])
    return float(np.sqrt(np.mean((values - truth) ** 2) / np.mean((constant - truth) ** 2)))


def _chats(rng: np.random.Generator, strength: float) -> tuple[list[Row], np.ndarray]:
    """Conversations of one question and one reply, and how good each reply is."""
    words = [f"word{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(WORDS)]
    chats, features = [], []
    for place in range(CONVERSATIONS):
        asked = rng.choice(words, 8, replace=False)
        repeated, length = int(rng.integers(0, 8)), int(rng.integers(4, 40))
        reply = [*asked[:repeated], *rng.choice(words, length)]
        messages = [{"role": "user", "content": " ".join(asked)}, {"role": "assistant", "content": " ".join(reply)}]
        chats.append({"id": f"c{place:03d}", "messages": messages})
        features.append([repeated, length])
    shape = np.array(features, dtype=float)
    shape = (shape - shape.mean(axis=0)) / shape.std(axis=0)
    return chats, 3 + strength * shape @ np.array([0.8, 0.6])


def _label(rng: np.random.Generator, place: int, quality: float) -> Row:
    name = str(rng.choice(list(RATERS)))
    value = int(_rating(np.array([quality + RATERS[name] + rng.normal(0, 0.7)]))[0])
    return {"conversation": f"c{place:03d}", "question": "overall", "annotator": name, "value": value}


def _rating(worth: np.ndarray) -> np.ndarray:
    return np.clip(np.round(worth), 1, 5)


def _write(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main() -> None:
    """Run the chosen parts."""
    parser = options("first_hour", "The first hour of a new user.", PARTS)
    parser.add_argument("--baseline", metavar="COMMIT", help="commit whose installation is measured too")
    given = parser.parse_args()
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the `accord` beside Python
    asked = chosen(parser, given.only, PARTS)
    kept = None if given.only is None else given.json
    rows = earlier_rows(kept, lambda row: PART_OF.get(row["what"], row["what"]) not in asked)
    for part in asked:
        if part == "install":
            rows += rows_of_part(part, lambda: install_rows(given.baseline))
        elif part == "kinds":
            rows += kind_rows(given.quick)
        elif part == "forms":
            rows += form_rows(given.quick)
        elif part == "rows":
            rows += row_rows(data_folder(parser, given.data), given.quick)
        else:
            rows += recommended_rows(2 if given.quick else given.limit or DRAWN)
    finish("first_hour", rows, COLUMNS, given.json)


if __name__ == "__main__":
    main()

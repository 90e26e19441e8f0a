"""All of it: import, judge, compare, fit, score everything and report, in one folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from accord.config import Config
from accord.llm.model import Judge
from accord.llm.waiting import wait
from accord.pipeline import (
    Imported,
    Speaker,
    Trial,
    import_files,
    judge_stored,
    latest_scores,
    make_budget,
    make_judge,
    score_all,
    try_out,
)
from accord.pipeline.scoring import written
from accord.report import write_report
from accord.rubric import Rubric, load_rubric
from accord.store import Store


@dataclass(frozen=True)
class Whole:
    """What a whole run leaves behind."""

    imported: Imported
    trial: Trial
    unscored: Mapping[str, int]
    files: Mapping[str, Path]


def whole_run(
    config: Config,
    sources: Sequence[str | Path],
    out: Path,
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    on_stage: Callable[[str], None] = lambda _: None,
) -> Whole:
    """Import, judge, compare, fit, score everything and report, in one folder. Running it again goes on from there."""
    out.mkdir(parents=True, exist_ok=True)
    rubric = load_rubric(config.rubric)
    judge = None if config.judge is None else make_judge(config.judge, rubric, make_budget(config))
    try:
        with closing(Store(config.store)) as store:
            return _run(store, rubric, judge, config, sources, out, format, columns, skip_bad_rows, on_stage)
    finally:
        if judge is not None:
            wait(judge.close())


def _run(
    store: Store,
    rubric: Rubric,
    judge: Judge | None,
    config: Config,
    sources: Sequence[str | Path],
    out: Path,
    format: str,
    columns: Mapping[str, str] | None,
    skip_bad_rows: bool,
    on_stage: Callable[[str], None],
) -> Whole:
    on_stage("reading")
    imported = import_files(store, rubric, sources, format, columns, skip_bad_rows)
    if judge is not None:
        on_stage("judging")
        judge_stored(store, config, rubric, judge, everything=True)
    on_stage("comparing and learning")
    trial = try_out(store, config, rubric, judge)
    files = {"evaluator": out / "evaluator", "scores": out / "scores.jsonl", "report": out / "report.html"}
    trial.evaluator.save(files["evaluator"])
    on_stage("scoring")
    with store.run("run", config.model_dump(mode="json")) as run:
        scores = score_all(store, config, rubric, judge, trial.evaluator, store.conversations(), Speaker())
        tally = written(store, run.id, scores, files["scores"])
        run.results.update(tally, comparison=trial.comparison.to_json())
    on_stage("reporting")
    write_report(trial, files["report"], latest_scores(store))
    return Whole(imported, trial, tally["unscored"], files)

"""All of it: import, judge, compare, fit, score everything and report, in one folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from accord.config import Config
from accord.pipeline import (
    Imported,
    Models,
    Trial,
    collect,
    find_issues,
    import_files,
    judge_issues,
    judge_stored,
    judging_options,
    latest_audit,
    latest_scores,
    make_budget,
    make_models,
    score_all,
    try_out,
    written,
)
from accord.report.report import write_report
from accord.store import Store
from accord.values import Rubric, load_rubric


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
    with closing(Store(config.store)) as store, closing(make_models(config, rubric, make_budget(config))) as models:
        return _run(store, rubric, models, config, sources, out, format, columns, skip_bad_rows, on_stage)


def _run(
    store: Store,
    rubric: Rubric,
    models: Models,
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
    if models.judge is not None or models.likelihood is not None:
        on_stage("asking models")
        judge_stored(store, config, rubric, models, everything=True)
    if models.finder is not None:
        on_stage("finding issues")
        find_issues(store, config, models.finder, store.conversations())
    if models.issue_judge is not None:
        on_stage("finding issues")
        judge_issues(store, config, models.issue_judge, store.conversations(), judging_options(config))
    on_stage("comparing and learning")
    trial = try_out(store, config, rubric, models)
    files = {"evaluator": out / "evaluator", "scores": out / "scores.jsonl", "report": out / "report.html"}
    trial.evaluator.save(files["evaluator"])
    on_stage("scoring")
    with store.run("run", config.shown()) as run:
        gather = partial(collect, store, config, rubric, models=models)
        scores = score_all(store.conversations(), gather, trial.evaluator.predict)
        counts = written(store, run.id, scores, files["scores"])
        run.results.update(counts, comparison=trial.comparison.to_json())
    on_stage("reporting")
    write_report(trial, trial.insights(), files["report"], latest_scores(store), latest_audit(store))
    return Whole(imported, trial, counts["unscored"], files)

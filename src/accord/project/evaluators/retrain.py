"""Fitting an evaluator again: what moved since the saved one, the candidate of the pages, and its promotion.

`accord fit` replaces the saved evaluator and tells what moved. The pages keep both until a lead promotes the candidate.

The evaluator in use is in `evaluators/NAME`, the candidate in `NAME.candidate`, and replaced ones in
`NAME.before-TIME`. Folders are written under a temporary name and then renamed, so an interruption leaves each folder
complete; an interrupted promotion is completed at the next start.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator
from typing_extensions import TypedDict

from accord.decisions import Contest
from accord.edges import BadInput, count_of, hide_folders, read_json_file, write_atomically
from accord.evidence import EvidenceTable, Ratings
from accord.learning import CARD, Evaluator, Experiment, Predictions, learns, load_evaluator, untested_groups
from accord.project.counts_of_ratings import labels_at, modified_at
from accord.project.erasing.refit import cards_about
from accord.project.evaluators.fit_cache import single_threaded
from accord.project.evaluators.held_out_set import FittedHead
from accord.project.results import Fitted
from accord.results import Figure, Ledger, written
from accord.scoring import BoardTexts, RowOrigin
from accord.statistics import SIGNIFICANT, STATISTICS, Split, clustered_mean, grouped_folds
from accord.validation import MetricsTable, Repeats, differences_of
from accord.values import Labels

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

REPORT = "refit.json"
IN_USE, CANDIDATE = "in use", "candidate"
UNCHANGED = "The evaluator is the same as before, so its scores stay comparable."
COMPARED = "accord.project.evaluators.retrain.compare_with_current"
"""Function behind the figures of a comparison."""
OTHER_ERROR = (
    "An earlier version compared this candidate by its error for known annotators only; fit again to compare its "
    "typical error with the one of the evaluator in use."
)
"""Summary of a candidate of version 0.2 or before."""
RetrainReport = dict[str, Any]
MetricRow = dict[str, float | None]
"""Out-of-fold metrics: `n`, and `rmse`, `pearson` and `log_loss` with the ends of their intervals."""


def _empty_report(made: str = "", name: str = "") -> RetrainReport:
    """Return the report of a candidate, stored in its folder, before any comparison.

    `now` and `before` hold the metrics of the candidate and of the evaluator in use, for annotators that they know.
    `own_mean` is the test of the candidate against each annotator's own mean, and `tests` are those against the
    evaluator in use. `ledger` has the typical errors of both for a new annotator, their difference, which the summary
    states, and the difference of their scores. `weights` has a row for each answer model and each source with its
    shares before and now, `was` the title of the verdict before, `scores` a sentence on the scores on the board, and
    `cards` the files of agreement cards about the evaluator before.
    """
    return {"made": made, "name": name, "labels": 0, "ratings": None, "digest": "", "now": None, "before": None,
            "own_mean": None, "tests": [], "ledger": [], "summary": "", "verdict": None, "weights": [], "was": "",
            "scores": "", "cards": []}  # fmt: skip


def candidate_folder(folder: Path) -> Path:
    """Return the folder of the candidate for an evaluator."""
    return folder.with_name(f"{folder.name}.candidate")


def retrain(project: Workspace, folder: Path, fit: Callable[[bool], Fitted]) -> RetrainReport:
    """Fit the project's evaluator again without model requests, and save it as the candidate.

    `fit` is called with True for an evaluator that also predicts the rubric's other questions.

    Raises:
        BadInput: There are too few labels, or a source would need a model.
    """
    recover_promotion(folder)
    fitted = fit(_predicts_every_question(folder))
    report = {**compare_with_current(project, fitted, folder), "verdict": _verdict_in(fitted.to_json()),
              "ratings": fitted.ratings}  # fmt: skip
    candidate = candidate_folder(folder)
    made = folder.with_name(f"{folder.name}.making")
    shutil.rmtree(made, ignore_errors=True)
    fitted.evaluator.save(made)
    write_atomically(made / REPORT, json.dumps(report, indent=1) + "\n")
    shutil.rmtree(candidate, ignore_errors=True)
    os.replace(made, candidate)
    return report


def _predicts_every_question(folder: Path) -> bool:
    """Return True if the evaluator in use also predicts the rubric's other questions."""
    try:
        return any(other.shares_evidence for other in load_evaluator(folder).other_questions)
    except BadInput:
        return False


def load_report(folder: Path) -> RetrainReport | None:
    """Return the report of the candidate, or `None` if no candidate exists."""
    candidate = candidate_folder(folder)
    report = _read_report(candidate)
    return report if report is not None and (candidate / CARD).is_file() else None


class _Metrics(BaseModel):
    """Metrics of an evaluator in a report's file; an interval has both ends or none."""

    model_config = ConfigDict(allow_inf_nan=False)
    n: float | None = None
    rmse: float | None = None
    rmse_low: float | None = None
    rmse_high: float | None = None
    pearson: float | None = None
    pearson_low: float | None = None
    pearson_high: float | None = None
    log_loss: float | None = None
    log_loss_low: float | None = None
    log_loss_high: float | None = None

    @model_validator(mode="after")
    def _has_whole_intervals(self) -> _Metrics:
        ends = ((self.rmse_low, self.rmse_high), (self.pearson_low, self.pearson_high),
                (self.log_loss_low, self.log_loss_high))  # fmt: skip
        if any((low is None) != (high is None) for low, high in ends):
            raise ValueError("an interval has one end only")
        return self


class _Action(TypedDict):
    text: str
    command: str


class _Use(BaseModel):
    """Use of the scores; before 0.3 it had a text, a missing rule, and no measured figures."""

    use: str = Field("", validation_alias=AliasChoices("use", "text"))
    is_allowed: bool = Field(False, validation_alias=AliasChoices("is_allowed", "is_permitted"))
    measured: str = ""
    rule: str = Field("", validation_alias=AliasChoices("rule", "missing"))


class _Verdict(BaseModel):
    """Verdict in the results of a fit or in a report's file; verdicts of earlier versions lack some fields."""

    model_config = ConfigDict(allow_inf_nan=False)
    title: str
    sentence: str
    actions: list[_Action]
    state: Literal["not yet", "triage", "systems", "single"] | None = None
    meaning: str = ""
    uses: list[_Use] = []
    rules: tuple[int, int] | None = None
    learned: int | None = None
    ledger: list[dict[str, Any]] = []


class _Report(BaseModel):
    """Fields of a report's file, as `_empty_report` describes them."""

    made: str = ""
    name: str = ""
    labels: int = 0
    ratings: int | None = None
    digest: str = ""
    now: _Metrics | None = None
    before: _Metrics | None = None
    own_mean: dict[str, Any] | None = None
    tests: list[dict[str, Any]] = []
    ledger: list[dict[str, Any]] = []
    summary: str = ""
    verdict: _Verdict | None = None
    weights: list[dict[str, Any]] = []
    was: str = ""
    scores: str = ""
    cards: list[str] = []


def _read_report(folder: Path) -> RetrainReport | None:
    """Return the report in a folder; `None` if there is none, or if it is damaged or no file."""
    try:
        report = _Report.model_validate(read_json_file(folder / REPORT)).model_dump()
    except (OSError, BadInput, ValidationError):
        return None
    is_old = bool(report["tests"]) and not report["ledger"]  # its tests are of the error for known annotators
    return {**report, "summary": OTHER_ERROR if is_old else hide_folders(report["summary"])}


def verdict_in_use(project: Workspace, folder: Path) -> dict[str, Any] | None:
    """Return the verdict on the evaluator in a folder, from its retraining or its last fit; `None` if there is none.

    It has the fields of `_Verdict`: a `title` (may be empty), a `sentence`, `actions` with a `text` and a `command`
    each, the `uses` of the scores, the `ledger` of figures, and the number of ratings that the evaluator has `learned`.
    """
    report = _read_report(folder)
    try:
        if report is not None and report["verdict"] and report["digest"] == load_evaluator(folder).digest():
            learned = report["labels"] if report["ratings"] is None else report["ratings"]
            return {**report["verdict"], "learned": learned}
    except BadInput:
        pass  # fitted again since, and damaged
    for run in reversed(project.store.runs("fit")):
        if _saved(run, folder):
            if (verdict := _verdict_in(run["results"])) is not None:
                return verdict
            break
    compared = next((each["results"] or {} for each in reversed(project.store.runs("compare"))), {})
    decision = compared.get("decision") or {}
    return _verdict_in(compared) if decision.get("evaluator") == folder.name else None


def _saved(run: Mapping[str, Any], folder: Path) -> bool:
    """Return True if a fit saved the evaluator in a folder; an earlier version was saved while its fit ran."""
    name, _, earlier = folder.name.partition(".before-")
    if run["status"] != "done" or Path(str((run["results"] or {}).get("folder"))).name != name:
        return False
    return not earlier or run["started"] <= modified_at(folder) <= (run["finished"] or "")


def _verdict_in(results: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the verdict in the results of a fit; in its place the decision of the comparison, if there is one."""
    comparison = results.get("comparison") or results
    learned = results.get("ratings", comparison.get("ratings"))
    if found := results.get("verdict"):
        checks = [rule["is_met"] for rule in found.get("checks", ()) if rule["is_met"] is not None]
        rules = (int(sum(checks)), len(checks)) if checks else None
        return _Verdict.model_validate({**found, "rules": rules, "learned": learned}).model_dump()
    decision = comparison.get("decision")
    found = {"title": "", "sentence": decision["text"], "actions": [], "learned": learned} if decision else None
    return found and _Verdict.model_validate(found).model_dump()


def promote_candidate(folder: Path) -> None:
    """Replace the evaluator in use by the candidate, and keep the replaced one in a folder of its own.

    Raises:
        BadInput: No candidate exists.
    """
    recover_promotion(folder)
    if load_report(folder) is None:
        raise BadInput("there is no candidate to promote; fit the evaluator again first")
    if folder.exists():
        time = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        os.replace(folder, folder.with_name(f"{folder.name}.before-{time}"))
    os.replace(candidate_folder(folder), folder)


def restore_evaluator(folder: Path, earlier: str) -> None:
    """Replace the evaluator in use by one that a promotion replaced, and keep the present one in a folder of its own.

    Args:
        folder: Folder of the evaluator in use, `evaluators/NAME`.
        earlier: Name of the other folder, `NAME.before-TIME`.

    Raises:
        BadInput: There is no such folder.
    """
    known = {path.name: path for path in folder.parent.glob(f"{folder.name}.before-*")}
    path = known.get(earlier)
    if path is None or not (path / CARD).is_file():
        raise BadInput(f"there is no earlier evaluator {earlier[:80]!r} of {folder.name}; reload the page")
    time = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    os.replace(folder, folder.with_name(f"{folder.name}.before-{time}"))
    os.replace(path, folder)


def recover_promotion(folder: Path) -> bool:
    """Complete an interrupted promotion, or undo an interrupted restoration. Return True if there was one."""
    aside = sorted(folder.parent.glob(f"{folder.name}.before-*")) if folder.parent.is_dir() else []
    if folder.exists() or not aside:
        return False
    os.replace(aside[-1] if load_report(folder) is None else candidate_folder(folder), folder)
    return True


# --- comparison ---------------------------------------------------------------------------------------------------


def moved_by(project: Workspace, fitted: Fitted, folder: Path) -> RetrainReport | None:
    """Return the changes by a fit to the evaluator in a folder, before it is saved there; `None` for a first fit."""
    try:
        before = load_evaluator(folder)
    except (BadInput, FileNotFoundError):
        return None
    if before.digest() == fitted.evaluator.digest():
        report = _empty_report(datetime.now(UTC).isoformat(timespec="seconds"), before.name)
        return {**report, "digest": before.digest(), "summary": UNCHANGED}
    return compare_with_current(project, fitted, folder)


def compare_with_current(project: Workspace, fitted: Fitted, folder: Path) -> RetrainReport:
    """Compare a candidate with the evaluator in use by paired tests on the same folds.

    The evaluator in use has learned from some of these ratings, so its own predictions look too good. It is fitted
    again without each fold, with its settings, from the labels that existed when it was fitted. One with a source that
    learns is compared as it is, on the held-out ratings of conversations that it did not learn from. The error that
    decides is the one of the verdict, for a new annotator.
    """
    report = _empty_report(datetime.now(UTC).isoformat(timespec="seconds"), fitted.evaluator.name)
    if fitted.held_out is None:
        return {**report, "summary": "No ratings: the evaluators cannot be compared."}
    comparison = fitted.held_out.comparison
    result = comparison.results[0].to_json()
    report |= {"labels": len(comparison.ratings), "digest": fitted.evaluator.digest(), "now": _metric_row(result)}
    own_mean = (d for d in comparison.differences if (d.against, d.statistic) == ("annotator-mean", "rmse"))
    report["own_mean"] = next((each.to_json() for each in own_mean), None)
    if not (folder / CARD).is_file():
        return {**report, "summary": "This is the first evaluator of the project: there is none to compare with."}
    try:
        before = load_evaluator(folder)
        old, new = before.question, fitted.evaluator.question
        if (old.id, old.scale) != (new.id, new.scale):
            raise BadInput(f"it scores {old.shown} on {old.scale.range}, and the rubric now asks {new.shown} on "
                           f"{new.scale.range}")  # fmt: skip
        report |= {"was": (verdict_in_use(project, folder) or {}).get("title", ""),
                   "scores": _old_scores(project, fitted.evaluator),
                   "cards": cards_about(project.config.folder, before.name)}  # fmt: skip
        evidence: EvidenceTable = project.measure(before.sources, fitted.held_out.train.samples)
        report["weights"] = _weights(shares_of(before, evidence), shares_of(fitted.evaluator, fitted.held_out.evidence))
        if any(map(learns, before.sources)) or comparison.folds < 2:
            current = _predict_unseen(fitted, before, evidence)
        else:
            current = _predict_out_of_fold(project, fitted, before, evidence, modified_at(folder))
    except (BadInput, FileNotFoundError) as error:
        reason = hide_folders(str(error))
        return {**report, "summary": f"The evaluator in use cannot be compared with the candidate: {reason}"}
    table = MetricsTable(comparison.ratings, comparison.folds, comparison.seed, comparison.draws)
    first, *_ = current
    report["before"] = _metric_row(table.row([first], first.scored & comparison.systems[0].scored).to_json())
    tests = [each.to_json() for each in differences_of([comparison.systems[:1], [first]], table)]
    candidate = comparison.repeats(comparison.systems[0].name)
    ledger, summary = _error_change(comparison.ratings, candidate, current)
    return {**report, "tests": tests, "ledger": ledger.to_json(), "summary": summary}


def _error_change(rated: Ratings, candidate: Repeats, current: Repeats) -> tuple[Ledger, str]:
    """Return the typical errors of both evaluators for a new annotator on the same ratings, and a sentence about them.

    Both are averaged over the repetitions of the cross-validation that both have.
    """
    count = min(len(candidate), len(current))
    contest = Contest({CANDIDATE: candidate[:count], IN_USE: current[:count]}, rated)
    both = np.flatnonzero(np.logical_and(*contest.scored.values()))
    if not len(both) or (test := contest.test(CANDIDATE, IN_USE)) is None:
        return Ledger(), "Too few conversations for a test."
    errors = {
        name: float(np.mean([STATISTICS["rmse"](each.paired_new(rated).take(both)) for each in repeats]))
        for name, repeats in contest.systems.items()
    }
    texts = count_of(len(set(rated.conversation[both])), "conversation")
    about = f"the same {count_of(len(both), 'held-out rating')} of {texts}"
    shift = clustered_mean(np.mean([
        one.new_value[both] - other.new_value[both] for one, other in zip(*contest.systems.values(), strict=True)
    ], axis=0), rated.group[both]).interval()  # fmt: skip
    change = Figure("error_change", test.difference, test.low, test.high, len(both), about, over="conversations",
                    source=COMPARED)  # fmt: skip
    figures = [Figure("error", errors[name], n=len(both), about=about, part=name, source=COMPARED) for name in errors]
    shifted = Figure.measured("score_change", shift, len(both), about, "scores", source=COMPARED)
    return Ledger([*figures, change, shifted]), _summary(change, errors, test.p)


def _metric_row(row: Mapping[str, Any]) -> MetricRow:
    names = [f"{name}{end}" for name in ("rmse", "pearson", "log_loss") for end in ("", "_low", "_high")]
    return {name: row.get(name) for name in ("n", *names)}


def _old_scores(project: Workspace, fitted: Evaluator) -> str:
    """Return a sentence on the conversations of the board that only an earlier evaluator has scored."""
    name = RowOrigin.of(fitted.name, fitted.digest(), fitted.question.id).evaluator
    count = len(BoardTexts.of(project.mart, fitted.question.id, name).turns)
    if not count:
        return "The board has no scores by an earlier fit."
    return (
        f"The scores of {count_of(count, 'conversation')} on the board are by an earlier fit. Do not compare them with "
        "scores of this one; score these conversations again"
    )


def shares_of(evaluator: Evaluator, evidence: EvidenceTable) -> dict[str, float]:
    """Return the weight of each answer model, and the share of each source in the contributions to the scores."""
    known = evaluator.head.describe()
    shares = {f"answer model {name}": float(trial.get("weight_new") or 0.0)
              for name, trial in (known.get("candidates") or {}).items()}  # fmt: skip
    weights = known.get("weights")
    if isinstance(weights, list) and "questions" in known:  # of judges
        shares |= {f"judge {name}": float(weight) for name, weight in zip(known["questions"], weights, strict=True)}
    source = {column.name: column.source or "" for column in evidence.columns}
    by_source: dict[str, float] = {}
    effects = [getattr(score, "attributions", ()) for score in evaluator.head.predict(evidence)]
    if (
        isinstance(weights, dict) and not shares and not any(effects)
    ):  # of one model, per standard deviation of each column
        effects.append(tuple(weights.items()))
    for each in effects:
        for name, share in each:
            if source.get(name):
                by_source[source[name]] = by_source.get(source[name], 0.0) + abs(share)
    total = sum(by_source.values()) or 1.0
    return shares | {f"source {name}": share / total for name, share in by_source.items()}


def _weights(before: Mapping[str, float], now: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the shares before and now of each part that has one."""
    names = dict.fromkeys([*now, *before])
    rows = [{"part": name, "before": before.get(name, 0.0), "now": now.get(name, 0.0)} for name in names]
    return [row for row in rows if row["before"] or row["now"]]


def _predict_unseen(fitted: Fitted, before: Evaluator, evidence: EvidenceTable) -> list[Predictions]:
    """Return predictions of the saved evaluator before, for held-out ratings of conversations it did not learn from."""
    assert fitted.held_out is not None
    train, rated = fitted.held_out.train, fitted.held_out.comparison.ratings
    known = before.training_set
    if known is None or train.question.compares:
        raise BadInput("it cannot be fitted again without each fold")
    place = {each.conversation.id: known.place(each.conversation) for each in train.samples}
    is_new = np.array([(at := place.get(str(name))) is None or not known.used[at] for name in rated.conversation])
    if not is_new.any():
        raise BadInput("it learned from all conversations with held-out ratings")
    rows = replace(rated, row=evidence.rows_of(rated.target))
    split = Split(frozenset(), frozenset(map(str, rated.group)))
    experiment = Experiment(train.question, evidence, train.labels, rows, (split,), 1, train.seed)
    found = experiment.run(IN_USE, lambda question: FittedHead(before))
    return [replace(found, new_value=np.where(is_new, found.new_value, np.nan), scored=found.scored & is_new)]


def _predict_out_of_fold(
    project: Workspace, fitted: Fitted, before: Evaluator, evidence: EvidenceTable, time: str
) -> list[Predictions]:
    """Return out-of-fold predictions of the evaluator in use, fitted to the labels at a time, in each repetition."""
    assert fitted.held_out is not None
    train, comparison = fitted.held_out.train, fitted.held_out.comparison
    if train.question.compares:
        raise BadInput("it cannot be fitted again without each fold")
    scale = train.question.scale
    existed, replaced = labels_at(project.store, train.labels.on(train.question.id), time)
    own = [*existed, *(each for each in replaced if each.value is not None and scale.holds(each.value))]
    others = [each for each in train.labels if each.question != train.question.id]
    past_labels = Labels(
        [*own, *(each for each in others if each.time is None or each.time <= time)], train.labels.groups
    )
    never = untested_groups(evidence, train.labels, train.question, comparison.seen)
    splits = tuple(grouped_folds(list(comparison.ratings.group), comparison.folds, comparison.seed, never))
    rated = replace(comparison.ratings, row=evidence.rows_of(comparison.ratings.target))
    folds, seed = comparison.folds, comparison.seed
    experiment = Experiment(train.question, evidence, past_labels, rated, splits, folds, seed)
    count = len(comparison.repeats(comparison.systems[0].name))
    with single_threaded(len(rated)):
        systems = [again.run(IN_USE, lambda question: before.learner) for again in experiment.repeats(count)]
    if not systems[0].scored.any():
        raise BadInput(next(iter(systems[0].reasons), "it has no predictions"))
    return systems


def _summary(change: Figure, errors: Mapping[str, float], p: float) -> str:
    """Return the errors before and now, and if their difference is clear, as a sentence.

    >>> change = Figure("error_change", -0.034, -0.052, -0.011, 412, "the same 412 held-out ratings")
    >>> _summary(change, {IN_USE: 0.98, CANDIDATE: 0.946}, 0.0015)
    'Typical error 0.98 before and 0.95 now on the same 412 held-out ratings: better by 0.03 [0.01, 0.05].'
    >>> _summary(change, {IN_USE: 0.98, CANDIDATE: 0.946}, 0.3).rpartition(": ")[2]
    'no clear difference (−0.03 [−0.05, −0.01]).'
    """
    before, now = (written(errors[name], "points") for name in (IN_USE, CANDIDATE))
    text = f"Typical error {before} before and {now} now on {change.about}"
    assert change.value is not None
    if p >= SIGNIFICANT or change.low is None or change.high is None or change.low <= 0 <= change.high:
        return f"{text}: no clear difference ({change.text()})."
    is_better = change.value < 0
    sign, low, high = (-1, change.high, change.low) if is_better else (1, change.low, change.high)
    ends = ", ".join(written(sign * end, "points") for end in (low, high))
    by = written(abs(change.value), "points")
    return f"{text}: {'better' if is_better else 'worse'} by {by} [{ends}]."

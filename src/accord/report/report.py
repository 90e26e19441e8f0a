"""The report of a fitted evaluator: numbers, sentences and charts, rendered as an HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from accord.charts import Axis, ChartRow, bar_chart, column_chart, interval_plot, legend
from accord.edges import BadInput, write_atomically
from accord.evidence import EvidenceTable
from accord.learning import Evaluator
from accord.project import Compared, Fitted, Insights, Project, latest_audit
from accord.report.page import render_page
from accord.report.sections import (
    AdaptiveCurve,
    Drift,
    GroupErrors,
    LearningCurve,
    Panels,
    QuestionImportance,
    Reliability,
    adaptive_curve,
    drift_of,
    group_errors,
    learning_curve,
    question_importance,
    reliability,
)
from accord.scoring import latest, latest_drift, latest_scores
from accord.statistics import range_names
from accord.store import Store
from accord.validation import NEW, Comparison, SystemDifference, SystemMetrics, is_better
from accord.values import Conversation, Estimate, Rubric, Section, Value, number
from accord.version import __version__

SIGNIFICANCE = 0.05
"""Level of tests, with Holm's correction."""
WORST_SHOWN = 8
ANNOTATORS_SHOWN = 24
COLUMNS = ("rmse", "rmse_new_annotator", "pearson", "spearman", "kendall", "within_one", "weighted_kappa", "log_loss")
TITLES = {
    "rmse": "RMSE", "rmse_new_annotator": "RMSE, new annotator", "pearson": "r", "spearman": "ρ", "kendall": "τ",
    "within_one": "within 1", "weighted_kappa": "κ", "log_loss": "log loss",
}  # fmt: skip
OBSERVED, PREDICTED, JUDGE = "observed", "predicted", "judge's raw answer"


def write_report(project: Project, path: str | Path, fitted: Fitted | None = None, about: str = "") -> Path:
    """Write the report of an evaluator, with the latest scores, drift and audit of the store.

    Args:
        project: The project.
        path: Path of the HTML file.
        fitted: Fitted evaluator; by default the project's evaluator is fitted again.
        about: Text about the conversations and ratings.

    Raises:
        BadInput: There are no ratings, or too few.
    """
    done = fitted or project.fit_offline()
    target = Path(path)
    store, which = project.store, project.config.synthetic
    scores, drift = latest_scores(store, project.mart, which), latest_drift(store, which)
    shown = content(
        done, project.insights(done), scores, latest_audit(store), drift, project.rubric,
        done.spent or _last_spent(store), about,
    )  # fmt: skip
    write_atomically(target, render(shown), "xmlcharrefreplace")
    return target


def render(shown: ReportContent) -> str:
    """Return the report as HTML, with all texts escaped."""
    return render_page("report.html", shown)


@dataclass(frozen=True)
class RatedData:
    """Counts of the rated data, systems, and numbers of columns of evidence by source."""

    ratings: int
    conversations: int
    annotators: int
    documents: int
    systems: Sequence[tuple[str, int]]
    evidence: Sequence[tuple[str, int]]
    rubric: Rubric | None


@dataclass(frozen=True)
class AnnotatorCharts:
    """Charts of each annotator's answers, the number of omitted annotators, and the legend."""

    panels: Panels
    left_out: int
    legend: Markup
    has_judge: bool


@dataclass(frozen=True)
class LargeError:
    """A rating with a large error, with its conversation and all ratings of it."""

    target: str
    annotator: str
    rating: str
    predicted: str
    conversation: Conversation | None
    others: Sequence[tuple[str, Value | None]]


@dataclass(frozen=True)
class MissingData:
    """Ratings without a prediction by reason, and missing evidence of the `targets`."""

    predictions: Sequence[tuple[str, int]]
    evidence: Sequence[tuple[str, str, int]]
    targets: int


@dataclass(frozen=True)
class LearnedHead:
    """Description of the head: effects of metrics (`reach`) or of features (`chart`), and shares of variance."""

    signature: str
    reach: Markup | None = None
    chart: Markup | None = None
    variance: Sequence[tuple[str, float]] = ()
    levels: Sequence[tuple[str, int, float]] = ()
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class LatestScores:
    """Latest scores: number, mean, the lowest ones, and reasons of missing ones."""

    count: int
    mean: float | None
    lowest: Sequence[Mapping[str, Any]]
    reasons: Sequence[tuple[str, int]]
    annotator: str


@dataclass(frozen=True)
class ReportContent:
    """Values of the template; sections without data are `None`."""

    version: str
    comparison: Comparison
    data: RatedData
    verdict: str
    about: str
    cautions: Sequence[str]
    agreement_charts: Sequence[Markup]
    habits: AnnotatorCharts
    reliability: Reliability | None
    groups: GroupErrors | None
    importance: QuestionImportance | None
    curve: LearningCurve | None
    adaptive: AdaptiveCurve | None
    drift: Drift | None
    findings: Sequence[tuple[Section, Sequence[str]]]
    spent: Mapping[str, Any] | None
    learned: LearnedHead
    worst: Sequence[LargeError]
    unscored: MissingData
    audit: Mapping[str, Any] | None
    scores: LatestScores | None
    columns: Sequence[tuple[str, str]] = tuple((name, TITLES[name]) for name in COLUMNS)


def content(
    fitted: Fitted,
    insights: Insights,
    scores: Sequence[Mapping[str, Any]] = (),
    audit: Mapping[str, Any] | None = None,
    drift: Sequence[Mapping[str, Any]] = (),
    rubric: Rubric | None = None,
    spent: Mapping[str, Any] | None = None,
    about: str = "",
) -> ReportContent:
    """Return the values of the template.

    Raises:
        BadInput: There are no ratings.
    """
    if fitted.held_out is None:
        raise BadInput(
            "no ratings of this evaluator's question, so its agreement with people is unknown; import ratings"
        )
    tried, found = fitted.held_out, fitted.held_out.comparison
    return ReportContent(
        version=__version__,
        comparison=found,
        data=_data(tried, rubric),
        verdict=verdict(found),
        about=about,
        cautions=[*insights.cautions, *_own_cautions(fitted)],
        agreement_charts=[_interval_chart(found, "rmse"), _interval_chart(found, "pearson")],
        habits=_habits(found),
        reliability=reliability(insights),
        groups=group_errors(insights),
        importance=question_importance(insights, str(found.question.scale)),
        curve=learning_curve(insights),
        adaptive=adaptive_curve(insights),
        drift=drift_of(drift),
        findings=[(said.section(), said.cautions) for said in fitted.findings.values()],
        spent=spent,
        learned=_learned(fitted.evaluator),
        worst=_worst(tried),
        unscored=_unscored(found, tried.evidence),
        audit=audit,
        scores=_scores(scores),
    )


def _own_cautions(fitted: Fitted) -> list[str]:
    """Return the cautions of the fit, without those that appear in the section of a source."""
    of_sources = {line for found in fitted.findings.values() for line in found.cautions}
    return [line for line in fitted.cautions if line not in of_sources]


def _last_spent(store: Store) -> Mapping[str, Any] | None:
    """Return the cost of the last fit."""
    found = latest(store, "fit")
    return None if found is None else (found["results"] or {}).get("spent")


# --- parts --------------------------------------------------------------------------------------------------------


def _data(tried: Compared, rubric: Rubric | None) -> RatedData:
    rated, samples = tried.comparison.ratings, tried.train.rated().samples
    makers = Counter(column.signature.split("|name:")[0].split("|question:")[0] for column in tried.evidence.columns)
    systems = Counter(sample.conversation.system or "unknown" for sample in samples)
    return RatedData(
        ratings=len(rated),
        conversations=len(set(rated.conversation)),
        annotators=len(set(rated.annotator)),
        documents=sum(bool(sample.conversation.documents) for sample in samples),
        systems=systems.most_common(),
        evidence=sorted(makers.items()),
        rubric=rubric,
    )


def verdict(found: Comparison) -> str:
    """Return the summary: error and correlation of the first system, and its tests against the baselines."""
    best, rated = found.results[0], found.ratings
    people = len(set(rated.annotator))
    answered = "one annotator" if people == 1 else f"{people} annotators"
    text = f"The evaluator predicts {found.question.id} as rated by {answered}. "
    text += f"On {best.n} ratings of unseen conversations, {best.system} has an RMSE of "
    text += f"{_with_interval(best, 'rmse')}"
    if best.values["pearson"] is not None:
        inside = [
            f"{number(one.pearson.value, 2)} ({number(one.pearson.low, 2)} to "
            f"{number(one.pearson.high, 2)}) within {by}"
            for by, one in best.within.items()
            if one.pearson.value is not None
        ]
        text += f" and a correlation of r = {_with_interval(best, 'pearson')}"
        text += f", {', '.join(inside)}" if inside else ""
    text += "."
    if best.values[NEW] is not None and best.values[NEW] != best.values["rmse"]:
        text += f" For a new annotator RMSE is {_with_interval(best, NEW)}."
    if found.people is not None:
        text += (
            f" Other people who rated the same conversations have an RMSE of {_with_interval(found.people, 'rmse')}."
        )
    ours = [d for d in found.differences if d.statistic == "rmse"]
    beaten = [d for d in ours if is_better(d) and d.p_holm < SIGNIFICANCE]
    unbeaten = [d for d in ours if d not in beaten]
    if beaten:
        which = "all baselines" if not unbeaten else "these baselines"
        text += f" Its error is smaller than that of {which}: {', '.join(map(_smaller, beaten))}."
    if unbeaten:
        text += f" It is not significantly better than: {', '.join(map(_smaller, unbeaten))}."
        text += " Add labels or evidence before it replaces people."
    if found.decision is not None and not found.decision.is_supported:
        text += f" Decision: {found.decision}."
    return f"{text} Intervals are 95%; tests use p < {SIGNIFICANCE} with Holm's correction."


def _with_interval(line: SystemMetrics, statistic: str) -> str:
    """Return a statistic with its interval as text."""
    estimate = line.estimates[statistic]
    return f"{number(estimate.value, 2)} ({number(estimate.low, 2)} to {number(estimate.high, 2)})"


def _smaller(difference: SystemDifference) -> str:
    """Return by how much the error of the first system is smaller than that of another, with the interval."""
    test = difference.test
    interval = "" if test.low is None or test.high is None else f" ({number(-test.high, 2)} to {number(-test.low, 2)})"
    return f"{difference.against} by {number(-test.difference, 2)}{interval}"


def _interval_chart(found: Comparison, statistic: str) -> Markup:
    lines: list[SystemMetrics] = [*found.results, *([found.people] if found.people else [])]
    rows = [
        ChartRow(line.system, estimate, "model" if place == 0 else "neutral")
        for place, line in enumerate(lines)
        if (estimate := line.estimates[statistic]).value is not None and estimate.low is not None
    ]
    title = {"rmse": "RMSE (lower is better)", "pearson": "Pearson's r (higher is better)"}[statistic]
    return interval_plot(rows, Axis(title), title)


def _habits(found: Comparison) -> AnnotatorCharts:
    """Return charts of each annotator's answers: observed, predicted out of fold, and of the judge."""
    rated, system = found.ratings, found.systems[0].paired(found.ratings).in_ranges()
    scored, names = found.systems[0].scored, range_names(rated.options)
    judge = next((s for s in found.systems if s.name == "judge-expected"), None)
    counts = Counter(rated.annotator)
    shown = [name for name, _ in counts.most_common(ANNOTATORS_SHOWN)]
    panels: list[tuple[str, dict[str, list[float]]]] = []
    for name in shown:
        mine = (rated.annotator == name) & scored
        if not mine.any():
            continue
        shares = {OBSERVED: (np.bincount(system.answer[mine], minlength=len(names)) / mine.sum()).tolist()}
        shares[PREDICTED] = system.probabilities[mine].mean(axis=0).tolist()
        if judge is not None and (mine & judge.scored).any():
            shares[JUDGE] = judge.paired(rated).in_ranges().probabilities[mine & judge.scored].mean(axis=0).tolist()
        panels.append((f"{name} (n = {counts[name]})", shares))
    kinds = [kind for kind in (OBSERVED, PREDICTED, JUDGE) if any(kind in shares for _, shares in panels)]
    highest = max((share for _, shares in panels for column in shares.values() for share in column), default=1.0)
    axis = Axis(high=highest, is_share=True)
    drawn = [
        (title, column_chart(names, shares, Axis(), axis, title, has_legend=False, size=(150, 80)))
        for title, shares in panels
    ]
    return AnnotatorCharts(drawn, len(counts) - len(shown), legend(kinds), len(kinds) > 2)


def _worst(tried: Compared) -> list[LargeError]:
    """Return the ratings with the largest errors, one per conversation."""
    found = tried.comparison
    rated, system = found.ratings, found.systems[0]
    error = np.where(system.scored, np.abs(rated.value - system.value), -1.0)
    conversations = {sample.conversation.id: sample.conversation for sample in tried.train.samples}
    shown: dict[str, LargeError] = {}
    for row in np.argsort(-error, kind="stable"):
        target = rated.labels[row].target
        if len(shown) == WORST_SHOWN or error[row] < 0:
            break
        if target.conversation not in shown:
            shown[target.conversation] = LargeError(
                str(target),
                rated.labels[row].annotator,
                f"{rated.value[row]:g}",
                f"{system.value[row]:.3g}",
                conversations.get(target.conversation),
                [(label.annotator, label.value) for label in rated.labels if label.target == target],
            )
    return list(shown.values())


def _unscored(found: Comparison, evidence: EvidenceTable) -> MissingData:
    """Count ratings without a prediction, and missing evidence, by reason."""
    absent = Counter((name, reason) for (_, name), reason in evidence.absences.items())
    counted = [(name, reason, count) for (name, reason), count in sorted(absent.items())]
    return MissingData(sorted(found.results[0].reasons.items()), counted, len(evidence))


def _learned(evaluator: Evaluator) -> LearnedHead:
    """Return the description of the head with its charts."""
    said, signature, remarks = evaluator.head.describe(), str(evaluator.signature()), evaluator.head.remarks()
    if "reach" in said:
        axis = Axis("between its worst and best value, in units of the scale")
        return LearnedHead(signature, reach=_effects(said["reach"], axis), remarks=remarks)
    if "variance_ratios" not in said:
        return LearnedHead(signature, remarks=remarks)
    chart = _effects(said["weights"], Axis("change of the expected answer per standard deviation"))
    levels = sorted(
        ((name, a["labels"], a["level"]) for name, a in said["annotators"].items()), key=lambda line: -line[2]
    )
    return LearnedHead(signature, None, chart, _variance_shares(said), levels, remarks)


def _effects(effects: Mapping[str, float], axis: Axis) -> Markup:
    """Draw a bar per feature, the largest first."""
    ordered = sorted(effects.items(), key=lambda pair: -pair[1])
    rows = [ChartRow(name, Estimate(effect), "model" if effect > 0 else "flagged") for name, effect in ordered]
    return bar_chart(rows, axis, "Effect of each feature")


def _variance_shares(described: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return the shares of a rating's variance by component; weights count once per feature."""
    features = len(described["weights"])
    ratios = described["variance_ratios"]
    parts = {
        "evidence": ratios["evidence"] * features,
        "annotator level": ratios["annotator level"],
        "annotator weights": ratios["annotator weights"] * features,
        "conversation beyond the evidence": ratios["text"],
        "noise": 1.0,
    }
    total = sum(parts.values())
    return [(name, part / total) for name, part in parts.items()]


def _scores(scores: Sequence[Mapping[str, Any]]) -> LatestScores | None:
    """Return a summary of the latest scores; `None` without scores."""
    if not scores:
        return None
    known = sorted((row for row in scores if row["value"] is not None), key=lambda row: row["value"])
    reasons = Counter(row["unscored"] for row in scores if row["value"] is None)
    mean = float(np.mean([row["value"] for row in known])) if known else None
    return LatestScores(len(scores), mean, known[:10], sorted(reasons.items()), scores[0]["annotator"])

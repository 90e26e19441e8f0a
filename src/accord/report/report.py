"""What the report says: a fitted evaluator turned into numbers, sentences and charts, and those into a page."""

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

SURE = 0.05
"""A difference with a smaller p, corrected by Holm's method, is beyond chance."""
WORST_SHOWN = 8
ANNOTATORS_SHOWN = 24
COLUMNS = ("rmse", "rmse_new_annotator", "pearson", "spearman", "kendall", "within_one", "weighted_kappa", "log_loss")
TITLES = {
    "rmse": "RMSE", "rmse_new_annotator": "RMSE, new annotator", "pearson": "r", "spearman": "ρ", "kendall": "τ",
    "within_one": "within 1", "weighted_kappa": "κ", "log_loss": "log loss",
}  # fmt: skip
OBSERVED, PREDICTED, JUDGE = "observed", "predicted", "judge's raw answer"


def write_report(project: Project, path: str | Path, fitted: Fitted | None = None, about: str = "") -> Path:
    """Write the page of an evaluator: of what was fitted, or of the project's own, with what the store holds beside it.

    `about` says what the reader should know of the conversations and ratings.

    Raises:
        BadInput: Nobody rated what it learned, or there is too little to learn from.
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


def render(shown: Content) -> str:
    """The report as HTML. Every text that came from outside is escaped by the template."""
    return render_page("report.html", shown)


@dataclass(frozen=True)
class RatedData:
    """What the evaluator learned from and was tried on: counts, systems, and columns of evidence by who made them."""

    ratings: int
    conversations: int
    annotators: int
    documents: int
    systems: Sequence[tuple[str, int]]
    evidence: Sequence[tuple[str, int]]
    rubric: Rubric | None


@dataclass(frozen=True)
class Habits:
    """A chart of each annotator's answers, how many are left out, and the kinds of bars with their colours."""

    panels: Panels
    left_out: int
    legend: Markup
    has_judge: bool


@dataclass(frozen=True)
class Miss:
    """A rating that was missed, with the conversation's transcript and all ratings of it, by annotator."""

    target: str
    annotator: str
    said: str
    predicted: str
    conversation: Conversation | None
    others: Sequence[tuple[str, Value | None]]


@dataclass(frozen=True)
class Absent:
    """What stayed without a prediction, by reason, and which of the evidence of so many `targets` was absent."""

    predictions: Sequence[tuple[str, int]]
    evidence: Sequence[tuple[str, str, int]]
    targets: int


@dataclass(frozen=True)
class LearnedHead:
    """How scores are made: the effect of each metric (`reach`), or of each feature (`chart`), where a head says so."""

    signature: str
    reach: Markup | None = None
    chart: Markup | None = None
    variance: Sequence[tuple[str, float]] = ()
    levels: Sequence[tuple[str, int, float]] = ()
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class LatestScores:
    """Scores by who they speak for: how many, their mean, the lowest, and why some are missing."""

    count: int
    mean: float | None
    lowest: Sequence[Mapping[str, Any]]
    reasons: Sequence[tuple[str, int]]
    annotator: str


@dataclass(frozen=True)
class Content:
    """Everything the page shows, as values and SVG; a part of which nothing can be said is `None`."""

    version: str
    comparison: Comparison
    data: RatedData
    verdict: str
    about: str
    cautions: Sequence[str]
    agreement_charts: Sequence[Markup]
    habits: Habits
    reliability: Reliability | None
    groups: GroupErrors | None
    importance: QuestionImportance | None
    curve: LearningCurve | None
    adaptive: AdaptiveCurve | None
    drift: Drift | None
    findings: Sequence[tuple[Section, Sequence[str]]]
    spent: Mapping[str, Any] | None
    learned: LearnedHead
    worst: Sequence[Miss]
    unscored: Absent
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
) -> Content:
    """Everything the page shows.

    Raises:
        BadInput: Nobody rated what was learned.
    """
    if fitted.held_out is None:
        raise BadInput("nobody rated what this evaluator learned, so how far it can be trusted cannot be shown")
    tried, found = fitted.held_out, fitted.held_out.comparison
    return Content(
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
    """What learning cautioned about, without what a source's own section says."""
    told = {line for found in fitted.findings.values() for line in found.cautions}
    return [line for line in fitted.cautions if line not in told]


def _last_spent(store: Store) -> Mapping[str, Any] | None:
    """What the last fit cost."""
    found = latest(store, "fit")
    return None if found is None else (found["results"] or {}).get("spent")


# --- parts --------------------------------------------------------------------------------------------------------


def _data(tried: Compared, rubric: Rubric | None) -> RatedData:
    rated, samples = tried.comparison.ratings, tried.train.rated().samples
    # What made a column, without which of its questions or metrics it is.
    makers = Counter(column.signature.split("|name:")[0].split("|question:")[0] for column in tried.evidence.columns)
    systems = Counter(sample.conversation.system or "not said" for sample in samples)
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
    """What the first system learned, how far it can be trusted, and which baselines it beats by how much."""
    best, rated = found.results[0], found.ratings
    people = len(set(rated.annotator))
    answered = "one annotator answers" if people == 1 else f"{people} annotators answer"
    said = f"Learned: how {answered} {found.question.id}. "
    said += f"On {best.n} ratings of conversations it has not seen, {best.system} misses a person's answer by "
    said += f"{_with_interval(best, 'rmse')} on average (RMSE)"
    if best.values["pearson"] is not None:
        inside = [
            f"{number(one.pearson.value, 2)} ({number(one.pearson.low, 2)} to "
            f"{number(one.pearson.high, 2)}) within {by}"
            for by, one in best.within.items()
            if one.pearson.value is not None
        ]
        said += f" and correlates with it at r = {_with_interval(best, 'pearson')}"
        said += f", {', '.join(inside)}" if inside else ""
    said += "."
    if best.values[NEW] is not None and best.values[NEW] != best.values["rmse"]:
        said += f" For a new annotator RMSE is {_with_interval(best, NEW)}."
    if found.people is not None:
        said += f" Other people who rated the same miss it by {_with_interval(found.people, 'rmse')}."
    ours = [d for d in found.differences if d.statistic == "rmse"]
    beaten = [d for d in ours if is_better(d) and d.p_holm < SURE]
    unbeaten = [d for d in ours if d not in beaten]
    if beaten:
        which = "every baseline" if not unbeaten else "these baselines"
        said += f" Its error is smaller than that of {which}: {', '.join(map(_smaller, beaten))}."
    if unbeaten:
        said += f" It is not shown to be better than: {', '.join(map(_smaller, unbeaten))}."
        said += " Do not replace people with it yet: add labels or evidence."
    if found.decision is not None and not found.decision.is_supported:
        said += f" Decision: {found.decision}."
    return f"{said} Intervals are 95 %; p < {SURE} after Holm's correction."


def _with_interval(line: SystemMetrics, statistic: str) -> str:
    """A statistic with its interval, as text."""
    estimate = line.estimates[statistic]
    return f"{number(estimate.value, 2)} ({number(estimate.low, 2)} to {number(estimate.high, 2)})"


def _smaller(difference: SystemDifference) -> str:
    """By how much the first system's error is smaller than another's, with the interval."""
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


def _habits(found: Comparison) -> Habits:
    """Each annotator's answers as said, as predicted without that conversation, and as the judge gave them."""
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
    return Habits(drawn, len(counts) - len(shown), legend(kinds), len(kinds) > 2)


def _worst(tried: Compared) -> list[Miss]:
    """The ratings that the prediction missed by most, one a conversation, with their transcripts."""
    found = tried.comparison
    rated, system = found.ratings, found.systems[0]
    error = np.where(system.scored, np.abs(rated.value - system.value), -1.0)
    conversations = {sample.conversation.id: sample.conversation for sample in tried.train.samples}
    shown: dict[str, Miss] = {}
    for row in np.argsort(-error, kind="stable"):
        target = rated.labels[row].target
        if len(shown) == WORST_SHOWN or error[row] < 0:
            break
        if target.conversation not in shown:
            shown[target.conversation] = Miss(
                str(target),
                rated.labels[row].annotator,
                f"{rated.value[row]:g}",
                f"{system.value[row]:.3g}",
                conversations.get(target.conversation),
                [(label.annotator, label.value) for label in rated.labels if label.target == target],
            )
    return list(shown.values())


def _unscored(found: Comparison, evidence: EvidenceTable) -> Absent:
    """What stayed without a prediction, and which evidence was absent, each counted by reason."""
    absent = Counter((name, reason) for (_, name), reason in evidence.absences.items())
    counted = [(name, reason, count) for (name, reason), count in sorted(absent.items())]
    return Absent(sorted(found.results[0].reasons.items()), counted, len(evidence))


def _learned(evaluator: Evaluator) -> LearnedHead:
    """How scores are made, and charts of what the head says of itself."""
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
    """Where the variance of a rating lies, as shares of their sum; weights count once a feature."""
    features = len(described["weights"])
    ratios = described["variance_ratios"]
    parts = {
        "what the evidence says": ratios["evidence"] * features,
        "who rates: generous or strict": ratios["annotator level"],
        "who rates: what they care about": ratios["annotator weights"] * features,
        "the conversation, beyond the evidence": ratios["text"],
        "one person's mood that day (noise)": 1.0,
    }
    total = sum(parts.values())
    return [(name, part / total) for name, part in parts.items()]


def _scores(scores: Sequence[Mapping[str, Any]]) -> LatestScores | None:
    """Scores by who they speak for; `None` where nothing was scored."""
    if not scores:
        return None
    known = sorted((row for row in scores if row["value"] is not None), key=lambda row: row["value"])
    reasons = Counter(row["unscored"] for row in scores if row["value"] is None)
    mean = float(np.mean([row["value"] for row in known])) if known else None
    return LatestScores(len(scores), mean, known[:10], sorted(reasons.items()), scores[0]["annotator"])

"""The report of a fitted evaluator: numbers, sentences and charts, rendered as an HTML page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from markupsafe import Markup

from accord.board import new_scores_section
from accord.charts import Axis, ChartLine, ChartRow, column_chart, legend, line_chart, row_chart, scatter
from accord.decisions import NEAR_PEOPLE
from accord.edges import BadInput, write_atomically
from accord.evidence import EvidenceTable
from accord.learning import Evaluator
from accord.project import (
    Compared,
    Fitted,
    Insights,
    Workspace,
    fit_offline,
    full_sections,
    group_bias,
    groups_table,
    insights,
    latest_audit,
    short_section,
)
from accord.report.page import render_page
from accord.report.verdict_view import Pages, next_steps, verdict_view
from accord.results import (
    Charts,
    Fold,
    Point,
    Points,
    Section,
    Text,
    agreement_words,
    counts,
)
from accord.scoring import latest, latest_drift
from accord.statistics import SIGNIFICANT, STATISTICS, Diagram, range_names
from accord.store import Imports
from accord.validation import BEST_COLUMN, CONSTANT, JUDGE_ALONE, R_NEW, Comparison
from accord.values import Conversation, Estimate, Question, Rubric, Target
from accord.version import __version__

WORST_SHOWN, ANNOTATORS_SHOWN, GROUPS_SHOWN, FEATURES_SHOWN = 10, 24, 12, 15
EXCERPT_TURNS, EXCERPT = 4, 700
"""Number of turns of an excerpt, and characters of each."""
Values = dict[str, Any]
"""Values of the template, or of one of its sections, by name."""
SYSTEMS = {
    CONSTANT: "constant guess", "annotator-mean": "mean of each annotator", "random": "random draw",
    BEST_COLUMN: "best single feature", JUDGE_ALONE: "raw judge, mean answer", "judge-argmax": "raw judge, top answer",
    "best-judge": "best judge of the training folds", "judges-mean": "mean of all judges",
    "judges-median": "median of all judges", "judges-weighted": "weighted mean of all judges",
}  # fmt: skip
"""Names of baselines in the report."""
ERRORS = {
    "constant_error": "Constant guess", "column_error": "Best single feature", "judge_error": "Judge alone",
    "error": "Evaluator", "people_error": "Another person",
}  # fmt: skip
"""Names of the errors in the first picture, by key of the ledger, from top to bottom."""
FEWEST_POINTS, MAX_POINTS = 5, 2000
"""Numbers of texts in the picture of people against scores."""
OBSERVED, PREDICTED, JUDGE = "observed", "predicted", "judge's raw answer"


def write_report(
    project: Workspace,
    path: str | Path,
    fitted: Fitted | None = None,
    about: str = "",
    name: str = "",
    curve_draws: int | None = None,
) -> Path:
    """Write the report of an evaluator, with the latest scores, drift and audit of the store.

    Without `fitted`, the project's evaluator is fitted again; `about` is a text about the conversations and ratings.
    `name` is the name of the project, by default of its folder. `curve_draws` is as in `Project.insights`.

    Raises:
        BadInput: The project has no ratings, or too few.
    """
    target = Path(path)
    shown = report_values(project, fitted or fit_offline(project), about, name, curve_draws)
    write_atomically(target, render_page("report.html", shown), "xmlcharrefreplace")
    return target


def report_body(project: Workspace, fitted: Fitted, pages: Pages) -> Markup:
    """Return the report without a head, for a page of the workbench, whose `pages` replace commands.

    Raises:
        BadInput: The project has no ratings, or too few.
    """
    return Markup(render_page("report_body.html", report_values(project, fitted, pages=pages)))


def report_values(
    project: Workspace,
    done: Fitted,
    about: str = "",
    name: str = "",
    curve_draws: int | None = None,
    pages: Pages = MappingProxyType({}),
) -> Values:
    """Return the values of the template, with the latest scores, drift and audit of the store."""
    store, which = project.store, project.config.synthetic
    last_fit = latest(store, "fit")
    files = [Path(name).name for record in Imports(store).known() for name in record.files]
    return content(
        done,
        insights(project, done, curve_draws),
        project.rubric,
        scores=new_scores_section(project),
        audit=latest_audit(store),
        drift=latest_drift(store, which),
        spent=done.spent or ((last_fit or {}).get("results") or {}).get("spent"),
        about=about,
        name=name or project.config.folder.absolute().name,
        files=list(dict.fromkeys(files)),
        pages=pages,
    )


def content(
    fitted: Fitted,
    insights: Insights,
    rubric: Rubric,
    scores: Section | None = None,
    audit: Mapping[str, Any] | None = None,
    drift: Sequence[Mapping[str, Any]] = (),
    spent: Mapping[str, Any] | None = None,
    about: str = "",
    name: str = "",
    files: Sequence[str] = (),
    pages: Pages = MappingProxyType({}),
) -> Values:
    """Return the values of the template; sections without data are `None`.

    Raises:
        BadInput: The project has no ratings.
    """
    if fitted.held_out is None:
        raise BadInput("no ratings of this evaluator's question, so its agreement is unknown; import ratings")
    tried, found = fitted.held_out, fitted.held_out.comparison
    of_sources = {line for each in fitted.findings.values() for line in each.cautions}  # in their own sections
    groups = group_errors(insights, found.systems[0].name, _present(found.question, rubric).wording)
    changed, actions = drift_of(drift, rubric), list(tried.verdict.actions)
    if changed is not None and changed["moved"]:  # labels of new conversations come first
        actions = [("New conversations differ from those learned from: label some", "accord label next"), *actions]
    return dict(
        version=__version__,
        comparison=found,
        question=_present(found.question, rubric),
        decision=tried.decision,
        panel=tried.panel,
        data=_data(tried, rubric),
        verdict=tried.verdict,
        view=verdict_view(tried.verdict.to_json()),
        rules=tried.verdict.rules_section(),
        next=next_steps(actions[:3], pages),
        is_page=bool(pages),
        name=name,
        files=files,
        date=f"{(today := date.today()).day} {today:%B %Y}",
        about=about,
        cautions=[line for line in dict.fromkeys([*insights.cautions, *fitted.cautions]) if line not in of_sources],
        charts=_charts(tried),
        names=SYSTEMS,
        habits=_habits(found),
        reliability=reliability(insights),
        groups=groups,
        groups_finding=next(
            (part.text.partition(": ")[2] for part in groups.parts if isinstance(part, Text)), groups.lead
        ),
        importance=question_importance(insights, rubric),
        curve=learning_curve(insights),
        adaptive=adaptive_curve(insights),
        drift=changed,
        findings=[
            *([(costs, ())] if (costs := tried.cost_section(is_drawn=True)) is not None else []),
            *((each.section(), each.cautions) for each in fitted.findings.values()),
        ],
        spent=spent,
        learned=_learned(fitted.evaluator, rubric),
        worst=_worst(tried),
        unscored=_unscored(found, tried.evidence, rubric),
        audit=audit,
        scores=scores,
        statistics=full_sections(found, tried.verdict.figures.ledger),
        agreement=_agreement(tried),
    )


# --- parts --------------------------------------------------------------------------------------------------------


def _present(question: Question, rubric: Rubric) -> Question:
    """Return a question with the short name that the rubric has now."""
    present = rubric.get(question.id)
    return question if present is None else question.model_copy(update={"name": present.name})


def _data(tried: Compared, rubric: Rubric | None) -> Values:
    """Count the rated data, its assistant versions, and the features of evidence by source."""
    rated, samples = tried.comparison.ratings, tried.train.rated().samples
    makers = Counter(column.maker for column in tried.evidence.columns)
    systems = Counter(sample.conversation.system or "unknown" for sample in samples)
    return dict(
        counts=f"{counts(len(set(rated.conversation)), len(rated), len(set(rated.annotator)))}, those it learned from",
        agreement=agreement_words(tried.verdict.figures.alpha),
        documents=sum(bool(sample.conversation.documents) for sample in samples),
        systems=systems.most_common(),
        evidence=sorted(makers.items()),
        rubric=rubric,
    )


def shown_name(system: str, place: int) -> str:
    """Return the name of a row: the first is the evaluator, the others are baselines or other evaluators."""
    return f"evaluator {system}" if place == 0 and system not in SYSTEMS else SYSTEMS.get(system, system)


def _agreement(tried: Compared) -> Section:
    """Return the errors of the evaluator, another person and the baselines, from the ledger of the verdict."""
    figures = tried.verdict.figures
    lead = f"Each score is for a conversation that the evaluator did not learn from: {figures.about}."
    if "alpha" in figures.ledger:
        lead += f" Agreement of people: {figures.ledger['alpha'].sentence()}."
    default = None if tried.decision is None else tried.decision.default
    return replace(short_section(tried.comparison, figures.ledger, default, is_report=True), lead=lead)


def _charts(tried: Compared) -> Values:
    """Return the pictures of the report: errors, versions, list of low-rated conversations, people against scores."""
    ledger, figures = tried.verdict.figures.ledger, tried.verdict.figures
    kinds = {"error": "tool", "people_error": "people"}
    rows = [
        ChartRow(label, ledger[name].estimate, kinds.get(name, "neutral"))
        for name, label in ERRORS.items() if name in ledger
    ]  # fmt: skip
    limit = None if "people_error" not in ledger else NEAR_PEOPLE * (ledger["people_error"].value or 0.0)
    zone = None if limit is None else (None, limit)
    values: Values = {
        "errors": row_chart(rows, Axis("points"), "Error of one score", zone=zone) if rows else Markup(""),
        "limit": "" if limit is None else f"{limit:.2f}",
        "correlation": _correlation_chart(tried),
        "versions": None, "versions_note": "", "found": None, "found_of": "", "cloud": None, "r": "",
    }  # fmt: skip
    if (gap := figures.versions) is not None:
        part = f"{gap.first} − {gap.second}"
        names = {"people_difference": ("by people", "people"), "score_difference": ("by scores", "tool"),
                 "difference_gap": ("scores − people", "neutral")}  # fmt: skip
        drawn = [
            ChartRow(label, ledger[f"{name}:{part}"].estimate, kind)
            for name, (label, kind) in names.items()
            if f"{name}:{part}" in ledger
        ]
        about = ledger[f"people_difference:{part}"].about
        values["versions"] = row_chart(drawn, Axis(), f"Difference {part}", is_signed=True)
        values["versions_note"] = f"{part}: {about}; scores are held out. Lines: 95% intervals over conversations."
    if figures.found is not None and figures.found.curve:
        found = figures.found
        places, counts_found = zip(*((0, 0), *found.curve), strict=True)
        line = ChartLine(places, counts_found)
        chance = ChartLine(
            [0, found.texts], [0, found.bad], kind="neutral", name="by chance", is_dashed=True, draws="line"
        )
        at = ChartLine([found.read], [found.found.value or 0.0], draws="points",
                       name=f"{found.found.value:.0f} of {found.bad}")  # fmt: skip
        x = Axis("conversations read, lowest score first", 0, found.texts)
        values["found"] = scatter([line, chance, at], x, Axis("found", 0, found.bad), "Bad conversations found")
        values["found_of"] = f"of {found.bad} rated {found.cut:.3g} or less"
    values |= _cloud(tried)
    return values


def _cloud(tried: Compared) -> Values:
    """Draw the mean rating of each text against its held-out score."""
    found = tried.comparison
    rated, scores = found.ratings, np.asarray(found.systems[0].new_value, dtype=float)
    means: dict[object, list[tuple[float, float]]] = {}
    for row in np.flatnonzero(np.isfinite(scores)).tolist():
        means.setdefault(rated.labels[row].target, []).append((float(scores[row]), float(rated.value[row])))
    points = [tuple(np.mean(pairs, axis=0)) for pairs in list(means.values())[:MAX_POINTS]]
    if len(points) < FEWEST_POINTS:
        return {}
    xs, ys = zip(*points, strict=True)
    low, high = float(rated.options[0]), float(rated.options[-1])
    line = ChartLine(xs, ys, draws="points")
    chart = scatter([line], Axis("score, held out", low, high), Axis("mean of people", low, high),
                    "People against scores", has_diagonal=True)  # fmt: skip
    ledger = tried.verdict.figures.ledger
    return {"cloud": chart, "r": ledger["r"].short if "r" in ledger else ""}


def _correlation_chart(tried: Compared) -> Markup:
    """Draw the correlation of each row of the comparison with people, next to other people."""
    figures, found = tried.verdict.figures, tried.comparison
    within = " within annotators" if figures.is_within else ""
    rows = [
        ChartRow(shown_name(line.evaluator, place), estimate, "neutral" if place else "tool")
        for place, line in enumerate(found.results)
        if (line.evaluator not in (CONSTANT, "random") or place == 0)
        and (estimate := line.estimates[R_NEW]).value is not None and estimate.low is not None
    ]  # fmt: skip
    if figures.people_r.value is not None:
        rows.append(ChartRow("another person", figures.people_r, "people"))
    title = f"r{within} (higher is better)"
    return row_chart(rows, Axis(title), title, is_signed=False) if rows else Markup("")


def _habits(found: Comparison) -> Values:
    """Return charts of each annotator's answers: observed, predicted out of fold, and of the judge."""
    rated, system = found.ratings, found.systems[0].paired(found.ratings).in_ranges()
    scored, names = found.systems[0].scored, range_names(rated.options)
    judge = next((s for s in found.systems if s.name == "judge-expected"), None)
    given = Counter(rated.annotator)
    shown = [name for name, _ in given.most_common(ANNOTATORS_SHOWN)]
    panels: list[tuple[str, dict[str, list[float]]]] = []
    for name in shown:
        mine = (rated.annotator == name) & scored
        if not mine.any():
            continue
        shares = {OBSERVED: (np.bincount(system.answer[mine], minlength=len(names)) / mine.sum()).tolist()}
        shares[PREDICTED] = system.probabilities[mine].mean(axis=0).tolist()
        if judge is not None and (mine & judge.scored).any():
            shares[JUDGE] = judge.paired(rated).in_ranges().probabilities[mine & judge.scored].mean(axis=0).tolist()
        panels.append((f"{name} (n = {given[name]})", shares))
    kinds = [kind for kind in (OBSERVED, PREDICTED, JUDGE) if any(kind in shares for _, shares in panels)]
    highest = max((share for _, shares in panels for column in shares.values() for share in column), default=1.0)
    axis = Axis(high=highest, is_share=True)
    drawn = [
        (title, column_chart(names, shares, Axis(), axis, title, has_legend=False, size=(150, 80)))
        for title, shares in panels
    ]
    left_out = len(given) - len(shown)
    return {"panels": drawn, "left_out": left_out, "legend": legend(kinds), "has_judge": len(kinds) > 2}


def _worst(tried: Compared) -> list[Values]:
    """Return the largest error of each conversation, the largest first, with all ratings of its target."""
    found = tried.comparison
    rated, system = found.ratings, found.systems[0]
    error = np.where(np.isfinite(system.new_value), np.abs(rated.value - system.new_value), -1.0)
    conversations = {sample.conversation.id: sample.conversation for sample in tried.train.samples}
    shown: dict[str, Values] = {}
    for row in np.argsort(-error, kind="stable"):
        target = rated.labels[row].target
        if len(shown) == WORST_SHOWN or error[row] < 0:
            break
        if target.conversation not in shown:
            conversation = conversations.get(target.conversation)
            shown[target.conversation] = {
                "target": str(target),
                "annotator": rated.labels[row].annotator,
                "rating": f"{rated.value[row]:g}",
                "predicted": f"{system.new_value[row]:.3g}",
                "is_synthetic": conversation is not None and conversation.is_synthetic,
                "excerpt": None if conversation is None else _excerpt(conversation, target),
                "others": [(label.annotator, label.value) for label in rated.labels if label.target == target],
            }
    return list(shown.values())


def _excerpt(conversation: Conversation, target: Target) -> Values:
    """Return the last turns up to the target, shortened, the number of turns before them, and documents' titles."""
    turns = conversation.turns if target.turn is None else conversation.turns[: target.turn + 1]
    kept = turns[-EXCERPT_TURNS:]
    shown = [(turn.role, _shortened(turn.content, EXCERPT)) for turn in kept]
    titles = [document.title or _shortened(document.text, 60) for document in conversation.documents]
    return {"turns": shown, "before": len(turns) - len(kept), "documents": titles,
            "last": _shortened(kept[-1].content, 160) if kept else ""}  # fmt: skip


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rstrip()} …"


def _unscored(found: Comparison, evidence: EvidenceTable, rubric: Rubric) -> Values:
    """Count ratings without a prediction, and missing evidence, by reason."""
    absent = Counter((name, reason) for (_, name), reason in evidence.absences.items())
    counted = [(rubric.shown(name), reason, count) for (name, reason), count in sorted(absent.items())]
    predictions = sorted(found.results[0].reasons.items())
    return {"predictions": predictions, "evidence": counted, "targets": len(evidence)}


def _learned(evaluator: Evaluator, rubric: Rubric) -> Values:
    """Return the effects of metrics (`reach`) or of features (`chart`), and the shares of variance, of the head."""
    described = evaluator.head.describe()
    values = {
        "signature": str(evaluator.signature()),
        "remarks": evaluator.head.remarks(),
        "reach": None,
        "chart": None,
        "finding": _largest(described.get("reach") or described.get("weights") or {}, rubric),
    }
    if "reach" in described:
        axis = Axis("between its worst and best value, in units of the scale")
        return {**values, "reach": _effects(described["reach"], axis, rubric)}
    if "variance_ratios" not in described:
        return values
    axis = Axis("change of the expected answer per standard deviation")
    chart = _effects(described["weights"], axis, rubric)
    levels = sorted(
        ((name, a["labels"], a["level"]) for name, a in described["annotators"].items()), key=lambda line: -line[2]
    )
    return {**values, "chart": chart, "variance": _variance_shares(described), "levels": levels}


def _largest(effects: Mapping[str, float], rubric: Rubric, count: int = 3) -> str:
    """Return the largest effects in words; empty without any."""
    texts, ordered = _question_names(rubric), sorted(effects.items(), key=lambda pair: -abs(pair[1]))[:count]
    return ", ".join(f"{texts.get(name, name)} {effect:+.2f}".replace("-", "−") for name, effect in ordered)


def _question_names(rubric: Rubric) -> dict[str, str]:
    """Return a text for each question in charts: its short name; without one its ID if it is a word, else its text."""
    return {
        each.id: each.text if not each.name and re.fullmatch(r"[A-Za-z]{0,2}\d+", each.id) else each.shown
        for each in rubric.questions
    }


def _effects(effects: Mapping[str, float], axis: Axis, rubric: Rubric) -> Markup:
    """Draw a bar per feature, the largest first; answers of a judge have the name of their question."""
    texts = _question_names(rubric)
    ordered = sorted(effects.items(), key=lambda pair: -pair[1])
    rows = [
        ChartRow(texts.get(name, name), Estimate(effect), "tool" if effect > 0 else "neutral")
        for name, effect in ordered
    ]
    return row_chart(rows, axis, "Effect of each feature", is_bars=True)


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


# --- sections --------------------------------------------------------------------------------------------------------


def reliability(insights: Insights) -> Values | None:
    """Return the calibration curve of each answer, and the answer with the largest smECE (`error`)."""
    shown = [one for one in insights.diagrams if len(one.predicted) > 1]
    if not shown:
        return None
    worst = max(shown, key=lambda one: one.error.value or 0.0)
    panels = []
    for one in shown:
        error = "–" if one.error.value is None else f"{one.error.value:.3f}"
        panels.append((f"answer {one.option}: smECE {error}", reliability_curve(one)))
    return {"panels": panels, "worst": worst.option, "error": worst.error.value or 0.0}


def reliability_curve(diagram: Diagram) -> Markup:
    """Draw the observed frequency by predicted probability, with a wider line where predictions are dense."""
    lines = [
        ChartLine(diagram.predicted.tolist(), diagram.happened.tolist(), diagram.low.tolist(), diagram.high.tolist(),
             kind="s0", weights=diagram.density.tolist()),
        ChartLine([0, 1], [0, 1], kind="neutral", is_dashed=True),
    ]  # fmt: skip
    title = f"Calibration of answer {diagram.option}"
    return line_chart(lines, Axis("predicted", 0, 1), Axis("observed", 0, 1), title, size=(150, 150))


def group_errors(insights: Insights, evaluator: str = "", wording: str = "") -> Section:
    """Return the bias of each group: a chart of the most biased, what to do, and the figures of all groups.

    Args:
        insights: Groups with their errors.
        evaluator: Name of the evaluator.
        wording: Present wording of the question, whose group has a name instead of a digest.
    """
    if not insights.groups:
        few = (
            "Fewer than two assistant versions, annotators, wordings or judge versions have ten ratings each, so there "
        )
        return Section("", f"{few}are no groups to compare.")
    earlier = sorted(each.name for each in insights.groups if each.by == "wording" and each.name != wording)
    names = {wording: "present", **{name: f"earlier {place}" for place, name in enumerate(earlier, 1)}}
    if len(earlier) == 1:
        names[earlier[0]] = "earlier"
    named = {f"{each.by}: {names[each.name] if each.by == 'wording' else each.name}": each for each in insights.groups}
    points = [
        Point(name, each.bias, each.p_holm < SIGNIFICANT)
        for name, each in sorted([*named.items()][:GROUPS_SHOWN])
        if each.bias.value is not None and each.bias.low is not None
    ]
    flagged = [
        f"{name} ({group_bias(each, name, evaluator).short})"
        for name, each in named.items()
        if each.p_holm < SIGNIFICANT
    ]
    left_out = len(named) - GROUPS_SHOWN
    lead = (
        "Mean of score minus rating in each group, with 95% intervals over conversations; a group in red differs from "
    )
    lead += f"all others (p < {SIGNIFICANT}, corrected).{f' The table has {left_out} more.' if left_out > 0 else ''}"
    step = (
        f"Next step: the errors of these groups differ from the others: {', '.join(flagged)}. Do not compare them by "
        "score alone; add labels or evidence for them."
        if flagged
        else "Next step: no group differs significantly from the others; groups with wide intervals need more labels."
    )
    charts = [Charts([Points("Errors by group", "score minus rating", points)])] if points else []
    return Section(
        "", lead, [*charts, Text(step, "soft"), Fold("Figures of each group", [groups_table(named, evaluator)])]
    )


def question_importance(insights: Insights, rubric: Rubric) -> Values | None:
    """Return the effects of the questions per step, and the most important question, on the `scale` of the main one."""
    texts, names = {question.id: question.text for question in rubric.questions}, _question_names(rubric)
    points = [
        ChartRow(names.get(one.question, one.question), one.estimate, "people")
        for one in insights.importance
        if one.estimate.low is not None
    ]
    if not points:
        return None
    first, axis = insights.importance[0], Axis("rise of the main answer")
    chart = row_chart(points, axis, "Importance of the questions", is_signed=True)
    rows = [
        (names.get(one.question, one.question), texts.get(one.question, ""), one.estimate, one.labels)
        for one in insights.importance
    ]
    scale, text = str(rubric.main_question.scale), names.get(first.question, first.question)
    return {"chart": chart, "first": text, "value": first.estimate.value or 0.0, "scale": scale, "rows": rows}


def learning_curve(insights: Insights) -> Values | None:
    """Return the agreement by number of labels, and the decrease of RMSE (`gain`) by the last `more` labels."""
    whole = [(point.labels, value) for point in insights.curve if (value := point.estimates["rmse"].value) is not None]
    if len(whole) < 2:
        return None
    (before, worse), (after, better) = whole[-2:]
    panels = [(title, _curve(insights, name, title)) for name, title in (("rmse", "RMSE"), ("pearson", "r"))]
    panels = [panel for panel in panels if panel[1]]
    subsets = insights.curve[-1].subsets
    return {"panels": panels, "gain": worse - better, "more": round(after - before), "subsets": subsets}


def _curve(insights: Insights, statistic: str, title: str) -> Markup:
    """Draw a statistic with its interval by number of labels; empty without an interval."""
    points = [
        (point.labels, estimate.value, estimate.low, estimate.high)
        for point in insights.curve
        if (estimate := point.estimates[statistic]).value is not None
        and estimate.low is not None and estimate.high is not None
    ]  # fmt: skip
    if not points:
        return Markup("")
    labels, values, low, high = zip(*points, strict=True)
    line = ChartLine(labels, values, low, high, draws="line points")
    return scatter([line], Axis("labels learned from"), Axis(title), f"Learning curve: {title}")


def adaptive_curve(insights: Insights) -> Values | None:
    """Return the error by number of questions; `enough` questions come within 1% of the RMSE of `all`."""
    known = [(one.most, value) for one in insights.adaptive if (value := STATISTICS["rmse"](one.paired)) is not None]
    if len(known) < 2:
        return None
    enough = next(most for most, value in known if value <= 1.01 * known[-1][1])
    line = ChartLine([most for most, _ in known], [value for _, value in known], draws="line points")
    chart = scatter([line], Axis("questions asked"), Axis("RMSE"), "Error by number of questions")
    return {"chart": chart, "enough": enough, "all": known[-1][0]}


def drift_of(rows: Sequence[Mapping[str, Any]], rubric: Rubric) -> Values | None:
    """Return the drift since training: the features with drift (`moved`) and the number of all (`of`)."""
    if not rows:
        return None
    bars = [
        ChartRow(rubric.shown(row["feature"]), Estimate(row["stability"]), "tool" if row["is_shifted"] else "neutral")
        for row in rows[:FEATURES_SHOWN]
    ]
    chart = row_chart(bars, Axis("population stability index"), "Drift by feature", is_bars=True)
    return {
        "chart": chart,
        "moved": [rubric.shown(row["feature"]) for row in rows if row["is_shifted"]],
        "of": len(rows),
    }

"""The parts of ADOROR's study: tables 1, 3, 4, 5 and 6, figures 4 to 10, and the text that a prefix cache saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import fmean
from typing import Any

import numpy as np
from markupsafe import Markup
from scipy import stats

from accord import Project
from accord.charts import Axis, ChartLine, line_chart
from accord.edges import BadInput
from accord.evidence import Training
from accord.formats import read
from accord.methods.in_context.experiment import InContextFindings
from accord.methods.in_context.source import IN_CONTEXT
from accord.methods.in_context.template import (
    RatedExamples,
    examples_of,
)
from accord.models import SCORER
from accord.values import Estimate, Labels, Question, Sample, Scale
from accord_papers.adoror import metrics, published, simulation, system_answers
from accord_papers.adoror.more_systems import BY_HAND, DRAW, DRAWS, PROMPT, TABLE_3, ask_topical_usr, chance_rows, named
from accord_papers.adoror.own_project import ask, rated_project, settings_of
from accord_papers.adoror.prefixes import prefix_rows
from accord_papers.adoror.systems import ADOROR, NAMES, TABLE_1
from accord_papers.catalog import Paper
from accord_papers.readiness import CheckedPart as Part
from accord_papers.study import PartTable, Row, StudyInput, interval_chart, spread_name, spread_of

TOPICAL_USR = "topical_usr"
COLUMNS = {"overall": "Overall", "groundness": "Uses Knowledge"}
"""Columns of table 1 for Topical-USR (UTC), and their questions in the data."""
UTC = {"overall": "UTC Overall", "groundness": "UTC Ground."}
GATHERED = (
    "on the public data only for Topical-USR: DailyDialogue-Zhao, Persona-Zhao, Persona-USR and FED are not in the "
    "folder, and gpt-3.5-turbo-0301 is no longer served"
)
PLANTED = (
    "Worlds of 240 rated examples, 4 prompts and 200 new inputs, one per repetition. The judge errs less with "
    "demonstrations of the input's topic, in a good order, with scores across the scale, and with a suitable prompt; "
    "the sign of its error depends on the demonstrations. `benchmarks/adoror.py` runs larger worlds. The published "
    "figures are from real data: compare the order of the rows, not the level."
)
SAME = "The planted worlds of `table-1-planted`."
IN_PLANTED = "on the public data in a planted world, because no model here answers new prompts"
WITH_EMBEDDED = (
    "on the public data in a planted world, and for a few replies with the embedded model if it is downloaded"
)
LIMIT = 18
"""Responses of Topical-USR that the embedded model is asked about."""


def _topical_usr(given: StudyInput) -> dict[str, RatedExamples]:
    """Return the rated responses of Topical-USR with the whole context, by column of table 1."""
    records = [record for record in read(given.folder(TOPICAL_USR)) if record.labels]
    samples = [Sample(record.conversation, record.labels[0].target.turn) for record in records]
    labels = Labels(label for record in records for label in record.labels)
    questions = {
        column: Question(
            id=name, text=system_answers.DIMENSIONS[name][0], scale=Scale(options=system_answers.DIMENSIONS[name][1])
        )
        for column, name in COLUMNS.items()
    }
    return {
        column: examples_of(question, samples, labels, "turn", lambda conversation: False)
        for column, question in questions.items()
    }


def _published_mean(system: str) -> float | None:
    """Return the mean of a system's published figures over the six columns of table 1."""
    figures = [figure for figure in published.TABLE_1.get(system, ()) if figure is not None]
    return fmean(figures) if figures else None


# --- table 1 --------------------------------------------------------------------------------------------------------


def baselines(given: StudyInput) -> PartTable:
    """Metrics and recorded judgements on Topical-USR, and the paper's baselines that cannot be run."""
    folder, examples = given.folder(TOPICAL_USR), _topical_usr(given)
    rows = metrics.metric_rows(examples, "references", metrics.with_references(folder))
    rows += metrics.metric_rows(examples, "the fact", lambda sample: sample)
    rows += metrics.recorded_rows(folder, examples)
    rows += metrics.absent_rows(list(COLUMNS))
    note = (
        "Spearman's ρ with the mean rating of 360 responses (312 with a fact), intervals over 60 contexts. References "
        "are the other human responses of the context. The judges were recorded by other studies and have no figure in "
        "the paper."
    )
    chart = {"Baselines on Topical-USR, Overall": interval_chart(
        [{**row, "system": _with_source(row)} for row in rows], "overall", "Spearman's ρ with Overall")}  # fmt: skip
    return PartTable(rows, ("system", "source"), tuple(COLUMNS), note, chart)


def _with_source(row: Row) -> str:
    _, _, text = str(row["source"]).partition(", ")
    return f"{row['system']}, {text}" if text else str(row["system"])


def baselines_of_project(given: StudyInput) -> PartTable:
    """Return the correlation of each metric with the ratings of a project's main question."""
    with rated_project(given) as (project, training):
        examples = {"spearman": system_answers.rated_examples(training, settings_of(project).level)}
        rows = metrics.metric_rows(examples, "the documents", lambda sample: sample)
    if not any(row.get("n") for row in rows):
        raise BadInput("no rated sample has a document that its reply can be compared with, or no metric is installed")
    note = f"Spearman's ρ with the mean rating of {len(examples['spearman'])} rated samples."
    return PartTable(rows, ("system", "source", "n"), ("spearman",), note)


def systems(given: StudyInput) -> PartTable:
    """Systems of table 1 on Topical-USR with the embedded model."""
    rows, lacking = _embedded_answers(given)
    if lacking:
        raise BadInput(lacking[0].lower() + lacking[1:].rstrip("."))
    shown = {NAMES.get(name, name) for name in (*TABLE_1, IN_CONTEXT)}
    table = [row for row in system_answers.table_1(rows) if row["system"] in shown]
    for row in table:
        figures = published.TABLE_1.get(row["system"])
        row["spearman_published"] = figures[published.COLUMNS.index(UTC["overall"])] if figures else None
    return PartTable(table, ("dimension", "system", "n"), ("spearman",), EMBEDDED_NOTE)


def _roles(project: Project) -> tuple[str, ...]:
    """Return the model that scores; it also writes the prompts if no writer is configured."""
    return (SCORER,)


def _has_examples(given: StudyInput) -> Training:
    """Return the rated examples of the project."""
    with rated_project(given) as (_, training):
        return training


def _has_documents(given: StudyInput) -> None:
    """Check that a rated example of the project has a document."""
    if not any(sample.conversation.documents for sample in _has_examples(given).samples):
        raise BadInput("no rated sample has a document that its reply can be compared with")


def systems_of_project(given: StudyInput) -> PartTable:
    """Return the systems of table 1 with a project's scorer, on held-out examples."""
    rows = _asked_of_project(given)
    table = [{**row, "spearman_published": _published_mean(row["system"])} for row in system_answers.table_1(rows)]
    note = (
        f"Held-out examples of {given.repeats} splits, pooled. The published figures are means over the six columns of "
        "table 1."
    )
    charts = {"Systems of table 1": interval_chart(table, "spearman", "Spearman's ρ")}
    return PartTable(table, ("system", "n"), ("spearman", "mean_of_folds"), note, charts)


def _asked_of_project(given: StudyInput) -> list[Row]:
    with rated_project(given) as (project, training):
        runs = [{"seed": repeat, "rivals": list(TABLE_1)} for repeat in range(given.repeats)]
        studies = ask(project, training, runs)
    about = {"split": "held out", "dimension": training.question.id}
    return [{**row, **about, "fold": fold} for fold, (rows, _) in enumerate(studies) for row in rows]


def planted_systems(given: StudyInput) -> PartTable:
    """Systems of table 1 in planted worlds."""
    rows = [row for seed in range(given.repeats) for row in simulation.system_rows(seed)]
    table = _with_errors(system_answers.table_1(rows), rows)
    charts = {"Systems of table 1, planted": interval_chart(table, "spearman", "Spearman's ρ")}
    note = (
        f"{PLANTED} Published: mean of the six columns of table 1. The prompts of the ensemble get the same "
        "demonstrations, so that their errors have one sign and their mean is no better; five random sets show what "
        "averaging alone gives."
    )
    return PartTable(table, ("system", "n"), ("spearman", "absolute_error"), note, charts)


def _with_errors(table: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """Add the mean absolute error and the published figure of each system."""
    return [
        {**row, "absolute_error": fmean(each["absolute_error"] for each in rows if each["system"] == row["system"]),
         "spearman_published": _published_mean(row["system"])}
        for row in table
    ]  # fmt: skip


# --- figure 2 -------------------------------------------------------------------------------------------------------

CHANCE = (
    "ρ of one request per input on each test set (five folds): mean over the test sets for each prompt, with random "
    "demonstrations, and for each draw of the demonstrations, with one prompt; then least, quartiles and most of these "
    "means. The paper shows boxes without figures."
)


def _chance_table(rows: Sequence[Row], note: str, names: Mapping[str, str]) -> PartTable:
    """Return least, quartiles and most of ρ over prompts, and over draws of the demonstrations, with both charts.

    Args:
        rows: Rows with `world`, `what`, `place`, `fold` and `rho`.
        note: Of the table.
        names: Kinds of row by `what`, as shown.
    """
    table: list[Row] = []
    charts: dict[str, Markup] = {}
    for world, what in dict.fromkeys((row["world"], row["what"]) for row in rows):
        own = [row for row in rows if (row["world"], row["what"]) == (world, what)]
        by_place: dict[Any, list[float]] = {row["place"]: [] for row in own}
        for row in own:
            by_place[row["place"]] += [] if row["rho"] is None else [row["rho"]]
        known = {place: rhos for place, rhos in by_place.items() if rhos}
        if not known:
            continue
        means = [fmean(rhos) for rhos in known.values()]
        quartiles = dict(zip(("least", "lower quartile", "median", "upper quartile", "most"),
                             map(float, np.quantile(means, [0, 0.25, 0.5, 0.75, 1])), strict=True))  # fmt: skip
        table.append({"world": world, "system": names[what], "n": len(means), **quartiles})
        ends = [Estimate(fmean(rhos), min(rhos), max(rhos)) for rhos in known.values()]
        line = ChartLine([float(place) for place in range(len(means))], means, draws="points", ends=ends)
        title = f"Figure 2, {names[what]}, {world}"
        charts[title] = line_chart([line], Axis(names[what]), Axis("Spearman's ρ"), title)
    statistics = ("least", "lower quartile", "median", "upper quartile", "most")
    return PartTable(table, ("world", "system", "n"), statistics, note, charts)


KINDS = {"prompt": "prompts", "demonstrations": "draws of the demonstrations"}


def chance(given: StudyInput) -> PartTable:
    """Figure 2 in planted worlds, and on Topical-USR with the embedded model."""
    planted = [row for seed in range(given.repeats) for row in chance_rows(seed)]
    rows = [{**row, "world": "planted", "place": (row["seed"], row["place"])} for row in planted]
    note = (
        f"{CHANCE} Planted: the worlds of `table-1-planted` with 20 prompts. In the charts, lines span the test sets."
    )
    found, lacking = _embedded_answers(given)
    rows += [{**row, "world": EMBEDDED} for row in _of_families(found)]
    return _chance_table(rows, f"{note} {lacking or EMBEDDED_NOTE}", KINDS)


def chance_of_project(given: StudyInput) -> PartTable:
    """Figure 2 with a project's scorer: tried prompts, and draws of the demonstrations with the best prompt."""
    with rated_project(given) as (project, training):
        tried = min(settings_of(project).candidates + 1, BY_HAND)
        asking = [f"{PROMPT}@{n}" for n in range(tried)] + [f"{DRAW}@{n}" for n in range(DRAWS)]
        studies = ask(project, training, [{"seed": repeat, "rivals": asking} for repeat in range(given.repeats)])
    rows = [{**row, "fold": fold} for fold, (asked, _) in enumerate(studies) for row in asked]
    note = CHANCE.replace("five folds", f"held-out examples of {given.repeats} splits")
    return _chance_table([{**row, "world": "project"} for row in _of_families(rows)], note, KINDS)


def _of_families(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of `prompt@N` and `demonstrations@SEED`, with `what` and `place`."""
    found = []
    for row in rows:
        what, at, place = str(row["system"]).partition("@")
        if at and what in KINDS:
            found.append({**row, "what": what, "place": int(place)})
    return found


# --- the embedded model ----------------------------------------------------------------------------------------------

EMBEDDED = f"Topical-USR, {system_answers.MODEL}"
EMBEDDED_NOTE = (
    f"Topical-USR, {system_answers.MODEL}: {LIMIT} responses (three contexts, three folds), Overall, few candidates "
    "and short requests, with an embedded model of 135 million parameters that rates at chance: the rows test the "
    "steps, not the method."
)


@lru_cache(2)
def _embedded_answers(given: StudyInput) -> tuple[list[Row], str]:
    """Return the rows of all systems with the embedded model on Topical-USR; without it, a sentence that says so."""
    from accord.embedded.catalogue import is_pulled

    folder = given.folder(TOPICAL_USR)
    if not is_pulled(system_answers.MODEL):
        return [], (
            "No model here can answer new prompts: download the small one with accord models pull "
            f"{system_answers.MODEL}, or name your own with --project."
        )
    families = [f"{PROMPT}@{n}" for n in range(2)] + [f"{DRAW}@{seed}" for seed in range(5)]
    return ask_topical_usr(folder, LIMIT, [*TABLE_1, *TABLE_3, *families]), ""


# --- tables 3 to 6 --------------------------------------------------------------------------------------------------


def ablations(given: StudyInput) -> PartTable:
    """Table 3: loss without the subgraph or a part of the selector, in planted worlds and with the embedded model."""
    rows = [row for seed in range(given.repeats) for row in simulation.ablation_rows(seed)]
    found, lacking = _embedded_answers(given)
    asked = {ADOROR, simulation.NO_SUBGRAPH, *TABLE_3.values()}
    rows += [{**row, "split": "planted", "dimension": EMBEDDED} for row in found if row["system"] in asked]
    table = [{**row, "world": row["dimension"]} for row in system_answers.table_1(rows)]
    whole = {row["world"]: row["spearman"] for row in table if row["system"] == ADOROR}
    for row in table:
        own = [
            each.get("recovered")
            for each in rows
            if (each["dimension"], each["system"]) == (row["world"], row["system"])
        ]
        base = whole[row["world"]]
        is_known = row["spearman"] is not None and base is not None and base > 0
        row["change"] = row["spearman"] / base - 1 if is_known else None
        row["change_published"] = published.TABLE_3.get(row["system"])
        known = [each for each in own if each is not None]
        row["recovered"] = fmean(known) if known else None
    note = (
        "World `all`: the planted worlds of `table-1-planted`. In the others the judge's error depends on one "
        "mechanism alone, which one part of the selector can learn: order of the demonstrations, place next to the "
        "input, scores. Change: relative to ADOROR's ρ in the same world; published: mean over the five data sets. "
        "Recovered: share of the gap between a random and the best set that the selector's first choice closes. The "
        "towers recognize each of the 120 examples by its text, so that scores add little here. No change where "
        f"ADOROR's ρ is 0 or less. {lacking or EMBEDDED_NOTE}"
    )
    return PartTable(table, ("world", "system", "n"), ("change", "spearman", "recovered"), note)


ABLATED = "adoror"
"""Selector whose parts are left out."""


def ablations_of_project(given: StudyInput) -> PartTable:
    """Return the loss without the subgraph or a part of the selector, with a project's scorer."""
    with rated_project(given) as (project, training):
        about = {"selector": ABLATED, "rivals": [simulation.NO_SUBGRAPH, *TABLE_3]}
        studies = ask(project, training, [{"seed": repeat, **about} for repeat in range(given.repeats)])
    held_out = {"split": "held out", "dimension": training.question.id}
    rows = [{**row, **held_out, "fold": fold} for fold, (asked, _) in enumerate(studies) for row in asked]
    table = system_answers.table_1(named(rows))
    whole = next(row["spearman"] for row in table if row["system"] == ADOROR)
    for row in table:
        is_known = row["spearman"] is not None and whole is not None and whole > 0
        row["change"] = row["spearman"] / whole - 1 if is_known else None
        row["change_published"] = published.TABLE_3.get(row["system"])
    note = (
        f"Held-out examples of {given.repeats} splits, pooled. Change: relative to ADOROR's ρ, none where it is 0 or "
        "less; published: mean over the five data sets."
    )
    return PartTable(table, ("system", "n"), ("change", "spearman"), note)


SHOTS = (2, 5, 8)


def sensitivity(given: StudyInput) -> PartTable:
    """Table 4 and figures 7 to 10 in planted worlds: γ × ζ × k."""
    cells = [
        cell
        for seed in range(given.repeats)
        for cell in simulation.sensitivity_cells(seed, simulation.SENSITIVITY, shots=SHOTS)
    ]
    note = (
        "Planted worlds of 160 rated examples and 100 new inputs. Gain: relative gain in ρ over "
        "Auto-P-Selected-Ensemble; least, mean and largest cell. "
        "Published: least, mean and largest of the 14 dimensions of table 4, at k = 5."
    )
    return _sensitivity_table(cells, note)


def sensitivity_of_project(given: StudyInput) -> PartTable:
    """Return the gain over Auto-P-Selected-Ensemble by γ × ζ and by k, with a project's scorer."""
    rivals = {"rivals": [simulation.ENSEMBLE]}
    grid: list[Row] = [
        {"sets": gamma, "candidate_sets": zeta, **rivals} for gamma in simulation.GAMMAS for zeta in simulation.ZETAS
    ]
    grid += [{"demonstrations": k, **rivals} for k in simulation.SHOTS]
    cells: list[Row] = []
    with rated_project(given) as (project, training):
        runs = [{**settings, "seed": repeat} for repeat in range(given.repeats) for settings in grid]
        for rows, source in ask(project, training, runs):
            rho = {row["system"]: row["rho"] or 0.0 for row in rows}
            about = {"gamma": source.settings.sets, "zeta": source.settings.candidate_sets,
                     "k": source.settings.demonstrations}  # fmt: skip
            theirs = rho[simulation.ENSEMBLE]
            cells.append({**about, "rho": rho[ADOROR], "gain": rho[ADOROR] / theirs - 1 if theirs > 0 else None})
    note = (
        "Gain: relative gain in ρ over Auto-P-Selected-Ensemble on held-out examples; no gain where its ρ is 0 or less."
    )
    return _sensitivity_table(cells, note)


def _sensitivity_table(cells: Sequence[Row], note: str) -> PartTable:
    rows = simulation.sensitivity_rows(cells, "gain")
    least, mean, most = zip(*published.TABLE_4.values(), strict=True)
    as_published = next((row for row in rows if row["system"] == "k 5"), rows[0])
    as_published |= {"least_published": min(least), "mean_published": fmean(mean), "most_published": max(most)}
    charts = {
        "Correlation by number of demonstrations": _cells_chart(cells, "k", "demonstrations (k)"),
        "Correlation by sets ranked per prompt": _cells_chart(cells, "zeta", "sets ranked per prompt (ζ)"),
    }
    return PartTable(rows, ("system", "cells"), ("least", "mean", "most"), note, charts)


def _cells_chart(cells: Sequence[Row], across: str, title: str) -> Markup:
    """Draw the mean ρ of ADOROR by one setting, with a line per γ."""
    lines = []
    for kind, gamma in zip(("model", "people", "s2"), dict.fromkeys(cell["gamma"] for cell in cells), strict=False):
        own = [cell for cell in cells if cell["gamma"] == gamma]
        x = sorted({cell[across] for cell in own})
        y = [fmean(cell["rho"] for cell in own if cell[across] == value) for value in x]
        lines.append(ChartLine([float(value) for value in x], y, kind=kind, name=f"γ = {gamma}"))
    return line_chart(lines, Axis(title), Axis("Spearman's ρ"), f"ADOROR's ρ by {title}")


def data_set(given: StudyInput) -> PartTable:
    """Table 5: details of Topical-USR."""
    records = [record for record in read(given.folder(TOPICAL_USR)) if record.labels]
    texts = [[turn.content.split() for turn in record.conversation.turns] for record in records]
    ours = {
        "instances": float(len(records)),
        "turns": fmean(map(len, texts)),
        "context words": fmean(sum(map(len, each[:-1])) for each in texts),
        "response words": fmean(len(each[-1]) for each in texts),
        "annotations": float(sum(len(record.labels) for record in records)),
    }
    rows: list[Row] = [
        {"system": name, "value": f"{value:,.1f}".removesuffix(".0"), "value_published": f"{published.TABLE_5[name]:,}"}
        for name, value in ours.items()
    ]
    return PartTable(rows, ("system",), ("value",), "Words are separated by spaces.")


def significance(given: StudyInput) -> PartTable:
    """Table 6: Wilcoxon's signed-rank test over folds of planted worlds."""
    rows = [row for seed in range(given.repeats) for row in simulation.system_rows(seed)]
    return _significance_table(rows, f"{SAME} A cell is one of five folds of a world's new inputs.")


def significance_of_project(given: StudyInput) -> PartTable:
    """Return Wilcoxon's signed-rank test over the splits of a project."""
    note = f"A cell is one of {given.repeats} splits; with five or fewer, p is at least .06: raise --repeats."
    return _significance_table(_asked_of_project(given), note)


def _significance_table(rows: Sequence[Row], note: str) -> PartTable:
    tests = system_answers.wilcoxon(rows)
    for test in tests:
        gain, p = published.TABLE_6.get(test["against"], (None, None))
        test |= {"relative_published": gain, "p_published": None if p is None else f"{p:.2g}", "p": f"{test['p']:.2g}"}
    note = f"Gain of ADOROR in ρ, relative to the mean ρ of the other system, and p (two-sided). {note}"
    return PartTable(tests, ("against", "cells"), ("relative", "p"), note)


# --- figures 4 to 6 -------------------------------------------------------------------------------------------------

SHOWN = 100
"""Examples of the points in the chart of planted prompts."""


def carry_over(given: StudyInput) -> PartTable:
    """Figures 4 to 6 in planted worlds: prompts that err less about the examples, on new inputs."""
    rows: list[Row] = []
    drawn = [row for seed in range(given.repeats) for row in simulation.prompt_rows(seed)]
    for system in dict.fromkeys(row["system"] for row in drawn):
        own = [row for row in drawn if row["system"] == system]
        rhos = [row["spearman"] for row in own]
        means = {name: fmean(row[name] for row in own) for name in ("selected", "best", "mean")}
        rows.append({"system": system, **spread_of("spearman", rhos), **means})
    trained, new = simulation.prompt_errors(np.random.default_rng([0, 4]), 0)
    chart = _carry_over_chart(trained[:SHOWN].mean(axis=0).tolist(), new.mean(axis=0).tolist())
    note = (
        "Spearman's ρ over 80 prompts between the error about that many rated examples and the error about 300 new "
        "inputs. Then the held-out error of the prompt that is selected, of "
        "the best one, and of the mean one. The paper shows points without figures: a clear trend for USR and "
        "Zhao's data, none for most dimensions of FED."
    )
    return PartTable(
        rows, ("system",), ("spearman", "selected", "best", "mean"), note, {f"Prompts, {SHOWN} examples": chart},
        brackets=spread_name(given.repeats, "worlds"),
    )  # fmt: skip


def carry_over_of_project(given: StudyInput) -> PartTable:
    """Return the error of every tried prompt on the training side and on held-out examples of a project."""
    with rated_project(given) as (project, training):
        tried = settings_of(project).candidates + 1
        [(asked_rows, source)] = ask(project, training, [{"rivals": [f"prompt@{n}" for n in range(tried)]}])
        findings = source.findings_
        assert isinstance(findings, InContextFindings)
        question = training.question
    low, high = question.scale.numbers[0], question.scale.numbers[-1]
    held_out = {
        row["system"]: fmean(((answer - true) / (high - low)) ** 2 for answer, true in row["answers"])
        for row in asked_rows
        if row["answers"]
    }
    rows: list[Row] = [
        {"system": prompt.hash, "by": prompt.by, "training error": prompt.error,
         "held-out error": held_out.get(f"prompt@{place}")}
        for place, prompt in enumerate(findings.prompts)
    ]  # fmt: skip
    pairs = [(row["training error"], row["held-out error"]) for row in rows if row["held-out error"] is not None]
    rho = float(stats.spearmanr(pairs).statistic) if len(pairs) > 2 else None
    note = (
        f"Mean squared error on [0, 1] of each prompt about {findings.trained} training and {findings.tested} held-out "
        f"examples, with random demonstrations; Spearman's ρ of both is {'–' if rho is None else f'{rho:.2f}'}."
    )
    charts = {"Prompts": _carry_over_chart(*map(list, zip(*pairs, strict=True)))} if pairs else {}
    return PartTable(rows, ("system", "by"), ("training error", "held-out error"), note, charts)


def _carry_over_chart(trained: Sequence[float], held_out: Sequence[float]) -> Markup:
    points = ChartLine(trained, held_out, draws="points")
    return line_chart([points], Axis("error about the examples"), Axis("error about new inputs"), "Errors of prompts")


# --- prefix caches --------------------------------------------------------------------------------------------------


def prefixes(given: StudyInput) -> PartTable:
    """Text that repeats the request before, on Topical-USR."""
    return _prefix_table(_topical_usr(given)["overall"])


def prefixes_of_project(given: StudyInput) -> PartTable:
    """Text that repeats the request before, on the rated samples of a project."""
    with rated_project(given) as (project, training):
        return _prefix_table(system_answers.rated_examples(training, settings_of(project).level))


def _prefix_table(examples: RatedExamples) -> PartTable:
    rows = prefix_rows(examples)
    note = (
        "Requests of algorithm 1 (γ = 4, four prompts). Inputs per set: inputs that share a random set of "
        "demonstrations; 1 is the published algorithm. Accord sends shared text first, in order."
    )
    shown = [{**row, "inputs per set": row["together"]} for row in rows]
    return PartTable(shown, ("layout", "inputs per set", "requests"), ("shared",), note)


PAPER = Paper(
    "adoror",
    "ADOROR",
    "Pu, Cheng, Fan, Lv & Zhang: Just Adjust One Prompt: Enhancing In-Context Dialogue Scoring via Constructing the "
    "Optimal Subgraph of Demonstrations and Prompts. EMNLP 2023.",
    (
        Part(
            "table-1",
            "Table 1: baselines without prompts",
            baselines,
            baselines_of_project,
            GATHERED,
            ready=_has_documents,
        ),
        Part(
            "table-1-systems",
            "Table 1: prompts and demonstrations",
            systems,
            systems_of_project,
            GATHERED,
            _roles,
            _has_examples,
        ),
        Part("table-1-planted", "Table 1 in a planted world", planted_systems),
        Part(
            "figure-2",
            "Figure 2: prompts and demonstrations by chance",
            chance,
            chance_of_project,
            WITH_EMBEDDED,
            _roles,
            _has_examples,
        ),
        Part("table-2", "Table 2: FED", limits="FED is not in the data folder; gpt-3.5-turbo-0301 is no longer served"),
        Part("table-3", "Table 3: ablations", ablations, ablations_of_project, WITH_EMBEDDED, _roles, _has_examples),
        Part(
            "table-4",
            "Table 4, figures 7 to 10: γ, ζ and k",
            sensitivity,
            sensitivity_of_project,
            IN_PLANTED,
            _roles,
            _has_examples,
        ),
        Part("table-5", "Table 5: data", data_set, limits="only Topical-USR is in the data folder"),
        Part(
            "table-6", "Table 6: significance", significance, significance_of_project, IN_PLANTED, _roles, _has_examples
        ),
        Part(
            "carry-over",
            "Figures 4 to 6: prompts on new inputs",
            carry_over,
            carry_over_of_project,
            IN_PLANTED,
            _roles,
            _has_examples,
        ),
        Part(
            "prefixes",
            "Text that a prefix cache saves (not in the paper)",
            prefixes,
            prefixes_of_project,
            ready=_has_examples,
        ),
    ),
    (TOPICAL_USR,),
)
"""Parts of ADOROR."""

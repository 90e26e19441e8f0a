"""The parts of RUBICON's study: tables 1 to 3, the statistics of section 4.2, figures 4 and 5."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from markupsafe import Markup

from accord import Project
from accord.charts import Axis, ChartLine, Guide, line_chart
from accord.methods.learned_rubric.assertion_selector import NetSatOutcome
from accord.methods.learned_rubric.selection_policies import (
    UncertaintyWindow,
    curves,
)
from accord.models import JUDGE, WRITER
from accord_papers.catalog import Paper
from accord_papers.readiness import CheckedPart as Part
from accord_papers.rubicon import published
from accord_papers.rubicon.outcomes import HEADINGS, OF_PAPER
from accord_papers.rubicon.project_tables import RESAMPLES, ProjectTables, stability
from accord_papers.rubicon.recordings import SETS, Recorded, recorded_rows
from accord_papers.rubicon.simulation import INFORMATIVE, TEST, TRAIN, DrawnStudy, planted_rows, shared
from accord_papers.rubicon.writers import SIZE, planted_rubrics, recorded_rubrics, writer_rows
from accord_papers.study import PartTable, Row, StudyInput, interval_chart, spread_name, with_published

NAMES = {
    "accord": "RUBICON", "rubicon": "RUBICON", "targets pooled": "RUBICON, scaled targets",
    "correctness alone": "separation alone", "correctness": "separation alone", "brute-force": "brute force",
    "ucb": "UCB bandit", "all": "whole pool", "plain": "independent noise",
}  # fmt: skip
"""Names of systems and pools as shown."""
PRIVATE = "the paper's 100 conversations are private; other data take their place"
ORDER = "The published figures are those of the private conversations: compare the order of the rows, not the values."
SCALED = "Scaled targets: the curves of the sharpness loss are scaled to the spread of the scores."
RECORDED = (
    "Candidates are the options of each question that a judge answered, selected on one half of the dialogues and "
    "tested on the other."
)
MEASURES = (
    "ΔNetSAT: mean score of good conversations minus that of bad ones; it grows with the number of assertions. Yield: "
    "share of conversations labeled with the required precision (90% by default); as in the paper, the bounds of the "
    "labels are read off the tested conversations."
)
YIELD = (
    "Yield: share of conversations labeled with the required precision (90% by default). The paper reads the bounds of "
    "the labels off the tested conversations; the second column takes the bounds of the training side, and the third "
    "is the precision of the labels given with them."
)
CORRELATION = "r: correlation of the sums over assertions that speak for a conversation (SAT) and against one (DSAT)."
YIELDS = ("yield_rate", "yield_deployed", "precision_deployed")


def _table(rows: Iterable[Row], figures: Mapping[str, Sequence[float]], *notes: str, brackets: str = "") -> PartTable:
    """Return a table in the shape of the paper's, with charts of ΔNetSAT and yield for each data set."""
    shown = with_published(_named(rows), figures, OF_PAPER)
    failures = [f"{row['system']} failed: {row['failed']}." for row in shown if row.get("failed")]
    labels = ("dataset", "system") if any("dataset" in row for row in shown) else ("system",)
    note = " ".join([MEASURES, *notes, *failures])
    return PartTable(shown, labels, OF_PAPER, note, _charts(shown), HEADINGS, brackets)


def _named(rows: Iterable[Row]) -> list[Row]:
    """Return rows with the names of systems and pools as shown."""
    labels = ("dataset", "system")
    return [{**row, **{name: NAMES.get(row[name], row[name]) for name in labels if name in row}} for row in rows]


def _charts(rows: Sequence[Row]) -> dict[str, Markup]:
    charts = {}
    for dataset in dict.fromkeys(row.get("dataset") for row in rows):
        part = [row for row in rows if row.get("dataset") == dataset]
        for name, ends in (("delta_netsat", (None, None)), ("yield_rate", (0, 1))):
            title = HEADINGS[name] + (f", {dataset}" if dataset else "")
            charts[title] = interval_chart(part, name, title, Axis(title, *ends))
    return charts


def _data(given: StudyInput) -> Path:
    """Return the folder of both data sets with recorded answers."""
    return given.parent_of(*SETS)


def _tables(given: StudyInput) -> ProjectTables:
    project = given.required_project()
    train, _ = project.training(project.evaluator("learned-rubric"))
    return ProjectTables(project, train)


def _roles(project: Project) -> tuple[str, ...]:
    """Return the models that learn a rubric; a given pool of assertions needs no writer."""
    has_pool = project.config.settings_of("learned-rubric").get("pool") is not None
    return (JUDGE,) if has_pool else (WRITER, JUDGE)


def table_1(given: StudyInput) -> PartTable:
    """Table 1: the learned rubric, the judge asked directly, SPUR's rubric and given rubrics."""
    return _table(_tables(given).table_1(), published.TABLE_1, ORDER)


RECORDED_WRITER = (
    "Nobody wrote assertions here. Recorded writer: the candidates are the options of the questions that a recorded "
    "judge answered (`llm_rubric_real`: 9 questions; `abc_eval`: 9 behaviors, two judges). RUBICON selects among them "
    "on one half of the dialogues; `all questions` is the rubric as its experts wrote it, `judge asked directly` is "
    "LLM-RUBRIC's question Q0 alone. Planted pool: a script wrote the assertions and knows which are informative; "
    "`whole pool` keeps all of them. Size: number of assertions. Brackets: range of the halvings, or 95% intervals of "
    "the planted pools. To run it with a model as writer and judge: --project."
)
SIZED = (*OF_PAPER, SIZE)


def table_1_recorded(given: StudyInput) -> PartTable:
    """Table 1 with a recorded writer, and on planted pools."""
    rows = _named([*recorded_rubrics(_data(given), given.repeats), *planted_rubrics(given.repeats)])
    shown = with_published(rows, published.TABLE_1, OF_PAPER)
    return PartTable(shown, ("dataset", "system"), SIZED, f"{MEASURES} {RECORDED_WRITER} {ORDER}", _charts(shown),
                     HEADINGS)  # fmt: skip


SCRIPTED = (
    "Scripted writers on planted pools of independent assertions. Weak: the share of a writer's informative assertions "
    "that hold for every conversation instead, as the paper describes assertions without domain or principles. It is "
    "set, not measured: the rows show what the selection saves of a weaker writer. Size: number of assertions. The "
    "prompts themselves need a model: --project."
)


def table_2_scripted(given: StudyInput) -> PartTable:
    """Table 2 with scripted writers on planted pools."""
    rows = with_published(writer_rows(given.repeats), published.TABLE_2, OF_PAPER)
    return PartTable(rows, ("dataset", "system", "weak"), SIZED, f"{MEASURES} {SCRIPTED} {ORDER}", _charts(rows),
                     HEADINGS)  # fmt: skip


def table_2(given: StudyInput) -> PartTable:
    """Table 2: prompts without the design principles, without the task description, and without both."""
    return _table(_tables(given).table_2(), published.TABLE_2, ORDER)


def table_3(given: StudyInput) -> PartTable:
    """Table 3: selection policies on the pool of a project."""
    return _table(_tables(given).table_3(), published.TABLE_3, ORDER)


def table_3_recorded(given: StudyInput) -> PartTable:
    """Table 3: selection policies on recorded answers."""
    rows = recorded_rows(_data(given), given.repeats)
    return _table(rows, published.TABLE_3, RECORDED, SCALED, ORDER, brackets=spread_name(given.repeats, "halvings"))


def pools(given: StudyInput) -> PartTable:
    """Table 3 on drawn pools, in which the informative assertions are known."""
    rows = _named(planted_rows(given.repeats))
    note = (
        f"Each pool has {INFORMATIVE} informative assertions per class among noise, assertions that always hold, and "
        f"assertions that fit a few of the {TRAIN} training conversations. With shared noise, {INFORMATIVE} more per "
        "class separate the classes better, but err on the same conversations. Informative: share of informative "
        "assertions in the selection; found: share of the informative assertions that were selected. Brackets: 95% "
        f"interval of the mean of {given.repeats} pools, each with {TEST} test conversations."
    )
    statistics, headings = ("informative", "found", *OF_PAPER), {**HEADINGS, "dataset": "pool"}
    return PartTable(rows, ("dataset", "system"), statistics, f"{MEASURES} {note} {SCALED}", _charts(rows), headings)


def section_4_2(given: StudyInput) -> PartTable:
    """Section 4.2 for a project: yield without the tested labels, and the correlation of SAT and DSAT."""
    return _yields(_tables(given).table_3(), (*YIELDS, "sat_dsat"), YIELD, CORRELATION, ORDER)


def section_4_2_recorded(given: StudyInput) -> PartTable:
    """Section 4.2 on recorded answers: yield without the tested labels.

    The correlation is left out: options of one question are candidates of both classes, which correlate by definition.
    """
    rows = recorded_rows(_data(given), given.repeats)
    note = "The correlation of SAT and DSAT needs a project."
    return _yields(rows, YIELDS, YIELD, RECORDED, note, ORDER, brackets=spread_name(given.repeats, "halvings"))


def _yields(rows: Iterable[Row], statistics: Sequence[str], *notes: str, brackets: str = "") -> PartTable:
    figures = {"RUBICON": (published.RUBICON[1], None, None, published.SAT_DSAT)}
    shown = with_published(_named(rows), figures, statistics)
    labels = ("dataset", "system") if any("dataset" in row for row in shown) else ("system",)
    return PartTable(shown, labels, statistics, " ".join(notes), headings=HEADINGS, brackets=brackets)


def precision_curves(given: StudyInput) -> PartTable:
    """Figures 4 and 5 on a drawn pool, where two selections differ, and on recorded answers."""
    folder = _data(given)
    drawn = DrawnStudy(shared(np.random.default_rng(0), TEST), 0)
    outcomes = {("drawn pool with shared noise", name): drawn.outcome(name) for name in ("accord", "correctness alone")}
    outcomes |= {(name, "accord"): Recorded.load(folder, name).outcomes(0)["accord"] for name in SETS}
    return _curve_table(outcomes)


def precision_curves_of_project(given: StudyInput) -> PartTable:
    """Figures 4 and 5 for a project: every selection policy on the held-out side."""
    return _curve_table({("project", name): outcome for name, outcome in _tables(given).outcomes().items()})


def _curve_table(outcomes: Mapping[tuple[str, str], NetSatOutcome]) -> PartTable:
    rows: list[Row] = []
    charts = {}
    for (dataset, system), outcome in outcomes.items():
        name = NAMES.get(system, system)
        window = UncertaintyWindow.read(outcome.scores, outcome.good, outcome.threshold, outcome.precision)
        low, high = (end if np.isfinite(end) else None for end in (window.low, window.high))
        share = float(((outcome.scores > window.low) & (outcome.scores <= window.high)).mean())
        rows.append({"dataset": dataset, "system": name, "threshold": outcome.threshold, "low": low, "high": high,
                     "share": share})  # fmt: skip
        title = f"Precision by threshold: {name}, {dataset}"
        charts[title] = _curve_chart(outcome, title)
    headings = {"threshold": "threshold", "low": "bad up to", "high": "good above", "share": "share in between"}
    note = (
        "Scores up to the first bound are labeled bad, and above the second one good, with the required precision; "
        "– if no bound is precise enough. A sharp rubric leaves few scores in between. In the charts, the "
        "vertical line is the threshold of the training side; dashed: the curves that the selection aims at."
    )
    return PartTable(rows, ("dataset", "system"), tuple(headings), note, charts, headings)


def _curve_chart(outcome: NetSatOutcome, title: str) -> Markup:
    theta, above, below = curves(outcome.scores, outcome.good)
    share, grid = float(outcome.good.mean()), np.linspace(theta[0], theta[-1], 200)
    step = np.tanh(grid - outcome.threshold)
    aims = {"s2": share + (1 - share) * (1 + step) / 2, "s1": 1 - share + share * (1 - step) / 2}
    found = {"s2": ("good, of scores above", above), "s1": ("bad, of scores up to", below)}
    lines = [ChartLine(theta.tolist(), values.tolist(), kind=kind, name=name) for kind, (name, values) in found.items()]
    lines += [ChartLine(grid.tolist(), values.tolist(), kind=kind, is_dashed=True) for kind, values in aims.items()]
    guides = [Guide(outcome.threshold)]
    return line_chart(lines, Axis("threshold on NetSAT"), Axis("share", 0, 1, True), title, guides=guides)


def selection_stability(given: StudyInput) -> PartTable:
    """Share of resampled training sides on which each assertion of the pool is selected."""
    rows = stability(_tables(given).learned())
    note = f"Share of {RESAMPLES} bootstrap samples of the training conversations in which an assertion is selected."
    return PartTable(rows, ("assertion", "class", "selected"), ("share",), note)


PAPER = Paper(
    "rubicon",
    "RUBICON",
    "Biyani, Bajpai, Radhakrishna, Soares & Gulwani: RUBICON: Rubric-Based Evaluation of Domain-Specific Human-AI "
    "Conversations. AIware 2024.",
    (
        Part("figure-1", "Figure 1: conversations with assertions",
             limits="the conversations are private; accord report shows conversations for and against each assertion"),
        Part("table-1", "Table 1: rubrics", table_1_recorded, table_1, PRIVATE, _roles, _tables),
        Part("bing", "Table 1, rows BING and BING, adapted",
             limits="the rubrics are not printed in the paper; the setting learned-rubric: {rivals: [FILE]} adds a "
             "rubric of your own to table 1"),
        Part("table-2", "Table 2: ablations of the prompts", table_2_scripted, table_2, PRIVATE, _roles, _tables),
        Part("table-3", "Table 3: selection policies", table_3_recorded, table_3, PRIVATE, _roles, _tables),
        Part("pools", "Table 3 on drawn pools, in which the informative assertions are known", pools),
        Part("section-4-2", "Section 4.2: yield and correlation of SAT and DSAT", section_4_2_recorded, section_4_2,
             PRIVATE, _roles, _tables),
        Part("figures-4-5", "Figures 4 and 5: precision by threshold", precision_curves, precision_curves_of_project,
             PRIVATE, _roles, _tables),
        Part("stability", "Stability of the selection (not in the paper)", None, selection_stability,
             roles=_roles, ready=_tables),
    ),
    ("llm_rubric_real", "abc_eval"),
)  # fmt: skip
"""Parts of RUBICON."""

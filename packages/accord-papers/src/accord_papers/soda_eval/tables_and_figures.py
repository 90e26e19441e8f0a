"""The parts of SODA-EVAL's study: figures 1 to 8, tables 2, 4, 6, 8 and 13, and ABC-Eval."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from accord import Project
from accord.edges import BadInput
from accord.project import Compared, config_from, corrected_pairs, issues_of
from accord.project.finetuning import annotated_pairs
from accord.report.issues_page import issue_plots
from accord.store import Studies
from accord.studies import (
    ANALYSIS,
    load_outcome,
)
from accord.studies.human_studies import DETECTION, OVERALL
from accord.studies.shipped_studies import study_answers
from accord.validation import summarize_issues
from accord.values import Estimate, Question, Rubric, Scale
from accord_papers.catalog import Paper
from accord_papers.readiness import CheckedPart as Part
from accord_papers.soda_eval.abc_eval import abc_eval_rows
from accord_papers.soda_eval.figures import REVISION_STATISTICS, error_chart, reduction_chart, revision_rows
from accord_papers.soda_eval.later_turns import later_turns_rows
from accord_papers.soda_eval.whole_run import DIALOGUES, recorded_run
from accord_papers.study import PartTable, Row, StudyInput, columns_of, interval_chart, spread_name

FIGURE_1 = {"Coherence": 0.0693, "Engagement": 0.0650}
"""Shares of responses with an issue; the text of the paper states these two."""
WITHOUT_ISSUES = 0.7460
TABLE_2 = {
    "None": 0.71, "Coherence": 0.14, "Commonsense": 0.12, "Repetition": 0.08, "Relevance": 0.0, "Fluency": 0.0,
    "Other": 0.06,
}  # fmt: skip
"""Shares of responses of SODA with each kind of issue."""
TABLE_4 = {"initial": (0.7455, 0.7303), "revised": (0.8601, 0.8248)}
"""Spearman's ρ of an annotator with the mean of all, and of the mean with the model."""
TABLE_6 = (0.2965, 0.5938)
"""Spearman's ρ of Phi-3-mini on SODA-EVAL-TEST: instruction-tuned, and fine-tuned on SODA-EVAL."""
TABLE_13 = {
    "Commonsense": (0.7333, 0.8667), "Repetition": (0.6111, 0.8333), "Antisocial": (1.0, 1.0), "Fluency": (1.0, 1.0),
    "Non-textual": (1.0, 1.0),
}  # fmt: skip
"""Share of valid detections by majority, and unless all annotators agree on the contrary."""
KAPPA = 0.359
"""Mean Cohen's κ of annotators on detections."""
NO_ANNOTATIONS = "the annotations of SODA-EVAL and the models of the paper are on a model hub only"


def _estimates(row: Row, figures: Mapping[str, Estimate]) -> Row:
    """Return a row with estimates as columns and their ends."""
    for name, estimate in figures.items():
        row |= columns_of(name, estimate)
    return row


def issue_statistics(given: StudyInput) -> PartTable:
    """Figures 1 to 5 and 8: kinds of issues, issues per response, scores of turns and dialogues."""
    project = given.required_project()
    pairs, taxonomy = corrected_pairs(project), issues_of(project).taxonomy
    conversations = list({conversation.id: conversation for conversation, _ in pairs}.values())
    found = summarize_issues([each for _, each in pairs], conversations, taxonomy)
    rows: list[Row] = [
        {"kind": "no issue", "turns": found.turns, "share": found.without_issues, "share_published": WITHOUT_ISSUES}
    ]
    rows += [
        {"kind": kind.type, "turns": kind.turns, "share": kind.share, "score": kind.mean_score,
         "share_published": FIGURE_1.get(kind.type)}
        for kind in found.types
    ]  # fmt: skip
    note = "The published shares are those of GPT-4's annotations of SODA."
    return PartTable(rows, ("kind", "turns"), ("share", "score"), note, dict(issue_plots(found, taxonomy)))


def table_2(given: StudyInput) -> PartTable:
    """Table 2: share of replies in which annotators mark each kind of issue."""
    project = given.required_project()
    with closing(Studies(project.store)) as studies:
        outcome = load_outcome(project, ANALYSIS, studies)
    rows = [
        _estimates({"kind": kind["type"], "replies": kind["replies"], "share_published": TABLE_2[kind["type"]]},
                   {"share": kind["share"]})
        for kind in outcome.results["types"]
    ]  # fmt: skip
    return PartTable(rows, ("kind", "replies"), ("share",), "The published shares are those of 100 dialogues of SODA.")


def figures_6_and_7(given: StudyInput) -> PartTable:
    """Figures 6 and 7: errors of each annotator before and after the issues are shown, by the model's score."""
    project = given.required_project()
    with closing(Studies(project.store)) as studies:
        rows = revision_rows(*study_answers(project, OVERALL, studies), seed=project.config.seed)
    note = "Errors are distances from the model's score; `step` is the revised minus the initial rating."
    charts = {"Error per annotator": error_chart(rows), "Error reduction per annotator": reduction_chart(rows)}
    return PartTable(rows, ("annotator", "score", "ratings"), REVISION_STATISTICS, note, charts)


def table_13(given: StudyInput) -> PartTable:
    """Section 4.2.1 and table 13: share of detections that annotators call valid."""
    project = given.required_project()
    with closing(Studies(project.store)) as studies:
        outcome = load_outcome(project, "detection", studies)
    rows: list[Row] = []
    for kind in outcome.results["types"]:
        row: Row = {"kind": kind["type"], "turns": kind["examples"]}
        row = _estimates(row, {"majority": kind["majority"], "all_agree": kind["all_agree"]})
        row["majority_published"], row["all_agree_published"] = TABLE_13.get(kind["type"], (None, None))
        rows.append(row)
    kappa = outcome.results["cohen_kappa"]
    note = f"Mean κ of annotators: {kappa.text(3, 3)}; published {KAPPA}."
    headings = {"majority": "valid (majority)", "all_agree": "valid (unless all say bad)"}
    return PartTable(rows, ("kind", "turns"), ("majority", "all_agree"), note, headings=headings)


def table_4(given: StudyInput) -> PartTable:
    """Table 4: agreement on scores before and after the annotators see the issues."""
    project = given.required_project()
    with closing(Studies(project.store)) as studies:
        outcome = load_outcome(project, "overall", studies)
    rows: list[Row] = []
    for stage in ("initial", "revised"):
        figures = {name: outcome.results[stage][name] for name in ("agreement_with_all", "agreement_with_model")}
        published = dict(zip((f"{name}_published" for name in figures), TABLE_4[stage], strict=True))
        rows.append(_estimates({"stage": stage}, figures) | published)
    headings = {"agreement_with_all": "annotator with mean of all", "agreement_with_model": "mean of all with model"}
    return PartTable(rows, ("stage",), tuple(headings), "Spearman's ρ.", headings=headings)


# --- a whole run on recorded data -------------------------------------------------------------------------------------

RECORDED = (
    f"The first {DIALOGUES} dialogues of ABC-Eval. The finder is ChatGPT, whose recorded decisions on nine behaviors "
    "become issues; people are ABC-Eval's two annotators, whose marks answer the studies by a script. The published "
    "figures are of other dialogues, another finder and other people."
)
SCRIPTED = (
    "The second stage is a rule, not a rating: an annotator who sees the issues accepts those that the other annotator "
    "marked too."
)
NO_SODA = "on the public data ABC-Eval in place of SODA-EVAL's annotations and answers, which are on a model hub only"


@lru_cache(2)
def recorded_tables(folder: Path) -> Mapping[str, PartTable]:
    """Return the tables that read a finder's issues and people's answers, from one run on ABC-Eval."""
    with recorded_run(folder) as project:
        given = StudyInput(project=project)
        return {name: part(given) for name, part in OF_STUDIES.items()}


def _recorded(name: str, given: StudyInput) -> PartTable:
    table = recorded_tables(given.folder("abc_eval"))[name]
    scripted = f" {SCRIPTED}" if name in ("table-4", "figures-6-7") else ""
    return replace(table, note=f"{table.note} {RECORDED}{scripted}".strip())


OF_STUDIES: Mapping[str, Callable[[StudyInput], PartTable]] = {
    "figures": issue_statistics, "table-2": table_2, "table-4": table_4, "figures-6-7": figures_6_and_7,
    "table-13": table_13,
}  # fmt: skip
"""Parts about a finder's issues and people's answers, by name."""


def _has_issues(given: StudyInput) -> None:
    """Check that the project has annotations of issues."""
    annotated_pairs(given.required_project())


def _has_study(flow: str, given: StudyInput) -> None:
    """Check that a study of the project was started and has answers."""
    project = given.required_project()
    with closing(Studies(project.store)) as studies:
        if not load_outcome(project, flow, studies).examples:
            raise BadInput(f"study {flow!r} has no complete answers yet")


def _has_ratings(given: StudyInput) -> None:
    """Check that the project has ratings of its main question."""
    project = given.required_project()
    if not any(label.question == project.question.id for label in project.store.labels()):
        raise BadInput(f"the project has no ratings of {project.question.id!r}; import some: accord import FILE")


def _correlations(found: Compared) -> list[Row]:
    """Return Spearman's ρ and Pearson's r of each system of a comparison with single ratings, Accord's first."""
    rows = []
    for place, result in enumerate(found.comparison.results):
        name = f"Accord ({result.evaluator})" if place == 0 else result.evaluator
        row: Row = {"system": name, "n": result.n}
        rows.append(_estimates(row, {name: result.estimates[name] for name in ("spearman", "pearson")}))
    return rows


def correlations(given: StudyInput) -> PartTable:
    """Tables 6 and 8 on a project: correlation of every evaluator with ratings it did not learn from."""
    project = given.required_project()
    return _table_8(project)


def correlations_on_topical(given: StudyInput) -> PartTable:
    """Tables 6 and 8 on Topical-USR, overall quality of replies."""
    text = "What is the overall quality of the reply?"
    rubric = Rubric(name="topical-usr", main="Overall", questions=(
        Question(id="Overall", text=text, scale=Scale(options=(1, 2, 3, 4, 5))),))  # fmt: skip
    with Project(config_from({"store": "sqlite:///:memory:", "metrics": ["lexical"]}), rubric) as project:
        project.import_([given.folder("topical_usr")])
        return _table_8(project)


def _table_8(project: Project) -> PartTable:
    rows = _correlations(project.compare())
    note = (
        "Correlations with single ratings of replies that the evaluator did not learn from. The paper reports, on data "
        "and with models that are not here: Phi-3-mini fine-tuned on SODA-EVAL ρ = .594 on its test set, .491 on FED, "
        ".355 on DSTC10-TC; GPT-4-Turbo .586 on FED, .406 on DSTC10-TC. To fine-tune a model: accord finetune."
    )
    charts = {"Spearman's ρ with ratings": interval_chart(rows, "spearman", "Spearman's ρ")}
    return PartTable(rows, ("system", "n"), ("spearman", "pearson"), note, charts)


def abc_eval(given: StudyInput) -> PartTable:
    """Issues called on ABC-Eval: a recorded judge, and its calibration with people's labels."""
    rows = abc_eval_rows(given.folder("abc_eval"), given.repeats)
    shown = [
        {**row, "f1": row.get("macro_f1", row.get("f1")), "f1_low": row.get("macro_f1_low", row.get("f1_low")),
         "f1_high": row.get("macro_f1_high", row.get("f1_high"))}
        for row in rows
    ]  # fmt: skip
    note = "Halvings of whole dialogues. This set replaces SODA-EVAL's own annotations, which are on a model hub only."
    headings = {"f1": "F1 (macro: mean over kinds)", "alpha": "α with people"}
    return PartTable(
        shown, ("system", "issue"), ("f1", "precision", "recall", "alpha"), note, headings=headings,
        brackets=spread_name(given.repeats, "halvings"),
    )  # fmt: skip


def later_turns(given: StudyInput) -> PartTable:
    """Requests of both ways to annotate a dialogue, and the gain from the turn after a reply."""
    rows = later_turns_rows(given.folder("abc_eval"), given.repeats)
    note = (
        "The paper annotates a reply from the turns before it; one request about the whole dialogue lets the model "
        "read on. Gains are over the turns before the reply; a turn of another dialogue is the control."
    )
    statistics = ("requests", "input_tokens", "output_tokens", "auc", "auc_gain", "f1_gain")
    headings = {"auc": "AUC", "auc_gain": "gain in AUC", "f1_gain": "gain in F1"}
    brackets = spread_name(given.repeats, "halvings")
    return PartTable(rows, ("what", "system", "count"), statistics, note, headings=headings, brackets=brackets)


PAPER = Paper(
    "soda-eval",
    "SODA-EVAL",
    "Mendonça, Trancoso & Lavie: Soda-Eval: Open-Domain Dialogue Evaluation in the age of LLMs. EMNLP Findings 2024.",
    (
        Part("figures", "Figures 1 to 5 and 8: issues and scores", partial(_recorded, "figures"), issue_statistics,
             NO_SODA, ready=_has_issues),
        Part("table-2", "Table 2: issues that people find", partial(_recorded, "table-2"), table_2, NO_SODA,
             ready=partial(_has_study, ANALYSIS)),
        Part("table-4", "Table 4: overall assessment by people", partial(_recorded, "table-4"), table_4, NO_SODA,
             ready=partial(_has_study, OVERALL)),
        Part("figures-6-7", "Figures 6 and 7: ratings before and after the issues are shown",
             partial(_recorded, "figures-6-7"), figures_6_and_7, NO_SODA, ready=partial(_has_study, OVERALL)),
        Part("table-6", "Table 6: evaluators on SODA-EVAL-TEST", limits=NO_ANNOTATIONS),
        Part("table-7", "Table 7: validity of explanations on SODA-EVAL-TEST", limits=NO_ANNOTATIONS),
        Part("table-8", "Table 8: correlation with ratings of replies", correlations_on_topical, correlations,
             limits="FED and DSTC10-TC are not among the public data sets here", ready=_has_ratings),
        Part("table-13", "Section 4.2.1 and table 13: detections validated by people", partial(_recorded, "table-13"),
             table_13, NO_SODA, ready=partial(_has_study, DETECTION)),
        Part("abc-eval", "Issues against people: ABC-Eval", abc_eval),
        Part("later-turns", "Section 4: turns that the model reads", later_turns),
    ),
    ("abc_eval", "topical_usr"),
)  # fmt: skip
"""Parts of SODA-EVAL."""

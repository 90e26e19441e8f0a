"""The parts of LLM-RUBRIC's study, on its data and on a project: tables 1 to 5, figures 2, 4, 5, appendices A, B."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from accord.charts import Axis, ChartLine, line_chart
from accord.edges import BadInput
from accord.evidence.bank.reply_metrics import BANK
from accord.evidence.metric_source import measure
from accord.formats import read
from accord.learning import Calibration
from accord.report.report import reliability_curve
from accord.statistics import Clusters, diagrams
from accord.statistics.agreement import lowest_rmse
from accord.values import Rubric, Sample
from accord_papers.catalog import Paper
from accord_papers.llm_rubric import ablations, annotators, distillation, published
from accord_papers.llm_rubric.marks import drops, superscripts
from accord_papers.llm_rubric.own_project import own_set, roles, systems_of
from accord_papers.llm_rubric.protocols import (
    FOLD_SEEDS,
    DataSet,
    all_systems,
    asked_always,
    attempted,
    both,
    check_manifest,
    cross_validated,
    fold_rows,
    learned,
    transferred,
)
from accord_papers.readiness import CheckedPart as Part
from accord_papers.study import PartTable, Row, StudyInput, interval_chart, table_with_reasons, with_published

MOST_RATINGS, MOST_SHOWN = 30, 12
"""Figure 2 shows annotators with at least this many dialogues; on a project, about this many annotators."""
ORDER = (
    "The published figures are those of the paper's real dialogues: compare the order of the rows, not the values. "
    "Every rating is predicted without its group of conversations; the evidence is the judge's stored answers."
)
LEAST = "least_rmse"
BOUND = (
    f"`{LEAST}`: every prediction with Pearson's r has RMSE ≥ SD·√(1 - r²); this is the bound of each row at its "
    "published r, on the released ratings. A published RMSE below it cannot be reached with that r. Accord's RMSE is "
    "below it only where Accord's r is higher."
)

SHIFTS = (
    "Shift by system: on the synthetic dialogues Accord removes the bias of each chat system on inner folds (footnote "
    "17). Compare rows with the shift with each other, `accord` among them, and rows without it; the published network "
    "has none."
)

SUPERSCRIPTS = (
    "Marks: numbers of the rows with a worse RMSE or r, in paired permutation tests over dialogues with p < .05 that "
    "are not corrected, as in the paper: 1 random, 2 judge-argmax, 3 judge-expected, 4 calibrated Q0 alone, 6 accord."
)
DROPS = "▽: worse than `accord`, p < .05, not corrected, as in the paper; rows of the network are not tested."
MARK_HEADINGS = {"printed": "marks in the paper"}


def _sets(given: StudyInput) -> tuple[DataSet, DataSet]:
    """Return the synthetic and the real dialogues."""
    synth, real = both(given.parent_of("llm_rubric_synth", "llm_rubric_real"))
    check_manifest(synth)
    return synth, real


def _seeds(given: StudyInput) -> list[int]:
    return [FOLD_SEEDS[0] + seed for seed in range(given.repeats)]


def table_1(given: StudyInput) -> PartTable:
    """Table 1: systems and baselines, cross-validated on the synthetic and tested on the real dialogues."""
    synth, real = _sets(given)
    rows: list[Row] = []
    charts = {}
    for data, protocol in ((synth, "S"), (real, "T")):
        systems = all_systems(synth.question, new_domain=data is real)
        found = {
            name: transferred(predict, synth, real) if data is real else cross_validated(predict, synth, _seeds(given))
            for name, predict in systems.items()
        }
        part = beside_paper(fold_rows(protocol, data, found), data, published.TABLE_1[data.name])
        marks, printed = superscripts(data, found), published.MARKS_1[data.name]
        part = [{**row, "marks": marks.get(row["system"]) or None, "printed": printed.get(row["system"])}
                for row in part]  # fmt: skip
        charts[f"RMSE on {data.name}"] = interval_chart(part, "rmse", "RMSE")
        rows += part
    labels, note = ("dataset", "system", "marks", "printed"), f"{SUPERSCRIPTS} {SHIFTS} {BOUND}"
    return PartTable(rows, labels, (*published.STATISTICS, LEAST), note, charts, MARK_HEADINGS)


def beside_paper(rows: Sequence[Row], data: DataSet, figures: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return rows with the paper's figures, and the least RMSE of any prediction with the published r."""
    found = with_published(rows, figures, published.STATISTICS)
    return [
        row if (r := row.get("pearson_published")) is None else {**row, LEAST: lowest_rmse(data.rated.value, r)}
        for row in found
    ]


def table_1_of_project(given: StudyInput) -> PartTable:
    """Table 1 on a project, cross-validated."""
    data = own_set(given).data
    runs = {name: partial(cross_validated, predict, data, _seeds(given))
            for name, predict in systems_of(data).items()}  # fmt: skip
    found, missing = attempted(runs, {"dataset": data.name})
    rows = with_published(fold_rows("own", data, found), published.TABLE_1["llm_rubric_real"], published.STATISTICS)
    marks = superscripts(data, found)
    rows = [{**row, "marks": marks.get(row["system"]) or None} for row in rows]
    charts = {"RMSE": interval_chart(rows, "rmse", "RMSE")}
    note = f"{SUPERSCRIPTS} {ORDER}"
    return table_with_reasons([*rows, *missing], ("system", "n", "marks"), published.STATISTICS, note, charts)


def oracle(given: StudyInput) -> PartTable:
    """Table 1, rows a to f, on the synthetic dialogues; rows a to d on the real ones."""
    (synth, real), rubric, seeds = _sets(given), asked_always(), _seeds(given)
    parts = (
        (synth, ablations.oracle(synth, rubric, seeds), synth.name),
        (real, ablations.oracle(synth, rubric, seeds, real), real.name),
        (real, ablations.oracle(real, rubric, seeds), f"{real.name}, 5-fold"),
    )
    rows = [{**row, "dataset": name} for data, found, name in parts
            for row in beside_paper(found, data, published.TABLE_1[data.name])]  # fmt: skip
    note = (
        "llm_rubric_real: trained on the synthetic dialogues, as the paper says. 5-fold: trained on other real "
        "dialogues; the published r is near these rows. Rows e and f need several annotators of a dialogue, and real "
        f"dialogues have one. {BOUND}"
    )
    return PartTable(rows, ("dataset", "system", "n"), (*published.STATISTICS, LEAST), note)


def oracle_of_project(given: StudyInput) -> PartTable:
    """Table 1, rows a to f, on a project; e and f need texts with several annotators."""
    own = own_set(given)
    data, told = own.data, own.told
    others = {question.id for question in told.questions} - {told.main}
    if not any(label.question in others for label in data.labels):
        raise BadInput(
            f"no annotator answered another question than {told.main!r}; an oracle needs such answers. Import some: "
            "accord import"
        )
    rows = ablations.oracle(data, told, _seeds(given))
    note = "Rows e and f need texts with several annotators. " if len(rows) < 6 else ""
    rows = with_published(rows, published.TABLE_1["llm_rubric_real"], published.STATISTICS)
    return PartTable(rows, ("system", "n"), published.STATISTICS, f"{note}{ORDER}")


def table_2(given: StudyInput) -> PartTable:
    """Table 2: ablations on the real dialogues, as published, and on the synthetic ones."""
    synth, real = _sets(given)
    rows = ablations.ablations(synth, asked_always(), _seeds(given), real)
    rows = beside_paper(rows, real, published.TABLE_2)
    shown = _with_drops(rows)
    for row in shown:
        row["printed"] = published.MARKS_2 if row["system"] in published.MARKED_2 else None
    shown += _with_drops(ablations.ablations(synth, asked_always(), _seeds(given)))
    note = f"{DROPS} All rows on the synthetic dialogues have the shift by system. {BOUND}"
    labels = ("dataset", "system", "marks", "printed")
    return PartTable(shown, labels, ("rmse", "pearson", LEAST), note, headings=MARK_HEADINGS)


def _with_drops(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of systems with the marks of table 2; tests become marks."""
    marks = drops([row for row in rows if "against" in row])
    return [{**row, "marks": marks.get(row["system"]) or None} for row in rows if "against" not in row]


def table_2_of_project(given: StudyInput) -> PartTable:
    """Table 2 on a project: without personalization, without each question, and without parts of the network."""
    own = own_set(given)
    data, rubric = own.data, own.rubric
    rows = _with_drops(ablations.ablations(data, rubric, _seeds(given)))
    figures = {name: pair for name, pair in published.TABLE_2.items() if not name.startswith("accord, without Q")}
    return table_with_reasons(
        with_published(rows, figures, ("rmse", "pearson")),
        ("system", "n", "marks"),
        ("rmse", "pearson"),
        f"{DROPS} {ORDER}",
    )


def table_3(given: StudyInput) -> PartTable:
    """Table 3: each question as the main one, on the real dialogues as published, and on the synthetic ones."""
    synth, real = _sets(given)
    rows = ablations.questions(synth, asked_always(), _seeds(given), real)
    for row in rows:
        if row["system"] == "judge-expected":
            row["rmse_published"], row["pearson_published"] = published.TABLE_3[row["question"]]
    rows += ablations.questions(synth, asked_always(), _seeds(given))
    note = "The published figures are those of the judge's expected answer."
    return PartTable(rows, ("dataset", "question", "system"), ("rmse", "pearson"), note)


def table_3_of_project(given: StudyInput) -> PartTable:
    """Table 3 on a project: each question with enough ratings, on the texts for which the judge answered it."""
    own = own_set(given)
    rows = ablations.questions(own.data, own.rubric, _seeds(given))
    return table_with_reasons(rows, ("question", "system", "n"), ("rmse", "pearson"))


def means(given: StudyInput) -> PartTable:
    """Tables 4 and 5: annotators' mean answers per system and question."""
    rows: list[Row] = []
    for name, figures in (("llm_rubric_synth", published.TABLE_4), ("llm_rubric_real", published.TABLE_5)):
        for row in annotators.means_of(given.folder(name)):
            row["mean_published"] = figures.get(row["system"], {}).get(row["question"])
            rows.append({**row, "dataset": name})
    return PartTable(rows, ("dataset", "system", "question", "n"), ("mean", "sd"))


def means_of_project(given: StudyInput) -> PartTable:
    """Annotators' mean answers per system and question of a project, with a chart of each question."""
    project = given.required_project()
    rows = annotators.mean_rows(project.store.conversations(), project.store.labels())
    charts = {}
    for question in dict.fromkeys(row["question"] for row in rows):
        part = [row for row in rows if row["question"] == question]
        charts[f"mean of {question}"] = interval_chart(part, "mean", f"mean answer to {question}")
    return PartTable(rows, ("system", "question", "n"), ("mean", "sd"), charts=charts)


def figure_2(given: StudyInput) -> PartTable:
    """Figure 2: distribution of each annotator's answers to Q0, actual and predicted out of fold."""
    return _distributions(_sets(given)[0], MOST_RATINGS)


def figure_2_of_project(given: StudyInput) -> PartTable:
    """Figure 2 on a project: the annotators with the most ratings."""
    data = own_set(given).data
    counts = sorted(Counter(map(str, data.rated.annotator)).values(), reverse=True)
    return _distributions(data, counts[:MOST_SHOWN][-1])


def _distributions(data: DataSet, fewest: int) -> PartTable:
    """Return the answers of annotators with at least this many ratings."""
    rated = data.rated
    [paired] = cross_validated(learned(partial(Calibration, data.question, "mixed")), data, [FOLD_SEEDS[0]])
    rows: list[Row] = []
    charts = {}
    for name, count in sorted(Counter(map(str, rated.annotator)).items()):
        if count < fewest:
            continue
        mine = rated.annotator == name
        actual = np.bincount(paired.answer[mine], minlength=len(paired.options)) / count
        predicted = paired.probabilities[mine].mean(axis=0)
        for option, share, expected in zip(paired.options, actual, predicted, strict=True):
            rows.append({"annotator": name, "n": count, "answer": f"{option:g}", "actual": float(share),
                         "predicted": float(expected)})  # fmt: skip
        options = paired.options.tolist()
        lines = [ChartLine(options, actual.tolist(), kind="people", name="actual"),
                 ChartLine(options, predicted.tolist(), name="predicted")]  # fmt: skip
        title = f"Answers of {name} to {data.question.id}"
        charts[title] = line_chart(lines, Axis("answer"), Axis("share", 0, 1), title, size=(220, 120))
    return PartTable(rows, ("annotator", "n", "answer"), ("actual", "predicted"), charts=charts)


def figure_4(given: StudyInput) -> PartTable:
    """Figure 4: learning curve, trained on shares of the synthetic and tested on the real dialogues."""
    return _curve(ablations.curve(*_sets(given), given.repeats))


def figure_4_of_project(given: StudyInput) -> PartTable:
    """Figure 4 on a project: learned from shares of the training folds."""
    return _curve(ablations.own_curve(own_set(given).data, given.repeats))


def _curve(rows: Sequence[Row]) -> PartTable:
    shares = [row["share"] for row in rows]
    charts = {}
    for name in ("rmse", "pearson"):
        if any(row[name] is None for row in rows):
            continue
        mean, deviation = (np.array([row[key] for row in rows]) for key in (name, f"{name}_sd"))
        line = ChartLine(shares, mean.tolist(), (mean - deviation).tolist(), (mean + deviation).tolist())
        title = f"Learning curve: {name}"
        charts[title] = line_chart([line], Axis("share of training data", 0, 1, is_share=True), Axis(name), title)
    note = "The band is ± 1 standard deviation over draws; the paper draws 50 samples of each share: --repeats 50."
    return PartTable(rows, ("system",), ("rmse", "rmse_sd", "pearson", "pearson_sd"), note, charts)


def figure_5(given: StudyInput) -> PartTable:
    """Figure 5 and appendix K: calibration of each answer to Q0, out of fold on the synthetic dialogues."""
    return _calibration(_sets(given)[0])


def figure_5_of_project(given: StudyInput) -> PartTable:
    """Figure 5 and appendix K on a project, out of fold."""
    return _calibration(own_set(given).data)


def _calibration(data: DataSet) -> PartTable:
    [paired] = cross_validated(learned(partial(Calibration, data.question, "mixed")), data, [FOLD_SEEDS[0]])
    found = diagrams(paired, Clusters(data.rated.group))
    rows: list[Row] = [
        {"answer": each.option, "smece": each.error.value, "smece_low": each.error.low, "smece_high": each.error.high,
         "smece_published": "< 0.05"}
        for each in found
    ]  # fmt: skip
    charts = {f"Calibration of answer {each.option}": reliability_curve(each) for each in found}
    return PartTable(rows, ("answer",), ("smece",), charts=charts)


def appendix_a(given: StudyInput) -> PartTable:
    """Appendix A: predicted answers of all annotators, disagreement, and each annotator's expected error."""
    return _panel(_sets(given)[0], asked_always())


def appendix_a_of_project(given: StudyInput) -> PartTable:
    """Appendix A on a project."""
    own = own_set(given)
    return _panel(own.data, own.rubric)


def _panel(data: DataSet, rubric: Rubric) -> PartTable:
    rows = annotators.panel(data, rubric)
    return PartTable(rows, ("protocol", "system", "question", "n"), ("mean", "said", "rmse", "expected", "pearson"))


def appendix_b(given: StudyInput) -> PartTable:
    """Appendix B: error by number of questions asked, chosen for each dialogue."""
    return _adaptive(given, _sets(given)[0])


def appendix_b_of_project(given: StudyInput) -> PartTable:
    """Appendix B on a project."""
    return _adaptive(given, own_set(given).data)


def _adaptive(given: StudyInput, data: DataSet) -> PartTable:
    rows = ablations.adaptive(data, _seeds(given))
    return PartTable(rows, ("rule", "system"), ("questions_asked", "rmse", "pearson", "log_loss"))


DISTILLED = (
    "`rated`: share of the training groups with ratings; tested groups have all of theirs. `judge, calibrated` reads "
    "the judge's answers, the `fast` ones read word metrics (`metrics: [bank]`). `from ratings` learns from the rated "
    f"texts, `distilled` from answers to all texts, drawn from the calibrated judge ({distillation.DRAWS} draws)."
)


def distilled(given: StudyInput) -> PartTable:
    """Distillation on the real dialogues; the synthetic ones have no public texts, but a calibrated judge."""
    synth, real = _sets(given)
    samples = [Sample(record.conversation) for record in read(given.folder(real.name))]
    teacher = Calibration(synth.question, "mixed").fit(synth.evidence, synth.labels).in_new_domain()
    rows = distillation.distillation(real, measure(samples, BANK), _seeds(given), teacher)
    note = f"{DISTILLED} 0%: the judge is calibrated on the synthetic dialogues, as a new domain."
    return PartTable(rows, ("rated", "system", "n"), ("rmse", "pearson", "log_loss"), note)


def distilled_of_project(given: StudyInput) -> PartTable:
    """Distillation on a project."""
    own = own_set(given)
    rows = distillation.distillation(own.data, measure(own.samples, BANK), _seeds(given))
    return PartTable(rows, ("rated", "system", "n"), ("rmse", "pearson", "log_loss"), DISTILLED)


OWN: dict[str, Any] = {"roles": roles, "ready": own_set}
"""Needs of the parts that read the judge's stored answers on a project."""
USER_NOTE = (
    "Users are drawn, because no public data have thumbs: 60 users, of whom each sees 12 synthetic dialogues; held-out "
    "error of the annotators' ratings over three folds. All rows have the paper's network without the shift by system. "
    "`without thumbs` learns from annotators alone. `users without weights`: Wᵃ and Vᵃ of users are 0; `V of users`: "
    "each user has a last layer (head `users`). Down-sampled: 80% of the answers `no thumb` about the dialogues of two "
    "systems are left out; the flag is an input that is 1 for these dialogues."
)


def footnote_26(given: StudyInput) -> PartTable:
    """Footnote 26 on the synthetic dialogues with drawn users."""
    from accord_papers.llm_rubric.users import user_rows

    rows = user_rows(_sets(given)[0], given.repeats)
    return PartTable(rows, ("system", "n"), ("rmse", "pearson", "log_loss"), USER_NOTE)


POOL_NOTE = (
    "Topical-USR, Overall: ratings of three annotators predicted from recorded answers to the same question, in five "
    "folds of whole contexts. Each variant is a column; the released LLM-RUBRIC answers have one prompt per question."
)


def footnote_2(given: StudyInput) -> PartTable:
    """Footnote 2: each variant of a prompt or model alone, and all together."""
    from accord_papers.llm_rubric.prompt_pool import pool_of, pool_rows

    rows = pool_rows(pool_of(given.folder("topical_usr")), _seeds(given))
    return PartTable(rows, ("system", "variants", "n"), ("rmse", "pearson", "log_loss"), POOL_NOTE)


PAPER = Paper(
    "llm-rubric",
    "LLM-RUBRIC",
    "Hashemi, Eisner, Rosset, Van Durme & Kedzie: LLM-Rubric: A Multidimensional, Calibrated Approach to Automated "
    "Evaluation of Natural Language Texts. ACL 2024.",
    (
        Part("table-1", "Table 1: prediction of Q0", table_1, table_1_of_project, **OWN),
        Part("factscore", "Table 1, row 5: FActScore",
             limits="the released data lack the paper's Azure corpus and the texts of the synthetic dialogues"),
        Part("oracle", "Table 1, rows a to f: oracles", oracle, oracle_of_project, **OWN),
        Part("table-2", "Table 2: ablations", table_2, table_2_of_project, **OWN),
        Part("table-3", "Table 3: prediction of each question", table_3, table_3_of_project, **OWN),
        Part("means", "Tables 4 and 5: means per system and question", means, means_of_project),
        Part("figure-2", "Figure 2: distributions of annotators", figure_2, figure_2_of_project, **OWN),
        Part("figure-4", "Figure 4: learning curve", figure_4, figure_4_of_project, **OWN),
        Part("figure-5", "Figure 5: calibration", figure_5, figure_5_of_project, **OWN),
        Part("appendix-a", "Appendix A: all annotators, controversial dialogues", appendix_a, appendix_a_of_project,
             **OWN),
        Part("appendix-b", "Appendix B: adaptive questions", appendix_b, appendix_b_of_project, **OWN),
        Part("footnote-2", "Footnote 2: a pool of prompts and models", footnote_2),
        Part("footnote-26", "Footnote 26: users, and down-sampled texts", footnote_26,
             limits="no public data have answers of users, so that users are drawn"),
        Part("distillation", "Limitations: distillation", distilled, distilled_of_project, **OWN),
        Part("privacy", "Limitations: differential privacy",
             limits="left out: a guarantee for each annotator needs noise of the size of that annotator's whole effect "
             "on the weights, and 24 annotators are too few to average it out; to withdraw a person's ratings, erase "
             "them (accord store erase) and fit again"),
    ),
    ("llm_rubric_synth", "llm_rubric_real", "topical_usr"),
)  # fmt: skip
"""Parts of LLM-RUBRIC."""

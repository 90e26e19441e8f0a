"""The parts of the study of CIU and MoE-CIU: tables 1 to 6, figure 1, our combinations, transfer, plausibility."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from markupsafe import Markup

from accord import Project
from accord.charts import Axis
from accord.edges import AccordError, BadInput
from accord.evidence.bank.reply_metrics import (
    BERTSCORE,
    EMBEDDING,
)
from accord.formats import read
from accord.learning import make_head
from accord.models import LIKELIHOOD
from accord.statistics import RANK_DRAWS
from accord.store import Store
from accord.values import Labels, Score, Unscored
from accord_papers.catalog import Paper
from accord_papers.ciu import combinations, plausibility, single_metrics
from accord_papers.ciu.published import CASE_METRICS, CASES, LENGTH, METRICS
from accord_papers.ciu.responses import (
    ALL,
    MACHINE,
    QUESTIONS,
    WITH_DOCUMENT,
    Rated,
    load,
    of_project,
    question_of,
    usable,
)
from accord_papers.readiness import CheckedPart as Part
from accord_papers.study import PartTable, Row, StudyInput, interval_chart, table_with_reasons

_WORD = re.compile(r"[a-z0-9]+")
TOPICAL, PERSONA, DIALOGUES = "topical_usr", "persona_usr", "llm_rubric_real"
SHOWN = (
    *METRICS,
    "ciu",
    "ciu-unsupported",
    *single_metrics.ABLATIONS,
    "chrf",
    "bertscore-recall",
    "content-words",
    "words",
)
"""Metrics of tables 1 and 3: the paper's, the forms of CIU, and four others."""
OTHER_MODELS = (
    "BERTScore and RUBER read a MiniLM in place of the paper's BERT models, and METEOR has no WordNet, which needs a "
    "download"
)
NO_PERSONA = (
    "Persona-USR (Mehri and Eskenazi, 2020) is not among the public data sets here; put it into a folder persona_usr "
    f"with the files of topical_usr. {OTHER_MODELS}"
)


@lru_cache(2)
def responses(folder: Path) -> Mapping[str, Rated]:
    """Return the responses of a data set with all metrics that can be measured here."""
    return load(folder, single_metrics.WIDE, single_metrics.RENAMED)


@lru_cache(32)
def _project(given: StudyInput, question: str, with_forms: bool = False) -> Rated:
    """Return the rated samples of a question of a project with the paper's metrics, and all forms of CIU if asked."""
    forms = ("ciu", *single_metrics.ABLATIONS.values()) if with_forms else ()
    project = given.required_project()
    return of_project(
        project, project.rubric[question], (*METRICS, *forms), single_metrics.RENAMED if with_forms else {}
    )


def _questions(given: StudyInput) -> list[str]:
    """Return the questions of a project with ratings, the main one first."""
    project = given.required_project()
    rated = {label.question for label in project.store.labels()}
    names = [question.id for question in project.rubric.questions if not question.compares]
    found = [name for name in dict.fromkeys([project.question.id, *names]) if name in rated]
    if not found:
        raise BadInput("the project has no ratings; import some: accord import FILE")
    return found


# --- single metrics ---------------------------------------------------------------------------------------------------


def _chart(rows: Sequence[Row], column: str, title: str) -> Markup:
    return interval_chart([row for row in rows if f"{column}_low" in row], column, title, Axis("Spearman"))


SINGLE = (
    "spearman: correlation with the mean of the annotators. p: test that the correlation of `ciu`, our default, is "
    "another one (permutation within contexts, Holm). Forms of CIU: `-paper` has all terms, `-no-freq`, `-no-pos` and "
    "`-no-effort` lack one; `ciu` has the discount by frequency alone; `-phrases` counts only RAKE's best phrases; "
    "`ciu-unsupported` credits content outside the documents. `one annotator`: mean correlation of each annotator with "
    "the mean of the others, a ceiling."
)


def _single(name: str, given: StudyInput) -> PartTable:
    """Tables 1 and 3: single metrics on a data set."""
    found = responses(given.folder(name))
    rows: list[Row] = []
    for subset in (WITH_DOCUMENT, MACHINE, ALL):
        data = found[subset]
        rows += single_metrics.standalone({subset: data.only(SHOWN)})
        rows.append({"dataset": name, "subset": subset, **single_metrics.one_annotator(data)})
    main = [row for row in rows if row["subset"] == WITH_DOCUMENT]
    note = f"{SINGLE} Subset `machine`: responses of models; `all`: without a document a metric is 0."
    charts = {f"Spearman with {question}": _chart(main, column, f"Single metrics: {question}")
              for column, question in QUESTIONS.items()}  # fmt: skip
    statistics = [*QUESTIONS, *(_p(column) for column in QUESTIONS)]
    return table_with_reasons(rows, ("subset", "system", "n"), statistics, note, charts)


def _p(column: str) -> str:
    return column.replace("spearman", "ciu_ahead") + "_p"


def single_of_project(given: StudyInput) -> PartTable:
    """Tables 1 and 3 on a project: the paper's and the project's metrics, for each rated question."""
    rows: list[Row] = []
    charts = {}
    for question in _questions(given):
        try:
            data = _project(given, question, with_forms=True)
        except BadInput as error:
            rows.append({"question": question, "system": "all", "missing": str(error)})
            continue
        part = [{"question": question, **row} for row in single_metrics.standalone({"rated": data})]
        part.append({"question": question, **single_metrics.one_annotator(data)})
        charts[f"Spearman with {question}"] = _chart(part, "spearman", f"Single metrics: {question}")
        rows += part
    return table_with_reasons(rows, ("question", "system", "n"), ("spearman", _p("spearman")), SINGLE, charts)


def figure_1(given: StudyInput) -> PartTable:
    """Figure 1: correlation of length and ratings."""
    found = responses(given.folder(TOPICAL))
    rows = single_metrics.standalone(
        {subset: found[subset].only(["words"]) for subset in (ALL, WITH_DOCUMENT, MACHINE)}
    )
    rows = [row for row in rows if row["system"] == "words"]
    rows[0]["spearman_uses_knowledge_published"] = LENGTH
    note = (
        "Length in words. The published figure is of Topical-Chat and Persona-Chat together, in characters; the public "
        "ratings do not show it."
    )
    return table_with_reasons(rows, ("subset", "n"), tuple(QUESTIONS), note)


# --- combinations -----------------------------------------------------------------------------------------------------


@lru_cache(4)
def _metrics_of(given: StudyInput, name: str) -> Rated:
    """Return the paper's metrics of a data set, or its and the project's metrics that vary if no data set is named."""
    return (
        usable(_project(given, _questions(given)[0]))
        if not name
        else responses(given.folder(name))[WITH_DOCUMENT].only(METRICS)
    )


@lru_cache(4)
def _selections(given: StudyInput, name: str) -> list[Row]:
    """Return the 17 selections of these metrics."""
    data = _metrics_of(given, name)
    return combinations.select(data, given.repeats, combinations.splits_of(data))


def _combinations(name: str, given: StudyInput) -> PartTable:
    """Tables 2 and 4: the selections with a support vector regressor, MoE-Concat and MoE-CIU."""
    data, forms = _metrics_of(given, name), combinations.PUBLISHED_FORMS
    rows = list(_selections(given, name))
    rows += combinations.unify(data, forms, given.repeats, combinations.splits_of(data), part="select")
    rows = [{**row, "metrics": _selected(row)} for row in rows]
    note = (
        f"{HELD_OUT.format(given.repeats)} `metrics` are selected in at least half of the seeds. `recursive-k` drops k "
        f"metrics, `forward-k` and `backward-k` keep k. The paper uses 15 seeds: --repeats 15.{_missing(data)}"
    )
    return table_with_reasons(rows, ("split", "system", "metrics", "n"), _spearmans(data), note)


def _missing(data: Rated) -> str:
    """Return a sentence for each of the paper's metrics that was not measured."""
    absent = [name for name in METRICS if name not in data.metrics]
    said = "".join(f" Without {name}: {data.missing.get(name, 'it has no or equal values here')}." for name in absent)
    return f"{said} The published figures are of all six." if absent else ""


HELD_OUT = (
    "Mean Spearman over {} seeds with 50 responses held out (at most a quarter): whole contexts (`grouped`), or random "
    "ones as in the paper (`random`)."
)
MOST_NAMES = 6


def _selected(row: Row) -> str:
    """Return the metrics that a selection keeps in at least half of the seeds, or their number."""
    names = [name for name, share in row.get("kept", {}).items() if share >= 0.5]
    if len(names) == len(row.get("kept", {})):
        return str(row["bank"])
    return f"{len(names)} of {len(row['kept'])}" if len(names) > MOST_NAMES else ", ".join(names) or "differ by seed"


def _spearmans(data: Rated) -> list[str]:
    return [name for column in data.questions for name in (column, f"{column}_sd")]


def _ratios(name: str, given: StudyInput) -> PartTable:
    """Selection ratios of tables 2 and 4."""
    rows = combinations.ratios(_selections(given, name))
    return table_with_reasons(
        rows, ("split", "metric"), ("ratio",), "Share of the 17 selections, over seeds and questions."
    )


def ours(given: StudyInput) -> PartTable:
    """Our combination and ridge regression of wider sets of metrics."""
    data = responses(given.folder(TOPICAL))[WITH_DOCUMENT]
    paper = data.only(METRICS)
    rows = combinations.unify(paper, combinations.OURS, given.repeats)
    rows += combinations.unify(data.only(single_metrics.LEXICAL), combinations.OURS, given.repeats, bank="lexical")
    embedding = [name for name in (*EMBEDDING, *BERTSCORE) if name in data.metrics]
    if embedding:
        rows += combinations.unify(
            data.only([*single_metrics.LEXICAL, *embedding]), combinations.OURS, given.repeats, bank="embedding"
        )
    else:
        reason = data.missing[EMBEDDING[0]]
        rows.append({"split": "grouped", "system": "mixture", "bank": "embedding", "missing": reason})
    note = (
        f"{HELD_OUT.format(given.repeats)} `lexical` needs no model; `embedding` adds cosines and BERTScore of "
        f"MiniLM.{_missing(paper)}"
    )
    return table_with_reasons(rows, ("split", "bank", "system", "n"), _spearmans(data), note)


def ours_of_project(given: StudyInput) -> PartTable:
    """Our combination and ridge regression of a project's metrics and the paper's."""
    data = _metrics_of(given, "")
    rows = combinations.unify(data, combinations.OURS, given.repeats, combinations.splits_of(data))
    note = f"{HELD_OUT.format(given.repeats)} Metrics: {', '.join(data.metrics)}."
    return table_with_reasons(rows, ("split", "system", "n"), _spearmans(data), note)


def transfer(given: StudyInput) -> PartTable:
    """Learned on Topical-USR's Overall ratings, applied to the dialogues of LLM-RUBRIC, and to Persona-USR."""
    train = responses(given.folder(TOPICAL))[WITH_DOCUMENT].only(single_metrics.LEXICAL)
    rows: list[Row] = []
    for name, questions in ((DIALOGUES, {"spearman_overall": "Q0"}), (PERSONA, QUESTIONS)):
        try:
            found = load(given.folder(name), single_metrics.LEXICAL, questions=questions)
        except BadInput as error:
            rows.append({"dataset": name, "system": "mixture", "missing": str(error)})
            continue
        rows += combinations.transfer(train, found[WITH_DOCUMENT].only(train.metrics), "lexical", RANK_DRAWS)
    note = (
        "Learned on Topical-USR without a label of the other data set. `warned`: share of scores with a warning, "
        "such as metrics unlike those in training. The rating of the dialogues is Q0, satisfaction of the user."
    )
    return table_with_reasons(rows, ("dataset", "system", "n"), (*QUESTIONS, "warned"), note)


REASONS = 3
"""Effects that explain a prediction of the case studies."""


def scores(train: Rated, test: Rated, question: str) -> Sequence[Score | Unscored]:
    """Return the scores of our combination, with the effect of each metric as attributions."""
    known = set(train.evidence.targets)
    labels = Labels(label for label in train.labels if label.target in known)
    fitted = make_head("curves", question_of(train, question), {"curves": {}}).fit(train.evidence, labels)
    found: Sequence[Score | Unscored] = fitted.predict(test.evidence)
    return found


def case_studies(given: StudyInput) -> PartTable:
    """Tables 5 and 6: metrics, prediction and rating of three replies, predicted from other contexts."""
    folder = given.folder(TOPICAL)
    everything = responses(folder)[WITH_DOCUMENT]
    data, lexical = everything.only(METRICS), everything.only(single_metrics.LEXICAL)
    texts = {record.conversation.id: " ".join(_WORD.findall(record.conversation.turns[-1].content.lower()))
             for record in read(folder) if record.conversation.turns}  # fmt: skip
    rows: list[Row] = []
    for words, figures in CASES.items():
        place = next(row for row, target in enumerate(data.evidence.targets) if words in texts[target.conversation])
        others, reply = np.flatnonzero(data.context != data.context[place]), data.take(np.array([place]))
        name = data.evidence.targets[place].conversation
        row: Row = {"id": name, "reply": f"… {words} …", "rating": float(reply.people["Overall"][0])}
        known = zip(data.metrics, reply.evidence.values[0].tolist(), reply.evidence.present[0], strict=True)
        row |= {name: value for name, value, is_present in known if is_present}
        try:
            forms = combinations.PUBLISHED_FORMS
            row["moe-ciu"] = float(forms["moe-ciu"](data.take(others), reply, "Overall")[0])
        except AccordError as error:
            row["missing"] = str(error)
        score = scores(lexical.take(others), lexical.take(np.array([place])), "Overall")[0]
        if isinstance(score, Score):
            row["accord"] = score.value
            row["reasons"] = ", ".join(f"{name} {effect:+.2f}" for name, effect in score.attributions[:REASONS])
        rows.append(row | {f"{name}_published": each for name, each in zip(CASE_METRICS, figures, strict=True)})
    note = (
        "The three replies are in Topical-USR in full; the paper prints the last one without its first sentences. "
        "`moe-ciu` predicts the mean rating of Overall and learned from replies to all other contexts. Our CIU is a "
        f"sum over words and can exceed 1.{_missing(data)} `accord`: the prediction of our combination of metrics that "
        f"need no model, learned from the same replies; `reasons`: its {REASONS} largest effects, in points of the "
        "scale from 1 to 5."
    )
    return table_with_reasons(rows, ("id", "reply", "reasons"), (*CASE_METRICS, "accord"), note)


# --- plausibility -----------------------------------------------------------------------------------------------------

PLAUSIBILITY = (
    "Planted replies have the words of a real one out of order (shuffled), are replies to another context (foreign) or "
    "random words. Drop: score of the real reply minus that of the planted one; for real replies, what the check "
    "takes from them. Intervals over replies, and over groups for correlations."
)


def check_effect(given: StudyInput) -> PartTable:
    """The plausibility check on Topical-USR."""
    with closing(Store("sqlite:///:memory:")) as store:
        rows = plausibility.check_of_data(given.folder(TOPICAL), store)
    return PartTable(rows, ("question", "replies", "measure"), plausibility.STATISTICS, PLAUSIBILITY)


def _with_likelihood(given: StudyInput) -> Project:
    """Return the project, which has a likelihood model."""
    project = given.required_project()
    if LIKELIHOOD not in {**project.config.models, **project.given}:
        raise BadInput(
            "no likelihood model in the project. Add one to accord.yaml: "
            f'models: {{likelihood: {{model: "{plausibility.SMALL}"}}}}'
        )
    return project


def check_of_project(given: StudyInput) -> PartTable:
    """The plausibility check on a project with a likelihood model."""
    project = _with_likelihood(given)
    training, _ = project.training(project.evaluator("mixture"))
    rows = plausibility.check_rows(
        training.samples, training.labels.on(project.question.id), project.question, project.models
    )
    return PartTable(rows, ("question", "replies", "measure"), plausibility.STATISTICS, PLAUSIBILITY)


PAPER = Paper(
    "ciu",
    "CIU and MoE-CIU",
    "Choi, Collins, Agichtein, Rokhlenko & Malmasi: Combining Multiple Metrics for Evaluating Retrieval-Augmented "
    "Conversations.",
    (
        Part("figure-1", "Figure 1: length and usefulness", figure_1),
        Part("table-1", "Table 1: single metrics", partial(_single, TOPICAL), single_of_project,
             OTHER_MODELS, ready=_questions),
        Part("table-2", "Table 2: combinations of metrics", partial(_combinations, TOPICAL),
             partial(_combinations, ""), OTHER_MODELS, ready=_questions),
        Part("ratios", "Table 2: selection ratios", partial(_ratios, TOPICAL), partial(_ratios, ""),
             OTHER_MODELS, ready=_questions),
        Part("table-3", "Table 3: single metrics, Persona-USR", partial(_single, PERSONA), limits=NO_PERSONA),
        Part("table-4", "Table 4: combinations of metrics, Persona-USR", partial(_combinations, PERSONA),
             limits=NO_PERSONA),
        Part("ratios-persona", "Table 4: selection ratios, Persona-USR", partial(_ratios, PERSONA), limits=NO_PERSONA),
        Part("case-study", "Tables 5 and 6: case studies", case_studies, limits=OTHER_MODELS),
        Part("ours", "Our combination of more metrics", ours, ours_of_project, ready=_questions),
        Part("transfer", "Transfer to other data sets", transfer),
        Part("plausibility", "Plausibility check on planted and real replies", check_effect, check_of_project,
             ready=_with_likelihood),
    ),
    (TOPICAL, PERSONA, DIALOGUES),
)  # fmt: skip
"""Parts of CIU and MoE-CIU."""

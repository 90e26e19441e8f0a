"""Shapes of rating files: who rated, read as people, as judges, or refused with a question."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accord import Project
from accord.edges import BadInput
from accord.project import config_from, import_files, survey_files, survey_options
from accord.values import Question, Rubric, Scale, load_rubric

COUNT = 12
Cells = Mapping[str, Callable[[int], Any]]


@dataclass(frozen=True)
class Shape:
    """Files of one shape and the reading that is expected.

    Attributes:
        name: Short name.
        files: Content of each file by name.
        people: Ratings by person.
        judges: Answers by judge.
        questions: Questions that people answer.
        judged: Questions that judges answer.
        error: Columns that an error names with both commands; the other fields are empty then.
        raters: Values of `--rater`.
        judge_options: Values of `--judge`.
        repeats: Ratings that a later one replaces.
    """

    name: str
    files: Mapping[str, str]
    people: Mapping[str, int] = field(default_factory=dict)
    judges: Mapping[str, int] = field(default_factory=dict)
    questions: frozenset[str] = frozenset()
    judged: frozenset[str] = frozenset()
    error: Sequence[str] = ()
    raters: Sequence[str] = ()
    judge_options: Sequence[str] = ()
    repeats: int = 0


def _stars(i: int) -> int:
    return i % 5 + 1


def _judged(i: int) -> int:
    return (i + 1) % 5 + 1


def _csv(count: int = COUNT, **columns: Callable[[int], Any]) -> str:
    rows = [",".join(["id", *columns])]
    rows += [",".join([f"c{i}", *(str(cell(i)) for cell in columns.values())]) for i in range(count)]
    return "".join(f"{row}\n" for row in rows)


def _jsonl(count: int = COUNT, **columns: Callable[[int], Any]) -> str:
    rows = ({"id": f"c{i}", **{name: cell(i) for name, cell in columns.items()}} for i in range(count))
    return "".join(json.dumps(row) + "\n" for row in rows)


def _text(**columns: Callable[[int], Any]) -> str:
    asked: Cells = {"prompt": lambda i: f"What is item {i}?", "response": lambda i: f"It is item {i} of many."}
    return _csv(COUNT, **asked, **columns)


def _always(value: Any) -> Callable[[int], Any]:
    return lambda i: value


def _either(first: str, second: str) -> Callable[[int], str]:
    return lambda i: second if i % 2 else first


CHATS = {"chats.csv": _text()}
_RATING = frozenset({"rating"})
_HALVES = {"nora": 6, "ben": 6}


def _with_chats(name: str, content: str) -> dict[str, str]:
    return {**CHATS, name: content}


SHAPES = (
    Shape("a judge's scores alone", _with_chats("j.csv", _csv(judge_score=_judged)), judges={"judge": 12}, judged=frozenset({"Q0"})),
    Shape("scores alone", _with_chats("s.csv", _csv(score=_judged)), error=("score",)),
    Shape("scores alone, by a judge", _with_chats("s.csv", _csv(score=_judged)), judges={"gpt-judge": 12}, judged=frozenset({"Q0"}), judge_options=("score=gpt-judge",)),
    Shape("scores alone, by a judge without a name", _with_chats("s.csv", _csv(score=_judged)), judges={"judge": 12}, judged=frozenset({"Q0"}), judge_options=("score",)),
    Shape("scores alone, by people", _with_chats("s.csv", _csv(score=_judged)), {"unnamed": 12}, questions=_RATING, raters=("score",)),
    Shape("scores alone, by one person", _with_chats("s.csv", _csv(score=_judged)), {"nora": 12}, questions=_RATING, raters=("score=nora",)),
    Shape("ratings alone", _with_chats("r.csv", _csv(rating=_stars)), {"unnamed": 12}, questions=_RATING),
    Shape("a model and scores", _with_chats("m.csv", _csv(model=_always("gpt-judge"), score=_judged)), judges={"gpt-judge": 12}, judged=frozenset({"Q0"})),
    Shape("a model and ratings", _with_chats("m.jsonl", _jsonl(model=_always("m1"), rating=_judged)), judges={"m1": 12}, judged=frozenset({"Q0"})),
    Shape("a judge model and values", _with_chats("m.csv", _csv(judge_model=_either("a", "b"), value=_judged)), judges={"a": 6, "b": 6}, judged=frozenset({"Q0"})),
    Shape("a judge model, questions and scores", _with_chats("m.csv", _csv(judge_model=_always("m"), question=_always("Q1"), score=lambda i: i % 4 + 1)), judges={"m": 12}, judged=frozenset({"Q1"})),
    Shape("annotators and ratings", _with_chats("l.csv", _csv(annotator=_either("nora", "ben"), rating=_stars)), _HALVES, questions=_RATING),
    Shape("annotators and scores", _with_chats("l.csv", _csv(annotator=_either("nora", "ben"), score=_stars)), _HALVES, questions=frozenset({"score"})),
    Shape("ratings of a language model", _with_chats("l.csv", _csv(llm_rating=_judged)), judges={"llm": 12}, judged=frozenset({"Q0"})),
    Shape("a model's scores beside people's", _with_chats("l.csv", _csv(gpt4_score=_judged, human_score=_stars)), {"unnamed": 12}, {"gpt4": 12}, frozenset({"human_score"}), frozenset({"human_score"})),
    Shape("a column per person", _with_chats("l.csv", _csv(nora=_stars, ben=_judged)), {"nora": 12, "ben": 12}, questions=_RATING),
    Shape("a column per person and scores", _with_chats("l.csv", _csv(nora=_stars, ben=_judged, score=_judged)), error=("score",)),
    Shape("a judge's column beside a rater's scores", _with_chats("l.csv", _csv(rater=_either("nora", "ben"), score=_stars, judge=_judged)), _HALVES, {"judge": 12}, frozenset({"score"}), frozenset({"score"})),
    Shape("a judge's scores for all, people's for some", _with_chats("l.csv", _csv(annotator=lambda i: "nora" if i < 6 else "", rating=lambda i: _stars(i) if i < 6 else "", judge_score=_judged)), {"nora": 6}, {"judge": 12}, _RATING, _RATING),
    Shape("judges that are people", _with_chats("l.csv", _csv(judge=_either("nora", "ben"), score=_stars)), _HALVES, questions=frozenset({"score"})),
    Shape("judges that are models", _with_chats("l.csv", _csv(judge=_either("gpt-4o", "claude-3-opus"), score=_stars)), judges={"gpt-4o": 6, "claude-3-opus": 6}, judged=frozenset({"Q0"})),
    Shape("judges that could be either", _with_chats("l.csv", _csv(judge=_either("x1", "x2"), score=_stars)), error=("judge",)),
    Shape("judges that could be either, by people", _with_chats("l.csv", _csv(judge=_either("x1", "x2"), score=_stars)), {"x1": 6, "x2": 6}, questions=frozenset({"score"}), raters=("judge",)),
    Shape("judges that could be either, by models", _with_chats("l.csv", _csv(judge=_either("x1", "x2"), score=_stars)), judges={"x1": 6, "x2": 6}, judged=frozenset({"Q0"}), judge_options=("judge",)),
    Shape("numbered judges", _with_chats("l.csv", _csv(judge1=_stars, judge2=_judged)), error=("judge1", "judge2")),
    Shape("an annotator that is a model", _with_chats("l.csv", _csv(annotator=_either("nora", "gpt-4o"), rating=_stars)), {"nora": 6}, {"gpt-4o": 6}, _RATING, _RATING),
    Shape("text and ratings", {"qa.csv": _text(rating=_stars)}, {"unnamed": 12}, questions=_RATING),
    Shape("text, the model that replied, and thumbs", {"qa.csv": _text(model=_always("gpt-4o"), thumbs=lambda i: ("up", "down")[i % 2])}, {"unnamed": 12}, questions=frozenset({"thumbs"})),
    Shape("text, scores and annotators", {"qa.csv": _text(score=_stars, annotator=_either("nora", "ben"))}, _HALVES, questions=frozenset({"score"})),
    Shape("text, stars and a judge's score", {"qa.csv": _text(stars=_stars, judge_score=_judged)}, {"unnamed": 12}, {"judge": 12}, frozenset({"stars"}), frozenset({"stars"})),
    Shape("text, a judge model and its score", {"qa.csv": _text(judge_model=_always("m"), score=_judged)}, judges={"m": 12}, judged=frozenset({"Q0"})),
    Shape("text and a score of a model", {"qa.csv": _text(model_score=_judged)}, error=("model_score",)),
    Shape("text and predicted ratings", {"qa.csv": _text(csat=_stars, predicted=_judged)}, {"unnamed": 12}, {"predicted": 12}, frozenset({"csat"}), frozenset({"csat"})),
    Shape("labels and a second file of a judge", {**CHATS, "l.csv": _csv(annotator=_either("nora", "ben"), rating=_stars), "j.csv": _csv(judge_score=_judged)}, _HALVES, {"judge": 12}, _RATING, _RATING),
    Shape("a judge on another scale", {**CHATS, "l.csv": _csv(annotator=_either("nora", "ben"), rating=_stars), "j.csv": _csv(judge_score=lambda i: 10 * i)}, _HALVES, {"judge": 12}, _RATING, frozenset({"judge_score"})),
    Shape("spellings of one name", _with_chats("l.csv", _csv(annotator=lambda i: ("Nora", "nora ", "NORA", "ｎｏｒａ", "no\u200bra", "Zoe\u0301", "zo\u00e9")[i % 7], rating=_stars)), {"Nora": 10, "Zoe\u0301": 2}, questions=_RATING),
    Shape("repeated ratings", _with_chats("l.csv", _csv(annotator=_always("nora"), rating=_stars) + "c3,nora,1\nc4,Nora,2\n"), {"nora": 12}, questions=_RATING, repeats=2),
    Shape("a judge's scores with a judgement's columns", _with_chats("m.jsonl", _jsonl(item_id=lambda i: f"c{i}", judge_model=_always("m"), rating=_judged)), judges={"m": 12}, judged=frozenset({"Q0"})),
    Shape("automatic scores beside ratings", _with_chats("l.csv", _csv(annotator=_either("nora", "ben"), rating=_stars, auto_score=_judged)), _HALVES, {"auto": 12}, _RATING, _RATING),
    Shape("comments of a judge are no scores", _with_chats("l.csv", _csv(annotator=_either("nora", "ben"), rating=_stars, judge_reason=lambda i: f"It answers question {i} in full and is kind.", llm_latency=lambda i: i / 7)), _HALVES, questions=_RATING),
)  # fmt: skip
"""Files of 12 conversations each, as new users have them."""


@dataclass(frozen=True)
class Reading:
    """How the files of a shape were read; `error` is the message if they were refused."""

    people: Mapping[str, int] = field(default_factory=dict)
    judges: Mapping[str, int] = field(default_factory=dict)
    questions: frozenset[str] = frozenset()
    judged: frozenset[str] = frozenset()
    repeats: int = 0
    error: str = ""


def read_shape(shape: Shape, folder: Path) -> Reading:
    """Import the files of a shape into an empty store as `accord import` does."""
    for name, content in shape.files.items():
        (folder / name).write_text(content, encoding="utf-8")
    paths = [folder / name for name in shape.files]
    rubric = _rubric()
    with Project(config_from({"store": "sqlite:///:memory:"}), rubric) as project:
        try:
            survey = survey_files(paths, raters=shape.raters, judges=shape.judge_options)
            done = import_files(project.store, rubric, paths, options=survey_options(survey, rubric))
        except BadInput as error:
            is_stored = bool(list(project.store.conversations()))
            return Reading(error=f"stored some rows, then: {error}" if is_stored else str(error))
        labels = project.store.labels()
        people = {name: sum(label.annotator == name for label in labels) for name in labels.annotators}
        judged = frozenset(row["question"] for rows in done.judged.rows.values() for row in rows)
        questions = frozenset(label.question for label in labels)
        counted = dict(done.judged.judges)
        assert done.raters == people and survey.judges == counted
        assert sum(survey.people.values()) == sum(people.values()) + done.repeated.count
        return Reading(people, counted, questions, judged, done.repeated.count)


def is_right(shape: Shape, found: Reading) -> bool:
    """Return True if files were read as expected, or refused with both commands."""
    if shape.error:
        commands = [" ".join(f"{option} {name}" for name in shape.error) for option in ("--rater", "--judge")]
        return all(command in found.error for command in commands)
    expected = Reading(shape.people, shape.judges, shape.questions, shape.judged, shape.repeats)
    return found == expected


def _rubric() -> Rubric:
    """Return the shipped rubric with a scale of five on its main question."""
    shipped = load_rubric("llm-rubric")
    question = shipped.main_question
    wide = Question(**{**dict(question), "scale": Scale(options=(1, 2, 3, 4, 5)), "meanings": {}})
    fields = {name: getattr(shipped, name) for name in Rubric.model_fields}
    questions = tuple(wide if each is question else each for each in shipped.questions)
    return Rubric(**{**fields, "questions": questions})

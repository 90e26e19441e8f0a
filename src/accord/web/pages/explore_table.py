"""Columns of scores and ratings for the explore page: values, metadata and metrics of a bounded sample."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from accord.board import Board, BoardFilters, SelectedScores
from accord.edges import sendable
from accord.project import comparable_labels
from accord.scoring import ConversationFacts, time_of
from accord.store import scores_of_conversations
from accord.values import Conversation, Question, Sample
from accord.verbs import Project

SAMPLE_SIZE = 2000
"""Maximum number of scores in a chart; a larger run is sampled with the project's seed."""
CATEGORIES = 20
"""Maximum number of categories; the rarest values are pooled."""
METADATA, METRIC, QUESTION = "metadata: ", "metric: ", "question: "
SCORE, RATING, DAY = "score: value", "rating", "day"
SCORE_FIELDS = ("value", "low", "high", "variance", "entropy")
_WORDS = {
    "score: low": "Score: lower end of the interval", "score: high": "Score: upper end of the interval",
    f"{METADATA}system": "Assistant version", "turns": "Number of turns",
}  # fmt: skip
"""Names of columns for readers."""
USUAL_GROUPS = tuple(f"{METADATA}{name}" for name in ("system", "language", "topic", "domain", "category"))
"""Columns to group by without a choice, the most useful first."""
MAX_NAME = 40
Cell = str | float | bool | None


@dataclass(frozen=True)
class ScoreTable:
    """Sampled scores of a selection, or ratings of the main question: values by column name, `None` if missing.

    Attributes:
        scores: The board's selection of scores, or `None` for ratings.
        rows: Values of each score.
        conversations: Conversation of each row.
        columns: True for columns that hold only numbers.
        questions: Questions of the rubric whose answers a column holds.
        total: Number of scores without those left out.
        synthetic: Number of scores left out because their conversations are synthetic.
        unknown: Number of rows whose conversation is not in the store.
    """

    scores: SelectedScores | None = None
    rows: Sequence[dict[str, Cell]] = ()
    conversations: Sequence[str] = ()
    columns: Mapping[str, bool] = field(default_factory=dict)
    questions: Mapping[str, Question] = field(default_factory=dict)
    total: int = 0
    synthetic: int = 0
    unknown: int = 0

    @property
    def value(self) -> str:
        """Column of the main question."""
        return RATING if self.scores is None else SCORE

    @property
    def noun(self) -> str:
        """Words for a row: a score, a rating by a person, or the mean rating of a conversation or reply."""
        if self.scores is None:
            return "rating"
        about = self.scores.selection
        return "score" if about.answers == "predicted" else "rating" if about.view == "each" else "mean rating"

    def column_name(self, column: str) -> str:
        """Return the name of a column for lists; questions by their short name, and named with their kind."""
        question = self.questions.get(column)
        if column in (SCORE, RATING):
            return "Score" if self.noun == "score" else "Rating"
        if column.startswith(QUESTION) and question is not None:
            return f"Question: {question.shown}"
        name = _WORDS.get(column, column.removeprefix(METADATA) if column in USUAL_GROUPS else column)
        return name[:1].upper() + name[1:]

    def short_name(self, column: str) -> str:
        """Return the name of a column for titles: the name of its question, or the column's name without its kind."""
        question = self.questions.get(column)
        if question is not None:
            return question.shown
        name = _WORDS.get(column, column.removeprefix(METADATA).removeprefix(METRIC))
        name = name[:1].lower() + name[1:] if column in _WORDS else name
        return name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"

    def default_group(self) -> str:
        """Return the first column with 2 to `CATEGORIES` values: system, language, topic, ..., day; else none."""
        others = [name for name in self.columns if name.startswith("metadata: ")]
        for name in (*USUAL_GROUPS, *others, DAY):
            if 2 <= len({row.get(name) for row in self.rows} - {None}) <= min(CATEGORIES, len(self.rows) // 2):
                return name
        return ""


def load_score_table(
    project: Project, board: Board | None = None, selection: BoardFilters | None = None, size: int = SAMPLE_SIZE
) -> ScoreTable:
    """Return the scores of a selection, or the ratings if nothing is scored, with metadata and metrics.

    Args:
        project: Project whose store and sources are used.
        board: The project's board; by default a new one.
        selection: Filters of the board; by default none.
        size: Maximum number of rows.
    """
    board, selection = board or Board(project), selection or BoardFilters()
    random = Random(project.config.seed)
    selected = board.scores(selection)
    if selected is None:
        is_included = selection.synthetic != "without"
        excluded = set() if is_included else {each.id for each in project.store.conversations(synthetic="only")}
        sample, total, left_out = _sample(_ratings(project), excluded, size, random)
    else:
        sample, total = _sampled_scores(project, selected, size, random)
        left_out = selected.left_out
    conversations = {each.id: each for each in project.store.conversations({row["conversation"] for row in sample})}
    rows = [_table_row(score, conversations.get(score["conversation"]), selected is not None) for score in sample]
    for row, metrics in zip(rows, _metrics(project, sample, conversations), strict=True):
        row.update(metrics)
    questions = {f"{QUESTION}{question.id}": question for question in project.rubric.questions}
    ids = [score["conversation"] for score in sample]
    value, asked = RATING, project.question
    if selected is not None:
        value, asked = SCORE, project.rubric.get(str(selected.selection.question)) or project.question
    return ScoreTable(
        selected, rows, ids, _columns_of(rows), {**questions, value: asked}, total, left_out,
        sum(name not in conversations for name in ids),
    )  # fmt: skip


def _sampled_scores(
    project: Project, selected: SelectedScores, size: int, random: Random
) -> tuple[list[Mapping[str, Any]], int]:
    """Return a random sample of the selected scores, or of people's ratings of the same texts, and their number."""
    about = selected.selection
    is_mean = about.answers == "given" and about.view == "panel"
    scored = (selected.texts() if is_mean else selected.scored).select("conversation", "turn", "annotator", "value")
    count = len(scored)
    if count > size:
        scored = scored[sorted(random.sample(range(count), size))]
    names = scored["annotator"].cast(str).to_list()
    keys = list(zip(scored["conversation"], scored["turn"], names, strict=True))
    if about.answers == "given":
        return [
            {"conversation": name, "turn": turn, "annotator": None if is_mean else annotator, "value": value}
            for (name, turn, annotator), value in zip(keys, scored["value"], strict=True)
        ], count  # fmt: skip
    ids = {name for name, *_ in keys}
    rows = scores_of_conversations(project.mart, str(about.question), str(about.evaluator), ids)
    by_key = {(row["conversation"], row.get("turn"), str(row.get("annotator"))): row for row in rows}
    return [by_key[key] for key in keys if key in by_key], count


def _columns_of(rows: Sequence[Mapping[str, Cell]]) -> dict[str, bool]:
    """Return the names of all columns, with True for those that hold numbers alone."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: all(is_number(row.get(name)) or row.get(name) is None for row in rows) for name in names}


def _sample(
    scores: Iterable[Mapping[str, Any]], excluded: Collection[str], size: int, random: Random
) -> tuple[list[Mapping[str, Any]], int, int]:
    """Return a random sample in one pass (reservoir sampling), and the numbers of included and excluded scores."""
    sample, total, left_out = list[Mapping[str, Any]](), 0, 0
    for score in scores:
        if score["conversation"] in excluded:
            left_out += 1
            continue
        total += 1
        if len(sample) < size:
            sample.append(score)
        elif (place := random.randrange(total)) < size:
            sample[place] = score
    return sample, total, left_out


def _ratings(project: Project) -> Iterable[Mapping[str, Any]]:
    """Return the ratings of the main question as rows of scores."""
    return (
        {"conversation": each.target.conversation, "turn": each.target.turn, "annotator": each.annotator,
         "value": each.value}
        for each in comparable_labels(project.store, project.question.id)
        if each.against is None and is_number(each.value)
    )  # fmt: skip


def _table_row(score: Mapping[str, Any], conversation: Conversation | None, is_scored: bool) -> dict[str, Cell]:
    if is_scored:
        row: dict[str, Cell] = {f"score: {name}": score.get(name) for name in SCORE_FIELDS}
        row |= {"score: annotator": score.get("annotator"), "score: warning": bool(score.get("warning"))}
    else:
        row = {RATING: score["value"], "annotator": score["annotator"]}
    for name, answer in ((score.get("notes") or {}).get("other_questions") or {}).items():
        row[f"{QUESTION}{name}"] = answer.get("value")
    if conversation is not None:
        row["turns"] = len(conversation.turns)
        for name, value in conversation.metadata.items():
            if isinstance(value, str | int | float):
                row[sendable(f"metadata: {name}")] = sendable(value)[:200] if isinstance(value, str) else value
        if (time := ConversationFacts.of(conversation).time) is not None:
            row[DAY] = time_of(time).date().isoformat()
        row["synthetic"] = conversation.is_synthetic
    return row


def _metrics(
    project: Project, scores: Sequence[Mapping[str, Any]], conversations: Mapping[str, Conversation]
) -> list[dict[str, float]]:
    """Return the metrics of each score's target, from the sources that need no model."""
    sources = [source for name in project.evidence if not (source := project.source(name)).roles]
    samples = {
        (row["conversation"], row.get("turn")): Sample(conversations[row["conversation"]], row.get("turn"))
        for row in scores
        if row["conversation"] in conversations
        and (row.get("turn") or 0) < len(conversations[row["conversation"]].turns)
    }
    table = project.measure(sources, list(samples.values()))
    index = {tuple(target): number for number, target in enumerate(table.targets)}
    rows = [index.get((score["conversation"], score.get("turn"))) for score in scores]
    return [
        {}
        if row is None
        else {
            f"metric: {column.name}": float(table.values[row, at])
            for at, column in enumerate(table.columns)
            if table.present[row, at]
        }
        for row in rows
    ]


def is_number(value: Any) -> bool:
    """Return True for a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

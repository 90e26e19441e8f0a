"""Scores of a selection from the mart: one row per text and annotator, with the columns that statistics need.

Resampling draws whole conversations. Large selections draw the bundles of the mart (`accord.values.BUNDLES`) instead,
whose sums have the same variance.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from accord.board.filters import DIMENSIONS, BoardFilters, filter_in_words, learned_words
from accord.board.notes import (
    all_learned,
    evaluator_notes,
    learned_count,
    scale_notes,
    synthetic_notes,
    training_notes,
)
from accord.board.texts import ConversationTexts
from accord.edges import UnknownName
from accord.learning import RULES, UNLIKE
from accord.project import Workspace, comparable_labels
from accord.results import Figure
from accord.store import MartState, MonitoringTables, StoreError
from accord.values import BUNDLES, POPULATION, Question

if TYPE_CHECKING:
    import polars as pl

MAX_EXACT_ROWS = 5_000
"""Maximum number of rows for which single conversations are resampled."""
MAX_CHOICES = 200
"""Maximum number of topics or systems to choose from."""
CACHED_SELECTIONS = 2
"""Number of selections whose rows stay in memory."""
_EMPTY = ("probabilities", "unscored", "spread", "low", "high")
"""Columns of scores that people's answers lack."""
NO_ANNOTATOR = (POPULATION, *RULES)
"""Annotator names of scores that belong to no single annotator."""
SOURCE = "accord.board.Board.figures"
"""Function behind the figures of the board."""
DAY = "day"
GIVEN = "people’s ratings of scored conversations"
UNKNOWN = "unknown"
"""Name of a group whose conversations lack the dimension."""


@dataclass(frozen=True)
class BoardChoices:
    """Numbers of scores by question and by evaluator (the latest first), and of synthetic and all scores.

    `names` has the name of each evaluator with the day of its first score, and `answered` the evaluators by question.
    `topics` and `systems` occur in the conversations, at most `MAX_CHOICES` of each.
    """

    questions: Mapping[str, int]
    evaluators: Mapping[str, int]
    synthetic: int
    total: int
    names: Mapping[str, str]
    answered: Mapping[str, frozenset[str]]
    topics: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()


@dataclass(frozen=True)
class SelectedScores:
    """Scores of a selection.

    Attributes:
        selection: Filters, with the chosen question and evaluator.
        rows: One row per text and annotator: `conversation`, `turn`, `annotator`, `value` (`None` without a score),
            `cluster`, `day`, the dimensions, `input` (of the first text of the conversation), `unit` (the input,
            or the cluster without one), `unscored`, `in_training`, `is_unlike` (the score has a warning that the
            conversation is unlike the training data), and `spread`, the standard deviation of a new
            annotator's predicted answer; in the view of each annotator also `probabilities`.
        low, high: Ends of the scale.
        options: Answers with a probability.
        left_out: Number of scores of synthetic conversations that are left out.
        in_training: Number of scores of training conversations, included or left out.
        has_training: True if these are included.
        choices: Other questions and evaluators.
        state: State of the mart.
        notes: Sentences about scores that are left out or included.
        is_other_scale: True if the scores were made on another scale than the rubric has for the question now.
        is_main: True for scores of the main question.
        question_names: Short names of the questions by id, as far as the rubric has them.
        new: Number of scored texts that the evaluator did not learn from, and of those unlike the training data.
    """

    selection: BoardFilters
    rows: pl.DataFrame
    low: float
    high: float
    options: tuple[float, ...]
    left_out: int
    in_training: int
    has_training: bool
    choices: BoardChoices
    state: MartState
    notes: tuple[str, ...] = ()
    is_other_scale: bool = False
    is_main: bool = True
    question_names: Mapping[str, str] = field(default_factory=dict)
    new: tuple[int, int] = (0, 0)

    def shown(self, question: str) -> str:
        """Return the short name of a question, or its id."""
        return self.question_names.get(question, question)

    @property
    def counted(self) -> str:
        """Numbers of conversations and of texts with a score, in words: the same on every page."""
        scored = self.scored.select("conversation", "turn")
        texts, conversations = scored.n_unique(), scored["conversation"].n_unique()
        said = "1 conversation" if conversations == 1 else f"{conversations:,} conversations"
        return said if texts == conversations else f"{self.count(texts)} in {said}"

    def count(self, texts: int) -> str:
        """Return a number of conversations or replies, in words."""
        return f"{texts:,} {self.noun(texts)}"

    def noun(self, count: int) -> str:
        """Return the word for a number of texts: conversations, or replies if turns are scored."""
        one, many = ("conversation", "conversations")
        if self.rows["turn"].null_count() < len(self.rows):
            one, many = ("reply", "replies")
        return one if count == 1 else many

    @property
    def new_scores(self) -> Figure:
        """Number of scored texts that the evaluator did not learn from."""
        return Figure(
            "new_scores", self.new[0], about=f"scored {self.noun(2)}{self.filtered}", by="scores", source=SOURCE
        )

    @property
    def new_unlike(self) -> Figure:
        """Number of new scored texts that are unlike the training data."""
        about = f"{self.new[0]:,} new {self.noun(self.new[0])}{self.filtered}"
        return Figure("new_unlike", self.new[1], n=self.new[0], about=about, by="scores", source=SOURCE)

    @property
    def unlike(self) -> str:
        """Sentence on the new texts that are unlike the training data; empty without any, and for people's ratings."""
        if not self.new[1] or self.selection.answers == "given":
            return ""
        are = "is" if self.new[1] == 1 else "are"
        return f"{self.new_unlike.text()} {self.noun(self.new[0])} {are} {UNLIKE}, so their scores may be wrong."

    @property
    def filtered(self) -> str:
        """Filters of the conversations, such as " with topic refunds"; empty without any."""
        filters = [filter_in_words(name, value) for name, value in self.selection.filters().items()]
        return f" with {', '.join(filters)}" if filters else ""

    @property
    def kind(self) -> str:
        """Kind of the shown texts: rated, new, or empty for scores of texts that the evaluator partly learned from."""
        return "rated" if self.selection.answers == "given" else "" if self.has_training else "new"

    def about(self, texts: int) -> str:
        """Return the set of a number of shown texts, such as "18 new conversations with topic refunds"."""
        return " ".join(filter(None, [f"{texts:,}", self.kind, self.noun(texts)])) + self.filtered

    @property
    def is_self_made(self) -> bool:
        """True for predictions of conversations that the evaluator learned from, which compare nothing."""
        return self.has_training and self.selection.answers == "predicted"

    @property
    def is_all_learned(self) -> bool:
        """True if the evaluator learned from every conversation of the selection: its scores compare nothing."""
        return all_learned(self.rows)

    @property
    def learned(self) -> str:
        """Sentence about conversations that the evaluator learned from, if scores of these are shown; else empty."""
        is_all = self.is_all_learned
        if not self.is_self_made and not is_all:
            return ""
        said = learned_words(learned_count(self.rows), is_all)
        more = "; import new ones to compare versions by scores" if is_all else ""
        return f"{said[:1].upper()}{said[1:]}{more}."

    @property
    def quiet_notes(self) -> tuple[str, ...]:
        """Notes that pages leave out, because `learned` or the chosen kind of values states them."""
        learned = self.learned
        return tuple(note for note in self.notes if note == GIVEN or note[1:].partition(";")[0] in learned)

    @property
    def scored(self) -> pl.DataFrame:
        """Rows with a score."""
        return self.rows.filter(self.rows["value"].is_not_null())

    @property
    def annotators(self) -> list[str]:
        """Annotators of the scores."""
        return sorted(map(str, self.rows["annotator"].unique()))

    @property
    def is_population(self) -> bool:
        """True if all scores predict a new annotator."""
        return self.annotators == [POPULATION]

    @property
    def shows_disagreement(self) -> bool:
        """True if `texts` has standard deviations `apart`."""
        return len(self.annotators) > 1 or self.is_population

    def texts(self) -> pl.DataFrame:
        """Return one row per text: mean `value` over annotators, and their standard deviation `apart`.

        For a new annotator, `apart` is the standard deviation of the predicted answer: people
        disagree on a text as far as their answers are expected to differ.
        """
        import polars as pl

        scored = self.scored
        if len(self.annotators) < 2:
            return scored.with_columns(pl.col("spread").alias("apart"))
        others = [name for name in scored.columns if name not in ("value", "conversation", "turn")]
        return scored.group_by("conversation", "turn", maintain_order=True).agg(
            pl.col("value").mean(), pl.col("value").std().alias("apart"), *(pl.col(name).first() for name in others)
        )


class ScoreReader:
    """Reader of a project's mart, with a cache of the latest selections."""

    def __init__(self, project: Workspace) -> None:
        self.project, self.mart, self.conversations = project, project.mart, ConversationTexts(project)
        self._kept: OrderedDict[tuple[BoardFilters, Any], SelectedScores] = OrderedDict()
        self._lock = Lock()
        self._choices: tuple[MartState, dict[str, BoardChoices]] | None = None
        self._labels: tuple[Any, pl.DataFrame] | None = None

    def state(self, selection: BoardFilters) -> tuple[MartState, Any, frozenset[str] | None, str]:
        """Return a value that changes whenever scores, labels or the conversations of a selection change."""
        return self.mart.state(), self.project.store.labels_version(), *self.conversations.chosen(selection)

    def texts(self, selection: BoardFilters) -> SelectedScores | None:
        """Return the rows of a selection, or `None` if the mart is empty.

        Raises:
            UnknownName: The mart has no scores on this question, or by this evaluator.
            StoreError: The mart or each of its files is unreadable.
        """
        with self._lock:
            state = self.state(selection)
            key = selection.base, state
            if key in self._kept:
                self._kept.move_to_end(key)
                found = self._kept[key]
                about = found.selection
                taken = replace(selection, question=about.question, evaluator=about.evaluator, answers=about.answers)
                return replace(found, selection=taken)
            choices = self._choose(selection)
            if choices is None:
                return None
            found = self._read(selection, *choices, *state[2:])
            self._kept[key] = found
            while len(self._kept) > CACHED_SELECTIONS:
                self._kept.popitem(last=False)
            return found

    def _choose(self, selection: BoardFilters) -> tuple[str, str, BoardChoices] | None:
        """Return the question and the evaluator of a selection, and the other choices."""
        import polars as pl

        state = self.mart.state()
        if self._choices is None or self._choices[0] != state:
            about = [
                pl.len(), pl.col("scored").max(), pl.col("scored").min().alias("began"),
                pl.col("synthetic").fill_null(False).sum(), pl.col("topic").unique(), pl.col("system").unique(),
            ]  # fmt: skip
            counted, state = self.mart.read(
                lambda rows: rows.group_by("question", "evaluator").agg(about).sort("scored", descending=True).collect()
            )
            found: dict[str, BoardChoices] = {}
            totals = dict(counted.group_by("question", maintain_order=True).agg(pl.col("len").sum()).iter_rows())
            began = counted.group_by("evaluator").agg(pl.col("began").min())
            names = _evaluator_names(dict(began.iter_rows()))
            answered = {str(name): frozenset(rows["evaluator"]) for (name,), rows in counted.group_by("question")}
            for name in totals:
                of = counted.filter(pl.col("question") == name)
                evaluators = dict(zip(of["evaluator"], of["len"], strict=True))
                found[name] = BoardChoices(
                    totals, evaluators, int(of["synthetic"].sum()), int(of["len"].sum()), names, answered,
                    _distinct(of["topic"]), _distinct(of["system"]),
                )  # fmt: skip
            self._choices = state, found
        per_question = self._choices[1]
        if not per_question:
            if state.faults:
                raise StoreError(f"no scores can be read: {'; '.join(state.faults)}")
            return None
        main = self.project.question.id
        question = selection.question or (main if main in per_question else next(iter(per_question)))
        if question not in per_question:
            raise UnknownName("question with scores", question, per_question)
        choices = per_question[question]
        latest = next(iter(choices.evaluators))
        evaluator = selection.evaluator or latest
        if evaluator in choices.names and evaluator not in choices.evaluators:
            evaluator = latest  # it answered other questions
        if evaluator not in choices.evaluators:
            raise UnknownName("evaluator with scores", evaluator, choices.evaluators)
        return question, evaluator, choices

    def _with_answers(self, selection: BoardFilters, rows: pl.DataFrame, question: str, is_other: bool) -> BoardFilters:
        """Return the selection with scores or ratings: ratings where all rated conversations were learned from."""
        if selection.answers is not None:
            return selection
        is_rated = not is_other and all_learned(rows) and len(self._given(rows, question)) > 0
        return replace(selection, answers="given" if is_rated else "predicted")

    def _read(
        self,
        selection: BoardFilters,
        question: str,
        evaluator: str,
        choices: BoardChoices,
        ids: frozenset[str] | None,
        unread: str,
    ) -> SelectedScores:
        import polars as pl

        whose = (pl.col("question") == question) & (pl.col("evaluator") == evaluator)
        synthetic = pl.col("synthetic").fill_null(False)
        when = pl.coalesce("time", "scored").dt.date().alias(DAY)
        about = whose & _conversations(selection, when, ids)
        wanted = about & _is_chosen(selection, synthetic)
        columns = [
            "conversation", "turn", pl.col("annotator").cast(pl.Categorical), "value", "bundle",
            *(pl.col(name).cast(pl.Categorical) for name in DIMENSIONS), when, _hashed_input(),
            pl.col("unscored").cast(pl.Categorical), pl.col("in_training").fill_null(False),
            pl.col("warning").str.contains(UNLIKE, literal=True).fill_null(False).alias("is_unlike"),
            "probabilities", "low", "high",
        ]  # fmt: skip
        training = pl.col("in_training").fill_null(False)
        in_training = self._count(wanted & training)
        rows, state = self.mart.read(
            lambda rows: rows.filter(wanted & _trained(selection, training)).select(columns).collect()
        )
        alone = in_training and not len(rows)  # only such scores exist
        if alone:
            rows, state = self.mart.read(lambda rows: rows.filter(wanted).select(columns).collect())
        options = self._options(whose)
        asked = self.project.rubric.get(question)
        is_other = _is_other_scale(asked, options)
        selection = self._with_answers(selection, rows, question, is_other)
        left_out = self._count(about & synthetic) if selection.synthetic == "without" and choices.synthetic else 0
        has_training = bool(in_training) and (selection.training == "with" or bool(alone))
        rows, whom = _of_view(_with_first_inputs(rows), selection)
        notes = [*synthetic_notes(selection, left_out), *whom, *filter(None, [unread])]
        notes += training_notes(selection, rows, in_training, has_training)
        notes += evaluator_notes(selection, evaluator, choices.names)
        rows = _with_spread(rows, options)
        rows = rows if selection.view == "each" else rows.drop("probabilities")
        new = _new_and_unlike(rows)
        if selection.answers == "given":
            rows = self._given(rows, question)
            notes.append(GIVEN)
        rows = _with_clusters(rows)
        low, high = _ends(None if is_other else asked, options, rows)
        notes += scale_notes(asked if is_other else None, low, high)
        taken = replace(selection, question=question, evaluator=evaluator)
        return SelectedScores(
            taken, rows, low, high, options, left_out, in_training, has_training, choices, state, tuple(notes),
            is_other, question == self.project.question.id,
            {each.id: each.shown for each in self.project.rubric.questions}, new,
        )  # fmt: skip

    def _options(self, whose: pl.Expr) -> tuple[float, ...]:
        """Return the options of the first score that has any; empty if there is none."""
        import polars as pl

        known = whose & pl.col("options").is_not_null()
        first, _ = self.mart.read(lambda rows: rows.filter(known).select("options").head(1).collect())
        return tuple(map(float, first["options"][0])) if len(first) else ()

    def _count(self, wanted: pl.Expr) -> int:
        import polars as pl

        return int(self.mart.read(lambda rows: rows.filter(wanted).select(pl.len()).collect().item())[0])

    def _given(self, rows: pl.DataFrame, question: str) -> pl.DataFrame:
        """Return people's answers to the same texts, in the format of scores."""
        import polars as pl

        empty = [pl.lit(None, rows.schema[name]).alias(name) for name in _EMPTY if name in rows]
        about = rows.drop("annotator", "value", *_EMPTY, strict=False)
        about = about.unique(["conversation", "turn"], maintain_order=True)
        keys = ["conversation", "turn"]
        given = self.labels(question).select("conversation", "turn", "annotator", "value")
        found = about.join(given, on=keys, how="inner", nulls_equal=True)
        return found.with_columns(pl.col("annotator").cast(pl.Categorical), *empty).select(rows.columns)

    def labels(self, question: str) -> pl.DataFrame:
        """Return people's answers to a question: `conversation`, `turn`, `annotator`, `value`, `rated` (a time)."""
        import polars as pl

        state = question, self.project.store.labels_version()
        if self._labels is None or self._labels[0] != state:
            found = [
                (each.target.conversation, each.target.turn, each.annotator, float(each.value), each.time)
                for each in comparable_labels(self.project.store, question)
                if isinstance(each.value, int | float) and each.against is None
            ]
            schema = {"conversation": pl.String(), "turn": pl.Int32(), "annotator": pl.String(), "value": pl.Float64(),
                      "rated": pl.String()}  # fmt: skip
            self._labels = state, pl.DataFrame(found, schema=schema, orient="row")
        return self._labels[1]

    def alarms(self) -> list[dict[str, Any]]:
        """Return the alarms of monitoring."""
        return MonitoringTables(self.project.store).alarms()


def _distinct(lists: pl.Series) -> tuple[str, ...]:
    """Return the first names of some lists, in order."""
    return tuple(sorted({name for names in lists for name in names if name is not None})[:MAX_CHOICES])


def _evaluator_names(began: Mapping[str, datetime | None]) -> dict[str, str]:
    """Return a name for each evaluator: its own with the day of its first score, and the time if two share the day."""
    names: dict[str, str] = {}
    for clock in ("", ", %H:%M", ", %H:%M:%S"):
        counts = Counter(names.values())
        for id, time in began.items():
            if not names.get(id) or counts[names[id]] > 1:
                name = id.partition("@")[0]
                names[id] = name if time is None else f"{name} ({time.day} {time:%b %Y{clock}})"
    counts = Counter(names.values())
    return {id: name if counts[name] == 1 else id for id, name in names.items()}


def _is_chosen(selection: BoardFilters, synthetic: pl.Expr) -> pl.Expr:
    """Return the condition for scores for the selected annotators, of synthetic or other conversations."""
    import polars as pl

    chosen = {"with": pl.lit(True), "only": synthetic, "without": ~synthetic}[selection.synthetic]
    return chosen & pl.col("annotator").is_in(list(selection.annotators)) if selection.annotators else chosen


def _trained(selection: BoardFilters, training: pl.Expr) -> pl.Expr:
    """Return the condition for predictions of conversations that the evaluator learned from."""
    import polars as pl

    is_all = selection.training == "with" or selection.answers == "given"
    return pl.lit(True) if is_all else ~training


def _conversations(selection: BoardFilters, when: pl.Expr, ids: frozenset[str] | None) -> pl.Expr:
    """Return the condition that a row's conversation is selected; `ids` are those with the words and the issue."""
    import polars as pl

    wanted = pl.lit(True) if ids is None else pl.col("conversation").is_in(sorted(ids))
    for name, value in selection.filters().items():
        if name in DIMENSIONS:
            wanted &= pl.col(name).is_null() if value == "" else pl.col(name) == value
    if selection.since:
        wanted &= when >= date.fromisoformat(selection.since)
    if selection.until:
        wanted &= when <= date.fromisoformat(selection.until)
    return wanted


def _of_view(rows: pl.DataFrame, selection: BoardFilters) -> tuple[pl.DataFrame, list[str]]:
    """Return the scores of the population or of single annotators, as the view asks, and notes about the others."""
    import polars as pl

    if selection.annotators:
        return rows, [f"only scores for {', '.join(selection.annotators)}"]
    by = set(rows["annotator"].unique().cast(pl.String))
    people, anybody = by - set(NO_ANNOTATOR), by & set(NO_ANNOTATOR)
    if not people or not anybody:
        return rows, []
    wanted = people if selection.view == "each" else anybody
    count = len(people)
    notes = (
        []
        if selection.view == "each"
        else [f"scores for {count} single annotators are shown in the view of each annotator"]
    )
    return rows.filter(pl.col("annotator").cast(pl.String).is_in(sorted(wanted))), notes


def _hashed_input() -> pl.Expr:
    """Return the hash of the input; null if it is unknown, which `hash` alone gives a hash, too."""
    import polars as pl

    return pl.when(pl.col("input").is_not_null()).then(pl.col("input").hash()).alias("input")


def _new_and_unlike(rows: pl.DataFrame) -> tuple[int, int]:
    """Return the number of new scored texts, and the number of these that are unlike the training data."""
    new = rows.filter(rows["value"].is_not_null() & ~rows["in_training"])
    unlike = new.filter(new["is_unlike"])
    if rows["annotator"].n_unique() < 2:
        return len(new), len(unlike)
    return new.select("conversation", "turn").n_unique(), unlike.select("conversation", "turn").n_unique()


def _with_first_inputs(rows: pl.DataFrame) -> pl.DataFrame:
    """Replace the input of each reply by the input of the first scored reply of its conversation.

    Replies of one conversation depend on each other, so they are one unit of an interval.
    """
    import polars as pl

    if rows["turn"].null_count() == len(rows):
        return rows
    first = pl.col("input").get(pl.col("turn").arg_min())
    of = rows.drop_nulls("input").group_by("conversation").agg(first)
    return rows.drop("input").join(of, on="conversation", how="left", maintain_order="left")


def _with_clusters(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the `cluster` of each row, and its `unit`: the conversations of one input, else the cluster.

    Many rows have bundles of conversations and bundles of inputs, whose sums have the same variance.
    """
    import polars as pl

    if len(rows) <= MAX_EXACT_ROWS:
        cluster = pl.col("conversation").rank("dense").cast(pl.Int32) - 1
        return rows.with_columns(
            cluster.alias("cluster"), pl.coalesce("input", pl.col("conversation").hash()).alias("unit")
        )
    unit = pl.coalesce((pl.col("input") % BUNDLES).cast(pl.Int32), pl.col("bundle") + BUNDLES)
    return rows.with_columns(pl.col("bundle").alias("cluster"), unit.alias("unit"))


def _with_spread(rows: pl.DataFrame, options: tuple[float, ...]) -> pl.DataFrame:
    """Add the standard deviation of the distribution of each score for a new annotator."""
    import polars as pl

    is_known = (pl.col("annotator") == POPULATION) & (pl.col("probabilities").list.len() == len(options))
    known = rows.select(is_known.fill_null(False)).to_series()
    spread = np.full(len(rows), np.nan)
    if options and known.any():
        lists = rows["probabilities"] if known.all() else rows["probabilities"].filter(known)
        shares, of = lists.explode().to_numpy().reshape(-1, len(options)), np.array(options)
        spread[known.to_numpy()] = np.sqrt(np.maximum(shares @ of**2 - (shares @ of) ** 2, 0.0))
    return rows.with_columns(pl.Series("spread", spread).fill_nan(None))


def _is_other_scale(question: Question | None, options: tuple[float, ...]) -> bool:
    """Return True if the options of scores end elsewhere than the scale of the question."""
    if question is None or not question.scale.is_ordered or len(options) < 2:
        return False
    return (options[0], options[-1]) != (question.scale.numbers[0], question.scale.numbers[-1])


def _ends(question: Question | None, options: tuple[float, ...], rows: pl.DataFrame) -> tuple[float, float]:
    """Return the ends of the question's scale, else the ends of the options, else the ends of the values."""
    if question is not None and question.scale.is_ordered and question.scale.numbers:
        return min(question.scale.numbers), max(question.scale.numbers)
    if len(options) > 1:
        return options[0], options[-1]
    values = rows["value"].drop_nulls().to_list()
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    return (low, high) if high > low else (low - 0.5, high + 0.5)

"""Statistics of a selection of scores, cached until scores or labels change, and pages of its texts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from accord.board.comparisons import (
    MAX_GROUPS_IN_PAIRS,
    MeanDifference,
    evaluator_difference,
    group_difference,
    last_period_difference,
    pair_differences,
    pairs_of,
    question_differences,
)
from accord.board.density import Density, density_of
from accord.board.drift import drift_of
from accord.board.filters import DIMENSIONS, BoardFilters, filter_in_words
from accord.board.score_reader import ScoreReader, SelectedScores
from accord.board.statistics import (
    GroupTable,
    controversial,
    drifts,
    group_table,
    over_time,
    powered,
    pulls,
    rises,
)
from accord.board.summary import BoardFigures, changes_of, figures_of, first_sentence, headline_of, overview_of
from accord.board.texts import ConversationTexts
from accord.decisions import BatchChange
from accord.edges import AccordError, reason_of
from accord.learning import UNLIKE
from accord.project import Workspace, change_of_scores
from accord.results import Fold, Section, Table, Text, written
from accord.store import anchors
from accord.validation import attribution

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")
PAGE = 50
"""Number of texts on a page of a list."""
LOWEST_SHOWN = 10
"""Number of texts in the section of new scores."""
CACHE_SIZE = 16
"""Number of cached results."""
NEXT = {
    "Score a file": "accord score chats.jsonl --out scores.jsonl",
    "Score live": "accord serve",
    "Add a folder of scores": "accord import FOLDER",
}
"""Commands that make the first scores."""


class Board:
    """The board of a project; safe for use from several threads."""

    def __init__(self, project: Workspace) -> None:
        self.project, self.reader = project, ScoreReader(project)
        self._made: OrderedDict[Any, Any] = OrderedDict()
        self._lock = Lock()

    def figures(self, selection: BoardFilters) -> tuple[SelectedScores, BoardFigures] | None:
        """Return the statistics of a selection; `None` without any scores.

        Raises:
            BadInput: The selection names a question, evaluator or group without scores.
            StoreError: Scores or labels cannot be read.
        """
        if selection.against is not None and selection.answers is None:
            selection = replace(selection, answers="predicted")
        alarms, today = self.reader.alarms(), datetime.now(UTC).date()
        state = self.reader.state(selection), len(alarms), anchors.Anchors(self.project.store).state(), today
        with self._lock:
            found = self.reader.texts(selection)
            if found is None:
                return None
            shared = self._once(("shared", selection.base, state), lambda: self._shared(found, alarms))
            texts, base = shared
            if selection.by is None:
                selection = replace(selection, by=next(iter(base.pairs), DIMENSIONS[0]))
            chosen = replace(found, selection=replace(found.selection, by=selection.by))
            return chosen, self._once((selection, state), lambda: self._with_groups(chosen, texts, base))

    def page(
        self, selection: BoardFilters, number: int = 1, size: int = PAGE
    ) -> tuple[SelectedScores, TextPage] | None:
        """Return a page of the texts of a selection; `None` without any scores.

        Raises:
            BadInput: The selection names a question or evaluator without scores.
            StoreError: Scores or labels cannot be read.
        """
        found = self.reader.texts(selection)
        if found is None:
            return None
        page = listed(found, number, size)
        details = self.reader.conversations.of((row.conversation, row.turn) for row in page.rows)
        rows = []
        for row in page.rows:
            words, issues = details[row.conversation, row.turn]
            rows.append(replace(row, words=words, issues=issues))
        return found, replace(page, rows=tuple(rows))

    def scores(self, selection: BoardFilters) -> SelectedScores | None:
        """Return the scores of a selection; `None` without any.

        Raises:
            BadInput: The selection names a question or evaluator without scores.
            StoreError: Scores or labels cannot be read.
        """
        return self.reader.texts(selection)

    @property
    def conversations(self) -> ConversationTexts:
        """Words, issues and search of the project's conversations."""
        return self.reader.conversations

    def state(self, selection: BoardFilters) -> Hashable:
        """Return a value that changes whenever scores, labels or the conversations of a selection change."""
        return self.reader.state(selection)

    def issues(self) -> dict[str, int]:
        """Return the number of conversations with an issue, by its kind, the most frequent first."""
        return {kind: len(ids) for kind, ids in self.reader.conversations.by_issue().items()}

    def _once(self, key: Any, make: Callable[[], T]) -> T:
        """Return the cached result of a key, or compute it; the least recently used result is dropped."""
        if key not in self._made:
            self._made[key] = make()
            while len(self._made) > CACHE_SIZE:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        made: T = self._made[key]
        return made

    def _shared(self, scores: SelectedScores, alarms: list[dict[str, Any]]) -> tuple[pl.DataFrame, BoardFigures]:
        """Return the texts of a selection, and the statistics that do not depend on groups."""
        about, each = scores.selection, scores.selection.view == "each"
        texts = scores.texts()
        rows = scores.scored if each else texts
        density = density_of(scores, rows)
        missing = scores.rows.filter(scores.rows["value"].is_null())["unscored"]
        unscored = {str(name): int(n) for name, n in missing.value_counts(sort=True).head(10).iter_rows()}
        time = over_time(scores, texts, [*alarms, *drifts(scores, self.reader)])
        many = len(scores.annotators) > 1
        scored = len(texts) > 0
        people, rests_on = powered(scores, texts, self.reader) if about.answers == "predicted" else ([], "")
        return texts, BoardFigures(
            "", "", overview_of(scores, len(texts), density, time), (*scores.notes, *scores.state.faults), len(texts),
            density.mean, unscored, density, self._given(scores), GroupTable("system", (), 0),
            group_table(scores, scores.scored, "annotator") if many else None, time,
            pairs_of(texts), None, (), (), None, last_period_difference(scores, texts, time),
            tuple(controversial(scores)), tuple(people), rests_on,
            tuple(pulls(scores, texts, self.reader)) if scored and about.answers == "predicted" else (),
            tuple(rises(scores, texts, self.reader, self.project.question.id)) if scored else (), self._drift(scores),
            batch=self._batch(scores),
        )  # fmt: skip

    def _drift(self, scores: SelectedScores) -> attribution.Attribution | None:
        """Return the drift of all scores of the evaluator, or `None` for ratings and for scores on another scale."""
        about, question = scores.selection, self.project.rubric.get(str(scores.selection.question))
        if about.answers != "predicted" or scores.is_other_scale or question is None:
            return None
        today, judged = datetime.now(UTC).date(), anchors.Anchors(self.project.store).state()
        key = "drift", about.evaluator, question.id, self.reader.mart.state(), judged, today
        return self._once(key, lambda: drift_of(self.project, about.evaluator, question))

    def _batch(self, scores: SelectedScores) -> BatchChange | None:
        """Return the change of the latest batch of the evaluator's scores; None for ratings and for another scale."""
        about, question = scores.selection, self.project.rubric.get(str(scores.selection.question))
        if about.answers != "predicted" or scores.is_other_scale or question is None:
            return None
        labels, today = self.project.store.labels_version(), datetime.now(UTC).date()
        key = "batch", about.evaluator, question.id, self.reader.mart.state(), labels, today
        return self._once(key, lambda: change_of_scores(self.project, about.evaluator, question))

    def _with_groups(self, scores: SelectedScores, texts: pl.DataFrame, figures: BoardFigures) -> BoardFigures:
        """Return the statistics with the table of groups, the comparison, and the first sentence."""
        about = scores.selection
        by = str(about.by)
        table = group_table(scores, texts, by)
        named = [row.value for row in table.rows if row.value]
        among: tuple[MeanDifference, ...] = ()
        if about.first is None and about.second is None and by != "version" and len(named) > 2:
            among = pair_differences(scores, texts, by, named[:MAX_GROUPS_IN_PAIRS])
        difference = among[0] if among else group_difference(scores, texts, by, about.first, about.second)
        is_predicted, evaluators, questions = about.answers == "predicted", None, list[MeanDifference]()
        if difference is not None and is_predicted:
            questions = question_differences(difference, scores, texts, self.reader)
        against = scores.choices.names.get(str(about.against))
        if against is not None and (about.against not in scores.choices.evaluators or about.against == about.evaluator):
            figures = replace(figures, notes=(*figures.notes, f"no other scores of {against} on this question"))
        elif about.against is not None and is_predicted:
            evaluators = evaluator_difference(scores, texts, self.reader, about.against)
            if evaluators is None:
                name = scores.choices.names.get(about.against, about.against)
                figures = replace(figures, notes=(*figures.notes, f"{name} scored on another scale; not compared"))
        found = replace(
            figures, table=table, difference=difference, among=among, questions=tuple(questions), evaluators=evaluators
        )
        found = replace(
            found, changes=changes_of(scores, found), figures=figures_of(scores, found), unlike=scores.unlike,
            kind=scores.kind, noun=scores.noun(2), headline=headline_of(scores, found),
        )  # fmt: skip
        return replace(found, summary=first_sentence(scores, found))

    def _given(self, scores: SelectedScores) -> Density | None:
        """Return the distribution of people's ratings of these texts: means by text, unless annotators are apart."""
        import polars as pl

        about = scores.selection
        if about.answers == "given" or scores.is_other_scale:
            return None
        keys = ["conversation", "turn"]
        labels = self.reader.labels(str(about.question)).select(*keys, "value")
        if not len(labels):
            return None
        texts = scores.rows.select(*keys, "cluster", pl.lit("people").alias("annotator")).unique(keys)
        rows = texts.join(labels, on=keys, nulls_equal=True)
        if not len(rows):
            return None
        if about.view == "panel":
            rows = rows.group_by(keys, maintain_order=True).agg(pl.col("value").mean(), pl.col("cluster").first(),
                                                                pl.col("annotator").first())  # fmt: skip
        people = replace(scores, selection=replace(about, answers="given"), rows=rows)
        return density_of(people, rows)


def new_scores_section(project: Workspace) -> Section | None:
    """Return the section on the new conversations of the evaluator that scored last, or `None` if nothing is scored."""
    board = Board(project)
    try:
        found = board.figures(BoardFilters())
    except AccordError as error:
        return Section("New conversations", f"Their scores cannot be read: {reason_of(error)}.")
    if found is None:
        return None
    scores, figures = found
    if scores.is_all_learned:
        return Section("New conversations", scores.learned)
    section, listed = figures.section(), board.page(BoardFilters(), 1, LOWEST_SHOWN)
    unscored = [Text(f"{count:,} unscored: {reason}.", "soft") for reason, count in figures.unscored.items()]
    rows = [] if listed is None else [
        [each.conversation + ("" if each.turn is None else f"#{each.turn}"), "–" if each.value is None else
         written(each.value, "points"), UNLIKE if each.is_unlike else ""]
        for each in listed[1].rows
    ]  # fmt: skip
    lowest = [Fold("Lowest scores, to read first", [Table(["conversation", "score", ""], rows)])] if rows else []
    return replace(section, parts=[*section.parts, *unscored, *lowest])


# --- lists of texts ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ListedText:
    """A text in a list with the dimensions of its conversation.

    `value` is the mean over annotators with standard deviation `apart`, or the score of one annotator. `in_training` is
    True if the evaluator learned from the conversation, and `is_unlike` if it is unlike the training data. `words` are
    the text of the user's last message, and `issues` the kinds of issues found. `interval` has the ends of the 80%
    interval of a score, unless `value` is a mean over annotators.
    """

    conversation: str
    turn: int | None
    value: float | None
    apart: float | None
    annotator: str | None
    system: str | None
    version: str | None
    topic: str | None
    day: str | None
    unscored: str | None
    in_training: bool
    is_unlike: bool = False
    words: str = ""
    issues: tuple[str, ...] = ()
    interval: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True)
class TextPage:
    """Page `number` of `pages` of a list of `total` texts; `summary` states filters and order in one sentence."""

    rows: tuple[ListedText, ...]
    number: int
    pages: int
    total: int
    summary: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


def listed(scores: SelectedScores, number: int = 1, size: int = PAGE) -> TextPage:
    """Return a page of the texts of a selection; a number beyond the end returns the last page.

    Args:
        scores: Scores of the selection.
        number: Number of the page, from 1.
        size: Rows per page.
    """
    import polars as pl

    about = scores.selection
    if about.unscored:
        rows = scores.rows.filter(pl.col("value").is_null()).with_columns(pl.lit(None, pl.Float64).alias("apart"))
    elif about.view == "each":
        rows = scores.scored.with_columns(pl.lit(None, pl.Float64).alias("apart"))
    else:
        rows = scores.texts()
    if about.low is not None:
        rows = rows.filter(pl.col("value") >= about.low)
    if about.high is not None:
        is_end = about.high >= scores.high - 1e-9
        rows = rows.filter(pl.col("value") <= about.high if is_end else pl.col("value") < about.high)
    keys = {
        "worst": (["value"], [False]), "best": (["value"], [True]), "apart": (["apart"], [True]),
        "newest": (["day"], [True]),
    }[about.order]  # fmt: skip
    columns, down = [*keys[0], "conversation", "turn"], [*keys[1], False, False]
    total = len(rows)
    pages = max(-(-total // size), 1)
    number = min(max(number, 1), pages)
    shown = _first(rows, columns, down, number * size).slice((number - 1) * size, size)
    of_one = about.view == "each" or len(scores.annotators) < 2
    cells = [
        ListedText(
            row["conversation"], row["turn"], row["value"], row["apart"],
            str(row["annotator"]) if about.view == "each" else None, row["system"], row["version"], row["topic"],
            None if row["day"] is None else row["day"].isoformat(), row["unscored"], row["in_training"],
            row["is_unlike"], interval=(row["low"], row["high"]) if of_one else (None, None),
        )
        for row in shown.iter_rows(named=True)
    ]  # fmt: skip
    return TextPage(tuple(cells), number, pages, total, _list_summary(scores, total))


def _first(rows: Any, columns: list[str], down: list[bool], count: int) -> Any:
    """Return the first rows in an order, sorting only those that can be among them."""
    import polars as pl

    key = rows[columns[0]]
    cut = (key.top_k(count) if down[0] else key.bottom_k(count)).sort(descending=down[0])
    known = cut.drop_nulls()
    if len(known) < count:
        return rows.sort(columns, descending=down, nulls_last=True)
    edge = known[-1]
    near = rows.filter(pl.col(columns[0]) >= edge if down[0] else pl.col(columns[0]) <= edge)
    return near.sort(columns, descending=down, nulls_last=True)


def _list_summary(scores: SelectedScores, total: int) -> str:
    about = scores.selection
    what = scores.noun(total)
    if about.view != "panel":
        what = f"{'score' if total == 1 else 'scores'} of a {scores.noun(1)} for an annotator"
    where = [filter_in_words(name, value) for name, value in about.filters().items()]
    if about.low is not None or about.high is not None:
        low, high = (
            (scores.low if about.low is None else about.low),
            (scores.high if about.high is None else about.high),
        )
        where.append(f"{scores.shown(str(about.question))} from {low:g} to {high:g}")
    order = {
        "worst": "lowest scores first", "best": "highest scores first", "apart": "most disputed first",
        "newest": "newest first",
    }  # fmt: skip
    kind = f"{what} without a score" if about.unscored else what
    return f"{total:,} {kind}{' with ' + ', '.join(where) if where else ''}, {order[about.order]}"

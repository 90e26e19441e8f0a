"""The board as one value: how things stand in a sentence, and every figure of a selection."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from accord.board.density import Density, density_of
from accord.board.figures import (
    Controversial,
    Difference,
    GroupTable,
    OverTime,
    Powered,
    Pull,
    Rise,
    controversial,
    difference,
    drifts,
    group_table,
    over_time,
    powered,
    pulls,
    rises,
)
from accord.board.listing import PAGE, Page, listed
from accord.board.reading import Reader, Texts
from accord.board.selection import Selection
from accord.project import Project
from accord.values import Estimate

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")
MADE = 16
"""Boards that are remembered until scores or labels come in."""
NEXT = (
    "No score is on the board yet. Score conversations: accord score chats.jsonl --out scores.jsonl; or as they are "
    "held: accord serve. What an earlier Accord scored is taken in by: accord board repair."
)


@dataclass(frozen=True)
class Figures:
    """Every figure of a selection.

    Attributes:
        said: How things stand, in a sentence.
        notes: What to know about it, a sentence each.
        texts: Texts with a score.
        mean: Of the texts.
        unscored: Scores that are missing, by reason.
        density: How they are distributed.
        given: How people's answers to the same texts are distributed; `None` where there are none.
        table: By the dimension that the selection names.
        annotators: By annotator; `None` of one.
        time: Over time.
        difference: Of two groups; `None` where there are no two.
        controversial: Texts on which annotators differ most.
        powered: Means as people would give them, and what they rest on.
        pulls: Evidence that moves scores most.
        rises: What other questions say of the main one.
    """

    said: str
    notes: tuple[str, ...]
    texts: int
    mean: Estimate
    unscored: dict[str, int]
    density: Density
    given: Density | None
    table: GroupTable
    annotators: GroupTable | None
    time: OverTime
    difference: Difference | None
    controversial: tuple[Controversial, ...]
    powered: tuple[Powered, ...]
    powered_said: str
    pulls: tuple[Pull, ...]
    rises: tuple[Rise, ...]

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        found = dict(vars(self))
        for name in ("mean", "density", "given", "table", "annotators", "time", "difference"):
            found[name] = None if found[name] is None else found[name].to_json()
        for name in ("powered", "pulls", "rises"):
            found[name] = [each.to_json() for each in found[name]]
        return {**found, "notes": list(self.notes), "controversial": [vars(each) for each in self.controversial]}


class Board:
    """A project's board; may be asked from several threads."""

    def __init__(self, project: Project) -> None:
        self.project, self.reader = project, Reader(project)
        self._made: OrderedDict[Any, Any] = OrderedDict()
        self._lock = Lock()

    def figures(self, selection: Selection) -> tuple[Texts, Figures] | None:
        """The figures of a selection; `None` where nothing was scored yet.

        Raises:
            BadInput: The selection names what is not there.
            StoreError: Scores or labels cannot be read.
        """
        alarms = self.reader.alarms()
        state = self.reader.state(), len(alarms)
        with self._lock:
            found = self.reader.texts(selection)
            if found is None:
                return None
            shared = self._once(("shared", selection.base, state), lambda: self._shared(found, alarms))
            texts, figures = shared
            return found, self._once((selection, state), lambda: _apart(found, texts, figures))

    def page(self, selection: Selection, number: int = 1, size: int = PAGE) -> tuple[Texts, Page] | None:
        """A page of the texts of a selection; `None` where nothing was scored yet.

        Raises:
            BadInput: The selection names what is not there.
            StoreError: Scores or labels cannot be read.
        """
        found = self.reader.texts(selection)
        return None if found is None else (found, listed(found, number, size))

    def _once(self, key: Any, make: Callable[[], T]) -> T:
        """What was made under this key, or is made now; what was asked for longest ago is forgotten."""
        if key not in self._made:
            self._made[key] = make()
            while len(self._made) > MADE:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        made: T = self._made[key]
        return made

    def _shared(self, found: Texts, alarms: list[dict[str, Any]]) -> tuple[pl.DataFrame, Figures]:
        """The texts of a selection, and every figure but those by group."""
        about, each = found.selection, found.selection.view == "each"
        texts = found.texts()
        rows = found.scored if each else texts
        density = density_of(found, rows)
        missing = found.rows.filter(found.rows["value"].is_null())["unscored"]
        unscored = {str(name): int(n) for name, n in missing.value_counts(sort=True).head(10).iter_rows()}
        time = over_time(found, texts, [*alarms, *drifts(self.project.store)])
        many = len(found.annotators) > 1
        scored = len(texts) > 0
        people, rests_on = powered(found, texts, self.reader) if about.answers == "predicted" else ([], "")
        return texts, Figures(
            _said(found, len(texts), density, time), (*found.said, *found.state.faults), len(texts), density.mean,
            unscored, density, self._given(found), GroupTable(about.by, (), 0),
            group_table(found, found.scored, "annotator") if many else None, time,
            None, tuple(controversial(found)), tuple(people), rests_on,
            tuple(pulls(found, texts, self.reader)) if scored and about.answers == "predicted" else (),
            tuple(rises(found, texts, self.reader, self.project.question.id)) if scored else (),
        )  # fmt: skip

    def _given(self, found: Texts) -> Density | None:
        """How people's answers to these texts are distributed."""
        import polars as pl

        about = found.selection
        if about.answers == "given":
            return None
        keys = ["conversation", "turn"]
        labels = self.reader.labels(str(about.question)).select(*keys, "value")
        if not len(labels):
            return None
        texts = found.rows.select(*keys, "cluster", pl.lit("people").alias("annotator")).unique(keys)
        rows = texts.join(labels, on=keys, nulls_equal=True)
        if not len(rows):
            return None
        people = replace(found, selection=replace(about, answers="given"), rows=rows)
        return density_of(people, rows)


def _apart(found: Texts, texts: pl.DataFrame, figures: Figures) -> Figures:
    """The figures with those by group."""
    about = found.selection
    table = group_table(found, texts, about.by)
    gap = difference(found, texts, about.by, about.first, about.second) if len(texts) else None
    return replace(figures, table=table, difference=gap)


def _said(found: Texts, texts: int, density: Density, time: OverTime) -> str:
    """How things stand."""
    about = found.selection
    where = ", ".join(f"{name} {value or 'not said'}" for name, value in about.filters().items())
    of = f" with {where}" if where else ""
    if not texts:
        return f"No text{of} has a score on {about.question}; take away a filter"
    tail = "" if density.tail is None else f"; the lowest tenth is at {density.tail:.2f} or below"
    many = len(time.moments) > 1
    last = time.moments[-1] if many else None
    trend = f"; in the last {time.step} {last.mean} from {last.texts:,}" if last is not None else ""
    what = "People gave" if about.answers == "given" else "Expected:"
    alarms = sum(each.kind == "alarm" for each in time.happened)
    raised = f"; {alarms} {'alarm' if alarms == 1 else 'alarms'}" if alarms else ""
    scale = f"{about.question} ({found.low:g} to {found.high:g})"
    return f"{what} {density.mean} on {scale}, {texts:,} texts{of}{tail}{trend}{raised}"

"""Findings of a learned rubric, as values: their JSON, what a terminal shows, and their section of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter

from accord.methods.learned_rubric.selection_policies import RUBICON
from accord.methods.learned_rubric.separation_metrics import NAMES, UNCERTAIN
from accord.values import (
    Charts,
    Curves,
    Estimate,
    Findings,
    Fold,
    Histogram,
    Point,
    Points,
    Section,
    Table,
    Text,
    number,
    percent,
    text_table,
)

RUBRICS, SELECTIONS = 1, 3
TABLES = {RUBRICS: "Rubrics", SELECTIONS: "Selection policies on the same pool"}
"""Titles by number; the numbers are the paper's."""
COLUMNS = {
    "delta_netsat": ("ΔNetSAT", "ΔNetSAT"), "yield_rate": ("yield", "yield"),
    "yield_deployed": ("deployed", "yield deployed"), "precision_deployed": ("right", "right there"),
    "accuracy": ("A", "accuracy"), "precision": ("P", "precision"), "recall": ("R", "recall"), "f1": ("F1", "F1"),
}  # fmt: skip
"""Figures of a line, as a terminal and a page call them."""
MOST_POINTS = 400
"""Of a precision curve: more would not be seen."""


@dataclass(frozen=True)
class SystemFigures:
    """A line of a table.

    Attributes:
        table: Number of the table.
        system: Name of the system.
        figures: By name, on the held-out side.
        unanswered: Share of its assertions' answers that are missing, and count as neutral.
        failed: Why there are no figures.
    """

    table: int
    system: str
    figures: Mapping[str, Estimate]
    unanswered: float | None = None
    failed: str | None = None

    def to_json(self) -> dict[str, Any]:
        """A flat row: each figure by its name, its interval as `_low` and `_high`."""
        row: dict[str, Any] = {"table": self.table, "system": self.system, "unanswered": self.unanswered}
        for name, found in self.figures.items():
            row |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
        return row if self.failed is None else {**row, "failed": self.failed}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> SystemFigures:
        """The inverse of `to_json`."""
        found = {name: Estimate(row[name], row[f"{name}_low"], row[f"{name}_high"]) for name in NAMES}
        return cls(row["table"], row["system"], found, row["unanswered"], row.get("failed"))


@dataclass(frozen=True)
class RubricExample:
    """A held-out conversation that an assertion speaks `for` or `against`, with its points and a passage."""

    kind: str
    conversation: str
    points: float
    passage: str | None


@dataclass(frozen=True)
class SystemShare:
    """The share of a system's `n` conversations in which an assertion fails."""

    system: str
    fails: float
    n: int


@dataclass(frozen=True)
class AssertionFindings:
    """One selected assertion on the held-out side.

    `separation` is the difference of the classes' mean points with its 95 % interval, `chosen` the share of resamples
    of the training side on which it is selected, `reasons` the number of reasons it was written from, `fails` the share
    of conversations in which a SAT assertion is denied or a DSAT assertion holds, `by_system` the same for each system,
    the worst first.
    """

    id: str
    text: str
    side: str
    weight: float
    separation: float
    separation_low: float | None
    separation_high: float | None
    chosen: float | None
    reasons: int
    fails: float
    by_system: Sequence[SystemShare]
    examples: Sequence[RubricExample]

    def to_json(self) -> dict[str, Any]:
        """Its side is called `class` there."""
        found = asdict(self)
        return {**found, "class": found.pop("side")}

    def fold(self, several: bool) -> Fold:
        """Its part of the report: what it is worth, and examples; of `several` systems, for which it fails."""
        chosen = "" if self.chosen is None else f", chosen on {percent(self.chosen)} of resamples"
        low, high = number(self.separation_low, 2), number(self.separation_high, 2)
        about = (
            f"{'Speaks for' if self.side == 'sat' else 'Speaks against'} a conversation; written from {self.reasons} "
            f"reasons. Separation {number(self.separation, 2)} points ({low} to {high})."
        )
        if several:
            fails = ", ".join(f"{each.system} {percent(each.fails)} of {each.n}" for each in self.by_system)
            about += f" Fails for: {fails}."
        examples = [
            Text(
                one.passage or "no passage shares a word with it",
                "turn",
                f"{one.kind} the conversation: {one.conversation} ({number(one.points, 1)} points)",
            )
            for one in self.examples
        ]
        note = f"{self.id}, fails in {percent(self.fails)}{chosen}"
        return Fold(self.text, [Text(about, "soft"), *examples], note)


@dataclass(frozen=True)
class ScoredConversation:
    """NetSAT of a held-out conversation, whether people called it good, and its label."""

    score: float
    good: bool
    said: str


@dataclass(frozen=True)
class CurvePoint:
    """The training side's precision at a threshold, for good and bad, and the targets of the sharpness loss."""

    theta: float
    good: float
    bad: float
    good_target: float
    bad_target: float


@dataclass(frozen=True)
class Confusion:
    """How many good and bad conversations of a system (`all` together) were labelled good, uncertain and bad."""

    system: str
    good_good: int
    good_uncertain: int
    good_bad: int
    bad_good: int
    bad_uncertain: int
    bad_bad: int


@dataclass(frozen=True, kw_only=True)
class RubricFindings(Findings):
    """Everything that a report shows of a learned rubric.

    `rows` are the lines of the tables, the learned rubric first, `assertions` the selected ones, those that fail most
    first, `precision` what labels should have, `window` the uncertainty window (`None`: nothing is labelled on that
    side), `pool` the counts of what was written, `trained` and `tested` the numbers of good and bad conversations,
    `evaluator` what was selected (`AssertionSelector.describe`). `again` is above 0 where the next fit asks failed
    requests again.
    """

    rows: Sequence[SystemFigures]
    assertions: Sequence[AssertionFindings]
    scores: Sequence[ScoredConversation]
    threshold: float
    precision: float
    curves: Sequence[CurvePoint]
    confusion: Sequence[Confusion]
    cautions: Sequence[str]
    tested: int
    again: float
    window: Sequence[float | None]
    pool: Mapping[str, Any]
    trained: int
    evaluator: Mapping[str, Any]

    def table(self, number: int) -> list[SystemFigures]:
        """The lines of one table, the learned rubric first."""
        return [row for row in self.rows if row.table == number]

    def to_json(self) -> dict[str, Any]:
        """As it is stored, printed and shown."""
        lists = {"rows": [row.to_json() for row in self.rows], "assertions": [one.to_json() for one in self.assertions]}
        return {**super().to_json(), **lists}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> RubricFindings:
        """The inverse of `to_json`.

        Raises:
            ValueError: These are no findings of a learned rubric.
        """
        assertions = [{**one, "side": one["class"]} for one in found["assertions"]]
        rows = list(map(SystemFigures.from_json, found["rows"]))
        return _FINDINGS.validate_python({**found, "rows": rows, "assertions": assertions})

    def lines(self) -> list[str]:
        """How far it was learned and tried, the tables, and the assertions."""
        about = f"rubric learned on {self.trained} good and bad conversations, tried on {self.tested} others"
        tables = [
            f"{title}\n{text_table(['', *(short for short, _ in COLUMNS.values())], map(_texts, rows))}"
            for number, title in TABLES.items()
            if len(rows := self.table(number)) > 1
        ]
        width = max(len(one.id) for one in self.assertions)
        listed = (f"{one.id:{width}}  fails {one.fails:4.0%}  {one.text}" for one in self.assertions)
        return [f"{about}; 95 % intervals", *tables, "Selected\n" + "\n".join(listed)]

    def section(self) -> Section:
        """Charts of the assertions, of NetSAT and of its precision; each assertion with its examples; the tables."""
        best = self.rows[0].figures["delta_netsat"]
        lead = (
            f"{len(self.assertions)} assertions, selected from {self.pool['assertions']} that were written from "
            f"{self.trained} good and bad conversations. Their sum, NetSAT, was tried on {self.tested} others: good "
            f"ones lie {number(best.value, 1)} points above bad ones ({number(best.low, 1)} to {number(best.high, 1)})."
        )
        several = len(self.assertions[0].by_system) > 1
        folds = [one.fold(several) for one in self.assertions]
        asked = f"Each new conversation is asked {len(self.assertions)} assertions."
        return Section("The learned rubric", lead, [
            Charts([self._separations()]), Text(self._worst(several), "soft"),
            Charts([self._scores(), self._precisions()], ("good", "bad, by people")), Text(self._trust(), "soft"),
            Text("Assertions by share of failures", "heading"), *folds, *self._tables(), self._systems(),
            Text(asked, "soft"), Text(self.evaluator["signature"], "code"),
        ])  # fmt: skip

    def _separations(self) -> Points:
        caption = (
            "What each assertion adds to the difference, on conversations it was not chosen on; orange: within chance"
        )
        points = [
            Point(
                f"{one.id}: {one.text}",
                Estimate(one.separation, one.separation_low, one.separation_high),
                one.separation_low is None or one.separation_low <= 0,
            )
            for one in sorted(self.assertions, key=lambda one: -one.separation)
        ]
        return Points(caption, "points between good and bad conversations", points)

    def _scores(self) -> Histogram:
        caption = "NetSAT of held-out conversations; the line is the threshold, dashes the uncertainty window"
        groups = {name: [one.score for one in self.scores if one.good == (name == "good")] for name in ("good", "bad")}
        return Histogram(caption, "NetSAT", "conversations", groups, self.threshold, self._ends)

    def _precisions(self) -> Curves:
        caption = (
            "Precision of calling good what lies above a threshold, and bad what does not, on the training side; "
            "dashes: the sharp curves they are held against, and the window"
        )
        few = self.curves[:: max(1, len(self.curves) // MOST_POINTS)]
        lines = [
            ([one.good for one in few], [one.good_target for one in few]),
            ([one.bad for one in few], [one.bad_target for one in few]),
        ]
        x = [one.theta for one in few]
        return Curves(caption, "threshold on NetSAT", "precision", x, lines, self.precision, self._ends)

    @property
    def _ends(self) -> tuple[float | None, float | None]:
        low, high = self.window
        return low, high

    def _worst(self, several: bool) -> str:
        worst = self.assertions[0]
        most = worst.by_system[0]
        of = f", and most of all for {most.system} ({percent(most.fails)} of {most.n})" if several else ""
        return (
            f'Next step: {worst.id} fails most, in {percent(worst.fails)} of conversations ("{worst.text}"){of}: read '
            "its examples below before anything else. Take out of rubric.yaml what you do not believe, and fit again "
            "with sources: {learned-rubric: {pool: rubric.yaml}}."
        )

    def _trust(self) -> str:
        uncertain = sum(one.said == UNCERTAIN for one in self.scores) / len(self.scores)
        right = self.rows[0].figures["precision_deployed"].value
        said = "No conversation was labelled: nothing is precise enough."
        if right is not None:
            said = f"Of the labels that were given, {percent(right)} agree with people; {percent(self.precision)} were "
            said += "asked for."
        return (
            f"Next step: trust the labels good and bad, and read the {percent(uncertain)} that stay uncertain. {said}"
        )

    def _tables(self) -> list[Text | Table]:
        parts: list[Text | Table] = []
        for place, title in TABLES.items():
            if len(rows := self.table(place)) > 1:
                lines: list[list[str | Estimate]] = [
                    [row.system, *(row.figures[name] for name in COLUMNS)] for row in rows
                ]
                own = frozenset(at for at, row in enumerate(rows) if row.system == RUBICON)
                parts += [Text(title, "heading"), Table(["", *(long for _, long in COLUMNS.values())], lines, own=own)]
        about = (
            "The yield as the paper reads it takes the window from the labels that it is tested on; deployed, the "
            "window is the training side's, and the next column says how often a label given there is right."
        )
        return [*parts, Text(about, "soft")]

    def _systems(self) -> Fold:
        header = [
            "system",
            "good, called good",
            "uncertain",
            "called bad",
            "bad, called good",
            "uncertain",
            "called bad",
        ]
        rows = [list(map(str, asdict(row).values())) for row in self.confusion]
        return Fold("What became of good and bad conversations, by system", [Table(header, rows)])


_FINDINGS = TypeAdapter(RubricFindings)


def _texts(row: SystemFigures) -> list[str]:
    """A line as a terminal shows it: ΔNetSAT is in points, the others are shares."""
    digits = {name: 1 if name == "delta_netsat" else 2 for name in COLUMNS}
    return [row.system, *(row.figures[name].text(places, places) for name, places in digits.items())]

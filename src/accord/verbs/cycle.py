"""`accord cycle`: the weekly job, a chain of the verbs import, score, watch, gate, card and report with one page.

It decides nothing itself: each section of the page is the result of a verb. The exit code is the gate's; if the gate
passes, it is the exit code of scoring.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from accord.board import drift
from accord.decisions import AgreementCard, BatchChange, write_card
from accord.edges import AccordError, count_of, write_atomically
from accord.live import post_alarms, raise_alarms, recover, send_alarms
from accord.project import CardOptions, Imported, card_of, change_report, imported_text
from accord.report import render_page, write_report
from accord.results import Document, Part, Section, Table, Text, document_text
from accord.scoring import ScoreRun
from accord.verbs.gate import Check, gate_checks
from accord.verbs.project import Project

PAGE, SCORES, CARD, REPORT = "index.html", "scores.jsonl", "agreement-card.json", "report.html"
"""Files in the folder of a cycle."""
NEXT_CARD = "To make it the card of the next gate, copy it over the old one."


@dataclass(frozen=True)
class CycleOptions:
    """Conditions and files of a cycle.

    Attributes:
        max_fall: As for `Project.gate`; 0 fails on every fall that is stated.
        min_mean, min_within, allow_unproven: As for `Project.gate`.
        card: Earlier agreement card, which the new one is compared with, if it exists.
        with_report: True to write the report and the card, which fit the evaluator again from stored answers.
    """

    max_fall: float | None = 0.0
    min_mean: float | None = None
    min_within: float | None = None
    allow_unproven: bool = False
    card: Path = Path(CARD)
    with_report: bool = True


@dataclass(frozen=True)
class Cycle:
    """Results of the verbs of a cycle.

    Attributes:
        imported: Result of the import.
        scored: Result of scoring.
        change: Change of the latest batch of scores.
        alarms: Messages of new alarms.
        drift: Attribution of drift, in one sentence; empty if it is unknown.
        checks: Conditions of the gate.
        card: Fields of the card that differ from the earlier card: name, old and new value.
        notes: Sentences on the card and the report.
        files: Files that were written, the page first.
    """

    imported: Imported
    scored: ScoreRun
    change: BatchChange | None
    alarms: tuple[str, ...]
    drift: str
    checks: tuple[Check, ...]
    card: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...]
    files: tuple[Path, ...] = ()

    @property
    def failed(self) -> list[Check]:
        """Conditions that are not met."""
        return [each for each in self.checks if not each.passed]

    @property
    def document(self) -> Document:
        """The page: the change, the gate, the card, and counts."""
        gate: list[Part] = [Text(str(each)) for each in self.checks]
        if self.failed:
            title = f"Stop: {len(self.failed)} of {count_of(len(self.checks), 'condition')} not met"
        else:
            title = f"Go on: {count_of(len(self.checks), 'condition')} met"
        sections = [] if self.change is None else [self.change.section()]
        sections.append(Section("Gate", "", gate))
        rows = [list(each) for each in self.card]
        card: list[Part] = [Table(["field", "earlier card", "new card"], rows, is_text=True)] if rows else []
        sections.append(Section("Agreement card", "", [*card, *(Text(each, "soft") for each in self.notes)]))
        mean = "–" if self.scored.counts.mean is None else f"{self.scored.counts.mean:.3f}"
        counts = [Text(imported_text(self.imported.to_json())),
                  Text(f"{count_of(self.scored.counts.scored, self.scored.level)} scored, mean {mean}")]  # fmt: skip
        counts += [Text(f"{count:,} unscored: {reason}") for reason, count in self.scored.counts.unscored.items()]
        counts += [Text(text) for text in (self.scored.drift_said, self.drift) if text]
        counts += [Text(f"alarm: {each}") for each in self.alarms]
        lead = "" if self.change is None else self.change.summary
        return Document(title, lead, [*sections, Section("Import, scores and alarms", "", counts)])

    def text(self) -> str:
        """Return the page for a terminal."""
        return document_text(self.document, details=True)

    def to_json(self) -> dict[str, Any]:
        """Return the results of the verbs."""
        return {
            "imported": self.imported.to_json(), "scored": self.scored.to_json(),
            "change": None if self.change is None else self.change.to_json(), "alarms": list(self.alarms),
            "drift": self.drift, "checks": [each.to_json() for each in self.checks],
            "card": [{"field": name, "old": old, "new": new} for name, old, new in self.card],
            "notes": list(self.notes), "files": list(map(str, self.files)), "document": self.document.to_json(),
        }  # fmt: skip


def run_cycle(
    project: Project,
    sources: Sequence[str | Path],
    out: str | Path = "accord-cycle",
    options: CycleOptions = CycleOptions(),
    on_step: Callable[[str], None] = lambda step: None,
    **reading: Any,
) -> Cycle:
    """Import files, score the first one, check batches and days, and write the page with gate, card and report.

    Args:
        project: A project with a fitted evaluator.
        sources: Conversations to score, then files that are imported only, such as labels.
        out: Folder of the page, the scores, the card and the report.
        options: Conditions and files.
        on_step: Called with the name of each verb.
        **reading: `format`, `columns`, `roles` and `skip_bad_rows` of import and score.

    Raises:
        BadInput: A source cannot be read, or no evaluator is fitted.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    on_step("import")
    roles, ways = reading.pop("roles", {}), dict(reading)
    imported = project.import_([str(each) for each in sources], **ways)
    on_step("score")
    scored = project.score(str(sources[0]), folder / SCORES, roles=roles, **ways)
    on_step("watch")
    recover(project.store, project.mart)
    used, config = drift.in_use(project), project.config.monitoring
    alarms = [each.message for each in raise_alarms(project.store, config.false_alarm_rate)]
    change, is_raised = change_report(project, used=used)
    alarms += [change.summary] if change is not None and is_raised else []
    attributed, is_raised = drift.drift_report(project, used=used)
    alarms += [attributed["summary"]] if attributed and is_raised else []
    if config.webhook is not None:
        send_alarms(project.store, partial(post_alarms, config.webhook))
    on_step("gate")
    checks = gate_checks(
        project, None, options.min_mean, 0.0, options.min_within, allow_unproven=options.allow_unproven,
        max_fall=options.max_fall,
    )  # fmt: skip
    files, differences, notes = [folder / SCORES], list[tuple[str, str, str]](), list[str]()
    if options.with_report:
        on_step("card")
        try:
            card = card_of(project, None, CardOptions())
            files += write_card(card, folder / CARD)
            if options.card.is_file():
                differences = [(name, str(old), str(new)) for name, old, new in
                               AgreementCard.read(options.card).differences(card)]  # fmt: skip
                notes.append(
                    f"The new card is {folder / CARD}. {NEXT_CARD}" if differences else "The card is the same."
                )
            else:
                notes.append(f"There is no earlier card {options.card}; the first one is {folder / CARD}.")
        except AccordError as error:
            notes.append(f"No card: {error}")
        on_step("report")
        try:
            files.append(write_report(project, folder / REPORT, project.fit_offline(project.evaluator_in_use)))
        except AccordError as error:
            notes.append(f"No report: {error}")
    done = Cycle(imported, scored, change, tuple(alarms), attributed["summary"] if attributed else "", tuple(checks),
                 tuple(differences), tuple(notes), (folder / PAGE, *files))  # fmt: skip
    report = REPORT if folder / REPORT in files else ""
    values = {"document": done.document, "is_failed": bool(done.failed), "report": report}
    write_atomically(folder / PAGE, render_page("cycle.html", values), "xmlcharrefreplace")
    return done

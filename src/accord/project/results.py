"""Results of a project's methods, for the command line, the report, the pages and notebooks."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.decisions import STATES, Decision, Evidence, Verdict, figures_of, second_judge, verdict_of
from accord.edges import count_of
from accord.evidence import EvidenceTable, Ratings, Readable, Tabular, Training
from accord.learning import Evaluator, Level
from accord.models import IN_BATCH, NEVER_SENT, NOT_RECORDED
from accord.project.comparison_sections import (
    Row,
    figure_of,
    figures_of_row,
    full_sections,
    groups_table,
    issues_section,
    lines,
    short_section,
    warnings_section,
)
from accord.project.evaluators.pair_test import PairTest
from accord.results import (
    DEFINITIONS,
    Charts,
    Document,
    Findings,
    Ledger,
    Part,
    Point,
    Points,
    Section,
    Table,
    Text,
    document_html,
    p_text,
    written,
)
from accord.statistics import MeanDifference, SystemMean, label_plans
from accord.validation import (
    CalledRow,
    Comparison,
    GroupAccuracy,
    SpecificationGap,
)
from accord.values import Estimate, Sample

Spent = Mapping[str, float | int | None]
GAIN = 0.99
"""Ratio of widths above which a sentence states that scores add nothing."""
EXAMPLES_SHOWN = 3
_SOURCE = "accord.validation.system_means"


_GUESSES = ("constant", "annotator-mean", "random")
"""Baselines without evidence, which reach no verdict."""


class Documented(ABC):
    """Result that is a document; a notebook shows its first screen, or the whole document if it has nothing else."""

    @abstractmethod
    def document(self) -> Document:
        """Return the result as a document of sections."""

    def _repr_html_(self) -> str:
        found = self.document()
        shown = [section for section in found.sections if not section.is_detail]
        return document_html(replace(found, sections=shown))


@dataclass(frozen=True, repr=False)
class JudgeRun(Readable):
    """Counts of a run of `judge`.

    Attributes:
        samples: Samples in the run.
        known: Samples with any evidence, by source.
        answered: Questions with an answer, including answers of earlier runs.
        requests: Requests sent in this run, by model; their sum is `spent["requests"]`.
        unanswered: Questions without an answer, by reason.
        excluded: Conversations that were excluded, by reason.
        counts: Further counts, by source.
        spent: Requests, tokens, money.
        stopped: Error that ended the run early, if any.
        rejection: Explanation of one of the rejected requests, if any.

    >>> from accord.models import ScriptedJudge
    >>> from accord.testing import sample_project
    >>> judge = ScriptedJudge(lambda sample, question: {str(option): 0.25 for option in question.scale.options})
    >>> settings = {"judge": {"model": "scripted", "mode": "verbalised"}}
    >>> with sample_project(3, given={"judge": judge}, models=settings) as project:
    ...     print(project.judge())
    JudgeRun(samples=3, answered=27, failed=0, not_asked=0, requests=0)
    """

    samples: int
    known: Mapping[str, int]
    answered: int
    requests: Mapping[str, int]
    unanswered: Mapping[str, int]
    excluded: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, Any] = field(default_factory=dict)
    spent: Spent = field(default_factory=dict)
    stopped: str | None = None
    rejection: str | None = None

    @property
    def failed(self) -> int:
        """Questions that were asked without success; excludes questions of a recording and of an open batch."""
        return sum(self.unanswered.values()) - self._unanswered({NOT_RECORDED, IN_BATCH, *NEVER_SENT})

    @property
    def not_asked(self) -> int:
        """Questions whose requests were never sent because the run stopped first."""
        return self._unanswered(NEVER_SENT)

    def _unanswered(self, reasons: Collection[str]) -> int:
        return sum(self.unanswered.get(reason, 0) for reason in reasons)

    def summary(self) -> dict[str, Any]:
        """Return the counts of samples, answers and requests."""
        counts = {"samples": self.samples, "answered": self.answered, "failed": self.failed}
        counts["not_asked"] = self.not_asked
        return {**counts, "requests": self.spent.get("requests"), "stopped": self.stopped}

    def shown_rows(self) -> list[dict[str, Any]]:
        """Return the samples with evidence by source, and the questions without an answer by reason."""
        rows = [{"what": f"evidence of {source}", "count": count} for source, count in self.known.items()]
        return rows + [{"what": f"unanswered: {why}", "count": count} for why, count in self.unanswered.items()]

    def to_json(self) -> dict[str, Any]:
        """Return all counts."""
        counts = {name: each.to_json() for name, each in self.counts.items()}
        return {**vars(self), "failed": self.failed, "not_asked": self.not_asked, "counts": counts}


def speakers_of(rated: Ratings, samples: Sequence[Sample]) -> NDArray[np.object_] | None:
    """Return (n,) the assistant version that each rating is about, or `None` if no conversation names a version."""
    named = {sample.conversation.id: sample.conversation.shown_system for sample in samples}
    conversations = [named.get(name) for name in rated.conversation]
    return np.array([name or "" for name in conversations], dtype=object) if any(conversations) else None


@dataclass(frozen=True, repr=False)
class Compared(Documented, Tabular):
    """A comparison with its evidence and labels; a table with a row per evaluator.

    Attributes:
        comparison: The table; the system of the decision comes first.
        evidence: Evidence of the sources that do not learn.
        train: Rated samples.
        decision: Evaluator to use, and whether the labels support it; `None` if a single evaluator was tested.
        judge: State of the judge's answers.
        rests_on: Count on which the first evaluator's predictions rest, with its correlation.
        doubled: Change of its score if every reply is written twice, if they rest on a count.
        groups: Agreement of the first system by group, if requested.
        panel: Votes of several judges, and their gain over the best judge; `None` for fewer than two judges.
        pairs: Agreement of its scores with people's preferences, for each comparing question with labels.
        costs: Cost of scoring 1,000 conversations (`accord.project.evaluators.costs.Cost`), by evaluator.

    >>> from accord.testing import sample_project
    >>> with sample_project() as project:
    ...     compared = project.compare(only=["default"], jobs=1)
    >>> compared.best, compared.comparison.question.id, compared.to_polars()["evaluator"][0]
    ('default', 'Q0', 'default')
    """

    comparison: Comparison
    evidence: EvidenceTable
    train: Training
    decision: Decision | None = None
    judge: Evidence = "none"
    rests_on: tuple[str, float] | None = None
    doubled: float | None = None
    groups: Sequence[GroupAccuracy] = ()
    panel: second_judge.JudgePanel | None = None
    pairs: Sequence[PairTest] = ()
    costs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def best(self) -> str:
        """Evaluator to fit: the one that the decision names."""
        return self.comparison.systems[0].name if self.decision is None else self.decision.evaluator

    @cached_property
    def verdict(self) -> Verdict:
        """State of the first evaluator: ready for single conversations or comparing versions, triage, not yet."""
        found = self.comparison
        speakers = speakers_of(found.ratings, self.train.samples)
        return verdict_of(figures_of(found, speakers, self.decision, self.rests_on, self.doubled, self.judge))

    def records(self) -> list[dict[str, Any]]:
        """Return a flat row per evaluator, the best first."""
        return self.comparison.records()

    def summary(self) -> dict[str, Any]:
        """Return the question, the number of ratings and the best evaluator."""
        return self.comparison.summary()

    def document(self, everything: bool = False) -> Document:
        """Return the verdict, the decided evaluator compared with judge, people and constant, and the decision.

        Args:
            everything: True for the table of all evaluators and statistics in place of the short one.
        """
        more = "all evaluators and statistics: accord compare --all"
        return replace(self.verdict.document().with_sections(*self.sections(everything)), more=more)

    def sections(self, everything: bool = False) -> list[Section]:
        """Return the sections of the document that follow the verdict."""
        found, ledger = self.comparison, self.verdict.figures.ledger
        default = None if self.decision is None else self.decision.default
        full, named = full_sections(found, ledger), {f"{each.by}: {each.name}": each for each in self.groups}
        texts = [*([str(self.panel)] if self.panel is not None else []), *map(str, self.pairs)]
        sections = [
            *(full if everything else [short_section(found, ledger, default)]),
            Section("", "", [lines(*texts)]) if texts else None,
            Section("By group", "", [groups_table(named, found.systems[0].name)]) if named else None,
            self.cost_section(),
            warnings_section(found),
            None if self.decision is None else Section("", "", [lines(str(self.decision))]),
            *([] if everything else full),
        ]
        return [each for each in sections if each is not None]

    def to_json(self) -> dict[str, Any]:
        """Convert the table and the groups to JSON."""
        groups = [group.to_json() for group in self.groups]
        decision = None if self.decision is None else self.decision.to_json()
        own = {"groups_by": groups, "decision": decision, "verdict": self.verdict.to_json()}
        panel = None if self.panel is None else self.panel.to_json()
        pairs = {"pairs": [pair.to_json() for pair in self.pairs]} if self.pairs else {}
        costs = {name: each.to_json() for name, each in self.costs.items()}
        return {
            **self.comparison.to_json(), **own, "judges": panel, **pairs, "costs": costs,
            "cheapest": self.cheapest[0], "cheapest_text": self.cheapest[1],
        }  # fmt: skip

    @cached_property
    def cheapest(self) -> tuple[str | None, str]:
        """The cheapest evaluator that reaches the verdict, `None` if none does; and a sentence about it."""
        first, state = self.comparison.systems[0].name, self.verdict.state
        known = {name: each for name, each in self.costs.items() if each.is_recorded}
        if state == STATES[0]:
            return None, "No evaluator reaches a verdict yet, whatever it costs."
        if first not in known:
            cost = self.costs[first].text() if first in self.costs else "unknown"
            return None, f"The cost of {first}, which reaches the verdict, is {cost}."
        has_money = all(each.money.value is not None for each in known.values())
        price = {name: (each.money if has_money else each.tokens).value for name, each in known.items()}
        for name in sorted(price.keys() - set(_GUESSES), key=lambda name: (price[name], name)):
            if name == first or (price[name] < price[first] and self._state_of(name) >= STATES.index(state)):
                cost = known[name].text(name, has_money)
                than = "" if name == first else f", as {first} does at {known[first].text(first, has_money)}"
                return name, f"{name} is the cheapest that reaches the verdict ({cost} for 1,000 conversations){than}."
        return None, ""

    def _state_of(self, name: str) -> int:
        """Return the place of the verdict on another evaluator of the comparison."""
        found = self.comparison
        systems = sorted(found.systems, key=lambda each: each.name != name)
        rows = sorted(found.results, key=lambda row: row.evaluator != name)
        other = replace(found, systems=systems, results=rows)
        speakers = speakers_of(found.ratings, self.train.samples)
        return STATES.index(verdict_of(figures_of(other, speakers, judge=self.judge)).state)

    def cost_section(self, is_drawn: bool = False) -> Section | None:
        """Return the typical error against the cost of each evaluator, or `None` if none asks a model."""
        if not any(each.roles for each in self.costs.values()):
            return None
        ledger, rows, points = self.verdict.figures.ledger, list[Row](), list[Point]()
        asked = [each for each in self.costs.values() if each.is_recorded and each.roles]
        in_money = bool(asked) and all(each.money.value is not None for each in asked)
        order = sorted(
            ((name, each) for name, each in self.costs.items() if name not in _GUESSES[1:]),
            key=lambda each: (each[1].money if in_money else each[1].tokens).value or 0.0,
        )
        for name, cost in order:
            error = figures_of_row(self.comparison, ledger, self.comparison[name])["error"]
            rows.append([name, error, cost.shown(name, in_money)])
            if cost.is_recorded:
                points.append(Point(f"{name}, {cost.text(name, in_money)}", error.estimate, name == self.cheapest[0]))
        priced = "Costs are in the currency of prices.yaml." if in_money else "For costs in money, add prices.yaml."
        lead = " ".join(filter(None, [self.cheapest[1], priced if asked else ""]))
        unit = DEFINITIONS["cost_money" if in_money or not asked else "cost_tokens"].label
        parts: list[Part] = [Table(["evaluator", "typical error", unit], rows)]
        if is_drawn and len(points) > 1:
            parts.append(Charts([Points("Typical error, the cheapest first", "points", points)]))
        return Section("Error against cost", lead, parts)


@dataclass(frozen=True, repr=False)
class Fitted(Documented, Readable):
    """A fitted evaluator and its validation.

    Attributes:
        evaluator: The fitted evaluator.
        held_out: Comparison with the baselines on held-out ratings; `None` if the question has no ratings.
        learned_from: Number of samples, if none is rated.
        labels: A row per kind of issue with learned labels, with the raw finding for comparison.
        findings: Findings of each source, by name.
        cautions: Sentences on the limits of the data.
        spent: Requests, tokens, money.
        folder: Folder in which it is saved; `None` if it is not saved.
        questions: Results for the other questions of the rubric, if they were fitted too.
        moved: What the fit changed of the evaluator that it replaced (`accord.project.evaluators.retrain`); `None` for
            a first fit.

    >>> from accord.testing import sample_project
    >>> with sample_project() as project:
    ...     fitted = project.fit("constant")
    >>> fitted.evaluator.is_fitted, fitted.folder.name, fitted.comparison["constant"].estimates["rmse"].value > 0
    (True, 'constant', True)
    """

    evaluator: Evaluator
    held_out: Compared | None = None
    learned_from: int = 0
    labels: Sequence[CalledRow] = ()
    findings: Mapping[str, Findings] = field(default_factory=dict)
    cautions: Sequence[str] = ()
    spent: Spent = field(default_factory=dict)
    folder: Path | None = None
    questions: Sequence[Fitted] = ()
    moved: Mapping[str, Any] | None = None

    def with_decision(self, decision: Decision | None) -> Fitted:
        """Return a copy with the decision that led to this evaluator, for the report."""
        return self if self.held_out is None else replace(self, held_out=replace(self.held_out, decision=decision))

    @property
    def retryable(self) -> int:
        """Number of failed requests that may succeed later."""
        return sum(int(finding.again) for finding in self.findings.values())

    @property
    def comparison(self) -> Comparison | None:
        """Comparison with the baselines on held-out ratings."""
        return None if self.held_out is None else self.held_out.comparison

    @property
    def ratings(self) -> int:
        """Number of ratings of the question when the evaluator was fitted."""
        if self.held_out is None:
            return 0
        return len(self.held_out.train.labels.on(self.evaluator.question.id))

    def summary(self) -> dict[str, Any]:
        """Return the evaluator, its question, its folder and its accuracy on held-out ratings."""
        values = {} if self.comparison is None else self.comparison.results[0].values
        return {
            "evaluator": self.evaluator.name,
            "question": self.evaluator.question.id,
            "folder": self.folder,
            "learned_from": self.learned_from or None,
            "rmse": values.get("rmse"),
            "r": values.get("pearson"),
        }

    def document(self) -> Document:
        """Return the verdict, the evaluator compared with judge, people and constant, and the learned state."""
        if self.held_out is not None:
            found = self.held_out.verdict.document().with_sections(*self.held_out.sections())
        else:
            lead = ""
            if self.learned_from and not self.cautions:
                texts = count_of(self.learned_from, "sample")
                lead = f"from the evidence of {texts} without ratings, so the agreement with people is unknown"
            found = Document(f"learned {self.evaluator.name}", lead)
        more = "all statistics: accord compare --all; as a page: accord report"
        return replace(found.with_sections(*self.sections()), more=more)

    def sections(self) -> list[Section]:
        """Return the learned state: other questions, issue labels, findings of sources, and the folder."""
        sections = [self._moved(), self._questions(), issues_section(self.labels)]
        sections += [found.section() for found in self.findings.values()]
        remarks = self.evaluator.head.remarks() if self.evaluator.is_fitted else []
        sections += [Section("", "", [Text(text)]) for text in (*remarks, f"saved in {self.folder}")]
        return [each for each in sections if each is not None]

    def _moved(self) -> Section | None:
        """Return what the fit changed of the evaluator that it replaced, or `None` for a first fit."""
        if self.moved is None:
            return None
        moved, ledger, parts = self.moved, Ledger.from_json(self.moved["ledger"]), list[Part]()
        now = "" if self.held_out is None else self.held_out.verdict.title
        if moved["was"] and now:
            parts.append(
                Text(f"Verdict: {now}, as before" if now == moved["was"] else f"Verdict: {moved['was']} → {now}")
            )
        if "score_change" in ledger:
            change = ledger["score_change"]
            parts.append(Text(f"{change.definition.label}: {change.sentence()}"))
        if moved["weights"]:
            rows = [
                [row["part"], *(written(row[when], "share") for when in ("before", "now"))] for row in moved["weights"]
            ]
            parts.append(Table(["weight of", "before", "now"], rows))
        if moved["scores"]:
            parts.append(Text(moved["scores"]))
            if "again" in moved["scores"]:
                parts.append(Text("accord score --again", "code", "Score the conversations of the board again"))
        for card in moved["cards"]:
            command = f"accord card --out {shlex.quote(card)}"
            parts.append(Text(command, "code", f"Make {card} again; its changes are printed"))
        return Section("What this fit moved", moved["summary"], parts)

    def _questions(self) -> Section | None:
        """Return the agreement with people on each question, or `None` if only the main question was fitted."""
        if not self.questions:
            return None
        compared = [each.comparison for each in (self, *self.questions) if each.comparison is not None]
        ledger = Ledger() if self.held_out is None else self.held_out.verdict.figures.ledger
        names, rows = [DEFINITIONS[name].label for name in ("error", "r")], list[Row]()
        for each in compared:
            row, is_main = each.results[0], each is self.comparison
            found = figures_of_row(each, ledger if is_main else Ledger(), row, "" if is_main else each.question.id)
            loss = row.estimates["log_loss"]
            rows.append([each.question.shown, f"{row.n:,}", found["error"], found["r"], loss])
        table = Table(["question", "ratings", *names, "log loss"], rows)
        return Section("Each question", "on held-out conversations; 95% intervals", [table])

    def to_json(self) -> dict[str, Any]:
        """Convert to the JSON that is stored with a run."""
        return {
            "evaluator": self.evaluator.describe(),
            "folder": None if self.folder is None else str(self.folder),
            "comparison": None if self.comparison is None else self.comparison.to_json(),
            "verdict": None if self.held_out is None else self.held_out.verdict.to_json(),
            "learned_from": self.learned_from,
            "ratings": self.ratings,
            "labels": [row.to_json() for row in self.labels],
            "findings": {name: finding.to_json() for name, finding in self.findings.items()},
            "cautions": list(self.cautions),
            "spent": dict(self.spent),
            "cheapest_text": "" if self.held_out is None else self.held_out.cheapest[1],
            **({"questions": self.by_question()} if self.questions else {}),
            **({"moved": dict(self.moved)} if self.moved is not None else {}),
        }

    def by_question(self) -> list[dict[str, Any]]:
        """Return the agreement on held-out ratings with intervals, a row per fitted question, the main one first."""
        fitted = [self, *self.questions]
        comparisons = [each.comparison for each in fitted if each.comparison is not None]
        return [
            {"question": each.question.id, "question_name": each.question.shown, **each.results[0].to_json()}
            for each in comparisons
        ]


@dataclass(frozen=True, repr=False)
class GapSearch(Documented, Tabular):
    """Properties of conversations where people and the judge, or people among themselves, read a question differently.

    Attributes:
        question: ID of the question.
        judge: Judge or evaluator whose scores are compared with ratings; empty if there is none.
        tested: Number of properties that were tested.
        ratings: Number of ratings.
        gaps: The gaps, those with the judge first, each by p-value.
        changes: A sentence on each gap that an earlier search found before the wording was changed.

    >>> from accord.testing import sample_project
    >>> with sample_project(60) as project:
    ...     found = project.gaps()
    >>> found.question, found.ratings > 100, len(found.gaps) <= found.tested
    ('Q0', True, True)
    """

    question: str
    judge: str
    tested: int
    ratings: int
    gaps: Sequence[SpecificationGap]
    changes: Sequence[str] = ()

    def records(self) -> list[dict[str, Any]]:
        """Return a flat row per gap."""
        return [gap.to_json() for gap in self.gaps]

    def summary(self) -> dict[str, Any]:
        """Return the question, the judge, and the numbers of properties and gaps."""
        return {"question": self.question, "judge": self.judge, "tested": self.tested, "gaps": len(self.gaps)}

    def document(self) -> Document:
        """Return the gaps with their examples, and what became of earlier gaps."""
        tested = f"{count_of(self.tested, 'property', 'properties')} tested on {count_of(self.ratings, 'rating')}"
        title = f"{count_of(len(self.gaps), 'gap')} found" if self.gaps else "no gap found"
        titles = {"judge": f"People and {self.judge} differ where", "people": "People differ among themselves where"}
        sections = []
        for against, heading in titles.items():
            rows = []
            for gap in self.gaps:
                if gap.against != against:
                    continue
                rows.append(f"- {gap} ({count_of(gap.ratings, 'rating')}, {p_text(gap.p)})")
                rows.append(f"  such as {', '.join(map(str, gap.examples[:EXAMPLES_SHOWN]))}")
                rows += [f"  the same conversations: {', '.join(gap.also[:4])}"] if gap.also else []
            sections += [Section(heading, "", [lines(*rows)])] if rows else []
        if self.gaps:
            reword = "say in the wording how such conversations are rated: accord serve, page Rubric"
            sections.append(Section("", reword))
        changes = [Section("", "", [lines(*self.changes)])] if self.changes else []
        return Document(title, tested, [*sections, *changes])

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "question": self.question, "judge": self.judge, "tested": self.tested, "ratings": self.ratings,
            "gaps": self.records(), "changes": list(self.changes),
        }  # fmt: skip


@dataclass(frozen=True)
class NextLabel:
    """Suggested label.

    Attributes:
        conversation: Conversation to rate.
        turn: Turn to rate; `None` for the whole conversation.
        question: Question to answer.
        annotator: Annotator to ask, or `anyone`.
        gain: Share of the remaining uncertainty that the label would remove; `None` with too few labels.
        reason: Reason to suggest it before labels with a higher gain; `None` without one.

    >>> from accord.testing import sample_project
    >>> with sample_project() as project:
    ...     first, *_ = project.label_next(3)
    >>> first.question, first.turn is None, first.gain > 0
    ('Q0', True, True)
    """

    conversation: str
    turn: int | None
    question: str
    annotator: str
    gain: float | None
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Convert to a flat row."""
        return asdict(self)


@dataclass(frozen=True, repr=False)
class Estimates(Documented, Tabular):
    """Mean rating of each assistant version with its interval, and all differences; a table with a row per version.

    Attributes:
        question: ID of the main question.
        systems: Mean of each assistant version.
        differences: Difference of each pair of versions.
        level: `conversation` or `turn`: the unit of labels and scores.
        evaluator: Name of the evaluator whose scores are used; each is predicted without labels of its conversation.
        from_files: Number of scores of conversations outside the store, from `accord score`.
        widths: Mean width of the intervals of the versions by estimator; the means come from PPI++.
        plans: For each pair of versions, the smallest difference that the labels show and the labels that the asked
            difference needs.
        left_out: Versions with too few labels for a mean, each with the reason.
        cautions: Versions whose labels are not a random part of their units, each with a sentence.
        units: Replies that belong to a version; empty if all do.

    >>> from accord.testing import sample_project
    >>> with sample_project() as project:
    ...     estimates = project.estimate()
    >>> estimates.question, [each.system for each in estimates.systems]
    ('Q0', ['assistant-a', 'assistant-b'])
    """

    question: str
    systems: Sequence[SystemMean]
    differences: Sequence[MeanDifference]
    level: Level = "conversation"
    evaluator: str = ""
    from_files: int = 0
    widths: Mapping[str, float] = field(default_factory=dict)
    plans: Sequence[label_plans.DifferencePlan] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    cautions: Mapping[str, str] = field(default_factory=dict)
    units: str = ""

    @property
    def narrowest(self) -> str | None:
        """Estimator with the narrowest intervals here, on a tie the simplest; `None` if intervals are missing."""
        return min(reversed([*self.widths]), key=lambda name: round(self.widths[name], 6), default=None)

    @property
    def scores(self) -> int:
        """Number of scores that the means use."""
        return sum(each.scored for each in self.systems)

    def records(self) -> list[dict[str, Any]]:
        """Return a flat row per assistant version."""
        return [each.to_json() for each in self.systems]

    @property
    def figures(self) -> Ledger:
        """Means of the versions and their differences."""
        unit, figures = f"{self.level}s", []
        scored = {row.system: row.scored for row in self.systems}
        for row in self.systems:
            both = f"{row.labelled:,} labeled of {row.scored:,} scored {unit} of {row.system}"
            mean, alone = Estimate(row.mean, row.low, row.high), Estimate(row.label_mean, row.label_low, row.label_high)
            labeled = f"{row.labelled:,} labeled {unit} of {row.system}"
            figures.append(figure_of("estimated_mean", mean, row.scored, both, row.system, "", _SOURCE))
            figures.append(figure_of("labeled_mean", alone, row.labelled, labeled, row.system, "people", _SOURCE))
        for gap in self.differences:
            about, part = f"{unit} with labels and scores of {gap.first} and {gap.second}", _versions(gap)
            found, n = Estimate(gap.difference, gap.low, gap.high), scored[gap.first] + scored[gap.second]
            figures.append(figure_of("estimated_difference", found, n, about, part, "", _SOURCE))
        return Ledger(figures)

    def document(self) -> Document:
        """Return the mean of each version, the differences, and the labels that these need."""
        ledger, unit = self.figures, f"{self.level}s"
        rows: list[Row] = [
            [row.system, f"{row.labelled:,}", f"{row.scored:,}", ledger[f"estimated_mean:{row.system}"],
             ledger[f"labeled_mean:{row.system}"], "–" if row.worth is None else f"{row.worth:.2f}"]
            for row in self.systems
        ]  # fmt: skip
        names = [DEFINITIONS[name].label for name in ("estimated_mean", "labeled_mean")]
        table = Table(["assistant version", "labeled", "scored", *names, "worth"], rows)
        limits = [f"{row.system}: {row.reason}" for row in self.systems if row.reason]
        limits += [f"{system}: no mean: {reason}" for system, reason in self.left_out.items()]
        limits += [f"{system}: caution: {text}" for system, text in self.cautions.items()]
        gaps, corrected = [], " (Holm)" if len(self.differences) > 1 else ""
        for gap in self.differences:
            text = f"{_versions(gap)}: {ledger[f'estimated_difference:{_versions(gap)}'].text()}"
            text += ", without an interval" if gap.p_holm is None else f", {p_text(gap.p_holm)}{corrected}"
            gaps.append(
                text + (f", paired by {gap.shared} shared inputs" if gap.shared and gap.p_holm is not None else "")
            )
        files = self.from_files
        scores = (
            f"scores: {self.scores - files:,} {unit}, predicted by {self.evaluator} from evidence in the store, each "
            "without the labels of its conversation"
        )
        scores += f"; counted: {self.units}" if self.units else ""
        scores += f"; and {files:,} outside the store, which it scored in files (accord score)" if files else ""
        worth = (
            "ratings are corrected for how high their annotator rates. worth: as many times more labels alone would "
            f"give as short an interval. Valid where the labeled {unit} are a random part of each version's; 95% "
            "intervals over groups of conversations"
        )
        about: list[Part] = [table, *([lines(*limits)] if limits else []), *([lines(*gaps)] if gaps else [])]
        return Document(
            f"Mean rating of {count_of(len(self.systems), 'assistant version')}",
            sections=[Section("", "", about), Section("", "", [lines(*self._plan_sentences(), scores, worth)])],
        )

    def _plan_sentences(self) -> list[str]:
        """Return sentences on the estimators, and on the differences that the labels show."""
        sentences = []
        if self.widths:
            widths = ", ".join(f"{name} {width:.3f}" for name, width in self.widths.items())
            sentences.append(
                f"mean width of the intervals: {widths}; narrowest here: {self.narrowest}. The figures above are "
                "those of PPI++ in any case: an interval chosen because it is narrow holds the mean too rarely"
            )
            if self.widths["PPI++"] > GAIN * self.widths["labels alone"]:
                sentences.append(
                    "the scores narrow the intervals by less than 1%: all of a version is labeled, or within versions "
                    "the scores hardly follow the labels"
                )
        for plan in self.plans:
            enough = (
                f"{plan.fewest:,} labels of both would show {plan.asked:g}"
                if plan.fewest > plan.labels
                else f"they are enough for {plan.asked:g}"
            )
            sentences.append(
                f"{plan.first} and {plan.second}: the {plan.labels:,} labels show a difference of {plan.smallest:.2f} "
                f"or more in 4 of 5 samples; {enough}"
            )
        return sentences

    def summary(self) -> dict[str, Any]:
        """Return the question, the unit, and the numbers of assistant versions and scores."""
        return {"question": self.question, "level": self.level, "systems": len(self.systems), "scores": self.scores}

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "question": self.question,
            "level": self.level,
            "evaluator": self.evaluator,
            "scores": self.scores,
            "from_files": self.from_files,
            "systems": self.records(),
            "differences": [each.to_json() for each in self.differences],
            "widths": dict(self.widths),
            "narrowest": self.narrowest,
            "plans": [each.to_json() for each in self.plans],
            "left_out": dict(self.left_out),
            "cautions": dict(self.cautions),
            "units": self.units,
            "ledger": self.figures.to_json(),
        }


def _versions(gap: MeanDifference) -> str:
    return f"{gap.first} − {gap.second}"

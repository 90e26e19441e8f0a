"""Findings of a learned rubric on its held-out side: separation, threshold, rivals and examples (RUBICON, section 4).

The figures describe the rubric that is saved. It is not learned again from all conversations afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from accord.edges import BadInput
from accord.evidence import EvidenceTable, Training, ask_rubric, counted_stems, pieces
from accord.methods.learned_rubric.assertion_pool import WrittenPool, asking, only
from accord.methods.learned_rubric.assertion_selector import (
    VERDICT,
    AssertionSelector,
    ClassifiedSamples,
    NetSatOutcome,
    points,
    with_intervals,
)
from accord.methods.learned_rubric.selection_policies import (
    ALL,
    POINT,
    TOP,
    UNCERTAIN,
    Floats,
    SelectionSettings,
)
from accord.models import JUDGE, NO_LIST, NOT_YET, Flow
from accord.results import Charts, Findings, Fold, Histogram, Point, Points, Section, Table, Text, number, percent
from accord.statistics import REPEATED_DRAWS, Clusters, estimate_from_draws
from accord.values import Conversation, Estimate, Polarity, Question, Rubric, Sample

JUDGE_DIRECTLY = "judge asked directly"
EXAMPLES_PER_KIND = 2
LONGEST_PASSAGE = 300
"""Characters of a passage."""
ROLE_WORDS = frozenset({"user", "assistant"})
"""Words that assertions use for the speakers. They occur in any turn, so they select no passage."""
COLUMNS = {
    "delta_netsat": "ΔNetSAT", "accuracy": "accuracy", "yield_deployed": "outside RUBICON's window",
    "precision_deployed": "precision there",
}  # fmt: skip
"""Statistics of a rubric by name, with their column headings."""


@dataclass(frozen=True)
class RubricFit:
    """A rubric selected from a pool, with the judge's answers to the whole pool about the training side.

    Attributes:
        decided: Good and bad conversations of the training side.
        written: The pool as the model wrote it.
        everything: The whole pool as a rubric.
        rubric: The selected assertions.
        answers: Answers to the whole pool about the good and bad conversations.
    """

    train: Training
    decided: ClassifiedSamples
    written: WrittenPool
    everything: Rubric
    rubric: Rubric
    selector: AssertionSelector
    answers: EvidenceTable

    def to_ask(self, names: Iterable[str]) -> set[str]:
        """Return the assertions to ask about further samples: the whole pool in a plan, where none is selected yet."""
        is_plan = NOT_YET in self.answers.absences.values()
        return {question.id for question in self.everything.assertions} if is_plan else set(names)


def fit_pool(written: WrittenPool, everything: Rubric, train: Training, settings: SelectionSettings) -> Flow[RubricFit]:
    """Judge the good and bad conversations by a whole pool, and select a rubric from it."""
    decided = ClassifiedSamples.of(train, settings)
    answers = yield from ask_rubric(everything, decided.samples, JUDGE, "judged")
    selector = AssertionSelector.of_rubric(everything, train.question, settings, train.seed).fit(answers, train.labels)
    return RubricFit(train, decided, written, everything, only(everything, selector.names_), selector, answers)


# --- values -------------------------------------------------------------------------------------------------------


class RubricResult(NamedTuple):
    """A rubric on the held-out side; `outcome` is `None` if it failed.

    `unanswered` is the share of missing answers, which count as neutral; `failed` is the reason for a missing outcome.
    """

    system: str
    outcome: NetSatOutcome | None
    unanswered: float | None = None
    failed: str | None = None

    @classmethod
    def of(
        cls, system: str, selector: AssertionSelector, answers: EvidenceTable, decided: ClassifiedSamples
    ) -> RubricResult:
        """Return the result of a fitted selector."""
        _, missing = points(answers, selector.names_, selector.settings.answers)
        return cls(system, selector.outcome(answers, decided.good), float(missing.mean()))

    def row(self, statistics: Mapping[str, Estimate]) -> dict[str, Any]:
        """Return a flat row: each statistic by its name, the ends of its interval as `_low` and `_high`."""
        row: dict[str, Any] = {"system": self.system, "unanswered": self.unanswered}
        for name, figure in statistics.items():
            row |= {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}
        return row if self.failed is None else {**row, "failed": self.failed}


def _figure(row: Mapping[str, Any], name: str) -> Estimate:
    return Estimate(row[name], row[f"{name}_low"], row[f"{name}_high"])


@dataclass(frozen=True)
class RubricExample:
    """A held-out conversation that an assertion speaks `for` or `against`, with its points and a passage."""

    kind: str
    conversation: str
    points: float
    passage: str | None


@dataclass(frozen=True)
class AssertionFindings:
    """One selected assertion on the held-out side.

    Attributes:
        side: `sat` or `dsat`; `class` in JSON.
        weight: Factor of its points in NetSAT.
        separation: Difference of the classes' mean points, with its 95% interval.
        reasons: Number of reasons it was written from.
        fails: Share of conversations in which a SAT assertion is denied or a DSAT assertion holds.
        examples: Conversations it speaks for and against most.
    """

    id: str
    text: str
    side: Annotated[str, Field(alias="class")]
    weight: float
    separation: float
    separation_low: float | None
    separation_high: float | None
    reasons: int
    fails: float
    examples: Sequence[RubricExample]

    def fold(self) -> Fold:
        """Return its part of the report: separation and examples."""
        low, high = number(self.separation_low, 2), number(self.separation_high, 2)
        summary = (
            f"{'Speaks for' if self.side == 'sat' else 'Speaks against'} a conversation; written from {self.reasons} "
            f"reasons. Separation {number(self.separation, 2)} points ({low} to {high})."
        )
        examples = [
            Text(
                example.passage or "no passage shares a word with it",
                "turn",
                f"{example.kind} the conversation: {example.conversation} ({number(example.points, 1)} points)",
            )
            for example in self.examples
        ]
        return Fold(self.text, [Text(summary, "soft"), *examples], f"{self.id}, fails in {percent(self.fails)}")


@dataclass(frozen=True)
class LabelledScore:
    """NetSAT of a held-out conversation, with the annotators' rating and the rubric's label."""

    score: float
    good: bool
    label: str


@dataclass(frozen=True, kw_only=True)
class RubricFindings(Findings):
    """Learned rubric and its results on the held-out side.

    Attributes:
        rows: Rubrics, the learned one first, as `RubricResult.row` returns them.
        assertions: Selected assertions, those that fail most often first.
        scores: Held-out conversations.
        threshold: NetSAT above which a conversation counts as good.
        precision: Required precision of the labels.
        window: Ends of the uncertainty window; `None` where no label is given on that side.
        tested, trained: Number of good and bad conversations on each side.
        pool: Counts of written assertions.
        evaluator: Selection as `AssertionSelector.describe` returns it.
    """

    rows: Sequence[dict[str, Any]]
    assertions: Sequence[AssertionFindings]
    scores: Sequence[LabelledScore]
    threshold: float
    precision: float
    cautions: Sequence[str]
    tested: int
    again: float
    window: Sequence[float | None]
    pool: Mapping[str, Any]
    trained: int
    evaluator: Mapping[str, Any]

    def section(self) -> Section:
        """Charts of the assertions and of NetSAT, each assertion with examples, and the table of systems."""
        best = _figure(self.rows[0], "delta_netsat")
        lead = (
            f"{len(self.assertions)} assertions, selected from {self.pool['assertions']} written from {self.trained} "
            f"good and bad conversations. Their sum, NetSAT, was tested on {self.tested} others: good conversations "
            f"score {number(best.value, 1)} points above bad ones ({number(best.low, 1)} to {number(best.high, 1)})."
        )
        names = ["learned rubric", *(row["system"] for row in self.rows[1:])]
        rows: list[list[str | Estimate]] = [
            [shown, *(_figure(row, name) for name in COLUMNS)] for shown, row in zip(names, self.rows, strict=True)
        ]
        labels = (
            "Accuracy counts every score above the threshold as good. Threshold and RUBICON's uncertainty window come "
            "from the training side. The window has no confidence bound, and middle ratings are left out of it; the "
            "calls of `accord score` follow the rule of the verdict."
        )
        return Section("The learned rubric", lead, [
            Charts([self._separations()]), Text(self._worst(), "soft"),
            Charts([self._histogram()], ("good", "bad, by annotators")), Text(self._trust(), "soft"),
            Text("Assertions by share of failures", "heading"), *(assertion.fold() for assertion in self.assertions),
            Text("Rubrics", "heading"), Table(["", *COLUMNS.values()], rows, own=frozenset({0})), Text(labels, "soft"),
            Text(f"Each new conversation takes {len(self.assertions)} questions.", "soft"),
            Text(self.evaluator["signature"], "code"),
        ])  # fmt: skip

    def _separations(self) -> Points:
        caption = "Separation of each assertion on conversations outside the selection; orange: within chance"
        bars = [
            Point(
                f"{one.id}: {one.text}",
                Estimate(one.separation, one.separation_low, one.separation_high),
                one.separation_low is None or one.separation_low <= 0,
            )
            for one in sorted(self.assertions, key=lambda one: -one.separation)
        ]
        return Points(caption, "points between good and bad conversations", bars)

    def _histogram(self) -> Histogram:
        caption = "NetSAT of held-out conversations; line: threshold, dashes: uncertainty window"
        groups = {name: [one.score for one in self.scores if one.good == (name == "good")] for name in ("good", "bad")}
        low, high = self.window
        return Histogram(caption, "NetSAT", "conversations", groups, self.threshold, (low, high))

    def _worst(self) -> str:
        worst = self.assertions[0]
        return (
            f'Next step: {worst.id} fails most, in {percent(worst.fails)} of conversations ("{worst.text}"): read its '
            "examples below first. Delete assertions that you do not believe from rubric.yaml, and fit again with "
            "sources: {learned-rubric: {pool: rubric.yaml}}."
        )

    def _trust(self) -> str:
        outside = 1 - sum(one.label == UNCERTAIN for one in self.scores) / len(self.scores)
        right = self.rows[0]["precision_deployed"]
        if right is None:
            return (
                f"No conversation is outside RUBICON's uncertainty window at a precision of {percent(self.precision)}."
            )
        return (
            f"{percent(outside)} of the good and bad conversations are outside RUBICON's uncertainty window; "
            f"annotators agree with {percent(right)} of them (aim: {percent(self.precision)})."
        )


# --- the held-out side --------------------------------------------------------------------------------------------


def examine_rubric(
    fit: RubricFit, test: Training, settings: SelectionSettings, rivals: Mapping[str, Rubric]
) -> Flow[RubricFindings]:
    """Test a learned rubric and its rivals on the held-out side.

    Args:
        fit: The learned rubric.
        test: The held-out side.
        settings: Settings of the selection.
        rivals: Other rubrics by name; one that fails gets a row with the reason.
    """
    decided, selector = ClassifiedSamples.of(test, settings, fewest=1), fit.selector
    answers = yield from ask_held_out(fit, decided)
    results = yield from compare_rubrics(fit, answers, decided, settings, rivals)
    clusters = clusters_of(test, decided)
    rows = [each.row(_verdict(each, clusters, test)) for each in results]
    outcome = selector.outcome(answers, decided.good)
    labels = selector.window_.says(outcome.scores)
    return RubricFindings(
        rows=rows,
        assertions=_assertions(fit, answers, decided, test),
        scores=[
            LabelledScore(float(score), bool(is_good), str(label))
            for score, is_good, label in zip(outcome.scores, decided.good, labels, strict=True)
        ],
        threshold=selector.threshold_,
        precision=selector.settings.precision,
        cautions=_cautions(fit, decided, rows),
        tested=len(decided.good),
        again=sum(count for reason, count in fit.written.failures.items() if reason != NO_LIST)
        + sum(row["unanswered"] or 0.0 for row in rows),
        **learned_part(fit),
    )


def learned_part(fit: RubricFit) -> Mapping[str, Any]:
    """Return the findings that need no held-out side."""
    evaluator, pool = fit.selector.describe(), {**fit.written.to_json(), "assertions": len(fit.everything.assertions)}
    return {"window": evaluator["window"], "pool": pool, "trained": len(fit.decided.samples), "evaluator": evaluator}


def ask_held_out(fit: RubricFit, decided: ClassifiedSamples) -> Flow[EvidenceTable]:
    """Return the judge's answers to the selected assertions about the held-out side."""
    selected = only(fit.everything, fit.to_ask(fit.selector.names_))
    return (yield from ask_rubric(selected, decided.samples, JUDGE, "held-out side judged"))


def compare_rubrics(
    fit: RubricFit,
    answers: EvidenceTable,
    decided: ClassifiedSamples,
    settings: SelectionSettings,
    rivals: Mapping[str, Rubric],
) -> Flow[list[RubricResult]]:
    """Return the results of the learned rubric, the judge asked directly, and the rivals on the held-out side."""
    main = fit.train.question
    results = [RubricResult.of(settings.policy, fit.selector, answers, decided)]
    if main.can_be_judged:
        directly = _sum_of({main.id: "sat"}, fit, settings).fit(fit.answers, fit.train.labels)
        results.append(RubricResult.of(JUDGE_DIRECTLY, directly, answers, decided))
    for name, rubric in rivals.items():
        results.append((yield from _ask_rival(name, rubric, fit, decided, settings)))
    return results


def _verdict(result: RubricResult, clusters: Clusters, test: Training) -> dict[str, Estimate]:
    if result.outcome is None:
        return dict.fromkeys(VERDICT, Estimate())
    return with_intervals(result.outcome, clusters, test.draws, test.seed)


def _sum_of(classes: Mapping[str, str], fit: RubricFit, settings: SelectionSettings) -> AssertionSelector:
    """Return a selector that sums all questions; without classes it learns the direction of each."""
    return AssertionSelector(fit.train.question, classes, settings=_all(settings), seed=fit.train.seed)


def _all(settings: SelectionSettings) -> SelectionSettings:
    return settings.model_copy(update={"policy": ALL})


def _ask_rival(
    name: str, rubric: Rubric, fit: RubricFit, decided: ClassifiedSamples, settings: SelectionSettings
) -> Flow[RubricResult]:
    """Return the result of the sum of all questions of a rubric; on failure it has the reason."""
    train = fit.train
    main = train.question
    summed = asking(rubric, (question.id for question in rubric.questions if question.id != main.id))
    try:
        seen = yield from ask_rubric(summed, fit.decided.samples, JUDGE, f"{rubric.name}: judged")
        selector = _sum_of({}, fit, settings)
        if len(rubric.assertions) == len(summed.questions):
            selector = AssertionSelector.of_rubric(rubric, main, _all(settings), train.seed)
        selector.fit(seen, train.labels)
        answers = yield from ask_rubric(summed, decided.samples, JUDGE, f"{rubric.name}: held-out side judged")
        return RubricResult.of(name, selector, answers, decided)
    except BadInput as error:
        return RubricResult(name, None, failed=str(error))


def clusters_of(test: Training, decided: ClassifiedSamples) -> Clusters:
    """Return the good and bad conversations of a side by the groups that are resampled together."""
    return Clusters([test.group_of(sample.target) for sample in decided.samples])


def _cautions(fit: RubricFit, decided: ClassifiedSamples, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return sentences on limits of the data, the most serious first."""
    low, written = rows[0]["delta_netsat_low"], fit.written
    selected, rarer = len(fit.selector.names_), min(fit.selector.classes_)
    sat, dsat = (sum(question.side is side for question in fit.everything.assertions) for side in Polarity)
    contradicted = fit.decided.contradicted + decided.contradicted
    in_part, failures, flagged = written.counts["shown in part"], written.failures, len(written.flagged)
    sentences = {
        "on held-out conversations the rubric does not separate good from bad beyond chance: do not use it yet; label "
        "more conversations, or try another judge or writer": low is None or low <= 0,
        f"{selected} assertions were selected, and the rarer class has {rarer} conversations to select them by: lower "
        "the budgets (learned-rubric: {budgets: [[3, 3], [10, 10]]}), or label more": rarer < selected,
        f"the pool holds {sat} SAT and {dsat} DSAT assertions: too few to select from": min(sat, dsat) < 2,
        f"{contradicted} conversations have good and bad ratings; their mean decided": contradicted,
        f"{in_part} conversations exceed the writer's context and were shown to it in part": in_part,
        f"{failures.total()} prompts of the writer failed: "
        + ", ".join(f"{reason} ({count})" for reason, count in failures.most_common()): failures,
        f"{flagged} assertions contained private details of a conversation and were left out": flagged,
    }
    cautions = [sentence for sentence, holds in sentences.items() if holds]
    cautions += [f"{row['system']} failed: {row['failed']}" for row in rows if row.get("failed")]
    return cautions + [
        f"{row['unanswered']:.0%} of the held-out answers for {row['system']} are missing, and count as neutral"
        for row in rows
        if row["unanswered"]
    ]


# --- single assertions --------------------------------------------------------------------------------------------


def _assertions(
    fit: RubricFit, answers: EvidenceTable, decided: ClassifiedSamples, test: Training
) -> list[AssertionFindings]:
    """Return the findings of each selected assertion, those that fail most often first."""
    selector, clusters = fit.selector, clusters_of(test, decided)
    values = points(answers, selector.names_, selector.settings.answers)[0] / POINT
    signed = values * np.where(selector.sat_, 1.0, -1.0)[:, None]
    terms = np.vstack([signed * decided.good, signed * ~decided.good, decided.good, ~decided.good]).T.astype(float)
    counts = clusters.counts(min(test.draws, REPEATED_DRAWS), test.seed)
    drawn, all_gaps = _gaps(counts @ clusters.sums(terms)), _gaps(terms.sum(axis=0))
    findings = []
    for place, name in enumerate(selector.names_):
        question = fit.rubric[name]
        assert question.side is not None
        spread, own = estimate_from_draws(None, drawn[:, place]), values[place]
        fails = own < TOP / POINT / 2 if selector.sat_[place] else own > TOP / POINT / 2
        findings.append(
            AssertionFindings(
                name, question.text, question.side.value, question.weight, float(all_gaps[place]), spread.low,
                spread.high, len(question.reasons), float(fails.mean()),
                _examples(question, decided.samples, signed[place]),
            )
        )  # fmt: skip
    return sorted(findings, key=lambda one: -one.fails)


def _gaps(totals: Floats) -> Floats:
    """Return (..., P) differences of the classes' means; NaN where one class is missing.

    Args:
        totals: (..., 2·P + 2) sums of the P assertions over good and over bad conversations, and the sizes of both.
    """
    of_good, of_bad = np.split(totals[..., :-2], 2, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(of_good / totals[..., -2:-1] - of_bad / totals[..., -1:])


def _examples(question: Question, samples: Sequence[Sample], values: Floats) -> list[RubricExample]:
    """Return the held-out conversations that an assertion speaks for most, and against most, with passages."""
    order = np.argsort(-values, kind="stable")
    kinds = [("for", row) for row in order[:EXAMPLES_PER_KIND]]
    kinds += [("against", row) for row in order[::-1][:EXAMPLES_PER_KIND]]
    chats = [(kind, row, samples[row].conversation) for kind, row in kinds]
    return [RubricExample(kind, chat.id, float(values[row]), passage(chat, question)) for kind, row, chat in chats]


def passage(conversation: Conversation, question: Question) -> str | None:
    """Return the passage of a conversation closest to an assertion, or `None` if no turn shares one of its words."""
    quote = next((r.quote for r in question.reasons if r.conversation == conversation.id and r.quote), None)
    if quote is not None:
        return quote
    stems = counted_stems(pieces(question.text)).keys() - ROLE_WORDS
    shared = [len(stems & counted_stems(pieces(turn.content)).keys()) for turn in conversation.turns]
    if not max(shared, default=0):
        return None
    turn = conversation.turns[shared.index(max(shared))]
    text = " ".join(turn.content.split())
    return f"{turn.role}: {text[:LONGEST_PASSAGE]}{' …' if len(text) > LONGEST_PASSAGE else ''}"

"""Findings of a learned rubric on its held-out side: separation, threshold, rivals and examples (RUBICON, section 4).

The figures describe the rubric that is saved. It is not learned again from all conversations afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from accord.edges import BadInput
from accord.evidence import EvidenceTable, Training, ask_rubric, counted_stems, pieces
from accord.methods.learned_rubric.assertion_pool import WrittenPool, asking, only
from accord.methods.learned_rubric.assertion_selector import (
    NAMES,
    AssertionSelector,
    ClassifiedSamples,
    points,
    with_intervals,
)
from accord.methods.learned_rubric.selection_policies import (
    ALL,
    POINT,
    RUBICON,
    TOP,
    UNCERTAIN,
    Flags,
    Floats,
    SelectionSettings,
)
from accord.models import JUDGE, NO_LIST, NOT_YET, Flow
from accord.statistics import Clusters, estimate_from_draws
from accord.values import (
    Charts,
    Conversation,
    Estimate,
    Findings,
    Fold,
    Histogram,
    Point,
    Points,
    Polarity,
    Question,
    Rubric,
    Sample,
    Section,
    Table,
    Text,
    number,
    percent,
)

JUDGE_DIRECTLY = "judge asked directly"
EXAMPLES_PER_KIND = 2
MOST_DRAWS = 500
"""Bootstrap samples for the interval of one assertion."""
LONGEST_PASSAGE = 300
"""Characters of a passage."""
ROLE_WORDS = frozenset({"user", "assistant"})
"""Words that assertions use for the speakers. They occur in any turn, so they select no passage."""
COLUMNS = {
    "delta_netsat": "ΔNetSAT", "yield_rate": "yield", "yield_deployed": "yield deployed",
    "precision_deployed": "precision deployed", "accuracy": "accuracy", "precision": "precision", "recall": "recall",
    "f1": "F1",
}  # fmt: skip
"""Statistics of a system by name, with their column headings."""


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


def system_row(
    system: str, figures: Mapping[str, Estimate], unanswered: float | None = None, failed: str | None = None
) -> dict[str, Any]:
    """Return a flat row: each statistic by its name, the ends of its interval as `_low` and `_high`.

    `unanswered` is the share of missing answers, which count as neutral; `failed` is the reason for missing statistics.
    """
    row: dict[str, Any] = {"system": system, "unanswered": unanswered}
    for name, figure in figures.items():
        row |= {name: figure.value, f"{name}_low": figure.low, f"{name}_high": figure.high}
    return row if failed is None else {**row, "failed": failed}


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
        rows: Systems, the learned rubric first, as `system_row` returns them.
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
        rows: list[list[str | Estimate]] = [
            [row["system"], *(_figure(row, name) for name in COLUMNS)] for row in self.rows
        ]
        learned_rows = frozenset(place for place, row in enumerate(self.rows) if row["system"] == RUBICON)
        yields = (
            "Yield follows the paper: its window comes from the tested labels. For the deployed yield the window comes "
            "from the training side, and the next column is the precision of the labels given there."
        )
        return Section("The learned rubric", lead, [
            Charts([self._separations()]), Text(self._worst(), "soft"),
            Charts([self._histogram()], ("good", "bad, by annotators")), Text(self._trust(), "soft"),
            Text("Assertions by share of failures", "heading"), *(assertion.fold() for assertion in self.assertions),
            Text("Rubrics", "heading"), Table(["", *COLUMNS.values()], rows, own=learned_rows), Text(yields, "soft"),
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
        uncertain = sum(one.label == UNCERTAIN for one in self.scores) / len(self.scores)
        right = self.rows[0]["precision_deployed"]
        precision = "No conversation has a label: no threshold is precise enough."
        if right is not None:
            precision = (
                f"{percent(right)} of the labels agree with annotators; the target is {percent(self.precision)}."
            )
        unread = percent(uncertain)
        return f"Next step: use the labels good and bad, and read the {unread} that stay uncertain. {precision}"


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
    selected = only(fit.everything, fit.to_ask(selector.names_))
    answers = yield from ask_rubric(selected, decided.samples, JUDGE, "held-out side judged")
    rows = [score_selector(settings.policy, selector, answers, decided, test)]
    if test.question.can_be_judged:
        directly = _sum_of({test.question.id: "sat"}, fit, settings).fit(fit.answers, fit.train.labels)
        rows.append(score_selector(JUDGE_DIRECTLY, directly, answers, decided, test))
    for name, rubric in rivals.items():
        rows.append((yield from _score_rival(name, rubric, fit, decided, test, settings)))
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


def score_selector(
    system: str, selector: AssertionSelector, answers: EvidenceTable, decided: ClassifiedSamples, test: Training
) -> dict[str, Any]:
    """Return the row of a fitted selector on the held-out side."""
    _, missing = points(answers, selector.names_, selector.settings.answers)
    outcome, clusters = selector.outcome(answers, decided.good), _clusters_of(test, decided)
    return system_row(system, with_intervals(outcome, clusters, test.draws, test.seed), float(missing.mean()))


def _sum_of(classes: Mapping[str, str], fit: RubricFit, settings: SelectionSettings) -> AssertionSelector:
    """Return a selector that sums all questions; without classes it learns the direction of each."""
    return AssertionSelector(fit.train.question, classes, settings=_all(settings), seed=fit.train.seed)


def _all(settings: SelectionSettings) -> SelectionSettings:
    return settings.model_copy(update={"policy": ALL})


def _score_rival(
    name: str, rubric: Rubric, fit: RubricFit, decided: ClassifiedSamples, test: Training, settings: SelectionSettings
) -> Flow[dict[str, Any]]:
    """Score the sum of all questions of a rubric; on failure the row has the reason."""
    main, train = test.question, fit.train
    summed = asking(rubric, (question.id for question in rubric.questions if question.id != main.id))
    try:
        seen = yield from ask_rubric(summed, fit.decided.samples, JUDGE, f"{rubric.name}: judged")
        selector = _sum_of({}, fit, settings)
        if len(rubric.assertions) == len(summed.questions):
            selector = AssertionSelector.of_rubric(rubric, main, _all(settings), train.seed)
        selector.fit(seen, train.labels)
        answers = yield from ask_rubric(summed, decided.samples, JUDGE, f"{rubric.name}: held-out side judged")
        return score_selector(name, selector, answers, decided, test)
    except BadInput as error:
        return system_row(name, dict.fromkeys(NAMES, Estimate()), failed=str(error))


def _clusters_of(test: Training, decided: ClassifiedSamples) -> Clusters:
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
    selector, good = fit.selector, decided.good
    values = points(answers, selector.names_, selector.settings.answers)[0] / POINT
    clusters = _clusters_of(test, decided)
    drawn = [clusters.rows(count) for count in clusters.counts(min(test.draws, MOST_DRAWS), test.seed)]
    findings = []
    for name, own in zip(selector.names_, values, strict=True):
        question = fit.rubric[name]
        assert question.side is not None
        is_sat = question.side is Polarity.SAT
        signed = own if is_sat else -own
        spread = estimate_from_draws(None, np.array([_gap(signed[rows], good[rows]) for rows in drawn]))
        fails = own < TOP / POINT / 2 if is_sat else own > TOP / POINT / 2
        findings.append(
            AssertionFindings(
                name, question.text, question.side.value, question.weight, _gap(signed, good), spread.low, spread.high,
                len(question.reasons), float(fails.mean()), _examples(question, decided.samples, signed),
            )
        )  # fmt: skip
    return sorted(findings, key=lambda one: -one.fails)


def _gap(values: Floats, good: Flags) -> float:
    """Return the difference of the classes' means; NaN where one class is missing."""
    return float(values[good].mean() - values[~good].mean()) if good.any() and not good.all() else float("nan")


def _examples(question: Question, samples: Sequence[Sample], values: Floats) -> list[RubricExample]:
    """Return the held-out conversations that an assertion speaks for most, and against most, with passages."""
    order = np.argsort(-values, kind="stable")
    kinds = [("for", row) for row in order[:EXAMPLES_PER_KIND]]
    kinds += [("against", row) for row in order[::-1][:EXAMPLES_PER_KIND]]
    chats = [(kind, row, samples[row].conversation) for kind, row in kinds]
    return [RubricExample(kind, chat.id, float(values[row]), passage(chat, question)) for kind, row, chat in chats]


def passage(conversation: Conversation, question: Question) -> str | None:
    """Return the passage of a conversation closest to an assertion; `None` if no turn shares a word with it."""
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

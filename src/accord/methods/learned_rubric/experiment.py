"""A learned rubric compared with others on conversations that it has not seen (RUBICON, section 4).

Table 1 compares it with other rubrics and with the judge asked directly, table 3 with other selections from the same
pool. The figures are those of the very rubric that is kept: it is not learned again from everything afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from accord.edges import BadInput
from accord.evidence import EvidenceTable, Training, ask_rubric, counted_stems, pieces
from accord.methods.learned_rubric.as_rubric import asking, only
from accord.methods.learned_rubric.assertion_pool import WrittenPool
from accord.methods.learned_rubric.assertion_selector import AssertionSelector
from accord.methods.learned_rubric.findings import (
    RUBRICS,
    SELECTIONS,
    AssertionFindings,
    Confusion,
    CurvePoint,
    RubricExample,
    RubricFindings,
    ScoredConversation,
    SystemFigures,
    SystemShare,
)
from accord.methods.learned_rubric.judge_points import Decided, points
from accord.methods.learned_rubric.selection_policies import (
    ALL,
    RESAMPLES,
    RUBICON,
    SelectionSettings,
    selection_policies,
    stability,
)
from accord.methods.learned_rubric.separation_metrics import (
    NAMES,
    POINT,
    TOP,
    Flags,
    Floats,
    curves,
    targets,
    with_intervals,
)
from accord.models import JUDGE, NOT_YET, PROSE, Flow
from accord.statistics import Clusters, estimate_from_draws
from accord.values import (
    Conversation,
    Estimate,
    Question,
    Rubric,
    Sample,
    Side,
)

ASKED = "judge asked directly"
SHOWN = 2
"""Examples of each kind."""
MOST_DRAWS = 500
"""Of an assertion's interval."""
SHAKY = 0.5
"""An assertion that is selected on a smaller share of the resamples is selected by chance."""
LONGEST = 300
"""Characters of a passage."""
ROLES = frozenset({"user", "assistant"})
"""Words that assertions use of the speakers: they tell no turn from another."""


@dataclass(frozen=True)
class RubricFit:
    """A rubric selected from a pool (`everything`), and a judge's answers to the whole pool about the training side."""

    train: Training
    decided: Decided
    written: WrittenPool
    everything: Rubric
    rubric: Rubric
    selector: AssertionSelector
    answers: EvidenceTable

    def to_ask(self, names: Iterable[str]) -> set[str]:
        """The assertions to ask about further samples; the whole pool while a flow is priced and none is selected."""
        pending = NOT_YET in self.answers.absences.values()
        return {question.id for question in self.everything.assertions} if pending else set(names)


def fit_pool(written: WrittenPool, everything: Rubric, train: Training, settings: SelectionSettings) -> Flow[RubricFit]:
    """Have a pool judged about the good and the bad conversations, and select from it."""
    decided = Decided.of(train, settings)
    answers = yield from ask_rubric(everything, decided.samples, JUDGE, "judged")
    selector = AssertionSelector.of_rubric(everything, train.question, settings, train.seed).fit(answers, train.labels)
    return RubricFit(train, decided, written, everything, only(everything, selector.names_), selector, answers)


@dataclass(frozen=True)
class ExperimentResult:
    """The good and bad conversations of the held-out side, a judge's answers about them, and the lines of the tables.

    `chosen` is the share of resamples of the training side on which each assertion of the pool is selected.
    """

    decided: Decided
    answers: EvidenceTable
    rows: tuple[SystemFigures, ...]
    chosen: Mapping[str, float]


@dataclass(frozen=True)
class Experiment:
    """A learned rubric, the held-out side, and other rubrics by name (`given`) to compare it with there."""

    fit: RubricFit
    test: Training
    settings: SelectionSettings
    given: Mapping[str, Rubric] = field(default_factory=dict)

    def run(self) -> Flow[ExperimentResult]:
        """Every line of the tables, the learned rubric first; where a given rubric fails, its line says why."""
        fit, main, decided = self.fit, self.test.question, Decided.of(self.test, self.settings, fewest=1)
        others = (name for name in (RUBICON, *selection_policies.names()) if name != ALL)
        systems = {name: self._by_policy(name) for name in dict.fromkeys((self.settings.policy, *others))}
        named = fit.to_ask(name for selector in systems.values() for name in selector.names_)
        answers = yield from ask_rubric(only(fit.everything, named), decided.samples, JUDGE, "held-out side judged")
        selections = [self._line(SELECTIONS, name, each, answers, decided) for name, each in systems.items()]
        rows = [replace(selections[0], table=RUBRICS)]
        if main.can_be_judged:
            directly = self._summing({main.id: "sat"}).fit(fit.answers, fit.train.labels)
            rows.append(self._line(RUBRICS, ASKED, directly, answers, decided))
        for name, rubric in self.given.items():
            rows.append((yield from self._given(name, rubric, decided)))
        return ExperimentResult(decided, answers, (*rows, *selections), self._stability())

    def _by_policy(self, policy: str) -> AssertionSelector:
        """The learned rubric, or another selection from its pool."""
        fit, settings = self.fit, self.settings.model_copy(update={"policy": policy})
        if policy == self.settings.policy:
            return fit.selector
        other = AssertionSelector.of_rubric(fit.everything, fit.train.question, settings, fit.train.seed)
        return other.fit(fit.answers, fit.train.labels)

    def _summing(self, classes: Mapping[str, str]) -> AssertionSelector:
        """A selector that sums everything; without classes it learns which answers speak for a conversation."""
        train, settings = self.fit.train, self.settings.model_copy(update={"policy": ALL})
        return AssertionSelector(train.question, classes, settings=settings, seed=train.seed)

    def _given(self, name: str, rubric: Rubric, decided: Decided) -> Flow[SystemFigures]:
        """The line of a rubric as it is, all of its questions summed; where it fails, the reason."""
        main, train = self.test.question, self.fit.train
        asked = asking(rubric, (question.id for question in rubric.questions if question.id != main.id))
        settings = self.settings.model_copy(update={"policy": ALL})
        try:
            seen = yield from ask_rubric(asked, self.fit.decided.samples, JUDGE, f"{rubric.name}: judged")
            selector = self._summing({})
            if len(rubric.assertions) == len(asked.questions):
                selector = AssertionSelector.of_rubric(rubric, main, settings, train.seed)
            selector.fit(seen, train.labels)
            answers = yield from ask_rubric(asked, decided.samples, JUDGE, f"{rubric.name}: held-out side judged")
            return self._line(RUBRICS, name, selector, answers, decided)
        except BadInput as error:
            return SystemFigures(RUBRICS, name, dict.fromkeys(NAMES, Estimate()), failed=str(error))

    def _line(
        self, table: int, system: str, selector: AssertionSelector, answers: EvidenceTable, decided: Decided
    ) -> SystemFigures:
        """The figures of a selector on the held-out side."""
        missing = points(answers, selector.names_, self.settings.answers).missing
        outcome, clusters = selector.outcome(answers, decided.good), clusters_of(self.test, decided)
        found = with_intervals(outcome, clusters, self.test.draws, self.test.seed)
        return SystemFigures(table, system, found, float(missing.mean()))

    def _stability(self) -> dict[str, float]:
        """How often each assertion of the pool is selected on resamples of the training side."""
        side = self.fit.selector.training_side(self.fit.answers, self.fit.train.labels)
        draws, seed = min(RESAMPLES, self.test.draws), self.test.seed
        shares = stability(side.pool, self.fit.selector.choose, Clusters(side.groups), draws, seed)
        return dict(zip(side.names, shares.tolist(), strict=True))


def clusters_of(test: Training, decided: Decided) -> Clusters:
    """What is resampled together."""
    return Clusters([test.group_of(sample.target) for sample in decided.samples])


# --- what is told of it ---------------------------------------------------------------------------------------------


def findings(fit: RubricFit, result: ExperimentResult, test: Training) -> RubricFindings:
    """Everything that a report shows of a learned rubric and its held-out side."""
    selector, good = fit.selector, result.decided.good
    scored = selector.outcome(result.answers, good)
    systems = [sample.conversation.system or "not said" for sample in result.decided.samples]
    said = selector.window_.says(scored.scores)
    failures = fit.written.failures
    return RubricFindings(
        rows=result.rows,
        assertions=_assertions(fit, result, test, systems),
        scores=[
            ScoredConversation(float(score), bool(is_good), str(label))
            for score, is_good, label in zip(scored.scores, good, said, strict=True)
        ],
        threshold=selector.threshold_,
        precision=selector.settings.precision,
        curves=_curves(fit),
        confusion=_confusion(systems, good, said),
        cautions=cautions(fit, result),
        tested=len(good),
        again=sum(count for why, count in failures.items() if why != PROSE)
        + sum(row.unanswered or 0.0 for row in result.rows),
        **learned_part(fit),
    )


def learned_part(fit: RubricFit) -> Mapping[str, Any]:
    """The findings that need no held-out side."""
    about, pool = fit.selector.describe(), {**fit.written.to_json(), "assertions": len(fit.everything.assertions)}
    return {"window": about["window"], "pool": pool, "trained": len(fit.decided.samples), "evaluator": about}


def _curves(fit: RubricFit) -> list[CurvePoint]:
    """The training side's precision at each threshold, and the targets that it is held against."""
    good = fit.decided.good
    found = curves(fit.selector.outcome(fit.answers, good).scores, good)
    plus, minus = targets(found.theta, fit.selector.threshold_, float(good.mean()))
    rows = np.column_stack([found.theta, found.good, found.bad, plus, minus]).tolist()
    return [CurvePoint(*row) for row in rows]


def cautions(fit: RubricFit, result: ExperimentResult) -> list[str]:
    """Sentences on what the data could not support, the gravest first."""
    low, written = result.rows[0].figures["delta_netsat"].low, fit.written
    names, rarer = fit.selector.names_, min(fit.selector.classes_)
    shaky = sum(result.chosen.get(name, 1.0) < SHAKY for name in names)
    sat, dsat = (sum(question.side is side for question in fit.everything.assertions) for side in Side)
    contradicted = fit.decided.contradicted + result.decided.contradicted
    part, failed, flagged = written.counts["shown in part"], written.failures, len(written.flagged)
    said = {
        "on conversations it has not seen, the rubric does not separate good from bad beyond chance: do not use it "
        "yet; label more conversations, or try another judge or writer": low is None or low <= 0,
        f"{len(names)} assertions were chosen and the rarer class has {rarer} conversations to choose them by: ask for "
        "fewer (learned-rubric: {budgets: [[3, 3], [10, 10]]}), or label more": rarer < len(names),
        f"{shaky} of the {len(names)} chosen assertions are chosen on fewer than half of the resamples: another sample "
        "would have chosen others of the pool": shaky > len(names) / 2,
        f"the pool holds {sat} SAT and {dsat} DSAT assertions: there is hardly anything to choose from": min(sat, dsat)
        < 2,
        f"{contradicted} conversations were called good by some and bad by others; their mean decided": contradicted,
        f"{part} conversations are longer than the writer's context and were shown to it in part": part,
        f"{failed.total()} prompts of the writer failed: "
        + ", ".join(f"{reason} ({count})" for reason, count in failed.most_common()): failed,
        f"{flagged} assertions named private details of a conversation and were left out": flagged,
    }
    found = [sentence for sentence, holds in said.items() if holds]
    found += [f"{row.system} failed: {row.failed}" for row in result.rows if row.failed]
    silent = {row.system: row.unanswered for row in result.rows if row.unanswered}
    missing = "of the held-out answers for {} are missing, and count as neutral"
    return [*found, *(f"{share:.0%} {missing.format(name)}" for name, share in silent.items())]


# --- single assertions --------------------------------------------------------------------------------------------


def _assertions(
    fit: RubricFit, result: ExperimentResult, test: Training, systems: list[str]
) -> list[AssertionFindings]:
    """Each selected assertion, those that fail most first."""
    selector, good, samples = fit.selector, result.decided.good, result.decided.samples
    said = points(result.answers, selector.names_, selector.settings.answers).values / POINT
    clusters = clusters_of(test, result.decided)
    drawn = [clusters.rows(count) for count in clusters.counts(min(test.draws, MOST_DRAWS), test.seed)]
    found = []
    for name, answers in zip(selector.names_, said, strict=True):
        question = fit.rubric[name]
        assert question.side is not None
        signed = answers if question.side is Side.SAT else -answers
        gap = estimate_from_draws(_gap(signed, good), np.array([_gap(signed[rows], good[rows]) for rows in drawn]))
        fails = answers < TOP / POINT / 2 if question.side is Side.SAT else answers > TOP / POINT / 2
        found.append(
            AssertionFindings(
                name, question.text, question.side.value, question.weight, _gap(signed, good), gap.low, gap.high,
                result.chosen.get(name), len(question.reasons), float(fails.mean()), _by_system(systems, fails),
                _examples(question, samples, signed),
            )
        )  # fmt: skip
    return sorted(found, key=lambda one: -one.fails)


def _gap(values: Floats, good: Flags) -> float:
    """Difference of the classes' means; NaN where one class is missing."""
    return float(values[good].mean() - values[~good].mean()) if good.any() and not good.all() else float("nan")


def _by_system(systems: list[str], fails: Flags) -> list[SystemShare]:
    names = np.array(systems)
    each = [(name, names == name) for name in sorted(set(systems))]
    shares = [SystemShare(name, float(fails[rows].mean()), int(rows.sum())) for name, rows in each]
    return sorted(shares, key=lambda one: -one.fails)


def _examples(question: Question, samples: Sequence[Sample], values: Floats) -> list[RubricExample]:
    """Held-out conversations that an assertion speaks for most, and against most, with the passages."""
    order = np.argsort(-values, kind="stable")
    kinds = [("for", row) for row in order[:SHOWN]] + [("against", row) for row in order[::-1][:SHOWN]]
    chats = [(kind, row, samples[row].conversation) for kind, row in kinds]
    return [RubricExample(kind, c.id, float(values[row]), passage(c, question)) for kind, row, c in chats]


def passage(conversation: Conversation, question: Question) -> str | None:
    """The passage of a conversation that bears on an assertion; `None` where no turn shares a word with it."""
    quote = next((r.quote for r in question.reasons if r.conversation == conversation.id and r.quote), None)
    if quote is not None:
        return quote
    stems = counted_stems(pieces(question.text)).keys() - ROLES
    shared = [len(stems & counted_stems(pieces(turn.content)).keys()) for turn in conversation.turns]
    if not max(shared, default=0):
        return None
    turn = conversation.turns[shared.index(max(shared))]
    text = " ".join(turn.content.split())
    return f"{turn.role}: {text[:LONGEST]}{' …' if len(text) > LONGEST else ''}"


def _confusion(systems: list[str], good: Flags, said: Any) -> list[Confusion]:
    """Counts for all conversations, and for each system where there are several."""
    names = np.array(systems)
    rows = []
    for name in ["all", *sorted(set(systems))] if len(set(systems)) > 1 else ["all"]:
        of = np.ones(len(names), dtype=bool) if name == "all" else names == name
        counts = {
            f"{was}_{label}": int((of & (good == (was == "good")) & (said == label)).sum())
            for was in ("good", "bad")
            for label in ("good", "uncertain", "bad")
        }
        rows.append(Confusion(name, **counts))
    return rows

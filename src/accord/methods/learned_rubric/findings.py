"""What a report shows of a learned rubric, as values with their JSON, and what the data could not support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from accord.evidence import Training, counted_stems, pieces
from accord.methods.learned_rubric.answers import points
from accord.methods.learned_rubric.experiment import ExperimentResult, RubricFit, SystemFigures, clusters_of
from accord.methods.learned_rubric.separation import POINT, TOP, Flags, Floats, curves, targets
from accord.models import PROSE
from accord.statistics import interval
from accord.values import Conversation, Question, Sample, Side

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

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> AssertionFindings:
        """The inverse of `to_json`."""
        systems = [SystemShare(**each) for each in found["by_system"]]
        examples = [RubricExample(**each) for each in found["examples"]]
        about = {**found, "side": found["class"], "by_system": systems, "examples": examples}
        return cls(**{name: value for name, value in about.items() if name != "class"})


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


@dataclass(frozen=True)
class RubricFindings:
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
        lists = {name: list(map(asdict, getattr(self, name))) for name in _PLAIN}
        rest = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**rest, **lists, "rows": [row.to_json() for row in self.rows],
                "assertions": [one.to_json() for one in self.assertions]}  # fmt: skip

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> RubricFindings:
        """The inverse of `to_json`."""
        lists = {name: [kind(**each) for each in found[name]] for name, kind in _PLAIN.items()}
        rows = list(map(SystemFigures.of_json, found["rows"]))
        return cls(
            **{**found, **lists, "rows": rows, "assertions": list(map(AssertionFindings.of_json, found["assertions"]))}
        )


_PLAIN: Mapping[str, type[Any]] = {"scores": ScoredConversation, "curves": CurvePoint, "confusion": Confusion}
"""Lists of values whose JSON has their own keys."""


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
        spread = interval(np.array([_gap(signed[rows], good[rows]) for rows in drawn]))
        fails = answers < TOP / POINT / 2 if question.side is Side.SAT else answers > TOP / POINT / 2
        found.append(
            AssertionFindings(
                name, question.text, question.side.value, question.weight, _gap(signed, good), spread.low, spread.high,
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

"""Auditing a judge: how much its answers change under edits that should not matter (option order, padding, repetition).

Each probe asks the same questions about the same conversations in another way: again, with the options listed
backwards, with the questions in another order, with padded replies, with a transcript that dictates its verdict. A move
is the difference of the expected answers over the length of the scale, from -1 to 1; moves of the probe `repeat` are
the noise that the others have to be read against.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from accord.edges import BadInput, BudgetReached
from accord.models import (
    OUT_OF_BUDGET,
    Answer,
    Judge,
    Unanswered,
    as_finished,
    attacks,
    fit_to_context,
    in_requests,
    insert_attack,
    room_for,
)
from accord.statistics import DRAWS, Clusters, estimate_from_draws
from accord.values import (
    Estimate,
    Question,
    Rubric,
    Sample,
    ScaleKind,
)

AT_ONCE = 8
MOVABLE = frozenset({ScaleKind.ORDINAL, ScaleKind.BINARY})
"""Scales along which an answer can move."""
PADDING = (
    "I hope this answers your question in full. If there is anything else at all, please do not hesitate to ask: "
    "I am always happy to help, and thank you for your patience."
)
Asked = tuple[Sample, Sequence[Question]]


@dataclass(frozen=True, slots=True)
class Probe:
    """One way of asking the same thing again; `vary` gives nothing where the probe does not apply."""

    name: str
    says: str
    vary: Callable[[Sample, Sequence[Question]], Asked | None]


@dataclass(frozen=True, slots=True)
class Finding:
    """How far answers moved under a probe, on `n` answers; shares of the scale, with 95 % intervals.

    Attributes:
        probe: Its name.
        says: What was changed.
        n: Answers that could be compared.
        move: Mean of the moves' sizes, from 0 to 1.
        lift: Mean of the moves, from -1 to 1: positive if answers rose.
        unanswered: Why answers are missing, counted.
    """

    probe: str
    says: str
    n: int
    move: Estimate
    lift: Estimate
    unanswered: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """A flat row."""
        about = {"probe": self.probe, "says": self.says, "n": self.n, "unanswered": dict(self.unanswered)}
        moves = {"move": self.move.value, "move_low": self.move.low, "move_high": self.move.high}
        lifts = {"lift": self.lift.value, "lift_low": self.lift.low, "lift_high": self.lift.high}
        return {**about, **moves, **lifts}


@dataclass
class _Moves:
    """What one probe came to: the conversation and the move of each answer."""

    conversations: list[str] = field(default_factory=list)
    moves: list[float] = field(default_factory=list)
    unanswered: Counter[str] = field(default_factory=Counter)


def ways_to_ask(judge: Judge, rubric: Rubric) -> list[Probe]:
    """The probes that apply to a judge: repeats, order of options, order of questions, verbosity."""
    probes = [
        Probe("repeat", "asked once more", lambda sample, questions: (sample, questions)),
        Probe("options reversed", "options listed backwards", _options_reversed),
        Probe("verbosity", "a friendly sentence without content after each reply", _padded),
    ]
    if judge.together > 1 and len(rubric.judged) > 1:
        reverse = Probe("questions reversed", "questions in the opposite order", lambda s, q: (s, list(reversed(q))))
        probes.insert(2, reverse)
    return probes


def injections(question: Question) -> list[Probe]:
    """A probe for each hostile transcript, on one question: each demands the highest answer.

    Probes of one name are counted together; on a question whose answers have no order there are none.
    """
    if question.scale.kind not in MOVABLE:
        return []
    says = "the last reply dictates the verdict"

    def probe(name: str, text: str) -> Probe:
        return Probe(
            f"injection: {name}", says, lambda s, q: (insert_attack(s, text), [question]) if question in q else None
        )

    return [probe(kind, text) for kind, text in attacks(str(question.scale.options[-1]))]


async def audit(
    judge: Judge,
    rubric: Rubric,
    samples: Sequence[Sample],
    probes: Sequence[Probe],
    seed: int = 0,
    context: int | None = None,
) -> list[Finding]:
    """Ask a judge about each subject plainly and under each probe; a finding a probe's name, in their order.

    Answers are neither read from a store nor kept in one. Where a request may have no more than `context` tokens,
    longer conversations are asked about in part.

    Raises:
        BadInput: There is nothing to ask about, or the judge is a recording.
        ModelError: No call can succeed.
        BudgetReached: The next call would pass the budget.
    """
    if judge.mode == "recorded":
        raise BadInput("a recorded judge cannot be asked anew; audit the model it was recorded from")
    if not samples:
        raise BadInput("no conversation to audit the judge on; import some: accord import chats.jsonl")
    found = {probe.name: _Moves() for probe in probes}
    over: list[str] = []

    room = None if context is None else room_for(judge, rubric.judged, context) - len(PADDING)

    async def one(whole: Sample) -> None:
        sample = whole if room is None else fit_to_context(whole, room)
        questions = _askable(rubric, sample)
        plain = await _answers(judge, sample, questions, over)
        for probe in probes:
            varied = None if over else probe.vary(sample, questions)
            if varied is not None:
                _count(found[probe.name], sample, varied[1], plain, await _answers(judge, *varied, over))

    async with aclosing(as_finished(one, samples, AT_ONCE)) as finished:
        async for _ in finished:
            pass
    if over:
        raise BudgetReached(over[0])
    by_name = {probe.name: probe for probe in probes}
    return [_finding(probe, found[name], seed) for name, probe in by_name.items()]


def audit_requests(judge: Judge, rubric: Rubric, samples: Sequence[Sample], probes: Sequence[Probe]) -> list[Any]:
    """Everything that `audit` would send with the same arguments."""
    asked: list[Asked] = []
    for sample in samples:
        questions = _askable(rubric, sample)
        varied = (probe.vary(sample, questions) for probe in probes)
        asked += [(sample, questions), *(each for each in varied if each is not None)]
    return [
        request
        for sample, questions in asked
        for group in in_requests(judge, questions)
        for request in judge.requests(sample, group)
    ]


def _askable(rubric: Rubric, sample: Sample) -> list[Question]:
    """The questions whose answers can move along a scale."""
    applicable = (question for question in rubric.judged if question.applies_to(sample.conversation))
    return [question for question in applicable if question.scale.kind in MOVABLE]


async def _answers(
    judge: Judge, sample: Sample, questions: Sequence[Question], over: list[str]
) -> dict[str, Answer | Unanswered]:
    found = [answer for group in in_requests(judge, questions) for answer in await judge.answer(sample, group)]
    over.extend(a.detail for a in found if isinstance(a, Unanswered) and a.reason == OUT_OF_BUDGET)
    return {answer.question: answer for answer in found}


def _count(
    moves: _Moves,
    sample: Sample,
    questions: Sequence[Question],
    plain: Mapping[str, Answer | Unanswered],
    varied: Mapping[str, Answer | Unanswered],
) -> None:
    for question in questions:
        before, after = plain.get(question.id), varied.get(question.id)
        if isinstance(before, Answer) and isinstance(after, Answer):
            moves.conversations.append(sample.conversation.id)
            moves.moves.append(_place(after, question) - _place(before, question))
        else:
            lost = before if not isinstance(before, Answer) else after
            moves.unanswered[lost.reason if isinstance(lost, Unanswered) else "not asked"] += 1


def _place(answer: Answer, question: Question) -> float:
    """The expected answer as a share of the scale's length, from 0 to 1."""
    options = sorted(float(option) for option in question.scale.options)
    mass = {float(option): p for option, p in answer.probabilities.items()}
    expected = sum(option * p for option, p in mass.items()) / sum(mass.values())
    return (expected - options[0]) / (options[-1] - options[0])


def _finding(probe: Probe, found: _Moves, seed: int) -> Finding:
    moves = np.array(found.moves)
    if not len(moves):
        return Finding(probe.name, probe.says, 0, Estimate(), Estimate(), found.unanswered)
    clusters = Clusters(found.conversations)
    counts = clusters.counts(DRAWS, seed)
    sums = counts @ clusters.sums(np.column_stack([np.abs(moves), moves])) / (counts @ clusters.sizes)[:, None]
    means = float(np.abs(moves).mean()), float(moves.mean())
    move, lift = (
        estimate_from_draws(mean, sums[:, place]) if len(clusters) > 1 else Estimate(mean)
        for place, mean in enumerate(means)
    )
    return Finding(probe.name, probe.says, len(moves), move, lift, found.unanswered)


def _options_reversed(sample: Sample, questions: Sequence[Question]) -> Asked | None:
    """The same questions with their options listed from last to first; a yes-or-no question has no list."""
    listed = [q for q in questions if tuple(q.scale.options) != (0, 1)]
    scales = (q.scale.model_copy(update={"options": tuple(reversed(q.scale.options))}) for q in listed)
    turned = [q.model_copy(update={"scale": scale}) for q, scale in zip(listed, scales, strict=True)]
    return (sample, turned) if turned else None


def _padded(sample: Sample, questions: Sequence[Question]) -> Asked | None:
    """The same conversation, each reply with a sentence more that says nothing."""
    turns = tuple(
        replace(turn, content=f"{turn.content} {PADDING}") if turn.role == "assistant" else turn
        for turn in sample.conversation.turns
    )
    return None if turns == sample.conversation.turns else (sample.saying(turns), questions)

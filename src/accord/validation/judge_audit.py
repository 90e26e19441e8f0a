"""Audit of a judge: changes of its answers under irrelevant edits (option order, padding, repetition).

Each probe repeats the questions about the same conversations with one change: none, reversed options, reversed
questions, padded replies, or a transcript that dictates the verdict. A move is the difference of the expected answers
divided by the length of the scale, from -1 to 1. Moves of the probe `repeat` are the noise level of the others.
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

CONCURRENCY = 8
MOVABLE = frozenset({ScaleKind.ORDINAL, ScaleKind.BINARY})
"""Scales with ordered answers."""
PADDING = (
    "I hope this answers your question in full. If there is anything else at all, please do not hesitate to ask: "
    "I am always happy to help, and thank you for your patience."
)
Variant = tuple[Sample, Sequence[Question]]


@dataclass(frozen=True, slots=True)
class Probe:
    """A change of the sample or the questions; `vary` returns `None` if the probe does not apply."""

    name: str
    says: str
    vary: Callable[[Sample, Sequence[Question]], Variant | None]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Moves of the answers under a probe, as shares of the scale with 95% intervals.

    Attributes:
        probe: Name of the probe.
        says: Description of the change.
        n: Number of compared answers.
        move: Mean absolute move, from 0 to 1.
        lift: Mean move, from -1 to 1; positive if answers rise.
        unanswered: Number of missing answers by reason.
    """

    probe: str
    says: str
    n: int
    move: Estimate
    lift: Estimate
    unanswered: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """Return a flat row of JSON values."""
        fields = {"probe": self.probe, "says": self.says, "n": self.n, "unanswered": dict(self.unanswered)}
        moves = {"move": self.move.value, "move_low": self.move.low, "move_high": self.move.high}
        lifts = {"lift": self.lift.value, "lift_low": self.lift.low, "lift_high": self.lift.high}
        return {**fields, **moves, **lifts}


@dataclass
class _Moves:
    """Conversation and move of each answer under one probe."""

    conversations: list[str] = field(default_factory=list)
    moves: list[float] = field(default_factory=list)
    unanswered: Counter[str] = field(default_factory=Counter)


def robustness_probes(judge: Judge, rubric: Rubric) -> list[Probe]:
    """Return the probes for a judge: repetition, option order, question order, verbosity."""
    probes = [
        Probe("repeat", "asked again", lambda sample, questions: (sample, questions)),
        Probe("options reversed", "options listed backwards", _options_reversed),
        Probe("verbosity", "a friendly sentence without content after each reply", _padded),
    ]
    if judge.together > 1 and len(rubric.judged) > 1:
        reverse = Probe("questions reversed", "questions in the opposite order", lambda s, q: (s, list(reversed(q))))
        probes.insert(2, reverse)
    return probes


def injections(question: Question) -> list[Probe]:
    """Return probes with hostile transcripts that demand the highest answer to a question.

    Probes of one name are counted together. A nominal question has no probes.
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
) -> list[ProbeResult]:
    """Ask a judge about each sample unchanged and under each probe, and return a result per probe name.

    Answers are neither read from a store nor stored. With a limit of `context` tokens per request, long conversations
    are shortened.

    Raises:
        BadInput: `samples` is empty, or the judge is a recording.
        ModelError: No request can succeed.
        BudgetReached: The next request would exceed the budget.
    """
    if judge.mode == "recorded":
        raise BadInput("a recorded judge cannot be asked again; audit the model it was recorded from")
    if not samples:
        raise BadInput("no conversation to audit the judge on; import some: accord import chats.jsonl")
    moves = {probe.name: _Moves() for probe in probes}
    over: list[str] = []

    room = None if context is None else room_for(judge, rubric.judged, context) - len(PADDING)

    async def ask(whole: Sample) -> None:
        sample = whole if room is None else fit_to_context(whole, room)
        questions = _askable(rubric, sample)
        plain = await _answers(judge, sample, questions, over)
        for probe in probes:
            varied = None if over else probe.vary(sample, questions)
            if varied is not None:
                _count(moves[probe.name], sample, varied[1], plain, await _answers(judge, *varied, over))

    async with aclosing(as_finished(ask, samples, CONCURRENCY)) as finished:
        async for _ in finished:
            pass
    if over:
        raise BudgetReached(over[0])
    by_name = {probe.name: probe for probe in probes}
    return [_result(probe, moves[name], seed) for name, probe in by_name.items()]


def audit_requests(judge: Judge, rubric: Rubric, samples: Sequence[Sample], probes: Sequence[Probe]) -> list[Any]:
    """Return all requests that `audit` would send with the same arguments."""
    variants: list[Variant] = []
    for sample in samples:
        questions = _askable(rubric, sample)
        varied = (probe.vary(sample, questions) for probe in probes)
        variants += [(sample, questions), *(variant for variant in varied if variant is not None)]
    return [
        request
        for sample, questions in variants
        for group in in_requests(judge, questions)
        for request in judge.requests(sample, group)
    ]


def _askable(rubric: Rubric, sample: Sample) -> list[Question]:
    """Return the applicable questions with ordered answers."""
    applicable = (question for question in rubric.judged if question.applies_to(sample.conversation, sample.turn))
    return [question for question in applicable if question.scale.kind in MOVABLE]


async def _answers(
    judge: Judge, sample: Sample, questions: Sequence[Question], over: list[str]
) -> dict[str, Answer | Unanswered]:
    answers = [answer for group in in_requests(judge, questions) for answer in await judge.answer(sample, group)]
    over.extend(a.detail for a in answers if isinstance(a, Unanswered) and a.reason == OUT_OF_BUDGET)
    return {answer.question: answer for answer in answers}


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
    """Return the expected answer as a share of the scale's length, from 0 to 1."""
    options = sorted(float(option) for option in question.scale.options)
    mass = {float(option): p for option, p in answer.probabilities.items()}
    expected = sum(option * p for option, p in mass.items()) / sum(mass.values())
    return (expected - options[0]) / (options[-1] - options[0])


def _result(probe: Probe, observed: _Moves, seed: int) -> ProbeResult:
    moves = np.array(observed.moves)
    if not len(moves):
        return ProbeResult(probe.name, probe.says, 0, Estimate(), Estimate(), observed.unanswered)
    clusters = Clusters(observed.conversations)
    counts = clusters.counts(DRAWS, seed)
    sums = counts @ clusters.sums(np.column_stack([np.abs(moves), moves])) / (counts @ clusters.sizes)[:, None]
    means = float(np.abs(moves).mean()), float(moves.mean())
    move, lift = (
        estimate_from_draws(mean, sums[:, place]) if len(clusters) > 1 else Estimate(mean)
        for place, mean in enumerate(means)
    )
    return ProbeResult(probe.name, probe.says, len(moves), move, lift, observed.unanswered)


def _options_reversed(sample: Sample, questions: Sequence[Question]) -> Variant | None:
    """Return the questions with reversed options; binary questions list no options."""
    listed = [q for q in questions if tuple(q.scale.options) != (0, 1)]
    scales = (q.scale.model_copy(update={"options": tuple(reversed(q.scale.options))}) for q in listed)
    reversed_questions = [q.model_copy(update={"scale": scale}) for q, scale in zip(listed, scales, strict=True)]
    return (sample, reversed_questions) if reversed_questions else None


def _padded(sample: Sample, questions: Sequence[Question]) -> Variant | None:
    """Return the conversation with an empty phrase after each reply."""
    turns = tuple(
        replace(turn, content=f"{turn.content} {PADDING}") if turn.role == "assistant" else turn
        for turn in sample.conversation.turns
    )
    return None if turns == sample.conversation.turns else (sample.saying(turns), questions)

"""Live scoring in this process: every reply is scored as it is said, at the cost of its own length.

scorer = LiveScorer(load_evaluator("evaluators/mixture"))
scorer.message("chat-17", "user", "Can I return an opened router?", documents=[policy])
score = scorer.message("chat-17", "assistant", "Yes, within 45 days of delivery.")
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from threading import Lock
from typing import cast

import numpy as np

from accord.evidence import (
    NOTHING,
    Column,
    EvidenceTable,
    MetricSession,
    TurnMetric,
    parsed_document,
    signature_of,
    turn_metrics,
)
from accord.learning import Evaluator
from accord.live.messages import Message, Role
from accord.values import POPULATION, BadInput, Score, Target, Unscored, sendable

CONVERSATIONS, SECONDS = 10_000, 3600.0
"""The most conversations that are remembered, and for how long after their last message."""
TEXT = 20_000_000
"""The most characters that remembered conversations have in all; the oldest ones make room."""
REMEMBERED_IDS = 20_000
"""Messages whose ids are remembered, so that one sent twice is scored once."""


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What came of a message.

    Attributes:
        score: Of a reply; `None` for what somebody else says.
        evidence: Of a reply that was measured.
        again: Whether the message had come before; then nothing was changed.
        late: Why somebody else's message was not taken in.
    """

    score: Score | Unscored | None = None
    evidence: Mapping[str, float | None] | None = None
    again: bool = False
    late: str | None = None


class _Open:
    """A conversation under way."""

    __slots__ = ("__weakref__", "documents", "length", "number", "session", "turn", "used")

    def __init__(self, session: MetricSession, number: int) -> None:
        self.session, self.number = session, number
        self.documents = 0
        self.used = 0.0
        self.turn = 0
        self.length = 0


class LiveScorer:
    """Scores replies as they come, conversations side by side; may be called from several threads."""

    def __init__(
        self,
        evaluator: Evaluator,
        annotator: str | None = None,
        conversations: int = CONVERSATIONS,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to score with a fitted evaluator, for one annotator or for anybody.

        Raises:
            BadInput: The evaluator learned from evidence that cannot be measured message by message.
            NotFitted: It has learned nothing yet.
            UnknownName: It does not know the annotator.
        """
        self.evaluator = evaluator
        if conversations < 1 or seconds <= 0:
            raise BadInput(f"remember at least one conversation for some time, got {conversations} for {seconds} s")
        self.metrics = live_metrics(evaluator)
        self.speaker, self.signature = evaluator.head.speaker(annotator), evaluator.signature()
        self.columns = tuple(Column(name, str(signature_of(name))) for name in self.metrics)
        self.conversations, self.seconds = conversations, seconds
        self._clock, self._lock = clock, Lock()
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._length = 0  # of all texts of these
        self._said: OrderedDict[tuple[int, str], _Pending | IngestResult] = OrderedDict()  # by conversation and id
        self._numbers = count()

    def __len__(self) -> int:
        """How many conversations are remembered."""
        return len(self._open)

    def message(
        self,
        conversation: str,
        role: str,
        content: str,
        documents: Sequence[str] | None = None,
        id: str | None = None,
        turn: int | None = None,
    ) -> Score | Unscored | None:
        """Take a message in; the score of a reply, `None` for what somebody else says. See `Message`.

        Raises:
            BadInput: There is no such role, or the turn is negative.
        """
        given = None if documents is None else tuple(documents)
        return self.take([Message(conversation, cast(Role, role), content, given, id, turn)])[0].score

    def take(self, batch: Sequence[Message]) -> list[IngestResult]:
        """Take some messages in, in their order; all replies among them are scored together."""
        with self._lock:
            replies: list[_Reply] = []
            found = [self._one(said, replies) for said in batch]
            try:
                scored = self._scored(replies)
            except BaseException:
                for reply in replies:
                    self._said.pop((reply.of.number, reply.id or ""), None)  # it may be sent again
                raise
            for reply, taken in zip(replies, scored, strict=True):
                self._note(reply.of, reply.id, taken)
            while len(self._said) > REMEMBERED_IDS:
                self._said.popitem(last=False)
        return [each if isinstance(each, IngestResult) else each.among(scored) for each in found]

    def _one(self, said: Message, replies: list[_Reply]) -> _Pending | IngestResult:
        """What comes of one message: the place of a reply among those to be scored, or all there is to say."""
        known = self._of(said.conversation)
        before = self._said.get((known.number, said.id or ""))
        if before is not None:
            return replace(before, again=True)
        session, turn = known.session, known.turn if said.turn is None else said.turn
        target = Target(said.conversation, turn)
        if turn < known.turn:
            return self._passed(said, target, known.turn)
        self._weigh(known, said)
        if said.documents is not None:
            session.sources = [parsed_document(sendable(document)) for document in said.documents]
        missed = range(known.turn, turn)
        known.turn = turn + 1
        if said.role != "assistant":
            if said.role == "user":
                session.hear(sendable(said.content))
            self._note(known, said.id, IngestResult())
            return IngestResult()
        replies.append(_Reply(known, said.id, target, session.reply(sendable(said.content)), missed))
        pending = _Pending(len(replies) - 1)
        self._note(known, said.id, pending)
        return pending

    def _note(self, known: _Open, id: str | None, what: _Pending | IngestResult) -> None:
        """Remember what came of a message with an id, without its evidence."""
        if id is not None:
            self._said[known.number, id] = replace(what, evidence=None) if isinstance(what, IngestResult) else what

    def _weigh(self, known: _Open, said: Message) -> None:
        """Count a message's texts, and let go of the oldest conversations while all are too long together."""
        new = len(said.content)
        if said.documents is not None:
            held, known.documents = known.documents, sum(map(len, said.documents))
            new += known.documents - held
        known.length, self._length = known.length + new, self._length + new
        while self._length > TEXT and len(self._open) > 1:
            self._let_go(next(iter(self._open)))

    def _let_go(self, conversation: str) -> None:
        gone = self._open.pop(conversation, None)
        self._length -= 0 if gone is None else gone.length

    def forget(self, conversation: str) -> None:
        """Let go of a conversation that has ended."""
        with self._lock:
            self._let_go(conversation)

    def _of(self, conversation: str) -> _Open:
        """The conversation's state, made if need be; the oldest ones make room."""
        now = self._clock()
        found = self._open.get(conversation)
        if found is None or now - found.used > self.seconds:
            self._let_go(conversation)
            found = self._open[conversation] = _Open(MetricSession(self.metrics), next(self._numbers))
        found.used = now
        self._open.move_to_end(conversation)
        while len(self._open) > self.conversations or now - next(iter(self._open.values())).used > self.seconds:
            self._let_go(next(iter(self._open)))
        return found

    def _passed(self, said: Message, target: Target, next_turn: int) -> IngestResult:
        reason = f"turn {target.turn} came after turn {next_turn - 1} had been taken in"
        if said.role != "assistant":
            return IngestResult(late=reason)
        return IngestResult(Unscored(target, self.speaker or POPULATION, reason, self.signature))

    def _scored(self, replies: Sequence[_Reply]) -> list[IngestResult]:
        if not replies:
            return []
        values = np.array([list(reply.evidence.values()) for reply in replies], dtype=float)  # None becomes NaN
        present = ~np.isnan(values)
        absences = {(r.target, name): NOTHING for r in replies for name, value in r.evidence.items() if value is None}
        targets = tuple(reply.target for reply in replies)
        table = EvidenceTable(targets, self.columns, np.where(present, values, 0.0), present, absences)
        scores = self.evaluator.score(table, [self.speaker] * len(table))
        return [IngestResult(_with_gap(s, r.missed), r.evidence) for s, r in zip(scores, replies, strict=True)]


@dataclass(frozen=True, slots=True)
class _Pending:
    """The place of a reply among those of a batch, before they are scored."""

    place: int
    again: bool = False

    def among(self, scored: Sequence[IngestResult]) -> IngestResult:
        """What came of it."""
        return replace(scored[self.place], again=True) if self.again else scored[self.place]


@dataclass(frozen=True, slots=True)
class _Reply:
    """A reply that was measured and is to be scored."""

    of: _Open
    id: str | None
    target: Target
    evidence: Mapping[str, float | None]
    missed: range


def _with_gap(score: Score | Unscored, missed: range) -> Score | Unscored:
    """The score, with a warning where turns before it were never heard."""
    if not missed or isinstance(score, Unscored):
        return score
    gap = f"turns before it were not heard: {missed[0]} to {missed[-1]}"
    return replace(score, warning="; ".join(part for part in (score.warning, gap) if part))


def live_metrics(evaluator: Evaluator) -> dict[str, TurnMetric]:
    """The metrics of replies that an evaluator learned from, where it can score live.

    Raises:
        BadInput: It learned from more than metrics of replies, or from metrics that are made otherwise by now.
        NotFitted: It has learned nothing yet.
    """
    evaluator.head.check_fitted()
    other = next((source.name for source in evaluator.sources if not source.is_live), None)
    columns = evaluator.head.columns
    if other is not None or not evaluator.is_live or not columns:
        learned = f"learned from {other!r}" if other else "needs more than one reply at a time"
        raise BadInput(
            f"the evaluator {evaluator.name!r} cannot score live: it {learned}; fit one whose sources measure replies "
            "at once, such as metrics: [bank]"
        )
    for column in columns:
        if column.signature != str(signature_of(column.name)):
            raise BadInput(f"{column.name!r} was learned as {column.signature}, it is now {signature_of(column.name)}")
    return {column.name: turn_metrics.get(column.name) for column in columns}

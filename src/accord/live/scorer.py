"""Live scoring in this process: each reply is scored when it arrives, at a cost that depends on its own length alone.

A live conversation is a `Conversation` with growing turns, and each reply is a `Sample`. The evaluator's sources
measure that sample as in a batch; `Source.session` keeps the cost constant.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from math import inf
from threading import RLock
from typing import TYPE_CHECKING, cast
from zlib import crc32

from accord.edges import BadInput, BudgetReached, ModelError, sendable
from accord.evidence import CHARACTERS, Column, EvidenceTable, first_words
from accord.learning import Evaluator
from accord.live.memory_limit import CONVERSATION, RESULT, MemoryBudget, SharedDocuments, turn_bytes
from accord.live.messages import CONVERSATIONS, Message, Role
from accord.models import Models, memory_models, run
from accord.project import LiveConfig
from accord.scoring import Perspective, ScoreOptions, Scorer, with_versions
from accord.values import POPULATION, Conversation, Document, GrowingTurns, Sample, Score, Target, Turn, Unscored

if TYPE_CHECKING:
    from accord.values import Signature

SECONDS = 3600.0
"""Seconds that a conversation is remembered after its last message."""


def check_live(evaluator: Evaluator, asks: bool = False) -> None:
    """Check that an evaluator can score single replies, that is, all its sources are live (`Source.is_live`).

    Args:
        evaluator: A fitted evaluator with any head.
        asks: True to allow sources that are not live, at the cost of their requests for every reply.

    Raises:
        BadInput: A source is not live, or the evaluator scores steps.
        NotFitted: The evaluator is not fitted.
    """
    evaluator.head.check_fitted()
    if evaluator.level == "step":
        raise BadInput(
            f"the evaluator {evaluator.name!r} scores calls of tools, which needs later replies: use accord score"
        )
    slow = [source for source in evaluator.all_sources if not source.is_live]
    if slow and not asks:
        asked = " and the ".join(slow[0].roles)
        work = f"asks the {asked} about" if asked else "asks an endpoint, or reads the whole conversation again, for"
        raise BadInput(
            f"the evaluator {evaluator.name!r} cannot score live: its source {slow[0].name!r} {work} every reply. "
            "Allow that with --ask (models=... in Python), or fit one on evidence without models: metrics: [lexical]"
        )


def _values(table: EvidenceTable) -> list[list[float | None]]:
    """Return the rows of a table, with `None` for missing values."""
    rows = zip(table.values.tolist(), table.present.tolist(), strict=True)
    return [
        [value if is_present else None for value, is_present in zip(values, present, strict=True)]
        for values, present in rows
    ]


@dataclass(frozen=True, slots=True)
class IngestResult:
    """Result of taking a message in.

    Attributes:
        score: Score of a reply, or `None` for other messages.
        evidence: Evidence of a measured reply by column; missing values are `None`.
        again: True if the message came before; it changed nothing.
        warning: Reason why a message that is not a reply was truncated or not taken in.
    """

    score: Score | Unscored | None = None
    evidence: Mapping[str, float | None] | None = None
    again: bool = False
    warning: str | None = None


class _LiveConversation:
    """A conversation under way with its turns, documents and memory."""

    __slots__ = (
        "__weakref__", "documents", "first", "given", "is_gone", "made", "results", "shortened", "shown", "size",
        "system", "turn", "turns", "used",
    )  # fmt: skip

    def __init__(self) -> None:
        self.turns = GrowingTurns()
        self.documents: tuple[Document, ...] = ()
        self.given = hash(())  # texts of the documents before truncation
        self.system: str | None = None
        self.shown = 0  # characters of the documents
        self.shortened: str | None = None  # note on truncated documents
        self.turn = 0  # number of the next turn; missed turns count
        self.first = 0  # number of the first turn in memory
        self.results: dict[str, _ResultOrFuture] = {}  # results by message id
        self.size = 0  # bytes without documents
        self.made = 0  # bytes of the sources' sessions among these
        self.used, self.is_gone = 0.0, False


class LiveScorer:
    """Scores replies of many conversations as they arrive; thread-safe.

    >>> from accord.testing import sample_project
    >>> live = LiveScorer(sample_project().fit("constant").evaluator)
    >>> live.message("chat-17", "user", "Can I return an opened router?")
    >>> live.message("chat-17", "assistant", "Yes, within 45 days of delivery.").options
    (1.0, 2.0, 3.0, 4.0)
    """

    def __init__(
        self,
        evaluator: Evaluator,
        annotator: str | None = None,
        conversations: int = CONVERSATIONS,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
        models: Models | None = None,
        limits: LiveConfig | None = None,
    ) -> None:
        """Prepare to score with a fitted evaluator.

        Args:
            evaluator: A fitted evaluator; its sources are live unless `models` are given.
            annotator: Annotator whose answers are predicted; None predicts a new annotator.
            conversations: Maximum number of remembered conversations.
            seconds: Seconds that a conversation is remembered after its last message.
            clock: Monotonic clock in seconds.
            models: Models for sources that are not live, which send requests for every reply, and for the plausibility
                check of a share of the replies (`limits`). None sends no requests.
            limits: Limits on words per message and on memory.

        Raises:
            BadInput: A source is not live, its evidence differs from the training data, or a model is missing.
            NotFitted: The evaluator is not fitted.
            UnknownName: The evaluator has not learned an annotator of this name.
        """
        if conversations < 1 or seconds <= 0:
            raise BadInput(
                f"live scoring needs room for a conversation and a time above 0 s, got {conversations} and {seconds} s"
            )
        check_live(evaluator, asks=models is not None)
        self.limits, self.conversations, self.seconds = limits or LiveConfig(), conversations, seconds
        self._annotator, self._given, self._models = annotator, models, models or memory_models()
        self._took_over: Signature | None = None
        self._use(evaluator)
        self._clock, self._lock = clock, RLock()
        self.memory = MemoryBudget(int(self.limits.memory_mb * 1e6))
        self._documents = SharedDocuments(self.limits.max_document_words, self.memory)
        self._open: OrderedDict[str, _LiveConversation] = OrderedDict()

    def _use(self, evaluator: Evaluator) -> None:
        """Switch to an evaluator."""
        is_checked = self._given is not None and self.limits.plausibility_share > 0
        self.evaluator = evaluator.without_plausibility()
        self._is_check_left_out = evaluator.plausibility is not None and not is_checked
        options = ScoreOptions(agree=self.limits.agree, good=self.limits.good)
        self.scorer = Scorer(evaluator if is_checked else self.evaluator, Perspective(self._annotator), options)
        self.speaker, self.signature = self.scorer.speaker, self.evaluator.signature()
        is_live = all(source.is_live for source in evaluator.all_sources)
        self.asks = not is_live or (is_checked and evaluator.plausibility is not None)
        for role in self.scorer.evaluator.roles:
            self._models.role(role)  # a missing model is reported now; it is opened at the first request
        self.columns = self._columns()

    @property
    def plausibility_text(self) -> str:
        """A sentence on the plausibility check, or on its absence."""
        scored, text = self.scorer.evaluator, self.scorer.evaluator.plausibility_text
        if scored.plausibility is None:
            return "the plausibility check is off: start with --ask" if self._is_check_left_out else text
        return f"{text} on {self.limits.plausibility_share:.0%} of replies"

    @property
    def level_notes(self) -> list[str]:
        """A sentence for an evaluator of whole conversations, whose scores of single replies mean something else."""
        note = (
            f"{self.evaluator.name!r} learned from whole conversations: each reply is scored as the end of its own, so "
            "only the last is comparable with accord score. Label single replies and fit again to score them"
        )
        return [note] if self.evaluator.level == "conversation" else []

    def prepared(self, evaluator: Evaluator) -> LiveScorer:
        """Return a scorer for another evaluator with the settings of this one.

        Raises:
            BadInput, NotFitted, UnknownName: As in the constructor.
        """
        return LiveScorer(evaluator, self._annotator, models=self._given, limits=self.limits)

    def take_over(self, prepared: LiveScorer) -> None:
        """Switch to the evaluator of another scorer (`prepared`); conversations under way continue.

        The signature of later scores contains the digest of the evaluator.
        """
        with self._lock:
            self.evaluator, self.scorer, self.speaker = prepared.evaluator, prepared.scorer, prepared.speaker
            self.asks, self.columns = prepared.asks, prepared.columns
            self.signature = self._took_over = prepared.signature.with_part("learned", prepared.evaluator.digest())
            for state in self._open.values():  # sessions belong to the sources of the previous evaluator
                turns = state.turns
                state.turns = GrowingTurns()
                for turn in turns:
                    state.turns = state.turns.plus(turn)
                self._weigh(state, -state.made)
                state.made = 0

    def _columns(self) -> tuple[Column, ...]:
        """Return the columns of a reply's evidence, checked against the training data unless that sends requests."""
        learned = self.evaluator.head.columns
        if self.asks:
            return learned or ()
        nothing, _ = run(self.scorer.flow([]), self._models)
        return nothing.columns if learned is None else learned

    def __len__(self) -> int:
        """Number of remembered conversations."""
        return len(self._open)

    def conversation(self, name: str) -> Conversation | None:
        """Return a remembered conversation, or None."""
        state = self._open.get(name)
        return None if state is None else Conversation(name, tuple(state.turns), state.documents)

    def message(
        self,
        conversation: str,
        role: str,
        content: str,
        documents: Sequence[str] | None = None,
        id: str | None = None,
        turn: int | None = None,
    ) -> Score | Unscored | None:
        """Take a message in, and return the score of a reply, or `None` for other messages; see `Message`.

        Args:
            conversation: Id of the conversation; an unknown or forgotten id starts a new one.
            role: Role of the speaker.
            content: Text of the message.
            documents: Documents that the assistant sees from now on; None keeps the previous ones.
            id: Id of the message; a repeated id returns the previous result and changes nothing.
            turn: Place in the conversation from 0; None is the next place.

        Raises:
            BadInput: The role is unknown, or the turn is negative.
        """
        given = None if documents is None else tuple(documents)
        return self.take([Message(conversation, cast(Role, role), content, given, id, turn)])[0].score

    def work(self, message: Message) -> int:
        """Return the number of characters to measure: of the message and of its documents."""
        state = self._open.get(message.conversation)
        given = (
            sum(map(len, message.documents)) if message.documents is not None else 0 if state is None else state.shown
        )
        words = self.limits
        return min(len(message.content), words.max_reply_words * CHARACTERS) + min(
            given, words.max_document_words * CHARACTERS
        )

    def take(self, batch: Sequence[Message]) -> list[IngestResult]:
        """Take messages in, in order; all replies among them are measured and scored together.

        Requests to models run without the lock, so that other messages are taken in meanwhile.
        """
        with self._lock:
            replies: list[_PendingReply] = []
            results = [self._take_one(message, replies) for message in batch]
            if not self.asks:
                self._score(replies)
        if self.asks:
            self._score(replies)
        return [each if isinstance(each, IngestResult) else each.result() for each in results]

    def _score(self, replies: Sequence[_PendingReply]) -> None:
        """Score replies and set their results."""
        try:
            scored = [result for group in _distinct_targets(replies) for result in self._scored(group)]
        except BaseException as error:
            with self._lock:
                for reply in replies:
                    reply.of.results.pop(reply.id or "", None)  # the client may send it again
            for reply in replies:
                reply.result.set_exception(error)
            raise
        with self._lock:
            for reply, taken in zip(replies, scored, strict=True):
                reply.result.set_result(taken)
                if reply.id is not None:
                    reply.of.results[reply.id] = replace(taken, evidence=None)
                self._weigh_made(reply.of)

    def _take_one(self, message: Message, replies: list[_PendingReply]) -> _ResultOrFuture:
        """Take one message in, and return its result, or a future for the result of a reply."""
        state = self._of(message.conversation)
        before = state.results.get(message.id or "")
        if before is not None:
            return _again(before)
        turn = state.turn if message.turn is None else message.turn
        target = Target(message.conversation, turn)
        if turn < state.turn:
            return self._late(message, target, state.turn)
        cut = self._add(state, message)
        if message.system and message.system != state.system:
            state.system = message.system
            self._weigh(state, turn_bytes(message.system))
        missed = range(state.turn, turn)
        state.turn = turn + 1
        if message.role != "assistant":
            result: _ResultOrFuture = IngestResult(warning=cut)
        else:
            sample = self._sample(message.conversation, state)
            reply = _PendingReply(state, message.id, target, sample, _warnings(state, missed, cut), Future())
            replies.append(reply)
            result = reply.result
        if message.id is not None:
            state.results[message.id] = result
        return result

    def _add(self, state: _LiveConversation, message: Message) -> str | None:
        """Append a message, truncated to the limit, and free memory; returns a note on truncation."""
        if message.documents is not None and hash(tuple(message.documents)) != state.given:
            self._show(state, tuple(message.documents))
        whole, words = sendable(message.content), self.limits.max_reply_words
        text = first_words(whole, words)
        state.turns = state.turns.plus(Turn(message.role, text))
        self._weigh(state, turn_bytes(text) + (0 if message.id is None else RESULT))
        self._make_room(state)
        return None if len(text) == len(whole) else f"only its first {words} words were read"

    def _show(self, state: _LiveConversation, texts: tuple[str, ...]) -> None:
        """Replace the documents of a conversation."""
        shown, is_all = self._documents.show(texts)
        self._documents.let_go(state.documents)
        state.documents, state.given, state.shown = shown, hash(texts), sum(len(each.text) for each in shown)
        words = self.limits.max_document_words
        state.shortened = None if is_all else f"only the first {words} words of the documents were read"

    def _sample(self, name: str, state: _LiveConversation) -> Sample:
        """Return the last turn as a sample; requests run without the lock and need a copy of the turns."""
        turns = tuple(state.turns) if self.asks else state.turns
        named = {} if state.system is None else {"system": state.system}
        return Sample(Conversation(name, turns, state.documents, named), len(turns) - 1)

    def _weigh(self, state: _LiveConversation, size: int) -> None:
        state.size += size
        self.memory.take(size)

    def _weigh_made(self, state: _LiveConversation) -> None:
        """Count the bytes of the sources' sessions."""
        made = sum(getattr(session, "size", 0) for _, session in state.turns.session.values())
        if not state.is_gone:
            self._weigh(state, made - state.made)
            state.made = made
            self._make_room(state)

    def _make_room(self, present: _LiveConversation) -> None:
        while self.memory.is_full and self._makes_room(present):
            pass

    def _makes_room(self, present: _LiveConversation) -> bool:
        """Forget the oldest conversation, or all but the last turn of the only one; return False if neither is left."""
        oldest = next(iter(self._open.values())).used if len(self._open) > 1 else inf
        if self.memory.makes_room(oldest):
            return True
        if len(self._open) > 1:
            self._let_go(next(iter(self._open)))
            return True
        is_long = len(present.turns) > 1
        if is_long:
            last = present.turns[-1]
            present.turns, present.first, present.results = GrowingTurns().plus(last), present.turn, {}
            self._weigh(present, CONVERSATION + turn_bytes(last.content) - present.size)
            present.made = 0
        return is_long

    def _let_go(self, conversation: str) -> None:
        gone = self._open.pop(conversation, None)
        if gone is not None:
            gone.is_gone = True
            self._documents.let_go(gone.documents)
            self.memory.take(-gone.size)

    def forget(self, conversation: str) -> None:
        """Forget a conversation that has ended."""
        with self._lock:
            self._let_go(conversation)

    def _of(self, conversation: str) -> _LiveConversation:
        """Return the conversation, a new one if it is not remembered, and forget the least recently used ones."""
        now = self._clock()
        found = self._open.get(conversation)
        if found is None or now - found.used > self.seconds:
            self._let_go(conversation)
            found = self._open[conversation] = _LiveConversation()
            self._weigh(found, CONVERSATION)
        found.used = now
        self._open.move_to_end(conversation)
        while len(self._open) > self.conversations or now - next(iter(self._open.values())).used > self.seconds:
            self._let_go(next(iter(self._open)))
        return found

    def _late(self, message: Message, target: Target, next_turn: int) -> IngestResult:
        reason = f"turn {target.turn} arrived after turn {next_turn - 1}"
        if message.role != "assistant":
            return IngestResult(warning=reason)
        return IngestResult(Unscored(target, self.speaker or POPULATION, reason, self.signature))

    def _scored(self, replies: Sequence[_PendingReply]) -> list[IngestResult]:
        samples = [reply.sample for reply in replies]
        took_over, signature = self._took_over, self.signature  # may change during requests
        try:
            table, scores = run(self.scorer.flow(samples, self._is_drawn), self._models)
        except (BudgetReached, ModelError) as error:
            who = self.speaker or POPULATION
            return [IngestResult(Unscored(r.target, who, str(error), signature)) for r in replies]
        if took_over is not None:
            scores = [replace(score, signature=took_over) for score in scores]
        scores = self.scorer.decided(with_versions(samples, scores))
        names, state = [column.name for column in table.columns], _values(table)
        return [
            IngestResult(reply.of_turn(score), dict(zip(names, values, strict=True)))
            for reply, score, values in zip(replies, scores, state, strict=True)
        ]

    def _is_drawn(self, sample: Sample) -> bool:
        """Return True if a reply's plausibility is checked: a fixed share of replies, by the hash of their targets."""
        target = sample.target
        return crc32(f"{target.conversation}\n{target.turn}".encode()) < self.limits.plausibility_share * 2**32


_ResultOrFuture = IngestResult | Future[IngestResult]
"""Result of a message, or a future for the result of a reply."""


def _again(before: _ResultOrFuture) -> _ResultOrFuture:
    """Return the result for a repeated message."""
    if isinstance(before, IngestResult):
        return replace(before, again=True)
    after: Future[IngestResult] = Future()

    def tell(done: Future[IngestResult]) -> None:
        error = done.exception()
        if error is None:
            after.set_result(replace(done.result(), again=True))
        else:
            after.set_exception(error)

    before.add_done_callback(tell)
    return after


def _warnings(state: _LiveConversation, missed: range, cut: str | None) -> list[str]:
    """Return warnings on missed, forgotten and truncated text."""
    found = [f"turns {missed[0]} to {missed[-1]} before it are missing"] if missed else []
    if state.first:
        found.append(f"turns before {state.first} are no longer remembered")
    return [*found, *(each for each in (cut, state.shortened) if each)]


@dataclass(frozen=True, slots=True)
class _PendingReply:
    """A reply to score; `target` counts missed turns, the sample does not."""

    of: _LiveConversation
    id: str | None
    target: Target
    sample: Sample
    warnings: Sequence[str]
    result: Future[IngestResult]

    def of_turn(self, score: Score | Unscored) -> Score | Unscored:
        """Return the score with the number of the turn and the warnings."""
        if score.target != self.target:
            score = replace(score, target=self.target)
        if not self.warnings or isinstance(score, Unscored):
            return score
        return replace(score, warning="; ".join(part for part in (score.warning, *self.warnings) if part))


def _distinct_targets(replies: Sequence[_PendingReply]) -> Iterator[list[_PendingReply]]:
    """Split replies into groups with distinct targets: a conversation that was forgotten meanwhile starts again."""
    group: dict[Target, _PendingReply] = {}
    for reply in replies:
        if reply.sample.target in group:
            yield list(group.values())
            group = {}
        group[reply.sample.target] = reply
    if group:
        yield list(group.values())

"""Live scoring in this process: every reply is scored as it is said, at the cost of its own length.

scorer = LiveScorer(load_evaluator("evaluators/mixture"))
scorer.message("chat-17", "user", "Can I return an opened router?", documents=[policy])
score = scorer.message("chat-17", "assistant", "Yes, within 45 days of delivery.")

A live conversation is a `Conversation` whose turns are still growing, a reply is a `Sample` of it, and its evidence is
what the evaluator's sources measure of that sample, as in a batch; `Source.session` keeps its cost flat.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from math import inf
from threading import RLock
from typing import cast
from zlib import crc32

from accord.edges import BadInput, BudgetReached, ModelError, sendable
from accord.evidence import CHARACTERS, Column, EvidenceTable, Source, first_words
from accord.learning import Evaluator
from accord.live.memory_limit import CONVERSATION, RESULT, Documents, Room, said_size
from accord.live.messages import CONVERSATIONS, Message, Role
from accord.models import Models, memory_models, run
from accord.project import LiveConfig
from accord.scoring import Perspective, Scorer
from accord.values import (
    POPULATION,
    Conversation,
    Document,
    GrowingTurns,
    Sample,
    Score,
    Signature,
    Target,
    Turn,
    Unscored,
)

SECONDS = 3600.0
"""How long a conversation is remembered after its last message."""


def check_live(evaluator: Evaluator, asks: bool = False) -> None:
    """Refuse an evaluator that cannot score single replies: one of its sources is not live (`Source.is_live`).

    Args:
        evaluator: A fitted evaluator with any head.
        asks: True to allow sources that are not live, at the cost of their requests for every reply.

    Raises:
        BadInput: Names the source, and what to do.
        NotFitted: The evaluator is not fitted.
    """
    evaluator.head.check_fitted()
    about = f"the evaluator {evaluator.name!r} cannot score live"
    slow = [source for source in _sources(evaluator) if not source.is_live]
    if slow and not asks:
        raise BadInput(
            f"{about}: its source {slow[0].name!r} {_why_slow(slow[0])}. Allow that with --ask (models=... in Python), "
            "or fit an evaluator on evidence that needs no model, such as metrics: [lexical, bank]"
        )


def _sources(evaluator: Evaluator) -> list[Source]:
    """Everything that is measured for a score, of the evaluators of other questions too."""
    return list(evaluator.all_sources)


def _values(table: EvidenceTable) -> list[list[float | None]]:
    """The rows of a table; `None` where a value is missing."""
    rows = zip(table.values.tolist(), table.present.tolist(), strict=True)
    return [
        [value if is_present else None for value, is_present in zip(values, present, strict=True)]
        for values, present in rows
    ]


def _why_slow(source: Source) -> str:
    if source.roles:
        return f"asks the {' and the '.join(source.roles)} about every reply"
    return "asks an endpoint, or reads the whole conversation again, for every reply"


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What came of a message.

    Attributes:
        score: Of a reply; `None` for what somebody else says.
        evidence: Of a reply that was measured, by column; `None` where a value is missing.
        again: Whether the message had come before; then nothing was changed.
        late: Why somebody else's message was not taken in.
        cut: How much of somebody else's message is looked at, where that is not all; a score's warning says so itself.
    """

    score: Score | Unscored | None = None
    evidence: Mapping[str, float | None] | None = None
    again: bool = False
    late: str | None = None
    cut: str | None = None


class _Open:
    """A conversation under way: its turns and documents so far, and what it counts among those remembered."""

    __slots__ = (
        "__weakref__", "documents", "first", "given", "is_gone", "made", "said", "shortened", "shown", "size", "system",
        "turn", "turns", "used",
    )  # fmt: skip

    def __init__(self) -> None:
        self.turns = GrowingTurns()
        self.documents: tuple[Document, ...] = ()
        self.given = hash(())  # of the documents' texts as they came
        self.system: str | None = None  # who answers, as far as messages say
        self.shown = 0  # characters of them that are looked at
        self.shortened: str | None = None  # how much of the documents is looked at, where that is not all
        self.turn = 0  # the number of the next one: turns that were not heard count too
        self.first = 0  # the first turn that is remembered
        self.said: dict[str, _Result] = {}  # what came of messages with an id
        self.size = 0  # in bytes, documents apart
        self.made = 0  # of these, of what sources keep
        self.used, self.is_gone = 0.0, False


class LiveScorer:
    """Scores replies as they come, conversations side by side; may be called from several threads."""

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
        """Prepare to score with a fitted evaluator, for one annotator or for anybody.

        Args:
            evaluator: A fitted one. Its sources are live, unless `models` are given.
            annotator: Whom scores imitate; without one, a person nobody has met.
            conversations: How many are remembered.
            seconds: How long they are remembered after their last message.
            clock: Seconds that pass.
            models: With them, sources that are not live are taken too: they ask these models about every reply, and
                go through its conversation so far; and an evaluator's gate against implausible replies is asked about
                a share of them (`limits`). Without them nobody is asked.
            limits: Words that are looked at, and the memory of all conversations together.

        Raises:
            BadInput: A source of the evaluator is not live, measures otherwise by now than was learned from, or asks
                somebody whom `models` do not name.
            NotFitted: It has learned nothing yet.
            UnknownName: It does not know the annotator.
        """
        if conversations < 1 or seconds <= 0:
            raise BadInput(f"remember at least one conversation for some time, got {conversations} for {seconds} s")
        check_live(evaluator, asks=models is not None)
        self.limits = limits or LiveConfig()
        self.conversations, self.seconds = conversations, seconds
        self._annotator, self._given, self._models = annotator, models, models or memory_models()
        self._took_over: Signature | None = None
        self._use(evaluator)
        self._clock, self._lock = clock, RLock()
        self.room = Room(int(self.limits.memory_mb * 1e6))
        self._documents = Documents(self.limits.max_document_words, self.room)
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def _use(self, evaluator: Evaluator) -> None:
        """Score with this evaluator."""
        is_gated = self._given is not None and self.limits.plausibility_share > 0
        self.evaluator = evaluator.without_gate()
        self.scorer = Scorer(evaluator if is_gated else self.evaluator, Perspective(self._annotator))
        self.speaker, self.signature = self.scorer.speaker, self.evaluator.signature()
        self.asks = (is_gated and evaluator.plausibility is not None) or not all(
            source.is_live for source in _sources(evaluator)
        )
        for role in self.scorer.evaluator.roles:
            self._models.role(role)  # a missing model is reported now; it is opened at the first request
        self.columns = self._columns()

    def prepared(self, evaluator: Evaluator) -> LiveScorer:
        """A scorer that is set up as this one, and may score with another evaluator.

        Raises:
            BadInput, NotFitted, UnknownName: It cannot, as when a scorer is made.
        """
        return LiveScorer(evaluator, self._annotator, models=self._given, limits=self.limits)

    def take_over(self, prepared: LiveScorer) -> None:
        """Score from now on as another scorer would (`prepared`); conversations under way go on as they are.

        Its scores say so: their signature has the digest of what the evaluator learned.
        """
        with self._lock:
            self.evaluator, self.scorer, self.speaker = prepared.evaluator, prepared.scorer, prepared.speaker
            self.asks, self.columns = prepared.asks, prepared.columns
            self.signature = self._took_over = prepared.signature.with_part("learned", prepared.evaluator.digest())
            for known in self._open.values():  # what sources kept of them is of the sources before
                turns = known.turns
                known.turns = GrowingTurns()
                for turn in turns:
                    known.turns = known.turns.plus(turn)
                self._weigh(known, -known.made)
                known.made = 0

    def _columns(self) -> tuple[Column, ...]:
        """The evidence of a reply; where nobody needs to be asked for it, made as what was learned from."""
        learned = self.evaluator.head.columns
        if self.asks:
            return learned or ()
        nothing, _ = run(self.scorer.flow([]), self._models)
        return nothing.columns if learned is None else learned

    def __len__(self) -> int:
        """How many conversations are remembered."""
        return len(self._open)

    def conversation(self, name: str) -> Conversation | None:
        """A conversation as far as it was heard; `None` where none of the name is remembered."""
        known = self._open.get(name)
        return None if known is None else Conversation(name, tuple(known.turns), known.documents)

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

    def work(self, said: Message) -> int:
        """Characters that a message has measured: its own, and those of the documents that it is held against."""
        known = self._open.get(said.conversation)
        given = sum(map(len, said.documents)) if said.documents is not None else 0 if known is None else known.shown
        words = self.limits
        return min(len(said.content), words.max_reply_words * CHARACTERS) + min(
            given, words.max_document_words * CHARACTERS
        )

    def take(self, batch: Sequence[Message]) -> list[IngestResult]:
        """Take some messages in, in their order; all replies among them are measured and scored together.

        Whoever is asked is asked without the lock: other conversations go on meanwhile, and this one too.
        """
        with self._lock:
            replies: list[_Reply] = []
            found = [self._one(said, replies) for said in batch]
            if not self.asks:
                self._score(replies)
        if self.asks:
            self._score(replies)
        return [each if isinstance(each, IngestResult) else each.result() for each in found]

    def _score(self, replies: Sequence[_Reply]) -> None:
        """Settle what comes of replies."""
        try:
            scored = [result for some in _apart(replies) for result in self._scored(some)]
        except BaseException as error:
            with self._lock:
                for reply in replies:
                    reply.of.said.pop(reply.id or "", None)  # it may be sent again
            for reply in replies:
                reply.result.set_exception(error)
            raise
        with self._lock:
            for reply, taken in zip(replies, scored, strict=True):
                reply.result.set_result(taken)
                if reply.id is not None:
                    reply.of.said[reply.id] = replace(taken, evidence=None)
                self._weigh_made(reply.of)

    def _one(self, said: Message, replies: list[_Reply]) -> _Result:
        """What comes of one message: all there is to say, or what will be known of a reply when it is scored."""
        known = self._of(said.conversation)
        before = known.said.get(said.id or "")
        if before is not None:
            return _again(before)
        turn = known.turn if said.turn is None else said.turn
        target = Target(said.conversation, turn)
        if turn < known.turn:
            return self._passed(said, target, known.turn)
        cut = self._add(known, said)
        if said.system and said.system != known.system:
            known.system = said.system
            self._weigh(known, said_size(said.system))
        missed = range(known.turn, turn)
        known.turn = turn + 1
        if said.role != "assistant":
            result: _Result = IngestResult(cut=cut)
        else:
            sample = self._sample(said.conversation, known)
            reply = _Reply(known, said.id, target, sample, _warnings(known, missed, cut), Future())
            replies.append(reply)
            result = reply.result
        if said.id is not None:
            known.said[said.id] = result
        return result

    def _add(self, known: _Open, said: Message) -> str | None:
        """Take a message in as far as it is looked at, which is told where that is not all; others make room."""
        if said.documents is not None and hash(tuple(said.documents)) != known.given:
            self._show(known, tuple(said.documents))
        whole, words = sendable(said.content), self.limits.max_reply_words
        text = first_words(whole, words)
        known.turns = known.turns.plus(Turn(said.role, text))
        self._weigh(known, said_size(text) + (0 if said.id is None else RESULT))
        self._make_room(known)
        return None if len(text) == len(whole) else f"only its first {words} words were looked at"

    def _show(self, known: _Open, texts: tuple[str, ...]) -> None:
        """The documents of a conversation from now on."""
        shown, is_all = self._documents.show(texts)
        self._documents.let_go(known.documents)
        known.documents, known.given, known.shown = shown, hash(texts), sum(len(each.text) for each in shown)
        words = self.limits.max_document_words
        known.shortened = None if is_all else f"only the first {words} words of the documents were looked at"

    def _sample(self, name: str, known: _Open) -> Sample:
        """The last turn of a conversation; whoever is asked about it gets all turns, not a view of them."""
        turns = tuple(known.turns) if self.asks else known.turns
        named = {} if known.system is None else {"system": known.system}
        return Sample(Conversation(name, turns, known.documents, named), len(turns) - 1)

    def _weigh(self, known: _Open, size: int) -> None:
        known.size += size
        self.room.take(size)

    def _weigh_made(self, known: _Open) -> None:
        """Count what sources keep of a conversation by now."""
        made = sum(getattr(kept, "size", 0) for _, kept in known.turns.session.values())
        if not known.is_gone:
            self._weigh(known, made - known.made)
            known.made = made
            self._make_room(known)

    def _make_room(self, present: _Open) -> None:
        while self.room.is_full and self._makes_room(present):
            pass

    def _makes_room(self, present: _Open) -> bool:
        """Let go of the conversation that was used longest ago; of the present one, if it is alone, of its turns."""
        oldest = next(iter(self._open.values())).used if len(self._open) > 1 else inf
        if self.room.makes_room(oldest):
            return True
        if len(self._open) > 1:
            self._let_go(next(iter(self._open)))
            return True
        is_long = len(present.turns) > 1
        if is_long:
            last = present.turns[-1]
            present.turns, present.first, present.said = GrowingTurns().plus(last), present.turn, {}
            self._weigh(present, CONVERSATION + said_size(last.content) - present.size)
            present.made = 0
        return is_long

    def _let_go(self, conversation: str) -> None:
        gone = self._open.pop(conversation, None)
        if gone is not None:
            gone.is_gone = True
            self._documents.let_go(gone.documents)
            self.room.take(-gone.size)

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
            found = self._open[conversation] = _Open()
            self._weigh(found, CONVERSATION)
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
        samples = [reply.sample for reply in replies]
        took_over, signature = self._took_over, self.signature  # another one may take over while a model is asked
        try:
            table, scores = run(self.scorer.flow(samples, self._is_drawn), self._models)
        except (BudgetReached, ModelError) as error:
            who = self.speaker or POPULATION
            return [IngestResult(Unscored(r.target, who, str(error), signature)) for r in replies]
        if took_over is not None:
            scores = [replace(score, signature=took_over) for score in scores]
        names, known = [column.name for column in table.columns], _values(table)
        return [
            IngestResult(reply.of_turn(score), dict(zip(names, values, strict=True)))
            for reply, score, values in zip(replies, scores, known, strict=True)
        ]

    def _is_drawn(self, sample: Sample) -> bool:
        """Return True if a reply's plausibility is checked: a fixed share of replies, by the hash of their targets."""
        target = sample.target
        return crc32(f"{target.conversation}\n{target.turn}".encode()) < self.limits.plausibility_share * 2**32


_Result = IngestResult | Future[IngestResult]
"""What came of a message, or what will be known of it when it is scored."""


def _again(before: _Result) -> _Result:
    """What came of a message that had come before."""
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


def _warnings(known: _Open, missed: range, cut: str | None) -> list[str]:
    """Why a reply's score deserves less trust, for what was not heard, is no more known, or was not looked at."""
    found = [f"turns before it were not heard: {missed[0]} to {missed[-1]}"] if missed else []
    if known.first:
        found.append(f"turns before {known.first} are no longer remembered")
    return [*found, *(each for each in (cut, known.shortened) if each)]


@dataclass(frozen=True, slots=True)
class _Reply:
    """A reply that is to be scored; `target` counts turns that were not heard, the sample does not."""

    of: _Open
    id: str | None
    target: Target
    sample: Sample
    warnings: Sequence[str]
    result: Future[IngestResult]

    def of_turn(self, score: Score | Unscored) -> Score | Unscored:
        """The score under the turn's own number, with what is to be said beside it."""
        if score.target != self.target:
            score = replace(score, target=self.target)
        if not self.warnings or isinstance(score, Unscored):
            return score
        return replace(score, warning="; ".join(part for part in (score.warning, *self.warnings) if part))


def _apart(replies: Sequence[_Reply]) -> Iterator[list[_Reply]]:
    """Replies in groups of different targets: a conversation that was let go of meanwhile begins anew."""
    group: dict[Target, _Reply] = {}
    for reply in replies:
        if reply.sample.target in group:
            yield list(group.values())
            group = {}
        group[reply.sample.target] = reply
    if group:
        yield list(group.values())

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
from dataclasses import dataclass, replace
from itertools import count
from threading import Lock
from typing import cast

import numpy as np

from accord.evidence import Column, EvidenceTable, Source
from accord.learning import Evaluator
from accord.live.messages import CONVERSATIONS, Message, Role
from accord.models import Flow, Models, memory_models, run
from accord.values import (
    POPULATION,
    BadInput,
    BudgetReached,
    Conversation,
    Document,
    Growing,
    ModelError,
    Sample,
    Score,
    Target,
    Unscored,
)

SECONDS = 3600.0
"""How long a conversation is remembered after its last message."""
TEXT = 20_000_000
"""The most characters that remembered conversations have in all; the oldest ones make room."""
TURN = 100
"""What a turn counts beside its characters, so that empty ones are bounded too."""
REMEMBERED_IDS = 20_000
"""Messages whose ids are remembered, so that one sent twice is scored once."""


def check_live(evaluator: Evaluator, asks: bool = False) -> None:
    """Refuse an evaluator that cannot score a reply as it is said: one of its sources cannot (`Source.is_live`).

    Args:
        evaluator: A fitted one, with whatever head.
        asks: Whether sources that are not live may be asked all the same, whatever that costs per reply.

    Raises:
        BadInput: Names the source, and what to do.
        NotFitted: It has learned nothing yet.
    """
    evaluator.head.check_fitted()
    about = f"the evaluator {evaluator.name!r} cannot score live"
    if not evaluator.sources:
        raise BadInput(f"{about}: it has no source of evidence, and says the same of every reply")
    slow = [source for source in _sources(evaluator) if not source.is_live]
    if slow and not asks:
        raise BadInput(
            f"{about}: its source {slow[0].name!r} {_why_slow(slow[0])}; allow that (--ask, or models=...), or fit an "
            "evaluator whose sources measure replies at once, such as metrics: [bank]"
        )


def _sources(evaluator: Evaluator) -> list[Source]:
    """Everything that is measured for a score, of the evaluators of other questions too."""
    return [source for each in (evaluator, *evaluator.also) for source in each.sources]


def _values(table: EvidenceTable) -> list[list[float | None]]:
    """The rows of a table; `None` where a value is missing."""
    found: list[list[float | None]] = table.values.astype(object).tolist()
    for row, place in np.argwhere(~table.present).tolist():
        found[row][place] = None
    return found


def _why_slow(source: Source) -> str:
    if source.roles:
        return f"asks the {' and the '.join(source.roles)} about every reply"
    return "asks somebody, or goes through the whole conversation, for every reply"


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What came of a message.

    Attributes:
        score: Of a reply; `None` for what somebody else says.
        evidence: Of a reply that was measured, by column; `None` where a value is missing.
        again: Whether the message had come before; then nothing was changed.
        late: Why somebody else's message was not taken in.
    """

    score: Score | Unscored | None = None
    evidence: Mapping[str, float | None] | None = None
    again: bool = False
    late: str | None = None


class _Open:
    """A conversation under way: its turns and documents so far, and what it counts among those remembered."""

    __slots__ = ("__weakref__", "documents", "length", "number", "shown", "turn", "turns", "used")

    def __init__(self, number: int) -> None:
        self.number = number
        self.turns = Growing()
        self.documents: tuple[Document, ...] = ()
        self.shown = 0  # characters of the documents
        self.turn = 0  # the number of the next one: turns that were not heard count too
        self.length, self.used = 0, 0.0

    def add(self, said: Message) -> None:
        """Take a message in."""
        if said.documents is not None:
            self.documents = said.as_documents
        self.turns = self.turns.plus(said.as_turn)


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
    ) -> None:
        """Prepare to score with a fitted evaluator, for one annotator or for anybody.

        Args:
            evaluator: A fitted one. Its sources are live, unless `models` are given.
            annotator: Whom scores imitate; without one, a person nobody has met.
            conversations: How many are remembered.
            seconds: How long they are remembered after their last message.
            clock: Seconds that pass.
            models: With them, sources that are not live are taken too: they ask these models about every reply, and
                go through its conversation so far. Without them nobody is asked.

        Raises:
            BadInput: A source of the evaluator is not live, measures otherwise by now than was learned from, or asks
                somebody whom `models` do not name.
            NotFitted: It has learned nothing yet.
            UnknownName: It does not know the annotator.
        """
        self.evaluator = evaluator
        if conversations < 1 or seconds <= 0:
            raise BadInput(f"remember at least one conversation for some time, got {conversations} for {seconds} s")
        check_live(evaluator, asks=models is not None)
        self.speaker, self.signature = evaluator.head.speaker(annotator), evaluator.signature()
        self.conversations, self.seconds = conversations, seconds
        self._is_whole = not all(source.is_live for source in _sources(evaluator))
        self._models = models or memory_models()
        for role in evaluator.roles:
            self._models.role(role)  # who is missing is said now, and opened when first asked
        self.columns = self._columns()
        self._clock, self._lock = clock, Lock()
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._length = 0  # of all texts of these
        self._said: OrderedDict[tuple[int, str], _Pending | IngestResult] = OrderedDict()  # by conversation and id
        self._numbers = count()

    def _columns(self) -> tuple[Column, ...]:
        """The evidence of a reply; where nobody needs to be asked for it, made as what was learned from."""
        learned = self.evaluator.head.columns
        if self._is_whole:
            return learned or ()
        nothing = run(self.evaluator.evidence([]), self._models)
        self.evaluator.score(nothing, [])
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

    def take(self, batch: Sequence[Message]) -> list[IngestResult]:
        """Take some messages in, in their order; all replies among them are measured and scored together."""
        with self._lock:
            replies: list[_Reply] = []
            found = [self._one(said, replies) for said in batch]
            try:
                scored = [result for some in _apart(replies) for result in self._scored(some)]
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
        turn = known.turn if said.turn is None else said.turn
        target = Target(said.conversation, turn)
        if turn < known.turn:
            return self._passed(said, target, known.turn)
        self._weigh(known, said)
        known.add(said)
        missed = range(known.turn, turn)
        known.turn = turn + 1
        if said.role != "assistant":
            self._note(known, said.id, IngestResult())
            return IngestResult()
        replies.append(_Reply(known, said.id, target, self._sample(said.conversation, known), missed))
        pending = _Pending(len(replies) - 1)
        self._note(known, said.id, pending)
        return pending

    def _sample(self, name: str, known: _Open) -> Sample:
        """The last turn of a conversation; whoever is asked about it gets all turns, not a view of them."""
        turns = tuple(known.turns) if self._is_whole else known.turns
        return Sample(Conversation(name, turns, known.documents), len(turns) - 1)

    def _note(self, known: _Open, id: str | None, what: _Pending | IngestResult) -> None:
        """Remember what came of a message with an id, without its evidence."""
        if id is not None:
            self._said[known.number, id] = replace(what, evidence=None) if isinstance(what, IngestResult) else what

    def _weigh(self, known: _Open, said: Message) -> None:
        """Count a message's texts, and let go of the oldest conversations while all are too long together."""
        new = len(said.content) + TURN
        if said.documents is not None:
            held, known.shown = known.shown, sum(map(len, said.documents))
            new += known.shown - held
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
            found = self._open[conversation] = _Open(next(self._numbers))
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
        try:
            table, scores = run(self._flow(samples), self._models)
        except (BudgetReached, ModelError) as error:
            who = self.speaker or POPULATION
            return [IngestResult(Unscored(r.target, who, str(error), self.signature)) for r in replies]
        names, known = [column.name for column in table.columns], _values(table)
        return [
            IngestResult(reply.of_turn(score), dict(zip(names, values, strict=True)))
            for reply, score, values in zip(replies, scores, known, strict=True)
        ]

    def _flow(self, samples: Sequence[Sample]) -> Flow[tuple[EvidenceTable, list[Score | Unscored]]]:
        """Evidence and scores, as the batch makes them."""
        table = yield from self.evaluator.evidence(samples)
        scores = self.evaluator.score(table, [self.speaker] * len(samples))
        return table, (yield from self.evaluator.with_others(samples, scores))


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
    """A reply that is to be scored; `target` counts turns that were not heard, the sample does not."""

    of: _Open
    id: str | None
    target: Target
    sample: Sample
    missed: range

    def of_turn(self, score: Score | Unscored) -> Score | Unscored:
        """The score under the turn's own number, with a warning where turns before it were never heard."""
        if score.target != self.target:
            score = replace(score, target=self.target)
        if not self.missed or isinstance(score, Unscored):
            return score
        gap = f"turns before it were not heard: {self.missed[0]} to {self.missed[-1]}"
        return replace(score, warning="; ".join(part for part in (score.warning, gap) if part))


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

"""Live scoring in this process: every reply is scored as it is said, at the cost of its own length.

scorer = LiveScorer(load_evaluator("evaluators/mixture"))
scorer.message("chat-17", "user", "Can I return an opened router?", documents=[policy])
score = scorer.message("chat-17", "assistant", "Yes, within 45 days of delivery.")
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock

from accord.conversation import Target, sendable
from accord.errors import BadInput
from accord.evaluators.base import Evaluator
from accord.evaluators.calibration import Calibration
from accord.evaluators.mixture import Mixture
from accord.evidence.bank import Session, TurnMetric, source_of, turn_metrics
from accord.evidence.metrics import signature_of
from accord.evidence.table import Column, EvidenceTable
from accord.score import Score, Unscored

CONVERSATIONS, SECONDS = 10_000, 3600.0
"""The most conversations that are remembered, and for how long after their last message."""
REMEMBERED_IDS = 64
"""Messages of a conversation whose ids are remembered, so that one sent twice is scored once."""
ROLES = {"assistant": True, "user": False}


class _Open:
    """A conversation under way."""

    __slots__ = ("said", "session", "used")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.used = 0.0
        self.said: OrderedDict[str, Score | Unscored | None] = OrderedDict()


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
        evaluator.check_fitted()
        if conversations < 1 or seconds <= 0:
            raise BadInput(f"remember at least one conversation for some time, got {conversations} for {seconds} s")
        self.evaluator, self.speaker = evaluator, evaluator.speaker(annotator)
        self.metrics = live_metrics(evaluator)
        self.columns = tuple(Column(name, str(signature_of(name))) for name in self.metrics)
        self.conversations, self.seconds = conversations, seconds
        self._clock, self._lock = clock, Lock()
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def __len__(self) -> int:
        """How many conversations are remembered."""
        return len(self._open)

    def message(
        self, conversation: str, role: str, content: str, documents: Sequence[str] | None = None, id: str | None = None
    ) -> Score | Unscored | None:
        """Take a message in; the score of a reply, `None` for what somebody else says.

        Args:
            conversation: Whose message it is; a name not heard of, or forgotten, begins anew.
            role: `assistant` or `user`.
            content: What was said.
            documents: What the assistant can see from now on; `None` leaves it as it was.
            id: Of the message; one that comes again gives what it gave before, and changes nothing.

        Raises:
            BadInput: There is no such role.
        """
        if role not in ROLES:
            raise BadInput(f"role {role!r} of a message; allowed: {', '.join(ROLES)}")
        text = sendable(content)
        with self._lock:
            known = self._of(conversation)
            if id is not None and id in known.said:
                return known.said[id]
            session = known.session
            if documents is not None:
                session.sources = [source_of(sendable(document)) for document in documents]
            found = self._taken_in(session, Target(conversation, session.history.messages), role, text)
            if id is not None:
                known.said[id] = found
                while len(known.said) > REMEMBERED_IDS:
                    known.said.popitem(last=False)
            return found

    def _taken_in(self, session: Session, target: Target, role: str, text: str) -> Score | Unscored | None:
        if not ROLES[role]:
            session.hear(text)
            return None
        return self._score(target, session.reply(text))

    def forget(self, conversation: str) -> None:
        """Let go of a conversation that has ended."""
        with self._lock:
            self._open.pop(conversation, None)

    def _of(self, conversation: str) -> _Open:
        """The conversation's state, made if need be; the oldest ones make room."""
        now = self._clock()
        found = self._open.pop(conversation, None)
        if found is None or now - found.used > self.seconds:
            found = _Open(Session(self.metrics))
        found.used = now
        self._open[conversation] = found
        while len(self._open) > self.conversations or now - next(iter(self._open.values())).used > self.seconds:
            self._open.popitem(last=False)
        return found

    def _score(self, target: Target, values: dict[str, float | None]) -> Score | Unscored:
        known = {name: value for name, value in values.items() if value is not None}
        absences = {(target, name): "nothing to measure" for name in values.keys() - known.keys()}
        [score] = self.evaluator.predict_each(
            EvidenceTable.from_rows(self.columns, {target: known}, absences), [self.speaker]
        )
        return score


def live_metrics(evaluator: Evaluator) -> dict[str, TurnMetric]:
    """The metrics of replies that an evaluator learned from.

    Raises:
        BadInput: It learned from something else as well, or from metrics made otherwise than here.
    """
    columns = evaluator.trained_on_.columns if isinstance(evaluator, Mixture | Calibration) else ()
    names = set(turn_metrics.names())
    for column in columns:
        if column.name not in names:
            raise BadInput(
                f"this evaluator learned from {column.name!r}, which is not measured message by message; fit one on "
                "metrics: [bank]"
            )
        if column.made_by != str(signature_of(column.name)):
            raise BadInput(f"{column.name!r} was learned as {column.made_by}, it is now {signature_of(column.name)}")
    if not columns:
        raise BadInput(
            f"a {evaluator.method} evaluator cannot score live; fit mixture or calibration on metrics: [bank]"
        )
    return {column.name: turn_metrics.get(column.name) for column in columns}

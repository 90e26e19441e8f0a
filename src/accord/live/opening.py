"""An intake with all that belongs to it, opened for as long as messages come: the log of rows, and the rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from accord.config import WatchConfig
from accord.evaluators import load_evaluator
from accord.evaluators.base import learned_digest
from accord.live.intake import Intake, RowLog
from accord.live.scorer import CONVERSATIONS, SECONDS, LiveScorer
from accord.score import POPULATION
from accord.store import Store
from accord.watching import Alarm, Rounds, Watch

Say = Callable[[str], None]


@contextmanager
def opened(
    evaluator: str | Path,
    annotator: str | None = None,
    out: Path | None = None,
    store: Store | None = None,
    watching: WatchConfig | None = None,
    say: Say = lambda text: None,
    conversations: int = CONVERSATIONS,
    seconds: float = SECONDS,
) -> Iterator[Intake]:
    """An intake for a fitted evaluator.

    Args:
        evaluator: Its folder.
        annotator: Whom scores imitate; without one, a person nobody has met.
        out: A file of JSON lines to which the rows of replies are appended.
        store: Where what was scored is added up; without one nothing is watched.
        watching: How it is watched.
        say: Told of alarms, and of what could not be done, in a line each.
        conversations: How many are remembered.
        seconds: How long they are remembered after their last message.

    Raises:
        BadInput: There is no such evaluator, or it cannot score live.
        UnknownName: It does not know the annotator.
    """
    scorer = LiveScorer(load_evaluator(evaluator), annotator, conversations, seconds)
    with ExitStack() as open_:
        log = None if out is None else open_.enter_context(RowLog(out))
        keep = None if log is None else log.write
        if store is None:
            yield Intake(scorer, None, keep)
            return
        watch = Watch(_whose(evaluator, scorer), scorer.columns)
        open_.enter_context(_rounds(watch, store, watching or WatchConfig(), scorer, say))
        yield Intake(scorer, watch, keep, partial(watch.flush, store))


def _whose(folder: str | Path, scorer: LiveScorer) -> str:
    """Whose scores are comparable: what was learned, down to the last number, and for whom it speaks."""
    signature = scorer.signature.with_part("learned", learned_digest(folder))
    return str(signature.with_part("for", scorer.speaker or POPULATION))


def _rounds(watch: Watch, store: Store, config: WatchConfig, scorer: LiveScorer, say: Say) -> Rounds:
    def alarm(found: Alarm) -> None:
        say(f"alarm: {found.said}")

    def trouble(reason: str) -> None:
        say(f"not done yet: {reason}")

    side = scorer.evaluator.trained_on_
    learned = side.texts() if side.of_turns else None  # means over a conversation are unlike a reply's own values
    return Rounds(watch, store, config.webhook, config.level, learned, alarm, trouble)

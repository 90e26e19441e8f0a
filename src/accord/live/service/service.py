"""Scoring behind the HTTP routes: parsing, the queue, exports of OpenTelemetry, and opening from a project."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from accord.board import drift
from accord.edges import AccordError, BadInput
from accord.formats import Fields
from accord.learning import load_evaluator
from accord.live.ingest import Ingestor, LiveContext, LiveRow, Sink, open_ingestor, refused_row
from accord.live.messages import HistoryDeduplicator, LogOnce, Message
from accord.live.monitoring import MonitoringReport, report
from accord.live.scorer import LiveScorer
from accord.live.service.decision_requests import Dialect, EvaluatorAnswers, Unprocessable, parse_decision
from accord.live.service.fair_queue import MAX_CONCURRENT_CHUNKS, MAX_WAITING, FairQueue, QueueFull, ScoringTimeout
from accord.live.service.otlp import Signal, parse_export, traceparents
from accord.live.service.prometheus import ServiceMetrics
from accord.live.service.request_bodies import parse_messages, refusal_of
from accord.project import Workspace, change_report, check_scale

LARGE_BODY_BYTES = 32 * 2**10
"""Larger requests are parsed in a thread, one at a time, so that parsing them does not delay small requests."""
SOURCE = "otel"
REPORT_SECONDS = 5.0
"""Time for which a monitoring report is cached."""
HistoryStates = Mapping[str, tuple[Any, Any]]
"""State of each conversation before and after an export."""
P = ParamSpec("P")
T = TypeVar("T")


class Service:
    """State shared by the routes.

    Args:
        ingestor: Scores and stores messages.
        load_report: Returns the monitoring report; `None` if monitoring is off.
        max_waiting: Maximum number of waiting messages.
        log: Called once for each reason why spans contain no messages.
        keeps_spans: True to note the span of each reply of an export, for events about its score.
    """

    def __init__(
        self,
        ingestor: Ingestor,
        load_report: Callable[[], MonitoringReport] | None = None,
        max_waiting: int = MAX_WAITING,
        log: Callable[[str], None] = lambda text: None,
        keeps_spans: bool = False,
    ) -> None:
        scorer = ingestor.scorer
        self.ingestor = ingestor
        self.load_report = None if load_report is None else _cached(load_report)
        self.queue = FairQueue(
            ingestor.take,
            max_waiting,
            scorer.limits.timeout_seconds,
            MAX_CONCURRENT_CHUNKS if scorer.asks else 1,
            scorer.work,
        )
        self.metrics = ServiceMetrics(scorer, lambda: self.queue.waiting, lambda: ingestor.change)
        self.keeps_spans = keeps_spans
        self._log_once = LogOnce(log)
        self.history = HistoryDeduplicator(scorer.conversations, scorer.memory, self._skip_span)
        self._history_lock = Lock()
        self._parser = ThreadPoolExecutor(1, thread_name_prefix="parsing")
        self._answers: EvaluatorAnswers | None = None

    async def parse(
        self, body: bytes, content_type: str, conversation: str | None = None
    ) -> tuple[list[Message | LiveRow], bool]:
        """Return the messages of a request, with a refused row for each invalid one, and False for a single message.

        Args:
            body: Body of the request.
            content_type: Its content type.
            conversation: Id for a whole conversation without one.

        Raises:
            BadInput: The body is not a message or a batch.
            QueueFull: Too many messages are waiting.
        """
        if len(body) < LARGE_BODY_BYTES:
            self.queue.check_room()
            return parse_messages(body, content_type, conversation)
        async with _delay_rejection():
            self.queue.check_room(2)
            return await self.run_in_parser(parse_messages, body, content_type, conversation)

    async def run_in_parser(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in the parser thread."""
        call = partial(_without_gc, partial(function, *args, **kwargs))
        return await asyncio.get_running_loop().run_in_executor(self._parser, call)

    async def score(self, parsed: Sequence[Message | LiveRow], client: str = "") -> list[LiveRow]:
        """Score messages; return one row per message, in order, with refused rows unchanged.

        Raises:
            QueueFull: Too many messages are waiting.
            ScoringTimeout: No message was scored in time.
        """
        messages = [entry for entry in parsed if isinstance(entry, Message)]
        if len(parsed) == 1:
            scored = iter(await self._enqueue(messages, client))
        else:
            async with _delay_rejection():
                scored = iter(await self._enqueue(messages, client))
        rows = [next(scored) if isinstance(entry, Message) else entry for entry in parsed]
        self.metrics.count_rows(rows)
        return rows

    async def _enqueue(self, messages: Sequence[Message], client: str) -> list[LiveRow]:
        self.queue.check_room(len(messages))
        return await self.queue.score(messages, client) if messages else []

    async def decide(
        self, body: bytes, content_type: str, dialect: Dialect, client: str = "", span: str | None = None
    ) -> dict[str, Any]:
        """Return the body of the answer to a request of decision models, sent within a `span` (a `traceparent`).

        The conversation is scored as by `POST /v1/scores`.

        Raises:
            BadInput: The request is invalid, or the evaluator cannot answer it.
            QueueFull: Too many messages are waiting.
            ScoringTimeout: Not every message was scored in time.
        """
        async with _delay_rejection() if len(body) >= LARGE_BODY_BYTES else nullcontext():
            self.queue.check_room(2 if len(body) >= LARGE_BODY_BYTES else 1)
            request = await self.run_in_parser(parse_decision, body, content_type, dialect)
        answers = await self.run_in_parser(self._current_answers)
        questions = answers.check(request)
        if any(not isinstance(entry, Message) for entry in request.messages):
            raise Unprocessable(refusal_of([entry for entry in request.messages if not isinstance(entry, Message)]))
        rows = await self.score(within(span, request.messages), client)
        if any(row.get("taken") is False for row in rows):
            raise ScoringTimeout(f"not all was scored within {self.queue.seconds:g} seconds; send it again")
        return answers.body(request, questions, rows)

    def _current_answers(self) -> EvaluatorAnswers:
        """Return the answers of the evaluator in use, made once per evaluator in the parser thread."""
        scorer = self.ingestor.scorer
        if self._answers is None or self._answers.evaluator is not scorer.evaluator:
            self._answers = EvaluatorAnswers(scorer.evaluator, scorer.speaker is None, scorer.limits.good)
        return self._answers

    def _skip_span(self, reason: str) -> None:
        self.metrics.skipped_spans.labels(reason).inc()
        self._log_once(reason)

    async def ingest_export(self, body: bytes, content_type: str, signal: Signal, client: str = "") -> tuple[int, str]:
        """Score the new replies of an OTLP export; return the number of unreadable records and the first reason.

        Raises:
            BadInput: The body is not an OTLP export.
            QueueFull: Too many messages are waiting.
            ScoringTimeout: Some messages were not scored in time.
        """
        self.queue.check_room()
        groups, errors = await self.run_in_parser(self._group_records, signal, body, content_type)
        messages, invalid, states = await self.run_in_parser(self._new_messages, groups)
        rows: list[LiveRow] = []
        try:
            rows = await self.queue.score(messages, client) if messages else []
            if any(row.get("taken") is False for row in rows):
                raise ScoringTimeout(f"not all was scored within {self.queue.seconds:g} seconds; send it again")
        except ScoringTimeout:
            self._restore_unscored(states, rows)
            raise
        except BaseException:
            for message in messages:  # a repeated export must find them new
                self.history.forget(message.conversation)
            raise
        errors += invalid
        self.metrics.count_rows([*rows, *(refused_row(reason) for reason in errors)])
        return len(errors), errors[0] if errors else ""

    def _group_records(
        self, signal: Signal, body: bytes, content_type: str
    ) -> tuple[dict[str, list[Fields]], list[str]]:
        export = signal.checked(parse_export(body, content_type, signal))
        with self._history_lock:
            return self.history.groups(export, "otlp", SOURCE)

    def _new_messages(self, groups: Mapping[str, list[Fields]]) -> tuple[list[Message], list[str], HistoryStates]:
        """Return the messages that are new, the errors, and the state of each conversation before and after.

        Raises:
            QueueFull: Too many messages are waiting; the history is unchanged.
        """
        with self._history_lock:
            before = {name: self.history.state(name) for name in groups}
            messages, errors = self.history.new_messages(groups, SOURCE)
            if self.keeps_spans and messages:
                spans = {name: traceparents(group, name) for name, group in groups.items()}
                messages = [
                    replace(each, traceparent=spans.get(each.conversation, {}).get(each.content)) for each in messages
                ]
            states = {name: (state, self.history.state(name)) for name, state in before.items()}
            try:
                self.queue.check_room(len(messages))
            except QueueFull:
                for name, (old, new) in states.items():
                    self.history.roll_back(name, old, new)
                raise
        return messages, errors, states

    def _restore_unscored(self, states: HistoryStates, rows: Sequence[LiveRow]) -> None:
        """Reset the history of messages without a score, so that a repeated export scores them and no others."""
        scored = {row["conversation"] for row in rows if row.get("taken") is not False}
        unscored = {row["conversation"] for row in rows if row.get("taken") is False}
        with self._history_lock:
            for name, (before, after) in states.items():
                if name in scored & unscored:
                    self.history.forget(name)
                elif name not in scored:
                    self.history.roll_back(name, before, after)


@contextmanager
def open_service(
    project: Workspace,
    evaluator: Path,
    annotator: str | None = None,
    conversations: int = 10_000,
    seconds: float = 3600.0,
    monitoring: bool = True,
    ask: bool = False,
    log: Callable[[str], None] = lambda text: None,
    sinks: Sequence[Sink] = (),
) -> Iterator[Service]:
    """Open a service for an evaluator of a project.

    Arguments and errors are the same as in `open_ingestor` and `LiveContext.of`.
    """
    context = LiveContext.of(project, monitoring, ask)
    with open_ingestor(evaluator, annotator, context, sinks, log, conversations, seconds) as ingestor:

        def load_report() -> MonitoringReport:
            found = report(project.store, before=lambda _: ingestor.settle())
            change, _ = change_report(project, used=ingestor.scorer.evaluator)
            attributed, _ = drift.drift_report(project, used=ingestor.scorer.evaluator)
            return {**found, "change": None if change is None else change.to_json(), "drift": attributed}

        yield Service(ingestor, load_report if monitoring else None, log=log, keeps_spans=bool(sinks))


def scoring_problem(project: Workspace, evaluator: Path, ask: bool = False) -> str | None:
    """Return why an evaluator cannot score live; `None` if it can."""
    try:
        loaded = load_evaluator(evaluator)
        check_scale(project.rubric, loaded)
        LiveScorer(loaded, models=project.models if ask else None, limits=project.config.live)
    except AccordError as error:
        return str(error)
    return None


@asynccontextmanager
async def _delay_rejection() -> AsyncIterator[None]:
    """Delay the rejection of a large request by one second to slow down clients that send many large requests."""
    try:
        yield
    except (QueueFull, BadInput):
        await asyncio.sleep(1)
        raise


def _without_gc(function: Callable[[], T]) -> T:
    """Call a function without garbage collection, which would hold the GIL for long among a million new objects."""
    gc.disable()
    try:
        return function()
    except BadInput as error:
        reason, kind = str(error), type(error) if isinstance(error, Unprocessable) else BadInput
    finally:
        gc.enable()
    raise kind(reason)  # a new exception: the traceback of the first one holds the whole request


def _cached(load: Callable[[], MonitoringReport]) -> Callable[[], MonitoringReport]:
    """Cache a report for `REPORT_SECONDS`: aggregating many systems takes seconds."""
    lock = Lock()
    cache: list[tuple[float, MonitoringReport]] = []

    def load_cached() -> MonitoringReport:
        with lock:
            if not cache or time.monotonic() - cache[0][0] >= REPORT_SECONDS:
                cache[:] = [(time.monotonic(), load())]
            return cache[0][1]

    return load_cached


def within(span: str | None, parsed: Sequence[Message | LiveRow]) -> Sequence[Message | LiveRow]:
    """Return messages with the span of their request, unless they name their own."""
    if span is None:
        return parsed
    return [
        replace(each, traceparent=span) if isinstance(each, Message) and each.traceparent is None else each
        for each in parsed
    ]

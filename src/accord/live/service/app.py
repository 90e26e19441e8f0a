"""HTTP API of live scoring: messages and OpenTelemetry traces in; scores, metrics and an API description out.

`Service` holds the state that the routes share. `make_app` puts the routes behind a token guard and counts requests.
"""

from __future__ import annotations

import asyncio
import gc
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, ParamSpec, TypeVar
from urllib.parse import unquote

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from accord.edges import AccordError, BadInput
from accord.formats import Fields
from accord.learning import load_evaluator
from accord.live.ingest import Ingestor, LiveRow, Observe, SaveRows, open_ingestor, refused_row
from accord.live.messages import TRACEPARENT, HistoryDeduplicator, LogOnce, Message
from accord.live.monitoring import MonitoringReport, report
from accord.live.scorer import LiveScorer
from accord.live.service import schemas
from accord.live.service.decision_requests import Dialect, EvaluatorAnswers, Unprocessable, parse_decision
from accord.live.service.fair_queue import MAX_CONCURRENT_CHUNKS, MAX_WAITING, FairQueue, QueueFull, ScoringTimeout
from accord.live.service.middleware import MAX_BODY_BYTES, REQUEST_SECONDS, App, TokenGuard
from accord.live.service.otlp import LOGS, TRACES, Signal, parse_export, traceparents
from accord.live.service.prometheus import RequestCounter, ServiceMetrics
from accord.live.service.request_bodies import parse_messages, refusal_of
from accord.live.service.schemas import JSON, PROTOBUF, media_type
from accord.project import Project, check_question, check_scale
from accord.values import JsonSchema
from accord.version import __version__

DESCRIPTION = "Scores of live conversations: each reply is scored when it arrives."
CONVERSATION_HEADER = "X-Conversation-Id"
"""Optional header with the conversation id, for proxies that route by it; must match the messages of the request."""
LARGE_BODY_BYTES = 32 * 2**10
"""Larger requests are parsed in a thread, one at a time, so that parsing them does not delay small requests."""
SOURCE = "otel"
REPORT_SECONDS = 5.0
"""Time for which a monitoring report is cached."""
RETRY_HEADERS = {"Retry-After": "1"}
EXPORT_PATHS = frozenset({"/v1/traces", "/v1/logs"})
OPENAI_PATH = "/v1/decisions"
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
        self.metrics = ServiceMetrics(scorer, lambda: self.queue.waiting)
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
        rows = await self.score(_within(span, request.messages), client)
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
    project: Project,
    evaluator: Path,
    annotator: str | None = None,
    out: Path | None = None,
    conversations: int = 10_000,
    seconds: float = 3600.0,
    monitoring: bool = True,
    ask: bool = False,
    log: Callable[[str], None] = lambda text: None,
    observers: Sequence[Callable[[LiveScorer], Observe]] = (),
    publish: SaveRows = lambda rows: None,
) -> Iterator[Service]:
    """Open a service for an evaluator of a project.

    Arguments and errors are those of `open_ingestor`, with the settings, the store and the models of the project. `ask`
    lets sources that are not live send requests.
    """
    config = project.config
    with open_ingestor(
        evaluator,
        annotator,
        out,
        project.store if monitoring else None,
        config.monitoring,
        log,
        conversations,
        seconds,
        models=project.models if ask else None,
        limits=config.live,
        mart=project.mart if monitoring else None,
        check=lambda loaded: check_question(project.store, project.rubric, loaded),
        redactor=config.privacy.redactor("import"),
        observers=observers,
        publish=publish,
    ) as ingestor:
        load_report = partial(report, project.store, before=lambda _: ingestor.settle())
        yield Service(ingestor, load_report if monitoring else None, log=log, keeps_spans=bool(observers))


def scoring_problem(project: Project, evaluator: Path, ask: bool = False) -> str | None:
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
    """Delay the rejection of a large request by one second, which slows down clients that send many of them."""
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


def make_app(
    service: Service,
    token: str,
    body: int = MAX_BODY_BYTES,
    seconds: float = REQUEST_SECONDS,
    loopback_only: bool = False,
) -> RequestCounter:
    """Return the ASGI application of live scoring; arguments are those of `TokenGuard`."""
    return RequestCounter(TokenGuard(_routes(service), token, body, seconds, loopback_only), service.metrics)


def unavailable_app(reason: str, token: str, body: int = MAX_BODY_BYTES, loopback_only: bool = False) -> App:
    """Return an ASGI application that answers the paths of live scoring with 503 and the reason.

    The health check answers 200, because the pages are served.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "degraded"}

    app.mount("/", JSONResponse({"error": f"live scoring is off: {reason}"}, 503))
    return TokenGuard(app, token, body, loopback_only=loopback_only)


def _routes(service: Service) -> FastAPI:
    @asynccontextmanager
    async def run_queue(_: FastAPI) -> AsyncIterator[None]:
        scoring = asyncio.create_task(service.queue.run())
        yield
        scoring.cancel()

    app = FastAPI(
        title="Accord", version=__version__, description=DESCRIPTION, lifespan=run_queue, docs_url=None, redoc_url=None,
        openapi_url="/v1/openapi.json",
    )  # fmt: skip
    _add_error_handlers(app)
    _add_scores(app, service)
    _add_decisions(app, service)
    _add_exports(app, service)
    _add_reports(app, service)
    return app


def _add_error_handlers(app: FastAPI) -> None:
    """Answer errors with a JSON object that holds the message."""

    @app.exception_handler(QueueFull)
    async def queue_full(request: Request, error: QueueFull) -> Response:
        status = 429 if request.url.path in EXPORT_PATHS else 503  # exporters slow down at 429, clients retry at 503
        return _error(request, "too many messages wait; send this again in a second", status, RETRY_HEADERS)

    @app.exception_handler(ScoringTimeout)
    async def timeout(request: Request, error: ScoringTimeout) -> Response:
        return _error(request, str(error), 503, RETRY_HEADERS)

    @app.exception_handler(AccordError)
    async def invalid(request: Request, error: AccordError) -> Response:
        status = 400 if isinstance(error, BadInput) else 500
        return _error(request, str(error), error.status if isinstance(error, Unprocessable) else status)

    @app.exception_handler(OSError)
    async def storage(request: Request, error: OSError) -> Response:
        return JSONResponse({"error": f"scores cannot be stored: {error.strerror}; send this again later"}, 503)

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": f"{type(error).__name__}, which is a bug; please report it"}, 500)

    @app.exception_handler(HTTPException)
    async def not_found(request: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": f"{error.detail}; see /docs"}, error.status_code)


def _error(request: Request, reason: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error; OpenAI's clients show the reason only in OpenAI's form."""
    openai = {"message": reason, "type": "invalid_request_error", "param": None, "code": None}
    body = openai if request.url.path == OPENAI_PATH else reason
    return JSONResponse({"error": body}, status, headers)


def _add_scores(app: FastAPI, service: Service) -> None:
    @app.post("/v1/scores", summary="Score a message, a batch or a conversation", openapi_extra=schemas.scores())
    async def scores(request: Request) -> Response:
        """Returns a row for each message, in order: scored, unscored, heard or refused."""
        header, content_type = request.headers.get(CONVERSATION_HEADER), request.headers.get("content-type", "")
        parsed, is_batch = await service.parse(await request.body(), content_type, header)
        _check_conversation(header, parsed)
        rows = await service.score(_within(_span(request), parsed), _client(request))
        if is_batch:
            is_refused = bool(rows) and all(row["status"] == "refused" for row in rows)
            return (
                JSONResponse({"error": refusal_of(rows), "scores": rows}, 422)
                if is_refused
                else JSONResponse({"scores": rows})
            )
        return JSONResponse(rows[0], 422 if rows[0]["status"] == "refused" else 200)


def _add_decisions(app: FastAPI, service: Service) -> None:
    async def decide(request: Request, dialect: Dialect) -> Response:
        content_type = request.headers.get("content-type", "")
        found = await service.decide(await request.body(), content_type, dialect, _client(request), _span(request))
        return JSONResponse(found)

    @app.post("/v1/systemone", summary="Questions to the evaluator (System One)", openapi_extra=schemas.systemone())
    async def systemone(request: Request) -> Response:
        """Answers questions of the rubric about a conversation, for clients of decision models."""
        return await decide(request, "systemone")

    @app.post(OPENAI_PATH, summary="Questions to the evaluator (OpenAI)", openapi_extra=schemas.decisions())
    async def decisions(request: Request) -> Response:
        """Answers questions of the rubric about a conversation, for clients of OpenAI's decisions endpoint."""
        return await decide(request, "decisions")


def _check_conversation(header: str | None, parsed: Sequence[Message | LiveRow]) -> None:
    """Check that all messages belong to the conversation by which a proxy routed the request.

    Raises:
        BadInput: A message belongs to another conversation.
    """
    if header is None:
        return
    for message in parsed:
        if isinstance(message, Message) and message.conversation not in (header, unquote(header)):
            raise BadInput(
                f"the header {CONVERSATION_HEADER} names another conversation than a message of this request; send "
                "one request per conversation"
            )


def _add_exports(app: FastAPI, service: Service) -> None:
    async def ingest(request: Request, signal: Signal) -> Response:
        content_type = request.headers.get("content-type", "")
        errors, reason = await service.ingest_export(await request.body(), content_type, signal, _client(request))
        if media_type(content_type) == JSON:
            partial_success = {signal.rejected: errors, "errorMessage": reason}
            return JSONResponse({"partialSuccess": partial_success} if errors else {})
        return Response(signal.answer(errors, reason), media_type=PROTOBUF)

    @app.post("/v1/traces", summary="OpenTelemetry traces (OTLP/HTTP)", openapi_extra=schemas.traces())
    async def traces(request: Request) -> Response:
        """Scores the replies of GenAI spans; a span may repeat the earlier turns of its conversation."""
        return await ingest(request, TRACES)

    @app.post("/v1/logs", summary="OpenTelemetry log records (OTLP/HTTP)", openapi_extra=schemas.traces())
    async def logs(request: Request) -> Response:
        """Scores the replies of GenAI events, which some instrumentations write in addition to spans."""
        return await ingest(request, LOGS)


def _add_reports(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", summary="Health check")
    async def healthz() -> dict[str, str]:
        """Answers while the server runs; needs no token."""
        return {"status": "ok"}

    @app.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def metrics() -> Response:
        """Requests, messages, latency, scores by assistant version, memory."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/evaluator", summary="Evaluator in use")
    def evaluator() -> dict[str, Any]:
        """Parameters that the evaluator learned."""
        return service.ingestor.scorer.evaluator.describe()

    @app.get("/v1/watch", summary="Monitoring report", response_model=dict[str, Any])
    async def watch() -> MonitoringReport:
        """Mean scores by assistant version and day with intervals, alarms, evaluator changes, replies to label next."""
        if service.load_report is None:
            raise BadInput("monitoring is off: the service was started with --no-watch")
        return await run_in_threadpool(service.load_report)

    @app.get("/v1/schema", summary="JSON Schema of messages and rows", response_model=dict[str, Any])
    async def schema() -> JsonSchema:
        """Request and response bodies of `/v1/scores`."""
        return schemas.message_schema()

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def docs() -> str:
        return schemas.api_page(app.openapi())


def _span(request: Request) -> str | None:
    """Return the trace context of a request, by the header `traceparent`; None without a valid one."""
    header = request.headers.get("traceparent", "")
    return header if re.fullmatch(TRACEPARENT, header) else None


def _within(span: str | None, parsed: Sequence[Message | LiveRow]) -> Sequence[Message | LiveRow]:
    """Return messages with the span of their request, unless they name their own."""
    if span is None:
        return parsed
    return [
        replace(each, traceparent=span) if isinstance(each, Message) and each.traceparent is None else each
        for each in parsed
    ]


def _client(request: Request) -> str:
    """Return a key of the client connection."""
    return str(request.scope.get("client"))

"""HTTP API of live scoring: messages and OpenTelemetry traces in; scores, metrics and an API description out.

`Service` holds the state that the routes share. `make_app` puts the routes behind a token guard and counts requests.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from accord.edges import AccordError, BadInput
from accord.live.ingest import LiveRow
from accord.live.messages import TRACEPARENT, Message
from accord.live.monitoring import MonitoringReport
from accord.live.service import schemas
from accord.live.service.decision_requests import Dialect, Unprocessable
from accord.live.service.fair_queue import QueueFull, ScoringTimeout
from accord.live.service.middleware import MAX_BODY_BYTES, REQUEST_SECONDS, App, TokenGuard
from accord.live.service.otlp import LOGS, TRACES, Signal
from accord.live.service.prometheus import RequestCounter
from accord.live.service.request_bodies import refusal_of
from accord.live.service.schemas import JSON, PROTOBUF, media_type
from accord.live.service.service import Service, within
from accord.store import StoreError
from accord.values import JsonSchema
from accord.version import __version__

DESCRIPTION = "Scores of live conversations: each reply is scored when it arrives."
CONVERSATION_HEADER = "X-Conversation-Id"
"""Optional header with the conversation id, for proxies that route by it; must match the messages of the request."""
RETRY_HEADERS = {"Retry-After": "1"}
EXPORT_PATHS = frozenset({"/v1/traces", "/v1/logs"})
OPENAI_PATH = "/v1/decisions"


def make_app(
    service: Service,
    token: str,
    body: int = MAX_BODY_BYTES,
    seconds: float = REQUEST_SECONDS,
    loopback_only: bool = False,
) -> RequestCounter:
    """Return the ASGI application of live scoring with the arguments of `TokenGuard`."""
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
        if isinstance(error, StoreError):
            return _error(request, str(error), 503, RETRY_HEADERS)
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
        rows = await service.score(within(_span(request), parsed), _client(request))
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
    """Return the trace context of a request from the header `traceparent`, or `None` if it is missing or invalid."""
    header = request.headers.get("traceparent", "")
    return header if re.fullmatch(TRACEPARENT, header) else None


def _client(request: Request) -> str:
    """Return a key of the client connection."""
    return str(request.scope.get("client"))

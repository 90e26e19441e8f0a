"""Live scoring over HTTP: messages and OpenTelemetry traces in, scores, figures and a page that describes them out.

`Service` is what the routes share, `make_app` puts them behind a guard and counts every request for Prometheus.
"""

from __future__ import annotations

import asyncio
import gc
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from threading import Lock
from typing import Any, ParamSpec, Protocol, TypeVar

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse, Response
from markupsafe import Markup, escape
from starlette.exceptions import HTTPException

from accord.edges import AccordError, BadInput
from accord.formats import Fields
from accord.live.ingest import Ingestor, Row, refused
from accord.live.messages import HistoryDeduplicator, Message, Once, message_from
from accord.live.monitoring.monitor import WatchReport
from accord.live.service import schemas
from accord.live.service.fair_queue import ASKED_AT_ONCE, WAITING, Batcher, Busy, Late
from accord.live.service.middleware import BODY, SECONDS, App, TokenGuard
from accord.live.service.otlp import export_of
from accord.live.service.prometheus import Counted, Gauges
from accord.live.service.schemas import JSON, LOGS, PROTOBUF, TRACES, Signal, media_type
from accord.values import JsonSchema
from accord.version import __version__

ABOUT = "Scores of live conversations: each reply is scored as it is said."
LARGE = 32 * 2**10
"""Bytes from which on a request is read in a thread of its own, one at a time, so that small ones are not held up."""
OTLP = "otel"
_States = Mapping[str, tuple[Any, Any]]
"""What was known of each conversation of an export before it, and after it."""
P = ParamSpec("P")
T = TypeVar("T")


class Sharing(Protocol):
    """Other processes that have some of the conversations (`peers.Peers`)."""

    async def take(self, batch: Sequence[Message], client: str) -> list[Row]:
        """A row per message, wherever its conversation is remembered."""

    async def trace(self, groups: Mapping[str, list[Fields]], client: str) -> tuple[list[Row], list[str]]:
        """What parts of an export tell, wherever their conversations are remembered."""

    async def settle(self) -> None:
        """Have all put what was watched where reports find it."""

    async def health(self) -> list[dict[str, Any]]:
        """Of each whether it answers."""

    async def figures(self) -> bytes:
        """What all of them counted."""


def described(openapi: Mapping[str, Any]) -> str:
    """The page."""
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["shape"] = _shape
    environment.filters["coded"] = _coded
    environment.filters["as_json"] = lambda value: json.dumps(value, indent=1, ensure_ascii=False)
    page = files("accord.live.service").joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(page).render(api=openapi)


def _coded(text: str) -> Markup:
    """A text, escaped, with what stands between backticks as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _shape(schema: Mapping[str, Any]) -> str:
    """What a field may be, in words."""
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_shape(each) for each in schema["anyOf"])
    kind = schema.get("type", "anything")
    named = " or ".join(kind) if isinstance(kind, list) else str(kind)
    inner = f" of {_shape(schema['items'])}s" if "items" in schema else ""
    return named + inner


FRESH = 5.0
"""Seconds that a report of what is watched is told again."""
COME_AGAIN = {"Retry-After": "1"}
EXPORTS = frozenset({"/v1/traces", "/v1/logs"})


class Service:
    """What the routes share.

    Args:
        ingestor: Takes messages in.
        watched: What was scored in the last days, as JSON; without it nothing is watched.
        most: Messages that may wait.
        say: Told in a line, once, why traces say nothing.
    """

    def __init__(
        self,
        ingestor: Ingestor,
        watched: Callable[[], WatchReport] | None = None,
        most: int = WAITING,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        scorer = ingestor.scorer
        self.ingestor, self.watched = ingestor, None if watched is None else _one_at_a_time(watched)
        self.batcher = Batcher(
            ingestor, most, scorer.limits.timeout_seconds, ASKED_AT_ONCE if scorer.asks else 1, scorer.work
        )
        self.gauges, self._say = Gauges(scorer, lambda: self.batcher.waiting), Once(say)
        self.unfolding = HistoryDeduplicator(scorer.conversations, scorer.room, self._passed_over)
        self.peers: Sharing | None = None
        self._unfolding = Lock()
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="reading")

    async def read(self, body: bytes, content_type: str) -> tuple[list[Message | Row], bool]:
        """A request's messages, with a row in the place of what is none; and whether they are a batch.

        Raises:
            BadInput: It is no request for scores.
            Busy: Too many messages wait.
        """
        if len(body) < LARGE:
            self.batcher.check_room()
            return _messages_of(body, content_type)
        async with _held_back():
            self.batcher.check_room(2)
            return await self.aside(_messages_of, body, content_type)

    async def aside(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What reading gives; it is read in a thread, so that requests of others are heard meanwhile."""
        reading = partial(_uncollected, partial(read, *args, **kwargs))
        return await asyncio.get_running_loop().run_in_executor(self._reading, reading)

    async def score(self, read: Sequence[Message | Row], client: str = "") -> list[Row]:
        """Messages to what came of them; one that is no message costs the others nothing.

        Raises:
            Busy: Too many messages wait.
            Late: Nothing was done in time.
        """
        said = [each for each in read if isinstance(each, Message)]
        if len(read) == 1:
            scored = iter(await self._taken(said, client))
        else:
            async with _held_back():
                scored = iter(await self._taken(said, client))
        found = [next(scored) if isinstance(each, Message) else each for each in read]
        self.gauges.count(found)
        return found

    def _passed_over(self, reason: str) -> None:
        self.gauges.passed_over.labels(reason).inc()
        self._say(reason)

    async def trace(self, body: bytes, content_type: str, signal: Signal, client: str = "") -> tuple[int, str]:
        """Take the model calls of an export in; how many parts of it could not be read, and why the first.

        Raises:
            BadInput: It is no export.
            Busy: Too many messages wait.
            Late: Not all was done in time.
        """
        self.batcher.check_room()
        groups, bad = await self.aside(self._grouped, signal, body, content_type)
        taken = self.trace_here if self.peers is None else self.peers.trace
        found, more = await taken(groups, client)
        self.gauges.count(found)
        bad += more
        self.gauges.count([refused(reason) for reason in bad])
        return len(bad), bad[0] if bad else ""

    def _grouped(self, signal: Signal, body: bytes, content_type: str) -> tuple[dict[str, list[Fields]], list[str]]:
        export = signal.checked(export_of(body, content_type, signal))
        with self._unfolding:
            return self.unfolding.groups(export, "otlp", OTLP)

    async def trace_here(self, groups: Mapping[str, list[Fields]], client: str) -> tuple[list[Row], list[str]]:
        """The rows of what is new in parts of an export that belong here, and why some of them tell nothing.

        Raises:
            Busy: Too many messages wait.
            Late: Not all was done in time.
        """
        said, bad, states = await self.aside(self._unfolded, groups)
        found: list[Row] = []
        try:
            found = await self.batcher.take(said, client) if said else []
            if any(row.get("taken") is False for row in found):
                raise Late(f"not all was scored within {self.batcher.seconds:g} seconds; send it again")
        except Late:
            self._take_back(states, found)
            raise
        except BaseException:
            for each in said:  # whoever sends it again finds it new
                self.unfolding.forget(each.conversation)
            raise
        return found, bad

    def _take_back(self, states: _States, found: Sequence[Row]) -> None:
        """Whoever sends an export again finds new what was not taken in, and nothing of other conversations."""
        taken = {row["conversation"] for row in found if row.get("taken") is not False}
        late = {row["conversation"] for row in found if row.get("taken") is False}
        with self._unfolding:
            for name, (before, after) in states.items():
                if name in taken & late:
                    self.unfolding.forget(name)
                elif name not in taken:
                    self.unfolding.take_back(name, before, after)

    def _unfolded(self, groups: Mapping[str, list[Fields]]) -> tuple[list[Message], list[str], _States]:
        """What is new, why some parts say nothing, and what was known of each conversation before and after.

        Raises:
            Busy: Too many messages wait; all is as it was before.
        """
        with self._unfolding:
            before = {name: self.unfolding.state(name) for name in groups}
            said, bad = self.unfolding.heard(groups, OTLP)
            states = {name: (known, self.unfolding.state(name)) for name, known in before.items()}
            try:
                self.batcher.check_room(len(said))
            except Busy:
                for name, (known, now) in states.items():
                    self.unfolding.take_back(name, known, now)
                raise
        return said, bad, states

    async def _taken(self, batch: Sequence[Message], client: str) -> list[Row]:
        if self.peers is None or not batch:
            return await self.take_here(batch, client)
        return await self.peers.take(batch, client)

    async def take_here(self, batch: Sequence[Message], client: str) -> list[Row]:
        """The rows of messages whose conversations are remembered here.

        Raises:
            Busy: Too many messages wait.
            Late: Nothing was done in time.
        """
        self.batcher.check_room(len(batch))
        return await self.batcher.take(batch, client) if batch else []


@asynccontextmanager
async def _held_back() -> AsyncIterator[None]:
    """Whoever sends much in vain is told so after a second: it is as soon as to come again, and costs nothing."""
    try:
        yield
    except (Busy, BadInput):
        await asyncio.sleep(1)
        raise


def _uncollected(read: Callable[[], T]) -> T:
    """What reading gives, without looking for cycles among a million new objects meanwhile, which nobody could stop."""
    gc.disable()
    try:
        return read()
    except BadInput as error:
        reason = str(error)
    finally:
        gc.enable()
    raise BadInput(reason)  # anew: the first one's traceback keeps all that was read


def _one_at_a_time(tell: Callable[[], WatchReport]) -> Callable[[], WatchReport]:
    """Tell again what was told a moment ago: adding up the days of many systems takes seconds."""
    lock, told = Lock(), list[tuple[float, WatchReport]]()

    def tells() -> WatchReport:
        with lock:
            if not told or time.monotonic() - told[0][0] >= FRESH:
                told[:] = [(time.monotonic(), tell())]
            return told[0][1]

    return tells


def _read(row: Any) -> Message | Row:
    try:
        return message_from(row)
    except BadInput as error:
        return refused(str(error), row)


def make_app(
    service: Service, token: str, body: int = BODY, seconds: float = SECONDS, loopback_only: bool = False
) -> Counted:
    """The ASGI application: routes behind the guard, and every request counted.

    Args:
        service: What the routes share.
        token: Required from every client, except for the paths in `OPEN_PATHS`.
        body: Bytes that a request may have.
        seconds: For a request to arrive in.
        loopback_only: Whether the client's address and the Host header must be loopback.
    """
    return Counted(TokenGuard(_routes(service), token, body, seconds, loopback_only), service.gauges)


def unavailable_app(reason: str, token: str, body: int = BODY, loopback_only: bool = False) -> App:
    """Return an ASGI application for the addresses of live scoring that answers 503 with the reason.

    The health check answers 200, because the pages of the workbench are served.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "degraded"}

    app.mount("/", JSONResponse({"error": f"live scoring is off: {reason}"}, 503))
    return TokenGuard(app, token, body, loopback_only=loopback_only)


def _routes(service: Service) -> FastAPI:
    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        scoring = asyncio.create_task(service.batcher.run())
        yield
        scoring.cancel()

    app = FastAPI(
        title="Accord", version=__version__, description=ABOUT, lifespan=running, docs_url=None, redoc_url=None,
        openapi_url="/v1/openapi.json",
    )  # fmt: skip
    _catch(app)
    _add_scores(app, service)
    _add_traces(app, service)
    _add_pages(app, service)
    return app


def _catch(app: FastAPI) -> None:
    """Say what went wrong as JSON."""

    @app.exception_handler(Busy)
    async def busy(request: Request, error: Busy) -> Response:
        status = 429 if request.url.path in EXPORTS else 503  # exporters slow down at the one, clients retry the other
        return JSONResponse({"error": "too many messages wait; send this again in a second"}, status, COME_AGAIN)

    @app.exception_handler(Late)
    async def late(request: Request, error: Late) -> Response:
        return JSONResponse({"error": str(error)}, 503, COME_AGAIN)

    @app.exception_handler(AccordError)
    async def wrong(request: Request, error: AccordError) -> Response:
        return JSONResponse({"error": str(error)}, 400 if isinstance(error, BadInput) else 500)

    @app.exception_handler(OSError)
    async def broken(request: Request, error: OSError) -> Response:
        return JSONResponse({"error": f"scores cannot be kept: {error.strerror}; send this again later"}, 503)

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": f"{type(error).__name__}, which is a bug; please report it"}, 500)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": f"{error.detail}; see /docs"}, error.status_code)


def _add_scores(app: FastAPI, service: Service) -> None:
    @app.post("/v1/scores", summary="Score one message, or a batch", openapi_extra=dict(schemas.scores()))
    async def scores(request: Request) -> Response:
        """Takes messages in, in their order, and gives a row for each: scored, unscored, heard, or refused."""
        read, is_batch = await service.read(await request.body(), request.headers.get("content-type", ""))
        rows = await service.score(read, _client(request))
        if is_batch:
            return JSONResponse({"scores": rows})
        return JSONResponse(rows[0], 422 if rows[0]["status"] == "refused" else 200)


def _add_traces(app: FastAPI, service: Service) -> None:
    async def taken(request: Request, signal: Signal) -> Response:
        kind = request.headers.get("content-type", "")
        bad, why = await service.trace(await request.body(), kind, signal, _client(request))
        if media_type(kind) == JSON:
            return JSONResponse({"partialSuccess": {signal.rejected: bad, "errorMessage": why}} if bad else {})
        return Response(signal.answer(bad, why), media_type=PROTOBUF)

    @app.post("/v1/traces", summary="OpenTelemetry traces (OTLP/HTTP)", openapi_extra=dict(schemas.traces()))
    async def traces(request: Request) -> Response:
        """Takes the model calls of GenAI spans in; conversations may repeat what was said before."""
        return await taken(request, TRACES)

    @app.post("/v1/logs", summary="OpenTelemetry log records (OTLP/HTTP)", openapi_extra=dict(schemas.traces()))
    async def logs(request: Request) -> Response:
        """Takes the messages of GenAI events in, which some instrumentations write beside the spans."""
        return await taken(request, LOGS)


def _add_pages(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", summary="Whether the service is there")
    async def healthz() -> dict[str, Any]:
        """Answers while requests are served, with the status of each worker if there are several; needs no token."""
        workers = [] if service.peers is None else await service.peers.health()
        if not workers:
            return {"status": "ok"}
        return {"status": "ok" if all(each["status"] == "ok" for each in workers) else "degraded", "workers": workers}

    @app.get("/metrics", summary="Figures for Prometheus", response_class=Response)
    async def metrics() -> Response:
        """Requests, messages, seconds, scores by system, memory."""
        text = service.gauges.text() if service.peers is None else await service.peers.figures()
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/evaluator", summary="Who scores")
    def evaluator() -> dict[str, Any]:
        """What the evaluator learned."""
        return service.ingestor.scorer.evaluator.describe()

    @app.get("/v1/watch", summary="What was scored in the last days", response_model=dict[str, Any])
    async def watch() -> WatchReport:
        """Means a system and a day with intervals, alarms, changes of the evaluator, and what to label next."""
        if service.watched is None:
            raise BadInput("nothing is watched: this service was started with --no-watch")
        if service.peers is not None:
            await service.peers.settle()
        return await run_in_threadpool(service.watched)

    @app.get("/v1/schema", summary="JSON Schema of messages and rows", response_model=dict[str, Any])
    async def schema() -> JsonSchema:
        """What `/v1/scores` takes and gives."""
        return schemas.message_schema()

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def docs() -> str:
        return described(app.openapi())


def _client(request: Request) -> str:
    """Who asks: a connection."""
    return str(request.scope.get("client"))


def _messages_of(body: bytes, content_type: str) -> tuple[list[Message | Row], bool]:
    """A request's messages, with a row in the place of what is none; and whether they are a batch.

    Raises:
        BadInput: It is no request for scores.
    """
    found = _json_of(body, content_type)
    if not isinstance(found, dict) or "messages" not in found:
        return [_read(found)], False
    messages = found["messages"]
    if len(found) > 1 or not isinstance(messages, list):
        raise BadInput("a batch is an object with a list of messages, and nothing else")
    if len(messages) > schemas.BATCH:
        raise BadInput(f"a batch of {len(messages)} messages; at most {schemas.BATCH} come at once")
    return [_read(row) for row in messages], True


def _json_of(body: bytes, content_type: str) -> Any:
    """A request's JSON.

    Raises:
        BadInput: It is none, or does not say that it is: a page in a browser may send anything else unasked.
    """
    if media_type(content_type) != JSON:
        raise BadInput(f"content type {content_type!r}; send application/json")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        at = f" at byte {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise BadInput(f"the body is no JSON{at}; send one message, or {{'messages': [...]}}") from None

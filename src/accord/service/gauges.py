"""What the service tells Prometheus about itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, Summary, generate_latest

from accord.live.intake import Row
from accord.service.guard import App, Receive, Scope, Send
from accord.version import __version__
from accord.watching.names import Names

SYSTEMS = 50
"""The most systems whose scores are told apart."""


class Gauges:
    """Counters of one service, in a registry of their own."""

    def __init__(self, evaluator: str, conversations: Callable[[], float], waiting: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        kept = self.registry
        self.requests = Counter("accord_requests", "Requests by path and status.", ["path", "status"], registry=kept)
        self.messages = Counter("accord_messages", "Messages by what came of them.", ["status"], registry=kept)
        self.seconds = Histogram(
            "accord_request_seconds", "Seconds from a request's arrival to its answer.", registry=kept,
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
        )  # fmt: skip
        self.scores = Summary("accord_score", "Scores by system.", ["system"], registry=kept)
        Gauge("accord_conversations", "Conversations remembered.", registry=kept).set_function(conversations)
        Gauge("accord_waiting_messages", "Messages that wait to be scored.", registry=kept).set_function(waiting)
        Info("accord_evaluator", "Who scores.", registry=kept).info({"signature": evaluator, "version": __version__})
        self._systems = Names(SYSTEMS)

    def count(self, rows: Iterable[Row]) -> None:
        """Take what came of some messages into account."""
        for row in rows:
            self.messages.labels(row["status"]).inc()
            if row["status"] == "scored" and not row.get("again"):
                self.scores.labels(self._systems.of(row.get("system") or "")).observe(row["value"])

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)


class Counted:
    """An ASGI application around another that counts and times its requests."""

    def __init__(self, app: App, gauges: Gauges) -> None:
        self.app, self.gauges = app, gauges

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, and note how that went."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), "500"

        async def noted(event: MutableMapping[str, Any]) -> None:
            nonlocal status
            if event["type"] == "http.response.start":
                status = str(event["status"])
            await send(event)

        try:
            await self.app(scope, receive, noted)
        finally:
            path = getattr(scope.get("route"), "path", "(none)")
            self.gauges.requests.labels(path, status).inc()
            self.gauges.seconds.observe(time.perf_counter() - start)

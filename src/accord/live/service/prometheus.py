"""What a service counts for Prometheus: requests, messages, scores by system, and what it holds at present."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, Summary, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from accord.edges import LONGEST_NAME, one_line
from accord.live.ingest import Row
from accord.live.monitoring.daily_sketch import Names
from accord.live.scorer import LiveScorer
from accord.live.service.middleware import App, Receive, Scope, Send
from accord.version import __version__

SYSTEMS = 50
"""The most systems whose scores are told apart."""
Level = tuple[str, Callable[[], float]]
"""What a figure that rises and falls says, and what reads it."""


class Levels(Collector):
    """Figures that rise and fall, and who scores, read when they are asked for."""

    def __init__(self, levels: Mapping[str, Level], about: Callable[[], dict[str, str]]) -> None:
        self._levels, self._about = levels, about

    def collect(self) -> Iterator[Metric]:
        """Each of them."""
        for name, (told, read) in self._levels.items():
            yield GaugeMetricFamily(name, told, read())
        yield InfoMetricFamily("accord_evaluator", "Who scores.", self._about())


class Gauges:
    """Counters of one service, in a registry of their own."""

    def __init__(self, scorer: LiveScorer, waiting: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        kept = self.registry
        self.requests = Counter("accord_requests", "Requests by path and status.", ["path", "status"], registry=kept)
        self.messages = Counter("accord_messages", "Messages by what came of them.", ["status"], registry=kept)
        self.passed_over = Counter(
            "accord_spans_passed_over", "Spans and log records that said nothing, by reason.", ["reason"], registry=kept
        )
        self.seconds = Histogram(
            "accord_request_seconds", "Seconds from a request's arrival to its answer.", registry=kept,
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
        )  # fmt: skip
        self.scores = Summary("accord_score", "Scores by system.", ["system"], registry=kept)
        self._scorer, self._systems = scorer, Names(SYSTEMS)
        held = "Bytes of conversations and documents that are remembered, as estimated."
        self.levels: dict[str, Level] = {
            "accord_conversations": ("Conversations remembered.", lambda: len(scorer)),
            "accord_memory_bytes": (held, lambda: scorer.room.used),
            "accord_memory_limit_bytes": ("Bytes that these may have.", lambda: scorer.room.most),
            "accord_waiting_messages": ("Messages that wait to be scored.", waiting),
        }
        kept.register(Levels(self.levels, self.about))

    def about(self) -> dict[str, str]:
        """Who scores at present."""
        return {"signature": one_line(str(self._scorer.signature)), "version": __version__}

    def count(self, rows: Iterable[Row]) -> None:
        """Take what came of some messages into account."""
        for row in rows:
            self.messages.labels(row["status"]).inc()
            value = row.get("value")
            if value is not None and not row.get("again"):
                self.scores.labels(self._systems.of(one_line(row.get("system") or "", LONGEST_NAME))).observe(value)

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

"""Prometheus metrics of the service: requests, messages, scores by system, and memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, Summary, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from accord.edges import LONGEST_NAME, one_line
from accord.live.daily_sketch import NameLimit
from accord.live.ingest import LiveRow
from accord.live.scorer import LiveScorer
from accord.live.service.middleware import App, Receive, Scope, Send
from accord.version import __version__

if TYPE_CHECKING:
    from accord.decisions import BatchChange

MAX_SYSTEMS = 50
"""Systems with scores of their own; further systems share one label."""


class ScorerGauges(Collector):
    """Gauges of a scorer, read when Prometheus asks for them."""

    def __init__(self, scorer: LiveScorer, waiting: Callable[[], float]) -> None:
        self._scorer, self._waiting = scorer, waiting

    def collect(self) -> Iterator[Metric]:
        """Return the current values."""
        scorer = self._scorer
        yield GaugeMetricFamily("accord_conversations", "Conversations in memory.", len(scorer))
        yield GaugeMetricFamily(
            "accord_memory_bytes", "Estimated size of conversations and documents in memory.", scorer.memory.used
        )
        yield GaugeMetricFamily("accord_memory_limit_bytes", "Maximum of accord_memory_bytes.", scorer.memory.most)
        yield GaugeMetricFamily("accord_waiting_messages", "Messages waiting to be scored.", self._waiting())
        signature, level = one_line(str(scorer.signature)), scorer.evaluator.level or ""
        info = {"signature": signature, "version": __version__, "level": level}
        yield InfoMetricFamily("accord_evaluator", "Evaluator in use; `level` is that of the labels it learned.", info)


class ChangeGauges(Collector):
    """Gauges of the change of the latest batch of scores, by assistant version; `version` is empty for all."""

    def __init__(self, change: Callable[[], BatchChange | None]) -> None:
        self._change = change

    def collect(self) -> Iterator[Metric]:
        """Return the current values; nothing without a comparison."""
        found = self._change()
        if found is None:
            return
        labels = ["evaluator", "version", "bound"]
        scores = GaugeMetricFamily(
            "accord_batch_change", "Change of the mean score of the latest batch, with its interval.", labels=labels
        )
        people = GaugeMetricFamily(
            "accord_batch_people_change", "Change of people's mean rating behind it, with its interval.", labels=labels
        )
        versions = [("", found.scores), *((each.name, each.change) for each in found.groups
                                          if each.dimension == "version")]  # fmt: skip
        rows = [(scores, version, change) for version, change in versions] + [(people, "", found.people)]
        for family, version, change in rows:
            for bound, value in change.to_json().items():
                if value is not None:
                    family.add_metric([found.evaluator, one_line(version, LONGEST_NAME), bound], value)
        alarm = GaugeMetricFamily(
            "accord_batch_alarm", "1 if the scores of the latest batch fell or rose, else 0.",
            labels=["evaluator", "state"],
        )  # fmt: skip
        alarm.add_metric([found.evaluator, found.state], float(found.is_alarm))
        yield from (scores, people, alarm)


class ServiceMetrics:
    """Metrics of one service, in a registry of their own."""

    def __init__(
        self, scorer: LiveScorer, waiting: Callable[[], float], change: Callable[[], BatchChange | None] = lambda: None
    ) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "accord_requests", "Requests by path and status.", ["path", "status"], registry=registry
        )
        self.messages = Counter("accord_messages", "Messages by result.", ["status"], registry=registry)
        self.skipped_spans = Counter(
            "accord_spans_skipped", "Spans and log records without messages, by reason.", ["reason"],
            registry=registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "accord_request_seconds", "Seconds from the arrival of a request to its answer.", registry=registry,
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
        )  # fmt: skip
        self.scores = Summary("accord_score", "Scores by assistant version.", ["system"], registry=registry)
        self._systems = NameLimit(MAX_SYSTEMS)
        registry.register(ScorerGauges(scorer, waiting))
        registry.register(ChangeGauges(change))

    def count_rows(self, rows: Iterable[LiveRow]) -> None:
        """Count the results of some messages."""
        for row in rows:
            self.messages.labels(row["status"]).inc()
            value = row.get("value")
            if value is not None and not row.get("again"):
                system = one_line(row.get("system") or "", LONGEST_NAME)
                self.scores.labels(self._systems.limit(system)).observe(value)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)


class RequestCounter:
    """ASGI middleware that counts and times requests."""

    def __init__(self, app: App, metrics: ServiceMetrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and record its status and duration."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), "500"

        async def record_status(event: MutableMapping[str, Any]) -> None:
            nonlocal status
            if event["type"] == "http.response.start":
                status = str(event["status"])
            await send(event)

        try:
            await self.app(scope, receive, record_status)
        finally:
            path = getattr(scope.get("route"), "path", "(none)")
            self.metrics.requests.labels(path, status).inc()
            self.metrics.seconds.observe(time.perf_counter() - start)

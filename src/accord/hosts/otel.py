"""Scores as OpenTelemetry log records `gen_ai.evaluation.result`, sent to a collector by OTLP over HTTP.

The records hold the score, its reason, and identifiers; never a text of a conversation. They are sent in the background
and dropped if no collector takes them, so that scoring neither fails nor waits. The attributes follow the GenAI
conventions (github.com/open-telemetry/semantic-conventions-genai, status: development); others begin with `accord.`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

from accord.edges import MissingExtra, check_address
from accord.store import Store, batches
from accord.values import Signature

if TYPE_CHECKING:
    from opentelemetry.context import Context

    from accord.learning import Evaluator
    from accord.live import LiveScorer, NewScore
    from accord.values import ScoreRow

EVENT = "gen_ai.evaluation.result"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Variables of OpenTelemetry that name a collector."""
PROTOCOLS = ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_CREDENTIAL_PROVIDERS = (
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_LOGS_CREDENTIAL_PROVIDER", "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER",
)  # fmt: skip
"""Variables of OpenTelemetry that name a session of an installed package."""
CLOSE_SECONDS, FLUSH_SECONDS = 5.0, 30.0
"""Time for records that are not sent yet when scoring ends, and for the records of one flush of batch scoring."""
FLUSH_ROWS = 512
"""Records of batch scoring between two flushes: a quarter of the queue, which drops records beyond its size."""
UNSCORED = "unscored"
"""Value of `error.type` for a missing score."""
_LOGGERS = ("opentelemetry.exporter.otlp", "opentelemetry.sdk")
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
Log = Callable[[str], None]


class _ReportingExporter:
    """Exporter of another one's records that reports the first failure.

    The reason is not part of the report: it may hold an address with a secret.
    """

    def __init__(self, exporter: Any, log: Log) -> None:
        self._exporter, self._log, self.is_reported = exporter, log, False

    def export(self, batch: Sequence[Any]) -> Any:
        """Send records, and return the result of the exporter."""
        result = self._exporter.export(batch)
        if result.name != "SUCCESS":
            self.report()
        return result

    def report(self) -> None:
        """Report that records are lost, once."""
        if not self.is_reported:
            self.is_reported = True
            self._log("evaluation events do not reach the OpenTelemetry collector; scoring goes on without them")

    def force_flush(self, timeout_millis: int = 10_000) -> bool:
        """Send pending records."""
        return bool(self._exporter.force_flush(timeout_millis))

    def shutdown(self) -> None:
        """Stop the exporter, also between two attempts."""
        self._exporter.shutdown()


def _session() -> Any:
    """Return a session of HTTP requests in which a web page, such as the login page of a proxy, is a refusal."""
    from requests import Session

    def refuse_page(response: Any, **_: Any) -> Any:
        if response.headers.get("Content-Type", "").startswith("text/html"):
            response.status_code = 406
        return response

    session = Session()
    session.hooks["response"].append(refuse_page)
    return session


class EvaluationEvents:
    """Sends log records in the background.

    Args:
        url: Address for log records, such as `http://localhost:4318/v1/logs`; None takes OpenTelemetry's variables.
        log: Called once if records do not reach the collector.

    Raises:
        MissingExtra: The packages of `accord[otel]` are not installed.
        NotSent: A project names the address, and the user has not confirmed it.
    """

    def __init__(self, url: str | None = None, log: Log = lambda text: None) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
            from opentelemetry.sdk._logs import LoggerProvider
            from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
            from opentelemetry.sdk.resources import Resource
        except ImportError:
            raise MissingExtra("OpenTelemetry events", "otel") from None
        for address in [url] if url is not None else filter(None, map(os.environ.get, ENDPOINTS)):
            check_address(address)
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL)  # their messages may hold an address with a secret
        names = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        resource = Resource.create({} if names else {"service.name": "accord"})
        self._provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
        has_own_session = any(map(os.environ.get, _CREDENTIAL_PROVIDERS))
        exporter = OTLPLogExporter(endpoint=url, session=None if has_own_session else _session())
        self._exporter = _ReportingExporter(exporter, log)
        self._provider.add_log_record_processor(BatchLogRecordProcessor(self._exporter))  # type: ignore[arg-type, unused-ignore]
        self._logger = self._provider.get_logger("accord")

    def emit(
        self,
        row: ScoreRow,
        question: str,
        evaluator: Mapping[str, str],
        response: str | None = None,
        context: Context | None = None,
    ) -> None:
        """Queue the record of a score; if the queue is full, the oldest record is dropped.

        Args:
            row: The score.
            question: Id of the question that it answers.
            evaluator: Attributes of `identity`.
            response: Id of the scored message.
            context: Context of the span that produced it.
        """
        from opentelemetry._logs import LogRecord, SeverityNumber

        body = attributes_of(row, question, evaluator, response)
        number = SeverityNumber.INFO
        self._logger.emit(LogRecord(context=context, severity_number=number, attributes=body, event_name=EVENT))

    def flush(self) -> bool:
        """Wait until the queued records are sent; return False, without a wait, after the collector failed once."""
        if not self._exporter.is_reported and not self._provider.force_flush(round(FLUSH_SECONDS * 1000)):
            self._exporter.report()
        return not self._exporter.is_reported

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Send the queued records, and give up after some seconds."""
        thread = Thread(target=self._provider.shutdown, name="otel-close", daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            self._exporter.report()
            self._exporter.shutdown()  # ends the wait before another attempt


def attributes_of(
    row: ScoreRow, question: str, evaluator: Mapping[str, str], response: str | None = None
) -> dict[str, Any]:
    """Return the attributes of a record; of the notes of a score only the call, because others quote conversations."""
    notes, band = row["notes"] or {}, dict[str, float | None]()
    if row["band_low"] is not None:
        level = Signature.coverage_of(row["signature"])
        band = {
            "accord.score.band_low": row["band_low"],
            "accord.score.band_high": row["band_high"],
            "accord.score.band_level": level,
        }
    found: dict[str, Any] = {
        "gen_ai.evaluation.name": question,
        "gen_ai.evaluation.score.value": row["value"],
        "gen_ai.evaluation.score.label": notes.get("call"),
        "gen_ai.evaluation.explanation": row["unscored"] or row["warning"],
        "gen_ai.response.id": response,
        "gen_ai.conversation.id": row["conversation"],
        "error.type": None if row["unscored"] is None else UNSCORED,
        "accord.turn": row["turn"],
        "accord.score.low": row["low"],
        "accord.score.high": row["high"],
        **band,
        **evaluator,
    }
    return {name: value for name, value in found.items() if value is not None}


def identity(evaluator: Evaluator, store: Store) -> dict[str, str]:
    """Return the attributes that identify an evaluator: its name, its version, and the digest of its latest card."""
    version = evaluator.digest()
    cards = [run["results"] or {} for run in store.runs("card") if run["status"] == "done"]
    card = next((each["card"] for each in reversed(cards) if each.get("evaluator") == version), None)
    found = {"accord.evaluator.id": evaluator.name, "accord.evaluator.version": version}
    return found if card is None else {**found, "accord.card.digest": card}


# --- sources of scores -----------------------------------------------------------------------------------------------


@contextmanager
def open_events(url: str | None, log: Log) -> Iterator[EvaluationEvents | None]:
    """Open the events of a project if its settings or OpenTelemetry's variables name a collector; else yield None.

    Args:
        url: The setting `monitoring.otel`, or `None` if it is not set.
        log: Called with a sentence if the variables name a collector that cannot be used.

    Raises:
        MissingExtra: `url` is given, and the packages of `accord[otel]` are not installed.
        NotSent: A project names the address, and the user has not confirmed it.
    """
    if not _is_on(url, log):
        yield None
        return
    try:
        events = EvaluationEvents(url, log)
    except MissingExtra as error:
        if url is not None:
            raise
        log(f"no evaluation events are sent: {error}")
        yield None
        return
    try:
        yield events
    finally:
        events.close()


def _is_on(url: str | None, log: Log) -> bool:
    """Return True if events are sent."""
    variables = os.environ
    if variables.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if url is not None:
        return True
    if variables.get("OTEL_LOGS_EXPORTER", "otlp") != "otlp" or not any(map(variables.get, ENDPOINTS)):
        return False
    protocol = next(filter(None, map(variables.get, PROTOCOLS)), "http/protobuf")
    if protocol != "http/protobuf":
        log(f"no evaluation events are sent: OTLP over {protocol}; allowed: http/protobuf ({PROTOCOLS[0]})")
        return False
    return True


class EventSink:
    """Sink of live scores that sends a record for each new score."""

    def __init__(self, events: EvaluationEvents, store: Store) -> None:
        self._events, self._store = events, store
        self._known: dict[Signature, dict[str, str]] = {}  # by signature, since another evaluator may take over

    def take(self, scorer: LiveScorer, new: Sequence[NewScore]) -> None:
        """Send the records of new scores."""
        for each in new:
            score = each.result.score
            assert score is not None
            if score.signature not in self._known:
                self._known[score.signature] = identity(scorer.evaluator, self._store)
            row, question = score.to_json(), scorer.evaluator.question.id
            context = parent(each.message.traceparent)
            self._events.emit(row, question, self._known[score.signature], each.message.id, context)


def emit_rows(
    events: EvaluationEvents, evaluator: Evaluator, about: Mapping[str, str], rows: Iterable[ScoreRow]
) -> None:
    """Send the scores of batch scoring; after a failure of the collector the others are left out.

    The trace is known if a conversation's id is the id of a trace, as in files of spans without another id.

    Args:
        events: Open events.
        evaluator: Evaluator of the scores.
        about: Its attributes (`identity`).
        rows: Scores.
    """
    for batch in batches(rows, FLUSH_ROWS):
        for row in batch:
            events.emit(row, evaluator.question.id, about, context=_trace(row["conversation"]))
        if not events.flush():
            return


def parent(traceparent: str | None) -> Context | None:
    """Return the context of a span by its W3C header, or `None` if the header is missing or invalid."""
    if traceparent is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": traceparent}) or None


def _trace(conversation: str) -> Context | None:
    """Return the context of a trace whose span is unknown."""
    if not _TRACE_ID.fullmatch(conversation) or int(conversation, 16) == 0:
        return None
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    span = SpanContext(int(conversation, 16), 0, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return set_span_in_context(NonRecordingSpan(span))

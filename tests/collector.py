"""An OTLP receiver on the loopback interface that also misbehaves."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest


class Collector:
    """Keeps the log records of all exports; `fault` is `none`, `error`, `refuse`, `hang`, `garbage`, `page` or `close`."""

    def __init__(self, fault: str = "none") -> None:
        self.fault, self.records, self.headers, self.over = fault, list[Any](), list[Any](), threading.Event()
        self.resources: list[dict[str, str]] = []
        self.requests = 0

    def take(self, body: bytes) -> None:
        request = ExportLogsServiceRequest.FromString(body)
        for resource in request.resource_logs:
            self.resources.append({each.key: each.value.string_value for each in resource.resource.attributes})
            self.records += [record for scope in resource.scope_logs for record in scope.log_records]

    def attributes(self) -> list[dict[str, Any]]:
        """The attributes of each record."""
        return [
            {each.key: getattr(each.value, str(each.value.WhichOneof("value"))) for each in record.attributes}
            for record in self.records
        ]


@contextmanager
def collecting(fault: str = "none") -> Iterator[tuple[str, Collector]]:
    """Serve a collector; yields the address for log records."""
    collector = Collector(fault)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.requests += 1
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.headers.append(dict(self.headers))
            if collector.fault == "hang":
                collector.over.wait(60)
            if collector.fault in ("hang", "close"):
                self.close_connection = True
                return
            if collector.fault == "none":
                collector.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            self.send_response({"error": 500, "refuse": 400}.get(collector.fault, 200))
            if collector.fault == "page":
                self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write({"garbage": b"\xff" * 9000, "page": b"<html>Sign in</html>"}.get(collector.fault, b""))

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Ignore clients that disconnect."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/logs", collector
    finally:
        collector.over.set()
        server.shutdown()
        server.server_close()
        thread.join()

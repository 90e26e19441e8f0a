"""A chat-completions endpoint on the loopback interface that answers, and misbehaves, as it is told."""

from __future__ import annotations

import json
import math
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True)
class Wire:
    """What goes over the wire for one request: a body as it is, or JSON.

    `close_after` cuts the body off after so many bytes and the connection with it; `after` seconds pass first.
    """

    body: bytes | Mapping[str, Any]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    close_after: int | None = None
    after: float = 0.0


Respond = Callable[[Mapping[str, Any]], Wire]
"""From the request's JSON, with the path it came on as `_path`, to the answer; an uploaded form is bytes, `_form`."""


def completion(
    text: str, probabilities: Mapping[str, float] | None = None, refusal: str | None = None, finish: str = "stop"
) -> Wire:
    """A well-formed chat completion; `probabilities` are those of the first token's alternatives."""
    logprobs = None
    if probabilities is not None:
        tops = [{"token": token, "logprob": math.log(p), "bytes": None} for token, p in probabilities.items()]
        logprobs = {"content": [{**tops[0], "top_logprobs": tops}], "refusal": None}
    message = {"role": "assistant", "content": None if refusal else text, "refusal": refusal}
    choice = {"index": 0, "finish_reason": finish, "message": message, "logprobs": logprobs}
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
    about = {"id": "c1", "object": "chat.completion", "created": 0, "model": "loopback"}
    return Wire({**about, "choices": [choice], "usage": usage})


def decisions(model: str, answers: Sequence[Mapping[str, Any]]) -> Wire:
    """A well-formed reply of a decisions endpoint."""
    details = {"input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0}}
    more = {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 10}
    usage = {"input_tokens": 10, "output_tokens": 0, **details, **more}
    return Wire({"answers": list(answers), "model": model, "usage": usage})


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Say nothing of clients that went away: tests make them do so."""


class ChatServer:
    """Serves `respond` at `url` on 127.0.0.1 while used as a context manager; remembers every request's JSON."""

    def __init__(self, respond: Respond) -> None:
        """`respond` is called in the request's own thread."""
        self.requests: list[Mapping[str, Any]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:  # the name is http.server's
                body = self.rfile.read(int(self.headers["Content-Length"]))
                is_form = self.headers.get("Content-Type", "").startswith("multipart/form-data")
                asked = {**({"_form": body} if is_form else json.loads(body)), "_path": self.path}
                server.requests.append(asked)
                self._send(respond(asked))

            def do_GET(self) -> None:  # the name is http.server's
                self._send(respond({"_path": self.path}))

            def _send(self, wire: Wire) -> None:
                time.sleep(wire.after)
                body = wire.body if isinstance(wire.body, bytes) else json.dumps(wire.body).encode()
                self.send_response(wire.status)
                for name, value in {"Content-Type": "application/json", **wire.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: wire.close_after])
                if wire.close_after is not None:
                    self.wfile.flush()
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._http = _Quiet(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """The base URL a client is given."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

"""Chat-completions endpoint on the loopback interface with scripted answers and faults."""

from __future__ import annotations

import json
import math
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True)
class Wire:
    """One HTTP response.

    Attributes:
        body: Raw bytes, or a JSON object.
        status: HTTP status.
        headers: HTTP headers.
        close_after: Number of body bytes after which the connection closes.
        after: Seconds before the response.
        drip: Seconds before each byte of the body.
        parts: Chunks of a streamed body, sent as the iterator yields them.
    """

    body: bytes | Mapping[str, Any]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    close_after: int | None = None
    after: float = 0.0
    drip: float = 0.0
    parts: Iterator[bytes] | None = None


Respond = Callable[[Mapping[str, Any]], Wire]
"""Maps a request's JSON to a response; the path is in `_path`, an uploaded form in `_form` as bytes."""


def tokens_in(*texts: str) -> int:
    """Return the number of billed tokens: one per four characters."""
    return sum(map(len, texts)) // 4 + 1


def completion(
    text: str,
    probabilities: Mapping[str, float] | None = None,
    refusal: str | None = None,
    finish: str = "stop",
    sent: int = 10,
) -> Wire:
    """Return a well-formed chat completion.

    Args:
        text: Content of the message.
        probabilities: Probabilities of the first token's alternatives.
        refusal: Text of a refusal.
        finish: Finish reason.
        sent: Billed input tokens.

    >>> completion("Hello!").body["choices"][0]["message"]["content"]
    'Hello!'
    """
    logprobs = None
    if probabilities is not None:
        tops = [{"token": token, "logprob": math.log(p), "bytes": None} for token, p in probabilities.items()]
        logprobs = {"content": [{**tops[0], "top_logprobs": tops}], "refusal": None}
    message = {"role": "assistant", "content": None if refusal else text, "refusal": refusal}
    choice = {"index": 0, "finish_reason": finish, "message": message, "logprobs": logprobs}
    output_tokens = tokens_in(text)
    usage = {"prompt_tokens": sent, "completion_tokens": output_tokens, "total_tokens": sent + output_tokens}
    head = {"id": "c1", "object": "chat.completion", "created": 0, "model": "loopback"}
    return Wire({**head, "choices": [choice], "usage": usage})


def spoken(pieces: Iterable[str], usage: tuple[int, int] | None = (10, 5), ends: bool = True) -> Wire:
    """Return a well-formed streamed completion, one event per piece.

    Args:
        pieces: Pieces of the text.
        usage: Billed input and output tokens; `None` omits them.
        ends: False omits the end of the stream.
    """

    def event(**more: Any) -> bytes:
        head = {"id": "c1", "object": "chat.completion.chunk", "created": 0, "model": "loopback"}
        return b"data: " + json.dumps({**head, **more}).encode() + b"\n\n"

    def events() -> Iterator[bytes]:
        for piece in pieces:
            yield event(choices=[{"index": 0, "delta": {"content": piece}, "finish_reason": None}])
        if ends:
            yield event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
            if usage is not None:
                yield event(choices=[], usage={"prompt_tokens": usage[0], "completion_tokens": usage[1]})
            yield b"data: [DONE]\n\n"

    return Wire(b"", headers={"Content-Type": "text/event-stream"}, parts=events())


def decisions(model: str, answers: Sequence[Mapping[str, Any]]) -> Wire:
    """Return a well-formed response of a decisions endpoint."""
    details = {"input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0}}
    more = {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 10}
    usage = {"input_tokens": 10, "output_tokens": 0, **details, **more}
    return Wire({"answers": list(answers), "model": model, "usage": usage})


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # the default of five delays or rejects concurrent clients

    def handle_error(self, *_: Any) -> None:
        """Ignore clients that disconnect; tests make them do so."""


class ChatServer:
    """Serves `respond` at `url` on 127.0.0.1 as a context manager, and records the JSON of every request in `requests`.

    Args:
        respond: Returns the response to the JSON of a request; called in the thread of each request.

    >>> with ChatServer(lambda request: completion("Hello!")) as server:
    ...     server.url.startswith("http://127.0.0.1:"), server.requests
    (True, [])
    """

    def __init__(self, respond: Respond) -> None:
        """Prepare a server; it calls `respond` in the thread of each request."""
        self.requests: list[Mapping[str, Any]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # sends the body without waiting for the acknowledgement of the headers

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
                if wire.parts is not None:
                    _send_parts(self, wire, wire.parts)
                    return
                body = wire.body if isinstance(wire.body, bytes) else json.dumps(wire.body).encode()
                self.send_response(wire.status)
                for name, value in {"Content-Type": "application/json", **wire.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                for place in range(len(body) if wire.drip else 0):
                    time.sleep(wire.drip)
                    self.wfile.write(body[place : place + 1])
                self.wfile.write(b"" if wire.drip else body[: wire.close_after])
                if wire.close_after is not None:
                    self.wfile.flush()
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self._http = _Quiet(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._http.serve_forever, args=(0.005,), daemon=True)

    @property
    def url(self) -> str:
        """Base URL for clients."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _send_parts(handler: BaseHTTPRequestHandler, wire: Wire, parts: Iterator[bytes]) -> None:
    """Send a body in chunks; with `close_after` the connection closes before the end."""
    handler.send_response(wire.status)
    for name, value in wire.headers.items():
        handler.send_header(name, value)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for part in parts:
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        handler.wfile.flush()
    if wire.close_after is None:
        handler.wfile.write(b"0\r\n\r\n")
    else:
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True


FORM_END = b"\r\n--"


class Batches:
    """Batch endpoint; `respond` answers each line of a batch file.

    A batch stays in progress for `looks` status requests and then has the status `ends`: `completed`, or `failed` or
    `expired` without results.
    """

    def __init__(self, respond: Respond, looks: int = 1, ends: str = "completed") -> None:
        self.respond, self.looks, self.ends = respond, looks, ends
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}

    def __call__(self, request: Mapping[str, Any]) -> Wire:
        """Answer a request on a batch path; `respond` answers all other paths."""
        path = request["_path"].split("?")[0]
        parts = path.strip("/").split("/")
        if path.endswith("/files"):
            return self._file(request["_form"])
        if path.endswith("/batches"):
            return self._made(request) if "endpoint" in request else self._listed()
        if parts[-2:-1] == ["batches"]:
            return self._looked(parts[-1])
        if parts[-1] == "content":
            return Wire(self.files[parts[-2]], headers={"Content-Type": "application/octet-stream"})
        return self.respond(request)

    def _file(self, form: bytes) -> Wire:
        start = form.index(b'{"custom_id"')
        name = f"file-{len(self.files)}"
        self.files[name] = form[start : form.index(FORM_END, start)]
        head = {"id": name, "object": "file", "bytes": len(form), "created_at": 0, "filename": "accord.jsonl"}
        return Wire({**head, "purpose": "batch", "status": "processed"})

    def _made(self, request: Mapping[str, Any]) -> Wire:
        name = f"batch-{len(self.batches)}"
        total = len(self.files[request["input_file_id"]].splitlines())
        head = {"id": name, "object": "batch", "endpoint": request["endpoint"], "created_at": 0}
        self.batches[name] = {
            **head,
            "input_file_id": request["input_file_id"],
            "completion_window": "24h",
            "metadata": request.get("metadata"),
            "status": "validating",
            "request_counts": {"total": total, "completed": 0, "failed": 0},
            "looks": 0,
        }
        return Wire(self.batches[name])

    def _listed(self) -> Wire:
        return Wire({"object": "list", "data": list(reversed(self.batches.values())), "has_more": False})

    def _looked(self, name: str) -> Wire:
        if name not in self.batches:
            return Wire({"error": {"message": "no such batch"}}, status=404)
        batch = self.batches[name]
        batch["looks"] += 1
        if batch["looks"] <= self.looks:
            batch["status"] = "in_progress"
        elif batch["status"] != self.ends:
            batch["status"] = self.ends
            if self.ends == "completed":
                self._answer(batch)
        return Wire(batch)

    def _answer(self, batch: dict[str, Any]) -> None:
        succeeded: list[str] = []
        failed: list[str] = []
        for line in self.files[batch["input_file_id"]].splitlines():
            entry = json.loads(line)
            wire = self.respond({**entry["body"], "_path": entry["url"]})
            body = wire.body if isinstance(wire.body, Mapping) else {}
            row = {
                "custom_id": entry["custom_id"],
                "response": {"status_code": wire.status, "body": body},
                "error": None,
            }
            (succeeded if wire.status == 200 else failed).append(json.dumps(row))
        for kind, lines in (("output_file_id", succeeded), ("error_file_id", failed)):
            if lines:
                name = f"file-{len(self.files)}"
                self.files[name] = "\n".join(lines).encode()
                batch[kind] = name
        batch["request_counts"] |= {"completed": len(succeeded), "failed": len(failed)}

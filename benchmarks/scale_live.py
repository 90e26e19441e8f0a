"""Throughput of live scoring: OpenTelemetry spans per second, and single requests per second.

    python benchmarks/scale.py --only otlp,requests [--quick] --json OUT

`otlp`: `accord serve` in a process of its own takes exports of 512 spans of 400 conversations, from 4 connections that
send again upon 429. One span in five is a model call with its whole history (five turns on average), the others calls
of a database; in `every span` all are model calls. `per_second` counts spans, `lost` and `doubled` replies: those that
were sent against the rows that were kept.

`requests`: two client processes with 16 connections each send requests with one reply and its document. Clients run on
the same cores.
"""

from __future__ import annotations

import base64
import json
import random
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from multiprocessing import get_context
from typing import Any

import load
import numpy as np
from harness import Row
from live_scoring import DOCUMENT, REPLIES, WORDS, serving, texts

BATCH, CHATS, CONNECTIONS = 512, 400, 4
TURNS = 10
"""Of a conversation, until the next one begins."""
SPAN_KINDS = {"one span in five": 5, "every span": 1}
JSON, PROTOBUF = "application/json", "application/x-protobuf"
DATABASE = {
    "db.system": "postgresql", "db.statement": "select * from orders where id = ?", "server.address": "db.internal",
    "http.request.method": "POST", "url.full": "http://db.internal/query", "network.protocol.version": "1.1",
    "thread.name": "worker-7",
}  # fmt: skip


def _attribute(name: str, value: str) -> dict[str, Any]:
    return {"key": name, "value": {"stringValue": value}}


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def exports(spans: int, each: int) -> tuple[list[dict[str, Any]], int]:
    """Exports of so many spans, of which one in `each` is a model call; and how many replies they tell of."""
    drawn = random.Random(0)
    words = [f"word{place}" for place in range(400)] + ["the", "of", "and", "to", "is", "it", "you", "that"] * 50
    histories: list[list[dict[str, Any]]] = [[] for _ in range(CHATS)]
    begun, found, calls = [0] * CHATS, list[dict[str, Any]](), 0
    while len(found) < spans:
        chat, trace = calls % CHATS, f"{drawn.getrandbits(128):032x}"
        calls += 1
        history = histories[chat]
        history.append(_message("user", " ".join(drawn.choices(words, k=WORDS))))
        reply = _message("assistant", " ".join(drawn.choices(words, k=WORDS)))
        call = {
            "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "server.address": "api.internal",
            "gen_ai.conversation.id": f"chat-{chat}-{begun[chat]}", "gen_ai.input.messages": json.dumps(history),
            "gen_ai.output.messages": json.dumps([reply]),
        }  # fmt: skip
        for attributes in [*([DATABASE] * (each - 1)), call]:
            at = str(10**18 + 1000 * len(found))
            found.append({
                "traceId": trace, "spanId": f"{drawn.getrandbits(64):016x}", "name": "span", "kind": 3,
                "startTimeUnixNano": at, "endTimeUnixNano": at,
                "attributes": [_attribute(*pair) for pair in attributes.items()],
            })  # fmt: skip
        history.append(reply)
        if len(history) >= TURNS:
            histories[chat], begun[chat] = [], begun[chat] + 1
    resource = {"attributes": [_attribute("service.name", "bot"), _attribute("telemetry.sdk.language", "python")]}
    return [
        {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": found[place : place + BATCH]}]}]}
        for place in range(0, len(found), BATCH)
    ], calls


def packed(export: dict[str, Any], kind: str) -> bytes:
    """An export as it is sent."""
    if kind == JSON:
        return json.dumps(export).encode()
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    copied = deepcopy(export)
    for span in copied["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        span |= {name: base64.b64encode(bytes.fromhex(span[name])).decode() for name in ("traceId", "spanId")}
    return bytes(ParseDict(copied, ExportTraceServiceRequest()).SerializeToString())


def otlp_rows(quick: bool, limit: int | None) -> list[Row]:
    """Measure spans per second in both encodings."""
    rows: list[Row] = []
    for what, each in SPAN_KINDS.items():
        sent, calls = exports(limit or (8 if quick else 120 if each > 1 else 40) * BATCH, each)
        for kind in (JSON, PROTOBUF):
            bodies = [packed(export, kind) for export in sent]
            with serving("--out", "rows.jsonl") as server:
                sent_ = load.post(server.port, iter(bodies), CONNECTIONS, "/v1/traces", kind, repeats=True)
                lines = (server.folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()
                kept = [(row["conversation"], row["turn"]) for row in map(json.loads, lines)]
            spans = sum(len(e["resourceSpans"][0]["scopeSpans"][0]["spans"]) for e in sent)
            rows.append({
                "what": f"otlp, {what}", "encoding": "protobuf" if kind == PROTOBUF else "json", "spans": spans,
                "seconds": sent_.seconds, "per_second": spans / sent_.seconds, "refused": sent_.refused,
                "replies_per_second": calls / sent_.seconds, "lost": calls - len(set(kept)),
                "doubled": len(kept) - len(set(kept)),
            })  # fmt: skip
    return rows


def _post(port: int, count: int, client: int) -> load.Load:
    """Requests of one process of clients."""
    rng = np.random.default_rng(client)
    replies, [document] = texts(rng, REPLIES, WORDS), texts(rng, 1, DOCUMENT)
    bodies = (
        json.dumps({
            "conversation": f"{client}-{place % 500}", "role": "assistant", "content": replies[place % REPLIES],
            "documents": [document], "id": str(place),
        }).encode()
        for place in range(count)
    )  # fmt: skip
    return load.post(port, bodies, 16)


def requests_rows(quick: bool, limit: int | None) -> list[Row]:
    """Measure requests per second and their latencies, from two client processes."""
    count = limit or (500 if quick else 6000)
    with serving() as server, ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(_post, [server.port] * 2, [100] * 2, [7, 8]))  # warm-up
        found = list(pool.map(_post, [server.port] * 2, [count] * 2, [0, 1]))
    latencies = np.concatenate([each.latencies for each in found])
    p50, p99 = (np.quantile(latencies, (0.5, 0.99)) * 1e3).tolist()
    per_second = len(latencies) / max(each.seconds for each in found)
    refused = sum(each.refused for each in found)
    return [
        {"what": "requests", "clients": 32, "per_second": per_second, "p50_ms": p50, "p99_ms": p99, "refused": refused}
    ]


RUN = {"otlp": otlp_rows, "requests": requests_rows}

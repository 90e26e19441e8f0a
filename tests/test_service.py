"""The service on a real port: what it takes, refuses and survives; OpenTelemetry as its exporters send it."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import accord, accord_json
from new_project import new_project
from serving import TOKEN, running, serving
from waiting import PATIENCE, until

from accord import Evaluator, LiveScorer
from accord.edges import BadInput
from accord.live import (
    AttemptLimiter,
    Guard,
    RowLog,
)
from accord.live.ingest import Ingestor
from accord.live.messages import Message
from accord.project import LiveConfig

pytest.importorskip("fastapi", reason="needs accord[serve]")
from accord.live import (
    checked_token,
    exposure,
    is_loopback,
    make_app,
)
from accord.live.monitoring import ScoreMonitor
from accord.live.service.fair_queue import (
    FairQueue,
    QueueFull,
    ScoringTimeout,
)
from accord.live.service.otlp import TRACES
from accord.live.service.server import timeout_protocol
from accord.live.service.service import Service

JSON = {"Content-Type": "application/json"}
PROTOBUF = {"Content-Type": "application/x-protobuf"}
TEXT = {"Content-Type": "text/plain"}
GZIP = {**JSON, "Content-Encoding": "gzip"}


pytest.importorskip("fastapi", reason="needs accord[serve]")

JSON = {"Content-Type": "application/json"}


class Client:
    """A client of one service with its token."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.own = {"Authorization": f"Bearer {TOKEN}"}

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request(method, path, body, {**self.own, **(headers or {})})
        answer = connection.getresponse()
        content: Any = answer.read()
        connection.close()
        about = {name.lower(): value for name, value in answer.getheaders()}
        if about.get("content-type", "").startswith("application/json"):
            content = json.loads(content)
        return answer.status, content, about

    def post(self, value: Any, path: str = "/v1/scores", **headers: str) -> tuple[int, Any]:
        return self.ask("POST", path, json.dumps(value).encode(), {**JSON, **headers})[:2]

    def figures(self) -> str:
        text: bytes = self.ask("GET", "/metrics")[1]
        return text.decode()


@contextmanager
def served(
    ingestor: Any, max_waiting: int = 2048, http: Any = "auto", say: Any = lambda text: None, **limits: Any
) -> Iterator[Client]:
    app = make_app(Service(ingestor, lambda: {"days": []}, max_waiting, say), TOKEN, **limits)
    with running(app, lifespan="on", http=http) as port:
        yield Client(port)


@pytest.fixture(scope="module")
def client(evaluator: Evaluator) -> Iterator[Client]:
    with served(Ingestor(LiveScorer(evaluator))) as found:
        yield found


@pytest.fixture
def own_client(evaluator: Evaluator) -> Iterator[Client]:
    """The client of a service that no other test asks."""
    with served(Ingestor(LiveScorer(evaluator))) as found:
        yield found


def said(conversation: str, role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"conversation": conversation, "role": role, "content": content, **more}


def test_scores_are_those_of_a_scorer_in_process(client: Client, evaluator: Evaluator) -> None:
    policy = "Opened routers can be returned within 45 days of delivery."
    alone = LiveScorer(evaluator)
    alone.message("s1", "user", "Can I return it?", [policy])
    expected = json.loads(json.dumps(alone.message("s1", "assistant", "Yes, within 45 days of delivery.").to_json()))
    heard = {"status": "heard", "id": None, "system": None, "conversation": "s1"}
    assert client.post(said("s1", "user", "Can I return it?", documents=[policy])) == (200, heard)
    status, row = client.post(said("s1", "assistant", "Yes, within 45 days of delivery.", id="m", system="bot"))
    assert status == 200 and row == {"status": "scored", "id": "m", "system": "bot", **expected}
    assert client.post(said("s1", "assistant", "another text", id="m"))[1]["again"] is True


def test_one_bad_message_of_a_batch_costs_the_others_nothing(client: Client) -> None:
    batch = [
        said("b1", "user", "hello"), said("b1", "narrator", "x"), 7, None, said("b1", "assistant", "Hello \ud800!"), {"id": "q"},
        said("b1", "assistant", "late", turn=0), said("b1", "assistant", "x", turn=-1), said("", "user", "x"),
    ]  # fmt: skip
    status, found = client.post({"messages": batch})
    assert status == 200
    assert [row["status"] for row in found["scores"]] == [
        "heard", "refused", "refused", "refused", "scored", "refused", "unscored", "refused", "refused"
    ]  # fmt: skip
    assert "'narrator'" in found["scores"][1]["error"] and found["scores"][5]["id"] == "q"
    assert found["scores"][6]["unscored"] == "turn 0 arrived after turn 1"
    assert client.post({"messages": []}) == (200, {"scores": []})
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    poison = [
        said("p", "narrator", "x", id="\ud800"), said("p", "user", deep), said("p", "user", "x", time="0001-01-01T00:00:00+14:00"),
        said("p", "assistant", "x", time="9999-12-31T23:59:59-14:00"), said("p", "assistant", "x", turn=10**4000), said("p", "assistant", "y"),
    ]  # fmt: skip
    status, found = client.post({"messages": poison})
    assert status == 200
    assert [row["status"] for row in found["scores"]] == ["refused"] * 5 + ["scored"]
    assert "outside the years 1 to 9999" in found["scores"][2]["error"] + found["scores"][3]["error"]
    for field, odd in [("conversation", "w\0"), ("conversation", "w\ud800"), ("id", "\0"), ("id", "\ud800")]:
        status, row = client.post({"conversation": "w", "role": "assistant", "content": "Yes.", field: odd})
        assert status == 422 and "an id cannot hold NUL" in row["error"], row
    status, row = client.post(said("b1", "narrator", "x"))
    assert status == 422 and row["status"] == "refused"


CHAT = [{"role": "user", "content": "Can I return it?"}, {"role": "assistant", "content": "Yes, within 45 days."}]
REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-9",
    "choices": [{"index": 0, "message": CHAT[1]}],
}


@pytest.mark.parametrize(
    ("body", "statuses", "systems"),
    [
        (CHAT, ["heard", "scored"], {None}),
        ({"messages": CHAT}, ["heard", "scored"], {None}),
        ({"model": "gpt-9", "temperature": 0, "messages": CHAT[:1]}, ["heard"], {"gpt-9"}),
        (REPLY, ["scored"], {"gpt-9"}),
        ({"request": {"model": "gpt", "messages": CHAT[:1]}, "response": REPLY}, ["heard", "scored"], {"gpt-9"}),
        ({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes, of course."}]},
         ["heard", "scored"], {None}),
        ({"messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": [
            {"type": "text", "text": "Hi"}]}, {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]},
            {"role": "tool", "content": "4"}, CHAT[1]]}, ["heard"] * 4 + ["scored"], {None}),
    ],
)  # fmt: skip
def test_whole_conversations_are_scored_once(own_client: Client, body: Any, statuses: list[str], systems: Any) -> None:
    status, found = own_client.post(body)
    rows = found["scores"]
    assert status == 200 and [row["status"] for row in rows] == statuses and {row["system"] for row in rows} == systems
    [name] = {row["conversation"] for row in rows}
    assert name.startswith("chat-")
    again = own_client.post(body)[1]["scores"]
    assert all(row["again"] for row in again) and {row["conversation"] for row in again} == {name}
    assert (
        f'accord_score_count{{system="{next(iter(systems)) or ""}"}} 1.0' in own_client.figures()
        or "scored" not in statuses
    )


@pytest.mark.parametrize("name", ["conversation", "session_id", "id", "X-Conversation-Id"])
def test_a_conversation_with_an_id_grows(own_client: Client, evaluator: Evaluator, name: str) -> None:
    chat, scored = [*CHAT, {"role": "user", "content": "Thanks!"}, {"role": "assistant", "content": "Welcome."}], []
    for count in (2, 4):
        own = {} if name.startswith("X-") else {name: "c 1"}
        headers = {name: "c%201"} if name.startswith("X-") else {}
        status, found = own_client.post({**own, "messages": chat[:count]}, **headers)
        assert status == 200 and {row["conversation"] for row in found["scores"]} == {"c 1"}
        scored.append([row.get("again", False) for row in found["scores"]])
    assert scored == [[False, False], [True, True, False, False]]
    alone = LiveScorer(evaluator)
    expected = [alone.message("c 1", each["role"], each["content"]) for each in chat][-1]
    assert expected is not None and found["scores"][-1]["value"] == expected.value


@pytest.mark.attack
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"messages": [said("x", "narrator", "y"), said("x", "narrator", "z")]}, "(2 messages)"),
        ([said("x", "narrator", "y")], "'narrator'"),
        ({"messages": [{"role": "assistant", "content": 7}]}, "content"),
        ({"choices": []}, "no messages"),
        ({"choices": [{"message": None}], "conversation": {"a": 1}}, "no messages"),
        ({"messages": [{"role": "user", "content": "x"}], "id": "\ud800"}, "id"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, "role"),
        ({"conversations": [{"from": 7, "value": []}]}, "from"),
    ],
)
def test_a_request_of_which_everything_is_refused_says_why(client: Client, body: Any, reason: str) -> None:
    status, found = client.post(body)
    assert status == 422 and reason in found["error"] and "every message was refused" in found["error"]
    assert {row["status"] for row in found["scores"]} == {"refused"}


@pytest.mark.attack
@pytest.mark.parametrize("wrap", [lambda row: row, lambda row: {"messages": [row]}], ids=["alone", "batch"])
@pytest.mark.parametrize(
    "kind", [{}, {"conversation": "many", "role": "assistant", "content": "Yes."}], ids=["none", "message"]
)
def test_messages_of_too_many_fields_are_refused(client: Client, wrap: Any, kind: dict[str, Any]) -> None:
    """Each name of a field is compared with the names of every format, which took 18 seconds for 4 MB of them."""
    status, found = client.post(wrap({**kind, **{str(n): 1 for n in range(200_000)}}))
    assert status == 422 and f"{200_000 + len(kind):,} fields; a message may have 10,000" in found["error"]


def test_an_evaluator_of_whole_conversations_is_named(evaluator: Evaluator) -> None:
    whole = replace(evaluator, level="conversation")
    assert not LiveScorer(evaluator).level_notes
    [note] = LiveScorer(whole).level_notes
    assert "learned from whole conversations" in note and "Label single replies" in note
    with served(Ingestor(LiveScorer(whole))) as found:
        assert 'level="conversation"' in found.figures()


@pytest.mark.attack
@pytest.mark.parametrize(
    "body, headers, status, reason",
    [
        (b"not json", JSON, 400, "no JSON at byte 0"),
        (b"", JSON, 400, "no JSON"),
        (b"\xff\xfe", JSON, 400, "no JSON"),
        (b"[" * 100_000, JSON, 400, "no JSON"),
        (b'{"messages": 7}', JSON, 400, "a list of messages"),
        (b'{"messages": [], "more": 1}', JSON, 400, "nothing else"),
        (json.dumps({"messages": [1] * 1001}).encode(), JSON, 400, "at most 1000"),
        (b"{}", TEXT, 400, "send application/json"),
        (b"{}", {**JSON, "Content-Encoding": "br"}, 415, "allowed: gzip"),
        (b"{}", GZIP, 400, "is not"),
        (gzip.compress(b"{}", mtime=0)[:-8], GZIP, 400, "truncated"),
        (gzip.compress(b"{}", mtime=0)[:12], GZIP, 400, "truncated"),
        (gzip.compress(b"{}", mtime=0) * 2, GZIP, 400, "other bytes"),
        (gzip.compress(b" " * 50_000_000, mtime=0), GZIP, 413, "unpacks to more than 4 MB"),
        (b" " * 50_000_000, JSON, 413, "larger than 4 MB"),
        (b"{}", {**JSON, "Authorization": "Bearer wrong", "Host": "rebound.example"}, 401, "send the service's token"),
    ],
)
def test_what_is_wrong_with_a_request_is_said(
    client: Client, body: bytes, headers: dict[str, str], status: int, reason: str
) -> None:
    found, answer, _ = client.ask("POST", "/v1/scores", body, headers)
    assert found == status and reason in answer["error"]
    assert client.ask("GET", "/healthz")[0] == 200


@pytest.mark.parametrize("name", [b"Host", b"Authorization", b"Content-Encoding", b"Content-Type"])
@pytest.mark.attack
def test_header_that_decides_and_comes_twice_is_refused(name: bytes) -> None:
    """Called as ASGI: some servers refuse two hosts themselves."""
    sent = list[Any]()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        sent.append("served")

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(event: Any) -> None:
        sent.append(event)

    first = {b"Host": b"evil.example", b"Content-Encoding": b"gzip"}.get(name, b"x")
    last = {b"Host": b"localhost", b"Content-Encoding": b"identity"}.get(name, b"y")
    for names in ((name, name.lower()), (name.lower(), name)):
        sent.clear()
        host = [] if name == b"Host" else [(b"host", b"localhost")]
        headers = [*host, *zip(names, (first, last), strict=True)]
        scope = {"type": "http", "method": "GET", "path": "/v1/scores", "query_string": b"", "headers": headers}
        asyncio.run(Guard(app)(scope, receive, send))
        assert sent[0]["status"] == 400 and name.title() + b" twice" in sent[1]["body"]


@pytest.mark.attack
def test_odd_texts_get_a_score_or_a_reason(client: Client) -> None:
    odd = ["", " ", "word " * 100_000, "שלום עולם", "你好世界", "🙂" * 50, "nul\0", "\ud83d", "a" * 1_000_000]
    for place, text in enumerate(odd):
        status, row = client.post(said(f"odd-{place}", "assistant", text, documents=["", text[:1000]]))
        assert status == 200 and row["status"] in {"scored", "unscored"}, text[:20]
    unique = " ".join(f"w{place:x}" for place in range(150_000))
    status, row = client.post(said("doc", "assistant", "fine", documents=[unique]))
    assert status == 200 and row["status"] == "scored"
    for documents, limit in ((["x " * 1_500_000], "the limit is 1000000"), (["x"] * 1001, "1000")):
        status, row = client.post(said("doc", "assistant", "fine", documents=documents))
        assert status == 422 and limit in row["error"]


@pytest.mark.attack
def test_a_slow_client_is_let_go_and_holds_nobody_up(evaluator: Evaluator) -> None:
    begun = f"POST /v1/scores HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n".encode()
    begun += b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"

    def slow(client: Client, count: int) -> list[socket.socket]:
        found = [socket.create_connection(("127.0.0.1", client.port), timeout=PATIENCE) for _ in range(count)]
        for each in found:
            each.sendall(begun)
        return found

    with served(Ingestor(LiveScorer(evaluator)), seconds=0.2) as client:
        [one] = slow(client, 1)
        assert b" 408 " in one.recv(4096)
        one.close()
    with served(Ingestor(LiveScorer(evaluator)), seconds=1e6) as client:
        many = slow(client, 20)
        assert client.post(said("c", "assistant", "Hello."))[0] == 200
        assert not select.select(many, [], [], 0)[0], "all of them are waited for still"
        for each in many:
            each.close()
        half = socket.create_connection(("127.0.0.1", client.port))
        half.sendall(begun)
        half.close()
        assert client.post(said("c", "assistant", "Hello."))[0] == 200


class _Slow:
    """An intake that takes its time."""

    change = None

    def __init__(self, scorer: LiveScorer) -> None:
        self.scorer, self.go, self.sizes = scorer, threading.Event(), list[int]()

    def take(self, batch: Any) -> list[dict[str, Any]]:
        self.go.wait(PATIENCE)
        self.sizes.append(len(batch))
        return [{"status": "heard", "id": each.id} for each in batch]


def test_more_than_can_wait_is_turned_away_at_once_and_what_waits_is_taken_together(evaluator: Evaluator) -> None:
    slow = _Slow(LiveScorer(evaluator))
    with served(slow, max_waiting=10) as client:
        found: list[tuple[int, Any, dict[str, str]]] = []

        def send(place: int) -> None:
            body = json.dumps(said("c", "user", "x", id=str(place))).encode()
            found.append(client.ask("POST", "/v1/scores", body, JSON))

        threads = [threading.Thread(target=send, args=(place,)) for place in range(30)]
        for thread in threads:
            thread.start()
        until(lambda: len(found) == 20)  # these have been told already
        assert {(status, headers["retry-after"]) for status, _, headers in found} == {(503, "1")}
        assert client.ask("GET", "/healthz")[0] == 200
        full = client.ask("POST", "/v1/traces", json.dumps(spans("t", ([("user", "Hi")], "Hello."))).encode(), JSON)
        assert full[0] == 429 and full[2]["retry-after"] == "1", "exporters slow down, and send it again"
        assert "accord_waiting_messages 10.0" in client.figures()
        slow.go.set()
        for thread in threads:
            thread.join()
        assert sum(status == 200 for status, _, _ in found) == 10
        assert sum(slow.sizes) == 10 and len(slow.sizes) == 2  # the first alone, all others together


def test_what_cannot_be_kept_is_not_called_scored(evaluator: Evaluator, tmp_path: Path) -> None:
    class FullDisk(RowLog):
        fails = 1_000

        def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
            if rows and self.fails:
                self.fails -= 1
                raise OSError(28, "No space left on device")
            super().write(rows)

    with FullDisk(tmp_path / "full.jsonl") as log, served(Ingestor(LiveScorer(evaluator), sinks=[log])) as client:
        status, answer = client.post(said("c", "assistant", "Hello."))
        assert status == 503 and "No space left" in answer["error"]
        assert client.post(said("c", "user", "Hello?"))[0] == 503  # what waits is tried first
    watch, log = ScoreMonitor("m", []), FullDisk(tmp_path / "rows.jsonl")
    log.fails = 1
    with log, served(Ingestor(LiveScorer(evaluator), watch, [log])) as client:
        assert client.post(said("c", "assistant", "Hello.", id="m"))[0] == 503
        status, row = client.post(said("c", "assistant", "Hello.", id="m"))
        assert status == 200 and row["again"] and [each["id"] for each in log.after(0)] == ["m"]
        assert [day.replies for _, day in watch._days.values()] == [1]


def kept_alive(port: int, seconds: float, requests: int) -> http.client.HTTPConnection:
    """A connection that has asked so often; begun anew where this process itself let it wait for longer than it may."""
    while True:
        busy, last = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE), time.monotonic()
        try:
            for _ in range(requests):
                busy.request("GET", "/healthz")
                assert busy.getresponse().read()
                last = time.monotonic()
                time.sleep(seconds / 5)
            return busy
        except (ConnectionError, http.client.HTTPException):
            assert time.monotonic() - last > 0.9 * seconds, "it was closed although it asked in time"
            busy.close()


def test_connections_that_ask_nothing_are_let_go(evaluator: Evaluator) -> None:
    with served(Ingestor(LiveScorer(evaluator)), http=timeout_protocol(0.5)) as client:
        idle = [socket.create_connection(("127.0.0.1", client.port), timeout=PATIENCE) for _ in range(5)]
        kept_alive(client.port, 0.5, 8).close()  # however long
        for each in idle:
            assert each.recv(10) == b""
            each.close()
        again = kept_alive(client.port, 0.5, 1).sock
        again.sendall(b"G")  # another request, that never comes
        assert again.recv(10) == b""
        again.close()


@pytest.mark.attack
def test_every_path_needs_the_token_except_the_health_check_and_the_description(own_client: Client) -> None:
    right, own_client.own = own_client.own, {}
    assert own_client.ask("GET", "/healthz")[0] == own_client.ask("GET", "/docs")[0] == 200
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}, {"Authorization": "Bearer "}):
        for path in ("/metrics", "/v1/openapi.json", "/v1/watch", "/v1/evaluator"):
            status, answer, about = own_client.ask("GET", path, None, headers)
            assert status == 401 and about["www-authenticate"] == "Bearer" and TOKEN not in str(answer)
    assert own_client.ask("GET", "/metrics", None, {**right, "Host": "any.example"})[0] == 200


def test_token_is_required_and_long_where_other_machines_reach_the_service() -> None:
    with pytest.raises(BadInput, match="--host 0.0.0.0 makes live scoring reachable"):
        checked_token(None, exposure("0.0.0.0"))
    with pytest.raises(BadInput, match="needs 16 or more"):
        checked_token("short")
    assert checked_token(TOKEN, exposure("0.0.0.0")) == TOKEN
    assert checked_token(None) != checked_token(None)
    assert all(map(is_loopback, ("127.0.0.1", "localhost", "::1", "[::1]", "127.9.9.9")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "example.org", "localhost.example.org", "")))


def test_pages_describe_what_is_there_and_need_nobody_else(client: Client) -> None:
    _, openapi, _ = client.ask("GET", "/v1/openapi.json")
    paths = ("scores", "systemone", "decisions", "traces", "logs", "watch", "schema", "evaluator")
    assert {"/metrics", "/healthz", *(f"/v1/{path}" for path in paths)} == set(openapi["paths"])
    status, page, headers = client.ask("GET", "/docs")
    assert status == 200 and headers["content-type"].startswith("text/html")
    text = page.decode()
    assert "<script" not in text and "http://" not in text and "https://" not in text
    assert all(f"<code>{path}</code>" in text for path in openapi["paths"]) and "90% band" in text
    _, schema, _ = client.ask("GET", "/v1/schema")
    assert schema["$defs"]["Message"]["additionalProperties"] is False
    row = client.post(said("schema", "assistant", "Hello there."))[1]
    assert row.keys() <= schema["$defs"]["Row"]["properties"].keys()
    status, answer, _ = client.ask("GET", "/nothing")
    assert status == 404 and "see /docs" in answer["error"]
    assert client.ask("GET", "/v1/evaluator")[1]["method"] == "calibration"


def test_figures_count_what_happened(own_client: Client) -> None:
    own_client.post({"messages": [said("c", "user", "Hi"), said("c", "assistant", "Hello.", system="bot"), 3]})
    for place in range(60):
        own_client.post(said("c", "assistant", "Hello.", system=f"s{place}"))
    figures = own_client.figures().splitlines()
    assert {
        'accord_messages_total{status="scored"} 61.0', 'accord_messages_total{status="refused"} 1.0',
        'accord_score_count{system="bot"} 1.0', 'accord_score_count{system="other systems"} 11.0',
        "accord_conversations 1.0", 'accord_requests_total{path="/v1/scores",status="200"} 61.0',
    } <= set(figures)  # fmt: skip


def span(place: int, attributes: dict[str, str], **more: Any) -> dict[str, Any]:
    named = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    return {"traceId": f"{place:032}", "spanId": f"{place:016}", "attributes": named, **more}


def export(*spans: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def message_parts(*messages: tuple[str, str]) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in messages])


def spans(conversation: str, *calls: tuple[list[tuple[str, str]], str]) -> dict[str, Any]:
    """An OTLP export of model calls, each with what went in and what came out."""
    about = {"gen_ai.conversation.id": conversation, "gen_ai.agent.name": "shop-bot"}
    return export(*(
        span(place, {
            **about, "gen_ai.input.messages": message_parts(*sent),
            "gen_ai.output.messages": message_parts(("assistant", reply)),
        }, startTimeUnixNano=str(place))
        for place, (sent, reply) in enumerate(calls)
    ))  # fmt: skip


FIRST = [("user", "Where is my order?")]
SECOND = [*FIRST, ("assistant", "It was sent on Monday."), ("user", "When does it arrive?")]


def test_traces_repeat_what_was_said_and_each_reply_is_scored_once(evaluator: Evaluator, tmp_path: Path) -> None:
    calls = spans("t1", (FIRST, "It was sent on Monday."), (SECOND, "On Friday."))
    with RowLog(tmp_path / "rows.jsonl") as log, served(Ingestor(LiveScorer(evaluator), sinks=[log])) as client:
        for _ in range(2):  # sent again, as exporters do
            assert client.post(calls, "/v1/traces") == (200, {})
        broken = spans("t2", ([("user", "Hi")], "Hello."))
        broken["resourceSpans"][0]["scopeSpans"][0]["spans"].insert(0, {"attributes": 7, "spanId": "x"})
        broken["resourceSpans"] += export(span(9, {"http.method": "GET"}))["resourceSpans"]
        holes = spans("t4", ([("user", "Hi")], "Hello."))
        holes["resourceSpans"][:0] = [None, {"scopeSpans": None}]
        for each in (broken, holes):
            status, answer = client.post(each, "/v1/traces")
            assert status == 200 and answer["partialSuccess"]["rejectedSpans"] == 1
        look = [("user", "Hi"), ("assistant", "Let me look."), ("tool", "7")]
        agent = spans("t5", (look[:1], "Let me look."), (look, "Seven."), (look[:1], "Seven."))
        *inner, outer = agent["resourceSpans"][0]["scopeSpans"][0]["spans"]
        for each in inner:
            each["parentSpanId"] = outer["spanId"]
        assert client.post(agent, "/v1/traces") == client.post(export(outer), "/v1/traces") == (200, {})
        for wrong in ([], {"resourceSpans": 7}, 7):
            assert client.post(wrong, "/v1/traces")[0] == 400
        body = gzip.compress(json.dumps(spans("t3", ([("user", "Hi")], "Hello."))).encode())
        assert client.ask("POST", "/v1/traces", body, GZIP)[0] == 200
        assert client.ask("POST", "/v1/traces", b"\xff\xff", PROTOBUF)[0] == 400
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    scored = [("t1", 1), ("t1", 3), ("t2", 1), ("t4", 1), ("t5", 1), ("t5", 3), ("t3", 1)]
    assert [(row["conversation"], row["turn"]) for row in rows] == scored
    assert {row["system"] for row in rows} == {"shop-bot"}
    alone = LiveScorer(evaluator)
    for role, content in SECOND:
        alone.message("t1", role, content)
    assert rows[1]["value"] == pytest.approx(alone.message("t1", "assistant", "On Friday.").value)


def test_an_export_that_found_no_room_is_taken_in_once_when_it_comes_again(
    evaluator: Evaluator, tmp_path: Path
) -> None:
    log = RowLog(tmp_path / "rows.jsonl")
    service = Service(Ingestor(LiveScorer(evaluator), sinks=[log]))

    async def run() -> None:
        scoring = asyncio.create_task(service.queue.run())
        for each in (spans("t1", (FIRST, "It was sent on Monday.")), spans("t1", (SECOND, "On Friday."))):
            body = json.dumps(each).encode()
            service.queue.waiting = service.queue.max_waiting
            for _ in range(3):
                with pytest.raises(QueueFull):
                    await service.ingest_export(body, "application/json", TRACES)
            service.queue.waiting = 0
            assert await service.ingest_export(body, "application/json", TRACES) == (0, "")
        scoring.cancel()

    with log:
        asyncio.run(run())
    assert [(row["conversation"], row["turn"]) for row in log.after(0)] == [("t1", 1), ("t1", 3)]


def test_traces_that_say_nothing_are_counted_and_told_of_once(evaluator: Evaluator) -> None:
    told: list[str] = []
    mute = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    quiet = export(span(1, {"http.method": "GET"}), span(2, mute), span(3, mute))
    with served(Ingestor(LiveScorer(evaluator)), say=told.append) as client:
        for each in (quiet, quiet, spans("t", ([("user", "Hi")], "Hello."))):
            assert client.post(each, "/v1/traces") == (200, {})
        figures = client.figures()
    assert 'accord_spans_skipped_total{reason="no model call"} 2.0' in figures
    assert 'accord_spans_skipped_total{reason="a model call without its messages"} 4.0' in figures
    assert len(told) == 2 and sum("capture of content on?" in line for line in told) == 1


def test_messages_that_come_as_log_records_are_scored(evaluator: Evaluator, tmp_path: Path) -> None:
    logs = pytest.importorskip("opentelemetry.proto.collector.logs.v1.logs_service_pb2", reason="needs accord[serve]")

    def record(time: int, name: str, key: str, text: str) -> dict[str, Any]:
        body = {"kvlistValue": {"values": [{"key": key, "value": {"stringValue": text}}]}}
        ids = {"traceId": "b" * 32, "spanId": "c" * 16}
        return {"timeUnixNano": str(time), "eventName": f"gen_ai.{name}", "body": body, **ids}

    def exported(*records: Any) -> dict[str, Any]:
        return {"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}

    spoken = exported(
        record(3, "choice", "message", json.dumps({"content": "It was sent on Monday."})),
        record(1, "system.message", "content", "Be brief."),
        record(2, "user.message", "content", "Where is my order?"),
    )
    request = logs.ExportLogsServiceRequest()
    part = request.resource_logs.add().scope_logs.add().log_records.add()
    part.trace_id, part.span_id = b"\x01" * 16, b"\x02" * 8
    part.event_name = "gen_ai.client.inference.operation.details"
    for key, role, text in (("input", "user", "Hi"), ("output", "assistant", "Hello.")):
        found = part.attributes.add()
        found.key, found.value.string_value = f"gen_ai.{key}.messages", message_parts((role, text))
    with RowLog(tmp_path / "rows.jsonl") as log, served(Ingestor(LiveScorer(evaluator), sinks=[log])) as client:
        for _ in range(2):
            assert client.post(spoken, "/v1/logs") == (200, {})
        assert client.post({"resourceSpans": []}, "/v1/logs")[0] == 200
        assert client.post({"resourceLogs": 7}, "/v1/logs")[0] == 400
        broken = client.post(exported({"attributes": 7, "traceId": "x"}), "/v1/logs")[1]
        assert broken["partialSuccess"]["rejectedLogRecords"] == 1
        assert client.ask("POST", "/v1/logs", request.SerializeToString(), PROTOBUF)[0] == 200
        assert client.ask("POST", "/v1/logs", b"\xff\xff", PROTOBUF)[0] == 400
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["conversation"], row["turn"]) for row in rows] == [("b" * 32, 2), ("01" * 16, 1)]


def test_traces_as_protobuf(own_client: Client) -> None:
    trace = pytest.importorskip(
        "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="needs accord[serve]"
    )
    from google.protobuf.json_format import ParseDict

    sent = spans("p1", ([("user", "Hi")], "Hello."))
    sent["resourceSpans"][0]["scopeSpans"][0]["spans"][0] |= {"traceId": "A" * 22 + "==", "spanId": "A" * 11 + "="}
    body = ParseDict(sent, trace.ExportTraceServiceRequest()).SerializeToString()
    status, answer, headers = own_client.ask("POST", "/v1/traces", body, PROTOBUF)
    assert status == 200 and headers["content-type"] == "application/x-protobuf"
    assert not trace.ExportTraceServiceResponse.FromString(answer).HasField("partial_success")
    assert "accord_conversations 1.0" in own_client.figures()


@pytest.mark.parametrize(
    ("waiting", "count", "is_full"),
    [(0, 10, False), (1, 2, False), (1, 3, True), (3, 2, True), (3, 1, False)],
    ids=["larger than may wait, alone", "room", "no room", "a batch where as many wait", "a single message"],
)
def test_batches_find_room_where_few_wait_and_single_messages_always(waiting: int, count: int, is_full: bool) -> None:
    queue = FairQueue(None, max_waiting=3)
    queue.waiting = waiting
    with pytest.raises(QueueFull) if is_full else nullcontext():
        queue.check_room(count)


class _Turns:
    """Notes which messages are scored together, and lets a test say when; `also` is called with each batch."""

    def __init__(self, also: Callable[[Sequence[Message]], object] = lambda batch: None) -> None:
        self.rounds: list[list[str]] = []
        self.go, self.also = threading.Event(), also

    def take(self, batch: Sequence[Message]) -> list[dict[str, Any]]:
        assert self.go.wait(PATIENCE)
        self.rounds.append([said.conversation for said in batch])
        self.also(batch)
        return [{"status": "heard", "id": said.id} for said in batch]


def conversations(name: str, count: int, characters: int = 1) -> list[Message]:
    return [Message(name, "user", "x" * characters, id=str(place)) for place in range(count)]


async def scored(turns: _Turns, *requests: tuple[str, list[Message]], **options: Any) -> list[Any]:
    """What came of requests that were sent in this order, while the first message of all was being scored."""
    queue = FairQueue(turns.take, **options)
    running = asyncio.create_task(queue.run())
    first = asyncio.create_task(queue.score(conversations("first", 1), "first"))
    await asyncio.sleep(0.05)
    sent = [asyncio.create_task(queue.score(batch, client)) for client, batch in requests]
    await asyncio.sleep(0.05)
    turns.go.set()
    found = await asyncio.gather(*sent, return_exceptions=True)
    await first
    running.cancel()
    assert queue.waiting == 0
    return found


def test_turns_go_round_by_client_and_a_small_message_is_due_before_a_large_one() -> None:
    turns = _Turns()
    large, small = conversations("large", 40, 10_000), conversations("small", 1)
    rows = asyncio.run(scored(turns, ("a", large), ("b", conversations("other", 40, 10_000)), ("c", small)))
    assert [len(each) for each in rows] == [40, 40, 1]
    assert [row["id"] for row in rows[0]] == [str(place) for place in range(40)]
    assert turns.rounds[0] == ["first"] and turns.rounds[1][0] == "small"
    assert max(len(each) for each in turns.rounds) <= 4, "a piece is no more work than a turn"
    order = [name for each in turns.rounds for name in each if name in {"large", "other"}]
    for place in range(1, 80):
        assert abs(order[:place].count("large") - order[:place].count("other")) <= 4


def test_a_client_that_had_much_waits_for_those_that_had_little() -> None:
    turns = _Turns()
    many = [(str(place), conversations("small", 1, 500)) for place in range(30)]
    asyncio.run(scored(turns, ("a", conversations("large", 9, 10_000)), ("a", conversations("more", 1)), *many))
    order = [name for each in turns.rounds for name in each]
    assert order.index("more") > 30 and set(order[1:31]) == {"small"}


def test_many_small_messages_are_scored_together() -> None:
    turns = _Turns()
    asyncio.run(scored(turns, *((str(place), conversations(str(place), 1)) for place in range(150))))
    assert len(turns.rounds) == 2 and len(turns.rounds[1]) == 150


def test_documents_that_are_shown_count_as_work_for_every_message(evaluator: Evaluator) -> None:
    shown, scorer = "y" * 9000, LiveScorer(evaluator)
    turns = _Turns(scorer.take)
    batch = [Message("c", "user", "x", (shown,) if place == 0 else None, str(place)) for place in range(20)]
    asyncio.run(scored(turns, ("a", batch), work=scorer.work))
    assert [len(each) for each in turns.rounds] == [1] + [2] * 10


def test_what_is_not_scored_in_time_is_said_and_is_not_scored_later() -> None:
    under_way, more, over = threading.Event(), threading.Event(), list[Callable[[], object]]()

    def hold(batch: Sequence[Message]) -> None:
        if batch[0].conversation == "slow" and len(turns.rounds) > 2:
            under_way.set()
            assert more.wait(PATIENCE)

    turns = _Turns(hold)
    turns.go.set()

    async def asked() -> list[Any]:
        loop, queue = asyncio.get_running_loop(), FairQueue(turns.take, seconds=0.3)
        later = loop.call_later

        def call_later(delay: float, call: Callable[..., object], *given: Any, **more: Any) -> asyncio.TimerHandle:
            if delay != queue.seconds:
                return later(delay, call, *given, **more)
            over.append(lambda: call(*given))  # its time is over when this test says so
            return later(10 * PATIENCE, call, *given, **more)

        loop.call_later = call_later
        running = asyncio.create_task(queue.run())
        await queue.score(conversations("first", 1), "b")
        requests = [("a", conversations("slow", 12, 10_000)), ("c", conversations("never", 3, 100_000))]
        tasks = [asyncio.create_task(queue.score(batch, client)) for client, batch in requests]
        # The second turn of the first is under way, and is waited for.
        assert await asyncio.to_thread(under_way.wait, PATIENCE)
        for call in over[1:]:
            call()
        more.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        again = await queue.score(conversations("again", 2), "c")
        running.cancel()
        assert queue.waiting == 0 and len(again) == 2
        return found

    slow, never = asyncio.run(asked())
    done = sum(row["status"] == "heard" for row in slow)
    assert 0 < done < 12 and done == sum(each.count("slow") for each in turns.rounds)
    assert [row["taken"] for row in slow[done:]] == [False] * (12 - done)
    assert slow[-1]["unscored"] == "not scored within 0.3 seconds; send it again" and slow[-1]["id"] == "11"
    assert isinstance(never, ScoringTimeout) and not any("never" in each for each in turns.rounds)


def test_a_request_that_was_given_up_holds_nobody_up() -> None:
    turns = _Turns()

    async def asked() -> None:
        queue = FairQueue(turns.take)
        running = asyncio.create_task(queue.run())
        given_up = asyncio.create_task(queue.score(conversations("a", 9, 10_000), "a"))
        await asyncio.sleep(0.05)
        given_up.cancel()
        waiting = asyncio.create_task(queue.score(conversations("a", 1), "a"))
        turns.go.set()
        assert len(await waiting) == 1
        running.cancel()
        assert queue.waiting == 0

    asyncio.run(asked())


def test_a_failure_is_told_to_whoever_asked_and_the_next_is_served() -> None:
    def fail(batch: Sequence[Message]) -> None:
        if any(said.conversation == "bad" for said in batch):
            raise OSError(28, "No space left on device")

    turns = _Turns(fail)
    requests = [("a", conversations("bad", 9, 10_000)), ("b", conversations("good", 9, 40_000))]
    bad, good = asyncio.run(scored(turns, *requests))
    assert isinstance(bad, OSError) and len(good) == 9
    assert sum(each.count("bad") for each in turns.rounds) < 9, "the rest is not scored in vain"


def test_where_a_model_is_asked_pieces_are_under_way_side_by_side() -> None:
    both = threading.Barrier(2)
    turns = _Turns(lambda batch: both.wait(PATIENCE))
    turns.go.set()
    [rows] = asyncio.run(scored(turns, ("a", conversations("a", 1)), concurrency=2))
    assert len(rows) == 1 and sorted(turns.rounds) == [["a"], ["first"]]


def test_wrong_tokens_have_to_wait_longer_each_time_and_a_right_one_never_does() -> None:
    now = [0.0]
    attempts = AttemptLimiter(lambda: now[0])

    def wrong(host: str = "127.0.0.1") -> tuple[int, float]:
        found = attempts.record({"client": (host, 7)}, "name the token")
        return found.status, float(found.headers.get("Retry-After", 0))

    found = [wrong() for _ in range(40)]
    assert found[:20] == [(401, 0.0)] * 20 and found[22][0] == 429
    waits = []
    for _ in range(10):
        now[0] += 100
        assert wrong()[0] == 401
        waits.append(wrong()[1])
    assert waits == sorted(waits) and waits[0] < waits[3] and waits[-1] == 60
    assert wrong("10.0.0.1") == (401, 0.0), "another address"
    for place in range(60):
        found.append(wrong(f"2001:db8:1:2::{place:x}"))
    assert found[-1][0] == 429, "of one network of IPv6 any address can be chosen"


@pytest.mark.attack
def test_guesses_are_turned_away_and_the_right_token_is_let_in(own_client: Client) -> None:
    found = [own_client.ask("GET", "/metrics", None, {"Authorization": f"Bearer guess-{n}"}) for n in range(40)]
    assert [status for status, _, _ in found[:20]] == [401] * 20
    status, answer, about = found[-1]
    assert status == 429 and int(about["retry-after"]) >= 1 and "too many wrong tokens" in answer["error"]
    assert 'accord_requests_total{path="(none)",status="429"}' in own_client.figures()
    own_client.own = {}
    assert own_client.ask("GET", "/metrics")[0] == 401, "no token is no guess"


def test_labels_hold_no_control_characters(own_client: Client) -> None:
    own_client.post(said("c", "assistant", "Hello.", system='a\x1b[31m\r\n"b"\u202e\x85é'))
    text = own_client.figures()
    assert all(each.isprintable() or each == "\n" for each in text)
    assert r'system="a\\u001b[31m\\r\\n\"b\"\\u202e\\u0085é"' in text


@pytest.mark.attack
def test_memory_is_bounded_and_told(evaluator: Evaluator) -> None:
    scorer = LiveScorer(evaluator, limits=LiveConfig(memory_mb=2))
    with served(Ingestor(scorer)) as client:
        for place in range(20):
            text = " ".join(f"w{place}x{word}" for word in range(1000))
            calls = spans(f"t{place}", *(([("user", f"{text} {turn}")], "Hello.") for turn in range(5)))
            assert client.post(calls, "/v1/traces")[0] == 200
            assert client.post(said(f"c{place}", "assistant", "Hello.", documents=[text]))[0] == 200
            figures = dict(line.rsplit(" ", 1) for line in client.figures().splitlines() if line[0] != "#")
            assert 0 < float(figures["accord_memory_bytes"]) <= float(figures["accord_memory_limit_bytes"]) == 2e6
        assert 0 < len(scorer) < 20


def test_requests_under_way_have_so_many_bytes_and_small_ones_always_find_room() -> None:
    async def asked(sizes: list[int]) -> list[int]:
        go, statuses = asyncio.Event(), list[int]()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await go.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body"})

        guard = Guard(app, body=32 * 2**20)

        async def one(size: int) -> None:
            async def receive() -> dict[str, Any]:
                return {"type": "http.request", "body": b" " * size, "more_body": False}

            async def send(event: Any) -> None:
                statuses.extend([event["status"]] if "status" in event else [])

            scope = {"type": "http", "path": "/", "method": "POST", "headers": [(b"host", b"localhost")]}
            await guard(scope, receive, send)

        tasks = [asyncio.create_task(one(size)) for size in sizes]
        await asyncio.sleep(0.05)
        go.set()
        await asyncio.gather(*tasks)
        assert guard.total == 0
        return statuses

    found = asyncio.run(asked([30 * 2**20] * 6 + [1000] * 50))
    assert found.count(503) == 5 and found.count(200) == 51


@pytest.mark.posix
def test_rows_that_find_no_room_are_kept_once(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    rows = [{"place": place, "text": "x" * 100} for place in range(50)]
    try:
        with RowLog(tmp_path / "rows.jsonl") as log:
            log.write(rows[:5])
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
            with pytest.raises(OSError):
                log.write(rows[5:])
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            log.write(rows[5:])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    kept = [json.loads(line)["place"] for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert kept == list(range(50))


@pytest.fixture
def folder(evaluator: Evaluator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a fitted evaluator, in the working folder."""
    monkeypatch.chdir(tmp_path)
    new_project("evaluator: mixture\n")
    evaluator.save(tmp_path / "evaluators" / "mixture")
    return tmp_path


def test_the_command_serves_watches_and_stops_when_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(folder, "--out", "rows.jsonl") as server:
        client = Client(server.port)
        for place in range(40):
            assert client.post(said(f"c{place}", "assistant", "We open at nine.", system="bot"))[0] == 200
        [day] = client.ask("GET", "/v1/watch")[1]["days"]
        assert day["replies"] == day["conversations"] == 40
        assert "for the reason above; name another" in accord("serve", "--port", str(server.port), code=1)
    assert server.process.returncode == 0 and "stopped" in server.log
    assert len((folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()) == 40
    [day] = accord_json("watch")["days"]
    assert day["system"] == "bot" and day["replies"] == 40 and day["low"] == pytest.approx(day["mean"]) == day["high"]
    monkeypatch.setenv("ACCORD_TOKEN", "")
    assert "set ACCORD_TOKEN" in accord("serve", "--host", "0.0.0.0", code=1)


@pytest.mark.parametrize("token", ["", TOKEN])
def test_live_scoring_of_a_single_user_needs_a_token_and_behind_a_proxy_it_is_served_without_pages(
    folder: Path, token: str
) -> None:
    more = ["--proxy", "127.0.0.1", "--name", "scores.example"] if token else []
    hosts = {"Host": "scores.example"} if token else {}
    with serving(folder, *more, token=token) as server:
        client = Client(server.port)
        right, client.own = client.own, {}
        for path in ("/v1/evaluator", "/v1/watch", "/metrics", "/", "/board", "/board.json", "/lead"):
            assert client.ask("GET", path, None, hosts)[0] == 401, path
        assert client.post(said("c", "assistant", "We open at nine."), **hosts)[0] == 401
        if token:
            assert client.ask("GET", "/v1/evaluator", None, {**hosts, **right})[0] == 200
        for host in () if token else ("evil.example", "localhost:\u0661".encode().decode("latin-1")):
            paths = ("/healthz", "/v1/evaluator", "/")
            assert {client.ask("GET", path, None, {"Host": host})[0] for path in paths} == {421}
    assert server.process.returncode == 0
    if token:
        assert "the workbench is off, because there are no users" in server.log and TOKEN not in server.log
    else:
        assert "sign in with this link" in server.log and "token of live scoring" in server.log


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("missing", "holds no evaluator: evaluator.json is missing; fit one: accord fit"),
        ("damaged", "holds a damaged evaluator"),
        ("not live", "which the evaluator learned from"),
    ],
)
def test_serve_starts_without_live_evaluator_and_says_why(
    evaluator: Evaluator, tmp_path: Path, state: str, reason: str
) -> None:
    folder = tmp_path / "evaluators" / "mixture"
    if state != "missing":
        replace(evaluator, sources=() if state == "not live" else evaluator.sources).save(folder)
    if state == "damaged":
        (folder / "evaluator.json").write_text("{", encoding="utf-8")
    (tmp_path / "accord.yaml").write_text(
        "evaluator: mixture\nstudies: {look: {title: First look}}\n", encoding="utf-8"
    )
    with serving(tmp_path) as server:
        client = Client(server.port)
        assert client.ask("GET", "/healthz")[1] == {"status": "degraded"}
        assert client.ask("GET", "/")[0] == 401 and client.ask("GET", "/static/accord.css")[0] == 200
        for method, path in (("POST", "/v1/scores"), ("POST", "/v1/traces"), ("GET", "/metrics"), ("GET", "/docs")):
            status, answer, _ = client.ask(method, path, b"{}" if method == "POST" else None, JSON)
            assert status == 503 and answer["error"].startswith("live scoring is off: ") and reason in answer["error"]
        assert client.ask("GET", "/", None, {"Host": "evil.example"})[0] == 421
    log = server.log
    assert log.count("live scoring is off") == 1 and reason in log and f"http://127.0.0.1:{server.port}/: look" in log


@pytest.mark.parametrize("arguments", [["--host", "0.0.0.0"], ["--evaluator", "evaluators/none"]])
def test_serve_refuses_to_start_where_it_would_serve_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCORD_TOKEN", TOKEN)
    new_project("models: {}\n")
    assert "holds no evaluator: evaluator.json is missing" in accord("serve", *arguments, code=1)

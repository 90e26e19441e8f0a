"""Several processes behind one address: whose a conversation is, what a killed one costs, and how they end together."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from processes import Forked
from small_sample import sources
from waiting import PATIENCE, until

from accord import Evaluator, Label, Labels, LiveScorer, Question, Rubric, Scale, read
from accord.evidence import BANK, SourceContext, Training
from accord.learning import EvaluatorSettings, make_evaluator
from accord.models import memory_models
from accord.models import run as drive
from accord.values import Sample

pytest.importorskip("fastapi", reason="needs accord[serve]")
from accord.edges import BadInput
from accord.live.service.fair_queue import Busy, Late
from accord.live.service.links import ASKING, FORWARDING, Forwarded, Link, Listener, read_frame, write_frame

pytestmark = pytest.mark.slow

JSON = {"Content-Type": "application/json"}
TOKEN = "a-token-of-sixteen-characters"


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    question = Question(id="useful", text="Is it useful?", scale=Scale(options=(1, 2, 3, 4)))
    chats = [record.conversation for record in read(sources()[0])]
    samples = [Sample(c, place) for c in chats for place, turn in enumerate(c.turns) if turn.role == "assistant"]
    labels = Labels(Label(s.target, "useful", "ann", 1 + place % 4) for place, s in enumerate(samples))
    context = SourceContext(Rubric(name="useful", questions=(question,), main="useful"))
    about, settings = EvaluatorSettings(head="curves"), {"metrics": {"names": BANK}}
    made = make_evaluator("mixture", about, question, context, ("metrics",), settings)
    return drive(made.fit(Training(tuple(samples), labels, question)), memory_models())


class Served:
    """`accord serve --workers N`, and what it is asked."""

    def __init__(self, folder: Path, evaluator: Evaluator, *more: str, token: str = TOKEN, **config: Any) -> None:
        self.folder, self.headers = folder, {**JSON, "Authorization": f"Bearer {token}"}
        evaluator.save(folder / "evaluators" / "mixture")
        (folder / "accord.yaml").write_text(json.dumps({"evaluator": "mixture", **config}), encoding="utf-8")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = ["-m", "accord", "serve", "--workers", "2", "--port", str(self.port), *more]
        about = {**os.environ, "ACCORD_TOKEN": token}
        with (folder / "log.txt").open("wb") as log:
            self.process = Forked(command, cwd=folder, stdout=log, stderr=log, env=about)

    def said(self) -> str:
        return (self.folder / "log.txt").read_text(encoding="utf-8")

    def ask(self, method: str, path: str, body: bytes | None = None, **more: str) -> tuple[int, Any, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, {**self.headers, **more})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        is_json = (answer.getheader("Content-Type") or "").startswith("application/json")
        found = json.loads(content) if is_json else content.decode()
        return answer.status, found, {name.lower(): value for name, value in answer.getheaders()}

    def post(self, value: Any, path: str = "/v1/scores") -> tuple[int, Any]:
        return self.ask("POST", path, json.dumps(value).encode())[:2]

    def is_well(self) -> bool:
        with suppress(OSError, http.client.HTTPException):
            return bool(self.ask("GET", "/healthz")[1]["status"] == "ok")
        assert self.process.poll() is None, self.said()
        return False

    def rows(self) -> list[dict[str, Any]]:
        files = [self.folder / f"rows-{number}.jsonl" for number in (1, 2)]
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def workers(self) -> list[int]:
        """Processes that the service has started."""
        found = []
        for place in Path("/proc").iterdir():
            with suppress(OSError, ValueError, IndexError):
                parent = (place / "stat").read_text().rpartition(")")[2].split()[1]
                if int(parent) == self.process.pid and b"spawn_main" in (place / "cmdline").read_bytes():
                    found.append(int(place.name))
        return found


@contextmanager
def served(folder: Path, evaluator: Evaluator, *more: str, token: str = TOKEN, **config: Any) -> Iterator[Served]:
    found = Served(folder, evaluator, *more, token=token, **config)
    try:
        until(found.is_well, found.said)
        yield found
    finally:
        found.process.terminate()
        found.process.wait(PATIENCE)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, evaluator: Evaluator) -> Iterator[Served]:
    """A service with a study, for tests that ask and stop nothing; each has conversations of its own."""
    from served_workbench import chats

    from accord import Store

    folder = tmp_path_factory.mktemp("shared")
    store = Store(f"sqlite:///{folder}/accord.db")
    store.add_conversations(chats(4))
    store.close()
    study = {"look": {"title": "First look", "annotators_per_item": 1}}
    with served(folder, evaluator, "--out", "rows.jsonl", studies=study) as service:
        yield service
    assert service.process.returncode == 0, service.said()


def reply(conversation: str, text: str = "Hold the button for ten seconds.", **more: Any) -> dict[str, Any]:
    return {"conversation": conversation, "role": "assistant", "content": text, **more}


def test_several_workers_answer_as_one_does(tmp_path: Path, evaluator: Evaluator) -> None:
    names = [f"chat {place}" for place in range(12)]
    alone = LiveScorer(evaluator)
    with served(tmp_path, evaluator, "--out", "rows.jsonl", token=TOKEN) as service:
        for turn in range(3):
            asked = [{"conversation": name, "role": "user", "content": f"And then, {turn}?"} for name in names]
            batch = [*asked, {"conversation": "x"}, *(reply(name, f"Step {turn} of {name}.") for name in names)]
            status, answer = service.post({"messages": batch})
            assert status == 200 and [row.get("conversation") for row in answer["scores"]] == [
                each["conversation"] for each in batch
            ], "rows are in the order of the batch, whoever made them"
            assert answer["scores"][12]["status"] == "refused"
            for name, row in zip(names, answer["scores"][13:], strict=True):
                alone.message(name, "user", f"And then, {turn}?")
                expected = alone.message(name, "assistant", f"Step {turn} of {name}.")
                assert expected is not None and row == {
                    "status": "scored", "id": None, "system": None, **json.loads(json.dumps(expected.to_json()))
                }  # fmt: skip
        again = [service.post(reply("same", id="m"))[1] for _ in range(8)]  # a connection each: any worker takes it in
        assert [row.get("again", False) for row in again] == [False] + [True] * 7
        assert service.post(reply("chat 1", turn=0))[1]["status"] == "unscored"
        text = service.ask("GET", "/metrics")[1]
        assert "accord_conversations 13.0" in text and 'accord_messages_total{status="heard"} 36.0' in text
        assert "accord_memory_limit_bytes 5.12e+08" in text and "accord_evaluator_info" in text
        watched = service.ask("GET", "/v1/watch")[1]["days"]
        assert sum(row["replies"] for row in watched) == 37, "what all of them scored, but for the late one"
        for _ in range(8):
            connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE)
            connection.request("POST", "/v1/scores", b"{}", JSON)
            assert connection.getresponse().status == 401, "every worker asks for the token"
            connection.close()
    files = [(tmp_path / f"rows-{n}.jsonl").read_text().splitlines() for n in (1, 2)]
    owners = [{json.loads(line)["conversation"] for line in lines} for lines in files]
    assert not owners[0] & owners[1] and all(owners) and len(owners[0] | owners[1]) == 13
    assert service.process.returncode == 0, service.said()


def test_an_export_is_shared_out_and_each_reply_is_scored_once(shared: Served) -> None:
    def export(turns: int) -> dict[str, Any]:
        spans = []
        for chat in range(10):
            history = [
                {"role": role, "content": f"{role} {chat} says {turn}"}
                for turn in range(turns)
                for role in ("user", "assistant")
            ]
            told = {"gen_ai.conversation.id": f"t{chat}", "gen_ai.input.messages": json.dumps(history[:-1]),
                    "gen_ai.output.messages": json.dumps(history[-1:])}  # fmt: skip
            named = [{"key": key, "value": {"stringValue": value}} for key, value in told.items()]
            spans.append({"traceId": f"{chat:032x}", "spanId": f"{turns:016x}", "attributes": named})
        spans.append({"traceId": "f" * 32, "attributes": [{"key": "gen_ai.x", "value": "\ud800"}]})
        return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}

    before = len(shared.rows())
    for turns in (1, 2, 2, 3):  # one is sent again
        for _ in range(2):
            status, answer = shared.post(export(turns), "/v1/traces")
            assert status == 200 and answer["partialSuccess"]["rejectedSpans"] == 1
    assert shared.ask("POST", "/v1/traces", b"{")[0] == 400
    replies = Counter((row["conversation"], row["turn"]) for row in shared.rows() if row["conversation"][0] == "t")
    assert replies == {(f"t{chat}", turn): 1 for chat in range(10) for turn in (1, 3, 5)}
    assert len(shared.rows()) == before + 30


class Senders:
    """Clients that send each reply until it is answered, and remember which were; they stop with the `with`."""

    def __init__(self, service: Served, clients: int) -> None:
        self.service, self.acknowledged, self.refused = service, set[tuple[str, str]](), Counter[int]()
        self.ended = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(client,)) for client in range(clients)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Senders:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _send(self, client: int) -> None:
        place = 0
        while not self.ended.is_set():
            name, id = f"chat {client} {place // 20}", str(place)
            with suppress(OSError, http.client.HTTPException):
                status, row = self.service.post(reply(name, id=id, turn=place % 20))
                if status == 200 and row["status"] in {"scored", "unscored"} and row.get("taken", True):
                    self.acknowledged.add((name, id))
                    place += 1
                    continue
                self.refused[status] += 1
                assert status == 503, row

    def stop(self) -> None:
        self.ended.set()
        for thread in self._threads:
            thread.join(PATIENCE)


def test_pages_are_served_by_one_process_at_the_same_address(shared: Served) -> None:
    from served_workbench import Browser, printed_link

    assert Browser(shared.port).ask("GET", "/")[0] == 401
    signed_in = Browser(shared.port, printed_link(shared.said()))
    pages = [Browser(shared.port) for _ in range(6)]  # a connection each: any worker passes it on
    for page in pages:
        page.cookies = signed_in.cookies
    assert all("First look" in page.ask("GET", "/")[1] for page in pages)
    assert shared.post(reply("c"))[1]["status"] == "scored"
    assert pages[0].ask("GET", "/static/nothing.js")[0] == 404
    assert shared.ask("GET", "/", Host="evil.example")[0] == 421
    assert shared.ask("POST", "/study/look", b"x" * 2**20)[0] == 413


def test_a_promoted_evaluator_takes_over_in_every_worker(shared: Served, evaluator: Evaluator) -> None:
    names, folder = [f"promoted {place}" for place in range(8)], shared.folder
    assert shared.post({"messages": [reply(name) for name in names]})[0] == 200
    evaluator.save(folder / "made")
    os.replace(folder / "evaluators" / "mixture", folder / "before")
    os.replace(folder / "made", folder / "evaluators" / "mixture")
    until(lambda: shared.said().count("another evaluator from now on") == 2, shared.said)
    rows = shared.post({"messages": [reply(name) for name in names]})[1]["scores"]
    assert all(row["turn"] == 1 and row["signature"].endswith(evaluator.digest()) for row in rows)
    first = [row for row in shared.rows() if row["conversation"] in names and row["turn"] == 0]
    assert len(first) == 8 and not any(row["signature"].endswith(evaluator.digest()) for row in first)


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds workers in /proc")


@needs_proc
def test_workers_that_are_killed_again_and_again_under_load_lose_nothing_that_was_acknowledged(
    tmp_path: Path, evaluator: Evaluator
) -> None:
    chosen = random.Random(0)
    with served(tmp_path, evaluator, "--out", "rows.jsonl") as service, Senders(service, 4) as senders:
        for kill in range(3):
            before = len(senders.acknowledged)
            until(lambda before=before: len(senders.acknowledged) > before + 20, service.said)  # type: ignore[misc]
            victim = chosen.choice(service.workers())
            os.kill(victim, signal.SIGKILL)
            until(lambda victim=victim: victim not in service.workers())  # type: ignore[misc]
            until(lambda kill=kill: service.said().count("is started again") > kill, service.said)  # type: ignore[misc]
        until(service.is_well, service.said)
    kept = {(row["conversation"], row["id"]) for row in service.rows()}
    assert len(senders.acknowledged) > 60 and not senders.acknowledged - kept
    assert service.process.returncode == 0 and service.said().count("SIGKILL") == 3


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_finish_what_is_under_way_and_end(tmp_path: Path, evaluator: Evaluator, number: signal.Signals) -> None:
    with served(tmp_path, evaluator, "--out", "rows.jsonl") as service:
        with Senders(service, 4) as senders:
            until(lambda: len(senders.acknowledged) > 50, service.said)
            workers = service.workers()
            for each in [service.process.pid, *workers]:  # as a terminal or a service manager does
                os.kill(each, number)
            assert service.process.wait(PATIENCE) == 0
        kept = {(row["conversation"], row["id"]) for row in service.rows()}
        assert not senders.acknowledged - kept and not any(Path(f"/proc/{each}").exists() for each in workers)
        assert "Traceback" not in service.said()


@needs_proc
def test_no_worker_outlives_its_parent(tmp_path: Path, evaluator: Evaluator) -> None:
    with served(tmp_path, evaluator) as service:
        workers = service.workers()
        assert len(workers) == 2
        service.process.kill()
        until(lambda: not any(Path(f"/proc/{each}").exists() for each in workers))


def test_what_cannot_begin_is_one_line(tmp_path: Path, evaluator: Evaluator) -> None:
    service = Served(tmp_path, evaluator, "--annotator", "nobody", token=TOKEN)
    assert service.process.wait(PATIENCE) == 1
    assert "nobody" in service.said().splitlines()[-1] and "Traceback" not in service.said()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        other = tmp_path / "other"
        other.mkdir()
        service = Served(other, evaluator, "--port", str(taken.getsockname()[1]))
        assert service.process.wait(PATIENCE) == 1 and "cannot listen on" in service.said()


def test_forged_and_huge_ids_and_floods_are_answered_in_a_line(shared: Served) -> None:
    for name in ("", "x" * 513, 7, None, ["a"], {"a": 1}):
        status, row = shared.post({"conversation": name, "role": "assistant", "content": "Hello."})
        assert (status, row["status"]) == (422, "refused")
    for name in ("\ud800", "a\0b"):
        assert shared.post(reply(name))[1]["status"] == "refused"
    for name in ("\u202e", "../../etc", "🎉" * 128, "__proto__"):
        assert shared.post(reply(name))[1]["status"] == "scored"
    assert shared.post(reply("x" * 10**6))[0] == 422
    for host in ("evil.example", f"evil.example:{shared.port}"):
        assert shared.ask("GET", "/v1/evaluator", Host=host, Authorization="Bearer wrong")[0] == 401
    found = Counter[int]()

    def flood(client: int) -> None:
        batch = {"messages": [reply(f"flood {client} {n % 7}", "word " * 200) for n in range(1000)]}
        status, answer = shared.post(batch)
        found[status] += 1
        assert status in {200, 503} and ("scores" in answer or "error" in answer)

    threads = [threading.Thread(target=flood, args=(client,)) for client in range(12)]
    for thread in threads:
        thread.start()
    assert shared.post(reply("beside"))[0] == 200, "a single message has its place beside batches"
    for thread in threads:
        thread.join(PATIENCE)
    assert sum(found.values()) == 12 and found[200]
    assert shared.is_well()


# --- links ----------------------------------------------------------------------------------------------------------


def asked(listener: Listener, use: Any, secret: bytes = b"s") -> Any:
    async def run() -> Any:
        server = await asyncio.start_server(listener, "127.0.0.1", 0)
        link = Link(server.sockets[0].getsockname()[:2], secret)
        try:
            return await use(link)
        finally:
            link.close()
            server.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("raised", "seen"),
    [(Busy(), Busy), (Late("too late"), Late), (OSError(28, "No space left"), OSError), (BadInput("wrong"), BadInput)],
)
def test_a_failure_of_the_other_side_is_that_of_whoever_asked(raised: Exception, seen: type[Exception]) -> None:
    async def answer(what: str, value: bytes) -> Any:
        raise raised

    async def use(link: Link) -> None:
        with pytest.raises(seen):
            await link.ask("take", None, PATIENCE)

    asked(Listener(b"s", answer), use)


def test_many_questions_share_a_connection_and_a_cut_one_is_made_anew() -> None:
    cut = asyncio.Event()

    async def answer(what: str, value: bytes) -> Any:
        if what == "wait":
            await cut.wait()
        return what

    async def use(link: Link) -> None:
        waits = asyncio.create_task(link.ask("wait", None, PATIENCE))
        assert [await link.ask(f"{n}", None, PATIENCE) for n in range(50)] == [
            b"\xa1%d" % n if n < 10 else b"\xa2%d" % n for n in range(50)
        ]
        assert link._writer is not None
        link._writer.transport.abort()
        with pytest.raises(Late, match="ended meanwhile"):
            await waits
        assert await link.ask("x", None, PATIENCE) == b"\xa1x"

    asked(Listener(b"s", answer), use)


@pytest.mark.parametrize("first", [(b"other", ASKING), (b"s", "what?"), (b"s", FORWARDING), "no pair"])
def test_who_does_not_know_the_secret_is_told_nothing(first: Any) -> None:
    import msgspec

    async def answer(what: str, value: bytes) -> Any:
        return "secret"

    async def use(link: Link) -> bytes:
        reader, writer = await asyncio.open_connection(*link.address)
        write_frame(writer, msgspec.msgpack.encode(first))
        write_frame(writer, msgspec.msgpack.encode((1, "take", None)))
        found = await reader.read()
        writer.close()
        return found

    with suppress(ConnectionError):
        assert asked(Listener(b"s", answer), use) == b""


def passed_on(app: Any, body: Sequence[bytes] = (b"",)) -> list[Any]:
    """What is sent back of a request that another process serves."""
    events: list[Any] = []

    async def run() -> None:
        server = await asyncio.start_server(Listener(b"s", app=app), "127.0.0.1", 0)
        parts = iter([{"type": "http.request", "body": each, "more_body": True} for each in body])

        async def receive() -> Any:
            part = next(parts, None)
            if part is None:
                await asyncio.Event().wait()
            return part

        async def send(event: Any) -> None:
            events.append(event)

        scope = {"type": "http", "method": "POST", "path": "/study/é", "headers": [(b"host", b"localhost")],
                 "client": ("127.0.0.1", 7), "query_string": b"a=1"}  # fmt: skip
        await Forwarded(server.sockets[0].getsockname()[:2], b"s")(scope, receive, send)
        server.close()

    asyncio.run(run())
    return events


def test_a_request_is_served_elsewhere_as_it_came_and_its_response_comes_in_pieces() -> None:
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope, body=[(await receive())["body"] for _ in range(2)])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x", b"y")]})
        for piece in (b"one", b"two"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    found = passed_on(app, [b"a" * 70_000, b"b"])
    assert [event.get("body") for event in found] == [None, b"one", b"two", b""] and found[0]["status"] == 200
    assert (
        seen["path"] == "/study/é"
        and seen["client"] == ("127.0.0.1", 7)
        and seen["headers"] == [(b"host", b"localhost")]
    )
    assert seen["body"] == [b"a" * 70_000, b"b"]


def test_pages_that_are_not_there_are_said_to_be_so() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise ConnectionResetError

    found = passed_on(app)
    assert found[0]["status"] == 503 and (b"retry-after", b"1") in found[0]["headers"]


def test_a_frame_that_is_too_long_ends_the_connection() -> None:
    async def run() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data((2000).to_bytes(4, "big") + b"x" * 2000)
        with pytest.raises(EOFError):
            await read_frame(reader, 1000)

    asyncio.run(run())

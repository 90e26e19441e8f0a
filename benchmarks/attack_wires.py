"""Hostile endpoints: invalid replies, misbehaving connections, false usage, and repeated keys."""

from __future__ import annotations

import gzip
import json
import math
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

from attacking import CONVERSATIONS, KEY, Case, Ran, Workshop, accord, judge_at, repeats_key, settings
from misbehaving_endpoint import answer_any

from accord.store import MonitoringTables, Store
from accord.testing import ChatServer, Wire

Change = Callable[[Any], object]
"""Function that changes a valid body in place, or returns another one."""


def _usage(**usage: object) -> Change:
    return lambda body: body.update(usage=usage)


def _first(**changes: object) -> Change:
    """Change the first answer of decisions."""
    return lambda body: body["answers"][0].update(changes)


def _levels(change: Callable[[list[dict[str, Any]]], object]) -> Change:
    return lambda body: change(next(answer for answer in body["answers"] if "probabilities" in answer)["probabilities"])


KEPT: dict[str, Change] = {
    "negative usage": _usage(input_tokens=-(10**9), output_tokens=-1, total_tokens=-5),
    "usage that is NaN": _usage(input_tokens=math.nan, output_tokens=math.nan, total_tokens=math.nan),
    "usage of 10^400": _usage(input_tokens=10**400, output_tokens=10**400),
    "usage that is a text": lambda body: body.update(usage="\x1b[31mmuch"),
    "usage that is a list": lambda body: body.update(usage=[[[]]]),
    "NUL and escapes in the model": lambda body: body.update(model="m\0\x1b[2J" + "m" * 90_000),
}
"""Unusual parts of replies with valid answers, which are stored."""
DECISIONS: dict[str, Change] = {
    "null": _levels(lambda levels: levels[0].update(probability=None)),
    "below 0": _levels(lambda levels: levels[0].update(probability=-0.2)),
    "above 1": _levels(lambda levels: levels[-1].update(probability=3)),
    "1e308": _levels(lambda levels: [level.update(probability=1e308) for level in levels]),
    "a text": _levels(lambda levels: levels[1].update(probability="0.1")),
    "a level twice": _levels(lambda levels: levels.append(dict(levels[0]))),
    "a level too many": _levels(lambda levels: levels.append({"label": "9", "value": 9, "probability": 0.01})),
    "a level that is a list": _levels(lambda levels: levels[0].update(value=[0])),
    "a name of another": _first(name="nobody"),
    "a type that is none": _first(type="\x1b[31m", probabilities=None, probability=None),
    "no answers": lambda body: body.update(answers=None),
    "answers that are numbers": lambda body: body.update(answers=[1, 2, 3]),
    "deep": lambda body: b'{"answers": ' + b"[" * 200_000,
    "6,000 digits": lambda body: b'{"answers": ' + b"8" * 6000 + b"}",
    "half a text": lambda body: b'{"answers": [{"name": "qual',
    "not UTF-8": lambda body: b'{"answers": "\xff\xfe"}',
}
"""Invalid answers, which leave a question unanswered."""


def _choice(**changes: object) -> Change:
    return lambda body: body["choices"][0].update(changes)


def _top(**changes: object) -> Change:
    return lambda body: body["choices"][0]["logprobs"]["content"][0]["top_logprobs"][0].update(changes)


LOGPROBS: dict[str, Change] = {
    "a huge logprob": _top(logprob=1e300),
    "a positive logprob": _top(logprob=0.5),
    "a logprob that is null": _top(logprob=None),
    "a logprob of 400 digits": _top(logprob=10**400),
    "a number for a token": _top(token=3),
    "content that is a list": lambda body: body["choices"][0]["message"].update(content=[{"text": "3"}]),
    "content that is a number": lambda body: body["choices"][0]["message"].update(content=3),
    "choices of texts": lambda body: body.update(choices=["3"]),
    "no choices": lambda body: body.update(choices=[]),
    "logprobs of logprobs": _choice(logprobs={"content": {"content": []}}),
    "deep inside": lambda body: b'{"choices": [{"message": ' + b'{"content":' * 90_000,
    "twice the same": _choice(logprobs={"content": [{"top_logprobs": [{"token": "2", "logprob": -0.1}] * 9}]}),
    "null": lambda body: b"null",
}  # fmt: skip


def replies(shop: Workshop) -> Iterator[Case]:
    """`accord judge` with one unusual reply per conversation, followed by valid ones."""
    for mode, odd in (("decisions", DECISIONS), ("logprobs", LOGPROBS)):
        judged: list[tuple[Ran, Mapping[int, int], str]] = []
        ways = {**KEPT, **odd}

        def once(mode: str = mode, ways: Mapping[str, Change] = ways, judged: Any = judged) -> Any:
            if not judged:
                judged.append(_judged(shop, mode, tuple(ways.values())))
            return judged[0]

        yield f"{mode}: the command and its stored answers", partial(_whole, once, len(ways))
        for place, name in enumerate(ways):
            yield f"{mode}: {name}", partial(_counted, once, place, name in KEPT)


def _judged(shop: Workshop, mode: str, changes: tuple[Change, ...]) -> tuple[Ran, Mapping[int, int], str]:
    """Return the end of the command, the answers per conversation, and a check of the store's numbers."""

    def respond(request: Mapping[str, Any]) -> Wire:
        place = int(re.findall(r"Is it (\d+)\?", json.dumps(request))[-1])
        body = json.loads(json.dumps(answer_any(request).body))
        other = changes[place](body) if place < len(changes) else None
        return Wire(other if isinstance(other, bytes) else json.dumps(body).encode())

    with ChatServer(respond) as server:
        folder = shop.learned(models=judge_at(server.url, mode))
        ran = accord(folder, "judge", "--all", "--source", "rubric", "--json")
    counts: dict[int, int] = {}
    with closing(Store(f"sqlite:///{folder}/accord.db")) as store:
        for conversation, _ in store.answered():
            counts[int(conversation[1:])] = counts.get(int(conversation[1:]), 0) + 1
    exported = accord(folder, "export", "out.jsonl", "--kind", "model")
    rows = (folder / "out.jsonl").read_text() if exported.code == 0 else f"no export: {exported.err}"
    return ran, counts, rows


def _whole(once: Callable[[], tuple[Ran, Mapping[int, int], str]], odd: int) -> str:
    ran, counts, rows = once()
    if fell := ran.fell((5,)):
        return fell
    for line in rows.splitlines():
        numbers = [float(each) for each in re.findall(r'": (-?[0-9.e+-]+|NaN|-?Infinity)[,}]', line)]
        if any(not math.isfinite(each) for each in numbers):
            return f"a number that is none is kept: {line[:150]}"
    used = json.loads(ran.out)
    if "NaN" in ran.out or "-" in re.sub(r"[a-zA-Z]-", "", json.dumps(used.get("spent", ""))):
        return f"spending that cannot be: {ran.out[:200]}"
    lost = [place for place in range(odd, CONVERSATIONS) if counts.get(place, 0) != 3]
    return f"good answers of conversations {lost} are not kept" if lost else ""


def _counted(once: Callable[[], tuple[Ran, Mapping[int, int], str]], place: int, is_kept: bool) -> str:
    count = once()[1].get(place, 0)
    if is_kept:
        return "" if count == 3 else f"{count} of 3 good answers are kept"
    return "" if count < 3 else "taken for an answer"


@contextmanager
def raw(answer: Callable[[socket.socket, Event], object]) -> Iterator[str]:
    """Start a raw server, which speaks HTTP only if `answer` does; returns its URL."""
    over = Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def one(connection: socket.socket) -> None:
            with connection:
                try:
                    connection.recv(65536)
                    answer(connection, over)
                except OSError:
                    return

        def listen() -> None:
            while not over.is_set():
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                Thread(target=one, args=(connection,), daemon=True).start()

        Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        over.set()
        listening.shutdown(socket.SHUT_RDWR)


def _says(*parts: bytes, again: bytes = b"", every: float = 0.0) -> Callable[[socket.socket, Event], object]:
    """Send parts, then another part repeatedly until the command ends."""

    def answer(connection: socket.socket, over: Event) -> None:
        for part in parts:
            connection.sendall(part)
        while again and not over.wait(every):
            connection.sendall(again)

    return answer


OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
RAW: dict[str, Callable[[socket.socket, Event], object]] = {
    "no HTTP": _says(b"SSH-2.0-OpenSSH_9.9\r\n" * 9),
    "headers without end": _says(OK, again=b"X-More: " + b"y" * 9000 + b"\r\n"),
    "one header without end": _says(OK + b"X-More: ", again=b"y" * 9000),
    "headers that drip": _says(OK, again=b"X-A: b\r\n", every=0.2),
    "a body that drips": _says(OK + b"Content-Length: 9000\r\n\r\n", again=b" ", every=0.2),
    "a body without end": _says(OK + b"\r\n{", again=b" " * 65536),
    "chunks without end": _says(CHUNKED, again=b"4000\r\n" + b" " * 0x4000 + b"\r\n"),
    "a chunk of a negative size": _says(CHUNKED + b"-5\r\n{}\r\n0\r\n\r\n"),
    "a chunk of exabytes": _says(CHUNKED + b"ffffffffffffffff\r\n{}"),
    "less than was promised": _says(OK + b'Content-Length: 90000\r\n\r\n{"answers": ['),
    "a length that is none": _says(OK + b"Content-Length: many\r\n\r\n{}"),
    "100 Continue without end": _says(again=b"HTTP/1.1 100 Continue\r\n\r\n", every=0.01),
}


NO_ANSWER = (
    "no HTTP", "headers without end", "one header without end", "headers that drip", "100 Continue without end",
)  # fmt: skip
"""Connections without a valid HTTP status."""


def _bomb(layers: int) -> bytes:
    packed = gzip.compress(bytes(4 << 20)) * 100
    return packed if layers == 1 else gzip.compress(packed)


WIRES: dict[str, Wire] = {
    "HTTP 500": Wire({"error": {"message": "x" * 90_000}}, 500),
    "HTTP 500 that waits a year": Wire({}, 503, {"Retry-After": "31536000"}),
    "a wait of NaN": Wire({}, 429, {"Retry-After": "nan"}),
    "a wait without end": Wire({}, 429, {"Retry-After": "inf"}),
    "a wait until the year 9999": Wire({}, 429, {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}),
    "HTTP 204": Wire(b"", 204),
    "HTTP 999": Wire({}, 999),
    "a page": Wire(b"<html>" * 1000, headers={"Content-Type": "text/html"}),
    "a gzip bomb": Wire(_bomb(1), headers={"Content-Encoding": "gzip"}),
    "a gzip bomb in gzip": Wire(_bomb(2), headers={"Content-Encoding": "gzip, gzip"}),
    "broken gzip": Wire(gzip.compress(b"{}" * 999)[:-30], headers={"Content-Encoding": "gzip"}),
    "an encoding that is none": Wire(b"{}", headers={"Content-Encoding": "zstd"}),
    "closed in mid-reply": Wire({"answers": ["x"] * 999}, close_after=200),
    "20 MB": Wire(b" " * (20 << 20)),
}


def endpoints(shop: Workshop) -> Iterator[Case]:
    """`accord judge` of two conversations at an endpoint that always misbehaves."""

    def judged(url: str, codes: tuple[int, ...] = (1, 5)) -> str:
        folder = shop.learned(models=judge_at(url, timeout=2, attempts=2))
        return accord(folder, "judge", "--limit", "2", "--source", "rubric").fell(codes)

    def wire(answer: Wire) -> str:
        with ChatServer(lambda request: answer) as server:
            return judged(server.url)

    def wild(answer: Callable[[socket.socket, Event], object]) -> str:
        with raw(answer) as url:
            return judged(url)

    def elsewhere(status: int) -> str:
        with ChatServer(answer_any) as other:
            to = {"Location": f"{other.url}/decisions?key={KEY}"}
            with ChatServer(lambda request: Wire({}, status, to)) as server:
                fell = judged(server.url, (1,))
            return fell or ("the conversation was carried to another host" if other.requests else "")

    def around() -> str:
        with ChatServer(lambda request: Wire({}, 307, {"Location": request["_path"] + "/x"})) as server:
            return judged(server.url)

    for name, answer in WIRES.items():
        yield name, partial(wire, answer)
    for name, way in RAW.items():
        yield name, partial(wild, way)
    for status in (301, 307, 308):
        yield f"HTTP {status} to another port", partial(elsewhere, status)
    yield "redirects without end", around


def webhooks(shop: Workshop) -> Iterator[Case]:
    """`accord watch` with an alarm and a misbehaving webhook, whose address has the key."""

    def told(url: str, tries: int, count: Callable[[], int] = lambda: 0) -> str:
        folder = shop.bare(monitoring={"webhook": f"{url}/{KEY}?token={KEY}"})
        with closing(Store(f"sqlite:///{folder}/accord.db")) as store:
            said = "the mean fell \x1b[2J\u202e ${OPENAI_API_KEY} <script>alert(1)</script>"
            MonitoringTables(store).raise_alarms(
                {"one": {"kind": "mean", "message": said, "system": "bot", "day": "2026-11-20"}}
            )
        (folder / "accord.yaml").rename(folder / "kept.yaml")
        ran = accord(folder, "watch", "--config", "kept.yaml")
        (folder / "kept.yaml").unlink()
        fell = ran.fell((1,), says="the webhook took no alarm") or repeats_key(ran.out, ran.err, written(folder))
        return fell or (f"{count()} requests where {tries} may be" if count() > tries else "")

    def wire(answer: Wire) -> str:
        with ChatServer(lambda request: answer) as server:
            return told(server.url, 3, lambda: len(server.requests))

    def wild(answer: Callable[[socket.socket, Event], object]) -> str:
        with raw(answer) as url:
            return told(url, 3)

    def elsewhere(status: int) -> str:
        with ChatServer(answer_any) as other, ChatServer(lambda _: Wire({}, status, {"Location": other.url})) as server:
            fell = told(server.url, 3, lambda: len(server.requests))
            return fell or ("the alarm was carried to another host" if other.requests else "")

    for name, answer in WIRES.items():
        if answer.status >= 300:  # a lower status accepts the alarm
            yield name, partial(wire, answer)
    for name in NO_ANSWER:
        yield name, partial(wild, RAW[name])
    for status in (301, 302, 303, 307, 308):
        yield f"HTTP {status} to another port", partial(elsewhere, status)
    yield "nobody listens", partial(told, "http://127.0.0.1:9", 3)
    yield "a port that is none", partial(told, "http://127.0.0.1:99999", 3)
    yield "a host that is none", partial(told, "http://[::1", 3)


URLS = (
    "http://{}127.0.0.1:9/a.jsonl{}", "https://{}127.0.0.1:9/a.jsonl{}", "ftp://{}127.0.0.1:9/a", "sftp://{}127.0.0.1/a",
    "github://{}repo/a", "git://{}repo", "smb://{}127.0.0.1/a", "hf://{}a", "memory://a", "file:///etc/passwd", "zip://a",
    "simplecache::s3://{}bucket/a", "s3://bucket/a::http://{}127.0.0.1:9/a{}", "s3://{}bucket/a{}", "gs://{}bucket/a{}",
    "abfs://{}account/a{}", "s3://[::1/a", "\x1b[31m://{}a",
)  # fmt: skip
"""Locations of conversations and scores, with a user and a query."""


def urls(shop: Workshop) -> Iterator[Case]:
    """Remote locations: a one-line error without user, password and query of the URL."""
    for url in URLS:
        named = url.format(f"ada:{KEY}@", f"?X-Amz-Signature={KEY}")
        commands: list[tuple[str, ...]] = [("score", named, "--out", "parts")]
        if url.startswith(("http:", "s3://{}")):
            commands += [("score", "chats.jsonl", "--out", named), ("import", named)]
        for command in commands:
            yield " ".join(each.replace(named, url) for each in command), partial(_not_opened, shop, command)


def _not_opened(shop: Workshop, command: tuple[str, ...]) -> str:
    ran = accord(shop.learned(), *command, deadline=60)
    return ran.fell() or repeats_key(ran.out, ran.err)


LIES: dict[str, object] = {
    "nothing": {}, "null": None, "one token": {"input_tokens": 1, "output_tokens": 0},
    "NaN": {"input_tokens": math.nan},
    "negative": {"input_tokens": -(10**6), "output_tokens": -9},
}  # fmt: skip
PRICES = "models: {m1: {input: 1000, output: 1000}}\n"


def budgets(shop: Workshop) -> Iterator[Case]:
    """Invalid caps, and endpoints that report no or negative usage."""
    for option, value in (("money", "nan"), ("money", "inf"), ("money", "-1"), ("money", "1e999"), ("tokens", "-5"),
                          ("requests", "-1"), ("requests", "1" + "0" * 400), ("tokens", "1e3")):  # fmt: skip
        yield f"--max-{option} {value[:9]}", partial(_capped, shop, option, value)
    for amount in (math.nan, math.inf, -1, "much", [1]):
        yield f"budget: {{money: {amount}}}", partial(_budget_of, shop, amount)
    for name, usage in LIES.items():
        yield f"usage is {name}", partial(_misreported, shop, usage)


def _capped(shop: Workshop, option: str, value: str) -> str:
    with ChatServer(answer_any) as server:
        folder = shop.learned(models=judge_at(server.url))
        (folder / "prices.yaml").write_text(PRICES)
        ran = accord(folder, "judge", "--source", "rubric", f"--max-{option}", value)
        asked = f"{len(server.requests)} requests were sent" if server.requests else ""
    return ran.fell((0,) if len(value) > 100 else (1, 2)) or ("" if len(value) > 100 else asked)


def _budget_of(shop: Workshop, value: object) -> str:
    folder = shop.learned(models=judge_at("http://127.0.0.1:9/v1"), budget={"money": value})
    text = (folder / "accord.yaml").read_text().replace("NaN", ".nan").replace("Infinity", ".inf")
    (folder / "accord.yaml").write_text(text)
    return accord(folder, "judge", "--plan").fell()


def _misreported(shop: Workshop, usage: object) -> str:
    """Compare the effect of a cap of a third of the tokens at endpoints with false and with true usage."""
    asked = list[int]()
    for given in (None, usage):

        def respond(request: Mapping[str, Any], given: object = given, lies: bool = bool(asked)) -> Wire:
            right = answer_any(request)
            return Wire(json.dumps({**right.body, "usage": given}).encode()) if lies else right  # type: ignore[dict-item]

        with ChatServer(respond) as server:
            folder = shop.learned(models=judge_at(server.url, concurrency=1))
            ran = accord(folder, "judge", "--source", "rubric", "--max-tokens", "1500")
            asked.append(len(server.requests))
        if fell := ran.fell((4,)):
            return fell
    return f"{asked[1]} requests where an honest endpoint had {asked[0]}" if asked[1] > 2 * asked[0] else ""


def _repeating(status: int, part: str, refuses: bool = False) -> Callable[[Mapping[str, Any]], Wire]:
    """Replies with a part of the key in every text."""

    def respond(request: Mapping[str, Any]) -> Wire:
        if status != 200:
            error = {"message": part, "code": part, "type": part, "param": part}
            return Wire({"error": error}, status, {"X-Request-Id": part, "WWW-Authenticate": part})
        body = json.loads(json.dumps(answer_any(request).body))
        body.update(model=f"m1 {part}", id=part)
        for choice in body.get("choices", ()):
            choice["message"].update(
                refusal=part if refuses else None, content=part if refuses else choice["message"]["content"]
            )
        for answer in body.get("answers", ()):
            answer.update(type="refusal", refusal=part) if refuses else answer.update(reason=part)
        return Wire(body)

    return respond


def secrets(shop: Workshop) -> Iterator[Case]:
    """A repeated key and a database password must be in no output, store, report or log."""
    for status in (200, 400, 401, 403, 404, 422, 429, 500):
        yield f"repeated with HTTP {status}", partial(_leaked, shop, _repeating(status, KEY))
    yield "the half of it", partial(_leaked, shop, _repeating(200, KEY[:13]))
    for mode in ("decisions", "logprobs", "verbalised"):
        yield f"refused in {mode}", partial(_leaked, shop, _repeating(200, KEY, True), mode)
    yield "models check", partial(_checked, shop)
    for url in ("postgresql://ada:{}@127.0.0.1:9/db", "postgresql://127.0.0.1:9/db?password={}", "mysql://a:{}@h/d",
                "postgresql://{}@127.0.0.1:9:9/db", "sqlite://{}/db"):  # fmt: skip
        yield f"a store at {url}", partial(_password, shop, url)
    yield "in an endpoint's URL", partial(_in_url, shop)
    yield "in a setting of another type", partial(_in_settings, shop)


def written(folder: Path) -> str:
    """Return the content of every file under a folder."""
    return "".join(path.read_bytes().decode(errors="replace") for path in folder.rglob("*") if path.is_file())


def _leaked(shop: Workshop, respond: Callable[[Mapping[str, Any]], Wire], mode: str = "decisions") -> str:
    with ChatServer(respond) as server:
        folder = shop.learned(models=judge_at(server.url, mode))
        ran = accord(folder, "judge", "--limit", "3", "--source", "rubric")
        reported = accord(folder, "report", "--json") if mode == "decisions" else ran
    return ran.fell((0, 1, 5)) or repeats_key(ran.out, ran.err, reported.out, reported.err, written(folder))


def _checked(shop: Workshop) -> str:
    with ChatServer(_repeating(200, KEY)) as server:
        ran = accord(shop.bare(), "models", "check", "m1", "--base-url", server.url)
        as_json = accord(shop.bare(), "models", "check", KEY, "--base-url", server.url, "--json")
    return ran.fell((0, 1)) or repeats_key(ran.out, ran.err, as_json.out, as_json.err)


def _password(shop: Workshop, url: str) -> str:
    folder = shop.bare()
    commands = (("export", "a.csv"), ("store", "check"))
    ran = [accord(folder, *command, ACCORD_STORE=url.format(KEY)) for command in commands]
    return next((fell for each in ran if (fell := each.fell() or repeats_key(each.out, each.err))), "")


def _in_url(shop: Workshop) -> str:
    folder = shop.learned(models=judge_at(f"http://ada:{KEY}@127.0.0.1:9/v1?api-key={KEY}"))
    settings = folder / "accord.yaml"
    ran = accord(folder, "judge", "--limit", "2", "--source", "rubric", OPENAI_API_KEY="another-key-of-some-length")
    settings.unlink()
    return ran.fell((1, 5)) or repeats_key(ran.out, ran.err, written(folder))


def _in_settings(shop: Workshop) -> str:
    folder = shop.bare()
    (folder / "accord.yaml").write_text(settings(seed="${OPENAI_API_KEY}", store="${OPENAI_API_KEY}"))
    ran = accord(folder, "judge", "--plan")
    return ran.fell() or repeats_key(ran.out, ran.err)

"""Expensive requests to `accord serve`, sent while the waits of another client are measured.

Each kind is expensive in one respect: different words have to be stemmed; words between full stops are not split at
spaces; a batch keeps the scorer busy; each of many documents is compared with every reply; junk is large and has
nothing to score; compressed requests cost the sender nothing; guessers send wrong tokens.
"""

from __future__ import annotations

import gzip
import http.client
import json
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from multiprocessing.synchronize import Event
from threading import Thread
from typing import Any

LARGEST = 4 * 2**20 - 2**14
"""Bytes of a request; the limit is 4 MB."""
CONNECTIONS, BODIES = 2, 3
"""Connections per kind and requests per connection, with more words than the service caches."""


@dataclass(frozen=True)
class Waits:
    """Results of the measured client's requests.

    Attributes:
        seconds: Seconds of each request until its answer.
        refused: Number of requests without status 200.
    """

    seconds: list[float]
    refused: int


def _differing(rng: random.Random, characters: int, blank: str = " ") -> str:
    """Return a text of about `characters` characters with different words."""
    drawn = rng.randbytes(3 * (characters // 7)).hex()
    return blank.join(drawn[place : place + 6] for place in range(0, len(drawn), 6)) + blank


def _said(name: str, content: str, documents: list[str] | None = None) -> dict[str, Any]:
    return {"conversation": name, "role": "assistant", "content": content, "documents": documents}


def _long(rng: random.Random, name: str) -> Any:
    return _said(name, _differing(rng, 999_000), [_differing(rng, 999_000)])


def _unspaced(rng: random.Random, name: str) -> Any:
    return _said(name, _differing(rng, 999_000, "."), [_differing(rng, 999_000, ".")])


def _batch(rng: random.Random, name: str) -> Any:
    each = LARGEST // 2200
    return {"messages": [_said(f"{name}-{i}", _differing(rng, each), [_differing(rng, each)]) for i in range(999)]}


def _repeating(rng: random.Random, name: str) -> Any:
    few = [f"{_differing(rng, 60)} and heron {place}" for place in range(1000)]
    return {"messages": [_said(name, "Hello.", few), *(_said(name, f"{i} {'heron and ' * 180}") for i in range(998))]}


def _conversations(rng: random.Random, name: str) -> Any:
    """Return small requests, each with its own ids and document, that fill the caches."""
    return {"messages": [{**_said(f"{name}-{i}", _differing(rng, 60), [_differing(rng, 3000)]), "id": f"{i}"}
                         for i in range(999)]}  # fmt: skip


KINDS: dict[str, Callable[[random.Random, str], Any]] = {
    "long messages": _long, "no blanks": _unspaced, "batches": _batch, "many documents": _repeating,
    "many conversations": _conversations,
}  # fmt: skip


def _bodies(kind: str, seed: str) -> list[tuple[bytes, dict[str, str]]]:
    """Return the requests of a kind, with their headers."""
    rng, packed = random.Random(seed), {"Content-Encoding": "gzip"}
    if kind == "junk":
        lists, objects = (part * (LARGEST // 3 - 8) for part in (b"[],", b"{},"))
        return [(b'{"messages": [' + lists + b"[]]}", {}), (b"[" + objects + b"{}]", {})]
    if kind == "packed":
        said = json.dumps(_said(seed, "a1 " * 330_000, ["b1 " * 330_000])).encode()
        return [(gzip.compress(said), packed), (gzip.compress(b"[" + b"[]," * (LARGEST // 3 - 8) + b"[]]"), packed)]
    if kind == "wrong tokens":
        return [(b"{}", {"Authorization": "Bearer a-wrong-token-of-some-length"})]
    return [(json.dumps(KINDS[kind](rng, f"{seed}-{place}")).encode(), {}) for place in range(BODIES)]


ALL = (*KINDS, "junk", "packed", "wrong tokens")


def _send(port: int, kind: str, token: str, ready: Any, stop: Event, answered: Any) -> None:
    """Send requests on several connections until stopped."""

    def one(bodies: list[tuple[bytes, dict[str, str]]]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        for body, headers in cycle(bodies):
            if stop.is_set():
                return
            try:
                post(connection, body, token, headers)
                with answered.get_lock():
                    answered.value += 1
            except (OSError, http.client.HTTPException):  # it was turned away while it sent; it comes again
                connection.close()

    prepared = [_bodies(kind, f"{kind}-{place}") for place in range(CONNECTIONS)]
    threads = [Thread(target=one, args=(bodies,), daemon=True) for bodies in prepared]
    with ready.get_lock():
        ready.value += 1
    for thread in threads:
        thread.start()
    stop.wait()


@contextmanager
def sending(port: int, kinds: Sequence[str], token: str) -> Iterator[Any]:
    """Send requests of each kind from a process during the block; yields the count of answers."""
    context = multiprocessing.get_context("spawn")
    ready, answered, stop = context.Value("i", 0), context.Value("i", 0), context.Event()
    processes = [context.Process(target=_send, args=(port, kind, token, ready, stop, answered)) for kind in kinds]
    for process in processes:
        process.start()
    while ready.value < len(kinds):
        time.sleep(0.05)
    time.sleep(3 if kinds else 0)  # until the service is busy with them
    try:
        yield answered
    finally:
        stop.set()
        for process in processes:
            process.join(5)
            process.kill()


def post(connection: http.client.HTTPConnection, body: bytes, token: str, headers: dict[str, str]) -> int:
    """Post a request, read its answer, and return its status."""
    named = {"Content-Type": "application/json", "Authorization": f"Bearer {token}", **headers}
    connection.request("POST", "/v1/scores", body, named)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def waits(port: int, bodies: Sequence[bytes], token: str, every: float) -> Waits:
    """Return the waits of a client that sends requests at an interval, or one after the other."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    found, refused, start = list[float](), 0, time.perf_counter()
    for place, body in enumerate(bodies):
        time.sleep(max(0.0, start + place * every - time.perf_counter()))
        asked = time.perf_counter()
        refused += post(connection, body, token, {}) != 200
        found.append(time.perf_counter() - asked)
    return Waits(found, refused)

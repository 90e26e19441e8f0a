"""Attacks on paid work: keys and escapes in batch replies, submissions without an answer, claims of a wrong clock."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from threading import Event
from typing import Any

from attack_wires import written
from attacking import KEY, Case, Workshop, accord, judge_at, repeats_key
from misbehaving_endpoint import answer_any

from accord.store import Store
from accord.testing import Batches, ChatServer, Wire

SAID = f"{KEY}\x1b[31m"
LIMIT = "3"
COMMAND = ("judge", "--batch", "--limit", LIMIT)


class Repeating(Batches):
    """A provider that repeats the key and a terminal escape in one place of its answers."""

    def __init__(self, place: str) -> None:
        super().__init__(answer_any, looks=0)
        self.place = place

    def _looked(self, name: str) -> Wire:
        body = {**super()._looked(name).body}  # type: ignore[dict-item]
        if self.place == "error of the batch":
            body |= {"status": "failed", "errors": {"object": "list", "data": [{"code": SAID, "message": SAID}]}}
        elif self.place in body:
            body[self.place] = KEY
        return Wire(body)

    def _answer(self, batch: dict[str, Any]) -> None:
        super()._answer(batch)
        name = batch["output_file_id"]
        lines = [json.loads(line) for line in self.files[name].splitlines()]
        for line in lines:
            if self.place == "error of a line":
                line.update(response=None, error={"code": KEY, "message": SAID})
            elif self.place == "body of a failed line":
                line["response"] = {"status_code": 400, "body": {"error": {"code": KEY, "message": SAID}}}
            elif self.place == "reply":
                body = line["response"]["body"]
                body.update(model=SAID, system_fingerprint=SAID)
                body["choices"][0]["message"]["content"] = SAID
                body["choices"][0]["logprobs"]["content"][0]["top_logprobs"][-1]["token"] = KEY
        self.files[name] = "\n".join(map(json.dumps, lines)).encode()


class Losing(Batches):
    """A provider that starts the first batch without answering, and lists it from the `listed_at`-th list on."""

    def __init__(self, listed_at: int, seconds: float) -> None:
        super().__init__(answer_any, looks=0)
        self.listed_at, self.seconds, self.lists = listed_at, seconds, 0

    def _made(self, request: Mapping[str, Any]) -> Wire:
        is_first = not self.batches
        answer = super()._made(request)
        if not is_first:
            return answer
        return Wire(answer.body, close_after=None if self.seconds else 5, after=self.seconds)

    def _listed(self) -> Wire:
        self.lists += 1
        return super()._listed() if self.lists >= self.listed_at else Wire({"object": "list", "data": []})


def batches(shop: Workshop) -> Iterator[Case]:
    """`accord judge --batch`: no key and no escape is kept, and every prompt is paid for once."""
    for place in ("error of the batch", "error of a line", "body of a failed line", "reply", "id", "status",
                  "output_file_id"):  # fmt: skip
        yield f"the key in: {place}", partial(_leaked, shop, place)
    for listed_at in (1, 2, 3):
        for name, seconds in (("cut off", 0.0), ("timeout", 3.0)):
            yield f"submission {name}, listed at look {listed_at}", partial(_paid_twice, shop, listed_at, seconds)

    yield "a judge killed while its clock was ahead", partial(_claimed_until_2099, shop)


def _leaked(shop: Workshop, place: str) -> str:
    with ChatServer(Repeating(place)) as server:
        folder = shop.learned(models=judge_at(server.url, "logprobs"))
        for _ in range(3):
            ran = accord(folder, *COMMAND)
            if fell := ran.fell((0, 1, 5)) or repeats_key(ran.out, ran.err):
                return fell
    if fell := accord(folder, "store", "backup", "copy.db").fell((0,)) or repeats_key(written(folder)):
        return fell
    with closing(Store(f"sqlite:///{folder}/accord.db")) as store:
        results = json.dumps([run["results"] for run in store.runs()])
    return "a terminal escape is kept in the results of a run" if "\\u001b" in results else ""


def _paid_twice(shop: Workshop, listed_at: int, seconds: float) -> str:
    provider = Losing(listed_at, seconds)
    with ChatServer(provider) as server:
        folder = shop.learned(models=judge_at(server.url, "logprobs", timeout=2 if seconds else 20))
        if fell := accord(folder, *COMMAND).fell((1,), says="the same command looks for it"):
            return fell
        for _ in range(listed_at):
            if fell := accord(folder, *COMMAND).fell((5,)):
                return fell
        fell = accord(folder, *COMMAND).fell((0,))
    return fell or (f"{len(provider.batches)} batches were paid for" if len(provider.batches) > 1 else "")


def _claimed_until_2099(shop: Workshop) -> str:
    """Kill a judge that waits for replies, move its claims to 2099, and judge again."""
    is_silent = Event()
    is_silent.set()

    def respond(request: Mapping[str, Any]) -> Wire:
        return Wire({}, after=30) if is_silent.is_set() else answer_any(request)

    with ChatServer(respond) as server:
        folder = shop.learned(models=judge_at(server.url))
        command = ("judge", "--limit", LIMIT, "--source", "rubric")
        accord(folder, *command, deadline=8)
        is_silent.clear()
        with closing(sqlite3.connect(folder / "accord.db")) as database, database:
            moved = database.execute("UPDATE claims SET until = '2099-01-01T00:00:00.000+00:00'").rowcount
        ran = accord(folder, *command, deadline=60)
    return ran.fell((0,)) or ("" if moved else "the attack itself failed: the killed judge held no claim")

"""The workbench under load: latency of fifty concurrent annotators, kills of the server, size and blindness of pages.

    python benchmarks/workbench.py [--only bare,save,kill,page,transcript,blind,order,dashboard] [--quick] --json OUT

`accord serve` runs as a process of its own, its people sign in by their links, and each holds one connection. On SQLite
and, where its binaries are, on a throw-away PostgreSQL:

- `save`: fifty annotators send answers, one after another each. `lost` are answers that were acknowledged and are not
  in the store, `doubled` those that are there twice.
- `kill`: the same, the server ended with SIGKILL ten times and started again. Answers that were not acknowledged are
  sent again, as a browser does.
- `page`: size of the first page with its files, in kB.
- `transcript`: the page of a conversation of 500 turns with all annotations (a judge's answers to nine
  questions and a model's issues for each reply, documents): `seconds` is the median after the first load, `p99_seconds`
  the longest, `first_seconds` the first.
- `blind`: responses to an annotator, searched for the system's name, the conversation's id, what others answered, and
  the evaluator's prediction; `found` is how many have one.
- `order`: the labels that the informative order needs for the agreement of random order's 400, as a share of them, on
  planted annotators and on LLM-RUBRIC's synthetic dialogues (where the data are there); see `workbench_order.py`.
- `dashboard`: the board's pages with a million scores, the first load and each page after it; see `board_scores.py`.
- `bare` is the baseline: the same load on a server that does nothing but append each answer to a file and wait for the
  disk (`fsync`), in the same run.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from board_scores import dashboard
from harness import DATABASES, Row, Server, chosen, database, finish, options
from workbench_order import DRAWS, order_rows

from accord import Conversation, Store, Turn
from accord.store import Prediction, Studies
from accord.values import Annotation, Document, Issue, IssueAnnotation, Target
from accord.web import add_person

PARTS = ("bare", "save", "kill", "page", "transcript", "blind", "order", "dashboard")
PEOPLE = 50
SAVES = 60
KILLS = 10
SCORES = 1_000_000
COLUMNS = ["what", "database", "annotators", "answers", "lost", "doubled", "kills", "p50_seconds", "p99_seconds",
           "per_second", "kilobytes", "turns", "responses", "found", "dataset", "share", "scores", "page",
           "first_seconds", "seconds", "cpu_seconds", "again_seconds", "megabytes", "mart_megabytes"]  # fmt: skip
QUESTIONS = [f"Q{place}" for place in range(9)]
RUBRIC = "name: nine\nmain: Q0\nquestions:\n" + "".join(
    f'  - {{id: {name}, text: "How good is it ({name})?", options: {{1: bad, 2: poor, 3: fair, 4: good}}}}\n'
    for name in QUESTIONS
)
SYSTEM = "assistant-omega-7"

BARE = """
import http.server, os, sys
log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        os.write(log, self.rfile.read(int(self.headers["Content-Length"])) + b"\\n")
        os.fsync(log)
        self.send_response(201)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer.request_queue_size = 128
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


class Workbench(Server):
    """A project with a study over enough conversations for everybody, and its people."""

    def __init__(self, folder: Path, url: str, people: int, chats: int = 40) -> None:
        super().__init__(folder)
        self.url = url
        (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
        settings = {"store": url, "rubric": "rubric.yaml", "studies": {"look": {"annotators_per_item": people}}}
        (folder / "accord.yaml").write_text(json.dumps(settings), encoding="utf-8")
        with closing(Store(url)) as store, closing(Studies(store)) as studies:
            store.add_conversations(_chats(chats))
            self.keys = {f"p{place}": add_person(studies, f"p{place}") for place in range(people)}


class Annotator:
    """An annotator with a browser, who signs in, takes items, and saves answers until each is confirmed."""

    def __init__(self, server: Workbench, name: str) -> None:
        self.server, self.name = server, name
        self.seconds: list[float] = []
        self.acknowledged: dict[str, str] = {}
        self.connection: HTTPConnection | None = None
        self.cookie = self.token = self.assignment = ""

    def sign_in(self) -> None:
        """By the personal link."""
        status, _, headers = self.ask("POST", "/in", urlencode({"key": self.server.keys[self.name]}))
        assert status == 303, status
        self.cookie = (headers.get("Set-Cookie") or "").partition(";")[0]

    def take(self) -> str:
        """The next item's page."""
        status, _, headers = self.ask("GET", "/rate/look")
        assert status == 303, status
        self.assignment = (headers.get("Location") or "").rpartition("/")[2]
        status, page, _ = self.ask("GET", f"/rate/look/{self.assignment}")
        assert status == 200, page[:200]
        self.token = re.findall(r'name="accord-form" content="(\w+)"', page)[0]
        return page

    def save(self, place: int) -> None:
        """One answer, sent until it is acknowledged; the time of each attempt that was."""
        answer = f"{self.name}-{place:0>20}"
        row: Row = {"study": "look", "assignment": self.assignment, "id": answer, "question": QUESTIONS[place % 9],
               "value": place % 4 + 1, "seconds": 2.5}  # fmt: skip
        while True:
            start = time.perf_counter()
            try:
                status, said, _ = self.ask("POST", "/answers", json.dumps(row), kind="application/json")
            except (OSError, HTTPException):
                self.connection = None
                time.sleep(0.05)
                continue
            if status in (200, 201):
                self.seconds.append(time.perf_counter() - start)
                self.acknowledged[answer] = row["question"]
                return
            raise AssertionError(f"{status}: {said[:200]}")

    def ask(self, method: str, path: str, body: str | None = None, kind: str = "") -> tuple[int, str, Any]:
        """A request on the one connection."""
        if self.connection is None:
            self.connection = HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        headers = {"Origin": f"http://127.0.0.1:{self.server.port}", "Cookie": self.cookie}
        if body is not None:
            headers["Content-Type"] = kind or "application/x-www-form-urlencoded"
        if kind:
            headers["X-Accord-Form"] = self.token
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers


def under_load(what: str, kind: str, people: int, saves: int, kills: int = 0) -> Row:
    """Everybody saves at once; the server may be killed meanwhile."""
    with database(kind) as (url, folder, _):
        server = Workbench(folder, url, people)
        server.start()
        everybody = [Annotator(server, each) for each in server.keys]
        for each in everybody:
            each.sign_in()
            each.take()
        begin = time.perf_counter()
        threads = [threading.Thread(target=_saves, args=(each, saves)) for each in everybody]
        for thread in threads:
            thread.start()
        draw, done = random.Random(0), 0
        while done < kills and any(thread.is_alive() for thread in threads):
            time.sleep(draw.uniform(0.3, 1.0))
            server.stop(signal.SIGKILL)
            server.start()
            done += 1
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begin
        server.stop()
        lost, doubled = _missing(url, everybody)
        times = sorted(each for annotator in everybody for each in annotator.seconds)
        count = len(times)
        return {
            "what": what, "database": kind, "annotators": people, "answers": count, "lost": lost,
            "doubled": doubled, "kills": done if kills else None, "p50_seconds": statistics.median(times),
            "p99_seconds": times[min(count - 1, int(count * 0.99))], "per_second": count / seconds,
        }  # fmt: skip


def _saves(annotator: Annotator, count: int) -> None:
    for place in range(count):
        annotator.save(place)


def _missing(url: str, everybody: list[Annotator]) -> tuple[int, int]:
    """Answers that were acknowledged and are not there, and those that are there twice."""
    store = Store(url)
    kept = Counter(each.answer for each in store.annotations({"person"}))
    store.close()
    wanted = [answer for annotator in everybody for answer in annotator.acknowledged]
    return sum(answer not in kept for answer in wanted), sum(count > 1 for count in kept.values())


def bare(people: int, saves: int) -> Row:
    """The baseline: a server that appends each answer to a file and waits for the disk."""
    with tempfile.TemporaryDirectory() as name:
        log, times = Path(name) / "log", list[float]()
        server = Server(Path(name), str(log), command=["-c", BARE])
        server.start()

        def client(which: int) -> None:
            connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
            for place in range(saves):
                start = time.perf_counter()
                connection.request("POST", "/", json.dumps({"id": f"{which}-{place}", "value": 3}))
                connection.getresponse().read()
                times.append(time.perf_counter() - start)

        begin = time.perf_counter()
        threads = [threading.Thread(target=client, args=(which,)) for which in range(people)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begin
        server.stop(signal.SIGKILL)
        lines = len(log.read_text(encoding="utf-8").splitlines())
        times.sort()
        return {
            "what": "bare", "database": "file", "annotators": people, "answers": len(times),
            "lost": people * saves - lines, "doubled": 0, "p50_seconds": statistics.median(times),
            "p99_seconds": times[int(len(times) * 0.99)], "per_second": len(times) / seconds,
        }  # fmt: skip


def page() -> Row:
    """The first page of an item with its style sheet, scripts and font, as a browser loads them once, in kB."""
    with database("sqlite") as (url, folder, _), Workbench(folder, url, 1) as server:
        somebody = Annotator(server, "p0")
        somebody.sign_in()
        loaded = somebody.take()
        size = len(gzip.compress(loaded.encode()))
        for address in sorted(set(re.findall(r'(?:src|href)="(/static/[^"]+)"', loaded))):
            assert somebody.connection is not None
            somebody.connection.request("GET", address, headers={"Accept-Encoding": "gzip"})
            size += len(somebody.connection.getresponse().read())
        return {"what": "page", "database": "sqlite", "kilobytes": size / 1000}


def transcript(turns: int = 500, loads: int = 10) -> Row:
    """The reading view of a long conversation, as a lead loads it."""
    with database("sqlite") as (url, folder, _):
        server = Workbench(folder, url, 1)
        with closing(Store(url)) as store, closing(Studies(store)) as studies:
            _add_long(store, turns)
            server.keys["lead"] = add_person(studies, "lead", "lead")
        with server:
            lead = Annotator(server, "lead")
            lead.sign_in()
            seconds = []
            for _ in range(loads + 1):
                start = time.perf_counter()
                status, said, _ = lead.ask("GET", "/conversation/long")
                seconds.append(time.perf_counter() - start)
                assert status == 200 and said.count('class="msg turn') == turns, status
        return {
            "what": "transcript", "database": "sqlite", "turns": turns, "kilobytes": len(said.encode()) / 1000,
            "seconds": statistics.median(seconds[1:]), "p99_seconds": max(seconds[1:]), "first_seconds": seconds[0],
        }  # fmt: skip


def _add_long(store: Store, turns: int) -> None:
    """Return a conversation of `turns` turns with judgments and issues of every reply."""
    draw = random.Random(0)
    words = ["order", "parcel", "router", "return", "delivery", "address", "refund", "label", "shop", "day"]
    texts = [" ".join(draw.choices(words, k=60)) for _ in range(turns)]
    said = tuple(Turn("assistant" if place % 2 else "user", text) for place, text in enumerate(texts))
    documents = tuple(Document(" ".join(draw.choices(words, k=300)) + texts[2 * place + 1]) for place in range(10))
    store.add_conversations([Conversation("long", said, documents, {"system": SYSTEM})])
    replies = range(1, turns, 2)
    store.add_answers(
        {"key": f"{place}-{name}", "conversation": "long", "turn": place, "question": name, "judge": "judge",
         "mode": "logprobs", "outside": 0.0, "version": "", "made_from": json.dumps({"question": name}),
         "probabilities": json.dumps({"1": 0.1, "2": 0.2, "3": 0.3, "4": 0.4})}
        for place in replies
        for name in QUESTIONS
    )  # fmt: skip
    for place in replies:
        issue = Issue("Unclear", "no search terms", texts[place][:30], (0, 30))
        found = IssueAnnotation(Target("long", place), (issue,), 3, "so so", "issues|model:finder")
        store.add_annotations(Annotation.from_issues(found))


def blind(responses: int) -> Row:
    """Search the responses to an annotator for information that would bias ratings."""
    with (
        database("sqlite") as (url, folder, _),
        Workbench(folder, url, 3, chats=responses // 5) as server,
        closing(Store(url)) as store,
        closing(Studies(store)) as studies,
    ):
        first, second = Annotator(server, "p1"), Annotator(server, "p0")
        for each in (first, second):
            each.sign_in()
        secrets = [SYSTEM, "secret-comment-of-another", "prediction-of-the-evaluator", "0.2718281828"]
        found = seen = 0
        while seen < responses:
            first.take()
            row: Row = {"study": "look", "assignment": first.assignment, "id": f"first-{seen:0>20}", "question": "Q0",
                   "value": 4, "comment": "secret-comment-of-another"}  # fmt: skip
            assert first.ask("POST", "/answers", json.dumps(row), kind="application/json")[0] == 201
            item = studies.assignment(first.assignment)
            assert item is not None
            expected = Prediction(item.item.key, "p0", "Q0", "prediction-of-the-evaluator", {"4": 0.2718281828}, "")
            studies.add_predictions([expected._replace(made="2026-01-01T00:00:00.000+00:00")])
            second.take()
            here = f"/rate/look/{second.assignment}"
            for address in ("/", "/rate/look", here, f"{here}.json", "/rate/look/done", "/rate/look/done.json"):
                _, said, headers = second.ask("GET", address)
                seen += 1
                found += any(secret in said + str(headers) for secret in secrets)
            for each in (first, second):
                fields = {"form": each.token, "do": "skip", "reason": "next"}
                each.ask("POST", f"/rate/look/{each.assignment}", urlencode(fields))
            if first.ask("GET", "/rate/look")[2].get("Location", "").endswith("done"):
                break
        return {"what": "blind", "database": "sqlite", "responses": seen, "found": found}


def _chats(count: int) -> list[Conversation]:
    """Conversations written here, whose ids name the system as real logs do."""
    return [
        Conversation(
            f"{SYSTEM}-{place}",
            tuple(
                Turn(role, f"{words} {place}.{turn}")
                for turn in range(4)
                for role, words in (
                    ("user", "Could you tell me more about case"),
                    ("assistant", "Here is what I know of"),
                )
            ),
            metadata={"system": SYSTEM},
        )
        for place in range(count)
    ]


def main() -> None:
    """Measure, print, write."""
    parser = options("workbench", __doc__.splitlines()[0], PARTS)
    given = parser.parse_args()
    parts = chosen(parser, given.only, PARTS)
    people, saves, kills, responses = (8, 9, 2, 60) if given.quick else (PEOPLE, SAVES, KILLS, 1000)
    rows: list[Row] = []
    if "bare" in parts:
        rows.append(bare(people, saves))
    if len(DATABASES) == 1:
        print("no PostgreSQL here: SQLite alone", file=sys.stderr)
    for what in ("save", "kill"):
        for kind in DATABASES if what in parts else ():
            rows.append(under_load(what, kind, people, saves, kills if what == "kill" else 0))
    if "page" in parts:
        rows.append(page())
    if "transcript" in parts:
        rows.append(transcript())
    if "blind" in parts:
        rows.append(blind(responses))
    if "order" in parts:
        rows += list(order_rows(given.data, 2 if given.quick else DRAWS))
    if "dashboard" in parts:
        rows += list(dashboard(20_000 if given.quick else SCORES))
    finish("workbench", rows, COLUMNS, given.json)


if __name__ == "__main__":
    main()

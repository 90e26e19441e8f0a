"""The workbench under attack: forged forms, foreign origins and names, guessed links, texts that are markup."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from functools import partial
from urllib.parse import urlencode

from attack_pages import live
from attack_service import FORM, JSON, Served, listening
from attacking import Case, Workshop, accord, messages, shown_badly

GUESSES = 10_000
MARKUP = '<script onpwn="1">pwned()</script><img src=x onerror=pwned()>"\'><b onpwn=1>\u202e\x1b[2J'
FORMULA = '=HYPERLINK("http://127.0.0.1/?"&A1,"x")'
SECRET = "a-comment-that-is-nobody-elses"


class People:
    """A study that is served, with three people who came in by their links."""

    def __init__(self, shop: Workshop) -> None:
        self.folder = shop.bare(studies={
            "look": {
                "title": MARKUP, "guidelines": MARKUP, "annotators_per_item": 2, "issue_taxonomy": "soda-eval",
                "gold": {"c3": {"quality": 1}}, "stages": [{"id": "one"}, {"id": "two", "questions": ["quality"]}],
            },
            "others": {"title": "not for ann", "annotators": ["zoe"]},
        })  # fmt: skip
        said = (messages(f"{MARKUP} {place}", f"{FORMULA} {MARKUP}") for place in range(40))
        rows = [
            {"id": f"c{place}", "metadata": {"system": "omega-7"}, "messages": each} for place, each in enumerate(said)
        ]
        (self.folder / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        accord(self.folder, "import", "chats.jsonl")
        self.links = {}
        for name, role in (("ann", "annotator"), ("bob", "annotator"), ("zoe", "lead")):
            told = accord(self.folder, "users", "add", name, "--role", role, "--json")
            self.links[name] = json.loads(told.out)["link"].rpartition("/")[2]

    def labels(self) -> int:
        """Return the number of saved answers."""
        connection = sqlite3.connect(self.folder / "accord.db", timeout=60)
        (count,) = connection.execute("SELECT count(*) FROM annotations").fetchone()
        connection.close()
        return int(count)


class Browser:
    """Raw requests with a cookie."""

    def __init__(self, served: Served, key: str = "") -> None:
        self.served, self.cookie, self.token, self.item = served, "", "", ""
        if key:
            told = self.send("POST", "/in", urlencode({"key": key}), form=True)
            self.cookie = _first(r"set-cookie: ([^;\r]+)", told)
            self.token = _first(r'name="accord-form" content="(\w+)"', self.send("GET", "/"))

    def send(self, method: str, path: str, body: str = "", form: bool = False, **changed: str) -> str:
        """Return the response; headers can be `changed`, or omitted if empty."""
        here = f"127.0.0.1:{self.served.port}"
        headers = {"Host": here, "Origin": f"http://{here}", "Cookie": self.cookie, "X-Accord-Form": self.token}
        if form:
            headers["X-Accord-Form"] = ""
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value)
        sent = body.encode("utf-8", "surrogatepass")
        lead = f"{method} {path} HTTP/1.1\r\n{head}{FORM if form else JSON}Connection: close\r\n"
        return self.served.send(f"{lead}Content-Length: {len(sent)}\r\n\r\n".encode("latin-1"), sent).decode("latin-1")

    def take(self) -> str:
        """The page of the next item, behind that of the guidelines."""
        self.item = _first(r"location: /rate/look/([\w-]+)", told := self.send("GET", "/rate/look/next"))
        if not self.item:
            raise RuntimeError(f"nothing to rate was given: status {_status(told)}")
        return self.send("GET", f"/rate/look/{self.item}")

    def answer(self, **more: object) -> dict[str, object]:
        """Return a valid answer with some fields changed."""
        made: dict[str, object] = {"study": "look", "assignment": self.item, "id": "honest-answer-0001", "value": 1,
                                   "question": "quality", "stage": "one"}  # fmt: skip
        return {**made, **more}


def workbench(shop: Workshop) -> Iterator[Case]:
    """Run all attacks against one server; refused answers must not be saved."""
    people = People(shop)
    with listening(people.folder, "serve") as served:
        ann, bob, zoe = (Browser(served, people.links[name]) for name in ("ann", "bob", "zoe"))
        ann.take()
        bob.take()
        refused = partial(_refused, people)
        for name, sent in _forged(ann, bob).items():
            yield f"forged: {name}", partial(refused, ann, sent)
        for name, changed in {
            "another origin": {"Origin": "http://evil.example"}, "no origin": {"Origin": ""},
            "an origin of another scheme": {"Origin": f"https://127.0.0.1:{served.port}"},
            "a name of its own (DNS rebinding)": {"Host": "evil.example", "Origin": "http://evil.example"},
            "no cookie": {"Cookie": ""}, "a cookie that was made up": {"Cookie": "accord_session=" + "x" * 43},
            "another browser's form": {"X_Accord_Form": bob.token}, "no form": {"X_Accord_Form": ""},
        }.items():  # fmt: skip
            yield f"request: {name}", partial(refused, ann, ann.answer(), **changed)
        yield (
            "request: two hosts",
            lambda: _blind(partial(ann.send, "GET", "/", Cookie=f"{ann.cookie}\r\nHost: evil.example"), (400,)),
        )
        for items in ("\u0663", "\u00b2", "9" * 5000, "0", "101"):
            form = urlencode({"form": zoe.token, "items": items, "do": "open"})
            yield (
                f"norming items {ascii(items)[:12]}",
                partial(_blind, partial(zoe.send, "POST", "/lead/look/norm", form, True), (422,)),
            )
        yield "others' item", partial(_blind, lambda: ann.send("GET", f"/rate/look/{bob.item}"), (401, 403, 404, 422))
        yield "a study of others", partial(_blind, lambda: ann.send("GET", "/rate/others"), (404,))
        yield "the lead's page", partial(_blind, lambda: ann.send("GET", "/lead"), (403, 404))
        for path in (
            "/static/..%2f..%2fapp.py",
            "/static/../app.py",
            "/static/%00",
            "/in/" + "%2e%2e/" * 9,
            "/rate/%2e",
            "/static/" + "a" * 3000,
            "/static/" + "a" * 3000 + ".js",
        ):
            yield f"path: {path[:40]}", partial(_blind, partial(ann.send, "GET", path), (307, 401, 404, 422, 429))
        for name, send in _huge(ann).items():
            yield f"huge: {name}", partial(_blind, send, (400, 408, 413, 422, 0))
        yield "markup in every text", partial(_markup, ann)
        yield "comments of others, the system, the prediction", partial(_told_nothing, people, ann, bob)
        yield "an answer sent fifty times at once", partial(_at_once, people, ann)
        yield "formulas in an export", partial(_formulas, people)
        yield f"{GUESSES:,} links that are guessed", partial(_guessed, served, ann)
        yield "a lead's page still opens", lambda: "" if _status(zoe.send("GET", "/")) == 200 else "it does not"
        yield "ends in peace", lambda: served.end() or _keys(people, served)


def _forged(ann: Browser, bob: Browser) -> dict[str, object]:
    """Yield answers that no page asks for."""
    mark = partial(ann.answer, question="issue:Coherence", turn=1)
    return {
        "an assignment of another": ann.answer(assignment=bob.item),
        "no such assignment": ann.answer(assignment="x" * 24),
        "a question of nobody": ann.answer(question="'; DROP TABLE annotations;--"),
        "an option of none": ann.answer(value=9),
        "true for a number": ann.answer(value=True),
        "a list": ann.answer(value=[1]),
        "a mapping": ann.answer(value={}),
        "a stage that is not reached": ann.answer(stage="two"),
        "an id that is too short": ann.answer(id="x"),
        "an id with a path": ann.answer(id="../" * 9),
        "negative seconds": ann.answer(seconds=-1),
        "seconds as text": ann.answer(seconds="1"),
        "another's name": ann.answer(by="bob"),
        "a study of others": ann.answer(study="others"),
        "a mark beyond the turn": mark(span=[0, 10**9]),
        "a mark of no kind": mark(question="issue:<b>"),
        "a mark of no turn": mark(turn=77),
        "a mark that takes back another's": mark(value=None, replaces="honest-answer-0001"),
        "a comment of a megabyte": ann.answer(comment="x" * 10**6),
        "not an object": [1],
        "NaN": ann.answer(value=float("nan")),
        "no JSON": "{",
    }


def _huge(ann: Browser) -> dict[str, Callable[[], str]]:
    head = f"POST /answers HTTP/1.1\r\nHost: 127.0.0.1:{ann.served.port}\r\nCookie: {ann.cookie}\r\n"
    return {
        "9 MB": partial(ann.send, "POST", "/answers", " " * (9 << 20)),
        "fields without end": partial(ann.send, "POST", f"/rate/look/{ann.item}", "&".join(["a=1"] * 9000), form=True),
        "deep": partial(ann.send, "POST", "/answers", "[" * 90_000),
        "an upload without end": lambda: ann.served.send(
            (head + "Transfer-Encoding: chunked\r\n\r\n").encode(), *[b"100000\r\n" + b"x" * 2**20 + b"\r\n"] * 80
        ).decode("latin-1"),
        "a header of 90 MB": lambda: ann.served.send(b"GET / HTTP/1.1\r\nX: ", *[b"x" * 2**20] * 90).decode("latin-1"),
        "gzip": lambda: ann.send("POST", "/answers", "\x1f\x8b", Content_Encoding="gzip"),
    }


def _refused(people: People, browser: Browser, row: object, **changed: str) -> str:
    """Return True if an answer was refused without a traceback and without saved data."""
    before = people.labels()
    sent = row if isinstance(row, str) else json.dumps(row)
    told = browser.send("POST", "/answers", sent, False, **changed)
    if not 400 <= _status(told) < 500:
        return f"status {_status(told)}"
    return _bad(told) or ("something was kept" if people.labels() != before else "")


def _blind(send: Callable[[], str], allowed: tuple[int, ...]) -> str:
    told = send()
    return _bad(told) or ("" if _status(told) in allowed else f"status {_status(told)}")


def _markup(ann: Browser) -> str:
    row = ann.answer(id="with-markup-00001", comment=MARKUP)
    if _status(ann.send("POST", "/answers", json.dumps(row))) != 201:
        return "an honest answer was refused"
    for path in ("/", f"/rate/look/{ann.item}", "/rate/look/done", f"/rate/look/{ann.item}.json"):
        told = ann.send("GET", path)
        found = "" if path.endswith(".json") else live(told.partition("\r\n\r\n")[2])
        if found or "content-security-policy: default-src 'none'" not in told:
            return f"{path}: {found or 'no policy'}"
    return ""


def _told_nothing(people: People, ann: Browser, bob: Browser) -> str:
    bob.send("POST", "/answers", json.dumps(bob.answer(id="secret-of-bob-0001", comment=SECRET)))
    for path in ("/", f"/rate/look/{ann.item}", f"/rate/look/{ann.item}.json", "/rate/look/done.json"):
        told = ann.send("GET", path)
        for secret in (SECRET, "omega-7", "bob", "gold"):
            if secret in told:
                return f"{path} tells of {secret!r}"
    return ""


def _at_once(people: People, ann: Browser) -> str:
    """Fifty times the same id: one is kept."""
    before = people.labels()
    row = json.dumps(ann.answer(id="fifty-times-00001", value=2))
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(_status(ann.send("POST", "/answers", row)))) for _ in range(50)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    more = people.labels() - before
    is_once = more == 1 and found.count(201) == 1 and set(found) <= {200, 201, 503}
    return "" if is_once else f"{more} kept, statuses {sorted(set(found))}"


def _formulas(people: People) -> str:
    accord(people.folder, "export", "out.csv")
    text = (people.folder / "out.csv").read_text()
    return "a formula in a cell" if re.search(r'(^|,)"?[=+@\t]', text, re.MULTILINE) else ""


def _guessed(served: Served, ann: Browser) -> str:
    """Guessed links fail and are slowed down, while other users continue."""
    key, seen = "y" * 38, set[int]()
    with_keep = f"Host: 127.0.0.1:{served.port}\r\n"
    for start in range(0, GUESSES, 100):
        asked = [f"GET /in/{key}{place:05} HTTP/1.1\r\n{with_keep}\r\n" for place in range(start, start + 99)]
        last = f"GET /in/{key}99999 HTTP/1.1\r\n{with_keep}Connection: close\r\n\r\n"
        told = served.send("".join([*asked, last]).encode()).decode("latin-1")
        seen |= {int(status) for status in re.findall(r"HTTP/1\.1 (\d{3})", told)}
    if seen - {401, 429} or 429 not in seen:
        return f"statuses {sorted(seen)}"
    return "" if _status(ann.send("GET", "/")) == 200 else "honest people are kept out"


def _keys(people: People, served: Served) -> str:
    said = served.said()
    return "a key is in the log" if any(key in said for key in people.links.values()) else ""


def _bad(told: str) -> str:
    if "Traceback" in told:
        return "a traceback"
    return shown_badly(told.partition("\r\n\r\n")[2].replace("\r", ""))


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.IGNORECASE)
    return found[1] if found else ""


def _status(told: str) -> int:
    found = re.match(r"HTTP/1\.[01] (\d{3})", told)
    return int(found[1]) if found else 0

"""Board pages: links of each part, hostile addresses and names, roles, live scores."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest
from processes import Forked
from served_workbench import Browser, chats, printed_link, served
from waiting import PATIENCE, until

from accord import Conversation, Turn
from accord.project import Config, Project
from accord.store import Mart, MartRow, Studies
from accord.values import Label, Target
from accord.web import add_person

BEGIN = 1_780_272_000_000


def row(name: str, value: float, **more: Any) -> MartRow:
    about = {"conversation": name, "turn": 1, "question": "Q0", "annotator": "population", "evaluator": "e@1"}
    score = {"value": value, "options": [1.0, 2.0, 3.0, 4.0], "probabilities": [0.25] * 4, "signature": "s"}
    times = {"time": BEGIN, "scored": BEGIN, "origin": "batch", "synthetic": False}
    return {**about, **score, **times, **more}


def rows(count: int = 120) -> list[MartRow]:
    return [
        row(f"c{n}", 1 + (n % 31) / 10, system="ab"[n % 2], topic=f"t{n % 3}", time=BEGIN + (n % 9) * 86_400_000)
        for n in range(count)
    ]


@contextmanager
def board(folder: Path, scores: list[MartRow]) -> Iterator[tuple[Browser, Project]]:
    config = Config.model_validate({"store": f"sqlite:///{folder}/accord.db", "studies": {"look": {"title": "Look"}}})
    with Project(config) as project:
        project.store.add_conversations(chats(12))
        project.mart.add(scores)
        with served(project) as port:
            browser = Browser(port)
            browser.get("/")
            yield browser, project


def links(page: str) -> list[str]:
    return [unescape(found) for found in re.findall(r'href="(/[^"]*)"', page)]


def test_means_as_people_would_give_them_lead_to_their_texts(tmp_path: Path) -> None:
    scores = [row(f"c{n}", 1 + n % 3, **({"system": "a"} if n % 2 else {})) for n in range(80)]
    with board(tmp_path, scores) as (browser, project):
        project.store.add_conversations(Conversation(f"c{n}", (Turn("user", "?"), Turn("assistant", "!")))
                                        for n in range(80))  # fmt: skip
        project.store.add_labels(Label(Target(f"c{n}", 1), "Q0", "ann", 1 + n % 4, "2027-01-01T00:00:00+00:00")
                                 for n in range(60))  # fmt: skip
        page = browser.get("/board")
        for said in ("a", "unknown"):
            cell = rf'<th scope="row"><a href="([^"]+)">{said}</a></th><td>30</td><td><a href="([^"]+)">'
            only, texts = map(unescape, re.search(cell, page[page.index("Estimated ratings") :]).groups())  # type: ignore[union-attr]
            assert json.loads(browser.get(only.replace("/board", "/board.json", 1)))["texts"] == 40
            assert "40 texts" in browser.get(texts)


def test_empty_board_shows_next_step(tmp_path: Path) -> None:
    with board(tmp_path, []) as (browser, _):
        for path in ("/board", "/board/list", "/board.json"):
            assert "accord score chats.jsonl" in browser.get(path) and browser.status == 200


@pytest.mark.slow
def test_every_part_of_a_chart_links_to_its_texts(tmp_path: Path) -> None:
    with board(tmp_path, rows()) as (browser, _):
        page = browser.get("/board?by=topic")
        assert browser.status == 200 and "Mean prediction: " in page
        lists = [each for each in links(page) if each.startswith("/board/list")]
        bins = [unescape(each) for each in re.findall(r'<a href="([^"]*)" aria-label="[\d.]+ to', page)]
        points = [each for each in lists if "since=" in each]
        assert len(points) >= 9 and len(bins) >= 10
        total = 0
        for each in dict.fromkeys(bins):
            found = json.loads(browser.get(each.replace("/board/list?", "/board/list.json?")))
            values = [one["value"] for one in found["rows"]]
            low = float(parse_qs(urlsplit(each).query).get("low", ["0"])[0])
            assert values == sorted(values) and all(value >= low - 1e-6 for value in values) and values
            total += found["total"]
        assert total == 120
        for each in dict.fromkeys(links(page)):
            if each.startswith("/board"):
                browser.get(each)
                assert browser.status == 200, each
        assert json.loads(browser.get("/board.json"))["texts"] == 120


def test_a_list_leads_to_conversations_and_back(tmp_path: Path) -> None:
    name = "a/b?c=d&e#f%41 <b>"
    with board(tmp_path, [*rows(), row(name, 1.0, annotator="population")]) as (browser, _):
        page = browser.get("/board?system=")
        [tail] = re.findall(r'<a href="([^"]*)">The lowest tenth', page)
        tail = unescape(tail)
        listed = browser.get(tail)
        [found] = [each for each in links(listed) if each.startswith("/conversation/")]
        path, _, query = found.partition("?")
        assert path == "/conversation/" + quote(name, safe="") and unquote(path.removeprefix("/conversation/")) == name
        named = parse_qs(query)
        assert named["turn"] == ["1"] and named["back"][0].startswith("/board/list?")
        again = browser.get(named["back"][0])
        assert browser.status == 200 and found in links(again)
        assert "/board?system=" in links(again), "and from the list to the board it was opened from"


def test_pages_of_a_list_are_turned(tmp_path: Path) -> None:
    with board(tmp_path, rows()) as (browser, _):
        seen, where = [], "/board/list"
        for _ in range(3):
            page = browser.get(where)
            seen += [each for each in links(page) if each.startswith("/conversation/")]
            following = [each for each in links(page) if "page=" in each and "back=" in each and "Next" in page]
            where = following[-1] if following else ""
        assert len({each.partition("?")[0] for each in seen}) == 120
        assert browser.get("/board/list?page=9999999") and browser.status == 200


@pytest.mark.parametrize("query", [
    "nothing=1", "by=weather", "low=x", "page=-1", "page=x", "page=99999999999999", "since=32", "view=%00", "system=%ff",
    "system=" + "x" * 600, "question=Q9", "evaluator=nobody", "question=<script>", "first=a&second=nobody&x=1",
    "low=nan", "unscored=yes", "&".join(f"annotators={n}" for n in range(70)),
])  # fmt: skip
@pytest.mark.parametrize("path", ["/board", "/board.json", "/board/list", "/board/list.json"])
@pytest.mark.attack
def test_hostile_addresses_are_one_line(query: str, path: str, shared: Browser) -> None:
    said = shared.get(f"{path}?{query}")
    if "page=" in query and "list" not in path:
        assert shared.status == 200
        return
    assert shared.status == 422 and "Traceback" not in said
    assert len(json.loads(said)["error"]) < 400 if "json" in path else "<script>" not in said


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with board(tmp_path_factory.mktemp("board"), rows()) as (browser, _):
        yield browser


@pytest.mark.parametrize("query", [
    "", "high=-1e300", "low=1e300", "low=4&high=1", "since=2199-01-01", "system=nobody", "annotators=nobody", "topic=%3Cb%3E",
    "view=each&answers=given&synthetic=only", "order=apart",
])  # fmt: skip
def test_a_selection_of_nothing_has_its_pages(query: str, shared: Browser) -> None:
    for path in ("/board", "/board/list"):
        shared.get(f"{path}?{query}")
        assert shared.status == 200


@pytest.mark.parametrize("back", [
    "https://elsewhere.example/board", "//elsewhere.example/board", "/\\elsewhere.example/board", "javascript:alert(1)",
    "/lead", "/board/../lead", "http://[", "/board" + "x" * 5000,
])  # fmt: skip
def test_back_leads_to_the_board_here_alone(back: str, shared: Browser) -> None:
    page = shared.get(f"/board/list?back={quote(back, safe='')}")
    assert shared.status == 200
    for each in re.findall(r'href="([^"]*)"', page):
        assert each.startswith(("/", "?", "#")) and not each.startswith("//") and "elsewhere" not in each


def test_names_are_shown_and_never_obeyed(tmp_path: Path) -> None:
    bad = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b[31m\u202e"
    scores = [row(f"{bad}{n}", 1 + n / 10, system=bad, topic=bad, version=bad, annotator=bad, warning=bad, evaluator=bad,
                  attributions=json.dumps({bad: 1.0})) for n in range(20)]  # fmt: skip
    with board(tmp_path, scores) as (browser, _):
        for path in ("/board", "/board?by=topic", "/board?view=each", "/board/list"):
            page = browser.get(path)
            assert browser.status == 200 and "alert(1)" in page
            assert "<script>alert" not in page and "<img" not in page and "\x1b" not in page and "\u202e" not in page


def test_only_leads_see_the_board(tmp_path: Path) -> None:
    config = Config.model_validate({"store": f"sqlite:///{tmp_path}/accord.db", "studies": {"look": {"title": "Look"}}})
    with Project(config) as project:
        project.store.add_conversations(chats(3))
        project.mart.add(rows(10))
        studies = Studies(project.store)
        keys = {name: add_person(studies, name, role) for name, role in (("ann", "annotator"), ("lea", "lead"))}
        studies.close()
        with served(project) as port:
            for name, wanted in (("nobody", 401), ("ann", 403), ("lea", 200)):
                browser = Browser(port)
                if name in keys:
                    browser.post("/in", key=keys[name])
                for path in ("/board", "/board.json", "/board/list", "/board/list.json"):
                    browser.get(path)
                    assert browser.status == wanted, (name, path)


# --- from live to board -------------------------------------------------------------------------------------------------


TOKEN = "a-token-of-sixteen-characters"
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}


@contextmanager
def serving(folder: Path, evaluator: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = ["-m", "accord", "serve", "--evaluator", str(evaluator), "--port", str(port)]
    with (folder / "serve.log").open("ab") as log:
        environment = {**os.environ, "ACCORD_TOKEN": TOKEN}
        process = Forked(command, cwd=folder, stdout=log, stderr=log, env=environment)
    try:
        until(lambda: answers(port) or process.poll() is not None, lambda: (folder / "serve.log").read_text())
        assert process.poll() is None, (folder / "serve.log").read_text()
        yield process
    finally:
        process.kill()
        process.wait()


def answers(port: int) -> bool:
    try:
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False


def score(port: int, name: str) -> float:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    messages = [{"conversation": name, "role": "user", "content": "Can I return it?"},
                {"conversation": name, "role": "assistant", "content": "Yes, within 45 days.", "system": "new"}]  # fmt: skip
    connection.request("POST", "/v1/scores", json.dumps({"messages": messages}), HEADERS)
    said = json.loads(connection.getresponse().read())
    return float(said["scores"][1]["value"])


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows knows no SIGKILL")
def test_a_live_score_is_on_the_board_when_it_is_answered_and_outlives_a_kill(tmp_path: Path) -> None:
    import socket

    import scaled

    evaluator = Path(scaled.saved(tmp_path / "evaluator"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "accord.yaml").write_text("store: sqlite:///accord.db\n", encoding="utf-8")
    with serving(tmp_path, evaluator, port) as process:
        browser = Browser(port, printed_link((tmp_path / "serve.log").read_text()))
        assert "No scores yet" in browser.get("/board")
        value = score(port, "live-0")
        found = json.loads(browser.get("/board/list.json"))
        assert [(each["conversation"], each["system"], each["value"]) for each in found["rows"]] == [
            ("live-0", "new", pytest.approx(value))
        ]
        for place in range(1, 20):
            score(port, f"live-{place}")
        assert json.loads(browser.get("/board.json"))["texts"] == 20
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert len(Mart(tmp_path / "accord.db.scores").read(lambda each: each.collect())[0]) == 20
    with serving(tmp_path, evaluator, port):
        score(port, "live-20")
        assert json.loads(browser.get("/board.json"))["texts"] == 21

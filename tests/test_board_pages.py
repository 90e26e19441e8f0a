"""Board pages: links of each part, hostile addresses and names, roles, live scores."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from html import unescape
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

import pytest
import scaled
from served_workbench import Browser, StartWorkbench, open_workbench, printed_link, project
from serving import TOKEN, serving
from test_board import BEGIN, DAY
from test_board import row as board_row
from waiting import PATIENCE

from accord import Conversation, Turn
from accord.learning import CARD
from accord.store import Mart, MartRow
from accord.values import Label, Target


def row(name: str, value: float, **more: Any) -> MartRow:
    return board_row(name, value, **{"turn": 1, **more})


def rows(count: int = 120) -> list[MartRow]:
    return [
        row(f"c{n}", 1 + (n % 31) / 10, system="ab"[n % 2], topic=f"t{n % 3}", time=BEGIN + (n % 9) * DAY)
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A lead's browser of a board of 120 scores."""
    with project(tmp_path_factory.mktemp("board")) as opened:
        opened.mart.add(rows())
        with open_workbench(opened) as bench:
            yield bench.browser()


def links(page: str) -> list[str]:
    return [unescape(found) for found in re.findall(r'href="(/[^"]*)"', page)]


def test_means_as_people_would_give_them_lead_to_their_texts(workbench: StartWorkbench) -> None:
    bench = workbench()
    bench.project.mart.add(row(f"c{n}", 1 + n % 3, **({"system": "a"} if n % 2 else {})) for n in range(80))
    turns = (Turn("user", "?"), Turn("assistant", "!"))
    bench.store.add_conversations(Conversation(f"c{n}", turns) for n in range(80))
    bench.store.add_labels(
        Label(Target(f"c{n}", 1), "Q0", "ann", 1 + n % 4, "2027-01-01T00:00:00+00:00") for n in range(60)
    )
    browser = bench.browser()
    page = browser.get("/board")
    for said in ("a", "unknown"):
        cell = rf'<a class="link" href="([^"]+)">{said}</a></th><td class="num">30</td><td class="num"><a class="link" href="([^"]+)">'
        [(only, texts)] = re.findall(cell, page[page.index("Estimated ratings") :])
        assert json.loads(browser.get(unescape(only).replace("/board", "/board.json", 1)))["texts"] == 40
        assert "40 replies" in browser.get(unescape(texts))


def test_empty_board_shows_next_step(workbench: StartWorkbench) -> None:
    browser = workbench().browser()
    for path in ("/board", "/board/list", "/board.json"):
        assert "accord score chats.jsonl" in browser.get(path) and browser.status == 200


def test_every_part_of_a_chart_links_to_its_texts(shared: Browser) -> None:
    page = shared.get("/board?by=topic")
    assert shared.status == 200 and "No clear difference between the 3 topics on Satisfaction" in page
    bins = [unescape(each) for each in re.findall(r'<a class="link" href="([^"]*)">[\d.]+ to', page)]
    points = [each for each in links(page) if each.startswith("/board/list") and "since=" in each]
    assert len(points) >= 9 and len(bins) >= 10
    total = 0
    for each in dict.fromkeys(bins):
        found = json.loads(shared.get(each.replace("/board/list?", "/board/list.json?")))
        values = [one["value"] for one in found["rows"]]
        low = float(parse_qs(urlsplit(each).query).get("low", ["0"])[0])
        assert values == sorted(values) and all(value >= low - 1e-6 for value in values) and values
        total += found["total"]
    assert total == 120
    for each in dict.fromkeys(links(page)):
        if each.startswith("/board"):
            shared.get(each)
            assert shared.status == 200, each
    assert json.loads(shared.get("/board.json"))["texts"] == 120


def test_evaluators_are_shown_by_name_and_day_with_the_digest_as_tooltip(shared: Browser) -> None:
    for path in ("/board", "/board/list"):
        page = shared.get(path)
        text = re.sub(r"<[^>]*>", " ", page)
        assert "Scores of  e (1 Jun 2026) " in text and "e@1" not in text and 'title="e@1"' in page


def test_pages_name_the_assistant_version_and_addresses_keep_system(shared: Browser) -> None:
    for path in ("/board", "/board?by=system", "/board?system=a", "/board/list?system=a"):
        text = re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", shared.get(path), flags=re.DOTALL)
        assert "assistant version" in text and not re.search(r"\b[Ss]ystems?\b", text), path
    assert any("by=system" in each for each in links(shared.get("/board?by=topic")))


def test_no_drift_is_a_quiet_note(shared: Browser) -> None:
    page = shared.get("/board")
    assert "No alarm was raised in this time.</p>" in page
    assert "badge warn" not in page and "notice warn" not in page and '<b class="d">Events</b>' not in page


def figures_of(page: str) -> dict[tuple[str, str], str]:
    """Text of each figure of a page, by its key and the set that it is about."""
    found: dict[tuple[str, str], str] = {}
    for key, about, text in re.findall(r'data-figure="([^"]*)" data-about="([^"]*)"[^>]*>([^<]*)</data>', page):
        assert found.setdefault((key, about), text) == text, "one value per figure"
    return found


def test_board_list_and_home_tell_one_headline_and_one_value_per_figure(workbench: StartWorkbench) -> None:
    bench = workbench()
    warning = "unlike the training data: its evidence is 9.0 away"
    bench.project.mart.add({**each, "warning": warning if place < 5 else None} for place, each in enumerate(rows()))
    browser = bench.browser()
    data, trend = json.loads(browser.get("/board.json")), json.loads(browser.get("/index.json"))["trend"]
    board, home, listed = browser.get("/board?first=b&second=a"), browser.get("/"), browser.get("/board/list")
    said = {(each["figure"], each["about"]): each["text"] for each in data["figures"]}
    assert trend["figures"] == data["figures"] and trend["summary"] == data["summary"]
    assert f'<h1 dir="auto">{data["headline"]}</h1>' in browser.get("/board") and f"<p>{data['headline']}.</p>" in home
    shown = figures_of(board) | figures_of(home) | figures_of(listed)
    assert {key for key, _ in shown} >= {"mean_score", "mean_score:a", "mean_score:b", "score_difference:b − a"}
    assert shown == {key: said[key] for key in shown}
    unlike = data["unlike"]
    assert unlike.startswith("5 of ") and unlike.endswith("are unlike the training data, so their scores may be wrong.")
    for page in (board, home, listed, browser.get("/explore")):
        assert unlike in re.sub(r"<[^>]*>", "", page)
    assert json.loads(browser.get("/board/list.json"))["unlike"] == unlike
    assert browser.get("/board/list").count('may be wrong">unlike the training data</span>') == 5


def test_a_list_leads_to_conversations_and_back(workbench: StartWorkbench) -> None:
    name = "a/b?c=d&e#f%41 <b>"
    bench = workbench()
    bench.project.mart.add([*rows(), row(name, 1.0)])
    browser = bench.browser()
    [all_texts] = re.findall(r'<a class="link" href="([^"]*)">All 1<', browser.get("/board?system="))
    [found] = [each for each in links(browser.get(unescape(all_texts))) if each.startswith("/conversation/")]
    path, _, query = found.partition("?")
    assert path == "/conversation/" + quote(name, safe="") and unquote(path.removeprefix("/conversation/")) == name
    named = parse_qs(query)
    assert named["turn"] == ["1"] and named["back"][0].startswith("/board/list?")
    again = browser.get(named["back"][0])
    assert browser.status == 200 and found in links(again)
    assert "/board?system=" in links(again), "and from the list to the board it was opened from"


def test_links_to_other_boards_keep_the_filters(workbench: StartWorkbench) -> None:
    bench = workbench()
    both = [{**each, "question": question} for each in rows() for question in ("Q0", "Q1")]
    bench.project.mart.add([*both, *({**each, "question": "Q2", "evaluator": "f@2"} for each in rows())])
    browser = bench.browser()
    kept = {"topic": ["t1"], "annotators": ["population"], "since": ["2026-06-02"]}
    address = "/board?topic=t1&annotators=population&since=2026-06-02&question=Q0&evaluator=e%401&first=b&second=a"
    page = browser.get(address)
    found = {text: parse_qs(urlsplit(unescape(href)).query)
             for href, text in re.findall(r'<a (?:class="[^"]*" )?href="(/board[^"]*)"[^>]*>([^<]+)<', page)}  # fmt: skip
    for text in (
        "Ratings of people",
        "each annotator",
        "assistant versions b and a",
    ):
        assert kept.items() <= found[text].items(), text
    assert found["each annotator"]["first"] == ["b"]
    form = page.partition('aria-label="Filters"')[2].partition("</form>")[0]
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form))
    assert hidden == {"evaluator": "e@1", "annotators": "population"}, "the form shows the other filters, and no pair"
    page = browser.get("/board?question=Q2&evaluator=e%401")
    assert (
        browser.status == 200
        and "No scores of e (1 Jun 2026) on this question; those of f (1 Jun 2026) are shown" in page
    )
    browser.get("/board?question=Q2&evaluator=e%401&against=e%401")
    assert browser.status == 200
    for query in found.values():
        browser.get(
            f"/board?{urlencode(query, doseq=True)}" if "low" not in query and "back" not in query else "/board"
        )
        assert browser.status == 200, query
    listed = browser.get("/board/list?topic=t1&back=%2Fboard%3Ftopic%3Dt1")
    assert '<a href="/board?topic=t1" rel="up"' in listed, "the path to the page goes back"


def test_pages_of_a_list_are_turned(shared: Browser) -> None:
    seen, where = [], "/board/list"
    for _ in range(3):
        page = shared.get(where)
        seen += [each for each in links(page) if each.startswith("/conversation/")]
        following = [each for each in links(page) if "page=" in each and "back=" in each and "Next" in page]
        where = following[-1] if following else ""
    assert len({each.partition("?")[0] for each in seen}) == 120
    assert shared.get("/board/list?page=9999999") and shared.status == 200


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


def test_names_are_shown_and_never_obeyed(workbench: StartWorkbench) -> None:
    bad = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x1b[31m\u202e"
    names = dict.fromkeys(("system", "topic", "version", "annotator", "warning", "evaluator"), bad)
    bench = workbench()
    bench.project.mart.add(
        row(f"{bad}{n}", 1 + n / 10, attributions=json.dumps({bad: 1.0}), **names) for n in range(20)
    )
    browser = bench.browser()
    for path in ("/board", "/board?by=topic", "/board?view=each", "/board/list"):
        page = browser.get(path)
        assert browser.status == 200 and "alert(1)" in page
        assert "<script>alert" not in page and "<img" not in page and "\x1b" not in page and "\u202e" not in page


def test_only_leads_see_the_board(workbench: StartWorkbench) -> None:
    bench = workbench(["ann"], ["lea"])
    bench.project.mart.add(rows(10))
    for name, wanted in (("", 401), ("ann", 403), ("lea", 200)):
        browser = bench.browser(name)
        for path in ("/board", "/board.json", "/board/list", "/board/list.json"):
            browser.get(path)
            assert browser.status == wanted, (name, path)


# --- from live to board -------------------------------------------------------------------------------------------------


HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}


def score(port: int, name: str) -> float:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    messages = [{"conversation": name, "role": "user", "content": "Can I return it?"},
                {"conversation": name, "role": "assistant", "content": "Yes, within 45 days.", "system": "new"}]  # fmt: skip
    connection.request("POST", "/v1/scores", json.dumps({"messages": messages}), HEADERS)
    said = json.loads(connection.getresponse().read())
    return float(said["scores"][1]["value"])


@pytest.mark.posix
def test_a_live_score_is_on_the_board_when_it_is_answered_and_outlives_a_kill(tmp_path: Path) -> None:
    evaluator = str(scaled.saved(tmp_path / "evaluator"))
    (tmp_path / "accord.yaml").write_text("store: sqlite:///accord.db\n", encoding="utf-8")
    with serving(tmp_path, "--evaluator", evaluator) as server:
        browser = Browser(server.port, printed_link(server))
        assert "No scores yet" in browser.get("/board")
        value = score(server.port, "live-0")
        [row] = json.loads(browser.get("/board/list.json"))["rows"]
        assert (row["conversation"], row["system"], row["value"]) == ("live-0", "new", pytest.approx(value))
        for place in range(1, 20):
            score(server.port, f"live-{place}")
        assert json.loads(browser.get("/board.json"))["texts"] == 20
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    assert len(Mart(tmp_path / "accord.db.scores").read(lambda each: each.collect())[0]) == 20
    with serving(tmp_path, "--evaluator", evaluator, port=server.port):
        score(server.port, "live-20")
        assert json.loads(browser.get("/board.json"))["texts"] == 21


@pytest.mark.parametrize(("state", "evaluator", "is_stated"), [
    ("triage", "default@1", True), ("systems", "default@1", False), ("triage", "other@1", False),
])  # fmt: skip
def test_a_verdict_that_allows_no_comparison_is_stated_next_to_it(
    state: str, evaluator: str, is_stated: bool, workbench: StartWorkbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = workbench()
    folder = bench.project.folder()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CARD).write_text("{}", encoding="utf-8")
    verdict = {"state": state, "title": "Useful for triage", "sentence": "."}
    monkeypatch.setattr("accord.web.pages.board.verdict_in_use", lambda *_: verdict)
    name = evaluator.replace("default", folder.name)
    bench.project.mart.add({**each, "evaluator": name} for each in rows())
    page = bench.browser().get("/board")
    assert ("its verdict is “Useful for triage”" in page) == is_stated


def test_lists_draw_the_interval_of_each_score(workbench: StartWorkbench) -> None:
    bench = workbench()
    bench.project.mart.add([row("c0", 2.5, low=1.75, high=3.25), row("c1", 3.0, low=None, high=None)])
    browser = bench.browser()
    for path in ("/board", "/board/list"):
        page = browser.get(path)
        assert "80% interval" in page and page.count('<span class="sr">1.75 to 3.25</span>') == 1
        listed = {each["conversation"]: each["interval"] for each in json.loads(browser.get(f"{path}.json"))["rows"]}
        assert listed == {"c0": [1.75, 3.25], "c1": [None, None]}

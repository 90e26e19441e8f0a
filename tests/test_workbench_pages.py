"""Pages of the workbench under attack: scripts in texts, forged ids, replayed, huge and odd forms; page sizes."""

from __future__ import annotations

import html
import json
import re
import zlib
from collections import Counter
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import yaml
from fastapi import FastAPI
from served_workbench import Browser, StartWorkbench, Workbench, chats, form_of, project, study, submitted, token

from accord import Conversation, Project, Turn
from accord.project import config_from
from accord.sample import conversation_texts
from accord.store import Assignment, Item
from accord.values import Document, Scale, Target
from accord.web import WorkbenchContext
from accord.web.app import PAGES
from accord.web.context import DONE, static_file
from accord.web.pages.rating_view import number_range, own_ratings, saved_item, time_left

STATIC = Path(__file__).parents[1] / "src" / "accord" / "web" / "static"
EVIL = "<script>alert('x')</script><img src=x onerror=alert(1)>\"'></textarea></option>{{7*7}}"
RUBRIC = f"""
name: {json.dumps(EVIL)}
main: good
instructions: {json.dumps(EVIL)}
questions:
  - id: good
    text: {json.dumps(EVIL)}
    scale: nominal
    options: {{{json.dumps(EVIL)}: {json.dumps(EVIL)}, fine: {json.dumps(EVIL)}}}
  - id: share
    text: How much?
    scale: real
    low: 0
    high: 1
"""
TAXONOMY = f"""
name: {json.dumps(EVIL)}
issues:
  - {{name: {json.dumps(EVIL[:40].replace(":", "").replace("=", ""))}, definition: {json.dumps(EVIL)}}}
  - {{name: Slow, definition: Takes long.}}
"""


class Strange(HTMLParser):
    """Finds active content of a page: scripts, handlers, frames, addresses with other schemes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        addresses = [given.get(name, "").lower() for name in ("href", "src", "action")]
        if (
            tag in {"img", "iframe", "object", "embed", "style", "base"}
            or any(name.startswith("on") or name == "style" for name in given)
            or (tag == "script" and not given.get("src", "").startswith("/static/"))
            or any(each.startswith(("javascript:", "http", "//", "data:")) for each in addresses)
        ):
            self.found.append(f"<{tag} {attrs}>")


def strange(page: str) -> list[str]:
    reader = Strange()
    reader.feed(page)
    return reader.found


@pytest.fixture
def evil(workbench: StartWorkbench, tmp_path: Path) -> Workbench:
    """A study whose every text is script."""
    (tmp_path / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    (tmp_path / "kinds.yaml").write_text(TAXONOMY, encoding="utf-8")
    own = {"rubric": f"{tmp_path}/rubric.yaml", "issue_taxonomy": f"{tmp_path}/kinds.yaml", "items": {"ids": ["evil"]}}
    opened = project(tmp_path, title=EVIL, guidelines=EVIL, **own)
    turns = (Turn(EVIL, EVIL), Turn("assistant", EVIL, name=EVIL, extra={"tool_calls": [EVIL, {"a": EVIL}]}))
    opened.store.add_conversations([Conversation("evil", turns, (Document(EVIL, title=EVIL),), {"system": EVIL})])
    return workbench(opened=opened)


@pytest.mark.attack
def test_script_in_any_text_is_shown_as_text(evil: Workbench) -> None:
    browser = evil.browser()
    page = browser.get("/rate/look/next")
    where, fields = form_of(page)
    kind = EVIL[:40].replace(":", "").replace("=", "")
    mark = {"do": "mark", "kind": kind, "turn": "1", "comment": EVIL, "quote": EVIL, "id": "m" * 20}
    pages = [page, browser.get("/"), browser.get("/rate/look")]
    assert browser.post(where, **fields, do="save", **{"value.good": EVIL, "comment.good": EVIL})[0] == 303
    assert browser.post(where, form=fields["form"], **mark)[0] == 303
    pages.append(browser.get(where))
    change = {"do": "save", "value.good": "fine", "comment.good": EVIL}
    assert browser.post(where, **form_of(pages[-1])[1], **change)[0] == 303
    pages.append(browser.get(where))
    wrong = {"do": "save", "value.share": EVIL, "comment.share": EVIL}
    refused = browser.post(where, **form_of(pages[-1])[1], **wrong)
    assert refused[0] == 422 and "allowed: 0.0 to 1.0" in refused[1]
    pages.append(refused[1])
    assert browser.post(where, form=fields["form"], do="skip", reason=EVIL)[0] == 303
    pages += [browser.get("/rate/look/done"), browser.get(where), browser.get("/rate/look/done")]
    for shown in pages:
        assert not strange(shown), strange(shown)
        assert html.escape("<script>alert(", quote=False) in shown and "{{7*7}}" in shown
    said = list(evil.store.annotations())
    assert {each.comment for each in said} == {EVIL} and any(each.quote == EVIL for each in said)
    assert json.loads(browser.get(f"{where}.json"))["questions"][0]["text"] == EVIL


@pytest.mark.attack
@pytest.mark.parametrize("change", [
    {"do": "explode"}, {"do": "mark", "kind": "Unheard"}, {"do": "mark", "kind": "Slow", "turn": "99"},
    {"do": "mark", "kind": "Slow", "turn": "-1"}, {"do": "mark", "kind": "Slow", "turn": "1", "quote": "not said"},
    {"do": "mark", "kind": "Slow", "turn": "1", "id": "short"}, {"do": "unmark", "kind": "Slow", "turn": "1", "replaces": "x" * 20},
    {"do": "skip", "reason": " "}, {"value.share": "2"}, {"value.share": "nan"}, {"value.share": "1e999"}, {"value.share": "-0.1"},
    {"value.good": "fine", "comment.good": "x" * 20_001}, {"value.good": "unheard"}, {"value.good": "fine", "id.good": "../../etc"},
], ids=str)  # fmt: skip
def test_forged_forms_are_refused_without_changes(evil: Workbench, change: dict[str, str]) -> None:
    browser = evil.browser()
    where, fields = form_of(browser.get("/rate/look/next"))
    status, said, _ = browser.post(where, **{**fields, "do": "save", **change})
    assert status in {409, 422} and "Traceback" not in said and not strange(said)
    assert not list(evil.store.annotations()) and "passed over" not in browser.get("/rate/look/done")


@pytest.mark.attack
def test_forged_ids_strangers_and_replays(workbench: StartWorkbench) -> None:
    bench = workbench(["ann", "bob"], stages=[{"questions": ["Q0"]}])
    ann, bob = bench.browser("ann"), bench.browser("bob")
    where, fields = form_of(ann.get("/rate/look"))
    theirs = token(bob.get("/rate/look"))
    for path in (
        where,
        f"/rate/look/{'x' * 24}",
        "/rate/look/%2e%2e",
        "/rate/nothing/x",
        "/rate/look/../../etc/passwd",
    ):
        body = urlencode({**fields, "form": theirs, "value.Q0": "1", "do": "finish"})
        assert bob.ask("POST", path, body)[0] in {404, 405, 422}, path
        assert bob.ask("GET", path)[0] in {404, 422}, path
    forged = bob.ask("POST", where, urlencode({**fields, "value.Q0": "1"}))
    assert forged[0] == 403, "the form of another browser"
    assert not list(bench.store.annotations())
    sent = {**fields, "value.Q0": "1", "do": "save"}
    assert [ann.post(where, **sent)[0] for _ in range(3)] == [303] * 3
    assert len(list(bench.store.annotations())) == 1, "a form that is sent again is kept once"

    def answer(browser: Browser, content: Any, **headers: str) -> tuple[int, str]:
        return browser.ask("POST", "/answers", json.dumps(content), Content_Type="application/json", **headers)[:2]

    stolen = {"study": "look", "assignment": where.rpartition("/")[2], "id": "z" * 20, "question": "Q0", "value": 4}
    status, said = answer(bob, stolen, X_Accord_Form=theirs)
    assert status == 422 and "not yours" in said
    odd = [{**stolen, **more} for more in ({"seconds": -1}, {"by": "bob"}, {"study": 3}, {"value": [1]})]
    for each in [*odd, [stolen], {}]:
        status, said = answer(ann, each)
        assert status == 403 and "X-Accord-Form" in json.loads(said)["error"]
        assert answer(ann, each, X_Accord_Form=fields["form"])[0] in {404, 422}
    assert len(list(bench.store.annotations())) == 1


@pytest.mark.attack
def test_answers_of_one_request_are_accepted_or_refused_each_by_itself(workbench: StartWorkbench) -> None:
    bench = workbench(["ann", "bob"], stages=[{"questions": ["Q0", "Q1"]}])
    ann, bob = bench.browser("ann"), bench.browser("bob")
    where, fields = form_of(ann.get("/rate/look"))
    theirs = form_of(bob.get("/rate/look"))[0].rpartition("/")[2]
    row = {"study": "look", "assignment": where.rpartition("/")[2], "question": "Q0", "value": 1}

    def send(answers: Any, **headers: str) -> tuple[int, Any]:
        headers = {"X_Accord_Form": fields["form"], **headers}
        body = json.dumps({"answers": answers})
        status, said, _ = ann.ask("POST", "/answers", body, Content_Type="application/json", **headers)
        return status, json.loads(said)

    rows = [
        {**row, "id": "a" * 20}, {**row, "id": "b" * 20, "assignment": theirs}, {**row, "id": "c" * 20, "study": "none"},
        {**row, "id": "d" * 20, "value": 9}, {**row, "id": "e" * 20, "by": "bob"}, {"id": 3}, {},
        {**row, "id": "f" * 20, "question": "Q1"}, {**row, "id": "a" * 20}, {**row, "id": "a" * 20, "value": 2},
    ]  # fmt: skip
    status, said = send(rows)
    assert status == 200
    assert [each.get("status", 200) for each in said["answers"]] == [200, 422, 404, 422, 422, 404, 404, 200, 200, 409]
    assert [each["id"] for each in said["answers"]] == [each.get("id") for each in rows]
    assert [each.get("again") for each in said["answers"] if "error" not in each] == [False, False, True]
    assert [(each.by, each.question, each.value) for each in bench.store.annotations()] == [
        ("ann", "Q0", 1),
        ("ann", "Q1", 1),
    ]
    many = [{**row, "id": f"{n:020}"} for n in range(101)]
    for odd in ("all", {"id": "a"}, None, 3, ["a"], [None], many):
        status, said = send(odd)
        assert status == 422 and "at most 100" in said["error"], odd
    assert send(rows, X_Accord_Form="forged")[0] == 403
    assert send([]) == (200, {"answers": []})
    assert len(list(bench.store.annotations())) == 2


def test_own_ratings_have_words_and_answers_and_can_be_searched(workbench: StartWorkbench) -> None:
    bench = workbench(["ann", "bob"], stages=[{"questions": ["Q0", "Q1"]}], items={"sample": 4})
    ann, bob = bench.browser("ann"), bench.browser("bob")
    for number in range(3):
        where, fields = form_of(ann.get("/rate/look/next"))
        answers = {"value.Q0": str(number + 1), "value.Q1": "", "comment.Q0": "Too <b>short</b>" if number else ""}
        assert ann.post(where, **fields, do="finish", **answers)[0] == 303
    where, fields = form_of(ann.get("/rate/look/next"))
    assert ann.post(where, form=fields["form"], do="skip", reason="In Czech")[0] == 303
    form_of(bob.get("/rate/look/next"))

    def rows(query: str = "") -> list[dict[str, Any]]:
        ann.get(f"/rate/look/done{query}")
        assert ann.status == 200
        return list(json.loads(ann.get(f"/rate/look/done.json{query}"))["ratings"])

    page = ann.get("/rate/look/done")
    assert "Satisfaction</span> 3" in page and "Natural</span> n/a" in page and "Too &lt;b&gt;short" in page
    assert "skipped: In Czech" in page and not strange(page)
    assert [each["number"] for each in rows()] == [4, 3, 2, 1]
    assert all(re.fullmatch(r"Question \d+\?", each["words"]) for each in rows())
    assert rows()[1]["answers"][0] == {"question": "Satisfaction", "answer": "3", "comment": "Too <b>short</b>"}
    assert [each["number"] for each in rows("?q=SHORT")] == [3, 2] and [
        each["number"] for each in rows("?q=czech")
    ] == [4]
    assert [each["number"] for each in rows("?state=skipped")] == [4] and len(rows("?state=done")) == 3
    assert rows("?q=" + quote(rows()[0]["words"])) == rows()[:1]
    for query in ("?q=%00%ff%22<script>", "?q=" + "x" * 5000, "?state=unheard", "?q=nothing+here"):
        assert rows(query) == [] and not strange(ann.get(f"/rate/look/done{query}")), query
    assert "No item matches" in ann.get("/rate/look/done?q=nothing+here")
    assert [each["state"] for each in json.loads(bob.get("/rate/look/done.json"))["ratings"]] == ["open"]


def test_hash_of_the_rubric_is_in_the_fold_of_the_guidelines_alone(workbench: StartWorkbench) -> None:
    bench = workbench(guidelines="Read all of it.")
    browser, digest = bench.browser(), bench.session().rubric.hash
    assert digest not in browser.get("/rate/look") and digest not in browser.get("/")
    page = browser.get("/rate/look/next")
    assert page.count(digest) == 1 and page.index('id="guide"') < page.index("Version of the questions") < page.index(
        digest
    )


@pytest.mark.attack
def test_huge_and_broken_forms_are_refused(evil: Workbench) -> None:
    browser = evil.browser()
    where, fields = form_of(browser.get("/rate/look/next"))
    assert browser.post(where, **fields, do="save", **{"comment.good": "x" * 300_000})[0] == 413
    assert browser.post(where, **fields, do="save", **{f"x{place}": "1" for place in range(500)})[0] == 422
    assert browser.ask("POST", where, urlencode(fields) + "&stage=rate")[0] == 422
    assert browser.ask("POST", where, "%ff%fe=%", Content_Type="text/plain")[0] == 422
    assert not list(evil.store.annotations())


def test_a_second_time_looks_like_any_other_and_is_an_answer_of_its_own(workbench: StartWorkbench) -> None:
    gold = {"gpt-9-1": {"Q0": 2}}
    bench = workbench(repeat_share=0.5, gold=gold, annotators_per_item=1, stages=[{"questions": ["Q0"]}])
    browser, seen = bench.browser(), Counter[str]()
    while "No items left" not in (page := browser.get("/rate/look")):
        where, fields = form_of(page)
        assert " checked" not in page and "data-ends" not in page
        [turn] = set(re.findall(r"Question \d+(?=\?)", page))
        seen[turn] += 1
        assert not re.findall(r"\b(gold|repeat|check|plain|again)\b", re.sub(r'class="[^"]*"', "", page))
        browser.post(where, **fields, do="finish", **{"value.Q0": str(seen[turn])})
    count = seen.total()
    assert count > 12 and set(seen.values()) == {1, 2}
    assert re.findall(r"<tr><td>(\d+)</td>", browser.get("/rate/look/done")) == [
        str(place) for place in range(count, 0, -1)
    ]
    ratings = json.loads(browser.get("/rate/look/done.json"))["ratings"]
    assert [each["number"] for each in ratings] == list(range(count, 0, -1))
    assert set(ratings[0]) == {"id", "number", "state", "reason", "began", "ended", "words", "answers"}
    assert len(list(bench.store.annotations())) == count, "the second answer has not replaced the first"


def test_form_values_survive_an_expired_lease(workbench: StartWorkbench) -> None:
    bench = workbench(["ann", "bob"], annotators_per_item=1, stages=[{"questions": ["Q0"]}])
    ann, bob = bench.browser("ann"), bench.browser("bob")
    where, fields = form_of(ann.get("/rate/look"))
    bench.studies.move(where.rpartition("/")[2], "ann", "open", 0, "2020-01-01T00:00:00.000+00:00")
    others, theirs = form_of(bob.get("/rate/look"))
    bob.post(others, **theirs, do="finish", **{"value.Q0": "1"})
    status, page, _ = ann.post(where, **fields, do="finish", **{"value.Q0": "2", "comment.Q0": "All that I typed"})
    assert status == 409 and "All that I typed" in page and "others have answered it" in page


def test_the_study_in_the_docs_is_one(workbench: StartWorkbench) -> None:
    text = (STATIC.parents[3] / "docs" / "workbench.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[:1]
    settings = yaml.safe_load(block)["studies"]["helpful"]
    browser = workbench(**{**settings, "items": {"sample": 6, "stratify_by": ["system"]}}).browser()
    assert "Read the whole conversation" in browser.get("/rate/look")
    assert "1 of 6" in browser.get("/rate/look/next")


# --- what pages are made of ---------------------------------------------------------------------------------------


def test_typed_numbers_and_listed_options() -> None:
    assert number_range(Scale(options=tuple(range(1, 11)))) is None
    assert number_range(Scale(options=tuple(range(0, 101)))) == (0, 100, "1")
    assert number_range(Scale(options=(*range(11), 20))) == (0, 20, "any")


def test_the_finder_is_asked_of_stages_that_show_issues_alone(tmp_path: Path) -> None:
    with study(tmp_path) as look:
        one = look.take("ann")
        assert look.view(one).issues is None and look.progress("ann") == (0, 12)
        look.answer("ann", submitted(one.id))
        look.skip("ann", one.id, "no")
        assert look.progress("ann") == (1, 12)


def test_items_and_time_left_follow_the_median_of_completed_items() -> None:
    def ended(seconds: int, state: str = "done", began: str = "2026-01-01T00:00:00.000+00:00") -> Assignment:
        end = f"2026-01-01T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.000+00:00"
        return Assignment(
            str(seconds), Item("look", 1, 0, "plain", Target("c")), "ann", state, 0, end, None, began, end
        )

    done = [ended(40), ended(50), ended(60), ended(36_000), ended(36_001), ended(1, "skipped")]
    assert time_left(done, 10) == "about 10 minutes left"
    assert time_left(done, 1) == "about 1 minute left"
    assert time_left(done, 300) == "about 5 hours left"
    assert time_left(done[1:], 10) == "" and time_left([], 0) == time_left(done, 0) == ""
    assert time_left([ended(4)] * 9, 10) == "", "no pace of somebody who reads"
    assert saved_item(done, "1") == {**own_ratings(done)[5]} and saved_item(done, "x") is saved_item(done, None) is None
    assert saved_item([ended(5, "open")], "5") is None, "an open item has nothing to undo"


def test_pages_are_light(workbench: StartWorkbench) -> None:
    scripts = {path.name: len(path.read_bytes()) for path in STATIC.glob("*.js")}
    rating = {"forms.js", "keys.js", "look.js", "outbox.js", "rate.js", "spans.js"}
    assert {*rating, "filters.js", "talk.js", "reading.js", "settle.js", "setup.js"} == set(scripts)
    assert sum(scripts[name] for name in rating) < 21 * 1024 and sum(scripts.values()) < 34 * 1024, scripts
    browser = workbench(issue_taxonomy="soda-eval").browser()
    page = browser.get("/rate/look")
    linked = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
    files = [static_file(path.partition("?")[0].rpartition("/")[2]) for path in linked]
    sizes = [len(zlib.compress(file[0])) for file in files if file is not None]
    assert len(sizes) == len(linked)
    size = len(zlib.compress(page.encode())) + sum(sizes) + scripts["outbox.js"]
    assert size < 60_000, f"a first visit is {size} bytes on the wire"
    assert "accord.css" in {path.partition("?")[0].rpartition("/")[2] for path in linked}


def test_a_conversation_of_500_messages_is_light_on_the_wire(workbench: StartWorkbench) -> None:
    words = re.findall("[a-z]{2,12}", " ".join(map(" ".join, conversation_texts().values())).lower())
    random = Random(0)
    turns = (Turn("assistant" if n % 2 else "user", " ".join(random.choices(words, k=20))) for n in range(500))
    bench = workbench()
    bench.store.add_conversations([Conversation("long", tuple(turns))])
    size = len(zlib.compress(bench.browser().get("/conversation/long").encode()))
    assert size < 60_000, f"{size} bytes on the wire"


def test_a_project_of_the_sample_alone_is_a_demo(tmp_path: Path) -> None:
    texts = conversation_texts()
    first, *names = list(texts)[:5]
    opened = Project(config_from({"store": f"sqlite:///{tmp_path}/accord.db"}))
    with opened, closing(WorkbenchContext(opened)) as context:
        assert not context.is_demo(), "no conversation yet"
        for added, is_demo in (
            ([Conversation(id, tuple(Turn("user", text) for text in texts[id])) for id in names], True),
            ([Conversation(first, (Turn("user", "Another text under its ID."),))], False),
        ):
            opened.store.add_conversations(added)
            assert context.is_demo() == is_demo


def test_modules_are_named_by_their_content(tmp_path: Path) -> None:
    content = (static_file("rate.js") or (b"",))[0].decode()
    found = re.search(r'from "/static/outbox\.js\?([0-9a-f]{12})"', content)
    assert found is not None and found[1] == (static_file("outbox.js") or ("", "", ""))[2]
    assert static_file("../app.py") is None and static_file("unheard.js") is None


def test_a_broken_study_blocks_only_its_own_pages(workbench: StartWorkbench, tmp_path: Path) -> None:
    studies = {
        "typo": {"annotators_per_item": 0},
        "gold": {"gold": {"gpt-9-1": {"Q0": ["the known answer"]}}},
        "asks": {"annotators": ["ann"], "stages": [{"questions": ["Q99"]}]},
        "talk": {"chat": {"assistants": {"a": {"role": "writer"}}, "topics": ["t"]}},
        "good": {"title": "Good"},
    }
    errors = {
        "typo": "study 'typo': annotators_per_item: Input should be greater than or equal to 1, got 0",
        "gold": "study 'gold': gold.gpt-9-1.Q0",
        "asks": "study 'asks': unknown question 'Q99'",
        "talk": "study 'talk': unknown role 'writer'",
    }
    opened = Project(config_from({"store": f"sqlite:///{tmp_path}/accord.db", "studies": studies}))
    opened.store.add_conversations(chats(3))
    bench = workbench(["ann", "bob"], ["lea"], opened)
    ann, bob, lead = (bench.browser(name) for name in ("ann", "bob", "lea"))
    home, overview = html.unescape(lead.get("/")), html.unescape(lead.get("/lead"))
    for name, error in errors.items():
        assert error in home and error in overview, name
        for path in (f"/rate/{name}", f"/lead/{name}", f"/talk/{name}", f"/lead/{name}/disagree.json"):
            assert error in html.unescape(lead.get(path)) and lead.status == 422, path
        page = html.unescape(ann.get(f"/rate/{name}"))
        assert ann.status == 422 and f"study '{name}' is not available" in page, page
        assert error not in page and "the known answer" not in page + ann.get("/")
    assert "/rate/good/" in ann.ask("GET", "/rate/good/next")[2] and "Good" in home
    assert "'asks'" not in html.unescape(bob.get("/"))
    assert "/rate/asks" not in bob.get("/rate/asks") and bob.status == 404


@pytest.mark.attack
def test_every_form_answers_with_a_redirect_or_an_error_page(workbench: StartWorkbench) -> None:
    bench = workbench(leads=["lea"])
    app = FastAPI()
    with closing(WorkbenchContext(bench.project)) as context:
        for page in PAGES:
            page.add_routes(app, context)
    paths = {route.path for route in app.routes if "POST" in getattr(route, "methods", ())}
    assert {"/people", "/rubric", "/studies/new", "/settings", "/import/example", "/lead/{study}/adjudicate"} <= paths
    for path in sorted(paths - {"/answers", "/out", "/in"}):
        lea = bench.browser("lea")
        form = token(lea.get("/people"))
        for name in ("look", "none"):
            address = path.replace("{study}", name)
            address = re.sub(r"\{[^}]+\}", "none", address)
            status, page, where = lea.post(address, form=form)
            assert (status == 303 and where.startswith("/")) or status >= 400, (address, status)
            assert status < 500 and not strange(page), (address, status, page)


def test_success_messages_come_from_a_table_and_not_from_the_address(workbench: StartWorkbench) -> None:
    lea = workbench(leads=["lea"]).browser("lea")
    for key, text in DONE.items():
        page = lea.get(f"/people?done={key}")
        assert '<p class="notice good" role="status">' in page and f"</svg>{text}</p>" in page
    plain = lea.get("/people")
    assert "told" not in plain and "told" not in lea.get("/people?done=%3Cscript%3E") + lea.get("/people?done=none")


def test_page_that_waits_loads_again_with_and_without_scripts(workbench: StartWorkbench) -> None:
    bench = workbench(leads=["lea"])
    with closing(WorkbenchContext(bench.project)) as context:
        waiting = bytes(context.render("error", None, reason="-", title="Wait", waiting=True).body).decode()
        done = bytes(context.render("error", None, reason="-", title="Wait").body).decode()
    assert '<noscript><meta http-equiv="refresh" content="4"></noscript>' in waiting and "data-waiting" in waiting
    assert "refresh" not in done and "data-waiting" not in done


@pytest.mark.attack
def test_file_that_is_not_there_is_404_however_long_its_name_is(workbench: StartWorkbench) -> None:
    browser = workbench().browser()
    for name in ("unheard.js", "a" * 3000, "a" * 3000 + ".js", "%00.js", "..", ".js", "%2e%2e%2fapp.py"):
        assert browser.ask("GET", f"/static/{name}")[0] == 404, name

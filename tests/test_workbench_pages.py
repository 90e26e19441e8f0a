"""Pages of the workbench under attack: scripts in texts, forged ids, replayed, huge and odd forms; page sizes."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml
from served_workbench import Browser, chats, project, served, study, submitted, token

from accord import Conversation, Turn
from accord.project import Project, config_from
from accord.store import Studies
from accord.values import Document, Scale
from accord.web import add_person
from accord.web.context import static_file
from accord.web.pages.rating_view import number_range, text_pieces

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
    """Return active content of a page: scripts, handlers, frames, addresses with other schemes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in {"img", "iframe", "object", "embed", "style", "base"} or any(
            name.startswith("on") or name == "style" for name in given
        ):
            self.found.append(f"<{tag} {attrs}>")
        if tag == "script" and not (given.get("src") or "").startswith("/static/"):
            self.found.append(f"<script {attrs}>")
        if any(
            (given.get(name) or "").lower().startswith(("javascript:", "http", "//", "data:"))
            for name in ("href", "src", "action")
        ):
            self.found.append(f"<{tag} {attrs}>")


def strange(page: str) -> list[str]:
    reader = Strange()
    reader.feed(page)
    return reader.found


@contextmanager
def evil(folder: Path, **more: Any) -> Iterator[tuple[Project, Browser, str]]:
    """A study whose every text is script, opened at its first item."""
    (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    (folder / "kinds.yaml").write_text(TAXONOMY, encoding="utf-8")
    settings = {
        "title": EVIL, "guidelines": EVIL, "rubric": str(folder / "rubric.yaml"), "issue_taxonomy": str(folder / "kinds.yaml"),
        "items": {"ids": ["evil"]},
    }  # fmt: skip
    with project(folder, **{**settings, **more}) as opened:
        turns = (Turn(EVIL, EVIL), Turn("assistant", EVIL, name=EVIL, extra={"tool_calls": [EVIL, {"a": EVIL}]}))
        opened.store.add_conversations([Conversation("evil", turns, (Document(EVIL, title=EVIL),), {"system": EVIL})])
        with served(opened) as port:
            browser = Browser(port)
            browser.get("/")
            yield opened, browser, browser.get("/rate/look/next")


def form_of(page: str) -> tuple[str, dict[str, str]]:
    """Return the action and the hidden fields of the form of questions."""
    where = re.search(r'action="(/rate/look/[^"]+)" id="questions"', page)
    assert where is not None, page
    inside = page[where.end() : page.index("</form>", where.end())]
    return where[1], {
        name: html.unescape(said) for name, said in re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', inside)
    }


@pytest.mark.attack
def test_script_in_any_text_is_shown_as_text(tmp_path: Path) -> None:
    with evil(tmp_path) as (opened, browser, page):
        where, fields = form_of(page)
        pages = [page, browser.get("/"), browser.get("/rate/look")]
        done = browser.post(where, **fields, do="save", **{"value.good": EVIL, "comment.good": EVIL})
        assert done[0] == 303
        kind = EVIL[:40].replace(":", "").replace("=", "")
        marked = browser.post(
            where, form=fields["form"], do="mark", kind=kind, turn="1", comment=EVIL, quote=EVIL, id="m" * 20
        )
        assert marked[0] == 303, marked
        pages.append(browser.get(where))
        changed = browser.post(
            where, **form_of(pages[-1])[1], do="save", **{"value.good": "fine", "comment.good": EVIL}
        )
        assert changed[0] == 303
        pages.append(browser.get(where))
        refused = browser.post(
            where, **form_of(pages[-1])[1], do="save", **{"value.share": EVIL, "comment.share": EVIL}
        )
        assert refused[0] == 422 and "allowed: 0.0 to 1.0" in refused[1]
        pages.append(refused[1])
        assert browser.post(where, form=fields["form"], do="skip", reason=EVIL)[0] == 303
        pages += [browser.get("/rate/look/done"), browser.get(where), browser.get("/rate/look/done")]
        for shown in pages:
            assert not strange(shown), strange(shown)
            assert html.escape("<script>alert(", quote=False) in shown and "{{7*7}}" in shown
        said = list(opened.store.annotations())
        assert {each.comment for each in said} == {EVIL} and any(each.quote == EVIL for each in said)
        assert json.loads(browser.get(f"{where}.json"))["questions"][0]["text"] == EVIL


@pytest.mark.parametrize("change", [
    {"do": "explode"}, {"do": "mark", "kind": "Unheard"}, {"do": "mark", "kind": "Slow", "turn": "99"},
    {"do": "mark", "kind": "Slow", "turn": "-1"}, {"do": "mark", "kind": "Slow", "turn": "1", "quote": "not said"},
    {"do": "mark", "kind": "Slow", "turn": "1", "id": "short"}, {"do": "unmark", "kind": "Slow", "turn": "1", "replaces": "x" * 20},
    {"do": "skip", "reason": " "}, {"value.share": "2"}, {"value.share": "nan"}, {"value.share": "1e999"}, {"value.share": "-0.1"},
    {"value.good": "fine", "comment.good": "x" * 20_001}, {"value.good": "unheard"}, {"value.good": "fine", "id.good": "../../etc"},
], ids=str)  # fmt: skip
@pytest.mark.attack
def test_forged_forms_are_refused_without_changes(tmp_path: Path, change: dict[str, str]) -> None:
    with evil(tmp_path) as (opened, browser, page):
        where, fields = form_of(page)
        status, said, _ = browser.post(where, **{**fields, "do": "save", **change})
        assert status in {409, 422} and "Traceback" not in said and not strange(said)
        assert not list(opened.store.annotations()) and "passed over" not in browser.get("/rate/look/done")


@pytest.mark.attack
def test_forged_ids_strangers_and_replays(tmp_path: Path) -> None:
    with project(tmp_path, stages=[{"questions": ["Q0"]}]) as opened:
        studies = Studies(opened.store)
        keys = {name: add_person(studies, name) for name in ("ann", "bob")}
        with served(opened) as port:
            ann, bob = Browser(port), Browser(port)
            ann.post("/in", key=keys["ann"])
            bob.post("/in", key=keys["bob"])
            page = ann.get("/rate/look")
            where, fields = form_of(page)
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
            assert bob.ask("POST", where, urlencode({**fields, "value.Q0": "1"}))[0] == 403, (
                "the form of another browser"
            )
            assert not list(opened.store.annotations())
            sent = {**fields, "value.Q0": "1", "do": "save"}
            assert [ann.post(where, **sent)[0] for _ in range(3)] == [303] * 3
            assert len(list(opened.store.annotations())) == 1, "a form that is sent again is kept once"
            stolen = {
                "study": "look",
                "assignment": where.rpartition("/")[2],
                "id": "z" * 20,
                "question": "Q0",
                "value": 4,
            }
            asked = bob.ask(
                "POST", "/answers", json.dumps(stolen), Content_Type="application/json", X_Accord_Form=theirs
            )
            assert asked[0] == 422 and "not yours" in asked[1]
            for odd in (
                {**stolen, "seconds": -1},
                {**stolen, "by": "bob"},
                {**stolen, "study": 3},
                {**stolen, "value": [1]},
                [stolen],
                {},
            ):
                own = fields["form"]
                status, said, _ = ann.ask("POST", "/answers", json.dumps(odd), Content_Type="application/json")
                assert status == 403 and "X-Accord-Form" in json.loads(said)["error"]
                assert ann.ask("POST", "/answers", json.dumps(odd), Content_Type="application/json", X_Accord_Form=own)[
                    0
                ] in {404, 422}
            assert len(list(opened.store.annotations())) == 1
        studies.close()


@pytest.mark.attack
def test_huge_and_broken_forms_are_refused(tmp_path: Path) -> None:
    with evil(tmp_path) as (opened, browser, page):
        where, fields = form_of(page)
        assert browser.post(where, **fields, do="save", **{"comment.good": "x" * 300_000})[0] == 413
        assert browser.post(where, **fields, do="save", **{f"x{place}": "1" for place in range(500)})[0] == 422
        assert browser.ask("POST", where, urlencode(fields) + "&stage=rate")[0] == 422
        assert browser.ask("POST", where, "%ff%fe=%", Content_Type="text/plain")[0] == 422
        assert not list(opened.store.annotations())


def test_a_second_time_looks_like_any_other_and_is_an_answer_of_its_own(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "repeat_share": 0.5,
        "gold": {"gpt-9-1": {"Q0": 2}},
        "annotators_per_item": 1,
        "stages": [{"questions": ["Q0"]}],
    }
    with project(tmp_path, **settings) as opened, served(opened) as port:
        browser = Browser(port)
        browser.get("/")
        count, seen = 0, dict[str, int]()
        while "No items left" not in (page := browser.get("/rate/look")):
            where, fields = form_of(page)
            assert " checked" not in page and "data-ends" not in page
            turn = re.search(r"Question \d+", page)
            assert turn is not None
            seen[turn[0]] = seen.get(turn[0], 0) + 1
            kinds = set(re.findall(r"\b(gold|repeat|check|plain|again)\b", re.sub(r'class="[^"]*"', "", page)))
            assert not kinds, kinds
            browser.post(where, **fields, do="finish", **{"value.Q0": str(seen[turn[0]])})
            count += 1
        assert count > 12 and set(seen.values()) == {1, 2}
        numbers = re.findall(r"<tr><td>(\d+)</td>", page)
        assert numbers == [str(place) for place in range(count, 0, -1)]
        shown = json.loads(browser.get("/rate/look/done.json"))
        assert [each["number"] for each in shown["ratings"]] == list(range(count, 0, -1)) and set(
            shown["ratings"][0]
        ) == {
            "id",
            "number",
            "state",
            "reason",
            "began",
            "ended",
        }
        assert len(list(opened.store.annotations())) == count, "the second answer has not replaced the first"


def test_form_values_survive_an_expired_lease(tmp_path: Path) -> None:
    with project(tmp_path, annotators_per_item=1, stages=[{"questions": ["Q0"]}]) as opened:
        studies = Studies(opened.store)
        keys = {name: add_person(studies, name) for name in ("ann", "bob")}
        with served(opened) as port:
            ann, bob = Browser(port), Browser(port)
            ann.post("/in", key=keys["ann"])
            bob.post("/in", key=keys["bob"])
            where, fields = form_of(ann.get("/rate/look"))
            studies.move(where.rpartition("/")[2], "ann", "open", 0, "2020-01-01T00:00:00.000+00:00")
            others, theirs = form_of(bob.get("/rate/look"))
            bob.post(others, **theirs, do="finish", **{"value.Q0": "1"})
            status, page, _ = ann.post(
                where, **fields, do="finish", **{"value.Q0": "2", "comment.Q0": "All that I typed"}
            )
            assert status == 409 and "All that I typed" in page and "others have answered it" in page
        studies.close()


def test_the_study_in_the_docs_is_one(tmp_path: Path) -> None:
    text = (STATIC.parents[3] / "docs" / "workbench.md").read_text(encoding="utf-8")
    block = re.search(r"```yaml\n(.*?)```", text, re.S)
    assert block is not None
    content = yaml.safe_load(block[1])
    settings = {**content["studies"]["helpful"], "items": {"sample": 6, "stratify_by": ["system"]}}
    with project(tmp_path, **settings) as opened, served(opened) as port:
        browser = Browser(port)
        browser.get("/")
        assert "Read the whole conversation" in browser.get("/rate/look")
        assert "1 of 6" in browser.get("/rate/look/next")


# --- what pages are made of ---------------------------------------------------------------------------------------


def test_pieces_cut_a_text_where_quotes_and_signs_are() -> None:
    text = "a\x00b\r\nc \U0001f31e d"
    cut = text_pieces(text, [((2, 6), 1, False), ((5, len(text)), 2, True)])
    assert [(each.text, each.marks, each.issues, each.is_sign) for each in cut] == [
        ("a", (), (), False), ("\\u0000", (), (), True), ("b", (1,), (), False), ("", (1,), (), True),
        ("\n", (1,), (), False), ("c", (1,), (2,), False), (" \U0001f31e d", (), (2,), False),
    ]  # fmt: skip


def test_typed_numbers_and_listed_options() -> None:
    assert number_range(Scale(options=tuple(range(1, 11)))) is None
    assert number_range(Scale(options=tuple(range(0, 101)))) == (0, 100, "1")
    assert number_range(Scale(options=(*range(11), 20))) == (0, 20, "any")


def test_the_finder_is_asked_of_stages_that_show_issues_alone(tmp_path: Path) -> None:
    with study(tmp_path) as look:
        one = look.take("ann")
        assert one is not None and look.view(one).issues is None and look.progress("ann") == (0, 12)
        look.answer("ann", submitted(one.id))
        look.skip("ann", one.id, "no")
        assert look.progress("ann") == (1, 12)


def test_pages_are_light(tmp_path: Path) -> None:
    scripts = {path.name: len(path.read_bytes()) for path in STATIC.glob("*.js")}
    rating = {"keys.js", "look.js", "outbox.js", "rate.js", "spans.js"}
    assert {*rating, "talk.js", "reading.js"} == set(scripts)
    assert sum(scripts[name] for name in rating) < 15 * 1024 and sum(scripts.values()) < 24 * 1024, scripts
    with project(tmp_path, issue_taxonomy="soda-eval") as opened, served(opened) as port:
        browser = Browser(port)
        browser.get("/")
        page = browser.get("/rate/look")
        first = {
            path: len(browser.ask("GET", path)[1].encode())
            for path in set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
        }
        loaded = {path.partition("?")[0].rpartition("/")[2] for path in first}
        assert len(page.encode()) + sum(first.values()) + scripts["outbox.js"] < 100_000 and "workbench.css" in loaded


def test_modules_are_named_by_their_content(tmp_path: Path) -> None:
    content = (static_file("rate.js") or (b"",))[0].decode()
    found = re.search(r'from "/static/outbox\.js\?([0-9a-f]{12})"', content)
    assert found is not None and found[1] == (static_file("outbox.js") or ("", "", ""))[2]
    assert static_file("../app.py") is None and static_file("unheard.js") is None


def test_a_broken_study_blocks_only_its_own_pages(tmp_path: Path) -> None:
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
    config = config_from({"store": f"sqlite:///{tmp_path}/accord.db", "studies": studies})
    with Project(config) as opened:
        opened.store.add_conversations(chats(3))
        store = Studies(opened.store)
        keys = {
            name: add_person(store, name, role)
            for name, role in [("ann", "annotator"), ("bob", "annotator"), ("lea", "lead")]
        }
        store.close()
        with served(opened) as port:
            ann, bob, lead = (Browser(port) for _ in keys)
            for browser, key in zip((ann, bob, lead), keys.values(), strict=True):
                browser.post("/in", key=key)
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
def test_file_that_is_not_there_is_404_however_long_its_name_is(tmp_path: Path) -> None:
    with project(tmp_path) as opened, served(opened) as port:
        browser = Browser(port)
        for name in ("unheard.js", "a" * 3000, "a" * 3000 + ".js", "%00.js", "..", ".js", "%2e%2e%2fapp.py"):
            assert browser.ask("GET", f"/static/{name}")[0] == 404, name

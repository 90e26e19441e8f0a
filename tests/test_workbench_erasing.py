"""Erasing in the workbench: the question with counts, roles, repeated and hostile forms, receipts, and the next fit."""

from __future__ import annotations

import html
import json
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from browsing import faults, tab
from served_workbench import STUDY, Browser, StartWorkbench, Workbench, chats, form_of, rate_all, token
from special_files import make_link
from test_workbench_pages import EVIL, strange

from accord import Conversation, Project, Turn
from accord.project import Selection, config_from, erase
from accord.testing import ChatServer
from accord.testing.server import spoken
from accord.values import Label, Target
from accord.web import add_person

GONE = "was erased on"


def opened(folder: Path, **settings: Any) -> Project:
    """A project with a folder of its own, which an erasure searches."""
    content = {"store": f"sqlite:///{folder}/accord.db", "studies": {"look": STUDY}, "draws": 50, **settings}
    made = Project(config_from(content, folder=folder))
    made.store.add_conversations(chats(12))
    return made


@pytest.fixture
def bench(workbench: StartWorkbench, tmp_path: Path) -> Workbench:
    """A workbench with a lead, an admin, and two annotators who rated two conversations each."""
    bench = workbench(["ann", "bob"], ["lea"], opened=opened(tmp_path))
    bench.keys["root"] = add_person(bench.studies, "root", "admin")
    look = bench.session()
    for name in ("ann", "bob"):
        for value in (1, 2):
            item = look.take(name)
            assert item is not None
            rate_all(look, item, value)
    return bench


def send(browser: Browser, **fields: str) -> tuple[int, str, str]:
    """Send the form of the question, by default to erase."""
    return browser.post("/erase", form=token(browser.get("/people")), **{"do": "erase", **fields})


def finished(browser: Browser, address: str) -> dict[str, Any]:
    """Return the receipt at an address as JSON, after its erasure ended."""
    until, path = time.monotonic() + 60, address.partition("?")[0]
    while (found := json.loads(browser.get(f"{path}.json")))["state"] == "running":
        assert time.monotonic() < until
        time.sleep(0.05)
    return dict(found)


def counted(browser: Browser, address: str) -> dict[str, Any]:
    """Return the question at an address as JSON, after its places were counted."""
    until = time.monotonic() + 60
    while not (found := json.loads(browser.get(address)))["counted"]:
        assert time.monotonic() < until
        time.sleep(0.05)
    return dict(found["plan"])


def main_text(page: str) -> str:
    return html.unescape(page[page.index("<main") :])


# --- conversations and annotators -------------------------------------------------------------------------------------


def test_lead_erases_a_conversation_after_a_question_with_counts(bench: Workbench, tmp_path: Path) -> None:
    (tmp_path / "chats.jsonl").write_text('{"id": "gpt-9-0", "text": "Question 0?"}\n', encoding="utf-8")
    bench.project.mart.add([_score("gpt-9-0"), _score("gpt-9-1")])
    lea = bench.browser("lea")
    page = lea.get("/conversation/gpt-9-0?back=/board/list")
    link = html.unescape(re.findall(r'href="(/erase\?[^"]+)"', page)[0])
    plan = counted(lea, link.replace("/erase?", "/erase.json?"))
    rows = {each["place"]: each["rows"] for each in plan["rows"]}
    assert rows["conversations"] == 1 and rows["scores of the board"] == 1 and rows["items of studies"] == 1
    assert plan["yours"] == ["chats.jsonl"] and bench.store.count_conversations() == 12, "a question changes nothing"
    page = lea.get(link)
    assert "Erase conversation" in page and plan["summary"] in page and "cannot be undone" in page
    assert str(tmp_path) not in page and 'name="back" value="/board/list"' in page and not strange(page)
    status, _, where = send(lea, conversation="gpt-9-0", back="/board/list")
    receipt = finished(lea, where)
    assert status == 303 and receipt["text"] == "1 conversation" and receipt["places"]["yours"] == ["chats.jsonl"]
    assert {each["place"]: each["rows"] for each in receipt["places"]["rows"]}.items() >= rows.items()
    page = lea.get(f"{where.partition('?')[0]}?done=erased&back=/board/list")
    assert (
        'role="status">' in page and "</svg>Erased.</p>" in page and 'href="/board/list"' in page and not strange(page)
    )
    assert "gpt-9-0" not in page and "Question 0" not in page
    assert [each.id for each in bench.store.conversations(["gpt-9-0", "gpt-9-1"])] == ["gpt-9-1"]
    for path in ("/conversation/gpt-9-0", "/conversation/gpt-9-0.json", "/erase?conversation=gpt-9-0"):
        assert GONE in lea.get(path) and lea.status == 404
    ann = bench.browser("ann")
    assert GONE not in ann.get("/conversation/gpt-9-0") and ann.status == 403
    assert receipt["id"] in lea.get("/settings")
    [row] = json.loads(lea.get("/settings.json"))["erasures"]
    assert (row["id"], row["text"], row["is_done"]) == (receipt["id"], "1 conversation", True)


def _score(conversation: str) -> dict[str, Any]:
    from test_board_pages import rows

    return {**rows()[0], "conversation": conversation}


def test_scores_are_kept_under_a_pseudonym_whose_page_says_so(bench: Workbench) -> None:
    bench.project.mart.add([_score("gpt-9-0"), _score("gpt-9-1")])
    lea = bench.browser("lea")
    finished(lea, send(lea, conversation="gpt-9-0", keep="on")[2])
    names, _ = bench.project.mart.read(lambda rows: rows.select("conversation").unique().collect()["conversation"])
    [pseudonym] = set(names) - {"gpt-9-1"}
    assert pseudonym.startswith("erased-")
    assert "only its scores were kept" in lea.get(f"/conversation/{pseudonym}") and lea.status == 404


@pytest.mark.parametrize("keep", [False, True], ids=["all is erased", "labels are kept"])
def test_lead_erases_an_annotator(bench: Workbench, keep: bool) -> None:
    lea, ann = bench.browser("lea"), bench.browser("ann")
    assert 'href="/erase?annotator=ann"' in lea.get("/people")
    plan = counted(lea, "/erase.json?annotator=ann")
    rows = {each["place"]: each["rows"] for each in plan["rows"]}
    assert rows["accounts"] == 1 and rows["assignments of studies"] == 2
    receipt = finished(lea, send(lea, annotator="ann", **({"keep": "on"} if keep else {}))[2])
    assert receipt["text"] == "1 annotator"
    people = {label.annotator for label in bench.store.labels()}
    assert "bob" in people and len(people) == (2 if keep else 1) and "ann" not in people
    ann.get("/")
    assert ann.status == 401, "the sessions of the account end"
    assert 'annotator=ann"' not in lea.get("/people")
    assert GONE in lea.get("/erase?annotator=ann") and lea.status == 404
    status, page, _ = lea.post("/people", form=token(lea.get("/people")), do="add", names="ann", role="annotator")
    assert status == 409 and "were erased" in page, "ratings under this name would not be stored"


def test_page_of_people_names_the_command_for_annotators_without_an_account(bench: Workbench) -> None:
    bench.store.add_labels([Label(Target("gpt-9-2"), "Q0", "imported", 2)])
    lea = bench.browser("lea")
    assert "accord store erase --annotator NAME" in lea.get("/people")
    finished(lea, send(lea, annotator="imported")[2])
    assert "imported" not in {label.annotator for label in bench.store.labels()}


def test_own_account_and_accounts_of_other_leads_are_refused(bench: Workbench) -> None:
    lea, root = bench.browser("lea"), bench.browser("root")
    for browser, own in ((lea, "lea"), (root, "root")):
        assert f"annotator={own}" not in browser.get("/people")
        assert "your own account cannot be erased" in browser.get(f"/erase?annotator={own}") and browser.status == 422
        status, page, _ = send(browser, annotator=own)
        assert status == 422 and "your own account cannot be erased" in page
    assert send(lea, annotator="root")[0] == 403 and lea.get("/erase?annotator=root") and lea.status == 403
    assert "erased" not in json.dumps(json.loads(lea.get("/people.json")))
    finished(root, send(root, annotator="lea")[2])
    assert [each.name for each in bench.studies.accounts.list_users()] == ["ann", "bob", "root"]


# --- roles, forms and hostile names -----------------------------------------------------------------------------------


@pytest.mark.attack
def test_annotators_and_strangers_neither_see_nor_send_the_forms(bench: Workbench) -> None:
    lea, ann, stranger = bench.browser("lea"), bench.browser("ann"), Browser(bench.port, "http://x/healthz")
    form, own = token(lea.get("/people")), token(ann.get("/rate/look"))
    done = finished(lea, send(lea, conversation="gpt-9-5")[2])["id"]
    for path in ("/erase?conversation=gpt-9-0", "/erase?annotator=bob", f"/erasures/{done}"):
        for address in (path, path.replace("?", ".json?") if "?" in path else f"{path}.json"):
            assert (ann.ask("GET", address)[0], stranger.ask("GET", address)[0]) == (403, 401), address
    fields = {"do": "erase", "conversation": "gpt-9-0"}
    assert ann.post("/erase", form=own, **fields)[0] == 403 and stranger.post("/erase", form=form, **fields)[0] == 401
    refused = [
        lea.post("/erase", **fields), lea.post("/erase", form=own, **fields), lea.post("/erase", form="0" * 64, **fields),
        lea.ask("POST", "/erase", urlencode({**fields, "form": form}), Origin="http://evil.example"),
        lea.ask("POST", "/erase", json.dumps(fields), Content_Type="application/json"),
    ]  # fmt: skip
    assert [status for status, *_ in refused] == [403] * 5
    for method, path in (("PUT", "/erase"), ("DELETE", "/erase"), ("POST", f"/erasures/{done}"), ("DELETE", f"/erasures/{done}")):  # fmt: skip
        assert lea.ask(method, path, "")[0] == 405
    assert lea.ask("GET", "/erase?do=erase&conversation=gpt-9-0&form=" + form)[0] == 200
    assert bench.store.count_conversations() == 11, "the rest is still there"


HOSTILE = [
    "../x",
    "..%2f..%2fetc/passwd",
    EVIL,
    "x" * 10_000,
    "no-such-id",
    "a\nb\x07",
    "%00",
    "é\u202e",
    "gpt-9-0.json",
]


@pytest.mark.attack
@pytest.mark.parametrize("kind", ["conversation", "annotator"])
def test_unknown_and_hostile_names_get_a_clear_answer(bench: Workbench, kind: str) -> None:
    lea = bench.browser("lea")
    for name in HOSTILE:
        for status, page, _ in (lea.ask("GET", f"/erase?{urlencode({kind: name})}"), send(lea, **{kind: name})):
            assert status == 422 and 'role="alert"' in page and not strange(page), name
            assert "Traceback" not in page and len(page) < 8000
    for fields in ({}, {"conversation": "gpt-9-0", "annotator": "ann"}, {"do": "drop", kind: "ann"}, {"do": "x" * 10_000},
                   {"do": "continue"}, {"do": "continue", "id": "../x"}, {"do": "continue", "id": EVIL}):  # fmt: skip
        status, page, _ = send(lea, **fields)
        assert status == 422 and 'role="alert"' in page and not strange(page), fields
    for id in ("../x", EVIL, "x" * 10_000, "no-such-id"):
        assert lea.ask("GET", f"/erasures/{quote(id, safe='')}")[0] == 404
    assert lea.ask("GET", "/erase")[0] == 422 and bench.store.count_conversations() == 12
    assert not bench.store.runs("erase"), "nothing was recorded"


@pytest.mark.attack
def test_ids_and_names_of_script_are_shown_as_text_and_erased(bench: Workbench) -> None:
    bench.store.add_conversations([Conversation(EVIL, (Turn("user", EVIL), Turn("assistant", EVIL)))])
    bench.store.add_labels([Label(Target("gpt-9-2"), "Q0", EVIL, 2)])
    lea = bench.browser("lea")
    page = lea.get(f"/conversation/{quote(EVIL, safe='')}")
    assert "Erase this conversation" in page and not strange(page)
    for kind in ("conversation", "annotator"):
        counted(lea, f"/erase.json?{urlencode({kind: EVIL})}")
        page = lea.get(f"/erase?{urlencode({kind: EVIL, 'back': '//evil.example/board'})}")
        assert lea.status == 200 and not strange(page) and "evil.example" not in page
        status, _, where = send(lea, **{kind: EVIL}, back="//evil.example/board")
        assert status == 303 and "evil.example" not in where and finished(lea, where)["state"] == "done"
    assert bench.store.count_conversations() == 12 and EVIL not in {each.annotator for each in bench.store.labels()}


def test_stale_form_of_another_browser_is_told_that_it_was_erased(bench: Workbench) -> None:
    lea, root = bench.browser("lea"), bench.browser("root")
    counted(root, "/erase.json?conversation=gpt-9-0")
    finished(lea, send(lea, conversation="gpt-9-0")[2])
    for browser in (lea, root):
        status, page, _ = send(browser, conversation="gpt-9-0")
        assert status == 404 and GONE in page and 'href="/"' in page
    assert len(bench.store.runs("erase")) == 1


# --- annotators at work -----------------------------------------------------------------------------------------------


def test_open_page_of_an_erased_conversation_answers_with_a_sentence_and_a_way_back(bench: Workbench) -> None:
    ann, lea = bench.browser("ann"), bench.browser("lea")
    where, fields = form_of(ann.get("/rate/look/next"))
    assignment = where.rpartition("/")[2]
    found = bench.studies.assignment(assignment)
    assert found is not None
    answer = {"study": "look", "assignment": assignment, "id": "z" * 20, "question": "Q0", "value": 1}
    finished(lea, send(lea, conversation=found.item.target.conversation)[2])
    kinds = [ann.ask("GET", where), ann.post(where, **fields, **{"value.Q0": "1"}),
             ann.post(where, **{**fields, "do": "skip", "reason": "gone"})]  # fmt: skip
    for status, page, _ in kinds:
        assert status == 422 and "its conversation was erased" in page and 'href="/"' in page
        assert found.item.target.conversation not in main_text(page)
    body = json.dumps({"answers": [answer]})
    headers = {"Content_Type": "application/json", "X_Accord_Form": fields["form"]}
    status, said, _ = ann.ask("POST", "/answers", body, **headers)
    assert status == 200 and "its conversation was erased" in json.loads(said)["answers"][0]["error"]
    assert "Continue" in ann.get("/") and ann.get("/rate/look/next") and ann.status == 200, "the next item is there"


def test_item_whose_conversation_goes_while_its_page_is_made_is_no_internal_error(
    bench: Workbench, tmp_path: Path
) -> None:
    ann = bench.browser("ann")
    where, fields = form_of(ann.get("/rate/look/next"))
    with closing(sqlite3.connect(tmp_path / "accord.db")) as database, database:
        database.execute("DELETE FROM conversations")
    answer = {"study": "look", "assignment": where.rpartition("/")[2], "id": "z" * 20, "question": "Q0", "value": 1}
    headers = {"Content_Type": "application/json", "X_Accord_Form": fields["form"]}
    for status, said, _ in (ann.ask("GET", where), ann.post(where, **fields, **{"value.Q0": "1"}),
                            ann.ask("POST", "/answers", json.dumps(answer), **headers)):  # fmt: skip
        assert status == 422 and "its conversation was erased" in said


def test_chats_of_an_erased_annotator_and_of_an_erased_conversation_end_with_a_sentence(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "no key is needed here")
    with ChatServer(lambda request: spoken(["Hello ", "there."])) as model:
        one = {"model": "m", "base_url": model.url, "attempts": 1}
        study = {"chat": {"assistants": {"one": one}, "topics": ["Parking"]}}
        bench = workbench(["ann", "bob"], ["lea"], opened=opened(tmp_path, studies={"look": study}))
        lea, browsers, pages = bench.browser("lea"), {name: bench.browser(name) for name in ("ann", "bob")}, {}
        for name, browser in browsers.items():
            pages[name] = browser.post("/talk/look", form=token(browser.get("/talk/look")))[2]
        bob, form = browsers["bob"], token(browsers["bob"].get(pages["bob"]))
        said = {"do": "say", "message": "m" * 20, "text": "Hi", "after": "0"}
        assert bob.post(pages["bob"], form=form, **said)[0] == 303
        status, _, rating = bob.post(pages["bob"], form=form, do="end")
        [conversation] = [each for each in bench.store.conversation_ids() if each.startswith("talk-")]
        assert status == 303 and bob.get(rating) and bob.status == 200
        finished(lea, send(lea, conversation=conversation)[2])
        for address, sentence, sent in (
            (pages["bob"], "is gone", said), (rating, "its conversation was erased", {"do": "finish"}),
        ):  # fmt: skip
            for status, page, _ in (bob.ask("GET", address), bob.post(address, form=form, **sent)):
                assert status == 422 and sentence in page and 'href="/"' in page
        finished(lea, send(lea, annotator="ann")[2])
        assert browsers["ann"].ask("GET", pages["ann"])[0] == 401
        assert browsers["ann"].post(pages["ann"], form=form, **said)[0] == 401
        returning = Browser(bench.port, "http://x/healthz").post("/in", key=bench.keys["ann"])
        assert returning[0] == 401 and "link" in returning[1], "the personal link ends, too"


def test_no_link_of_a_page_leads_to_an_internal_error_after_several_erasures(bench: Workbench) -> None:
    bench.project.mart.add([_score("gpt-9-0"), _score("gpt-9-1")])
    look = bench.session()
    for name, value in (("ann", 1), ("bob", 2)):
        while (item := look.take(name)) is not None:
            rate_all(look, item, value)
    lea, ann = bench.browser("lea"), bench.browser("ann")
    pages = ["/", "/lead/look", "/lead/look/items", "/lead/look/disagree", "/explore", "/board", "/board/list"]
    links = {lea: set(pages), ann: {"/rate/look/done"}}
    for browser, addresses in links.items():
        for page in list(addresses):
            addresses |= {html.unescape(link) for link in re.findall(r'href="(/[^"#]+)', browser.get(page))}
    for place in range(3):
        assert finished(lea, send(lea, conversation=f"gpt-9-{place}")[2])["state"] == "done"
    assert len(bench.store.runs("erase")) == 3 and bench.store.count_conversations() == 9
    answers = Counter[int]()
    for browser, addresses in links.items():
        for address in sorted(each for each in addresses if not each.startswith("/static")):
            status, page, _ = browser.ask("GET", address)
            answers[status] += 1
            assert status in {200, 303, 404, 422} and "gpt-9-0" not in (page if "gpt-9-0" not in address else ""), (
                address
            )
            assert ('role="alert"' in page and 'href="/"' in page) or status not in {404, 422}, address
    assert answers[404] and answers[422] and answers[200] > 40


# --- interruptions ----------------------------------------------------------------------------------------------------


def test_recorded_erasure_is_continued_by_a_button_after_the_server_stopped(bench: Workbench) -> None:
    recorded = erase(bench.project, Selection(conversations=("gpt-9-0",)), later=True)
    assert bench.store.count_conversations() == 12 and recorded.id and not recorded.rows
    lea = bench.browser("lea")
    assert "not finished" in lea.get("/settings")
    page = lea.get("/erase?conversation=gpt-9-0")
    assert "Not erased completely" in page and "Continue the erasure" in page, "the question leads to its progress"
    assert send(lea, conversation="gpt-9-0")[2].startswith(f"/erasures/{recorded.id}"), "the same erasure"
    assert send(lea, do="continue", id=recorded.id)[0] == 303
    assert finished(lea, f"/erasures/{recorded.id}")["text"] == "1 conversation"
    assert bench.store.count_conversations() == 11 and len(bench.store.runs("erase")) == 1


def test_failed_erasure_names_the_reason_and_goes_on_later(bench: Workbench) -> None:
    bench.project.mart.add([_score("gpt-9-0")])
    damaged = bench.project.mart.folder / "live-1.jsonl"
    make_link(damaged, "/dev/null")
    lea = bench.browser("lea")
    where = send(lea, conversation="gpt-9-0")[2]
    receipt, page = finished(lea, where), lea.get(where)
    assert receipt["state"] == "interrupted" and receipt["failed"] and "done=" not in where
    assert receipt["failed"] in html.unescape(page) and "Continue the erasure" in page and "Traceback" not in page
    assert str(bench.project.mart.folder.parent) not in page
    damaged.unlink()
    send(lea, do="continue", id=receipt["id"])
    assert finished(lea, where)["state"] == "done" and bench.store.count_conversations() == 11


def test_damaged_file_does_not_stop_an_erasure_and_keeps_its_other_lines(bench: Workbench, tmp_path: Path) -> None:
    (tmp_path / "judgments").mkdir()
    (tmp_path / "judgments" / "judge.jsonl").write_bytes(b'{"item_id": "gpt-9-0"}\n\xff\n')
    lea = bench.browser("lea")
    receipt = finished(lea, send(lea, conversation="gpt-9-0")[2])
    assert receipt["state"] == "done" and (tmp_path / "judgments" / "judge.jsonl").read_bytes() == b"\xff\n"


# --- evaluators -------------------------------------------------------------------------------------------------------


@pytest.fixture
def fitted(workbench: StartWorkbench, tmp_path: Path) -> Iterator[Workbench]:
    """A workbench of a project with an evaluator that learned from twelve conversations."""
    made = opened(tmp_path, metrics=["words"], evaluators={"default": {"head": "mixed"}})
    made.store.add_labels(
        Label(Target(f"gpt-9-{n}"), "Q0", name, 1 + (n + extra) % 4)
        for n in range(12) for extra, name in enumerate(("ann", "bob"))
    )  # fmt: skip
    made.fit()
    yield workbench(leads=["lea"], opened=made)


def test_pages_ask_for_a_fit_until_it_is_promoted(fitted: Workbench) -> None:
    lea = fitted.browser("lea")
    note = "default learned from 1 conversation that was erased since"
    assert all(note not in lea.get(path) for path in ("/", "/evaluators", "/evaluators/report"))
    ends = time.monotonic() + 60
    while json.loads(lea.get("/evaluators/report.json"))["is_building"]:
        assert time.monotonic() < ends
        time.sleep(0.1)
    receipt = finished(lea, send(lea, conversation="gpt-9-3")[2])
    assert receipt["places"]["refit"] == ["default"]
    assert json.loads(lea.get("/evaluators/report.json"))["is_building"], "a report that may quote it is made again"
    assert all(note in lea.get(path) for path in ("/", "/evaluators", "/evaluators/report"))
    [step] = [each for each in json.loads(lea.get("/index.json"))["next"] if "erased" in each["reason"]]
    assert (step["address"], step["method"], step["button"]) == ("/lead/fit", "post", "Fit again")
    assert json.loads(lea.get("/evaluators/report.json"))["refit"] == note
    assert lea.post("/lead/fit", form=token(lea.get("/people")))[0] == 303
    until = time.monotonic() + 120
    while not (state := json.loads(lea.get("/evaluators.json")))["candidate"] or state["fitting"]:
        assert time.monotonic() < until, state
        time.sleep(0.2)
    assert note not in lea.get("/") and note in lea.get("/evaluators"), "the candidate is the next step"
    made = re.findall(r'name="made" value="([^"]+)"', lea.get("/evaluators"))[0]
    assert lea.post("/lead/promote", form=token(lea.get("/people")), made=html.unescape(made))[0] == 303
    rows = json.loads(lea.get("/evaluators.json"))["evaluators"]
    assert [bool(row["refit"]) for row in rows if row["is_in_use"]] == [False]
    assert any(row["refit"] for row in rows if row["is_earlier"]), "the earlier version learned from it"


def test_settings_show_the_retention_in_words(workbench: StartWorkbench, tmp_path: Path) -> None:
    privacy = {"user": ["customer"], "retention": {"conversations": "90 days", "replies": "4 weeks"}}
    browser = workbench(opened=opened(tmp_path, privacy=privacy)).browser()
    rows = {row["key"]: row["text"] for row in json.loads(browser.get("/settings.json"))["settings"]}
    assert rows["privacy.retention"] == "conversations 90 days, cached replies of models 28 days"
    assert rows["privacy.user"] == "customer"
    page = browser.get("/settings")
    assert "Nothing was erased." in page and rows["privacy.retention"] in page and "<form" not in page[page.index("erasures") :]  # fmt: skip


# --- browser ----------------------------------------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no script"])
def test_lead_erases_in_a_browser(bench: Workbench, browser: Any, tmp_path: Path, has_script: bool) -> None:
    (tmp_path / "chats.jsonl").write_text('{"id": "gpt-9-0", "text": "Question 0?"}\n', encoding="utf-8")
    wrong: list[str] = []

    def check(page: Any, text: str) -> None:
        page.get_by_text(text).first.wait_for()
        wrong.extend(f"{page.url}: {fault}" for fault in (faults(page) if has_script else ()))

    with tab(browser, bench.port, bench.keys["lea"], java_script_enabled=has_script) as page:
        page.goto("/conversation/gpt-9-0?back=/board/list")
        page.get_by_role("link", name="Erase this conversation").click()
        check(page, "This cannot be undone")
        page.get_by_label("Keep the scores under a pseudonym").check()
        page.get_by_role("button", name="Erase").click()
        check(page, "Your own file mentions it")
        assert page.locator("h1").inner_text() == "Erased: 1 conversation"
        page.go_back()  # the question is asked again, of a conversation that is gone
        check(page, GONE)
        page.goto("/people")
        page.get_by_role("link", name="Erase ann").click()
        check(page, "Keep the labels under a pseudonym")
        page.get_by_role("button", name="Erase").click()
        check(page, "Erased: 1 annotator")
        page.goto("/settings")
        check(page, "1 annotator")
    assert not wrong, wrong
    [first, second] = bench.store.runs("erase")
    assert first["settings"]["selection"]["keep_scores"] and "keep_labels" not in second["settings"]["selection"]

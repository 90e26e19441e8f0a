"""The workbench: sign-in, assignment of items, stored answers, and what annotators are not shown."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import sqlalchemy
from commands import accord, accord_json
from new_project import new_project
from served_workbench import LINKS, Browser, StartWorkbench, chats, form_of, project, rate_all, study, submitted, token

from accord import Project
from accord.edges import BadInput, validate
from accord.live import combine_apps, exposure
from accord.project import Config
from accord.store import Conflict, IssueAnnotations, LeaseExpired, Studies
from accord.studies import StudySession
from accord.values import Annotation, Issue, IssueAnnotation, StudySettings, Target
from accord.web import WorkbenchContext, add_person, local_sign_in_link, workbench_app

OVER = "2020-01-01T00:00:00.000+00:00"

# --- who gets what ------------------------------------------------------------------------------------------------


def test_two_people_an_item_and_no_more(tmp_path: Path) -> None:
    with study(tmp_path) as look:
        given: dict[str, list[str]] = {}
        for person in ("ann", "bob", "cy"):
            while (assignment := look.take(person)) is not None:
                assert look.take(person).id == assignment.id, "the open item is assigned again"
                assert rate_all(look, assignment).state == "done"
                given.setdefault(assignment.item.key, []).append(person)
        assert len(given) == 12 and all(len(set(people)) == 2 for people in given.values())
        assert len(look.project.store.labels().on("Q0")) == 24


def test_repeated_answer_is_saved_once_and_edits_keep_history(tmp_path: Path) -> None:
    with study(tmp_path) as look:
        one = look.take("ann")
        first, again = look.answer("ann", submitted(one.id, value=3, seconds=4.2))
        assert not again and look.answer("ann", submitted(one.id, value=3, seconds=9.9)) == (first, True)
        with pytest.raises(Conflict, match="used for another answer"):
            look.answer("ann", submitted(one.id, value=2))
        look.answer("ann", submitted(one.id, value=2, id="b" * 20))
        assert [label.value for label in look.project.store.labels()] == [2]
        history = look.studies.answers_in(one, history=True)
        assert [each.value for each in history] == [3, 2] and history[1].replaces == "a" * 20
        assert [each.value for each in look.studies.answers_in(one)] == [2]


@pytest.mark.parametrize(("stops", "kept"), [(False, [3, 2]), (True, [3])])
def test_answers_of_one_request_are_one_transaction(tmp_path: Path, stops: bool, kept: list[int]) -> None:
    with study(tmp_path) as look:
        one, opened, counted = look.take("ann"), sqlalchemy.event.listens_for, list[str]()
        opened(look.project.store._engine, "commit")(lambda connection: counted.append("commit"))
        answers = [submitted(one.id, value=3), submitted(one.id, value=99, id="b" * 20)]
        answers += [submitted("other", id="c" * 20), submitted(one.id, value=2, id="d" * 20)]
        found = look.answer_each("ann", answers, stops)
        assert counted == ["commit"] * 2, "one transaction, and one that looks for the file of the store"
        assert [isinstance(each, BadInput) for each in found] == [False, True, True, stops][: len(found)]
        assert [each.value for each in look.studies.answers_in(one, history=True)] == kept


def test_histories_are_exported_and_read_back(tmp_path: Path) -> None:
    with study(tmp_path, issue_taxonomy="soda-eval") as look:
        one = look.take("ann")
        look.answer("ann", submitted(one.id, value=3, seconds=4.2, comment="=1+1"))
        look.answer("ann", submitted(one.id, value=2, id="b" * 20))
        mark = {"question": "issue:Coherence", "turn": 1, "value": 1}
        look.answer("ann", submitted(one.id, id="m" * 20, span=[0, 6], **mark))
        look.answer("ann", submitted(one.id, id="n" * 20, span=[7, 9], **mark))
        look.answer("ann", submitted(one.id, id="o" * 20, **{**mark, "value": None}, replaces="m" * 20))
        own = list(look.project.store.annotations())
        expected = look.project.store.labels()
        (tmp_path / "accord.yaml").write_text(f"store: sqlite:///{tmp_path}/accord.db", encoding="utf-8")
        for format in ("jsonl", "csv", "parquet"):
            out = tmp_path / f"out.{format}"
            accord("export", str(out), "--config", str(tmp_path / "accord.yaml"))
            with Project(Config(store=f"sqlite:///{tmp_path}/{format}.db")) as other:
                other.store.add_conversations(chats(12))
                other.import_([out])
                assert list(other.store.annotations()) == own
                assert list(other.store.labels()) == list(expected)
        said = {(label.question, label.value) for label in expected}
        assert said == {("Q0", 2), ("issue:Coherence", 1)} and len(expected) == 2


def test_a_lease_that_is_over_goes_on_unless_others_have_finished(tmp_path: Path) -> None:
    with study(tmp_path, annotators_per_item=1, lease_minutes=1) as look:
        one = look.take("ann")
        look.studies.move(one.id, "ann", "open", 0, OVER)
        look.answer("ann", submitted(one.id))
        assert look.assignment(one.id, "ann").until > OVER, "the lease ended but the item is free"
        look.studies.move(one.id, "ann", "open", 0, OVER)
        other = look.take("bob")
        assert other.item.key == one.item.key
        rate_all(look, other)
        with pytest.raises(LeaseExpired, match="your text stays here"):
            look.answer("ann", submitted(one.id, value=1, id="c" * 20))


def test_answers_for_other_annotators_are_refused(tmp_path: Path) -> None:
    with study(tmp_path) as look:
        one = look.take("ann").id
        for act in (
            lambda: look.answer("bob", submitted(one)),
            lambda: look.finish("bob", one),
            lambda: look.skip("bob", one, "not mine"),
            lambda: look.reopen("bob", one),
        ):
            with pytest.raises(BadInput, match="does not exist, or is not yours"):
                act()
        assert not len(look.project.store.labels())


def test_items_filter_by_issue_of_a_model(tmp_path: Path) -> None:
    issue = Issue("Other", "odd", "Answer", (0, 6), None)
    with project(tmp_path, level="turn", items={"issues": ["Other"]}) as opened:
        said = IssueAnnotation(Target("gpt-9-3", 1), (issue,), 3, "odd", "issues|model:m", ())
        IssueAnnotations(opened.store).add([said])
        studies = Studies(opened.store)
        look = StudySession(opened, "look", studies)
        assert look.begin() == 1 and look.take("ann").item.target == Target("gpt-9-3", 1)
        studies.close()
    with pytest.raises(BadInput, match="set `level: turn`"):
        validate(StudySettings, {"items": {"issues": ["Other"]}}, "studies")


def test_a_draw_has_equally_many_of_each_and_a_seed(tmp_path: Path) -> None:
    draws = []
    for folder, system in (("one", ["gpt-9"]), ("again", "gpt-9")):
        items = {"sample": 6, "stratify_by": ["topic"], "filter": {"system": system}}
        with study(tmp_path / folder, items=items) as look:
            draws.append([int(each.target.conversation.rpartition("-")[2]) for each in look.studies.items("look")])
    assert draws[0] == draws[1] and all(number % 2 for number in draws[0])
    assert set(Counter(number % 3 for number in draws[0]).values()) == {2}


# --- pages --------------------------------------------------------------------------------------------------------


def test_an_item_is_rated_by_forms_alone(workbench: StartWorkbench) -> None:
    bench = workbench()
    browser = bench.browser()
    page = browser.get("/rate/look")
    assert "Answer &lt;b&gt;" in page and "gpt-9" not in page
    where, fields = form_of(page)
    values = {name: "1" for name in re.findall(r'type="radio" name="([^"]+)"', page)}
    status, _, to = browser.post(where, **fields, **values, do="finish")
    assert status == 303 and to.startswith("/rate/look?saved=")
    assert "Item 1 saved." in browser.get(to)
    assert len(bench.store.labels()) == len(values)


@pytest.mark.attack
def test_personal_links_bring_people_in_and_wrong_ones_do_not(workbench: StartWorkbench, tmp_path: Path) -> None:
    bench = workbench(["ann"])
    key, stranger, ann = bench.keys["ann"], bench.browser(), bench.browser()
    for path in ("/rate/look", "/in/" + "x" * 43):
        stranger.get(path)
        assert stranger.status == 401
    assert "Hello, ann" in ann.get(f"/in/{key}") and not ann.cookies
    assert ann.post("/in", key=key)[0] == 303 and ann.cookies
    assert "Question" in ann.get("/rate/look")
    text = (tmp_path / "accord.db").read_bytes()
    assert key.encode() not in text and ann.cookies["accord_session"].encode() not in text


@pytest.mark.attack
def test_foreign_origins_hosts_and_forged_forms_are_refused(workbench: StartWorkbench) -> None:
    bench = workbench()
    browser = bench.browser()
    page = browser.get("/rate/look")
    where, _ = form_of(page)
    body = urlencode({"form": token(page), "value.Q0": "1", "do": "save"})
    assert browser.ask("POST", where, body, Origin="http://evil.example")[0] == 403
    assert browser.ask("POST", where, body, Host="evil.example")[0] == 421
    assert browser.post(where, form="0" * 64, do="save")[0] == 403
    assert not len(bench.store.labels())


@pytest.mark.attack
@pytest.mark.parametrize("cookie", ["", "x" * 43])
def test_a_single_user_signs_in_by_a_link_that_works_once(
    workbench: StartWorkbench, tmp_path: Path, cookie: str
) -> None:
    bench = workbench()
    link = urlsplit(LINKS[bench.port]() or "").path
    stranger, user = Browser(bench.port, link="/"), Browser(bench.port, link="/")
    stranger.cookies = {"accord_session": cookie} if cookie else {}
    for path in ("/", "/board", "/board.json", "/lead", "/rate/look", "/conversation/gpt-9-1", "/explore"):
        page = stranger.get(path)
        assert stranger.status == 401 and "Question 1" not in page, path
        assert "accord serve" in page and "accord users link" in page, path
    assert stranger.ask("POST", "/lead/fit", "form=x")[0] == 401
    assert user.ask("GET", link, Host="evil.example")[0] == 421 and not user.cookies
    assert user.ask("GET", f"{link}?page=//evil.example")[2] == "/" and user.cookies
    assert "First look" in user.get("/") and "Question" in user.get("/rate/look")
    assert user.get("/board") and user.status == 200
    assert user.ask("GET", "/board", Host="evil.example")[0] == 421
    stranger.get(link)
    assert stranger.status == 401, "the link works once"
    assert user.ask("GET", f"{link}?page=/board")[2] == "/board", "a browser that is signed in goes on"
    for path in ("/.json", "/index.json"):
        assert json.loads(stranger.get(path))["error"] and stranger.status == 401
        assert json.loads(user.get(path))["studies"][0]["title"] == "First look"
    assert json.loads(user.get("/rate/look.json"))["finished"] == 0
    text = (tmp_path / "accord.db").read_bytes()
    assert link.rpartition("/")[2].encode() not in text and user.cookies["accord_session"].encode() not in text
    add_person(bench.studies, "ann")
    with pytest.raises(BadInput, match="accord users link ann"):
        local_sign_in_link(bench.studies, "http://127.0.0.1:8700")
    user.get("/board")
    assert user.status == 401, "once there is an account, the single user's session ends"


def test_pages_of_a_single_user_are_for_clients_of_this_machine(tmp_path: Path) -> None:
    with project(tmp_path) as opened:
        bench = WorkbenchContext(opened)
        pages = workbench_app(bench)
        path = urlsplit(local_sign_in_link(bench.studies, "http://localhost")).path

        def status(client: str) -> int:
            sent: list[dict[str, Any]] = []

            async def receive() -> dict[str, Any]:
                return {"type": "http.request", "body": b"", "more_body": False}

            async def send(event: Any) -> None:
                sent.append(event)

            scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"",
                     "headers": [(b"host", b"localhost")], "client": (client, 1), "scheme": "http", "root_path": "",
                     "server": ("localhost", 80), "http_version": "1.1"}  # fmt: skip
            asyncio.run(pages(scope, receive, send))
            return int(sent[0]["status"])

        assert status("10.0.0.7") == 401
        assert status("127.0.0.1") == 303
        bench.close()


# --- the command line -----------------------------------------------------------------------------------------------


def test_people_are_added_listed_and_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    new_project()
    assert "no users" in accord("users", "list")
    link = accord_json("users", "add", "ann", "--role", "lead", "--url", "https://rate.example/")["link"]
    assert re.fullmatch(r"https://rate\.example/in/[\w-]{43}", link)
    assert "Available: admin, annotator, lead" in accord("users", "add", "bob", "--role", "king", code=1)
    assert "there is a user 'ann' already" in accord("users", "add", "Ann", code=1)
    assert "allowed: 1 to 40 letters" in accord("users", "add", "../ann", code=1)
    accord("users", "role", "ann", "annotator")
    assert "ann  annotator" in accord("users", "list")
    assert link not in accord("users", "link", "ann")
    accord("users", "remove", "ann")
    assert "there is no user 'ann'" in accord("users", "link", "ann", code=1)
    accord("users", "add", "ann")  # the former user of this name has no answers


@pytest.mark.attack
@pytest.mark.parametrize("name", ["ann", "Ann"])
def test_name_of_a_former_user_with_answers_is_given_again_only_to_the_same_person(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with project(tmp_path) as opened, closing(Studies(opened.store)) as studies:
        add_person(studies, "ann")
        opened.store.add_annotations(
            [Annotation(Target("gpt-9-1"), "Q1", "ann", "person", 1, time="2026-01-01T00:00:00+00:00", answer="a" * 16)]
        )
        studies.accounts.remove("ann")
        with pytest.raises(BadInput, match="former user 'ann' has answers.*--returning"):
            add_person(studies, name)
        assert add_person(studies, "ann", returns=True)
        add_person(studies, "annabel")


def test_a_server_that_other_machines_reach_needs_a_user(tmp_path: Path) -> None:
    with project(tmp_path) as opened:
        with pytest.raises(BadInput, match="no user account protects it. Add one: accord users add"):
            WorkbenchContext(opened, exposure("0.0.0.0"))
        studies = Studies(opened.store)
        add_person(studies, "ann")
        WorkbenchContext(opened, exposure("0.0.0.0")).close()
        studies.close()


@pytest.mark.parametrize("token", ["", "a-token-of-sixteen-characters"])
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--proxy", "127.0.0.1", "--name", "scores.example"], "--proxy"),
        (["--name", "scores.example"], "--name"),
        (["--host", "0.0.0.0"], "--host"),
    ],
)
@pytest.mark.attack
def test_serve_refuses_to_start_without_a_user_where_other_machines_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], named: str, token: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCORD_TOKEN", token)
    new_project("studies: {look: {title: First look}}\n")
    output = accord("serve", *arguments, code=1)
    assert "accord users add NAME --role lead" in output and f"{named} " in output


def test_users_link_without_a_name_signs_the_single_user_in(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bench = workbench()
    new_project(f"store: sqlite:///{tmp_path}/accord.db\n")
    link = accord("users", "link", "--url", f"http://127.0.0.1:{bench.port}").strip()
    assert "First look" in Browser(bench.port, link).get("/")
    accord("users", "add", "ann")
    assert "accord users link ann" in accord("users", "link", code=1)


def test_scores_and_pages_share_an_address() -> None:
    asked: list[str] = []

    async def scores(scope: Any, receive: Any, send: Any) -> None:
        asked.append("scores")

    async def pages(scope: Any, receive: Any, send: Any) -> None:
        asked.append("pages")

    both = combine_apps(scores, pages)
    for path in ("/v1/scores", "/metrics", "/rate/look", "/", "/lead"):
        asyncio.run(both({"type": "http", "path": path}, None, None))
    asyncio.run(both({"type": "lifespan"}, None, None))
    assert asked == ["scores", "scores", "pages", "pages", "pages", "scores"]


@pytest.mark.parametrize("url", ["javascript:alert(1)", "rate.example", "http://user:pw@rate.example", "https://"])
def test_a_link_begins_with_a_web_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    new_project()
    refused = accord("users", "add", "x", "--url", url, code=1)
    assert "--url takes the address of the workbench" in refused
    assert accord_json("users", "list")["users"] == []

"""The workbench: sign-in, assignment of items, stored answers, and what annotators are not shown."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from new_project import new_project
from served_workbench import LINKS, Browser, chats, project, served, study, submitted, token
from typer.testing import CliRunner

from accord import Store
from accord.cli import app, commands  # noqa: F401 - registers the commands
from accord.edges import BadInput, validate
from accord.live import combine_apps, exposure
from accord.project import Config, Project
from accord.store import Conflict, IssueAnnotations, LeaseExpired, Studies
from accord.studies import StudySession
from accord.values import Issue, IssueAnnotation, StudySettings, Target
from accord.web import WorkbenchContext, add_person, local_sign_in_link, workbench_app

# --- who gets what ------------------------------------------------------------------------------------------------


def test_two_people_an_item_and_no_more(tmp_path: Path) -> None:
    with study(tmp_path) as look:
        given: dict[str, list[str]] = {}
        for person in ("ann", "bob", "cy"):
            while (assignment := look.take(person)) is not None:
                again = look.take(person)
                assert again is not None and again.id == assignment.id, "the open item is assigned again"
                for question in look.view(assignment).questions:
                    look.answer(
                        person, submitted(assignment.id, question.id, 1, f"{person}-{assignment.id}-{question.id}"[:64])
                    )
                assert look.finish(person, assignment.id).state == "done"
                given.setdefault(assignment.item.key, []).append(person)
        assert len(given) == 12 and all(len(set(people)) == 2 for people in given.values())
        labels = look.project.store.labels().on("Q0")
        assert len(labels) == 24


def test_repeated_answer_is_saved_once_and_edits_keep_history(tmp_path: Path) -> None:
    with study(tmp_path) as look:
        one = look.take("ann")
        assert one is not None
        first, again = look.answer("ann", submitted(one.id, value=3, seconds=4.2))
        assert not again and look.answer("ann", submitted(one.id, value=3, seconds=9.9)) == (first, True)
        with pytest.raises(Conflict, match="used for another answer"):
            look.answer("ann", submitted(one.id, value=2))
        look.answer("ann", submitted(one.id, value=2, id="b" * 20))
        [label] = look.project.store.labels()
        assert label.value == 2
        history = look.studies.answers_in(one, history=True)
        assert [each.value for each in history] == [3, 2] and history[1].replaces == "a" * 20
        assert [each.value for each in look.studies.answers_in(one)] == [2]


def test_histories_are_exported_and_read_back(tmp_path: Path) -> None:
    with study(tmp_path, issue_taxonomy="soda-eval") as look:
        one = look.take("ann")
        assert one is not None
        look.answer("ann", submitted(one.id, value=3, seconds=4.2, comment="=1+1"))
        look.answer("ann", submitted(one.id, value=2, id="b" * 20))
        mark = {"question": "issue:Coherence", "turn": 1, "value": 1}
        look.answer("ann", submitted(one.id, id="m" * 20, span=[0, 6], **mark))
        look.answer("ann", submitted(one.id, id="n" * 20, span=[7, 9], **mark))
        look.answer("ann", submitted(one.id, id="o" * 20, **{**mark, "value": None}, replaces="m" * 20))
        own = list(look.project.store.annotations())
        expected = look.project.store.labels()
        for format in ("jsonl", "csv", "parquet"):
            runner, out = CliRunner(), tmp_path / f"out.{format}"
            (tmp_path / "accord.yaml").write_text(f"store: sqlite:///{tmp_path}/accord.db")
            told = runner.invoke(app, ["export", str(out), "--config", str(tmp_path / "accord.yaml")])
            assert told.exit_code == 0, told.output
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
        assert one is not None
        over = "2020-01-01T00:00:00.000+00:00"
        look.studies.move(one.id, "ann", "open", 0, over)
        look.answer("ann", submitted(one.id))
        assert look.assignment(one.id, "ann").until > over, "the lease ended but the item is free"
        look.studies.move(one.id, "ann", "open", 0, over)
        others = [look.take("bob")]
        assert others[0] is not None and others[0].item.key == one.item.key
        for place, question in enumerate(look.view(others[0]).questions):
            look.answer("bob", submitted(others[0].id, question.id, 1, f"bob-{place:0>20}"))
        look.finish("bob", others[0].id)
        with pytest.raises(LeaseExpired, match="your text stays here"):
            look.answer("ann", submitted(one.id, value=1, id="c" * 20))


def test_answers_for_other_annotators_are_refused(tmp_path: Path) -> None:
    with study(tmp_path) as look:
        one = look.take("ann")
        assert one is not None
        for act in (
            lambda: look.answer("bob", submitted(one.id)),
            lambda: look.finish("bob", one.id),
            lambda: look.skip("bob", one.id, "not mine"),
            lambda: look.reopen("bob", one.id),
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
        assert look.begin() == 1
        taken = look.take("ann")
        assert taken is not None and taken.item.target == Target("gpt-9-3", 1)
        studies.close()
    with pytest.raises(BadInput, match="set `level: turn`"):
        validate(StudySettings, {"items": {"issues": ["Other"]}}, "studies")


def test_a_draw_has_equally_many_of_each_and_a_seed(tmp_path: Path) -> None:
    with study(tmp_path, items={"sample": 6, "stratify_by": ["topic"], "filter": {"system": ["gpt-9"]}}) as look:
        sample_items = [each.target.conversation for each in look.studies.items("look")]
        topics = Counter(int(name.rpartition("-")[2]) % 3 for name in sample_items)
        assert set(topics.values()) == {2} and all(int(name.rpartition("-")[2]) % 2 for name in sample_items)
    with study(
        tmp_path / "again", items={"sample": 6, "stratify_by": ["topic"], "filter": {"system": "gpt-9"}}
    ) as look:
        assert [each.target.conversation for each in look.studies.items("look")] == sample_items


# --- pages --------------------------------------------------------------------------------------------------------


def test_an_item_is_rated_by_forms_alone(tmp_path: Path) -> None:
    with project(tmp_path) as opened, served(opened) as port:
        browser = Browser(port)
        page = browser.get("/rate/look") if browser.get("/") else ""
        assert "Answer &lt;b&gt;" in page and "gpt-9" not in page
        where = re.search(r'action="(/rate/look/[^"]+)"', page)
        assert where is not None
        fields = {name: "1" for name in re.findall(r'type="radio" name="([^"]+)"', page)}
        fields |= dict(re.findall(r'type="hidden" name="(id\.[^"]+)" value="([^"]+)"', page))
        status, _, to = browser.post(where[1], form=token(page), do="finish", **fields)
        assert (status, to) == (303, "/rate/look")
        assert len(opened.store.labels()) == len(fields) // 2


@pytest.mark.attack
def test_personal_links_bring_people_in_and_wrong_ones_do_not(tmp_path: Path) -> None:
    with project(tmp_path) as opened:
        studies = Studies(opened.store)
        key = add_person(studies, "ann")
        with served(opened) as port:
            stranger, ann = Browser(port), Browser(port)
            stranger.get("/rate/look")
            assert stranger.status == 401
            stranger.get("/in/" + "x" * 43)
            assert stranger.status == 401
            assert "Hello, ann" in ann.get(f"/in/{key}") and not ann.cookies
            assert ann.post("/in", key=key)[0] == 303 and ann.cookies
            assert "Question" in ann.get("/rate/look")
        studies.close()
    text = (tmp_path / "accord.db").read_bytes()
    assert key.encode() not in text and ann.cookies["accord_session"].encode() not in text


@pytest.mark.attack
def test_foreign_origins_hosts_and_forged_forms_are_refused(tmp_path: Path) -> None:
    with project(tmp_path) as opened, served(opened) as port:
        browser = Browser(port)
        page = browser.get("/rate/look") if browser.get("/") else ""
        where = re.search(r'action="(/rate/look/[^"]+)"', page)
        assert where is not None
        body = urlencode({"form": token(page), "value.Q0": "1", "do": "save"})
        assert browser.ask("POST", where[1], body, Origin="http://evil.example")[0] == 403
        assert browser.ask("POST", where[1], body, Host="evil.example")[0] == 421
        assert browser.post(where[1], form="0" * 64, do="save")[0] == 403
        assert not len(opened.store.labels())


@pytest.mark.parametrize("cookie", ["", "x" * 43])
@pytest.mark.attack
def test_a_single_user_signs_in_by_a_link_that_works_once(tmp_path: Path, cookie: str) -> None:
    with project(tmp_path) as opened, served(opened) as port:
        link = urlsplit(LINKS[port]() or "").path
        stranger, user = Browser(port, link="/"), Browser(port, link="/")
        stranger.cookies = {"accord_session": cookie} if cookie else {}
        for path in ("/", "/board", "/board.json", "/lead", "/rate/look", "/conversation/gpt-9-1", "/explore"):
            page = stranger.get(path)
            assert stranger.status == 401 and "Question 1" not in page, path
            assert "accord serve" in page and "accord users link" in page, path
        assert stranger.ask("POST", "/lead/fit", "form=x")[0] == 401
        assert user.ask("GET", link, Host="evil.example")[0] == 421 and not user.cookies
        assert user.ask("GET", f"{link}?page=//evil.example")[2] == "/" and user.cookies
        for path in ("/.json", "/index.json"):
            assert json.loads(stranger.get(path))["error"] and stranger.status == 401
            assert json.loads(user.get(path))["studies"][0]["title"] == "First look"
        assert json.loads(user.get("/rate/look.json"))["finished"] == 0
        assert "First look" in user.get("/") and "Question" in user.get("/rate/look")
        assert user.get("/board") and user.status == 200
        assert user.ask("GET", "/board", Host="evil.example")[0] == 421
        stranger.get(link)
        assert stranger.status == 401, "the link works once"
        assert user.ask("GET", f"{link}?page=/board")[2] == "/board", "a browser that is signed in goes on"
        text = (tmp_path / "accord.db").read_bytes()
        assert link.rpartition("/")[2].encode() not in text and user.cookies["accord_session"].encode() not in text
        studies = Studies(opened.store)
        add_person(studies, "ann")
        with pytest.raises(BadInput, match="accord users link ann"):
            local_sign_in_link(studies, "http://127.0.0.1:8700")
        studies.close()
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


def test_a_store_of_people_keeps_names_apart(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/accord.db")
    studies = Studies(store)
    add_person(studies, "ann", "lead")
    with pytest.raises(Conflict, match="there is a user 'ann' already"):
        add_person(studies, "ANN")
    with pytest.raises(BadInput, match="allowed: 1 to 40 letters"):
        add_person(studies, "../ann")
    studies.close()
    store.close()


# --- the command line -----------------------------------------------------------------------------------------------


def test_people_are_added_listed_and_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    new_project()
    runner = CliRunner()

    def said(*arguments: str, code: int = 0) -> str:
        found = runner.invoke(app, ["users", *arguments])
        assert found.exit_code == code, found.output
        return found.output

    assert "no users" in said("list")
    link = json.loads(said("add", "ann", "--role", "lead", "--url", "https://rate.example/", "--json"))["link"]
    assert re.fullmatch(r"https://rate\.example/in/[\w-]{43}", link)
    assert "Available: admin, annotator, lead" in said("add", "bob", "--role", "king", code=1)
    assert "there is a user 'ann' already" in said("add", "Ann", code=1)
    said("role", "ann", "annotator")
    assert "ann  annotator" in said("list")
    assert link not in said("link", "ann")
    said("remove", "ann")
    assert "there is no user 'ann'" in said("link", "ann", code=1)


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
    "arguments",
    [
        ["--proxy", "127.0.0.1", "--name", "scores.example"],
        ["--name", "scores.example"],
        ["--host", "0.0.0.0"],
    ],
)
@pytest.mark.attack
def test_serve_refuses_to_start_without_a_user_where_other_machines_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], token: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCORD_TOKEN", token)
    (tmp_path / "accord.yaml").write_text("studies: {look: {title: First look}}\n")
    found = CliRunner().invoke(app, ["serve", *arguments])
    assert found.exit_code == 1 and "accord users add NAME --role lead" in found.stderr, found.output
    assert f"{arguments[-2] if '--proxy' not in arguments else '--proxy'} " in found.stderr


def test_users_link_without_a_name_signs_the_single_user_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "accord.yaml").write_text(f"store: sqlite:///{tmp_path}/accord.db\n")
    with project(tmp_path) as opened, served(opened) as port:
        link = CliRunner().invoke(app, ["users", "link", "--url", f"http://127.0.0.1:{port}"]).stdout.strip()
        assert "First look" in Browser(port, link).get("/")
        CliRunner().invoke(app, ["users", "add", "ann"])
        found = CliRunner().invoke(app, ["users", "link"])
        assert found.exit_code == 1 and "accord users link ann" in found.stderr


def test_scores_and_pages_share_an_address() -> None:
    asked: list[str] = []

    async def scores(scope: Any, receive: Any, send: Any) -> None:
        asked.append("scores")

    async def pages(scope: Any, receive: Any, send: Any) -> None:
        asked.append("pages")

    both = combine_apps(scores, pages)
    for path in ("/v1/scores", "/metrics", "/rate/look", "/", "/lead"):
        asyncio.run(both({"type": "http", "path": path}, None, None))  # type: ignore[arg-type]
    asyncio.run(both({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert asked == ["scores", "scores", "pages", "pages", "pages", "scores"]


@pytest.mark.parametrize("url", ["javascript:alert(1)", "rate.example", "http://user:pw@rate.example", "https://"])
def test_a_link_begins_with_a_web_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    new_project()
    refused = CliRunner().invoke(app, ["users", "add", "x", "--url", url])
    assert refused.exit_code == 1 and "--url takes the address of the workbench" in refused.stderr
    assert json.loads(CliRunner().invoke(app, ["users", "list", "--json"]).stdout)["users"] == []

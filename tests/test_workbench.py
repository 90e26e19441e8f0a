"""The workbench: who comes in, who gets what, what is kept, what nobody is told."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from new_project import new_project
from served_workbench import Browser, chats, project, row, served, study, token
from typer.testing import CliRunner

from accord import Store
from accord.cli import app, commands  # noqa: F401 - registers the commands
from accord.live import together
from accord.project import Config, Project
from accord.store import Conflict, IssueAnnotations, LeaseExpired, Studies
from accord.values import BadInput, Issue, IssueAnnotation, StudySettings, Target, check
from accord.workbench import Bench, OpenStudy, add_person

# --- who gets what ------------------------------------------------------------------------------------------------


def test_two_people_an_item_and_no_more(tmp_path: Path) -> None:
    with study(tmp_path) as look:
        given: dict[str, list[str]] = {}
        for person in ("ann", "bob", "cy"):
            while (assignment := look.take(person)) is not None:
                again = look.take(person)
                assert again is not None and again.id == assignment.id, "what one is at comes again"
                for question in look.sheet(assignment).questions:
                    look.answer(
                        person, row(assignment.id, question.id, 1, f"{person}-{assignment.id}-{question.id}"[:64])
                    )
                assert look.finish(person, assignment.id).state == "done"
                given.setdefault(assignment.item.key, []).append(person)
        assert len(given) == 12 and all(len(set(people)) == 2 for people in given.values())
        labels = look.project.store.labels().on("Q0")
        assert len(labels) == 24


def test_an_answer_that_is_sent_twice_is_kept_once_and_an_edit_keeps_its_history(tmp_path: Path) -> None:
    with study(tmp_path) as look:
        one = look.take("ann")
        assert one is not None
        first, again = look.answer("ann", row(one.id, value=3, seconds=4.2))
        assert not again and look.answer("ann", row(one.id, value=3, seconds=9.9)) == (first, True)
        with pytest.raises(Conflict, match="used for another answer"):
            look.answer("ann", row(one.id, value=2))
        look.answer("ann", row(one.id, value=2, id="b" * 20))
        [label] = look.project.store.labels()
        assert label.value == 2
        history = look.studies.said_in(one, history=True)
        assert [each.value for each in history] == [3, 2] and history[1].replaces == "a" * 20
        assert [each.value for each in look.studies.said_in(one)] == [2]


def test_histories_are_exported_and_read_back(tmp_path: Path) -> None:
    with study(tmp_path, marks="soda-eval") as look:
        one = look.take("ann")
        assert one is not None
        look.answer("ann", row(one.id, value=3, seconds=4.2, comment="=1+1"))
        look.answer("ann", row(one.id, value=2, id="b" * 20))
        mark = {"question": "issue:Coherence", "turn": 1, "value": 1}
        look.answer("ann", row(one.id, id="m" * 20, span=[0, 6], **mark))
        look.answer("ann", row(one.id, id="n" * 20, span=[7, 9], **mark))
        look.answer("ann", row(one.id, id="o" * 20, **{**mark, "value": None}, replaces="m" * 20))
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
    with study(tmp_path, per_item=1, lease_minutes=1) as look:
        one = look.take("ann")
        assert one is not None
        over = "2020-01-01T00:00:00.000+00:00"
        look.studies.move(one.id, "ann", "open", 0, over)
        look.answer("ann", row(one.id))
        assert look.assignment(one.id, "ann").until > over, "nobody took it: it goes on"
        look.studies.move(one.id, "ann", "open", 0, over)
        others = [look.take("bob")]
        assert others[0] is not None and others[0].item.key == one.item.key
        for place, question in enumerate(look.sheet(others[0]).questions):
            look.answer("bob", row(others[0].id, question.id, 1, f"bob-{place:0>20}"))
        look.finish("bob", others[0].id)
        with pytest.raises(LeaseExpired, match="your text stays here"):
            look.answer("ann", row(one.id, value=1, id="c" * 20))


def test_nobody_answers_for_another(tmp_path: Path) -> None:
    with study(tmp_path) as look:
        one = look.take("ann")
        assert one is not None
        for act in (
            lambda: look.answer("bob", row(one.id)),
            lambda: look.finish("bob", one.id),
            lambda: look.skip("bob", one.id, "not mine"),
            lambda: look.reopen("bob", one.id),
        ):
            with pytest.raises(BadInput, match="not yours, or is gone"):
                act()
        assert not len(look.project.store.labels())


def test_a_queue_of_what_a_model_called_other(tmp_path: Path) -> None:
    issue = Issue("Other", "odd", "Answer", (0, 6), None)
    with project(tmp_path, level="turn", items={"found": ["Other"]}) as opened:
        said = IssueAnnotation(Target("gpt-9-3", 1), (issue,), 3, "odd", "issues|model:m", ())
        IssueAnnotations(opened.store).add([said])
        studies = Studies(opened.store)
        look = OpenStudy(opened, "look", studies)
        assert look.begin() == 1
        taken = look.take("ann")
        assert taken is not None and taken.item.target == Target("gpt-9-3", 1)
        studies.close()
    with pytest.raises(BadInput, match="need `level: turn`"):
        check(StudySettings, {"items": {"found": ["Other"]}}, "studies")


def test_a_draw_has_equally_many_of_each_and_a_seed(tmp_path: Path) -> None:
    with study(tmp_path, items={"draw": 6, "by": ["topic"], "where": {"system": ["gpt-9"]}}) as look:
        drawn = [each.target.conversation for each in look.studies.items("look")]
        topics = Counter(int(name.rpartition("-")[2]) % 3 for name in drawn)
        assert set(topics.values()) == {2} and all(int(name.rpartition("-")[2]) % 2 for name in drawn)
    with study(tmp_path / "again", items={"draw": 6, "by": ["topic"], "where": {"system": "gpt-9"}}) as look:
        assert [each.target.conversation for each in look.studies.items("look")] == drawn


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


def test_a_store_of_people_keeps_names_apart(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/accord.db")
    studies = Studies(store)
    add_person(studies, "ann", "lead")
    with pytest.raises(Conflict, match="somebody called 'ann'"):
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

    assert "nobody yet" in said("list")
    link = json.loads(said("add", "ann", "--role", "lead", "--url", "https://rate.example/", "--json"))["link"]
    assert re.fullmatch(r"https://rate\.example/in/[\w-]{43}", link)
    assert "Available: admin, annotator, lead" in said("add", "bob", "--role", "king", code=1)
    assert "somebody called 'ann'" in said("add", "Ann", code=1)
    said("role", "ann", "annotator")
    assert "ann  annotator" in said("list")
    assert link not in said("link", "ann")
    said("remove", "ann")
    assert "nobody is called 'ann'" in said("link", "ann", code=1)


def test_a_server_beyond_this_machine_needs_people(tmp_path: Path) -> None:
    with project(tmp_path) as opened:
        with pytest.raises(BadInput, match="nobody added would let anybody rate"):
            Bench(opened, "0.0.0.0")
        studies = Studies(opened.store)
        add_person(studies, "ann")
        Bench(opened, "0.0.0.0").close()
        studies.close()


def test_scores_and_pages_share_an_address() -> None:
    asked: list[str] = []

    async def scores(scope: Any, receive: Any, send: Any) -> None:
        asked.append("scores")

    async def pages(scope: Any, receive: Any, send: Any) -> None:
        asked.append("pages")

    both = together(scores, pages)
    for path in ("/v1/scores", "/metrics", "/rate/look", "/", "/lead"):
        asyncio.run(both({"type": "http", "path": path}, None, None))  # type: ignore[arg-type]
    asyncio.run(both({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert asked == ["scores", "scores", "pages", "pages", "pages", "scores"]

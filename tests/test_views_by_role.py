"""Views by role: the parts of an item on every route, and settings that contradict each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from served_workbench import STUDY, Browser, StartWorkbench, token

from accord import Project
from accord.edges import BadInput
from accord.project.config import Config
from accord.store import Studies
from accord.studies import StudySession, conversation_view, visible_to
from accord.values import Conversation, Document, Turn, read_study

CALL = {"function": {"name": "find_CALL-1", "arguments": json.dumps({"card": "CALL-2"})}}
HIDDEN = ("SYSTEM-1", "HISTORY-1", "HISTORY-2", "CALL-1", "CALL-2", "RESULT-1", "DOCUMENT-1", "TITLE-1")
CHAT = Conversation(
    "chat-1",
    (
        Turn("system", "SYSTEM-1"), Turn("user", "HISTORY-1"), Turn("assistant", "HISTORY-2"),
        Turn("user", "QUESTION-1?"), Turn("assistant", "", extra={"tool_calls": [CALL]}), Turn("tool", "RESULT-1"),
        Turn("assistant", "REPLY-1", extra={"tool_calls": [CALL]}),
    ),
    (Document("DOCUMENT-1", id="d", title="TITLE-1"),),
)  # fmt: skip
PEOPLE = {"business": ["ann"], "engineer": ["eve"]}
SHOW = {"business": ["question", "reply"], "engineer": "all"}


def opened(folder: Path, people: Any = PEOPLE, show: Any = SHOW, **study: Any) -> Project:
    look = {**STUDY, "level": "turn", "items": {"ids": ["chat-1"]}, "annotators_per_item": 3, "show": show, **study}
    config = {"store": f"sqlite:///{folder}/accord.db", "people": people, "studies": {"look": look}}
    project = Project(Config.model_validate(config))
    project.store.add_conversations([CHAT])
    return project


def item_of(browser: Browser) -> str:
    """Skip items up to the reply to rate, and return its address."""
    for _ in range(4):
        status, _, where = browser.ask("GET", "/rate/look/next")
        item = where.partition("?")[0]
        assert status == 303 and browser.get(item)
        if "REPLY-1" in browser.get(f"{item}.json"):
            return item
        browser.post(item, form=token(browser.get(item)), do="skip", reason="another reply")
    raise AssertionError("no item is about the reply")


def test_two_roles_see_one_item_on_two_pages_and_nothing_leaks(workbench: StartWorkbench, tmp_path: Path) -> None:
    bench = workbench(["ann", "eve", "guest"], opened=opened(tmp_path, issue_taxonomy="abc-eval"))
    pages, lists = {}, {}
    for name in ("ann", "eve", "guest"):
        browser = bench.browser(name)
        item = item_of(browser)
        pages[name] = browser.get(item) + browser.get(f"{item}.json")
        others = ("/rate/look/done", "/rate/look/done.json", "/rate/look/done?q=RESULT-1", "/", "/index.json", "/help")
        lists[name] = "".join(map(browser.get, others))
        assert "REPLY-1" in pages[name] and "QUESTION-1?" in pages[name]
    assert all(secret in pages["eve"] for secret in HIDDEN)
    for name in ("ann", "guest"):  # people without a role see what all roles see
        assert not [secret for secret in HIDDEN if secret in pages[name]]
        questions = ("HISTORY-1",)  # of another item of the same conversation, which was skipped
        found = lists[name].replace("?q=RESULT-1", "").replace('value="RESULT-1"', "")
        assert not [secret for secret in HIDDEN if secret in found and secret not in questions]
    assert '<details class="fold call">' in pages["eve"] and "1 document</summary>" in pages["eve"], "these fold"
    ann = bench.browser("ann")
    for path in ("/conversation/chat-1", "/conversation/chat-1.json", "/board/list", "/explore", "/disagreements"):
        assert ann.ask("GET", path)[0] in (403, 404), path
    eves = item_of(bench.browser("eve"))
    assert ann.ask("GET", f"{eves}.json")[0] in (404, 422), "an item of another person"


def test_marks_need_a_turn_that_is_shown_and_answers_tell_what_was(tmp_path: Path) -> None:
    with opened(tmp_path, level="conversation", items={"ids": ["chat-1"]}, issue_taxonomy="abc-eval") as project:
        studies = Studies(project.store)
        session = StudySession(project, "look", studies)
        session.begin()
        from served_workbench import submitted

        own = {name: session.take(name) for name in ("ann", "eve")}
        kind = f"issue:{session.taxonomy.names[0]}" if session.taxonomy else ""
        seen = {name: session.view(each) for name, each in own.items() if each is not None}
        assert [turn.text for turn in seen["ann"].sides[0].turns] == [
            "HISTORY-1",
            "HISTORY-2",
            "QUESTION-1?",
            "REPLY-1",
        ]
        assert len(seen["eve"].sides[0].turns) == 7 and not seen["ann"].sides[0].documents
        assert not any(turn.calls for turn in seen["ann"].sides[0].turns)
        with pytest.raises(BadInput, match="turn of a mark: 5 is not shown to you"):
            session.answer("ann", submitted(own["ann"].id, kind, 1, "m" * 20, turn=5, quote="RESULT-1"))
        kept, _ = session.answer("eve", submitted(own["eve"].id, kind, 1, "n" * 20, turn=5, quote="RESULT-1"))
        mine, _ = session.answer("ann", submitted(own["ann"].id, "Q0", 3, "o" * 20))
        assert kept.target.turn == 5 and mine.shown == "question,reply"
        studies.close()


@pytest.mark.parametrize(
    ("parts", "texts"),
    [
        ({"reply"}, ["REPLY-1"]),
        ({"reply", "history"}, ["HISTORY-1", "HISTORY-2", "REPLY-1"]),
        ({"reply", "tools"}, ["RESULT-1", "REPLY-1"]),
        ({"reply", "system"}, ["SYSTEM-1", "REPLY-1"]),
    ],
)
def test_parts_are_named_by_what_they_are(parts: set[str], texts: list[str]) -> None:
    view = visible_to(conversation_view(CHAT, 6, True), parts)
    assert [turn.text for turn in view.turns] == texts and view.documents == ()
    assert any(turn.calls for turn in view.turns) == ("tools" in parts)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"show": {"business": ["question", "replies"]}}, "unknown part 'replies'; allowed: question, reply, history"),
        ({"show": {"business": ["question"]}}, "without `reply` nothing is left to rate"),
        ({"show": {"business": 3}}, "a list of parts, or all"),
        ({"level": "step", "show": {"business": ["reply"]}}, "add `tools` to show.business"),
    ],
)
def test_settings_of_roles_that_cannot_be_are_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read_study("look", settings)


def test_roles_need_people_and_a_person_has_one_role(tmp_path: Path) -> None:
    with (
        opened(tmp_path, people={"business": ["ann"]}) as project,
        pytest.raises(BadInput, match="'engineer', which no"),
    ):
        StudySession(project, "look", Studies(project.store))
    with pytest.raises(ValueError, match="'ann' has two roles"):
        opened(tmp_path, people={"business": ["ann"], "engineer": ["ann"]})

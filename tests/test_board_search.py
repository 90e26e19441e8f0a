"""Search in texts: words in any language, wildcards, limits, and the words and issues of listed conversations."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from served_workbench import StartWorkbench
from test_board import row

from accord import Conversation, Store, Turn
from accord.board import BoardFilters, opening_words
from accord.board.texts import user_words
from accord.edges import BadInput
from accord.store import IssueAnnotations, TextSearch, words_of
from accord.values import ISSUE, Annotation, Issue, IssueAnnotation, Target

TEXTS = {
    "plain": "I was charged TWICE in March", "percent": "It is 100% off_sale", "german": "Die STRASSE ist naß",
    "russian": "Где мой ЗАКАЗ?", "arabic": "أين طلبي؟", "turkish": "İade istiyorum", "ligature": "the ﬁle is gone",
    "escaped": 'He said "no\\way"\nand left', "wide": "ｆull stop…", "dotted": "i\u0307s", "decomposed": "cafe\u0301",
}  # fmt: skip


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Any:
    store = Store(f"sqlite:///{tmp_path_factory.mktemp('search')}/accord.db")
    store.add_conversations(Conversation(name, (Turn("user", text),)) for name, text in TEXTS.items())
    yield TextSearch(store)
    store.close()


@pytest.mark.parametrize(("words", "found"), [
    ("charged twice", {"plain"}), ("twice CHARGED", {"plain"}), ("charg", {"plain"}), ("charged once", set()),
    ("100%", {"percent"}), ("%", {"percent"}), ("_", {"percent"}), ("Straße", {"german"}), ("заказ", {"russian"}),
    ("طلبي", {"arabic"}), ("iade", {"turkish"}), ("FILE", {"ligature"}), ('"no\\way"', {"escaped"}), ("role", set()),
    ("full", {"wide"}), ("stop...", {"wide"}), ("is", {"dotted", "percent", "turkish", "ligature", "german"}), ("cafe", set()),
    ("café", {"decomposed"}), ("a/b", set()), ("u0301", set()),
    ("content", set()), ("   ", set(TEXTS)), ("' OR 1=1 --", set()), ("\u202e", set()),
])  # fmt: skip
def test_search_finds_words_in_any_case_and_language(search: TextSearch, words: str, found: set[str]) -> None:
    assert search.find(words).ids == found


@pytest.mark.attack
@given(st.text(max_size=60))
def test_any_search_has_an_answer(search: TextSearch, words: str) -> None:
    try:
        found = search.find(words)
    except BadInput as error:
        assert "search for a few words" in str(error)
    else:
        assert found.ids <= set(TEXTS) and found.unread == 0


def test_long_searches_are_refused_and_new_conversations_found(tmp_path: Path) -> None:
    for text in ("x" * 201, " ".join("abcdefghijkl")):
        with pytest.raises(BadInput, match="search for a few words"):
            words_of(text)
        with pytest.raises(BadInput):
            BoardFilters.from_query(urlencode({"find": text}))
    store = Store(f"sqlite:///{tmp_path}/accord.db")
    search = TextSearch(store)
    assert not search.find("refund").ids
    store.add_conversations([Conversation("new", (Turn("user", "A refund, please"),))])
    assert search.find("refund").ids == {"new"}
    store.close()


def test_a_search_covers_the_first_conversations_by_id(search: TextSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accord.store.text_search.MAX_SEARCHED", 3)
    found = search.find("i")
    assert (found.ids, found.unread) == ({"dotted"}, len(TEXTS) - 3), "of arabic, decomposed and dotted"


def test_user_words_are_the_last_message_before_the_reply() -> None:
    turns = (Turn("user", "first"), Turn("assistant", "a"), Turn("user", "second \N{SLIGHTLY FROWNING FACE}"))
    chat = Conversation("c", (*turns, Turn("assistant", "b")))
    assert [user_words(chat, turn) for turn in (None, 1, 3)] == ["second", "first", "second"]
    assert user_words(Conversation("c", (Turn("assistant", "hello"),))) == "hello"
    assert user_words(Conversation("c", ())) == "" and opening_words("word " * 100, 20) == "word word word word…"


def test_form_fields_select_all() -> None:
    query = "question=&by=&since=&topic=*&system=*&find=&issue=&low=&high=&annotators="
    assert BoardFilters.from_query(query) == BoardFilters()
    assert BoardFilters.from_query("topic=").topic == ""


def test_lists_show_words_and_issues_and_filter_by_them(workbench: StartWorkbench) -> None:
    bench = workbench()
    chats = [
        Conversation(
            f"s{n}", (Turn("user", f"Order {n} <b>late</b>" if n % 2 else f"Order {n}"), Turn("assistant", "Sorry"))
        )
        for n in range(12)
    ]
    bench.store.add_conversations(chats)
    bench.project.mart.add(row(f"s{n}", 1 + n / 4, system="ab"[n % 2], topic=f"t{n % 3}") for n in range(12))
    found = IssueAnnotation(Target("s3", 1), (Issue("No help", "", "", None),), 2, "", "sig", (), "")
    IssueAnnotations(bench.store).add([found])
    bench.store.add_annotations([Annotation(Target("s4", 1), f"{ISSUE}Wrong fact", "ann", "person", 1)])
    browser = bench.browser()

    def listed(**fields: str) -> list[dict[str, Any]]:
        rows = json.loads(browser.get("/board/list.json?" + urlencode(fields)))["rows"]
        return list(rows)

    assert [each["words"] for each in listed()][:2] == ["Order 0", "Order 1 <b>late</b>"]
    assert {each["conversation"]: each["issues"] for each in listed() if each["issues"]} == {
        "s3": ["No help"], "s4": ["Wrong fact"],
    }  # fmt: skip
    assert [each["conversation"] for each in listed(issue="No help")] == ["s3"]
    assert listed(issue="Unheard of") == []
    assert {each["conversation"] for each in listed(find="LATE", system="b", high="2.5")} == {"s1", "s3", "s5"}
    board = json.loads(browser.get("/board.json?find=late"))
    assert board["texts"] == 6 == json.loads(browser.get("/explore.json?find=late"))["total"]
    page = browser.get("/board/list?find=late&issue=No+help&topic=t0")
    assert "&lt;b&gt;late&lt;/b&gt;" in page and "<b>late" not in page
    assert 'value="late"' in page and '<option value="No help" selected>' in page
    assert "the words “late”" in browser.get("/board?find=late")
    for path in ("/board", "/board/list", "/explore"):
        assert "search for a few words" in browser.get(f"{path}?find={'x' * 201}") and browser.status == 422


def test_items_of_a_study_are_listed_with_words_people_and_status(workbench: StartWorkbench) -> None:
    bench = workbench(["ann", "bob"], ["lee"])
    lee, ann = bench.browser("lee"), bench.browser("ann")

    def listed(**fields: str) -> dict[str, Any]:
        return dict(json.loads(lee.get("/lead/look/items.json?" + urlencode(fields))))

    everything = listed()
    assert everything["total"] == len(everything["rows"]) > 0
    assert all(each["words"] and each["status"] == "open" for each in everything["rows"])
    first = everything["rows"][0]
    assert listed(find=first["words"].split()[0])["total"] >= 1 and listed(find="nowhere to be found")["total"] == 0
    assert {each["system"] for each in listed(system=first["system"])["rows"]} == {first["system"]}
    assert listed(status="done")["total"] == 0 and listed(person="nobody")["rows"] == []
    page = lee.get("/lead/look/items?status=open&find=%3Cb%3E")
    assert lee.status == 200 and "<b>" not in page.partition("<main")[2].replace("<b></b>", "")
    address = everything["rows"][0]["address"]
    assert re.search(r'<a href="/lead/look/items[^"]*" rel="up"', lee.get(address)), "a way back to the list"
    for query in ("status=x", "page=x", "person=" + "x" * 600, "find=" + "x" * 201):
        assert "Traceback" not in lee.get(f"/lead/look/items?{query}") and lee.status == 422, query
    for path in ("/lead/look/items", "/lead/look/items.json"):
        ann.get(path)
        assert ann.status == 403
    lee.get("/lead/unknown/items")
    assert lee.status == 404
    assert listed(page="999")["number"] == 1

"""Disagreement pages: the queue of disputed items, adjudication, its effect on statistics, and clauses to clarify."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from served_workbench import Browser, StartWorkbench, Workbench, rate_all, shown_after, submitted
from test_workbench_pages import strange

from accord import Conversation, Store, Turn
from accord.project import export_annotations
from accord.store import Conflict, Item, LabelCounts, Studies
from accord.studies import Adjudication, StudyProgress
from accord.values import Annotation, Target

ANSWERS = ({"ann": 1, "bob": 4}, {"ann": 1, "bob": 3}, {"ann": 2, "bob": 2}, {"ann": 2, "bob": 3})
"""Answers to all questions of the first items: three points apart, two points, the same, one point."""


@pytest.fixture
def disputed(workbench: StartWorkbench) -> Workbench:
    """A study of two annotators and two leads with four rated items."""
    bench = workbench(["ann", "bob"], ["lea", "kim"], stages=[{"id": "rate", "questions": ["Q0", "Q1"]}])
    look, keys = bench.session(), list[str]()
    for person in ("ann", "bob"):
        for _ in range(4):
            assignment = look.take(person)
            assert assignment is not None
            keys.append(assignment.item.key)
            rate_all(look, assignment, ANSWERS[keys.index(assignment.item.key)][person])
    return bench


def queue_of(browser: Browser) -> list[dict[str, Any]]:
    return list(json.loads(browser.get("/lead/look/disagree.json"))["items"])


def fields_of(browser: Browser, key: str) -> dict[str, str]:
    """The hidden fields of an item's form that saves a decision."""
    page = browser.get(f"/lead/look/disagree/{key}")
    assert browser.status == 200 and not strange(page), page
    form = page[page.index('id="settle"') :].partition("</form>")[0]
    found = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', form)
    return {name: html.unescape(value) for name, value in found}


def answers(fields: dict[str, str], value: str) -> dict[str, str]:
    return {name.replace("id.", "value.", 1): value for name in fields if name.startswith("id.")}


def test_items_are_adjudicated_by_size_with_a_reason_and_a_note(disputed: Workbench) -> None:
    lea, labels = disputed.browser("lea"), len(disputed.store.labels())
    first, second, small = queue_of(lea)
    assert first["disputed"]["Q0"] == "1, 4" and second["disputed"]["Q0"] == "1, 3" and first["size"] > second["size"]
    assert [each["is_disputed"] for each in (first, second, small)] == [True, True, False]
    page, data = lea.get("/lead/look/disagree"), json.loads(lea.get("/lead/look/disagree.json"))
    assert "People disagree on 2 items" in page and "Smaller differences: 1 item<" in page
    assert (data["listed"], data["smaller"], data["figures"][0]["text"]) == (2, 1, "2 of 12")
    assert [json.loads(lea.get(f"/{path}.json"))["studies"][0]["disputed"] for path in ("index", "lead")] == [2, 2]
    assert lea.ask("GET", "/lead/look/disagree/next")[2].endswith(first["key"])
    fields = fields_of(lea, first["key"])
    decision = {**fields, **answers(fields, "4"), "reason": "guideline", "note": "<i>What</i> counts?"}
    for _ in range(2):  # sent twice, stored once
        status, _, where = lea.post("/lead/look/adjudicate", **decision)
        assert status == 303
    assert lea.ask("GET", where)[2] == f"/lead/look/disagree/{second['key']}?done=adjudicated"
    page = lea.get(where)
    assert "1 of 2 adjudicated" in page and "Adjudication saved." in page
    item = json.loads(lea.get(f"/lead/look/disagree/{first['key']}.json"))
    assert (
        item["state"] == "adjudicated" and item["adjudicated"]["Q0"] == 4 and item["decisions"]["Q0"]["lead"] == "lea"
    )
    clauses = json.loads(lea.get("/lead/look/clauses.json"))["clauses"]
    assert clauses[0]["reasons"]["guideline"] == 1 and clauses[0]["examples"][0]["ratings"] == {"ann": 1, "bob": 4}
    page = lea.get("/lead/look/clauses")
    assert "&lt;i&gt;What" in page and "<i>What" not in page and "guideline unclear: 1" in page
    rows = list(csv.DictReader(io.StringIO(lea.get("/lead/look/clauses.csv"))))
    assert {row["reason"] for row in rows} == {"guideline unclear"} and rows[0]["lead"] == "lea"
    assert "1 adjudicated item asks for a clearer wording" in lea.get("/rubric")
    assert "Discuss 1 disputed item<" in lea.get("/lead/look") and "2 disputed, 1 adjudicated" in lea.get("/lead/look")
    assert len(disputed.store.labels()) == labels
    fields = fields_of(lea, small["key"])  # a smaller difference may be decided too, and is in no count
    shown_after(lea, "/lead/look/adjudicate", **fields, **answers(fields, "3"))
    assert [each["state"] for each in queue_of(lea)] == ["adjudicated", "open", "adjudicated"]
    assert "2 disputed, 1 adjudicated" in lea.get("/lead/look") and len(disputed.store.labels()) == labels


def test_adjudication_is_exported_and_is_no_rating(disputed: Workbench, tmp_path: Path) -> None:
    lea = disputed.browser("lea")
    before = StudyProgress(disputed.session())
    alpha, people = before.main_progress.agreement, LabelCounts(disputed.store).annotators()
    key = queue_of(lea)[0]["key"]
    fields = fields_of(lea, key)
    shown_after(lea, "/lead/look/adjudicate", **fields, **answers(fields, "4"))
    after = StudyProgress(disputed.session())
    assert after.main_progress.agreement == alpha and LabelCounts(disputed.store).annotators() == people
    assert {label.annotator for label in disputed.store.labels()} == {"ann", "bob"}
    assert {each.by for each in disputed.store.annotations({"person"})} == {"ann", "bob", "adjudicated"}
    export_annotations(disputed.store, tmp_path / "labels.csv", ["person"])
    assert "adjudicated" in (tmp_path / "labels.csv").read_text(encoding="utf-8")
    conversation = queue_of(lea)[0]["conversation"]
    shown = json.loads(lea.get(f"/conversation/{conversation}.json"))
    [question] = [each for each in shown["whole"]["questions"] if each["question"] == "Q0"]
    assert question["mean"] == 2.5 and {each["person"] for each in question["ratings"]} == {"ann", "bob", "adjudicated"}


def test_decision_needs_an_answer_or_a_reason_and_can_be_withdrawn(disputed: Workbench) -> None:
    lea = disputed.browser("lea")
    key = queue_of(lea)[0]["key"]
    fields = fields_of(lea, key)
    for wrong in (
        {}, {"reason": "bored"}, {**answers(fields, "9")}, {**answers(fields, "4"), "item": "none"},
        {**answers(fields, "4"), **{name: "short" for name in fields if name.startswith("id.")}},
    ):  # fmt: skip
        assert lea.post("/lead/look/adjudicate", **{**fields, **wrong})[0] == 422, wrong
    shown_after(lea, "/lead/look/adjudicate", **fields, reason="broken")
    item = json.loads(lea.get(f"/lead/look/disagree/{key}.json"))
    assert item["state"] == "adjudicated" and set(item["adjudicated"].values()) == {None}
    page = lea.get(f"/lead/look/disagree/{key}")
    form = page[page.index("Withdraw the decision on this item?") :].partition("</form>")[0]
    own = {name: html.unescape(value) for name, value in re.findall(r'name="([^"]+)" value="([^"]*)"', form)}
    assert "Adjudication withdrawn." in shown_after(lea, "/lead/look/adjudicate", **{**own, "do": "withdraw"})
    assert queue_of(lea)[0]["state"] == "open" and json.loads(lea.get("/lead/look/clauses.json"))["clauses"] == []
    fields = fields_of(lea, key)
    shown_after(lea, "/lead/look/adjudicate", **fields, **answers(fields, "1"), reason="slip")
    assert queue_of(lea)[0]["adjudicated"]["Q0"] == 1


def test_conflicts_and_later_ratings_are_told(disputed: Workbench) -> None:
    lea, kim, look = disputed.browser("lea"), disputed.browser("kim"), disputed.session()
    key = queue_of(lea)[0]["key"]
    early, late = fields_of(lea, key), fields_of(kim, key)
    shown_after(lea, "/lead/look/adjudicate", **early, **answers(early, "4"))
    status, page, _ = kim.post("/lead/look/adjudicate", **{**late, **answers(late, "1")})
    assert status == 409 and "somebody else has adjudicated" in page
    again = fields_of(kim, key)
    shown_after(kim, "/lead/look/adjudicate", **again, **answers(again, "1"))
    open_page = fields_of(lea, key)
    [assignment] = [each for each in disputed.studies.assignments_of("look", "ann") if each.item.key == key]
    for question in look.view(assignment).questions:
        look.answer("ann", submitted(assignment.id, question.id, 2, f"again-{question.id}-{'x' * 16}"))
    status, page, _ = lea.post("/lead/look/adjudicate", **{**open_page, **answers(open_page, "3")})
    assert status == 409 and "somebody has rated this item" in page
    [item] = [each for each in queue_of(lea) if each["key"] == key]
    assert item["state"] == "changed" and "rated again since" in lea.get("/lead/look/disagree")
    assert "Check the decision" in lea.get(f"/lead/look/disagree/{key}")
    assert Adjudication(StudyProgress(look)).done == 0


@pytest.mark.attack
def test_only_leads_see_disputes_and_unknown_items_are_404(disputed: Workbench) -> None:
    ann, lea = disputed.browser("ann"), disputed.browser("lea")
    key = queue_of(lea)[0]["key"]
    fields = fields_of(lea, key)
    paths = ("/disagree", "/lead/look/disagree", f"/lead/look/disagree/{key}", "/lead/look/disagree/next",
             "/lead/look/clauses", "/lead/look/clauses.csv", "/lead/look/clauses.json")  # fmt: skip
    for path in paths:
        assert ann.ask("GET", path)[0] == 403, path
        assert lea.ask("GET", path)[0] in (200, 303), path
    assert ann.post("/lead/look/adjudicate", **fields, **answers(fields, "4"))[0] == 403
    assert lea.post("/lead/look/adjudicate", **{**fields, "form": "0" * 64})[0] == 403
    for path in ("look/disagree/none", "look/disagree/%3Cscript%3E", "none/disagree", "none/clauses.csv"):
        assert lea.ask("GET", f"/lead/{path}")[0] == 404, path
    assert "is not part of this study" in lea.get("/lead/look/disagree?question=%3Cscript%3E") and lea.status == 422


def test_pages_without_disputes_say_so(workbench: StartWorkbench) -> None:
    browser = workbench().browser()
    page = browser.get("/lead/look/disagree")
    assert browser.status == 200 and "Items appear here when" in page and "See the progress" in page
    assert browser.ask("GET", "/lead/look/disagree/next")[2] == "/lead/look/disagree"
    assert "No item is adjudicated yet" in browser.get("/lead/look/clauses")
    assert browser.get("/lead/look/clauses.csv").startswith("question,")


def test_decisions_replace_each_other_in_either_database(store: Store) -> None:
    store.add_conversations([Conversation("c1", (Turn("user", "a"), Turn("assistant", "b")))])
    studies = Studies(store)
    studies.add_items([Item("look", 1, 0, "plain", Target("c1"))])
    one = Annotation(Target("c1"), "Q0", "adjudicated", "person", 4, study="look/adjudicated", answer="c" * 20)

    def decide(**changes: Any) -> None:
        studies.adjudicate([replace(one, **changes)])

    decide()
    decide()  # sent again
    with pytest.raises(Conflict, match="somebody else has adjudicated"):
        decide(value=1, answer="d" * 20)
    decide(value=1, answer="d" * 20, replaces="c" * 20)
    with pytest.raises(Conflict, match="used for another answer"):
        decide(value=2, answer="d" * 20, replaces="d" * 20)
    with pytest.raises(Conflict, match="somebody else has adjudicated"):
        studies.adjudicate([replace(one, question="Q1", answer="e" * 20), replace(one, value=3, answer="f" * 20)])
    assert [(each.question, each.value, each.replaces) for each in studies.answers("look")] == [("Q0", 1, "c" * 20)]
    assert not store.labels() and not studies.answers("loo"), "a study whose name has the same prefix is separate"
    studies.close()

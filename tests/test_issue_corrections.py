"""Corrections of issues by people: other kinds, removals, undo, labels, files and the conversation page."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from served_workbench import Browser, StartWorkbench, project

from accord import Conversation, Project, Target, Turn
from accord.edges import BadInput, UnknownName
from accord.project import (
    correct_issue,
    corrected,
    corrected_pairs,
    current_corrections,
    export_annotations,
    import_files,
    undo_correction,
)
from accord.store import IssueAnnotations, Store
from accord.values import Issue, IssueAnnotation, load_taxonomy, turn_digests

SODA = load_taxonomy("soda-eval")
CHAT = Conversation("c", (Turn("user", "Are you well?"), Turn("assistant", "No. <b>Go</b> away, go away.")))
ISSUES = (
    Issue("Other", "It is rude.", "Go", (7, 9)),
    Issue("Other", "Nobody else is here.", said="malformed"),
    Issue("Repetition", "It repeats itself."),
)
FOUND = IssueAnnotation(Target("c", 1), ISSUES, 2, "Poor.", "issues|model:m|via:turn", said=turn_digests(CHAT)[1])


@pytest.fixture
def found(store: Store) -> Store:
    store.add_conversations([CHAT])
    IssueAnnotations(store).add([FOUND])
    return store


def kinds(store: Store) -> list[tuple[str, str | None]]:
    given = current_corrections(store.annotations({"person"}))
    [stored] = IssueAnnotations(store).of([CHAT], FOUND.signature)
    assert stored == FOUND, "the model's issues are never changed"
    return [(issue.type, issue.said) for issue in corrected(stored, given).issues]


def labels(store: Store) -> dict[tuple[str, str], object]:
    return {(label.annotator, label.question): label.value for label in store.labels()}


def correct(store: Store, part: int, kind: str | None, by: str = "lee", answer: str = "") -> None:
    correct_issue(store, FOUND, part, by, answer or f"{by}-{part}-{kind}".ljust(16, "-"), SODA, kind)


def test_moved_and_removed_issues_are_labels_and_can_be_undone(found: Store) -> None:
    before = kinds(found)
    correct(found, 1, "Antisocial")
    assert kinds(found) == [("Antisocial", "Other"), ("Other", "malformed"), ("Repetition", None)]
    correct(found, 2, "Coherence")
    correct(found, 3, None)
    assert kinds(found) == [("Antisocial", "Other"), ("Coherence", "malformed")]
    assert labels(found) == {
        ("lee", "issue:Antisocial"): 1, ("lee", "issue:Coherence"): 1, ("lee", "issue:Repetition"): 0,
    }  # fmt: skip
    for part in (1, 2, 3):
        undo_correction(found, FOUND, part, "lee")
    assert kinds(found) == before and labels(found) == {}
    assert len(list(found.annotations({"person"}))) == 6, "corrections and their withdrawals are kept"


@pytest.mark.attack
def test_undo_withdraws_all_corrections_of_concurrent_requests(found: Store) -> None:
    before, others = kinds(found), Store(found.url)
    stale = list(found.annotations({"person"}))
    for number in range(8):
        with pytest.MonkeyPatch.context() as patch:  # no request sees the corrections of the others
            patch.setattr(Store, "annotations", lambda *_, **__: iter(stale))
            correct(found, 1, "Antisocial", answer=f"{number:016}")
    assert kinds(found)[0] == ("Antisocial", "Other")
    undo_correction(others, FOUND, 1, "lee")
    assert kinds(found) == before and labels(found) == {}
    others.close()


def test_removal_is_no_label_if_the_turn_has_another_issue_of_the_kind(found: Store) -> None:
    correct(found, 1, None)
    assert labels(found) == {("lee", "issue:Other"): None}
    correct(found, 2, None)
    assert kinds(found) == [("Repetition", None)]
    assert [label.value for label in found.labels("issue:Other")] == [0], "the last label counts"


def test_latest_correction_counts_and_earlier_ones_return(found: Store) -> None:
    correct(found, 1, "Coherence", "lee")
    correct(found, 1, "Antisocial", "lee")
    assert labels(found) == {("lee", "issue:Antisocial"): 1}, "a person's correction replaces the earlier one"
    correct(found, 1, None, "mo")
    assert kinds(found)[0] == ("Other", "malformed")
    undo_correction(found, FOUND, 1, "mo")
    assert kinds(found)[0] == ("Antisocial", "Other")
    count = len(list(found.annotations({"person"})))
    correct(found, 1, "Antisocial", "lee")  # the same form sent twice
    assert len(list(found.annotations({"person"}))) == count


def test_invalid_correction_is_an_error(found: Store) -> None:
    with pytest.raises(UnknownName, match="Antisocial"):
        correct(found, 1, "Antisocal")
    with pytest.raises(BadInput, match="kind 'Other'"):
        correct(found, 1, "Other")
    with pytest.raises(BadInput, match="issue 4 of c#1; allowed: 1 to 3"):
        correct(found, 4, None)
    assert not list(found.annotations({"person"}))


def test_corrections_are_exported_and_imported(found: Store, memory: Store, tmp_path: Path) -> None:
    correct(found, 1, "Antisocial")
    correct(found, 3, None)
    undo_correction(found, FOUND, 3, "lee")
    for name in ("a.jsonl", "a.csv"):
        export_annotations(found, tmp_path / name)
        memory.add_conversations([CHAT])
        import_files(memory, SODA.rubric, [tmp_path / name])
        assert list(memory.annotations()) == list(found.annotations()) and kinds(memory) == kinds(found)
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    bad = next(line for line in lines if line["kind"] == "person")
    (tmp_path / "bad.jsonl").write_text(json.dumps({**bad, "question": "overall"}) + "\n", encoding="utf-8")
    with pytest.raises(BadInput, match="a correction of an issue needs"):
        import_files(found, SODA.rubric, [tmp_path / "bad.jsonl"])


# --- the page -------------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(tmp_path: Path) -> Project:
    opened = project(tmp_path)
    opened.config.sources["issues"] = {"by": "recorded", "model": "m"}
    opened.store.add_conversations([CHAT])
    IssueAnnotations(opened.store).add([FOUND])
    return opened


def forms(browser: Browser) -> list[dict[str, str]]:
    """Return the hidden fields of the form of each issue."""
    found = re.findall(r'<form method="post" action="/correct-issue".*?</form>', browser.get("/conversation/c"), re.S)
    pattern = r'<input type="hidden" name="([^"]+)" value="([^"]*)">'
    return [{name: html.unescape(value) for name, value in re.findall(pattern, form)} for form in found]


def test_lead_moves_removes_and_restores_issues_on_the_conversation_page(
    workbench: StartWorkbench, opened: Project
) -> None:
    browser = workbench(opened=opened).browser()

    def post(number: int, do: str, **more: str) -> int:
        return browser.post("/correct-issue", **{**forms(browser)[number - 1], "do": do, **more})[0]

    def state() -> tuple[list[str], int]:
        data = json.loads(browser.get("/conversation/c.json"))
        [found] = data["turns"][1]["issues"]
        return [issue["type"] for issue in found["issues"]], len(found["corrections"])

    assert state() == (["Other", "Other", "Repetition"], 0) and "3 issues" in browser.get("/conversation/c")
    assert post(1, "move", kind="Antisocial") == 303 and post(3, "remove") == 303
    assert state() == (["Antisocial", "Other"], 2)
    page = browser.get("/conversation/c")
    assert "moved this issue to <b>Antisocial</b>" in page and "removed this issue" in page and "2 issues" in page
    assert page.count('value="undo"') == 2 and "<b>Go</b>" not in page
    [(_, annotation)] = corrected_pairs(opened)
    assert [issue.type for issue in annotation.issues] == ["Antisocial", "Other"]
    assert post(3, "undo") == 303 and state() == (["Antisocial", "Other", "Repetition"], 1)
    for wrong in ({"kind": "Rude"}, {"kind": "Coherence", "part": "9"}, {"kind": "Coherence", "signature": "x"}):
        assert post(1, "move", **wrong) == 422
    assert post(1, "delete") == 422 and post(1, "remove", id="short") == 422 and post(1, "remove", form="x" * 20) == 403
    assert state() == (["Antisocial", "Other", "Repetition"], 1)


def test_only_leads_correct_issues(workbench: StartWorkbench, opened: Project) -> None:
    bench = workbench(opened=opened, people=["ann"], leads=["lee"])
    fields = forms(bench.browser("lee"))[0]
    assert bench.browser("ann").post("/correct-issue", **{**fields, "do": "remove"})[0] == 403

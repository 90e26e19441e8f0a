"""Conversation page: details for leads, hostile texts, predictions, citations."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
import scaled
from read_conversations import POLICY, REPLY, RICH, reading_project, rich
from scored_rows import add_scores
from served_workbench import Browser, StartWorkbench, project
from test_workbench_pages import EVIL, strange
from waiting import until

from accord import Conversation, Project, Turn
from accord.live import LiveContext
from accord.live import open_ingestor as watched
from accord.live.messages import Message
from accord.models import run
from accord.scoring import score
from accord.store import scores_of_conversation
from accord.studies.citations import CitationFinder, excerpts
from accord.studies.predicted_ratings import ConversationPredictions, PredictionService, predict_conversation
from accord.values import Annotation, Document, Issue, IssueAnnotation, Rubric, Sample, Target
from accord.web.context import conversation_address
from accord.web.pages.conversation import back_address
from accord.web.pages.conversation_details import load_details


def read(browser: Browser, address: str) -> dict[str, Any]:
    """Return a conversation's data after its predictions are computed."""
    until(lambda: json.loads(browser.get(address))["predictions"]["state"] != "waiting")
    return dict(json.loads(browser.get(address)))


# --- page --------------------------------------------------------------------------------------------------


def test_the_page_and_its_data_tell_everything_that_is_known(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = reading_project(tmp_path, monkeypatch)
    evaluator = opened.load()
    kept = score(opened, evaluator, [rich()], tmp_path / "scores.jsonl")
    browser = workbench(opened=opened).browser()
    data = read(browser, f"{conversation_address(RICH)}.json")
    page = html.unescape(browser.get(conversation_address(RICH, 4, "/board/list?question=Q0")))
    [known] = run(evaluator.predict([Sample(rich())]), opened.stored_models)
    whole, reply = data["whole"], data["turns"][4]
    main = whole["questions"][0]
    assert (main["question"], main["text"], main["is_main"]) == ("Q0", "How good is it?", True)
    assert main["prediction"]["value"] == known.value
    people = main["predicted_ratings"]
    assert set(people) == {"ann", "bob", "cy"}
    for name, row in people.items():
        [own] = run(evaluator.predict([Sample(rich())], name), opened.stored_models)
        assert row["value"] == own.value and row["distribution"] == own.distribution
    by = {each["person"]: each for each in main["ratings"]}
    assert (by["ann"]["value"], [each["value"] for each in by["ann"]["history"]]) == (2, [1])
    assert by["bob"]["history"] == [] and main["mean"] == 3 and whole["scores"][0]["run"] == kept.run
    assert [each["by"] for each in reply["marks"]] == ["bob"], "a mark that was taken back is gone"
    assert [each["quote"] for each in reply["issues"][0]["issues"]][0] in REPLY
    assert reply["documents"] == [{"number": 1, "is_cited": True, "spans": [[17, 59]]}]
    assert POLICY[17:59] == "can be returned within 45 days of delivery"
    judged = {each["question"]: each["judge"][0]["expected"] for each in reply["questions"]}
    assert judged == pytest.approx({"Q0": 3, "Q1": 3})
    assert data["predictions"]["metrics"]["4"]["citation-rate"] == 1
    for said in (
        "<b>find_article</b>(", "on reflection", "too curt", "One claim is wrong.", "(not in the turn)",
        "cited, repeated", "<dt>Predicted</dt>", "<dt>Ratings</dt>", "<dt>Judge</dt>", "judge-1, logprobs", "Mean of people",
        "2 comments, 1 correction", "desk-2", "band ",
        'href="/board/list?question=Q0"', 'class="msg turn assistant is-rated flag" id="t4"', "latency",
    ):  # fmt: skip
        assert said in page, said
    assert "Synthetic conversation" not in page and not strange(page)


def test_rows_are_grouped_by_question_and_only_the_main_one_is_unfolded(
    tmp_path: Path, workbench: StartWorkbench
) -> None:
    people, ids = ["Ana", "Ben", "Cleo", "Dov", "Elif"], [f"Q{n}" for n in range(15)]
    asked = [
        {"id": id, "text": f"Question <{n}>?", "scale": {"kind": "ordinal", "options": [1, 2, 3, 4, 5]}}
        for n, id in enumerate(ids)
    ]
    rubric = Rubric.model_validate({"name": "many", "main": "Q3", "questions": asked})
    target = Target("gpt-9-1")
    ratings = [
        Annotation(target, id, name, "person", 1 + (n + place) % 5, answer=f"{id}-{name}-1".ljust(16, "-"),
                   comment="too short" if (id, name) == ("Q5", "Ben") else "")
        for n, id in enumerate(ids) for place, name in enumerate(people)
    ]  # fmt: skip
    changed = Annotation(target, "Q5", "Ana", "person", 5, answer="changed".ljust(16, "-"), replaces=ratings[25].answer)
    alone = {"conversation": "gpt-9-1", "turn": None, "key": "k", "question": "tone", "judge": "j", "mode": "recorded",
             "outside": 0.0, "probabilities": json.dumps({"1": 1.0}), "made_from": json.dumps({"a": 1})}  # fmt: skip
    opened = project(tmp_path)
    opened.rubric = rubric
    opened.store.add_annotations([*ratings, changed])
    opened.store.add_answers([alone])
    browser = workbench(opened=opened).browser()
    data = read(browser, "/conversation/gpt-9-1.json")
    questions = data["whole"]["questions"]
    assert [row["question"] for row in questions] == ["Q3", *(id for id in ids if id != "Q3"), "tone"]
    assert all(len(row["ratings"]) == 5 for row in questions[:-1]) and questions[0]["mean"] == 3
    page = browser.get("/conversation/gpt-9-1")
    assert page.count("<dt>Ratings</dt>") == 14, "one list of ratings for each other question"
    folded = re.findall(r"<li><details><summary><b>(.*?)</b>", page)
    assert sum('title="Question' in each for each in folded) == 14 and page.count("<h3 dir=") == 1
    [main] = re.findall(r"<section class=\"body\">.*?</section>", page, re.DOTALL)
    shown = re.findall(
        r"<th scope=\"row\" dir=\"auto\" title=\"[^\"]*\">(.*?)</th>.*?<b><data[^>]*>(.*?)</data></b>", main
    )
    assert shown == [
        ("Mean of people", "3"),
        *((name, str(n)) for name, n in zip(people, (4, 5, 1, 2, 3), strict=True)),
    ]
    assert 'title="Question &lt;3&gt;?"' in main, "the wording is one hover away"
    assert "too short" in page and "1 comment, 1 correction" in page and "earlier: 1" in page
    assert '<b>Judge, other questions</b><span class="grow">1</span>' in page


def test_saved_score_is_shown_while_predictions_are_computed(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = reading_project(tmp_path, monkeypatch)
    evaluator = opened.load()
    score(opened, evaluator, [rich()], tmp_path / "scores.jsonl")
    [known] = run(evaluator.predict([Sample(rich())]), opened.stored_models)
    waiting = ConversationPredictions("waiting")
    monkeypatch.setattr(PredictionService, "predict", lambda service, conversation: waiting)
    browser = workbench(opened=opened).browser()
    page, (low, high) = browser.get(conversation_address(RICH)), known.band or (0, 0)
    assert f"<b>Score {known.value:.3g}</b>, band {low:.3g} to {high:.3g}" in page
    assert '<noscript><meta http-equiv="refresh"' in page and "Details of the evaluator are being computed" in page
    assert "<b>Score" not in browser.get("/conversation/chat-00"), "a conversation without a saved score"


def test_title_has_the_words_of_the_user_and_metadata_only_what_is_known(
    workbench: StartWorkbench, tmp_path: Path
) -> None:
    opened, ask = project(tmp_path), Turn("user", "Where is <my> parcel? " * 20)
    metadata = {"system": "desk-1", "documents": [], "note": "", "count": 0}
    alike = [Annotation(Target("c-1"), "Q0", name, "person", 2) for name in ("Ana", "Ben", "Cleo")]
    opened.store.add_conversations([Conversation("c-1", (ask,), metadata=metadata), Conversation("c-2", ())])
    opened.store.add_annotations(alike)
    browser = workbench(opened=opened).browser()
    page = browser.get("/conversation/c-1")
    [title] = re.findall(r"<h1 dir=\"auto\">(.*?)</h1>", page)
    assert title.startswith("Where is &lt;my&gt; parcel?") and title.endswith("…")
    assert '<p class="meta">c-1 · ' in page
    assert re.findall(r"<dt>(.*?)</dt><dd dir=\"auto\">(.*?)</dd>", page) == [
        ("count", "0"),
        ("Assistant version", "desk-1"),
    ]
    [chart] = re.findall(r'<table class="tbl tight axes">.*?</table>', page)
    assert re.findall(r'title="([^"]*)">.*?<b><data[^>]*>(.*?)</data></b>', chart) == [("3 people", "2")]
    assert '<h1 dir="auto">c-2</h1>' in browser.get("/conversation/c-2")


def test_training_data_is_marked_in_the_transcript_and_the_list(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = reading_project(tmp_path, monkeypatch)
    fresh = Conversation("fresh", (Turn("user", "Is it new?"), Turn("assistant", "It is new.")))
    opened.store.add_conversations([fresh])
    [rated] = opened.store.conversations(["chat-00"])
    browser = workbench(opened=opened).browser()

    def is_marked(name: str) -> bool:
        row = read(browser, f"/conversation/{name}.json")["whole"]["questions"][0]["prediction"]
        page = browser.get(f"/conversation/{name}")
        mark = "training data of default"
        assert (mark in page) == row["in_training"]
        return mark in page

    assert is_marked("chat-00") and not is_marked("fresh"), "by the evaluator, before any score is saved"
    score(opened, opened.load(), [rated, fresh], tmp_path / "scores.jsonl")
    assert is_marked("chat-00") and not is_marked("fresh")
    rows = json.loads(browser.get("/board/list.json?training=with"))["rows"]
    assert {row["conversation"]: row["in_training"] for row in rows} == {"chat-00": True, "fresh": False}
    for cells in browser.get("/board/list?training=with").split("<tr>")[2:]:
        assert (">training data<" in cells) == ("chat-00" in cells)
    assert ">training data<" not in browser.get("/board/list?answers=given"), "ratings of people are no scores"


def test_synthetic_conversation_is_marked(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = workbench(opened=reading_project(tmp_path, monkeypatch, fits=False)).browser()
    page, data = browser.get("/conversation/made"), read(browser, "/conversation/made.json")
    assert "Synthetic conversation." in page and "DS1" in page and "model-a" in page
    predictions = data["predictions"]
    assert data["synthetic"] and predictions["state"] == "none"
    assert "accord fit default" in predictions["reason"] and predictions["metrics"]["1"]["turns"] == 2


def test_only_leads_read_conversations_and_unknown_ids_are_404(workbench: StartWorkbench) -> None:
    bench = workbench(["ann"], ["lee"])
    bench.store.add_conversations([Conversation("a.json", (Turn("user", "in a file"),))])
    lee, ann, nobody = bench.browser("lee"), bench.browser("ann"), bench.browser()
    for path in ("/conversation/gpt-9-1", "/conversation/gpt-9-1.json", "/conversation/nothing"):
        for browser, status in ((ann, 403), (nobody, 401)):
            assert "Question 1" not in browser.get(path) and browser.status == status, path
    assert "Question 1?" in lee.get("/conversation/gpt-9-1") and lee.status == 200
    for path in ("/conversation/nothing", "/conversation/nothing.json"):
        assert lee.get(path) and lee.status == 404
    page = lee.get("/conversation/a.json")
    assert "in a file" in page and "<html" in page
    assert read(lee, "/conversation/a.json.json")["conversation"] == "a.json"
    for turn in ("-1", "99", "x", "1" * 5000, "%C2%B2"):
        assert 'class="turn rated' not in lee.get(f"/conversation/gpt-9-1?turn={turn}"), turn
        assert lee.status in (200, 422), turn


@pytest.mark.parametrize(("back", "is_kept"), [
    ("/board", True), ("/board/list?question=Q0&low=1.5", True), ("/board/list?topic=caf%C3%A9", True),
    ("/boards", False), ("//board", False), ("/board//elsewhere.org", False), ("https://elsewhere.org/board", False),
    ("/board\\elsewhere", False), ("/board/list?a=b\nc", False), ("javascript:alert(1)", False), ("/lead", False),
    ("/board?" + "a" * 5000, False), ("", False),
])  # fmt: skip
def test_back_link_accepts_only_addresses_of_the_board(back: str, is_kept: bool) -> None:
    assert back_address(back) == (back if is_kept else "")


def test_texts_of_a_conversation_are_escaped(workbench: StartWorkbench) -> None:
    controls = "a\x1b[31mb\x00c\u202ed\ud800\r\n"
    long = "long word " * 100_000
    turns = (
        Turn(EVIL, EVIL, name=EVIL, time=EVIL), Turn("user", controls, extra={"tool_calls": [EVIL, {"name": EVIL}, 7]}),
        Turn("assistant", long + EVIL, extra={EVIL: EVIL, "tool_calls": EVIL, "documents": {"a": 1}}),
        Turn("assistant", EVIL, extra={"tool_calls": {"function": EVIL}, "documents": [None, EVIL, 1]}),
    )  # fmt: skip
    metadata = {"system": EVIL, EVIL: {EVIL: [EVIL]}, "synthetic": {EVIL: EVIL}}
    evil = Conversation(EVIL, turns, (Document(EVIL, EVIL, EVIL), Document(long)), metadata)
    target = Target(EVIL, 3)
    said = [
        Annotation(target, EVIL, EVIL, "person", EVIL, comment=EVIL, study=EVIL, time=EVIL),
        Annotation(target, f"issue:{EVIL}", EVIL, "person", 1, quote=EVIL, span=(0, 10**9), comment=EVIL),
        *Annotation.from_issues(IssueAnnotation(target, (Issue(EVIL, EVIL, EVIL, (0, 9)),), 1, EVIL, EVIL)),
    ]
    row = {"conversation": EVIL, "turn": 3, "annotator": EVIL, "value": 1.0, "low": 1.0, "high": 2.0, "warning": EVIL,
           "band_low": None, "band_high": None, "attributions": {EVIL: 1.0, "b": -2.0}}  # fmt: skip
    answer = {"conversation": EVIL, "turn": 3, "key": "k", "question": EVIL, "judge": EVIL, "mode": EVIL, "outside": 0.0,
              "probabilities": json.dumps({EVIL: 0.5, "b": 0.5}), "made_from": json.dumps({"a": 1})}  # fmt: skip
    bench = workbench()
    bench.store.add_conversations([evil])
    bench.store.add_annotations(said)
    bench.store.add_answers([answer])
    add_scores(bench.project, bench.store.start_run(EVIL, {"evaluator": EVIL}), [row], EVIL)
    browser = bench.browser()
    page = browser.get(conversation_address(EVIL, 3, f"/board/{EVIL}"))
    assert browser.status == 200 and not strange(page) and page.count("\\u001b[31m") >= 1
    assert "<script>alert" not in page and "\x1b" not in page and "\u202e" not in page and "\\u202e" in page
    data = read(browser, f"{conversation_address(EVIL)}.json")
    assert data["turns"][2]["content"] == long + EVIL and data["turns"][3]["scores"][0]["warning"] == EVIL


# --- its parts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("documents", "text", "extra", "uses"),
    [
        (["One two three four five six. Seven.", "Zero one two THREE four, five!"],
         "So: ONE two, three four five six; and one two three four.", {}, [(1, False, ((0, 27),))]),
        (["One two three.", "Zero one two."], "See [2], [9] and [0].", {"documents": ["x"]}, [(2, True, ())]),
        ([], "[1]", {}, []),
        (["a b c", ""], "a b c", {}, []),
    ],
)  # fmt: skip
def test_passages_are_words_that_stand_in_both_in_their_order(
    documents: list[str], text: str, extra: dict[str, Any], uses: list[Any]
) -> None:
    found = CitationFinder(tuple(map(Document, documents))).uses(Turn("assistant", text, extra=extra))
    assert [(each.number, each.is_cited, each.spans) for each in found] == uses


def test_excerpts_hold_their_passages_and_do_not_overlap() -> None:
    text = "x" * 2000
    found = excerpts(text, [(10, 20), (100, 120), (1500, 1990)])
    assert [cut for cut, _ in found] == [(0, 280), (1340, 2000)]
    assert [inside for _, inside in found] == [((10, 20), (100, 120)), ((1500, 1990),)]


def test_issues_of_an_earlier_text_are_marked_as_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with reading_project(tmp_path, monkeypatch, fits=False) as opened:
        issue = Issue("Slow", "slow", "You are welcome")
        other = IssueAnnotation(Target(RICH, 6), (issue,), 4, "", "issues", said="other")
        opened.store.add_annotations(Annotation.from_issues(other))
        found = load_details(opened, RICH)
        assert [[each.is_old for each in found.issues[turn]] for turn in (4, 6)] == [[False], [True]]
        assert found.issues[6][0].annotation.issues[0].span == (0, 15), "its quote is looked up in the turn as it is"
        assert load_details(opened, "nothing") is None


def test_scores_are_listed_by_run_latest_first(tmp_path: Path) -> None:
    with project(tmp_path) as opened:
        expected = []
        for place, name in enumerate(("score", "run")):
            run = opened.store.start_run(name, {"evaluator": name})
            rows = [{"conversation": "gpt-9-1", "turn": None, "value": place}, {"conversation": "x", "value": 9}]
            add_scores(opened, run, rows, name)
            expected.append((run, name, name, [place]))
        found = scores_of_conversation(opened.store, opened.mart, "gpt-9-1")
        listed = [(each.run, each.command, each.evaluator, [row["value"] for row in each.rows]) for each in found]
        assert listed == expected[::-1]
        assert scores_of_conversation(opened.store, opened.mart, "gpt-9-2") == []


def test_new_evaluator_changes_predictions_without_model_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reading_project(tmp_path, monkeypatch) as opened:
        service, folder = PredictionService(opened), tmp_path / "evaluators"

        def predicted() -> Any:
            service.predict(rich())
            service.jobs.wait()
            return service.predict(rich())

        first = predicted()
        assert first.state == "ready"
        assert first.to_json() == predict_conversation(opened, opened.load(), rich()).to_json()
        with Project(opened.config, question="Q1") as other:
            other.fit(out=folder / "other")
        (folder / "default").rename(folder / "before")
        assert predicted().state == "none"
        (folder / "other").rename(folder / "default")
        second = predicted()
        assert (first.question, second.question) == ("Q0", "Q1") and first.evaluator != second.evaluator
        (folder / "default" / "evaluator.json").write_text("{", encoding="utf-8")
        assert "damaged" in predicted().reason
        service.jobs.close()


def test_live_scores_are_listed_with_runs(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = reading_project(tmp_path, monkeypatch)
    with watched(Path(scaled.saved(tmp_path / "other")), context=LiveContext(mart=opened.mart)) as ingestor:
        for name in ("chat-03", "elsewhere"):
            ingestor.take([Message(name, "user", "Question?"), Message(name, "assistant", "step " * 12)])
    browser = workbench(opened=opened).browser()
    about = json.loads(browser.get("/conversation/chat-03.json"))
    [row] = [row for turn in about["turns"] for row in turn["scores"] if row["command"] == "live"]
    assert row["turn"] == 1 and row["low"] <= row["value"] <= row["high"]
    assert sum(row["distribution"].values()) == pytest.approx(1, abs=1e-4)
    assert '<b>Saved scores</b><span class="grow">1</span>' in browser.get("/conversation/chat-03?open=all")
    told = browser.get("/conversation/elsewhere?turn=1")
    assert browser.status == 404 and "was scored live" in told and "accord import" in told
    assert "scored live" not in browser.get("/conversation/nowhere") and browser.status == 404


def test_lead_pages_link_to_the_reading_view_and_the_icon_is_there(workbench: StartWorkbench) -> None:
    bench = workbench()
    bench.store.add_annotations(
        Annotation(Target("gpt-9-1"), "Q0", name, "person", value, study="look", answer=f"{name}-1234567890123456")
        for name, value in (("ann", 1), ("bob", 4))
    )
    browser = bench.browser()
    page = browser.get("/lead/look/disagree/next")
    assert '<a href="/conversation/gpt-9-1">' in page, re.findall("<h1>.*", page)
    status, said, _ = browser.ask("GET", "/favicon.ico")
    assert status == 200 and "<svg" in said

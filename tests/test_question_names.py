"""Short names of questions: rules, independence of keys and digests, and the surfaces that show them."""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import accord, accord_json, printed, write
from scored_rows import add_scores
from served_workbench import StartWorkbench, Workbench, open_workbench, project, rate_all, shown_after, token
from test_board import board, figures, row
from test_workbench_pages import strange

from accord import Label, Project, Rubric, Target, load_rubric
from accord.edges import BadInput
from accord.learning import load_evaluator
from accord.models import ScriptedJudge
from accord.project import infer_rubric, load_config
from accord.project.importing.rubric_inference import ObservedAnswers
from accord.report import write_report
from accord.results import document_text
from accord.testing import sample_project
from accord.values import dump_rubric, read_rubric, shipped_rubrics
from accord.web import ProjectFiles

MARKUP = "<script>alert(1)</script>"
RIGHT_TO_LEFT = "\u05e9\u05d1\u05d9\u05e2\u05d5\u05ea \u200fratzon"
FORMULA = "=1+1"
HOSTILE = [MARKUP, RIGHT_TO_LEFT, FORMULA, "\"'><b onmouseover=alert(1)>", "{{ 7 * 7 }} {% raw %}", "W" * 40, "😀" * 40]


def named(rubric: Rubric, **names: str) -> Rubric:
    questions = tuple(each.model_copy(update={"name": names.get(each.id, each.name)}) for each in rubric.questions)
    return rubric.model_copy(update={"questions": questions})


def content(*questions: dict[str, object]) -> dict[str, object]:
    rows = [{"text": "Good?", "options": [1, 2], **each} for each in questions]
    return {"name": "mine", "main": "a", "questions": rows}


# --- rubric -----------------------------------------------------------------------------------------------------------


@pytest.mark.attack
@pytest.mark.parametrize("name", HOSTILE)
def test_any_printable_name_round_trips(name: str) -> None:
    rubric = read_rubric(content({"id": "a", "name": f" {name} "}, {"id": "b"}), "rubric.yaml")
    assert rubric["a"].name == name and rubric["a"].shown == rubric.shown("a") == name
    assert rubric["b"].shown == rubric.shown("b") == "b" and rubric.shown("unknown") == "unknown"
    assert load_rubric(write("rubric.yaml", dump_rubric(rubric))) == rubric


@pytest.mark.attack
@pytest.mark.parametrize(
    ("name", "other", "reason"),
    [
        ("x" * 41, "", "name of question 'a': got 41 characters, allowed: 40"),
        ("two\nlines", "", "has a line break"),
        ("a\ttab", "", "a tab or another control character"),
        ("red \x1b[31m", "", "control character"),
        ("turned \u202e round", "", r"got 'turned \\u202e round'"),
        ("line\u2028break", "", "control character"),
        ("Good", "gOOD", "questions 'b' and 'a' would both be shown as 'Good'"),
        ("STRASSE", "straße", "would both be shown as"),
        ("B", "", "questions 'b' and 'a' would both be shown as 'B'"),
        (5, "", "valid string"),
    ],
)
def test_a_name_that_misleads_is_refused(name: object, other: str, reason: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_rubric(content({"id": "a", "name": name}, {"id": "b", "name": other}), "rubric.yaml")
    assert reason in str(caught.value) and "\n" not in str(caught.value) and str(caught.value).startswith("rubric.yaml")


def test_rubrics_without_names_keep_ids_that_differ_in_case_alone() -> None:
    rubric = read_rubric(content({"id": "a"}, {"id": "A"}), "rubric.yaml")
    assert [each.shown for each in rubric.questions] == ["a", "A"] and "name:" not in dump_rubric(rubric)[11:]


def test_every_shipped_question_has_a_name() -> None:
    for name in shipped_rubrics():
        assert all(each.name for each in load_rubric(name).questions), name


@pytest.fixture(autouse=True)
def _folder(working_folder: Path) -> None:
    """Run in an empty folder."""


# --- keys and digests -------------------------------------------------------------------------------------------------


def test_a_name_is_no_part_of_keys_and_saved_forms(rubric: Rubric) -> None:
    other = named(rubric, Q0="Overall", Q1="")
    assert other != rubric and other.hash == rubric.hash
    for before, after in zip(rubric.questions, other.questions, strict=True):
        assert before.key == after.key and before.wording == after.wording
        assert before.model_dump() == after.model_dump() and "name" not in after.model_dump()


def test_labels_answers_and_evaluators_stay_valid_when_a_name_changes() -> None:
    judge = ScriptedJudge(lambda sample, question: {str(option): 1 / 4 for option in question.scale.options[:4]})
    with sample_project(given={"judge": judge}) as opened:
        opened.judge()
        asked = len(judge.asked)
        fitted = opened.fit("constant")
        assert fitted.comparison is not None and fitted.folder is not None
        digest, found = fitted.evaluator.digest(), fitted.comparison.results[0].to_json()
        labels = list(opened.store.labels().on("Q0"))
        opened.rubric = opened.store.rubric = named(opened.rubric, Q0="Overall")
        opened.question = opened.rubric.main_question
        opened.judge()
        assert len(judge.asked) == asked > 0
        again = opened.fit("constant")
        assert again.evaluator.digest() == digest and list(opened.store.labels().on("Q0")) == labels
        assert again.comparison is not None and again.comparison.results[0].to_json() == found
        assert again.comparison.question.shown == "Overall" and again.comparison.to_json()["question"] == "Q0"
        assert load_evaluator(fitted.folder).digest() == digest


# --- generated names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (["satisfaction"], ["Satisfaction"]),
        (["user_satisfaction", "toneOfVoice"], ["User satisfaction", "Tone of voice"]),
        (["CSAT_score"], ["CSAT score"]),
        (["Q0", "q7"], ["Q0", "q7"]),
        (["tone", "Tone"], ["Tone 2", "Tone"]),
        (["brand voice", "brand_voice"], ["Brand voice", "brand_voice"]),
        (["a_rating_with_a_name_of_many_words_and_letters"], ["a_rating_with_a_name_of_many_words_and_letters"]),
    ],
)
def test_columns_give_names_that_differ(columns: list[str], names: list[str]) -> None:
    observed = [ObservedAnswers(name) for name in columns]
    for each in observed:
        for value in (1, 2, 5):
            each.add(value, "ann", None)
    assert [each.shown for each in infer_rubric(observed).rubric.questions] == names


def test_init_writes_names_and_keeps_ids_in_its_json() -> None:
    labels = write(
        "labels.csv", "conversation,annotator,satisfaction\n" + "".join(f"c{n},ann,{1 + n % 5}\n" for n in range(9))
    )
    said = printed("init", "--from", labels)
    assert "satisfaction (main): ordinal" in said and "; 9 labels; shown as Satisfaction\n" in said
    assert load_rubric("rubric.yaml")["satisfaction"].name == "Satisfaction"
    [row] = accord_json("init", "--from", labels)["questions"]
    assert (row["question"], row["name"]) == ("satisfaction", "Satisfaction")


def test_a_new_question_takes_no_name_of_the_rubric() -> None:
    write(
        "rubric.yaml",
        "name: mine\nmain: q\nquestions:\n- {id: q, name: Tone, text: 'Which tone?', options: [1, 2, 5]}\n",
    )
    write("accord.yaml", "rubric: rubric.yaml\n")
    write(
        "labels.csv",
        "conversation,annotator,q,tone\n" + "".join(f"c{n},ann,{1 + n % 2},{1 + n % 5}\n" for n in range(9)),
    )
    accord("init", "--from", "labels.csv")
    made = load_rubric(next(str(path) for path in Path().glob("rubric-*.yaml")))
    assert (made["q"].name, made["tone"].name) == ("Tone", "Tone 2")


# --- pages ------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=HOSTILE[:4])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def plain(page: str) -> str:
    """Return the text of a page with its tooltips."""
    return html.unescape(page)


@pytest.mark.attack
def test_pages_show_the_name_with_the_wording_and_keep_the_id_in_addresses(
    workbench: StartWorkbench, tmp_path: Path, name: str
) -> None:
    opened = project(tmp_path)
    opened.rubric = opened.store.rubric = named(opened.rubric, Q0=name, Q1="Tone")
    opened.question = opened.rubric.main_question
    opened.mart.add([row(f"gpt-9-{n}", 1.0 + n % 3, question=q) for n in range(12) for q in ("Q0", "Q1")])
    opened.store.add_labels([Label(Target("gpt-9-1"), "Q0", "ann", 3), Label(Target("gpt-9-1"), "Q0", "bob", 1)])
    bench = workbench(["ann"], ["lea"], opened)
    session = bench.session()
    taken = session.take("ann")
    assert taken is not None
    rate_all(session, taken)
    browser, wording = bench.browser("lea"), html.escape(opened.rubric["Q0"].text, quote=False)[:40]
    pages = ["/", "/board", "/board/list?question=Q0", "/lead/look", "/lead/look/disagree", "/conversation/gpt-9-1",
             "/rubric", "/studies/new", "/explore", "/evaluators"]  # fmt: skip
    for path in pages:
        page = browser.get(path)
        assert browser.status == 200 and not strange(page), path
        assert MARKUP not in page and "<b onmouseover" not in page, path
        if path != "/explore":
            assert name in plain(page), path
            assert not re.search(r">\s*Q0\s*<", page), f"{path} shows an id"
            assert wording in plain(page), path
    assert '<option value="Q1">Tone</option>' in browser.get("/board") and "question=Q0" in browser.get("/lead/look")
    assert json.loads(browser.get("/lead/look.json"))["questions"][0]["question"] == "Q0"


def test_explore_lists_columns_by_names_and_keeps_ids_in_its_address(workbench: StartWorkbench, tmp_path: Path) -> None:
    opened = project(tmp_path)
    notes = {"other_questions": {"Q1": {"value": 2.0, "annotator": "population"}}}
    with opened.store.run("score", {}) as run:
        add_scores(
            opened, run.id, [{"conversation": f"gpt-9-{n}", "value": 1.0 + n % 3, "notes": notes} for n in range(9)]
        )
    browser = workbench(opened=opened).browser()
    page = browser.get("/explore?y=question%3A+Q1&x=metadata%3A+system")
    assert browser.status == 200 and "Mean Natural by assistant version" in page
    assert '<option value="question: Q1" selected>Value: Question: Natural</option>' in page
    assert "question: Q1" in json.loads(browser.get("/explore.json"))["columns"]


# --- board ------------------------------------------------------------------------------------------------------------


def test_sentences_of_the_board_name_questions(tmp_path: Path) -> None:
    with board(tmp_path, [row(f"c{n}", 1.0 + n % 3) for n in range(9)]) as opened:
        assert figures(opened)[1].summary.startswith("The mean score on Satisfaction is ")
        assert figures(opened)[0].selection.question == "Q0"


# --- rubric page ------------------------------------------------------------------------------------------------------


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    (tmp_path / "rubric.yaml").write_text(dump_rubric(load_rubric("llm-rubric")), encoding="utf-8")
    file = tmp_path / "accord.yaml"
    file.write_text("store: sqlite:///accord.db\nrubric: rubric.yaml\n", encoding="utf-8")
    with Project(load_config(file)) as opened, open_workbench(opened, files=ProjectFiles(file)) as served:
        yield served


def test_a_name_is_edited_on_the_rubric_page(bench: Workbench, tmp_path: Path) -> None:
    browser = bench.browser()
    page = browser.get("/rubric")
    rubric = load_rubric(tmp_path / "rubric.yaml")
    place = [each.id for each in rubric.questions].index("Q0")
    assert f'name="name.{place}" value="Satisfaction" maxlength="40"' in page
    fields = {"form": token(page), f"name.{place}": MARKUP}
    preview = shown_after(browser, "/rubric", **fields, do="preview")
    assert not strange(preview) and html.escape(MARKUP) in preview and " rating" not in preview.partition("<pre")[0]
    shown = re.search(r'name="shown" value="([^"]+)"', preview)
    assert shown is not None
    assert browser.post("/rubric", **fields, do="save", shown="other")[0] == 409
    assert browser.post("/rubric", **fields, do="save", shown=shown[1])[0] == 303
    saved = load_rubric(tmp_path / "rubric-2.yaml")
    assert saved["Q0"].name == MARKUP and saved.hash == rubric.hash
    assert html.escape(MARKUP) in browser.get("/rubric")


@pytest.mark.attack
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("x" * 41, "got 41 characters, allowed: 40"),
        ("natural", "would both be shown as"),
        ("two\nlines", "line break"),
        ("\u202eevil", "control character"),
    ],
)
def test_the_rubric_page_tells_the_error_of_a_name(bench: Workbench, tmp_path: Path, name: str, error: str) -> None:
    browser = bench.browser()
    page = browser.get("/rubric")
    place = [each.id for each in load_rubric("llm-rubric").questions].index("Q0")
    status, page, _ = browser.post("/rubric", form=token(page), do="preview", **{f"name.{place}": name})
    assert status == 422 and error in html.unescape(page) and not (tmp_path / "rubric-2.yaml").exists()


# --- report, terminal, files ------------------------------------------------------------------------------------------


@pytest.mark.attack
def test_the_report_shows_the_name_escaped(tmp_path: Path, name: str) -> None:
    with sample_project() as opened:
        opened.rubric = opened.store.rubric = named(opened.rubric, Q0=name)
        opened.question = opened.rubric.main_question
        page = write_report(opened, tmp_path / "report.html").read_text(encoding="utf-8")
    assert name in plain(page) and MARKUP not in page and "<b onmouseover" not in page
    assert opened.rubric["Q0"].text in plain(page) and not re.search(r">\s*Q0\s*<", page)


def test_compare_prints_the_name_and_keeps_the_id_in_json(tmp_path: Path) -> None:
    with sample_project() as opened:
        compared = opened.compare()
    found = compared.to_json()
    assert (found["question"], found["question_name"]) == ("Q0", "Satisfaction")
    assert "\n\nSatisfaction: " in document_text(compared.document())


def test_scores_keep_ids_in_files(tmp_path: Path) -> None:
    with sample_project() as opened:
        opened.rubric = opened.store.rubric = named(opened.rubric, Q0=FORMULA)
        opened.question = opened.rubric.main_question
        opened.fit("default")
        opened.score([{"id": "new", "messages": [{"role": "user", "content": "Hi."}]}], out=tmp_path / "scores.csv")
    text = (tmp_path / "scores.csv").read_text(encoding="utf-8")
    [scored] = csv.DictReader(text.splitlines())
    assert "question:Q0" in scored["signature"] and FORMULA not in text and "question_name" not in scored

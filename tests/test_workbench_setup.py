"""Workbench from an empty folder: uploads and imports in the browser, and their limits."""

from __future__ import annotations

import html
import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from served_workbench import Browser, StartWorkbench, Workbench, chats, open_workbench, rate_all, shown_after, token
from test_board_pages import rows
from test_workbench_pages import strange

from accord import Conversation, Project, Turn
from accord.edges import BadInput
from accord.project import FileSurvey, config_from, load_config, new_project, text_diff, with_rubric_file, with_study
from accord.project.evaluators.retrain import recover_promotion, verdict_in_use
from accord.results import Figure, figure_html
from accord.store import Imports
from accord.values import Label, Target, dump_rubric, load_rubric
from accord.web import ProjectFiles
from accord.web.next_steps import main_button, next_steps
from accord.web.pages.settings import described_settings
from accord.web.uploads import UploadedFile, parse_multipart, save_uploads

CHATS = "".join(
    json.dumps({"id": chat.id, "messages": [{"role": turn.role, "content": turn.content} for turn in chat.turns],
                "metadata": dict(chat.metadata)}) + "\n"
    for chat in chats(6)
)  # fmt: skip
LABELS = "conversation,annotator,question,value\n" + "".join(
    f"gpt-9-{place},{name},tone,{1 + place % 5}\n" for place in range(6) for name in ("ann", "bob")
)


def multipart(fields: dict[str, str], files: list[tuple[str, str | bytes]]) -> tuple[bytes, str]:
    """Body and content type of an upload."""
    parts = [
        f'--sign\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    for name, content in files:
        head = f'--sign\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\nContent-Type: text/plain\r\n\r\n'
        parts.append(head.encode() + (content if isinstance(content, bytes) else content.encode()) + b"\r\n")
    return b"".join(parts) + b"--sign--\r\n", "multipart/form-data; boundary=sign"


def upload(browser: Browser, files: list[tuple[str, str | bytes]], **fields: str) -> tuple[int, str, str]:
    """Send files as the form of the page does, without script."""
    if "form" not in fields:
        fields["form"] = token(browser.get("/import"))
    body, kind = multipart(fields, files)
    return browser.ask("POST", "/import/files", body.decode("latin-1"), Content_Type=kind)


def imported(browser: Browser) -> dict:
    """Wait for the import, and return the state of the page."""
    until = time.monotonic() + 60
    while (state := json.loads(browser.get("/import.json")))["is_running"]:
        assert time.monotonic() < until
        time.sleep(0.05)
    return state


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Workbench]:
    """A workbench in a folder without a project."""
    file = tmp_path / "accord.yaml"
    with (
        Project(load_config(file) if file.exists() else _defaults(tmp_path)) as opened,
        open_workbench(opened, files=ProjectFiles(file)) as bench,
    ):
        yield bench


def _defaults(folder: Path):
    from accord.project import config_from

    return config_from({"store": f"sqlite:///{folder}/accord.db"}, folder=folder)


def test_empty_folder_starts_with_three_steps_and_becomes_a_project(empty: Workbench, tmp_path: Path) -> None:
    browser = empty.browser()
    page = browser.get("/")
    assert "Import conversations" in page and "New project in" in page and page.count("disabled") == 2
    assert "no project yet" in browser.get("/import")
    status, _, where = upload(browser, [("chats.jsonl", CHATS), ("labels.csv", LABELS)])
    assert (status, where) == (303, "/import")
    state = imported(browser)
    assert state["upload"]["error"] == "" and state["conversations"] == 6 and not state["is_new"]
    assert "12 labels imported, 0 already there" in state["upload"]["lines"]
    assert load_rubric(tmp_path / "rubric.yaml").main == "tone"
    config = load_config(tmp_path / "accord.yaml")
    assert Path(config.rubric) == tmp_path / "rubric.yaml"
    assert state["upload"]["summary"] == "6 conversations and 12 ratings imported"
    assert "6 conversations and 12 ratings imported" in browser.get("/import")
    assert "Import conversations" not in browser.get("/")
    assert [path.name for path in sorted((tmp_path / "uploads").iterdir())] == ["chats.jsonl", "labels.csv"]
    assert browser.post("/import/undo", form=token(browser.get("/import")), id=state["upload"]["id"])[0] == 303
    assert [each.status for each in Imports(empty.store).known()] == [
        "undone"
    ] and empty.store.count_conversations() == 0


def test_example_is_loaded_once_by_a_button(empty: Workbench) -> None:
    browser = empty.browser()
    page, demo = browser.get("/"), ">Demo</span>"
    form = token(page)
    assert demo not in page and browser.post("/import/example", form="0" * 64)[0] == 403
    assert browser.post("/import/example", form=form)[2] == "/import"
    state = imported(browser)
    assert state["upload"]["error"] == "" and state["conversations"] == 150 and empty.store.labels()
    assert browser.post("/import/example", form=form)[0] == 422
    assert "disabled" not in browser.get("/") and "150" in browser.get("/import")
    assert all(demo in browser.get(path) for path in ("/", "/lead", "/evaluators", "/people", "/help", "/nothing"))
    empty.store.add_conversations(chats(1))
    assert demo not in browser.get("/")


def test_the_page_shows_what_was_read_as_windows_1252_and_which_ids_were_matched(empty: Workbench) -> None:
    browser = empty.browser()
    chats = "".join(f"{row}\r\n" for row in ["id;prompt;response", *(f"c{n};Grüße {n}?;Für 5 €." for n in range(6))])
    labels = "".join(f"{row}\n" for row in ["id,annotator,tone", *(f"c{n}.txt,ann,{n % 3}" for n in range(6))])
    upload(browser, [("chats.csv", chats.encode("cp1252")), ("labels.csv", labels)])
    state = imported(browser)
    assert state["upload"]["error"] == ""
    page = browser.get("/import")
    assert "chats.csv is not UTF-8 and was read as Windows-1252 (cp1252)" in page
    assert "labels.csv: 6 ids matched without file endings and leading zeros" in page
    assert not any("labels.csv is not UTF-8" in each for each in state["upload"]["notes"])


def test_undo_on_the_page_removes_judgements(empty: Workbench, tmp_path: Path) -> None:
    browser = empty.browser()
    judged = "id,judge_score\n" + "".join(f"c{n},{n % 3}\n" for n in range(6))
    upload(browser, [("chats.jsonl", CHATS), ("labels.csv", LABELS), ("judge.csv", judged)])
    state = imported(browser)
    assert state["upload"]["error"] == "" and len(list((tmp_path / "judgments").iterdir())) == 1
    assert browser.post("/import/undo", form=token(browser.get("/import")), id=state["upload"]["id"])[0] == 303
    assert not list((tmp_path / "judgments").iterdir())


def test_upload_to_a_project_keeps_its_files_and_shows_the_error_of_the_command(
    empty: Workbench, tmp_path: Path
) -> None:
    browser = empty.browser()
    upload(browser, [("chats.jsonl", CHATS)])
    imported(browser)
    before = (
        (tmp_path / "accord.yaml").read_text(encoding="utf-8"),
        (tmp_path / "rubric.yaml").read_text(encoding="utf-8"),
    )
    upload(browser, [("more.jsonl", "{not json\n")])
    state = imported(browser)
    assert "more.jsonl" in state["upload"]["error"] and "The import stopped" in browser.get("/import")
    upload(browser, [("labels.csv", LABELS)])
    state = imported(browser)
    assert state["upload"]["other_questions"] == ["tone"]
    assert (
        (tmp_path / "accord.yaml").read_text(encoding="utf-8"),
        (tmp_path / "rubric.yaml").read_text(encoding="utf-8"),
    ) == before


@pytest.mark.attack
def test_uploads_are_for_leads_with_the_key_of_the_form_and_of_limited_size(empty: Workbench, tmp_path: Path) -> None:
    browser = empty.browser()
    form = token(browser.get("/import"))
    assert upload(Browser(empty.port, "http://x/healthz"), [("a.csv", LABELS)], form=form)[0] == 401
    assert upload(browser, [("a.csv", LABELS)], form="0" * 64)[0] == 403
    body, kind = multipart({"form": form}, [("a.csv", LABELS)])
    assert (
        browser.ask("POST", "/import/files", body.decode(), Content_Type=kind, Origin="http://evil.example")[0] == 403
    )
    assert upload(browser, [("a.csv", "x" * (50 * 2**20))], form=form)[0] == 413
    assert upload(browser, [], form=form)[0] == 422
    assert browser.ask("POST", "/import/files", "nonsense", Content_Type=kind)[0] == 422
    assert not (tmp_path / "uploads").exists()


@pytest.mark.attack
def test_names_of_uploaded_files_stay_in_their_folder(tmp_path: Path) -> None:
    names = ["../../etc/passwd", "C:\\x\\y.csv", ".env", "a b<script>.csv", "", "x" * 300 + ".csv"]
    saved = save_uploads([UploadedFile(name, b"1") for name in names], tmp_path)
    assert all(path.parent == tmp_path / "uploads" for path in saved)
    assert [path.name for path in saved][:5] == ["passwd", "y.csv", "env", "a-b-script-.csv", "data"]
    again = save_uploads([UploadedFile("y.csv", b"1"), UploadedFile("y.csv", b"2")], tmp_path)
    assert [path.name for path in again] == ["y.csv", "y-2.csv"]


def test_multipart_forms_keep_every_byte() -> None:
    content = bytes(range(256)) + b"\r\n--sig\r\n\r\n--"
    body, kind = multipart({"form": "k", "skip": "on"}, [('q"uo\\te.bin'.replace('"', '\\"'), content)])
    fields, files = parse_multipart(body, kind)
    assert fields == {"form": "k", "skip": "on"} and files[0].content == content
    for wrong in (body[:-8], b"", b"nonsense"):
        with pytest.raises(BadInput, match="not complete|not a valid form"):
            parse_multipart(wrong, kind)
    with pytest.raises(BadInput, match="content type"):
        parse_multipart(body, "application/json")


def part(disposition: str, content: str = "x") -> bytes:
    return f"--sign\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{content}\r\n".encode()


@pytest.mark.attack
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (part('a="' + '\\"' * 30_000), "not a valid form"),
        (part("aaaa" * 15_000), "not a valid form"),
        (part('name="a"; ' + 'b="' * 20_000), "not a valid form"),
        (b"--sign\r\n" + b"X: y\r\n" * 10_000 + b"\r\nx\r\n", "not a valid form"),
        (b"".join(part(f'name="{number}"') for number in range(500)), "more than 400 parts"),
        (part('name="a"') * 2, "twice"),
        (part('name="a"', "x" * 70_000), "larger than 64 kB"),
        (b"--sign\r\n" * 1000, "not a valid form"),
        (b"\r\n--sig" * 10_000, "not a valid form"),
    ],
)  # fmt: skip
def test_hostile_forms_are_refused(body: bytes, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        parse_multipart(body + b"--sign--\r\n", "multipart/form-data; boundary=sign")


@pytest.mark.attack
@pytest.mark.parametrize(
    "kind", ["", "multipart/form-data", "multipart/form-data; boundary=" + "a" * 100_000, "text/plain"]
)
def test_hostile_content_types_of_forms_are_refused(kind: str) -> None:
    with pytest.raises(BadInput):
        parse_multipart(part('name="a"') + b"--sign--\r\n", kind)


@pytest.mark.parametrize("name", ["\u5bf9\u8bdd" * 50 + ".jsonl", "\U0001f600\u00e9" * 90 + ".jsonl"])
def test_long_names_in_other_scripts_are_saved(tmp_path: Path, name: str) -> None:
    body, kind = multipart({"form": "k"}, [(name, "one"), (name, "two")])
    _, files = parse_multipart(body, kind)
    assert [file.name for file in files] == [name, name]
    saved = save_uploads(files, tmp_path)
    assert [path.read_text(encoding="utf-8") for path in saved] == ["one", "two"] and {
        path.suffix for path in saved
    } == {".jsonl"}


PROJECT_TEXT = """# our project
store: sqlite:///accord.db
studies:   # of people
    first:
        title: First     # keep
evaluator: default
"""


def test_a_study_is_added_to_a_project_file_and_all_other_lines_stay() -> None:
    changed = with_study(PROJECT_TEXT, "second", {"title": "Zweite: die", "items": {"sample": 3}})
    assert yaml.safe_load(changed)["studies"] == {
        "first": {"title": "First"}, "second": {"title": "Zweite: die", "items": {"sample": 3}},
    }  # fmt: skip
    removed = [
        line for line in text_diff(PROJECT_TEXT, changed, "accord.yaml") if line.startswith("-") and line[:3] != "---"
    ]
    assert removed == [] or removed == ["-studies:   # of people"]
    new = new_project(FileSurvey())[0]["accord.yaml"]
    assert yaml.safe_load(with_study(new, "x", {"title": "T"}))["studies"] == {"x": {"title": "T"}}
    assert yaml.safe_load(with_study("", "x", {"title": "T"})) == {"studies": {"x": {"title": "T"}}}
    assert yaml.safe_load(with_study("studies: {}\n", "x", {}))["studies"] == {"x": {}}
    with pytest.raises(BadInput, match="is in accord.yaml already"):
        with_study(PROJECT_TEXT, "first", {})
    with pytest.raises(BadInput, match="add this entry"):
        with_study("studies: {first: {title: A}}\n", "x", {})
    with pytest.raises(BadInput, match="annotators_per_item"):
        with_study(PROJECT_TEXT, "x", {"annotators_per_item": 0})


def test_the_rubric_of_a_project_file_is_replaced_in_its_line() -> None:
    changed = with_rubric_file("store: a\nrubric: old.yaml   # ours\n", "new.yaml")
    assert changed == "store: a\nrubric: new.yaml   # ours\n"
    assert with_rubric_file("store: a\n", "new.yaml") == "store: a\nrubric: new.yaml\n"


def test_home_of_an_annotator_continues_where_they_stopped(workbench: StartWorkbench) -> None:
    bench = workbench(people=["ann"], leads=["eva"])
    browser = bench.browser("ann")
    page = browser.get("/")
    assert "Start" in page and "0 of 12 done" in page and "What to do next" not in page
    look = bench.session()
    item = look.take("ann")
    assert item is not None
    rate_all(look, item)
    page = browser.get("/")
    assert "Continue where you stopped" in page and "1 of 12 done" in page
    data = json.loads(browser.get("/index.json"))
    assert set(data) == {"studies", "broken"} and "summary" not in data["studies"][0]


def test_home_of_a_lead_shows_studies_evaluator_and_the_next_steps(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the project's folder, without a project file
    bench = workbench(people=["ann", "bob"], leads=["eva"])
    browser = bench.browser("eva")
    page = browser.get("/")
    assert "0 of 12 <progress" in page and '<h1 dir="auto">No ratings yet</h1>' in page and "No scores yet" in page
    assert "12 conversations, no ratings" in page
    data = json.loads(browser.get("/index.json"))
    assert [step["address"] for step in data["next"]] == ["/lead/look"]
    look = bench.session()
    for name in ("ann", "bob"):
        while (item := look.take(name)) is not None:
            rate_all(look, item, 1 + item.item.place % 3)
    data = json.loads(browser.get("/index.json"))
    assert data["studies"][0]["full"] == 12 and data["counts"]["text"] == "12 conversations, 24 ratings by 2 people"
    assert [(step["address"], step["method"]) for step in data["next"]] == [("/lead/fit", "post")]
    folder = bench.project.folder()
    fitted = bench.project.fit(out=folder)
    verdict = verdict_in_use(bench.project, folder)
    assert fitted.evaluator.name == "default" and (verdict is None or verdict["sentence"])
    bench.store.finish_run(bench.store.start_run("compare", {}), "done", {"decision": {"text": "use <b>default</b>"}})
    page = browser.get("/")
    assert "Use &lt;b&gt;default&lt;/b&gt;" in page or "scores</h1>" in page or "Not yet: " in page
    assert "24 ratings by 2 people: all learned" in page and "use <b>" not in page and not strange(page)
    assert page.count('class="btn primary"') <= 1, "a page has one main button"
    data = json.loads(browser.get("/index.json"))
    assert ("/lead/score", "Score all") in [(step["address"], step["button"]) for step in data["next"]]


def test_home_reminds_people_and_counts_the_items_on_which_they_disagree(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bench = workbench(people=["ann", "bob"], leads=["eva"])
    look, browser = bench.session(), bench.browser("eva")
    while (item := look.take("ann")) is not None:
        rate_all(look, item, 1)
    places = []
    for _ in range(6):
        item = look.take("bob")
        assert item is not None
        places.append(item.item.place % 3)
        rate_all(look, item, 1 + places[-1])
    page = browser.get("/")
    steps = {step["text"]: step for step in json.loads(browser.get("/index.json"))["next"]}
    left = next(step for text, step in steps.items() if "still need a rating" in text)
    assert left["text"] == "6 items still need a rating" and left["reason"] == "First look · waiting for bob"
    assert left["reminder"].startswith("Please rate the next conversations of “First look”: http://")
    assert left["reminder"].count("/rate/look") == 1 and "Remind them" in page
    assert 'data-copy="Please rate' in page
    [row] = json.loads(browser.get("/index.json"))["studies"]
    assert (row["people"], row["waiting"], row["full"]) == (["ann", "bob"], ["bob"], 6)
    assert row["disputed"] == sum(place > 1 for place in places) > 0 and row["adjudicated"] == 0
    assert f"People disagree on {row['disputed']} items" in steps and ", " in row["agreement"]
    queue = json.loads(browser.get("/lead/look/disagree.json"))
    assert (queue["listed"], queue["done"]) == (row["disputed"], 0) and all(step["reason"] for step in steps.values())
    assert not strange(page)


def test_home_states_and_draws_the_difference_of_groups(workbench: StartWorkbench) -> None:
    bench = workbench()
    bench.project.mart.add(rows())
    browser = bench.browser()
    page = browser.get("/")
    trend = json.loads(browser.get("/index.json"))["trend"]
    assert trend["by"] == "assistant version" and {each["name"] for each in trend["groups"]} == {"a", "b"}
    assert (
        trend["headline"].startswith("No clear difference between b and a on Satisfaction")
        and f"<p>{trend['headline']}" in page
        and '<h2 id="scores">Difference b − a</h2>' in page
    )
    assert 'class="pt tool"' in page and 'href="/board"' in page and not strange(page)


def test_home_compares_ratings_while_the_evaluator_learned_from_all_scored_conversations(
    workbench: StartWorkbench,
) -> None:
    bench = workbench()
    bench.project.mart.add({**each, "in_training": True} for each in rows())
    turns = (Turn("user", "?"), Turn("assistant", "!"))
    bench.store.add_conversations(Conversation(f"c{n}", turns) for n in range(120))
    bench.store.add_labels(
        Label(Target(f"c{n}", 1), "Q0", name, (2 if n % 2 else 3) + n // 2 % 2)
        for n in range(120)
        for name in ("ann", "bob")
    )
    browser = bench.browser()
    page, trend = browser.get("/"), json.loads(browser.get("/index.json"))["trend"]
    learned = "The evaluator learned from all 120 conversations; import new ones to compare versions by scores."
    assert trend["note"] == learned and learned in page and not strange(page)
    assert "By people: 120 rated replies, 60 and 60, by 2 people." in page and 'href="/board"' in page
    assert 'class="pt people"' in page and 'class="pt tool"' not in page
    assert {each["name"]: each["value"] for each in trend["groups"]} == {"a": 3.5, "b": 2.5}
    bench.project.mart.add([{**each, "conversation": f"new-{each['conversation']}"} for each in rows()])
    page, trend = browser.get("/"), json.loads(browser.get("/index.json"))["trend"]
    assert trend["note"] == "" and 'class="pt tool"' in page and "By people" not in page


def test_main_button_imports_new_conversations_if_there_are_no_new_scores() -> None:
    actions = [{"text": "Compare versions", "command": "accord estimate"}, {"text": "Judge", "command": "accord judge"}]
    verdict = {"state": "systems", "actions": actions}
    evaluator = {"name": "e", "verdict": verdict, "candidate": None, "is_candidate_current": False, "fitting": None,
                 "scoring": None, "new_agreement": "people agree a little (0.27) on them", "fit_seconds": 14.0,
                 "refit": ""}  # fmt: skip
    counts = {"ratings": 571, "learned": 507, "new": 64}
    assert main_button(verdict, 18) == ("/board", "Compare versions")
    assert all(main_button(verdict, none) == ("/import", "Import new conversations") for none in (0, None))
    fit, judge = next_steps([], evaluator, counts, 0)
    assert fit["reason"] == (
        "The evaluator learned 507 of 571; people agree a little (0.27) on them; a fit takes about 14 seconds."
    )
    assert judge["command"] == "accord judge" and judge["reason"], "the board compares nothing yet"


# --- people and studies -----------------------------------------------------------------------------------------------


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Workbench]:
    """A workbench of a project with its files, six conversations and no study."""
    file = tmp_path / "accord.yaml"
    file.write_text(
        "# ours\nstore: sqlite:///accord.db\nrubric: rubric.yaml  # edited here\nmonitoring: {}\n", encoding="utf-8"
    )
    (tmp_path / "rubric.yaml").write_text(dump_rubric(load_rubric("llm-rubric")), encoding="utf-8")
    opened = Project(load_config(file))
    opened.store.add_conversations(chats(6))
    with opened, open_workbench(opened, files=ProjectFiles(file)) as bench:
        yield bench


def study_fields(browser: Browser, **changes: str) -> dict[str, str]:
    page = browser.get("/studies/new")
    fields = {"form": token(page), "title": "Was it <i>good</i>?", "level": "conversation", "question.Q0": "on",
              "question.Q1": "on", "sample": "4", "annotators_per_item": "2", "order": "random",
              "filter": "", "stratify": "", "guidelines": "Read.\r\nThen rate.", "do": "preview"}  # fmt: skip
    return {**fields, **changes}


def test_lead_creates_a_study_that_the_page_showed_and_people_rate_it(started: Workbench, tmp_path: Path) -> None:
    browser, file = started.browser(), tmp_path / "accord.yaml"
    before = file.read_text(encoding="utf-8")
    fields = study_fields(browser, filter='["system", "gpt-9"]', sample="2")
    page = shown_after(browser, "/studies/new", **fields)
    assert (
        "2 items, 2 people each" in page
        and "<i>" not in page
        and "+studies:" in page
        and file.read_text(encoding="utf-8") == before
    )
    rating = shown_after(browser, "/studies/new", **{**fields, "do": "rating"})
    assert browser.status == 200 and "nothing is saved here" in rating and "disabled" in rating and "Question" in rating
    shown = re.search(r'name="shown" value="([^"]+)"', page)
    assert shown is not None
    file.write_text(before + "seed: 3\n", encoding="utf-8")
    status, page, _ = browser.post("/studies/new", **{**fields, "do": "create", "shown": shown[1]})
    assert status == 409 and "has changed since" in page and "studies" not in file.read_text(encoding="utf-8")
    assert "+studies:" in page and "seed: 3" in page
    page = shown_after(browser, "/studies/new", **fields)
    shown = re.search(r'name="shown" value="([^"]+)"', page)
    status, _, where = browser.post("/studies/new", **{**fields, "do": "create", "shown": shown[1] if shown else ""})
    assert (status, where) == (303, "/lead/was-it-i-good-i?done=created")
    assert "The study is created." in browser.get(where)
    study = load_config(file).studies["was-it-i-good-i"]
    assert study.items.filter == {"system": ("gpt-9",)} and study.stages[0].questions == ("Q1", "Q0")
    assert (
        study.guidelines == "Read.\nThen rate.\n"
        and file.read_text(encoding="utf-8").startswith("# ours\n")
        and "seed: 3" in file.read_text(encoding="utf-8")
    )
    assert "Was it &lt;i&gt;good" in browser.get("/lead/was-it-i-good-i")
    entry = browser.get("/studies/was-it-i-good-i.yaml")
    assert yaml.safe_load(entry)["studies"]["was-it-i-good-i"]["items"]["sample"] == 2
    assert "Conversation" in browser.get("/rate/was-it-i-good-i/next")


def test_form_of_a_study_has_the_main_question_first_and_the_whole_wording(started: Workbench) -> None:
    browser, rubric = started.browser(), load_rubric("llm-rubric")
    page = html.unescape(browser.get("/studies/new"))
    names = re.findall(r'name="question\.([^"]+)"', page)
    assert names[0] == rubric.main and sorted(names) == sorted(each.id for each in rubric.questions)
    assert all(each.text in page for each in rubric.questions) and page.count('class="btn primary"') == 1
    assert "guidelines of this study" in page and "instructions of the" in page
    fields = study_fields(browser, annotators_per_item="2", sample="4")
    assert "for each person" not in shown_after(browser, "/studies/new", **fields), "nobody takes part yet"
    shown_after(browser, "/people", form=token(browser.get("/people")), once="a" * 32, names="eva", do="add")
    shown_after(browser, "/people", form=token(browser.get("/people")), once="b" * 32, names="ann bob cy", do="add")
    fields["form"] = token(browser.get("/studies/new"))
    page = shown_after(browser, "/studies/new", **fields)
    assert "4 items, 2 people each: about 3 items × 2 questions for each person" in page
    assert "about 1 item × 2 questions" in shown_after(browser, "/studies/new", **fields, items_per_annotator="1")


def test_form_of_a_study_offers_a_version_once(started: Workbench) -> None:
    started.store.add_conversations(
        Conversation(f"v{n}", (Turn("user", "?"),), metadata={"system": f"v{n % 2}", "version": f"v{n % 2}", "week": n})
        for n in range(4)
    )
    groups = re.findall('<optgroup label="([^"]+)"', started.browser().get("/studies/new"))
    assert "system" in groups and "week" in groups and "version" not in groups


def test_rubric_lists_the_main_question_first_with_its_number_in_the_file(started: Workbench) -> None:
    page, rubric = html.unescape(started.browser().get("/rubric")), load_rubric("llm-rubric")
    places = re.findall(r'name="text\.(\d+)"', page)
    assert int(places[0]) == [each.id for each in rubric.questions].index(rubric.main) and len(set(places)) == len(
        places
    )
    assert all(each.text in page for each in rubric.questions) and page.count('class="btn primary"') == 1
    assert "Earlier ratings stay" in page and "people agree" not in page and "clearer wording" not in page


def test_previewed_fields_stay_until_they_are_saved_or_discarded(started: Workbench) -> None:
    browser = started.browser()
    shown_after(browser, "/studies/new", **study_fields(browser))
    page = browser.get("/studies/new")
    assert "Was it &lt;i&gt;good" in page and "not saved yet" in page and "Then rate." in page
    other = started.browser()
    assert "Was it" not in other.get("/studies/new") and other.ask("GET", "/studies/new/preview")[0] == 303
    assert "Was it" not in shown_after(browser, "/studies/new", form=token(page), do="discard")
    form = token(browser.get("/rubric"))
    shown_after(browser, "/rubric", form=form, do="preview", instructions="Read <b>slowly</b>.")
    page = browser.get("/rubric")
    assert "Read &lt;b&gt;slowly" in page and "not saved yet" in page
    assert "slowly" not in shown_after(browser, "/rubric", form=form, do="discard")


@pytest.mark.parametrize(("change", "error"), [
    ({"title": " "}, "no title"), ({"question.Q0": "", "question.Q1": ""}, "no question chosen"),
    ({"sample": "none"}, "sample: got"), ({"filter": "{"}, "filter cannot be read"), ({"name": "../x"}, "name of a study"),
    ({"order": "by <script>"}, "order"), ({"filter": '["system", "unheard"]'}, "no conversation matches"),
    ({"level": "pair"}, "is about single conversations and replies"), ({"filter": "[" * 4000}, "filter cannot be read"),
    ({"person.zoe": "on"}, "no user &#39;zoe&#39;; there are no users yet"),
])  # fmt: skip
def test_form_of_a_study_keeps_its_fields_and_tells_the_error(
    started: Workbench, tmp_path: Path, change: dict[str, str], error: str
) -> None:
    browser = started.browser()
    status, page, _ = browser.post("/studies/new", **study_fields(browser, **change))
    assert status == 422 and error in page and not strange(page) and "Then rate." in page
    assert "studies" not in (tmp_path / "accord.yaml").read_text(encoding="utf-8")


def test_single_user_becomes_an_admin_and_adds_people_with_links(started: Workbench) -> None:
    browser = started.browser()
    page = browser.get("/people")
    assert "Your own account first" in page
    page = shown_after(browser, "/people", form=token(page), names="eva", do="add")
    assert "/in/" in page and "This one is yours" in page
    page = browser.get("/people")
    assert "Your own account first" not in page and browser.status == 200
    page = shown_after(browser, "/people", form=token(page), names="ann, bob", role="annotator", do="add")
    links = re.findall(r'value="(http://localhost:\d+/in/[^"]+)"', page)
    assert len(links) == 2 and "/in/" not in browser.get("/people")
    ann = Browser(started.port, links[0])
    assert ann.post("/in", key=links[0].rpartition("/")[2])[0] == 303
    assert "Studies" in ann.get("/") and ann.ask("GET", "/people")[0] == 403
    form = token(browser.get("/people"))
    assert browser.post("/people", form=form, names="cleo ANN", do="add")[0] == 409
    assert [each.name for each in started.studies.accounts.list_users()] == ["ann", "bob", "eva"]
    page = shown_after(browser, "/people", form=form, name="ann", do="link")
    assert page.count("/in/") == 1 and links[0] not in page and "The earlier link no longer works" in page
    assert ann.ask("GET", "/index.json")[0] == 401
    page = shown_after(browser, "/people", form=form, name="bob", do="role", role="lead")
    assert "The role is changed." in page
    assert [each.role for each in started.studies.accounts.list_users() if each.name == "bob"] == ["lead"]
    assert "The account is removed." in shown_after(browser, "/people", form=form, name="bob", do="remove")
    assert browser.post("/people", form=form, name="eva", do="remove")[0] == 422


@pytest.mark.attack
def test_form_sent_twice_shows_the_same_links(workbench: StartWorkbench) -> None:
    bench = workbench(leads=["eva", "ida"])
    eva = bench.browser("eva")
    page = eva.get("/people")
    once = re.search(r'name="once" value="([^"]+)"', page)
    assert once is not None
    fields = {"form": token(page), "once": once[1], "names": "ann bob", "do": "add"}
    links = []
    for _ in range(2):
        page = shown_after(eva, "/people", **fields)
        links.append(re.findall(r'value="(http://localhost:\d+/in/[^"]+)"', page))
    assert len(set(links[0])) == 2 and links[0] == links[1]
    assert bench.browser().post("/in", key=links[1][1].rpartition("/")[2])[0] == 303
    assert shown_after(eva, "/people", **{**fields, "names": "ann"}).count("/in/") == 1
    other, (_, _, where) = bench.browser("ida"), eva.post("/people", **fields)
    assert eva.get(where).count("/in/") == 2 and "/in/" not in other.get(where), "another session sees no links"
    assert "/in/" not in eva.get(where.replace(once[1], "x" * 43)) + eva.get("/people?once=&names=ann")
    assert eva.post("/people", **{**fields, "once": ""})[0] == 409


@pytest.mark.attack
@pytest.mark.parametrize(
    ("names", "error"),
    [
        ("cleo dan <b>", "allowed: 1 to 40"),
        ("cleo Ann", "there is a user"),
        ("cleo Cleo", "differ only in case"),
        ("cleo Adjudicated", "is reserved"),
    ],
)
def test_people_are_added_all_or_none(workbench: StartWorkbench, names: str, error: str) -> None:
    bench = workbench(people=["ann"], leads=["eva"])
    eva = bench.browser("eva")
    status, page, _ = eva.post("/people", form=token(eva.get("/people")), names=names, do="add")
    assert status in (409, 422) and error in page and "Nobody was added" in page
    assert [each.name for each in bench.studies.accounts.list_users()] == ["ann", "eva"]


@pytest.mark.attack
def test_leads_manage_annotators_only_and_annotators_nobody(workbench: StartWorkbench) -> None:
    bench = workbench(people=["ann"], leads=["eva", "ida"])
    eva, ann = bench.browser("eva"), bench.browser("ann")
    form, own = token(eva.get("/people")), token(ann.get("/"))
    assert eva.post("/people", form=form, names="max", role="admin", do="add")[0] == 403
    for action in ("link", "remove", "role"):
        assert eva.post("/people", form=form, name="ida", do=action)[0] == 403
    assert eva.post("/people", form=form, names="<b>", do="add")[0] == 422
    assert eva.post("/people", form="0" * 64, names="max", do="add")[0] == 403
    assert eva.post("/people", form=form, name="ann", do="role", role="admin")[0] == 403
    for path in ("/people", "/studies/new", "/studies/new/preview", "/import", "/studies/look.yaml", "/settings"):
        assert ann.ask("GET", path)[0] == 403
    for path in ("/people", "/studies/new", "/import/undo", "/import/example", "/settings"):
        assert ann.post(path, form=own, do="add", names="max")[0] == 403
    assert len(bench.studies.accounts.list_users()) == 3


# --- rubric -----------------------------------------------------------------------------------------------------------


def test_wording_is_saved_as_a_new_version_that_the_page_showed(started: Workbench, tmp_path: Path) -> None:
    browser, file = started.browser(), tmp_path / "accord.yaml"
    old, text = load_rubric(tmp_path / "rubric.yaml"), (tmp_path / "rubric.yaml").read_text(encoding="utf-8")
    place = [each.id for each in old.questions].index("Q0")
    form = token(browser.get("/rubric"))
    fields = {"form": form, f"text.{place}": "How <i>good</i> was it?", f"meaning.{place}.0": "Bad: really"}
    page = shown_after(browser, "/rubric", **fields, do="preview")
    assert not strange(page) and "How &lt;i&gt;good" in page and "rubric-2.yaml" in page and "edited here" in page
    assert not (tmp_path / "rubric-2.yaml").exists()
    shown = re.search(r'name="shown" value="([^"]+)"', page)
    assert shown is not None
    assert browser.post("/rubric", **fields, do="save", shown="other")[0] == 409
    status, _, address = browser.post("/rubric", **fields, do="save", shown=shown[1])
    assert (status, address) == (303, "/rubric?done=wording&saved=rubric-2.yaml")
    page = browser.get(address)
    assert "The new wording is saved." in page and "Saved as <code>rubric-2.yaml</code>" in page
    assert "aved as" not in browser.get("/rubric?saved=other.yaml") + browser.get("/rubric")
    new = load_rubric(tmp_path / "rubric-2.yaml")
    assert (
        new["Q0"].text == "How <i>good</i> was it?"
        and new["Q0"].meanings[str(new["Q0"].scale.options[0])] == "Bad: really"
    )
    assert [each for each in new.questions if each.id != "Q0"] == [each for each in old.questions if each.id != "Q0"]
    assert file.read_text(encoding="utf-8").splitlines()[2] == "rubric: rubric-2.yaml  # edited here"
    assert (tmp_path / "rubric.yaml").read_text(encoding="utf-8") == text
    assert json.loads(browser.get("/rubric.json"))["hash"] == new.hash
    assert "How &lt;i&gt;good" in browser.get("/studies/new")
    status, page, _ = browser.post("/rubric", form=form, do="preview", **{f"text.{place}": " "})
    assert status == 422 and "has no text" in page
    assert "the same as before" in shown_after(browser, "/rubric", form=form, do="preview")


def test_files_are_restored_if_the_project_cannot_be_opened_with_the_change(tmp_path: Path) -> None:
    files = ProjectFiles(tmp_path / "accord.yaml")
    files.path.write_text("store: sqlite:///accord.db\n", encoding="utf-8")
    changed = {"accord.yaml": "store: 3\n", "rubric-2.yaml": "name: x\n"}

    def fail() -> None:
        raise BadInput("cannot be opened")

    with pytest.raises(BadInput, match="cannot be opened"):
        files.change(changed, files.digest(changed), fail)
    assert (
        files.path.read_text(encoding="utf-8") == "store: sqlite:///accord.db\n"
        and not (tmp_path / "rubric-2.yaml").exists()
    )
    with pytest.raises(BadInput, match="not a file in the project"):
        files.text("../secret.yaml")


# --- settings ---------------------------------------------------------------------------------------------------------


def test_main_question_is_chosen_on_the_settings_page_and_comments_stay(started: Workbench, tmp_path: Path) -> None:
    browser, file = started.browser(), tmp_path / "accord.yaml"
    page = browser.get("/settings")
    assert "Satisfaction" in page and "no text is sent to one" in page and "Guidelines" in page
    found = re.search(r'name="shown" value="([^"]+)"', page)
    assert found is not None
    fields = {"form": token(page), "shown": found[1], "main": "Q1"}
    for wrong in ("Q99", "", "<script>"):
        assert browser.post("/settings", **{**fields, "main": wrong})[0] == 422
    assert browser.post("/settings", **{**fields, "shown": "other"})[0] == 409
    page = shown_after(browser, "/settings", **fields)
    assert "The settings are saved." in page and json.loads(browser.get("/settings.json"))["main"] == "Q1"
    assert load_rubric(tmp_path / "rubric-2.yaml").main == "Q1" and load_rubric(tmp_path / "rubric.yaml").main == "Q0"
    assert file.read_text(encoding="utf-8").startswith(
        "# ours\n"
    ) and "rubric: rubric-2.yaml  # edited here" in file.read_text(encoding="utf-8")
    assert browser.post("/settings", **{**fields, "main": "Q2"})[0] == 409, "the page is older than the files"


@pytest.mark.attack
def test_settings_in_words_hold_no_secret(tmp_path: Path) -> None:
    secret = "s3cret-of-ours"
    config = config_from({
        "store": f"postgresql://eva:{secret}@db.example/accord?password={secret}",
        "models": {"judge": {"model": f"hf:/home/{secret}/model", "base_url": f"https://user:{secret}@host/{secret}"}},
        "monitoring": {"webhook": f"https://hooks.example/{secret}"}, "budget": {"requests": 1200, "money": 2.5},
    }, folder=tmp_path)  # fmt: skip
    rows = described_settings(config)
    texts = {row["name"]: row["text"] for row in rows}
    assert secret not in json.dumps(rows) and str(tmp_path) not in json.dumps(rows)
    assert texts["Conversations and ratings"] == "in a PostgreSQL database" and texts["Models"] == "judge: hf:model"
    assert texts["Budget of a run"] == "at most 1,200 requests, 2.5 in money"


# --- evaluators -------------------------------------------------------------------------------------------------------


@pytest.mark.defaults
def test_lead_chooses_the_evaluator_in_use_and_restores_an_earlier_version(started: Workbench) -> None:
    project = started.project
    project.store.add_labels(
        Label(Target(f"gpt-9-{place}"), "Q0", name, 1 + place % 4) for place in range(6) for name in ("ann", "bob")
    )
    for name in ("default", "constant"):
        project.fit(name)
    browser = started.browser()
    page = browser.get("/evaluators")
    data = json.loads(browser.get("/evaluators.json"))["evaluators"]
    assert [(each["name"], each["is_in_use"]) for each in data] == [("constant", True), ("default", False)]
    form = token(page)
    both = json.loads(browser.get("/evaluators.json?first=default&second=constant"))["compared"]
    assert both["names"] == ["default", "constant"] and "12 ratings" in both["note"]
    assert {len(each["values"]) for each in both["rows"]} == {2} and both["rows"][0]["values"][0]["value"] > 0
    page = browser.get("/evaluators?first=default&second=constant")
    for name, row in zip(("default", "constant"), data[::-1], strict=True):
        [error] = [each for each in row["ledger"] if each["figure"] == "error"]
        assert row["name"] == name and figure_html(Figure.from_json(error)) in page and "12 held-out" in error["about"]
    compared = page.partition('id="compare"')[2].partition("</section>")[0]
    assert compared.count('class="pt tool"') == 2 and not strange(page)
    assert page.index("<details") < page.index('action="/evaluators/use"'), "a question comes first"
    used = browser.post("/evaluators/use", form=form, name="default")
    assert used[0] == 303 and used[2] == "/evaluators?done=used"
    assert project.folder().name == "default" and project.evaluator_in_use == "default"
    assert "Use constant" in browser.get("/evaluators")
    folder = project.folder()
    shutil.copytree(folder, folder.with_name("default.before-20260101T000000000000"))
    (folder / "evaluator.json").write_text(
        (folder / "evaluator.json").read_text(encoding="utf-8") + " ", encoding="utf-8"
    )
    page = browser.get("/evaluators")
    assert "Restore this version" in page and not strange(page)
    assert browser.post("/evaluators/use", form=form, name="default.before-20260101T000000000000")[0] == 303
    assert not (folder / "evaluator.json").read_text(encoding="utf-8").endswith(" ")
    names = [each["name"] for each in json.loads(browser.get("/evaluators.json"))["evaluators"]]
    assert len(names) == 3 and any(name.startswith("default.before-2026") for name in names)
    for name in ("../x", "default.before-../../x", "unheard", ""):
        assert browser.post("/evaluators/use", form=form, name=name)[0] == 422
    assert project.folder().name == "default"


def test_candidate_and_evaluator_in_use_are_compared_by_the_typical_error(started: Workbench) -> None:
    """Figures of the candidate's file, on the same ratings; a file of an earlier version has none."""
    project = started.project
    project.store.add_labels(
        Label(Target(f"gpt-9-{place}"), "Q0", name, 1 + place % 4) for place in range(6) for name in ("ann", "bob")
    )
    folder = project.fit("default").folder
    candidate = folder.with_name("default.candidate")
    shutil.copytree(folder, candidate)
    about = "the same 12 held-out ratings of 6 conversations"
    errors = [Figure("error", 0.98, n=12, about=about, part=part) for part in ("in use", "candidate")]
    figures = [*errors, Figure("error_change", 0.0, -0.1, 0.1, 12, about)]
    metrics = {"n": 12, "rmse": 0.931, "rmse_low": 0.8, "rmse_high": 1.1}
    test = {"statistic": "rmse", "difference": -0.034, "p_holm": 0.0015}
    report = {"made": "2026-11-29T06:00:00+00:00", "ratings": 12, "now": metrics, "before": metrics, "tests": [test],
              "summary": "The error changes by −0.034 points: the candidate is better."}  # fmt: skip
    pages = []
    for stored in ({**report, "ledger": [each.to_json() for each in figures], "summary": "Typical error 0.98"}, report):
        (candidate / "refit.json").write_text(json.dumps(stored), encoding="utf-8")
        page = html.unescape(started.browser().get("/evaluators?first=default.candidate&second=default"))
        assert not strange(page) and "0.034" not in page
        pages.append(page.partition('id="compare"')[2].partition("</section>")[0])
    new, old = pages
    keys = ("error:candidate", "error:in use", "error_change")
    assert [new.count(f'data-figure="{key}"') for key in keys] == [1, 1, 1]
    assert new.count("0.98") > 1 and "Error for known annotators" in new and "0.93" in new.partition("for known")[2]
    assert "compared this candidate by its error for known annotators only" in old and "error_change" not in old


def test_interrupted_restoration_is_undone(tmp_path: Path) -> None:
    folder = tmp_path / "default.before-20260101T000000000000"
    folder.mkdir()
    assert recover_promotion(tmp_path / "default") and (tmp_path / "default").is_dir() and not folder.exists()

"""Pages that write project files: texts stay texts, and no change of another writer is lost."""

from __future__ import annotations

import html
import json
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from served_workbench import Browser, Workbench, shown_after, token
from special_files import make_link, make_pipe
from test_workbench_setup import started as started  # the fixture
from test_workbench_setup import study_fields

from accord.edges import BadInput, dump_yaml, is_trusted, parse_yaml
from accord.project import load_config, study_yaml, with_study
from accord.project.evaluators.retrain import load_report
from accord.values import dump_rubric, load_rubric
from accord.web import ProjectFiles

SECRET = "sk-of-the-server-12345"


def hidden_fields(page: str) -> dict[str, str]:
    """Return the hidden fields of a page's last form that previews or saves, as a browser sends them again."""
    form = next(form for form in page.split("<form method")[::-1] if 'name="do"' in form)
    found = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', form)
    return {name: html.unescape(value).replace("\n", "\r\n") for name, value in found}


def saved(browser: Browser, path: str, fields: Mapping[str, str], action: str) -> tuple[int, str, str]:
    """Preview a form, and send the form of the preview."""
    return browser.post(path, **hidden_fields(shown_after(browser, path, **fields)), do=action)


def place_of(question: str, folder: Path) -> int:
    return [each.id for each in load_rubric(folder / "rubric.yaml").questions].index(question)


@pytest.mark.attack
def test_text_of_a_form_reads_no_variable_of_the_server(
    started: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    text = "${OPENAI_API_KEY} ${ACCORD_TOKEN} ${PGPASSWORD} ${NOT_SET_ANYWHERE}"
    browser = started.browser()
    fields = study_fields(browser, title=text, guidelines=text, name="look")
    assert saved(browser, "/studies/new", fields, "create")[0] == 303
    place = place_of("Q0", tmp_path)
    rubric = {"form": token(browser.get("/rubric")), f"text.{place}": text, "instructions": text}
    assert saved(browser, "/rubric", rubric, "save")[0] == 303
    study = load_config(tmp_path / "accord.yaml").studies["look"]
    assert (study.title, study.guidelines) == (text, text + "\n")
    for page in ("/", "/lead/look", "/studies/look.yaml", "/rubric", "/rate/look/next"):
        shown = html.unescape(browser.get(page))
        assert browser.status == 200 and SECRET not in shown and "[secret]" not in shown, page
    assert "${OPENAI_API_KEY}" in html.unescape(browser.get("/rate/look/next"))


@pytest.mark.parametrize("line_break", ["\r\n", "\r", "\n", "\x85", "\u2028", "\u2029"], ids=ascii)
def test_line_breaks_survive_the_preview(started: Workbench, tmp_path: Path, line_break: str) -> None:
    browser = started.browser()
    text = f"Read it.{line_break}{line_break}Then rate."
    fields = study_fields(browser, guidelines=text, name="look")
    assert saved(browser, "/studies/new", fields, "create")[0] == 303
    place = place_of("Q0", tmp_path)
    rubric = {"form": token(browser.get("/rubric")), f"text.{place}": text, "instructions": text}
    assert saved(browser, "/rubric", rubric, "save")[0] == 303
    new = load_rubric(tmp_path / "rubric-2.yaml")
    assert load_config(tmp_path / "accord.yaml").studies["look"].guidelines == "Read it.\n\nThen rate.\n"
    assert new["Q0"].text == new.instructions == "Read it.\n\nThen rate."


@pytest.mark.attack
@pytest.mark.parametrize("letter", ["\x1b", "\x00", "\u202e", "\x0b"], ids=ascii)
def test_control_characters_of_a_form_are_refused(started: Workbench, tmp_path: Path, letter: str) -> None:
    browser, before = started.browser(), (tmp_path / "accord.yaml").read_bytes()
    status, page, _ = browser.post("/studies/new", **study_fields(browser, guidelines=f"a{letter}b"))
    assert status == 422 and "guidelines: has a control character" in page
    status, page, _ = browser.post("/rubric", form=token(browser.get("/rubric")), instructions=f"a{letter}b")
    assert status == 422 and "instructions: has a control character" in page
    assert (tmp_path / "accord.yaml").read_bytes() == before and not (tmp_path / "rubric-2.yaml").exists()


@pytest.mark.attack
@pytest.mark.parametrize(
    "text", ["a\x85b", "a\u2028b\n", "a\rb", "a\r\nb", "\x0b\x0c\x1c", "no", "1_000", "# a: b"], ids=ascii
)
def test_every_text_is_read_back_from_yaml_as_it_was(text: str) -> None:
    assert parse_yaml(dump_yaml({"a": [text]}), "x") == {"a": [text]}
    study: dict[str, Any] = {"title": text.strip() or "x", "guidelines": text}
    assert yaml.safe_load(study_yaml("look", study)) == {"look": study}
    assert yaml.safe_load(with_study("# ours\ndraws: 3\n", "look", study))["studies"]["look"] == study
    rubric = load_rubric("llm-rubric").model_copy(update={"instructions": text})
    assert yaml.safe_load(dump_rubric(rubric))["instructions"] == text


# --- other writers of the same files ----------------------------------------------------------------------------------


def test_wording_that_another_writer_saved_is_shown_and_not_lost(started: Workbench, tmp_path: Path) -> None:
    browser, place = started.browser(), place_of("Q0", tmp_path)
    form = browser.get("/rubric")
    fields = {**hidden_fields(form), f"text.{place}": "My wording?", "do": "preview"}
    original = load_rubric(tmp_path / "rubric.yaml")
    (tmp_path / "rubric.yaml").write_text(
        dump_rubric(original.model_copy(update={"instructions": "By hand."})), encoding="utf-8"
    )
    assert "By hand." in browser.get("/rubric") and "has changed since this server read it" in browser.get("/rubric")
    status, page, _ = browser.post("/rubric", **fields, instructions="")
    assert status == 409 and "has changed since this page was made" in page and "-instructions: By hand." in page
    agreed = hidden_fields(page)
    third = [each.model_copy(update={"text": "A third wording?"}) if each.id == "Q0" else each
             for each in original.questions]  # fmt: skip
    (tmp_path / "rubric.yaml").write_text(
        dump_rubric(original.model_copy(update={"questions": tuple(third)})), encoding="utf-8"
    )
    status, page, _ = browser.post("/rubric", **agreed, do="save")
    assert status == 409 and "A third wording?" in page and not (tmp_path / "rubric-2.yaml").exists()
    assert browser.post("/rubric", **hidden_fields(page), do="save")[0] == 303
    assert load_rubric(tmp_path / "rubric-2.yaml").questions[place].text == "My wording?"


def test_wording_of_a_second_server_is_the_base_of_the_next_version(started: Workbench, tmp_path: Path) -> None:
    browser, place = started.browser(), place_of("Q0", tmp_path)
    old = load_rubric(tmp_path / "rubric.yaml")
    second = old.model_copy(update={"instructions": "Of the second server."})
    (tmp_path / "rubric-2.yaml").write_text(dump_rubric(second), encoding="utf-8")
    file = tmp_path / "accord.yaml"
    file.write_text(
        file.read_text(encoding="utf-8").replace("rubric: rubric.yaml", "rubric: rubric-2.yaml"), encoding="utf-8"
    )
    assert json.loads(browser.get("/rubric.json"))["hash"] == second.hash
    fields = {**hidden_fields(browser.get("/rubric")), f"text.{place}": "Mine?", "do": "preview"}
    assert saved(browser, "/rubric", fields, "save")[0] == 303
    new = load_rubric(tmp_path / "rubric-3.yaml")
    assert new.instructions == "Of the second server." and new.questions[place].text == "Mine?"


def test_questions_that_changed_since_the_form_take_no_wording_of_others(started: Workbench, tmp_path: Path) -> None:
    browser, old = started.browser(), load_rubric(tmp_path / "rubric.yaml")
    fields = {**hidden_fields(browser.get("/rubric")), "text.1": "My wording?", "do": "preview"}
    turned = old.model_copy(update={"questions": old.questions[::-1]})
    (tmp_path / "rubric.yaml").write_text(dump_rubric(turned), encoding="utf-8")
    status, page, _ = browser.post("/rubric", **fields)
    assert status == 409 and "questions of the rubric have changed" in page and "<pre>My wording?</pre>" in page
    assert load_rubric(tmp_path / "rubric.yaml").questions == turned.questions


def test_a_rubric_that_cannot_be_read_is_reported_and_not_overwritten(started: Workbench, tmp_path: Path) -> None:
    browser = started.browser()
    form = browser.get("/rubric")
    (tmp_path / "rubric.yaml").write_text("name: [", encoding="utf-8")
    assert "not valid YAML" in browser.get("/rubric") and browser.status == 200
    status, page, _ = browser.post("/rubric", **hidden_fields(form), do="preview")
    assert status == 422 and "not valid YAML" in page and not (tmp_path / "rubric-2.yaml").exists()


@pytest.mark.posix
@pytest.mark.attack
def test_saved_pages_keep_the_mode_and_follow_no_dangling_link(started: Workbench, tmp_path: Path) -> None:
    browser, file, away = started.browser(), tmp_path / "accord.yaml", tmp_path.parent / f"{tmp_path.name}-away.yaml"
    file.chmod(0o640)
    owner = file.stat().st_uid
    make_link(tmp_path / "rubric-2.yaml", away)
    fields = {"form": token(browser.get("/rubric")), "text.0": "Mine?", "do": "preview"}
    assert saved(browser, "/rubric", fields, "save")[0] == 303
    assert saved(browser, "/studies/new", study_fields(browser, name="look"), "create")[0] == 303
    assert (tmp_path / "rubric-3.yaml").is_file() and not away.exists() and (tmp_path / "rubric-2.yaml").is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640 and file.stat().st_uid == owner
    files = ProjectFiles(tmp_path / "empty/accord.yaml")
    files.folder.mkdir()
    make_link(files.folder / "accord.yaml", away)
    with pytest.raises(BadInput, match="is a link to a file that does not exist"):
        files.create({"accord.yaml": "draws: 3\n"})
    assert not away.exists()


def test_a_project_that_the_browser_creates_is_trusted(tmp_path: Path) -> None:
    files = ProjectFiles(tmp_path / "accord.yaml")
    files.create({"accord.yaml": "draws: 3\n"})
    files.create({"accord.yaml": "draws: 3\n"})
    assert is_trusted(tmp_path)
    (tmp_path / "given").mkdir()
    given = ProjectFiles(tmp_path / "given/accord.yaml")
    given.path.write_text("draws: 3\n", encoding="utf-8")
    assert given.create({"accord.yaml": "", "rubric.yaml": "x"}) == ["rubric.yaml"] and not is_trusted(given.folder)


# --- reports of candidates --------------------------------------------------------------------------------------------

REPORTS = ["", "[", "[]", "7", '{"now": 3}', '{"now": {"rmse": "x"}}', '{"now": {"rmse": 1, "rmse_low": 1}}',
           '{"tests": 5}', '{"summary": {}}', '{"verdict": {"title": 1}}', '{"labels": "many"}', '{"now": {"rmse": NaN}}',
           '{"verdict": "good"}', "[" * 5000, "pipe", "folder"]  # fmt: skip


@pytest.mark.posix
@pytest.mark.attack
def test_a_damaged_report_stops_no_page(started: Workbench) -> None:
    browser, folder = started.browser(), started.project.folder()
    candidate = folder.with_name(f"{folder.name}.candidate")
    for place in (folder, candidate):
        place.mkdir(parents=True)
        (place / "evaluator.json").write_text("{}", encoding="utf-8")
    for content in REPORTS:
        for place in (folder, candidate):
            report = place / "refit.json"
            if report.is_dir():
                report.rmdir()
            report.unlink(missing_ok=True)
            if content == "pipe":
                make_pipe(report)
            elif content == "folder":
                report.mkdir()
            else:
                report.write_text(content, encoding="utf-8")
        assert load_report(folder) is None, content[:40]
        for page in ("/", "/lead", "/evaluators"):
            browser.get(page)
            assert browser.status == 200, (page, content[:40])

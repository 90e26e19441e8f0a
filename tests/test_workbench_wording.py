"""Studies with generated wording: closed to annotators until a lead has edited or accepted it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import DARK, LIGHT, PHONE, faults, tab
from served_workbench import Workbench, chats, open_workbench, shown_after, token

from accord import Project
from accord.project import has_generated_text, infer_rubric, load_config, survey_files
from accord.studies import StudySession
from accord.values import dump_rubric, load_rubric
from accord.web import ProjectFiles

EVIL = "tone'><script>alert(1)</script>"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    """A project whose rubric was made from labels, with a study, an annotator and a lead."""
    labels = "id,annotator,tone,polite\n" + "".join(
        f"gpt-9-{n},p{n % 2},{1 + n % 5},{'yes' if n % 3 else 'no'}\n" for n in range(12)
    )
    (tmp_path / "labels.csv").write_text(labels.replace("tone", f'"{EVIL}"', 1), encoding="utf-8")
    rubric = infer_rubric(survey_files([str(tmp_path / "labels.csv")]).questions.values(), None).rubric
    (tmp_path / "rubric.yaml").write_text(dump_rubric(rubric), encoding="utf-8")
    file = tmp_path / "accord.yaml"
    file.write_text(
        "store: sqlite:///accord.db\nrubric: rubric.yaml\nstudies:\n  look: {title: First look}\n", encoding="utf-8"
    )
    with Project(load_config(file)) as opened:
        opened.store.add_conversations(chats(12))
        with open_workbench(opened, ["ann"], ["lea"], files=ProjectFiles(file)) as served:
            yield served


def settings_of(bench: Workbench) -> dict[str, Any]:
    return bench.studies.study("look") or {}


def test_generated_wording_is_edited_in_a_new_version_before_the_study_opens(bench: Workbench, tmp_path: Path) -> None:
    lea, ann = bench.browser("lea"), bench.browser("ann")
    for path in ("/rate/look", "/rate/look/next", "/rate/look/done"):
        assert "is not open yet" in ann.get(path) and ann.status == 422 and "/lead" not in ann.get(path)
    assert not bench.studies.all_assignments("look")
    assert "Check the wording" in lea.get("/lead")
    page = lea.get("/lead/look")
    assert "Check the wording before the study opens" in page and "<script>alert" not in page
    assert "Tone&#39;&gt;&lt;script" in page
    assert set(json.loads(lea.get("/lead/look.json"))["generated"]) == {EVIL, "polite"}
    texts = {name: f"Is it number {name}?" for name in re.findall(r'name="(text\.\d+)"', page)}
    assert len(texts) == 2
    form = {"form": token(page), **texts, "meaning.0.0": "Rude"}
    preview = shown_after(lea, "/rubric", do="preview", study="look", **form)
    assert lea.status == 200 and "Is it number" in preview
    shown = re.search(r'name="shown" value="([^"]+)"', preview)
    assert shown is not None
    assert 'name="study" value="look"' in preview
    assert lea.post("/rubric", do="save", shown=shown[1], study="look", **form)[2] == "/lead/look?done=wording"
    before, after = (load_rubric(tmp_path / name) for name in ("rubric.yaml", "rubric-2.yaml"))
    assert before.hash != after.hash and not any(map(has_generated_text, after.questions))
    assert "Is it number" in ann.get("/rate/look") and ann.status == 200, "the edited study is open"
    assert "Check the wording" not in lea.get("/lead/look")


def test_lead_opens_the_study_with_the_generated_wording_that_was_shown(bench: Workbench) -> None:
    lea, ann = bench.browser("lea"), bench.browser("ann")
    page = lea.get("/lead/look")
    [rubric] = set(re.findall(r'name="rubric" value="([^"]+)"', page))
    assert lea.post("/lead/look/open", form=token(page), rubric="s256:old")[0] == 422
    assert ann.post("/lead/look/open", form=token(ann.get("/")), rubric=rubric)[0] == 403
    assert "is not open yet" in ann.get("/rate/look")
    assert lea.post("/lead/look/open", form=token(page), rubric=rubric)[0] == 303
    assert "/rate/look/" in ann.ask("GET", "/rate/look/next")[2]
    assert settings_of(bench)["accepted_wording"] == rubric
    again = StudySession(bench.project, "look", bench.studies)
    assert not again.generated_questions() and settings_of(bench)["accepted_wording"] == rubric, (
        "kept at the next start"
    )


def test_home_offers_only_open_studies_and_a_closed_one_explains_itself(bench: Workbench) -> None:
    lea, ann = bench.browser("lea"), bench.browser("ann")
    home, study = ann.get("/"), ann.get("/rate/look")
    assert 'href="/rate/look"' not in home and "First look is not open yet" in home
    assert "<h1>Not open yet</h1>" in study and "Error" not in study and "You have nothing to do until then" in study
    dashboard = lea.get("/")
    assert 'href="/rate/look"' not in dashboard and 'href="/lead/look#wording"' in dashboard
    [study_row] = json.loads(lea.get("/index.json"))["studies"]
    assert "need ratings" not in json.dumps(json.loads(lea.get("/index.json"))["next"]) and study_row["closed"]
    bench.session().accept_wording()
    for browser in (lea, ann):
        assert 'href="/rate/look"' in browser.get("/") and "not open yet" not in browser.get("/").lower()


def test_studies_that_annotators_have_begun_stay_open(bench: Workbench) -> None:
    session = bench.session()
    assert [each.id for each in session.generated_questions()] == [EVIL, "polite"]
    assert session.take("ann") is not None
    assert not bench.session().generated_questions()


@pytest.mark.browser
def test_wording_form_is_accessible_and_fits_a_phone(browser: Any, bench: Workbench) -> None:
    with tab(browser, bench.port, bench.keys["lea"]) as page:
        page.goto("/lead/look")
        assert not faults(page, [LIGHT, DARK, PHONE])
        page.get_by_label("Question").first.fill("How friendly is the assistant?")
        page.get_by_role("button", name="Compare and save a new version").click()
        page.get_by_text("How friendly is the assistant?").first.wait_for()
        page.get_by_role("button", name=re.compile("Save")).first.click()
        page.wait_for_url("**/lead/look?done=wording")
        assert page.locator("#wording fieldset").count() == 1, "the other question is still to be checked"

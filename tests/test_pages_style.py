"""The style sheet of all pages, the menu of five sections, and the titles of tabs."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from served_workbench import StartWorkbench, rate_all

from accord.charts import STYLE, Axis, ChartRow, interval_plot
from accord.charts.plot_area import svg_file
from accord.values import Estimate

SOURCE = Path(__file__).parents[1] / "src" / "accord"
SECTIONS = ["Home", "Studies", "Scores", "Evaluators", "Setup", "Help"]
COLOR = re.compile(
    r"#[0-9a-f]{3,8}\b|\b(?:rgb|rgba|hsl|oklch|light-dark)\(|: (?:white|black|red|gray)\b", re.IGNORECASE
)


def rules() -> str:
    """Return the sheet after its first rule, which defines the tokens."""
    return STYLE[STYLE.index("}", STYLE.index(":root")) :]


def test_there_is_one_sheet() -> None:
    assert [path.name for path in SOURCE.rglob("*.css")] == ["style.css"]
    assert STYLE.count("{") == STYLE.count("}")


def test_colors_stand_in_the_tokens_alone_and_every_token_is_used() -> None:
    assert not COLOR.findall(rules())
    defined = set(re.findall(r"(--[\w]+(?:-\w+)?):", STYLE[: STYLE.index("}")]))
    used = set(re.findall(r"var\((--[\w-]+)\)", STYLE))
    assert defined == used


def test_every_rule_of_the_sheet_is_used() -> None:
    kinds = ("*.html", "*.js", "*.py")
    content = "\n".join(path.read_text(encoding="utf-8") for kind in kinds for path in SOURCE.rglob(kind))
    names = set(re.findall(r"\.([a-z][\w-]*)", re.sub(r'"[^"]*"', "", STYLE))) - {f"s{number}" for number in range(10)}
    assert not [name for name in sorted(names) if not re.search(rf"[\"' ]{name}[\"' {{]", content)]


def test_a_chart_as_a_file_has_its_tokens_and_no_rules_of_pages() -> None:
    content = svg_file(interval_plot([ChartRow("a", Estimate(0.5, 0.4, 0.6), "people")], Axis("x"), "title"))
    assert set(re.findall(r"var\((--[\w-]+)\)", content)) <= set(re.findall(r"(--[\w-]+):", content))
    assert ".chart .people" in content.replace(":is(.people, .s1)", ".people") and ".turn" not in content


def test_a_report_embeds_the_sheet() -> None:
    for name in ("report.html", "issues.html"):
        assert "<style>{{ style|safe }}</style>" in files("accord.report").joinpath(name).read_text(encoding="utf-8")


def menu(page: str) -> str:
    found = re.search(r'<nav class="menu" aria-label="Pages">(.*?)</nav>', page, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("path", "section", "second"),
    [
        ("/", "Home", ""),
        ("/lead", "Studies", "All studies"),
        ("/lead/look", "Studies", "Look"),
        ("/lead/look/disagree", "Studies", "Disagreement"),
        ("/comments", "Studies", "Comments"),
        ("/studies/new", "Studies", "New study"),
        ("/board", "Scores", "Board"),
        ("/explore", "Scores", "Explore"),
        ("/conversation/gpt-9-1?back=/board/list", "Scores", ""),
        ("/evaluators", "Evaluators", "All evaluators"),
        ("/import", "Setup", "Import"),
        ("/people", "Setup", "People"),
        ("/rubric", "Setup", "Rubric"),
        ("/help", "Help", ""),
    ],
)
def test_the_menu_marks_the_section_and_the_page(
    workbench: StartWorkbench, path: str, section: str, second: str
) -> None:
    browser = workbench(title="Look").browser()
    page = browser.get(path)
    assert browser.status == 200
    assert re.findall(r">([^<]+)</a>", menu(page)) == SECTIONS
    assert re.findall(r'aria-current="\w+">([^<]+)</a>', menu(page)) == [section]
    more = re.search(r'<nav class="menu second" aria-label="(\w+)">(.*?)</nav>', page, re.DOTALL)
    assert (more is not None) == (section not in ("Home", "Help"))
    if more is not None:
        assert more[1] == section and re.findall(r'aria-current="page">([^<]+)</a>', more[2]) == [second] * bool(second)
    title = re.search(r"<title>([^<]+)</title>", page)
    assert title is not None and title[1].strip() not in ("", "Accord")


def test_a_conversation_of_the_board_keeps_the_menu_and_the_way_back(workbench: StartWorkbench) -> None:
    page = workbench().browser().get("/conversation/gpt-9-1?back=/board/list")
    assert re.search(r'<a href="/board/list" rel="up"[^>]*>Back to the list', page) and ">Setup</a>" in menu(page)


def test_an_annotator_sees_only_what_he_may_open(workbench: StartWorkbench) -> None:
    ann = workbench(["ann"], ["lea"]).browser("ann")
    page = ann.get("/")
    assert re.findall(r">([^<]+)</a>", menu(page)) == ["Home", "Help"] and "second" not in page
    for path in re.findall(r'<a[^>]* href="(/[^"#]*)', page + ann.get("/help")):
        assert ann.ask("GET", path)[0] in (200, 303), path


def test_nobody_is_asked_to_rate_0_of_0(workbench: StartWorkbench) -> None:
    bench = workbench(["ann"], ["lea"], annotators=["ann"], annotators_per_item=1)
    look = bench.session()
    while (item := look.take("ann")) is not None:
        rate_all(look, item)
    lea = bench.browser("lea")
    page = lea.get("/")
    assert look.progress("lea") == (0, 0)
    assert "0 of 0" not in page and ">Rate<" not in page and "Disagreement" in lea.get("/lead")
    assert "0 of 0" not in lea.get("/rate/look/done")


def test_the_tab_names_the_folder_and_the_rubric(workbench: StartWorkbench, tmp_path: Path) -> None:
    browser = workbench().browser()
    assert re.search(r"<title>Home · [^<]+</title>", browser.get("/"))
    assert "<title>Rubric · llm-rubric</title>" in browser.get("/rubric")

"""The style sheet of all pages, the menu of five sections, and the titles of tabs."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from served_workbench import StartWorkbench, rate_all

from accord.charts import FONT, STYLE, Axis, ChartRow, interval_plot, style_with_font
from accord.charts.plot_area import svg_file
from accord.values import Estimate

SOURCE = Path(__file__).parents[1] / "src" / "accord"
SECTIONS = ["Home", "Studies", "Scores", "Evaluators", "Setup"]
COLOR = re.compile(
    r"#[0-9a-f]{3,8}\b|\b(?:rgb|rgba|hsl|oklch|light-dark)\(|: (?:white|black|red|gray)\b", re.IGNORECASE
)


def layer(name: str) -> str:
    """Return the content of a layer of the sheet."""
    return STYLE.partition(f"@layer {name} {{")[2].partition("\n@layer ")[0]


def test_there_is_one_sheet_of_four_layers_with_one_rule_a_line() -> None:
    assert [path.name for path in SOURCE.rglob("*.css")] == ["style.css"]
    assert STYLE.count("{") == STYLE.count("}")
    assert re.findall(r"^@layer (\w+) \{", STYLE, re.MULTILINE) == ["tokens", "base", "components", "charts"]
    rules = [line for line in (layer("base") + layer("components") + layer("charts")).splitlines() if "{" in line]
    crowded = [line for line in rules if line.count("{") > 1 and "@media" not in line]
    assert not [line for line in crowded if not line.startswith((".c-4", ".grid"))]


def test_colors_stand_in_the_tokens_alone_and_every_token_is_used() -> None:
    assert not COLOR.findall(layer("base") + layer("components") + layer("charts"))
    defined = set(re.findall(r"(--[\w]+(?:-\w+)?):", layer("tokens")))
    used = set(re.findall(r"var\((--[\w-]+)\)", STYLE))
    assert defined == used


def test_every_rule_of_the_sheet_is_used() -> None:
    kinds = ("*.html", "*.js", "*.py")
    content = "\n".join(path.read_text(encoding="utf-8") for kind in kinds for path in SOURCE.rglob(kind))
    plain = re.sub(r'"[^"]*"|url\([^)]*\)|/\*.*?\*/', "", STYLE, flags=re.DOTALL)
    names = set(re.findall(r"\.([a-z][\w-]*)", plain)) - {f"s{number}" for number in range(10)}
    assert not [name for name in sorted(names) if not re.search(rf"[\"'`. ]{name}[\"'` {{\\]", content)]


def test_the_font_is_the_only_file_of_the_sheet_and_a_report_has_it_inside() -> None:
    assert re.findall(r"url\(([^)]+)\)", STYLE) == [FONT]
    whole = style_with_font()
    assert re.findall(r"url\(([^,)]+)", whole) == ["data:font/woff2;base64"] and len(whole) > len(STYLE)
    for name in ("inter-license.txt", "lucide-license.txt"):
        assert files("accord.charts").joinpath("look", name).is_file()


def test_a_chart_as_a_file_has_its_tokens_and_no_rules_of_pages() -> None:
    content = svg_file(interval_plot([ChartRow("a", Estimate(0.5, 0.4, 0.6), "people")], Axis("x"), "title"))
    assert set(re.findall(r"var\((--[\w-]+)\)", content)) <= set(re.findall(r"(--[\w-]+):", content))
    assert (
        ".s1" in content
        and ".chart .axis" in content.replace(":is(.axis, .guide)", ".axis")
        and ".msg" not in content
        and "url(" not in content
    )


def test_a_report_embeds_the_sheet() -> None:
    for name in ("report.html", "issues.html"):
        assert "<style>{{ style|safe }}</style>" in files("accord.report").joinpath(name).read_text(encoding="utf-8")


def menu(page: str) -> list[tuple[str, str, str]]:
    """Return the sections and pages of the side bar: name, address, and `page` for the current one."""
    found = re.search(r'<nav class="nav" aria-label="Main">(.*?)</nav>', page, re.DOTALL)
    assert found is not None
    links = re.findall(r'<a href="([^"]+)"( aria-current="page")?>(?:<svg.*?</svg>)?([^<]+)</a>', found[1])
    return [(name.strip(), address, "page" if current else "") for address, current, name in links]


@pytest.mark.parametrize(
    ("path", "section", "second"),
    [
        ("/", "Home", ""),
        ("/lead", "Studies", "All studies"),
        ("/lead/look", "Studies", ""),
        ("/lead/look/disagree", "Studies", "Disagreement"),
        ("/comments", "Studies", "Comments"),
        ("/studies/new", "Studies", "New study"),
        ("/board", "Scores", "Board"),
        ("/explore", "Scores", "Explore"),
        ("/conversation/gpt-9-1?back=/board/list", "Scores", ""),
        ("/board/estimate", "Scores", "Mean ratings"),
        ("/evaluators", "Evaluators", "All evaluators"),
        ("/evaluators/compare", "Evaluators", "Comparison"),
        ("/judge", "Evaluators", "Judge"),
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
    links = menu(page)
    names = [name for name, *_ in links]
    assert [name for name in names if name in SECTIONS] == SECTIONS
    assert [name for name, _, current in links if current] == [second or section] * bool(
        second or section in ("Home", "Help") and path == "/"
    )
    assert ("All studies" in names) == (section == "Studies") and ("Board" in names) == (section == "Scores")
    assert ("People" in names) == (section == "Setup")
    title = re.search(r"<title>([^<]+)</title>", page)
    assert title is not None and title[1].strip() not in ("", "Accord")


def test_a_conversation_of_the_board_keeps_the_menu_and_the_way_back(workbench: StartWorkbench) -> None:
    page = workbench().browser().get("/conversation/gpt-9-1?back=/board/list")
    assert re.search(r'<a href="/board/list"[^>]*>Conversations</a>', page) and "Setup" in [
        name for name, *_ in menu(page)
    ]


def test_an_annotator_sees_only_what_he_may_open(workbench: StartWorkbench) -> None:
    ann = workbench(["ann"], ["lea"]).browser("ann")
    page = ann.get("/")
    assert [name for name, *_ in menu(page)] == ["Home"] and 'href="/help"' in page
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

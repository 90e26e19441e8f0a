"""The documentation site: navigation, links, and pages that need no network."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SETTINGS = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
CHECK = runpy.run_path(str(ROOT / "tools" / "check_site.py"), run_name="check_site")["check"]


def pages_of(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the pages of the navigation."""
    for entry in entries:
        for value in entry.values():
            yield from [value] if isinstance(value, str) else pages_of(value)


def test_every_page_is_in_the_navigation_or_left_out() -> None:
    named = Counter(pages_of(SETTINGS["nav"]))
    assert max(named.values()) == 1 and set(named) <= set(PAGES)
    outside = set(PAGES) - set(named)
    assert all(fnmatch(page, SETTINGS["not_in_nav"]) for page in outside), "add the page to nav in zensical.toml"


def test_tokens_mark_and_dark_pictures_of_the_site_are_those_of_the_product() -> None:
    style = (DOCS / "assets" / "site.css").read_text(encoding="utf-8")
    tokens = [" ".join(each.split()) for each in re.findall(r"(?<![\w-])--(?!md-)[\w-]+:[^;]+;", style)]
    product = " ".join((ROOT / "src/accord/charts/look/style.css").read_text(encoding="utf-8").split())
    assert len(tokens) >= 10 and [each for each in tokens if each not in product] == []
    mark = next((ROOT / "src/accord/web").rglob("mark.svg"))
    assert (DOCS / SETTINGS["theme"]["logo"]).read_bytes() == mark.read_bytes()
    dark = {path.name for path in (DOCS / "gallery").glob("*-dark.png")}
    assert set(re.findall(r"url\(\.\./gallery/([\w-]+\.png)\)", style)) == dark


def test_workflow_of_the_site_pins_actions_and_writes_only_to_pages() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/site.yml").read_text(encoding="utf-8"))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]) for step in steps if "uses" in step)
    assert workflow["permissions"] == {"contents": "read"} and "permissions" not in workflow["jobs"]["build"]
    assert workflow["jobs"]["publish"]["permissions"] == {"pages": "write", "id-token": "write"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site from copies of its sources."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "zensical.toml", folder)
    shutil.copytree(DOCS, folder / "docs")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=300, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


def test_links_lead_somewhere_and_nothing_comes_from_another_host(site: Path) -> None:
    found = CHECK(site)
    assert found.broken == found.loaded == []
    assert found.pages == len(PAGES) and found.links > 1000


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.html", '<a href="b.html">', "broken"),
        ("a.html", '<a href="#top">', "broken"),
        ("a.html", '<img src="a.png">', "broken"),
        ("a.html", '<a href="https://github.com/accord-eval/accord/blob/main/no-file.md">', "broken"),
        ("a.html", '<script src="https://cdn.example/a.js"></script>', "loaded"),
        ("a.html", '<link rel="stylesheet" href="//fonts.example/a.css">', "loaded"),
        ("a.css", "body { background: url(https://cdn.example/a.png) }", "loaded"),
        ("a.css", "body { background: url('a.png') }", "broken"),
    ],
)
def test_check_finds_broken_links_and_other_hosts(tmp_path: Path, name: str, text: str, kind: str) -> None:
    (tmp_path / "index.html").write_text('<h1 id="top">Top</h1><a href="#top"></a>')
    assert not CHECK(tmp_path).broken
    (tmp_path / name).write_text(text)
    found = CHECK(tmp_path)
    assert len(getattr(found, kind)) == 1 and len(found.broken) + len(found.loaded) == 1


class Elements(HTMLParser):
    """Numbers of elements of a text, without those that the theme adds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        is_added = given.get("class") == "headerlink" or str(given.get("id", "")).startswith("__")
        if tag in ("li", "tr", "pre", "img", "a", "h2", "h3", "strong", "blockquote") and not is_added:
            self.count[tag] += 1


def test_pages_have_the_elements_that_github_shows(site: Path) -> None:
    reader = MarkdownIt("gfm-like", {"linkify": False})
    for page in PAGES:
        built = site / page.replace("README.md", "index.md").replace(".md", ".html")
        article = built.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]
        shown = Elements(re.sub(r'<nav class="md-code__nav".*?</nav>', "", article, flags=re.S)).count
        assert shown == Elements(reader.render((DOCS / page).read_text(encoding="utf-8"))).count, page


@pytest.mark.browser
def test_pages_from_the_file_system_request_no_host_and_search_works(site: Path, browser: Any) -> None:
    for scheme, width in (("light", 1280), ("dark", 390)):
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
        tab, requested, failures = context.new_page(), [], []
        tab.on("request", lambda request, requested=requested: requested.append(request.url))
        tab.on("pageerror", lambda error, failures=failures: failures.append(str(error)))
        for page in ("index.html", "gallery/index.html", "papers/ciu.html", "settings.html"):
            tab.goto((site / page).as_uri(), wait_until="load")
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{page}: wider than the window"
        tab.locator(".md-search__button:visible, label[for=__search]:visible").first.click()
        tab.keyboard.type("conformal band")
        tab.get_by_text("Use a calibrated score").first.wait_for()
        assert requested and not failures and {url.partition(":")[0] for url in requested} <= {"file", "data", "blob"}
        context.close()

"""Debian's Chromium driven by Playwright, and axe-core: what tests of pages in a browser share; each skips with its reason."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from served_workbench import LINKS

AXE = "4.14.1"
PATIENCE = 60_000
"""Milliseconds for what should come."""
LIGHT, DARK, PHONE = ("light", 1280), ("dark", 1280), ("light", 390)
"""Looks of a page: the colours, and the width of the window."""
_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first has no windows, menus and pages of its own, which take half of the time of a whole browser."""
_OPTIONS = [
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-gpu",
    "--js-flags=--no-opt --no-maglev",  # scripts run once: none is worth compiling well
]


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        pytest.skip("there is no Chromium; install the system's package chromium-headless-shell, or chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=_OPTIONS)
        yield browser
        browser.close()


@contextmanager
def tab(browser: Any, port: int, key: str = "", **options: Any) -> Iterator[Any]:
    """A page in a new browser profile, signed in by a key or as the single user; script errors fail the test."""
    site = f"http://localhost:{port}"
    context = browser.new_context(base_url=site, **options)
    context.set_default_timeout(PATIENCE)
    if key:
        assert context.request.post("/in", form={"key": key}, headers={"Origin": site}).ok
    elif link := LINKS.get(port, lambda: None)():
        assert context.request.get(urlsplit(link).path).ok
    page, failures = context.new_page(), []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("console", lambda said: failures.append(said.text) if "Content Security Policy" in said.text else None)
    page.on("dialog", lambda dialog: dialog.accept())
    yield page
    context.close()
    assert not failures, failures


@cache
def axe() -> str:
    """The source of axe-core, fetched once into a cache of the tests."""
    cached = os.environ.get("ACCORD_TEST_CACHE") or Path.home() / ".cache" / "accord-tests"
    folder = Path(cached) / f"axe-core-{AXE}"
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("axe-core is not there, and neither is npm to fetch it")
        folder.mkdir(parents=True, exist_ok=True)
        options = ["--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts"]
        fetch = [npm, "install", *options, f"axe-core@{AXE}"]
        done = subprocess.run(fetch, capture_output=True, text=True, timeout=300)
        if not script.exists():
            pytest.skip(f"axe-core could not be fetched: {done.stderr.strip()[-200:]}")
    return script.read_text(encoding="utf-8")


def faults(page: Any, looks: Sequence[tuple[str, int]] = (LIGHT, DARK, PHONE)) -> list[str]:
    """Return violations of axe-core and horizontal overflow, for each color scheme and width."""
    page.evaluate(axe())
    wrong = []
    for scheme, width in sorted(looks, key=lambda look: look[0] != colours(page)):  # first those that it has
        page.set_viewport_size({"width": width, "height": 800})
        if scheme != colours(page):
            recolour(page)
        found = page.evaluate("async () => (await axe.run(document, { resultTypes: ['violations'] })).violations")
        said = [f"{each['id']}: {each['help']}: {node['html'][:200]}" for each in found for node in each["nodes"]]
        if not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            said.append("wider than the window")
        wrong += [f"{scheme}, {width} wide: {each}" for each in said]
    return wrong


def colours(page: Any) -> str:
    """Return the color scheme of a page: `light` or `dark`."""
    page.wait_for_function("document.documentElement !== null")  # a page that loads itself again has none for a moment
    return str(page.evaluate("document.documentElement.dataset.look"))


def recolour(page: Any) -> None:
    """Press the page's switch between light and dark, or set the other look where a page has no switch."""
    page.evaluate("""async () => {
        const { dataset } = document.documentElement, button = document.getElementById("look");
        button ? button.click() : dataset.look = dataset.look === "dark" ? "light" : "dark";
        await Promise.allSettled(document.getAnimations().map((each) => each.finished));  // colors that change slowly
    }""")

"""Documentation runs: Python blocks, the quickstart's commands, and the generated pages."""

from __future__ import annotations

import importlib.util
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import small_sample
from typer.testing import CliRunner

from accord.cli import (
    app,  # noqa: F401 - registers the commands
    commands,  # noqa: F401 - registers the commands
)
from accord.evidence import metrics, sources, turn_metrics
from accord.learning import heads
from accord.methods import rivals, selection_policies, selectors

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(autouse=True)
def the_sample_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty of its conversations show that a page runs."""
    monkeypatch.setattr("accord.sample.sources", small_sample.sources)


@pytest.fixture(autouse=True)
def plug_ins_stay_as_they_are() -> Iterator[None]:
    """What a page or an example registers is forgotten after it."""
    registries = (metrics, turn_metrics, sources, heads, selection_policies, selectors, rivals)
    before = [set(each.names()) for each in registries]
    yield
    for registry, known in zip(registries, before, strict=True):
        for name in set(registry.names()) - known:
            registry.forget(name)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
@pytest.mark.slow
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.slow
def test_the_quickstarts_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ACCORD_STORE", raising=False)
    monkeypatch.setenv("ACCORD_MODELS", str(tmp_path / "models"))
    ran = 0
    for block in blocks(ROOT / "docs" / "quickstart.md", "sh"):
        for line in block.replace("$SAMPLE", str(small_sample.sources()[0].parent)).splitlines():
            program, *arguments = shlex.split(line, comments=True)
            assert program == "accord"
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, f"{line}\n{result.output}"
            ran += 1
    assert ran >= 8 and Path("report.html").exists()


def test_every_command_of_the_readme_exists() -> None:
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), flags=re.M)
    known = {registered.name for registered in [*app.registered_commands, *app.registered_groups]}
    for block in blocks(ROOT / "README.md", "sh"):
        for line in block.splitlines():
            program, first, *_ = line.split()
            assert (
                (program == "make" and first in targets) or (program == "accord" and first in known) or program == "pip"
            )


@pytest.mark.slow
def test_generated_pages_are_those_of_this_code() -> None:
    spec = importlib.util.spec_from_file_location("write_docs", ROOT / "tools" / "write_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, page in module.PAGES.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page(), "run: make docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
        target = page.parent / link if link else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), f"{link}#{anchor}"


def anchors(page: Path) -> set[str]:
    """What can follow `#` in a link to a page: its headings, as they are linked to."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
@pytest.mark.slow
def test_examples_run(example: Path) -> None:
    runpy.run_path(str(example), run_name="__main__")

"""Notebooks of examples/notebooks run without an error or a warning, and the pages of the documentation show them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat
import pytest

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))
from write_notebooks import NOTEBOOKS, PAGES, page, run  # noqa: E402


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore:Proactor event loop:RuntimeWarning")  # of pyzmq on Windows
def test_notebooks_run(notebook: Path, tmp_path: Path) -> None:
    content = run(notebook, tmp_path)
    outputs = [output for cell in content.cells for output in cell.get("outputs", ())]
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
    written = page(content, notebook.stem)
    assert headings_and_code(written) == headings_and_code((PAGES / f"{notebook.stem}.md").read_text(encoding="utf-8"))
    assert len(re.findall(r"^```text|^\| --- \|", written, flags=re.M)) == len(outputs)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_pages_have_the_cells_of_their_notebooks(notebook: Path) -> None:
    content = nbformat.read(notebook, as_version=4)
    assert all(not cell.outputs and cell.execution_count is None for cell in content.cells if cell.cell_type == "code")
    shown = (PAGES / f"{notebook.stem}.md").read_text(encoding="utf-8")
    assert headings_and_code(shown) == headings_and_code(page(content, notebook.stem)), "renew it: make notebooks"


def test_each_notebook_has_a_page() -> None:
    assert NOTEBOOKS and {path.stem for path in NOTEBOOKS} == {path.stem for path in PAGES.glob("*.md")}


def headings_and_code(text: str) -> list[str]:
    """Return a page without the outputs of cells."""
    without_text = re.sub(r"^```text\n.*?^```$", "", text, flags=re.M | re.S)
    without_tables = re.sub(r"^[^\n]*\n\n(?:\|[^\n]*\n)+", "", without_text, flags=re.M)
    return without_tables.split()

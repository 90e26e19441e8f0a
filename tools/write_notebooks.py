"""Run the notebooks of examples/notebooks and write them with their outputs to docs/notebooks.

The stored notebooks have no outputs, which keeps their diffs small. Each runs in a kernel of its own, in an empty
folder. `python tools/write_notebooks.py NAME` runs a single notebook.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from accord.results import text_table, wrapped_table

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
PAGES = ROOT / "docs" / "notebooks"
SECONDS = 300
LONGEST_CELL = 60


def run(notebook: Path, folder: Path) -> Any:
    """Return a notebook with the outputs of its cells, run in a folder.

    Raises:
        CellExecutionError: A cell failed.
    """
    content = nbformat.read(notebook, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(content, timeout=SECONDS, resources=resources, coalesce_streams=True)
    client.execute(env={**os.environ, "IPYTHONDIR": str(folder / ".ipython")})
    return content


def page(content: Any, name: str) -> str:
    """Return a notebook that was run as Markdown, with tables as tables and other outputs as text."""
    title, *rest = content.cells
    heading, _, text = title.source.partition("\n\n")
    link = f"[{name}.ipynb](../../examples/notebooks/{name}.ipynb)"
    parts = [heading, _for_pages(text), f"`make notebooks` wrote this page from a run of the notebook {link}."]
    for cell in rest:
        if cell.cell_type == "markdown":
            parts.append(_for_pages(cell.source))
        else:
            parts += [f"```python\n{cell.source}\n```", *map(_shown, cell.outputs)]
    return "\n\n".join(parts) + "\n"


def _for_pages(text: str) -> str:
    """Return the text of a cell with its links as seen from the folder of the pages."""
    return re.sub(r"\]\(([\w-]+)\.ipynb\)", r"](\1.md)", text.replace("](../../docs/", "](../"))


def _shown(output: Any) -> str:
    """Return an output: the HTML table of a result as a table, the rest as text."""
    if output.output_type == "stream":
        return f"```text\n{output.text.strip()}\n```"
    html = output.data.get("text/html", "")
    if html.startswith(("<table>", "<table ")):
        return _Table(html).markdown()
    is_document = html.startswith("<p><b>")
    return f"```text\n{_Document(html).text() if is_document else output.data['text/plain']}\n```"


class _Table(HTMLParser):
    """Cells of a table of `accord.values.html_table`."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.caption = ""
        self.rows: list[list[str]] = []
        self._tag = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag = tag
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self._tag == "caption":
            self.caption += data
        else:
            self.rows[-1][-1] += data

    def markdown(self) -> str:
        """Return the table with its caption above it."""
        header, *rows = ["| " + " | ".join(each.replace("|", "\\|") for each in row) + " |" for row in self.rows]
        line = "|" + " --- |" * len(self.rows[0])
        return "\n".join([f"{self.caption}\n", header, line, *rows])


class _Document(HTMLParser):
    """Paragraphs and tables of `accord.results.document_html`; a paragraph is a table of one cell."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.blocks: list[list[list[str]]] = []
        self._is_text = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_text = self._is_text or tag in {"p", "h3", "td", "th"}
        if tag in {"p", "h3"}:
            self.blocks.append([[""]])
        elif tag == "table":
            self.blocks.append([])
        elif tag == "tr":
            self.blocks[-1].append([])
        elif tag in {"td", "th"}:
            self.blocks[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._is_text = self._is_text and tag not in {"p", "h3", "td", "th"}

    def handle_data(self, data: str) -> None:
        if self._is_text:
            self.blocks[-1][-1][-1] += data

    def text(self) -> str:
        """Return the paragraphs, and the tables as aligned text."""
        shown = []
        for block in self.blocks:
            is_wide = max(len(cell) for row in block for cell in row) > LONGEST_CELL
            shown.append(
                block[0][0] if len(block) == 1 else (wrapped_table if is_wide else text_table)(block[0], block[1:])
            )
        return "\n\n".join(filter(None, shown))


if __name__ == "__main__":
    PAGES.mkdir(exist_ok=True)
    for notebook in [each for each in NOTEBOOKS if len(sys.argv) == 1 or each.stem in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as folder:
            content = run(notebook, Path(folder))
        (PAGES / f"{notebook.stem}.md").write_text(page(content, notebook.stem), encoding="utf-8")

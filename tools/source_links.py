"""Markdown extension of the site: a link to a file outside docs leads to the file in the repository."""

from __future__ import annotations

import posixpath
from xml.etree.ElementTree import Element

from check_site import SOURCES
from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor
from zensical.extensions.context import ContextPreprocessor


class SourceLinks(Treeprocessor):  # type: ignore[misc] # Markdown has no types
    """Replace relative links that leave docs."""

    def run(self, root: Element) -> None:
        """Replace the links of a page."""
        context = ContextPreprocessor.from_markdown(self.md)
        folder = posixpath.join("docs", posixpath.dirname(context.page.path)) if context else "docs"
        for link in root.iter("a"):
            path, sign, anchor = link.get("href", "").partition("#")
            target = posixpath.normpath(posixpath.join(folder, path))
            if ":" not in path and not target.startswith("docs"):
                link.set("href", f"{SOURCES}{target}{sign}{anchor}")


class SourceLinksExtension(Extension):  # type: ignore[misc]
    """Registration of the replacement after the parser of links."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Add the replacement."""
        md.treeprocessors.register(SourceLinks(md), "source_links", 0)


def makeExtension() -> Extension:
    """Return the extension."""
    return SourceLinksExtension()

"""Check the built documentation site: links and anchors, and that no page loads anything from another host.

    python tools/check_site.py [site]

Prints the number of pages and links, and the links to other hosts, which it does not request. Exits with 1 if a link is
broken.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
SOURCES = "https://github.com/accord-eval/accord/blob/main/"
"""Address of files of the repository that are no pages of the site."""
LOADED = {"script", "link", "img", "source", "iframe", "video", "audio", "embed", "object", "use"}
"""Elements that a browser loads; other links wait for a click."""


class Page(HTMLParser):
    """Links and anchors of an HTML page."""

    def __init__(self, path: Path) -> None:
        """Read a file."""
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, str]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the anchor and the links of an element."""
        given = {name: value for name, value in attrs if value}
        if given.get("rel") == "canonical":  # the address of the page itself
            return
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.links += [(tag, given[name]) for name in ("href", "src", "data", "poster") if name in given]


@dataclass
class Findings:
    """Counts of a site, and its links that are broken, load from another host, or lead to one."""

    pages: int = 0
    links: int = 0
    broken: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    external: set[str] = field(default_factory=set)


def check(site: Path) -> Findings:
    """Check every page and style sheet of a site."""
    files = sorted(site.rglob("*.html"))
    pages = {path.resolve(): Page(path) for path in files if path.name != "404.html"}  # served at any depth
    found = Findings(pages=len(pages))
    for path, page in pages.items():
        for tag, link in page.links:
            found.links += 1
            _check_link(path, tag, link, pages, found, site)
    for style in site.rglob("*.css"):
        for link in re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", style.read_text(encoding="utf-8")):
            _check_link(style.resolve(), "link", "".join(link), pages, found, site)
    return found


def _check_link(path: Path, tag: str, link: str, pages: dict[Path, Page], found: Findings, site: Path) -> None:
    """Add a link to the findings if it is broken or names another host."""
    address = urlsplit(link)
    place = f"{path.relative_to(site.resolve()).as_posix()}: {link}"
    if address.scheme == "data":
        return
    if address.scheme or address.netloc:
        if tag in LOADED:
            found.loaded.append(place)
        found.external.add(link)
        if link.startswith(SOURCES) and not (ROOT / address.path.removeprefix(urlsplit(SOURCES).path)).exists():
            found.broken.append(place)
        return
    target = (path.parent / unquote(address.path)).resolve() if address.path else path
    if target.is_dir():
        target /= "index.html"
    anchor = unquote(address.fragment)
    if not target.is_file() or (anchor and target in pages and anchor not in pages[target].anchors):
        found.broken.append(place)


def main() -> int:
    """Check the site, and print the findings."""
    found = check(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site")
    for link in sorted(found.external):
        print(f"not requested: {link}")
    for problem in [*found.broken, *(f"{each} (loaded from another host)" for each in found.loaded)]:
        print(f"broken: {problem}")
    print(f"{found.pages} pages, {found.links:,} links, {len(found.broken) + len(found.loaded)} broken")
    return 1 if found.broken or found.loaded or not found.pages else 0


if __name__ == "__main__":
    raise SystemExit(main())

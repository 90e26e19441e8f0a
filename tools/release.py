"""Check that all files state the version of a tag, and print its section of the changelog.

`python tools/release.py v0.2.0` needs nothing but Python. Links of the section lead to the files of the tag.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = "https://github.com/accord-eval/accord/blob"
VERSION = r'^(?:__version__ = |version: )"?([^"\s]+)"?$'
STATES_VERSION = ("src/accord/version.py", "packages/accord-papers/src/accord_papers/version.py", "CITATION.cff")
HEADING = r"^## ([^\s(]+) \(([^)]*)\)$"


def sections(changelog: str) -> dict[str, tuple[str, str]]:
    """Return the date and the text of each version of a changelog."""
    _, *parts = re.split(HEADING, re.sub(r"(?ms)^## Unreleased$.*?(?=^## |\Z)", "", changelog), flags=re.M)
    return {version: (day, text.strip()) for version, day, text in zip(*[iter(parts)] * 3, strict=True)}


def problems(tag: str, root: Path) -> Iterator[str]:
    """Yield a sentence for each file that does not state the version of a tag."""
    version = tag.removeprefix("v")
    if not re.fullmatch(r"v\d+\.\d+\.\d+", tag):
        yield f"{tag!r} is no tag of a release; use v and the version, such as v0.2.0"
    for name in STATES_VERSION:
        stated = re.findall(VERSION, (root / name).read_text(encoding="utf-8"), flags=re.M)
        if stated != [version]:
            yield f"{name} states {', '.join(stated) or 'no version'}; write {version}"
    found = sections((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    if version not in found:
        yield f"CHANGELOG.md has no section of {version}; add the heading: ## {version} (YYYY-MM-DD)"
        return
    day, text = found[version]
    try:
        date.fromisoformat(day)
    except ValueError:
        yield f"CHANGELOG.md dates {version} with {day}; write YYYY-MM-DD"
    if not text:
        yield f"CHANGELOG.md lists no change of {version}"


def notes(tag: str, root: Path) -> str:
    """Return the changelog's section of a tag, with addresses in place of relative links."""
    _, text = sections((root / "CHANGELOG.md").read_text(encoding="utf-8"))[tag.removeprefix("v")]
    return re.sub(r"\]\((?!https:)([^)]+)\)", rf"]({FILES}/{tag}/\1)", text)


def main(tag: str, root: Path = ROOT) -> None:
    """Print the notes of a release.

    Raises:
        SystemExit: Files state other versions than the tag.
    """
    if wrong := list(problems(tag, root)):
        sys.exit("\n".join(wrong))
    print(notes(tag, root))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")

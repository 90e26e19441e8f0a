"""Count phrases in docstrings, comments, messages and pages that technical documentation does not use.

    python benchmarks/wording.py PATH ...

The patterns find habits, not bad writing: a low count is necessary, not sufficient.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PATTERNS = {
    "docstring start": r"^(What|Who|Whose|Whom|How|Whether|Where|Which|That|So|Of)\b",
    "passive of say, tell, ask": r"\b(is|are|was|were|be|been|being) (said|told|asked for|heard of|spoken of)\b"
    r"|\b(says|tells) (so|of|what|which|whose|how|that it|it)\b|\bsaid (of|once|so|by)\b|\btold (of|apart)\b",
    "indefinite person": r"\b(nobody|somebody|whoever|whomever|whom|anybody)\b",
    "indefinite thing": r"\b(whatever|wherever|whichever)\b",
    "trailing pronoun": r"\b(of it|of them|of whom|in it|at it|with it|about it|beside it|besides it)\b(?=[ ,.;:)]|$)",
    "beside": r"\bbeside\b",
    "what clause": r"\b(what|all that|all of what) (is|are|was|were|came|comes|has|had|have|can|could|may|it|they|one"
    r"|a|an|the|each|people|nobody|somebody|others)\b",
    "where for if": r"[;,:] where (it|there|that|one|nobody|somebody|no|nothing|a|an|the|each|all|they|people) \b",
    "number words": r"\b(so many|as many as there are|no more than one|the fewer of|so large a|as one)\b",
    "archaic": r"\b(anew|thereby|therein|whereof|hence|lest|once more|by itself alone|alike|in the same moment|none of"
    r"|at hand|to hand|a row of them)\b",
}
_COMPILED = {
    kind: re.compile(text, 0 if kind == "docstring start" else re.IGNORECASE) for kind, text in PATTERNS.items()
}
_SKIPPED = {"migrations", ".venv", "node_modules", "results"}
_SHORTEST_STRING = 25
"""Shorter strings in code are identifiers and keys."""


@dataclass(frozen=True)
class WordingCount:
    """Number of lines of prose and of occurrences by kind."""

    lines: int
    kinds: Counter[str]

    @property
    def per_thousand(self) -> float:
        """Occurrences per 1,000 lines of prose."""
        return 1000 * self.kinds.total() / max(self.lines, 1)


def count(paths: Iterable[Path]) -> WordingCount:
    """Count the patterns in Python, Markdown and HTML files below the paths."""
    lines, kinds = 0, Counter[str]()
    for path in files_below(paths):
        for text, opens_docstring in prose_of(path):
            lines += 1
            kinds.update(
                kind
                for kind, pattern in _COMPILED.items()
                if (opens_docstring or kind != "docstring start") and pattern.search(text)
            )
    return WordingCount(lines, kinds)


def files_below(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files with prose, in order."""
    for path in paths:
        below = [path] if path.is_file() else sorted(path.rglob("*"))
        yield from (p for p in below if p.suffix in {".py", ".md", ".html"} and not _SKIPPED & set(p.parts))


def prose_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield each line of prose and True if it is the first of a docstring."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return _prose_of_python(text) if path.suffix == ".py" else _prose_of_text(text)


def _prose_of_python(text: str) -> Iterator[tuple[str, bool]]:
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.add(node.lineno)
            lines = [line.strip() for line in node.value.value.splitlines() if line.strip()]
            yield from ((line, number == 0) for number, line in enumerate(lines))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# "), False
        elif token.type == tokenize.STRING and token.start[0] not in docstrings and _is_message(token.string):
            yield from ((line.strip(), False) for line in token.string.splitlines())


def _is_message(string: str) -> bool:
    return " " in string and len(string) > _SHORTEST_STRING


def _prose_of_text(text: str) -> Iterator[tuple[str, bool]]:
    is_code = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and line.strip():
            yield re.sub(r"<!--.*?-->|`[^`]*`", "", line).strip(), False


if __name__ == "__main__":
    result = count(map(Path, sys.argv[1:]))
    print(f"{result.lines} lines of prose, {result.per_thousand:.1f} phrases per 1,000:", dict(result.kinds))

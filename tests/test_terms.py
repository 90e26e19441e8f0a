"""One term for each thing in the texts that users read; `docs/concepts.md` and the glossary of `methods.md` list them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "accord"
LONGEST_SHOWN = 100

RETIRED = {
    r"plausibility gate|gate (?:learns|applies|against|lowers)": "plausibility check",
    r"\braters?\b": "annotator",
    r"best (?:single )?column|single column": "best single feature",
    r"chat systems?\b|comparing systems|within systems|(?:by|each|per|no|fewer than two) systems?\b(?!`)"
    r"|<th[^>]*>systems?</th>": "assistant version",
    r"^system$": "evaluator, or assistant version",
    r"(?:fit|compare|report) calibration\b|evaluators/calibration|evaluator: calibration\b": "default",
    r"central 80%": "80% interval",
}
"""Pattern of a retired term, and the term to write instead."""

ALLOWED = {
    r"no system of table 1": "term of a paper",
    r"`raters?`|\.raters\b|raters_text": "names in files and in Python",
    r"--rater\b": "the option is named for a column of ratings by one person",
    r"--by system\b": "value of an option: the field of a conversation",
    r"by system, version, topic": "dimensions of the board are fields of a conversation",
    r'<th scope="col">system</th><th scope="col">version</th>': "dimensions of the board",
}
"""Pattern of an exception, and the reason."""


def files() -> list[Path]:
    """Templates, pages of documentation, and modules with texts for the terminal."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *SOURCE.rglob("*.html")]
    texts = [
        "cli",
        "decisions",
        "report",
        "live/service/schemas.py",
        "project/importing/file_survey.py",
        "project/config.py",
    ]
    modules = [path for name in texts for path in (_modules(SOURCE / name))]
    return sorted([*pages, *modules])


def _modules(path: Path) -> list[Path]:
    return [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))


def shown(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page, and the strings of a module that are no docstrings, attributes or subscripts."""
    text = path.read_text(encoding="utf-8")
    if path.name == "api.md":  # signatures and examples hold names in Python
        text = re.sub(r"```.*?```|`[^`]*`", lambda code: "\n" * code[0].count("\n"), text, flags=re.DOTALL)
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    tree = ast.parse(text)
    keys = {id(part) for node in ast.walk(tree) for part in _keys(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in keys:
            yield node.lineno, node.value


def _keys(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the strings under a node that nobody reads: keys, compared values, docstrings of anything but commands."""
    if isinstance(node, ast.Subscript):
        yield node.slice
    if isinstance(node, ast.Dict):
        yield from (key for key in node.keys if key is not None)
    if isinstance(node, ast.Compare):
        yield from (node.left, *node.comparators)
    if isinstance(node, ast.Expr):
        yield node.value


def retired_terms(lines: Iterator[tuple[int, str]]) -> list[str]:
    """Return the lines with a retired term, and the term to write."""
    found = []
    for number, line in lines:
        plain = re.sub("|".join(ALLOWED), "", line)
        found += [
            f"{number}: {line.strip()[:LONGEST_SHOWN]!r}: write {term}"
            for pattern, term in RETIRED.items()
            if re.search(pattern, plain)
        ]
    return found


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_texts_name_one_thing_by_one_term(path: Path) -> None:
    assert retired_terms(shown(path)) == []


@pytest.mark.parametrize(
    "line",
    [
        "the plausibility gate is off", "read as 3 raters", "the best single column", "Ready for comparing systems",
        "mean of each system", "<th>system</th>", "system", "accord fit calibration", "the central 80% of it",
    ],
)  # fmt: skip
def test_a_retired_term_is_found(line: str) -> None:
    assert len(retired_terms(iter([(1, line)]))) == 1


@pytest.mark.parametrize("line", ["accord import --rater COLUMN", "accord gate --min-mean 2", "calibration error"])
def test_other_uses_of_a_word_are_allowed(line: str) -> None:
    assert retired_terms(iter([(1, line)])) == []


@pytest.mark.parametrize(
    "term",
    ["evaluator", "assistant version", "annotator", "feature", "best single feature", "judge", "interval", "calibration",
     "plausibility check", "gate"],
)  # fmt: skip
def test_concepts_or_glossary_define_the_term(term: str) -> None:
    concepts = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    page = concepts + (ROOT / "docs" / "methods.md").read_text(encoding="utf-8").partition("\n## Glossary\n")[2]
    names = [name.strip() for row in re.findall(r"^\| ([^|]+) \|", page, re.M) for name in row.split(",")]
    assert term in names


def test_concepts_explain_few_terms() -> None:
    page = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\| ", page, re.M)) - 1 <= 15  # one row is the header

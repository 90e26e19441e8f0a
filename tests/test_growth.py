"""No search takes longer than in proportion to its text: every pattern and search of the code is listed and measured."""

from __future__ import annotations

import ast
import importlib
import re
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hostile_texts import growth, hostile

ROOT = Path(__file__).parents[1]
SOURCES = {"accord": ROOT / "src", "accord_papers": ROOT / "packages" / "accord-papers" / "src"}
LIST = ROOT / "tests" / "data" / "searches.txt"


class Site(NamedTuple):
    """A call of `re` in the code: its module, the name of the pattern or function with a number, and the call."""

    module: str
    name: str
    call: ast.Call


class Entry(NamedTuple):
    """A line of the list: how a pattern is used, and the longest text that it reads, which the code enforces."""

    use: str
    longest: int | None


@cache
def sites() -> dict[tuple[str, str], Site]:
    """Return every regular expression of the code."""
    found: dict[tuple[str, str], Site] = {}
    for folder in SOURCES.values():
        for path in sorted(folder.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if _CALL.search(text):
                module = path.relative_to(folder).as_posix()
                for owner, call in _calls(ast.parse(text)):
                    number = sum(
                        1 for each in found.values() if (each.module, each.name.split("#")[0]) == (module, owner)
                    )
                    name = owner if not number else f"{owner}#{number + 1}"
                    found[module, name] = Site(module, name, call)
    return found


def _calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls of `re`, with the name that they are assigned to or the function that holds them."""

    def visit(node: ast.AST, owner: str) -> Iterator[tuple[str, ast.Call]]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            owner = node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not owner:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            owner = next((each.id for each in ast.walk(targets[0]) if isinstance(each, ast.Name)), "")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in _FUNCTIONS:
            yield owner or "module", node
        for child in ast.iter_child_nodes(node):
            yield from visit(child, owner)

    return visit(tree, "")


_CALL = re.compile(r"\bre\.[a-z]+\(")
_FUNCTIONS = {
    f"re.{name}" for name in ("compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn")
}


@cache
def entries() -> dict[tuple[str, str], Entry]:
    """Return the lines of the list."""
    found = {}
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            module, name, use, longest = line.split()
            found[module, name] = Entry(use, None if longest == "any" else int(longest))
    return found


def _patterns(site: Site) -> list[re.Pattern[str]]:
    """Return the patterns of a call, evaluated in its module, or those that `MADE` makes for it."""
    module = importlib.import_module(site.module.removesuffix(".py").replace("/", "."))
    if (site.module, site.name) in MADE:
        return [re.compile(each) if isinstance(each, str) else each for each in MADE[site.module, site.name](module)]
    pattern, *given = site.call.args
    flags = [each.value for each in site.call.keywords if each.arg == "flags"]
    flags += given if site.call.func.attr == "compile" else given[1:]  # type: ignore[attr-defined]
    names = vars(module)
    values = [
        eval(ast.unparse(each), names) for each in (pattern, *flags) if "re." in ast.unparse(each) or each is pattern
    ]
    text = values[0].decode("latin-1") if isinstance(values[0], bytes) else values[0]
    return [re.compile(text, re.RegexFlag(sum(int(each) for each in values[1:])))]


MADE: dict[tuple[str, str], Callable[[Any], list[Any]]] = {
    ("accord/evidence/bank/session.py", "_rate"): lambda m: re.findall(
        r'_rate\(words, r?"(.+)"\)', Path(m.__file__).read_text(encoding="utf-8")
    ),
    ("accord/evidence/bank/words.py", "_cut"): lambda m: [m.ENGLISH._cut],
    ("accord/evidence/bank/words.py", "_word"): lambda m: [m._word()],
    ("accord/evidence/bank/words.py", "_script_of"): lambda m: [f"[{each}]" for each in m._RANGES.values()],
    ("accord/methods/in_context/score_parsing.py", "_labelled#2"): lambda m: [f"Q1{m._LINK}"],
    ("accord/methods/in_context/score_parsing.py", "_without_scale"): lambda m: [r"^\W*Q1\s+score\W*"],
    ("accord/methods/in_context/score_parsing.py", "_without_scale#2"): lambda m: list(m._scale_patterns(1.0, 5.0)),
    ("accord/methods/in_context/template.py", "private_by"): lambda m: [],  # written by the author of the project
    ("accord/methods/learned_rubric/assertion_pool.py", "hidden"): lambda m: [r"(?<!\w)Ann\ Smith(?!\w)"],
    ("accord/redaction/national_ids.py", "_NATIONAL"): lambda m: [pattern for pattern, _ in m._NATIONAL],
    ("accord/redaction/patterns.py", "_iban_rest"): lambda m: [m._iban_rest(length) for length in (15, 34)],
    ("accord/redaction/searched_text.py", "beginning"): lambda m: [
        importlib.import_module("accord.redaction.patterns")._IPV4_BEGINS
    ],
    ("accord/redaction/searched_text.py", "_odd"): lambda m: [m._odd()],
    ("accord/values/issues.py", "_plain"): lambda m: [r"\s{2,}|[^\S ]|(<[A-Z_]{0,30}_)\d{1,5}>"],
}
"""Patterns of calls that do not stand by themselves: made at run time, or inside a comprehension."""


@pytest.mark.attack
def test_every_pattern_is_listed_with_its_use() -> None:
    found, listed = set(sites()), set(entries())
    name = LIST.relative_to(ROOT).as_posix()
    new = [
        f"{module} has a regular expression, {pattern}, that {name} does not list. Add the line `{module} {pattern} "
        "search any`: how it is used (search, match or fullmatch), and `any` or the longest text that it reads, if the "
        "code enforces one. Then run this file: it measures whether the time grows in proportion to the text"
        for module, pattern in sorted(found - listed)
    ]
    gone = [
        f"{name} lists {module} {pattern}, which is gone. Remove the line" for module, pattern in sorted(listed - found)
    ]
    assert not new + gone, "\n".join(new + gone)


@pytest.mark.attack
@pytest.mark.parametrize("part", range(4))
def test_the_time_of_every_pattern_grows_in_proportion_to_its_text(part: int) -> None:
    wrong = []
    for key in sorted(set(sites()) & set(entries()))[part::4]:
        use, longest = entries()[key]
        for pattern in _patterns(sites()[key]):
            work = (
                getattr(pattern, use) if use != "search" else lambda text, find=pattern.finditer: deque(find(text), 0)
            )
            for text_of in hostile(pattern):
                found = growth(work, text_of, (128, 1024) if longest is None else (longest,))
                if found is not None:
                    wrong.append(f"{' '.join(key)}: {found}, of the text {text_of(40)!r}")
                    break
    assert not wrong, "\n".join([*wrong, _CURE])


_CURE = (
    "A repetition of these patterns can begin or divide at many places. Begin it where a run begins, (?<![...]), make it "
    "possessive, *+, bound it, {0,40}, or use str.find, str.partition and str.rstrip"
)

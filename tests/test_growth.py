"""No search takes longer than in proportion to its text: every pattern and search of the code is listed and measured."""

from __future__ import annotations

import ast
import importlib
import re
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, NamedTuple

import pytest
from hostile_texts import growth, hostile

from accord.edges import redact, redact_message, register_secret
from accord.evidence.metric_source import measure
from accord.formats.files.row_reader import read_rows
from accord.formats.record import formats
from accord.formats.traces import merged_turns
from accord.live.log_follower import LineReader
from accord.methods.issues.issue_prompts import read_verdict
from accord.models.list_replies import ListForm, parse_list
from accord.redaction import KINDS, Redactor, find_redacted_quote
from accord.values import Conversation, Sample, Turn, find_quote, first_with_quote, steps

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


# --- searches without patterns ----------------------------------------------------------------------------------------

ALL = Redactor(KINDS)
LIST_FORM = ListForm("reasons", {"reason": "one reason"}, 8, "a reason")
Case = tuple[Callable[[Any], object], Callable[[int], Any]]


def _repeated(*units: str) -> list[Callable[[int], str]]:
    return [lambda length, unit=unit: unit * (length // len(unit) + 1) for unit in units]


def _steps(count: int, in_order: bool) -> Conversation:
    """A conversation of calls, each before its result, or all before all results in reverse order."""
    calls = [{"id": f"c{place}", "function": {"name": "find", "arguments": "{}"}} for place in range(count // 16)]
    asked = [Turn("assistant", "", extra={"tool_calls": [call]}) for call in calls]
    found = [Turn("tool", f"error 12.{place}", extra={"tool_call_id": call["id"]}) for place, call in enumerate(calls)]
    pairs = [turn for pair in zip(asked, found, strict=True) for turn in pair]
    turns = pairs if in_order else [*asked, *reversed(found)]
    return Conversation("c", (Turn("user", "Go."), *turns, Turn("assistant", 'It is 12.5 and "a name".')))


def _each_step(conversation: Conversation) -> None:
    samples = [Sample(conversation, turn) for turn in steps.step_turns(conversation.turns)]
    assert all(steps.steps_at(sample) for sample in samples)
    measure(samples, ["steps"])


def _regions(count: int) -> list[dict[str, Any]]:
    """A task of Label Studio with a region that no turn has for each turn."""
    numbers = range(count // 32)
    chat = [{"role": "user", "content": f"Turn {number} of  many"} for number in numbers]
    region = {"type": "labels", "from_name": "issue", "value": {"labels": ["Wrong"], "text": "nothing of  this"}}
    return [{"id": 1, "data": {"chat": chat}, "annotations": [{"result": [region for _ in numbers]}]}]


def _spans(count: int) -> list[Any]:
    return [([Turn("user", "again")], [Turn("assistant", f"{place}")]) for place in range(count // 16)]


def _read_file(text: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.json")
        path.write_text(text, encoding="utf-8")
        deque(read_rows(path), 0)


def _follow(text: str) -> None:
    with TemporaryFile(buffering=0) as stream:
        stream.write(text.encode())
        stream.seek(0)
        reader = LineReader(stream)
        while reader.read():
            while reader.lines():
                pass


def _with_long_secret(text: str) -> None:
    register_secret(LONG_SECRET)
    redact(text)


LONG_SECRET = "".join(map(chr, range(0xE000, 0xE000 + 4000)))
QUOTED, PLACEHOLDERS = "the  cat " * 200 + "dog", "<EMAIL_1>" + " " * 2000 + "x"


def _intercom(body: str) -> dict[str, Any]:
    return {"source": {"author": {"type": "user"}, "body": body}, "conversation_parts": []}


SEARCHES: dict[str, list[Case]] = {
    "values/issues.py find_quote": [(lambda text: find_quote(text[: len(text) // 2] + "dog", text), text_of) for text_of in _repeated("the  cat ", " \n", "a")],
    "values/issues.py first_with_quote": [(lambda text: first_with_quote("cat  x", text.split(" ")), *_repeated("the cat "))],
    "redaction/redactor.py find_redacted_quote": [(lambda text: find_redacted_quote(f"<EMAIL_1>{text}x", f"<EMAIL_2>{text}"), text_of) for text_of in _repeated(" ", "<EMAIL_1> ")],
    "redaction/redactor.py text": [
        (lambda text: ALL.begin().text(text), text_of)
        for text_of in _repeated(
            "4111 1111 1111 1111\n", "4111111111111111 ", "4 1 1x ", "a@b.co ", "@", "http://u:p@h/ ", "://", "1.2.3.4 ", "2001:db8::17 ", "GB29NWBK60161331926819 ",
            "078-05-1120 ", "call 030 1234567 ", "+49 30 1234567 ", "password: hunter2x ", "sk-proj-abcdefghij1234567890 ", "key=", "-----BEGIN PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n", "a@b.co <EMAIL_1>4111111111111111", "4\ufe0f\u20e3", "1\u0302", "ann (at) example (dot) com ",
        )
    ],
    "edges/secrets.py redact": [(redact_message, text_of) for text_of in _repeated("a-", "?key", "http://a:b@", "password=x ", "&token")] + [(_with_long_secret, *_repeated("abc "))],
    "methods/issues/issue_prompts.py read_verdict": [(read_verdict, text_of) for text_of in _repeated("```json ", '{"a":', "[", " ", "```\n")],
    "models/list_replies.py parse_list": [(lambda text: parse_list(text, LIST_FORM, False), text_of) for text_of in _repeated("```json ", "- a ", "1. \n", "a. ")],
    "values/steps.py steps_at": [(_each_step, lambda count: _steps(count, True)), (_each_step, lambda count: _steps(count, False))],
    "formats/labels/annotation_tools.py": [(lambda rows: formats.get("label-studio").convert(rows, "a"), _regions)],
    "formats/support_tickets.py text_of_html": [(lambda body: formats.get("intercom").convert([_intercom(f"<p>{body}>")], "a"), text_of) for text_of in _repeated("<", "<a ", "<!--", "<script>", "&", "</p", "<p>")],
    "formats/traces.py merged_turns": [(merged_turns, _spans)],
    "formats/files/row_reader.py _elements": [(_read_file, lambda length: f"[{', '.join(['{}'] * (length // 4))}]"), (_read_file, lambda length: f'["{"x" * length}"]')],
    "live/log_follower.py lines": [(_follow, *_repeated("{}\n"))],
}  # fmt: skip
"""Work of functions that search foreign texts, with functions that make an input of a length."""
_COVERED = {
    "redaction/patterns.py emails", "redaction/patterns.py _urls", "redaction/patterns.py _private_keys",
    "redaction/searched_text.py places",
}  # fmt: skip
"""Searches that `redaction/redactor.py text` measures."""


@pytest.mark.attack
@pytest.mark.parametrize("name", SEARCHES)
def test_the_time_of_every_search_grows_in_proportion_to_its_text(name: str) -> None:
    found = [growth(work, make, (8_000,), ()) for work, make in SEARCHES[name]]
    assert not any(found), found


@pytest.mark.attack
def test_every_loop_of_searches_is_measured() -> None:
    loops = set()
    for path in sorted((SOURCES["accord"] / "accord").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for function in ast.walk(ast.parse(text)) if "while " in text and "find(" in text else ():
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                inside = [node for loop in ast.walk(function) if isinstance(loop, ast.While) for node in ast.walk(loop)]
                called = {
                    node.func.attr
                    for node in inside
                    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                }
                if called & {"find", "rfind", "index", "rindex", "raw_decode"}:
                    loops.add(f"{path.relative_to(SOURCES['accord'] / 'accord').as_posix()} {function.name}")
    missing = sorted(loops - set(SEARCHES) - _COVERED)
    assert not missing, f"{missing} search in a loop. Add a work and hostile inputs of growing length to SEARCHES"

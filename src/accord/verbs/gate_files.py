"""Files of a gate for CI systems: JUnit XML, and Markdown for the page of a job or a comment on a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from accord.edges import count_of, escape_controls, write_atomically
from accord.results import plain_markdown
from accord.verbs.gate import NO_VERDICT, TABLE_CARD, VERDICT, Check

SUITE = "accord gate"
"""Name of the test suite in JUnit files, and of earlier outputs, which may be replaced."""


def write_gate(checks: Sequence[Check], junit: Path | None = None, markdown: Path | None = None) -> list[Path]:
    """Write the checks of a gate as JUnit XML, as Markdown, or both, and return the files."""
    texts = {junit: gate_junit, markdown: gate_markdown}
    files = [path for path in texts if path is not None]
    for path in files:
        write_atomically(path, texts[path](checks))
    return files


def verdict_line(checks: Sequence[Check]) -> str:
    """Return the verdict as the first line of a gate; a card about the judge of a table has none."""
    found = next((check for check in checks if check.condition.startswith(VERDICT)), None)
    if found is not None:
        return str(found)
    return "" if any(check.condition == TABLE_CARD for check in checks) else NO_VERDICT


def gate_text(checks: Sequence[Check]) -> str:
    """Return the checks as lines, the verdict first."""
    first = verdict_line(checks)
    return "\n".join([*([first] if first == NO_VERDICT else []), *map(str, checks)])


def gate_junit(checks: Sequence[Check]) -> str:
    """Return the checks as JUnit XML: a test case each, with required and actual value as properties."""
    failed = sum(not check.passed for check in checks)
    suites = ElementTree.Element("testsuites")
    counts = {"tests": str(len(checks)), "failures": str(failed), "errors": "0", "skipped": "0"}
    suite = ElementTree.SubElement(suites, "testsuite", {"name": SUITE, **counts})
    for check in checks:
        case = {"classname": "accord.gate", "name": escape_controls(check.condition)}
        element = ElementTree.SubElement(suite, "testcase", case)
        properties = ElementTree.SubElement(element, "properties")
        for name, value in (("required", check.minimum), ("value", check.value), ("estimate", check.estimate)):
            if value is not None:
                ElementTree.SubElement(properties, "property", {"name": name, "value": f"{value:g}"})
        if check.passed and check.words:
            ElementTree.SubElement(element, "system-out").text = escape_controls(check.words)
        if not check.passed:
            text = escape_controls(str(check))
            ElementTree.SubElement(element, "failure", {"message": text}).text = text
    ElementTree.indent(suites)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ElementTree.tostring(suites, encoding='unicode')}\n"


def gate_markdown(checks: Sequence[Check]) -> str:
    """Return the verdict and the checks as Markdown; texts of users are escaped, and cannot mention an account."""
    failed = sum(not check.passed for check in checks)
    verdict = f"failed: {failed} of {count_of(len(checks), 'condition')} not met" if failed else "passed"
    rows = [
        ["", "condition", "value", "required"],
        ["---", "---", "---", "---"],
        *(
            ["passed" if check.passed else "**failed**", *map(_cell, _texts(check))]
            for check in checks
            if not check.condition.startswith(VERDICT)
        ),
    ]
    first = verdict_line(checks)
    lead = [_cell(first[:1].upper() + first[1:]), ""] if first else []
    if not rows[2:]:
        rows = []
    return "\n".join([f"### {SUITE}: {verdict}", "", *lead, *(f"| {' | '.join(row)} |" for row in rows), ""])


def _texts(check: Check) -> tuple[str, str, str]:
    """Return the condition, its value and the required value; in place of the value, a reason or words."""
    if check.reason or check.words:
        return check.condition, check.reason or (check.words if check.passed else f"not {check.words}"), ""
    return check.condition, check.shown, f"{check.minimum:g}"


def _cell(text: str) -> str:
    return plain_markdown(escape_controls(text)).replace("@", "&#64;")

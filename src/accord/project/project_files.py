"""Text of project files: a new project for some data, and changes of single entries of an `accord.yaml`.

Changes keep all other lines and comments. They are returned as text, so that the caller can show the difference before
it writes a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import unified_diff
from importlib.resources import files
from typing import Any

import yaml

from accord.edges import BadInput, dump_yaml, parse_yaml
from accord.project.importing.file_survey import FileSurvey
from accord.project.importing.rubric_inference import infer_rubric
from accord.values import PROJECT_FILE, Rubric, dump_rubric, load_rubric, read_study

RUBRIC_FILE = "rubric.yaml"
SHIPPED_RUBRIC = "llm-rubric"


def project_template() -> str:
    """Return the text of a new accord.yaml."""
    return (files("accord.project") / "project.yaml").read_text(encoding="utf-8")


def new_project(survey: FileSurvey) -> tuple[dict[str, str], list[str]]:
    """Return the files of a new project for surveyed data, by name, and a sentence for each guess about the rubric.

    Labels that the shipped rubric asks, or no labels, give the shipped rubric; others give a rubric made from them.
    """
    shipped = load_rubric(SHIPPED_RUBRIC)
    rubric, notes = shipped, list[str]()
    if survey.questions and not _is_answered(shipped, survey):
        inferred = infer_rubric(survey.questions.values(), None)
        rubric, notes = inferred.rubric, list(inferred.notes)
    return {RUBRIC_FILE: dump_rubric(rubric), PROJECT_FILE: project_template()}, notes


def _is_answered(rubric: Rubric, survey: FileSurvey) -> bool:
    """Return True if labels answer a rubric's main question, and no value is outside its scales."""
    answered = [(rubric.get(name), each) for name, each in survey.questions.items()]
    return rubric.main in survey.questions and all(
        question.scale.holds(value) or question.scale.parse(str(value)) is not None  # a table holds numbers as text
        for question, each in answered
        if question
        for value in each.values
    )


def study_yaml(name: str, settings: Mapping[str, Any]) -> str:
    """Return the entry of a study, as it stands under `studies:` in accord.yaml."""
    return dump_yaml({name: dict(settings)})


def with_study(text: str, name: str, settings: Mapping[str, Any]) -> str:
    """Return the text of an accord.yaml with another study; all other lines stay unchanged.

    Raises:
        BadInput: The settings are invalid, the study exists, or the file has a form that cannot be extended.
    """
    read_study(name, dict(settings))
    content = _content(text)
    studies = content.get("studies") or {}
    if name in studies:
        raise BadInput(f"study {name!r} is in {PROJECT_FILE} already; choose another name")
    entry = study_yaml(name, settings)
    match = re.search(r"(?m)^studies:[ \t]*(?:(?:\{\}|null|~)[ \t]*)?(?P<comment>#.*)?$", text)
    if match is None:
        changed = f"{text.rstrip()}\nstudies:\n{_indented(entry, '  ')}".lstrip()
    else:
        first = re.search(r"(?m)^( *)(?!\s)[^#]", text[match.end() :])
        indent = first[1] if studies and first is not None else "  "
        comment = f"  {match['comment']}" if match["comment"] else ""
        changed = f"{text[: match.start()]}studies:{comment}\n{_indented(entry, indent)}{text[match.end() + 1 :]}"
    return _checked(changed, {**content, "studies": {**studies, name: _plain(settings)}}, f"studies:\n{entry}")


def with_rubric_file(text: str, name: str) -> str:
    """Return the text of an accord.yaml that names another rubric; all other lines stay unchanged."""
    content = _content(text)
    changed, count = re.subn(r"(?m)^rubric:[ \t]*[^\s#]+", lambda _: f"rubric: {name}", text)
    if not count:
        changed = f"{text.rstrip()}\nrubric: {name}\n".lstrip()
    return _checked(changed, {**content, "rubric": name}, f"rubric: {name}")


def text_diff(before: str, after: str, name: str) -> list[str]:
    """Return the unified difference of two versions of a file, line by line, without line ends."""
    lines = unified_diff(_lines(before), _lines(after), f"{name} (now)", f"{name} (new)", lineterm="")
    return list(lines)


def _content(text: str) -> dict[str, Any]:
    content: dict[str, Any] = parse_yaml(text, PROJECT_FILE) if text.strip() else {}
    return content


def _checked(changed: str, expected: Any, entry: str) -> str:
    """Return a changed text that holds exactly the expected settings.

    Raises:
        BadInput: It does not, because the file is written in another form.
    """
    try:
        is_right = parse_yaml(changed, PROJECT_FILE) == expected
    except BadInput:
        is_right = False
    if not is_right:
        raise BadInput(f"{PROJECT_FILE} cannot be changed without touching other lines; add this entry to it: {entry}")
    return changed


def _plain(settings: Mapping[str, Any]) -> Any:
    """Return settings as YAML reads them back."""
    return yaml.safe_load(dump_yaml(dict(settings)))


def _indented(text: str, indent: str) -> str:
    return "".join(f"{indent}{line}\n" if line else "\n" for line in _lines(text))


def _lines(text: str) -> list[str]:
    """Return the lines of a text without their ends; other separators than line feeds are part of a line."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]

"""A project with the traps of figures, and all surfaces that show its figures.

Two wordings of the main question, ratings that people give again in a study, a refit, repeated cross-validations, two
assistant versions, and new conversations of which some are unlike the training data.
"""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from commands import accord, invoke
from served_workbench import Browser, open_workbench, rate_all

from accord import Project
from accord.cli import commands as _commands  # noqa: F401 - registers the commands
from accord.project import load_config
from accord.sample import sources
from accord.store import Studies
from accord.studies import BackgroundLearning, StudySession
from accord.values import dump_rubric, load_rubric

LEARNED, STUDIED, NEW = 126, 4, 13
"""Numbers of sample conversations that are learned from, rated in the study alone, and new."""
UNLIKE: list[dict[str, Any]] = [
    {"id": "odd-1", "messages": [{"role": "user", "content": "أريد إعادة الجهاز"}, {"role": "assistant", "content": "نعم، يمكنك ذلك."}]},
    *({"id": f"odd-{n}", "messages": [{"role": role, "content": text} for _ in range(60 + n)
                                      for role, text in (("user", "again?"), ("assistant", "sorry sorry sorry " * 30))]}
      for n in range(2, 6)),
]  # fmt: skip
PEOPLE = ("amira", "bruno", "chen")
CONFIG: dict[str, Any] = {
    "store": "sqlite:///accord.db", "rubric": "rubric.yaml", "draws": 200,
    "evaluators": {"default": {"head": "mixed"}},
    "studies": {"look": {"title": "Helpful again?", "annotators_per_item": 3, "annotators": list(PEOPLE),
                         "stages": [{"questions": ["Q0"]}]}},
}  # fmt: skip


class Shown(NamedTuple):
    """A figure as a surface shows it."""

    surface: str
    figure: str
    about: str
    of: str
    value: float | None
    text: str


def build(folder: Path) -> None:
    """Make the project in an empty folder."""
    with chdir(folder):
        chats, labels = (Path(source) for source in sources())
        rows = [json.loads(line) for line in chats.read_text(encoding="utf-8").splitlines()]
        kept, later = rows[: LEARNED + STUDIED], rows[LEARNED + STUDIED : LEARNED + STUDIED + NEW]
        for number, row in enumerate(UNLIKE):
            row["metadata"] = {"system": f"assistant-{'ab'[number % 2]}", "topic": "returns"}
        for name, some in (("chats.jsonl", kept), ("new.jsonl", [*later, *UNLIKE])):
            Path(name).write_text("".join(json.dumps(row) + "\n" for row in some), encoding="utf-8")
        rated = {row["id"] for row in rows[:LEARNED]}
        with labels.open(encoding="utf-8", newline="") as stream:
            given = [each for each in csv.DictReader(stream) if each["conversation"] in rated]
        with Path("labels.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["conversation", "annotator", "Q0"])
            writer.writerows([each["conversation"], each["annotator"], each["Q0"]] for each in given)
        rubric = load_rubric("llm-rubric")
        Path("rubric.yaml").write_text(dump_rubric(rubric), encoding="utf-8")
        items = [row["id"] for row in rows[:20]] + [row["id"] for row in rows[LEARNED : LEARNED + STUDIED]]
        CONFIG["studies"]["look"]["items"] = {"ids": items}
        Path("accord.yaml").write_text(yaml.safe_dump(CONFIG), encoding="utf-8")
        accord("import", "chats.jsonl", "labels.csv")
        accord("fit")
        asked = rubric[rubric.main]
        changed = asked.model_copy(update={"text": f"{asked.text} Think of the whole chat."})
        questions = [changed if each.id == asked.id else each for each in rubric.questions]
        Path("rubric.yaml").write_text(
            dump_rubric(rubric.model_copy(update={"questions": questions})), encoding="utf-8"
        )
        with Project(load_config(Path("accord.yaml"))) as project:
            _rate_again_and_refit(project)
        accord("import", "new.jsonl")
        with Project(load_config(Path("accord.yaml"))) as project:
            chats_now = [conversation.to_json() for conversation in project.store.conversations()]
            project.score(chats_now, evaluator=project.folder())
        accord("compare", "--jobs", "1")


def _rate_again_and_refit(project: Project) -> None:
    """Let three people rate the study's items, whose answers the evaluator predicts, and promote a new fit."""
    studies = Studies(project.store)
    look = StudySession(project, "look", studies)
    look.begin()
    learning = BackgroundLearning({"look": look}, project)
    learning.prepare()
    for number, person in enumerate(PEOPLE):
        for place in range(len(CONFIG["studies"]["look"]["items"]["ids"])):
            assignment = look.take(person)
            assert assignment is not None
            apart = 2 if place % 3 == 0 else 1
            rate_all(look, assignment, 1 + place % 2 + apart * (number == 2))
    learning.retrain()
    learning.promote()
    learning.jobs.close()
    studies.close()


# --- surfaces -------------------------------------------------------------------------------------------------------


PAGES = ("/", "/board", "/board?answers=given", "/board/list", "/evaluators", "/evaluators/report", "/lead", "/lead/look",
         "/lead/look/disagree", "/rubric")  # fmt: skip


@contextmanager
def surfaces(folder: Path) -> Iterator[dict[str, str | dict[str, Any]]]:
    """Yield all surfaces of the project by name: texts, HTML and Markdown as they are, JSON parsed."""
    with chdir(folder):
        shown: dict[str, str | dict[str, Any]] = {}
        for name, arguments in (
            ("compare", ["compare", "--jobs", "1"]), ("report", ["report"]), ("estimate", ["estimate"]),
            ("card", ["card", "--out", "card.json"]), ("gate", ["gate", "--min-within", "0.1", "--markdown", "gate.md"]),
        ):  # fmt: skip
            shown[f"{name}.txt"] = invoke(*arguments, code=None).stdout
            shown[f"{name}.json"] = json.loads(invoke(*arguments, "--json", code=None).stdout)
        shown["report.html"] = Path("report.html").read_text(encoding="utf-8")
        shown["card.md"] = Path("card.md").read_text(encoding="utf-8")
        shown["gate.md"] = Path("gate.md").read_text(encoding="utf-8")
        with Project(load_config(Path("accord.yaml"))) as project, open_workbench(project) as bench:
            browser: Browser = bench.browser()
            for page in PAGES:
                shown[f"page {page}"] = browser.get(page)
                path, _, query = page.partition("?")
                answer = browser.get(f"{'/index' if path == '/' else path}.json{f'?{query}' if query else ''}")
                if browser.status == 200 and answer.startswith("{"):
                    shown[f"page {page}.json"] = json.loads(answer)
        yield shown


_DATA = re.compile(
    r'<data class="figure" value="([^"]*)" data-figure="([^"]*)" data-about="([^"]*)" data-of="([^"]*)"[^>]*>([^<]*)</data>'
)


def figures_on(name: str, content: str | dict[str, Any]) -> Iterator[Shown]:
    """Yield the figures that a surface shows, from JSON or from the `data` elements of a page."""
    if isinstance(content, str):
        for value, figure, about, of, text in _DATA.findall(content):
            number = float(value) if value else None
            yield Shown(
                name, html.unescape(figure), html.unescape(about), html.unescape(of), number, html.unescape(text)
            )
        return
    todo: list[Any] = [content]
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            if {"figure", "about", "text", "definition"} <= each.keys():
                value = each["value"]
                number = None if value is None else float(f"{value:.6g}")
                yield Shown(name, each["figure"], each["about"], each["of"], number, each["text"])
            todo += each.values()
        elif isinstance(each, list):
            todo += each


def contradictions(shown: list[Shown]) -> dict[tuple[str, str, str], set[tuple[float | None, str]]]:
    """Return the figures that have more than one value or text for one set."""
    values: dict[tuple[str, str, str], set[tuple[float | None, str]]] = {}
    for each in shown:
        values.setdefault((each.figure, each.about, each.of), set()).add((each.value, each.text))
    return {key: found for key, found in values.items() if len(found) > 1}

"""Comments page: failure modes from the comments of ratings, and a study in which people mark them. For leads only.

Only leads see comments, so raters stay blind. Kinds of the study have the names and definitions that the lead sends;
the first ones hold words of comments, but no quote.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from accord.edges import BadInput, dump_yaml
from accord.project import CommentGroups, group_comments, taxonomy_of, with_study
from accord.results import Ledger
from accord.values import PROJECT_FILE
from accord.web.context import WorkbenchContext, add_page, check_printable, conversation_address

PAGE = "/comments"
STUDY = "failure-modes"
SAMPLE = 60
"""Number of conversations of the study, drawn at random."""
GUIDELINES = (
    "Read the conversation. For each response of the assistant, mark every failure that you find: select the words "
    "that show it, or write a comment, and choose its kind. A response without a mark counts as free of failures.\n"
)


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the page, its JSON, and the form that makes a study."""
    page = _CommentsPage(context)
    add_page(app, PAGE, page.show)
    app.post(PAGE)(page.submit)


class _CommentsPage:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context
        self._grouped = lru_cache(maxsize=1)(self._group)

    def _group(self, version: Any) -> CommentGroups:
        return group_comments(self.context.project)

    def _groups(self) -> CommentGroups:
        store = self.context.project.store
        return self._grouped((store.labels_version(), store.count_conversations()))

    def show(self, request: Request) -> Response:
        """Show the groups with rates and quotes, and the form."""
        visitor = self.context.visitor(request, "lead")
        found, files = self._groups(), self.context.files
        versions = list(
            dict.fromkeys(each.part.rpartition(": ")[2] for group in found.groups for each in group.by_version)
        )
        ledger = Ledger([figure for each in found.groups for figure in (each.rate, *each.by_version)])
        data = {**found.to_json(), "title": found.title, "lead": found.lead, "figures": ledger.to_json()}
        can_write = files is not None and files.exists
        return self.context.render_or_json(
            request, "comments", visitor, data, found=found, versions=versions, can_write=can_write,
            definitions=[definition_of(each.name) for each in found.groups], address=conversation_address,
            shown=files.digest({PROJECT_FILE: ""}) if files is not None else "", sample=SAMPLE,
        )  # fmt: skip

    async def submit(self, request: Request) -> Response:
        """Write the chosen groups as a taxonomy, and add a study in which people mark them."""
        _, fields = await self.context.read_form(request, "lead")
        name = await run_in_threadpool(self._submit, fields)
        return RedirectResponse(f"/lead/{quote(name)}?done=created", 303)

    def _submit(self, fields: Mapping[str, Any]) -> str:
        check_printable(fields)
        chosen = sorted(key.removeprefix("use.") for key in fields if key.startswith("use."))
        if not chosen:
            raise BadInput("no failure mode chosen; choose at least one on the page Comments")
        kinds = [(str(fields.get(f"name.{key}", "")), str(fields.get(f"definition.{key}", ""))) for key in chosen]
        files = self.context.project_files()
        name, number = STUDY, 1
        while name in self.context.project.config.studies or files.text(f"{name}.yaml"):
            number += 1
            name = f"{STUDY}-{number}"
        taxonomy = taxonomy_of(name, kinds)
        content = taxonomy.model_dump(mode="json", exclude_defaults=True)
        settings = {
            "title": "Which failures do the responses have?", "guidelines": GUIDELINES, "rubric": "analysis",
            "issue_taxonomy": f"{name}.yaml", "items": {"sample": SAMPLE}, "annotators_per_item": 2, "order": "random",
        }  # fmt: skip
        before = files.text()
        if files.digest({PROJECT_FILE: ""}) != fields.get("shown"):
            raise BadInput(
                f"{PROJECT_FILE} or the rubric has changed since this page was made; reload the page and send it again"
            )
        changed = {PROJECT_FILE: with_study(before, name, settings), f"{name}.yaml": dump_yaml(content)}
        files.change(changed, files.digest(changed), self.context.reload)
        return name


def definition_of(name: str) -> str:
    """Return a first definition of a group for raters: its words, and no comment.

    >>> definition_of("paragraphs, shorter")
    'People describe it with words such as: paragraphs, shorter.'
    """
    return f"People describe it with words such as: {name}."

"""Items of a study for leads: the user's words, the annotators, and the open work, with search and filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from accord.edges import BadInput, count_of, parse_whole_number, sendable
from accord.scoring import ConversationFacts
from accord.store import Item
from accord.studies import StudyProgress
from accord.web.context import WorkbenchContext, add_page, conversation_address

PAGE = 50
"""Number of items on a page."""
STATES = {"done": "All ratings", "begun": "Some ratings", "open": "No ratings"}
FIELDS = ("find", "system", "topic", "person", "status")
MAX_LENGTH = 512


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the list of a study's items."""
    add_page(app, "/lead/{study}/items", _ItemPages(context).show)


@dataclass(frozen=True)
class ItemFilters:
    """Filters of the list; empty for all."""

    find: str = ""
    system: str = ""
    topic: str = ""
    person: str = ""
    status: str = ""

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> ItemFilters:
        """Return the filters of a query.

        Raises:
            BadInput: A value is too long, or the status is unknown.
        """
        found = {name: fields.get(name, "") for name in FIELDS}
        for name, value in found.items():
            if len(value) > MAX_LENGTH:
                raise BadInput(f"{name}: got {len(value)} characters, allowed: {MAX_LENGTH}")
        if found["status"] not in ("", *STATES):
            raise BadInput(f"status: got {found['status'][:40]!r}, allowed: {', '.join(STATES)}")
        return cls(**found)

    def to_query(self, page: int = 1) -> str:
        """Return the query of the list, or of another page."""
        fields = {name: value for name in FIELDS if (value := getattr(self, name))}
        return urlencode({**fields, **({"page": page} if page > 1 else {})})


class _ItemPages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context
        self._facts = lru_cache(maxsize=4)(self._load_facts)

    def show(self, study: str, request: Request) -> Response:
        """Show a page of the items of a study."""
        visitor = self.context.visitor(request, "lead")
        session = self.context.sessions.get(study)
        if session is None:
            if study in self.context.invalid_studies:
                raise BadInput(self.context.invalid_studies[study])
            raise HTTPException(404)
        fields = dict(request.query_params)
        filters = ItemFilters.from_fields(fields)
        number = parse_whole_number(fields.get("page", "1"))
        if number is None:
            raise BadInput(f"page: got {fields['page'][:40]!r}, allowed: a number from 1")
        session.begin()
        progress = StudyProgress(session)
        rows = list(self._rows(progress, filters))
        pages = max(-(-len(rows) // PAGE), 1)
        number = min(max(number, 1), pages)
        shown = rows[(number - 1) * PAGE : number * PAGE]
        here = f"/lead/{quote(study)}/items?{filters.to_query(number)}".rstrip("?")
        words = self.context.board.conversations.of((row["conversation"], row["turn"]) for row in shown)
        for row in shown:
            row["words"], row["issues"] = words[row["conversation"], row["turn"]]
            row["address"] = conversation_address(row["conversation"], row["turn"], here)
        data = {
            "study": study, "title": session.title, "rows": shown, "number": number, "pages": pages, "total": len(rows),
            "summary": f"{count_of(len(rows), 'item')} of {session.title}",
        }  # fmt: skip
        facts = self._facts(study, len(progress.items))
        return self.context.render_or_json(
            request, "study_items", visitor, data, filters=filters, states=STATES, per_item=_per_item(progress),
            systems=_names(system for system, _ in facts.values()), topics=_names(topic for _, topic in facts.values()),
            people=sorted({each.person for each in progress.assignments if each.state == "done"}),
        )  # fmt: skip

    def _load_facts(self, study: str, count: int) -> dict[str, tuple[str, str]]:
        """Return the system and the topic of the conversations of a study with `count` items."""
        items = StudyProgress(self.context.sessions[study]).items
        found = self.context.project.store.conversations({each.target.conversation for each in items})
        facts = {each.id: ConversationFacts.of(each) for each in found}
        return {name: (each.system or "", each.topic or "") for name, each in facts.items()}

    def _rows(self, progress: StudyProgress, filters: ItemFilters) -> Iterable[dict[str, Any]]:
        """Yield the items that fit, in the order of the study."""
        ids = self.context.board.conversations.search.find(filters.find).ids if filters.find.strip() else None
        facts, per_item = self._facts(progress.study.name, len(progress.items)), _per_item(progress)
        people: dict[str, list[str]] = {}
        for each in progress.assignments:
            if each.state == "done":
                people.setdefault(each.item.key, []).append(each.person)
        for item in progress.items:
            rated = sorted(people.get(item.key, ()))
            system, topic = facts.get(item.target.conversation, ("", ""))
            status = "open" if not rated else "done" if len(rated) >= _wanted(item, per_item) else "begun"
            fits = (
                (ids is None or item.target.conversation in ids)
                and filters.system in ("", system)
                and filters.topic in ("", topic)
                and (not filters.person or filters.person in rated)
                and filters.status in ("", status)
            )
            if fits:
                yield {
                    "conversation": sendable(item.target.conversation), "turn": item.target.turn, "round": item.round,
                    "against": None if item.against is None else str(item.against), "system": system, "topic": topic,
                    "people": rated, "status": status, "is_known_answer": item.kind in ("gold", "check"),
                }  # fmt: skip


def _per_item(progress: StudyProgress) -> int:
    return int(progress.study.settings.annotators_per_item)


def _wanted(item: Item, per_item: int) -> int:
    return 1 if item.person is not None else per_item


def _names(names: Iterable[str]) -> Sequence[str]:
    return sorted({name for name in names if name})

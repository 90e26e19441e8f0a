"""People page: accounts of annotators and leads, and their personal links, as `accord users` manages them.

Leads manage annotators; only admins manage leads and admins. A personal link is shown once, because only its digest is
stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from accord.edges import BadInput
from accord.live import Refused
from accord.store import Role
from accord.web.accounts import Visitor, add_people, add_person, key_of_form, new_key, new_link
from accord.web.context import WorkbenchContext, add_page
from accord.web.pages.login import set_session_cookie


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the page of people and its form."""
    pages = _PeoplePages(context)
    add_page(app, "/people", pages.overview)
    app.post("/people")(pages.change)


class _PeoplePages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    def overview(self, request: Request) -> Response:
        """Show all accounts, and the form that adds one."""
        visitor = self.context.visitor(request, "lead")
        data = {"people": self._people(), "is_single_user": self.context.accounts.is_single_user}
        return self.context.render_or_json(request, "people", visitor, data, links=[], own=visitor.person.name,
                                           once=new_key(), is_local=not self.context.exposure)  # fmt: skip

    def _people(self) -> list[dict[str, Any]]:
        return [person._asdict() for person in self.context.studies.accounts.list_users()]

    async def change(self, request: Request) -> Response:
        """Add people, replace a link, or remove an account; new links are shown on the answer."""
        visitor, fields = await self.context.read_form(request, "lead")
        if self.context.accounts.is_single_user:
            return await run_in_threadpool(self._first_account, request, visitor, fields)
        links = await run_in_threadpool(self._change, visitor, fields)
        if not links:
            return RedirectResponse("/people", 303)
        return await run_in_threadpool(self._render, request, visitor, links)

    def _first_account(self, request: Request, visitor: Visitor, fields: Mapping[str, Any]) -> Response:
        """Add the account of the single user, and continue its session under this account."""
        name = str(fields.get("names", "")).strip()
        key = add_person(self.context.studies, name, "admin", returns=name == visitor.person.name)
        person = self.context.accounts.account_of_link(key)
        assert person is not None
        session = self.context.accounts.sign_in(person)
        response = self._render(request, Visitor(person, session), [(name, key)])
        set_session_cookie(request, response, session)
        return response

    def _render(self, request: Request, visitor: Visitor, links: list[tuple[str, str]]) -> Response:
        site = f"{request.url.scheme}://{request.headers.get('host', '')}"
        shown = [{"name": name, "link": f"{site}/in/{key}"} for name, key in links]
        return self.context.render(
            "people", visitor, people=self._people(), is_single_user=False, links=shown, own=visitor.person.name,
            once=new_key(), is_local=not self.context.exposure,
        )  # fmt: skip

    def _change(self, visitor: Visitor, fields: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Do the action of a form's button, and return new links by name."""
        studies, action = self.context.studies, str(fields.get("do", ""))
        if action == "add":
            role = str(fields.get("role", "annotator"))
            _check_may_manage(visitor, role)
            names = str(fields.get("names", "")).replace(",", " ").split()
            if not names:
                raise BadInput("no name given; write one or several names, such as: ann bob")
            once = str(fields.get("once", ""))
            keys = {name: key_of_form(visitor.key, once, name) for name in names}
            return list(add_people(studies, keys, role).items())
        name = str(fields.get("name", ""))
        person = next((each for each in studies.accounts.list_users() if each.name == name), None)
        if person is None:
            raise BadInput(f"there is no user {name[:60]!r}; reload the page")
        if person.name == visitor.person.name:
            raise BadInput("your own account is changed on the machine of the server: accord users")
        _check_may_manage(visitor, person.role)
        if action == "link":
            return [(name, new_link(studies, name))]
        if action != "remove":
            raise BadInput(f"action: got {action[:20]!r}, allowed: add, link, remove")
        studies.accounts.remove(name)
        return []


def _check_may_manage(visitor: Visitor, role: str | Role) -> None:
    """Check that a user may add or change accounts of a role.

    Raises:
        Refused: 403 if only admins may.
    """
    if role != "annotator" and not visitor.may("admin"):
        raise Refused(
            403, f"only admins add or change accounts of the role {role[:20]}; yours is {visitor.person.role}"
        )

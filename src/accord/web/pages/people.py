"""People page: accounts of annotators and leads, and their personal links, as `accord users` manages them.

Leads manage annotators; only admins manage leads and admins. Only the digest of a personal link is stored. The page
after a form derives the link from the keys of the form and of the session, so that no address contains it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from accord.edges import BadInput
from accord.live import Refused
from accord.store import ROLES, Role
from accord.web.accounts import Visitor, add_people, change_role, key_of_form, new_key, new_link, parse_key
from accord.web.context import WorkbenchContext, add_page
from accord.web.pages.login import set_session_cookie

MAX_LINKS = 200
"""Number of links on the page."""


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the page of people and its form."""
    pages = _PeoplePages(context)
    add_page(app, "/people", pages.overview)
    app.post("/people")(pages.change)


class _PeoplePages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    def overview(self, request: Request, once: str = "", names: str = "") -> Response:
        """Show all accounts, the form that adds one, and the links that a form of this session has just made."""
        visitor = self.context.visitor(request, "lead")
        people = [person._asdict() for person in self.context.studies.accounts.list_users()]
        data = {"people": people, "is_single_user": self.context.accounts.is_single_user}
        return self.context.render_or_json(
            request, "people", visitor, data, links=self._links(request, visitor, once, names.split()), roles=ROLES,
            own=visitor.person.name, once=new_key(), is_local=not self.context.exposure,
        )  # fmt: skip

    def _links(self, request: Request, visitor: Visitor, once: str, names: Sequence[str]) -> list[dict[str, str]]:
        """Return the personal links that a form has made, from its key and the session's key; others stay secret."""
        site, links = f"{request.url.scheme}://{request.headers.get('host', '')}", []
        for name in names[:MAX_LINKS] if parse_key(once) else ():
            key = key_of_form(visitor.key, once, name)
            account = self.context.accounts.account_of_link(key)
            if account is not None and account.name == name:
                links.append({"name": name, "link": f"{site}/in/{key}"})
        return links

    async def change(self, request: Request) -> Response:
        """Add people, replace a link, change a role, or remove an account; new links are shown on the next page."""
        visitor, fields = await self.context.read_form(request, "lead")
        given = str(fields.get("once", ""))
        once = given if parse_key(given) else new_key()
        if self.context.accounts.is_single_user:
            return await run_in_threadpool(self._first_account, request, visitor, fields, once)
        done, names = await run_in_threadpool(self._change, visitor, fields, once)
        return _to_page(done, once, names)

    def _first_account(self, request: Request, visitor: Visitor, fields: Mapping[str, Any], once: str) -> Response:
        """Add the account of the single user, and continue its session under this account."""
        name, session = str(fields.get("names", "")).strip(), new_key()
        link = {name: key_of_form(session, once, name)}
        add_people(self.context.studies, link, "admin", returns=name == visitor.person.name)
        person = self.context.accounts.account_of_link(link[name])
        assert person is not None
        response = _to_page("added", once, [name])
        set_session_cookie(request, response, self.context.accounts.sign_in(person, session))
        return response

    def _change(self, visitor: Visitor, fields: Mapping[str, Any], once: str) -> tuple[str, list[str]]:
        """Do the action of a form's button; return the key of its message, and the names of new links."""
        studies, action = self.context.studies, str(fields.get("do", ""))
        if action == "add":
            role = str(fields.get("role", "annotator"))
            check_may_manage(visitor, role)
            names = str(fields.get("names", "")).replace(",", " ").split()
            if not names:
                raise BadInput("no name given; write one or several names, such as: ann bob")
            add_people(studies, {name: key_of_form(visitor.key, once, name) for name in names}, role)
            return "added", names
        name = str(fields.get("name", ""))
        person = next((each for each in studies.accounts.list_users() if each.name == name), None)
        if person is None:
            raise BadInput(f"there is no user {name[:60]!r}; reload the page")
        if person.name == visitor.person.name:
            raise BadInput("your own account is changed on the machine of the server: accord users")
        check_may_manage(visitor, person.role)
        if action == "link":
            new_link(studies, name, key_of_form(visitor.key, once, name))
            return "link", [name]
        if action == "role":
            role = str(fields.get("role", ""))
            check_may_manage(visitor, role)
            change_role(studies, name, role)
        elif action == "remove":
            studies.accounts.remove(name)
        else:
            raise BadInput(f"action: got {action[:20]!r}, allowed: add, link, role, remove")
        return ("role" if action == "role" else "removed"), []


def _to_page(done: str, once: str, names: Sequence[str]) -> RedirectResponse:
    shown = {"once": once, "names": " ".join(names)} if names else {}
    return RedirectResponse(f"/people?{urlencode({'done': done, **shown})}", 303)


def check_may_manage(visitor: Visitor, role: str | Role) -> None:
    """Check that a user may add or change accounts of a role.

    Raises:
        Refused: 403 if only admins may.
    """
    if role != "annotator" and not visitor.may("admin"):
        raise Refused(
            403, f"only admins add or change accounts of the role {role[:20]}; yours is {visitor.person.role}"
        )

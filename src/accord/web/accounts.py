"""User accounts: personal links, sessions of browsers, roles, and the single user of a machine.

A personal link holds a random key; the store has its digest alone. The page it opens asks for a confirmation, so that a
mail program that fetches the link starts no session.

While there are no accounts, a server that only this machine can reach has a single user, an admin. This user signs in
by a one-time link, which `accord serve` and `accord users link` print, since other accounts of the machine reach the
server as well.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from starlette.requests import Request

from accord.edges import BadInput, UnknownName
from accord.live import Refused, is_local
from accord.store import ONE_TIME_LINK, ROLES, SINGLE_USER, Role, Studies, UserAccount
from accord.web.forms import digest_of, key_in, new_key

COOKIE = "accord_session"
SESSION_DAYS, LINK_DAYS = 30, 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", re.ASCII)
_RIGHTS: Mapping[Role, int] = {role: rank for rank, role in enumerate(ROLES)}


def add_person(studies: Studies, name: str, role: str = "annotator") -> str:
    """Add somebody; returns the key of the personal link, which is not kept and cannot be shown again.

    Raises:
        BadInput: The name is no clean id, or taken.
        UnknownName: There is no such role.
    """
    if not NAME.fullmatch(name):
        raise BadInput(
            f"the name {name[:60]!r}; allowed: 1 to 40 letters a-z, digits, '.', '_' and '-', beginning with a "
            "letter or a digit. Choose such a name."
        )
    key = new_key()
    studies.accounts.add(name, _role(role), digest_of(key))
    return key


def new_link(studies: Studies, name: str) -> str:
    """Another key for somebody; the old link, and all browsers that came in by it, are out.

    Raises:
        BadInput: There is nobody of that name.
    """
    key = new_key()
    studies.accounts.change(name, digest=digest_of(key))
    return key


def change_role(studies: Studies, name: str, role: str) -> None:
    """Give somebody another role.

    Raises:
        BadInput: There is nobody of that name.
        UnknownName: There is no such role.
    """
    studies.accounts.change(name, role=_role(role))


def _role(role: str) -> Role:
    if role not in ROLES:
        raise UnknownName("role", role, ROLES)
    return role


@dataclass(frozen=True)
class Visitor:
    """Who asks: the person, and the key of the browser that its forms are made with."""

    person: UserAccount
    key: str

    def may(self, role: Role) -> bool:
        """Whether the person has this role, or one that includes it."""
        return _RIGHTS[self.person.role] >= _RIGHTS[role]

    def check_may(self, role: Role) -> None:
        """Refuse what this person may not do.

        Raises:
            Refused: With 403.
        """
        if not self.may(role):
            raise Refused(403, f"this page is for people with the role {role}; yours is {self.person.role}")


def local_sign_in_link(studies: Studies, site: str, page: str = "/") -> str:
    """Return a new one-time link that signs the single user of this machine in.

    Args:
        studies: The store's studies; any process that can write to the store can make a link for a running server.
        site: The address of the workbench, such as `http://127.0.0.1:8700`.
        page: The page that the link leads to.

    Raises:
        BadInput: There are user accounts, which have personal links.
    """
    if people := studies.accounts.list_users():
        raise BadInput(
            f"this project has user accounts, which sign in by personal links. accord users link {people[0].name} "
            "prints a new one"
        )
    place = "" if page == "/" else f"?page={quote(page)}"
    return f"{site.rstrip('/')}/in/{_start(studies, ONE_TIME_LINK, LINK_DAYS)}{place}"


def _start(studies: Studies, person: str, days: int) -> str:
    """Add a session or a one-time link to the store, and return its key."""
    key, until = new_key(), datetime.now(UTC) + timedelta(days=days)
    studies.accounts.start_session(digest_of(key), person, until.isoformat(timespec="milliseconds"))
    return key


class Accounts:
    """The accounts that may sign in, or the single user of this machine while there are none."""

    def __init__(self, studies: Studies, exposure: str = "") -> None:
        """Read whether there are accounts.

        Args:
            studies: Of the store with the accounts.
            exposure: The option that makes the server reachable from other machines; see `exposure`.

        Raises:
            BadInput: There is no account, and other machines can reach the server.
        """
        self.studies = studies
        self._is_single_user = not studies.accounts.list_users()
        if self._is_single_user and exposure:
            raise BadInput(
                f"{exposure} makes the workbench reachable from other machines, and no user account protects it. Add "
                f"one: accord users add NAME --role lead. Or serve this machine alone, without {exposure}"
            )
        self._single_user = UserAccount(_own_name(), "admin", "")

    @property
    def is_single_user(self) -> bool:
        """True while there are no accounts; never True again once there was one."""
        if self._is_single_user and self.studies.accounts.list_users():
            self._is_single_user = False
        return self._is_single_user

    def visitor(self, request: Request) -> Visitor | None:
        """Return the signed-in user of a browser, or `None`."""
        key = key_in(request.cookies.get(COOKIE, ""))
        if key is None:
            return None
        if not self.is_single_user:
            person = self.studies.accounts.session(digest_of(key))
        elif is_local(request.scope) and self.studies.accounts.is_single_user(digest_of(key)):
            person = self._single_user
        else:
            person = None
        return None if person is None else Visitor(person, key)

    def invited(self, key: str) -> UserAccount | None:
        """Return the account of a personal link."""
        found = key_in(key)
        return None if found is None else self.studies.accounts.of(digest_of(found))

    def enter(self, person: UserAccount) -> str:
        """Start a session of an account, and return the key for the browser's cookie."""
        return _start(self.studies, person.name, SESSION_DAYS)

    def enter_by_link(self, key: str, request: Request) -> str | None:
        """Use up a one-time link, and return the key for the browser's cookie; `None` if the link is not valid."""
        found = key_in(key)
        if found is None or not self.is_single_user or not is_local(request.scope):
            return None
        is_valid = self.studies.accounts.use_link(digest_of(found))
        return _start(self.studies, SINGLE_USER, SESSION_DAYS) if is_valid else None

    def leave(self, visitor: Visitor) -> None:
        """End a session."""
        self.studies.accounts.end_session(digest_of(visitor.key))


def _own_name() -> str:
    """The name of this machine's user as answers carry it."""
    try:
        name = re.sub(r"[^A-Za-z0-9._-]", "-", getpass.getuser())[:40]
    except (OSError, KeyError):
        name = ""
    return name if NAME.fullmatch(name) else "me"

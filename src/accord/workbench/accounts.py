"""Who somebody is: personal links, sessions of browsers, and roles.

A link holds a random key; the store has its digest alone. Opened, it asks to go on, and the browser gets a session of
its own: a link that a mail program looked at beforehand starts none. On one's own machine, where nobody has been added,
there is one person and no link.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from accord.live import Refused, is_loopback
from accord.store import ROLES, Person, Role, Studies
from accord.values import BadInput, UnknownName
from accord.workbench.forms import digest_of, key_in, new_key

COOKIE = "accord_session"
SESSION_DAYS = 30
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
    studies.people.add(name, _role(role), digest_of(key))
    return key


def new_link(studies: Studies, name: str) -> str:
    """Another key for somebody; the old link, and all browsers that came in by it, are out.

    Raises:
        BadInput: There is nobody of that name.
    """
    key = new_key()
    studies.people.change(name, digest=digest_of(key))
    return key


def change_role(studies: Studies, name: str, role: str) -> None:
    """Give somebody another role.

    Raises:
        BadInput: There is nobody of that name.
        UnknownName: There is no such role.
    """
    studies.people.change(name, role=_role(role))


def _role(role: str) -> Role:
    if role not in ROLES:
        raise UnknownName("role", role, ROLES)
    return role


@dataclass(frozen=True)
class Visitor:
    """Who asks: the person, and the key of the browser that its forms are made with."""

    person: Person
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


class Accounts:
    """Everybody who may come in."""

    def __init__(self, studies: Studies, host: str = "127.0.0.1") -> None:
        """With nobody added, the one person of this machine.

        Raises:
            BadInput: Nobody is added, and it listens beyond this machine.
        """
        self.studies = studies
        self.is_alone = not studies.people.everybody()
        if self.is_alone and not is_loopback(host):
            raise BadInput(
                f"listening on {host} with nobody added would let anybody rate; accord users add NAME --role lead, or "
                "listen on 127.0.0.1"
            )
        self._alone = Person(_own_name(), "admin", "")

    def visitor(self, cookies: Mapping[str, str]) -> Visitor | None:
        """Who a browser is; `None` where it has not come in, or not lately."""
        key = key_in(cookies.get(COOKIE, ""))
        if key is None:
            return None
        if self.is_alone and self.studies.people.everybody():
            self.is_alone = False  # somebody was added since: from now on everybody needs a link
        person = self._alone if self.is_alone else self.studies.people.session(digest_of(key))
        return None if person is None else Visitor(person, key)

    def invited(self, key: str) -> Person | None:
        """Whose link this is."""
        found = key_in(key)
        return None if found is None else self.studies.people.of(digest_of(found))

    def enter(self, person: Person) -> str:
        """Begin a session; returns the key for the browser's cookie."""
        key = new_key()
        until = datetime.now(UTC) + timedelta(days=SESSION_DAYS)
        self.studies.people.start_session(digest_of(key), person.name, until.isoformat(timespec="milliseconds"))
        return key

    def leave(self, visitor: Visitor) -> None:
        """End a session."""
        self.studies.people.end_session(digest_of(visitor.key))


def _own_name() -> str:
    """The name of this machine's user as answers carry it."""
    try:
        name = re.sub(r"[^A-Za-z0-9._-]", "-", getpass.getuser())[:40]
    except (OSError, KeyError):
        name = ""
    return name if NAME.fullmatch(name) else "me"

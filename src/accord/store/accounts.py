"""User accounts, their sessions, and the sign-in of a single user. Keys are stored as digests only.

A row of `sessions` belongs to an account, or, while there is no account, to the single user: `SINGLE_USER` marks a
session and `ONE_TIME_LINK` a sign-in link that was not used yet. No account can have these names.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

from sqlalchemy import Connection, delete, func, insert, select, update

from accord.edges import BadInput
from accord.store.group_commit import GroupWriter
from accord.store.rows import now
from accord.store.schema import people, sessions
from accord.store.store import Store
from accord.values import Annotation

Role = Literal["annotator", "lead", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
SINGLE_USER, ONE_TIME_LINK = "@local", "@link"


class Conflict(BadInput):
    """What is asked for clashes with what is kept; `kept` is the annotation that stands there."""

    def __init__(self, reason: str, kept: Annotation | None = None) -> None:
        super().__init__(reason)
        self.kept = kept


class UserAccount(NamedTuple):
    """Somebody who may come in."""

    name: str
    role: Role
    added: str


class UserAccounts:
    """The people of a store."""

    def __init__(self, store: Store, writer: GroupWriter) -> None:
        self._store, self._writer = store, writer

    def add(self, name: str, role: Role, digest: str) -> UserAccount:
        """Let somebody in whose link has this digest.

        Raises:
            Conflict: There is somebody of that name, whatever its capitals.
        """

        def work(connection: Connection) -> UserAccount:
            there = select(people.c.name).where(func.lower(people.c.name) == name.lower())
            found = connection.execute(there).scalar()
            if found is not None:
                raise Conflict(f"there is somebody called {found!r}; accord users link {found} prints a new link")
            row = {"name": name, "role": role, "digest": digest, "added": now()}
            connection.execute(insert(people).values(row))
            return UserAccount(name, role, row["added"])

        return self._writer.run(work)

    def change(self, name: str, role: Role | None = None, digest: str | None = None) -> None:
        """Give somebody another role or another link; whoever came in by the old one has to come in again.

        Raises:
            BadInput: There is nobody of that name.
        """

        def work(connection: Connection) -> None:
            changed = {key: value for key, value in (("role", role), ("digest", digest)) if value is not None}
            if not connection.execute(update(people).where(people.c.name == name).values(changed)).rowcount:
                raise BadInput(f"nobody is called {name!r}; accord users list names everybody")
            connection.execute(delete(sessions).where(sessions.c.person == name))

        self._writer.run(work)

    def remove(self, name: str) -> None:
        """Let somebody in no more; what they said stays.

        Raises:
            BadInput: There is nobody of that name.
        """

        def work(connection: Connection) -> None:
            if not connection.execute(delete(people).where(people.c.name == name)).rowcount:
                raise BadInput(f"nobody is called {name!r}; accord users list names everybody")
            connection.execute(delete(sessions).where(sessions.c.person == name))

        self._writer.run(work)

    def everybody(self) -> list[UserAccount]:
        """Everybody who may come in, by name."""
        query = select(people.c.name, people.c.role, people.c.added).order_by(people.c.name)
        return [UserAccount(*row) for row in self._store._stream(query)]

    def of(self, digest: str) -> UserAccount | None:
        """Whose link has this digest."""
        query = select(people.c.name, people.c.role, people.c.added).where(people.c.digest == digest)
        return next((UserAccount(*row) for row in self._store._stream(query)), None)

    def start_session(self, digest: str, person: str, until: str) -> None:
        """Add a session, or a one-time link, by the digest of its key, and delete expired ones."""

        def work(connection: Connection) -> None:
            connection.execute(delete(sessions).where(sessions.c.until < now()))
            connection.execute(insert(sessions).values({"digest": digest, "person": person, "until": until}))

        self._writer.run(work)

    def session(self, digest: str) -> UserAccount | None:
        """Who a browser is; `None` where its time is over or the person is gone."""
        query = select(people.c.name, people.c.role, people.c.added).join(sessions, sessions.c.person == people.c.name)
        query = query.where(sessions.c.digest == digest, sessions.c.until >= now())
        return next((UserAccount(*row) for row in self._store._stream(query)), None)

    def is_single_user(self, digest: str) -> bool:
        """Return True if the digest belongs to an unexpired session of the single user."""
        query = select(sessions.c.digest).where(
            sessions.c.digest == digest, sessions.c.person == SINGLE_USER, sessions.c.until >= now()
        )
        return next(iter(self._store._stream(query)), None) is not None

    def use_link(self, digest: str) -> bool:
        """Delete an unexpired one-time link; False if there is none. Of concurrent calls only one gets True."""

        def work(connection: Connection) -> bool:
            link = delete(sessions).where(
                sessions.c.digest == digest, sessions.c.person == ONE_TIME_LINK, sessions.c.until >= now()
            )
            return connection.execute(link).rowcount == 1

        return self._writer.run(work)

    def end_session(self, digest: str) -> None:
        """Delete a session."""
        self._writer.run(lambda connection: connection.execute(delete(sessions).where(sessions.c.digest == digest)))

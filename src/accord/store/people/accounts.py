"""User accounts, their sessions, and the sign-in of a single user. Keys are stored as digests only.

A row of `sessions` belongs to an account, or, until an account exists, to the single user: `SINGLE_USER` marks a
session and `ONE_TIME_LINK` an unused sign-in link. No account can have these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from sqlalchemy import Connection, delete, func, insert, select, update

from accord.edges import BadInput
from accord.store.erasure.tombstones import ANNOTATOR, tombstone_key, tombstones_among
from accord.store.group_commit import Conflict, GroupWriter
from accord.store.rows import now
from accord.store.schema import annotation_table, assignments, chats, sessions, users
from accord.store.store import Store

Role = Literal["annotator", "lead", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
SINGLE_USER, ONE_TIME_LINK = "@local", "@link"
_USER_COLUMNS = (users.c.name, users.c.role, users.c.added)


class UserAccount(NamedTuple):
    """Account of a user; `added` is a time in UTC."""

    name: str
    role: Role
    added: str


class UserAccounts:
    """User accounts and sessions of a store."""

    def __init__(self, store: Store, writer: GroupWriter) -> None:
        self._store, self._writer = store, writer

    def add(self, name: str, role: Role, digest: str, returns: bool = False) -> UserAccount:
        """Add an account with the digest of its link's key; with `returns`, it may have the name of a former user.

        Raises:
            Conflict: An account, or a former user with answers, has this name, ignoring case.
        """
        return self.add_all({name: digest}, role, returns)[0]

    def add_all(self, digests: Mapping[str, str], role: Role, returns: bool = False) -> list[UserAccount]:
        """Add an account for each name, with the digest of its link's key, in a single transaction.

        Raises:
            Conflict: An account has one of the names, ignoring case, or the data of one were erased; without
                `returns` also a former user with answers.
        """

        def write(connection: Connection) -> list[UserAccount]:
            query = select(users.c.name).where(func.lower(users.c.name).in_([name.lower() for name in digests]))
            existing = connection.execute(query.order_by(users.c.name)).scalar()
            if existing is not None:
                raise Conflict(f"there is a user {existing!r} already; accord users link {existing} prints a new link")
            for name in digests:
                if tombstones_among(connection, [tombstone_key(ANNOTATOR, name)]):
                    raise Conflict(
                        f"the data of {name!r} were erased, and nothing under this name is stored again; choose "
                        "another name"
                    )
            if not returns:
                for name in digests:
                    if (former := _former_user(connection, name)) is not None:
                        raise Conflict(
                            f"a former user {former!r} has answers, which the new user would see and change. Choose "
                            f"another name; for the same person: accord users add {former} --returning"
                        )
            accounts = [UserAccount(name, role, now()) for name in digests]
            rows = [{**account._asdict(), "digest": digests[account.name]} for account in accounts]
            connection.execute(insert(users), rows)
            return accounts

        return self._writer.run(write)

    def former_user(self, name: str) -> str | None:
        """Return the name of a user with answers in studies or chats that equals a name, ignoring case, or None."""
        return self._writer.run(lambda connection: _former_user(connection, name))

    def change(self, name: str, role: Role | None = None, digest: str | None = None) -> None:
        """Change the role or the link of a user, and end the user's sessions.

        Raises:
            BadInput: There is no such user.
        """
        changes = {key: value for key, value in (("role", role), ("digest", digest)) if value is not None}
        self._write_and_sign_out(update(users).where(users.c.name == name).values(changes), name)

    def remove(self, name: str) -> None:
        """Remove a user's account and sessions, and keep the user's ratings.

        Raises:
            BadInput: There is no such user.
        """
        self._write_and_sign_out(delete(users).where(users.c.name == name), name)

    def _write_and_sign_out(self, statement: Any, name: str) -> None:
        def write(connection: Connection) -> None:
            if not connection.execute(statement).rowcount:
                raise BadInput(f"there is no user {name!r}; accord users list shows all users")
            connection.execute(delete(sessions).where(sessions.c.person == name))

        self._writer.run(write)

    def list_users(self) -> list[UserAccount]:
        """Return all accounts by name."""
        return [UserAccount(*row) for row in self._store._stream(select(*_USER_COLUMNS).order_by(users.c.name))]

    def of(self, digest: str) -> UserAccount | None:
        """Return the account with the digest of a link's key."""
        return self._first(select(*_USER_COLUMNS).where(users.c.digest == digest))

    def session(self, digest: str) -> UserAccount | None:
        """Return the account of a session, or `None` if the session is unknown or expired."""
        query = select(*_USER_COLUMNS).join(sessions, sessions.c.person == users.c.name)
        return self._first(query.where(sessions.c.digest == digest, sessions.c.until >= now()))

    def _first(self, query: Any) -> UserAccount | None:
        return next((UserAccount(*row) for row in self._store._stream(query)), None)

    def start_session(self, digest: str, person: str, until: str) -> None:
        """Add a session, or a one-time link, by the digest of its key, and delete expired ones."""

        def write(connection: Connection) -> None:
            connection.execute(delete(sessions).where(sessions.c.until < now()))
            connection.execute(insert(sessions).values({"digest": digest, "person": person, "until": until}))

        self._writer.run(write)

    def is_single_user(self, digest: str) -> bool:
        """Return True if the digest belongs to an unexpired session of the single user."""
        return self._store._one(select(sessions.c.digest).where(*_is_valid(digest, SINGLE_USER))) is not None

    def use_link(self, digest: str) -> bool:
        """Delete an unexpired one-time link; False if there is none. Of concurrent calls only one gets True."""
        link = delete(sessions).where(*_is_valid(digest, ONE_TIME_LINK))
        return self._writer.run(lambda connection: connection.execute(link).rowcount == 1)

    def end_session(self, digest: str) -> None:
        """Delete a session."""
        self._writer.run(lambda connection: connection.execute(delete(sessions).where(sessions.c.digest == digest)))


def _former_user(connection: Connection, name: str) -> str | None:
    answered = select(annotation_table.c.by.label("person")).where(annotation_table.c.answer.is_not(None))
    people = [select(assignments.c.person), select(chats.c.person), answered]
    queries = (select(found.c.person).where(func.lower(found.c.person) == name.lower()).limit(1)
               for found in (query.subquery() for query in people))  # fmt: skip
    return next((str(person) for query in queries if (person := connection.execute(query).scalar())), None)


def _is_valid(digest: str, person: str) -> tuple[Any, ...]:
    return sessions.c.digest == digest, sessions.c.person == person, sessions.c.until >= now()

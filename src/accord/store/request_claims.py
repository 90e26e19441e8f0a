"""What is paid for is paid once: claims on what is being asked, and a spool for what the store could not keep.

A claim says who asks something, under the key that its answer will have, and until when nobody else needs to. It is a
lease: whoever holds it renews it, and where a process was killed it runs out and the next one takes it over.

The spool is a folder of JSON lines that only its owner reads, beside the store or, where there is no room, in the
user's own folder. Opening the project takes it in again.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from sqlalchemy import delete, not_, select, update

from accord.edges import MB, BadInput, read_text, redact, write_atomically
from accord.store.engine import StoreError, database_errors, is_in_memory, parsed_url
from accord.store.parts import VectorCache, check_vector, unpacked
from accord.store.rows import BATCH, batches
from accord.store.schema import claims
from accord.store.store import Store

LEASE_SECONDS = 60.0
"""Seconds for which a claim holds unless it is renewed. Clocks of machines that share a store differ by less."""


def utc_now() -> datetime:
    """The time in UTC."""
    return datetime.now(UTC)


class ClaimResult(NamedTuple):
    """What came of claiming keys.

    Attributes:
        mine: Those that are claimed here now.
        over: How many of these were taken over from somebody whose claim had run out.
        until: When the last claim that somebody else holds on one of the others runs out (UTC); empty where none is.
    """

    mine: frozenset[str] = frozenset()
    over: int = 0
    until: str = ""

    def plus(self, other: ClaimResult) -> ClaimResult:
        """Both together."""
        return ClaimResult(self.mine | other.mine, self.over + other.over, max(self.until, other.until))


class Claims:
    """The claims of one owner in a store."""

    def __init__(self, store: Store, clock: Callable[[], datetime] = utc_now, lease: float = LEASE_SECONDS) -> None:
        """`clock` tells the time in UTC, and `lease` how many seconds a claim holds."""
        self.owner = uuid.uuid4().hex[:16]
        self._store, self._clock, self._lease = store, clock, lease

    def exchange(self, freed: Collection[str], wanted: Collection[str], renewed: bool = False) -> ClaimResult:
        """Give up some claims, renew the others where `renewed`, and claim what nobody holds.

        Giving up and claiming are transactions of their own, and none waits for a row of another's while it has locked
        one that the other may want: two who exchange claims at once never wait for each other in a ring.

        Raises:
            StoreError: The store cannot be written.
        """
        taken, until = ClaimResult(), _stamp(self._clock() + timedelta(seconds=self._lease))
        with database_errors(self._store.url):
            if freed or renewed:
                self._give_up(freed, until if renewed else None)
            for some in batches(sorted(wanted), BATCH):
                taken = taken.plus(self._take(some, until))
        return taken

    def _give_up(self, freed: Collection[str], until: str | None) -> None:
        """Let go of some claims, and hold the others until then, where a time is given."""
        own = claims.c.owner == self.owner
        with self._store._engine.begin() as connection:
            for some in batches(freed, BATCH):
                connection.execute(delete(claims).where(own, claims.c.key.in_(some)))
            if until is not None:
                connection.execute(update(claims).where(own).values(until=until))

    def _take(self, wanted: Sequence[str], until: str) -> ClaimResult:
        """Claim the keys that are free, and those whose claim has expired."""
        rows = [{"key": key, "owner": self.owner, "until": until} for key in wanted]
        with self._store._engine.begin() as connection:
            mine = frozenset(key for (key,) in self._store._added(connection, claims, rows))
        if len(mine) == len(wanted):
            return ClaimResult(mine)
        table, (earliest, latest) = claims.c, self._valid()
        left = table.key.in_([key for key in wanted if key not in mine])
        held = list(self._store._stream(select(table.key, table.until).where(left)))
        over: list[str] = []
        if any(not earliest <= row.until <= latest for row in held):
            with self._store._engine.begin() as connection:
                # A locked row is being taken over, given up or renewed by another process at this moment.
                expired = not_(table.until.between(earliest, latest))
                gone = select(table.key).where(left, expired).with_for_update(skip_locked=True)
                over = [key for (key,) in connection.execute(gone)]
                connection.execute(update(claims).where(table.key.in_(over)).values(owner=self.owner, until=until))
        return ClaimResult(
            mine.union(over), len(over), max((row.until for row in held if row.key not in over), default="")
        )

    def held(self, keys: Iterable[str]) -> set[str]:
        """Return the keys that another owner has a valid claim on."""
        table = claims.c
        query = select(table.key).where(table.owner != self.owner, table.until.between(*self._valid()))
        found = (self._store._stream(query.where(table.key.in_(some))) for some in batches(keys, BATCH))
        return {key for rows in found for (key,) in rows}

    def _valid(self) -> tuple[str, str]:
        """Return the earliest and the latest end of a claim that is still held.

        A claim is made for one lease, by a clock that is less than one lease ahead of this one. A claim that ends later
        was made while a clock was wrong and counts as expired.
        """
        now = self._clock()
        return _stamp(now), _stamp(now + timedelta(seconds=2 * self._lease))


def _stamp(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")


# --- what was paid for, as rows -------------------------------------------------------------------------------------


class _Row(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, ser_json_bytes="base64", val_json_bytes="base64"
    )


_Share = Annotated[float, Field(ge=0, le=1.001, allow_inf_nan=False)]


class _Usage(_Row):
    input_tokens: int = Field(0, ge=0)
    output_tokens: int = Field(0, ge=0)


class _Reply(_Row):
    text: str
    model: str
    first_token: dict[str, _Share] | None
    usage: _Usage


_Likelihood = tuple[Annotated[float, Field(le=0, allow_inf_nan=False)], Annotated[int, Field(ge=0)]]


def _json_of(kind: Any) -> Any:
    """The type of a text that is JSON of some type."""
    adapter = TypeAdapter(kind)

    def checked(text: str) -> str:
        adapter.validate_json(text)
        return text

    return Annotated[str, AfterValidator(checked)]


def _finite(packed: bytes) -> bytes:
    check_vector(packed)
    return packed


class _PaidReply(_Row):
    kind: Literal["reply"]
    key: str
    maker: str
    content: _json_of(_Reply | list[_Likelihood])  # type: ignore[valid-type]


class _PaidAnswer(_Row):
    kind: Literal["answer"]
    key: str
    conversation: str
    turn: int | None
    question: str
    judge: str
    mode: str
    probabilities: _json_of(dict[str, _Share])  # type: ignore[valid-type]
    outside: _Share
    made_from: _json_of(dict[str, Any])  # type: ignore[valid-type]
    version: str | None


class _PaidVector(_Row):
    kind: Literal["vector"]
    key: str
    maker: str
    bytes: Annotated[bytes, AfterValidator(_finite)]


_PAID: TypeAdapter[_PaidReply | _PaidAnswer | _PaidVector] = TypeAdapter(
    Annotated[_PaidReply | _PaidAnswer | _PaidVector, Field(discriminator="kind")]
)
PaidRow = Mapping[str, Any]
"""A row of what was paid for: `kind` (`reply`, `answer` or `vector`), `key`, and what the store keeps of it."""


def add_paid_rows(store: Store, rows: Sequence[PaidRow]) -> None:
    """Keep what was paid for; equal keys are kept once.

    Raises:
        StoreError: The store cannot be written.
    """
    kinds: dict[str, list[PaidRow]] = {}
    for row in rows:
        kinds.setdefault(row["kind"], []).append({name: value for name, value in row.items() if name != "kind"})
    store.add_answers(kinds.get("answer", ()))
    store.add_replies(kinds.get("reply", ()))
    for maker in sorted({row["maker"] for row in kinds.get("vector", ())}):
        mine = (row for row in kinds["vector"] if row["maker"] == maker)
        VectorCache(store).add(maker, {row["key"]: unpacked(row["bytes"]) for row in mine})


# --- the spool ------------------------------------------------------------------------------------------------------

SPOOL_BYTES = 256 * MB
"""The most that one file of a spool may hold: what was answered within a moment."""
REFUSED = ".refused"


class UnsavedAnswers(StoreError):
    """The store failed while answers were being paid for; says what became of those that came afterwards."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self._reason, self._spooled, self._lost = reason, Counter[Path](), 0

    def spooled(self, count: int, folder: Path | None) -> None:
        """Note that so many answers were written to a folder, or to none."""
        if folder is None:
            self._lost += count
        else:
            self._spooled[folder] += count
        database_errors = [self._reason]
        for place, kept in self._spooled.items():
            database_errors.append(f"{kept} answers that were paid for are in {place}; the next command takes them in.")
        if self._lost:
            database_errors.append(f"{self._lost} answers that were paid for could be written nowhere and are lost.")
        self.args = (" ".join(database_errors),)


class Spool:
    """What was paid for and could not be written to a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.folders = spool_folders(store.url)

    def put(self, rows: Sequence[PaidRow]) -> Path | None:
        """Write rows to a file of their own, beside the store where there is room; the folder, where there was one."""
        lines = [redact(_PAID.dump_json(_PAID.validate_python(row)).decode()) for row in rows]
        for folder in self.folders:
            with suppress(OSError):
                folder.parent.mkdir(parents=True, exist_ok=True)
                folder.mkdir(mode=0o700, exist_ok=True)
                write_atomically(folder / f"{uuid.uuid4().hex}.jsonl", "\n".join(lines) + "\n")
                return folder
        return None

    def take_in(self) -> list[str]:
        """Put what is spooled into the store and remove it; says in lines what was taken in and what could not be."""
        lines, taken = [], 0
        for path in [path for folder in self.folders for path in sorted(folder.glob("*.jsonl"))]:
            try:
                rows, wrong = _read(path)
                add_paid_rows(self._store, rows)
                if wrong:
                    path.replace(path.with_suffix(REFUSED))
                    lines.append(f"{path.with_suffix(REFUSED)}: {wrong}; what else it held was taken in")
                path.unlink(missing_ok=True)
                taken += len(rows)
            except StoreError as error:
                lines.append(f"answers that were paid for wait in {path.parent}: {error}")
                break
            except (BadInput, OSError) as error:
                lines.append(f"answers that were paid for stay where they are: {error}")
        for folder in self.folders:
            with suppress(OSError):  # it holds something still, or was never there
                folder.rmdir()
        if taken:
            lines.insert(0, f"took in {taken} answers that were paid for when the store could not be written")
        return lines


def spool_folders(url: str) -> list[Path]:
    """Where a store's spool may lie, the better place first; nowhere for a store in memory.

    A file's is beside it, for whoever opens it; a server's with its user, for whatever folder is worked in.
    """
    from platformdirs import user_state_path

    parsed = parsed_url(url)
    if is_in_memory(parsed):
        return []
    if parsed.get_backend_name() == "sqlite":
        file = Path(str(parsed.database)).absolute()
        beside, name = [file.with_name(f"{file.name}.unsaved")], str(file)
    else:
        beside, name = [], parsed.render_as_string(hide_password=True)
    return [*beside, user_state_path("accord", appauthor=False) / f"{_digest(name)}.unsaved"]


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def _read(path: Path) -> tuple[list[PaidRow], str]:
    """The rows of a file of the spool, and what is wrong with the first line that is none.

    Raises:
        BadInput: It is no file that this user wrote, or cannot be read.
    """
    about = path.lstat()
    if hasattr(os, "geteuid") and (about.st_uid != os.geteuid() or about.st_mode & 0o022):
        raise BadInput(f"{path} can be written by others than its owner; remove it, or make it yours alone: chmod 600")
    rows: list[PaidRow] = []
    wrong = ""
    for number, line in enumerate(read_text(path, SPOOL_BYTES).rstrip("\n").split("\n"), 1):
        try:
            rows.append(_PAID.validate_json(line).model_dump())
        except (ValidationError, RecursionError) as error:
            about_it = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "nested too deeply"
            wrong = wrong or f"line {number} is no answer that can be kept ({about_it})"
    return rows, wrong

"""A budget shared by processes, claims on requests in progress, and a spool for paid answers.

Each process takes slices of the rest of a budget and spends no more than it has taken. A slice is taken in a
transaction that locks the budget's row, so the total never exceeds a cap. Slices are small shares of the rest, so that
no process holds the last part. Unspent amounts go back when a process ends; the slices of a killed process count as
spent.

A claim is a lease on a request, under the key of its answer: its owner renews it, and the claim of a killed process
expires. The spool is a folder of JSON lines that only its owner can read, next to the store or, if the disk is full, in
the user's state folder. Opening the project stores its rows.
"""

from __future__ import annotations

import hashlib
import math
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
from accord.store.derived_tables import VectorCache, check_vector, unpacked
from accord.store.engine import StoreError, database_errors, is_in_memory, parsed_url
from accord.store.rows import BATCH, batches
from accord.store.schema import budgets, claims
from accord.store.store import USAGE, Store

SLICES = 64
"""A slice is this part of the rest, or the amounts of the next call if they are larger."""
MONEY_UNITS = 10**9
"""Money is counted in whole billionths, which add up exactly."""


class Amounts(NamedTuple):
    """Costs of calls: requests, tokens, and money in billionths."""

    requests: int = 0
    tokens: int = 0
    money: int = 0

    @classmethod
    def of(cls, requests: int, tokens: int, money: float) -> Amounts:
        """Return amounts with money in units of currency, rounded up to billionths."""
        return cls(requests, tokens, math.ceil(money * MONEY_UNITS - 1e-6))

    def plus(self, other: Amounts) -> Amounts:
        """Return the sum of two amounts."""
        return Amounts(*(first + second for first, second in zip(self, other, strict=True)))

    def minus(self, other: Amounts) -> Amounts:
        """Return the difference of two amounts."""
        return Amounts(*(first - second for first, second in zip(self, other, strict=True)))


class SharedBudget:
    """Amounts that the processes of a shared budget have taken, under the budget's name in their store."""

    def __init__(self, store: Store, name: str) -> None:
        self.name = name
        self._store = store

    def take(self, need: Amounts, caps: Mapping[str, int | None]) -> Amounts | None:
        """Take a slice that holds at least the costs of the next call. Return `None` if the rest is too small.

        Args:
            need: Maximum costs of the next call.
            caps: Caps on the total of all processes: `requests`, `tokens` and `money` in billionths; None is unlimited.

        Raises:
            StoreError: The store cannot be written.
        """
        with database_errors(self._store.url), self._store._engine.begin() as connection:
            taken = self._locked(connection)
            amounts: dict[str, int] = {}
            for name, least in need._asdict().items():
                cap, spent = caps.get(name), int(getattr(taken, name))
                if cap is not None and spent + least > cap:
                    return None
                amounts[name] = least if cap is None else max(least, (cap - spent) // SLICES)
            self._add(connection, taken, amounts)
        return Amounts(**amounts)

    def settle(self, difference: Amounts) -> None:
        """Add the spending beyond the taken slices; a negative difference goes back to the budget.

        Raises:
            StoreError: The store cannot be written.
        """
        if any(difference):
            with database_errors(self._store.url), self._store._engine.begin() as connection:
                self._add(connection, self._locked(connection), difference._asdict())

    def taken(self) -> Amounts:
        """Return the total that all processes have taken."""
        rows = list(self._store._stream(self._row()))
        return Amounts(*map(int, rows[0])) if rows else Amounts()

    def _row(self) -> Any:
        return select(budgets.c.requests, budgets.c.tokens, budgets.c.money).where(budgets.c.name == self.name)

    def _locked(self, connection: Any) -> Any:
        """Return the budget's row, locked until the transaction ends."""
        empty = {"name": self.name, **Amounts()._asdict()}
        connection.execute(self._store._insert(budgets).values(**empty).on_conflict_do_nothing())
        return connection.execute(self._row().with_for_update()).one()

    def _add(self, connection: Any, taken: Any, amounts: Mapping[str, int]) -> None:
        totals = {name: int(getattr(taken, name)) + amount for name, amount in amounts.items()}
        connection.execute(update(budgets).where(budgets.c.name == self.name).values(**totals))


LEASE_SECONDS = 60.0
"""Seconds until a claim expires. Clocks of machines that share a store must differ by less."""


def utc_now() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)


class ClaimResult(NamedTuple):
    """The claimed keys, and how many were taken over from expired claims.

    `until` is the time (UTC) when the last claim of another owner on the other keys expires; empty if there is none.
    """

    mine: frozenset[str] = frozenset()
    over: int = 0
    until: str = ""

    def plus(self, other: ClaimResult) -> ClaimResult:
        """Return the union of two results."""
        return ClaimResult(self.mine | other.mine, self.over + other.over, max(self.until, other.until))


class Claims:
    """Claims of one owner in a store."""

    def __init__(self, store: Store, clock: Callable[[], datetime] = utc_now, lease: float = LEASE_SECONDS) -> None:
        """`clock` returns the time in UTC; `lease` is the duration of a claim in seconds."""
        self.owner = uuid.uuid4().hex[:16]
        self._store, self._clock, self._lease = store, clock, lease

    def exchange(self, released: Collection[str], wanted: Collection[str], renew: bool = False) -> ClaimResult:
        """Release some claims, renew the others if `renew` is set, and claim the keys that are free.

        Releasing and claiming are separate transactions, and neither waits for a row while it holds another one, so
        that two concurrent exchanges cannot deadlock.

        Raises:
            StoreError: The store cannot be written.
        """
        result, until = ClaimResult(), _stamp(self._clock() + timedelta(seconds=self._lease))
        with database_errors(self._store.url):
            if released or renew:
                self._release(released, until if renew else None)
            for batch in batches(sorted(wanted), BATCH):
                result = result.plus(self._claim(batch, until))
        return result

    def _release(self, keys: Collection[str], until: str | None) -> None:
        """Delete some claims, and extend the others until a time, if it is given."""
        is_own = claims.c.owner == self.owner
        with self._store._engine.begin() as connection:
            for batch in batches(keys, BATCH):
                connection.execute(delete(claims).where(is_own, claims.c.key.in_(batch)))
            if until is not None:
                connection.execute(update(claims).where(is_own).values(until=until))

    def _claim(self, keys: Sequence[str], until: str) -> ClaimResult:
        """Claim the keys that are free or whose claim has expired."""
        rows = [{"key": key, "owner": self.owner, "until": until} for key in keys]
        with self._store._engine.begin() as connection:
            claimed = frozenset(key for (key,) in self._store._added(connection, claims, rows))
        if len(claimed) == len(keys):
            return ClaimResult(claimed)
        table, (earliest, latest) = claims.c, self._valid_range()
        is_other = table.key.in_([key for key in keys if key not in claimed])
        others = list(self._store._stream(select(table.key, table.until).where(is_other)))
        taken_over: list[str] = []
        if any(not earliest <= row.until <= latest for row in others):
            with self._store._engine.begin() as connection:
                # A locked row is being taken over, released or renewed by another process.
                is_expired = not_(table.until.between(earliest, latest))
                expired = select(table.key).where(is_other, is_expired).with_for_update(skip_locked=True)
                taken_over = [key for (key,) in connection.execute(expired)]
                change = update(claims).where(table.key.in_(taken_over)).values(owner=self.owner, until=until)
                connection.execute(change)
        last = max((row.until for row in others if row.key not in taken_over), default="")
        return ClaimResult(claimed.union(taken_over), len(taken_over), last)

    def held(self, keys: Iterable[str]) -> set[str]:
        """Return the keys on which another owner has a valid claim."""
        table = claims.c
        query = select(table.key).where(table.owner != self.owner, table.until.between(*self._valid_range()))
        pages = (self._store._stream(query.where(table.key.in_(batch))) for batch in batches(keys, BATCH))
        return {key for rows in pages for (key,) in rows}

    def _valid_range(self) -> tuple[str, str]:
        """Return the earliest and the latest end of a valid claim.

        A claim lasts one lease, by a clock that is less than one lease ahead of this one. A claim that ends later was
        made with a wrong clock and counts as expired.
        """
        now = self._clock()
        return _stamp(now), _stamp(now + timedelta(seconds=2 * self._lease))


def _stamp(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds")


# --- paid answers as rows -------------------------------------------------------------------------------------------


class _PaidModel(BaseModel):
    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, ser_json_bytes="base64", val_json_bytes="base64"
    )


_Share = Annotated[float, Field(ge=0, le=1.001, allow_inf_nan=False)]


class _PaidUsage(_PaidModel):
    input_tokens: int = Field(0, ge=0)
    output_tokens: int = Field(0, ge=0)


class _ReplyContent(_PaidModel):
    text: str
    model: str
    first_token: dict[str, _Share] | None
    usage: _PaidUsage


_Likelihood = tuple[Annotated[float, Field(le=0, allow_inf_nan=False)], Annotated[int, Field(ge=0)]]


def _json_of(kind: Any) -> Any:
    """Return the type of a text that is JSON of a type."""
    adapter = TypeAdapter(kind)

    def validated(text: str) -> str:
        adapter.validate_json(text)
        return text

    return Annotated[str, AfterValidator(validated)]


def _validated_vector(packed: bytes) -> bytes:
    check_vector(packed)
    return packed


class _PaidReply(_PaidModel):
    kind: Literal["reply"]
    key: str
    maker: str
    content: _json_of(_ReplyContent | list[_Likelihood])  # type: ignore[valid-type]
    conversations: list[str] | None = None


class _UsageContent(_PaidModel):
    role: str
    requests: int
    input_tokens: int
    output_tokens: int


class _PaidRequest(_PaidModel):
    kind: Literal["usage"]
    key: str
    maker: str
    content: _json_of(_UsageContent)  # type: ignore[valid-type]
    conversations: list[str] | None = None


class _PaidAnswer(_PaidModel):
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


class _PaidVector(_PaidModel):
    kind: Literal["vector"]
    key: str
    maker: str
    bytes: Annotated[bytes, AfterValidator(_validated_vector)]
    conversations: list[str] | None = None


_PAID: TypeAdapter[_PaidReply | _PaidRequest | _PaidAnswer | _PaidVector] = TypeAdapter(
    Annotated[_PaidReply | _PaidRequest | _PaidAnswer | _PaidVector, Field(discriminator="kind")]
)
PaidRow = Mapping[str, Any]
"""A paid answer: `kind` (`reply`, `answer`, `vector` or `usage`), `key`, and the fields that the store keeps.

Replies and vectors also have `conversations`: the ids of conversations with text in the request, or `None` if unknown.
"""


def answer_count(rows: Sequence[PaidRow]) -> int:
    """Return the number of paid answers; the usage of a request is none."""
    return sum(row["kind"] != "usage" for row in rows)


def add_paid_rows(store: Store, rows: Sequence[PaidRow]) -> None:
    """Store paid answers; of equal keys the first stays.

    Raises:
        StoreError: The store cannot be written.
    """
    by_kind: dict[str, list[PaidRow]] = {}
    for row in rows:
        by_kind.setdefault(row["kind"], []).append({name: value for name, value in row.items() if name != "kind"})
    store.add_answers(by_kind.get("answer", ()))
    store.add_replies(by_kind.get("reply", ()))
    store.add_replies(by_kind.get("usage", ()), USAGE)
    vectors: dict[str, dict[str, Any]] = {}
    for row in by_kind.get("vector", ()):
        vectors.setdefault(row["maker"], {})[row["key"]] = unpacked(row["bytes"])
    sources = {row["key"]: row.get("conversations") for row in by_kind.get("vector", ())}
    for embedder in sorted(vectors):
        VectorCache(store).add(embedder, vectors[embedder], sources)


# --- the spool ------------------------------------------------------------------------------------------------------

SPOOL_BYTES = 256 * MB
"""Maximum size of a spool file."""
REFUSED = ".refused"


class UnsavedAnswers(StoreError):
    """A failure of the store while paid answers arrive; its message counts the spooled and the lost answers."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self._reason, self._spooled, self._lost = reason, Counter[Path](), 0

    def spooled(self, count: int, folder: Path | None) -> None:
        """Count answers that were written to a spool folder, or lost if it is None."""
        if folder is None:
            self._lost += count
        else:
            self._spooled[folder] += count
        lines = [self._reason]
        for path, number in self._spooled.items():
            lines += [f"{number} paid answers are in {path}; the next command stores them."] if number else []
        if self._lost:
            lines.append(f"{self._lost} paid answers could not be written anywhere and are lost.")
        self.args = (" ".join(lines),)


class Spool:
    """Paid answers that could not be written to a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.folders = spool_folders(store.url)

    def put(self, rows: Sequence[PaidRow]) -> Path | None:
        """Write rows to a new file in the first spool folder that has space; return the folder, or None."""
        lines = [redact(_PAID.dump_json(_PAID.validate_python(row)).decode()) for row in rows]
        for folder in self.folders:
            with suppress(OSError):
                folder.parent.mkdir(parents=True, exist_ok=True)
                folder.mkdir(mode=0o700, exist_ok=True)
                write_atomically(folder / f"{uuid.uuid4().hex}.jsonl", "\n".join(lines) + "\n")
                return folder
        return None

    def take_in(self) -> list[str]:
        """Store and remove the spooled rows; return messages about stored and rejected rows."""
        messages, stored = [], 0
        for path in [path for folder in self.folders for path in sorted(folder.glob("*.jsonl"))]:
            try:
                rows, fault = _read(path)
                add_paid_rows(self._store, rows)
                if fault:
                    path.replace(path.with_suffix(REFUSED))
                    messages.append(f"{path.with_suffix(REFUSED)}: {fault}; the other rows were stored")
                path.unlink(missing_ok=True)
                stored += answer_count(rows)
            except StoreError as error:
                messages.append(f"paid answers wait in {path.parent}: {error}")
                break
            except (BadInput, OSError) as error:
                messages.append(f"paid answers were not stored: {error}")
        for folder in self.folders:
            with suppress(OSError):  # the folder is not empty, or does not exist
                folder.rmdir()
        if stored:
            messages.insert(0, f"stored {stored} paid answers that the store could not take before")
        return messages


def spool_folders(url: str) -> list[Path]:
    """Return the spool folders of a store, the preferred one first; empty for a store in memory.

    The spool of a SQLite file is in the same folder, the spool of a server in the user's state folder.
    """
    from platformdirs import user_state_path

    parsed = parsed_url(url)
    if is_in_memory(parsed):
        return []
    if parsed.get_backend_name() == "sqlite":
        file = Path(str(parsed.database)).absolute()
        folders, name = [file.with_name(f"{file.name}.unsaved")], str(file)
    else:
        folders, name = [], parsed.render_as_string(hide_password=True)
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:12]
    return [*folders, user_state_path("accord", appauthor=False) / f"{digest}.unsaved"]


def _read(path: Path) -> tuple[list[PaidRow], str]:
    """Return the rows of a spool file, and a message about its first invalid line, or an empty text.

    Raises:
        BadInput: Other users can write the file, or it cannot be read.
    """
    status = path.lstat()
    if hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
        raise BadInput(f"{path} can be written by other users; remove it, or make it private: chmod 600")
    rows: list[PaidRow] = []
    fault = ""
    for number, line in enumerate(read_text(path, SPOOL_BYTES).rstrip("\n").split("\n"), 1):
        try:
            rows.append(_PAID.validate_json(line).model_dump())
        except (ValidationError, RecursionError) as error:
            reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "nested too deeply"
            fault = fault or f"line {number} is not a paid answer ({reason})"
    return rows, fault

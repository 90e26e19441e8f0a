"""The mart of scores: a folder of Parquet parts that many processes append to and Polars reads lazily (decision 0039).

    accord.db.scores/part-4be1….parquet    a finished part, written under another name, synced and renamed
    accord.db.scores/live-91aa….jsonl      log of a writer that is still open, one row per line

A row has the columns of `MART` and a `key`: the last row of each key counts. A log becomes a part of the same name, and
compaction writes one part that names those it replaces. If a process is killed at any time, no written row is lost and
none counts twice.

A file that is not a regular file, or whose rows or columns differ from its own metadata, is never read. The board and
`accord store check` name it until it is moved away, or written again by the run that it is from.
"""

from __future__ import annotations

import errno
import io
import json
import os
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Self, TypeVar

from accord.edges import (
    BadInput,
    create_private,
    first_line,
    open_private,
    open_regular,
    regular_size,
    replace_file,
    unreadable_parquet,
)
from accord.store.engine import StoreError
from accord.store.erasure.erased_rows import overwrite_erased
from accord.store.mart.erased_list import ERASED_NAMES, ErasedList
from accord.store.mart.files import (
    DAMAGED,
    FORMAT,
    IGNORED,
    METADATA_KEY,
    MartPart,
    read_metadata,
    scan_part,
    sync,
    try_lock,
)
from accord.store.rows import batches
from accord.values import MartRow as MartRow
from accord.values import in_calendar_only, mart_frame, mart_lines, mart_schema, row_of_line

if TYPE_CHECKING:
    import polars as pl

SYNC_SECONDS = 1.0
"""Seconds between syncs of a log: a power failure loses at most the rows of this time, a killed process none."""
MOST_LOG_ROWS = 20_000
"""Rows from which a log becomes a part."""
MOST_LOOSE_ROWS = 50_000
"""Rows in parts outside the compacted one from which they are compacted."""
_COMPACTION_SECONDS = 60.0
"""Seconds that an erasure waits for the compaction of another process."""
_MOST_TRIES, ABANDONED_SECONDS = 5, 3600.0
"""Tries of a query during compaction, and seconds after which an unfinished file is removed."""
_LOCK = "compacting.lock"
COUNTED = "counted"
"""Key of a row of a log with values for monitoring, which parts do not hold."""
_COUNTED_KEY = f'"{COUNTED}":'.encode()
T = TypeVar("T")


@dataclass(frozen=True)
class MartState:
    """State of a mart; equal states hold the same rows.

    Attributes:
        files: Names and sizes of the parts and logs that count.
        faults: Sentences on files that are ignored.
    """

    files: tuple[tuple[str, int], ...]
    faults: tuple[str, ...] = ()


@dataclass
class _LiveLog:
    """Rows of a log up to `offset`."""

    offset: int = 0
    rows: list[MartRow] = field(default_factory=list)
    tables: list[pl.DataFrame] = field(default_factory=list)
    invalid: int = 0

    def table(self) -> pl.DataFrame:
        """Return all rows; only new ones are converted."""
        import polars as pl

        if self.rows or not self.tables:
            self.tables.append(mart_frame(self.rows))
            self.rows = []
        self.tables = [pl.concat(self.tables, rechunk=True)] if len(self.tables) > 1 else self.tables
        return self.tables[0]


class Mart:
    """A folder of scores; safe for several processes and threads."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._known: dict[tuple[str, int, int], MartPart] = {}
        self._logs: dict[str, _LiveLog] = {}
        self._fresh: tuple[MartState, pl.DataFrame] | None = None
        self.erased = ErasedList(self.folder)
        self._lock = Lock()

    # --- writing ------------------------------------------------------------------------------------------------

    def add(self, rows: Iterable[MartRow], name: str | None = None, batch_size: int = 50_000) -> int:
        """Append rows as new parts, and return their number; each part appears whole or not at all.

        A `name` (letters and digits) makes the call idempotent: an existing part is not written again.
        """
        if name is not None and self.has(name):
            return 0
        count = 0
        for number, frame in enumerate(map(mart_frame, batches(rows, batch_size))):
            own = None if name is None else name if number == 0 else f"{name}x{number}"
            self._write(frame.lazy(), own)
            count += len(frame)
        return count

    def has(self, name: str) -> bool:
        """Return True if a part with this name was added and can be read."""
        place = self._place(name)
        return place.is_file() and not read_metadata(place, is_whole=True).fault

    def writer(self, before_seal: Callable[[], None] = lambda: None) -> MartWriter:
        """Return a writer that logs rows one by one; `before_seal` is called before its log becomes a part."""
        return MartWriter(self, before_seal)

    def _place(self, name: str) -> Path:
        return self.folder / f"part-{name}.parquet"

    def _write(self, rows: pl.LazyFrame, name: str | None, base: bool = False, replaces: Iterable[str] = ()) -> None:
        """Write a part under another name, sync it and rename it.

        Raises:
            StoreError: The part cannot be written.
        """
        import polars as pl

        name = name or secrets.token_hex(12)
        unfinished = self.folder / f"{name}.{secrets.token_hex(4)}.{os.getpid()}.partial"
        with self.store_errors():
            self.folder.mkdir(parents=True, exist_ok=True)
            rows = self.erased.names.frame(rows)
            count = int(rows.select(pl.len()).collect().item())
            metadata = {"format": FORMAT, "rows": count, "base": base, "replaces": sorted(replaces)}
            try:
                encoded = {METADATA_KEY: json.dumps(metadata)}
                rows.sink_parquet(create_private(unfinished), metadata=encoded, row_group_size=100_000)
                sync(unfinished)
                replace_file(unfinished, self._place(name))
                sync(self.folder)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise

    @contextmanager
    def store_errors(self) -> Iterator[None]:
        """Raise `StoreError` with the reason if the mart cannot be written."""
        try:
            yield
        except unreadable_parquet(BadInput) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
            is_file = self.folder.is_file()
            fault = "is not a folder; move the file away," if is_file else f"cannot be written: {why}; make room,"
            raise StoreError(
                f"the mart {self.folder} {fault} or name another folder under mart: in accord.yaml"
            ) from None

    # --- reading ------------------------------------------------------------------------------------------------

    def state(self) -> MartState:
        """Return the current state."""
        if self.erased.read():
            self._logs = {}
        parts, logs, faults = self._list_files()
        files = [(name, size) for name, (size, _) in sorted(parts.items())] + sorted(logs.items())
        files += [(ERASED_NAMES, self.erased.generation)] if self.erased.generation else []
        return MartState(tuple(files), tuple(faults))

    def scan(self) -> tuple[pl.LazyFrame, MartState]:
        """Return all rows that count, each once, and their state.

        The compacted part is read lazily. Newer rows are held in memory and replace its rows with the same key.
        """
        import polars as pl

        with self._lock:
            state = self.state()
            base = [name for name, _ in state.files if self._part(name).is_base]
            if self._fresh is None or self._fresh[0] != state:
                self._fresh = state, self._read_fresh([name for name, _ in state.files if name not in base])
                if (seen := self.state()) != state:  # reading found damaged files
                    state = seen if seen.files == state.files else state
            fresh = self._fresh[1]
        scans = [self._scan_part(name) for name in base]
        if len(fresh):
            newer = fresh["key"].implode()
            scans = [scan.filter(~pl.col("key").is_in(newer)) for scan in scans]
        return pl.concat([*scans, fresh.lazy()]), state

    def _scan_part(self, name: str) -> pl.LazyFrame:
        """Return the rows of a part, which are read when they are collected."""
        return in_calendar_only(scan_part(self.folder / name, mart_schema()))

    def read(self, query: Callable[[pl.LazyFrame], T]) -> tuple[T, MartState]:
        """Return the result of a query over all rows that count, and their state.

        Compaction by another process during the query causes a retry. A part that turns out to be damaged becomes a
        fault of the state.

        Raises:
            StoreError: The query fails although every part can be read.
        """
        for tries_left in range(_MOST_TRIES - 1, -1, -1):
            try:
                rows, state = self.scan()
                return query(rows), state
            except unreadable_parquet() as error:
                if tries_left == 0:
                    raise StoreError(
                        f"the mart {self.folder} cannot be read ({first_line(error)}); list the damage: accord "
                        "store check"
                    ) from None
                if tries_left == _MOST_TRIES - 2:  # the same failure twice: compaction is not the cause
                    self._read_all()
        raise AssertionError("a query is tried at least once")

    def faults(self) -> tuple[str, ...]:
        """Read every part whole and return one sentence per damaged file."""
        with self._lock:
            self.state()
            self._read_all()
            return tuple(fault.removesuffix(f"; {IGNORED}") for fault in self.state().faults)

    def _read_all(self) -> None:
        """Read every part whole, and note the damaged ones."""
        for key, part in list(self._known.items()):
            with suppress(FileNotFoundError):  # compacted meanwhile
                self._known[key] = part if part.fault else read_metadata(self.folder / key[0], is_whole=True)

    def _read_fresh(self, names: Sequence[str]) -> pl.DataFrame:
        """Return the rows of parts that were not compacted and of logs, the last of each key."""
        import polars as pl

        frames = [pl.DataFrame(schema=mart_schema())]
        for name in names:
            try:
                is_log = name.endswith(".jsonl")
                frames.append(self._logs[name].table() if is_log else self._scan_part(name).collect())
            except FileNotFoundError:
                raise
            except unreadable_parquet() as error:
                fault = f"{name} cannot be read: {first_line(error)}"
                self._known |= {key: MartPart(fault=fault) for key in self._known if key[0] == name}
        return pl.concat(frames).sort("scored", maintain_order=True).unique("key", keep="last", maintain_order=True)

    def _part(self, name: str) -> MartPart:
        return next((part for key, part in self._known.items() if key[0] == name), MartPart())

    def _list_files(self) -> tuple[dict[str, tuple[int, MartPart]], dict[str, int], list[str]]:
        """Return the parts and the logs that count, by name, and a sentence per file that does not."""
        parts: dict[str, tuple[int, MartPart]] = {}
        logs: dict[str, int] = {}
        faults: list[str] = []
        seen: dict[tuple[str, int, int], MartPart] = {}
        for entry in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            is_log = entry.name.startswith("live-") and entry.suffix == ".jsonl"
            if not is_log and entry.suffix != ".parquet":
                continue
            with suppress(FileNotFoundError):  # compacted or turned into a part meanwhile
                try:
                    size = regular_size(entry)
                except BadInput as error:
                    faults.append(f"{str(error).partition(';')[0]}; {IGNORED}")
                    continue
                if is_log:
                    if invalid := self._read_log(entry):
                        faults.append(f"{entry.name}: {invalid} lines are no rows")
                    logs[entry.name] = self._logs[entry.name].offset
                    continue
                key = entry.name, size, entry.stat().st_mtime_ns
                part = seen[key] = self._known.get(key) or read_metadata(entry)
                if part.fault:
                    faults.append(f"{part.fault}; {IGNORED}")
                else:
                    parts[entry.name] = size, part
        self._known = seen
        self._logs = {name: log for name, log in self._logs.items() if name in logs}
        gone = {name for _, part in parts.values() for name in part.replaces}
        sealed = {f"live-{name.removeprefix('part-').removesuffix('.parquet')}.jsonl" for name in (*parts, *gone)}
        return _without(parts, gone), _without(logs, sealed | gone), faults

    def _read_log(self, path: Path) -> int:
        """Read the new lines of a log, and return the number of invalid lines so far."""
        log = self._logs.setdefault(path.name, _LiveLog())
        with io.BufferedReader(open_regular(path)) as stream:
            stream.seek(log.offset)
            for line in stream:
                if not line.endswith(b"\n"):
                    break  # incomplete
                log.offset += len(line)
                if not line.strip():
                    continue  # an erased row
                try:
                    log.rows.append(row_of_line(line))
                except ValueError:
                    log.invalid += 1
        return log.invalid

    # --- erasing ------------------------------------------------------------------------------------------------

    def erase(
        self, keys: Collection[str], kept: Collection[str] = (), annotators: Mapping[str, str] | None = None
    ) -> int:
        """Remove the rows of conversations, whose later rows are dropped, and return their number.

        Rows of logs that other processes are writing are overwritten in place.

        Args:
            keys: Hashes of all erased conversations (`hashed_name`).
            kept: Those whose scores stay under a pseudonym.
            annotators: Pseudonyms by the hash of an erased annotator.

        Raises:
            StoreError: The mart cannot be written, or another process is compacting it.
        """
        if not self.folder.is_dir():
            return 0
        with self.store_errors():
            self.erased.write(keys, kept, annotators)
            names, rows = self.erased.names, list[MartRow]()
            count = self.read(names.count)[0]
            for log in sorted(self.folder.glob("live-*.jsonl")):
                for row in overwrite_erased(log, names):
                    with suppress(ValueError):
                        rows += [] if row is None else [row_of_line(json.dumps(row).encode())]
        self.add(rows)
        deadline = time.monotonic() + _COMPACTION_SECONDS
        while count and not self.compact():
            if time.monotonic() > deadline:
                raise StoreError(f"another process is compacting {self.folder}; try again when it has ended")
            time.sleep(0.1)
        with self.store_errors():
            for left in self.folder.glob("*.partial"):
                if not _has_writer(left):
                    left.unlink(missing_ok=True)
            self.erased.write(keys, kept, annotators)  # readers drop the rows that they hold in memory
        return count

    # --- compaction ---------------------------------------------------------------------------------------------

    def tidy(self) -> bool:
        """Turn logs of ended writers into parts, and compact if many rows are loose; return True if compacted."""
        self.seal()
        parts = [part for _, part in self._list_files()[0].values()]
        loose, whole = (sum(part.rows for part in parts if part.is_base == is_base) for is_base in (False, True))
        return loose >= max(MOST_LOOSE_ROWS, whole // 10) and self.compact()

    def seal(self, count: Callable[[str, IO[bytes]], None] | None = None) -> None:
        """Turn logs of ended writers into parts.

        Args:
            count: Called with the name and the stream of a log with rows that monitoring may not have counted
                (`COUNTED`); by default such logs stay, so that they can be counted later.
        """
        for entry in sorted(self.folder.glob("live-*.jsonl")) if self.folder.is_dir() else ():
            with suppress(FileNotFoundError, BadInput):
                regular_size(entry)  # opening a pipe would wait for its writer
                with entry.open("r+b") as stream:
                    if not try_lock(stream):
                        continue
                    if any(_COUNTED_KEY in line for line in stream):
                        if count is None:
                            continue
                        stream.seek(0)
                        count(entry.stem, stream)
                    invalid = self.write_log(entry)
                self.remove_log(entry, invalid)

    def write_log(self, path: Path) -> int:
        """Write the rows of a log as a part of the same name, so they count once; return the number of bad lines."""
        name = path.stem.removeprefix("live-")
        own = Mart(self.folder)
        invalid = own._read_log(path)
        if len(table := own._logs[path.name].table()) and not self._place(name).exists():
            self._write(table.lazy(), name)
        return invalid

    def remove_log(self, path: Path, invalid: int) -> None:
        """Remove a log that is not open, as Windows requires; rename a log with invalid lines to `NAME.damaged`."""
        if invalid:
            with suppress(FileNotFoundError):  # another process has sealed it too
                path.rename(path.with_name(f"{path.name}{DAMAGED}"))
        path.unlink(missing_ok=True)

    def compact(self) -> bool:
        """Write everything into one part, and remove the parts it replaces; return False if another process does so.

        Raises:
            StoreError: The mart cannot be written.
        """
        with self.store_errors():
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = self.folder / _LOCK
            if lock.exists():
                regular_size(lock)
        with open_private(lock, "ab") as stream:
            if not try_lock(stream):
                return False
            self.seal()
            own = Mart(self.folder)
            try:
                replaced = own._write_compacted()
            except StoreError:
                known = len(own.state().faults)
                if len(own.faults()) == known:
                    raise
                replaced = own._write_compacted()  # without the parts that are known to be damaged now
            for name in replaced:
                with suppress(PermissionError):  # open in another process on Windows; the next compaction removes it
                    (self.folder / name).unlink(missing_ok=True)
            for left in self.folder.glob("*.partial"):
                if left.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                    left.unlink(missing_ok=True)
        return True

    def _write_compacted(self) -> set[str]:
        """Write everything that can be read into one part, and return the names of the files that it replaces."""
        parts, _, _ = self._list_files()  # listed first: a later part is not replaced
        there, _ = self.scan()
        before = {each for _, part in parts.values() for each in part.replaces if (self.folder / each).exists()}
        # Open logs stay: their rows come again and replace these.
        replaced = (parts.keys() | before) - {key[0] for key, part in self._known.items() if part.fault}
        self._write(there, None, base=True, replaces=replaced)
        return replaced


class MartWriter:
    """A log for rows, which are durable once `write` returns; thread-safe.

    A context manager that turns the log into a part at its end. If `before_seal` raises `StoreError`, the log stays.
    """

    def __init__(self, mart: Mart, before_seal: Callable[[], None] = lambda: None) -> None:
        self.mart, self._lock, self._before_seal = mart, Lock(), before_seal
        self._stream: IO[bytes] | None = None
        self._path = Path()
        self._rows, self._synced = 0, time.monotonic()

    def prepare(self) -> str:
        """Return the name of the log of the next rows; a full log becomes a part.

        Raises:
            StoreError: No log can be written.
        """
        with self._lock, self.mart.store_errors():
            self._prepared()
            return self._path.stem

    @property
    def place(self) -> tuple[str, int] | None:
        """Name and size of the log in bytes; None before the first row."""
        with self._lock:
            return None if self._stream is None else (self._path.stem, os.fstat(self._stream.fileno()).st_size)

    def write(self, rows: Sequence[MartRow]) -> None:
        """Append rows, all or none.

        Raises:
            StoreError: The rows cannot be written.
        """
        if names := self.mart.erased.names:
            rows = [dict(kept) for row in rows if (kept := names.row(row)) is not None]
        if not rows:
            return
        with self._lock, self.mart.store_errors():
            if self._stream is not None and not self._is_in_place(self._stream):
                self._seal()  # the log was moved or deleted: later rows get a new one
            stream = self._prepared()
            content = mart_lines(rows)
            file, before = stream.fileno(), os.fstat(stream.fileno()).st_size
            try:
                while content:
                    content = content[stream.write(content) or 0 :]
            except OSError:
                os.ftruncate(file, before)
                raise
            if not self._is_in_place(stream):
                raise FileNotFoundError(errno.ENOENT, "the log of scores was moved or deleted")
            self._rows += len(rows)
            if time.monotonic() - self._synced >= SYNC_SECONDS:
                os.fsync(file)
                self._synced = time.monotonic()

    def _prepared(self) -> IO[bytes]:
        """Return an open log, a new one after `MOST_LOG_ROWS` rows."""
        if self._rows >= MOST_LOG_ROWS:
            if self._seal():
                self.mart.tidy()
            self._rows = 0
        return self._stream or self._open()

    def _is_in_place(self, stream: IO[bytes]) -> bool:
        """Return True if the log is the file at its path."""
        try:
            return os.path.samestat(os.fstat(stream.fileno()), self._path.stat())
        except OSError:
            return False

    def _open(self) -> IO[bytes]:
        self.mart.folder.mkdir(parents=True, exist_ok=True)
        self._path = self.mart.folder / f"live-{secrets.token_hex(12)}.jsonl"
        self._stream = stream = open_private(self._path, "ab", buffering=0)
        try_lock(stream)
        self._rows = 0
        return stream

    def _seal(self) -> bool:
        """Turn the log into a part; return False if `before_seal` fails."""
        if self._stream is not None and not self._is_in_place(self._stream):
            self._stream.close()
            self._stream, self._rows = None, 0
        if self._stream is not None:
            try:
                self._before_seal()
            except StoreError:
                return False
            invalid = self.mart.write_log(self._path)
            self._stream.close()
            self._stream, self._rows = None, 0
            self.mart.remove_log(self._path, invalid)
        return True

    def close(self) -> None:
        """Turn the log into a part."""
        with self._lock:
            if not self._seal() and self._stream is not None:
                self._stream.close()
                self._stream = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _has_writer(partial: Path) -> bool:
    """Return True if the process that writes an unfinished file may still run."""
    number = partial.name.removesuffix(".partial").rpartition(".")[2]
    if not number.isdecimal() or os.name != "posix":
        return partial.stat().st_mtime >= time.time() - ABANDONED_SECONDS
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return int(number) != os.getpid()


def _without(files: Mapping[str, T], names: Collection[str]) -> dict[str, T]:
    return {name: value for name, value in files.items() if name not in names}

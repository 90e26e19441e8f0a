"""The mart of scores: a folder of Parquet parts that many processes append to and Polars reads lazily (decision 0039).

    accord.db.scores/part-4be1….parquet    rows that are whole, written beside, synced and renamed
    accord.db.scores/live-91aa….jsonl      rows of a writer that is still open, one line each

A row has the columns of `MART`, and a `key`: of rows with the same key the one that came last counts. A live log
becomes a part of the same name; compaction writes one part that names those it replaces. So whatever is killed, no row
is lost that was written, and none counts twice.

A file that is not a regular file, or whose rows or columns differ from its own metadata, is never read. The board and
`accord store check` name it, and `accord board repair` renames it to `NAME.damaged`.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    unreadable_parquet,
)
from accord.store.engine import StoreError, is_in_memory, parsed_url
from accord.store.mart_files import ABOUT, DAMAGED, FORMAT, PASSED_OVER, Part, about_part, scan_part, sync, try_lock
from accord.store.mart_rows import MartRow, frame_of, frames_of, in_calendar_only, lines_of, mart_schema, read_line

if TYPE_CHECKING:
    import polars as pl

SYNCED = 1.0
"""Seconds: a loss of power costs a live log at most the rows of so long; a kill of the process costs none."""
SEALED = 20_000
"""Rows of a live log from which on it becomes a part."""
LOOSE = 50_000
"""Rows in parts that were not compacted from which on they are."""
_TRIES, _ABANDONED = 5, 3600.0
"""How often a query is tried while parts are compacted, and seconds after which a file beside is nobody's."""
_LOCK = "compacting.lock"
T = TypeVar("T")


def mart_folder(store: str, named: str | None = None, folder: Path = Path()) -> Path | None:
    """Return the folder of a store's mart; `None` for a store in memory.

    It is the `named` folder; by default it lies beside a SQLite file, and for PostgreSQL it is `accord.scores` in
    `folder`.

    Raises:
        BadInput: The name is a URL: the mart is a folder of this machine.
    """
    if named is not None:
        if "://" in named:
            raise BadInput("mart: is a folder of this machine, got a URL; name a folder, and repair it there")
        return Path(named)
    url = parsed_url(store)
    if is_in_memory(url):
        return None
    return Path(f"{url.database}.scores") if url.get_backend_name() == "sqlite" else folder / "accord.scores"


@dataclass(frozen=True)
class MartState:
    """What a mart holds at one moment; equal where nothing was added.

    Attributes:
        files: Names of parts and logs that count, with their sizes.
        faults: What was passed over, a sentence each.
    """

    files: tuple[tuple[str, int], ...]
    faults: tuple[str, ...] = ()


@dataclass
class _Log:
    """Rows of a live log up to `offset`."""

    offset: int = 0
    rows: list[MartRow] = field(default_factory=list)
    tables: list[pl.DataFrame] = field(default_factory=list)
    torn: int = 0

    def table(self) -> pl.DataFrame:
        """All its rows; what came since it was looked at last is turned into a table alone."""
        if self.rows or not self.tables:
            self.tables.append(frame_of(self.rows))
            self.rows = []
        return self.tables[0] if len(self.tables) == 1 else self._whole()

    def _whole(self) -> pl.DataFrame:
        import polars as pl

        self.tables = [pl.concat(self.tables, rechunk=True)]
        return self.tables[0]


class Mart:
    """A folder of scores; may be read and written by several processes, and from several threads."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._known: dict[tuple[str, int, int], Part] = {}
        self._logs: dict[str, _Log] = {}
        self._broken: dict[tuple[str, int], str] = {}
        self._unread: list[str] = []
        self._fresh: tuple[MartState, pl.DataFrame] | None = None
        self._lock = Lock()

    # --- writing ------------------------------------------------------------------------------------------------

    def add(self, rows: Iterable[MartRow], name: str | None = None, at_once: int = 50_000) -> int:
        """Append rows as parts of their own, whole or not at all; returns how many.

        A `name` (of letters and digits) makes it once: where such a part is, nothing is written.
        """
        if name is not None and self._place(name).exists():
            return 0
        count = 0
        for number, frame in enumerate(frames_of(rows, at_once)):
            own = None if name is None else name if number == 0 else f"{name}x{number}"
            self._write(frame.lazy(), own)
            count += len(frame)
        return count

    def has(self, name: str) -> bool:
        """Return True if a part with this name was added."""
        return self._place(name).exists()

    def writer(self) -> MartWriter:
        """A log for rows that come one by one."""
        return MartWriter(self)

    def _place(self, name: str) -> Path:
        return self.folder / f"part-{name}.parquet"

    def _write(self, rows: pl.LazyFrame, name: str | None, base: bool = False, replaces: Iterable[str] = ()) -> None:
        """Write beside, sync, rename.

        Raises:
            StoreError: It cannot be written.
        """
        name = name or secrets.token_hex(12)
        with self._said():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._put(rows, name, base, replaces)

    @contextmanager
    def _said(self) -> Iterator[None]:
        """Raise `StoreError` with the reason if the mart cannot be written."""
        try:
            yield
        except unreadable_parquet(BadInput) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
            not_folder = "is not a folder; move the file away, then accord board repair;"
            fault = not_folder if self.folder.is_file() else f"cannot be written: {why}; make room,"
            raise StoreError(
                f"the mart {self.folder} {fault} or name another folder under mart: in accord.yaml"
            ) from None

    def _put(self, rows: pl.LazyFrame, name: str, base: bool, replaces: Iterable[str]) -> None:
        import polars as pl

        beside = self.folder / f"{name}.{secrets.token_hex(4)}.partial"
        count = int(rows.select(pl.len()).collect().item())
        about = {"format": FORMAT, "rows": count, "base": base, "replaces": sorted(replaces)}
        try:
            rows.sink_parquet(create_private(beside), metadata={ABOUT: json.dumps(about)}, row_group_size=100_000)
            sync(beside)
            os.replace(beside, self._place(name))
            sync(self.folder)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise

    # --- reading ------------------------------------------------------------------------------------------------

    def state(self) -> MartState:
        """What counts at this moment."""
        parts, logs, faults = self._listed()
        files = [(name, size) for name, (size, _) in sorted(parts.items())] + sorted(logs.items())
        return MartState(tuple(files), tuple(faults))

    def scan(self) -> tuple[pl.LazyFrame, MartState]:
        """All rows that count, each once, and the state they are of.

        Parts that were compacted are read lazily; rows that came since are held in memory, and take the place of
        theirs with the same key.
        """
        import polars as pl

        with self._lock:
            state = self.state()
            base = [name for name, _ in state.files if self._of(name).is_base]
            if self._fresh is None or self._fresh[0] != state:
                self._fresh = state, self._read_fresh([name for name, _ in state.files if name not in base])
                if (seen := self.state()) != state:  # what could not be read is known now
                    state = seen if seen.files == state.files else state
            fresh = self._fresh[1]
        scans = [in_calendar_only(scan_part(self.folder / name)) for name in base]
        if len(fresh):
            newer = fresh["key"].implode()
            scans = [scan.filter(~pl.col("key").is_in(newer)) for scan in scans]
        return pl.concat([*scans, fresh.lazy()]), state

    def read(self, query: Callable[[pl.LazyFrame], T]) -> tuple[T, MartState]:
        """Return the result of a query over all rows that count, and the state it is of.

        Compaction by another process during the query causes a retry. A part that turns out to be damaged becomes a
        fault of the state.

        Raises:
            StoreError: The query fails although every part can be read.
        """
        for left in range(_TRIES - 1, -1, -1):
            try:
                rows, state = self.scan()
                return query(rows), state
            except unreadable_parquet() as error:
                if left == 0:
                    raise StoreError(
                        f"the mart {self.folder} cannot be read ({first_line(error)}); repair it: accord board repair"
                    ) from None
                if left == _TRIES - 2:  # the same failure twice: compaction is not the cause
                    self._look_through()
        raise AssertionError("a query is tried at least once")

    def faults(self) -> tuple[str, ...]:
        """Read every part whole and return one sentence per damaged file."""
        with self._lock:
            self.state()
            self._look_through()
            return tuple(fault.removesuffix(f"; {PASSED_OVER}") for fault in self.state().faults)

    def set_aside(self) -> list[str]:
        """Rename files that cannot be read to `NAME.damaged`, and return their names."""
        with self._lock:
            self.state()
            self._look_through()
            self.state()
            names = [*self._unread, *(key[0] for key, part in self._known.items() if self._fault(key, part))]
        for name in names:
            with self._said():
                (self.folder / name).rename(self.folder / f"{name}{DAMAGED}")
        return names

    def _look_through(self) -> None:
        """Read every part whole, a column at a time, and note the damaged ones."""
        for key, part in list(self._known.items()):
            if self._fault(key, part):
                continue
            try:
                for column in mart_schema():
                    scan_part(self.folder / key[0]).select(column).collect()
            except FileNotFoundError:
                continue  # compacted at this moment
            except unreadable_parquet() as error:
                self._broken[key[0], key[1]] = f"{key[0]} cannot be read: {first_line(error)}"

    def _fault(self, key: tuple[str, int, int], part: Part) -> str:
        return part.fault or self._broken.get(key[:2], "")

    def _read_fresh(self, names: Sequence[str]) -> pl.DataFrame:
        """Return the rows of parts that were not compacted and of logs, the last of each key."""
        import polars as pl

        frames = [pl.DataFrame(schema=mart_schema())]
        for name in names:
            try:
                is_log = name.endswith(".jsonl")
                frames.append(
                    self._logs[name].table() if is_log else in_calendar_only(scan_part(self.folder / name)).collect()
                )
            except FileNotFoundError:
                raise
            except unreadable_parquet() as error:
                with suppress(OSError):
                    size = (self.folder / name).stat().st_size
                    self._broken[name, size] = f"{name} cannot be read: {first_line(error)}"
        return pl.concat(frames).sort("scored", maintain_order=True).unique("key", keep="last", maintain_order=True)

    def _of(self, name: str) -> Part:
        return next((part for key, part in self._known.items() if key[0] == name), Part())

    def _listed(self) -> tuple[dict[str, tuple[int, Part]], dict[str, int], list[str]]:
        """Return the parts and the logs that count, by name, and a sentence per file that does not."""
        parts: dict[str, tuple[int, Part]] = {}
        logs: dict[str, int] = {}
        faults: list[str] = []
        self._unread = []
        seen: dict[tuple[str, int, int], Part] = {}
        for entry in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            is_log = entry.name.startswith("live-") and entry.suffix == ".jsonl"
            if not is_log and entry.suffix != ".parquet":
                continue
            try:
                if (size := self._size(entry, faults)) is None:
                    continue
                if is_log:
                    torn = self._read_log(entry)
                    logs[entry.name] = self._logs[entry.name].offset
                    faults += [f"{entry.name}: {torn} lines are no rows"] if torn else []
                    continue
                key = entry.name, size, entry.stat().st_mtime_ns
                part = seen[key] = self._known.get(key) or about_part(entry)
                if fault := self._fault(key, part):
                    faults.append(f"{fault}; {PASSED_OVER}")
                else:
                    parts[entry.name] = size, part
            except FileNotFoundError:
                continue  # it was compacted, or became a part, at this moment
        self._known = seen
        self._logs = {name: log for name, log in self._logs.items() if name in logs}
        gone = {name for _, part in parts.values() for name in part.replaces}
        kept = {name: each for name, each in parts.items() if name not in gone}
        sealed = {f"live-{name.removeprefix('part-').removesuffix('.parquet')}.jsonl" for name in (*parts, *gone)}
        return kept, {name: size for name, size in logs.items() if name not in sealed | gone}, faults

    def _size(self, entry: Path, faults: list[str]) -> int | None:
        """Return the size of a regular file; for any other, note the fault and return None."""
        try:
            return regular_size(entry)
        except BadInput as error:
            self._unread.append(entry.name)
            faults.append(f"{str(error).partition(';')[0]}; {PASSED_OVER}")
            return None

    def _read_log(self, path: Path) -> int:
        """Read on in a log up to its last whole line, and return how many lines were no rows so far."""
        log = self._logs.setdefault(path.name, _Log())
        with io.BufferedReader(open_regular(path)) as stream:
            stream.seek(log.offset)
            for line in stream:
                if not line.endswith(b"\n"):
                    break  # it is being written
                log.offset += len(line)
                try:
                    log.rows.append(read_line(line))
                except ValueError:
                    log.torn += 1
        return log.torn

    # --- compaction ---------------------------------------------------------------------------------------------

    def tidy(self) -> bool:
        """Seal what dead writers left, and compact where much is loose; whether it was compacted."""
        self.seal()
        loose = sum(part.rows for _, part in self._listed()[0].values() if not part.is_base)
        whole = sum(part.rows for _, part in self._listed()[0].values() if part.is_base)
        return loose >= max(LOOSE, whole // 10) and self.compact()

    def seal(self) -> None:
        """Make parts of the logs of writers that are gone."""
        for entry in sorted(self.folder.glob("live-*.jsonl")) if self.folder.is_dir() else ():
            with suppress(FileNotFoundError, BadInput):
                regular_size(entry)  # opening a pipe would wait for its writer
                with entry.open("r+b") as stream:
                    if try_lock(stream):
                        self.seal_log(entry)

    def seal_log(self, path: Path) -> None:
        """Make a part of a log that has no writer; the part has its name, so that its rows never count twice.

        A log with lines that are no rows is set aside as `NAME.damaged`.
        """
        name = path.stem.removeprefix("live-")
        own = Mart(self.folder)
        torn = own._read_log(path)
        if len(table := own._logs[path.name].table()) and not self._place(name).exists():
            self._write(table.lazy(), name)
        if torn:
            path.rename(path.with_name(f"{path.name}{DAMAGED}"))
        path.unlink(missing_ok=True)

    def compact(self) -> bool:
        """Write everything into one part, and remove the parts it replaces; return False if another process does so.

        Raises:
            StoreError: The mart cannot be written.
        """
        with self._said():
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
                replaced = own._compacted()
            except StoreError:
                known = len(own._broken)
                if not own.faults() or len(own._broken) == known:
                    raise
                replaced = own._compacted()  # without the parts that are known to be damaged now
            for name in replaced:
                (self.folder / name).unlink(missing_ok=True)
            for left in self.folder.glob("*.partial"):
                if left.stat().st_mtime < time.time() - _ABANDONED:
                    left.unlink(missing_ok=True)
        return True

    def _compacted(self) -> set[str]:
        """Write everything that can be read into one part, and return the names of the files that it replaces."""
        parts, _, _ = self._listed()  # before the rows are read: a part that comes later is not replaced
        there, _ = self.scan()
        before = {each for _, part in parts.values() for each in part.replaces if (self.folder / each).exists()}
        # Logs that are open stay: their rows come again, and take the place of these.
        replaced = (parts.keys() | before) - {name for name, _ in self._broken}
        self._write(there, None, base=True, replaces=replaced)
        return replaced


LIVE_ROWS, BATCH_ROWS = "live", "batch"
"""Where a row came from: live scoring, whose rows stand nowhere else, or a run that the store or a folder has too."""


class MartWriter:
    """Appends rows to a log of its own; they outlive the process once `write` returns.

    A context manager that makes a part of the log when it ends. May be called from several threads.
    """

    def __init__(self, mart: Mart) -> None:
        self.mart, self._lock = mart, Lock()
        self._stream: IO[bytes] | None = None
        self._path = Path()
        self._rows, self._synced = 0, time.monotonic()

    def write(self, rows: Sequence[MartRow]) -> None:
        """Append some rows, all or none.

        Raises:
            StoreError: The disk does not take them.
        """
        if not rows:
            return
        with self._lock, self.mart._said():
            stream = self._stream or self._open()
            content = lines_of(rows)
            file, before = stream.fileno(), os.fstat(stream.fileno()).st_size
            try:
                while content:
                    content = content[stream.write(content) or 0 :]
            except OSError:
                os.ftruncate(file, before)
                raise
            self._rows += len(rows)
            if time.monotonic() - self._synced >= SYNCED:
                os.fsync(file)
                self._synced = time.monotonic()
            if self._rows >= SEALED:
                self._seal()
                self.mart.tidy()

    def _open(self) -> IO[bytes]:
        self.mart.folder.mkdir(parents=True, exist_ok=True)
        self._path = self.mart.folder / f"live-{secrets.token_hex(12)}.jsonl"
        self._stream = stream = open_private(self._path, "ab", buffering=0)
        try_lock(stream)
        self._rows = 0
        return stream

    def _seal(self) -> None:
        if self._stream is not None:
            self.mart.seal_log(self._path)
            self._stream.close()
            self._stream = None

    def close(self) -> None:
        """Make a part of what was written."""
        with self._lock:
            self._seal()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

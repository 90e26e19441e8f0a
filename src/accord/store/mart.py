"""The mart of scores: a folder of Parquet parts that many processes append to and Polars reads lazily (decision 0039).

    accord.db.scores/part-4be1….parquet    rows that are whole, written beside, synced and renamed
    accord.db.scores/live-91aa….jsonl      rows of a writer that is still open, one line each

A row has the columns of `MART`, and a `key`: of rows with the same key the one that came last counts. A live log
becomes a part of the same name; compaction writes one part that names those it replaces. So whatever is killed, no row
is lost that was written, and none counts twice. A file that is no part, or is cut short, is passed over, and said.
"""

from __future__ import annotations

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

from accord.store.engine import StoreError, is_in_memory, parsed_url
from accord.store.mart_rows import MartRow, frame_of, frames_of, lines_of, mart_schema, read_line
from accord.values import BadInput

if TYPE_CHECKING:
    import polars as pl

SYNCED = 1.0
"""Seconds: a loss of power costs a live log at most the rows of so long; a kill of the process costs none."""
SEALED = 20_000
"""Rows of a live log from which on it becomes a part."""
LOOSE = 50_000
"""Rows in parts that were not compacted from which on they are."""
_FORMAT, _ABOUT = "1", "accord-mart"
_TRIES, _ABANDONED = 5, 3600.0
"""How often a query is tried while parts are compacted, and seconds after which a file beside is nobody's."""
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
            raise BadInput("mart: is a folder of this machine, got a URL; name a folder, and rebuild it there")
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


@dataclass(frozen=True)
class _Part:
    """What a part's own metadata say; `fault` of a file that is none."""

    rows: int = 0
    is_base: bool = False
    replaces: frozenset[str] = frozenset()
    fault: str = ""


@dataclass
class _Log:
    """A live log as far as it was read."""

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
        self._known: dict[tuple[str, int, int], _Part] = {}
        self._logs: dict[str, _Log] = {}
        self._broken: dict[tuple[str, int], str] = {}
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

    def add_frame(self, frame: pl.DataFrame, name: str | None = None) -> int:
        """Append a table that has the columns of `MART`."""
        if name is None or not self._place(name).exists():
            self._write(frame.lazy().select(list(mart_schema())), name)
            return len(frame)
        return 0

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
        """Say in a line why nothing can be written."""
        import polars as pl

        try:
            yield
        except (OSError, pl.exceptions.PolarsError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else _first_line(error)
            raise StoreError(
                f"the mart {self.folder} cannot be written: {why}; make room, or name another folder under mart: in "
                "accord.yaml"
            ) from None

    def _put(self, rows: pl.LazyFrame, name: str, base: bool, replaces: Iterable[str]) -> None:
        import polars as pl

        beside = self.folder / f"{name}.{secrets.token_hex(4)}.partial"
        count = int(rows.select(pl.len()).collect().item())
        about = {"format": _FORMAT, "rows": count, "base": base, "replaces": sorted(replaces)}
        try:
            rows.sink_parquet(beside, metadata={_ABOUT: json.dumps(about)}, row_group_size=100_000)
            _sync(beside)
            os.replace(beside, self._place(name))
            _sync(self.folder)
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
        scans = [pl.scan_parquet(self.folder / name, glob=False).select(list(mart_schema())) for name in base]
        if len(fresh):
            newer = fresh["key"].implode()
            scans = [scan.filter(~pl.col("key").is_in(newer)) for scan in scans]
        return pl.concat([*scans, fresh.lazy()]), state

    def read(self, query: Callable[[pl.LazyFrame], T]) -> tuple[T, MartState]:
        """What a query finds in all rows that count; a part that is compacted meanwhile is no failure.

        Raises:
            StoreError: A part that was compacted is damaged.
        """
        import polars as pl

        for left in range(_TRIES - 1, -1, -1):
            try:
                rows, state = self.scan()
                return query(rows), state
            except (OSError, pl.exceptions.PolarsError) as error:
                if left == 0:
                    raise StoreError(
                        f"the mart {self.folder} cannot be read ({_first_line(error)}); "
                        "make it anew: accord board rebuild"
                    ) from None
        raise AssertionError("a query is tried at least once")

    def _read_fresh(self, names: Sequence[str]) -> pl.DataFrame:
        """The rows of parts that were not compacted and of logs, the last of each key."""
        import polars as pl

        frames = [pl.DataFrame(schema=mart_schema())]
        for name in names:
            try:
                if name.endswith(".jsonl"):
                    frames.append(self._logs[name].table())
                else:
                    frames.append(pl.read_parquet(self.folder / name, glob=False).select(list(mart_schema())))
            except FileNotFoundError:
                raise
            except (OSError, pl.exceptions.PolarsError) as error:
                with suppress(OSError):
                    size = (self.folder / name).stat().st_size
                    self._broken[name, size] = f"{name} cannot be read: {_first_line(error)}"
        return pl.concat(frames).sort("scored", maintain_order=True).unique("key", keep="last", maintain_order=True)

    def _of(self, name: str) -> _Part:
        return next((part for key, part in self._known.items() if key[0] == name), _Part())

    def _listed(self) -> tuple[dict[str, tuple[int, _Part]], dict[str, int], list[str]]:
        """Parts and logs that count, by name, and what is passed over."""
        parts: dict[str, tuple[int, _Part]] = {}
        logs: dict[str, int] = {}
        faults: list[str] = []
        seen: dict[tuple[str, int, int], _Part] = {}
        for entry in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            try:
                about = entry.stat()
                if entry.name.endswith(".jsonl") and entry.name.startswith("live-"):
                    torn = self._read_log(entry)
                    logs[entry.name] = self._logs[entry.name].offset
                    faults += [f"{entry.name}: {torn} lines are no rows"] if torn else []
                elif entry.suffix == ".parquet":
                    key = entry.name, about.st_size, about.st_mtime_ns
                    part = seen[key] = self._known.get(key) or _about(entry)
                    fault = part.fault or self._broken.get((entry.name, about.st_size), "")
                    if fault:
                        faults.append(f"{fault}; it is passed over. Make the mart anew: accord board rebuild")
                    else:
                        parts[entry.name] = about.st_size, part
            except FileNotFoundError:
                continue  # it was compacted, or became a part, at this moment
        self._known = seen
        self._logs = {name: log for name, log in self._logs.items() if name in logs}
        gone = {name for _, part in parts.values() for name in part.replaces}
        kept = {name: each for name, each in parts.items() if name not in gone}
        sealed = {f"live-{name.removeprefix('part-').removesuffix('.parquet')}.jsonl" for name in (*parts, *gone)}
        return kept, {name: size for name, size in logs.items() if name not in sealed | gone}, faults

    def _read_log(self, path: Path) -> int:
        """Read on in a log up to its last whole line; how many lines were no rows."""
        log = self._logs.setdefault(path.name, _Log())
        with path.open("rb") as stream:
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
            with suppress(FileNotFoundError), entry.open("r+b") as stream:
                if try_lock(stream):
                    self.seal_log(entry)

    def seal_log(self, path: Path) -> None:
        """Make a part of a log that nobody writes to; the part has its name, so that its rows never count twice."""
        name = path.stem.removeprefix("live-")
        own = Mart(self.folder)
        own._read_log(path)
        if len(table := own._logs[path.name].table()) and not self._place(name).exists():
            self._write(table.lazy(), name)
        path.unlink(missing_ok=True)

    def compact(self, replacing: bool = False, rows: Sequence[pl.DataFrame] = ()) -> bool:
        """Write everything into one part, and remove what it replaces; whether nobody else was doing so.

        Args:
            replacing: Of what is there only rows of live scoring are kept, which stand nowhere else.
            rows: Tables that are added, in place of rows with the same key.
        """
        import polars as pl

        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "compacting.lock").open("ab") as stream:
            if not try_lock(stream):
                return False
            self.seal()
            parts, _, _ = self._listed()
            own = Mart(self.folder)
            there, _ = own.scan()
            before = {each for _, part in parts.values() for each in part.replaces if (self.folder / each).exists()}
            replaced = (parts.keys() | before) - {name for name, _ in own._broken}
            if replacing:
                there = there.filter(pl.col("origin") == LIVE_ROWS)
            if rows:
                made = pl.concat(list(rows)).unique("key", keep="last", maintain_order=True)
                there = pl.concat([there.filter(~pl.col("key").is_in(made["key"].implode())), made.lazy()])
            # Logs that are open stay: their rows come again, and take the place of these.
            self._write(there, None, base=True, replaces=replaced)
            for name in replaced:
                (self.folder / name).unlink(missing_ok=True)
            for left in self.folder.glob("*.partial"):
                if left.stat().st_mtime < time.time() - _ABANDONED:
                    left.unlink(missing_ok=True)
        return True


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
        self._stream = stream = self._path.open("ab", buffering=0)
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


# --- rows as tables, files as parts ----------------------------------------------------------------------


def _about(path: Path) -> _Part:
    import polars as pl

    try:
        about = json.loads(pl.read_parquet_metadata(path)[_ABOUT])
        if about["format"] != _FORMAT:
            return _Part(fault=f"{path.name} is of a newer Accord")
        return _Part(int(about["rows"]), bool(about["base"]), frozenset(about["replaces"]))
    except KeyError:
        return _Part(fault=f"{path.name} is no part of a mart")
    except (OSError, ValueError, TypeError, pl.exceptions.PolarsError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        return _Part(fault=f"{path.name} is cut short or no Parquet ({_first_line(error)})")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]


def _sync(path: Path) -> None:
    """See to it that a file, or a folder's list of files, is on the disk; Windows syncs no folders."""
    if path.is_dir() and os.name == "nt":
        return
    file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def try_lock(stream: IO[bytes]) -> bool:
    """Lock an open file until it is closed, or its process is gone; whether nobody else holds it."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

"""Rows of the mart of scores: columns, keys, tables and log lines; files of parts; and scores read from them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import msgspec

from accord.edges import FIRST_MOMENT, LAST_MOMENT, BadInput, first_line, sendable, sendable_json, unreadable_parquet
from accord.store.engine import is_in_memory, parsed_url
from accord.values import SCORE_COLUMNS, ScoreRow, entropy, variance

if TYPE_CHECKING:
    import polars as pl

    from accord.store.mart import Mart
    from accord.store.store import Store

MART: Mapping[str, str] = {
    "conversation": "text", "turn": "whole", "question": "text", "annotator": "text", "evaluator": "text",
    "signature": "text", "is_main": "flag", "value": "number", "low": "number", "high": "number",
    "band_low": "number", "band_high": "number", "options": "numbers", "probabilities": "numbers", "warning": "text",
    "unscored": "text", "attributions": "text", "notes": "text", "system": "text", "version": "text", "topic": "text",
    "user_group": "text", "language": "text", "time": "time", "scored": "time", "synthetic": "flag", "rated": "flag",
    "in_training": "flag", "input": "text", "origin": "text", "run": "text", "bundle": "whole", "key": "key",
}  # fmt: skip
"""Columns with their kinds; times are in milliseconds since 1970."""
LIVE_ROWS, BATCH_ROWS = "live", "batch"
"""Origins of rows: live scoring, or a run."""
BUNDLES = 512
"""Number of bundles of conversations, by hash: resampling bundles stands for resampling a million conversations."""
MartRow = dict[str, Any]
"""A row: the columns of `MART` without `key` and `bundle`, which are computed."""


def row_key(row: Mapping[str, Any]) -> int:
    """Return the key of a row, a hash below 2⁶³ of its target, question, annotator and evaluator."""
    named = [row[name] for name in ("conversation", "turn", "question", "annotator", "evaluator")]
    return int.from_bytes(blake2b(json.dumps(named).encode(), digest_size=8).digest(), "big") >> 1


def bundle_of(conversation: str) -> int:
    """Return the bundle of a conversation, from 0."""
    return int.from_bytes(blake2b(conversation.encode("utf-8", "replace"), digest_size=4).digest(), "big") % BUNDLES


def mart_schema() -> dict[str, pl.DataType]:
    """Return the columns as a Polars schema."""
    import polars as pl

    kinds: dict[str, pl.DataType] = {
        "text": pl.String(), "whole": pl.Int32(), "number": pl.Float64(), "numbers": pl.List(pl.Float32()),
        "time": pl.Datetime("ms"), "flag": pl.Boolean(), "key": pl.Int64(),
    }  # fmt: skip
    return {name: kinds[kind] for name, kind in MART.items()}


def in_calendar_only(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Replace times outside the years 1 to 9999 by null: Python has no dates for them, so every query would fail."""
    import polars as pl

    times = [pl.col(name).dt.epoch("ms").is_between(FIRST_MOMENT, LAST_MOMENT) for name in _TIMES]
    return rows.with_columns(pl.when(ok).then(pl.col(name)) for ok, name in zip(times, _TIMES, strict=True))


_TIMES = tuple(name for name, kind in MART.items() if kind == "time")


def frames_of(rows: Iterable[MartRow], batch_size: int) -> Iterator[pl.DataFrame]:
    """Yield tables of at most `batch_size` rows."""
    batch: list[MartRow] = []
    for row in rows:
        batch.append(row)
        if len(batch) >= batch_size:
            yield frame_of(batch)
            batch = []
    if batch:
        yield frame_of(batch)


def frame_of(rows: Sequence[MartRow]) -> pl.DataFrame:
    """Return rows as a table with sendable texts and with null for times outside the years 1 to 9999."""
    import polars as pl

    columns: dict[str, Any] = {}
    for name, kind in mart_schema().items():
        if name == "key":
            cells: list[Any] = [row_key(row) for row in rows]
        elif name == "bundle":
            cells = [bundle_of(row["conversation"]) for row in rows]
        else:
            cells = [row.get(name) for row in rows]
        if MART[name] == "text":
            cells = [None if cell is None else sendable(str(cell)) for cell in cells]
        times = MART[name] == "time"
        columns[name] = pl.Series(name, cells, pl.Int64() if times else kind, strict=False).cast(kind)
    return in_calendar_only(pl.LazyFrame(columns)).collect()


def read_line(line: bytes) -> MartRow:
    """Return the row of a line of a log.

    Raises:
        ValueError: The line is invalid.
    """
    return msgspec.structs.asdict(_DECODER.decode(line))


_LINE_TYPES: Mapping[str, Any] = {
    "text": str | None, "whole": Annotated[int, msgspec.Meta(ge=0, lt=2**31)] | None, "number": float | None,
    "numbers": list[float] | None, "time": Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)] | None, "flag": bool,
}  # fmt: skip
_REQUIRED = ("conversation", "question", "annotator", "evaluator")
_Line = msgspec.defstruct(
    "_Line",
    [
        *((name, str) for name in _REQUIRED),
        *(
            (name, _LINE_TYPES[kind], name == "is_main" if kind == "flag" else None)
            for name, kind in MART.items()
            if name not in (*_REQUIRED, "bundle", "key")
        ),
    ],
)
_DECODER = msgspec.json.Decoder(_Line)


def lines_of(rows: Sequence[MartRow]) -> bytes:
    """Return rows as lines of a log, with sendable texts."""
    try:
        return b"".join(_ENCODER.encode(row) + b"\n" for row in rows)
    except UnicodeEncodeError:  # checking every text would cost more than the encoding
        return b"".join(_ENCODER.encode(sendable_json(row)) + b"\n" for row in rows)


_ENCODER = msgspec.json.Encoder()


# --- files of parts ---------------------------------------------------------------------------------------------------

FORMAT, METADATA_KEY = "3", "accord-mart"
"""Version and key of the metadata of a part."""
DAMAGED = ".damaged"
"""Ending of files that were set aside because they cannot be read."""
_OWN = re.compile(r"(?:part|live)-[0-9A-Za-z]+\.(?:parquet|jsonl)", re.ASCII)


def mart_folder(store: str, named: str | None = None, folder: Path = Path()) -> Path | None:
    """Return the folder of a store's mart; `None` for a store in memory.

    It is the `named` folder; by default it is next to a SQLite file, and for PostgreSQL it is `accord.scores` in
    `folder`.

    Raises:
        BadInput: The name is a URL; the mart is a local folder.
    """
    if named is not None:
        if "://" in named:
            raise BadInput("mart: is a local folder, got a URL; name a folder")
        return Path(named)
    url = parsed_url(store)
    if is_in_memory(url):
        return None
    return Path(f"{url.database}.scores") if url.get_backend_name() == "sqlite" else folder / "accord.scores"


@dataclass(frozen=True)
class MartPart:
    """Metadata of a part; `fault` is the reason why the file cannot be read."""

    rows: int = 0
    is_base: bool = False
    replaces: frozenset[str] = frozenset()
    fault: str = ""


IGNORED = "it is ignored. Repair the mart: accord board repair"
"""End of the sentence about a damaged file."""


def scan_part(path: Path) -> pl.LazyFrame:
    """Return the rows of a part, which are read when they are collected."""
    import polars as pl

    return pl.scan_parquet(path, glob=False).select(list(mart_schema()))


def read_metadata(path: Path) -> MartPart:
    """Return the metadata of a part after comparing them with its rows and columns."""
    import polars as pl

    name = path.name
    try:
        metadata = json.loads(pl.read_parquet_metadata(path)[METADATA_KEY])
        if metadata["format"] != FORMAT:
            return MartPart(fault=f"{name} is of another version of Accord; repair the mart: accord board repair")
        part = MartPart(int(metadata["rows"]), bool(metadata["base"]), frozenset(map(str, metadata["replaces"])))
        scan = pl.scan_parquet(path, glob=False)
        schema, rows = scan.collect_schema(), int(scan.select(pl.len()).collect().item())
    except KeyError:
        return MartPart(fault=f"{name} is not a part of a mart")
    except FileNotFoundError:
        raise
    except unreadable_parquet(ValueError, TypeError, RecursionError) as error:
        return MartPart(fault=f"{name} is truncated or no Parquet file ({first_line(error)})")
    if rows != part.rows:
        return MartPart(fault=f"{name} holds {rows:,} rows, and its metadata say {part.rows:,}")
    wrong = next((column for column, kind in mart_schema().items() if schema.get(column) != kind), None)
    if wrong is not None:
        return MartPart(fault=f"{name} has no column {wrong!r} of type {mart_schema()[wrong]}")
    foreign = next((file for file in sorted(part.replaces) if _OWN.fullmatch(file) is None), None)
    if foreign is not None:
        return MartPart(fault=f"{name} replaces {foreign!r}, which is not a file of a mart")
    return part


def sync(path: Path) -> None:
    """Flush a file, or the list of files of a folder, to the disk; Windows cannot flush folders."""
    if path.is_dir() and os.name == "nt":
        return
    file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def try_lock(stream: IO[bytes]) -> bool:
    """Lock an open file until it is closed or its process ends; return False if another process holds the lock."""
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


# --- scores -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EvaluatorScores:
    """The latest scores of a conversation and its turns by one evaluator, in the order of the turns.

    `run` is empty for live scores, and `command` is `live` then. `started` is the start of the run, or the time of the
    latest live score (UTC).
    """

    run: str
    command: str
    evaluator: str
    started: str
    rows: tuple[ScoreRow, ...]


def scores_of_run(mart: Mart, run: str) -> Iterator[ScoreRow]:
    """Yield the scores of a run, in the order in which they were made; later scores of an evaluator replace earlier.

    Raises:
        StoreError: The mart cannot be read.
    """
    import polars as pl

    wanted = pl.col("run") == run
    frame, _ = mart.read(lambda rows: _main(rows).filter(wanted).sort("scored", maintain_order=True).collect())
    return map(score_row, frame.iter_rows(named=True))


def runs_in(mart: Mart) -> dict[str, int]:
    """Return the number of scores in the mart by run.

    Raises:
        StoreError: The mart cannot be read.
    """
    counts, _ = mart.read(lambda rows: _main(rows).group_by("run").len().collect())
    return {run: count for run, count in counts.iter_rows() if run is not None}


def scores_of_conversation(store: Store, mart: Mart, conversation: str) -> list[EvaluatorScores]:
    """Return the scores of a conversation by run and evaluator, the latest first.

    Raises:
        StoreError: The mart cannot be read.
    """
    import polars as pl

    if not mart.folder.is_dir():
        return []
    wanted = (pl.col("bundle") == bundle_of(conversation)) & (pl.col("conversation") == conversation)
    frame, _ = mart.read(lambda rows: _main(rows).filter(wanted).sort("scored", "turn").collect())
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in frame.iter_rows(named=True):
        groups.setdefault((row["run"] or "", row["evaluator"]), []).append(row)
    runs = {run["id"]: run for run in store.runs()} if any(run for run, _ in groups) else {}
    found = []
    for (run, evaluator), rows in groups.items():
        record: Mapping[str, Any] = runs.get(run, {})
        command = LIVE_ROWS if rows[-1]["origin"] == LIVE_ROWS else str(record.get("command", ""))
        started = str(record.get("started") or rows[-1]["scored"].isoformat())
        found.append(EvaluatorScores(run, command, evaluator.partition("@")[0], started, tuple(map(score_row, rows))))
    return sorted(found, key=lambda scores: (scores.started, scores.run), reverse=True)


def _main(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Leave out answers to other questions, which are in the notes of the main one."""
    import polars as pl

    return rows.filter(pl.col("is_main"))


def score_row(row: Mapping[str, Any]) -> ScoreRow:
    """Return a row of the mart as a flat row of a score; probabilities are rounded to 6 digits."""
    options, shares = row["options"], row["probabilities"]
    score: dict[str, Any] = {name: row.get(name) for name in SCORE_COLUMNS}
    score["attributions"], score["notes"] = (json.loads(row[name] or "null") for name in ("attributions", "notes"))
    if options:
        score["variance"], score["entropy"] = variance(options, shares), entropy(shares)
        score["distribution"] = {f"{option:g}": round(share, 6) for option, share in zip(options, shares, strict=True)}
    return score  # type: ignore[return-value]

"""Scores as a folder of parts, here or in an object store: one for each piece of the input, and a manifest of all.

    scores/manifest.json              what was scored with, and what each part holds
    scores/part-4be1….parquet         the scores of one piece, named by the hash of what was read

A part appears whole or not at all, and says itself what it holds: nothing else has to be kept for a run that was killed
anywhere to go on. The same piece scored twice gives the same bytes. A part goes when the file that it was scored from
has changed and all that is planned now is there.
"""

from __future__ import annotations

import gc
import io
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from accord.edges import (
    MB,
    BadInput,
    BudgetReached,
    first_line,
    one_line,
    regular_size,
    unescape_formula,
    unreadable_parquet,
    validation_messages,
)
from accord.formats import (
    SCORE_NESTED,
    FilePiece,
    at,
    is_remote,
    names_in,
    opened,
    put,
    read_piece,
    remove,
    score_schema,
    shown_place,
    storage_options,
)
from accord.models import OUT_OF_BUDGET
from accord.scoring.batch import BatchScorer
from accord.scoring.results import ScoreCounts, sum_counts
from accord.store import batches
from accord.values import canonical_json, content_hash
from accord.version import __version__

if TYPE_CHECKING:
    import polars as pl

MANIFEST, FORMAT = "manifest.json", 2
_ABOUT = "accord"
"""Under this name a part's own metadata says what it holds."""
_ROWS_AT_ONCE = 2000
_WRITTEN_AT_ONCE = 20_000
_READ_AT_ONCE = 16
_OBJECTS_BETWEEN = 100_000


@dataclass(frozen=True)
class Part:
    """A finished part, or why there is none.

    Attributes:
        key: Of its piece.
        place: What it was read from.
        urls: The files of it.
        start: Where in them it begins.
        counts: What it holds.
        failed: Why it could not be made; empty where it was.
        seconds: How long it took here; not kept.
        size: About how many bytes were read.
    """

    key: str
    place: str
    urls: tuple[str, ...]
    start: int = 0
    counts: ScoreCounts = ScoreCounts()
    failed: str = ""
    seconds: float = 0.0
    size: int = 0

    @classmethod
    def of(cls, piece: FilePiece) -> Part:
        """The part of a piece, before anything is known of it."""
        urls = tuple(shown_place(file.url) for file in piece.files)
        return cls(piece.key, piece.place, urls, piece.start, size=piece.size)

    def to_json(self) -> dict[str, Any]:
        """What is kept of it."""
        about = {"key": self.key, "place": self.place, "urls": list(self.urls), "start": self.start}
        return {**about, **asdict(self.counts)}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Part:
        """Return the part that `to_json` wrote.

        Raises:
            ValueError, KeyError, TypeError: A value is missing, or is not one that `to_json` writes.
        """
        counts = _counts_adapter().validate_python({name: row[name] for name in ScoreCounts.__dataclass_fields__})
        key, place, urls, start = row["key"], row["place"], row["urls"], row["start"]
        if not (isinstance(key, str) and _KEY.fullmatch(key)):
            raise ValueError("a key is 16 hexadecimal digits")
        if not (isinstance(place, str) and isinstance(urls, list) and all(isinstance(url, str) for url in urls)):
            raise ValueError("a place and URLs are text")
        if type(start) is not int or start < 0:
            raise ValueError("a start is a number from 0 up")
        return cls(key, place, tuple(urls), start, counts)


_KEY = re.compile("[0-9a-f]{16}")


@cache
def _counts_adapter() -> TypeAdapter[ScoreCounts]:
    return TypeAdapter(ScoreCounts)


@dataclass(frozen=True)
class Job:
    """What a process has to know in order to score pieces: with what, and where to."""

    scorer: BatchScorer
    out: str

    @property
    def made_from(self) -> str:
        """Another text wherever the scores of a conversation may be others."""
        about = self.scorer
        said = [about.digest, asdict(about.perspective), asdict(about.options), about.format, dict(about.columns)]
        said += [dict(about.roles)] if about.roles else []
        return content_hash(said, 24, default=str)


def score_piece(job: Job, piece: FilePiece) -> Part:
    """Score a piece into its part; what cannot be read, or scored at all, is a part that failed.

    Raises:
        BudgetReached: Not everything that is paid for could be asked: the part is not written.
    """
    begun, scorer = time.perf_counter(), job.scorer
    about = Part.of(piece)
    spent = scorer.spent()
    try:
        with _rare_collections(), tempfile.TemporaryDirectory(prefix="accord-") as folder:
            tables = _tables(scorer, piece)
            first = next(tables, None)
            second = next(tables, None)
            if second is None:
                whole = _empty() if first is None else first
                about = _told(about, ScoreCounts.of(whole), scorer, spent)
                content = io.BytesIO()
                whole.write_parquet(content, metadata=_metadata(about))
                put(part_url(job.out, piece.key), content.getvalue())
            else:
                assert first is not None
                made, counts = Path(folder) / "whole", ScoreCounts()
                for number, table in enumerate(_chained(first, second, tables)):
                    counts = counts.plus(ScoreCounts.of(table))
                    table.write_parquet(Path(folder) / f"{number:08}.parquet")
                about = _told(about, counts, scorer, spent)
                _joined(Path(folder), made, about)
                put(part_url(job.out, piece.key), made)
    except BudgetReached:
        raise
    except BadInput as error:
        about = replace(about, failed=str(error))
    return replace(about, seconds=time.perf_counter() - begun)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Garbage is collected less often: thousands of values that live as long as a batch are no garbage to look for."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _tables(scorer: BatchScorer, piece: FilePiece) -> Iterator[pl.DataFrame]:
    """The scores of a piece, some thousands of rows at a time: memory does not grow with the piece."""
    import polars as pl

    found: list[pl.DataFrame] = []
    for rows in batches(read_piece(piece, scorer.columns), _ROWS_AT_ONCE):
        items = list(scorer.items(rows))
        found += [scorer.table(items[at : at + _ROWS_AT_ONCE]) for at in range(0, len(items), _ROWS_AT_ONCE)]
        if sum(map(len, found)) >= _WRITTEN_AT_ONCE:
            yield pl.concat(found)
            found = []
    if found:
        yield pl.concat(found)


def _chained(first: pl.DataFrame, second: pl.DataFrame, others: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    yield first
    yield second
    yield from others


def _told(about: Part, counts: ScoreCounts, scorer: BatchScorer, before: Mapping[str, float]) -> Part:
    """The part with what it holds.

    Raises:
        BudgetReached: A score is missing for want of budget.
    """
    now = scorer.spent()
    over = [reason for reason in counts.unscored if OUT_OF_BUDGET in reason]
    if over:
        raise BudgetReached(f"the budget is spent: {over[0]}; raise it and run the same command again")
    return replace(about, counts=replace(counts, spent={name: now[name] - before.get(name, 0) for name in sorted(now)}))


def _metadata(about: Part) -> dict[str, str]:
    return {_ABOUT: canonical_json(about.to_json())}


def _joined(folder: Path, made: Path, about: Part) -> None:
    import polars as pl

    pl.scan_parquet(folder / "*.parquet", glob=True).sink_parquet(made, metadata=_metadata(about))


def _empty() -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(schema=score_schema())


def part_url(out: str, key: str) -> str:
    """Where a part is."""
    return at(out, f"part-{key}.parquet")


def finished(out: str) -> set[str]:
    """The keys of the parts that are there."""
    names = names_in(out)
    return {name[5:-8] for name in names if name.startswith("part-") and name.endswith(".parquet")}


# --- the manifest ---------------------------------------------------------------------------------------------------


def read_manifest(out: str) -> dict[str, Any] | None:
    """Return the manifest of a folder of parts, or None if there is none.

    Raises:
        BadInput: It is damaged, or of another release.
    """
    if MANIFEST not in names_in(out):
        return None
    where = at(out, MANIFEST)
    try:
        with opened(where) as stream:
            found = dict(json.loads(stream.read(256 * MB), parse_constant=_no_number))
        if found["format"] != FORMAT:
            raise BadInput(f"{shown_place(where)} was written by another Accord; score into another folder")
        _check_manifest(found)
        return found
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(
            f"{shown_place(where)} is damaged ({_reason(error)}); remove it, and run the same command again"
        ) from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _reason(error: Exception) -> str:
    """Return the reason of a failed check in a few words."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return one_line(validation_messages(error)[0] if isinstance(error, ValueError) else first_line(error), 200)


def _check_manifest(found: Mapping[str, Any]) -> None:
    """Refuse a manifest that no run writes.

    Raises:
        ValueError, KeyError, TypeError: A value is missing or of another kind, or a part is listed twice.
    """
    if not isinstance(found["made_from"], str):
        raise ValueError("made_from is text")
    if not all(isinstance(found.get(name, ""), str) for name in ("evaluator", "question", "digest", "signature")):
        raise ValueError("evaluator, question, digest and signature are text")
    left = found.get("left", 0)
    if type(left) is not int or left < 0:
        raise ValueError("left is a number from 0 up")
    keys = [Part.from_json(row).key for row in found["parts"]]
    if len(set(keys)) < len(keys):
        raise ValueError("a part is listed twice")


def begin(job: Job, about: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest that a run begins with, written where there was none.

    Raises:
        BadInput: The folder holds scores that were made otherwise, or it is no folder of parts.
    """
    found = read_manifest(job.out)
    if found is None:
        if not is_remote(job.out) and Path(job.out).is_file():
            raise BadInput(f"{job.out} is a file; name a folder for the parts, such as scores/")
        found = {"format": FORMAT, "accord_version": __version__, "made_from": job.made_from, **about, "parts": []}
        _write(job.out, found)
    elif found.get("made_from") != job.made_from:
        raise BadInput(
            f"{shown_place(job.out)} holds scores that were made otherwise: {found.get('signature')}; name another "
            "folder, or remove this one"
        )
    return found


def conclude(job: Job, manifest: Mapping[str, Any], made: Iterable[Part], planned: Sequence[FilePiece]) -> list[Part]:
    """Every part that is there, written into the manifest; what changed files left behind is removed.

    Other processes may do the same for other parts at this moment: what is written last holds everything.
    """
    known = {part.key: part for part in made if not part.failed}
    keys, urls = {piece.key for piece in planned}, {shown_place(f.url) for piece in planned for f in piece.files}
    while True:
        there = finished(job.out)
        latest = read_manifest(job.out)
        kept = [] if latest is None else [Part.from_json(row) for row in latest["parts"]]
        known = {**{part.key: part for part in kept}, **known}
        known |= {part.key: part for part in _asked(job.out, there - known.keys())}
        parts = {key: known[key] for key in sorted(there & known.keys())}
        if keys <= there:
            for key in [key for key, part in parts.items() if key not in keys and urls & set(part.urls)]:
                remove(part_url(job.out, key))
                del parts[key]
        counts = sum_counts(part.counts for part in parts.values())
        of_all = {**asdict(counts), "mean": counts.mean, "left": len(keys - parts.keys())}
        _write(job.out, {**manifest, **of_all, "parts": [part.to_json() for part in parts.values()]})
        if finished(job.out) == parts.keys():
            return list(parts.values())


def _asked(out: str, keys: Iterable[str]) -> list[Part]:
    """Return parts by their own metadata, checked as `check_parts` does."""
    with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
        return list(pool.map(partial(_read_part, out), sorted(keys)))


def check_parts(out: str, keys: Iterable[str], manifest: Mapping[str, Any] | None = None) -> list[Part]:
    """Return parts after comparing each file with its own metadata and with the manifest, without reading its pages.

    Raises:
        BadInput: A file is missing, not a regular file, not a part, or holds other rows than it or the manifest says.
    """
    parts = _asked(out, keys)
    known = {} if manifest is None else {each.key: each for each in map(Part.from_json, manifest["parts"])}
    for part in parts:
        if part.key in known and known[part.key].counts != part.counts:
            raise _not_a_part(out, part.key, f"it holds {part.counts.rows} rows, the manifest says otherwise")
    return parts


def _read_part(out: str, key: str) -> Part:
    import polars as pl

    url = part_url(out, key)
    with reading_part(out, key):
        if not is_remote(url):
            regular_size(Path(url))
        said = pl.read_parquet_metadata(url, storage_options=storage_options(url))
        part = Part.from_json(json.loads(said[_ABOUT], parse_constant=_no_number))
        scan = pl.scan_parquet(url, storage_options=storage_options(url), glob=False)
        schema, rows = scan.collect_schema(), int(scan.select(pl.len()).collect().item())
        if part.key != key:
            raise ValueError(f"its metadata are those of part-{part.key}")
        if schema != score_schema():
            raise ValueError("its columns are not those of scores")
        if rows != part.counts.rows:
            raise ValueError(f"it holds {rows} rows, and its metadata say {part.counts.rows}")
    return part


@contextmanager
def reading_part(out: str, key: str) -> Iterator[None]:
    """Turn every error of reading a part into a `BadInput` that names the part.

    Raises:
        BadInput: It cannot be read, or is no part.
    """
    try:
        yield
    except FileNotFoundError:
        raise BadInput(f"part-{key}.parquet is gone; run the same accord score again") from None
    except unreadable_parquet(BadInput, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        why = _reason(error).partition("; ")[0] if isinstance(error, Exception) else first_line(error)
        raise _not_a_part(out, key, why) from None


def part_rows(out: str, key: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a part as `ScoreRow`, each with its `status`.

    Raises:
        BadInput: The part cannot be read.
    """
    import polars as pl

    url = part_url(out, key)
    with reading_part(out, key):
        frame = pl.read_parquet(url, storage_options=storage_options(url), glob=False)
    for row in frame.iter_rows(named=True):
        with reading_part(out, key):
            texts = {name: unescape_formula(value) for name, value in row.items() if isinstance(value, str)}
            nested = {name: json.loads(row[name]) for name in SCORE_NESTED if row[name] is not None}
        yield {**row, **texts, **nested}


def _not_a_part(out: str, key: str, why: str) -> BadInput:
    place = shown_place(part_url(out, key))
    return BadInput(f"{place} is damaged or no part of scores ({why}); remove it, and run the same accord score again")


def _write(out: str, manifest: Mapping[str, Any]) -> None:
    put(at(out, MANIFEST), json.dumps(manifest, indent=1).encode("utf-8"))


Run = Callable[[Job, Sequence[FilePiece], int], Iterator[Part]]
"""An engine: scores pieces with so many workers, and gives each part as it is finished."""

"""A folder of score parts, local or in an object store: one part for each piece of the input, and a manifest.

    scores/manifest.json              origin of the scores, and the counts of each part
    scores/part-4be1….parquet         scores of one piece, named by the hash of its content

A part is written atomically, and its metadata describe it, so a killed run can resume without other state.
Scoring a piece twice gives the same bytes. A part is removed once its input file has changed and every planned part
exists.
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BaseModel, Field, TypeAdapter

from accord.edges import (
    MB,
    BadInput,
    BadRow,
    BudgetReached,
    Step,
    first_line,
    one_line,
    regular_size,
    unreadable_parquet,
    validation_messages,
)
from accord.formats import (
    FilePiece,
    delete_file,
    display_path,
    is_remote,
    join_path,
    list_names,
    open_file,
    read_piece,
    storage_options,
    write_file,
)
from accord.models import OUT_OF_BUDGET
from accord.scoring.batch import BatchScorer
from accord.scoring.results import Count, ScoreCounts, sum_counts
from accord.store import batches, check_part, scan_part
from accord.values import BAD_ROW, Conversation, ScoreRow, canonical_json, content_hash, row_of_cells, score_schema
from accord.version import __version__

if TYPE_CHECKING:
    import polars as pl

MANIFEST, FORMAT = "manifest.json", 2
METADATA_KEY = "accord"
"""Key of a part's metadata in its Parquet file."""
_BATCH_ROWS = 2000
_TABLE_ROWS = 20_000
_PARALLEL_READS = 16
_GC_THRESHOLD = 100_000


@dataclass(frozen=True)
class ScorePart:
    """A finished part, or one that failed.

    Attributes:
        key: Key of its piece.
        place: Place of the piece in the input.
        urls: Files of the piece.
        start: Start of the piece in its files.
        counts: Counts of its rows.
        failed: Reason of the failure; empty for a finished part.
        seconds: Time of scoring; not saved.
        size: Approximate number of bytes that were read; not saved.
    """

    key: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    place: str
    urls: tuple[str, ...]
    start: Count = 0
    counts: ScoreCounts = ScoreCounts()
    failed: str = ""
    seconds: float = 0.0
    size: int = 0

    @classmethod
    def of(cls, piece: FilePiece) -> ScorePart:
        """Return the part of a piece before it is scored."""
        urls = tuple(display_path(file.url) for file in piece.files)
        return cls(piece.key, piece.place, urls, piece.start, size=piece.size)

    def to_json(self) -> dict[str, Any]:
        """Return the saved fields as JSON values."""
        return {**{name: getattr(self, name) for name in _SAVED}, **asdict(self.counts)}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> ScorePart:
        """Return the part that `to_json` wrote.

        Raises:
            ValueError, KeyError, TypeError: A value is missing, or is not one that `to_json` writes.
        """
        counts = {field.name: row[field.name] for field in fields(ScoreCounts)}
        return part_adapter().validate_python({**{name: row[name] for name in _SAVED}, "counts": counts})


_SAVED = ("key", "place", "urls", "start")


@cache
def part_adapter() -> TypeAdapter[ScorePart]:
    """Return the validator of parts that were written as JSON."""
    return TypeAdapter(ScorePart)


@dataclass(frozen=True)
class ScoringJob:
    """A scorer and the folder that receives its parts."""

    scorer: BatchScorer
    out: str

    @property
    def options(self) -> dict[str, Any]:
        """Everything that the scores depend on, by option."""
        scorer = self.scorer
        options = {**asdict(scorer.perspective), **asdict(scorer.options), "format": scorer.format}
        options |= {"evaluator": scorer.digest, "columns": scorer.columns, "role": scorer.roles}
        options["include_training"] = options.pop("training")
        return dict(json.loads(canonical_json(options, default=str)))

    @property
    def made_from(self) -> str:
        """Digest of everything that the scores depend on."""
        return content_hash(self.options, 24)


def score_piece(job: ScoringJob, piece: FilePiece) -> ScorePart:
    """Score a piece into its part; a piece that cannot be read becomes a failed part.

    Raises:
        BudgetReached: The budget is too small for the piece; its part is not written.
    """
    import polars as pl

    begun, scorer = time.perf_counter(), job.scorer
    part, spent = ScorePart.of(piece), scorer.spent()
    try:
        with _rare_collections(), tempfile.TemporaryDirectory(prefix="accord-") as folder:
            counts, made = ScoreCounts(), Path(folder) / "part"
            for number, table in enumerate(_tables(scorer, piece)):
                counts = counts.plus(ScoreCounts.of(table))
                table.write_parquet(Path(folder) / f"{number:08}.parquet")
            part = replace(part, counts=_with_spending(counts, scorer.spent(), spent))
            metadata = {METADATA_KEY: canonical_json(part.to_json())}
            pl.scan_parquet(Path(folder) / "*.parquet", glob=True).sink_parquet(made, metadata=metadata)
            write_file(part_url(job.out, piece.key), made)
    except BadInput as error:
        part = replace(part, failed=str(error))
    return replace(part, seconds=time.perf_counter() - begun)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage less often: the values of a batch live until its end."""
    before = gc.get_threshold()
    gc.set_threshold(_GC_THRESHOLD, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _tables(scorer: BatchScorer, piece: FilePiece) -> Iterator[pl.DataFrame]:
    """Yield the scores of a piece in tables of bounded size; one without rows if the piece has none.

    Raises:
        BadInput: The piece cannot be read, or an id occurs twice.
    """
    import polars as pl

    found = [pl.DataFrame(schema=score_schema())]
    for rows in batches(_with_own_ids(piece, read_piece(piece, scorer.columns)), _BATCH_ROWS):
        items = list(scorer.items(rows))
        found += [scorer.table(items[at : at + _BATCH_ROWS]) for at in range(0, len(items), _BATCH_ROWS)]
        if sum(map(len, found)) >= _TABLE_ROWS:
            yield pl.concat(found)
            found = []
    if found:
        yield pl.concat(found)


def _with_own_ids(piece: FilePiece, rows: Iterable[Conversation | BadRow]) -> Iterator[Conversation | BadRow]:
    """Yield rows, and refuse a second conversation of the same id, as scoring of a single file does."""
    ids: set[str] = set()
    for row in rows:
        if isinstance(row, Conversation):
            if row.id in ids:
                raise BadInput(f"{piece.place}: two conversations have the id {row.id!r}; give each its own")
            ids.add(row.id)
        yield row


def _with_spending(counts: ScoreCounts, now: Mapping[str, float], before: Mapping[str, float]) -> ScoreCounts:
    """Return the counts of a part with its spending."""
    over = [reason for reason in counts.unscored if OUT_OF_BUDGET in reason]
    if over:
        raise BudgetReached(f"the budget is spent: {over[0]}; raise it, and run the same command again")
    return replace(counts, spent={name: now[name] - before.get(name, 0) for name in sorted(now)})


def part_url(out: str, key: str) -> str:
    """Return the place of a part."""
    return join_path(out, f"part-{key}.parquet")


def finished(out: str) -> set[str]:
    """Return the keys of the existing parts."""
    names = list_names(out)
    return {name[5:-8] for name in names if name.startswith("part-") and name.endswith(".parquet")}


# --- the manifest ---------------------------------------------------------------------------------------------------


def read_manifest(out: str) -> dict[str, Any] | None:
    """Return the manifest of a folder of parts, or `None` if the folder has none.

    Raises:
        BadInput: It is damaged, or of another version.
    """
    if MANIFEST not in list_names(out):
        return None
    where = join_path(out, MANIFEST)
    try:
        with open_file(where) as stream:
            found = dict(json.loads(stream.read(256 * MB), parse_constant=_refuse_constant))
        if found["format"] != FORMAT:
            raise BadInput(f"{display_path(where)} was written by another version of Accord; score into another folder")
        _check_manifest(found)
        return found
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(
            f"{display_path(where)} is damaged ({_reason(error)}); remove it, and run the same command again"
        ) from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _reason(error: Exception) -> str:
    """Return a short reason of a failed check."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return one_line(validation_messages(error)[0] if isinstance(error, ValueError) else first_line(error), 200)


class _Manifest(BaseModel):
    """Values of a manifest that are read."""

    made_from: str
    options: dict[str, Any] = {}
    evaluator: str = ""
    question: str = ""
    digest: str = ""
    signature: str = ""
    left: Count = 0


def _check_manifest(found: Mapping[str, Any]) -> None:
    """Check the values of a manifest."""
    _Manifest.model_validate(found)
    keys = [ScorePart.from_json(row).key for row in found["parts"]]
    if len(set(keys)) < len(keys):
        raise ValueError("a part is listed twice")


def begin(job: ScoringJob, origin: Mapping[str, Any]) -> dict[str, Any]:
    """Return the folder's manifest, and write one if there is none.

    Raises:
        BadInput: The folder holds scores of another evaluator or other options, or is a file.
    """
    found = read_manifest(job.out)
    if found is None:
        if not is_remote(job.out) and Path(job.out).is_file():
            raise BadInput(f"{job.out} is a file; name a folder for the parts, such as scores/")
        made_from = {"made_from": job.made_from, "options": job.options}
        found = {"format": FORMAT, "accord_version": __version__, **made_from, **origin, "parts": []}
        write_manifest(job.out, found)
    elif found["made_from"] != job.made_from:
        raise BadInput(
            f"{display_path(job.out)} holds other scores ({_changes(found.get('options', {}), job.options)}); name "
            "another folder, or remove this one"
        )
    return found


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the options in which two runs differ, with the values of both."""
    if before.get("evaluator") != now["evaluator"]:
        return "of another evaluator"
    changed = [name for name in now if before.get(name) != now[name]]
    return "; ".join(
        f"--{name.replace('_', '-')}: {_shown(before.get(name))} there, {_shown(now[name])} now" for name in changed
    )


def _shown(value: Any) -> str:
    return "none" if value in (None, [], {}) else one_line(str(value), 60)


def conclude(
    job: ScoringJob, manifest: Mapping[str, Any], made: Iterable[ScorePart], planned: Sequence[FilePiece]
) -> list[ScorePart]:
    """Write every existing part into the manifest, remove outdated parts, and return the rest.

    Other processes may do the same for other parts at the same time; the last one to write lists all parts.
    """
    known = {part.key: part for part in made if not part.failed}
    keys, urls = {piece.key for piece in planned}, _source_urls(planned)
    while True:
        there = finished(job.out)
        known = _listed_parts(job.out) | known
        known |= {part.key: part for part in _read_parts(job.out, there - known.keys())}
        parts = {key: known[key] for key in sorted(there & known.keys())}
        if keys <= there:
            for key in [key for key, part in parts.items() if key not in keys and urls & set(part.urls)]:
                delete_file(part_url(job.out, key))
                del parts[key]
        counts = sum_counts(part.counts for part in parts.values())
        of_all = {**asdict(counts), "mean": counts.mean, "left": len(keys - parts.keys())}
        write_manifest(job.out, {**manifest, **of_all, "parts": [part.to_json() for part in parts.values()]})
        if finished(job.out) == parts.keys():
            return list(parts.values())


def _source_urls(planned: Sequence[FilePiece]) -> set[str]:
    return {display_path(file.url) for piece in planned for file in piece.files}


def _listed_parts(out: str) -> dict[str, ScorePart]:
    """Return the parts in a folder's manifest, if it has one, by key."""
    manifest = read_manifest(out)
    return {} if manifest is None else {each.key: each for each in map(ScorePart.from_json, manifest["parts"])}


def _read_parts(out: str, keys: Iterable[str]) -> list[ScorePart]:
    """Return parts by their metadata, checked like `check_parts`."""
    with ThreadPoolExecutor(_PARALLEL_READS) as pool:
        return list(pool.map(partial(read_part, out), sorted(keys)))


def check_parts(out: str, keys: Iterable[str], manifest: Mapping[str, Any] | None = None) -> list[ScorePart]:
    """Return parts after comparing each file with its metadata and with the manifest, without reading its pages.

    Raises:
        BadInput: A file is missing or not a part, or its rows differ from its metadata or the manifest.
    """
    parts = _read_parts(out, keys)
    known = {} if manifest is None else {each.key: each for each in map(ScorePart.from_json, manifest["parts"])}
    for part in parts:
        if part.key in known and known[part.key].counts != part.counts:
            raise _not_a_part(
                out, part.key, f"it holds {part.counts.rows} rows, and the manifest lists {known[part.key].counts.rows}"
            )
    return parts


def read_part(out: str, key: str) -> ScorePart:
    """Return a part after comparing its file with its metadata; raises `BadInput` as `check_parts`."""
    url = part_url(out, key)
    with reading_part(out, key):
        if not is_remote(url):
            regular_size(Path(url))
        part = ScorePart.from_json(check_part(url, METADATA_KEY, score_schema(), storage_options(url)))
        if part.key != key:
            raise ValueError(f"its metadata are those of part-{part.key}")
    return part


@contextmanager
def reading_part(out: str, key: str) -> Iterator[None]:
    """Raise every error of reading a part as a `BadInput` that names the part.

    Raises:
        BadInput: The file cannot be read, or is not a part.
    """
    try:
        yield
    except FileNotFoundError:
        raise BadInput(f"part-{key}.parquet is gone; run the same accord score again", Step("score")) from None
    except unreadable_parquet(BadInput, LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        why = _reason(error).partition("; ")[0] if isinstance(error, Exception) else first_line(error)
        raise _not_a_part(out, key, why) from None


def scan_rows(out: str, key: str) -> pl.LazyFrame:
    """Return the rows of a part as cells of a table, which are read when they are collected."""
    url = part_url(out, key)
    return scan_part(url, score_schema(), storage_options(url))


def part_frame(out: str, key: str) -> pl.DataFrame:
    """Return the rows of a part as cells of a table.

    Raises:
        BadInput: The part cannot be read.
    """
    with reading_part(out, key):
        return scan_rows(out, key).collect()


def part_rows(out: str, key: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a part as `ScoreRow`, each with its `status`.

    Raises:
        BadInput: The part cannot be read.
    """
    for row in part_frame(out, key).iter_rows(named=True):
        with reading_part(out, key):
            made = row_of_cells(row)
        yield made


def scored_rows(out: str, key: str) -> Iterator[ScoreRow]:
    """Yield the rows of a part that are about a conversation, as `part_rows`.

    Raises:
        BadInput: The part cannot be read.
    """
    return (cast("ScoreRow", row) for row in part_rows(out, key) if row["status"] != BAD_ROW)


def _not_a_part(out: str, key: str, why: str) -> BadInput:
    place = display_path(part_url(out, key))
    return BadInput(
        f"{place} is damaged or no part of scores ({why}); remove it, and run the same accord score again",
        Step("score"),
    )


def write_manifest(out: str, manifest: Mapping[str, Any]) -> None:
    """Write the manifest of a folder of parts."""
    write_file(join_path(out, MANIFEST), json.dumps(manifest, indent=1).encode("utf-8"))

"""Scoring files of any number and size into a folder of parts, on every core, shard by shard; and parts as one file."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.edges import BadInput, parse_whole_number, unescape_formula, unpacked_name, unreadable_parquet
from accord.formats import (
    BAD_ROW,
    ENDINGS,
    TEXT_SUFFIX,
    File,
    FilePiece,
    ScoreWriter,
    find,
    here,
    is_remote,
    put,
    reason_to_skip,
    shown_place,
    split_files,
    storage_options,
)
from accord.scoring.batch import BatchScorer
from accord.scoring.engines import engine as engine_named
from accord.scoring.parts import (
    Job,
    Part,
    begin,
    check_parts,
    conclude,
    finished,
    part_rows,
    part_url,
    read_manifest,
    reading_part,
)
from accord.scoring.results import PartsRun, ScoreCounts, sum_counts
from accord.values import SCORE_COLUMNS

if TYPE_CHECKING:
    import polars as pl

_FAILED_SHOWN = 5


@dataclass(frozen=True)
class Shard:
    """One of so many equal shares of the pieces, by the hash of each: `3/16` is the third of sixteen.

    Every machine finds the same shares, whatever is added to the input meanwhile.
    """

    number: int = 1
    of: int = 1

    @classmethod
    def named(cls, text: str | None) -> Shard:
        """The shard that a user's option names; all of it without one.

        Raises:
            BadInput: There is no such shard.
        """
        if text is None:
            return cls()
        first, _, last = text.strip().partition("/")
        number, of = parse_whole_number(first), parse_whole_number(last)
        if number is None or of is None or not 1 <= number <= of:
            raise BadInput(f"--shard is a share of the work, from 1/N to N/N, got {text!r}; for example 3/16")
        return cls(number, of)

    def holds(self, piece: FilePiece) -> bool:
        """Whether a piece belongs to it."""
        return int(piece.key, 16) % self.of == self.number - 1


@dataclass(frozen=True)
class Spread:
    """How work is spread.

    Attributes:
        engine: `local` or `ray`.
        workers: How many score at the same time; by default one per core, and one where the evaluator asks a model.
        shard: The share of the pieces that is scored here.
    """

    engine: str = "local"
    workers: int | None = None
    shard: Shard = Shard()


@dataclass(frozen=True)
class Moved:
    """How far a run is.

    Attributes:
        rows: Rows that were scored by now.
        expected: About how many there will be, by what the pieces so far held.
    """

    rows: int
    expected: int


def score_parts(
    scorer: BatchScorer,
    source: str | Path | Sequence[str | Path],
    out: str | Path,
    spread: Spread = Spread(),
    on_moved: Callable[[Moved], None] = lambda moved: None,
) -> PartsRun:
    """Score files, folders, globs or objects of a store into a folder of parts; what is there is not made again.

    Raises:
        BadInput: An input cannot be read, or the folder holds something else.
        BudgetReached: The budget is spent; what was done is kept.
        MissingExtra: A package is not installed.
    """
    run, workers = engine_named(spread.engine), _workers(scorer, spread)
    job = Job(scorer, str(out) if is_remote(str(out)) else str(Path(out).resolve()))
    files = _files([source] if isinstance(source, str | Path) else source)
    pieces = split_files(files, scorer.format, scorer.columns)
    level = scorer.evaluator.level or "conversation"
    about = {"question": scorer.evaluator.question.id, "digest": scorer.digest}
    manifest = begin(job, {"signature": scorer.signature, "evaluator": scorer.evaluator.name, "level": level, **about})
    before = finished(job.out)
    own = [piece for piece in pieces if spread.shard.holds(piece)]
    todo = [piece for piece in own if piece.key not in before]
    made = check_parts(job.out, before & {piece.key for piece in own})
    there_before = len(made)
    failed: dict[str, str] = {}
    size, rows, whole = 0, 0, sum(piece.size for piece in todo)
    try:
        for part in run(job, todo, workers):
            if part.failed:
                failed[part.place] = part.failed
                continue
            made.append(part)
            size, rows = size + part.size, rows + part.counts.rows
            on_moved(Moved(rows, round(rows * whole / max(size, 1))))
    finally:
        parts = conclude(job, manifest, made, pieces)
    there = {part.key for part in parts}
    return PartsRun(
        shown_place(job.out), len(pieces), len(made) - there_before, there_before,
        sum(piece.key not in there for piece in pieces), sum_counts(part.counts for part in parts), failed,
        scorer.signature, level,
    )  # fmt: skip


def _workers(scorer: BatchScorer, spread: Spread) -> int:
    if spread.workers is not None:
        if spread.workers < 1:
            raise BadInput(f"--workers is a number from 1 up, got {spread.workers}")
        if scorer.evaluator.roles and spread.workers > 1 and scorer.asking.caps.any and scorer.asking.shared is None:
            raise BadInput(
                "a budget is kept by one process; leave out --workers, or name it, so that all share it: "
                "budget: {shared: NAME}"
            )
        return spread.workers
    return 1 if scorer.evaluator.roles else os.cpu_count() or 1


def _files(sources: Iterable[str | Path]) -> list[File]:
    """Return every file that is named or found in a named folder, once; pass over texts without speakers in folders.

    Raises:
        BadInput: There are none.
    """
    files, passed = set[File](), list[str]()
    for source in map(str, sources):
        is_folder = Path(source).is_dir() or (is_remote(source) and not source.lower().endswith(TEXT_SUFFIX))
        for file in find(source):
            reason = _reason_to_pass_over(file) if is_folder else None
            files |= {file} if reason is None else set()
            passed += [] if reason is None else [reason]
    if not files:
        raise BadInput(f"no file of conversations: {passed[0]}")
    for reason in passed:
        logging.getLogger("accord").warning("passed over: %s", reason)
    return sorted(files)


def _reason_to_pass_over(file: File) -> str | None:
    if not unpacked_name(file.url.lower()).endswith(TEXT_SUFFIX):
        return None
    with here(file.url) as path:
        return reason_to_skip(path)


# --- parts as one file ----------------------------------------------------------------------------------------------


def merge_parts(folder: str | Path, out: str | Path) -> ScoreCounts:
    """Write the parts of a folder into one file, in the order of their conversations' pieces; the same rows.

    Raises:
        BadInput: The folder holds no parts, or not all that were planned, or the same conversation twice; or the file
            has another ending than ours.
    """
    manifest = read_manifest(str(folder))
    if manifest is None:
        raise BadInput(
            f"{shown_place(str(folder))} holds no scores in parts; make them: accord score ... --out {folder}"
        )
    ending = Path(str(out)).suffix
    if ending not in ENDINGS:
        raise BadInput(f"cannot write scores to {Path(str(out)).name!r}; the ending is one of {', '.join(ENDINGS)}")
    if manifest.get("left", 1):
        raise BadInput(
            f"{manifest.get('left', 'some')} parts are still to be made; run accord score again, every shard"
        )
    keys = {row["key"] for row in manifest["parts"]}
    if lost := keys - finished(str(folder)):
        raise BadInput(f"part-{min(lost)}.parquet is gone; run the same accord score again")
    parts = sorted(check_parts(str(folder), keys, manifest), key=lambda part: (part.urls, part.start))
    for part in parts:
        _check_counts(str(folder), part)
    _check_unique([_scan(str(folder), part) for part in parts])
    if ending == ".parquet":
        _sink(str(folder), parts, str(out))
    else:
        with ScoreWriter(Path(out)) as writer:
            for part in parts:
                writer.write(map(_without_status, part_rows(str(folder), part.key)))
    return sum_counts(part.counts for part in parts)


def _scan(folder: str, part: Part) -> pl.LazyFrame:
    import polars as pl

    url = part_url(folder, part.key)
    return pl.scan_parquet(url, storage_options=storage_options(url), glob=False)


def _check_counts(folder: str, part: Part) -> None:
    """Compare the statuses and values of a part with its counts.

    Raises:
        BadInput: They differ, or the part cannot be read.
    """
    import polars as pl

    with reading_part(folder, part.key):
        is_bad = pl.col("status") == BAD_ROW
        columns = (pl.col("value").count().alias("scored"), is_bad.sum().alias("bad"))
        nameless = (pl.col("status").is_null() | pl.col("conversation").is_null()).sum().alias("nameless")
        [found] = _scan(folder, part).select(*columns, nameless).collect().rows(named=True)
        if (found["scored"], found["bad"], found["nameless"]) != (part.counts.scored, part.counts.bad_rows, 0):
            raise ValueError(f"it holds {found['scored']} scores, and its metadata say {part.counts.scored}")


def _check_unique(scans: Sequence[pl.LazyFrame]) -> None:
    """Refuse two scores of one target; bad rows are none.

    Raises:
        BadInput: Names one of them.
    """
    import polars as pl

    named = [scan.filter(pl.col("status") != BAD_ROW).select("conversation", "turn", "annotator") for scan in scans]
    if not named:
        return
    twice = pl.concat(named).group_by("conversation", "turn", "annotator").len().filter(pl.col("len") > 1)
    found = twice.sort("conversation", "turn").collect(engine="streaming")
    if len(found):
        name = unescape_formula(found["conversation"][0])
        raise BadInput(
            f"{len(found)} conversations or turns were scored more than once, such as {name!r}: the same id stands in "
            "two places; give each conversation its own"
        )


def _sink(folder: str, parts: Sequence[Part], out: str) -> None:
    import tempfile

    import polars as pl

    scans = [_scan(folder, part) for part in parts]
    with tempfile.TemporaryDirectory(prefix="accord-") as made_in:
        made = Path(made_in) / "merged"
        try:
            pl.concat(scans).sink_parquet(made)
        except unreadable_parquet():
            for part, scan in zip(parts, scans, strict=True):
                with reading_part(folder, part.key):  # names the damaged one
                    scan.collect()
            raise
        put(out, made)


def _without_status(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: row[name] for name in SCORE_COLUMNS}

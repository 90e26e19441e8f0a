"""Scoring files of any number and size into a folder of parts, on every core, shard by shard; and parts as one file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.evidence import Readable
from accord.formats import (
    BAD_ROW,
    ENDINGS,
    SCORE_NESTED,
    File,
    Piece,
    ScoreWriter,
    find,
    is_remote,
    pieces_of,
    put,
    shown_place,
    storage_options,
)
from accord.project.batch_scorer import BatchScorer
from accord.project.engines import engine as engine_named
from accord.project.parts import Counts, Job, Part, begin, conclude, finished, part_url, read_manifest, summed
from accord.values import ROW, BadInput, written

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
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise BadInput(f"--shard is a share of the work, from 1/N to N/N, got {text!r}; for example 3/16")
        return cls(int(found[1]), int(found[2]))

    def holds(self, piece: Piece) -> bool:
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


@dataclass(frozen=True, repr=False)
class PartsRun(Readable):
    """Counts of a run that scores into a folder of parts.

    Attributes:
        out: The folder.
        parts: How many parts there are to be, of all shards.
        made: How many were made now.
        there: How many were there before, and were not made again.
        left: How many are still to be made: of other shards, or failed.
        counts: What all parts in the folder hold.
        failed: By input, why a part could not be made.
        signature: How the scores were made.
        level: Whether turns or conversations were scored.
    """

    out: str
    parts: int
    made: int
    there: int
    left: int
    counts: Counts
    failed: dict[str, str] = field(default_factory=dict)
    signature: str = ""
    level: str = "conversation"

    def summary(self) -> dict[str, Any]:
        """Return the folder and the counts of its parts and scores."""
        return {"out": self.out, "parts": self.parts, "made": self.made, "left": self.left, **asdict(self.counts)}

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {**vars(self), "counts": {**asdict(self.counts), "mean": self.counts.mean}}


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
    pieces = pieces_of(files, scorer.format, scorer.columns)
    level = scorer.evaluator.level or "conversation"
    about = {"question": scorer.evaluator.question.id, "digest": scorer.digest}
    manifest = begin(job, {"signature": scorer.signature, "evaluator": scorer.evaluator.name, "level": level, **about})
    before = finished(job.out)
    own = [piece for piece in pieces if spread.shard.holds(piece)]
    todo = [piece for piece in own if piece.key not in before]
    made: list[Part] = []
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
        shown_place(job.out), len(pieces), len(made), len(own) - len(todo),
        sum(piece.key not in there for piece in pieces), summed(parts), failed, scorer.signature, level,
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
    """Every file that is named, once."""
    return sorted({file for source in sources for file in find(str(source))})


# --- parts as one file ----------------------------------------------------------------------------------------------


def merge_parts(folder: str | Path, out: str | Path) -> Counts:
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
    parts = [Part.from_json(row) for row in manifest["parts"]]
    if lost := {part.key for part in parts} - finished(str(folder)):
        raise BadInput(f"part-{min(lost)}.parquet is gone; run the same accord score again")
    scans = _scans(str(folder), sorted(parts, key=lambda part: (part.urls, part.start)))
    _check_unique(scans)
    if ending == ".parquet":
        _sink(scans, str(out))
    else:
        with ScoreWriter(Path(out)) as writer:
            for frame in scans:
                writer.write(map(_as_row, frame.collect().iter_rows(named=True)))
    return summed(parts)


def _scans(folder: str, parts: Sequence[Part]) -> list[pl.LazyFrame]:
    import polars as pl

    urls = [part_url(folder, part.key) for part in parts]
    return [pl.scan_parquet(url, storage_options=storage_options(url), glob=False) for url in urls]


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
        name = written(found["conversation"][0])
        raise BadInput(
            f"{len(found)} conversations or turns were scored more than once, such as {name!r}: the same id stands in "
            "two places; give each conversation its own"
        )


def _sink(scans: Sequence[pl.LazyFrame], out: str) -> None:
    import tempfile

    import polars as pl

    with tempfile.TemporaryDirectory(prefix="accord-") as folder:
        made = Path(folder) / "merged"
        pl.concat(scans).sink_parquet(made)
        put(out, made)


def _as_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row of a part as `Score.to_json` gives it."""
    found = {name: row[name] for name in ROW}
    texts = {name: written(value) for name, value in found.items() if isinstance(value, str)}
    nested = {name: json.loads(row[name]) for name in SCORE_NESTED if row[name] is not None}
    return {**found, **texts, **nested}

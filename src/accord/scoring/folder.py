"""Scoring of many files into a folder of parts, in parallel and by shards; and merging of parts into one file."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.edges import (
    BadInput,
    MissingExtra,
    Step,
    UnknownName,
    count_of,
    parse_whole_number,
    unescape_formula,
    unpacked_name,
    unreadable_parquet,
)
from accord.formats import (
    ENDINGS,
    TEXT_SUFFIX,
    File,
    FilePiece,
    ScoreWriter,
    display_path,
    find_files,
    is_remote,
    local_copy,
    reason_to_skip,
    split_files,
    write_file,
)
from accord.runtime import (
    ONE_THREAD,
    WorkerLost,
    WorkerThreads,
)
from accord.scoring.batch import BatchScorer, confirm_endpoints
from accord.scoring.part_checks import check_rows
from accord.scoring.parts import (
    ScorePart,
    ScoringJob,
    begin,
    check_parts,
    conclude,
    finished,
    part_adapter,
    part_rows,
    read_manifest,
    reading_part,
    scan_rows,
    score_piece,
)
from accord.scoring.results import PartsRun, ScoreCounts, sum_counts
from accord.values import BAD_ROW

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Shard:
    """One of `total` shares of the pieces, by the hash of each piece: `3/16` is the third of sixteen.

    Every machine computes the same shares, even while files are added to the input.
    """

    number: int = 1
    total: int = 1

    @classmethod
    def parse(cls, text: str | None) -> Shard:
        """Return the shard of a user's option; everything without one.

        Raises:
            BadInput: The text names no shard.
        """
        if text is None:
            return cls()
        first, _, last = text.strip().partition("/")
        number, total = parse_whole_number(first), parse_whole_number(last)
        if number is None or total is None or not 1 <= number <= total:
            raise BadInput(f"--shard is a share of the work, from 1/N to N/N, got {text!r}; for example 3/16")
        return cls(number, total)

    def holds(self, piece: FilePiece) -> bool:
        """Return True if a piece belongs to this shard."""
        return int(piece.key, 16) % self.total == self.number - 1


@dataclass(frozen=True)
class Execution:
    """Engine and share of a run.

    Attributes:
        engine: `local` or `ray`.
        workers: Number of parallel workers; by default one per core, or one if the evaluator asks a model.
        shard: Share of the pieces to score.

    >>> Execution(workers=4).engine, Execution(shard=Shard.parse("3/16")).shard.total
    ('local', 16)
    """

    engine: str = "local"
    workers: int | None = None
    shard: Shard = Shard()


def score_parts(
    scorer: BatchScorer,
    source: str | Path | Sequence[str | Path],
    out: str | Path,
    execution: Execution = Execution(),
    on_progress: Callable[[int, int], None] = lambda rows, expected: None,
    on_part: Callable[[str, str], None] = lambda out, key: None,
) -> PartsRun:
    """Score files, folders, globs or objects of a store into a folder of parts; existing parts are kept.

    `on_progress` receives the number of rows scored so far, and the estimated number of all rows; `on_part` the folder
    and the key of each finished part.

    Raises:
        BadInput: An input cannot be read, or the folder holds something else.
        BudgetReached: The budget is spent; finished parts stay.
        MissingExtra: A package is not installed.
        UnknownName: No engine has this name.
    """
    if execution.engine not in ENGINES:
        raise UnknownName("engine", execution.engine, ENGINES)
    workers = _worker_count(scorer, execution)
    confirm_endpoints(scorer)
    job = ScoringJob(scorer, str(out) if is_remote(str(out)) else str(Path(out).resolve()))
    files = _files([source] if isinstance(source, str | Path) else source)
    pieces = split_files(files, scorer.format, scorer.columns)
    evaluator = scorer.evaluator
    level = evaluator.level or "conversation"
    manifest = begin(job, {
        "signature": scorer.signature, "evaluator": evaluator.name, "level": level, "question": evaluator.question.id,
        "digest": scorer.digest,
    })  # fmt: skip
    before = finished(job.out)
    own = [piece for piece in pieces if execution.shard.holds(piece)]
    todo = [piece for piece in own if piece.key not in before]
    made = check_parts(job.out, before & {piece.key for piece in own})
    existing = len(made)
    failed: dict[str, str] = {}
    size, rows, total_size = 0, 0, sum(piece.size for piece in todo)
    try:
        for part in ENGINES[execution.engine](job, todo, workers):
            if part.failed:
                failed[part.place] = part.failed
                continue
            made.append(part)
            size, rows = size + part.size, rows + part.counts.rows
            on_part(job.out, part.key)
            on_progress(rows, round(rows * total_size / max(size, 1)))
    finally:
        parts = conclude(job, manifest, made, pieces)
    keys = {part.key for part in parts}
    return PartsRun(
        display_path(job.out), len(pieces), len(made) - existing, existing,
        sum(piece.key not in keys for piece in pieces), sum_counts(part.counts for part in parts), failed,
        scorer.signature, level, scorer.evaluator.plausibility_text,
    )  # fmt: skip


def _worker_count(scorer: BatchScorer, execution: Execution) -> int:
    if execution.workers is None:
        return 1 if scorer.evaluator.roles else os.cpu_count() or 1
    if execution.workers < 1:
        raise BadInput(f"--workers is a number from 1, got {execution.workers}")
    access = scorer.access
    if scorer.evaluator.roles and execution.workers > 1 and access.caps.any and access.caps.shared is None:
        raise BadInput(
            f"--workers {execution.workers} needs a shared budget, since each process counts its own requests; leave "
            "out --workers, or name the budget in accord.yaml: budget: {shared: NAME}"
        )
    return execution.workers


def _files(sources: Iterable[str | Path]) -> list[File]:
    """Return the given files and the files in given folders, each once, without folders' texts without speakers."""
    files, skipped = set[File](), list[str]()
    for source in map(str, sources):
        is_folder = Path(source).is_dir() or (is_remote(source) and not source.lower().endswith(TEXT_SUFFIX))
        for file in find_files(source):
            reason = _reason_to_pass_over(file) if is_folder else None
            files |= {file} if reason is None else set()
            skipped += [] if reason is None else [reason]
    if not files:
        raise BadInput(f"no file of conversations: {skipped[0]}")
    for reason in skipped:
        logging.getLogger("accord").warning("skipped: %s", reason)
    return sorted(files)


def _reason_to_pass_over(file: File) -> str | None:
    if not unpacked_name(file.url.lower()).endswith(TEXT_SUFFIX):
        return None
    with local_copy(file.url) as path:
        return reason_to_skip(path)


# --- engines -------------------------------------------------------------------------------------------------------

ATTEMPTS = 3
"""Number of workers that may be killed on a piece before it fails; it may need too much memory."""
_IMPORTS = ("accord.scoring.parts",)

Engine = Callable[[ScoringJob, Sequence[FilePiece], int], Iterator[ScorePart]]
"""A function that scores pieces with a number of workers, and yields each part as it is finished."""


def local(job: ScoringJob, pieces: Sequence[FilePiece], workers: int) -> Iterator[ScorePart]:
    """Score in worker processes of this machine; one worker scores in this process."""
    if workers == 1 or len(pieces) <= 1:
        yield from (score_piece(job, piece) for piece in pieces)
        return
    with WorkerThreads(partial(score_piece, job), min(workers, len(pieces)), _IMPORTS, ATTEMPTS) as threads:
        running = {threads.submit(piece): piece for piece in pieces}
        for done in as_completed(running):
            try:
                yield done.result()
            except WorkerLost:
                reason = f"its worker process was killed {ATTEMPTS} times, perhaps for lack of memory; lower --workers"
                yield replace(ScorePart.of(running[done]), failed=reason)


def ray(job: ScoringJob, pieces: Sequence[FilePiece], workers: int) -> Iterator[ScorePart]:
    """Score on Ray Data with a pool of actors, each of which scores one piece at a time.

    Uses the cluster at RAY_ADDRESS, else a local Ray that ends with the run. Ray's usage reports are off.

    Raises:
        MissingExtra: `accord[ray]` is not installed.
    """
    if not pieces:
        return
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before the import
    try:
        import ray as _ray
        import ray.data as _data
    except ImportError:
        raise MissingExtra("--engine ray", "ray") from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    is_new = not _ray.is_initialized()
    with redirect_stdout(sys.stderr):  # Ray reports lost workers on stdout, which is for results
        if is_new:
            _start_ray(_ray)
        try:
            yield from _on_ray(_data, job, pieces, workers)
        finally:
            if is_new:
                _ray.shutdown()


def _on_ray(data: Any, job: ScoringJob, pieces: Sequence[FilePiece], workers: int) -> Iterator[ScorePart]:
    data.DataContext.get_current().enable_progress_bars = False
    rows = [{"piece": json.dumps(piece.to_json())} for piece in pieces]
    parts = data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        _actor_of(job), batch_size=1, batch_format="pyarrow",
        # With two CPUs, two actors of one CPU each would hang, because no CPU is left to distribute the work.
        num_cpus=0.5, compute=data.ActorPoolStrategy(min_size=1, max_size=workers),
    )  # fmt: skip
    for row in parts.iter_rows():
        yield part_adapter().validate_json(row["part"])


def _start_ray(ray: Any) -> None:
    """Join the cluster at RAY_ADDRESS, or start a local one on the loopback address."""
    if os.environ.get("RAY_ADDRESS"):
        ray.init(logging_level=logging.ERROR, log_to_driver=False)
        return
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)  # inherited by Ray's processes
    ray.init(
        address="local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
        num_cpus=max(2, os.cpu_count() or 2), _node_ip_address="127.0.0.1",
    )  # fmt: skip


def _actor_of(job: ScoringJob) -> type:
    """Return an actor class that contains the job, so that a restarted actor also has it."""

    class PieceActor:
        def __call__(self, batch: Any) -> Any:
            import pyarrow as pa

            pieces = [FilePiece.from_json(json.loads(text)) for text in batch.column("piece").to_pylist()]
            return pa.table({"part": [json.dumps(asdict(score_piece(job, piece))) for piece in pieces]})

    return PieceActor


ENGINES: Mapping[str, Engine] = {"local": local, "ray": ray}
"""Engines by name."""


# --- parts as one file ----------------------------------------------------------------------------------------------


def merge_parts(folder: str | Path, out: str | Path) -> ScoreCounts:
    """Write the rows of a folder's parts into one file, in the order of the input.

    Raises:
        BadInput: The folder holds no parts, lacks planned parts, holds a wrong row or a conversation twice, or the file
            has an unknown ending.
    """
    manifest = read_manifest(str(folder))
    if manifest is None:
        score = Step("score", "chats.jsonl", out=str(folder))
        raise BadInput(f"{display_path(str(folder))} holds no scores in parts; make them: {score}", score)
    ending = Path(str(out)).suffix
    if ending not in ENDINGS:
        raise BadInput(f"cannot write scores to {Path(str(out)).name!r}; the ending is one of {', '.join(ENDINGS)}")
    if Path(out).resolve().is_relative_to(Path(folder).resolve()):
        raise BadInput(f"{out} is in the folder of the parts, and could replace one; name a file elsewhere")
    if manifest.get("left", 1):
        missing = count_of(manifest.get("left", 1), "part")
        raise BadInput(
            f"{missing} missing of {display_path(str(folder))}; run accord score again, with every shard", Step("score")
        )
    keys = {row["key"] for row in manifest["parts"]}
    if lost := keys - finished(str(folder)):
        raise BadInput(f"part-{min(lost)}.parquet is gone; run the same accord score again", Step("score"))
    parts = sorted(check_parts(str(folder), keys, manifest), key=lambda part: (part.urls, part.start))
    for part in parts:
        check_rows(str(folder), part)
    _check_unique([scan_rows(str(folder), part.key) for part in parts])
    if ending == ".parquet":
        _sink(str(folder), parts, str(out))
    else:
        with ScoreWriter(Path(out)) as writer:
            for part in parts:
                writer.write(part_rows(str(folder), part.key))
    return sum_counts(part.counts for part in parts)


def _check_unique(scans: Sequence[pl.LazyFrame]) -> None:
    """Check that every target has one score; bad rows do not count."""
    import polars as pl

    targets = [scan.filter(pl.col("status") != BAD_ROW).select("conversation", "turn", "annotator") for scan in scans]
    if not targets:
        return
    twice = pl.concat(targets).group_by("conversation", "turn", "annotator").len().filter(pl.col("len") > 1)
    repeated = twice.sort("conversation", "turn").collect(engine="streaming")
    if len(repeated):
        name = unescape_formula(repeated["conversation"][0])
        raise BadInput(
            f"{len(repeated)} conversations or turns were scored more than once, such as {name!r}: the id occurs "
            "twice in the input; give each conversation its own"
        )


def _sink(folder: str, parts: Sequence[ScorePart], out: str) -> None:
    import tempfile

    import polars as pl

    scans = [scan_rows(folder, part.key) for part in parts]
    with tempfile.TemporaryDirectory(prefix="accord-") as made_in:
        made = Path(made_in) / "merged"
        try:
            pl.concat(scans).sink_parquet(made)
        except unreadable_parquet():
            for part, scan in zip(parts, scans, strict=True):
                with reading_part(folder, part.key):  # names the damaged part
                    scan.collect()
            raise
        write_file(out, made)

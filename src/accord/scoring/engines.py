"""Engines that score pieces in parallel: processes of this machine by default, or Ray.

An engine yields each part when it is finished. If a worker is killed, its piece is retried.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import redirect_stdout
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from accord.edges import MissingExtra, UnknownName
from accord.formats import FilePiece
from accord.learning import ONE_THREAD, WorkerLost, WorkerThreads
from accord.scoring.parts import Engine, ScorePart, ScoringJob, part_adapter, score_piece

ATTEMPTS = 3
"""Number of workers that may be killed on a piece before it fails; it may need too much memory."""
_IMPORTS = ("accord.scoring.parts",)


def engine_named(name: str) -> Engine:
    """Return an engine by its name.

    Raises:
        UnknownName: No engine has this name.
    """
    if name not in ENGINES:
        raise UnknownName("engine", name, ENGINES)
    return ENGINES[name]


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

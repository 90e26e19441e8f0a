"""What scoring, judging and storing cost at scale, on this machine: rates, memory, what a kill loses, and ratios.

    python benchmarks/scale.py [--only PARTS] [--quick] [--limit N] --json OUT

`scale_scoring.py`, `scale_store.py` and `scale_live.py` describe their parts. Ratios compare what ran in the same run.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[_name] = "1"  # a worker has one core, before NumPy is imported

from functools import partial

import scale_live
import scale_scoring
import scale_store
from harness import Row, chosen, finish, options, rows_of_part

RUN = {**scale_scoring.RUN, **scale_store.RUN, **scale_live.RUN}
COLUMNS = [
    "what", "part", "encoding", "conversations", "spans", "workers", "questions", "cap", "requests", "answered",
    "annotations", "seconds", "cpu_seconds", "start_seconds", "per_second", "microseconds", "replies_per_second",
    "ratio", "ratio_naive", "peak_mb", "peak_mb_few", "size_mb", "lost", "doubled", "rescored_parts", "same_bytes",
    "overspent", "paid_twice", "p50_ms", "p99_ms", "refused", "skipped",
]  # fmt: skip


def main() -> None:
    """Measure the selected parts; a part without its packages or its database is a row with the reason."""
    parser = options("scale", "What scoring, judging and storing cost at scale.", tuple(RUN))
    given = parser.parse_args()
    rows: list[Row] = []
    for part in chosen(parser, given.only, tuple(RUN)):
        rows += rows_of_part(part, partial(RUN[part], given.quick, given.limit))
    finish("scale", rows, COLUMNS, given.json)


if __name__ == "__main__":
    main()

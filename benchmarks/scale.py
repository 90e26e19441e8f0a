"""What scoring, judging and storing cost at scale, on this machine: rates, memory, what a kill loses, and ratios.

    python benchmarks/scale.py [--only PARTS] [--quick] [--limit N] --json OUT

What each part measures stands in the file that it is measured in: `scale_scoring.py`, `scale_store.py`,
`scale_live.py`. Ratios compare what ran in the same run; a rate is of this machine and its load.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[_name] = "1"  # a worker has one core, before NumPy is imported

from importlib import import_module
from importlib.util import find_spec

from harness import Row, chosen, finish, options

PARTS = [import_module(name) for name in ("scale_scoring", "scale_store", "scale_live") if find_spec(name)]
RUN = {name: run for part in PARTS for name, run in part.RUN.items()}
COLUMNS = [
    "what", "encoding", "conversations", "spans", "workers", "seconds", "cpu_seconds", "start_seconds", "per_second",
    "microseconds", "replies_per_second",
    "ratio", "ratio_naive", "peak_mb", "peak_mb_few", "lost", "doubled", "rescored_parts", "same_bytes", "overspent",
    "paid_twice", "p50_ms", "p99_ms", "refused", "skipped",
]  # fmt: skip


def main() -> None:
    """Measure the parts that were asked for; one whose packages are absent is a row with the reason."""
    parser = options("scale", "What scoring, judging and storing cost at scale.", tuple(RUN))
    given = parser.parse_args()
    rows: list[Row] = []
    for part in chosen(parser, given.only, tuple(RUN)):
        rows += RUN[part](given.quick, given.limit)
    finish("scale", rows, COLUMNS, given.json)


if __name__ == "__main__":
    main()

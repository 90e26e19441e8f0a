"""Accuracy of reported numbers: on planted data with known truth, and on rated data.

    python benchmarks/true_numbers.py [--data ../shared/data] [--only PARTS] [--quick] [--limit DRAWS] --json OUT

Each part is described in its file: `true_heads.py`, `true_calibration.py`, `true_labels.py`, `true_watch.py`,
`true_texts.py`. Rows are `what`, `value`, `low`, `high`: the central 95% over draws, or a bootstrap over conversations.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # must be set before NumPy is imported; small matrices need one thread

from functools import partial

import true_calibration
import true_heads
import true_labels
import true_texts
import true_watch
from harness import Row, chosen, finish, options, rows_of_part

PARTS = (true_heads, true_calibration, true_labels, true_watch, true_texts)
RUN = {name: run for part in PARTS for name, run in part.RUN.items()}
NEEDS = {name: folder for part in PARTS for name, folder in part.NEEDS.items()}
DRAWS = 20
SLOW = {"never-below-constant-rated", "worst-system-bias"}
"""Parts that `--quick` leaves out unless `--only` names them."""


def main() -> None:
    """Measure the requested parts; a part without data gives a row with the reason."""
    parser = options("true_numbers", "Check reported numbers on planted and rated data.", tuple(RUN))
    given = parser.parse_args()
    rows: list[Row] = []
    for part in chosen(parser, given.only, tuple(RUN)):
        if given.quick and given.only is None and part in SLOW:
            continue
        needed = NEEDS.get(part)
        if needed and not (given.data / needed).is_dir():
            rows.append({"what": part, "value": None, "low": None, "high": None, "skipped": f"no {needed} in --data"})
            continue
        rows += rows_of_part(part, partial(RUN[part], given.data, given.limit or (2 if given.quick else DRAWS)))
    finish("true_numbers", rows, ["what", "value", "low", "high", "constant", "column", "draws", "skipped"], given.json)


if __name__ == "__main__":
    main()

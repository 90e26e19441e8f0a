"""Hostile input to real processes: files, endpoints, requests, stores and texts; nothing may fall.

    python benchmarks/attacks.py [--quick] [--only readers,yaml,...] --json OUT

Every case runs `accord` as a process of its own on temporary folders, against servers on the loopback interface. A case
falls where a process ends with a traceback or not at all, takes more memory than it may, succeeds where something was
wrong or fails where nothing was, or lets something out: a part of a key, live markup, a control character, a formula,
NaN. What fell stands under the table, and in the rows.
"""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attack_access
import attack_batches
import attack_files as files
import attack_models
import attack_outputs
import attack_pages as texts
import attack_scores as scores
import attack_service
import attack_wires as wires
import attack_workbench
from attacking import Area, Workshop
from harness import Row, chosen, finish, options

AREAS: dict[str, Area] = {
    "readers": files.readers, "yaml": files.yamls, "evaluator-folders": files.folders, "stores": files.stores,
    "follow": files.follow, "replies": wires.replies, "endpoints": wires.endpoints, "budgets": wires.budgets,
    "batches": attack_batches.batches, "urls": wires.urls, "models": attack_models.models,
    "secrets": wires.secrets, "webhooks": wires.webhooks, "serve": attack_service.serve, "pages": texts.pages,
    "terminal": texts.terminal, "workbench": attack_workbench.workbench, "access": attack_access.access,
    "outputs": attack_outputs.outputs,
    "parts": scores.parts, "mart": scores.mart,
    "texts": scores.texts, "killed": scores.killed,
}  # fmt: skip
AT_ONCE = 3
"""Areas that are tried side by side."""
QUICK = 8
"""With --quick, every so-manieth case of an area."""


def tried(name: str, shop: Workshop, every: int = 1) -> Row:
    """The row of one area; every `every`-th of its cases is tried."""
    fell, count, start = list[str](), 0, time.perf_counter()
    for place, (case, attack) in enumerate(AREAS[name](shop)):
        if place % every:
            continue
        count += 1
        try:
            found = attack()
        except Exception as error:
            found = f"the attack itself failed: {type(error).__name__}: {error}"
        if found:
            fell.append(f"{case}: {found}")
            print(f"{name}: {fell[-1]}", file=sys.stderr, flush=True)
    return {"what": name, "tried": count, "fell": len(fell), "seconds": time.perf_counter() - start, "cases": fell}


def main() -> None:
    parser = options("attacks", "Hostile input to real processes: nothing may fall.", tuple(AREAS))
    given = parser.parse_args()
    names = chosen(parser, given.only, tuple(AREAS))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as threads:
        shop = Workshop(Path(folder))
        rows = list(threads.map(lambda name: tried(name, shop, QUICK if given.quick else 1), names))
    finish("attacks", rows, ("what", "tried", "fell", "seconds"), given.json)
    for row in rows:
        for case in row["cases"]:
            print(f"{row['what']}: {case}")
    if any(row["fell"] for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()

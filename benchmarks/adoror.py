"""ADOROR: a planted utility that the selector has to find, and table 1 on Topical-USR with the embedded model.

`--only planted,systems,sensitivity,prompts,together` needs no data and no model: recovery by each selector, table 1 in
three planted worlds, table 4 (γ × ζ × k), transfer of good prompts to new inputs (figures 4 to 6), and the cost of
sharing observed sets. The code is that of `accord paper adoror`.

The real part stores every reply in `--store` and continues after a stop. `--limit N` takes N
responses (whole contexts); `--limit 18 --splits context --dimensions Overall` takes about ten minutes on one core
with other work, less on two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness import Row, chosen, data_folder, options, rows_of_part, table, write
from synthetic_corpus import rated_chats

from accord.methods.in_context.template import examples_of
from accord.values import Sample
from accord_papers.adoror.prefixes import prefix_rows
from accord_papers.adoror.simulation import (
    ALL_MECHANISMS,
    FULL,
    PAPER,
    QUICK,
    WORLDS,
    planted_rows,
    prompt_rows,
    sensitivity_cells,
    sensitivity_rows,
    system_rows,
    together_rows,
)
from accord_papers.adoror.system_answers import DIMENSIONS, SPLITS, ask_topical_usr, table_1, wilcoxon

PARTS = ("planted", "systems", "sensitivity", "prompts", "prefixes", "together", "real")


def main() -> None:
    """Run the parts."""
    parser = options("adoror", str(__doc__), PARTS)
    parser.add_argument("--store", type=Path, default=Path("adoror.db"), help="where replies are kept")
    parser.add_argument("--splits", default=",".join(SPLITS), help="folds by context, at random, or both")
    parser.add_argument("--dimensions", default=",".join(DIMENSIONS), help="which are scored")
    args = parser.parse_args()
    parts = chosen(parser, args.only, PARTS)
    rows: list[Row] = []
    sizes = QUICK if args.quick else FULL
    if "planted" in parts:
        rows += planted_rows(0, sizes, ALL_MECHANISMS if args.quick else WORLDS)
        print(table(rows, ("world", "system", "recovered", "absolute_error")), "\n")
    if "systems" in parts:
        worlds = [
            row for seed in range(1 if args.quick else 3) for row in system_rows(seed, QUICK if args.quick else PAPER)
        ]
        systems = [{"what": "systems", **row} for row in table_1(worlds)]
        print(table(systems, ("system", "n", "spearman")), "\n")
        rows += systems
    if "sensitivity" in parts:
        cells = sensitivity_cells(0, sizes, *(((2, 4), (32, 64), (2, 5)) if args.quick else ()))
        shown = sensitivity_rows(cells)
        print(table(shown, ("world", "system", "cells", "least", "mean", "most")), "\n")
        rows += [*shown, *cells]
    if "prompts" in parts:
        prompts = [
            row for seed in range(1 if args.quick else 5) for row in prompt_rows(seed, 60 if args.quick else 300)
        ]
        print(table(prompts, ("world", "system", "seed", "spearman", "selected", "best", "mean")), "\n")
        rows += prompts
    if "prefixes" in parts:
        chats, labels, rubric = rated_chats(120)
        saved = prefix_rows(examples_of(rubric.main_question, map(Sample, chats), labels, None, lambda chat: False))
        print(table(saved, ("what", "together", "layout", "requests", "characters", "shared")), "\n")
        rows += saved
    if "together" in parts:
        shared = [row for seed in range(1 if args.quick else 3) for row in together_rows(seed, sizes)]
        print(table(shared, ("world", "system", "seed", "recovered", "absolute_error")), "\n")
        rows += shared
    if "real" in parts:
        folder = data_folder(parser, args.data) / "topical_usr"
        limit = args.limit or (18 if args.quick else None)
        tried = partial(
            ask_topical_usr, folder, f"sqlite:///{args.store}", limit, args.splits.split(","),
            args.dimensions.split(","), bool(args.limit or args.quick), say_once(),
        )  # fmt: skip
        found = rows_of_part("real", tried)
        if "skipped" not in found[0]:
            compared = table_1(found), wilcoxon(found)
            print(table(compared[0], ("split", "dimension", "system", "folds", "n", "spearman", "mean_of_folds")), "\n")
            print(table(compared[1], ("split", "system", "against", "improvement", "p")))
            rows += [*compared[0], *compared[1]]
        rows += found
    write("adoror", rows, args.json)


def say_once() -> Callable[[str], None]:
    """Return a function that prints each stage when it begins."""
    begun = [""]

    def step(stage: str) -> None:
        if stage != begun[0]:
            begun[0] = stage
            print(stage, file=sys.stderr, flush=True)

    return step


if __name__ == "__main__":
    main()

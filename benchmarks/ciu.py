"""Value of cheap metrics, alone and combined (CIU and MoE-CIU; Choi et al.), on any data set of our schema.

    python benchmarks/ciu.py --data ../shared/data [--set topical_usr] [--only standalone,select,unify,transfer]
                             [--to DIR] [--quick] --json OUT

`accord paper ciu` prints the paper's tables from the same code (`accord_papers.ciu`).

standalone  each metric with the paper's figure (tables 1 and 3): Spearman, Pearson and Kendall with the mean of the
            annotators, 95% intervals by bootstrap over contexts, and the lead of CIU's Spearman over each other
            metric's, with its interval and a paired test (Holm).
select      the paper's combinations of its six metrics (tables 2 and 4): 17 ways to select some, a support vector
            regressor, the frequency of each metric, and our runs of MoE-Concat and MoE-CIU.
unify       our combination of wider banks. `ridge` is ridge regression on the same ranks.
transfer    learned on Topical-USR and applied unseen to the set in DIR: unchanged, and with ranks among DIR's texts.

Combinations are tested on unseen responses over 15 seeds: 50 random responses as in the paper, or whole contexts.
Subsets: `with-document` are the responses with a document (312 in Topical-USR), `all` sets metrics of missing documents
to 0, `machine` are the responses with a document that a model wrote. Banks: `lexical` needs no model, `embedding` adds
cosines and BERTScore of the small embedder (`accord models pull`), `paper` are its six metrics, with RUBER learned from
the set's responses, each scored by a model that has not seen its context.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # small matrices gain nothing from more, before NumPy is imported

from pathlib import Path

from harness import Row, chosen, data_folder, finish, options

from accord.evidence.bank.reply_metrics import (
    BERTSCORE,
    EMBEDDING,
)
from accord_papers.ciu.combinations import OURS, PUBLISHED_FORMS, SPLITS, ratios, select, transfer, unify
from accord_papers.ciu.published import METRICS
from accord_papers.ciu.responses import Rated, load
from accord_papers.ciu.selection import STRATEGIES
from accord_papers.ciu.single_metrics import LEXICAL, RENAMED, WIDE, standalone

PARTS = ("standalone", "select", "unify", "transfer")
SEEDS = 15


def published_combinations(data: Rated, seeds: int, quick: bool) -> list[Row]:
    """Return tables 2 and 4: strategies, published mixtures, selection ratios."""
    splits, strategies = (SPLITS[:1], STRATEGIES[::6]) if quick else (SPLITS, STRATEGIES)
    forms = {name: PUBLISHED_FORMS[name] for name in list(PUBLISHED_FORMS)[:: 2 if quick else 1]}
    rows = select(data, seeds, splits, strategies)
    return [*rows, *unify(data, forms, seeds, splits, part="select"), *ratios(rows)]


def main() -> None:
    parser = options("ciu", "Cheap metrics one by one and together.", PARTS)
    parser.add_argument(
        "--set", default="topical_usr", help="the data set's folder; the paper used Topical and Persona-USR"
    )
    parser.add_argument("--to", type=Path, help="transfer: the folder of the other data set")
    given = parser.parse_args()
    wanted = chosen(parser, given.only, PARTS)
    folder = data_folder(parser, given.data) / given.set
    if not folder.is_dir():
        parser.error(f"no data set at {folder}; name another with --set")
    draws, seeds = (40, 1) if given.quick else (1000, given.limit or SEEDS)
    rows: list[Row] = []
    subsets = load(folder, WIDE, RENAMED)
    data = subsets.get("with-document", subsets["all"])
    banks = {"lexical": LEXICAL, "embedding": (*LEXICAL, *EMBEDDING, *BERTSCORE)}
    if any(name in data.missing for name in EMBEDDING):
        print(f"without embeddings: {data.missing[EMBEDDING[0]]}")
        del banks["embedding"]
    if "standalone" in wanted:
        rows += standalone({name: subsets[name] for name in list(subsets)[:: 2 if given.quick else 1]}, draws)
    if "select" in wanted:
        rows += published_combinations(data.only(METRICS), seeds, given.quick)
    if "unify" in wanted:
        for bank, members in banks.items():
            rows += unify(data.only(members), OURS, 3 if given.quick else seeds, bank=bank)
    if "transfer" in wanted and given.to is not None:
        other = load(given.to, WIDE, RENAMED)
        bank, members = list(banks.items())[-1]
        rows += transfer(data.only(members), other.get("with-document", other["all"]).only(members), bank, draws)
    columns = ["part", "dataset", "subset", "system", "bank", "split", "n"]
    figures = ["spearman_overall", "spearman_uses_knowledge", "ratio"]
    columns += [*figures, *(f"{name}_published" for name in figures), "ciu_ahead_overall", "ciu_ahead_overall_p"]
    finish("ciu", rows, [*columns, "warned", "missing"], given.json)


if __name__ == "__main__":
    main()

"""LLM-RUBRIC's data (Hashemi et al., ACL 2024): baselines and calibration on the same rows and folds.

    python benchmarks/llm_rubric.py --data ../shared/data --json OUT [--protocols S,T,T+k,R,by-system] [--quick]

Protocols:
    S          5-fold over the synthetic dialogues, fold seeds 43 to 52, everything chosen inside the training folds.
    T          learned on all synthetic rows, tested once on the real ones as a new domain.
    T+k        T, then adapted with k labelled real dialogues per person (k = 1, 2, 4, 8), 20 draws, tested on the rest.
    R          5-fold inside the real set, the same fold seeds.
    by-system  learned on four synthetic systems, tested on the fifth, by domain_correlation: the basis of its default.
    oracle, ablations, questions, curve, adaptive, diagrams: the paper's other tables.
    means, panel: its tables 4 and 5, and disagreement of its judges.

FActScore (table 1, row 5) is left out: the data have neither its source of facts, the paper's Azure corpus, nor the
texts of the synthetic dialogues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from harness import Row, chosen, data_folder, options, table, write

from accord.values import Rubric
from accord_papers.llm_rubric import ablations, annotators
from accord_papers.llm_rubric.protocols import (
    FOLD_SEEDS,
    SHOWN,
    DataSet,
    adapted_rows,
    all_systems,
    asked_always,
    both,
    by_system,
    check_manifest,
    chosen_on_synthetic,
    cross_validated,
    fold_rows,
    test_rows,
    transferred,
)

PROTOCOLS = ("S", "T", "T+k", "R", "by-system")
PAPERS_PARTS = ("oracle", "ablations", "questions", "curve", "adaptive", "diagrams", "means", "panel")
ADAPTATIONS = 20


def main() -> None:
    parser = options("llm_rubric", "Calibration and its baselines on LLM-RUBRIC's data.")
    names = (*PROTOCOLS, *PAPERS_PARTS)
    parser.add_argument("--protocols", "--only", help=f"run these alone, separated by commas: {', '.join(names)}")
    given = parser.parse_args()
    wanted = chosen(parser, given.protocols, ("T",) if given.quick and not given.protocols else names)
    folder = data_folder(parser, given.data)
    seeds = list(FOLD_SEEDS)[: 1 if given.quick else given.limit or 10]
    rubric, (synth, real) = asked_always(), both(folder)
    check_manifest(synth)
    rows: list[Row] = []
    for protocol, data in (("S", synth), ("R", real)):
        if protocol in wanted:
            systems = all_systems(data.question, new_domain=False)
            found = {name: cross_validated(predict, data, seeds) for name, predict in systems.items()}
            rows += fold_rows(protocol, data, found) + test_rows(protocol, data, found)
    if "T" in wanted:
        systems = all_systems(synth.question, new_domain=True)
        if not given.quick:
            systems["mixed, domain_correlation chosen on synthetic systems"] = chosen_on_synthetic(synth)
        found = {name: transferred(predict, synth, real) for name, predict in systems.items()}
        rows += fold_rows("T", real, found) + test_rows("T", real, found)
    if "T+k" in wanted:
        rows += adapted_rows(synth, real, 3 if given.quick else ADAPTATIONS)
    if "by-system" in wanted:
        tried = {f"accord, domain_correlation {trust}": [paired] for trust, paired in by_system(synth).items()}
        rows += fold_rows("by-system", synth, tried)
    rows += paper_rows(wanted, folder, rubric, synth, real, seeds, given.quick)
    figures = [row for row in rows if "against" not in row]
    tests = [row for row in rows if "against" in row]
    finish_with(given.json, rows, figures, tests)


def paper_rows(
    wanted: Sequence[str],
    folder: Path,
    rubric: Rubric,
    synth: DataSet,
    real: DataSet,
    seeds: Sequence[int],
    quick: bool,
) -> list[Row]:
    """Return the requested tables and figures of the ablations."""
    few = seeds[:1] if quick else seeds[:3]
    parts: dict[str, Callable[[], list[Row]]] = {
        "oracle": lambda: ablations.oracle(synth, rubric, few),
        "ablations": lambda: ablations.ablations(synth, rubric, few),
        "questions": lambda: ablations.questions(synth, rubric, few),
        "curve": lambda: ablations.curve(synth, real, 2 if quick else ablations.DRAWS),
        "adaptive": lambda: ablations.adaptive(synth, few),
        "diagrams": lambda: ablations.diagrams(synth),
        "means": lambda: _means(folder),
        "panel": lambda: annotators.panel(synth, rubric),
    }
    return [row for name, part in parts.items() if name in wanted for row in part()]


def _means(folder: Path) -> list[Row]:
    """Tables 4 and 5."""
    sets = {"llm_rubric_synth": "table 4", "llm_rubric_real": "table 5"}
    return [
        {**row, "protocol": table, "dataset": name}
        for name, table in sets.items()
        for row in annotators.means_of(folder / name)
    ]


def finish_with(path: Path | None, rows: Sequence[Row], figures: Sequence[Row], tests: Sequence[Row]) -> None:
    """Print the tests, then the figures, and write all rows."""
    print(table(tests, ["protocol", "system", "against", "statistic", "difference", "p", "p_holm"]), end="\n\n")
    shown = ["protocol", "system", "question", *SHOWN, "lowest_rmse", "questions_asked", "smece", "mean", "sd", "said",
             "expected"]  # fmt: skip
    print(table(figures, [name for name in shown if any(row.get(name) is not None for row in figures)]))
    write("llm_rubric", rows, path)


if __name__ == "__main__":
    main()

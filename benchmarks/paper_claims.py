"""Headline claims of the five papers: the published figures, ours on the same protocol, a test, and the verdict.

    python benchmarks/paper_claims.py [--data DIR] [--only llm-rubric,ciu] [--limit SEEDS] --json OUT

docs/papers/README.md prints the rows. A claim says that a system is better than another one, or that it reaches a
figure. Verdicts follow one rule:

reproduced           same data: the difference has p < .05 in the claimed direction, and a claimed figure is reached
not reproduced       same data: otherwise
other data, shown    the paper's data are not public; the difference has p < .05 in the claimed direction on other data
other data, not shown

Figures of LLM-RUBRIC come from `llm_rubric.py` (benchmarks/results/llm_rubric.json). `--limit` is the number of
seeds of CIU's splits and of RUBICON's pools (default 20 pools, 5 splits). `--quick` takes 2 of each.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before NumPy is imported

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from harness import ROOT, Row, chosen, data_folder, earlier_rows, finish, options, rows_of_part
from numpy.typing import NDArray
from scipy import stats

from accord.statistics import STATISTICS, Clusters, MeanStatistic, holm, paired_test
from accord_papers.adoror import published as adoror
from accord_papers.adoror.simulation import ENSEMBLE
from accord_papers.adoror.simulation import system_rows as planted_rows
from accord_papers.adoror.system_answers import table_1, wilcoxon
from accord_papers.adoror.systems import ADOROR
from accord_papers.ciu import published as ciu
from accord_papers.ciu.combinations import PUBLISHED_FORMS
from accord_papers.ciu.responses import Rated, held_out, load
from accord_papers.ciu.single_metrics import LEXICAL, RENAMED, paired, ranked, values_of
from accord_papers.llm_rubric import published as llm_rubric
from accord_papers.rubicon import published as rubicon
from accord_papers.rubicon.simulation import TEST, DrawnStudy, shared
from accord_papers.soda_eval import tables_and_figures as soda_eval
from accord_papers.soda_eval.macro_test import learned_and_recorded, macro_f1, macro_test

Floats = NDArray[np.float64]
LEVEL = 0.05
PERMUTATIONS = 5000
COLUMNS = ("paper", "claim", "value", "against", "published", "published_against", "p", "verdict")


def verdict(is_same_data: bool, p: float | None, is_ahead: bool, reached: bool = True) -> str:
    """Return the verdict on a claim by the rule of this module."""
    shown = is_ahead and p is not None and p < LEVEL and reached
    if is_same_data:
        return "reproduced" if shown else "not reproduced"
    return f"other data, {'shown' if shown else 'not shown'}"


def claim(paper: str, name: str, figures: Row, is_same_data: bool, is_lower_better: bool = False,
          reaches: float | None = None) -> Row:  # fmt: skip
    """Return a row with its verdict.

    Args:
        paper: Name of the paper.
        name: Name of the claim.
        figures: `value` with `value_low` and `value_high`, `against`, both published figures, and `p`.
        is_same_data: True for the paper's own data.
        is_lower_better: True for an error.
        reaches: Figure that the claim says is reached.
    """
    sign = -1 if is_lower_better else 1
    is_ahead = sign * (figures["value"] - figures["against"]) > 0
    reached = reaches is None or sign * (figures["value"] - reaches) >= 0
    return {"paper": paper, "claim": name, **figures, "verdict": verdict(is_same_data, figures["p"], is_ahead, reached)}


def claims_of_llm_rubric(data: Path, seeds: int) -> list[Row]:
    """Error below .5, half of the uncalibrated judge's; nine questions against the direct one."""
    content = json.loads((ROOT / "benchmarks" / "results" / "llm_rubric.json").read_text(encoding="utf-8"))
    found: list[Row] = []
    for protocol, dataset in (("S", "llm_rubric_synth"), ("T", "llm_rubric_real")):
        rows = {row["system"]: row for row in content["rows"] if row["protocol"] == protocol and "against" not in row}
        of_error = {"protocol": f"{protocol} test", "system": "accord", "statistic": "rmse"}
        tests = {row["against"]: row for row in content["rows"] if of_error.items() <= row.items()}
        printed = llm_rubric.TABLE_1[dataset]
        for name, against, reaches in (
            ("half the error", "judge-expected", 0.5),
            ("nine questions", "calibrated Q0 alone", None),
        ):
            ours = rows["accord"]
            figures = {"value": ours["rmse"], "value_low": ours["rmse_low"], "value_high": ours["rmse_high"],
                       "against": rows[against]["rmse"], "published": printed["accord"][0],
                       "published_against": printed[against][0], "p": tests[against]["p_holm"]}  # fmt: skip
            found.append({"dataset": dataset, **claim("llm-rubric", name, figures, True, True, reaches)})
    return found


def claims_of_rubicon(data: Path, seeds: int) -> list[Row]:
    """Yield of the selection against separation alone, on drawn pools with shared noise."""
    pools = [DrawnStudy(shared(np.random.default_rng(seed), TEST), seed) for seed in range(seeds)]
    ours, theirs = (
        np.array([pool.row(name)["yield_rate"] for pool in pools], dtype=float)
        for name in ("accord", "correctness alone")
    )
    printed = {name: row[1] for name, row in rubicon.TABLE_3.items()}
    figures = {**_mean(ours), "against": float(theirs.mean()), "published": printed["RUBICON"],
               "published_against": printed["separation alone"], "p": _signed(ours - theirs)}  # fmt: skip
    return [{"dataset": "drawn pools", "n": seeds, **claim("rubicon", "yield", figures, False)}]


def claims_of_soda_eval(data: Path, seeds: int) -> list[Row]:
    """Issues found after learning from labels against a recorded model's own answers, on ABC-Eval."""
    learned, recorded = learned_and_recorded(data / "abc_eval")
    asked, finetuned = soda_eval.TABLE_6
    figures = {"value": macro_f1(learned), "against": macro_f1(recorded), "published": finetuned,
               "published_against": asked, "p": macro_test(learned, recorded)}  # fmt: skip
    return [{"dataset": "abc_eval", **claim("soda-eval", "learning", figures, False)}]


def claims_of_ciu(data: Path, seeds: int) -> list[Row]:
    """CIU against each other lexical metric, and MoE-CIU against CIU on held-out responses."""
    everything = load(data / "topical_usr", (*LEXICAL, *ciu.METRICS), RENAMED)["with-document"]
    six, printed = everything.only(ciu.METRICS), ciu.STANDALONE["topical_usr"]
    found: list[Row] = []
    for place, question in enumerate(everything.questions.values()):
        people = everything.people[question]
        values = {name: values_of(everything, name, "with-document")[0] for name in six.metrics}
        others = ("bleu", "meteor", "rouge-l")
        tests = holm([_test(people, values["ciu-paper"], values[name], everything.context) for name in others])
        rho = {name: float(stats.spearmanr(values[name], people)[0]) for name in (*others, "ciu-paper")}
        best = max(others, key=rho.__getitem__)
        figures = {"value": rho["ciu-paper"], "against": rho[best], "published": printed["ciu-paper"][place],
                   "published_against": printed[best][place], "p": max(tests)}  # fmt: skip
        about = {"dataset": "topical_usr", "question": question, "best": best, "n": len(people)}
        found.append({**about, **claim("ciu", "best lexical metric", figures, True)})
        mixed, known = _mixed(six, question, seeds)
        alone = values["ciu-paper"][known]
        test = _test(people[known], mixed[known], alone, everything.context[known])
        figures = {"value": float(stats.spearmanr(mixed[known], people[known])[0]),
                   "against": float(stats.spearmanr(alone, people[known])[0]),
                   "published": ciu.UNIFIED["topical_usr"]["moe-ciu"][place],
                   "published_against": printed["ciu-paper"][place], "p": test}  # fmt: skip
        about = {"dataset": "topical_usr", "question": question, "best": "ciu-paper", "n": int(known.sum())}
        found.append({**about, **claim("ciu", "mixture", figures, True)})
    return found


def _mixed(data: Rated, question: str, seeds: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return MoE-CIU's mean prediction of each response over the seeds that hold it out at random, and a mask."""
    total, count = np.zeros(len(data.context)), np.zeros(len(data.context))
    place = {target: row for row, target in enumerate(data.evidence.targets)}
    for seed in range(seeds):
        train, test = held_out(data, "random", seed)
        rows = [place[target] for target in test.evidence.targets]
        total[rows] += PUBLISHED_FORMS["moe-ciu"](train, test, question)
        count[rows] += 1
    known = count > 0
    return np.divide(total, count, out=np.zeros(len(total)), where=known), known


def claims_of_adoror(data: Path, seeds: int) -> list[Row]:
    """ADOROR against the best prompt with random demonstrations, and against the ensemble of prompts, planted."""
    rows = [row for seed in range(min(seeds, 3)) for row in planted_rows(seed)]
    rho = {row["system"]: row for row in table_1(rows)}
    tests = {row["against"]: row for row in wilcoxon(rows)}
    found: list[Row] = []
    for name, against in (("best prompt", "Auto-P-Selected"), ("ensemble", ENSEMBLE)):
        ours = rho[ADOROR]
        printed = {system: float(np.mean([v for v in adoror.TABLE_1[system] if v is not None]))
                   for system in (ADOROR, against)}  # fmt: skip
        figures = {"value": ours["spearman"], "value_low": ours["spearman_low"], "value_high": ours["spearman_high"],
                   "against": rho[against]["spearman"], "published": printed[ADOROR],
                   "published_against": printed[against], "p": tests[against]["p"]}  # fmt: skip
        found.append({"dataset": "planted worlds", "n": ours["n"], **claim("adoror", name, figures, False)})
    return found


def _mean(values: Floats) -> Row:
    """Return the mean of independent draws with its 95% interval by t."""
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return {"value": float(values.mean()), "value_low": values.mean() - half, "value_high": values.mean() + half}


def _signed(gains: Floats) -> float:
    """Return p of Wilcoxon's signed-rank test, two-sided; 1 if nothing differs."""
    return float(stats.wilcoxon(gains).pvalue) if gains.any() else 1.0


def _test(people: Floats, one: Floats, other: Floats, context: NDArray[np.object_]) -> float:
    """Return p of the permutation test of two correlations with ratings; metrics are swapped within contexts."""
    first, second = (paired(ranked(people), ranked(each)) for each in (one, other))
    of_ranks = STATISTICS["pearson"]
    assert isinstance(of_ranks, MeanStatistic)
    test = paired_test(Clusters(context), of_ranks, [first], [second], PERMUTATIONS)
    return 1.0 if test is None else test.p


PARTS: Mapping[str, Callable[[Path, int], list[Row]]] = {
    "llm-rubric": claims_of_llm_rubric, "rubicon": claims_of_rubicon, "soda-eval": claims_of_soda_eval,
    "ciu": claims_of_ciu, "adoror": claims_of_adoror,
}  # fmt: skip
SEEDS = {"rubicon": 20, "ciu": 5, "adoror": 3, "soda-eval": 3, "llm-rubric": 1}


def main() -> None:
    parser = options("paper_claims", str(__doc__), tuple(PARTS))
    given = parser.parse_args()
    names = chosen(parser, given.only, tuple(PARTS))
    rows = earlier_rows(given.json, lambda row: row["paper"] not in names)
    for name in names:
        seeds = 2 if given.quick else given.limit or SEEDS[name]
        rows += rows_of_part(name, partial(PARTS[name], data_folder(parser, given.data), seeds))
    finish("paper_claims", sorted(rows, key=lambda row: list(PARTS).index(row["paper"])), COLUMNS, given.json)


if __name__ == "__main__":
    main()

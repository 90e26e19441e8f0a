"""Labels for an estimate of agreement: a sample stratified by the judge's scores next to random texts.

    python benchmarks/agreement_labels.py --data ../shared/data --json OUT [--only llm_rubric_synth,...] [--quick]

For each data set with a recorded judge, each question, and 20, 40 and 80 labels: texts are drawn 2,000 times at random,
and as often by `label next --for agreement`. The truth is the value on all rated texts. Rows hold the root mean squared
error around it under stratified draws, divided by that under random draws: `error` of the judge's RMSE, `correlation`
of its r, `bias` of its mean error; means over the questions, with the smallest and the largest. Below 1 the stratified
sample is better.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from harness import Row, chosen, data_folder, finish, options
from numpy.typing import NDArray

from accord.learning import stratified_targets
from accord.values import Target

SETS = ("llm_rubric_synth", "llm_rubric_real", "topical_usr", "abc_eval")
SIZES, DRAWS = (20, 40, 80), 2000
SAME = {
    "understandability": "Understandable", "naturalness": "Natural", "coherence": "Maintains Context",
    "engagingness": "Engaging", "overall": "Overall", "satisfactory": "Overall",
}  # fmt: skip
"""Names of the judges' dimensions in Topical-USR, with the question that people answered."""
FIGURES = ("error", "correlation", "bias")
Floats = NDArray[np.float64]


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a compressed file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def pairs(folder: Path) -> dict[str, tuple[Floats, Floats]]:
    """Return the judge's mean answers and people's mean ratings of the same texts, by question and judge."""
    people: dict[tuple[str, str], list[float]] = defaultdict(list)
    for item in lines(folder / "items.jsonl.gz"):
        for rating in item["ratings"]:
            if isinstance(rating["value"], int | float):
                people[item["id"], rating["question"]].append(float(rating["value"]))
    judged: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in lines(folder / "judgments.jsonl.gz"):
        question = SAME.get(row["question"], row["question"])
        if (value := expected(row)) is not None and (row["item_id"], question) in people:
            judged[question, row["judge_model"]][row["item_id"]].append(value)
    found = {}
    for (question, judge), answers in judged.items():
        score = np.array([np.mean(values) for values in answers.values()])
        truth = np.array([np.mean(people[name, question]) for name in answers])
        if len(score) >= 2 * max(SIZES) and np.ptp(score) > 0 and np.ptp(truth) > 0:
            found[f"{question}, {judge}"] = score, truth
    return found


def expected(row: dict[str, Any]) -> float | None:
    """Return the mean of a judge's distribution, or its answer; None if neither is a number."""
    shares = row.get("distribution")
    try:
        if shares:
            return float(sum(float(answer) * share for answer, share in shares.items()) / sum(shares.values()))
        return float(row["value"])
    except (TypeError, ValueError, ZeroDivisionError):
        return None


def estimates(score: Floats, truth: Floats) -> Floats:
    """Return RMSE, correlation and mean error of the judge on some texts; NaN for an undefined correlation."""
    gap = score - truth
    r = np.corrcoef(score, truth)[0, 1] if np.ptp(score) > 0 and np.ptp(truth) > 0 else np.nan
    return np.array([np.sqrt(np.mean(gap**2)), r, gap.mean()])


def ratios(score: Floats, truth: Floats, size: int, draws: int) -> Floats:
    """Return the error of stratified estimates over that of random ones, for RMSE, correlation and mean error."""
    rng, everything = np.random.default_rng(0), estimates(score, truth)
    targets = [Target(str(place)) for place in range(len(score))]

    def error(chosen_rows: Any) -> Floats:
        found = np.array([estimates(score[rows], truth[rows]) for rows in (chosen_rows(seed) for seed in range(draws))])
        return np.asarray(np.sqrt(np.nanmean((found - everything) ** 2, axis=0)))

    def stratified(seed: int) -> list[int]:
        return [int(each.conversation) for each in stratified_targets(targets, score, (), size, seed)]

    return error(stratified) / error(lambda _: rng.choice(len(score), size, replace=False))


def main() -> None:
    """Measure all sets."""
    parser = options("agreement_labels", __doc__ or "", SETS)
    arguments = parser.parse_args()
    data, draws = data_folder(parser, arguments.data), arguments.limit or (100 if arguments.quick else DRAWS)
    rows: list[Row] = []
    for name in chosen(parser, arguments.only, SETS):
        found = pairs(data / name)
        for size in SIZES:
            measured = np.array([ratios(score, truth, size, draws) for score, truth in found.values()]).reshape(-1, 3)
            row: Row = {"set": name, "labels": size, "questions": len(found)}
            for place, figure in enumerate(FIGURES):
                column = measured[:, place]
                row |= {figure: float(column.mean()), f"{figure}_low": float(column.min()),
                        f"{figure}_high": float(column.max())}  # fmt: skip
            rows.append(row)
    columns = ["set", "labels", "questions", *(f"{each}{end}" for each in FIGURES for end in ("", "_low", "_high"))]
    finish("agreement_labels", rows, columns, arguments.json)


if __name__ == "__main__":
    main()

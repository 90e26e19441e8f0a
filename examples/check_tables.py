"""Write the tables of docs/check.md into the working folder: results.csv, decisions.csv and pairs.csv.

- `results.csv`: 600 answers of two systems, judged pass or fail, with labels of two people for 80 rows.
- `decisions.csv`: 1,500 decisions of a judge with a confidence, and labels of three people for 600.
- `pairs.csv`: 200 questions, each answered by two of three versions and judged in both orders, with preferences of
  people for 120 of the 400 rows.
"""

import numpy as np
import polars as pl

WORD = np.array(["fail", "pass"])


def results() -> pl.DataFrame:
    """Return answers whose judge is too generous: it passes 35% of the bad ones."""
    rng = np.random.default_rng(7)
    truth = rng.random(600) < 0.6
    judge = np.where(truth, rng.random(600) < 0.95, rng.random(600) < 0.35)
    second = np.where(rng.random(600) < 0.1, ~truth, truth)  # people disagree on one row in ten
    return pl.DataFrame(
        {
            "id": [f"q{row}" for row in range(600)],
            "system": ["v2" if row % 2 else "v1" for row in range(600)],
            "topic": [["billing", "delivery", "other"][row % 3] for row in range(600)],
            "response_tokens": rng.integers(20, 600, 600),
            "judge": WORD[judge.astype(int)],
            "human_1": [str(WORD[int(truth[row])]) if row < 80 else None for row in range(600)],
            "human_2": [str(WORD[int(second[row])]) if row < 80 else None for row in range(600)],
        }
    )


def decisions() -> pl.DataFrame:
    """Return decisions that are wrong as often as their confidence says."""
    rng = np.random.default_rng(1)
    clear = rng.random(1500) < 0.6
    confidence = np.where(clear, 0.98 + 0.02 * rng.random(1500), 0.55 + 0.4 * rng.random(1500)).round(3)
    truth = rng.random(1500) < 0.6
    judge = np.where(rng.random(1500) < confidence, truth, ~truth)
    people = truth[:, None] ^ (rng.random((1500, 3)) < 0.04)
    table = {"id": [f"q{row}" for row in range(1500)], "topic": [["billing", "other"][row % 2] for row in range(1500)]}
    table |= {"judge": WORD[judge.astype(int)], "confidence": confidence}
    for person in range(3):
        table[f"human_{person}"] = [str(WORD[int(people[row, person])]) if row < 600 else None for row in range(1500)]
    return pl.DataFrame(table)


def pairs() -> pl.DataFrame:
    """Return pairs whose judge prefers the first response in one of five rows."""
    rng = np.random.default_rng(3)
    strength = {"v1": -0.4, "v2": 0.0, "v3": 0.4}
    rows = []
    for question in range(200):  # two versions answer each question, and the judge reads them in both orders
        one, other = rng.permutation(["v1", "v2", "v3"])[:2]
        wins = rng.random() < 1 / (1 + np.exp(strength[other] - strength[one]))
        best = one if wins else other
        for first, second in [(one, other), (other, one)]:
            judge = best if rng.random() < 0.8 else first
            tie = rng.random() < 0.1
            rows.append(
                {
                    "question_id": question,
                    "model_a": first,
                    "model_b": second,
                    "judge_winner": "tie" if tie else "model_a" if judge == first else "model_b",
                    "human_winner": "model_a" if best == first else "model_b",
                }
            )
    for row in rng.permutation(len(rows))[120:]:
        rows[row]["human_winner"] = None
    return pl.DataFrame(rows)


if __name__ == "__main__":
    results().write_csv("results.csv")
    decisions().write_csv("decisions.csv")
    pairs().write_csv("pairs.csv")

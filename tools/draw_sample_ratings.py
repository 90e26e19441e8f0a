"""Generate the sample's ratings from the written quality of each conversation and the habits of four annotators.

The sample's conversations and the numbers in `sample_quality.jsonl` were written for the demo. No person rated them:
`python tools/draw_sample_ratings.py` writes `src/accord/sample/ratings.csv` again, byte for byte.
"""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OUT = HERE.parent / "src" / "accord" / "sample" / "ratings.csv"
QUESTIONS = ["Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8", "Q0"]
NOISE = 0.45

# Bias of each annotator, and weights of other answers in the main answer.
HABITS = {
    "amira": {"level": 0.45, "leans_on": {}},
    "bruno": {"level": -0.45, "leans_on": {}},
    "chen": {"level": 0.0, "leans_on": {"Q7": 0.5, "Q6": 0.2}},
    "dilek": {"level": -0.05, "leans_on": {"Q3": 0.3, "Q4": 0.4}},
}
SKIPPED_SHARE = 0.15


def main_quality(quality: dict[str, float | None], leans_on: dict[str, float]) -> float:
    """The main answer before noise: its own quality, moved by how far the others lie from the middle."""
    base = quality["Q0"]
    assert base is not None
    return base + sum(weight * ((quality[name] or 2.5) - 2.5) for name, weight in leans_on.items())


def rate(quality: dict[str, float | None], question: str, habit: dict[str, Any], rng: random.Random) -> str:
    """One answer on the question's scale, or NA where there are no documents to judge by."""
    value = quality[question]
    if value is None:
        return "NA"
    if question == "Q0":
        value = main_quality(quality, habit["leans_on"])
    highest = 3 if question == "Q8" else 4
    level = 0.0 if question == "Q8" else habit["level"]
    return str(max(1, min(highest, round(value + level + rng.gauss(0, NOISE)))))


def main(seed: int = 20, out: Path = OUT) -> None:
    """Write the ratings: one row a person and conversation, a column a question."""
    rng = random.Random(seed)
    qualities = [json.loads(line) for line in (HERE / "sample_quality.jsonl").read_text(encoding="utf-8").splitlines()]
    with out.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["conversation", "annotator", *QUESTIONS])
        for quality in qualities:
            for name, habit in HABITS.items():
                if rng.random() >= SKIPPED_SHARE:
                    answers = [rate(quality, question, habit, rng) for question in QUESTIONS]
                    writer.writerow([quality["id"], name, *answers])


if __name__ == "__main__":
    main()

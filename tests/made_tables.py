"""Tables with a judge and people under many names and in many forms, for tests and benchmarks of column roles."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

Rows = list[dict[str, Any]]

JUDGES = (
    "judge",
    "judge_score",
    "llm_judge",
    "gpt-4o",
    "claude-3-opus_rating",
    "predicted",
    "model_score",
    "autorater",
)
PEOPLE = ("human", "human_score", "expert", "annotator_label", "gold_label", "reviewer_rating", "user_rating", "teacher",
          "label", "rating", "Prüfer", "manual_grade")  # fmt: skip
PERSONS = (("nora", "sam"), ("Anna (1-5)", "Ben (1-5)"), ("human_1", "human_2"), ("rater_a", "rater_b", "rater_c"),
           ("nora", "sam", "ann"), ("expert_1", "expert_2"))  # fmt: skip
BARE = ("score", "verdict", "grade", "rating")
OTHERS = ("topic", "latency_ms", "whodunit", "user_type", "tokens", "app_version", "comment", "session_length")


@dataclass(frozen=True)
class MadeTable:
    """A table with the columns that hold a judge's answers and those of people, as their names say.

    Attributes:
        rows: The rows.
        has_text: True if the rows hold the text of an exchange.
        form: Form of the table.
    """

    rows: Rows
    has_text: bool
    form: str

    @property
    def conversations(self) -> Rows:
        """A conversation for each id, for tables without texts."""
        ids = dict.fromkeys(row["conversation_id"] for row in self.rows)
        return [{"id": each, "prompt": f"What is {each}?", "response": f"It is {each} of many."} for each in ids]


def made_table(seed: int, size: int = 24) -> MadeTable:
    """Return a table of a random form, with random names and random values on a scale of 5 or 2 values."""
    draw = random.Random(seed)
    form = draw.choice(
        ("one person", "persons", "long", "runs", "bare and people", "bare alone", "names of judges", "models")
    )
    has_text, words = draw.random() < 0.5, draw.random() < 0.3
    truth = [draw.randint(1, 5) for _ in range(size)]

    def value(place: int) -> Any:
        number = min(5, max(1, truth[place] + draw.choice((-1, 0, 0, 1))))
        return ("fail", "pass")[number > 2] if words else number

    judge, person = draw.choice(JUDGES), draw.choice(PEOPLE)
    persons, bare = draw.choice(PERSONS), draw.choice(BARE)
    if words:
        persons = persons if "(" not in persons[0] else ("nora", "sam")
    rows: Rows = []
    for place in range(size):
        row: dict[str, Any] = {"conversation_id": f"c{place}"}
        if has_text:
            row |= {"prompt": f"What is item {place}?", "response": f"It is item {place} of many things here."}
        others = {"topic": draw.choice(("billing", "delivery", "other")), "latency_ms": draw.randint(90, 900),
                  "whodunit": draw.choice(("kim", "lee", "max")), "user_type": draw.choice(("new", "old")),
                  "tokens": draw.randint(20, 400), "app_version": draw.choice(("1.0", "1.1")), "comment": "fine",
                  "session_length": draw.randint(1, 50)}  # fmt: skip
        row |= {name: others[name] for name in OTHERS[seed % 3 :: 3]}
        if form == "one person":
            rows.append(row | {judge: value(place), person: value(place)})
        elif form == "persons":
            rows.append(row | {judge: value(place)} | {name: value(place) for name in persons})
        elif form == "runs":
            rows.append(row | {"judge_1": value(place), "judge_2": value(place), "human": value(place)})
        elif form == "bare and people":
            rows.append(row | {bare: value(place), "expert": value(place)})
        elif form == "bare alone":
            rows.append(row | {bare: value(place)})
        elif form == "names of judges":
            rows.append(row | {"evaluator": "gpt-4o", "score": value(place), "human": value(place)})
        else:
            names = ("nora", "gpt-4o") if form == "models" else ("nora", "sam")
            of_judge = {} if form == "models" else {"judge_score": value(place)}
            rows += [row | {"annotator": name, "rating": value(place)} | of_judge for name in names]
    return MadeTable(rows, has_text, form)

"""Weeks of conversations by two assistant versions, with people's ratings of the first one and a fall in the third.

Good replies cite a document and give steps; bad ones are short and evasive. People rate how good a reply is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

PLACES = ("the mobile app", "the web page", "the shop", "the box", "the letter")
GOOD = (
    "Open Settings and choose your order first.", "Then print the prepaid label and put it on the parcel.",
    "You can return it within 45 days of delivery.", "The refund arrives within five working days.",
    "If it does not, reply here and I will check it with the warehouse.", "I have noted your order number.",
)  # fmt: skip
BAD = ("I cannot say.", "Please look it up.", "That depends.", "Sorry about that.", "Maybe later.")
RUBRIC = """name: month
questions:
  - {id: overall, text: "How good is the reply?", options: {1: bad, 2: weak, 3: fair, 4: good, 5: very good}}
main: overall
"""


def week(
    number: int, mean: float, count: int = 120, seed: int = 0, topics: bool = False
) -> tuple[list[dict[str, Any]], list[float]]:
    """Return the conversations of a week and the quality of each reply; with topics, the fall is in refunds alone."""
    rng = np.random.default_rng([seed, number])
    chats, qualities = [], []
    for place in range(count):
        version, topic = rng.choice(["bot-1", "bot-2"]), str(rng.choice(["orders", "refunds"]))
        quality = (3.3 if topics and topic == "orders" else mean) + 0.2 * (version == "bot-2") + rng.normal(0, 0.9)
        said = int(np.clip(round(quality + rng.normal(0, 0.9)), 1, 5))
        replies = [*rng.permutation(GOOD)[:said], *rng.permutation(BAD)[: 5 - said]]
        question = f"How do I send back what I found in {rng.choice(PLACES)}, order {number}{place:04}?"
        chats.append({
            "id": f"w{number}-{place}", "system": str(version), "topic": topic,
            "language": str(rng.choice(["en", "de"])),
            "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": " ".join(replies)}],
        })  # fmt: skip
        qualities.append(float(quality))
    return chats, qualities


def ratings(
    chats: list[dict[str, Any]], qualities: list[float], people: int = 2, seed: int = 0
) -> list[dict[str, Any]]:
    """Return ratings of conversations by some of three people."""
    rng, found = np.random.default_rng([seed, 99]), []
    leniency = dict(zip(("ann", "bob", "cat"), rng.normal(0, 0.3, 3), strict=True))
    for chat, quality in zip(chats, qualities, strict=True):
        for name in rng.permutation(list(leniency))[:people]:
            value = int(np.clip(round(quality + leniency[str(name)] + rng.normal(0, 0.6)), 1, 5))
            found.append({"conversation": chat["id"], "annotator": str(name), "question": "overall", "value": value})
    return found


def write_month(folder: Path, means: tuple[float, ...], count: int = 120, seed: int = 0, topics: bool = False) -> None:
    """Write `week0.jsonl`, ... with `ratings.csv` of the first, and a rubric and a project file."""
    for number, mean in enumerate(means):
        chats, qualities = week(number, mean, count, seed, topics and mean != means[0])
        (folder / f"week{number}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in chats), "utf-8")
        if number == 0:
            rows = ratings(chats, qualities, seed=seed)
            lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
            (folder / "ratings.csv").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "rubric.yaml").write_text(RUBRIC, "utf-8")
    (folder / "accord.yaml").write_text("rubric: rubric.yaml\nmetrics: [lexical]\nevaluator: plain\n"
                                        "evaluators: {plain: {head: ridge}}\n", "utf-8")  # fmt: skip

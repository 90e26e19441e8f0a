"""Train, validation and test by whole dialogues, with a similar distribution of scores and issues (SODA-EVAL, 5.2).

Greedy stratification as of Sechidis et al., 2011, with dialogues as what is dealt out: those with the rarest labels
first, each to the part where it lessens the distance to the wanted counts the most.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.errors import BadInput
from accord.finetune.examples import Example

SHARES = (0.7, 0.2, 0.1)
NO_ISSUE = "none"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Parts:
    """Examples to learn from, to choose by, and to test on; no dialogue is in two of them."""

    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]

    def counts(self) -> list[dict[str, Any]]:
        """What each part has, a row each: dialogues, turns, turns a score, turns a kind of issue."""
        named = {"train": self.train, "validation": self.validation, "test": self.test}
        return [{"part": name, **counts_of(examples)} for name, examples in named.items()]


def counts_of(examples: Sequence[Example]) -> dict[str, Any]:
    """How many dialogues and turns there are, and how many turns of each score and kind of issue."""
    scores = Counter(example.score for example in examples)
    types = Counter(name for example in examples for name in example.types or {NO_ISSUE})
    return {
        "dialogues": len({example.target.conversation for example in examples}),
        "turns": len(examples),
        "scores": {str(score): scores[score] for score in sorted(scores)},
        "types": {name: types[name] for name in sorted(types)},
    }


def split_by_dialogue(examples: Sequence[Example], shares: tuple[float, float, float] = SHARES, seed: int = 0) -> Parts:
    """Deal out whole dialogues to three parts; the same for equal arguments, whatever the order of the examples.

    Args:
        examples: What is dealt out; in each part they keep their order.
        shares: Of the turns, for training, validation and test; each above 0, 1 in all.
        seed: Which of equally suited dialogues goes where.

    Raises:
        BadInput: The shares are no shares, or there are fewer than three dialogues.
    """
    if len(shares) != 3 or min(shares) <= 0 or not math.isclose(sum(shares), 1, abs_tol=1e-6):
        raise BadInput(f"shares are three numbers above 0 that add up to 1, got {shares}")
    names = sorted({example.target.conversation for example in examples})
    if len(names) < len(shares):
        raise BadInput(f"{len(names)} assessed dialogues cannot make {len(shares)} parts; assess more")
    random.Random(seed).shuffle(names)
    part = dict(zip(names, _dealt(_labels(examples, names), np.array(shares)), strict=True))
    train, validation, test = (
        tuple(example for example in examples if part[example.target.conversation] == place) for place in range(3)
    )
    return Parts(train, validation, test)


def _labels(examples: Sequence[Example], names: Sequence[str]) -> Floats:
    """(dialogues, labels) how many turns of each dialogue have each label: any, each score, each kind of issue."""
    of_example: list[list[Hashable]] = [["turn", example.score, *(example.types or {NO_ISSUE})] for example in examples]
    place = {label: n for n, label in enumerate(sorted({one for own in of_example for one in own}, key=str))}
    row = {name: n for n, name in enumerate(names)}
    counts = np.zeros((len(names), len(place)))
    for example, own in zip(examples, of_example, strict=True):
        for label in own:
            counts[row[example.target.conversation], place[label]] += 1
    return counts


def _dealt(counts: Floats, shares: Floats) -> list[int]:
    """(dialogues) the part of each, where Σ (have - wanted)² / (wanted · total) over parts and labels grows least."""
    total = counts.sum(axis=0)
    wanted = shares[:, None] * total
    have = np.zeros_like(wanted)
    rarest_first = np.argsort(-(counts / total).max(axis=1), kind="stable")
    part = np.zeros(len(counts), dtype=int)
    sizes = np.zeros(len(shares), dtype=int)
    for done, dialogue in enumerate(rarest_first):
        own = counts[dialogue]
        growth = ((2 * (have - wanted) * own + own**2) / (wanted * total)).sum(axis=1)
        if len(counts) - done <= (sizes == 0).sum():
            growth[sizes > 0] = np.inf  # every part gets at least one dialogue
        part[dialogue] = chosen = int(growth.argmin())
        have[chosen] += own
        sizes[chosen] += 1
    return part.tolist()

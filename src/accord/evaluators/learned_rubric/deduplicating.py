"""Semantic de-duplication (RUBICON, section 3.2.2): of assertions that say the same, the first stays."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.evaluators.learned_rubric.guidance import Guidance
from accord.evaluators.learned_rubric.summarising import Assertion
from accord.llm.flow import Flow
from accord.llm.listed import Form, ask_for_list
from accord.llm.model import Failure
from accord.llm.render import fence_for

SHOWN = 60
"""New assertions a prompt, beside all that were kept so far."""
ALIKE = 0.85
"""Cosine of two assertions' embeddings from which on they say the same."""
_PAIR = re.compile(r"^\D{0,20}?(\d{1,4})\D{1,40}?(\d{1,4})\D{0,20}$")
_FORM = Form(
    "repeats",
    {"number": "the number of an assertion", "number_of_earlier": "the number of the one it repeats"},
    SHOWN,
    "the number of an assertion, an equals sign, the number of the one it repeats; or the word none.",
    20,
    12,
)


@dataclass
class Distinct:
    """The assertions that stay, how many repeated one of them, and which prompts came to nothing."""

    assertions: list[Assertion] = field(default_factory=list)
    repeated: int = 0
    failures: list[Failure] = field(default_factory=list)


def deduplicate(assertions: Sequence[Assertion], guidance: Guidance) -> Flow[Distinct]:
    """Assertions of one class without those that a model finds to repeat an earlier one; their reasons move to it.

    Where a prompt fails, its assertions stay, and the failure is told.
    """
    found = Distinct()
    for start in range(0, len(assertions), SHOWN):
        new = assertions[start : start + SHOWN]
        together = [*found.assertions, *new]
        if len(together) < 2:
            found.assertions = together
            continue
        shown = "\n".join(f"{place}. {each.text}" for place, each in enumerate(together, 1))
        parts = {"written": shown, "fence": fence_for(shown)}
        entries = yield from ask_for_list(guidance.prompt("deduplicate", _FORM, parts=parts), _FORM)
        if isinstance(entries, Failure):
            found.failures.append(entries)
        repeats = {} if isinstance(entries, Failure) else _repeats(entries, len(found.assertions), len(together))
        found.assertions = _merged(together, repeats)
        found.repeated += len(repeats)
    return found


def deduplicate_by_cosine(
    assertions: Sequence[Assertion], vectors: NDArray[np.floating], alike: float = ALIKE
) -> Distinct:
    """The same without a model: what has a cosine of at least `alike` with an earlier one that stays repeats it.

    Args:
        assertions: n of one class.
        vectors: (n, d) their embeddings, of length 1.
        alike: Between 0 and 1.
    """
    repeats: dict[int, int] = {}
    kept: list[int] = []
    for place in range(len(assertions)):
        cosines = vectors[kept] @ vectors[place] if kept else np.zeros(0)
        if len(cosines) and cosines.max() >= alike:
            repeats[place] = kept[int(cosines.argmax())]
        else:
            kept.append(place)
    return Distinct(_merged(assertions, repeats), len(repeats))


def _repeats(entries: Sequence[dict[str, Any]], kept: int, count: int) -> dict[int, int]:
    """Places of repetitions with the place of what each repeats; what was kept before is none."""
    found: dict[int, int] = {}
    for entry in entries:
        number, earlier = entry.get("number"), entry.get("number_of_earlier")
        if isinstance(number, str) and (pair := _PAIR.match(number)):
            number, earlier = int(pair[1]), int(pair[2])
        if isinstance(number, int) and isinstance(earlier, int) and 1 <= earlier < number <= count and number > kept:
            found.setdefault(number - 1, earlier - 1)
    return found


def _merged(assertions: Sequence[Assertion], repeats: dict[int, int]) -> list[Assertion]:
    """The assertions that repeat none, with the reasons of those that repeat them."""
    merged = list(assertions)
    for place in sorted(repeats, reverse=True):
        first = merged[repeats[place]]
        reasons = tuple(dict.fromkeys([*first.reasons, *merged[place].reasons]))
        merged[repeats[place]] = replace(first, reasons=reasons)
    return [each for place, each in enumerate(merged) if place not in repeats]

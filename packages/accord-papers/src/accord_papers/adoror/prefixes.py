"""Share of the requests of one study that a prefix cache saves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accord.methods.in_context.selectors import pair_draws
from accord.methods.in_context.template import (
    SEPARATOR,
    PromptTemplate,
    RatedExamples,
    contexts_of,
)
from accord_papers.study import Row

PROMPTS, K, EACH = 4, 5, 4


def prefix_rows(found: RatedExamples, seed: int = 0) -> list[Row]:
    """Return the share of the text of algorithm 1's requests that repeats the request before, by layout and order."""
    wording, groups = PromptTemplate(found.question, found.level), contexts_of(found.all)
    rows: list[Row] = []
    for together in (4, 1):
        query, nodes = pair_draws(np.random.default_rng(seed), groups, PROMPTS, K, EACH, together)
        drawn = list(zip(query.tolist(), nodes.demonstrations.tolist(), nodes.prompt.tolist(), strict=True))
        texts = [_text(wording, found, *each) for each in drawn]
        last = [_text(wording, found, *each, input_last=False) for each in drawn]
        for layout, requests in (
            ("shared first, in order", sorted(texts)),
            ("shared first, by input", [text for _, text in sorted(zip(query.tolist(), texts, strict=True))]),
            ("input first, in order", sorted(last)),
        ):
            about = {"what": "prefix", "together": together, "layout": layout, "requests": len(requests)}
            rows.append({**about, "characters": sum(map(len, requests)), "shared": _shared(requests)})
    return rows


def _text(
    wording: PromptTemplate, found: RatedExamples, row: int, shown: Sequence[int], task: int, input_last: bool = True
) -> str:
    made = wording.prompt(
        [found.all[place] for place in shown], f"Prompt {task}. {wording.by_hand()}", found.all[row].sample
    )
    assert made is not None
    parts = made[0].messages[0].content.split(SEPARATOR)
    return SEPARATOR.join(parts if input_last else [parts[-1], *parts[:-1]])


def _shared(texts: Sequence[str]) -> float:
    repeated = sum(common(before, text) for before, text in zip(texts, texts[1:], strict=False))
    return repeated / sum(map(len, texts))


def common(one: str, other: str) -> int:
    """The length of the longest common beginning of two texts."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low

"""Okapi BM25 (Robertson & Zaragoza, 2009) over stems: how well each text of a collection answers another text."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np

from accord.evaluators.in_context.nodes import Floats
from accord.evidence.bank.words import counted_stems, pieces

K1, B = 1.5, 0.75


class Bm25:
    """n texts, ready to be compared with others."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [counted_stems(pieces(text)) for text in texts]
        length = np.array([sum(count.values()) for count in counts], dtype=float)
        self._long = K1 * (1 - B + B * length / (length.mean() or 1.0)) if texts else length
        self._found: dict[str, list[tuple[int, int]]] = {}
        for place, count in enumerate(counts):
            for stem, times in count.items():
                self._found.setdefault(stem, []).append((place, times))

    def scores(self, text: str) -> Floats:
        """(n,) Σ over the stems of `text` of log(1 + (n - df + ½)/(df + ½)) · tf·(k₁ + 1)/(tf + k₁·(1 - b + b·l/l̄)).

        tf is how often a text has the stem, df how many texts have it, l/l̄ a text's length in stems over the mean.
        """
        total = np.zeros(len(self._long))
        for stem, times in counted_stems(pieces(text)).items():
            if stem in self._found:
                places, tf = np.array(self._found[stem]).T
                rarity = log(1 + (len(total) - len(places) + 0.5) / (len(places) + 0.5))
                total[places] += times * rarity * tf * (K1 + 1) / (tf + self._long[places])
        return total

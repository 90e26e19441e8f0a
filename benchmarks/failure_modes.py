"""Failure modes from comments: groups found without a model, compared with planted ones in three languages.

    python benchmarks/failure_modes.py [--only PART] [--quick] --json OUT

The comments are planted (`tests/planted_comments.py`): six failure modes of unequal frequency, written in eight main
phrases and six reasons each, without a word that all phrases of a mode share; openings, topics and typing errors are
shared, and every tenth comment is about nothing in particular. `ari` is the adjusted Rand index over the comments with
a mode (a comment in no group is a group of its own), `ari_all` over all comments. Means over the seeds; `ari_low` is
the lowest one. The number of neighbors and the resolution were chosen with English and German; Spanish was not used.

accord              `group_texts`: links of the most similar comments, cut by spectral clustering
k-means             k-means of TF-IDF of words, with the true number of modes
agglomerative       average linkage of the cosine of TF-IDF of words, with the true number of modes
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
from harness import Row, chosen, finish, options
from numpy.typing import NDArray
from planted_comments import LANGUAGES, MODES, NONE, planted_comments
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from accord.project.comment_groups import group_texts

PARTS = tuple(LANGUAGES)
SIZES = (150, 300, 600)
SEEDS = 10
COLUMNS = ("language", "comments", "system", "seeds", "ari", "ari_low", "ari_all", "groups", "seconds")
Groups = NDArray[np.intp]


def main() -> None:
    parser = options("failure_modes", str(__doc__), PARTS)
    given = parser.parse_args()
    seeds = given.limit or (1 if given.quick else SEEDS)
    sizes = SIZES[:1] if given.quick else SIZES
    rows: list[Row] = []
    for language in chosen(parser, given.only, PARTS):
        for count in sizes:
            rows += measured(language, count, seeds)
    finish("failure_modes", rows, COLUMNS, given.json)


def measured(language: str, count: int, seeds: int) -> list[Row]:
    """Return a row per system for comments of a language."""
    figures: dict[str, list[Mapping[str, float]]] = {}
    for seed in range(seeds):
        comments = planted_comments(language, count, seed)
        texts, modes = [each.text for each in comments], [each.mode for each in comments]
        for system, group in (("accord", accord), ("k-means", k_means), ("agglomerative", agglomerative)):
            begun = time.process_time()
            with threadpool_limits(1):
                found = group(texts)
            seconds = time.process_time() - begun
            figures.setdefault(system, []).append({**_figures(modes, found), "seconds": seconds})
    return [
        {"language": language, "comments": count, "system": system, "seeds": seeds,
         "ari_low": min(each["ari"] for each in rows),
         **{name: float(np.mean([each[name] for each in rows])) for name in rows[0]}}
        for system, rows in figures.items()
    ]  # fmt: skip


def _figures(modes: Sequence[str], found: Groups) -> dict[str, float]:
    single = np.where(found < 0, -1 - np.arange(len(found)), found)
    has_mode = [place for place, mode in enumerate(modes) if mode != NONE]
    own = adjusted_rand_score([modes[place] for place in has_mode], single[has_mode])
    return {"ari": own, "ari_all": adjusted_rand_score(modes, found), "groups": float(len(set(found[found >= 0])))}


def accord(texts: Sequence[str]) -> Groups:
    found = np.full(len(texts), -1, dtype=np.intp)
    for number, places in enumerate(group_texts(texts)):
        found[places] = number
    return found


def _vectors(texts: Sequence[str]) -> NDArray[np.float64]:
    vectors = TfidfVectorizer(sublinear_tf=True).fit_transform(texts)
    return np.asarray(vectors.todense(), dtype=float)


def k_means(texts: Sequence[str]) -> Groups:
    return np.asarray(KMeans(len(MODES), n_init=10, random_state=0).fit_predict(_vectors(texts)), dtype=np.intp)


def agglomerative(texts: Sequence[str]) -> Groups:
    vectors = _vectors(texts) + 1e-9  # the cosine of an empty vector is undefined
    model = AgglomerativeClustering(len(MODES), metric="cosine", linkage="average")
    return np.asarray(model.fit_predict(vectors), dtype=np.intp)


if __name__ == "__main__":
    main()

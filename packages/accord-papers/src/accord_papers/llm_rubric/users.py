"""Footnote 26 on drawn users: thumbs of users and ratings of annotators, and down-sampled texts.

No public data have thumbs. Users are drawn: each sees some synthetic dialogues, and gives a thumb with a probability
that rises with the mean rating of the dialogue and with a habit of the user's own. Most answers are "no thumb". In the
rows with down-sampling, most of these are left out for the dialogues of two chat systems.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from accord.learning import Calibration
from accord.statistics import Paired, grouped_folds
from accord.values import Label, Labels, Target
from accord_papers.llm_rubric.protocols import DataSet, Predict, fold_rows, learned, nothing
from accord_papers.study import Row

THUMB = "thumb"
USERS, SEEN = 60, 12
"""Number of users, and of the dialogues of each user."""
KEPT = 0.2
"""Share of the answers "no thumb" that down-sampling keeps."""
HABIT, QUALITY, MIDDLE = 1.5, 1.2, -1.5
"""Spread of the users' habits, effect of a dialogue's quality, and the mean, as logits of a thumb."""
FOLDS = 3


def thumbs(data: DataSet, seed: int) -> list[Label]:
    """Return the drawn answers of all users: 1 for a thumb, 0 for none."""
    rng, targets = np.random.default_rng([seed, 26]), list(dict.fromkeys(data.rated.target))
    rated: dict[Target, list[float]] = {}
    for target, value in zip(data.rated.target, data.rated.value, strict=True):
        rated.setdefault(target, []).append(float(value))
    quality = np.array([np.mean(rated[target]) for target in targets])
    quality = (quality - quality.mean()) / quality.std()
    found = []
    for user in range(USERS):
        habit = rng.normal(scale=HABIT)
        for place in rng.permutation(len(targets))[:SEEN]:
            chance = 1 / (1 + np.exp(-(MIDDLE + habit + QUALITY * quality[place])))
            found.append(Label(targets[place], THUMB, f"user{user}", int(rng.random() < chance)))
    return found


def thinned(labels: list[Label], texts: frozenset[Target], seed: int) -> list[Label]:
    """Return the answers without most of the "no thumb" about some texts."""
    rng = np.random.default_rng([seed, 27])
    return [each for each in labels if each.value or each.target not in texts or rng.random() < KEPT]


def user_rows(data: DataSet, seeds: int) -> list[Row]:
    """Return the held-out error of the ratings by each network, over three folds and some draws of the users.

    Args:
        data: The synthetic dialogues.
        seeds: Number of draws.
    """
    from accord_papers.variants.users import with_flag

    found: dict[str, list[Paired]] = {}
    for seed in range(seeds):
        given = thumbs(data, seed)
        systems = sorted(set(data.system_of.values()), key=str)[:2]
        texts = frozenset(t for t in data.evidence.targets if data.system_of[t.conversation] in systems)
        few, flagged = thinned(given, texts, seed), replace(data, evidence=with_flag(data.evidence, texts))
        made: Mapping[str, tuple[DataSet, str]] = {
            "without thumbs": (data, "network"),
            "thumbs, users without weights": (_with(data, given), "network"),
            "thumbs, V of users": (_with(data, given), "users"),
            "down-sampled, V of users": (_with(data, few), "users"),
            "down-sampled, V of users, with the flag": (_with(flagged, few), "users"),
        }
        for name, (part, model) in made.items():
            head = partial(Calibration, data.question, model, network={"like": "paper"}, shift_groups=())
            found.setdefault(name, []).append(_held_out(learned(head), part, seed))
    return fold_rows("users", data, found)


def _with(data: DataSet, labels: list[Label]) -> DataSet:
    return replace(data, labels=Labels([*data.labels, *labels], data.labels.groups))


def _held_out(predict: Predict, data: DataSet, seed: int) -> Paired:
    """Predict every rating without its group."""
    rated = data.rated
    value, shares = np.zeros(len(rated)), nothing(rated)
    for split in grouped_folds(list(rated.group), FOLDS, seed):
        rows = np.flatnonzero([name in split.test for name in rated.group])
        test = data.evidence.take(rated.row[rows]), list(rated.annotator[rows])
        made = predict(*data.of_groups(split.train), *test)
        value[rows], shares[rows] = made.value, made.shares
    return Paired(rated.options, rated.answer, shares, value)

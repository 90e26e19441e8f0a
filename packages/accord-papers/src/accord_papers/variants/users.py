"""Users and annotators (LLM-RUBRIC, footnote 26): a last layer of their own, and no other weights.

A user answers questions such as a thumb, and never the main question. In the network of this module W_kᵃ = 0 for a
user a, and V_iᵃ is learned: one padded block of rows per user in the arrays of the compiled program. An ordinary
network has no own weights for users at all, so that their habits are learned as if they were properties of the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

import jax
import numpy as np

from accord.evidence import Column, EvidenceTable, Ratings
from accord.learning.answer_models.contract import AnswerModel, Floats
from accord.learning.answer_models.network.answers import NetworkAnswers, TrainingRun, sheets_beyond
from accord.learning.answer_models.network.formula import Array, NetworkShape, Parameters, main_alone
from accord.learning.answer_models.network.training import (
    HALF_THE_EFFORT,
    Schedule,
    Settings,
    Sheets,
    Tables,
    TrainingJob,
    initial,
    on_main,
    phase,
    schedules,
    settings,
    tables,
)
from accord.values import Labels, Target

LAST = ("V", "cuts")
"""Layers in which users have weights of their own."""


@dataclass(frozen=True)
class UserShape(NetworkShape):
    """Dimensions of a network with users.

    Attributes:
        users: U; their blocks of rows come after the annotators'.
    """

    users: int = 0


class UserNetworkAnswers(NetworkAnswers):
    """LLM-RUBRIC's network, in which raters without a main rating are users with a last layer of their own.

    The users' weights are dropped after training: the main question, which they never answer, does not need them.
    """

    name = "users"

    def cross_predict(
        self, make: Callable[[], AnswerModel], features: EvidenceTable, rated: Ratings, labels: Labels
    ) -> tuple[Floats, Floats]:
        """Return held-out distributions; also note the user of each sheet without a main rating."""
        known = set(rated.annotator.astype(str))
        beyond = sheets_beyond(features, rated, labels) if self.settings.pretrain else []
        names = [str(name) for _, name in beyond]
        users = sorted(set(names) - known)
        place = {name: number for number, name in enumerate(users)}
        self.user_of_ = np.array([place.get(name, -1) for name in names], dtype=np.intp)
        self.users_ = len(users)
        return super().cross_predict(make, features, rated, labels)

    def _networks(self, sheets: Sheets, runs: Sequence[TrainingRun]) -> list[Parameters]:  # as in `NetworkAnswers`
        if not self.users_:
            return super()._networks(sheets, runs)
        rated = len(sheets.annotator) - len(self.user_of_)
        own = self.shape_.annotators + self.user_of_
        blocks = np.append(sheets.annotator[:rated], np.where(self.user_of_ < 0, sheets.annotator[rated:], own))
        shape = UserShape(**{each.name: getattr(self.shape_, each.name) for each in fields(NetworkShape)},
                          users=self.users_)  # fmt: skip
        return train(shape, replace(sheets, annotator=blocks), self._terms(), self._jobs(runs))


def train(shape: UserShape, sheets: Sheets, terms: Schedule, jobs: Sequence[TrainingJob]) -> list[Parameters]:
    """Train one network per job, and return the networks of the main question without the users' weights."""
    count = shape.annotators + shape.users
    steps, last = (schedules(sheets.annotator, count, some, terms) for some in (jobs, on_main(sheets, jobs)))
    arrays, each = tables(sheets, shape.widest), settings(jobs)
    found = []
    for place in range(len(jobs)):
        job = {name: of[place] for name, of in each.items()}
        given = steps[min(place, len(steps) - 1)], last[min(place, len(last) - 1)]
        network: Parameters = jax.tree.map(np.asarray, _train(shape, terms, arrays, *given, job))
        found.append({name: {**parts, "own": parts["own"][: shape.annotators]} for name, parts in network.items()})
    return found


def begun(shape: UserShape, key: Array) -> Parameters:
    """Return initial weights; the last layer has a block of own weights for each user as well, at 0."""
    drawn = initial(shape, key)
    wider = initial(replace(shape, annotators=shape.annotators + shape.users), key)
    return {name: {**parts, "own": wider[name]["own"]} if name in LAST else parts for name, parts in drawn.items()}


@partial(jax.jit, static_argnums=(0, 1), compiler_options=HALF_THE_EFFORT)
def _train(shape: UserShape, terms: Schedule, sheets: Tables, steps: Array, last: Array, job: Settings) -> Parameters:
    key = jax.random.key(job["seed"])
    learned, _ = phase(shape, terms, sheets, steps, job, key, begun(shape, key), terms.pretrain, shared=terms.shared)
    main, own = main_alone(shape, learned)
    return phase(main, terms, sheets, last, job, key, own, terms.finetune)[0]


DOWNSAMPLED = "downsampled"


def with_flag(evidence: EvidenceTable, thinned: frozenset[Target]) -> EvidenceTable:
    """Return the evidence with a column that is 1 for texts of which uninformative answers were left out.

    Leaving out most answers such as "no click" shifts the share of each answer, so that the network has to know which
    texts were down-sampled (footnote 26).

    Args:
        evidence: Evidence about the texts.
        thinned: Texts whose answers were down-sampled.
    """
    flag = np.array([[float(target in thinned)] for target in evidence.targets])
    columns = (*evidence.columns, Column(DOWNSAMPLED, DOWNSAMPLED))
    values, present = (
        np.hstack([evidence.values, flag]),
        np.hstack([evidence.present, np.ones_like(flag, dtype=bool)]),
    )
    return replace(evidence, columns=columns, values=values, present=present)

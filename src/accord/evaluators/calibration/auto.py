"""Which core to believe: the one that predicts the training side's own folds better, by log loss."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from accord.evaluators.calibration.core import Core
from accord.evaluators.calibration.network_core import NetworkCore
from accord.evaluators.ratings import Ratings
from accord.evidence.table import EvidenceTable
from accord.labels import Labels
from accord.splits import INNER_FOLDS, grouped_folds

Floats = NDArray[np.float64]
Losses = dict[str, float | str]

FEWEST_FOR_NETWORK = 200
"""With fewer labels the network is not tried: it has never been the better one there."""


def better_core(
    make: Callable[[str], Core], evidence: EvidenceTable, rated: Ratings, labels: Labels
) -> tuple[Core, Floats, Losses]:
    """The core with the lower log loss on inner folds, fitted on everything.

    Returns:
        The core, each rating's distribution as predicted without its text, and the losses that decided, or why the
        network was not tried.
    """
    mixed, network = make("mixed"), make("network")
    assert isinstance(network, NetworkCore)
    reason = _why_not(rated)
    if reason is not None:
        return mixed, mixed.learn(mixed.shown(evidence), rated, labels), {"network": f"not tried: {reason}"}
    without = network.try_out(network.shown(evidence), rated, labels)
    of_mixed = rated.log_loss(_across_folds(make, evidence, rated, labels))
    of_network = rated.log_loss(without)
    losses: Losses = {"mixed": of_mixed, "network": of_network}
    if of_network < of_mixed:
        network.finish()
        return network, without, losses
    return mixed, mixed.learn(mixed.shown(evidence), rated, labels), losses


def _across_folds(make: Callable[[str], Core], evidence: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
    """(n, K) each rating predicted by a mixed core that did not see its conversation."""
    shares = np.zeros((len(rated), len(rated.options)))
    for split in grouped_folds(list(rated.conversation), INNER_FOLDS):
        core, tested = make("mixed"), np.array([name in split.test for name in rated.conversation])
        features, rows = core.shown(evidence), np.flatnonzero(tested)
        core.learn(features, rated.take(np.flatnonzero(~tested)), labels)
        shares[rows] = core.distributions(features.take(rated.row[rows]), list(rated.annotator[rows]))
    return shares


def _why_not(rated: Ratings) -> str | None:
    """Why the network is not tried on these ratings; `None` where it is."""
    conversations = len(set(rated.conversation))
    if len(rated) < FEWEST_FOR_NETWORK:
        return f"{len(rated)} labels, it is tried from {FEWEST_FOR_NETWORK}"
    if conversations < INNER_FOLDS:
        return f"{conversations} conversations cannot make {INNER_FOLDS} folds"
    return None if find_spec("jax") and find_spec("optax") else "accord[networks] is not installed"

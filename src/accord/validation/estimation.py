"""How good a system is on average, from few labels and many scores (prediction-powered inference).

    θ = λ·mean(f over the others) + mean(y - λ·f over the labelled)

The scores f carry most of the information, the labels y what the scores get wrong; whatever the scores are worth, the
interval holds (Angelopoulos et al., 2023). λ is chosen to make it shortest (Angelopoulos et al., PPI++, 2023): scores
that say nothing get λ = 0, the plain mean. No label ever helps to predict its own conversation (cross-prediction,
Zrnic & Candès, 2024), to choose the λ by which that is corrected (each half takes the other's, of all systems
together), or to tell how strict its own annotator is.

Systems that answered the same inputs are compared input by input (`statistics.clustered_t`; docs/decisions/0034).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import EvidenceTable, Ratings, ratings
from accord.learning import MixedModel
from accord.statistics import FOLDS, CenteredPart, fold_of, grouped_folds, holm, p_value, reach
from accord.values import Labels, Question, Score

Floats = NDArray[np.float64]

FEWEST = 5
"""Labelled conversations that a system needs."""
NOT_SAID = "not said"
_ROUNDS = 3
"""How often annotators' and systems' effects are told apart in turn; more change nothing that is printed."""


@dataclass(frozen=True)
class SystemMean:
    """A mean with its interval; `label_mean` is the same from the labels alone.

    Attributes:
        system: Whose conversations.
        labelled: Conversations with a label.
        scored: All conversations with a score, the labelled among them.
        mean, low, high: From labels and scores; no ends where all labels are equal.
        label_mean, label_low, label_high: From labels alone.
        trust: λ, how far the scores are used.
        reason: Why there is no interval.
        parts: What the mean owes to which conversations: the labelled, and the others.
        spent: Share of the variance's degrees of freedom that choosing λ took.
    """

    system: str
    labelled: int
    scored: int
    mean: float
    low: float | None
    high: float | None
    label_mean: float
    label_low: float | None
    label_high: float | None
    trust: float
    reason: str | None = None
    parts: tuple[CenteredPart, ...] = field(default=(), repr=False)
    spent: float = field(default=0.0, repr=False)

    @property
    def worth(self) -> float | None:
        """How many times as many labels alone would give as short an interval."""
        if self.low is None or self.high is None or self.label_low is None or self.label_high is None:
            return None
        return ((self.label_high - self.label_low) / max(self.high - self.low, 1e-12)) ** 2

    def to_json(self) -> dict[str, Any]:
        """A flat row."""
        shown = {name: value for name, value in vars(self).items() if name not in ("parts", "spent")}
        return {**shown, "worth": self.worth}


@dataclass(frozen=True)
class Gap:
    """The difference of two systems' means, first minus second; p corrected over all pairs.

    `shared` is how many groups (topics, inputs) have labels of both. Without an interval, one of the two has none.
    """

    first: str
    second: str
    difference: float
    low: float | None
    high: float | None
    p_holm: float | None
    shared: int = 0

    def to_json(self) -> dict[str, Any]:
        """A flat row."""
        return dict(vars(self))


@dataclass(frozen=True)
class Labelled:
    """A system's conversations, those with labels a random part of them.

    Attributes:
        system: Its name.
        said: (n,) mean label of each labelled conversation.
        predicted: (n,) their scores, made without those labels.
        unlabelled: (N,) scores of its other conversations.
        group: (n,) what belongs together, across systems too; by default every conversation stands alone.
        unlabelled_group: (N,) the same of the others.
    """

    system: str
    said: Floats
    predicted: Floats
    unlabelled: Floats
    group: Sequence[str] | None = None
    unlabelled_group: Sequence[str] | None = None

    @property
    def groups(self) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
        """(n,) and (N,) the groups by name."""
        alone = [f"{self.system} {place}" for place in range(len(self.said) + len(self.unlabelled))]
        own = alone[: len(self.said)] if self.group is None else self.group
        others = alone[len(self.said) :] if self.unlabelled_group is None else self.unlabelled_group
        return np.asarray(own, dtype=str), np.asarray(others, dtype=str)


def estimate(system: str, said: Floats, predicted: Floats, unlabelled: Floats) -> SystemMean:
    """`estimates` of a single system."""
    return estimates([Labelled(system, said, predicted, unlabelled)])[0]


def estimates(systems: Sequence[Labelled], seed: int = 0) -> list[SystemMean]:
    """The mean of what people say of each system's conversations.

    Raises:
        BadInput: A system with fewer than `FEWEST` labelled conversations.
    """
    for each in systems:
        if (n := len(each.said)) < FEWEST:
            raise BadInput(
                f"{n} labelled conversations of {each.system!r}; a mean with an interval needs {FEWEST} or more"
            )
    trusts = _trusts(systems, seed)
    left = sum(len(each.said) - 1 for each in systems)
    spent = 1.0 / left if any(trust.any() for trust in trusts) else 0.0
    return [_estimate(each, trust, spent) for each, trust in zip(systems, trusts, strict=True)]


def _trusts(systems: Sequence[Labelled], seed: int) -> list[Floats]:
    """λ of each labelled conversation, chosen on the half of groups that its own is not in.

        λ = cov(y, f) / ((1 + n/N)·var f), between 0 and 1; 0 without other conversations

    Both moments are taken around each system's own mean, over all systems: five labels say little of a covariance.
    """
    half = fold_of([str(name) for each in systems for name in each.groups[0]], 2, seed)
    halves = [np.array([half[str(name)] for name in each.groups[0]]) for each in systems]
    every = [np.concatenate([each.predicted, each.unlabelled]) for each in systems]
    spread = sum(float(((f - f.mean()) ** 2).sum()) for f in every) / sum(len(f) - 1 for f in every)
    found = [np.zeros(len(each.said)) for each in systems]
    for number in (0, 1):
        together, count = 0.0, 0
        for each, mine in zip(systems, halves, strict=True):
            y, f = each.said[mine != number], each.predicted[mine != number]
            together += float(((y - y.mean()) * (f - f.mean())).sum()) if len(y) else 0.0
            count += max(len(y) - 1, 0)
        for each, mine, trust in zip(systems, halves, found, strict=True):
            if spread > 0 and count and (rest := len(each.unlabelled)) > 1:
                trust[mine == number] = np.clip(together / count / spread / (1 + len(each.said) / rest), 0.0, 1.0)
    return found


def _estimate(given: Labelled, trust: Floats, spent: float) -> SystemMean:
    """One system's, with the λ (n,) of each of its labelled conversations."""
    n, rest, used = len(given.said), len(given.unlabelled), float(trust.mean())
    middle = float(given.unlabelled.mean()) if rest else 0.0
    off = given.said - trust * (given.predicted - middle)
    group, other_group = given.groups
    parts = (
        CenteredPart((off - off.mean()) / n, group),
        CenteredPart(used * (given.unlabelled - middle) / max(rest, 1), other_group),
    )  # fmt: skip
    alone = CenteredPart((given.said - given.said.mean()) / n, group)
    why = _nothing_said(given)
    mean, label_mean = float(off.mean()), float(given.said.mean())
    half, label_half = (None, None) if why else (reach(parts, spent), reach([alone]))
    return SystemMean(
        given.system, n, n + rest, mean, *_around(mean, half), label_mean, *_around(label_mean, label_half), used,
        why, parts, spent,
    )  # fmt: skip


def _nothing_said(given: Labelled) -> str | None:
    """Why labels leave open how far others would differ; `None` where they do not."""
    n = len(given.said)
    if np.ptp(given.said) == 0:
        return f"all {n} labels are {given.said[0]:g}: how far others differ cannot be said; label more"
    if len(set(given.groups[0])) < 2:
        return f"all {n} labels are of one group: how far others differ cannot be said; label other groups"
    return None


def _around(middle: float, half: float | None) -> tuple[float | None, float | None]:
    return (None, None) if half is None else (middle - half, middle + half)


def gaps(found: Sequence[SystemMean]) -> list[Gap]:
    """Every pair's difference, group by group where the two share groups."""
    rows: list[tuple[SystemMean, SystemMean, float | None, float | None]] = []
    for first, second in combinations(found, 2):
        if first.reason or second.reason:
            rows.append((first, second, None, None))
            continue
        parts = [*first.parts, *(part.times(-1.0) for part in second.parts)]
        p = p_value(first.mean - second.mean, parts, first.spent)
        rows.append((first, second, p, reach(parts, first.spent)))
    corrected = iter(holm([p for *_, p, _ in rows if p is not None]))
    return [
        Gap(first.system, second.system, first.mean - second.mean, *_around(first.mean - second.mean, half),
            None if p is None else next(corrected), len(_labelled_groups(first) & _labelled_groups(second)))
        for first, second, p, half in rows
    ]  # fmt: skip


def _labelled_groups(found: SystemMean) -> set[str]:
    return set(found.parts[0].group.tolist())


def system_means(
    evidence: EvidenceTable,
    labels: Labels,
    question: Question,
    make: Callable[[Question], Any],
    system_of: Mapping[str, str],
    folds: int = FOLDS,
    seed: int = 0,
) -> list[SystemMean]:
    """Each system's mean rating by the annotators together, from its labelled and its other conversations.

    A rating counts without what its annotator is stricter or milder by than the others, as other groups' ratings tell.

    Args:
        evidence: Of whole conversations, labelled or not.
        labels: Of some of them; their groups (`Labels.groups`, of conversations without labels too) are the topics or
            inputs that systems share.
        question: The main question.
        make: How to make the evaluator that scores.
        system_of: Each conversation's system.
        folds: Of the cross-prediction; a conversation whose group nobody labelled is scored by all folds' evaluators.
        seed: Of the folds.

    Raises:
        BadInput: Too few rated conversations, or a system with fewer than `FEWEST` of them.
    """
    group_of = {target.conversation: labels.group_of(target) for target in evidence.targets}
    rated = ratings(evidence, labels, question)
    labelled, tested = set(rated.conversation), set(rated.group)
    others = [name for name in group_of if name not in labelled]
    far = [name for name in others if group_of[name] not in tested]
    system = np.array([system_of.get(name, NOT_SAID) for name in rated.conversation])
    score, fair = dict.fromkeys(group_of, 0.0), rated.value.copy()
    for split in grouped_folds(list(rated.group), folds, seed):
        evaluator = make(question).fit(evidence.filter(split.train, labels.group_of), labels.filter(split.train))
        mine = np.array([name in split.test for name in rated.group])
        milder = annotator_effects(rated.take(np.flatnonzero(~mine)), system[~mine], rated.annotator)
        fair[mine] -= [milder[str(name)] for name in rated.annotator[mine]]
        near = [name for name, group in group_of.items() if group in split.test]
        for names, share in ((near, 1.0), (far, 1.0 / folds)):
            for name, value in _by_panel(evaluator, evidence.filter(names)).items():
                score[name] += share * value
    found = []
    for each in sorted({system_of.get(name, NOT_SAID) for name in score}):
        own = sorted(set(rated.conversation[system == each]))
        rest = [name for name in others if system_of.get(name, NOT_SAID) == each]
        plain, without = ([float(v[rated.conversation == name].mean()) for name in own] for v in (rated.value, fair))
        said = np.array(plain if len(set(plain)) == 1 else without)  # equal labels stay equal, and say nothing
        found.append(
            Labelled(
                each, said, np.array([score[name] for name in own]), np.array([score[name] for name in rest]),
                [group_of[name] for name in own], [group_of[name] for name in rest],
            )
        )  # fmt: skip
    return estimates(found, seed)


def annotator_effects(rated: Ratings, system: NDArray[np.str_], everyone: NDArray[np.object_]) -> dict[str, float]:
    """How much milder than the others each annotator rates, shrunk by what so few ratings can say (REML).

        y = θ_system + u_annotator + v_conversation + w_group + e

    Args:
        rated: n ratings.
        system: (n,) whose conversations they are of; systems' means are told apart from annotators in turns.
        everyone: Annotators of all ratings, over which the effects are 0 on average; one who is not in `rated` is as
            the others.
    """
    names, place = np.unique(system, return_inverse=True)
    effect = np.zeros(len(rated))
    found: dict[str, float] = {}
    for _ in range(_ROUNDS if len(set(rated.annotator)) > 1 else 0):
        level = np.bincount(place, rated.value - effect, len(names)) / np.bincount(place, minlength=len(names))
        model = MixedModel(own_slopes=False).fit(
            np.zeros((len(rated), 1)), rated.value - level[place], rated.annotator, rated.text, rated.group
        )
        found = dict(zip(map(str, model.annotators_), model.offsets_.tolist(), strict=True))
        effect = np.array([found[str(name)] for name in rated.annotator])
    middle = float(np.mean([found.get(str(name), 0.0) for name in everyone]))
    return {str(name): found.get(str(name), 0.0) - middle for name in everyone}


def _by_panel(evaluator: Any, evidence: EvidenceTable) -> dict[str, float]:
    """Each conversation's score by all annotators together; what cannot be scored is the mean of what can."""
    speakers: Sequence[str | None] = evaluator.annotators or [None]
    each = [evaluator.predict_each(evidence, [name] * len(evidence)) for name in speakers]
    values = np.array([[s.value if isinstance(s, Score) else np.nan for s in scores] for scores in each])
    known = np.isfinite(values).all(axis=0)
    mean = np.where(known, np.where(known, values, 0.0).mean(axis=0), np.nan)
    filled = np.where(known, mean, mean[known].mean() if known.any() else 0.0)
    return {target.conversation: float(v) for target, v in zip(evidence.targets, filled, strict=True)}

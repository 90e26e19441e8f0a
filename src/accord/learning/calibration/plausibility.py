"""Plausibility check: lowers scores of replies that a language model finds implausible in their context.

Word counts ignore the order of words and the relation to the context, so shuffled words, random words and replies to
something else score like genuine replies. A small language model distinguishes them. The check learns from unrated
replies and fakes of these, p = P(real | log p per token: alone, given the context), by multinomial logistic
regression over the kinds of fakes. A score becomes the mixture

    p · score + (1 - p) · the scale's floor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import passages_of
from accord.models import LIKELIHOOD, Failure, Flow, Likelihood, ModelQuery, Request
from accord.values import Sample, Score, Target, Unscored, score_from

REAL = "real"
KINDS = {
    "shuffled": "its words out of their order",
    "foreign": "a reply to something else",
    "random": "words at random",
}
"""Kinds of fakes, with the description of a reply that resembles one."""
FEWEST, MOST = 20, 60
"""Smallest and largest number of replies to learn from; each one needs eight passages."""
MODEST = 0.05
"""Share of the score of genuine training replies that the check may remove on average."""
DOUBTED = 0.5
"""A reply is reported as implausible below this probability."""
_FEATURES = 4
_REGULARISATION = 1.0
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Plausibility:
    """Fitted classifier of genuine replies and fakes.

    Attributes:
        model: Name of the language model.
        mean: (4,) mean of the features.
        scale: (4,) standard deviation of the features.
        weights: (4, 4) weights of genuine replies, then of each of `KINDS`.
        bias: (4,) constants; the constant of genuine replies is raised until the check removes `MODEST` of their score.
    """

    model: str
    mean: Floats
    scale: Floats
    weights: Floats
    bias: Floats

    @classmethod
    def learn(cls, samples: Sequence[Sample], group_of: Callable[[Target], str], seed: int = 0) -> Flow[Self]:
        """Learn from genuine replies and their fakes; asks the likelihood model.

        Raises:
            BadInput: There are too few replies, or all are of one group.
        """
        from sklearn.linear_model import LogisticRegression

        spoken = [each for each in samples if _places(each)]
        drawn = np.random.default_rng(seed).permutation(len(spoken))[:MOST]
        made = {REAL: [spoken[place] for place in sorted(drawn.tolist())]}
        if len(made[REAL]) < FEWEST or len({group_of(each.target) for each in made[REAL]}) < 2:
            raise BadInput(f"plausibility needs at least {FEWEST} replies in two groups, got {len(made[REAL])}")
        made |= fakes(made[REAL], group_of, seed)
        # Passages of one context follow each other, so that the model can reuse the context.
        X, model = yield from measured([each for of_sample in zip(*made.values(), strict=True) for each in of_sample])
        kind = np.tile(np.arange(len(made)), len(made[REAL]))
        known = ~np.isnan(X).any(axis=1)
        X, kind = X[known], kind[known]
        if len(set(kind)) < len(made):
            raise BadInput("the likelihood model measured no reply; check the model: accord models check")
        mean, scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
        fitted = LogisticRegression(C=_REGULARISATION, max_iter=1000).fit((X - mean) / scale, kind)
        bare = cls(model, mean, scale, fitted.coef_, fitted.intercept_)
        return bare._modest(X[kind == 0])

    def _modest(self, real: Floats) -> Self:
        """Return the check with the constant of genuine replies at which they keep all but `MODEST` of their score."""
        low, high = -20.0, 20.0
        for _ in range(50):
            middle = (low + high) / 2
            takes_more = self._raised(middle)._shares(real)[:, 0].mean() < 1 - MODEST
            low, high = (middle, high) if takes_more else (low, middle)
        return self._raised(high)

    def _raised(self, by: float) -> Self:
        return replace(self, bias=self.bias + by * np.eye(len(self.bias))[0])

    def _shares(self, X: Floats) -> Floats:
        """Return (n, 4) the probability of each kind."""
        from scipy.special import softmax

        Z = (X - self.mean) / self.scale
        logits = (Z[:, None] * self.weights).sum(
            axis=2
        ) + self.bias  # row by row, so that batch and live scores are equal
        return np.asarray(softmax(logits, axis=1))

    def lower(self, samples: Sequence[Sample], scores: Sequence[Score | Unscored]) -> Flow[list[Score | Unscored]]:
        """Return the lowered scores; asks the likelihood model about each scored reply."""
        scored = [sample for sample, score in zip(samples, scores, strict=True) if isinstance(score, Score)]
        X, _ = yield from measured(scored)
        shares = dict(zip([each.target for each in scored], self._shares(X), strict=True))
        return [self._lowered(score, shares[score.target]) if isinstance(score, Score) else score for score in scores]

    def _lowered(self, score: Score, shares: Floats) -> Score:
        signature = score.signature.with_part("plausibility", self.model)
        if np.isnan(shares).any():
            unknown = "plausibility unknown"
            return replace(score, signature=signature, warning="; ".join(filter(None, (score.warning, unknown))))
        p = float(shares[0])
        mixed = p * np.array(score.probabilities) + (1 - p) * np.eye(len(score.options))[0]
        likeliest = list(KINDS.values())[int(np.argmax(shares[1:]))]
        doubt = f"it reads like {likeliest} (plausibility {p:.2f})" if p < DOUBTED else None
        band = score.band and (score.options[0] if p < 1 - _OUTSIDE else score.band[0], score.band[1])
        found = score_from(
            score.target, score.annotator, score.options, tuple(mixed.tolist()), signature, band,
            "; ".join(filter(None, (doubt, score.warning))) or None,
        )  # fmt: skip
        attributions = (*score.attributions, ("plausibility", found.value - score.value)) if score.attributions else ()
        return replace(found, attributions=attributions, notes={**score.notes, "plausibility": round(p, 4)})

    def to_json(self) -> dict[str, Any]:
        """Return the learned state."""
        return {
            "model": self.model,
            **{name: getattr(self, name).tolist() for name in ("mean", "scale", "weights", "bias")},
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """Return the check from `to_json`.

        Raises:
            ValueError: Numbers have a wrong shape or are not finite.
        """
        numbers = {name: np.array(row[name], dtype=float) for name in ("mean", "scale", "weights", "bias")}
        shapes = [numbers[name].shape for name in ("mean", "scale", "weights", "bias")]
        if shapes != [(_FEATURES,), (_FEATURES,), (len(KINDS) + 1, _FEATURES), (len(KINDS) + 1,)] or not all(
            np.isfinite(each).all() for each in numbers.values()
        ):
            raise ValueError("invalid plausibility check")
        return cls(str(row["model"]), **numbers)


_OUTSIDE = 0.05
"""If the floor has more than this share, a band extends down to it."""


def measured(samples: Sequence[Sample]) -> Flow[tuple[Floats, str]]:
    """Return (n, 4) features of each sample's replies, and the language model's name.

    The features are log p per token of the replies alone, the gain from the context, and the logarithm and inverse of
    their length; NaN if a reply could not be measured.
    """
    [who] = yield [Request(LIKELIHOOD, ModelQuery())]
    by_sample = [passages_of(sample) for sample in samples]
    passages = list(dict.fromkeys(part for each in by_sample if each for part in (each.given_all, *each.alone)))
    requests = [Request(LIKELIHOOD, passage, purpose="replies checked for plausibility") for passage in passages]
    known = dict(zip(passages, (yield requests), strict=True))
    rows = np.full((len(samples), _FEATURES), np.nan)
    for row, each in zip(rows, by_sample, strict=True):
        found = [known[part] for part in (each.given_all, *each.alone)] if each else []
        if found and not any(isinstance(part, Failure) for part in found):
            row[:] = _features(found[0], list(chain.from_iterable(found[1:])))
    return rows, str(who.name)


def _features(given: Sequence[Likelihood], alone: Sequence[Likelihood]) -> tuple[float, float, float, float]:
    """Return the features of a sample from its replies given all that precedes them, and alone."""
    count = max(sum(one.tokens for one in alone), 1)
    own, with_all = (sum(one.log_probability for one in part) / count for part in (alone, given))
    return own, with_all - own, float(np.log(count / len(alone))), len(alone) / count


def fakes(samples: Sequence[Sample], group_of: Callable[[Target], str], seed: int) -> dict[str, list[Sample]]:
    """Return fakes of each sample: words of its replies shuffled, replies of another group, and random words.

    Shuffled and random replies have as many words as the original.
    """
    rng = np.random.default_rng(seed)
    replies = [
        (group_of(each.target), each.conversation.turns[place].content) for each in samples for place in _places(each)
    ]
    words = [word for _, text in replies for word in text.split()]

    def shuffled(text: str, group: str) -> str:
        parts = text.split()
        return " ".join(parts[place] for place in rng.permutation(len(parts)))

    def foreign(text: str, group: str) -> str:
        others = [other for whose, other in replies if whose != group]
        return others[int(rng.integers(len(others)))]

    def random(text: str, group: str) -> str:
        return " ".join(words[place] for place in rng.integers(len(words), size=max(len(text.split()), 1)))

    ways = {"shuffled": shuffled, "foreign": foreign, "random": random}
    return {kind: [_faked(each, kind, ways[kind], group_of(each.target)) for each in samples] for kind in KINDS}


def _faked(sample: Sample, kind: str, way: Callable[[str, str], str], group: str) -> Sample:
    """Return the sample with other replies and a name of its own."""
    conversation, turns = sample.conversation, list(sample.conversation.turns)
    for place in _places(sample):
        turns[place] = replace(turns[place], content=way(turns[place].content, group))
    named = replace(conversation, id=f"{conversation.id}#{kind}", turns=tuple(turns))
    return Sample(named, sample.turn)


def _places(sample: Sample) -> list[int]:
    """Return the positions of a sample's replies that are not empty."""
    turns = sample.conversation.turns
    first = next((turn.role for turn in sample.conversation.replies), None)
    where = [place for place, turn in enumerate(turns) if turn.role == first] if sample.turn is None else [sample.turn]
    return [place for place in where if turns[place].content.strip()]

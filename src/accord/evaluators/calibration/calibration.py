"""The calibration evaluator: a judge's answers in, each annotator's own distribution over the main question out.

How answers follow from evidence is its core's business: linear mixed effects, or the paper's network. What both need
stands here: which evidence was learned from, conformal bands, and whether new evidence is like it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.conversation import Target, content_hash
from accord.errors import BadInput, UnknownName
from accord.evaluators.base import Arrays, Evaluator, evaluators
from accord.evaluators.calibration.auto import Losses, better_core
from accord.evaluators.calibration.conformal import band_width, bands
from accord.evaluators.calibration.core import Core
from accord.evaluators.calibration.familiarity import Familiarity
from accord.evaluators.calibration.mixed_core import MixedCore
from accord.evaluators.calibration.network_core import NetworkCore, NetworkSettings
from accord.evaluators.ratings import Ratings, ratings
from accord.evidence.table import Column, EvidenceTable
from accord.labels import Labels
from accord.rubric import Question
from accord.score import POPULATION, Score, Signature, Unscored, score_from
from accord.version import __version__

CORES = ("auto", "mixed", "network")
FEWEST_LABELS = 8
HISTORY = 400
"""The most texts whose evidence is kept, for the adaptive rubric to guess missing answers from."""
CHANGED_JUDGE = "the judge answered as version"

Floats = NDArray[np.float64]


@evaluators.register("calibration")
class Calibration(Evaluator):
    """Learns how each annotator turns evidence into an answer (LLM-RUBRIC).

    Args:
        question: The main question, ordinal or binary.
        core: How answers follow from evidence: `mixed` is a linear mixed model by REML under an ordered probit,
            `network` the paper's network or its regularised variant, `auto` whichever predicts the training side's
            own folds with the lower log loss.
        own_slopes: Of `mixed`: whether annotators may weigh the evidence differently, or differ in level alone.
        threshold_spread: Of `mixed`: prior standard deviation of an annotator's own thresholds around the common
            ones, in units of the latent scale.
        carry_over: In a new domain, the correlation believed between a person's habits there and here: 1 trusts
            them wholly, 0 forgets them. Used by `in_new_domain` and `adapt` alone.
        network: Of `network`: its settings by name (`NetworkSettings`).
        coverage: Share of new ratings that the conformal band of a score should hold.
        groups: Patterns of annotators (`user-*`) who are treated as one: end users who each leave a thumb or two.
    """

    method = "calibration"

    def __init__(
        self,
        question: Question,
        core: str = "auto",
        own_slopes: bool = True,
        threshold_spread: float = 0.2,
        carry_over: float = 0.5,
        network: Mapping[str, Any] | None = None,
        coverage: float = 0.9,
        groups: Sequence[str] = (),
    ) -> None:
        super().__init__(question)
        if core not in CORES:
            raise UnknownName("core", core, CORES)
        if not 0 <= carry_over <= 1:
            raise BadInput(f"carry_over is a correlation from 0 to 1, got {carry_over}")
        if not 0 < coverage < 1:
            raise BadInput(f"coverage is a share between 0 and 1, got {coverage}")
        if isinstance(groups, str):
            raise BadInput(f"groups is a list of patterns, got {groups!r}; write [{groups!r}]")
        NetworkSettings.of(network or {})
        self.core = core
        self.own_slopes = own_slopes
        self.threshold_spread = threshold_spread
        self.carry_over = carry_over
        self.network = network
        self.coverage = coverage
        self.groups = groups
        self.core_: Core | None = None

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments beyond the question."""
        plain = {name: getattr(self, name) for name in ("core", "own_slopes", "threshold_spread", "carry_over")}
        network = None if self.network is None else dict(self.network)
        return {**plain, "network": network, "coverage": self.coverage, "groups": list(self.groups)}

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` or `restore` has run."""
        return self.core_ is not None

    @property
    def annotators(self) -> list[str]:
        """Everyone whose labels were learned from; a group counts as one."""
        return [] if self.core_ is None else self.core_.annotators

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Learn from every label on the main question whose target has evidence.

        Raises:
            BadInput: Fewer than `FEWEST_LABELS` such labels, or a label outside the scale.
            MissingExtra: The network was asked for and JAX is not installed.
        """
        said = self._grouped(labels)
        rated = ratings(evidence, said, self.question)
        if len(rated) < FEWEST_LABELS:
            raise BadInput(
                f"{len(rated)} labels on {self.question.id!r} have evidence; it needs {FEWEST_LABELS} or more. "
                "Import more labels, or gather evidence for the conversations they rate."
            )
        core, distributions, self.losses_ = self._learned(evidence, rated, said)
        features = core.shown(evidence)
        self.options_, self.columns_ = rated.options, features.columns
        self.counts_ = {name: int((rated.annotator == name).sum()) for name in core.annotators}
        self.width_ = band_width(rated.options, distributions, rated.value, self.coverage)
        self.familiarity_ = Familiarity.fit(features.take(np.unique(rated.row)))
        self.versions_ = judge_versions(evidence, rated)
        self.history_ = _complete(features.take(np.unique(rated.row)))
        return self._take(core, domain=None)

    def _learned(self, evidence: EvidenceTable, rated: Ratings, labels: Labels) -> tuple[Core, Floats, Losses]:
        """The fitted core, each rating's distribution as predicted without its text, and what decided the core."""
        if self.core == "auto":
            return better_core(self._made, evidence, rated, labels, self.question)
        core = self._made(self.core)
        return core, core.learn(core.shown(evidence), rated, labels), {}

    def _made(self, core: str) -> Core:
        if core == "mixed":
            return MixedCore(self.own_slopes, self.threshold_spread)
        return NetworkCore(NetworkSettings.of(self.network or {}))

    def _grouped(self, labels: Labels) -> Labels:
        """The labels, those of a group's members under the group's pattern as one annotator's."""
        if not self.groups:
            return labels
        return Labels(replace(label, annotator=self._speaker(label.annotator)) for label in labels)

    def _speaker(self, annotator: str) -> str:
        return next((pattern for pattern in self.groups if fnmatchcase(str(annotator), pattern)), annotator)

    def in_new_domain(self) -> Calibration:
        """This evaluator for conversations from another place, before anyone has labelled any of them there."""
        core = self._fitted().in_new_domain(self.carry_over)
        return self._copy()._take(core, domain="new")

    def adapt(self, evidence: EvidenceTable, labels: Labels) -> Calibration:
        """This evaluator for another place, after a few labels per annotator from there.

        Starts from what was learned at home, whatever this evaluator was adapted to before.

        Raises:
            BadInput: No label on the main question has evidence, the evidence is made otherwise than at `fit`, or
                the core cannot adapt.
        """
        core = self._fitted()
        features = self.features(evidence)
        rated = ratings(features, self._grouped(labels), self.question)
        if not len(rated):
            raise BadInput(f"no label on {self.question.id!r} has evidence; adapting needs at least one")
        moved, here = self._copy(), core.adapt(features, rated, self.carry_over)
        given = {name: int((rated.annotator == name).sum()) for name in here.annotators}
        moved.counts_ = {name: self.counts_.get(name, 0) + count for name, count in given.items()}
        return moved._take(here, domain="adapted")

    def _copy(self) -> Calibration:
        twin = Calibration(self.question, **self.settings())
        for name in ("options_", "columns_", "counts_", "width_", "familiarity_", "losses_", "versions_", "history_"):
            setattr(twin, name, getattr(self, name))
        return twin

    def _take(self, core: Core, domain: str | None) -> Self:
        self.core_, self.domain_ = core, domain
        return self

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """One score a row, for that row's annotator; rows without any evidence are unscored."""
        features = self.features(evidence)
        speakers = [None if name is None else self._speaker(name) for name in annotators]
        distributions = self.distributions(features, speakers)
        ends = bands(self.options_, distributions, self.width_)
        warnings = self._warnings(features)
        signature, known = self.signature(), set(self.annotators)
        scores: list[Score | Unscored] = []
        for row, name in enumerate(speakers):
            target, who = features.targets[row], str(name) if name in known else POPULATION
            if not features.present[row].any():
                scores.append(Unscored(target, who, _why_nothing(features, row), signature))
                continue
            shares, band = distributions[row], (float(ends[row, 0]), float(ends[row, 1]))
            scores.append(score_from(target, who, self.options_, shares, signature, band, warnings[row]))
        return scores

    def _warnings(self, features: EvidenceTable) -> list[str | None]:
        """Why each row's score deserves less trust: unlike what was learned from, or judged by a changed judge."""
        found = []
        for target, unlike in zip(features.targets, self.familiarity_.warnings(features), strict=True):
            version = features.versions.get(target, "")
            strange = bool(version) and bool(self.versions_) and version not in self.versions_
            changed = f"{CHANGED_JUDGE} {version}, learned from {', '.join(self.versions_)}" if strange else None
            found.append("; ".join(part for part in (changed, unlike) if part) or None)
        return found

    def predict(self, evidence: EvidenceTable, annotator: str | None = None) -> list[Score | Unscored]:
        """One score a row; the member of a group is predicted as the group.

        Raises:
            NotFitted: Nothing was learned yet.
            UnknownName: The annotator gave no label that was learned from.
        """
        return super().predict(evidence, annotator if annotator is None else self._speaker(annotator))

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """(n, K) each row's distribution for its annotator; `features` are this evaluator's own columns."""
        return self._fitted().distributions(features, annotators)

    def history(self) -> EvidenceTable:
        """The evidence of some texts that were learned from, those with all of it, without their names."""
        self.check_fitted()
        names = tuple(Target(f"learned from {place}") for place in range(len(self.history_)))
        return EvidenceTable(names, self.columns_, self.history_, np.ones(self.history_.shape, dtype=bool))

    def features(self, evidence: EvidenceTable) -> EvidenceTable:
        """The evidence as this evaluator's own columns, in their order.

        Raises:
            BadInput: A column is missing, or made otherwise than the one that was learned from.
        """
        return self._fitted().shown(evidence).like(self.columns_)

    def signature(self) -> Signature:
        """How this evaluator's scores are made."""
        mixed = isinstance(self.core_, MixedCore)
        makers = dict.fromkeys(c.made_by for c in self.columns_ if c.question is not None)
        judges = dict.fromkeys(maker.partition("|question:")[0] for maker in makers)
        return Signature.of(
            self.method,
            core="mixed" if mixed else "network",
            question=self.question.id,
            features=len(self.columns_),
            annotators=len(self.annotators),
            labels=sum(self.counts_.values()),
            slopes=("own" if self.own_slopes else "common") if mixed else None,
            spread=self.threshold_spread if mixed else None,
            domain=self.domain_,
            carry_over=self.carry_over if self.domain_ else None,
            coverage=self.coverage,
            evidence="+".join(judges) or None,
            rubric=content_hash(sorted(makers), length=8) if makers else None,
            version=__version__,
        )

    def describe(self) -> dict[str, Any]:
        """What was learned, and how the core was chosen."""
        learned = self._fitted().describe()
        levels = learned.pop("levels", {})
        people = {
            name: {"labels": self.counts_.get(name, 0), **({"level": levels[name]} if name in levels else {})}
            for name in self.annotators
        }
        return {
            "method": self.method,
            "core": "mixed" if isinstance(self.core_, MixedCore) else "network",
            "chosen_by": dict(self.losses_),
            "signature": str(self.signature()),
            "coverage": self.coverage,
            "band_width": self.width_,
            **learned,
            "annotators": people,
        }

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and arrays."""
        core, arrays = self._fitted().state()
        card = {
            "columns": [asdict(column) for column in self.columns_],
            "counts": self.counts_,
            "domain": self.domain_,
            "losses": self.losses_,
            "versions": self.versions_,
            "width": self.width_,
            "core": "mixed" if isinstance(self.core_, MixedCore) else "network",
            "parts": core,
        }
        own = {"scale.options": self.options_, "history": self.history_, **self.familiarity_.arrays()}
        return card, {**own, **{f"core.{name}": array for name, array in arrays.items()}}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        self.columns_ = tuple(Column(**column) for column in card["columns"])
        self.counts_, self.losses_, self.width_ = dict(card["counts"]), dict(card["losses"]), card["width"]
        self.versions_, self.history_ = list(card["versions"]), np.asarray(arrays["history"])
        self.options_, self.familiarity_ = arrays["scale.options"], Familiarity.from_arrays(arrays)
        parts = {name.removeprefix("core."): array for name, array in arrays.items() if name.startswith("core.")}
        return self._take(self._made(card["core"]).restore(card["parts"], parts), card["domain"])

    def _fitted(self) -> Core:
        self.check_fitted()
        assert self.core_ is not None
        return self.core_


def _complete(features: EvidenceTable) -> Floats:
    """(m, d) the rows with all evidence, evenly spaced ones where they are more than `HISTORY`."""
    whole = np.flatnonzero(features.present.all(axis=1))
    spaced = np.linspace(0, len(whole) - 1, min(len(whole), HISTORY)).astype(int)
    return np.asarray(features.values[whole[spaced]])


def judge_versions(evidence: EvidenceTable, rated: Ratings) -> list[str]:
    """Every version of the judge that answered about what was rated, sorted."""
    return sorted({version for target in rated.target if (version := evidence.versions.get(target, ""))})


def _why_nothing(features: EvidenceTable, row: int) -> str:
    """Why a row has no evidence at all."""
    target = features.targets[row]
    reasons = {reason for (about, _), reason in features.absences.items() if about == target}
    return "; ".join(["no evidence", *sorted(reasons)])

"""Personalised calibration: evidence and who answers in, a distribution with its band, warnings and reasons out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, UnknownName
from accord.evidence import Arrays, Column, EvidenceTable, Ratings
from accord.learning.answer_model import Core, inner_folds, known_ratings, why_nothing
from accord.learning.auxiliary_questions import OtherQuestions
from accord.learning.head import Head, heads
from accord.learning.mixed import BEST, MixedCore
from accord.learning.mixture import CurvesCore
from accord.learning.multicalibration import JUDGE_VERSION, GroupShifts
from accord.learning.network_core import NetworkCore, NetworkSettings
from accord.learning.stacking import CANDIDATES, FEWEST_FOR_STACK, ConstantCore, StackCore, as_json, stacked
from accord.learning.svr import SupportVectorCore
from accord.learning.training_reference import Levels, TrainedOn
from accord.values import POPULATION, Json, Labels, Question, Score, Signature, Unscored, content_hash, score_from
from accord.version import __version__

Floats = NDArray[np.float64]
CORES = ("auto", *CANDIDATES, "svr")
FEWEST_LABELS = 8


class Calibration(Head):
    """Learns how each annotator turns evidence into an answer (LLM-RUBRIC).

    Args:
        question: The main question, ordinal, binary or real-valued; a long scale is learned as a few levels.
        core: How answers follow from evidence: `mixed` is a linear mixed model by REML under an ordered probit,
            `network` the paper's network or its regularised variant, `curves` the additive mixture, `judge` the judge's
            answer to the question itself, `column` the one column that follows the ratings best, `constant` how often
            each option was chosen, `svr` a support vector regression; `auto` tries all that apply but the last on inner
            folds and averages those that help.
        own_slopes: Of `mixed`: whether annotators may weigh the evidence differently, or differ in level alone.
        threshold_spread: Of `mixed`: prior standard deviation of an annotator's own thresholds around the common
            ones, in units of the latent scale.
        domain_correlation: In a new domain, the correlation believed between a person's habits there and here: 1 trusts
            them wholly, 0 forgets them. Used by `in_new_domain` and `adapt` alone.
        network: Of `network`: its settings by name (`NetworkSettings`), `like: paper` for the paper's own.
        coverage: Share of new ratings that the conformal band of a score should hold.
        groups: Patterns of annotators (`user-*`) who are treated as one: end users who each leave a thumb or two.
        candidates: Of `auto`: which of the others are tried; by default all.
        even_by: What groups of conversations are made by whose scores are to be right on the mean: `system`,
            `judge-version`, or another entry of the conversations' metadata. Groups that inner folds show to be put
            too high or too low are shifted (footnote 17); with `[]` none is.
        seconds: Of `auto`: what is expected to take longer on one core (the network, on many ratings) is not tried.
    """

    method = "calibration"
    takes_every_sheet = True

    def __init__(
        self,
        question: Question,
        core: str = "auto",
        own_slopes: bool = True,
        threshold_spread: float = 0.2,
        domain_correlation: float = 0.5,
        network: Mapping[str, Any] | None = None,
        coverage: float = 0.9,
        groups: Sequence[str] = (),
        candidates: Sequence[str] = (),
        even_by: Sequence[str] = ("system", JUDGE_VERSION),
        seconds: float = 60.0,
    ) -> None:
        super().__init__(question)
        if core not in CORES:
            raise UnknownName("core", core, CORES)
        if not 0 <= domain_correlation <= 1:
            raise BadInput(f"domain_correlation is a correlation from 0 to 1, got {domain_correlation}")
        if not 0 < coverage < 1:
            raise BadInput(f"coverage is a share between 0 and 1, got {coverage}")
        lists = {"groups": (groups, "patterns"), "candidates": (candidates, "cores"), "even_by": (even_by, "names")}
        for setting, (given, of) in lists.items():
            if isinstance(given, str):
                raise BadInput(f"{setting} is a list of {of}, got {given!r}; write [{given!r}]")
            if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
                raise BadInput(f"{setting} is a list of {of}, got {given!r}")
        for name in candidates:
            if name not in CANDIDATES:
                raise UnknownName("core", name, CANDIDATES)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
            raise BadInput(f"seconds is a number from 0, got {seconds!r}")
        NetworkSettings.of(network or {})
        self.core = core
        self.own_slopes = own_slopes
        self.threshold_spread = threshold_spread
        self.domain_correlation = domain_correlation
        self.network = network
        self.coverage = coverage
        self.groups = groups
        self.candidates = candidates
        self.even_by = even_by
        self.seconds = seconds
        self.core_: Core | None = None

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` or `restore` has run."""
        return self.core_ is not None

    @property
    def annotators(self) -> list[str]:
        """Everyone whose labels were learned from; a group counts as one."""
        return [] if self.core_ is None else self.core_.annotators

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Learn from every label on the main question whose target has some evidence, and from sheets without one.

        Raises:
            BadInput: Fewer than `FEWEST_LABELS` such labels, or a label outside the scale.
            MissingExtra: The network was asked for and JAX is not installed.
        """
        said = self._grouped(labels)
        rated = known_ratings(evidence, said, self.question)
        if len(rated) < FEWEST_LABELS:
            raise BadInput(
                f"{len(rated)} labels on {self.question.id!r} have evidence; it needs {FEWEST_LABELS} or more. "
                "Import more labels, or gather evidence for the conversations they rate."
            )
        levels = Levels.fit(rated)
        coarse = levels.coarse(rated)
        others, told = OtherQuestions.learn(evidence, said, self.question.id)
        core, distributions, self.tried_ = self._learned(told, coarse, said)
        shifts, shares = GroupShifts.learn(
            self.even_by, evidence, rated, levels.fine(distributions), inner_folds(coarse)
        )  # fmt: skip
        side = TrainedOn.of(core.shown(evidence), rated, levels, shares, core.annotators, self.coverage)
        self.others_ = others
        return self._take(core, side, shifts, domain=None)

    def _learned(
        self, evidence: EvidenceTable, rated: Ratings, labels: Labels
    ) -> tuple[Core, Floats, dict[str, dict[str, Any]]]:
        """The fitted core, each rating's distribution as predicted without its group, and what was tried."""
        if self.core == "auto" and len(rated) >= FEWEST_FOR_STACK and len(set(rated.group)) > 1:
            asked = any(column.question == self.question.id for column in evidence.columns)
            make = {
                name: partial(self._made, name)
                for name in CANDIDATES
                if name in (self.candidates or CANDIDATES) and (name != "judge" or asked)
            }
            core, shares, tried = stacked(make, evidence, rated, labels, self.seconds)
            return core, shares, as_json(tried)
        core = self._made("mixed" if self.core == "auto" else self.core)
        few = {"mixed": {"loss": None, "weight": 1.0, "why": f"{len(rated)} labels are too few to try anything else"}}
        found = core.learn(core.shown(evidence), rated, labels)
        return core, found, few if self.core == "auto" else {}

    def _made(self, core: str) -> Core:
        """A core by its name, before it learns."""
        makers: dict[str, Callable[[], Core]] = {
            "constant": ConstantCore,
            "judge": lambda: MixedCore(False, 0.0, self.question.id, "judge"),
            "column": lambda: MixedCore(False, 0.0, BEST, "column"),
            "mixed": lambda: MixedCore(self.own_slopes, self.threshold_spread),
            "curves": CurvesCore,
            "svr": SupportVectorCore,
            "network": lambda: NetworkCore(NetworkSettings.of(self.network or {})),
        }
        return makers[core]()

    def _grouped(self, labels: Labels) -> Labels:
        """The labels, those of a group's members under the group's pattern as one annotator's."""
        if not self.groups:
            return labels
        named = (replace(label, annotator=self._group(label.annotator)) for label in labels)
        return Labels(named, labels.groups)

    def _group(self, annotator: str) -> str:
        """The first pattern that an annotator's name fits, or the name itself."""
        return next((pattern for pattern in self.groups if fnmatchcase(str(annotator), pattern)), annotator)

    def in_new_domain(self) -> Calibration:
        """This evaluator for conversations from another place, before anyone has labelled any of them there."""
        core = self._fitted().in_new_domain(self.domain_correlation)
        shifts = self.shifts_.scaled(self.domain_correlation)
        return copy(self)._take(core, self.trained_on_, shifts, domain="new")

    def adapt(self, evidence: EvidenceTable, labels: Labels) -> Calibration:
        """This evaluator for another place, after a few labels per annotator from there.

        Starts from what was learned at home, whatever this evaluator was adapted to before.

        Raises:
            BadInput: No label on the main question has evidence, the evidence is made otherwise than at `fit`, or
                the core cannot adapt.
        """
        core = self._fitted()
        features = self.features(evidence)
        rated = known_ratings(features, self._grouped(labels), self.question)
        if not len(rated):
            raise BadInput(f"no label on {self.question.id!r} has evidence; adapting needs at least one")
        home = self.trained_on_
        here = core.adapt(self._beside(features), home.levels.coarse(rated), self.domain_correlation)
        given = rated.counts(here.annotators)
        counts = {name: home.counts.get(name, 0) + count for name, count in given.items()}
        # Labels from there have said how high its conversations are to be put.
        return copy(self)._take(here, replace(home, counts=counts), GroupShifts(), domain="adapted")

    def _take(self, core: Core, side: TrainedOn, shifts: GroupShifts, domain: str | None) -> Self:
        self.core_, self.trained_on_, self.shifts_, self.domain_ = core, side, shifts, domain
        return self

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """One score a row, for that row's annotator; rows without any evidence are unscored."""
        features = self.features(evidence)
        if not len(features):
            return []
        speakers = [None if name is None else self._group(name) for name in annotators]
        side = self.trained_on_

        def said(table: EvidenceTable, rows: NDArray[np.intp]) -> Floats:
            return self.distributions(table, [speakers[row] for row in rows])

        distributions = side.over_missing(features, said)
        ends = side.bands(features, distributions)
        warnings = side.warnings(features)
        signature, known, reasons = self.signature(), set(self.annotators), features.reasons()
        added = self._attributions(features, distributions, speakers)
        scores: list[Score | Unscored] = []
        for row, name in enumerate(speakers):
            target, who = features.targets[row], str(name) if name in known else POPULATION
            if not features.present[row].any():
                scores.append(Unscored(target, who, why_nothing(reasons, target), signature))
                continue
            shares, band = distributions[row], (float(ends[row, 0]), float(ends[row, 1]))
            scores.append(
                score_from(target, who, side.options, shares, signature, band, warnings[row], tuple(added[row]))
            )
        return scores

    def _attributions(
        self, features: EvidenceTable, distributions: Floats, speakers: Sequence[str | None]
    ) -> list[list[tuple[str, float]]]:
        """For each row what each thing that columns are `part_of` added: the score less the score without it."""
        parts: dict[str, list[int]] = {}
        for place, column in enumerate(features.columns):
            if column.part_of is not None:
                parts.setdefault(column.part_of, []).append(place)
        added: list[list[tuple[str, float]]] = [[] for _ in speakers]
        options = self.trained_on_.options
        for name, places in parts.items():
            rows = np.flatnonzero((features.values[:, places] != 0).any(axis=1))
            if not len(rows):
                continue
            without = features.take(rows)
            values = without.values.copy()
            values[:, places] = 0.0
            others = self.distributions(replace(without, values=values), [speakers[int(row)] for row in rows])
            for row, other in zip(rows, others, strict=True):
                added[row].append((name, float((distributions[row] - other) @ options)))
        return [sorted(each, key=lambda one: -abs(one[1])) for each in added]

    def speaker(self, annotator: str | None) -> str | None:
        """The annotator, or the group for one of its members.

        Raises:
            UnknownName: The annotator gave no label that was learned from.
        """
        return super().speaker(None if annotator is None else self._group(annotator))

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """(n, K) each row's distribution for its annotator; `features` are this evaluator's own columns."""
        side = self.trained_on_
        shares = side.levels.fine(self._fitted().distributions(self._beside(features), annotators))
        return self.shifts_.apply(features, side.options, shares)

    def _beside(self, features: EvidenceTable) -> EvidenceTable:
        """This evaluator's own columns as its core reads them."""
        return features if self.others_ is None else self.others_.beside(features)

    def features(self, evidence: EvidenceTable) -> EvidenceTable:
        """The evidence as this evaluator's own columns, in their order.

        Raises:
            BadInput: A column is missing, or made otherwise than the one that was learned from.
        """
        columns = self.trained_on_.columns
        differences = any(column.centre is not None for column in columns)  # those are of expected answers
        return (evidence.expected() if differences else self._fitted().shown(evidence)).align(columns)

    def signature(self) -> Signature:
        """How this evaluator's scores are made."""
        core, mixed = self._fitted(), "mixed" in _parts(self._fitted())
        makers = dict.fromkeys(c.signature for c in self.trained_on_.columns if c.question is not None)
        judges = dict.fromkeys(maker.partition("|question:")[0] for maker in makers)
        return Signature.of(
            self.method,
            core="+".join(_parts(core)),
            question=self.question.id,
            features=len(self.trained_on_.columns),
            annotators=len(self.annotators),
            labels=sum(self.trained_on_.counts.values()),
            slopes=("own" if self.own_slopes else "common") if mixed else None,
            spread=self.threshold_spread if mixed else None,
            domain=self.domain_,
            domain_correlation=self.domain_correlation if self.domain_ else None,
            beside="+".join(self.others_.sheets) if self.others_ else None,
            even_by="+".join(self.shifts_.tilts) or None,
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
            name: {
                "labels": self.trained_on_.counts.get(name, 0),
                **({"level": levels[name]} if name in levels else {}),
            }
            for name in self.annotators
        }
        return {
            "method": self.method,
            "core": "+".join(_parts(self._fitted())),
            "candidates": dict(self.tried_),
            "signature": str(self.signature()),
            "coverage": self.coverage,
            **self.trained_on_.describe(),
            "other_questions": dict(self.others_.sheets) if self.others_ else {},
            "group_shifts": self.shifts_.to_json(),
            **learned,
            "annotators": people,
        }

    def remarks(self) -> list[str]:
        """Which other questions were learned from, and which groups' scores are shifted."""
        self.check_fitted()
        return [*(self.others_.lines() if self.others_ else []), *self.shifts_.lines()]

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """What was learned, as JSON and arrays."""
        core = self._fitted()
        (parts_of_core, of_core), (side, of_side) = core.state(), self.trained_on_.state()
        learned = {"trained_on": side, "core": list(_parts(core)), "parts": parts_of_core}
        card = {**learned, "domain": self.domain_, "tried": self.tried_, "shifts": self.shifts_.to_json()}
        card["others"], of_others = self.others_.state() if self.others_ else (None, {})
        parts = {"core": of_core, "trained_on": of_side, "others": of_others}
        return card, {f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """The inverse of `state`."""
        core, side, others = (
            {name.removeprefix(f"{part}."): array for name, array in arrays.items() if name.startswith(f"{part}.")}
            for part in ("core", "trained_on", "others")
        )
        self.others_ = None if card["others"] is None else OtherQuestions.restored(card["others"], others)
        self.tried_ = dict(card["tried"])
        cores = {name: self._made(name) for name in card["core"]}
        empty = StackCore(cores, card["parts"]["weights"]) if len(cores) > 1 else next(iter(cores.values()))
        made = empty.restore(card["parts"], core)
        shifts = GroupShifts.from_json(card["shifts"])
        return self._take(made, TrainedOn.restored(card["trained_on"], side), shifts, card["domain"])

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The evidence that was learned from."""
        return None if self.core_ is None else self.trained_on_.columns

    def seen(self, evidence: EvidenceTable) -> tuple[EvidenceTable, EvidenceTable] | None:
        """The texts that were learned from, and the evidence as this evaluator's own columns."""
        return self.trained_on_.texts(), self.features(evidence)

    def chosen(self) -> dict[str, Json]:
        """The settings, with the core that was chosen, or those that are averaged."""
        core, *others = _parts(self._fitted())
        return {**self.settings(), **({"candidates": [core, *others]} if others else {"core": core})}

    def _fitted(self) -> Core:
        self.check_fitted()
        assert self.core_ is not None
        return self.core_


@heads.register("auto")
def auto(question: Question, **settings: Any) -> Calibration:
    """The default: every way that applies is tried on inner folds, and those that help are averaged."""
    return Calibration(question, **{"core": "auto", **settings})


@heads.register("mixed")
def mixed(question: Question, **settings: Any) -> Calibration:
    """Personalised calibration by linear mixed effects (REML) under an ordered probit."""
    return Calibration(question, **{"core": "mixed", **settings})


@heads.register("svr")
def svr(question: Question, **settings: Any) -> Calibration:
    """Support vector regression on each text's mean rating, as MoE-CIU's paper learns its reward."""
    return Calibration(question, **{"core": "svr", **settings})


@heads.register("network")
def network(question: Question, **settings: Any) -> Calibration:
    """Personalised calibration by LLM-RUBRIC's network, as in the paper or regularised."""
    return Calibration(question, **{"core": "network", **settings})


def _parts(core: Core) -> tuple[str, ...]:
    """The names of what a core is made of."""
    return tuple(core.parts) if isinstance(core, StackCore) else (core.name,)

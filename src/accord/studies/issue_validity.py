"""Whether issues were rightly found: the outcome of the study `detection` (SODA-EVAL, table 13)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.statistics import RANK_DRAWS, counted, fleiss_kappa, mean_kappa, no_fleiss, pairwise_kappas
from accord.studies.study_outcome import Floats, Given, Outcome, Resampling, Table, Validated, table
from accord.values import Estimate, IssueAnnotation, Taxonomy, text_table

DETECTION, QUESTION = "detection", "validation:detection"
ANSWERS = {0: "bad", 1: "fair", 2: "good"}
NONE = "None"
"""The kind of a turn without issues."""
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Answered:
    """How many answers have a value, and what it is called."""

    value: int
    word: str
    answers: int


@dataclass(frozen=True)
class PersonFound:
    """A person's answers, and the share of them that says valid."""

    annotator: str
    answers: int
    valid: float | None


@dataclass(frozen=True)
class KindValidity:
    """The turns with a kind of issue: how many, their share of all, and the share of them that is valid by both rules.

    Nobody is asked whether a kind that is not objective is valid.
    """

    type: str
    objective: bool | None
    examples: int
    share: float | None
    majority: Estimate
    all_agree: Estimate


@dataclass(frozen=True)
class PairKappa:
    """Cohen's κ of two people on the turns that both answered."""

    first: str
    second: str
    shared: int
    kappa: float | None


@dataclass(frozen=True)
class FleissKappa(Estimate):
    """Fleiss' κ, or why it is undefined."""

    undefined: str | None = None


@dataclass(frozen=True, kw_only=True)
class DetectionOutcome(Outcome):
    """Validity as each annotator sees it, by both rules over all examples, by kind; and how far annotators agree.

    Attributes:
        valid: Mean over annotators of the share that each finds valid; `valid_range` is the lowest and the highest.
        majority: Share of the examples that more than half find valid.
        all_agree: Share of the examples that not all find bad.
        cohen_kappa: Mean over pairs, on the three answers; `cohen_kappa_valid` on valid or not.
    """

    answers: int
    answers_by_value: Sequence[Answered]
    annotators: Sequence[PersonFound]
    valid: Estimate
    valid_range: Sequence[float] | None
    majority: Estimate
    all_agree: Estimate
    types: Sequence[KindValidity]
    cohen_kappa: Estimate
    cohen_kappa_valid: Estimate
    pairs: Sequence[PairKappa]
    fleiss_kappa: FleissKappa

    def lines(self) -> list[str]:
        """Validity by kind, by person, and agreement."""
        rows = [(each.type, each.examples, each.majority, each.all_agree) for each in self.types]
        shown = [
            [name, str(count), majority.text(), absolute.text()]
            for name, count, majority, absolute in [*rows, ("all", self.examples, self.majority, self.all_agree)]
            if count
        ]
        low, high = self.valid_range or (None, None)
        return [
            text_table(["found", "turns", "valid (majority)", "valid (unless all say bad)"], shown),
            f"{len(self.annotators)} people; each finds {Estimate(low).text()} to {Estimate(high).text()} of the turns "
            "valid",
            f"κ of pairs {self.cohen_kappa.text()}, Fleiss' κ {self.fleiss_kappa.text()}",
        ]


def majority_valid(answers: Floats) -> Flags:
    """(N,) whether more than half of the answers of (N, A) say fair or good; NaN is no answer."""
    return np.asarray((answers >= 1).sum(axis=1) * 2 > (~np.isnan(answers)).sum(axis=1))


def not_all_bad(answers: Floats) -> Flags:
    """(N,) whether any answer of (N, A) says fair or good: not all agree that the detection was incorrect."""
    return np.asarray((answers >= 1).any(axis=1))


def detection_outcome(
    given: Given,
    about: Validated,
    assessments: Iterable[IssueAnnotation],
    taxonomy: Taxonomy,
    draws: int = RANK_DRAWS,
    seed: int = 0,
) -> DetectionOutcome:
    """The outcome of the study `detection`.

    Args:
        given: What people answered.
        about: What was validated.
        assessments: Of the turns, by that maker.
        taxonomy: Says which kinds are objective.
        draws: Bootstrap samples.
        seed: Fixes them.
    """
    found = {each.target: each for each in assessments if each.signature == about.signature}
    [said] = table(given, [QUESTION], found)
    drawn = Resampling.of(said.targets, draws, seed)
    answers, options = said.answers, tuple(ANSWERS)
    everywhere, valid = np.ones(len(said.targets), dtype=bool), np.where(np.isnan(answers), np.nan, answers >= 1)
    people = [
        PersonFound(name, int((~np.isnan(own)).sum()), _valid_share(own))
        for name, own in zip(said.annotators, answers.T, strict=True)
    ]
    shares = [each.valid for each in people if each.valid is not None]
    counts = counted(answers, options)
    fleiss = drawn.figure(lambda rows: fleiss_kappa(counts[rows]))
    return DetectionOutcome(
        flow=DETECTION,
        signature=about.signature,
        planned=len(about.turns),
        examples=len(said.targets),
        answers=int((~np.isnan(answers)).sum()),
        answers_by_value=[Answered(value, word, int((answers == value).sum())) for value, word in ANSWERS.items()],
        annotators=people,
        valid=drawn.figure(lambda rows: _mean_share(answers[rows])),
        valid_range=[min(shares), max(shares)] if shares else None,
        majority=drawn.share(majority_valid(answers), everywhere),
        all_agree=drawn.share(not_all_bad(answers), everywhere),
        types=_types(said, [found[turn] for turn in said.targets], taxonomy, drawn),
        cohen_kappa=drawn.figure(lambda rows: mean_kappa(answers[rows])),
        cohen_kappa_valid=drawn.figure(lambda rows: mean_kappa(valid[rows])),
        pairs=[
            PairKappa(said.annotators[one], said.annotators[other], shared, kappa)
            for one, other, shared, kappa in pairwise_kappas(answers)
        ],
        fleiss_kappa=FleissKappa(fleiss.value, fleiss.low, fleiss.high, no_fleiss(counts)),
    )


def _valid_share(own: Floats) -> float | None:
    said = own[~np.isnan(own)]
    return float((said >= 1).mean()) if len(said) else None


def _mean_share(answers: Floats) -> float | None:
    each = [share for own in answers.T if (share := _valid_share(own)) is not None]
    return float(np.mean(each)) if each else None


def _types(
    given: Table, assessed: Sequence[IssueAnnotation], taxonomy: Taxonomy, drawn: Resampling
) -> list[KindValidity]:
    """Table 13: kinds in the taxonomy's order after "None"; kinds of another taxonomy come last."""
    objective: dict[str, bool | None] = {NONE: True, **{kind.name: kind.objective for kind in taxonomy.issues}}
    kinds = [{issue.type for issue in each.issues} or {NONE} for each in assessed]
    objective |= dict.fromkeys(sorted({name for own in kinds for name in own} - set(objective)), None)
    majority, absolute = majority_valid(given.answers), not_all_bad(given.answers)
    rows = []
    for name, asked in objective.items():
        among = np.array([name in own for own in kinds], dtype=bool)
        both = [drawn.share(rule, among) if asked else Estimate() for rule in (majority, absolute)]
        rows.append(KindValidity(name, asked, int(among.sum()), float(among.mean()) if len(among) else None, *both))
    return rows

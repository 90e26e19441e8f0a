"""Figures behind a verdict, about the predictions for a new annotator, averaged over repeated cross-validations.

`accord score` predicts a new annotator by default, so error, correlation, bands, groups and calls are about these
predictions. The constant, the raw judge and other people are measured on the same ratings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from accord.decisions.held_out_uses import BadFound, HeldOutTexts, VersionGap
from accord.decisions.recommendation import Contest, Decision
from accord.decisions.selective import AGREE, sure_enough
from accord.edges import count_of
from accord.evidence import EvidenceTable, Ratings
from accord.learning import HeldOutAnswers, Predictions
from accord.results import Figure, Ledger
from accord.statistics import (
    RANK_DRAWS,
    SIGNIFICANT,
    STATISTICS,
    Clusters,
    MeanStatistic,
    Paired,
    PairedTest,
    bootstrap,
    clustered_mean,
    estimate_from_draws,
    group_biases,
    mean_over,
    units_alpha,
    within,
)
from accord.validation import (
    BEST_COLUMN,
    CONSTANT,
    COVERAGE_NEW,
    JUDGE_ALONE,
    NEW,
    R_NEW,
    WIDTH_NEW,
    Comparison,
    Repeats,
    gain_over,
    labels_needed,
    other_people,
)
from accord.values import Estimate, Target

SINGLE = 0.9
"""Smallest correlation with one count at which predictions rest on it."""
SAME = 0.9
"""Smallest share of ratings with a second person at which these ratings stand for all ratings."""
LENGTHS = frozenset({"turns", "words-per-reply", "user-words", "words"})
"""Counts that measure length."""
Evidence = Literal["none", "unasked", "asked"]
"""State of the judge: none is configured, some questions are unasked, or all were asked."""
PLURALS = {"conversation": "conversations", "reply": "replies"}
FIGURES, USES = "accord.decisions.figures_of", "accord.decisions.held_out_uses.HeldOutTexts"
"""Functions behind the figures."""
Floats = NDArray[np.float64]
_RMSE = cast(MeanStatistic, STATISTICS["rmse"])


@dataclass(frozen=True)
class Figures:
    """Figures of an evaluator on held-out ratings, for a new annotator.

    Attributes:
        low, high: Ends of the scale.
        labels: Number of ratings.
        error: RMSE.
        constant: RMSE of a constant guess.
        shared: Number of ratings of targets that another person also rated, and the RMSE of the evaluator and of a
            constant guess on these ratings, or `None` if no target has two annotators.
        people: RMSE of other people's mean rating on the shared ratings.
        alpha: Krippendorff's ordinal α of the annotators, with its interval over groups.
        r: Correlation with people, within annotators (`is_within`), or of the single annotator's ratings.
        people_r: The same of other people.
        tests: Paired tests of `error` against the constant, the best feature and the raw judge.
        rivals: Errors of these systems by name.
        band: Mean width of the bands, as a share of the scale.
        near: Share of scores at most a step of the scale from the rating; then the shares of other people's ratings and
            of a constant guess, on the shared ratings or on all; each rounded to an option. With two options, share on
            the side of the rating.
        step: Distance between neighboring options: a tenth of a long scale, `None` for two options.
        units: Number of rated conversations or replies.
        unit: `conversation` or `reply`.
        decided: Share of ratings that can be called good or bad with an agreement of `AGREE`, or `None` if unknown.
        biased: Assistant versions whose mean error differs from the other versions' error, or `None` for one version.
        labels_needed: Further ratings needed for a significant difference from the constant, if they can be estimated.
        rests_on: Count on which the predictions rest, with its correlation, or `None` if they use more than one count.
        doubled: Change of a score if every reply is written twice, in units of the scale, or `None` if unmeasured.
        judge: State of the judge's answers.
        repeats: The figures of each repetition of the cross-validation; empty for a single one.
        annotators: Number of people who gave the ratings.
        evaluator: Name of the evaluator.
        intervals: Estimates with their intervals by name of the figure (`accord.results.DEFINITIONS`).
        found: Low-rated texts among the lowest scores, or `None` if there are too few texts.
        versions: Difference of two assistant versions by scores and by people, or `None` if there are fewer than two.
    """

    low: float
    high: float
    labels: int
    error: float | None
    constant: float | None = None
    shared: tuple[int, float, float] | None = None
    people: float | None = None
    alpha: Estimate = Estimate()
    r: Estimate = Estimate()
    is_within: bool = True
    people_r: Estimate = Estimate()
    tests: Mapping[str, PairedTest] = field(default_factory=dict)
    rivals: Mapping[str, float | None] = field(default_factory=dict)
    band: float | None = None
    near: tuple[float | None, float | None, float | None] = (None, None, None)
    step: float | None = 1.0
    units: int | None = None
    unit: str = "conversation"
    decided: float | None = None
    biased: Sequence[str] | None = None
    labels_needed: int | None = None
    rests_on: tuple[str, float] | None = None
    doubled: float | None = None
    judge: Evidence = "none"
    repeats: Sequence[Figures] = ()
    annotators: int | None = None
    evaluator: str = ""
    intervals: Mapping[str, Estimate] = field(default_factory=dict)
    found: BadFound | None = None
    versions: VersionGap | None = None

    @property
    def is_partly_shared(self) -> bool:
        """True if errors on the ratings with a second person are shown apart from those on all ratings."""
        return self.shared is not None and self.people is not None and self.shared[0] < SAME * self.labels

    @property
    def about(self) -> str:
        """Set of ratings behind the figures, in words."""
        units = "" if self.units is None else f" of {count_of(self.units, self.unit, PLURALS[self.unit])}"
        people = "" if self.annotators is None else f" by {count_of(self.annotators, 'person', 'people')}"
        return f"{count_of(self.labels, 'held-out rating')}{units}{people}"

    @cached_property
    def ledger(self) -> Ledger:
        """All figures of the evaluator by name, each with its interval, its number and the ratings it is about."""
        about, n, span = self.about, self.labels, self.high - self.low
        shared = (None, None, None) if self.shared is None else self.shared
        second = about if shared[0] is None else (
            f"{count_of(shared[0], 'held-out rating')} of texts with a second person"
            if self.is_partly_shared else about
        )  # fmt: skip
        values: list[tuple[str, float | None, str, int | None]] = [
            ("error", self.error, about, n), ("constant_error", self.constant, about, n),
            ("people_error", self.people, second, shared[0]),
            ("column_error", self.rivals.get(BEST_COLUMN), about, n),
            ("judge_error", self.rivals.get(JUDGE_ALONE), about, n),
            ("shared_error", shared[1] if self.is_partly_shared else None, second, shared[0]),
            ("within_one", self.near[0], second, shared[0] or n),
            ("within_one_people", self.near[1], second, shared[0]),
            ("within_one_constant", self.near[2], second, shared[0] or n),
            ("r", self.r.value, about, n), ("people_r", self.people_r.value, second, shared[0]),
            ("alpha", self.alpha.value, about, n),
            ("band", None if self.band is None else self.band * span, about, n),
            ("coverage", self._interval("coverage").value, about, n),
        ]  # fmt: skip
        figures = [
            Figure.measured(name, replace(self._interval(name), value=value), count, set_of, source=FIGURES)
            for name, value, set_of, count in values
            if value is not None
        ]
        return Ledger(replace(each, of=self.evaluator) for each in (*figures, *self._of_uses()))

    def _interval(self, name: str) -> Estimate:
        own = {"r": self.r, "people_r": self.people_r, "alpha": self.alpha}
        return own[name] if name in own else self.intervals.get(name, Estimate())

    def _of_uses(self) -> Iterator[Figure]:
        """Yield the figures of the uses: low-rated texts that are found, the versions by scores and people, calls."""
        many = PLURALS[self.unit]
        if (found := self.found) is not None:
            about = f"the {found.read:,} lowest of {found.texts:,} held-out scores"
            yield Figure.measured("bad_found", found.found, found.read, about, "scores", source=USES)
            yield Figure("bad_found_by_chance", found.chance, n=found.read, about=about, source=USES)
        if (gap := self.versions) is not None:
            part = f"{gap.first} − {gap.second}"
            by = "" if self.annotators is None else f", by {count_of(self.annotators, 'person', 'people')}"
            about = f"{sum(gap.people.sizes):,} rated {many}, {gap.people.sizes[0]:,} and {gap.people.sizes[1]:,}{by}"
            n = sum(gap.people.sizes)
            yield Figure.measured("people_difference", gap.people.gap, n, about, "people", part=part, source=USES)
            yield Figure.measured(
                "score_difference", gap.scores.gap, n, f"{about}, held out", "scores", part=part, source=USES
            )
            yield Figure.measured("difference_gap", gap.gap.gap, n, f"{about}, held out", part=part, source=USES)
        if self.decided is not None and self.units is not None:
            sure = max(round(self.decided * self.units), int(self.decided > 0))
            yield Figure(
                "decided", sure, n=self.units, about=f"held-out scores of {self.units:,} {many}", source=FIGURES
            )


def figures_of(
    found: Comparison,
    speakers: NDArray[np.object_] | None = None,
    decision: Decision | None = None,
    rests: tuple[str, float] | None = None,
    doubled: float | None = None,
    judge: Evidence = "none",
) -> Figures:
    """Collect the figures of a comparison's first system.

    Args:
        found: The comparison.
        speakers: (n,) assistant version that each rating is about, if known.
        decision: The decision that led to the system; its number of labels is used.
        rests: Count on which the predictions rest (`rests_on`).
        doubled: Change of a score if every reply is written twice.
        judge: State of the judge's answers.
    """
    rated, first = found.ratings, found.systems[0].name
    known = [each.name for each in found.systems]
    names = [first, *(name for name in (CONSTANT, BEST_COLUMN, JUDGE_ALONE) if name in known and name != first)]
    systems = {name: found.repeats(name) for name in names}
    measured = Measured(rated, systems, first, other_people(rated), speakers)
    row = found.results[0].estimates
    r, width, alpha = row[R_NEW], row[WIDTH_NEW], _people_alpha(rated)
    repeats = [replace(each.figures(r), alpha=alpha, rests_on=rests) for each in measured.singles]
    plain, texts = measured.figures(r), HeldOutTexts.of(systems[first], rated, speakers)
    intervals = {"error": row[NEW], "coverage": row[COVERAGE_NEW], **measured.near_estimates()}
    intervals |= {
        figure: found[name].estimates[NEW]
        for figure, name in (("constant_error", CONSTANT), ("column_error", BEST_COLUMN), ("judge_error", JUDGE_ALONE))
        if name in names
    }
    if found.people is not None:
        intervals["people_error"] = found.people.estimates["rmse"]
    if width.value is not None:
        intervals["band"] = width
    if plain.is_partly_shared:
        intervals["shared_error"] = measured.shared_error()
    return replace(
        plain,
        error=row[NEW].value,
        intervals=intervals,
        annotators=len(set(rated.annotator)),
        evaluator=first,
        found=texts.bad_found(),
        versions=texts.version_gap(),
        alpha=alpha,
        r=r,
        people_r=Estimate() if found.people is None else found.people.estimates[R_NEW],
        tests={name: test for name in names[1:] if (test := measured.contest.test(first, name)) is not None},
        band=None if width.value is None else width.value / measured.span,
        labels_needed=_needed(systems, first, rated, decision),
        rests_on=rests,
        doubled=doubled,
        judge=judge,
        repeats=repeats if len(repeats) > 1 else (),
    )


@dataclass(frozen=True)
class Measured:
    """Numbers without intervals about a system and its rivals, over some repetitions of the cross-validation."""

    rated: Ratings
    systems: Mapping[str, Repeats]
    first: str
    people: Predictions | None
    speakers: NDArray[np.object_] | None

    @property
    def singles(self) -> list[Measured]:
        """The numbers of each repetition of the system; a rival with fewer repetitions has its first."""
        return [
            replace(self, systems={name: each[place : place + 1] or each[:1] for name, each in self.systems.items()})
            for place in range(len(self.ours))
        ]

    @cached_property
    def contest(self) -> Contest:
        """Errors of all systems, and tests between them."""
        return Contest(self.systems, self.rated)

    @property
    def ours(self) -> Repeats:
        """Predictions of the system in each repetition."""
        return self.systems[self.first]

    @property
    def span(self) -> float:
        """Width of the scale."""
        return float(np.ptp(self.rated.options)) or 1.0

    def figures(self, r: Estimate) -> Figures:
        """Return the numbers as figures; the lower bound of r is as far below its value as in the estimate `r`."""
        rated, rmse, rows = self.rated, self.contest.rmse, self._rows
        value = self._r(rows)
        low = None if value is None or r.value is None or r.low is None else value - (r.value - r.low)
        bands = np.concatenate([each.new_band[rows] for each in self.ours])
        is_banded = len(bands) > 0 and bool(np.isfinite(bands).all())
        calls = sure_enough(HeldOutAnswers.of(self.ours, rated), AGREE) if np.ptp(rated.options) > 0 else None
        return self._with_units(Figures(
            low=float(rated.options[0]),
            high=float(rated.options[-1]),
            labels=len(rated),
            error=rmse.get(self.first),
            constant=rmse.get(CONSTANT),
            shared=self._shared(),
            people=None if self.people is None else _error([self.people], rated, self.people.scored),
            r=Estimate(value, low),
            is_within=len(set(rated.annotator)) > 1,
            tests={name: test for name in self.systems if (test := self._quick_test(name)) is not None},
            rivals={name: rmse.get(name) for name in self.systems if name != self.first},
            band=float(np.diff(bands, axis=1).mean()) / self.span if is_banded else None,
            near=self._near(),
            decided=None if calls is None else calls.share,
            biased=self._biased(),
        ))  # fmt: skip

    def _with_units(self, figures: Figures) -> Figures:
        """Return the figures with the step of the scale, and how many texts of which kind were rated."""
        rated = self.rated
        step = None if len(rated.options) == 2 else self.ours[0].paired_new(rated).step
        unit = "conversation" if all(target.turn is None for target in rated.target) else "reply"
        return replace(figures, step=step, units=len(set(rated.target)), unit=unit)

    @property
    def _rows(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.contest.scored[self.first])

    def _r(self, rows: NDArray[np.intp]) -> float | None:
        """Return r within annotators, averaged over repetitions."""
        statistic = within(self.rated.annotator[rows].astype(object))["pearson"]
        return mean_over(statistic, [each.paired_new(self.rated).take(rows) for each in self.ours])

    def _shared(self) -> tuple[int, float, float] | None:
        """Return the number of ratings with another person's rating, and both errors on them."""
        if self.people is None or CONSTANT not in self.systems:
            return None
        rows = self.people.scored & self.contest.scored[self.first] & self.contest.scored[CONSTANT]
        errors = [_error(self.systems[name], self.rated, rows) for name in (self.first, CONSTANT)]
        return None if errors[0] is None or errors[1] is None else (int(rows.sum()), errors[0], errors[1])

    @property
    def _compared_rows(self) -> NDArray[np.intp]:
        """Indices of the ratings that the system scored, of those with another person's rating if there are some."""
        shared = np.zeros(0) if self.people is None else self.people.scored & self.contest.scored[self.first]
        return np.flatnonzero(shared) if shared.any() else self._rows

    def _near(self) -> tuple[float | None, float | None, float | None]:
        """Return the shares within a step of the rating: of the scores, of other people and of a constant guess.

        All values are rounded to the nearest option. The mean of several people may be a fraction, the answer of one
        person is whole, and scores and the constant are never whole. On a scale from 1 to 4, a whole answer has up to
        three answers within one point and a fraction at most two, so unrounded shares would compare unlike values.
        """
        values = [mean_over(self._near_statistic, pairs) if pairs else None for pairs in self._rounded()]
        return values[0], values[1], values[2]

    def near_estimates(self) -> dict[str, Estimate]:
        """Return the same shares with their intervals over groups, by name of the figure."""
        clusters = Clusters(self.rated.group[self._compared_rows])
        names = ("within_one", "within_one_people", "within_one_constant")
        return {
            name: bootstrap(clusters, self._near_statistic, pairs)
            for name, pairs in zip(names, self._rounded(), strict=True)
            if pairs and len(clusters) > 1
        }

    @property
    def _near_statistic(self) -> MeanStatistic:
        return cast(MeanStatistic, STATISTICS["accuracy" if len(self.rated.options) == 2 else "within_one"])

    def _rounded(self) -> Iterator[list[Paired]]:
        """Yield the predictions of the system, other people and the constant, rounded; empty if one is missing."""
        rows = self._compared_rows
        for repeats in (self.ours, [self.people], self.systems.get(CONSTANT, ())):
            pairs = [each.paired_new(self.rated).take(rows) for each in repeats if each is not None]
            is_known = bool(pairs) and len(rows) > 0 and all(np.isfinite(each.value).all() for each in pairs)
            yield [replace(each, value=each.options[each.decided]) for each in pairs] if is_known else []

    def shared_error(self) -> Estimate:
        """Return the RMSE on the compared ratings with its interval over groups."""
        rows = self._compared_rows
        if not len(rows):
            return Estimate()
        pairs = [each.paired_new(self.rated).take(rows) for each in self.ours]
        clusters = Clusters(self.rated.group[rows])
        return bootstrap(clusters, _RMSE, pairs) if len(clusters) > 1 else Estimate(mean_over(_RMSE, pairs))

    def _quick_test(self, name: str) -> PairedTest | None:
        """Return a t test of the squared errors over groups against another system."""
        if name == self.first:
            return None
        errors = [
            np.mean([(each.new_value - self.rated.value) ** 2 for each in self.systems[one]], axis=0)
            for one in (self.first, name)
        ]
        rows = np.flatnonzero(np.isfinite(errors[0]) & np.isfinite(errors[1]))
        if len(set(self.rated.group[rows])) < 2:
            return None
        difference = clustered_mean((errors[0] - errors[1])[rows], self.rated.group[rows])
        return PairedTest(difference.mean, None, None, difference.p)

    def biases(self) -> dict[str, tuple[float, float]]:
        """Return the bias of each assistant version compared with the others, and its p; empty for fewer than two."""
        if self.speakers is None:
            return {}
        error = np.mean([each.new_value for each in self.ours], axis=0) - self.rated.value
        return group_biases(error, self.rated.group, [name or None for name in self.speakers])

    def _biased(self) -> list[str] | None:
        """Return the assistant versions whose mean error differs significantly from the other versions' error."""
        biases = self.biases()
        return [name for name, (_, p) in biases.items() if p < SIGNIFICANT] if biases else None


def _error(repeats: Repeats, rated: Ratings, rows: NDArray[np.bool_]) -> float | None:
    return mean_over(_RMSE, [each.paired_new(rated).take(np.flatnonzero(rows)) for each in repeats])


def _needed(systems: Mapping[str, Repeats], first: str, rated: Ratings, decision: Decision | None) -> int | None:
    """Return the number of further ratings that would show the gain over the constant, or `None` if unknown."""
    if decision is not None and decision.evaluator == first:
        return decision.labels_needed
    gain = gain_over(systems[CONSTANT], systems[first], rated, len(rated)) if CONSTANT in systems else None
    return None if gain is None or gain.value <= 0 else labels_needed([gain])


def _people_alpha(rated: Ratings) -> Estimate:
    """Return Krippendorff's ordinal α of the annotators, with its interval over groups."""
    row_of: dict[Target, int] = {}
    place = np.array([row_of.setdefault(target, len(row_of)) for target in rated.target], dtype=np.intp)
    counts = np.zeros((len(row_of), len(rated.options)))
    np.add.at(counts, (place, rated.answer), 1.0)
    groups = np.empty(len(row_of), dtype=object)
    groups[place] = rated.group
    several = counts.sum(axis=1) > 1
    if not several.any() or (counts[several].sum(axis=0) > 0).sum() < 2:
        return Estimate()
    clusters = Clusters(groups[several])
    value = float(units_alpha(counts[several], np.ones((1, int(several.sum()))))[0])
    if len(clusters) < 2:
        return Estimate(value)
    return estimate_from_draws(value, units_alpha(counts[several], clusters.counts(RANK_DRAWS, 0)[:, clusters.of_row]))


def rests_on(
    repeats: Repeats, rated: Ratings, evidence: EvidenceTable, least: float = SINGLE
) -> tuple[str, float] | None:
    """Return the count on which predictions rest, with its correlation, or `None` if there is none.

    A count is a metric that no model makes, such as the number of words in a reply. Predictions rest on it if Pearson's
    r or Spearman's ρ over the rated targets is at least `least` in absolute value.
    """
    value = np.mean([each.new_value for each in repeats], axis=0)
    strongest: tuple[str, float] | None = None
    for place, column in enumerate(evidence.columns):
        if not column.signature.startswith("metric"):
            continue
        known = np.flatnonzero(evidence.present[rated.row, place] & np.isfinite(value))
        counted = evidence.values[rated.row[known], place]
        paired = Paired(value[known], np.arange(len(known)), np.zeros((len(known), 0)), counted)
        found = [STATISTICS[name](paired) for name in ("pearson", "spearman")] if len(known) else []
        highest = max((each for each in found if each is not None), key=abs, default=0.0)
        if abs(highest) >= max(least, abs(strongest[1]) if strongest else 0.0):
            strongest = (column.name, highest)
    return strongest

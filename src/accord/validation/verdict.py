"""The verdict on an evaluator: one of four states, derived from its figures on held-out ratings by stated rules.

A state holds if its own rules and those of the states below it are met. The rules, their limits and the measured
values are the rows of `Verdict.checks`, so that the sentence cannot disagree with the figures.

- triage: error below that of the constant (p < `SURE`); lower bound of r within annotators above 0.
- systems: neither the best column nor the raw judge is better; lower bound of r at least `R_SYSTEMS`; no biased system.
- single: error at most `NEAR_PEOPLE` times that of other people; lower bound of r at least `R_SINGLE`; bands at most
  `WIDEST_BAND` of the scale.
- not yet: the rules of triage are not met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from accord.learning import Predictions
from accord.statistics import STATISTICS, Clusters, MeanStatistic, PairedTest, fixed_sequence, paired_test
from accord.validation.comparison import Comparison
from accord.validation.fairness import group_biases
from accord.validation.metrics_table import NEW
from accord.validation.recommendation import (
    BEST_COLUMN,
    CONSTANT,
    FEWEST_MORE,
    JUDGE_ALONE,
    SURE,
    gain_over,
    labels_needed,
)
from accord.values import Estimate, p_text

State = Literal["not yet", "triage", "systems", "single"]
STATES: tuple[State, ...] = ("not yet", "triage", "systems", "single")
"""The states, the least useful first."""
R_SYSTEMS, R_SINGLE = 0.3, 0.5
"""Lower bounds of r within annotators that the comparison of systems and single scores need."""
NEAR_PEOPLE = 1.1
"""Largest error as a multiple of that of other people."""
WIDEST_BAND = 0.5
"""Largest mean width of a band, as a share of the scale."""
AGREE = 0.9
"""Promised agreement of the decided share, as in `accord score --agree .9`."""
SIGNIFICANCE = 0.05
ACTIONS_SHOWN = 3
TITLES = {"single": "Ready for single conversations", "systems": "Ready for comparing systems",
          "triage": "Useful for triage"}  # fmt: skip


class Rule(NamedTuple):
    """A rule with its measured value; `is_met` is None if the data cannot test it, which does not lower the state."""

    state: State
    name: str
    value: str
    limit: str
    is_met: bool | None
    failure: str
    remedy: tuple[str, str]


@dataclass(frozen=True)
class Figures:
    """Figures of an evaluator on held-out ratings.

    Attributes:
        low, high: Ends of the scale.
        labels: Number of ratings.
        error: RMSE for a new annotator; for the only annotator if all ratings are by one.
        constant, people: The same of a constant guess, and of other people's mean rating.
        r: Correlation with people, within annotators (`is_within`) or pooled for a single annotator.
        people_r: The same of other people.
        tests: Paired tests of `error` against the constant, the best column and the raw judge.
        rivals: Errors of these systems by name.
        band: Mean width of the bands, as a share of the scale.
        decided: Share of ratings that can be called good or bad with an agreement of `AGREE`; None if untested.
        biased: Systems whose mean error differs from that of the others; None with fewer than two systems.
        labels_needed: Further ratings needed for a significant difference from the constant, if they can be estimated.
    """

    low: float
    high: float
    labels: int
    error: float | None
    constant: float | None = None
    people: float | None = None
    r: Estimate = Estimate()
    is_within: bool = True
    people_r: Estimate = Estimate()
    tests: Mapping[str, PairedTest] = field(default_factory=dict)
    rivals: Mapping[str, float | None] = field(default_factory=dict)
    band: float | None = None
    decided: float | None = None
    biased: Sequence[str] | None = None
    labels_needed: int | None = None

    @property
    def position(self) -> float | None:
        """Place of the error between the constant (0) and people (1); None if people are not below the constant."""
        if self.error is None or self.constant is None or self.people is None or self.people >= self.constant:
            return None
        return (self.constant - self.error) / (self.constant - self.people)


@dataclass(frozen=True)
class Verdict:
    """State of an evaluator with its title, its sentence, the rules behind it, and what to do next.

    Attributes:
        state: One of `STATES`.
        title: The state in words.
        sentence: The error compared with that of people and the constant, and the reason why no higher state holds.
        checks: All rules.
        actions: At most three actions, each with its command.
        figures: The figures behind the rules.
    """

    state: State
    title: str
    sentence: str
    checks: Sequence[Rule]
    actions: Sequence[tuple[str, str]]
    figures: Figures

    def __str__(self) -> str:
        return f"{self.title}: {self.sentence}"

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Three figures with their meaning: error, agreement from chance to people, share that can be decided."""
        known, r = self.figures, self.figures.r
        error = (points(known.error), f"points of typical error, on a scale from {known.low:g} to {known.high:g}")
        if known.position is not None:
            agreement = f"{known.position:.0%}", "of the way from a constant guess (0%) to other people (100%)"
        else:
            compared = "people are unknown" if known.people is None else "people are no better than a constant guess"
            agreement = points(r.value), f"correlation with people, 0 is chance ({compared})"
        share = "–" if known.decided is None else f"{known.decided:.0%}"
        decided = share, f"of conversations are sure enough to call good or bad ({AGREE:.0%} agreement with people)"
        return [error, (agreement[0].replace("-", "−"), agreement[1]), decided]

    def to_json(self) -> dict[str, Any]:
        """Return all fields and the facts."""
        return {
            "state": self.state,
            "title": self.title,
            "sentence": self.sentence,
            "facts": [{"value": value, "meaning": meaning} for value, meaning in self.facts],
            "actions": [{"text": text, "command": command} for text, command in self.actions],
            "checks": [{**rule._asdict(), "remedy": list(rule.remedy)} for rule in self.checks],
            "figures": asdict(self.figures),
        }


def points(value: float | None) -> str:
    """Format an error or a correlation with two decimals."""
    return "–" if value is None else f"{value:.2f}".replace("-", "−")


def verdict_of(figures: Figures) -> Verdict:
    """Derive the state from the figures by the rules above."""
    checks = _rules(figures)
    reached = 0
    for place, state in enumerate(STATES):
        if any(rule.is_met is False for rule in checks if rule.state == state):
            break
        reached = place
    state = STATES[reached]
    missed = [rule for rule in checks if rule.is_met is False and rule.state == STATES[min(reached + 1, 3)]]
    title = TITLES.get(state) or _more_labels(figures)
    return Verdict(state, title, _sentence(figures, state, missed), checks, _actions(figures, state, missed), figures)


def _rules(known: Figures) -> list[Rule]:
    """Return all rules with their measured values."""
    label, low = ("Label where predictions are least certain", "accord label next"), known.r.low
    evidence = ("Add evidence: ask a judge more questions about each conversation", "accord judge")
    simpler = ("Compare all evaluators; a simpler one does as well", "accord compare")
    constant = known.tests.get(CONSTANT)
    p = "untested" if constant is None else p_text(constant.p)
    is_better = constant is not None and constant.difference < 0 and constant.p < SURE

    def bound(state: State, limit: float) -> Rule:
        is_met = low is not None and (low >= limit if limit else low > 0)
        needed = f"at least {points(limit)}" if limit else "above 0"
        why = "is undefined" if low is None else f"may be as low as {points(low)}"
        name = "r within annotators" if known.is_within else "r"
        failure = f"{name} {why} (needed: {needed})"
        return Rule(state, f"lower bound of {name}", points(low), needed, is_met, failure, label)

    rules = [
        Rule("triage", "error below that of a constant guess", p, f"p < {SURE}", is_better,
             f"the difference from a constant guess is not significant, {p}", label),
        bound("triage", 0.0),
    ]  # fmt: skip
    for name, shown in ((BEST_COLUMN, "the best single column"), (JUDGE_ALONE, "the raw judge")):
        test, error = known.tests.get(name), known.rivals.get(name)
        if test is not None:
            is_worse = test.difference > 0 and test.p < SIGNIFICANCE
            value = f"{points(error)}, {p_text(test.p)}"
            failure = f"{shown} has a smaller error ({points(error)})"
            rules.append(Rule("systems", f"{shown} is not better", value, f"p ≥ {SIGNIFICANCE}", not is_worse, failure,
                              simpler))  # fmt: skip
    named = ", ".join(known.biased or [])
    fair = None if known.biased is None else not known.biased
    rules += [
        bound("systems", R_SYSTEMS),
        Rule("systems", "no system is scored too high or too low", named or ("untested: fewer than two systems"
             if known.biased is None else "none"), "none", fair, f"scores are too high or too low for {named}",
             ("Label more conversations of these systems, then learn again", "accord label next")),
    ]  # fmt: skip
    most = None if known.people is None else NEAR_PEOPLE * known.people
    is_near = most is not None and known.error is not None and known.error <= most
    is_narrow = known.band is not None and known.band <= WIDEST_BAND
    width = "–" if known.band is None else f"{known.band:.0%}"
    rules += [
        Rule("single", "error near that of other people", points(known.error), f"at most {points(most)}", is_near,
             "how well people predict each other is unknown" if most is None
             else f"the error must be at most {points(most)}, 10% above that of other people",
             ("Let a second person rate some conversations", "accord serve") if most is None else evidence),
        bound("single", R_SINGLE),
        Rule("single", "mean width of the bands", width, f"at most {WIDEST_BAND:.0%} of the scale", is_narrow,
             "bands are unknown" if known.band is None else f"bands span {width} of the scale (at most 50%)", evidence),
    ]  # fmt: skip
    return rules


def _more_labels(known: Figures) -> str:
    if known.labels_needed is not None:
        return f"Not yet: label about {known.labels_needed:,} more"
    return f"Not yet: label about {max(known.labels, FEWEST_MORE):,} more, or add evidence"


_USES: Mapping[State, str] = {
    "not yet": "",
    "triage": " Conversations with low scores are worth reading first.",
    "systems": " Means over many conversations can be compared.",
    "single": " A single score is about as close to a person's rating as that of another person.",
}


def _sentence(known: Figures, state: State, missed: Sequence[Rule]) -> str:
    text = f"scores typically miss a person's rating by {points(known.error)} points on a scale from {known.low:g} to "
    text += f"{known.high:g}.{_comparison(known)}{_USES[state]}"
    if state == "single":
        return text
    target = {"not yet": "for triage", "triage": "for comparing systems", "systems": "for single conversations"}[state]
    more = {0: "", 1: " One more rule is not met."}.get(len(missed) - 1, f" {len(missed) - 1} more rules are not met.")
    return f"{text} Not ready {target}: {missed[0].failure}.{more}"


def _comparison(known: Figures) -> str:
    """State the errors of other people and of a constant guess."""
    if known.error is None or known.constant is None:
        return ""
    if known.people is None:
        return f" A constant guess misses it by {points(known.constant)}."
    return f" Other people miss it by {points(known.people)}, a constant guess by {points(known.constant)}."


def _actions(known: Figures, state: State, missed: Sequence[Rule]) -> list[tuple[str, str]]:
    remedies = [rule.remedy for rule in missed]
    score = ("Score new conversations", "accord score new.jsonl --out scores.jsonl")
    if state == "not yet":
        more = known.labels_needed or max(known.labels, FEWEST_MORE)
        first = f"accord label next --count {min(more, 1000)}"
        label = (f"Label about {more:,} more, the most informative first", first)
        judge = ("Add evidence: a model under models: judge: in accord.yaml", "accord judge")
        actions = [label, *([] if JUDGE_ALONE in known.tests else [judge])]
        actions.append(("Then compare again", "accord compare"))
    elif state == "triage":
        if known.decided:
            score = (f"Score new conversations: about {known.decided:.0%} are decided, people rate the rest",
                     f"accord score new.jsonl --agree {AGREE} --out scores.jsonl")  # fmt: skip
        actions = [score, *remedies]
    elif state == "systems":
        actions = [("Compare versions of the assistant by their mean scores", "accord estimate"), *remedies]
    else:
        low = max(int(10 * (known.r.low or 0.0)) / 10, 0.0)
        actions = [score, ("Stop a release if agreement falls", f"accord gate --min-within {low:g}"),
                   ("Watch for drift", "accord watch")]  # fmt: skip
    return list(dict.fromkeys(actions))[:ACTIONS_SHOWN]


# --- figures --------------------------------------------------------------------------------------------------------


def figures_of(found: Comparison, speakers: NDArray[np.object_] | None = None) -> Figures:
    """Collect the figures of a comparison's first system.

    Args:
        found: The comparison.
        speakers: (n,) chat system that each rating is about, if known.
    """
    rated, results = found.ratings, {row.system: row for row in found.results}
    ours, own = found.systems[0], found.results[0]
    is_new = own.values.get(NEW) is not None
    statistic = NEW if is_new else "rmse"
    by_name = {each.name: each for each in found.systems}

    def paired(system: Predictions) -> Any:
        return system.paired_new(rated) if is_new else system.paired(rated)

    tests, rmse = {}, cast(MeanStatistic, STATISTICS["rmse"])
    for name in (CONSTANT, BEST_COLUMN, JUDGE_ALONE):
        other = by_name.get(name)
        if other is None or other is ours:
            continue
        first, second = paired(ours), paired(other)
        is_scored = ours.scored & other.scored & np.isfinite(first.value) & np.isfinite(second.value)
        rows = np.flatnonzero(is_scored)
        sides = ([first.take(rows)], [second.take(rows)])
        if len(rows) and (test := paired_test(Clusters(rated.group[rows]), rmse, *sides, found.draws, found.seed)):
            tests[name] = test
    decision, needed = found.decision, None
    if decision is not None and decision.tested == ours.name and CONSTANT in decision.tests and is_new:
        tests[CONSTANT] = decision.tests[CONSTANT]  # its p is corrected for the number of candidates
    if decision is not None and not decision.is_supported:
        needed = decision.labels_needed
    elif CONSTANT in by_name and len(rated):
        gain = gain_over(by_name[CONSTANT], ours, rated, len(rated))
        needed = None if gain is None or gain.value <= 0 else labels_needed([gain])
    span = float(np.ptp(rated.options)) or 1.0
    bands = ours.band[ours.scored]
    widths = bands[:, 1] - bands[:, 0]
    widths = widths[np.isfinite(widths)]
    constant, people = results.get(CONSTANT), found.people
    biased = None
    if speakers is not None:
        biases = group_biases(ours, rated, [name or None for name in speakers])
        biased = [name for name, (_, p) in biases.items() if p < SIGNIFICANCE] if biases else None

    def r_of(row: Any) -> Estimate:
        inside = row.within.get("annotators")
        return Estimate() if row is None else row.estimates["pearson"] if inside is None else inside.pearson

    return Figures(
        low=float(rated.options[0]),
        high=float(rated.options[-1]),
        labels=len(rated),
        error=own.values.get(statistic),
        constant=None if constant is None else constant.values.get(statistic),
        people=None if people is None else people.values.get("rmse"),
        r=r_of(own),
        is_within="annotators" in own.within,
        people_r=Estimate() if people is None else r_of(people),
        tests=tests,
        rivals={name: results[name].values.get(statistic) for name in tests if name in results},
        band=float(widths.mean()) / span if len(widths) else None,
        decided=_decided(found),
        biased=biased,
        labels_needed=needed,
    )


def _decided(found: Comparison) -> float | None:
    """Return the share of held-out ratings that can be called good or bad with an agreement of `AGREE`."""
    system, options = found.systems[0], found.ratings.options
    rows = np.flatnonzero(system.scored & (system.new_probabilities.sum(axis=1) > 0))
    upper = options > (options[0] + options[-1]) / 2
    if not len(rows) or not upper.any() or upper.all():
        return None
    is_good = system.new_probabilities[rows][:, upper].sum(axis=1)
    is_right = (is_good >= 0.5) == upper[found.ratings.answer[rows]]
    passed, _ = fixed_sequence(np.maximum(is_good, 1 - is_good), is_right, found.ratings.group[rows], AGREE)
    return 0.0 if passed is None else passed.share

"""The verdict on an evaluator: one of four states, derived from its figures on held-out ratings by stated rules.

A state holds if its own rules and the rules of lower states are met. The rules, their limits and the measured
values are the rows of `Verdict.checks`, so that the sentence cannot disagree with the figures.

- not yet: the rule of triage is not met.
- triage: the error is below the constant's error (p < `SURE`).
- systems: lower bound of r at least `R_SYSTEMS`; neither the best feature nor raw judge is better; no biased version;
  people agree beyond chance; the predictions do not rest on a single count.
- single: error at most `NEAR_PEOPLE` times other people's error; lower bound of r at least `R_SINGLE`; bands at most
  `WIDEST_BAND` of the scale; some conversations can be called good or bad.

A state is borderline if fewer than `CLEAR` of the repetitions of the cross-validation give the same state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from accord.decisions.figures import LENGTHS, Figures
from accord.decisions.selective import AGREE
from accord.decisions.verdict_words import (
    MEANINGS,
    NEAR_PEOPLE,
    STEPS,
    UNKNOWN,
    Rule,
    State,
    Use,
    points,
    rules_table,
    uses_of,
    uses_table,
)
from accord.edges import count_of
from accord.results import Document, Section, Text, p_text, told_apart, written
from accord.statistics import SIGNIFICANT, SURE
from accord.validation import BEST_COLUMN, CONSTANT, FEWEST_MORE, JUDGE_ALONE

STATES: tuple[State, ...] = ("not yet", "triage", "systems", "single")
"""The states, the least useful first."""
R_SYSTEMS, R_SINGLE = 0.3, 0.5
"""Lower bounds of r within annotators that the comparison of assistant versions and single scores need."""
WIDEST_BAND = 0.5
"""Largest mean width of a band, as a share of the scale."""
CLEAR = 0.8
"""Share of the repetitions that must give the same state."""
ACTIONS_SHOWN = 3
TITLES = {"single": "You can judge single new conversations by their scores",
          "systems": "You can compare assistant versions by scores of new conversations",
          "triage": "You can find bad new conversations by their scores"}  # fmt: skip
"""Permitted use of the scores in each state; "not yet" names the number of labels instead.

They speak of new conversations: the figures behind them hold for those that the evaluator did not learn from."""


@dataclass(frozen=True)
class Verdict:
    """State of an evaluator with its title, its sentence, the rules behind it, and what to do next.

    Attributes:
        state: One of `STATES`.
        title: The permitted use of the scores in words.
        sentence: The error compared with people's error and the constant's, and the reason why no higher state holds.
        checks: All rules.
        actions: At most three actions, each with its command.
        figures: The figures behind the rules.
        borderline: Reason why the state is not clearly reached; empty for a clear one.
    """

    state: State
    title: str
    sentence: str
    checks: Sequence[Rule]
    actions: Sequence[tuple[str, str]]
    figures: Figures
    borderline: str = ""

    def __str__(self) -> str:
        return f"{self.title}: {self.sentence}"

    @property
    def uses(self) -> list[Use]:
        """The three uses of the scores, each with its measured value and its rule."""
        return uses_of(self.figures, STATES.index(self.state), self.checks)

    def document(self) -> Document:
        """Return the verdict as a document: sentence, table of uses, next step; further steps and rules are details."""
        (text, command), *actions = self.actions
        first = Section("", "", [Text(command, "code", f"Next: {text}")])
        others = [Text(command, "code", text) for text, command in actions]
        later = [Section("Then", "", others, is_detail=True)] if others else []
        uses = uses_table([each._asdict() for each in self.uses])
        return Document(self.title, self.sentence, [Section("", "", [uses]), first, *later, self.rules_section()])

    def rules_section(self) -> Section:
        """Return all rules with their measured values."""
        lead = "A state needs its own rules and the rules of the states before it."
        return Section("", f"Rules of the verdict. {lead}", [rules_table(self.checks)], is_detail=True)

    def to_json(self) -> dict[str, Any]:
        """Return all fields and the facts."""
        figures = {name: value for name, value in asdict(self.figures).items() if name != "repeats"}
        return {
            "state": self.state,
            "title": self.title,
            "sentence": self.sentence,
            "borderline": self.borderline,
            "meaning": MEANINGS[self.state],
            "uses": [each._asdict() for each in self.uses],
            "actions": [{"text": text, "command": command} for text, command in self.actions],
            "checks": [{**rule._asdict(), "remedy": list(rule.remedy)} for rule in self.checks],
            "figures": figures | {"repeats": max(len(self.figures.repeats), 1)},
            "ledger": self.figures.ledger.to_json(),
        }


def verdict_of(figures: Figures) -> Verdict:
    """Derive the state from the figures by the rules above."""
    checks = _rules(figures)
    place = _place(checks)
    state, missed = STATES[place], _missed(checks, place)
    borderline = _borderline(figures, place, checks)
    title = TITLES.get(state) or _more_labels(figures)
    title += " (borderline)" if borderline else ""
    sentence = _sentence(figures, state, missed, borderline)
    return Verdict(state, title, sentence, checks, _actions(figures, state, missed), figures, borderline)


def state_of(figures: Figures) -> State:
    """Return the highest state whose own rules and the rules of lower states are met."""
    return STATES[_place(_rules(figures))]


def _place(checks: Sequence[Rule]) -> int:
    """Return the index of the highest state whose own rules and the rules of lower states are met."""
    failed = {rule.state for rule in checks if rule.is_met is False}
    return next((place - 1 for place, state in enumerate(STATES) if state in failed), len(STATES) - 1)


def _missed(checks: Sequence[Rule], place: int) -> list[Rule]:
    """Return the rules of the next state that are not met."""
    above = STATES[min(place + 1, len(STATES) - 1)]
    return [rule for rule in checks if rule.is_met is False and rule.state == above]


def _borderline(known: Figures, place: int, checks: Sequence[Rule]) -> str:
    """Return the reason why the repetitions of the cross-validation do not give the same state; empty if they do."""
    singles = [_rules(each) for each in known.repeats]
    places = [_place(rules) for rules in singles]
    others = Counter(each for each in places if each != place)
    if not places or (len(places) - others.total()) / len(places) >= CLEAR:
        return ""
    other, count = others.most_common(1)[0]
    rules = next(rules for rules, each in zip(singles, places, strict=True) if each == other)
    reason = _missed(rules, other)[0].failure if other < place else f"there {_missed(checks, place)[0].name} is met"
    shown = {"not yet": "not yet useful"}.get(STATES[other], STEPS[STATES[other]].lower())
    return f"{count} of {len(places)} repetitions of the cross-validation give another state ({shown}: {reason})"


def _rules(known: Figures) -> list[Rule]:
    """Return all rules with their measured values."""
    low = known.r.low
    label = ("Label where predictions are least certain", "accord label next")
    simpler = ("Compare all evaluators", "accord compare")
    constant = known.tests.get(CONSTANT)
    p = "untested" if constant is None else p_text(constant.p)
    is_better = constant is not None and bool(constant.difference < 0 and constant.p < SURE)
    failure = f"the error is not shown to be below that of a constant guess ({p})"
    if constant is not None and constant.difference > 0:
        failure = failure if constant.p >= SURE else f"the scores are worse than a constant guess ({p})"
        p = f"above it, {p}"

    def bound(state: State, limit: float) -> Rule:
        name = "r within annotators" if known.is_within else "r"
        shown, needed = (points(low), points(limit)) if low is None else _apart(low, limit)
        why = "is undefined" if low is None else f"may be as low as {shown}"
        failure = f"{name} {why} (needed: at least {needed})"
        is_met = low is not None and bool(low >= limit)
        return Rule(state, f"lower bound of {name}", shown, f"at least {needed}", is_met, failure, label)

    rules = [
        Rule("triage", "error below that of a constant guess", p, f"p < {SURE}", is_better, failure, label),
        bound("systems", R_SYSTEMS),
    ]  # fmt: skip
    for name, shown in ((BEST_COLUMN, "the best single feature"), (JUDGE_ALONE, "the raw judge")):
        test, error = known.tests.get(name), known.rivals.get(name)
        if test is not None:
            is_worse = bool(test.difference > 0 and test.p < SIGNIFICANT)
            own = known.error
            rival = points(error) if error is None or own is None else _apart(error, own)[0]
            value = f"{rival}, {'smaller' if test.difference > 0 else 'not smaller'}, {p_text(test.p)}"
            failure = f"{shown} has a smaller error ({rival})"
            rules.append(Rule("systems", f"{shown} is not better", value, f"not at p < {SIGNIFICANT}", not is_worse,
                              failure, simpler))  # fmt: skip
    return [*rules, *_people_rules(known, label), *_single_rules(known), bound("single", R_SINGLE)]


def _people_rules(known: Figures, label: tuple[str, str]) -> list[Rule]:
    """Return the rules on biased systems, on the agreement of people, and on single counts."""
    named = ", ".join(known.biased or [])
    biased = "untested: fewer than two assistant versions" if known.biased is None else named or "none"
    alpha = known.alpha
    agree = None if alpha.value is None else bool((alpha.value if alpha.low is None else alpha.low) > 0)
    chance = f"α {_above_0(alpha.value)}" + ("" if alpha.low is None else f", at least {_above_0(alpha.low)}")
    count = known.rests_on
    rests = "" if count is None else f"{count_name(count[0])} alone (correlation {points(count[1])})"
    doubled = (
        ""
        if known.doubled is None
        else f": writing every reply twice changes a score by {written(known.doubled, 'difference')}"
    )
    return [
        Rule("systems", "no assistant version is scored too high or too low", biased, "none",
             None if known.biased is None else not known.biased, f"scores are too high or too low for {named}",
             ("Label more conversations of these assistant versions, then learn again", "accord label next")),
        Rule("systems", "people agree beyond chance", UNKNOWN if agree is None else chance, "α above 0", agree,
             f"people hardly agree with each other ({chance})",
             ("Make the question's wording clearer, and let people rate again", "accord serve")),
        Rule("systems", "the predictions rest on more than one count", rests or "yes", "yes", count is None,
             f"it predicts from {rests}{doubled}",
             _evidence(known) or label),
    ]  # fmt: skip


def _apart(value: float, limit: float, spec: str = ".2f") -> tuple[str, str]:
    """Format a value and its limit so that a missed rule does not read as a met one."""
    shown, bound = told_apart(value, limit, spec)
    return shown.replace("-", "−"), bound.replace("-", "−")


def _above_0(value: float | None) -> str:
    """Format a value that has to be above 0."""
    return points(value) if value is None else _apart(value, 0.0)[0]


def count_name(column: str) -> str:
    """Return a count in words: `length` for the counts of turns and words."""
    return f"length ({column})" if column in LENGTHS else column


def _single_rules(known: Figures) -> list[Rule]:
    """Return the rules of single scores that compare with people, bands and calls."""
    label = ("Label where predictions are least certain", "accord label next")
    evidence = _evidence(known) or label
    error = None if known.shared is None else known.shared[1]
    most = None if known.people is None else NEAR_PEOPLE * known.people
    is_near = most is not None and error is not None and bool(error <= most)
    is_narrow = known.band is not None and bool(known.band <= WIDEST_BAND)
    missed, near = (points(error), points(most)) if error is None or most is None else _apart(error, most)
    width, widest = (UNKNOWN, f"{WIDEST_BAND:.0%}") if known.band is None else _apart(known.band, WIDEST_BAND, ".0%")
    share = UNKNOWN if known.decided is None else _apart(known.decided, 0.0, ".0%")[0]
    return [
        Rule("single", "error near that of other people", missed, f"at most {near}", is_near,
             "how well people predict each other is unknown" if most is None
             else f"the error must be at most {near}, {NEAR_PEOPLE - 1:.0%} above that of other people",
             ("Let a second person rate some conversations", "accord serve") if most is None else evidence),
        Rule("single", "mean width of the bands", width, f"at most {widest} of the scale", is_narrow,
             "bands are unknown" if known.band is None
             else f"bands span {width} of the scale (at most {widest})", evidence),
        Rule("single", "some conversations can be called good or bad", share, "above 0%",
             None if known.decided is None else bool(known.decided > 0),
             f"no conversation is sure enough to call good or bad ({AGREE:.0%} agreement with people)", label),
    ]  # fmt: skip


def _evidence(known: Figures) -> tuple[str, str] | None:
    """Return the action that adds evidence, or `None` if every question was asked."""
    if known.judge == "asked":
        return None
    if known.judge == "unasked":
        return "Add evidence: ask the judge the open questions", "accord judge"
    return "Add evidence: a model under models: judge: in accord.yaml", "accord judge"


def _more_labels(known: Figures) -> str:
    if known.labels_needed is not None:
        return f"Not yet: label about {known.labels_needed:,} more"
    more = "" if _evidence(known) is None else ", or add evidence"
    return f"Not yet: label about {max(known.labels, FEWEST_MORE):,} more{more}"


_USES = {
    "triage": " Conversations with low scores are worth reading first.",
    "systems": " Means over many conversations can be compared.",
    "single": " A single score is about as close to a person's rating as that of another person.",
}
_TARGETS = {
    "not yet": "for triage", "triage": "for comparing assistant versions", "systems": "for single conversations",
}  # fmt: skip


def _sentence(known: Figures, state: State, missed: Sequence[Rule], borderline: str) -> str:
    text = f"scores typically miss a person's rating by {points(known.error)} points on a scale from {known.low:g} to "
    text += f"{known.high:g}.{_comparison(known)}{_USES.get(state, '')}"
    if state != "single":
        others = len(missed) - 1
        more = "" if not others else f" {count_of(others, 'more rule')} {'is' if others == 1 else 'are'} not met."
        text += f" Not ready {_TARGETS[state]}: {missed[0].failure}.{more}"
    return text + (f" Borderline: {borderline}." if borderline else "")


def _comparison(known: Figures) -> str:
    """State the errors of other people and of a constant guess, on the same ratings as the evaluator's."""
    if known.error is None or known.constant is None:
        return ""
    constant = points(known.constant)
    if known.people is None or known.shared is None:
        return f" A constant guess misses it by {constant}."
    count, error, guess = known.shared
    if not known.is_partly_shared:
        return f" Other people miss it by {points(known.people)}, a constant guess by {constant}."
    return (
        f" A constant guess misses it by {constant}. On the {count:,} ratings with a second person, scores miss by "
        f"{points(error)}, other people by {points(known.people)}, a constant guess by {points(guess)}."
    )


def _actions(known: Figures, state: State, missed: Sequence[Rule]) -> list[tuple[str, str]]:
    remedies = [rule.remedy for rule in missed]
    score = ("Score new conversations", "accord score new.jsonl --out scores.jsonl")
    if state == "not yet":
        more = known.labels_needed or max(known.labels, FEWEST_MORE)
        label = (
            f"Label about {more:,} more, the most informative first",
            f"accord label next --count {min(more, 1000)}",
        )
        actions = [label, *filter(None, [_evidence(known)]), ("Then compare again", "accord compare")]
    elif state == "triage":
        if known.decided:
            score = (f"Score new conversations: about {known.decided:.0%} are decided, people rate the rest",
                     f"accord score new.jsonl --agree {AGREE} --out scores.jsonl")  # fmt: skip
        actions = [score, *remedies]
    elif state == "systems":
        means = (
            "Compare versions of the assistant by their mean scores"
            if known.biased is not None
            else ("Estimate the mean rating of all conversations")
        )
        actions = [(means, "accord estimate"), *remedies]
    else:
        low = max(int(10 * (known.r.low or 0.0)) / 10, 0.0)
        actions = [score, ("Stop a release if agreement falls", f"accord gate --min-within {low:g}"),
                   ("Watch for drift", "accord watch")]  # fmt: skip
    return list(dict.fromkeys(actions))[:ACTIONS_SHOWN]

"""Drawn pools with known truth: recovery of informative assertions, and results on held-out conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accord.evidence import ask_rubric
from accord.methods.learned_rubric.assertion_pool import (
    questions_of,
    rubric_of,
)
from accord.methods.learned_rubric.assertion_selector import (
    AssertionSelector,
    NetSatOutcome,
)
from accord.methods.learned_rubric.assertion_writer import (
    Assertion,
    RubricPromptBuilder,
    deduplicate,
)
from accord.methods.learned_rubric.selection_policies import SelectionSettings
from accord.models import (
    JUDGE,
    Models,
    Prompt,
    ScriptedJudge,
    ScriptedModel,
    run,
)
from accord.models.requests.flow import run_flow
from accord.statistics import Floats
from accord.store import Store
from accord.values import Conversation, Label, Labels, Polarity, Question, Sample, Scale, Target, Turn
from accord_papers.rubicon.baselines import SYSTEMS
from accord_papers.rubicon.outcomes import figures, mean_row
from accord_papers.study import Row

TRAIN, TEST = 100, 400
GOOD = 0.6
INFORMATIVE, NOISE, TRUISMS, FITTED = 10, 20, 5, 10
"""Assertions of each class: informative ones, noise, truisms, and ones fitted to a few training conversations."""
REPEATED = 5
"""Informative assertions of each class that the pool holds a second time, in other words."""
MAIN = Question(id="good", text="Did it go well?", scale=Scale(options=(0, 1)))


@dataclass(frozen=True)
class Planted:
    """A drawn pool.

    Attributes:
        kinds: Kind of each assertion; a selection should find the `informative` ones.
        ideas: Number of the idea of each assertion; repetitions share one.
        sides: Class of each assertion.
        level: (P, TRAIN + test) agreement with each assertion in each conversation, from 0 to 10.
        good: (TRAIN + test,) mask of good conversations.
    """

    kinds: list[str]
    ideas: list[int]
    sides: list[Polarity]
    level: Floats
    good: NDArray[np.bool_]


def plain(rng: np.random.Generator, test: int) -> Planted:
    """Draw independent assertions: informative ones 3.2 points apart (s.d. 1.8), half repeated."""
    good = _classes(rng, test)
    drawn = _Drawn(good)
    for side in Polarity:
        ideas = [drawn.toward(rng, side, 1.6, 1.8) for _ in range(INFORMATIVE)]
        for place, level in enumerate(ideas):
            drawn.add("informative", side, level)
            if place < REPEATED:
                drawn.repeat("repeated", side, level + rng.normal(scale=0.4, size=len(good)))
        drawn.rest(rng, side)
    return drawn.planted()


def shared(rng: np.random.Generator, test: int) -> Planted:
    """Draw informative assertions 2.8 points apart, and as many 3.4 points apart that share a nuisance factor."""
    good = _classes(rng, test)
    drawn = _Drawn(good)
    nuisance = rng.normal(size=len(good))
    for side in Polarity:
        sign = 1 if side is Polarity.SAT else -1
        for _ in range(INFORMATIVE):
            drawn.add("informative", side, drawn.toward(rng, side, 1.4, 1.8))
            drawn.add("moved", side, drawn.toward(rng, side, 1.7, 0.6) + sign * 2.6 * nuisance)
        drawn.rest(rng, side)
    return drawn.planted()


CASES: Mapping[str, Callable[[np.random.Generator, int], Planted]] = {
    "plain": plain,
    "shared noise": shared,
}


class _Drawn:
    """A pool to which assertions are added."""

    def __init__(self, good: NDArray[np.bool_]) -> None:
        self.good = good
        self.kinds: list[str] = []
        self.ideas: list[int] = []
        self.sides: list[Polarity] = []
        self.levels: list[Floats] = []

    def add(self, kind: str, side: Polarity, level: Floats) -> None:
        self.repeat(kind, side, level, idea=max(self.ideas, default=-1) + 1)

    def repeat(self, kind: str, side: Polarity, level: Floats, idea: int | None = None) -> None:
        self.kinds.append(kind)
        self.ideas.append(self.ideas[-1] if idea is None else idea)
        self.sides.append(side)
        self.levels.append(level)

    def toward(self, rng: np.random.Generator, side: Polarity, half: float, spread: float) -> Floats:
        """Return an assertion with twice `half` between the means of the classes."""
        label = np.where(self.good == (side is Polarity.SAT), 1.0, -1.0)
        return 5 + half * label + rng.normal(scale=spread, size=len(label))

    def rest(self, rng: np.random.Generator, side: Polarity) -> None:
        """Add assertions that a selection should avoid."""
        size = len(self.good)
        for _ in range(NOISE):
            self.add("noise", side, rng.uniform(2, 8) + rng.normal(scale=2.2, size=size))
        for _ in range(TRUISMS):
            self.add("true of all", side, 9 + rng.normal(scale=0.5, size=size))
        seen = np.arange(size) < TRAIN
        for _ in range(FITTED):
            those = seen & (self.good == (side is Polarity.SAT)) & (rng.random(size) < 0.12)
            self.add("of a few seen", side, np.where(those, 9.5, 0.8) + rng.normal(scale=0.5, size=size))

    def planted(self) -> Planted:
        level = np.clip(np.array(self.levels), 0.0, 10.0)
        return Planted(self.kinds, self.ideas, self.sides, level, self.good)


def _classes(rng: np.random.Generator, test: int) -> NDArray[np.bool_]:
    return np.concatenate([rng.permutation(size) < round(GOOD * size) for size in (TRAIN, test)])


def planted_rows(seeds: int, test: int = TEST) -> list[Row]:
    """Return each case and system: means over seeds with their 95% intervals."""
    rows: list[Row] = []
    for case, draw in CASES.items():
        found: dict[str, list[Row]] = {}
        for seed in range(seeds):
            drawn = DrawnStudy(draw(np.random.default_rng(seed), test), seed)
            for system in SYSTEMS:
                found.setdefault(system, []).append(drawn.row(system))
        labels = {"dataset": case, "conversations": TRAIN, "seeds": seeds}
        rows += [{**labels, "system": system, **mean_row(each, are_independent=True)} for system, each in found.items()]
    return rows


class DrawnStudy:
    """A drawn pool, deduplicated by a script that knows what repeats what, and judged by one that knows all.

    Attributes:
        selectors: Fitted selector of each system.
    """

    def __init__(self, pool: Planted, seed: int) -> None:
        self.pool = pool
        assertions = [Assertion(f"The assertion {place} holds.", side) for place, side in enumerate(pool.sides)]
        kept = [each for side in Polarity for each in _distinct(pool, [one for one in assertions if one.side is side])]
        questions = questions_of(kept)
        rubric = rubric_of(questions, MAIN, "pool", "", ())
        self._row_of = {question.id: assertions.index(one) for question, one in zip(questions, kept, strict=True)}
        samples = [Sample(Conversation(str(place), (Turn("user", "hello"),))) for place in range(len(pool.good))]
        with closing(Store("sqlite:///:memory:")) as store:
            models = Models({}, store, given={JUDGE: ScriptedJudge(self._answer)})
            evidence = run(ask_rubric(rubric, samples), models)
        labels = Labels(Label(Target(str(place)), "good", "ann", int(good)) for place, good in enumerate(pool.good))
        train, self._test = evidence.take(list(range(TRAIN))), evidence.take(list(range(TRAIN, len(pool.good))))
        seen = labels.filter(str(place) for place in range(TRAIN))
        self.selectors = {
            name: AssertionSelector.of_rubric(rubric, MAIN, SelectionSettings(**settings), seed).fit(train, seen)
            for name, settings in SYSTEMS.items()
        }

    def _answer(self, sample: Sample, question: Question) -> dict[str, float]:
        if question.id not in self._row_of:
            return {"0": 0.5, "1": 0.5}
        level = self.pool.level[self._row_of[question.id], int(sample.conversation.id)] / 2.5
        return {str(k + 1): max(0.0, 1 - abs(level - k)) for k in range(5)}

    def outcome(self, system: str) -> NetSatOutcome:
        """Return the scores of the held-out conversations."""
        return self.selectors[system].outcome(self._test, self.pool.good[TRAIN:])

    def row(self, system: str) -> Row:
        """Return the statistics of a system.

        `informative` is the share of the selected assertions that are informative, and `found` the share of the
        informative ideas that were selected; a repeated idea counts once.
        """
        pool, selected = self.pool, [self._row_of[name] for name in self.selectors[system].names_]
        right = {pool.ideas[place] for place in selected if pool.kinds[place] in ("informative", "repeated")}
        counts = {"informative": len(right) / len(selected), "found": len(right) / (2 * INFORMATIVE)}
        return {**counts, **figures(self.outcome(system))}


def _distinct(pool: Planted, assertions: list[Assertion]) -> list[Assertion]:
    """Return the assertions of one class that a perfect writer keeps."""

    def script(prompt: Prompt) -> str:
        lines = [line for line in prompt.messages[0].content.splitlines() if "The assertion " in line]
        numbers = {int(line.split(".")[0]): int(line.split()[3]) for line in lines}
        first: dict[int, int] = {}
        repeats = []
        for number, place in numbers.items():
            earlier = first.setdefault(pool.ideas[place], number)
            if earlier != number:
                repeats.append(f"- {number} = {earlier}")
        return "\n".join(repeats) or "- none"

    return run_flow(deduplicate(assertions, RubricPromptBuilder(by_schema=False)), ScriptedModel(script)).assertions

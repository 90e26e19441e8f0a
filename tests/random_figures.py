"""Random figures of evaluators, and the contradictions in the verdicts on them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from random import Random
from typing import TypeVar

from accord.decisions import verdict_of
from accord.decisions.figures import Figures
from accord.decisions.verdict import STATES
from accord.statistics import PairedTest
from accord.values import Estimate

T = TypeVar("T")
COUNTS = ("words-per-reply", "apology-rate")


def random_figures(random: Random, repeats: int = 0) -> Figures:
    """Return figures that a comparison could give, also unlikely ones, with those of some repetitions.

    Each rule of the verdict is met by intent with a probability that is drawn first, so that all states are reached.
    """
    quality = random.choice([0.0, 0.5, 0.9, 1.0])

    def is_good() -> bool:
        return random.random() < quality

    def maybe(value: T) -> T | None:
        return value if random.random() < 0.8 else None

    def error() -> float:
        return random.uniform(0.05, 3)

    def bounded(least: float) -> Estimate:
        if is_good():
            return Estimate(least + 0.1, least + 0.01, least + 0.2)
        value = random.uniform(-1, 1)
        return Estimate(value, value - random.random(), value + 0.1) if random.random() < 0.9 else Estimate()

    tests = {
        name: PairedTest(random.uniform(-1, 0.5), None, None, 10 ** random.uniform(-3.3, 0))
        for name in ("constant", "best-column", "judge-expected")
        if random.random() < 0.8
    }
    tests |= {name: replace(test, difference=-abs(test.difference)) for name, test in tests.items() if is_good()}
    if is_good():
        tests["constant"] = PairedTest(random.uniform(-1, -0.01), None, None, 10 ** random.uniform(-3.3, -2.1))
    people = error()
    shared = random.randint(1, 5000), people * random.uniform(0.9, 1.09) if is_good() else error(), error()
    return Figures(
        low=1.0, high=5.0, labels=random.randint(10, 5000), error=maybe(error()),
        constant=maybe(error()),
        shared=shared if is_good() else maybe(shared), people=people if is_good() else maybe(people),
        alpha=bounded(0.0), r=bounded(random.choice([0.3, 0.5])), is_within=random.random() < 0.5,
        people_r=bounded(0.0), tests=tests, rivals={name: maybe(error()) for name in tests},
        band=random.uniform(0, 0.5) if is_good() else maybe(random.random()),
        decided=random.uniform(0.01, 1) if is_good() else maybe(random.choice([0.0, random.uniform(0.3, 1)])),
        biased=[] if is_good() else maybe(random.sample("ab", random.randint(0, 1))),
        labels_needed=maybe(random.randint(1, 5000)),
        rests_on=None if is_good() or random.random() < 0.8 else (random.choice(COUNTS), random.uniform(0.9, 1)),
        doubled=maybe(random.uniform(-2, 2)), judge=random.choice(["none", "unasked", "asked"]),
        repeats=[random_figures(random) for _ in range(repeats)],
    )  # fmt: skip


def contradictions(figures: Figures) -> list[str]:
    """Return what the verdict on some figures says against these figures, or against itself."""
    found = verdict_of(figures)
    place, text = STATES.index(found.state), f"{found.title}. {found.sentence}"
    facts = " ".join(f"{use.measured} {use.rule}" for use in found.uses)
    test, shares = (
        figures.tests.get("constant"),
        [float(each) for each in re.findall(r"(-?[\d.]+)%", f"{text} {facts}")],
    )
    is_better = test is not None and test.difference < 0 and test.p < 0.01
    uses = found.to_json()["uses"]
    advice = {command for _, command in found.actions}
    wrong = {
        "a state without its rules": any(
            rule.is_met is False for rule in found.checks if STATES.index(rule.state) <= place
        ),
        "a missed state without a reason": place < 3
        and not any(rule.failure in text for rule in found.checks if rule.is_met is False),
        "not yet, and better than a constant": (found.state == "not yet") == is_better,
        "not enough labels, and useful": ("label about" in found.title) != (found.state == "not yet"),
        "ready for single conversations, and none can be called": found.state == "single" and figures.decided == 0,
        "ready for single conversations, and people are unknown": found.state == "single" and figures.people is None,
        "ready, and people do not agree": place >= 2
        and figures.alpha.value is not None
        and (figures.alpha.value if figures.alpha.low is None else figures.alpha.low) <= 0,
        "ready, and rests on one count": place >= 2 and figures.rests_on is not None,
        "ready, and biased": place >= 2 and bool(figures.biased),
        "a share above 100%": any(share > 100 for share in shares),
        "an unknown share as a number": figures.decided is None and "clearly good or bad" in facts,
        "more evidence, and everything was asked": figures.judge == "asked" and "accord judge" in advice,
        "add evidence in the title, and everything was asked": figures.judge == "asked"
        and "add evidence" in found.title,
        "a use without its state": [use["is_allowed"] for use in uses] != [place >= needed for needed in (1, 2, 3)],
        "a use with missing rules, or one that is not allowed and lacks none": any(
            use["is_allowed"] != (use["rule"].split()[0] == use["rule"].split()[2]) for use in uses
        ),
        "an error of other people that differs from the ledger": all(
            each is not None for each in (figures.error, figures.constant, figures.people, figures.shared)
        )
        and figures.ledger["people_error"].short not in text,
        "borderline without repetitions": bool(found.borderline) and not figures.repeats,
        "borderline in the title alone": ("(borderline)" in found.title) != ("Borderline:" in found.sentence),
        "a command that does not exist": not all(command.startswith("accord ") for command in advice),
    }
    json.dumps(found.to_json())
    return [name for name, is_wrong in wrong.items() if is_wrong]

"""Lead: what people and the evaluator agree on, what is expected before it is said, norming, adjudication, the loop."""

from __future__ import annotations

import numpy as np
import pytest

from accord.statistics import krippendorff_alpha, mean_sequence, units_alpha
from accord.store import Candidate, Item
from accord.testing import planted
from accord.values import Annotation, Labels, Question, Scale, StudySettings, Target
from accord.workbench.agreeing import Answers, change_of, habits, people_agree, taken_apart, worst
from accord.workbench.drawing import is_random
from accord.workbench.figures import Mark, intervals
from accord.workbench.jobs import Jobs
from accord.workbench.ordering import Order, ranking

SCALE = Scale(options=(1, 2, 3, 4, 5))
MAIN = Question(id="main", text="How good is it?", scale=SCALE)


def said(person: str, place: int, value: int, question: str = "main") -> Annotation:
    return Annotation(Target(f"c{place}"), question, person, "person", value)


# --- statistics -----------------------------------------------------------------------------------------------------


def test_alpha_of_many_draws_is_that_of_the_library() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, size=(40, 5)).astype(float)
    units = [
        {f"p{place}": float(code) for place, code in enumerate(np.repeat(np.arange(5), row.astype(int)))}
        for row in counts
    ]
    ones = np.ones((1, 40))
    for level, is_ordered in (("ordinal", True), ("nominal", False)):
        assert units_alpha(counts, ones, is_ordered)[0] == pytest.approx(krippendorff_alpha(units, level))  # type: ignore[arg-type]
    twice = np.where(np.arange(40) < 20, 2.0, 0.0)[None]
    doubled = np.concatenate([counts[:20], counts[:20]])
    assert units_alpha(counts, twice)[0] == pytest.approx(units_alpha(doubled, ones)[0])


@pytest.mark.slow
def test_the_confidence_sequence_covers_at_every_look_and_a_fixed_interval_does_not() -> None:
    """Conversations share an effect that all their answers have: one value each. 400 runs of 200 looks."""
    rng, runs, n = np.random.default_rng(1), 400, 200
    shared, own = rng.normal(size=(runs, n, 1)), rng.normal(size=(runs, n, 3))
    errors = (np.clip(0.8 * shared + 0.6 * own, -2, 2) ** 2).mean(axis=2)
    truth = float((np.clip(0.8 * rng.normal(size=10**6) + 0.6 * rng.normal(size=10**6), -2, 2) ** 2).mean())
    missed = {"sequence": 0, "fixed": 0}
    for run in errors:
        # The sequence is the intersection of all looks: what the last look holds, every look held.
        ends = mean_sequence(run, 0, 4)
        missed["sequence"] += not (ends.low is not None and ends.high is not None and ends.low <= truth <= ends.high)
        looks = np.arange(5, n)
        mean = np.cumsum(run)[looks - 1] / looks
        spread = np.array([run[:look].std(ddof=1) for look in looks])
        missed["fixed"] += bool((np.abs(mean - truth) > 1.96 * spread / np.sqrt(looks)).any())
    assert missed["sequence"] / runs <= 0.05 and missed["fixed"] / runs > 0.2
    whole = mean_sequence(errors[0], 0, 4)
    assert whole.low is not None and whole.high is not None and whole.high - whole.low < 1.2


def test_a_confidence_sequence_knows_nothing_before_the_first_value_and_refuses_what_cannot_be() -> None:
    assert mean_sequence(np.zeros(0), -1, 1) == mean_sequence(np.zeros(0), -1, 1)
    assert (mean_sequence(np.zeros(0), -1, 1).low, mean_sequence(np.zeros(0), -1, 1).high) == (-1, 1)
    with pytest.raises(ValueError, match="are wanted"):
        mean_sequence(np.array([1.5]), 0, 1)


def opinions(
    levels: dict[str, float], widths: dict[str, float], noise: float, seed: int = 0, items: int = 80
) -> Answers:
    """A wide scale, so that what is planted is found as it is."""
    rng = np.random.default_rng(seed)
    question = Question(id="main", text="?", scale=Scale(options=tuple(range(0, 101))))
    quality = rng.normal(scale=12, size=items)
    rows = [
        said(
            name,
            place,
            int(np.clip(round(50 + level + widths[name] * quality[place] + rng.normal(scale=noise)), 0, 100)),
        )
        for name, level in levels.items()
        for place in range(items)
    ]
    return Answers.of(question, rows)


def test_habits_are_found_and_people_who_share_them_are_not_told_apart() -> None:
    levels, widths = {"ann": -8.0, "bob": 0.0, "cy": 8.0}, {"ann": 1.0, "bob": 1.5, "cy": 0.5}
    found = opinions(levels, widths, 3.0)
    about = {each.person: each for each in habits(found)}
    for name, level in {"ann": -12.0, "bob": 0.0, "cy": 12.0}.items():  # less the mean of the two others
        figure = about[name].level
        assert figure.low is not None and figure.high is not None and figure.low - 2 <= level <= figure.high + 2
    assert about["bob"].width.low is not None and about["bob"].width.low > 1 > (about["cy"].width.high or 2)
    apart = taken_apart(found)
    assert (
        apart is not None
        and apart.level.value is not None
        and apart.width.value is not None
        and apart.rest.value is not None
    )
    assert apart.level.value + apart.width.value + apart.rest.value == pytest.approx(1)
    # Σ over pairs of (level difference)² : (width difference)²·12² : 2·noise²
    planted_parts = np.array([64 + 64 + 256, (0.25 + 0.25 + 1) * 144, 3 * 2 * 9.0])
    shares = planted_parts / planted_parts.sum()
    assert np.allclose([apart.level.value, apart.width.value, apart.rest.value], shares, atol=0.09)
    same = taken_apart(opinions(dict.fromkeys(levels, 0.0), dict.fromkeys(widths, 1.0), 3.0))
    assert same is not None and same.rest.low is not None and same.rest.low > 0.9


def test_agreement_and_its_change_have_the_intervals_of_conversations() -> None:
    levels = {"ann": -8.0, "bob": 0.0, "cy": 8.0}
    before = opinions(levels, dict.fromkeys(levels, 1.0), 8.0)
    after = opinions(dict.fromkeys(levels, 0.0), dict.fromkeys(levels, 1.0), 3.0)
    alpha = people_agree(before)
    assert (
        alpha.low is not None
        and alpha.value is not None
        and alpha.high is not None
        and alpha.low < alpha.value < alpha.high
    )
    one, other, change = change_of(before, after)
    assert one == people_agree(before) and change.value == pytest.approx((other.value or 0) - (one.value or 0))
    assert change.low is not None and change.low > 0
    nobody = change_of(before, Answers.of(MAIN, [said("dee", 0, 1)]))
    assert nobody[2].value is None


def test_the_items_on_which_people_differ_come_first_and_agreement_is_no_item() -> None:
    rows = [
        said("ann", 0, 1),
        said("bob", 0, 5),
        said("ann", 1, 2),
        said("bob", 1, 3),
        said("ann", 2, 4),
        said("bob", 2, 4),
    ]
    found = worst(Answers.of(MAIN, [*rows, said("ann", 3, 1)]))
    assert [(unit[0].conversation, apart) for unit, apart in found] == [("c0", 16.0), ("c1", 1.0)]


# --- the order ------------------------------------------------------------------------------------------------------


def test_the_order_thinks_ahead_and_says_when_the_interval_is_half_as_wide() -> None:
    corpus = planted(conversations=60, annotators=4, noise=0.5)
    few = Labels(list(corpus.labels)[:30])
    order = Order.of(corpus.evidence, few, corpus.question, few.annotators, 80)
    assert list(order.left) == sorted(order.left, reverse=True) and 0 < order.left[-1] < order.left[0] < 1
    half = order.to_half
    assert half is not None and order.left[half - 1] <= 0.25 < order.left[half - 2]
    assert order.said() == f"{half} more labels, in this order, halve the evaluator's interval."
    short = Order.of(corpus.evidence, few, corpus.question, few.annotators, 2)
    assert short.to_half is None and "narrow the evaluator's interval by" in short.said()


def test_random_draws_are_a_fixed_sample_of_the_items_and_the_rest_goes_by_the_order() -> None:
    settings = StudySettings(order="informative", random_share=0.25)
    items = [Item("look", 1, place, "plain", Target(f"c{place}")) for place in range(400)]
    drawn = [item for item in items if is_random(settings, item)]
    assert 70 <= len(drawn) <= 130 and all(is_random(StudySettings(), item) for item in items)
    candidates = [Candidate(item, 0) for item in items]
    others = [item.target for item in items if item not in drawn]
    order = Order({"ann": [others[7], others[3]]}, [0.5])
    taught = ranking(settings, lambda: order, lambda: 0.9)
    assert taught(candidates, "ann").item.target == others[7]
    assert taught([each for each in candidates if each.item.target != others[7]], "ann").item.target == others[3]
    assert ranking(settings, lambda: order, lambda: 0.1)(candidates, "ann").item in drawn
    assert ranking(settings, lambda: None)(candidates, "ann").item in drawn, "before there is an order, at random"
    assert taught([each for each in candidates if each.item in drawn], "ann").item in drawn
    assert taught(candidates, "bob").item in items, "nothing is wanted of bob: something else"


# --- jobs -----------------------------------------------------------------------------------------------------------


def test_jobs_run_one_at_a_time_wait_once_and_say_why_they_failed() -> None:
    import threading

    jobs, gate, began, done = Jobs(), threading.Event(), threading.Event(), list[int]()

    def first() -> None:
        began.set()
        gate.wait()
        done.append(1)

    assert jobs.add("a", first) and began.wait(60)
    assert jobs.state("a") == "running" and jobs.add("b", lambda: done.append(2)) and not jobs.add("b", lambda: None)
    assert jobs.state("b") == "waiting" and jobs.add("c", lambda: open("/nowhere/at/all"))
    gate.set()
    jobs.wait()
    assert done == [1, 2] and "No such file" in jobs.failed["c"] and jobs.state("c") == ""
    jobs.close()
    assert not jobs.add("d", lambda: None)


def test_charts_escape_what_they_are_told_and_keep_two_colours_apart() -> None:
    from accord.workbench.agreeing import Figure

    figure = Figure(0.4, 0.3, 0.5, 10)
    chart = intervals([Mark("<script>", figure), Mark("model", figure, "model", '/"x')], 0, 1, "It's & so", 0)
    assert "<script>" not in chart and "&lt;script&gt;" in chart and 'href="/&#34;x"' in chart
    assert 'class="people"' in chart and 'class="model"' in chart and "0.40 [0.30, 0.50]" in chart
    assert "style=" not in chart

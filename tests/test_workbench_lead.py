"""Lead pages and studies: agreement, blind predictions, norming rounds, adjudication, retraining."""

from __future__ import annotations

import html
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served_workbench import Browser, StartWorkbench, project, submitted, token
from waiting import until

from accord import Conversation, Project, Turn
from accord.charts import ChartRow
from accord.edges import BadInput
from accord.learning import Calibration
from accord.project import Config
from accord.project.evaluators.retrain import candidate_folder, load_report, promote_candidate, recover_promotion
from accord.results import Figure, Ledger, figure_html
from accord.statistics import krippendorff_alpha, mean_sequence, units_alpha
from accord.store import Candidate, Item, Prediction, Studies
from accord.studies import (
    StudySession,
    describe_agreement,
    describe_agreement_on,
    describe_level,
    describe_levels,
    describe_parts,
)
from accord.studies.agreement.annotators import (
    UNDEFINED,
    AnnotatorHabit,
    AnswerMatrix,
    CountedEstimate,
    DisagreementParts,
    agreement_change,
    agreement_figure,
    agreement_of,
    annotator_habits,
    decompose_disagreement,
    disputed_units,
    most_disputed,
)
from accord.studies.background_jobs import BackgroundJobs
from accord.studies.background_learning import BackgroundLearning
from accord.studies.blind_predictions import live_accuracy
from accord.studies.item_order import ItemOrder, is_random_sample, make_ranking
from accord.studies.study_progress import StudyProgress
from accord.testing import planted
from accord.values import Annotation, Estimate, Label, Labels, Question, Scale, ScaleKind, StudySettings, Target
from accord.web.pages.disagreement import habit_charts
from accord.web.pages.lead import agreement_chart

SCALE = Scale(options=(1, 2, 3, 4, 5))
MAIN = Question(id="main", text="How good is it?", scale=SCALE)


def said(person: str, place: int, value: int | str) -> Annotation:
    return Annotation(Target(f"c{place}"), "main", person, "person", value)


# --- statistics -----------------------------------------------------------------------------------------------------


def test_alpha_of_many_draws_is_that_of_the_library() -> None:
    counts = np.random.default_rng(0).integers(0, 3, size=(40, 5)).astype(float)
    codes = [np.repeat(np.arange(5), row.astype(int)) for row in counts]
    units = [{f"p{place}": float(code) for place, code in enumerate(each)} for each in codes]
    ones = np.ones((1, 40))
    for level, is_ordered in (("ordinal", True), ("nominal", False)):
        assert units_alpha(counts, ones, is_ordered)[0] == pytest.approx(krippendorff_alpha(units, level))
    twice = np.where(np.arange(40) < 20, 2.0, 0.0)[None]
    doubled = np.concatenate([counts[:20], counts[:20]])
    assert units_alpha(counts, twice)[0] == pytest.approx(units_alpha(doubled, ones)[0])


def test_the_confidence_sequence_covers_at_every_look_and_a_fixed_interval_does_not() -> None:
    """Conversations share an effect that all their answers have: one value each. 200 runs of 200 looks."""
    rng, runs, n = np.random.default_rng(1), 200, 200
    shared, own = rng.normal(size=(runs, n, 1)), rng.normal(size=(runs, n, 3))
    errors = (np.clip(0.8 * shared + 0.6 * own, -2, 2) ** 2).mean(axis=2)
    truth = float((np.clip(0.8 * rng.normal(size=10**6) + 0.6 * rng.normal(size=10**6), -2, 2) ** 2).mean())
    missed = {"sequence": 0, "fixed": 0}
    for run in errors:
        # The sequence is the intersection of all looks, so the last interval lies inside every earlier one.
        ends = mean_sequence(run, 0, 4)
        missed["sequence"] += not ends.low <= truth <= ends.high
        looks = np.arange(5, n)
        mean = np.cumsum(run)[looks - 1] / looks
        squares = np.cumsum(run**2)[looks - 1] - looks * mean**2
        spread = np.sqrt(squares / (looks - 1))
        missed["fixed"] += bool((np.abs(mean - truth) > 1.96 * spread / np.sqrt(looks)).any())
    assert missed["sequence"] / runs <= 0.05 and missed["fixed"] / runs > 0.2
    whole = mean_sequence(errors[0], 0, 4)
    assert whole.high - whole.low < 1.2


def test_confidence_sequence_is_whole_without_values_and_refuses_values_outside_its_range() -> None:
    assert (mean_sequence(np.zeros(0), -1, 1).low, mean_sequence(np.zeros(0), -1, 1).high) == (-1, 1)
    with pytest.raises(ValueError, match="must be from"):
        mean_sequence(np.array([1.5]), 0, 1)


def opinions(levels: dict[str, float], widths: dict[str, float], noise: float) -> AnswerMatrix:
    """Answers of annotators with planted habits to 80 items, on a wide scale."""
    rng = np.random.default_rng(0)
    question = Question(id="main", text="?", scale=Scale(options=tuple(range(0, 101))))
    quality = rng.normal(scale=12, size=80)
    rows = []
    for name, level in levels.items():
        values = 50 + level + widths[name] * quality + rng.normal(scale=noise, size=80)
        rows += [said(name, place, int(value)) for place, value in enumerate(np.clip(values.round(), 0, 100))]
    return AnswerMatrix.of(question, rows)


def test_summary_sentence_reads_only_answers_to_the_main_question(tmp_path: Path) -> None:
    with project(tmp_path, annotators_per_item=2) as opened:
        studies = Studies(opened.store)
        look = StudySession(opened, "look", studies)
        look.begin()
        assert "No answers yet" in StudyProgress(look).sentence()
        targets = [item.target for item in studies.items("look")]
        opened.store.add_annotations(
            Annotation(target, question, who, "person", 1 + place % 3, answer=f"{who} {question} {place}", study="look")
            for place, target in enumerate(targets[:9])
            for who in ("ann", "bob")
            for question in (StudyProgress(look).main.id, "Q1")
        )
        quick, whole = StudyProgress(look), StudyProgress(look)
        assert whole.answers and whole.by_question
        assert quick.sentence() == whole.sentence() and quick.sentence().startswith("9 of 12 items rated twice")
        assert "answers" not in quick.__dict__, "the other answers were not read"
        kept = studies.answers("look", question="Q1")
        assert kept == [each for each in whole.answers if each.question == "Q1"] and len(kept) == 18
        assert list(opened.store.labels("Q1")) == [each for each in opened.store.labels() if each.question == "Q1"]
        studies.close()


def test_planted_habits_are_recovered_and_shared_habits_do_not_differ() -> None:
    levels, widths = {"ann": -8.0, "bob": 0.0, "cy": 8.0}, {"ann": 1.0, "bob": 1.5, "cy": 0.5}
    found = opinions(levels, widths, 3.0)
    about = {each.person: each for each in annotator_habits(found)}
    for name, level in {"ann": -12.0, "bob": 0.0, "cy": 12.0}.items():  # less the mean of the two others
        assert about[name].level.low - 2 <= level <= about[name].level.high + 2
    assert about["bob"].width.low > 1 > about["cy"].width.high
    apart = decompose_disagreement(found)
    parts = [apart.level.value, apart.width.value, apart.residual.value]
    assert sum(parts) == pytest.approx(1)
    # Σ over pairs of (level difference)² : (width difference)²·12² : 2·noise²
    planted_parts = np.array([64 + 64 + 256, (0.25 + 0.25 + 1) * 144, 3 * 2 * 9.0])
    assert np.allclose(parts, planted_parts / planted_parts.sum(), atol=0.09)
    same = decompose_disagreement(opinions(dict.fromkeys(levels, 0.0), dict.fromkeys(widths, 1.0), 3.0))
    assert same.residual.low > 0.9


def test_agreement_and_its_change_have_the_intervals_of_conversations() -> None:
    levels = {"ann": -8.0, "bob": 0.0, "cy": 8.0}
    before = opinions(levels, dict.fromkeys(levels, 1.0), 8.0)
    after = opinions(dict.fromkeys(levels, 0.0), dict.fromkeys(levels, 1.0), 3.0)
    alpha = agreement_of(before)
    assert alpha.low < alpha.value < alpha.high
    one, other, change = agreement_change(before, after)
    assert one == alpha and change.value == pytest.approx(other.value - one.value) and change.low > 0
    assert agreement_change(before, AnswerMatrix.of(MAIN, [said("dee", 0, 1)]))[2].value is None
    rows = [said(name, n, v) for n in range(9) for name, v in (("ann", 2), ("bob", 3))]
    alike = agreement_of(AnswerMatrix.of(MAIN, rows))
    assert alike.value < 0 and alike.low is alike.high is None, "resamples are all the same"


@pytest.mark.parametrize(
    ("scale", "rows", "disputed"),
    [
        (SCALE, ["ann1 bob5", "ann2 bob3", "ann4 bob4", "ann1"], [("c0", 16.0), ("c1", 1.0)]),
        (
            Scale(kind=ScaleKind.NOMINAL, options=("1", "2", "3")),
            ["ann1 bob3 cyd1", "ann1 bob2", "ann2 bob2"],
            [("c1", 1.0), ("c0", 0.667)],
        ),
    ],
)
def test_the_items_on_which_people_differ_come_first_and_agreement_is_no_item(
    scale: Scale, rows: list[str], disputed: list[tuple[str, float]]
) -> None:
    value = int if scale is SCALE else str
    answers = [said(each[:3], place, value(each[3:])) for place, row in enumerate(rows) for each in row.split()]
    found = most_disputed(AnswerMatrix.of(Question(id="main", text="?", scale=scale), answers))
    assert [(unit[0].conversation, round(apart, 3)) for unit, apart in found] == disputed


def answered(**rows: list[int]) -> AnswerMatrix:
    """Return the answers of annotators to the same items, on a scale of five."""
    return AnswerMatrix.of(
        MAIN, [said(name, n, value) for name, values in rows.items() for n, value in enumerate(values)]
    )


UP, DOWN = [1, 2, 3, 4, 5] * 4, [5, 4, 3, 2, 1] * 4
HOSTILE = {
    "nobody": (answered(), "no item has answers of two people", "Too few shared items"),
    "one annotator": (answered(ann=UP), "no item has answers of two people", "Too few shared items"),
    "all equal": (answered(ann=[3] * 20, bob=[3] * 20), "cannot be measured", "None of two people is clearly"),
    "full agreement": (answered(ann=UP, bob=UP), "People agree well: 1.00 from 0 (chance) to 1", "None of two people is clearly"),
    "perfect disagreement": (answered(ann=UP, bob=DOWN), "no better than chance: they disagree more", "None of two people is clearly"),
    "opposite ends": (answered(ann=[1] * 20, bob=[5] * 20), "no better than chance: they disagree more", "ann is stricter than bob by 4.00 points"),
    "one constant": (answered(ann=[3] * 20, bob=UP), "not clear that people agree", "None of two people is clearly"),
    "few items": (answered(ann=[1, 2], bob=[2, 3]), "", "Too few shared items"),
    "two strict of four": (
        answered(ann=[1, 2, 2, 3] * 5, bob=[1, 2, 3, 2] * 5, cy=[2, 3, 3, 4] * 5, dee=[2, 3, 4, 3] * 5),
        "It is not clear that people agree beyond chance",
        "Two of four people are stricter by 0.67 points (ann, bob); two are more lenient by 0.67 points (cy, dee).",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_agreement_in_words_with_its_set_and_axes_that_hold_their_intervals(name: str) -> None:
    matrix, agreement, levels = HOSTILE[name]
    habits, parts = annotator_habits(matrix) if len(matrix.units) else [], decompose_disagreement(matrix)
    alpha = agreement_figure(matrix, "in the study Look")
    assert alpha.estimate == Estimate(*(getattr(agreement_of(matrix), name) for name in ("value", "low", "high")))
    assert alpha.about == f"{alpha.n} ratings of {agreement_of(matrix).n} items in the study Look"
    said = describe_agreement(alpha)
    assert agreement in said and (not alpha.n or alpha.about in said)
    assert describe_levels(habits).startswith(levels)
    for part in () if parts is None else (parts.level, parts.width, parts.residual):
        assert all(0 <= end <= 1 for end in (part.value, part.low, part.high) if end is not None)
    if parts is not None:
        assert parts.level.value + parts.width.value + parts.residual.value == pytest.approx(1)
        assert re.match(r"Of the disagreement, \d+% ", describe_parts(parts))
    charts = habit_charts(MAIN, parts, habits)
    assert_held(charts["level"], [habit.level for habit in habits])
    assert_held(charts["width"], [habit.width for habit in habits])
    assert_held(agreement_chart([ChartRow("q", agreement_of(matrix), "people")], "t"), [agreement_of(matrix)])


@st.composite
def estimates(draw: st.DrawFn, low: float = -2.0, high: float = 1.5) -> CountedEstimate:
    """An estimate with or without an interval that holds it."""
    ends = sorted(round(each, 3) for each in draw(st.lists(st.floats(low, high), min_size=3, max_size=3)))
    value, first, last = ends[1], *draw(st.sampled_from([(None, None), (ends[0], ends[2])]))
    return CountedEstimate(value, first, last, draw(st.integers(1, 50)))


@given(estimates())
@settings(max_examples=200)
def test_agreement_is_stated_as_its_figures_say(alpha: CountedEstimate) -> None:
    figure = Figure.measured("alpha", alpha, alpha.n, "the set")
    said = describe_agreement(figure)
    assert alpha.value is not None and figure.text() in said and "the set" in said
    assert said.startswith("People agree no better than chance") == (alpha.value <= 0)
    is_clear = alpha.value > 0 and (alpha.low is None or alpha.low > 0)
    assert ("from 0 (chance) to 1 (full agreement)" in said) == is_clear
    assert ("disagree more than by chance" in said) <= (alpha.value < 0 and (alpha.high is None or alpha.high < 0))


@given(st.lists(st.one_of(st.just(UNDEFINED), estimates(-4.0, 4.0)), max_size=6))
@settings(max_examples=200)
def test_levels_are_stated_as_their_intervals_say(levels: list[CountedEstimate]) -> None:
    habits = [AnnotatorHabit(f"person{n}", level, UNDEFINED, {}) for n, level in enumerate(levels)]
    known = [each for each in levels if each.value is not None]
    said = describe_levels(habits)
    clear = {
        sign: sum(sign * min(level.low, level.high, key=lambda end: sign * end) > 0 if level.low is not None
                  and level.high is not None else sign * (level.value or 0.0) > 0 for level in known)
        for sign in (-1, 1)
    }  # fmt: skip
    assert said.startswith("Too few shared items") == (len(known) < 2)
    if len(known) > 1:
        assert ("clearly" in said) == (not any(clear.values()))
        assert ("stricter by" in said or "is stricter than" in said) == bool(clear[-1])
    assert not re.search(r"-\d", said)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3).filter(lambda parts: sum(parts) > 0.01))
def test_parts_of_the_disagreement_sum_to_a_whole(weights: list[float]) -> None:
    shares = [CountedEstimate(each / sum(weights), n=9) for each in weights]
    said = describe_parts(DisagreementParts(*shares))
    numbers = [int(each) for each in re.findall(r"(\d+)%", said)]
    assert all(0 <= each <= 100 for each in numbers) and (len(numbers) == 1 or sum(numbers) == 100)
    largest = max(share.value or 0.0 for share in shares)
    assert abs(numbers[0] - 100 * largest) <= 0.51, "the sentence names the largest part"


def assert_held(chart: str | None, estimates: list[Any]) -> None:
    """Check that values and interval ends are drawn at their places on the axis, not cut off at its ends."""
    known = [each for each in estimates if each.value is not None]
    if chart is None or not known:
        return
    ticks = re.findall(r'<text x="([\d.]+)%?" y="\d+" (?:class="tick"|text-anchor)[^>]*>([^<]+)', chart)
    (first, low), *_, (last, high) = [(float(x), float(text.replace("\u2212", "-"))) for x, text in ticks]
    ends = [(each.value, each.value) if each.low is None else (each.low, each.high) for each in known]
    dots, lines = (
        re.findall(r'cx="([\d.]+)', chart),
        re.findall(r'class="(?:line|ci \w+)" x1="([\d.]+)%?" x2="([\d.]+)', chart),
    )
    drawn = {float(x) for x in [*dots, *(x for line in lines for x in line)]}
    numbers = [*(each.value for each in known), *(end for pair in ends for end in pair)]
    places = [first + (last - first) * (number - low) / (high - low) for number in numbers]
    assert all(min(abs(x - place) for x in drawn) < 0.2 for place in places), (drawn, places)
    assert all(min(abs(x - place) for place in places) < 0.2 for x in drawn), (drawn, places)


def test_residual_of_annotators_without_habits_has_no_negative_share() -> None:
    same = decompose_disagreement(opinions(dict.fromkeys(LEVELS, 0.0), dict.fromkeys(LEVELS, 1.0), 3.0))
    assert same.level.value >= 0 and same.width.value >= 0 and same.residual.high <= 1
    assert describe_parts(same).startswith("Of the disagreement, ") and "discuss the items below" in describe_parts(
        same
    )


# --- the order ------------------------------------------------------------------------------------------------------


def test_the_order_thinks_ahead_and_says_when_the_interval_is_half_as_wide() -> None:
    corpus = planted(conversations=60, annotators=4, noise=0.5)
    few = Labels(list(corpus.labels)[:30])
    order = ItemOrder.compute(corpus.evidence, few, corpus.question, few.annotators, 80)
    left = list(order.remaining_variance)
    assert left == sorted(left, reverse=True) and 0 < left[-1] < left[0] < 1
    half = order.labels_to_halve
    assert left[half - 1] <= 0.25 < left[half - 2]
    assert order.sentence() == f"{half} more labels, in this order, halve the evaluator's interval."
    short = ItemOrder.compute(corpus.evidence, few, corpus.question, few.annotators, 2)
    assert short.labels_to_halve is None and "narrow the evaluator's interval by" in short.sentence()


def test_random_draws_are_a_fixed_sample_of_the_items_and_the_rest_goes_by_the_order() -> None:
    settings = StudySettings(order="informative", random_share=0.25)
    items = [Item("look", 1, place, "plain", Target(f"c{place}")) for place in range(400)]
    sample_items = [item for item in items if is_random_sample(settings, item)]
    assert 70 <= len(sample_items) <= 130 and all(is_random_sample(StudySettings(), item) for item in items)
    candidates = [Candidate(item, 0) for item in items]
    others = [item.target for item in items if item not in sample_items]
    order = ItemOrder([(others[7], "ann"), (others[3], "ann")], [0.7, 0.5])
    taught = make_ranking(settings, lambda: order, lambda: 0.9)
    assert taught(candidates, "ann").item.target == others[7]
    assert taught([each for each in candidates if each.item.target != others[7]], "ann").item.target == others[3]
    assert make_ranking(settings, lambda: order, lambda: 0.1)(candidates, "ann").item in sample_items
    unordered = make_ranking(settings, lambda: None)(candidates, "ann")
    assert unordered.item in sample_items, "before there is an order, at random"
    assert taught([each for each in candidates if each.item in sample_items], "ann").item in sample_items
    assert taught(candidates, "bob").item in items, "nothing is wanted of bob: something else"


# --- jobs -----------------------------------------------------------------------------------------------------------


def test_jobs_run_one_at_a_time_wait_once_and_say_why_they_failed() -> None:
    jobs, gate, began, done = BackgroundJobs(), threading.Event(), threading.Event(), list[int]()

    def first() -> None:
        began.set()
        gate.wait()
        done.append(1)

    assert jobs.add("a", first) and began.wait(60)
    assert jobs.state("a") == "running" and jobs.add("b", lambda: done.append(2)) and not jobs.add("b", lambda: None)
    assert jobs.state("b") == "waiting" and jobs.add("c", lambda: Path("/nowhere/at/all").read_text(encoding="utf-8"))
    gate.set()
    jobs.wait()
    assert done == [1, 2] and "No such file" in jobs.failed["c"] and jobs.state("c") == ""
    jobs.close()
    assert not jobs.add("d", lambda: None)


# --- a study under way ----------------------------------------------------------------------------------------------

RUBRIC = """name: help
main: Q0
questions:
  - {id: Q0, text: "How much does the answer help?", options: {1: Not at all, 2: A little, 3: Mostly, 4: Fully}}
  - {id: Q1, text: "Is it clear?", options: {1: "No", 2: Hardly, 3: Mostly, 4: "Yes"}}
"""
LEVELS = {"ann": -0.7, "bob": 0.0, "cy": 0.2, "dee": 0.8}


class Panel:
    """Four people who answer by the length of the reply, each with a level of their own."""

    def __init__(self, look: StudySession, seed: int = 0) -> None:
        self.look, self.rng = look, np.random.default_rng(seed)

    def rate(self, person: str, most: int) -> None:
        """Answer some items."""
        for _ in range(most):
            assignment = self.look.take(person)
            if assignment is None:
                return
            item = assignment.item
            [conversation] = self.look.project.store.conversations([item.target.conversation])
            quality = (len(conversation.turns[1].content.split()) - 12) / 5
            for question, weight in (("Q0", 1.0), ("Q1", 0.5)):
                value = int(np.clip(round(2.5 + weight * quality + LEVELS[person] + self.rng.normal(scale=0.5)), 1, 4))
                id = f"{person}-{item.place:05d}-{question}-{item.round}-{item.kind}-made-by-page"
                given = submitted(assignment.id, question, value, id, seconds=12.5, comment=f"as {person} sees it")
                self.look.answer(person, given)
            self.look.finish(person, assignment.id)

    def everybody(self, most: int) -> None:
        for person in LEVELS:
            self.rate(person, most)


def led(folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Project:
    """Thirty conversations, whose replies have from 1 to 25 words."""
    monkeypatch.chdir(folder)
    (folder / "help.yaml").write_text(RUBRIC, encoding="utf-8")
    study = {"title": "First look", "annotators_per_item": 2, "annotators": sorted(LEVELS), **settings}
    content = {
        "store": f"sqlite:///{folder}/accord.db", "rubric": "help.yaml", "metrics": ["words"],
        "evaluators": {"default": {"head": "mixed"}}, "studies": {"look": study},
    }  # fmt: skip
    opened = Project(Config.model_validate(content))
    lengths = np.random.default_rng(3).integers(1, 25, 30)
    opened.store.add_conversations(
        Conversation(f"chat-{n:02d}", (Turn("user", f"Question {n}?"), Turn("assistant", " ".join(["step"] * words))))
        for n, words in enumerate(lengths.tolist())
    )
    return opened


Begun = tuple[StudySession, BackgroundLearning, Panel]


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Begun]]:
    """Begin a study with these settings; the background learning ends with the test."""
    with ExitStack() as stack:

        def start(**settings: Any) -> Begun:
            opened = stack.enter_context(led(tmp_path, monkeypatch, **settings))
            studies = Studies(opened.store)
            stack.callback(studies.close)
            look = StudySession(opened, "look", studies)
            look.begin()
            loop = BackgroundLearning({"look": look})
            stack.callback(loop.jobs.close)
            loop.jobs.wait()
            return look, loop, Panel(look)

        yield start


def fit_and_promote(loop: BackgroundLearning) -> None:
    loop.retrain()
    if loop.state()["candidate"] is not None:  # the first evaluator is in use at once
        loop.promote()
    loop.jobs.wait()


def test_repeated_items_are_saved_next_to_first_answers(begin: Callable[..., Begun]) -> None:
    look, _, panel = begin(repeat_share=0.5, annotators_per_item=1)
    panel.rate("ann", 60)
    answers = look.studies.answers("look", question="Q0")
    first = {each.target: each.value for each in answers if each.study == "look"}
    again = [each for each in answers if each.study == "look/1/again"]
    assert len(first) == 30 and again and all(not each.replaces for each in again)
    same = sum(each.value == first[each.target] for each in again)
    [ann] = [each for each in StudyProgress(look).by_annotator if each.person == "ann"]
    assert ann.repeats.n == 2 * len(again), "both questions"
    assert ann.repeats.value * ann.repeats.n >= same
    assert StudyProgress(look).sentence().startswith("30 of 30 items rated;")


def test_prediction_is_saved_before_the_answer_and_tests_it(begin: Callable[..., Begun]) -> None:
    look, loop, panel = begin(show_prediction=True)
    assert loop.reasons == {"look": "no evaluator is fitted yet"}
    panel.everybody(7)
    assert not look.studies.predictions("look") and "evaluator" not in StudyProgress(look).sentence()
    loop.retrain()
    assert loop.evaluator is not None and load_report(loop.folder) is None, "a first evaluator is in use at once"
    loop.jobs.wait()
    assert loop.evaluator is not None and not loop.reasons
    asked = next(assignment for person in LEVELS if (assignment := look.take(person)) is not None)
    [expected] = look.studies.predictions("look")
    assert expected.item == asked.item.key and sum(expected.distribution.values()) == pytest.approx(1)
    assert not look.revealed(asked), "nothing is shown before the answer"
    panel.everybody(30)
    assert look.revealed(look.assignment(asked.id, asked.person)) == (expected,)
    found = live_accuracy(look)
    assert found.unpredicted == 28 and len(found.paired) == 32 and len(found.completed) > 10
    figures = found.estimates()
    assert figures["pearson"].value > 0.6 and figures["gain"].value > 0.05
    # An answer that is changed after it was given is no test any more: the first one counts.
    answers = look.studies.answers("look", question="Q0")
    [own] = [each for each in answers if each.by == asked.person and each.target == asked.item.target]
    look.answer(asked.person, submitted(asked.id, "Q0", 1 if own.value != 1 else 4, "z" * 20))
    assert live_accuracy(look).paired.answer.tolist() == found.paired.answer.tolist()


def test_no_prediction_is_made_after_the_answer(begin: Callable[..., Begun]) -> None:
    look, loop, panel = begin()
    panel.everybody(6)
    begun = look.take("ann")
    look.answer("ann", submitted(begun.id, "Q0", 2))
    fit_and_promote(loop)
    assert look.take("ann").id == begun.id
    assert not [each for each in look.studies.predictions("look") if each.person == "ann"]
    # The first prediction stays if another process writes one.
    made = Prediction(begun.item.key, "ann", "Q0", "another", {"1": 1.0}, "2020")
    assert look.studies.add_predictions([made]) == 1 and look.studies.add_predictions([made]) == 0


def test_answers_about_training_conversations_are_no_blind_test(begin: Callable[..., Begun]) -> None:
    look, loop, panel = begin(annotators_per_item=3)
    for person in ("ann", "bob"):
        panel.rate(person, 10)
    answers = look.studies.answers("look", question="Q0")
    learned = {each.target.conversation for each in answers}
    fit_and_promote(loop)
    assert "blind" not in StudyProgress(look).sentence(), "no answer since the fit"
    panel.rate("cy", 1)
    assert not look.studies.predictions("look"), "items with some ratings come first, and they are training data"
    first = live_accuracy(look)
    assert not len(first.paired) and first.left_out == 1 and first.estimates() == {}
    assert first.sentence() == (
        "No answer is a blind test yet: 1 of 1 answer is about conversations that the evaluator learned from. Answers "
        "about new conversations will be blind tests."
    )
    # Predictions that an earlier version saved are treated alike.
    items = [item for item in look.studies.items("look") if item.target.conversation in learned]
    signature = loop.predictors["look"].signature
    saved = [Prediction(item.key, "cy", "Q0", signature, {"2": 1.0}, "2999") for item in items]
    look.studies.add_predictions(saved)
    panel.rate("cy", 30)
    found = live_accuracy(look)
    given = [each.target.conversation for each in look.studies.answers("look", question="Q0") if each.by == "cy"]
    assert found.left_out == sum(name in learned for name in given) > 2
    assert len(found.paired) == len(given) - found.left_out > 2 and not learned & set(found.conversation)
    assert found.unpredicted == 20
    assert f"{found.left_out} of {len(given)} answers are about conversations that the" in found.sentence()
    ledger = found.ledger()
    assert ledger.text("blind_answers") == f"{len(found.paired)} of {len(given)}" and "blind_error" in ledger
    assert (
        f"(blind test of {len(found.paired)} answers, {found.left_out} about training data"
        in StudyProgress(look).sentence()
    )


def test_the_informative_order_is_made_as_labels_arrive(begin: Callable[..., Begun]) -> None:
    look, loop, panel = begin(order="informative", random_share=0.3)
    assert "8 are needed; label random conversations first" in loop.jobs.failed["order look"]
    panel.everybody(5)
    loop.jobs.wait()
    order = loop.orders["look"]
    assert order.remaining_variance and "order look" not in loop.jobs.failed
    done = {(each.item.target, each.person) for each in look.studies.all_assignments("look")}
    assert not done & set(order.suggested[:1])
    fit_and_promote(loop)
    order = loop.orders["look"]
    panel.everybody(5)
    loop.jobs.wait()
    assert loop.orders["look"] is not order
    items = look.studies.items("look")
    random_draws = {each.target.conversation for each in items if is_random_sample(look.settings, each)}
    panel.everybody(5)
    assert {each.item.target.conversation for each in look.studies.all_assignments("look")} - random_draws
    tested = set(live_accuracy(look).conversation)
    assert tested and tested <= random_draws, "estimates use the random draws alone"


def test_a_promotion_that_is_cut_in_two_is_ended_at_the_next_start(begin: Callable[..., Begun]) -> None:
    _, loop, panel = begin(retrain_every=24)
    panel.everybody(5)
    loop.jobs.wait()
    assert loop.state()["candidate"] is None, "20 new answers are fewer than 24"
    panel.everybody(2)
    loop.jobs.wait()
    folder = loop.folder
    first = json.loads((folder / "refit.json").read_text(encoding="utf-8"))
    assert loop.state()["candidate"] is None and first["labels"] >= 24, "the first evaluator is in use at once"
    loop.retrain()
    report = load_report(folder)
    assert report["before"]["n"] == report["now"]["n"] == 28
    assert {each["statistic"] for each in report["tests"]} == {"rmse", "pearson", "log_loss"}
    # The summary states the typical errors of the verdict, for a new annotator, on the same ratings.
    ledger, verdict = Ledger.from_json(report["ledger"]), Ledger.from_json(report["verdict"]["ledger"])
    now, change = ledger["error:candidate"], ledger["error_change"]
    assert now.text() == verdict["error"].short and now.value != pytest.approx(report["now"]["rmse"], abs=1e-6)
    assert change.value == pytest.approx(now.value - ledger["error:in use"].value) and now.n == change.n == 28
    assert report["summary"].startswith(
        f"Typical error {ledger.text('error:in use')} before and {now.text()} now on the same 28 held-out ratings of "
    )
    # A candidate of an earlier version has no such figures, and its summary was about known annotators.
    stored = candidate_folder(folder) / "refit.json"
    old = {**json.loads(stored.read_text(encoding="utf-8")), "summary": "The error changes by −0.034 points: better."}
    stored.write_text(json.dumps({name: value for name, value in old.items() if name != "ledger"}), encoding="utf-8")
    assert load_report(folder)["summary"].startswith(
        "An earlier version compared this candidate by its error for known"
    )
    before, new = ((each / "evaluator.json").read_bytes() for each in (folder, candidate_folder(folder)))
    old = folder.rename(folder.with_name(f"{folder.name}.before-20261123"))  # the process dies here
    assert recover_promotion(folder) and not recover_promotion(folder)
    assert (folder / "evaluator.json").read_bytes() == new and (old / "evaluator.json").read_bytes() == before
    with pytest.raises(BadInput, match="no candidate to promote"):
        promote_candidate(folder)
    making = folder.with_name(f"{folder.name}.making")
    making.mkdir()
    (making / "evaluator.json").write_text("half", encoding="utf-8")  # it dies while it writes
    loop.retrain()
    assert load_report(folder) is not None and not making.exists()


def test_norming_rounds_ask_everybody_the_same_and_come_first(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = workbench(opened=led(tmp_path, monkeypatch))
    browser, look = bench.browser(), bench.session()
    page = browser.get("/lead/look")
    assert browser.status == 200 and "No answers yet; 30 items to be rated twice." in page
    Panel(look).everybody(1)

    def norm(items: str, do: str = "open") -> int:
        return browser.post("/lead/look/norm", form=token(page), items=items, do=do)[0]

    for items in ("0", "101", "\u0663", "\u00b2", "9" * 5000, "", "-1"):
        assert norm(items) == 422
    assert norm("6") == 303
    for person in LEVELS:
        item = look.take(person).item
        assert item.round == 2 and item.person == person
    Panel(look, 1).everybody(6)
    assert look.take("ann").item.round == 1, "then the study goes on"
    assert norm("3", "again") == 303
    Panel(look, 2).everybody(6)
    rounds = json.loads(browser.get("/lead/look.json"))["rounds"]
    assert [(each["round"], each["items"], each["done"]) for each in rounds] == [(2, 6, 24), (3, 6, 24)]
    change = rounds[1]["change"]["Q0"]
    assert change["n"] == 6 and change["low"] <= change["value"] <= change["high"]
    assert "Round 3: 24 of 24 ratings of 6 items" in browser.get("/lead/look")


def settled(browser: Browser) -> dict[str, Any]:
    """The evaluator's part of the first page, once nothing is being done."""

    def learning() -> Any:
        return json.loads(browser.get("/lead.json"))["learning"]

    until(lambda: not (found := learning())["fitting"] and not found["preparing"])
    return dict(learning())


def test_lead_fits_and_promotes_while_annotators_see_nothing(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = workbench(["ann"], ["lee"], led(tmp_path, monkeypatch))
    lee, ann, look = bench.browser("lee"), bench.browser("ann"), bench.session()
    Panel(look).everybody(6)
    page = lee.get("/evaluators")
    assert (
        "No evaluator is fitted yet" in page
        and "No report yet" in lee.get("/evaluators/report")
        and settled(lee)["evaluator"] is None
    )
    assert lee.post("/lead/promote", form=token(page), made="")[0] == 422
    assert lee.post("/lead/fit", form="0" * 64)[0] == 403
    assert lee.post("/lead/fit", form=token(page))[0] == 303
    first = settled(lee)
    assert first["candidate"] is None and first["evaluator"]["name"] == "default", "a first fit needs no promotion"
    page = lee.get("/evaluators")
    assert "in use" in page and "No evaluator is fitted yet" not in page and "Fit an evaluator" not in page
    assert "Nothing is left to do" not in page and "Compare and promote" not in lee.get("/")
    assert lee.post("/lead/fit", form=token(page))[0] == 303
    candidate = settled(lee)["candidate"]
    assert candidate["labels"] == 24 and "A candidate, fitted" in lee.get("/evaluators")
    step = json.loads(lee.get("/index.json"))["next"][0]
    assert (step["text"], step["address"], step["button"]) == (
        "Check the candidate", "/evaluators#next", "Compare and promote"
    )  # fmt: skip
    for path in ("/", "/index.json", "/lead", "/lead.json", "/lead/look", "/evaluators", "/import", "/rate/none"):
        assert str(tmp_path) not in lee.get(path), path
    assert lee.post("/lead/promote", form=token(page), made="2020")[0] == 422, "another than was looked at"
    assert lee.post("/lead/promote", form=token(page), made=candidate["made"])[0] == 303
    assert settled(lee)["evaluator"]["annotators"] == 4
    assert re.search(r"<title>(Q0: typical error [\d.]+|Home) · [^<]+</title>", lee.get("/"))
    read_reports(lee, look)

    shown = [ann.get(f"/{path}") for path in ("rate/look", "rate/look/done", "rate/look/done.json", "")]
    [expected] = [each for each in look.studies.predictions("look") if each.person == "ann"]
    shown.append(ann.get(f"/rate/look/{look.studies.assignments_of('look', 'ann')[0].id}.json"))
    chances = [f"{chance:.6}" for chance in expected.distribution.values()]
    for secret in (*chances, expected.evaluator, "expected", "as bob sees it"):
        assert not [each for each in shown if secret in each], secret
    for path in ("/lead", "/lead/look", "/lead/look/disagree", "/evaluators", "/evaluators/report"):
        for ending in ("", ".json"):
            said = ann.get(path + ending)
            assert ann.status == 403 and "the role lead" in said and "bob" not in said, path
    form = token(ann.get("/rate/look"))
    for path in ("/lead/fit", "/lead/score", "/lead/promote", "/lead/look/norm", "/lead/look/adjudicate"):
        assert ann.post(path, form=form)[0] == 403, path
    assert lee.get("/lead/nothing") and lee.status == 404
    assert max(item.round for item in look.studies.items("look")) == 1


def read_reports(lee: Browser, look: StudySession) -> None:
    """Read the report in the workbench: it waits, is made once, and leaves out ratings after the fit."""
    first = json.loads(lee.get("/evaluators/report.json"))
    assert first["is_building"] and first["verdict"] is None and first["name"] == "default"
    assert "The report is being made" in lee.get("/evaluators/report") or "<h1" in lee.get("/evaluators/report")

    def made(name: str = "") -> Any:
        return json.loads(lee.get(f"/evaluators/report.json?name={name}"))

    until(lambda: not made()["is_building"])
    page, verdict = lee.get("/evaluators/report"), made()["verdict"]
    home = json.loads(lee.get("/index.json"))
    assert verdict["title"] in page and home["evaluator"]["verdict"]["title"] == verdict["title"]
    own, stored = (Ledger.from_json(each["ledger"])["error"] for each in (verdict, home["evaluator"]["verdict"]))
    assert own.text() == stored.text()
    assert "24 ratings by 4 people" in page and "24 ratings by 4 people: all learned" in lee.get("/")
    assert 'id="agreement"' in page and "style=" not in page and "<script>" not in page
    assert all(f'id="{name}"' in page for name in re.findall(r'href="#(\w+)"', page))
    uses = page.partition('id="uses"')[2].partition("</section>")[0]
    assert '<ul class="rows">' in uses and "accord label next" not in uses, "a button does it"
    for person in sorted(LEVELS):
        Panel(look, 1).rate(person, 1)
    assert json.loads(lee.get("/index.json"))["counts"]["new"] == 4
    assert "it again with 4 new ratings" in lee.get("/")
    assert "24 ratings by 4 people" in lee.get("/evaluators/report") and not made()["is_building"]
    for name in ("../default", "default.before-x", "%3Cscript%3E", "a" * 5000, "default.candidate", "default%00"):
        lee.get(f"/evaluators/report?name={name}")
        assert lee.status == 404, name
        lee.get(f"/evaluators?first=default&second={name}")
        assert lee.status == 404, name


def test_page_of_a_study_says_how_far_people_agree_and_what_to_do_next(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = workbench(sorted(LEVELS), ["lee"], led(tmp_path, monkeypatch))
    lee, look = bench.browser("lee"), bench.session()
    assert re.search(r"<h1[^>]*>No ratings yet</h1>", lee.get("/lead/look"))
    Panel(look).everybody(13)
    page, data = html.unescape(lee.get("/lead/look")), json.loads(lee.get("/lead/look.json"))
    alpha = data["questions"][0]["agreement"]
    assert data["questions"][0]["question"] == "Q0" and data["headline"] in page
    figure = Figure.from_json(data["questions"][0]["alpha"])
    assert figure.estimate == Estimate(alpha["value"], alpha["low"], alpha["high"]) and figure.part == "look"
    assert re.fullmatch(rf"52 ratings of {alpha['n']} items in the study First look", figure.about) and figure.n == 52
    assert re.match(rf"People .* on Q0 \({figure.short} on 52 ratings\)", data["headline"])
    assert page.count("btn primary") == 1
    for path in ("/lead", "/lead/look", "/rubric"):
        shown = lee.get(path)
        assert figure_html(figure) in shown and figure.about in shown, path
    for text in (data["summary"], data["agreement"], json.loads(lee.get("/lead/look/disagree.json"))["summary"]):
        assert figure.about in text and figure.short in text
    table = page.partition("Agreement of people by question")[2].partition("</table>")[0]
    assert table.count("/lead/look/disagree?question=") == 2 == table.count('class="ci people"')
    assert "fairly well, 52 ratings of 26 items" in table
    queue = json.loads(lee.get("/lead/look/disagree.json"))
    assert data["disputed"] == queue["listed"] and f"Discuss {data['disputed']} disputed item" in page
    home = json.loads(lee.get("/index.json"))["studies"][0]
    [row] = json.loads(lee.get("/lead.json"))["studies"]
    assert data["full"] == home["full"] == row["full"] and row["agreement"] == home["agreement"]
    assert f"{data['full']} of 30 items rated twice" in page and row["disputed"] == data["disputed"]
    habits = {each["person"]: each["habit"] for each in data["people"]}
    levels = {each["person"]: Figure.from_json(each["figure"]) for each in data["people"]}
    assert habits["ann"] == f"{-levels['ann'].value:.2f} points lower than the others" and levels["ann"].high < 0
    assert habits["dee"] == "like the others" and figure_html(levels["ann"]) in lee.get("/lead/look")
    assert all(habit in page for habit in habits.values()) and "not compared with them blindly" in page
    assert f"agreement: {row['strength']}, <data" in lee.get("/rubric")


@pytest.mark.parametrize(
    ("options", "kind", "pair", "is_disputed"),
    [
        ((1, 2, 3, 4, 5), "ordinal", (2, 3), False),
        ((1, 2, 3, 4, 5), "ordinal", (2, 4), True),
        ((0, 1), "binary", (0, 1), True),
        ((0, 0.5, 1), "ordinal", (0, 0.5), False),
        (tuple(range(11)), "ordinal", (4, 6), False),
        (tuple(range(11)), "ordinal", (4, 7), True),
        (tuple(range(101)), "ordinal", (40, 64), False),
        (("red", "blue", "green"), "nominal", ("red", "blue"), True),
        (("red", "blue", "green"), "nominal", ("red", "red"), False),
    ],
)
def test_an_item_is_disputed_from_two_points_or_a_quarter_of_the_scale(
    options: tuple[Any, ...], kind: str, pair: tuple[Any, Any], is_disputed: bool
) -> None:
    question = Question(id="main", text="?", scale=Scale(options=options, kind=ScaleKind(kind)))
    matrix = AnswerMatrix.of(question, [said("ann", 1, pair[0]), said("bob", 1, pair[1]), said("ann", 2, pair[0])])
    assert len(disputed_units(matrix)) == is_disputed


def test_sentence_about_one_person_needs_shared_items_and_a_clear_difference() -> None:
    assert describe_level(CountedEstimate(-0.5, -0.9, -0.1, 20)) == "0.50 points lower than the others"
    assert describe_level(CountedEstimate(0.5, -0.1, 0.9, 20)) == "like the others"
    assert describe_level(UNDEFINED).startswith("unknown")
    for value, start in (
        (0.9, "People agree well on <q> (0.90 on 9 ratings)"),
        (-0.2, "People do not agree on <q> (−0.20 on 9 ratings): settle"),
    ):
        assert describe_agreement_on("<q>", Figure("alpha", value, value - 0.05, value + 0.05, 9)).startswith(start)
    assert describe_agreement_on("Q", Figure("alpha", 0.3, -0.1, 0.6, 9)).startswith(
        "It is not clear that people agree on Q (0.30 on 9 ratings)"
    )
    assert "unknown" in describe_agreement_on("Q", Figure("alpha", None))


def test_every_lead_page_opens_before_anybody_has_rated(workbench: StartWorkbench) -> None:
    browser = workbench().browser()
    for path in ("/lead", "/lead/look", "/lead/look/disagree", "/lead/look/disagree?question=Q1"):
        page = browser.get(path)
        assert browser.status == 200 and "style=" not in page and "<script>" not in page, path
        assert json.loads(browser.get(path.replace("?", ".json?") if "?" in path else f"{path}.json"))


def test_an_evaluator_of_another_question_or_level_expects_nothing(begin: Callable[..., Begun]) -> None:
    look, loop, _ = begin(stages=[{"questions": ["Q1"]}])
    look.project.store.add_labels(
        Label(Target(f"chat-{n:02d}"), "Q0", person, 1 + (n + len(person)) % 4) for n in range(12) for person in LEVELS
    )
    fit_and_promote(loop)
    assert "predicts 'Q0', which is not a question of this study" in loop.reasons["look"]
    assert look.take("ann") is not None and not look.studies.predictions("look")


def test_stopping_rule_matches_planted_truth_on_average() -> None:
    """After the labels that halve the interval, the error to the planted truth is about half."""
    shares = []
    for seed in range(8):
        corpus = planted(conversations=80, annotators=5, noise=0.6, share=1.0, options=9, seed=seed)
        every = {(each.target, each.annotator): each for each in corpus.labels}
        x = corpus.evidence.values
        first = [list(every.values())[n] for n in np.random.default_rng(seed).permutation(len(every))[:24]]
        order = ItemOrder.compute(corpus.evidence, Labels(first), corpus.question, sorted(corpus.levels), 120)
        then = [*first, *(every[each] for each in order.suggested[: order.labels_to_halve or 120])]

        def error(labels: list[Label], x: Any = x, corpus: Any = corpus) -> float:
            head = Calibration(corpus.question, answer_model="mixed", shift_groups=())
            head.fit(corpus.evidence, Labels(labels))
            errors = []
            for name, level in corpus.levels.items():
                known = name if name in head.annotators else None
                values = [score.value for score in head.predict_each(corpus.evidence, [known] * len(x))]
                errors.append((np.array(values) - np.clip(5 + x @ corpus.weights + level, 1, 9)) ** 2)
            return float(np.sqrt(np.mean(errors)))

        shares.append(error(then) / error(first))
    assert 0.35 < float(np.mean(shares)) < 0.65


def test_pairs_names_a_damaged_evaluator_and_a_study_without_items_have_their_pages(
    workbench: StartWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rubric = (
        "name: both\nmain: Q0\nquestions:\n"
        '  - {id: Q0, text: "Which mood?", scale: nominal, options: [red, "blue & green"]}\n'
        '  - {id: "Q/1 &", text: "Which is better?", applies: pairs, scale: ordinal, options: [-1, 0, 1]}\n'
    )
    (tmp_path / "both.yaml").write_text(rubric, encoding="utf-8")
    damaged = tmp_path / "evaluators" / "default"
    damaged.mkdir(parents=True)
    (damaged / "evaluator.json").write_text("{", encoding="utf-8")
    people = {"annotators": ["ann", "bob"], "annotators_per_item": 2}
    studies = {
        "pairs": {"level": "pair", "order": "informative", **people},
        "moods": people,
        "none": {"items": {"ids": ["gone"]}},
    }
    content = {"store": f"sqlite:///{tmp_path}/accord.db", "rubric": "both.yaml", "studies": studies}
    opened = Project(Config.model_validate(content))
    opened.store.add_conversations(
        Conversation(f"c{n}", (Turn("user", f"Hello {n // 2}"), Turn("assistant", f"Well, {n}"))) for n in range(8)
    )
    bench = workbench(opened=opened)
    browser = bench.browser()
    assert "fit it again" in settled(browser)["failed"]["prepare"]
    page = browser.get("/lead") + browser.get("/evaluators")
    assert "cannot be loaded" in page and "no conversation in the store matches" in page
    assert str(tmp_path) not in page + browser.get("/") + browser.get("/lead.json")
    for name, question, values, count in (("pairs", "Q/1 &", (-1, 1), 4), ("moods", "Q0", ("red", "blue & green"), 8)):
        look = bench.session(name)
        for person, value in zip(("ann", "bob"), values, strict=True):
            while (assignment := look.take(person)) is not None:
                id = f"{person}-{name}-{assignment.item.place}-made-by-the-page"
                look.answer(person, submitted(assignment.id, question, value, id))
                look.finish(person, assignment.id)
        assert browser.get(f"/lead/{name}") and browser.status == 200
        page = browser.get(f"/lead/{name}/disagree")
        items = json.loads(browser.get(f"/lead/{name}/disagree.json"))["items"]
        assert browser.status == 200 and len(items) == count
        page = browser.get(f"/lead/{name}/disagree/{items[0]['key']}")
        fields = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', html.unescape(page)))
        answer = {f"value.{question}": str(values[1])}
        status, _, where = browser.post(f"/lead/{name}/adjudicate", **{**fields, **answer})
        assert status == 303 and browser.get(where) and browser.status == 200
    assert browser.get("/lead/none") and browser.status == 422

"""`label next` and `estimate`: labels worth collecting, and each chat system's mean rating."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accord.decisions import LEFT, left_for_people
from accord.edges import BadInput, count_of
from accord.learning import (
    FEWEST_LABELS,
    Level,
    judge_level,
    level_of,
    spread_targets,
    stratified_targets,
    suggest_labels,
)
from accord.project.label_scales import check_scales, is_other_scale, note_wordings
from accord.project.results import Estimates, NextLabel
from accord.project.score_files import Scored, scores_in_files
from accord.results import p_text
from accord.scoring import RowOrigin, latest_scores
from accord.statistics import (
    MIN_LABELED,
    SURE,
    estimate_systems,
    groups_of,
    holm,
    label_plans,
    mean_differences,
    random_label_p,
)
from accord.validation import NOT_SAID, estimation
from accord.values import POPULATION, Labels, Question, Sample, Score, Target, steps

if TYPE_CHECKING:
    from accord.project.workspace import Workspace


_LOGGER = logging.getLogger("accord")
Purpose = Literal["evaluator", "agreement"]
ANYONE = "anyone"
"""Annotator of a suggestion that does not depend on the annotator."""


def label_next(
    project: Workspace, count: int, annotators: Collection[str] = (), purpose: Purpose = "evaluator"
) -> list[NextLabel]:
    """Return the labels on the main question that are most informative, best first; asks no model.

    With the purpose `agreement`, texts are a random sample stratified by their scores (`stratified_targets`), whose
    labels give the narrowest valid estimate of agreement; else those that improve the evaluator most.

    Conversations that the latest selective scores left for a person come first. With fewer than eight labels, texts are
    spread over the judge's answers.

    Raises:
        BadInput: Too few labels, nothing left to label, or a main question that compares.
        UnknownName: An annotator has no labels yet.
    """
    _check_rates(project)
    check_scales(project.store, [project.question])
    samples = units(project, project.level()).samples
    if purpose == "agreement":
        return _for_agreement(project, samples, count, annotators)
    evidence = project.measure(project.evaluator().sources, samples)
    labels, question = project.store.labels(), project.question
    scores = latest_scores(project.store, project.mart, project.config.synthetic)
    left = left_for_people(project.store, scores, question.id)
    rated = labels.on(question.id)
    if len(rated) < FEWEST_LABELS:
        targets = spread_targets(evidence, rated.targets, count)
        if not targets:
            raise BadInput("no conversation is left to label; import more: accord import chats.jsonl")
        why = "spread over the judge's answers"
        asked = annotators or (ANYONE,)
        rows = [NextLabel(t.conversation, t.turn, question.id, name, None, why) for t in targets for name in asked]
        return rows[:count]
    first = suggest_labels(evidence, labels, question, count, annotators, only=left) if left else []
    known = {each.target for each in first}
    rest = suggest_labels(evidence, labels, question, count, annotators) if len(first) < count else []
    others = [each for each in rest if each.target not in known][: count - len(first)]
    return [
        NextLabel(each.target.conversation, each.target.turn, question.id, each.annotator, each.gain, reason)
        for found, reason in ((first, LEFT), (others, None))
        for each in found
    ]


def _for_agreement(
    project: Workspace, samples: Sequence[Sample], count: int, annotators: Collection[str]
) -> list[NextLabel]:
    """Return a sample of unlabeled texts, stratified by the scores of the evaluator in use or of the judge.

    Raises:
        BadInput: Nothing is left to label.
    """
    question, seed = project.question, project.config.seed
    found = stratified_targets(*_scored(project, samples), project.rated(question.id).targets, count, seed)
    if not found:
        raise BadInput("no conversation is left to label; import more: accord import chats.jsonl")
    why = f"one of {len(found)} strata of equal size, by score"
    return [
        NextLabel(target.conversation, target.turn, question.id, name, None, why)
        for target in found
        for name in annotators or (ANYONE,)
    ]


def _scored(project: Workspace, samples: Sequence[Sample]) -> tuple[Sequence[Target], NDArray[np.float64]]:
    """Return the n targets and (n,) scores of the evaluator in use; without one, the judge's mean answers."""
    try:
        evaluator = project.load()
    except BadInput:  # no evaluator is fitted
        evaluator = None
    if evaluator is None or evaluator.question.id != project.question.id:
        table = project.measure(project.evaluator().sources, samples)
        return table.targets, judge_level(table)
    table = project.measure(evaluator.sources, samples)
    scores = evaluator.head.predict_each(table, [None] * len(table))
    values = [each.value if isinstance(each, Score) else np.nan for each in scores]
    return table.targets, np.array(values, dtype=float)


def _check_rates(project: Workspace) -> None:
    """Reject a main question that compares."""
    if project.question.compares:
        raise BadInput(f"{project.question.id!r} compares two conversations; this needs a main question that rates one")


class Units(NamedTuple):
    """Conversations, replies or steps that people rated or could have rated.

    Attributes:
        samples: Their samples.
        text: Which replies they are; empty if all are.
        is_single: True if each conversation has one of several replies.
        place: Place of this reply among the replies, negative from the end; None if places differ.
    """

    samples: list[Sample]
    text: str = ""
    is_single: bool = False
    place: int | None = None


def units(project: Workspace, level: Level | None) -> Units:
    """Return the conversations, replies or steps with a label on the main question, and those that could have one.

    Of replies, these are the one that a file marks, or, if all labels of conversations with several replies are about
    the reply in one place (the last one, the first one), the reply in this place; else all. The other replies are
    context, perhaps by another assistant version, and their mean differs from the mean of the rated ones.
    """
    samples = list(project.all_samples(level))
    if level != "turn":
        return Units(samples)
    replies: dict[str, list[Sample]] = {}
    for sample in samples:
        replies.setdefault(sample.conversation.id, []).append(sample)
    rated: dict[str, set[int | None]] = {}
    for target in project.rated(project.question.id).targets:
        rated.setdefault(target.conversation, set()).add(target.turn)
    marks = {name: steps.marked_turn(own[0].conversation) for name, own in replies.items()}

    def places(turns: Mapping[str, Collection[int | None]]) -> list[tuple[int, int]]:
        """Return the places of turns from the end and from the start, in conversations with several replies."""
        return [
            (place - len(own), place)
            for name, own in replies.items() if len(own) > 1
            for place, sample in enumerate(own) if sample.turn in turns.get(name, ())
        ]  # fmt: skip

    labeled = places({name: turns for name, turns in rated.items() if marks.get(name) is None})
    place = _common(labeled) if len(labeled) >= MIN_LABELED else None
    chosen: dict[str, list[Sample]] = {}
    for name, own in replies.items():
        mark, wanted = marks[name], {sample.turn for sample in own}
        if mark is not None:
            wanted = {mark}
            own = own if mark in {sample.turn for sample in own} else [*own, Sample(own[0].conversation, mark)]
        elif place is not None:
            wanted = {sample.turn for sample in own[place:][:1]} if -len(own) <= place else set()
        wanted |= rated.get(name, set())
        chosen[name] = [sample for sample in own if sample.turn in wanted]
    said = ["the reply that its file marks"] if any(mark is not None for mark in marks.values()) else []
    if place is not None:
        named = f"reply {place + 1}" if place > 0 else f"reply {-place} from the end"
        where = {-1: "the last reply", 0: "the first reply"}.get(place, named)
        said.append(f"{where} of each conversation, as all labels are")
    found = places({name: [sample.turn for sample in own] for name, own in chosen.items()})
    is_single = any(len(own) > 1 for own in replies.values()) and all(len(own) < 2 for own in chosen.values())
    samples = [sample for own in chosen.values() for sample in own]
    return Units(samples, " or ".join(said), is_single, _common(found) if is_single else None)


def _common(places: Sequence[tuple[int, int]]) -> int | None:
    """Return the place that all have: -1 for the last, else from the start, else from the end; None if they differ."""
    ends, starts = {end for end, _ in places}, {start for _, start in places}
    return next((min(each) for each in (ends & {-1} if len(ends) == 1 else (), starts, ends) if len(each) == 1), None)


DIFFERENCE = 0.2
"""Difference of two versions to plan labels for, in units of the scale."""


def estimate(project: Workspace, files: Sequence[str] = (), difference: float = DIFFERENCE) -> Estimates:
    """Return each system's mean rating from its labels and all its scores, and the differences between systems.

    The scores are predictions of the evaluator in use for every unit that people rated or could have rated (`units`),
    from evidence in the store; none is predicted with labels of its own conversation. Scores of other conversations
    that it made since (`accord score`) count too, for systems with labels. Conversations that the rubric was learned on
    are left out, and systems with few labels are named without a mean. Systems are compared on what they share: the
    same first message, or the attributes in `group_by`.

    Args:
        project: Workspace with labels.
        files: Files of scores by the evaluator in use, also of another machine; `PATH=VERSION` names the assistant
            version of a file whose rows do not name it.
        difference: Difference of two versions to plan labels for, in units of the scale.

    Raises:
        BadInput: Labels are about turns and whole conversations, or about comparisons; there are none, or every system
            has too few; a file has other scores; the difference is not above 0.
    """
    if not 0 < difference < float("inf"):
        raise BadInput(f"--difference {difference:g}: allowed are numbers above 0, in units of the scale")
    _check_rates(project)
    check_scales(project.store, [project.question])
    note_wordings(project.store, project.question)
    question, config, evaluator = project.question, project.config, project.evaluator()
    seen = frozenset(project.rubric.learned_on)  # they are not a random sample of the scored conversations
    labels = Labels(label for label in project.store.labels() if label.target.conversation not in seen)
    rated = labels.on(question.id).targets
    level = _rated_level(evaluator.level, rated, question)
    unit = units(project, level)
    samples = [sample for sample in unit.samples if sample.conversation.id not in seen]
    evidence = project.measure(evaluator.sources, samples)
    targets = frozenset(sample.target for sample in samples)
    names = {sample.conversation.id for sample in samples}
    others = sum(each.turn is not None and each not in targets and each.conversation in names for each in rated)
    if others and level == "turn":
        _LOGGER.warning("labels of %s are left out, which are not replies of an assistant", count_of(others, "turn"))
    labels = Labels(filter(lambda label: label.target in targets, labels))  # of one level
    topics = [name for name in config.group_by if name != "system"]
    labels = labels.grouped(groups_of(samples, topics, by_input=True).of)
    systems = {sample.conversation.id: sample.conversation.shown_system or NOT_SAID for sample in samples}
    scored = _scored_elsewhere(project, files, level, systems, unit)
    given = estimation.labeled_systems(
        evidence, labels, question, lambda _: evaluator.learner, systems, config.folds, config.seed, scored
    )
    few = {each.system: _few_text(len(each.said), each.unit) for each in given if len(each.said) < MIN_LABELED}
    given = [each for each in given if each.system not in few] or given
    found = estimate_systems(given, config.seed)
    plans = [label_plans.difference_plan(*pair, difference) for pair in combinations(found, 2)]
    from_files = sum(len(scored.get(each.system, ())) for each in found)
    by_chance = holm([random_label_p(each, config.seed) for each in given])
    cautions = {
        each.system: _selection_text(each.unit, p) for each, p in zip(given, by_chance, strict=True) if p < SURE
    }
    return Estimates(
        question.id, found, mean_differences(found), level, project.evaluator_in_use, from_files,
        estimation.method_widths(found, given), [plan for plan in plans if plan is not None], few, cautions, unit.text,
    )  # fmt: skip


def _selection_text(unit: str, p: float) -> str:
    return (
        f"the scores of its labeled {unit} differ from those of its other {unit} beyond chance ({p_text(p)}), so they "
        "are not a random part and the mean may be wrong; label random ones: accord label next --for agreement"
    )


def _few_text(labels: int, unit: str) -> str:
    counted = count_of(labels, f"labeled {unit.removesuffix('s')}")
    return f"{counted}; a mean with an interval needs at least {MIN_LABELED}"


def _rated_level(known: Level | None, rated: Collection[Target], question: Question) -> Level:
    """Return the level of an evaluator or of ratings, or raise BadInput if nothing of that level has a label."""
    level = known or level_of(rated, question) or "conversation"
    if not any((target.turn is None) == (level == "conversation") for target in rated):
        raise BadInput(f"no {level} has a label on {question.id!r}; choose some to label: accord label next")
    return level


def _scored_elsewhere(
    project: Workspace, files: Sequence[str], level: Level, systems: Mapping[str, str], unit: Units
) -> dict[str, list[tuple[str, float]]]:
    """Return scores of conversations that are not in the store, by system: those of earlier runs and those of files.

    If each stored conversation has one unit, others have one too: the reply in the same place.
    """
    scored = _scored_in_files(project, level)
    if files:
        present = {*systems, *(conversation for each in scored.values() for conversation, *_ in each)}
        for name, each in scores_in_files(files, project.question, level, present, _signature(project)).items():
            scored.setdefault(name, []).extend(each)
    left, found = 0, dict[str, list[tuple[str, float]]]()
    for name, rows in scored.items():
        by_conversation: dict[str, list[tuple[int, float]]] = {}
        for conversation, turn, value in rows:
            by_conversation.setdefault(conversation, []).append((-1 if turn is None else turn, value))
        for conversation, values in by_conversation.items():
            if unit.is_single and len(values) > 1:
                place = len(values) if unit.place is None else unit.place
                values = sorted(values)[place:][:1] if -len(values) <= place else []
                left += not values
            found.setdefault(name, []).extend((conversation, value) for _, value in values)
    if left:
        _LOGGER.warning(
            "%s outside the store are left out: several replies have scores, and it is unknown which one people would "
            "rate; score the marked reply alone: accord score --turns rated", count_of(left, "conversation"),
        )  # fmt: skip
    return found


def _signature(project: Workspace) -> str | None:
    """Return the signature of scores by the evaluator in use; None without a fitted one."""
    try:
        return str(project.load().head.signature())
    except BadInput:
        return None


def _scored_in_files(project: Workspace, level: Level) -> Scored:
    """Return the scores by the evaluator in use of conversations outside the store.

    They are predictions for a new annotator, made without labels of their conversations.
    """
    import polars as pl

    try:
        evaluator = project.load()
    except BadInput:
        return {}
    question = project.question
    if evaluator.question.id != question.id or is_other_scale(project.rubric, evaluator.question):
        return {}
    origin = RowOrigin.of(evaluator.name, evaluator.digest(), question.id)
    synthetic = pl.col("synthetic").fill_null(False)
    wanted = (
        (pl.col("question") == question.id)
        & (pl.col("evaluator") == origin.evaluator)
        & (pl.col("annotator") == POPULATION)
        & pl.col("value").is_not_null()
        & (pl.col("turn").is_null() == (level == "conversation"))
        & ~pl.col("in_training").fill_null(False)
        & {"without": ~synthetic, "only": synthetic, "with": pl.lit(True)}[project.config.synthetic]
    )
    rows, _ = project.mart.read(
        lambda rows: (
            rows.filter(wanted)
            .select("conversation", "turn", "system", "value", synthetic)
            .sort("conversation", "turn")
            .collect()
        )
    )
    stored = {each.id for each in project.store.conversations(rows["conversation"].unique().to_list())}
    found: Scored = {}
    for conversation, turn, system, value, is_synthetic in rows.iter_rows():
        name = f"{system or 'unknown'} (synthetic)" if is_synthetic else system or NOT_SAID
        if conversation not in stored:
            found.setdefault(name, []).append((conversation, turn, value))
    return found

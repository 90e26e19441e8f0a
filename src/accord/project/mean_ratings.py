"""`estimate`: mean rating of each chat system, from its labels and all its scores."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from accord.edges import BadInput, count_of
from accord.learning import Level, level_of
from accord.project.label_scales import check_scales, is_other_scale, note_wordings
from accord.project.rated_units import Units, check_rates, units
from accord.project.results import Estimates
from accord.project.score_files import Scored, scores_in_files
from accord.results import p_text
from accord.scoring import RowOrigin
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
from accord.values import POPULATION, Labels, Question, Target

if TYPE_CHECKING:
    from accord.project.workspace import Workspace


_LOGGER = logging.getLogger("accord")
DIFFERENCE = 0.2
"""Difference of two versions to plan labels for, in units of the scale."""


def estimate(project: Workspace, files: Sequence[str] = (), difference: float = DIFFERENCE) -> Estimates:
    """Return each system's mean rating from its labels and all its scores, and the differences between systems.

    The scores are predictions of the evaluator in use for every unit that people rated or could have rated (`units`),
    from evidence in the store; none is predicted with labels of its own conversation. Scores of other conversations
    that it made since (`accord score`) count too, for systems with labels. Conversations that the rubric was learned on
    are left out, and systems with few labels are named without a mean. Systems are compared on conversations that
    share the first message, or the attributes in `group_by`.

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
    check_rates(project)
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
    """Return scores of conversations that are not in the store, by system: scores of earlier runs and of files.

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
    """Return the signature of scores by the evaluator in use, or `None` if none is fitted."""
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

"""Comparing every evaluator that a project can make, on the same folds of whole groups; nobody is asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from accord.edges import AccordError, BadInput, UnknownName
from accord.evidence import EvidenceTable, Ratings, Source, Training, joined
from accord.learning import AtOnce, Evaluator, Factory, OneFold, System, learns, make_head, out_of_fold, unscored
from accord.models import run
from accord.project.diagnostics import groups_of as agreement_by
from accord.project.diagnostics import speakers_of
from accord.project.fit_cache import Kept, calm, settings_of
from accord.project.fitting import in_question, leak_of, synthetic_in
from accord.statistics import Split
from accord.validation import (
    BEST_COLUMN,
    CONSTANT,
    JUDGE_ALONE,
    Comparison,
    Cost,
    Decision,
    Gain,
    Group,
    Leak,
    baselines,
    compared,
    decide,
    folds_of,
    gain_curve,
)
from accord.values import Labels

if TYPE_CHECKING:
    from accord.project.project import Project

OnStep = Callable[[str], None]
MOST_COPIED = 10_000
"""With more ratings nobody but `--jobs` has other processes hold a copy of the evidence, some hundred MB."""


def compare(
    project: Project, only: Collection[str], at_once: AtOnce, on_step: OnStep = lambda name: None
) -> tuple[Comparison, EvidenceTable, Training]:
    """Every evaluator that can be made from what is there, the baselines and people, in one table.

    Args:
        project: Holds the labels and what models have answered.
        only: Names of evaluators to compare; by default all.
        at_once: The processes that learn.
        on_step: Called with the name of what is learned next.

    Returns:
        The comparison, with the decision and the system that it is about first; the evidence of the sources that do not
        learn; and the training data.

    Raises:
        BadInput: Nobody has rated the main question, or nothing at all can be made.
        UnknownName: There is no such evaluator, or one names a source, a head or a setting that there is not.
    """
    names = list(only) or project.evaluator_names()
    made, unmade = _made(project, names)
    if not made:
        raise _none_of(unmade)
    # Whoever takes every sheet is given them; the others what is rated on the question.
    singles, groups = project.training(max(made.values(), key=lambda each: each.takes_every_sheet))
    own = {name: singles if each.takes_every_sheet else singles.rated() for name, each in made.items()}
    on_step("evidence")
    tables = _tables(project, made, singles)
    whole, train = in_question(_union(list(tables.values()), singles), singles)
    config, question = project.config, project.question
    rated, splits, seen = folds_of(whole, train.labels, question, config.folds, config.seed, project.rubric.learned_on)
    if len(rated) > MOST_COPIED and not at_once.is_named:
        at_once.end()
    work = {name: (each, *in_question(_known(each, tables, own[name]), own[name])) for name, each in made.items()}
    with calm(len(rated)):
        systems = _systems(project, work, unmade, rated, splits, at_once, on_step)
        if not systems:
            raise _none_of(unmade)
        on_step("baselines")
        kept, names = Kept(project.store, whole, train.labels, question, splits), [system.name for system in systems]
        others = baselines(whole, train.labels, question, rated, splits, config.seed, without=names, keep=kept)
        on_step("intervals")
        decision = _decision(project, systems, others, work, rated, splits, whole, train.labels)
        first = next(each for each in (*systems, *others) if each.name == decision.tested)
        shown = [first, *(each for each in (*systems, *others) if each is not first)]
        speakers = speakers_of(rated, singles.samples)
        found = compared(question, rated, shown, config.folds, config.seed, config.draws, seen, speakers, at_once)
        if len(set(rated.group)) < len(set(rated.target)):
            on_step("folds of single samples")
        leak = _leak(project, shown, work, found, at_once)
    count = synthetic_in(singles)
    return replace(found, groups=groups, unmade=unmade, decision=decision, leak=leak, synthetic=count), whole, train


def _leak(project: Project, shown: Sequence[System], work: Work, found: Comparison, at_once: AtOnce) -> Leak | None:
    """Agreement that folds of single samples would show for the first evaluator."""
    name = next(each.name for each in shown if each.name in work)
    evaluator, known, train = work[name]

    def learned(single: Training, tested: Ratings, folds: Sequence[Split]) -> System:
        return _learned_at_once({name: (evaluator, known, single)}, tested, folds, at_once)[name]

    return leak_of(project, evaluator, known, train, found, learned)


def _decision(
    project: Project,
    systems: Sequence[System],
    others: Sequence[System],
    work: Work,
    rated: Ratings,
    splits: Sequence[Split],
    whole: EvidenceTable,
    labels: Labels,
) -> Decision:
    """The evaluator to use, among those made, the raw judge and the best column."""
    simple = [each for each in others if each.name in (JUDGE_ALONE, BEST_COLUMN)]
    costs: dict[str, Cost] = {system.name: _cost(work[system.name][0]) for system in systems}
    costs |= {each.name: (-1,) for each in simple}
    constant = next(each for each in others if each.name == CONSTANT)

    def curve(system: System) -> list[Gain]:
        own = work.get(system.name)
        if own is not None and any(map(learns, own[0].sources)):
            return []
        make: Factory = (lambda question: own[0].fitting) if own else partial(make_head, system.name, settings={})
        table, train = (own[1], own[2].labels) if own else (whole, labels)
        seed, question = project.config.seed, project.question
        kept = Kept(project.store, table, train, question, splits)
        about = ["gain", system.name, settings_of(own[0]) if own else None, seed]
        rows = kept.rows(
            about, lambda: [each._asdict() for each in gain_curve(make, question, table, train, rated, splits, seed)]
        )
        return [Gain(**row) for row in rows]

    # A recorded judge answers nothing about new conversations, so what rests on its answers alone cannot be used.
    candidates, others = ([*systems], simple) if project.recordings else ([*systems, *simple], [])
    return decide(candidates, costs, constant, rated, project.config.seed, curve, others)


def _none_of(unmade: Mapping[str, str]) -> BadInput:
    return BadInput(f"none of these evaluators can be made: {'; '.join(f'{n}: {w}' for n, w in unmade.items())}")


def by_groups(found: Comparison, evidence: EvidenceTable, train: Training, by: Sequence[str]) -> list[Group]:
    """Agreement of the first system by group: system, annotator, judge-version, wording or a metadata entry."""
    return [group for each in by for group in agreement_by(found, train.samples, evidence, each)]


def _made(project: Project, names: Sequence[str]) -> tuple[dict[str, Evaluator], dict[str, str]]:
    """The evaluators that the project's settings allow, those that are the same as another once, and why others not."""
    made: dict[str, Evaluator] = {}
    unmade: dict[str, str] = {}
    for name in names:
        try:
            evaluator = project.evaluator(name)
        except UnknownName:
            raise  # a name that is written wrong is no evaluator that lacks something
        except AccordError as error:
            unmade[name] = str(error)
            continue
        lacking = [role for role in evaluator.roles if not project.models.has(role)]
        twin = next((other for other, each in made.items() if _same(each, evaluator)), None)
        if lacking:
            unmade[name] = f"no model configured for role {lacking[0]!r}: models: {{{lacking[0]}: {{model: NAME}}}}"
        elif not evaluator.sources:
            unmade[name] = "the project has no source of evidence for it"
        elif twin is not None:
            unmade[name] = f"the same as {twin}"
        elif not evaluator.head.needs_labels:
            unmade[name] = "needs no labels: it stands among the baselines where its evidence is there"
        else:
            made[name] = evaluator
    return made, unmade


def _same(one: Evaluator, other: Evaluator) -> bool:
    """Whether two evaluators would learn the same."""
    parts = [[(source.name, source.settings) for source in each.sources] for each in (one, other)]
    heads = [(each.head_name, each.head.settings(), dict(each.choose)) for each in (one, other)]
    return parts[0] == parts[1] and heads[0] == heads[1]


def _cost(evaluator: Evaluator) -> Cost:
    """How much an evaluator asks for: whether its sources learn, whom they ask, how many they are."""
    return sum(map(learns, evaluator.sources)), len(evaluator.roles), len(evaluator.sources)


def _tables(project: Project, made: Mapping[str, Evaluator], train: Training) -> dict[str, EvidenceTable]:
    """The evidence of every source that does not learn, by its name and settings; each is measured once."""
    found: dict[str, EvidenceTable] = {}
    for evaluator in made.values():
        for source in evaluator.sources:
            if not learns(source) and _key(source) not in found:
                found[_key(source)] = project.measure([source], train.samples)
    return found


def _key(source: Source) -> str:
    return f"{source.name} {source.settings.model_dump_json()}"


def _union(tables: Collection[EvidenceTable], train: Training) -> EvidenceTable:
    """All columns once; none where every source learns."""
    whole = EvidenceTable.of(train.samples)
    for table in tables:
        there = {column.name for column in whole.columns}
        whole = whole.join(table.select([p for p, column in enumerate(table.columns) if column.name not in there]))
    return whole


def _known(evaluator: Evaluator, tables: Mapping[str, EvidenceTable], train: Training) -> EvidenceTable:
    """The evidence of an evaluator's sources that do not learn."""
    known = EvidenceTable.of(train.samples)
    for source in evaluator.sources:
        if not learns(source):
            known = joined(known, tables[_key(source)], source.name)
    return known


Work = Mapping[str, tuple[Evaluator, EvidenceTable, Training]]


def _systems(
    project: Project,
    work: Work,
    unmade: dict[str, str],
    rated: Ratings,
    splits: Sequence[Split],
    at_once: AtOnce,
    on_step: OnStep,
) -> list[System]:
    """Each evaluator's predictions out of fold; what cannot be made from what is there is named with its reason."""
    kept = {name: Kept(project.store, known, train.labels, train.question, splits)
            for name, (_, known, train) in work.items()}  # fmt: skip
    about = {name: settings_of(evaluator) for name, (evaluator, _, _) in work.items()}
    there = {name: each.get(name, about[name]) for name, each in kept.items()}
    found: dict[str, System | str] = {name: system for name, system in there.items() if system is not None}
    if found:
        on_step(f"{', '.join(found)} (as learned before: nothing has changed)")
    free = {name: each for name, each in work.items() if name not in found and not any(map(learns, each[0].sources))}
    if at_once.processes > 1 and free:
        on_step(f"{', '.join(free)} ({at_once.processes} folds at the same time)")
        found |= _learned_at_once(free, rated, splits, at_once)
    else:
        found |= _learned_at_once(free, rated, splits, at_once, on_step)
    for name, each in work.items():
        if name not in found:
            on_step(name)
            found[name] = _learned_each_fold(project, *each, rated, splits)
    for name, system in found.items():
        if isinstance(system, str):
            unmade[name] = system
        elif not system.scored.any():
            unmade[name] = max(system.reasons, key=system.reasons.__getitem__, default="nothing could be predicted")
        elif there[name] is None:
            kept[name].put(system, about[name])
    return [system for name in work if name not in unmade and isinstance(system := found[name], System)]


def _learned_at_once(
    work: Work, rated: Ratings, splits: Sequence[Split], at_once: AtOnce, on_step: OnStep = lambda name: None
) -> dict[str, System]:
    """The predictions of evaluators whose sources do not learn; one fold of one of them is a piece of the work."""
    given = {name: (evaluator.fitting, known, train.labels) for name, (evaluator, known, train) in work.items()}
    pieces = [(name, place) for name in work for place in range(len(splits))]
    learned = at_once(OneFold(given, rated, splits), pieces, lambda piece: None if piece[1] else on_step(piece[0]))
    found: dict[str, System] = {name: unscored(name, rated) for name in work}
    for (name, place), predicted in zip(pieces, learned, strict=True):
        found[name] = found[name].with_rows(predicted, rated, splits[place])
    return found


def _learned_each_fold(
    project: Project,
    evaluator: Evaluator,
    known: EvidenceTable,
    train: Training,
    rated: Ratings,
    splits: Sequence[Split],
) -> System | str:
    """The predictions of an evaluator with sources that learn, or why it cannot be made.

    A source that pays to learn is tried on its own side.
    """
    try:
        side = next((split for source in evaluator.sources if (split := source.hold_out(train))), None)
        tried = splits if side is None else [side]
        return run(out_of_fold(evaluator, train, rated, tried, known), project.kept)
    except AccordError as error:
        return str(error)

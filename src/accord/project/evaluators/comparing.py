"""`compare`: cross-validation of a project's evaluators on the same folds, without model requests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from accord.decisions import Decision, contenders, decide, rests_on, second_judge
from accord.edges import AccordError, BadInput, UnknownName
from accord.evidence import EvidenceTable, Source, Training, joined
from accord.learning import PRESETS, Evaluator, Experiment, FoldPlan, Planned, Predictions, heads, learns
from accord.models import run
from accord.project.evaluators import judge_runs
from accord.project.evaluators.costs import costs_of
from accord.project.evaluators.diagnostics import groups_of
from accord.project.evaluators.experiments import (
    Repeated,
    folds_and_table,
    further_repetitions,
    in_question,
    judge_state,
    leak_of,
    planned,
    synthetic_in,
)
from accord.project.evaluators.fit_cache import FitCache, cache_key, single_threaded
from accord.project.evaluators.length_check import doubling
from accord.project.evaluators.pair_test import PairTest, pair_tests
from accord.project.label_scales import note_wordings
from accord.project.results import Compared
from accord.runtime import WorkerPool
from accord.scoring import asked_in
from accord.validation import CONSTANT, Gain, GroupAccuracy, baselines, compared, gain_curve

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

OnStep = Callable[[str], None]
MOST_COPIED = 10_000
"""With more ratings, processes are used only if `--jobs` asks for them: each copies some hundred MB of evidence."""


class CandidateEvaluator(NamedTuple):
    """An evaluator to compare, its training data, and its experiment on the common folds."""

    evaluator: Evaluator
    train: Training
    experiment: Experiment

    @property
    def learns(self) -> bool:
        """True if one of its sources learns."""
        return any(map(learns, self.evaluator.sources))

    @property
    def planned(self) -> Planned:
        """The evaluator on the common folds."""
        return planned(self.evaluator, self.experiment)


def compare(
    project: Workspace,
    only: Collection[str] = (),
    by: Sequence[str] = (),
    jobs: WorkerPool | int | None = None,
    on_step: OnStep = lambda name: None,
) -> Compared:
    """Compare evaluators, baselines and people, and record the result in the store; arguments as in `Project.compare`.

    Returns:
        The comparison, with the evaluator that the decision is about first, and the decision.

    Raises:
        BadInput: The main question has no ratings, or no evaluator can be made.
        UnknownName: There is no such evaluator, or one names an unknown source, head or setting.
    """
    workers = nullcontext(jobs) if isinstance(jobs, WorkerPool) else WorkerPool(jobs)
    with workers as pool, project.store.run("compare", asked_in(project.question, project.config.shown())) as record:
        result = _compared(project, only, pool, on_step)
        result = replace(result, groups=by_groups(result, by))
        record.results.update(result.to_json())
    return result


def _compared(project: Workspace, only: Collection[str], pool: WorkerPool, on_step: OnStep) -> Compared:
    """Return the comparison and the decision."""
    note_wordings(project.store, project.question)
    evaluators, unmade = _make_all(project, list(only) or _default_names(project))
    if not evaluators:
        raise _none_made(unmade)
    # Evaluators that use answers to other questions get all samples; the others get the rated ones.
    singles, groups = project.training(max(evaluators.values(), key=lambda each: each.takes_every_sheet))
    on_step("evidence")
    tables = _tables(project, evaluators, singles)
    whole, train = in_question(_union(list(tables.values()), singles), singles)
    config = project.config
    experiment, table = folds_and_table(project, whole, train, project.question, singles.samples)
    if len(experiment.ratings) > MOST_COPIED and not pool.is_explicit:
        pool.close()
    candidates = _candidates(evaluators, tables, singles, experiment)
    with single_threaded(len(experiment.ratings)):
        others = [
            *baselines(experiment, candidates, with_models=not only),
            *judge_runs.run_rivals(project, experiment, singles.samples),
        ]
        first_of = _first_repetition(project, candidates, others, unmade, pool, on_step)
        names = [name for name in candidates if name in first_of]
        if not names:
            raise _none_made(unmade)
        default = config.evaluator if config.evaluator in names else names[0]
        chosen = contenders(first_of, names, default, table.rated) if CONSTANT in first_of else [default]
        tested = [candidates[name].planned for name in chosen if not candidates[name].learns]
        repeated = Repeated()
        if tested:
            shown = ", ".join(each.name for each in tested)
            repeated = further_repetitions(
                tested, others, first_of, config.repeats, table, pool,
                lambda number, most: on_step(f"{shown} (repetition {number}, at most {most})"),
            )  # fmt: skip
        on_step("intervals")
        decision = _decision(project, first_of, names, repeated, default, candidates, experiment)
        if decision.evaluator != default:  # its figures have the repetitions that it needs
            decision = _decision(project, first_of, names, repeated, decision.evaluator, candidates, experiment)
        first, *_ = ordered = sorted(first_of.values(), key=lambda each: each.name != decision.evaluator)
        comparison = compared(experiment, ordered, config.draws, table.speakers, pool, repeated.shown(first.name))
        if len(set(table.rated.group)) < len(set(table.rated.target)):
            on_step("folds of single samples")
        candidate, repeats = candidates[first.name], comparison.repeats(first.name)
        evaluator, own = candidate.evaluator, candidate.experiment
        panel = second_judge.judge_panel_of(
            {each.name: comparison.repeats(each.name) for each in ordered}, first.name, table.rated, whole,
            project.question,
        )  # fmt: skip
        leak = leak_of(evaluator, own, comparison, pool)
        rests, doubled = rests_on(repeats, table.rated, whole), None
        pairs: Sequence[PairTest] = ()
        has_pairs = not project.question.compares and any(label.against is not None for label in project.store.labels())
        if (rests is not None or has_pairs) and not candidate.learns:
            fitted = evaluator.fitted_on(own.evidence, own.labels)
            if rests is not None:
                doubled = doubling(project, fitted, own.evidence, candidate.train.samples)
            if has_pairs:
                on_step("pairs")
                pairs = pair_tests(project, evaluator, fitted, table.rated, repeats, candidate.train.samples)
    comparison = replace(comparison, groups=groups, unmade=unmade, leak=leak, synthetic=synthetic_in(singles))
    return Compared(
        comparison, whole, train, decision, judge_state(project, whole), rests, doubled, panel=panel, pairs=pairs,
        costs=costs_of(project, [each.name for each in comparison.systems]),
    )  # fmt: skip


def _first_repetition(
    project: Workspace,
    candidates: Mapping[str, CandidateEvaluator],
    others: Sequence[Planned],
    unmade: dict[str, str],
    pool: WorkerPool,
    on_step: OnStep,
) -> dict[str, Predictions]:
    """Return out-of-fold predictions of candidates and baselines; `unmade` gets the reasons of the others."""
    plan = FoldPlan([*(each.planned for each in candidates.values() if not each.learns), *others])
    if known := [plan.systems[place].name for place in plan.known if plan.systems[place].name in candidates]:
        on_step(f"{', '.join(known)} (cached: nothing has changed)")
    if new := dict.fromkeys(plan.systems[place].name for place, _ in plan.pieces):
        shown = [name for name in new if name in candidates]
        parallel = f" ({pool.processes} folds in parallel)" if pool.processes > 1 else ""
        on_step(", ".join([*shown, *(["baselines"] if len(new) > len(shown) else [])]) + parallel)
    results: dict[str, Predictions | str] = {each.name: each for each in plan.run(pool)}
    for name, candidate in candidates.items():
        if candidate.learns:
            on_step(name)
            results[name] = _run_learning(project, candidate)
    made: dict[str, Predictions] = {}
    for name in (*candidates, *(each.name for each in others)):
        result = results[name]
        if isinstance(result, str):
            unmade[name] = result
        elif name in candidates and not result.scored.any():
            unmade[name] = max(result.reasons, key=result.reasons.__getitem__, default="no predictions")
        else:
            made[name] = result
    return made


def _decision(
    project: Workspace,
    first_of: Mapping[str, Predictions],
    names: Sequence[str],
    repeated: Repeated,
    first: str,
    candidates: Mapping[str, CandidateEvaluator],
    experiment: Experiment,
) -> Decision:
    """Return the evaluator to use among those that were compared; baselines have the repetitions of `first`."""

    def curve(name: str) -> list[Gain]:
        evaluator, _, own = candidates[name]
        if candidates[name].learns:
            return []
        key = ["gain", name, cache_key(evaluator), experiment.seed]
        work = lambda: [gain._asdict() for gain in gain_curve(own, lambda question: evaluator.learner)]  # noqa: E731
        return [Gain(**row) for row in FitCache(project.store).rows(own, key, work)]

    shown, every = (
        {name: [each, *further.get(name, ())] for name, each in first_of.items()}
        for further in (repeated.shown(first), repeated.every)
    )
    return decide(shown, names, experiment.ratings, project.config.evaluator, curve, every)


def _none_made(unmade: Mapping[str, str]) -> BadInput:
    reasons = "; ".join(f"{name}: {reason}" for name, reason in unmade.items())
    return BadInput(f"no evaluator can be made: {reasons}")


def by_groups(found: Compared, by: Sequence[str]) -> list[GroupAccuracy]:
    """Return agreement of the first system by system, annotator, judge-version, wording or a metadata entry."""
    samples = found.train.samples
    return [group for each in by for group in groups_of(found.comparison, samples, found.evidence, each)]


def _default_names(project: Workspace) -> list[str]:
    """Return the names of the project's evaluators, and of the presets whose head is installed."""
    absent = {name for name, preset in PRESETS.items() if preset.head not in heads} - set(project.config.evaluators)
    return [name for name in project.evaluator_names() if name not in absent]


def _make_all(project: Workspace, names: Sequence[str]) -> tuple[dict[str, Evaluator], dict[str, str]]:
    """Return the evaluators that the project's settings allow, without duplicates, and why others are left out."""
    made: dict[str, Evaluator] = {}
    unmade: dict[str, str] = {}
    for name in names:
        try:
            evaluator = project.evaluator(name)
        except UnknownName:
            raise  # a misspelled name is an error, not a missing evaluator
        except AccordError as error:
            unmade[name] = str(error)
            continue
        lacking = [role for role in evaluator.roles if not project.models.has(role)]
        twin = next((other for other, each in made.items() if _is_same(each, evaluator)), None)
        if lacking:
            role = lacking[0]
            unmade[name] = f"no model configured for role {role!r}: models: {{{role}: {{model: NAME}}}}"
        elif not evaluator.sources:
            unmade[name] = "the project has no source of evidence for it"
        elif twin is not None:
            unmade[name] = f"the same as {twin}"
        elif not evaluator.head.needs_labels:
            unmade[name] = "needs no labels; it is listed with the baselines if its evidence exists"
        else:
            made[name] = evaluator
    return made, unmade


def _is_same(one: Evaluator, other: Evaluator) -> bool:
    """Return True if two evaluators would learn the same."""
    sources = [[(source.name, source.settings) for source in each.sources] for each in (one, other)]
    heads = [(each.head_name, each.head.settings(), dict(each.choose)) for each in (one, other)]
    return sources[0] == sources[1] and heads[0] == heads[1]


def _tables(project: Workspace, evaluators: Mapping[str, Evaluator], train: Training) -> dict[str, EvidenceTable]:
    """Return the evidence of every source that does not learn, by its name and settings, measured once."""
    tables: dict[str, EvidenceTable] = {}
    for evaluator in evaluators.values():
        for source in evaluator.sources:
            if not learns(source) and _source_key(source) not in tables:
                tables[_source_key(source)] = project.measure([source], train.samples)
    return tables


def _source_key(source: Source) -> str:
    return f"{source.name} {source.settings.model_dump_json()}"


def _union(tables: Collection[EvidenceTable], train: Training) -> EvidenceTable:
    """Return all columns of some tables, each once."""
    whole = EvidenceTable.of(train.samples)
    for table in tables:
        names = {column.name for column in whole.columns}
        new = [place for place, column in enumerate(table.columns) if column.name not in names]
        whole = whole.join(table.select(new))
    return whole


def _known(evaluator: Evaluator, tables: Mapping[str, EvidenceTable], train: Training) -> EvidenceTable:
    """Return the evidence of an evaluator's sources that do not learn."""
    known = EvidenceTable.of(train.samples)
    for source in evaluator.sources:
        if not learns(source):
            known = joined(known, tables[_source_key(source)], source.name)
    return known


def _candidates(
    evaluators: Mapping[str, Evaluator],
    tables: Mapping[str, EvidenceTable],
    singles: Training,
    experiment: Experiment,
) -> dict[str, CandidateEvaluator]:
    """Return the evaluators with their training data and their experiments on the common folds.

    Evaluators with the same sources share one table, which is filtered once for each fold.
    """
    shared: dict[tuple[object, ...], tuple[EvidenceTable, Training]] = {}
    candidates = {}
    for name, evaluator in evaluators.items():
        sources = [(source.name, _source_key(source)) for source in evaluator.sources if not learns(source)]
        key = (evaluator.takes_every_sheet, *sources)
        if key not in shared:
            samples = singles if evaluator.takes_every_sheet else singles.rated()
            shared[key] = in_question(_known(evaluator, tables, samples), samples)
        known, own = shared[key]
        candidates[name] = CandidateEvaluator(evaluator, own, replace(experiment, evidence=known, labels=own.labels))
    return candidates


def _run_learning(project: Workspace, candidate: CandidateEvaluator) -> Predictions | str:
    """Return the predictions of a candidate with sources that learn, or the reason why it cannot be made.

    A source whose training costs money is tested on a held-out side of one split.
    """
    evaluator, train, experiment = candidate
    try:
        side = next((split for source in evaluator.sources if (split := source.hold_out(train))), None)
        experiment = experiment if side is None else replace(experiment, splits=(side,))
        return run(evaluator.cross_predict(train, experiment), project.stored_models)
    except AccordError as error:
        return str(error)

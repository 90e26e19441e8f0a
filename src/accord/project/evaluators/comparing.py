"""`compare`: cross-validation of a project's evaluators on the same folds, without model requests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from accord.decisions import Decision, contenders, decide, rests_on, second_judge
from accord.edges import AccordError, BadInput, UnknownName
from accord.evidence import EvidenceTable, Source, Training, joined
from accord.learning import (
    PRESETS,
    Evaluator,
    Experiment,
    FoldTask,
    Predictions,
    heads,
    judge_panel,
    learns,
)
from accord.models import run
from accord.project.evaluators import judge_runs
from accord.project.evaluators.diagnostics import groups_of
from accord.project.evaluators.experiments import in_question, judge_state, leak_of, repeats_of, synthetic_in
from accord.project.evaluators.fit_cache import FitCache, cache_key, single_threaded
from accord.project.evaluators.length_check import doubling
from accord.project.evaluators.pair_test import PairTest, pair_tests
from accord.project.label_scales import note_wordings
from accord.project.results import Compared, speakers_of
from accord.runtime import (
    WorkerPool,
)
from accord.validation import (
    BEST_COLUMN,
    CONSTANT,
    JUDGE_ALONE,
    Gain,
    GroupAccuracy,
    baseline,
    baselines,
    compared,
    gain_curve,
)

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


def compare(
    project: Workspace, only: Collection[str], pool: WorkerPool, on_step: OnStep = lambda name: None
) -> Compared:
    """Compare evaluators, baselines and people in one table, and decide on an evaluator.

    Args:
        project: Workspace with labels and stored answers of models.
        only: Names of evaluators to compare; empty compares all.
        pool: Processes for the folds.
        on_step: Called with the name of the next step.

    Returns:
        The comparison, with the evaluator that the decision is about first, and the decision.

    Raises:
        BadInput: The main question has no ratings, or no evaluator can be made.
        UnknownName: There is no such evaluator, or one names an unknown source, head or setting.
    """
    note_wordings(project.store, project.question)
    evaluators, unmade = _make_all(project, list(only) or _default_names(project))
    if not evaluators:
        raise _none_made(unmade)
    # Evaluators that use answers to other questions get all samples; the others get the rated ones.
    singles, groups = project.training(max(evaluators.values(), key=lambda each: each.takes_every_sheet))
    on_step("evidence")
    tables = _tables(project, evaluators, singles)
    whole, train = in_question(_union(list(tables.values()), singles), singles)
    config, cache = project.config, FitCache(project.store)
    experiment = Experiment.of(
        whole, train.labels, project.question, config.folds, config.seed, project.rubric.learned_on, cache
    )
    if len(experiment.ratings) > MOST_COPIED and not pool.is_explicit:
        pool.close()
    candidates = _candidates(evaluators, tables, singles, experiment)
    with single_threaded(len(experiment.ratings)):
        systems = _systems(project, candidates, unmade, pool, on_step)
        if not systems:
            raise _none_made(unmade)
        on_step("baselines")
        others = baselines(experiment, [system.name for system in systems], with_models=not only)
        others += judge_runs.run_rivals(project, experiment, singles.samples)
        repeats = _repeats(project, systems, others, candidates, experiment, pool, on_step)
        on_step("intervals")
        decision = _decision(project, systems, others, repeats, candidates, experiment)
        first = next(system for system in systems if system.name == decision.evaluator)
        ordered = [first, *(system for system in (*systems, *others) if system is not first)]
        speakers = speakers_of(experiment.ratings, singles.samples)
        comparison = compared(experiment, ordered, config.draws, speakers, pool, repeats)
        if len(set(experiment.ratings.group)) < len(set(experiment.ratings.target)):
            on_step("folds of single samples")
        evaluator, _, own_experiment = candidates[first.name]

        def predict(single: Experiment) -> Predictions:
            return _run_folds({first.name: candidates[first.name]._replace(experiment=single)}, pool)[first.name]

        whole_repeats = {each.name: comparison.repeats(each.name) for each in ordered}
        panel = second_judge.judge_panel_of(whole_repeats, first.name, experiment.ratings, whole, project.question)
        leak = leak_of(evaluator, own_experiment, comparison, predict)
        rests, doubled = rests_on(comparison.repeats(first.name), comparison.ratings, whole), None
        pairs: Sequence[PairTest] = ()
        has_pairs = not project.question.compares and any(label.against is not None for label in project.store.labels())
        if (rests is not None or has_pairs) and not candidates[first.name].learns:
            fitted = evaluator.fitted_on(own_experiment.evidence, own_experiment.labels)
            own_samples = candidates[first.name].train.samples
            if rests is not None:
                doubled = doubling(project, fitted, own_experiment.evidence, own_samples)
            if has_pairs:
                on_step("pairs")
                repeated = comparison.repeats(first.name)
                pairs = pair_tests(project, evaluator, fitted, comparison.ratings, repeated, own_samples)
    comparison = replace(comparison, groups=groups, unmade=unmade, leak=leak, synthetic=synthetic_in(singles))
    return Compared(
        comparison, whole, train, decision, judge_state(project, whole), rests, doubled, panel=panel, pairs=pairs
    )


def _repeats(
    project: Workspace,
    systems: Sequence[Predictions],
    others: Sequence[Predictions],
    candidates: Mapping[str, CandidateEvaluator],
    experiment: Experiment,
    pool: WorkerPool,
    on_step: OnStep,
) -> dict[str, list[Predictions]]:
    """Return the predictions of further repetitions, of the evaluators that may be chosen and of their rivals."""
    count = repeats_of(project.config.repeats, len(experiment.ratings))
    rated, by_name = experiment.ratings, {each.name: each for each in (*systems, *others)}
    names = [each.name for each in systems]
    default = project.config.evaluator if project.config.evaluator in names else names[0]
    chosen = contenders(by_name, names, default, rated) if CONSTANT in by_name else [default]
    tested = {name: candidates[name] for name in chosen if not candidates[name].learns}
    rivals = [name for name in (CONSTANT, BEST_COLUMN, JUDGE_ALONE, judge_panel.BEST_JUDGE) if name in by_name]
    if count < 2 or not tested:
        return {}
    on_step(f"{', '.join(tested)} ({count} repetitions)")
    found: dict[str, list[Predictions]] = {}
    cache = FitCache(project.store)
    for again in experiment.repeats(count)[1:]:
        # All candidates share the folds.
        own = {
            name: each._replace(experiment=replace(each.experiment, seed=again.seed, splits=again.splits))
            for name, each in tested.items()
        }
        predicted = _cached_folds(cache, own, pool) | {name: baseline(again, name) for name in rivals}
        for name, predictions in predicted.items():
            found.setdefault(name, []).append(predictions)
    return found


def _cached_folds(
    cache: FitCache, candidates: Mapping[str, CandidateEvaluator], pool: WorkerPool
) -> dict[str, Predictions]:
    """Return the predictions of candidates whose sources do not learn, from the cache where possible."""
    keys = {name: cache_key(candidate.evaluator) for name, candidate in candidates.items()}
    known = {
        name: replace(cached, name=name)
        for name, candidate in candidates.items()
        if keys[name] is not None and (cached := cache.get(candidate.experiment, keys[name])) is not None
    }
    new = _run_folds({name: each for name, each in candidates.items() if name not in known}, pool)
    for name, predictions in new.items():
        if keys[name] is not None:
            cache.put(candidates[name].experiment, keys[name], predictions)
    return known | new


def _decision(
    project: Workspace,
    systems: Sequence[Predictions],
    others: Sequence[Predictions],
    repeats: Mapping[str, Sequence[Predictions]],
    candidates: Mapping[str, CandidateEvaluator],
    experiment: Experiment,
) -> Decision:
    """Return the evaluator to use among those that were compared."""

    def curve(name: str) -> list[Gain]:
        evaluator, _, own = candidates[name]
        if candidates[name].learns:
            return []
        key = ["gain", name, cache_key(evaluator), experiment.seed]
        work = lambda: [gain._asdict() for gain in gain_curve(own, lambda question: evaluator.learner)]  # noqa: E731
        return [Gain(**row) for row in FitCache(project.store).rows(own, key, work)]

    whole = {each.name: [each, *repeats.get(each.name, ())] for each in (*systems, *others)}
    names = [each.name for each in systems]
    return decide(whole, names, experiment.ratings, project.config.evaluator, curve)


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
    """Return the evaluators with their training data and their experiments on the common folds."""
    candidates = {}
    for name, evaluator in evaluators.items():
        samples = singles if evaluator.takes_every_sheet else singles.rated()
        known, own = in_question(_known(evaluator, tables, samples), samples)
        candidates[name] = CandidateEvaluator(evaluator, own, replace(experiment, evidence=known, labels=own.labels))
    return candidates


def _systems(
    project: Workspace,
    candidates: Mapping[str, CandidateEvaluator],
    unmade: dict[str, str],
    pool: WorkerPool,
    on_step: OnStep,
) -> list[Predictions]:
    """Return out-of-fold predictions of the candidates; `unmade` gets the reasons of those without any."""
    cache = FitCache(project.store)
    keys = {name: cache_key(candidate.evaluator) for name, candidate in candidates.items()}
    known = _known_predictions(cache, candidates, keys)
    if known:
        on_step(f"{', '.join(known)} (cached: nothing has changed)")
    results: dict[str, Predictions | str] = {**known}
    plain = {name: each for name, each in candidates.items() if name not in results and not each.learns}
    if pool.processes > 1 and plain:
        on_step(f"{', '.join(plain)} ({pool.processes} folds in parallel)")
        results |= _run_folds(plain, pool)
    else:
        results |= _run_folds(plain, pool, on_step)
    for name, candidate in candidates.items():
        if name not in results:
            on_step(name)
            results[name] = _run_learning(project, candidate)
    made: list[Predictions] = []
    for name, candidate in candidates.items():
        result = results[name]
        reason = _failure(result)
        if isinstance(result, str) or reason is not None:
            unmade[name] = str(reason)
            continue
        made.append(result)
        if name not in known and keys[name] is not None:
            cache.put(candidate.experiment, keys[name], result)
    return made


def _known_predictions(
    cache: FitCache, candidates: Mapping[str, CandidateEvaluator], keys: Mapping[str, object]
) -> dict[str, Predictions]:
    """Return the predictions that the cache has."""
    return {
        name: replace(cached, name=name)
        for name, key in keys.items()
        if key is not None and (cached := cache.get(candidates[name].experiment, key)) is not None
    }


def _failure(result: Predictions | str) -> str | None:
    """Return the reason why a candidate has no predictions, or None."""
    if isinstance(result, str):
        return result
    if result.scored.any():
        return None
    return max(result.reasons, key=result.reasons.__getitem__, default="no predictions")


def _run_folds(
    candidates: Mapping[str, CandidateEvaluator], pool: WorkerPool, on_step: OnStep = lambda name: None
) -> dict[str, Predictions]:
    """Return the predictions of candidates whose sources do not learn, one fold of one candidate per piece of work."""
    jobs = {
        name: (candidate.evaluator.learner, replace(candidate.experiment, cache=None))
        for name, candidate in candidates.items()
    }
    pieces = [(name, place) for name, (_, experiment) in jobs.items() for place in range(len(experiment.splits))]
    folds = pool(FoldTask(jobs), pieces, lambda piece: None if piece[1] else on_step(piece[0]))
    results = {name: Predictions.missing(name, experiment.ratings) for name, (_, experiment) in jobs.items()}
    for (name, place), fold in zip(pieces, folds, strict=True):
        experiment = jobs[name][1]
        results[name] = results[name].with_rows(fold, experiment.ratings, experiment.splits[place])
    return results


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

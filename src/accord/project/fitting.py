"""Learning an evaluator: out of fold to say how far it can be trusted, then on everything, and kept as a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from accord.edges import AccordError, BadInput
from accord.evidence import EvidenceTable, Ratings, Training, in_pairs, joined, ratings
from accord.learning import (
    CARD,
    Evaluator,
    EvaluatorSettings,
    HeldOut,
    System,
    TrainingSet,
    learns,
    make_evaluator,
    out_of_fold,
    saved_as,
)
from accord.models import Models, OnAnswer, Plan, plan_range, run
from accord.project.diagnostics import speakers_of
from accord.project.fit_cache import Kept, calm, settings_of
from accord.project.multi_question_fit import with_every_question
from accord.project.results import Compared, Fitted
from accord.statistics import Split, grouped_folds, groups_of
from accord.validation import (
    CalledRow,
    Comparison,
    Leak,
    always_learned,
    baselines,
    compare_held_out,
    compared,
    cross_validate_labels,
    folds_of,
    is_better,
    rows_of,
)
from accord.values import Labels, Question, content_hash

if TYPE_CHECKING:
    from accord.project.project import Project

SURE = 0.05
"""A difference with a smaller p, corrected by Holm's method, is beyond chance."""


OnStage = Callable[[str], None]


def fit(
    project: Project,
    name: str | None,
    out: str | Path | None,
    step: OnAnswer,
    on_stage: OnStage = lambda stage: None,
    every_question: bool = False,
) -> Fitted:
    """Learn an evaluator and say how well it does on groups that it has not seen.

    A source that pays to learn is tried on a side that it never saw, and what was tried is what is kept; everything
    else is cross-validated, and then learned from all labels.

    Raises:
        BadInput: There is too little to learn from, or the folder holds the evaluator of another question.
        BudgetReached: The budget is spent; the same call goes on from there.
        ModelError: No call can succeed.
    """
    evaluator = project.evaluator(name or project.config.evaluator)
    folder = _folder(project, evaluator, out)
    with project.store.run("fit", project.config.shown()) as kept:

        def one(each: Evaluator) -> Fitted:
            return learned(project, each, project.models, step, on_stage)

        found = with_every_question(project.rubric, project.store, evaluator, one) if every_question else one(evaluator)
        fitted = replace(found, folder=folder)
        fitted.evaluator.save(folder)
        fitted = replace(fitted, spent=project.budget.to_json())
        last = {"question": evaluator.question.id, "folder": str(folder.resolve())}
        kept.results.update({**fitted.to_json(), **last})
    return fitted


class LastFit(NamedTuple):
    """Evaluator that was fitted last: its name, and the folder that holds it."""

    name: str
    folder: Path


def last_fit(project: Project) -> LastFit | None:
    """Return the evaluator of the project's question that was fitted last and still exists, or None.

    A project folder may be moved or copied, so an evaluator in its folder `evaluators` is found there by name.
    """
    for each in reversed(project.store.runs("fit")):
        found = each["results"] or {}
        if each["status"] != "done" or found.get("question") != project.question.id:
            continue
        saved, name = Path(found["folder"]), str(found["evaluator"]["name"])
        own = project.folder(saved.name)
        folder = next((one for one in (own, saved) if _holds(one, saved, own.parent.name)), None)
        if folder is not None:
            return LastFit(name, folder)
    return None


def _holds(folder: Path, saved: Path, evaluators: str) -> bool:
    """Return True if a folder may stand for where an evaluator was saved, and holds one."""
    return (folder == saved or saved.parent.name == evaluators) and (folder / CARD).is_file()


def tried(project: Project, evaluator: Evaluator, every_question: bool = False) -> Fitted:
    """What `fit` learns from what is kept, asking nobody and saving nothing.

    Raises:
        BadInput: There is too little to learn from.
    """

    def one(each: Evaluator) -> Fitted:
        return learned(project, each, project.kept)

    return with_every_question(project.rubric, project.store, evaluator, one) if every_question else one(evaluator)


def _folder(project: Project, evaluator: Evaluator, out: str | Path | None) -> Path:
    """Where an evaluator is saved; that of another question than the main one has a folder of its own.

    Raises:
        BadInput: The folder holds the evaluator of another question.
    """
    own, name = evaluator.question.id, evaluator.name
    if own != project.rubric.main:
        plain = re.sub(r"\W+", "-", own.casefold()).strip("-") or content_hash(own, length=8)[5:]
        name = f"{name}-{plain}"
    folder = Path(out or project.folder(name))
    try:
        other = saved_as(folder)["question"]["id"]
    except (BadInput, KeyError, TypeError):  # nothing that could be used is lost
        return folder
    if other != own:
        raise BadInput(f"{folder} holds an evaluator of {other!r}; name another folder for that of {own!r} with --out")
    return folder


def learned(
    project: Project,
    evaluator: Evaluator,
    models: Models,
    step: OnAnswer = lambda purpose: None,
    on_stage: OnStage = lambda stage: None,
) -> Fitted:
    """What `fit` learns, before it is saved.

    Predictions out of fold, and what was learned from everything, are kept and used again while nothing has changed.

    Raises:
        BadInput: There is too little to learn from.
    """
    if not evaluator.head.needs_labels and not project.rated(evaluator.question.id):
        return _without_labels(project, evaluator)
    return _with_labels(project, evaluator, models, step, on_stage)


def plan_fit(project: Project, name: str | None) -> Plan:
    """Plan `fit`, without asking a model."""
    evaluator = project.evaluator(name or project.config.evaluator)
    train, _ = project.training(evaluator)
    side = next((split for source in evaluator.sources if (split := source.hold_out(train))), None)

    def flow() -> Any:
        own = train if side is None else train.only(side.train)
        for source in evaluator.sources:
            if not learns(source):
                continue
            found = yield from source.learn(own)
            if side is not None:
                examined = yield from found.source.examine(train.only(side.test))
                if examined is found.source:  # else it has asked about that side already
                    yield from examined.measure(train.only(side.test).samples)
            else:
                for split in grouped_folds(
                    [train.group_of(t) for t in train.targets], project.config.folds, train.seed
                ):
                    again = yield from source.learn(train.only(split.train))
                    yield from again.source.measure(train.only(split.test).samples)

    return plan_range(flow, project.kept)


def _without_labels(project: Project, evaluator: Evaluator) -> Fitted:
    """A head that needs no labels, on the evidence of every conversation."""
    if evaluator.choose:
        raise BadInput("without labels there is nothing to choose by; name settings in place of `choose`")
    samples = list(project.every_sample(evaluator.level))
    if not samples:
        raise BadInput("no conversations to learn from; import some: accord import chats.jsonl")
    table = project.measure(evaluator.sources, samples)
    fitted = replace(evaluator.fitted_on(table, Labels([])), level=evaluator.level or "conversation")
    return Fitted(fitted, learned_from=len(table))


def _with_labels(project: Project, evaluator: Evaluator, models: Models, step: OnAnswer, on_stage: OnStage) -> Fitted:
    on_stage("evidence")
    own = _question_labels(project, evaluator)
    if own and not project.rated(evaluator.question.id):
        others, rows = own
        alone = Fitted(others[0], labels=rows, cautions=[_unrated(evaluator)])
        return replace(alone, evaluator=replace(others[0], also=tuple(others[1:])))
    train, groups = project.training(evaluator)
    known = project.measure([s for s in evaluator.sources if not learns(s)], train.samples)
    known, train = in_question(known, train)
    side = next((split for source in evaluator.sources if (split := source.hold_out(train))), None)
    with calm(len(train.labels.on(train.question.id))):
        if side is None:
            fitted, found = _cross_validated(project, evaluator, train, known, models, step, on_stage)
        else:
            fitted, found = _held_out(project, evaluator, train, known, side, models, step, on_stage)
    others, rows = own or ([], [])
    tried_on = HeldOut.of(found.comparison.systems[0], found.comparison.ratings)
    used = train.targets if side is None else train.only(side.train).targets
    rated = train.labels.on(train.question.id).targets
    trained_on = TrainingSet.of(train.samples, rated, used)
    fitted = replace(fitted, also=tuple(others), held_out=tried_on, trained_on=trained_on)
    findings = {source.name: said for source in fitted.sources if (said := source.findings())}
    cautions = [line for said in findings.values() for line in said.cautions]
    cautions += _beaten(found.comparison) if side is not None else []
    tried = replace(found, comparison=replace(found.comparison, groups=groups, synthetic=synthetic_in(train)))
    return Fitted(fitted, tried, 0, rows, findings, [*cautions, *_missing(known)])


def in_question(known: EvidenceTable, train: Training) -> tuple[EvidenceTable, Training]:
    """Evidence and labels as the question asks: of single samples, or the differences of compared pairs."""
    if not train.question.compares:
        return known, train
    pairs, labels = in_pairs(known, train.labels, train.question)
    return pairs, replace(train, labels=labels)


def synthetic_in(train: Training) -> int:
    """How many of the conversations that were learned from nobody held."""
    return len({sample.conversation.id for sample in train.samples if sample.conversation.is_synthetic})


def _cross_validated(
    project: Project,
    evaluator: Evaluator,
    train: Training,
    known: EvidenceTable,
    models: Models,
    step: OnAnswer,
    on_stage: OnStage,
) -> tuple[Evaluator, Compared]:
    """Out of fold, then on everything."""
    config, question = project.config, evaluator.question
    seen = project.rubric.learned_on
    rated, splits, shaped = folds_of(known, train.labels, question, config.folds, config.seed, seen)
    kept = Kept(project.store, known, train.labels, question, splits)
    on_stage(f"{evaluator.name}: {len(splits)} folds")
    system = kept(
        evaluator.name, settings_of(evaluator),
        lambda: run(out_of_fold(evaluator, train, rated, splits, known), models, step),
    )  # fmt: skip
    on_stage("baselines")
    others = baselines(known, train.labels, question, rated, splits, config.seed, [evaluator.name], kept)
    on_stage("intervals")
    comparison = compared(
        question, rated, [system, *others], config.folds, config.seed, config.draws, shaped,
        speakers_of(rated, train.samples),
    )  # fmt: skip
    comparison = replace(comparison, leak=leak_of(project, evaluator, known, train, comparison))
    on_stage(f"{evaluator.name}: all labels")
    whole = Kept(project.store, known, train.labels, question)
    fitted = whole.fitted(evaluator, lambda: run(evaluator.fit(train, known), models, step))
    fitted = run(fitted.with_gate(train), models, step)
    return fitted, Compared(comparison, known, train)


def leak_of(
    project: Project,
    evaluator: Evaluator,
    known: EvidenceTable,
    train: Training,
    found: Comparison,
    learned: Callable[[Training, Ratings, Sequence[Split]], System] | None = None,
) -> Leak | None:
    """What folds of single samples would have read for the first system; `None` where groups join no samples.

    `learned` gives its predictions on those folds; without it only what was computed before is told. Sources that
    learn, and questions about pairs, are not tried.
    """
    rated = found.ratings
    alone = {target: f"{target.conversation}#{target.turn}" for target in known.targets}
    if len(set(rated.group)) == len(set(rated.target)) or any(map(learns, evaluator.sources)) or found.folds < 2:
        return None
    if train.question.compares:
        return None
    single = replace(train, labels=train.labels.grouped(alone))
    never = always_learned(known, train.labels, train.question, found.seen)
    always = {alone[target] for target in known.targets if train.group_of(target) in never}
    rows = ratings(known, single.labels, train.question)
    tested = rows.take(np.flatnonzero([name not in always for name in rows.group]))
    about = settings_of(evaluator)
    try:
        splits = list(grouped_folds(list(tested.group), found.folds, found.seed, always))
        kept = Kept(project.store, known, single.labels, train.question, splits)
        leaking = kept.get(evaluator.name, about)
        if leaking is None and learned is not None:
            leaking = learned(single, tested, splits)
            kept.put(leaking, about)
    except AccordError:
        return None
    if leaking is None or not leaking.scored.any():
        return None
    return Leak.of(leaking, found[evaluator.name], tested, groups=len(set(rated.group)))


def _held_out(
    project: Project,
    evaluator: Evaluator,
    train: Training,
    known: EvidenceTable,
    side: Split,
    models: Models,
    step: OnAnswer,
    on_stage: OnStage,
) -> tuple[Evaluator, Compared]:
    """On one side, tried on the other; what is kept is what was tried."""
    config, question = project.config, evaluator.question
    own, other = train.only(side.train), train.only(side.test)
    seen = known.filter(side.train, train.group_of)
    on_stage(f"{evaluator.name}: one side")
    fitted = run(evaluator.fit(own, seen), models, step)
    on_stage(f"{evaluator.name}: the side that was held out")
    parts = [run(source.examine(other), models, step) for source in fitted.sources]
    fitted = run(replace(fitted, sources=tuple(parts)).with_gate(own), models, step)
    table = seen.concat(known.filter(side.test, train.group_of))
    for source in parts:
        if learns(source):
            of_test = run(source.measure(other.samples), models, step)
            table = joined(table, of_test, source.name)
    rivals = {name: answers for source in parts for name, answers in source.rivals().items()}
    comparison = compare_held_out(
        evaluator.name, lambda question: _Learned(fitted), question, table, train.labels, side, rivals,
        config.draws, config.seed, lambda rated: speakers_of(rated, train.samples),
    )  # fmt: skip
    return fitted, Compared(comparison, table, train)


class _Learned:
    """An evaluator that has learned already, where something that learns is asked for."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.predict_each = evaluator.head.predict_each

    def fit(self, evidence: EvidenceTable, labels: Labels) -> _Learned:
        """Nothing more is learned."""
        return self


def _question_labels(project: Project, evaluator: Evaluator) -> tuple[list[Evaluator], list[CalledRow]] | None:
    """Evaluators of the sources' own questions that people have labelled, and how well each does out of fold."""
    asking = {source.name: asked for source in evaluator.sources if (asked := source.own_questions())}
    labels = project.labels(evaluator) if asking else Labels()
    for name, asked in asking.items():
        wanted = Labels(each for each in labels if each.question in asked and each.value is not None)
        if not len(wanted):
            continue
        samples = project.samples(wanted.targets)
        found = groups_of(samples, project.config.group_by)
        grouped, config = wanted.grouped(found.of), project.config
        train = Training(tuple(samples), grouped, evaluator.question, config.seed, config.draws)
        made = [_kind(project, name, *asked[about]) for about in dict.fromkeys(each.question for each in wanted)]
        known = project.measure(made[0].sources, samples)
        fitted = []
        for each in made:
            try:
                fitted.append(each.fitted_on(known, train.labels))
            except BadInput:
                continue
        groups = sorted({train.group_of(target) for target in train.targets})
        if not fitted or len(groups) < project.config.folds:
            return fitted, []
        splits = list(grouped_folds(groups, project.config.folds, project.config.seed))
        rows = rows_of(
            *cross_validate_labels(known, train.labels, splits, project.config.seed), seed=project.config.seed
        )
        return fitted, rows
    return None


def _kind(project: Project, source: str, question: Question, head: str, settings: Mapping[str, Any]) -> Evaluator:
    """The evaluator of one of a source's own questions; what a reply is about helps where it is configured."""
    names = (source, *(("meaning",) if "meaning" in project.config.sources else ()))
    about = EvaluatorSettings(sources=names, head=head, level="turn")
    given = {source: settings, "meaning": project.config.settings_of("meaning")}
    return make_evaluator(question.id, about, question, project.context, (), given, project.models.settings)


def _unrated(evaluator: Evaluator) -> str:
    return f"nobody rated {evaluator.question.id!r}: labels of issues were learned, scores were not"


def _beaten(comparison: Comparison) -> list[str]:
    """A sentence for each system that does better where nothing was learned from."""
    found = [
        d.against for d in comparison.differences if d.statistic == "rmse" and d.p_holm < SURE and not is_better(d)
    ]
    return [f"{name} does better on new examples, beyond chance" for name in found]


def _missing(known: EvidenceTable) -> list[str]:
    absent = sum(not row.any() for row in known.present) if known.columns else 0
    return [f"{absent} of {len(known)} rated samples have no evidence at all"] if absent else []

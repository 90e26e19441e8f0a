"""`fit`: out-of-fold predictions, then an evaluator learned from all labels, saved as a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import accord.learning.answer_models.balanced  # noqa: F401 - registers the head
from accord.decisions import rests_on
from accord.edges import BadInput, count_of
from accord.evidence import EvidenceTable, Source, Training, joined
from accord.learning import (
    CARD,
    Evaluator,
    EvaluatorSettings,
    FoldPlan,
    HeldOutAnswers,
    TrainingSet,
    learns,
    level_of,
    make_evaluator,
    make_head,
    saved_as,
)
from accord.models import Flow, Models, OnAnswer, Plan, plan_range, run
from accord.project.erasing.refit import save_unless_erased
from accord.project.evaluators.costs import costs_of
from accord.project.evaluators.experiments import (
    folds_and_table,
    further_repetitions,
    in_question,
    judge_state,
    leak_of,
    planned,
    synthetic_in,
)
from accord.project.evaluators.fit_cache import FitCache, single_threaded
from accord.project.evaluators.held_out_set import FittedHead
from accord.project.evaluators.length_check import doubling
from accord.project.evaluators.retrain import moved_by
from accord.project.label_scales import note_wordings
from accord.project.results import Compared, Fitted, speakers_of
from accord.scoring import asked_in
from accord.statistics import SIGNIFICANT, Split, grouped_folds, groups_of
from accord.validation import (
    CalledRow,
    Comparison,
    Repeats,
    baselines,
    compare_held_out,
    compared,
    cross_validate_labels,
    is_better,
    rows_of,
)
from accord.values import Labels, Question, content_hash

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

FEWEST_TO_TEST = 10
"""With fewer ratings nothing is held out."""
MOST_UNRATED = 1000
"""Number of unrated samples whose evidence is used with few labels."""
OnStage = Callable[[str], None]
T = TypeVar("T")


def fit(
    project: Workspace,
    name: str | None,
    out: str | Path | None,
    step: OnAnswer = lambda purpose: None,
    on_stage: OnStage = lambda stage: None,
    every_question: bool = False,
) -> Fitted:
    """Fit an evaluator, measure its accuracy on held-out groups, and save it.

    An evaluator with a source whose training costs money is fitted on one side of a split and tested on the other.
    All others are cross-validated and then fitted on all labels.

    Args:
        project: Workspace with labels and models.
        name: Name of the evaluator; None takes the configured one.
        out: Folder to save to; None takes the project's folder of evaluators.
        step: Returns a progress step for a purpose.
        on_stage: Called with the name of each stage.
        every_question: True to fit a head for every question of the rubric from the same evidence.

    Raises:
        BadInput: There is too little to learn from, the folder holds the evaluator of another question, or a
            conversation was erased meanwhile.
        BudgetReached: The budget is spent; the same call continues from there.
        ModelError: No request can succeed.
    """
    evaluator = project.evaluator(name or project.config.evaluator)
    folder = _folder(project, evaluator, out)
    with project.store.run("fit", asked_in(evaluator.question, project.config.shown())) as record:
        note_wordings(project.store, evaluator.question)
        fitted = _Fit(project, evaluator, project.models, step, on_stage).fit(every_question)
        if (folder / CARD).is_file():
            on_stage("compared with the evaluator before")
        fitted = replace(fitted, folder=folder, moved=moved_by(project, fitted, folder))
        save_unless_erased(project.store, fitted.evaluator, folder)
        fitted = replace(fitted, spent=project.budget.to_json())
        saved = {"question": evaluator.question.id, "folder": str(folder.resolve())}
        record.results.update({**fitted.to_json(), **saved})
    return fitted


def fit_offline(
    project: Workspace, name: str | None = None, every_question: bool = False, until: str | None = None
) -> Fitted:
    """Fit an evaluator from stored answers, without a request and without saving it.

    `until` is a time in ISO format (UTC); labels given after it are left out.

    Raises:
        BadInput: There is too little to learn from.
    """
    return _Fit(project, project.evaluator(name), project.stored_models, until=until).fit(every_question)


def _folder(project: Workspace, evaluator: Evaluator, out: str | Path | None) -> Path:
    """Return the folder to save to; evaluators of other questions than the main one have folders of their own."""
    question, name = evaluator.question.id, evaluator.name
    if question != project.rubric.main:
        plain = re.sub(r"\W+", "-", question.casefold()).strip("-") or content_hash(question, length=8)[5:]
        name = f"{name}-{plain}"
    folder = Path(out or project.folder(name))
    try:
        other = saved_as(folder)["question"]["id"]
    except (BadInput, KeyError, TypeError):  # no usable evaluator is overwritten
        return folder
    if other != question:
        raise BadInput(
            f"{folder} holds an evaluator of {other!r}; choose another folder for that of {question!r} with --out"
        )
    return folder


def plan_fit(project: Workspace, name: str | None) -> Plan:
    """Plan the requests of `fit`, without asking a model."""
    evaluator = project.evaluator(name or project.config.evaluator)
    train, _ = project.training(evaluator)
    side = _held_out_side(evaluator, train)

    def flow() -> Any:
        own = train if side is None else train.only(side.train)
        with suppress(BadInput):  # too few replies
            yield from evaluator.with_plausibility(own)
        for source in evaluator.sources:
            if not learns(source):
                continue
            learned = yield from source.learn(own)
            if side is not None:
                examined = yield from learned.source.examine(train.only(side.test))
                if examined is learned.source:  # other sources have measured that side already
                    yield from examined.measure(train.only(side.test).samples)
            else:
                groups = [train.group_of(target) for target in train.targets]
                for split in grouped_folds(groups, project.config.folds, train.seed):
                    learned_again = yield from source.learn(train.only(split.train))
                    yield from learned_again.source.measure(train.only(split.test).samples)

    return plan_range(flow, project.stored_models)


def _held_out_side(evaluator: Evaluator, train: Training) -> Split | None:
    """Return the split that a source tests itself on, or `None` if all sources are cross-validated."""
    return next((split for source in evaluator.sources if (split := source.hold_out(train))), None)


# --- learning --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Fit:
    """A run of `fit` for one evaluator: the models to ask, and the functions that report progress."""

    project: Workspace
    evaluator: Evaluator
    models: Models
    step: OnAnswer = lambda purpose: None
    on_stage: OnStage = lambda stage: None
    until: str | None = None

    def run(self, flow: Flow[T]) -> T:
        """Run a flow with the models."""
        return run(flow, self.models, self.step)

    def fit(self, every_question: bool) -> Fitted:
        """Fit the evaluator and, with `every_question`, a head for each other question that has answers.

        The head of the main question is the same with and without the others. A question that cannot be learned
        becomes a caution.

        Raises:
            BadInput: A source learns for a single question, or the main question cannot be learned.
        """
        evaluator, project = self.evaluator, self.project
        if not every_question:
            return self._fit_one()
        learning = next((source.name for source in evaluator.sources if learns(source)), None)
        if learning is not None:
            raise BadInput(
                f"the source {learning!r} learns for one question, so its evidence is not the same for all; fit "
                "another evaluator (accord fit default --every-question), or each question with --question"
            )
        main = self._fit_one()
        others, cautions = [], list(main.cautions)
        answered = project.store.labels()
        for question in project.rubric.questions:
            if question.id == evaluator.question.id or question.compares:
                continue
            try:
                if not len(answered.on(question.id)):
                    raise BadInput("it has no answers")
                head = make_head(evaluator.head_name, question, evaluator.head.settings())
                other = replace(evaluator, question=question, head=head, checks_plausibility=False)
                fitted = replace(self, evaluator=other)._fit_one()
                if fitted.evaluator.level != main.evaluator.level:
                    raise BadInput(f"its answers are about a {fitted.evaluator.level}")
                others.append(fitted)
            except BadInput as error:
                cautions.append(f"{question.id} is not learned: {error}")
        return _together(evaluator, main, others, cautions)

    def _fit_one(self) -> Fitted:
        evaluator, project = self.evaluator, self.project
        rated = project.rated(evaluator.question.id)
        if not rated and (evaluator.starts_without_labels or not evaluator.head.needs_labels):
            return self._untested(rated)
        return self._with_labels()

    def _untested(self, labels: Labels) -> Fitted:
        """Fit a head on too few labels to hold some out, with the evidence of up to `MOST_UNRATED` other samples.

        Raises:
            BadInput: The store holds no conversations, or the head needs more labels.
        """
        evaluator, project = self.evaluator, self.project
        if evaluator.choose:
            raise BadInput("`choose` needs labels; set the values under `settings` instead")
        rated = labels.on(evaluator.question.id)
        level = evaluator.level or level_of(rated.targets, evaluator.question)
        samples = {sample.target: sample for sample in islice(project.all_samples(level), MOST_UNRATED)}
        samples |= {sample.target: sample for sample in project.samples(labels.targets)}
        if not samples:
            if evaluator.head.needs_labels:
                project.training(evaluator)  # names the missing data
            raise BadInput("no conversations to learn from; import some: accord import chats.jsonl")
        table = project.measure(evaluator.sources, list(samples.values()))
        fitted = replace(evaluator.fitted_on(table, labels), level=level or "conversation")
        if not rated:
            return Fitted(fitted, learned_from=len(table))
        caution = (
            f"learned from {count_of(len(rated), 'rating')}, too few to hold some out, so the agreement with people is "
            f"unknown; rate at least {FEWEST_TO_TEST} replies or conversations of several contexts"
        )
        return Fitted(fitted, learned_from=len(table), cautions=[caution])

    def _with_labels(self) -> Fitted:
        evaluator, project = self.evaluator, self.project
        self.on_stage("evidence")
        issues = _issue_evaluators(project, evaluator)
        if issues and not project.rated(evaluator.question.id):
            (first, *others), rows = issues
            caution = f"{evaluator.question.id!r} has no ratings: labels of issues were learned, scores were not"
            return Fitted(replace(first, other_questions=tuple(others)), labels=rows, cautions=[caution])
        train, groups = project.training(evaluator, self.until)
        given = train.labels.on(evaluator.question.id)
        is_testable = len(given) >= FEWEST_TO_TEST and len(set(map(train.group_of, given.targets))) > 1
        if evaluator.starts_without_labels and not is_testable:
            return self._untested(train.labels)
        known = project.measure([source for source in evaluator.sources if not learns(source)], train.samples)
        known, train = in_question(known, train)
        side = _held_out_side(evaluator, train)
        with single_threaded(len(train.labels.on(train.question.id))):
            if side is None:
                fitted, found = self._cross_validated(train, known)
            else:
                fitted, found = self._tested_on_side(train, known, side)
        others, rows = issues or ([], [])
        own = train if side is None else train.only(side.train)
        fitted, without_check = self._checked(fitted, own)
        fitted = replace(
            fitted,
            other_questions=tuple(others),
            held_out=HeldOutAnswers.of(found.comparison.repeats(evaluator.name), found.comparison.ratings),
            training_set=TrainingSet.of(train.samples, train.labels.on(train.question.id).targets, own.targets),
        )
        findings = {source.name: finding for source in fitted.sources if (finding := source.findings())}
        cautions = [line for finding in findings.values() for line in finding.cautions]
        cautions += _better_rivals(found.comparison) if side is not None else []
        cautions += without_check
        comparison = replace(found.comparison, groups=groups, synthetic=synthetic_in(train))
        return Fitted(
            fitted, replace(found, comparison=comparison), 0, rows, findings, [*cautions, *_without_evidence(known)]
        )

    def _checked(self, fitted: Evaluator, train: Training) -> tuple[Evaluator, list[str]]:
        """Return the evaluator with its plausibility check; without it and with the reason if it is optional."""
        try:
            return self.run(fitted.with_plausibility(train)), []
        except BadInput as error:
            if fitted.checks_plausibility:
                raise
            return fitted.without_plausibility(), [f"no plausibility check: {error}"]

    def _cross_validated(self, train: Training, known: EvidenceTable) -> tuple[Evaluator, Compared]:
        """Predict out of fold, then fit on everything."""
        evaluator, project = self.evaluator, self.project
        config, cache = project.config, FitCache(project.store)
        experiment, table = folds_and_table(project, known, train, evaluator.question, train.samples)
        self.on_stage(f"{evaluator.name}: {len(experiment.splits)} folds")
        others, repeats = baselines(experiment, [evaluator.name]), dict[str, Repeats]()
        if any(map(learns, evaluator.sources)):
            systems = [self.run(evaluator.cross_predict(train, experiment)), *FoldPlan(others).run()]
        else:
            own = planned(evaluator, experiment)
            systems = FoldPlan([own, *others]).run()
            first = {each.name: each for each in systems}
            repeats = further_repetitions([own], others, first, config.repeats, table).shown(evaluator.name)
        self.on_stage("intervals")
        comparison = compared(experiment, systems, config.draws, table.speakers, others=repeats)
        comparison = replace(comparison, leak=leak_of(evaluator, experiment, comparison))
        self.on_stage(f"{evaluator.name}: all labels")
        fitted = cache.fitted(experiment, evaluator, lambda: self.run(evaluator.fit(train, known)))
        rests = rests_on(comparison.repeats(evaluator.name), comparison.ratings, known)
        doubled = None if rests is None else doubling(project, fitted, known, train.samples)
        judge = judge_state(project, known)
        costs = costs_of(project, [each.name for each in comparison.systems])
        return fitted, Compared(comparison, known, train, judge=judge, rests_on=rests, doubled=doubled, costs=costs)

    def _tested_on_side(self, train: Training, known: EvidenceTable, side: Split) -> tuple[Evaluator, Compared]:
        """Fit on one side of a split and test on the other; the tested evaluator is kept."""
        evaluator, config = self.evaluator, self.project.config
        own, other = train.only(side.train), train.only(side.test)
        seen = known.filter(side.train, train.group_of)
        self.on_stage(f"{evaluator.name}: training side")
        fitted = self.run(evaluator.fit(own, seen))
        self.on_stage(f"{evaluator.name}: test side")
        sources = [self.run(source.examine(other)) for source in fitted.sources]
        fitted = replace(fitted, sources=tuple(sources))
        table = seen.concat(known.filter(side.test, train.group_of))
        for source in sources:
            if learns(source):
                measured = self.run(source.measure(other.samples))
                table = joined(table, measured, source.name)
        rivals = {name: answers for source in sources for name, answers in source.rivals().items()}
        comparison = compare_held_out(
            evaluator.name, lambda question: FittedHead(fitted), evaluator.question, table, train.labels, side, rivals,
            config.draws, config.seed, lambda rated: speakers_of(rated, train.samples),
        )  # fmt: skip
        return fitted, Compared(comparison, table, train, judge=judge_state(self.project, table))


def _together(evaluator: Evaluator, main: Fitted, others: list[Fitted], cautions: list[str]) -> Fitted:
    """Return one evaluator whose sources measure everything that any of the heads uses."""
    fitted = [main.evaluator, *(other.evaluator for other in others)]
    sources = tuple(kept for source in evaluator.sources if (kept := _shared_source(source, fitted)) is not None)
    questions = tuple(
        replace(other, sources=sources, other_questions=(), models=main.evaluator.models, shares_evidence=True)
        for other in fitted[1:]
    )
    separate = tuple(other for other in main.evaluator.other_questions if not other.shares_evidence)
    whole = replace(main.evaluator, sources=sources, other_questions=(*separate, *questions))
    return replace(main, evaluator=whole, questions=tuple(others), cautions=cautions)


def _shared_source(source: Source, fitted: list[Evaluator]) -> Source | None:
    """Return a source's common part if all evaluators use the same one, otherwise the whole source."""
    kept = [part for evaluator in fitted for part in evaluator.sources if part.name == source.name]
    if not kept:
        return None
    first = kept[0].state().card
    return kept[0] if len(kept) == len(fitted) and all(part.state().card == first for part in kept) else source


def _issue_evaluators(project: Workspace, evaluator: Evaluator) -> tuple[list[Evaluator], list[CalledRow]] | None:
    """Return evaluators of the sources' own questions that have labels, with their accuracy out of fold."""
    own_questions = {source.name: own for source in evaluator.sources if (own := source.own_questions())}
    labels = project.labels(evaluator) if own_questions else Labels()
    config = project.config
    for name, own in own_questions.items():
        answered = _answers_to(own, labels)
        if not len(answered):
            continue
        samples = project.samples(answered.targets)
        grouped = answered.grouped(groups_of(samples, config.group_by).of)
        train = Training(tuple(samples), grouped, evaluator.question, config.seed, config.draws)
        ids = dict.fromkeys(label.question for label in answered)
        unfitted = [_issue_evaluator(project, name, *own[question]) for question in ids]
        known = project.measure(unfitted[0].sources, samples)
        fitted = list(_fitted_where_possible(unfitted, known, train.labels))
        groups = sorted({train.group_of(target) for target in train.targets})
        if not fitted or len(groups) < config.folds:
            return fitted, []
        splits = list(grouped_folds(groups, config.folds, config.seed))
        calls = cross_validate_labels(known, train.labels, splits)
        return fitted, rows_of(*calls, seed=config.seed)
    return None


def _answers_to(questions: Collection[str], labels: Labels) -> Labels:
    """Return the answers to some questions: those on turns, or without any, those on conversations."""
    given = [label for label in labels if label.question in questions and label.value is not None]
    return Labels([label for label in given if label.target.turn is not None] or given)


def _fitted_where_possible(
    evaluators: Iterable[Evaluator], evidence: EvidenceTable, labels: Labels
) -> Iterator[Evaluator]:
    """Yield the evaluators fitted on the labels; those with too few labels are left out."""
    for evaluator in evaluators:
        with suppress(BadInput):
            yield evaluator.fitted_on(evidence, labels)


def _issue_evaluator(
    project: Workspace, source: str, question: Question, head: str, settings: Mapping[str, Any]
) -> Evaluator:
    """Return the evaluator of a source's own question, with embeddings of replies if they are configured."""
    names = (source, *(("meaning",) if "meaning" in project.config.sources else ()))
    about = EvaluatorSettings(sources=names, head=head, level="turn")
    given = {source: settings, "meaning": project.config.settings_of("meaning")}
    return make_evaluator(question.id, about, question, project.context, (), given, project.models.settings)


def _better_rivals(comparison: Comparison) -> list[str]:
    """Return a sentence for each system that is significantly better on the test side."""
    return [
        f"{difference.against} is significantly better on new examples"
        for difference in comparison.differences
        if difference.statistic == "rmse" and difference.p_holm < SIGNIFICANT and not is_better(difference)
    ]


def _without_evidence(known: EvidenceTable) -> Sequence[str]:
    absent = sum(not row.any() for row in known.present) if known.columns else 0
    return [f"{absent} of {len(known)} rated samples have no evidence"] if absent else []

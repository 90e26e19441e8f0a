"""The third stage: compare the configured method with the baselines on honest folds, then fit it on everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from itertools import product
from typing import Any

from accord.config import Config
from accord.evidence import EvidenceTable, in_pairs
from accord.learning import FEWEST_LABELS, Choice, Evaluator, InContext, Issues, evaluators, kinds_of
from accord.models import Budget
from accord.pipeline.collecting import collect, judging_options, samples_of
from accord.pipeline.insights import Insights, groups_of, insights
from accord.pipeline.issues import issues_config, plan_finding, turns_of
from accord.pipeline.models import Models
from accord.pipeline.planning import Plan, plan_asking
from accord.statistics import DRAWS, grouped_folds
from accord.store import Store
from accord.validation import Comparison, compare, rows_of, try_marks
from accord.values import (
    ISSUE,
    BadInput,
    Conversation,
    Label,
    Labels,
    Question,
    Rubric,
    Sample,
    Target,
    Taxonomy,
    UnknownName,
    load_taxonomy,
)


@dataclass(frozen=True)
class Trial:
    """All that a report tells of: the data, the evidence, how methods compare, and what the chosen one learned."""

    rubric: Rubric
    samples: Sequence[Sample]
    labels: Labels
    evidence: EvidenceTable
    comparison: Comparison
    evaluator: Evaluator

    def insights(self) -> Insights:
        """What to know before the evaluator is trusted; takes about as long as the trial."""
        return insights(self.rubric, self.samples, self.labels, self.evidence, self.comparison, self.evaluator)


def factory(config: Config, rubric: Rubric) -> Callable[[Question], Evaluator | Choice]:
    """How to make the configured evaluator for a question.

    Raises:
        BadInput: It scores in context, and learns from no evidence.
        UnknownName: No evaluator is called so, or it has no such setting.
    """
    kind = evaluators.get(config.evaluator.method)
    if kind is InContext:
        raise BadInput(
            "in-context has a held-out side of its own: accord compare shows it; to learn from evidence, for a report "
            "or a gate, name another evaluator: evaluator: {method: calibration}"
        )
    check_settings(kind, (*config.evaluator.settings, *config.evaluator.choose))
    names, values = list(config.evaluator.choose), config.evaluator.choose.values()
    given = {**kind.settings_of(rubric), **config.evaluator.settings}
    tried = [{**given, **dict(zip(names, one, strict=True))} for one in product(*values)]
    candidates = [partial(kind, **settings) for settings in tried]
    return candidates[0] if len(candidates) == 1 else partial(Choice, candidates=candidates, seed=config.seed)


def check_settings(kind: type[Evaluator], names: Iterable[str]) -> None:
    """Refuse a setting that an evaluator does not have.

    Raises:
        UnknownName: Names it, and those that there are.
    """
    allowed = [name for name in signature(kind).parameters if name != "question"]
    for name in names:
        if name not in allowed:
            raise UnknownName(f"setting of {kind.method!r}", name, allowed)


def rated_evidence(
    store: Store, config: Config, rubric: Rubric, models: Models
) -> tuple[list[Sample], Labels, EvidenceTable]:
    """The rated subjects, all labels, and the evidence of those subjects as far as the store holds it.

    Where the main question compares, evidence and labels are those of the pairs.

    Raises:
        BadInput: Nobody has rated the main question.
    """
    labels = store.labels()
    rated = labels.on(rubric.main)
    if not len(rated):
        raise BadInput(
            f"no label on the main question {rubric.main!r}; import some: accord import chats.jsonl labels.csv"
        )
    samples = samples_of(store, rated.targets)
    evidence = collect(store, config, rubric, samples, models, ask=False)
    if rubric.main_question.compares:
        evidence, labels = in_pairs(evidence, labels, rubric.main_question)
    return samples, labels, evidence


def learn_unlabelled(store: Store, config: Config, rubric: Rubric, models: Models) -> tuple[Evaluator, int]:
    """The configured evaluator, which needs no labels, on the evidence of every conversation; and how many those are.

    Raises:
        BadInput: There are no conversations, or too little evidence of them.
    """
    samples = samples_of(store, (Target(name) for name in store.conversation_ids()))
    if not samples:
        raise BadInput("no conversations to learn from; import some: accord import chats.jsonl")
    evidence = collect(store, config, rubric, samples, models, ask=False)
    learned = evaluators.get(config.evaluator.method)
    if learned.needs_labels or config.evaluator.choose:
        raise BadInput("without labels there is nothing to choose by; name settings instead of evaluator: choose")
    evaluator = factory(config, rubric)(rubric.main_question).fit(evidence, Labels([]))
    assert isinstance(evaluator, Evaluator)
    return evaluator, len(evidence)


def compare_stored(
    store: Store, config: Config, rubric: Rubric, models: Models, draws: int = DRAWS, by: Sequence[str] = ()
) -> dict[str, Any]:
    """The configured method and the baselines on honest folds of what the store holds, and its agreement by groups.

    `by` names what groups are made of: `system`, `annotator`, `judge-version`, `wording`, or a metadata entry.
    """
    samples, labels, evidence = rated_evidence(store, config, rubric, models)
    found = _compared(config, rubric, labels, evidence, draws)
    groups = [group.to_json() for each in by for group in groups_of(found, samples, evidence, each)]
    return {**found.to_json(), "groups": groups}


def try_out(store: Store, config: Config, rubric: Rubric, models: Models, draws: int = DRAWS) -> Trial:
    """Compare the configured method with the baselines on honest folds, then fit it on everything."""
    samples, labels, evidence = rated_evidence(store, config, rubric, models)
    found = _compared(config, rubric, labels, evidence, draws)
    learned = factory(config, rubric)(rubric.main_question).fit(evidence, labels)
    return Trial(rubric, samples, labels, evidence, found, learned)


def _compared(config: Config, rubric: Rubric, labels: Labels, evidence: EvidenceTable, draws: int) -> Comparison:
    method = config.evaluator.method
    make, seen = {method: factory(config, rubric)}, rubric.learned_on
    return compare(evidence, labels, rubric.main_question, (method,), config.folds, config.seed, draws, make, seen)


@dataclass
class IssueStudy:
    """A learned issues evaluator, and how well it does on conversations that it did not see.

    Attributes:
        evaluator: Learned from everything.
        comparison: Of the main question, beside the mean and the lowest of the turns' scores; `None` without ratings.
        marks: A row a kind and a system (see `trial.rows_of`); empty without marks.
        cautions: Sentences on what could not be learned.
    """

    evaluator: Issues
    comparison: Comparison | None
    marks: Sequence[Mapping[str, Any]] = ()
    cautions: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Everything a command prints."""
        comparison = None if self.comparison is None else self.comparison.to_json()
        return {
            "comparison": comparison, "marks": list(self.marks), "cautions": self.cautions,
            "evaluator": self.evaluator.describe(),
        }  # fmt: skip


def learn_issues(store: Store, config: Config, rubric: Rubric, models: Models, draws: int = DRAWS) -> IssueStudy:
    """Learn from every rating of the main question and every mark of an issue; what was found comes from the store.

    Raises:
        BadInput: Nobody has rated or marked anything, or nothing was found in any turn of it yet.
    """
    issues = issues_config(config)
    taxonomy = load_taxonomy(issues.taxonomy)
    labels = store.labels()
    if issues.marks is not None:
        labels = translated(labels, load_taxonomy(issues.marks), taxonomy)
    marked = {name for kind in taxonomy.names for name in (kind, ISSUE + kind)}
    wanted = Labels(label for label in labels if label.question == rubric.main or label.question in marked)
    if not len(wanted):
        raise BadInput(
            f"no label on the main question {rubric.main!r}, nor a mark of an issue ({', '.join(taxonomy.names[:3])}, "
            "...: 0 or 1); import some: accord import chats.jsonl labels.csv"
        )
    samples = samples_of(store, wanted.targets)
    evidence = collect(store, config, rubric, samples, models, ask=False)
    make = factory(config, rubric)
    evaluator = make(rubric.main_question).fit(evidence, wanted)
    assert isinstance(evaluator, Issues)
    study = IssueStudy(evaluator, None)
    if evaluator.link_ is not None:
        factories = {Issues.method: make}
        study.comparison = compare(
            evidence, wanted, rubric.main_question, (Issues.method,), config.folds, config.seed, draws, factories,
            rubric.learned_on,
        )  # fmt: skip
    else:
        study.cautions.append(
            f"fewer than {FEWEST_LABELS} ratings of {rubric.main!r}: marks were learned, scores were not"
        )
    study.marks = _marks(evidence, wanted, evaluator, config)
    study.cautions += _missing(evidence, evaluator)
    return study


def translated(labels: Labels, source: Taxonomy, to: Taxonomy) -> Labels:
    """The labels, with marks of one taxonomy as marks of another (SODA-EVAL, appendix A); all others as they are.

    Where several kinds correspond to one, a person marks it who marks any of them.

    Raises:
        UnknownName: The one taxonomy does not say what corresponds to the other's kinds.
    """
    names = {name: other for kind, other in source.counterparts(to.name).items() for name in (kind, ISSUE + kind)}
    kept: list[Label] = []
    found: dict[tuple[Target, str, str], Label] = {}
    for label in labels:
        if label.question not in names:
            kept.append(label)
        elif label.value is not None:
            key = (label.target, label.annotator, names[label.question])
            if key not in found or label.value == 1:
                found[key] = replace(label, question=names[label.question], wording=None)
    return Labels([*kept, *found.values()])


def _marks(evidence: EvidenceTable, labels: Labels, evaluator: Issues, config: Config) -> list[dict[str, Any]]:
    """How marks are predicted on folds of whole conversations; nothing where none were learned."""
    learned = evaluator.describe()["marks"]
    if not learned:
        return []
    names = [ISSUE + kind for kind in learned] + list(learned)
    conversations = sorted({label.target.conversation for label in labels if label.question in names})
    splits = list(grouped_folds(conversations, config.folds, config.seed))
    return rows_of(*try_marks(evidence, labels, splits, config.seed), seed=config.seed)


def _missing(evidence: EvidenceTable, evaluator: Issues) -> list[str]:
    absent = sum(not row.any() for row in evidence.present)
    found = [f"{absent} of {len(evidence)} rated or marked targets have no evidence at all"] if absent else []
    unmarked = [kind for kind in kinds_of(evidence) if kind not in evaluator.describe()["marks"]]
    if evaluator.describe()["marks"] and unmarked:
        found.append(f"too few marks to learn from: {', '.join(unmarked)}")
    return found


def plan_issues(store: Store, config: Config, wanted: Sequence[Conversation], models: Models, budget: Budget) -> Plan:
    """What finding issues would cost with whoever finds them."""
    issues = issues_config(config)
    if models.issue_judge is None:
        return plan_finding(store, config, wanted, budget)
    rubric = load_taxonomy(issues.taxonomy).rubric
    turns = turns_of(map(Sample, wanted), issues)
    return plan_asking(Models(models.issue_judge), rubric, turns, store, budget, judging_options(config)[1])

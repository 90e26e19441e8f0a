"""The third stage: compare the configured method with the baselines on honest folds, then fit it on everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from itertools import product
from typing import Any

from accord.comparison import Comparison, compare
from accord.config import Config
from accord.conversation import Target
from accord.errors import BadInput, UnknownName
from accord.evaluators import Evaluator, InContext, evaluators
from accord.evaluators.choosing import Choice
from accord.evidence import EvidenceTable, in_pairs
from accord.labels import Labels
from accord.llm.model import Subject
from accord.pipeline.collecting import collect, subjects_of
from accord.pipeline.insights import Insights, groups_of, insights
from accord.pipeline.models import Models
from accord.resampling import DRAWS
from accord.rubric import Question, Rubric
from accord.store import Store


@dataclass(frozen=True)
class Trial:
    """All that a report tells of: the data, the evidence, how methods compare, and what the chosen one learned."""

    rubric: Rubric
    subjects: Sequence[Subject]
    labels: Labels
    evidence: EvidenceTable
    comparison: Comparison
    evaluator: Evaluator

    def insights(self) -> Insights:
        """What to know before the evaluator is trusted; takes about as long as the trial."""
        return insights(self.rubric, self.subjects, self.labels, self.evidence, self.comparison, self.evaluator)


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
) -> tuple[list[Subject], Labels, EvidenceTable]:
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
    subjects = subjects_of(store, rated.targets)
    evidence = collect(store, config, rubric, subjects, models, ask=False)
    if rubric.main_question.compares:
        evidence, labels = in_pairs(evidence, labels, rubric.main_question)
    return subjects, labels, evidence


def learn_unlabelled(store: Store, config: Config, rubric: Rubric, models: Models) -> tuple[Evaluator, int]:
    """The configured evaluator, which needs no labels, on the evidence of every conversation; and how many those are.

    Raises:
        BadInput: There are no conversations, or too little evidence of them.
    """
    subjects = subjects_of(store, (Target(name) for name in store.conversation_ids()))
    if not subjects:
        raise BadInput("no conversations to learn from; import some: accord import chats.jsonl")
    evidence = collect(store, config, rubric, subjects, models, ask=False)
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
    subjects, labels, evidence = rated_evidence(store, config, rubric, models)
    found = _compared(config, rubric, labels, evidence, draws)
    groups = [group.to_json() for each in by for group in groups_of(found, subjects, evidence, each)]
    return {**found.to_json(), "groups": groups}


def try_out(store: Store, config: Config, rubric: Rubric, models: Models, draws: int = DRAWS) -> Trial:
    """Compare the configured method with the baselines on honest folds, then fit it on everything."""
    subjects, labels, evidence = rated_evidence(store, config, rubric, models)
    found = _compared(config, rubric, labels, evidence, draws)
    learned = factory(config, rubric)(rubric.main_question).fit(evidence, labels)
    return Trial(rubric, subjects, labels, evidence, found, learned)


def _compared(config: Config, rubric: Rubric, labels: Labels, evidence: EvidenceTable, draws: int) -> Comparison:
    method = config.evaluator.method
    make, seen = {method: factory(config, rubric)}, rubric.learned_on
    return compare(evidence, labels, rubric.main_question, (method,), config.folds, config.seed, draws, make, seen)

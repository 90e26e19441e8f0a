"""Learning from issues: how ratings follow from what was found in turns, and marks from findings, both held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from accord.comparison import Comparison, compare
from accord.config import Config
from accord.conversation import Conversation, Target
from accord.errors import BadInput
from accord.evaluators.calibration.calibration import FEWEST_LABELS
from accord.evaluators.issues import Issues
from accord.evaluators.issues.marking import kinds_of
from accord.evaluators.issues.trial import rows_of, try_marks
from accord.evidence import EvidenceTable
from accord.labels import Label, Labels
from accord.llm.budget import Budget
from accord.llm.model import Subject
from accord.pipeline.collecting import collect, judging_terms, subjects_of
from accord.pipeline.finding import issues_config, plan_finding, turns_of
from accord.pipeline.learning import factory
from accord.pipeline.models import Models
from accord.pipeline.planning import Plan, plan_asking
from accord.resampling import DRAWS
from accord.rubric import Rubric
from accord.splits import grouped_folds
from accord.store import Store
from accord.taxonomy import ISSUE, Taxonomy, load_taxonomy


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
    subjects = subjects_of(store, wanted.targets)
    evidence = collect(store, config, rubric, subjects, models, ask=False)
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
    turns = turns_of(map(Subject, wanted), issues)
    return plan_asking(Models(models.issue_judge), rubric, turns, store, budget, judging_terms(config)[1])

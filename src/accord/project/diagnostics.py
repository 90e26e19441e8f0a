"""What to know before an evaluator is trusted: for whom it is wrong, what it lacks, and what was odd in the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from accord.edges import AccordError
from accord.evidence import EvidenceTable, Ratings
from accord.learning import Evaluator, Head, Importance, System, importance, make_head
from accord.project.fit_cache import Kept, calm, settings_of
from accord.project.results import Compared
from accord.statistics import Clusters, Diagram, diagrams, grouped_folds
from accord.store import Store
from accord.validation import (
    Asked,
    Comparison,
    Group,
    Point,
    adaptive_curve,
    always_learned,
    annotator_quality,
    by_group,
    learning_curve,
)
from accord.values import WITHOUT, Estimate, Labels, Question, Rubric, Sample

if TYPE_CHECKING:
    from accord.project.project import Project

AUTOMATIC = ("system", "annotator", "judge-version", "wording")
"""What groups are made by without being asked for, wherever there is more than one."""
T = TypeVar("T")
GROUP_DRAWS, IMPORTANCE_DRAWS = 1000, 100
"""The most draws for intervals of single groups, and of importance; `draws:` may ask for fewer."""
_CURVE_RATINGS = 150
"""The most ratings whose questions are asked one by one for the adaptive curve of a report."""


@dataclass(frozen=True)
class Insights:
    """What a report tells beyond agreement.

    Attributes:
        cautions: Sentences on what was odd in labels, answers and evidence.
        diagrams: One an option of the main question.
        groups: Agreement by group, grouped by each of several attributes.
        importance: Of each question for the main one.
        curve: Agreement against the share of the labels.
        adaptive: Agreement against questions asked; none where no judge answered.
    """

    cautions: Sequence[str]
    diagrams: Sequence[Diagram]
    groups: Sequence[Group]
    importance: Sequence[Importance]
    curve: Sequence[Point]
    adaptive: Sequence[Asked]


def insights(store: Store, rubric: Rubric, tried: Compared, evaluator: Evaluator) -> Insights:
    """All of it, from what was tried. What cannot be said of these data is left out; what was computed is kept."""
    comparison, evidence, train = tried.comparison, tried.evidence, tried.train
    rated, system, labels, draws = comparison.ratings, comparison.systems[0], train.labels, comparison.draws
    scored = np.flatnonzero(system.scored)
    clusters = Clusters(rated.group[scored])
    question, folds, seed = comparison.question, comparison.folds, comparison.seed
    always = always_learned(evidence, labels, question, comparison.seen)
    groups = [g for by in AUTOMATIC for g in groups_of(comparison, train.samples, evidence, by)]
    own = replace(evaluator, head=make_head(evaluator.head_name, question, evaluator.head.chosen()), choose={})
    kept, about, splits = Kept(store, evidence, labels, question), settings_of(own), folds > 1

    def keep(name: str, side: Any, work: Callable[[], System]) -> System:
        return kept(name, None if about is None else [about, side], work)

    def curve() -> list[Point]:
        return learning_curve(
            lambda _: own.fitting,
            question,
            evidence,
            labels,
            rated,
            system,
            folds,
            seed,
            always,
            draws=draws,
            keep=keep,
        )

    with calm(len(rated)):
        return Insights(
            cautions=[*comparison.remarks, *cautions(comparison, evidence)],
            diagrams=diagrams(system.paired(rated).take(scored), clusters, draws) if len(clusters) > 1 else [],
            groups=groups,
            importance=_if_possible(lambda: _importance(kept, evidence, labels, rubric, draws)),
            curve=curve() if splits else [],
            adaptive=_if_possible(lambda: _adaptive(own, comparison, evidence, labels)) if splits else [],
        )


def _importance(kept: Kept, evidence: EvidenceTable, labels: Labels, rubric: Rubric, draws: int) -> list[Importance]:
    """Each question's importance for the main one."""
    few = min(IMPORTANCE_DRAWS, draws)

    def work() -> list[dict[str, Any]]:
        return [asdict(one) for one in importance(evidence, labels, rubric.main_question, rubric.questions, few)]

    about = ["importance", few, [question.model_dump(mode="json") for question in rubric.questions]]
    return [Importance(**{**row, "estimate": Estimate(**row["estimate"])}) for row in kept.rows(about, work)]


def _if_possible(work: Callable[[], list[T]]) -> list[T]:
    """What the work finds; nothing where the data cannot say."""
    try:
        return work()
    except AccordError:
        return []


def groups_of(comparison: Comparison, samples: Sequence[Sample], evidence: EvidenceTable, by: str) -> list[Group]:
    """Agreement of the first method by group.

    Args:
        comparison: With predictions of every rating.
        samples: What was rated.
        evidence: Of them.
        by: `system`, `annotator`, `judge-version`, `wording`, or the name of a metadata entry of conversations.
    """
    rated = comparison.ratings
    named = _groups(rated, samples, evidence, by)
    return by_group(comparison.systems[0], rated, named, by, min(GROUP_DRAWS, comparison.draws), comparison.seed)


def speakers_of(rated: Ratings, samples: Sequence[Sample]) -> NDArray[np.object_] | None:
    """(n,) which system each rating is about; `None` where no conversation says."""
    named = {sample.conversation.id: sample.conversation.shown_system for sample in samples}
    found = [named.get(name) for name in rated.conversation]
    return np.array([name or "" for name in found], dtype=object) if any(found) else None


def _groups(rated: Ratings, samples: Sequence[Sample], evidence: EvidenceTable, by: str) -> list[str | None]:
    if by == "annotator":
        return [str(name) for name in rated.annotator]
    if by == "wording":
        return [label.wording for label in rated.labels]
    if by == "judge-version":
        return [evidence.versions.get(target) or None for target in rated.target]
    found = {sample.conversation.id: sample.conversation for sample in samples}
    if by == "system":
        return [found[name].shown_system if name in found else None for name in rated.conversation]
    values = [found[name].metadata.get(by) if name in found else None for name in rated.conversation]
    return [None if value is None else str(value) for value in values]


def cautions(comparison: Comparison, evidence: EvidenceTable) -> list[str]:
    """What was odd: one annotator, equal answers, changed judges and wordings, annotators who do not follow."""
    rated, said = comparison.ratings, []
    people = Counter(map(str, rated.annotator))
    if len(people) == 1:
        said.append(f"all labels are {next(iter(people))}'s: what is learned is one person's taste, not a panel's")
    if np.ptp(rated.value) == 0:
        said.append(f"every label of {comparison.question.id!r} is {rated.value[0]:g}: there is nothing to learn")
    versions = Counter(evidence.versions.get(target, "") for target in set(rated.target))
    versions.pop("", None)
    if len(versions) > 1:
        counted = ", ".join(f"{count} by {name}" for name, count in versions.most_common())
        said.append(f"the judge changed: rated targets were judged {counted}; compare the groups before trusting both")
    wordings = Counter(label.wording for label in rated.labels if label.wording)
    now = comparison.question.key
    old = sum(count for key, count in wordings.items() if key != now)
    if old:
        said.append(
            f"{old} of {len(rated)} labels answer {comparison.question.id!r} as it was worded before the rubric was "
            "edited; they are used. Compare the groups by wording, and leave them out where they differ"
        )
    return [*said, *map(str, annotator_quality(rated, comparison.systems[0].anybody))]


def _adaptive(evaluator: Evaluator, comparison: Comparison, evidence: EvidenceTable, labels: Labels) -> list[Asked]:
    """Agreement against the number of questions asked, of a head that can do with some of a judge's answers."""
    if not any(column.option is not None for column in evidence.columns):
        return []
    rated = comparison.ratings
    always = always_learned(evidence, labels, comparison.question, comparison.seen)
    splits = list(grouped_folds(list(rated.group), comparison.folds, comparison.seed, always))
    if len(rated) > _CURVE_RATINGS:
        splits = splits[:1]
    tested = {name for split in splits for name in split.test}
    rows = np.flatnonzero([name in tested for name in rated.group])

    def made(question: Question) -> Head:
        return make_head(evaluator.head_name, question, evaluator.head.chosen())

    return adaptive_curve(made, comparison.question, evidence, labels, rated.take(rows), splits)


def synthetic_note(project: Project) -> str:
    """A sentence on the store's synthetic conversations: left out, or counted; empty without any."""
    count = project.store.count_conversations("only")
    if not count:
        return ""
    if project.config.synthetic == WITHOUT:
        return f"{count} synthetic conversations left out; --synthetic with counts them"
    if project.config.synthetic == "only":
        return f"{count} synthetic conversations alone"
    return f"{count} synthetic conversations counted with real ones"

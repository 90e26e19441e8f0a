"""Source `rubric`: judges' answers to the rubric's questions, one block of columns per question (LLM-RUBRIC)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Literal, Self

from pydantic import Field

from accord.evidence.source import Source, SourceContext, SourceSettings, SourceState, sources
from accord.evidence.table import Column, EvidenceTable
from accord.models import (
    JUDGE,
    NOT_APPLICABLE,
    SAMPLES_AT_ONCE,
    Answer,
    Flow,
    Judge,
    Judged,
    ModelQuery,
    Models,
    ModelSettings,
    NamedModel,
    Questions,
    Request,
    judging_signature,
    question_of,
    questions_for,
    run,
    together,
)
from accord.store import Store
from accord.values import Question, Rubric, Sample, Target

TRUNCATED = "truncated-share"
"""Column with the share of a sample that the judge did not see."""


class JudgeRoute(SourceSettings):
    """Questions and conversations of one judge; by default all (LLM-RUBRIC, appendix B)."""

    questions: tuple[str, ...] = Field(
        default=(), description="Ids of the questions that the judge is asked; empty: all."
    )
    where: dict[str, tuple[str | int | bool, ...]] = Field(
        default_factory=dict,
        description="Conversations that the judge sees: allowed values by metadata entry, such as `topic: [law]`.",
    )

    def takes(self, sample: Sample) -> bool:
        """Return True if the judge sees a sample."""
        metadata = sample.conversation.metadata
        return all(str(metadata.get(entry)) in map(str, values) for entry, values in self.where.items())


class RubricSettings(SourceSettings):
    """Judges of the rubric's questions; the rubric is the project's."""

    judges: dict[str, JudgeRoute] = Field(
        default_factory=dict,
        description="Routing by role: `judge`, and further judges `judge-NAME` of models:. Without an entry a judge is "
        "asked every question about every conversation.",
    )


@sources.register("rubric")
class RubricAnswers(Source):
    """Distributions over the options of each rubric question, of one or several judges (LLM-RUBRIC, section 2).

    Attributes:
        rubric: Questions of the project, and those that recorded judges answered.
        asked: Ids of the questions that each judge is asked, by role.
    """

    settings_type = RubricSettings
    settings: RubricSettings

    def __init__(self, settings: SourceSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        rubric, recorded = context.rubric, context.recorded
        self.rubric = rubric.model_copy(update={"questions": (*rubric.questions, *recorded)}) if recorded else rubric
        ids = [question.id for question in rubric.questions]
        of_judge = [*ids, *(question.id for question in recorded)]
        self.asked: Mapping[str, Sequence[str]] = {
            role: tuple(dict.fromkeys(route.questions)) or (of_judge if role == JUDGE else ids)
            for role, route in self._routes.items()
        }

    @property
    def _routes(self) -> dict[str, JudgeRoute]:
        return {JUDGE: JudgeRoute(), **self.settings.judges}

    @property
    def roles(self) -> tuple[str, ...]:
        """The judges."""
        return tuple(self.asked)

    @property
    def metadata_names(self) -> tuple[str, ...]:
        """Entries of the metadata by which conversations are routed to judges."""
        return tuple(name for route in self.settings.judges.values() for name in route.where)

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Return the answers; an unanswered question is missing, with the reason."""
        tables = yield from together([self._ask(role, samples) for role in self.asked])
        table = EvidenceTable.from_rows([], {sample.target: {} for sample in samples})
        versions: dict[Target, list[str]] = {}
        for own in tables:
            table = table.join(own)
            for target, version in own.versions.items():
                versions.setdefault(target, []).append(version)
        return replace(table, versions={target: "+".join(filter(None, each)) for target, each in versions.items()})

    def _ask(self, role: str, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Ask one judge about the samples of its route."""
        route, rubric = self._routes[role], self._rubric_of(role)
        routed = [sample for sample in samples if route.takes(sample)]
        others = {sample.target for sample in samples} - {sample.target for sample in routed}
        table = yield from ask_rubric(rubric, routed, role)
        absences = {(target, question.id): NOT_APPLICABLE for target in others for question in rubric.questions}
        return _by_judge(role, replace(table, absences={**table.absences, **absences}))

    def _rubric_of(self, role: str) -> Rubric:
        """Return the questions of one judge as a rubric."""
        asked = self.asked[role]
        if len(asked) == len(self.rubric.questions):
            return self.rubric
        chosen = tuple(self.rubric[name] for name in asked)
        return self.rubric.model_copy(update={"questions": chosen, "main": chosen[0].id})

    @property
    def questions(self) -> tuple[Question, ...]:
        """Questions that a judge can answer, with the ids of their columns."""
        return self._columns_of("judged")

    def _columns_of(self, kind: Literal["judged", "recorded"]) -> tuple[Question, ...]:
        return tuple(
            question if role == JUDGE else question.model_copy(update={"id": question_of(role, question.id)})
            for role in self.asked
            for question in getattr(self._rubric_of(role), kind)
        )

    def asking(self, questions: Sequence[str]) -> RubricAnswers:
        """Return this source with some of the questions, which an adaptive rubric asks next."""
        column = {role: {name: name if role == JUDGE else question_of(role, name) for name in names}
                  for role, names in self.asked.items()}  # fmt: skip
        asked = {role: [name for name in names if names[name] in questions] for role, names in column.items()}
        source = copy(self)
        source.asked = {role: names for role, names in asked.items() if names}
        return source

    def keep_only(self, columns: Sequence[Column]) -> Source | None:
        """Return this source with the questions that the evaluator learned from."""
        learned_from = {column.question for column in columns}
        ids = [question.id for question in self._columns_of("recorded")]
        questions = [name for name in ids if name in learned_from]
        if 0 < len(questions) < len(ids):
            return self.asking(questions)
        return self if questions else None

    def state(self) -> SourceState:
        """Return the rubric and its judges; the project's rubric may differ when scores are computed."""
        asked = {role: list(names) for role, names in self.asked.items()}
        return SourceState({"rubric": self.rubric.model_dump(mode="json"), "asked": asked})

    def restored(self, state: SourceState) -> Self:
        """Restore the rubric and the judges that the evaluator learned from."""
        self.rubric = Rubric.model_validate(state.card["rubric"])
        ids = [question.id for question in self.rubric.questions]
        self.asked = dict(state.card.get("asked", {JUDGE: ids}))
        if not all(set(names) <= {*ids} and role in self._routes for role, names in self.asked.items()):
            raise ValueError("the judges are asked questions that the rubric lacks")
        return self


def _by_judge(role: str, table: EvidenceTable) -> EvidenceTable:
    """Return a further judge's answers with its role in the names of columns and questions."""
    if role == JUDGE:
        return table

    def renamed(column: Column) -> Column:
        if column.question is None:
            return replace(column, name=question_of(role, column.name))
        name = question_of(role, column.question)
        return replace(column, name=column.name.replace(column.question, name, 1), question=name)

    absences = {(target, question_of(role, name)): reason for (target, name), reason in table.absences.items()}
    return replace(table, columns=tuple(map(renamed, table.columns)), absences=absences)


def ask_rubric(
    rubric: Rubric, samples: Sequence[Sample], role: str = JUDGE, purpose: str = "judged"
) -> Flow[EvidenceTable]:
    """Ask a judge the questions of a rubric about some samples, and return the answers as evidence."""
    [judge] = yield [Request(role, ModelQuery())]
    judged = yield [Request(role, Questions(sample, rubric), purpose=purpose) for sample in samples]
    return answer_table(judge, rubric, judged, judge.context is not None)


def answer_table(judge: NamedModel, rubric: Rubric, judged: Iterable[Judged], windowed: bool = False) -> EvidenceTable:
    """Return answers as evidence: one column per option of each question, with the probabilities as given.

    With `windowed`, long samples are shown in part, and a column has the share that was not shown.
    """
    judged_by = judging_signature(judge, rubric)
    columns = [
        # An option's place is its value on an ordered scale, its index on a nominal one.
        Column(f"{question.id}={option}", signature, question.id, float(index if isinstance(option, str) else option))
        for question in questions_for(judge, rubric)
        for signature in [str(judged_by.with_part("question", question.key))]
        for index, option in enumerate(question.scale.options)
    ]
    columns += [Column(TRUNCATED, str(judged_by))] if windowed else []
    rows: dict[Target, dict[str, float]] = {}
    absences: dict[tuple[Target, str], str] = {}
    versions: dict[Target, str] = {}
    for each in judged:
        versions[each.target] = each.version
        rows[each.target] = {TRUNCATED: each.truncated_share} if windowed else {}
        for answer in each.answers:
            if isinstance(answer, Answer):
                rows[each.target] |= {f"{answer.question}={option}": p for option, p in answer.probabilities.items()}
            else:
                absences[each.target, answer.question] = answer.reason
    return replace(EvidenceTable.from_rows(columns, rows, absences), versions=versions)


def judge_samples(
    judge: Judge,
    rubric: Rubric,
    samples: Iterable[Sample],
    store: Store,
    concurrency: int = SAMPLES_AT_ONCE,
    context: int | None = None,
) -> EvidenceTable:
    """Ask a given judge about some samples, outside an event loop; stored answers are not requested again."""
    order, settings = list(samples), ModelSettings(concurrency=concurrency, context=context)
    table = run(ask_rubric(rubric, order), Models({JUDGE: settings}, store, given={JUDGE: judge}))
    return replace(table, metadata=EvidenceTable.of(order).metadata)

"""Source `rubric`: a judge's answers to the rubric's questions, one block of columns per question (LLM-RUBRIC)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Self

from accord.evidence.source import Source, SourceContext, SourceSettings, SourceState, sources
from accord.evidence.table import Column, EvidenceTable
from accord.models import (
    JUDGE,
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
    questions_for,
    run,
)
from accord.store import Store
from accord.values import Question, Rubric, Sample, Target

TRUNCATED = "truncated-share"
"""Column with the share of a sample that the judge did not see."""


class RubricSettings(SourceSettings):
    """No settings; the rubric is the project's."""


@sources.register("rubric")
class RubricAnswers(Source):
    """A judge's distributions over the options of each rubric question (LLM-RUBRIC, section 2)."""

    settings_type = RubricSettings

    def __init__(self, settings: SourceSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        rubric, recorded = context.rubric, context.recorded
        self.rubric = rubric.model_copy(update={"questions": (*rubric.questions, *recorded)}) if recorded else rubric

    @property
    def roles(self) -> tuple[str, ...]:
        """The judge."""
        return (JUDGE,)

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """Return the answers; an unanswered question is missing, with the reason."""
        return ask_rubric(self.rubric, samples)

    @property
    def questions(self) -> tuple[Question, ...]:
        """Rubric questions that a judge can answer."""
        return tuple(self.rubric.judged)

    def asking(self, questions: Sequence[str]) -> RubricAnswers:
        """Return this source with some of the questions, which an adaptive rubric asks next."""
        chosen = tuple(self.rubric[name] for name in questions)
        part = self.rubric.model_copy(update={"questions": chosen, "main": chosen[0].id})
        source = RubricAnswers(self.settings, replace(self.context, rubric=part, recorded=()))
        source.name = self.name
        return source

    def keep_only(self, columns: Sequence[Column]) -> Source | None:
        """Return this source with the questions that the evaluator learned from."""
        learned_from = {column.question for column in columns}
        questions = [question.id for question in self.rubric.recorded if question.id in learned_from]
        if 0 < len(questions) < len(self.rubric.recorded):
            return self.asking(questions)
        return self if questions else None

    def state(self) -> SourceState:
        """Return the rubric; the project's rubric may differ when scores are computed."""
        return SourceState({"rubric": self.rubric.model_dump(mode="json")})

    def restored(self, state: SourceState) -> Self:
        """Restore the rubric that the evaluator learned from."""
        self.rubric = Rubric.model_validate(state.card["rubric"])
        return self


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

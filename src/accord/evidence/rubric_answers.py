"""The source `rubric`: a judge's answers to the rubric's questions, one block of columns per question (LLM-RUBRIC)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Self

from accord.evidence.source import Settings, Source, SourceContext, State, sources
from accord.evidence.table import Column, EvidenceTable
from accord.models import (
    JUDGE,
    SAMPLES_AT_ONCE,
    Answer,
    Flow,
    Judge,
    Judged,
    ModelQuery,
    NamedModel,
    Questions,
    Request,
    judge_all,
    judging_signature,
    questions_for,
    wait,
)
from accord.store import Store
from accord.values import Question, Rubric, Sample, Target

TRUNCATED = "truncated-share"
"""The column that says which share of a sample the judge was not shown."""


class RubricSettings(Settings):
    """The rubric is the project's: nothing is to be set."""


@sources.register("rubric")
class RubricAnswers(Source):
    """A judge's distributions over the options of each question of the rubric (LLM-RUBRIC, section 2)."""

    settings_type = RubricSettings

    def __init__(self, settings: Settings, context: SourceContext) -> None:
        super().__init__(settings, context)
        rubric, recorded = context.rubric, context.recorded
        self.rubric = rubric.model_copy(update={"questions": (*rubric.questions, *recorded)}) if recorded else rubric

    @property
    def roles(self) -> tuple[str, ...]:
        """The judge."""
        return (JUDGE,)

    def measure(self, samples: Sequence[Sample]) -> Flow[EvidenceTable]:
        """The answers; what nobody answered is missing, with the reason."""
        return ask_rubric(self.rubric, samples)

    @property
    def questions(self) -> tuple[Question, ...]:
        """Those of the rubric that a judge can answer."""
        return tuple(self.rubric.judged)

    def asking(self, questions: Sequence[str]) -> RubricAnswers:
        """The same with some of the questions alone: what an adaptive rubric asks next."""
        chosen = tuple(self.rubric[name] for name in questions)
        part = self.rubric.model_copy(update={"questions": chosen, "main": chosen[0].id})
        found = RubricAnswers(self.settings, replace(self.context, rubric=part, recorded=()))
        found.name = self.name
        return found

    def keep_only(self, columns: Sequence[Column]) -> Source | None:
        """Only the questions whose answers were learned from are asked."""
        named = {column.question for column in columns}
        wanted = [question.id for question in self.rubric.recorded if question.id in named]
        return self.asking(wanted) if 0 < len(wanted) < len(self.rubric.recorded) else (self if wanted else None)

    def state(self) -> State:
        """The rubric, which need not be the project's any more when scores are made."""
        return State({"rubric": self.rubric.model_dump(mode="json")})

    def restored(self, state: State) -> Self:
        """The same with the rubric that was learned from."""
        self.rubric = Rubric.model_validate(state.card["rubric"])
        return self


def ask_rubric(
    rubric: Rubric, samples: Sequence[Sample], role: str = JUDGE, purpose: str = "judged"
) -> Flow[EvidenceTable]:
    """A judge's answers to a rubric about some samples, as evidence."""
    [who] = yield [Request(role, ModelQuery())]
    judged = yield [Request(role, Questions(sample, rubric), purpose=purpose) for sample in samples]
    return answer_table(who, rubric, judged, who.context is not None)


def answer_table(judge: NamedModel, rubric: Rubric, judged: Iterable[Judged], windowed: bool = False) -> EvidenceTable:
    """Answers as evidence: one column per option of each question that a judge can be asked, masses as given.

    Where samples are `windowed`, shown in part if they are long, one more column says which share of each was not
    shown.
    """
    judged_by = judging_signature(judge, rubric)
    columns = [
        Column(f"{question.id}={option}", signature, question.id, _position(question, index))
        for question in questions_for(judge, rubric)
        for signature in [str(judged_by.with_part("question", question.key))]
        for index, option in enumerate(question.scale.options)
    ]
    columns += [Column(TRUNCATED, str(judged_by))] if windowed else []
    rows: dict[Target, dict[str, float]] = {}
    absences: dict[tuple[Target, str], str] = {}
    versions: dict[Target, str] = {}
    for one in judged:
        versions[one.target] = one.version
        features: dict[str, float] = {TRUNCATED: one.truncated_share} if windowed else {}
        rows[one.target] = features
        for answer in one.answers:
            if isinstance(answer, Answer):
                features |= {f"{answer.question}={option}": p for option, p in answer.probabilities.items()}
            else:
                absences[one.target, answer.question] = answer.reason
    return replace(EvidenceTable.from_rows(columns, rows, absences), versions=versions)


def _position(question: Question, index: int) -> float:
    """An option's place on the number line: its value on an ordered scale, its index on a nominal one."""
    option = question.scale.options[index]
    return float(index) if isinstance(option, str) else float(option)


def judge_samples(
    judge: Judge,
    rubric: Rubric,
    samples: Iterable[Sample],
    store: Store,
    on_judged: Callable[[Judged], None] | None = None,
    at_once: int = SAMPLES_AT_ONCE,
    context: int | None = None,
) -> EvidenceTable:
    """`judge_all` for callers without an event loop: judge everything, return it as evidence in the subjects' order."""
    order = list(samples)
    found: dict[Target, Judged] = {}

    async def run() -> None:
        async with aclosing(judge_all(judge, rubric, order, store, at_once, context)) as answered:
            async for judged in answered:
                found[judged.target] = judged
                if on_judged is not None:
                    on_judged(judged)

    wait(run())
    table = answer_table(judge, rubric, (found[sample.target] for sample in order), context is not None)
    return replace(table, metadata=EvidenceTable.of(order).metadata)

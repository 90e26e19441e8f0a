"""Judging: a judge's answers to a rubric, asked only where the store does not hold them, as blocks of columns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from accord.conversation import Target, canonical_json, content_hash
from accord.errors import BudgetReached
from accord.evidence.table import Column, EvidenceTable
from accord.llm.flow import OUT_OF_BUDGET, as_finished
from accord.llm.model import Answer, Judge, Subject, Unanswered
from accord.llm.waiting import wait
from accord.rubric import Question, Rubric
from accord.score import Signature
from accord.store import Store, batches

AT_ONCE = 16
"""Subjects that are judged at the same time."""
NOT_APPLICABLE = "does not apply"


@dataclass(frozen=True, slots=True)
class Judged:
    """One subject's answers, question by question, and how many of them had to be asked for."""

    target: Target
    answers: Sequence[Answer | Unanswered]
    asked: int


async def judge_all(
    judge: Judge, rubric: Rubric, subjects: Iterable[Subject], store: Store, at_once: int = AT_ONCE
) -> AsyncGenerator[Judged, None]:
    """Judge subjects as they come, each kept in the store as soon as it is answered.

    Questions that do not apply are not asked; answers that the store holds are not asked for again; failures are
    returned and counted but never stored, so that the next run asks for them again.

    Raises:
        ModelError: No call can succeed; what was answered before is kept.
        BudgetReached: The next call would pass the budget; what was under way is finished and kept.
    """
    over: list[str] = []

    async def one(subject: Subject) -> Judged:
        judged = await _judge(judge, rubric, subject, store)
        over.extend(a.detail for a in judged.answers if isinstance(a, Unanswered) and a.reason == OUT_OF_BUDGET)
        return judged

    within = takewhile(lambda _: not over, subjects)
    async with aclosing(as_finished(one, within, at_once)) as finished:
        async for _, judged in finished:
            yield judged
    if over:
        raise BudgetReached(over[0])


async def _judge(judge: Judge, rubric: Rubric, subject: Subject, store: Store) -> Judged:
    applicable = [question for question in rubric.questions if question.applies_to(subject.conversation)]
    made_from = {question.id: judge.made_from(subject, question) for question in applicable}
    keys = {question: content_hash(made, length=40) for question, made in made_from.items()}
    stored = store.answers(keys.values())
    answers: dict[str, Answer | Unanswered] = {
        question: _from_row(stored[key]) for question, key in keys.items() if key in stored
    }
    missing = [question for question in applicable if question.id not in answers]

    async def request(questions: Sequence[Question]) -> None:
        """Ask some questions in one request, and keep the answers before anything else is waited for."""
        found = await judge.answer(subject, questions)
        answers.update((answer.question, answer) for answer in found)
        good = [answer for answer in found if isinstance(answer, Answer)]
        store.add_answers(_row(subject, judge, a, keys[a.question], made_from[a.question]) for a in good)

    await asyncio.gather(*(request(group) for group in batches(missing, judge.together)))
    return Judged(subject.target, [_answer_to(question, answers) for question in rubric.questions], len(missing))


def _answer_to(question: Question, answers: dict[str, Answer | Unanswered]) -> Answer | Unanswered:
    return answers.get(question.id) or Unanswered(question.id, NOT_APPLICABLE)


def _row(subject: Subject, judge: Judge, answer: Answer, key: str, made_from: Any) -> dict[str, Any]:
    conversation, turn = subject.target
    return {
        "key": key,
        "conversation": conversation,
        "turn": turn,
        "question": answer.question,
        "judge": judge.name,
        "way": judge.way,
        "probabilities": canonical_json(dict(answer.probabilities)),
        "outside": answer.outside,
        "made_from": canonical_json(made_from),
    }


def _from_row(row: Any) -> Answer:
    return Answer(row["question"], json.loads(row["probabilities"]), row["outside"])


def answer_table(judge: Judge, rubric: Rubric, judged: Iterable[Judged]) -> EvidenceTable:
    """Answers as evidence: one column an option of each question that is not real-valued, masses as they were given."""
    made_by = str(judging_signature(judge, rubric))
    columns = [
        Column(f"{question.id}={option}", made_by, question.id, _position(question, index))
        for question in rubric.questions
        for index, option in enumerate(question.scale.options)
    ]
    rows: dict[Target, dict[str, float]] = {}
    absences: dict[tuple[Target, str], str] = {}
    for one in judged:
        features: dict[str, float] = {}
        rows[one.target] = features
        for answer in one.answers:
            if isinstance(answer, Answer):
                features |= {f"{answer.question}={option}": p for option, p in answer.probabilities.items()}
            else:
                absences[one.target, answer.question] = answer.reason
    return EvidenceTable.from_rows(columns, rows, absences)


def _position(question: Question, index: int) -> float:
    """An option's place on the number line: its value on an ordered scale, its index on a nominal one."""
    option = question.scale.options[index]
    return float(index) if isinstance(option, str) else float(option)


def judging_signature(judge: Judge, rubric: Rubric) -> Signature:
    """How answers were made: the judge, the way to its distributions, the rubric by its hash."""
    return Signature.of("judge", model=judge.name, via=judge.way, rubric=rubric.hash[:13])


def judge_subjects(
    judge: Judge,
    rubric: Rubric,
    subjects: Iterable[Subject],
    store: Store,
    on_judged: Callable[[Judged], None] | None = None,
    at_once: int = AT_ONCE,
) -> EvidenceTable:
    """`judge_all` for callers without an event loop: judge everything, return it as evidence in the subjects' order."""
    order = list(subjects)
    found: dict[Target, Judged] = {}

    async def run() -> None:
        async with aclosing(judge_all(judge, rubric, order, store, at_once)) as answered:
            async for judged in answered:
                found[judged.target] = judged
                if on_judged is not None:
                    on_judged(judged)

    wait(run())
    return answer_table(judge, rubric, (found[subject.target] for subject in order))

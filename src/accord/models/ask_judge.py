"""Judging: a judge's answers to a rubric's questions, asked only where the store lacks them and nobody else asks."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any, Protocol

from accord.edges import AccordError, BudgetReached, ModelError, NotSent
from accord.models.budget import Budget
from accord.models.context_window import truncated_share, windowing
from accord.models.flow import OUT_OF_BUDGET, all_of, as_finished
from accord.models.model import Answer, Judge, Unanswered, in_requests
from accord.models.reply_parsing import checked
from accord.models.request_ledger import Lease, Ledger
from accord.models.requests import MODEL_ERROR, NOT_APPLICABLE, NOT_YET
from accord.store import Store, batches
from accord.values import Question, Rubric, Sample, Signature, Target, canonical_json, content_hash

PREPARED_AT_ONCE = 64
AT_ONCE = 16
"""Subjects that are judged at the same time."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Answers about one subject, in the order of the questions.

    `left_out` is the share of the subject that the judge was not shown, since it did not fit.
    """

    target: Target
    answers: Sequence[Answer | Unanswered]
    truncated_share: float = 0.0

    @property
    def version(self) -> str:
        """What the endpoint said answered; several versions, where it changed between questions, joined by `+`."""
        return "+".join(sorted({a.version for a in self.answers if isinstance(a, Answer) and a.version}))


async def judge_all(
    judge: Judge,
    rubric: Rubric,
    samples: Iterable[Sample],
    store: Store,
    at_once: int = AT_ONCE,
    context: int | None = None,
    budget: Budget | None = None,
    lease: Lease | None = None,
) -> AsyncGenerator[Judged, None]:
    """Judge subjects as they come, each kept in the store as soon as it is answered.

    Questions that do not apply are not asked; answers that the store holds are not asked for again, and what another
    process is asking is waited for; failures are returned and counted but never stored, so that the next run asks for
    them again. Where a request may have no more than `context` tokens, longer conversations are shown in part.

    Raises:
        ModelError: No call can succeed; what was answered before is kept.
        BudgetReached: The next call would pass the budget; what was under way is finished and kept.
        StoreError: The store failed; `budget` is stopped, and what was under way is spooled.
    """
    over: list[AccordError] = []
    later: list[_Work] = []
    ledger: Ledger[Mapping[str, Any]] = Ledger(store, store.answers, budget, lease or Lease())

    async def one(work: _Work, waits: bool) -> Judged | None:
        answered = await _judge(judge, work, ledger, waits, over)
        without = (each for each in answered.found.values() if isinstance(each, Unanswered))
        over.extend(BudgetReached(each.detail) for each in without if each.reason == OUT_OF_BUDGET)
        if waits or not answered.missing:
            return answered.judged(judge, rubric)
        later.append(answered)
        return None

    # What another process is asking comes last, so that processes share the work, and do not trail each other.
    works = _prepared(judge, rubric, samples, ledger.look, context)
    async with ledger.settled():
        for some, waits in ((works, False), (later, True)):
            within = takewhile(lambda _: not over, some)
            async with aclosing(as_finished(partial(one, waits=waits), within, at_once, from_store=True)) as finished:
                async for _, judged in finished:
                    if judged is not None:
                        yield judged
        if over:
            raise over[0]


_Look = Callable[[Iterable[str]], Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class _Work:
    """A subject with the questions that apply, how each answer would be made, and what is known by now."""

    sample: Sample
    truncated_share: float
    applicable: Sequence[Question]
    made_from: Mapping[str, Mapping[str, Any]]
    keys: Mapping[str, str]
    found: Mapping[str, Answer | Unanswered]

    @property
    def missing(self) -> dict[str, Question]:
        """The questions that nobody was asked yet, by the key of their answer."""
        return {self.keys[question.id]: question for question in self.applicable if question.id not in self.found}

    def judged(self, judge: Judge, rubric: Rubric) -> Judged:
        """What is known by now, of all the rubric's questions."""
        questions = questions_for(judge, rubric)
        answers = [self.found.get(q.id) or Unanswered(q.id, NOT_APPLICABLE) for q in questions]
        return Judged(self.sample.target, answers, self.truncated_share)


def _prepared(
    judge: Judge, rubric: Rubric, samples: Iterable[Sample], look: _Look, context: int | None
) -> Iterator[_Work]:
    """Each subject's work; the store is looked into for some dozens of subjects at a time."""
    questions = questions_for(judge, rubric)
    show = windowing(judge, questions, context)
    for batch in batches(samples, PREPARED_AT_ONCE):
        shown = [show(sample) for sample in batch]
        missing = [truncated_share(whole, part) for whole, part in zip(batch, shown, strict=True)]
        asked = [(s, [question for question in questions if question.applies_to(s.conversation)]) for s in shown]
        made = [{q.id: judge.made_from(sample, q) for q in applicable} for sample, applicable in asked]
        keys = [{name: content_hash(how, length=40) for name, how in each.items()} for each in made]
        stored = look(key for each in keys for key in each.values())
        for (sample, applicable), how, of, lost in zip(asked, made, keys, missing, strict=True):
            kept = {name: _from_row(name, stored[key]) for name, key in of.items() if key in stored}
            yield _Work(sample, lost, applicable, how, of, kept)


async def _judge(
    judge: Judge, work: _Work, ledger: Ledger[Mapping[str, Any]], waits: bool, over: list[AccordError]
) -> _Work:
    """Ask the missing questions, and wait for those that another process asks if `waits`; a ModelError goes to `over`.

    The caller raises it after the requests that are under way, so that their failures are counted.
    """
    missing, new = work.missing, dict[str, Answer | Unanswered]()

    async def answer(questions: Sequence[Question]) -> Sequence[Answer | Unanswered]:
        try:
            return await judge.answer(work.sample, questions)
        except ModelError as error:
            over.append(error)
            reason = NOT_YET if isinstance(error, NotSent) else MODEL_ERROR
            return [Unanswered(question.id, reason, str(error)) for question in questions]

    async def request(questions: Sequence[Question]) -> None:
        """Ask some questions in one request, and store the answers."""
        found = [checked(each) for each in await answer(questions)]
        new.update((answer.question, answer) for answer in found)
        await ledger.keep(_row(work, judge, answer) for answer in found if isinstance(answer, Answer))

    async def ask(keys: list[str]) -> None:
        await all_of(request(group) for group in in_requests(judge, [missing[key] for key in keys]))

    others = await ledger.once(missing, ask, waits)
    new.update((missing[key].id, _from_row(missing[key].id, row)) for key, row in others.items())
    by_key = {work.keys[name]: answer for name, answer in new.items()}
    same = {q.id: replace(by_key[work.keys[q.id]], question=q.id) for q in work.applicable if work.keys[q.id] in by_key}
    return replace(work, found={**same, **work.found, **new})


def _row(work: _Work, judge: Judge, answer: Answer) -> dict[str, str | int | float | None]:
    conversation, turn = work.sample.target
    return {
        "kind": "answer",
        "key": work.keys[answer.question],
        "conversation": conversation,
        "turn": turn,
        "question": answer.question,
        "judge": judge.name,
        "mode": judge.mode,
        "probabilities": canonical_json(dict(answer.probabilities)),
        "outside": answer.outside,
        "made_from": canonical_json(work.made_from[answer.question]),
        "version": answer.version or None,
    }


def _from_row(question: str, row: Mapping[str, Any]) -> Answer:
    # Under another rubric the same question may have another name: the key says what was asked, not the name.
    return Answer(question, json.loads(row["probabilities"]), row["outside"], row["version"])


def kept_answers(
    judge: Judge, rubric: Rubric, samples: Iterable[Sample], store: Store, context: int | None
) -> Iterator[Judged]:
    """What the store holds of each sample's answers; the others are `not judged yet`. Nobody is asked."""
    return (judged for judged, *_ in foreseen(judge, rubric, samples, store, context))


def foreseen(
    judge: Judge, rubric: Rubric, samples: Iterable[Sample], store: Store, context: int | None
) -> Iterator[tuple[Judged, Sample, list[Question], list[Question]]]:
    """`kept_answers`, each sample as the judge would be shown it, the questions that apply, those that are lacking."""
    for work in _prepared(judge, rubric, samples, store.answers, context):
        lacking = {q.id: Unanswered(q.id, NOT_YET, "run: accord judge") for q in work.missing.values()}
        judged = replace(work, found={**work.found, **lacking}).judged(judge, rubric)
        yield judged, work.sample, list(work.applicable), list(work.missing.values())


class Named(Protocol):
    """Who answered, and how its distributions were obtained."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    @property
    def mode(self) -> str:
        """How a distribution is obtained."""
        ...


def questions_for(judge: Named, rubric: Rubric) -> tuple[Question, ...]:
    """The rubric's questions that this judge can be asked: a recording answers on any scale."""
    return rubric.recorded if judge.mode == "recorded" else rubric.judged


def judging_signature(judge: Named, rubric: Rubric) -> Signature:
    """How answers were made: the judge, the way to its distributions, what it is told before every question."""
    told = content_hash(rubric.instructions, length=6) if rubric.instructions else None
    return Signature.of("judge", model=judge.name, via=judge.mode, instructions=told)

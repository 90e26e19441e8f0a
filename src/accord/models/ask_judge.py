"""Ask a judge a rubric's questions about samples; the requests go through `accord.models.requests.exchange`."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from accord.edges import AccordError
from accord.entry_points import reason_line
from accord.models.context_window import fit_to_context, room_for, truncated_share
from accord.models.model import Answer, Judge, NamedModel, Unanswered, in_requests
from accord.models.requests.budget import Budget
from accord.models.requests.exchange import Assumption, Exchange, Missing, Unit, answer_units
from accord.models.requests.flow import NOT_APPLICABLE, NOT_YET
from accord.models.requests.redacting import sent_sample
from accord.models.requests.reply_parsing import check_answer, shorten
from accord.models.requests.request_ledger import Lease, RequestLedger
from accord.redaction import Redactor
from accord.store import PaidRow, Store, batches
from accord.values import Question, Rubric, Sample, Signature, Target, canonical_json, content_hash

JUDGE_FAILED = "judge failed"
"""Reason for missing answers of a judge of a plug-in that raised an error or returned something else."""
PREPARED_AT_ONCE = 64
"""Number of samples whose answers are looked up in one query."""
SAMPLES_AT_ONCE = 16
"""Number of samples that are judged at the same time."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Answers about one sample.

    Attributes:
        target: The sample.
        answers: One answer per question, in the order of the questions.
        truncated_share: Share of the sample's characters that were left out to fit the context, 0 to 1.
    """

    target: Target
    answers: Sequence[Answer | Unanswered]
    truncated_share: float = 0.0

    @property
    def version(self) -> str:
        """Version of the model that the endpoint reports; several versions are joined by `+`."""
        return "+".join(sorted({a.version for a in self.answers if isinstance(a, Answer) and a.version}))


class JudgeRequest(NamedTuple):
    """One question about one sample; `made_from` is everything that can change the answer."""

    sample: Sample
    question: Question
    made_from: Mapping[str, Any]


@dataclass(frozen=True)
class SampleUnit(Unit[JudgeRequest, Answer]):
    """The questions about one sample.

    Attributes:
        sample: The sample as shown to the judge.
        keys: Key of each question that applies, by question id; questions with equal wording share a key.
        truncated_share: See `Judged`.
    """

    sample: Sample | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    truncated_share: float = 0.0


class JudgeExchange(Exchange[JudgeRequest, Answer]):
    """Questions to a judge."""

    not_sent = NOT_YET

    def __init__(
        self,
        judge: Judge,
        rubric: Rubric,
        store: Store,
        context: int | None = None,
        budget: Budget | None = None,
        lease: Lease | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        """Conversations longer than `context` tokens are shown in part, and with placeholders by a `redactor`."""
        super().__init__(RequestLedger(store, store.answers, budget, lease or Lease()), judge.name)
        self.judge, self.redactor = judge, redactor
        self.questions = questions_for(judge, rubric)
        self._room = None if context is None else room_for(judge, self.questions, context)

    def key(self, request: JudgeRequest) -> str:
        """Return the hash of `Judge.made_from`."""
        return content_hash(request.made_from, length=40)

    async def ask(self, requests: Sequence[JudgeRequest]) -> Sequence[Answer | Missing]:
        """Ask the judge some questions about one sample."""
        questions = [request.question for request in requests]
        answers: Any = None
        try:
            answers = await self.judge.answer(requests[0].sample, questions)
        except AccordError:
            raise
        except Exception as error:
            if type(self.judge).__module__.partition(".")[0] == "accord":
                raise
            detail = f"the judge {self.judge.name!r} raised {reason_line(error)}"
            logging.getLogger("accord").info("%s", detail, exc_info=True)
        else:
            if self.judge.mode == "recorded":  # on the scale of the recording
                return list(answers)
            detail = f"the judge returned {shorten(answers)} for {len(questions)} questions, not one answer for each"
        if not isinstance(answers, Sequence) or len(answers) != len(questions):
            return [Unanswered(question.id, JUDGE_FAILED, detail) for question in questions]
        return [check_answer(*pair) for pair in zip(answers, questions, strict=True)]

    def cost(self, requests: Sequence[JudgeRequest], assume: Assumption = "stand_in") -> Sequence[Any]:
        """Return the judge's requests."""
        return self.judge.requests(requests[0].sample, [request.question for request in requests])

    def groups(self, requests: Sequence[tuple[str, JudgeRequest]]) -> list[list[tuple[str, JudgeRequest]]]:
        """Group the questions about one sample as the judge takes them together."""
        by_id = {request.question.id: (key, request) for key, request in requests}
        groups = in_requests(self.judge, [request.question for _, request in requests])
        return [[by_id[question.id] for question in group] for group in groups]

    def failure(self, request: JudgeRequest, reason: str, detail: str) -> Missing:
        """Return the question as unanswered."""
        return Unanswered(request.question.id, reason, detail)

    def encode(self, key: str, request: JudgeRequest, answer: Answer) -> PaidRow:
        """Return an answer as an annotation."""
        conversation, turn = request.sample.target
        return {
            "kind": "answer",
            "key": key,
            "conversation": conversation,
            "turn": turn,
            "question": answer.question,
            "judge": self.judge.name,
            "mode": self.judge.mode,
            "probabilities": canonical_json(dict(answer.probabilities)),
            "outside": answer.outside,
            "made_from": canonical_json(request.made_from),
            "version": answer.version or None,
        }

    def decode(self, request: JudgeRequest, stored: Mapping[str, Any]) -> Answer:
        """Return a stored answer under the question's current name; another rubric may have used a different one."""
        probabilities = json.loads(stored["probabilities"])
        return Answer(request.question.id, probabilities, stored["outside"], stored["version"])

    def units(
        self, samples: Iterable[Sample], find: Callable[[Iterable[str]], Mapping[str, Any]]
    ) -> Iterator[SampleUnit]:
        """Yield each sample's questions with stored answers, looked up for several dozen samples at a time."""
        for batch in batches(samples, PREPARED_AT_ONCE):
            prepared = [self._prepare(sample) for sample in batch]
            stored = find(key for _, requests, _ in prepared for key in requests)
            for sample, (shown, requests, keys) in zip(batch, prepared, strict=True):
                known = {key: self.decode(request, stored[key]) for key, request in requests.items() if key in stored}
                yield SampleUnit(requests, known, shown, keys, truncated_share(sample, shown))

    def _prepare(self, sample: Sample) -> tuple[Sample, dict[str, JudgeRequest], dict[str, str]]:
        """Return the shown sample, its requests by key, and the key of each question by id."""
        shown = sample if self._room is None else fit_to_context(sample, self._room)
        sent = sent_sample(shown, self.redactor)
        requests: dict[str, JudgeRequest] = {}
        keys: dict[str, str] = {}
        for question in self.questions:
            if question.applies_to(sample.conversation, sample.turn):
                request = JudgeRequest(sent, question, self.judge.made_from(sent, question))
                keys[question.id] = key = self.key(request)
                requests.setdefault(key, request)
        return shown, requests, keys

    def judged(self, unit: SampleUnit, answers: Mapping[str, Answer | Missing]) -> Judged:
        """Return the answers to all questions of the rubric about one sample."""
        assert unit.sample is not None
        found: list[Answer | Unanswered] = []
        for question in self.questions:
            answer = answers[unit.keys[question.id]] if question.id in unit.keys else None
            if isinstance(answer, Answer | Unanswered):
                is_same = answer.question == question.id
                found.append(answer if is_same else replace(answer, question=question.id))
            elif answer is not None:
                found.append(Unanswered(question.id, answer.reason, answer.detail))
            else:
                found.append(Unanswered(question.id, NOT_APPLICABLE))
        return Judged(unit.sample.target, found, unit.truncated_share)

    def stored(self, samples: Iterable[Sample]) -> Iterator[tuple[SampleUnit, Judged]]:
        """Yield the answers to each sample: stored answers, recorded failures, or `not judged yet`."""
        failures = self.failures or {}
        for unit in self.units(samples, self.ledger.stored):
            lacking = {
                key: failures.get(key) or self.failure(request, NOT_YET, "run: accord judge")
                for key, request in unit.missing.items()
            }
            yield unit, self.judged(unit, {**unit.answers, **lacking})


async def judge_all(
    judge: Judge,
    rubric: Rubric,
    samples: Iterable[Sample],
    store: Store,
    concurrency: int = SAMPLES_AT_ONCE,
    context: int | None = None,
    budget: Budget | None = None,
    lease: Lease | None = None,
    failures: dict[str, Missing] | None = None,
    redactor: Redactor | None = None,
    role: str = "",
) -> AsyncGenerator[Judged, None]:
    """Judge samples as they arrive, and store every answer immediately.

    Questions that do not apply are not asked. Answers that the store holds or that another process is asking for are
    not requested again. Failures are returned but never stored, so that the next run asks again.

    Conversations longer than `context` tokens are shown in part, and with placeholders by `redactor`. `failures` is
    filled with failed requests by key. The usage of requests is stored for a `role`.

    Raises:
        ModelError: No request can succeed; earlier answers are stored.
        BudgetReached: The next request could exceed the budget; requests in progress are finished and stored.
        StoreError: The store failed; `budget` is stopped and answers in progress are spooled.
    """
    exchange = JudgeExchange(judge, rubric, store, context, budget, lease, redactor)
    exchange.failures, exchange.role = failures, role
    async with exchange.ledger.closing():
        units = exchange.units(samples, exchange.ledger.find)
        async with aclosing(answer_units(exchange, units, concurrency, from_store=True)) as answered:
            async for unit, answers in answered:
                assert isinstance(unit, SampleUnit)
                yield exchange.judged(unit, answers)


def questions_for(judge: NamedModel, rubric: Rubric) -> tuple[Question, ...]:
    """Return the rubric's questions that a judge can answer; a recording answers on any scale."""
    return rubric.recorded if judge.mode == "recorded" else rubric.judged


def judging_signature(judge: NamedModel, rubric: Rubric) -> Signature:
    """Return the signature of a judge's answers: model, mode, instructions, and redaction of its requests."""
    instructions = content_hash(rubric.instructions, length=6) if rubric.instructions else None
    redacted = getattr(judge, "redacted", "") or None
    return Signature.of("judge", model=judge.name, via=judge.mode, instructions=instructions, redacted=redacted)

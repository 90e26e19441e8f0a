"""The path of every request to a model: cache, claim, budget, limit, retries, wire, check of the reply, cache.

An `Exchange` describes one kind of request (judge questions, chat prompts, likelihoods, embeddings): its key, request,
cost and stored form. Everything else is the same for all kinds. Budget, limit and retries belong to the model that
`Exchange.ask` calls (see `accord.models.factory`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import Any, Generic, Literal, TypeVar

from accord.edges import AccordError, BudgetReached, ModelError, NotSent
from accord.models.model import CallFailed, Failure, Unanswered, Usage, estimated_usage, in_process
from accord.models.requests.budget import Budget, metered
from accord.models.requests.flow import MODEL_ERROR, NEVER_SENT, OUT_OF_BUDGET, as_finished, gather_all
from accord.models.requests.request_ledger import RequestLedger
from accord.store import PaidRow, batches
from accord.values import canonical_json

Q = TypeVar("Q")
A = TypeVar("A")
Missing = Failure | Unanswered
"""A request without an answer, with the reason."""

# --- plans ----------------------------------------------------------------------------------------------------------

Assumption = Literal["stand_in", "fewest", "most"]
RoleModel = tuple[str, str]
"""A role and its model."""
_INTERNAL = {"assume", "has_follow_ups", "used", "counts", "most_used", "seen", "steps"}


@dataclass
class Plan:
    """The requests of a run, counted without sending one.

    Tokens are estimates from the prompts' lengths: an upper bound for most scripts, four bytes a token.

    Attributes:
        samples: Samples in the run.
        steps: Number of progress reports of the run.
        questions: Questions to answer.
        answered: Questions that already have an answer in the store.
        requests: Requests if every reply is as expected.
        min_requests: Requests if replies lead to as few follow-up requests as possible.
        max_requests: Requests if replies lead to as many follow-up requests as possible, without failed attempts.
        attempts: Number of times a request is sent if it fails each time; each attempt counts as a request.
        input_tokens: Input tokens of `requests`.
        output_tokens: Maximum output tokens of `requests`.
        money: Price of `requests`, or `None` if prices are unknown.
        max_money: Price of `max_requests`.
        unpriced: First model without a price.
        assume: Replies that are assumed while counting: a field of `Request`.
        has_follow_ups: True if a reply decides about further requests.
        used: Usage by role and model.
        counts: Requests by role and model.
        most_used: Usage of `max_requests` by role and model.
        seen: Hashes of the requests that were counted, with `assume`; plans of one run share them.
    """

    samples: int = 0
    steps: int = 0
    questions: int = 0
    answered: int = 0
    requests: int = 0
    min_requests: int = 0
    max_requests: int = 0
    attempts: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    money: float | None = None
    max_money: float | None = None
    unpriced: str | None = None
    assume: Assumption = "stand_in"
    has_follow_ups: bool = False
    used: dict[RoleModel, Usage] = field(default_factory=dict)
    counts: Counter[RoleModel] = field(default_factory=Counter)
    most_used: dict[RoleModel, Usage] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def is_new(self, request: object) -> bool:
        """Return True if a request was not counted before; an equal second request is answered from the store."""
        size = len(self.seen)
        self.seen.add(hash((self.assume, request)))
        return len(self.seen) > size

    def add(self, role: str, model: str, requests: Sequence[Any], attempts: int = 1) -> None:
        """Count requests to a model."""
        for request in requests:
            estimate = estimated_usage(request)
            self.requests += 1
            self.min_requests += 1
            self.max_requests += 1
            self.input_tokens += estimate.input_tokens
            self.output_tokens += estimate.output_tokens
            self.counts[role, model] += 1
            for used in (self.used, self.most_used):
                used[role, model] = used.get((role, model), Usage()).plus(estimate)
            self.attempts = max(self.attempts, 1 if in_process(model) else attempts)

    def extend(self, fewest: Plan, most: Plan) -> None:
        """Take the range of requests from plans of the same run under other assumptions.

        Each end is a sum over roles: replies with many follow-ups in one role may lead to few requests in another.
        """
        plans = (self, fewest, most)
        keys = {key for plan in plans for key in plan.counts}
        self.min_requests = sum(min(plan.counts[key] for plan in plans) for key in keys)
        self.max_requests = sum(max(plan.counts[key] for plan in plans) for key in keys)
        for key in keys:
            self.most_used[key] = max((plan.used.get(key, Usage()) for plan in plans), key=lambda usage: usage.total)

    def plus(self, other: Plan) -> None:
        """Add the counts of another plan."""
        for name in (
            "steps", "questions", "answered", "requests", "min_requests", "max_requests", "input_tokens",
            "output_tokens",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.attempts = max(self.attempts, other.attempts)
        self.counts.update(other.counts)
        for used, others in ((self.used, other.used), (self.most_used, other.most_used)):
            for key, usage in others.items():
                used[key] = used.get(key, Usage()).plus(usage)

    def price(self, budget: Budget) -> None:
        """Set the money from the budget's prices, or `unpriced` if a model has none."""
        prices = {key: budget.price(key[1]) for key in self.most_used}
        self.unpriced = next((model for (_, model), price in prices.items() if price is None), None)
        if self.unpriced is None and any(not in_process(model) for _, model in prices):
            known = {key: price for key, price in prices.items() if price is not None}
            self.money = sum(price.of(self.used.get(key, Usage())) for key, price in known.items())
            self.max_money = sum(price.of(self.most_used[key]) for key, price in known.items())

    def to_json(self) -> dict[str, Any]:
        """Return the counts."""
        return {name: value for name, value in vars(self).items() if name not in _INTERNAL}


# --- one kind of request --------------------------------------------------------------------------------------------


class Exchange(ABC, Generic[Q, A]):
    """One kind of request to one model.

    Attributes:
        ledger: Claims, lookups and writes in the store.
        model: Name of the model.
        role: Role of the model in counts and plans.
        attempts: Number of times a failing request is sent, for plans.
        failures: Failed requests by key, or `None` while they are not recorded.
        not_sent: Reason for a missing answer whose request was not sent.
        hint: Detail of such an answer.
        concurrency: Largest number of units in progress.
        together: Number of requests in a unit, which are claimed and stored together.
        needs_all: True if a spent budget raises an error instead of failures.
        counts_questions: True if a plan counts each request as a question and a step.
    """

    role = ""
    attempts = 1
    failures: dict[str, Missing] | None = None
    not_sent = ""
    hint = ""
    concurrency = 1
    together = 1
    needs_all = False
    counts_questions = True

    def __init__(self, ledger: RequestLedger[Any], model: str) -> None:
        self.ledger, self.model = ledger, model

    @abstractmethod
    def key(self, request: Q) -> str:
        """Return the key of a request's answer in the store: a hash of everything that can change the answer."""

    @abstractmethod
    async def ask(self, requests: Sequence[Q]) -> Sequence[A | Missing]:
        """Send one group of requests (see `groups`) and return an answer or a failure for each.

        Raises:
            BudgetReached: The next request could exceed the budget.
            CallFailed: The requests of this group failed.
            ModelError: No request can succeed.
        """

    @abstractmethod
    def cost(self, requests: Sequence[Q], assume: Assumption = "stand_in") -> Sequence[Any]:
        """Return the wire requests that `ask` sends for one group."""

    @abstractmethod
    def encode(self, key: str, request: Q, answer: A) -> PaidRow:
        """Return an answer as a row of the store."""

    @abstractmethod
    def decode(self, request: Q, stored: Any) -> A:
        """Return the answer to a request from its stored form."""

    def groups(self, requests: Sequence[tuple[str, Q]]) -> Iterable[Sequence[tuple[str, Q]]]:
        """Split requests with their keys into groups; each group is sent and stored on its own."""
        return [requests] if requests else []

    def failure(self, request: Q, reason: str, detail: str) -> Missing:
        """Return the failure of a request."""
        return Failure(reason, detail)

    def record_failures(self, answers: Mapping[str, A | Missing]) -> None:
        """Record failed requests, except those that were not sent."""
        failures = {} if self.failures is None else self.failures
        for key, answer in answers.items():
            if isinstance(answer, Failure | Unanswered) and answer.reason not in NEVER_SENT:
                failures[key] = answer

    def check(self, answers: Mapping[str, A | Missing]) -> None:
        """Raise ModelError if the failures of a unit show that no other unit can be answered."""

    def assumed(self, request: Q, plan: Plan) -> A | Missing:
        """Return the answer that a plan assumes if the store has none."""
        return self.failure(request, self.not_sent, self.hint)


@dataclass(frozen=True)
class Unit(Generic[Q, A]):
    """Requests that are answered together.

    Attributes:
        requests: Requests by key.
        answers: Answers that are known, by key.
    """

    requests: Mapping[str, Q]
    answers: Mapping[str, A | Missing] = field(default_factory=dict)

    @property
    def missing(self) -> dict[str, Q]:
        """Requests without a known answer, by key."""
        return {key: request for key, request in self.requests.items() if key not in self.answers}


def usage_row(role: str, model: str, rows: Sequence[PaidRow], used: Sequence[Usage]) -> PaidRow:
    """Return the usage of the requests behind some answers, under the key of the first."""
    total = Usage(sum(each.input_tokens for each in used), sum(each.output_tokens for each in used))
    return {
        "kind": "usage", "key": rows[0]["key"], "maker": model,
        "content": canonical_json({"role": role, "requests": len(used), "input_tokens": total.input_tokens,
                                   "output_tokens": total.output_tokens}),
        "conversations": [rows[0]["conversation"]] if "conversation" in rows[0] else rows[0].get("conversations"),
    }  # fmt: skip


Ask = Callable[[Sequence[Q]], Awaitable[Sequence[A | Missing]]]


async def ask_once(
    exchange: Exchange[Q, A], requests: Mapping[str, Q], waits: bool = True, ask: Ask[Q, A] | None = None
) -> dict[str, A | Missing]:
    """Ask for the answers that the store lacks; each request is sent by only one process.

    Args:
        exchange: Kind of the requests.
        requests: Requests by key.
        waits: True to wait for answers that another process is asking for; False to leave them out.
        ask: Replaces `exchange.ask`.

    Returns:
        Answers and failures by key. Answers are stored before they are returned; failures are never stored.

    Raises:
        BudgetReached: The store failed, so nothing more is asked; or raised by `ask`.
        ModelError: Raised by `ask`.
    """
    new: dict[str, A | Missing] = {}
    send = ask or exchange.ask

    async def ask_group(group: Sequence[tuple[str, Q]]) -> None:
        with metered() as used:
            answers = await send([request for _, request in group])
        new.update((key, answer) for (key, _), answer in zip(group, answers, strict=True))
        rows = [
            exchange.encode(key, request, answer)
            for (key, request), answer in zip(group, answers, strict=True)
            if not isinstance(answer, Failure | Unanswered)
        ]
        if rows and used and exchange.role:
            rows.append(usage_row(exchange.role, exchange.model, rows, used))
        await exchange.ledger.keep(rows)

    async def ask_claimed(keys: Sequence[str]) -> None:
        await gather_all(ask_group(group) for group in exchange.groups([(key, requests[key]) for key in keys]))

    elsewhere = await exchange.ledger.ask_each_once(requests, ask_claimed, waits)
    return new | {key: exchange.decode(requests[key], stored) for key, stored in elsewhere.items()}


async def answer_units(
    exchange: Exchange[Q, A], units: Iterable[Unit[Q, A]], concurrency: int, from_store: bool = False
) -> AsyncGenerator[tuple[Unit[Q, A], dict[str, A | Missing]], None]:
    """Yield each unit with its answers by key, as they arrive; `concurrency` units are in progress.

    Units whose answers another process is asking for come last: processes share the work instead of waiting for each
    other. After an error no further unit is started; those in progress are finished, stored and yielded.

    Args:
        exchange: Kind of the requests.
        units: Units; taken in a thread if they come `from_store`.
        concurrency: Largest number of units in progress.
        from_store: True if taking a unit reads the store.

    Raises:
        ModelError: No request can succeed.
        BudgetReached: The next request could exceed the budget, or the store failed.
    """
    errors: list[AccordError] = []
    postponed: list[Unit[Q, A]] = []

    async def one(unit: Unit[Q, A], waits: bool) -> dict[str, A | Missing] | None:
        new = await _ask_unit(exchange, unit.missing, waits, errors)
        known = {**unit.answers, **new}
        if not waits and len(known) < len(unit.requests):
            postponed.append(replace(unit, answers=known))
            return None
        return known

    for part, waits in ((units, False), (postponed, True)):
        remaining = takewhile(lambda _: not errors, part)
        async with aclosing(as_finished(partial(one, waits=waits), remaining, concurrency, from_store)) as finished:
            async for unit, answers in finished:
                if answers is not None:
                    yield unit, answers
    if errors:
        raise errors[0]


async def _ask_unit(
    exchange: Exchange[Q, A], requests: Mapping[str, Q], waits: bool, errors: list[AccordError]
) -> dict[str, A | Missing]:
    """Return new answers by key. Errors become failures of their requests and are added to `errors`."""

    def failed(some: Iterable[Q], error: AccordError) -> list[Missing]:
        errors.append(error)
        reason = OUT_OF_BUDGET if isinstance(error, BudgetReached) else MODEL_ERROR
        reason = exchange.not_sent if isinstance(error, NotSent) else reason
        return [exchange.failure(request, reason, str(error)) for request in some]

    async def ask(group: Sequence[Q]) -> Sequence[A | Missing]:
        try:
            return await exchange.ask(group)
        except CallFailed as error:
            return [error.failure for _ in group]
        except (ModelError, BudgetReached) as error:
            return failed(group, error)

    if not requests:
        return {}
    try:
        answers = await ask_once(exchange, requests, waits, ask)
    except BudgetReached as error:
        return dict(zip(requests, failed(requests.values(), error), strict=True))
    try:
        exchange.record_failures(answers)
        for answer in answers.values():
            if isinstance(answer, Failure | Unanswered) and answer.reason == OUT_OF_BUDGET:
                raise BudgetReached(answer.detail)
        exchange.check(answers)
    except (BudgetReached, ModelError) as error:
        errors.append(error)
    return answers


async def answer_all(
    exchange: Exchange[Q, A], requests: Sequence[Q], step: Callable[[], None] = lambda: None
) -> list[A | Missing]:
    """Return an answer or a failure to each request; equal ones are sent once, and `step` is called for each.

    Every new answer is stored as it arrives.

    Raises:
        ModelError: No request can succeed.
        BudgetReached: The budget is spent and the exchange `needs_all`; requests in progress are finished and stored.
    """
    keys = [exchange.key(request) for request in requests]
    times, by_key = Counter(keys), dict(zip(keys, requests, strict=True))
    answers: dict[str, A | Missing] = {}

    def add(new: Mapping[str, A | Missing]) -> None:
        answers.update(new)
        for _ in range(sum(times[key] for key in new)):
            step()

    stored = await exchange.ledger.look_up(by_key)
    add({key: exchange.decode(by_key[key], value) for key, value in stored.items()})
    missing = batches([key for key in by_key if key not in stored], exchange.together)
    units = (Unit[Q, A]({key: by_key[key] for key in part}) for part in missing)
    try:
        async with aclosing(answer_units(exchange, units, exchange.concurrency)) as answered:
            async for _, new in answered:
                add(new)
    except BudgetReached as error:
        if exchange.needs_all:
            raise
        left = (key for key in by_key if key not in answers)
        answers |= {key: exchange.failure(by_key[key], OUT_OF_BUDGET, str(error)) for key in left}
    return [answers[key] for key in keys]


def stored_answers(exchange: Exchange[Q, A], requests: Sequence[Q]) -> list[A | Missing]:
    """Return the stored answer to each request, the recorded failure, or a failure with the reason `not_sent`."""
    keys = [exchange.key(request) for request in requests]
    stored, failures = exchange.ledger.stored(dict.fromkeys(keys)), exchange.failures or {}
    return [
        exchange.decode(request, stored[key])
        if key in stored
        else failures.get(key) or exchange.failure(request, exchange.not_sent, exchange.hint)
        for key, request in zip(keys, requests, strict=True)
    ]


def price(exchange: Exchange[Q, A], requests: Sequence[Q], plan: Plan) -> list[A | Missing]:
    """Count requests in a plan, and return the stored answer to each, or the assumed one."""
    keys = [exchange.key(request) for request in requests]
    stored = exchange.ledger.stored(dict.fromkeys(keys))
    plan.steps += len(keys) if exchange.counts_questions else 0
    count(exchange, zip(keys, requests, strict=True), stored, plan)
    return [
        exchange.decode(request, stored[key]) if key in stored else exchange.assumed(request, plan)
        for key, request in zip(keys, requests, strict=True)
    ]


def count(exchange: Exchange[Q, A], requests: Iterable[tuple[str, Q]], stored: Container[str], plan: Plan) -> None:
    """Count requests with their keys in a plan: as questions, and as requests to send unless the answer is stored."""
    lacking: list[tuple[str, Q]] = []
    for key, request in requests:
        if plan.is_new((exchange.role, exchange.model, key)):
            plan.questions += exchange.counts_questions
            plan.answered += exchange.counts_questions and key in stored
            if key not in stored:
                lacking.append((key, request))
    for group in exchange.groups(lacking):
        sent = exchange.cost([request for _, request in group], plan.assume)
        plan.add(exchange.role, exchange.model, sent, exchange.attempts)

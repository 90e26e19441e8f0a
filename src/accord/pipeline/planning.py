"""What a run would cost before it starts: requests, tokens, money, and what is answered already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from accord.conversation import content_hash
from accord.llm.budget import Budget
from accord.llm.model import Judge, Subject, estimated_usage
from accord.rubric import Rubric
from accord.store import Store, batches


@dataclass
class Plan:
    """The calls a run would make, counted without making one.

    Tokens are estimates from the prompts' lengths: an upper bound for most scripts, four bytes a token.
    """

    subjects: int = 0
    questions: int = 0
    answered: int = 0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float | None = None
    unpriced: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The counts."""
        return dict(vars(self))


def plan_judging(judge: Judge, rubric: Rubric, subjects: Iterable[Subject], store: Store, budget: Budget) -> Plan:
    """Price the judging of subjects; questions that the store answers cost nothing."""
    plan = Plan()
    for subject in subjects:
        applicable = [question for question in rubric.questions if question.applies_to(subject.conversation)]
        keys = {q.id: content_hash(judge.made_from(subject, q), length=40) for q in applicable}
        stored = store.answers(keys.values())
        missing = [question for question in applicable if keys[question.id] not in stored]
        plan.subjects += 1
        plan.questions += len(applicable)
        plan.answered += len(applicable) - len(missing)
        for group in batches(missing, judge.together):
            for request in judge.requests(subject, group):
                estimate = estimated_usage(request)
                plan.requests += 1
                plan.input_tokens += estimate.input_tokens
                plan.output_tokens += estimate.output_tokens
    price = budget.price(judge.name)
    if price is not None:
        plan.money = (plan.input_tokens * price.input + plan.output_tokens * price.output) / 1e6
    elif plan.requests:
        plan.unpriced = judge.name
    return plan

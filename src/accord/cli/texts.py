"""Text of plans and of spent budgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from accord.cli.terminal import say
from accord.edges import count_of

if TYPE_CHECKING:
    from accord.models import Budget


@contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """Print the requests, tokens and cost of a block on stderr, also after an error."""
    try:
        yield
    finally:
        spent = budget.to_json()
        if spent["requests"]:
            say(f"spent: {spent_text(spent)}", is_aside=True)


def plan_text(plan: Mapping[str, Any]) -> str:
    """Format a plan: samples, questions, requests and their cost."""
    about = f"{count_of(plan['samples'], 'sample')}, " if plan["samples"] else ""
    known = f"{count_of(plan['questions'], 'question')}, {plan['answered']} already answered"
    return f"{about}{known}\n{cost_text(plan)}"


def cost_text(plan: Mapping[str, Any]) -> str:
    """Format the cost of a plan: range of requests, tokens, money."""
    fewest, most = plan["min_requests"], plan["max_requests"]
    requests = count_of(plan["requests"], "request")
    if most > fewest:
        requests = f"{fewest} to {most} requests; {plan['requests']} expected"
    lines = [f"{requests}, about {plan['input_tokens']} tokens in, at most {plan['output_tokens']} out"]
    if most > plan["requests"]:
        lines.append("a reply that cannot be used leads to further requests")
    if plan["attempts"] > 1 and most:
        lines.append(f"a request that fails is sent up to {plan['attempts']} times; each time counts")
    if plan["unpriced"]:
        lines.append(f"price of {plan['unpriced']!r} unknown; add it to prices.yaml to see it in money")
    elif plan["money"] is not None:
        upper = f", at most {plan['max_money']:.4f}" if most > plan["requests"] else ""
        lines.append(f"about {plan['money']:.4f}{upper} in money")
    return "\n".join(lines)


def spent_text(spent: Mapping[str, Any]) -> str:
    """Format the spent requests, tokens and money."""
    money = "" if spent["money"] is None else f", {spent['money']:.4f} in money"

    return f"{count_of(spent['requests'], 'request')}, {spent['input_tokens']} + {spent['output_tokens']} tokens{money}"

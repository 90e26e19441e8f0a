"""A model as it is used: `Once(Cached(Limited(Retrying(Budgeted(wire)))))`.

Equal prompts under way are asked once, kept replies never wait for a slot, a slot is held through retries, and
every attempt is paid from the budget.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from accord.errors import BadInput
from accord.llm.budget import Budget, Budgeted, Caps
from accord.llm.cached import Cached
from accord.llm.chat_completions import ChatCompletions
from accord.llm.decisions import DecisionsJudge, OpenAIDecisions, SystemOne
from accord.llm.limited import Limit, Limited, slows
from accord.llm.logprobs import LogprobsJudge
from accord.llm.model import ChatModel, Judge, Model, Reply, Usage
from accord.llm.once import Once
from accord.llm.retrying import ATTEMPTS, Retrying
from accord.llm.sampling import SamplingJudge
from accord.llm.verbalised import VerbalisedJudge
from accord.llm.wire import TIMEOUT_SECONDS
from accord.store import Store

WAYS = ("decisions", "systemone", "logprobs", "sampling", "verbalised")
"""Ways to a distribution over a wire; `systemone` is the other dialect of decisions."""


@dataclass
class Terms:
    """On what terms an endpoint is asked: shared by every model that a run opens.

    Attributes:
        at_once: The most requests under way at one endpoint with one key.
        attempts: How often a failing call is tried in all.
        timeout: Seconds that one attempt may take.
        budget: What may be spent.
    """

    at_once: int = 64
    attempts: int = ATTEMPTS
    timeout: float = TIMEOUT_SECONDS
    budget: Budget = field(default_factory=lambda: Budget(Caps(), {}))
    limits: dict[str, Limit] = field(default_factory=dict)

    def limit(self, endpoint: str) -> Limit:
        """The endpoint's limit; the key is the environment's own, so that the endpoint alone tells limits apart."""
        return self.limits.setdefault(endpoint, Limit(self.at_once))


def asked_on(wire: Any, terms: Terms) -> Model[Any, Any]:
    """A wire with its budget, its retries and its limit, and equal questions joined."""
    return Once(_limited(wire, terms))


def open_chat(model: str, base_url: str | None, store: Store, terms: Terms) -> ChatModel:
    """A chat model whose replies are kept in the store."""
    wire = ChatCompletions(model, base_url, timeout=terms.timeout)
    return Once(Cached(_limited(wire, terms), store, wire.endpoint, decode_reply))


def _limited(wire: Any, terms: Terms) -> Limited[Any, Any]:
    limit = terms.limit(wire.endpoint)
    retrying = Retrying(Budgeted(wire, terms.budget), terms.attempts, on_failure=partial(slows, limit))
    return Limited(retrying, limit)


def decode_reply(kept: dict[str, Any]) -> Reply:
    """A kept reply; it cost nothing this time."""
    return Reply(**{**kept, "usage": Usage()})


def open_judge(way: str, model: str, base_url: str | None, instructions: str, terms: Terms, samples: int) -> Judge:
    """A judge over a wire. Its answers are kept by whoever asks; the wire's replies are not kept twice.

    Raises:
        BadInput: No such way.
        ModelError: There is no key.
    """
    if way not in WAYS:
        raise BadInput(f"no way {way!r} to a distribution; allowed: {', '.join(WAYS)}")
    kind: Any = {"decisions": OpenAIDecisions, "systemone": SystemOne}.get(way, ChatCompletions)
    wire = kind(model, base_url, timeout=terms.timeout)
    asked: Any = asked_on(wire, terms)
    if way in {"decisions", "systemone"}:
        return DecisionsJudge(asked, instructions, wire.endpoint, "openai" if way == "decisions" else way)
    if way == "logprobs":
        return LogprobsJudge(asked, instructions, wire.endpoint)
    if way == "sampling":
        return SamplingJudge(asked, samples, instructions, wire.endpoint)
    return VerbalisedJudge(asked, instructions, wire.endpoint)

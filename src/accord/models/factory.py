"""A model as it is used: `Once(Cached(Limited(Retrying(Budgeted(wire)))))`.

Equal prompts under way are asked once, kept replies never wait for a slot, a slot is held through retries, and
every attempt is paid from the budget.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from accord.edges import BadInput
from accord.models.batching import MOST_FILE_BYTES, Batched, BatchEndpoint
from accord.models.budget import Budget, Budgeted, Caps
from accord.models.client import TIMEOUT_SECONDS, ChatCompletions, Endpoint
from accord.models.judges.decisions import DecidedChat, DecisionsJudge, OpenAIDecisions, SystemOne
from accord.models.judges.logprobs import IN_PROCESS_LOGPROBS, TOP_LOGPROBS, LogprobsJudge
from accord.models.judges.sampling import SamplingJudge, VerbalisedJudge
from accord.models.likelihood import EchoCompletions, EchoLikelihood, LikelihoodModel, open_embedded_likelihood
from accord.models.model import EMBEDDED, GGUF, HF, ChatModel, Judge, Model, in_process
from accord.models.streaming import Heard
from accord.models.wrappers import ATTEMPTS, Cached, Limit, Limited, Once, Retrying, decode_reply
from accord.store import Store
from accord.values import MOST_ASKED, Question

CHAT_MODES = ("logprobs", "sampling", "verbalised")
DIALECTS = {"decisions": "openai", "systemone": "systemone"}
"""Ways that ask a decisions endpoint, and the dialect that each speaks."""
MODES = (*DIALECTS, *CHAT_MODES)
"""Ways to a distribution over a wire; `systemone` is the other dialect of decisions."""


@dataclass
class ClientOptions:
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


def asked_on(wire: Any, terms: ClientOptions) -> Model[Any, Any]:
    """A wire with its budget, its retries and its limit, and equal questions joined."""
    return Once(_limited(wire, terms))


def open_chat(model: str, base_url: str | None, store: Store, terms: ClientOptions) -> ChatModel:
    """A chat model whose replies are kept in the store; see `open_judge` for its names."""
    return _kept(_chat_wire(model, base_url, terms), store, terms)


def _kept(wire: Any, store: Store, terms: ClientOptions) -> ChatModel:
    asked = wire if in_process(wire.name) else _limited(wire, terms)
    return Once(Cached(asked, store, wire.endpoint, decode_reply, terms.budget))


def open_uncached(model: str, base_url: str | None, terms: ClientOptions) -> ChatModel:
    """A chat model whose replies are kept by whoever asks; see `open_judge` for its names."""
    wire = _chat_wire(model, base_url, terms)
    return Once(wire) if in_process(model) else asked_on(wire, terms)


def open_heard(model: str, base_url: str | None, terms: ClientOptions, streams: bool = True) -> Heard:
    """A chat model that is heard while it writes, or at once, and keeps nothing; see `open_judge` for its names."""
    wire = _chat_wire(model, base_url, terms)
    return Heard(wire, terms.limit(wire.endpoint), terms.budget, terms.attempts, in_process(model), streams)


def endpoint_of(model: str, base_url: str | None) -> str:
    """Where a chat model answers, as its kept replies are keyed; see `open_chat`."""
    return str(_chat_wire(model, base_url, ClientOptions()).endpoint)


def open_decided(
    mode: str, model: str, base_url: str | None, question: Question, store: Store, terms: ClientOptions
) -> ChatModel:
    """A decisions endpoint as a chat model that answers one question about each prompt; its replies are kept.

    Raises:
        BadInput: The way is not one of decisions, the model runs in this process, or a judge cannot be asked the
            question.
        ModelError: There is no key.
    """
    wire = _decided_wire(mode, model, base_url, question, terms)
    asked = DecidedChat(_limited(wire, terms), question)
    return Once(Cached(asked, store, _decided_at(wire, mode, question), decode_reply, terms.budget))


def decided_endpoint_of(mode: str, model: str, base_url: str | None, question: Question) -> str:
    """Where a question is answered, as kept replies to prompts about it are keyed; see `open_decided`."""
    return _decided_at(_decided_wire(mode, model, base_url, question, ClientOptions()), mode, question)


def _decided_at(wire: Endpoint, mode: str, question: Question) -> str:
    return f"{wire.endpoint} {DIALECTS[mode]} {question.key}"


def _decided_wire(mode: str, model: str, base_url: str | None, question: Question, terms: ClientOptions) -> Endpoint:
    if mode not in DIALECTS:
        raise BadInput(f"{mode!r} is no way of decisions; allowed: {', '.join(DIALECTS)}")
    if not question.can_be_judged:
        raise BadInput(
            f"a decisions endpoint cannot answer {question.id!r} ({question.scale}); it chooses from 2 to "
            f"{MOST_ASKED} options about one conversation"
        )
    return _decisions_wire(mode, model, base_url, terms)


def _decisions_wire(mode: str, model: str, base_url: str | None, terms: ClientOptions) -> Endpoint:
    if in_process(model):
        raise BadInput(f"{model!r} runs in this process and has no {mode} endpoint; its way is logprobs")
    kind = OpenAIDecisions if mode == "decisions" else SystemOne
    return kind(model, base_url, timeout=terms.timeout)


def _chat_wire(model: str, base_url: str | None, terms: ClientOptions) -> Any:
    """What answers under a name: the embedded model, a GGUF file, a Hugging Face folder, or an endpoint."""
    if model.startswith(EMBEDDED):
        from accord.models.embedded.chat import open_embedded

        return open_embedded(model)
    if model.startswith(GGUF):
        from accord.models.embedded.gguf_fingerprint import open_gguf

        return open_gguf(model)
    if model.startswith(HF):
        from accord.models.embedded.huggingface import open_hf

        return open_hf(model)
    return ChatCompletions(model, base_url, timeout=terms.timeout)


def _limited(wire: Any, terms: ClientOptions) -> Limited[Any, Any]:
    limit = terms.limit(wire.endpoint)
    retrying = Retrying(Budgeted(wire, terms.budget), terms.attempts, limit=limit)
    return Limited(retrying, limit)


def open_likelihood(model: str, base_url: str | None, terms: ClientOptions) -> LikelihoodModel:
    """The embedded model, or an endpoint that honours `echo`; what it measured is kept by whoever asks.

    Raises:
        BadInput: The embedded model is not on this machine.
        ModelError: There is no key.
    """
    if model.startswith(EMBEDDED):
        return open_embedded_likelihood(model)
    if in_process(model):
        raise BadInput(f"{model!r} cannot give likelihoods; of the models in this process only {EMBEDDED}NAME does")
    wire = EchoCompletions(model, base_url, timeout=terms.timeout)
    return EchoLikelihood(asked_on(wire, terms), wire.endpoint)


def open_batched(
    mode: str, model: str, base_url: str | None, instructions: str, store: Store, samples: int, timeout: float
) -> tuple[Judge, Batched, BatchEndpoint]:
    """A judge that answers from a provider's batches, the model that notes what they lack, and their endpoint.

    Raises:
        BadInput: No such way, or one that batches do not know.
        ModelError: There is no key.
    """
    if mode not in CHAT_MODES or in_process(model):
        raise BadInput(f"no batches for {model!r} by {mode}; they are for endpoints by {', '.join(CHAT_MODES)}")
    wire = ChatCompletions(model, base_url, timeout=timeout, most_bytes=MOST_FILE_BYTES)
    batched = Batched(wire, store)
    return _chat_judge(mode, batched, wire.endpoint, instructions, samples), batched, BatchEndpoint(wire)


def open_judge(
    mode: str,
    model: str,
    base_url: str | None,
    instructions: str,
    terms: ClientOptions,
    samples: int,
    store: Store | None = None,
) -> Judge:
    """A judge over a wire, or in this process where the model is `embedded:NAME`, `gguf:PATH` or `hf:FOLDER`.

    Its answers are kept by whoever asks; the wire's replies are not kept twice, but where an answer is made of several
    draws, each of them is kept in the store as it comes. A model in this process is asked without limit, retries or
    budget: it costs nothing and fails only for good.

    Raises:
        BadInput: No such way, or the model in this process cannot be asked that way or is not on this machine.
        ModelError: There is no key.
    """
    if mode not in MODES:
        raise BadInput(f"no way {mode!r} to a distribution; allowed: {', '.join(MODES)}")
    if mode in DIALECTS:
        decisions = _decisions_wire(mode, model, base_url, terms)
        return DecisionsJudge(asked_on(decisions, terms), instructions, decisions.endpoint, DIALECTS[mode])
    wire = _chat_wire(model, base_url, terms)
    if mode == "sampling" and store is not None:
        return _chat_judge(mode, _kept(wire, store, terms), wire.endpoint, instructions, samples)
    asked: Any = Once(wire) if in_process(model) else asked_on(wire, terms)
    return _chat_judge(mode, asked, wire.endpoint, instructions, samples)


def _chat_judge(mode: str, model: ChatModel, endpoint: str, instructions: str, samples: int) -> Judge:
    """A judge by one of the ways that ask a chat model."""
    if mode == "logprobs":
        tops = IN_PROCESS_LOGPROBS if in_process(model.name) else TOP_LOGPROBS
        return LogprobsJudge(model, instructions, endpoint, tops)
    if mode == "sampling":
        return SamplingJudge(model, samples, instructions, endpoint)
    return VerbalisedJudge(model, instructions, endpoint)

"""Opening models from their names.

A model at an endpoint is `Limited(Retrying(Budgeted(wire)))`, with stored replies `Cached(...)` around it. Stored
replies never wait for a slot, a slot is held through retries, and every attempt is paid from the budget. A model in
this process needs no limit, retries or budget.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from accord.edges import BadInput
from accord.models.judges.chat_judges import (
    IN_PROCESS_LOGPROBS,
    TOP_LOGPROBS,
    LogprobsJudge,
    SamplingJudge,
    VerbalisedJudge,
)
from accord.models.judges.decisions import DecisionsChat, DecisionsJudge, OpenAIDecisions, SystemOne
from accord.models.likelihood import EchoCompletions, EchoLikelihood, LikelihoodModel
from accord.models.model import EMBEDDED, GGUF, HF, MODES, Caps, ChatModel, Judge, Model, in_process
from accord.models.requests.batching import MOST_FILE_BYTES, BatchChat, BatchEndpoint
from accord.models.requests.budget import Budget, Budgeted
from accord.models.requests.client import TIMEOUT_SECONDS, ChatCompletions, Endpoint
from accord.models.requests.redacting import RedactedChat, address_of, redactor_for
from accord.models.requests.streaming import StreamingClient
from accord.models.requests.wrappers import ATTEMPTS, Cached, Limit, Limited, Retrying
from accord.redaction import Redactor
from accord.store import Store
from accord.values import MAX_JUDGE_OPTIONS, Question

DECISIONS: dict[str, type[Endpoint]] = {"decisions": OpenAIDecisions, "systemone": SystemOne}
DIALECTS = {"decisions": "openai", "systemone": "systemone"}
"""Modes that use a decisions endpoint, and the dialect of each."""
CHAT_MODES = ("logprobs", "sampling", "verbalised")
IN_PROCESS = {
    EMBEDDED: ("accord.embedded.chat", "open_embedded"),
    GGUF: ("accord.embedded.gguf_chat", "open_gguf"),
    HF: ("accord.embedded.huggingface", "open_hf"),
}
"""Module and function that open a model in this process, by the prefix of its name; imported on first use."""

_OF_JUDGES = ("name", "mode", "together", "answer", "made_from")


def judge_object(judge: Any, origin: str) -> Judge:
    """Return an object that a plug-in made, or that was given in place of a model, if it is a judge.

    Raises:
        BadInput: An attribute of `Judge` is missing; the message names it and the `origin` of the object.
    """
    missing = [name for name in _OF_JUDGES if not hasattr(judge, name)]
    if missing:
        raise BadInput(
            f"{origin} is an object of type {type(judge).__name__} without {missing[0]!r}; a judge is a subclass of "
            f"accord.models.Judge with {', '.join(_OF_JUDGES[:4])}. Check it with accord.testing.check_judge"
        )
    return judge  # type: ignore[no-any-return]


@dataclass
class ClientOptions:
    """Options of an endpoint, shared by every model that a run opens.

    Attributes:
        concurrency: Largest number of requests in progress at one endpoint with one key.
        attempts: Number of times a failing request is sent.
        timeout: Time limit of one attempt, in seconds.
        budget: Budget of all requests.
        limits: Limits by endpoint.
        redactor: Redacts streamed chats with a model on another machine; other requests come redacted.
    """

    concurrency: int = 64
    attempts: int = ATTEMPTS
    timeout: float = TIMEOUT_SECONDS
    budget: Budget = field(default_factory=lambda: Budget(Caps(), {}))
    limits: dict[str, Limit] = field(default_factory=dict)
    redactor: Redactor | None = None

    def limit(self, endpoint: str) -> Limit:
        """Return the endpoint's limit; the key comes from the environment, so the endpoint alone identifies it."""
        return self.limits.setdefault(endpoint, Limit(self.concurrency))


def wrap_wire(wire: Any, options: ClientOptions) -> Model[Any, Any]:
    """Add budget, retries and limit to a model at an endpoint."""
    if in_process(wire.name):
        return wire  # type: ignore[no-any-return]
    limit = options.limit(wire.endpoint)
    return Limited(Retrying(Budgeted(wire, options.budget), options.attempts, limit=limit), limit)


def open_wire(model: str, base_url: str | None, options: ClientOptions) -> Any:
    """Open the embedded model, the GGUF file, the Hugging Face folder or the chat endpoint of a name."""
    for prefix, (module, function) in IN_PROCESS.items():
        if model.startswith(prefix):
            limit = {"timeout": options.timeout} if prefix == GGUF else {}
            return getattr(import_module(module), function)(model, **limit)
    return ChatCompletions(model, base_url, timeout=options.timeout)


def open_chat(model: str, base_url: str | None, store: Store, options: ClientOptions) -> ChatModel:
    """Open a chat model with stored replies; see `open_judge` for its names."""
    return Cached(open_uncached(model, base_url, options), store, options.budget)


def open_uncached(
    model: str, base_url: str | None, options: ClientOptions, mode: str | None = None, question: Question | None = None
) -> ChatModel:
    """Open a chat model whose caller stores the replies; see `open_judge` for its names.

    With the mode of a decisions endpoint, it answers one `question` about each prompt.

    Raises:
        BadInput: A model in this process has no such mode, or a judge cannot answer the question.
    """
    if mode not in DECISIONS or question is None:
        return wrap_wire(open_wire(model, base_url, options), options)
    if not question.can_be_judged:
        raise BadInput(
            f"a decisions endpoint cannot answer {question.id!r} ({question.scale}); it chooses from 2 to "
            f"{MAX_JUDGE_OPTIONS} options about one conversation"
        )
    return DecisionsChat(_open_decisions(mode, model, base_url, options), question, DIALECTS[mode])


def open_streaming(model: str, base_url: str | None, options: ClientOptions, streams: bool = True) -> StreamingClient:
    """Open a chat model that streams its replies, and stores none; see `open_judge` for its names."""
    wire = open_wire(model, base_url, options)
    redactor = redactor_for(options.redactor, model, address_of(base_url))
    return StreamingClient(
        wire if redactor is None else RedactedChat(wire, redactor),
        options.limit(wire.endpoint),
        options.budget,
        options.attempts,
        in_process(model),
        streams,
    )


def _open_decisions(mode: str, model: str, base_url: str | None, options: ClientOptions) -> Model[Any, Any]:
    if in_process(model):
        raise BadInput(f"{model!r} runs in this process and has no {mode} endpoint; use mode logprobs")
    return wrap_wire(DECISIONS[mode](model, base_url, timeout=options.timeout), options)


def open_likelihood(model: str, base_url: str | None, options: ClientOptions) -> LikelihoodModel:
    """Open the embedded model, or an endpoint that supports `echo`; the caller stores its likelihoods.

    Raises:
        BadInput: The model cannot give likelihoods, or is not on this machine.
    """
    if model.startswith(EMBEDDED):
        opened: LikelihoodModel = import_module("accord.embedded.chat").open_embedded_likelihood(model)
        return opened
    if in_process(model):
        raise BadInput(f"{model!r} cannot give likelihoods; of the models in this process only {EMBEDDED}NAME can")
    wire = EchoCompletions(model, base_url, timeout=options.timeout)
    return EchoLikelihood(wrap_wire(wire, options))


def open_batch_judge(
    mode: str, model: str, base_url: str | None, instructions: str, store: Store, samples: int, timeout: float
) -> tuple[Judge, BatchChat, BatchEndpoint]:
    """Open a judge that answers from a provider's batches, with its prompt-collecting chat model and endpoint.

    Raises:
        BadInput: The mode does not exist, or batches do not support it.
    """
    if mode not in CHAT_MODES or in_process(model):
        raise BadInput(f"no batches for {model!r} by {mode}; allowed: an endpoint by {', '.join(CHAT_MODES)}")
    wire = ChatCompletions(model, base_url, timeout=timeout, most_bytes=MOST_FILE_BYTES)
    batched = BatchChat(wire, store)
    return _chat_judge(mode, batched, instructions, samples), batched, BatchEndpoint(wire)


def open_judge(
    mode: str,
    model: str,
    base_url: str | None,
    instructions: str,
    options: ClientOptions,
    samples: int,
    store: Store | None = None,
) -> Judge:
    """Open a judge at an endpoint, or in this process for a model `embedded:NAME`, `gguf:PATH` or `hf:FOLDER`.

    The caller stores its answers. Replies are not stored a second time, except in mode sampling: its answers are made
    of several draws, each of which is stored as it arrives.

    Raises:
        BadInput: The mode does not exist, or the model in this process does not support it or is not on this machine.
        ModelError: The API key is missing.
    """
    if mode in DECISIONS:
        return DecisionsJudge(_open_decisions(mode, model, base_url, options), instructions, DIALECTS[mode])
    if mode not in CHAT_MODES:
        raise BadInput(f"no judge by mode {mode!r}; allowed: {', '.join(MODES)}")
    if mode == "sampling" and store is not None:
        return _chat_judge(mode, open_chat(model, base_url, store, options), instructions, samples)
    return _chat_judge(mode, open_uncached(model, base_url, options), instructions, samples)


def _chat_judge(mode: str, model: ChatModel, instructions: str, samples: int) -> Judge:
    """Return a judge by a mode that uses a chat model."""
    if mode == "logprobs":
        return LogprobsJudge(model, instructions, IN_PROCESS_LOGPROBS if in_process(model.name) else TOP_LOGPROBS)
    return SamplingJudge(model, samples, instructions) if mode == "sampling" else VerbalisedJudge(model, instructions)

"""What an endpoint can really do: each capability is tried once, and believed only where the answer shows it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from accord.conversation import Conversation, Turn
from accord.errors import AccordError, BadInput
from accord.llm.chat_completions import ChatCompletions
from accord.llm.decisions import Asked, Decided, OpenAIDecisions, Request, SystemOne
from accord.llm.logprobs import TOP_LOGPROBS
from accord.llm.model import CallFailed, Message, Prompt, Subject, in_process
from accord.llm.render import prompt_for
from accord.llm.verbalised import schema_of
from accord.llm.wire import TIMEOUT_SECONDS, failures, open_client
from accord.rubric import Question
from accord.scale import Scale
from accord.urls import plain_url

QUESTION = Question(id="polite", text="Is the assistant polite?", scale=Scale(options=(1, 2, 3, 4)))
SUBJECT = Subject(Conversation("probe", (Turn("user", "Thank you!"), Turn("assistant", "You are welcome."))))
ECHOED = "The colour of grass is"


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing an endpoint can or cannot do, and what showed it."""

    name: str
    able: bool
    shown_by: str


async def probe(
    model: str, base_url: str | None, api_key: str | None = None, timeout: float = TIMEOUT_SECONDS
) -> list[Capability]:
    """Try an endpoint's capabilities: about eight requests, each once.

    Raises:
        BadInput: The model runs in this process.
        ModelError: There is no key.
    """
    if in_process(model):
        raise BadInput(f"{model!r} runs in this process; its way is logprobs, and there is no endpoint to check")
    tries: dict[str, Callable[..., Awaitable[tuple[bool, str]]]] = {
        "chat": _chat,
        "logprobs": _logprobs,
        "json schema": _schema,
        "decisions": _decisions,
        "systemone": _system_one,
        "echo": _echo,
        "context length": _context,
    }
    found = []
    for name, attempt in tries.items():
        try:
            able, shown_by = await attempt(model, base_url, api_key, timeout)
        except CallFailed as error:
            able, shown_by = False, str(error)
        except AccordError as error:
            if "OPENAI_API_KEY" in str(error):
                raise
            able, shown_by = False, str(error)
        found.append(Capability(name, able, shown_by))
    return found


def best_way(found: list[Capability]) -> tuple[str | None, str]:
    """The way to a distribution that the capabilities allow and that costs and guesses least, and why."""
    able = {capability.name for capability in found if capability.able}
    reasons = {
        "decisions": "a probability per option for all questions of a conversation in one request",
        "systemone": "a probability per option for all questions of a conversation in one request",
        "logprobs": "the answer token's own probabilities, one request a question",
        "verbalised": "no probabilities of its own, but JSON by schema; the model states them",
        "sampling": "no probabilities and no schema; repeated answers, several requests a question",
    }
    needs = {"verbalised": "json schema", "sampling": "chat"}
    for way, reason in reasons.items():
        if needs.get(way, way) in able:
            return way, reason
    return None, "the endpoint answers in none of the ways that Accord knows"


def _prompt(top_logprobs: int = 0) -> Prompt:
    return prompt_for(SUBJECT, QUESTION, "", top_logprobs)


async def _asked(wire: Any, question: Any) -> Any:
    try:
        return await wire.ask(question)
    finally:
        await wire.close()


async def _chat(model: str, base_url: str | None, api_key: str | None, timeout: float) -> tuple[bool, str]:
    prompt = Prompt((Message("user", "Say: ready"),), max_tokens=8)
    reply = await _asked(ChatCompletions(model, base_url, api_key, timeout), prompt)
    return bool(reply.text.strip()), f"answered as {reply.model!r}" if reply.text.strip() else "answered with no text"


async def _logprobs(model: str, base_url: str | None, api_key: str | None, timeout: float) -> tuple[bool, str]:
    reply = await _asked(ChatCompletions(model, base_url, api_key, timeout), _prompt(TOP_LOGPROBS))
    if reply.first_token is None:
        return False, "asked for token probabilities, got none"
    options = {str(option) for option in QUESTION.scale.options}
    inside = sum(p for token, p in reply.first_token.items() if token.strip() in options)
    shown = f"{len(reply.first_token)} of {TOP_LOGPROBS} tokens, {inside:.2f} of the mass on the options"
    return inside > 0, shown


async def _schema(model: str, base_url: str | None, api_key: str | None, timeout: float) -> tuple[bool, str]:
    text = 'Say as JSON how probable each answer to "Is grass green?" is, on a scale from 1 (no) to 4 (yes).'
    prompt = Prompt((Message("user", text),), max_tokens=120, schema=schema_of([QUESTION]))
    reply = await _asked(ChatCompletions(model, base_url, api_key, timeout), prompt)
    try:
        stated = json.loads(reply.text)
        kept = set(stated[QUESTION.id]) == {str(option) for option in QUESTION.scale.options}
    except (ValueError, TypeError, LookupError):
        return False, "asked for JSON by schema, got something else"
    return kept, "kept the schema" if kept else "JSON, but not of the schema"


async def _decisions(model: str, base_url: str | None, api_key: str | None, timeout: float) -> tuple[bool, str]:
    return _decided(await _asked(OpenAIDecisions(model, base_url, api_key, timeout), _request()))


async def _system_one(model: str, base_url: str | None, api_key: str | None, timeout: float) -> tuple[bool, str]:
    return _decided(await _asked(SystemOne(model, base_url, api_key, timeout), _request()))


def _request() -> Request:
    levels = tuple((str(option), "") for option in QUESTION.scale.options)
    asked = Asked("polite", "score", QUESTION.text, levels), Asked("thanks", "predicate", "The user says thank you.")
    return Request("user: Thank you!\nassistant: You are welcome.", asked)


def _decided(decided: Decided) -> tuple[bool, str]:
    answered = sum(mass is not None for mass, _ in decided.answers)
    return answered == 2, f"{answered} of 2 questions answered with probabilities"


async def _echo(model: str, base_url: str | None, api_key: str | None, timeout: float) -> tuple[bool, str]:
    """Whether the endpoint gives the probabilities of the prompt's own tokens: some answer 200 and ignore `echo`."""
    client = open_client(model, base_url, api_key, timeout)
    try:
        with failures(plain_url(client.base_url), model):
            asked = {"model": model, "prompt": ECHOED, "echo": True, "max_tokens": 1, "logprobs": 1}
            response: Any = await client.post("/completions", body=asked, cast_to=object)
            choice = response["choices"][0]
            if not str(choice["text"]).startswith(ECHOED):
                return False, "answered, but did not echo the prompt"
            known = [p for p in (choice.get("logprobs") or {}).get("token_logprobs") or () if p is not None]
            return len(known) > 1, f"the prompt's tokens with {len(known)} log probabilities"
    finally:
        await client.close()


async def _context(model: str, base_url: str | None, api_key: str | None, timeout: float) -> tuple[bool, str]:
    """The context length, where the list of models states it."""
    client = open_client(model, base_url, api_key, timeout)
    try:
        with failures(plain_url(client.base_url), model):
            listed: Any = await client.get("/models", cast_to=object)
            about: dict[str, Any] = next((entry for entry in listed["data"] if entry.get("id") == model), {})
            names = ("max_model_len", "context_length", "context_window")
            length = next((about[name] for name in names if name in about), None)
            return length is not None, "not stated" if length is None else f"{length} tokens"
    finally:
        await client.close()

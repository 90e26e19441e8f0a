"""Checks of an endpoint's capabilities, each tried once, and prompts that attack a judge."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from accord.edges import AccordError, BadInput, ModelError, NotSent
from accord.models.judges.chat_judges import TOP_LOGPROBS, schema_of
from accord.models.judges.decisions import (
    DecisionQuestion,
    DecisionsReply,
    DecisionsRequest,
    OpenAIDecisions,
    SystemOne,
)
from accord.models.likelihood import NO_ECHO, Echo, EchoCompletions, Echoed
from accord.models.model import CallFailed, ChatMessage, Prompt, Reply, in_process
from accord.models.prompts import prompt_for
from accord.models.requests.client import TIMEOUT_SECONDS, ChatCompletions, Endpoint
from accord.models.requests.reply_parsing import parse_json, require_list, require_object
from accord.values import Conversation, Question, Sample, Scale, Turn

QUESTION = Question(id="polite", text="Is the assistant polite?", scale=Scale(options=(1, 2, 3, 4)))
SUBJECT = Sample(Conversation("probe", (Turn("user", "Thank you!"), Turn("assistant", "You are welcome."))))
ECHOED = "The colour of grass is"


@dataclass(frozen=True, slots=True)
class Capability:
    """One capability of an endpoint, with the evidence for it."""

    name: str
    able: bool
    shown_by: str


Evidence = tuple[bool, str]
"""True if a reply shows the capability, and the evidence in words."""


async def probe(
    model: str, base_url: str | None, api_key: str | None = None, timeout: float = TIMEOUT_SECONDS
) -> list[Capability]:
    """Check an endpoint's capabilities with about eight requests, each sent once.

    Raises:
        BadInput: The model runs in this process, or the address of the endpoint is not a web address.
        ModelError: The key is missing, the address or its key is not confirmed, or the endpoint is unreachable.
    """
    if in_process(model):
        raise BadInput(f"{model!r} runs in this process and has no endpoint to check; use mode logprobs")
    capabilities = []
    for name, (kind, request, read) in _checks().items():
        wire = kind(model, base_url, api_key, timeout)
        try:
            able, shown_by = read(await (wire.fetch("/models") if request is None else wire.ask(request)), model)
        except CallFailed as error:
            if error.failure.reason == "unreachable" and not error.failure.is_sent:
                raise ModelError(
                    f"the endpoint is unreachable: {error.failure.detail}. Start it, or set another address: "
                    "--base-url or OPENAI_BASE_URL"
                ) from None
            has_no_echo = error.failure.reason == NO_ECHO
            able, shown_by = False, "the reply has no tokens of the prompt" if has_no_echo else str(error)
        except (BadInput, NotSent):
            raise
        except AccordError as error:
            able, shown_by = False, str(error)
        finally:
            await wire.close()
        capabilities.append(Capability(name, able, shown_by))
    return capabilities


def best_mode(capabilities: list[Capability]) -> tuple[str | None, str]:
    """Return the best mode that the capabilities allow, or `None` if they allow no mode, and the reason."""
    able = {capability.name for capability in capabilities if capability.able}
    reasons = {
        "decisions": "a probability per option for all questions of a conversation in one request",
        "systemone": "a probability per option for all questions of a conversation in one request",
        "logprobs": "probabilities of the answer token, one request per question",
        "verbalised": "no token probabilities, but JSON by schema; the model states probabilities",
        "sampling": "no probabilities and no schema; several sampled replies per question",
    }
    needs = {"verbalised": "json schema", "sampling": "chat"}
    for mode, reason in reasons.items():
        if needs.get(mode, mode) in able:
            return mode, reason
    return None, "the endpoint supports no mode"


def _checks() -> dict[str, tuple[type[Endpoint], Any, Callable[[Any, str], Evidence]]]:
    """Return the endpoint, request and reply parser of each check; None requests the list of models."""
    levels = tuple((str(option), "") for option in QUESTION.scale.options)
    questions = (
        DecisionQuestion("polite", "score", QUESTION.text, levels),
        DecisionQuestion("thanks", "predicate", "The user says thank you."),
    )
    decisions = DecisionsRequest("user: Thank you!\nassistant: You are welcome.", questions)
    chat = Prompt((ChatMessage("user", "Say: ready"),), max_tokens=8)
    text = 'Say as JSON how probable each answer to "Is grass green?" is, on a scale from 1 (no) to 4 (yes).'
    by_schema = Prompt((ChatMessage("user", text),), max_tokens=120, schema=schema_of([QUESTION]))
    return {
        "chat": (ChatCompletions, chat, _chat),
        "logprobs": (ChatCompletions, prompt_for(SUBJECT, QUESTION, "", TOP_LOGPROBS), _logprobs),
        "json schema": (ChatCompletions, by_schema, _schema),
        "decisions": (OpenAIDecisions, decisions, _decisions),
        "systemone": (SystemOne, decisions, _decisions),
        "echo": (EchoCompletions, Echo(ECHOED), _echo),
        "context length": (ChatCompletions, None, _context),
    }


def _chat(reply: Reply, model: str) -> Evidence:
    has_text = bool(reply.text.strip())
    return has_text, f"answered as {reply.model!r}" if has_text else "answered with no text"


def _logprobs(reply: Reply, model: str) -> Evidence:
    if reply.first_token is None:
        return False, "no token probabilities in the reply"
    options = {str(option) for option in QUESTION.scale.options}
    inside = sum(p for token, p in reply.first_token.items() if token.strip() in options)
    return inside > 0, f"{len(reply.first_token)} of {TOP_LOGPROBS} tokens, {inside:.2f} of the mass on the options"


def _schema(reply: Reply, model: str) -> Evidence:
    try:
        stated = require_object(require_object(parse_json(reply.text), "JSON").get(QUESTION.id), "answer")
    except CallFailed:
        return False, "the reply does not match the JSON schema"
    is_valid = set(stated) == {str(option) for option in QUESTION.scale.options}
    return is_valid, "JSON that matches the schema" if is_valid else "JSON that does not match the schema"


def _decisions(reply: DecisionsReply, model: str) -> Evidence:
    answered = sum(mass is not None for mass, _ in reply.answers)
    return answered == 2, f"{answered} of 2 questions answered with probabilities"


def _echo(reply: Echoed, model: str) -> Evidence:
    """Look for probabilities of the prompt's own tokens; some endpoints answer 200 and ignore `echo`."""
    count = sum(p is not None for p in reply.log_probabilities)
    return count > 1, f"the prompt's tokens with {count} log probabilities"


def _context(reply: Any, model: str) -> Evidence:
    """Look for a context length in the list of models."""
    rows = require_list(require_object(reply, "list of models").get("data"), "list of models")
    objects = [row for row in rows if isinstance(row, dict)]
    # llama.cpp serves one model under its file name, and accepts any name.
    single = objects[0] if len(objects) == 1 and objects[0].get("owned_by") == "llamacpp" else {}
    entry: dict[str, Any] = next((row for row in objects if row.get("id") == model), single)
    meta = entry.get("meta")
    values = [entry.get(name) for name in ("max_model_len", "context_length", "context_window")]
    values.append(meta.get("n_ctx") if isinstance(meta, dict) else None)
    stated = next((value for value in values if isinstance(value, int) and value > 0), None)
    return stated is not None, "not stated" if stated is None else f"{stated} tokens"


def attacks(best: str) -> list[tuple[str, str]]:
    """Return kinds and texts that demand the answer `best`: forged verdicts, Unicode tricks, many languages."""
    texts = json.loads((files("accord.models") / "prompts" / "attacks.json").read_text(encoding="utf-8"))
    kinds, commands = texts["kinds"], texts["commands"]
    in_languages = [(f"a command in {len(commands)} languages", text) for text in commands.values()]
    return [(kind, text.replace("{best}", best)) for kind, text in [*kinds.items(), *in_languages]]


def insert_attack(sample: Sample, text: str) -> Sample:
    """Return the sample with a text at the end of the judged turn, or of the last turn of the assistant."""
    conversation = sample.conversation
    index = sample.turn
    if index is None:
        replies = [i for i, turn in enumerate(conversation.turns) if turn.role == "assistant"]
        index = replies[-1] if replies else len(conversation.turns) - 1
    turn = conversation.turns[index]
    changed = replace(turn, content=f"{turn.content}\n\n{text}")
    return sample.saying((*conversation.turns[:index], changed, *conversation.turns[index + 1 :]))

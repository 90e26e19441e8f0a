"""Decisions endpoints: all questions about a conversation in one request, a probability per option in the reply.

There are two dialects: OpenAI's `/v1/decisions` (ordered answers) and System One's `/v1/systemone` (answers by name).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from accord.edges import BadInput, BudgetReached, sendable, sendable_json
from accord.models.model import Answer, CallFailed, Model, ModelWrapper, Prompt, Reply, Unanswered, Usage
from accord.models.prompts import answer_labels, material_hash, material_of
from accord.models.requests.client import Endpoint
from accord.models.requests.flow import OUT_OF_BUDGET
from accord.models.requests.reply_parsing import (
    MALFORMED,
    NO_DISTRIBUTION,
    make_answer,
    model_name,
    read_usage,
    require_list,
    require_object,
    shorten,
)
from accord.values import Conversation, Question, Sample, ScaleKind

MOST_QUESTIONS = 400
REFUSAL = "refusal"
TOKENS = ("input_tokens", "output_tokens")
"""Names of the usage fields of both dialects."""


@dataclass(frozen=True, slots=True)
class DecisionQuestion:
    """One question with its type: `predicate` (yes or no), `score` (ordered levels) or `choice`."""

    name: str
    type: str
    instructions: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DecisionsRequest:
    """Questions about one input.

    Attributes:
        input: Instructions and conversation as text.
        questions: The questions.
        conversation: The conversation as JSON, which an evaluator of Accord gets instead of the text, or `None`
            if the input is another text.
    """

    input: str
    questions: tuple[DecisionQuestion, ...]
    conversation: Mapping[str, Any] | None = field(default=None, hash=False)

    def input_for(self, model: str) -> str | Mapping[str, Any]:
        """Return the input for a model: an evaluator of Accord reads messages, and treats a text as a single reply."""
        is_evaluator = model == "accord" or "@s256:" in model
        return self.conversation if is_evaluator and self.conversation is not None else self.input


OptionNumbers = tuple[Mapping[str, Any] | None, str]
"""Unchecked numbers by option, or `None`, and the reason for it."""


@dataclass(frozen=True, slots=True)
class DecisionsReply:
    """Answers in the order of the questions, with usage and model version."""

    answers: tuple[OptionNumbers, ...]
    usage: Usage = Usage()
    version: str = ""


DecisionsModel = Model[DecisionsRequest, DecisionsReply]


class DecisionsJudge(ModelWrapper[DecisionsRequest, DecisionsReply]):
    """Judge at a decisions endpoint; probabilities are conditional on not refusing the question."""

    mode = "decisions"
    together = MOST_QUESTIONS

    def __init__(self, model: DecisionsModel, instructions: str, dialect: str) -> None:
        """`instructions` begin every input; `dialect` is part of answers' keys."""
        super().__init__(model)
        self.instructions, self.dialect = instructions, dialect

    def made_from(self, sample: Sample, question: Question) -> Mapping[str, Any]:
        """Return the hash of the input, and the question, without other questions of the same request."""
        typed = decision_question(sample, question)
        parts = [typed.type, typed.instructions, [list(option) for option in typed.options]]
        material = material_hash(sample, self.instructions)
        where = {"judge": self.name, "endpoint": self.endpoint, "mode": self.mode, "dialect": self.dialect}
        return {**where, "input": material, "question": parts}

    def requests(self, sample: Sample, questions: Sequence[Question]) -> Sequence[DecisionsRequest]:
        """Return one request for all questions."""
        typed = tuple(decision_question(sample, question) for question in questions)
        judged = sample.conversation.up_to(sample.turn)
        conversation = {
            "messages": [{"role": turn.role, "content": turn.content} for turn in judged],
            "documents": [document.text for document in sample.conversation.documents],
        }
        return [DecisionsRequest(material_of(sample, self.instructions), typed, sendable_json(conversation))]

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """Send all questions in one request; a refused question does not affect the others."""
        [request] = self.requests(sample, questions)
        try:
            reply = await self._model.ask(request)
        except CallFailed as error:
            return [Unanswered(q.id, error.failure.reason, error.failure.detail) for q in questions]
        except BudgetReached as error:
            return [Unanswered(q.id, OUT_OF_BUDGET, str(error)) for q in questions]
        answers = [read_decision(q, mass, reason) for q, (mass, reason) in zip(questions, reply.answers, strict=True)]
        return [replace(a, version=reply.version) if isinstance(a, Answer) else a for a in answers]


def decision_question(sample: Sample, question: Question) -> DecisionQuestion:
    """Return a question with its type: options 0 and 1 are a predicate, ordered options a score, others a choice.

    Raises:
        BadInput: The question's scale is real-valued.
    """
    scale = question.scale
    if scale.kind is ScaleKind.REAL:
        raise BadInput(f"question {question.id!r} has a real-valued scale, which a decisions endpoint cannot answer")
    unit = "the call of a tool with its result in turn" if sample.is_step else "turn"
    scope = "" if sample.turn is None else f"About {unit} [{sample.turn}] alone, given all turns before it: "
    text = scope + question.text
    if tuple(scale.options) == (0, 1):
        words = (("0", "no"), ("1", "yes"))
        meanings = [f"{word}: {question.meanings[key]}" for key, word in words if key in question.meanings]
        return DecisionQuestion(question.id, "predicate", " ".join([text, *meanings]))
    options = tuple((str(option), question.meanings.get(str(option), "")) for option in scale.options)
    return DecisionQuestion(question.id, "score" if scale.is_ordered else "choice", text, options)


def read_decision(question: Question, mass: Mapping[str, Any] | None, reason: str) -> Answer | Unanswered:
    """Return one question's answer from the reply's numbers, or unanswered with the `reason` for having none."""
    if mass is None:
        return Unanswered(question.id, reason, f"the endpoint gave no valid answer to {question.id!r}")
    return make_answer(question, mass)


# --- endpoints ----------------------------------------------------------------------------------------------------


class OpenAIDecisions(Endpoint):
    """Endpoint of OpenAI's dialect."""

    async def ask(self, request: DecisionsRequest, /) -> DecisionsReply:
        """Send one request; answers that do not match the questions are `malformed` (see `Endpoint.ask`)."""
        questions = [_openai_question(question) for question in request.questions]
        body = {"model": self.name, "input": request.input_for(self.name), "questions": questions}
        reply = require_object(await self.fetch("/decisions", body), "decision")
        answers = require_list(reply.get("answers"), "list of answers")
        if len(answers) != len(request.questions):
            raise CallFailed(MALFORMED, f"{len(answers)} answers to {len(request.questions)} questions")
        numbers = tuple(_openai_answer(*pair) for pair in zip(request.questions, answers, strict=True))
        return DecisionsReply(numbers, read_usage(reply.get("usage"), *TOKENS), model_name(reply.get("model")))


def _openai_question(question: DecisionQuestion) -> dict[str, Any]:
    """Return the request's part for a predicate, a score with its levels, or a choice."""
    body: dict[str, Any] = {"type": question.type, "name": question.name, "instructions": question.instructions}
    if question.type == "score":
        body["levels"] = [_described("label", *option) for option in question.options]
    elif question.type == "choice":
        body["choices"] = [_described("value", *option) for option in question.options]
    return body


def _described(key: str, option: str, meaning: str) -> dict[str, str]:
    return {key: option, "description": meaning} if meaning else {key: option}


def _openai_answer(question: DecisionQuestion, value: Any) -> OptionNumbers:
    """Return one answer's numbers by option."""
    answer = value if isinstance(value, dict) else {}
    if answer.get("name") not in (None, question.name):
        raise CallFailed(MALFORMED, f"the answer to {question.name!r} names {shorten(answer['name'])}")
    if answer.get("type") == REFUSAL:
        return None, "refused"
    if answer.get("type") != question.type:
        raise CallFailed(
            MALFORMED, f"{question.name!r} is a {question.type}, its answer a {shorten(answer.get('type'))}"
        )
    if question.type == "predicate":
        return _predicate(answer.get("probability"))
    return _by_option(question, answer.get("probabilities"))


def _predicate(p: Any) -> OptionNumbers:
    is_number = isinstance(p, int | float) and not isinstance(p, bool) and 0 <= p <= 1
    return ({"0": 1.0 - p, "1": float(p)}, "") if is_number else (None, NO_DISTRIBUTION)


def _by_option(question: DecisionQuestion, rows: Any) -> OptionNumbers:
    """Return numbers by option from a list that has each at most once: a level by its index, a choice by its text."""
    numbers: dict[str, Any] = {}
    for row in rows if isinstance(rows, list) else [{}]:
        entry = row if isinstance(row, dict) else {}
        value: Any = entry.get("value")
        if question.type == "score":
            is_index = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(question.options)
            option = question.options[value][0] if is_index else None
        else:
            option = value if isinstance(value, str) else None
        if option is None or option in numbers:
            return None, NO_DISTRIBUTION
        numbers[option] = entry.get("probability")
    return numbers, ""


class SystemOne(Endpoint):
    """Endpoint of System One's dialect: `{state, questions: {name: {type: noul|choice|score}}}`, answers by name.

    `base_url` ends in `/v1`, as for OpenAI; requests go to `systemone` under it.
    """

    async def ask(self, request: DecisionsRequest, /) -> DecisionsReply:
        """Send one request; a question without an answer is refused. See `OpenAIDecisions.ask` for errors."""
        questions = {question.name: _system_one_question(question) for question in request.questions}
        body = {"model": self.name, "state": request.input_for(self.name), "questions": questions}
        reply = require_object(await self.fetch("/systemone", body), "decision")
        answers = require_object(reply.get("answers"), "answers")
        unknown = sorted(set(answers) - set(questions))
        if unknown:
            raise CallFailed(
                MALFORMED, f"the reply answers {shorten(unknown[0])}, which is not a question of the request"
            )
        numbers = tuple(_system_one_answer(q, answers.get(q.name)) for q in request.questions)
        return DecisionsReply(numbers, read_usage(reply.get("usage"), *TOKENS), model_name(reply.get("model")))


def _system_one_question(question: DecisionQuestion) -> dict[str, Any]:
    if question.type == "predicate":
        return {"type": "noul", "instructions": question.instructions}
    if question.type == "score":
        return {"type": "score", "instructions": question.instructions, "criteria": _levels(question)}
    criteria = {option: meaning or None for option, meaning in question.options}
    return {"type": "choice", "instructions": question.instructions, "criteria": criteria}


def _levels(question: DecisionQuestion) -> list[str]:
    return [f"{option}: {meaning}" if meaning else option for option, meaning in question.options]


def _system_one_answer(question: DecisionQuestion, answer: Any) -> OptionNumbers:
    """Return one answer's numbers by option. A score's numbers are a list, or keyed by index or text of the level."""
    if answer is None:
        return None, "refused"
    if not isinstance(answer, dict):
        return None, NO_DISTRIBUTION
    if question.type == "predicate":
        return _predicate(answer.get("noul"))
    mass = answer.get("probabilities")
    if isinstance(mass, list) and question.type == "score" and len(mass) <= len(question.options):
        mass = {str(place): p for place, p in enumerate(mass)}
    if not isinstance(mass, dict):
        return None, NO_DISTRIBUTION
    if question.type == "choice":
        return mass, ""
    names = {str(place): option for place, (option, _) in enumerate(question.options)}
    names |= {text: question.options[place][0] for place, text in enumerate(_levels(question)) if text not in names}
    numbers: dict[str, Any] = {}
    for name, p in mass.items():
        if name not in names or names[name] in numbers:
            return None, NO_DISTRIBUTION
        numbers[names[name]] = p
    return numbers, ""


class DecisionsChat(ModelWrapper[DecisionsRequest, DecisionsReply]):
    """A chat model that answers every prompt with one question's distribution.

    The reply's `first_token` holds a probability per label of the prompt (`answer_labels`), conditional on not
    refusing. Its `text` is the likeliest label.
    """

    def __init__(self, model: DecisionsModel, question: Question, dialect: str) -> None:
        """`question` is asked about each prompt; it and the `dialect` are part of the keys of replies."""
        super().__init__(model)
        self.question = question
        self.endpoint = f"{self.endpoint} {dialect} {question.key}"

    async def ask(self, prompt: Prompt, /) -> Reply:
        """Ask the question about a prompt; see `Model.ask` for errors.

        Raises:
            CallFailed: `refused` for a refused question, `no option` if no option has a probability.
        """
        reply = await self._model.ask(decisions_request_of(prompt, self.question))
        [(mass, reason)] = reply.answers
        answer = read_decision(self.question, mass, reason)
        if isinstance(answer, Unanswered):
            raise CallFailed(answer.reason, answer.detail)
        labels = answer_labels(self.question.scale)
        shares = {label: answer.probabilities[option] for label, option in labels.items()}
        likeliest = max(shares, key=lambda label: shares[label])
        return Reply(likeliest, reply.version, shares, reply.usage)


def decisions_request_of(prompt: Prompt, question: Question) -> DecisionsRequest:
    """Return the request for a prompt: the joined texts of its messages, and the question.

    Raises:
        BadInput: The question's scale is real-valued.
    """
    text = "\n\n".join(message.content for message in prompt.messages)
    return DecisionsRequest(sendable(text), (decision_question(Sample(Conversation("", ())), question),))

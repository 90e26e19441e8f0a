"""Decisions: every question about one conversation in one request, a probability per option in the answer.

Two dialects of one idea: OpenAI's `/v1/decisions` (ordered answers), System One's `/v1/systemone` (answers by name).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NotRequired, TypedDict

from accord.edges import BadInput, BudgetReached, sendable
from accord.models.client import Endpoint
from accord.models.flow import OUT_OF_BUDGET
from accord.models.model import Answer, CallFailed, Model, Prompt, Reply, Unanswered, Usage
from accord.models.prompts import answer_labels, material_hash, material_of
from accord.models.reply_parsing import (
    MALFORMED,
    NO_DISTRIBUTION,
    make_answer,
    model_name,
    read_usage,
    require_list,
    require_object,
    shorten,
)
from accord.values import Conversation, Kind, Question, Sample

MOST_QUESTIONS = 400
REFUSAL = "refusal"
TOKENS = ("input_tokens", "output_tokens")
"""What usage is called on these wires."""


@dataclass(frozen=True, slots=True)
class DecisionQuestion:
    """One question as the wire types it: `predicate` (is it so?), `score` (ordered levels), or `choice`."""

    name: str
    type: str
    instructions: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DecisionsRequest:
    """Questions about one input."""

    input: str
    questions: tuple[DecisionQuestion, ...]


OptionNumbers = tuple[Mapping[str, Any] | None, str]
"""One question's numbers by option, unchecked, or `None`; and why there are none."""


@dataclass(frozen=True, slots=True)
class DecisionsReply:
    """Answers in the questions' order: numbers by option as they were given, or `None` with a reason."""

    answers: tuple[OptionNumbers, ...]
    usage: Usage = Usage()
    version: str = ""


DecisionsModel = Model[DecisionsRequest, DecisionsReply]


class DecisionsJudge:
    """Asks a decisions endpoint. Its probabilities are conditional on not refusing; a refusal is one question's own."""

    mode = "decisions"
    together = MOST_QUESTIONS

    def __init__(
        self, model: DecisionsModel, instructions: str = "", endpoint: str = "", dialect: str = "openai"
    ) -> None:
        """`instructions` stand before the conversation in every input; `endpoint` and `dialect` say who answers how."""
        self.model = model
        self.instructions = instructions
        self.endpoint = endpoint
        self.dialect = dialect

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

    def made_from(self, sample: Sample, question: Question) -> Mapping[str, Any]:
        """The input, and the question as the wire sees it; what else is asked in the same request is no part of it."""
        asked = decision_question(sample, question)
        about = [asked.type, asked.instructions, [list(option) for option in asked.options]]
        material = material_hash(sample, self.instructions)
        where = {"judge": self.name, "endpoint": self.endpoint, "mode": self.mode, "dialect": self.dialect}
        return {**where, "input": material, "question": about}

    def requests(self, sample: Sample, questions: Sequence[Question]) -> Sequence[DecisionsRequest]:
        """One request for all the questions."""
        asked = tuple(decision_question(sample, question) for question in questions)
        return [DecisionsRequest(material_of(sample, self.instructions), asked)]

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """All questions in one request; one that is refused does not lose the others."""
        [request] = self.requests(sample, questions)
        try:
            decided = await self.model.ask(request)
        except CallFailed as error:
            return [Unanswered(q.id, error.failure.reason, error.failure.detail) for q in questions]
        except BudgetReached as error:
            return [Unanswered(q.id, OUT_OF_BUDGET, str(error)) for q in questions]
        found = [read_decision(q, mass, reason) for q, (mass, reason) in zip(questions, decided.answers, strict=True)]
        return [replace(a, version=decided.version) if isinstance(a, Answer) else a for a in found]

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self.model.close()


def decision_question(sample: Sample, question: Question) -> DecisionQuestion:
    """A question in the wire's types: two options 0 and 1 are a predicate, ordered ones a score, others a choice.

    Raises:
        BadInput: The question's scale is real-valued.
    """
    scale = question.scale
    if scale.kind is Kind.REAL:
        raise BadInput(f"question {question.id!r} has a real-valued scale, which a decisions endpoint cannot answer")
    where = "" if sample.turn is None else f"About turn [{sample.turn}] alone, given all turns before it: "
    text = where + question.text
    if tuple(scale.options) == (0, 1):
        words = (("0", "no"), ("1", "yes"))
        meanings = [f"{word}: {question.meanings[key]}" for key, word in words if key in question.meanings]
        return DecisionQuestion(question.id, "predicate", " ".join([text, *meanings]))
    options = tuple((str(option), question.meanings.get(str(option), "")) for option in scale.options)
    return DecisionQuestion(question.id, "score" if scale.is_ordered else "choice", text, options)


def read_decision(question: Question, mass: Mapping[str, Any] | None, reason: str) -> Answer | Unanswered:
    """One question's answer from what the wire gave; `reason` says why it gave no probabilities."""
    if mass is None:
        return Unanswered(question.id, reason, f"the endpoint gave no proper answer to {question.id!r}")
    return make_answer(question, mass)


# --- the wires ----------------------------------------------------------------------------------------------------


class OpenAIDecisions(Endpoint):
    """OpenAI's dialect, through the SDK's own method."""

    async def ask(self, request: DecisionsRequest, /) -> DecisionsReply:
        """Send one request.

        Raises:
            CallFailed: The call failed, or its answers are not those of the questions.
            ModelError: No call can succeed.
        """
        questions = [_openai_question(asked) for asked in request.questions]
        body = {"model": self.name, "input": request.input, "questions": questions}
        found = require_object(await self.fetch("/decisions", body), "decision")
        answers = require_list(found.get("answers"), "list of answers")
        if len(answers) != len(request.questions):
            raise CallFailed(MALFORMED, f"{len(answers)} answers to {len(request.questions)} questions")
        given = tuple(_openai_answer(*pair) for pair in zip(request.questions, answers, strict=True))
        return DecisionsReply(given, read_usage(found.get("usage"), *TOKENS), model_name(found.get("model")))


class _OpenAiQuestion(TypedDict):
    """A question to `/decisions`: a predicate, a score with its levels, or a choice."""

    type: str
    name: str
    instructions: str
    levels: NotRequired[list[dict[str, str]]]
    choices: NotRequired[list[dict[str, str]]]


def _openai_question(asked: DecisionQuestion) -> _OpenAiQuestion:
    question: _OpenAiQuestion = {"type": asked.type, "name": asked.name, "instructions": asked.instructions}
    if asked.type == "score":
        question["levels"] = [_described("label", *option) for option in asked.options]
    elif asked.type == "choice":
        question["choices"] = [_described("value", *option) for option in asked.options]
    return question


def _described(key: str, option: str, meaning: str) -> dict[str, str]:
    return {key: option, "description": meaning} if meaning else {key: option}


def _openai_answer(asked: DecisionQuestion, found: Any) -> OptionNumbers:
    """One answer's numbers by option.

    Raises:
        CallFailed: It names another question: the answers belong to another request.
    """
    answer = found if isinstance(found, dict) else {}
    if answer.get("name") not in (None, asked.name):
        raise CallFailed(MALFORMED, f"an answer to {shorten(answer['name'])} stands where {asked.name!r} was asked")
    if answer.get("type") == REFUSAL:
        return None, "refused"
    if answer.get("type") != asked.type:
        raise CallFailed(MALFORMED, f"{asked.name!r} is a {asked.type}, the answer a {shorten(answer.get('type'))}")
    if asked.type == "predicate":
        return _predicate(answer.get("probability"))
    return _each_once(asked, answer.get("probabilities"))


def _predicate(p: Any) -> OptionNumbers:
    is_number = isinstance(p, int | float) and not isinstance(p, bool) and 0 <= p <= 1
    return ({"0": 1.0 - p, "1": float(p)}, "") if is_number else (None, NO_DISTRIBUTION)


def _each_once(asked: DecisionQuestion, rows: Any) -> OptionNumbers:
    """Numbers by option from a list that names each at most once: a level by its place, a choice by its text."""
    found: dict[str, Any] = {}
    for row in rows if isinstance(rows, list) else [{}]:
        about = row if isinstance(row, dict) else {}
        value: Any = about.get("value")
        if asked.type == "score":
            is_place = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(asked.options)
            option = asked.options[value][0] if is_place else None
        else:
            option = value if isinstance(value, str) else None
        if option is None or option in found:
            return None, NO_DISTRIBUTION
        found[option] = about.get("probability")
    return found, ""


class SystemOne(Endpoint):
    """System One's dialect: `{state, questions: {name: {type: noul|choice|score}}}`, answers by name.

    `base_url` ends in `/v1`, as for OpenAI; the request goes to `systemone` under it.
    """

    async def ask(self, request: DecisionsRequest, /) -> DecisionsReply:
        """Send one request; a question that is missing from the answers was not answered.

        Raises:
            CallFailed: The call failed, or its answers are not those of the questions.
            ModelError: No call can succeed.
        """
        questions = {asked.name: _system_one_question(asked) for asked in request.questions}
        body = {"model": self.name, "state": request.input, "questions": questions}
        found = require_object(await self.fetch("/systemone", body), "decision")
        answers = require_object(found.get("answers"), "answers")
        strangers = sorted(set(answers) - set(questions))
        if strangers:
            raise CallFailed(MALFORMED, f"an answer to {shorten(strangers[0])}, which was not asked")
        given = tuple(_system_one_answer(asked, answers.get(asked.name)) for asked in request.questions)
        return DecisionsReply(given, read_usage(found.get("usage"), *TOKENS), model_name(found.get("model")))


class _SystemOneQuestion(TypedDict):
    """A question to `/systemone`: a score's levels in their order, or a choice's options with what each means."""

    type: str
    instructions: str
    criteria: NotRequired[list[str] | dict[str, str | None]]


def _system_one_question(asked: DecisionQuestion) -> _SystemOneQuestion:
    if asked.type == "predicate":
        return {"type": "noul", "instructions": asked.instructions}
    if asked.type == "score":
        return {"type": "score", "instructions": asked.instructions, "criteria": _levels(asked)}
    criteria = {option: meaning or None for option, meaning in asked.options}
    return {"type": "choice", "instructions": asked.instructions, "criteria": criteria}


def _levels(asked: DecisionQuestion) -> list[str]:
    return [f"{option}: {meaning}" if meaning else option for option, meaning in asked.options]


def _system_one_answer(asked: DecisionQuestion, answer: Any) -> OptionNumbers:
    """One answer's numbers by option; a score's are listed, or keyed by the level's place or by its text."""
    if answer is None:
        return None, "refused"
    if not isinstance(answer, dict):
        return None, NO_DISTRIBUTION
    if asked.type == "predicate":
        return _predicate(answer.get("noul"))
    mass = answer.get("probabilities")
    if isinstance(mass, list) and asked.type == "score" and len(mass) <= len(asked.options):
        mass = {str(place): p for place, p in enumerate(mass)}
    if not isinstance(mass, dict):
        return None, NO_DISTRIBUTION
    if asked.type == "choice":
        return mass, ""
    names = {str(place): option for place, (option, _) in enumerate(asked.options)}
    names |= {text: asked.options[place][0] for place, text in enumerate(_levels(asked)) if text not in names}
    found: dict[str, Any] = {}
    for name, p in mass.items():
        if name not in names or names[name] in found:
            return None, NO_DISTRIBUTION
        found[names[name]] = p
    return found, ""


class DecisionsChat:
    """A chat model that answers every prompt with one question's distribution.

    The reply's `first_token` holds a probability by the label that a prompt shows for each option (`answer_labels`),
    given that the endpoint does not refuse; its `text` is the likeliest one's.
    """

    def __init__(self, model: DecisionsModel, question: Question) -> None:
        """`question` is what is asked about each prompt."""
        self.name = model.name
        self.question = question
        self._model = model

    async def ask(self, prompt: Prompt, /) -> Reply:
        """Ask the question about a prompt.

        Raises:
            CallFailed: The call failed; `refused` where the question was, `no option` where no option has a
                probability.
            BadInput: The question's scale is real-valued.
            ModelError: No call can succeed.
        """
        decided = await self._model.ask(decisions_request_of(prompt, self.question))
        [(mass, reason)] = decided.answers
        answer = read_decision(self.question, mass, reason)
        if isinstance(answer, Unanswered):
            raise CallFailed(answer.reason, answer.detail)
        labels = answer_labels(self.question.scale)
        shares = {label: answer.probabilities[option] for label, option in labels.items()}
        likeliest = max(shares, key=lambda label: shares[label])
        return Reply(likeliest, decided.version, shares, decided.usage)

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self._model.close()


def decisions_request_of(prompt: Prompt, question: Question) -> DecisionsRequest:
    """What is sent for a prompt, so that it can be priced: its messages' words one after another, and the question.

    Raises:
        BadInput: The question's scale is real-valued.
    """
    said = "\n\n".join(message.content for message in prompt.messages)
    return DecisionsRequest(sendable(said), (decision_question(Sample(Conversation("", ())), question),))

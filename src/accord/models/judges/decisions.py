"""Decisions: every question about one conversation in one request, a probability per option in the answer.

Two dialects of one idea: OpenAI's `/v1/decisions` (ordered answers), System One's `/v1/systemone` (answers by name).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from accord.models.client import Endpoint, failures
from accord.models.flow import OUT_OF_BUDGET
from accord.models.model import Answer, CallFailed, Model, Prompt, Reply, Unanswered, Usage
from accord.models.prompts import answer_labels, material_hash, material_of
from accord.values import BadInput, BudgetReached, Conversation, Kind, Question, Sample, sendable

MOST_QUESTIONS = 400
REFUSAL = "refusal"


@dataclass(frozen=True, slots=True)
class Asked:
    """One question as the wire types it: `predicate` (is it so?), `score` (ordered levels), or `choice`."""

    name: str
    type: str
    instructions: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DecisionsRequest:
    """Questions about one input."""

    input: str
    questions: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class Decided:
    """Answers in the questions' order: probabilities by option, or `None` with a reason."""

    answers: tuple[tuple[Mapping[str, float] | None, str], ...]
    usage: Usage = Usage()
    version: str = ""


DecisionsModel = Model[DecisionsRequest, Decided]


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
        asked = asked_of(sample, question)
        about = [asked.type, asked.instructions, [list(option) for option in asked.options]]
        material = material_hash(sample, self.instructions)
        where = {"judge": self.name, "endpoint": self.endpoint, "mode": self.mode, "dialect": self.dialect}
        return {**where, "input": material, "question": about}

    def requests(self, sample: Sample, questions: Sequence[Question]) -> Sequence[DecisionsRequest]:
        """One request for all the questions."""
        asked = tuple(asked_of(sample, question) for question in questions)
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
        found = [read_decided(q, mass, reason) for q, (mass, reason) in zip(questions, decided.answers, strict=True)]
        return [replace(a, version=decided.version) if isinstance(a, Answer) else a for a in found]

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self.model.close()


def asked_of(sample: Sample, question: Question) -> Asked:
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
        return Asked(question.id, "predicate", " ".join([text, *meanings]))
    options = tuple((str(option), question.meanings.get(str(option), "")) for option in scale.options)
    return Asked(question.id, "score" if scale.is_ordered else "choice", text, options)


def read_decided(question: Question, mass: Mapping[str, float] | None, reason: str) -> Answer | Unanswered:
    """One question's answer from what the wire gave; `reason` says why it gave no probabilities."""
    if mass is None:
        return Unanswered(question.id, reason, f"the endpoint gave no answer to {question.id!r}")
    inside = {str(option): float(mass.get(str(option), 0.0)) for option in question.scale.options}
    if not sum(inside.values()):
        return Unanswered(question.id, "no option", f"no probability on any option of {question.id!r}")
    return Answer(question.id, inside, max(0.0, 1.0 - sum(inside.values())))


# --- the wires ----------------------------------------------------------------------------------------------------


class OpenAIDecisions(Endpoint):
    """OpenAI's dialect, through the SDK's own method."""

    async def ask(self, request: DecisionsRequest, /) -> Decided:
        """Send one request.

        Raises:
            CallFailed: The call failed, or its answers are not those of the questions.
            ModelError: No call can succeed.
        """
        questions: list[Any] = [_openai_question(asked) for asked in request.questions]
        with failures(self.endpoint, self.name):
            decision = await self.client.decisions.create(model=self.name, input=request.input, questions=questions)
            if len(decision.answers) != len(request.questions):
                raise CallFailed("malformed", f"{len(decision.answers)} answers to {len(request.questions)} questions")
            pairs = zip(request.questions, decision.answers, strict=True)
            answers = tuple(_openai_answer(asked, answer) for asked, answer in pairs)
            usage = decision.usage
            spent = Usage(usage.input_tokens, usage.output_tokens) if usage else Usage()
            return Decided(answers, spent, str(getattr(decision, "model", "") or ""))


def _openai_question(asked: Asked) -> dict[str, Any]:
    question: dict[str, Any] = {"type": asked.type, "name": asked.name, "instructions": asked.instructions}
    if asked.type == "score":
        question["levels"] = [_described("label", *option) for option in asked.options]
    elif asked.type == "choice":
        question["choices"] = [_described("value", *option) for option in asked.options]
    return question


def _described(key: str, option: str, meaning: str) -> dict[str, str]:
    return {key: option, "description": meaning} if meaning else {key: option}


def _openai_answer(asked: Asked, answer: Any) -> tuple[Mapping[str, float] | None, str]:
    """One answer's probabilities by option; an answer that names another question belongs to another request."""
    if answer.name is not None and answer.name != asked.name:
        raise CallFailed("malformed", f"an answer to {answer.name!r} stands where {asked.name!r} was asked")
    if answer.type == REFUSAL:
        return None, "refused"
    if answer.type != asked.type:
        raise CallFailed("malformed", f"{asked.name!r} is a {asked.type}, the answer a {answer.type}")
    if asked.type == "predicate":
        return {"0": 1.0 - answer.probability, "1": answer.probability}, ""
    if asked.type == "score":
        return {asked.options[p.value][0]: p.probability for p in answer.probabilities}, ""
    return {str(p.value): p.probability for p in answer.probabilities}, ""


class SystemOne(Endpoint):
    """System One's dialect: `{state, questions: {name: {type: noul|choice|score}}}`, answers by name.

    `base_url` ends in `/v1`, as for OpenAI; the request goes to `systemone` under it.
    """

    async def ask(self, request: DecisionsRequest, /) -> Decided:
        """Send one request; a question that is missing from the answers was not answered.

        Raises:
            CallFailed: The call failed, or its answers are not those of the questions.
            ModelError: No call can succeed.
        """
        questions = {asked.name: _system_one_question(asked) for asked in request.questions}
        body = {"model": self.name, "state": request.input, "questions": questions}
        with failures(self.endpoint, self.name):
            response: Any = await self.client.post("/systemone", body=body, cast_to=object)
            answers = response["answers"]
            strangers = sorted(set(answers) - set(questions))
            if strangers:
                raise CallFailed("malformed", f"an answer to {strangers[0]!r}, which was not asked")
            found = tuple(_system_one_answer(asked, answers.get(asked.name)) for asked in request.questions)
            usage = response.get("usage") or {}
            spent = Usage(usage.get("input_tokens", 0), usage.get("output_tokens", 0))
            return Decided(found, spent, str(response.get("model") or ""))


def _system_one_question(asked: Asked) -> dict[str, Any]:
    if asked.type == "predicate":
        return {"type": "noul", "instructions": asked.instructions}
    if asked.type == "score":
        levels = [f"{option}: {meaning}" if meaning else option for option, meaning in asked.options]
        return {"type": "score", "instructions": asked.instructions, "criteria": levels}
    criteria = {option: meaning or None for option, meaning in asked.options}
    return {"type": "choice", "instructions": asked.instructions, "criteria": criteria}


def _system_one_answer(asked: Asked, answer: Any) -> tuple[Mapping[str, float] | None, str]:
    """One answer's probabilities by option; a score's are keyed by the level's index, or by its text."""
    if answer is None:
        return None, "refused"
    if asked.type == "predicate":
        return {"0": 1.0 - answer["noul"], "1": float(answer["noul"])}, ""
    mass = answer["probabilities"]
    if asked.type == "choice":
        return {str(option): float(p) for option, p in mass.items()}, ""
    by_place = dict(enumerate(mass)) if isinstance(mass, list) else {}
    levels = _system_one_question(asked)["criteria"]
    return {
        option: float(by_place.get(place, 0.0) if by_place else mass.get(str(place), mass.get(levels[place], 0.0)))
        for place, (option, _) in enumerate(asked.options)
    }, ""


class DecidedChat:
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
        decided = await self._model.ask(request_of(prompt, self.question))
        [(mass, reason)] = decided.answers
        answer = read_decided(self.question, mass, reason)
        if isinstance(answer, Unanswered):
            raise CallFailed(answer.reason, answer.detail)
        labels = answer_labels(self.question.scale)
        shares = {label: answer.probabilities[option] for label, option in labels.items()}
        likeliest = max(shares, key=lambda label: shares[label])
        return Reply(likeliest, decided.version, shares, decided.usage)

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self._model.close()


def request_of(prompt: Prompt, question: Question) -> DecisionsRequest:
    """What is sent for a prompt, so that it can be priced: its messages' words one after another, and the question.

    Raises:
        BadInput: The question's scale is real-valued.
    """
    said = "\n\n".join(message.content for message in prompt.messages)
    return DecisionsRequest(sendable(said), (asked_of(Sample(Conversation("", ())), question),))

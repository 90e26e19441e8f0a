"""A judge that writes its distribution: the model states a probability per option as JSON by schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from accord.llm.flow import ask
from accord.llm.listed import strict
from accord.llm.model import Answer, ChatModel, Failure, Prompt, Subject, Unanswered
from accord.llm.render import answer_labels, prompt_hash, verbalised_prompt
from accord.rubric import Question
from accord.scale import Kind

TOGETHER = 10
MAX_TOKENS_A_QUESTION = 120
TOLERANCE = 0.02
"""How far stated probabilities may sum from 1; what is missing to 1 counts as outside."""


class VerbalisedJudge:
    """Asks up to ten questions in one request. Numbers outside [0, 1], or that sum to more than 1, are no answer."""

    way = "verbalised"
    together = TOGETHER

    def __init__(self, model: ChatModel, instructions: str = "", endpoint: str = "") -> None:
        """`instructions` stand first in every prompt: a rubric's own. `endpoint` is where the model answers."""
        self.model, self.instructions, self.endpoint = model, instructions, endpoint

    @property
    def name(self) -> str:
        """The chat model's name."""
        return self.model.name

    def _prompt(self, subject: Subject, questions: Sequence[Question]) -> Prompt:
        prompt = verbalised_prompt(subject, questions, self.instructions)
        return replace(prompt, schema=schema_of(questions), max_tokens=MAX_TOKENS_A_QUESTION * len(questions))

    def made_from(self, subject: Subject, question: Question) -> Mapping[str, Any]:
        """The prompt as if the question were asked alone, and the model."""
        about = {"judge": self.name, "endpoint": self.endpoint, "way": self.way}
        return {**about, "prompt": prompt_hash("verbalised", subject, question, self.instructions)}

    def requests(self, subject: Subject, questions: Sequence[Question]) -> Sequence[Prompt]:
        """One prompt for all the questions."""
        askable = [question for question in questions if question.scale.kind is not Kind.REAL]
        return [self._prompt(subject, askable)] if askable else []

    async def answer(self, subject: Subject, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """One request; a question whose numbers make no sense does not lose the others."""
        askable = [question for question in questions if question.scale.kind is not Kind.REAL]
        reply = await ask(self.model, self._prompt(subject, askable)) if askable else Failure("no options")
        if isinstance(reply, Failure):
            return [Unanswered(question.id, reply.reason, reply.detail) for question in questions]
        try:
            stated = json.loads(reply.text)
        except ValueError:
            stated = None
        if not isinstance(stated, dict):
            return [Unanswered(question.id, "invalid JSON", "the reply is no JSON object") for question in questions]
        found = [read_stated(question, stated.get(question.id)) for question in questions]
        return [replace(a, version=reply.model) if isinstance(a, Answer) else a for a in found]

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self.model.close()


def schema_of(questions: Sequence[Question]) -> dict[str, Any]:
    """The JSON Schema of a reply: for each question an object with a number for each option's label."""
    return strict({q.id: strict({label: {"type": "number"} for label in answer_labels(q.scale)}) for q in questions})


def read_stated(question: Question, stated: Any) -> Answer | Unanswered:
    """One question's distribution as it was stated; nothing is rescaled."""
    labels = {} if question.scale.kind is Kind.REAL else answer_labels(question.scale)
    if not isinstance(stated, dict) or set(stated) != set(labels):
        return Unanswered(
            question.id, "invalid JSON", f"{question.id!r} needs a number for each of {', '.join(labels)}"
        )
    numbers = {label: p for label, p in stated.items() if isinstance(p, int | float) and not isinstance(p, bool)}
    total = sum(numbers.values())
    if len(numbers) < len(labels) or min(numbers.values()) < 0 or not 0 < total <= 1 + TOLERANCE:
        return Unanswered(
            question.id, "no distribution", f"the numbers stated for {question.id!r} are no probabilities"
        )
    scale = max(total, 1.0)  # rounding alone may carry a sum past 1
    return Answer(question.id, {labels[label]: p / scale for label, p in numbers.items()}, max(0.0, 1.0 - total))

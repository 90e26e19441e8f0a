"""Judge by token probabilities: one question per request, its distribution from the first token of the reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accord.models.flow import ask_model, gather_all
from accord.models.model import Answer, ChatModel, Failure, Prompt, Reply, Unanswered
from accord.models.prompts import answer_labels, prompt_for, prompt_hash
from accord.models.reply_parsing import NO_DISTRIBUTION, NO_OPTION, distribution_error, make_answer
from accord.values import Question, Sample, ScaleKind

TOP_LOGPROBS = 20
"""Number of likeliest tokens requested, the most that chat-completion endpoints return."""
IN_PROCESS_LOGPROBS = 2000
"""Number of likeliest tokens from a model in this process, enough for all options."""


class LogprobsJudge:
    """Judge by the probabilities of a chat model's first token (LLM-RUBRIC, section 2 and appendix D).

    Mass on other tokens is outside. If the endpoint returns no probabilities, the question is unanswered.
    """

    mode = "logprobs"
    together = 1

    def __init__(
        self, model: ChatModel, instructions: str = "", endpoint: str = "", top_logprobs: int = TOP_LOGPROBS
    ) -> None:
        """`instructions` of the rubric begin every prompt; `endpoint` is part of answers' keys."""
        self.model = model
        self.instructions = instructions
        self.endpoint = endpoint
        self.top_logprobs = top_logprobs

    @property
    def name(self) -> str:
        """Name of the chat model."""
        return self.model.name

    def made_from(self, sample: Sample, question: Question) -> Mapping[str, Any]:
        """Return the model and the hash of the prompt."""
        model = {"judge": self.name, "endpoint": self.endpoint, "mode": self.mode, "top_logprobs": self.top_logprobs}
        return {**model, "prompt": prompt_hash("question", sample, question, self.instructions)}

    def requests(self, sample: Sample, questions: Sequence[Question]) -> Sequence[Prompt]:
        """Return one prompt per question."""
        return [
            prompt_for(sample, q, self.instructions, self.top_logprobs)
            for q in questions
            if q.scale.kind is not ScaleKind.REAL
        ]

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """Send one request per question, all at once."""
        return await gather_all(self._one(sample, question) for question in questions)

    async def close(self) -> None:
        """Close the model's connections."""
        await self.model.close()

    async def _one(self, sample: Sample, question: Question) -> Answer | Unanswered:
        if question.scale.kind is ScaleKind.REAL:
            return Unanswered(question.id, "no options", "a real-valued scale has no answer tokens")
        reply = await ask_model(self.model, prompt_for(sample, question, self.instructions, self.top_logprobs))
        if isinstance(reply, Failure):
            return Unanswered(question.id, reply.reason, reply.detail)
        return read_first_token(question, reply)


def read_first_token(question: Question, reply: Reply) -> Answer | Unanswered:
    """Return the distribution over a question's options from the probabilities of a reply's first token.

    Tokens are compared without surrounding spaces, so `4` and ` 4` count together.
    """
    if reply.first_token is None:
        return Unanswered(
            question.id, "no logprobs", f"the endpoint of {reply.model!r} returned no token probabilities"
        )
    labels = answer_labels(question.scale)
    error = distribution_error(reply.first_token.values())
    if error is not None:
        return Unanswered(question.id, NO_DISTRIBUTION, f"{question.id!r}: {error}")
    mass = dict.fromkeys(labels, 0.0)
    for token, probability in reply.first_token.items():
        if token.strip() in mass:
            mass[token.strip()] += probability
    if not sum(mass.values()):
        return Unanswered(question.id, NO_OPTION, f"none of the likeliest tokens is an option: {', '.join(labels)}")
    return make_answer(question, {labels[label]: probability for label, probability in mass.items()}, reply.model)

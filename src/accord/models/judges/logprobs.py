"""A judge from token probabilities: one question a request, its distribution read off the first answer token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accord.models.flow import ask_model, gather_all
from accord.models.model import Answer, ChatModel, Failure, Prompt, Reply, Unanswered
from accord.models.prompts import answer_labels, prompt_for, prompt_hash
from accord.models.reply_parsing import NO_DISTRIBUTION, NO_OPTION, distribution_error, make_answer
from accord.values import Kind, Question, Sample

TOP_LOGPROBS = 20
"""How many tokens are asked for; the most that chat-completion endpoints return."""
IN_PROCESS_LOGPROBS = 2000
"""The same of a model in this process: every token that could matter."""


class LogprobsJudge:
    """Asks a chat model for its first token's probabilities (LLM-RUBRIC, section 2 and appendix D).

    Mass on tokens that are no option stays outside. An endpoint that returns no probabilities leaves the
    question unanswered: nothing else is tried in their place.
    """

    mode = "logprobs"
    together = 1

    def __init__(
        self, model: ChatModel, instructions: str = "", endpoint: str = "", top_logprobs: int = TOP_LOGPROBS
    ) -> None:
        """`instructions` stand first in every prompt: a rubric's own. `endpoint` is where the model answers."""
        self.model = model
        self.instructions = instructions
        self.endpoint = endpoint
        self.top_logprobs = top_logprobs

    @property
    def name(self) -> str:
        """The chat model's name."""
        return self.model.name

    def made_from(self, sample: Sample, question: Question) -> Mapping[str, Any]:
        """The whole prompt, and the model it goes to."""
        about = {"judge": self.name, "endpoint": self.endpoint, "mode": self.mode, "top_logprobs": self.top_logprobs}
        return {**about, "prompt": prompt_hash("question", sample, question, self.instructions)}

    def requests(self, sample: Sample, questions: Sequence[Question]) -> Sequence[Prompt]:
        """One prompt a question."""
        return [
            prompt_for(sample, q, self.instructions, self.top_logprobs)
            for q in questions
            if q.scale.kind is not Kind.REAL
        ]

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """One request per question, all at once."""
        return await gather_all(self._one(sample, question) for question in questions)

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self.model.close()

    async def _one(self, sample: Sample, question: Question) -> Answer | Unanswered:
        if question.scale.kind is Kind.REAL:
            return Unanswered(question.id, "no options", "a real-valued scale has no answer tokens")
        reply = await ask_model(self.model, prompt_for(sample, question, self.instructions, self.top_logprobs))
        if isinstance(reply, Failure):
            return Unanswered(question.id, reply.reason, reply.detail)
        return read_first_token(question, reply)


def read_first_token(question: Question, reply: Reply) -> Answer | Unanswered:
    """The distribution over a question's options, from the probabilities of the reply's first token.

    Tokens are compared without the space before them, so that `4` and ` 4` count together.
    """
    if reply.first_token is None:
        return Unanswered(
            question.id, "no logprobs", f"the endpoint of {reply.model!r} returned no token probabilities"
        )
    labels = answer_labels(question.scale)
    wrong = distribution_error(reply.first_token.values())
    if wrong is not None:
        return Unanswered(question.id, NO_DISTRIBUTION, f"{question.id!r}: {wrong}")
    mass = dict.fromkeys(labels, 0.0)
    for token, probability in reply.first_token.items():
        if token.strip() in mass:
            mass[token.strip()] += probability
    if not sum(mass.values()):
        return Unanswered(question.id, NO_OPTION, f"none of the likeliest tokens is one of {', '.join(labels)}")
    return make_answer(question, {labels[label]: probability for label, probability in mass.items()}, reply.model)

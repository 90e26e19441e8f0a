"""A judge from repeated answers: k drawn replies a question, their frequencies smoothed by a Dirichlet prior."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from accord.llm.flow import LATER, ask
from accord.llm.model import Answer, ChatModel, Failure, Prompt, Reply, Subject, Unanswered
from accord.llm.render import answer_labels, prompt_for, prompt_hash
from accord.rubric import Question
from accord.scale import Kind

PRIOR = 0.5
"""Pseudo-counts on each option (Jeffreys' prior of a Dirichlet)."""
TEMPERATURE = 1.0


class SamplingJudge:
    """Asks the same question k times at temperature 1; P(option) = (count + 1/2) / (valid + K/2).

    A reply that is none of the options counts as outside; fewer than half of k valid ones leave the question
    unanswered.
    """

    together = 1

    def __init__(self, model: ChatModel, k: int = 10, instructions: str = "", endpoint: str = "") -> None:
        """`k` replies a question; it stands in the signature."""
        self.model, self.k, self.instructions, self.endpoint = model, k, instructions, endpoint
        self.way = f"sampling-{k}"

    @property
    def name(self) -> str:
        """The chat model's name."""
        return self.model.name

    def _prompts(self, subject: Subject, question: Question) -> list[Prompt]:
        prompt = prompt_for(subject, question, self.instructions, 0)
        return [replace(prompt, temperature=TEMPERATURE, max_tokens=4, repeat=repeat) for repeat in range(self.k)]

    def made_from(self, subject: Subject, question: Question) -> Mapping[str, Any]:
        """The prompt, how often it is asked, and the model."""
        about = {"judge": self.name, "endpoint": self.endpoint, "way": self.way, "prior": PRIOR}
        shown = prompt_hash("question", subject, question, self.instructions)
        return {**about, "temperature": TEMPERATURE, "prompt": shown}

    def requests(self, subject: Subject, questions: Sequence[Question]) -> Sequence[Prompt]:
        """K prompts a question."""
        return [prompt for q in questions if q.scale.kind is not Kind.REAL for prompt in self._prompts(subject, q)]

    async def answer(self, subject: Subject, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """K requests a question."""
        return list(await asyncio.gather(*(self._one(subject, question) for question in questions)))

    async def _one(self, subject: Subject, question: Question) -> Answer | Unanswered:
        if question.scale.kind is Kind.REAL:
            return Unanswered(question.id, "no options", "a real-valued scale has no options to draw")
        replies = await asyncio.gather(*(ask(self.model, prompt) for prompt in self._prompts(subject, question)))
        failed = [reply for reply in replies if isinstance(reply, Failure)]
        later = [reply for reply in failed if reply.reason in LATER]
        if later:  # the others are kept, and the answer comes from all of them
            return Unanswered(question.id, later[0].reason, later[0].detail)
        if len(failed) * 2 > self.k:
            return Unanswered(question.id, failed[0].reason, failed[0].detail)
        said = [reply for reply in replies if isinstance(reply, Reply)]
        found = frequencies(question, [reply.text for reply in said])
        versions = "+".join(sorted({reply.model for reply in said}))
        return replace(found, version=versions) if isinstance(found, Answer) else found

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self.model.close()


def frequencies(question: Question, texts: Sequence[str]) -> Answer | Unanswered:
    """The smoothed distribution of drawn replies; a reply counts where it is an option's label and nothing else."""
    labels = answer_labels(question.scale)
    counts = dict.fromkeys(labels, 0)
    for text in texts:
        said = text.strip().rstrip(".")
        if said in counts:
            counts[said] += 1
    valid = sum(counts.values())
    if valid * 2 < len(texts) or not valid:
        return Unanswered(question.id, "no option", f"{len(texts) - valid} of {len(texts)} replies are no option")
    inside = valid / len(texts)
    smoothed = {labels[label]: (count + PRIOR) / (valid + PRIOR * len(counts)) for label, count in counts.items()}
    return Answer(question.id, {option: inside * p for option, p in smoothed.items()}, 1.0 - inside)

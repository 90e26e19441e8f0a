"""Models that answer from a script: for tests, demonstrations and dry runs. Product, not test code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accord.models.model import Answer, CallFailed, Failure, Prompt, Reply, Unanswered
from accord.models.streaming import ReplyStream
from accord.values import Question, Sample

Script = Callable[[Prompt], str | Reply | Failure]


class ScriptedModel:
    """A chat model that answers with a function of the prompt, and remembers what it was asked."""

    def __init__(self, script: Script | Sequence[str | Reply | Failure], name: str = "scripted") -> None:
        """`script` maps a prompt to a reply, or lists the replies in order."""
        self.name = name
        self.asked: list[Prompt] = []
        self._script = script

    async def ask(self, prompt: Prompt) -> Reply:
        """The script's reply; a scripted `Failure` is raised as a failed call."""
        self.asked.append(prompt)
        said = self._script(prompt) if callable(self._script) else self._script[len(self.asked) - 1]
        if isinstance(said, Failure):
            raise CallFailed(said.reason, said.detail, said.retry_after, said.is_sent)
        return Reply(said, self.name) if isinstance(said, str) else said

    async def stream(self, prompt: Prompt) -> ReplyStream:
        """The script's reply, word by word."""
        reply = await self.ask(prompt)
        for piece in re.findall(r"\S+\s*|\s+", reply.text):
            yield piece
        yield reply

    async def close(self) -> None:
        """Nothing is open."""


class ScriptedJudge:
    """A judge that answers with a function of subject and question."""

    mode = "scripted"
    together = 1000

    def __init__(
        self, script: Callable[[Sample, Question], Mapping[str, float] | Failure], name: str = "scripted"
    ) -> None:
        """`script` gives the distribution of one answer, or why there is none."""
        self.name = name
        self.asked: list[tuple[Sample, str]] = []
        self._script = script

    def made_from(self, sample: Sample, question: Question) -> Mapping[str, Any]:
        """The script's name stands for the script."""
        return {"judge": self.name, "mode": self.mode, "target": str(sample.target), "question": question.id}

    def requests(self, sample: Sample, questions: Sequence[Question]) -> Sequence[Any]:
        """Nothing goes over a wire."""
        return ()

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """The script's answers, in the order of the questions."""
        return [self._one(sample, question) for question in questions]

    def _one(self, sample: Sample, question: Question) -> Answer | Unanswered:
        self.asked.append((sample, question.id))
        said = self._script(sample, question)
        if isinstance(said, Failure):
            return Unanswered(question.id, said.reason, said.detail)
        return Answer(question.id, said, max(0.0, 1.0 - sum(said.values())))

    async def close(self) -> None:
        """Nothing is open."""

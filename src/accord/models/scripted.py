"""Models that answer from a script, for tests of methods and plug-ins, demonstrations and dry runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accord.models.model import Answer, CallFailed, ChatModel, Failure, Judge, Prompt, Reply, Unanswered
from accord.models.requests.streaming import ReplyStream
from accord.values import Question, Sample

Script = Callable[[Prompt], str | Reply | Failure]


class ScriptedModel(ChatModel):
    """A chat model that answers with a function of the prompt; `asked` lists the prompts.

    Args:
        script: Maps a prompt to a reply or a failure, or lists the replies in order.
        name: Name of the model.

    >>> import asyncio
    >>> from accord.models import ChatMessage
    >>> model = ScriptedModel(["Hello!"])
    >>> asyncio.run(model.ask([ChatMessage("user", "Hi.")])).text, len(model.asked)
    ('Hello!', 1)
    """

    endpoint = ""

    def __init__(self, script: Script | Sequence[str | Reply | Failure], name: str = "scripted") -> None:
        """`script` maps a prompt to a reply, or lists the replies in order."""
        self.name = name
        self.asked: list[Prompt] = []
        self._script = script

    async def ask(self, prompt: Prompt) -> Reply:
        """Return the script's reply, or raise its `Failure` as `CallFailed`."""
        self.asked.append(prompt)
        reply = self._script(prompt) if callable(self._script) else self._script[len(self.asked) - 1]
        if isinstance(reply, Failure):
            raise CallFailed(reply.reason, reply.detail, reply.retry_after, reply.is_sent)
        return Reply(reply, self.name) if isinstance(reply, str) else reply

    async def stream(self, prompt: Prompt) -> ReplyStream:
        """Yield the script's reply word by word."""
        reply = await self.ask(prompt)
        for piece in re.findall(r"\S+\s*|\s+", reply.text):
            yield piece
        yield reply


class ScriptedJudge(Judge):
    """A judge that answers with a function of sample and question; `asked` lists them.

    Args:
        script: Returns the distribution of one answer by the option's text, or a failure. Options that it leaves out
            have the probability 0.
        name: Name of the judge.

    >>> import asyncio
    >>> from accord import Conversation, load_rubric
    >>> judge = ScriptedJudge(lambda sample, question: {"4": 1.0})
    >>> question = load_rubric("llm-rubric").main_question
    >>> asyncio.run(judge.answer(Sample(Conversation("c1", ())), [question]))[0].probabilities
    {'1': 0.0, '2': 0.0, '3': 0.0, '4': 1.0}
    """

    mode = "scripted"
    together = 1000

    def __init__(
        self, script: Callable[[Sample, Question], Mapping[str, float] | Failure], name: str = "scripted"
    ) -> None:
        """`script` returns the distribution of one answer, or a failure."""
        self.name = name
        self.asked: list[tuple[Sample, str]] = []
        self._script = script

    def made_from(self, sample: Sample, question: Question) -> Mapping[str, Any]:
        """Return the name in place of the script."""
        return {"judge": self.name, "mode": self.mode, "target": str(sample.target), "question": question.id}

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """Return the script's answers, in the order of the questions."""
        return [self._one(sample, question) for question in questions]

    def _one(self, sample: Sample, question: Question) -> Answer | Unanswered:
        self.asked.append((sample, question.id))
        answer = self._script(sample, question)
        if isinstance(answer, Failure):
            return Unanswered(question.id, answer.reason, answer.detail)
        zeros = dict.fromkeys(map(str, question.scale.options), 0.0)
        return Answer(question.id, {**zeros, **answer}, max(0.0, 1.0 - sum(answer.values())))

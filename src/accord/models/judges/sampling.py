"""A judge from repeated answers: k drawn replies a question, their frequencies smoothed by a Dirichlet prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from accord.models.flow import LATER, ask_model, gather_all
from accord.models.list_replies import strict_schema
from accord.models.model import Answer, CallFailed, ChatModel, Failure, Prompt, Reply, Unanswered
from accord.models.prompts import answer_labels, prompt_for, prompt_hash, verbalised_prompt
from accord.models.reply_parsing import NO_DISTRIBUTION, distribution_error, make_answer, parse_json
from accord.values import JsonSchema, Kind, Question, Sample

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
        self.mode = f"sampling-{k}"

    @property
    def name(self) -> str:
        """The chat model's name."""
        return self.model.name

    def _prompts(self, sample: Sample, question: Question) -> list[Prompt]:
        prompt = prompt_for(sample, question, self.instructions, 0)
        return [replace(prompt, temperature=TEMPERATURE, max_tokens=4, repeat=repeat) for repeat in range(self.k)]

    def made_from(self, sample: Sample, question: Question) -> Mapping[str, Any]:
        """The prompt, how often it is asked, and the model."""
        about = {"judge": self.name, "endpoint": self.endpoint, "mode": self.mode, "prior": PRIOR}
        shown = prompt_hash("question", sample, question, self.instructions)
        return {**about, "temperature": TEMPERATURE, "prompt": shown}

    def requests(self, sample: Sample, questions: Sequence[Question]) -> Sequence[Prompt]:
        """K prompts a question."""
        return [prompt for q in questions if q.scale.kind is not Kind.REAL for prompt in self._prompts(sample, q)]

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """K requests a question."""
        return await gather_all(self._one(sample, question) for question in questions)

    async def _one(self, sample: Sample, question: Question) -> Answer | Unanswered:
        if question.scale.kind is Kind.REAL:
            return Unanswered(question.id, "no options", "a real-valued scale has no options to draw")
        replies = await gather_all(ask_model(self.model, prompt) for prompt in self._prompts(sample, question))
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


TOGETHER = 10
MAX_TOKENS_A_QUESTION = 120
TOLERANCE = 0.02
"""Greatest excess of the sum of stated probabilities over 1; the rest to 1 counts as outside."""
LEAST_STATED = 0.5
"""Least sum of stated probabilities; with less, the reply is no distribution."""


class VerbalisedJudge:
    """Asks up to ten questions in one request.

    Numbers outside [0, 1], or with a sum above 1 or below `LEAST_STATED`, are no answer.
    """

    mode = "verbalised"
    together = TOGETHER

    def __init__(self, model: ChatModel, instructions: str = "", endpoint: str = "") -> None:
        """`instructions` stand first in every prompt: a rubric's own. `endpoint` is where the model answers."""
        self.model, self.instructions, self.endpoint = model, instructions, endpoint

    @property
    def name(self) -> str:
        """The chat model's name."""
        return self.model.name

    def _prompt(self, sample: Sample, questions: Sequence[Question]) -> Prompt:
        prompt = verbalised_prompt(sample, questions, self.instructions)
        return replace(prompt, schema=schema_of(questions), max_tokens=MAX_TOKENS_A_QUESTION * len(questions))

    def made_from(self, sample: Sample, question: Question) -> Mapping[str, Any]:
        """The prompt as if the question were asked alone, and the model."""
        about = {"judge": self.name, "endpoint": self.endpoint, "mode": self.mode}
        return {**about, "prompt": prompt_hash("verbalised", sample, question, self.instructions)}

    def requests(self, sample: Sample, questions: Sequence[Question]) -> Sequence[Prompt]:
        """One prompt for all the questions."""
        askable = [question for question in questions if question.scale.kind is not Kind.REAL]
        return [self._prompt(sample, askable)] if askable else []

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """One request; a question whose numbers make no sense does not lose the others."""
        askable = [question for question in questions if question.scale.kind is not Kind.REAL]
        reply = await ask_model(self.model, self._prompt(sample, askable)) if askable else Failure("no options")
        if isinstance(reply, Failure):
            return [Unanswered(question.id, reply.reason, reply.detail) for question in questions]
        try:
            stated = parse_json(reply.text)
        except CallFailed:
            stated = None
        if not isinstance(stated, dict):
            return [Unanswered(question.id, "invalid JSON", "the reply is no JSON object") for question in questions]
        found = [read_stated(question, stated.get(question.id)) for question in questions]
        return [replace(a, version=reply.model) if isinstance(a, Answer) else a for a in found]

    async def close(self) -> None:
        """Let go of the model's connections."""
        await self.model.close()


def schema_of(questions: Sequence[Question]) -> JsonSchema:
    """The JSON Schema of a reply: for each question an object with a number for each option's label."""
    return strict_schema(
        {q.id: strict_schema({label: {"type": "number"} for label in answer_labels(q.scale)}) for q in questions}
    )


def read_stated(question: Question, stated: Any) -> Answer | Unanswered:
    """Return one question's distribution as it was stated, without rescaling."""
    labels = {} if question.scale.kind is Kind.REAL else answer_labels(question.scale)
    if not isinstance(stated, dict) or set(stated) != set(labels):
        return Unanswered(
            question.id, "invalid JSON", f"{question.id!r} needs a number for each of {', '.join(labels)}"
        )
    wrong = distribution_error(stated.values(), TOLERANCE)
    if wrong is None and (total := sum(stated.values())) < LEAST_STATED:
        wrong = f"probabilities sum to {total:.4g}, at least {LEAST_STATED:g} is needed"
    if wrong is not None:
        return Unanswered(question.id, NO_DISTRIBUTION, f"stated for {question.id!r}: {wrong}")
    return make_answer(question, {labels[label]: p for label, p in stated.items()}, tolerance=TOLERANCE)

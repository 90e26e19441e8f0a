"""Judges by the text of replies: sampled answers, and probabilities that the model states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from accord.models.flow import LATER, ask_model, gather_all
from accord.models.list_replies import strict_schema
from accord.models.model import Answer, CallFailed, ChatModel, Failure, Prompt, Reply, Unanswered
from accord.models.prompts import answer_labels, prompt_for, prompt_hash, verbalised_prompt
from accord.models.reply_parsing import NO_DISTRIBUTION, distribution_error, make_answer, parse_json
from accord.values import JsonSchema, Question, Sample, ScaleKind

PRIOR = 0.5
"""Pseudo-count of each option (Jeffreys prior of a Dirichlet distribution)."""
TEMPERATURE = 1.0


class SamplingJudge:
    """Judge by k replies to the same prompt at temperature 1: P(option) = (count + 1/2) / (valid + K/2).

    A reply that is not an option counts as outside. With fewer than k/2 valid replies the question is unanswered.
    """

    together = 1

    def __init__(self, model: ChatModel, k: int = 10, instructions: str = "", endpoint: str = "") -> None:
        """`k` is the number of replies per question, a part of the signature."""
        self.model, self.k, self.instructions, self.endpoint = model, k, instructions, endpoint
        self.mode = f"sampling-{k}"

    @property
    def name(self) -> str:
        """Name of the chat model."""
        return self.model.name

    def _prompts(self, sample: Sample, question: Question) -> list[Prompt]:
        prompt = prompt_for(sample, question, self.instructions, 0)
        return [replace(prompt, temperature=TEMPERATURE, max_tokens=4, repeat=repeat) for repeat in range(self.k)]

    def made_from(self, sample: Sample, question: Question) -> Mapping[str, Any]:
        """Return the model, the hash of the prompt and the sampling settings."""
        settings = {"judge": self.name, "endpoint": self.endpoint, "mode": self.mode, "prior": PRIOR}
        prompt = prompt_hash("question", sample, question, self.instructions)
        return {**settings, "temperature": TEMPERATURE, "prompt": prompt}

    def requests(self, sample: Sample, questions: Sequence[Question]) -> Sequence[Prompt]:
        """Return k prompts per question."""
        return [prompt for q in questions if q.scale.kind is not ScaleKind.REAL for prompt in self._prompts(sample, q)]

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """Send k requests per question."""
        return await gather_all(self._one(sample, question) for question in questions)

    async def _one(self, sample: Sample, question: Question) -> Answer | Unanswered:
        if question.scale.kind is ScaleKind.REAL:
            return Unanswered(question.id, "no options", "a real-valued scale has no options")
        replies = await gather_all(ask_model(self.model, prompt) for prompt in self._prompts(sample, question))
        failed = [reply for reply in replies if isinstance(reply, Failure)]
        later = [reply for reply in failed if reply.reason in LATER]
        if later:  # the other replies are stored, and a later run uses all of them
            return Unanswered(question.id, later[0].reason, later[0].detail)
        if len(failed) * 2 > self.k:
            return Unanswered(question.id, failed[0].reason, failed[0].detail)
        valid = [reply for reply in replies if isinstance(reply, Reply)]
        answer = frequencies(question, [reply.text for reply in valid])
        versions = "+".join(sorted({reply.model for reply in valid}))
        return replace(answer, version=versions) if isinstance(answer, Answer) else answer

    async def close(self) -> None:
        """Close the model's connections."""
        await self.model.close()


def frequencies(question: Question, texts: Sequence[str]) -> Answer | Unanswered:
    """Return the smoothed distribution of sampled replies; only a reply that is exactly a label is valid."""
    labels = answer_labels(question.scale)
    counts = dict.fromkeys(labels, 0)
    for text in texts:
        label = text.strip().rstrip(".")
        if label in counts:
            counts[label] += 1
    valid = sum(counts.values())
    if valid * 2 < len(texts) or not valid:
        return Unanswered(question.id, "no option", f"{len(texts) - valid} of {len(texts)} replies are not an option")
    inside = valid / len(texts)
    smoothed = {labels[label]: (count + PRIOR) / (valid + PRIOR * len(counts)) for label, count in counts.items()}
    return Answer(question.id, {option: inside * p for option, p in smoothed.items()}, 1.0 - inside)


TOGETHER = 10
MAX_TOKENS_A_QUESTION = 120
TOLERANCE = 0.02
"""Largest excess of the sum of stated probabilities over 1; the remainder to 1 counts as outside."""
LEAST_STATED = 0.5
"""Smallest sum of stated probabilities of a distribution."""


class VerbalisedJudge:
    """Judge by probabilities that the model states as JSON, with up to ten questions per request.

    Numbers outside [0, 1], or with a sum above 1 or below `LEAST_STATED`, leave the question unanswered.
    """

    mode = "verbalised"
    together = TOGETHER

    def __init__(self, model: ChatModel, instructions: str = "", endpoint: str = "") -> None:
        """`instructions` of the rubric begin every prompt; `endpoint` is part of answers' keys."""
        self.model, self.instructions, self.endpoint = model, instructions, endpoint

    @property
    def name(self) -> str:
        """Name of the chat model."""
        return self.model.name

    def _prompt(self, sample: Sample, questions: Sequence[Question]) -> Prompt:
        prompt = verbalised_prompt(sample, questions, self.instructions)
        return replace(prompt, schema=schema_of(questions), max_tokens=MAX_TOKENS_A_QUESTION * len(questions))

    def made_from(self, sample: Sample, question: Question) -> Mapping[str, Any]:
        """Return the model and the hash of the prompt with this question alone."""
        model = {"judge": self.name, "endpoint": self.endpoint, "mode": self.mode}
        return {**model, "prompt": prompt_hash("verbalised", sample, question, self.instructions)}

    def requests(self, sample: Sample, questions: Sequence[Question]) -> Sequence[Prompt]:
        """Return one prompt for all questions."""
        askable = [question for question in questions if question.scale.kind is not ScaleKind.REAL]
        return [self._prompt(sample, askable)] if askable else []

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """Send one request; a question with invalid numbers does not affect the others."""
        askable = [question for question in questions if question.scale.kind is not ScaleKind.REAL]
        reply = await ask_model(self.model, self._prompt(sample, askable)) if askable else Failure("no options")
        if isinstance(reply, Failure):
            return [Unanswered(question.id, reply.reason, reply.detail) for question in questions]
        try:
            stated = parse_json(reply.text)
        except CallFailed:
            stated = None
        if not isinstance(stated, dict):
            return [Unanswered(question.id, "invalid JSON", "the reply is not a JSON object") for question in questions]
        answers = [read_stated(question, stated.get(question.id)) for question in questions]
        return [replace(a, version=reply.model) if isinstance(a, Answer) else a for a in answers]

    async def close(self) -> None:
        """Close the model's connections."""
        await self.model.close()


def schema_of(questions: Sequence[Question]) -> JsonSchema:
    """Return the JSON Schema of a reply: per question an object with a number per label."""
    return strict_schema(
        {q.id: strict_schema({label: {"type": "number"} for label in answer_labels(q.scale)}) for q in questions}
    )


def read_stated(question: Question, stated: Any) -> Answer | Unanswered:
    """Return one question's distribution as stated, without rescaling."""
    labels = {} if question.scale.kind is ScaleKind.REAL else answer_labels(question.scale)
    if not isinstance(stated, dict) or set(stated) != set(labels):
        return Unanswered(
            question.id, "invalid JSON", f"{question.id!r} needs a number for each of {', '.join(labels)}"
        )
    error = distribution_error(stated.values(), TOLERANCE)
    if error is None and (total := sum(stated.values())) < LEAST_STATED:
        error = f"probabilities sum to {total:.4g}, at least {LEAST_STATED:g} is needed"
    if error is not None:
        return Unanswered(question.id, NO_DISTRIBUTION, f"stated for {question.id!r}: {error}")
    return make_answer(question, {labels[label]: p for label, p in stated.items()}, tolerance=TOLERANCE)

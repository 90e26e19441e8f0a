"""Judges that ask a chat model: token probabilities, sampled answers, and probabilities that the model states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from accord.models.list_replies import strict_schema
from accord.models.model import Answer, CallFailed, ChatModel, Failure, ModelWrapper, Prompt, Reply, Unanswered
from accord.models.prompts import answer_labels, prompt_for, prompt_hash, verbalised_prompt
from accord.models.requests.flow import LATER, ask_model, gather_all
from accord.models.requests.reply_parsing import (
    NO_DISTRIBUTION,
    NO_OPTION,
    distribution_error,
    make_answer,
    parse_json,
)
from accord.values import JsonSchema, Question, Sample, ScaleKind


class ChatJudge(ModelWrapper[Prompt, Reply], ABC):
    """A judge that asks a chat model; questions with a real-valued scale are unanswered.

    Attributes:
        mode: Way to obtain a distribution.
        together: Maximum number of questions per request.
        template: Name of the prompt file.
    """

    mode: str
    together = 1
    template = "question"

    def __init__(self, model: ChatModel, instructions: str = "") -> None:
        """`instructions` of the rubric begin every prompt."""
        super().__init__(model)
        self.instructions = instructions

    def settings(self) -> Mapping[str, Any]:
        """Return settings that can change answers."""
        return {}

    def made_from(self, sample: Sample, question: Question) -> Mapping[str, Any]:
        """Return the model, the settings and the hash of the prompt with this question alone."""
        judge = {"judge": self.name, "endpoint": self.endpoint, "mode": self.mode, **self.settings()}
        return {**judge, "prompt": prompt_hash(self.template, sample, question, self.instructions)}

    @abstractmethod
    def prompts(self, sample: Sample, questions: Sequence[Question]) -> list[Prompt]:
        """Return the prompts for questions with options."""

    def requests(self, sample: Sample, questions: Sequence[Question]) -> Sequence[Prompt]:
        """Return the prompts for all questions."""
        askable = [question for question in questions if question.scale.kind is not ScaleKind.REAL]
        return self.prompts(sample, askable) if askable else []

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """Send the requests of each question, all at once."""
        return await gather_all(self._answer_one(sample, question) for question in questions)

    async def _answer_one(self, sample: Sample, question: Question) -> Answer | Unanswered:
        prompts = self.requests(sample, [question])
        if not prompts:
            return Unanswered(question.id, "no options", "a real-valued scale has no options")
        return self.read(question, await gather_all(ask_model(self._model, prompt) for prompt in prompts))

    def read(self, question: Question, replies: Sequence[Reply | Failure]) -> Answer | Unanswered:
        """Return a question's answer from the replies to its prompts."""
        raise NotImplementedError


# --- token probabilities --------------------------------------------------------------------------------------------

TOP_LOGPROBS = 20
"""Number of likeliest tokens requested, the most that chat-completion endpoints return."""
IN_PROCESS_LOGPROBS = 2000
"""Number of likeliest tokens from a model in this process, enough for all options."""


class LogprobsJudge(ChatJudge):
    """Judge by the probabilities of a chat model's first token (LLM-RUBRIC, section 2 and appendix D).

    Mass on other tokens is outside. If the endpoint returns no probabilities, the question is unanswered.
    """

    mode = "logprobs"

    def __init__(self, model: ChatModel, instructions: str = "", top_logprobs: int = TOP_LOGPROBS) -> None:
        super().__init__(model, instructions)
        self.top_logprobs = top_logprobs

    def settings(self) -> Mapping[str, Any]:
        """Return the number of tokens."""
        return {"top_logprobs": self.top_logprobs}

    def prompts(self, sample: Sample, questions: Sequence[Question]) -> list[Prompt]:
        """Return one prompt per question."""
        return [prompt_for(sample, question, self.instructions, self.top_logprobs) for question in questions]

    def read(self, question: Question, replies: Sequence[Reply | Failure]) -> Answer | Unanswered:
        """Return the distribution of the first token."""
        [reply] = replies
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
        return Unanswered(question.id, NO_OPTION, f"no option among the likeliest tokens; options: {', '.join(labels)}")
    return make_answer(question, {labels[label]: probability for label, probability in mass.items()}, reply.model)


# --- sampled answers ------------------------------------------------------------------------------------------------

PRIOR = 0.5
"""Pseudo-count of each option (Jeffreys prior of a Dirichlet distribution)."""
TEMPERATURE = 1.0


class SamplingJudge(ChatJudge):
    """Judge by k replies to the same prompt at temperature 1: P(option) = (count + 1/2) / (valid + K/2).

    A reply that is not an option counts as outside. With fewer than k/2 valid replies the question is unanswered.
    """

    def __init__(self, model: ChatModel, k: int = 10, instructions: str = "") -> None:
        """`k` is the number of replies per question, a part of the signature."""
        super().__init__(model, instructions)
        self.k = k
        self.mode = f"sampling-{k}"

    def settings(self) -> Mapping[str, Any]:
        """Return the prior and the temperature."""
        return {"prior": PRIOR, "temperature": TEMPERATURE}

    def prompts(self, sample: Sample, questions: Sequence[Question]) -> list[Prompt]:
        """Return k prompts per question."""
        prompts = [prompt_for(sample, question, self.instructions, 0) for question in questions]
        return [
            replace(prompt, temperature=TEMPERATURE, max_tokens=4, repeat=repeat)
            for prompt in prompts
            for repeat in range(self.k)
        ]

    def read(self, question: Question, replies: Sequence[Reply | Failure]) -> Answer | Unanswered:
        """Return the smoothed distribution of the replies."""
        failed = [reply for reply in replies if isinstance(reply, Failure)]
        later = [reply for reply in failed if reply.reason in LATER]
        # If a later run can get the missing reply, the other replies stay stored for that run.
        if later or len(failed) * 2 > self.k:
            failure = (later or failed)[0]
            return Unanswered(question.id, failure.reason, failure.detail)
        valid = [reply for reply in replies if isinstance(reply, Reply)]
        answer = frequencies(question, [reply.text for reply in valid])
        versions = "+".join(sorted({reply.model for reply in valid}))
        return replace(answer, version=versions) if isinstance(answer, Answer) else answer


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


# --- stated probabilities -------------------------------------------------------------------------------------------

TOGETHER = 10
MAX_TOKENS_A_QUESTION = 120
TOLERANCE = 0.02
"""Largest excess of the sum of stated probabilities over 1; the remainder to 1 counts as outside."""
LEAST_STATED = 0.5
"""Smallest valid sum of stated probabilities."""


class VerbalisedJudge(ChatJudge):
    """Judge by probabilities that the model states as JSON, with up to ten questions per request.

    Numbers outside [0, 1], or with a sum above 1 or below `LEAST_STATED`, leave the question unanswered.
    """

    mode = "verbalised"
    together = TOGETHER
    template = "verbalised"

    def prompts(self, sample: Sample, questions: Sequence[Question]) -> list[Prompt]:
        """Return one prompt for all questions."""
        prompt = verbalised_prompt(sample, questions, self.instructions)
        return [replace(prompt, schema=schema_of(questions), max_tokens=MAX_TOKENS_A_QUESTION * len(questions))]

    async def answer(self, sample: Sample, questions: Sequence[Question]) -> list[Answer | Unanswered]:
        """Send one request; a question with invalid numbers does not affect the others."""
        prompts = self.requests(sample, questions)
        reply = await ask_model(self._model, prompts[0]) if prompts else Failure("no options")
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

"""Rated examples, and the filled template τ (section 4.1, table 9): demonstrations, task prompt, and input.

The shared part of requests comes first, byte for byte: a set of demonstrations and a prompt are the same text before
every input, so that prefix caches hit. Only a long input changes them, by dropping demonstrations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import floor, log10
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import connected
from accord.models import (
    MARGIN,
    TOP_LOGPROBS,
    ChatMessage,
    Prompt,
    answer_labels,
    documents_of,
    estimated_usage,
    fence_for,
    prompt_file,
    transcript_of,
)
from accord.values import Conversation, Labels, Question, Sample, ScaleKind, Target, check_value, content_hash

TURN, DIALOGUE = "turn", "dialogue"

Private = Callable[[Conversation], bool]
"""Return True for a conversation that may not be shown next to others."""


@dataclass(frozen=True, slots=True)
class RatedExample:
    """A rated turn, with all turns before it, or conversation; the score is the annotators' mean, on the scale."""

    sample: Sample
    score: float

    @property
    def target(self) -> Target:
        """Rated target."""
        return self.sample.target

    def to_json(self) -> dict[str, Any]:
        """Return the example as JSON values."""
        chat = self.sample.conversation.to_json()
        return {"conversation": chat, "turn": self.sample.turn, "score": self.score}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> RatedExample:
        """Invert `to_json`."""
        return cls(Sample(Conversation.from_json(row["conversation"]), row["turn"]), float(row["score"]))


@dataclass(frozen=True)
class RatedExamples:
    """Examples of a dimension, and reasons for excluded targets."""

    question: Question
    level: str
    all: Sequence[RatedExample]
    reasons: Mapping[Target, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.all)

    @property
    def left_out(self) -> Counter[str]:
        """Excluded targets by reason."""
        return Counter(self.reasons.values())

    @property
    def unit(self) -> NDArray[np.float64]:
        """(n,) scores, scaled to [0, 1]."""
        return unit(np.array([example.score for example in self.all], dtype=float), self.question)


def unit(scores: NDArray[np.float64], question: Question) -> NDArray[np.float64]:
    """Scale scores to [0, 1], so that learning does not depend on the unit of the scale."""
    low, high = ends(question)
    return np.asarray((scores - low) / (high - low))


def ends(question: Question) -> tuple[float, float]:
    """Return the lowest and the highest score of a question."""
    scale = question.scale
    if scale.low is not None and scale.high is not None:
        return scale.low, scale.high
    return scale.numbers[0], scale.numbers[-1]


def examples_of(
    question: Question, samples: Iterable[Sample], labels: Labels, level: str | None, private: Private
) -> RatedExamples:
    """Return the rated samples in order, without private and empty ones.

    Raises:
        BadInput: A label is outside the scale, or the question is about steps.
    """
    ratings: dict[Target, list[float]] = {}
    for label in labels.on(question.id):
        assert label.value is not None
        check_value(label.value, question, f"label of {label.annotator!r} on {label.target}")
        ratings.setdefault(label.target, []).append(float(label.value))
    if question.is_about_steps:
        raise BadInput(
            f"{question.id!r} is about calls of tools, and in-context scores replies and conversations; use the "
            "sources rubric and metrics for steps"
        )
    level = level_of(ratings, level, question.id)
    examples: list[RatedExample] = []
    reasons: dict[Target, str] = {}
    for sample in samples:
        scores = ratings.get(sample.target)
        if scores is None or (sample.turn is None) != (level == DIALOGUE):
            continue
        if not any(turn.content.strip() for turn in sample.conversation.up_to(sample.turn)):
            reasons[sample.target] = "empty conversation"
        elif not question.applies_to(sample.conversation, sample.turn):
            reasons[sample.target] = "the question does not apply"
        elif private(sample.conversation):
            reasons[sample.target] = "private"
        else:
            examples.append(RatedExample(sample, float(np.mean(scores))))
    return RatedExamples(question, level, examples, reasons)


def level_of(targets: Iterable[Target], level: str | None, dimension: str) -> str:
    """Return the rated level: turns or whole conversations; `BadInput` if both have ratings and none is given."""
    if level is not None:
        return level
    kinds = {DIALOGUE if target.turn is None else TURN for target in targets}
    if len(kinds) == 2:
        raise BadInput(
            f"{dimension!r} has ratings of turns and of whole conversations. Choose one: in-context: {{level: turn}}"
        )
    return kinds.pop() if kinds else DIALOGUE


def prompt_text(sample: Sample) -> str:
    """Return the visible text of a sample without scores; it is embedded, and identifies equal samples."""
    transcript = transcript_of(sample.conversation.up_to(sample.turn))
    documents = documents_of(sample.conversation.documents)
    return f"{transcript}\n\n{documents}".strip()


def contexts_of(examples: Sequence[RatedExample], group_of: Callable[[Target], str] = str) -> list[str]:
    """Return (n,) names of contexts, which splits keep together and prompts never mix.

    Turns of one conversation share a context. So do replies to the same turns, equal texts, and targets with the same
    `group_of`.
    """
    pairs: list[tuple[str, str]] = []
    for place, example in enumerate(examples):
        turns = example.sample.conversation.up_to(example.sample.turn)
        earlier_turns = [(turn.role, turn.content) for turn in turns[:-1]]
        keys = [f"id {example.target.conversation}", f"same {content_hash(prompt_text(example.sample))}"]
        keys += [f"group {group_of(example.target)}"] + [f"said {content_hash(earlier_turns)}"] * bool(earlier_turns)
        pairs += [(f"{place}", key) for key in keys]
    component, first = connected(pairs), dict[int, str]()
    return [first.setdefault(component[f"{place}"], str(example.target)) for place, example in enumerate(examples)]


def private_by(patterns: Sequence[str], marked: str | None) -> Private:
    """Return a test for private conversations: text that matches a pattern, or a true metadata entry."""
    try:
        forbidden = [re.compile(pattern, re.IGNORECASE) for pattern in patterns]
    except re.error as error:
        raise BadInput(
            f"in-context: private_patterns: {error.pattern!r} is not a regular expression: {error}"
        ) from None

    def private(conversation: Conversation) -> bool:
        if marked is not None and conversation.metadata.get(marked):
            return True
        text = prompt_text(Sample(conversation))
        return any(pattern.search(text) for pattern in forbidden)

    return private


NUMBER, LOGPROBS = "number", "logprobs"
"""Modes of reading a score: the stated number, or the probabilities of the first token."""
NUMBER_TOKENS = 16
SEPARATOR = "\n\n***\n\n"
OWN_SHARES = 2
"""Shares of the context reserved for the input; each demonstration has one share."""


template = partial(prompt_file, "accord.methods.in_context")
"""Return a prompt file of this package."""


@dataclass(frozen=True)
class PromptTemplate:
    """Text of requests for scores of one question.

    Attributes:
        level: `turn` or `dialogue`.
        mode: Reading of a score: `number`, or option probabilities by `logprobs`, `decisions`, `systemone`.
        background: Name of a conversation's documents, such as fact or persona.
        context: Estimated tokens of a request; `None` disables shortening.
        most: Number of demonstrations that must fit into a context.
        top: Number of alternatives requested with `logprobs`.
    """

    question: Question
    level: str
    mode: str = NUMBER
    background: str = "documents"
    context: int | None = None
    most: int = 5
    top: int = TOP_LOGPROBS
    _texts: dict[RatedExample, str] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        scale = self.question.scale
        if scale.kind is ScaleKind.NOMINAL:
            raise BadInput(f"question {self.question.id!r} has a nominal scale; scoring needs an ordered one")
        if self.question.compares:
            raise BadInput(
                f"question {self.question.id!r} compares two conversations; scoring needs a question about one"
            )
        if self.reads_options and not self.question.can_be_judged:
            raise BadInput(
                f"question {self.question.id!r} has too many options for a distribution. "
                f"Read the number instead: models: {{scorer: {{mode: {NUMBER}}}}}"
            )

    @property
    def reads_options(self) -> bool:
        """True if replies are distributions over the scale's options."""
        return self.mode != NUMBER

    @property
    def hash(self) -> str:
        """Tagged digest of the text around demonstrations, prompt and input."""
        texts = [template(name).template for name in ("demonstration", "input", "form")]
        settings = [self.question.key, self.level, self.mode, self.background, self.context]
        return content_hash([texts, settings], length=8)

    # --- the parts of a request -----------------------------------------------------------------------------------

    def shown(self, score: float) -> str:
        """Return the score of a demonstration as text: an allowed answer, or the mean with two digits."""
        if not self.reads_options:
            low, high = ends(self.question)
            return plain(score, max(2, 2 - floor(log10(high - low))))
        numbers = self.question.scale.numbers
        nearest = min(range(len(numbers)), key=lambda place: (abs(numbers[place] - score), place))
        return list(answer_labels(self.question.scale))[nearest]

    def form(self) -> str:
        """Return the form of the answer."""
        low, high = map(plain, ends(self.question))
        if not self.reads_options:
            return f"one number from {low} to {high}"
        labels = answer_labels(self.question.scale)
        options = [label if label == option else f"{label} (for {option})" for label, option in labels.items()]
        return f"one of {', '.join(options)}"

    def by_hand(self) -> str:
        """Return a task prompt made from the question itself, used if nothing was learned."""
        low, high = map(plain, ends(self.question))
        meanings = " ".join(f"{option} means {meaning}." for option, meaning in self.question.meanings.items())
        parts = {
            "dimension": self.question.id, "low": low, "high": high, "background": self._beside(),
            "meanings": f"{self.question.text} {meanings}",
        }  # fmt: skip
        return template(self.level).substitute(parts).strip()

    def inversion(self, examples: Sequence[RatedExample], own: str | None = None) -> str:
        """Return the request for a task prompt (tables 8 and 10): scored examples, then the instruction.

        The user's text `own` replaces Accord's; `BadInput` if it has an unknown placeholder.
        """
        low, high = map(plain, ends(self.question))
        text = template(f"invert-{self.level}") if own is None else Template(own)
        parts = {
            "examples": SEPARATOR.join(self.demonstration(example) for example in examples) + SEPARATOR,
            "count": len(examples), "dimension": self.question.id, "low": low, "high": high,
            "background": self._beside(),
        }  # fmt: skip
        try:
            return text.substitute(parts).strip()
        except (KeyError, ValueError) as error:
            allowed = ", ".join(f"${name}" for name in parts)
            raise BadInput(
                f"the inversion prompt has the placeholder {error}; allowed placeholders: {allowed}"
            ) from None

    def demonstration(self, example: RatedExample) -> str:
        """Return a scored example, shortened to its share of the context: oldest turns first, then documents."""
        if example not in self._texts:
            self._texts[example] = self._shortened(example)
        return self._texts[example]

    def input(self, sample: Sample) -> str:
        """Return the complete sample to score."""
        return template("input").substitute(self._material(sample)).strip()

    def fits(self, example: RatedExample) -> bool:
        """Return True if an example fits into its share; its scored part is never cut."""
        return self.share is None or _tokens(self.demonstration(example)) <= self.share

    @property
    def share(self) -> int | None:
        """Estimated tokens per demonstration if `most` demonstrations and the input share the context."""
        return None if self.context is None else int(MARGIN * self.context) // (self.most + OWN_SHARES)

    # --- the whole ------------------------------------------------------------------------------------------------

    def prompt(self, demonstrations: Sequence[RatedExample], task: str, sample: Sample) -> tuple[Prompt, int] | None:
        """Return the request and the number of dropped demonstrations; `None` if the input alone does not fit.

        Demonstrations are dropped one by one, the one farthest from the input first.
        """
        demonstration_texts = [self.demonstration(example) for example in demonstrations]
        task_and_form = f"{task}\n\n{template('form').substitute(form=self.form()).strip()}"
        most, top = 1 if self.reads_options else NUMBER_TOKENS, self.top if self.mode == LOGPROBS else 0
        ending = self.input(sample)
        for dropped in range(len(demonstration_texts) + 1):
            text = SEPARATOR.join([*demonstration_texts[dropped:], task_and_form, ending])
            shown = (*(example.sample for example in demonstrations[dropped:]), sample)
            names = tuple(dict.fromkeys(each.conversation.id for each in shown))
            prompt = Prompt((ChatMessage("user", text),), most, 0.0, top, conversations=names)
            if self.context is None or estimated_usage(prompt).total <= MARGIN * self.context:
                return prompt, dropped
        return None

    def _beside(self) -> str:
        return f" and the {self.background} beside it, where there is any"

    def _material(self, sample: Sample) -> dict[str, str]:
        conversation = sample.conversation
        transcript = transcript_of(conversation.up_to(sample.turn), sample.hidden)
        documents = documents_of([d for d in conversation.documents if d.text.strip()])
        fence = fence_for(transcript + documents)
        heading = f"The last turn, [{sample.turn}]:" if self.level == TURN else "The conversation:"
        fenced_documents = f"{self.background}:\n{fence}\n{documents}\n{fence}\n" if documents else ""
        return {
            "about": heading, "fence": fence, "conversation": transcript, "documents": fenced_documents,
            "dimension": self.question.id,
        }  # fmt: skip

    def _scored(self, sample: Sample, score: float) -> str:
        parts = {**self._material(sample), "score": self.shown(score)}
        return template("demonstration").substitute(parts).strip()

    def _shortened(self, example: RatedExample) -> str:
        sample, share = example.sample, self.share
        text = self._scored(sample, example.score)
        if share is None:
            return text
        last = len(sample.conversation.up_to(sample.turn)) - 1
        for first in range(1, last + 1):
            if _tokens(text) <= share:
                return text
            text = self._scored(replace(sample, hidden=(0, first)), example.score)
        bare: Conversation = sample.conversation
        while _tokens(text) > share and bare.documents:
            bare = replace(bare, documents=bare.documents[:-1])
            text = self._scored(Sample(bare, sample.turn, (0, last) if last else None), example.score)
        return text


def plain(value: float, digits: int = 9) -> str:
    """Return a number in digits, without an exponent."""
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def _tokens(text: str) -> int:
    return estimated_usage(text).input_tokens

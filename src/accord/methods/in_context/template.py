"""Rated examples: what people said of a dimension, one mean score per target, and which examples belong together."""

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
import scipy
from numpy.typing import NDArray

from accord.edges import BadInput
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
"""Tells conversations that may not be shown beside others."""


@dataclass(frozen=True, slots=True)
class Example:
    """A conversation or turn with the mean of what people said of it.

    Attributes:
        sample: What was rated; a turn given all turns before it.
        score: The annotators' mean, on the question's own scale.
    """

    sample: Sample
    score: float

    @property
    def target(self) -> Target:
        """The target that was rated."""
        return self.sample.target

    def to_json(self) -> dict[str, Any]:
        """The example as plain JSON values."""
        chat = self.sample.conversation.to_json()
        return {"conversation": chat, "turn": self.sample.turn, "score": self.score}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Example:
        """The inverse of `to_json`."""
        return cls(Sample(Conversation.from_json(row["conversation"]), row["turn"]), float(row["score"]))


@dataclass(frozen=True)
class Examples:
    """The examples of a dimension, and the reasons why other rated targets are none."""

    question: Question
    level: str
    all: Sequence[Example]
    reasons: Mapping[Target, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.all)

    @property
    def left_out(self) -> Counter[str]:
        """The reasons, counted."""
        return Counter(self.reasons.values())

    @property
    def unit(self) -> NDArray[np.float64]:
        """(n,) the scores, on [0, 1]."""
        return unit(np.array([example.score for example in self.all], dtype=float), self.question)


def unit(scores: NDArray[np.float64], question: Question) -> NDArray[np.float64]:
    """Scores on [0, 1]: what is learned from them then does not depend on the scale's unit."""
    low, high = ends(question)
    return np.asarray((scores - low) / (high - low))


def ends(question: Question) -> tuple[float, float]:
    """The lowest and the highest score of a question."""
    scale = question.scale
    if scale.low is not None and scale.high is not None:
        return scale.low, scale.high
    return scale.numbers[0], scale.numbers[-1]


def examples_of(
    question: Question, samples: Iterable[Sample], labels: Labels, level: str | None, private: Private
) -> Examples:
    """The rated samples, in their order; those that are private or say nothing are left out.

    Raises:
        BadInput: Turns and whole conversations were rated and no level is named, or a label is outside the scale.
    """
    said: dict[Target, list[float]] = {}
    for label in labels.on(question.id):
        assert label.value is not None
        check_value(label.value, question, f"label of {label.annotator!r} on {label.target}")
        said.setdefault(label.target, []).append(float(label.value))
    level = level_of(said, level, question.id)
    kept: list[Example] = []
    reasons: dict[Target, str] = {}
    for sample in samples:
        scores = said.get(sample.target)
        if scores is None or (sample.turn is None) != (level == DIALOGUE):
            continue
        if not any(turn.content.strip() for turn in sample.conversation.up_to(sample.turn)):
            reasons[sample.target] = "nothing was said"
        elif not question.applies_to(sample.conversation):
            reasons[sample.target] = "the question does not apply"
        elif private(sample.conversation):
            reasons[sample.target] = "private"
        else:
            kept.append(Example(sample, float(np.mean(scores))))
    return Examples(question, level, kept, reasons)


def level_of(targets: Iterable[Target], level: str | None, dimension: str) -> str:
    """The level that was rated: turns or whole conversations.

    Raises:
        BadInput: Both were, and no level is named.
    """
    if level is not None:
        return level
    kinds = {DIALOGUE if target.turn is None else TURN for target in targets}
    if len(kinds) == 2:
        raise BadInput(
            f"people rated {dimension!r} of turns and of whole conversations; say which one is meant: "
            "in-context: {level: turn}"
        )
    return kinds.pop() if kinds else DIALOGUE


def prompt_text(sample: Sample) -> str:
    """Everything that is shown of a sample, as a text without scores: what is embedded, and what equal ones share."""
    said = transcript_of(sample.conversation.up_to(sample.turn))
    documents = documents_of(sample.conversation.documents)
    return f"{said}\n\n{documents}".strip()


def contexts_of(examples: Sequence[Example], group_of: Callable[[Target], str] = str) -> list[str]:
    """(n,) a name for what has to stay on one side of a split, and is never shown beside each other.

    Turns of one conversation belong together, and so do several replies to the same turns, equal texts, and what
    `group_of` gives one name.
    """
    names: dict[str, int] = {}
    pairs = []
    for place, example in enumerate(examples):
        turns = example.sample.conversation.up_to(example.sample.turn)
        before = [(turn.role, turn.content) for turn in turns[:-1]]
        keys = [f"id {example.target.conversation}", f"same {content_hash(prompt_text(example.sample))}"]
        keys += [f"group {group_of(example.target)}", *([f"said {content_hash(before)}"] if before else [])]
        pairs += [(place, names.setdefault(key, len(names))) for key in keys]
    size = len(examples)
    rows, columns = [place for place, _ in pairs], [size + key for _, key in pairs]
    graph = scipy.sparse.coo_array((np.ones(len(pairs)), (rows, columns)), shape=(size + len(names), size + len(names)))
    _, part = scipy.sparse.csgraph.connected_components(graph, directed=False)
    first: dict[int, str] = {}
    for place, example in enumerate(examples):
        first.setdefault(int(part[place]), str(example.target))
    return [first[int(part[place])] for place in range(size)]


def private_by(patterns: Sequence[str], marked: str | None) -> Private:
    """A conversation is private whose text fits one of the patterns, or whose metadata says so under a key.

    Raises:
        BadInput: A pattern is no regular expression.
    """
    try:
        forbidden = [re.compile(pattern, re.IGNORECASE) for pattern in patterns]
    except re.error as error:
        raise BadInput(f"in-context: private: {error.pattern!r} is no regular expression: {error}") from None

    def private(conversation: Conversation) -> bool:
        if marked is not None and conversation.metadata.get(marked):
            return True
        told = prompt_text(Sample(conversation))
        return any(pattern.search(told) for pattern in forbidden)

    return private


NUMBER, LOGPROBS = "number", "logprobs"
"""Modes of reading a score: the number that is meant, or the first token's probabilities."""
NUMBER_TOKENS = 16
SEPARATOR = "\n\n***\n\n"
OWN_SHARES = 2
"""Shares of the context that are the input's own; every demonstration has one."""


template = partial(prompt_file, "accord.methods.in_context")
"""A prompt file of this package."""


@dataclass(frozen=True)
class PromptTemplate:
    """The text of requests for scores of one question.

    Attributes:
        question: The dimension.
        level: Whether a `turn` is scored or a whole `dialogue`.
        mode: How a score is read: `number`, or the options' probabilities by `logprobs`, `decisions`, `systemone`.
        background: What a conversation's documents are called, such as fact or persona.
        context: Estimated tokens that a request may have; without it nothing is shortened or dropped.
        most: Demonstrations that a context has to have room for.
        top: The likeliest tokens that are asked for, of `logprobs`.
    """

    question: Question
    level: str
    mode: str = NUMBER
    background: str = "documents"
    context: int | None = None
    most: int = 5
    top: int = TOP_LOGPROBS
    _texts: dict[Example, str] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        scale = self.question.scale
        if scale.kind is ScaleKind.NOMINAL:
            raise BadInput(f"question {self.question.id!r} has a nominal scale; a score needs an ordered one")
        if self.question.compares:
            raise BadInput(f"question {self.question.id!r} compares two conversations; a score is of one")
        if self.reads_options and not self.question.can_be_judged:
            raise BadInput(
                f"question {self.question.id!r} has too many answers for a distribution over them; "
                f"read the number instead: models: {{scorer: {{mode: {NUMBER}}}}}"
            )

    @property
    def reads_options(self) -> bool:
        """Tells replies that are distributions over the scale's options."""
        return self.mode != NUMBER

    @property
    def hash(self) -> str:
        """A tagged digest of all that is asked around demonstrations, prompt and input."""
        files_ = [template(name).template for name in ("demonstration", "input", "form")]
        told = [self.question.key, self.level, self.mode, self.background, self.context]
        return content_hash([files_, told], length=8)

    # --- the parts of a request -----------------------------------------------------------------------------------

    def shown(self, score: float) -> str:
        """A demonstration's score as it is written: an answer that is allowed, or the mean with two digits."""
        if not self.reads_options:
            low, high = ends(self.question)
            return plain(score, max(2, 2 - floor(log10(high - low))))
        numbers = self.question.scale.numbers
        nearest = min(range(len(numbers)), key=lambda place: (abs(numbers[place] - score), place))
        return list(answer_labels(self.question.scale))[nearest]

    def form(self) -> str:
        """The form of the answer that is asked for."""
        low, high = map(plain, ends(self.question))
        if not self.reads_options:
            return f"one number from {low} to {high}"
        labels = answer_labels(self.question.scale)
        meant = [label if label == option else f"{label} (for {option})" for label, option in labels.items()]
        return f"one of {', '.join(meant)}"

    def by_hand(self) -> str:
        """A task prompt made from the question itself: what is used where nothing was learned."""
        low, high = map(plain, ends(self.question))
        told = " ".join(f"{option} means {meaning}." for option, meaning in self.question.meanings.items())
        parts = {
            "dimension": self.question.id, "low": low, "high": high, "background": self._beside(),
            "meanings": f"{self.question.text} {told}",
        }  # fmt: skip
        return template(self.level).substitute(parts).strip()

    def inversion(self, examples: Sequence[Example], own: str | None = None) -> str:
        """The request for a task prompt (tables 8 and 10): scored examples, then what to write.

        `own` is a text of the user's in place of Accord's.

        Raises:
            BadInput: It names a place that there is not.
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
            raise BadInput(f"the inversion prompt names {error}; the places it can name are: {allowed}") from None

    def demonstration(self, example: Example) -> str:
        """A scored example, shortened to its share of the context: whole turns go, the oldest first, then documents."""
        if example not in self._texts:
            self._texts[example] = self._shortened(example)
        return self._texts[example]

    def input(self, sample: Sample) -> str:
        """The sample to score, whole."""
        return template("input").substitute(self._material(sample)).strip()

    def fits(self, example: Example) -> bool:
        """Test whether an example can be shown at all: the scored part is never cut."""
        return self.share is None or _tokens(self.demonstration(example)) <= self.share

    @property
    def share(self) -> int | None:
        """Estimated tokens that a demonstration may take: `most` of them and the input share the context."""
        return None if self.context is None else int(MARGIN * self.context) // (self.most + OWN_SHARES)

    # --- the whole ------------------------------------------------------------------------------------------------

    def prompt(self, demonstrations: Sequence[Example], task: str, sample: Sample) -> tuple[Prompt, int] | None:
        """The request, and how many demonstrations had to go; `None` where the input alone does not fit.

        Where everything does not fit, demonstrations go one by one, the one farthest from the input first.
        """
        shown = [self.demonstration(example) for example in demonstrations]
        asked = f"{task}\n\n{template('form').substitute(form=self.form()).strip()}"
        most, top = 1 if self.reads_options else NUMBER_TOKENS, self.top if self.mode == LOGPROBS else 0
        ending = self.input(sample)
        for dropped in range(len(shown) + 1):
            text = SEPARATOR.join([*shown[dropped:], asked, ending])
            prompt = Prompt((ChatMessage("user", text),), most, 0.0, top)
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
        about = f"The last turn, [{sample.turn}]:" if self.level == TURN else "The conversation:"
        beside = f"{self.background}:\n{fence}\n{documents}\n{fence}\n" if documents else ""
        return {
            "about": about, "fence": fence, "conversation": transcript, "documents": beside,
            "dimension": self.question.id,
        }  # fmt: skip

    def _scored(self, sample: Sample, score: float) -> str:
        parts = {**self._material(sample), "score": self.shown(score)}
        return template("demonstration").substitute(parts).strip()

    def _shortened(self, example: Example) -> str:
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
    """A number in digits, without an exponent."""
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def _tokens(text: str) -> int:
    return estimated_usage(text).input_tokens

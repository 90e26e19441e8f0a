"""Rated examples: what people said of a dimension, one mean score per target, and which examples belong together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.models import documents_of, transcript_of
from accord.values import Conversation, Labels, Question, Sample, Target, check_value, content_hash

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

"""Metrics of replies: overlap, length, novelty, copying, content information, and similarity with documents.

`cosine-documents@EMBEDDER` and `cosine-user@EMBEDDER` use another embedder than the default
(`accord.models.embedders`). BLEU and chrF come from sacrebleu, METEOR from NLTK (Banerjee and Lavie, 2005; Lavie and
Agarwal, 2007), which matches equal words, then equal stems. Its third stage, WordNet synonyms, is left out because it
needs a download.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from accord.edges import MissingExtra, validate
from accord.evidence.bank.reply_features import (
    COMPARED,
    DocumentPassage,
    ParsedDocument,
    ParsedText,
    TurnHistory,
    turn_metrics,
)
from accord.evidence.bank.words import ENGLISH_WORDS, WORDS
from accord.models import DEFAULT, Embedder, open_embedder

BANK = (
    "ciu", "document-share", "question-share", "history-share", "new-words", "repeated-trigrams", "distinct-share",
    "words", "content-words", "content-share", "asks", "readability", "rouge-l", "copied-run",
)  # fmt: skip
"""Default bank: all metrics that need neither a model nor an optional library."""


@turn_metrics.register("document-share")
def document_share(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Share of the reply's content words that occur in a document; `None` without documents."""
    if not sources:
        return None
    content = reply.content
    return max([len(source.content.intersection(content)) for source in sources]) / len(content) if content else 0.0


@turn_metrics.register("question-share")
def question_share(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Share of the content words in the previous turn of another speaker that the reply repeats."""
    asked = history.asked
    if asked is None or not asked.content:
        return None
    return len(asked.content.keys() & reply.content.keys()) / len(asked.content)


@turn_metrics.register("history-share")
def history_share(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Share of the reply's content words that occur in earlier turns of any speaker."""
    content = reply.content
    return history.known(reply) / len(content) if content else None


@turn_metrics.register("new-words")
def new_words(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Number of content words that no earlier turn contains."""
    return float(len(reply.content) - history.known(reply))


@turn_metrics.register("repeated-trigrams")
def repeated_trigrams(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Share of the reply's word trigrams that occur earlier in it or in an earlier reply."""
    runs = len(reply.tokens) - 2
    return (runs - len(reply.trigrams) + len(reply.trigrams & history.trigrams)) / runs if runs > 0 else 0.0


@turn_metrics.register("distinct-share")
def distinct_share(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Distinct words over words (distinct-1)."""
    return len(set(reply.tokens)) / len(reply.tokens) if reply.tokens else None


@turn_metrics.register("words")
def words(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Number of words."""
    return float(len(reply.tokens))


@turn_metrics.register("content-words")
def content_words(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Number of distinct content words."""
    return float(len(reply.content))


@turn_metrics.register("content-share")
def content_share(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Share of the words that are content words."""
    return sum(reply.content.values()) / len(reply.tokens) if reply.tokens else None


@turn_metrics.register("asks")
def asks(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """1 if the reply contains a question mark, else 0."""
    return float("?" in reply.text)


@turn_metrics.register("readability")
def readability(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """School years needed to read the reply: 4.71·characters/words + 0.5·words/sentences - 21.43."""
    count = len(reply.tokens)
    if not count:
        return None
    text = reply.text
    sentences = max(1, text.count(".") + text.count("?") + text.count("!"))
    return 4.71 * len("".join(reply.tokens)) / count + 0.5 * count / sentences - 21.43


LONGEST_RUN = 200
"""Number of words of a reply in which runs are searched."""


@turn_metrics.register("rouge-l")
def rouge_l(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """ROUGE-L F1 of the reply's stems with its best passage, 0 to 1; `None` without documents."""
    if not sources:
        return None
    count = len(reply.units)
    return max(
        [_f1(_common(reply.places(part), part), count, part.length) for source in sources for part in source.passages]
    )


def _common(places: Sequence[int], passage: DocumentPassage) -> int:
    """Return the length of the longest common subsequence; each word of the passage is a bit (Hyyrö, 2004).

    Each extension of the subsequence carries one bit out at the top.
    """
    free = (1 << passage.length) - 1
    for here in filter(None, places):
        matched = free & here
        free = (free + matched) | (free - matched)
    return free.bit_length() - passage.length


def _f1(common: int, one: int, other: int) -> float:
    return 2 * common / (one + other) if common else 0.0


@turn_metrics.register("copied-run")
def copied_run(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Number of words in the longest run that occurs verbatim in a document; `None` without documents."""
    if not sources:
        return None
    return float(max([_run(reply.places(part)[:LONGEST_RUN], part) for source in sources for part in source.passages]))


def _run(places: Sequence[int], passage: DocumentPassage) -> int:
    """Return the length of the longest run: a diagonal in the table of matching reply and passage words.

    The table is one number: its rows one after another, each with a spare column. A shift by n rows and n columns keeps
    only the ends of runs that are n words longer, so the length follows from doubling and halving.
    """
    width = passage.length // 8 + 1
    rows = [here.to_bytes(width, "little") for here in places]
    ends, step = int.from_bytes(b"".join(rows), "little"), 8 * width + 1
    doubled: list[int] = []  # ends of runs of 1, 2, 4, ... words
    while ends:
        doubled.append(ends)
        ends &= ends << (step << len(doubled) - 1)
    length = 0
    for power in reversed(range(len(doubled))):
        longer = doubled[power] & (ends << (step << power)) if length else doubled[power]
        if longer:
            ends, length = longer, length + (1 << power)
    return length


PAPER_EFFORT = 0.005


class CIU(BaseModel):
    """Content information utility: information from the documents that a reply passes on; `None` without documents.

    The defaults keep the one part of the published metric that predicts ratings: the discount by frequency.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    position: float = Field(default=0.0, ge=0, le=1, description="Discount g for late content; 1 in the paper.")
    frequency: bool = Field(default=True, description="Discount content that earlier turns contain.")
    effort: Annotated[
        float,
        BeforeValidator(lambda cost: PAPER_EFFORT if cost == "paper" else cost),
        WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"const": "paper"}]}),
    ] = Field(default=0.0, ge=0, le=1, description="Cost C of a word of the reply; `paper` is the paper's 0.005.")
    unsupported: float = Field(
        default=0.0, ge=0, le=1, description="Credit β for content outside the documents; it also rewards invention."
    )
    phrases: bool = Field(
        default=False,
        description="Count words of each document's best RAKE phrases only; otherwise all content words.",
    )

    @classmethod
    def parsed(cls, argument: str) -> CIU:
        """Return the metric of the name `ciu@SETTING=VALUE,...`.

        Raises:
            BadInput: A setting is unknown, or a value is invalid.
        """
        pairs = [part.partition("=") for part in argument.split(",")]
        return validate(cls, {key.strip(): value.strip() for key, _, value in pairs}, "metric ciu")

    @property
    def name(self) -> str:
        """Canonical name: `ciu`, or `ciu@SETTING=VALUE,...` with the settings that differ from the defaults."""
        changed = self.model_dump(exclude_defaults=True)
        settings = [f"{key}={str(value).lower().removesuffix('.0')}" for key, value in changed.items()]
        return f"ciu@{','.join(settings)}" if settings else "ciu"

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """Return the utility of a reply; unbounded, about 0 to 10."""
        if not sources:
            return None
        counted = [source.phrase_content if self.phrases else source.content for source in sources]
        utility = max([self._worth(reply, history, content) for content in counted])
        if self.unsupported:
            invented = frozenset(reply.content).difference(*(source.content for source in sources))
            utility += self.unsupported * self._worth(reply, history, invented)
        return utility - self.effort * len(reply.tokens) if self.effort else utility

    def _worth(self, reply: ParsedText, history: TurnHistory, counted: frozenset[str]) -> float:
        """Return Σ γ / freq over the reply's content stems in `counted`."""
        earlier, total = history.counts, 0.0
        for stem, count in reply.content.items():
            if stem in counted:
                value = 1 / (earlier.get(stem, 0) + count) if self.frequency else 1.0
                total += value * (1 - self.position * reply.first[stem] / len(reply.tokens)) if self.position else value
        return total


turn_metrics.register("ciu")(CIU())
turn_metrics.register("ciu-paper")(CIU(position=1.0, effort=PAPER_EFFORT))
turn_metrics.register("ciu-unsupported")(CIU(unsupported=0.25))
turn_metrics.family("ciu", CIU.parsed)


# --- similarity -----------------------------------------------------------------------------------------------------


class ByEmbedder(ABC):
    """A metric of replies that uses an embedder."""

    def __init__(self, embedder: str = DEFAULT) -> None:
        self.made_with = embedder

    @property
    def embedder(self) -> Embedder:
        """Embedder, opened on first use."""
        return open_embedder(self.made_with)

    @abstractmethod
    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """Return the metric; `None` if it does not apply."""


EMBEDDING = ("cosine-documents", "cosine-user")
"""Cosines of the small embedder (`accord models pull minilm-l6`)."""


class CosineDocuments(ByEmbedder):
    """Cosine of a reply with its nearest document; `None` without documents."""

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """Return a cosine, -1 to 1; 0 for an empty text."""
        return max(cosine(self.embedder, reply.text, source.text) for source in sources) if sources else None


class CosineUser(ByEmbedder):
    """Cosine of a reply with the previous turn of another speaker."""

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """Return a cosine, -1 to 1; 0 for an empty text, `None` before another speaker has a turn."""
        asked = history.asked
        return cosine(self.embedder, reply.text, asked.text) if asked is not None and asked.text else None


def cosine(embedder: Embedder, one: str, other: str) -> float:
    """Return the cosine of the vectors of two texts."""
    return float(np.clip(embedder.embed(one) @ embedder.embed(other), -1.0, 1.0))


turn_metrics.register("cosine-documents")(CosineDocuments())
turn_metrics.family("cosine-documents", CosineDocuments)
turn_metrics.register("cosine-user")(CosineUser())
turn_metrics.family("cosine-user", CosineUser)


BERTSCORE = ("bertscore-recall", "bertscore-precision", "bertscore-f1")
"""BERTScore with the same embedder."""
KEPT_PAIRS = 256


@lru_cache(KEPT_PAIRS)
def scores(embedder: str, reply: str, reference: str) -> tuple[float, float, float]:
    """Return BERTScore recall, precision and F1 of a reply with one reference; 0 for an empty text."""
    states = open_embedder(embedder).states
    (own, x), (other, y) = states(reply), states(reference)
    if not len(own) or not len(other):
        return 0.0, 0.0, 0.0
    cosines = x @ y.T
    recall = float(np.average(cosines.max(axis=0), weights=other))
    precision = float(np.average(cosines.max(axis=1), weights=own))
    total = precision + recall
    return recall, precision, 2 * precision * recall / total if total > 0 else 0.0


class BertScore(ByEmbedder):
    """Recall, precision or F1 of BERTScore with the best document, weighted by idf."""

    def __init__(self, place: int, embedder: str = DEFAULT) -> None:
        super().__init__(embedder)
        self.place = place

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """Return a mean of cosines; `None` without documents."""
        if not sources:
            return None
        return max(scores(self.made_with, reply.text, source.text)[self.place] for source in sources)


for _place, _name in enumerate(BERTSCORE):
    turn_metrics.register(_name)(BertScore(_place))
    turn_metrics.family(_name, partial(BertScore, _place))


REFERENCE = ("bleu", "chrf", "meteor")


_NO_WORDNET = SimpleNamespace(synsets=lambda word: ())


def score(
    hypothesis: Sequence[str], reference: Sequence[str], stem: Callable[[str], str] = ENGLISH_WORDS.stem_of
) -> float:
    """Return METEOR of some words with a reference's words, 0 to 1.

        F = P·R / (α·P + (1 - α)·R)        score = F·(1 - γ·(chunks / matches)^β)        α = .9, β = 3, γ = .5

    Raises:
        MissingExtra: `accord[references]` is not installed.
    """
    try:
        from nltk.translate.meteor_score import single_meteor_score
    except ImportError:
        raise MissingExtra("METEOR", "references") from None
    stemmer = SimpleNamespace(stem=stem)
    return float(single_meteor_score(reference, hypothesis, preprocess=str, stemmer=stemmer, wordnet=_NO_WORDNET))


@cache
def _sacrebleu() -> Any:
    try:
        import sacrebleu
    except ImportError:
        raise MissingExtra("BLEU and chrF", "references") from None
    return sacrebleu


@turn_metrics.register("bleu")
def bleu(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Sentence BLEU of the reply with all documents as references, 0 to 1; `None` without documents."""
    if not sources:
        return None
    return float(_sacrebleu().sentence_bleu(reply.text, [source.text for source in sources]).score) / 100


@turn_metrics.register("chrf")
def chrf(reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
    """Sentence chrF of the reply with all documents as references, 0 to 1; `None` without documents."""
    if not sources:
        return None
    return float(_sacrebleu().sentence_chrf(reply.text, [source.text for source in sources]).score) / 100


class Meteor:
    """METEOR of the reply with its best document, 0 to 1."""

    made_with = f"{WORDS},exact+stem"
    """Word rules in the signature."""

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """Return the score; `None` without documents."""
        if not sources:
            return None
        own, stem = reply.tokens[:COMPARED], reply.words.stem_of
        return max(score(own, source.tokens[:COMPARED], stem) for source in sources)


turn_metrics.register("meteor")(Meteor())

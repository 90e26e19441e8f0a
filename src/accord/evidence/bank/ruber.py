"""RUBER: how related a reply is to what it answers, learned without a rating.

Tao et al., AAAI 2018; with embeddings, Ghazarian et al., 2019.

    unreferenced  s(q, r) = σ(w·[q ∘ r; |q - r|] + b)   replies of a log against replies drawn from other contexts
    referenced    cosine of the reply's and a document's word vectors, pooled by their largest and smallest values
    ruber         the mean of both, each between 0 and 1

q is what was asked last, and the document nearest to the reply; r the reply; both as vectors of an embedder. Each of
`FOLDS` models is learned without a fifth of the contexts, and scores those: nothing is scored by a model that has seen
it, nor another reply to the same. `accord models train ruber` learns it from a store; `ruber@FOLDER` names the result.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from accord.edges import ARRAYS_BYTES, BadInput, read_bytes, read_json_file
from accord.evidence.bank.reply_features import ParsedDocument, ParsedText, TurnHistory, parsed_document, turn_metrics
from accord.evidence.bank.similarity import ByEmbedder
from accord.models import DEFAULT, Embedder, open_embedder
from accord.values import Conversation, content_hash

Floats = NDArray[np.float64]

REFERENCED = "ruber-referenced"
FOLDS = 5
NEGATIVES = 4
"""Replies of other contexts that each reply is held against."""
STRENGTHS = (0.01, 0.1, 1.0, 10.0)
"""Inverse penalties to choose from: the one whose models tell held-out contexts apart best."""
FEWEST = 20
"""Contexts that it can be learned from."""
MOST = 2000
"""The most replies that are learned from; more are thinned out evenly."""
_CARD, _ARRAYS = "ruber.json", "arrays.safetensors"


@dataclass(frozen=True)
class Pair:
    """A reply and what it answers.

    Attributes:
        asked: What somebody else said last; empty where nobody did.
        documents: That the assistant could see.
        reply: What it said.
    """

    asked: str
    documents: tuple[str, ...]
    reply: str

    @cached_property
    def fold(self) -> int:
        """Which model may score it: told by its context alone."""
        return fold_of(self.asked, self.documents)


def fold_of(asked: str, documents: Sequence[str]) -> int:
    """The fold of a context."""
    return int(content_hash([asked, sorted(documents)])[-8:], 16) % FOLDS


@dataclass(frozen=True)
class Relatedness:
    """What was learned.

    Attributes:
        weights: (FOLDS, d) and
        bias: (FOLDS,) of each fold's model, learned without that fold.
        mean: (d,) and
        spread: (d,) of the features.
        embedder: Whose vectors they are made of.
        accuracy: Share of held-out replies that are found more related to their own context than one drawn for it.
        replies: That were learned from.
    """

    weights: Floats
    bias: Floats
    mean: Floats
    spread: Floats
    embedder: str
    accuracy: float
    replies: int

    @classmethod
    def learn(cls, pairs: Sequence[Pair], embedder: str = DEFAULT, seed: int = 0) -> Relatedness:
        """From a log's replies.

        Raises:
            BadInput: Fewer than `FEWEST` contexts.
        """
        contexts = {(pair.asked, tuple(sorted(pair.documents))) for pair in pairs}
        if len(contexts) < FEWEST or len({pair.fold for pair in pairs}) < FOLDS:
            raise BadInput(f"{len(pairs)} replies; RUBER needs {FEWEST} contexts or more. Import more conversations")
        pairs = [pairs[place] for place in np.unique(np.linspace(0, len(pairs) - 1, min(len(pairs), MOST)).astype(int))]
        reads, rng = open_embedder(embedder), np.random.default_rng(seed)
        reads.prepare([text for pair in pairs for text in (pair.asked, pair.reply, *pair.documents) if text.strip()])
        own = np.array([features(reads, pair.asked, pair.documents, pair.reply) for pair in pairs])
        drawn = np.array([[features(reads, pair.asked, pair.documents, reply) for reply in _others(pair, pairs, rng)]
                          for pair in pairs])  # fmt: skip
        fold = np.array([pair.fold for pair in pairs])
        mean, spread = own.mean(axis=0), own.std(axis=0) + 1e-9
        found = [_models((own - mean) / spread, (drawn - mean) / spread, fold, strength) for strength in STRENGTHS]
        weights, bias, accuracy = max(found, key=lambda each: each[2])
        return cls(weights, bias, mean, spread, embedder, accuracy, len(pairs))

    def score(self, asked: str, documents: Sequence[str], reply: str) -> float:
        """How related a reply is, from 0 to 1, by the model that has not seen its context."""
        fold = fold_of(asked, documents)
        x = (features(open_embedder(self.embedder), asked, documents, reply) - self.mean) / self.spread
        return float(scipy.special.expit(self.weights[fold] @ x + self.bias[fold]))

    def save(self, folder: Path) -> None:
        """Write it as JSON and arrays."""
        from safetensors.numpy import save

        folder.mkdir(parents=True, exist_ok=True)
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in ("weights", "bias", "mean", "spread")}
        (folder / _ARRAYS).write_bytes(save(arrays))
        card = {"embedder": self.embedder, "accuracy": self.accuracy, "replies": self.replies}
        (folder / _CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Relatedness:
        """The inverse of `save`.

        Raises:
            BadInput: The folder holds none, or a damaged one.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            card: dict[str, Any] = read_json_file(folder / _CARD)
            return cls(**{**load(read_bytes(folder / _ARRAYS, ARRAYS_BYTES)), **card})
        except FileNotFoundError:
            raise BadInput(f"{folder} holds no RUBER; learn one: accord models train ruber --out {folder}") from None
        except (TypeError, ValueError, SafetensorError) as error:
            raise BadInput(f"{folder} holds a damaged RUBER ({type(error).__name__}); learn it again") from None


def features(embedder: Embedder, asked: str, documents: Sequence[str], reply: str) -> Floats:
    """(4·width,) products and distances of a reply's vector with those of the question and the nearest document."""
    r = embedder.embed(reply).astype(float)
    vectors = [embedder.embed(text).astype(float) for text in documents if text.strip()]
    nearest = max(vectors, key=lambda vector: float(vector @ r), default=np.zeros_like(r))
    q = embedder.embed(asked).astype(float) if asked.strip() else np.zeros_like(r)
    return np.concatenate([part for v in (q, nearest) for part in (v * r, np.abs(v - r) * bool(v.any()))])


def _others(pair: Pair, pairs: Sequence[Pair], rng: np.random.Generator) -> list[str]:
    """Replies drawn from other contexts, of the same fold where it has some: what a model may not see stays unseen."""
    context = (pair.asked, pair.documents)
    others = [each for each in pairs if (each.asked, each.documents) != context]
    near = [each for each in others if each.fold == pair.fold] or others
    return [near[place].reply for place in rng.integers(len(near), size=NEGATIVES)]


def _models(own: Floats, drawn: Floats, fold: NDArray[np.intp], strength: float) -> tuple[Floats, Floats, float]:
    """Each fold's model, learned without it; and how often it ranks the fold's own replies above drawn ones."""
    from sklearn.linear_model import LogisticRegression

    weights, bias, right = np.zeros((FOLDS, own.shape[1])), np.zeros(FOLDS), []
    for each in range(FOLDS):
        train, test = fold != each, fold == each
        X = np.concatenate([own[train], drawn[train].reshape(-1, own.shape[1])])
        y = np.repeat([1, 0], [int(train.sum()), len(X) - int(train.sum())])
        model = LogisticRegression(C=strength / own.shape[1], class_weight="balanced", max_iter=1000).fit(X, y)
        weights[each], bias[each] = model.coef_[0], model.intercept_[0]
        right.append((own[test] @ weights[each])[:, None] > drawn[test] @ weights[each])
    return weights, bias, float(np.concatenate(right).mean())


def pairs_of(conversations: Sequence[Conversation]) -> list[Pair]:
    """Every reply of some conversations with what it answers; of a conversation at one turn, that turn's."""
    found = []
    for conversation in conversations:
        ours, theirs = ({turn.role for turn in turns} for turns in (conversation.replies, conversation.others))
        documents, asked = tuple(parsed_document(document.text).text for document in conversation.documents), ""
        for place, turn in enumerate(conversation.turns):
            if turn.role in theirs:
                asked = turn.content
            elif turn.role in ours and turn.content.strip() and conversation.reply in {None, place}:
                found.append(Pair(asked, documents, turn.content))
    return found


@cache
def _opened(folder: str) -> Relatedness:
    return Relatedness.load(Path(folder))


class Unreferenced:
    """How related a reply is to what was asked and to the documents, learned on replies without a rating."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @property
    def made_with(self) -> str:
        """The models, by what they hold."""
        learned = _opened(self.folder)
        return f"{learned.embedder},{content_hash(learned.weights.round(9).tolist(), length=8)}"

    @property
    def embedder(self) -> Embedder:
        """Opened when it is first asked."""
        return open_embedder(_opened(self.folder).embedder)

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """From 0 to 1; nothing where there is neither a question nor a document."""
        asked = history.asked.text if history.asked is not None else ""
        if not asked.strip() and not sources:
            return None
        return _opened(self.folder).score(asked, [source.text for source in sources], reply.text)


class Referenced(ByEmbedder):
    """Cosine of a reply's and a document's word vectors, pooled by their largest and smallest values."""

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """From -1 to 1, of the document that suits best; nothing where there are no documents."""
        own = self._pooled(reply.text)
        return max(float(own @ self._pooled(source.text)) for source in sources) if sources else None

    def _pooled(self, text: str) -> Floats:
        _, states = self.embedder.states(text)
        if not len(states):
            return np.zeros(2 * states.shape[1])
        pooled = np.concatenate([states.max(axis=0), states.min(axis=0)]).astype(float)
        return np.asarray(pooled / (np.linalg.norm(pooled) or 1.0))


class Ruber:
    """The mean of RUBER's referenced and unreferenced part, each from 0 to 1."""

    def __init__(self, folder: str) -> None:
        self._unreferenced = Unreferenced(folder)

    @property
    def made_with(self) -> str:
        """The models, by what they hold."""
        return self._unreferenced.made_with

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """From 0 to 1; nothing where there are no documents."""
        unreferenced = self._unreferenced(reply, history, sources)
        referenced = Referenced(self._unreferenced.embedder.name)(reply, history, sources)
        return None if unreferenced is None or referenced is None else (unreferenced + (1 + referenced) / 2) / 2


turn_metrics.register(REFERENCED)(Referenced())
turn_metrics.family(REFERENCED, Referenced)
LEARNED = ("ruber-unreferenced", "ruber")
"""Families of metrics whose argument is a folder."""
turn_metrics.family("ruber-unreferenced", Unreferenced)
turn_metrics.family("ruber", Ruber)

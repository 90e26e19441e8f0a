"""RUBER: relatedness of a reply to its question and documents, learned without ratings.

Tao et al., AAAI 2018; with embeddings, Ghazarian et al., 2019.

    unreferenced  s(q, r) = σ(w·[q ∘ r; |q - r|] + b)   replies of a log against replies drawn from other contexts
    referenced    cosine of the word vectors of reply and document, pooled by their largest and smallest values
    ruber         mean of both, each between 0 and 1

q is the previous turn of another speaker and the nearest document; r is the reply; both are embedding vectors. Each of
`FOLDS` models learns without a fifth of the contexts and scores those, so no reply is scored by a model that saw it or
another reply to the same context. `accord models train ruber` learns it from a store; `ruber@FOLDER` names the result.
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
from accord.evidence.bank.reply_metrics import ByEmbedder
from accord.models import DEFAULT, Embedder, open_embedder
from accord.values import Conversation, content_hash

Floats = NDArray[np.float64]

REFERENCED = "ruber-referenced"
FOLDS = 5
NEGATIVES = 4
"""Replies of other contexts compared with each reply."""
STRENGTHS = (0.01, 0.1, 1.0, 10.0)
"""Inverse penalties; the best one on held-out contexts is used."""
FEWEST = 20
"""Smallest number of contexts to learn from."""
MOST = 2000
"""Largest number of replies to learn from; a larger number is subsampled evenly."""
_CARD, _ARRAYS = "ruber.json", "arrays.safetensors"


@dataclass(frozen=True)
class Pair:
    """A reply and its context: the previous turn of another speaker, empty without one, and the documents."""

    asked: str
    documents: tuple[str, ...]
    reply: str

    @cached_property
    def fold(self) -> int:
        """Fold of the model that may score the reply, from its context only."""
        return fold_of(self.asked, self.documents)


def fold_of(asked: str, documents: Sequence[str]) -> int:
    """Return the fold of a context."""
    return int(content_hash([asked, sorted(documents)])[-8:], 16) % FOLDS


@dataclass(frozen=True)
class Relatedness:
    """Learned RUBER models.

    Attributes:
        weights: (FOLDS, d) weights of the models, each learned without its fold.
        bias: (FOLDS,) biases.
        mean, spread: (d,) means and standard deviations of the features.
        accuracy: Share of held-out replies that score higher in their own context than a drawn reply.
        replies: Number of training replies.
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
        """Learn from the replies of a log; `BadInput` for fewer than `FEWEST` contexts."""
        contexts = {(pair.asked, tuple(sorted(pair.documents))) for pair in pairs}
        if len(contexts) < FEWEST or len({pair.fold for pair in pairs}) < FOLDS:
            raise BadInput(f"{len(pairs)} replies; RUBER needs at least {FEWEST} contexts. Import more conversations")
        pairs = [pairs[place] for place in np.unique(np.linspace(0, len(pairs) - 1, min(len(pairs), MOST)).astype(int))]
        opened, rng = open_embedder(embedder), np.random.default_rng(seed)
        opened.prepare([text for pair in pairs for text in (pair.asked, pair.reply, *pair.documents) if text.strip()])
        own_features = np.array([features(opened, pair.asked, pair.documents, pair.reply) for pair in pairs])
        drawn = np.array([[features(opened, pair.asked, pair.documents, reply) for reply in _others(pair, pairs, rng)]
                          for pair in pairs])  # fmt: skip
        fold = np.array([pair.fold for pair in pairs])
        mean, spread = own_features.mean(axis=0), own_features.std(axis=0) + 1e-9
        candidates = [
            _models((own_features - mean) / spread, (drawn - mean) / spread, fold, strength) for strength in STRENGTHS
        ]
        weights, bias, accuracy = max(candidates, key=lambda candidate: candidate[2])
        return cls(weights, bias, mean, spread, embedder, accuracy, len(pairs))

    def score(self, asked: str, documents: Sequence[str], reply: str) -> float:
        """Return the relatedness of a reply, 0 to 1, by the model that did not learn from its context."""
        fold = fold_of(asked, documents)
        x = (features(open_embedder(self.embedder), asked, documents, reply) - self.mean) / self.spread
        return float(scipy.special.expit(self.weights[fold] @ x + self.bias[fold]))

    def save(self, folder: Path) -> None:
        """Write the models as JSON and arrays."""
        from safetensors.numpy import save

        folder.mkdir(parents=True, exist_ok=True)
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in ("weights", "bias", "mean", "spread")}
        (folder / _ARRAYS).write_bytes(save(arrays))
        card = {"embedder": self.embedder, "accuracy": self.accuracy, "replies": self.replies}
        (folder / _CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Relatedness:
        """Invert `save`; `BadInput` if the folder holds no models, or damaged ones."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            card: dict[str, Any] = read_json_file(folder / _CARD)
            return cls(**{**load(read_bytes(folder / _ARRAYS, ARRAYS_BYTES)), **card})
        except FileNotFoundError:
            raise BadInput(f"no RUBER models in {folder}. Run: accord models train ruber --out {folder}") from None
        except (TypeError, ValueError, SafetensorError) as error:
            raise BadInput(f"damaged RUBER models in {folder} ({type(error).__name__}). Train again") from None


def features(embedder: Embedder, asked: str, documents: Sequence[str], reply: str) -> Floats:
    """Return (4·width,) products and distances of a reply's vector with question and nearest document."""
    r = embedder.embed(reply).astype(float)
    vectors = [embedder.embed(text).astype(float) for text in documents if text.strip()]
    nearest = max(vectors, key=lambda vector: float(vector @ r), default=np.zeros_like(r))
    q = embedder.embed(asked).astype(float) if asked.strip() else np.zeros_like(r)
    return np.concatenate([part for v in (q, nearest) for part in (v * r, np.abs(v - r) * bool(v.any()))])


def _others(pair: Pair, pairs: Sequence[Pair], rng: np.random.Generator) -> list[str]:
    """Draw replies from other contexts, from the same fold if possible, so that held-out replies stay unseen."""
    context = (pair.asked, pair.documents)
    others = [other for other in pairs if (other.asked, other.documents) != context]
    same_fold = [other for other in others if other.fold == pair.fold] or others
    return [same_fold[place].reply for place in rng.integers(len(same_fold), size=NEGATIVES)]


def _models(own: Floats, drawn: Floats, fold: NDArray[np.intp], strength: float) -> tuple[Floats, Floats, float]:
    """Return the model of each fold, learned without it, and the share of own replies ranked above drawn ones."""
    from sklearn.linear_model import LogisticRegression

    weights, bias, right = np.zeros((FOLDS, own.shape[1])), np.zeros(FOLDS), []
    for held_out in range(FOLDS):
        train, test = fold != held_out, fold == held_out
        X = np.concatenate([own[train], drawn[train].reshape(-1, own.shape[1])])
        y = np.repeat([1, 0], [int(train.sum()), len(X) - int(train.sum())])
        model = LogisticRegression(C=strength / own.shape[1], class_weight="balanced", max_iter=1000).fit(X, y)
        weights[held_out], bias[held_out] = model.coef_[0], model.intercept_[0]
        right.append((own[test] @ weights[held_out])[:, None] > drawn[test] @ weights[held_out])
    return weights, bias, float(np.concatenate(right).mean())


def pairs_of(conversations: Sequence[Conversation]) -> list[Pair]:
    """Return every reply of some conversations with its context; of a conversation at one turn, that turn only."""
    pairs = []
    for conversation in conversations:
        own_roles, other_roles = (
            {turn.role for turn in turns} for turns in (conversation.replies, conversation.others)
        )
        documents, asked = tuple(parsed_document(document.text).text for document in conversation.documents), ""
        for place, turn in enumerate(conversation.turns):
            if turn.role in other_roles:
                asked = turn.content
            elif turn.role in own_roles and turn.content.strip() and conversation.reply in {None, place}:
                pairs.append(Pair(asked, documents, turn.content))
    return pairs


@cache
def _opened(folder: str) -> Relatedness:
    return Relatedness.load(Path(folder))


class Unreferenced:
    """Relatedness of a reply to question and documents, learned on replies without ratings."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @property
    def made_with(self) -> str:
        """Embedder and digest of the models."""
        learned = _opened(self.folder)
        return f"{learned.embedder},{content_hash(learned.weights.round(9).tolist(), length=8)}"

    @property
    def embedder(self) -> Embedder:
        """Embedder, opened on first use."""
        return open_embedder(_opened(self.folder).embedder)

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """Return the relatedness, 0 to 1; `None` with neither a question nor a document."""
        asked = history.asked.text if history.asked is not None else ""
        if not asked.strip() and not sources:
            return None
        return _opened(self.folder).score(asked, [source.text for source in sources], reply.text)


class Referenced(ByEmbedder):
    """Cosine of the pooled word vectors of reply and document."""

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """Return the cosine with the best document, -1 to 1; `None` without documents."""
        own = self._pooled(reply.text)
        return max(float(own @ self._pooled(source.text)) for source in sources) if sources else None

    def _pooled(self, text: str) -> Floats:
        _, states = self.embedder.states(text)
        if not len(states):
            return np.zeros(2 * states.shape[1])
        pooled = np.concatenate([states.max(axis=0), states.min(axis=0)]).astype(float)
        return np.asarray(pooled / (np.linalg.norm(pooled) or 1.0))


class Ruber(Unreferenced):
    """Mean of RUBER's referenced and unreferenced part."""

    def __call__(self, reply: ParsedText, history: TurnHistory, sources: Sequence[ParsedDocument]) -> float | None:
        """Return the mean, 0 to 1; `None` without documents."""
        unreferenced = super().__call__(reply, history, sources)
        referenced = Referenced(self.embedder.name)(reply, history, sources)
        return None if unreferenced is None or referenced is None else (unreferenced + (1 + referenced) / 2) / 2


turn_metrics.register(REFERENCED)(Referenced())
turn_metrics.family(REFERENCED, Referenced)
LEARNED = ("ruber-unreferenced", "ruber")
"""Families of metrics whose argument is a folder."""
turn_metrics.family("ruber-unreferenced", Unreferenced)
turn_metrics.family("ruber", Ruber)

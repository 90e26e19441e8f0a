"""Sentence embeddings by MiniLM in NumPy.

Wang et al., *MiniLM*, NeurIPS 2020; pooled as Reimers and Gurevych, *Sentence-BERT*, EMNLP 2019.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import sendable
from accord.embedded.catalogue import SENTENCE_EMBEDDER, load

Floats = NDArray[np.float32]

HEADS = 12
EPSILON = 1e-12
WINDOW = 254
"""Maximum tokens per pass; embeddings of the windows of a longer text are averaged by length."""
KEPT_TEXTS, KEPT_STATES = 4096, 256


class SentenceEmbedder:
    """A BERT encoder with mean pooling, which turns a text into a vector of length 1."""

    def __init__(self, name: str, tensors: Mapping[str, Floats], tokenizer: Any, fingerprint: str = "") -> None:
        """`tensors` have the names of a BERT checkpoint; `tokenizer` is of the `tokenizers` library."""
        self.name = name
        self.fingerprint = fingerprint
        self._tensors = {key.removeprefix("bert."): value for key, value in tensors.items()}
        self._layers = sum(key.endswith("attention.self.query.weight") for key in self._tensors)
        self._tokenizer = tokenizer
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._ends = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
        self.embed = lru_cache(KEPT_TEXTS)(self._embed)
        self.token_states = lru_cache(KEPT_STATES)(self._token_states)

    @property
    def width(self) -> int:
        """Length of a vector."""
        return int(self._tensors["embeddings.word_embeddings.weight"].shape[1])

    def _embed(self, text: str) -> Floats:
        """Return (width,) the text's vector of length 1; all zero for a text without tokens."""
        tokens = self._tokenizer.encode(sendable(text), add_special_tokens=False).ids
        if not tokens:
            return np.zeros(self.width, dtype=np.float32)
        windows = [tokens[start : start + WINDOW] for start in range(0, len(tokens), WINDOW)]
        pooled = sum(len(window) * self._read(window) for window in windows)
        return np.asarray(pooled / np.linalg.norm(pooled), dtype=np.float32)

    def _token_states(self, text: str) -> tuple[tuple[int, ...], Floats]:
        """Return the first `WINDOW` tokens of a text, and (n, width) their hidden states of length 1."""
        tokens = self._tokenizer.encode(sendable(text), add_special_tokens=False).ids[:WINDOW]
        if not tokens:
            return (), np.zeros((0, self.width), dtype=np.float32)
        states = self._hidden(tokens)[1:-1]
        return tuple(tokens), np.asarray(states / np.linalg.norm(states, axis=1, keepdims=True))

    def _read(self, tokens: Sequence[int]) -> Floats:
        """Return (width,) the mean hidden state of a window, of length 1."""
        mean = self._hidden(tokens).mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean))

    def _hidden(self, tokens: Sequence[int]) -> Floats:
        """Return (n + 2, width) the last hidden states of a window and its start and end tokens."""
        of = self._tensors
        first, last = self._ends
        ids = [first, *tokens, last]
        x = of["embeddings.word_embeddings.weight"][ids] + of["embeddings.position_embeddings.weight"][: len(ids)]
        x = self._normalize(x + of["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(self._layers):
            name = f"encoder.layer.{layer}."
            attended = self._linear(self._attend(x, name), f"{name}attention.output.dense")
            x = self._normalize(x + attended, f"{name}attention.output.LayerNorm")
            fed = self._linear(_gelu(self._linear(x, f"{name}intermediate.dense")), f"{name}output.dense")
            x = self._normalize(x + fed, f"{name}output.LayerNorm")
        return x

    def _attend(self, x: Floats, name: str) -> Floats:
        def by_head(part: str) -> Floats:
            return self._linear(x, f"{name}attention.self.{part}").reshape(len(x), HEADS, -1).swapaxes(0, 1)

        queries, keys, values = by_head("query"), by_head("key"), by_head("value")
        weights = queries @ keys.swapaxes(1, 2) / np.float32(np.sqrt(queries.shape[2]))
        weights = np.exp(weights - weights.max(axis=2, keepdims=True))
        mixed = weights @ values / weights.sum(axis=2, keepdims=True)
        return np.asarray(mixed.swapaxes(0, 1).reshape(len(x), -1))

    def _linear(self, x: Floats, name: str) -> Floats:
        return np.asarray(x @ self._tensors[f"{name}.weight"].T + self._tensors[f"{name}.bias"])

    def _normalize(self, x: Floats, name: str) -> Floats:
        centred = x - x.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt(np.mean(centred * centred, axis=1, keepdims=True) + np.float32(EPSILON))
        return np.asarray(scaled * self._tensors[f"{name}.weight"] + self._tensors[f"{name}.bias"])


def _gelu(x: Floats) -> Floats:
    from scipy.special import erf

    return np.asarray(0.5 * x * (1 + erf(x / np.float32(np.sqrt(2)))), dtype=np.float32)


@cache
def open_sentence_embedder(name: str) -> SentenceEmbedder:
    """Open a downloaded model, once per process; see `load` for errors."""
    loaded = load(name, SENTENCE_EMBEDDER)
    return SentenceEmbedder(name, loaded.tensors, loaded.tokenizer, loaded.fingerprint)

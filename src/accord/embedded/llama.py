"""The forward pass of a Llama language model in NumPy, with a kept prefix.

Weights are single precision and every result is computed in the same way, so a likelihood does not depend on other
requests (Touvron et al., *LLaMA*, 2023, section 2.2; grouped queries: Ainslie et al., EMNLP 2023).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

ROWS_AT_ONCE = 256
"""Rows of logits that are computed at a time; a row has the length of the vocabulary."""
SAFE_EXPONENT = 60.0
"""Largest score that is exponentiated without subtracting the maximum."""
QUERIES_AT_ONCE = 128
"""Rows of queries that attend together; a block uses the keys up to its own end."""


@dataclass(frozen=True, slots=True)
class LlamaShape:
    """Sizes and constants of a model."""

    layers: int
    heads: int
    key_heads: int
    width: int
    head_width: int
    context: int
    rope_base: float
    epsilon: float


class Prefix:
    """Keys and values of earlier tokens, which later tokens attend to."""

    def __init__(self, shape: LlamaShape) -> None:
        self.length = 0
        self._buffer = np.zeros((2, shape.layers, shape.key_heads, 0, shape.head_width), dtype=np.float32)

    def write(self, layer: int, start: int, keys: Floats, values: Floats) -> tuple[Floats, Floats]:
        """Return (heads, start + m, width) keys and values: the first `start` of the prefix, and these m.

        If `start` is the prefix's length, the new ones are written behind it. They stay if `length` is moved past them,
        and are overwritten otherwise.
        """
        if start < self.length:
            kept = self._buffer[:, layer, :, :start]
            return np.concatenate([kept[0], keys], axis=1), np.concatenate([kept[1], values], axis=1)
        end = self.length + keys.shape[1]
        if end > self._buffer.shape[3]:
            more = max(end, 2 * self._buffer.shape[3]) - self._buffer.shape[3]
            self._buffer = np.pad(self._buffer, [(0, 0)] * 3 + [(0, more), (0, 0)])
        for kind, new in enumerate((keys, values)):
            self._buffer[kind, layer, :, self.length : end] = new
        return self._buffer[0, layer, :, :end], self._buffer[1, layer, :, :end]


@dataclass(frozen=True, slots=True)
class _Layer:
    """Matrices of one layer; those with the same input are stacked and include its gains."""

    query_key_value: Floats
    out: Floats
    gate_up: Floats
    down: Floats


class Llama:
    """Weights and forward pass of a model."""

    def __init__(self, shape: LlamaShape, tensors: Mapping[str, Floats]) -> None:
        """`tensors` are float32 arrays with the names of a GGUF file; matrices are (outputs, inputs)."""
        self.shape = shape
        self.embedding = tensors["token_embd.weight"]
        self._norm = tensors["output_norm.weight"]
        self._head = tensors.get("output.weight", self.embedding)
        self._layers = [_layer(tensors, f"blk.{index}.", shape.head_width) for index in range(shape.layers)]
        pairs = shape.head_width // 2
        self._frequencies = shape.rope_base ** (-np.arange(pairs) / pairs)

    def read(
        self, segments: Sequence[Sequence[int]], prefix: Prefix, starts: Sequence[int] | None = None
    ) -> list[Floats]:
        """Return (m, width) hidden states of each segment's tokens, as if it alone followed the prefix.

        A segment may follow the first `starts[i]` tokens of the prefix instead of all. The prefix's length does not
        change; after a single segment the caller may move it past its tokens to keep them.
        """
        starts = [prefix.length] * len(segments) if starts is None else starts
        bounds = np.cumsum([0, *map(len, segments)])
        spans = [slice(start, stop) for start, stop in zip(bounds[:-1], bounds[1:], strict=True)]
        positions = np.concatenate([s + np.arange(len(of)) for s, of in zip(starts, segments, strict=True)])
        rotations = np.exp(1j * positions[:, None, None] * self._frequencies).astype(np.complex64)
        x = self.embedding[np.concatenate([np.asarray(segment, dtype=np.intp) for segment in segments])]
        for index, layer in enumerate(self._layers):
            x = x + self._attend(index, layer, x, rotations, spans, prefix, starts) @ layer.out.T
            gate, up = np.hsplit(self._normalize(x) @ layer.gate_up.T, 2)
            x = x + _gate(gate, up) @ layer.down.T
        return [x[span] for span in spans]

    def log_probabilities(self, hidden: Floats) -> Floats:
        """Return (m, vocabulary) log probabilities of the token after each of m hidden states."""
        logits = self._logits(hidden)
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return logits

    def token_log_probabilities(self, hidden: Floats, tokens: Sequence[int]) -> Floats:
        """Return (m,) log probability of each of m tokens, given the hidden states (m, width) before them."""
        parts = []
        for start in range(0, len(tokens), ROWS_AT_ONCE):
            chosen = np.asarray(tokens[start : start + ROWS_AT_ONCE], dtype=np.intp)
            logits = self._logits(hidden[start : start + ROWS_AT_ONCE])
            scores = logits[np.arange(len(chosen)), chosen]
            highest = logits.max(axis=1)
            logits -= highest[:, None]
            np.exp(logits, out=logits)
            parts.append(scores - highest - np.log(logits.sum(axis=1)))
        return np.concatenate(parts)

    def _attend(
        self,
        index: int,
        layer: _Layer,
        x: Floats,
        rotations: NDArray[np.complex64],
        spans: Sequence[slice],
        prefix: Prefix,
        starts: Sequence[int],
    ) -> Floats:
        s = self.shape
        mixed = self._normalize(x) @ layer.query_key_value.T
        mixed = mixed.reshape(len(x), s.heads + 2 * s.key_heads, s.head_width)
        queries = _rotate(mixed[:, : s.heads], rotations)
        keys = _rotate(mixed[:, s.heads : s.heads + s.key_heads], rotations).swapaxes(0, 1)
        values = mixed[:, s.heads + s.key_heads :].swapaxes(0, 1)
        out = np.empty((len(x), s.heads * s.head_width), dtype=np.float32)
        for span, start in zip(spans, starts, strict=True):
            known = prefix.write(index, start, keys[:, span], values[:, span])
            out[span] = self._attend_block(queries[span], *known)
        return out

    def _attend_block(self, queries: Floats, keys: Floats, values: Floats) -> Floats:
        """Return (m, heads · width) for m queries, which belong to the last m of n keys."""
        s = self.shape
        m, n = len(queries), keys.shape[1]
        groups = s.heads // s.key_heads
        by_key = queries.reshape(m, s.key_heads, groups, s.head_width).transpose(1, 2, 0, 3)
        parts = []
        for start in range(0, m, QUERIES_AT_ONCE):
            stop = min(start + QUERIES_AT_ONCE, m)
            end = n - m + stop
            rows = np.ascontiguousarray(by_key[:, :, start:stop]).reshape(s.key_heads, -1, s.head_width)
            weights = rows @ keys[:, :end].swapaxes(1, 2)
            weights.reshape(s.key_heads, groups, stop - start, end)[..., n - m + start :] += _causal_mask(stop - start)
            highest = weights.max(axis=-1, keepdims=True)
            if np.abs(highest).max() > SAFE_EXPONENT:
                weights -= highest
            np.exp(weights, out=weights)
            part = weights @ values[:, :end] / weights.sum(axis=-1, keepdims=True)
            part = part.reshape(s.key_heads, groups, stop - start, s.head_width)
            parts.append(part.transpose(2, 0, 1, 3).reshape(stop - start, -1))
        return np.concatenate(parts)

    def _logits(self, hidden: Floats) -> Floats:
        return np.asarray((self._normalize(hidden) * self._norm) @ self._head.T)

    def _normalize(self, x: Floats) -> Floats:
        """Scale rows to root mean square 1; gains are part of the following matrices."""
        mean = np.einsum("ij,ij->i", x, x) / np.float32(x.shape[1])
        return np.asarray(x * (1 / np.sqrt(mean + np.float32(self.shape.epsilon)))[:, None])


@cache
def _causal_mask(rows: int) -> Floats:
    """Return a (rows, rows) mask of later tokens: minus infinity above the diagonal."""
    return np.triu(np.full((rows, rows), -np.inf, dtype=np.float32), 1)


def _layer(tensors: Mapping[str, Floats], name: str, head_width: int) -> _Layer:
    def stacked(norm: str, *parts: str) -> Floats:
        return np.concatenate([tensors[f"{name}{part}.weight"] for part in parts]) * tensors[f"{name}{norm}.weight"]

    mixed = stacked("attn_norm", "attn_q", "attn_k", "attn_v")
    # Scores are divided by the square root of a head's width; the division is part of the query matrix.
    mixed[: len(tensors[f"{name}attn_q.weight"])] /= np.sqrt(np.float32(head_width))
    gate_up = stacked("ffn_norm", "ffn_gate", "ffn_up")
    return _Layer(mixed, tensors[f"{name}attn_output.weight"], gate_up, tensors[f"{name}ffn_down.weight"])


def _gate(gate: Floats, up: Floats) -> Floats:
    """Return silu(gate) · up."""
    out = np.exp(-gate)
    out += 1
    np.divide(gate, out, out=out)
    out *= up
    return out


def _rotate(x: Floats, rotations: NDArray[np.complex64]) -> Floats:
    """Rotate neighboring pairs of each head by position: rotary embedding in the layout of GGUF files."""
    return (np.ascontiguousarray(x).view(np.complex64) * rotations).view(np.float32)

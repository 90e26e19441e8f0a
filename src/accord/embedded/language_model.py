"""A small language model in this process: likelihoods of messages, the next token's distribution, text.

Keys and values of a common beginning are kept, so that only the rest of each prompt is evaluated.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import sendable
from accord.embedded.catalogue import LANGUAGE_MODEL, load
from accord.embedded.gguf_weights import CONFIG
from accord.embedded.llama import Floats, Llama, LlamaShape, Prefix

ROWS_AT_ONCE = 1024
A_FEW = 32
"""Maximum tokens that are read again instead of being added to the kept prefix in a separate pass."""
START, END = "<|im_start|>", "<|im_end|>"


@dataclass(frozen=True, slots=True)
class TokenizedChat:
    """A chat as tokens, with the span of each message's content and end token."""

    tokens: tuple[int, ...]
    spans: tuple[slice, ...]


class _ReadBatch:
    """Chats that are read in one pass, each from the end of the kept prefix to its last measured message."""

    def __init__(self) -> None:
        self.chats: list[tuple[TokenizedChat, Sequence[int]]] = []
        self.segments: list[tuple[int, ...]] = []
        self.starts: list[int] = []
        self.rows = 0

    def add(self, chat: TokenizedChat, measured: Sequence[int], start: int) -> None:
        """Add a chat."""
        self.chats.append((chat, measured))
        self.segments.append(chat.tokens[start : chat.spans[max(measured)].stop - 1])
        self.starts.append(start)
        self.rows += len(self.segments[-1])


class LanguageModel:
    """A Llama model with its tokenizer and a kept prefix; thread-safe."""

    def __init__(self, name: str, llama: Llama, tokenizer: Any, fingerprint: str = "", system: str = "") -> None:
        """`tokenizer` is of the `tokenizers` library.

        `fingerprint` identifies the weights; `system` begins every chat without a system message.
        """
        self.name = name
        self.fingerprint = fingerprint
        self.system = system
        self.context = llama.shape.context
        self._llama = llama
        self._tokenizer = tokenizer
        # A control token in a transcript is text: it must not end its message.
        self._tokenizer.encode_special_tokens = True
        self._start, self._end = tokenizer.token_to_id(START), tokenizer.token_to_id(END)
        self._prefix, self._kept = Prefix(llama.shape), list[int]()
        self._lock = threading.Lock()
        self.text_of_token = cache(lambda token: self.text_of([token]))

    # --- text and tokens --------------------------------------------------------------------------------------

    def tokens_of(self, text: str) -> list[int]:
        """Return the tokens of a text, without control tokens."""
        return list(self._tokenizer.encode(sendable(text), add_special_tokens=False).ids)

    def text_of(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))

    def chat(self, messages: Sequence[tuple[str, str]]) -> TokenizedChat:
        """Return (role, content) pairs in the model's chat format."""
        tokens: list[int] = []
        spans = []
        if self.system and messages and messages[0][0] != "system":
            tokens += self.chat([("system", self.system)]).tokens
        for role, content in messages:
            tokens += [self._start, *self.tokens_of(f"{role}\n")]
            message = [*self.tokens_of(content), self._end]
            spans.append(slice(len(tokens), len(tokens) + len(message)))
            tokens += [*message, *self.tokens_of("\n")]
        return TokenizedChat(tuple(tokens), tuple(spans))

    def prompt(self, messages: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """Return (role, content) pairs, and the beginning of the assistant's answer."""
        return (*self.chat(messages).tokens, self._start, *self.tokens_of("assistant\n"))

    # --- probabilities ----------------------------------------------------------------------------------------

    def log_likelihoods(self, chats: Sequence[tuple[TokenizedChat, Sequence[int]]]) -> list[list[Floats]]:
        """Return for each chat the log probability of every token of each measured message, given all tokens before it.

        Neighbors that are equal up to their first measured message are read together. So are chats for which the kept
        prefix has all but a few tokens of that beginning.
        """
        results: list[list[Floats]] = []
        with self._lock:
            batch = _ReadBatch()
            for chat, measured in chats:
                beginning = chat.tokens[: chat.spans[min(measured)].start - 1]
                start = _common_length([self._kept, beginning])
                if len(beginning) - start > A_FEW or batch.rows + len(chat.tokens) - start > ROWS_AT_ONCE:
                    results += self._read_batch(batch)
                    batch = _ReadBatch()
                    if len(beginning) - start > A_FEW:
                        self._keep(beginning)
                        start = len(beginning)
                batch.add(chat, measured, start)
            results += self._read_batch(batch)
        return results

    def next_tokens(self, prompts: Sequence[Sequence[int]]) -> list[Floats]:
        """Return (vocabulary,) log probabilities of the token after each prompt; a common beginning is read once."""
        with self._lock:
            shared = min(_common_length(prompts), min(map(len, prompts)) - 1)
            self._keep(prompts[0][:shared])
            rests = [prompt[shared:] for prompt in prompts]
            rows = max(1, ROWS_AT_ONCE // max(map(len, rests)))
            groups = (rests[first : first + rows] for first in range(0, len(rests), rows))
            hidden = [states[-1] for group in groups for states in self._llama.read(group, self._prefix)]
            return list(self._llama.log_probabilities(np.stack(hidden)))

    def write(
        self,
        prompt: Sequence[int],
        most: int,
        temperature: float,
        seed: int,
        on_token: Callable[[Sequence[int]], bool] = lambda written: True,
    ) -> tuple[list[int], Floats]:
        """Return up to `most` tokens after a prompt, without the end token, and the first one's log probabilities.

        Temperature 0 takes the likeliest token each time; above it, tokens are drawn by `seed`. `on_token` is called
        with all tokens after each one, and returns False to stop.
        """
        random = np.random.default_rng(seed)
        written: list[int] = []
        with self._lock:
            self._keep(prompt[:-1])
            last, first = prompt[-1], None
            while len(written) < most and len(prompt) + len(written) < self.context:
                [hidden] = self._llama.read([[last]], self._prefix)
                self._keep_read([last])
                mass = self._llama.log_probabilities(hidden)[0]
                first = mass if first is None else first
                last = draw_token(mass, temperature, random)
                if last in (self._end, self._start):
                    break
                written.append(last)
                if not on_token(written):
                    break
        assert first is not None
        return written, first

    def _read_batch(self, batch: _ReadBatch) -> list[list[Floats]]:
        """Return the log likelihoods of a batch of chats, read in one pass."""
        if not batch.chats:
            return []
        results = []
        hidden = self._llama.read([list(segment) for segment in batch.segments], self._prefix, batch.starts)
        for (chat, measured), states, start in zip(batch.chats, hidden, batch.starts, strict=True):
            spans = [chat.spans[index] for index in measured]
            before = np.concatenate([states[span.start - 1 - start : span.stop - 1 - start] for span in spans])
            tokens = [token for span in spans for token in chat.tokens[span]]
            mass = self._llama.token_log_probabilities(before, tokens)
            results.append(np.split(mass, np.cumsum([span.stop - span.start for span in spans])[:-1]))
        return results

    def _keep(self, tokens: Sequence[int]) -> None:
        """Set the kept prefix to these tokens, and read those that are new."""
        known = _common_length([self._kept, tokens])
        self._prefix.length = known
        del self._kept[known:]
        for start in range(known, len(tokens), ROWS_AT_ONCE):
            new = tokens[start : start + ROWS_AT_ONCE]
            self._llama.read([new], self._prefix)
            self._keep_read(new)

    def _keep_read(self, tokens: Sequence[int]) -> None:
        """Add tokens that were just read to the prefix."""
        self._prefix.length += len(tokens)
        self._kept += tokens


def _common_length(texts: Sequence[Sequence[int]]) -> int:
    """Return the number of tokens that all texts begin with."""
    shortest, longest = min(map(len, texts)), texts[0]
    return next((i for i in range(shortest) if any(text[i] != longest[i] for text in texts[1:])), shortest)


def draw_token(mass: Floats, temperature: float, random: np.random.Generator) -> int:
    """Return the likeliest token, or one drawn at a temperature."""
    if temperature <= 0:
        return int(mass.argmax())
    # The maximum of log p / t + Gumbel noise is a draw from the tempered distribution.
    noise: NDArray[np.float64] = random.gumbel(size=len(mass))
    return int((mass / temperature + noise).argmax())


@cache
def open_language_model(name: str) -> LanguageModel:
    """Open a downloaded model, once per process; see `load` for errors."""
    loaded = load(name, LANGUAGE_MODEL)
    config = json.loads((loaded.folder / CONFIG).read_text(encoding="utf-8"))
    llama = Llama(LlamaShape(**config["shape"]), loaded.tensors)
    return LanguageModel(name, llama, loaded.tokenizer, loaded.fingerprint, config["system"])

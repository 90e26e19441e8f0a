"""A small language model in this process: likelihoods of what was said, the next token's distribution, text.

What was read stays read: prompts that begin alike are evaluated from where they part.
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
from accord.embedded.catalogue import CONFIG, LANGUAGE_MODEL
from accord.embedded.gguf_weights import load
from accord.embedded.llama import Floats, Llama, LlamaShape, Prefix

ROWS_AT_ONCE = 1024
A_FEW = 32
"""Tokens that are read again rather than kept: fewer than a read of their own is worth."""
START, END = "<|im_start|>", "<|im_end|>"


@dataclass(frozen=True, slots=True)
class Spoken:
    """A chat as tokens, and where in them each message's content stands with the token that ends it."""

    tokens: tuple[int, ...]
    spans: tuple[slice, ...]


class _Room:
    """Chats that are read in one go: each from where it parts from the kept prefix to its last wanted message."""

    def __init__(self) -> None:
        self.chats: list[tuple[Spoken, Sequence[int]]] = []
        self.segments: list[tuple[int, ...]] = []
        self.starts: list[int] = []
        self.rows = 0

    def add(self, chat: Spoken, wanted: Sequence[int], start: int) -> None:
        """Put a chat in."""
        self.chats.append((chat, wanted))
        self.segments.append(chat.tokens[start : chat.spans[max(wanted)].stop - 1])
        self.starts.append(start)
        self.rows += len(self.segments[-1])


class LanguageModel:
    """A Llama-shaped model with its tokenizer and the prefix it has read; safe to share among threads."""

    def __init__(self, name: str, llama: Llama, tokenizer: Any, fingerprint: str = "", system: str = "") -> None:
        """`tokenizer` is one of the `tokenizers` library.

        `fingerprint` tells weights of one name apart; `system` opens every chat in which the system says nothing.
        """
        self.name = name
        self.fingerprint = fingerprint
        self.system = system
        self.context = llama.shape.context
        self._llama = llama
        self._tokenizer = tokenizer
        # A transcript that spells a control token is text: it must not end its own message.
        self._tokenizer.encode_special_tokens = True
        self._start, self._end = tokenizer.token_to_id(START), tokenizer.token_to_id(END)
        self._prefix, self._kept = Prefix(llama.shape), list[int]()
        self._lock = threading.Lock()
        self.text_of_token = cache(lambda token: self.text_of([token]))

    # --- text and tokens --------------------------------------------------------------------------------------

    def tokens_of(self, text: str) -> list[int]:
        """The tokens of a text; none of them is a control token."""
        return list(self._tokenizer.encode(sendable(text), add_special_tokens=False).ids)

    def text_of(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))

    def spoken(self, messages: Sequence[tuple[str, str]]) -> Spoken:
        """(role, content) pairs in the model's chat format."""
        tokens: list[int] = []
        spans = []
        if self.system and messages and messages[0][0] != "system":
            tokens += self.spoken([("system", self.system)]).tokens
        for role, content in messages:
            tokens += [self._start, *self.tokens_of(f"{role}\n")]
            said = [*self.tokens_of(content), self._end]
            spans.append(slice(len(tokens), len(tokens) + len(said)))
            tokens += [*said, *self.tokens_of("\n")]
        return Spoken(tuple(tokens), tuple(spans))

    def prompt(self, messages: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """(role, content) pairs, and the beginning of the assistant's answer."""
        return (*self.spoken(messages).tokens, self._start, *self.tokens_of("assistant\n"))

    # --- what the model thinks of them ------------------------------------------------------------------------

    def log_likelihoods(self, chats: Sequence[tuple[Spoken, Sequence[int]]]) -> list[list[Floats]]:
        """For each chat, log p of every token of each wanted message given all that stands before it.

        Neighbours that begin alike up to their first wanted message, or that share all but a few tokens of that with
        what is kept, are read together.
        """
        found: list[list[Floats]] = []
        with self._lock:
            room = _Room()
            for chat, wanted in chats:
                beginning = chat.tokens[: chat.spans[min(wanted)].start - 1]
                start = _alike([self._kept, beginning])
                if len(beginning) - start > A_FEW or room.rows + len(chat.tokens) - start > ROWS_AT_ONCE:
                    found += self._read_room(room)
                    room = _Room()
                    if len(beginning) - start > A_FEW:
                        self._keep(beginning)
                        start = len(beginning)
                room.add(chat, wanted, start)
            found += self._read_room(room)
        return found

    def next_tokens(self, prompts: Sequence[Sequence[int]]) -> list[Floats]:
        """Log probabilities (vocabulary) of the token after each prompt; what the prompts share is read once."""
        with self._lock:
            shared = min(_alike(prompts), min(map(len, prompts)) - 1)
            self._keep(prompts[0][:shared])
            rests = [prompt[shared:] for prompt in prompts]
            at_once = max(1, ROWS_AT_ONCE // max(map(len, rests)))
            groups = (rests[first : first + at_once] for first in range(0, len(rests), at_once))
            hidden = [states[-1] for group in groups for states in self._llama.read(group, self._prefix)]
            return list(self._llama.log_probabilities(np.stack(hidden)))

    def write(
        self,
        prompt: Sequence[int],
        most: int,
        temperature: float,
        seed: int,
        heard: Callable[[Sequence[int]], bool] = lambda written: True,
    ) -> tuple[list[int], Floats]:
        """Up to `most` tokens after a prompt, without what ends them, and the first one's log probabilities.

        Temperature 0 takes the likeliest token each time; above it, tokens are drawn by `seed`. `heard` is called with
        all that is written after each token, and says whether to go on.
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
                last = drawn(mass, temperature, random)
                if last in (self._end, self._start):
                    break
                written.append(last)
                if not heard(written):
                    break
        assert first is not None
        return written, first

    def _read_room(self, room: _Room) -> list[list[Floats]]:
        """The log likelihoods of the chats in a room, read in one go."""
        if not room.chats:
            return []
        found = []
        hidden = self._llama.read([list(segment) for segment in room.segments], self._prefix, room.starts)
        for (chat, wanted), states, start in zip(room.chats, hidden, room.starts, strict=True):
            spans = [chat.spans[index] for index in wanted]
            before = np.concatenate([states[span.start - 1 - start : span.stop - 1 - start] for span in spans])
            tokens = [token for span in spans for token in chat.tokens[span]]
            mass = self._llama.token_log_probabilities(before, tokens)
            found.append(np.split(mass, np.cumsum([span.stop - span.start for span in spans])[:-1]))
        return found

    def _keep(self, tokens: Sequence[int]) -> None:
        """Make the kept prefix exactly these tokens, reading what of them is new."""
        known = _alike([self._kept, tokens])
        self._prefix.length = known
        del self._kept[known:]
        for start in range(known, len(tokens), ROWS_AT_ONCE):
            new = tokens[start : start + ROWS_AT_ONCE]
            self._llama.read([new], self._prefix)
            self._keep_read(new)

    def _keep_read(self, tokens: Sequence[int]) -> None:
        """Count tokens that were just read to the prefix."""
        self._prefix.length += len(tokens)
        self._kept += tokens


def _alike(texts: Sequence[Sequence[int]]) -> int:
    """How many tokens all the texts begin with alike."""
    shortest, longest = min(map(len, texts)), texts[0]
    return next((i for i in range(shortest) if any(text[i] != longest[i] for text in texts[1:])), shortest)


def drawn(mass: Floats, temperature: float, random: np.random.Generator) -> int:
    """A token: the likeliest, or one drawn at a temperature."""
    if temperature <= 0:
        return int(mass.argmax())
    # The largest of log p / t + Gumbel noise is a draw from the tempered distribution.
    noise: NDArray[np.float64] = random.gumbel(size=len(mass))
    return int((mass / temperature + noise).argmax())


@cache
def open_language_model(name: str) -> LanguageModel:
    """A pulled model, opened once for the whole process; see `load` for what is raised."""
    found = load(name, LANGUAGE_MODEL)
    config = json.loads((found.folder / CONFIG).read_text(encoding="utf-8"))
    llama = Llama(LlamaShape(**config["shape"]), found.tensors)
    return LanguageModel(name, llama, found.tokenizer, found.fingerprint, config["system"])

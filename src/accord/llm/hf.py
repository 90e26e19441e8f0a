"""Any Hugging Face causal language model in this process, through transformers: the chat seam for a folder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from accord.embedded.language_model import drawn
from accord.embedded.llama import Floats
from accord.llm.hf_folder import Opened, fingerprint_of, model_folder, open_folder, prompt_tokens
from accord.llm.model import HF, CallFailed, Prompt, Reply, Usage

_one_at_a_time = Lock()
"""Models in this process share its cores: a second answer at the same time makes both slower."""


class HfChat:
    """A folder behind the chat seam: text, and token probabilities as the model gives them. It keeps no JSON Schema."""

    def __init__(self, folder: Path) -> None:
        """See `open_hf` for what is raised."""
        digest = fingerprint_of(folder)
        self.name = f"{HF}{folder.resolve().name}"
        self.endpoint = f"{self.name}:{digest}"
        self._opened = _opened(folder.resolve(), digest)
        self._turn = asyncio.Lock()

    async def ask(self, prompt: Prompt, /) -> Reply:
        """The reply; one prompt at a time.

        Raises:
            CallFailed: The prompt and its answer are longer than the model's context, or it asks for JSON by schema.
        """
        if prompt.schema is not None:
            raise CallFailed("rejected", f"{self.name} cannot keep a JSON schema")
        tokens, room = prompt_tokens(self._opened.tokenizer, prompt.messages), self._opened.context
        if len(tokens) + prompt.max_tokens > room:
            raise CallFailed("too long", f"{len(tokens)} tokens do not fit into the {room} of {self.name}")
        async with self._turn:
            return await asyncio.to_thread(self._answer, prompt, tokens)

    async def close(self) -> None:
        """Nothing is open; the model stays loaded for whoever opens it next."""

    def _answer(self, prompt: Prompt, tokens: Sequence[int]) -> Reply:
        with _one_at_a_time:
            written, first = write(self._opened, tokens, prompt.max_tokens, prompt.temperature, prompt.repeat)
        tokenizer = self._opened.tokenizer
        text = tokenizer.decode(written, skip_special_tokens=True)
        shown = _likeliest(tokenizer, first, prompt.top_logprobs) if prompt.top_logprobs else None
        return Reply(text, self.name, shown, Usage(len(tokens), max(len(written), 1)))


def write(opened: Opened, prompt: Sequence[int], most: int, temperature: float, seed: int) -> tuple[list[int], Floats]:
    """Up to `most` tokens after a prompt, without what ends them, and the first one's log probabilities (vocabulary).

    Temperature 0 takes the likeliest token each time; above it, tokens are drawn by `seed`.
    """
    import torch

    random = np.random.default_rng(seed)
    written: list[int] = []
    first: Floats | None = None
    known: Any = None
    last: Sequence[int] = prompt
    with torch.inference_mode():
        while len(written) < most:
            read = torch.tensor([list(last)], device=opened.model.device)
            out = opened.model(input_ids=read, past_key_values=known, use_cache=True)
            mass: Floats = torch.log_softmax(out.logits[0, -1].float(), dim=-1).cpu().numpy()
            first = mass if first is None else first
            token, known = drawn(mass, temperature, random), out.past_key_values
            if token in opened.ends:
                break
            written.append(token)
            last = [token]
    assert first is not None
    return written, first


def _likeliest(tokenizer: Any, mass: Floats, most: int) -> dict[str, float]:
    """The likeliest tokens' texts with their probabilities; tokens that read alike count together."""
    found: dict[str, float] = {}
    likeliest = np.argsort(mass)[::-1][:most]
    for text, token in zip(tokenizer.batch_decode([[int(token)] for token in likeliest]), likeliest, strict=True):
        found[text] = found.get(text, 0.0) + float(np.exp(mass[token]))
    return found


@cache
def _opened(folder: Path, digest: str) -> Opened:
    """The folder with this digest, opened once for the process."""
    return open_folder(folder)


def open_hf(name: str) -> HfChat:
    """The model of a name such as `hf:models/evaluator`.

    Raises:
        BadInput: There is no such folder, or it holds no model.
        ModelError: transformers cannot open it.
        MissingExtra: `accord[finetune]` is not installed.
    """
    return HfChat(model_folder(name.removeprefix(HF)))

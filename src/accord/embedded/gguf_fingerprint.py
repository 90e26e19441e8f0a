"""Tells models of one name apart by their files, without reading all of them: gigabytes would take minutes."""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
from functools import cache
from pathlib import Path
from typing import Any

from accord.edges import BadInput, MissingExtra, ModelError
from accord.embedded.gguf_header import check_header
from accord.embedded.trial import run_trial
from accord.models import GGUF, IN_PROCESS_CONTEXT, CallFailed, Prompt, Reply, Usage, chat_request_of

SAMPLES, SAMPLE_BYTES = 64, 1 << 16
"""Where and how much of a file is read to know it again."""


def fingerprint(*paths: Path) -> str:
    """A digest of files in their order: of the size of each, its beginning, and samples of the rest."""
    digest = hashlib.sha256()
    for path in paths:
        size = path.stat().st_size
        digest.update(str(size).encode())
        with path.open("rb") as file:
            for place in range(SAMPLES):
                file.seek(place * size // SAMPLES)
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()[:12]


_PLAIN = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "cache_prompt": True}
"""No sampler may change the probabilities, and what a prompt shares with the one before is not read again."""


class GgufChat:
    """A GGUF file behind the chat seam: text, JSON by schema, and token probabilities as the model gives them."""

    def __init__(self, path: Path) -> None:
        """See `open_gguf` for what is raised."""
        self.name = f"{GGUF}{path.name}"
        self.endpoint = f"{GGUF}{path.name}:{fingerprint(path)}"
        self._server = _server(path)
        self._turn = asyncio.Lock()

    async def ask(self, prompt: Prompt, /) -> Reply:
        """The reply; one prompt at a time, since llama.cpp's slots share no prefixes.

        Raises:
            CallFailed: llama.cpp refused the prompt: longer than the context, or a schema it cannot keep.
        """
        request = {**chat_request_of(prompt), **_PLAIN, "seed": prompt.repeat}
        async with self._turn:
            answer = await asyncio.to_thread(self._server.handle_chat_completions, request)
        if "error" in answer:
            error = answer["error"]
            reason = "too long" if error.get("type") == "exceed_context_size_error" else "rejected"
            raise CallFailed(reason, f"{self.name}: {error.get('message', 'no reason given')}")
        return _reply(answer, self.name, prompt)

    async def close(self) -> None:
        """Nothing is open; the model stays loaded for whoever opens it next."""


def _reply(answer: Any, name: str, prompt: Prompt) -> Reply:
    try:
        choice, usage = answer["choices"][0], answer.get("usage") or {}
        content = (choice.get("logprobs") or {}).get("content") if prompt.top_logprobs else None
        first = {top["token"]: math.exp(top["logprob"]) for top in content[0]["top_logprobs"]} if content else None
        used = Usage(usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0))
        return Reply(choice["message"].get("content") or "", name, first, used)
    except (LookupError, TypeError, AttributeError):
        raise CallFailed("malformed", f"{name} answered something of another shape") from None


TRIAL_SECONDS, BYTES_A_SECOND = 120.0, 20_000_000
"""Time in which llama.cpp has to open a file and write one token: a part of its own, and a part for its size."""
_REFUSED = 3
_TRIAL = f"""
import os, sys, xllamacpp
settings = xllamacpp.CommonParams()
settings.model.path = sys.argv[1]
settings.n_ctx, settings.n_parallel, settings.verbosity = {IN_PROCESS_CONTEXT}, 1, -1
settings.api_keys = [os.urandom(16).hex()]
try:
    server = xllamacpp.Server(settings)
except RuntimeError:
    os._exit({_REFUSED})
server.handle_chat_completions({{"messages": [{{"role": "user", "content": "Hello."}}], "max_tokens": 1}})
os._exit(0)
"""


def _try(path: Path) -> None:
    """Open a file with llama.cpp in a child process, which it may abort or keep busy, and let it write one token.

    Raises:
        ModelError: llama.cpp refuses the file, crashes, or does not finish in time.
    """
    seconds = TRIAL_SECONDS + path.stat().st_size / BYTES_A_SECOND
    try:
        code, _ = run_trial(["-c", _TRIAL, str(path)], seconds)
    except TimeoutError:
        raise ModelError(
            f"llama.cpp did not open {path} and write a token within {seconds:.0f} s: its chat template or its sizes "
            "may be wrong; use another file of the model"
        ) from None
    if code == _REFUSED:
        raise ModelError(f"llama.cpp cannot open {path}: it is damaged, or of a shape it does not know")
    if code:
        raise ModelError(f"llama.cpp crashed while it opened {path} (exit code {code}); use another file of the model")


@cache
def _server(path: Path) -> Any:
    """Open a file with llama.cpp, once for the process; its own HTTP port is on the loopback behind a secret."""
    try:
        import xllamacpp
    except ImportError:
        raise MissingExtra("a GGUF model", "gguf") from None
    check_header(path)
    _try(path)
    settings = xllamacpp.CommonParams()
    settings.model.path = str(path)
    settings.n_ctx, settings.n_parallel, settings.verbosity = IN_PROCESS_CONTEXT, 1, -1
    settings.api_keys = [secrets.token_hex(16)]
    try:
        return xllamacpp.Server(settings)
    except RuntimeError:
        raise ModelError(f"llama.cpp cannot open {path}: it is damaged, or of a shape it does not know") from None


def open_gguf(name: str) -> GgufChat:
    """The model of a name such as `gguf:models/qwen.gguf`.

    Raises:
        BadInput: There is no such file, or its header has a value that no model has.
        ModelError: llama.cpp cannot open it.
        MissingExtra: `accord[gguf]` is not installed.
    """
    path = Path(name.removeprefix(GGUF))
    if not path.is_file():
        raise BadInput(f"no GGUF file at {path}; write the model as gguf:PATH")
    return GgufChat(path)

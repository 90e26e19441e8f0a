"""GGUF files as chat models through llama.cpp, with fingerprints that do not read gigabytes."""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from accord.edges import BadInput, MissingExtra, ModelError
from accord.embedded.gguf_weights import check_header
from accord.models import GGUF, IN_PROCESS_CONTEXT, CallFailed, ChatModel, Prompt, Reply, Usage, chat_request_of

SAMPLES, SAMPLE_BYTES = 64, 1 << 16
"""Number and size of the samples of a file in its fingerprint."""


def fingerprint(*paths: Path) -> str:
    """Return a hash of files in order: size, beginning and samples of each."""
    digest = hashlib.sha256()
    for path in paths:
        size = path.stat().st_size
        digest.update(str(size).encode())
        with path.open("rb") as file:
            for index in range(SAMPLES):
                file.seek(index * size // SAMPLES)
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()[:12]


_PLAIN = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "cache_prompt": True}
"""Settings without samplers, which would change probabilities, and with a cache of common beginnings."""


class GgufChat(ChatModel):
    """A GGUF file as a chat model, with JSON by schema and token probabilities."""

    def __init__(self, path: Path) -> None:
        """See `open_gguf` for errors."""
        self.name = f"{GGUF}{path.name}"
        self.endpoint = f"{GGUF}{path.name}:{fingerprint(path)}"
        self._server = _server(path)
        self._turn = asyncio.Lock()

    async def ask(self, prompt: Prompt, /) -> Reply:
        """Return the reply; one prompt at a time, since llama.cpp's slots share no prefixes.

        Raises:
            CallFailed: llama.cpp refused the prompt: longer than the context, or an unsupported schema.
        """
        request = {**chat_request_of(prompt), **_PLAIN, "seed": prompt.repeat}
        async with self._turn:
            answer = await asyncio.to_thread(self._server.handle_chat_completions, request)
        if "error" in answer:
            error = answer["error"]
            reason = "too long" if error.get("type") == "exceed_context_size_error" else "rejected"
            raise CallFailed(reason, f"{self.name}: {error.get('message', 'no reason given')}")
        return _reply(answer, self.name, prompt)


def _reply(answer: Any, name: str, prompt: Prompt) -> Reply:
    try:
        choice, usage = answer["choices"][0], answer.get("usage") or {}
        content = (choice.get("logprobs") or {}).get("content") if prompt.top_logprobs else None
        first = {top["token"]: math.exp(top["logprob"]) for top in content[0]["top_logprobs"]} if content else None
        used = Usage(usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0))
        return Reply(choice["message"].get("content") or "", name, first, used)
    except (LookupError, TypeError, AttributeError):
        raise CallFailed("malformed", f"{name} sent a reply in an unknown format") from None


# --- trial in a child process -----------------------------------------------------------------------------------------


def run_trial(arguments: Sequence[str], seconds: float) -> tuple[int, str]:
    """Run Python with these arguments and return its exit code and its standard output.

    A library that aborts, hangs or fills the memory ends the child only.

    Raises:
        TimeoutError: The child did not end in time. It is killed.
    """
    try:
        done = subprocess.run(
            [sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return done.returncode, done.stdout.decode("utf-8", "replace")


TRIAL_SECONDS, BYTES_A_SECOND = 120.0, 20_000_000
"""Time limit of opening a file and writing one token: fixed seconds, and seconds by the file's size."""
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
    """Open a file with llama.cpp and write one token in a child process, which may abort or hang."""
    seconds = TRIAL_SECONDS + path.stat().st_size / BYTES_A_SECOND
    try:
        code, _ = run_trial(["-c", _TRIAL, str(path)], seconds)
    except TimeoutError:
        raise ModelError(
            f"llama.cpp did not open {path} and write a token within {seconds:.0f} s: its chat template or its sizes "
            "may be wrong; use another file of the model"
        ) from None
    if code == _REFUSED:
        raise ModelError(f"llama.cpp cannot open {path}: it is damaged, or of an unknown architecture")
    if code:
        raise ModelError(f"llama.cpp crashed while it opened {path} (exit code {code}); use another file of the model")


@cache
def _server(path: Path) -> Any:
    """Open a file with llama.cpp, once per process; its HTTP port is on the loopback, behind a random key."""
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
        raise ModelError(f"llama.cpp cannot open {path}: it is damaged, or of an unknown architecture") from None


def open_gguf(name: str) -> GgufChat:
    """Open the model of a name such as `gguf:models/qwen.gguf`.

    Raises:
        BadInput: There is no such file, or its header has an invalid value.
        ModelError: llama.cpp cannot open it.
        MissingExtra: `accord[gguf]` is not installed.
    """
    path = Path(name.removeprefix(GGUF))
    if not path.is_file():
        raise BadInput(f"no GGUF file at {path}; name the model as gguf:PATH")
    return GgufChat(path)

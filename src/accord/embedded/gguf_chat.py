"""GGUF files as chat models through llama.cpp, with fingerprints that do not read gigabytes."""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Lock, Timer
from typing import Any

from accord.edges import BadInput, MissingExtra, ModelError
from accord.embedded.gguf_weights import check_header
from accord.models import (
    GGUF,
    IN_PROCESS_CONTEXT,
    TIMEOUT_SECONDS,
    CallFailed,
    ChatModel,
    Prompt,
    Reply,
    Usage,
    chat_request_of,
)
from accord.runtime import PYTHON

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

    def __init__(self, path: Path, timeout: float) -> None:
        """See `open_gguf` for errors; `timeout` is the time limit of a reply in seconds."""
        self.name = f"{GGUF}{path.name}"
        self.endpoint = f"{GGUF}{path.name}:{fingerprint(path)}"
        self._timeout, self._process = timeout, _process(path)
        self._turn = asyncio.Lock()

    async def ask(self, prompt: Prompt, /) -> Reply:
        """Return the reply; one prompt at a time, since llama.cpp's slots share no prefixes.

        Raises:
            CallFailed: llama.cpp refused the prompt (longer than the context, or an unsupported schema), crashed, or
                gave no reply in time.
        """
        request = {**chat_request_of(prompt), **_PLAIN, "seed": prompt.repeat}
        async with self._turn:
            try:
                answer = await asyncio.to_thread(self._process.ask, request, self._timeout)
            except TimeoutError:
                raise CallFailed("timeout", f"{self.name} gave no reply within {self._timeout:.0f} s") from None
            except ModelError as error:
                raise CallFailed("crashed", str(error)) from None
        if "error" in answer:
            refusal = answer["error"]
            reason = "too long" if refusal.get("type") == "exceed_context_size_error" else "rejected"
            raise CallFailed(reason, f"{self.name}: {refusal.get('message', 'no reason given')}")
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


# --- child processes -------------------------------------------------------------------------------------------------


def run_trial(arguments: Sequence[str], seconds: float) -> tuple[int, str]:
    """Run Python with these arguments and return its exit code and its standard output.

    A library that aborts, hangs or fills the memory ends the child only.

    Raises:
        TimeoutError: The child did not end in time. It is killed.
    """
    try:
        done = subprocess.run(
            [*PYTHON, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return done.returncode, done.stdout.decode("utf-8", "replace")


TRIAL_SECONDS, BYTES_A_SECOND = 120.0, 20_000_000
"""Time limit of opening a file and writing one token: fixed seconds, and seconds by the file's size."""
_REFUSED = 3
_CHILD = f"""
import json, os, sys, threading, time
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever llama.cpp prints is no reply
import xllamacpp
parent = os.getppid()
def follow():
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)
threading.Thread(target=follow, daemon=True).start()
settings = xllamacpp.CommonParams()
settings.model.path = sys.argv[1]
settings.n_ctx, settings.n_parallel, settings.verbosity = {IN_PROCESS_CONTEXT}, 1, -1
settings.api_keys = [os.urandom(16).hex()]
try:
    server = xllamacpp.Server(settings)
except RuntimeError:
    os._exit({_REFUSED})
request = {{"messages": [{{"role": "user", "content": "Hello."}}], "max_tokens": 1}}
while True:
    print(json.dumps(server.handle_chat_completions(request)), file=replies, flush=True)
    line = sys.stdin.readline()
    if not line:
        os._exit(0)
    request = json.loads(line)
"""


class _GgufProcess:
    """llama.cpp with one file in a child process, which may abort or hang: its chat template is a program.

    The child's HTTP port is on the loopback, behind a random key. A child that was killed is started again for the next
    request.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, Lock()
        self._child: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def start(self) -> None:
        """Open the file, and write one token.

        Raises:
            ModelError: llama.cpp cannot open the file, crashes, or takes too long.
        """
        with self._lock:
            self._started()

    def ask(self, request: Mapping[str, Any], seconds: float) -> Any:
        """Return llama.cpp's answer to a request.

        Raises:
            TimeoutError: There is none in time; the child was killed.
            ModelError: The child crashed, or cannot be started again.
        """
        with self._lock:
            child = self._started()
            assert child.stdin is not None
            try:
                child.stdin.write(json.dumps(request).encode() + b"\n")
                child.stdin.flush()
            except OSError:
                pass  # it has ended, and returns no answer
            answer = self._answer(child, seconds)
            if answer is None:
                code = self._ended()
                raise ModelError(
                    f"llama.cpp crashed with {self._path} (exit code {code}); use another file of the model"
                )
            return answer

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._ended()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is not None:
            return self._child
        seconds = TRIAL_SECONDS + self._path.stat().st_size / BYTES_A_SECOND
        self._child = subprocess.Popen(
            [*PYTHON, "-c", _CHILD, str(self._path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            answer = self._answer(self._child, seconds)
        except TimeoutError:
            raise ModelError(
                f"llama.cpp did not open {self._path} and write a token within {seconds:.0f} s: its chat template or "
                "its sizes may be wrong; use another file of the model"
            ) from None
        if answer is not None:
            return self._child
        code = self._ended()
        if code == _REFUSED:
            raise ModelError(f"llama.cpp cannot open {self._path}: it is damaged, or of an unknown architecture")
        raise ModelError(
            f"llama.cpp crashed while it opened {self._path} (exit code {code}); use another file of the model"
        )

    def _answer(self, child: subprocess.Popen[bytes], seconds: float) -> Any:
        """Return the next answer, or `None` if the child ended; on a timeout, kill it and raise `TimeoutError`."""
        is_late = Event()

        def kill() -> None:
            is_late.set()
            child.kill()

        timer = Timer(seconds, kill)
        timer.daemon = True
        timer.start()
        assert child.stdout is not None
        line = child.stdout.readline()
        timer.cancel()
        if is_late.is_set():
            self._ended()
            raise TimeoutError
        return json.loads(line) if line.endswith(b"\n") else None

    def _ended(self) -> int:
        """Forget the child, and return its exit code."""
        child, self._child = self._child, None
        assert child is not None and child.stdin is not None and child.stdout is not None
        code = child.wait()
        child.stdout.close()
        with suppress(OSError):
            child.stdin.close()
        return code


@cache
def _process(path: Path) -> _GgufProcess:
    """Open a file with llama.cpp, once per process."""
    if find_spec("xllamacpp") is None:
        raise MissingExtra("a GGUF model", "gguf")
    check_header(path)
    process = _GgufProcess(path)
    process.start()
    return process


def open_gguf(name: str, timeout: float = TIMEOUT_SECONDS) -> GgufChat:
    """Open the model of a name such as `gguf:models/qwen.gguf`; `timeout` is the time limit of a reply in seconds.

    Raises:
        BadInput: There is no such file, or its header has an invalid value.
        ModelError: llama.cpp cannot open it.
        MissingExtra: `accord[gguf]` is not installed.
    """
    path = Path(name.removeprefix(GGUF))
    if not path.is_file():
        raise BadInput(f"no GGUF file at {path}; name the model as gguf:PATH")
    return GgufChat(path, timeout)

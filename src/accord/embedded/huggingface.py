"""Hugging Face folders of causal and encoder-decoder language models, opened offline with weights as safetensors."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from inspect import signature
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from accord.edges import BadInput, MissingExtra, ModelError, format_size, one_line, regular_size, sendable
from accord.embedded.gguf_chat import fingerprint, run_trial
from accord.embedded.gguf_weights import LONGEST_TEMPLATE
from accord.embedded.language_model import draw_token
from accord.embedded.llama import Floats
from accord.models import HF, IN_PROCESS_CONTEXT, CallFailed, ChatMessage, ChatModel, Prompt, Reply, Usage

SHOWN_WEIGHTS = 3
"""Number of missing weights that an error lists."""
BETWEEN = "\n\n"
"""Separator of messages for a tokenizer without a chat template."""
BRACES, OTHER_BRACES = "{}", "«»"
"""Braces of JSON, and the characters that replace them for a model without braces in its vocabulary, such as T5."""


@dataclass(frozen=True)
class OpenedModel:
    """A model with its tokenizer.

    Attributes:
        model: A causal or encoder-decoder model of `transformers`, in evaluation mode.
        tokenizer: Its tokenizer.
        ends: Tokens that end an answer.
        context: Maximum tokens of prompt and answer together.
    """

    model: Any
    tokenizer: Any
    ends: frozenset[int]
    context: int

    @property
    def end(self) -> int:
        """Token that ends an answer in training.

        Raises:
            ModelError: Neither the model nor its tokenizer has one.
        """
        if not self.ends:
            raise ModelError("the model has no token that ends an answer: set eos_token in its tokenizer_config.json")
        token = self.tokenizer.eos_token_id
        return min(self.ends) if token is None else int(token)

    @property
    def has_encoder(self) -> bool:
        """True for an encoder-decoder model, which reads the prompt apart from the answer."""
        return bool(self.model.config.is_encoder_decoder)

    @cached_property
    def _spelling(self) -> dict[int, str]:
        """Replacements of braces, as for `str.translate`."""
        tokens = self.tokenizer(BRACES, add_special_tokens=False).input_ids
        written = self.tokenizer.decode(tokens, skip_special_tokens=True)
        is_written = all(brace in written for brace in BRACES)
        return {} if is_written else dict(zip(map(ord, BRACES), OTHER_BRACES, strict=True))

    def answer_tokens(self, text: str) -> list[int]:
        """Return the tokens of an answer, with the one that ends it."""
        return [*self.tokenizer(text.translate(self._spelling), add_special_tokens=False).input_ids, self.end]

    def answer_text(self, tokens: Sequence[int]) -> str:
        """Return the text of an answer's tokens."""
        text = str(self.tokenizer.decode(tokens, skip_special_tokens=True))
        return text.translate(str.maketrans(OTHER_BRACES, BRACES)) if self._spelling else text

    @property
    def vocabulary(self) -> int:
        """Number of tokens that the model can read."""
        return int(self.model.get_input_embeddings().weight.shape[0])


def model_folder(path: str | Path) -> Path:
    """Return the folder of a model.

    Raises:
        BadInput: The folder does not exist or has no model.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise BadInput(f"no folder at {folder}. Download the model there first, and pass the folder's path")
    if not (folder / "config.json").is_file() or not any(folder.glob("*.safetensors")):
        raise BadInput(f"{folder} is not a model: a Hugging Face folder has config.json and weights as *.safetensors")
    for path in sorted(folder.iterdir()):
        try:
            _ = path.is_dir() or regular_size(path)  # reading a named pipe would block
        except FileNotFoundError:
            raise BadInput(f"{path} is a broken link; download the model again") from None
    return folder


def fingerprint_of(folder: Path) -> str:
    """Return a hash of the configuration, the vocabulary and samples of the weights of a folder."""
    names = ("*.safetensors", "config.json", "generation_config.json", "tokenizer*", "*.jinja", "vocab*", "merges.txt")
    paths = {path for name in names for path in folder.glob(name) if path.is_file()}
    return fingerprint(*sorted(paths))


def open_folder(folder: Path) -> OpenedModel:
    """Load a folder into memory, or onto the GPU if there is one.

    Nothing is downloaded, no code of the folder runs, and nothing is unpickled.

    Raises:
        BadInput: config.json and the weights do not match.
        MissingExtra: `accord[finetune]` is not installed.
        ModelError: transformers cannot open it, its chat template fails, or weights are missing.
    """
    try:
        import transformers  # noqa: F401
    except ImportError:
        raise MissingExtra("a Hugging Face folder as a model", "finetune") from None
    check_layers(folder)
    try_folder(folder)
    try:
        with quiet_transformers():
            return _open(folder)
    except (KeyboardInterrupt, SystemExit, ModelError):
        raise
    except BaseException as error:
        # transformers and tokenizers raise anything; a panic of tokenizers is not an Exception.
        raise ModelError(f"transformers cannot open {folder}: {reason_of(error)}") from None


def _open(folder: Path) -> OpenedModel:
    """Open a folder; transformers' own exceptions pass."""
    import torch
    from transformers import AutoConfig, AutoTokenizer

    local = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(folder, **local)
    model, loading = _model_class(AutoConfig.from_pretrained(folder, **local)).from_pretrained(
        folder, dtype="auto", use_safetensors=True, output_loading_info=True, **local
    )
    absent = sorted({*map(str, loading["missing_keys"]), *(str(key[0]) for key in loading["mismatched_keys"])})
    if absent:
        others = f" and {len(absent) - SHOWN_WEIGHTS:,} others" if len(absent) > SHOWN_WEIGHTS else ""
        raise ModelError(
            f"{folder} lacks weights that its config.json needs: {', '.join(absent[:SHOWN_WEIGHTS])}{others}; "
            "download the model again"
        )
    if torch.cuda.is_available():
        model = model.to("cuda")
    elif model.dtype == torch.float16:
        model = model.float()  # CPUs are slow in float16
    context = int(getattr(model.config.get_text_config(), "max_position_embeddings", None) or IN_PROCESS_CONTEXT)
    return OpenedModel(model.eval(), tokenizer, _ends(model, tokenizer), min(context, IN_PROCESS_CONTEXT))


def _model_class(config: Any) -> Any:
    """Return the class of transformers that opens a configuration."""
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers from drawing progress bars and logging tables over the caller's output."""
    from transformers.utils import logging

    is_bar_shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if is_bar_shown:
            logging.enable_progress_bar()


def prompt_tokens(tokenizer: Any, messages: Sequence[ChatMessage]) -> list[int]:
    """Return the tokens of messages up to the answer, by the chat template or as plain text.

    Raises:
        CallFailed: The template or the tokenizer fails on these messages.
    """
    cleaned = [{"role": m.role, "content": _without_marks(tokenizer, sendable(m.content))} for m in messages]
    try:
        if tokenizer.chat_template:
            text = tokenizer.apply_chat_template(cleaned, tokenize=False, add_generation_prompt=True)
            return list(tokenizer(text, add_special_tokens=False).input_ids)
        tokens = list(tokenizer("".join(message["content"] + BETWEEN for message in cleaned)).input_ids)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a template raises anything; a panic of tokenizers is not an Exception
        raise CallFailed("rejected", f"the model's chat template refuses the prompt: {reason_of(error)}") from None
    return tokens[:-1] if tokens and tokens[-1] == tokenizer.eos_token_id else tokens


def _without_marks(tokenizer: Any, text: str) -> str:
    """Return a text without control tokens, which would end its message."""
    for mark in tokenizer.added_tokens_decoder.values():
        if mark.special and len(mark.content) > 1:
            text = text.replace(mark.content, f"{mark.content[0]} {mark.content[1:]}")
    return text


def _ends(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the tokens that end an answer, by the model and its tokenizer."""
    ends = [model.config.eos_token_id, getattr(model.generation_config, "eos_token_id", None), tokenizer.eos_token_id]
    lists = [end if isinstance(end, list) else [end] for end in ends]
    return frozenset(int(token) for tokens in lists for token in tokens if token is not None)


_one_at_a_time = Lock()
"""Models in this process share its cores, so two answers at the same time are slower."""


class HfChat(ChatModel):
    """A folder as a chat model, with token probabilities and without JSON Schemas."""

    def __init__(self, folder: Path) -> None:
        """See `open_hf` for errors."""
        digest = fingerprint_of(folder)
        self.name = f"{HF}{folder.resolve().name}"
        self.endpoint = f"{self.name}:{digest}"
        self._opened = _opened(folder.resolve(), digest)
        self._turn = asyncio.Lock()

    async def ask(self, prompt: Prompt, /) -> Reply:
        """Return the reply; one prompt at a time. A prompt with a JSON Schema, or too long, raises CallFailed."""
        if prompt.schema is not None:
            raise CallFailed("rejected", f"{self.name} does not support a JSON Schema")
        tokens, room = prompt_tokens(self._opened.tokenizer, prompt.messages), self._opened.context
        if len(tokens) + prompt.max_tokens > room:
            raise CallFailed("too long", f"{len(tokens)} tokens do not fit into the {room} of {self.name}")
        async with self._turn:
            return await asyncio.to_thread(self._answer, prompt, tokens)

    def _answer(self, prompt: Prompt, tokens: Sequence[int]) -> Reply:
        tokenizer = self._opened.tokenizer
        if max(tokens, default=0) >= (size := self._opened.vocabulary):
            raise CallFailed("rejected", f"the tokenizer writes token {max(tokens)}, but the model has only {size:,}")
        with _one_at_a_time:
            written, first = write(self._opened, tokens, prompt.max_tokens, prompt.temperature, prompt.repeat)
        text = self._opened.answer_text(written)
        tokens_shown = _likeliest(tokenizer, first, prompt.top_logprobs) if prompt.top_logprobs else None
        return Reply(text, self.name, tokens_shown, Usage(len(tokens), max(len(written), 1)))


def write(
    opened: OpenedModel, prompt: Sequence[int], most: int, temperature: float, seed: int
) -> tuple[list[int], Floats]:
    """Return up to `most` tokens after a prompt, without the end token, and (vocabulary,) the first log probabilities.

    Temperature 0 takes the likeliest token each time; above it, tokens are drawn by `seed`.
    """
    import torch

    random = np.random.default_rng(seed)
    written: list[int] = []
    first: Floats | None = None
    known: Any = None
    cache_name = _cache_name(opened.model)
    with torch.inference_mode():
        input_name, last, fixed = _first_input(opened, prompt)
        while len(written) < most:
            read = torch.tensor([list(last)], device=opened.model.device)
            out = opened.model(**{input_name: read, cache_name: known}, **fixed, use_cache=True)
            mass: Floats = torch.log_softmax(out.logits[0, -1].float(), dim=-1).cpu().numpy()
            first = mass if first is None else first
            token, known = draw_token(mass, temperature, random), out[cache_name]
            if token in opened.ends:
                break
            written.append(token)
            last = [token]
    assert first is not None
    return written, first


def _first_input(opened: OpenedModel, prompt: Sequence[int]) -> tuple[str, Sequence[int], dict[str, Any]]:
    """Return the name of the written tokens' argument, the first tokens, and the arguments of every step."""
    import torch

    if not opened.has_encoder:
        return "input_ids", prompt, {}
    read = torch.tensor([encoder_input(opened, prompt)], device=opened.model.device)
    encoded = opened.model.get_encoder()(input_ids=read, return_dict=True)
    return "decoder_input_ids", [opened.model.config.decoder_start_token_id], {"encoder_outputs": encoded}


def encoder_input(opened: OpenedModel, prompt: Sequence[int]) -> list[int]:
    """Return a prompt as an encoder reads it, with the token that ends a text."""
    return [*prompt, opened.end]


def _cache_name(model: Any) -> str:
    """Return the name of a model's argument for kept keys and values, which transformers 5.24 renamed."""
    return "cache" if "cache" in signature(model.forward).parameters else "past_key_values"


def _likeliest(tokenizer: Any, mass: Floats, most: int) -> dict[str, float]:
    """Return the texts of the likeliest tokens with their probabilities; equal texts are added."""
    probabilities: dict[str, float] = {}
    likeliest = np.argsort(mass)[::-1][:most]
    for text, token in zip(tokenizer.batch_decode([[int(token)] for token in likeliest]), likeliest, strict=True):
        probabilities[text] = probabilities.get(text, 0.0) + float(np.exp(mass[token]))
    return probabilities


@cache
def _opened(folder: Path, digest: str) -> OpenedModel:
    """Return the folder with this digest, opened once per process."""
    return open_folder(folder)


def open_hf(name: str) -> HfChat:
    """Open the model of a name such as `hf:models/evaluator`; see `model_folder` and `open_folder` for errors."""
    return HfChat(model_folder(name.removeprefix(HF)))


# --- trial in a child process: the model without weights, its tokenizer, and a short prompt ---------------------------

TRIAL_SECONDS = 120.0
"""Time limit of the trial, imports included; it usually takes a few seconds."""
TRIAL_BYTES = 4 << 30
"""Address space of the trial, in addition to the space of its imports."""
LONGEST_REASON = 500
_REFUSED = 3
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")


def reason_of(error: BaseException) -> str:
    """Return the first non-empty line of an error's message, with its type if the line is short."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    name = type(error).__name__
    return one_line(lines[0] if lines and len(lines[0]) > 20 else ": ".join([name, *lines[:1]]), LONGEST_REASON)


def check_layers(folder: Path) -> None:
    """Compare the number of layers in config.json with the number of tensors in the weights.

    Raises:
        BadInput: The configuration is not a JSON object, a file of weights is damaged, or the layers do not match.
    """
    from safetensors import SafetensorError, safe_open

    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"cannot open {folder}: config.json is not JSON ({reason_of(error)})") from None
    if not isinstance(config, dict):
        raise BadInput(f"cannot open {folder}: config.json is not a JSON object")
    tensors = 0
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, "numpy") as file:
                tensors += len(list(file.keys()))
        except (SafetensorError, OSError) as error:
            raise ModelError(f"cannot open {folder}: {path.name}: {reason_of(error)}") from None
    nested = config.get("text_config")
    for part in (config, nested if isinstance(nested, dict) else {}):
        for name in _LAYERS:
            layers = part.get(name, 1)
            if not isinstance(layers, int) or not 1 <= layers <= max(tensors, 1):
                value = one_line(str(layers), 40)
                raise BadInput(
                    f"cannot open {folder}: {name} in config.json is {value}, but the weights have {tensors} tensors"
                )


def try_folder(folder: Path) -> None:
    """Check the sizes of a model in a child process, and render a short prompt with its tokenizer.

    Raises:
        ModelError: The configuration, the tokenizer or the chat template fails, crashes, or takes too long.
    """
    try:
        code, output = run_trial(["-m", __name__, str(folder)], TRIAL_SECONDS)
    except TimeoutError:
        raise ModelError(
            f"cannot open {folder}: its configuration, tokenizer or chat template did not work within "
            f"{TRIAL_SECONDS:.0f} s; use another copy of the model"
        ) from None
    if code == _REFUSED:
        raise ModelError(f"cannot open {folder}: {output}")
    if code:
        raise ModelError(
            f"cannot open {folder}: its configuration, tokenizer or chat template crashed (exit code {code}); "
            "use another copy of the model"
        )


def _fault(folder: str) -> str | None:
    """Return the fault of a folder's configuration, tokenizer or chat template, or `None` if all work."""
    from transformers import AutoTokenizer

    _limit_memory()
    part = "config.json"
    try:
        if (fault := _size_fault(Path(folder))) is not None:
            return fault
        part = "tokenizer"
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        part = "chat template"
        size = _template_size(tokenizer.chat_template)
        if size > LONGEST_TEMPLATE:
            return f"chat template: it has {format_size(size)}, at most {format_size(LONGEST_TEMPLATE)} are read"
        count = len(prompt_tokens(tokenizer, [ChatMessage("user", "Hello.")]))
    except CallFailed as error:
        return error.failure.detail
    except BaseException as error:
        # Jinja, transformers and tokenizers raise anything; a panic of tokenizers is not an Exception.
        return f"{part}: {reason_of(error)}"
    if count > LONGEST_TEMPLATE:
        return (
            f"chat template: it writes {count:,} tokens for the prompt 'Hello.', at most {LONGEST_TEMPLATE:,} are read"
        )
    return None


def _size_fault(folder: Path) -> str | None:
    """Return a message if config.json describes far more weights than the folder has; quantized folders pass."""
    import torch
    from safetensors import safe_open
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if getattr(config, "quantization_config", None) is not None:
        return None
    with torch.device("meta"):
        needed = sum(tensor.numel() for tensor in _model_class(config).from_config(config).parameters())
    present = 0
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "numpy") as file:
            present += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    if needed > 2 * present:
        return f"it lacks weights: config.json describes {needed:,} parameters, the files have {present:,}"
    return None


def _template_size(template: Any) -> int:
    """Return the length of the longest template; a tokenizer may have several by name."""
    templates = template.values() if isinstance(template, dict) else [template or ""]
    return max((len(str(template)) for template in templates), default=0)


def _limit_memory() -> None:
    """Limit the address space of this process on Linux; other systems do not enforce such a limit."""
    if sys.platform == "linux":
        import resource

        used = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = used + TRIAL_BYTES
        if hard == resource.RLIM_INFINITY or limit < hard:
            resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


if __name__ == "__main__":
    fault = _fault(sys.argv[1])
    if fault is not None:
        sys.stdout.buffer.write(fault.encode("utf-8", "replace"))
        sys.stdout.flush()
    os._exit(0 if fault is None else _REFUSED)

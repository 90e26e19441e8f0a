"""Checks of a Hugging Face folder before its model is built: sizes, tokenizer and chat template.

`try_folder` runs this module in a child process. The child describes the model without weights, opens the tokenizer
and renders a short prompt.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from accord.edges import (
    BadInput,
    ModelError,
    format_size,
    one_line,
)
from accord.embedded.gguf_header import LONGEST_TEMPLATE
from accord.embedded.trial import run_trial

TRIAL_SECONDS = 120.0
"""Time limit of the trial, imports included; it usually takes a few seconds."""
TRIAL_BYTES = 4 << 30
"""Address space of the trial, in addition to that of its imports."""
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
        code, output = run_trial(["-P", "-m", __name__, str(folder)], TRIAL_SECONDS)
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
    """Return the fault of a folder's configuration, tokenizer or chat template; None if all work."""
    from transformers import AutoTokenizer

    from accord.embedded.huggingface import prompt_tokens
    from accord.models import CallFailed, ChatMessage

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
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if getattr(config, "quantization_config", None) is not None:
        return None
    with torch.device("meta"):
        needed = sum(tensor.numel() for tensor in AutoModelForCausalLM.from_config(config).parameters())
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

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
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

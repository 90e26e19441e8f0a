"""A pulled model's files in memory: its weights, its tokenizer, and what tells its weights apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accord.embedded.catalogue import TOKENIZER, WEIGHTS, opened
from accord.errors import MissingExtra


@dataclass(frozen=True)
class Loaded:
    """What lies in a model's folder; `fingerprint` is the beginning of its weights' SHA-256."""

    folder: Path
    tensors: Mapping[str, NDArray[np.float32]]
    tokenizer: Any
    fingerprint: str


def load(name: str, kind: str) -> Loaded:
    """The files of a pulled model of a kind.

    Raises:
        BadInput: It is not on this machine, is of another kind, or is damaged.
        UnknownName: Nothing is called so.
        MissingExtra: `accord[embedded]` is not installed.
    """
    try:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtra("an embedded model", "embedded") from None
    folder, about = opened(name, kind)
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    return Loaded(folder, load_file(folder / WEIGHTS), tokenizer, about["files"][WEIGHTS][:12])

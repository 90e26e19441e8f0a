"""Find, read and write local files and objects in object storage: `chats/*.parquet`, `s3://bucket/chats/`.

Objects are read with fsspec (`accord[s3]` for S3), Parquet with Polars. Writes are atomic: a file by renaming, an
object by one request.
"""

from __future__ import annotations

import glob
import io
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from accord.edges import (
    MB,
    BadInput,
    MissingExtra,
    create_private,
    one_line,
    open_regular,
    register_url_secrets,
    replace_file,
    strip_url_secrets,
    unpacked_name,
    write_atomically,
)
from accord.formats.files.row_reader import locate, suffix
from accord.formats.files.workbooks import EXCEL_SUFFIXES
from accord.formats.plain_text_chats import TEXT_SUFFIX

READ = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", *sorted(EXCEL_SUFFIXES), TEXT_SUFFIX)
"""Suffixes of the files that are read from a folder, also compressed."""
_MAGIC = frozenset("*?[")
_BLOCK = 8 * MB
_PACKAGES = {"gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs"}
SCHEMES = frozenset({"s3", "s3a", *_PACKAGES})
"""Supported schemes. fsspec would also open web pages, archives and other machines."""


class File(NamedTuple):
    """A file or an object: its path or URL, size in bytes, and a version that changes with the content.

    `stem` is its name without suffixes, with the folders below the named folder or glob, so that other files do not
    change it.
    """

    url: str
    size: int
    version: str
    stem: str


def _stem(path: str, root: str) -> str:
    """Return a file's name without suffixes, with the folders below a root.

    >>> _stem("/chats/2026/may.jsonl.gz", "/chats"), _stem("/chats/may.jsonl", "")
    ('2026/may', 'may')
    """
    whole = PurePosixPath(path)
    below = whole.relative_to(root) if root and whole.is_relative_to(root) else PurePosixPath(whole.name)
    return str(below.with_name(whole.name.split(".")[0] or whole.name))


def _fixed(pattern: str) -> str:
    """Return the folder of a glob before its first wildcard."""
    parts = PurePosixPath(pattern).parts
    first = next((place for place, part in enumerate(parts) if _MAGIC & set(part)), len(parts) - 1)
    return str(PurePosixPath(*parts[:first])) if first else ""


def is_remote(name: str) -> bool:
    """Return True for a URL, such as `s3://bucket/chats`. Opening it rejects schemes outside `SCHEMES`."""
    return "://" in name


def display_path(name: str) -> str:
    """Return a path, or a URL without password and query."""
    return strip_url_secrets(name) if is_remote(name) else name


def find_files(named: str) -> list[File]:
    """Return the files of a path, a folder, a glob or a URL of one of these, sorted by name.

    Raises:
        BadInput: There are none, or the store is unreachable.
        MissingExtra: `accord[s3]` is not installed.
    """
    files = _remote_files(named) if is_remote(named) else _local_files(named)
    if not files:
        kinds = ", ".join(READ)
        raise BadInput(
            f"no file of conversations at {display_path(named)}; a folder is searched for {kinds}, also compressed"
        )
    return sorted(files)


def _local_files(named: str) -> list[File]:
    path = Path(named)
    root = ""
    if path.is_dir():
        root = path.resolve().as_posix()
        items = path / "items.jsonl.gz"
        paths = [items] if items.is_file() else [each for each in path.rglob("*") if each.is_file() and _is_read(each)]
    elif path.exists() or not _MAGIC & set(named):
        paths = [path]
    else:
        root = Path(_fixed(Path(named).as_posix())).resolve().as_posix()
        paths = [each for each in map(Path, glob.glob(named, recursive=True)) if each.is_file()]
    return [_local(locate(each), root) for each in paths]


def _local(path: Path, root: str) -> File:
    status, absolute = path.stat(), path.resolve()
    return File(str(absolute), status.st_size, str(status.st_mtime_ns), _stem(absolute.as_posix(), root))


def _is_read(path: Path) -> bool:
    return suffix(path) in READ and not any(part.startswith((".", "_")) for part in path.parts[-2:])


def _remote_files(named: str) -> list[File]:
    system, path = _system(named)
    scheme = named.partition("://")[0]
    root = ""
    with _store_errors("find", named):
        if _MAGIC & set(path):
            root = _fixed(path)
            details = system.glob(path, detail=True)
        elif system.isfile(path):
            details = {path: system.info(path)}
        else:
            root, everything = path, system.find(path, detail=True)
            details = {name: each for name, each in everything.items() if _is_read(Path(unpacked_name(name)))}
        return [
            File(f"{scheme}://{name}", int(each["size"] or 0), _version(each), _stem(name, root))
            for name, each in details.items()
            if each["type"] == "file" and each["size"]
        ]


def _version(details: dict[str, Any]) -> str:
    return str(
        next((details[key] for key in ("ETag", "etag", "md5Hash", "LastModified", "mtime") if details.get(key)), "")
    )


def open_file(url: str) -> IO[bytes]:
    """Open a file or an object; `seek` and `readline` fetch only the bytes that they need.

    Raises:
        BadInput: It cannot be read.
    """
    if not is_remote(url):
        return io.BufferedReader(open_regular(Path(url)), MB)
    system, path = _system(url)
    with _store_errors("read", url):
        return io.BufferedReader(system.open(path, "rb", block_size=_BLOCK), MB)  # bounds `readline`


@contextmanager
def local_copy(url: str, limit: int | None = None) -> Iterator[Path]:
    """Provide a local file with the first `limit` bytes of a file or an object, by default with all bytes.

    A downloaded copy is deleted afterwards.

    Raises:
        BadInput: It cannot be read.
    """
    if not is_remote(url):
        yield Path(url)
        return
    with tempfile.TemporaryDirectory(prefix="accord-") as folder:
        # The folder may name a version or a channel.
        *_, above, name = ("", *PurePosixPath(url.partition("://")[2]).parts)
        is_plain = bool(above) and above.replace("-", "").replace("_", "").replace(".", "").isalnum()
        path = Path(folder, above, name) if is_plain else Path(folder, name)
        path.parent.mkdir(exist_ok=True)
        with _store_errors("read", url), open_file(url) as source, path.open("wb") as target:
            if limit is None:
                shutil.copyfileobj(source, target, MB)
            else:
                target.write(source.read(limit))
        yield path


def write_file(url: str, content: bytes | Path) -> None:
    """Write a file or an object atomically, from bytes or from a local file.

    Raises:
        BadInput: The store is unreachable or denies access.
    """
    if is_remote(url):
        system, path = _system(url)
        with _store_errors("write", url):
            if isinstance(content, bytes):
                system.pipe_file(path, content)
            else:
                system.put_file(str(content), path)
        return
    local, partial = Path(url), Path(f"{url}.{secrets.token_hex(4)}.partial")
    if isinstance(content, bytes):
        write_atomically(local, content)
        return
    local.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(content, create_private(partial))
        replace_file(partial, local)
    finally:
        partial.unlink(missing_ok=True)


def list_names(folder: str) -> list[str]:
    """Return the names of the files in a folder, without subfolders; empty if the folder does not exist.

    Raises:
        BadInput: The store is unreachable.
    """
    if not is_remote(folder):
        return sorted(each.name for each in Path(folder).iterdir()) if Path(folder).is_dir() else []
    system, path = _system(folder)
    with _store_errors("list", folder):
        system.invalidate_cache()
        try:
            return sorted(PurePosixPath(name).name for name in system.ls(path, detail=False))
        except FileNotFoundError:
            return []


def delete_file(url: str) -> None:
    """Delete a file or an object if it exists.

    Raises:
        BadInput: The store is unreachable or denies access.
    """
    if not is_remote(url):
        Path(url).unlink(missing_ok=True)
        return
    system, path = _system(url)
    with _store_errors("remove", url):
        try:
            system.rm_file(path)
        except FileNotFoundError:
            return


def join_path(folder: str, name: str) -> str:
    """Return the URL or path of a name in a folder."""
    return f"{folder.rstrip('/')}/{name}" if is_remote(folder) else str(Path(folder) / name)


def storage_options(url: str) -> dict[str, str] | None:
    """Return the options with which Polars uses the S3 endpoint of the environment; `None` without one."""
    if not is_remote(url):
        return None
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not url.startswith(("s3://", "s3a://")) or not endpoint:
        return None
    plain = {"aws_allow_http": "true"} if endpoint.startswith("http://") else {}
    return {"aws_endpoint_url": endpoint, "aws_region": os.environ.get("AWS_DEFAULT_REGION", "us-east-1"), **plain}


def _system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL and the path within it.

    Raises:
        BadInput: The scheme is not in `SCHEMES`, the URL has a user or a password, or a package is not installed.
        MissingExtra: `accord[s3]` is not installed.
    """
    scheme = url.partition("://")[0]
    if scheme not in SCHEMES or "::" in url:
        raise BadInput(f"{one_line(scheme, 40)}:// is not supported; name a local path, or s3://, gs:// or az://")
    register_url_secrets(url)
    user = url.partition("://")[2].partition("/")[0].rpartition("@")[0]
    if user and (not scheme.startswith("ab") or ":" in user):  # abfs://container@account/path has no secret
        raise BadInput(
            f"{display_path(url)} was given with a user or a password; remove them and set the store's environment "
            "variables, for S3 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    try:
        from fsspec.core import url_to_fs

        with _store_errors("open", url):
            system: tuple[Any, str] = url_to_fs(url)
    except ImportError:
        if scheme in _PACKAGES:
            raise BadInput(f"{scheme}:// needs a package: pip install {_PACKAGES[scheme]}") from None
        raise MissingExtra(f"reading {scheme}://", "s3") from None
    return system


@contextmanager
def _store_errors(verb: str, url: str) -> Iterator[None]:
    """Convert the exceptions of a store's client to a BadInput of one line."""
    try:
        yield
    except (BadInput, MissingExtra, ImportError):
        raise
    except Exception as error:
        kind = type(error).__name__
        raise BadInput(f"cannot {verb} {display_path(url)}: {one_line(f'{kind}: {error}', 300)}") from None

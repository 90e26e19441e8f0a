"""Output files: private modes, atomic writes, and protection of inputs and project files from being overwritten.

| function | use |
|---|---|
| `open_private` | files that are written row by row |
| `create_private` | files that a library writes: SQLite, Polars |
| `write_atomically` | files that are replaced in one step: pages, cards, spooled answers |
| `check_output` | paths that a user names |

New files have mode 0600, regardless of the umask. An existing file keeps its mode.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from accord.edges.errors import BadInput
from accord.edges.output_escaping import one_line

PRIVATE = 0o600
"""Mode of new files: readable and writable by their owner only."""
IS_WINDOWS = os.name == "nt"
_REPLACE_SECONDS = 1.0
_LONGEST_NAME = 100


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)


def open_private(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Open a file for writing or appending, as `open` does; a file that does not exist is created with mode 0600."""
    return open(path, mode, opener=_opener, **options)


def create_private(path: Path) -> Path:
    """Create an empty file with mode 0600 for a library to write to; an existing file stays as it is."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
    return path


def write_atomically(path: Path, content: str | bytes, errors: str = "strict") -> None:
    """Write a file in one step, a new one with mode 0600: readers see the old or the new content, never a mixture.

    A text is encoded as UTF-8, and missing folders are created. An existing file keeps its mode and, as far as the
    system allows, its owner. A link is followed, and a device or a pipe is written directly.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8", errors)
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and not target.is_file():
        target.write_bytes(data)
        return
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as file:
            file.write(data)
            file.flush()
            _copy_owner(target, file.fileno())
            os.fsync(file.fileno())
        replace_file(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def replace_file(source: Path, target: Path) -> None:
    """Rename a file over another; on Windows, wait for a second while another process has either file open."""
    deadline = time.monotonic() + _REPLACE_SECONDS
    while True:
        try:
            os.replace(source, target)
            return
        except PermissionError:
            if not IS_WINDOWS or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _copy_owner(source: Path, file: int) -> None:
    """Give an open file the mode and the owner of an existing one; Windows has no such modes."""
    if sys.platform == "win32" or not source.exists():
        return
    about = source.stat()
    for owner, group in ((about.st_uid, -1), (-1, about.st_gid)):
        with suppress(PermissionError):  # only root may give a file away
            os.fchown(file, owner, group)
    os.fchmod(file, stat.S_IMODE(about.st_mode) & 0o777)


_UNUSABLE = re.compile(r"""[<>:"/\\|?*\x00-\x1f]|[. ]$|^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)|^$""", re.IGNORECASE)


def check_folder_names(names: Iterable[str], where: str) -> None:
    """Check that names can be names of files or folders on Linux, macOS and Windows, and stay different there.

    >>> check_folder_names(["default", "judge+words"], "evaluators")

    Raises:
        BadInput: A name has a character or a form that Windows refuses, or two names differ in case only.
    """
    before: dict[str, str] = {}
    for name in names:
        if _UNUSABLE.search(name) or len(name.encode("utf-8", "replace")) > _LONGEST_NAME:
            raise BadInput(
                f"{where}: {one_line(repr(name), 60)} cannot be the name of a folder on every system; use letters, "
                f"digits, `-` and `_`, at most {_LONGEST_NAME} bytes"
            )
        if (other := before.setdefault(name.casefold(), name)) != name:
            raise BadInput(f"{where}: {other!r} and {name!r} are the same folder on macOS and Windows; rename one")


# --- protected files --------------------------------------------------------------------------------------------------


class ProtectedFile(NamedTuple):
    """A file or folder that no output may replace.

    Attributes:
        path: The file, or the folder with all its files; it need not exist.
        role: Its role in an error, such as `the store`.
    """

    path: Path
    role: str


def is_same_path(first: Path, second: Path) -> bool:
    """Return True if both paths refer to one file, also through links, `..` or a case-insensitive file system.

    >>> is_same_path(Path("chats.jsonl"), Path("other/../chats.jsonl"))
    True
    """
    try:
        return first.samefile(second)
    except (OSError, ValueError):
        return _name(first) == _name(second)


def is_inside(path: Path, folder: Path) -> bool:
    """Return True if a path is a folder or inside it."""
    return any(is_same_path(parent, folder) for parent in (path, *Path(os.path.realpath(path)).parents))


def _name(path: Path) -> str:
    return os.path.normcase(os.path.realpath(path)).casefold()


def check_output(
    path: Path,
    protected: Iterable[ProtectedFile],
    is_earlier: Callable[[Path], bool] | None = None,
    force: bool = False,
    written: Iterable[Path] = (),
) -> None:
    """Refuse the path of an output that would replace another file.

    Args:
        path: The file or folder to write.
        protected: Files that are never replaced.
        is_earlier: Recognizes an earlier output of the same command, which may be replaced; None accepts every file.
        force: True replaces any file that is not protected.
        written: Other files that the command writes, such as a temporary file.

    Raises:
        BadInput: The path is a protected file, or an existing file or folder that `is_earlier` rejects.
    """
    for file in protected:
        for target in (path, *written):
            if is_same_path(target, file.path) or (file.path.is_dir() and is_inside(target, file.path)):
                raise BadInput(f"{target} is {file.role}, which no output may replace. Name another output")
    if force or is_earlier is None or not _has_content(path):
        return
    if not is_earlier(path):
        raise BadInput(
            f"{path} exists and does not look like an earlier output of this command. Name another output, or replace "
            "it: --force"
        )


def _has_content(path: Path) -> bool:
    """Return True for a file with content, or a folder that is not empty; devices and pipes have none."""
    if path.is_dir():
        return any(path.iterdir())
    return path.is_file() and path.stat().st_size > 0

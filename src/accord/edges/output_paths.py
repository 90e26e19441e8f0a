"""Paths of outputs: a command overwrites neither its inputs nor the files of a project."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from accord.edges.errors import BadInput


class ProtectedFile(NamedTuple):
    """A file or folder that no output may replace.

    Attributes:
        path: The file, or the folder with everything in it; it need not exist.
        role: Its role in an error, such as `the store`.
    """

    path: Path
    role: str


def is_same_path(first: Path, second: Path) -> bool:
    """Return True if both paths name one file, through links, `..` or other capitals on a file system without case.

    >>> is_same_path(Path("chats.jsonl"), Path("other/../chats.jsonl"))
    True
    """
    try:
        return first.samefile(second)
    except (OSError, ValueError):
        return _name(first) == _name(second)


def is_inside(path: Path, folder: Path) -> bool:
    """Return True if a path is a folder, or lies in it."""
    return any(is_same_path(each, folder) for each in (path, *Path(_real(path)).parents))


def _real(path: Path) -> str:
    return os.path.realpath(path)


def _name(path: Path) -> str:
    return os.path.normcase(_real(path)).casefold()


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
        force: Whether to replace any other file, unless it is protected.
        written: Further files that the command writes beside the output, such as a temporary one.

    Raises:
        BadInput: The path is that of a protected file, or a file or folder exists there that `is_earlier` rejects.
    """
    for each in protected:
        for target in (path, *written):
            if is_same_path(target, each.path) or (each.path.is_dir() and is_inside(target, each.path)):
                raise BadInput(f"{target} is {each.role}, which no output may replace. Name another output")
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

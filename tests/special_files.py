"""Pipes and links for tests, which skip where a system has none; Windows permits links to some users only."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest


def make_pipe(path: str | Path) -> None:
    """Make a named pipe."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no named pipes")
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    """Make a socket in the working folder; longer paths are no addresses."""
    if not hasattr(socket, "AF_UNIX"):
        pytest.skip("this system has no sockets with names")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)


def make_link(path: Path, target: str | Path) -> None:
    """Make a symbolic link to a file, a folder, a device or nothing."""
    if str(target).startswith("/dev/") and not Path(target).exists():
        pytest.skip("this system has no such device")
    try:
        path.symlink_to(target)
    except OSError as error:
        if os.name == "posix":
            raise
        pytest.skip(f"this account may not make links ({error})")

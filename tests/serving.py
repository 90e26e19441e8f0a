"""Servers for tests: an application in a thread of this process, and `accord serve` as a process."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from processes import Forked
from waiting import PATIENCE, until

TOKEN = "a-token-of-sixteen-characters"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def is_open(port: int) -> bool:
    """Return True if a server listens on a port of this machine."""
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def running(app: Any, **options: Any) -> Iterator[int]:
    """Run an ASGI application in a thread, and yield its port."""
    settings = {"log_level": "error", "access_log": False, **options}
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", 0, **settings))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started or not thread.is_alive())
    assert server.started
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


@dataclass
class ServeProcess:
    """`accord serve` in a folder, with what it printed in `serve.log`."""

    folder: Path
    port: int
    process: Forked

    @property
    def log(self) -> str:
        return (self.folder / "serve.log").read_text(encoding="utf-8")


@contextmanager
def serving(folder: Path, *arguments: str, port: int | None = None, token: str = TOKEN) -> Iterator[ServeProcess]:
    """Run `accord serve` until it listens; at the end of the block stop it, unless the test has."""
    port = port or free_port()
    command = ["-m", "accord", "serve", "--port", str(port), *arguments]
    with (folder / "serve.log").open("ab") as log:
        process = Forked(command, cwd=folder, stdout=log, stderr=log, env={**os.environ, "ACCORD_TOKEN": token})
    server = ServeProcess(folder, port, process)
    try:
        until(lambda: is_open(port) or process.poll() is not None, lambda: server.log)
        assert process.poll() is None, server.log
        yield server
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)

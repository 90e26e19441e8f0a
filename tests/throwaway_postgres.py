"""A temporary PostgreSQL server from the machine's binaries, on a socket in a temporary folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from accord.edges import BadInput


class ThrowAwayPostgres:
    """A cluster that lives as long as the block: `with ThrowAwayPostgres() as cluster: Store(cluster.url)`.

    Raises:
        BadInput: The server's binaries are not on this machine.
    """

    def __init__(self) -> None:
        if os.name != "posix":
            raise BadInput(
                "the cluster listens on a Unix socket, which PostgreSQL's driver has on Linux and macOS only"
            )
        try:
            asked = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            raise BadInput("PostgreSQL's server binaries are not on this machine") from None
        self._binaries = Path(asked.stdout.strip())
        if not (self._binaries / "initdb").exists():
            raise BadInput("PostgreSQL's initdb is not on this machine")
        # The server refuses to run as root.
        as_nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        self._as_user = as_nobody if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        # Short, because socket paths are limited; readable by the server's user if this process runs as root.
        self._folder = Path(tempfile.mkdtemp(prefix="accord-pg-", dir="/tmp"))
        self._folder.chmod(0o777)

    @property
    def url(self) -> str:
        """The URL of an empty database."""
        return f"postgresql://accord@/store?host={self._folder}"

    def start(self) -> None:
        """Start it, again where it was killed."""
        options = f"-k {self._folder} -c listen_addresses='' -c fsync=off"
        data, log = f"{self._folder}/db", f"{self._folder}/log"
        self._run("pg_ctl", "-D", data, "-o", options, "-w", "-l", log, "start")

    def kill(self) -> None:
        """Stop it at once, as a crash would."""
        self._run("pg_ctl", "-D", f"{self._folder}/db", "-m", "immediate", "stop")

    def _run(self, program: str, *options: str) -> None:
        command = [*self._as_user, str(self._binaries / program), *options]
        subprocess.run(command, check=True, capture_output=True, cwd="/")

    def __enter__(self) -> ThrowAwayPostgres:
        try:
            self._run("initdb", "-D", f"{self._folder}/db", "-U", "accord", "-A", "trust", "-E", "UTF8", "--no-locale")
            self.start()
            self._run("createdb", "-h", str(self._folder), "-U", "accord", "store")
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(subprocess.CalledProcessError):  # it was killed already
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

"""Processes of their own that need not import first: forked from one that has done nothing but that.

They can be killed and waited for like any other process, and start a second faster.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import small_profile

ORIGIN = """
import contextlib, gc, importlib, json, os, runpy, socket, sys, types
control = socket.socket(fileno=int(sys.argv[1]))
for name in ("accord.cli.commands", "accord.verbs.project", "accord.evidence.rubric_answers", "accord.models.ask_judge",
             "accord.store.store", "accord.learning.evaluator_loader", "accord.live.service.app", "accord.live.log_follower",
             "accord.project.evaluators.comparing", "accord.scoring.file", "accord.verbs.run", "accord.web.app",
             "accord.testing", "httpx2", "scipy.optimize", "sklearn.linear_model", "psycopg",
             "uvicorn", "fastapi"):
    try:
        importlib.import_module(name)
    except ImportError:
        pass
from accord.evidence.source import sources
from accord.learning.head import heads
sources.names(), heads.names()  # imports the modules of all plug-ins
sys.path.insert(0, sys.argv[2])
import small_profile
small_profile.set_defaults(of_users=False)
sys.path.pop(0)
assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be forked"
gc.collect()
gc.freeze()  # children do not collect inherited objects, which would copy their pages

def begun():
    \"\"\"Wait for what to run; comes back in the process that is to run it.\"\"\"
    while True:
        message, fds, _, _ = socket.recv_fds(control, 2**20, 4)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not message:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            status, *streams = fds
            child = os.fork()
            if child == 0:
                os.close(status)
                for place, stream in enumerate(streams):
                    os.dup2(stream, place)
                    os.close(stream)
                return json.loads(message)
            for stream in streams:
                os.close(stream)
            os.write(status, b"%d\\n" % child)
            _, ended, usage = os.wait4(child, 0)
            os.write(status, b"%d %d\\n" % (ended, round(1e6 * (usage.ru_utime + usage.ru_stime))))
            os._exit(0)
        for each in fds:
            os.close(each)

about = begun()
if about["has_defaults_of_users"]:
    small_profile.set_defaults(of_users=True)
os.chdir(about["cwd"])
os.environ.clear()
os.environ.update(about["env"])
how, what, *rest = about["arguments"]
sys.argv = ["-c", *rest]
if how == "-m":
    runpy.run_module(what, run_name="__main__", alter_sys=True)
else:
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(what, "<string>", "exec"), main.__dict__)
"""


@functools.cache
def _origin() -> socket.socket:
    """Path of the socket of the forking server, which ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-c", ORIGIN, str(theirs.fileno()), str(Path(__file__).parent)]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], **quiet)  # type: ignore[call-overload]
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


class Forked(subprocess.Popen[Any]):
    """`Popen` of `-c CODE ...` or `-m MODULE ...` by this interpreter."""

    processor_time = 0.0
    """Seconds of all ended processes."""

    def __init__(self, arguments: Sequence[str], **options: Any) -> None:
        super().__init__(arguments, **options)

    def _execute_child(self, *given: Any) -> None:
        told = inspect.signature(subprocess.Popen._execute_child).bind(self, *given).arguments  # type: ignore[attr-defined]
        streams = [told["p2cread"], told["c2pwrite"], told["errwrite"]]
        self._status, theirs = socket.socketpair()
        env = os.environ if told["env"] is None else told["env"]
        about = {
            "arguments": list(told["args"]),
            "cwd": str(told["cwd"] or os.getcwd()),
            "env": dict(env),
            "has_defaults_of_users": small_profile.has_defaults_of_users(),
        }
        fds = [theirs.fileno(), *(place if fd == -1 else fd for place, fd in enumerate(streams))]
        socket.send_fds(_origin(), [json.dumps(about).encode()], fds)
        theirs.close()
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(told[name] for name in pipes))  # type: ignore[attr-defined]
        self._told = self._status.makefile("rb")
        self.pid = int(self._told.readline())
        self._child_created = True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags & os.WNOHANG:
            try:
                self._status.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                return 0, 0
        status, microseconds = map(int, self._told.readline().split())
        Forked.processor_time += microseconds / 1e6
        self._told.close()
        self._status.close()
        return self.pid, status

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                pid, status = self._try_wait(os.WNOHANG) if self.returncode is None else (0, 0)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


if sys.platform != "linux":  # where a process cannot tell how many threads it has, none is forked

    class Forked(subprocess.Popen[Any]):  # type: ignore[no-redef]
        """`Popen` of `-c CODE ...` or `-m MODULE ...` by this interpreter."""

        processor_time = 0.0

        def __init__(self, arguments: Sequence[str], **options: Any) -> None:
            super().__init__([sys.executable, *arguments], **options)


def run(arguments: Sequence[str], timeout: float | None = None, check: bool = False, **options: Any) -> Any:
    """`subprocess.run` with captured output."""
    with Forked(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            out, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, out, errors)
    if check:
        done.check_returncode()
    return done

"""Worker pool: results do not depend on the fate of the workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import refused
from waiting import PATIENCE

from accord.edges import BadInput
from accord.embedded.gguf_chat import run_trial
from accord.runtime import WorkerPool, worker_pool

WAITS = 30


def waiting_for(there: Path, work: Callable[[int], int]) -> Callable[[int], int]:
    """Work whose first piece waits until a worker has begun with another."""
    own = os.getpid()

    def piece_of(piece: int) -> int:
        if piece == 0:
            end = time.monotonic() + WAITS
            while not there.exists():
                assert time.monotonic() < end, "no other process took the last piece"
                time.sleep(0.01)
        if os.getpid() != own:
            there.touch()
        return work(piece)

    return piece_of


def test_results_keep_the_order_of_pieces(tmp_path: Path) -> None:
    own, begun = os.getpid(), list[int]()

    def elsewhere(piece: int) -> int:
        print("what work prints is no answer")
        return 10 * piece + (os.getpid() != own)

    with WorkerPool(3, imports=()) as pool:
        found = pool(waiting_for(tmp_path / "there", elsewhere), range(12), begun.append)
        again = pool(waiting_for(tmp_path / "again", elsewhere), range(2))
    assert [each // 10 for each in found] == [*range(12)] and [each // 10 for each in again] == [0, 1]
    assert [each % 10 for each in found] == [int(piece not in begun) for piece in range(12)]
    assert any(each % 10 for each in found) and any(each % 10 for each in again)


def test_single_process_does_all_work() -> None:
    with WorkerPool(1) as pool:
        assert pool(lambda piece: (piece, os.getpid()), "ab") == [("a", os.getpid()), ("b", os.getpid())]
        assert pool(str, []) == []


@pytest.mark.posix
def test_piece_of_a_killed_worker_is_repeated(tmp_path: Path) -> None:
    own = os.getpid()

    def killed(piece: int) -> int:
        if os.getpid() != own:
            os.kill(os.getpid(), signal.SIGKILL)
        return piece

    with WorkerPool(3, imports=()) as pool:
        assert pool(waiting_for(tmp_path / "there", killed), range(5)) == [*range(5)]
        assert pool(lambda piece: (piece, os.getpid()), range(3)) == [(piece, own) for piece in range(3)]


def test_error_of_a_worker_is_raised(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def fails(piece: int) -> int:
        if piece == 3:
            raise ZeroDivisionError(f"piece {piece}")
        return piece

    with WorkerPool(2, imports=()) as pool, pytest.raises(ZeroDivisionError, match="piece 3"):
        pool(waiting_for(tmp_path / "there", fails), range(4))
    assert capfd.readouterr() == ("", "")


def test_work_that_cannot_be_pickled_is_done_locally(tmp_path: Path) -> None:
    lock, own = threading.Lock(), os.getpid()

    def holds(piece: int) -> tuple[int, int]:
        with lock:
            return piece, os.getpid()

    class Refused:
        """Work that pickles but does not unpickle."""

        def __call__(self, piece: int) -> tuple[int, int]:
            return piece, os.getpid()

        def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
            return __import__, ("a module that is not there",)

    for work in (holds, Refused()):
        with WorkerPool(2, imports=()) as pool:
            assert pool(work, range(4)) == [(piece, own) for piece in range(4)]
    with WorkerPool(2, imports=["a module that is not there"]) as pool:
        assert pool(lambda piece: (piece, os.getpid()), range(4)) == [(piece, own) for piece in range(4)]


SCRIPT = """
import os, signal, time
from accord.runtime import (WorkerPool,)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it

class Own:
    pass

def work(piece):
    if piece == 1:
        print(os.getpid(), Own.__name__, flush=True, file=open({told!r}, "w"))
    time.sleep(60)

with WorkerPool(2, imports=()) as pool:  # no `if __name__ == "__main__"`
    pool(work, range(2))
"""


@pytest.mark.linux
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_workers_end_with_the_main_process(tmp_path: Path, how: signal.Signals) -> None:
    told = tmp_path / "told"
    (tmp_path / "script.py").write_text(SCRIPT.format(told=str(told)), encoding="utf-8")
    with subprocess.Popen([sys.executable, "script.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as script:
        end = time.monotonic() + WAITS
        while not (told.exists() and told.read_text(encoding="utf-8").endswith("\n")):
            assert script.poll() is None and time.monotonic() < end
            time.sleep(0.02)
        child, name = told.read_text(encoding="utf-8").split()
        assert name == "Own" and int(child) != script.pid
        script.send_signal(how)
        assert script.wait(WAITS) == -how
        assert script.stderr is not None and script.stderr.read().count("Traceback") == (how == signal.SIGINT)
    while Path(f"/proc/{child}").exists():
        assert time.monotonic() < end, "the worker still runs"
        time.sleep(0.02)


@pytest.mark.parametrize("wrong", ["0", "-1", "many", "1.5"])
def test_invalid_number_of_processes_is_rejected(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("ACCORD_JOBS", wrong)
    with pytest.raises(BadInput, match=f"ACCORD_JOBS must be a number of processes from 1, got '{wrong}'"):
        WorkerPool()
    with pytest.raises(BadInput, match="jobs must be a number of processes from 1, got '-2'"):
        WorkerPool(-2)


def test_worker_that_starts_while_the_threads_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    starting, is_closing = threading.Event(), threading.Event()

    class SlowStart(subprocess.Popen[bytes]):
        def __init__(self, *given: Any, **options: Any) -> None:
            starting.set()
            is_closing.wait(PATIENCE)
            super().__init__(*given, **options)

    monkeypatch.setattr(worker_pool, "Popen", SlowStart)
    with worker_pool.WorkerThreads(time.sleep, 1, imports=()) as threads:
        waiting = threads.submit(600)
        assert starting.wait(PATIENCE)
        threading.Timer(0.2, is_closing.set).start()
    with pytest.raises(worker_pool.WorkerLost):
        waiting.result(0)


@pytest.fixture
def hostile_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with files that have the names of modules, as a project of another person may have."""
    for name in ("json", "os", "pip", "cloudpickle"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.attack
def test_child_process_imports_no_file_of_the_working_folder(hostile_folder: Path) -> None:
    assert run_trial(["-c", "import json; print(json.dumps(1))"], WAITS) == (0, "1\n")
    assert not (hostile_folder / "ran").exists()
    source = Path(worker_pool.__file__).parents[1]
    starting = {path.name for path in source.rglob("*.py") if "sys.executable" in path.read_text(encoding="utf-8")}
    assert starting == {"worker_pool.py"}, "other modules start Python by `accord.runtime.PYTHON`"


@pytest.mark.attack
def test_worker_and_download_import_no_file_of_the_working_folder(
    hostile_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("ACCORD_MODELS", str(hostile_folder / "models"))
    with WorkerPool(2, imports=()) as pool:
        assert pool(waiting_for(hostile_folder / "there", lambda piece: piece), range(2)) == [0, 1]
    assert "pip cannot download" in refused("models", "pull", "minilm-l6")
    assert not (hostile_folder / "ran").exists()

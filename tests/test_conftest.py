"""How these tests are run: what becomes of them where one takes its worker along."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DYING = """
import os, signal, pytest

@pytest.mark.parametrize("n", range(12))
def test_each(n):
    if n == {dies}:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("dies", [6, 11], ids=["between", "last"])
def test_what_kills_its_worker_has_failed_and_all_others_are_run(tmp_path: Path, dies: int) -> None:
    (tmp_path / "test_dying.py").write_text(DYING.format(dies=dies), encoding="utf-8")
    (tmp_path / "pytest.ini").touch()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "conftest", "-p", "no:cacheprovider"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert "1 failed, 11 passed" in done.stdout, done.stdout + done.stderr
    assert f"crashed while running 'test_dying.py::test_each[{dies}]'" in done.stdout

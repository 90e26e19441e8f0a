"""Distribution of tests over workers after a test kills its worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DYING = """
import os, signal, time, pytest

time.sleep(2 * (os.environ.get("PYTEST_XDIST_WORKER") == "gw2"))  # this worker starts after work is distributed

@pytest.mark.parametrize("n", range(12))
def test_each(n):
    if n in {0, 1, 11}:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_crashed_tests_fail_and_all_others_run(tmp_path: Path) -> None:
    (tmp_path / "test_dying.py").write_text(DYING, encoding="utf-8")
    (tmp_path / "pytest.ini").touch()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "conftest", "-p", "no:cacheprovider"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert "3 failed, 9 passed" in done.stdout, done.stdout + done.stderr
    for last in (0, 1, 11):
        assert f"crashed while running 'test_dying.py::test_each[{last}]'" in done.stdout

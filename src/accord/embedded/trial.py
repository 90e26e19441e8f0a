"""Trials of model files in a child process: a library that aborts, hangs or fills the memory ends the child only."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence


def run_trial(arguments: Sequence[str], seconds: float) -> tuple[int, str]:
    """Run Python with these arguments and return its exit code and its standard output.

    Raises:
        TimeoutError: The child did not end in time. It is killed.
    """
    try:
        done = subprocess.run(
            [sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return done.returncode, done.stdout.decode("utf-8", "replace")

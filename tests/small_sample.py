"""The support conversations of the sample alone, 40 with their 127 ratings: tests that learn need no more."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from accord.sample import sources as whole


@cache
def sources() -> list[Path]:
    """Files of the first conversations and of their ratings, as `accord.sample.sources` has them of all."""
    folder = Path(tempfile.mkdtemp(prefix="accord-sample-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    chats, ratings = whole()
    header, *rated = ratings.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = {
        folder / chats.name: [
            line for line in chats.read_text("utf-8").splitlines(keepends=True) if '"support-' in line
        ],
        folder / ratings.name: [header, *(line for line in rated if line.startswith("support-"))],
    }
    for path, lines in kept.items():
        path.write_text("".join(lines), encoding="utf-8")
    return list(kept)

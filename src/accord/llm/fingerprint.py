"""Tells models of one name apart by their files, without reading all of them: gigabytes would take minutes."""

from __future__ import annotations

import hashlib
from pathlib import Path

SAMPLES, SAMPLE_BYTES = 64, 1 << 16
"""Where and how much of a file is read to know it again."""


def fingerprint(*paths: Path) -> str:
    """A digest of files in their order: of the size of each, its beginning, and samples of the rest."""
    digest = hashlib.sha256()
    for path in paths:
        size = path.stat().st_size
        digest.update(str(size).encode())
        with path.open("rb") as file:
            for place in range(SAMPLES):
                file.seek(place * size // SAMPLES)
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()[:12]

"""Shapes of rating files that are read wrongly: a judge's answers as a person's ratings, or a question too many.

The shapes and the expected readings are those of the tests (`rating_shapes.py`).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness import Row
from rating_shapes import SHAPES, is_right, read_shape


def who_rated_rows() -> list[Row]:
    """Return a row with the number of shapes, the number read wrongly, and the names of these."""
    wrong = []
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            if not is_right(shape, read_shape(shape, Path(folder))):
                wrong.append(shape.name)
    return [{"what": "who-rated", "shapes": len(SHAPES), "wrong": len(wrong), "names": ", ".join(wrong)}]

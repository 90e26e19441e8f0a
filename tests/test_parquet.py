"""Parquet files over the limits, and files with damaged footers."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from accord.edges import BadInput, BadRow
from accord.formats import read_rows


def nested(levels: int) -> pl.DataFrame:
    series = pl.Series("a", ["x"])
    for _ in range(levels):
        series = pl.Series("a", [series])
    return series.to_frame()


def one_long_text() -> pl.DataFrame:
    return pl.DataFrame({"id": ["a"], "text": ["x" * (70 << 20)]})


@pytest.mark.parametrize(
    ("created", "output"),
    [
        (one_long_text, "unpacks to more than 64 MB, 200 times its size"),
        (lambda: pl.DataFrame({"id": ["a"], "m": [np.zeros(2_100_000)]}), "a group of 1 rows with 2,100,001 values"),
        (lambda: pl.DataFrame({"a": pl.repeat(1, 21_000_000, eager=True, dtype=pl.Int8)}), "with 21,000,000 values"),
        (lambda: pl.DataFrame({f"c{index}": [1] for index in range(10_001)}), "more than 10,000 columns"),
        (lambda: nested(110), "nested deeper than 100 levels"),
    ],
    ids=["one text", "one row", "one group", "columns", "levels"],
)
@pytest.mark.attack
def test_parquet_over_the_limits_is_refused_without_unpacking(
    created: Callable[[], pl.DataFrame], output: str, tmp_path: Path
) -> None:
    path, frame = tmp_path / "t.parquet", created()
    frame.write_parquet(path, row_group_size=max(len(frame), 1))
    with pytest.raises(BadInput, match=output):
        list(read_rows(path))


def test_one_bad_parquet_row_does_not_lose_others(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"id": ["a", "b"], "text": ["x" * (33 << 20), "hello"]}).write_parquet(path)
    bad, good = read_rows(path)
    assert isinstance(bad, BadRow) and "longer than 8 MB" in bad.reason
    assert not isinstance(good, BadRow) and good.fields == {"id": "b", "text": "hello"}


def test_all_parquet_column_types_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame = pl.DataFrame(
        {"id": ["a", None], "l": [[1], []], "s": [{"x": "é"}, None], "f": [0.5, None], "b": [True, None]}
    )
    for compression in ("zstd", "snappy", "gzip", "uncompressed"):
        frame.write_parquet(path, compression=compression)  # type: ignore[arg-type]
        assert [row.fields for row in read_rows(path) if not isinstance(row, BadRow)] == frame.to_dicts()


@pytest.mark.attack
def test_a_damaged_footer_is_a_one_line_error(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pl.DataFrame({"id": ["a", "b"], "messages": [["x"], ["y"]]}).write_parquet(path)
    whole, drawn = path.read_bytes(), random.Random(0)
    refused = 0
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length] + b"PAR1")
        with pytest.raises(BadInput, match="Parquet|packed"):
            list(read_rows(path))
    for _ in range(150):
        changed = bytearray(whole)
        changed[-drawn.randint(5, len(whole) // 2)] = drawn.randint(0, 255)
        path.write_bytes(changed)
        try:
            list(read_rows(path))
        except BadInput as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused


@pytest.mark.attack
def test_sizes_that_only_the_pages_state_are_limited(tmp_path: Path) -> None:
    path, size = tmp_path / "t.parquet", 100_000_000
    texts = [f"{number:06}" + "y" * (size // 1000) for number in range(1000)]
    pl.DataFrame({"id": [str(number) for number in range(1000)], "text": texts}).write_parquet(path, compression="zstd")
    content = bytearray(path.read_bytes())
    start, changed = len(content) - 8 - int.from_bytes(content[-8:-4], "little"), 0
    for place in range(start, len(content) - 12):
        value, end = zigzag(content, place)
        if not content[place - 1] & 128 and size <= value <= 2 * size:
            content[place:end] = padded(1000, end - place)
            changed += 1
    assert changed == 2  # of the column and of the group
    path.write_bytes(content)
    with pytest.raises(BadInput, match="unpacks to more than"):
        list(read_rows(path))


def zigzag(content: bytearray, place: int) -> tuple[int, int]:
    """Return the number of Thrift's compact protocol at a place, and its end."""
    value = shift = 0
    while content[place] & 128 and shift < 63:
        value, shift, place = value | (content[place] & 127) << shift, shift + 7, place + 1
    return (value | content[place] << shift) >> 1, place + 1


def padded(number: int, length: int) -> bytes:
    """Return a number of Thrift's compact protocol in this many bytes."""
    groups = [(2 * number) >> 7 * place & 127 for place in range(length)]
    return bytes(group | 128 for group in groups[:-1]) + bytes(groups[-1:])

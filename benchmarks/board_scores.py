"""A mart of planted scores, as many as are wanted: for the board under load (`workbench.py --only dashboard`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from accord.store import Mart, bundle_of, mart_schema, row_key

SYSTEMS, WEEKS, TURNS = 8, 26, 5
BEGIN = 1_780_000_000_000
"""Milliseconds since 1970 of the first conversation."""


def planted(folder: Path, rows: int, question: str = "Q0", seed: int = 0, systems: int = SYSTEMS) -> Mart:
    """A mart of so many scored turns, five a conversation, half a year long; system 0 is the worst by .2."""
    import polars as pl

    rng, mart = np.random.default_rng(seed), Mart(folder)
    for start in range(0, rows // TURNS, 20_000):
        count = min(20_000, rows // TURNS - start)
        names = [f"conversation-{start + n}" for n in range(count)]
        system = rng.integers(0, systems, count)
        level = rng.normal(0, 0.5, count) - 0.4 * (system == 0)
        each = np.repeat(np.arange(count), TURNS)
        drift = level[each, None] + rng.normal(0, 0.4, (len(each), 1))
        shares = np.exp(drift * np.array([-1.5, -0.5, 0.5, 1.5]))
        shares /= shares.sum(axis=1, keepdims=True)
        turn = np.tile(np.arange(TURNS) * 2 + 1, count)
        when = BEGIN + rng.integers(0, WEEKS * 7, count) * 86_400_000
        inputs = rng.integers(0, 50_000, count)
        bundles = np.array([bundle_of(name) for name in names])
        about = {"question": question, "annotator": "population", "evaluator": "calibration@planted"}
        keys = [
            row_key({**about, "conversation": names[one], "turn": int(t)}) for one, t in zip(each, turn, strict=True)
        ]
        schema = mart_schema()
        cells = {
            "conversation": pl.Series(names).gather(each), "turn": turn, "value": shares @ np.arange(1.0, 5.0),
            "low": np.full(len(each), 1.0), "high": np.full(len(each), 4.0),
            "probabilities": pl.Series(shares.tolist()),
            "system": pl.Series([f"system-{s}" for s in system]).gather(each),
            "version": pl.Series([f"v{s % 3}" for s in system]).gather(each), "time": when[each], "scored": when[each],
            "topic": pl.Series([f"topic {t}" for t in inputs % 40]).gather(each), "key": keys,
            "input": pl.Series([f"{t:016x}" for t in inputs]).gather(each), "bundle": bundles[each],
        }  # fmt: skip
        frame = pl.DataFrame(cells).with_columns(
            *(pl.lit(value).alias(name) for name, value in about.items()),
            pl.lit("calibration|planted").alias("signature"), pl.lit("batch").alias("origin"),
            pl.lit(False).alias("synthetic"), pl.lit([1.0, 2.0, 3.0, 4.0]).alias("options"),
        )  # fmt: skip
        missing = [pl.lit(None, kind).alias(name) for name, kind in schema.items() if name not in frame.columns]
        mart.add_frame(frame.with_columns(missing).select(pl.col(n).cast(kind) for n, kind in schema.items()))
    mart.compact()
    return mart

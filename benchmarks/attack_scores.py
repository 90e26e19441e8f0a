"""Hostile scores: damaged parts, manifests and files of the mart, and odd texts and times on their way there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Lock

import polars as pl
from attack_files import Write, holds, instead, linked, row
from attacking import CONVERSATIONS, Case, Ran, Workshop, accord, environment, messages

_MAKING = Lock()


def _scored(shop: Workshop) -> Path:
    """Copy a project with scores in parts and in the mart."""
    origin = shop.folder / "scored"
    with _MAKING:
        if not origin.exists():
            made = shop.learned()
            ran = accord(made, "score", "chats.jsonl", "--out", "out/")
            if ran.code != 0:
                sys.exit(f"parts of scores cannot be made: {ran.err}")
            made.rename(origin)
    folder = shop.place()
    shutil.copytree(origin, folder, dirs_exist_ok=True)
    return folder


def _rewritten(change: Callable[[pl.DataFrame], pl.DataFrame], **more: object) -> Write:
    """Write a part with other rows or changed metadata."""

    def make(path: Path) -> None:
        said = {name: text for name, text in pl.read_parquet_metadata(path).items() if name.startswith("accord")}
        said = {name: json.dumps({**json.loads(text), **more}) for name, text in said.items()}
        change(pl.read_parquet(path)).write_parquet(path, metadata=said)

    return make


def _overwritten(path: Path) -> None:
    """Destroy the pages of a Parquet file and keep its footer."""
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 4] = b"\xff" * (len(content) // 4 - 4)
    path.write_bytes(bytes(content))


DAMAGED: dict[str, Write] = {
    "fewer rows": _rewritten(lambda rows: rows.head(9)),
    "another count": _rewritten(lambda rows: rows, rows=10**9),
    "a column less": _rewritten(lambda rows: rows.drop("low")),
    "a column of texts": _rewritten(lambda rows: rows.with_columns(pl.col("value").cast(pl.String))),
    "no metadata": lambda path: pl.read_parquet(path).write_parquet(path),
    "cut off": lambda path: os.truncate(path, path.stat().st_size // 2),
    "cut at the end": lambda path: os.truncate(path, path.stat().st_size - 20),
    "pages overwritten": _overwritten,
    "empty": holds(b""),
    "a text": holds("no Parquet\n" * 900),
    "a pipe": instead(os.mkfifo),
    "a device": instead(linked("/dev/zero")),
    "a folder": instead(Path.mkdir),
}
"""Damage to files of scores: each is named in one line and never accepted."""
OF_PARTS: dict[str, Write] = {
    "fewer rows, metadata that agree": _rewritten(lambda rows: rows.head(9), rows=9, scored=9),
    "values gone": _rewritten(lambda rows: rows.with_columns(pl.lit(None, pl.Float64).alias("value"))),
    "cells that are no JSON": _rewritten(lambda rows: rows.with_columns(pl.lit("{{").alias("distribution"))),
    "another part's name": _rewritten(lambda rows: rows, key="0" * 16),
}
OF_MART: dict[str, Write] = {"replaces the store": _rewritten(lambda rows: rows, replaces=["../accord.db"])}


def _manifest(**changes: object) -> Write:
    def make(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return make


MANIFESTS: dict[str, Write] = {
    "no JSON": holds("{" * 90),
    "deep": holds("[" * 100_000),
    "NaN": holds("NaN"),
    "a list": holds("[]"),
    "parts that are a number": _manifest(parts=7),
    "parts of nothing": _manifest(parts=[{}]),
    "a key with a path": _manifest(parts=[{"key": "../../accord.db"}]),
    "nothing to make it from": _manifest(made_from=None),
    "left as text": _manifest(left="0"),
    "a pipe": instead(os.mkfifo),
    "a device": instead(linked("/dev/zero")),
}


def parts(shop: Workshop) -> Iterator[Case]:
    """`accord scores merge` of a damaged folder of parts."""

    def merged(file: str, write: Write) -> str:
        folder = _scored(shop)
        [path] = folder.glob(file)
        write(path)
        (folder / "merged.jsonl").write_text("kept")
        fell = accord(folder, "scores", "merge", "out", "--out", "merged.jsonl", "--force").fell(says=path.name)
        return fell or ("" if (folder / "merged.jsonl").read_text() == "kept" else "a file was overwritten")

    for name, write in {**DAMAGED, **OF_PARTS}.items():
        yield f"part: {name}", partial(merged, "out/part-*.parquet", write)
    for name, write in MANIFESTS.items():
        yield f"manifest: {name}", partial(merged, "out/manifest.json", write)
    for given in ("\u0661/\u0663", "1/\u00b2", "1/" + "9" * 5000, "0/1"):
        yield f"--shard {ascii(given)[:20]}", partial(_sharded, shop, given)


def _sharded(shop: Workshop, given: str) -> str:
    return accord(shop.learned(), "score", "chats.jsonl", "--out", "out/", "--shard", given).fell(says="--shard")


def mart(shop: Workshop) -> Iterator[Case]:
    """Damaged files of the mart: `store check` names them, `board repair` sets them aside, and scoring goes on."""

    def healed(write: Write) -> str:
        folder = _scored(shop)
        [path] = folder.glob("accord.db.scores/part-*.parquet")
        write(path)
        named = accord(folder, "store", "check").fell(says=path.name)
        rebuilt = accord(folder, "board", "repair", "out").fell((0,), f"{CONVERSATIONS} scores on the board")
        return named or rebuilt or accord(folder, "store", "check").fell((0,), "nothing is damaged")

    for name, write in {**DAMAGED, **OF_MART}.items():
        yield f"part of the mart: {name}", partial(healed, write)
    beside: dict[str, Write] = {"a pipe": os.mkfifo, "a folder": Path.mkdir, "a device": linked("/dev/zero")}
    for name, write in beside.items():
        yield f"live log: {name}", partial(_beside, shop, "live-00.jsonl", write)


def _beside(shop: Workshop, name: str, write: Write) -> str:
    folder = _scored(shop)
    write(folder / "accord.db.scores" / name)
    scored = accord(folder, "score", "chats.jsonl", "--out", "scores.jsonl").fell((0,))
    return scored or accord(folder, "store", "check").fell(says=name)


TEXTS = ("\ud800", "\udfff\ud800", "a\0b", "\x1b[2J\u202e", "x" * 9000)
TIMES = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00Z", "10000-01-01", 10**300, -1)
KEYS = ("system", "topic", "version", "user_group", "language", "time", "more", "\ud800")


def texts(shop: Workshop) -> Iterator[Case]:
    """Odd metadata are scored, shown on the board, and damage nothing."""
    for value in (*TEXTS, *TIMES, {"\ud800": ["\0"]}, [float("nan")]):
        yield f"metadata {ascii(value)[:30]}", partial(_taken, shop, value)


def _taken(shop: Workshop, value: object) -> str:
    folder = shop.learned()
    odd = b"".join(row(id=f"odd {place}", metadata={key: value}) for place, key in enumerate(KEYS))
    (folder / "odd.jsonl").write_bytes(row(id="whole") + odd)
    ran = [
        accord(folder, "import", "odd.jsonl"),
        accord(folder, "score", "odd.jsonl", "--out", "scores.csv"),
        accord(folder, "board", "repair", "--json"),
        accord(folder, "report", "--out", "report.html"),
        accord(folder, "store", "check", "--json"),
    ]
    fell = next((found for found in (each.fell((0,), megabytes=600) for each in ran) if found), "")
    rows = (folder / "scores.csv").read_text(encoding="utf-8") if (folder / "scores.csv").exists() else ""
    return fell or ("NaN in a score" if "NaN" in rows + "".join(each.out for each in ran) else "")


def killed(shop: Workshop) -> Iterator[Case]:
    """`accord follow` killed right after its first row loses no line, and scores none twice."""
    yield "killed", partial(_killed, shop.learned())


def _line(place: int) -> str:
    return json.dumps({"conversation": f"k{place}", **messages("", f"It is {place}.")[1]}) + "\n"


def _killed(folder: Path) -> str:
    log, rows, arguments = folder / "log.jsonl", folder / "rows.jsonl", ("follow", "log.jsonl", "--out", "rows.jsonl")
    log.write_text("".join(map(_line, range(100))))
    process = subprocess.Popen(
        [sys.executable, "-m", "accord", *arguments], cwd=folder, env=environment(folder),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    late = time.monotonic() + 120
    while (not rows.exists() or not rows.stat().st_size) and process.poll() is None and time.monotonic() < late:
        time.sleep(0.0005)
    process.kill()
    process.wait()
    with log.open("a") as stream:
        stream.writelines(map(_line, range(100, 102)))
    ran: Ran = accord(folder, *arguments, "--once")
    kept = [json.loads(line)["conversation"] for line in rows.read_text().splitlines() if line.endswith("}")]
    missing = 102 - len(set(kept))
    lost = f"{missing} of 102 lines lost, {len(kept) - len(set(kept))} twice"
    return ran.fell((0,), megabytes=450) or (lost if missing or len(kept) > len(set(kept)) else "")

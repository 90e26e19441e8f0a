"""Hostile files: conversations, YAML, folders of evaluators, stores, and logs that are followed."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import math
import os
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from attacking import Case, Ran, Workshop, accord, messages, settings
from numpy.typing import NDArray
from safetensors.numpy import load_file, save
from throwaway_postgres import ThrowAwayPostgres

from accord.edges import BadInput

MB = 1 << 20
Write = Callable[[Path], object]


def row(**more: object) -> bytes:
    """A valid conversation, except for the given fields."""
    return json.dumps({"id": "good", "messages": messages("hello", "hi"), **more}).encode() + b"\n"


def holds(content: bytes | str, times: int = 1) -> Write:
    """A file that repeats this content."""
    return lambda path: path.write_bytes((content.encode() if isinstance(content, str) else content) * times)


def members(pack: Callable[[bytes], bytes], unit: bytes) -> Write:
    """640 MB of the same byte in forty packed pieces one after another."""
    return lambda path: path.write_bytes(pack(unit * (16 * MB)) * 40)


def instead(write: Write) -> Write:
    """Something else where a file was."""

    def make(path: Path) -> None:
        path.unlink()
        write(path)

    return make


def sparse(head: bytes) -> Write:
    """A gigabyte that takes no room on the disk."""

    def make(path: Path) -> None:
        path.write_bytes(head)
        os.truncate(path, 1 << 30)

    return make


def linked(to: str) -> Write:
    """A link."""
    return lambda path: path.symlink_to(to)


def parquet(*, broken: int = 0, wide: int = 1, cells: int = 1, length: int = 5) -> Write:
    """A table of one value repeated; `broken` bytes are missing at its end."""

    def make(path: Path) -> None:
        column = pl.repeat("x" * length, cells, eager=True)
        pl.DataFrame({f"c{place}" if place else "transcript": column for place in range(wide)}).write_parquet(path)
        os.truncate(path, path.stat().st_size - broken)

    return make


def footer(path: Path) -> None:
    """A Parquet file that says its own description has two gigabytes."""
    path.write_bytes(b"PAR1" + bytes(64) + struct.pack("<I", 2**31 - 1) + b"PAR1")


DEFLATE = bytearray(gzip.compress(row() * 4000 + random.Random(0).randbytes(5000), mtime=0))
DEFLATE[len(DEFLATE) // 2] ^= 0x40
BAD: dict[str, tuple[str, Write]] = {
    "gzip bomb of members": ("a.jsonl.gz", members(gzip.compress, b"\0")),
    "bzip2 bomb": ("a.json.bz2", members(bz2.compress, b" ")),
    "xz bomb": ("a.csv.xz", members(lzma.compress, b"\0")),
    "a bit of deflate turned": ("a.jsonl.gz", holds(bytes(DEFLATE))),
    "nested objects": ("a.jsonl", holds('{"messages":', 90_000)),
    "nested lists in a document": ("a.json", holds(b'{"data": [' + b'{"a":[' * 60_000)),
    "300,000 columns": ("a.tsv", holds("\t".join(f"k{i}" for i in range(300_000)) + "\n")),
    "300,000 keys": ("a.jsonl", holds(json.dumps({f"k{i}": i for i in range(300_000)}) + "\n")),
    "an open quote": ("a.csv", holds('role,content\nuser,"', 3 * MB)),
    "UTF-16": ("a.csv", holds("role,content\nuser,hello\n".encode("utf-16"))),
    "NUL only": ("a.csv", holds(bytes(5000))),
    "a gigabyte of nothing": ("a.json", sparse(b'{"id": "x", "messages": [{"role": "user", "content": "')),
    "a gigabyte after a header": ("a.tsv", sparse(b"conversation\trole\tcontent\nc\tuser\thello\n")),
    "a pipe": ("a.jsonl.gz", os.mkfifo),
    "a link to a device": ("a.csv", linked("/dev/urandom")),
    "a terminal": ("a.jsonl", linked("/dev/ptmx")),
    "a link to itself": ("a.jsonl", linked("a.jsonl")),
    "no Parquet": ("a.parquet", holds(b"PAR1" + row() * 9 + b"PAR1")),
    "Parquet cut off": ("a.parquet", parquet(cells=500, broken=9)),
    "a footer of two gigabytes": ("a.parquet", footer),
    "Parquet of 30,000 columns": ("a.parquet", parquet(wide=30_000)),
    "a Parquet bomb": ("a.parquet", parquet(cells=2000, length=MB)),
    "a number without end": ("a.jsonl", holds(b'{"id": 1' + b"0" * 6000 + b', "messages": []}\n')),
}
"""Files with nothing in them that may be let in: one line, and exit code 1."""
ODD = {
    "halves of surrogate pairs": row(id="half \ud800", metadata={"system": "\udfff"}),
    "NUL in ids and texts": row(id="nul\0", messages=messages("a\0b", "\0")),
    "numbers beyond every type": row(metadata={"a": 10**400, "b": math.inf, "c": math.nan}, rating=10**30),
    "texts for lists": row(messages="[" * 500) + row(id="x", documents={"a": [1]}),
    "a time without end": row(id="t", created_at=1e300) + row(id="u", messages=[{"role": "user", "time": 1e300}]),
}  # fmt: skip
"""Rows next to a valid one: each is accepted or refused, without any other effect."""


def readers(shop: Workshop) -> Iterator[Case]:
    """`accord import` of hostile files."""
    for name, (file, write) in BAD.items():

        def bad(file: str = file, write: Write = write) -> str:
            folder = shop.bare()
            write(folder / file)
            return accord(folder, "import", file).fell()

        yield name, bad
    for name, rows in ODD.items():

        def odd(rows: bytes = rows) -> str:
            folder = shop.bare()
            (folder / "odd.jsonl").write_bytes(row(id="whole") + rows)
            fell = accord(folder, "import", "odd.jsonl", "--skip-bad-rows").fell((0,))
            ran = accord(folder, "store", "check", "--json")
            return fell or ran.fell((0,)) or ("" if "NaN" not in ran.out else "NaN in what is printed")

        yield name, odd


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
YAML: dict[str, Write] = {
    "billion laughs": holds(LAUGHS),
    "40,000 keys": holds("".join(f"k{i}: {i}\n" for i in range(40_000))),
    "nested flow": holds("a: " + "[" * 5000),
    "nested blocks": holds("".join(" " * i + f"k{i}:\n" for i in range(600))),
    "itself inside itself": holds("models: &m {judge: *m}\n"),
    "merged with itself": holds("a: &a\n  <<: *a\n  b: 1\n"),
    "6,000 digits": holds("seed: " + "7" * 6000 + "\n"),
    "sexagesimal": holds("seed: " + "1:" * 4000 + "1\n"),
    "a binary that is none": holds("store: !!binary '='\n"),
    "an object of Python": holds("store: !!python/object/apply:os.system ['exit 7']\n"),
    "a date of month 99": holds("store: 2026-99-99\n"),
    "NUL": holds(b"store: \0\n"),
    "a key of 100,000 characters": holds("? " + "k" * 100_000 + "\n: 1\n"),
    "a pipe": os.mkfifo,
    "a device without end": linked("/dev/zero"),
    "a gigabyte": sparse(b"store: x\n"),
}


def yamls(shop: Workshop) -> Iterator[Case]:
    """The project's file and the rubric: one line, hardly later than a command that has nothing to complain of."""
    normal: list[float] = []

    def tried(file: str, write: Write) -> str:
        if not normal:
            normal.append(accord(shop.bare(), "schema").cpu)
        folder = shop.bare()
        (folder / file).unlink()
        write(folder / file)
        ran = accord(folder, "judge", "--plan")
        late = ran.cpu - normal[0] > 2.0  # one second, plus the drift of the machine's speed
        return ran.fell() or (f"took {ran.cpu:.1f} s of CPU, {normal[0]:.1f} where nothing is wrong" if late else "")

    for place, (name, write) in enumerate(YAML.items()):
        file = ("accord.yaml", "rubric.yaml")[place % 2]
        yield f"{file}: {name}", partial(tried, file, write)


def _card(**changes: object) -> Write:
    def make(folder: Path) -> None:
        card = json.loads((folder / "evaluator.json").read_text())
        for path, value in changes.items():
            *inner, last = path.split("__")
            place = card
            for name in inner:
                place = place[int(name) if name.isdigit() else name]
            place[last] = value
        (folder / "evaluator.json").write_text(json.dumps(card))

    return make


def _arrays(change: Callable[[NDArray[Any]], NDArray[Any]], kind: str = "fiub") -> Write:
    """Every array of these kinds changed."""

    def make(folder: Path) -> None:
        arrays = load_file(folder / "arrays.safetensors")
        changed = {name: change(each) if each.dtype.kind in kind else each for name, each in arrays.items()}
        (folder / "arrays.safetensors").write_bytes(save({n: np.ascontiguousarray(a) for n, a in changed.items()}))

    return make


def _file(name: str, write: Write) -> Write:
    return lambda folder: instead(write)(folder / name)


CARD, ARRAYS = "evaluator.json", "arrays.safetensors"
ODD_COLUMNS: Mapping[str, Sequence[Any]] = {
    "name": ([1], {}, 7),
    "signature": (None, [1]),
    "centre": ([1], {}, "x", True, 1e308),
    "question": ([1], 7),
    "option": ("x", [1]),
    "source": ([1],),
    "part_of": ({},),
    "more": (1,),
}
FOLDERS: dict[str, Write] = {
    "NaN in weights": _arrays(lambda a: a * np.nan, "f"),
    "endless weights": _arrays(lambda a: a + np.inf, "f"),
    "weights as numbers of 16 bits": _arrays(lambda a: np.full(a.shape, np.inf, np.float16), "f"),
    "arrays one row shorter": _arrays(lambda a: a[:-1] if a.ndim else a),
    "arrays twice as long": _arrays(lambda a: np.concatenate([a, a]) if a.ndim else a),
    "arrays without rows": _arrays(lambda a: a[:0] if a.ndim else a),
    "arrays of another rank": _arrays(lambda a: a[None]),
    "arrays of texts' bytes": _file(ARRAYS, holds(b"\xff" * 4096)),
    "a header of exabytes": _file(ARRAYS, holds(struct.pack("<Q", 2**62) + b"{}")),
    "no arrays": _file(ARRAYS, holds(save({}))),
    "arrays are a pipe": _file(ARRAYS, os.mkfifo),
    "arrays are a device": _file(ARRAYS, linked("/dev/urandom")),
    "a card that is a list": _file(CARD, holds("[]")),
    "a card cut off": _file(CARD, holds('{"format": 3, "head"')),
    "a deep card": _file(CARD, holds('{"format": 3, "head": ' + "[" * 200_000)),
    "a card of a gigabyte": _file(CARD, sparse(b'{"format": 3}')),
    "a card that is a device": _file(CARD, linked("/dev/zero")),
    "a card that is a pipe": _file(CARD, os.mkfifo),
    "an unknown head": _card(head__name="\x1b[31mhead"),
    "a head that learned nothing": _card(head__learned={}),
    "a head that learned NaN": _card(head__learned=math.nan),
    "sources that are a number": _card(sources=7),
    "an unknown source": _card(sources__0__name="../../etc"),
    "a level that is none": _card(level="universe"),
    "a scale of a million": _card(question__scale={"kind": "ordinal", "options": list(range(10**6))}),
    "another scale": _card(question__scale={"kind": "ordinal", "options": [1, 2]}),
    "a format of 400 digits": _card(format=10**400),
    "settings of another head": _card(head__settings={"draws": "many"}),
    "annotators elsewhere that are a number": _card(head__learned__parts__home__annotators=7),
    "an answer model that is empty": _card(head__learned__models=[]),
    "metrics that are numbers": _card(sources__0__learned__names=[7]),
    **{
        f"columns: {field} is {value!r}"[:60]: _card(**{f"head__learned__reference__columns__0__{field}": value})
        for field, values in ODD_COLUMNS.items()
        for value in values
    },
}


def folders(shop: Workshop) -> Iterator[Case]:
    """`accord score` with a foreign evaluator folder."""

    def tried(write: Write) -> str:
        folder = shop.learned()
        write(folder / "evaluators" / "m")
        ran = accord(folder, "score", "chats.jsonl", "--out", "scores.jsonl", "--evaluator", "evaluators/m")
        return ran.fell(megabytes=450)

    for name, write in FOLDERS.items():
        yield name, partial(tried, write)


def _over(start: float, length: int) -> Write:
    """Bytes of the store replaced, from a share of its length on."""

    def make(path: Path) -> None:
        content = bytearray(path.read_bytes())
        first = int(start * len(content))
        content[first : first + length] = random.Random(0).randbytes(len(content[first : first + length]))
        path.write_bytes(bytes(content))

    return make


def _sql(*statements: str) -> Write:
    def make(path: Path) -> None:
        with closing(sqlite3.connect(path)) as database, database:
            for statement in statements:
                database.execute(statement)

    return make


STORES: dict[str, Write] = {
    "cut off": lambda path: os.truncate(path, path.stat().st_size // 3),
    "cut to its head": lambda path: os.truncate(path, 100),
    "overwritten in the middle": _over(0.1, 200_000),
    "overwritten at the beginning": _over(0.0, 2000),
    "from the future": _sql("UPDATE schema_version SET version = 9999"),
    "of a version that is none": _sql(
        "DROP TABLE schema_version", "CREATE TABLE schema_version AS SELECT char(27) || '[2J' AS version"
    ),
    "without a table": _sql("DROP TABLE annotations"),
    "a row that is no JSON": _sql("UPDATE conversations SET content = '[[[' WHERE id = 'c3'"),
    "a row of numbers": _sql("UPDATE conversations SET content = '7'"),
    "a deep row": _sql("UPDATE conversations SET content = '" + "[" * 50_000 + "'"),
    "another database": instead(_sql("CREATE TABLE other (a)")),
    "a text": lambda path: path.write_text("no database\n" * 900),
    "a pipe": instead(os.mkfifo),
    "a device": instead(linked("/dev/zero")),
}


FORGED = {
    "a trigger that deletes labels": "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM annotations; END",
    "a trigger that forges scores": "CREATE TRIGGER t AFTER INSERT ON scores BEGIN UPDATE scores SET run = 1; END",
    "a view in the place of a table": "ALTER TABLE days RENAME TO d; CREATE VIEW days AS SELECT * FROM d",
    "an INSTEAD OF trigger": "ALTER TABLE days RENAME TO d; CREATE VIEW days AS SELECT * FROM d; CREATE TRIGGER t "
    "INSTEAD OF INSERT ON days BEGIN DELETE FROM annotations; END",
    "a unique index": "DELETE FROM annotations WHERE rowid > 1; CREATE UNIQUE INDEX one ON annotations (question)",
    "a name that is markup": 'CREATE TRIGGER "\x1b[2J\u202e<b>" AFTER INSERT ON runs BEGIN DELETE FROM runs; END',
}
"""Objects in a store that change its rows while Accord writes."""


def _forged(folder: Path, statements: str) -> str:
    """Refuse the store, name the object, and restore the rows of the copy alone; labels stay."""
    with closing(sqlite3.connect(folder / "accord.db")) as store:
        store.executescript(statements)
        before = store.execute("SELECT count(*) FROM annotations").fetchone()
    fell = accord(folder, "score", "chats.jsonl", "--out", "scores.jsonl").fell((1,), "Accord did not create")
    fell = fell or accord(folder, "store", "check").fell((1,), "was not made by Accord")
    (folder / "accord.db").rename(folder / "copy.db")
    restored = accord(folder, "store", "restore", "copy.db")
    if "CREATE VIEW days" in statements:
        return fell or restored.fell((1,), "was not made by Accord")
    fell = fell or restored.fell((0,)) or accord(folder, "store", "check").fell((0,), "nothing is damaged")
    fell = fell or accord(folder, "score", "chats.jsonl", "--out", "scores.jsonl").fell((0, 5))
    with closing(sqlite3.connect(folder / "accord.db")) as store:
        after = store.execute("SELECT count(*) FROM annotations").fetchone()
    return fell or ("" if before == after else f"{before[0]} labels before, {after[0]} after")


def stores(shop: Workshop) -> Iterator[Case]:
    """A damaged store: every command reports it, and `accord store check` names the damage."""
    for name, statements in FORGED.items():
        yield f"forged: {name}", partial(_forged, shop.learned(), statements)
    for name, write in STORES.items():

        def tried(write: Write = write) -> str:
            folder = shop.learned()
            write(folder / "accord.db")
            checked = accord(folder, "store", "check")
            used = accord(folder, "export", "out.jsonl")
            return checked.fell() or used.fell((0, 1))  # the command may not read the damaged part

        yield name, tried
    yield "locked by another", lambda: _locked(shop.learned())
    yield "PostgreSQL: invalid values, a future version, a missing table", lambda: _postgresql(shop.learned())


def _locked(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "accord.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        return accord(folder, "import", "chats.jsonl", "labels.csv").fell()


def _postgresql(folder: Path) -> str:
    try:
        cluster = ThrowAwayPostgres()
    except BadInput:
        return ""
    import sqlalchemy

    from accord.store import Store

    (folder / "odd.jsonl").write_bytes(b"".join(ODD.values()) + row(id="whole"))
    with cluster:
        (folder / "accord.yaml").write_text(settings(store=cluster.url))
        ran = accord(folder, "import", "odd.jsonl", "labels.csv", "chats.jsonl", "--skip-bad-rows")
        fell = ran.fell((0,)) or accord(folder, "store", "check").fell((0,), "nothing is damaged")
        Store(cluster.url).close()
        engine = sqlalchemy.create_engine(cluster.url.replace("postgresql:", "postgresql+psycopg:"))
        for statement in ("DROP TABLE scores CASCADE", "UPDATE schema_version SET version = 9999"):
            with engine.begin() as connection:
                connection.execute(sqlalchemy.text(statement))
            fell = fell or accord(folder, "store", "check").fell()
        engine.dispose()
        return fell


def _place(change: Callable[[dict[str, object]], object]) -> Write:
    def make(path: Path) -> None:
        path.write_text(json.dumps(change(json.loads(path.read_text()))))

    return make


PLACES: dict[str, Write] = {
    "no JSON": holds("{" * 90),
    "deep": holds("[" * 100_000),
    "a list": _place(lambda known: [known]),
    "no files": _place(lambda known: {**known, "files": 0}),
    "numbers without end": _place(lambda known: {**known, "files": [{"inode": 1e308}]}),
    "other bytes": holds(b"\xff\xfe" * 99),
    "a folder": instead(Path.mkdir),
    "a pipe": instead(os.mkfifo),
    "a device": instead(linked("/dev/zero")),
}


def follow(shop: Workshop) -> Iterator[Case]:
    """`accord follow` with a changed log, position and rows."""

    def followed(folder: Path, log: str = "log.jsonl", out: str = "rows.jsonl") -> Ran:
        return accord(folder, "follow", log, "--out", out, "--once", "--no-watch", deadline=60)

    def after(write: Write) -> str:
        folder = shop.learned()
        shutil.copy(folder / "chats.jsonl", folder / "log.jsonl")
        first = followed(folder)
        write(folder / "rows.jsonl.position")
        return first.fell((0,), megabytes=450) or followed(folder).fell(megabytes=450)

    def log(write: Write) -> str:
        folder = shop.learned()
        write(folder / "log.jsonl")
        return followed(folder).fell(megabytes=450)

    for name, write in PLACES.items():
        yield f"position: {name}", partial(after, write)
    for name, write in {"a pipe": os.mkfifo, "a device": linked("/dev/zero"), "a folder": Path.mkdir}.items():
        yield f"log: {name}", partial(log, write)
    yield "log: odd lines", lambda: _odd_log(shop.learned(), followed)


def _odd_log(folder: Path, followed: Callable[[Path], Ran]) -> str:
    lines = [b"\0" * 500, b"[" * 90_000, b'{"conversation": 7}', b"\x1b[2J", "\ud800".encode("utf-8", "surrogatepass")]
    (folder / "log.jsonl").write_bytes(b"\n".join(lines) + b"\n" + (folder / "chats.jsonl").read_bytes())
    ran = followed(folder)
    rows = (folder / "rows.jsonl").read_text() if (folder / "rows.jsonl").exists() else ""
    kept = "" if rows.count('"scored"') + rows.count('"value"') else "the good lines after the odd ones were not scored"
    return ran.fell((0, 5), megabytes=450) or ("NaN in a score" if "NaN" in rows else kept)

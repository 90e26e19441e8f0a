"""Scores as rows of the mart, with what their conversations say of themselves; the mart made anew from what is kept.

A conversation's metadata say its `system`, `version`, `topic`, user group, `language` and time under the names below,
the first that is there. `input` is what two versions have in common that were asked the same: the hash of all that was
said before the reply that is scored, or of the user's first message where whole conversations are.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accord.edges import BadInput, is_in_calendar, sendable, unescape_formula
from accord.formats import is_remote, shown_place, storage_options
from accord.learning import OTHER_QUESTIONS
from accord.scoring.parts import (
    check_parts,
    part_url,
    read_manifest,
    reading_part,
)
from accord.store import BATCH_ROWS, DAMAGED, MartRow, Store, batches, bundle_of, frames_of, mart_schema, row_key
from accord.values import Conversation, Sample, Score, Signature, Turn, Unscored

if TYPE_CHECKING:
    import polars as pl

    from accord.scoring.pipeline import ScoringProject

VERSION = ("version", "release", "revision")
TOPIC = ("topic", "domain", "category", "intent")
USER_GROUP = ("user_group", "group", "segment", "cohort", "persona")
LANGUAGE = ("language", "lang", "locale")
TIME = ("time", "began", "started", "created_at", "created", "timestamp", "date", "ended")
_WORD = re.compile(r"\w+")
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Facts:
    """What a conversation says of itself; `time` in milliseconds since 1970."""

    system: str | None = None
    version: str | None = None
    topic: str | None = None
    user_group: str | None = None
    language: str | None = None
    time: int | None = None
    synthetic: bool = False

    @classmethod
    def of(cls, conversation: Conversation) -> Facts:
        """Those of a conversation."""
        about = conversation.metadata
        said = next((about[name] for name in TIME if about.get(name) is not None), None)
        began = said if said is not None else next((turn.time for turn in conversation.turns if turn.time), None)
        return cls(
            _short(conversation.system), _first(about, VERSION), _first(about, TOPIC), _first(about, USER_GROUP),
            _first(about, LANGUAGE), milliseconds(began), conversation.is_synthetic,
        )  # fmt: skip

    def to_row(self) -> dict[str, str | int | None]:
        """The columns that it fills."""
        return {name: getattr(self, name) for name in self.__slots__}


def _first(about: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return _short(next((about[name] for name in names if isinstance(about.get(name), str | int | float)), None))


def _short(value: Any) -> str | None:
    return None if value is None or value == "" else sendable(str(value)[:_LONGEST])


def milliseconds(said: Any) -> int | None:
    """Return a time in milliseconds since 1970, or None if it is not a time between the years 1 and 9999 UTC.

    Accepts ISO texts and numbers of seconds or milliseconds since 1970.
    """
    try:
        if isinstance(said, str):
            found = datetime.fromisoformat(said)
            if not is_in_calendar(found):
                return None
            return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
        if isinstance(said, int | float) and not isinstance(said, bool) and 1e8 < said < 4e12:
            return int(said if said > 1e11 else said * 1000)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def input_of(turns: Sequence[Turn], turn: int | None) -> str | None:
    """The hash of what a reply answers, or a conversation begins with; `None` where nobody asked anything."""
    asked = [each for each in turns if each.role == "user"][:1] if turn is None else turns[:turn]
    words = " ".join(word for each in asked for word in _WORD.findall(each.content.casefold()))
    return blake2b(words.encode("utf-8", "replace"), digest_size=8).hexdigest() if words else None


@dataclass(frozen=True)
class Scoring:
    """What the rows of one evaluator share: what it answers, who it is, and where the rows came from."""

    question: str
    evaluator: str
    origin: str = BATCH_ROWS

    @classmethod
    def by(cls, name: str, digest: str, question: str, origin: str = BATCH_ROWS) -> Scoring:
        """That of an evaluator with a digest of all it learned: scores of another fit are never mixed with these."""
        return cls(question, f"{name}@{digest.removeprefix('s256:')[:12]}", origin)

    def of_score(self, score: Score | Unscored, facts: Facts, scored: int, input: str | None = None) -> list[MartRow]:
        """A score's row, and one for each other question that its notes answer."""
        row = self._row(score, facts, scored, input)
        return [row, *_others(row, score.notes)]

    def _row(self, score: Score | Unscored, facts: Facts, scored: int, input: str | None) -> MartRow:
        row: MartRow = {
            "conversation": score.target.conversation, "turn": score.target.turn, "question": self.question,
            "annotator": score.annotator, "evaluator": self.evaluator, "signature": _signature(score.signature),
            "scored": scored, "input": input, "origin": self.origin, "in_training": score.in_training,
            **facts.to_row(),
        }  # fmt: skip
        if isinstance(score, Unscored):
            return {**row, "unscored": score.reason}
        attributions = json.dumps(dict(score.attributions)) if score.attributions else None
        return {
            **row, "value": score.value, "low": score.interval[0], "high": score.interval[1],
            "options": score.options, "probabilities": score.probabilities, "warning": score.warning,
            "attributions": attributions,
        }  # fmt: skip

    def rows(self, samples: Sequence[Sample], scores: Sequence[Score | Unscored]) -> list[MartRow]:
        """The rows of a batch; a sample has several scores where each of a panel's members is asked."""
        scored = int(time.time() * 1000)
        about = {
            each.target: (Facts.of(each.conversation), input_of(each.conversation.turns, each.turn))
            for each in samples
        }  # fmt: skip
        return [
            row
            for score in scores
            for facts, asked in (about[score.target],)
            for row in self.of_score(score, facts, scored, asked)
        ]


def _others(row: MartRow, notes: Mapping[str, Any] | None) -> Iterator[MartRow]:
    """The rows of the other questions of the rubric that the same evaluator answers (`--every-question`)."""
    for question, answer in ((notes or {}).get(OTHER_QUESTIONS) or {}).items():
        yield {**row, "attributions": None, **_said(answer), "question": question, "annotator": answer["annotator"]}


def _said(answer: Mapping[str, Any]) -> dict[str, Any]:
    """A score's columns from its JSON."""
    shares = answer.get("distribution") or {}
    return {
        **{name: answer.get(name) for name in ("value", "low", "high", "warning", "unscored")},
        "options": [float(option) for option in shares] or None, "probabilities": list(shares.values()) or None,
    }  # fmt: skip


@lru_cache(maxsize=64)
def _signature(signature: Signature) -> str:
    return str(signature)


# --- the mart made anew --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rebuilt:
    """What making the mart anew came to.

    Attributes:
        rows: How many it holds.
        runs: Runs of the store whose scores are in it.
        folders: Folders of score parts that are in it.
        live: Rows of live scoring, which stand nowhere else and were kept.
        passed_over: What could not be read, a sentence each.
    """

    rows: int
    runs: int
    folders: int
    live: int
    passed_over: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Everything."""
        return {**vars(self), "passed_over": list(self.passed_over)}


def rebuild(project: ScoringProject, folders: Sequence[str | Path] = ()) -> Rebuilt:
    """Rebuild the mart from the runs in the store, folders of score parts, and the rows of live scoring.

    Files of the mart that cannot be read are renamed to `NAME.damaged`.

    Raises:
        BadInput: A folder holds no scores in parts, or somebody else is compacting the mart.
        StoreError: The mart cannot be written.
    """
    store, mart = project.store, project.mart
    passed_over = [*mart.faults(), *(f"{name} is now {name}{DAMAGED}" for name in mart.set_aside())]
    frames: list[pl.DataFrame] = []
    runs = [run for run in store.runs() if run["status"] == "done" and run["command"] in ("score", "run")]
    for run in runs:
        settings, ended = run["settings"], milliseconds(run["finished"] or run["started"]) or 0
        question = settings.get("question") or project.rubric.main
        for batch in batches(store.scores(run["id"]), 20_000):
            made = settings.get("digest") or run["id"]
            about = Scoring.by(str(settings.get("evaluator", "evaluator")), made, question)
            frames.append(_frame_of(store, [each for row in batch for each in _rows_of(row, about, ended)]))
    taken = [_folder_frames(store, str(folder), project.rubric.main) for folder in folders]
    frames += [frame for found in taken for frame in found]
    if not mart.compact(replacing=True, rows=frames):
        raise BadInput("another process is compacting the mart at this moment; run the same command again")
    counted, state = mart.read(lambda rows: rows.group_by("origin").len().collect())
    count = dict(counted.iter_rows())
    faults = (*passed_over, *state.faults)
    return Rebuilt(sum(count.values()), len(runs), len(taken), count.get("live", 0), tuple(dict.fromkeys(faults)))


def _rows_of(row: Mapping[str, Any], about: Scoring, scored: int) -> list[MartRow]:
    """A row of the store's scores as those of the mart, their conversation's own columns still empty."""
    found: MartRow = {
        **{name: row.get(name) for name in ("conversation", "turn", "annotator", "signature", "in_training")},
        **_said(row),
        "question": about.question, "evaluator": about.evaluator, "origin": about.origin, "scored": scored,
        "attributions": json.dumps(row["attributions"]) if row.get("attributions") else None,
    }  # fmt: skip
    return [found, *_others(found, row.get("notes"))]


def _frame_of(store: Store, rows: Sequence[MartRow]) -> pl.DataFrame:
    """Rows as a table, with what the store knows of their conversations."""
    import polars as pl

    schema = mart_schema()
    wanted = list(dict.fromkeys(row["conversation"] for row in rows))
    facts: dict[str, tuple[Facts, Sequence[Turn]]] = {}
    for conversation in store.conversations(wanted):
        facts[conversation.id] = Facts.of(conversation), conversation.turns
    nothing: tuple[Facts, Sequence[Turn]] = Facts(), ()
    columns: dict[str, list[Any]] = {name: [] for name in schema}
    for row in rows:
        about, turns = facts.get(row["conversation"], nothing)
        whole = {
            **row, **about.to_row(), "input": input_of(turns, row["turn"]),
            "key": row_key(row), "bundle": bundle_of(row["conversation"]),
        }  # fmt: skip
        for name, cells in columns.items():
            cells.append(whole.get(name))
    times = ("time", "scored")
    return pl.DataFrame([
        pl.Series(name, columns[name], pl.Int64() if name in times else kind, strict=False).cast(kind)
        for name, kind in schema.items()
    ])  # fmt: skip


def take_parts(project: ScoringProject, folder: str, question: str) -> int:
    """Append the parts of a folder of scores to the mart, each once; returns how many rows were new."""
    return sum(project.mart.add_frame(frame, name) for name, frame in _named_frames(project.store, folder, question))


def _folder_frames(store: Store, folder: str, question: str) -> list[pl.DataFrame]:
    return [frame for _, frame in _named_frames(store, folder, question)]


def _named_frames(store: Store, folder: str, question: str) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield each part of a folder of scores as a table of the mart, with a name that follows from its content.

    Raises:
        BadInput: The folder holds no scores in parts, or a part is damaged.
    """
    import polars as pl

    manifest = read_manifest(folder)
    if manifest is None:
        raise BadInput(f"{shown_place(folder)} holds no scores in parts; make them: accord score ... --out {folder}")
    about = Scoring.by(
        str(manifest.get("evaluator", "evaluator")), str(manifest.get("digest") or manifest["made_from"]),
        str(manifest.get("question") or question),
    )  # fmt: skip
    where = folder if is_remote(folder) else str(Path(folder).resolve())
    scored = int(time.time() * 1000)
    for part in check_parts(folder, [row["key"] for row in manifest["parts"]], manifest):
        url = part_url(folder, part.key)
        named = blake2b(f"{where} {manifest['made_from']} {part.key}".encode(), digest_size=12).hexdigest()
        with reading_part(folder, part.key):
            rows = pl.read_parquet(url, storage_options=storage_options(url), glob=False)
            frame = _from_parts(store, rows.filter(pl.col("status") != "bad-row"), about, scored)
        yield named, frame


_NUMBER, _NAME = r":\s*([-+0-9.eE]+)", r'"([-+0-9.eE]+)"\s*:'


def _from_parts(store: Store, rows: pl.DataFrame, about: Scoring, scored: int) -> pl.DataFrame:
    """A table of scores as one of the mart: distributions are read without a row of Python each."""
    import polars as pl

    ids = pl.Series("conversation", [unescape_formula(name) for name in rows["conversation"]], pl.String())
    wanted = dict.fromkeys(ids)
    facts = {c.id: (Facts.of(c), c.turns) for some in batches(wanted, 500) for c in store.conversations(some)}
    nothing: tuple[Facts, Sequence[Turn]] = Facts(), ()
    found = [facts.get(name, nothing) for name in ids]
    keyed = {"question": about.question, "evaluator": about.evaluator}
    inputs = [input_of(each[1], turn) if each[1] else None for each, turn in zip(found, rows["turn"], strict=True)]
    keys = [
        row_key({"conversation": name, "turn": turn, "annotator": by, **keyed})
        for name, turn, by in zip(ids, rows["turn"], rows["annotator"], strict=True)
    ]
    lists = pl.List(pl.Float32())
    cells = pl.col("distribution").str
    schema = mart_schema()
    said = {name: [getattr(each, name) for each, _ in found] for name in Facts.__slots__}
    times = pl.Series("time", said.pop("time"), pl.Int64()).cast(schema["time"])
    table = rows.with_columns(
        ids, times, *(pl.Series(name, said[name], schema[name]) for name in said),
        pl.Series("input", inputs, pl.String()), pl.Series("key", keys, pl.Int64()),
        pl.Series("bundle", [bundle_of(name) for name in ids], pl.Int32()),
        cells.extract_all(_NUMBER).list.eval(pl.element().str.extract(_NUMBER)).cast(lists).alias("probabilities"),
        cells.extract_all(_NAME).list.eval(pl.element().str.extract(_NAME)).cast(lists).alias("options"),
        pl.lit(about.question).alias("question"), pl.lit(about.evaluator).alias("evaluator"),
        pl.lit(about.origin).alias("origin"), pl.lit(scored, pl.Int64()).cast(schema["scored"]).alias("scored"),
    ).select(pl.col(name).cast(kind) for name, kind in schema.items())  # fmt: skip
    noted = rows["notes"].str.contains(f'"{OTHER_QUESTIONS}"', literal=True).fill_null(False)
    if not noted.any():
        return table
    dated = table.filter(noted).with_columns(pl.col("time", "scored").dt.epoch("ms"))
    also = zip(dated.iter_rows(named=True), rows["notes"].filter(noted), strict=True)
    return pl.concat(
        [table, *frames_of((each for row, notes in also for each in _others(row, json.loads(notes))), 50_000)]
    )

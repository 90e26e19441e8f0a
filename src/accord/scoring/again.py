"""Texts of the board that are scored again: by a new fit, at their old days, in the one table of scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from accord.edges import BadInput, count_of
from accord.formats import read
from accord.scoring.score_rows import input_of
from accord.store import Mart, Store
from accord.values import POPULATION, Conversation, MartRow, Sample


@dataclass(frozen=True)
class BoardTexts:
    """Conversations and turns that the board shows, by the evaluator that scored last.

    Attributes:
        evaluator: Evaluator of the scores that the board shows; empty without any.
        turns: Scored turns by conversation, None for the whole, with the hash of the text before each.
        days: Time in milliseconds since 1970 of each conversation on the board.
        runs: Runs that scored them.
    """

    evaluator: str
    turns: Mapping[str, Mapping[int | None, str | None]]
    days: Mapping[str, int]
    runs: frozenset[str]

    @classmethod
    def of(cls, mart: Mart, question: str, evaluator: str) -> BoardTexts:
        """Return the texts with a score on a question that an evaluator (`RowOrigin.of`) has not scored yet.

        Raises:
            StoreError: The scores cannot be read.
        """
        import polars as pl

        if not mart.folder.is_dir():
            return cls("", {}, {}, frozenset())
        own = (pl.col("question") == question) & (pl.col("annotator") == POPULATION)
        columns = ["conversation", "turn", "input", "run", "evaluator", "scored",
                   pl.coalesce("time", "scored").dt.epoch("ms").alias("day")]  # fmt: skip
        rows, _ = mart.read(lambda rows: rows.filter(own).select(columns).sort("scored").collect())
        known = rows.filter(pl.col("evaluator") == evaluator).select("conversation", "turn")
        old = rows.filter(pl.col("evaluator") != evaluator)
        if not len(old):
            return cls(evaluator if len(known) else "", {}, {}, frozenset())
        last = str(old["evaluator"][-1])
        old = old.filter(pl.col("evaluator") == last)
        left = old.join(known, on=["conversation", "turn"], how="anti", nulls_equal=True)
        turns: dict[str, dict[int | None, str | None]] = {}
        days: dict[str, int] = {}
        for row in left.iter_rows(named=True):
            turns.setdefault(row["conversation"], {})[row["turn"]] = row["input"]
            days.setdefault(row["conversation"], row["day"])
        return cls(last, turns, days, frozenset(filter(None, left["run"].unique())))

    def has(self, sample: Sample) -> bool:
        """Return True if the board shows the text of a sample, or only the whole conversation."""
        turns = self.turns.get(sample.conversation.id, {})
        return sample.turn is None or sample.turn in turns or set(turns) == {None}

    def dated(self, rows: Iterable[MartRow]) -> list[MartRow]:
        """Return rows of scores with the days of the conversations on the board, where their texts have no time."""
        return [row if row["time"] is not None else {**row, "time": self.days.get(row["conversation"])} for row in rows]

    def conversations(self, store: Store, folder: Path) -> Iterator[Conversation]:
        """Yield the conversations from the store, the others from the files that their runs have scored.

        A conversation of a file counts if the text before its scored turns is the scored one.
        """
        found = set()
        for each in store.conversations(list(self.turns)):
            found.add(each.id)
            yield each
        for run in store.runs("score", "run"):
            source = folder / str(run["settings"].get("source", ""))
            if run["id"] not in self.runs or found >= self.turns.keys():
                continue
            try:
                if not source.is_file():
                    continue
                for record in read(source, on_bad_row=lambda error: None):
                    each = record.conversation
                    if each.id not in found and each.id in self.turns and self._is_same(each):
                        found.add(each.id)
                        yield each
            except (BadInput, OSError):  # it holds something else now, or is not the name of a file
                continue

    def _is_same(self, conversation: Conversation) -> bool:
        return all(input_of(conversation.turns, turn) == text for turn, text in self.turns[conversation.id].items())

    def left_text(self, scored: int) -> str:
        """Return a sentence on the conversations without a stored text; empty if all were scored."""
        left = len(self.turns) - scored
        if left <= 0:
            return ""
        return (
            f"{count_of(left, 'conversation')} of the board {'is' if left == 1 else 'are'} neither in the store nor in "
            "a file that was scored, so the old scores stay alone; score the file again: accord score FILE --out scores"
        )

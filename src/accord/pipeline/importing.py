"""The first stage: files of conversations and labels into the store, good rows kept, bad rows said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accord.errors import BadInput
from accord.labels import Label, check_label
from accord.readers import Record, is_label_file, read, read_labels
from accord.rubric import Rubric
from accord.store import Added, Store, unknown_conversation

ROWS_AT_ONCE = 500


@dataclass
class Imported:
    """What an import kept, and what it skipped."""

    conversations: Added = Added()
    labels: Added = Added()
    bad_rows: list[str] = field(default_factory=list)
    skipped: int = 0

    _MOST_SHOWN = 20

    def skip(self, error: BadInput) -> None:
        """Note a bad row that was skipped."""
        self.skipped += 1
        if len(self.bad_rows) < self._MOST_SHOWN:
            self.bad_rows.append(str(error))

    def to_json(self) -> dict[str, Any]:
        """Counts, and the first bad rows."""
        return {
            "conversations": self.conversations._asdict(),
            "labels": self.labels._asdict(),
            "skipped": self.skipped,
            "bad_rows": self.bad_rows,
        }


def import_files(
    store: Store,
    rubric: Rubric,
    paths: Iterable[str | Path],
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> Imported:
    """Read files of conversations and of labels into the store; conversations first, whatever the order given.

    Args:
        store: Where they are kept.
        rubric: Labels on its questions are checked against its scales.
        paths: Files, or benchmark folders.
        format: The conversations' format, or `auto`.
        columns: Our column names to the files', where they differ.
        skip_bad_rows: Count and report bad rows instead of stopping at the first.
        on_progress: Called with the number of rows read so far, now and then.

    Raises:
        BadInput: A file cannot be read.
        BadRow: A row is bad and `skip_bad_rows` is not set; what came before it is kept.
    """
    done = Imported()
    on_bad_row = done.skip if skip_bad_rows else None
    files = [Path(path) for path in paths]
    of_labels = [path for path in files if format == "auto" and is_label_file(path, columns)]
    for path in files:
        if path not in of_labels:
            _import_conversations(store, rubric, path, format, columns, done, on_bad_row, on_progress)
    for path in of_labels:
        found = read_labels(path, rubric, columns, on_bad_row)
        done.labels = done.labels.plus(store.add_labels(found, _unknown(on_bad_row)))
    return done


def _import_conversations(
    store: Store,
    rubric: Rubric,
    path: Path,
    format: str,
    columns: Mapping[str, str] | None,
    done: Imported,
    on_bad_row: Callable[[BadInput], None] | None,
    on_progress: Callable[[int], None] | None,
) -> None:
    """A file's conversations with the labels beside them; each batch is kept before the next is read."""
    seen = 0
    for records in _batches_kept(read(path, format, columns, on_bad_row)):
        done.conversations = done.conversations.plus(store.add_conversations(record.conversation for record in records))
        labels = (label for record in records for label in record.labels)
        checked = _checked(labels, rubric, path, on_bad_row)
        done.labels = done.labels.plus(store.add_labels(checked))
        seen += len(records)
        if on_progress is not None:
            on_progress(seen)


def _batches_kept(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Batches of records; where reading fails, the rows before the failure come out first."""
    batch: list[Record] = []
    try:
        for record in records:
            batch.append(record)
            if len(batch) == ROWS_AT_ONCE:
                yield batch
                batch = []
    except BadInput as error:
        if batch:
            yield batch
        raise error
    if batch:
        yield batch


def _checked(
    labels: Iterable[Label], rubric: Rubric, path: Path, on_bad_row: Callable[[BadInput], None] | None
) -> Iterator[Label]:
    """Labels that stood beside their conversation, those whose value is on its question's scale."""
    for label in labels:
        try:
            check_label(label, rubric)
        except BadInput as error:
            located = BadInput(f"{path}: {error}")
            if on_bad_row is None:
                raise located from None
            on_bad_row(located)
        else:
            yield label


def _unknown(on_bad_row: Callable[[BadInput], None] | None) -> Callable[[Label], None] | None:
    return None if on_bad_row is None else lambda label: on_bad_row(BadInput(unknown_conversation(label)))

"""Traces of erased conversations and annotators in the files of a project's folder.

| file | effect |
|---|---|
| evaluator that holds a text | removed; `refit-needed.json` names the command |
| file or folder of scores, rows of `follow`, exported annotations | rows removed, or kept under a pseudonym |
| report with a text or ID | replaced by a notice |
| other report | marked as outdated |
| recorded judgements of an import, answers that wait for the store | rows removed |
| uploaded file, read as its import read it | removed |
| other store, such as a backup | erased like the store |
| other file that mentions it, such as an imported log | listed: it is the user's own |
| file that cannot be read, link out of the folder, `.git` | listed as not searched |
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from accord.edges import MB, AccordError, BadInput, BadRow, one_line, regular_size, write_atomically
from accord.formats import ANNOTATOR_KEYS, Row, file_texts, plain_name, read, read_rows
from accord.learning import CARD
from accord.models import recorded_item
from accord.project.config_sections import PUSH_SPOOL
from accord.project.erasing.refit import remove_evaluator
from accord.project.importing.judged_answers import JUDGEMENTS_FOLDER
from accord.scoring import MANIFEST, erase_in_rows, is_parts_folder
from accord.store import ErasedNames, ErasedText, is_store_file, mart_folder, spool_folders, store_file
from accord.values import PROJECT_FILE, Conversation, Sample

if TYPE_CHECKING:
    from accord.project.workspace import Workspace

Kind = Literal[
    "evaluator",
    "scores",
    "mart",
    "report",
    "judgements",
    "waiting answers",
    "waiting scores",
    "upload",
    "store",
    "yours",
    "unreadable",
]
UPLOADS = "uploads"
_HISTORY = ".git"
_SKIPPED = {".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
_LARGEST = 512 * MB
"""Largest file that is searched for mentions; larger ones of the user's own are listed as not searched."""
_TITLES = ("<title>Accord report", "<title>Accord: issues", "<title>Accord check")
_STALE = "accord-outdated"
_ENDINGS = ("-wal", "-shm", "-journal")


class FileTrace(NamedTuple):
    """A file with a trace of erased data, its kind and its number of rows."""

    path: Path
    kind: Kind
    rows: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {"path": str(self.path), "kind": self.kind, "rows": self.rows}


@dataclass
class ErasedContent:
    """Search terms for files.

    Attributes:
        text: IDs, telling words and quotes of the conversations, and the names of annotators.
        names: Names in rows.
        ids: IDs of the conversations.
        conversations: The conversations that the store still holds.
        outdated: True if the conversations had ratings, so that every report is outdated.
    """

    text: ErasedText
    names: ErasedNames
    ids: Collection[str] = ()
    conversations: list[Conversation] = field(default_factory=list)
    outdated: bool = False

    @property
    def items(self) -> set[str]:
        """IDs of the conversations' items in recorded judgements."""
        found = set(self.ids)
        for each in self.conversations:
            samples = [Sample(each), *(Sample(each, turn) for turn in range(len(each.turns)))]
            found.update(map(recorded_item, samples))
        return found


def erase_in_files(project: Workspace, content: ErasedContent, writes: bool = True) -> list[FileTrace]:
    """Remove traces from the files of the project's folder and of its waiting answers, and return them.

    Without `writes`, they are only found.

    Raises:
        OSError: A file cannot be written; files before it were changed.
    """
    search = _Search(content, writes)
    found = [trace for folder in spool_folders(project.config.store) for trace in search.waiting(folder)]
    return found + [trace for place in project_files(project) for trace in search.traces(place)]


class FilePlace(NamedTuple):
    """A file to search, or a folder that Accord wrote as a whole; `is_searched` is False if it is only listed."""

    path: Path
    is_searched: bool = True


def project_files(project: Workspace) -> Iterator[FilePlace]:
    """Yield the places below a project's folder, except its store and the scores of its board.

    A link is not followed; one that leads out of the folder is yielded as not searched, and so is a folder that cannot
    be read, or the history of a repository. The root of the disk and a home folder have much that is not the project's:
    of their other folders, only those that Accord writes are searched, and they are yielded as not searched.
    """
    top = project.config.folder.resolve()
    own = store_file(project.config.store)
    mart = mart_folder(project.config.store, project.config.mart, project.config.folder)
    kept = {path.resolve() for path in (own, mart) if path is not None}
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            paths = sorted(folder.iterdir())
            if (folder / CARD).is_file() or _is_scores(folder):
                yield FilePlace(folder)
                continue
            if is_parts_folder(folder):
                yield FilePlace(folder)
                paths = [each for each in paths if each.name != MANIFEST and not each.match("part-*.parquet")]
        except OSError:  # it may not be read
            yield FilePlace(folder, is_searched=False)
            continue
        folders = list[Path]()
        for path in paths:
            target = path.resolve()
            if target in kept or path.name in _SKIPPED or _is_part_of_database(path):
                continue
            if path.is_symlink() or path.name == _HISTORY:
                if path.exists() and (path.name == _HISTORY or not target.is_relative_to(top)):
                    yield FilePlace(path, is_searched=False)
            elif path.is_dir():
                folders.append(path)
            elif path.is_file():
                yield FilePlace(path)
        if folder == top and _is_shared(top):
            yield FilePlace(top, is_searched=False)
            folders = [each for each in folders if _is_accords(each)]
        waiting += reversed(folders)


class _Search:
    def __init__(self, content: ErasedContent, writes: bool) -> None:
        self.content, self.writes, self._items = content, writes, content.items

    def traces(self, place: FilePlace) -> list[FileTrace]:
        """Return the traces in a place; a file that cannot be read whole and shows none is unreadable."""
        path = place.path
        if not place.is_searched:
            return [FileTrace(path, "unreadable")]
        if path.is_dir():
            return list(self._own_folder(path))
        try:
            size = regular_size(path)
            with path.open("rb") as stream:
                start = stream.read(4096)
        except (BadInput, OSError):
            return [FileTrace(path, "unreadable")]
        try:
            return list(self._in_file(path, size, start))
        except (AccordError, ValueError, csv.Error):  # a damaged file, or one that needs another package
            return [FileTrace(path, "unreadable")]

    def _own_folder(self, folder: Path) -> Iterator[FileTrace]:
        """Yield the traces in a folder that Accord wrote as a whole."""
        if (folder / CARD).is_file():
            try:
                yield from list(self._evaluator(folder))
            except (AccordError, ValueError):  # a damaged file
                yield FileTrace(folder, "unreadable")
        elif _is_scores(folder):
            yield FileTrace(folder, "mart")
        else:
            yield from self._in_rows(folder) or ()

    def _in_file(self, path: Path, size: int, start: bytes) -> Iterator[FileTrace]:
        if start.startswith(b"SQLite format 3"):
            if is_store_file(path):
                yield FileTrace(path, "store")
        elif path.parent.name == JUDGEMENTS_FOLDER and path.suffix == ".jsonl":
            yield from self._lines(path, "judgements", self._is_of_item)
        elif path.parent.name == UPLOADS:
            yield from self._upload(path)
        elif path.parent.parent.name == PUSH_SPOOL:
            yield from self._lines(path, "waiting scores", self.content.text.mentions)
        elif (own := self._in_rows(path)) is not None:
            yield from own
        elif path.suffix == ".html" and any(title.encode() in start for title in _TITLES):
            yield from self._report(path)
        elif size > _LARGEST or self._is_mentioned(path, with_cells=True):
            yield FileTrace(path, "unreadable" if size > _LARGEST else "yours")

    # --- one kind each --------------------------------------------------------------------------------------------

    def _in_rows(self, path: Path) -> list[FileTrace] | None:
        """Return the traces in a file or folder of scores or annotations, or `None` for any other file."""
        try:
            count = erase_in_rows(path, self.content.names, self.writes)
        except BadInput:
            return [FileTrace(path, "unreadable")]
        return count if count is None else [FileTrace(path, "scores", count)] if count else []

    def _lines(self, path: Path, kind: Kind, is_erased: Callable[[str], bool]) -> Iterator[FileTrace]:
        """Remove lines of a file of Accord; a file without lines is removed. Lines that are not UTF-8 are listed."""
        with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as stream:
            lines = list(stream)
        kept = [line for line in lines if not is_erased(line)]
        if any(_is_damaged(line) for line in kept):
            yield FileTrace(path, "unreadable")
        if len(kept) == len(lines):
            return
        if self.writes and kept:
            write_atomically(path, "".join(kept), "surrogateescape")
        elif self.writes:
            path.unlink(missing_ok=True)
        yield FileTrace(path, kind, len(lines) - len(kept))

    def _is_of_item(self, line: str) -> bool:
        try:
            row = json.loads(line)
        except ValueError:
            return self.content.text.mentions(line)
        return isinstance(row, dict) and row.get("item_id") in self._items

    def waiting(self, folder: Path) -> Iterator[FileTrace]:
        """Yield the files of paid answers in a spool folder that have rows about an erased conversation."""
        for path in sorted([*folder.glob("*.jsonl"), *folder.glob("*.refused")]) if folder.is_dir() else ():
            yield from self._lines(path, "waiting answers", self._is_waiting)

    def _is_waiting(self, line: str) -> bool:
        """Return True for an answer about an erased conversation, or one whose conversations are unknown."""
        try:
            row = json.loads(line)
        except ValueError:
            return self.content.text.mentions(line)
        if not isinstance(row, dict) or not self.content.names.conversations:
            return False
        if row.get("kind") == "answer":
            return self.content.names.has(row.get("conversation"))
        sources = row.get("conversations")
        return sources is None or any(map(self.content.names.has, sources))

    def _upload(self, path: Path) -> Iterator[FileTrace]:
        if self._has_record(path) or self._is_mentioned(path, with_cells=True):
            if self.writes:
                path.unlink(missing_ok=True)
            yield FileTrace(path, "upload")

    def _has_record(self, path: Path) -> bool:
        """Return True if an import of this file reads an erased conversation, or a rating by an erased annotator."""
        names = self.content.names
        with suppress(AccordError):  # the file was refused by the import too
            if any(names.has(record.conversation.id) for record in read(path, on_bad_row=lambda _: None)):
                return True
        with suppress(AccordError):
            rows = (row.fields for row in read_rows(path) if names.annotators and isinstance(row, Row))
            people = (cell for row in rows for name, cell in row.items() if plain_name(str(name)) in ANNOTATOR_KEYS)
            return any(names.annotator(str(cell).strip()) != str(cell).strip() for cell in people)
        return False

    def _evaluator(self, folder: Path) -> Iterator[FileTrace]:
        """Remove an evaluator whose files hold a text; one that learned numbers only is found by its training set."""
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
        texts = [path for path in files if path.suffix in {".json", ".yaml", ".jsonl", ".md", ".txt"}]
        if self.content.names.annotators and (count := sum(self._rename(path) for path in texts)):
            yield FileTrace(folder, "evaluator", count)
        if not self.content.names.conversations or not any(self._is_mentioned(path) for path in texts):
            return
        if self.writes:
            remove_evaluator(folder)
        yield FileTrace(folder, "evaluator")

    def _rename(self, path: Path) -> bool:
        """Replace names of annotators in a JSON file, and return True if it has one."""
        if path.suffix != ".json":
            return False
        content = json.loads(path.read_text(encoding="utf-8"))
        renamed = self.content.names.renamed(content)
        if renamed != content and self.writes:
            write_atomically(path, json.dumps(renamed, indent=1) + "\n")
        return bool(renamed != content)

    def _report(self, path: Path) -> Iterator[FileTrace]:
        text = path.read_text(encoding="utf-8", errors="replace")
        is_mentioned = self.content.text.mentions(text) or self.content.text.has_cell(text, is_page=True)
        if not is_mentioned and (not self.content.outdated or _STALE in text):
            return
        if self.writes:
            title = text.partition("<title>")[2].partition("</title>")[0]
            write_atomically(path, _removed_page(title) if is_mentioned else _marked(text), "xmlcharrefreplace")
        yield FileTrace(path, "report")

    def _is_mentioned(self, path: Path, with_cells: bool = False) -> bool:
        """Return True if a file mentions something erased in a text or, `with_cells`, in a cell.

        Raises:
            BadInput: The file cannot be read whole, and the part that was read has no mention.
            MissingExtra: The file needs a package that is not installed.
        """
        found, fault = self.content.text, None
        for text in file_texts(path):
            if isinstance(text, BadRow):
                fault = fault or text
            elif found.mentions(text) or (with_cells and found.has_cell(text)):
                return True
        if fault is not None:
            raise fault
        return False


def _is_damaged(line: str) -> bool:
    try:
        line.encode()
    except UnicodeEncodeError:
        return True
    return False


def _is_part_of_database(path: Path) -> bool:
    ends = [end for end in _ENDINGS if path.name.endswith(end)]
    return any(path.with_name(path.name.removesuffix(end)).is_file() for end in ends)


def _is_shared(folder: Path) -> bool:
    """Return True for the root of the disk and for a home folder."""
    with suppress(RuntimeError):  # no home folder is known
        return folder in {Path(folder.anchor), Path.home().resolve()}
    return folder == Path(folder.anchor)


def _is_accords(folder: Path) -> bool:
    """Return True for a folder that Accord writes: evaluators, scores, recorded judgments, uploads, or a project."""
    if folder.name in {"evaluators", JUDGEMENTS_FOLDER, UPLOADS} or folder.name.endswith(".scores"):
        return True
    with suppress(OSError):
        return any((folder / name).is_file() for name in (CARD, PROJECT_FILE, MANIFEST))
    return False


def _is_scores(folder: Path) -> bool:
    """Return True for the scores of a board."""
    return folder.name.endswith(".scores") and any(folder.glob("part-*.parquet"))


# --- pages ----------------------------------------------------------------------------------------------------------

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body class="accord-outdated"><h1>This page was removed</h1>
<p>It held texts of conversations that were erased. Write it again with the command that wrote it, for example:
<code>accord report</code></p></body></html>
"""
_MARK = (
    f'<p class="{_STALE}" role="note" style="margin:0;padding:.75rem 1rem;border-bottom:2px solid">'
    "<strong>Outdated:</strong> conversations behind these figures were erased. Write this page again: "
    "<code>accord report</code></p>"
)


def _removed_page(title: str) -> str:
    return _PAGE.format(title=escape(one_line(title.partition(":")[0], 60) or "Accord report"))


def _marked(text: str) -> str:
    start = text.find("<body")
    end = text.find(">", start) + 1 if start >= 0 else 0
    return text[:end] + _MARK + text[end:]

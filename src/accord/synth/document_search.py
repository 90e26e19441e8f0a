"""The documents that an assistant may read, and which of them fit a text best (BM25; Robertson and Zaragoza, 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from accord.edges import MB, BadInput, BadRow, MissingExtra, UnknownName, regular_size
from accord.formats import documents_from, read_rows
from accord.values import Document, content_hash

ENDINGS = (".md", ".txt")
LONGEST = 8 * MB
"""Bytes of a document."""


class DocumentIndex:
    """Documents by id, in the order of the file or of their names."""

    def __init__(self, documents: Sequence[Document]) -> None:
        """Each has an id of its own.

        Raises:
            BadInput: There is none, or two have one id.
        """
        self.documents = {str(each.id): each for each in documents}
        if not documents or len(self.documents) < len(documents):
            raise BadInput("no document, or two of one id; an assistant that retrieves needs documents with ids")

    @classmethod
    def read(cls, path: str | Path) -> DocumentIndex:
        """The text files of a folder, or the rows of a file that have a `text` each.

        Raises:
            BadInput: There is none, or one of them cannot be read.
        """
        found = Path(path)
        try:
            return cls(_of_folder(found) if found.is_dir() else _of_rows(found))
        except BadInput as error:
            raise BadInput(f"documents {path}: {error}") from None

    def named(self, ids: Sequence[str]) -> list[Document]:
        """Documents by their ids.

        Raises:
            UnknownName: There is none of an id.
        """
        for name in ids:
            if name not in self.documents:
                raise UnknownName("document", name, self.documents)
        return [self.documents[name] for name in ids]

    def best(self, text: str, most: int) -> list[Document]:
        """The documents that share the weightiest words with a text, the best first; none that shares no word."""
        tokens = self._tokens([text])
        if not tokens[0]:
            return []
        documents = list(self.documents.values())
        places, scores = self._index.retrieve(tokens, k=min(most, len(documents)), show_progress=False)
        return [documents[int(at)] for at, score in zip(places[0], scores[0], strict=True) if score > 0]

    @cached_property
    def digest(self) -> str:
        """The same for the same documents."""
        return content_hash([each.to_json() for each in self.documents.values()], length=16)

    @cached_property
    def _index(self) -> Any:
        index = _bm25s().BM25()
        index.index(self._tokens([f"{each.title or ''} {each.text}" for each in self.documents.values()]), False, False)
        return index

    def _tokens(self, texts: Sequence[str]) -> Any:
        return _bm25s().tokenize(list(texts), stopwords=[], return_ids=False, show_progress=False)


def _bm25s() -> Any:
    try:
        import bm25s
    except ImportError:
        raise MissingExtra("retrieval of documents", "synth") from None
    return bm25s


def _of_folder(folder: Path) -> list[Document]:
    found = []
    for path in sorted(each for each in folder.rglob("*") if each.suffix.lower() in ENDINGS):
        if regular_size(path) > LONGEST:
            raise BadInput(f"{path.name} has more than {LONGEST // MB} MB; divide it")
        try:
            text = path.read_text(encoding="utf-8-sig")
        except ValueError:
            raise BadInput(f"{path.name} is not UTF-8 text; save it as UTF-8") from None
        except OSError as error:
            raise BadInput(f"cannot read {path.name}: {error.strerror or error}") from None
        if text.strip():
            first = text.lstrip().partition("\n")[0]
            title = first.lstrip("# ").strip() if first.startswith("#") else path.stem
            found.append(Document(text, path.relative_to(folder).as_posix(), title[:200]))
    if not found:
        raise BadInput(f"the folder has no text in files that end in {' or '.join(ENDINGS)}")
    return found


def _of_rows(path: Path) -> list[Document]:
    if not path.exists():
        raise BadInput("there is no such file or folder")
    found = []
    for row in read_rows(path):
        if isinstance(row, BadRow):
            raise row
        try:
            [document] = documents_from([dict(row.fields)])
        except BadInput as error:
            raise BadInput(f"line {row.line}: {error}") from None
        found.append(Document(document.text, document.id or str(row.line), document.title))
    return found

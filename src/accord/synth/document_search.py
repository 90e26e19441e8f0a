"""Documents of an assistant, with search by BM25 (Robertson and Zaragoza, 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from accord.edges import MB, BadInput, BadRow, MissingExtra, UnknownName, regular_size
from accord.formats import documents_from, read_rows
from accord.values import Document, content_hash

ENDINGS = (".md", ".txt")
MAX_DOCUMENT_BYTES = 8 * MB


class DocumentIndex:
    """Documents by ID, in the order of the file or of their names."""

    def __init__(self, documents: Sequence[Document]) -> None:
        """Index documents with unique IDs.

        Raises:
            BadInput: The list of documents is empty, or two have the same ID.
        """
        self.documents = {str(document.id): document for document in documents}
        if not documents or len(self.documents) < len(documents):
            raise BadInput("no document, or two with the same id; an assistant that retrieves needs documents with ids")

    @classmethod
    def read(cls, path: str | Path) -> DocumentIndex:
        """Read the text files of a folder, or the rows of a file with `text`.

        Raises:
            BadInput: No document is found, or a document cannot be read.
        """
        source = Path(path)
        try:
            return cls(_of_folder(source) if source.is_dir() else _of_rows(source))
        except BadInput as error:
            raise BadInput(f"documents {path}: {error}") from None

    def named(self, ids: Sequence[str]) -> list[Document]:
        """Return documents by ID.

        Raises:
            UnknownName: An ID does not belong to a document.
        """
        for name in ids:
            if name not in self.documents:
                raise UnknownName("document", name, self.documents)
        return [self.documents[name] for name in ids]

    def best(self, text: str, most: int) -> list[Document]:
        """Return the documents that share a word with a text, the best by BM25 first."""
        tokens = self._tokens([text])
        if not tokens[0]:
            return []
        documents = list(self.documents.values())
        places, scores = self._index.retrieve(tokens, k=min(most, len(documents)), show_progress=False)
        return [documents[int(at)] for at, score in zip(places[0], scores[0], strict=True) if score > 0]

    @cached_property
    def digest(self) -> str:
        """Digest of all documents."""
        return content_hash([document.to_json() for document in self.documents.values()], length=16)

    @cached_property
    def _index(self) -> Any:
        index = _bm25s().BM25()
        index.index(self._tokens([f"{one.title or ''} {one.text}" for one in self.documents.values()]), False, False)
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
    documents = []
    for path in sorted(file for file in folder.rglob("*") if file.suffix.lower() in ENDINGS):
        if regular_size(path) > MAX_DOCUMENT_BYTES:
            raise BadInput(f"{path.name} has more than {MAX_DOCUMENT_BYTES // MB} MB; divide it")
        try:
            text = path.read_text(encoding="utf-8-sig")
        except ValueError:
            raise BadInput(f"{path.name} is not UTF-8 text; save it as UTF-8") from None
        except OSError as error:
            raise BadInput(f"cannot read {path.name}: {error.strerror or error}") from None
        if text.strip():
            first = text.lstrip().partition("\n")[0]
            title = first.lstrip("# ").strip() if first.startswith("#") else path.stem
            documents.append(Document(text, path.relative_to(folder).as_posix(), title[:200]))
    if not documents:
        raise BadInput(f"the folder has no text in files that end in {' or '.join(ENDINGS)}")
    return documents


def _of_rows(path: Path) -> list[Document]:
    if not path.exists():
        raise BadInput("there is no such file or folder")
    documents = []
    for row in read_rows(path):
        if isinstance(row, BadRow):
            raise row
        try:
            [document] = documents_from([dict(row.fields)])
        except BadInput as error:
            raise BadInput(f"line {row.line}: {error}") from None
        documents.append(Document(document.text, document.id or str(row.line), document.title))
    return documents

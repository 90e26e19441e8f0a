"""Uploaded files: parsing of multipart forms, storage in the project's folder, and imports in the background."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from accord.edges import (
    MB,
    AccordError,
    BadInput,
    MissingExtra,
    format_size,
    one_line,
    reason_of,
    write_atomically,
)
from accord.formats import encoding_notes
from accord.project import (
    MOST_SURVEYED,
    column_notes,
    import_files,
    imported_text,
    keep_judgements,
    new_project,
    note_judgements,
    positions_note,
    survey_files,
    survey_options,
)
from accord.studies import BackgroundJobs
from accord.verbs import Project
from accord.web.accounts import MAX_FIELDS
from accord.web.project_editing import ProjectFiles

MAX_UPLOAD = 50 * MB
"""Maximum size of all files of one upload."""
UPLOAD_SECONDS = 600.0
"""Time limit for receiving an upload."""
UPLOAD_PATH = "/import/files"
UPLOADS = "uploads"
"""Folder of uploaded files in the project's folder."""
MULTIPART = "multipart/form-data"
IMPORT = "import"
Reload = Callable[[], Project]
"""Opens the project again and returns it."""
_SAVING = Lock()
MAX_FIELD = 64 * 1024
"""Maximum size of a field that is not a file, in bytes."""
_MAX_CONTENT_TYPE = 300
_MAX_NAME = 200
"""Maximum length of a file's name in bytes: a file system has 255, and a number or a temporary suffix is added."""


@dataclass(frozen=True)
class UploadedFile:
    """A file of a form, with the name that the browser gave."""

    name: str
    content: bytes


def parse_multipart(body: bytes, content_type: str) -> tuple[dict[str, str], list[UploadedFile]]:
    """Return the fields and the files of a multipart form.

    Raises:
        BadInput: The body is not such a form, exceeds a limit, or has a field twice.
        MissingExtra: The package that parses forms is not installed.
    """
    try:
        from python_multipart.exceptions import FormParserError
        from python_multipart.multipart import MultipartParser, parse_options_header
    except ImportError:
        raise MissingExtra("uploads", "serve") from None
    kind, parameters = parse_options_header(content_type[:_MAX_CONTENT_TYPE])
    boundary = parameters.get(b"boundary", b"")
    if kind.decode("latin-1") != MULTIPART or not boundary:
        raise BadInput(f"content type: got {content_type[:60]!r}, allowed: {MULTIPART}")
    form = _Form(parse_options_header)
    callbacks: dict[str, Callable[..., None]] = {
        name: getattr(form, name) for name in dir(form) if name.startswith("on_")
    }
    try:
        parser = MultipartParser(boundary, callbacks, MAX_UPLOAD)  # type: ignore[arg-type]
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise BadInput(f"the upload is not a valid form: {error}; choose the files and send them again") from None
    if not form.is_complete:
        raise BadInput("the upload is not complete; choose the files and send them again")
    return form.fields, form.files


class _Form:
    """Fields and files of a form in progress; its `on_` methods are the callbacks of the parser.

    Args:
        parse_header: Returns the value and the parameters of a header.
    """

    def __init__(self, parse_header: Callable[[bytes], tuple[bytes, dict[bytes, bytes]]]) -> None:
        self._parse_header = parse_header
        self.fields: dict[str, str] = {}
        self.files: list[UploadedFile] = []
        self.is_complete = False
        self._parts = 0
        self._header, self._value, self._content = bytearray(), bytearray(), bytearray()
        self._parameters: dict[bytes, bytes] = {}

    def on_part_begin(self) -> None:
        """Start a part; there are at most `MAX_FIELDS`."""
        self._parts += 1
        if self._parts > MAX_FIELDS:
            raise BadInput(f"the form has more than {MAX_FIELDS} parts; send fewer files at once")
        self._content, self._parameters = bytearray(), {}

    def on_header_begin(self) -> None:
        """Start a header."""
        self._header, self._value = bytearray(), bytearray()

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        """Add to the name of a header."""
        self._header += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        """Add to the value of a header."""
        self._value += data[start:end]

    def on_header_end(self) -> None:
        """Keep the parameters of the disposition."""
        if self._header.lower() == b"content-disposition":
            _, self._parameters = self._parse_header(bytes(self._value))

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        """Add to the content of a part."""
        if b"filename" not in self._parameters and len(self._content) + end - start > MAX_FIELD:
            raise BadInput(f"a field of the form is larger than {format_size(MAX_FIELD)}; reload the page")
        self._content += memoryview(data)[start:end]

    def on_part_end(self) -> None:
        """Keep a part as a field or a file."""
        name = self._parameters.get(b"name", b"").decode("utf-8", "replace")
        if b"filename" in self._parameters:
            file_name = self._parameters[b"filename"].decode("utf-8", "replace")
            if file_name or self._content:  # a field without a chosen file has neither
                self.files.append(UploadedFile(file_name, bytes(self._content)))
        elif name in self.fields:
            raise BadInput(f"the form has the field {name[:60]!r} twice; reload the page")
        else:
            self.fields[name] = self._content.decode("utf-8", "replace")

    def on_end(self) -> None:
        """Note the last boundary."""
        self.is_complete = True


def save_uploads(files: Sequence[UploadedFile], folder: Path) -> list[Path]:
    """Write uploaded files to the folder `uploads`, and return their paths.

    A file with the content of an earlier upload of the same name is not written again; one with other content gets a
    number.
    """
    target = folder / UPLOADS
    target.mkdir(parents=True, exist_ok=True)
    with _SAVING:
        return [_save(file, target) for file in files]


def _save(file: UploadedFile, folder: Path) -> Path:
    base = re.split(r"[/\\]", file.name)[-1]
    name = re.sub(r"[^\w.-]+", "-", base).lstrip(".-")
    name = name.encode("utf-8", "replace")[-_MAX_NAME:].decode("utf-8", "ignore").lstrip(".-") or "data"
    for number in range(1, 10_000):
        stem, dot, ending = name.partition(".")
        path = folder / (name if number == 1 else f"{stem}-{number}{dot}{ending}")
        if not path.exists() and not path.is_symlink():
            write_atomically(path, file.content)
            return path
        if path.is_file() and not path.is_symlink() and path.read_bytes() == file.content:
            return path
    raise BadInput(f"the folder {UPLOADS} holds too many files named {name}; remove some")


@dataclass
class UploadState:
    """Progress and result of the latest import of uploaded files.

    Attributes:
        files: Names of the files.
        rows: Number of rows read so far.
        summary: Result in one sentence; empty until the import ends.
        lines: Result, one sentence per line.
        notes: Sentences about guesses and created files.
        error: Reason of a failure, or an empty text.
        id: Import that can be undone.
        other_questions: Questions with labels that the rubric does not ask.
    """

    files: list[str] = field(default_factory=list)
    rows: int = 0
    summary: str = ""
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: str = ""
    id: str | None = None
    other_questions: list[str] = field(default_factory=list)


class Uploads:
    """Imports of uploaded files, one at a time in a background thread."""

    def __init__(self) -> None:
        self.jobs = BackgroundJobs()
        self.state: UploadState | None = None

    @property
    def is_running(self) -> bool:
        """True while files are imported."""
        return bool(self.jobs.state(IMPORT))

    def start(self, project: Project, files: ProjectFiles, paths: Sequence[Path], skip: bool, reload: Reload) -> None:
        """Import files in the background.

        Args:
            project: Project with the store.
            files: The project's files; a new project gets them from the data.
            paths: Files to import.
            skip: Count and report bad rows instead of stopping at the first.
            reload: Opens the project again, after files were made, and returns it.

        Raises:
            BadInput: Another import is running.
        """
        state = UploadState([path.name for path in paths])
        if self.is_running or not self.jobs.add(IMPORT, lambda: _import(state, project, files, paths, skip, reload)):
            raise BadInput("another import is running; wait until it ends")
        self.state = state


def _import(
    state: UploadState, project: Project, files: ProjectFiles, paths: Sequence[Path], skip: bool, reload: Reload
) -> None:
    """Import files as `accord import` does, and keep the result or the error in `state`."""
    try:
        survey = survey_files(paths, limit=MOST_SURVEYED, skips_unreadable=True)
        if not files.exists:
            made, notes = new_project(survey)
            state.notes += [*notes, f"written: {', '.join(files.create(made))}"]
            project = reload()
        options = survey_options(survey, project.rubric)

        def on_progress(rows: int) -> None:
            state.rows = rows

        store, rubric = project.store, project.rubric
        done = import_files(store, rubric, paths, "auto", {}, skip, on_progress, options, survey=survey)
        registered = keep_judgements(done.judged, files.path)
        note_judgements(store, done.id, registered)
        state.notes += [] if registered is None else [registered.message]
        result = done.to_json()
        state.lines, state.id = imported_text(result).splitlines(), done.id
        state.other_questions = list(result["other_questions"])
        state.notes += column_notes(survey, options.rating_columns or (), (), _command)
        if result["positions"]:
            state.notes.append(positions_note(result["positions"]))
        notes = [*done.counts.role_notes({}), *done.counts.turn_notes()]
        state.notes += [*encoding_notes(paths), *done.matched, *notes, *survey.skipped_files]
        state.notes = [note for note in dict.fromkeys(state.notes) if note not in state.lines]
        chats, ratings = result["conversations"]["new"], result["labels"]["new"]
        words = [f"{n:,} {noun}{'' if n == 1 else 's'}" for n, noun in ((chats, "conversation"), (ratings, "rating"))]
        state.summary = f"{' and '.join(words)} imported"
    except (AccordError, OSError) as error:
        state.error = one_line(" ".join(reason_of(error).split()))
    except Exception:
        state.error = "internal error; see the server's log"
        raise


def _command(labels: Sequence[str] = (), raters: Sequence[str] = ()) -> str:
    options = [*(f"--labels {name}" for name in labels), *(f"--rater {name}" for name in raters)]
    return " ".join(["accord import FILE", *options])

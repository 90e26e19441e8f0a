"""Uploaded files: parsing of multipart forms, storage in the project's folder, and imports in the background."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from accord.edges import MB, AccordError, BadInput, one_line, write_atomically
from accord.live import media_type
from accord.project import (
    MOST_SURVEYED,
    Project,
    column_notes,
    import_files,
    imported_text,
    keep_judgements,
    new_project,
    positions_note,
    survey_files,
    survey_options,
)
from accord.studies import BackgroundJobs
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
_BOUNDARY = re.compile(r';\s*boundary=(?:"([^"]{1,70})"|([^\s";,]{1,70}))', re.IGNORECASE)
_PARAMETER = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class UploadedFile:
    """A file of a form, with the name that the browser gave."""

    name: str
    content: bytes


def parse_multipart(body: bytes, content_type: str) -> tuple[dict[str, str], list[UploadedFile]]:
    """Return the fields and the files of a multipart form.

    Raises:
        BadInput: The body is not such a form, or a field occurs twice.
    """
    boundary = _BOUNDARY.search(content_type)
    if media_type(content_type) != MULTIPART or boundary is None:
        raise BadInput(f"content type: got {content_type[:60]!r}, allowed: {MULTIPART}")
    sign = b"\r\n--" + (boundary[1] or boundary[2]).encode("latin-1", "replace")
    parts = (b"\r\n" + body).split(sign, MAX_FIELDS)
    if len(parts) > MAX_FIELDS or len(parts) < 2 or not parts[-1].startswith(b"--"):
        raise BadInput("the upload is not complete; choose the files and send them again")
    fields, found = dict[str, str](), list[UploadedFile]()
    for part in parts[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        lines = head.decode("utf-8", "replace").split("\r\n")
        about = next((line for line in lines if line.lower().startswith("content-disposition:")), "")
        parameters = {name.lower(): re.sub(r"\\(.)", r"\1", value) for name, value in _PARAMETER.findall(about)}
        name = parameters.get("name", "")
        if "filename" in parameters:
            if parameters["filename"] or content:  # a field without a chosen file has neither
                found.append(UploadedFile(parameters["filename"], content))
        elif name in fields:
            raise BadInput(f"the form has the field {name[:60]!r} twice; reload the page")
        else:
            fields[name] = content.decode("utf-8", "replace")
    return fields, found


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
    name = re.sub(r"[^\w.-]+", "-", base).lstrip(".-")[-100:] or "data"
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
        lines: Result, one sentence per line.
        notes: Sentences about guesses and created files.
        error: Reason of a failure, or an empty text.
        id: Import that can be undone.
        other_questions: Questions with labels that the rubric does not ask.
    """

    files: list[str] = field(default_factory=list)
    rows: int = 0
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

        done = import_files(project.store, project.rubric, paths, "auto", {}, skip, on_progress, options)
        registered = keep_judgements(done.judged, files.path)
        state.notes += [] if registered is None else [registered.message]
        result = done.to_json()
        state.lines, state.id = imported_text(result).splitlines(), done.id
        state.other_questions = list(result["other_questions"])
        state.notes += column_notes(survey, options.rating_columns or (), (), _command)
        if result["positions"]:
            state.notes.append(positions_note(result["positions"]))
        state.notes += [*done.counts.role_notes({}), *survey.skipped_files]
    except (AccordError, OSError) as error:
        state.error = one_line(str(error))
    except Exception:
        state.error = "internal error; see the server's log"
        raise


def _command(labels: Sequence[str] = (), raters: Sequence[str] = ()) -> str:
    options = [*(f"--labels {name}" for name in labels), *(f"--rater {name}" for name in raters)]
    return " ".join(["accord import FILE", *options])

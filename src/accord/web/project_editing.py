"""Project files that forms change: accord.yaml and the rubric it names. A change is written only if it was shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock

from accord.edges import MB, BadInput, own_project, parse_yaml, read_text, write_atomically
from accord.project import Config, load_config
from accord.store import Conflict
from accord.values import PROJECT_FILE, content_hash

MAX_BYTES = MB


class FilesChanged(Conflict):
    """A change that was not written, because the files are not those that the page compared it with."""

    def __init__(self) -> None:
        super().__init__(
            f"{PROJECT_FILE} or the rubric has changed since this page was made, so nothing was saved. Check the "
            "difference from the present files below, then save again"
        )


class ProjectFiles:
    """The files of a project.

    Attributes:
        path: The project file, which may not exist yet.
        load: Returns the settings of the project.
    """

    def __init__(self, path: Path, load: Callable[[], Config] | None = None) -> None:
        self.path = path
        self.load: Callable[[], Config] = load or (lambda: load_config(path))
        self._lock = Lock()

    @property
    def folder(self) -> Path:
        """Folder of the project."""
        return self.path.parent

    @property
    def exists(self) -> bool:
        """True if there is a project file."""
        return self.path.is_file()

    def text(self, name: str = PROJECT_FILE) -> str:
        """Return the text of a file of the project, or an empty text if there is no such file."""
        path = self._path(name)
        return read_text(path, MAX_BYTES) if path.is_file() else ""

    def create(self, files: Mapping[str, str]) -> list[str]:
        """Write the files that do not exist yet, and return their names. A new project is the user's own.

        Raises:
            BadInput: A name is a link to a file that does not exist.
        """
        with self._lock:
            new = [name for name in files if not self._path(name).exists()]
            for name in new:
                write_atomically(self._path(name), files[name])
        if PROJECT_FILE in new:
            own_project(self.folder)
        return new

    def change(self, files: Mapping[str, str], shown: str, reload: Callable[[], object]) -> None:
        """Write changed files and open the project again; if that fails, the earlier files are restored.

        Args:
            files: New texts by name.
            shown: Digest of the texts that the page compared with the new ones (`digest`).
            reload: Opens the project again.

        Raises:
            FilesChanged: A file, or the rubric in use, has changed since the page was made.
            BadInput: The project cannot be opened with the new files.
        """
        with self._lock:
            if self.digest(files) != shown:
                raise FilesChanged
            before = {name: self._path(name).read_bytes() if self._path(name).is_file() else None for name in files}
            try:
                for name, text in files.items():
                    write_atomically(self._path(name), text)
                reload()
            except BaseException:
                for name, content in before.items():
                    if content is None:
                        self._path(name).unlink(missing_ok=True)
                    else:
                        write_atomically(self._path(name), content)
                raise

    def digest(self, names: Mapping[str, str]) -> str:
        """Return a digest of the current texts of some files, and of the rubric that the project file names."""
        return content_hash([*([name, self.text(name)] for name in sorted(names)), self._rubric_text()])

    def _rubric_text(self) -> str:
        """Return the text of the rubric's file; empty for a shipped rubric and for a file that cannot be read."""
        try:
            content = parse_yaml(self.text(), PROJECT_FILE)
            return read_text(self.folder / str(content["rubric"]), MAX_BYTES)
        except (BadInput, OSError, LookupError, TypeError):
            return ""

    def _path(self, name: str) -> Path:
        if name != PROJECT_FILE and ("/" in name or "\\" in name or name.startswith(".")):
            raise BadInput(f"{name[:60]!r} is not a file in the project's folder")
        path = self.path if name == PROJECT_FILE else self.folder / name
        if path.is_symlink() and not path.exists():
            raise BadInput(f"{path} is a link to a file that does not exist, and is not followed; remove it")
        return path

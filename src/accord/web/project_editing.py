"""Project files that forms change: accord.yaml and the rubric it names. A change is written only if it was shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock

from accord.edges import MB, BadInput, read_text, write_atomically
from accord.project import Config, load_config
from accord.values import PROJECT_FILE, content_hash

MAX_BYTES = MB


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
        """Write the files that do not exist yet, and return their names."""
        with self._lock:
            new = [name for name in files if not self._path(name).exists()]
            for name in new:
                write_atomically(self._path(name), files[name])
        return new

    def change(self, files: Mapping[str, str], shown: str, reload: Callable[[], object]) -> None:
        """Write changed files and open the project again; if that fails, the earlier files are restored.

        Args:
            files: New texts by name.
            shown: Digest of the texts that the page compared with the new ones (`digest`).
            reload: Opens the project again.

        Raises:
            BadInput: A file has changed since the page was made, or the project cannot be opened with the new files.
        """
        with self._lock:
            if self.digest(files) != shown:
                raise BadInput(
                    "the files have changed since this page was made; go back and check the difference again"
                )
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
        """Return a digest of the current texts of some files."""
        return content_hash([[name, self.text(name)] for name in sorted(names)])

    def _path(self, name: str) -> Path:
        if name == PROJECT_FILE:
            return self.path
        if "/" in name or "\\" in name or name.startswith("."):
            raise BadInput(f"{name[:60]!r} is not a file in the project's folder")
        return self.folder / name

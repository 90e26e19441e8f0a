"""The project file `accord.yaml`, found in a folder or in the nearest folder above it."""

from __future__ import annotations

from pathlib import Path

PROJECT_FILE = "accord.yaml"


def find_project_file(start: str | Path = ".") -> Path | None:
    """Return the `accord.yaml` of a folder, or of the nearest folder above it; `None` if there is none.

    The path is relative if the file is in the working folder itself.
    """
    for folder in (Path(start), *Path(start).resolve().parents):
        if (folder / PROJECT_FILE).is_file():
            return folder / PROJECT_FILE
    return None


def project_folder(file: Path) -> Path:
    """Return the folder to which relative paths in a project file refer.

    An empty path stands for the working folder; any other folder is absolute.
    """
    folder = file.parent.resolve()
    return Path() if folder == Path.cwd() else folder

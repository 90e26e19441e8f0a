"""Hot reload: a running service switches to a new evaluator when the evaluator's folder changes.

A promotion on the lead's page, `accord fit`, or a folder renamed into place change the files. If the new evaluator
cannot be loaded or cannot score live, the current one stays in use; the error is reported once, and loading is tried
again at each check, because a folder that is being copied becomes complete later.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Self

from accord.edges import AccordError
from accord.learning import Evaluator, load_evaluator

EVALUATOR_FILE = "evaluator.json"
CHECK_SECONDS = 2.0
FolderVersion = tuple[tuple[str, int, int, int], ...]
"""Name, inode, modification time and size of each file."""


def folder_version(folder: Path) -> FolderVersion | None:
    """Return a value that changes with any file of an evaluator's folder; `None` if it holds no evaluator."""
    try:
        stats = {path.relative_to(folder).as_posix(): path.stat() for path in folder.rglob("*") if path.is_file()}
    except OSError:
        return None
    if EVALUATOR_FILE not in stats:
        return None
    return tuple(sorted((name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in stats.items()))


class EvaluatorReloader:
    """Thread that checks an evaluator's folder for changes; a context manager.

    Args:
        folder: Folder of the evaluator in use.
        version: Version of the folder when the evaluator was loaded.
        use: Called with the new evaluator; an exception keeps the current one.
        log: Called with one line per switch or problem.
        seconds: Seconds between checks.
    """

    def __init__(
        self,
        folder: Path,
        version: FolderVersion | None,
        use: Callable[[Evaluator], None],
        log: Callable[[str], None] = lambda text: None,
        seconds: float = CHECK_SECONDS,
    ) -> None:
        self.folder, self.use, self.log, self.seconds = folder, use, log, seconds
        self._version, self._reported = version, ""
        self._stop = Event()
        self._thread = Thread(target=self._run, name="reload", daemon=True)

    def _run(self) -> None:
        while not self._stop.wait(self.seconds):
            self.check()

    def check(self) -> None:
        """Check the folder once."""
        version = folder_version(self.folder)
        if version is None or version == self._version:
            return
        try:
            evaluator = load_evaluator(self.folder)
            if folder_version(self.folder) != version:
                return  # the folder is being written
            self.use(evaluator)
        except (AccordError, OSError) as error:
            reason = str(error)
        except Exception as error:  # the current evaluator stays in use
            reason = f"{type(error).__name__}, which is a bug; please report it"
        else:
            self._version, self._reported = version, ""
            self.log(f"switched to a new evaluator: {evaluator.signature()}|learned:{evaluator.digest()}")
            return
        if reason != self._reported:
            self._reported = reason
            self.log(f"cannot switch to the new evaluator in {self.folder}, the current one stays in use: {reason}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

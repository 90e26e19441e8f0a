"""Another evaluator takes over without a restart: its folder is looked at every few seconds.

A promotion on the lead's page, `accord fit`, or a folder that is renamed into place change its files. What cannot be
read or cannot score live is told once, and the one in use goes on; it is tried again at each look, since a folder that
is being copied becomes whole.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Self

from accord.edges import AccordError
from accord.learning import Evaluator, load_evaluator

CARD = "evaluator.json"
EVERY = 2.0
"""Seconds between looks."""
Version = tuple[tuple[str, int, int, int], ...]


def version_of(folder: Path) -> Version | None:
    """What changes with the evaluator of a folder, those of other questions in it included; `None` where none is."""
    try:
        known = {path.relative_to(folder).as_posix(): path.stat() for path in folder.rglob("*") if path.is_file()}
    except OSError:
        return None
    if CARD not in known:
        return None
    return tuple(sorted((name, each.st_ino, each.st_mtime_ns, each.st_size) for name, each in known.items()))


class Succession:
    """A thread that looks at a folder; a context manager that ends it.

    Args:
        folder: Of the evaluator in use.
        seen: Its version when it was opened.
        take_over: Called with another evaluator that stands there; what it raises is told.
        say: Told in a line who took over, and why another one could not.
        every: Seconds between looks.
    """

    def __init__(
        self,
        folder: Path,
        seen: Version | None,
        take_over: Callable[[Evaluator], None],
        say: Callable[[str], None] = lambda text: None,
        every: float = EVERY,
    ) -> None:
        self.folder, self.take_over, self.say, self.every = folder, take_over, say, every
        self._seen, self._told = seen, ""
        self._stop = Event()
        self._thread = Thread(target=self._run, name="succession", daemon=True)

    def _run(self) -> None:
        while not self._stop.wait(self.every):
            self.look()

    def look(self) -> None:
        """Look once."""
        version = version_of(self.folder)
        if version is None or version == self._seen:
            return
        try:
            found = load_evaluator(self.folder)
            if version_of(self.folder) != version:
                return  # it is being written
            self.take_over(found)
        except (AccordError, OSError) as error:
            reason = str(error)
        except Exception as error:  # the one in use goes on
            reason = f"{type(error).__name__}, which is a bug; please report it"
        else:
            self._seen, self._told = version, ""
            self.say(f"scores are made by another evaluator from now on: {found.signature()}|learned:{found.digest()}")
            return
        if reason != self._told:
            self._told = reason
            self.say(f"another evaluator stands in {self.folder}, and the one before goes on: {reason}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

"""Terminal output: results as JSON or text, progress and notes on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from accord.edges import BadInput, escape_controls, one_line, one_line_json, redact, redact_message, truncate_middle

if TYPE_CHECKING:
    from accord.results import Document

_PLAIN_SECONDS = 5.0


_handlers: list[Any] = []
_noted_projects: set[Path] = set()
_is_quiet = _is_changed = False


def set_verbosity(verbose: bool, quiet: bool) -> None:
    """Set the verbosity: log messages from INFO on, results and errors only, or neither.

    Raises:
        BadInput: Both options are set.
    """
    global _is_quiet, _is_changed
    _is_quiet, was_changed, _is_changed = quiet, _is_changed, verbose or quiet
    if not (was_changed or _is_changed):
        return
    import logging

    loggers = [logging.getLogger(name) for name in ("accord", "httpx2")]
    for logger in loggers:
        logger.setLevel(logging.INFO if verbose else logging.ERROR if quiet else logging.NOTSET)
        for handler in _handlers:
            logger.removeHandler(handler)
    _handlers.clear()
    if verbose and quiet:
        raise BadInput("--verbose and --quiet exclude each other; give one of them")
    if verbose:
        handler = _log_handler()
        _handlers.append(handler)
        for logger in loggers:
            logger.addHandler(handler)


def _log_handler() -> Any:
    import logging

    class Lines(logging.Handler):
        """Log records as single lines on stderr, without credentials."""

        def emit(self, record: logging.LogRecord) -> None:
            say_line(f"{record.levelname.lower()}: {record.name}: {record.getMessage()}")

    return Lines(logging.INFO)


def show(result: Mapping[str, Any], as_json: bool, text: Callable[[Mapping[str, Any]], str]) -> None:
    """Print a result: as JSON, or as `text` writes it."""
    say(_as_json(result) if as_json else text(one_line_json(result)))


def show_result(result: DocumentResult, as_json: bool, document: Document | None = None, details: bool = False) -> None:
    """Print a result that is a document: as text, the first screen or all of it, or as JSON with the document."""
    found, text = json_and_text(result, document, details)
    say(_as_json(found) if as_json else text)


def json_and_text(
    result: DocumentResult, document: Document | None = None, details: bool = False
) -> tuple[dict[str, Any], str]:
    """Return a result as JSON with its document, and the document as text."""
    from accord.results import document_text

    found = document or result.document()
    return {**result.to_json(), "document": found.to_json()}, document_text(found, details)


def _as_json(result: Any) -> str:
    """Return a result as JSON, with escapes if the output cannot write all letters."""
    return json.dumps(result, indent=1, ensure_ascii=not writes_all_letters())


def writes_all_letters() -> bool:
    """Return False if the encoding of stdout lacks letters, such as a Windows code page."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")


def say(text: str, is_aside: bool = False) -> None:
    """Print a text without secrets and control characters; on stderr if it is an aside."""
    if is_aside and _is_quiet:
        return
    print(escape_controls(redact(text)), file=sys.stderr if is_aside else sys.stdout)


def say_line(text: str) -> None:
    """Print a text as one line of bounded length on stderr, without credentials."""
    print(one_line(redact_message(" ".join(truncate_middle(text).split()))), file=sys.stderr)


class JsonResult(Protocol):
    """Result of a command."""

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON."""
        ...


class DocumentResult(JsonResult, Protocol):
    """Result that is a document of sections."""

    def document(self) -> Document:
        """Return the result as a document."""
        ...


R = TypeVar("R")


def show_each(results: Iterable[R], as_json: bool, shown: Callable[[R], tuple[dict[str, Any], str]]) -> None:
    """Print results as they arrive; as JSON, print one list at the end, also after an error.

    Args:
        results: The results.
        as_json: True to print JSON.
        shown: Function that returns a result as JSON and as text.
    """
    done = []
    try:
        for result in results:
            found, text = shown(result)
            done.append(found)
            if not as_json:
                say(text)
    finally:
        if as_json and done:
            say(_as_json(done if len(done) > 1 else done[0]))


class Progress:
    """Progress on stderr: count, rate, and remaining time if the total is known.

    A terminal shows a bar, other outputs a line every few seconds.
    """

    def __init__(self, what: str, total: int | None = None) -> None:
        self.what, self.total, self.done = what, total, 0
        self._begun = self._last = time.monotonic()
        self._bar = _bar(what, total) if sys.stderr.isatty() and not _is_quiet else None

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def expect(self, total: int) -> None:
        """Set the total."""
        self.total = total
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], total=total)

    def at(self, done: int) -> None:
        """Set the count."""
        self.done = done
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, figures="  ".join(self._figures()))
        elif time.monotonic() - self._last > _PLAIN_SECONDS:
            self._last = time.monotonic()
            say(f"{self.what}: {', '.join(self._figures())}", is_aside=True)

    def _figures(self) -> list[str]:
        """Return count, average rate per second, and remaining time."""
        rate = self.done / max(time.monotonic() - self._begun, 1e-3)
        count = f"{self.done:,} of {self.total:,}" if self.total else f"{self.done:,}"
        left = (self.total or 0) - self.done
        return [count, f"{rate:,.1f}/s", *([f"{_time(left / rate)} left"] if left > 0 and rate > 0 else [])]

    def step(self, _: object = None) -> None:
        """Add one to the count."""
        self.at(self.done + 1)


class StageProgress:
    """Progress of successive stages: the name of a stage, or the number of requests for each purpose.

    A terminal shows one line, other outputs a line per stage.
    """

    def __init__(self) -> None:
        self._purpose = ""
        self._shown: Progress | None = None

    def __call__(self, purpose: str) -> None:
        """Count a request."""
        if purpose != self._purpose or self._shown is None:
            self.__exit__()
            self._purpose, self._shown = purpose, Progress(purpose).__enter__()
        self._shown.step()

    def stage(self, name: str) -> None:
        """Start a stage."""
        self.__exit__()
        if sys.stderr.isatty():
            self._purpose, self._shown = name, Progress(name).__enter__()
        else:
            stage(name)

    def __enter__(self) -> StageProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.__exit__()
            self._shown = None


def note(*texts: str) -> None:
    """Print notes for the user on stderr, each on its line."""
    for text in () if _is_quiet else texts:
        say_line(f"note: {text}")


def note_project(file: Path) -> None:
    """Print once that a project file above the working folder is used."""
    if file not in _noted_projects and not _is_quiet:
        _noted_projects.add(file)
        say_line(f"project: {file}")


def can_ask() -> bool:
    """Return True if somebody can answer a question at the terminal."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def ask_at_terminal(question: str) -> bool:
    """Ask a question on stderr; return True for y or yes."""
    print(f"{one_line(redact_message(question))} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def stage(name: str) -> None:
    """Print the current stage on stderr."""
    if not _is_quiet:
        say_line(f"{name} ...")


def _time(seconds: float) -> str:
    """Minutes and seconds, or hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _bar(what: str, total: int | None) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    shown = (TextColumn(f"{{task.{name}}}") for name in ("description", "fields[figures]"))
    bar = Bar(BarColumn(), *shown, TimeElapsedColumn(), console=Console(stderr=True), transient=True)
    bar.add_task(what, total=total, figures="")
    return bar


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format columns of text, the first aligned left, the others right."""
    from accord.results import text_table

    return text_table(header, rows)


def figure_text(value: float | None, low: float | None, high: float | None, digits: int = 2, ends: int = 2) -> str:
    """Format a number with its interval, if any; an undefined number is a dash."""
    from accord.values import Estimate

    return Estimate(value, low, high).text(digits, ends)

"""The application all commands join, and what turns expected failures into one line and an exit code."""

from __future__ import annotations

import atexit
import errno
import functools
import gc
import inspect
import math
import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from accord.cli.outputs import check_outputs, outputs_of
from accord.cli.show import say_line
from accord.version import __version__

PARTLY_UNSCORED = 5
INTERRUPTED = 130
BEFORE_GARBAGE = 400_000
"""Objects that are new before those among them which nothing names are looked for; Python's own number is 700."""
EXIT_CODES = (
    "Exit codes: 0 done, 1 wrong input, 2 usage, 3 gate failed, 4 budget reached, 5 partly unscored, 130 interrupted."
)

app = typer.Typer(
    name="accord",
    help=f"Learn to judge conversations the way your people do.\n\n{EXIT_CODES}",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_FILE_TROUBLES = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS,
    errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOENT, errno.ENAMETOOLONG,
}  # fmt: skip
"""What a user can do something about: no room, no permission, a path that is no place for a file."""

Command = TypeVar("Command", bound=Callable[..., Any])


def command(name: str) -> Callable[[Command], Command]:
    """Register a command of the application itself."""

    def register(function: Command) -> Command:
        app.command(name)(guarded(function))
        return function

    return register


_FORCE = inspect.Parameter(
    "force",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option("--force", help="Replace a file or folder that does not look like an earlier output."),
    ],
)
"""Option of every command that writes a file."""


def guarded(function: Callable[..., Any]) -> Callable[..., None]:
    """Wrap a command: its outputs are checked, and expected failures end in one line on stderr and an exit code."""
    outputs = outputs_of(function)

    @functools.wraps(function)
    def run(*args: Any, force: bool = False, **kwargs: Any) -> None:
        try:
            _check_finite(kwargs)
            check_outputs(outputs, kwargs, force)
            function(*args, **kwargs)
        except KeyboardInterrupt:
            stop("interrupted. What was done is kept; the same command goes on from there.", INTERRUPTED)
        except OSError as error:
            if error.errno not in _FILE_TROUBLES:
                raise
            stop(f"cannot use {error.filename or 'a file'}: {error.strerror}. What was done before is kept.", 1)
        except Exception as error:
            from accord.values import AccordError  # here: `--help` imports nothing that takes time

            if not isinstance(error, AccordError):
                raise
            stop(str(error), error.exit_code)

    if any(each.is_earlier for each in outputs.values()):
        signature = inspect.signature(function, eval_str=True)
        parameters = [*signature.parameters.values(), _FORCE]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def _check_finite(given: Mapping[str, Any]) -> None:
    """Refuse an option that is NaN or infinite: no bound would hold it, and no comparison with it says anything.

    Raises:
        BadInput: Names it.
    """
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            from accord.values import BadInput

            raise BadInput(f"--{name.replace('_', '-')} takes a finite number, got {value}; give a number")


def stop(reason: str, code: int) -> NoReturn:
    """Say why in one line, and end with the documented code."""
    say_line(f"accord: {reason}")
    raise typer.Exit(code)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    if version:
        print(f"accord {__version__}")
        raise typer.Exit


def main() -> None:
    """The console script's entry point."""
    # The threads of NumPy's linear algebra wait by spinning, a tenth of a second from when it is imported: for as long,
    # whatever else runs on that core is slower. A millisecond is enough for the next product.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")  # 2^20 cycles
    # What a command imports stays until it ends: looking through all of it for garbage takes a tenth of a short one,
    # and as long again at its end, when the process is gone anyway.
    gc.set_threshold(BEFORE_GARBAGE, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)
    from accord.cli import commands  # noqa: F401 - importing a command registers it

    app()

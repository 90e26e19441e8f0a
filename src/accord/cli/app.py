"""Command-line application: help, verbosity, and errors as one line and an exit code."""

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
import typer.core

from accord.cli.outputs import check_outputs, outputs_of, refuse_empty_outputs
from accord.cli.terminal import say_line, set_verbosity
from accord.version import __version__

PARTLY_UNSCORED = 5
INTERRUPTED = 130
GC_THRESHOLD = 400_000
"""Allocations before a garbage collection; the default of Python is 700."""
EXIT_CODES = (
    "Exit codes: 0 success, 1 invalid input, 2 usage, 3 gate failed, 4 budget reached, 5 partly unscored, "
    "130 interrupted."
)

PANELS = {
    "Start": ("demo", "run", "init", "import", "export", "view", "plugins", "schema"),
    "Learn": ("judge", "fit", "compare", "report", "gate", "estimate", "synth", "issues", "models", "finetune"),
    "Rate": ("serve", "users", "label", "validate"),
    "Operate": ("score", "scores", "follow", "watch", "board", "store"),
}
"""Commands by the heading under which `accord --help` lists them."""


class CommandGroup(typer.core.TyperGroup):
    """Group of commands whose help shows complete first sentences; Typer truncates them to a line."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by panel."""
        left = dict.fromkeys(self.list_commands(ctx))
        panels = [(panel, [name for name in names if name in left]) for panel, names in PANELS.items()]
        placed = {name for _, names in panels for name in names} if ctx.parent is None else set()
        rest = [name for name in left if name not in placed]
        for panel, names in [*(panels if ctx.parent is None else ()), ("Commands", rest)]:
            commands = [(name, self.commands[name]) for name in names if not self.commands[name].hidden]
            if commands:
                with formatter.section(panel):
                    formatter.write_dl([(name, _first_sentence(each.help or "")) for name, each in commands])


def _first_sentence(text: str) -> str:
    paragraph = " ".join(inspect.cleandoc(text).split("\n\n")[0].split())
    return paragraph.split(". ")[0].rstrip(".")


app = typer.Typer(
    name="accord",
    help=f"Learn to judge conversations the way your annotators do.\n\n{EXIT_CODES}",
    cls=CommandGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def command_group(name: str, help: str) -> typer.Typer:
    """Return a new group of commands of the application."""
    group = typer.Typer(help=help, cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(group, name=name)
    return group


_FILE_ERRORS = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS,
    errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOENT, errno.ENAMETOOLONG,
}  # fmt: skip
"""Errors that a user can resolve: no space, no permission, an invalid path."""

Command = TypeVar("Command", bound=Callable[..., Any])


def command(name: str) -> Callable[[Command], Command]:
    """Register a command of the application itself."""

    def register(function: Command) -> Command:
        app.command(name)(guarded(function))
        return function

    return register


Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log each step to stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.")]
_HIDDEN = (
    inspect.Parameter(
        "verbose",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[bool, typer.Option("--verbose", "-v", hidden=True)],
    ),
    inspect.Parameter(
        "quiet",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[bool, typer.Option("--quiet", "-q", hidden=True)],
    ),
)
"""Options that every command takes, and that `accord --help` documents."""
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
    """Wrap a command: its outputs are checked, and expected failures end in one line on stderr and an exit code.

    The command also takes `--verbose` and `--quiet`.
    """
    outputs = outputs_of(function)

    @functools.wraps(function)
    def run(*args: Any, force: bool = False, verbose: bool = False, quiet: bool = False, **kwargs: Any) -> None:
        try:
            set_verbosity(verbose or _given["verbose"], quiet or _given["quiet"])
            _check_finite(kwargs)
            check_outputs(outputs, kwargs, force)
            function(*args, **kwargs)
        except KeyboardInterrupt:
            stop("interrupted. Finished work is stored; run the same command to continue.", INTERRUPTED)
        except OSError as error:
            if error.errno not in _FILE_ERRORS:
                raise
            written = ", ".join(str(kwargs[name]) for name in outputs if kwargs.get(name))
            stop(
                f"cannot use {error.filename or written or 'a file'}: {error.strerror}. Finished work is stored.",
                1,
            )
        except Exception as error:
            from accord.edges import AccordError  # a late import keeps `--help` fast

            if not isinstance(error, AccordError):
                raise
            stop(str(error), error.exit_code)
        finally:
            set_verbosity(False, False)

    signature = inspect.signature(function, eval_str=True)
    added = (*((_FORCE,) if any(each.is_earlier for each in outputs.values()) else ()), *_HIDDEN)
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*refuse_empty_outputs(signature.parameters.values()), *added]
    )
    return run


_given = {"verbose": False, "quiet": False}
"""The options of `accord` itself, in front of the command."""


def _check_finite(given: Mapping[str, Any]) -> None:
    """Check that no option is NaN or infinite, which no comparison of its range detects.

    Raises:
        BadInput: With the name of the option.
    """
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            from accord.edges import BadInput

            raise BadInput(f"--{name.replace('_', '-')} takes a finite number, got {value}; give a number")


def stop(reason: str, code: int) -> NoReturn:
    """Print the reason in one line, and exit with a documented code."""
    say_line(f"accord: {reason}")
    raise typer.Exit(code)


@app.callback(invoke_without_command=True)
def _accord(
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    _given.update(verbose=verbose, quiet=quiet)
    if version:
        print(f"accord {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the console script."""
    # OpenBLAS threads spin for 0.1 s after a product, which slows other work on the core. One millisecond suffices.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")  # 2^20 cycles
    # Imported modules stay in memory until the command ends. Collecting garbage among them takes a tenth of the time of
    # a short command.
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)
    from accord.cli import commands  # noqa: F401 - importing a command registers it

    app()

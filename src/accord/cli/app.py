"""Command-line application: help, verbosity, and errors as one line and an exit code."""

from __future__ import annotations

import atexit
import errno
import functools
import gc
import inspect
import io
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, NoReturn, TypeVar, get_type_hints

import typer
import typer.core

from accord.cli.outputs import check_outputs, outputs_of, refuse_empty_outputs
from accord.cli.plugin_commands import HELP_OPTIONS, PluginCommand, plugin_names
from accord.cli.terminal import ask_at_terminal, can_ask, say_line, set_verbosity, writes_all_letters
from accord.edges import AccordError, BadInput, BadRow
from accord.version import __version__

PARTLY_UNSCORED = 5
INTERRUPTED = 130
UNATTENDED = ("serve", "follow", "mcp")
"""Commands that run on their own, and do not wait for an answer at the terminal."""
GC_THRESHOLD = 400_000
"""Allocations before a garbage collection; the default of Python is 700."""
EXIT_CODES = (
    "Exit codes: 0 success, 1 invalid input, 2 usage, 3 gate failed, 4 budget reached, 5 partly unscored, "
    "130 interrupted."
)

PANELS = {
    "Start": ("demo", "check", "run", "init", "trust", "import", "export", "view", "plugins", "schema"),
    "Learn": ("judge", "fit", "compare", "report", "card", "gate", "estimate", "gaps", "synth", "issues", "models",
              "finetune"),
    "Rate": ("serve", "users", "label", "validate"),
    "Operate": ("score", "cycle", "push", "follow", "watch", "store", "mcp", "skill"),
    "Research": ("paper",),
}  # fmt: skip
"""Commands by the heading under which `accord --help` lists them."""


class CommandGroup(typer.core.TyperGroup):
    """Group of commands whose help shows complete first sentences; Typer truncates them to a line."""

    panels: Mapping[str, Sequence[str]] = {}
    """Commands by the heading under which the help lists them; others are under "Commands"."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by panel."""
        left = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        panels = [(panel, [name for name in names if name in left]) for panel, names in self.panels.items()]
        placed = {name for _, names in panels for name in names}
        for panel, names in [*panels, ("Commands", [name for name in left if name not in placed])]:
            commands = [(name, each) for name in names if (each := left[name]) is not None and not each.hidden]
            if commands:
                with formatter.section(panel):
                    formatter.write_dl([(name, _first_sentence(each.help or "")) for name, each in commands])


class RootGroup(CommandGroup):
    """The commands of Accord, and those of other packages, which are looked up when no command of Accord is meant."""

    panels = PANELS

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*self.commands, *plugin_names(frozenset(self.commands))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by name; None if there is none."""
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        if cmd_name in MOVED:
            ctx.fail(MOVED[cmd_name])
        about = plugin_names(frozenset(self.commands)).get(cmd_name)
        return None if about is None else PluginCommand(cmd_name, about, guarded, stop)


def _first_sentence(text: str) -> str:
    paragraph = " ".join(inspect.cleandoc(text).split("\n\n")[0].split())
    return paragraph.split(". ")[0].rstrip(".")


app = typer.Typer(
    name="accord",
    help=f"Learn to judge conversations the way your annotators do.\n\n{EXIT_CODES}",
    cls=RootGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": HELP_OPTIONS},
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
_NAME_ERRORS = {errno.EINVAL, errno.EILSEQ}
"""Errors of a name that a file system refuses, such as `a?.csv` on Windows; they count only with the name."""

MOVED = {
    "scores": "'scores merge' is now part of export: accord export FILE --scores FOLDER",
    "board": "'board repair' is not needed any more, and import adds folders of scores: accord import FOLDER",
}
"""Commands of earlier versions with what replaces them."""

Function = TypeVar("Function", bound=Callable[..., Any])


def command(name: str, group: typer.Typer = app) -> Callable[[Function], Function]:
    """Register a command of the application or of a group of commands."""

    def register(function: Function) -> Function:
        group.command(name)(guarded(function))
        return function

    return register


def _flag(name: str, *options: str, help: str = "", hidden: bool = False) -> inspect.Parameter:
    annotation = Annotated[bool, typer.Option(*options, help=help, hidden=hidden)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)


_HIDDEN = (_flag("verbose", "--verbose", "-v", hidden=True), _flag("quiet", "--quiet", "-q", hidden=True))
"""Options that every command takes, and that `accord --help` documents."""
_SKIP = "--skip-bad-rows"
_FORCE = _flag("force", "--force", help="Replace a file or folder that does not look like an earlier output.")
"""Option of every command that writes a file."""


def _message_of(error: AccordError, groups: Iterable[Any]) -> str:
    """Return the message of an error; that of a bad row names the option, if there is one, to leave bad rows out."""
    message = error.for_commands
    if not isinstance(error, BadRow) or _SKIP in message or not any(hasattr(each, "skip_bad_rows") for each in groups):
        return message
    return f"{message}; {_SKIP} leaves bad rows out"


def guarded(function: Callable[..., Any]) -> Callable[..., None]:
    """Wrap a command: its outputs are checked, and expected failures end in one line on stderr and an exit code.

    A parameter whose type is a dataclass stands for the options that are its fields. The command also takes
    `--verbose` and `--quiet`.
    """
    outputs, signature = outputs_of(function), inspect.signature(function, eval_str=True)
    groups: dict[str, Any] = {
        each.name: each.annotation for each in signature.parameters.values() if is_dataclass(each.annotation)
    }

    @functools.wraps(function)
    def run(*args: Any, force: bool = False, verbose: bool = False, quiet: bool = False, **kwargs: Any) -> None:
        try:
            set_verbosity(verbose or _given["verbose"], quiet or _given["quiet"])
            _check_finite(kwargs)
            if can_ask() and function.__name__ not in UNATTENDED:
                from accord.edges import ask_with

                ask_with(ask_at_terminal)
            check_outputs(outputs, kwargs, force)
            for name, group in groups.items():
                kwargs[name] = group(**{field.name: kwargs.pop(field.name) for field in fields(group)})
            function(*args, **kwargs)
        except KeyboardInterrupt:
            stop("interrupted. Finished work is stored; run the same command to continue.", INTERRUPTED)
        except OSError as error:
            _stop_for_file(error, ", ".join(str(kwargs[name]) for name in outputs if kwargs.get(name)))
            raise
        except Exception as error:
            if isinstance(error, UnicodeEncodeError):
                _stop_for_argument(kwargs)
            if not isinstance(error, AccordError):
                stop_for_plugin(error)
                raise
            stop(_message_of(error, groups.values()), error.exit_code)
        finally:
            set_verbosity(False, False)

    added = (*((_FORCE,) if any(each.is_earlier for each in outputs.values()) else ()), *_HIDDEN)
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*refuse_empty_outputs(_options(signature)), *added]
    )
    return run


def _options(signature: inspect.Signature) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a command; those of groups of options, which are the fields of a dataclass, come last."""
    groups = []
    for parameter in signature.parameters.values():
        if is_dataclass(parameter.annotation):
            groups.append(parameter.annotation)
        else:
            yield parameter.replace(kind=parameter.KEYWORD_ONLY)
    for group in groups:
        hints = get_type_hints(group, include_extras=True)
        for field in fields(group):
            yield inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
            )


called: list[str] = []
"""First argument of the command line: if it names a command, the others are not imported."""
_given = {"verbose": False, "quiet": False}
"""The options of `accord` itself, in front of the command."""


def _check_finite(given: Mapping[str, Any]) -> None:
    """Check that no option is NaN or infinite, which no comparison of its range detects."""
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise BadInput(f"--{name.replace('_', '-')} takes a finite number, got {value}; give a number")


def stop(reason: str, code: int) -> NoReturn:
    """Print the reason in one line, and exit with a documented code."""
    say_line(f"accord: {reason}")
    raise typer.Exit(code)


def _stop_for_file(error: OSError, written: str) -> None:
    """Stop with one line if a file cannot be used; `written` names the outputs of the command."""
    if error.errno in _FILE_ERRORS or (error.errno in _NAME_ERRORS and error.filename):
        stop(f"cannot use {error.filename or written or 'a file'}: {error.strerror}. Finished work is stored.", 1)


def _stop_for_argument(given: Mapping[str, Any]) -> None:
    """Stop with one line if an argument holds bytes that are not UTF-8, which no database and no file name takes."""
    from accord.edges import is_sendable, one_line

    for name, value in given.items():
        for text in map(str, value if isinstance(value, list | tuple) else [value]):
            if not is_sendable(text):
                stop(f"{name.replace('_', '-')} is not UTF-8: {one_line(ascii(text), 60)}; type it again", 1)


def stop_for_plugin(error: Exception) -> None:
    """Stop with one line if an unexpected error was raised inside the code of a plug-in."""
    from accord.values import plugin_error  # imported here, because few commands fail

    if (fault := plugin_error(error)) is not None:
        stop(fault.for_commands, fault.exit_code)


@app.callback(invoke_without_command=True)
def _accord(
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log each step to stderr.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.")] = False,
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
    called[:] = sys.argv[1:2]
    from accord.cli import commands

    commands.register()  # the package is imported already if this is not the first command of a process

    # A file or a pipe on Windows has a code page without most letters.
    if isinstance(sys.stdout, io.TextIOWrapper) and not writes_all_letters():
        sys.stdout.reconfigure(errors="replace")
    app()

"""Commands of other packages, from entry points in the group `accord.commands`.

The entry point's name is the command's name. Its value is a function with the annotations of Typer, a Typer application
or a command of Click. `accord --help` lists the commands without importing them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

import typer
import typer.core
import typer.main

from accord.edges import AccordError, BadInput, MissingExtra

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "accord.commands"
HELP_OPTIONS = ["-h", "--help"]
EXTRA_COMMANDS = {
    "paper": (
        "papers",
        "Run a paper's study on its public data or on your own: tables, baselines, ablations, published figures",
    ),
}
"""Extra and description of each command that an extra of Accord brings."""
_NAME = re.compile(r"[a-z][a-z0-9-]*")
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
Stop = Callable[[str, int], NoReturn]


class PluginCommand(typer.core.TyperCommand):
    """Command that is imported when it runs, or when its help is shown."""

    def __init__(self, name: str, about: str, wrap: Wrap, stop: Stop) -> None:
        super().__init__(name, help=about, add_help_option=False)
        self._wrap, self._stop = wrap, stop

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Leave all arguments to the command."""
        ctx.args = list(args)
        return list(args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; one that cannot be loaded ends in one line on stderr and an exit code."""
        try:
            command = self._load()
        except AccordError as error:
            self._stop(error.for_commands, error.exit_code)
        try:
            command.main(args=ctx.args, prog_name=ctx.command_path, help_option_names=HELP_OPTIONS)
        except AccordError as error:
            self._stop(error.for_commands, error.exit_code)
        except Exception as error:
            self._stop(self._fault(error), 1)

    def _fault(self, error: Exception) -> str:
        """Return an unexpected error of the command as one line, and log its traceback, which `--verbose` prints."""
        import logging
        import traceback

        from accord.entry_points import package_of, reason_line

        for line in "".join(traceback.format_exception(error)).splitlines():
            logging.getLogger("accord").info("%s", line)
        entry = self._entry()
        package = "accord" if entry is None else package_of(entry)
        return (
            f"the command {self.name!r} of the package {package} raised {reason_line(error)}. Report it there; "
            f"accord --verbose {self.name} shows the traceback"
        )

    def _entry(self) -> EntryPoint | None:
        from accord.entry_points import installed

        return next((each for each in installed(GROUP) if each.name == self.name), None)

    def _load(self) -> Any:
        """Return the command as an object with `main`.

        Raises:
            BadInput: The entry point cannot be imported, or is no command.
            MissingExtra: No installed package has the command.
        """
        from accord.entry_points import load, package_of

        name, entry = str(self.name), self._entry()
        if entry is None:
            raise MissingExtra(f"accord {name}", EXTRA_COMMANDS[name][0])
        found = load(entry)
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        if callable(getattr(found, "main", None)):
            return found
        if not callable(found):
            raise BadInput(
                f"the command {name!r} of the package {package_of(entry)} is a {type(found).__name__}; it must be a "
                "function, a Typer application or a Click command"
            )
        own = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        own.command(name)(self._wrap(found))
        return typer.main.get_command(own)


@cache
def plugin_names(taken: frozenset[str]) -> dict[str, str]:
    """Return the names of the commands of other packages with their descriptions.

    Args:
        taken: Names of Accord's own commands. A plug-in of that name, or with a malformed name, is left out with a
            warning.
    """
    import logging

    from accord.edges import one_line
    from accord.entry_points import installed, package_of, summary_of

    found = {name: about for name, (_, about) in EXTRA_COMMANDS.items()}
    logger = logging.getLogger(__name__)
    for entry in installed(GROUP):
        if entry.name in taken or not _NAME.fullmatch(entry.name):
            reason = "accord has a command of this name" if entry.name in taken else "its name is malformed"
            logger.warning(
                "the command %r of the package %s is left out: %s",
                one_line(entry.name), one_line(package_of(entry)), reason,
            )  # fmt: skip
        elif entry.name not in found:
            found[entry.name] = one_line(summary_of(entry)) or f"Command of the package {one_line(package_of(entry))}"
    return found

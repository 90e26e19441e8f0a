"""Entry points of installed packages; a broken one is named in a warning and left out."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache
from importlib.metadata import Distribution, EntryPoint, EntryPoints, distributions, entry_points
from typing import Any, cast

from accord.edges import BadInput, one_line

LONGEST_REASON = 300
_logger = logging.getLogger(__name__)


@cache
def installed(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, without importing a module; the first use takes ten milliseconds."""
    return tuple(_every_entry_point().select(group=group))


@cache
def _every_entry_point() -> EntryPoints:
    try:
        return cast(EntryPoints, entry_points())  # the stubs of Python 3.11 name another type
    except Exception:  # malformed metadata of one package, which the next lines find
        packages: dict[str, Distribution] = {}
        for each in distributions():
            packages.setdefault(_folder_of(each), each)  # as Python does: the first one on the path
        return EntryPoints(entry for folder, each in packages.items() for entry in _readable(folder, each))


def _folder_of(package: Distribution) -> str:
    """Return the name of the folder of metadata; the name in the metadata may be unreadable."""
    return str(getattr(getattr(package, "_path", None), "name", package))


def _readable(folder: str, package: Distribution) -> Iterator[EntryPoint]:
    """Yield the entry points of a package; if its metadata are malformed, warn and yield none."""
    try:
        yield from package.entry_points
    except Exception as error:
        _logger.warning("plug-ins of the package %s are left out: %s", one_line(folder), _line(error))


def package_of(entry: EntryPoint) -> str:
    """Return the name of the package that declares an entry point."""
    try:
        return str(entry.dist.name) if entry.dist is not None else entry.module
    except Exception:
        return entry.module


def summary_of(entry: EntryPoint) -> str:
    """Return the one-line description of the package that declares an entry point; empty if it has none."""
    try:
        return str(entry.dist.metadata["Summary"] or "") if entry.dist is not None else ""
    except Exception:
        return ""


def load(entry: EntryPoint) -> Any:
    """Return the object of an entry point, importing its module.

    Raises:
        BadInput: It cannot be imported; the message names the package and the reason.
    """
    try:
        return entry.load()
    except (Exception, SystemExit) as error:
        package = one_line(package_of(entry))
        raise BadInput(
            f"the plug-in {one_line(entry.name)!r} of the package {package} cannot be loaded: {_line(error)}. "
            f"Update the package, or remove it: pip uninstall {package}"
        ) from error


def load_all(group: str) -> None:
    """Import the entry points of a group; each one that cannot be imported is named in a warning."""
    for entry in installed(group):
        try:
            load(entry)
        except BadInput as error:
            _logger.warning("%s", error)


def _line(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}", LONGEST_REASON)

"""Entry points of installed packages; a broken one is named in a warning and left out.

`loading` names the owner of the plug-ins that a module registers while it is imported, and takes back those of a module
that fails.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import Distribution, EntryPoint, EntryPoints, distributions, entry_points
from threading import local
from typing import Any, NamedTuple, cast

from accord.edges import BadInput, one_line

LONGEST_REASON = 300
PACKAGE = "the package "
"""Start of the owner's name of a plug-in from an entry point."""
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
        _logger.warning("plug-ins of the package %s are left out: %s", one_line(folder), reason_line(error))


def package_of(entry: EntryPoint) -> str:
    """Return the name of the package that declares an entry point."""
    try:
        return str((entry.dist and entry.dist.name) or entry.module)
    except Exception:  # malformed metadata, or a value that names no module
        return str(entry.value)


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
    package = one_line(package_of(entry))
    try:
        with loading(f"{PACKAGE}{package}"):
            return entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        reason = one_line(str(error)) if isinstance(error, BadInput) else reason_line(error)
        raise BadInput(
            f"the plug-in {one_line(str(entry.name))!r} of the package {package} cannot be loaded: {reason}. "
            f"Update the package, or remove it: pip uninstall {package}"
        ) from error


def load_all(group: str) -> list[str]:
    """Import the entry points of a group; each one that cannot be imported is named in a warning.

    Returns:
        The packages whose plug-ins are left out.
    """
    left_out: dict[str, None] = {}
    for entry in installed(group):
        try:
            load(entry)
        except BadInput as error:
            _logger.warning("%s", error)
            left_out[one_line(package_of(entry))] = None
    return list(left_out)


def reason_line(error: BaseException) -> str:
    """Return the type and the message of an error in one line of at most `LONGEST_REASON` characters."""
    text = str(error)
    return one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__, LONGEST_REASON)


# --- owners of plug-ins -----------------------------------------------------------------------------------------------


class _Loading(NamedTuple):
    owner: str
    registered: list[tuple[str, Callable[[], None]]]


_current = local()


@contextmanager
def loading(owner: str) -> Iterator[None]:
    """Name the owner of all plug-ins that are registered in the block, such as `the package greeter`.

    If the block fails, the plug-ins of modules that are not imported are removed again.
    """
    before = getattr(_current, "loading", None)
    _current.loading = load = _Loading(owner, [])
    try:
        yield
    except BaseException:
        for module, undo in reversed(load.registered):
            if module not in sys.modules:  # another entry point may name a module that was imported on the way
                undo()
        raise
    finally:
        _current.loading = before


def owner_while_loading() -> str:
    """Return the owner of plug-ins that are registered now; empty outside `loading`."""
    load: _Loading | None = getattr(_current, "loading", None)
    return "" if load is None else load.owner


def undo_if_loading_fails(module: str, undo: Callable[[], None]) -> None:
    """Note how to remove a plug-in that a module has registered, if it is registered inside `loading`."""
    load: _Loading | None = getattr(_current, "loading", None)
    if load is not None:
        load.registered.append((module, undo))

"""Plug-ins of a project: files of its folder and importable modules, named under `plugins:` in accord.yaml.

Opening a project notes them. The first lookup in a registry runs them, after a check of the file and of the user's
trust in the project (`accord.edges.check_code`).
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from threading import RLock
from types import ModuleType
from typing import Any, NamedTuple

from accord.edges import MB, BadInput, check_code, load_yaml, one_line, read_text
from accord.entry_points import loading, reason_line
from accord.values.settings import PROJECT_FILE

_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_lock = RLock()


class PluginCode(NamedTuple):
    """A file or a module that a project names.

    Attributes:
        folder: Folder of the project, absolute.
        name: Name under `plugins:`.
        text: Text of a file that came with a pickled scorer, so that no file is read; None otherwise.
    """

    folder: Path
    name: str
    text: str | None = None


_noted: list[PluginCode] = []
"""Plug-ins that wait for the first lookup; the project that was opened last comes last."""
_loaded: dict[tuple[Path, str], PluginCode] = {}
_latest: list[Path] = []


def check_plugin_names(names: Any) -> tuple[str, ...]:
    """Return the names under `plugins:` if each one is a Python file in the project's folder, or a module.

    Raises:
        ValueError: A name is neither.
    """
    for name in names if isinstance(names, list | tuple) else [names]:
        if not isinstance(name, str) or not (_is_file(name) or _MODULE.fullmatch(name)):
            raise ValueError(
                f"plugins is a list of files in the project's folder, such as my_metrics.py, and modules, such as "
                f"package.module; got {one_line(repr(name), 80)}"
            )
    if not isinstance(names, list | tuple):
        raise ValueError(f"plugins is a list, such as [{names}]")
    return tuple(dict.fromkeys(names))


def _is_file(name: str) -> bool:
    path = PurePosixPath(name)
    has_parts = name == str(path) and not path.is_absolute() and ".." not in path.parts
    return name.endswith(".py") and has_parts and not re.search(r'[\\:*?"<>|\x00-\x1f]', name)


def note_plugins(folder: Path, names: Iterable[str]) -> None:
    """Note the plug-ins of a project that is opened; the next lookup in a registry loads them."""
    top = folder.resolve()
    with _lock:
        _latest[:] = [top]
        _noted[:] = [each for each in _noted if each.folder != top]
        _noted.extend(PluginCode(top, name) for name in names if (top, name) not in _loaded)


def note_plugins_of(folder: Path) -> None:
    """Note the plug-ins of the accord.yaml in a folder, if it has one; an invalid file notes none."""
    file = folder / PROJECT_FILE
    try:
        content = load_yaml(file) if file.is_file() else None
        names = content.get("plugins") or () if isinstance(content, dict) else ()
        checked = check_plugin_names(names)
    except (BadInput, ValueError):
        return
    if checked:
        note_plugins(folder, checked)


def plugin_code(folder: Path) -> tuple[PluginCode, ...]:
    """Return the plug-ins of a project that are loaded, files with their text, for a worker without its folder."""
    top = folder.resolve()
    return tuple(each for (place, _), each in _loaded.items() if place == top)


def accept_code(codes: Iterable[PluginCode]) -> None:
    """Note plug-ins that came with a pickled scorer; a pickle can run any code in this process."""
    with _lock:
        _noted.extend(each for each in codes if (each.folder, each.name) not in _loaded and each not in _noted)


def noted_plugins() -> list[tuple[str, str]]:
    """Return folder and name of all plug-ins that are noted or loaded, for worker processes."""
    with _lock:
        return [(str(folder), name) for folder, name in (*_loaded, *((each.folder, each.name) for each in _noted))]


def load_plugins() -> None:
    """Run the noted plug-ins. One that cannot be loaded is tried again at the next lookup.

    Raises:
        BadInput: A plug-in of the project that was opened last may not be run, or fails. A warning
            names the failed plug-ins of other projects.
    """
    if not _noted:
        return
    with _lock:
        for code in list(_noted):
            if code not in _noted:  # a lookup inside an earlier plug-in has loaded it
                continue
            _noted.remove(code)
            try:
                _loaded[code.folder, code.name] = _load(code)
            except BadInput as error:
                if [code.folder] == _latest:
                    _noted.append(code)
                    raise
                logging.getLogger("accord").warning("%s", error)


def _load(code: PluginCode) -> PluginCode:
    """Run a plug-in and return it with the text of its file.

    Raises:
        BadInput: It may not be run, or fails.
    """
    file = code.folder / code.name if code.name.endswith(".py") else None
    if code.text is None:
        check_code(code.folder, code.name, file or _file_of_module(code))
    try:
        with loading(code.name):
            if file is None:
                import_module(code.name)
                return code
            text = read_text(file.resolve(), MB) if code.text is None else code.text
            _run(file, text)
            return code._replace(text=text)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, BadInput):
            reason = str(error)
        else:
            place = _line_in(error, str(file))
            reason = f"{place}{reason_line(error)}"
        raise BadInput(f"plugins: {code.name} cannot be loaded: {reason}. Correct it, or remove the entry") from error


def _file_of_module(code: PluginCode) -> Path | None:
    """Return the file of a module if it is inside the project's folder, as with `python -m accord`; None otherwise."""
    try:
        spec = find_spec(code.name.partition(".")[0])
    except (ImportError, ValueError):
        return None
    places = [*(spec.submodule_search_locations or ()), spec.origin or ""] if spec else []
    top = next((Path(each) for each in places if each and Path(each).resolve().is_relative_to(code.folder)), None)
    if top is None:
        return None
    inner = top.joinpath(*code.name.split(".")[1:]) if top.is_dir() else top
    candidates = [inner, inner.with_suffix(".py"), inner / "__init__.py"]
    return next((each for each in candidates if each.is_file()), None)


def _run(file: Path, text: str) -> None:
    """Run the text of a file as a module of its own."""
    name = f"accord_plugin_{hashlib.sha256(os.fsencode(file)).hexdigest()[:8]}_{file.stem}"  # hides no other module
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module  # pickles of its functions and classes look it up there
    try:
        exec(compile(text, str(file), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise


def _line_in(error: BaseException, file: str) -> str:
    """Return the line of a file in which an error was raised, as the start of a sentence; empty if there is none."""
    if isinstance(error, SyntaxError):
        return ""  # its message names the line
    line, trace = None, error.__traceback__
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == file else line
        trace = trace.tb_next
    return "" if line is None else f"line {line}: "

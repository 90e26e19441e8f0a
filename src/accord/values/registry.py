"""Registries of plug-ins by kind and name, filled by decorators, entry points and the plug-ins of a project."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from inspect import isabstract, signature
from threading import RLock, local
from types import CodeType
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakSet

from accord.edges import BadInput, MissingExtra, PluginError, UnknownName
from accord.entry_points import PACKAGE, load_all, owner_while_loading, reason_line, undo_if_loading_fails
from accord.values.project_plugins import load_plugins

T = TypeVar("T")

BUILT_IN = "built in"
_importing = local()


class Contract(NamedTuple):
    """Type of the plug-ins of one kind.

    Attributes:
        fits: Returns True if an object is a plug-in of this kind.
        shape: The type in words, such as `a function of a Conversation`.
        check: Function of `accord.testing` that checks one; empty if there is none.
    """

    fits: Callable[[Any], bool]
    shape: str
    check: str = ""

    @classmethod
    def function(cls, arguments: int, shape: str, check: str = "") -> Contract:
        """Return the contract of functions, not classes, that are called with this number of arguments."""
        return cls(partial(_takes, arguments), shape, check)

    @classmethod
    def maker(cls, kind: type, shape: str, check: str = "") -> Contract:
        """Return the contract of subclasses of `kind`, and of functions that make one."""

        def fits(plugin: Any) -> bool:
            if isinstance(plugin, type):
                return issubclass(plugin, kind) and not isabstract(plugin)
            return callable(plugin)

        return cls(fits, shape, check)


class _About(NamedTuple):
    """Origin of a plug-in: the module that registered it, and its owner for messages."""

    module: str
    owner: str


class Registry(Generic[T]):
    """Plug-ins of one kind by name.

    Accord's own plug-ins are in the modules given to the registry. Third parties declare an entry point in the group of
    the kind's plural (`"accord.turn_metrics"`) whose value is the module to import. Importing a module runs its
    decorators; all modules are imported at the first lookup. A module of a third party that cannot be imported is left
    out with a warning. A lookup also loads the plug-ins of the project that is open (`note_plugins`).

    Args:
        kind: Name of the kind in messages, such as `metric`.
        *modules: Modules whose import registers Accord's own plug-ins.
        extras: Names of plug-ins that an extra of Accord brings, with the extra.
        contract: Type of the plug-ins, checked when one is registered.

    >>> greetings: Registry[str] = Registry("greeting")
    >>> greetings.register("short")("Hi.")
    'Hi.'
    >>> greetings.get("short"), greetings.names(), "long" in greetings
    ('Hi.', ['short'], False)
    """

    def __init__(
        self, kind: str, *modules: str, extras: Mapping[str, str] | None = None, contract: Contract | None = None
    ) -> None:
        self.kind = kind
        self._modules = modules
        self._extras = extras or {}
        self._contract = contract
        self._plugins: dict[str, T] = {}
        self._about: dict[str, _About] = {}
        self._families: dict[str, Callable[[str], T]] = {}
        self._members: dict[str, T] = {}  # members of families, by full name
        self._loading = RLock()
        self._begun = self._loaded = False
        self._left_out: list[str] = []
        self._refused: BadInput | None = None
        _registries.add(self)

    @property
    def group(self) -> str:
        """Group of the entry points of this kind."""
        kind = self.kind.replace(" ", "_")
        return f"accord.{kind[:-1]}ies" if kind.endswith("y") else f"accord.{kind}s"

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers a plug-in under `name`.

        Raises:
            BadInput: Another plug-in has the name already, or the object is not a plug-in of this kind.
        """
        if not isinstance(name, str):
            raise BadInput(f'a {self.kind} is registered under a name: write .register("NAME"), got {_described(name)}')
        module = str(sys._getframe(1).f_globals.get("__name__", ""))

        def keep(plugin: T) -> T:
            self._check(name, plugin)
            owner = BUILT_IN if _is_own(module) else owner_while_loading() or _owner_of(module)
            if self._plugins.get(name, plugin) is not plugin:
                other = self._about[name].owner
                raise BadInput(
                    f"two plug-ins are registered as the {self.kind} {name!r}: one is {_phrase(other)}, the other one "
                    f"is {_phrase(owner)}; rename one of them"
                )
            if name not in self._plugins:
                undo_if_loading_fails(module, partial(self.forget, name))
                self._plugins[name], self._about[name] = plugin, _About(module, owner)
            return plugin

        return keep

    def _check(self, name: str, plugin: Any) -> None:
        contract = self._contract
        if contract is None or contract.fits(plugin):
            return
        check = f". Check it with accord.testing.{contract.check}" if contract.check else ""
        article = "an" if self.kind[0] in "aeiou" else "a"
        raise BadInput(
            f"the {self.kind} {name!r} cannot be registered: it is {_described(plugin)}, and {article} {self.kind} is "
            f"{contract.shape}{check}; docs/plugins.md has an example"
        )

    def forget(self, name: str) -> None:
        """Remove a plug-in, so that a test or a notebook can register another one under its name."""
        self._plugins.pop(name, None)
        self._about.pop(name, None)

    def family(self, name: str, make: Callable[[str], T]) -> None:
        """Register plug-ins `name@ARGUMENT`, each created from its argument at the first lookup."""
        self._families[name] = make

    def get(self, name: str) -> T:
        """Return a plug-in by name, or a member of a family by `name@ARGUMENT`.

        Raises:
            UnknownName: There is no such plug-in; the message lists the existing ones.
            MissingExtra: The plug-in is in an extra that is not installed.
            BadInput: A plug-in of the project cannot be loaded.
        """
        if name not in self:
            if name in self._extras:
                raise MissingExtra(f"the {self.kind} {name!r}", self._extras[name])
            raise UnknownName(self.kind, name, self._plugins, elsewhere=self.elsewhere)
        if name in self._plugins:
            return self._plugins[name]
        if name not in self._members:
            family, _, argument = name.partition("@")
            self._members[name] = self._families[family](argument)
        return self._members[name]

    @property
    def elsewhere(self) -> str:
        """Sentence on the other places that a plug-in of this kind may come from, for errors on unknown names."""
        left_out = f" Left out, because they cannot be loaded: {', '.join(self._left_out)}." if self._left_out else ""
        return (
            f"Your own: name its file under plugins: in accord.yaml, or install its package (entry points in the group "
            f"{self.group}).{left_out}"
        )

    def owner(self, name: str) -> str:
        """Return the owner of a plug-in: `built in`, `the package NAME`, or the file or module that registered it."""
        return self._about[name].owner if name in self._about else BUILT_IN

    def __contains__(self, name: str) -> bool:
        """Return True if `get` finds a plug-in of this name."""
        self._load()
        family, _, argument = name.partition("@")
        return name in self._plugins or (bool(argument) and family in self._families)

    def names(self) -> list[str]:
        """Return all names, sorted."""
        self._load()
        return sorted(self._plugins)

    def __iter__(self) -> Iterator[tuple[str, T]]:
        self._load()
        return iter(sorted(self._plugins.items()))

    def _load(self) -> None:
        """Import all modules and entry points of this kind once, then the plug-ins of the project."""
        if not self._loaded:
            self._load_modules()
        if not getattr(_importing, "depth", 0):  # modules that are being imported may hold the locks of registries
            load_plugins()

    def _load_modules(self) -> None:
        """Import all modules and entry points of this kind; other threads wait for it."""
        with self._loading:
            if self._refused is not None:  # a module that fails may already have registered plug-ins
                raise self._refused
            if self._begun:  # this thread is importing, and a module looks up a name; or another thread was faster
                return
            self._begun = True
            _importing.depth = getattr(_importing, "depth", 0) + 1
            try:
                for module in self._modules:
                    import_module(module)
                self._left_out = load_all(self.group)
                self._loaded = True
            except BadInput as error:
                self._refused = error
                raise
            finally:
                _importing.depth -= 1
                self._begun = self._loaded

    def faulty(self, module: str, code: CodeType) -> _Fault | None:
        """Return the plug-in of another owner whose code is in a frame; without a name if only its module is."""
        found = None
        for name, about in list(self._about.items()):
            if about.owner != BUILT_IN and module in (about.module, getattr(self._plugins[name], "__module__", "")):
                if _has_code(self._plugins[name], code):
                    return _Fault(f"the {self.kind} {name!r}", about.owner, True)
                if module != "__main__":
                    found = _Fault("a plug-in", about.owner, False)
        return found


_registries: WeakSet[Registry[Any]] = WeakSet()


# --- types and owners -------------------------------------------------------------------------------------------------


def _takes(count: int, plugin: Any) -> bool:
    if not callable(plugin) or isinstance(plugin, type):
        return False
    try:
        signature(plugin).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a function in C without a signature
        return True
    return True


def _described(plugin: Any) -> str:
    if isinstance(plugin, type):
        missing = ", ".join(sorted(getattr(plugin, "__abstractmethods__", ())))
        return f"the class {plugin.__name__}" + (f", which does not define {missing}" if missing else "")
    if callable(plugin) and hasattr(plugin, "__code__"):
        return f"a function of {plugin.__code__.co_argcount} arguments"
    return f"an object of type {type(plugin).__name__}"


def _is_own(module: str) -> bool:
    return module == "accord" or module.startswith("accord.")


def _owner_of(module: str) -> str:
    """Return the owner of the plug-ins of a module that no entry point and no project has loaded."""
    return "this session" if module in ("", "__main__") else f"the module {module}"


def _phrase(owner: str) -> str:
    return owner if owner == BUILT_IN else f"of {owner}"


# --- errors inside plug-ins -------------------------------------------------------------------------------------------


class _Fault(NamedTuple):
    plugin: str
    owner: str
    is_named: bool


def plugin_error(error: BaseException) -> PluginError | None:
    """Return a `PluginError` with the plug-in, the line and the cause of an error raised inside it, else `None`.

    The traceback is logged at level INFO, which `--verbose` prints.
    """
    fault, line, module, trace = None, 0, "", error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        name = str(frame.f_globals.get("__name__", ""))
        found = _fault_in(name, frame.f_code)
        if found is not None:
            keeps_name = fault is not None and fault.is_named and not found.is_named and fault.owner == found.owner
            fault, line, module = fault if keeps_name else found, trace.tb_lineno, name
        trace = trace.tb_next
    if fault is None:
        return None
    logger = logging.getLogger("accord")
    for text in traceback.format_exception(error):
        for each in text.splitlines():
            logger.info("%s", each)
    where = f"{fault.owner}, {module}" if fault.owner.startswith(PACKAGE) else fault.owner  # one has several modules
    made = PluginError(
        f"{fault.plugin} ({where}, line {line}) raised {reason_line(error)}. Correct it, or leave it out; "
        "--verbose shows the traceback"
    )
    made.__cause__ = error
    return made


def _fault_in(module: str, code: CodeType) -> _Fault | None:
    if _is_own(module):
        return None
    loose = None
    for registry in list(_registries):
        found = registry.faulty(module, code)
        if found is not None and found.is_named:
            return found
        loose = loose or found
    return loose


def _has_code(plugin: Any, code: CodeType) -> bool:
    """Return True if a function, class or instance contains the code."""
    if isinstance(plugin, partial):
        plugin = plugin.func
    own = getattr(getattr(plugin, "__wrapped__", plugin), "__code__", None)
    if own is not None:
        return own is code or code.co_qualname.startswith(f"{own.co_qualname}.<locals>.")
    kind = plugin if isinstance(plugin, type) else type(plugin)
    if code.co_qualname.startswith(f"{kind.__qualname__}."):
        return True
    names = (*getattr(plugin, "__dict__", ()), *getattr(kind, "__slots__", ()))
    return any(getattr(getattr(plugin, name, None), "__code__", None) is code for name in names)

"""Registries of plug-ins by kind and name, filled by decorators and entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from threading import RLock
from typing import Generic, TypeVar

from accord.edges import BadInput, MissingExtra, UnknownName
from accord.entry_points import load_all

T = TypeVar("T")


class Registry(Generic[T]):
    """Plug-ins of one kind by name.

    Accord's own plug-ins are in the modules given to the registry. Third parties declare an entry point in the group of
    the kind's plural (`"accord.turn_metrics"`) whose value is the module to import. Importing a module runs its
    decorators; all modules are imported at the first lookup. A module of a third party that cannot be imported is left
    out with a warning.

    Args:
        kind: Name of the kind in messages, such as `metric`.
        *modules: Modules whose import registers Accord's own plug-ins.
        extras: Names of plug-ins that an extra of Accord brings, with the extra.

    >>> greetings: Registry[str] = Registry("greeting")
    >>> greetings.register("short")("Hi.")
    'Hi.'
    >>> greetings.get("short"), greetings.names(), "long" in greetings
    ('Hi.', ['short'], False)
    """

    def __init__(self, kind: str, *modules: str, extras: Mapping[str, str] | None = None) -> None:
        self.kind = kind
        self._modules = modules
        self._extras = extras or {}
        self._plugins: dict[str, T] = {}
        self._families: dict[str, Callable[[str], T]] = {}
        self._members: dict[str, T] = {}  # members of families, by full name
        self._loading = RLock()
        self._begun = self._loaded = False
        self._refused: BadInput | None = None

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers a plug-in under `name`.

        Raises:
            BadInput: Another plug-in has the name already.
        """

        def keep(plugin: T) -> T:
            if self._plugins.get(name, plugin) is not plugin:
                raise BadInput(f"two plug-ins are registered as the {self.kind} {name!r}; rename one of them")
            self._plugins[name] = plugin
            return plugin

        return keep

    def forget(self, name: str) -> None:
        """Remove a plug-in, so that a test or a notebook can register another one under its name."""
        self._plugins.pop(name, None)

    def family(self, name: str, make: Callable[[str], T]) -> None:
        """Register plug-ins `name@ARGUMENT`, each created from its argument at the first lookup."""
        self._families[name] = make

    def get(self, name: str) -> T:
        """Return a plug-in by name, or a member of a family by `name@ARGUMENT`.

        Raises:
            UnknownName: There is no such plug-in; the message lists the existing ones.
            MissingExtra: The plug-in is in an extra that is not installed.
        """
        if name not in self:
            if name in self._extras:
                raise MissingExtra(f"the {self.kind} {name!r}", self._extras[name])
            raise UnknownName(self.kind, name, self._plugins)
        if name in self._plugins:
            return self._plugins[name]
        if name not in self._members:
            family, _, argument = name.partition("@")
            self._members[name] = self._families[family](argument)
        return self._members[name]

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
        """Import all modules and entry points of this kind once; other threads wait for it."""
        if self._loaded:
            return
        with self._loading:
            if self._refused is not None:  # a module that fails may already have registered plug-ins
                raise self._refused
            if self._begun:  # this thread is importing, and a module looks up a name
                return
            self._begun = True
            try:
                for module in self._modules:
                    import_module(module)
                kind = self.kind.replace(" ", "_")
                group = f"accord.{kind[:-1]}ies" if kind.endswith("y") else f"accord.{kind}s"
                load_all(group)
                self._loaded = True
            except BadInput as error:
                self._refused = error
                raise
            finally:
                self._begun = self._loaded

"""Names for plug-ins: one registry per kind, filled by a decorator here and by entry points elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from threading import RLock
from typing import Generic, TypeVar, cast

from accord.edges import BadInput, UnknownName

T = TypeVar("T")


@cache
def _installed() -> EntryPoints:
    """Every entry point of this environment: reading all packages' lists of them takes ten milliseconds."""
    return cast(EntryPoints, entry_points())  # Python 3.11 calls it by another name


class Registry(Generic[T]):
    """Plug-ins of one kind by name.

    Accord's own lie in the modules that the registry is made with. Third parties declare an entry point in the group of
    the kind's plural (`accord.turn_metrics`) whose value is the module to import. Importing a module runs its
    decorators; all are imported when a name is first asked for, never before.
    """

    def __init__(self, kind: str, *modules: str) -> None:
        self.kind = kind
        self._modules = modules
        self._plugins: dict[str, T] = {}
        self._families: dict[str, Callable[[str], T]] = {}
        self._members: dict[str, T] = {}  # of families, as they were asked for
        self._loading = RLock()
        self._begun = self._loaded = False
        self._refused: BadInput | None = None

    def register(self, name: str) -> Callable[[T], T]:
        """Decorate a plug-in to make it known under `name`.

        Raises:
            BadInput: Another plug-in has the name already.
        """

        def keep(plugin: T) -> T:
            if self._plugins.get(name, plugin) is not plugin:
                raise BadInput(f"two plug-ins want to be the {self.kind} {name!r}; rename one of them")
            self._plugins[name] = plugin
            return plugin

        return keep

    def forget(self, name: str) -> None:
        """Make a plug-in unknown again, so that a test or a notebook can register another one in its place."""
        self._plugins.pop(name, None)

    def family(self, name: str, make: Callable[[str], T]) -> None:
        """Make plug-ins known as `name@ARGUMENT`, each made of its argument when it is first asked for."""
        self._families[name] = make

    def get(self, name: str) -> T:
        """The plug-in called `name`, or the member of a family that `name@ARGUMENT` is.

        Raises:
            UnknownName: No plug-in is called so; the message lists those that exist.
        """
        if name not in self:
            raise UnknownName(self.kind, name, self._plugins)
        if name in self._plugins:
            return self._plugins[name]
        if name not in self._members:
            family, _, argument = name.partition("@")
            self._members[name] = self._families[family](argument)
        return self._members[name]

    def __contains__(self, name: str) -> bool:
        """Whether `get` knows a plug-in of this name."""
        self._load()
        family, _, argument = name.partition("@")
        return name in self._plugins or (bool(argument) and family in self._families)

    def names(self) -> list[str]:
        """All names, sorted."""
        self._load()
        return sorted(self._plugins)

    def __iter__(self) -> Iterator[tuple[str, T]]:
        self._load()
        return iter(sorted(self._plugins.items()))

    def _load(self) -> None:
        """Import whatever registers plug-ins of this kind, once; other threads wait for it."""
        if self._loaded:
            return
        with self._loading:
            if self._refused is not None:  # a module that failed leaves behind what it had registered by then
                raise self._refused
            if self._begun:  # by this thread, which asks for a name while it imports
                return
            self._begun = True
            try:
                for module in self._modules:
                    import_module(module)
                kind = self.kind.replace(" ", "_")
                group = f"accord.{kind[:-1]}ies" if kind.endswith("y") else f"accord.{kind}s"
                for entry in _installed().select(group=group):
                    entry.load()
                self._loaded = True
            except BadInput as error:
                self._refused = error
                raise
            finally:
                self._begun = self._loaded

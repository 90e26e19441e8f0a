"""A value that is made when it is first asked for, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class lazy(Generic[T]):
    """`functools.cached_property` without the lock of Python 3.11, which costs more than what is made here.

    Two threads that ask at once may both make the value; either will do.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, instance: Any, owner: type) -> T:
        made = instance.__dict__[self._name] = self._make(instance)
        return made

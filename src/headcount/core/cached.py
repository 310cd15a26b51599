"""Properties that are computed once."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

_Value = TypeVar("_Value")


class cached_property(Generic[_Value]):  # noqa: N801 (it is used like `property`)
    """A property that is computed at its first use and then kept with the object.

    It has no lock, unlike that of `functools` before Python 3.12: a process that is forked while
    another thread computes must not wait for that thread. Two threads may both compute; the value
    of the first is kept, and both get it. What a subclass asks for by `super()` is not kept, since
    it is not the subclass's own value.
    """

    def __init__(self, compute: Callable[[Any], _Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "cached_property[_Value]": ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> _Value: ...

    def __get__(
        self, instance: object, owner: type | None = None
    ) -> "cached_property[_Value] | _Value":
        if instance is None:
            return self
        found = self._compute(instance)
        if getattr(type(instance), self._name) is not self:  # a subclass asks by super()
            return found
        value: _Value = vars(instance).setdefault(self._name, found)
        return value

"""Properties that are computed once."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

_Value = TypeVar("_Value")


class cached_property(Generic[_Value]):  # noqa: N801 (it is used like `property`)
    """A property that is computed at its first use and then kept with the object.

    It has no lock, unlike `functools.cached_property` before Python 3.12. If a process were forked
    while another thread held the lock, the child would wait for the lock forever. If two threads
    compute the value at the same time, both get the value of the thread that finishes first. A
    value that a subclass gets through `super()` is not kept, since the subclass may compute a
    different value from it.
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
        computed = self._compute(instance)
        if getattr(type(instance), self._name) is not self:  # a subclass called super()
            return computed
        value: _Value = vars(instance).setdefault(self._name, computed)
        return value

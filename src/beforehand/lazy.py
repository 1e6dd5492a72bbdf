"""A property that is computed once, however many threads ask for it at the same time."""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
_CREATING = threading.Lock()


class lazy(Generic[T]):  # noqa: N801 (a decorator)
    """functools.cached_property with a lock for each object: since Python 3.12 the library's own
    has none, and a server's first sixty-four callers would each load the archive."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> "lazy[T]": ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        with _CREATING:
            lock = instance.__dict__.setdefault("_lazy", threading.RLock())
        with lock:  # Once set, the object's own entry is read, and this is not called again.
            if self.name not in instance.__dict__:
                instance.__dict__[self.name] = self.function(instance)
        return instance.__dict__[self.name]

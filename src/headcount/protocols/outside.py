"""Protocols that are not Headcount's own: which classes may be registered, and where they are.

Installed packages name theirs in the entry points of the group `headcount.protocols`:

    [project.entry-points."headcount.protocols"]
    my-protocol = "my_package.my_module:MyProtocol"

They are loaded once, when somebody first asks. One that cannot be loaded is left out, and a line of
the log names its package.
"""

import inspect
import os
import re
import threading
from collections.abc import Container
from dataclasses import MISSING, fields

from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.errors import InvalidParameter
from headcount.core.protocol import Protocol, option_names
from headcount.core.task import Task

GROUP = "headcount.protocols"
_NAME = re.compile(rf"({'|'.join(Trust)})\.[a-z0-9]+(-[a-z0-9]+)*")


def is_name(text: str) -> bool:
    """Whether a text has the form of a protocol's name: a trust, a dot, words with hyphens."""
    return _NAME.fullmatch(text) is not None


class _Thread(threading.local):
    """Whether this thread is loading packages, whose code may ask for names itself."""

    loading = False


class Outside:
    """Registered classes, in their order. Readers need no lock; whoever adds a class takes it."""

    def __init__(self, reserved: Container[str]) -> None:
        self._reserved = reserved  # names that no class from outside may have
        self._classes: tuple[type[Protocol], ...] = ()
        self._loaded = False  # whether packages were asked for theirs
        self._left_out: set[str] = set()
        self._thread = _Thread()
        self._open()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._open)

    def _open(self) -> None:
        """A new lock. In a forked process, a thread that is not there may have held the old one."""
        self._lock = threading.Lock()

    def classes(self) -> tuple[type[Protocol], ...]:
        """All of them, those of installed packages too."""
        # Threads that ask at the same time all load, and find the same: nobody waits for another.
        if not self._loaded and not self._thread.loading:
            self._thread.loading = True
            try:
                self._load_packages()
            finally:
                self._thread.loading = False
            self._loaded = True
        return self._classes

    def add(self, kind: type[Protocol]) -> None:
        """Keep a class; refuse one whose name stands for another that answers the same tasks."""
        _check(kind)
        if kind.name in self._reserved:
            raise InvalidParameter(
                f"`name` must not be one of Headcount's own protocols, got {kind.name!r}"
            )
        with self._lock:
            for one in self._classes:
                same = [task for task in kind.tasks if issubclass(task, one.tasks)]
                same += [task for task in one.tasks if issubclass(task, kind.tasks)]
                if one.name == kind.name and same and _place(one) != _place(kind):
                    raise InvalidParameter(
                        f"`name` must be new, or be for other tasks than {_place(one)} answers, "
                        f"got {kind.name!r} for a {same[0].name} once more"
                    )
            known = tuple(kind if _place(one) == _place(kind) else one for one in self._classes)
            self._classes = known if kind in known else (*known, kind)

    def _load_packages(self) -> None:
        from importlib.metadata import entry_points  # which takes a while

        try:
            found = tuple(entry_points(group=GROUP))
        except Exception as error:  # of a package whose metadata are damaged
            self._leave_out("protocols of installed packages are", error)
            return
        for point in found:
            package = "an unknown package" if point.dist is None else point.dist.name
            try:
                self.add(point.load())
            except (Exception, SystemExit) as error:  # whatever its code may do
                self._leave_out(f"the protocol {point.name} of the package {package} is", error)

    def _leave_out(self, what: str, error: BaseException) -> None:
        """Say once that something is left out, and why, in one line."""
        import logging

        if what not in self._left_out:
            self._left_out.add(what)
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            logging.getLogger("headcount").warning("headcount: %s left out: %s", what, reason)


def _check(kind: type[Protocol]) -> None:
    """Refuse what cannot be a registered protocol."""
    if not isinstance(kind, type) or not issubclass(kind, Protocol):
        raise InvalidParameter(
            f"`protocol` must be a class that extends Protocol, got {checks.shown(kind)}"
        )
    if missing := sorted(kind.__abstractmethods__):
        raise InvalidParameter(
            f"a registered protocol must state {', '.join(missing)}, got {_place(kind)} without"
        )
    name, trust = getattr(kind, "name", None), getattr(kind, "trust", None)
    if not isinstance(trust, Trust):
        raise InvalidParameter(f"`trust` must be a Trust, got {checks.shown(trust)}")
    if not isinstance(name, str) or not is_name(name) or not name.startswith(f"{trust}."):
        raise InvalidParameter(
            f"`name` must be a word after the trust, like {trust}.my-protocol, "
            f"got {checks.shown(name)}"
        )
    tasks = getattr(kind, "tasks", None)
    listed = tasks if isinstance(tasks, tuple) and tasks else (None,)
    if not all(isinstance(one, type) and issubclass(one, Task) for one in listed):
        raise InvalidParameter(
            f"`tasks` must be a tuple of tasks such as (Count,), got {checks.shown(tasks)}"
        )
    _check_options(kind)


def _check_options(kind: type[Protocol]) -> None:
    options = option_names(kind)
    for field in fields(kind):
        free = field.default is MISSING and field.default_factory is MISSING
        if field.name in options and free:
            raise InvalidParameter(
                f"options must have defaults, got {field.name!r} of {kind.name} without"
            )
    if "__dataclass_params__" not in vars(kind):
        for option, hint in inspect.get_annotations(kind).items():
            if option not in kind.__dataclass_fields__ and "ClassVar" not in str(hint):
                raise InvalidParameter(
                    f"a class with options must be a frozen dataclass, got {kind.name} with "
                    f"{option!r}",
                    hint="write @dataclass(frozen=True) above the class, below register",
                )


def _place(kind: type[Protocol]) -> str:
    """Where a class was defined. One that is defined there again takes its place."""
    return f"{kind.__module__}.{kind.__qualname__}"

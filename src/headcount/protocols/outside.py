"""Registered protocols that are not Headcount's own. This module checks and stores their classes.

Installed packages list their classes as entry points in the group `headcount.protocols`:

    [project.entry-points."headcount.protocols"]
    my-protocol = "my_package.my_module:MyProtocol"

These classes are loaded once, when a caller first asks for them. A class that cannot be loaded is
left out, and a log message names its package.
"""

import inspect
import os
import re
import sys
import threading
from collections.abc import Container
from dataclasses import MISSING, fields
from importlib.machinery import PathFinder
from pathlib import Path

from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.errors import InvalidParameter
from headcount.core.protocol import Protocol, option_names
from headcount.core.task import Task

GROUP = "headcount.protocols"
_NAME = re.compile(rf"({'|'.join(Trust)})\.[a-z0-9]+(-[a-z0-9]+)*")


def is_name(text: str) -> bool:
    """Whether a text has the form of a protocol's name, such as local.my-protocol."""
    return _NAME.fullmatch(text) is not None


class _Thread(threading.local):
    """Whether the current thread is loading packages.

    A package may ask for all names while it is being loaded. Then packages are not loaded again.
    """

    loading = False


class Outside:
    """The registered classes, in the order of registration. Only adding a class needs a lock."""

    def __init__(self, reserved: Container[str]) -> None:
        self._reserved = reserved  # names that no class from outside may have
        self._classes: tuple[type[Protocol], ...] = ()
        self._loaded = False  # whether the classes of installed packages have been loaded
        self._left_out: set[str] = set()  # what the log has already reported as left out
        self._thread = _Thread()
        self._make_lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._make_lock)

    def _make_lock(self) -> None:
        """Make a new lock. After a fork, a thread that no longer exists may hold the old one."""
        self._lock = threading.Lock()

    def classes(self) -> tuple[type[Protocol], ...]:
        """All registered classes, including those of installed packages."""
        # If several threads ask at the same time, each of them loads the packages, and no thread
        # waits. The result is the same.
        if not self._loaded and not self._thread.loading:
            self._thread.loading = True
            try:
                self._load_packages()
            finally:
                self._thread.loading = False
            self._loaded = True
        return self._classes

    def add(self, kind: type[Protocol]) -> None:
        """Add a class. Refuse it if its name is reserved, or taken by a class for the same task."""
        _check(kind)
        if kind.name in self._reserved:
            raise InvalidParameter(
                "`name` must not be the name of one of Headcount's own protocols, "
                f"got {kind.name!r}"
            )
        with self._lock:
            for other in self._classes:
                same = [task for task in kind.tasks if issubclass(task, other.tasks)]
                same += [task for task in other.tasks if issubclass(task, kind.tasks)]
                if other.name == kind.name and same and _place(other) != _place(kind):
                    raise InvalidParameter(
                        f"`name` must be new, or the class must answer other tasks than "
                        f"{_place(other)}, got {kind.name!r} for {checks.a_task(same[0].name)} "
                        "again"
                    )
            known = tuple(
                kind if _place(other) == _place(kind) else other for other in self._classes
            )
            self._classes = known if kind in known else (*known, kind)

    def _load_packages(self) -> None:
        if not _packages_may_have_protocols():
            return
        from importlib.metadata import entry_points  # slow to import

        try:
            points = tuple(entry_points(group=GROUP))
        except Exception as error:  # the metadata of a package may be damaged
            self._leave_out("protocols of installed packages are", error)
            return
        for point in points:
            package = "an unknown package" if point.dist is None else point.dist.name
            try:
                self.add(point.load())
            except (Exception, SystemExit) as error:  # the code of a package may raise anything
                self._leave_out(f"the protocol {point.name} of the package {package} is", error)

    def _leave_out(self, what: str, error: BaseException) -> None:
        """Log once, in one line, that something is left out, and why."""
        import logging

        if what not in self._left_out:
            self._left_out.add(what)
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            logging.getLogger("headcount").warning("headcount: %s left out: %s", what, reason)


def _packages_may_have_protocols() -> bool:
    """Whether `importlib.metadata` may find entry points of our group.

    That module is slow to import. So this function searches for the name of the group in the files
    that the module would read. If there may be archives, or finders other than Python's own, the
    result is True without a search.
    """
    finders = (finder for finder in sys.meta_path if finder is not PathFinder)
    if any(hasattr(finder, "find_distributions") for finder in finders):
        return True
    for folder in map(str, sys.path):
        try:
            with os.scandir(folder or ".") as found:
                if folder.lower().endswith(".egg") or any(map(_names_group, found)):
                    return True
        except FileNotFoundError:
            continue
        except OSError:
            return True
    return False


def _names_group(entry: os.DirEntry[str]) -> bool:
    """Whether this entry is the metadata of a package whose entry points mention our group."""
    if not entry.name.lower().endswith((".dist-info", ".egg-info")):
        return False
    try:
        return GROUP.encode() in Path(entry.path, "entry_points.txt").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return False


def _check(kind: type[Protocol]) -> None:
    """Refuse a class that cannot be registered as a protocol."""
    if not isinstance(kind, type) or not issubclass(kind, Protocol):
        raise InvalidParameter(
            f"`protocol` must be a class that extends Protocol, got {checks.shown(kind)}"
        )
    if missing := sorted(kind.__abstractmethods__):
        raise InvalidParameter(
            f"a registered protocol must define {', '.join(missing)}, got {_place(kind)}, "
            "which does not"
        )
    name, trust = getattr(kind, "name", None), getattr(kind, "trust", None)
    if not isinstance(trust, Trust):
        raise InvalidParameter(f"`trust` must be a Trust, got {checks.shown(trust)}")
    if not isinstance(name, str) or not is_name(name) or not name.startswith(f"{trust}."):
        raise InvalidParameter(
            f"`name` must be the trust model, a dot and words joined by hyphens, like "
            f"{trust}.my-protocol, got {checks.shown(name)}"
        )
    tasks = getattr(kind, "tasks", None)
    listed = tasks if isinstance(tasks, tuple) and tasks else (None,)
    if not all(isinstance(task, type) and issubclass(task, Task) for task in listed):
        raise InvalidParameter(
            f"`tasks` must be a tuple of tasks such as (Count,), got {checks.shown(tasks)}"
        )
    _check_options(kind)


def _check_options(kind: type[Protocol]) -> None:
    options = option_names(kind)
    for field in fields(kind):
        required = field.default is MISSING and field.default_factory is MISSING
        if field.name in options and required:
            raise InvalidParameter(
                f"options must have defaults, got {field.name!r} of {kind.name} without one"
            )
    if "__dataclass_params__" not in vars(kind):
        for option, hint in inspect.get_annotations(kind).items():
            if option not in kind.__dataclass_fields__ and "ClassVar" not in str(hint):
                raise InvalidParameter(
                    f"a class with options must be a frozen dataclass, got {kind.name} with "
                    f"{option!r}",
                    hint="write @dataclass(frozen=True) above the class and below @register",
                )


def _place(kind: type[Protocol]) -> str:
    """The place where a class is defined. A new class with the same place replaces the old one."""
    return f"{kind.__module__}.{kind.__qualname__}"

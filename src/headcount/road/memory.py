"""An estimate of the memory that an answer takes. It is computed before any budget is spent.

Each core makes and counts the messages of a limited number of people at a time
(`Randomizer.people_at_once`). So each core needs a bounded amount of memory for messages. The tally
and the answer of each group have a number for each bucket, so the memory for them grows with the
number of buckets.
"""

import os
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from headcount.core.errors import Infeasible
from headcount.core.protocol import Protocol

_Group = TypeVar("_Group", bound=Hashable)
_TALLY_BYTES = 48  # the bytes for each number of a tally while messages are counted
_ANSWER_BYTES = 512  # the bytes for each number of an answer until it is written
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_there() -> int:
    """The number of bytes that this process may use.

    This is the least of three limits: those of the machine, the container and the process.
    """
    known = [2**62]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        known.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for place in _LIMITS:
        try:
            known.append(int(Path(place).read_text()))
        except (OSError, ValueError):  # no such limit
            continue
    return min([*known, *_own_limit()])


def _own_limit() -> list[int]:
    """A list with the number of bytes left under `ulimit -v`, or an empty list without a limit."""
    try:
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return []
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    return [] if most == resource.RLIM_INFINITY else [max(0, most - used)]


def workers(protocols: Iterable[Protocol], users: int) -> int:
    """The number of cores that make and count messages at the same time. Their messages take at
    most half of the memory, unless one core needs more. `users` is the number of people in the
    largest group.
    """
    each = max(_piece(protocol, users) for protocol in protocols)
    return max(1, min(os.cpu_count() or 1, memory_there() // (2 * each)))


def check_memory(protocols: Mapping[_Group, Protocol], users: Mapping[_Group, int]) -> None:
    """Raise an error if all answers and the messages of one core do not fit into memory.

    The error states how many buckets would fit.
    """
    pieces = max(_piece(protocol, users[group]) for group, protocol in protocols.items())
    answers = sum(_answer(protocol) for protocol in protocols.values())
    needed, there = pieces + answers, memory_there()
    if needed <= there:
        return
    first = next(iter(protocols.values()))
    numbers = sum(_numbers(protocol) for protocol in protocols.values())
    fitting = int(numbers * max(0.0, there / needed))
    raise Infeasible(
        f"{first.name} needs about {_shown(needed)} of memory for an answer of {numbers:,} "
        f"numbers, but only {_shown(there)} are available; about {fitting:,} buckets in all would "
        "fit"
    )


def _piece(protocol: Protocol, users: int) -> int:
    people = min(users, protocol.randomizer.people_at_once)
    return (
        int(people * protocol.randomizer.bytes_per_user)
        + _TALLY_BYTES * protocol.estimator.tally_size
    )


def _answer(protocol: Protocol) -> int:
    return 8 * protocol.estimator.tally_size + _ANSWER_BYTES * _numbers(protocol)


def _numbers(protocol: Protocol) -> int:
    buckets = protocol.task.buckets
    return 1 if buckets is None else len(buckets)


def _shown(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB" if size >= 2**29 else f"{size / 2**20:,.0f} MiB"

"""A line of the table of benchmarks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """A line of the table. `ratio` is the peer's time divided by that of Headcount."""

    subject: str
    ours: str
    peer: str
    theirs: str
    ratio: float | None
    wanted: str = "–"

    @classmethod
    def of_times(
        cls, subject: str, ours: float, peer: str, theirs: float, wanted: str
    ) -> "Comparison":
        return cls(subject, duration(ours), peer, duration(theirs), theirs / ours, wanted)

    @classmethod
    def of_memory(cls, subject: str, used: float, gibibytes: float) -> "Comparison":
        """The peak memory in bytes, compared with a limit."""
        ours, most = used / 2**20, 1024 * gibibytes
        return cls(
            f"memory of {subject}", f"{ours:.0f} MiB", f"{gibibytes:g} GiB", f"{most:.0f} MiB",
            most / ours, "≥ 1",
        )  # fmt: skip


def duration(time: float) -> str:
    return f"{time:.3g} s" if time >= 1 else f"{time * 1000:.3g} ms"

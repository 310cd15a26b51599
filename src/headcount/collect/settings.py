"""The settings of the shuffler and of the analyzer, from a TOML file, the environment, or flags.

A flag overrides the environment, and the environment overrides the file. The environment variables
are HEADCOUNT_SHUFFLER_PORT, HEADCOUNT_ANALYZER_STORE, and so on.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self, get_args

from headcount.core import checks
from headcount.core.errors import InvalidParameter, UnreadableData

# The environment variable with the file descriptor of a pipe. The pipe closes when the process that
# started the service ends.
PARENT = "HEADCOUNT_PARENT"


@dataclass(frozen=True)
class Settings:
    """The settings that both services have."""

    prefix: ClassVar[str]

    store: str = ""  # a file, or postgresql://user@host/database
    host: str = "127.0.0.1"
    port: int = 0
    token: str = ""  # shared by the shuffler and the analyzer of a survey
    body_seconds: float = 20.0  # the deadline for a response to arrive
    connections: int = 20_000  # the most connections at once; further ones are refused
    proxies: str = ""  # addresses of proxies whose X-Forwarded-For header is trusted

    def __post_init__(self) -> None:
        checks.whole("port", self.port, low=0, high=65535)
        checks.whole("connections", self.connections, low=1, high=10**6)
        if checks.real("body_seconds", self.body_seconds) <= 0:
            raise InvalidParameter(f"`body_seconds` must be positive, got {self.body_seconds}")
        _check_token("token", self.token)

    @classmethod
    def load(
        cls,
        file: Path | None = None,
        environment: Mapping[str, str] = os.environ,
        **flags: Any,
    ) -> Self:
        """The settings from the file, the environment and the flags. A flag that is None was not
        given.
        """
        found: dict[str, Any] = {} if file is None else _in_file(file)
        known = {one.name: one for one in fields(cls)}
        if unknown := sorted(set(found) - set(known)):
            raise UnreadableData(
                f"{str(file)!r} must have only the settings {', '.join(known)}, got {unknown[0]!r}"
            )
        for name in known:
            if text := environment.get(f"HEADCOUNT_{cls.prefix}_{name.upper()}"):
                found[name] = text
        found |= {name: value for name, value in flags.items() if value is not None}
        return cls(**{name: _typed(name, known[name].type, value) for name, value in found.items()})


@dataclass(frozen=True)
class ShufflerSettings(Settings):
    """The settings of a shuffler."""

    prefix = "SHUFFLER"

    port: int = 8401
    rate: float = 20.0  # responses per minute from one part of the network, on average
    burst: int = 200  # responses at once from one part of the network
    sites: str = ""  # other sites whose pages may send responses, with spaces between their URLs


@dataclass(frozen=True)
class AnalyzerSettings(Settings):
    """The settings of an analyzer."""

    prefix = "ANALYZER"

    port: int = 8402
    processes: int = 0  # how many processes open messages; 0 means one for each core
    largest_batch: int = 2**31  # bytes
    results_token: str = ""  # the token for reading results that are not published
    publish: bool = False  # whether everybody may read the results without a token
    ledger: str = ""  # the ledger to which surveys are charged: a file, or postgresql://…
    dataset: str = ""  # the dataset of the ledger; empty means its only dataset

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_token("results_token", self.results_token)
        if self.results_token and self.results_token == self.token:
            raise InvalidParameter(
                "`results_token` must not be `token`, since the shuffler would read unpublished "
                "results"
            )


def _check_token(name: str, token: str) -> None:
    if token and len(token) < 16:
        raise InvalidParameter(f"`{name}` must have at least 16 characters")


def _in_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise UnreadableData(
            f"{str(path)!r} must be a file of settings, got: {error.strerror}"
        ) from None
    except ValueError as error:
        raise UnreadableData(f"{str(path)!r} must be TOML: {error}") from None


def _typed(name: str, kind: Any, value: Any) -> Any:
    kind = kind if not get_args(kind) else get_args(kind)[0]
    try:
        if kind is bool:
            words = {"true": True, "false": False, "1": True, "0": False}
            return value if isinstance(value, bool) else words[str(value).lower()]
        return kind(value)
    except (TypeError, ValueError, LookupError):
        raise InvalidParameter(
            f"`{name}` must be a {kind.__name__}, got {checks.shown(value)}"
        ) from None

"""Answers as data frames and figures."""

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any

from headcount.core.errors import MissingPackage


class Exported(ABC):
    """An answer that can become a data frame or a figure. Its guarantee covers both."""

    @abstractmethod
    def records(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> dict[str, list[Any]]:
        """The columns of a table with a row for each number of the answer and its interval."""

    def to_pandas(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> Any:
        """A data frame of pandas with a row for each number and its interval."""
        columns = self.records(confidence, sampling=sampling, simultaneous=simultaneous)
        return _package("pandas").DataFrame(columns)

    def to_polars(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> Any:
        """A data frame of polars with a row for each number and its interval."""
        columns = self.records(confidence, sampling=sampling, simultaneous=simultaneous)
        return _package("polars").DataFrame(columns)

    def plot(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> Any:
        """A figure (an Altair chart). A notebook shows it, and its `save` writes it to a file."""
        # The package `plot` imports this package, so it is imported only when it is needed.
        drawn = import_module("headcount.plot.results")
        return drawn.figure(self, confidence, sampling=sampling, simultaneous=simultaneous)


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingPackage(
            f"a data frame of {name} needs this package", hint=f"pip install {name}"
        ) from None

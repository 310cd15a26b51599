"""The options of `headcount plan` for crowds, for margins, for limits and for files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from headcount.cli.arguments import Confidence, Honest, OptionalUsers
from headcount.cli.protocol_options import complete_protocol
from headcount.cli.texts import listed, share
from headcount.cli.usage import check_matters
from headcount.core.budget import Crowd, Trust
from headcount.core.errors import InvalidParameter
from headcount.planner.differences import Detection
from headcount.planner.margin import Margin
from headcount.planner.needs import crowd_with
from headcount.planner.wishes import FEW_BYTES, FEW_ERRORS, FEW_SLOTS, LimitArguments, Purpose

_LIMITS = ("--max-messages", "--max-slots", "--max-bytes", "--max-influence")
_OF_ONE_PLAN = ("--out", "--protocol", "--prices", "--for", *_LIMITS, "--exact")


@dataclass(frozen=True)
class CrowdOptions:
    """The options for the number of people, and for how many of them are honest."""

    users: OptionalUsers = None
    honest: Honest = None
    dishonest: Annotated[
        str | None,
        typer.Option(
            help="Share of people who might not follow the protocol, such as 10%, instead of "
            "--honest. Several shares, such as 0%,10%,50%, are compared."
        ),
    ] = None

    def shares(self) -> list[float]:
        """The shares of dishonest people that were given."""
        found = [share("dishonest", one) for one in listed(self.dishonest or "")]
        if self.dishonest is not None and not found:
            raise InvalidParameter(
                f"`dishonest` must be a share like 10% or 0.1, got {self.dishonest!r}"
            )
        if self.honest is not None and found:
            raise InvalidParameter("--honest and --dishonest must not come together, got both")
        return found

    def crowd(self, users: int) -> Crowd:
        shares = self.shares()
        return crowd_with(users, shares[0]) if shares else Crowd(users, self.honest)


@dataclass(frozen=True)
class MarginOptions:
    """The options for the largest error that the answer may have."""

    margin: Annotated[
        str | None,
        typer.Option(
            help="Maximum margin of error: a number, or a share of the crowd or range, such as 1%. "
            "Without --users, the required number of people is computed. Without --epsilon, the "
            "required epsilon is computed."
        ),
    ] = None
    confidence: Confidence = 0.95
    sampling: Annotated[
        bool,
        typer.Option(
            "--sampling",
            help="The margin is for the population from which people are sampled, for a count, "
            "histogram, table or mean. It includes the largest possible sampling error.",
        ),
    ] = False

    def wanted(self) -> Margin | None:
        if self.margin is None:
            return None
        if self.margin.strip().endswith("%"):
            size = share("margin", self.margin)
            return Margin(size, self.confidence, share=True, sampling=self.sampling)
        try:
            number = float(self.margin)
        except ValueError:
            raise InvalidParameter(
                f"`margin` must be a number or a share, got {self.margin!r}"
            ) from None
        return Margin(number, self.confidence, sampling=self.sampling)


@dataclass(frozen=True)
class DifferenceOptions:
    """The options for the difference between two groups that a test must find."""

    difference: Annotated[
        str | None,
        typer.Option(
            help="For a count: the difference between the shares of two groups that a test is to "
            "find, such as 5%. The number of people needed in each group is computed."
        ),
    ] = None
    lower_share: Annotated[
        str | None,
        typer.Option(
            "--share",
            help="The lower of the two shares, such as 30%. [default: the share that needs the "
            "most people, near one half]",
        ),
    ] = None
    power: Annotated[
        str,
        typer.Option(help="Probability that the test finds the difference, such as 80%."),
    ] = "80%"

    def wanted(self, confidence: float) -> Detection | None:
        if self.difference is None:
            return None
        lower = None if self.lower_share is None else share("share", self.lower_share)
        found = share("difference", self.difference)
        return Detection(found, lower, share("power", self.power), confidence)


@dataclass(frozen=True)
class LimitOptions:
    """The options for limits on the cost of a protocol, and for the purpose of the plan."""

    purpose: Annotated[
        Purpose,
        typer.Option(
            "--for",
            help="Rank all protocols (accuracy), or only protocols that can collect data from real "
            "people (collection). With collection, central protocols are left out. Unless you set "
            f"other limits, each person sends at most {FEW_SLOTS} slots (messages and dummies) and "
            f"{FEW_BYTES:,} bytes, and one dishonest person can shift the answer by at most "
            f"{FEW_ERRORS} standard errors.",
        ),
    ] = Purpose.ACCURACY
    max_messages: Annotated[
        float | None, typer.Option(help="Maximum average number of messages per person.")
    ] = None
    max_slots: Annotated[
        int | None,
        typer.Option(
            help="Maximum number of slots in a person's bundle. A slot holds a message or a dummy."
        ),
    ] = None
    max_bytes: Annotated[
        int | None,
        typer.Option(help="Maximum number of bytes per person, if each message is encrypted."),
    ] = None
    max_influence: Annotated[
        float | None,
        typer.Option(
            help="Maximum shift of the answer, up or down, that one dishonest person can cause."
        ),
    ] = None

    @property
    def wanted(self) -> LimitArguments:
        return {
            "max_messages": self.max_messages,
            "max_slots": self.max_slots,
            "max_bytes": self.max_bytes,
            "max_influence": self.max_influence,
        }


@dataclass(frozen=True)
class SavedOptions:
    """The options that say which plan is saved, and where."""

    name: Annotated[
        str | None,
        typer.Option(
            "--protocol",
            help="Protocol that the saved plan runs. [default: the best protocol]",
            autocompletion=complete_protocol,
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(help="Save the plan as a .json file for `headcount estimate --plan`."),
    ] = None

    def check(self, trust: Trust | None, purpose: Purpose) -> None:
        if self.out is None:
            return
        if self.out.suffix != ".json":
            raise InvalidParameter(
                f"the file name of a plan must end in .json, got {self.out.name!r}"
            )
        if trust is None and self.name is None and purpose is Purpose.ACCURACY:
            raise InvalidParameter(
                "--out must come with --trust or --protocol, or with --for collection: otherwise "
                "the plan would always run a central protocol, which has the smallest error"
            )


def check_usage(given: dict[str, Any], shares: int) -> None:
    """Refuse options that would have no effect, or that contradict each other."""
    one_plan = "--users" in given and "--epsilon" in given
    found = "--difference" in given
    check_matters(
        given,
        [
            (found, ["--share", "--power"], "come with --difference"),
            ("--margin" in given, ["--sampling"], "come with --margin"),
            (not found, ["--users", "--margin"], "come without --difference"),
            (given.get("task") == "count", ["--difference"], "come with a count"),
            (one_plan, [*_OF_ONE_PLAN, "--honest"], "come with --users and --epsilon"),
            (
                one_plan or shares <= 1,
                ["--dishonest"],
                "be a single share if --users or --epsilon is missing",
            ),
            (
                shares <= 1,
                [*_OF_ONE_PLAN, "--margin"],
                "not come with several shares in --dishonest",
            ),
            ("--trust" not in given, ["--prices"], "come without --trust"),
            (
                given.get("--for") != Purpose.COLLECTION,
                ["--prices"],
                "come without --for collection",
            ),
        ],
    )

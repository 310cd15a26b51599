"""The refusals of the collection service. Each kind has a stable code and an HTTP status.

Over HTTP, every refusal is one JSON document: {"error": {"code", "message", "hint"}}.
"""

from typing import Any, ClassVar

from headcount.core.errors import HeadcountError


class Refused(HeadcountError):
    """A request that the shuffler or the analyzer does not accept."""

    code = "refused"
    http_status: ClassVar[int] = 400

    def to_dict(self) -> dict[str, Any]:
        """The one JSON shape of all errors."""
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint}}


class WrongSize(Refused):
    """The body does not have the size that all responses of the survey have."""

    code = "wrong-size"


class Malformed(Refused):
    """A request is not formed as the interface says."""

    code = "malformed"


class Unauthorized(Refused):
    """The token or the invitation code is missing or unknown."""

    code, http_status = "unauthorized", 401


class UnknownSurvey(Refused):
    """No survey has this digest here."""

    code, http_status = "unknown-survey", 404


class NoResults(Refused):
    """There are no results to show."""

    code, http_status = "no-results", 404


class TooSlow(Refused):
    """The body did not arrive before its deadline."""

    code, http_status = "too-slow", 408


class Conflict(Refused):
    """Something else was accepted before under this name."""

    code, http_status = "conflict", 409


class TooFewPeople(Refused):
    """Fewer people answered than the guarantee assumes, so nothing may be passed on."""

    code, http_status = "too-few-people", 409
    exit_status = 1


class Closed(Refused):
    """The survey takes no more responses."""

    code, http_status = "closed", 410


class LengthRequired(Refused):
    """The request does not state the length of its body."""

    code, http_status = "length-required", 411


class TooLarge(Refused):
    """A body is larger than any that is accepted."""

    code, http_status = "too-large", 413


class TooMany(Refused):
    """Too many requests came from one part of the network."""

    code, http_status = "too-many-requests", 429


class Unavailable(Refused):
    """The database cannot be reached. The same request may succeed later."""

    code, http_status = "unavailable", 503


class Full(Refused):
    """There is no room left on the disk. The same request may succeed later."""

    code, http_status = "full", 507

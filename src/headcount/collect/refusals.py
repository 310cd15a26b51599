"""The refusals of the shuffler and of the analyzer. Each kind has a stable code and an HTTP status.

Over HTTP, every refusal is one JSON document: {"error": {"code", "message", "hint"}}. The message
in this document is the fixed `text` of the kind. The exceptions themselves have other messages,
with details for the operator, such as the name of a database. These messages never leave the
service.
"""

from typing import Any, ClassVar

from headcount.core.errors import HeadcountError


class Refused(HeadcountError):
    """A request that the shuffler or the analyzer does not accept."""

    code = "refused"
    http_status: ClassVar[int] = 400
    text: ClassVar[str] = "the request was refused"
    advice: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """The refusal in the JSON shape of all errors."""
        return error_shape(self.code, self.text, self.advice)


def error_shape(code: str, text: str, advice: str = "") -> dict[str, Any]:
    """An error in the JSON shape that all errors have."""
    return {"error": {"code": code, "message": text, "hint": advice}}


class WrongSize(Refused):
    """The body does not have the size that all responses of the survey have."""

    code = "wrong-size"
    text = "a body must have the size that all responses of the survey have"


class Malformed(Refused):
    """A request does not have the form that the interface describes."""

    code = "malformed"
    text = "a request must have the form that the interface describes"


class Unauthorized(Refused):
    """The token or the invitation code is missing or unknown."""

    code, http_status = "unauthorized", 401
    text = "a request must carry a valid token or invitation code"


class UnknownSurvey(Refused):
    """No survey has this digest here."""

    code, http_status = "unknown-survey", 404
    text = "no survey here has this digest"


class NoResults(Refused):
    """The survey has no results yet."""

    code, http_status = "no-results", 404
    text = "this survey has no results yet"


class NotBuilt(Refused):
    """The files of the page for browsers are missing in this installation."""

    code, http_status = "not-built", 404
    text = "the page for browsers is not part of this installation"
    advice = "headcount survey answer works without it"


class TooSlow(Refused):
    """The body did not arrive before its deadline."""

    code, http_status = "too-slow", 408
    text = "a body must arrive before its deadline"


class Conflict(Refused):
    """Something else was already accepted under this name."""

    code, http_status = "conflict", 409
    text = "something else was accepted before under this name"


class TooFewPeople(Refused):
    """Fewer people answered than the guarantee assumes, so the analyzer must not get a batch."""

    code, http_status = "too-few-people", 409
    text = "too few people have answered"
    exit_status = 1


class Closed(Refused):
    """The survey takes no more responses."""

    code, http_status = "closed", 410
    text = "this survey takes no more responses"


class LengthRequired(Refused):
    """The request does not state the length of its body."""

    code, http_status = "length-required", 411
    text = "a request must state the length of its body in Content-Length"


class TooLarge(Refused):
    """A body is larger than the largest that is accepted."""

    code, http_status = "too-large", 413
    text = "a body must not be larger than the largest that is accepted"


class TooMany(Refused):
    """Too many requests came from one part of the network."""

    code, http_status = "too-many-requests", 429
    text = "too many requests came from one part of the network"
    advice = "send the same bytes again later"


class Unavailable(Refused):
    """The service or its database cannot be reached. The same request may succeed later."""

    code, http_status = "unavailable", 503
    text = "the service cannot reach its database"
    advice = "send the same bytes again later"


class Full(Refused):
    """There is no room left on the disk. The same request may succeed later."""

    code, http_status = "full", 507
    text = "the service has no room left"
    advice = "send the same bytes again later"

"""Decides who may use the researcher's pages, and whether a form comes from one of these pages."""

import hmac
import secrets
from hashlib import sha256
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from headcount.collect.http import body_of
from headcount.collect.refusals import Refused, Unauthorized
from headcount.console import texts
from headcount.console.surveys import MOST_BYTES
from headcount.core.errors import InvalidParameter


class StaleForm(Refused):
    """A form does not carry the stamp (see `Door.stamp`) of the browser that sends it."""

    code = "stale-form"
    http_status = 403
    text = texts.STALE_FORM


class Door:
    """Lets a browser in if it has shown the token. The browser then gets a cookie, and shows the
    cookie from there on.

    A token for one use is forgotten after its first use. So the address with the token, which may
    stay in the history of a terminal or of a browser, opens nothing later.
    """

    def __init__(self, token: str, *, once: bool) -> None:
        self._token, self._once = token, once
        self._secret = secrets.token_bytes(32)
        self._cookie = f"headcount-{secrets.token_hex(4)}"  # each console has its own cookie

    def enter(self, given: str, target: str) -> Response:
        """Go to a page, with a cookie, if the token is right."""
        if not self._token or not hmac.compare_digest(given.encode(), self._token.encode()):
            raise Unauthorized(texts.WRONG_TOKEN)
        if self._once:
            self._token = ""
        reply = RedirectResponse(target, 303)
        session = secrets.token_urlsafe(32)
        reply.set_cookie(
            self._cookie, f"{session}.{self._stamp('session', session)}",
            httponly=True, samesite="lax", path="/",
        )  # fmt: skip
        return reply

    def stamp(self, request: Request) -> str:
        """The secret code that every form of this browser must carry. Other sites do not know it,
        so they cannot make the browser send forms. A browser without a valid cookie is refused.
        """
        session, _, proof = request.cookies.get(self._cookie, "").partition(".")
        if not hmac.compare_digest(proof.encode(), self._stamp("session", session).encode()):
            raise Unauthorized("")
        return self._stamp("form", session)

    def _stamp(self, what: str, session: str) -> str:
        return hmac.new(self._secret, f"{what} {session}".encode(), sha256).hexdigest()

    async def fields(self, request: Request) -> dict[str, str]:
        """The fields of a form, which must carry the stamp of this browser."""
        stamp, found = self.stamp(request), await form_fields(request)
        if not hmac.compare_digest(found.get("stamp", "").encode(), stamp.encode()):
            raise StaleForm(texts.STALE_FORM)
        return found


async def form_fields(request: Request) -> dict[str, str]:
    """The fields of a form."""
    body = await body_of(request, seconds=20.0, most=3 * MOST_BYTES)
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=200))
    except ValueError:
        raise InvalidParameter("a form must be text with at most 200 fields") from None

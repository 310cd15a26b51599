"""The page on which people answer a survey in a browser, as the shuffler serves it.

The page loads nothing from other hosts, and runs no script but its own. Its script checks the
survey's document.
"""

import asyncio

from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headcount.collect.http import packed_response
from headcount.collect.page_files import TYPES, page_file, policy
from headcount.collect.refusals import NotBuilt, UnknownSurvey
from headcount.collect.shuffler import Shuffler
from headcount.core.errors import MissingPackage

_HEADERS = {
    "Content-Security-Policy": f"{policy()}; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-cache",
}


def page_routes(shuffler: Shuffler) -> list[Route]:
    """The routes of the page, which is at `/surveys/{digest}/`, and of its files."""

    async def page(request: Request) -> Response:
        digest = request.path_params["digest"]
        try:
            await asyncio.to_thread(shuffler.document, digest)
        except UnknownSurvey:  # the page tells the reader that the survey is unknown
            return _file(request, "respond.html", 404)
        # The link makes the browser load the document at once, before the script asks for it.
        return _file(
            request, "respond.html", link=f"<../{digest}>; rel=preload; as=fetch; crossorigin"
        )

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in TYPES:
            raise UnknownSurvey("there is nothing at this address")
        return _file(request, name)

    return [Route("/surveys/{digest}/", page), Route("/surveys/{digest}/{name}", file)]


def allow_sites(app: Starlette, sites: list[str]) -> None:
    """Let pages of other sites read documents, load the client, and send responses."""
    app.add_middleware(
        CORSMiddleware,
        allow_origins=sites,
        allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "Content-Type"],
    )


def _file(request: Request, name: str, status: int = 200, *, link: str = "") -> Response:
    try:
        data = page_file(name)
    except MissingPackage as missing:
        raise NotBuilt(missing.message) from None
    headers = {**_HEADERS, **({"Link": link} if link else {})}
    return packed_response(request, data, TYPES[name], status, headers)

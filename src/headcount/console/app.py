"""The researcher's pages over HTTP. Whoever has the token may do everything here."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from headcount.collect.http import log
from headcount.collect.page_files import page_file, policy
from headcount.collect.refusals import NoResults, Refused, TooFewPeople, Unauthorized, UnknownSurvey
from headcount.collect.settings import Settings
from headcount.console import pages, texts
from headcount.console.door import Door, form_fields
from headcount.console.form import survey_text
from headcount.console.html import at
from headcount.console.surveys import Folder, Round, example
from headcount.core import checks
from headcount.core.errors import HeadcountError, InvalidParameter
from headcount.plot.collected_page import save_collected
from headcount.plot.page import STYLE

_HEADERS = {
    "Content-Security-Policy": policy(forms="'self'") + "; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
# The page on which people answer has the same basic style and the same icon.
_SHARED = {"base.css": "text/css", "icon.svg": "image/svg+xml"}
_STATIC = {"console.css": "text/css", "console.js": "text/javascript"}


class ConsoleSettings(Settings):
    """Where the pages are served."""

    prefix = "CONSOLE"


class Console(Starlette):
    """The application. Every reply has the headers in `_HEADERS`, even if it is an error."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", []),
                    *((name.lower().encode(), value.encode()) for name, value in _HEADERS.items()),
                ]
            await send(message)

        await super().__call__(scope, receive, sent)


class Handlers:
    """The functions that answer requests. Each address of the console has one of them."""

    def __init__(self, folder: Folder, door: Door) -> None:
        self._folder, self._door = folder, door

    async def home(self, request: Request) -> Response:
        if given := request.query_params.get("token"):
            return self._door.enter(given, _local(request.query_params.get("to", "/")))
        self._door.stamp(request)
        return HTMLResponse(await asyncio.to_thread(pages.surveys, self._folder))

    async def enter(self, request: Request) -> Response:
        return self._door.enter((await form_fields(request)).get("token", ""), "/")

    async def new(self, request: Request) -> Response:
        stamp = self._door.stamp(request)
        if request.method == "GET":
            return HTMLResponse(pages.editor(stamp, "", example(), new=True))
        return await self._save(request, stamp, "", new=True)

    async def by_form(self, request: Request) -> Response:
        stamp = self._door.stamp(request)
        if request.method == "GET":
            return HTMLResponse(pages.survey_form(stamp))
        fields = await self._door.fields(request)
        try:
            text = survey_text(fields)
        except HeadcountError as error:
            return HTMLResponse(pages.survey_form(stamp, error), 400)
        return HTMLResponse(pages.editor(stamp, "", text, new=True))

    async def edit(self, request: Request) -> Response:
        stamp, name = self._door.stamp(request), request.path_params["name"]
        if request.method == "GET":
            if self._folder.round(name) is not None:
                raise InvalidParameter(texts.FIXED_NOW)
            return HTMLResponse(pages.editor(stamp, name, self._folder.text(name), new=False))
        return await self._save(request, stamp, name, new=False)

    async def _save(self, request: Request, stamp: str, name: str, *, new: bool) -> Response:
        fields = await self._door.fields(request)
        name = fields.get("name", "").strip() if new else name
        text = fields.get("text", "").replace("\r\n", "\n")
        try:
            await asyncio.to_thread(self._folder.save, name, text, new=new)
        except HeadcountError as error:
            return HTMLResponse(pages.editor(stamp, name, text, new=new, error=error), 400)
        return RedirectResponse(at(name), 303)

    async def survey(self, request: Request) -> Response:
        stamp, name = self._door.stamp(request), request.path_params["name"]
        found = self._folder.round(name)
        if found is None:
            text = self._folder.text(name)
            try:
                await asyncio.to_thread(self._folder.plan, name)
            except HeadcountError as error:
                return HTMLResponse(pages.editor(stamp, name, text, new=False, error=error), 400)
            return await self.plan(request)
        return await asyncio.to_thread(_round_page, request, stamp, found, pages.collecting)

    async def projector(self, request: Request) -> Response:
        stamp, name = self._door.stamp(request), request.path_params["name"]
        found = self._opened(name)
        return await asyncio.to_thread(_round_page, request, stamp, found, pages.projector)

    async def plan(self, request: Request) -> Response:
        stamp, name = self._door.stamp(request), request.path_params["name"]
        own = (await asyncio.to_thread(self._folder.survey, name)).budget.epsilon
        last, error, margin = self._folder.round(name), None, None
        epsilon: float | None = None
        try:
            if points := request.query_params.get("margin"):
                margin = _number("margin", points, 0.01, 50)
                epsilon = await asyncio.to_thread(self._folder.needed, name, margin / 100)
            elif step := request.query_params.get("step"):
                epsilon = _step(step)
        except HeadcountError as found:
            error = found
        made = await asyncio.to_thread(self._folder.plan, name, epsilon)
        return HTMLResponse(
            pages.plan_page(stamp, name, made, own=own, last=last, margin=margin, error=error),
            200 if error is None else 400,
        )

    async def epsilon(self, request: Request) -> Response:
        name, fields = request.path_params["name"], await self._door.fields(request)
        chosen = _number("epsilon", fields.get("epsilon", ""), 0.001, 100)
        await asyncio.to_thread(self._folder.use_epsilon, name, chosen)
        return RedirectResponse(at(name), 303)

    async def open_round(self, request: Request) -> Response:
        name, fields = request.path_params["name"], await self._door.fields(request)
        in_class = "class" in fields
        admission = checks.choice("admission", fields.get("admission", ""), ("open", "codes"))
        await asyncio.to_thread(
            self._folder.open, name, "codes" if admission == "codes" else "open", in_class=in_class
        )
        return RedirectResponse(at(name, "class") if in_class else at(name), 303)

    async def close(self, request: Request) -> Response:
        name, fields = request.path_params["name"], await self._door.fields(request)
        back = at(name, "class") if "class" in fields else at(name)
        try:
            await asyncio.to_thread(self._opened(name).close)
        except TooFewPeople:
            back = f"{back}?few=yes"
        return RedirectResponse(back, 303)

    async def destroy(self, request: Request) -> Response:
        name = request.path_params["name"]
        await self._door.fields(request)
        await asyncio.to_thread(self._opened(name).destroy)
        return RedirectResponse(at(name), 303)

    async def codes(self, request: Request) -> Response:
        name, fields = request.path_params["name"], await self._door.fields(request)
        found = self._opened(name)
        count = int(_number("count", fields.get("count", ""), 1, 100_000))
        made = await asyncio.to_thread(found.codes, count)
        lines = "".join(f"{found.address}#code={code}\n" for code in made)
        return _download(lines.encode(), f"{name}-codes.txt", "text/plain")

    async def status(self, request: Request) -> Response:
        self._door.stamp(request)
        found = self._opened(request.path_params["name"])
        return JSONResponse(await asyncio.to_thread(pages.status_data, found))

    async def qr(self, request: Request) -> Response:
        self._door.stamp(request)
        found = self._opened(request.path_params["name"])
        return Response(pages.qr(found.address), media_type="image/svg+xml")

    async def download(self, request: Request) -> Response:
        self._door.stamp(request)
        name, ending = request.path_params["name"], request.path_params["ending"]
        if ending not in pages.DOWNLOADS:
            raise UnknownSurvey(texts.NOT_FOUND)
        data = await asyncio.to_thread(_saved, self._opened(name), ending)
        return _download(data, f"{name}-results.{ending}", "application/octet-stream")

    def _opened(self, name: str) -> Round:
        found = self._folder.round(name)
        if found is None:
            raise UnknownSurvey(f"the survey {name!r} was not opened yet")
        return found


def console_app(folder: Folder, token: str, *, once: bool) -> Console:
    """The application. If `once`, the token works only once."""
    made = Handlers(folder, Door(token, once=once))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(folder.stop)

    one = "/surveys/{name}"
    return Console(
        routes=[
            Route("/", made.home),
            Route("/token", made.enter, methods=["POST"]),
            Route("/new", made.new, methods=["GET", "POST"]),
            Route("/form", made.by_form, methods=["GET", "POST"]),
            Route("/static/{name}", _static),
            Route(one, made.survey),
            Route(f"{one}/edit", made.edit, methods=["GET", "POST"]),
            Route(f"{one}/plan", made.plan),
            Route(f"{one}/class", made.projector),
            Route(f"{one}/status", made.status),
            Route(f"{one}/qr.svg", made.qr),
            Route(f"{one}/results.{{ending}}", made.download),
            Route(f"{one}/epsilon", made.epsilon, methods=["POST"]),
            Route(f"{one}/open", made.open_round, methods=["POST"]),
            Route(f"{one}/close", made.close, methods=["POST"]),
            Route(f"{one}/destroy", made.destroy, methods=["POST"]),
            Route(f"{one}/codes", made.codes, methods=["POST"]),
        ],
        lifespan=lifespan,
        exception_handlers={
            HeadcountError: _refused,
            HTTPException: _not_routed,
            Exception: _failed,
        },
    )


def _round_page(request: Request, stamp: str, found: Round, shown: Callable[..., str]) -> Response:
    """The page of a round, which depends on the round's state. `shown` is the function that makes
    the page of an open round.
    """
    name, state = request.path_params["name"], found.state
    if state == "results":
        return HTMLResponse(pages.results(name, found))
    if state == "counting":
        return HTMLResponse(pages.counting(name, found))
    if state == "destroyed":
        return HTMLResponse(pages.destroyed(name, found))
    return HTMLResponse(shown(stamp, name, found, few="few" in request.query_params))


def _saved(found: Round, ending: str) -> bytes:
    """The bytes of a file with the results. `ending` is its format, such as json."""
    results = found.results
    if results is None:
        raise NoResults("this survey has no results yet")
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / f"results.{ending}"
        save_collected(results, path)
        return path.read_bytes()


def _download(data: bytes, name: str, kind: str) -> Response:
    plain = "".join(
        one if one.isascii() and (one.isalnum() or one in "-_.") else "_" for one in name
    )
    return Response(
        data, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{plain}"'}
    )


def _number(name: str, text: str, low: float, high: float) -> float:
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise InvalidParameter(
            f"`{name}` must be a number between {low:g} and {high:g}, got {checks.shown(text)}"
        )
    return value


def _step(text: str) -> float:
    """The epsilon at a step of the slider."""
    return pages.EPSILONS[int(_number("step", text, 0, len(pages.EPSILONS) - 1))]


def _local(target: str) -> str:
    """The target if it is the page of a survey, or else the list of surveys."""
    return target if target.startswith("/surveys/") else "/"


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "page.css":
        return Response(STYLE, media_type="text/css")
    if name in _SHARED:
        return Response(page_file(name), media_type=_SHARED[name])
    if name not in _STATIC:
        raise UnknownSurvey(texts.NOT_FOUND)
    data = files("headcount.console").joinpath("static", name).read_bytes()
    return Response(data, media_type=_STATIC[name])


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HeadcountError)
    if isinstance(error, Unauthorized):
        return HTMLResponse(pages.sign_in(error.message), error.http_status)
    status = error.http_status if isinstance(error, Refused) else 400
    name = "" if status == 404 else request.path_params.get("name", "")
    return HTMLResponse(pages.refused(error, at(name) if name else "/"), status)


async def _not_routed(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return HTMLResponse(pages.refused(InvalidParameter(texts.NOT_FOUND)), status)


async def _failed(request: Request, error: Exception) -> Response:
    log("failed", error=type(error).__name__)
    return HTMLResponse(pages.refused(InvalidParameter(texts.BUG)), 500)

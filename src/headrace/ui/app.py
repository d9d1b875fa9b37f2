"""What the status page answers: the page itself, the board as JSON and as metrics, and whether the run is well.

It only ever answers: nothing can be changed through it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from importlib.resources import files

from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.ui.metrics import Metrics
from headrace.ui.status import FAILED, RunStatus

# The page's files, and what they are: a guess would depend on the machine's own list, and browsers refuse a wrong one.
_FILES = {
    "index.html": "text/html",
    "page.css": "text/css",
    "page.js": "text/javascript",
    "charts.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}

# The page uses its own files and nothing else, and no other page may put it in a frame.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_Answer = Callable[[Request], Awaitable[Response]]


def app(board: RunStatus, *, is_local: bool, on_status: Callable[[], object] = lambda: None) -> ASGIApp:
    """The application.

    Args:
        board: What it shows.
        is_local: Whether to answer only requests that call this machine by a loopback name. A page from elsewhere can
            have its own name resolve to 127.0.0.1, but it cannot change the name that the browser sends.
        on_status: Called after the board was read for a page.
    """
    metrics = Metrics(board)

    async def status(_: Request) -> Response:
        answer = JSONResponse(board.snapshot())
        on_status()
        return answer

    async def scrape(_: Request) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def health(_: Request) -> Response:
        told = board.snapshot()
        if told["state"] == FAILED:
            return PlainTextResponse(f"failed: {told['message']}\n", status_code=503)
        return PlainTextResponse("ok\n")

    routes = [
        Route("/", _file("index.html")),
        *(Route(f"/static/{name}", _file(name)) for name in _FILES if name != "index.html"),
        Route("/api/status", status),
        Route("/metrics", scrape),
        Route("/healthz", health),
    ]
    return _Guard(Starlette(routes=routes), is_local=is_local)


def _file(name: str) -> _Answer:
    content = files("headrace.ui").joinpath("static", name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(content, media_type=_FILES[name])

    return answer


class _Guard:
    """Refuses requests under a foreign name, and puts our headers on every answer, refusals and 404 included."""

    def __init__(self, inner: ASGIApp, *, is_local: bool) -> None:
        self._inner = inner
        self._is_local = is_local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        inner = self._inner
        if self._is_local and not is_loopback(_name(Headers(scope=scope).get("host", ""))):
            inner = PlainTextResponse("This page is only for the machine it runs on.\n", status_code=403)
        await inner(scope, receive, send_with_headers)


def _name(host: str) -> str:
    """A Host header without its port; an IPv6 address without its brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def is_loopback(name: str) -> bool:
    """Whether a name, as it is written, can only mean this machine."""
    if name.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False

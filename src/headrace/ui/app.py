"""The web application of the status page: the page, the status as JSON, Prometheus metrics, and a health check.

All routes are read-only.
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

from headrace.ui.health import health as health_of
from headrace.ui.metrics import Metrics
from headrace.ui.status import RunStatus

# The page's files and their media types. Guessing them would depend on the machine, and browsers reject wrong ones.
_FILES = {
    "index.html": "text/html",
    "page.css": "text/css",
    "page.js": "text/javascript",
    "charts.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}

# The page may load only its own files, and no other page may embed it in a frame.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_Answer = Callable[[Request], Awaitable[Response]]


def app(run: RunStatus, *, is_local: bool, on_status: Callable[[], object] = lambda: None) -> ASGIApp:
    """Return the application.

    Args:
        run: The status to show.
        is_local: Whether to accept only requests whose Host header is a loopback name. A foreign web page can make its
            own host name resolve to 127.0.0.1, but the browser still sends that name.
        on_status: Called after the status was read for a page.
    """
    metrics = Metrics(run)

    async def status(_: Request) -> Response:
        answer = JSONResponse(run.snapshot())
        on_status()
        return answer

    async def scrape(_: Request) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def health(_: Request) -> Response:
        is_well, line = health_of(run.snapshot())
        return PlainTextResponse(f"{line}\n", status_code=200 if is_well else 503)

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
    """Rejects requests with a foreign Host header, and adds the security headers to every response."""

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
            inner = PlainTextResponse("This page can only be opened on the machine it runs on.\n", status_code=403)
        await inner(scope, receive, send_with_headers)


def _name(host: str) -> str:
    """Return the host name of a Host header: without the port, and without the brackets of an IPv6 address."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def is_loopback(name: str) -> bool:
    """Whether a host name is localhost or a loopback address; it is not resolved."""
    if name.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False

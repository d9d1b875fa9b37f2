"""Serve the status page on a background thread."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from headrace.errors import ConfigurationError, MissingExtraError
from headrace.ui.status import RunStatus

if TYPE_CHECKING:
    from uvicorn import Server

_HIGHEST_PORT = 65535
_PACKAGES = ("starlette", "uvicorn", "prometheus_client")

# An open page polls once a second. If one polled within _RECENT_SECONDS, closing waits for one more poll, so that the
# page shows how the run ended.
_RECENT_SECONDS = 3.0
_LAST_POLL_SECONDS = 1.5
_STOP_SECONDS = 5.0


def serve(run: RunStatus, port: int, host: str = "127.0.0.1") -> Page:
    """Serve the status of a run, on a daemon thread.

    Args:
        run: The status to show.
        port: The port; 0 picks a free one.
        host: The address to listen on. On an address other than loopback, everyone who can reach it can read the page.

    Returns:
        The page; close it to stop serving.

    Raises:
        ConfigurationError: The port is in use or not valid, or the machine does not have the address.
        MissingExtraError: A required package is not installed.
    """
    try:
        import uvicorn

        from headrace.ui.app import app, is_loopback
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise MissingExtraError(
            f"The status page needs {error.name}, which is not installed.",
            hint="install it with: pip install 'headrace[ui]'",
        ) from error
    polls = _Polls()
    # Bind here, not on the thread, so that a port in use raises in the caller.
    listening = _listen(host, port)
    config = uvicorn.Config(
        app(run, is_local=is_loopback(host), on_status=polls.note),
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    return Page(run, uvicorn.Server(config), listening, polls)


class Page:
    """A status page that is being served, until `close` or the end of a ``with`` block. `close` is idempotent."""

    def __init__(self, run: RunStatus, server: Server, listening: socket.socket, polls: _Polls) -> None:
        host, port = listening.getsockname()[:2]
        self._url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        self._status = run
        self._server = server
        self._listening = listening
        self._polls = polls
        # uvicorn installs signal handlers only on the main thread.
        self._thread = threading.Thread(target=self._run, name="headrace-ui", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the page."""
        return self._url

    def close(self) -> None:
        """Stop serving. If the run is over and a browser has the page open, wait until it has polled once more."""
        if self._thread.is_alive() and self._status.is_over:
            self._polls.wait_for_last()
        self._server.should_exit = True
        self._thread.join(_STOP_SECONDS)
        self._listening.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._listening]))


class _Polls:
    """When a page last polled."""

    def __init__(self) -> None:
        self._last = float("-inf")
        self._polled = threading.Event()

    def note(self) -> None:
        self._last = time.monotonic()
        self._polled.set()

    def wait_for_last(self) -> None:
        if time.monotonic() - self._last < _RECENT_SECONDS:
            self._polled.clear()
            self._polled.wait(_LAST_POLL_SECONDS)


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= _HIGHEST_PORT:
        raise ConfigurationError(f"{port} is not a port.", hint=f"use a number from 0 to {_HIGHEST_PORT}.")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigurationError(
            f"The status page cannot listen on port {port} of {host}: {error.strerror or error}.",
            hint="another program may use it; choose another port, or 0 for a free one.",
        ) from error

"""Serving the board on a port, beside the run and without getting in its way."""

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

# A page asks once a second. Where one has asked this lately, it is given this long to see how the run ended.
_LATELY_SECONDS = 3.0
_LAST_LOOK_SECONDS = 1.5
_PATIENCE_SECONDS = 5.0


def serve(board: RunStatus, port: int, host: str = "127.0.0.1") -> Page:
    """Serve a board, on a thread that does not keep the process alive.

    Args:
        board: What to show.
        port: The port; 0 picks a free one.
        host: The address. On any but a loopback one, whoever reaches the machine can read the page.

    Returns:
        The page, to be closed.

    Raises:
        ConfigurationError: The port is taken, or there is no such address.
        MissingExtraError: A package that it needs is not installed.
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
    seen = _Seen()
    # Taken here and not on the thread, so that the caller learns of a port it cannot have.
    listening = _listen(host, port)
    config = uvicorn.Config(
        app(board, is_local=is_loopback(host), on_status=seen.note),
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
    return Page(board, uvicorn.Server(config), listening, seen)


class Page:
    """A board that is being served. Closing it, also by ``with``, ends that; closing it again does nothing."""

    def __init__(self, board: RunStatus, server: Server, listening: socket.socket, seen: _Seen) -> None:
        host, port = listening.getsockname()[:2]
        self._url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        self._board = board
        self._server = server
        self._listening = listening
        self._seen = seen
        # uvicorn leaves signals alone on any thread but the main one.
        self._thread = threading.Thread(target=self._run, name="headrace-ui", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return self._url

    def close(self) -> None:
        """End it. A browser that is looking sees first how the run ended."""
        if self._thread.is_alive() and self._board.is_over:
            self._seen.wait_for_last_look()
        self._server.should_exit = True
        self._thread.join(_PATIENCE_SECONDS)
        self._listening.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._listening]))


class _Seen:
    """When a page last asked."""

    def __init__(self) -> None:
        self._last = float("-inf")
        self._asked = threading.Event()

    def note(self) -> None:
        self._last = time.monotonic()
        self._asked.set()

    def wait_for_last_look(self) -> None:
        if time.monotonic() - self._last < _LATELY_SECONDS:
            self._asked.clear()
            self._asked.wait(_LAST_LOOK_SECONDS)


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= _HIGHEST_PORT:
        raise ConfigurationError(f"{port} is not a port.", hint=f"ports are numbers from 0 to {_HIGHEST_PORT}.")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigurationError(
            f"The status page cannot have port {port} of {host}: {error.strerror or error}.",
            hint="another program may have it; name another port, or 0 for any that is free.",
        ) from error

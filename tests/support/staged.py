"""The status page on a stage: its own files, with answers and a prologue of the test's choice."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import headrace.ui

STATIC = Path(headrace.ui.__file__).parent / "static"
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Stage:
    """Serves the page.

    Args:
        answer: The status for each time that it is asked for, counted from 0; None breaks the connection off.
        prologue: A script that runs before the page's own.
    """

    def __init__(self, answer: Callable[[int], dict[str, Any] | None], prologue: str = "") -> None:
        self.asked = 0
        stage = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/":
                    text = (STATIC / "index.html").read_text("utf-8")
                    self._send(text.replace("<head>", f"<head><script>{prologue}</script>", 1), "text/html")
                elif self.path.startswith("/framed/"):
                    width = int(self.path.rpartition("/")[2])
                    self._send(f'<body><iframe src="/" width="{width}" height="900"></iframe>', "text/html")
                elif self.path == "/api/status":
                    stage.asked += 1
                    told = answer(stage.asked - 1)
                    if told is not None:
                        self._send(json.dumps(told), "application/json")
                else:
                    file = STATIC / Path(self.path).name
                    self._send(file.read_text("utf-8"), KINDS[file.suffix])

            def _send(self, text: str, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", f"{kind}; charset=utf-8")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """A browser that ends leaves its requests."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def framed(self, width: int) -> str:
        """Return the address of the page in a frame of ``width`` pixels: a browser's own window has a least width."""
        return f"{self.url}framed/{width}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

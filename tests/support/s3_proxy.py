"""A proxy before the object store that fails requests on demand, and notes every request it saw.

The test calls its methods, and the proxy runs in a separate process:

    proxy.drop_answer("PUT", "/_versions/")  # the next manifest is written, and its writer never hears of it
    proxy.fail("PUT", "/data/", status=503, times=2)
    proxy.hold("PUT", "/_versions/")  # waits before the store, until `proxy.release()`
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import sys
import threading
import time
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from support.s3_server import storage_options
from support.served import ANSWER_SECONDS, Served, say

ALWAYS = sys.maxsize

# The codes that go with a status in the body of an error: a client may read them instead of the status.
CODES = {403: "AccessDenied", 500: "InternalError", 503: "SlowDown"}

# What concerns one connection and is not passed on to the next.
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}


class Seen(NamedTuple):
    """One request: what was done to it, and the status the store answered, or None where it was not asked."""

    method: str
    path: str
    fault: str | None
    status: int | None


@dataclass(slots=True)
class Fault:
    """What is to happen to the next `times` requests of a method whose path holds a text."""

    kind: str
    method: str
    path: str
    times: int
    status: int = 0
    seconds: float = 0.0


class S3Proxy(Served):
    """The test's side. The fault that was asked for first and still has times left is the one that happens."""

    def __init__(self, endpoint: str) -> None:
        super().__init__("support.s3_proxy", endpoint)

    @property
    def storage_options(self) -> dict[str, str]:
        return storage_options(self.endpoint)

    def fail(self, method: str, path: str, *, status: int, times: int = 1) -> None:
        """Answers with an error; the store is not asked."""
        self._add(Fault("fail", method, path, times, status=status))

    def drop_request(self, method: str, path: str, *, times: int = 1) -> None:
        """Closes the connection without an answer; the store is not asked."""
        self._add(Fault("drop_request", method, path, times))

    def drop_answer(self, method: str, path: str, *, times: int = 1) -> None:
        """Closes the connection without an answer, once the store has done what was asked."""
        self._add(Fault("drop_answer", method, path, times))

    def delay(self, method: str, path: str, *, seconds: float, times: int = 1) -> None:
        """Asks the store that much later."""
        self._add(Fault("delay", method, path, times, seconds=seconds))

    def hold(self, method: str, path: str, *, times: int = 1) -> None:
        """Asks the store when `release` is called."""
        self._add(Fault("hold", method, path, times))

    def wait_held(self, count: int = 1) -> None:
        """Returns when that many requests are being held, or raises after a minute."""
        self.ask(verb="wait_held", count=count)

    def release(self) -> None:
        """Lets every request that is held go on, and holds no more."""
        self.ask(verb="release")

    def clear(self) -> None:
        """Forgets the faults that have not happened, and the requests seen; lets go of what is held."""
        self.ask(verb="clear")

    def seen(self, method: str = "", path: str = "") -> list[Seen]:
        """The requests since the start or `clear`, in order of arrival: all, or those of a method and a path."""
        every = [Seen(*each) for each in self.ask(verb="seen")]
        return [each for each in every if method in ("", each.method) and path in each.path]

    def _add(self, fault: Fault) -> None:
        self.ask(verb="add", fault=asdict(fault))


class Faults:
    """The server's side: what is to happen, what has happened, and who waits."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._ahead: list[Fault] = []
        self._seen: list[list[Any]] = []
        self._held = 0
        self._releases = 0

    def take(self, method: str, path: str) -> tuple[Fault | None, list[Any]]:
        """The fault that is due for a request, and the note of the request, which is completed later."""
        with self._changed:
            due = next((each for each in self._ahead if each.method == method and each.path in path), None)
            if due is not None:
                due.times -= 1
                self._ahead = [each for each in self._ahead if each.times > 0]
            note = [method, path, due and due.kind, None]
            self._seen.append(note)
            return due, note

    def wait_for_release(self) -> None:
        with self._changed:
            releases = self._releases
            self._held += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._releases > releases)
            self._held -= 1

    def answer(self, question: dict[str, Any]) -> Any:
        with self._changed:
            match question:
                case {"verb": "add", "fault": fault}:
                    self._ahead.append(Fault(**fault))
                case {"verb": "seen"}:
                    return self._seen
                case {"verb": "wait_held", "count": count}:
                    if not self._changed.wait_for(lambda: self._held >= count, ANSWER_SECONDS - 10):
                        raise TimeoutError(f"{self._held} requests are held, and not {count}")
                case {"verb": "release"}:
                    self._release()
                case {"verb": "clear"}:
                    self._release()
                    self._ahead = []
                    self._seen = []
                case _:
                    raise ValueError(f"unknown: {question}")
        return None

    def _release(self) -> None:
        self._ahead = [each for each in self._ahead if each.kind != "hold"]
        self._releases += 1
        self._changed.notify_all()


class Proxy(ThreadingHTTPServer):
    daemon_threads = True
    # Many writers connect at once; the default of 5 would refuse some of them, which nobody asked for.
    request_queue_size = 128

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults = Faults()
        self.store = urlsplit(endpoint).netloc

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news; anything else is."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    # Connections are kept, as a real store keeps them: a client that reuses a dropped one must cope.
    protocol_version = "HTTP/1.1"
    # Headers and body leave in two writes, which would otherwise cost 40 ms each time.
    disable_nagle_algorithm = True

    def handle_any(self) -> None:
        proxy = cast(Proxy, self.server)
        if "Transfer-Encoding" in self.headers:
            self.close_connection = True
            self.send_error(501, "a body without Content-Length")
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault, note = proxy.faults.take(self.command, self.path)
        kind = fault.kind if fault else None
        if fault and kind == "fail":
            code = CODES.get(fault.status, "InternalError")
            error = f"<Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
            self.reply(fault.status, [("Content-Type", "application/xml")], error)
            return
        if kind == "drop_request":
            self.hang_up()
            return
        if fault and kind == "delay":
            time.sleep(fault.seconds)
        elif kind == "hold":
            proxy.faults.wait_for_release()
        status, headers, answer = self.forward(proxy.store, body)
        note[3] = status
        if kind == "drop_answer":
            self.hang_up()
            return
        self.reply(status, headers, answer)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815  (names that http.server looks up)

    def forward(self, store: str, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """Asks the store; the Host stays the client's, since it is signed."""
        connection = http.client.HTTPConnection(store)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in HOP_BY_HOP:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()

    def reply(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        # The answer to HEAD has the length of a body that is not there.
        length = next((value for name, value in headers if name.lower() == "content-length"), None)
        for name, value in headers:
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: what was seen is asked for."""


def main(endpoint: str) -> None:
    server = Proxy(endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say(endpoint=f"http://127.0.0.1:{server.server_port}")
    for line in sys.stdin:
        try:
            say(value=server.faults.answer(json.loads(line)))
        except Exception as error:  # noqa: BLE001  (the test gets the error, and the proxy continues)
            say(error=repr(error))
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])

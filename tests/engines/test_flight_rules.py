"""What an Arrow Flight server would depend on: how a client's death looks to the server, and what errors carry.

headrace has no such server yet. These tests show why a client must mark the end of a stream explicitly, and why a
server must not send its errors unchanged.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest

SCHEMA = pa.schema([("x", pa.int64())])
SECONDS = 20.0
SECRET = "a-secret-in-the-server-s-code"

# Writes one batch, prints a line, and then does what its input says.
CLIENT = """
import sys
import pyarrow as pa
import pyarrow.flight as flight

schema = pa.schema([("x", pa.int64())])
client = flight.connect(sys.argv[1])
writer, _ = client.do_put(flight.FlightDescriptor.for_path("t"), schema)
writer.write_batch(pa.record_batch([[1, 2, 3]], schema=schema))
print("written", flush=True)
order = sys.stdin.readline().strip()
if order == "mark":
    writer.write_metadata(b"end")
writer.close()
client.close()
"""


class Server(flight.FlightServerBase):
    """Notes what a client's stream looked like, and fails in each way that a server can."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.rows = 0
        self.marks: list[bytes] = []
        self.ending: str | None = None
        self.has_rows = threading.Event()
        self.has_ended = threading.Event()

    @property
    def location(self) -> str:
        return f"grpc://127.0.0.1:{self.port}"

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        try:
            for chunk in reader:
                if chunk.app_metadata is not None:
                    self.marks.append(chunk.app_metadata.to_pybytes())
                if chunk.data is not None:
                    self.rows += chunk.data.num_rows
                self.has_rows.set()
            self.ending = "a clean end"
        except BaseException as error:
            self.ending = repr(error)
            raise
        finally:
            self.has_ended.set()

    def do_action(self, context: Any, action: Any) -> Any:
        raise ValueError(f"refused {SECRET}")

    def do_get(self, context: Any, ticket: Any) -> Any:
        def batches() -> Iterator[pa.RecordBatch]:
            yield pa.record_batch([[1]], schema=SCHEMA)
            raise RuntimeError("broke")  # a-secret-in-the-server-s-code

        return flight.GeneratorStream(SCHEMA, batches())


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@contextmanager
def client_of(server: Server) -> Iterator[subprocess.Popen[str]]:
    """Start a client in a separate process, which has sent three rows that arrived, and waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, server.location], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "written\n"
            assert server.has_rows.wait(SECONDS)
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("order", ["close", "mark"])
def test_a_client_that_closes_its_stream_ends_it_cleanly(server: Server, order: str) -> None:
    """P3: what a whole stream looks like; metadata that is sent last arrives last, and can be the mark of the end."""
    with client_of(server) as client:
        client.communicate(f"{order}\n", timeout=SECONDS)
        assert client.returncode == 0
    assert server.has_ended.wait(SECONDS)
    assert (server.ending, server.rows) == ("a clean end", 3)
    assert server.marks == ([b"end"] if order == "mark" else []), "metadata cannot be an end's mark any more"


def test_a_client_that_is_killed_looks_as_if_it_had_closed_its_stream(server: Server) -> None:
    """P12, F13: a truncated stream must not look complete, so its writer has to mark the end."""
    with client_of(server) as client:
        client.kill()
    assert server.has_ended.wait(SECONDS), "a killed client does not end its stream at all"
    assert (server.ending, server.rows) == ("a clean end", 3), (
        "good news: pyarrow.flight tells a killed client from one that is done; an explicit mark may be needless"
    )


def test_a_server_s_errors_reach_clients_with_the_traceback_and_the_source_in_it(server: Server) -> None:
    """C2, L34: an error would show paths and lines of code to a client; a server must send its own message."""
    with flight.connect(server.location) as client:
        with pytest.raises(pa.ArrowInvalid) as refused:
            list(client.do_action("any"))
        with pytest.raises(flight.FlightServerError) as broken:
            client.do_get(flight.Ticket(b"")).read_all()
    for error in (refused.value, broken.value):
        text = str(error)
        assert "Traceback (most recent call last)" in text, "good news: tracebacks stay in the server now"
        assert __file__ in text
        assert SECRET in text, "the lines of the server's source are not sent any more"

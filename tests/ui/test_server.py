"""The status page as it is served: a real server, asked over HTTP."""

from __future__ import annotations

import json
import logging
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

import headrace.ui
from headrace import ConfigurationError, MissingExtraError
from headrace.pipeline.progress import Totals
from headrace.ui import Page, RunStatus, serve
from support.deadlines import PROGRAM_SECONDS
from support.statuses import Clock, busy_board, progress, tell

STATIC = Path(headrace.ui.__file__).parent / "static"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


def get(page: Page, path: str = "/", *, host: str | None = None, method: str = "GET") -> Answer:
    request = urllib.request.Request(page.url.rstrip("/") + path, method=method)
    if host is not None:
        request.add_header("Host", host)
    try:
        with urllib.request.urlopen(request, timeout=10) as found:
            return Answer(found.status, {k.lower(): v for k, v in found.headers.items()}, found.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, {k.lower(): v for k, v in error.headers.items()}, error.read().decode())


PIPELINE, NOW = "orders", 1_800_000_000.0


@pytest.fixture
def board() -> RunStatus:
    return RunStatus(PIPELINE, "orders.lance", clock=Clock(NOW))


@pytest.fixture
def page(board: RunStatus) -> Iterator[Page]:
    with serve(board, 0) as served:
        yield served


def test_the_page_and_its_files_are_served_as_what_they_are(page: Page) -> None:
    """C8: with nosniff, a browser refuses a script of another type."""
    kinds = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    for file in STATIC.iterdir():
        found = get(page, "/" if file.name == "index.html" else f"/static/{file.name}")
        assert found.status == 200, file.name
        assert found.headers["content-type"].partition(";")[0] == kinds[file.suffix[1:]]
        assert found.text == file.read_text("utf-8")


def test_the_page_uses_nothing_from_elsewhere() -> None:
    """C8: no address in any of its files but the name of SVG, and no script or style inside the page."""
    for file in STATIC.iterdir():
        found = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", file.read_text("utf-8"))
        assert set(found) <= {"http://www.w3.org/2000/svg"}, file.name
    text = (STATIC / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", text) == []


def test_the_status_is_the_board(board: RunStatus, page: Page) -> None:
    """C8: read again for each request, and never cached."""
    assert json.loads(get(page, "/api/status").text)["state"] == "starting"
    board.begin()
    tell(board, Totals(), progress(4), versions=6, fragments=2)
    found = get(page, "/api/status")
    told = json.loads(found.text)
    assert found.headers["content-type"] == "application/json"
    assert found.headers["cache-control"] == "no-store"
    assert (told["state"], told["epochs"][0]["epoch"], told["epochs"][0]["fragments"]) == ("running", 4, 2)


@pytest.mark.parametrize("path", ["/", "/api/status", "/metrics", "/healthz", "/static/page.js", "/nowhere"])
def test_every_answer_carries_the_rules_for_browsers(page: Page, path: str) -> None:
    """C8: only our own files, no inline script, in no frame, no guessing."""
    headers = get(page, path).headers
    rules = dict(rule.strip().split(" ", 1) for rule in headers["content-security-policy"].split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["attacker.example", "127.0.0.1.attacker.example:80", "10.0.0.7", "[::2]", ""])
@pytest.mark.parametrize("path", ["/", "/api/status", "/metrics", "/healthz"])
def test_a_request_under_a_foreign_name_is_refused(board: RunStatus, page: Page, host: str, path: str) -> None:
    """C8: a name that resolves to 127.0.0.1 makes a page from elsewhere neighbour to this one, but keeps its name."""
    board.fail("secret of the run")
    found = get(page, path, host=host)
    assert found.status == 403
    assert "secret" not in found.text
    assert found.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1", "127.8.8.8:80", "[::1]:80"])
def test_a_request_under_a_name_of_this_machine_is_answered(page: Page, host: str) -> None:
    """C8: whatever port a tunnel gives it."""
    assert get(page, host=host).status == 200


def test_it_is_reached_on_this_machine_only(page: Page) -> None:
    """C8: unless another address is asked for."""
    assert page.url.startswith("http://127.0.0.1:")


def test_on_another_address_any_name_will_do(board: RunStatus) -> None:
    """C8: who asks for 0.0.0.0 has a name for the machine that we do not know."""
    with serve(board, 0, "0.0.0.0") as served:
        assert get(served, host="spark-driver.internal").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_changed_through_it(page: Page, method: str) -> None:
    """C8: it only answers."""
    assert get(page, "/api/status", method=method).status == 405


def test_a_port_that_is_taken_is_named(board: RunStatus) -> None:
    """C8: before anything is started."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port} of 127.0.0.1") as raised:
            serve(board, port)
    assert raised.value.hint is not None
    assert "another port" in raised.value.hint


@pytest.mark.parametrize("port", [-1, 65536])
def test_what_is_no_port_is_refused(board: RunStatus, port: int) -> None:
    """C8: with the range there is."""
    with pytest.raises(ConfigurationError, match=f"{port} is not a port"):
        serve(board, port)


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "prometheus_client"])
def test_a_package_that_is_missing_is_named_with_the_extra(
    board: RunStatus, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    """C8: what to install is in the message."""
    for name in [each for each in sys.modules if each.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("headrace.ui.app", "headrace.ui.metrics"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"{package}.*pip install 'headrace\[ui\]'"):
        serve(board, 0)


def test_closing_frees_the_port_and_may_be_done_twice(board: RunStatus) -> None:
    """C8: also with a browser's connection left open."""
    page = serve(board, 0)
    port = int(page.url.rstrip("/").rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as idle:
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert idle.recv(100).startswith(b"HTTP/1.1 200")
        page.close()
        page.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    assert "headrace-ui" not in {thread.name for thread in threading.enumerate()}


def test_a_browser_that_is_looking_sees_how_the_run_ended(board: RunStatus) -> None:
    """C8: the page is closed only when it has asked once more."""
    with serve(board, 0) as page:
        get(page, "/api/status")
        board.fail("the bucket is gone")
        closing = threading.Thread(target=page.close)
        closing.start()
        closing.join(0.5)
        assert closing.is_alive()
        assert json.loads(get(page, "/api/status").text)["message"] == "the bucket is gone"
        closing.join(10)
        assert not closing.is_alive()


def test_signals_stay_with_the_run_and_nothing_is_printed() -> None:
    """C8: in a separate process, with invalid requests too."""
    program = (
        "import signal, socket, urllib.request\n"
        "from headrace.ui import RunStatus, serve\n"
        "before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)\n"
        "with serve(RunStatus('orders', 'orders.lance'), 0) as page:\n"
        "    urllib.request.urlopen(page.url).read()\n"
        "    with socket.create_connection(('127.0.0.1', int(page.url[:-1].rpartition(':')[2]))) as nonsense:\n"
        "        nonsense.sendall(b'nonsense\\r\\n\\r\\n')\n"
        "        assert b'400' in nonsense.recv(100)\n"
        "    assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=PROGRAM_SECONDS
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_process_that_forgets_to_close_it_ends_all_the_same() -> None:
    """C8: the page never keeps a run alive."""
    program = "from headrace.ui import RunStatus, serve; page = serve(RunStatus('orders', 'orders.lance'), 0)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=PROGRAM_SECONDS
    )
    assert done.returncode == 0


def test_the_logs_of_others_are_left_alone(page: Page) -> None:
    """C8: no handler is installed."""
    assert get(page).status == 200
    assert logging.getLogger("uvicorn").handlers == logging.getLogger("uvicorn.error").handlers == []


def samples(page: Page) -> dict[tuple[str, str], float]:
    """Each sample's value by its name and the value of its second label; the first is the pipeline."""
    found = {}
    for family in text_string_to_metric_families(get(page, "/metrics").text):
        for sample in family.samples:
            assert sample.labels.pop("pipeline") == PIPELINE
            found[sample.name, "".join(sample.labels.values())] = sample.value
    return found


def test_metrics_before_the_first_epoch_make_nothing_up(page: Page) -> None:
    """C9: what is not known is left out rather than said to be 0."""
    assert samples(page) == {
        ("headrace_epochs_landed_total", ""): 0,
        ("headrace_epochs_skipped_total", ""): 0,
        ("headrace_rows_landed_total", ""): 0,
        ("headrace_null_rows_total", ""): 0,
        ("headrace_source_idle_seconds", ""): 0,
        ("headrace_stuck", ""): 0,
        ("headrace_up", ""): 1,
    }


def test_metrics_are_those_of_the_last_epoch_and_the_whole_run(board: RunStatus, page: Page) -> None:
    """C9: counters count the run, gauges the last that is known; nothing else of the process is there."""
    totals = Totals()
    tell(board, totals, progress(0, skipped=True), versions=3, fragments=5)
    tell(board, totals, progress(1, lag=12), versions=4, fragments=6)
    tell(board, totals, progress(2, seconds=2.0, lag=None), versions=None, fragments=None)
    found = samples(page)
    phases = {label: value for (name, label), value in found.items() if name == "headrace_epoch_phase_seconds"}
    assert phases == pytest.approx(
        {"reading ahead": 0.1, "planning": 0.2, "noting": 0.2, "writing": 1.0, "committing": 0.4}
    )
    rest = {key: value for key, value in found.items() if key[0] != "headrace_epoch_phase_seconds"}
    assert rest == {
        ("headrace_epochs_landed_total", ""): 2,
        ("headrace_epochs_skipped_total", ""): 1,
        ("headrace_rows_landed_total", ""): 1600,
        ("headrace_null_rows_total", ""): 0,
        ("headrace_epoch_seconds", ""): 2.0,
        ("headrace_lag", "files"): 12,
        ("headrace_lag", "bytes"): 14_814_804,
        ("headrace_table_version", ""): 4,
        ("headrace_table_fragments", ""): 6,
        ("headrace_last_success_timestamp_seconds", ""): NOW,
        ("headrace_source_idle_seconds", ""): 0,
        ("headrace_stuck", ""): 0,
        ("headrace_up", ""): 1,
    }
    assert get(page, "/metrics").headers["content-type"].startswith("text/plain; version=")


def test_metrics_have_the_kinds_that_prometheus_needs(page: Page, board: RunStatus) -> None:
    """C9: a rate over a gauge would be nonsense."""
    tell(board, Totals(), progress(0), versions=1, fragments=1)
    kinds = {family.name: family.type for family in text_string_to_metric_families(get(page, "/metrics").text)}
    assert {name for name, kind in kinds.items() if kind == "counter"} == {
        "headrace_epochs_landed",
        "headrace_epochs_skipped",
        "headrace_failures",
        "headrace_null_rows",
        "headrace_restarts",
        "headrace_rows_landed",
    }
    assert set(kinds.values()) == {"counter", "gauge"}


def test_health_follows_the_run(board: RunStatus, page: Page) -> None:
    """C9: well until it fails, and then why not."""
    assert get(page, "/healthz")[::2] == (200, "ok: starting\n")
    board.begin()
    board.stopping()
    assert get(page, "/healthz")[::2] == (200, "ok: stopping\n")
    board.fail("the bucket is gone")
    assert get(page, "/healthz")[::2] == (503, "failed: the bucket is gone\n")
    assert samples(page)["headrace_up", ""] == 0


def test_a_run_that_ended_well_is_well_and_no_longer_up(board: RunStatus, page: Page) -> None:
    """C9: an end is no failure."""
    board.end()
    assert get(page, "/healthz").status == 200
    assert samples(page)["headrace_up", ""] == 0


def test_many_readers_at_once_see_whole_boards() -> None:
    """C8: while the run continues to report."""
    board = busy_board(3)
    with serve(board, 0) as page:
        found: list[int] = []

        def read() -> None:
            for _ in range(10):
                told = json.loads(get(page, "/api/status").text)
                found.append(told["totals"]["epochs"] + told["totals"]["skipped"] - len(told["epochs"]))

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        totals = Totals(**board.snapshot()["totals"])
        for epoch in range(3, 60):
            tell(board, totals, progress(epoch), versions=None, fragments=None)
        for reader in readers:
            reader.join(30)
    assert found == [0] * 40

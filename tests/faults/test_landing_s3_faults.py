"""An object store that fails: an epoch is landed after all or fails in bounded time, and is never doubled."""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from landing_plan import QUERY, state_after
from landing_programs import rows_of_epoch
from landing_rig import Watcher, make_table, require_exact, rows_of

from headrace import CommitUnknownError, HeadraceError, StorageError
from headrace.tables.commit.landed import Landed
from headrace.tables.commit.ledger import QueryRun
from headrace.tables.commit.payload import AppendPayload, OverwritePayload
from headrace.tables.location import Location
from headrace.tables.settings import Rules, SinkSettings
from headrace.tables.sink import EpochSink
from headrace.tables.write.data_files import Task, write_rows
from support.s3_proxy import ALWAYS, S3Proxy
from support.s3_server import S3Server

pytestmark = pytest.mark.xdist_group("landing-s3")

MANIFEST, DATA, TRANSACTION, BOOKMARK, LISTING = "/_versions/", "/data/", "/_transactions/", "/_headrace/", "list-type"

# Lance asks again in two loops, one in the other; without the inner one it gives up within seconds.
IMPATIENT = {"client_max_retries": "0"}
LONGEST_SECONDS = 60.0


@pytest.fixture(scope="module")
def store() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(scope="module")
def proxy(store: S3Server) -> Iterator[S3Proxy]:
    with S3Proxy(store.endpoint) as proxy:
        yield proxy


class Table:
    """A table behind a proxy, and a driver without Spark that lands epochs in it."""

    def __init__(self, store: S3Server, proxy: S3Proxy, mode: str) -> None:
        self.proxy = proxy
        self.mode = mode
        self.direct = store.storage_options
        self.uri = make_table(f"s3://{store.make_bucket()}/t.lance", self.direct)
        self.restart()

    def restart(self, **options: str) -> None:
        """A new run of the query."""
        self.run = QueryRun(uuid.uuid4().hex, "checkpoint")
        self.location = Location(self.uri, {**self.proxy.storage_options, **options})
        self.sink = EpochSink(SinkSettings(self.location, Rules(QUERY)))

    def land(self, epoch: int) -> Landed:
        replaces = self.mode == "complete"
        rows = rows_of_epoch(self.mode, epoch)
        message = write_rows([rows], self.location, Task(0, self.run, epoch), replacing=replaces)
        try:
            return self.sink.land(
                epoch, self.run, OverwritePayload([message]) if replaces else AppendPayload([message])
            )
        except HeadraceError:
            self.sink.discard([message], epoch)  # as Spark has it done
            raise

    def rows(self) -> object:
        return rows_of(self.uri, self.direct)


@pytest.fixture
def table(store: S3Server, proxy: S3Proxy, mode: str) -> Iterator[Table]:
    yield Table(store, proxy, mode)
    proxy.clear()


Fault = Callable[[S3Proxy], None]

SURVIVED: dict[str, Fault] = {
    "data answered 500": lambda proxy: proxy.fail("PUT", DATA, status=500),
    "transaction answered 503": lambda proxy: proxy.fail("PUT", TRANSACTION, status=503),
    "manifest answered 500": lambda proxy: proxy.fail("PUT", MANIFEST, status=500),
    "manifest answered 503": lambda proxy: proxy.fail("PUT", MANIFEST, status=503),
    "manifest dropped before the store": lambda proxy: proxy.drop_request("PUT", MANIFEST),
    "manifest written, answer lost": lambda proxy: proxy.drop_answer("PUT", MANIFEST),
    "manifest written, two answers lost": lambda proxy: proxy.drop_answer("PUT", MANIFEST, times=2),
    "manifest written, and Lance cannot see it": lambda proxy: (
        proxy.drop_answer("PUT", MANIFEST),
        proxy.fail("HEAD", MANIFEST, status=403, times=ALWAYS),
    ),
    "manifest late": lambda proxy: proxy.delay("PUT", MANIFEST, seconds=1.5),
    "listing answered 500": lambda proxy: proxy.fail("GET", LISTING, status=500),
    "bookmark refused": lambda proxy: proxy.fail("PUT", BOOKMARK, status=403, times=ALWAYS),
}

FAILED: dict[str, Fault] = {
    "data refused": lambda proxy: proxy.fail("PUT", DATA, status=403, times=ALWAYS),
    "manifest refused": lambda proxy: proxy.fail("PUT", MANIFEST, status=403, times=ALWAYS),
    "listing refused": lambda proxy: proxy.fail("GET", LISTING, status=403, times=ALWAYS),
    "manifest answered 503 for ever": lambda proxy: proxy.fail("PUT", MANIFEST, status=503, times=ALWAYS),
    "manifest dropped for ever": lambda proxy: proxy.drop_request("PUT", MANIFEST, times=ALWAYS),
}


UNKNOWN = [("append", False), ("complete", True), ("complete", False)]


def cases(faults: dict[str, Fault], quick: set[str]) -> list[Any]:
    """Every fault in both modes; the quick ones are not slow when appending."""
    return [
        pytest.param(mode, fault, marks=() if mode == "append" and fault in quick else pytest.mark.slow)
        for mode in ("append", "complete")
        for fault in faults
    ]


@pytest.mark.parametrize(
    ("mode", "fault"),
    cases(
        SURVIVED,
        {"manifest answered 503", "manifest written, answer lost", "manifest written, and Lance cannot see it"},
    ),
)
def test_an_epoch_outlives_a_fault_of_the_store_and_lands_once(table: Table, fault: str) -> None:
    """F12, L28: it is asked again, or found in the table; its replay by the next run is skipped."""
    table.land(0)
    SURVIVED[fault](table.proxy)
    start = time.monotonic()
    outcome = table.land(1)
    assert time.monotonic() - start < LONGEST_SECONDS
    assert not outcome.was_skipped
    table.proxy.clear()
    table.restart()
    assert table.land(1).was_skipped
    table.land(2)
    require_exact(table.uri, table.mode, 3, table.direct)


@pytest.mark.parametrize(("mode", "fault"), cases(FAILED, {"manifest refused"}))
def test_an_epoch_that_the_store_refuses_fails_in_time_and_lands_after_a_restart(table: Table, fault: str) -> None:
    """F12: the query stops with an error that says why; nothing of the epoch shows, and it lands when all is well."""
    table.restart(**IMPATIENT)
    table.land(0)
    FAILED[fault](table.proxy)
    start = time.monotonic()
    with pytest.raises(StorageError, match=r"403|503|error sending request|connection"):
        table.land(1)
    assert time.monotonic() - start < LONGEST_SECONDS
    assert table.rows() == state_after(table.mode, 1)
    table.proxy.clear()
    table.restart()
    assert not table.land(1).was_skipped
    require_exact(table.uri, table.mode, 2, table.direct)


@pytest.mark.parametrize(
    ("mode", "has_landed"), [("append", True), *(pytest.param(*case, marks=pytest.mark.slow) for case in UNKNOWN)]
)
def test_an_epoch_of_which_nobody_can_tell_whether_it_landed_is_neither_lost_nor_doubled(
    table: Table, has_landed: bool
) -> None:
    """F12, L28: the connection breaks after or before the manifest is written, and then the store is closed."""
    table.restart(**IMPATIENT)
    table.land(0)
    table.proxy.hold("PUT", TRANSACTION)  # what comes last before the manifest
    with ThreadPoolExecutor(1) as pool:
        landing = pool.submit(table.land, 1)
        table.proxy.wait_held()
        (table.proxy.drop_answer if has_landed else table.proxy.drop_request)("PUT", MANIFEST)
        table.proxy.fail("PUT", MANIFEST, status=403, times=ALWAYS)
        for method in ("GET", "HEAD"):
            table.proxy.fail(method, LISTING if method == "GET" else MANIFEST, status=403, times=ALWAYS)
        start = time.monotonic()
        table.proxy.release()
        with pytest.raises(CommitUnknownError, match="not known whether it landed"):
            landing.result(LONGEST_SECONDS)
    assert time.monotonic() - start < LONGEST_SECONDS
    assert table.rows() == state_after(table.mode, 1 + has_landed)
    table.proxy.clear()
    table.restart()
    assert table.land(1).was_skipped == has_landed
    table.land(2)
    require_exact(table.uri, table.mode, 3, table.direct)


@pytest.mark.parametrize("mode", ["append"])
def test_a_lost_answer_to_the_fence_does_not_stop_the_run_that_set_it(table: Table) -> None:
    """F12, L28: the run finds its own fence in the table, and continues."""
    table.land(0)
    table.restart()
    table.proxy.drop_answer("PUT", MANIFEST)
    table.land(1)
    table.land(2)
    assert [each.status for each in table.proxy.seen("PUT", MANIFEST) if each.fault] == [200]
    require_exact(table.uri, "append", 3, table.direct)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "complete"])
def test_a_storm_of_faults_doubles_nothing_and_loses_nothing(table: Table) -> None:
    """F12, L28: faults of every kind at random; an epoch that fails is sent again by a new run."""
    seed = int(os.environ.get("HEADRACE_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    print(f"HEADRACE_SEED={seed}")
    weather, epochs, failures = random.Random(seed), 25, 0
    with Watcher(table.uri, table.mode, epochs, table.direct) as watcher:
        for epoch in range(epochs):
            for attempt in range(20):
                if attempt < 10:  # then the storm is over for this epoch
                    stir(table.proxy, weather)
                if epoch == epochs // 2 and not failures:  # one that surely fails
                    table.proxy.fail("PUT", MANIFEST, status=403, times=ALWAYS)
                try:
                    table.land(epoch)
                    break
                except (StorageError, CommitUnknownError):
                    failures += 1
                finally:
                    table.proxy.clear()
                table.restart(**IMPATIENT)
        watcher.wait_for(epochs)
    require_exact(table.uri, table.mode, epochs, table.direct)
    assert failures, "no fault made an epoch fail"


def stir(proxy: S3Proxy, weather: random.Random) -> None:
    for _ in range(weather.randrange(3)):
        method = weather.choice(["PUT", "PUT", "GET", "HEAD"])
        path = weather.choice([MANIFEST, MANIFEST, DATA, TRANSACTION, BOOKMARK, LISTING])
        times = weather.choice([1, 1, 2, ALWAYS])
        match weather.randrange(4):
            case 0:
                proxy.fail(method, path, status=403, times=times)
            case 1:
                proxy.drop_request(method, path, times=min(times, 4))
            case 2:
                proxy.drop_answer(method, path, times=min(times, 4))
            case 3:
                proxy.fail(method, path, status=500, times=min(times, 2))

"""What the proxy does to a request, and what Lance makes of it: the facts that the sink's retries rest on."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from lance.dataset import LanceOperation
from lance.fragment import write_fragments

from support.lance_tables import LanceTable, create_table
from support.s3_proxy import ALWAYS, S3Proxy
from support.s3_server import S3Server
from support.streams import rows, stamps

MANIFEST = "/_versions/"
DATA = "/data/"

# Lance asks again after a growing pause, a few seconds in all. These turn off one of the two loops that do so.
IMPATIENT = {"client_max_retries": "0"}


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


@pytest.fixture
def uri(s3_server: S3Server) -> str:
    """A table that holds 1, made without the proxy."""
    return create_table(f"s3://{s3_server.make_bucket()}/table.lance", ids(1), s3_server.storage_options).uri


class Writer:
    """Appends to a table by way of the proxy, and looks at the table without it."""

    def __init__(self, uri: str, server: S3Server, proxy: S3Proxy) -> None:
        self.uri = uri
        self.proxy = proxy
        self.direct = server.storage_options
        self._server = server

    def append(self, *values: int, **options: str) -> int:
        options = {**self.proxy.storage_options, **options}
        return LanceTable(self.uri, options).write(ids(*values))

    def rows(self) -> list[int]:
        return rows(self.uri, self.direct)

    def objects(self, part: str) -> list[str]:
        bucket = self.uri.split("/")[2]
        found = self._server.client().list_objects_v2(Bucket=bucket)["Contents"]
        return [each["Key"] for each in found if part in each["Key"]]


@pytest.fixture
def writer(uri: str, s3_server: S3Server, s3_proxy: S3Proxy) -> Writer:
    return Writer(uri, s3_server, s3_proxy)


def test_a_put_that_must_not_overwrite_has_one_winner(s3_server: S3Server) -> None:
    """Commits rest on this, and moto alone lets two through now and then."""
    bucket = s3_server.make_bucket()
    clients = [s3_server.client() for _ in range(4)]
    start = threading.Barrier(len(clients))

    def put(number: int) -> int:
        start.wait()
        try:
            clients[number].put_object(Bucket=bucket, Key="one", Body=b"%d" % number, IfNoneMatch="*")
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 412  # noqa: PT017  (any other must fail)
            return 0
        return 1

    with ThreadPoolExecutor(len(clients)) as pool:
        assert sum(pool.map(put, range(len(clients)))) == 1


def test_of_two_commits_that_exclude_each_other_one_is_refused(uri: str, s3_server: S3Server) -> None:
    options = s3_server.storage_options
    schema = lance.dataset(uri, storage_options=options).schema
    fragments = [write_fragments(ids(number), uri, storage_options=options) for number in (10, 20)]
    start = threading.Barrier(2)

    def overwrite(number: int) -> str:
        start.wait()
        operation = LanceOperation.Overwrite(schema, fragments[number])
        try:
            lance.LanceDataset.commit(uri, operation, read_version=1, storage_options=options, max_retries=0)
        except OSError as error:
            return type(error).__name__
        return "done"

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(overwrite, range(2))) == ["CommitConflictError", "done"]
    assert rows(uri, options) in ([10], [20])


def test_appends_at_once_all_land(uri: str, s3_server: S3Server) -> None:
    options = s3_server.storage_options
    start = threading.Barrier(4)

    def append(number: int) -> None:
        start.wait()
        LanceTable(uri, options).write(ids(number))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(10, 14)))
    assert rows(uri, options) == [1, 10, 11, 12, 13]


def test_without_a_fault_the_proxy_passes_everything_on_and_notes_it(writer: Writer) -> None:
    assert writer.append(2) == 2
    assert [(each.fault, each.status) for each in writer.proxy.seen("PUT", MANIFEST)] == [(None, 200)]
    assert rows(writer.uri, writer.proxy.storage_options) == writer.rows() == [1, 2]
    writer.proxy.clear()
    assert writer.proxy.seen() == []


def test_a_fault_happens_as_often_as_asked_and_to_nothing_else(writer: Writer) -> None:
    writer.proxy.fail("PUT", MANIFEST, status=503, times=2)
    writer.append(2)
    assert [(each.fault, each.status) for each in writer.proxy.seen("PUT", MANIFEST)] == [
        ("fail", None),
        ("fail", None),
        (None, 200),
    ]
    assert [each.fault for each in writer.proxy.seen("PUT", DATA)] == [None]


@pytest.mark.parametrize("status", [500, 503])
def test_lance_asks_again_after_an_error_of_the_store(writer: Writer, status: int) -> None:
    writer.proxy.fail("PUT", MANIFEST, status=status)
    assert writer.append(2) == 2
    assert writer.rows() == [1, 2]


def test_lance_asks_again_after_a_connection_dropped_before_the_store(writer: Writer) -> None:
    writer.proxy.drop_request("PUT", MANIFEST)
    assert writer.append(2) == 2
    assert [(each.fault, each.status) for each in writer.proxy.seen("PUT", MANIFEST)] == [
        ("drop_request", None),
        (None, 200),
    ]


def test_lance_does_not_ask_again_when_it_is_refused(writer: Writer) -> None:
    """The data stays behind, in no version."""
    writer.proxy.fail("PUT", MANIFEST, status=403, times=ALWAYS)
    with pytest.raises(OSError, match=r"lacked the necessary privileges.*403 Forbidden"):
        writer.append(2)
    assert len(writer.proxy.seen("PUT", MANIFEST)) == 1
    assert writer.rows() == [1]
    assert len(writer.objects("data/")) == 2


def test_lance_gives_up_when_the_error_stays(writer: Writer) -> None:
    """Two loops, one in the other: four rounds, and in each a request and its `client_max_retries`, 3 by default."""
    writer.proxy.fail("PUT", MANIFEST, status=503, times=ALWAYS)
    with pytest.raises(OSError, match="503 Service Unavailable"):
        writer.append(2, **IMPATIENT)
    assert len(writer.proxy.seen("PUT", MANIFEST)) == 4
    assert writer.rows() == [1]


def test_lance_recognises_its_own_commit_whose_answer_was_lost(writer: Writer) -> None:
    """It retries, gets the answer that the version exists, and finds its own commit there: one version, no error."""
    writer.proxy.drop_answer("PUT", MANIFEST)
    assert writer.append(2) == 2
    assert [each.status for each in writer.proxy.seen("PUT", MANIFEST)] == [200, 412]
    assert writer.rows() == [1, 2]
    assert [each.version for each in stamps(writer.uri, writer.direct)] == [1, 2]


def test_lance_says_that_it_does_not_know_when_it_cannot_look(writer: Writer) -> None:
    """The version is there, and its data is: an error of a commit does not mean that nothing was committed."""
    writer.proxy.drop_answer("PUT", MANIFEST)
    writer.proxy.fail("HEAD", MANIFEST, status=403, times=ALWAYS)
    with pytest.raises(OSError, match="Commit result for version 2 is unknown"):
        writer.append(2)
    assert writer.rows() == [1, 2]


def test_lance_commits_the_next_version_when_another_writer_was_first(writer: Writer) -> None:
    writer.proxy.hold("PUT", MANIFEST)
    with ThreadPoolExecutor(1) as pool:
        ours = pool.submit(writer.append, 2)
        writer.proxy.wait_held()
        other = LanceTable(writer.uri, writer.direct).write(ids(3))
        writer.proxy.release()
        assert (other, ours.result()) == (2, 3)
    assert writer.rows() == [1, 2, 3]


def test_opening_a_table_fails_alike_when_it_is_missing_and_when_the_store_refuses(writer: Writer) -> None:
    """One class for both: only the message tells a table that is not there from one that cannot be seen."""
    options = {**writer.proxy.storage_options, **IMPATIENT}
    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(f"{writer.uri}.missing", storage_options=options)
    writer.proxy.fail("GET", "list-type", status=403, times=ALWAYS)
    with pytest.raises(ValueError, match="403 Forbidden"):
        lance.dataset(writer.uri, storage_options=options)


def test_a_delayed_request_is_late_and_nothing_else(writer: Writer) -> None:
    writer.proxy.delay("PUT", MANIFEST, seconds=0.5)
    start = time.monotonic()
    assert writer.append(2) == 2
    assert time.monotonic() - start >= 0.5
    assert len(writer.proxy.seen("PUT", MANIFEST)) == 1


def test_a_proxy_whose_process_is_gone_raises_instead_of_hanging(s3_server: S3Server) -> None:
    proxy = S3Proxy(s3_server.endpoint)
    proxy.close()
    proxy.close()
    with pytest.raises((OSError, ValueError, RuntimeError)):
        proxy.seen()

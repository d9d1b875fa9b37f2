"""What Lance raises becomes one sentence of what the store answered, with what to do; no XML, no Rust, no secret."""

from __future__ import annotations

import pytest

from headrace import AccessDeniedError, HeadraceError, StorageError, StorageFullError
from headrace.tables.lance_errors import translated
from headrace.tables.lance_store import LanceStore
from headrace.tables.location import Location
from support.lance_tables import create_table
from support.s3_proxy import ALWAYS, S3Proxy
from support.s3_server import S3Server
from support.streams import ARROW_SCHEMA

LAKE = Location("s3://lake/t.lance", {"aws_secret_access_key": "hunter22"})


@pytest.mark.parametrize(
    ("raised", "kind", "said", "hint"),
    [
        (
            "LanceError(IO): No space left on device (os error 28), /home/x/rust/lance-file/src/writer.rs:254:9",
            StorageFullError,
            "the disk is full (No space left on device)",
            "free space",
        ),
        (
            "Error performing PUT http://h:1/lake/x in 1ms - Server returned non-2xx status code: 403 Forbidden: "
            "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>",
            AccessDeniedError,
            "the object store answered 403 ExpiredToken: The provided token has expired.",
            "check the credentials",
        ),
        (
            "Error performing GET http://h:1/lake - Server returned non-2xx status code: 503 Service Unavailable: ",
            StorageError,
            "the object store answered 503 Service Unavailable.",
            "the store is busy",
        ),
        (
            "Server returned non-2xx status code: 404 Not Found: <Error><Code>NoSuchBucket</Code></Error>",
            StorageError,
            "the object store answered 404 NoSuchBucket.",
            "check the bucket",
        ),
        (
            "Error performing GET https://s3.host:9000/lake?x, after 3 retries - HTTP error: error sending request, "
            "/home/x/object_store.rs:1576:42",
            StorageError,
            "the object store at s3.host:9000 cannot be reached (error sending request).",
            "check the network",
        ),
        (
            "LanceError(IO): Permission denied (os error 13)",
            AccessDeniedError,
            "Permission denied",
            "let this user read and write the folder",
        ),
        ("something with hunter22 in it, a.rs:1:2", StorageError, "something with *** in it.", None),
    ],
)
def test_an_answer_of_the_store_is_one_sentence(
    raised: str, kind: type[HeadraceError], said: str, hint: str | None
) -> None:
    """L34, S10: of a class that says what to do next."""
    with pytest.raises(StorageError) as caught, translated(LAKE, "opening the table"):
        raise OSError(raised)
    message = str(caught.value)
    assert type(caught.value) is kind
    assert message.startswith("Opening the table of s3://lake/t.lance failed: ")
    assert said in message
    assert not [mark for mark in ("<Error>", ".rs:", "hunter22", "..") if mark in message]
    assert (caught.value.hint or "").startswith(hint or "")


def test_a_store_that_refuses_the_credentials_is_named_as_such(s3_server: S3Server) -> None:
    """L34, S10: by Lance's real client."""
    uri = f"s3://{s3_server.make_bucket()}/t.lance"
    create_table(uri, ARROW_SCHEMA, s3_server.storage_options)
    with S3Proxy(s3_server.endpoint) as proxy:
        proxy.fail("GET", "/", status=403, times=ALWAYS)
        with pytest.raises(AccessDeniedError, match=r"answered 403 AccessDenied: injected\. Hint: check the cred"):
            LanceStore(Location(uri, proxy.storage_options)).open()
    with pytest.raises(StorageError, match=r"the object store at 127\.0\.0\.1:\d+ cannot be reached"):
        LanceStore(Location(uri, {**proxy.storage_options, "client_max_retries": "0"})).open()

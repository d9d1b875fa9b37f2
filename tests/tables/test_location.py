"""A table's address keeps its secrets, and travels."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path

import pyarrow as pa
import pytest

from headrace import ConfigurationError, HeadraceError, StorageError, TableNotFoundError
from headrace.tables.lance_store import LanceStore
from headrace.tables.location import Location
from headrace.tables.settings import Rules, SinkSettings
from headrace.tables.sink import EpochSink
from headrace.tables.store import Append
from headrace.tables.write.data_files import Task, write_rows
from support.lance_tables import create_table

CANARY = "canary-7f3a"
SECRETS = {
    "aws_secret_access_key": CANARY,
    "aws_session_token": f"{CANARY}-token",
    "some_new_option": f"{CANARY}-new",
    "aws_region": "us-east-1",
}
UNREACHABLE = Location(
    "s3://bucket/table.lance",
    SECRETS
    | {
        "aws_access_key_id": f"{CANARY}-id",
        "aws_endpoint": "http://127.0.0.1:9",
        "allow_http": "true",
        "client_max_retries": "0",
        "timeout": "1s",
    },
)


def test_nothing_that_is_printed_has_a_secret() -> None:
    """L34: whatever is not known to be open is taken for a secret."""
    location = Location("s3://bucket/t.lance", SECRETS, "rest", {"header.x-api-key": CANARY}, ("a", "b"))
    settings = SinkSettings(location, Rules("query"))
    for text in (str(location), repr(location), f"{location}", repr(settings), repr(EpochSink(settings).settings)):
        assert CANARY not in text
    assert str(location) == "s3://bucket/t.lance"
    assert str(Location("", SECRETS, "rest", {}, ("a", "b"))) == "rest namespace table a.b"


def test_a_location_pickles_with_its_secrets_and_equals_itself() -> None:
    """L34: tasks need them."""
    location = Location("s3://bucket/t.lance", SECRETS, "dir", {"root": "x"}, ("t",))
    again = pickle.loads(pickle.dumps(location))
    assert again == location
    assert hash(again) == hash(location)
    assert again.storage_options == SECRETS
    assert location != Location("s3://bucket/t.lance", {}, "dir", {"root": "x"}, ("t",))
    assert pickle.loads(pickle.dumps(SinkSettings(location, Rules("query")))).location == location


def test_secrets_are_taken_out_of_texts_and_open_values_are_left() -> None:
    """L34"""
    location = Location("s3://b/t", SECRETS | {"tiny": "abc"}, "rest", {"token": f"{CANARY}-ns"})
    text = location.redact(f"{CANARY} and {CANARY}-token and {CANARY}-ns in us-east-1, abc")
    assert CANARY not in text
    assert "us-east-1, abc" in text
    assert location.cause(OSError("harmless")) is not None
    assert location.cause(OSError(f"got {CANARY}")) is None


def _everything(location: Location) -> list[HeadraceError]:
    store = LanceStore(location)
    batch = pa.record_batch({"id": [1]})
    errors = []
    for call in (
        store.open,
        lambda: store.publish(Append(()), read_version=1, properties={}),
        lambda: store.missing_files(["a.lance"]),
        lambda: store.read_note("a.json"),
        lambda: store.write_note("a.json", "x"),
        lambda: write_rows([batch], location, Task(0)),
    ):
        with pytest.raises(HeadraceError) as caught:
            call()
        errors.append(caught.value)
    return errors


@pytest.mark.slow
def test_errors_of_a_store_that_cannot_be_reached_have_no_secret_in_them() -> None:
    """L34: neither in the message nor anywhere in the chain of causes."""
    for error in _everything(UNREACHABLE):
        assert isinstance(error, StorageError) or error.__class__.__name__ == "CommitUnknownError", error
        assert CANARY not in "".join(traceback.format_exception(error))
        assert CANARY not in repr(pickle.loads(pickle.dumps(error)))


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    """L5"""
    with pytest.raises(TableNotFoundError, match=r"nothing\.lance"):
        LanceStore(Location(str(tmp_path / "nothing.lance"))).open()
    assert list(tmp_path.iterdir()) == []


def test_a_namespace_that_cannot_be_used_is_a_setting_to_correct() -> None:
    """L35, L34"""
    location = Location("", {}, "no-such-kind", {"token": CANARY}, ("t",))
    with pytest.raises(ConfigurationError, match=r"no-such-kind.*namespace") as caught:
        LanceStore(location).open()
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_a_table_of_a_directory_namespace_is_landed_in(tmp_path: Path) -> None:
    """L35: the same store serves it."""

    from support.memory_world import SCHEMA

    create_table(tmp_path / "t.lance", SCHEMA)
    store = LanceStore(Location("", {}, "dir", {"root": str(tmp_path)}, ("t",)))
    snapshot = store.open()
    message = write_rows([pa.record_batch({"id": [1], "note": ["x"]})], store.location, Task(0))
    store.publish(Append(message.fragments), read_version=snapshot.version, properties={"a": "b"})
    assert store.open().dataset.count_rows() == 1
    store.write_note("a.json", "x")
    assert store.read_note("a.json") == "x"
    assert store.missing_files([*message.files, "b.lance"]) == ["b.lance"]

"""Options of reads become checked settings, or an error that names the option."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from headrace import ConfigurationError
from headrace.spark.options import any_reading, reading, stream_reading
from headrace.tables.settings import FeedRules, Limit

PATH = {"path": "t.lance"}


def test_a_stream_gets_every_option() -> None:
    """R1, R3, R4, R5: whatever the case of the names, which Spark makes small."""
    settings = stream_reading(
        PATH
        | {
            "STARTINGVERSION": " 7 ",
            "maxrowspertrigger": "10",
            "maxFilesPerTrigger": "2",
            "maxBytesPerTrigger": "99",
            "skipChangeCommits": "TRUE",
            "failondataloss": "false",
            "readChangeFeed": "true",
            "columns": " id , name,",
            "storage.region": "eu",
        }
    )
    assert settings.feed == FeedRules(7, True, False, True, Limit(2, 10, 99))
    assert settings.columns == ("id", "name")
    assert settings.location.storage_options == {"region": "eu"}


@pytest.mark.parametrize(
    ("given", "start"),
    [
        ({}, "earliest"),
        ({"startingVersion": "Latest"}, "latest"),
        ({"startingTimestamp": "2026-01-02"}, datetime(2026, 1, 2, tzinfo=UTC)),
        (
            {"startingTimestamp": "2026-01-02T03:04:05+02:00"},
            datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))),
        ),
    ],
)
def test_where_a_stream_begins(given: dict[str, str], start: object) -> None:
    """R1: at the earliest row by default; a time without a zone is in UTC."""
    assert stream_reading(PATH | given).feed.start == start


def test_a_batch_gets_every_option() -> None:
    """R7."""
    settings = reading(PATH | {"version": "3", "filter": "id > 1", "pushfilters": "true", "columns": "id"})
    assert (settings.version, settings.filter, settings.pushes_filters, settings.columns) == (
        3,
        "id > 1",
        True,
        ("id",),
    )
    assert reading(PATH | {"version": "nightly"}).version == "nightly"
    assert reading(PATH | {"timestamp": "2026-01-02"}).timestamp == datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingVersion": "tomorrow"}, "startingVersion is 'tomorrow'; it must be a version's number"),
        ({"startingVersion": "0"}, "startingVersion is '0'"),
        ({"startingVersion": "1", "startingTimestamp": "2026-01-01"}, "both say where to begin"),
        ({"startingTimestamp": "noon"}, "startingTimestamp is 'noon'"),
        ({"maxRowsPerTrigger": "0"}, "maxRowsPerTrigger is '0'"),
        ({"maxFilesPerTrigger": "many"}, "maxFilesPerTrigger is 'many'"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is 'maybe'; it must be true or false"),
        ({"filter": "id > 1"}, "'filter' is no option of this kind of read"),
        ({"version": "1"}, "version is for batch reads"),
        ({"maxRowPerTrigger": "5"}, "did you mean 'maxRowsPerTrigger'"),
        ({"streamingQueryId": "x"}, "no option of this kind of read"),
    ],
)
def test_a_wrong_option_of_a_stream_is_named(options: dict[str, Any], said: str) -> None:
    """R1, R3, R4, R5."""
    with pytest.raises(ConfigurationError, match=said):
        stream_reading(PATH | options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"version": "1", "timestamp": "2026-01-01"}, "both name a version"),
        ({"timestamp": "noon"}, "timestamp is 'noon'"),
        ({"startingVersion": "1"}, "'startingVersion' is no option of this kind of read"),
        ({"pushFilters": "yes"}, "pushFilters is 'yes'"),
        ({"pushFilter": "true"}, "did you mean 'pushFilters'"),
    ],
)
def test_a_wrong_option_of_a_batch_is_named(options: dict[str, Any], said: str) -> None:
    """R7."""
    with pytest.raises(ConfigurationError, match=said):
        reading(PATH | options)


def test_a_read_without_a_path_is_an_error() -> None:
    """R1, R7."""
    with pytest.raises(ConfigurationError, match="address is missing"):
        any_reading({})

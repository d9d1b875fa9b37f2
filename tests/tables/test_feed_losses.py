"""A feed whose versions, or whose table, are gone: an error, or a loss that is accepted and logged."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from histories import Reader, Table, ids_in, reading, some
from lance.fragment import FragmentMetadata

from headrace import DataLossError, ReadingError
from headrace.tables.read.changes import live_rows
from headrace.tables.read.offset import Offset
from headrace.tables.settings import Limit
from support.lance_tables import LanceTable


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_a_time_before_the_oldest_version_that_is_kept_is_a_loss(table: Table) -> None:
    """R1, R5: whatever was made between them is gone."""
    table.create(1)
    table.append(2)
    table.clean_up()
    start = datetime(2000, 1, 1, tzinfo=UTC)
    with pytest.raises(DataLossError, match="were removed, and startingTimestamp is"):
        reading(table, start=start)
    assert reading(table, start=start, fails_on_loss=False).to_end() == [2]


def test_a_version_that_was_cleaned_up_before_it_was_read_is_an_error(table: Table) -> None:
    """R5: it names the version and the oldest that is left; no step goes over it silently."""
    table.create(1)
    reader = reading(table)
    assert reader.step() == [1]
    table.append(2)
    table.append(3)
    table.append(4)
    table.clean_up(keep=2)
    for _ in range(2):
        with pytest.raises(DataLossError, match=r"Version 2 of .* the oldest kept version is 3.* failOnDataLoss=false"):
            reader.step()


def test_loss_that_is_accepted_is_counted_in_a_warning(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    """R5: the reader continues with the oldest version that is left."""
    table.create(1)
    reader = reading(table, fails_on_loss=False)
    assert reader.step() == [1]
    for number in range(2, 6):
        table.append(number)
    table.clean_up(keep=2)
    assert reader.position is not None
    feed, start = reader.feed(), reader.position
    feed.splits(start, feed.advance(start))
    assert [record.message for record in caplog.records] == [
        f"2 versions of {table.uri} were removed before this query read them, 2 to 3. It continues without the rows "
        "that they added."
    ]
    assert reader.to_end() == [4, 5]


def test_fragments_that_do_not_say_how_many_rows_they_have_are_an_error() -> None:
    """R1: as those of very old writers; they must not be taken for empty."""
    with pytest.raises(ReadingError, match="an old version of Lance"):
        live_rows(FragmentMetadata(0, [], physical_rows=None))  # type: ignore[arg-type]


def test_a_starting_version_that_is_gone_is_an_error_before_anything_is_read(table: Table) -> None:
    """R5: a run over what is available must not end as if nothing had been there."""
    table.create(1)
    table.append(2)
    table.append(3)
    table.clean_up()
    with pytest.raises(DataLossError, match="Version 1 of"):
        reading(table, start=1)
    assert reading(table, start=1, fails_on_loss=False).to_end() == [3]


def test_a_snapshot_that_goes_while_it_is_read_is_a_loss(table: Table) -> None:
    """R5."""
    table.create(1, 2, 3)
    reader = reading(table, limit=Limit(rows=2))
    assert reader.step() == [1, 2]
    table.append(4)
    table.clean_up()
    with pytest.raises(DataLossError, match="Version 1 of"):
        reader.step()


def test_an_epoch_that_is_asked_for_again_after_its_versions_are_gone_is_a_loss(table: Table) -> None:
    """R5: after a crash, with nothing left to read it from."""
    table.create(1)
    reader = reading(table)
    reader.step()
    table.append(2)
    reader.step()
    assert reader.last is not None
    table.append(3)
    table.clean_up()
    with pytest.raises(DataLossError, match="Version 2 of"):
        reader.between(*reader.last)


def test_a_version_that_goes_between_plan_and_read_is_no_loss_if_its_rows_are_still_there(table: Table) -> None:
    """R5: tasks find them in the newest version; where they were deleted since, it is an error."""
    table.create(1)
    table.append(2)
    reader = reading(table, start=1)
    assert reader.position is not None
    feed = reader.feed()
    slices = feed.splits(reader.position, feed.advance(reader.position))
    table.append(3)
    table.clean_up()
    assert ids_in(slices, table) == [1, 2]
    table.delete("id = 2")
    table.clean_up()
    with pytest.raises(DataLossError, match="removed by a cleanup while it was read"):
        ids_in(slices, table)


def test_what_was_read_may_be_cleaned_up(table: Table) -> None:
    """R5: a reader that keeps up loses nothing."""
    table.create(1)
    reader = reading(table)
    assert reader.step() == [1]
    for number in range(2, 6):
        table.append(number)
        assert reader.step() == [number]
        table.clean_up()


def test_a_recreated_table_is_recognised(table: Table, tmp_path: Path) -> None:
    """R1: its versions mean other rows, however many there are."""
    table.create(1)
    table.append(2)
    reader = reading(table)
    reader.step()
    for length in (1, 2, 3, 4):
        LanceTable(tmp_path / "again.lance").write(some(10), "overwrite" if length > 1 else "create")
        other = Table(tmp_path / "other" / str(length))
        other.create(10)
        for number in range(1, length):
            other.append(10 + number)
        moved = Reader(other, reader.rules, reader.limit, reader.position)
        with pytest.raises(ReadingError, match=r"not the table that this query read up to version 2"):
            moved.step()


def test_a_checkpoint_of_another_source_is_an_error() -> None:
    """R1."""
    with pytest.raises(ReadingError, match="not an offset of a Lance table"):
        Offset.from_json({"logOffset": 3})

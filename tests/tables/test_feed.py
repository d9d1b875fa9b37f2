"""A table's history as a feed: every row that is added comes once, and nothing else does."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance
import pytest
from histories import Table, reading

from headrace import ChangeCommitError, ConfigurationError
from headrace.tables.settings import Limit


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


# -- where to begin ---------------------------------------------------------------------------------------


def test_earliest_begins_with_the_rows_that_are_there(table: Table) -> None:
    """R1: without those that were deleted before, and then comes what is added."""
    table.create(1, 2, 3)
    table.append(4)
    table.delete("id = 2")
    reader = reading(table)
    assert reader.step() == [1, 3, 4]
    table.append(5)
    assert reader.step() == [5]


def test_latest_begins_with_what_is_added_next(table: Table) -> None:
    """R1."""
    table.create(1, 2)
    reader = reading(table, start="latest")
    assert reader.step() == []
    table.append(3)
    assert reader.step() == [3]


@pytest.mark.parametrize(("start", "expected"), [(1, [1, 2, 3, 4]), (2, [3, 4]), (3, [4]), (4, [])])
def test_a_version_begins_with_its_own_rows(table: Table, start: int, expected: list[int]) -> None:
    """R1: also one that is about to come."""
    table.create(1, 2)
    table.append(3)
    table.append(4)
    assert reading(table, start=start).to_end() == expected


def test_a_version_that_is_not_there_is_an_error(table: Table) -> None:
    """R1: the newest is named."""
    table.create(1)
    with pytest.raises(ConfigurationError, match=r"startingVersion is 3, and the newest version of .* is 1"):
        reading(table, start=3)


def test_a_time_begins_with_the_first_version_made_then_or_later(table: Table) -> None:
    """R1."""
    table.create(1)
    table.append(2)
    made = {each["version"]: each["timestamp"].astimezone(UTC) for each in table.dataset.versions()}
    assert reading(table, start=made[2]).to_end() == [2]
    assert reading(table, start=made[2] + timedelta(seconds=1)).to_end() == []
    assert reading(table, start=datetime(2000, 1, 1, tzinfo=UTC)).to_end() == [1, 2]


# -- what comes -------------------------------------------------------------------------------------------


def test_what_lies_between_two_positions_can_be_asked_for_again(table: Table) -> None:
    """R1: Spark does so after a crash, and the table may have changed by then."""
    table.create(1, 2)
    table.append(3, 4, files=2)
    reader = reading(table, start=1)
    assert reader.step() == [1, 2, 3, 4]
    table.append(5)
    table.compact()
    table.delete("id = 1")
    assert reader.last is not None
    assert reader.between(*reader.last) == [1, 2, 3, 4]


@pytest.mark.parametrize("start", ["earliest", "latest", 1, datetime(2000, 1, 1, tzinfo=UTC)])
def test_the_first_epoch_can_be_asked_for_again_after_the_table_has_grown(table: Table, start: object) -> None:
    """R1: Spark then asks where to begin once more, and the answer is another one."""
    table.create(1, 2, 3)
    table.append(4)
    reader = reading(table, start=start, limit=Limit(rows=2))
    if start == "latest":
        table.append(5, 6, 7)
    first = reader.step()
    assert len(first) == 2
    assert reader.last is not None
    table.append(8, 9)
    table.compact()
    again = reading(table, start=start)
    assert again.position is not None
    assert reader.between(again.position, reader.last[1]) == first
    before = [5, 6, 7] if start == "latest" else [1, 2, 3, 4]
    assert first + reader.to_end() == [*before, 8, 9]


def test_compaction_and_index_builds_add_no_rows(table: Table) -> None:
    """R2: nor do new columns, dropped ones, settings and deletes of nothing."""
    table.create(1, 2)
    table.append(3)
    reader = reading(table)
    reader.step()
    table.compact()
    table.index()
    table.dataset.add_columns({"more": "id + 1"})
    table.dataset.drop_columns(["more"])
    table.dataset.update_config({"key": "value"})
    table.delete("id = 99")
    assert reader.to_end() == []
    assert reader.position is not None
    assert reader.position.version == table.newest() + 1


def test_rows_come_that_were_compacted_and_deleted_since(table: Table) -> None:
    """R1, R2: as they were when they were added."""
    table.create(1, 2)
    table.append(3)
    table.append(4)
    table.compact()
    table.append(5)
    assert reading(table, start=2).to_end() == [3, 4, 5]
    table.delete("id = 5")
    assert reading(table, start=2, skips_changes=True).to_end() == [3, 4, 5]


def test_an_insert_by_merge_is_an_append(table: Table) -> None:
    """R3: no row that was there is changed."""
    table.create(1)
    reader = reading(table)
    reader.step()
    table.insert(1, 2)
    assert reader.step() == [2]


def test_the_overwrite_of_an_empty_table_is_an_append(table: Table) -> None:
    """R3: it changes no row."""
    table.create()
    reader = reading(table)
    reader.step()
    table.overwrite(1)
    assert reader.step() == [1]


CHANGES = {
    "overwrite": lambda table: table.overwrite(9),
    "delete": lambda table: table.delete("id = 1"),
    "update": lambda table: table.update("id = 1", "old"),
    "merge": lambda table: table.upsert(1, 9, state="old"),
    "restore": lambda table: table.restore(1),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_stops_the_reader_behind_what_came_before_it(table: Table, kind: str) -> None:
    """R3: the error names the version and the option, and stays until something is done."""
    table.create(1)
    reader = reading(table)
    table.append(2)
    changed = CHANGES[kind](table)
    table.append(3)
    assert reader.step() == [1, 2]
    for _ in range(2):
        with pytest.raises(ChangeCommitError, match=rf"Version {changed} of .* skipChangeCommits=true"):
            reader.step()


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_is_passed_over_whole(table: Table, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """R3: with skipChangeCommits its own inserts do not come either, and a warning says so."""
    table.create(1)
    reader = reading(table, skips_changes=True)
    table.append(2)
    changed = CHANGES[kind](table)
    table.append(3)
    assert reader.to_end() == [1, 2, 3]
    assert [record.message for record in caplog.records] == [
        f"Skipping version {changed} of {table.uri}, which changes rows."
    ]


def test_a_column_that_is_rewritten_is_a_change(table: Table) -> None:
    """R3."""
    table.create(1)
    table.dataset.add_columns({"more": "id + 1"})
    reader = reading(table)
    reader.step()
    lance.dataset(table.uri).update({"more": "id + 2"})
    with pytest.raises(ChangeCommitError, match="update"):
        reader.step()


# -- how much -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [Limit(rows=1), Limit(rows=2), Limit(rows=3), Limit(rows=100)])
@pytest.mark.parametrize("start", ["earliest", 1])
def test_rows_are_limited_exactly(table: Table, limit: Limit, start: str | int) -> None:
    """R4: also inside of a version, and of a fragment."""
    table.create(*range(5))
    table.append(*range(5, 12), files=3)
    sizes: list[int] = []
    reader = reading(table, start=start, limit=limit)
    assert reader.to_end(each=lambda step: sizes.append(len(step))) == list(range(12))
    assert limit.rows is not None
    assert max(sizes) == min(limit.rows, 12)
    assert all(size == limit.rows for size in sizes[:-1])


def test_rows_that_are_there_are_limited_without_those_that_were_deleted(table: Table) -> None:
    """R1, R4: a fragment with holes in it is split by the rows that are left."""
    table.create(*range(10))
    table.delete("id % 3 = 1")
    steps: list[list[int]] = []
    reading(table, limit=Limit(rows=2)).to_end(each=steps.append)
    assert steps == [[0, 2], [3, 5], [6, 8], [9]]


def test_files_are_limited(table: Table) -> None:
    """R4."""
    table.create(1, 2)
    table.append(3, 4, 5, files=3)
    steps: list[list[int]] = []
    reading(table, start=1, limit=Limit(files=2)).to_end(each=steps.append)
    assert steps == [[1, 2, 3], [4, 5]]


def test_bytes_are_limited_by_whole_fragments_and_one_comes_in_any_case(table: Table) -> None:
    """R4."""
    table.create(1, 2)
    table.append(3, 4, 5, files=3)
    steps: list[list[int]] = []
    reading(table, start=1, limit=Limit(bytes=1)).to_end(each=steps.append)
    assert steps == [[1, 2], [3], [4], [5]]


def test_a_run_that_has_an_end_does_not_go_beyond_it(table: Table) -> None:
    """R4: AvailableNow ends at the version that was the newest when it began."""
    table.create(1)
    reader = reading(table, limit=Limit(rows=1))
    last = table.append(2, 3)
    table.append(4)
    assert reader.to_end(newest=last) == [1, 2, 3]
    assert reader.to_end() == [4]


# -- changed rows -----------------------------------------------------------------------------------------------


def test_the_change_feed_has_inserted_and_updated_rows_with_their_versions(tmp_path: Path) -> None:
    """R3: on a table with stable row ids."""
    table = Table(tmp_path, stable_row_ids=True)
    table.create(1, 2)
    reader = reading(table, with_updates=True)
    assert reader.changes() == [(1, "new", "insert", 1), (2, "new", "insert", 1)]
    table.append(3)
    table.update("id = 1", "old")
    table.upsert(2, 4, state="older")
    table.compact()
    assert sorted(reader.changes(), key=lambda row: (row[3], row[0])) == [
        (3, "new", "insert", 2),
        (1, "old", "update_postimage", 3),
        (2, "older", "update_postimage", 4),
        (4, "older", "insert", 4),
    ]
    table.delete("id = 1")
    with pytest.raises(ChangeCommitError, match="delete"):
        reader.changes()


# -- all of it, at random -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_any_history_is_read_once_whatever_the_steps(table: Table, seed: int) -> None:
    """R1, R2, R4: appends of all sizes, compaction between them, limits that change, and epochs asked for again."""
    chance = random.Random(seed)
    numbers = iter(range(1_000_000))

    def take(count: int) -> list[int]:
        return [next(numbers) for _ in range(count)]

    expected = take(chance.randrange(5))
    table.create(*expected)
    reader = reading(table, start=chance.choice(["earliest", 1]))
    found: list[int] = []
    for _ in range(40):
        match chance.randrange(6):
            case 0 | 1:
                rows = take(chance.randrange(1, 9))
                table.append(*rows, files=chance.randrange(1, 4))
                expected += rows
            case 2:
                table.compact()
            case 3:
                table.index()
            case _:
                reader.limit = chance.choice([Limit(), Limit(rows=chance.randrange(1, 5)), Limit(files=1)])
                step = reader.step()
                assert reader.last is not None
                assert reader.between(*reader.last) == step
                found += step
    found += reader.to_end()
    assert found == expected

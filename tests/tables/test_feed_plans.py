"""How a feed is planned: versions are read ahead, and tasks open few versions and scan many fragments at once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from histories import SCHEMA, Table, ids_in, reading

from headrace import DataLossError
from headrace.tables.lance_store import LanceStore
from headrace.tables.read.feed import Feed
from headrace.tables.read.offset import Offset
from headrace.tables.read.scan import open_for, read, whole_table
from headrace.tables.read.splits import Split, plan_tasks
from headrace.tables.read.versions import Versions
from headrace.tables.settings import FeedRules, Limit, ReadSettings


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def feed_of(table: Table, **rules: object) -> Feed:
    return Feed(LanceStore(table.location), FeedRules(start=1, **rules))  # type: ignore[arg-type]


def scans_of(splits: list[Split], table: Table, *, by_commit: bool = False) -> list[list[int]]:
    """The fragments of each scan that reads the splits."""
    scans = Versions(LanceStore(table.location)).scans(splits, by_commit=by_commit)
    return [[part.fragment for part in parts] for _, parts in scans]


# -- read ahead -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [Limit(), Limit(rows=7), Limit(files=11)])
def test_many_versions_are_read_once_each_whatever_was_read_ahead(table: Table, limit: Limit) -> None:
    """R1, R4: in one feed, whose steps end within what was read ahead."""
    table.create(0)
    for number in range(1, 60):
        table.append(number)
    feed = feed_of(table)
    position, found = feed.begin(), []
    while (end := feed.advance(position, limit)) != position:
        found += ids_in(feed.splits(position, end), table)
        position = end
    assert found == list(range(60))


def test_what_was_read_ahead_and_not_used_is_forgotten(table: Table) -> None:
    """R5: a version that a cleanup removes between two triggers is an error, not the memory of a reader."""
    table.create(0)
    for number in range(1, 20):
        table.append(number)
    feed = feed_of(table)
    first = feed.advance(feed.begin(), Limit(rows=2))
    assert first.version == 3
    table.compact()
    table.clean_up()
    second = feed.advance(first)
    assert second.version == 4  # Version 3 was looked at, and found not to fit into the limit.
    with pytest.raises(DataLossError, match="Version 4 of"):
        feed.advance(second)


def test_a_change_among_the_versions_read_ahead_stops_the_reader_there(table: Table) -> None:
    """R3: what comes before it is delivered, and what comes after it is not."""
    table.create(0)
    for number in range(1, 12):
        table.append(number)
    changed = table.delete("id = 0")
    for number in range(12, 30):
        table.append(number)
    reader = reading(table, start=1)
    assert reader.step() == list(range(12))
    assert reader.position is not None
    assert reader.position.version == changed


@pytest.mark.parametrize("fails_on_loss", [True, False])
def test_a_version_that_goes_between_its_transaction_and_its_plan_is_a_loss(
    table: Table, caplog: pytest.LogCaptureFixture, *, fails_on_loss: bool
) -> None:
    """R5: its fragments were compacted, so they are in no version that is left."""
    table.create(0)
    table.append(1)
    feed = feed_of(table, fails_on_loss=fails_on_loss)
    begin = feed.begin()
    end = feed.advance(begin)
    table.compact()
    table.clean_up()
    if fails_on_loss:
        with pytest.raises(DataLossError, match="Version 1 of"):
            feed.splits(begin, end)
    else:
        assert feed.splits(begin, end) == []
        assert "were removed before this query read them, 1 to 2" in caplog.text


# -- which version a task opens ---------------------------------------------------------------------------------


def test_fragments_that_were_compacted_since_are_read_in_the_last_version_that_has_them(table: Table) -> None:
    """R1: a task then opens one version for each compaction, not one for each version."""
    table.create(0)
    before = 0
    for number in range(1, 12):
        before = table.append(number)
        if number == 6:
            first = before
            table.compact()
    table.compact()
    table.append(12)
    feed = feed_of(table)
    begin = feed.begin()
    splits = feed.splits(begin, feed.advance(begin))
    assert ids_in(splits, table) == list(range(13))
    assert {split.version for split in splits} == {first, before, table.newest()}
    assert [len(scan) for scan in scans_of(splits, table)] == [7, 5, 1]


def test_rows_are_read_where_they_were_added_if_the_versions_after_that_are_gone(table: Table) -> None:
    """R5: when the rows are planned, and when they are read."""
    table.create(0)
    kept = table.append(1)
    table.append(2)
    feed = feed_of(table)
    begin = feed.begin()
    end = Offset(kept + 1)
    table.compact()
    planned = feed.splits(Offset(kept), end)
    assert [split.version for split in planned] == [kept]
    later = feed.splits(Offset(kept), feed.advance(begin))
    table.dataset.tags.create("kept", kept)
    table.dataset.cleanup_old_versions(retain_versions=1, error_if_tagged_old_versions=False)
    assert ids_in(planned, table) == [1]
    assert later[0].version > kept
    assert ids_in(later[:1], table) == [1]
    assert ids_in(feed_of(table).splits(Offset(kept), end), table) == [1]


# -- scans --------------------------------------------------------------------------------------------------------


def test_small_whole_fragments_share_a_scan_and_parts_do_not(table: Table) -> None:
    """R7: a fragment with deleted rows is whole too; every row comes once, in order."""
    table.create(*range(10))
    table.append(*range(10, 40), files=6)
    table.delete("id % 7 = 3")
    snapshot = open_for(ReadSettings(table.location))
    splits = whole_table(snapshot, is_filtered=False)
    assert [len(scan) for scan in scans_of(splits, table)] == [7]
    expected = [number for number in range(40) if number % 7 != 3]
    assert ids_in(splits, table) == expected
    feed = Feed(LanceStore(table.location), FeedRules())
    begin = feed.begin()
    end = feed.advance(begin, Limit(rows=20))
    parts = feed.splits(begin, end)
    assert [len(scan) for scan in scans_of(parts, table)] == [3, 1]
    assert ids_in(parts, table) == expected[:20]


def test_a_filter_applies_to_fragments_that_share_a_scan(table: Table) -> None:
    """R7."""
    table.create(*range(30))
    table.append(*range(30, 60), files=5)
    splits = whole_table(open_for(ReadSettings(table.location)), is_filtered=True)
    assert [len(scan) for scan in scans_of(splits, table)] == [6]
    found = [
        value
        for batch in read(splits, table.location, SCHEMA, condition="id % 10 = 1")
        for value in batch["id"].to_pylist()
    ]
    assert found == [1, 11, 21, 31, 41, 51]


def test_each_version_of_the_change_feed_has_a_scan(tmp_path: Path) -> None:
    """R3: because its rows are labelled with it."""
    table = Table(tmp_path, stable_row_ids=True)
    table.create(1)
    table.append(2, 3, files=2)
    table.append(4)
    feed = feed_of(table, with_updates=True)
    begin = feed.begin()
    splits = feed.splits(begin, feed.advance(begin))
    assert scans_of(splits, table, by_commit=True) == [[0], [1, 2], [3]]
    assert scans_of(splits, table) == [[0, 1, 2, 3]]


def test_large_fragments_have_a_scan_each(table: Table) -> None:
    """R7: so that no more is read ahead of them than their batches."""
    table.create(1)
    table.append(2)
    newest = table.newest()
    large = [Split(newest, number, 0, 1, 100_000_000, newest, is_whole=True) for number in (0, 1)]
    assert scans_of(large, table) == [[0], [1]]
    assert scans_of([large[0], large[0]], table) == [[0], [0]]


# -- all of it, at random -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_any_history_of_a_changing_table_is_read_once_as_it_was_added(table: Table, seed: int) -> None:
    """R1, R2, R3: with deletes and compactions between appends, and triggers of all sizes long after them."""
    chance = random.Random(seed)
    expected = list(range(5))
    table.create(*expected)
    for _ in range(40):
        match chance.randrange(8):
            case 0:
                table.compact()
            case 1:
                table.delete(f"id % 7 = {chance.randrange(7)}")
            case _:
                rows = range(len(expected), len(expected) + chance.randrange(1, 9))
                table.append(*rows, files=chance.randrange(1, 4))
                expected += rows
    feed = feed_of(table, skips_changes=True)
    position, found = feed.begin(), []
    while True:
        end = feed.advance(position, chance.choice([Limit(), Limit(rows=chance.randrange(1, 40)), Limit(files=3)]))
        if end == position:
            break
        found += ids_in([part for task in plan_tasks(feed.splits(position, end)) for part in task], table)
        position = end
    assert found == expected

"""What a store promises, shown on the one in memory and on Lance alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from worlds import LanceWorld, World, history

from headrace import CommitConflictError, LandingError, StorageError, TableNotFoundError
from headrace.tables.lance_store import LanceStore
from headrace.tables.store import Append, Fence, Kind, Operation, Published, Replace
from support.memory_store import MemoryStore
from support.memory_world import SCHEMA, MemoryWorld

EVERYWHERE = pytest.mark.parametrize("world", ["memory", "lance", "s3"], indirect=True)


def change_of(world: World, name: str) -> Operation:
    """A change worked out against the newest version; rows 1 and 50."""
    if name == "append":
        return Append(world.write([1, 50]).fragments)
    if name == "replace":
        return Replace(world.store().open().schema, world.write([1, 50], replacing=True).fragments)
    if name == "merge":
        store = world.store()
        return world.upserts([1, 50]).operation(store.open(), store)
    return Fence()


def publish(world: World, change: Operation, read_version: int | None = None, **properties: str) -> Published:
    store = world.store()
    version = store.open().version if read_version is None else read_version
    return store.publish(change, read_version=version, properties=properties)


def seeded(world: World) -> int:
    for ids in ([1, 2], [3, 4], [5, 6]):
        world.append(ids)
    return world.store().open().version


def clean_up(world: World) -> None:
    world.append([7])
    world.clean()


# What others do, and whether our change still lands: "lands", "again" for a retryable conflict, "never" for the other.
FOREIGN: dict[str, tuple[Callable[[World], object], dict[str, str]]] = {
    "nothing": (lambda world: None, {"append": "lands", "replace": "lands", "merge": "lands", "fence": "lands"}),
    "append": (
        lambda world: world.append([7]),
        {"append": "lands", "replace": "again", "merge": "lands", "fence": "again"},
    ),
    "overwrite": (
        lambda world: world.overwrite([7]),
        {"append": "never", "replace": "again", "merge": "never", "fence": "never"},
    ),
    "restore": (
        lambda world: world.restore(2),
        {"append": "never", "replace": "again", "merge": "never", "fence": "never"},
    ),
    "fence": (
        lambda world: publish(world, Fence()),
        {"append": "again", "replace": "again", "merge": "again", "fence": "again"},
    ),
    "update of another row": (
        lambda world: world.update(4),
        {"append": "lands", "replace": "again", "merge": "lands", "fence": "again"},
    ),
    "update of the same row": (
        lambda world: world.update(1),
        {"append": "lands", "replace": "again", "merge": "again", "fence": "again"},
    ),
    "delete of another row": (
        lambda world: world.delete(4),
        {"append": "lands", "replace": "again", "merge": "lands", "fence": "lands"},
    ),
    "compaction": (
        lambda world: world.compact(),
        {"append": "lands", "replace": "again", "merge": "again", "fence": "lands"},
    ),
    "a setting": (
        lambda world: world.configure(),
        {"append": "lands", "replace": "again", "merge": "lands", "fence": "lands"},
    ),
    "a new column": (
        lambda world: world.add_column("more"),
        {"append": "lands", "replace": "again", "merge": "again", "fence": "again"},
    ),
    "a dropped column": (
        lambda world: world.drop_column("note"),
        {"append": "lands", "replace": "again", "merge": "lands", "fence": "again"},
    ),
    "a renamed column": (
        lambda world: world.rename_column("note", "remark"),
        {"append": "lands", "replace": "again", "merge": "lands", "fence": "again"},
    ),
    "cleanup of the version": (
        clean_up,
        {"append": "again", "replace": "again", "merge": "again", "fence": "again"},
    ),
}


@pytest.mark.parametrize("ours", ["append", "replace", "merge", "fence"])
@pytest.mark.parametrize("theirs", FOREIGN)
def test_what_others_did_since_decides_whether_a_change_lands(world: World, ours: str, theirs: str) -> None:
    """L24, L25, L26, L27: appends join, a fence and a replacement are never joined, and rows are never doubled."""
    version = seeded(world)
    change = change_of(world, ours)
    act, expected = FOREIGN[theirs]
    act(world)
    rows, before = world.rows(), world.store().open().version

    if expected[ours] != "lands":
        with pytest.raises(CommitConflictError) as conflict:
            publish(world, change, version, mine="yes")
        assert conflict.value.retryable == (expected[ours] == "again")
        assert world.rows() == rows
        assert world.store().open().version == before
    else:
        published = publish(world, change, version, mine="yes")
        entry = world.store().open().entry(published.version)
        assert entry is not None
        assert (entry.version, entry.uuid) == (before + 1, published.uuid)
        assert entry.properties == {"mine": "yes"}
        assert world.store().open().version == before + 1
        added = {"append": [1, 50], "merge": [50] if 1 in rows else [1, 50], "fence": []}
        assert world.rows() == ([1, 50] if ours == "replace" else sorted(rows + added[ours]))


@EVERYWHERE
def test_a_fence_stops_appends_and_merges_in_flight_and_changes_nothing(world: World) -> None:
    """L26: after a take-over, nothing an earlier run had in flight can land."""
    version = seeded(world)
    append, merge = change_of(world, "append"), change_of(world, "merge")
    rows = world.rows()
    publish(world, Fence())

    for change in (append, merge):
        with pytest.raises(CommitConflictError) as conflict:
            publish(world, change, version)
        assert conflict.value.retryable
    assert world.rows() == rows
    publish(world, append)
    assert world.rows() == sorted([*rows, 1, 50])


@EVERYWHERE
def test_a_replacement_is_a_compare_and_swap(world: World) -> None:
    """L27: of two replacements of one version, one lands."""
    version = seeded(world)
    first, second = change_of(world, "replace"), change_of(world, "replace")
    assert publish(world, first, version).version == version + 1
    with pytest.raises(CommitConflictError):
        publish(world, second, version)
    assert world.store().open().version == version + 1


@EVERYWHERE
def test_the_history_tells_kinds_and_properties(world: World) -> None:
    """L7: what was stamped can be read, as strings, and a change without a stamp has none."""
    seeded(world)
    publish(world, change_of(world, "append"), one="1", two="zwei/é")
    publish(world, change_of(world, "merge"))
    publish(world, Fence(), fence="yes")
    publish(world, change_of(world, "replace"), last="one")
    world.restore(1)

    entries = history(world)
    assert [entry.kind for entry in entries] == [
        Kind.REPLACE,
        *[Kind.APPEND] * 4,
        Kind.OTHER,
        Kind.PROJECT,
        Kind.REPLACE,
        Kind.RESTORE,
    ]
    assert [dict(entry.properties) for entry in entries[4:]] == [
        {"one": "1", "two": "zwei/é"},
        {},
        {"fence": "yes"},
        {"last": "one"},
        {},
    ]
    assert [entry.restored for entry in entries] == [*[None] * 8, 1]
    assert len({entry.uuid for entry in entries}) == len(entries)


@EVERYWHERE
def test_versions_that_cleanup_removed_are_none_and_not_listed(world: World) -> None:
    """L20, L21: a hole differs from a version that is there, and tagged versions stay."""
    seeded(world)
    world.tag(2)
    world.clean()
    snapshot = world.store().open()
    assert snapshot.kept_versions(0) == [4, 2]
    assert snapshot.kept_versions(2) == [4]
    assert [version for version in (1, 2, 3, 4) if snapshot.entry(version) is not None] == [2, 4]


def test_a_snapshot_does_not_list_what_came_after_it(world: World) -> None:
    seeded(world)
    snapshot = world.store().open()
    world.append([9])
    assert snapshot.kept_versions(0) == [4, 3, 2, 1]
    assert snapshot.version == 4
    assert world.store().open().version == 5


def test_conflicts_with_versions_that_were_removed_are_not_seen(world: World) -> None:
    """L23: why the protocol may not rest on a fence alone: it is as durable as its version."""
    version = seeded(world)
    append, replacement = change_of(world, "append"), change_of(world, "replace")
    world.tag(version)
    publish(world, Fence())
    world.append([8])
    world.append([9])
    world.clean()

    assert publish(world, append, version).version == version + 4
    assert publish(world, replacement, version).version == version + 1, "in the hole, where nobody sees it"
    assert world.rows() == sorted([1, 2, 3, 4, 5, 6, 8, 9, 1, 50])


def test_a_version_the_table_never_had_is_not_a_conflict(world: World) -> None:
    seeded(world)
    with pytest.raises(StorageError):
        publish(world, Append(world.write([1]).fragments), 17)
    assert world.store().open().version == 4


@EVERYWHERE
def test_files_are_missed_and_deleted_one_by_one(world: World) -> None:
    """F8, L30: what is missing is named; deleting twice, or what was never there, does not matter."""
    store = world.store()
    store.open()
    files = [world.write([number]).files[0] for number in range(3)]
    store.delete_files([files[1]])
    store.delete_files([files[1], "never-was.lance"])
    assert store.missing_files(files) == [files[1]]
    assert store.missing_files([]) == []
    store.delete_files([])


@EVERYWHERE
def test_notes_are_kept_beside_the_table_where_cleanup_does_not_reach(world: World) -> None:
    """L23: no cleanup, compaction or overwrite takes a bookmark away."""
    store = world.store()
    store.open()
    assert store.read_note("a.json") is None
    store.write_note("a.json", "first, and longer")
    store.write_note("a.json", "zwei/é")
    store.write_note("b.json", "")
    seeded(world)
    world.compact()
    world.overwrite([1])
    world.clean(unverified=True)
    assert (world.store().read_note("a.json"), world.store().read_note("b.json")) == ("zwei/é", "")
    assert world.store().list_notes() == ["a.json", "b.json"]
    store.delete_note("a.json")
    store.delete_note("a.json")
    assert store.list_notes() == ["b.json"]
    assert store.read_note("a.json") is None


def test_columns_are_identified_by_field_id(world: World) -> None:
    """F11: a column that was retyped or added again is another column."""
    before = dict(world.store().open().columns())
    assert [(column.name, column.type, column.is_nullable) for column in before.values()] == [
        ("id", "int64", True),
        ("note", "string", True),
    ]
    world.append([1])
    world.rename_column("note", "remark")
    assert [column.name for column in world.store().open().columns().values()] == ["id", "remark"]
    assert list(world.store().open().columns()) == list(before)
    world.drop_column("remark")
    world.add_column("note")
    snapshot = world.store().open()
    assert [number for number in snapshot.columns() if number not in before] == [2]
    assert list(snapshot.columns_of_new(SCHEMA)) == list(before)


def test_a_table_that_is_not_there_is_said_so(world: World) -> None:
    """L5"""
    world.drop()
    with pytest.raises(TableNotFoundError):
        world.store().open()


def test_a_recreated_table_has_nothing_of_the_old_one(world: World) -> None:
    """F6"""
    seeded(world)
    store = world.store()
    store.open()
    uuid = history(world)[1].uuid
    store.write_note("a.json", "x")
    world.recreate()
    assert store.open().version == 1
    assert store.read_note("a.json") is None
    world.append([1])
    assert history(world)[1].uuid != uuid


def test_a_note_that_is_too_large_is_refused(tmp_path: Path) -> None:
    world = LanceWorld(str(tmp_path / "table.lance"))
    with pytest.raises(LandingError, match="the maximum is"):
        world.store().write_note("a.json", "x" * 8193)
    assert world.store().list_notes() == []


def test_both_stores_have_the_same_calls() -> None:
    def calls(store: type) -> set[str]:
        return {name for name in vars(store) if not name.startswith("_")}

    assert calls(MemoryStore) == calls(LanceStore)
    memory = MemoryWorld().store().open()
    assert {name for name in dir(memory) if not name.startswith("_")} >= {
        "version",
        "schema",
        "columns",
        "columns_of_new",
        "entry",
        "kept_versions",
    }

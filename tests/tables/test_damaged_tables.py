"""Files of a table that may be missing or damaged without harm."""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import Driver, ids_through
from worlds import LanceWorld, history, landed, spoil_bookmark

from headrace.tables.commit import ledger


@pytest.fixture
def world(tmp_path: Path) -> LanceWorld:
    return LanceWorld(str(tmp_path / "table.lance"))


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage"])
def test_transaction_files_are_not_needed(world: LanceWorld, damage: str) -> None:
    """F10: the stamps are in the versions themselves."""
    folder = Path(world.location.uri)
    driver = Driver(world)
    driver.land(0)
    driver.land(1)
    files = list((folder / "_transactions").glob("*.txn"))
    assert files
    for file in files:
        if damage == "missing":
            file.unlink()
        else:
            file.write_bytes(b"" if damage == "empty" else b"\xff garbage")
    spoil_bookmark(world, lambda mark: mark | {"stamp": mark["stamp"] | {"query_id": "another"}})
    again = driver.restarted("run-b")
    assert again.land(1).was_skipped
    again.land(2)
    assert landed(world) == [0, 1, 2]
    assert world.rows() == ids_through(2)


@pytest.mark.parametrize("content", [b"", b"garbage", b'{"version": 999999}', b'{"version": 1}'])
def test_a_damaged_hint_file_does_not_matter(world: LanceWorld, content: bytes) -> None:
    """F10: the newest version is found all the same."""
    folder = Path(world.location.uri)
    driver = Driver(world)
    driver.land(0)
    driver.land(1)
    (folder / "_versions" / "latest_version_hint.json").write_bytes(content)
    driver.land(2)
    (folder / "_versions" / "latest_version_hint.json").write_bytes(content)
    assert driver.restarted("run-b").land(2).was_skipped
    assert world.rows() == ids_through(2)
    assert {ledger.EPOCH_ID in entry.properties for entry in history(world)[-3:]} == {True}

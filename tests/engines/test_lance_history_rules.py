"""What headrace depends on in Lance: what its history keeps, and how it reports missing versions.

Nothing of headrace runs here. A test that fails after an upgrade names what changed, and where headrace has to follow.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import lance
import pytest
from lance.dataset import LanceDataset, LanceOperation, Transaction
from lance.file import LanceFileSession
from lance_tables import Table


def test_cleanup_of_named_versions_removes_those_but_neither_tagged_ones_nor_the_newest(table: Table) -> None:
    """C7: carry_out in tables/manage/cleanup names the versions it has checked, and no others may go."""
    for value in range(3):
        table.append(value)
    table.open().tags.create("kept", 1)
    assert [tag["version"] for tag in table.open().tags.list().values()] == [1], "see tagged in tables/lance_store"
    stats = table.clean(versions=[1, 2, 4], error_if_tagged_old_versions=False)
    assert (table.kept, stats.old_versions) == ([1, 3, 4], 1)
    assert stats.bytes_removed > 0


def test_reading_the_transaction_of_a_removed_version_raises_and_says_that_it_was_not_found(holed: Table) -> None:
    """L20, L21: `transaction` in tables/lance_store takes this error, and no other, for a hole."""
    for version in (2, 3, 99):
        with pytest.raises(OSError, match="was not found"):
            holed.open().read_transaction(version)


@pytest.mark.parametrize("version", [2, 99])
def test_opening_a_version_that_is_not_there_raises_and_says_that_it_was_not_found(holed: Table, version: int) -> None:
    """R5, R7: open in tables/lance_store knows it by class and text; read/feed and read/scan go by that."""
    with pytest.raises(ValueError, match="was not found"):
        holed.open(version=version)
    with pytest.raises((OSError, ValueError), match="was not found"):
        holed.open().checkout_version(version)


def test_opening_a_table_that_is_not_there_raises_and_says_that_it_was_not_found(tmp_path: Path) -> None:
    """L5: the same class and text as of a version; _is_no_table in tables/lance_store."""
    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(str(tmp_path / "nowhere.lance"))


def test_a_delta_over_a_hole_raises(holed: Table) -> None:
    """L21: nothing may take a hole for an end; headrace reads version by version and does not need it."""
    with pytest.raises(ValueError, match="not find version"):
        holed.open().delta(begin_version=1, end_version=5).list_transactions()


def test_get_transactions_silently_stops_at_a_hole(holed: Table) -> None:
    """L21: why tables/commit/lookup never reads all transactions in one call."""
    found = [transaction.transaction_properties for transaction in holed.open().get_transactions(10)]
    assert found == [{"key": "4"}, {"key": "3"}], "get_transactions reports holes now, or skips them"


def test_manifests_are_named_by_their_versions_counted_down_and_listed_where_they_are_kept(holed: Table) -> None:
    """L16, L21: kept_versions in tables/lance_store reads the folder; the kernel faults aim at these names."""
    found = {path.rpartition("/")[2] for path in LanceFileSession(holed.uri).list("_versions")}
    expected = {f"{2**64 - 1 - version}.manifest" for version in (1, 4, 5)}
    assert {name for name in found if name.endswith(".manifest")} == expected, "see _version_of in lance_store.py"
    assert found - expected <= {"latest_version_hint.json"}, "other files lie there now; see _version_of"


def test_properties_survive_a_rebase_a_compaction_and_the_loss_of_the_transaction_file(table: Table) -> None:
    """L7, L22, F10: the stamps of commit/ledger are in the manifest, under the id that the transaction was given."""
    table.append(1)
    transaction = Transaction(1, LanceOperation.Append(table.files(2)), transaction_properties={"key": "value"})
    assert LanceDataset.commit(table.uri, transaction).version == 3, "it was to be put on top of another append"
    table.open().optimize.compact_files(num_threads=1)
    shutil.rmtree(Path(table.uri, "_transactions"))
    found = table.open().read_transaction(3)
    assert found.transaction_properties == {"key": "value"}, "stamps are lost: look at tables/commit/ledger and lookup"
    assert found.uuid == transaction.uuid, "a commit cannot be found by its id; see _find_out in tables/lance_store"
    table.clean(retain_versions=1)
    with pytest.raises(OSError, match="was not found"):
        table.open().read_transaction(3)


def test_a_merge_keeps_the_id_and_the_properties_it_is_committed_with(table: Table) -> None:
    """L11: Merge in tables/lance_store stamps a transaction that Lance has made."""
    merge = table.merge(0, 1)
    assert merge.read_version == 1
    LanceDataset.commit(table.uri, Transaction(merge.read_version, merge.operation, merge.uuid, {"key": "value"}))
    found = table.open().read_transaction(2)
    assert (found.uuid, found.transaction_properties) == (merge.uuid, {"key": "value"})


def test_the_hint_of_the_newest_version_may_be_missing_or_wrong(table: Table) -> None:
    """F10: Lance looks for itself; every open of tables/lance_store must find the newest version."""
    table.append(1)
    hint = Path(table.uri, "_versions", "latest_version_hint.json")
    for text in ("garbage", '{"version":1}', None):
        hint.write_text(text) if text is not None else hint.unlink()
        assert table.version == 2, f"with the hint {text!r}, an open does not find the newest version"


def test_dates_of_versions_are_local_times_without_a_zone() -> None:
    """R1, C5: `dates` in tables/lance_store takes them so; a zone or UTC would shift startingTimestamp."""
    program = (
        "import lance, pyarrow, sys, tempfile\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    made = lance.write_dataset(pyarrow.table({'x': [1]}), folder + '/t').versions()[0]['timestamp']\n"
        "print(made.isoformat(), made.tzinfo, made.astimezone().timestamp())\n"
    )
    started = time.time()
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        check=True,
    )
    _, zone, made = run.stdout.split()
    assert zone == "None", "versions() tells the zone now"
    assert started - 1 <= float(made) <= time.time() + 1, "versions() does not give local times any more"


def test_messages_end_with_the_places_in_lance_s_source_they_came_by(tmp_path: Path) -> None:
    """S10, C2: _without_source_lines in tables/lance_store cuts them off at ', '."""
    with pytest.raises(ValueError, match=r"was not found: .*, \S+\.rs:\d+:\d+") as caught:
        lance.dataset(str(tmp_path / "nowhere.lance"))
    said = [part for part in str(caught.value).split(", ") if ".rs:" not in part]
    assert len(said) == 1, f"more than one sentence is left: {said}"

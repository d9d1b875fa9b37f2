"""What headrace rests on in Lance: which commits conflict, what history keeps, what cleanup removes, how errors read.

Nothing of headrace runs here. A test that fails after an upgrade names what moved, and where headrace has to follow.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.commit import CommitConflictError
from lance.dataset import LanceDataset, LanceOperation, Transaction
from lance.file import LanceFileSession
from lance.fragment import FragmentMetadata, write_fragments
from s3_proxy import S3Proxy
from s3_server import S3Server

SCHEMA = pa.schema([("x", pa.int64())])

# As src/headrace/tables/lance_store.py commits: Lance may try again by itself, or must not.
RETRIES = 20
STRICT = 0

DAYS = 24 * 3600
RACERS = 8


def rows(*values: int) -> pa.Table:
    return pa.table({"x": values}, schema=SCHEMA)


class Table:
    """A table of one integer column, opened afresh for each call, as headrace does it."""

    def __init__(self, uri: str, options: dict[str, str] | None = None) -> None:
        self.uri = uri
        self.options = options

    def open(self, version: int | str | None = None) -> LanceDataset:
        return lance.dataset(self.uri, version=version, storage_options=self.options)

    @property
    def version(self) -> int:
        return int(self.open().version)

    @property
    def values(self) -> list[int]:
        return sorted(self.open().to_table()["x"].to_pylist())

    @property
    def kept(self) -> list[int]:
        return sorted(int(version["version"]) for version in self.open().versions())

    def kind(self, version: int | None = None) -> str:
        dataset = self.open()
        return type(dataset.read_transaction(version or dataset.version).operation).__name__

    def files(self, *values: int) -> list[FragmentMetadata]:
        """Data files that no version knows yet."""
        return write_fragments(rows(*values), self.open(), mode="append")

    def path_of(self, fragment: FragmentMetadata) -> Path:
        return Path(self.uri, "data", fragment.files[0].path)

    def commit(self, operation: Any, at: int | None = None, *, retries: int = RETRIES, **properties: str) -> int:
        """Commit on top of a version, the newest if none is named, and return the version it became."""
        transaction = Transaction(at or self.version, operation, transaction_properties=properties)
        committed = LanceDataset.commit(self.uri, transaction, max_retries=retries, storage_options=self.options)
        return int(committed.version)

    def append(self, *values: int, at: int | None = None, retries: int = RETRIES, **properties: str) -> int:
        return self.commit(LanceOperation.Append(self.files(*values)), at, retries=retries, **properties)

    def fence(self, at: int | None = None, **properties: str) -> int:
        return self.commit(LanceOperation.Project(self.open().lance_schema), at, **properties)

    def replace(self, at: int, *, retries: int) -> int:
        return self.commit(LanceOperation.Overwrite(SCHEMA, []), at, retries=retries)

    def merge(self, *values: int) -> Transaction:
        """A merge by key that is worked out and not committed."""
        builder = self.open().merge_insert(["x"]).when_matched_update_all().when_not_matched_insert_all()
        return builder.execute_uncommitted(rows(*values))[0]

    def clean(self, **settings: Any) -> Any:
        return self.open().cleanup_old_versions(**settings)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with the row 0, at version 1."""
    return make(str(tmp_path / "table.lance"))


def make(uri: str, options: dict[str, str] | None = None, **settings: Any) -> Table:
    lance.write_dataset(rows(0), uri, storage_options=options, **settings)
    return Table(uri, options)


def conflict_of(call: Callable[[], object], moved: str) -> CommitConflictError:
    """The conflict that a commit must meet; else ``moved`` says what has changed."""
    try:
        landed = call()
    except CommitConflictError as error:
        return error
    pytest.fail(f"{moved} (it landed as {landed})")


# -- the fence ----------------------------------------------------------------------------------------------


@pytest.fixture(params=["local", "s3"])  # By this name the tests that need the store are kept in one worker.
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    if request.param == "local":
        return make(str(tmp_path / "table.lance"))
    server: S3Server = request.getfixturevalue("s3_server")
    return make(f"s3://{server.make_bucket()}/table.lance", server.storage_options)


def test_an_append_that_began_before_an_empty_project_fails_and_may_be_retried(storage: Table) -> None:
    """L26, F4: this is the fence. Without it two drivers land an epoch twice; see Fence in tables/lance_store.py."""
    files = storage.files(1)
    assert storage.fence() == 2
    moved = "An Append lands on top of a Project that it has not seen: THE FENCE IS GONE, see tables/commit.py"
    assert conflict_of(lambda: storage.commit(LanceOperation.Append(files), at=1), moved).retryable, (
        "the conflict is not retryable any more; publish in tables/lance_store.py tells rivals from lost tables by it"
    )
    assert storage.values == [0]
    assert storage.commit(LanceOperation.Append(files)) == 3, "an append that has seen the fence must land"


def test_an_empty_project_fails_if_an_append_came_first(storage: Table) -> None:
    """L26, F4: whoever fences has seen every stamp before the fence; see the steps in tables/commit.py."""
    storage.append(1)
    moved = "a Project lands on top of an Append that it has not seen: a fence can hide a rival's epoch, see commit.py"
    assert conflict_of(lambda: storage.fence(at=1), moved).retryable


def test_a_merge_worked_out_before_an_empty_project_fails(table: Table) -> None:
    """L11, L26: the fence holds for upserts too; see Merge in tables/lance_store.py."""
    merge = table.merge(0, 1)
    table.fence()
    stamped = Transaction(merge.read_version, merge.operation, merge.uuid, {"key": "value"})
    moved = "a merge lands on top of a Project that it has not seen: upserts are not fenced any more"
    assert conflict_of(lambda: LanceDataset.commit(table.uri, stamped, max_retries=RETRIES), moved).retryable


def test_an_empty_project_leaves_everything_as_it_was(tmp_path: Path) -> None:
    """L7, R2: rows, row ids, fragments, indices, settings and metadata; it is a version like others in the history."""
    table = make(str(tmp_path / "table.lance"), enable_stable_row_ids=True)
    table.open().create_scalar_index("x", "BTREE")
    table.open().update_config({"some.setting": "value"})
    table.open().update_schema_metadata({"note": "kept"})

    def state() -> dict[str, Any]:
        dataset = table.open()
        return {
            "rows with their ids": dataset.to_table(with_row_id=True).to_pydict(),
            "fragments": [fragment.metadata for fragment in dataset.get_fragments()],
            "indices": [[segment.uuid for segment in index.segments] for index in dataset.describe_indices()],
            "config": dataset.config(),
            "metadata": dataset.schema.metadata,
            "columns": [(field.id(), field.name()) for field in dataset.lance_schema.fields()],
        }

    before = state()
    fence = table.fence(key="value")
    after = state()
    assert [name for name in before if before[name] != after[name]] == [], "a fence changes these; see tables/commit.py"
    transaction = table.open().read_transaction(fence)
    assert isinstance(transaction.operation, LanceOperation.Project), "see _KINDS in tables/lance_store.py"
    assert transaction.transaction_properties == {"key": "value"}


def test_a_fence_does_not_disturb_a_compaction_or_a_delete_that_began_before(table: Table) -> None:
    """L22, F5: other writers go on beside a stream; only what appends or merges has to try again."""
    table.append(1)
    compacting, deleting = table.open(), table.open()
    table.fence()
    compacting.optimize.compact_files(num_threads=1)
    deleting.delete("x = 1")
    assert table.values == [0]


def test_conflict_checks_skip_versions_that_cleanup_removed(table: Table) -> None:
    """L23: a fence is as durable as its version; docs/guarantees.md says so, and history.py asks the bookmarks."""
    files = table.files(9)
    table.open().tags.create("mine", 1)
    table.fence()
    table.append(1)
    table.append(2)
    conflict_of(lambda: table.commit(LanceOperation.Append(files), at=1), "the fence is gone")
    table.clean(retain_versions=1, error_if_tagged_old_versions=False)
    assert table.kept == [1, 4]
    assert table.commit(LanceOperation.Append(files), at=1) == 5, (
        "good news: a fence that was cleaned up still holds; see 'A driver that sleeps' in docs/guarantees.md"
    )


# -- the other commits --------------------------------------------------------------------------------------


def test_an_append_lands_on_top_of_appends_it_has_not_seen_whatever_the_retries(table: Table) -> None:
    """L24, F5: other writers do not hold a stream up; and that is why looking before appending is not enough."""
    table.append(1)
    assert table.append(2, at=1, retries=STRICT) == 3, "appends conflict now: the fence may be needless, see commit.py"
    assert table.values == [0, 1, 2]


def test_an_overwrite_without_retries_lands_only_on_the_version_it_read(storage: Table) -> None:
    """L27, L9: complete mode needs no fence because of this; see Replace in tables/lance_store.py."""
    storage.append(1)
    moved = "a strict Overwrite lands on a version it has not read: a paused driver can undo a newer result"
    conflict_of(lambda: storage.replace(at=1, retries=STRICT), moved)
    assert storage.values == [0, 1]
    assert storage.replace(at=2, retries=STRICT) == 3


def test_an_overwrite_with_retries_silently_discards_what_came_between(table: Table) -> None:
    """L25: why `publish` in tables/lance_store.py never lets Lance retry a Replace."""
    table.append(1)
    assert table.replace(at=1, retries=RETRIES) == 3, "a retried Overwrite is refused now; Replace could allow retries"
    assert table.values == []


@pytest.mark.parametrize("way", ["a tag kept it", "cleanup was told so"])
def test_an_overwrite_after_cleanup_is_acknowledged_below_the_newest_version_and_lost(table: Table, way: str) -> None:
    """L9, L27: _require_there in tables/commit.py looks for it. A version stays below a hole in two ways."""
    if way == "a tag kept it":
        table.open().tags.create("mine", 1)
    table.fence()
    table.append(1)
    how = {"retain_versions": 1} if way == "a tag kept it" else {"versions": [2]}
    table.clean(**how, error_if_tagged_old_versions=False)
    assert table.kept == [1, 3]
    assert table.replace(at=1, retries=STRICT) == 2, "good news: it is refused; see _require_there in tables/commit.py"
    assert (table.version, table.values) == (3, [0, 1])


@pytest.mark.parametrize("rival", ["overwrite", "restore"])
def test_an_append_meets_an_overwrite_or_restore_for_good(table: Table, rival: str) -> None:
    """L25, F6: the conflict is not retryable, by which `publish` in tables/lance_store.py tells it from a fence."""
    table.append(1)
    if rival == "overwrite":
        table.replace(at=2, retries=STRICT)
    else:
        table.open(version=1).restore()
    moved = f"an Append lands on top of an {rival} that it has not seen; see tables/history.py"
    assert not conflict_of(lambda: table.append(2, at=2), moved).retryable


def test_a_commit_on_a_version_that_was_cleaned_up_says_that_it_was_not_found(table: Table) -> None:
    """L23, L27: an overwrite too; _find_out in tables/lance_store.py makes a conflict of it, by class and by text."""
    for value in range(3):
        table.append(value)
    files, schema = table.files(9), table.open().lance_schema
    table.clean(versions=[2], error_if_tagged_old_versions=False)
    for operation in (LanceOperation.Append(files), LanceOperation.Project(schema)):
        with pytest.raises(OSError, match="was not found") as caught:
            table.commit(operation, at=2)
        assert not isinstance(caught.value, CommitConflictError)
    with pytest.raises(RuntimeError, match="was not found"):
        table.replace(at=2, retries=STRICT)


def test_commit_accepts_a_data_file_that_does_not_exist(table: Table) -> None:
    """F8: the table cannot be read afterwards; payload.py looks for every file before it commits."""
    files = table.files(1)
    table.path_of(files[0]).unlink()
    assert table.commit(LanceOperation.Append(files)) == 2, "Lance checks files now; missing_files may be needless"
    with pytest.raises(ValueError, match="Not found"):
        table.open().to_table()


def test_commit_accepts_a_data_file_of_another_type(table: Table, tmp_path: Path) -> None:
    """F11: the table cannot be read afterwards; require_columns_fit in tables/payload.py compares columns before."""
    other = str(tmp_path / "other.lance")
    files = write_fragments(pa.table({"x": ["text"]}), other, mode="create")
    shutil.copy(Path(other, "data", files[0].files[0].path), table.path_of(files[0]))
    assert table.commit(LanceOperation.Append(files)) == 2, "Lance checks types now; see tables/payload.py"
    with pytest.raises(ValueError, match=r"(?i)int64"):
        table.open().to_table()


def test_commit_accepts_the_same_transaction_twice(table: Table) -> None:
    """L12, L28: only the stamp tells a replay; see tables/ledger.py. Both versions have the transaction's id."""
    transaction = Transaction(1, LanceOperation.Append(table.files(1)))
    versions = [LanceDataset.commit(table.uri, transaction).version for _ in range(2)]
    assert versions == [2, 3], "Lance knows its transactions again; the look-up could be simpler"
    assert table.values == [0, 1, 1]
    assert {table.open().read_transaction(version).uuid for version in versions} == {transaction.uuid}


def test_a_merge_lands_beside_rows_of_the_same_key_that_came_between(table: Table) -> None:
    """L11: docs/guarantees.md asks for one writer per key space because of this."""
    merge = table.merge(1)
    table.append(1)
    LanceDataset.commit(table.uri, merge, max_retries=RETRIES)
    assert table.values == [0, 1, 1], "a merge sees concurrent appends now: 'Two writers of one key space' can go"


def test_a_merge_inserts_a_key_twice_that_is_there_twice_in_its_rows(table: Table) -> None:
    """L11: why fragments.py counts keys before anything is merged."""
    LanceDataset.commit(table.uri, table.merge(7, 7))
    assert table.values == [0, 7, 7], "Lance refuses double keys now; see require_single_keys in tables/fragments.py"


def test_of_many_that_create_one_table_by_a_strict_overwrite_exactly_one_succeeds(tmp_path: Path) -> None:
    """L5: open_or_create in tables/creation.py; the others get what is translated to a StorageError."""
    uri = str(tmp_path / "table.lance")

    def create() -> int:
        return int(LanceDataset.commit(uri, LanceOperation.Overwrite(SCHEMA, []), max_retries=STRICT).version)

    outcomes = race(create)
    assert outcomes.count(1) == 1, f"not exactly one has made the table: {outcomes}"
    assert all(isinstance(outcome, OSError) for outcome in outcomes if outcome != 1), outcomes
    assert Table(uri).version == 1


def race(call: Callable[[], Any]) -> list[Any]:
    """What a call returns or raises on each of many threads that begin together."""
    together = threading.Barrier(RACERS)

    def run(_: int) -> Any:
        together.wait()
        try:
            return call()
        except (OSError, ValueError, RuntimeError) as error:
            return error

    with ThreadPoolExecutor(RACERS) as pool:
        return list(pool.map(run, range(RACERS)))


def test_of_many_that_create_one_tag_exactly_one_succeeds(storage: Table) -> None:
    """L23: tags are the one name that Lance gives away once; retention.py keeps every version that has one."""
    datasets = [storage.open() for _ in range(RACERS)]
    outcomes = race(lambda: datasets.pop().tags.create("one", 1))
    assert outcomes.count(None) == 1, f"not exactly one has made the tag: {outcomes}"
    others = [str(outcome) for outcome in outcomes if outcome is not None]
    assert all("already exists" in text for text in others), others


# -- history ------------------------------------------------------------------------------------------------


@pytest.fixture
def holed(table: Table) -> Table:
    """A table with the versions 1, 4 and 5; 2 and 3 were cleaned up."""
    for value in range(1, 5):
        table.append(value, key=str(value))
    table.clean(versions=[2, 3], error_if_tagged_old_versions=False)
    return table


def test_cleanup_of_named_versions_removes_those_but_neither_tagged_ones_nor_the_newest(table: Table) -> None:
    """C7: carry_out in tables/retention.py names the versions it has checked, and no others may go."""
    for value in range(3):
        table.append(value)
    table.open().tags.create("kept", 1)
    assert [tag["version"] for tag in table.open().tags.list().values()] == [1], "see tagged in tables/lance_store.py"
    stats = table.clean(versions=[1, 2, 4], error_if_tagged_old_versions=False)
    assert (table.kept, stats.old_versions) == ([1, 3, 4], 1)
    assert stats.bytes_removed > 0


def test_reading_the_transaction_of_a_removed_version_raises_and_says_that_it_was_not_found(holed: Table) -> None:
    """L20, L21: `transaction` in tables/lance_store.py takes this error, and no other, for a hole."""
    for version in (2, 3, 99):
        with pytest.raises(OSError, match="was not found"):
            holed.open().read_transaction(version)


@pytest.mark.parametrize("version", [2, 99])
def test_opening_a_version_that_is_not_there_raises_and_says_that_it_was_not_found(holed: Table, version: int) -> None:
    """R5, R7: open in tables/lance_store.py knows it by class and text; feed.py and reading.py go by that."""
    with pytest.raises(ValueError, match="was not found"):
        holed.open(version=version)
    with pytest.raises((OSError, ValueError), match="was not found"):
        holed.open().checkout_version(version)


def test_opening_a_table_that_is_not_there_raises_and_says_that_it_was_not_found(tmp_path: Path) -> None:
    """L5: the same class and text as of a version; _is_no_table in tables/lance_store.py."""
    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(str(tmp_path / "nowhere.lance"))


def test_a_delta_over_a_hole_raises(holed: Table) -> None:
    """L21: nothing may take a hole for an end; headrace reads version by version and does not need it."""
    with pytest.raises(ValueError, match="not find version"):
        holed.open().delta(begin_version=1, end_version=5).list_transactions()


def test_get_transactions_stops_at_a_hole_without_a_word(holed: Table) -> None:
    """L21: why tables/history.py never asks for transactions in one go."""
    found = [transaction.transaction_properties for transaction in holed.open().get_transactions(10)]
    assert found == [{"key": "4"}, {"key": "3"}], "get_transactions tells of holes now, or steps over them"


def test_manifests_are_named_by_their_versions_counted_down_and_listed_where_they_are_kept(holed: Table) -> None:
    """L16, L21: kept_versions in tables/lance_store.py reads the folder; the kernel faults aim at these names."""
    found = {path.rpartition("/")[2] for path in LanceFileSession(holed.uri).list("_versions")}
    expected = {f"{2**64 - 1 - version}.manifest" for version in (1, 4, 5)}
    assert {name for name in found if name.endswith(".manifest")} == expected, "see _version_of in lance_store.py"
    assert found - expected <= {"latest_version_hint.json"}, "other files lie there now; see _version_of"


def test_properties_survive_a_rebase_a_compaction_and_the_loss_of_the_transaction_file(table: Table) -> None:
    """L7, L22, F10: the stamps of tables/ledger.py are in the manifest, under the id that the transaction was given."""
    table.append(1)
    transaction = Transaction(1, LanceOperation.Append(table.files(2)), transaction_properties={"key": "value"})
    assert LanceDataset.commit(table.uri, transaction).version == 3, "it was to be put on top of another append"
    table.open().optimize.compact_files(num_threads=1)
    shutil.rmtree(Path(table.uri, "_transactions"))
    found = table.open().read_transaction(3)
    assert found.transaction_properties == {"key": "value"}, "stamps are lost: look at tables/ledger.py and history.py"
    assert found.uuid == transaction.uuid, "a commit cannot be found by its id; see _find_out in tables/lance_store.py"
    table.clean(retain_versions=1)
    with pytest.raises(OSError, match="was not found"):
        table.open().read_transaction(3)


def test_a_merge_keeps_the_id_and_the_properties_it_is_committed_with(table: Table) -> None:
    """L11: Merge in tables/lance_store.py stamps a transaction that Lance has made."""
    merge = table.merge(0, 1)
    assert merge.read_version == 1
    LanceDataset.commit(table.uri, Transaction(merge.read_version, merge.operation, merge.uuid, {"key": "value"}))
    found = table.open().read_transaction(2)
    assert (found.uuid, found.transaction_properties) == (merge.uuid, {"key": "value"})


def test_the_hint_of_the_newest_version_may_be_missing_or_wrong(table: Table) -> None:
    """F10: Lance looks for itself; every open of tables/lance_store.py must find the newest version."""
    table.append(1)
    hint = Path(table.uri, "_versions", "latest_version_hint.json")
    for text in ("garbage", '{"version":1}', None):
        hint.write_text(text) if text is not None else hint.unlink()
        assert table.version == 2, f"with the hint {text!r}, an open does not find the newest version"


def test_dates_of_versions_are_local_times_without_a_zone() -> None:
    """R1, C5: `dates` in tables/lance_store.py takes them so; a zone or UTC would shift startingTimestamp."""
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


# -- what versions did --------------------------------------------------------------------------------------


def alter(table: Table, how: str) -> None:
    dataset = table.open()
    match how:
        case "append":
            table.append(1)
        case "overwrite":
            table.replace(at=table.version, retries=STRICT)
        case "delete":
            dataset.delete("x = 0")
        case "update":
            dataset.update({"x": "x + 1"})
        case "merge rows":
            LanceDataset.commit(table.uri, table.merge(0, 1))
        case "add a column":
            dataset.add_columns(pa.schema([("y", pa.int64())]))
        case "drop a column":
            dataset.add_columns(pa.schema([("y", pa.int64())]))
            table.open().drop_columns(["y"])
        case "rename a column":
            dataset.alter_columns({"path": "x", "name": "z"})
        case "change a type":
            dataset.alter_columns({"path": "x", "data_type": pa.int32()})
        case "configure":
            dataset.update_config({"some.setting": "value"})
        case "index":
            dataset.create_scalar_index("x", "BTREE")
        case "restore":
            table.append(1)
            table.open(version=1).restore()
        case "compact":
            table.append(1)
            table.open().optimize.compact_files(num_threads=1)


KINDS = {
    "append": "Append",
    "overwrite": "Overwrite",
    "delete": "Delete",
    "update": "Update",
    "merge rows": "Update",
    "add a column": "Merge",
    "drop a column": "Project",
    "rename a column": "Project",
    "change a type": "Merge",
    "configure": "UpdateConfig",
    "index": "CreateIndex",
    "restore": "Restore",
    "compact": "Rewrite",
}


@pytest.mark.parametrize("how", KINDS)
def test_the_class_of_an_operation_says_what_a_version_did(table: Table, how: str) -> None:
    """R2, R3, C5: tables/changes.py and chronicle.py go by it, and history.py tells replacements from the rest."""
    alter(table, how)
    assert table.kind() == KINDS[how], f"to {how} is another operation; see change_at in tables/changes.py"


def test_a_compaction_begins_with_a_version_that_pylance_has_no_class_for(table: Table) -> None:
    """R2: change_at in tables/changes.py compares its fragments, and chronicle.py calls it other."""
    alter(table, "compact")
    assert table.version == 4, "a compaction is not two versions any more"
    assert table.kind(3) == "BaseOperation", "pylance names the reservation of fragment numbers; see tables/changes.py"


def test_the_compaction_of_an_indexed_table_cannot_be_read_back(table: Table) -> None:
    """L22, R2: `transaction` in tables/lance_store.py knows the error by its text, and takes it for a Rewrite."""
    table.append(1)
    table.open().create_scalar_index("x", "BTREE")
    table.open().optimize.compact_files(num_threads=1)
    with pytest.raises(TypeError, match="RewrittenIndex"):
        table.open().read_transaction(table.version)


def test_the_fragments_of_an_append_are_without_numbers_and_known_by_their_files(table: Table) -> None:
    """R1: feed.py finds the rows of a version by the files that its transaction names; tables/changes.py."""
    table.commit(LanceOperation.Append([*table.files(1), *table.files(2)]))
    told = table.open().read_transaction(2).operation.fragments
    kept = [fragment.metadata for fragment in table.open().get_fragments()][1:]
    assert [fragment.id for fragment in told] == [0, 0], "transactions number fragments now; see tables/feed.py"
    assert [fragment.id for fragment in kept] == [1, 2]
    for before, after in zip(told, kept, strict=True):
        assert [file.path for file in before.files] == [file.path for file in after.files], "their files changed"
        assert before.physical_rows == after.physical_rows == 1, "physical_rows; see _known in tables/changes.py"
        assert before.files[0].file_size_bytes, "file_size_bytes; see size_of in tables/changes.py"
        assert (after.deletion_file, after.overlays) == (None, []), "see is_untouched in tables/changes.py"


def test_fragments_go_through_json_unchanged(table: Table) -> None:
    """L29: tasks report their fragments so; tables/message.py and _fragments in tables/lance_store.py."""
    (fragment,) = table.files(1, 2)
    text = json.dumps(fragment.to_json())
    assert FragmentMetadata.from_json(text) == fragment
    assert json.loads(text)["physical_rows"] == 2, "tables/fragments.py counts rows by this key"
    assert [file["path"] for file in json.loads(text)["files"]] == [fragment.files[0].path], "see tables/message.py"


@pytest.mark.parametrize(
    ("how", "fields"),
    [
        ("delete", {"deleted_fragment_ids": [0], "updated_fragments": []}),
        ("update", {"removed_fragment_ids": [0], "updated_fragments": [], "fields_modified": []}),
        ("merge rows", {"removed_fragment_ids": [0], "updated_fragments": [], "fields_modified": []}),
    ],
)
def test_a_change_of_rows_names_the_fragments_it_touches(table: Table, how: str, fields: dict[str, Any]) -> None:
    """R3: `alters` and `has_updates` in tables/changes.py; a version that changes rows must never pass for quiet."""
    alter(table, how)
    operation = table.open().read_transaction(2).operation
    assert {name: list(getattr(operation, name)) for name in fields} == fields


def test_rows_know_the_version_they_came_with_where_row_ids_are_stable(tmp_path: Path) -> None:
    """R3: readChangeFeed tells inserted rows from updated ones by it; _CREATED in tables/reading.py."""
    table = make(str(tmp_path / "table.lance"), enable_stable_row_ids=True)
    table.append(1)
    table.open().update({"x": "x + 10"}, where="x = 0")
    assert table.open().has_stable_row_ids
    found = table.open().to_table(columns=["x", "_row_created_at_version"]).to_pylist()
    created = {row["x"]: row["_row_created_at_version"] for row in found}
    assert created == {1: 2, 10: 1}, "an update makes a row look new, or the other way round"


def test_offset_and_limit_of_a_fragment_s_scan_count_rows_that_are_not_deleted(table: Table) -> None:
    """R4: slices.py cuts fragments by the numbers of live rows; read in tables/reading.py."""
    table.append(*range(1, 7))
    table.open().delete("x = 2")
    fragment = table.open().get_fragment(1)
    assert fragment.scanner(columns=["x"], offset=1, limit=2).to_table()["x"].to_pylist() == [3, 4]
    assert fragment.metadata.deletion_file.num_deleted_rows == 1, "see live_rows in tables/changes.py"


def test_an_overwrite_numbers_columns_anew(table: Table) -> None:
    """L9, F11: columns_of_new in tables/lance_store.py foretells the numbers that replacing files must have."""
    table.open().add_columns(pa.schema([("y", pa.int64())]))
    table.open().drop_columns(["x"])
    assert [field.id() for field in table.open().lance_schema.fields()] == [1]
    table.commit(LanceOperation.Overwrite(table.open().schema, []), retries=STRICT)
    assert [field.id() for field in table.open().lance_schema.fields()] == [0], "see columns_of_new in lance_store.py"


# -- cleanup, and files beside the table --------------------------------------------------------------------


def test_a_tag_on_an_old_version_makes_cleanup_raise_unless_it_is_told_not_to(table: Table) -> None:
    """L22, C7: upkeep.py and retention.py tell it; headrace makes no tags, since others' cleanups would fail."""
    for value in range(3):
        table.append(value)
    table.open().tags.create("old", 2)
    for settings in ({"older_than": timedelta(0)}, {"retain_versions": 1}):
        with pytest.raises(OSError, match="tagged version"):
            table.clean(**settings)
    assert table.kept == [1, 2, 3, 4], "a cleanup that was refused has removed something"
    assert table.clean(retain_versions=1, error_if_tagged_old_versions=False).old_versions == 2
    assert table.kept == [2, 4]


def test_cleanup_leaves_notes_beside_the_table_alone_however_old_they_are(table: Table, tmp_path: Path) -> None:
    """L23, F7: bookmarks outlive the versions they tell of; tables/bookmark.py."""
    note = write_note(table, tmp_path, "text")
    os.utime(note, (time.time() - 8 * DAYS,) * 2)
    table.append(1)
    for settings in ({"retain_versions": 1}, {"older_than": timedelta(0), "delete_unverified": True}):
        table.append(2)
        table.clean(**settings)
        assert note.read_text() == "text", "CLEANUP REMOVES BOOKMARKS: find another place, see _NOTES in lance_store.py"


def write_note(table: Table, folder: Path, text: str) -> Path:
    (folder / "note").write_text(text)
    LanceFileSession(table.uri).upload_file(str(folder / "note"), "_headrace/notes/a.json")
    return Path(table.uri, "_headrace/notes/a.json")


def test_files_that_no_version_knows_stay_for_seven_days_unless_unverified_ones_are_to_go(table: Table) -> None:
    """F8, L14: a stream has a week between writing and commit; upkeep.py never asks for delete_unverified."""
    young, old = (table.path_of(table.files(value)[0]) for value in (1, 2))
    os.utime(young, (time.time() - 6.9 * DAYS,) * 2)
    os.utime(old, (time.time() - 7.1 * DAYS,) * 2)
    table.append(3)
    table.clean(retain_versions=1)
    assert (young.exists(), old.exists()) == (True, False), "the seven days have changed; see docs/guarantees.md"
    table.append(4)
    table.clean(older_than=timedelta(0), delete_unverified=True)
    assert not young.exists(), "delete_unverified spares them now; the hint in tables/payload.py can go"


def test_a_file_session_says_what_is_there_and_how_what_is_not(table: Table, tmp_path: Path) -> None:
    """L23: notes and data files are looked for so; `missing_files` and `read_note` in tables/lance_store.py."""
    session = LanceFileSession(table.uri)
    assert list(session.list("_headrace/notes")) == [], "a folder that is not there cannot be listed; see list_notes"
    write_note(table, tmp_path, "text")
    assert [path.rpartition("/")[2] for path in session.list("_headrace/notes")] == ["a.json"]
    assert bytes(session.read_range("_headrace/notes/a.json", 0, 4)) == b"text"
    assert session.contains("_headrace/notes/a.json")
    assert not session.contains("data/nothing.lance"), "see missing_files in tables/lance_store.py"
    with pytest.raises(OSError, match="Not found"):
        session.read_range("_headrace/notes/b.json", 0, 4)
    with pytest.raises(OSError, match="whole buffer"):
        session.read_range("_headrace/notes/a.json", 0, 8192)


# -- the instant of the commit ------------------------------------------------------------------------------


def test_the_hard_link_of_the_manifest_is_the_commit(table: Table, tmp_path: Path) -> None:
    """F2, F9: tests/faults/test_landing_kernel_faults.py kills right before and after these calls."""
    require_strace()
    trace = tmp_path / "trace"
    manifest = Path(table.uri, "_versions", f"{2**64 - 1 - 2}.manifest")
    program = f"import lance, pyarrow; lance.write_dataset(pyarrow.table({{'x': [1]}}), {table.uri!r}, mode='append')"
    calls = "linkat,link,rename,renameat,renameat2,unlink,unlinkat,fsync,fdatasync"
    traced = ["strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={calls}", sys.executable, "-c", program]
    subprocess.run(traced, capture_output=True, check=True)
    assert table.version == 2
    lines = trace.read_text().splitlines()
    about = [line.split(None, 1)[1] for line in lines if str(manifest) in line and "ENOENT" not in line]
    where = f"the commit is made by other calls than a hard link; see test_landing_kernel_faults.py: {about}"
    assert [call.partition("(")[0] for call in about] == ["linkat", "unlink"], where
    assert f'{manifest}#1"' in about[0], where
    assert not [line for line in lines if "sync(" in line], "Lance syncs now: see 'Power loss' in docs/guarantees.md"


def require_strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    tried = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"strace may not trace here: {tried.stderr.strip()}")


@pytest.fixture
def held_s3(s3_server: S3Server, s3_proxy: S3Proxy) -> tuple[Table, Table]:
    """One table in an object store, seen directly and through the proxy."""
    uri = f"s3://{s3_server.make_bucket()}/table.lance"
    return make(uri, s3_server.storage_options), Table(uri, s3_proxy.storage_options)


def while_held(proxy: S3Proxy, held: Callable[[], Any], meanwhile: Callable[[], Any]) -> Any:
    """What ``held`` returns or raises, where ``meanwhile`` is done right before its manifest is written."""
    proxy.hold("PUT", "/_versions/")
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(held)
        try:
            proxy.wait_held()
            meanwhile()
        finally:
            proxy.release()
        return outcome.exception() or outcome.result()


def test_a_manifest_is_put_only_where_there_is_none(held_s3: tuple[Table, Table], s3_proxy: S3Proxy) -> None:
    """L36, L24, F4: the store refuses the second of two manifests of one version, and the append comes on top."""
    direct, proxied = held_s3
    files = direct.files(1)
    outcome = while_held(s3_proxy, lambda: proxied.commit(LanceOperation.Append(files), at=1), lambda: direct.append(2))
    refused = [seen.status for seen in s3_proxy.seen("PUT", ".manifest") if seen.fault == "hold"]
    assert refused == [412], f"a manifest is not written by a conditional PUT any more: {s3_proxy.seen('PUT')}"
    assert outcome == 3
    assert direct.values == [0, 1, 2]


def test_a_fence_that_came_at_the_last_moment_is_met_too(held_s3: tuple[Table, Table], s3_proxy: S3Proxy) -> None:
    """L26, L36, F4: the conflict is found when the PUT is refused, not only before; see tables/commit.py."""
    direct, proxied = held_s3
    files = direct.files(1)
    outcome = while_held(s3_proxy, lambda: proxied.commit(LanceOperation.Append(files), at=1), direct.fence)
    assert isinstance(outcome, CommitConflictError), f"the fence was not met: {outcome}"
    assert outcome.retryable
    assert direct.values == [0]


def test_a_commit_whose_answer_is_lost_is_recognised_and_not_made_again(
    held_s3: tuple[Table, Table], s3_proxy: S3Proxy
) -> None:
    """L28, F12: Lance asks again and finds its own manifest; where it does not, _find_out looks in lance_store.py."""
    direct, proxied = held_s3
    files = direct.files(1)
    s3_proxy.drop_answer("PUT", "/_versions/")
    assert proxied.commit(LanceOperation.Append(files), at=1) == 2, "it was committed again, or as another version"
    assert direct.values == [0, 1]
    assert direct.version == 2


def test_messages_end_with_the_places_in_lance_s_source_they_came_by(tmp_path: Path) -> None:
    """S10, C2: _without_source_lines in tables/lance_store.py cuts them off at ', '."""
    with pytest.raises(ValueError, match=r"was not found: .*, \S+\.rs:\d+:\d+") as caught:
        lance.dataset(str(tmp_path / "nowhere.lance"))
    said = [part for part in str(caught.value).split(", ") if ".rs:" not in part]
    assert len(said) == 1, f"more than one sentence is left: {said}"

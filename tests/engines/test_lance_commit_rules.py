"""What headrace rests on in Lance: which commits conflict, and which are taken without a question.

Nothing of headrace runs here. A test that fails after an upgrade names what moved, and where headrace has to follow.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance.commit import CommitConflictError
from lance.dataset import LanceDataset, LanceOperation, Transaction
from lance.fragment import write_fragments
from lance_tables import RACERS, RETRIES, SCHEMA, STRICT, Table, conflict_of, make

# -- the fence ----------------------------------------------------------------------------------------------


def test_an_append_that_began_before_an_empty_project_fails_and_may_be_retried(storage: Table) -> None:
    """L26, F4: this is the fence. Without it two drivers land an epoch twice; see Fence in tables/lance_store."""
    files = storage.files(1)
    assert storage.fence() == 2
    moved = "An Append lands on top of a Project that it has not seen: THE FENCE IS GONE, see tables/commit/protocol"
    assert conflict_of(lambda: storage.commit(LanceOperation.Append(files), at=1), moved).retryable, (
        "the conflict is not retryable any more; publish in tables/lance_store tells rivals from lost tables by it"
    )
    assert storage.values("x") == [0]
    assert storage.commit(LanceOperation.Append(files)) == 3, "an append that has seen the fence must land"


def test_an_empty_project_fails_if_an_append_came_first(storage: Table) -> None:
    """L26, F4: the run that fences has seen every stamp before the fence; see the steps in tables/commit/protocol."""
    storage.append(1)
    moved = "a Project lands on top of an Append that it has not seen: a fence can hide a rival's epoch, see commit.py"
    assert conflict_of(lambda: storage.fence(at=1), moved).retryable


def test_a_merge_worked_out_before_an_empty_project_fails(table: Table) -> None:
    """L11, L26: the fence also stops upserts; see Merge in tables/lance_store."""
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
    assert [name for name in before if before[name] != after[name]] == [], "a fence changes these; see commit/protocol"
    transaction = table.open().read_transaction(fence)
    assert isinstance(transaction.operation, LanceOperation.Project), "see _KINDS in tables/lance_store"
    assert transaction.transaction_properties == {"key": "value"}


def test_a_fence_does_not_disturb_a_compaction_or_a_delete_that_began_before(table: Table) -> None:
    """L22, F5: other writers go on beside a stream; only what appends or merges has to try again."""
    table.append(1)
    compacting, deleting = table.open(), table.open()
    table.fence()
    compacting.optimize.compact_files(num_threads=1)
    deleting.delete("x = 1")
    assert table.values("x") == [0]


def test_conflict_checks_skip_versions_that_cleanup_removed(table: Table) -> None:
    """L23: a fence is as durable as its version; docs/guarantees.md says so, and lookup asks the bookmarks."""
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
    assert table.values("x") == [0, 1, 2]


def test_an_overwrite_without_retries_lands_only_on_the_version_it_read(storage: Table) -> None:
    """L27, L9: complete mode needs no fence because of this; see Replace in tables/lance_store."""
    storage.append(1)
    moved = "a strict Overwrite lands on a version it has not read: a paused driver can undo a newer result"
    conflict_of(lambda: storage.replace(at=1, retries=STRICT), moved)
    assert storage.values("x") == [0, 1]
    assert storage.replace(at=2, retries=STRICT) == 3


def test_an_overwrite_with_retries_silently_discards_what_came_between(table: Table) -> None:
    """L25: why `publish` in tables/lance_store never lets Lance retry a Replace."""
    table.append(1)
    assert table.replace(at=1, retries=RETRIES) == 3, "a retried Overwrite is refused now; Replace could allow retries"
    assert table.values("x") == []


@pytest.mark.parametrize("way", ["a tag kept it", "cleanup kept it"])
def test_an_overwrite_after_cleanup_is_acknowledged_below_the_newest_version_and_lost(table: Table, way: str) -> None:
    """L9, L27: require_present in tables/commit/validate looks for it. A version stays below a hole in two ways."""
    if way == "a tag kept it":
        table.open().tags.create("mine", 1)
    table.fence()
    table.append(1)
    how = {"retain_versions": 1} if way == "a tag kept it" else {"versions": [2]}
    table.clean(**how, error_if_tagged_old_versions=False)
    assert table.kept == [1, 3]
    assert table.replace(at=1, retries=STRICT) == 2, "good news: it is refused; see commit/protocol"
    assert (table.version, table.values("x")) == (3, [0, 1])


@pytest.mark.parametrize("rival", ["overwrite", "restore"])
def test_an_append_conflicts_with_an_overwrite_or_restore_permanently(table: Table, rival: str) -> None:
    """L25, F6: the conflict is not retryable, so `publish` in tables/lance_store can distinguish it from a fence."""
    table.append(1)
    if rival == "overwrite":
        table.replace(at=2, retries=STRICT)
    else:
        table.open(version=1).restore()
    moved = f"an Append lands on top of an {rival} that it has not seen; see tables/commit/lookup"
    assert not conflict_of(lambda: table.append(2, at=2), moved).retryable


def test_a_commit_on_a_version_that_was_cleaned_up_says_that_it_was_not_found(table: Table) -> None:
    """L23, L27: an overwrite too; _find_out in tables/lance_store makes a conflict of it, by class and by text."""
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
    """F11: the table cannot be read afterwards; require_columns_fit in commit/payload compares columns before."""
    other = str(tmp_path / "other.lance")
    files = write_fragments(pa.table({"x": ["text"]}), other, mode="create")
    shutil.copy(Path(other, "data", files[0].files[0].path), table.path_of(files[0]))
    assert table.commit(LanceOperation.Append(files)) == 2, "Lance checks types now; see tables/commit/payload"
    with pytest.raises(ValueError, match=r"(?i)int64"):
        table.open().to_table()


def test_commit_accepts_the_same_transaction_twice(table: Table) -> None:
    """L12, L28: only the stamp tells a replay; see tables/commit/ledger. Both versions have the transaction's id."""
    transaction = Transaction(1, LanceOperation.Append(table.files(1)))
    versions = [LanceDataset.commit(table.uri, transaction).version for _ in range(2)]
    assert versions == [2, 3], "Lance knows its transactions again; the look-up could be simpler"
    assert table.values("x") == [0, 1, 1]
    assert {table.open().read_transaction(version).uuid for version in versions} == {transaction.uuid}


def test_a_merge_lands_beside_rows_of_the_same_key_that_came_between(table: Table) -> None:
    """L11: docs/guarantees.md asks for one writer per key space because of this."""
    merge = table.merge(1)
    table.append(1)
    LanceDataset.commit(table.uri, merge, max_retries=RETRIES)
    assert table.values("x") == [0, 1, 1], "a merge sees concurrent appends now: 'Two writers of one key space' can go"


def test_a_merge_inserts_a_key_twice_that_is_there_twice_in_its_rows(table: Table) -> None:
    """L11: why fragments.py counts keys before anything is merged."""
    LanceDataset.commit(table.uri, table.merge(7, 7))
    assert table.values("x") == [0, 7, 7], "Lance refuses double keys now; see require_single_keys in write/data_files"


def test_of_many_that_create_one_table_by_a_strict_overwrite_exactly_one_succeeds(tmp_path: Path) -> None:
    """L5: open_or_create in tables/write/create; the others get what is translated to a StorageError."""
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

"""What headrace rests on in Lance: what a transaction says of the rows it changed.

Nothing of headrace runs here. A test that fails after an upgrade names what moved, and where headrace has to follow.
"""

from __future__ import annotations

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance.dataset import LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata
from lance_tables import STRICT, Table, make


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
    """R2, R3, C5: read/changes and manage/history go by it, and commit/lookup tells replacements from the rest."""
    alter(table, how)
    assert table.kind() == KINDS[how], f"to {how} is another operation; see change_at in tables/read/changes"


def test_a_compaction_begins_with_a_version_that_pylance_has_no_class_for(table: Table) -> None:
    """R2: change_at in tables/read/changes compares its fragments, and manage/history calls it other."""
    alter(table, "compact")
    assert table.version == 4, "a compaction is not two versions any more"
    assert table.kind(3) == "BaseOperation", "pylance names the reservation of fragments; see read/changes"


def test_the_compaction_of_an_indexed_table_cannot_be_read_back(table: Table) -> None:
    """L22, R2: `transaction` in tables/lance_store knows the error by its text, and takes it for a Rewrite."""
    table.append(1)
    table.open().create_scalar_index("x", "BTREE")
    table.open().optimize.compact_files(num_threads=1)
    with pytest.raises(TypeError, match="RewrittenIndex"):
        table.open().read_transaction(table.version)


def test_the_fragments_of_an_append_are_without_numbers_and_known_by_their_files(table: Table) -> None:
    """R1: read/feed finds the rows of a version by the files that its transaction names; tables/read/pieces."""
    table.commit(LanceOperation.Append([*table.files(1), *table.files(2)]))
    numbered = table.open().read_transaction(2).operation.fragments
    kept = [fragment.metadata for fragment in table.open().get_fragments()][1:]
    assert [fragment.id for fragment in numbered] == [0, 0], "transactions number fragments now; see tables/read/pieces"
    assert [fragment.id for fragment in kept] == [1, 2]
    for before, after in zip(numbered, kept, strict=True):
        assert [file.path for file in before.files] == [file.path for file in after.files], "their files changed"
        assert before.physical_rows == after.physical_rows == 1, "physical_rows; see _known in tables/read/changes"
        assert before.files[0].file_size_bytes, "file_size_bytes; see size_of in tables/read/changes"
        assert (after.deletion_file, after.overlays) == (None, []), "see is_untouched in tables/read/changes"


def test_fragments_go_through_json_unchanged(table: Table) -> None:
    """L29: tasks report their fragments so; tables/commit/message and _fragments in tables/lance_store."""
    (fragment,) = table.files(1, 2)
    text = json.dumps(fragment.to_json())
    assert FragmentMetadata.from_json(text) == fragment
    assert json.loads(text)["physical_rows"] == 2, "tables/write/data_files counts rows by this key"
    assert [file["path"] for file in json.loads(text)["files"]] == [fragment.files[0].path], "see tables/commit/message"


@pytest.mark.parametrize(
    ("how", "fields"),
    [
        ("delete", {"deleted_fragment_ids": [0], "updated_fragments": []}),
        ("update", {"removed_fragment_ids": [0], "updated_fragments": [], "fields_modified": []}),
        ("merge rows", {"removed_fragment_ids": [0], "updated_fragments": [], "fields_modified": []}),
    ],
)
def test_a_change_of_rows_names_the_fragments_it_touches(table: Table, how: str, fields: dict[str, Any]) -> None:
    """R3: `alters` and `has_updates` in tables/read/changes; a version that changes rows must never pass for quiet."""
    alter(table, how)
    operation = table.open().read_transaction(2).operation
    assert {name: list(getattr(operation, name)) for name in fields} == fields


def test_rows_know_the_version_they_came_with_where_row_ids_are_stable(tmp_path: Path) -> None:
    """R3: readChangeFeed tells inserted rows from updated ones by it; _CREATED in tables/read/shape."""
    table = make(str(tmp_path / "table.lance"), enable_stable_row_ids=True)
    table.append(1)
    table.open().update({"x": "x + 10"}, where="x = 0")
    assert table.open().has_stable_row_ids
    found = table.open().to_table(columns=["x", "_row_created_at_version"]).to_pylist()
    created = {row["x"]: row["_row_created_at_version"] for row in found}
    assert created == {1: 2, 10: 1}, "an update makes a row look new, or the other way round"


def test_offset_and_limit_of_a_fragment_s_scan_count_rows_that_are_not_deleted(table: Table) -> None:
    """R4: read/splits cuts fragments by the numbers of live rows; read in tables/read/scan."""
    table.append(*range(1, 7))
    table.open().delete("x = 2")
    fragment = table.open().get_fragment(1)
    assert fragment.scanner(columns=["x"], offset=1, limit=2).to_table()["x"].to_pylist() == [3, 4]
    assert fragment.metadata.deletion_file.num_deleted_rows == 1, "see live_rows in tables/read/changes"


def test_an_overwrite_renumbers_columns(table: Table) -> None:
    """L9, F11: columns_of_new in tables/lance_store predicts the numbers that replacing files must have."""
    table.open().add_columns(pa.schema([("y", pa.int64())]))
    table.open().drop_columns(["x"])
    assert [field.id() for field in table.open().lance_schema.fields()] == [1]
    table.commit(LanceOperation.Overwrite(table.open().schema, []), retries=STRICT)
    assert [field.id() for field in table.open().lance_schema.fields()] == [0], "see columns_of_new in lance_store.py"


def test_a_scan_of_several_fragments_returns_their_rows_in_the_order_in_which_they_are_named(table: Table) -> None:
    """R7: small fragments share a scan; _scanner in tables/read/scan. Deleted rows are left out."""
    for first in range(1, 40, 2):
        table.append(first, first + 1)
    table.open().delete("x = 7")
    dataset = table.open()
    numbers = [4, 3, *range(5, 21)]
    scanner = dataset.scanner(
        columns=["x"],
        fragments=[dataset.get_fragment(number) for number in numbers],
        scan_in_order=True,
        fragment_readahead=8,
        batch_readahead=2,
        batch_size=1000,
        batch_size_bytes=1_000_000,
    )
    found = [value for batch in scanner.to_batches() for value in batch["x"].to_pylist()]
    assert found == [8, 5, 6, *range(9, 41)]


def test_one_handle_reads_one_transaction_at_a_time_and_a_copy_reads_another(table: Table) -> None:
    """R1: read/change_log reads with several threads; copy in tables/lance_store."""
    for number in range(1, 20):
        table.append(number)
    dataset = table.open()
    with ThreadPoolExecutor(4) as pool:
        copies = [copy.copy(dataset) for _ in range(4)]
        read = pool.map(lambda each: [each.read_transaction(version).uuid for version in range(1, 21)], copies)
        first, *others = read
    assert len(set(first)) == 20
    assert all(other == first for other in others)

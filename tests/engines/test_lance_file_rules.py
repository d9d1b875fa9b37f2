"""What headrace rests on in Lance: what cleanup removes, files beside a table, and rows of another type.

Nothing of headrace runs here. A test that fails after an upgrade names what moved, and where headrace has to follow.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from lance.file import LanceFileSession
from lance.fragment import write_fragments
from lance_tables import DAYS, Table


def test_a_tag_on_an_old_version_makes_cleanup_raise_unless_an_option_prevents_it(table: Table) -> None:
    """L22, C7: compaction.py and retention.py set it; headrace makes no tags, since others' cleanups would fail."""
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
    """L23, F7: bookmarks outlive the versions they describe; see tables/commit/bookmark."""
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
    """F8, L14: a stream has a week between writing and commit; compaction.py never asks for delete_unverified."""
    young, old = (table.path_of(table.files(value)[0]) for value in (1, 2))
    os.utime(young, (time.time() - 6.9 * DAYS,) * 2)
    os.utime(old, (time.time() - 7.1 * DAYS,) * 2)
    table.append(3)
    table.clean(retain_versions=1)
    assert (young.exists(), old.exists()) == (True, False), "the seven days have changed; see docs/guarantees.md"
    table.append(4)
    table.clean(older_than=timedelta(0), delete_unverified=True)
    assert not young.exists(), "delete_unverified spares them now; the hint in tables/commit/payload can go"


@pytest.mark.parametrize("kind", [pa.int32(), pa.float64(), pa.uint64()])
def test_rows_of_another_type_are_refused_and_not_cast(table: Table, kind: pa.DataType) -> None:
    """L31: on every way in, so that `narrowing` alone decides what a value becomes; arrow/narrow."""
    table.append(1)
    other = pa.table({"x": pa.array([1], kind)})
    with pytest.raises(OSError, match="different schema"):
        write_fragments(other, table.open(), mode="append")
    merge = table.open().merge_insert("x").when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(OSError, match="different schema"):
        merge.execute_uncommitted(other)


def test_a_file_session_says_what_is_there_and_how_what_is_not(table: Table, tmp_path: Path) -> None:
    """L23: notes and data files are looked for so; `missing_files` and `read_note` in tables/lance_store."""
    session = LanceFileSession(table.uri)
    assert list(session.list("_headrace/notes")) == [], "a folder that is not there cannot be listed; see list_notes"
    write_note(table, tmp_path, "text")
    assert [path.rpartition("/")[2] for path in session.list("_headrace/notes")] == ["a.json"]
    assert bytes(session.read_range("_headrace/notes/a.json", 0, 4)) == b"text"
    assert session.contains("_headrace/notes/a.json")
    assert not session.contains("data/nothing.lance"), "see missing_files in tables/lance_store"
    with pytest.raises(OSError, match="Not found"):
        session.read_range("_headrace/notes/b.json", 0, 4)
    with pytest.raises(OSError, match="whole buffer"):
        session.read_range("_headrace/notes/a.json", 0, 8192)

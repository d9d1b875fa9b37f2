"""A Lance table's history, queried with SQL."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from headrace import InvalidArgumentError, SessionContext, TableExistsError, TableNotFoundError
from support.lance_tables import LanceTable, create_table

STAMP = {"lance.streaming.queryId": "orders", "lance.streaming.epochId": "4", "headrace.rows": "2"}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t.lance")
    create_table(uri, pa.table({"x": [1]}))
    LanceTable(uri).write(pa.table({"x": [2, 3]}), transaction_properties=STAMP)
    lance.dataset(uri).delete("x = 1")
    return uri


def test_history_is_a_table(uri: str) -> None:
    """C5: newest version first, with every column; each query reads the history again."""
    with SessionContext() as session:
        session.register_history("h", uri)
        found = session.sql("select version, what, query, epoch, rows from h").collect().read_all().to_pylist()
        assert [tuple(row.values()) for row in found] == [
            (3, "deleted", None, None, None),
            (2, "landed", "orders", 4, 2),
            (1, "created", None, None, 1),
        ]
        assert session.sql("select made from h where made > now() - interval '1 hour'").count() == 3
        LanceTable(uri).write(pa.table({"x": [9]}))
        assert session.sql("select * from h").count() == 4
        assert session.sql("select version from h limit 1").collect().read_all()["version"].to_pylist() == [4]


def test_registering_an_invalid_history_raises(uri: str, tmp_path: Path) -> None:
    """C5: the registration raises, not the first query."""
    with SessionContext() as session:
        with pytest.raises(TableNotFoundError):
            session.register_history("h", tmp_path / "nowhere.lance")
        with pytest.raises(InvalidArgumentError, match="storage_options"):
            session.register_history("h", uri, storage_options={"a": 1})  # type: ignore[dict-item]
        session.register_history("h", uri)
        with pytest.raises(TableExistsError):
            session.register_history("h", uri)

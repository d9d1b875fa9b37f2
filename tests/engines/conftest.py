"""Lance tables on which its rules are tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from lance_tables import Table, make

from support.s3_server import S3Server


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with the row 0, at version 1."""
    return make(str(tmp_path / "table.lance"))


@pytest.fixture(params=["local", "s3"])  # By this name the tests that need the store are kept in one worker.
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    if request.param == "local":
        return make(str(tmp_path / "table.lance"))
    server: S3Server = request.getfixturevalue("s3_server")
    return make(f"s3://{server.make_bucket()}/table.lance", server.storage_options)


@pytest.fixture
def holed(table: Table) -> Table:
    """A table with the versions 1, 4 and 5; 2 and 3 were cleaned up."""
    for value in range(1, 5):
        table.append(value, key=str(value))
    table.clean(versions=[2, 3], error_if_tagged_old_versions=False)
    return table

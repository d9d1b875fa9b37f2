"""Tables in memory, in a folder and in an object store: the same test runs on each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from worlds import LanceWorld, World

from support.memory_world import MemoryWorld

if TYPE_CHECKING:
    from support.s3_server import S3Server


@pytest.fixture(params=["memory", "lance"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """A new, empty table; ask for "s3" by parametrising indirectly."""
    if request.param == "memory":
        return MemoryWorld()
    if request.param == "lance":
        return LanceWorld(str(tmp_path / "table.lance"))
    server: S3Server = request.getfixturevalue("s3_server")
    return LanceWorld(f"s3://{server.make_bucket()}/table.lance", server.storage_options)

"""Tables in memory, in a folder and in an object store: the same test runs on each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# The object store is shared with the tests that land Spark's streams.
sys.path.insert(0, str(Path(__file__).parents[1] / "landing"))

from worlds import LanceWorld, MemoryWorld, World

if TYPE_CHECKING:
    from s3_server import S3Server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    from s3_server import S3Server

    with S3Server() as server:
        yield server


@pytest.fixture(params=["memory", "lance"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """A new, empty table; ask for "s3" by parametrising indirectly."""
    if request.param == "memory":
        return MemoryWorld()
    if request.param == "lance":
        return LanceWorld(str(tmp_path / "table.lance"))
    server: S3Server = request.getfixturevalue("s3_server")
    return LanceWorld(f"s3://{server.make_bucket()}/table.lance", server.storage_options)


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in its own hook, and would not see later ones
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps what needs the object store in one worker."""
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and hasattr(item, "callspec")
            and item.callspec.params.get("world") == "s3"
        ):
            item.add_marker(pytest.mark.xdist_group("s3"))

"""A real Spark, and tables in a folder and in an object store."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.s3_proxy import S3Proxy
from support.s3_server import S3Server
from support.storages import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["support.tally_plugin"]


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in its own hook, and would not see later ones
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps what needs the same server in one worker: starting Spark in each takes longer than the tests."""
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if "spark" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif "s3_server" in item.fixturenames or is_on_s3(item):
            item.add_marker(pytest.mark.xdist_group("s3"))


def is_on_s3(item: pytest.Function) -> bool:
    return hasattr(item, "callspec") and "s3" in (item.callspec.params.get(name) for name in ("storage", "world"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of this process. Tests leave it as they found it: queries stopped, views dropped."""
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    # Spark starts its Python workers from this, and would otherwise take the python3 of the PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("headrace tests")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.python.unix.domain.socket.enabled", "true")
    )
    with warnings.catch_warnings():
        # The JVM is forked and then executed at once, so nothing of Lance runs in the child that it warns about.
        warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
        session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def s3_proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    """A proxy of the test's own before the store, without faults."""
    with S3Proxy(s3_server.endpoint) as proxy:
        yield proxy


@pytest.fixture(params=["local", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "local":
        return Storage("local", str(tmp_path / "tables"), {})
    server: S3Server = request.getfixturevalue("s3_server")
    return Storage("s3", f"s3://{server.make_bucket()}", server.storage_options)


@pytest.fixture
def table_uri(storage: Storage) -> str:
    """Where a table may be made: nothing is there yet."""
    return storage.uri("table")

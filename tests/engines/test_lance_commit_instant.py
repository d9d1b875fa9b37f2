"""What headrace rests on in Lance: the one system call, or the one request, that makes a commit.

Nothing of headrace runs here. A test that fails after an upgrade names what moved, and where headrace has to follow.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from lance.commit import CommitConflictError
from lance.dataset import LanceOperation
from lance_tables import Table, make

from support.kernel import require_tracer
from support.s3_proxy import S3Proxy
from support.s3_server import S3Server


def test_the_hard_link_of_the_manifest_is_the_commit(table: Table, tmp_path: Path) -> None:
    """F2, F9: tests/faults/test_landing_kernel_faults.py kills right before and after these calls."""
    require_tracer()
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
    assert direct.values("x") == [0, 1, 2]


def test_a_fence_that_came_at_the_last_moment_is_met_too(held_s3: tuple[Table, Table], s3_proxy: S3Proxy) -> None:
    """L26, L36, F4: the conflict is found when the PUT is refused, not only before; see tables/commit/protocol."""
    direct, proxied = held_s3
    files = direct.files(1)
    outcome = while_held(s3_proxy, lambda: proxied.commit(LanceOperation.Append(files), at=1), direct.fence)
    assert isinstance(outcome, CommitConflictError), f"the fence was not met: {outcome}"
    assert outcome.retryable
    assert direct.values("x") == [0]


def test_a_commit_whose_answer_is_lost_is_recognised_and_not_made_again(
    held_s3: tuple[Table, Table], s3_proxy: S3Proxy
) -> None:
    """L28, F12: Lance asks again and finds its own manifest; where it does not, _find_out looks in lance_store.py."""
    direct, proxied = held_s3
    files = direct.files(1)
    s3_proxy.drop_answer("PUT", "/_versions/")
    assert proxied.commit(LanceOperation.Append(files), at=1) == 2, "it was committed again, or as another version"
    assert direct.values("x") == [0, 1]
    assert direct.version == 2

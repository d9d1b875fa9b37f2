"""Real Spark streams, and everything that can go wrong around them, with a reader looking on all along.

Kills at chosen points are in test_landing_crash_points, frozen drivers in test_landing_zombies, executors in
test_landing_clusters; single system calls and storms of a store without Spark in the tests of their names.
"""

from __future__ import annotations

import os
import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from company import UPKEEP, WRITING, Company
from killing import kill_and_finish
from landing_plan import FOREIGN, SCHEMA, Stream, state_after
from landing_rig import Driver, Watcher, add_epochs, becomes_true, make_table, members_of, require_exact, rows_of

from headrace import ConfigurationError
from headrace.tables.lance_store import LanceStore
from headrace.tables.location import Location
from headrace.tables.manage import cleanup
from support.deadlines import allow_long_test
from support.kernel import fill, require_tracer, small_disk, with_fault
from support.lance_tables import LanceTable
from support.s3_proxy import ALWAYS, S3Proxy
from support.s3_server import S3Server
from support.tally import require_same

slow = pytest.mark.slow
pytestmark = [pytest.mark.xdist_group("landing-drivers"), pytest.mark.usefixtures("long")]

EPOCHS = 5
ALL = [("format", "append"), ("format", "complete"), ("sink", "append"), ("sink", "complete"), ("sink", "upsert")]
EVERY_WAY = pytest.mark.parametrize(("way", "mode"), ALL)
SOME_WAYS = pytest.mark.parametrize(("way", "mode"), [("format", "append"), ("sink", "upsert")])
# Only `LanceSink` commits in the driver's own Python process, which can be held at a point.
HELD = pytest.mark.parametrize("mode", ["append", "complete", "upsert"])


@pytest.fixture
def long() -> None:
    """Every wait here has its own deadline."""
    allow_long_test()


@pytest.fixture
def seed() -> int:
    seed = int(os.environ.get("HEADRACE_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    print(f"HEADRACE_SEED={seed}")
    return seed


def stream_in(folder: Path, way: str, mode: str, *, epochs: int = EPOCHS, **more: object) -> Stream:
    add_epochs(folder / "in", range(epochs))
    uri = make_table(str(folder / "t.lance"))
    return Stream(uri, str(folder / "in"), str(folder / "checkpoint"), way, mode, **more)  # type: ignore[arg-type]


def finish(stream: Stream) -> None:
    with Driver(replace(stream, hold_at="")) as driver:
        driver.hear("started")
        driver.require_done()


def held(stream: Stream, point: str, act: Callable[[], object], error: str) -> str:
    """Runs a stream up to a point, does something there, and lets it go on to the error that it must end with."""
    with Driver(replace(stream, hold_at=point)) as driver:
        driver.hear("started")
        driver.hear("held")
        act()
        driver.go()
        return driver.require_failed(error)


@pytest.mark.parametrize(
    ("way", "mode", "kills"),
    [("format", "append", 1), *(pytest.param(way, mode, 4, marks=slow) for way, mode in ALL)],
)
def test_drivers_killed_at_random_moments_land_every_epoch_once(
    tmp_path: Path, seed: int, way: str, mode: str, kills: int
) -> None:
    """F1, F5, F7, L13, L14, L22, L24: while others write, compact and clean up."""
    kill_and_finish(tmp_path, kills=kills, seed=seed, way=way, mode=mode)


@slow
@SOME_WAYS
def test_a_driver_killed_while_a_task_writes_lands_the_epoch_once(tmp_path: Path, way: str, mode: str) -> None:
    """F1, L14: half of the epoch's files are there, and none of them shows."""
    (tmp_path / "marks").mkdir()
    stream = stream_in(tmp_path, way, mode, fault="dawdle", marks=str(tmp_path / "marks"))
    with Watcher(stream.uri, mode, EPOCHS) as watcher:
        with Driver(stream) as driver:
            driver.hear("started")
            assert becomes_true(lambda: (tmp_path / "marks" / "attempt-0").exists(), 100), driver.stderr
            driver.kill()
            driver.require_killed()
        assert rows_of(stream.uri) == state_after(mode, 1)
        finish(replace(stream, fault=""))
        watcher.wait_for(EPOCHS)
    require_exact(stream.uri, mode, EPOCHS, by=way)


@slow
@SOME_WAYS
def test_a_driver_killed_after_spark_noted_an_epoch_continues_with_the_next(
    tmp_path: Path, way: str, mode: str
) -> None:
    """F1: nothing of it is sent again."""
    stream = stream_in(tmp_path, way, mode)
    noted = Path(stream.checkpoint, "commits", "1")
    with Watcher(stream.uri, mode, EPOCHS) as watcher:
        with Driver(stream) as driver:
            driver.hear("started")
            assert becomes_true(noted.exists, 100), driver.stderr
            driver.kill()
            driver.require_killed()
        finish(stream)
        watcher.wait_for(EPOCHS)
    require_exact(stream.uri, mode, EPOCHS, by=way, may_join=True)


@pytest.fixture
def tracer() -> None:
    require_tracer()


def is_driving(session: int) -> bool:
    """Whether the Python program of a driver is alive; that which traces it may be."""
    return any(command.startswith(sys.executable) and "Stream" in command for command in members_of(session).values())


@slow
@pytest.mark.usefixtures("tracer")
@pytest.mark.parametrize("is_linked", [False, True])
@pytest.mark.parametrize("mode", ["append", "complete"])
def test_a_kill_inside_the_commit_of_a_stream_leaves_the_old_version_or_the_new_one(
    tmp_path: Path, mode: str, is_linked: bool
) -> None:
    """F2, L13, L14: right before the manifest's hard link, which is the commit, and right after it."""
    stream = stream_in(tmp_path, "sink", mode)
    version = 1 + (3 if mode == "append" else 2)
    manifest = f"{stream.uri}/_versions/{2**64 - 1 - version}.manifest"
    call, path = ("unlink", f"{manifest}#1") if is_linked else ("linkat", manifest)
    with Watcher(stream.uri, mode, EPOCHS) as watcher:
        with Driver(stream, under=with_fault(call, path, "signal=SIGKILL")) as driver:
            driver.hear("started")
            assert becomes_true(lambda: not is_driving(driver.session), 100), driver.stderr
        assert rows_of(stream.uri) == state_after(mode, 1 + is_linked)
        finish(stream)
        watcher.wait_for(EPOCHS)
    require_exact(stream.uri, mode, EPOCHS, by="sink")


@slow
@EVERY_WAY
@pytest.mark.parametrize("acts", [WRITING, UPKEEP], ids=["writers", "compaction"])
def test_a_stream_lands_beside_others_who_work_on_its_table_all_along(
    tmp_path: Path, seed: int, way: str, mode: str, acts: tuple[str, ...]
) -> None:
    """F5, F7, L22, L24: everything is kept, unless a whole result replaces it."""
    epochs = 20
    stream = stream_in(tmp_path, way, mode, epochs=epochs)
    with Watcher(stream.uri, mode, epochs) as watcher, Company(stream.uri, acts, seed) as company:
        finish(stream)
        watcher.wait_for(epochs)
    assert company.done > epochs, "there was hardly any company"
    require_exact(stream.uri, mode, epochs, by=way, may_be_cleaned=True, times=company.done)
    if mode != "complete":
        company.require_kept()


@slow
@SOME_WAYS
def test_a_stream_that_was_stopped_during_a_cleanup_continues_where_it_was(tmp_path: Path, way: str, mode: str) -> None:
    """F7, L16, L23: three hundred versions of others, all but one removed; the killed epoch is recognised."""
    stream = stream_in(tmp_path, way, mode)
    with Driver(stream, crash_at="after-commit:1") as driver:
        driver.hear("started")
        driver.require_killed()
    store = LanceStore(Location(stream.uri))
    for _ in range(300):
        lance.dataset(stream.uri).update_config({"some": "setting"})
    with pytest.raises(ConfigurationError, match="epoch 1"):
        cleanup.plan(store, keep=1)
    finish(stream)
    cleanup.carry_out(store, cleanup.plan(store, keep=1))
    assert len(lance.dataset(stream.uri).versions()) == 1
    add_epochs(Path(stream.source), range(EPOCHS, EPOCHS + 2))
    finish(stream)
    require_exact(stream.uri, mode, EPOCHS + 2, by=way, may_be_cleaned=True, times=2)


def overwrite(uri: str) -> None:
    LanceTable(uri).write(pa.table({"id": [FOREIGN], "n": [0]}, schema=SCHEMA), "overwrite")


def restore(uri: str) -> None:
    LanceTable(uri).restore(1)


def recreate(uri: str) -> None:
    LanceTable(uri).recreate(SCHEMA)


@slow
@HELD
@pytest.mark.parametrize("replaces", [overwrite, restore, recreate])
def test_a_table_that_is_replaced_stops_the_stream_and_nothing_comes_back(
    tmp_path: Path, mode: str, replaces: Callable[[str], None]
) -> None:
    """F6, L25, L40: it says so, and so does a restart; one that accepts it lands what had not landed, and no more."""
    stream = stream_in(tmp_path, "sink", mode)
    said = held(stream, "after-commit:1", lambda: replaces(stream.uri), "")
    assert re.search("overwrite by another|restore by another|created again|dropped or replaced", said), said
    assert rows_of(stream.uri) == (), "the stream brought something back"
    if mode != "complete":
        with Driver(stream) as driver:
            driver.hear("started")
            driver.require_failed("TableReplacedError")
        assert rows_of(stream.uri) == (), "the restart brought something back"
    finish(replace(stream, on_table_replaced="accept"))
    # What had landed is gone with the table; of a new one, the epoch that Spark had not noted lands too.
    first = 1 if replaces is recreate else 2
    expected = state_after(mode, EPOCHS)
    if mode == "append":
        expected = expected[len(state_after(mode, first)) :]
    elif mode == "upsert":
        expected = tuple(row for row in expected if row[0] < 3 or row[0] - 100 >= first)
    require_same(f"{mode}, sink", expected, rows_of(stream.uri))


@slow
@pytest.mark.parametrize("way", ["format", "sink"])
def test_files_removed_between_their_writing_and_the_commit_fail_the_epoch(tmp_path: Path, way: str) -> None:
    """F8: before the commit; the table stays readable, and the next run writes them again."""
    stream = stream_in(tmp_path, way, "append")
    with Watcher(stream.uri, "append", EPOCHS) as watcher:
        said = while_a_task_lingers(
            stream,
            lambda: lance.dataset(stream.uri).cleanup_old_versions(retain_versions=100, delete_unverified=True),
        )
        assert "data files of the epoch are gone" in said
        assert rows_of(stream.uri) == state_after("append", 1)
        finish(stream)
        watcher.wait_for(EPOCHS)
    require_exact(stream.uri, "append", EPOCHS, by=way)


def while_a_task_lingers(stream: Stream, act: Callable[[], object]) -> str:
    """Does something while one task of epoch 1 has written its files and another still waits; what the stream said."""
    marks = Path(stream.checkpoint).with_suffix(".marks")
    marks.mkdir()
    with Driver(replace(stream, fault="linger", marks=str(marks))) as driver:
        driver.hear("started")
        assert becomes_true(lambda: (marks / "waiting").exists(), 100), driver.stderr
        assert becomes_true(lambda: has_new_files(stream.uri), 30), "no file was written"
        act()
        (marks / "go").touch()
        return driver.require_failed("")


def has_new_files(uri: str) -> bool:
    known = {file.path for fragment in lance.dataset(uri).get_fragments() for file in fragment.data_files()}
    return any(path.name not in known for path in Path(uri, "data").glob("*.lance"))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "4m") as folder:
        yield folder


@slow
@HELD
@pytest.mark.parametrize("full", ["table", "checkpoint"])
def test_a_full_disk_stops_a_stream_which_continues_when_there_is_room(
    tmp_path: Path, disk: Path, mode: str, full: str
) -> None:
    """F9: under the table, or under Spark's checkpoint."""
    stream = stream_in(tmp_path, "sink", mode)
    if full == "table":
        stream = replace(stream, uri=make_table(str(disk / "t.lance")))
    else:
        stream = replace(stream, checkpoint=str(disk / "checkpoint"))
    with Watcher(stream.uri, mode, EPOCHS) as watcher:
        held(stream, "after-commit:1", lambda: fill(disk), "" if full == "checkpoint" else "No space left")
        (disk / "filler").unlink()
        assert rows_of(stream.uri) == state_after(mode, 2)
        finish(stream)
        watcher.wait_for(EPOCHS)
    require_exact(stream.uri, mode, EPOCHS, by="sink")


def lose_transactions(uri: str) -> None:
    for path in Path(uri, "_transactions").iterdir():
        path.unlink()


def spoil_transactions(uri: str) -> None:
    for path in Path(uri, "_transactions").iterdir():
        path.write_bytes(b"\xff spoiled")


def spoil_hint(uri: str) -> None:
    Path(uri, "_versions", "latest_version_hint.json").write_text("{")


@slow
@pytest.mark.parametrize("damage", [lose_transactions, spoil_transactions, spoil_hint])
def test_files_that_lance_can_do_without_may_be_missing_or_corrupt(
    tmp_path: Path, damage: Callable[[str], None]
) -> None:
    """F10: in the middle of a run, and before a replay."""
    stream = stream_in(tmp_path, "sink", "append")
    with Watcher(stream.uri, "append", EPOCHS) as watcher:
        with Driver(stream, crash_at="after-commit:1") as driver:
            driver.hear("started")
            driver.require_killed()
        damage(stream.uri)
        with Driver(replace(stream, hold_at="after-commit:2")) as driver:
            driver.hear("started")
            driver.hear("held")
            damage(stream.uri)
            driver.go()
            driver.require_done()
        watcher.wait_for(EPOCHS)
    require_exact(stream.uri, "append", EPOCHS, by="sink", times=2)


@slow
@pytest.mark.parametrize("way", ["format", "sink"])
def test_a_column_changed_while_an_epoch_is_written_fails_it(tmp_path: Path, way: str) -> None:
    """F11, L31: before the commit; with the column back as it was, the next run lands it."""
    stream = stream_in(tmp_path, way, "append")

    def retype(kind: pa.DataType) -> None:
        lance.dataset(stream.uri).alter_columns({"path": "n", "data_type": kind})

    said = while_a_task_lingers(stream, lambda: retype(pa.int32()))
    assert "Column 'n' was" in said, said
    assert rows_of(stream.uri) == state_after("append", 1)
    retype(pa.int64())
    finish(stream)
    require_exact(stream.uri, "append", EPOCHS, by=way)


@slow
@HELD
def test_a_stream_into_a_store_that_fails_lands_every_epoch_once(
    tmp_path: Path, s3_server: S3Server, s3_proxy: S3Proxy, mode: str
) -> None:
    """F12, L28, L36: a lost answer, then 503, then no access at all; a restart continues."""
    direct = s3_server.storage_options
    uri = make_table(f"s3://{s3_server.make_bucket()}/t.lance", direct)
    stream = replace(stream_in(tmp_path, "sink", mode), uri=uri, storage_options=s3_proxy.storage_options)
    with Watcher(uri, mode, EPOCHS, direct) as watcher:
        s3_proxy.drop_answer("PUT", "/_versions/")
        s3_proxy.fail("PUT", "/_versions/", status=503)
        held(stream, "after-commit:2", lambda: s3_proxy.fail("PUT", "/", status=403, times=ALWAYS), "")
        assert rows_of(uri, direct) == state_after(mode, 3)
        assert len({request.fault for request in s3_proxy.seen("PUT", "/_versions/") if request.fault}) >= 2
        s3_proxy.clear()
        finish(stream)
        watcher.wait_for(EPOCHS)
    require_exact(uri, mode, EPOCHS, direct, by="sink", times=3)

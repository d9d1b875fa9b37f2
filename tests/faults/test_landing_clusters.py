"""Executors in separate processes: one is killed, tasks are tried again and run twice."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from landing_plan import Stream
from landing_rig import Driver, Watcher, add_epochs, becomes_true, kill_session, make_table, require_exact

from support.deadlines import allow_long_test

pytestmark = pytest.mark.slow

EPOCHS = 4
# Two hosts in name: Spark does not run a task twice on the same one.
HOSTS = ("127.0.0.1", "127.0.0.2")
SMALL = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
SPECULATIVE = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.5",
}


def stream_on(master: str, folder: Path, **more: object) -> Stream:
    add_epochs(folder / "in", range(EPOCHS))
    (folder / "marks").mkdir()
    uri = make_table(str(folder / "t.lance"))
    conf = SMALL | more.pop("conf", {})
    checkpoint, marks = str(folder / "checkpoint"), str(folder / "marks")
    return Stream(uri, str(folder / "in"), checkpoint, master=master, conf=conf, marks=marks, **more)


def marks_of(stream: Stream) -> set[str]:
    return {path.name for path in Path(stream.marks).iterdir() if not path.name.startswith("_")}


def executor_of(worker: int) -> int:
    """The JVM that a Python worker works for."""
    pid = worker
    while "CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_text():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert pid > 1, f"{worker} has no executor"
    return pid


@pytest.mark.parametrize(("way", "mode"), [("format", "append"), ("sink", "upsert"), ("sink", "complete")])
def test_an_executor_killed_in_an_epoch_and_tasks_that_fail_once_double_nothing(
    tmp_path: Path, way: str, mode: str
) -> None:
    """F3, L29, L39: on a local cluster; the attempts that count land, and no other."""
    allow_long_test()
    stream = stream_on("local-cluster[2,1,768]", tmp_path, way=way, mode=mode, fault="fail_and_wait")
    waiting = Path(stream.marks, "waiting")
    with Watcher(stream.uri, mode, EPOCHS) as watcher, Driver(stream) as driver:
        driver.hear("started")
        assert becomes_true(waiting.exists, 120), driver.stderr
        os.kill(executor_of(int(waiting.read_text())), signal.SIGKILL)
        driver.require_done()
        watcher.wait_for(EPOCHS)
    require_exact(stream.uri, mode, EPOCHS, by=stream.way)
    assert any(name.startswith("failed") for name in marks_of(stream)), "no attempt failed"


def free_port() -> int:
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a standalone cluster on the loopback interface, with two workers."""
    import pyspark

    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    environment = os.environ | {"SPARK_WORKER_DIR": str(tmp_path / "work")}
    kind = "org.apache.spark.deploy"
    started: list[subprocess.Popen[bytes]] = []

    def start(host: str, *command: str) -> None:
        with (tmp_path / f"daemon-{len(started)}.log").open("wb") as log:
            process = subprocess.Popen(
                [spark_class, *command, "--host", host, "--webui-port", "0"],
                stdout=log,
                stderr=log,
                env=environment | {"SPARK_LOCAL_IP": host},
                start_new_session=True,
            )
        started.append(process)

    try:
        start(HOSTS[0], f"{kind}.master.Master", "--port", str(port))
        for host in HOSTS:
            start(host, f"{kind}.worker.Worker", "-c", "1", "-m", "1g", address)
        yield address
    finally:
        for process in started:
            kill_session(process.pid)
            process.wait()


def test_a_standalone_cluster_lands_every_epoch_once(tmp_path: Path, master: str) -> None:
    """L39, L13: a separate master and workers; the driver is killed after a commit, and another finishes."""
    allow_long_test()
    stream = stream_on(master, tmp_path, conf={"spark.cores.max": "2"})
    with Watcher(stream.uri, "append", EPOCHS) as watcher:
        with Driver(stream, crash_at="after-commit:1") as driver:
            driver.require_killed()
        with Driver(stream) as driver:
            driver.hear("started")
            driver.require_done()
        watcher.wait_for(EPOCHS)
    require_exact(stream.uri, "append", EPOCHS, by=stream.way)


@pytest.mark.parametrize(("way", "mode"), [("format", "append"), ("sink", "append")])
def test_a_task_that_is_run_twice_at_once_lands_once(tmp_path: Path, master: str, way: str, mode: str) -> None:
    """F3, L29, L39: Spark starts a second attempt of a task that dawdles, and takes what comes first."""
    allow_long_test()
    stream = stream_on(master, tmp_path, way=way, mode=mode, fault="dawdle", conf=SPECULATIVE)
    with Watcher(stream.uri, mode, EPOCHS) as watcher, Driver(stream) as driver:
        driver.hear("started")
        driver.require_done()
        watcher.wait_for(EPOCHS)
    require_exact(stream.uri, mode, EPOCHS, by=stream.way)
    assert {"attempt-0", "attempt-1"} <= marks_of(stream), "there was no second attempt"

"""`headrace demo`: kill and restart a stream, and check that every order landed once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from headrace import _failpoints
from headrace.cli import exit_codes
from headrace.errors import ExecutionError

_FILES, _ORDERS, _CRASH = 6, 1_000, 2
_ITEMS = ("lamp", "chair", "table")

_PIPELINE = """\
name = "orders-v1"
checkpoint = "checkpoint"

[source]
format = "json"
path = "arriving"
schema = "id BIGINT, item STRING, total DOUBLE"
options = { maxFilesPerTrigger = 1 }

[[step]]
sql = "SELECT id, item, round(total * 1.19, 2) AS total FROM source"

[table]
uri = "orders.lance"
create = true
"""


@click.command()
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), help="Work in this folder, and keep its files."
)
def demo(folder: Path | None) -> int:
    """Kill and restart a stream, and check that every row landed once. Takes about a minute.

    Orders arrive as files, and Spark lands them in a Lance table. The demo kills the Spark driver with SIGKILL between
    the table's commit and Spark's, and restarts it. Then every order is in the table exactly once.
    """
    from headrace.pipeline.java import require_java
    from headrace.spark.registration import require_pyspark

    require_pyspark()
    require_java()
    started = time.monotonic()
    with _place(folder) as place:
        _show(place)
    click.secho(f"\nThe demo took {time.monotonic() - started:.0f} seconds. What to try next:", bold=True)
    click.echo("  headrace init first                         write a pipeline file, to edit and run:")
    click.echo("  headrace run first/pipeline.toml")
    click.echo("  headrace demo --folder d                    keep the demo's files, for example for:")
    click.echo("  headrace history d/orders.lance")
    click.echo("  headrace sql --table orders=d/orders.lance  query the table with SQL")
    return exit_codes.DONE


@contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="headrace-demo-") as name:
        yield Path(name)


def _show(place: Path) -> None:
    _title(f"{_FILES} files of {_ORDERS:,} orders arrive in {place}/arriving")
    (place / "arriving").mkdir(exist_ok=True)
    for number in range(_FILES):
        _write_orders(place / "arriving" / f"{number}.json", range(number * _ORDERS, (number + 1) * _ORDERS))
    (place / "pipeline.toml").write_text(_PIPELINE)

    _title("headrace run pipeline.toml (the driver is killed during the run)")
    code = _run(place, {_failpoints.VARIABLE: f"after-commit:{_CRASH}"})
    if code >= 0:
        raise ExecutionError(f"The driver should have been killed, but exited with code {code}.")
    click.echo(f"  killed by signal {-code}: epoch {_CRASH} is in the table, but not in Spark's commit log")

    _title("headrace run pipeline.toml (again)")
    code = _run(place, {})
    if code != exit_codes.DONE:
        raise ExecutionError(f"The second run failed with exit code {code}.", hint=f"see the log in {place}/.headrace.")

    _title("headrace history orders.lance")
    _headrace("history", "orders.lance", place=place)
    _title("headrace verify orders.lance --checkpoint checkpoint")
    if _headrace("verify", "orders.lance", "--checkpoint", "checkpoint", place=place) != exit_codes.DONE:
        raise ExecutionError("headrace verify found a problem in the table.")
    _title("Join the table with prices that arrive while the query runs, in this process, without Spark")
    _query(place)


def _title(text: str) -> None:
    click.secho(f"\n{text}", bold=True)


def _write_orders(path: Path, ids: range) -> None:
    lines = (json.dumps({"id": each, "item": _ITEMS[each % 3], "total": 5.0 + each % 90}) for each in ids)
    path.write_text("\n".join(lines))


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "headrace", *arguments]


def _headrace(*arguments: str, place: Path) -> int:
    done = subprocess.run(_command(*arguments), cwd=place, capture_output=True, text=True, check=False)
    click.echo("".join(f"  {line}\n" for line in (done.stdout + done.stderr).splitlines()), nl=False)
    return done.returncode


def _run(place: Path, more: dict[str, str]) -> int:
    """Run the pipeline in a new process session, so that the kill also ends Spark's JVM."""
    with subprocess.Popen(
        _command("run", "pipeline.toml"),
        cwd=place,
        env=os.environ | more,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            click.echo(f"  {line}", nl=False)
    return process.returncode


def _query(place: Path) -> None:
    import pyarrow as pa

    from headrace.session.context import SessionContext

    schema = pa.schema([("item", pa.string()), ("factor", pa.float64())])
    with SessionContext() as session:
        session.register_lance("orders", str(place / "orders.lance"))
        sink = session.register_streaming_table("prices", schema, capacity=1)

        def produce() -> None:
            with sink:
                for number, item in enumerate(_ITEMS):
                    sink.write(pa.record_batch([[item], [1.0 + number / 10]], schema=schema))

        threading.Thread(target=produce).start()
        session.sql(
            "select item, count(*) as orders, count(distinct id) as different, round(sum(total * factor), 2) as total "
            "from orders join prices using (item) group by item order by item"
        ).show()

"""`headrace run`: run a pipeline file."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli import exit_codes
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.pipeline.runner import Stop

# How long Spark may take to stop.
_GRACE_SECONDS = 10.0


@click.command()
@click.argument("pipeline", type=click.Path(path_type=Path))
@click.option(
    "--once/--follow", default=True, help="Stop when all available rows have landed (default), or keep running."
)
@click.option("--master", metavar="URL", help="The Spark master, such as spark://host:7077; overrides the file's.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object per line.")
@click.option(
    "--ui",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve a status page on this port of 127.0.0.1; 0 picks a free port.",
)
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file for Spark's output; by default in .headrace next to PIPELINE.",
)
def run(pipeline: Path, once: bool, master: str | None, is_json: bool, ui: int | None, log: Path | None) -> int:
    """Run PIPELINE, a file like the one that `headrace init` writes.

    Ctrl-C or SIGTERM stops after the current epoch; a second one stops immediately. Both are safe: the next run
    continues where this one stopped.

    \b
    Exit codes:
      0         done
      1         failed
      2         the file or the command line is wrong
      3         Java or an extra is not installed
      130, 143  stopped by Ctrl-C or SIGTERM before all rows had landed
    """  # noqa: D301 - click wants the character itself
    from headrace.cli.display import display
    from headrace.cli.spark_log import spark_output_to
    from headrace.cli.status_page import with_status_page
    from headrace.pipeline import load
    from headrace.pipeline.java import require_java

    plan = load(pipeline)
    require_java()
    log = log or pipeline.parent / ".headrace" / f"{Path(plan.checkpoint).name}.log"
    with spark_output_to(log), display(is_json=is_json) as plain, with_status_page(plain, plan, ui) as shown:
        from headrace.pipeline.spark_session import start_spark

        # pyspark warns about versions of pandas that it was not tested with.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        try:
            spark = start_spark(plan, master)
            try:
                # Only now: start_spark imports it while the JVM starts.
                from headrace.pipeline.runner import Job, Stop

                stop = Stop()
                signals = _Signals(stop)
                shown.begin(plan)
                totals = Job(plan, spark, follow=not once, stop=stop).run(shown)
                shown.end(totals)
            finally:
                _stop_spark(spark)
        except HeadraceError as error:
            error.add_note(f"Log: {log}")
            raise
    return signals.code if once else exit_codes.DONE


class _Signals:
    """Requests a stop on Ctrl-C and SIGTERM. Create it after Spark, which installs its own handler.

    A signal handler can run in the middle of a print, so it prints nothing.
    """

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self.code = exit_codes.DONE
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def _handle(self, number: int, _: object) -> None:
        self.code = exit_codes.INTERRUPTED if number == signal.SIGINT else exit_codes.TERMINATED
        self._stop.ask()
        if self._stop.is_now:
            code = self.code
            timer = threading.Timer(_GRACE_SECONDS, lambda: os._exit(code))
            timer.daemon = True
            timer.start()


def _stop_spark(spark: Any) -> None:
    """Stop Spark, with a timeout: `stop` can hang if the JVM was killed."""
    stopping = threading.Thread(target=spark.stop, daemon=True)
    stopping.start()
    stopping.join(_GRACE_SECONDS)

"""`headrace run`: a pipeline file from its source into its table."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli import exit_codes

if TYPE_CHECKING:
    from headrace.pipeline.runner import Stop

# After a second Ctrl-C, Spark has this long to go.
_GRACE_SECONDS = 10.0


@click.command()
@click.argument("pipeline", type=click.Path(path_type=Path))
@click.option("--once/--follow", default=True, help="Stop when all there is has landed (the default), or go on.")
@click.option("--master", help="The Spark to use, such as spark://host:7077; the file's, or one in this process.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object a line.")
@click.option(
    "--ui", type=click.IntRange(0, 65535), metavar="PORT", help="A status page on this port of 127.0.0.1; 0 picks one."
)
@click.option("--log", type=click.Path(dir_okay=False, path_type=Path), help="Where Spark's own output goes.")
def run(pipeline: Path, once: bool, master: str | None, is_json: bool, ui: int | None, log: Path | None) -> int:
    """Run PIPELINE, a file such as `headrace init` writes.

    Ctrl-C, or SIGTERM, stops after the epoch that is going on; a second one at once. Either is safe: the next run goes
    on where this one ended.

    \b
    Exit codes: 0 done; 1 failed; 2 the file or command line is wrong; 3 Java or an
    extra is missing; 130 or 143 stopped by Ctrl-C or SIGTERM before all had landed.
    """  # noqa: D301 - click wants the character itself
    from headrace.cli.display import display
    from headrace.cli.noise import noise_to
    from headrace.cli.page import with_page
    from headrace.pipeline import load
    from headrace.pipeline.java import require_java

    plan = load(pipeline)
    require_java()
    log = log or pipeline.parent / ".headrace" / f"{Path(plan.checkpoint).name}.log"
    with noise_to(log), display(is_json=is_json) as plain, with_page(plain, plan, ui) as shown:
        from headrace.pipeline.runner import Job, Stop
        from headrace.pipeline.spark_session import start_spark

        # pyspark's, about versions of pandas it does not know.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        spark = start_spark(plan, master)
        try:
            stop = Stop()
            signals = _Signals(stop)
            shown.begin(plan)
            totals = Job(plan, spark, follow=not once, stop=stop).run(shown.epoch, shown.stopping)
            shown.end(totals)
        finally:
            _stop_spark(spark)
    return signals.code if once else exit_codes.DONE


class _Signals:
    """Turns Ctrl-C and SIGTERM into asking the job to stop. To be made after Spark, which has a handler of its own.

    A handler may come in the middle of anything, printing included, so it prints nothing itself.
    """

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self.code = exit_codes.DONE
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._heard)

    def _heard(self, number: int, _: object) -> None:
        self.code = exit_codes.INTERRUPTED if number == signal.SIGINT else exit_codes.TERMINATED
        self._stop.ask()
        if self._stop.is_now:
            code = self.code
            timer = threading.Timer(_GRACE_SECONDS, lambda: os._exit(code))
            timer.daemon = True
            timer.start()


def _stop_spark(spark: Any) -> None:
    """Spark's own way out may hang if it was killed."""
    stopping = threading.Thread(target=spark.stop, daemon=True)
    stopping.start()
    stopping.join(_GRACE_SECONDS)

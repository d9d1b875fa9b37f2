"""The command line that every bench has."""

from __future__ import annotations

import argparse
import inspect
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from harness.case import Case
from harness.machine import machine, versions
from harness.results import Result, save
from harness.run import measure
from harness.tables import rows, text, verdict

RESULTS = Path(__file__).parents[1] / "results"

Cases = Callable[[argparse.Namespace], Iterator[Case]]


def main(
    cases: Cases,
    *,
    options: Callable[[argparse.ArgumentParser], object] = lambda parser: None,
    child: Callable[..., None] | None = None,
) -> None:
    """Measure a bench's cases, print each, and save all of them if asked to.

    Args:
        cases: Yields the cases. What a case needs is set up before it is yielded and released afterwards.
        options: Adds the bench's arguments to the command line.
        child: Called instead, with the arguments, in a process that `in_child` started.
    """
    if child is not None and sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
        return
    bench = Path(sys.argv[0])
    arguments = _arguments(bench, options)
    where, started, measured = machine(), time.monotonic(), []
    for case in cases(arguments):
        if arguments.only not in case.name:
            continue
        result = measure(case, quick=arguments.quick)
        measured.append(result)
        print(f"\n{result.name}\n{text(rows(result))}")
        for aim in result.aims:
            print(verdict(aim, result.units))
        sys.stdout.flush()
    if arguments.output:
        seconds = round(time.monotonic() - started, 1)
        today = datetime.now(UTC).date().isoformat()
        about = inspect.getdoc(sys.modules["__main__"]) or ""
        result_of_all = Result(bench.stem, about, today, seconds, arguments.quick, where, versions(), measured)
        print(f"\nSaved {save(result_of_all, arguments.output)} after {seconds:.0f} s")


def _arguments(bench: Path, options: Callable[[argparse.ArgumentParser], object]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=bench.name)
    parser.add_argument("--quick", action="store_true", help="one round of little data, to see that the bench runs")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the cases with this text in their name")
    parser.add_argument(
        "--save", dest="output", action="store_const", const=RESULTS, help="save the results in bench/results"
    )
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="save the results in another folder")
    options(parser)
    arguments = parser.parse_args()
    if arguments.output and arguments.only:
        parser.error("a saved result has all cases: leave out --only")
    if arguments.quick and arguments.output and arguments.output.resolve() == RESULTS:
        parser.error("a quick run measures nothing: save it elsewhere, with --output FOLDER")
    return arguments

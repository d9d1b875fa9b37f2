"""The figures in the README, inserted between two marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.results import Result
from harness.tables import markdown, number

BEGIN, END = "<!-- figures: written by `make bench-report` -->", "<!-- end of figures -->"


@dataclass(frozen=True, slots=True)
class Headline:
    """A line of the README: a metric of one of our contenders, beside that of others, with names for them."""

    what: str
    bench: str
    case: str
    metric: str
    of: str
    others: Mapping[str, str]


HEADLINES = (
    *(
        Headline(
            f"sum by key of {rows} million rows of a push table, in {shape}",
            "push",
            shape,
            "time",
            "push table",
            {
                "memory": "the rows in memory",
                "DuckDB, reader": "DuckDB over a `RecordBatchReader`",
                "DataFusion, queue": "DataFusion over a `queue.Queue`",
            },
        )
        for rows, shape in ((2, "batches of 100 rows"), (12, "batches of 8,192 rows"))
    ),
    Headline(
        "a row, from its producer through a filter to the reader, waiting a second at most",
        "live",
        "latency of a row",
        "latency",
        "push table",
        {"DuckDB, queue": "DuckDB over a `queue.Queue`", "DataFusion, queue": "DataFusion over one"},
    ),
    *(
        Headline(
            f"{metric}, streaming 2 GB out of a query on 8 partitions",
            "stream",
            "8 partitions",
            metric,
            "execute_stream",
            {"DataFusion, export": "the stream that DataFusion exports", "collect": "`collect`, which keeps it"},
        )
        for metric in ("peak memory", "time")
    ),
    Headline(
        "TPC-H at scale 1 over batches from a provider in Python, geometric mean",
        "tpch",
        "the geometric mean of the queries",
        "time",
        "session, provider of batches",
        {
            "datafusion, parquet": "DataFusion over Parquet",
            "datafusion, pyarrow's parquet": "DataFusion over a pyarrow dataset of Parquet",
        },
    ),
    *(
        Headline(
            f"an epoch of {rows} narrow rows from Spark, landed exactly once",
            "sink",
            f"steady epochs of {rows} narrow rows",
            "time",
            'format("lance")',
            {"Spark's parquet": "Spark's Parquet sink", "rows dropped": "the rows handed to Python and dropped"},
        )
        for rows in ("1,000", "2,000,000")
    ),
)


def insert(readme: str, results: Mapping[str, Result], headlines: Sequence[Headline] = HEADLINES) -> str:
    """Return the README with its figures replaced by those of the results.

    Raises:
        SystemExit: The marks are missing, or a result, case or contender of a headline is.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"The README has no {BEGIN} followed by {END}")
    header = ["median, less is better", "headrace", "compared with"]
    table = markdown([header, *(_row(headline, results) for headline in headlines)], names=len(header))
    of = {headline.bench: results[headline.bench] for headline in headlines}.values()
    where = "; ".join(dict.fromkeys(f"{result.machine.cpu}, {result.machine.cores} cores" for result in of))
    when = max(result.date for result in of)
    return f"{before}{begin}\n\n{table}\n\nMeasured on {when}: {where}.\n\n{end}{after}"


def _row(headline: Headline, results: Mapping[str, Result]) -> list[str]:
    try:
        case = next(case for case in results[headline.bench].cases if case.name == headline.case)
        figures = {line.contender: line.figures[headline.metric] for line in case.lines}
        medians = {name: figures[name].median for name in (headline.of, *headline.others)}
    except (KeyError, StopIteration):
        raise SystemExit(f"bench/results has no figures for {headline}") from None
    unit = case.units[headline.metric]
    cells = {name: "nothing arrived" if value is None else f"{number(value)} {unit}" for name, value in medians.items()}
    return [
        headline.what,
        cells[headline.of],
        "; ".join(f"{what}: {cells[name]}" for name, what in headline.others.items()),
    ]

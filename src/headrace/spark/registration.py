"""Makes the formats known to a Spark session."""

from __future__ import annotations

from typing import Any

from headrace.errors import InvalidArgumentError, MissingExtraError

_OLDEST = (4, 1)

# Spark shows the options of a stream in its plan, and hides only those whose names it takes for secret.
_HIDDEN = "spark.sql.redaction.options.regex"
_OURS = "^storage[.]|^namespace[.]"


def register(spark: Any) -> None:
    """Make ``format("lance")``, and the same under the name ``headrace``, known to a Spark session.

    Where headrace is installed beside pyspark, Spark finds both by itself; registering is for sessions that are
    remote or were made before. Registering also has the session hide ``storage.`` and ``namespace.`` options where it
    shows a plan.

    Args:
        spark: The ``SparkSession``.

    Raises:
        MissingExtraError: pyspark is not installed, or its data sources cannot write Arrow streams yet.
        InvalidArgumentError: It is not a Spark session.
    """
    require_pyspark()
    from headrace.spark.datasource import HeadraceDataSource, LanceDataSource

    registry = getattr(spark, "dataSource", None)
    if registry is None:
        raise InvalidArgumentError(
            f"register needs a SparkSession, not {type(spark).__name__}.", hint="pass the session itself."
        )
    for source in (LanceDataSource, HeadraceDataSource):
        if not _is_known(spark, source.name()):
            registry.register(source)
    hidden = spark.conf.get(_HIDDEN)
    if _OURS not in hidden:
        spark.conf.set(_HIDDEN, f"{hidden}|{_OURS}" if hidden else _OURS)


def _is_known(spark: Any, name: str) -> bool:
    """Whether Spark has found the format by itself; to register it again would only make it warn."""
    try:
        return bool(spark._jsparkSession.sessionState().dataSourceManager().dataSourceExists(name))
    except Exception:  # noqa: BLE001 - a remote session has no JVM at hand, and each kind says so in its own way
        return False


def require_pyspark(oldest: tuple[int, int] = _OLDEST) -> None:
    """Check that pyspark is there and new enough.

    Raises:
        MissingExtraError: It is not.
    """
    wanted = ".".join(map(str, oldest))
    try:
        import pyspark
    except ImportError:
        raise MissingExtraError(
            "headrace.spark needs pyspark, which is not installed.",
            hint="install it with: pip install 'headrace[spark]'",
        ) from None
    if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < oldest:
        raise MissingExtraError(
            f'format("lance") needs Spark {wanted} or newer, and this is {pyspark.__version__}.',
            hint="use headrace.spark.LanceSink with foreachBatch, which runs on Spark 3.5 and newer.",
        )

"""Register the data sources with a Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import InvalidArgumentError, MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OLDEST = (4, 1)

# Spark shows a stream's options in its plan, and redacts only those whose names match this setting.
_HIDDEN = "spark.sql.redaction.options.regex"
_OURS = "^storage[.]|^namespace[.]"


def register(spark: SparkSession) -> None:
    """Register ``format("lance")``, and ``format("headrace")`` as its second name, with a Spark session.

    If headrace is installed next to pyspark, Spark finds both without this call. Call it for remote sessions, and for
    sessions created before headrace was installed. It also makes the session redact ``storage.`` and ``namespace.``
    options in plans.

    Args:
        spark: The ``SparkSession``.

    Raises:
        MissingExtraError: pyspark is not installed, or too old for data sources that write Arrow streams.
        InvalidArgumentError: ``spark`` is not a Spark session.

    Example:
        >>> import headrace.spark
        >>> headrace.spark.register(spark)
        >>> spark.range(3).write.format("lance").mode("append").save(str(folder / "numbers.lance"))
        >>> spark.read.format("lance").load(str(folder / "numbers.lance")).count()
        3
    """
    require_pyspark()
    from headrace.spark.datasource import HeadraceDataSource, LanceDataSource

    registry = getattr(spark, "dataSource", None)
    if registry is None:
        raise InvalidArgumentError(
            f"register needs a SparkSession, not {type(spark).__name__}.", hint="pass the SparkSession."
        )
    for source in (LanceDataSource, HeadraceDataSource):
        if not _is_known(spark, source.name()):
            registry.register(source)
    hidden = spark.conf.get(_HIDDEN) or ""
    if _OURS not in hidden:
        spark.conf.set(_HIDDEN, f"{hidden}|{_OURS}" if hidden else _OURS)


def _is_known(spark: SparkSession, name: str) -> bool:
    """Whether Spark has found the format already; registering it again would log a warning."""
    try:
        return bool(spark._jsparkSession.sessionState().dataSourceManager().dataSourceExists(name))
    except Exception:  # noqa: BLE001 - a remote session has no JVM object, and each kind raises its own error
        return False


def require_pyspark(oldest: tuple[int, int] = _OLDEST) -> None:
    """Check that pyspark is installed and new enough.

    Raises:
        MissingExtraError: pyspark is not installed, or older than ``oldest``.
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
            f'format("lance") needs Spark {wanted} or newer, but pyspark {pyspark.__version__} is installed.',
            hint="use headrace.spark.LanceSink with foreachBatch, which runs on Spark 3.5 and newer.",
        )

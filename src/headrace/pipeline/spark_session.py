"""Start the Spark session of a pipeline: by default local, on the loopback interface and without console output."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from headrace.errors import ConfigurationError
from headrace.pipeline.early_imports import imports_beside_jvm
from headrace.pipeline.reasons import reason_of
from headrace.spark.registration import register, require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipeline.config import Pipeline

_EMBEDDED = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.python.unix.domain.socket.enabled": "true",
}
_ANYWHERE = {"spark.ui.showConsoleProgress": "false"}
# Spark looks for Python sources when one is registered, which takes a second.
_OURS = ("lance", "headrace")


def start_spark(pipeline: Pipeline, master: str | None = None) -> SparkSession:
    """Start Spark for a pipeline. The caller has checked that there is a Java.

    Args:
        pipeline: The pipeline.
        master: The master URL; None for the one in the file.

    Raises:
        MissingExtraError: pyspark is not installed, or too old.
        ConfigurationError: Spark rejects a setting, or does not start.
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    master = master or pipeline.spark.master
    is_embedded = master.startswith("local")
    if is_embedded:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = _ANYWHERE | (_EMBEDDED if is_embedded else {}) | pipeline.spark.conf
    builder = SparkSession.builder.appName(f"headrace {pipeline.name}").master(master)
    for name, value in settings.items():
        builder = builder.config(name, str(value).lower() if isinstance(value, bool) else str(value))
    try:
        with imports_beside_jvm():
            spark = builder.getOrCreate()
    except Exception as error:  # py4j raises anything, and the launcher RuntimeError
        raise ConfigurationError(
            f"Spark did not start on {master}: {reason_of(error)}",
            hint="check spark.master and spark.conf in the file.",
        ) from error
    if pipeline.source.format in _OURS:
        register(spark)
    # It logs SQL errors to standard error as JSON; they are raised as well.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    return spark

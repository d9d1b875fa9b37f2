"""The data source that Spark loads by name. It imports readers and writers only when Spark asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from headrace.spark.reader import LanceBatchReader, LanceStreamReader
    from headrace.spark.writer import LanceBatchWriter, LanceStreamWriter


class LanceDataSource(DataSource):
    """``format("lance")``."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "lance"

    def schema(self) -> StructType:
        """Return the schema of a read for which the user gave none.

        Runs on: the driver. Called: when a DataFrame is created. On failure: no DataFrame is created.

        Raises:
            ConfigurationError: An option is wrong.
            TableNotFoundError: The table does not exist.
            SchemaMismatchError: Spark has no type for a column.
        """
        from headrace.spark import options
        from headrace.spark.reader import schema_of

        found: StructType = schema_of(options.any_reading(self.options))
        return found

    def reader(self, schema: StructType) -> LanceBatchReader:
        """Return a batch reader, which reads one version.

        Runs on: the driver. Called: once per scan. On failure: the query fails.

        Raises:
            ConfigurationError: An option is wrong.
        """
        from headrace.spark import options
        from headrace.spark.reader import FilteringBatchReader, LanceBatchReader

        settings = options.reading(self.options)
        return (FilteringBatchReader if settings.pushes_filters else LanceBatchReader)(settings, schema)

    def streamReader(self, schema: StructType) -> LanceStreamReader:
        """Return a streaming reader, which reads the rows that are added to the table.

        Runs on: the driver. Called: when a query is started. On failure: the query stops.

        Raises:
            ConfigurationError: An option is wrong.
        """
        from headrace.spark import options
        from headrace.spark.reader import LanceStreamReader

        return LanceStreamReader(options.stream_reading(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LanceStreamWriter:
        """Return a writer for one epoch of a stream.

        Runs on: the driver. Called: for each epoch before its tasks, and before each commit. On failure: the query
        stops before anything is written.

        Raises:
            ConfigurationError: An option is wrong.
            TableNotFoundError: The table does not exist, and ``createTable`` is not set.
            TableReplacedError: The table no longer exists, and the checkpoint is not new.
            SchemaMismatchError: The rows do not fit the table.
        """
        from headrace.spark import options
        from headrace.spark.writer import LanceStreamWriter

        settings = options.streaming(self.options)
        return LanceStreamWriter(settings, schema, overwrite, self.options.get("checkpointLocation", ""))

    def writer(self, schema: StructType, overwrite: bool) -> LanceBatchWriter:
        """Return a writer for a batch job.

        Runs on: the driver. Called: once per job. On failure: the job fails before anything is written.

        Raises:
            ConfigurationError: An option is wrong.
            TableNotFoundError: The table does not exist, and ``createTable`` is not set.
            SchemaMismatchError: The rows do not fit the table.
        """
        from headrace.spark import options
        from headrace.spark.writer import LanceBatchWriter

        return LanceBatchWriter(options.batch(self.options), schema, overwrite)


class HeadraceDataSource(LanceDataSource):
    """``format("headrace")``: the same source under a second name, which no other source on the class path uses."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "headrace"

"""Registers ``format("lance")``: Spark discovers this package by its name. Imports headrace only on first use."""

from typing import Any

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):
    """``format("lance")``, loaded on first use."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "lance"

    def schema(self) -> Any:
        """See `headrace.spark.datasource.LanceDataSource.schema`."""
        return self._source().schema()

    def reader(self, schema: Any) -> Any:
        """See `headrace.spark.datasource.LanceDataSource.reader`."""
        return self._source().reader(schema)

    def streamReader(self, schema: Any) -> Any:
        """See `headrace.spark.datasource.LanceDataSource.streamReader`."""
        return self._source().streamReader(schema)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """See `headrace.spark.datasource.LanceDataSource.streamWriter`."""
        return self._source().streamWriter(schema, overwrite)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """See `headrace.spark.datasource.LanceDataSource.writer`."""
        return self._source().writer(schema, overwrite)

    def _source(self) -> Any:
        from headrace.spark.datasource import LanceDataSource

        return LanceDataSource(self.options)

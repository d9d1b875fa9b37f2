"""TPC-H: its queries, its tables in several forms, and the comparison of two answers."""

from _tpch.answers import difference
from _tpch.data import TABLES, lance_tables, parquet_tables
from _tpch.providers import MemoryTable, ParquetTable
from _tpch.queries import QUERIES, order_keys, scans

__all__ = [
    "QUERIES",
    "TABLES",
    "MemoryTable",
    "ParquetTable",
    "difference",
    "lance_tables",
    "order_keys",
    "parquet_tables",
    "scans",
]

"""The tables of TPC-H, generated once per scale and folder, as Parquet files and as Lance tables."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.parquet as pq

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")

_ROW_GROUP = 128 * 1024


def parquet_tables(scale: float, folder: Path) -> dict[str, Path]:
    """Return a Parquet file per table in ``folder``, generated if it is not there.

    The generator declares its texts as string views, which pyarrow cannot filter. The files have plain strings, as
    most files have.
    """
    files = {table: folder / f"{table}.parquet" for table in TABLES}
    if not folder.exists():
        made = folder.with_name(f"{folder.name}.made")
        shutil.rmtree(made, ignore_errors=True)
        generator = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
        subprocess.run([generator, "parquet", "-q", "-s", str(scale), "-o", made / "views"], check=True)
        for table in TABLES:
            _with_plain_strings(made / "views" / files[table].name, made / files[table].name)
        shutil.rmtree(made / "views")
        made.rename(folder)
    return files


def lance_tables(files: Mapping[str, Path]) -> dict[str, Path]:
    """Return a Lance table beside each Parquet file, written if it is not there."""
    tables = {table: file.with_suffix(".lance") for table, file in files.items()}
    for table, path in tables.items():
        if not path.exists():
            source = pq.ParquetFile(files[table])
            made = path.with_suffix(".made")
            shutil.rmtree(made, ignore_errors=True)
            lance.write_dataset(pa.RecordBatchReader.from_batches(source.schema_arrow, source.iter_batches()), made)
            made.rename(path)
    return tables


def _with_plain_strings(source: Path, target: Path) -> None:
    file = pq.ParquetFile(source)
    plain = [
        pa.field(field.name, pa.string() if field.type == pa.string_view() else field.type, field.nullable)
        for field in file.schema_arrow
    ]
    schema = pa.schema(plain)
    with pq.ParquetWriter(target, schema, store_decimal_as_integer=True) as writer:
        for batch in file.iter_batches(_ROW_GROUP):
            writer.write_table(pa.Table.from_batches([batch]).cast(schema))

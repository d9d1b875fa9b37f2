"""Random values of all types against a model in plain Python: each lands as itself or is refused, never as another."""

from __future__ import annotations

import math
import struct
import uuid
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from headrace import SchemaMismatchError
from headrace.arrow.align import Alignment
from headrace.tables.commit.ledger import QueryRun, Task
from headrace.tables.commit.payload import AppendPayload, OverwritePayload, Payload
from headrace.tables.commit.protocol import EpochCommitter
from headrace.tables.lance_store import LanceStore
from headrace.tables.location import Location
from headrace.tables.settings import Rules
from headrace.tables.write import upsert
from headrace.tables.write.data_files import write_rows, write_staged
from support.lance_tables import create_table
from support.nested_values import shapes
from support.values import ALL_LEAVES, FIXED_LEAVES, LEAVES, MisfitError, Shape, expected, nullable


def model(shape: Shape, values: list[Any]) -> list[Any] | None:
    """What values must become; None if one of them does not fit."""
    try:
        return [expected(shape, value) for value in values]
    except MisfitError:
        return None


def sharp(value: Any) -> Any:
    """Values that are equal only if they are the same: zeros have signs, and nan is nan."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, list | tuple):
        return [sharp(each) for each in value]
    return value


def is_sound(batch: pa.RecordBatch) -> bool:
    """Whether Arrow finds nothing wrong with the rows themselves, such as a date64 in the middle of a day."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def test_the_edges_of_every_pair_of_types() -> None:
    """L31: the last value that fits does, and the first that does not is refused."""
    refused = 0
    for leaf in dict.fromkeys(ALL_LEAVES):
        try:
            alignment = Alignment(pa.schema([("c", leaf.source)]), pa.schema([("c", leaf.target)]))
        except SchemaMismatchError:  # A type that could hold nothing but zeros of the other.
            assert not any(model(leaf, [value]) for value in leaf.edges() if value), leaf
            continue
        for value in leaf.edges():
            batch = pa.record_batch([leaf.build([value])], names=["c"])
            wanted = model(leaf, [value])
            try:
                found = leaf.read(alignment.apply(batch).column(0))
            except SchemaMismatchError:
                found, refused = None, refused + 1
            assert sharp(found) == sharp(wanted), (leaf, value)
    assert refused > 1000


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_value_is_itself_or_is_refused_by_name(data: st.DataObject) -> None:
    """L31: at any depth; what a null hides or a slice leaves out does not count."""
    shape = data.draw(shapes(ALL_LEAVES, FIXED_LEAVES))
    values = data.draw(st.lists(nullable(shape), max_size=6))
    start = data.draw(st.integers(0, len(values)))
    shown = values[start : data.draw(st.integers(start, len(values)))]
    batch = pa.record_batch([shape.build(values)], names=["c"]).slice(start, len(shown))
    wanted = model(shape, shown)
    try:
        alignment = Alignment(batch.schema, pa.schema([("c", shape.target)]))
    except SchemaMismatchError:
        reject()  # A type that could hold nothing but zeros of the other.
    if wanted is None:
        with pytest.raises(SchemaMismatchError, match="Column 'c") as caught:
            alignment.apply(batch)
        assert "Hint:" in str(caught.value)
        return
    landed = alignment.apply(batch)
    landed.validate(full=is_sound(batch))
    assert landed.schema.field("c").type == shape.target
    assert sharp(shape.read(landed.column(0))) == sharp(wanted)


def written(way: str, batch: pa.RecordBatch, location: Location, schema: pa.Schema) -> Payload:
    """The rows as a task writes them."""
    if way == "upsert":
        staging = Location(f"{location.uri}-staged")
        messages = [write_staged([batch], location, staging, Task(0), ("id",))]
        return upsert.staged_rows(messages, schema, staging, location, ("id",))
    message = write_rows([batch], location, Task(0), replacing=way == "complete")
    return OverwritePayload([message]) if way == "complete" else AppendPayload([message])


@pytest.mark.parametrize("way", ["append", "complete", "upsert"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_table_has_the_values_or_stays_as_it_was(tmp_path: Path, way: str, data: st.DataObject) -> None:
    """L31: read back from Lance, which casts nothing itself; a refusal comes before a commit."""
    shape = data.draw(shapes(LEAVES, FIXED_LEAVES))
    values = data.draw(st.lists(nullable(shape), min_size=1, max_size=5))
    schema = pa.schema([("id", pa.int64()), ("c", shape.target)])
    location = Location(str(tmp_path / uuid.uuid4().hex))
    create_table(location.uri, schema)
    batch = pa.record_batch([pa.array(range(len(values)), pa.int64()), shape.build(values)], names=["id", "c"])
    wanted = model(shape, values)
    if wanted is None:
        with pytest.raises(SchemaMismatchError, match="Column 'c"):
            written(way, batch, location, schema)
        assert (lance.dataset(location.uri).version, lance.dataset(location.uri).count_rows()) == (1, 0)
        return
    EpochCommitter(LanceStore(location), Rules("query"), QueryRun("run")).commit(
        0, written(way, batch, location, schema)
    )
    found = lance.dataset(location.uri).to_table().sort_by("id")["c"].combine_chunks()
    assert sharp(shape.read(found)) == sharp(wanted)

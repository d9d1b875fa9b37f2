"""The model of casts at any depth: lists, vectors, structs, maps and dictionaries of plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from support.values import (
    ENCODED_LEAVES,
    Leaf,
    MisfitError,
    Shape,
    count_range,
    expected,
    is_bytes,
    is_text,
    nullable,
    rounded,
)


@dataclass(frozen=True)
class Lists:
    """Lists of any width, and vectors."""

    item: Shape
    sizes: tuple[int | None, int | None]
    large: tuple[bool, bool] = (False, False)

    @property
    def source(self) -> pa.DataType:
        return self._kind(self.item.source, 0)

    @property
    def target(self) -> pa.DataType:
        return self._kind(self.item.target, 1)

    def _kind(self, item: pa.DataType, side: int) -> pa.DataType:
        size = self.sizes[side]
        if size is not None:
            return pa.list_(item, size)
        return pa.large_list(item) if self.large[side] else pa.list_(item)

    def values(self) -> st.SearchStrategy[Any]:
        size = self.sizes[0]
        usual = self.sizes[1] if self.sizes[1] is not None and size is None else size
        whole = st.lists(nullable(self.item), min_size=usual or 0, max_size=3 if usual is None else usual)
        return whole if size is not None else st.one_of(whole, whole, st.lists(nullable(self.item), max_size=3))

    def expected(self, value: Any) -> Any:
        if self.sizes[1] is not None and len(value) != self.sizes[1]:
            raise MisfitError
        return [expected(self.item, each) for each in value]

    def build(self, values: list[Any]) -> pa.Array:
        size, mask = self.sizes[0], pa.array([value is None for value in values], pa.bool_())
        lists = [hidden(self.item, size or 1) if value is None else value for value in values]
        items = self.item.build([each for value in lists for each in value])
        if size is not None:
            return pa.FixedSizeListArray.from_arrays(items, type=self.source, mask=mask)
        ends = [sum(len(value) for value in lists[:count]) for count in range(len(lists) + 1)]
        kind = pa.LargeListArray if self.large[0] else pa.ListArray
        offsets = pa.array(ends, pa.int64() if self.large[0] else pa.int32())
        return kind.from_arrays(offsets, items, type=self.source, mask=mask)

    def read(self, array: pa.Array) -> list[Any]:
        items = iter(self.item.read(array.flatten()))
        lengths = pc.list_value_length(array).to_pylist()
        return [None if length is None else [next(items) for _ in range(length)] for length in lengths]


@dataclass(frozen=True)
class Structs:
    """Structs, whose fields come in the other order in the table."""

    fields: tuple[Shape, ...]

    @property
    def source(self) -> pa.DataType:
        return pa.struct([(f"f{number}", each.source) for number, each in enumerate(self.fields)])

    @property
    def target(self) -> pa.DataType:
        pairs = [(f"f{number}", each.target) for number, each in enumerate(self.fields)]
        return pa.struct(pairs[::-1])

    def values(self) -> st.SearchStrategy[Any]:
        return st.tuples(*(nullable(each) for each in self.fields))

    def expected(self, value: Any) -> Any:
        return tuple(expected(shape, each) for shape, each in zip(self.fields, value, strict=True))

    def build(self, values: list[Any]) -> pa.Array:
        rows = [tuple(hidden(each, 1)[0] for each in self.fields) if value is None else value for value in values]
        children = [shape.build([row[number] for row in rows]) for number, shape in enumerate(self.fields)]
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=list(self.source), mask=mask)

    def read(self, array: pa.Array) -> list[Any]:
        children = [shape.read(array.field(f"f{number}")) for number, shape in enumerate(self.fields)]
        return [
            row if is_valid else None for is_valid, row in zip(valid(array), zip(*children, strict=True), strict=True)
        ]


@dataclass(frozen=True)
class Maps:
    """Maps from text."""

    item: Shape

    @property
    def source(self) -> pa.DataType:
        return pa.map_(pa.string(), self.item.source)

    @property
    def target(self) -> pa.DataType:
        return pa.map_(pa.large_string(), self.item.target)

    def values(self) -> st.SearchStrategy[Any]:
        return st.lists(st.tuples(st.text(max_size=2), nullable(self.item)), max_size=2, unique_by=lambda pair: pair[0])

    def expected(self, value: Any) -> Any:
        return [(key, expected(self.item, each)) for key, each in value]

    def build(self, values: list[Any]) -> pa.Array:
        entries = [("hidden", hidden(self.item, 1)[0])]
        maps = [entries if value is None else value for value in values]
        keys = pa.array([key for each in maps for key, _ in each], pa.string())
        items = self.item.build([item for each in maps for _, item in each])
        ends = pa.array([sum(len(each) for each in maps[:count]) for count in range(len(maps) + 1)], pa.int32())
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.MapArray.from_arrays(ends, keys, items, type=self.source, mask=mask)

    def read(self, array: pa.Array) -> list[Any]:
        entries = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
        shown = entries.flatten()
        pairs = iter(zip(shown.field(0).to_pylist(), self.item.read(shown.field(1)), strict=True))
        lengths = pc.list_value_length(entries).to_pylist()
        return [None if length is None else [next(pairs) for _ in range(length)] for length in lengths]


@dataclass(frozen=True)
class Dictionaries:
    """Dictionaries on either side."""

    leaf: Leaf
    sides: tuple[bool, bool]

    @property
    def source(self) -> pa.DataType:
        return pa.dictionary(pa.int32(), self.leaf.source) if self.sides[0] else self.leaf.source

    @property
    def target(self) -> pa.DataType:
        return pa.dictionary(pa.int8(), self.leaf.target) if self.sides[1] else self.leaf.target

    def values(self) -> st.SearchStrategy[Any]:
        return self.leaf.values()

    def expected(self, value: Any) -> Any:
        return self.leaf.expected(value)

    def build(self, values: list[Any]) -> pa.Array:
        array = self.leaf.build(values)
        return array.dictionary_encode() if self.sides[0] else array

    def read(self, array: pa.Array) -> list[Any]:
        return self.leaf.read(array.dictionary_decode() if self.sides[1] else array)


def valid(array: pa.Array) -> list[bool]:
    return list(array.is_valid().to_pylist())


def hidden(shape: Shape, count: int) -> list[Any]:
    """What lies under a null, where nobody sees it: values that do not fit, if there are any."""
    if not isinstance(shape, Leaf):
        return [None] * count
    kind = shape.source
    if pa.types.is_floating(kind):
        return [rounded(65520.0 if kind.bit_width == 32 else 1e300, 64) if kind.bit_width > 16 else 1.0] * count
    if pa.types.is_boolean(kind) or is_text(kind) or is_bytes(kind):
        return [None] * count
    return [count_range(kind)[1]] * count


def by_family(leaves: list[Leaf]) -> st.SearchStrategy[Leaf]:
    """Any pair, narrower ones as often as wider ones, each kind of type as often as each other."""
    families: dict[tuple[int, int], list[Leaf]] = {}
    for leaf in leaves:
        families.setdefault((leaf.source.id, leaf.target.id), []).append(leaf)
    groups = list(families.values())
    # By number: the types themselves would make a long text of the strategy.
    return st.tuples(st.integers(0, len(groups) - 1), st.integers(0, 999)).map(
        lambda drawn: groups[drawn[0]][drawn[1] % len(groups[drawn[0]])]
    )


def shapes(leaves: list[Leaf], fixed: list[Leaf], *, maps: bool = True) -> st.SearchStrategy[Any]:
    """Plain types and what can be made of them."""
    plain = by_family(leaves)
    side = st.booleans()
    encoded = st.sampled_from([(False, True), (True, False), (True, True)])
    dictionaries = st.builds(Dictionaries, by_family(ENCODED_LEAVES), encoded)
    vectors = st.builds(Lists, by_family(fixed), st.sampled_from([(None, 2), (2, 2), (2, None)]))

    def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        nested = [
            st.builds(Lists, inner, st.just((None, None)), st.tuples(side, side)),
            st.builds(Structs, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        ]
        return st.one_of(*nested, *([st.builds(Maps, inner)] if maps else []))

    return st.recursive(plain | plain | dictionaries | vectors, wider, max_leaves=3)

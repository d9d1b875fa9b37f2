"""A stream, and a table for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.lance_tables import create_table
from support.streams import ARROW_SCHEMA, StreamInput


@pytest.fixture
def source(tmp_path: Path) -> StreamInput:
    """A stream of one epoch."""
    source = StreamInput(tmp_path / "input")
    source.add(1, 2)
    return source


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """An empty table in a folder."""
    return create_table(tmp_path / "table.lance", ARROW_SCHEMA).uri

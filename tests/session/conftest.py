"""Fixtures that most of the session's tests use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import SessionContext


@pytest.fixture
def ctx() -> Iterator[SessionContext]:
    with SessionContext() as session:
        yield session

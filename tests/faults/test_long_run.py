"""A run that is left alone for some minutes, with everything that goes wrong in `make long-run`."""

from __future__ import annotations

import pytest
from long_run import run

from support.deadlines import allow_long_test


@pytest.mark.slow
@pytest.mark.xdist_group("pipelines")
def test_a_run_that_is_left_alone_lands_every_row_once_and_needs_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    """C29, C17, F9, F12: outages of the store in three ways, two full disks, and one kill of the driver."""
    allow_long_test()
    assert run(6, seed=1), capsys.readouterr().out

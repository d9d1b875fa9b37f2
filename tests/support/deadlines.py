"""How long what a test waits for may take: long enough that only a hang takes longer."""

from __future__ import annotations

import faulthandler

# A program in a separate process, with a start of Spark on a busy machine with cold caches. The limit of a whole
# test, in pyproject.toml, is above it.
PROGRAM_SECONDS = 300.0


def allow_long_test() -> None:
    """Lift the limit on the whole test, for a test in which every wait has its own deadline."""
    faulthandler.cancel_dump_traceback_later()

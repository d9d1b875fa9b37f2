"""How long a test may take all in all."""

from __future__ import annotations

import faulthandler


def allow_long_test() -> None:
    """For a test in which every wait has a deadline of its own: it is not ended for being long all in all."""
    faulthandler.cancel_dump_traceback_later()

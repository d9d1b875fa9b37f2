"""Keeps the modules of a Python worker out of the garbage collection that Spark runs after every task."""

from __future__ import annotations

import gc
import sys

_DAEMON = "pyspark.daemon"
_used = False


def spare_modules() -> None:
    """From the second use of a worker process, exempt the objects that survived the first from garbage collection.

    Runs on: a Python worker of Spark, on an executor or the driver; elsewhere it does nothing. Called: whenever Spark
    hands the process something to do. Spark's workers collect all garbage after every task. Each time that visits
    every object of pandas, pyarrow and Lance, which takes 10 to 25 ms, in four processes per epoch. What the first
    task left as garbage is gone when the second begins, so nothing is kept that could have been freed.
    """
    global _used
    if _used and not gc.get_freeze_count() and _is_worker():
        gc.freeze()
    _used = True


def _is_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return getattr(spec, "name", None) == _DAEMON

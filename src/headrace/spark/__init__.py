"""Spark and Lance: ``format("lance")`` and a ``foreachBatch`` sink, both landing every epoch exactly once."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.spark.foreach_batch import LanceSink
    from headrace.spark.registration import register
    from headrace.tables.commit.landed import Landed

__all__ = ["LanceSink", "Landed", "register"]

# The sink imports pyarrow, which `headrace run` does while the JVM starts: __getattr__ imports them on first use.
_HOMES = {
    "LanceSink": "headrace.spark.foreach_batch",
    "Landed": "headrace.tables.commit.landed",
    "register": "headrace.spark.registration",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(import_module(_HOMES[name]), name))


def __dir__() -> list[str]:
    return sorted(globals() | _HOMES)

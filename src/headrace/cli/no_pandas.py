"""Keep pyarrow from loading pandas, which takes a third of the time of a command that does not use it."""

from __future__ import annotations

import sys


class _Refuser:
    """Finds no module, and ends the search for pandas."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("The command does not use pandas.", name=name)


def keep_pandas_out() -> None:
    """Load pyarrow without pandas; for commands that start no Spark, which needs it.

    pyarrow looks for pandas when it makes its first value, as DataFusion and Lance do while they are imported, and
    never again. Other libraries can still load it.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _Refuser)
    try:
        import pyarrow as pa

        pa.scalar(0)
    finally:
        sys.meta_path.remove(_Refuser)

"""What a result depends on: the machine, and the versions of what ran."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

import headrace
from harness.results import Machine

_LIBRARIES = ("datafusion", "pyarrow", "pylance", "pyspark", "duckdb", "deltalake", "polars", "pandas", "numpy")


def machine() -> Machine:
    """Describe this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        cpu=_cpu(),
        cores=os.cpu_count() or 1,
        memory_gb=round(memory / 1e9),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        load=round(os.getloadavg()[0], 2),
    )


def versions() -> dict[str, str]:
    """Return the versions of Python, headrace, and the libraries that are installed."""
    found = {"python": platform.python_version(), "headrace": headrace.__version__}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())

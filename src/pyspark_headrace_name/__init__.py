"""Registers ``format("headrace")``, the second name of ``lance``: Spark discovers this package by its name."""

from pyspark_headrace import DefaultSource as _LanceSource


class DefaultSource(_LanceSource):
    """``format("headrace")``, loaded on first use."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "headrace"

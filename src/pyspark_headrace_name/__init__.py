"""Found by Spark by its name: makes ``format("headrace")``, the second name of ``lance``, known without a call."""

from pyspark_headrace import DefaultSource as _LanceSource


class DefaultSource(_LanceSource):
    """``format("headrace")``, loaded on first use."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "headrace"

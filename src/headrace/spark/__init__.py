"""Spark and Lance: ``format("lance")`` and a ``foreachBatch`` sink, both landing every epoch exactly once."""

from headrace.spark.foreach_batch import LanceSink
from headrace.spark.registration import register
from headrace.tables.commit.landed import Landed

__all__ = ["LanceSink", "Landed", "register"]

"""Pipeline files: one Spark source, SQL steps and one Lance table, run as a Spark query."""

from headrace.pipeline.config import Pipeline, load

__all__ = ["Pipeline", "load"]

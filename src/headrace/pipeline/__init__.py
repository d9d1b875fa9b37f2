"""Pipeline files: one Spark source, SQL steps and one Lance table, run as a Spark query."""

from headrace.pipeline.config import Pipeline
from headrace.pipeline.file import load

__all__ = ["Pipeline", "load"]

"""A pipeline file: one Spark source, SQL steps, one Lance table; and how it is run."""

from headrace.pipeline.config import Pipeline, load

__all__ = ["Pipeline", "load"]

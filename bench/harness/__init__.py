"""The benchmark harness: cases declared as data, measured in turns, saved as JSON and made into a report."""

from harness.case import Aim, Case, Metric, Samples, Work
from harness.child import PeakMemory, in_child
from harness.command import main

__all__ = ["Aim", "Case", "Metric", "PeakMemory", "Samples", "Work", "in_child", "main"]

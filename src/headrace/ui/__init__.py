"""The status page of a run: what it has done, served on a port of this machine. Loads neither Spark nor Lance."""

from headrace.ui.board import Board
from headrace.ui.server import Page, serve

__all__ = ["Board", "Page", "serve"]

"""The status page of a run, served on a port of this machine. Imports neither Spark nor Lance."""

from headrace.ui.server import Page, serve
from headrace.ui.status import RunStatus

__all__ = ["Page", "RunStatus", "serve"]

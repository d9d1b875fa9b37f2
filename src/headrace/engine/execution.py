"""One run of one query: the scans it claimed, what went wrong in them, and how it is brought to rest."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.channel.channel import Channel
from headrace.engine.runtime import workers
from headrace.engine.tables import ScanRequest, ScanTable
from headrace.errors import EngineError


class Scan(Protocol):
    """One partition's batches, in the hands of the engine."""

    def release(self) -> None:
        """The run is over: release what is held."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What the plan lets a provider leave out of one scan."""

    columns: tuple[str, ...] = ()
    """The columns that are read; empty for all."""
    filter: Any | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ScanFailure:
    """The first exception that kept a scan of the query from starting, or came out of it."""

    table: str
    error: BaseException
    as_itself: bool


class Execution:
    """One run of a query, from its planning to the release of everything it held.

    The engine plans on the thread that calls it, so the tables find the execution they are planned for in
    ``current_execution``; planning outside of one (EXPLAIN) claims nothing.

    Args:
        hints: By the tables' plan names, what a scan may leave out.
        max_rows: The most rows in a batch handed to the engine.
        exact_sizes: Whether the engine counts memory, and a slice must not share the buffers it would be charged for.
        on_end: Called once when everything is released.
    """

    def __init__(
        self,
        hints: Mapping[str, Hint],
        *,
        max_rows: int,
        exact_sizes: bool,
        on_end: Callable[[Execution], None],
    ) -> None:
        self.hints = hints
        self.max_rows = max_rows
        self.exact_sizes = exact_sizes
        self.failure: ScanFailure | None = None
        self.scanned: dict[str, tuple[str, ...]] = {}
        self._on_end = on_end
        self._lock = threading.RLock()
        self._claims: list[ScanTable] = []
        self._kept: list[object] = []
        self._channels: list[Channel] = []
        self._begun = threading.Event()
        self._holders = 1
        self._scans: list[weakref.ref[Scan]] = []
        self._open_scans = 0
        self._over = False
        self._cancelled: str | None = None

    @contextlib.contextmanager
    def planning(self) -> Iterator[None]:
        """Make this the execution that tables are planned for, on this thread."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def claim(self, table: ScanTable, holder: object) -> None:
        """Claim a scan for this run; what it raises also becomes the run's failure.

        Args:
            table: The table to scan.
            holder: Kept for as long as the run lasts, since the table goes when nobody holds it.
        """
        with self._recording(table):
            workers.acquire(table.partitions)
            try:
                table.claim(again=table in self._claims)
            except BaseException:
                workers.release(table.partitions)
                raise
        self._claims.append(table)
        self._kept.append(holder)

    def claim_again(self, table: ScanTable) -> None:
        """Claim another reading within a scan that is claimed; what it raises also becomes the run's failure."""
        with self._recording(table):
            table.claim(again=True)

    def begin(self) -> None:
        """Let the scans start: somebody wants the result."""
        self._begun.set()

    def open(self, table: ScanTable, request: ScanRequest) -> Channel:
        """Start one partition of a scan, once the result is wanted.

        The engine starts some operators as soon as a stream is built; their scans wait here, so that
        building a stream reads nothing.
        """
        self._begun.wait()
        with self._lock:
            if self._cancelled is not None:
                raise EngineError(f"The scan of table {table.name!r} began after its query ended: {self._cancelled}.")
            channel = table.open(request)
            self.scanned[table.name] = request.columns
            self._channels.append(channel)
        return channel

    def record(self, table: ScanTable, error: BaseException, *, as_itself: bool) -> None:
        """Remember the first failure of a scan; the engine would hand on only its text.

        Args:
            table: Whose scan it was.
            error: What was raised.
            as_itself: Whether the query raises just this, and not an error of the table that says so.
        """
        with self._lock:
            if self.failure is None:
                self.failure = ScanFailure(table.name, error, as_itself)

    @contextlib.contextmanager
    def _recording(self, table: ScanTable) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.record(table, error, as_itself=True)
            raise

    def scan_opened(self, scan: Scan) -> None:
        """The engine has a scan of this run in its hands; ``scan_released`` must follow."""
        with self._lock:
            self._scans.append(weakref.ref(scan))
            self._open_scans += 1

    def scan_released(self) -> None:
        """It has let go of one."""
        with self._lock:
            self._open_scans -= 1
        self._end_if_over()

    def hold(self) -> None:
        """Somebody more wants results of the run."""
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        """One less does; with the last one the run ends."""
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
        # The engine drops its scans when it gets to it; what they hold is free already.
        self.cancel("the query has ended")
        self._end_if_over()

    def _end_if_over(self) -> None:
        with self._lock:
            if self._over or self._holders or self._open_scans:
                return
            self._over = True
            claims, self._claims = self._claims, []
        for table in claims:
            table.cancel("the query that read it has ended")
            workers.release(table.partitions)
        self._kept.clear()
        self._on_end(self)

    def release_claims(self) -> None:
        """The run failed before it started: claims are undone, so that the tables can still be read."""
        with self._lock:
            claims = self._claims
            if not self._channels:
                self._claims = []
        if not self._channels:
            for table in claims:
                table.release()
                workers.release(table.partitions)
        self.cancel("the query could not be started")
        self.release()

    def cancel(self, reason: str) -> None:
        """Wake and end every scan; harmless at any time, from any thread."""
        with self._lock:
            self._cancelled = self._cancelled or reason
            claims, channels = list(self._claims), list(self._channels)
        self._begun.set()
        for table in claims:
            table.cancel(reason)
        for channel in channels:
            channel.cancel(reason)
        for reference in list(self._scans):
            scan = reference()
            if scan is not None:
                scan.release()


_current: ContextVar[Execution | None] = ContextVar("headrace_execution", default=None)


def current_execution() -> Execution | None:
    """The execution this thread is planning for."""
    return _current.get()

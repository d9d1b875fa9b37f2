"""One execution of a query: the scans it claimed, their first failure, and their release."""

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
    """A scan of one partition that the engine is reading."""

    def release(self) -> None:
        """Release the scan's resources: its execution has ended."""


@dataclass(frozen=True, slots=True)
class Hint:
    """The columns and rows that a provider may leave out of a scan.

    Attributes:
        columns: The columns that the query reads; empty for all.
        filter: A pyarrow expression that selects the needed rows, or None.
        limit: The number of rows that are enough, or None.
    """

    columns: tuple[str, ...] = ()
    filter: Any | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ScanRules:
    """How the engine reads the tables of a query.

    Attributes:
        max_rows: The maximum number of rows in a batch passed to the engine.
        exact_sizes: Whether the engine has a memory limit. Slices are then copied, since the engine would charge each
            slice for the whole buffer that it shares.
        shares: The number of scans among which the batches of one table are shared, if it has fewer partitions.
            With more than one their order is lost.
        is_live: Whether rows must reach the engine as soon as they arrive.
    """

    max_rows: int
    exact_sizes: bool
    shares: int
    is_live: bool

    def shares_of(self, partitions: int) -> int:
        """Return among how many scans each of a table's partitions is shared."""
        return max(1, self.shares // partitions)


@dataclass(frozen=True, slots=True)
class ScanFailure:
    """The first exception of a query's scans.

    Attributes:
        table: The name of the scanned table.
        error: The exception.
        raise_as_is: Whether the query raises the exception itself, not a TableError caused by it.
    """

    table: str
    error: BaseException
    raise_as_is: bool


class Execution:
    """One execution of a query, from planning to the release of its resources.

    Args:
        hints: Scan hints by the tables' plan names.
        rules: How the engine reads the tables.
        on_end: Called once, after everything is released.
    """

    def __init__(self, hints: Mapping[str, Hint], rules: ScanRules, on_end: Callable[[Execution], None]) -> None:
        self.hints = hints
        self.rules = rules
        self.failure: ScanFailure | None = None
        self.scanned: dict[str, tuple[str, ...]] = {}
        self._on_end = on_end
        self._lock = threading.RLock()
        self._claims: list[_Claim] = []
        self._kept: list[object] = []
        self._channels: list[Channel] = []
        self._begun = threading.Event()
        self._holders = 1
        self._scans: list[weakref.ref[Scan]] = []
        self._open_scans = 0
        self._over = False
        self._cancelled: str | None = None

    def claim(self, table: ScanTable, scans: int, holder: object) -> None:
        """Claim a table for this execution; an exception is also recorded as the failure.

        Args:
            table: The table to scan.
            scans: The number of scans that read it at the same time, each on a worker.
            holder: An object to keep alive until the execution ends: the table is freed when nothing refers to it.
        """
        with self._recording(table):
            workers.acquire(scans)
            try:
                table.claim(again=any(claim.table is table for claim in self._claims))
            except BaseException:
                workers.release(scans)
                raise
        self._claims.append(_Claim(table, scans))
        self._kept.append(holder)

    @property
    def held_workers(self) -> int:
        """The number of workers reserved for the claimed scans."""
        with self._lock:
            return sum(claim.scans for claim in self._claims)

    def claim_again(self, table: ScanTable) -> None:
        """Claim another read within a claimed scan; an exception is also recorded as the failure."""
        with self._recording(table):
            table.claim(again=True)

    def begin(self) -> None:
        """Let the scans start; called when the result is first read."""
        self._begun.set()

    def open(self, table: ScanTable, request: ScanRequest) -> Channel:
        """Start a scan of one partition; wait until ``begin`` is called.

        The engine starts some operators when a stream is built. Their scans wait here, so building a stream reads
        nothing.

        Raises:
            EngineError: The execution has been cancelled.
        """
        self._begun.wait()
        with self._lock:
            if self._cancelled is not None:
                raise EngineError(f"The scan of table {table.name!r} started after its query ended: {self._cancelled}.")
            channel = table.open(request)
            self.scanned[table.name] = request.columns
            self._channels.append(channel)
        return channel

    def record(self, table: ScanTable, error: BaseException, *, raise_as_is: bool) -> None:
        """Record the first failure of a scan; the engine keeps only its text.

        Args:
            table: The scanned table.
            error: The exception that was raised.
            raise_as_is: Whether the query raises ``error`` itself, not a TableError caused by it.
        """
        with self._lock:
            if self.failure is None:
                self.failure = ScanFailure(table.name, error, raise_as_is)

    @contextlib.contextmanager
    def _recording(self, table: ScanTable) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.record(table, error, raise_as_is=True)
            raise

    def scan_opened(self, scan: Scan) -> None:
        """Count a scan that the engine is reading; the scan calls ``scan_released`` once."""
        with self._lock:
            self._scans.append(weakref.ref(scan))
            self._open_scans += 1

    def scan_released(self) -> None:
        """Count a scan as released; the last one ends the execution if it has no holders."""
        with self._lock:
            self._open_scans -= 1
        self._end_if_over()

    def hold(self) -> None:
        """Add a holder."""
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        """Drop a holder; the last one ends the execution."""
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
        # The engine may drop its scans much later, so release them now.
        self.cancel("the query has ended")
        self._end_if_over()

    def _end_if_over(self) -> None:
        with self._lock:
            if self._over or self._holders or self._open_scans:
                return
            self._over = True
            claims, self._claims = self._claims, []
        for claim in claims:
            claim.table.cancel("the query that read it has ended")
            workers.release(claim.scans)
        self._kept.clear()
        self._on_end(self)

    def release_claims(self) -> None:
        """Undo the claims of an execution that failed to start, so that its tables can still be read."""
        with self._lock:
            claims = self._claims
            if not self._channels:
                self._claims = []
        if not self._channels:
            for claim in claims:
                claim.table.release()
                workers.release(claim.scans)
        self.cancel("the query could not be started")
        self.release()

    def cancel(self, reason: str) -> None:
        """Cancel every scan and wake its waiters; any thread may call this at any time."""
        with self._lock:
            self._cancelled = self._cancelled or reason
            claims, channels = list(self._claims), list(self._channels)
        self._begun.set()
        for claim in claims:
            claim.table.cancel(reason)
        for channel in channels:
            channel.cancel(reason)
        for reference in list(self._scans):
            scan = reference()
            if scan is not None:
                scan.release()


@dataclass(frozen=True, slots=True)
class _Claim:
    table: ScanTable
    scans: int


@dataclass(frozen=True, slots=True)
class Planning:
    """What the calling thread plans: the engine plans there, so a table finds this with ``current_planning``.

    Attributes:
        execution: The execution that the plan is for. None claims nothing (EXPLAIN).
        rules: How the engine reads the tables.
    """

    execution: Execution | None
    rules: ScanRules


_current: ContextVar[Planning | None] = ContextVar("headrace_planning", default=None)


@contextlib.contextmanager
def planning(execution: Execution | None, rules: ScanRules) -> Iterator[None]:
    """Set what the calling thread plans in the block."""
    token = _current.set(Planning(execution, rules))
    try:
        yield
    finally:
        _current.reset(token)


def current_planning() -> Planning | None:
    """Return what the calling thread plans, or None."""
    return _current.get()

"""Writing behind reading: one thread waits for Spark's next batch while another writes the batches before it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TypeVar

import pyarrow as pa

from headrace.errors import LandingError

_MAX_BATCHES = 16
_MAX_BYTES = 32 << 20

Result = TypeVar("Result")


def write_behind(
    batches: Iterable[pa.RecordBatch],
    write: Callable[[Iterator[pa.RecordBatch]], Result],
    *,
    max_batches: int = _MAX_BATCHES,
    max_bytes: int = _MAX_BYTES,
) -> Result:
    """Call ``write`` on a thread with the batches, which are read here; wait for it, and return its result.

    Lance's writer takes a batch, and asks for the next one when it has dealt with it. Meanwhile nobody would read
    from Spark, which makes a batch only when the one before it has been read.

    Args:
        batches: What is read.
        write: What is called with an iterator over it.
        max_batches: The most batches that are read and not yet taken.
        max_bytes: The most bytes that they may have; one batch may have more.

    Raises:
        BaseException: What reading or ``write`` raised. If reading fails, ``write`` gets that error from its iterator;
            if ``write`` fails, no further batch is read. Its thread has ended in either case.
        LandingError: ``write`` returned before it had taken every batch.
    """
    queue = _Queue(max_batches, max_bytes)
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            result = write(iter(queue))
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            outcome.set_exception(error)
        else:
            outcome.set_result(result)
        finally:
            queue.leave()

    thread = threading.Thread(target=run, name="headrace-write", daemon=True)
    thread.start()
    try:
        for batch in batches:
            if not queue.put(batch):
                break
        queue.end(None)
    except BaseException as error:
        queue.end(error)
        raise
    finally:
        thread.join()
    result = outcome.result()
    if queue.has_batches:
        raise LandingError("Rows were left when their data files were closed; nothing was committed.")
    return result


class _Queue:
    """Batches between two threads, bounded in number and bytes."""

    def __init__(self, max_batches: int, max_bytes: int) -> None:
        self._max_batches = max_batches
        self._max_bytes = max_bytes
        self._batches: deque[pa.RecordBatch] = deque()
        self._bytes = 0
        self._has_ended = self._has_left = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    @property
    def has_batches(self) -> bool:
        """Whether a batch was not taken."""
        return bool(self._batches)

    def put(self, batch: pa.RecordBatch) -> bool:
        """Add a batch; wait for room. Return whether batches are still taken."""
        size = batch.get_total_buffer_size()
        with self._changed:
            self._changed.wait_for(lambda: self._has_left or self._has_room(size))
            self._batches.append(batch)
            self._bytes += size
            self._changed.notify()
            return not self._has_left

    def end(self, error: BaseException | None) -> None:
        """Add no more; with an error, the iterator raises it instead of the batches that are left."""
        with self._changed:
            self._has_ended, self._error = True, error
            self._changed.notify()

    def leave(self) -> None:
        """Take no more."""
        with self._changed:
            self._has_left = True
            self._changed.notify()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._has_ended or self._batches)
                if self._error is not None:
                    raise self._error
                if not self._batches:
                    return
                batch = self._batches.popleft()
                self._bytes -= batch.get_total_buffer_size()
                self._changed.notify()
            yield batch

    def _has_room(self, size: int) -> bool:
        return not self._batches or (len(self._batches) < self._max_batches and self._bytes + size <= self._max_bytes)

"""Batches on their way to Spark: small ones are combined, and a thread reads some ahead."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator

import pyarrow as pa

# A finalizer may close a generator on a thread that is about to wait. It then checks again after this many seconds.
_LOOK_AGAIN = 0.5


def combined(batches: Iterable[pa.RecordBatch], *, rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in fewer batches: Spark takes longer for a batch than for a thousand rows.

    A batch with half the rows or bytes is not copied.

    Args:
        batches: Batches of one schema; those without rows are dropped.
        rows: The most rows of a combined batch.
        size: Its most bytes.
    """
    held: list[pa.RecordBatch] = []
    held_rows = held_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        is_small = batch.num_rows * 2 < rows and (nbytes := batch.nbytes) * 2 < size
        if held and (not is_small or held_rows + batch.num_rows > rows or held_bytes + nbytes > size):
            yield _one(held)
            held, held_rows, held_bytes = [], 0, 0
        if not is_small:
            yield batch
            continue
        held.append(batch)
        held_rows += batch.num_rows
        held_bytes += nbytes
    if held:
        yield _one(held)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def read_ahead(batches: Generator[pa.RecordBatch], count: int) -> Generator[pa.RecordBatch]:
    """Yield the batches while a thread reads up to ``count`` more.

    The thread starts with the first batch. When this generator has ended or is closed, the thread has ended too, and
    the batches are closed.

    Raises:
        BaseException: What reading the batches raises, after the batches before it.
    """
    ready = _Ready(count)

    def read() -> None:
        try:
            with contextlib.closing(batches):
                while ready.has_room() and (batch := next(batches, None)) is not None:
                    ready.put(batch)
            ready.end()
        except BaseException as error:  # noqa: BLE001 - raised by the generator
            ready.end(error)

    thread = threading.Thread(target=read, name="headrace-read-ahead", daemon=True)
    thread.start()
    try:
        while (batch := ready.take()) is not None:
            yield batch
    finally:
        ready.close()
        if thread is not threading.current_thread():  # Garbage collection may close a generator on any thread.
            thread.join()


class _Ready:
    """The batches that were read ahead. Its lock is reentrant, as that of everything that a finalizer may close."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._batches: deque[pa.RecordBatch] = deque()
        self._changed = threading.Condition(threading.RLock())
        self._is_ended = self._is_closed = False
        self._failure: BaseException | None = None

    def has_room(self) -> bool:
        """Wait until a batch may be read; return False if no more are wanted."""
        with self._changed:
            while len(self._batches) >= self._count and not self._is_closed:
                self._changed.wait(_LOOK_AGAIN)
            return not self._is_closed

    def put(self, batch: pa.RecordBatch) -> None:
        with self._changed:
            self._batches.append(batch)
            self._changed.notify_all()

    def end(self, failure: BaseException | None = None) -> None:
        """End the batches after those that were put."""
        with self._changed:
            self._is_ended, self._failure = True, failure
            self._changed.notify_all()

    def take(self) -> pa.RecordBatch | None:
        """Wait for the next batch; return None at the end, or raise the failure that ended the batches."""
        with self._changed:
            while not self._batches and not self._is_ended:
                self._changed.wait(_LOOK_AGAIN)
            if self._batches:
                self._changed.notify_all()
                return self._batches.popleft()
            if self._failure is not None:
                raise self._failure
            return None

    def close(self) -> None:
        """Drop the batches; no more are wanted."""
        with self._changed:
            self._is_closed = True
            self._batches.clear()
            self._changed.notify_all()

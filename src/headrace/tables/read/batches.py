"""Batches on their way to Spark: small ones are combined, and a thread reads some ahead."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Iterable, Iterator

import pyarrow as pa

from headrace.channel.channel import Channel


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
    # The thread has one more batch in hand while it waits for room.
    channel = Channel("the batches read ahead", max(1, count - 1))

    def read() -> None:
        try:
            with contextlib.closing(batches):
                for batch in batches:
                    channel.write(batch)
            channel.close()
        except BaseException as error:  # noqa: BLE001 - raised by the generator, unless it was closed
            channel.fail(error)

    thread = threading.Thread(target=read, name="headrace-read-ahead", daemon=True)
    thread.start()
    try:
        yield from channel.batches()
    finally:
        channel.cancel("no more batches are needed")
        if thread is not threading.current_thread():  # Garbage collection may close a generator on any thread.
            thread.join()

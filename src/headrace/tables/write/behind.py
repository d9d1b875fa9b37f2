"""Writing behind reading: one thread waits for Spark's next batch while another writes the batches before it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TypeVar

import pyarrow as pa

from headrace.channel.channel import Channel
from headrace.errors import ConsumerGoneError, LandingError

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
    channel = Channel("the batches of a task", max_batches, max_bytes)
    outcome: Future[Result] = Future()
    read = taken = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal taken
        for batch in channel.batches():
            taken += 1
            yield batch

    def run() -> None:
        try:
            outcome.set_result(write(counted()))
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            outcome.set_exception(error)
        finally:
            channel.cancel("nothing more is written")

    thread = threading.Thread(target=run, name="headrace-write", daemon=True)
    thread.start()
    try:
        for batch in batches:
            read += 1
            try:
                channel.write(batch)
            except ConsumerGoneError:
                break
        channel.close()
    except BaseException as error:
        channel.fail(error)
        raise
    finally:
        thread.join()
    result = outcome.result()
    if taken < read:
        raise LandingError("Rows were left when their data files were closed; nothing was committed.")
    return result

"""Two threads of a task: one reads Spark's batches, the other writes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from headrace import LandingError
from headrace.tables.write.behind import write_behind

SECONDS = 60.0  # only a hang takes longer


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array([number] * 1_000, pa.int64())})


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [each.column(0)[0].as_py() for each in batches]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) == before


class ReadError(Exception):
    """What reading raises."""


class WriteError(Exception):
    """What writing raises."""


@pytest.mark.parametrize("count", [0, 1, 100])
def test_every_batch_is_written_in_order(count: int) -> None:
    assert write_behind(map(batch, range(count)), numbers) == list(range(count))


def test_batches_are_read_while_one_is_being_written() -> None:
    """The writer does not go on before two more have been read; by one thread it would wait for ever."""
    read = threading.Semaphore(0)

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            yield batch(number)
            read.release()

    def write(batches: Iterator[pa.RecordBatch]) -> list[int]:
        first = next(batches)
        for _ in range(3):
            assert read.acquire(timeout=SECONDS)
        return [*numbers(iter([first])), *numbers(batches)]

    assert write_behind(batches(), write) == [0, 1, 2]


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        ({"max_batches": 3}, 3),
        ({"max_bytes": 2 * batch(0).get_total_buffer_size()}, 2),
        ({"max_bytes": 1}, 1),
    ],
)
def test_no_more_batches_wait_than_may(limits: dict[str, int], most: int) -> None:
    """One may always wait, however large it is. The writer begins when the reader has no room left."""
    taken, waiting, is_full = 0, [], threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(20):
            waiting.append(number - taken)
            if number == most:
                is_full.set()
            yield batch(number)

    def write(batches: Iterator[pa.RecordBatch]) -> int:
        nonlocal taken
        assert is_full.wait(SECONDS)
        for _ in batches:
            taken += 1
        return taken

    assert write_behind(batches(), write, **limits) == 20
    # The batch that the writer has just been given may not be counted yet.
    assert most <= max(waiting) <= most + 1


def test_an_error_of_reading_reaches_the_writer_and_the_caller() -> None:
    """The batches before it are not written as if they were all."""
    error, seen = ReadError("theirs"), []

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(0)
        raise error

    def write(batches: Iterator[pa.RecordBatch]) -> None:
        try:
            numbers(batches)
        except ReadError as raised:
            seen.append(raised)
            raise

    with pytest.raises(ReadError) as caught:
        write_behind(batches(), write)
    assert caught.value is error
    assert seen == [error]


def test_when_the_writer_fails_no_further_batch_is_read() -> None:
    """Though the reader has no room to put the one it has."""
    has_failed, read = threading.Event(), []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(10):
            read.append(number)
            yield batch(number)
            assert has_failed.wait(SECONDS)

    def write(batches: Iterator[pa.RecordBatch]) -> None:
        next(batches)
        has_failed.set()
        raise WriteError("full")

    with pytest.raises(WriteError, match="full"):
        write_behind(batches(), write, max_batches=1)
    assert len(read) <= 3


def test_a_writer_that_ends_before_the_rows_do_is_an_error() -> None:
    """Rows would be lost."""
    with pytest.raises(LandingError, match="nothing was committed"):
        write_behind(map(batch, range(10)), lambda batches: next(batches))

"""Readers and providers that count the calls they get, for the tests of pull tables."""

import itertools
import threading

import pyarrow as pa
import pyarrow.dataset

from headrace import SimpleTableProvider, TableProvider

SCHEMA = pa.schema([pa.field("x", pa.int64()), pa.field("s", pa.string())])
DEADLINE = 5.0


def rows(start, count=3, schema=SCHEMA):
    numbers = range(start, start + count)
    return pa.record_batch([pa.array(numbers, pa.int64()), pa.array([f"r{i}" for i in numbers])], schema=schema)


class Reader:
    """A reader over a list, which raises the exceptions in it at their place; counts how often it is closed."""

    def __init__(self, items, schema=SCHEMA):
        self.schema = schema
        self.closes = 0
        self.closed = threading.Event()
        self.reading_thread = None
        self.closing_thread = None
        self._items = iter(items)

    def read_next_batch(self):
        self.reading_thread = threading.current_thread()
        item = next(self._items)
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self):
        self.closes += 1
        self.closing_thread = threading.current_thread()
        self.closed.set()

    def closes_in_the_end(self):
        """Return how often it was closed, after the thread that closed it has ended."""
        assert self.closed.wait(DEADLINE), "never closed"
        self.closing_thread.join(DEADLINE)
        assert not self.closing_thread.is_alive()
        return self.closes


class Provider(TableProvider):
    """Counts its calls; ``items`` makes the content of each new reader."""

    def __init__(self, items=lambda: [rows(0), rows(3)]):
        self.schema_threads = []
        self.scan_threads = []
        self.readers = []
        self._items = items

    def schema(self):
        self.schema_threads.append(threading.current_thread())
        return SCHEMA

    def scan(self):
        self.scan_threads.append(threading.current_thread())
        self.readers.append(Reader(self._items()))
        return self.readers[-1]


class Honouring(TableProvider):
    """Uses every part of a request, with pyarrow's own dataset scanner."""

    def __init__(self, table):
        self.requests = []
        self._table = table
        self._dataset = pyarrow.dataset.dataset(table)

    def schema(self):
        return self._table.schema

    def scan(self):
        raise AssertionError("scan_with is called instead")

    def scan_with(self, request):
        self.requests.append(request)
        scanner = self._dataset.scanner(columns=list(request.columns), filter=request.filter)
        return scanner.to_reader() if request.limit is None else scanner.head(request.limit)


def endless():
    return (rows(start) for start in itertools.count(0, 3))


def scanning(scan, schema=SCHEMA):
    return SimpleTableProvider(schema, scan)


def raising(error):
    def scan():
        raise error

    return scanning(scan)


def in_time(call):
    """Run ``call`` on a separate thread and raise what it raises; a call that hangs fails."""
    outcome = []

    def run():
        try:
            outcome.append((call(), None))
        except BaseException as error:  # noqa: BLE001 - raised again on the caller's thread
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(DEADLINE)
    assert not thread.is_alive(), "still running after the deadline"
    result, error = outcome[0]
    if error is not None:
        raise error
    return result

"""F15: whichever side is slow, the channel holds its bound and memory stays flat."""

from __future__ import annotations

from collections import Counter

from rig import run_script

from support.tally import require_same

CAPACITY = 4
BATCHES = 200
ROWS = 131072

# What the query may have in hand beside the queue: the batch it works on, those that wait for the reader,
# and those on their way between the two.
IN_HAND = 7

# What a provider may be ahead of its reader, in batches, on several partitions.
READ_AHEAD = 20

# A batch is a megabyte, so the whole stream is ten times what may be in memory at once.
MEGABYTES = 20 + 2 * (CAPACITY + IN_HAND)

BIG = """
import collections
import pyarrow.compute as pc

ROWS = {rows}
BATCHES = {batches}

def big(number):
    return pa.record_batch([pa.repeat(pa.scalar(number, pa.int64()), ROWS)], schema=SCHEMA)

class Received:
    # What came, in batches of whatever size: how many rows, and how often each value.
    rows = 0

    def __init__(self):
        self.times = collections.Counter()

    def add(self, each):
        self.rows += each.num_rows
        for counted in pc.value_counts(each.column(0)).to_pylist():
            self.times[counted["values"]] += counted["counts"]

    @property
    def batches(self):
        return self.rows // ROWS

received = Received()
megabytes = 0.0
""".replace("{batches}", str(BATCHES)).replace("{rows}", str(ROWS))


def require_all(mode: str, times: list[list[int]]) -> None:
    """Every row of every batch came once."""
    require_same(mode, Counter(dict.fromkeys(range(BATCHES), ROWS)), Counter(dict(map(tuple, times))))


SLOW_CONSUMER = """
def produce():
    with sink:
        for number in range(BATCHES):
            sink.write(big(number))

def wait_for_a_full_queue():
    # Or for the last batch, after which it is full no more.
    assert becomes_true(lambda: (now := sink.statistics()).queued == now.capacity or now.batches == BATCHES)

with headrace.SessionContext() as session:
    sink = session.register_streaming_table("pushed", SCHEMA, capacity={capacity})
    producer = Background(produce)
    wait_for_a_full_queue()
    before = resident_megabytes()
    ahead = queued = 0
    for each in session.sql("SELECT x FROM pushed").execute_stream():
        wait_for_a_full_queue()
        now = sink.statistics()
        received.add(each)
        ahead = max(ahead, now.batches - received.batches)
        queued = max(queued, now.queued)
        megabytes = max(megabytes, resident_megabytes() - before)
    blocked = sink.statistics().seconds_blocked
    producer.result()
report(times=list(received.times.items()), ahead=ahead, queued=queued, megabytes=megabytes, blocked=blocked)
"""


def test_a_slow_consumer_holds_the_producer_back_and_memory_is_flat() -> None:
    """F15, P2, S4: 200 MB through a reader that is always behind; the queue is never over its capacity."""
    facts = run_script(BIG + SLOW_CONSUMER.format(capacity=CAPACITY)).require_clean().facts
    require_all("push", facts["times"])
    assert facts["queued"] == CAPACITY
    assert facts["ahead"] <= CAPACITY + IN_HAND
    assert facts["blocked"] > 0
    assert facts["megabytes"] < MEGABYTES


SLOW_PRODUCER = """
arrived = threading.Semaphore(0)
most_queued = []

def produce():
    with sink:
        for number in range(BATCHES):
            sink.write(big(number))
            most_queued.append(sink.statistics().queued)
            assert arrived.acquire(timeout=5), "a batch was held back"

with headrace.SessionContext() as session:
    sink = session.register_streaming_table("pushed", SCHEMA, capacity={capacity})
    before = resident_megabytes()
    producer = Background(produce)
    for each in session.sql("SELECT x FROM pushed").execute_stream():
        had = received.batches
        received.add(each)
        megabytes = max(megabytes, resident_megabytes() - before)
        if received.batches > had:
            arrived.release(received.batches - had)
    producer.result()
    blocked = sink.statistics().seconds_blocked
report(times=list(received.times.items()), queued=max(most_queued), megabytes=megabytes, blocked=blocked)
"""


def test_a_slow_producer_is_waited_for_and_memory_is_flat() -> None:
    """F15, S4: each batch is with the reader before the next is made; the queue never holds two."""
    facts = run_script(BIG + SLOW_PRODUCER.format(capacity=CAPACITY)).require_clean().facts
    require_all("push", facts["times"])
    assert facts["queued"] <= 1
    assert facts["blocked"] == 0
    assert facts["megabytes"] < MEGABYTES


BOUND_IN_BYTES = """
LIMIT = {megabytes} * 2**20

def produce(sink):
    with sink:
        for number in range(60):
            # Of many sizes, so that what fits is decided by bytes and not by the number of batches.
            sink.write(batch(*[number] * (1 + number % 4 * 40000)))
            most_queued.append(sink.statistics().queued_bytes)

most_queued = []
with headrace.SessionContext() as session:
    sink = session.register_streaming_table("pushed", SCHEMA, capacity=1000, max_bytes=LIMIT)
    producer = Background(produce, sink)
    rows = 0
    for each in session.sql("SELECT x FROM pushed").execute_stream():
        assert becomes_true(lambda: sink.statistics().waiting_writers or not producer.is_alive())
        rows += each.num_rows
    producer.result()
report(most=max(most_queued), limit=LIMIT, rows=rows, blocked=sink.statistics().seconds_blocked)
"""


def test_a_bound_in_bytes_applies_to_a_slow_consumer_too() -> None:
    """F15, P14: the bytes that wait are never over max_bytes, whatever sizes the batches have."""
    facts = run_script(BOUND_IN_BYTES.format(megabytes=1)).require_clean().facts
    assert facts["rows"] == sum(1 + number % 4 * 40000 for number in range(60))
    assert facts["blocked"] > 0
    assert facts["limit"] / 2 < facts["most"] <= facts["limit"]


SLOW_READER_OF_A_PROVIDER = """
made = []
scans = []

def scan():
    for number in range(BATCHES):
        made.append(number)
        yield big(number)

def provider_rests():
    pumps = [thread for thread in threading.enumerate() if thread.name.startswith("headrace-scan")]
    scans[:] = scans or channels("the scan of table 'pulled'")
    return sum(each.statistics().waiting_writers for each in scans) == len(pumps)

with headrace.SessionContext(target_partitions=4) as session:
    session.register_table("pulled", headrace.SimpleTableProvider(SCHEMA, scan))
    before = resident_megabytes()
    ahead = 0
    for each in session.sql("SELECT x FROM pulled").execute_stream():
        assert becomes_true(provider_rests)
        ahead = max(ahead, len(made) - received.batches)
        megabytes = max(megabytes, resident_megabytes() - before)
        received.add(each)
report(times=list(received.times.items()), ahead=ahead, megabytes=megabytes)
"""


def test_a_slow_reader_holds_a_provider_back_and_memory_is_flat() -> None:
    """F15, S3, S4: a provider is read ahead by a few batches, never by the whole table."""
    facts = run_script(BIG + SLOW_READER_OF_A_PROVIDER).require_clean().facts
    require_all("pull", facts["times"])
    assert facts["ahead"] <= READ_AHEAD
    assert facts["megabytes"] < 20 + 2 * READ_AHEAD

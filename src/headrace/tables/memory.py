"""What a process remembers of the epochs it lands: the states of query runs, and commits that may have landed."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

from headrace.tables.commit.protocol import RunState
from headrace.tables.location import Location

_MOST = 256

Key = TypeVar("Key")
Value = TypeVar("Value")


class ProcessMemory:
    """Remembers the newest run states and doubtful commits, and forgets older ones.

    Args:
        most: The maximum number of each that are remembered.
    """

    def __init__(self, *, most: int = _MOST) -> None:
        self._most = most
        self._states: OrderedDict[tuple[Location, str, str], RunState] = OrderedDict()
        self._doubtful: OrderedDict[tuple[Location, str, int], None] = OrderedDict()

    def state(self, location: Location, query_id: str, run: str) -> RunState:
        """Return the state of a query run; a new one if none is remembered."""
        key = (location, query_id, run)
        return self._remember(self._states, key, self._states.get(key) or RunState())

    def doubt(self, location: Location, query_id: str, epoch: int) -> None:
        """Remember that a commit of this epoch may have landed, so that its files are not removed."""
        self._remember(self._doubtful, (location, query_id, epoch), None)

    def is_doubtful(self, location: Location, query_id: str, epoch: int) -> bool:
        """Whether a commit of this epoch may have landed."""
        return (location, query_id, epoch) in self._doubtful

    def _remember(self, memory: OrderedDict[Key, Value], key: Key, value: Value) -> Value:
        memory[key] = value
        memory.move_to_end(key)
        while len(memory) > self._most:
            memory.popitem(last=False)
        return value


# Spark makes a new writer for every commit: what one of them learns, the next one in the process needs.
process_memory = ProcessMemory()

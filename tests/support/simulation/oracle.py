"""What must be true of the table, whatever happened: looked at after every version, and at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.tables.commit import bookmark, ledger
from headrace.tables.store import Published
from support.memory_store import Did, MemoryStore, MemoryTable, Version
from support.simulation.plan import EPOCHS, FOREIGN, Plan, Query


class WrongError(AssertionError):
    """The table is not as it must be."""


class DoubledError(WrongError):
    """An epoch landed again."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The rows of one query in the table at the end, compared with what it sent.

    Attributes:
        mode: The query's mode.
        rows: How many rows had to be there.
        lost: How many of them are not.
        doubled: How many are there that had not to be, or too often.
    """

    mode: str
    rows: int
    lost: int
    doubled: int


class Oracle:
    """Knows what was stamped, and so what every reader must see.

    Attributes:
        foreign: Ids of other writers' rows.
        newest: Of each query, the newest epoch that is stamped in the table as it is now.
        checkpoints: Of each query, the checkpoints that were the table's, and last the one that is.
        doubled: An epoch that landed again. Who did it is yet to be heard.
        accepting: The runs that may continue in a table which was replaced.
        compared: What was compared at the end, by query; nothing if the table was replaced.
    """

    def __init__(self, plan: Plan) -> None:
        queries = plan.queries
        self._has_tags = plan.has_tags
        self._has_cleanup = plan.others["clean"] > 0
        self._accepts_reset = plan.accepts_reset
        self._queries = {query.id: query for query in queries}
        self._content: dict[str, tuple[int, ...]] = {query.id: () for query in queries}
        self._landed: dict[str, set[tuple[str, int]]] = {query.id: set() for query in queries}
        self._is_continued = {query.id: True for query in queries}
        self._replaced_at: dict[str, int | None] = {query.id: None for query in queries}
        self._replaced_rows: dict[str, tuple[int, ...]] = {}
        self._is_accepted = {query.id: False for query in queries}
        self.accepting: set[str] = set()
        self.compared: list[Compared] = []
        self.foreign: set[int] = set()
        self.doubled: DoubledError | None = None
        self.newest: dict[str, int] = {query.id: ledger.NONE_LANDED for query in queries}
        self.checkpoints: dict[str, list[str]] = {query.id: [] for query in queries}

    def version_was_made(self, table: MemoryTable, version: Version) -> None:
        """A version was published; if it is the newest, readers see it."""
        self._note_checkpoint(table, version)
        if version is not table.newest or self.doubled:
            return
        properties = version.entry.properties
        self._require_accepted(table, properties)
        if ledger.QUERY_ID in properties:
            self._land(self._queries[properties[ledger.QUERY_ID]], properties)
        if self.doubled is not None:
            return
        try:
            self._look(table)
        except WrongError as error:
            if not (self._has_tags and ledger.RUN_ID in properties):
                raise
            self.doubled = DoubledError(str(error))

    def _require_accepted(self, table: MemoryTable, properties: Mapping[str, str]) -> None:
        """A query continues in a table that another writer has replaced only if it may, or if either was cleaned up."""
        query_id = properties.get(ledger.QUERY_ID) or properties.get(ledger.FENCE)
        if query_id is None:
            return
        run = properties[ledger.RUN_ID]
        self._is_accepted[query_id] |= run in self.accepting or self._queries[query_id].mode == "complete"
        at = self._replaced_at[query_id]
        if at in table.versions and _knows(table, query_id, below=at) and not self._is_accepted[query_id]:
            raise WrongError(f"{run} of {query_id} continues in a table that was replaced, and nobody accepted that")
        self._replaced_at[query_id] = None

    def _note_checkpoint(self, table: MemoryTable, version: Version) -> None:
        """An overwrite may fill a hole in the history: it is the newest of its query, if not of the table."""
        properties = version.entry.properties
        query_id = properties.get(ledger.QUERY_ID) or properties.get(ledger.FENCE)
        above = [other for number, other in table.versions.items() if number > version.entry.version]
        if query_id and not any(ledger.stamp_of(other.entry.properties, query_id) for other in above):
            self._continue_from(query_id, properties[ledger.CHECKPOINT])

    def _continue_from(self, query_id: str, checkpoint: str) -> None:
        known = self.checkpoints[query_id]
        if checkpoint in known[-1:]:
            return
        is_refused = checkpoint in known or (known and not self._accepts_reset)
        if is_refused and not self._has_tags:  # what fills a hole is seen by no reader, and not acknowledged
            raise WrongError(f"{checkpoint} continues, and the table had come to {known[-1]}")
        known.append(checkpoint)
        if self._accepts_reset:
            self.newest[query_id] = ledger.NONE_LANDED

    def _land(self, query: Query, properties: Mapping[str, str]) -> None:
        epoch, run = int(properties[ledger.EPOCH_ID]), properties[ledger.RUN_ID]
        before = self.newest[query.id]
        # Where versions were removed, it is not always known whether a result is in the table; it may land again.
        is_same_result = epoch == before and query.mode == "complete" and self._has_cleanup
        if epoch <= before and not is_same_result:
            self.doubled = DoubledError(f"{run} lands epoch {epoch} of {query.id}, and epoch {before} has landed")
            return
        skipped = [other for other in range(before + 1, epoch) if other not in query.empty]
        is_excused = not self._is_continued[query.id] and self._is_accepted[query.id]
        if skipped and query.mode != "complete" and not is_excused:
            raise WrongError(f"{run} lands epoch {epoch} of {query.id}, and epochs {skipped} have not landed")
        self.newest[query.id] = epoch
        self._landed[query.id].add((properties[ledger.CHECKPOINT], epoch))
        self._is_continued[query.id] = True
        if query.mode == "complete":
            self.foreign.clear()
            self._content[query.id] = tuple(query.rows(epoch))
        elif query.mode == "append":
            self._content[query.id] += tuple(query.rows(epoch))
        else:
            merged = {query.key(row): row for row in (*self._content[query.id], *query.rows(epoch))}
            self._content[query.id] = tuple(sorted(merged.values()))

    def _look(self, table: MemoryTable) -> None:
        rows = table.rows()
        expected = sorted(row for each in (*self._content.values(), self.foreign) for row in each)
        if rows != expected:
            found, sent = Counter(rows), Counter(expected)
            raise WrongError(
                f"a reader of version {table.newest.entry.version} misses {sorted((sent - found).elements())} and sees "
                f"{sorted((found - sent).elements())}, which no driver sent or another writer deleted"
            )

    def was_replaced(self, table: MemoryTable, *, is_new: bool) -> None:
        """Another writer put something else in the table's place."""
        rows = table.rows()
        self.foreign = {row for row in rows if row >= FOREIGN}
        for query in self._queries.values():
            before, after = tuple(sorted(self._content[query.id])), tuple(row for row in rows if row in query.ids)
            if self._replaced_at[query.id] is None:
                self._replaced_rows[query.id] = before
            if is_new or after == self._replaced_rows[query.id]:  # a restore may undo it all
                self._replaced_at[query.id] = None
            elif after != before:
                self._replaced_at[query.id] = table.newest.entry.version
            self._content[query.id] = after
            self._is_accepted[query.id] = False
            if is_new:
                self.newest[query.id] = ledger.NONE_LANDED
                self.checkpoints[query.id].clear()
                self._is_continued[query.id] = False

    def was_acknowledged(self, query: Query, epoch: int, published: int | None, checkpoint: str) -> None:
        """Record that a driver learned that an epoch has landed: now, before, or that it has nothing to land."""
        is_nothing = published is None and epoch in query.empty and query.mode != "complete"
        is_landed = (checkpoint, epoch) in self._landed[query.id] or not self._is_continued[query.id]
        if is_nothing or is_landed or self.doubled is not None:
            return
        if self.newest[query.id] < epoch:
            raise WrongError(f"epoch {epoch} of {query.id} was acknowledged, and it is not in the table")
        # Epochs of another checkpoint are cut out of the source in another way, though they have the same numbers.
        known = self.checkpoints[query.id]
        if checkpoint not in known[-1:]:
            raise WrongError(f"epoch {epoch} of {checkpoint} was acknowledged, and what is there is of {known}")

    def is_done(self, query: Query) -> bool:
        needed = [epoch for epoch in range(EPOCHS) if epoch not in query.empty or query.mode == "complete"]
        return not needed or self.newest[query.id] >= needed[-1]

    def require_all(self, table: MemoryTable, *, was_replaced: bool) -> None:
        """At the end: exactly what was sent, each epoch stamped once.

        What a query has in a table that was replaced depends on when that was: then its rows are not compared.
        """
        if not was_replaced:
            self._compare(table)
        self._look(table)
        for query in self._queries.values():
            stamps = [ledger.stamp_of(version.entry.properties, query.id) for version in table.versions.values()]
            times = Counter((stamp.checkpoint, stamp.epoch) for stamp in stamps if stamp and not stamp.is_fence)
            doubled = [epoch for epoch, count in times.items() if count > 1]
            if doubled and query.mode != "complete":
                raise WrongError(f"epochs {doubled} of {query.id} are stamped more than once")

    def _compare(self, table: MemoryTable) -> None:
        rows = table.rows()
        for query in self._queries.values():
            sent = query.state_after(EPOCHS)
            found = Counter(row for row in rows if row in query.ids)
            if query.mode == "append" and len(self.checkpoints[query.id]) > 1:
                content = self._content[query.id]
                found -= Counter(content[: len(content) - len(sent)])  # the rows of the checkpoints before
            lost, doubled = Counter(sent) - found, found - Counter(sent)
            self.compared.append(Compared(query.mode, len(sent), lost.total(), doubled.total()))
            if lost or doubled:
                raise WrongError(f"{query.id} ends with {sorted(found.elements())}, and sent {sent}")


def _knows(table: MemoryTable, query_id: str, *, below: int) -> bool:
    """Whether what a table keeps says that a query had come to it before a version."""
    stamps = [
        ledger.stamp_of(each.entry.properties, query_id) for number, each in table.versions.items() if number < below
    ]
    return any(stamps) or bookmark.read(MemoryStore(table), query_id) is not None


class WatchedTable(MemoryTable):
    """A table in memory with a reader that looks at each version as it is made."""

    def __init__(self, oracle: Oracle) -> None:
        super().__init__()
        self.oracle = oracle
        self.is_watched = False

    def add(self, did: Did, **changed: Any) -> Published:
        published = super().add(did, **changed)
        if self.is_watched:
            self.oracle.version_was_made(self, self.versions[published.version])
        return published


class WatchedStore(MemoryStore):
    """A store on such a table."""

    table: WatchedTable

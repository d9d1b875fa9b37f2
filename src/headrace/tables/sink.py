"""A query's sink without Spark: a table, the commit protocol, what this process remembers, and upkeep, together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pyarrow as pa

from headrace.errors import CommitUnknownError, HeadraceError, StorageError
from headrace.tables.commit.landed import Landed
from headrace.tables.commit.ledger import QueryRun
from headrace.tables.commit.message import TaskMessage
from headrace.tables.commit.payload import Payload
from headrace.tables.commit.protocol import EpochCommitter, RunState, commit_batch
from headrace.tables.lance_store import LanceSnapshot, LanceStore
from headrace.tables.manage import checkpoint as checkpoints
from headrace.tables.manage.compact import Compactor
from headrace.tables.memory import ProcessMemory, process_memory
from headrace.tables.settings import SinkSettings
from headrace.tables.write import column_types, create

_log = logging.getLogger("headrace.tables")

compactor = Compactor()


class EpochSink:
    """Lands the epochs of one query.

    Args:
        settings: The sink's settings.
        store: The table; by default the one at the settings' location.
        memory: What is remembered between sinks; by default that of the process.
    """

    def __init__(
        self, settings: SinkSettings, *, store: LanceStore | None = None, memory: ProcessMemory = process_memory
    ) -> None:
        self.settings = settings
        self.store = store or LanceStore(settings.location)
        self._memory = memory

    def prepare(
        self, schema: pa.Schema, *, fills: bool = True, before_creation: Callable[[], None] = lambda: None
    ) -> LanceSnapshot:
        """Create the table or its new columns if the settings say so, and check that the rows fit.

        Args:
            schema: The rows' schema.
            fills: Whether columns that the rows do not have are filled with null.
            before_creation: Called before a missing table is created; it may raise, and then there is none.

        Raises:
            TableNotFoundError: There is no table.
            SchemaMismatchError: The rows do not fit the table, or the types of its columns.
        """
        settings = self.settings
        new = self.schema_of_new(schema)
        snapshot = create.open_or_create(
            self.store,
            new,
            creates=settings.creates_table,
            settings=settings.files,
            words=settings.rules.words,
            before_creation=before_creation,
        )
        if settings.replaces_schema:
            return snapshot
        column_types.require_same(snapshot.schema, settings.column_types, settings.rules.words)
        return create.require_fit(
            self.store,
            snapshot,
            schema,
            new=new,
            merges=settings.merges_schema,
            fills=fills,
            words=settings.rules.words,
        )

    def schema_of_new(self, rows: pa.Schema) -> pa.Schema:
        """Return the schema of a new table for rows, with the types that the settings give to columns.

        Raises:
            SchemaMismatchError: The rows do not have such a column, or cannot be converted to its type.
        """
        return column_types.with_types(rows, self.settings.column_types, self.settings.rules.words)

    def require_new(self, checkpoint: str, mode: str) -> None:
        """Before a missing table is created for an epoch whose number is not known: see what the checkpoint says.

        Only a local one is read. The epochs of others are looked at when the first one is committed.

        Args:
            checkpoint: Where Spark's checkpoint is; empty if not known.
            mode: The mode of the payload the epoch will have.

        Raises:
            TableReplacedError: Epochs of it landed in an earlier table, and the rules do not accept that.
        """
        known = checkpoints.read_if_local(checkpoint)
        if known is not None:
            self.committer(QueryRun("", known.id)).require_new(max(known.planned, default=0), mode)

    def committer(self, run: QueryRun | None) -> EpochCommitter:
        """The commit protocol for one run."""
        table = f"the table {self.settings.location}"
        return EpochCommitter(self.store, self.settings.rules, run, self._state(run), table=table)

    def land(self, epoch: int, run: QueryRun | None, payload: Payload) -> Landed:
        """Land one epoch; see `EpochCommitter.commit`."""
        location = self.settings.location
        committer = self.committer(run)
        try:
            landed = committer.commit(epoch, payload)
        finally:
            if committer.may_have_landed:
                self._memory.doubt(location, self.settings.rules.query_id, epoch)
        if landed.version is not None:
            compactor.after_commit(location, self.settings.compaction, epoch)
        return landed

    def land_batch(self, payload: Payload) -> int | None:
        """Commit what a batch job wrote; see `commit_batch`."""
        try:
            return commit_batch(self.store, payload)
        except (CommitUnknownError, StorageError):
            self._memory.doubt(self.settings.location, "", 0)
            raise

    def discard(self, messages: Sequence[TaskMessage], epoch: int = 0) -> None:
        """Remove the files of an epoch that failed. Never raises, and never touches what may have landed."""
        location, query_id = self.settings.location, self.settings.rules.query_id
        files = [file for message in messages for file in message.files]
        if not files or self._memory.is_doubtful(location, query_id, epoch):
            return
        try:
            known = _files_of(self.store.open())
            self.store.delete_files([file for file in files if file not in known])
        except HeadraceError as error:
            _log.warning("Files of a failed epoch of %s stay until cleanup finds them: %s", location, error)

    def _state(self, run: QueryRun | None) -> RunState:
        if run is None:
            return RunState()
        return self._memory.state(self.settings.location, self.settings.rules.query_id, run.id)


def _files_of(snapshot: LanceSnapshot) -> set[str]:
    return {file.path for fragment in snapshot.dataset.get_fragments() for file in fragment.data_files()}

"""Replaced tables: recognise a table that no longer has the rows which a query landed in it.

A checkpoint records which epochs are done, but not where they landed. If the table was dropped, overwritten or restored
meanwhile, Spark sends the next epoch although earlier rows are missing. That is an error unless the settings accept it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.errors import TableReplacedError
from headrace.tables.commit.epochs import NO_EPOCHS, Epochs
from headrace.tables.commit.ledger import QueryRun, Stamp
from headrace.tables.settings import Rules
from headrace.tables.store import Entry, Kind

_KINDS = {Kind.REPLACE: "an overwrite", Kind.RESTORE: "a restore"}


def lost_epochs(newest: Stamp | None, epoch: int, run: QueryRun, empty: Callable[[], Epochs]) -> Epochs:
    """Return the epochs before this one whose rows are not in the table, because it has no stamp of the query.

    Args:
        newest: The newest stamp of the query in the table, or None if there is none.
        epoch: The epoch to land.
        run: The run that wants to land it. Without a checkpoint, nothing is known of earlier epochs.
        empty: Returns the epochs that are known to have had no rows.
    """
    if newest is not None or not run.checkpoint or epoch == 0:
        return NO_EPOCHS
    return Epochs.between(0, epoch - 1) - empty()


def undoing(replacing: Sequence[Entry], stamped_at: int) -> Entry | None:
    """Return the overwrite or restore that may have removed rows which landed up to a version, or None.

    Args:
        replacing: The overwrites and restores by other writers, newest first.
        stamped_at: The version.
    """
    seen_from: int | None = None
    for entry in replacing:
        if entry.version <= stamped_at:
            break
        if seen_from is not None and entry.version > seen_from:
            continue  # A later restore undid it.
        if entry.restored is None or entry.restored < stamped_at:
            return entry
        seen_from = entry.restored
    return None


def lost(rules: Rules, epoch: int, checkpoint: str, lost: Epochs, table: str) -> TableReplacedError:
    """The table has no stamp of the query, although the checkpoint has earlier epochs."""
    return TableReplacedError(
        f"Query {rules.query_id!r} continues with epoch {epoch} of checkpoint {checkpoint}, but {table} does not have "
        f"{lost.named}: the table was dropped, replaced or restored to an earlier state, the checkpoint was used with "
        f"another table, or the sink was not called for every epoch. Nothing was changed.",
        hint=f"put the table back as it was; or begin again with a new checkpoint and a new {rules.words.query_id}, "
        f"which lands everything the source still has; or set {rules.words.accept_replaced}: the query then continues "
        f"with epoch {epoch}, without the rows before it.",
    )


def replaced(rules: Rules, newest: Stamp, by: Entry, table: str) -> TableReplacedError:
    """While the query was stopped, another writer replaced the table's rows."""
    return TableReplacedError(
        f"Version {by.version} of {table} is {_KINDS[by.kind]} by another writer, made after query {rules.query_id!r} "
        f"had landed up to epoch {newest.epoch}: rows it has landed may be gone. Nothing was changed.",
        hint=f"if that was meant, set {rules.words.accept_replaced}: the query then continues after epoch "
        f"{newest.epoch}. Otherwise restore the version before, {by.version - 1}, if it is still kept.",
    )


def replaced_under(rules: Rules, by: Entry) -> TableReplacedError:
    """While the query was running, another writer replaced the table's rows."""
    return TableReplacedError(
        f"Version {by.version} of the table is {_KINDS[by.kind]} by another writer, made while query "
        f"{rules.query_id!r} was running: rows it has landed may be gone. Nothing more was landed.",
        hint=_restart(rules),
    )


def recreated_under(rules: Rules, version: int) -> TableReplacedError:
    """While the query was running, the table was dropped and created again."""
    return TableReplacedError(
        f"The table does not have the version {version} that query {rules.query_id!r} made: it was dropped and created "
        f"again while the query was running. Nothing more was landed.",
        hint=_restart(rules),
    )


def _restart(rules: Rules) -> str:
    return (
        f"if that was meant, restart the query with {rules.words.accept_replaced}: it continues after the epochs it "
        f"has landed."
    )

"""The ledger: which epochs of a query have landed, recorded in the table's own transactions.

Pure values and one pure decision. An epoch is in the table exactly when a transaction with the key
``(query_id, epoch)`` is. Epochs of one query land in order, so the newest stamp of a query decides about all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from headrace._version import __version__
from headrace.errors import CheckpointResetError, ConfigurationError, FencedError, LandingError
from headrace.tables.spelling import Words

# The two keys that other tools rely on. They are never renamed, and only an epoch's own transaction has them.
QUERY_ID = "lance.streaming.queryId"
EPOCH_ID = "lance.streaming.epochId"

FENCE = "headrace.fence.queryId"
LAST_EPOCH = "headrace.fence.lastEpochId"
READ_VERSION = "headrace.fence.readVersion"
FORGETS = "headrace.fence.forgets"
WITHOUT = "headrace.fence.withoutEpochs"
RUN_ID = "headrace.runId"
CHECKPOINT = "headrace.sparkQueryId"
SUPERSEDED = "headrace.supersededRuns"
GIVEN_UP = "headrace.givenUpSparkQueryIds"
MODE = "headrace.mode"
ROWS = "headrace.rows"
FILES = "headrace.files"
WRITER = "headrace.version"

# The newest epoch of a query of which none has landed.
NONE_LANDED = -1

# A stamp lists at most this many superseded runs and given-up checkpoints, each by the first characters of its id.
_REMEMBERED = 16
_SHORT_ID = 12


@dataclass(frozen=True, slots=True)
class QueryRun:
    """One run of a query, from start to stop.

    Attributes:
        id: Spark's run id, new with every start.
        checkpoint: Spark's query id, which is the same for as long as the checkpoint exists; empty if not known.
    """

    id: str
    checkpoint: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """A Spark task that writes: its partition, and the run and epoch of its rows."""

    partition: int
    run: QueryRun | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Stamp:
    """A query's entry in a transaction: which epoch landed, and which run landed it.

    Attributes:
        query_id: The query's key, unchanged.
        epoch: The epoch that landed; for a fence, the newest that had landed before it.
        run: Id of the run that wrote it; empty if another tool did.
        checkpoint: The run's checkpoint; empty if not known.
        superseded: Runs that another run has taken over from, newest first, with shortened ids.
        given_up: Checkpoints that another one has replaced, newest first, with shortened ids.
        is_fence: Whether it marks a take-over and not rows.
        read_version: For a fence, the newest version that its run had read before it was published.
        mode: The mode its rows land in; empty if not known.
    """

    query_id: str
    epoch: int
    run: str = ""
    checkpoint: str = ""
    superseded: tuple[str, ...] = ()
    is_fence: bool = False
    read_version: int | None = None
    given_up: tuple[str, ...] = ()
    mode: str = ""

    def is_of_another_checkpoint(self, run: QueryRun) -> bool:
        """Whether its checkpoint is known to differ from a run's."""
        return bool(self.checkpoint and run.checkpoint) and self.checkpoint != run.checkpoint

    def properties(self) -> dict[str, str]:
        """Return the stamp as a transaction's properties."""
        key = (
            {FENCE: self.query_id, LAST_EPOCH: str(self.epoch)}
            if self.is_fence
            else {QUERY_ID: self.query_id, EPOCH_ID: str(self.epoch)}
        )
        more = {
            RUN_ID: self.run,
            CHECKPOINT: self.checkpoint,
            SUPERSEDED: ",".join(self.superseded),
            GIVEN_UP: ",".join(self.given_up),
            READ_VERSION: "" if self.read_version is None else str(self.read_version),
            MODE: self.mode,
            WRITER: __version__,
        }
        return key | {name: value for name, value in more.items() if value}


def details(mode: str, rows: int, files: int | None) -> dict[str, str]:
    """Return the details that the history shows beside a stamp, as a transaction's properties."""
    counts = {ROWS: str(rows)} if files is None else {ROWS: str(rows), FILES: str(files)}
    return {MODE: mode, **counts, WRITER: __version__}


def stamp_of(properties: Mapping[str, str], query_id: str, words: Words = Words()) -> Stamp | None:  # noqa: B008 - frozen
    """Return the stamp of one query in a transaction's properties, or None.

    Args:
        properties: The properties.
        query_id: The query.
        words: How hints name settings.

    Raises:
        LandingError: The transaction belongs to the query, and its epoch is not a number.
    """
    is_fence = properties.get(FENCE) == query_id
    if not is_fence and properties.get(QUERY_ID) != query_id:
        return None
    written = properties.get(LAST_EPOCH if is_fence else EPOCH_ID, "")
    try:
        epoch = int(written)
    except ValueError:
        raise LandingError(
            f"A transaction of query {query_id!r} has the epoch {written!r}, which is not a number.",
            hint=f"another tool stamps transactions with this query's id: choose a new {words.query_id}.",
        ) from None
    return Stamp(
        query_id,
        epoch,
        properties.get(RUN_ID, ""),
        properties.get(CHECKPOINT, ""),
        _split(properties.get(SUPERSEDED, "")),
        is_fence,
        int(read) if (read := properties.get(READ_VERSION, "")).isdecimal() else None,
        _split(properties.get(GIVEN_UP, "")),
        properties.get(MODE, ""),
    )


def _split(ids: str) -> tuple[str, ...]:
    return tuple(filter(None, ids.split(",")))


class Decision(Enum):
    """The decision about an epoch."""

    SKIP = "it has landed before"
    COMMIT = "commit it"
    TAKE_OVER = "take over from the previous run, then commit it"


def decide(
    newest: Stamp | None,
    epoch: int,
    run: QueryRun,
    *,
    mode: str = "",
    is_established: bool = False,
    accepts_reset: bool = False,
    words: Words = Words(),  # noqa: B008 - frozen
) -> Decision:
    """Decide about one epoch from the newest stamp of its query.

    Args:
        newest: The newest stamp of the query in the table, or None if there is none.
        epoch: The epoch to land.
        run: The run that wants to land it.
        mode: The mode the epoch's rows land in; empty if not known.
        is_established: Whether this run is known to have stamped the table before.
        accepts_reset: Whether the settings allow a new checkpoint to continue under the same id.
        words: How hints name settings.

    Raises:
        FencedError: Another run has taken over from this one.
        ConfigurationError: The newest stamp is of another mode.
        CheckpointResetError: The newest stamp is of another checkpoint, and the settings do not accept that or this
            checkpoint was replaced.
    """
    if newest is None:
        return Decision.TAKE_OVER
    if newest.run == run.id:
        _require_same_mode(newest, mode, words)
        return Decision.SKIP if epoch <= newest.epoch else Decision.COMMIT
    if is_established or run.id[:_SHORT_ID] in newest.superseded:
        raise FencedError(
            f"Run {run.id} of query {newest.query_id!r} was stopped before epoch {epoch}: run "
            f"{newest.run or '(unknown)'} has taken over and landed epoch {newest.epoch}. Nothing was lost or doubled.",
            hint=f"two drivers run the same query; leave it to the newer one, or give each its own {words.query_id}.",
        )
    _require_same_mode(newest, mode, words)
    if newest.is_of_another_checkpoint(run):
        if run.checkpoint[:_SHORT_ID] in newest.given_up:
            raise CheckpointResetError(
                f"Query {newest.query_id!r} comes with epoch {epoch} of checkpoint {run.checkpoint}, which was "
                f"replaced by checkpoint {newest.checkpoint}. It is no longer known which of its epochs have landed. "
                f"Nothing was changed.",
                hint=f"continue from the newer checkpoint, or choose a new {words.query_id}.",
            )
        if accepts_reset:
            return Decision.TAKE_OVER
        raise CheckpointResetError(
            f"Query {newest.query_id!r} comes with epoch {epoch} of checkpoint {run.checkpoint}, but what it has "
            f"landed so far, up to epoch {newest.epoch}, came from checkpoint {newest.checkpoint}. Its epochs would be "
            f"taken for landed, or its rows land twice. Nothing was changed.",
            hint=f"if the checkpoint was reset on purpose, choose a new {words.query_id}, or set "
            f"{words.accept_reset} to land this checkpoint's epochs as new rows.",
        )
    return Decision.SKIP if epoch <= newest.epoch else Decision.TAKE_OVER


def _require_same_mode(newest: Stamp, mode: str, words: Words) -> None:
    if newest.mode and mode and newest.mode != mode:
        raise ConfigurationError(
            f"Query {newest.query_id!r} is to land in mode {_mode_name(mode)}, but what it has landed so far, up to "
            f"epoch {newest.epoch}, was landed in mode {_mode_name(newest.mode)}: the table would hold a mixture of "
            f"both. Nothing was changed.",
            hint=f"set the mode back to {_mode_name(newest.mode)}, or choose a new {words.query_id}. To keep the rows "
            f"and continue in mode {_mode_name(mode)} under the same id, run `headrace forget TABLE QUERY` first.",
        )


def _mode_name(mode: str) -> str:
    """A mode as users know it: update appends, and is stamped so."""
    return "append (or update)" if mode == "append" else mode


def next_stamp(
    newest: Stamp | None, query_id: str, epoch: int, run: QueryRun, *, mode: str = "", fence_after: int | None = None
) -> Stamp:
    """Return the stamp that follows ``newest``: it lists the runs and checkpoints that were taken over from.

    Args:
        newest: The newest stamp of the query so far.
        query_id: The query.
        epoch: Its epoch; for a fence, the newest epoch that has landed.
        run: The run that writes it.
        mode: The mode its rows land in; empty if not known.
        fence_after: For a fence, the newest version that the run has read.
    """
    superseded: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()
    if newest is not None:
        superseded, given_up = newest.superseded, newest.given_up
        if newest.run and newest.run != run.id:
            superseded = _with(newest.run, superseded)
        if newest.is_of_another_checkpoint(run):
            given_up = _with(newest.checkpoint, given_up)
    is_fence = fence_after is not None
    return Stamp(query_id, epoch, run.id, run.checkpoint, superseded, is_fence, fence_after, given_up, mode)


def _with(id: str, remembered: tuple[str, ...]) -> tuple[str, ...]:
    short = id[:_SHORT_ID]
    return (short, *(other for other in remembered if other != short))[:_REMEMBERED]

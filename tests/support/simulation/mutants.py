"""The protocol with one part of it taken out at a time: what the simulation must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from headrace.tables.commit import bookmark, ledger, lookup, validate
from headrace.tables.commit.ledger import Decision, QueryRun, Stamp
from headrace.tables.commit.lookup import StampReader
from headrace.tables.commit.payload import AppendPayload, UpsertPayload
from headrace.tables.commit.protocol import EpochCommitter
from headrace.tables.commit.rowless import RowlessEpochs
from support.simulation.plan import EVENTS, FAULTS, OTHERS, Query

_decide = ledger.decide


def _never_skip(newest: Stamp | None, epoch: int, run: QueryRun, **rules: Any) -> Decision:
    """Whether the epoch is newer than the newest stamp does not matter."""
    return _decide(newest, epoch if newest is None else max(epoch, newest.epoch + 1), run, **rules)


def _never_reset(newest: Stamp | None, epoch: int, run: QueryRun, **rules: Any) -> Decision:
    """Which checkpoint an epoch is of does not matter."""
    return _decide(newest, epoch, QueryRun(run.id), **rules)


def _never_given_up(newest: Stamp | None, epoch: int, run: QueryRun, **rules: Any) -> Decision:
    """Which checkpoints came before does not matter."""
    return _decide(newest and replace(newest, given_up=()), epoch, run, **rules)


def _never(*_: object) -> bool:
    return False


def _nothing(*_: object, **__: object) -> None:
    pass


# What is taken out, and what is put in its place: an object, the name of a part of it, and the other part.
_MUTANTS: dict[str, list[tuple[Any, str, Any]]] = {
    "the fence": [(AppendPayload, "is_fenced", False), (UpsertPayload, "is_fenced", False)],
    "the newest-stamp rule": [(ledger, "decide", _never_skip)],
    "the look at the checkpoint": [(ledger, "decide", _never_reset)],
    "the memory of checkpoints that were given up": [(ledger, "decide", _never_given_up)],
    "the verification": [(validate, "validate_epoch", _nothing)],
    "the look for rivals after a commit": [(validate, "require_no_rival", _nothing)],
    "the error about missing history": [(StampReader, "_report_gap", _nothing)],
    "the care for files that may have landed": [
        (EpochCommitter, "may_have_landed", property(lambda self: False, lambda self, value: None)),
    ],
    "the bookmark of each run": [(bookmark, "name_of", lambda stamp: bookmark.key_of(stamp.query_id) + ".json")],
    "the other runs' bookmarks": [(StampReader, "bookmark_above", _nothing)],
    "the look for epochs that were lost with a table": [(EpochCommitter, "_require_not_lost", _nothing)],
    "the look for a table that was overwritten": [(EpochCommitter, "_require_not_replaced", _nothing)],
    "the note of an epoch without rows": [(RowlessEpochs, "add_empty", _nothing)],
    "the suspicion of gaps": [(validate, "may_fill_gap", _never), (lookup, "may_fill_gap", _never)],
}
MUTANTS = tuple(_MUTANTS)

# Where drivers sleep at the worst moments, others clean up meanwhile, and nothing else happens.
_SLEEPERS: dict[str, Any] = {
    "queries": (Query("query 0", "append", base=0, empty=frozenset()),),
    "naps": 0.2,
    "others": dict.fromkeys(OTHERS, 0) | {"append": 5, "clean": 6},
    "events": dict.fromkeys(EVENTS, 0),
    "faults": dict.fromkeys(FAULTS, 0),
    "lookback": 1,
    "on_history_gap": "warn",
    "shares_checkpoint": False,
    "may_replace": False,
    "has_tags": False,
}
# Another writer replaces the table now and then, and the checkpoints stay.
_REPLACED: dict[str, Any] = {
    "accepts_replaced": False,
    "others": dict.fromkeys(OTHERS, 1) | dict.fromkeys(("overwrite", "restore", "recreate"), 1),
    "may_replace": True,
    "has_tags": False,
}
_RESETS = {"start": 2, "kill": 2, "freeze": 1, "forget": 1, "reset": 3}
# Some parts are needed only where several rare things come together. These are the mixtures in which they often do.
SLANTS: dict[str, dict[str, Any]] = {
    "the look at the checkpoint": {"events": _RESETS},
    "the memory of checkpoints that were given up": {
        "accepts_reset": True,
        "events": _RESETS,
        "others": dict.fromkeys(OTHERS, 1),
        "may_replace": False,
        "has_tags": False,
    },
    "the look for epochs that were lost with a table": _REPLACED,
    "the look for a table that was overwritten": _REPLACED,
    "the bookmark of each run": _SLEEPERS,
    "the look for rivals after a commit": _SLEEPERS
    | {"others": dict.fromkeys(OTHERS, 0) | {"append": 2, "clean": 6, "tag": 6}, "has_tags": True},
    "the care for files that may have landed": _SLEEPERS
    | {
        "naps": 0,
        "others": dict.fromkeys(OTHERS, 0) | {"append": 2},
        "faults": {"fails": 0.1, "is lost on the way": 0, "lands unheard": 0.3, "lands late": 0.1},
    },
}


@contextmanager
def without(part: str) -> Iterator[None]:
    """Takes a part of the protocol out for a while."""
    with ExitStack() as stack:
        for owner, name, other in _MUTANTS[part]:
            stack.enter_context(patch.object(owner, name, other, create=not hasattr(owner, name)))
        yield


def first_wrong(seeds: range, run: Callable[[int], object]) -> int | None:
    """The first seed under which something is wrong."""
    for seed in seeds:
        try:
            run(seed)
        except Exception:  # noqa: BLE001 - a crash of the protocol is as wrong as a wrong table
            return seed
    return None

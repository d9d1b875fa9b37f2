"""The ledger: stamps round trip, and the one decision, case by case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import CheckpointResetError, ConfigurationError, FencedError, LandingError
from headrace.tables.commit import ledger
from headrace.tables.commit.ledger import Decision, QueryRun, Stamp, decide, next_stamp, stamp_of

A, B = QueryRun("run-a", "checkpoint"), QueryRun("run-b", "checkpoint")
IDS = st.text(min_size=1, max_size=40)
SHORT_IDS = st.text("0123456789abcdef-", min_size=1, max_size=12)


def stamp(run: QueryRun | None = A, epoch: int = 5, *superseded: str, is_fence: bool = False) -> Stamp:
    run = run or QueryRun("")
    return Stamp("query", epoch, run.id, run.checkpoint, superseded, is_fence)


@given(
    IDS,
    st.integers(-1, 2**62),
    IDS,
    st.text(max_size=40),
    st.lists(SHORT_IDS, max_size=16),
    st.booleans(),
    st.lists(SHORT_IDS, max_size=16),
)
def test_a_stamp_survives_the_way_through_properties(
    query_id: str,
    epoch: int,
    run: str,
    checkpoint: str,
    superseded: list[str],
    is_fence: bool,
    given_up: list[str],
) -> None:
    """L1, L7: the id verbatim, everything as strings."""
    made = Stamp(query_id, epoch, run, checkpoint, tuple(superseded), is_fence, None, tuple(given_up), "append")
    properties = made.properties() | ledger.details("append", 3, 1)
    assert all(isinstance(value, str) for value in properties.values())
    assert stamp_of(properties, query_id) == made
    assert stamp_of(properties, query_id + "x") is None


def test_an_epoch_has_the_two_keys_and_a_fence_has_neither() -> None:
    """L7: only an epoch's own transaction has the keys other tools rely on."""
    epoch, fence = stamp().properties(), stamp(is_fence=True).properties()
    assert (epoch["lance.streaming.queryId"], epoch["lance.streaming.epochId"]) == ("query", "5")
    assert not [name for name in fence if name.startswith("lance.")]
    assert (fence["headrace.fence.queryId"], fence["headrace.fence.lastEpochId"]) == ("query", "5")


def test_a_stamp_lists_only_known_counts() -> None:
    """L7: how many files a merge makes is not known before it is made, and no number is made up."""
    assert (
        ledger.details("append", 2, 1).items()
        >= {
            "headrace.mode": "append",
            "headrace.rows": "2",
            "headrace.files": "1",
        }.items()
    )
    assert "headrace.files" not in ledger.details("upsert", 2, None)


def test_a_stamp_of_another_tool_needs_the_two_keys_only() -> None:
    """L12"""
    assert stamp_of({ledger.QUERY_ID: "q", ledger.EPOCH_ID: "7"}, "q") == Stamp("q", 7)
    assert stamp_of({}, "q") is None
    assert stamp_of({ledger.QUERY_ID: "q "}, "q") is None


@pytest.mark.parametrize("epoch", ["", "x", "1.5", None])
def test_a_stamp_whose_epoch_is_no_number_is_refused(epoch: str | None) -> None:
    """L21: not read as "not landed"."""
    properties = {ledger.QUERY_ID: "q"} | ({} if epoch is None else {ledger.EPOCH_ID: epoch})
    with pytest.raises(LandingError, match=r"not a number.*new streamingQueryId"):
        stamp_of(properties, "q")


DECISIONS = [
    (None, 0, Decision.TAKE_OVER),
    (None, 9, Decision.TAKE_OVER),
    (stamp(A, 5), 6, Decision.COMMIT),
    (stamp(A, 5), 5, Decision.SKIP),
    (stamp(A, 5), 2, Decision.SKIP),
    (stamp(A, 5, is_fence=True), 6, Decision.COMMIT),
    (stamp(A, -1, is_fence=True), 0, Decision.COMMIT),
    (stamp(B, 5), 6, Decision.TAKE_OVER),
    (stamp(B, 5), 5, Decision.SKIP),
    (stamp(B, 5), 0, Decision.SKIP),
    (stamp(B, 5, is_fence=True), 6, Decision.TAKE_OVER),
    (stamp(None, 5), 6, Decision.TAKE_OVER),
    (stamp(None, 5), 5, Decision.SKIP),
    (stamp(QueryRun("run-b"), 5), 6, Decision.TAKE_OVER),
]


@pytest.mark.parametrize(("newest", "epoch", "decision"), DECISIONS)
def test_the_newest_stamp_decides(newest: Stamp | None, epoch: int, decision: Decision) -> None:
    """L12, L17: an epoch up to the newest has landed; another run's next one is taken over first."""
    assert decide(newest, epoch, A) is decision


@pytest.mark.parametrize("epoch", [0, 5, 6])
def test_a_run_that_was_taken_over_from_is_refused_whatever_it_sends(epoch: int) -> None:
    """L26, F4: it remembers to have stamped, or the newest stamp remembers it."""
    with pytest.raises(FencedError, match="run-b"):
        decide(stamp(B, 5), epoch, A, is_established=True)
    with pytest.raises(FencedError):
        decide(stamp(B, 5, "other", "run-a"), epoch, A)


@pytest.mark.parametrize("epoch", [0, 5, 6])
def test_another_checkpoint_is_refused_unless_accepted(epoch: int) -> None:
    """L18"""
    reset = QueryRun("run-c", "another checkpoint")
    with pytest.raises(CheckpointResetError):
        decide(stamp(A, 5), epoch, reset)
    assert decide(stamp(A, 5), epoch, reset, accepts_reset=True) is Decision.TAKE_OVER
    with pytest.raises(FencedError):
        decide(stamp(A, 5, "run-c"), epoch, reset, accepts_reset=True)


@pytest.mark.parametrize("accepts_reset", [False, True])
@pytest.mark.parametrize("epoch", [0, 5, 6])
def test_a_replaced_checkpoint_is_refused_permanently(epoch: int, accepts_reset: bool) -> None:
    """L18: whatever came since."""
    newest = stamp(A, 5)
    for number in range(3):
        newest = next_stamp(newest, "query", 0, QueryRun(f"run-{number}", "another"), fence_after=1)
    newest = next_stamp(newest, "query", 0, QueryRun("run-third", "a third"))
    assert newest.given_up == ("another", "checkpoint")
    for checkpoint in newest.given_up:
        with pytest.raises(CheckpointResetError, match=r"a third.*continue from the newer checkpoint"):
            decide(newest, epoch, QueryRun("run-again", checkpoint), accepts_reset=accepts_reset)
    assert decide(newest, 1, QueryRun("run-again", "a third")) is Decision.TAKE_OVER


@pytest.mark.parametrize("run", [A, B, QueryRun("run-c", "another checkpoint")])
@pytest.mark.parametrize("epoch", [0, 5, 6])
def test_another_mode_is_refused_and_both_are_named(run: QueryRun, epoch: int) -> None:
    """L41: before anything else that could be wrong with the epoch, since one way out answers for all of it."""
    newest = next_stamp(stamp(A, 4), "query", 5, A, mode="complete")
    with pytest.raises(ConfigurationError, match=r"mode upsert.*epoch 5.*mode complete.*streamingQueryId.*forget"):
        decide(newest, epoch, run, mode="upsert", accepts_reset=True)
    assert decide(newest, 6, A, mode="complete") is Decision.COMMIT


def test_a_mode_that_is_not_known_is_no_other_mode() -> None:
    """L41: stamps of other tools and of earlier releases do not say theirs."""
    assert decide(stamp(A, 5), 6, A, mode="upsert") is Decision.COMMIT
    assert decide(next_stamp(None, "query", 5, A, mode="upsert"), 6, A) is Decision.COMMIT


def test_a_run_that_was_taken_over_from_hears_of_that_and_not_of_the_mode() -> None:
    """L26, L41"""
    newest = next_stamp(stamp(A, 5), "query", 5, B, mode="complete")
    with pytest.raises(FencedError):
        decide(newest, 6, A, mode="append")


def test_an_unknown_checkpoint_is_no_reset() -> None:
    """L18: where Spark did not say, the epochs are compared."""
    assert decide(stamp(A, 5), 5, QueryRun("run-c")) is Decision.SKIP
    assert decide(stamp(QueryRun("run-a"), 5), 6, QueryRun("run-c", "some")) is Decision.TAKE_OVER


def test_the_runs_taken_over_from_are_remembered_newest_first_and_no_more_than_sixteen() -> None:
    """F4: each once, by the first letters of its id."""
    newest: Stamp | None = None
    for number in range(20):
        newest = next_stamp(newest, "query", number, QueryRun(f"{number:012d}-and-more"), fence_after=1)
    assert newest is not None
    assert newest.superseded == tuple(f"{number:012d}" for number in range(18, 2, -1))
    again = next_stamp(newest, "query", 20, QueryRun(newest.run))
    assert again.superseded == newest.superseded
    back = next_stamp(next_stamp(stamp(A), "query", 6, B), "query", 7, A)
    assert back.superseded == ("run-b", "run-a")


def test_a_run_whose_id_begins_like_another_is_not_taken_for_it() -> None:
    """F4: Spark's ids are random; only their first twelve letters are compared."""
    assert decide(stamp(B, 5, "run-"), 6, A) is Decision.TAKE_OVER

"""What `run` prints for an epoch and at the end: as lines, as JSON, and in the live table."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from headrace.cli.amounts import amount
from headrace.cli.display import display
from headrace.pipeline.progress import Progress, Totals

EPOCH = Progress(3, 1_010, 1_000, 505.0, 2.0, {"writing": 1.5}, 5)


def printed(capsys: pytest.CaptureFixture[str], *epochs: Progress, is_json: bool = False) -> list[str]:
    """Return the lines that a run of these epochs prints."""
    totals = Totals()
    with display(is_json=is_json) as shown:
        for progress in epochs:
            totals.add(progress)
            shown.epoch(progress, totals)
        shown.end(totals)
    return capsys.readouterr().out.splitlines()


def test_null_rows_are_in_the_line_of_their_epoch_and_in_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    """C25: with a hint at the documentation at the end."""
    first, second, end, hint = printed(capsys, EPOCH, replace(EPOCH, epoch=4, version=6, null_rows=3))
    assert first.endswith(" epoch 3: 1,000 rows landed as version 5 in 2.00 s (1,010 in, 505/s)")
    assert " epoch 4: 1,000 rows landed as version 6, 3 of them null in every column, in 2.00 s" in second
    assert end == "Landed 2,000 rows in 2 epochs, 3 of them null in every column; the table is at version 6."
    assert hint.startswith("Hint: Spark reads a malformed line as such a row.")
    assert "Rows that Spark changes silently" in hint
    assert printed(capsys, EPOCH)[1:] == ["Landed 1,000 rows in 1 epoch; the table is at version 5."]


def test_null_rows_are_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    """C25: also where there are none."""
    nulls = replace(EPOCH, epoch=4, null_rows=3)
    events = [json.loads(line) for line in printed(capsys, EPOCH, nulls, nulls, is_json=True)]
    assert [event["null_rows"] for event in events] == [0, 3, 3, 6]


def test_null_rows_are_in_the_live_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """C25: beside the rows that landed."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "150")
    out = "\n".join(printed(capsys, replace(EPOCH, null_rows=3)))
    assert "1,000 (3 null)" in out
    assert "Landed 1,000 rows in 1 epoch, 3 of them null in every column;" in out


def test_the_lag_is_shown_in_units_that_people_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C26, C15: in numbers for machines; nothing is said of a source that was read to its end."""
    behind = replace(EPOCH, lag={"files": 1, "bytes": 1_234_567})
    epochs = (behind, replace(EPOCH, lag={"files": 0, "bytes": 0}), EPOCH, replace(EPOCH, lag={"versions": 1_200}))
    lines = printed(capsys, *epochs)
    tails = [line.rpartition("505/s)")[2] for line in lines[:4]]
    assert tails == [", 1 file, 1.2 MB behind", "", "", ", 1,200 versions behind"]
    events = [json.loads(line) for line in printed(capsys, *epochs, is_json=True)][:4]
    assert [event["lag"] for event in events] == [1, 0, None, 1_200]
    assert [event.get("lag_unit") for event in events] == ["files", "files", None, "versions"]
    assert [event["lags"] for event in events] == [dict(epoch.lag) for epoch in epochs]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "150")
    assert "1 file, 1.2 MB  " in "\n".join(printed(capsys, behind))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (5_500_000_000_000_000, "5.5 PB"),
        (10**19, "10000.0 PB"),
    ],
)
def test_bytes_have_the_largest_unit_that_leaves_a_number_above_one(value: int, expected: str) -> None:
    """C26: rounded before the unit is chosen."""
    assert amount(value, "bytes") == expected


def test_null_rows_of_a_skipped_epoch_are_not_counted_again() -> None:
    """C25: as its rows are not."""
    totals = Totals()
    totals.add(replace(EPOCH, null_rows=3))
    totals.add(replace(EPOCH, null_rows=3, version=None, was_skipped=True))
    assert (totals.rows, totals.null_rows) == (1_000, 3)

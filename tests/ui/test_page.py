"""The status page in a real browser: what a reader finds on it."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from headrace import StorageError
from headrace.channel.statistics import SinkStatistics
from headrace.pipeline.failures import explain
from headrace.pipeline.progress import Totals
from headrace.ui import RunStatus, serve
from support.browser import Browser, corner, find_browser, is_hidden, text_of
from support.staged import Stage
from support.statuses import Clock, busy_board, progress, tell

# As page.css has them.
LIGHT, DARK = (0xF6, 0xF7, 0xF8), (0x12, 0x16, 0x1A)
CHARTS = ("rate", "phases", "lag", "versions", "fragments")

# Looks at the page when it is drawn: is anything too wide, or does any text lie on another or leave its box?
MEASURE = """
setTimeout(() => {
  const root = document.documentElement;
  const crossed = [];
  for (const plot of document.querySelectorAll("svg.plot")) {
    const boxes = [...plot.querySelectorAll("text")].map((each) => [each.textContent, each.getBoundingClientRect()]);
    for (const [name, a] of boxes) {
      if (a.left < 0 || a.right > innerWidth) crossed.push([name, "outside"]);
      for (const [other, b] of boxes) {
        const apart = a.right <= b.left || b.right <= a.left || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
        if (a !== b && !apart) crossed.push([name, other]);
      }
    }
  }
  for (const each of document.querySelectorAll("dt, dd"))
    if (each.scrollWidth > each.clientWidth) crossed.push([each.textContent, "its box"]);
  const measured = top.document.createElement("pre");
  measured.id = "measured";
  measured.textContent = JSON.stringify({ width: innerWidth, wide: root.scrollWidth, crossed });
  top.document.body.append(measured);
}, 2000);
"""
PRESS_LEFT = """
setTimeout(() => {
  for (const plot of document.querySelectorAll("svg.plot"))
    plot.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }));
}, 1500);
"""
HIDE = 'Object.defineProperty(document, "hidden", { get: () => window.isAway !== false });'
COME_BACK = 'setTimeout(() => { window.isAway = false; document.dispatchEvent(new Event("visibilitychange")); }, 2000);'


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    folder = tmp_path / "browser"
    folder.mkdir()
    return find_browser(folder)


def depth() -> SinkStatistics:
    return SinkStatistics(
        batches=40,
        rows=40,
        bytes=40,
        queued=11,
        queued_rows=11,
        queued_bytes=11,
        capacity=16,
        max_bytes=None,
        seconds_blocked=0.0,
        waiting_readers=0,
        waiting_writers=0,
        state="open",
    )


def test_the_numbers_of_a_run_are_on_the_page(browser: Browser) -> None:
    """C8: from the real server, under its own rules; the browser has nothing to complain of."""
    board = busy_board(90)
    board.watch("clicks", depth)
    with serve(board, 0) as served:
        page = browser.page(served.url)
    totals = board.snapshot()["totals"]
    assert text_of(page, "pipeline") == "orders-by-minute"
    assert text_of(page, "table") == "s3://lake/orders_by_minute.lance"
    assert text_of(page, "state") == "running"
    assert text_of(page, "number-rows") == f"{totals['rows']:,}"
    assert text_of(page, "number-landed") == "88"
    assert text_of(page, "number-skipped") == "2"
    assert text_of(page, "number-version") == "91"
    assert "11 of 16" in page
    assert is_hidden(page, "empty")
    assert is_hidden(page, "notice")
    for chart in CHARTS:
        figure = page.partition(f'<figure id="{chart}"')[2].partition("</figure>")[0]
        assert re.search(r'<svg class="plot"[^>]* role="img" aria-label="[^"]+\.', figure), chart
        assert re.search(r"<(path|rect) ", figure), chart
    assert "NaN" not in page
    assert "undefined" not in page


@pytest.mark.parametrize(("epochs", "first", "has_lag"), [(1, 0, True), (2, 0, False), (500, 12_345_678, True)])
@pytest.mark.parametrize("width", [420, 1280])
def test_it_is_readable_wide_and_narrow(browser: Browser, width: int, epochs: int, first: int, has_lag: bool) -> None:
    """C8: nothing is wider than the window, and no label lies on another, be there few epochs or many."""
    told = busy_board(epochs, first=first).snapshot()
    for each in told["epochs"]:
        each["lag"] = each["lag"] if has_lag else None
    with Stage(lambda _: told, MEASURE) as stage:
        page = browser.page(stage.framed(width), "--window-size=1400,1000")
    measured = json.loads(html.unescape(text_of(page, "measured")))
    assert measured["crossed"] == []
    assert measured["wide"] <= measured["width"] == width


def test_it_is_light_or_dark_as_the_system_is(browser: Browser, tmp_path: Path) -> None:
    """C8: by what the system prefers."""
    with serve(busy_board(), 0) as served:
        browser.look(served.url, tmp_path / "light.png", "--blink-settings=preferredColorScheme=1")
        browser.look(served.url, tmp_path / "dark.png", "--blink-settings=preferredColorScheme=0")
    assert corner(tmp_path / "light.png") == LIGHT
    assert corner(tmp_path / "dark.png") == DARK


def test_news_comes_by_itself_after_an_honest_beginning(browser: Browser) -> None:
    """C8: first that there is nothing yet, then what there is; asked for about once a second."""
    board = RunStatus("orders", "orders.lance")
    empty = board.snapshot()
    board.begin()
    tell(board, Totals(), progress(7), versions=9, fragments=4)
    full = board.snapshot()
    with Stage(lambda _: empty) as stage:
        page = browser.page(stage.url)
    assert "Spark is starting" in text_of(page, "empty")
    assert not is_hidden(page, "empty")
    assert is_hidden(page, "charts")
    assert is_hidden(page, "numbers")
    with Stage(lambda number: empty if number < 2 else full) as stage:
        page = browser.page(stage.url, seconds=5.5)
    assert text_of(page, "number-rows") == "800"
    assert is_hidden(page, "empty")
    assert 4 <= stage.asked <= 7


def test_a_query_that_is_down_idle_or_stuck_is_shown_as_such(browser: Browser) -> None:
    """C8, C29, C30: with the reason, and when it starts again."""
    clock = Clock()
    board = busy_board(3, clock=clock)
    outage = explain(StorageError("the store answered 503."))
    board.down(outage, 12.0)
    with serve(board, 0) as served:
        page = browser.page(served.url)
    assert text_of(page, "state") == "down"
    assert text_of(page, "notice") == "the store answered 503. It starts again in 12 s."
    board.restarted(outage)
    board.activity("idle")
    with serve(board, 0) as served:
        page = browser.page(served.url)
    assert text_of(page, "state") == "idle"
    assert text_of(page, "number-restarts") == "1"
    assert "after 1 failure<" in page
    assert is_hidden(page, "notice")
    board.activity("stuck")
    clock.now += 700
    with serve(board, 0) as served:
        page = browser.page(served.url)
    assert text_of(page, "state") == "stuck"
    assert text_of(page, "notice").startswith("A trigger has been running for 11 min 40 s and nothing changes.")


def test_what_a_run_says_is_text_and_never_markup(browser: Browser) -> None:
    """C8: a table may have any name, and an error any words."""
    board = RunStatus("<b>orders</b>", "<img src=x onerror=alert(1)>")
    board.watch("<i>clicks</i>", depth)
    board.fail("<script>alert(1)</script> is gone.")
    with serve(board, 0) as served:
        page = browser.page(served.url)
    assert html.unescape(text_of(page, "pipeline")) == "<b>orders</b>"
    assert html.unescape(text_of(page, "table")) == "<img src=x onerror=alert(1)>"
    assert html.unescape(text_of(page, "notice")).startswith("<script>alert(1)</script> is gone.")
    assert "&lt;i&gt;clicks&lt;/i&gt;" in page
    assert text_of(page, "state") == "failed"


def test_what_is_not_known_is_said_to_be_so(browser: Browser) -> None:
    """C8: a source that does not tell its lag, a table nobody could count."""
    board = RunStatus("orders", "orders.lance")
    board.begin()
    tell(board, Totals(), progress(0, lag=None), versions=None, fragments=None)
    with serve(board, 0) as served:
        page = browser.page(served.url)
    assert "The source does not report it." in page
    assert page.count("Not counted yet.") == 2
    assert text_of(page, "number-version") == "2"


def test_null_rows_and_the_lag_are_shown_in_units_that_people_read(browser: Browser) -> None:
    """C8, C25, C26: the lag is the last that is known."""
    board, totals = RunStatus("orders", "orders.lance"), Totals()
    board.begin()
    tell(board, totals, replace(progress(0), null_rows=1_234), versions=None, fragments=None)
    tell(board, totals, progress(1, lag=None), versions=None, fragments=None)
    with serve(board, 0) as served:
        page = browser.page(served.url)
    assert "1,234 null in every column" in page
    assert text_of(page, "number-behind") == "3"
    assert "files to read, 3.7 MB" in page
    assert "<td>3 files, 3.7 MB</td>" in page


def test_a_hidden_page_rests_and_asks_again_when_it_is_seen(browser: Browser) -> None:
    """C8: nobody is asked for what nobody sees."""
    told = busy_board(3).snapshot()
    with Stage(lambda _: told, HIDE) as stage:
        browser.page(stage.url)
        assert stage.asked == 0
    with Stage(lambda _: told, HIDE + COME_BACK) as stage:
        page = browser.page(stage.url)
        assert stage.asked > 0
    assert text_of(page, "state") == "running"


@pytest.mark.parametrize(
    ("has_ended", "said", "state"),
    [(False, "No answer from the run since", "not answering"), (True, "The run has ended, and its page", "ended")],
)
def test_it_says_when_nobody_answers_and_keeps_what_it_knew(
    browser: Browser, has_ended: bool, said: str, state: str
) -> None:
    """C8: a page that no longer updates must not look like a run that waits."""
    board = busy_board(3)
    if has_ended:
        board.end()
    told = board.snapshot()
    with Stage(lambda number: told if number == 0 else None) as stage:
        # A browser tells the console of each connection that breaks; that is what is made to happen here.
        page = browser.page(stage.url, "--log-level=3")
    assert said in text_of(page, "notice")
    assert not is_hidden(page, "notice")
    assert text_of(page, "state") == state
    assert text_of(page, "number-landed") == "1"


def test_the_values_in_a_chart_can_be_read_with_the_keyboard(browser: Browser) -> None:
    """C8: colour and pointer are not the only way."""
    told = busy_board(5).snapshot()
    with Stage(lambda _: told, PRESS_LEFT) as stage:
        page = browser.page(stage.url)
    tips = re.findall(r'<div class="tip" role="status"[^>]*>(.*?)</strong>(.*?)</figure>', page)
    assert len(tips) == len(CHARTS)
    assert all("epoch 4" in title for title, _ in tips)
    phases = page.partition('<figure id="phases"')[2].partition("</figure>")[0]
    for name in ("reading ahead", "planning", "writing", "committing", "noting", "other", "total"):
        assert f"<span>{name}</span><span>" in phases
    assert "</svg>skipped</li>" in phases

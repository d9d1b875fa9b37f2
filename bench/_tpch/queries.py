"""The 22 queries of TPC-H, worded for DuckDB and DataFusion, with the validation parameters of the specification."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

QUERIES = {file.stem: file.read_text() for file in sorted(Path(__file__).with_name("queries").glob("*.sql"))}

_ORDER_BY = re.compile(r"^order by (.*)$", re.MULTILINE)
_SCAN = re.compile(r"TableScan: (\w+)")


def order_keys(sql: str) -> list[str]:
    """Return the columns of the answer by which a query orders it."""
    found = _ORDER_BY.search(sql)
    return [key.split()[0] for key in found[1].split(", ")] if found else []


def scans(plan: str) -> Counter[str]:
    """Count how often each table is scanned, from the text of a logical plan."""
    return Counter(_SCAN.findall(plan))

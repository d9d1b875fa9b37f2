"""Known defects of the engine and the formats, in which the session cannot be held to plain DataFusion's answer.

Nothing here excuses an answer of the session that the library below would not give itself. A disagreement that no entry
describes is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from support.differential.tables import Table
from support.differential.verdict import Disagreement

# What plain DataFusion says where it refuses a valid query, and the session, whose plan is another one, may answer.
_REFUSALS: dict[str, re.Pattern[str]] = {
    "fields of structs taken out early are lost in subqueries and LATERAL": re.compile(r"__datafusion_extracted"),
    "LATERAL inside LATERAL that names the outermost row": re.compile(r"OuterReferenceColumn"),
    "a function fails on a batch without rows, which an empty table is": re.compile(
        r"run_ends array should be strictly positive|assertion `left != right` failed"
        r"|Unsupported data type Dictionary\(\w+, \w+\) for function abs"
    ),
    "a function over run ends fails on a partition without rows": re.compile(r"concat requires input of at least one"),
    "the type of a list forgets what its items are called": re.compile(r"column types must match schema types"),
    "a correlated subquery on fields of structs stays one": re.compile(r"ScalarSubquery"),
    "LATERAL beside LATERAL loses the columns of one": re.compile(r"No field named"),
}


# What the session refuses and documents: words of the refusal, and what the query then has in it.
_DOCUMENTED_REFUSALS = (
    ("name the field in a subquery, and join that", r"\bjoin\b"),
    # LATERAL beside or inside LATERAL: which of two equal plans the engine tries is a matter of hashes.
    ("does not support logical expression OuterReferenceColumn", r"\blateral\b.*\blateral\b"),
    ("__datafusion_extracted", r"\blateral\b.*\blateral\b"),
)


def is_documented_refusal(refusal: BaseException | None, query: str) -> bool:
    """Whether the session refuses a query that it documents to refuse."""
    return refusal is not None and any(
        words in str(refusal) and re.search(pattern, query) for words, pattern in _DOCUMENTED_REFUSALS
    )


def ends_the_process(way: str, query: str, tables: Iterable[Table]) -> bool:
    """Whether Lance's scan is known to abort on a query: LIKE on a dictionary that has no value."""
    dictionaries = any("dictionary" in str(kind) for table in tables for kind in table.schema.types)
    return way == "lance" and dictionaries and re.search(r"\b(?:i?like|similar|~)", query) is not None


def refusal_reason(refusal: BaseException) -> str | None:
    """The defect that a refusal of plain DataFusion shows, if it is a known one."""
    said = str(refusal)
    return next((reason for reason, pattern in _REFUSALS.items() if pattern.search(said)), None)


@dataclass(frozen=True, slots=True)
class _Defect:
    """What is wrong with a format's own scan: in which queries and tables, and in which words it shows."""

    way: str
    reason: str
    query: str
    words: str


_DEFECTS = (
    _Defect(
        "parquet",
        "a join's dynamic filter prunes the nulls that IS NOT DISTINCT FROM must see",
        r"is not distinct from",
        r"plain DataFusion gives",
    ),
    _Defect("parquet", "statistics leave NaN out, and a filter skips its rows", r"nan", r"plain DataFusion gives"),
    _Defect("parquet", "statistics of an empty file make a selectivity NaN", r"", r"Selectivity is out of limit: NaN"),
    _Defect("parquet", "a join's dynamic filter does not take dictionaries", r"", r"type for ArrayMap: Dictionary"),
    _Defect(
        "parquet",
        "an element of a map in a struct is not read",
        r"\]\[",
        r"but input schema only has|not found in struct|get_field is only possible on maps or structs",
    ),
    _Defect(
        "parquet",
        "a correlated subquery on fields of structs stays one, since its filter goes into the scan",
        r"",
        r"does not support logical expression (?:ScalarSubquery|OuterReferenceColumn)",
    ),
    _Defect("lance", "a map's element in a filter is taken for a column", r"\[", r"Column .* does not exist"),
    _Defect(
        "lance", "a filter that names an outer row cannot be handed over", r"", r"outer_ref\(.*is not yet supported"
    ),
    _Defect(
        "lance", "fields of structs taken out early are lost in LATERAL", r"\blateral\b", r"__datafusion_extracted"
    ),
    _Defect("lance", "filters take the two zeros for one", r"-0\.0|'-0'", r"plain DataFusion gives"),
)


def format_reason(way: str, query: str, tables: Iterable[Table], wrong: Disagreement) -> str | None:
    """The defect of a format's scan that a disagreement shows, if it is a known one."""
    said = "\n".join([query, *map(str, tables)])
    for defect in _DEFECTS:
        if defect.way == way and re.search(defect.query, said) and re.search(defect.words, wrong.words):
            return defect.reason
    return None

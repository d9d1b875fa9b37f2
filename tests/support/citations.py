"""Which guarantees a test cites: the numbers at the start of its docstring, as in ``P2, P7: ...``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_NUMBER = r"[STPLFRC]\d+"
_CITATION = re.compile(rf"\s*({_NUMBER}(?:, {_NUMBER})*)(?::|\s*$)")


def cited_in(docstring: str | None) -> list[str]:
    """The numbers before the first colon. A number anywhere else, such as Amazon S3, is a word."""
    found = _CITATION.match(docstring or "")
    return found[1].split(", ") if found else []


def cited_by_tests(source: str) -> set[str]:
    """What the tests of a module cite: each test function, its class and the module itself."""
    return {number for docstring in _docstrings(ast.parse(source)) for number in cited_in(docstring)}


def _docstrings(node: ast.Module | ast.ClassDef) -> Iterator[str | None]:
    """Those of what pytest collects. A module or class without tests proves nothing."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tests = [each for each in node.body if isinstance(each, functions) and each.name.startswith("test_")]
    classes = [each for each in node.body if isinstance(each, ast.ClassDef) and each.name.startswith("Test")]
    inner = [docstring for each in classes for docstring in _docstrings(each)]
    if tests or inner:
        yield ast.get_docstring(node)
    yield from (ast.get_docstring(test) for test in tests)
    yield from inner

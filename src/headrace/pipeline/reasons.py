"""Why Spark failed, in one line, from a message that has the stacks of Java and Python."""

from __future__ import annotations

import re

# In this order: the last error of a Python worker, the innermost cause in the JVM, what ended a query, a stage or a
# task, and what a call of the JVM raised. Of the first two, the last one counts.
_PYTHON = re.compile(r"^[\w.]*Error: (.+)", re.MULTILINE)
_CAUSED = re.compile(r"^Caused by: ([\w.$]+: .+)$", re.MULTILINE)
_ENDED = (
    re.compile(r"terminated with exception: (.+)"),
    re.compile(r"\(TID \d+\) \(.*?\): (?:[\w.$]+: )?(.+)"),
    re.compile(r"^: (?:[\w.$]+: )?(.+)", re.MULTILINE),
)
_STATE = re.compile(r" SQLSTATE: \w+")


def reason_of(error: BaseException | str) -> str:
    """Return the line of an error's message that says what went wrong."""
    text = str(error).strip()
    for pattern in (_PYTHON, _CAUSED):
        if found := pattern.findall(text):
            return _plain(found[-1])
    for pattern in _ENDED:
        if first := pattern.search(text):
            return _plain(first[1])
    line = text.splitlines()[0] if text else "" if isinstance(error, str) else type(error).__name__
    return _plain(line) or "no message"


def _plain(line: str) -> str:
    return _STATE.sub("", line).strip()

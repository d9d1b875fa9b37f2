"""Why Spark failed, in one line, from a message that has the stacks of Java and Python."""

from __future__ import annotations

import re

# In this order: the last error of a Python worker, what made a task fail, the innermost cause in the JVM, what ended a
# query, and what a call of the JVM raised.
_REASONS = (
    re.compile(r"^[\w.]*Error: (.+)", re.MULTILINE),
    re.compile(r"\(TID \d+\) \(.*?\): (?:[\w.$]+: )?(.+)"),
    re.compile(r"^Caused by: ([\w.$]+: .+)$", re.MULTILINE),
    re.compile(r"terminated with exception: (.+)"),
    re.compile(r"^: (?:[\w.$]+: )?(.+)", re.MULTILINE),
)
_STATE = re.compile(r" SQLSTATE: \w+")


def reason_of(error: BaseException | str) -> str:
    """Return the line of an error's message that says what went wrong."""
    text = str(error).strip()
    for pattern in _REASONS:
        if found := pattern.findall(text):
            return _plain(found[-1])
    line = text.splitlines()[0] if text else "" if isinstance(error, str) else type(error).__name__
    return _plain(line) or "no message"


def _plain(line: str) -> str:
    return _STATE.sub("", line).strip()

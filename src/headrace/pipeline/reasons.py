"""Why Spark failed, in one line, from an error that has the stacks of Java and Python."""

from __future__ import annotations

import re

# In this order: the last error of a Python worker, what made a task fail, and what a call of the JVM raised.
_PYTHON = re.compile(r"^[\w.]*Error: (.+)", re.MULTILINE)
_TASK = re.compile(r"\(TID \d+\) \(.*?\): (?:[\w.$]+: )?(.+)")
_CALL = re.compile(r"^: (?:[\w.$]+: )?(.+)", re.MULTILINE)


def reason_of(error: BaseException) -> str:
    """Return the line of an error's message that says what went wrong."""
    text = str(error).strip()
    if found := _PYTHON.findall(text):
        return str(found[-1]).strip()
    for pattern in (_TASK, _CALL):
        if first := pattern.search(text):
            return first[1].strip()
    return text.splitlines()[0] if text else type(error).__name__

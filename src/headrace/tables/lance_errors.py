"""Translates what Lance raises into headrace's errors: one sentence on what the store answered, and what to do."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator

from headrace.errors import AccessDeniedError, HeadraceError, StorageError, StorageFullError
from headrace.tables.location import Location

# What an object store answered: a status with its reason, and perhaps an XML body.
_STATUS = re.compile(r"status code: (\d{3})(?: ([A-Z][A-Za-z ]*))?")
_CODE = re.compile(r"<Code>([^<]*)</Code>")
_REASON = re.compile(r"<Message>([^<]*)</Message>")
_UNREACHED = re.compile(r"HTTP error: (.*)$", re.MULTILINE)
_HOST = re.compile(r"https?://([^/\s?]+)")

_FULL = ("No space left on device", "Disk quota exceeded")
_DENIED = ("401", "403")
_DENIED_HERE = ("Permission denied", "Operation not permitted", "Read-only file system")

_FREE_SPACE = "free space, or raise the quota; nothing that has landed is lost."
_GRANT = (
    "check the credentials in the storage options or the environment, and their right to list, read, write and delete "
    "under this address."
)
_CONNECT = "check the network, and the endpoint in the storage options."
_HINTS = {
    "404": "check the bucket and the address.",
    "429": "the store is busy; try again later.",
    "500": "the store has a problem; try again later.",
    "503": "the store is busy; try again later.",
}


def lance_errors() -> tuple[type[Exception], ...]:
    """Return the classes that Lance raises for problems with a table, its files or its namespace.

    Evaluated only when something was raised: `lance_namespace` takes a second to import, and most tables do not use it.
    """
    namespaces = sys.modules.get("lance_namespace.errors")
    return (OSError, ValueError, RuntimeError, *([namespaces.LanceNamespaceError] if namespaces else []))


@contextlib.contextmanager
def translated(location: Location, doing: str) -> Iterator[None]:
    """Raise what Lance raises in the block as StorageError.

    Args:
        location: The table; its secrets are removed from the message.
        doing: What the block does, as a gerund phrase for the message.

    Raises:
        StorageError: Lance failed.
    """
    try:
        yield
    except HeadraceError:
        raise
    except lance_errors() as error:
        failed = f"{doing[:1].upper()}{doing[1:]} of {location} failed"
        raise storage_error(failed, location, error) from location.cause(error)


def storage_error(failed: str, location: Location, error: BaseException) -> StorageError:
    """Return the error for an exception of Lance.

    Args:
        failed: What failed, as a clause that begins the message.
        location: The table; its secrets are removed from the message.
        error: What Lance raised.

    Returns:
        An AccessDeniedError if the store refused the credentials, a StorageFullError if there is no space left, else
        a StorageError.
    """
    kind, said, hint = _described(location, error)
    return kind(f"{failed}: {said}.", hint=hint)


def answer_of(location: Location, error: BaseException) -> str:
    """Return what the store answered, in a clause without secrets."""
    return _described(location, error)[1]


def _described(location: Location, error: BaseException) -> tuple[type[StorageError], str, str | None]:
    """Return the class for an exception of Lance, what the store answered, and what to do."""
    text = _without_source_lines(location.redact(str(error)))
    if any(words in text for words in _FULL):
        return StorageFullError, "the disk is full (No space left on device)", _FREE_SPACE
    if (status := _STATUS.search(text)) is not None:
        kind, hint = (AccessDeniedError, _GRANT) if status[1] in _DENIED else (StorageError, _HINTS.get(status[1]))
        return kind, f"the object store answered {_answer(status, text)}", hint
    if any(words in text for words in _DENIED_HERE):
        return AccessDeniedError, text, "let this user read and write the folder."
    if (unreached := _UNREACHED.search(text)) is not None:
        host = _HOST.search(text)
        where = f" at {host[1]}" if host else ""
        return StorageError, f"the object store{where} cannot be reached ({unreached[1]})", _CONNECT
    return StorageError, text.rstrip("."), None


def _answer(status: re.Match[str], text: str) -> str:
    """Return a status with the words of the store's XML body, if there is one."""
    code, reason = _CODE.search(text), _REASON.search(text)
    words = f"{status[1]} {code[1] if code else status[2] or ''}".strip()
    return f"{words}: {reason[1].rstrip('.')}" if reason else words


def _without_source_lines(text: str) -> str:
    """Remove the locations in Lance's Rust source from its message."""
    return ", ".join(part for part in text.split(", ") if ".rs:" not in part)

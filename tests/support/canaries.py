"""Values that stand for secrets, and where they must not be found."""

from __future__ import annotations

import io
import pickle
import uuid
from pathlib import Path
from typing import Any

CANARY = f"canary{uuid.uuid4().hex}"


def with_canaries(options: dict[str, str]) -> dict[str, str]:
    """The store takes any key, so all that is secret can be one; the last name is one that no rule would guess."""
    return options | {"aws_secret_access_key": CANARY, "aws_session_token": CANARY, "aws_plain_thing": CANARY}


def prefixed(options: dict[str, str], prefix: str = "storage.") -> dict[str, str]:
    return {f"{prefix}{name}": value for name, value in options.items()}


class _Parts(pickle.Pickler):
    """Collects the objects of headrace's classes that it pickles."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.found: list[Any] = []

    def reducer_override(self, part: Any) -> Any:
        if type(part).__module__.startswith("headrace"):
            self.found.append(part)
        return NotImplemented


def require_no_text_shows_one(thing: Any) -> None:
    """Neither its own text nor that of any part of it, as far as it pickles; one of them has a canary."""
    assert CANARY.encode() in pickle.dumps(thing)
    parts = _Parts()
    parts.dump(thing)
    assert thing in parts.found
    shown = [type(part).__name__ for part in parts.found if CANARY in f"{part!r} {part}"]
    assert shown == []


def require_clean_folder(folder: Path) -> None:
    found = [path for path in folder.rglob("*") if path.is_file()]
    assert found
    assert [path for path in found if CANARY.encode() in path.read_bytes()] == []

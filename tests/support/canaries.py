"""Values that stand for secrets, and where they must not be found."""

from __future__ import annotations

import uuid
from pathlib import Path

CANARY = f"canary{uuid.uuid4().hex}"


def with_canaries(options: dict[str, str]) -> dict[str, str]:
    """The store takes any key, so all that is secret can be one; the last name is one that no rule would guess."""
    return options | {"aws_secret_access_key": CANARY, "aws_session_token": CANARY, "aws_plain_thing": CANARY}


def prefixed(options: dict[str, str], prefix: str = "storage.") -> dict[str, str]:
    return {f"{prefix}{name}": value for name, value in options.items()}


def require_clean_folder(folder: Path) -> None:
    found = [path for path in folder.rglob("*") if path.is_file()]
    assert found
    assert [path for path in found if CANARY.encode() in path.read_bytes()] == []

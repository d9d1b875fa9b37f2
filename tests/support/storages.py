"""Where a test's tables go."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Storage:
    """Where a test's tables go: the same test runs on each kind."""

    kind: str
    root: str
    storage_options: dict[str, str]

    def uri(self, name: str) -> str:
        return f"{self.root}/{name}.lance"

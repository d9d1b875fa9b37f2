"""What happened, in plain words; recorded only on request, since a seed can be run again."""

from __future__ import annotations


class Story:
    """The lines of one execution."""

    def __init__(self, *, is_told: bool = False) -> None:
        self.is_told = is_told
        self.lines: list[str] = []

    def say(self, who: str, what: str) -> None:
        if self.is_told:
            self.lines.append(f"{len(self.lines) + 1:4}  {who:<12}{what}")

    def __str__(self) -> str:
        return "\n".join(self.lines)

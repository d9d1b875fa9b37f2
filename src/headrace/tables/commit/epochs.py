"""Sets of epochs, stored as ranges, so that their text stays short: `3-5,7`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PART = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


@dataclass(frozen=True, slots=True)
class Epochs:
    """A set of epochs.

    Attributes:
        ranges: The first and last epoch of each range, in order, with a gap between any two.
    """

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, *epochs: int) -> Epochs:
        """Return the set of the given epochs."""
        return _joined([(epoch, epoch) for epoch in epochs])

    @classmethod
    def between(cls, first: int, last: int) -> Epochs:
        """Return all epochs from ``first`` to ``last``, both included."""
        return cls(((first, last),)) if first <= last else cls()

    @classmethod
    def parse(cls, text: str) -> Epochs:
        """Parse the text that ``str`` returns; ignore parts that are not ranges."""
        parts = [_PART.fullmatch(part) for part in text.split(",")]
        return _joined([(int(part[1]), int(part[2] or part[1])) for part in parts if part])

    def __str__(self) -> str:
        return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in self.ranges)

    @property
    def named(self) -> str:
        """The epochs with their noun: ``epoch 3``, ``epochs 3-5``."""
        return f"epoch {self}" if len(self) == 1 else f"epochs {self}"

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def __contains__(self, epoch: int) -> bool:
        return any(first <= epoch <= last for first, last in self.ranges)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges:
            yield from range(first, last + 1)

    def __or__(self, other: Epochs) -> Epochs:
        return _joined([*self.ranges, *other.ranges])

    def __sub__(self, other: Epochs) -> Epochs:
        left = list(self.ranges)
        for gone_first, gone_last in other.ranges:
            pieces = [
                piece
                for first, last in left
                for piece in ((first, min(last, gone_first - 1)), (max(first, gone_last + 1), last))
            ]
            left = [(first, last) for first, last in pieces if first <= last]
        return _joined(left)


NO_EPOCHS = Epochs()


def _joined(ranges: list[tuple[int, int]]) -> Epochs:
    found: list[tuple[int, int]] = []
    for first, last in sorted(pair for pair in ranges if pair[0] <= pair[1]):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return Epochs(tuple(found))

"""Processes that take turns: one runs at a time, and gives way before each call that it makes of the world."""

from __future__ import annotations

from collections.abc import Callable

from greenlet import getcurrent, greenlet

from support.stepping import DiedError


class Process:
    """One of them, from its start to its end.

    Attributes:
        name: What it is called in the story.
        frozen: For how many turns of the world it does not get one.
        is_over: Whether it has ended or was killed.
        is_landing: Whether it is between its look at the table and its commit.
    """

    def __init__(self, name: str, body: Callable[[Process], None]) -> None:
        self.name = name
        self.frozen = 0
        self.is_over = False
        self.is_landing = False
        self._body = body
        self._world = getcurrent()
        self._greenlet = greenlet(self._run, self._world)

    def _run(self) -> None:
        try:
            self._body(self)
        except DiedError:
            pass
        finally:
            self.is_over = True

    def go_on(self) -> None:
        """Gives it its turn, up to its next call or its end; what it does not catch is raised here."""
        self._greenlet.switch()

    def give_way(self) -> None:
        """Called by the process itself: its turn is over, until it gets another."""
        if self.is_over:
            raise DiedError
        self._world.switch()

    def kill(self) -> None:
        """Ends it where it is."""
        self.is_over = True
        if self._greenlet:
            self._greenlet.throw(DiedError)

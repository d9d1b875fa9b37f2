"""How the keys of a pipeline file are written, for errors and hints."""

from __future__ import annotations

import json
from collections.abc import Callable

from headrace.errors import ConfigurationError
from headrace.tables.spelling import Spelling

# The keys of [table] that are not named like the argument of LanceSink.
_KEYS = {"create_table": "create", "storage_options": "storage", "column_types": "columns"}


class PipelineSpelling(Spelling):
    """Keys of a pipeline file.

    Args:
        place: Returns where a key is in the file, as the beginning of an error message.
    """

    flags = ("true", "false")
    address_hint = 'in [table], set uri, as in uri = "orders.lance", or namespace and table_id, not both.'

    def __init__(self, place: Callable[[str], str] = lambda key: "") -> None:
        self._place = place

    def name(self, argument: str) -> str:
        """Return the key with its section."""
        return "name" if argument == "query_id" else f"table.{_KEYS.get(argument, argument)}"

    def setting(self, argument: str, value: str | bool) -> str:
        """Return the line of the file, and the section that it belongs to."""
        section, _, key = self.name(argument).rpartition(".")
        return f"{key} = {json.dumps(value)}" + (f" in [{section}]" if section else "")

    def entry(self, argument: str, key: str) -> str:
        """Return the key of an entry, with its section."""
        return f"{self.name(argument)}.{key}"

    def refusal(
        self, argument: str, message: str, hint: str | None = None, *, key: str | None = None
    ) -> ConfigurationError:
        """Return the error with the line of the key."""
        place = self._place(self.name(argument) if key is None else self.entry(argument, key))
        return ConfigurationError(f"{place}{message}", hint=hint)

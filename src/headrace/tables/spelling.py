"""How users write settings: as Spark options, as arguments in Python, or as keys of a pipeline file.

Every setting has one name in this package, that of ``LanceSink``'s argument. Errors and hints use the user's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headrace.errors import ConfigurationError


class Spelling(Protocol):
    """How a user writes settings.

    Attributes:
        flags: How true and false are written.
        address_hint: How the table's address is given.
    """

    flags: tuple[str, str]
    address_hint: str

    def name(self, argument: str) -> str:
        """Return what the user calls a setting."""

    def setting(self, argument: str, value: str | bool) -> str:
        """Return a setting with a value, as it is named in a sentence."""

    def example(self, argument: str, value: str) -> str:
        """Return a setting with a value, as the user would write it."""
        return self.setting(argument, value)

    def entry(self, argument: str, key: str) -> str:
        """Return what the user calls an entry of a setting that is a mapping."""
        return f'{self.name(argument)}["{key}"]'

    def refusal(
        self, argument: str, message: str, hint: str | None = None, *, key: str | None = None
    ) -> ConfigurationError:
        """Return the error about a setting, or about an entry of it; it may add where that was written."""
        return ConfigurationError(message, hint=hint)

    def number(self, value: object) -> int | None:
        """Return a value as a whole number; None if it is not one."""
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def flag(self, value: object) -> bool | None:
        """Return a value as true or false; None if it is neither."""
        return value if isinstance(value, bool) else None


class PythonSpelling(Spelling):
    """Arguments of a call in Python."""

    flags = ("True", "False")
    address_hint = 'pass uri, as in "s3://bucket/orders.lance", or namespace and table_id, not both.'

    def name(self, argument: str) -> str:
        """Return the argument's own name."""
        return argument

    def setting(self, argument: str, value: str | bool) -> str:
        """Return a keyword argument."""
        return f"{argument}={value}" if isinstance(value, bool) else f'{argument}="{value}"'


@dataclass(frozen=True, slots=True)
class Words:
    """The settings that hints name, in the user's words. The defaults are Spark's options.

    They are text and not a `Spelling`: executors raise such hints too, and cannot import everything the driver can.

    Attributes:
        query_id: The name of the query's key.
        create_table: The setting that creates a missing table.
        merge_schema: The setting that adds columns to the table.
        accept_reset: The setting that accepts a new checkpoint.
        accept_replaced: The setting that accepts a replaced table.
        warn_about_gap: The setting that warns about removed versions.
        file_limits: The settings that limit the size of data files.
        column_types: The name of the setting with the types of new columns.
    """

    query_id: str = "streamingQueryId"
    create_table: str = "createTable=true"
    merge_schema: str = "mergeSchema=true"
    accept_reset: str = "lance.streaming.onCheckpointReset=accept"
    accept_replaced: str = "lance.streaming.onTableReplaced=accept"
    warn_about_gap: str = "lance.streaming.onHistoryGap=warn"
    file_limits: str = "maxRowsPerFile or maxBytesPerFile"
    column_types: str = "columnTypes"

    @classmethod
    def of(cls, spelling: Spelling) -> Words:
        """Return the words of a user who writes settings in this way."""
        return cls(
            spelling.name("query_id"),
            spelling.setting("create_table", True),
            spelling.setting("merge_schema", True),
            spelling.setting("on_checkpoint_reset", "accept"),
            spelling.setting("on_table_replaced", "accept"),
            spelling.setting("on_history_gap", "warn"),
            f"{spelling.name('max_rows_per_file')} or {spelling.name('max_bytes_per_file')}",
            spelling.name("column_types"),
        )

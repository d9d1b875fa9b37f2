"""The address of a Lance table, with its storage options; secrets are never printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from headrace.errors import ConfigurationError

# Values of these options may be shown. Every other option is treated as a secret.
_OPEN_OPTIONS = frozenset(
    ("region", "aws_region", "endpoint", "aws_endpoint", "allow_http", "client_timeout", "timeout", "root")
)
_SHORTEST_SECRET = 4


@dataclass(frozen=True, slots=True)
class Location:
    """A Lance table's address: a URI, or a table in a Lance namespace. It pickles, and prints no secret.

    Attributes:
        uri: The table's URI; empty if the table is found through a namespace.
        storage_options: Credentials and settings for the object store.
        namespace: The implementation of the Lance namespace, such as ``dir`` or ``rest``; empty for none.
        namespace_options: Settings for the namespace.
        table_id: The table's identifier in the namespace, as a tuple of its parts.
    """

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    namespace: str = ""
    namespace_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    table_id: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.uri or f"{self.namespace} namespace table {'.'.join(self.table_id)}"

    def __hash__(self) -> int:
        return hash((self.uri, self.namespace, self.table_id))

    def redact(self, text: str) -> str:
        """Return ``text`` with the values of secret options replaced by ``***``."""
        for options in (self.storage_options, self.namespace_options):
            for name, value in options.items():
                if name.removeprefix("storage.") not in _OPEN_OPTIONS and len(value) >= _SHORTEST_SECRET:
                    text = text.replace(value, "***")
        return text

    def cause(self, error: Exception) -> Exception | None:
        """Return ``error`` for use in ``raise ... from``, or None if its text contains a secret."""
        return error if self.redact(repr(error)) == repr(error) else None

    def options(self) -> dict[str, str] | None:
        """Return the storage options in the form Lance expects; None if there are none."""
        return dict(self.storage_options) or None

    def lance_arguments(self) -> dict[str, Any]:
        """Return the keyword arguments that Lance's functions need besides the URI.

        With a namespace, Lance asks it for credentials, and again when they expire.

        Raises:
            ConfigurationError: The namespace client cannot be created.
        """
        arguments: dict[str, Any] = {"storage_options": self.options()}
        if self.namespace:
            arguments |= {"namespace_client": _connect(self), "table_id": list(self.table_id)}
        return arguments


@lru_cache(maxsize=32)
def _connect(location: Location) -> Any:
    import lance_namespace

    try:
        return lance_namespace.connect(location.namespace, dict(location.namespace_options))
    except Exception as error:  # noqa: BLE001 - a namespace is a plug-in: it may raise anything
        raise ConfigurationError(
            f"Cannot connect to the Lance namespace {location.namespace!r}: {location.redact(repr(error))}",
            hint="set namespace to 'dir' (with its option root), 'rest' (with its option uri), or a full class name.",
        ) from None

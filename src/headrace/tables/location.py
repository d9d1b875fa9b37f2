"""Where a table is, and what it takes to get there; secrets stay inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from headrace.errors import ConfigurationError

# Values of these options may be shown. Whatever is not listed is taken for a secret.
_OPEN_OPTIONS = frozenset(
    ("region", "aws_region", "endpoint", "aws_endpoint", "allow_http", "client_timeout", "timeout", "root")
)
_SHORTEST_SECRET = 4


@dataclass(frozen=True, slots=True)
class Location:
    """A Lance table's address: a URI, or a table of a Lance namespace. It pickles, and prints no secret.

    Attributes:
        uri: The table's URI; empty if it is found through a namespace.
        storage_options: Credentials and settings of the object store.
        namespace: Kind of the Lance namespace, such as ``dir`` or ``rest``; empty for none.
        namespace_options: Settings of the namespace.
        table_id: The table's name inside the namespace, part by part.
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
        """``text`` without the values of this address's secrets."""
        for options in (self.storage_options, self.namespace_options):
            for name, value in options.items():
                if name.removeprefix("storage.") not in _OPEN_OPTIONS and len(value) >= _SHORTEST_SECRET:
                    text = text.replace(value, "***")
        return text

    def cause(self, error: Exception) -> Exception | None:
        """``error``, to be raised from, unless its text holds a secret."""
        return error if self.redact(repr(error)) == repr(error) else None

    def options(self) -> dict[str, str] | None:
        """The storage options as Lance wants them."""
        return dict(self.storage_options) or None

    def lance_arguments(self) -> dict[str, Any]:
        """How Lance's functions are told the address, except for the URI.

        Given a namespace, Lance asks it for credentials and for fresh ones when they expire.

        Raises:
            ConfigurationError: The namespace cannot be reached.
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
            f"The Lance namespace {location.namespace!r} cannot be used: {location.redact(repr(error))}",
            hint="namespace is 'dir' (with namespace.root), 'rest' (with namespace.uri), or a class's full name.",
        ) from None

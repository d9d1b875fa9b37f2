"""The settings of a session, checked before the engine is created."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from headrace._checks import require_count
from headrace.errors import ConfigurationError, InvalidArgumentError

_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*$", re.IGNORECASE)
_CONFIG_KEY = re.compile(r"datafusion(\.[a-z0-9_]+)+")
_LARGEST = 2**63 - 1
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True, slots=True)
class Settings:
    """The checked arguments of a SessionContext, which documents each of them."""

    target_partitions: int | None = None
    batch_size: int | None = None
    memory_limit: int | None = None
    spill: bool | Path = True
    ordered: bool = True
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        """The number of partitions that the engine plans for, by default one per core."""
        configured = self.config.get("datafusion.execution.target_partitions")
        if configured is not None and configured.isdigit() and int(configured):
            return int(configured)
        return self.target_partitions or os.cpu_count() or 1

    @property
    def has_free_batch_rows(self) -> bool:
        """Whether the session may choose how many rows the engine's batches have."""
        is_set = self.batch_size is not None or "datafusion.execution.batch_size" in self.config
        return not is_set and self.memory_limit is None

    @property
    def default_place(self) -> tuple[str, str]:
        """The default catalog and schema."""
        catalog = self.config.get("datafusion.catalog.default_catalog", "datafusion")
        return catalog, self.config.get("datafusion.catalog.default_schema", "public")


def parse_settings(
    *,
    target_partitions: int | None,
    batch_size: int | None,
    memory_limit: int | str | None,
    spill: bool | str | Path,
    ordered: bool,
    low_latency: bool,
    config: Mapping[str, object] | None,
) -> Settings:
    """Check the arguments of a SessionContext.

    Raises:
        ConfigurationError: A setting is unknown or has an invalid value; the message names it and its valid values.
    """
    if config is not None and not isinstance(config, Mapping):
        raise ConfigurationError(f"config must be a mapping of engine settings, not {config!r}.")
    for name, value in (("ordered", ordered), ("low_latency", low_latency)):
        if not isinstance(value, bool):
            raise ConfigurationError(f"{name} must be True or False, not {value!r}.")
    if not isinstance(spill, (bool, str, Path)) or spill == "":
        raise ConfigurationError(f"spill must be True, False or a folder, not {spill!r}.")
    if isinstance(spill, (str, Path)) and not Path(spill).is_dir():
        raise ConfigurationError(f"The folder given as spill does not exist: {str(spill)!r}.", hint="create it first.")
    engine = {_config_key(key): _config_value(value) for key, value in (config or {}).items()}
    if engine.get("datafusion.execution.batch_size") == "0":
        raise ConfigurationError("The engine setting 'datafusion.execution.batch_size' must be at least 1, not 0.")
    return Settings(
        target_partitions=_count(target_partitions, "target_partitions"),
        batch_size=_count(batch_size, "batch_size"),
        memory_limit=None if memory_limit is None else _bytes(memory_limit),
        spill=spill if isinstance(spill, bool) else Path(spill),
        ordered=ordered,
        config=engine,
    )


def _count(value: int | None, what: str) -> int | None:
    try:
        count = None if value is None else require_count(value, what)
    except InvalidArgumentError as error:
        raise ConfigurationError(str(error)) from None
    if count is not None and count > _LARGEST:
        raise ConfigurationError(f"{what} must be at most {_LARGEST}, not {count}.")
    return count


def _bytes(value: object) -> int:
    match = _SIZE.match(value) if isinstance(value, str) else None
    size = 0
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif match:
        number, unit, binary = match.groups()
        base = 1024 if binary or not unit else 1000
        size = int(Decimal(number) * base ** _POWERS[unit.lower()])
    if not 1 <= size <= _LARGEST:
        raise ConfigurationError(
            f"memory_limit must be a number of bytes of at least 1, or a size such as '512MB' or '2GiB', not {value!r}."
        )
    return size


def _config_key(key: object) -> str:
    if not isinstance(key, str) or not _CONFIG_KEY.fullmatch(key):
        raise ConfigurationError(
            f"Unknown engine setting {key!r}.", hint="engine settings start with 'datafusion.'; see SHOW ALL."
        )
    return key


def _config_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

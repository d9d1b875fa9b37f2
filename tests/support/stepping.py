"""Stores that can be steered: something happens before, or instead of, any one call that the protocol makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.tables.store import Column, Entry, Operation, Published, Snapshot, Store


class DiedError(BaseException):
    """The process is gone: nothing of the protocol's runs after it. No part of it may catch this."""


@dataclass
class Steps:
    """Counts the calls of one driver, and runs what is to happen before or after the one that is named.

    Attributes:
        before: Before the call with that number.
        after: After it was done, and before its answer is heard.
        named: Before every call of that name.
        calls: The calls so far.
    """

    before: Mapping[int, Callable[[], object]] = field(default_factory=dict)
    after: Mapping[int, Callable[[], object]] = field(default_factory=dict)
    named: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def step(self, name: str, call: Callable[[], Any]) -> Any:
        number = len(self.calls)
        self.calls.append(name)
        if name in self.named:
            self.named[name]()
        if number in self.before:
            self.before[number]()
        answer = call()
        if number in self.after:
            self.after[number]()
        return answer


@dataclass
class SteppedSnapshot:
    """A snapshot whose reads are steps."""

    inner: Snapshot
    steps: Steps

    @property
    def version(self) -> int:
        return self.inner.version

    @property
    def schema(self) -> pa.Schema:
        return self.inner.schema

    def columns(self) -> Mapping[int, Column]:
        return self.inner.columns()

    def columns_of_new(self, schema: pa.Schema) -> Mapping[int, Column]:
        return self.inner.columns_of_new(schema)

    def entry(self, version: int) -> Entry | None:
        found: Entry | None = self.steps.step("entry", lambda: self.inner.entry(version))
        return found

    def kept_versions(self, above: int) -> Sequence[int]:
        kept: Sequence[int] = self.steps.step("kept_versions", lambda: self.inner.kept_versions(above))
        return kept

    def latest(self) -> int:
        newest: int = self.steps.step("latest", self.inner.latest)
        return newest

    def tagged(self) -> Set[int]:
        tagged: Set[int] = self.steps.step("tagged", self.inner.tagged)
        return tagged

    def data_files(self, version: int) -> Set[str]:
        files: Set[str] = self.steps.step("data_files", lambda: self.inner.data_files(version))
        return files


@dataclass
class SteppedStore:
    """A store whose calls are steps."""

    inner: Store
    steps: Steps = field(default_factory=Steps)

    def open(self) -> SteppedSnapshot:
        return SteppedSnapshot(self.steps.step("open", self.inner.open), self.steps)

    def publish(self, operation: Operation, *, read_version: int, properties: Mapping[str, str]) -> Published:
        published: Published = self.steps.step(
            f"publish {type(operation).__name__}",
            lambda: self.inner.publish(operation, read_version=read_version, properties=properties),
        )
        return published

    def missing_files(self, files: Sequence[str]) -> list[str]:
        missing: list[str] = self.steps.step("missing_files", lambda: self.inner.missing_files(files))
        return missing

    def delete_files(self, files: Sequence[str]) -> None:
        self.steps.step("delete_files", lambda: self.inner.delete_files(files))

    def list_notes(self) -> Sequence[str]:
        names: Sequence[str] = self.steps.step("list_notes", self.inner.list_notes)
        return names

    def delete_note(self, name: str) -> None:
        self.steps.step("delete_note", lambda: self.inner.delete_note(name))

    def read_note(self, name: str) -> str | None:
        note: str | None = self.steps.step("read_note", lambda: self.inner.read_note(name))
        return note

    def write_note(self, name: str, text: str) -> None:
        self.steps.step("write_note", lambda: self.inner.write_note(name, text))


def raising(error: BaseException) -> Callable[[], object]:
    """Something that happens: an error."""

    def fail() -> object:
        raise error

    return fail

"""What is pinned, what is shipped, and that the files which say so agree."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import headrace

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCKS = ("requirements.txt", "requirements-dev.txt")


def entries(lock: str) -> list[str]:
    """The lines of a requirements file, continued lines joined and comments left out."""
    text = (ROOT / lock).read_text("utf-8").replace("\\\n", " ")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def pins(lock: str) -> dict[str, set[str]]:
    """Each package's name and its versions: more than one where Pythons or platforms differ."""
    found: dict[str, set[str]] = {}
    for entry in entries(lock):
        requirement = Requirement(entry.partition("--hash")[0])
        (exact,) = requirement.specifier
        assert exact.operator == "==", entry
        found.setdefault(canonicalize_name(requirement.name), set()).add(exact.version)
    return found


def unmet(wanted: Iterable[str], lock: str) -> list[str]:
    """The requirements that the lock does not pin, or pins to a version they do not admit."""
    pinned = pins(lock)
    return [
        text
        for text in wanted
        for requirement in [Requirement(text)]
        for versions in [pinned.get(canonicalize_name(requirement.name), set())]
        if not versions or not all(requirement.specifier.contains(version) for version in versions)
    ]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_carries_hashes_and_nothing_else(lock: str) -> None:
    """Neither an option nor an address: where packages come from is the business of who installs."""
    assert entries(lock)
    for entry in entries(lock):
        assert re.fullmatch(r"[a-z0-9-]+==\S+( ; [^-]+?)?(\s+--hash=sha256:[0-9a-f]{64})+", entry), entry
    assert "http" not in (ROOT / lock).read_text("utf-8")


def test_the_development_lock_holds_every_pin_of_the_lock_for_use() -> None:
    """What is tested is what is used."""
    use, dev = map(pins, LOCKS)
    assert {name: dev.get(name) for name in use} == use


def test_the_locks_satisfy_what_the_project_asks_for() -> None:
    """A bound moved in pyproject.toml without `make lock` fails here."""
    dependencies = PROJECT["project"]["dependencies"]
    assert unmet(dependencies, "requirements.txt") == []
    extra = PROJECT["project"]["optional-dependencies"]["spark"]
    assert unmet(dependencies + extra + PROJECT["dependency-groups"]["dev"], "requirements-dev.txt") == []
    assert unmet(PROJECT["build-system"]["requires"], "requirements-dev.txt") == []


def test_the_wheel_has_the_version_the_package_its_types_and_its_license(tmp_path: Path) -> None:
    """Built as a user's installer would build it, with the pinned backend. The version is written in one place."""
    assert "version" in PROJECT["project"]["dynamic"]
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.iterdir()
    assert wheel.name.split("-")[:2] == ["headrace", headrace.__version__]
    names = zipfile.ZipFile(wheel).namelist()
    assert {"headrace/__init__.py", "headrace/py.typed"} <= set(names)
    assert any(name.endswith("/LICENSE") for name in names)
    packages = {"headrace", "pyspark_headrace", "pyspark_headrace_name"}
    assert {name.partition("/")[0].partition("-")[0] for name in names} == packages

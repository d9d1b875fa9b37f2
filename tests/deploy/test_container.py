"""The Dockerfile, as far as it can be checked without building the image."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from headrace.cli.run import run
from headrace.pipeline.java import OLDEST
from headrace.ui import RunStatus, serve
from support.deadlines import PROGRAM_SECONDS
from support.deployed import DEPLOY, ROOT

INSTRUCTIONS = {"FROM", "RUN", "ARG", "USER", "WORKDIR", "VOLUME", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


def instructions() -> list[tuple[str, str]]:
    """The instructions and their arguments, in order; continued lines are joined."""
    text = re.sub(r"^\s*#.*\n", "", (DEPLOY / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    lines = [line.strip() for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines]


def argument(instruction: str) -> str:
    """The argument of an instruction that is there once."""
    (found,) = [each for name, each in instructions() if name == instruction]
    return found


def health_check() -> list[str]:
    """The command of HEALTHCHECK."""
    found = json.loads(argument("HEALTHCHECK").partition("CMD ")[2])
    assert isinstance(found, list)
    return found


def test_the_dockerfile_is_made_of_instructions() -> None:
    """C27: the image is built from a Python that headrace supports, and checks itself."""
    assert {name for name, _ in instructions()} == INSTRUCTIONS
    assert instructions()[0][0] == "FROM"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (python,) = re.findall(r"^python:(\d+\.\d+)-slim", argument("FROM"))
    assert f"Programming Language :: Python :: {python}" in project["classifiers"]


def test_the_image_has_every_extra_that_the_command_needs_and_a_java_that_spark_accepts() -> None:
    """C27: the names are those of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = Requirement(argument("ARG").partition("=")[2].strip("'"))
    assert wanted.name == project["name"]
    assert wanted.extras == set(project["optional-dependencies"])
    commands = " ".join(each for name, each in instructions() if name == "RUN")
    assert '"${HEADRACE}"' in commands
    assert [int(version) for version in re.findall(r"openjdk-(\d+)-jre-headless", commands)] == [OLDEST]


def test_signals_reach_headrace() -> None:
    """C27: the command is started without a shell, by an init that passes signals on."""
    assert json.loads(argument("ENTRYPOINT")) == ["tini", "--", "headrace"]
    assert any(name == "RUN" and " tini " in each for name, each in instructions())


def test_headrace_accepts_the_command_of_the_image() -> None:
    """C27: the options are those of this version, and the page has the port that HEALTHCHECK asks."""
    command, *arguments = json.loads(argument("CMD"))
    assert command == run.name
    given = run.make_context("run", arguments).params
    assert (given["pipeline"], given["once"]) == (Path("pipeline.toml"), False)
    assert re.findall(r"http://127\.0\.0\.1:(\d+)/healthz", health_check()[2]) == [str(given["ui"])]


def test_the_image_runs_as_a_user_without_rights() -> None:
    """C27: from then on, in the folder that is mounted."""
    names = [name for name, _ in instructions()]
    assert argument("USER") == "headrace"
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert argument("WORKDIR") == argument("VOLUME")


def test_the_health_check_fails_when_the_run_has() -> None:
    """C27: the check itself, against the page."""

    def exit_code(port: str) -> int:
        python, *arguments = health_check()
        assert python == "python"
        command = [sys.executable, *(each.replace(":8080/", f":{port}/") for each in arguments)]
        return subprocess.run(command, check=False, capture_output=True, timeout=PROGRAM_SECONDS).returncode

    board = RunStatus("orders", "orders.lance")
    with serve(board, 0) as page:
        port = page.url.rstrip("/").rpartition(":")[2]
        assert exit_code(port) == 0
        board.fail("the bucket is gone")
        assert exit_code(port) == 1
    assert exit_code(port) == 1
